"""What the regressions of many clients share: normal posteriors of coefficient vectors, and shapes of their covariance.

Belongs here: intervals, sign rates and predictions from posterior means and covariances, the coordinates in which pooled
designs are white, and covariance matrices written as a factor times itself.  The likelihoods are in ``linear_clients`` and
``logistic_clients``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from estimators.model import ClientModel
from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.limits import times
from estimators.numerics.validation import choice, finite, index, number
from estimators.regression.client_rows import triangle

__all__ = ["CoefficientModel", "Coordinates", "Factor", "climb", "climb_inside", "read_prior", "score"]

SHAPES = ("full", "diagonal", "scalar")


class CoefficientModel(ClientModel):
    """Base of models whose client i has a vector of coefficients with the posterior N(posterior_mean_[i], ...).

    After `fit`: ``posterior_mean_`` (m, d), ``posterior_covariance_`` (m, d, d), ``posterior_sd_`` (m, d); ``mu_`` (d,),
    ``covariance_`` (d, d) of the prior; ``borrowed_`` (m,), the share of a client's estimate that comes from the others:
    1 less the slope of a coefficient's posterior mean in the client's own estimate of it, averaged over the coefficients;
    ``unseen_`` (d, u), directions in which no client's features vary.  Along those the data say nothing about a learnt
    prior: the mean there is 0, the covariance matrices leave the direction out, and the standard deviation of every
    coefficient that such a direction touches is inf.
    """

    mu: ArrayLike | None
    covariance: Any  # a name of a shape, or an array
    prior: Any
    mu_: Floats
    covariance_: Floats
    posterior_covariance_: Floats
    unseen_: Floats
    borrowed_: Floats

    @property
    def blind_(self) -> Bools:
        """Coefficients (d,) that an unseen direction touches."""
        return np.linalg.norm(self.unseen_, axis=1) > 1e-9

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, array (m, d)."""
        from scipy.special import ndtr

        self.require_fit()
        gap, sd = number("t", t) - self.posterior_mean_, self.posterior_sd_
        step = gap > 0 if strict else gap >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(sd == 0, step, ndtr(np.where(sd == 0, 0.0, gap / sd)))

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, array (m, d)."""
        from scipy.special import ndtri

        self.require_fit()
        return self.posterior_mean_ + times(self.posterior_sd_, ndtri(q))

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return draws (size, m, d) of all coefficients given the data, clients independent; NaN for `blind_` ones."""
        self.require_fit()
        values, vectors = np.linalg.eigh(self.posterior_covariance_)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        noise = generator.standard_normal((size, *self.posterior_mean_.shape))
        theta = self.posterior_mean_ + np.einsum("mij,smj->smi", roots, noise)
        return np.where(self.blind_, np.nan, theta)

    def atoms(self) -> Floats:
        """Return the means of coefficients that do not differ between clients."""
        self.require_fit()
        return self.posterior_mean_[self.posterior_sd_ == 0]

    def expected(self, i: int | None) -> Floats:
        """Return the expected coefficients (d,) of client i, or of a client without data for None."""
        self.require_fit()
        return (self.mu_ if i is None else self.posterior_mean_[index("i", i, 0, len(self.posterior_mean_) - 1)]).copy()

    def linear_predictor(self, i: int | None, X: ArrayLike) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of X theta_i given the data; i=None is a client without data."""
        self.require_fit()
        X = finite("X", X)
        if X.ndim != 2 or X.shape[1] != len(self.mu_):
            raise ValueError(f"X must have shape (samples, {len(self.mu_)}), got {X.shape}")
        if i is None:
            mean, covariance = self.mu_, self.covariance_
        else:
            i = index("i", i, 0, len(self.posterior_mean_) - 1)
            mean, covariance = self.posterior_mean_[i], self.posterior_covariance_[i]
        variance = np.maximum(np.einsum("nj,jk,nk->n", X, covariance, X), 0.0)
        blind = np.linalg.norm(X @ self.unseen_, axis=1) > 1e-9 * np.abs(X).max(axis=1, initial=0.0)
        return X @ mean, np.where(blind, np.inf, np.sqrt(variance))

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain Python values; "sd" is inf for coefficients that `unseen_` directions touch."""
        self.require_fit()
        sd = np.sqrt(np.diag(self.covariance_))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = np.where(np.outer(sd, sd) > 0, self.covariance_ / np.outer(sd, sd), 0.0)
        given = self.mu is not None and not isinstance(self.covariance, str)
        return {
            "family": "normal",
            "found_by": "fixed" if given else self.prior,
            "mean": self.mu_.tolist(),
            "sd": np.where(self.blind_, np.inf, sd).tolist(),
            "correlation": correlation.tolist(),
            "covariance": self.covariance_.tolist(),
        }


