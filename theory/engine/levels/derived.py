"""The level *derived*: printed against the derivation, as an identity or a sign certificate on the whole domain.

Cases are decided one by one.

Belongs here: whether printed and corrected formula are the derived one, what a condition and a slip of the pen are.  Does
not belong here: deciding that a formula is zero or positive (algebra.py, intervals.py), how loose a bound is (slack.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import sympy as sp

from theory.engine import domain, intervals
from theory.engine.algebra import covers, entries, is_zero, nonnegative
from theory.engine.assumption import contradictions, inherited
from theory.engine.claim import Claim
from theory.engine.condition import alternatives, met, substitutions
from theory.engine.domain import Case, Point, as_text
from theory.engine.levels.counterexample import described, find_counterexample
from theory.engine.levels.points import random_points
from theory.engine.levels.slack import slack

COVER_PER_CASE = 8
SLIP_LEAVES = 2  # a slip of the pen changes at most so many letters or numbers of a formula


def level(claim: Claim) -> dict[str, Any]:
    """What the derivation says of the printed formula."""
    level: dict[str, Any] = {"status": "pass", "steps": len(claim.derivation(claim.cases()[0]).steps)}
    lemmas = dict.fromkeys(x for case in claim.cases() for x in claim.derivation(case).lemmas)
    level["lemmas"] = list(lemmas)  # and every case must derive, whatever the judgement
    answers = inherited(claim, lemmas)
    level["assumes"] = [[a.switch, a.answer, a.by] for a in answers]
    if apart := contradictions(answers):
        return level | {"status": "unknown", "detail": "; ".join(apart)}
    if claim.printed is None:
        level |= {"judgement": "agrees", "detail": "the paper prints no formula; derived here"}
        return level | _check_corrected(claim)
    counterexample = find_counterexample(claim) if claim.condition is not None or claim.corrected else None
    refuted = counterexample is not None and claim.condition is None
    agrees, how = (False, set()) if refuted else _agreement(claim)
    left_out = _left_out(claim) if "signs" in how else None
    if left_out is not None:
        at = ", ".join(f"{k} = {as_text(v)}" for k, v in left_out.items())
        return {"status": "unknown", "detail": f"the sign certificate leaves out a part of the domain, such as {at}"}
    if agrees and claim.relation != "=":
        if claim.tight is None:
            detail = "a bound that holds needs tight: where it is attained, or a witness of its slack"
            return level | {"status": "unknown", "detail": detail}
        level["tight"] = slack(claim)
        if level["tight"]["wrong"]:
            return level | {"status": "fail", "detail": level["tight"]["wrong"]}
    if agrees and claim.condition is None:
        changed = next((e for e in claim.edits if e.changes_value), None)
        if changed is not None:
            detail = f"it agrees only because {changed.printed} is read as {changed.read}, which changes the value"
            return level | {"status": "fail", "detail": detail}
        level |= {"judgement": "agrees", "detail": _agreement_text(claim, how)}
        return level
    counterexample = counterexample or find_counterexample(claim)
    if counterexample is None:
        detail = "no exact counterexample found and no certificate that the printed relation holds"
        return {"status": "unknown", "detail": detail}
    level["counterexample"] = described(claim, counterexample)
    if claim.condition is not None:
        met_at, nowhere = condition_met(claim)
        if nowhere:
            return level | {"status": "fail", "detail": nowhere}
        level["condition_met_at"] = met_at
        if not agrees:
            return level | {
                "status": "fail",
                "detail": f"the printed formula fails even when {claim.condition_text}",
            }
        level["judgement"] = "agrees under the condition"
        level["detail"] = f"{_agreement_text(claim, how)} when {claim.condition_text}"
        return level
    level |= {"judgement": "differs", "detail": "printed minus derived is not zero"}
    if claim.corrected is None:
        return level | {"status": "fail", "detail": "the printed formula fails and no corrected one is given"}
    plain = [c for c in claim.cases() if all(c.choices[v.name] == v.default for v in claim.switches)]
    level["slip"] = bool(claim.slip and plain) and all(_is_slip(claim, case) for case in plain)
    return level | _check_corrected(claim)


def _check_corrected(claim: Claim) -> dict[str, Any]:
    """The corrected formula must be the derived one in every case."""
    for case in claim.cases() if claim.corrected is not None else ():
        assert claim.corrected is not None
        corrected = claim.symbolic(claim.corrected, case)
        if not all(_same(a, b) for a, b in zip(entries(corrected), entries(claim.derived(case)), strict=True)):
            return {
                "status": "fail",
                "detail": f"the corrected formula is not the derived one ({case.label()})",
            }
    return {}


def _agreement(claim: Claim) -> tuple[bool, set[str]]:
    """Whether the printed relation holds wherever the condition does, and what shows it."""
    assert claim.printed is not None
    agrees, how = True, set()
    for case in claim.cases():
        printed, derived = claim.symbolic(claim.printed, case), claim.derived(case)
        # With a condition, what holds outside it does not matter here: the counterexample shows what does not.
        condition = True if claim.condition is None else claim.symbolic(claim.condition, case)
        for relations in alternatives(condition):
            rules, _ = substitutions(relations)
            held, ways = _relation_holds(claim, case, printed, derived, rules)
            agrees &= held
            how |= ways
    return agrees, how


def _agreement_text(claim: Claim, how: set[str]) -> str:
    if claim.relation == "=":
        return "printed minus derived is zero"
    if "intervals" in how:
        return "the bound is certified in ball arithmetic on the whole domain"
    return "sign certificate for the bound" if "signs" in how else "the bound is an equality"


def _same(a: Any, b: Any) -> bool:
    a, b = sp.sympify(a), sp.sympify(b)
    if a is sp.nan or b is sp.nan:  # no value is not a value that agrees
        return False
    return a == b or (a - b != sp.nan and is_zero(a - b))


def _relation_holds(claim: Claim, case: Case, printed: Any, derived: Any, rules: Mapping[Any, Any]) -> tuple[bool, set[str]]:
    """Whether the claimed relation holds for all symbols (after substituting `rules`), and what shows it."""
    if all(p is None for p in entries(printed)):
        raise ValueError("no entry of the formula is printed, so that there is nothing to compare")
    how: set[str] = set()
    for p, d in zip(entries(printed), entries(derived), strict=True):
        if p is None:
            continue
        p, d = (sp.sympify(x).subs(rules) for x in (p, d))
        if _same(p, d):
            continue
        if claim.relation == "=":
            return False, set()
        gap = d - p if claim.relation == ">=" else p - d
        if gap.is_rational_function() and all(nonnegative(gap, shifts) is True for shifts in claim.shifted(case)):
            how.add("signs")
        elif intervals.nonnegative(gap, domain.box(claim.variables, case)) is True:
            how.add("intervals")
        else:
            return False, set()
    return True, how


def _left_out(claim: Claim) -> Point | None:
    """A point of the domain, and of the condition, to which no substitution of the sign certificate leads."""
    for point in (*map(claim.point, claim.examples), *random_points(claim, "cover", COVER_PER_CASE * len(claim.cases()))):
        case = domain.case_of(claim.variables, point)
        values = domain.substitution(claim.variables, case, point)
        if claim.holds_at(point) and not any(covers(shifts, values) for shifts in claim.shifted(case)):
            return point
    return None


def condition_met(claim: Claim) -> tuple[dict[str, Any], str]:
    """A point of the domain that meets the condition, and what is wrong: each of its alternatives must be met somewhere."""
    first: dict[str, Any] = {}
    for case in claim.cases():
        for relations in alternatives(claim.symbolic(claim.condition, case)) if claim.condition else ():
            point = met(claim, case, relations)
            if point is None or not claim.holds_at(point):
                what = " and ".join(map(str, relations)) or claim.condition_text
                where = f" ({case.label()})" if case.label() else ""
                return {}, f"no point of the domain was found at which the condition {what} holds{where}"
            first = first or {k: as_text(v) for k, v in point.items()}
    return first, "" if first else "the condition holds nowhere"


def _leaves(expression: Any) -> Counter[str]:
    return Counter(str(leaf) for leaf in sp.preorder_traversal(sp.sympify(expression)) if not leaf.args)


def _is_slip(claim: Claim, case: Case) -> bool:
    """Whether printed and corrected formula differ in few letters only."""
    assert claim.printed is not None
    assert claim.corrected is not None
    for p, c in zip(
        entries(claim.symbolic(claim.printed, case)),
        entries(claim.symbolic(claim.corrected, case)),
        strict=True,
    ):
        a, b = _leaves(p), _leaves(c)
        if max((a - b).total(), (b - a).total()) > SLIP_LEAVES:
            return False
    return True
