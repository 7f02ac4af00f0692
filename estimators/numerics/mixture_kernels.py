"""Compiled twin of ``normal_mixture.quantile``, for very many mixtures.

Belongs here: that loop, with everything it calls, because numba's on-disk cache does not notice changes in other files.
"""

import math

import numpy as np
from numba import njit

__all__ = ["quantiles"]


@njit(cache=True, nogil=True, error_model="numpy")
def quantiles(q, normal, mirror, weights, means, sds, out):
    """Write the quantile of each row's mixture, mirrored where `mirror` is -1, into `out`, mirrored back.

    `normal` holds the quantiles of the standard normal law.
    """
    m, k = means.shape
    places = np.empty(k)
    for i in range(m):
        z = normal[i]
        for j in range(k):
            places[j] = mirror[i] * means[i, j]
        low, high, least = np.inf, -np.inf, np.inf
        mean = 0.0
        for j in range(k):
            own = places[j] + z * sds[i, j]
            low, high, least = min(low, own), max(high, own), min(least, sds[i, j])
            mean += weights[i, j] * places[j]
        second, third, fourth = 0.0, 0.0, 0.0
        for j in range(k):
            d, s2 = places[j] - mean, sds[i, j] ** 2
            second += weights[i, j] * (d * d + s2)
            third += weights[i, j] * d * (d * d + 3 * s2)
            fourth += weights[i, j] * (d**4 + 6 * d * d * s2 + 3 * s2 * s2)
        spread = math.sqrt(second)
        skew, heavy = third / (second * spread), fourth / (second * second) - 3
        t = z
        if abs(skew) < 1 and abs(heavy) < 2:  # Cornish and Fisher's expansion
            t += skew * (z * z - 1) / 6 + heavy * (z**3 - 3 * z) / 24 - skew * skew * (2 * z**3 - 5 * z) / 36
        t = min(max(mean + spread * t, low), high)
        before = last = 2 * (high - low)
        for _ in range(200):
            below, density, slope, bend = 0.0, 0.0, 0.0, 0.0
            for j in range(k):
                inverse = 1 / sds[i, j]
                x = (t - places[j]) * inverse
                below += weights[i, j] * 0.5 * math.erfc(-x * 0.7071067811865476)
                height = weights[i, j] * inverse * math.exp(-0.5 * x * x) * 0.3989422804014327
                density += height
                slope -= height * x * inverse
                bend += height * (x * x - 1) * inverse * inverse
            gap = below - q[i]
            if gap < 0:
                low = t
            else:
                high = t
            step, scale = gap / density, density / abs(slope)
            close = abs(step) <= max(1e-3 * min(least, scale), 1e-9 * spread)
            a, b = step * slope / density, step * step * bend / density
            if max(abs(a), abs(b)) < 0.5:  # Householder's third order; else Newton's
                step *= (6 - 3 * a) / (6 - 6 * a + b)
            new = t - step
            inside = low <= new <= high and abs(new - t) <= 0.5 * before
            if not inside:
                new = 0.5 * (low + high)
            settled = (close and inside) or abs(new - t) <= 2 * np.spacing(abs(t))
            before, last = last, abs(new - t)
            t = new
            if settled:
                break
        out[i] = mirror[i] * t
