"""A claim as Coq theorems: statements generated from the claim, with proof scripts that certificates make short.

What is stated, per claim and case:

- an equality: the printed formula (where it is wrong: the corrected one) equals what the model gives, taken from the
  derivation *before* simplification where that stays readable, so that Coq redoes the algebra;
- a bound or an order: the inequality, through a fraction with non-negative coefficients (or even powers);
- an optimum with an `objective`: no decision beats the claimed one, through the gap as squares;
- a limit with an `approach`: an explicit C with |f(t) - limit| <= C/t for all t >= 1; where it is infinite, C > 0
  and T with t <= C |f(t)|, f(t) being of the limit's sign, for all t >= T;
- a refuted printed formula, and one that needs a condition: its negation, at an exact rational point.

Sizes are real numbers here (at least as large as the smallest size), which proves more than is claimed. A claim's
condition is a hypothesis, as its domain is, and a point of the domain meets all hypotheses of a theorem, or it is not
stated. Nor is an equality whose two sides are the same text: it would prove nothing.

Belongs here: printing terms, building statements and scripts. Does not belong here: files (proof_files.py), running
coqc (checker.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy as sp

from theory.coq.certificates import absolute, between, beyond, nonnegative_form, share_of, some_sign, squares
from theory.coq.setting import CERTIFICATE_SECONDS, Setting, cut, named, setting_of
from theory.coq.terms import (
    NOT_RATIONAL,
    ONE,
    SAME_TEXT,
    SameText,
    Theorem,
    Unprovable,
    comment,
    name_of,
    term,
    wrapped,
)
from theory.engine import domain
from theory.engine.algebra import cancelled, entries, factored, time_limit
from theory.engine.claim import Claim
from theory.engine.condition import alternatives, met, substitutions
from theory.engine.domain import Case
from theory.engine.levels.counterexample import find_counterexample

LARGEST = 900  # operations of an unsimplified formula; beyond, the simplified one is stated


SHOW = "Print Assumptions all_theorems."


def must_be_met(claim: Claim, case: Case, relations: Sequence[Any]) -> None:
    """Refuse to state what no point of the domain meets."""
    if relations and met(claim, case, relations) is None:
        raise Unprovable(f"no point of the domain was found that meets {' and '.join(map(str, relations))}")


def _stated(name: str, says: str, claim: Claim, case: Case, setting: Setting, conclusion: str, script: list[str]) -> Theorem:
    """The theorem, once a point of the domain is known to meet its hypotheses."""
    must_be_met(claim, case, setting.needs)
    return Theorem(name, says, setting.symbols, setting.hypotheses, conclusion, script)


def _identity(name: str, says: str, claim: Claim, case: Case, left: Any, right: Any, conditions: Sequence[Any]) -> Theorem:
    setting = setting_of(claim, case, (left, right), conditions)
    (left, right), lines = named(setting, (left, right))
    script = [*setting.opening, *lines, *setting.fix, "identity."]
    return _stated(name, says, claim, case, setting, f"{term(left)}\n    = {term(right)}", script)


def identity(name: str, says: str, claim: Claim, case: Case, left: Any, right: Any) -> Theorem:
    """The theorem that two rational functions of the claim's letters are equal on its domain."""
    return _identity(name, says, claim, case, left, right, ())


def _inequality(
    name: str, says: str, claim: Claim, case: Case, small: Any, large: Any, conditions: Sequence[Any],
    extra: Mapping[Any, str] | None = None, form: Any = None,
) -> Theorem:  # fmt: skip
    setting = setting_of(claim, case, (small, large), conditions, extra)
    (small, large), lines = named(setting, (small, large))
    parts = claim.shifted(case)
    if form is None and len(parts) > 1:
        gap = (large - small).subs(setting.named).subs(setting.where)
        script = [*setting.opening, *lines, *setting.fix, *_by_parts(claim, case, (small, large), conditions, extra, gap)]
        return _stated(name, says, claim, case, setting, f"{term(small)}\n    <= {term(large)}", script)
    if form is None:
        form = nonnegative_form((large - small).subs(setting.named).subs(setting.where), setting.rules)
    form = between(sp.sympify(form), setting.ends)
    proof = [f"apply (at_most _ _ ({term(form)})); [identity | nonneg]."] if form != 0 else ["right. identity."]
    script = [*setting.opening, *lines, *setting.fix, *setting.shift, *proof]
    return _stated(name, says, claim, case, setting, f"{term(small)}\n    <= {term(large)}", script)


