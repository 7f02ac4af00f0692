"""Compiled loops that add float64 numbers, their squares and the terms of a likelihood without rounding.

Belongs here: ``@njit`` functions that put numbers into limbs, whole numbers of 32 bits in words of 64.  Does not
belong here: checks, Python integers, anything about clients (``exact``, ``streaming``).

A float64 is a whole number of 2^-1074, and its square one of 2^-2148.  Limb i counts multiples of 2^(32 i) of
that unit (Neal 2015, arXiv:1505.05571), so that additions commute and associate: the order, and who adds, leaves
no trace.  A limb grows by less than 2^35 per number, so 2^26 numbers fit before `carry`.
"""

import math

import numpy as np
from numba import njit

LIMBS = 134
"""Limbs of a sum of squares: 2 * 1074 + 2 * 1024 bits, and room for 2^26 numbers and the spill of `put`."""

MOST = 1 << 26
LOW = np.int64(0xFFFFFFFF)


@njit(nogil=True, cache=True, inline="always")
def put(limbs, position, value, sign):
    """Add sign * value * 2^position to `limbs`, for 0 <= value < 2^54."""
    i, shift = position >> 5, position & 31
    low = (value & LOW) << shift
    high = (value >> 32) << shift
    limbs[i] += sign * (low & LOW)
    limbs[i + 1] += sign * ((low >> 32) + (high & LOW))
    limbs[i + 2] += sign * (high >> 32)


@njit(nogil=True, cache=True, inline="always")
def split(bits):
    """Return sign, mantissa < 2^53 and position of the float64 with these bits, which must be finite."""
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent:
        return (-1 if bits < 0 else 1), mantissa | (1 << 52), exponent - 1
    return (-1 if bits < 0 else 1), mantissa, 0


@njit(nogil=True, cache=True)
def add_values(bits, limbs):
    """Add each number to limbs[LIMBS]."""
    for i in range(bits.size):
        sign, mantissa, position = split(bits[i])
        put(limbs, position, mantissa, sign)


@njit(nogil=True, cache=True)
def add_powers(bits, group, first, second, counts):
    """Add each number to first[group, LIMBS], its square to second[group, LIMBS] and 1 to counts[group]."""
    for i in range(bits.size):
        g = group[i]
        sign, mantissa, position = split(bits[i])
        put(first[g], position, mantissa, sign)
        a, b = mantissa >> 27, mantissa & 0x7FFFFFF
        put(second[g], 2 * position + 54, a * a, 1)
        put(second[g], 2 * position + 27, 2 * a * b, 1)
        put(second[g], 2 * position, b * b, 1)
        counts[g] += 1


@njit(nogil=True, cache=True)
def carry(limbs):
    """Move what exceeds 32 bits up in each row of limbs[rows, LIMBS]; return the signed rest above the top."""
    rest = np.zeros(limbs.shape[0], np.int64)
    for row in range(limbs.shape[0]):
        over = np.int64(0)
        for i in range(limbs.shape[1]):
            total = limbs[row, i] + over
            limbs[row, i] = total & LOW
            over = total >> 32
        rest[row] = over
    return rest


@njit(nogil=True, cache=True)
def find_groups(bits, place, found, table, ids):
    """Number the distinct nonzero words in `bits` as they appear, by open addressing.

    Parameters
    ----------
    bits : int64 (m,), none of them 0.
    place : int64 (m,), receives the number of each word's group.
    found : int64, receives the distinct words; its size is the most that may appear.
    table, ids : int64 zeros, their size a power of 2 larger than that of `found`.

    Returns
    -------
    The count of distinct words, or -1 if there are too many.
    """
    mask, count = table.size - 1, 0
    for i in range(bits.size):
        word = bits[i]
        slot = (word ^ (word >> 29) ^ (word >> 47)) & mask
        while table[slot] != word:
            if table[slot] == 0:
                if count == found.size:
                    return -1
                table[slot], ids[slot], found[count] = word, count, word
                count += 1
            else:
                slot = (slot + 1) & mask
        place[i] = ids[slot]
    return count


TERMS = 7


@njit(nogil=True, cache=True)
def add_moments(y, v, tau2s, limbs):
    """Add the terms of the Gaussian likelihood of clients (y, v) at each tau2 to limbs[tau2, TERMS, LIMBS].

    With p = 1 / (tau2 + v) the terms are p, p^2, p y, p^2 y, p y^2, p^2 y^2 and log(tau2 + v).  Each is rounded as a
    client's own number, by scalar operations, so only the client matters and not its neighbours.
    """
    terms = np.empty(TERMS)
    bits = terms.view(np.int64)
    for i in range(y.size):
        for t in range(tau2s.size):
            scale = tau2s[t] + v[i]
            p = 1 / scale
            terms[0] = p
            terms[1] = p * p
            terms[2] = p * y[i]
            terms[3] = p * terms[2]
            terms[4] = terms[2] * y[i]
            terms[5] = terms[2] * terms[2]
            terms[6] = math.log(scale)
            for k in range(TERMS):
                sign, mantissa, position = split(bits[k])
                put(limbs[t, k], position, mantissa, sign)
