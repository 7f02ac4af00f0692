"""Laws of noise, by the name of the mechanism: what a report says of the number behind it, and new draws.

Of means: densities of what is added, alone and with a normal error.  A law holds arrays, one entry per report.  Noise on
whole numbers whose distance is known is taken as spread evenly between them, with its variance: their number is thousands,
and where it is few, ``mean_posterior`` sums.  Of numbers of ones: P(report | k ones), exact for every k.

Belongs here: laws of reports given the number that was noised, for posteriors (``mean_posterior``, ``rate_posterior``).
Does not belong here: the noise that clients add (``noise``, ``staircase``, ``finite_output``), how far noise goes at the
most (``agreement``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.inversion import root
from estimators.numerics.limits import quiet
from estimators.numerics.validation import nonnegative
from estimators.private.exact_noise import discrete_gaussian
from estimators.private.finite_output import FiniteOutput
from estimators.private.mechanisms import worst_variances
from estimators.private.staircase import Staircase

if TYPE_CHECKING:
    from estimators.private.reports import MeanReport, RateReport

__all__ = [
    "LAWS",
    "LaplaceNoise",
    "NoiseLaw",
    "NormalNoise",
    "StaircaseNoise",
    "additive",
    "finite_output",
    "laplace_beyond",
    "laplace_fall",
    "log_likelihood",
    "noisy_value",
    "steps_of",
    "trials_of",
]

JUMPS = 24  # lengths that resolve a staircase, in one of its blocks
MIDDLE = 4  # lengths that resolve half of the middle of a staircase, where it is narrow
NARROWEST = 2.0**-10  # of a block, below which nothing is resolved
KINK = 12  # and the kink of Laplace noise, in its scale
LEAST = 1e-6  # of a scale, below which a normal error is none
SMOOTH = 2.0  # blocks of a staircase below a normal deviation that leaves nothing of its steps
EXACT_ANSWERS = 512  # trials up to which the law of randomised answers is summed; beyond, it is taken as normal


class NoiseLaw(Protocol):
    """Noise of several reports.

    Attributes
    ----------
    feature : array (m,) of the lengths in which the density changes; slope : array (m,), about how fast its log falls at
        most, inf for normal noise.
    normal : array (m,), the variance of the noise if it is normal, 0 otherwise.
    """

    feature: Floats
    slope: Floats
    normal: Floats

    def log_density(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the log density of noise plus an independent normal error of some variance, of reports `rows`."""
        ...

    def draw(self, generator: np.random.Generator) -> Floats:
        """Return new noise of each report, array (m,)."""
        ...


def column(values: Floats, rows: Ints) -> Floats:
    """Return one entry per row, to calculate with arrays that have a row per report."""
    return values[rows][:, None]


