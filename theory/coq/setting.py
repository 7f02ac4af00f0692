"""The letters and hypotheses of a theorem: a case's variables, conditions, and names for what scripts divide by.

Belongs here: what stands before a theorem's conclusion, and signs that follow from it at a glance.  Does not belong
here: conclusions (``generator``), certificates of inequalities (``certificates``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from theory.coq.terms import Unprovable, is_inverse, name_of, relation, term
from theory.engine import domain
from theory.engine.algebra import factored, time_limit
from theory.engine.claim import Claim
from theory.engine.condition import substitutions
from theory.engine.domain import Case, Variable

CERTIFICATE_SECONDS = 90.0  # of processor time: several times what any needs, for slow machines


@dataclass
class Setting:
    """Quantified letters of a theorem and what is known of them.

    `opening` introduces them; `fix` puts the values that the conditions give to letters (`where`) in their places; `shift`
    replaces the other bounded letters by non-negative ones in the goal (`rules` says by what); `needs` are the conditions
    and the denominators that must not be zero, which a point of the domain has to meet;
    `named` are letters that stand for the inner denominators of the statement, with their simplified values. A letter
    x between two ends is followed through its distances P and Q from them, x = (low Q + high P)/(P + Q); `ends` puts
    x - low and high - x back in their places.
    """

    symbols: list[Any] = field(default_factory=list)
    hypotheses: list[tuple[str, str]] = field(default_factory=list)
    shifts: list[tuple[Any, str]] = field(default_factory=list)
    needs: list[Any] = field(default_factory=list)
    where: dict[Any, Any] = field(default_factory=dict)
    rules: dict[Any, Any] = field(default_factory=dict)
    named: dict[Any, Any] = field(default_factory=dict)
    ends: dict[Any, Any] = field(default_factory=dict)
    region: list[str] = field(default_factory=list)  # the signs that say in which part of the domain the letters are

    @property
    def opening(self) -> list[str]:
        """The script's first line, which introduces all letters and hypotheses."""
        return [f"intros {' '.join([*map(name_of, self.symbols), *(h for h, _ in self.hypotheses)])}."]

    @property
    def fix(self) -> list[str]:
        """The script's lines that put the values of the conditions in their letters' places."""
        return [f"subst {name_of(s)}." for s in self.where]

    @property
    def shift(self) -> list[str]:
        """The script's lines that replace the bounded letters that are left then."""
        return [line for s, line in self.shifts if s not in self.where]

    def require(self, expression: Any) -> None:
        """Add the hypothesis that a term is not zero."""
        text = f"{term(expression)} <> 0"
        if not any(h == text for _, h in self.hypotheses):
            self.hypotheses.append((f"Z{len(self.hypotheses)}", text))
            self.needs.append(sp.Ne(expression, 0))

    def rewritten(self, expression: Any) -> Any:
        """The expression in the letters that hold after `opening` and `shift`."""
        return sp.sympify(expression).subs(self.named).subs(self.where).subs(self.rules, simultaneous=True)


def hypotheses(v: Variable, name: str) -> list[tuple[str, str]]:
    """What a variable's domain says of a letter, each with a name."""
    if v.within is not None:
        low, high = (term(domain.exact(x)) for x in v.within)
        return [(f"H_{name}", f"{low} <= {name} <= {high}")]
    text = {
        "real": None,
        "positive": f"0 < {name}",
        "nonnegative": f"0 <= {name}",
        "size": f"{v.low} <= {name}",
        "fraction": f"0 <= {name} <= 1" if v.closed else f"0 < {name} < 1",
    }[v.kind]
    return [(f"H_{name}", text)] if text else []


