"""Deciding from a few independent randomisations of a net, by Student's t.

Belongs here: the two-stage rule for few means, what it misses, how large nets must be, and performing checks on nets.
Does not belong here: the stages themselves, which plain draws share (``checks``), nets (``randomisations``).

The rule is that of ``checks`` with the same levels, but thresholds are quantiles of Student's t: stage 1 has R = 16
randomisations, 15 degrees of freedom, and stage 2 has 2 R others.

- False alarm: alpha1 * alpha2 = 1e-6, exactly where the means are normal. In a dozen dimensions means of nets are nearly so;
  in one dimension the skewness of the mean of a squared normal is 1.3, at any size, because the two outermost of its points
  carry most of its error. A replication is therefore the mean over as many nets as bring its skewness below 0.4. By
  Edgeworth's first term the levels of the two stages are then off by a third and a half at most, up on one side and down on
  the other, and the rate of false alarms by a sixth. Tests measure both levels over thousands of null runs.
- Miss: the ratio of a shifted normal mean to its standard error has the noncentral t law. A true mean `detectable_shift` =
  8.36 standard errors off is missed with probability 1e-6 (normal z-scores: 7.33).
- That standard error is itself only estimated, and 16 means may flatter it. The smallest error that a check says it would
  have seen takes an upper limit of it, 1.69 times as large, which lies below the true one with probability 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from estimators.numerics.validation import index

from .checks import Check, CheckResult, TwoStageRule, decide, fitting
from .experiments import Experiment
from .nets import BITS
from .randomisations import MIN_REPLICATIONS, merge_replications, run_nets, run_replications
from .streams import DEFAULT_ROOT

MAX_COORDINATES = 2**30
"""Default cap on the coordinates (points times draws per replicate) of stage 1, some four seconds' work of one processor."""

GRID = 1e-8
# Floor of a standard error, relative to the scale of the check: some statistics are integrated by a balanced net without any
# error but that of its coordinates, which have 32 bits.

PILOTS = 8, 12  # log2 of the points of the first two nets that show how fast errors fall
FAR = 4  # doublings beyond the second pilot from which on a third one is worth its cost
RATES = 0.5, 1.25
# Errors fall like points to the power -rate: never slower than those of plain draws; the upper end is what smooth statistics
# reach on average, though two pilots may by luck show more.
MARGIN = 1.3  # on the pilots' errors; a caller may follow a stage that shows more by one on larger nets (`Plan.larger`)
THIRD = 3  # doublings from the third pilot to the nets that are planned, of which it takes an eighth of the points
PILOT_NETS = 32  # of the second pilot at least
SKEWNESS_NETS = 256  # of the first pilot, whose skewness has standard error SKEWNESS_ERROR
SKEWNESS_ERROR = 0.15
SKEWNESS = 0.4  # of a replication's mean at most; it hardly depends on the size of nets


@dataclass(frozen=True)
class StudentRule(TwoStageRule):
    """A two-stage rule for few independent, nearly normal means (see the module's text).

    Parameters
    ----------
    replications : int, >= MIN_REPLICATIONS
        Randomisations of stage 1.
    flattered : float
        Probability that the upper limit of a standard error lies below the true one.

    Examples
    --------
    >>> rule = StudentRule()
    >>> round(rule.false_alarm, 12), round(rule.detectable_shift, 2), round(rule.upper_limit, 2)
    (1e-06, 8.36, 1.69)
    """

    replications: int = 16
    flattered: float = 1e-2

    floor: ClassVar[float] = GRID

    def __post_init__(self):
        super().__post_init__()
        if self.replications < MIN_REPLICATIONS:
            raise ValueError(f"replications must be >= {MIN_REPLICATIONS}, got {self.replications}")

    @cached_property
    def threshold1(self) -> float:
        """Stage 1 exceeds beyond this |t|."""
        return _t_quantile(self.replications - 1, self.alpha1 / 2)

    @cached_property
    def threshold2(self) -> float:
        """Stage 2 confirms beyond this t, in the direction of stage 1."""
        return _t_quantile(self.growth * self.replications - 1, self.alpha2)

    def miss_probability(self, shift: float) -> float:
        """Probability of no alarm on the right side when the mean is `shift` stage-1 standard errors off."""
        below1 = noncentral_t(self.threshold1, self.replications - 1, shift)
        below2 = noncentral_t(self.threshold2, self.growth * self.replications - 1, shift * math.sqrt(self.growth))
        return below1 + below2 - below1 * below2

    @cached_property
    def upper_limit(self) -> float:
        """Upper limit of a standard error of stage 1, over the one found there."""
        from scipy.special import gammaincinv

        free = self.replications - 1
        return math.sqrt(free / (2 * float(gammaincinv(free / 2, self.flattered))))

    def smallest_detectable(self, standard_error: float, scale: float = 1.0) -> float:
        """Smallest error, relative to `scale`, that is caught with probability 1 - `miss`, at the upper limit."""
        return self.detectable_shift * self.upper_limit * standard_error / scale


