"""Draws from the posterior law of a mixture prior's weights, centres and variances, given all clients' estimates.

Belongs here: the hyperprior and the Markov chain.  The most likely mixture, and clients' posteriors under given ones, are in
``mixture_likelihood`` and ``mixture_means``.

How it works.  Gibbs' sampler over which component each client comes from (with its true value integrated out), weights,
variances (slice sampling, with the centre integrated out) and centres.  Components that no client comes from are drawn from
the hyperprior and may take clients later, so that their number is averaged over too.

Kernels here write loops where one line of arrays would say the same: a user's first fit waits while Numba compiles, and an
assignment of arrays alone takes it 3 s.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from estimators.numerics.spread_law import EDGE, POWER

__all__ = ["chain"]

WIDTH = 2.0  # of the first slice, in the logarithm of a variance
HIGHEST = 60.0  # logarithm of a variance


@njit(cache=True, nogil=True)
def log_density(log_tau2, y, v, rows, begin, end, reach2):
    """Return log density of a component's clients, the centre integrated over N(0, reach2), times that of log tau2."""
    t = np.exp(log_tau2)
    d = y.shape[1]
    value, whole = 0.0, 1 / reach2
    first, second = np.zeros(d), 0.0
    product, count = 1.0, 0
    for i in range(begin, end):
        j = rows[i]
        w = 1 / (t + v[j])
        whole += w
        product *= w
        count += 1
        if count == 8 or product < 1e-30 or product > 1e30:  # one logarithm for several
            value += 0.5 * d * np.log(product)
            product, count = 1.0, 0
        for c in range(d):
            first[c] += w * y[j, c]
            second += w * y[j, c] * y[j, c]
    value += 0.5 * d * np.log(product) - 0.5 * second - 0.5 * d * np.log(reach2 * whole)
    for c in range(d):
        value += 0.5 * first[c] * first[c] / whole
    return value + log_tau2 - POWER * np.log(EDGE + t)


@njit(cache=True, nogil=True)
def slice_sample(generator, x, y, v, rows, begin, end, reach2):
    """Return a new log tau2 after x, by slice sampling with stepping out (Neal 2003, Ann. Statist. 31:705)."""
    level = log_density(x, y, v, rows, begin, end, reach2) - generator.standard_exponential()
    low = x - WIDTH * generator.random()
    high = low + WIDTH
    while low > -HIGHEST and log_density(low, y, v, rows, begin, end, reach2) > level:
        low -= WIDTH
    while high < HIGHEST and log_density(high, y, v, rows, begin, end, reach2) > level:
        high += WIDTH
    while high - low > 1e-12:
        new = low + (high - low) * generator.random()
        if log_density(new, y, v, rows, begin, end, reach2) > level:
            return new
        if new < x:
            low = new
        else:
            high = new
    return x


@njit(cache=True, nogil=True)
def chain(generator, y, v, reach2, strength, points, weights, centres, tau2s, burn, every, draws):
    """Return `draws` of weights (draws, k), centres (draws, k, d) and variances (draws, k), one after each `every` sweeps.

    In units where the harmonic mean of v is 1, and from the centre of the estimates.  Hyperprior: weights
    Dirichlet(strength), centres N(0, reach2) per coordinate, variances Strawderman's law, or 0 if `points`.
    `weights`, `centres` and `tau2s` are where the chain starts, and are overwritten.
    """
    m, d = y.shape
    k = weights.size
    found_p, found_c, found_t = np.empty((draws, k)), np.empty((draws, k, d)), np.empty((draws, k))
    place, rows, chances = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(k)
    starts, filled = np.empty(k + 1, np.int64), np.empty(k, np.int64)
    logs = np.empty(k)
    for sweep in range(burn + every * draws):
        for c in range(k):
            logs[c] = np.log(max(weights[c], 1e-300))
        starts[:] = 0
        for i in range(m):
            top = -np.inf
            for c in range(k):
                w = 1 / (tau2s[c] + v[i])
                square = 0.0
                for e in range(d):
                    square += (y[i, e] - centres[c, e]) ** 2
                chances[c] = logs[c] + 0.5 * (d * np.log(w) - w * square)
                top = max(top, chances[c])
            total = 0.0
            for c in range(k):
                total += np.exp(chances[c] - top)
                chances[c] = total
            mark, c = total * generator.random(), 0
            while c < k - 1 and chances[c] < mark:
                c += 1
            place[i] = c
            starts[c + 1] += 1
        total = 0.0
        for c in range(k):
            weights[c] = generator.standard_gamma(strength + starts[c + 1])
            total += weights[c]
            starts[c + 1] += starts[c]
            filled[c] = starts[c]
        for c in range(k):
            weights[c] /= total
        for i in range(m):
            rows[filled[place[i]]] = i
            filled[place[i]] += 1
        for c in range(k):
            begin, end = starts[c], starts[c + 1]
            if not points:
                if begin == end:
                    tau2s[c] = EDGE * ((1 - generator.random()) ** -2 - 1)
                else:
                    old = np.log(max(tau2s[c], 1e-12))
                    tau2s[c] = np.exp(slice_sample(generator, old, y, v, rows, begin, end, reach2))
            whole = 1 / reach2
            for i in range(begin, end):
                whole += 1 / (tau2s[c] + v[rows[i]])
            for e in range(d):
                first = 0.0
                for i in range(begin, end):
                    first += y[rows[i], e] / (tau2s[c] + v[rows[i]])
                centres[c, e] = first / whole + generator.standard_normal() / np.sqrt(whole)
        after = sweep - burn
        if after >= 0 and after % every == every - 1:
            draw = after // every
            for c in range(k):
                found_p[draw, c], found_t[draw, c] = weights[c], tau2s[c]
                for e in range(d):
                    found_c[draw, c, e] = centres[c, e]
    return found_p, found_c, found_t
