"""Compiled Renyi divergences of Gaussian noise on random batches, and the noise that a budget needs.

Belongs here: ``@njit`` functions with everything they call.  Does not belong here: checks and what it all means, which are
in ``accountants``; the plain twin of `log_moment` for Poisson batches is ``privacy.rdp_sampled_gaussian``.

Let P = N(0, 1), Q = N(m, 1), q the sampling rate and L = 1 - q + q dQ/dP.  With d = L - 1 the moment of order a is
E_P[L^a] = 1 + E_P[L^a - 1 - a d], whose integrand is nowhere negative, so that no digits are lost near 1.
"""

import math

import numpy as np
from numba import njit

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
WIDE = 16.0
"""Shifts m beyond which quadrature gives way to bounds."""
FAR = 700.0
"""Logs of dQ/dP from which on it is not computed, as it may be beyond all floats."""


@njit(cache=True, nogil=True)
def log_excess(a, d):
    """log((1 + d)^a - 1 - a d) for d > -1 and a > 1 or a < 0, -inf where it is 0."""
    if abs(a * d) < 0.25 and abs(d) < 0.25:
        term = a * (a - 1) / 2 * d * d
        total, k = term, 2
        while abs(term) > 1e-17 * total and k < 60:
            term *= (a - k) / (k + 1) * d
            total += term
            k += 1
        return math.log(total) if total > 0 else -math.inf
    power = a * math.log1p(d)
    if power > 30:
        return power + math.log1p(-(1 + a * d) * math.exp(-power))
    value = math.expm1(power) - a * d
    return math.log(value) if value > 0 else -math.inf


@njit(cache=True, nogil=True)
def log_far_excess(a, log_ratio):
    """What `log_excess` says of d = exp(log_ratio) - 1, far from 0, where d may be beyond all floats."""
    return a * log_ratio + math.log1p((a - 1) * math.exp(-a * log_ratio) - a * math.exp((1 - a) * log_ratio))


@njit(cache=True, nogil=True)
def log_integral(q, m, a, low, high):
    """Log of the integral of (L^a - 1 - a d) dP from low to high, by Gauss and Legendre."""
    panels = max(1, math.ceil((high - low) / min(1.0, 2 / m)))
    half = (high - low) / (2 * panels)
    top, total = -math.inf, 0.0
    for panel in range(panels):
        for j in range(16):
            u = low + half * (2 * panel + 1 + NODES[j])
            x = m * u - m * m / 2
            if x < FAR:
                term = log_excess(a, q * math.expm1(x)) - u * u / 2
            else:
                term = log_far_excess(a, x + math.log(q + (1 - q) * math.exp(-x))) - u * u / 2
            if term > top:
                total = total * math.exp(top - term) + WEIGHTS[j] if top > -math.inf else WEIGHTS[j]
                top = term
            elif term > -math.inf:
                total += WEIGHTS[j] * math.exp(term - top)
    return top + math.log(total * half / math.sqrt(2 * math.pi)) if total > 0 else -math.inf


@njit(cache=True, nogil=True)
def log_whole(q, m, a):
    """log(E_P[L^a] - 1) for a whole order: a binomial sum."""
    log_weight, top, total = a * math.log1p(-q), -math.inf, 0.0
    odds = math.log(q) - math.log1p(-q)
    for k in range(1, int(a) + 1):
        log_weight += math.log((a - k + 1) / k) + odds
        growth = k * (k - 1) / 2 * m * m
        if growth > 0:
            term = log_weight + growth + math.log(-math.expm1(-growth))
            if term > top:
                total = total * math.exp(top - term) + 1 if top > -math.inf else 1.0
                top = term
            else:
                total += math.exp(term - top)
    return top + math.log(total)


@njit(cache=True, nogil=True)
def direct(q, m, a, fixed):
    """What `log_moment` says, for a whole order or m <= WIDE."""
    excess = log_whole(q, m, a) if a == math.floor(a) else log_integral(q, m, a, -10.0, a * m + 10.0)
    if fixed:
        more = (a - 1) * q
        if m <= WIDE:  # L^(1-a) - 1 + (a-1) d above, in place of L^a - 1 - a d below
            more = math.exp(log_integral(q, m, 1 - a, m / 2, m + 11)) - math.exp(log_integral(q, m, a, -10.0, m / 2))
        if more > 0:
            excess = max(excess, math.log(more)) + math.log1p(math.exp(-abs(excess - math.log(more))))
    return excess + math.log1p(math.exp(-excess)) if excess > 0 else math.log1p(math.exp(excess))