def setting_of(
    claim: Claim, case: Case, expressions: Sequence[Any], conditions: Sequence[Any] = (),
    extra: Mapping[Any, str] | None = None, part: int | None = None,
) -> Setting:  # fmt: skip
    """Letters that occur in the expressions or conditions, with their domains as hypotheses.

    Where the claim cuts its domain into parts, each with new letters: those of one `part`, or none.
    """
    occurring = set().union(*(sp.sympify(e).free_symbols for e in (*expressions, *conditions)))
    found = Setting()
    sizes: dict[Any, Any] = {}
    fractions: list[Any] = []
    bounded: dict[Any, tuple[Any, Any]] = {}
    symbols = domain.symbols_of(claim.variables, case)
    for v in claim.variables:
        for s in [] if v.kind == "choice" else symbols[v.name] if v.lengths is not None else [symbols[v.name]]:
            if s in occurring:
                found.symbols.append(s)
                found.hypotheses += hypotheses(v, name_of(s))
                if v.within is not None:
                    bounded[s] = domain.exact(v.within[0]), domain.exact(v.within[1])
                elif v.kind == "size":
                    sizes[s] = v.low
                elif v.kind == "fraction" and v.closed:
                    bounded[s] = sp.Integer(0), sp.Integer(1)
                elif v.kind == "fraction":
                    fractions.append(s)
    for s, bound in (extra or {}).items():
        found.symbols.append(s)
        found.hypotheses += [(f"H_{name_of(s)}", bound)] if bound else []
    # A condition may bring letters of its own: by how much an inequality, solved for a letter, is met.
    brought = set().union(*(c.free_symbols for c in conditions)) - set(found.symbols)
    for s in sorted((s for s in brought if s.is_positive), key=str):
        found.symbols.append(s)
        found.hypotheses.append((f"H_{name_of(s)}", f"0 < {name_of(s)}"))
    unknown = occurring - set(found.symbols)
    if unknown:
        raise Unprovable(f"letters without a domain: {', '.join(sorted(map(str, unknown)))}")
    found.hypotheses += [(f"C{i}", relation(c)) for i, c in enumerate(conditions, 1)]
    found.needs += conditions
    found.where, _ = substitutions(conditions)
    parts = claim.shifted(case)
    for s, e in parts[0].items() if len(parts) == 1 else ():
        if s in found.symbols and s not in {**sizes, **bounded} and s not in fractions:
            _new_letter(found, s, sp.sympify(e))
    if part is not None:
        _new_letters(found, {s: e for s, e in parts[part].items() if s in found.symbols and s not in {**sizes, **bounded}})
    for s in fractions:
        n = sp.Symbol(f"n_{name_of(s)}", positive=True)
        line = f"destruct (between {name_of(s)}) as [{n} [P_{n} E_{n}]]; [lra | subst {name_of(s)}]."
        found.shifts.append((s, line))
        found.rules = {k: v.subs(s, n / (1 + n)) for k, v in found.rules.items()} | {s: n / (1 + n)}
    for s, (low, high) in bounded.items():
        p, q = (sp.Symbol(f"{side}_{name_of(s)}", nonnegative=True) for side in "PQ")
        e = (low * q + high * p) / (p + q)
        found.rules = {k: v.subs(s, e) for k, v in found.rules.items()} | {s: e}
        found.ends |= {p: s - low, q: high - s}
    for s, low in sizes.items():
        n = sp.Symbol(f"n_{name_of(s)}", nonnegative=True)
        line = f"destruct (above {low} {name_of(s)}) as [{n} [P_{n} E_{n}]]; [lra | subst {name_of(s)}]."
        found.shifts.append((s, line))
        found.rules = {k: v.subs(s, low + n) for k, v in found.rules.items()} | {s: low + n}
    return found


def _new_letter(found: Setting, s: Any, e: Any) -> None:
    """Replace s by e, which holds one new non-negative letter (rho = t/(1 + t), ...)."""
    fresh = sorted((x for x in e.free_symbols if x not in found.symbols), key=str)
    solution = sp.solve(sp.together(e - s), fresh[0]) if len(fresh) == 1 else []
    if len(solution) != 1:
        return
    x, new = name_of(s), sp.Symbol(f"n_{name_of(s)}", nonnegative=True)
    e = e.subs(fresh[0], new)
    lines = [
        f"pose ({new} := {term(factored(solution[0]))}).",
        f"assert (P_{new} : 0 <= {new}) by (unfold {new}; nonneg).",
        f"assert (E_{new} : {x} = {term(e)}) by (unfold {new}; field; nonzero).",
        f"clearbody {new}; subst {x}.",
    ]
    found.shifts += [(s, line) for line in lines]
    found.rules[s] = e


