"""The level *integrated*: exact means of the model's quadratic statistics, by cubature, against the derived value.

Belongs here: which claims it applies to, how far rounding may be off.  Does not belong here: the design
(estimators.montecarlo.cubature), anything random.

What it integrates is the experiment that the level *simulated* draws, through the same kernels: the two are not independent
of each other, and a wrong model there deceives both.  What it adds is that no chance is left, and errors far below a draw's.
"""

from __future__ import annotations

from typing import Any

from estimators.montecarlo.cubature import NotQuadratic, integrate
from theory.engine.claim import Claim
from theory.engine.levels.simulated import SIMULATED_EXAMPLES, derived_floats, simulate_at
from theory.engine.simulation import compared

ROUNDING = 1e-12
"""Relative to the scale of a check, as for float64 functions (``computed``)."""


def level(claim: Claim) -> dict[str, Any]:
    """What exact integration says of the derived value."""
    if claim.simulate is None:
        return {"status": "not applicable", "detail": "it has no statistics of draws"}
    worst, checks, points = 0.0, 0, 0
    for example in claim.examples[:SIMULATED_EXAMPLES]:
        point = claim.point(example)
        simulation = simulate_at(claim, point)
        if simulation is None:
            continue
        try:
            moments = integrate(simulation.experiment)
        except NotQuadratic as why:
            return {"status": "not applicable", "detail": str(why)}
        for check in compared(simulation, derived_floats(claim, point)):
            mean = moments.linear(check.coefficients)[0]
            error = abs(mean - check.expected) / check.scale
            if not error <= ROUNDING:
                detail = f"{check.label}: {mean:.12g} against the claim's {check.expected:.12g}"
                return {"status": "fail", "detail": detail, "checks": checks + 1, "largest_relative_error": error}
            worst, checks = max(worst, error), checks + 1
        points += moments.count
    if not checks:
        return {"status": "unknown", "detail": "no example could be integrated"}
    return {
        "status": "pass", "checks": checks, "largest_relative_error": worst,
        "detail": f"{checks} means by a cubature of degree three on {points} points, within {worst:.1e}",
    }  # fmt: skip
