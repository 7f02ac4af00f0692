"""An average over what the data leave open about a spike and slab: its mode, its weight and the slab's variance.

Belongs here: the hyperprior, the quadrature over it, and posteriors of clients averaged over its nodes.  The likelihood and
the fitted model are in ``point_normal``; quantiles of mixtures of normal laws in ``numerics.normal_mixture``.

Hyperprior: the chance that there is no spike is `NO_SPIKE`; if there is one, its weight is uniform.  Without that chance the
spike was believed too much: of 20 clients with a normal prior 91 % of 95 % intervals held the truth.  From `NORMAL` clients
on the data speak for themselves, and the weight is uniform.

How it works.  In (logit of the slab's weight, log tau2, mode) the posterior of the prior's parameters is a smooth density.
It is summed over a lattice that grows from its maxima to wherever it is not negligible; such sums converge exponentially
fast as steps shrink, so when half of the lattice (those whose indices have an even sum) gives the same, all of it is
exact to far less.  With many clients the law is normal for all that matters, and four nodes do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as pairs_of
from typing import Any, NamedTuple, Protocol

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.spread_law import EDGE, POWER, log_density

__all__ = ["Nodes", "average", "posterior_terms"]

NO_SPIKE = 0.5  # chance that all clients are in the slab
ALL, FAR = 40.0, 1 << 19  # logit of a slab's weight of 1, and its index in the lattice
DEPTH = 10.0  # nodes less than exp(-DEPTH) times as likely as the likeliest are left out
LOST = 1e-5  # probability of the rarest nodes, which are left out too
SAME = 3e-3  # how close the half of the lattice must come
MOST = 60_000  # nodes
NORMAL = 3_000  # clients from whom on the law of the parameters is taken for normal
CELLS = 1 << 21  # nodes times clients at a time
FINE, COARSE = 0.6, 1.2  # steps in standard deviations given the rest; a normal law is summed to 1e-5 by the coarser one
FEW = 300  # clients up to which steps are fine
TOGETHER = 4  # neighbouring weights of the spike that share the laws of mode and slab
KERNEL = (
    0.35  # sd of the normal laws that stand for the points of the lattice, in steps: each moves no tail by more than 3 %
)


class Likelihood(Protocol):
    """The likelihood of ``point_normal``."""

    y: Floats
    v: Floats
    size: int

    def __init__(self, y: Floats, v: Floats, mode_known: bool) -> None: ...

    def at(self, point: Floats) -> tuple[float, Floats, Floats]:
        """Return value, gradient and Hessian."""
        ...

    def climb(self, point: Floats) -> tuple[Floats, float, bool]:
        """Return a local maximum from `point`, its height, and whether it is one."""
        ...


class Nodes(NamedTuple):
    """Priors and their probabilities, arrays (k,): the mode is N(modes, mode_sds^2), clients differ with chance `slabs`.

    Those that differ in the chance alone stand together; `laws` are the positions of the first of each such group.
    """

    slabs: np.ndarray
    tau2s: np.ndarray
    modes: np.ndarray
    mode_sds: np.ndarray
    shares: np.ndarray
    laws: np.ndarray


def log_hyperprior(a: Floats, b: Floats) -> Floats:
    """Return the log density of logit of the slab's weight and log tau2, with a spike: uniform, Strawderman's law."""
    return -np.logaddexp(0, a) - np.logaddexp(0, -a) + b + log_density(np.exp(b))


def add_hyperprior(point: Floats, found: tuple[float, Floats, Floats]) -> tuple[float, Floats, Floats]:
    """Return value, gradient and Hessian of the log posterior from those of the log likelihood."""
    value, gradient, hessian = found
    slab, share = 1 / (1 + np.exp(-point[0])), 1 / (1 + EDGE * np.exp(-point[1]))
    gradient[0] += 1 - 2 * slab
    gradient[1] += 1 - POWER * share
    hessian[0, 0] -= 2 * slab * (1 - slab)
    hessian[1, 1] -= POWER * share * (1 - share)
    return value + float(log_hyperprior(point[0], point[1])), gradient, hessian


def heights(y: Floats, v: Floats, points: Floats) -> Floats:
    """Return the log posterior at `points`, rows of logit, log tau2 and mode."""
    slab, spike, tau2 = 1 / (1 + np.exp(-points[:, 0])), 1 / (1 + np.exp(points[:, 0])), np.exp(points[:, 1])
    found = log_hyperprior(points[:, 0], points[:, 1])
    size = max(1, CELLS // y.size)
    for i in range(0, len(points), size):
        k = slice(i, i + size)
        u = 1 / (v + tau2[k, None])
        scaled = (y - points[k, 2:]) ** 2 * u  # both densities relative to the slab's exponential
        terms = slab[k, None] * np.sqrt(v * u) + spike[k, None] * np.exp(-0.5 * scaled * tau2[k, None] / v)
        found[k] += np.log(terms).sum(axis=1) - 0.5 * scaled.sum(axis=1)
    return found


def grow(
    height: Callable[[Floats], Floats], origin: Floats, steps: Floats, seeds: Ints, depth: float, most: int
) -> tuple[Ints, Floats]:
    """Return indices (k, d) and heights (k,) of the points origin + steps * index that are connected with a seed.

    Neighbours differ by one in one index.  Points lower than the highest by more than `depth` end the growth and are left
    out, and so does the number `most`, of the points looked at, which keeps the highest.
    """
    d, width = steps.size, 1 << 20
    moves = np.array([sign * row for row in np.eye(d, dtype=np.int64) for sign in (-1, 1)])
    code = width ** np.arange(d)
    new = np.unique(seeds, axis=0)
    seen = np.sort((new + width // 2) @ code)
    index, found = np.empty((0, d), np.int64), np.empty(0)
    while len(new):
        here = height(origin + steps * new)
        index, found = np.concatenate((index, new)), np.concatenate((found, here))
        if len(index) > most:
            break
        ends = new[here > found.max() - depth]
        new = (ends[:, None] + moves).reshape(-1, d)
        keys, first = np.unique((new + width // 2) @ code, return_index=True)
        fresh = ~np.isin(keys, seen, assume_unique=True)
        new, seen = new[first[fresh]], np.union1d(seen, keys)
    kept = found > found.max() - depth
    return index[kept], found[kept]


def scan(y: Floats, v: Floats, mode_known: bool, total: float) -> Floats:
    """Return points all over the posterior's range, to find out where it is large."""
    modes = [0.0] if mode_known else np.unique(np.append(np.quantile(y, np.linspace(0, 1, 25)), 0.0))
    logs = np.append(np.arange(-6.0, 3.0), np.log(total) + np.arange(-1.0, 7.0, 1.0))
    return np.array(list(pairs_of((-5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0), np.unique(logs), modes)))


