"""Noise on whole numbers in batches: the laws of ``exact_noise``, and uniform and geometric parts, by arrays of integers.

Each draw is an exact consequence of random words, as there; here many are made at once, in 64-bit integers that never
overflow: every function says why next to its limit, and refuses what is beyond.  Events of probability exp(-x y z) are
events of probability x y z / k in a row, and a product of fractions is an event for each, so that nothing is multiplied out.
Fractions of larger numbers (Python's integers, in arrays of objects) are compared with random words digit by digit.

Belongs here: samplers of arrays.  Single draws of any size are in ``exact_noise``, laws that a client releases in
``finite_output`` and ``staircase``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np

from estimators.numerics.arrays import Ints

__all__ = ["discrete_gaussians", "discrete_laplaces", "exponential_events", "geometrics", "signed", "uniforms"]

MOST_UNITS = 1 << 10  # whole units of an exponential variable; more have probability exp(-1024), below 1e-444
MOST_SCALE = 1 << 50  # of geometric noise: times MOST_UNITS it stays below 2^60
SMALL_SIGMA2 = 1 << 40  # of Gaussian noise, up to which draws stay below 2^20 (MOST_UNITS + 1), and their squares below 2^61
MOST_SIGMA2 = 1 << 98  # whose draws, below 2^50 (MOST_UNITS + 1), have 64 bits, but not what is calculated of them
DIGIT = 62  # bits of a large fraction that are compared at once


def words(size: int, generator: np.random.Generator | None) -> np.ndarray:
    """Return random 64-bit words, from the operating system's entropy if `generator` is None."""
    if generator is None:
        return np.frombuffer(secrets.token_bytes(8 * size), np.uint64)
    return generator.integers(0, 2**64 - 1, size, np.uint64, endpoint=True)


def uniforms(limit: int | Ints, size: int, generator: np.random.Generator | None = None) -> Ints:
    """Return uniform integers in 0..limit-1, for a limit in 1..2^63 or an array (size,) of such; exact, by rejection.

    >>> uniforms(6, 8, np.random.default_rng(0)).tolist()
    [5, 2, 0, 0, 4, 0, 4, 5]
    """
    if not np.all((np.greater_equal(limit, 1)) & np.less_equal(limit, 1 << 63)):
        raise ValueError(f"limit must lie in 1..2^63, got {limit}")
    found = np.zeros(size, np.int64)
    if isinstance(limit, int):
        bits = (limit - 1).bit_length()
        waiting, shift = np.arange(size if bits else 0), np.uint64(64 - bits)
    else:  # a float is at least the number up to its rounding, so that no bit is missing; one too many is rejected below
        waiting, shift = np.arange(size), 64 - np.maximum(np.frexp(limit.astype(float))[1], 1).astype(np.uint64)
    while waiting.size:
        mine, top = of(shift, waiting), of(limit, waiting)
        draws = (words(waiting.size, generator) >> mine).astype(np.int64)  # below 2^63
        good = draws < top
        found[waiting[good]] = draws[good]
        waiting = waiting[~good]
    return found


def of(values: Any, places: Ints) -> Any:
    """Return the entries of an array, or the number that stands for all."""
    return values[places] if isinstance(values, np.ndarray) else values


def chances(numerator: Ints | int, denominator: Ints | int, size: int, generator: np.random.Generator | None) -> np.ndarray:
    """Return events whose probabilities are fractions in [0, 1]; exact, also for arrays of Python's integers.

    Of those, a uniform number and the fraction are compared by digits: mostly the first one decides.
    """
    if not (isinstance(numerator, np.ndarray) and numerator.dtype == object):
        return uniforms(denominator, size, generator) < numerator
    found, waiting, rest = np.zeros(size, bool), np.arange(size), numerator
    while waiting.size:
        wide = rest << DIGIT
        digit = wide // denominator  # 2^62 where the fraction is 1
        draw = uniforms(1 << DIGIT, waiting.size, generator)
        found[waiting] = (draw < digit).astype(bool)
        open_yet = np.flatnonzero((draw == digit).astype(bool))
        rest, denominator, waiting = (wide - digit * denominator)[open_yet], of(denominator, open_yet), waiting[open_yet]
    return found