def noncentral_t(t: float, free: int, shift: float) -> float:
    """Distribution function of the noncentral t law with `free` >= 3 degrees of freedom, accurate in the lower tail.

    The mean of Phi(t s - shift) over s^2 = chi-square / free, on a grid of s where the integrand is smooth and vanishes at
    both ends, so that the sum converges faster than any power. (SciPy's nctdtr gives NaN where it matters here.)

    Raises
    ------
    ValueError
        For fewer degrees of freedom, with which the integrand does not vanish at 0 as it must.

    Examples
    --------
    >>> from scipy.stats import t
    >>> bool(abs(noncentral_t(2.5, 15, 0.0) - t.cdf(2.5, 15)) < 1e-12)
    True
    """
    from scipy.special import gammaln, ndtr

    free = index("free", free, 3)
    s = np.linspace(0.0, 6.0, 6001)[1:]
    log_density = math.log(2) + free / 2 * math.log(free / 2) - gammaln(free / 2) + (free - 1) * np.log(s) - free * s**2 / 2
    return float(np.sum(np.exp(log_density) * ndtr(t * s - shift)) * (s[1] - s[0]))


STUDENT = StudentRule()
"""The rule of every check on nets."""


@dataclass(frozen=True)
class Plan:
    """How large the nets of some checks are, and the smallest error that all checks are expected to see.

    Parameters
    ----------
    log2_points : int
    averaged : int
        Nets in each replication (`randomisations.run_nets`).
    dimensions : int
    expected : float
        Smallest error, relative to the scale of the checks.
    most : int
        The largest log2_points allowed.
    """

    log2_points: int
    averaged: int
    dimensions: int
    expected: float
    most: int

    def larger(self, log2_points: int, results: Sequence[CheckResult], detectable: float) -> int:
        """log2 of the points with which nets that showed `results` would see `detectable`, or of the most allowed.

        Pilots are guesses: about one plan in eight falls short. Whether to go on is read from standard errors alone, which
        for normal means say nothing of the means themselves, so that all decisions keep their levels.
        """
        short = max(result.smallest_detectable for result in results) / detectable
        return min(log2_points + max(math.ceil(math.log2(short)), 0), self.most)


