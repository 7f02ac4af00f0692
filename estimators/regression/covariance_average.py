"""The average over covariances of coefficients that the clients leave open: a law of them, and nodes that stand for it.

With T the covariance in coordinates in which a client of average size has an estimate with covariance I, the density of T is
proportional to |EDGE I + T|^-(k + 1/2) for k coefficients: for one that of ``numerics.spread_law``; the same in all
coordinates of the coefficients; the variance of every combination of them has a tail of the power 3/2, as that law has
(claim: generative:spreads:covariance).
Independent coefficients, or one variance for all, have that law of ``spread_law`` each.

Belongs here: that law and its slopes, the search for its mode given the data, importance sampling about it.  Does not belong
here: likelihoods (``linear_clients``, ``logistic_clients``), shapes of covariances (``covariances``), the posteriors that
follow (``coefficient_model``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from estimators.numerics.arrays import Bools, Floats, Ints
from estimators.numerics.spread_law import EDGE, POWER
from estimators.regression.client_rows import Groups
from estimators.regression.covariances import Factor, Levels, climb

__all__ = ["Nodes", "average", "representative"]

FEW_PARAMETERS, POINTS, MORE = 3, 128, 512  # points of a round for so many parameters of covariances, and for more
ENOUGH, POOR, ROUNDS = 1.5, 0.25, 8  # rounds' points that are enough and too few, effectively, and most rounds
WORK, FEWEST = 40_000, 24  # clients times points of a round from which on points are fewer, and how few
KEPT, FEW = 800_000, 9  # entries of clients' covariances at all nodes from which on nodes are fewer, and how few
DOF = 5.0  # of the t laws that points are drawn from
LEFT_OUT = 1e-4  # the weight of the lightest points, which are dropped


class Nodes(NamedTuple):
    """Parameters x (K, p) of covariances as ``Levels`` has them, noises s (K,), weights (K,) that sum to 1.

    places : of the nodes (K,) among the points at which `average` has asked for a state without slopes, in that order.
    """

    x: Floats
    s: Floats
    weights: Floats
    places: Ints


def information(total: float, heard: Bools, groups: Groups | None) -> tuple[float, ...]:
    """Return what a unit of each level has of a total of all clients on average: of those `heard` (m,), and of their groups.

    >>> information(12.0, np.array([True, True, False]), None)
    (6.0,)
    """
    units = [int(heard.sum())] + ([] if groups is None else [len(np.unique(groups.codes[heard]))])
    return tuple(total / unit for unit in units)


def log_law(factor: Factor, x: Floats, scale: float) -> tuple[float, Floats]:
    """Return the log density of T = scale E E' at parameters x, without Jacobian, and its slope in x."""
    if factor.shape != "full":
        t = scale * x * x
        return float(-POWER * np.log(EDGE + t).sum()), -2 * POWER * scale * x / (EDGE + t)
    E = factor.inner(x)
    k = len(E)
    inner = EDGE * np.eye(k) + scale * E @ E.T
    slope = -(2 * k + 1) * scale * np.linalg.solve(inner, E)
    return float(-(k + 0.5) * np.linalg.slogdet(inner)[1]), np.asarray(slope[np.tril_indices(k)], float)


def stretches(factor: Factor) -> Floats:
    """Powers of the entries of x that the Jacobian of T in log diagonals and other entries of E has, array (p,).

    >>> stretches(Factor(np.eye(2), "full")).tolist(), stretches(Factor(np.eye(2), "scalar")).tolist()
    ([3.0, 0.0, 2.0], [2.0])
    """
    if factor.shape != "full":
        return 2 * factor.start
    k = factor.base.shape[1]
    return (np.diag(k + 1.0 - np.arange(k)))[np.tril_indices(k)]


