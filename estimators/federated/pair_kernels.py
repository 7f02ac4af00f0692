"""Compiled training of a client's pair of networks, its own and its copy of the common one, coupled by their divergence.

Belongs here: ``@njit`` functions for the steps that ``pairs`` defines.  Does not belong here: checks and random numbers
(``pairs``, ``numpy_backend``); products, losses and layers, which are those of ``kernels``.  The plain twin of these loops
is ``ReferenceBackend.local_pairs``.
"""

import math

import numpy as np
from numba import njit

from estimators.federated.kernels import (
    LOGISTIC,
    add_product,
    add_rows_product,
    forward,
    loss_and_slopes,
    shift,
    square_norm,
    used_columns,
)


@njit(nogil=True, cache=True)
def shares(kind, s, n_scores, p, log_p):
    """Probabilities of the classes at scores s, and their logarithms."""
    if kind == LOGISTIC:
        tail = math.log1p(math.exp(-abs(s[0])))
        log_p[0], log_p[1] = -max(s[0], 0.0) - tail, min(s[0], 0.0) - tail
        p[0], p[1] = math.exp(log_p[0]), math.exp(log_p[1])
        return
    best = s[0]
    for j in range(n_scores):
        best = max(best, s[j])
    total = 0.0
    for j in range(n_scores):
        log_p[j] = np.float64(s[j]) - best
        p[j] = math.exp(log_p[j])
        total += p[j]
    log_total = math.log(total)
    for j in range(n_scores):
        p[j] /= total
        log_p[j] -= log_total


@njit(nogil=True, cache=True)
def all_shares(kind, scores, n, n_scores, p, log_p):
    """`shares` of n examples; whether all scores are finite."""
    for i in range(n):
        for j in range(n_scores):
            if not math.isfinite(scores[i, j]):
                return False
        shares(kind, scores[i], n_scores, p[i], log_p[i])
    return True


@njit(nogil=True, cache=True)
def divergence(p, log_p, log_q):
    """KL(p || q) of one example in nats."""
    total = 0.0
    for j in range(p.size):
        total += p[j] * (log_p[j] - log_q[j])
    return total


@njit(nogil=True, cache=True)
def mean_divergence(p, log_p, log_q, w, n, divisor):
    """Weighted sum of the divergences of n examples over the divisor."""
    total = 0.0
    for i in range(n):
        total += w[i] * divergence(p[i], log_p[i], log_q[i])
    return total / divisor


@njit(nogil=True, cache=True)
def descend(a, columns, h, slopes, below, across, n, w, by, bottom, top, into_bottom, into_top, n_hidden, n_scores):
    """Add `by` times the weighted gradient of a network with those slopes of its scores to two layers."""
    if n_hidden:
        for j in range(n_scores):
            for k in range(n_hidden):
                across[j, k] = top[k, j]
        below[:n] = 0
        add_product(slopes, across, below, n, n_scores)
        for i in range(n):
            for k in range(n_hidden):
                if not h[i, k] > 0:
                    below[i, k] = 0
    for i in range(n):
        factor = np.float64(w[i])
        factor *= by
        for j in range(n_scores):
            slopes[i, j] *= factor
        for k in range(n_hidden):
            below[i, k] *= factor
    if n_hidden:
        add_rows_product(a.T, below, into_bottom, columns, n)
        add_product(h.T, slopes, into_top, n_hidden + 1, n)
    else:
        add_rows_product(a.T, slopes, into_top, columns, n)


@njit(nogil=True, cache=True)
def add_layer(layer, by, other):
    """Add by * other to a layer."""
    by = layer.dtype.type(by)
    for i in range(layer.shape[0]):
        for j in range(layer.shape[1]):
            layer[i, j] += by * other[i, j]


