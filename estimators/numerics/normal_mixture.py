"""Distribution functions and quantiles of finite mixtures of normals, one mixture per client.

Belongs here: arithmetic of given mixtures.  The models whose posteriors they are live in ``normal_posteriors`` and
``point_normal``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Ints, Numbers
from estimators.numerics.blocks import dots, parts
from estimators.numerics.inversion import householder

__all__ = ["cdf", "quantile"]

MANY = 8192  # mixtures from which on the compiled twin is worth the time to load it
BLOCK = 1 << 14  # numbers in a work array: half a dozen stay in a core's cache
DEGREE = 11  # of the Taylor polynomial whose root ends a search
EXACT = 1e-12  # by how many standard deviations of a mixture its quantile may be off
ROOT = np.sqrt(2 * np.pi)
SMALLEST = -1000  # power of two of a unit whose inverse is a number


def cdf(t: Numbers, weights: Floats, means: Floats, sds: Floats, strict: bool = False) -> Floats:
    """Return P(X <= t), or P(X < t) if `strict`, of X ~ sum_k weights_k N(means_k, sds_k^2), exact to roundoff.

    Parameters
    ----------
    t : number or array broadcasting against means[..., 0].
    weights : array (..., K) >= 0 that sums to 1; means, sds : arrays (..., K).  A component with sd 0 is an atom.
    strict : bool; whether an atom at t is left out.

    >>> cdf(0.0, [0.5, 0.5], [0.0, 0.0], [0.0, 1.0]).tolist(), cdf(0.0, [0.5, 0.5], [0.0, 0.0], [0.0, 1.0], True).tolist()
    (0.75, 0.25)
    """
    from scipy.special import ndtr

    weights, means, sds = (np.asarray(a, float) for a in (weights, means, sds))
    distance = np.asarray(t, float)[..., None] - means
    atom = sds == 0
    below = ndtr(distance / np.where(atom, 1.0, sds))
    if atom.any():
        below = np.where(atom, distance > 0 if strict else distance >= 0, below)
    return np.minimum(np.einsum("...k,...k->...", weights, below), 1.0)


def quantile(
    q: ArrayLike,
    weights: Floats,
    means: Floats,
    sds: Floats,
    start: Floats | None = None,
    compiled: bool | None = None,
) -> Floats:
    """Return the smallest t with P(X <= t) >= q, for X as in `cdf`, one per mixture, exact to `EXACT` sds and roundoff.

    A look at t gives the distribution function there and `DEGREE` derivatives.  The root of that Taylor polynomial is taken
    where Cramer's bound on Hermite functions says that it is exact enough, which is where the first look is for most
    posteriors: at Cornish and Fisher's expansion.  Elsewhere it goes on, by Householder's method of third order, with
    bisection where that leaves the bracket or does not halve the step before the last; the quantiles of the components are
    the first bracket.  Upper quantiles are those of the mirrored law, so that no tail is rounded off.

    Parameters
    ----------
    q : number in (0, 1), or array broadcasting against means[..., 0]; several levels of the same laws, on axes before
        theirs, are found faster together.
    weights, means, sds : arrays (..., K); sds > 0, except that a mixture may be one point, with all sds 0.
    start : array (...), where to look first, if more is known than the cumulants tell.
    compiled : whether the loop is the compiled one; None for `MANY` mixtures or more.  It is for who asks part by part.

    >>> quantile(0.75, [0.5, 0.5], [2.0, 2.0], [0.0, 0.0]).tolist()
    2.0
    >>> quantile([0.25, 0.5], [0.5, 0.5], [-1.0, 1.0], [1.0, 1.0]).round(4).tolist()
    [-1.0505, 0.0]
    """
    from scipy.special import ndtri

    laws = [np.asarray(a, float) for a in (weights, means, sds)]
    weights, means, sds = (np.broadcast_to(a, np.broadcast_shapes(*(b.shape for b in laws))) for a in laws)
    of_laws, k, q = means.shape[:-1], means.shape[-1], np.asarray(q, float)
    shape = np.broadcast_shapes(q.shape, of_laws)
    if k == 1:
        return (means + ndtri(q)[..., None] * sds)[..., 0]
    weights, means, sds = (a.reshape(-1, k) for a in (weights, means, sds))
    levels = np.broadcast_to(q, shape).reshape(-1, len(means))
    first = np.full(len(means), np.nan) if start is None else np.broadcast_to(np.asarray(start, float), of_laws).ravel()
    mirror = np.where(levels > 0.5, -1.0, 1.0)
    normal, levels = ndtri(levels) * mirror, np.where(mirror < 0, 1 - levels, levels)
    found = np.empty(levels.shape)
    if len(means) >= MANY if compiled is None else compiled:
        from estimators.numerics.mixture_kernels import quantiles

        for level, z, side, out in zip(levels, normal, mirror, found, strict=True):
            quantiles(level, z, side, weights, means, sds, first, DEGREE, EXACT, SMALLEST, out)
        return found.reshape(shape)
    for some in parts(len(means), BLOCK // k):
        law = scaled(weights[some], means[some], sds[some])
        for level, z, side, out in zip(levels, normal, mirror, found, strict=True):
            out[some] = searched(level[some], z[some], side[some], law, first[some])
    return found.reshape(shape)


class Laws(NamedTuple):
    """Mixtures (m, K) in units 2^`unit` that no number of a row exceeds, so that no derivative is too small to count.

    With their means, sds, skewness and excess, arrays (m,), as `mean`, `spread`, `skew` and `heavy`.
    """

    weights: Floats
    means: Floats
    sds: Floats
    unit: Ints
    mean: Floats
    spread: Floats
    skew: Floats
    heavy: Floats


def scaled(weights: Floats, means: Floats, sds: Floats) -> Laws:
    """Return the Laws of mixtures (m, K)."""
    unit = np.maximum(np.frexp(np.abs(means).sum(axis=1) + sds.sum(axis=1))[1], SMALLEST)
    scale = np.ldexp(1.0, -unit)[:, None]
    means, sds = means * scale, sds * scale
    return Laws(weights, means, sds, unit, *cumulants(weights, means, sds))


def searched(q: Floats, normal: Floats, mirror: Floats, laws: Laws, first: Floats) -> Floats:
    """Return quantiles of mixtures at q <= 1/2, of their mirrored laws where `mirror` is -1.

    `normal` holds the quantiles of the standard normal law, `first` where to look first, or NaN.
    """
    weights, means, sds, unit, mean, spread, skew, heavy = laws
    means = means * mirror[:, None]
    own = normal[:, None] * sds
    own += means
    low, high = own.min(axis=1), own.max(axis=1)
    t = mirror * mean + spread * expanded(normal, mirror * skew, heavy)
    t = np.clip(np.where(np.isnan(first), t, np.ldexp(mirror * first, -unit)), low, high)
    going = high > low
    found, exact, least = np.where(going, t, low), EXACT * spread, sds.min(axis=1)
    rows, before = np.arange(q.size), 2 * (high - low)
    last = before
    while going.any():
        if not going.all():
            rows, t, low, high, q = rows[going], t[going], low[going], high[going], q[going]
            exact, least, before, last = exact[going], least[going], before[going], last[going]
            weights, means, sds = weights[going], means[going], sds[going]
        gap, derivatives = looked(t, weights, means, sds)
        gap -= q
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = householder(gap, *derivatives[:3])
            move, error = taylor_root(gap, derivatives, -step, least)
            root, new = t + move, t - step
            low, high = np.where(gap < 0, t, low), np.where(gap < 0, high, t)
            settled = (error <= exact) & (root >= low) & (root <= high)
            inside = (new >= low) & (new <= high) & (np.abs(new - t) <= before / 2)
        new = np.where(settled, root, np.where(inside, new, 0.5 * (low + high)))
        before, last = last, np.abs(new - t)
        going = ~settled & (last > np.maximum(exact, 2 * np.spacing(np.abs(t))))
        found[rows] = t = new
    return np.ldexp(mirror * found, unit)


def looked(t: Floats, weights: Floats, means: Floats, sds: Floats) -> tuple[Floats, Floats]:
    """Return the distribution functions of mixtures (m, K) at t (m,) and their derivatives there, array (`DEGREE`, m)."""
    from scipy.special import ndtr

    derivatives, inverse = np.empty((DEGREE, t.size)), 1 / sds
    z = t[:, None] - means
    z *= inverse
    below = dots(weights, ndtr(z))
    heights = z * z
    heights *= -0.5
    np.exp(heights, out=heights)
    heights *= weights
    heights *= inverse
    heights *= 1 / ROOT
    z *= inverse
    inverse *= inverse
    older, product, factor = np.zeros_like(heights), np.empty_like(heights), np.zeros_like(heights)
    with np.errstate(invalid="ignore", over="ignore"):
        for derivative in derivatives:  # Hermite's recurrence, in units of each component, without new arrays
            np.einsum("ik->i", heights, out=derivative)
            np.multiply(z, heights, out=product)
            older *= factor
            np.subtract(product, older, out=older)
            older, heights = heights, older
            factor += inverse
    derivatives[1::2] *= -1
    return below, derivatives


def taylor_root(gap: Floats, derivatives: Sequence[Floats] | Floats, move: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Return how far off the root of the Taylor polynomial is, nearly `move`, and what bounds its error.

    `least` is the smallest sd of a component.  |He_n(x)| exp(-x^2 / 4) < 1.09 sqrt(n!) (Cramer), so that the derivative
    after the last is nowhere more than 1.09 sqrt(n! / (2 pi)) / least^(n + 1), with n of them at hand.
    """
    orders = np.arange(1.0, len(derivatives) + 1)
    factorials = np.multiply.accumulate(orders)
    terms = np.ascontiguousarray(np.transpose(derivatives)) / factorials
    slopes, powers, change = terms * orders, np.ones_like(terms), np.zeros_like(gap)
    for _ in range(3):
        np.multiply.accumulate(np.broadcast_to(move[:, None], powers[:, 1:].shape), axis=1, out=powers[:, 1:])
        value, slope = dots(terms, powers), dots(slopes, powers)
        change = (gap + value * move) / slope
        move = move - change
    degree = orders.size
    rest = 1.09 / ROOT / (degree + 1) / np.sqrt(factorials[-1]) * (np.abs(move) / least) ** (degree + 1)
    return move, np.abs(change) + rest / derivatives[0]


def cumulants(weights: Floats, means: Floats, sds: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the means, sds, skewness and excess of mixtures (m, K)."""
    mean = dots(weights, means)
    away, variances = means - mean[:, None], sds * sds
    squares = away * away
    far, wide = weights * squares, weights * variances
    second = far.sum(axis=1) + wide.sum(axis=1)
    third = dots(far, away) + 3 * dots(wide, away)
    fourth = dots(far, squares) + 6 * dots(far, variances) + 3 * dots(wide, variances)
    spread = np.sqrt(second)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return mean, spread, third / (second * spread), fourth / second**2 - 3


def expanded(z: Floats, skew: Floats, heavy: Floats) -> Floats:
    """Return Cornish and Fisher's expansion of quantiles, in sds, at those z of a normal law; z where it is not near."""
    with np.errstate(invalid="ignore", over="ignore"):
        square = z * z
        moved = skew * (square - 1) / 6 + z * (heavy * (square - 3) / 24 - skew * skew * (2 * square - 5) / 36)
    return z + np.where((np.abs(skew) < 1) & (np.abs(heavy) < 2), moved, 0.0)
