"""The level *attacked*: a search of the domain, its far ends too, for points that break the verdict.

Belongs here: counting what the points say.  Does not belong here: which points (points.py), mutants (mutated.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy as sp

from theory.engine.algebra import entries
from theory.engine.claim import Claim
from theory.engine.levels.counterexample import violates
from theory.engine.levels.oracle import answer
from theory.engine.levels.points import attack_points

BY_ORACLE = 20  # points that the oracle answers; the others are the derivation's, which costs less


def level(claim: Claim, derived: Mapping[str, Any]) -> dict[str, Any]:
    """What the points of an attack say of the printed formula."""
    if claim.printed is None:
        return {"status": "not applicable", "detail": "the paper prints no formula"}
    tried = inside = broken = excused = 0
    for extreme in (False, True):
        for point in attack_points(claim, extreme):
            try:
                truth = answer(claim, point) if not extreme and tried < BY_ORACLE else claim.derived_digits(point)
                printed = claim.at(claim.printed, point)
            except ZeroDivisionError:
                continue
            if any(x is sp.nan for x in (*entries(printed), *entries(truth))):
                continue
            tried += 1
            holds = claim.holds_at(point)
            inside += holds
            if violates(claim, printed, truth):
                broken += 1
                excused += not holds
    unexcused = broken - excused
    refuted = derived.get("judgement") == "differs"
    if unexcused and not refuted:
        status, detail = (
            "fail",
            f"{unexcused} of {tried} points break the printed formula where it should hold",
        )
    elif not inside:
        status, detail = "unknown", f"none of {tried} points at which both sides have a value meets the condition"
    elif refuted:
        status, detail = "pass", f"fails at {broken} of {tried} points tried"
    elif claim.condition is not None:
        status, detail = "pass", f"{tried} points tried; fails at {excused}, all outside the condition"
    else:
        status, detail = "pass", f"no counterexample among {tried} points"
    return {"status": status, "detail": detail, "points": tried, "broken": broken}
