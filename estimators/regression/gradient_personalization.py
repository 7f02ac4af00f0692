"""Gradient algorithms that fit every client's model together with the population it comes from, as published and mended.

Belongs here: Algorithms 2, 3, 4 and 7 of the generative framework for personalised learning (Ozkara et al. 2023), runnable
as printed with ``as_printed=True`` and otherwise with the corrections of the ledger.  They are here to be compared: the
same models are fitted faster, and to the end, by ``linear_clients`` and ``logistic_clients``.  AdaPeD's privacy is in
``adaped``, the objectives are in ``priors``.

Descent on the joint density of data and parameters has nowhere to go but to a variance of 0 (generative:eq19).  Mended, the
squares in the variances' slopes get the posterior variances that they lack (generative:eq19:fisher), and no step is longer
than that of expectation-maximisation, so that variances stay positive (generative:alg2:positive, generative:eq19:em).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from estimators.closed_forms.priors import mixture_penalty
from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.validation import choice, count, finite, nonnegative, number, paired, positive, single
from estimators.regression.client_rows import ClientRows

__all__ = ["Personalized", "discrete_prior", "linear_descent", "logistic_descent", "mixture_descent"]


@dataclass(frozen=True)
class Personalized:
    """What an algorithm ends with: thetas (m, d), the population (a dict), rounds run, and whether it came to rest."""

    thetas: np.ndarray
    population: dict
    n_iter: int
    converged: bool


class Losses:
    """Minus log-likelihoods of all clients, their gradients and curvatures, for responses of one kind."""

    def __init__(self, Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike], kind: str) -> None:
        rows = ClientRows.read(Xs, Ys)
        self.kind, self.counts, self.batches = kind, rows.counts, list(rows.batches())
        self.m, self.d = len(rows.counts), rows.X.shape[1]
        if kind == "logistic" and not np.isin(rows.Y, (0.0, 1.0)).all():
            raise ValueError("Ys must hold only 0 and 1; recode the labels")
        self.XtX = self.curvature(np.zeros((self.m, self.d)), linear=True)

    def gradient(self, thetas: Floats) -> Floats:
        """Gradients (m, d) of half the squared residuals, or of the cross-entropy."""
        out = np.empty((self.m, self.d))
        for clients, X, Y, real in self.batches:
            fitted = np.einsum("bnd,bd->bn", X, thetas[clients])
            if self.kind == "logistic":
                from scipy.special import expit

                fitted = expit(fitted)
            out[clients] = np.einsum("bnd,bn->bd", X, real * (fitted - Y))
        return out

    def curvature(self, thetas: Floats, linear: bool = False) -> Floats:
        """Second derivatives (m, d, d) of the same."""
        out = np.empty((self.m, self.d, self.d))
        for clients, X, _, _ in self.batches:
            weight = 1.0
            if not (linear or self.kind == "linear"):
                from scipy.special import expit

                odds = np.einsum("bnd,bd->bn", X, thetas[clients])
                weight = (expit(odds) * expit(-odds))[..., None]
            out[clients] = np.swapaxes(X, 1, 2) @ (weight * X)
        return out

    def squares(self, thetas: Floats) -> Floats:
        """Sums of squared residuals (m,)."""
        out = np.empty(self.m)
        for clients, X, Y, real in self.batches:
            out[clients] = np.sum(real * (Y - np.einsum("bnd,bd->bn", X, thetas[clients])) ** 2, axis=1)
        return out


def read_start(losses: Losses, theta: ArrayLike | None, mu: ArrayLike | None) -> tuple[Floats, Floats]:
    """Check the first parameters (zeros by default)."""
    m, d = losses.m, losses.d
    theta = np.zeros((m, d)) if theta is None else finite("theta", theta)
    mu = np.zeros(d) if mu is None else finite("mu", mu)
    if theta.shape != (m, d) or mu.shape != (d,):
        raise ValueError(f"theta must have shape {(m, d)} and mu {(d,)}, got {theta.shape} and {mu.shape}")
    return theta, mu


def variance_step(v: float, eta: float, size: Numbers, squares: Numbers) -> Numbers:
    """Clients' variances after a gradient step of rate eta on size/2 log v + squares/(2 v)."""
    return v - eta * (size / (2 * v) - squares / (2 * v**2))


