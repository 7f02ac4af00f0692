"""Sums and averages over many clients with a normal prior or slab, compiled: one pass without temporary arrays.

Belongs here: kernels and nothing else.  Their NumPy twins, which serve few clients and as reference, are in
``tau2_likelihood``, ``normal_posteriors`` and ``point_normal``.  Sums may be reordered for vector units, so that bits depend
on the processor but not on threads.
"""

import numpy as np
from numba import njit

__all__ = ["averages", "density_sums", "score_sums", "spike_slab_sums"]

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
def averages(y, v, huge, tau2s, mus, mu_variances, shares, own, mean, sd):
    """Write each client's own weight, posterior mean and sd, averaged over values of tau2 of probabilities `shares`.

    Variances beyond `huge` count as `huge`.  Squares are of distances from the mean at the likeliest tau2: what these lose
    beside distances from the average, which takes a second pass, is at most a factor of one over its probability.
    """
    likeliest = np.argmax(shares)
    t0, mu0 = tau2s[likeliest], mus[likeliest]
    # Arrays of this function alone: those of the caller might overlap, and no vector unit is used where they might.
    estimate, noise, middle = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    weight, away, squares = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    for start in range(0, y.size, WIDTH):
        m = min(WIDTH, y.size - start)
        for i in range(m):
            estimate[i] = y[start + i]
            noise[i] = min(v[start + i], huge)
        for i in range(m):
            middle[i] = mu0 + t0 / (noise[i] + t0) * (estimate[i] - mu0)
            weight[i], away[i], squares[i] = 0.0, 0.0, 0.0
        for k in range(shares.size):
            t, mu, mu_variance, p = tau2s[k], mus[k], mu_variances[k], shares[k]
            for i in range(m):
                precision = 1 / (noise[i] + t)
                w, rest = t * precision, noise[i] * precision
                d = mu - middle[i] + w * (estimate[i] - mu)
                weight[i] += p * w
                away[i] += p * d
                squares[i] += p * (rest * (t + mu_variance * rest) + d * d)
        for i in range(m):
            own[start + i] = weight[i]
            mean[start + i] = middle[i] + away[i]
            sd[start + i] = np.sqrt(squares[i] - away[i] * away[i])


@njit(**OPTIONS)
def spike_slab_sums(y, v, tau2, slab, spike, mode, out):
    """Write what ``point_normal.Likelihood.sums`` returns into `out`."""
    total = np.zeros(10)
    w, b, scaled, root, low = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    for start in range(0, y.size, WIDTH):
        m = min(WIDTH, y.size - start)
        for i in range(m):
            r = y[start + i] - mode
            u = 1 / (v[start + i] + tau2)
            w[i] = tau2 * u
            b[i] = -r * w[i] / v[start + i]
            scaled[i] = r * r * u
            root[i] = np.sqrt(v[start + i] * u)
            low[i] = 0.5 * r * b[i]
        for i in range(m):
            low[i] = np.exp(low[i])
        s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(m):
            inverse = 1 / v[start + i]
            whole = slab * root[i] + spike * low[i]
            p = slab * root[i] / whole
            low[i] = whole * np.sqrt(inverse)
            g = 0.5 * w[i] * (scaled[i] - 1)
            h = (1 - w[i]) * g - 0.5 * w[i] * w[i] * scaled[i]
            both = p * (1 - p)
            s0 -= 0.5 * scaled[i]
            s1 += p
            s2 += p * g
            s3 += (y[start + i] - mode) * inverse + p * b[i]
            s4 += both
            s5 += both * g
            s6 += both * b[i]
            s7 += both * g * g + p * h
            s8 += both * g * b[i] + p * b[i] * (1 - w[i])
            s9 += both * b[i] * b[i] - inverse + p * w[i] * inverse
        for i in range(m):
            s0 += np.log(low[i])
        total += np.array([s0, s1, s2, s3, s4, s5, s6, s7, s8, s9])
    out[:] = total