def _by_parts(
    claim: Claim, case: Case, sides: Sequence[Any], conditions: Sequence[Any], extra: Mapping[Any, str] | None, gap: Any
) -> list[str]:
    """Lines that show a gap not to be negative: at once where its sign is plain, or on each part of the domain."""
    try:
        return [f"apply (at_most _ _ ({term(nonnegative_form(gap))})); [identity | nonneg]."]
    except Unprovable:
        there = [setting_of(claim, case, sides, conditions, extra, k) for k, _ in enumerate(claim.shifted(case))]
    lines = cut([s.region for s in there])
    for s in there:
        form = nonnegative_form(gap, s.rules).subs(s.ends, simultaneous=True)
        lines += ["{", *s.shift, f"apply (at_most _ _ ({term(form)})); [identity | nonneg].", "}"]
    return lines


def _optimum(name: str, claim: Claim, case: Case, right: Sequence[Any], conditions: Sequence[Any]) -> Theorem:
    assert claim.objective is not None
    arguments = domain.symbols_of(claim.variables, case)

    def risk(values: Sequence[Any]) -> Any:
        assert claim.objective is not None
        x = tuple(values) if len(right) > 1 else values[0]
        return sp.sympify(claim.call(claim.objective, {**arguments, "x": x}))

    free = {"nonnegative": True} if claim.decision == "nonnegative" else {"real": True}
    decision = [sp.Symbol(f"x{i + 1}" if len(right) > 1 else "x", **free) for i in range(len(right))]
    extra = {x: f"0 <= {x}" if claim.decision == "nonnegative" else "" for x in decision}
    best, any_risk = risk(right), risk(decision)
    form = None
    if len(right) > 1:
        setting = setting_of(claim, case, (best, any_risk), conditions, extra)
        with time_limit(CERTIFICATE_SECONDS):
            form = squares(setting.rewritten(any_risk) - setting.rewritten(best), decision)
    says = "No decision has a smaller risk than the claimed optimum."
    return _inequality(name, says, claim, case, best, any_risk, conditions, extra, form)


def _limit(name: str, claim: Claim, case: Case, value: Any, approach: Any, t: Any, conditions: Sequence[Any]) -> Theorem:
    """|f(t) - limit| <= C/t for t >= T.

    With f - limit = P/Q: C is the sum of |coefficients| of P over the leading one of Q; where Q has negative
    coefficients, twice that, from the T on at which its leading term outweighs them twice.
    """
    setting = setting_of(claim, case, (approach.subs(t, 1), approach.subs(t, 2), value), conditions)
    here, there = setting.rewritten(approach), setting.rewritten(value)
    top, bottom = (sp.Poly(part, t) for part in sp.fraction(cancelled(here - there)))
    if top.degree() >= bottom.degree() and not top.is_zero:
        raise Unprovable("the quantity does not tend to the claimed limit")
    lead = absolute(bottom.LC())
    size = sum((absolute(c) for c in top.all_coeffs()), sp.Integer(0)) / lead
    against = sum((absolute(c, negative_only=True) for c in (bottom * some_sign(bottom.LC())).all_coeffs()),
                  sp.Integer(0)) / lead  # fmt: skip
    shared = factored(sum((share_of(c, i, bottom) for (i,), c in top.terms()), sp.Integer(0)))
    n = sp.Symbol("n_t", nonnegative=True)
    why = Unprovable("no bound")
    for bound, start in ((shared, ONE), (size, ONE), (2 * size, 1 + 2 * against), (2 * size, 2 + 4 * against)):
        bound, start = factored(bound), factored(start)
        gaps = [(bound / t - sign * (here - there)).subs(t, start + n) for sign in (1, -1)]
        try:
            forms = [nonnegative_form(gap).subs(setting.ends, simultaneous=True) for gap in gaps]
            bound, start = (e.subs(setting.ends, simultaneous=True) for e in (bound, start))
        except Unprovable as error:
            why = error
            continue
        script = [
            *setting.opening, *setting.fix, *setting.shift, f"exists ({term(bound)}), ({term(start)}). intros t H_t.",
        ]  # fmt: skip
        if far := start != ONE and approach == factored(approach):  # one fraction, whose denominator is positive from T on
            signs, forms = beyond(t, start, n, [bound / t - sign * (here - there) for sign in (1, -1)])
            script += signs
        script.append("split." if far else f"destruct (above _ t H_t) as [{n} [P_{n} E_{n}]]; subst t. split.")
        script += [f"apply (at_most _ _ ({term(f)})); [identity | nonneg]." if f != 0 else "right. identity." for f in forms]
        f, limit_value = term(approach), term(value)
        conclusion = (
            f"exists C T, forall t, T <= t ->\n    {f} - ({limit_value}) <= C / t /\\\n    {limit_value} - ({f}) <= C / t"
        )
        says = "The quantity is within C/t of the claimed limit from some T on."
        return _stated(name, says, claim, case, setting, conclusion, script)
    raise why


