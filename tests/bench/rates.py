"""How often the rules of simulated checks cry without a cause, and how often they miss an error that they say they see.

Belongs here: null runs and runs with an error of the stated size, for each kind of evidence that is simulated, and the table
RATES.md.  Does not belong here: the rules (estimators.montecarlo.checks, student, strata).

``python tests/bench/rates.py`` writes the table, with `NULL` null runs and `POWER` runs with an error; every run has a
stream of its own. The error is the one that a check of the same size, on other streams, says it would have caught.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

from estimators import montecarlo as mc

NULL, POWER = 2_000, 500
PAGE = Path(__file__).with_name("RATES.md")
FORM = np.array([-1.0, 0.0, 0.0, 1.0])
MEAN_OF_SIX = mc.ClientsExperiment(1.0, 1.0, 1.0, 0, np.full(6, 1 / 6), FORM, FORM)  # 5/6 + 2/6
SQUARE = mc.SampledExperiment(lambda gen, reps: gen.standard_normal((reps, 1)) ** 2, 1)
EVENT = mc.SampledExperiment(lambda gen, reps: (gen.random((reps, 2)) < 0.3).all(axis=1)[:, None].astype(float), 1)


@dataclass(frozen=True)
class Case:
    """A kind of evidence: `judge(check, key)` performs a check whose true value is `truth`."""

    name: str
    truth: float
    judge: Callable[[mc.Check, str], mc.CheckResult]


def on_nets(experiment: mc.Experiment, truth: float, size: int) -> Callable[[mc.Check, str], mc.CheckResult]:
    """Nets of 2^size points, as many in a replication as their skewness asks for."""
    averaged = mc.plan_nets(experiment, [check(truth)], "rates", detectable=1e-2, threads=1).averaged
    return lambda c, key: mc.perform_on_nets(experiment, [c], key, size, averaged=averaged, threads=1)[0]


def on_strata(experiment: mc.SampledExperiment, truth: float) -> Callable[[mc.Check, str], mc.CheckResult]:
    """Small nets, as planned."""
    plan = mc.plan_strata(experiment, [check(truth)], "rates", detectable=1e-2)
    return lambda c, key: mc.perform_on_strata(experiment, [c], key, plan, threads=1)[0]


def check(value: float, truth: float | None = None) -> mc.Check:
    """A claim of `value`, relative to the truth."""
    return mc.Check("rate", [1], value, truth or value)


CASES = {
    "plain": lambda: Case(
        "plain draws, 1e5 squared errors", 7 / 6,
        lambda c, key: mc.perform(MEAN_OF_SIX, [c], key, max_reps=100_000, threads=1)[0],
    ),
    "nets": lambda: Case("16 nets of 2^8 points, 16 draws", 7 / 6, on_nets(MEAN_OF_SIX, 7 / 6, 8)),
    "averaged": lambda: Case("averaged nets of 2^8 points, 1 draw squared", 1.0, on_nets(SQUARE, 1.0, 8)),
    "strata": lambda: Case("small nets, an event of 2 draws", 0.09, on_strata(EVENT, 0.09)),
}  # fmt: skip


def measured(case: Case, null: int, power: int) -> tuple[int, int, int, float]:
    """First stages that exceeded and alarms among null runs, misses among runs with the stated error, and that error."""
    stated = case.judge(check(case.truth), "stated").smallest_detectable
    runs = [case.judge(check(case.truth), f"null{k}") for k in range(null)]
    off = check(case.truth * (1 + stated), case.truth)
    misses = sum(case.judge(off, f"power{k}").passed for k in range(power))
    return sum(r.stages > 1 for r in runs), sum(not r.passed for r in runs), misses, stated


def page() -> str:
    """The table."""
    lines = [
        "# Rates of the rules of simulated checks",
        "",
        f"By `python tests/bench/rates.py`: {NULL} null runs and {POWER} runs with an error of the stated size each.",
        f"Declared: stage 1 exceeds in {mc.DECLARED.alpha1:.0%} of null runs, false alarms come in {mc.FALSE_ALARM:.0e},",
        f"the stated error is missed with a chance of {mc.MISS:.0e}.",
        "",
        "| evidence | first stages that exceeded | false alarms | misses | stated error | processor s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for make in CASES.values():
        start, case = process_time(), make()
        exceeded, alarms, misses, stated = measured(case, NULL, POWER)
        spent = process_time() - start
        lines.append(f"| {case.name} | {exceeded} | {alarms} | {misses} | {stated:.1e} | {spent:.0f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
