"""Exact posteriors of rates: what a report says of its client's rate, for unknown Beta priors and for a given one.

A report is a number of ones k of n trials behind noise: the likelihood of a rate p is the sum over all k of P(report | k)
times the binomial P(k | p).  Rates are Beta.  Of an unknown prior the mean is uniform on (0, 1), and so is the spread
(alpha + beta + 1)^(-1/2), the standard deviation as a share of the largest one for that mean; places are angles
2 arcsin(sqrt(p)), in which a share of n ones has a standard error of about n^(-1/2) wherever it is.  Given a prior the
posterior is the mixture over k of Beta(alpha + k, beta + n - k) with weights in proportion to P(k) P(report | k), P(k) the
beta-binomial law of the prior: it stays inside (0, 1) wherever the noise moves the report.

Belongs here: that likelihood, that prior, and mixtures of Beta laws.  Does not belong here: integrals over places
(``posterior``), P(report | k) (``noise_laws``), the fit (``rates``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.limits import quiet
from estimators.numerics.validation import finite, probability, single
from estimators.private.noise_laws import laplace_fall, log_likelihood, trials_of
from estimators.private.reports import RateReport

__all__ = ["BetaMixtures", "Betas", "RateClients", "check", "rate_posteriors"]

BAND = 30.0  # in log probability, below the largest, where numbers of ones are left out
MANY = 16  # clients of one n whose likelihoods are worth a table of their own
KINK = 12.0  # lengths in the scale of Laplace noise
NEGLIGIBLE = 40.0  # in log weight of a mixture's part, below the largest
PARTS = 512  # of a mixture; neighbouring counts beyond that are merged, which moves the law by less than 1 / PARTS
MOST_TRIALS = 10_000_000  # a report may say any number, and memory goes with it
BLOCK = 1 << 22  # entries that are kept for later clients
STEPS = 200  # of the search for quantiles, which takes about ten


def check(report: RateReport) -> None:
    """Raise ValueError for more than `MOST_TRIALS`, and for a report without noise whose value is no number of ones."""
    if report.trials > MOST_TRIALS:
        raise ValueError(f"trials must be at most {MOST_TRIALS}, over which the posterior is summed, got {report.trials}")
    if report.noise_variance == 0 and not (0 <= report.value <= report.trials and report.value == round(report.value)):
        raise ValueError(
            f"value must be a whole number in 0..{report.trials} in a report without noise, got {report.value:g}"
        )


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
        scale = np.array([1 / laplace_fall(r.noise_variance) if k else 0.0 for k, r in zip(laplace, reports, strict=True)])
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


# --- given one prior ---------------------------------------------------------------------------------------------------


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
            inside = (new >= low[waiting]) & (new <= high[waiting])  # a step of nothing is at the root
            new = np.where(inside, new, (low[waiting] + high[waiting]) / 2)
            moved = np.abs(new - x[waiting])
            x[waiting] = new
            waiting = waiting[moved > 1e-10 * np.maximum(1.0, np.abs(new))]
        return np.where(self.sizes > 1, expit(x), found)[self.inverse]