def _growth(name: str, claim: Claim, case: Case, value: Any, approach: Any, t: Any, conditions: Sequence[Any]) -> Theorem:
    """t <= C f(t) for t >= T, or <= -C f(t) where the limit is minus infinity.

    With f = P/Q: C is twice the ratio of Q's leading coefficient to P's, T one more than what the negative coefficients of
    C P - t Q and of Q are, over their leading ones.
    """
    setting = setting_of(claim, case, (approach.subs(t, 1), approach.subs(t, 2)), conditions)
    sign = 1 if value == sp.oo else -1
    here = sign * setting.rewritten(approach)
    top, bottom = (sp.Poly(part, t) for part in sp.fraction(cancelled(here)))
    if top.degree() <= bottom.degree():
        raise Unprovable("the quantity does not grow without bound")
    if some_sign(bottom.LC()) < 0:
        top, bottom = -top, -bottom
    bound = factored(2 * bottom.LC() / top.LC())
    left = sp.Poly(bound * top.as_expr() - t * bottom.as_expr(), t)
    n = sp.Symbol("n_t", nonnegative=True)
    start = ONE
    for p in (left, bottom):
        start += sum((absolute(cancelled(c / p.LC()), negative_only=True) for c in p.all_coeffs()), sp.Integer(0))
    start = factored(start)
    form = nonnegative_form((bound * here - t).subs(t, start + n)).subs(setting.ends, simultaneous=True)
    bound, start = (e.subs(setting.ends, simultaneous=True) for e in (bound, start))
    f = f"({term(approach)})" if sign > 0 else f"- ({term(approach)})"
    script = [
        *setting.opening, *setting.fix, *setting.shift, f"exists ({term(bound)}), ({term(start)}). split; [positive |].",
        f"intros t H_t. destruct (above _ t H_t) as [{n} [P_{n} E_{n}]]; subst t.",
        f"apply (at_most _ _ ({term(form)})); [identity | nonneg].",
    ]  # fmt: skip
    conclusion = f"exists C T, 0 < C /\\ forall t, T <= t ->\n    t <= C * {f}"
    says = "The quantity is without bound: from some T on it is at least t/C."
    return _stated(name, says, claim, case, setting, conclusion, script)


def _refutation(claim: Claim, derived: Any) -> Theorem | None:
    """The printed formula is not the right one: an exact point where they differ. None where the right value there is
    infinite, of which nothing can be said over the reals.
    """
    assert claim.printed is not None
    point = find_counterexample(claim)
    if point is None:
        raise Unprovable("no exact counterexample")
    case = domain.case_of(claim.variables, point)
    rules = domain.substitution(claim.variables, case, point)
    if any(not sp.sympify(v).is_Rational for v in rules.values()):
        raise Unprovable("the counterexample is not a rational point")
    right = claim.symbolic(claim.corrected, case) if claim.corrected else derived(case)
    if all(sp.sympify(r).subs(rules).is_infinite for r in entries(right)):
        return None
    for p, r in zip(entries(claim.symbolic(claim.printed, case)), entries(right), strict=True):
        if p is None:
            continue
        p, r = sp.sympify(p), sp.sympify(r)
        a, b = p.subs(rules), r.subs(rules)
        broken = {"=": a != b, "<=": b > a, ">=": b < a}[claim.relation] if a.is_Rational and b.is_Rational else False
        if not broken:
            continue
        setting = setting_of(claim, case, (p, r))
        sign = {"=": "=", "<=": ">=", ">=": "<="}[claim.relation]
        values = {s: rules[s] for s in setting.symbols}
        script = [
            f"intro H. assert (X := H {' '.join(f'({term(values[s])})' for s in setting.symbols)}).",
            f"assert (A : {_at(p, values)} = {term(a)}) by identity.",
            f"assert (B : {_at(r, values)} = {term(b)}) by identity.",
            "lra.",
        ]
        at = ", ".join(f"{s} = {v}" for s, v in values.items())
        says = f"The printed formula is not the right one: at {at or 'this case'} it is {a}, and {b} is right."
        return Theorem("printed_fails", says, setting.symbols, setting.hypotheses, f"{term(p)}\n    {sign} {term(r)}",
                       script, negated=True)  # fmt: skip
    raise Unprovable(f"the counterexample {NOT_RATIONAL}")


