"""Clients of a nonparametric fit: their likelihoods in a coordinate where each has constant width.

Belongs here: the three families, sorted and without repetitions, and smaller sets that stand for large ones.  Does not
belong here: anything that depends on a mixing distribution; that is in ``dual`` and ``solver``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.validation import count, finite, positive

FINENESS = 8  # standard errors / spacing of the grids in ``dual`` is in [FINENESS, 2 FINENESS)
EDGE = 1e-12  # atoms closer than this to the end of a bounded range lie on it


@dataclass(frozen=True)
class Clients:
    """Likelihoods of the clients in the coordinate t of constant width; made by the functions ``*_clients``.

    Sorted by width and place, equal clients merged into weights; `row` says which of these each client that was given is.
    """

    family: str
    origin: float
    t: np.ndarray
    s: np.ndarray
    p1: np.ndarray
    p2: np.ndarray
    offset: np.ndarray
    weights: np.ndarray
    row: np.ndarray
    constant: float  # log-likelihood with every client at its own peak

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def coordinate(self, theta: Floats) -> Floats:
        """Return t of theta."""
        theta = np.asarray(theta, float)
        if self.family == "gaussian":
            return theta - self.origin
        return np.arcsin(np.sqrt(theta)) if self.family == "binomial" else np.sqrt(theta)

    def parameter(self, t: Floats) -> Floats:
        """Return theta of t."""
        if self.family == "gaussian":
            return t + self.origin
        return np.sin(t) ** 2 if self.family == "binomial" else np.square(t)


def shapes(t: Floats, family: str) -> Floats:
    """Return six rows: alpha(t) and beta(t) of the kernels, and four of their derivatives.

    log 0 is a huge negative number, so that 0 log 0 is 0; derivatives at the ends of the range are 0: what lies there stays.
    """
    if family == "gaussian":
        return np.zeros((6, t.size))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if family == "binomial":
            one, other = np.abs(np.sin(t)), np.abs(np.cos(t))
            one, other = np.where(one < EDGE, 0, one), np.where(other < EDGE, 0, other)
            rows = [2 * np.log(one), 2 * np.log(other), 2 * other / one, -2 * one / other, -2 / one**2, -2 / other**2]
            edge = (one == 0) | (other == 0)
        else:
            one = np.where(np.abs(t) < EDGE, 0, np.abs(t))
            rows = [2 * np.log(one), -np.square(t), 2 / one, -2 * t, -2 / one**2, np.full(t.size, -2.0)]
            edge = one == 0
    out = np.array(rows)
    out[:2] = np.maximum(out[:2], -1e300)
    out[2:, edge] = 0.0
    return out


def merged(
    family: str, origin: float, t: Floats, s: Floats, p1: Floats, p2: Floats, offset: Floats, weights: Floats, peak: Floats
) -> Clients:
    """Return `Clients`, sorted by level and place, equal neighbours merged."""
    constant = float(np.sum(weights * peak))
    level = levels_of(s)
    order = np.argsort(t, kind="stable") if family == "gaussian" else np.lexsort((s, t))
    if level.any():
        order = order[np.argsort(level[order], kind="stable")]
    t, s, p1, p2, offset, weights = (a[order] for a in (t, s, p1, p2, offset, weights))
    is_fresh = np.concatenate([[True], (np.diff(t) != 0) | (np.diff(s) != 0)])
    row = np.empty(t.size, np.int64)
    row[order] = np.cumsum(is_fresh) - 1
    fresh = np.flatnonzero(is_fresh)
    if fresh.size < t.size:
        weights = np.add.reduceat(weights, fresh)
        t, s, p1, p2, offset = (a[fresh] for a in (t, s, p1, p2, offset))
    return Clients(family, origin, t, s, p1, p2, offset, weights, row, constant)


def read_weights(weights: ArrayLike | None, n: int) -> Floats:
    """Return checked weights, one per client."""
    if weights is None:
        return np.ones(n)
    weights = positive("weights", weights)
    if weights.shape != (n,):
        raise ValueError(f"weights must have one entry per client, shape ({n},), got {weights.shape}")
    return weights


def paired(name: str, value: Floats, like: Floats, of: str) -> Floats:
    """Return `value` with one entry per client, a number standing for all."""
    if value.ndim == 0:
        value = np.full(like.shape, float(value))
    if like.ndim != 1 or value.shape != like.shape or not like.size:
        raise ValueError(
            f"{of} and {name} must be one-dimensional, of equal length and not empty; got {like.shape} and {value.shape}"
        )
    return value


def gaussian_clients(estimates: ArrayLike, variances: ArrayLike, weights: ArrayLike | None = None) -> Clients:
    """Return the clients' Gaussian likelihoods, estimates[i] ~ N(theta_i, variances[i]).

    Parameters
    ----------
    estimates : array (n,) of finite numbers; variances : array (n,) or one number, finite and > 0.
    weights : array (n,) of numbers > 0, how often each client counts; once if None.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> gaussian_clients([1.0, 2.0, 1.0], 1.0).weights.tolist()
    [2.0, 1.0]
    """
    x = finite("estimates", estimates)
    variances = paired("variances", positive("variances", variances), x, "estimates")
    weights = read_weights(weights, x.size)
    origin = float(x.min())
    s = np.sqrt(variances)
    peak = -0.5 * np.log(2 * np.pi * variances)
    return merged("gaussian", origin, x - origin, s, x - origin, 1 / s, np.zeros(x.size), weights, peak)


def binomial_clients(x: ArrayLike, n: ArrayLike, weights: ArrayLike | None = None) -> Clients:
    """Return the clients' binomial likelihoods, x[i] ~ Binomial(n[i], theta_i).

    Parameters
    ----------
    x : array of whole numbers >= 0; n : array or one number, whole, >= 1 and >= x; weights : as in `gaussian_clients`.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> [round(float(t), 6) for t in binomial_clients([0, 1], [2, 2]).t]
    [0.0, 0.785398]
    """
    from scipy.special import gammaln, xlogy

    x = count("x", x, 0)
    n = paired("n", count("n", n, 1), x, "x")
    if (x > n).any():
        raise ValueError(f"x must not exceed n; client {int(np.argmax(x > n))} has more successes than trials")
    weights = read_weights(weights, x.size)
    top = xlogy(x, x / n) + xlogy(n - x, (n - x) / n)
    peak = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + top
    t = np.arctan2(np.sqrt(x), np.sqrt(n - x))
    return merged("binomial", 0.0, t, 0.5 / np.sqrt(n), x, n - x, top, weights, peak)


def poisson_clients(x: ArrayLike, exposure: ArrayLike = 1.0, weights: ArrayLike | None = None) -> Clients:
    """Return the clients' Poisson likelihoods, x[i] ~ Poisson(exposure[i] theta_i).

    Parameters
    ----------
    x : array of whole numbers >= 0; exposure : array or one number, finite and > 0; weights : as in `gaussian_clients`.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> poisson_clients([4, 1], 1.0).t.tolist()
    [1.0, 2.0]
    """
    from scipy.special import gammaln, xlogy

    x = count("x", x, 0)
    exposure = paired("exposure", positive("exposure", exposure), x, "x")
    weights = read_weights(weights, x.size)
    top = xlogy(x, x / exposure) - x
    peak = xlogy(x, x) - x - gammaln(x + 1)
    return merged("poisson", 0.0, np.sqrt(x / exposure), 0.5 / np.sqrt(exposure), x, exposure, top, weights, peak)


def levels_of(s: Floats) -> Ints:
    """Return how many times the coarsest spacing, s.max() / FINENESS, is halved for each client."""
    return np.ceil(np.log2(s.max() / s) - 1e-12).astype(np.int16)


def cover(clients: Clients) -> Floats:
    """Return few atoms with every client's peak within half a standard error of one of them."""
    low, high = clients.t - 0.5 * clients.s, clients.t + 0.5 * clients.s
    order = np.argsort(high, kind="stable")
    low, high = low[order], high[order]
    atoms, reached = [], -np.inf
    for start, end in zip(low.tolist(), high.tolist(), strict=True):
        if start > reached:
            reached = end
            atoms.append(end)
    return np.clip(np.array(atoms), clients.t.min(), clients.t.max())


