"""Compiled normal numbers in single precision, many at a time: the noise of private training is most of its cost.

Belongs here: ``@njit`` functions that turn seeded states into normal numbers.  Does not belong here: seeds, which are in
``schedule``; use of the noise, which is in ``kernels``.

Sixteen generators xoshiro256++ (Blackman and Vigna 2021, ACM TOMS 47, 36) run side by side, each from 256 seeded bits.
Their bits, 32 at a time, become pairs of normals by the polar form of Box and Muller (1958), with series for
logarithm, sine and cosine, all in straight lines that LLVM turns into vector instructions.  Errors are below 2e-6 (4e-4 for
numbers below 0.05), and no number exceeds 6.8, where a normal one lies with probability 1e-11.
"""

import math

import numpy as np
from numba import njit

LANES = 16
HALF = 512
"""Normals from one block come in two halves of this length, cosines and sines of the same angles."""

f4, u8, i4 = np.float32, np.uint64, np.int32
ROOT_HALF = i4(np.array(0.5**0.5, f4).view(i4))
ONE = i4(np.array(1.0, f4).view(i4))
LN2 = f4(math.log(2))
L1, L2, L3, L4, L5 = (f4(2 / (2 * k + 1)) for k in range(5))
S0, S1, S2, S3, S4 = (f4((-1) ** k * (math.pi / 2) ** (2 * k + 1) / math.factorial(2 * k + 1)) for k in range(5))
C0, C1, C2, C3, C4, C5 = (f4((-1) ** k * (math.pi / 2) ** (2 * k) / math.factorial(2 * k)) for k in range(6))


@njit(nogil=True, cache=True)
def fill(states, bits):
    """Next 64 random bits of each lane, row by row; states (4, LANES) move on."""
    a, b, c, d = states[0], states[1], states[2], states[3]
    for i in range(0, bits.size, LANES):
        row = bits[i : i + LANES]
        for k in range(LANES):
            total = a[k] + d[k]
            row[k] = ((total << u8(23)) | (total >> u8(41))) + a[k]
            shifted = b[k] << u8(17)
            c[k] ^= a[k]
            d[k] ^= b[k]
            b[k] ^= c[k]
            a[k] ^= d[k]
            c[k] ^= shifted
            d[k] = (d[k] << u8(45)) | (d[k] >> u8(19))


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def radii(bits, values, exponents):
    """sqrt(-2 log u) of u = (bits + 1/2) / 2^32, in values (HALF,); exponents (HALF,) is room to work in."""
    words = values.view(np.int32)
    for i in range(HALF):
        values[i] = f4(bits[i]) * f4(2.0**-32) + f4(2.0**-33)
    for i in range(HALF):  # u = 2^k m with m between sqrt(1/2) and sqrt(2)
        k = i4(i4(words[i] - ROOT_HALF) >> i4(23))
        exponents[i] = f4(k)
        words[i] = i4(words[i] - i4(k << i4(23)))
    for i in range(HALF):  # error_model: a test for division by 0 would stop vectorisation
        s = (values[i] - f4(1)) / (values[i] + f4(1))
        q = s * s
        log = exponents[i] * LN2 + s * (L1 + q * (L2 + q * (L3 + q * (L4 + q * L5))))
        values[i] = np.sqrt(f4(-2) * log)


@njit(nogil=True, cache=True, fastmath={"contract"})
def turn(bits, values, cosines, sines):
    """Products of values with the cosines and sines of the angles 2 pi bits / 2^32, all (HALF,)."""
    for i in range(HALF):
        quarters = f4(bits[i]) * f4(2.0**-30)
        whole = np.floor(quarters + f4(0.5))
        t = quarters - whole
        q = t * t
        s = t * (S0 + q * (S1 + q * (S2 + q * (S3 + q * S4))))
        c = C0 + q * (C1 + q * (C2 + q * (C3 + q * (C4 + q * C5))))
        halves = np.floor(f4(0.5) * whole)
        odd = whole - f4(2) * halves
        sign = f4(1) - f4(2) * (halves - f4(2) * np.floor(f4(0.5) * halves))
        scaled = sign * values[i]
        cosines[i] = scaled * (c - odd * (c + s))
        sines[i] = scaled * (s - odd * (s - c))


@njit(nogil=True, cache=True)
def normals(states, out):
    """Fill the rows of out (T, n) of float32 with standard normal numbers; states (T, 4, LANES) of uint64 move on."""
    bits = np.empty(HALF, np.uint64)
    halves = bits.view(np.uint32)
    values, exponents, block = np.empty(HALF, np.float32), np.empty(HALF, np.float32), np.empty(2 * HALF, np.float32)
    for t in range(len(states)):
        for start in range(0, out.shape[1], 2 * HALF):
            fill(states[t], bits)
            radii(halves[:HALF], values, exponents)
            turn(halves[HALF:], values, block[:HALF], block[HALF:])
            n = min(2 * HALF, out.shape[1] - start)
            out[t, start : start + n] = block[:n]