@njit(cache=True, nogil=True)
def log_moment(q, m, a, fixed):
    """Log of the moment of order a >= 2, times (a - 1)^-1 the divergence; 0 < q < 1, m > 0.

    Poisson batches: log E_P[L^a].  Batches of fixed size: log(1 + E_P[L^a + L^(1 - a) - 1 - L; L > 1]).
    """
    whole = math.floor(a)
    if m > WIDE and whole < a:  # the log moment is convex in the order: a chord is above
        return (whole + 1 - a) * direct(q, m, whole, fixed) + (a - whole) * direct(q, m, whole + 1, fixed)
    return direct(q, m, a, fixed)


@njit(cache=True, nogil=True)
def curve(q, m, orders, fixed):
    """Divergences of one step at all orders."""
    found = np.empty(orders.size)
    for i in range(orders.size):
        found[i] = log_moment(q, m, orders[i], fixed) / (orders[i] - 1)
    return found


@njit(cache=True, nogil=True)
def at_order(q, m, a, fixed, steps, rho, delta):
    """Eps at delta that the divergence at one order gives after so many steps, and rho-zCDP beside them."""
    return rho * a + steps * log_moment(q, m, a, fixed) / (a - 1) + math.log1p(-1 / a) - math.log(delta * a) / (a - 1)


@njit(cache=True, nogil=True)
def best_order(q, m, orders, fixed, steps, rho, delta):
    """Position of the order with the smallest eps, and that eps.

    The log moment is convex in the order, so eps falls and then rises with it: a search downhill finds the least.
    """
    low, high = 0, orders.size - 1
    while low < high:
        middle = (low + high) // 2
        here = at_order(q, m, orders[middle], fixed, steps, rho, delta)
        if here <= at_order(q, m, orders[middle + 1], fixed, steps, rho, delta):
            high = middle
        else:
            low = middle + 1
    return low, at_order(q, m, orders[low], fixed, steps, rho, delta)


@njit(cache=True, nogil=True)
def crossing(eps, delta, q, steps, rho, a, fixed, low, high):
    """Where eps at one order crosses a level, from below: false position with halved weights (Dowell and Jarratt 1971)."""
    below = at_order(q, low, a, fixed, steps, rho, delta) - eps
    above = at_order(q, high, a, fixed, steps, rho, delta) - eps
    side = 0
    while high - low > 1e-13 * high:
        least = 4e-14 * high
        m = min(max(high - above * (high - low) / (above - below), low + least), high - least)
        excess = at_order(q, m, a, fixed, steps, rho, delta) - eps
        if excess <= 0:
            low, below = m, excess
            above = above / 2 if side < 0 else above
            side = -1
        else:
            high, above = m, excess
            below = below / 2 if side > 0 else below
            side = 1
    return low


@njit(cache=True, nogil=True)
def largest_shift(eps, delta, q, steps, rho, orders, fixed, start):
    """Largest m with at most eps after so many steps, on the safe side; 0 where no m is small enough.

    The best order for m, the largest m for that order, and so on until the order stays: every m found is allowed, and at the
    last one no order allows more.
    """
    m = start
    best, found = best_order(q, m, orders, fixed, steps, rho, delta)
    while found > eps:
        m /= 2
        if m < 1e-12:
            return 0.0
        best, found = best_order(q, m, orders, fixed, steps, rho, delta)
    while True:
        high = 2 * m
        while at_order(q, high, orders[best], fixed, steps, rho, delta) <= eps:
            m, high = high, 2 * high
            if high > 1e6:
                return m
        m, before = crossing(eps, delta, q, steps, rho, orders[best], fixed, m, high), best
        best, _ = best_order(q, m, orders, fixed, steps, rho, delta)
        if best == before:
            return m
