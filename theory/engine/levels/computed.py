"""The level *computed*: derivation against the oracle in exact numbers; the float64 function of `estimators` against both.

The function is compared at points and, where it can be run on letters, as a formula.

Belongs here: the two comparisons, how far floats may be off.  Does not belong here: running code on letters (traced.py),
why a claim has no float64 function (exemption.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp

from theory.engine import exemption, exemption_checks
from theory.engine.algebra import entries
from theory.engine.claim import Claim
from theory.engine.domain import Point, as_float, as_text
from theory.engine.levels.counterexample import violates
from theory.engine.levels.oracle import answer
from theory.engine.levels.points import extreme_points, oracle_points
from theory.engine.traced import traced
from theory.engine.values import DIGITS, differs, in_digits

FLOAT_TOLERANCE = 1e-12  # relative; 64-bit closed forms keep 12 of 16 digits on the whole domain


def level(claim: Claim, derived: Mapping[str, Any]) -> dict[str, Any]:
    """What oracle and float64 function say of the derivation."""
    small = oracle_points(claim)
    worst, points_compared = 0.0, 0
    for point in small:
        truth = answer(claim, point)
        other = claim.derived_digits(point)
        pairs = list(zip(entries(truth), entries(other), strict=True))
        if all(a is b and a in (None, sp.nan) for a, b in pairs):
            continue  # no value to compare
        for a, b in pairs:
            if differs(a, b):
                at = {k: as_text(v) for k, v in point.items()}
                detail = f"oracle {as_text(a)} and derivation {as_text(b)} disagree at {at}"
                return {"status": "fail", "detail": detail}
        worst = max(worst, float_error(claim, point, truth))
        points_compared += 1
    if not points_compared:
        return {"status": "unknown", "detail": "oracle and derivation have a value together at no point tried", "points": 0}
    far = extreme_points(claim)
    for point in far if claim.computed is not None else ():
        worst = max(worst, float_error(claim, point, claim.derived_digits(point)))
    level: dict[str, Any] = {
        "status": "pass" if worst <= FLOAT_TOLERANCE else "fail",
        "detail": f"oracle equals derivation at {points_compared} points"
        + (
            f"; float64 within {worst:.1e} of exact"
            if claim.computed is not None
            else f"; {exemption.text_of(claim.not_computed, exemption.COMPUTED)}"
        ),
        "points": points_compared,
        "extreme_points": len(far),
        "largest_relative_error": worst if np.isfinite(worst) else "inf",
    }
    if claim.computed is not None:
        run = traced(claim)
        level["code"] = {"state": run.state, "detail": run.text}
        if run.state == "differs":
            level |= {"status": "fail", "detail": run.text}
    refused = (
        exemption_checks.refused(claim, claim.not_computed, exemption_checks.COMPUTED) if claim.computed is None else ""
    )
    if refused:
        level |= {"status": "unknown", "detail": refused}
    if "counterexample" in derived:
        assert claim.printed is not None
        point = claim.point(derived["counterexample"]["at"])
        level["counterexample_confirmed"] = violates(claim, claim.at(claim.printed, point), answer(claim, point))
    return level


def float_error(claim: Claim, point: Point, truth: Any) -> float:
    """Largest relative error of the float64 function at a point whose coordinates it gets as floats."""
    if claim.computed is None:
        return 0.0
    value = claim.call(claim.computed, {k: as_float(v) for k, v in point.items()})
    values = [float(v) for v in np.atleast_1d(np.asarray(value, float))]
    worst = 0.0
    for got, want in zip(values, entries(truth), strict=True):
        if not np.isfinite(got) and want is not sp.oo:
            worst = np.inf
        elif want is sp.oo or want == 0:
            fine = got == (np.inf if want is sp.oo else 0.0)
            worst = max(worst, 0.0 if fine else np.inf)
        else:
            worst = max(worst, float(abs(sp.Float(got, DIGITS) / in_digits(want) - 1)))
    return worst
