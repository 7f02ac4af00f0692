"""Distribution functions and quantiles of finite mixtures of normals, one mixture per client.

Belongs here: arithmetic of given mixtures.  The models whose posteriors they are live in ``normal_posteriors`` and
``point_normal``.
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Numbers

__all__ = ["cdf", "quantile"]

MANY = 8192  # mixtures from which on the compiled twin is worth the time to load it
ROOT = np.sqrt(2 * np.pi)


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
    return np.minimum(np.einsum("...k,...k->...", np.broadcast_to(weights, below.shape), below), 1.0)


def quantile(q: ArrayLike, weights: Floats, means: Floats, sds: Floats) -> Floats:
    """Return the smallest t with P(X <= t) >= q, for X as in `cdf`, one per mixture.

    The quantiles of the components bracket it.  Householder's method of third order from Cornish and Fisher's expansion,
    with bisection where it leaves the bracket or does not halve the step before the last, ends after a step below a
    thousandth of the scale on which densities change, whose fourth power is what then is left.  Upper quantiles are those of
    the mirrored law, so that no tail is rounded off.

    Parameters
    ----------
    q : number in (0, 1), or array (...) with one for each mixture.
    weights, means, sds : arrays (..., K); sds > 0, except that there may be one component of any sd alone.

    >>> quantile(0.75, [1.0], [2.0], [0.0]).tolist()
    2.0
    >>> round(float(quantile(0.5, [0.5, 0.5], [-1.0, 1.0], [1.0, 1.0])), 12)
    0.0
    """
    from scipy.special import ndtr, ndtri

    laws = [np.asarray(a, float) for a in (weights, means, sds)]
    weights, means, sds = (np.broadcast_to(a, np.broadcast_shapes(*(b.shape for b in laws))) for a in laws)
    q = np.broadcast_to(np.asarray(q, float), means.shape[:-1])
    own = means + ndtri(q)[..., None] * sds
    if own.shape[-1] == 1:
        return own[..., 0]
    shape, k = own.shape[:-1], own.shape[-1]
    weights, means, sds = (a.reshape(-1, k) for a in (weights, means, sds))
    q, mirror = q.ravel(), np.where(q.ravel() > 0.5, -1.0, 1.0)
    normal, q = ndtri(q) * mirror, np.where(mirror < 0, 1 - q, q)
    if q.size >= MANY:
        from estimators.numerics.mixture_kernels import quantiles

        found = np.empty(q.size)
        quantiles(q, normal, mirror, weights, means, sds, found)
        return found.reshape(shape)
    means, own = means * mirror[:, None], own.reshape(-1, k) * mirror[:, None]
    low, high = own.min(axis=-1), own.max(axis=-1)
    spread, t = expanded(normal, weights, means, sds)
    t = np.clip(t, low, high)
    smallest, found, rows = sds.min(axis=-1), t.copy(), np.arange(t.size)
    before = last = 2 * (high - low)
    for _ in range(200):
        inverse = 1 / sds
        z = (t[:, None] - means) * inverse
        gap = np.einsum("ik,ik->i", weights, ndtr(z)) - q
        heights = np.exp(-0.5 * z * z) * (weights * inverse)
        density = heights.sum(axis=1) / ROOT
        z *= inverse
        slope = -np.einsum("ik,ik->i", heights, z) / ROOT
        bend = np.einsum("ik,ik->i", heights, z * z - inverse * inverse) / ROOT
        low, high = np.where(gap < 0, t, low), np.where(gap < 0, high, t)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step, scale = gap / density, density / np.abs(slope)
            a, b = step * slope / density, step * step * bend / density
            close = np.abs(step) <= np.maximum(1e-3 * np.fmin(smallest, scale), 1e-9 * spread)
            new = t - np.where(np.maximum(np.abs(a), np.abs(b)) < 0.5, step * (6 - 3 * a) / (6 - 6 * a + b), step)
            inside = (new >= low) & (new <= high) & (np.abs(new - t) <= before / 2)
            new = np.where(inside, new, 0.5 * (low + high))
        before, last = last, np.abs(new - t)
        going = ~(close & inside) & (np.abs(new - t) > 2 * np.spacing(np.abs(t)))
        found[rows], t = new, new
        if not going.all():
            rows, t, low, high, q = rows[going], t[going], low[going], high[going], q[going]
            if rows.size == 0:
                break
            spread, smallest, before, last = spread[going], smallest[going], before[going], last[going]
            weights, means, sds = weights[going], means[going], sds[going]
    return (mirror * found).reshape(shape)


def expanded(z: Floats, weights: Floats, means: Floats, sds: Floats) -> tuple[Floats, Floats]:
    """Return sds of mixtures and their quantiles by Cornish and Fisher's expansion, where a normal law is near, at z."""
    mean = np.einsum("ik,ik->i", weights, means)
    away = means - mean[:, None]
    unit = np.frexp(np.max(np.maximum(np.abs(away), sds), axis=1))[1]  # so that fourth powers neither over- nor underflow
    away, variances = np.ldexp(away, -unit[:, None]), np.ldexp(sds, -unit[:, None]) ** 2
    squares = away**2
    second = np.einsum("ik,ik->i", weights, squares + variances)
    third = np.einsum("ik,ik->i", weights, away * (squares + 3 * variances))
    fourth = np.einsum("ik,ik->i", weights, squares * squares + 6 * squares * variances + 3 * variances * variances)
    spread = np.sqrt(second)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        skew, heavy = third / (second * spread), fourth / second**2 - 3
        moved = skew * (z * z - 1) / 6 + heavy * (z**3 - 3 * z) / 24 - skew * skew * (2 * z**3 - 5 * z) / 36
    spread = np.ldexp(spread, unit)
    return spread, mean + spread * (z + np.where((np.abs(skew) < 1) & (np.abs(heavy) < 2), moved, 0.0))
