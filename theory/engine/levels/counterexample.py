"""Points at which the printed formula fails, in exact numbers.

Belongs here: whether a relation fails at a point, and the search for such a point.  Does not belong here: which points there
are (points.py), what follows from one (derived.py, attacked.py).
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.engine.algebra import entries
from theory.engine.claim import Claim
from theory.engine.domain import Point, as_text
from theory.engine.levels.points import random_points
from theory.engine.values import differs, in_digits

TRIES_PER_CASE = 40


def violates(claim: Claim, printed: Any, truth: Any) -> bool:
    """Whether the claimed relation between printed and true values fails at a point."""
    for p, t in zip(entries(printed), entries(truth), strict=True):
        if p is None or not differs(p, t):
            continue
        if claim.relation == "=":
            return True
        # SymPy compares expressions by expanding them, which takes long; these two are known to differ in 35 digits.
        p, t = (x if x.is_Rational or x in (sp.oo, -sp.oo) else in_digits(x) for x in (sp.sympify(p), sp.sympify(t)))
        if t < p if claim.relation == ">=" else t > p:
            return True
    return False


def find_counterexample(claim: Claim) -> Point | None:
    """The first exact point where printed and derived value break the relation: hints first, then a search."""
    assert claim.printed is not None
    hints = [claim.counterexample] if claim.counterexample else []
    candidates = [claim.point(h) for h in (*hints, *claim.examples)]
    for point in (*candidates, *random_points(claim, "counterexample", TRIES_PER_CASE * len(claim.cases()))):
        try:
            printed, truth = claim.at(claim.printed, point), claim.derived_digits(point)
        except ZeroDivisionError:
            continue
        if any(x is sp.nan for x in (*entries(printed), *entries(truth))):
            continue
        if violates(claim, printed, truth) and (claim.condition is None or not claim.holds_at(point)):
            return point
    return None


def described(claim: Claim, point: Point) -> dict[str, Any]:
    """The point with both values, as text."""
    assert claim.printed is not None
    return {
        "at": {k: as_text(v) for k, v in point.items()},
        "printed": as_text(claim.at(claim.printed, point)),
        "derived": as_text(claim.derived_at(point)),
    }
