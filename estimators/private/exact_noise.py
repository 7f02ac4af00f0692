"""Noise on whole numbers, drawn without rounding: discrete Gaussian, discrete Laplace, randomised response.

A float that is a sum of data and noise can give the data away through its last bits (Mironov 2012): the floats that noise
reaches depend on where it is added.  Here data and noise are Python integers, and the draws are exact consequences of
random bits (Canonne, Kamath and Steinke 2020).  How long a draw takes depends on the noise, so an attacker must not be
able to time it.

Belongs here: samplers of single numbers, their variances, the exact delta of discrete Gaussian noise, bounds that integers
prove.  Samplers of arrays are in ``exact_batches``; what noise a budget needs is in ``noise``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from fractions import Fraction
from math import ceil, isqrt

import numpy as np

from estimators.numerics.blocks import parts
from estimators.numerics.validation import count, nonnegative, positive, single

__all__ = [
    "BITS",
    "FEW",
    "below",
    "below_exponential",
    "check_generator",
    "discrete_gaussian",
    "discrete_gaussian_delta",
    "discrete_gaussian_variance",
    "discrete_laplace",
    "discrete_laplace_variance",
    "exponential_bounds",
    "exponential_floor",
    "geometric",
    "randomised_response",
    "with_sign",
]

BITS = 64  # after the point of an exponential that is bounded
BLOCK = 1 << 20  # terms of a sum at a time
FEW = 8  # draws up to which one at a time is faster than arrays


def check_generator(generator: object) -> None:
    """Raise ValueError unless it is a NumPy Generator or None."""
    if generator is not None and not isinstance(generator, np.random.Generator):
        raise ValueError(
            f"generator must be a numpy.random.Generator, or None for fresh entropy, got {type(generator).__name__}"
        )


def exponential_floor(x: Fraction | float) -> int:
    """Return an integer that is at most e^x 2^64, and less than 2^-50 of it below, for 0 < x <= 700; certain.

    The series of positive terms in whole multiples of 2^-128, each rounded down.

    >>> exponential_floor(1.0) / 2**64
    2.718281828459045
    """
    x = Fraction(x)
    term, total, k = 1 << (2 * BITS), 0, 0
    while term:
        total, k = total + term, k + 1
        term = term * x.numerator // (x.denominator * k)
    return total >> BITS


def exponential_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return whole numbers with low <= exp(-x) 2^bits <= high, at most some 2 apart, for x >= 0; certain.

    Series of e^r of positive terms, once rounded down and once up, with x halved to r < 1 before and squared after.

    >>> low, high = exponential_bounds(Fraction(1), 64)
    >>> low / 2**64, high - low
    (0.36787944117144233, 1)
    """
    if x >= bits:
        return 0, 1
    halvings = ceil(x).bit_length()
    work = bits + halvings + BITS
    one, part = 1 << work, x / (1 << halvings)
    below_it, above, least, most, k = one, one, 0, 0, 0
    while above > 1:
        least, most, k = least + below_it, most + above, k + 1
        below_it = below_it * part.numerator // (part.denominator * k)
        above = -(-above * part.numerator // (part.denominator * k))
    low, high = one * one // (most + 2), one * one // least + 1  # terms that follow are together at most 2
    for _ in range(halvings):
        low, high = low * low >> work, (high * high >> work) + 1
    return low >> (work - bits), (high >> (work - bits)) + 1


def below_exponential(draw: int, bits: int, x: Fraction, generator: np.random.Generator | None) -> bool:
    """Return whether a uniform number that begins with these bits is below exp(-x); certain, with more bits where needed."""
    while x:
        low, high = exponential_bounds(x, bits)
        if draw < low:
            return True
        if draw >= high:
            return False
        draw, bits = draw << BITS | below(1 << BITS, generator), bits + BITS
    return True


def below(limit: int, generator: np.random.Generator | None) -> int:
    """Return a uniform integer in 0..limit-1, from the operating system's entropy if `generator` is None."""
    if generator is None:
        return secrets.randbelow(limit)
    bits = (limit - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        draw = int.from_bytes(generator.bytes(size)) >> (8 * size - bits) if bits else 0
        if draw < limit:
            return draw


def bernoulli_exp(numerator: int, denominator: int, generator: np.random.Generator | None) -> bool:
    """Return True with probability exp(-numerator / denominator), for whole numbers >= 0 and > 0."""
    while numerator > denominator:
        if not unit_bernoulli_exp(1, 1, generator):
            return False
        numerator -= denominator
    return unit_bernoulli_exp(numerator, denominator, generator)


def unit_bernoulli_exp(numerator: int, denominator: int, generator: np.random.Generator | None) -> bool:
    """Return True with probability exp(-x) for x = numerator / denominator <= 1.

    The number of successes in a row of events of probability x/1, x/2, x/3, ... is even with probability exp(-x).
    """
    tries = 1
    while below(denominator * tries, generator) < numerator:
        tries += 1
    return tries % 2 == 1


def geometric(scale: int | tuple[int, int], generator: np.random.Generator | None = None) -> int:
    """Draw an integer y >= 0 with P(y >= k) = exp(-k / scale); exact.  Arguments as in `discrete_laplace`.

    >>> import numpy as np
    >>> [geometric((1 << 30, 1 << 28), np.random.default_rng(seed)) for seed in range(4)]
    [5, 3, 1, 0]
    """
    t, s = (scale, 1) if isinstance(scale, int) else scale
    while not bernoulli_exp(rest := below(t, generator), t, generator):
        pass
    whole = 0
    while unit_bernoulli_exp(1, 1, generator):
        whole += 1
    return (rest + t * whole) // s


def with_sign(draw: Callable[[], int], generator: np.random.Generator | None) -> int:
    """Return a size that `draw` draws with a fair sign; both are drawn anew where that is -0, so that 0 counts once."""
    while True:
        size = draw()
        negative = below(2, generator)
        if not (negative and size == 0):
            return -size if negative else size


def discrete_laplace(scale: int | tuple[int, int], generator: np.random.Generator | None = None) -> int:
    """Draw an integer y with probability proportional to exp(-|y| / scale); exact.

    Parameters
    ----------
    scale : whole number >= 1, or pair (numerator, denominator) of whole numbers >= 1.
    generator : numpy.random.Generator, or None for fresh entropy of the operating system.

    >>> import numpy as np
    >>> [discrete_laplace(3, np.random.default_rng(seed)) for seed in range(4)]
    [-9, -1, 4, 2]
    """
    return with_sign(lambda: geometric(scale, generator), generator)


def discrete_gaussian(sigma2: int, generator: np.random.Generator | None = None) -> int:
    """Draw an integer y with probability proportional to exp(-y^2 / (2 sigma2)); exact.

    By rejection from the discrete Laplace law of nearly the same width.

    Parameters
    ----------
    sigma2 : whole number >= 0 (0 gives 0); generator : see `discrete_laplace`.

    >>> import numpy as np
    >>> [discrete_gaussian(100, np.random.default_rng(seed)) for seed in range(4)]
    [-17, -6, 15, 9]
    """
    if sigma2 == 0:
        return 0
    t = isqrt(sigma2) + 1
    while True:
        y = discrete_laplace(t, generator)
        if bernoulli_exp((abs(y) * t - sigma2) ** 2, 2 * sigma2 * t * t, generator):
            return y


def randomised_response(bit: int, flip: tuple[int, int], generator: np.random.Generator | None = None) -> int:
    """Return `bit`, or the other one with probability flip[0] / flip[1]; exact.

    >>> randomised_response(1, (0, 8))
    1
    """
    return bit ^ (below(flip[1], generator) < flip[0])


def discrete_laplace_variance(scale: float) -> float:
    """Variance of `discrete_laplace`, 1 / (2 sinh(1 / (2 scale))^2); exact.  `scale` is a number > 0.

    >>> round(discrete_laplace_variance(10.0), 4)
    199.8334
    """
    with np.errstate(over="ignore"):  # no variance is left
        return float(1 / (2 * np.sinh(1 / (2 * single(positive, "scale", scale))) ** 2))


def discrete_gaussian_variance(sigma2: float) -> float:
    """Variance of `discrete_gaussian`, below sigma2 and equal to it to 16 digits from 3 on.

    >>> round(discrete_gaussian_variance(0.5), 6)
    0.498979
    """
    sigma2 = single(nonnegative, "sigma2", sigma2)
    if sigma2 == 0 or sigma2 >= 3:
        return sigma2
    y = np.arange(1, 80)
    weights = np.exp(-(y**2) / (2 * sigma2))
    return float(2 * np.sum(y**2 * weights) / (1 + 2 * np.sum(weights)))


def discrete_gaussian_delta(*, eps: float, sensitivity: int, sigma2: float) -> float:
    """Smallest delta at which discrete Gaussian noise on a whole number is (eps, delta)-private; exact up to rounding.

    sum over y > eps sigma2 / D - D / 2 of P(y) (1 - exp(eps - (2 y D + D^2) / (2 sigma2))), D the sensitivity (theorem 7
    of Canonne, Kamath and Steinke 2020).  A smaller change of the number gives a smaller delta: the law is log-concave, so
    the worst event is a half-line, whose probability under the shifted law falls with the shift.

    Parameters
    ----------
    eps : number >= 0; sensitivity : whole number >= 0, largest change of the number; sigma2 : number > 0 up to 1e14.

    >>> float(round(discrete_gaussian_delta(eps=1.0, sensitivity=1, sigma2=14), 9))
    9.956e-06
    """
    eps, sigma2 = single(nonnegative, "eps", eps), single(positive, "sigma2", sigma2)
    if sigma2 > 1e14:
        raise ValueError(f"sigma2 must be at most 1e14 to be summed, got {sigma2:g}; use privacy.gaussian_delta there")
    change = int(single(count, "sensitivity", sensitivity, 0))
    if change == 0:
        return 0.0
    start = int(np.floor(eps * sigma2 / change - change / 2)) + 1
    width = int(12 * np.sqrt(sigma2)) + 40
    tail = 0.0
    for part in parts(2 * width, BLOCK):
        y = max(start, -width) + np.arange(part.start, min(part.stop, 2 * width), dtype=float)
        gain = -np.expm1(np.minimum(eps - change * (2 * y + change) / (2 * sigma2), 0.0))
        tail += float(np.sum(np.exp(-(y**2) / (2 * sigma2)) * gain))
    around = np.arange(-60, 61) if sigma2 < 9 else None
    total = np.sqrt(2 * np.pi * sigma2) if around is None else np.sum(np.exp(-(around**2) / (2 * sigma2)))
    return float(tail / total)