@njit(nogil=True, cache=True)
def train(
    x, y, indices, weights, divisors, first, last,
    own_bottom, own_top, common_bottom, common_top, psi, n_hidden, n_scores, kind,
    rates, own, common, mutual, floor, clips, joint, noise, multiplier,
):  # fmt: skip
    """Take the steps first .. last - 1 in place; return the first with infinite or NaN scores, or -1, and psi.

    noise (last - first, P + 1) has normal numbers, to be multiplied by multiplier and clip; it may be empty where that is 0.
    The other settings are those of ``pairs.PairStep``.
    """
    d, most, n_classes = x.shape[1], indices.shape[1], max(n_scores, 2)
    a, t, w = np.empty((most, d + 1), x.dtype), np.empty(most, x.dtype), np.empty(most, x.dtype)
    h, below = np.zeros((most, own_bottom.shape[1]), x.dtype), np.zeros((most, own_bottom.shape[1]), x.dtype)
    common_h, across = np.zeros_like(h), np.zeros((n_scores, own_bottom.shape[1]), x.dtype)
    scores, slopes = np.zeros((most, own_top.shape[1]), x.dtype), np.zeros((most, own_top.shape[1]), x.dtype)
    common_scores = np.zeros_like(scores)
    p, log_p = np.empty((most, n_classes)), np.empty((most, n_classes))
    q, log_q = np.empty((most, n_classes)), np.empty((most, n_classes))
    split = own_bottom.shape[0] * n_hidden
    last_noise = split + own_top.shape[0] * n_scores
    other = n_classes - n_scores  # class of the first score
    formed = clips[0] < math.inf
    g_bottom, g_top = (np.zeros_like(own_bottom), np.zeros_like(own_top)) if formed else (own_bottom, own_top)
    k, used = 0.0, np.empty(d + 1, np.bool_)
    for step in range(first, last):
        n = 0
        for j in range(most):
            if weights[step, j] > 0:
                row = indices[step, j]
                for k in range(d):
                    a[n, k] = x[row, k]
                a[n, d] = 1
                t[n], w[n] = y[row], weights[step, j]
                n += 1
        columns, divisor = used_columns(a, n, used), divisors[step]

        forward(a, n, columns, own_bottom, own_top, h, scores, n_hidden)
        forward(a, n, columns, common_bottom, common_top, common_h, common_scores, n_hidden)
        if not all_shares(kind, scores, n, n_scores, p, log_p):
            return step, psi
        if not all_shares(kind, common_scores, n, n_scores, q, log_q):
            return step, psi
        pull = own[1] / (2 * psi)
        for i in range(n):
            loss_and_slopes(kind, scores[i], n_scores, t[i], slopes[i])
            for j in range(n_scores):
                slopes[i, j] = own[0] * slopes[i, j] + pull * (p[i, other + j] - q[i, other + j])
        descend(
            a, columns, h, slopes, below, across, n, w, -rates[0] / divisor, own_bottom, own_top, own_bottom, own_top,
            n_hidden, n_scores,
        )  # fmt: skip
        if rates[1] == 0 and rates[2] == 0:
            continue

        forward(a, n, columns, own_bottom, own_top, h, scores, n_hidden)
        if not all_shares(kind, scores, n, n_scores, p, log_p):
            return step, psi
        pull = common[1] / (2 * psi)
        for i in range(n):
            apart = divergence(q[i], log_q[i], log_p[i])
            if common[0] > 0:
                loss_and_slopes(kind, common_scores[i], n_scores, t[i], slopes[i])
            for j in range(n_scores):
                c = other + j
                slope = q[i, c] - p[i, c] if mutual else q[i, c] * (log_q[i, c] - log_p[i, c] - apart)
                slopes[i, j] = (common[0] * slopes[i, j] if common[0] > 0 else 0.0) + pull * slope
        if not formed:
            if joint:
                k = 1 / (2 * psi) - mean_divergence(q, log_q, log_p, w, n, divisor) / (2 * psi * psi)
            descend(
                a, columns, common_h, slopes, below, across, n, w, -rates[1] / divisor, common_bottom, common_top,
                common_bottom, common_top, n_hidden, n_scores,
            )  # fmt: skip
        else:
            g_bottom[:] = 0
            g_top[:] = 0
            descend(
                a, columns, common_h, slopes, below, across, n, w, 1 / divisor, common_bottom, common_top, g_bottom, g_top,
                n_hidden, n_scores,
            )  # fmt: skip
            norm2 = 0.0
            for i in range(g_bottom.shape[0]):
                norm2 += square_norm(g_bottom[i], g_bottom.shape[1])
            for i in range(g_top.shape[0]):
                norm2 += square_norm(g_top[i], g_top.shape[1])
            if joint:
                k = 1 / (2 * psi) - mean_divergence(q, log_q, log_p, w, n, divisor) / (2 * psi * psi)
                norm2 += k * k
            kept = 1.0 if norm2 <= clips[0] * clips[0] else clips[0] / math.sqrt(norm2)
            add_layer(common_bottom, -rates[1] * kept, g_bottom)
            add_layer(common_top, -rates[1] * kept, g_top)
            if joint:
                k *= kept
        if multiplier > 0:
            by = -rates[1] * multiplier * clips[0]
            shift(common_bottom, n_hidden, 0, noise[step - first], 0.0, by)
            shift(common_top, n_scores, split, noise[step - first], 0.0, by)
        if rates[2] > 0:
            if not joint:
                forward(a, n, columns, common_bottom, common_top, common_h, common_scores, n_hidden)
                if not all_shares(kind, common_scores, n, n_scores, q, log_q):
                    return step, psi
                k = 1 / (2 * psi) - mean_divergence(q, log_q, log_p, w, n, divisor) / (2 * psi * psi)
                k = min(max(k, -clips[1]), clips[1])
            if multiplier > 0:
                k += multiplier * (clips[0] if joint else clips[1]) * noise[step - first, last_noise]
            psi = max(floor, psi - rates[2] * k)
    return -1, psi