def exponential_events(
    factors: Sequence[tuple[Ints | int, Ints | int]], size: int, generator: np.random.Generator | None = None
) -> np.ndarray:
    """Return events of probability exp(-x), x the product of fractions in [0, 1]; exact.

    The number of successes in a row of events of probability x/1, x/2, x/3, ... is even with probability exp(-x).

    Parameters
    ----------
    factors : list of (numerator, denominator), whole numbers, each an array (size,) or one for all.
    size : number of events; generator : as in `uniforms`.
    """
    even = np.zeros(size, bool)
    waiting, tries = np.arange(size), 1
    while waiting.size:
        go = uniforms(tries, waiting.size, generator) == 0
        for numerator, denominator in factors:
            go &= chances(of(numerator, waiting), of(denominator, waiting), waiting.size, generator)
        even[waiting[~go]] = tries % 2 == 1
        waiting, tries = waiting[go], tries + 1
    return even


def survivals(
    numerator: Ints,
    denominator: Ints | int,
    generator: np.random.Generator | None,
    factors: Sequence[tuple[Ints | int, Ints | int]] = (),
) -> np.ndarray:
    """Return events of probability exp(-numerator / denominator * product of factors), the first fraction of any size."""
    whole = numerator // denominator
    rest = numerator - whole * denominator
    alive = exponential_events([(rest, denominator), *factors], len(whole), generator)
    units = 0
    while (waiting := np.flatnonzero(alive & (whole > units))).size:
        mine = [(of(n, waiting), of(d, waiting)) for n, d in factors]
        alive[waiting] = exponential_events(mine, waiting.size, generator)
        units += 1
    return alive