def _new_letters(found: Setting, rules: Mapping[Any, Any]) -> None:
    """Replace letters by new ones of a part of the domain, which are not negative there; `region` says so of old ones."""
    fresh = sorted(set().union(*(sp.sympify(e).free_symbols for e in rules.values())) - set(found.symbols), key=str)
    solutions = sp.solve([sp.numer(sp.together(e - s)) for s, e in rules.items()], fresh, dict=True) if rules else [{}]
    if len(solutions) != 1 or set(solutions[0]) != set(fresh):
        raise Unprovable("the letters of a part of the domain do not follow from the claim's")
    new = {x: sp.Symbol(f"n_{x}", nonnegative=True) for x in fresh}
    lines = []
    for x in fresh:
        top, bottom = sp.fraction(sp.together(solutions[0][x]))
        if not bottom.is_number and sp.expand(top).could_extract_minus_sign():
            top, bottom = sp.expand(-top), sp.expand(-bottom)
        found.region.append(f"0 <= {term(sp.expand(top / bottom) if bottom.is_number else top)}")
        if not bottom.is_number:
            found.region.append(f"0 < {term(bottom)}")
        value = term(sp.expand(top / bottom)) if bottom.is_number else f"({term(top)}) / ({term(bottom)})"
        lines += [f"pose ({new[x]} := {value}).", f"assert (P_{new[x]} : 0 <= {new[x]}) by (unfold {new[x]}; nonneg)."]
        lines.append(f"try assert (Q_{new[x]} : 0 < {new[x]}) by (unfold {new[x]}; positive).")
    for s, e in rules.items():
        inside = "".join(f"unfold {new[x]}; " for x in fresh if e.has(x))
        lines.append(f"assert (E_{name_of(s)} : {name_of(s)} = {term(e.subs(new))}) by ({inside}field; nonzero).")
    lines += [f"clearbody {x}." for x in new.values()] + [f"subst {name_of(s)}." for s in rules]
    found.shifts += [(None, line) for line in lines]
    found.rules |= {s: e.subs(new) for s, e in rules.items()}


def cut(regions: Sequence[Sequence[str]]) -> list[str]:
    """Lines that cut the domain into regions: every point of it is in one."""
    atoms = list(dict.fromkeys(sign.split(" ", 2)[2] for region in regions for sign in region))
    both, either = " /\\ ", " \\/ "
    cover = either.join(f"({both.join(region)})" for region in regions)
    cuts = " ".join(f"destruct (Rle_or_lt 0 ({a}));" for a in atoms)
    last = len(regions) - 1
    ways = " | ".join(f"solve [ {'right; ' * k}{'left; ' if k < last else ''}repeat split; lra ]" for k in range(last + 1))
    names = [" ".join(f"W{i}" for i, _ in enumerate(region)) for region in regions]
    names = [f"[{name}]" if " " in name else name for name in names]
    pattern = names[-1]
    for name in reversed(names[:-1]):
        pattern = f"[{name} | {pattern}]"
    return [f"assert (cover : {cover}) by ({cuts} first [ {ways} ]).", f"destruct cover as {pattern}."]


