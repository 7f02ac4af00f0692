"""Staircase noise on whole numbers: purely private, of the least variance among noises for a given sensitivity.

The probability falls by e^-eps over each stretch of the sensitivity D, in one step inside it (Geng and Viswanath 2016): it
is e^(-eps (block + [place >= inner])) up to a factor, block and place the quotient and remainder of |y| by D.  With inner =
D = 1 it is the discrete Laplace law; at eps 8 it has 11 % of that one's variance.

Belongs here: the law, its best step, draws.  A number that is bounded itself is better released by ``finite_output``.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from estimators.accounting.budget import budget_numbers
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.validation import count, finite, paired, positive, probability, single
from estimators.private.exact_batches import MOST_SCALE, geometrics, signed, uniforms
from estimators.private.exact_noise import BITS, FEW, below, check_generator, exponential_floor, geometric, with_sign
from estimators.private.window_designs import descent

__all__ = ["Staircase", "best_inner", "staircase_variance"]

DENOMINATOR = 1 << 30
CHANCES = 1 << 62
LARGEST_EPS = 40.0
LARGEST_SCALE = 1e100  # of the noise, whose cube a variance is calculated from


def staircase_variance(sensitivity: int, inner: int, eps: float, step: float | None = None) -> float:
    """Variance of staircase noise; exact up to rounding.

    Parameters
    ----------
    sensitivity : whole number D >= 1; inner : whole number in 1..D, places of a block before the step; eps : number > 0.
    step : ratio of heights at the step, in [e^-eps, 1]; None is e^-eps.

    >>> round(staircase_variance(3, 2, 1.0), 6), round(staircase_variance(5, 2, 4.0), 6)
    (17.238791, 1.753556)
    """
    D, r, eps = single(count, "sensitivity", sensitivity), single(count, "inner", inner), single(positive, "eps", eps)
    if r > D:
        raise ValueError(f"inner must be at most the sensitivity, {D:g}, got {r:g}")
    return variance_of(D, r, eps, np.exp(-eps) if step is None else single(probability, "step", step))


def variance_of(D: float, r: float, eps: float, low: float) -> float:
    """Return `staircase_variance` of checked numbers, `low` the ratio of heights."""
    b, rest = np.exp(-eps), -np.expm1(-eps)
    # Sums of place^k over a block, each place with the height of its side of the step, k = 0, 1, 2.
    sums = [(n, n * (n - 1) / 2, n * (n - 1) * (2 * n - 1) / 6) for n in (r, D)]
    zero, one, two = (before + low * (all_places - before) for before, all_places in zip(*sums, strict=True))
    squares = D * D * zero * b * (1 + b) / rest**3 + 2 * D * one * b / rest**2 + two / rest
    return float(2 * squares / (2 * zero / rest - 1))


def best_inner(sensitivity: int, eps: float) -> int:
    """Return the step of least variance, as places of a block before it: from the continuous optimum, by steps that halve.

    Continuous: -b/(1-b) + (b - 2 b^2 + 2 b^4 - b^5)^(1/3) / (2^(1/3) (1-b)^2) of the block, b = e^-eps.

    >>> best_inner(3, 1.0), best_inner(5, 4.0), best_inner(4095, 1.0)
    (2, 2, 1707)
    """
    sensitivity, eps = int(single(count, "sensitivity", sensitivity)), single(positive, "eps", eps)
    b = np.exp(-eps)
    share = -b / (1 - b) + np.cbrt(b - 2 * b**2 + 2 * b**4 - b**5) / (np.cbrt(2) * (1 - b) ** 2) if eps > 0.01 else 0.5
    start = max(round(share * sensitivity), 1)
    return descent(lambda inner: variance_of(float(sensitivity), float(inner), eps, b), start, 1, sensitivity)


class Staircase:
    """Staircase noise for whole numbers of a known sensitivity, with its law.

    Parameters
    ----------
    sensitivity : whole number D >= 1, the largest change of the number, at most 1e100 eps.
    eps : number > 0; above 40 the noise of eps 40 is used.

    Attributes
    ----------
    inner : int, the best step; variance : float; wide : bool, whether D is above 2^50 eps, so that draws, one by one, are
        Python's integers.

    >>> noise = Staircase(sensitivity=4095, eps=4.0)
    >>> round(noise.variance / 4095**2, 4)
    0.065
    >>> noise.release([100, 100, 100], np.random.default_rng(0)).tolist()
    [776, 131, 226]
    """

    def __init__(self, *, sensitivity: int, eps: float) -> None:
        checked = single(count, "sensitivity", sensitivity)
        self.sensitivity = sensitivity if isinstance(sensitivity, int) else int(checked)  # a float may round one down
        self.eps = budget_numbers(eps, 0.0)[0]
        if checked > LARGEST_SCALE * self.eps:
            raise ValueError(f"sensitivity must be at most 1e100 eps for a staircase, got {checked:g} with eps={eps:g}")
        # Blocks fall by e^-used, used <= eps a ratio of whole numbers.  The step inside a block may be any from that to 1:
        # a change of D goes down either one block or one step.  So it is rounded up, to a chance in 2^62.
        self.scale = ceil(DENOMINATOR / Fraction(min(self.eps, LARGEST_EPS))), DENOMINATOR
        self.wide = self.scale[0] > MOST_SCALE // self.sensitivity * DENOMINATOR
        used = Fraction(self.scale[1], self.scale[0])
        self.used = float(used)
        self.inner = best_inner(self.sensitivity, self.used)
        outer = self.sensitivity - self.inner
        fall = Fraction(1 << BITS, exponential_floor(used))
        self.outside = ceil(CHANCES * fall * outer / (self.inner + fall * outer))
        share = Fraction(self.outside, CHANCES)
        self.step = float(share / (1 - share) * self.inner / outer) if outer else 1.0
        self.variance = staircase_variance(self.sensitivity, self.inner, self.used, self.step)

    def noise(self, size: int, generator: np.random.Generator | None = None) -> Ints:
        """Return independent draws, an array of Python's integers if the noise is `wide`; exact."""
        if size <= FEW or self.wide:
            return np.array([self.draw(generator) for _ in range(size)], object if self.wide else np.int64)
        found = np.empty(size, np.int64)
        waiting = np.arange(size)
        while waiting.size:
            outside = uniforms(CHANCES, waiting.size, generator) < self.outside
            places = uniforms(self.inner, waiting.size, generator)
            places[outside] = self.inner + uniforms(max(self.sensitivity - self.inner, 1), int(outside.sum()), generator)
            blocks = geometrics(self.scale, waiting.size, generator)  # times the sensitivity they are below 2^61
            found[waiting], good = signed(blocks * self.sensitivity + places, generator)
            waiting = waiting[~good]
        return found

    def draw(self, generator: np.random.Generator | None) -> int:
        """Return one draw, in Python's integers: for few that is faster than arrays."""

        def size():
            outside = below(CHANCES, generator) < self.outside
            first, places = (self.inner, self.sensitivity - self.inner) if outside else (0, self.inner)
            return geometric(self.scale, generator) * self.sensitivity + first + below(places, generator)

        return with_sign(size, generator)

    @paired
    def release(self, totals: ArrayLike, generator: np.random.Generator | None = None) -> Ints:
        """Return whole numbers with noise added, each with its own.

        Parameters
        ----------
        totals : array of whole numbers up to 2^53 in size; generator : None for fresh entropy of the operating system.
        """
        totals = finite("totals", totals)
        check_generator(generator)
        if (totals != np.rint(totals)).any() or (np.abs(totals) > 2.0**53).any():
            raise ValueError("totals must be whole numbers up to 2^53 in size")
        return totals.astype(np.int64) + self.noise(totals.size, generator).reshape(totals.shape)

    @paired
    def log_likelihood(self, values: ArrayLike, truth: ArrayLike) -> Floats:
        """Return log P(released = value | truth) of whole numbers, broadcast together; exact up to rounding.

        >>> noise = Staircase(sensitivity=2, eps=1.0)
        >>> bool(abs(np.exp(noise.log_likelihood(np.arange(-60, 61), 0)).sum() - 1) < 1e-12)
        True
        """
        block, place = np.divmod(np.abs(finite("values", values) - finite("truth", truth)), self.sensitivity)
        heights = self.inner + self.step * (self.sensitivity - self.inner)
        total = 2 * heights / -np.expm1(-self.used) - 1
        return -self.used * block + np.where(place >= self.inner, np.log(self.step), 0.0) - np.log(total)
