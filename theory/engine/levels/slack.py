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
    # A ratio that is stated exactly is not judged by digits.
    derived = claim.derived_digits(point) if "." in claim.tight.ratio else claim.derived_at(point)
    pairs = zip(entries(claim.at(claim.printed, point)), entries(derived), strict=True)
    bound, value = next((sp.sympify(p), sp.sympify(t)) for p, t in pairs if p is not None)
    if not claim.holds_at(point):
        return {"at": at, "wrong": "the point of tight does not meet the condition"}
    if value == 0:
        found = sp.Integer(1) if bound == 0 else sp.oo
    else:
        found = sp.nsimplify(bound / value) if (bound / value).is_Rational else sp.N(bound / value, 30)
    stated = claim.tight.exact
    digits = len(claim.tight.ratio.replace(".", "").lstrip("0")) if "." in claim.tight.ratio else 0
    exact = not digits and found == stated
    if not exact and not (digits >= 6 and abs(found / stated - 1) < sp.Rational(1, 10 ** (min(digits, RATIO_DIGITS) - 1))):
        said = as_text(found) if found.is_Rational else str(sp.N(found, RATIO_DIGITS))
        return {"at": at, "wrong": f"the bound is {said} times what it bounds there, and not {claim.tight.ratio}"}
    return {"at": at, "ratio": claim.tight.ratio, "wrong": ""}