class _Naming:
    """Letters for denominators that hold minus signs or fractions, innermost first, each positive."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.values: dict[Any, Any] = {}  # letter -> what it stands for, in earlier letters
        self.known: dict[Any, Any] = {}
        self.lines: list[str] = []

    def flat(self, e: Any) -> Any:
        """The expression with its inner denominators replaced by letters."""
        if not e.args or e.is_Rational:
            return e
        args = [self.flat(a) for a in e.args]
        e = e.func(*args)
        if is_inverse(e) and e.base.free_symbols:
            parts = [self._divisor(f) ** e.exp for f in sp.Mul.make_args(e.base)]
            return sp.Mul(*parts)
        return e

    def _divisor(self, d: Any) -> Any:
        if isinstance(d, sp.Pow) and d.exp.is_Integer:
            return self._divisor(d.base) ** d.exp
        if d.is_Number or not d.free_symbols or (structural(d) and not (isinstance(d, sp.Add) and self._hides_a_sign(d))):
            return d
        if d in self.known:
            return self.known[d]
        with time_limit(CERTIFICATE_SECONDS):
            form = factored(d.subs(self.setting.named))
        sign = self._sign(form)
        if form == d and sign > 0:
            return d
        v = sp.Symbol(f"v{len(self.values) + 1}", positive=True)
        self.values[v] = d if sign > 0 else sp.expand_mul(-d)
        self.setting.named[v] = form if sign > 0 else factored(-form)
        self.known[d] = v if sign > 0 else -v
        return self.known[d]

    def _hides_a_sign(self, d: Any) -> bool:
        """Whether a term holds a letter that stands for what is positive, but not at a glance."""
        return any(not structural(sp.fraction(self.setting.named[v])[0]) for v in d.free_symbols & self.values.keys())

    def _sign(self, form: Any) -> int:
        """Sign of a fraction. A factor whose sign takes new letters to see becomes a lemma; one that can vanish, or whose
        sign is unknown, must not be zero by hypothesis: there the formula has no value.
        """  # fmt: skip
        sign = 1
        for factor in sp.Mul.make_args(form):
            base, power = (factor.base, factor.exp) if isinstance(factor, sp.Pow) else (factor, sp.Integer(1))
            if base.is_Number:
                one = 1 if base > 0 else -1
            elif structural(base):
                one = 1
            else:
                one = self._lemma(base)
            sign *= one if power % 2 else 1
        return sign

    def _lemma(self, base: Any) -> int:
        shifted = factored(base.subs(self.setting.rules, simultaneous=True))
        sign, positive = 1, sp.Integer(1)
        for factor in sp.Mul.make_args(shifted):
            part, power = (factor.base, factor.exp) if isinstance(factor, sp.Pow) else (factor, sp.Integer(1))
            one = (1 if part > 0 else -1) if part.is_Number else coefficient_sign(sp.expand(part))
            if one is None or not structural(part := part if one > 0 else sp.expand(-part)):
                self.setting.require(sp.expand(base))
                return 1
            sign *= one if power % 2 else 1
            positive *= part**power
        text = term(sp.expand(base if sign > 0 else -base))
        shown = term(positive.subs(self.setting.ends, simultaneous=True))
        steps = "".join(s.rstrip(".").replace(". ", "; ") + "; " for _, s in self.setting.shifts)
        line = f"by (apply not_zero; {steps}apply (same_sign _ ({shown})); [identity | positive])."
        if not any(f" : {text} <> 0)" in known for known in self.lines):
            self.lines.append(f"assert (D{len(self.lines) + 1} : {text} <> 0) {line}")
        return sign


def structural(e: Any) -> bool:
    """Whether a term is positive at a glance: sums and products of positive letters, some of them non-negative."""
    if e.is_Symbol or e.is_Number:
        return bool(e.is_positive)
    if isinstance(e, sp.Add):
        return all(structural(a) or _nonnegative_at_a_glance(a) for a in e.args) and any(map(structural, e.args))
    if isinstance(e, sp.Mul):
        return all(map(structural, e.args))
    return isinstance(e, sp.Pow) and e.exp.is_Integer and structural(e.base)


def _nonnegative_at_a_glance(e: Any) -> bool:
    if e.is_Symbol or e.is_Number:
        return bool(e.is_nonnegative)
    if isinstance(e, sp.Pow) and e.exp.is_Integer:
        return structural(e.base) or (e.exp > 0 and (e.exp % 2 == 0 or _nonnegative_at_a_glance(e.base)))
    return isinstance(e, sp.Add | sp.Mul) and all(map(_nonnegative_at_a_glance, e.args))


def coefficient_sign(polynomial: Any) -> int | None:
    """+1 or -1 where all coefficients have that sign and the letters are not negative; else None."""
    symbols = sorted(polynomial.free_symbols, key=str)
    if not symbols:
        return 1 if polynomial > 0 else -1 if polynomial < 0 else None
    if any(s.is_nonnegative is not True for s in symbols):
        return None
    coefficients = sp.Poly(polynomial, *symbols).coeffs()
    return 1 if all(c > 0 for c in coefficients) else -1 if all(c < 0 for c in coefficients) else None


def named(setting: Setting, expressions: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """The expressions with letters for difficult denominators, which the setting then quantifies; lines that prove them."""
    naming = _Naming(setting)
    flat = [naming.flat(sp.sympify(e)) for e in expressions]
    lines = list(naming.lines)
    for v, value in naming.values.items():
        setting.symbols.append(v)
        setting.hypotheses.append((f"L_{v}", f"{v} = {term(value)}"))
        before = [u for u in naming.values if u in sp.sympify(value).free_symbols]
        rewrite = "".join(f"rewrite V_{u}; " for u in before)
        lines.append(f"assert (V_{v} : {v} = {term(setting.named[v])}) by (rewrite L_{v}; {rewrite}identity).")
    if naming.values:
        lines.append(" ".join(f"clear L_{v}." for v in naming.values))
        lines.append(" ".join(f"subst {v}." for v in naming.values))
    return flat, lines