def average(likelihood: Likelihood, best: Floats) -> tuple[Nodes, bool]:
    """Return Nodes that stand for the posterior law of the prior's parameters, and whether they are enough.

    `likelihood` has y and v in units where the harmonic mean of v is 1, `best` is where it is largest.
    """
    y, v, known = likelihood.y, likelihood.v, likelihood.size == 2

    of_prior: Any = type(likelihood)

    class Posterior(of_prior):
        def at(self, point):
            return add_hyperprior(point, super().at(point))

    posterior = Posterior(y, v, known)
    best = np.array([np.clip(best[0], -12, 12), np.clip(best[1], -8, 60), best[2]])
    total = max(float(np.mean(y**2 - v)), 0.1)
    points, levels = np.empty((0, 3)), np.empty(0)
    if y.size < NORMAL:
        points = scan(y, v, known, total)
        levels = heights(y, v, points)
        best = max((best, points[levels.argmax()]), key=lambda point: posterior.at(point)[0])
    best, top, climbed = posterior.climb(best)
    curvature: Any = np.linalg.inv(-posterior.at(best)[2])
    if y.size >= NORMAL and climbed and np.all(np.linalg.eigvalsh(curvature) > 0):
        return normal_law(best, curvature, known), True
    d = likelihood.size
    widths = 1 / np.sqrt(np.maximum(-np.diag(posterior.at(best)[2]), 1e-12))
    step = FINE if y.size <= FEW else COARSE
    steps = step * np.minimum(widths, 1.0)
    if not known:  # no law of the mode given the rest is narrower than this
        steps[2] = step * max(1.0, np.sqrt(1 + total) / 20) / np.sqrt(y.size)
    # Far points of the scan count only if the lattice would not come there from the top.
    starts = np.vstack((best, points[levels > top - DEPTH])) if len(points) else best[None]
    while True:
        seeds = np.rint((starts[:, :d] - best[:d]) / steps).astype(np.int64)
        index, found = grow(
            lambda x: heights(y, v, np.column_stack((x, np.full(len(x), best[2]))) if known else x),
            best[:d], steps, seeds, DEPTH, MOST,
        )  # fmt: skip
        mass = np.exp(found - found.max())
        even = index.sum(axis=1) % 2 == 0
        enough = abs(2 * mass[even].sum() / mass.sum() - 1) < SAME
        if enough or 2**d * len(index) > MOST:
            break
        steps = steps / 2
    x = best[:d] + steps * index
    # Without a spike: a lattice of the other parameters alone, of the same steps.
    rest, first = np.unique(index[:, 1:], axis=0, return_index=True)
    whole = np.column_stack((np.full(len(rest), ALL), x[first, 1:], np.full(len(rest), best[2])))[:, :3]
    odds = NO_SPIKE / (1 - NO_SPIKE) / steps[0] * np.exp(heights(y, v, whole) + ALL - found.max())
    index = np.vstack((index, np.column_stack((np.full(len(rest), FAR), rest))))
    x, mass = np.vstack((x, whole[:, :d])), np.append(mass, odds)
    order = np.argsort(-mass, kind="stable")
    mass = mass[order] / mass.sum()
    kept = 1 + np.searchsorted(np.cumsum(mass), 1 - LOST)
    order, shares = order[:kept], mass[:kept] / mass[:kept].sum()
    index = index[order]
    index[:, 0] //= TOGETHER
    _, law = np.unique(index, axis=0, return_inverse=True)
    together = np.argsort(law.ravel(), kind="stable")
    laws = np.searchsorted(law.ravel()[together], np.arange(law.max() + 1))
    order, index, shares = order[together], index[together], shares[together]
    x = x[order]
    if known:
        modes, sds = np.full(len(x), best[2]), np.zeros(len(x))
    else:
        modes, sds = smoothed(index[:, :2], x[:, 2], shares, KERNEL * steps[2])
    return Nodes(1 / (1 + np.exp(-x[:, 0])), np.exp(x[:, 1]), modes, sds, shares, laws), bool(enough)


