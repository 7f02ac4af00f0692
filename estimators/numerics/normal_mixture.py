"""Distribution functions and quantiles of finite mixtures of normals, one mixture per client.

Belongs here: arithmetic of given mixtures.  The models whose posteriors they are live in ``normal_posteriors`` and
``point_normal``.
"""

from __future__ import annotations

from math import factorial

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.blocks import parts

__all__ = ["cdf", "quantile"]

MANY = 8192  # mixtures from which on the compiled twin is worth the time to load it
BLOCK = 1 << 16  # numbers in a work array
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
    q : number in (0, 1), or array (...) with one for each mixture.
    weights, means, sds : arrays (..., K); sds > 0, except that a mixture may be one point, with all sds 0.
    start : array (...), where to look first, if more is known than the cumulants tell.
    compiled : whether the loop is the compiled one; None for `MANY` mixtures or more.  It is for who asks part by part.

    >>> quantile(0.75, [0.5, 0.5], [2.0, 2.0], [0.0, 0.0]).tolist()
    2.0
    >>> round(float(quantile(0.5, [0.5, 0.5], [-1.0, 1.0], [1.0, 1.0])), 12)
    0.0
    """
    from scipy.special import ndtri

    laws = [np.asarray(a, float) for a in (weights, means, sds)]
    weights, means, sds = (np.broadcast_to(a, np.broadcast_shapes(*(b.shape for b in laws))) for a in laws)
    q = np.broadcast_to(np.asarray(q, float), means.shape[:-1])
    shape, k = q.shape, means.shape[-1]
    if k == 1:
        return (means + ndtri(q)[..., None] * sds)[..., 0]
    weights, means, sds = (a.reshape(-1, k) for a in (weights, means, sds))
    q, mirror = q.ravel(), np.where(q.ravel() > 0.5, -1.0, 1.0)
    normal, q = ndtri(q) * mirror, np.where(mirror < 0, 1 - q, q)
    first = np.full(q.size, np.nan) if start is None else np.broadcast_to(np.asarray(start, float), shape).ravel()
    found = np.empty(q.size)
    if q.size >= MANY if compiled is None else compiled:
        from estimators.numerics.mixture_kernels import quantiles

        quantiles(q, normal, mirror, weights, means, sds, first, DEGREE, EXACT, SMALLEST, found)
        return found.reshape(shape)
    for some in parts(q.size, BLOCK // k):
        found[some] = searched(q[some], normal[some], mirror[some], weights[some], means[some], sds[some], first[some])
    return found.reshape(shape)


def searched(
    q: Floats, normal: Floats, mirror: Floats, weights: Floats, means: Floats, sds: Floats, first: Floats
) -> Floats:
    """Return quantiles of mixtures (m, K) at q <= 1/2, of their mirrored laws where `mirror` is -1.

    `normal` holds the quantiles of the standard normal law, `first` where to look first, or NaN.  All is done in units that
    no number of a row exceeds, so that no derivative is too small to count.
    """
    from scipy.special import ndtr

    unit = np.maximum(np.frexp(np.abs(means).sum(axis=1) + sds.sum(axis=1))[1], SMALLEST)
    scale = np.ldexp(mirror, -unit)
    means, sds, first = means * scale[:, None], sds * np.abs(scale)[:, None], first * scale
    own = means + normal[:, None] * sds
    low, high = own.min(axis=1), own.max(axis=1)
    spread, t = expanded(normal, weights, means, sds)
    t = np.clip(np.where(np.isnan(first), t, first), low, high)
    going = high > low
    found, exact, least = np.where(going, t, low), EXACT * spread, sds.min(axis=1)
    rows, before = np.arange(q.size), 2 * (high - low)
    last = before
    while going.any():
        if not going.all():
            rows, t, low, high, q = rows[going], t[going], low[going], high[going], q[going]
            exact, least, before, last = exact[going], least[going], before[going], last[going]
            weights, means, sds = weights[going], means[going], sds[going]
        inverse = 1 / sds
        z = (t[:, None] - means) * inverse
        gap = np.einsum("ik,ik->i", weights, ndtr(z)) - q
        heights = np.exp(-0.5 * z * z) * (weights * inverse / ROOT)
        derivatives, older = [heights.sum(axis=1)], np.zeros_like(heights)
        z *= -inverse
        inverse *= inverse
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for r in range(DEGREE - 1):  # Hermite's recurrence, in units of each component
                older *= r * inverse
                older, heights = heights, z * heights - older
                derivatives.append(heights.sum(axis=1))
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


def householder(gap: Floats, density: Floats, slope: Floats, bend: Floats) -> Floats:
    """Return the step of Householder's third order from where the function is `gap`, or Newton's far from the root."""
    step = gap / density
    a, b = step * slope / density, step * step * bend / density
    return np.where(np.maximum(np.abs(a), np.abs(b)) < 0.5, step * (6 - 3 * a) / (6 - 6 * a + b), step)


def taylor_root(gap: Floats, derivatives: list[Floats], move: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Return how far off the root of the Taylor polynomial is, nearly `move`, and what bounds its error.

    `least` is the smallest sd of a component.  |He_n(x)| exp(-x^2 / 4) < 1.09 sqrt(n!) (Cramer), so that the derivative
    after the last is nowhere more than 1.09 sqrt(n! / (2 pi)) / least^(n + 1), with n of them at hand.
    """
    degree, change = len(derivatives), np.zeros_like(gap)
    for _ in range(3):
        value = slope = np.zeros_like(gap)
        for r in range(degree, 0, -1):
            value = derivatives[r - 1] + value * move / (r + 1)
            slope = derivatives[r - 1] + slope * move / r
        change = (gap + value * move) / slope
        move = move - change
    rest = 1.09 / ROOT / (degree + 1) / np.sqrt(factorial(degree)) * (np.abs(move) / least) ** (degree + 1)
    return move, np.abs(change) + rest / derivatives[0]


def expanded(z: Floats, weights: Floats, means: Floats, sds: Floats) -> tuple[Floats, Floats]:
    """Return sds of mixtures and their quantiles by Cornish and Fisher's expansion, where a normal law is near, at z."""
    mean = np.einsum("ik,ik->i", weights, means)
    away, variances = means - mean[:, None], sds**2
    squares = away**2
    second = np.einsum("ik,ik->i", weights, squares + variances)
    third = np.einsum("ik,ik->i", weights, away * (squares + 3 * variances))
    fourth = np.einsum("ik,ik->i", weights, squares * squares + 6 * squares * variances + 3 * variances * variances)
    spread = np.sqrt(second)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        skew, heavy = third / (second * spread), fourth / second**2 - 3
        moved = skew * (z * z - 1) / 6 + heavy * (z**3 - 3 * z) / 24 - skew * skew * (2 * z**3 - 5 * z) / 36
    return spread, mean + spread * (z + np.where((np.abs(skew) < 1) & (np.abs(heavy) < 2), moved, 0.0))