def descend(
    losses: Losses,
    eta: float,
    T: int,
    theta: ArrayLike | None,
    mu: ArrayLike | None,
    v: float,
    s: float | None,
    as_printed: bool,
    tol: float,
) -> tuple[Floats, Floats, float, float | None, int, bool]:
    """Rounds of Algorithm 2 (s is the noise variance) or 3 (s is None), simultaneous in all parameters."""
    eta, T, tol = single(positive, "eta", eta), int(single(count, "T", T)), single(nonnegative, "tol", tol)
    thetas, centre = read_start(losses, theta, mu)
    v = single(positive, "sigma2_theta", v)
    s = None if s is None else single(positive, "sigma2_x", s)
    d, counts, eye = losses.d, losses.counts, np.eye(losses.d)
    for t in range(1, T + 1):
        before = (thetas, centre, v, s)
        noise = 1.0 if s is None else s
        pull = thetas - centre
        # Line 6; Algorithm 3 is printed with the bracket's sign of Algorithm 2, which drives parameters away from mu.
        toward = -pull if as_printed and s is None else pull
        gradient = losses.gradient(thetas) / noise
        squares = np.sum(pull**2, axis=1)
        residuals = losses.squares(thetas) if s is not None else None
        rate_v, rate_s = eta, eta
        if not as_printed:
            posterior = np.linalg.inv(losses.curvature(thetas) / noise + eye / v)
            squares = squares + np.einsum("mii->m", posterior)
            rate_v = min(eta, 2 * v**2 / d)
            if residuals is not None:
                residuals = residuals + np.einsum("mij,mji->m", losses.XtX, posterior)
                rate_s = min(eta, 2 * noise**2 / counts.mean())
        centres = centre - eta * (centre - thetas) / v
        thetas = thetas - eta * (gradient + toward / v)
        v = float(np.mean(variance_step(v, rate_v, d, squares)))
        if residuals is not None:
            s = float(np.mean(variance_step(noise, rate_s, counts, residuals)))
        centre = centres.mean(axis=0)
        if not (v > 0 and (s is None or s > 0) and np.isfinite(thetas).all() and np.abs(thetas).max() < 1e100):
            warnings.warn(f"a variance or a parameter left its domain in round {t}; kept as before it", stacklevel=4)
            thetas, centre, v, s = before
            return thetas, centre, v, s, t, False
        change = max(np.abs(thetas - before[0]).max(), np.abs(centre - before[1]).max(), abs(v - before[2]))
        if max(change, 0.0 if s is None or before[3] is None else abs(s - before[3])) <= tol * eta:
            return thetas, centre, v, s, t, True
    return thetas, centre, v, s, T, False


@paired
def linear_descent(
    Xs: Sequence[ArrayLike],
    Ys: Sequence[ArrayLike],
    *,
    eta: float,
    T: int,
    theta: ArrayLike | None = None,
    mu: ArrayLike | None = None,
    sigma2_theta: float = 1.0,
    sigma2_x: float = 1.0,
    as_printed: bool = False,
    tol: float = 1e-9,
) -> Personalized:
    """Personalised linear regressions, their centre and variances, by gradient steps: Algorithm 2.

    As printed, each round is a step on the joint objective (19), of rate eta in the parameters and eta/m in the rest:
    generative:alg2, generative:alg2:server.  (19) has no minimiser (generative:eq19); unless clients differ a lot
    (generative:eq19:local) the variance falls to 0 (generative:alg2:drift), passing it in a last step
    (generative:alg2:positive), where this stops with a warning.  By default the slopes of the variances are those of the
    marginal likelihood (generative:eq19:fisher), and the algorithm comes to rest at a maximum of it, that of
    ``LinearClients(covariance="scalar")``.

    Parameters
    ----------
    Xs, Ys : lists with one design (n_i, d) and one response vector (n_i,) per client.
    eta : learning rate > 0; below 2/(largest curvature of a client's terms), or the parameters blow up.
    T : whole number >= 1, rounds at most.
    theta, mu, sigma2_theta, sigma2_x : where to start; zeros and ones by default.
    as_printed : whether to run the box as it is.
    tol : the round is the last whose largest change is at most tol * eta.

    Returns
    -------
    Personalized, with population mu, sigma2_theta and sigma2_x.

    >>> Xs = [np.ones((4, 1))] * 3
    >>> Ys = [c + np.array([-1.0, 1.0, -1.0, 1.0]) for c in (0.0, 2.0, 4.0)]
    >>> fit = linear_descent(Xs, Ys, eta=0.2, T=5000)
    >>> fit.converged, {name: np.round(value, 3).tolist() for name, value in fit.population.items()}
    (True, {'mu': [2.0], 'sigma2_theta': 2.333, 'sigma2_x': 1.333})
    """
    losses = Losses(Xs, Ys, "linear")
    thetas, centre, v, s, t, good = descend(losses, eta, T, theta, mu, sigma2_theta, sigma2_x, as_printed, tol)
    return Personalized(thetas, {"mu": centre, "sigma2_theta": v, "sigma2_x": s}, t, good)


