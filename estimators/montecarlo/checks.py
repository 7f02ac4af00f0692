"""Monte Carlo checks with declared error rates.

Belongs here: the two-stage decision rule, sample sizes, and performing checks on an experiment.
Does not belong here: experiments, or tolerances. A check states its rates, never an ``rtol``.

The rule, fixed in advance for every check (`DECLARED`):

- Stage 1 simulates n replicates. It exceeds if \\|z\\| is beyond the two-sided level alpha1 = 1e-2.
- Only then stage 2 simulates 2n replicates on independent streams, and the check fails if its z lies
  beyond the one-sided level alpha2 = 1e-4 *on the side stage 1 pointed to*. There is no stage 3.

Rates (z-scores normal):

- False alarm: P(stage 1 exceeds) P(stage 2 beyond alpha2 on that side) = 1e-2 * 1e-4 = 1e-6 per check
  exactly, so at most 1e-3 for a suite of at most `SUITE_CHECKS` = 1000 checks, whatever their dependence.
- Miss: a true mean `detectable_shift` = 7.33 stage-1 standard errors away from the claim is caught with
  probability 1 - 1e-6. The sample size is derived from this, so that a relative error of
  `detectable` (1 % at most) is caught; each result states the smallest error it would catch.

How normal: no sample is smaller than `MIN_REPS` = 1e5. Statistics that are quadratic in Gaussians
have skewness at most that of chi-square with one degree of freedom, 2.83. At 1e5 replicates the tails of
the studentised mean at alpha2 are then off by at most a sixth, up on one side and down on the other, and
their average, which the false-alarm rate is made of, is unaffected to first order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from .experiments import Experiment
from .moments import Moments
from .runner import CHUNK, run
from .streams import DEFAULT_ROOT

MIN_REPS = 100_000
"""Fewest replicates of a stage: below this a z-score of squared errors means little."""

MAX_REPS = 20_000_000
"""Default cap on the replicates of stage 1."""

SUITE_CHECKS = 1000
"""Most checks in one suite for its false-alarm rate to stay below 1e-3."""

PILOT_REPS = CHUNK
PILOT_MARGIN = 1.1
# The pilot's variance has relative standard error sqrt((15 - 1) / 65536) = 1.5 % at the kurtosis 15 of a
# squared normal, so a margin of 10 % on the sample size is more than six standard errors.

ROUNDING = 1e-12
# Floor of a standard error, relative to the scale of the check: a claim whose statistics are equal in every
# replicate has standard error zero up to rounding, and must not fail for its last bits.


@dataclass(frozen=True)
class TwoStageRule:
    """A two-stage decision rule (see the module's text).

    Parameters
    ----------
    alpha1 : float
        Two-sided level of stage 1.
    alpha2 : float
        One-sided level of stage 2.
    miss : float
        Probability of missing a mean that is `detectable_shift` standard errors off.
    growth : int
        Replicates of stage 2 per replicate of stage 1.

    Examples
    --------
    >>> round(DECLARED.false_alarm, 12), round(DECLARED.detectable_shift, 2)
    (1e-06, 7.33)
    >>> DECLARED.exceeds(2.5), DECLARED.exceeds(-2.6), DECLARED.confirms(-2.6, 9.0)
    (False, True, False)
    """

    alpha1: float = 1e-2
    alpha2: float = 1e-4
    miss: float = 1e-6
    growth: int = 2

    floor: ClassVar[float] = ROUNDING
    """Least standard error, relative to the scale of a check."""

    def __post_init__(self):
        for name in ("alpha1", "alpha2", "miss"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be in (0, 1), got {getattr(self, name)}")
        if self.growth < 1:
            raise ValueError(f"growth must be >= 1, got {self.growth}")

    @property
    def false_alarm(self) -> float:
        """Probability that a true claim fails."""
        return self.alpha1 * self.alpha2

    @cached_property
    def threshold1(self) -> float:
        """Stage 1 exceeds beyond this \\|z\\|."""
        return -NormalDist().inv_cdf(self.alpha1 / 2)

    @cached_property
    def threshold2(self) -> float:
        """Stage 2 confirms beyond this z, in the direction of stage 1."""
        return -NormalDist().inv_cdf(self.alpha2)

    def exceeds(self, z1: float) -> bool:
        """Whether stage 1 calls for stage 2."""
        return not abs(z1) <= self.threshold1  # a NaN exceeds

    def confirms(self, z1: float, z2: float) -> bool:
        """Whether stage 2 confirms stage 1, so that the check fails."""
        return not math.copysign(1.0, z1) * z2 <= self.threshold2

    def miss_probability(self, shift: float) -> float:
        """Probability of no alarm on the right side when the mean is `shift` stage-1 standard errors off."""
        below1 = _normal_cdf(self.threshold1 - shift)
        below2 = _normal_cdf(self.threshold2 - shift * math.sqrt(self.growth))
        return below1 + below2 - below1 * below2

    @cached_property
    def detectable_shift(self) -> float:
        """Shift, in stage-1 standard errors, that is missed with probability `miss`."""
        low, high = 0.0, 100.0
        while high - low > 1e-12:
            middle = (low + high) / 2
            low, high = (middle, high) if self.miss_probability(middle) > self.miss else (low, middle)
        return high

    def smallest_detectable(self, standard_error: float, scale: float = 1.0) -> float:
        """Smallest error, relative to `scale`, that is caught with probability 1 - `miss`, from stage 1's standard error."""
        return self.detectable_shift * standard_error / scale

    def required_reps(self, relative_sd: float, detectable: float = 0.01) -> int:
        """Stage-1 replicates that make an error of `detectable` detectable.

        Parameters
        ----------
        relative_sd : float, >= 0
            Standard deviation of the checked combination in one replicate, over the scale.
        detectable : float, > 0
            Error to catch, relative to the scale.

        Examples
        --------
        The squared error of one Gaussian estimate has relative standard deviation sqrt(2):

        >>> DECLARED.required_reps(2**0.5) // 1000
        1074
        """
        if not (relative_sd >= 0 and math.isfinite(relative_sd)):
            raise ValueError(f"relative_sd must be finite and >= 0, got {relative_sd}")
        if not detectable > 0:
            raise ValueError(f"detectable must be > 0, got {detectable}")
        return max(MIN_REPS, math.ceil((self.detectable_shift * relative_sd / detectable) ** 2))


DECLARED = TwoStageRule()
"""The rule of every check of the project."""

FALSE_ALARM = DECLARED.false_alarm
"""Probability that a true claim fails its check."""

MISS = DECLARED.miss
"""Probability that a claim wrong by the smallest detectable error passes."""


def required_reps(relative_sd: float, detectable: float = 0.01) -> int:
    """Stage-1 replicates under the declared rule; see `TwoStageRule.required_reps`."""
    return DECLARED.required_reps(relative_sd, detectable)


def smallest_detectable(standard_error: float, scale: float = 1.0) -> float:
    """Smallest error, relative to `scale`, that the declared rule catches with probability 1 - MISS.

    Parameters
    ----------
    standard_error : float, >= 0
        Of stage 1.
    scale : float, > 0
    """
    if not standard_error >= 0:
        raise ValueError(f"standard_error must be >= 0, got {standard_error}")
    if not scale > 0:
        raise ValueError(f"scale must be > 0, got {scale}")
    return DECLARED.smallest_detectable(standard_error, scale)


@dataclass(frozen=True)
class Check:
    """The claim that a linear combination of an experiment's means has a given value.

    Parameters
    ----------
    label : str
    coefficients : sequence of float, one per statistic
    expected : float
        Claimed mean of ``coefficients @ statistics``.
    scale : float, > 0
        What relative errors refer to: usually \\|expected\\|; for a claim that something is zero, the size
        of the quantities that cancel.
    """

    label: str
    coefficients: tuple[float, ...]
    expected: float
    scale: float

    def __post_init__(self):
        coefficients = tuple(map(float, np.ravel(self.coefficients)))
        if not coefficients or not all(map(math.isfinite, coefficients)) or not any(coefficients):
            raise ValueError(f"coefficients must be finite and not all zero, got {self.coefficients!r}")
        object.__setattr__(self, "coefficients", coefficients)
        if not math.isfinite(self.expected):
            raise ValueError(f"expected must be finite, got {self.expected}")
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise ValueError(f"scale must be finite and > 0, got {self.scale}")


@dataclass(frozen=True)
class CheckResult:
    """Outcome of a check.

    `estimate`, `standard_error`, `z` and `reps` are those of the last stage performed (stage 2 is
    independent of the selection made by stage 1, so its estimate is unbiased). `smallest_detectable` is
    relative to the scale of the check; `reached` says whether it is as small as was asked. A check that
    passed without reaching its target is weaker evidence and must be reported so. `nets` is the number of randomised nets
    that the `reps` points belong to, 0 for plain draws.
    """

    label: str
    expected: float
    estimate: float
    standard_error: float
    z: float
    stages: int
    reps: int
    smallest_detectable: float
    reached: bool
    passed: bool
    nets: int = 0

    def __str__(self):
        target = "" if self.reached else " (target not reached within max_reps)"
        return (
            f"{'passed' if self.passed else 'FAILED'} {self.label}: {self.estimate:.6g} +- "
            f"{self.standard_error:.2g}, claimed {self.expected:.6g}, z = {self.z:.2f} "
            f"after {self.stages} stage(s), {self.reps} replicates{f' on {self.nets} nets' if self.nets else ''}; "
            f"an error of {self.smallest_detectable:.2%} would have been caught{target}"
        )


def perform(
    experiment: Experiment,
    checks: Sequence[Check],
    key: str,
    *,
    detectable: float = 0.01,
    threads: int | None = None,
    max_reps: int = MAX_REPS,
    root: int = DEFAULT_ROOT,
    rule: TwoStageRule = DECLARED,
) -> list[CheckResult]:
    """Perform checks on one experiment under a two-stage rule.

    A pilot of `PILOT_REPS` replicates on its own stream (``key#stage0``) decides the sample size and nothing
    else. Stage 1 (``key#stage1``) serves all checks; stage 2 (``key#stage2``, ``rule.growth`` times as many
    replicates) is simulated if some check exceeded, and judges only those.

    Parameters
    ----------
    experiment : Experiment
    checks : sequence of Check
    key : str
        Names the streams; use one key per claim and point.
    detectable : float, 0 < detectable <= 0.01
        Relative error that every check should catch.
    threads : int, optional
    max_reps : int, >= MIN_REPS
        Cap on the replicates of stage 1.
    root : int
        Root seed.
    rule : TwoStageRule
        Another rule only serves to measure the rule itself.

    Returns
    -------
    list of CheckResult
        In the order of `checks`.

    Raises
    ------
    ValueError
        Naming the argument outside its domain.

    Examples
    --------
    >>> from estimators.montecarlo import ClientsExperiment
    >>> error = [-1, 0, 0, 1]
    >>> mean = ClientsExperiment(1.0, 1.0, 1.0, 0, np.full(4, 0.25), error, error)
    >>> right, wrong = perform(mean, [Check("mse", [1], v, v) for v in (1.25, 1.2625)], "doctest")
    >>> right.passed, wrong.passed, wrong.stages, right.reached
    (True, False, 2, True)
    """
    checks = fitting(checks, experiment)
    if not 0 < detectable <= 0.01:
        raise ValueError(f"detectable must be in (0, 0.01] (no check weaker than 1 %), got {detectable}")
    if max_reps < MIN_REPS:
        raise ValueError(f"max_reps must be >= {MIN_REPS}, got {max_reps}")

    def simulate(stage, reps):
        return run(experiment, reps, f"{key}#stage{stage}", threads=threads, root=root)

    pilot = simulate(0, PILOT_REPS)
    reps = max(
        rule.required_reps(math.sqrt(PILOT_MARGIN) * pilot.standard_deviation(check.coefficients) / check.scale, detectable)
        for check in checks
    )
    reps = min(reps, max_reps)
    return decide(rule, checks, lambda stage: simulate(stage, reps if stage == 1 else rule.growth * reps), detectable)


def fitting(checks: Sequence[Check], experiment: Experiment) -> list[Check]:
    """The checks as a list; ValueError unless there are some, each with a coefficient per statistic of the experiment."""
    checks = list(checks)
    if not checks:
        raise ValueError("checks must hold at least one Check")
    for check in checks:
        if len(check.coefficients) != experiment.n_statistics:
            raise ValueError(
                f"checks: {check.label!r} has {len(check.coefficients)} coefficients "
                f"for {experiment.n_statistics} statistics"
            )
    return checks


def decide(
    rule: TwoStageRule, checks: Sequence[Check], simulate: Callable[[int], Moments], detectable: float, points: int = 1,
    least: Sequence[float] = (),
) -> list[CheckResult]:  # fmt: skip
    """Results of checks under a two-stage rule.

    Parameters
    ----------
    simulate : function
        Stage, 1 or 2, to its moments; stage 2 is simulated if some check exceeded, and judges only those.
    points : int
        Replicates behind one of what the moments count: 1, or the points of a net.
    least : sequence of float
        For each check what, over the moments' count, its standard error is at least, relative to its scale.
    """
    first, second = simulate(1), None
    results = []
    for check, lone in zip(checks, least or [0.0] * len(checks), strict=True):
        moments, stages, passed = first, 1, True
        estimate, standard_error, z = _judge(check, first, max(rule.floor, lone / first.count))
        smallest = rule.smallest_detectable(standard_error, check.scale)
        if rule.exceeds(z):
            z1, stages = z, 2
            moments = second = second or simulate(2)
            estimate, standard_error, z = _judge(check, second, max(rule.floor, lone / second.count))
            passed = not rule.confirms(z1, z)
        results.append(
            CheckResult(
                label=check.label,
                expected=check.expected,
                estimate=estimate,
                standard_error=standard_error,
                z=z,
                stages=stages,
                reps=moments.count * points,
                smallest_detectable=smallest,
                reached=smallest <= detectable,
                passed=passed,
                nets=moments.count if points > 1 else 0,
            )
        )
    return results


def _judge(check, moments, floor=ROUNDING):
    """Estimate, standard error and z-score of a check."""
    estimate, standard_error = moments.linear(check.coefficients)
    standard_error = max(standard_error, floor * check.scale)
    return estimate, standard_error, (estimate - check.expected) / standard_error


def _normal_cdf(x):
    """Standard normal distribution function, accurate in the lower tail."""
    return math.erfc(-x / math.sqrt(2)) / 2