def normal_law(best: Floats, covariance: Floats, known: bool) -> Nodes:
    """Return four nodes with the means and variances of the normal law, which has the mode's variance given the rest."""
    root = np.linalg.cholesky(covariance[:2, :2])
    offsets = np.sqrt(2) * np.concatenate((root.T, -root.T))
    modes, sds = np.full(4, best[2]), np.zeros(4)
    if not known:
        slope = np.linalg.solve(covariance[:2, :2], covariance[:2, 2])
        modes = modes + offsets @ slope
        sds = np.full(4, np.sqrt(covariance[2, 2] - slope @ covariance[:2, 2]))
    a, b = (best[:2] + offsets).T
    return Nodes(1 / (1 + np.exp(-a)), np.exp(b), modes, sds, np.full(4, 0.25), np.arange(4))


def smoothed(rows: Ints, modes: Floats, shares: Floats, sd: float) -> tuple[Floats, Floats]:
    """Return centres and sds of normal laws in place of points, which keep the mean and variance of each row of modes."""
    _, row = np.unique(rows, axis=0, return_inverse=True)
    row = row.ravel()
    whole = np.bincount(row, shares)
    mean = np.bincount(row, shares * modes) / whole
    variance = np.bincount(row, shares * (modes - mean[row]) ** 2) / whole
    with np.errstate(divide="ignore", invalid="ignore"):
        shrink = np.sqrt(np.maximum(0.0, 1 - sd**2 / variance))
    shrink[variance == 0] = 0.0
    return mean[row] + shrink[row] * (modes - mean[row]), np.full(modes.size, sd)


def posterior_terms(nodes: Nodes, y: Floats, v: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return, clients by laws, probabilities of slab and spike, weight of own estimates in the slab, its means, variances.

    Probabilities add up to one over both and all laws.
    """
    first = nodes.laws
    tau2s, modes, mode_sds = (column[first] for column in (nodes.tau2s, nodes.modes, nodes.mode_sds))
    v, residual = v[:, None], y[:, None] - modes
    precision = 1 / (v + tau2s)
    own, rest = tau2s * precision, v * precision
    # Both densities relative to the slab's exponential.
    law = np.repeat(np.arange(first.size), np.diff(first, append=nodes.shares.size))
    density = nodes.slabs * np.sqrt(rest)[:, law]
    density /= density + (1 - nodes.slabs) * np.exp(-0.5 * own * residual**2 / v)[:, law]
    slab = np.add.reduceat(nodes.shares * density, first, axis=1)
    spike = np.maximum(np.add.reduceat(nodes.shares, first) - slab, 0.0)
    return slab, spike, own, modes + own * residual, tau2s * rest + (rest * mode_sds) ** 2
