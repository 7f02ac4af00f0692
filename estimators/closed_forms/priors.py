"""Losses and penalties of clients with a common prior, and learning that prior from many clients.

Model: theta_i from a population (Gaussian, Laplace or a mixture of Gaussians), responses given theta_i Gaussian around
X_i theta_i or Bernoulli with log-odds X_i theta_i.  A loss or penalty is minus a log-density with all its constants, so
that variances can be learned with it; each comes with its gradient.

The joint density of parameters and responses has no largest value over the population's variance: it grows without
bound as sigma2_theta and the spread of the parameters shrink together (generative:eq19).  `fit_population` therefore
maximises the marginal likelihood of the responses, which has a largest value.  One client's posterior is in
``regression``; the distillation prior is in ``distillation``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from estimators.closed_forms import regression
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.rows import all_finite, read_rows
from estimators.numerics.validation import count, finite, nonnegative, paired, positive, single

__all__ = [
    "PopulationFit",
    "best_variance",
    "em_step",
    "fit_population",
    "gaussian_loss",
    "gaussian_penalty",
    "joint_objective",
    "laplace_penalty",
    "laplace_scale",
    "logistic_loss",
    "marginal_objective",
    "mixture_penalty",
]

LOG_2PI = np.log(2 * np.pi)


def read_parameters(thetas: ArrayLike) -> Floats:
    """Check parameters of shape (clients, coordinates)."""
    thetas = finite("thetas", thetas)
    if thetas.ndim != 2 or thetas.size == 0:
        raise ValueError(f"thetas must have shape (clients, coordinates), got {thetas.shape}")
    return thetas


def read_centre(mu: ArrayLike, d: int) -> Floats:
    """Check a centre: one number or one entry per coordinate."""
    mu = finite("mu", mu)
    if mu.shape not in ((), (d,)):
        raise ValueError(f"mu must be one number or have {d} entries, one per coordinate, got shape {mu.shape}")
    return np.broadcast_to(mu, (d,))


def read_sample(X: ArrayLike, Y: ArrayLike, theta: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Check one client's design (n, d), responses (n,) and parameter (d,)."""
    X, Y, theta = finite("X", X), finite("Y", Y), finite("theta", theta)
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"X must have shape (samples, coefficients), got {X.shape}")
    if Y.shape != X.shape[:1]:
        raise ValueError(f"Y must have one response per row of X, {X.shape[:1]}, got shape {Y.shape}")
    if theta.shape != X.shape[1:]:
        raise ValueError(f"theta must have one entry per column of X, {X.shape[1:]}, got shape {theta.shape}")
    return X, Y, theta


@paired
def gaussian_penalty(thetas: ArrayLike, mu: ArrayLike, sigma2_theta: float) -> tuple[float, Floats]:
    """Minus the log-density of parameters from N(mu, sigma2_theta I), and its gradient; exact.

    Claim: generative:eq12:gauss.

    Parameters
    ----------
    thetas : array (m, d); mu : number or array (d,), units of theta.
    sigma2_theta : variance > 0 of a coordinate.

    Returns
    -------
    value : nats; gradient : array (m, d).

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain or has the wrong shape.

    >>> value, gradient = gaussian_penalty([[1.0], [3.0]], 2.0, 1.0)
    >>> round(float(value), 6), gradient.tolist()
    (2.837877, [[-1.0], [1.0]])
    """
    thetas = read_parameters(thetas)
    v = single(positive, "sigma2_theta", sigma2_theta)
    gaps = thetas - read_centre(mu, thetas.shape[1])
    return thetas.size / 2 * (LOG_2PI + np.log(v)) + np.sum(gaps**2) / (2 * v), gaps / v


