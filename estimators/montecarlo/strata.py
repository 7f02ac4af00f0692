"""Strata: replicates in small groups, each the points of a small net of its own, for statistics that jump.

Belongs here: the experiment whose replicate is the mean over one small net, how large the nets should be, and performing
checks on them.  Does not belong here: points and laws (``nets``, ``laws``), the rule that decides (``checks``).

A large net needs a smooth statistic (``smoothness``), because sixteen means may agree by luck.  Here a replicate is the mean
over a net of 2^6 to 2^12 points, and there are thousands: they are independent and unbiased for any statistic whatever, and
their spread gives the standard error as it does for plain draws, under the rule for plain draws.  A small net of n points
has in every box of equal volume its share of them: the share that one draw is below its quantile p has a variance of at most
1 / (4 n^2), for p (1 - p) / n of plain draws, and what is a sum over draws loses nearly all its variance, jumps or not.  In
many dimensions nothing is gained but for such sums.

How many nets: as many as bring the skewness of the mean to `MEAN_SKEWNESS`, that of 1e5 squared normals, which is what plain
draws are held to.  A jump that most nets count alike is the one thing that pilots may miss: n p points of n lie beyond it,
and where n p is nearly whole almost all nets agree on a mean that is off by a small part of one point.  The standard error
is therefore never taken below what `LONE` points out of all would make: were the number of deviating nets Poisson, with any
mean, the rate of false alarms is at most three times the declared one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats

from .checks import DECLARED, Check, CheckResult, TwoStageRule, decide, fitting
from .experiments import Experiment, SampledExperiment
from .moments import Moments, batch_means, require_finite
from .nets import BITS, Strata
from .runner import run
from .smoothness import NoNet
from .streams import DEFAULT_ROOT, stream
from .student import MAX_COORDINATES, skewness

SIZES = 6, 8, 10, 12
"""log2 of the points of the nets that are tried."""

PILOT_NETS = 256
PILOT_MARGIN = 1.3  # on a variance from as many nets, whose relative standard error is 9 % or more
SKEWNESS_ERROR = 0.15  # of a skewness from as many
MIN_NETS = 1024
MEAN_SKEWNESS = 0.009
LONE = 10
ROWS = 2**16
"""Points that are drawn in one call, which bounds memory. A part of the experiment: it changes the bits."""


@dataclass(frozen=True, eq=False)
class StratifiedExperiment:
    """Means of another experiment's statistics over small nets, one replicate for each net.

    Parameters
    ----------
    of : SampledExperiment
    log2_points : int, 6 .. 32
        Points of each net.

    Raises
    ------
    NoNet
        If it draws what a net cannot serve.

    Examples
    --------
    The share of squared normals below one, from 4096 nets of 64 points each:

    >>> event = SampledExperiment(lambda gen, reps: (gen.standard_normal((reps, 1)) ** 2 < 1).astype(float), 1)
    >>> estimate, standard_error = run(StratifiedExperiment(event, 6), 4096, "doctest").linear([1])
    >>> abs(estimate - 0.6826895) < 5 * standard_error < 0.002
    True
    """

    of: SampledExperiment
    log2_points: int

    @property
    def n_statistics(self) -> int:
        """Those of the other experiment."""
        return self.of.n_statistics

    @property
    def draws_per_replicate(self) -> int:
        """Coordinates of one net."""
        return self.of.coordinates << self.log2_points

    def net_order(self) -> np.ndarray:
        """A net serves no nets."""
        raise NoNet("its replicates are nets already")

    def kernel_call(self, gen: Any, reps: int) -> Moments:
        """Moments of the means over `reps` nets."""
        means = np.concatenate([points.mean(axis=1) for points in self.points(gen, reps)])
        return replace(Moments.of(means), batches=batch_means(means))

    reference_call = kernel_call

    def points(self, gen: np.random.Generator, nets: int) -> Iterator[np.ndarray]:
        """Statistics at the points of some of the nets at a time, shape (some, points, M)."""
        size, dimensions = 1 << self.log2_points, self.of.coordinates
        most = max(ROWS // size, 1)
        for start in range(0, nets, most):
            some = min(most, nets - start)
            random = gen.integers(0, 2**BITS, (some, dimensions, BITS + 1), dtype=np.uint32)
            sample = np.asarray(self.of.draw(Strata(random, self.log2_points), some * size), float)
            if sample.shape != (some * size, self.n_statistics):
                raise ValueError(
                    f"draw must return an array of shape {(some * size, self.n_statistics)}, got {sample.shape}"
                )
            # Summed along rows: a mean over the middle axis of an array with few columns is slow.
            yield np.ascontiguousarray(sample.T).reshape(self.n_statistics, some, size).transpose(1, 2, 0)


@dataclass(frozen=True, eq=False)
class StrataPilot:
    """What a few small nets show of some combinations of statistics; it decides how many are drawn, and nothing else.

    Parameters
    ----------
    means : array, shape (PILOT_NETS, C)
        Of each net.
    spread, reach : array, shape (C,)
        Standard deviation and range over points.
    lone : array, shape (C,)
        What the standard error of a mean, times the number of nets, is at least.
    """

    means: Floats
    spread: Floats
    reach: Floats
    lone: Floats

    def least_nets(self, mean_skewness: float) -> int:
        """Nets that bring the skewness of every mean to this."""
        return int(np.ceil(((np.abs(skewness(self.means)) + SKEWNESS_ERROR) / mean_skewness) ** 2).max())


def pilot_strata(experiment: SampledExperiment, log2_points: int, key: str, rows: ArrayLike, root: int) -> StrataPilot:
    """Pilots of combinations `rows` of an experiment's statistics, shape (C, M), on a stream of their own.

    Raises
    ------
    NoNet
        If the experiment draws what a net cannot serve, or shows nothing random.
    ValueError
        If a statistic is no finite number.
    """
    stratified = StratifiedExperiment(experiment, log2_points)
    gen = stream(f"{key}#strata{log2_points}", 0, root)
    drawn = [points @ np.asarray(rows, float).T for points in stratified.points(gen, PILOT_NETS)]
    means = np.concatenate([points.mean(axis=1) for points in drawn])
    require_finite(means)
    spread = np.sqrt(np.mean([points.var(axis=(0, 1)) for points in drawn], axis=0))
    reach = np.max([np.ptp(points, axis=(0, 1)) for points in drawn], axis=0)
    if not reach.all():
        raise NoNet("its pilots do not vary")
    return StrataPilot(means, spread, reach, LONE * reach / 2**log2_points)


@dataclass(frozen=True)
class StrataPlan:
    """How large and how many the nets of some checks are, and the smallest error that all checks are expected to see.

    Parameters
    ----------
    log2_points, nets, dimensions : int
    expected : float
        Smallest error, relative to the scale of the checks.
    gain : float
        How many times as many plain draws would see as much, of the check that gains least.
    lone : tuple of float
        What the standard error of each check, times the nets, is at least, relative to its scale.
    """

    log2_points: int
    nets: int
    dimensions: int
    expected: float
    gain: float
    lone: tuple[float, ...]


def plan_strata(
    experiment: Experiment, checks: Sequence[Check], key: str, *, detectable: float,
    max_coordinates: int = MAX_COORDINATES, root: int = DEFAULT_ROOT, rule: TwoStageRule = DECLARED,
) -> StrataPlan:  # fmt: skip
    """Size and number of the nets with which every check sees an error of `detectable`, or the least that is allowed.

    Pilots on streams of their own decide this and nothing else.

    Raises
    ------
    NoNet
        If the experiment is none that NumPy draws, draws what a net cannot serve, shows nothing random in the pilots, or is
        so large or so skewed that `max_coordinates` do not allow nets enough.
    ValueError
        If a statistic is no finite number.
    """
    checks = fitting(checks, experiment)
    if not isinstance(experiment, SampledExperiment):
        raise NoNet("a compiled kernel draws it")
    rows = np.array([check.coefficients for check in checks]) / np.array([[check.scale] for check in checks])
    plans, dimensions = [], experiment.coordinates
    for size in SIZES:
        most = max_coordinates // (dimensions << size)
        if most < MIN_NETS:
            break
        pilot = pilot_strata(experiment, size, key, rows, root)
        sd, lone = np.sqrt(PILOT_MARGIN) * pilot.means.std(axis=0, ddof=1), pilot.lone
        lopsided = pilot.least_nets(MEAN_SKEWNESS)
        if lopsided > most:
            continue
        needed = max(
            MIN_NETS,
            lopsided,
            *np.ceil((rule.detectable_shift * sd / detectable) ** 2),
            *np.ceil(rule.detectable_shift * lone / detectable),
        )
        nets = int(min(needed, most))
        errors = np.maximum(np.maximum(sd / math.sqrt(nets), lone / nets), rule.floor)
        gain = float(np.min((pilot.spread / math.sqrt(nets << size) / errors) ** 2))
        plans.append(StrataPlan(size, nets, dimensions, float(rule.detectable_shift * errors.max()), gain, tuple(lone)))
    if not plans:
        raise NoNet(f"in {dimensions} dimensions it would take too many small nets")
    seeing = [plan for plan in plans if plan.expected <= detectable * (1 + 1e-9)]
    return min(seeing, key=lambda plan: plan.nets << plan.log2_points) if seeing else min(plans, key=lambda p: p.expected)


def perform_on_strata(
    experiment: SampledExperiment, checks: Sequence[Check], key: str, plan: StrataPlan, *, detectable: float = 1e-3,
    threads: int | None = None, root: int = DEFAULT_ROOT, rule: TwoStageRule = DECLARED,
) -> list[CheckResult]:  # fmt: skip
    """Perform checks on so many small nets as a plan says, under the two-stage rule of plain draws.

    Parameters
    ----------
    plan : StrataPlan
        Of the same experiment and checks, with at least `MIN_NETS` nets.
    detectable : float, > 0
        Relative error that every check should catch; each result says whether it does.
    experiment, checks, key, threads, root, rule
        As for ``checks.perform``.

    Returns
    -------
    list of CheckResult
        In the order of `checks`.

    Raises
    ------
    ValueError
        If the plan has too few nets.

    Examples
    --------
    >>> event = SampledExperiment(lambda gen, reps: (gen.standard_normal((reps, 1)) ** 2 < 1).astype(float), 1)
    >>> checks = [Check("share", [1], v, v) for v in (0.6826895, 0.6836895)]
    >>> plan = plan_strata(event, checks, "doctest", detectable=1e-3)
    >>> right, wrong = perform_on_strata(event, checks, "doctest", plan)
    >>> right.passed, wrong.passed, wrong.stages, right.reached
    (True, False, 2, True)
    """
    checks = fitting(checks, experiment)
    if plan.nets < MIN_NETS:
        raise ValueError(f"plan: nets must be >= {MIN_NETS}, got {plan.nets}: means over fewer have no normal law")
    stratified = StratifiedExperiment(experiment, plan.log2_points)

    def simulate(stage: int) -> Moments:
        nets = plan.nets * (1 if stage == 1 else rule.growth)
        return run(stratified, nets, f"{key}#strata-stage{stage}", threads=threads, root=root)

    return decide(rule, checks, simulate, detectable, points=1 << plan.log2_points, least=plan.lone)


__all__ = ["StrataPilot", "StrataPlan", "StratifiedExperiment", "perform_on_strata", "pilot_strata", "plan_strata"]