@paired
def logistic_descent(
    Xs: Sequence[ArrayLike],
    Ys: Sequence[ArrayLike],
    *,
    eta: float,
    T: int,
    theta: ArrayLike | None = None,
    mu: ArrayLike | None = None,
    sigma2_theta: float = 1.0,
    as_printed: bool = False,
    tol: float = 1e-9,
) -> Personalized:
    """Personalised logistic regressions, their centre and variance, by gradient steps: Algorithm 3.

    As printed, line 6 pushes parameters away from mu (generative:alg3), and the objective has no minimiser either
    (generative:eq20, generative:eq19).  By default the sign is right and the squares get the inverse curvatures of the
    clients' terms, a Laplace approximation of generative:eq19:fisher.

    Parameters
    ----------
    As in `linear_descent`; the responses are labels, 0 and 1.

    Returns
    -------
    Personalized, with population mu and sigma2_theta.

    >>> Xs = [np.ones((4, 1))] * 2
    >>> fit = logistic_descent(Xs, [[0, 0, 0, 1], [1, 1, 1, 1]], eta=0.1, T=20000)
    >>> fit.converged, fit.thetas.round(2).tolist()
    (True, [[-0.52], [1.96]])
    """
    losses = Losses(Xs, Ys, "logistic")
    theta, mu, v, _, t, good = descend(losses, eta, T, theta, mu, sigma2_theta, None, as_printed, tol)
    return Personalized(theta, {"mu": mu, "sigma2_theta": v}, t, good)


def printed_mixture_gradient(theta: Floats, mus: Floats, v: Floats, m: int) -> Floats:
    """Gradient in theta of what line 6 of Algorithm 4 prints for the prior: weights grow with the distance, and no p."""
    d = theta.shape[1]
    gaps = theta[:, None, :] - mus
    logs = np.sum(gaps**2, axis=2) / (2 * v) - m * d / 2 * np.log(2 * np.pi * np.sqrt(v))
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.einsum("ml,mld->md", weights / v, gaps)


@paired
def mixture_descent(
    Xs: Sequence[ArrayLike],
    Ys: Sequence[ArrayLike],
    *,
    eta: float,
    T: int,
    p: ArrayLike,
    mus: ArrayLike,
    sigma2_thetas: ArrayLike,
    loss: Literal["linear", "logistic"] = "linear",
    theta: ArrayLike | None = None,
    b: float = 0.1,
    as_printed: bool = False,
    tol: float = 1e-9,
) -> Personalized:
    """Personalised models whose prior is a mixture of Gaussians, by gradient steps: Algorithm 4.

    The box leaves Cluster open; here it is one step of expectation-maximisation for the mixture, from the parameters, with
    the penalty b/sigma2_theta,l on each variance, without which a component may shrink on one client (generative:eq21,
    generative:eq19:penalised).  As printed, line 6 draws a client to the component that fits it least (generative:alg4).

    Parameters
    ----------
    Xs, Ys, eta, T, theta, as_printed, tol : as in `linear_descent`.
    p, mus, sigma2_thetas : weights (k,), centres (k, d) and variances (k,) to start from.
    loss : "linear", half the squared residuals (noise of variance 1; scale Ys), or "logistic".
    b : strength > 0 of the penalty, units of theta squared.

    Returns
    -------
    Personalized, with population p, mus and sigma2_thetas.

    >>> Xs, Ys = [np.ones((9, 1))] * 4, [np.full(9, y) for y in (-3.0, -2.0, 2.0, 3.0)]
    >>> fit = mixture_descent(Xs, Ys, eta=0.05, T=2000, p=[0.5, 0.5], mus=[[-1.0], [1.0]], sigma2_thetas=[1.0, 1.0])
    >>> fit.converged, fit.population["mus"].round(2).tolist()
    (True, [[-2.5], [2.5]])
    """
    losses = Losses(Xs, Ys, choice("loss", loss, ("linear", "logistic")))
    eta, T = single(positive, "eta", eta), int(single(count, "T", T))
    b, tol = single(positive, "b", b), single(nonnegative, "tol", tol)
    theta, _ = read_start(losses, theta, None)
    mixture_penalty(theta, p, mus, sigma2_thetas)  # its checks
    p, mus, v = number("p", p), number("mus", mus), number("sigma2_thetas", sigma2_thetas)
    for t in range(1, T + 1):
        before = theta, p, mus, v
        prior = printed_mixture_gradient(theta, mus, v, losses.m) if as_printed else mixture_penalty(theta, p, mus, v)[1]
        theta = theta - eta * (losses.gradient(theta) + prior)
        if not (np.isfinite(theta).all() and np.abs(theta).max() < 1e100):
            warnings.warn(f"the parameters blew up in round {t}; these are the values before", stacklevel=3)
            return Personalized(before[0], dict(zip(("p", "mus", "sigma2_thetas"), before[1:], strict=True)), t, False)
        gaps = np.sum((theta[:, None, :] - mus) ** 2, axis=2)
        logs = np.log(np.maximum(p, 1e-300)) - losses.d / 2 * np.log(v) - gaps / (2 * v)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares = shares / shares.sum(axis=1, keepdims=True)
        sizes = shares.sum(axis=0)
        p = np.maximum(sizes, 1e-12) / np.maximum(sizes, 1e-12).sum()
        mus = np.where(sizes[:, None] > 1e-9, shares.T @ theta / np.maximum(sizes, 1e-300)[:, None], mus)
        gaps = np.sum((theta[:, None, :] - mus) ** 2, axis=2)
        v = (2 * b + np.sum(shares * gaps, axis=0)) / (losses.d * np.maximum(sizes, 1e-9))
        change = max(np.abs(new - old).max() for new, old in zip((theta, p, mus, v), before, strict=True))
        if change <= tol * eta:
            return Personalized(theta, {"p": p, "mus": mus, "sigma2_thetas": v}, t, True)
    return Personalized(theta, {"p": p, "mus": mus, "sigma2_thetas": v}, T, False)