@paired
def laplace_penalty(thetas: ArrayLike, mu: ArrayLike, b: float) -> tuple[float, Floats]:
    """Minus the log-density of parameters with independent Laplace coordinates, and a subgradient; exact.

    Claim: generative:eq12:laplace (the paper's normaliser lacks the factor d).

    Parameters
    ----------
    thetas : array (m, d); mu : number or array (d,); b : scale > 0, units of theta.

    >>> value, gradient = laplace_penalty([[1.0, 3.0]], 2.0, 0.5)
    >>> float(value), gradient.tolist()
    (4.0, [[-2.0, 2.0]])
    """
    thetas = read_parameters(thetas)
    b = single(positive, "b", b)
    gaps = thetas - read_centre(mu, thetas.shape[1])
    return thetas.size * np.log(2 * b) + np.sum(np.abs(gaps)) / b, np.sign(gaps) / b


@paired
def laplace_scale(thetas: ArrayLike, mu: ArrayLike) -> float:
    """Scale b that minimises `laplace_penalty`: the mean absolute deviation of a coordinate.

    Claim: generative:eq12:laplace:scale.

    >>> laplace_scale([[1.0, 3.0], [2.0, 6.0]], 2.0)
    1.5
    """
    thetas = read_parameters(thetas)
    return float(np.mean(np.abs(thetas - read_centre(mu, thetas.shape[1]))))


@paired
def mixture_penalty(thetas: ArrayLike, p: ArrayLike, mus: ArrayLike, sigma2_thetas: ArrayLike) -> tuple[float, Floats]:
    """Minus the log-density of parameters from a mixture of Gaussians, and its gradient; exact.

    Claims: generative:eq12:mixture, generative:alg4 (the printed forms are wrong).

    Parameters
    ----------
    thetas : array (m, d).
    p : array (k,) of weights > 0 that add to one; mus : array (k, d) of centres.
    sigma2_thetas : array (k,) of variances > 0 of a coordinate in each component.

    >>> value, gradient = mixture_penalty([[0.0]], [0.5, 0.5], [[-1.0], [1.0]], [1.0, 1.0])
    >>> round(float(value), 6), gradient.tolist()
    (1.418939, [[0.0]])
    """
    thetas = read_parameters(thetas)
    d = thetas.shape[1]
    p, mus, v = positive("p", p), finite("mus", mus), positive("sigma2_thetas", sigma2_thetas)
    if p.ndim != 1 or mus.shape != (p.size, d) or v.shape != p.shape:
        raise ValueError(
            f"p and sigma2_thetas need one entry and mus one row of {d} per component, got {p.shape}, {v.shape}, {mus.shape}"
        )
    if abs(p.sum() - 1) > 1e-9:
        raise ValueError(f"p must add to one, it adds to {p.sum()}; divide it by its sum")
    gaps = thetas[:, None, :] - mus
    logs = np.log(p) - d / 2 * (LOG_2PI + np.log(v)) - np.sum(gaps**2, axis=2) / (2 * v)
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1, keepdims=True)
    return -np.sum(top + np.log(total)), np.einsum("ml,mld->md", shares / total / v, gaps)


@paired
def gaussian_loss(X: ArrayLike, Y: ArrayLike, theta: ArrayLike, sigma2_x: float) -> tuple[float, Floats]:
    """Minus the log-likelihood of responses N(X theta, sigma2_x I), and its gradient in theta; exact.

    Claims: generative:eq12:linear, generative:eq14.

    Parameters
    ----------
    X : array (n, d); Y : array (n,); theta : array (d,); sigma2_x : variance > 0 of a response.

    >>> value, gradient = gaussian_loss([[2.0]], [3.0], [1.0], 1.0)
    >>> round(float(value), 6), gradient.tolist()
    (1.418939, [-2.0])
    """
    X, Y, theta = read_sample(X, Y, theta)
    v = single(positive, "sigma2_x", sigma2_x)
    residuals = Y - X @ theta
    return Y.size / 2 * (LOG_2PI + np.log(v)) + residuals @ residuals / (2 * v), -X.T @ residuals / v


