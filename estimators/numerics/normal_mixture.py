"""Distribution functions and quantiles of finite mixtures of normals, one mixture per client.

Belongs here: arithmetic of given mixtures.  The models whose posteriors they are live in ``gaussian_means`` and
``point_normal``.
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Numbers

__all__ = ["cdf", "quantile"]


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

    The quantiles of the components bracket it.  Newton's method, with bisection where it leaves the bracket, ends after
    a step below 1e-9 standard deviations, whose square is what then is left.

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

    weights, means, sds = np.broadcast_arrays(*(np.asarray(a, float) for a in (weights, means, sds)))
    q = np.broadcast_to(np.asarray(q, float), means.shape[:-1])
    own = means + ndtri(q)[..., None] * sds
    if own.shape[-1] == 1:
        return own[..., 0]
    shape, k = own.shape[:-1], own.shape[-1]
    weights, means, sds = (a.reshape(-1, k) for a in (weights, means, sds))
    low, high, q = own.min(axis=-1).ravel(), own.max(axis=-1).ravel(), q.ravel()
    mean = np.einsum("ik,ik->i", weights, means)
    spread = np.sqrt(np.einsum("ik,ik->i", weights, sds**2 + (means - mean[:, None]) ** 2))
    t = np.clip(mean + ndtri(q) * spread, low, high)
    smallest = 1e-9 * spread
    active = np.arange(t.size)
    for _ in range(200):
        z = (t[active, None] - means[active]) / sds[active]
        excess = np.einsum("ik,ik->i", weights[active], ndtr(z)) - q[active]
        density = np.einsum("ik,ik->i", weights[active], np.exp(-0.5 * z * z) / sds[active]) / np.sqrt(2 * np.pi)
        here = t[active]
        low[active] = np.where(excess < 0, here, low[active])
        high[active] = np.where(excess < 0, high[active], here)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = here - excess / density
        inside = (step >= low[active]) & (step <= high[active])
        t[active] = np.where(inside, step, 0.5 * (low[active] + high[active]))
        moved = np.abs(t[active] - here) > np.maximum(smallest[active], 2 * np.spacing(np.abs(here)))
        active = active[moved]
        if active.size == 0:
            break
    return t.reshape(shape)
