"""Noise on whole numbers in batches: the laws of ``exact_noise``, and uniform and geometric parts, by arrays of integers.

Each draw is an exact consequence of random words, as there; here many are made at once, in 64-bit integers that never
overflow: every function says why next to its limit, and refuses what is beyond.  An event of probability exp(-x) is that a
uniform number is below exp(-x).  Its first 53 bits and an exponential in floats decide it, unless they are as near as a part
in 2^38, thousands of times further than such an exponential is off; then whole numbers do, with as many more bits as needed.

Belongs here: samplers of arrays.  Single draws of any size are in ``exact_noise``, laws that a client releases in
``finite_output`` and ``staircase``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.private.exact_noise import below_exponential

__all__ = ["discrete_gaussians", "discrete_laplaces", "exponential_events", "geometrics", "signed", "uniforms"]

MOST_UNITS = 1 << 10  # whole units of an exponential variable; more have probability exp(-1024), below 1e-444
MOST_SCALE = 1 << 50  # of geometric noise: times MOST_UNITS it stays below 2^60
MOST_SIGMA2 = 1 << 98  # of Gaussian noise, up to which draws stay below 2^50 (MOST_UNITS + 1)
DIGITS = 53  # of a uniform number that a float holds
NEARLY = 2.0**-38  # share of an exponential in floats within which it decides nothing


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
    if isinstance(limit, int):
        possible, bits = 1 <= limit <= 1 << 63, (limit - 1).bit_length()
        if possible and bits == 0:
            return np.zeros(size, np.int64)
        shift = np.uint64(64 - bits) if possible else None
    else:  # a float is at least the number up to its rounding, so that no bit is missing; of 64 one would be the sign
        possible = bool(((limit >= 1) & (limit <= 1 << 63)).all())
        shift = 64 - np.clip(np.frexp(limit.astype(float))[1], 1, 63).astype(np.uint64)
    if not possible:
        raise ValueError(f"limit must lie in 1..2^63, got {limit}")
    found = (words(size, generator) >> shift).astype(np.int64)  # below 2^63
    waiting = np.flatnonzero(found >= limit)
    while waiting.size:
        draws = (words(waiting.size, generator) >> of(shift, waiting)).astype(np.int64)
        found[waiting] = draws
        waiting = waiting[draws >= of(limit, waiting)]
    return found


def of(values: Any, places: Ints | int) -> Any:
    """Return the entries of an array, or the number that stands for all."""
    return values[places] if isinstance(values, np.ndarray) else values


def exponential_events(
    x: Floats, exactly: Callable[[int], Fraction], generator: np.random.Generator | None = None
) -> np.ndarray:
    """Return events of probabilities exp(-x); exact.

    Parameters
    ----------
    x : array (k,) of numbers >= 0, exact to a part in 2^50 of 1 + x^2.
    exactly : function from a place in 0..k-1 to x there, a Fraction; asked where floats leave open what comes, once in 2^37.
    generator : as in `uniforms`.

    >>> exponential_events(np.array([0.0, 1e9]), lambda place: Fraction(10**9 * place), np.random.default_rng(0)).tolist()
    [True, False]
    """
    draws = (words(x.size, generator) >> np.uint64(64 - DIGITS)).astype(float)
    with np.errstate(under="ignore"):
        chance = np.exp(-x) * 2.0**DIGITS
    found = draws + 1 <= chance * (1 - NEARLY)
    for place in np.flatnonzero(~found & (draws <= chance * (1 + NEARLY))).tolist():
        found[place] = below_exponential(int(draws[place]), DIGITS, exactly(place), generator)
    return found


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
    [5, 1, 3, 1, 0, 1]
    """
    t, s = scale
    whole_t, whole_s = np.asarray(t), np.asarray(s)
    possible = (whole_s >= 1) & (whole_s <= 1 << 30) & (whole_t >= 1) & (whole_t <= 1 << 62)
    if not (possible.all() and (-(-whole_t // MOST_SCALE) <= whole_s).all()):
        raise ValueError(f"scale must be a ratio of whole numbers up to 2^62 and 2^30, and at most 2^50, got {t} / {s}")
    rest, waiting = uniforms(t, size, generator), np.arange(size)
    while (waiting := waiting[~kept(rest[waiting], of(t, waiting), generator)]).size:
        rest[waiting] = uniforms(of(t, waiting), waiting.size, generator)
    whole, waiting = np.zeros(size, np.int64), np.arange(size)
    while (waiting := waiting[exponential_events(np.ones(waiting.size), lambda _: Fraction(1), generator)]).size:
        whole[waiting] += 1
        if whole[waiting[0]] >= MOST_UNITS:
            raise OverflowError("a draw of probability below 1e-444; the source of random words is broken")
    # floor((rest + t whole) / s) with t = step s + left: whole < 2^10, left < s <= 2^30 and step <= 2^50.
    step, left = t // s, t % s
    return step * whole + (rest + left * whole) // s  # rest < 2^62 and left whole < 2^40


def kept(rest: Ints, t: Ints | int, generator: np.random.Generator | None) -> np.ndarray:
    """Return events of probability exp(-rest / t)."""
    return exponential_events(rest / t, lambda place: Fraction(int(rest[place]), int(of(t, place))), generator)


def signed(magnitudes: Ints, generator: np.random.Generator | None) -> tuple[Ints, np.ndarray]:
    """Return magnitudes with random signs, and which count: of the two zeros one does not."""
    negative = uniforms(2, len(magnitudes), generator) == 1
    return np.where(negative, -magnitudes, magnitudes), ~(negative & (magnitudes == 0))


def discrete_laplaces(scale: tuple[Ints | int, Ints | int], size: int, generator: np.random.Generator | None = None) -> Ints:
    """Return integers y with probabilities proportional to exp(-|y| / scale); exact.  Arguments as in `geometrics`.

    >>> discrete_laplaces((3, 1), 6, np.random.default_rng(1)).tolist()
    [5, 1, -3, -1, 0, -1]
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
    (Canonne, Kamath and Steinke 2020); any whole t is right, one near sigma is quick.

    Parameters
    ----------
    sigma2 : whole number in 0..2^98 (0 gives zeros), or an array (size,) of such, of Python's integers where they are large;
        size : number of draws; generator : as in `uniforms`.

    >>> discrete_gaussians(100, 6, np.random.default_rng(1)).tolist()
    [-2, 7, -13, -6, 2, -6]
    """
    if not np.all(np.greater_equal(sigma2, 0) & np.less_equal(sigma2, MOST_SIGMA2)):
        raise ValueError(f"sigma2 must lie in 0..2^98 for draws in batches, got {sigma2}; use discrete_gaussian")
    found = np.zeros(size, np.int64)
    waiting = np.flatnonzero(np.broadcast_to(sigma2, size))
    while waiting.size:
        mine = of(sigma2, waiting)
        square = float(mine) if isinstance(mine, int) else mine.astype(float)
        t = isqrt(mine) + 1 if isinstance(mine, int) else np.sqrt(square).astype(np.int64) + 1
        y = discrete_laplaces((t, 1 if isinstance(t, int) else np.ones_like(t)), waiting.size, generator)
        good = gaussian_events(y, t, mine, square, generator)
        found[waiting[good]] = y[good]
        waiting = waiting[~good]
    return found


def gaussian_events(
    y: Ints, t: Ints | int, sigma2: Ints | int, square: Floats | float, generator: np.random.Generator | None
) -> np.ndarray:
    """Return events of probability exp(-(|y| - sigma2 / t)^2 / (2 sigma2)); `square` is sigma2 in floats."""

    def exactly(place):
        one, v = int(of(t, place)), int(of(sigma2, place))
        return Fraction((abs(int(y[place])) * one - v) ** 2, 2 * v * one**2)

    away = (np.abs(y) - square / t) / np.sqrt(square)  # off by a part in 2^51 of |y| / sigma, hence x by one of 1 + x^2
    return exponential_events(away**2 / 2, exactly, generator)
