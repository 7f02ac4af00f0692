"""The law of a client's rate given its noisy report: exact, because the noise of every mechanism is known.

A report is a number of ones k of n trials, Binomial(n, p), behind noise.  With a Beta(alpha, beta) prior the posterior of p
is the mixture over k of Beta(alpha + k, beta + n - k) with weights in proportion to P(k) P(report | k), P(k) the
beta-binomial law of the prior: it stays inside (0, 1) wherever the noise moves the report.

Belongs here: P(report | k) of each mechanism, draws from it, and mixtures of Beta laws.  The prior and the fit are in
``rates``; the noise is made in ``noise``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.limits import quiet
from estimators.numerics.validation import finite, probability, single
from estimators.private.exact_noise import discrete_gaussian
from estimators.private.finite_output import FiniteOutput
from estimators.private.staircase import Staircase

if TYPE_CHECKING:
    from estimators.private.reports import RateReport


__all__ = ["BetaMixtures", "check", "log_likelihood", "noisy_value", "rate_posteriors"]

NEGLIGIBLE = 40.0  # in log weight, below the largest
PARTS = 512  # of a mixture; neighbouring counts beyond that are merged, which moves the law by less than 1 / PARTS
EXACT_ANSWERS = 512  # trials up to which the law of randomised answers is summed; beyond, it is taken as normal
MOST_TRIALS = 10_000_000  # a report may say any number, and memory goes with it
BLOCK = 1 << 22  # entries that are kept for later clients
STEPS = 200  # of the search for quantiles, which takes about ten


def trials_of(report: RateReport) -> int:
    """Number of trials whose ones the report is about: for "pairs" two, as both of two are ones with probability p^2."""
    return 2 if report.statistic == "pairs" else int(report.trials)


def check(report: RateReport) -> None:
    """Raise ValueError for more than `MOST_TRIALS`, and for a report without noise whose value is no number of ones."""
    if report.trials > MOST_TRIALS:
        raise ValueError(f"trials must be at most {MOST_TRIALS}, over which the posterior is summed, got {report.trials}")
    if report.noise_variance == 0 and not (0 <= report.value <= report.trials and report.value == round(report.value)):
        raise ValueError(
            f"value must be a whole number in 0..{report.trials} in a report without noise, got {report.value:g}"
        )


def wrong_probability(trials: int, noise_variance: float) -> float:
    """Probability w of a wrong answer, from the noise variance trials w (1 - w) / (1 - 2 w)^2."""
    return (1 - 1 / np.sqrt(1 + 4 * noise_variance / trials)) / 2


def log_likelihood(report: RateReport) -> Floats:
    """Return log P(report | k ones), up to a constant, for k = 0..trials.

    Discrete Laplace, staircase, discrete and continuous Gaussian noise; finite outputs, randomised answers ("answers",
    "two-point"); other mechanisms are taken as normal.  A report without noise tells k.

    >>> from estimators.private import RateClient
    >>> report = RateClient(eps=1.0).report([1, 0], np.random.default_rng(3))
    >>> report.value, (log_likelihood(report) - log_likelihood(report).max()).round(6).tolist()
    (1.0, [-1.0, 0.0, -1.0])
    """
    n, variance = trials_of(report), report.noise_variance
    k = np.arange(n + 1)
    if report.statistic == "pairs":
        k, counted = (k == 2).astype(int), 1
    else:
        counted = n
    away = np.asarray(report.value - k, float)
    if variance == 0:
        with quiet():
            return np.log((away == 0).astype(float))
    mechanism = report.guarantee.mechanism
    if mechanism == "discrete-laplace":
        return -np.abs(away) * laplace_rate(variance)
    if mechanism == "staircase":
        return staircase(report.guarantee.adjacency, n, report.guarantee.eps).log_likelihood(report.value, k)
    if mechanism == "finite-output":
        return finite_output(report.guarantee.eps).log_likelihood(report.value / n, k / n)
    if mechanism in ("answers", "two-point") and counted <= EXACT_ANSWERS:
        wrong = wrong_probability(counted, variance)
        said = int(np.clip(np.rint(report.value * (1 - 2 * wrong) + counted * wrong), 0, counted))
        with quiet():
            return np.log(answer_law(counted, float(wrong))[said])[k]
    return -(away**2) / (2 * variance)  # the variance of discrete Gaussian noise is its sigma2 to seven digits


def laplace_rate(variance: float) -> float:
    """Fall of the log probability per step of discrete Laplace noise of that variance; inverse of its formula."""
    return 2 * np.arcsinh(1 / np.sqrt(2 * variance))


@lru_cache(maxsize=64)
def finite_output(eps: float) -> FiniteOutput:
    """Return the mechanism of clients who report a rate."""
    return FiniteOutput(bounds=(0.0, 1.0), eps=eps)


@lru_cache(maxsize=64)
def staircase(adjacency: str, trials: int, eps: float) -> Staircase:
    """Return the noise on a number of ones, of which one row may change one, or a client all."""
    return Staircase(sensitivity=1 if adjacency == "row" else trials, eps=eps)


@lru_cache(maxsize=64)
def answer_law(n: int, wrong: float) -> Floats:
    """Return P(s answers of one | k true ones) of n randomised answers as an array (s, k)."""
    from scipy.stats import binom

    right = binom.pmf(np.arange(n + 1), np.arange(n + 1)[:, None], 1 - wrong)
    mistaken = binom.pmf(np.arange(n + 1), np.arange(n + 1)[:, None], wrong)
    return np.array([np.convolve(right[k, : k + 1], mistaken[n - k, : n - k + 1]) for k in range(n + 1)]).T


def noisy_value(report: RateReport, rate: float, generator: np.random.Generator) -> float:
    """Return the value of a new report of the same design by a client of that rate."""
    hits, variance = int(generator.binomial(trials_of(report), rate)), report.noise_variance
    counted = 1 if report.statistic == "pairs" else report.trials
    hits = hits // 2 if report.statistic == "pairs" else hits
    mechanism = report.guarantee.mechanism
    if variance == 0:
        return float(hits)
    if mechanism == "discrete-laplace":
        stop = -np.expm1(-laplace_rate(variance))
        return float(hits + generator.geometric(stop) - generator.geometric(stop))
    if mechanism == "discrete-gaussian":
        return float(hits + discrete_gaussian(round(variance), generator))
    if mechanism == "staircase":
        return float(
            hits + staircase(report.guarantee.adjacency, report.trials, report.guarantee.eps).noise(1, generator)[0]
        )
    if mechanism == "finite-output":
        return report.trials * float(finite_output(report.guarantee.eps).release(hits / report.trials, generator))
    if mechanism in ("answers", "two-point"):
        wrong = wrong_probability(counted, variance)
        said = generator.binomial(hits, 1 - wrong) + generator.binomial(counted - hits, wrong)
        return float((said - counted * wrong) / (1 - 2 * wrong))
    return float(hits + np.sqrt(variance) * generator.standard_normal())


def rate_posteriors(reports: Sequence[RateReport], alpha: float, beta: float) -> tuple[BetaMixtures, float]:
    """Return the posteriors of the clients' rates, and the log probability of all reports, for a Beta(alpha, beta) prior.

    Parameters
    ----------
    reports : list of RateReport; alpha, beta : numbers > 0.

    Returns
    -------
    BetaMixtures, float
        Equal reports are computed once.  The work grows with the different reports times their trials.
    """
    from scipy.special import betaln, gammaln

    designs, inverse = {}, []
    for r in reports:
        key = (r.statistic, r.trials, r.guarantee.mechanism, r.noise_variance, r.value)
        inverse.append(designs.setdefault(key, (len(designs), r))[0])
    parts, total, known = [], np.empty(len(designs)), {}
    for position, report in designs.values():
        n = trials_of(report)
        if n not in known:
            if sum(map(len, known.values())) > BLOCK:
                known.clear()
            k = np.arange(n + 1.0)
            ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
            known[n] = ways + betaln(alpha + k, beta + n - k) - betaln(alpha, beta)
        log_weight = known[n] + log_likelihood(report)
        largest = log_weight.max()
        weight = np.exp(log_weight - largest)
        total[position] = largest + np.log(weight.sum())
        kept = np.flatnonzero(weight > np.exp(-NEGLIGIBLE))
        parts.append((*merged(kept.astype(float), weight[kept] / weight.sum()), n))
    sizes = [len(k) for k, _, _ in parts]
    k, weights, n = (
        np.concatenate([p[0] for p in parts]),
        np.concatenate([p[1] for p in parts]),
        np.repeat([p[2] for p in parts], sizes),
    )
    inverse = np.array(inverse)
    return BetaMixtures(weights, alpha + k, beta + n - k, sizes, inverse), float(total[inverse].sum())


def merged(k: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return counts and their weights, neighbours merged until there are at most `PARTS`."""
    if len(k) <= PARTS:
        return k, weight / weight.sum()
    starts = np.arange(0, len(k), -(-len(k) // PARTS))
    together = np.add.reduceat(weight, starts)
    return np.add.reduceat(weight * k, starts) / together, together / together.sum()


class BetaMixtures:
    """One mixture of Beta laws per client; clients with the same report share theirs.

    Parameters
    ----------
    weights, a, b : arrays of the parts of all different mixtures in a row; sizes : number of parts of each mixture.
    inverse : array (clients,), which mixture is whose.

    >>> law = BetaMixtures(np.array([0.5, 0.5]), np.array([1.0, 2.0]), np.array([2.0, 1.0]), [2], np.array([0]))
    >>> law.mean().tolist(), law.cdf(0.25).tolist(), law.quantile(0.5).round(9).tolist()
    ([0.5], [0.25], [0.5])
    """

    def __init__(self, weights: Floats, a: Floats, b: Floats, sizes: Sequence[int], inverse: Ints) -> None:
        self.weights, self.a, self.b, self.sizes, self.inverse = weights, a, b, np.asarray(sizes), inverse

    def sums(self, values: Floats, sizes: Ints) -> Floats:
        """Return the sums of the values of each mixture's parts."""
        return np.add.reduceat(values, np.cumsum(sizes) - sizes)

    def moments(self) -> tuple[Floats, Floats]:
        """Return the means and the standard deviations of the different mixtures."""
        size = self.a + self.b
        means = self.a / size
        mean = self.sums(self.weights * means, self.sizes)
        spread = means * (self.b / size) / (size + 1) + (means - np.repeat(mean, self.sizes)) ** 2
        return mean, np.sqrt(self.sums(self.weights * spread, self.sizes))

    def mean(self) -> Floats:
        """Mean of each client's law."""
        return self.moments()[0][self.inverse]

    def sd(self) -> Floats:
        """Standard deviation of each client's law."""
        return self.moments()[1][self.inverse]

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Return independent draws (size, clients)."""
        ends = np.cumsum(self.sizes)
        within = np.cumsum(self.weights)
        before = np.concatenate(([0.0], within[ends - 1]))
        low, high = before[self.inverse], before[self.inverse + 1]
        part = np.searchsorted(within, low + (high - low) * generator.random((size, self.inverse.size)), side="right")
        part = np.clip(part, (ends - self.sizes)[self.inverse], ends[self.inverse] - 1)
        return generator.beta(self.a[part], self.b[part])

    def cdf(self, t: ArrayLike) -> Floats:
        """P(rate <= t) of each client."""
        from scipy.special import betainc

        t = min(max(single(finite, "t", t), 0.0), 1.0)
        return self.sums(self.weights * betainc(self.a, self.b, t), self.sizes)[self.inverse]

    def quantile(self, q: float) -> Floats:
        """Quantile of each client's law: Newton's steps in the log odds, halving where they leave the bracket."""
        from scipy.special import betainc, betaincinv, betaln, expit, logit

        q = single(probability, "q", q)
        mean, sd = self.moments()
        size = mean * (1 - mean) / sd**2 - 1
        found = betaincinv(mean * size, (1 - mean) * size, q)
        if q in (0.0, 1.0):
            return np.full(len(self.inverse), q)
        with quiet():
            x = np.clip(logit(found), -600.0, 600.0)
        low, high = np.full(len(x), -700.0), np.full(len(x), 700.0)
        waiting = np.flatnonzero(self.sizes > 1)
        for _ in range(STEPS):
            if not waiting.size:
                break
            mine = np.repeat(np.isin(np.arange(len(x)), waiting), self.sizes)
            weights, a, b, sizes = self.weights[mine], self.a[mine], self.b[mine], self.sizes[waiting]
            here = np.repeat(x[waiting], sizes)
            p, rest = expit(here), expit(-here)
            below = self.sums(weights * betainc(a, b, p), sizes)
            slope = self.sums(weights * np.exp(a * np.log(p) + b * np.log(rest) - betaln(a, b)), sizes)
            enough = below >= q
            high[waiting[enough]], low[waiting[~enough]] = x[waiting[enough]], x[waiting[~enough]]
            with quiet():
                new = x[waiting] - (below - q) / slope
            inside = (new > low[waiting]) & (new < high[waiting])
            new = np.where(inside, new, (low[waiting] + high[waiting]) / 2)
            moved = np.abs(new - x[waiting])
            x[waiting] = new
            waiting = waiting[moved > 1e-10 * np.maximum(1.0, np.abs(new))]
        return np.where(self.sizes > 1, expit(x), found)[self.inverse]
