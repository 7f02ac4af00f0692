"""Where a claim's condition holds: its alternatives, its equations as substitutions, points of the domain that meet it.

Belongs here: reading conditions as relations between letters, and points that meet relations. Does not belong here:
judging what holds there (engine.levels), stating it (coq.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import sympy as sp

from theory.engine import domain
from theory.engine.claim import Claim
from theory.engine.domain import Case, DomainError, Point
from theory.engine.values import Values

ONE = sp.Integer(1)
TRIES = 400  # random points per alternative, half of them from the far ends of the domain


def alternatives(condition: Any) -> list[list[Any]]:
    """A condition as alternatives of lists of relations; [] where it is never met, [[]] where it always is.

    >>> a, b = sp.symbols("a b")
    >>> alternatives(sp.Or(sp.Eq(a, 1), sp.And(sp.Eq(a, 2), b > 0)))
    [[Eq(a, 1)], [Eq(a, 2), b > 0]]
    """
    if condition in (True, sp.true):
        return [[]]
    if condition in (False, sp.false):
        return []
    if isinstance(condition, sp.Or):
        return [c for part in condition.args for c in alternatives(part)]
    if isinstance(condition, sp.And):
        found: list[list[Any]] = [[]]
        for part in condition.args:
            found = [[*a, *b] for a in found for b in alternatives(part)]
        return found
    return [[condition]]


def substitutions(relations: Sequence[Any]) -> tuple[dict[Any, Any], list[Any]]:
    """Equations for a letter as substitutions, and what is left of the relations; `false` is left where they contradict.

    >>> a, b = sp.symbols("a b")
    >>> substitutions([sp.Eq(a, b), sp.Eq(b, 2)])
    ({a: 2, b: 2}, [])
    >>> substitutions([sp.Eq(a, 1), sp.Eq(a, 2)])
    ({a: 1}, [False])
    """
    where: dict[Any, Any] = {}
    rest = []
    for r in relations:
        r = r.subs(where)
        pairs = [(r.lhs, r.rhs), (r.rhs, r.lhs)] if isinstance(r, sp.Equality) else []
        old, new = next(((a, b) for a, b in pairs if a.is_Symbol and not b.has(a)), (None, None))
        if old is not None:
            where = {k: v.subs(old, new) for k, v in where.items()} | {old: new}
        elif r not in (True, sp.true):
            rest.append(r)
    return where, rest


def moved(claim: Claim, case: Case, relations: Sequence[Any], point: Point) -> Point | None:
    """The point with the letters that the relations fix set to what they fix; None where the domain ends before that,
    or where the relations still do not hold. Letters of the relations' own (a slack) are 1.
    """  # fmt: skip
    where, _ = substitutions(relations)
    rules = domain.substitution(claim.variables, case, point)
    own = dict.fromkeys(set().union(*(r.free_symbols for r in relations)) - rules.keys(), ONE)
    rules |= own
    at = Values(rules)
    values = rules | {s: at.exact(e) for s, e in where.items()}
    try:
        found = claim.point(domain.point_of(claim.variables, case, values))
    except DomainError:
        return None
    values = own | domain.substitution(claim.variables, case, found)
    if not all(v.is_finite for v in values.values()):
        return None
    at = Values(values)
    return found if all(at.exact(r) == sp.true for r in relations) else None


def met(claim: Claim, case: Case, relations: Sequence[Any]) -> Point | None:
    """A point of the claim's domain at which all relations hold: examples first, then a search (None decides nothing)."""
    found = (moved(claim, case, relations, point) for point in _candidates(claim, case))
    return next((point for point in found if point is not None), None)


def _candidates(claim: Claim, case: Case) -> Iterator[Point]:
    hints = map(claim.point, (*claim.examples, *([claim.counterexample] if claim.counterexample else [])))
    yield from (p for p in hints if domain.case_of(claim.variables, p) == case)
    rng = np.random.default_rng(np.random.SeedSequence([crc32(claim.id.encode()), crc32(b"condition")]))
    for i in range(TRIES):
        yield domain.sample_point(claim.variables, case, rng, extreme=i % 2 == 1)


def on_condition(claim: Claim, point: Point) -> Iterator[Point]:
    """The points to which the claim's condition moves a point; none where there is no condition."""
    if claim.condition is None:
        return
    case = domain.case_of(claim.variables, point)
    for relations in alternatives(claim.symbolic(claim.condition, case)):
        found = moved(claim, case, relations, point)
        if found is not None and found != point and claim.holds_at(found):
            yield found


__all__ = ["alternatives", "met", "moved", "on_condition", "substitutions"]