@dataclass(frozen=True)
class Coordinates:
    """Coordinates phi, theta = out phi, in which the pooled rows of all clients have mean square I.

    Attributes: out (d, r) and into (r, d) with into out = I, unseen (d, d - r) the directions that no row has, log_det of
    `out` between orthonormal coordinates of the two spaces.
    """

    out: np.ndarray
    into: np.ndarray
    unseen: np.ndarray
    log_det: float

    @classmethod
    def of(cls, factor: Floats, n: int) -> Self:
        """White coordinates for rows X with factor' factor = X'X, n rows in all."""
        size = np.sqrt(np.einsum("ij,ij->j", factor, factor))
        size = np.where(size == 0, 1.0, size)
        _, singular, Vt = np.linalg.svd(factor / size)
        rank = int(np.sum(singular > max(n, len(size)) * np.finfo(float).eps * singular.max()))
        if rank == 0:
            raise ValueError("Xs holds only zeros; give at least one feature that is not 0")
        unseen = np.linalg.qr(Vt[rank:].T / size[:, None])[0]
        spread = singular[:rank] / np.sqrt(n)
        out = Vt[:rank].T / size[:, None] / spread
        log_det = float(np.sum(np.log(np.abs(np.diag(triangle(out))))))
        return cls(out, spread[:, None] * Vt[:rank] * size, unseen, log_det)


@dataclass(frozen=True)
class Factor:
    """Covariances L L' with L = base E, where E is lower triangular ("full"), diagonal, or a multiple of I ("scalar")."""

    base: np.ndarray
    shape: str

    @classmethod
    def of(cls, shape: str, coordinates: Coordinates, size: float) -> Self:
        """Covariances of relative size `size`, in units of one over the pooled features' mean square."""
        choice("covariance", shape, SHAPES)
        if shape == "full":
            return cls(np.sqrt(size) * coordinates.out, shape)
        power = np.einsum("rd,rd->d", coordinates.into, coordinates.into)  # mean squares of the features
        power = np.where(power == 0, 1.0, power)
        scale = 1 / np.sqrt(power) if shape == "diagonal" else np.full(power.shape, 1 / np.sqrt(power.mean()))
        return cls(np.sqrt(size) * np.diag(scale), shape)

    @property
    def start(self) -> Floats:
        """Parameters x for which L = base."""
        k = self.base.shape[1]
        if self.shape == "scalar":
            return np.ones(1)
        return np.ones(k) if self.shape == "diagonal" else np.eye(k)[np.tril_indices(k)]

    def inner(self, x: Floats) -> Floats:
        """Return E for parameters x."""
        k = self.base.shape[1]
        if self.shape != "full":
            return np.eye(k) * x
        E = np.zeros((k, k))
        E[np.tril_indices(k)] = x
        return E

    def root(self, x: Floats) -> Floats:
        """Return L for parameters x."""
        return self.base @ self.inner(x)

    def pull(self, slope: Floats) -> Floats:
        """Return the gradient in x of a function with this gradient (d, k) in L."""
        if self.shape == "scalar":
            return np.array([np.sum(self.base * slope)])
        if self.shape == "diagonal":
            return np.sum(self.base * slope, axis=0)
        return (self.base.T @ slope)[np.tril_indices(self.base.shape[1])]

    def escape(self, x: Floats, by_covariance: Floats) -> tuple[float, Floats]:
        """Largest slope towards a larger covariance, and parameters that have gone a little in that direction.

        At L = 0 the gradient in L vanishes whatever the likelihood does, so a maximum has to be told from such a point by
        the slope in the covariance itself, `by_covariance` (d, d).
        """
        slopes = self.base.T @ by_covariance @ self.base
        if self.shape == "scalar":
            return float(np.trace(slopes)), np.hypot(x, 0.1)
        if self.shape == "diagonal":
            worst = int(np.argmax(np.diag(slopes)))
            return float(slopes[worst, worst]), np.hypot(x, 0.1 * (np.arange(len(x)) == worst))
        values, vectors = np.linalg.eigh(slopes)
        return float(values[-1]), lower_root(np.column_stack([self.inner(x), 0.1 * vectors[:, -1]]))

    def scoring_step(self, x: Floats, state: SimpleNamespace, clip: bool) -> Floats | None:
        """Return x after a step of Fisher scoring, in which a variance falls to a twentieth at most.

        Where it should fall further the step stops there if `clip`, else there is none: None.

        The step is in the symmetric E of L (I + E) L', where the slope is -L' by_root / 2 and the information is half the
        sum over clients of P x P, P = state.P[i] the share of L'theta_i that client i's own data decide, less what an
        unknown noise takes away.
        """
        L = self.root(x)
        slope = -(L.T @ state.by_root) / 2
        slope, k = (slope + slope.T) / 2, len(slope)
        flat = state.P.reshape(len(state.P), -1)
        cross = flat.sum(axis=0).reshape(k, k) / 2
        lower = np.tril_indices(k)
        if self.shape == "full":
            pairs = (flat.T @ flat).reshape(k, k, k, k).transpose(0, 2, 1, 3)[lower]
            pairs = (pairs + np.swapaxes(pairs, 1, 2))[(slice(None), *lower)] / 4
            weight = np.where(lower[0] == lower[1], 1.0, 2.0)  # entries off the diagonal occur twice
            right, c = weight * slope[lower], weight * cross[lower]
            information = weight[:, None] * pairs * weight
        else:
            information, right, c = np.einsum("mij,mij->ij", state.P, state.P) / 2, np.diag(slope), np.diag(cross)
            if self.shape == "scalar":
                information, right, c = information.sum(keepdims=True), right.sum(keepdims=True), c.sum(keepdims=True)
        if state.profiled:
            information = information - 2 / state.profiled * np.outer(c, c)
        e = np.linalg.solve(information + 1e-9 * len(flat) * np.eye(len(right)), right)
        if self.shape != "full":
            return x * np.sqrt(np.maximum(1 + e, 0.05)) if clip or e.min() > -0.95 else None
        E = np.zeros((k, k))
        E[lower] = E.T[lower] = e
        values, vectors = np.linalg.eigh(np.eye(k) + E)
        if values[0] < 0.05 and not clip:
            return None
        return lower_root(self.inner(x) @ vectors * np.sqrt(np.maximum(values, 0.05)))


