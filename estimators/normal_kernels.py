"""Sums and averages over many clients with a normal prior, compiled: one pass without temporary arrays.

Belongs here: kernels and nothing else.  Their NumPy twins, which serve few clients and as reference, are in
``gaussian_means``.  Sums may be reordered for vector units, so bits depend on the processor, not on threads.
"""

import numpy as np
from numba import njit

__all__ = ["averages", "density_sums", "score_sums"]

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
WIDTH = 256  # clients at a time


@njit(**OPTIONS)
def score_sums(y, v, tau2s, out):
    """Write sums of w, w y, w^2 y^2, w^2 y, w^2 with w = 1 / (tau2 + v) into the rows of `out`, a column per tau2."""
    for k in range(tau2s.size):
        t = tau2s[k]
        s0, s1, s2, s3, s4 = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(y.size):
            w = 1 / (v[i] + t)
            wy = w * y[i]
            s0 += w
            s1 += wy
            s2 += wy * wy
            s3 += wy * w
            s4 += w * w
        out[0, k], out[1, k], out[2, k], out[3, k], out[4, k] = s0, s1, s2, s3, s4


@njit(**OPTIONS)
def density_sums(y, v, tau2s, largest, group, out):
    """Write sums of w, w y, w y^2, log w into the rows of `out`; the `group`-th power of v / `largest` is no underflow."""
    m = y.size
    for k in range(tau2s.size):
        t = tau2s[k]
        s0, s1, s2, logs = 0.0, 0.0, 0.0, 0.0
        for i in range(m):
            w = 1 / (v[i] + t)
            wy = w * y[i]
            s0 += w
            s1 += wy
            s2 += wy * y[i]
        scale = 1 / (largest + t)
        whole = m // group * group
        for i in range(0, whole, group):
            product = 1.0
            for j in range(group):
                product *= (v[i + j] + t) * scale
            logs -= np.log(product)
        for i in range(whole, m):
            logs -= np.log((v[i] + t) * scale)
        out[0, k], out[1, k], out[2, k], out[3, k] = s0, s1, s2, logs + m * np.log(scale)


@njit(**OPTIONS)
def averages(y, v, tau2s, mus, mu_variances, shares, own, mean, sd):
    """Write each client's own weight, posterior mean and sd, averaged over values of tau2 of probabilities `shares`."""
    for start in range(0, y.size, WIDTH):
        stop = min(start + WIDTH, y.size)
        own[start:stop] = 0.0
        mean[start:stop] = 0.0
        sd[start:stop] = 0.0
        for k in range(shares.size):
            t, mu, p = tau2s[k], mus[k], shares[k]
            for i in range(start, stop):
                w = t / (v[i] + t)
                own[i] += p * w
                mean[i] += p * (mu + w * (y[i] - mu))
        for k in range(shares.size):
            t, mu, p, mu_variance = tau2s[k], mus[k], shares[k], mu_variances[k]
            for i in range(start, stop):
                rest = v[i] / (v[i] + t)
                away = y[i] + rest * (mu - y[i]) - mean[i]
                sd[i] += p * (t * rest + mu_variance * rest * rest + away * away)
        for i in range(start, stop):
            sd[i] = np.sqrt(sd[i])