class Density:
    """The density of t given the data: t are the parameters x, those on diagonals as logarithms.

    at(*roots) is the state of the likelihood, at(*roots, slopes=False) its loss and noise alone; `scales` of the levels, by
    which T is scale E E'.
    """

    def __init__(self, at: Callable[..., SimpleNamespace], levels: Levels, scales: tuple[float, ...]) -> None:
        self.at, self.levels, self.scales = at, levels, scales
        self.positive = levels.start > 0
        self.powers = np.tile(stretches(levels.white), levels.count)

    def x(self, t: Floats) -> Floats:
        """Parameters of covariances."""
        return np.where(self.positive, np.exp(np.where(self.positive, t, 0.0)), t)

    def law(self, x: Floats, t: Floats) -> tuple[float, Floats]:
        """Log density of t before the data, and its slope in x without that of the Jacobian."""
        levels = zip(np.split(x, self.levels.count), self.scales, strict=True)
        parts = [log_law(self.levels.white, part, scale) for part, scale in levels]
        stretch = float(np.sum(self.powers * np.where(self.positive, t, 0.0)))
        return sum(law for law, _ in parts) + stretch, np.concatenate([slope for _, slope in parts])

    def loss(self, t: Floats) -> tuple[float, Floats]:
        """Minus the log density at t, and its slope."""
        x = self.x(t)
        state, (law, by_law) = self.at(*self.levels.roots(x)), self.law(x, t)
        slope = self.levels.pull(state.by_root) - by_law
        return float(state.loss) - law, np.where(self.positive, slope * x - self.powers, slope)

    def height(self, t: Floats) -> tuple[float, float]:
        """The log density at t, and the likeliest noise there."""
        x = self.x(t)
        state = self.at(*self.levels.roots(x), slopes=False)
        return self.law(x, t)[0] - float(state.loss), float(state.s)