def plan_nets(
    experiment: Experiment, checks: Sequence[Check], key: str, *, detectable: float, threads: int | None = None,
    max_coordinates: int = MAX_COORDINATES, root: int = DEFAULT_ROOT, rule: StudentRule = STUDENT,
) -> Plan:  # fmt: skip
    """Sizes of the nets with which every check sees an error of `detectable`, or of the largest ones allowed.

    Pilots on streams of their own show how skewed means are, how large their errors, and how fast these fall; they decide
    nothing else. Where the first two ask for far more points, a third one, with an eighth of these, corrects them: between
    two sizes errors may fall faster or more slowly than on average.

    Raises
    ------
    NoNet
        If the experiment draws, or uses its draws, in a way that a net cannot serve.
    ValueError
        If `max_coordinates` is too small for any nets.
    """
    checks = fitting(checks, experiment)
    rows = np.array([check.coefficients for check in checks]) / np.array([[check.scale] for check in checks])
    dimensions = len(experiment.net_order())

    def piloted(size: int, nets: int) -> np.ndarray:
        pilot = f"{key}#pilot{size}"
        parts = run_replications(experiment, size, range(nets), pilot, threads=threads, root=root)
        return merge_replications(parts, nets) @ rows.T

    def seen(means: np.ndarray) -> np.ndarray:
        error = means.std(axis=0, ddof=1) / math.sqrt(rule.replications * averaged)
        return np.array([MARGIN * rule.smallest_detectable(max(e, rule.floor)) for e in error])

    first = piloted(PILOTS[0], SKEWNESS_NETS)
    averaged = max(1, math.ceil(((np.abs(skewness(first)) + SKEWNESS_ERROR).max() / SKEWNESS) ** 2))
    most = min(BITS, int(math.log2(max(max_coordinates / (rule.replications * averaged * dimensions), 1))))
    if most < PILOTS[1]:
        raise ValueError(
            f"max_coordinates must be >= {rule.replications * averaged * dimensions * 2 ** PILOTS[1]}, got "
            f"{max_coordinates}: the nets would be smaller than their pilots"
        )
    sizes: list[int] = list(PILOTS)
    # Where means of nets are skewed so are their spreads, and a few single nets seldom show the largest.
    nets = rule.replications * averaged
    errors = [seen(first), seen(piloted(PILOTS[1], max(PILOT_NETS, nets)))]
    while True:
        rates = np.clip(np.log2(errors[-2] / errors[-1]) / (sizes[-1] - sizes[-2]), *RATES)
        steps = np.ceil(np.log2(errors[-1] / detectable) / rates)
        chosen = int(min(max(sizes[-1] + steps.max(), PILOTS[1]), most))
        if len(sizes) > len(PILOTS) or chosen < sizes[-1] + FAR:
            expected = np.max(errors[-1] * 2.0 ** (-rates * (chosen - sizes[-1])))
            return Plan(chosen, averaged, dimensions, float(expected), most)
        sizes.append(chosen - THIRD)
        errors.append(seen(piloted(sizes[-1], nets)))


def skewness(means: np.ndarray) -> np.ndarray:
    """Skewness of the columns; 0 where they do not vary by more than rounding."""
    deviation = means - means.mean(axis=0)
    scale = np.sqrt((deviation**2).mean(axis=0))
    varies = scale > GRID
    return np.where(varies, (deviation**3).mean(axis=0) / np.where(varies, scale, 1.0) ** 3, 0.0)


def perform_on_nets(
    experiment: Experiment, checks: Sequence[Check], key: str, log2_points: int, *, averaged: int = 1,
    detectable: float = 1e-4, threads: int | None = None, root: int = DEFAULT_ROOT, rule: StudentRule = STUDENT,
) -> list[CheckResult]:  # fmt: skip
    """Perform checks on randomised nets under Student's two-stage rule.

    Parameters
    ----------
    experiment : Experiment
    checks : sequence of Check
    key : str
        Names the streams; use one key per claim and point.
    log2_points : int
        Every net has so many points (`plan_nets`).
    averaged : int
        Nets in each replication (`plan_nets`).
    detectable : float, > 0
        Relative error that every check should catch; each result says whether it does.
    threads, root
        As for ``checks.perform``.
    rule : StudentRule
        Another rule only serves to measure the rule itself.

    Returns
    -------
    list of CheckResult
        In the order of `checks`.

    Raises
    ------
    nets.NoNet
        If the experiment draws what a net cannot serve.
    ValueError
        Naming the argument outside its domain, or why the replications give no standard error.

    Examples
    --------
    >>> from estimators.montecarlo import ClientsExperiment
    >>> error = [-1, 0, 0, 1]
    >>> mean = ClientsExperiment(1.0, 1.0, 1.0, 0, np.full(4, 0.25), error, error)
    >>> checks = [Check("mse", [1], v, v) for v in (1.25, 1.2501)]
    >>> right, wrong = perform_on_nets(mean, checks, "doctest", 18)
    >>> right.passed, wrong.passed, wrong.stages, right.reached
    (True, False, 2, True)
    """
    if not detectable > 0:
        raise ValueError(f"detectable must be > 0, got {detectable}")
    checks = fitting(checks, experiment)

    def simulate(stage: int):
        replications = rule.replications * (1 if stage == 1 else rule.growth)
        name = f"{key}#nets{stage}"
        return run_nets(experiment, log2_points, replications, name, averaged=averaged, threads=threads, root=root)

    return decide(rule, checks, simulate, detectable, points=averaged * 2**log2_points)


def _t_quantile(free: int, beyond: float) -> float:
    from scipy.special import stdtrit

    return -float(stdtrit(free, beyond))


__all__ = ["MAX_COORDINATES", "STUDENT", "Plan", "StudentRule", "noncentral_t", "perform_on_nets", "plan_nets"]
