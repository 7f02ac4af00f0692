"""A wrong formula at a point of its model: what it would say there, and the lines that refute it.

Belongs here: negations.  Does not belong here: finding the point (the engine), what holds (``sayings``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import sympy as sp

from theory.coq import model
from theory.coq.frame import Frame, Rules, Said, argument, by_level, members_of, personal_text, rewrite, sizes_text
from theory.coq.sayings import best_of, expression_text, optima_of, say
from theory.coq.terms import Unprovable, name_of, term


def point_text(f: Frame, rules: Mapping[Any, Any]) -> str:
    """The point in words."""
    return ", ".join(f"{s} = {rules[s]}" for s in f.symbols)


def number_at(f: Frame, s: Any, rules: Mapping[Any, Any]) -> str:
    """A letter's number at the point."""
    return f"{rules[s]}%nat" if s in f.sizes else f"({term(rules[s])})"


def there(f: Frame, text: str, rules: Mapping[Any, Any]) -> str:
    """A text with the point's numbers in the places of its letters."""
    for s in sorted(f.symbols, key=lambda s: -len(name_of(s))):
        text = re.sub(rf"\b{name_of(s)}\b(?!%)", number_at(f, s, rules), text)
    for i, _ in members_of(f):
        text = re.sub(rf"(?<![\w%]){i}\b(?!%)", "0%nat", text)
    return text


def instance_at(f: Frame, rules: Mapping[Any, Any]) -> list[str]:
    """Lines that apply what is to be refuted to clients that exist at the point; X is what it says of them."""
    lines = ["intro H."]
    for c in f.clients:
        if c.copies is not None:
            raise Unprovable("copies at a point")
        arguments = " ".join(by_level(x, argument) for x in (c.tau2, c.alpha2, c.nu2))
        exist = there(f, f"clients_exist {len(c.sizes)} {sizes_text(c)} {arguments}", rules)
        lines.append(f"destruct ({exist} ltac:(each_level_exists)) as [{f.space_name(c)} [{f.clients_name(c)} _]].")
    ordered = [*(s for s in f.symbols if s in f.sizes), *(s for s in f.symbols if s not in f.sizes)]
    given = " ".join(number_at(f, s, rules) for s in ordered)
    hypotheses = " ".join("ltac:(at_point)" for _ in f.hypotheses)
    clients = " ".join(f"{f.space_name(c)} {f.clients_name(c)}" for c in f.clients)
    members = " ".join("0%nat" for _ in members_of(f)) + " " + " ".join("ltac:(lia)" for _ in members_of(f))
    return [*lines, f"assert (X := H {given} {hypotheses} {clients} {members}); clear H."]


@singledispatch
def say_no(d: Any, f: Frame, formula: tuple[Any, ...], sign: str, rules: Mapping[Any, Any]) -> Said | None:
    """What is printed, as it would be stated, with lines that refute X; None where it holds at the point."""
    return None


@say_no.register
def _(d: model.Value, f: Frame, formula: tuple[Any, ...], sign: str, rules: Mapping[Any, Any]) -> Said | None:
    (value,) = map(sp.sympify, formula)
    a = sp.sympify(d.expression).subs({r.symbol: r.closed for r in d.risks}).subs(rules)
    b = value.subs(rules)
    if not (a.is_Rational and b.is_Rational) or {"=": a == b, "<=": a <= b, ">=": a >= b}[sign]:
        return None
    letters = best_of(d)
    if not all(isinstance(r.decision, model.LeastCentre | model.LeastClient | model.LeastMixture) for _, r in letters):
        return None
    before, _ = optima_of(f, d, rules)
    left = expression_text(f, d)
    right = term(value)
    conclusion = before + {"=": f"{left}\n      = {right}", "<=": f"{left} <= {right}", ">=": f"{right} <= {left}"}[sign]
    lines = []
    for name, r in letters:  # the optimum is the only one, so that it is the number that is known
        said = say(r.decision, f, (r.closed,), "=", rules)
        proof = [there(f, line, rules) for line in said.lines]
        lines += [f"destruct X as [{name} [Q X]].", f"assert (U : {there(f, said.conclusion, rules)}).", "{", *proof, "}",
                  "rewrite (least_unique _ _ _ _ _ Q U) in X; clear Q U."]  # fmt: skip
        left = re.sub(rf"\b{name}\b", f"({term(r.closed)})", left)
    rewrites = " ".join(there(f, line, rules) for r in d.risks if isinstance(r, model.Risk) for line in rewrite(f, r))
    lines += [
        f"assert (A : {there(f, left, rules)} = {term(a)}) by (unfold ratios; {_joined(rewrites)} algebra).",
        "rewrite A in X. revert X. unfold_levels. intro X. field_simplify in X; lra.",
    ]
    return Said(conclusion, lines, "")


@say_no.register(model.LeastCentre)
@say_no.register(model.LeastClient)
@say_no.register(model.LeastMixture)
def _(d: Any, f: Frame, formula: tuple[Any, ...], sign: str, rules: Mapping[Any, Any]) -> Said | None:
    (value,) = map(sp.sympify, formula)
    best, said = sp.sympify(d.closed).subs(rules), value.subs(rules)
    if sign != "=" or not (best.is_Rational and said.is_Rational) or best == said:
        return None
    right = say(d, f, (d.closed,), "=", rules)
    lines = [
        f"assert (U : {there(f, right.conclusion, rules)}).",
        "{", *(there(f, line, rules) for line in right.lines), "}",
        "assert (Y := least_unique _ _ _ _ _ X U). revert Y. unfold_levels. intro Y. field_simplify in Y; lra.",
    ]  # fmt: skip
    return Said(say(d, f, formula, "=", rules).conclusion, lines, "")


@say_no.register
def _(d: model.BestStrength, f: Frame, formula: tuple[Any, ...], sign: str, rules: Mapping[Any, Any]) -> Said | None:
    (value,) = map(sp.sympify, formula)
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    w = d.weights.per_client(c)[d.level]
    shared = model.Server(c, d.weights).closed - (0 if d.own_noise else w**2 * c.nu2[d.level])
    alpha2, tau2 = c.alpha2[d.level], c.tau2[d.level]
    best = sp.sympify(alpha2 * (1 - w) / (shared + tau2 * (1 - 2 * w) - alpha2 * w)).subs(rules)
    said = value.subs(rules)
    if not (best.is_Rational and said.is_Rational) or best == said:
        return None
    conclusion = say(d, f, formula, sign, Rules(f, {})).conclusion
    lines = [f"cbv zeta in X. destruct (X ({term(best)}) ltac:(lra)) as [Y _]; clear X."]
    for name, lam, text in (("A", said, term(value)), ("B", best, term(best))):
        r = model.Personal(c, d.weights, d.level, lam, d.own_noise)
        risk = f"risk {s} {personal_text(f, c, d.weights, d.level, d.own_noise, f'({text})')} (parameter {m} {d.level} {i})"
        number = r.closed.subs(rules)
        theorem = "client_risk" if d.own_noise else "cleaned_risk"
        rewrite = f"rewrite ({theorem} {m} _ ({there(f, text, rules)})) by side;"
        lines.append(f"assert ({name} : {there(f, risk, rules)} = {term(number)}) by (unfold ratios; {rewrite} algebra).")
    return Said(conclusion, [*lines, "rewrite A, B in Y. lra."], "")


def _joined(lines: str) -> str:
    return lines.replace(" by side.", " by side;")