class NormalNoise:
    """Normal noise, continuous or on whole numbers; also noise of no known mechanism.

    >>> law = NormalNoise(np.array([1.0]), np.array([0.0]), np.array([1.0]))
    >>> law.log_density(np.array([0]), np.array([[0.0, 1.0]]), np.array(0.0)).round(3).tolist()
    [[-0.919, -1.419]]
    """

    def __init__(self, variance: Floats, unit: Floats, eps: Floats) -> None:
        self.normal = variance
        self.feature, self.slope = np.sqrt(variance), np.full(variance.size, np.inf)

    def log_density(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the log density of noise plus an independent normal error of some variance, of reports `rows`."""
        total = variance + column(self.normal, rows)
        return -(away**2) / (2 * total) - np.log(2 * np.pi * total) / 2

    def draw(self, generator: np.random.Generator) -> Floats:
        """Return new noise of each report, array (m,)."""
        return np.sqrt(self.normal) * generator.standard_normal(self.normal.size)


def laplace_beyond(distance: Floats, normal: Floats, scale: Floats) -> Floats:
    """Chance that a normal error and Laplace noise together exceed a distance, on either side; exact.

    Parameters
    ----------
    distance, normal, scale : arrays of one shape, numbers >= 0 or inf: distances, standard deviations of the normal error,
        scales of the Laplace noise (0 for none).  Nothing is beyond an infinite distance.

    >>> laplace_beyond(np.array([1.96, 2.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])).round(4).tolist()
    [0.05, 0.1353]
    """
    from scipy.special import erfcx, ndtr

    named = {"distance": distance, "normal": normal, "scale": scale}
    t, s, b = np.broadcast_arrays(*(nonnegative(name, value, infinite=True) for name, value in named.items()))
    with quiet():
        plain = np.where(s > 0, 2 * ndtr(-t / np.where(s > 0, s, 1.0)), (t <= 0) * 1.0)
        r, z = s / np.where(b > 0, b, 1.0), t / np.where(s > 0, s, 1.0)
        top = np.exp(-(z**2) / 2) / 2  # r z - r^2 / 2 is calculated where the normal error is less than the distance alone
        near = np.where(z > r, np.exp(-r * (z - r / 2)) * ndtr(z - r), top * erfcx(np.maximum(r - z, 0.0) / np.sqrt(2)))
        both = 2 * ndtr(-z) + near - top * erfcx((r + z) / np.sqrt(2))
        laplace = np.exp(-t / np.where(b > 0, b, 1.0))
    found = np.where(b == 0, plain, np.where(s > 1e-6 * b, both, laplace))
    found = np.where(np.isinf(s) | np.isinf(b), 1.0, found)
    return np.where(np.isinf(t), 0.0, np.clip(found, 0.0, 1.0))


def laplace_fall(variance: Floats | float, unit: Floats | float = 1.0) -> Floats:
    """Return the fall of the log probability per step of Laplace noise of a variance on numbers `unit` apart.

    >>> round(float(laplace_fall(1 / (2 * np.sinh(0.5) ** 2))), 12)
    1.0
    """
    return 2 * np.arcsinh(unit / np.sqrt(2 * variance))


class LaplaceNoise:
    """Laplace noise, on whole numbers `unit` apart or continuous (0).

    >>> law = LaplaceNoise(np.array([2.0]), np.array([0.0]), np.array([1.0]))
    >>> law.log_density(np.array([0]), np.array([[0.0, 1.0]]), np.array(0.0)).round(3).tolist()
    [[-0.693, -1.693]]
    """

    def __init__(self, variance: Floats, unit: Floats, eps: Floats) -> None:
        self.normal = np.zeros(variance.size)
        with quiet():
            fine = unit / np.sqrt(2 * variance) < 1e-8
            self.unit = np.where(fine, 0.0, unit)
            self.scale = np.where(fine, np.sqrt(variance / 2), unit / laplace_fall(variance, unit))
        self.feature, self.slope = self.scale / KINK, 1 / self.scale

    def log_density(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the log density of noise plus an independent normal error of some variance, of reports `rows`."""
        from scipy.special import erfcx

        b = column(self.scale, rows)
        size, sd = np.abs(away), np.sqrt(variance)
        if (sd <= LEAST * b).all():
            return -size / b - np.log(2 * b)
        sd = np.maximum(sd, LEAST * b)
        ratio, z = sd / b, size / sd
        # exp(-z^2 / 2) [erfcx((ratio - z) / sqrt 2) + erfcx((ratio + z) / sqrt 2)] / 4 b, without what is out of range
        outer, rest = z > ratio, np.abs(z - ratio)
        fall = np.where(outer, np.exp(-(rest**2) / 2), 1.0)
        near = erfcx(rest / np.sqrt(2))
        total = np.where(outer, 2 - fall * near, near) + fall * erfcx((ratio + z) / np.sqrt(2))
        return np.where(outer, ratio * (ratio / 2 - z), -(z**2) / 2) + np.log(total / (4 * b))

    def draw(self, generator: np.random.Generator) -> Floats:
        """Return new noise of each report, array (m,)."""
        with quiet():
            stop = np.where(self.unit > 0, -np.expm1(-self.unit / self.scale), 1.0)
        whole = generator.geometric(stop) - generator.geometric(stop)
        return np.where(self.unit > 0, self.unit * whole, generator.laplace(0.0, self.scale))


@lru_cache(maxsize=256)
def share_of_eps(eps: float, variance: float) -> float:
    """Return the eps at which a staircase has a variance per squared sensitivity: a part of `eps`, or all of it."""
    if not np.isfinite(eps) or variance <= 0:
        return 40.0

    def above(log_eps):
        return float(np.log(worst_variances(eps=np.exp(log_eps), options=["staircase"])["staircase"] / variance))

    end = float(np.log(eps))
    if abs(above(end)) < 1e-3 or above(end) > 0:
        return eps
    low = end - 1.0
    while above(low) < 0:
        low -= 1.0
    return float(np.exp(root(above, low, end, xtol=1e-9)))


class StaircaseNoise:
    """Staircase noise as on a continuum: blocks of one length, each lower than the one before it by one factor.

    The length of a block is the largest change that is hidden, `width`.

    >>> law = StaircaseNoise(np.array([1.918]), np.array([0.0]), np.array([1.0]), np.array([1.0]))
    >>> away = np.array([[0.0, 0.2, 0.5, 1.2]])
    >>> law.log_density(np.array([0]), away, np.array(0.0)).round(2).tolist()
    [[-0.69, -0.69, -1.69, -1.69]]
    """

    LEVELS: ClassVar[int] = 1 << 12

    def __init__(self, variance: Floats, unit: Floats, eps: Floats, width: Floats) -> None:
        self.normal = np.zeros(variance.size)
        self.width = width
        ratio = variance / width**2
        with quiet():  # no variance is left
            keys = np.column_stack([eps, np.round(np.log(ratio), 12)])
        keys, place = np.unique(keys, axis=0, return_inverse=True)
        laws = [Staircase(sensitivity=self.LEVELS, eps=share_of_eps(float(e), float(np.exp(v)))) for e, v in keys]
        place = place.ravel()
        self.used, self.inner, self.step = (
            np.array([value(law) for law in laws])[place]
            for value in (lambda law: law.used, lambda law: law.inner / self.LEVELS, lambda law: law.step)
        )
        # The middle of a large eps is much narrower than a block.
        least = np.minimum(1 / JUMPS, np.maximum(self.inner / MIDDLE, NARROWEST))
        self.feature, self.slope = width * least, 2 * self.used / width
        # Behind a wide normal error: Laplace noise that falls as the blocks do, so that the tails are right; the normal
        # error makes up for the rest of the variance.
        self.variance, same = variance, 2 * (width / self.used) ** 2
        self.smooth, self.rest = LaplaceNoise(same, np.zeros(variance.size), eps), variance - same

    def resized(self, row: int, width: Floats) -> StaircaseNoise:
        """Return the noise of one report for other largest changes."""
        ratio, same = self.variance[row] / self.width[row] ** 2, np.ones(width.size)
        return StaircaseNoise(ratio * width**2, 0 * width, self.used[row] * same, width)

    def pieces(self, rows: Ints, away: Floats, variance: Floats) -> tuple[Floats, list[tuple[Floats, Floats, Floats]]]:
        """Return the deviation, and the pieces near each point: the log height, and the ends."""
        D, g, used = (column(x, rows) for x in (self.width, self.inner, self.used))
        step = np.log(column(self.step, rows))
        sd = np.maximum(np.sqrt(variance), 1e-7 * D) + np.zeros_like(away)
        top = np.log(-np.expm1(-used) / (2 * D * (g + np.exp(step) * (1 - g))))
        wide = np.minimum(sd / D, SMOOTH)
        blocks = int(np.ceil((8 * wide + used * wide**2).max())) + 1  # far out, what is likeliest lies nearer to the middle
        first, found = np.floor(away / D), []
        for j in range(-blocks, blocks + 1):
            k = first + j
            fall = top - used * np.where(k >= 0, k, -k - 1)
            middle = np.where(k >= 0, k + g, k + 1 - g) * D
            found.append((fall + np.where(k >= 0, 0.0, step), k * D, middle))
            found.append((fall + np.where(k >= 0, step, 0.0), middle, (k + 1) * D))
        return sd, found

    def log_density(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the log density of noise plus an independent normal error of some variance, of reports `rows`."""
        from scipy.special import ndtr

        sd, pieces = self.pieces(rows, away, variance)
        highest = np.max([log for log, _, _ in pieces], axis=0)
        total = np.zeros_like(away)
        for log, low, high in pieces:
            left, right = (low - away) / sd, (high - away) / sd
            flip = left > 0
            total += np.exp(log - highest) * np.where(flip, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))
        with quiet():
            found = highest + np.log(total)
        plain = sd > SMOOTH * column(self.width, rows)
        if plain.any():
            wide = np.maximum(variance + column(self.rest, rows), 0.0)
            found = np.where(plain, self.smooth.log_density(rows, away, wide), found)
        return found

    def beyond(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the chance that noise plus an independent normal error of some variance is farther than `away` on a side.

        >>> law = StaircaseNoise(np.array([1.918]), np.array([0.0]), np.array([1.0]), np.array([1.0]))
        >>> law.beyond(np.array([0]), np.array([[0.0, 1.0, 2.0]]), np.array(0.0)).round(4).tolist()
        [[0.5, 0.1839, 0.0677]]
        """
        from scipy.special import ndtr

        def below(z):  # the integral of the normal distribution function up to z
            return z * ndtr(z) + np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

        sd, pieces = self.pieces(rows, away, variance)
        used, D = column(self.used, rows), column(self.width, rows)
        total = np.exp(-used * np.rint(pieces[-1][2] / D)) / 2  # of all blocks farther out
        for log, low, high in pieces:
            total = total + np.exp(log) * sd * (below((high - away) / sd) - below((low - away) / sd))
        plain = sd > SMOOTH * D
        if plain.any():
            wide = np.sqrt(np.maximum(sd**2 + column(self.rest, rows), 0.0))
            smooth = laplace_beyond(away, wide, column(self.smooth.scale, rows)) / 2
            total = np.where(plain, smooth, total)
        return total

    def draw(self, generator: np.random.Generator) -> Floats:
        """Return new noise of each report, array (m,)."""
        m, g = self.width.size, self.inner
        blocks = generator.geometric(-np.expm1(-self.used)) - 1
        inside = generator.random(m) * (g + self.step * (1 - g)) < g
        place = np.where(inside, g * generator.random(m), g + (1 - g) * generator.random(m))
        return np.where(generator.random(m) < 0.5, 1.0, -1.0) * (blocks + place) * self.width


LAWS: dict[str, type[NormalNoise] | type[LaplaceNoise] | type[StaircaseNoise]] = {
    "discrete-laplace": LaplaceNoise,
    "staircase": StaircaseNoise,
    "gaussian": NormalNoise,
    "discrete-gaussian": NormalNoise,
    "none": NormalNoise,
}


def steps_of(reports: Sequence[MeanReport]) -> tuple[Floats, Floats]:
    """Return the distance of the levels to which rows or means were rounded, and that of whole numbers in the reports."""
    rounding = np.array([r.rounding_variance for r in reports])
    local = np.array([r.guarantee.adjacency == "client" for r in reports])
    n = np.array([r.n for r in reports], float)
    return 2 * np.sqrt(rounding * np.where(local, 1.0, n)), 2 * np.sqrt(rounding / np.where(local, 1.0, n))


def additive(mechanism: str, reports: Sequence[MeanReport]) -> NoiseLaw:
    """Return the law of the noise of reports of one mechanism, normal if it is none that is known."""
    variance = np.array([r.noise_variance for r in reports])
    unit = steps_of(reports)[1]
    eps = np.array([r.guarantee.eps for r in reports])
    kind = LAWS.get(mechanism, NormalNoise)
    if not issubclass(kind, StaircaseNoise):
        return kind(variance, unit, eps)
    width = np.array([r.bounds[1] - r.bounds[0] for r in reports])
    rows = np.array([r.n if r.guarantee.adjacency == "row" else 1 for r in reports], float)
    return StaircaseNoise(variance, unit, eps, width / rows)


@lru_cache(maxsize=64)
def finite_output(bounds: tuple[float, float], eps: float, number: int | None = None) -> FiniteOutput:
    """Return the mechanism of clients who report a number between bounds; a rate lies between 0 and 1."""
    return FiniteOutput(bounds=bounds, eps=eps, outputs=number)


# --- numbers of ones ---------------------------------------------------------------------------------------------------


def trials_of(report: RateReport) -> int:
    """Number of trials whose ones the report is about: for "pairs" two, as both of two are ones with probability p^2."""
    return 2 if report.statistic == "pairs" else int(report.trials)


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
        return -np.abs(away) * laplace_fall(variance)
    if mechanism == "staircase":
        return staircase(report.guarantee.adjacency, n, report.guarantee.eps).log_likelihood(report.value, k)
    if mechanism == "finite-output":
        return finite_output((0.0, 1.0), report.guarantee.eps).log_likelihood(report.value / n, k / n)
    if mechanism in ("answers", "two-point") and counted <= EXACT_ANSWERS:
        wrong = wrong_probability(counted, variance)
        said = int(np.clip(np.rint(report.value * (1 - 2 * wrong) + counted * wrong), 0, counted))
        with quiet():
            return np.log(answer_law(counted, float(wrong))[said])[k]
    return -(away**2) / (2 * variance)  # the variance of discrete Gaussian noise is its sigma2 to seven digits


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
        stop = -np.expm1(-laplace_fall(variance))
        return float(hits + generator.geometric(stop) - generator.geometric(stop))
    if mechanism == "discrete-gaussian":
        return float(hits + discrete_gaussian(round(variance), generator))
    if mechanism == "staircase":
        return float(
            hits + staircase(report.guarantee.adjacency, report.trials, report.guarantee.eps).noise(1, generator)[0]
        )
    if mechanism == "finite-output":
        return report.trials * float(
            finite_output((0.0, 1.0), report.guarantee.eps).release(hits / report.trials, generator)
        )
    if mechanism in ("answers", "two-point"):
        wrong = wrong_probability(counted, variance)
        said = generator.binomial(hits, 1 - wrong) + generator.binomial(counted - hits, wrong)
        return float((said - counted * wrong) / (1 - 2 * wrong))
    return float(hits + np.sqrt(variance) * generator.standard_normal())