def condensed(clients: Clients, size: int) -> Clients:
    """Return about `size` clients that are like these: those of nearly equal width and place are averaged into one."""

    def groups(fineness):
        step = np.floor(fineness * np.log2(clients.s.max() / clients.s))
        cell = np.floor(clients.t * (fineness / clients.s.max() * 2.0 ** (step / fineness))).astype(np.int64)
        return np.unique(step.astype(np.int64) * (int(cell.max()) + 1) + cell, return_inverse=True)[1]

    group = groups(4)
    finer = int(4 * np.sqrt(size / (group.max() + 1)))
    if finer > 4:
        group = groups(finer)
    weights = np.bincount(group, clients.weights).astype(float)
    t, s = (np.bincount(group, clients.weights * a) / weights for a in (clients.t, clients.s))
    if clients.family == "gaussian":
        p1, p2, top = t, 1 / s, np.zeros(t.size)
    else:
        n = 0.25 / s**2
        alpha, beta = shapes(t, clients.family)[:2]
        p1 = n * (np.sin(t) if clients.family == "binomial" else t) ** 2
        p2 = n * np.cos(t) ** 2 if clients.family == "binomial" else n
        p1, p2 = np.where(p1 < n * EDGE**2, 0, p1), np.where(p2 < n * EDGE**2, 0, p2)
        top = p1 * alpha + p2 * beta
    return merged(clients.family, clients.origin, t, s, p1, p2, top, weights, np.zeros(t.size))
