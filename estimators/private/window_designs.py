"""The mechanism with the least worst variance for one bounded number: a window that slides over a finite set of outputs.

An input x in [-1, 1] is to be reported as y, unbiased, so that no output is more than e^eps times as likely under one input
as under another, with the least variance at the worst x.  Write m(y) for the smallest probability of y over all x.  With
multipliers lambda, mu, nu for the variance, the mean and the total at x, what is minimised puts e^eps m(y) where
lambda y^2 + mu y + nu < 0 and m(y) elsewhere, and lambda >= 0: so at each x the likely outputs are an *interval*.  Totals
of one make all these intervals of one mass under m, and their means increase with x.  Outputs cut into cells of equal mass
are therefore all that is needed: `outputs` cells in a row, `width` neighbouring ones likely, and the window moves with x
from one end to the other.  Only the values of the cells are left to choose.

Privacy needs none of this.  The probabilities are two integers over a total, `inside` and `outside`, with
inside <= e^eps outside, which integer arithmetic decides; values and rounding cannot change it.  Nor does unbiasedness: the
values are odd and scaled so that the ends are met exactly.  The worst variance is an exact rational, at and between knots.

Given the window, the variance at each input is convex in the values, so they are found with a lower bound beside them
(`convex_scores`); for large eps, where cells are many, the continuous limit solves to a sine (`sine_scores`): the width of
a window at x is in proportion to sqrt(R^2 - x^2).

Belongs here: the design for an eps, its exact variances.  Does not belong here: releases (``finite_output``).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.numerics.validation import positive, single
from estimators.private.exact_noise import BITS, exponential_floor

__all__ = ["LARGEST_EPS", "SMALLEST_EPS", "Design", "descent", "design", "two_point"]

SMALLEST_EPS, LARGEST_EPS = 1e-9, 20.0
WIDTH = 12  # cells of a window; the variance is about 1 + 1 / (2 WIDTH^2) times that of the limit
SINE_EPS = 7.0  # from here on the values are a sine's, whose variance is at most 0.3 % above the best at this width
TOTAL = 1 << 62  # to which all weights add up at most, so that draws fit into 64 bits
UNITS = 1 << 14  # of the largest score
STEPS, GAP = 2000, 5e-4  # of the convex program


class Design(NamedTuple):
    """A window mechanism on [-1, 1]: integers that define it.

    eps : float it is private for; width : cells of a window; inside, outside : weights of a likely cell and of another one;
    scores : tuple of increasing ints, odd about the middle, that the values are in proportion to.
    """

    eps: float
    width: int
    inside: int
    outside: int
    scores: tuple[int, ...]

    @property
    def total(self) -> int:
        """All weights of the cells together, at any input."""
        return len(self.scores) * self.outside + self.width * (self.inside - self.outside)

    def sums(self, power: int = 1) -> list[int]:
        """Sums of powers of the scores over each window; in proportion to the inputs at which windows stand (power 1)."""
        terms = [score**power for score in self.scores]
        found = [sum(terms[: self.width])]
        for lost, gained in zip(terms, terms[self.width :], strict=False):
            found.append(found[-1] + gained - lost)
        return found

    def values(self) -> Floats:
        """Outputs: scores times total / ((inside - outside) * the last window's sum)."""
        unit = Fraction(self.total, (self.inside - self.outside) * self.sums()[-1])
        return np.array([float(score * unit) for score in self.scores])

    def knots(self) -> Floats:
        """Inputs at which windows stand, from -1 to 1; between two of them an input is one or the other at random."""
        sums = self.sums()
        return np.array([float(Fraction(s, sums[-1])) for s in sums])

    def worst_variance(self) -> Fraction:
        """Largest variance of a report over all inputs in [-1, 1]; exact.

        Between knots the second moment is a line, so that the variance there is a parabola with its top at half the slope.
        """
        ratio = Fraction(self.total, self.inside - self.outside)
        base = ratio * Fraction(self.outside, self.inside - self.outside) * sum(score**2 for score in self.scores)
        sums, squares = self.sums(), self.sums(2)
        worst = max(ratio * q - s**2 for s, q in zip(sums, squares, strict=True))
        for (low, q), (high, after) in pairwise(zip(sums, squares, strict=True)):
            slope = ratio * Fraction(after - q, high - low)
            if 2 * low < slope < 2 * high:
                worst = max(worst, ratio * q - slope * low + slope**2 / 4)
        return (base + worst) / sums[-1] ** 2


def weights(eps: float, outputs: int, width: int) -> tuple[int, int]:
    """Return weights (inside, outside) with inside / outside just at most e^eps and a total of at most 2^62; certain."""
    factor = exponential_floor(eps)
    outside = (TOTAL << BITS) // (((outputs - width) << BITS) + width * factor)
    return (outside * factor) >> BITS, outside


def finished(eps: float, width: int, scores: Floats) -> Design:
    """Return the design with scores rounded to integers, odd and increasing, so that a value says which cell it is."""
    upper = np.rint(scores[-(len(scores) // 2) :] / scores[-1] * UNITS).astype(int).tolist()
    upper = list(accumulate(upper, lambda before, score: max(before + 1, score), initial=0))[1:]
    whole = [-score for score in reversed(upper)] + [0] * (len(scores) % 2) + upper
    return Design(eps, width, *weights(eps, len(whole), width), tuple(whole))


def two_point(eps: float) -> Design:
    """Return the design of two outputs, -B and B with B = (e^eps + 1)/(e^eps - 1): randomised response of a rounded bit.

    Of variance B^2 - x^2 (Duchi, Jordan and Wainwright 2018).

    >>> round(float(two_point(1.0).worst_variance()), 6)  # ((e + 1)/(e - 1))^2
    4.682694
    """
    eps = single(positive, "eps", eps)
    return Design(eps, 1, *weights(eps, 2, 1), (-1, 1))


@lru_cache(maxsize=4096)
def design(eps: float) -> Design:
    """Return the design for an eps in ``SMALLEST_EPS``..``LARGEST_EPS``.

    Its number of outputs is no worse than a neighbour's; for large eps one further off is a little better, of those within a
    tenth by .02 % at eps 10 and .11 % at eps 14.

    >>> best = design(4.0)
    >>> len(best.scores), best.width, round(float(best.worst_variance()), 4)
    (46, 12, 0.1276)
    """
    if not SMALLEST_EPS <= eps <= LARGEST_EPS:
        raise ValueError(f"eps must lie in {SMALLEST_EPS:g}..{LARGEST_EPS:g}, got {eps:g}")
    solve = sine_scores if eps >= SINE_EPS else convex_scores
    outputs = descent(lambda n: solve(eps, n)[0], round(WIDTH * (1 + 0.75 * np.exp(eps / 3))), 2 * WIDTH)
    return finished(eps, WIDTH, solve(eps, outputs)[1])


def descent(cost: Callable[[int], float], start: int, least: int, most: int = 1 << 62) -> int:
    """Return a whole number in least..most at which the cost is not above its neighbours', by steps that halve."""
    here, step, known = min(max(start, least), most), max(start // 16, 1), {}

    def of(n: int) -> float:
        if n not in known:
            known[n] = cost(n)
        return known[n]

    while step:
        best = min((here, min(here + step, most), max(here - step, least)), key=of)
        here, step = best, step if best != here else step // 2
    return here


def worst_of(scores: Floats, eps: float) -> float:
    """Worst variance of a design with these scores, as ``Design.worst_variance`` has it, in floats."""
    odds, total = np.expm1(eps), len(scores) + WIDTH * np.expm1(eps)
    sums, squares = (np.concatenate(([0.0], np.cumsum(scores**power))) for power in (1, 2))
    x, q = (odds / total * (s[WIDTH:] - s[:-WIDTH]) for s in (sums, squares))
    slope = np.diff(q) / np.diff(x)
    tops = np.clip(slope / 2, x[:-1], x[1:])
    between = q[:-1] + slope * (tops - x[:-1]) - tops**2
    return float((squares[-1] / total + max(between.max(), (q - x**2).max())) / x[-1] ** 2)


def sine_scores(eps: float, outputs: int) -> tuple[float, Floats]:
    """Worst variance and scores sin(kappa t), t from -1 to 1, with the best kappa among multiples of 1/64.

    The continuous limit: at x a window reaches h(x) to both sides, and another output is drawn with probability tau, so
    that the variance is h^2 / 3 + tau (x^2 + c).  It is the same everywhere if h is in proportion to sqrt(R^2 - x^2); and
    h is in proportion to dx/dt.
    """
    t = (2.0 * np.arange(outputs) + 1 - outputs) / outputs
    found = ((worst_of(scores, eps), scores) for scores in (np.sin(k / 64 * t) for k in range(56, 101)))
    return min(found, key=lambda pair: pair[0])


@lru_cache(maxsize=8)
def convex_scores(eps: float, outputs: int) -> tuple[float, Floats]:
    """Worst variance and scores that minimise the largest variance over all knots and the middles between them.

    For weights w_i on these inputs the sum of w_i var_i is a quadratic form Q of the scores, least at Q^-1 c / (c' Q^-1 c)
    among those whose last mean c'z is one, with the value 1 / (c' Q^-1 c): a lower bound on the worst variance, which
    rises as each weight is multiplied by its variance over that mean.
    """
    laws = np.ones((outputs - WIDTH + 1, outputs))
    for start, law in enumerate(laws):
        law[start : start + WIDTH] = np.exp(eps)
    laws /= laws[0].sum()
    upper = laws[(len(laws) - 1) // 2 :]
    inputs = np.vstack([upper, (upper[1:] + upper[:-1]) / 2])
    half = outputs // 2
    right, left = inputs[:, outputs - half :], inputs[:, :half][:, ::-1]
    means, squares = right - left, right + left  # of odd scores, given by their upper half z
    last, weight = means[len(upper) - 1], np.full(len(inputs), 1 / len(inputs))
    best, found, bound = np.inf, last, 0.0
    for _ in range(STEPS):
        form = np.diag(weight @ squares) - (means.T * weight) @ means
        solution = np.linalg.solve(form, last)
        value = 1 / (last @ solution)
        variances = squares @ (value * solution) ** 2 - (means @ (value * solution)) ** 2
        bound = max(bound, value)
        if variances.max() < best:
            best, found = variances.max(), solution
        if best <= (1 + GAP) * bound:
            break
        weight = weight * variances / (weight @ variances)
    upper_scores = np.maximum.accumulate(np.maximum(found, 0.0))
    scores = np.concatenate([-upper_scores[::-1], np.zeros(outputs % 2), upper_scores])
    return worst_of(scores, eps), scores
