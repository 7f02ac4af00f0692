"""The Gaussian prior of clients with any variances, by repeated passes over batches that are never held together.

Belongs here: the passes.  Clients whose variances repeat need one pass only, through ``streaming.GaussianTally``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from estimators.normal_means.streaming_prior import FoundBy, Moments, batch, fit_prior
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.exact import UNIT, exact_sum, rounded, whole

if TYPE_CHECKING:
    from estimators.normal_means.streaming_prior import GaussianPrior


__all__ = ["fit_passes"]


def fit_passes(
    batches: Callable[[], Iterable[tuple[ArrayLike, ArrayLike]]],
    prior: FoundBy = "marginal-likelihood",
    mu: float | None = None,
    tau2: float | None = None,
) -> GaussianPrior:
    """Return the ``GaussianPrior`` of the clients in `batches`, in constant memory.

    Every pass adds each client's terms exactly, so the result is the same bits for any batches in any order.  A fit
    takes one pass to look at the data, one for a grid of tau2, and about ten to refine; ``n_iter`` counts the last two.

    Parameters
    ----------
    batches : function without arguments that returns a new iterator over (estimates, variances), the same clients
        each time; for instance ``lambda: read_my_file(chunk=10**6)``.
    prior, mu, tau2 : as in ``GaussianMeans``.

    Raises
    ------
    ValueError
        If an argument is out of its domain, or a pass brings other clients than the first.

    >>> data = [([1.0, 2.0], [1.0, 0.5]), ([3.0, 6.0], [0.7, 1.2])]
    >>> prior = fit_passes(lambda: iter(data), prior="fixed", tau2=1.0)
    >>> round(prior.mu, 6), prior.n_clients
    (2.862848, 4)
    """
    if not callable(batches):
        raise ValueError("batches must be a function that returns a new iterator for each pass, not an iterator")
    return fit_prior(PassedClients(batches), prior, mu, tau2)


class PassedClients:
    """A source for ``fit_prior``: clients that come by in batches, once for every pass."""

    def __init__(self, batches: Callable[[], Iterable[tuple[ArrayLike, ArrayLike]]]) -> None:
        self.batches = batches
        self.n, self.sum = 0, 0
        self.low = self.smallest = math.inf
        self.high = self.largest = -math.inf
        for y, v in self.checked():
            self.n, self.sum = self.n + y.size, self.sum + exact_sum(y)
            self.low, self.high = min(self.low, float(y.min())), max(self.high, float(y.max()))
            self.smallest, self.largest = min(self.smallest, float(v.min())), max(self.largest, float(v.max()))

    def checked(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield the batches of one pass, checked, in slices that the kernel can add."""
        from estimators.numerics.exact_kernels import MOST

        for estimates, variances in self.batches():
            y, v = batch(estimates, variances)
            for start in range(0, y.size, MOST):
                yield y[start : start + MOST], v[start : start + MOST]

    def centre(self, mu: float | None) -> float:
        """Measure estimates from `mu`, or from the mean of all clients if it is None, and return it."""
        self.known = mu is not None
        self.origin = mu if mu is not None else rounded(self.sum, self.n * UNIT)
        return self.origin

    def moments(self, tau2s: Sequence[float]) -> list[Moments]:
        """Return the `Moments` at each of `tau2s`, by one pass."""
        from estimators.numerics import exact_kernels as kernels

        totals, n, clients = [0] * (len(tau2s) * kernels.TERMS), 0, 0
        for y, v in self.checked():
            limbs = np.zeros((len(tau2s), kernels.TERMS, kernels.LIMBS), np.int64)
            with np.errstate(over="ignore"):
                kernels.add_moments(y - self.origin, np.ascontiguousarray(v), np.array(tau2s), limbs)
            totals = [a + b for a, b in zip(totals, whole(limbs.reshape(-1, kernels.LIMBS)), strict=True)]
            n, clients = n + y.size, clients + exact_sum(y)
        if (n, clients) != (self.n, self.sum):
            raise ValueError(f"batches returned other clients than in the first pass ({n}, there {self.n})")
        terms = iter([rounded(value) for value in totals])
        return [self.combine(*(next(terms) for _ in range(kernels.TERMS))) for _ in tau2s]

    def combine(self, p: float, p2: float, py: float, p2y: float, pyy: float, p2yy: float, log_variance: float) -> Moments:
        """Return the `Moments` about the best mu."""
        mu = 0.0 if self.known else py / p
        squares, squares2 = pyy - mu * (2 * py - mu * p), p2yy - mu * (2 * p2y - mu * p2)
        return Moments(mu, p, p2, max(squares, 0.0), max(squares2, 0.0), log_variance)
