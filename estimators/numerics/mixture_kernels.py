"""Compiled twin of ``normal_mixture.quantile``, for very many mixtures.

Belongs here: that loop, with everything it calls, because numba's on-disk cache does not notice changes in other files.
"""

import math

import numpy as np
from numba import njit

__all__ = ["quantiles"]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def quantiles(q, normal, mirror, weights, means, sds, start, degree, exact, smallest, out):
    """Write the quantile of each row's mixture, mirrored where `mirror` is -1, into `out`, mirrored back.

    `normal` holds the quantiles of the standard normal law, `start` where to look first, or NaN.  Returns the number of
    looks at a mixture, all rows together.
    """
    m, k = means.shape
    looks = 0
    places, spreads, inverses = np.empty(k), np.empty(k), np.empty(k)
    heights, older, derivatives = np.empty(k), np.empty(k), np.empty(degree)
    inverse_of, factorial = np.empty(degree + 2), 1.0
    for r in range(1, degree + 2):
        inverse_of[r] = 1 / r
    for r in range(2, degree + 1):
        factorial *= r
    cramer = 1.09 * 0.3989422804014327 / (degree + 1) / math.sqrt(factorial)
    for i in range(m):
        z = normal[i]
        size = 0.0
        for j in range(k):
            size += abs(means[i, j]) + sds[i, j]
        unit = max(math.frexp(size)[1], smallest)  # in which no derivative is too small to count
        scale = math.ldexp(1.0, -unit)
        low, high, least = np.inf, -np.inf, np.inf
        mean = 0.0
        for j in range(k):
            spreads[j] = scale * sds[i, j]
            places[j], inverses[j] = mirror[i] * scale * means[i, j], 1 / spreads[j]
            own = places[j] + z * spreads[j]
            low, high, least = min(low, own), max(high, own), min(least, spreads[j])
            mean += weights[i, j] * places[j]
        out[i] = math.ldexp(mirror[i] * low, unit)
        if not high > low:
            continue
        second, third, fourth = 0.0, 0.0, 0.0
        for j in range(k):
            d, s2 = places[j] - mean, spreads[j] ** 2
            second += weights[i, j] * (d * d + s2)
            third += weights[i, j] * d * (d * d + 3 * s2)
            fourth += weights[i, j] * (d**4 + 6 * d * d * s2 + 3 * s2 * s2)
        spread = math.sqrt(second)
        skew, heavy = third / (second * spread), fourth / (second * second) - 3
        t = z
        if abs(skew) < 1 and abs(heavy) < 2:  # Cornish and Fisher's expansion
            t += skew * (z * z - 1) / 6 + heavy * (z**3 - 3 * z) / 24 - skew * skew * (2 * z**3 - 5 * z) / 36
        t = mean + spread * t if math.isnan(start[i]) else mirror[i] * scale * start[i]
        t = min(max(t, low), high)
        before = last = 2 * (high - low)
        while True:
            looks += 1
            below = 0.0
            for j in range(k):
                x = (t - places[j]) * inverses[j]
                below += weights[i, j] * 0.5 * math.erfc(-x * 0.7071067811865476)
                heights[j] = weights[i, j] * inverses[j] * math.exp(-0.5 * x * x) * 0.3989422804014327
            older[:] = 0.0
            for r in range(degree):  # Hermite's recurrence, in units of each component
                total = 0.0
                for j in range(k):
                    total += heights[j]
                    new = ((places[j] - t) * heights[j] - r * older[j]) * (inverses[j] * inverses[j])
                    older[j] = heights[j]
                    heights[j] = new
                derivatives[r] = total
            gap, density = below - q[i], derivatives[0]
            if gap < 0:
                low = t
            else:
                high = t
            step = gap / density
            a, b = step * derivatives[1] / density, step * step * derivatives[2] / density
            if max(abs(a), abs(b)) < 0.5:  # Householder's third order; else Newton's
                step *= (6 - 3 * a) / (6 - 6 * a + b)
            move, change = -step, 0.0
            for _ in range(3):  # to the root of the Taylor polynomial
                value, slope = 0.0, 0.0
                for r in range(degree, 0, -1):
                    value = derivatives[r - 1] + value * move * inverse_of[r + 1]
                    slope = derivatives[r - 1] + slope * move * inverse_of[r]
                change = (gap + value * move) / slope
                move -= change
            error = abs(change) + cramer * (abs(move) / least) ** (degree + 1) / density
            if error <= exact * spread and low <= t + move <= high:
                t += move
                break
            new = t - step
            if not (low <= new <= high and abs(new - t) <= 0.5 * before):
                new = 0.5 * (low + high)
            before, last = last, abs(new - t)
            going = last > max(exact * spread, 2 * np.spacing(abs(t)))
            t = new
            if not going:
                break
        out[i] = math.ldexp(mirror[i] * t, unit)
    return looks
