"""Performing a simulation: on large nets where it is smooth, on many small nets where it jumps, else on plain draws.

Belongs here: which of the three a simulation gets, how small an error each is asked to see, and what is recorded of it.
Does not belong here: experiments and readings (simulation.py), nets and decision rules (estimators.montecarlo).

Large nets serve smooth statistics only, which is seen by running them (estimators.montecarlo.smoothness). Small nets serve
any statistic whose draws are quantiles of uniforms, the same number for every replicate. Where pilots say that even then
they see no more than plain draws are asked to, plain draws serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from estimators.montecarlo import (
    MAX_COORDINATES,
    CheckResult,
    NoNet,
    perform,
    perform_on_nets,
    perform_on_strata,
    plan_nets,
    plan_strata,
)
from theory.engine.simulation import Simulation, compared

SEEN = 1e-4
"""Relative error that simulations on nets are asked to see."""

ROUGH = 1e-3
"""The same for simulations on small nets."""

DEEP = 1e-5
"""The same for ``make verify-deep``."""

BLUNT = 1e-2
"""Relative error that plain draws see; nets that see less than that are not worth their cost."""

DEEPER = 8
"""How many times as many coordinates the deep nets of one point's first stage may have."""


@dataclass(frozen=True)
class Performed:
    """Results of a simulation at one point, and how it was performed."""

    results: tuple[CheckResult, ...]
    method: str

    @property
    def seen(self) -> float:
        """The smallest relative error that every check would have caught."""
        return max(r.smallest_detectable for r in self.results)


def performed(simulation: Simulation, value: Any, key: str, root: int, detectable: float = SEEN) -> Performed:
    """The simulation against a claim's value, with the method that sees more.

    Nets that pass and see less than `detectable` are followed by larger ones, whose results count: a claim that is right may
    then be refused by any of them.
    """
    checks, experiment = compared(simulation, value), simulation.experiment
    most = MAX_COORDINATES * (1 if detectable >= SEEN else DEEPER)
    settings: dict[str, Any] = {"root": root, "threads": 1}
    try:
        plan = plan_nets(experiment, checks, key, detectable=detectable, max_coordinates=most, **settings)
        if plan.expected > BLUNT:
            raise NoNet(f"nets of 2^{plan.log2_points} points would see {plan.expected:.1%}")
    except NoNet as why:
        return _performed_roughly(simulation, value, key, settings, str(why))
    size, settings = plan.log2_points, settings | {"averaged": plan.averaged, "detectable": BLUNT}
    results = perform_on_nets(experiment, checks, key, size, **settings)
    while (larger := plan.larger(size, results, detectable)) > size and all(result.passed for result in results):
        size, results = larger, perform_on_nets(experiment, checks, f"{key}#{larger}", larger, **settings)
    return Performed(tuple(results), f"nets of 2^{size} points in {plan.dimensions} dimensions")


def _performed_roughly(simulation: Simulation, value: Any, key: str, settings: dict[str, Any], why: str) -> Performed:
    """On small nets, or on plain draws where these do no better; `why` large nets do not serve."""
    checks, experiment = compared(simulation, value), simulation.experiment
    try:
        plan = plan_strata(experiment, checks, key, detectable=ROUGH, root=settings["root"])
        if plan.expected > BLUNT:
            raise NoNet(f"small nets would see {plan.expected:.1%}")
    except NoNet as neither:
        reason = why if str(neither) == why else f"{why}; {neither}"
        return Performed(tuple(perform(experiment, checks, key, **settings)), f"plain draws ({reason})")
    results = perform_on_strata(experiment, checks, key, plan, detectable=BLUNT, **settings)
    return Performed(tuple(results), f"small nets of 2^{plan.log2_points} points in {plan.dimensions} dimensions ({why})")


def in_words(done: Sequence[Performed]) -> str:
    """How simulations were performed and what each would have seen."""
    return "; ".join(dict.fromkeys(f"{p.method}: an error of {percent(p.seen)} would be seen" for p in done))


def percent(share: float) -> str:
    """A small share to two digits.

    >>> percent(0.00954), percent(4.3e-05)
    ('0.95%', '0.0043%')
    """
    return f"{100 * share:.2g}%"


__all__ = ["DEEP", "ROUGH", "SEEN", "Performed", "in_words", "percent", "performed"]