def _at(e: Any, values: Mapping[Any, Any]) -> str:
    """A term with numbers in the places of its letters, otherwise as it stands."""
    text = term(e)
    for s, v in sorted(values.items(), key=lambda item: -len(name_of(item[0]))):
        text = re.sub(rf"\b{name_of(s)}\b", f"({term(v)})", text)
    return text


def is_algebraic(claim: Claim) -> bool:
    """Whether printed and derived values are rational functions (of letters or of nothing) in every case."""
    for case in claim.cases():
        values = [*entries(claim.derived(case))]
        for f in (claim.printed, claim.corrected):
            values += entries(claim.symbolic(f, case)) if f is not None else ()
        for v in values:
            v = None if v is None else sp.sympify(v)
            if v is not None and (not v.is_rational_function() or v.has(sp.oo, sp.zoo, sp.nan)):
                return False
    return True


def theorems(claim: Claim, simplified: bool = False) -> list[Theorem]:
    """All theorems of a claim. Raises Unprovable, naming the case, where one cannot be stated or certified.

    `simplified` states the derivation's simplified result (for derivations whose raw form is too large).
    """

    @_remember
    def derived(case: Case) -> Any:
        def readable(e: Any) -> Any:
            e = sp.sympify(e)
            if simplified or e.count_ops() > LARGEST or e.has(sp.zoo, sp.nan, sp.oo):
                return factored(e)
            return e

        value = claim.derived(case)
        return tuple(map(readable, value)) if isinstance(value, tuple) else readable(value)

    found: list[Theorem] = []
    cases = claim.cases()
    for case in cases:
        label = re.sub(r"[^A-Za-z0-9]+", "_", case.label()).strip("_")
        try:
            found += _of_case(claim, case, derived, label, simplified)
        except Unprovable as error:
            raise Unprovable(f"{error} ({case.label()})" if case.label() else str(error)) from None
        except sp.PolynomialError as error:
            raise Unprovable(f"no certificate: {error} ({case.label() or 'one case'})") from None
    if claim.printed is not None and (claim.condition is not None or claim.corrected is not None):
        failing = _refutation(claim, derived)
        found += [] if failing is None else [failing]
    if not found:
        raise SameText(SAME_TEXT)
    return distinct(found)


def distinct(found: list[Theorem]) -> list[Theorem]:
    """The theorems with a number after names that have occurred: of choices whose labels differ in signs only."""
    seen: dict[str, int] = {}
    for t in found:
        seen[t.name] = seen.get(t.name, 0) + 1
        t.name += f"_{seen[t.name]}" if seen[t.name] > 1 else ""
    return found


def _remember(function: Any) -> Any:
    kept: dict[str, Any] = {}

    def call(case: Case) -> Any:
        if case.label() not in kept:
            kept[case.label()] = function(case)
        return kept[case.label()]

    return call


class Side(NamedTuple):
    """What is to be proved of one entry of a claim: left = right, or left <= right."""

    name: str
    says: str
    relation: str
    left: Any
    right: Any


def formula_of(claim: Claim) -> tuple[Any, str, str]:
    """Which formula a claim's theorems are about, its relation to what the model gives, and what it is called."""
    refuted = claim.corrected is not None and claim.printed is not None and claim.condition is None
    formula = claim.corrected if refuted or claim.printed is None else claim.printed
    relation_ = "=" if refuted or claim.printed is None else claim.relation
    return (
        formula,
        relation_,
        "corrected" if refuted else "printed" if claim.printed is not None and not claim.ours else "claimed",
    )


