"""Exact posteriors of rates: what a report says of its client's rate, and Beta priors of unknown mean and spread.

A report is a number of ones k of n trials behind noise: the likelihood of a rate p is the sum over all k of P(report | k)
times the binomial P(k | p).  Rates are Beta; the prior's mean is uniform on (0, 1), and so is the spread
(alpha + beta + 1)^(-1/2), the standard deviation as a share of the largest one for that mean.

Belongs here: that likelihood and that prior, in the angle 2 arcsin(sqrt(p)), in which a share of n ones has a standard error
of about n^(-1/2) wherever it is.  Does not belong here: integrals over them (``posterior``), P(report | k) (``rate_laws``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.limits import quiet
from estimators.private.rate_laws import laplace_rate, log_likelihood, trials_of
from estimators.private.reports import RateReport

__all__ = ["Betas", "RateClients"]

BAND = 30.0  # in log probability, below the largest, where numbers of ones are left out
MANY = 16  # clients of one n whose likelihoods are worth a table of their own
KINK = 12.0  # lengths in the scale of Laplace noise


class Betas:
    """Beta priors in the angle, see ``posterior.Family``."""

    low, high, widest, depth = 0.0, np.pi, 1.0, 16.0

    @staticmethod
    def shapes(centre: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return alpha and beta."""
        size = 1 / spread**2 - 1
        return size * np.sin(centre / 2) ** 2, size * np.cos(centre / 2) ** 2

    @staticmethod
    def moments(centre: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the variance of the rates."""
        mean = np.sin(centre / 2) ** 2
        return mean, mean * np.cos(centre / 2) ** 2 * spread**2

    def log_density(self, below: Floats, above: Floats, centre: Floats, spread: Floats) -> Floats:
        """Return the log density of the angle."""
        from scipy.special import betaln

        alpha, beta = self.shapes(centre, spread)
        ones, zeros = np.log(np.sin(below / 2)), np.log(np.sin(above / 2))
        return (2 * alpha - 1) * ones + (2 * beta - 1) * zeros - betaln(alpha, beta)

    def ends(self, centre: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return 2 alpha and 2 beta."""
        alpha, beta = self.shapes(centre, spread)
        return 2 * alpha, 2 * beta

    def log_hyperprior(self, centre: Floats) -> Floats:
        """Return the log density of the angle of a uniform mean."""
        return np.log(np.sin(centre) / 2)

    def value(self, below: Floats, above: Floats) -> Floats:
        """Return the rates at places."""
        return np.where(below < above, np.sin(below / 2) ** 2, np.cos(above / 2) ** 2)

    def below(self, value: float) -> float:
        """Return the angle of a rate."""
        return float(2 * np.arcsin(np.sqrt(value)))


class RateClients:
    """What reports say of their clients' rates, see ``posterior.Clients``.

    Parameters
    ----------
    reports : list of RateReport, each one different; count : array of how many clients sent it.
    """

    def __init__(self, reports: Sequence[RateReport], count: Ints) -> None:
        m = len(reports)
        self.count = count
        self.n = np.array([trials_of(r) for r in reports], float)
        pairs = np.array([r.statistic == "pairs" for r in reports])
        share = np.array([r.value / r.trials for r in reports])
        noise = np.array([r.noise_variance for r in reports]) / np.array([r.trials for r in reports], float) ** 2
        share = np.where(pairs, np.sqrt(np.maximum(share, 0.0)), share)
        self.centre = 2 * np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0)))
        self.weights: list[Floats] = []
        self.first, self.largest = np.empty(m, int), np.empty(m)
        ends = np.empty((m, 2))
        for i, report in enumerate(reports):
            log = log_likelihood(report)
            self.largest[i] = log.max()
            kept = np.flatnonzero(log > self.largest[i] - BAND)
            self.first[i], ends[i] = kept[0], (kept[0], kept[-1])
            self.weights.append(np.exp(log[kept[0] : kept[-1] + 1] - self.largest[i]))
        binomial = 1 / np.sqrt(self.n)
        average = float(np.clip(np.average(share, weights=count / (1 / self.n + noise)), 0.02, 0.98))
        self.spread = np.sqrt(1 / self.n + noise / (average * (1 - average)))
        laplace = np.array([r.guarantee.mechanism == "discrete-laplace" and r.noise_variance > 0 for r in reports])
        scale = np.array([1 / laplace_rate(r.noise_variance) if k else 0.0 for k, r in zip(laplace, reports, strict=True)])
        normal = np.array([r.guarantee.mechanism.endswith("gaussian") for r in reports])
        self.error = np.where(normal, np.sqrt(1 / self.n + 4 * noise), binomial)
        with quiet():
            self.slope = np.where(laplace, self.n / (2 * scale), np.where(normal | (noise == 0), np.inf, 0.0))
        least = np.where(laplace, 2 * scale / self.n / KINK, np.where(normal, 2 * np.sqrt(noise), 0.0))
        self.feature = np.minimum(np.maximum(binomial, least), np.pi / 4)
        angles = 2 * np.arcsin(np.sqrt(ends / self.n[:, None]))
        self.low, self.high = angles[:, 0] - 9 * binomial, angles[:, 1] + 9 * binomial
        _, back, many = np.unique(self.n, return_inverse=True, return_counts=True)
        self.kind = np.where(many[back] >= MANY, back, -1)

    def log_likelihood(self, rows: Ints, below: Floats, above: Floats) -> Floats:
        """Return the log probability of some reports at rates, array (rows, places)."""
        from scipy.special import gammaln

        ones, zeros = 2 * np.log(np.sin(below / 2)), 2 * np.log(np.sin(above / 2))
        found = np.empty((rows.size, below.size))
        for n in np.unique(self.n[rows]):
            mine = np.flatnonzero(self.n[rows] == n)
            first = self.first[rows[mine]]
            start = int(first.min())
            stop = max(int(self.first[i]) + self.weights[i].size for i in rows[mine])
            weights = np.zeros((mine.size, stop - start))
            for j, i in enumerate(rows[mine]):
                weights[j, first[j] - start : first[j] - start + self.weights[i].size] = self.weights[i]
            k = np.arange(start, stop, dtype=float)
            ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
            log = np.multiply.outer(k, ones) + np.multiply.outer(n - k, zeros) + ways[:, None]
            largest = log.max()
            with quiet():
                found[mine] = np.log(weights @ np.exp(log - largest)) + largest
        return found + self.largest[rows][:, None]
