"""Covariances of coefficients that are unknown: how they are written, and the search for the likeliest.

Belongs here: the coordinates in which pooled designs are white, covariance matrices written as a factor times itself, at one
level or two, and the search that all likelihoods share.  The likelihoods are in ``linear_clients``, ``nested_linear``,
``logistic_clients``, ``gauss_hermite`` and ``nested_logistic``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints
from estimators.numerics.validation import choice, count, finite
from estimators.regression.client_rows import triangle

__all__ = ["Coordinates", "Factor", "Levels", "climb", "read_prior", "read_shared", "seek"]

SHAPES = ("full", "diagonal", "scalar")


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


@dataclass(frozen=True)
class Levels:
    """Covariances of clients and, if `count` is 2, of their groups: of one shape each, of the coefficients that vary.

    `factor` is in the coefficients' own units, `white` the same in `Coordinates`; parameters are level by level.
    """

    factor: Factor
    white: Factor
    count: int

    @classmethod
    def of(
        cls, shape: str, pooled: Floats, varying: Bools, coordinates: Coordinates, n: int, size: float, count: int
    ) -> Self:
        """Covariances of the `varying` (d,) coefficients, where pooled' pooled = X'X of all n rows."""
        own = coordinates if varying.all() else Coordinates.of(triangle(pooled[:, varying]), n)
        small = Factor.of(shape, own, size)
        base = np.zeros((len(varying), small.base.shape[1]))
        base[varying] = small.base
        return cls(Factor(base, shape), Factor(coordinates.into @ base, shape), count)

    @property
    def start(self) -> Floats:
        """Parameters at which the search starts."""
        return np.tile(self.white.start, self.count)

    def roots(self, x: Floats, white: bool = True) -> list[Floats]:
        """Return the roots of the levels, (r, k) in white coordinates or (d, k) in the coefficients' own."""
        factor = self.white if white else self.factor
        return [factor.root(part) for part in np.split(x, self.count)]

    def pull(self, slopes: Floats) -> Floats:
        """Return the gradient in x of a function with this gradient (count, r, k) in the roots."""
        return np.concatenate([self.white.pull(slope) for slope in slopes.reshape(self.count, *self.white.base.shape)])

    def escape(self, x: Floats, by_covariance: Floats) -> tuple[float, Floats]:
        """As `Factor.escape`, at the level with the largest slope."""
        parts = np.split(x, self.count)
        slopes = by_covariance.reshape(self.count, *by_covariance.shape[-2:])
        ways = [self.white.escape(part, slope) for part, slope in zip(parts, slopes, strict=True)]
        worst = int(np.argmax([slope for slope, _ in ways]))
        parts[worst] = ways[worst][1]
        return ways[worst][0], np.concatenate(parts)


def seek(
    at: Callable[..., SimpleNamespace], levels: Levels, penalised: bool, max_iter: int, tol: float, m: int
) -> tuple[Floats, int, bool]:
    """Return the parameters of the likeliest covariances, steps, and whether the search settled.

    `at` returns the state at the roots of the levels: "loss", "by_root" and "by_covariance".  The loss gets the `penalised`
    half of the log-determinants of all levels, or none.
    """

    def loss(x):
        state = at(*levels.roots(x))
        return state.loss, levels.pull(state.by_root)

    x, steps, good = levels.start, 0, False
    if penalised:
        return climb_inside(loss, x, max_iter, tol, m)
    for _ in range(5):  # once, unless it ends where a variance is 0 that should not be
        if levels.count == 1:
            x, more = score(lambda x: at(*levels.roots(x)), levels.white, x, max_iter - steps, tol)
            steps += more
        x, more, good = climb(loss, x, max_iter - steps, tol, m)
        steps += more
        slope, elsewhere = levels.escape(x, at(*levels.roots(x)).by_covariance / m)
        if slope <= 1e3 * tol or steps >= max_iter:
            break
        x, good = elsewhere, False
    return x, steps, good


def score(
    evaluate: Callable[[Floats], SimpleNamespace], factor: Factor, x: Floats, max_iter: int, tol: float
) -> tuple[Floats, int]:
    """Maximise a likelihood by Fisher scoring while that helps: (x, steps); `evaluate(x)` is its state at x.

    It takes few steps where all variances are positive at the maximum, and leaves the rest to `climb` where some are not.
    """
    state, steps = evaluate(x), 0
    if factor.shape == "full" and factor.base.shape[1] > 40:  # the information matrix has d^4/4 entries
        return x, 0
    while steps < max_iter and steepest(factor, x, state) > tol * len(state.P):
        new = factor.scoring_step(x, state, clip=steps < 2)  # the start may be far off
        if new is None:
            break
        ahead = evaluate(new)
        steps += 1
        if ahead.loss >= state.loss:
            break
        x, state = new, ahead
    return x, steps


def steepest(factor: Factor, x: Floats, state: SimpleNamespace) -> float:
    """Return the largest slope in x, or by relative changes: of covariances a million times the noise it is what counts."""
    return max(float(np.abs(slope).max()) for slope in (factor.pull(state.by_root), factor.root(x).T @ state.by_root))


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
    blind = 1e-7 * np.sqrt(max(1.0, abs(float(best.fun))))  # no smaller slope shows in the last digits of the value
    return best.x, int(best.nit), bool(np.abs(best.jac).max() <= max(10 * tol, blind))


def climb_inside(
    loss: Callable[[Floats], tuple[float, Floats]], start: Floats, max_iter: int, tol: float, m: int
) -> tuple[Floats, int, bool]:
    """As `climb`, less half the log-determinant of E E', which keeps variances from 0 and correlations from 1."""
    positive = start > 0  # the entries on the diagonal of E, each the last of its row
    diagonal = np.flatnonzero(positive)
    row = np.searchsorted(diagonal, np.arange(len(start)))

    def inside(t):
        x = of_ratios(t, diagonal, row)
        value, slope = loss(x)
        relative = np.bincount(row, slope * x) - 1
        return value - np.sum(t[diagonal]), np.where(positive, relative[row], slope * x[diagonal][row])

    first = start / start[diagonal][row]
    first[diagonal] = np.log(start[diagonal])
    t, steps, good = climb(inside, first, max_iter, tol, m)
    return of_ratios(t, diagonal, row), steps, good


def of_ratios(t: Floats, diagonal: Ints, row: Ints) -> Floats:
    """Return E's entries from t: of the diagonal its logarithms, of the others their ratios to that of their `row`."""
    size = np.exp(t[diagonal])[row]
    x = t * size
    x[diagonal] = size[diagonal]
    return x


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


def read_shared(shared: Sequence[int], d: int, covariance: str | ArrayLike) -> Bools:
    """Return which of d coefficients vary between clients, array (d,), from the positions of those that do not."""
    varying = np.ones(d, bool)
    places = np.asarray(count("shared", shared, 0), int) if np.size(shared) else np.zeros(0, int)
    if places.ndim != 1 or (places >= d).any() or len(set(places.tolist())) < len(places):
        raise ValueError(f"shared must hold different positions of coefficients, whole numbers in 0..{d - 1}, got {shared}")
    varying[places] = False
    if not varying.any():
        raise ValueError("shared must leave a coefficient that varies between clients; pool their rows if none does")
    if len(places) and not isinstance(covariance, str):
        raise ValueError("shared is for a covariance that is learnt; in a given covariance shared coefficients have 0")
    return varying
