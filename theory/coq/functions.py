"""Claims with exponentials, logarithms, roots and powers as Coq theorems, by Coq's own lemmas on sums and products.

An application of a function is a letter (nodes.py); which applications are sums, products and powers of others is found out
first, and each such equation becomes a step of the script. What is left is algebra in these letters. A function that Coq
does not have (gamma, beta, ...) is any function: what is proved holds whatever it is.

Belongs here: scripts and theorems with functions. Does not belong here: functions as letters and the equations between
them (nodes.py), rational functions, settings and theorems (terms.py, generator.py), inequalities that only enclosures
settle (boxes.py), files (proof_files.py), coqc (checker.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from theory.coq import certificates
from theory.coq.generator import must_be_met
from theory.coq.nodes import Canonical, Terms
from theory.coq.setting import Setting, setting_of
from theory.coq.terms import Theorem, Unprovable, name_of
from theory.engine import domain
from theory.engine.claim import Claim
from theory.engine.condition import met
from theory.engine.domain import Case

LIBRARY = "Functions"


def _equation(canonical: Canonical, terms: Terms, s: Any, name: str, inner: Sequence[str]) -> list[str]:
    """The line that asserts what a node is in canonical ones; nothing where it is one."""
    value = canonical.memory[s]
    left, right = terms.text(s, unfolded=True), terms.text(value, unfolded=True)
    if left == right:
        return []
    given = "".join(f"try rewrite {e}; " for e in inner)
    steps = canonical.proofs[s]
    if terms.nodes[s].kind in ("exp", "power", "ln", "sqrt"):
        lines = [f"assert ({name} : {left} = {right}).", "{ " + given.replace(";", ".").strip()]
        return [
            *lines,
            "  eapply eq_trans.",
            *(f"  {'{ ' if k == 0 else '  '}{x}" for k, x in enumerate(steps)),
            "  }",
            "  counted.",
            "}",
        ]
    return [f"assert ({name} : {left} = {right}) by ({given}{' '.join(steps).rstrip('.')})."]


def rewritten(
    terms: Terms, sides: Sequence[Any], setting: Setting, point: Mapping[Any, Any], test: Any,
    ways: Sequence[tuple[bool, bool]] = ((False, False), (True, True)),
) -> tuple[list[str], Canonical, list[Any]]:  # fmt: skip
    """Lines that turn the functions of a goal into few; what takes them apart, and the sides then.

    Tried are `ways` to take exponentials and logarithms apart: equal arguments only, then sums and products. `test` says
    whether the sides will do.
    """
    where = {k: terms.flat(v) for k, v in setting.where.items()}
    for apart, split in ways:
        canonical = Canonical(terms, where, apart, point, split=split)
        values = [canonical.of(e) for e in sides]
        units = {m: _unit(rs) for m, rs in canonical.seen.items()}
        canonical = Canonical(terms, where, apart, point, units, split)
        values = [canonical.of(e) for e in sides]
        if test(canonical, values):
            return _script(terms, sides, canonical, values, setting), canonical, values
    raise Unprovable("no equations between the functions settle it")


def _unit(rationals: set[Any]) -> Any:
    """The largest rational number of which all are whole multiples."""
    return (
        sp.Rational(sp.igcd(0, *(r.p for r in rationals)), sp.ilcm(1, *(r.q for r in rationals)))
        if rationals
        else sp.Integer(1)
    )


def _script(terms: Terms, sides: Sequence[Any], canonical: Canonical, values: Sequence[Any], setting: Setting) -> list[str]:
    used: list[Any] = []
    for e in sides:
        used += [s for s in terms.inner(e) if s not in used]
    atoms: list[Any] = []
    for v in [*values, *(canonical.memory[s] for s in canonical.memory)]:
        atoms += [s for s in terms.inner(v) if s not in atoms]
    lines = ["unfold Rpower in *."] if any(n.kind == "power" for n in terms.nodes.values()) else []
    lines += facts(terms, [*atoms, *used])
    conditions = [
        name
        for name, text in setting.hypotheses
        if name.startswith("C") and any(text.startswith(f"{name_of(s)} =") for s in setting.where)
    ]
    given, rewrites = list(conditions), []
    ordered: list[Any] = []
    for s in used:
        n = terms.nodes[s]
        if n.kind == "power":
            ordered.append(terms.node("ln", (n.arguments[0],)))
        ordered.append(s)
    for s in dict.fromkeys(ordered):
        name = f"E{len(rewrites) + 1}"
        if s in canonical.memory and (steps := _equation(canonical, terms, s, name, given)):
            lines += steps
            given.insert(0, name)
            rewrites.insert(0, name)
    return [*lines, *(f"try rewrite {e}." for e in [*rewrites, *conditions])]


def facts(terms: Terms, atoms: Sequence[Any], prefix: str = "") -> list[str]:
    """Lines that say which functions are positive, and what roots are."""
    lines: list[str] = []
    for s in dict.fromkeys(atoms):
        n, text = terms.nodes[s], terms.text(s, unfolded=True)
        k = len(lines) + 1
        if n.kind in ("exp", "power"):
            lines.append(f"assert ({prefix}P{k} : 0 < {text}) by apply exp_pos.")
        elif n.kind == "pi":
            lines.append(f"assert ({prefix}P{k} : 0 < PI) by apply PI_RGT_0.")
        elif n.kind == "sqrt":
            inside = terms.text(n.arguments[0], unfolded=True)
            lines.append(f"assert ({prefix}P{k} : 0 < {text}) by (apply sqrt_lt_R0; factor_positive).")
            lines.append(f"assert ({prefix}S{k} : {text} ^ 2 = {inside}) by (apply sqrt_square; factor_positive).")
    return lines


def roots_of(lines: Sequence[str]) -> str:
    """Names of the lines that say what roots are."""
    return " ".join(m[1] for line in lines if (m := re.match(r"assert \((S\d+) :", line)))


def point_at(claim: Claim, case: Case, conditions: Sequence[Any]) -> dict[Any, Any]:
    """Letters' values at a point of the domain that meets the conditions."""
    point = met(claim, case, [*conditions] or [sp.true])
    if point is None:
        raise Unprovable("no point of the domain was found that meets the conditions")
    return domain.substitution(claim.variables, case, point)