@paired
def logistic_loss(X: ArrayLike, Y: ArrayLike, theta: ArrayLike) -> tuple[float, Floats]:
    """Minus the log-likelihood of labels with log-odds X theta, and its gradient in theta; exact.

    Claims: generative:eq12:logistic, generative:eq20 (printed with the opposite sign).

    Parameters
    ----------
    X : array (n, d); Y : array (n,) of 0 and 1; theta : array (d,).

    >>> value, gradient = logistic_loss([[1.0]], [1], [0.0])
    >>> round(float(value), 6), gradient.tolist()
    (0.693147, [-0.5])
    """
    X, Y, theta = read_sample(X, Y, theta)
    if not np.isin(Y, (0.0, 1.0)).all():
        raise ValueError("Y must hold only 0 and 1; recode the labels")
    signed = (2 * Y - 1) * (X @ theta)
    # sigma(z) - y is minus the label's sign times the probability of the other label.
    return np.sum(np.logaddexp(0.0, -signed)), -X.T @ ((2 * Y - 1) * np.exp(-np.logaddexp(0.0, signed)))


@paired
def best_variance(thetas: ArrayLike, mu: ArrayLike, b: ArrayLike = 0.0) -> float:
    """Prior variance of a coordinate that fits given parameters best, (2b + sum |theta_i - mu|^2)/(m d); exact.

    With b = 0 the fit of parameters and variance together collapses (generative:eq19); a penalty b/sigma2_theta on the
    objective prevents it.  Claims: generative:eq19:variance, generative:eq19:penalised.

    Parameters
    ----------
    thetas : array (m, d); mu : number or array (d,); b : strength >= 0 of the penalty, units of theta squared.

    >>> best_variance([[1.0], [3.0]], 2.0, b=1.0)
    2.0
    """
    thetas = read_parameters(thetas)
    b = single(nonnegative, "b", b)
    return float((2 * b + np.sum((thetas - read_centre(mu, thetas.shape[1])) ** 2)) / thetas.size)


def read_clients(Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike]) -> tuple[list[Floats], list[Floats], int]:
    """Check lists of designs and responses, one entry per client; returns lists of arrays and d."""
    designs, responses = read_rows(Xs, Ys)
    all_finite(designs, responses)
    for i, X in enumerate(designs):
        if X.size == 0:
            raise ValueError(f"Xs[{i}] must hold at least one sample, got shape {X.shape}; leave the client out")
    return designs, responses, designs[0].shape[1]


@paired
def joint_objective(
    Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike], thetas: ArrayLike, mu: ArrayLike, sigma2_theta: float, sigma2_x: float
) -> float:
    """Minus the log-density of all parameters and responses; exact.  Claims: generative:eq14, generative:eq19.

    Fit parameters with known variances by it, not variances: over sigma2_theta it has no minimum
    (generative:eq19); use `marginal_objective` or `fit_population`.

    Parameters
    ----------
    Xs, Ys : lists with one design (n_i, d) and one response vector (n_i,) per client; thetas : array (m, d).
    mu : number or array (d,); sigma2_theta, sigma2_x : variances > 0.

    >>> round(float(joint_objective([[[1.0]]], [[1.0]], [[1.0]], 0.0, 1.0, 1.0)), 6)
    2.337877
    """
    designs, responses, d = read_clients(Xs, Ys)
    thetas = read_parameters(thetas)
    if thetas.shape != (len(designs), d):
        raise ValueError(f"thetas must have shape {(len(designs), d)}, got {thetas.shape}")
    losses = [gaussian_loss(X, Y, t, sigma2_x)[0] for X, Y, t in zip(designs, responses, thetas, strict=True)]
    return sum(losses) + gaussian_penalty(thetas, mu, sigma2_theta)[0]