def lower_root(root: Floats) -> Floats:
    """Return the entries of the lower triangular root of root root'."""
    E = triangle(root.T).T
    return E[np.tril_indices(len(E))]


def score(
    evaluate: Callable[[Floats], SimpleNamespace], factor: Factor, x: Floats, max_iter: int, tol: float
) -> tuple[Floats, int]:
    """Maximise a likelihood by Fisher scoring while that helps: (x, steps); `evaluate(x)` is its state at x.

    It takes few steps where all variances are positive at the maximum, and leaves the rest to `climb` where some are not.
    """
    state, steps = evaluate(x), 0
    if factor.shape == "full" and factor.base.shape[1] > 40:  # the information matrix has d^4/4 entries
        return x, 0
    while steps < max_iter and np.abs(factor.pull(state.by_root)).max() > tol * len(state.P):
        new = factor.scoring_step(x, state, clip=steps < 2)  # the start may be far off
        if new is None:
            break
        ahead = evaluate(new)
        steps += 1
        if ahead.loss >= state.loss:
            break
        x, state = new, ahead
    return x, steps


def climb(
    loss: Callable[[Floats], tuple[float, Floats]], start: Floats, max_iter: int, tol: float, m: int
) -> tuple[Floats, int, bool]:
    """Minimise `loss`, its value and gradient over m clients, by L-BFGS: (x, steps, whether the slope is below tol m)."""
    from scipy.optimize import minimize

    def each(x):
        value, slope = loss(x)
        return value / m, slope / m

    options = {"maxiter": max(max_iter, 1), "maxfun": 2 * max_iter + 20, "gtol": tol, "ftol": 0.0, "maxcor": 30}
    best = minimize(each, start, jac=True, method="L-BFGS-B", options=options)
    return best.x, int(best.nit), bool(np.abs(best.jac).max() <= 10 * max(tol, 1e-8))  # values are blind to smaller ones


def climb_inside(
    loss: Callable[[Floats], tuple[float, Floats]], start: Floats, max_iter: int, tol: float, m: int
) -> tuple[Floats, int, bool]:
    """As `climb`, less half the log-determinant of E E', which keeps variances from 0 and correlations from 1."""
    positive = start > 0  # the entries on the diagonal of E, whose logarithms are followed

    def inside(t):
        x = np.where(positive, np.exp(np.where(positive, t, 0.0)), t)
        value, slope = loss(x)
        return value - np.sum(t[positive]), np.where(positive, slope * x - 1, slope)

    t, steps, good = climb(inside, np.where(positive, np.log(np.where(positive, start, 1.0)), start), max_iter, tol, m)
    return np.where(positive, np.exp(np.where(positive, t, 0.0)), t), steps, good


def read_prior(mu: ArrayLike | None, covariance: str | ArrayLike, d: int) -> tuple[Floats | None, Floats | None]:
    """Return mu, array (d,) or None where it is to be learnt, and a root of the covariance, or None likewise."""
    if mu is not None:
        mu = finite("mu", mu)
        if mu.shape not in ((), (d,)):
            raise ValueError(f"mu must be one number or have {d} entries, one per coefficient, got shape {mu.shape}")
        mu = np.broadcast_to(mu, (d,)).astype(float)
    if isinstance(covariance, str):
        choice("covariance", covariance, SHAPES)
        return mu, None
    covariance = finite("covariance", covariance)
    if covariance.shape in ((), (d,)):
        covariance = np.diag(np.broadcast_to(covariance, (d,)))
    if covariance.shape != (d, d):
        raise ValueError(f"covariance must be a number or an array of shape ({d},) or ({d}, {d}), got {covariance.shape}")
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    scale = np.abs(covariance).max()
    if np.abs(covariance - covariance.T).max() > 1e-9 * scale or values.min() < -1e-9 * scale:
        raise ValueError("covariance must be symmetric with no negative eigenvalue")
    return mu, vectors * np.sqrt(np.maximum(values, 0.0))
