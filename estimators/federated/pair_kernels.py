"""Compiled training of a client's pair of networks, its own and its copy of the common one, coupled by their divergence.

Belongs here: ``@njit`` functions for the steps that ``pairs`` defines.  Does not belong here: checks and random numbers
(``pairs``, ``numpy_backend``); batches, losses and gradients of one network, which are those of ``kernels``.  The plain twin
of these loops is ``ReferenceBackend.local_pairs``.
"""

import math

import numpy as np
from numba import njit

from estimators.federated.kernels import (
    LOGISTIC,
    add_gradient,
    fill,
    forward,
    loss_and_slopes,
    room,
    shift,
    square_norm,
    used_columns,
    weigh,
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
def predict(kind, a, n, columns, bottom, top, h, scores, n_hidden, n_scores, p, log_p):
    """`forward`, then `shares` of all examples; return whether all scores are finite."""
    if not forward(a, n, columns, bottom, top, h, scores, n_hidden, n_scores):
        return False
    for i in range(n):
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
def slope_in_psi(psi, q, log_q, log_p, w, n, divisor):
    """k of ``pairs``, from the shares q of the common network and p of the own one for n examples."""
    total = 0.0
    for i in range(n):
        total += w[i] * divergence(q[i], log_q[i], log_p[i])
    return 1 / (2 * psi) - total / divisor / (2 * psi * psi)


@njit(nogil=True, cache=True)
def add_layer(layer, by, other):
    """Add by * other to a layer."""
    by = layer.dtype.type(by)
    for i in range(layer.shape[0]):
        for j in range(layer.shape[1]):
            layer[i, j] += by * other[i, j]


@njit(nogil=True, cache=True)
def shrink(layer, units, by):
    """Take the part `by` off a layer."""
    by = layer.dtype.type(by)
    for i in range(layer.shape[0]):
        for j in range(units):
            layer[i, j] -= by * layer[i, j]


@njit(nogil=True, cache=True)
def train(
    x, y, indices, weights, divisors, first, last, noise,
    own_bottom, own_top, common_bottom, common_top, psi, n_hidden, n_scores, kind,
    rates, own, common, mutual, floor, clips, joint, multiplier, decay,
):  # fmt: skip
    """Take the steps first .. last - 1 in place; return the first with infinite or NaN scores, or -1, and psi.

    noise (last - first, P + 1) has normal numbers, to be multiplied by multiplier and clip; it may be empty where that is 0.
    The other settings are those of ``pairs.PairStep``, decay its weight_decay.
    """
    most, n_classes = indices.shape[1], max(n_scores, 2)
    a, t, w, h, scores, slopes, below, across = room(most, x.shape[1], own_bottom, own_top, n_scores)
    common_h, common_scores, used = np.zeros_like(h), np.zeros_like(scores), np.empty(x.shape[1] + 1, np.bool_)
    p, log_p = np.empty((most, n_classes)), np.empty((most, n_classes))
    q, log_q = np.empty((most, n_classes)), np.empty((most, n_classes))
    split = own_bottom.shape[0] * n_hidden
    last_noise = split + own_top.shape[0] * n_scores
    other = n_classes - n_scores  # class of the first score
    formed = clips[0] < math.inf  # whether mu's gradient is formed before it is added
    g_bottom, g_top = (np.zeros_like(common_bottom), np.zeros_like(common_top)) if formed else (common_bottom, common_top)
    k = 0.0
    for step in range(first, last):
        n, divisor = fill(x, y, indices[step], weights[step], a, t, w), divisors[step]
        columns = used_columns(a, n, used)

        if not predict(kind, a, n, columns, own_bottom, own_top, h, scores, n_hidden, n_scores, p, log_p):
            return step, psi
        if not predict(
            kind, a, n, columns, common_bottom, common_top, common_h, common_scores, n_hidden, n_scores, q, log_q
        ):  # fmt: skip
            return step, psi
        pull = own[1] / (2 * psi)
        for i in range(n):
            loss_and_slopes(kind, scores[i], n_scores, t[i], slopes[i])
            for j in range(n_scores):
                slopes[i, j] = own[0] * slopes[i, j] + pull * (p[i, other + j] - q[i, other + j])
        weigh(a, n, w, h, slopes, below, across, own_top, n_hidden, n_scores, -rates[0] / divisor, math.inf)
        if decay > 0:  # without it the bits are those from before there was any
            shrink(own_bottom, n_hidden, rates[0] * decay)
            shrink(own_top, n_scores, rates[0] * decay)
        add_gradient(a, n, columns, h, slopes, below, own_bottom, own_top, n_hidden)
        if rates[1] == 0 and rates[2] == 0:
            continue

        if not predict(kind, a, n, columns, own_bottom, own_top, h, scores, n_hidden, n_scores, p, log_p):
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
        if joint:
            k = slope_in_psi(psi, q, log_q, log_p, w, n, divisor)
        if formed:
            g_bottom[:] = 0
            g_top[:] = 0
        by = (1 if formed else -rates[1]) / divisor
        weigh(a, n, w, common_h, slopes, below, across, common_top, n_hidden, n_scores, by, math.inf)
        if decay > 0:
            shrink(common_bottom, n_hidden, rates[1] * decay)
            shrink(common_top, n_scores, rates[1] * decay)
        add_gradient(a, n, columns, common_h, slopes, below, g_bottom, g_top, n_hidden)
        if formed:
            norm2 = 0.0
            for i in range(g_bottom.shape[0]):
                norm2 += square_norm(g_bottom[i], g_bottom.shape[1])
            for i in range(g_top.shape[0]):
                norm2 += square_norm(g_top[i], g_top.shape[1])
            if joint:
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
                if not predict(
                    kind, a, n, columns, common_bottom, common_top, common_h, common_scores, n_hidden, n_scores, q, log_q
                ):  # fmt: skip
                    return step, psi
                k = slope_in_psi(psi, q, log_q, log_p, w, n, divisor)
                k = min(max(k, -clips[1]), clips[1])
            if multiplier > 0:
                k += multiplier * (clips[0] if joint else clips[1]) * noise[step - first, last_noise]
            psi = max(floor, psi - rates[2] * k)
    return -1, psi