@paired
def marginal_objective(
    Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike], mu: ArrayLike, sigma2_theta: float, sigma2_x: float
) -> tuple[float, tuple[Floats, float, float]]:
    """Minus the log-likelihood of all responses with the parameters integrated out, and its gradient; exact.

    Y_i ~ N(X_i mu, sigma2_theta X_i X_i' + sigma2_x I).  Unlike the joint objective it is bounded below for a known
    sigma2_x, and over sigma2_x too where some client's responses lie outside its column space
    (generative:eq19:marginal-floor).  Gradient by Fisher's identity: generative:eq19:fisher.

    Parameters
    ----------
    Xs, Ys : as in `joint_objective`; mu : number or array (d,); sigma2_theta, sigma2_x : variances > 0.

    Returns
    -------
    value : nats; gradient : (array (d,), number, number) in mu, sigma2_theta, sigma2_x.

    >>> value, (by_mu, by_theta, by_x) = marginal_objective([[[1.0]]], [[2.0]], 0.0, 1.0, 1.0)
    >>> round(float(value), 6), by_mu.tolist(), float(by_theta), float(by_x)
    (2.265512, [-1.0], -0.25, -0.25)
    """
    designs, responses, d = read_clients(Xs, Ys)
    v, s, mu = single(positive, "sigma2_theta", sigma2_theta), single(positive, "sigma2_x", sigma2_x), read_centre(mu, d)
    value, slopes = 0.0, [np.zeros(d), 0.0, 0.0]
    for X, Y in zip(designs, responses, strict=True):
        n = Y.size
        covariance = v * X @ X.T + s * np.eye(n)
        residuals = Y - X @ mu
        weighed = np.linalg.solve(covariance, residuals)
        inverse = np.linalg.inv(covariance)
        value += (n * LOG_2PI + np.linalg.slogdet(covariance)[1] + residuals @ weighed) / 2
        slopes[0] = slopes[0] - X.T @ weighed
        slopes[1] += (np.sum(inverse * (X @ X.T)) - np.sum((X.T @ weighed) ** 2)) / 2
        slopes[2] += (np.trace(inverse) - weighed @ weighed) / 2
    return value, tuple(slopes)


@paired
def em_step(
    Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike], mu: ArrayLike, sigma2_theta: float, sigma2_x: float
) -> tuple[Floats, float, float]:
    """One step of expectation-maximisation for mu, sigma2_theta and sigma2_x; exact.

    Replaces the averages of Algorithm 2 over plugged-in parameters by averages over their posteriors, which is a
    gradient step on `marginal_objective` that never leaves the domain.  Claim: generative:eq19:em.

    Parameters
    ----------
    Xs, Ys : as in `joint_objective`; mu : number or array (d,); sigma2_theta, sigma2_x : variances > 0.

    Returns
    -------
    mu : array (d,); sigma2_theta, sigma2_x : numbers >= 0; together they do not increase `marginal_objective`.

    >>> mu, v, s = em_step([[[1.0]], [[1.0]]], [[0.0], [4.0]], 2.0, 1.0, 1.0)
    >>> mu.tolist(), float(v), float(s)
    ([2.0], 1.5, 1.5)
    """
    designs, responses, d = read_clients(Xs, Ys)
    v, s, mu = single(positive, "sigma2_theta", sigma2_theta), single(positive, "sigma2_x", sigma2_x), read_centre(mu, d)
    return Reduced.of(designs, responses).step(mu, v, s)[:3]