def setting_for(terms: Terms, claim: Claim, case: Case, sides: Sequence[Any], conditions: Sequence[Any]) -> Setting:
    """Letters of sides with their domains; one that a derivation brings in may be any number of its kind."""
    letters = set().union(*(terms.letters(e) for e in sides))
    known = {
        s for v in claim.variables if v.kind != "choice" for s in _list(domain.symbols_of(claim.variables, case)[v.name])
    }
    extra = {s: ("0 < " if s.is_positive else "0 <= ") + name_of(s) if s.is_nonnegative else "" for s in
             sorted(letters - known, key=str)}  # fmt: skip
    return setting_of(claim, case, [*sorted(letters & known, key=str)], conditions, extra)


def _list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, list | tuple) else [x]


def bound(terms: Terms, theorem: Theorem) -> Theorem:
    """The theorem for any functions in the places of those that Coq does not have."""
    said = theorem.conclusion + "".join(text for _, text in theorem.hypotheses)
    open_ = {name: count for name, count in terms.others.items() if re.search(rf"\b{name}\b", said)}
    theorem.functions = tuple(f"({name} : {'R -> ' * count}R)" for name, count in open_.items())
    theorem.script = [*([f"intros {' '.join(open_)}."] if open_ else []), *theorem.script]
    return theorem


def equation(name: str, says: str, claim: Claim, case: Case, left: Any, right: Any, conditions: Sequence[Any]) -> Theorem:
    """That two expressions are equal on the domain."""
    terms = Terms()
    sides = [terms.flat(left), terms.flat(right)]
    setting = setting_for(terms, claim, case, sides, conditions)
    must_be_met(claim, case, setting.needs)
    point = point_at(claim, case, conditions)

    def same(canonical: Canonical, values: Sequence[Any]) -> bool:
        return canonical.vanishes(values[0] - values[1])

    lines, _, _ = rewritten(terms, sides, setting, point, same)
    roots = roots_of(lines)
    end = f"first [ solve [ field [{roots}]; nonzero ] | ring [{roots}] | identity ]." if roots else "identity."
    script = [*setting.opening, *lines, end]
    conclusion = f"{terms.text(sides[0])}\n    = {terms.text(sides[1])}"
    return bound(terms, Theorem(name, says, setting.symbols, setting.hypotheses, conclusion, script))


def at_most(name: str, says: str, claim: Claim, case: Case, small: Any, large: Any, conditions: Sequence[Any]) -> Theorem:
    """That one expression is at most another on the domain, where that is plain from the signs of its parts."""
    terms = Terms()
    sides = [terms.flat(small), terms.flat(large)]
    setting = setting_for(terms, claim, case, sides, conditions)
    must_be_met(claim, case, setting.needs)
    point = point_at(claim, case, conditions)
    forms: list[Any] = []

    def plain(canonical: Canonical, values: Sequence[Any]) -> bool:
        gap = values[1] - values[0]
        if canonical.vanishes(gap):
            forms[:] = [sp.Integer(0)]
            return True
        try:
            forms[:] = [certificates.nonnegative_form(gap)]
        except (Unprovable, sp.PolynomialError):
            return False
        return True

    lines, _, _ = rewritten(terms, sides, setting, point, plain)
    roots = roots_of(lines)
    same = f"first [ solve [ field [{roots}]; nonzero ] | ring [{roots}] | identity ]" if roots else "identity"
    text = terms.text(forms[0], unfolded=True)
    end = f"apply (at_most _ _ ({text})); [{same} | nonneg]." if forms[0] != 0 else f"right. {same}."
    conclusion = f"{terms.text(sides[0])}\n    <= {terms.text(sides[1])}"
    script = [*setting.opening, *lines, end]
    return bound(terms, Theorem(name, says, setting.symbols, setting.hypotheses, conclusion, script))


def shown(e: Any) -> str:
    """Coq text of an expression, to be compared with another."""
    terms = Terms()
    return terms.text(terms.flat(e))


__all__ = [
    "LIBRARY",
    "at_most",
    "bound",
    "equation",
    "facts",
    "point_at",
    "rewritten",
    "roots_of",
    "setting_for",
    "shown",
]