def ways_of(claim: Claim, case: Case, label: str) -> Iterator[tuple[Sequence[Any], str]]:
    """The conditions under which a claim holds in a case, one set after the other, and what theorems' names end in."""
    ways = [[]] if claim.condition is None else alternatives(claim.symbolic(claim.condition, case))
    for a, conditions in enumerate(ways):
        must_be_met(claim, case, conditions)
        yield conditions, "".join(f"_{part}" for part in (label, f"or{a + 1}" if len(ways) > 1 else "") if part)


def sides_of(
    claim: Claim, case: Case, model: Sequence[Any], conditions: Sequence[Any], end: str, text: Callable[[Any], str] = term
) -> Iterator[Side]:
    """What is to be proved of a claim's entries; nothing of those whose two sides are the same text."""
    formula, relation_, what = formula_of(claim)
    stated = entries(claim.symbolic(formula, case)) if formula is not None else (None,) * len(model)
    where, _ = substitutions(conditions)
    for i, (p, d) in enumerate(zip(stated, model, strict=True), 1):
        if p is None:
            continue
        p, d = sp.sympify(p), sp.sympify(d)
        if p.subs(where) == d.subs(where) or text(p.subs(where)) == text(d.subs(where)):
            continue  # nothing to prove
        name = "holds" + (f"_{i}" if len(model) > 1 else "") + end
        at = "".join(f", where {s} = {v}" for s, v in where.items())
        entry = f" ({claim.entries[i - 1]})" if len(claim.entries) == len(model) and len(model) > 1 else ""
        if relation_ == "=":
            yield Side(name, f"The {what} formula is what the model gives{entry}{at}.", "=", p, d)
        else:
            small, large = (d, p) if relation_ == "<=" else (p, d)
            side = "at most" if relation_ == "<=" else "at least"
            yield Side(name, f"What the model gives is {side} the {what} formula{entry}{at}.", "<=", small, large)


def of_side(side: Side, claim: Claim, case: Case, conditions: Sequence[Any]) -> Theorem:
    """The theorem that a side is about, between rational functions."""
    make = _identity if side.relation == "=" else _inequality
    return make(side.name, side.says, claim, case, side.left, side.right, conditions)


def _of_case(claim: Claim, case: Case, derived: Any, label: str, simplified: bool) -> list[Theorem]:
    found: list[Theorem] = []
    model = entries(derived(case))
    formula, _, _ = formula_of(claim)
    stated = entries(claim.symbolic(formula, case)) if formula is not None else (None,) * len(model)
    for conditions, end in ways_of(claim, case, label):
        found += [of_side(s, claim, case, conditions) for s in sides_of(claim, case, model, conditions, end)]
        right = [sp.sympify(p if p is not None else d) for p, d in zip(stated, model, strict=True)]
        if claim.objective is not None:
            found.append(_optimum("optimal" + end, claim, case, right, conditions))
        if claim.approach is not None:
            t = sp.Symbol("t", positive=True)
            values = entries(claim.call(claim.approach, {**domain.symbols_of(claim.variables, case), "t": t}))
            for i, (v, f) in enumerate(zip(right, values, strict=True), 1):
                if f is None or (f := sp.sympify(f)) == v:
                    continue
                suffix = (f"_{i}" if len(right) > 1 else "") + end
                make = _growth if v in (sp.oo, -sp.oo) else _limit
                found.append(make("limit" + suffix, claim, case, v, factored(f) if simplified else f, t, conditions))
    return found


def source(claim: Claim, proved: Sequence[Theorem], library: str = "Positive") -> str:
    """The text of a claim's Coq file, without its header line; `library` is the file of lemmas that its proofs use."""
    about = [claim.id + ": " + claim.title, claim.place, "", *wrapped(claim.statement)]
    about += ["", "LaTeX, as printed:", *wrapped(claim.latex)] if claim.printed is not None else []
    about += ["", "Condition: " + claim.condition_text] if claim.condition is not None else []
    clean = "\n   ".join(map(comment, about))
    head = f"(* {clean} *)\nRequire Import Borrow.{library}.\nOpen Scope R_scope.\n"
    names = ", ".join(t.name for t in proved)
    tail = f"Definition all_theorems := ({names}).\n{SHOW}\n"
    return "\n".join([head, *(t.render() for t in proved), tail])
