"""The level *simulated*: the model's raw noise against the derived value, with declared error rates.

Belongs here: simulating a claim at its examples, and what is recorded of it.  Does not belong here: what a simulation is and
how it is read (simulation.py), the rule that decides (estimators.montecarlo.checks).
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.engine import exemption, exemption_checks
from theory.engine.algebra import entrywise
from theory.engine.claim import Claim
from theory.engine.domain import Point, as_float
from theory.engine.sampling import SEEN, in_words, performed
from theory.engine.simulation import Simulation

SIMULATED_EXAMPLES = 2


def level(claim: Claim, root: int, detectable: float = SEEN) -> dict[str, Any]:
    """What simulations say of the derived value."""
    if claim.simulate is None:
        refused = exemption_checks.refused(claim, claim.not_simulated, exemption_checks.SIMULATED)
        if refused:
            return {"status": "unknown", "detail": refused}
        return {"status": "not applicable", "detail": exemption.text_of(claim.not_simulated, exemption.SIMULATED)}
    done = []
    for i, example in enumerate(claim.examples[:SIMULATED_EXAMPLES]):
        point = claim.point(example)
        simulation = simulate_at(claim, point)
        if simulation is not None:
            done.append(performed(simulation, derived_floats(claim, point), f"{claim.id}#{i}", root, detectable))
    if not done:
        return {"status": "unknown", "detail": "no example could be simulated"}
    results = [r for p in done for r in p.results]
    failed = [r for r in results if not r.passed]
    blunt = [r for r in results if not r.reached]
    level = {
        "status": "fail" if failed else "unknown" if blunt else "pass",
        "checks": len(results),
        "largest_z": max(abs(r.z) for r in results),
        "smallest_detectable": max(r.smallest_detectable for r in results),
        "replicates": sum(r.reps for r in results),
        "second_stages": sum(r.stages > 1 for r in results),
        "methods": [p.method for p in done],
    }
    level["detail"] = (
        "; ".join(f"{r.label}: {r.estimate:.6g} against the claim, z = {r.z:.2f}" for r in failed)
        if failed
        else f"a check cannot see errors of 1 %, only of {max(r.smallest_detectable for r in blunt):.1%}"
        if blunt
        else f"largest |z| {level['largest_z']:.2f}; {in_words(done)}"
    )
    return level


def simulate_at(claim: Claim, point: Point) -> Simulation | None:
    """The claim's simulation at a point, built without the claim's value (None where there is none)."""
    assert claim.simulate is not None
    return claim.call(claim.simulate, {k: as_float(v) for k, v in point.items()})


def derived_floats(claim: Claim, point: Point) -> Any:
    """The derived value at a point, which simulations are compared with."""
    return entrywise(claim.derived_at(point), lambda v: float(v) if v is not sp.oo else float("inf"))
