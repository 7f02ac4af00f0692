"""How loose a bound is at the point that its claim names.

Belongs here: the check of a claim's `tight`.  Does not belong here: the record (tight.py), whether the bound holds
(derived.py).
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.engine.algebra import entries
from theory.engine.claim import Claim
from theory.engine.domain import as_text

RATIO_DIGITS = 12  # of a bound's stated slack, where it is not rational


def slack(claim: Claim) -> dict[str, Any]:
    """What the claim's `tight` says, checked: the ratio at the point, and what is wrong (empty when all is well)."""
    assert claim.tight is not None
    assert claim.printed is not None
    point = claim.point(claim.tight.at)
    at = {k: as_text(v) for k, v in point.items()}
    tight = claim.tight
    # A ratio that is stated exactly is not judged by digits.
    derived = claim.derived_digits(point) if "." in tight.ratio else claim.derived_at(point)
    pairs = zip(entries(claim.at(claim.printed, point)), entries(derived), strict=True)
    bound, value = next((sp.sympify(p), sp.sympify(t)) for p, t in pairs if p is not None)
    if not claim.holds_at(point):
        return {"at": at, "wrong": "the point of tight does not meet the condition"}
    ratio = bound / value if value != 0 else sp.Integer(1) if bound == 0 else sp.oo
    if not _meets(ratio, tight.ratio):
        return {"at": at, "wrong": f"the bound is {_said(ratio)} times what it bounds there, and not {tight.ratio}"}
    if tight.value and not _meets(bound, tight.value):
        return {"at": at, "wrong": f"the bound is {_said(bound)} there, and not {tight.value}"}
    return {"at": at, "ratio": tight.ratio, "wrong": ""} | ({"value": tight.value} if tight.value else {})


def _said(found: Any) -> str:
    return as_text(found) if found.is_Rational else str(sp.N(found, RATIO_DIGITS))


def _meets(found: Any, stated: str) -> bool:
    """Whether a number is the one stated: exactly, or to the digits of a decimal."""
    read: Any = sp.sympify  # whose annotations know no `rational` for texts
    number = read(stated, rational=True)
    if "." not in stated:
        return bool(found == number)
    digits = len(stated.replace(".", "").lstrip("0"))
    return digits >= 6 and bool(abs(sp.N(found, 30) / number - 1) < sp.Rational(1, 10 ** (min(digits, RATIO_DIGITS) - 1)))