def geometrics(scale: tuple[Ints | int, Ints | int], size: int, generator: np.random.Generator | None = None) -> Ints:
    """Return integers X >= 0 with P(X >= k) = exp(-k / scale); exact.

    An exponential variable in units of 1/t is a uniform rest, kept with probability exp(-rest / t), and a number of whole
    units (Canonne, Kamath and Steinke 2020).

    Parameters
    ----------
    scale : pair (t, s) of whole numbers >= 1 for t / s, t at most 2^62 and t / s at most 2^50; each an array (size,) or one
        for all.
    size : number of draws; generator : as in `uniforms`.

    >>> geometrics((3, 1), 6, np.random.default_rng(1)).tolist()
    [0, 2, 0, 1, 2, 4]
    """
    t, s = scale
    whole_t, whole_s = np.asarray(t), np.asarray(s)
    possible = (whole_s >= 1) & (whole_s <= 1 << 30) & (whole_t >= 1) & (whole_t <= 1 << 62)
    if not (possible.all() and (-(-whole_t // MOST_SCALE) <= whole_s).all()):
        raise ValueError(f"scale must be a ratio of whole numbers up to 2^62 and 2^30, and at most 2^50, got {t} / {s}")
    rest = uniforms(t, size, generator)
    waiting = np.arange(size)
    while (waiting := waiting[~exponential_events([(rest[waiting], of(t, waiting))], waiting.size, generator)]).size:
        rest[waiting] = uniforms(of(t, waiting), waiting.size, generator)
    whole = np.zeros(size, np.int64)
    waiting = np.arange(size)
    while (waiting := waiting[exponential_events((), waiting.size, generator)]).size:
        whole[waiting] += 1
        if whole[waiting[0]] >= MOST_UNITS:
            raise OverflowError("a draw of probability below 1e-444; the source of random words is broken")
    # floor((rest + t whole) / s) with t = step s + left: whole < 2^10, left < s <= 2^30 and step <= 2^50.
    step, left = t // s, t % s
    return step * whole + (rest + left * whole) // s  # rest < 2^62 and left whole < 2^40


def signed(magnitudes: Ints, generator: np.random.Generator | None) -> tuple[Ints, np.ndarray]:
    """Return magnitudes with random signs, and which count: of the two zeros one does not."""
    negative = uniforms(2, len(magnitudes), generator) == 1
    return np.where(negative, -magnitudes, magnitudes), ~(negative & (magnitudes == 0))


def discrete_laplaces(scale: tuple[Ints | int, Ints | int], size: int, generator: np.random.Generator | None = None) -> Ints:
    """Return integers y with probabilities proportional to exp(-|y| / scale); exact.  Arguments as in `geometrics`.

    >>> discrete_laplaces((3, 1), 6, np.random.default_rng(1)).tolist()
    [0, -2, 1, -1, -2, 4]
    """
    found = np.empty(size, np.int64)
    waiting = np.arange(size)
    while waiting.size:
        mine = of(scale[0], waiting), of(scale[1], waiting)
        found[waiting], good = signed(geometrics(mine, waiting.size, generator), generator)
        waiting = waiting[~good]
    return found


def discrete_gaussians(sigma2: int | Ints, size: int, generator: np.random.Generator | None = None) -> Ints:
    """Return integers y with probabilities proportional to exp(-y^2 / (2 sigma2)); exact.

    From discrete Laplace draws of scale t, kept with probability exp(-x^2 / (2 sigma2)), x = |y| - sigma2 / t
    (Canonne, Kamath and Steinke 2020).  With |x| = whole + part / t the exponent is a sum of three products.

    Parameters
    ----------
    sigma2 : whole number in 0..2^98 (0 gives zeros), or an array (size,) of such, of Python's integers where they are large;
        size : number of draws; generator : as in `uniforms`.

    >>> discrete_gaussians(100, 6, np.random.default_rng(1)).tolist()
    [-8, 8, -13, 6, -9, 14]
    """
    if not np.all(np.greater_equal(sigma2, 0) & np.less_equal(sigma2, MOST_SIGMA2)):
        raise ValueError(f"sigma2 must lie in 0..2^98 for draws in batches, got {sigma2}; use discrete_gaussian")
    if np.any(np.greater(sigma2, SMALL_SIGMA2)):
        return large_gaussians(sigma2, size, generator)
    found = np.zeros(size, np.int64)
    waiting = np.flatnonzero(np.broadcast_to(sigma2, size))
    while waiting.size:
        mine = of(sigma2, waiting)
        t = isqrt(mine) + 1 if isinstance(mine, int) else np.sqrt(mine.astype(float)).astype(np.int64) + 1  # any t is right
        middle, left = mine // t, mine % t
        y = discrete_laplaces((t, 1), waiting.size, generator)
        beyond = abs(y) > middle
        whole = np.where(beyond, abs(y) - middle - 1, middle - abs(y))
        part = (np.where(beyond, t - left, left), t)
        good = survivals(whole**2, 2 * mine, generator)
        good &= survivals(whole, mine, generator, [part])
        good &= exponential_events([(1, 2 * mine), part, part], waiting.size, generator)
        found[waiting[good]] = y[good]
        waiting = waiting[~good]
    return found


def large_gaussians(sigma2: int | Ints, size: int, generator: np.random.Generator | None) -> Ints:
    """Return what `discrete_gaussians` says, with the probabilities in Python's integers."""
    found = np.zeros(size, np.int64)
    each = np.array(np.broadcast_to(sigma2, size).tolist(), dtype=object)  # no longer of 64 bits
    waiting = np.flatnonzero(each > 0)
    while waiting.size:
        mine = each[waiting]
        t = np.array([isqrt(v) + 1 for v in mine.tolist()], np.int64)  # at most 2^49 + 1
        y = discrete_laplaces((t, np.ones_like(t)), waiting.size, generator)
        wide = t.astype(object)
        good = survivals((abs(y).astype(object) * wide - mine) ** 2, 2 * mine * wide**2, generator)
        found[waiting[good]] = y[good]
        waiting = waiting[~good]
    return found
