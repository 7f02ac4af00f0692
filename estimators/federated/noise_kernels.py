"""Compiled normal numbers in single precision, many at a time: the noise of private training is most of its cost.

Belongs here: ``@njit`` functions that turn a seeded key into normal numbers.  Does not belong here: seeds, which are in
``schedule``; use of the noise, which is in ``kernels``.

Sixteen generators xoshiro256++ (Blackman and Vigna 2021, ACM TOMS 47, 36) run side by side, their states of 256 bits filled
by SplitMix64 (Steele, Lea and Flood 2014, OOPSLA), as the authors advise, from a key and the number of the step.
Their bits, 32 at a time, become pairs of normals by the polar form of Box and Muller (1958), with series for
logarithm, sine and cosine, all in straight lines that LLVM turns into vector instructions.  Errors are below 2e-6 (4e-4 for
numbers below 0.05), and no number exceeds 6.8, where a normal one lies with probability 1e-11.
"""

# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportAttributeAccessIssue=false
# numba hands its intrinsics one argument more than their callers do.

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from estimators.federated.kernels import address

LANES = 16
HALF = 512
"""Normals from one block come in two halves of this length, cosines and sines of the same angles."""

GOLDEN, MIX1, MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
f4, u8, i4 = np.float32, np.uint64, np.int32
ROOT_HALF = i4(np.array(0.5**0.5, f4).view(i4))
ONE = i4(np.array(1.0, f4).view(i4))
LN2 = f4(math.log(2))
L1, L2, L3, L4, L5 = (f4(2 / (2 * k + 1)) for k in range(5))
S0, S1, S2, S3, S4 = (f4((-1) ** k * (math.pi / 2) ** (2 * k + 1) / math.factorial(2 * k + 1)) for k in range(5))
C0, C1, C2, C3, C4, C5 = (f4((-1) ** k * (math.pi / 2) ** (2 * k) / math.factorial(2 * k)) for k in range(6))


@intrinsic
def advance(typingctx, states, bits, rows):
    """Next 64 random bits of each lane, `rows` >= 1 times; the states (4, LANES) stay in vector registers meanwhile."""

    def codegen(context, builder, signature, args):
        whole = ir.IntType(64)
        vector = ir.VectorType(whole, LANES)
        states, bits, rows = args

        def at(pointer, row):
            return builder.bitcast(builder.gep(pointer, [builder.mul(row, whole(LANES))]), vector.as_pointer())

        def shifted(value, left, right=None):
            moved = builder.shl(value, ir.Constant(vector, [left] * LANES))
            return moved if right is None else builder.or_(moved, builder.lshr(value, ir.Constant(vector, [right] * LANES)))

        starts = [builder.load(at(states, whole(k)), align=8) for k in range(4)]
        before = builder.block
        loop, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
        builder.branch(loop)

        builder.position_at_end(loop)
        i = builder.phi(whole)
        a, b, c, d = phis = [builder.phi(vector) for _ in range(4)]
        builder.store(builder.add(shifted(builder.add(a, d), 23, 41), a), at(bits, i), align=8)
        c, d, t = builder.xor(c, a), builder.xor(d, b), shifted(b, 17)
        b, a = builder.xor(b, c), builder.xor(a, d)
        ends = [a, b, builder.xor(c, t), shifted(d, 45, 19)]
        following = builder.add(i, whole(1))
        builder.cbranch(builder.icmp_signed("<", following, rows), loop, after)
        for phi, start, end in zip([i, *phis], [whole(0), *starts], [following, *ends], strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, loop)

        builder.position_at_end(after)
        for k in range(4):
            builder.store(ends[k], at(states, whole(k)), align=8)
        return context.get_dummy_value()

    return types.void(states, bits, types.intp), codegen


@njit(nogil=True, cache=True)
def fill(states, bits):
    """Next 64 random bits of each lane, row by row; states (4, LANES) move on."""
    advance(address(states, 0), address(bits, 0), bits.size // LANES)


@njit(nogil=True, cache=True)
def seed(key, step, states):
    """States (4, LANES) of one step: word w of lane k is number step * LANES + k of a SplitMix64 that starts at key[w]."""
    for w in range(4):
        for k in range(LANES):
            z = key[w] + u8(step * LANES + k + 1) * GOLDEN
            z = (z ^ (z >> u8(30))) * MIX1
            z = (z ^ (z >> u8(27))) * MIX2
            states[w, k] = z ^ (z >> u8(31))


@njit(nogil=True, cache=True, forceinline=True, fastmath={"contract"}, error_model="numpy")
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


@njit(nogil=True, cache=True, forceinline=True, fastmath={"contract"})
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
def normals(key, steps, out):
    """Fill row t of out (T, n) of float32 with the standard normal numbers of key (4,) of uint64 and steps[t]."""
    states = np.empty((4, LANES), np.uint64)
    bits = np.empty(HALF, np.uint64)
    halves = bits.view(np.uint32)
    values, exponents, block = np.empty(HALF, np.float32), np.empty(HALF, np.float32), np.empty(2 * HALF, np.float32)
    for t in range(len(steps)):
        seed(key, steps[t], states)
        for start in range(0, out.shape[1], 2 * HALF):
            fill(states, bits)
            radii(halves[:HALF], values, exponents)
            row = out[t, start : start + 2 * HALF]
            target = row if len(row) == 2 * HALF else block
            turn(halves[HALF:], values, target[:HALF], target[HALF:])
            if len(row) < 2 * HALF:
                row[:] = block[: len(row)]
