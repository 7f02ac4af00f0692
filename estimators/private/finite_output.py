"""One bounded number behind one of a few outputs: purely private, with the least variance at the worst input.

A client draws an output at integer weights (``window_designs``); so nobody can look at the last bits of a float, the law of
a report is known exactly whatever the truth is, and a server can refuse every number that no client sends.  m hostile ones
of n reports move a mean by at most m / n times the distance between the largest output and the other bound.

Belongs here: releases and their law.  Does not belong here: which weights and values (``window_designs``); noise that is
added to sums (``staircase``, ``noise``).
"""

from __future__ import annotations

import numpy as np

from estimators.accounting.budget import budget_numbers
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.limits import quiet
from estimators.numerics.validation import finite, paired
from estimators.private.exact_batches import uniforms
from estimators.private.exact_noise import check_generator
from estimators.private.reports import low_high
from estimators.private.window_designs import LARGEST_EPS, SMALLEST_EPS, design, two_point

__all__ = ["FiniteOutput"]

NEAR = 1e-9  # of the width of the outputs, within which a number counts as one of them


class FiniteOutput:
    """A purely eps-private, unbiased report of a number between bounds, one of finitely many.

    Each number is reported once; "private" is about replacing it by any other one between the bounds.

    Parameters
    ----------
    bounds : pair (low, high), fixed without looking at the data.
    eps : number > 0, at least 1e-9; above 20 the mechanism of eps 20 is used, whose deviation is below 0.1 % of the width.
    outputs : None for the best number of them, or 2: one random bit.

    Attributes
    ----------
    values : array (N,), the outputs, increasing; worst_variance : float, the largest variance over all inputs.
    knots : array, inputs between which the law of a report is a mixture of those at the two neighbours.

    >>> mechanism = FiniteOutput(bounds=(0.0, 10.0), eps=4.0)
    >>> len(mechanism.values), round(mechanism.worst_variance, 2), mechanism.values[[0, -1]].round(1).tolist()
    (46, 3.19, [-1.3, 11.3])
    >>> mechanism.release([2.0, 9.0, 9.0], np.random.default_rng(0)).round(2).tolist()
    [0.27, 10.14, 10.45]
    """

    def __init__(self, *, bounds: tuple[float, float], eps: float, outputs: int | None = None) -> None:
        self.bounds = low, high = low_high("bounds", bounds)
        self.eps = budget_numbers(eps, 0.0)[0]
        if self.eps < SMALLEST_EPS:
            raise ValueError(f"eps must be at least {SMALLEST_EPS:g} for a finite output, got {eps:g}")
        if outputs not in (None, 2):
            raise ValueError(f"outputs must be 2, or None for the best number, got {outputs!r}")
        make = design if outputs is None else two_point
        self.design = make(min(self.eps, LARGEST_EPS))
        half = (high - low) / 2
        self.values = low + half + half * self.design.values()
        self.knots = low + half + half * self.design.knots()
        self.knots[[0, -1]] = low, high
        self.worst_variance = half**2 * float(self.design.worst_variance())

    def place(self, truth: ArrayLike) -> tuple[Ints, Floats]:
        """Return the knot below each number, and how far to the next one it is, from 0 to 1."""
        truth = finite("truth", truth)
        if ((truth < self.bounds[0]) | (truth > self.bounds[1])).any():
            raise ValueError("truth must lie within the bounds; clip it first")
        start = np.clip(np.searchsorted(self.knots, truth, side="right") - 1, 0, len(self.knots) - 2)
        return start, (truth - self.knots[start]) / (self.knots[start + 1] - self.knots[start])

    @paired
    def release(self, truth: ArrayLike, generator: np.random.Generator | None = None) -> Floats:
        """Return private reports, one for each number.

        Parameters
        ----------
        truth : array of any shape of numbers within the bounds.
        generator : numpy.random.Generator for simulations, or None for fresh entropy of the operating system.

        Returns
        -------
        array of the shape of `truth`, each entry one of `values`; its mean given the truth is the truth.
        """
        check_generator(generator)
        start, part = self.place(truth)
        rounding = np.random.default_rng() if generator is None else generator  # costs no privacy, see `window_designs`
        start = start + (rounding.random(start.shape) < part)
        # A draw below the total, which fits into 62 bits: the first N * outside of it choose among all cells, the others,
        # inside - outside for each cell of the window, among those.
        d = self.design
        draw = uniforms(d.total, start.size, generator).reshape(start.shape)
        all_cells = len(d.scores) * d.outside
        more = (draw - all_cells) // (d.inside - d.outside)
        return self.values[np.where(draw < all_cells, draw // d.outside, start + more)]

    @paired
    def position(self, values: ArrayLike) -> Ints:
        """Return which output each number is, from 0.

        Raises
        ------
        ValueError
            For a number that is none of the outputs: no client with these bounds and eps sends it.
        """
        values = finite("values", values)
        right = np.clip(np.searchsorted(self.values, values), 1, len(self.values) - 1)
        nearest = right - (values - self.values[right - 1] < self.values[right] - values)
        wrong = np.abs(values - self.values[nearest]) > NEAR * (self.values[-1] - self.values[0])
        if wrong.any():
            raise ValueError(
                f"values must be among the {len(self.values)} outputs for these bounds and eps={self.eps:g}; "
                f"{int(wrong.sum())} of {wrong.size} are not"
            )
        return nearest

    @paired
    def log_likelihood(self, values: ArrayLike, truth: ArrayLike) -> Floats:
        """Return log P(report = value | truth); exact.

        Parameters
        ----------
        values : array of outputs; truth : array of numbers within the bounds; broadcast together.

        >>> coin = FiniteOutput(bounds=(0.0, 1.0), eps=1.0, outputs=2)
        >>> np.exp(coin.log_likelihood(coin.values[:, None], [0.0, 0.5])).round(6).tolist()
        [[0.731059, 0.5], [0.268941, 0.5]]
        """
        output, (start, part) = self.position(values), self.place(truth)
        d = self.design
        since = output - start
        likely = np.where((since >= 0) & (since < d.width), 1 - part, 0.0) + np.where(
            (since >= 1) & (since <= d.width), part, 0.0
        )
        return np.log(d.outside / d.total + (d.inside - d.outside) / d.total * likely)

    @paired
    def variance(self, truth: ArrayLike) -> Floats:
        """Variance of a report given the truth; exact up to rounding."""
        start, part = self.place(truth)
        d, window = self.design, np.arange(self.design.width)
        z = self.values - (self.bounds[0] + self.bounds[1]) / 2
        more = np.array([np.sum(z[i + window] ** 2) for i in range(len(self.knots))])
        second = (d.outside * np.sum(z**2) + (d.inside - d.outside) * more) / d.total
        with quiet():
            centred = finite("truth", truth) - (self.bounds[0] + self.bounds[1]) / 2
            return (1 - part) * second[start] + part * second[start + 1] - centred**2