@paired
def discrete_prior(
    Xs: Sequence[ArrayLike],
    Ys: Sequence[ArrayLike],
    *,
    mus: ArrayLike,
    sigma2_x: float,
    T: int = 1000,
    p: ArrayLike | None = None,
    as_printed: bool = False,
    tol: float = 1e-9,
) -> Personalized:
    """Personalised linear regressions whose parameters take one of k values: Algorithm 7.

    Line 6 gives each client the posterior mean of its parameter (generative:alg7), which is not the minimiser of (12) that
    the text asks for (generative:alg7:map), but better in squared error.  As printed, the server clusters these means
    (here: one step of k-means), which are drawn together from round to round (generative:alg1:collapse); by default it
    takes a step of expectation-maximisation on the responses, which keeps the truth as its fixed point (generative:alg1:em).

    Parameters
    ----------
    Xs, Ys, T, as_printed, tol : as in `linear_descent`.
    mus : array (k, d), the values to start from; p : array (k,), their probabilities, equal by default.
    sigma2_x : variance > 0 of a response.

    Returns
    -------
    Personalized, with population p, mus and weights (m, k), the posterior probabilities of the values.

    >>> Xs, Ys = [np.ones((2, 1))] * 4, [[-3.0, -3.0], [-2.0, -2.0], [2.0, 2.0], [3.0, 3.0]]
    >>> fit = discrete_prior(Xs, Ys, mus=[[-1.0], [1.0]], sigma2_x=1.0)
    >>> fit.converged, fit.population["mus"].round(2).tolist(), fit.thetas.round(2).tolist()
    (True, [[-2.5], [2.5]], [[-2.5], [-2.5], [2.5], [2.5]])
    """
    losses = Losses(Xs, Ys, "linear")
    centres, s = finite("mus", mus), single(positive, "sigma2_x", sigma2_x)
    T, tol = int(single(count, "T", T)), single(nonnegative, "tol", tol)
    if centres.ndim != 2 or centres.shape[1] != losses.d:
        raise ValueError(f"mus must have shape (values, {losses.d}), got {centres.shape}")
    masses = np.full(len(centres), 1 / len(centres)) if p is None else positive("p", p)
    if masses.shape != centres.shape[:1] or abs(masses.sum() - 1) > 1e-9:
        raise ValueError(f"p must have one entry per row of mus and add to one, got {masses}")
    right = -losses.gradient(np.zeros((losses.m, losses.d)))  # X'Y
    thetas, weights = np.empty(0), np.empty(0)
    for t in range(1, T + 1):
        before = masses, centres
        squares = np.stack([losses.squares(np.broadcast_to(mu, (losses.m, losses.d))) for mu in centres], axis=1)
        logs = np.log(np.maximum(masses, 1e-300)) - squares / (2 * s)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights = weights / weights.sum(axis=1, keepdims=True)
        thetas = weights @ centres
        if as_printed:
            nearest = np.argmin(np.sum((thetas[:, None, :] - centres) ** 2, axis=2), axis=1)
            member = np.eye(len(centres))[nearest]
            sizes = member.sum(axis=0)
            centres = np.where(sizes[:, None] > 0, member.T @ thetas / np.maximum(sizes, 1)[:, None], centres)
        else:
            sizes = weights.sum(axis=0)
            left = np.einsum("mk,mij->kij", weights, losses.XtX)
            fitted = [np.linalg.lstsq(a, c, rcond=None)[0] for a, c in zip(left, weights.T @ right, strict=True)]
            centres = np.where(sizes[:, None] > 1e-9, np.stack(fitted), centres)
        masses = sizes / losses.m
        if max(np.abs(masses - before[0]).max(), np.abs(centres - before[1]).max()) <= tol:
            return Personalized(thetas, {"p": masses, "mus": centres, "weights": weights}, t, True)
    return Personalized(thetas, {"p": masses, "mus": centres, "weights": weights}, T, False)