def average(
    at: Callable[..., SimpleNamespace], levels: Levels, scales: tuple[float, ...], free: float | None, max_iter: int,
    tol: float, m: int, work: int = WORK,
) -> tuple[Nodes, int, bool]:  # fmt: skip
    """Return nodes for the law of covariances and noise given the data, steps of the search, and whether it found the mode.

    Parameters
    ----------
    at : function of roots that returns the state of the likelihood, in which the noise is likeliest.
    levels : what is sought; scales : by which T of each level is scale E E'.
    free : degrees of freedom of the noise, None if it is known or there is none.
    max_iter, tol : of the search for the mode; m : number of clients; work : of them times points of a round at most.

    Warns RuntimeWarning where few points stand for the law.
    """
    density = Density(at, levels, scales)
    mode, steps, good = climb(density.loss, np.where(density.positive, 0.0, levels.start), max_iter, tol, m)
    p = len(mode)
    n = int(np.clip(work // m, FEWEST, POINTS if p <= FEW_PARAMETERS else MORE))
    uniform = even_cube(n * ROUNDS, p + 2)
    points, s, weights = explored(density, mode, uniform[:, :-1], n)
    heavy = np.argsort(-weights, kind="stable")
    heavy = heavy[: int(np.searchsorted(np.cumsum(weights[heavy]), 1 - LEFT_OUT)) + 1]
    x = np.array([density.x(t) for t in points[heavy]])
    order = np.argsort(np.sum(x**2, axis=1), kind="stable")  # in which a few at even steps of the weights stand for all
    kept, x = heavy[order], x[order]
    if free is not None:
        from scipy.special import chdtri

        s = s * free / chdtri(free, uniform[: len(s), -1])
    some, shares = even(weights[kept] / weights[kept].sum(), max(FEW, KEPT // (m * len(levels.factor.base) ** 2)))
    return Nodes(x[some], s[kept[some]], shares, kept[some]), steps, good


def explored(density: Density, mode: Floats, uniform: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    """Return points t (k, p), the likeliest noises there (k,) and weights (k,), from uniform numbers, n of them a round.

    Points are drawn from t laws, the first about the mode; after every round the next law has the mean and the covariance of
    what was found, and all points are weighed by the mixture of the laws so far (Cornuet et al. 2012, Scand. J. Stat.
    39:798).
    """
    p, laws = len(mode), []
    points, found, weights = np.zeros((0, p)), np.zeros((0, 2)), np.zeros(0)
    mean, covariance = mode, bent(density, mode)
    for first in range(0, len(uniform), n):
        laws.append((mean, np.asarray(np.linalg.cholesky(covariance), float)))
        new = drawn(uniform[first : first + n], *laws[-1])
        points = np.concatenate([points, new])
        found = np.concatenate([found, [density.height(t) for t in new]])
        weights = weighed(points, found[:, 0], laws)
        if 1 / np.sum(weights**2) >= ENOUGH * n:
            break
        mean = np.einsum("n,ni->i", weights, points)  # not by BLAS, whose sums depend on its threads
        covariance = np.einsum("n,ni,nj->ij", weights, points - mean, points - mean) + 1e-6 * np.eye(p)
    effective = 1 / np.sum(weights**2)
    if effective < POOR * n:
        warnings.warn(
            f"the average over covariances rests on {effective:.0f} points; covariance='diagonal' has fewer parameters",
            RuntimeWarning,
            stacklevel=5,
        )
    return points, found[:, 1], weights


def even(weights: Floats, most: int) -> tuple[Ints, Floats]:
    """Return at most so many places at even steps of the weights (K,), all if they are no more, and weights of these.

    >>> even(np.array([0.1, 0.5, 0.1, 0.3]), 3)[0].tolist()
    [1, 3]
    """
    if len(weights) <= most:
        return np.arange(len(weights)), weights
    steps = (np.arange(most) + 0.5) / most
    places = np.minimum(np.searchsorted(np.cumsum(weights), steps), len(weights) - 1)
    found, times = np.unique(places, return_counts=True)
    return found, times / most


def bent(density: Density, mode: Floats) -> Floats:
    """Covariance of the normal law with the curvature of a density at its mode, where that is not too flat."""
    step, p = 0.05, len(mode)
    slopes = [(density.loss(mode + d)[1] - density.loss(mode - d)[1]) / (2 * step) for d in step * np.eye(p)]
    curvature = (np.array(slopes) + np.array(slopes).T) / 2
    values, vectors = np.linalg.eigh(curvature)
    return vectors / np.maximum(values, 0.25) @ vectors.T


def drawn(uniform: Floats, mean: Floats, root: Floats) -> Floats:
    """Points (n, p) of the t law with this mean and root of its matrix, from uniform numbers (n, p + 1)."""
    from scipy.special import chdtri, ndtri

    stretch = np.sqrt(DOF / chdtri(DOF, uniform[:, -1]))
    return mean + np.einsum("nj,ij->ni", ndtri(uniform[:, :-1]) * stretch[:, None], root)


def weighed(points: Floats, logs: Floats, laws: list[tuple[Floats, Floats]]) -> Floats:
    """Weights (n,) of points with these log densities that were drawn from the laws in equal parts."""
    p, heights = points.shape[1], []
    for mean, root in laws:
        far = np.sum(np.einsum("ij,nj->ni", np.linalg.inv(root), points - mean) ** 2, axis=1)
        heights.append(-np.log(np.diag(root)).sum() - (DOF + p) / 2 * np.log1p(far / DOF))
    logs = logs - np.logaddexp.reduce(heights, axis=0)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def even_cube(n: int, dimension: int) -> Floats:
    """Points (n, dimension) that fill the unit cube evenly and lie inside it: Sobol's sequence, moved by a fixed shift."""
    from scipy.stats.qmc import Sobol

    whole = Sobol(dimension, scramble=False).random_base2(int(np.ceil(np.log2(n))))[:n]
    return np.maximum((whole + np.random.default_rng(0).random(dimension)) % 1.0, 2.0**-40)


def representative(levels: Levels, nodes: Nodes, scales: tuple[float, ...]) -> Floats:
    """Parameters x of the covariances with which a client of average size borrows as much as on average over the nodes.

    With B = (I + T)^-1 what it takes from others, that is the mean of B.
    """
    factor, found = levels.white, []
    for parts, scale in zip(np.split(nodes.x, levels.count, axis=1), scales, strict=True):
        if factor.shape != "full":
            taken = nodes.weights @ (1 / (1 + scale * parts**2))
            found.append(np.sqrt((1 / taken - 1) / scale))
            continue
        E = np.array([factor.inner(x) for x in parts])
        k = E.shape[1]
        taken = np.einsum("k,kij->ij", nodes.weights, np.linalg.inv(np.eye(k) + scale * E @ np.swapaxes(E, 1, 2)))
        T = np.linalg.inv(taken) - np.eye(k)
        found.append(np.linalg.cholesky((T + T.T) / (2 * scale))[np.tril_indices(k)])
    return np.concatenate(found)
