"""The Gaussian prior of clients that nobody holds in memory at once, from a few sums over them.

Belongs here: the likelihood as a function of tau2 given those sums, its maximum, and the posterior of a batch.  The
sums themselves are made in ``streaming``; clients in memory are fitted by ``GaussianMeans``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.units import WIDEST
from estimators.numerics.validation import choice, finite, nonnegative, paired, positive, single

__all__ = ["GaussianPrior", "Moments", "fit_prior"]

FoundBy: TypeAlias = Literal["marginal-likelihood", "reml", "moments", "fixed"]
PRIORS = get_args(FoundBy)


class Moments(NamedTuple):
    """Sums over clients at one tau2, with precision p = 1 / (tau2 + variance) and residual r = estimate - mu."""

    mu: float  # from the origin of the source
    precision: float  # sum of p
    precision2: float  # sum of p^2
    squares: float  # sum of p r^2
    squares2: float  # sum of p^2 r^2
    log_variance: float  # sum of -log p


class Source(Protocol):
    """Clients that ``fit_prior`` learns from, in memory or not: see there."""

    n: int
    smallest: float
    largest: float
    low: float
    high: float

    def centre(self, mu: float | None) -> float:
        """Set the origin (None: the mean of all clients) and return it."""
        ...

    def moments(self, tau2s: Sequence[float]) -> list[Moments]:
        """Return the `Moments` at each of `tau2s`."""
        ...


@dataclass(frozen=True)
class GaussianPrior:
    """The prior N(mu, tau2) learnt from a stream of clients, which improves any batch of them.

    Attributes are those of ``GaussianMeans``, without those of single clients.  `mu_sd` is the standard error of
    `mu` (0 if it was given); `n_clients` says from how many it was learnt.

    >>> prior = GaussianPrior(mu=1.0, mu_sd=0.0, tau2=1.0, log_likelihood=-3.0, converged=True, n_iter=1, n_clients=2)
    >>> [x.tolist() for x in prior.posterior([3.0], [1.0])]
    [[2.0], [0.7071067811865476]]
    """

    mu: float
    mu_sd: float
    tau2: float
    log_likelihood: float
    converged: bool
    n_iter: int
    n_clients: int

    @paired
    def posterior(self, estimates: ArrayLike, variances: ArrayLike) -> tuple[Floats, Floats]:
        """Return posterior means and standard deviations of a batch of clients.

        The standard deviations include the uncertainty of mu, under a flat prior on it, but not that of tau2.

        Parameters
        ----------
        estimates : array (m,); variances : array (m,) or number > 0.
        """
        y, v = batch(estimates, variances)
        precision = 1 / (self.tau2 + v)
        pulled = v * precision
        mean = self.mu + self.tau2 * precision * (y - self.mu)
        return mean, np.sqrt(self.tau2 * pulled + (pulled * self.mu_sd) ** 2)

    def posteriors(self, batches: Iterable[tuple[ArrayLike, ArrayLike]]) -> Iterator[tuple[Floats, Floats]]:
        """Yield `posterior` of each (estimates, variances) in `batches`, an iterable that is read as it goes."""
        for estimates, variances in batches:
            yield self.posterior(estimates, variances)


def batch(estimates: ArrayLike, variances: ArrayLike) -> tuple[Floats, Floats]:
    """Return both as checked float arrays of one shape (m,)."""
    y = finite("estimates", estimates)
    if y.ndim != 1:
        raise ValueError(f"estimates must be 1-d, one per client, got shape {y.shape}")
    v = positive("variances", variances)
    if v.shape not in ((), y.shape):
        raise ValueError(f"variances must be one number or match estimates {y.shape}, got shape {v.shape}")
    return y, np.broadcast_to(v, y.shape)


def fit_prior(
    source: Source,
    prior: FoundBy = "marginal-likelihood",
    mu: float | None = None,
    tau2: float | None = None,
) -> GaussianPrior:
    """Return the `GaussianPrior` of the clients in `source`.

    Parameters
    ----------
    source : with attributes ``n`` (clients), ``smallest`` and ``largest`` (variance), ``low`` and ``high``
        (estimate), and methods ``centre(mu)``, which sets the origin (None: the mean) and returns it, and
        ``moments(tau2s)``, which returns `Moments` at each tau2, with mu the best one, or the origin if it was given.
    prior, mu, tau2 : as in ``GaussianMeans``, except for "bayes", which matters where clients are few.
    """
    choice("prior", prior, PRIORS)
    if (prior == "fixed") != (tau2 is not None):
        raise ValueError("tau2 must be given for prior='fixed' and left out otherwise, where it is estimated")
    if source.n < (1 if prior == "fixed" else 2):
        raise ValueError(f"the tally holds {source.n} clients; add at least two to learn from")
    known = mu is not None
    origin = source.centre(single(finite, "mu", mu) if known else None)
    spread = max(abs(source.high - origin), abs(source.low - origin)) if known else source.high - source.low
    small = max(spread, 1.0) / min(source.smallest, 1.0) < 1e150
    if not (small and spread < WIDEST and source.largest < WIDEST**2):  # squares of precisions are numbers too
        raise ValueError("estimates or variances are so far from 1 that their squares overflow; change their units")
    search = Search(source, prior, known, spread)
    if prior == "fixed":
        best, converged = single(nonnegative, "tau2", tau2), True
    else:
        best, converged = search.best()
    at = search.at(best)
    log_likelihood = -0.5 * (source.n * np.log(2 * np.pi) + at.log_variance + at.squares)
    mu_sd = 0.0 if known else float(at.precision**-0.5)
    return GaussianPrior(origin + at.mu, mu_sd, best, float(log_likelihood), bool(converged), search.passes, source.n)


class Search:
    """The best tau2: the highest of the local maxima of the likelihood, or the root of the moment condition."""

    def __init__(self, source: Source, prior: str, known: bool, spread: float) -> None:
        self.source, self.prior, self.known, self.spread = source, prior, known, spread
        self.seen, self.passes = {}, 0

    def look(self, tau2s: Sequence[float]) -> None:
        """Compute the moments at all `tau2s` at once: a pass over all clients may stand behind it."""
        self.passes += 1
        self.seen.update(zip(tau2s, self.source.moments(tau2s), strict=True))

    def at(self, tau2: float) -> Moments:
        """Return the moments at `tau2`."""
        if tau2 not in self.seen:
            self.look([tau2])
        return self.seen[tau2]

    def score(self, tau2: float) -> float:
        """Return what falls through 0 at the estimate: twice a derivative, or the moment condition."""
        at = self.at(tau2)
        if self.prior == "moments":
            return at.squares - (self.source.n - (not self.known))
        restricted = self.prior == "reml" and not self.known
        return at.squares2 - at.precision + (at.precision2 / at.precision if restricted else 0.0)

    def objective(self, tau2: float) -> float:
        """Return the log likelihood that `score` differentiates, up to a constant."""
        at = self.at(tau2)
        restricted = self.prior == "reml" and not self.known
        return -0.5 * (at.log_variance + at.squares + (np.log(at.precision) if restricted else 0.0))

    def best(self) -> tuple[float, bool]:
        """Return the best tau2 >= 0 and whether the search converged.

        Far beyond the squared residuals and the variances the score is negative.  Below, it is bracketed on a
        geometric grid: its terms change over more than a decade of tau2, so steps of a factor 4 part the maxima.
        """
        from scipy.optimize import brentq

        source = self.source
        if source.smallest == source.largest:  # one variance: a closed form
            freedom = source.n - (self.prior != "marginal-likelihood" and not self.known)
            at = self.at(0.0)
            return max(0.0, at.squares * source.smallest / freedom - source.smallest), True
        edge = 64 * max(self.spread**2, source.largest)
        grid = [0.0, source.smallest / 4]
        while grid[-1] < edge:
            grid.append(4 * grid[-1])
        self.look(grid)
        candidates, converged = ([0.0] if self.score(0.0) <= 0 else []), True
        for low, high in pairwise(grid):
            if self.score(low) > 0 >= self.score(high):
                root, details = brentq(
                    self.score, low, high, xtol=1e-300, rtol=np.float64(1e-13), maxiter=500, full_output=True, disp=False
                )
                candidates.append(float(root))
                converged = converged and details.converged
        return max(candidates, key=self.objective), converged