@dataclass(frozen=True)
class Reduced:
    """What the likelihood needs of the clients' data, in the coordinates of each design's singular vectors.

    Attributes: Vt (m, d, d) right singular vectors, power (m, d) squared singular values, local (m, d) least-squares
    estimates in those coordinates (0 where the data say nothing), rss (number) squared residuals, n_all responses.
    """

    Vt: np.ndarray
    power: np.ndarray
    local: np.ndarray
    rss: float
    n_all: int

    @classmethod
    def of(cls, designs: list[Floats], responses: list[Floats]) -> Self:
        """Decompose every client's design once."""
        Vts, powers, locals_, rss = [], [], [], 0.0
        for X, Y in zip(designs, responses, strict=True):
            U, singular, Vt = regression.read_design(X)
            used = np.flatnonzero(singular)
            estimate = np.zeros(X.shape[1])
            estimate[used] = U[:, used].T @ Y / singular[used]
            rss += np.sum((Y - X @ (Vt.T @ estimate)) ** 2)
            Vts.append(Vt)
            powers.append(singular**2)
            locals_.append(estimate)
        return cls(np.stack(Vts), np.stack(powers), np.stack(locals_), float(rss), sum(Y.size for Y in responses))

    def step(self, mu: Floats, v: float, s: float) -> tuple[Floats, float, float, Floats]:
        """New mu, sigma2_theta, sigma2_x of an EM step, and the posterior means (m, d) that it averaged.

        Deviations are taken from the old mu, as in Algorithm 2.
        """
        centre = self.Vt @ mu
        total = s + v * self.power
        pull = v * self.power / total * (self.local - centre)
        C = v * s / total
        rest = s / total * (self.local - centre)
        noise = self.rss + np.sum(self.power * (rest**2 + C))
        means = np.einsum("mji,mj->mi", self.Vt, centre + pull)
        return means.mean(axis=0), (np.sum(pull**2) + np.sum(C)) / C.size, noise / self.n_all, means

    def loss(self, mu: Floats, v: float, s: float) -> float:
        """Minus the log-likelihood of all responses."""
        total = s + v * self.power
        fit = np.sum(self.power * (self.local - self.Vt @ mu) ** 2 / total) + self.rss / s
        logs = np.sum(np.log(total)) + (self.n_all - total.size) * np.log(s)
        return (self.n_all * LOG_2PI + logs + fit) / 2


@dataclass(frozen=True)
class PopulationFit:
    """A population learned from clients' data.

    Attributes: mu (d,), sigma2_theta, sigma2_x, thetas (m, d) posterior means, log_likelihood of the responses,
    n_iter, converged.
    """

    mu: np.ndarray
    sigma2_theta: float
    sigma2_x: float
    thetas: np.ndarray
    log_likelihood: float
    n_iter: int
    converged: bool


@paired
def fit_population(
    Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike], max_iter: int = 10_000, tol: float = 1e-10
) -> PopulationFit:
    """Population centre and variances of largest marginal likelihood, by expectation-maximisation; a local optimum.

    Claims: generative:eq19:em (the step), generative:eq19:marginal-floor (a largest likelihood exists).

    Parameters
    ----------
    Xs, Ys : as in `joint_objective`; at least two clients, and together more responses than coefficients to fit
        (the responses must not be interpolated, or the likelihood is unbounded as sigma2_x vanishes).
    max_iter : whole number >= 1; tol : smallest relative gain of the log-likelihood per step to go on.

    >>> rng = np.random.default_rng(0)
    >>> thetas = rng.normal(3.0, 2.0, 400)
    >>> fit = fit_population([np.ones((5, 1))] * 400, [t + rng.normal(0.0, 1.0, 5) for t in thetas])
    >>> fit.converged, fit.mu.round(1).tolist(), round(fit.sigma2_theta, 1), round(fit.sigma2_x, 1)
    (True, [2.9], 3.8, 1.0)
    """
    designs, responses, _ = read_clients(Xs, Ys)
    max_iter, tol = int(single(count, "max_iter", max_iter)), single(positive, "tol", tol)
    if len(designs) < 2:
        raise ValueError("Xs must hold at least two clients; one client says nothing about how clients vary")
    data = Reduced.of(designs, responses)
    if data.rss <= 1e-24 * sum(np.sum(Y**2) for Y in responses):
        raise ValueError(
            "Xs interpolates every response, so sigma2_x cannot be told from sigma2_theta; give clients more samples "
            "than coefficients"
        )
    local = np.einsum("mji,mj->mi", data.Vt, data.local)
    mu, s = local.mean(axis=0), data.rss / data.n_all
    v = max(float(np.mean((local - mu) ** 2)), s)
    trace = [-data.loss(mu, v, s)]
    converged = False
    while not converged and len(trace) <= max_iter:
        mu, v, s, _ = data.step(mu, v, s)
        trace.append(-data.loss(mu, v, s))
        converged = trace[-1] - trace[-2] <= tol * (1 + abs(trace[-1]))
    thetas = data.step(mu, v, s)[3]
    return PopulationFit(mu, float(v), float(s), thetas, float(trace[-1]), len(trace) - 1, bool(converged))
