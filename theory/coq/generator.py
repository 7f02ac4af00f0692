"""A claim as Coq theorems: statements generated from the claim, with proof scripts that certificates make short.

What is stated, per claim and case:

- an equality: the printed formula (where it is wrong: the corrected one) equals what the model gives, taken from the
  derivation *before* simplification where that stays readable, so that Coq redoes the algebra;
- a bound or an order: the inequality, through a fraction with non-negative coefficients (or even powers);
- an optimum with an `objective`: no decision beats the claimed one, through the gap as squares;
- a limit with an `approach`: an explicit C with |f(t) - limit| <= C/t for all t >= 1;
- a refuted printed formula, and one that needs a condition: its negation, at an exact rational point.

Sizes are real numbers here (at least as large as the smallest size), which proves more than is claimed. A claim's
condition is a hypothesis, as its domain is, and a point of the domain meets all hypotheses of a theorem, or it is not
stated. Nor is an equality whose two sides are the same text: it would prove nothing.

Belongs here: printing terms, building statements and scripts. Does not belong here: files, running coqc (prove.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sympy as sp

from theory.engine import domain
from theory.engine.algebra import entries, time_limit
from theory.engine.claim import Claim
from theory.engine.condition import alternatives, met, substitutions
from theory.engine.domain import Case, Variable
from theory.engine.judging import find_counterexample

ONE = sp.Integer(1)
LARGEST = 900  # operations of an unsimplified formula; beyond, the simplified one is stated
CERTIFICATE_SECONDS = 30.0
SHOW = "Print Assumptions all_theorems."
RESERVED = {"as", "at", "cofix", "else", "end", "exists", "fix", "for", "forall", "fun", "if", "in", "let", "match", "mod",
            "return", "then", "using", "where", "with", "R", "IZR", "sqrt", "Type", "Set", "Prop"}  # fmt: skip
NOT_RATIONAL = "is not a rational function"
SAME_TEXT = "both sides are the same text"


def in_factors(expression: Any) -> Any:
    """SymPy's `factor`, which by its annotations gives what no arithmetic is defined for."""
    return sp.factor(expression)


class Unprovable(Exception):
    """A claim, or a case of it, that cannot be stated or certified here; the message says why."""


class SameText(Unprovable):
    """A claim of which nothing can be stated but that something equals itself."""


# --- terms ---------------------------------------------------------------------------------------------------------


def name_of(symbol: Any) -> str:
    """A Coq identifier for a symbol."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", str(symbol)).lstrip("_") or "x"
    return text + "_" if text in RESERVED else text


def term(expression: Any) -> str:
    """A rational function as a Coq term over the reals.

    >>> x, y = sp.symbols("x y")
    >>> term((x - 1) / (2 * y**2) - 3 * x)
    '(x - 1) / (2 * y ^ 2) - 3 * x'
    """
    return _term(sp.sympify(expression), 0)


def _term(e: Any, level: int) -> str:
    """Text of a term in a context: 0 anywhere, 1 after a plus or minus, 2 factor, 3 divisor or base of a power."""
    if e.is_Rational:
        text = str(e.p) if e.q == 1 else f"{e.p} / {e.q}"
        return f"({text})" if (e.p < 0 and level > 0) or (e.q != 1 and level > 1) else text
    if e.is_Symbol:
        return name_of(e)
    if isinstance(e, sp.Add):
        parts = sorted(e.args, key=lambda a: a.could_extract_minus_sign())  # stable: positive terms first
        text = _term(parts[0], 0 if parts[0].could_extract_minus_sign() and not isinstance(parts[0], sp.Add) else 1)
        for part in parts[1:]:
            minus = part.could_extract_minus_sign() and not isinstance(part, sp.Add)
            text += f" - {_term(-part, 2 if isinstance(-part, sp.Add) else 1)}" if minus else f" + {_term(part, 1)}"
        return f"({text})" if level > 1 else text
    if e.is_Mul:
        number, rest = e.as_coeff_mul()
        above = [sp.Integer(abs(number.p))] if abs(number.p) != 1 else []
        below = [sp.Integer(number.q)] if number.q != 1 else []
        above += [f for f in rest if not _is_inverse(f)]
        below += [1 / f for f in rest if _is_inverse(f)]
        text = " * ".join(_term(f, 2) for f in above) or "1"
        if below:
            bottom = " * ".join(_term(f, 2) for f in below)
            text = (
                (f"({text})" if len(above) > 1 else text) + " / " + (f"({bottom})" if len(below) > 1 else _term(below[0], 3))
            )
        if number < 0:
            return f"(- {text})" if level > 0 else f"- {text}"
        return f"({text})" if level > 2 or (below and level > 1) else text
    if isinstance(e, sp.Pow) and e.exp.is_Integer:
        if e.exp < 0:
            text = "1 / " + _term(1 / e, 3)
            return f"({text})" if level > 1 else text
        text = f"{_term(e.base, 4)} ^ {e.exp}"
        return f"({text})" if level > 3 else text
    raise Unprovable(f"{e.func.__name__} {NOT_RATIONAL}")


def _is_inverse(f: Any) -> bool:
    return isinstance(f, sp.Pow) and bool(f.exp.is_Integer and f.exp < 0)


def relation(r: Any) -> str:
    """A SymPy relation between rational functions as a Coq proposition."""
    signs = {sp.Eq: "=", sp.Ne: "<>", sp.Lt: "<", sp.Le: "<=", sp.Gt: ">", sp.Ge: ">="}
    for kind, sign in signs.items():
        if isinstance(r, kind):
            return f"{term(r.lhs)} {sign} {term(r.rhs)}"
    raise Unprovable(f"{r} is not a relation")


# --- theorems --------------------------------------------------------------------------------------------------------


@dataclass
class Theorem:
    """A statement and its script."""

    name: str
    says: str
    variables: Sequence[Any]
    hypotheses: Sequence[tuple[str, str]]
    conclusion: str
    script: list[str]
    negated: bool = False
    functions: Sequence[str] = ()

    def render(self) -> str:
        """Coq text."""
        body = "".join(f"{h} ->\n    " for _, h in self.hypotheses) + self.conclusion
        if self.variables:
            body = f"forall {' '.join(name_of(v) for v in self.variables)} : R,\n    {body}"
        if self.functions:
            body = f"forall {' '.join(self.functions)},\n    {body}"
        if self.negated:
            body = f"~ ({body})"
        script = "\n".join(f"  {line}" for line in self.script)
        named = [str(v) for v in self.variables if f"L_{v}" in dict(self.hypotheses)]
        says = self.says + (f" Here {', '.join(named)} name inner denominators." if named else "")
        return f"(* {comment(says)} *)\nTheorem {self.name} :\n  {body}.\nProof.\n{script}\nQed.\n"


def comment(text: str) -> str:
    """Text that may stand in a comment."""
    return text.replace("(*", "( *").replace("*)", "* )").replace('"', "''")


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
        f"pose ({new} := {term(sp.factor(solution[0]))}).",
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


def _cut(regions: Sequence[Sequence[str]]) -> list[str]:
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


# --- denominators ----------------------------------------------------------------------------------------------------


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
        if _is_inverse(e) and e.base.free_symbols:
            parts = [self._divisor(f) ** e.exp for f in sp.Mul.make_args(e.base)]
            return sp.Mul(*parts)
        return e

    def _divisor(self, d: Any) -> Any:
        if isinstance(d, sp.Pow) and d.exp.is_Integer:
            return self._divisor(d.base) ** d.exp
        if d.is_Number or structural(d) or not d.free_symbols:
            return d
        if d in self.known:
            return self.known[d]
        with time_limit(CERTIFICATE_SECONDS):
            form = in_factors(sp.cancel(sp.together(d.subs(self.setting.named))))
        sign = self._sign(form)
        if form == d and sign > 0:
            return d
        v = sp.Symbol(f"v{len(self.values) + 1}", positive=True)
        self.values[v] = d if sign > 0 else sp.expand_mul(-d)
        self.setting.named[v] = form if sign > 0 else in_factors(-form)
        self.known[d] = v if sign > 0 else -v
        return self.known[d]

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
        shifted = in_factors(sp.cancel(sp.together(base.subs(self.setting.rules, simultaneous=True))))
        sign, positive = 1, sp.Integer(1)
        for factor in sp.Mul.make_args(shifted):
            part, power = (factor.base, factor.exp) if isinstance(factor, sp.Pow) else (factor, sp.Integer(1))
            one = (1 if part > 0 else -1) if part.is_Number else _coefficient_sign(sp.expand(part))
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


def _coefficient_sign(polynomial: Any) -> int | None:
    """+1 or -1 where all coefficients have that sign and the letters are not negative; else None."""
    symbols = sorted(polynomial.free_symbols, key=str)
    if not symbols:
        return 1 if polynomial > 0 else -1 if polynomial < 0 else None
    if any(s.is_nonnegative is not True for s in symbols):
        return None
    coefficients = sp.Poly(polynomial, *symbols).coeffs()
    return 1 if all(c > 0 for c in coefficients) else -1 if all(c < 0 for c in coefficients) else None


def _named(setting: Setting, expressions: Sequence[Any]) -> tuple[list[Any], list[str]]:
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


# --- the kinds of statement --------------------------------------------------------------------------------------------


def must_be_met(claim: Claim, case: Case, relations: Sequence[Any]) -> None:
    if relations and met(claim, case, relations) is None:
        raise Unprovable(f"no point of the domain was found that meets {' and '.join(map(str, relations))}")


def _stated(name: str, says: str, claim: Claim, case: Case, setting: Setting, conclusion: str, script: list[str]) -> Theorem:
    """The theorem, once a point of the domain is known to meet its hypotheses."""
    must_be_met(claim, case, setting.needs)
    return Theorem(name, says, setting.symbols, setting.hypotheses, conclusion, script)


def _identity(name: str, says: str, claim: Claim, case: Case, left: Any, right: Any, conditions: Sequence[Any]) -> Theorem:
    setting = setting_of(claim, case, (left, right), conditions)
    (left, right), lines = _named(setting, (left, right))
    script = [*setting.opening, *lines, *setting.fix, "identity."]
    return _stated(name, says, claim, case, setting, f"{term(left)}\n    = {term(right)}", script)


def identity(name: str, says: str, claim: Claim, case: Case, left: Any, right: Any) -> Theorem:
    """The theorem that two rational functions of the claim's letters are equal on its domain."""
    return _identity(name, says, claim, case, left, right, ())


def factored(expression: Any) -> Any:
    """A rational function as one cancelled fraction of factored polynomials, by arithmetic in the field of fractions."""
    expression = sp.sympify(expression)
    symbols = sorted(expression.free_symbols, key=str)
    if not symbols:
        return sp.cancel(expression)
    try:
        fraction = sp.QQ.frac_field(*symbols).from_sympy(expression)
    except ValueError:  # powers of sums inside, which the field does not read
        return sp.factor(sp.cancel(sp.together(expression)))
    return in_factors(fraction.numer.as_expr()) / in_factors(fraction.denom.as_expr())


def nonnegative_form(gap: Any, rules: Mapping[Any, Any] | None = None) -> Any:
    """An equal fraction whose sign is plain: factors with non-negative coefficients, or to even powers.

    `rules` replace bounded letters by non-negative ones. Where the factors' signs are plain without them, each factor
    gets its new letters by itself, which saves expanding (1 + n)^k.
    """
    with time_limit(CERTIFICATE_SECONDS):
        gap = sp.sympify(gap)
        if rules:
            try:
                return _plain(factored(gap)).subs(rules, simultaneous=True)
            except Unprovable:
                gap = gap.subs(rules, simultaneous=True)
        return _plain(factored(gap))


def _plain(gap: Any) -> Any:
    """A product with every factor's minus sign taken out. Raises Unprovable where a sign is not plain, or is negative."""
    if gap == 0:
        return gap
    sign, found = 1, sp.Integer(1)
    for factor in sp.Mul.make_args(gap):
        base, power = (factor.base, factor.exp) if isinstance(factor, sp.Pow) else (factor, sp.Integer(1))
        if base.is_Number:
            sign *= 1 if factor > 0 else -1
            found *= abs(factor)
            continue
        one = _coefficient_sign(sp.expand(base))
        if one is None and power % 2:
            squares = _completed(sp.expand(base)) or _completed(sp.expand(-base))
            if squares is None or power != 1:
                raise Unprovable(f"the sign of {base} is not plain")
            sign *= 1 if _completed(sp.expand(base)) is not None else -1
            found *= squares
            continue
        if one == -1 and power % 2:
            sign = -sign
        found *= (base if one != -1 else sp.expand(-base)) ** power
    if sign < 0:
        raise Unprovable("the relation fails everywhere: the gap is negative")
    return found


def _completed(polynomial: Any, depth: int = 4) -> Any:
    """A polynomial as squares plus terms with non-negative coefficients, by completing squares; None where that fails."""
    if polynomial == 0 or _coefficient_sign(polynomial) == 1:
        return polynomial
    if depth == 0:
        return None
    for x in sorted(polynomial.free_symbols, key=str):
        p = sp.Poly(polynomial, x)
        if p.degree() != 2 or _coefficient_sign(sp.expand(p.LC())) != 1:
            continue
        a, b, c = p.all_coeffs()
        rest = sp.cancel(sp.together(c - b**2 / (4 * a)))
        top, bottom = sp.fraction(rest)
        sign = _coefficient_sign(sp.expand(bottom))
        inner = None if sign is None else _completed(sp.expand(sign * top), depth - 1)
        if inner is not None:
            return a * in_factors(x + b / (2 * a)) ** 2 + inner / (sign * bottom)
    return None


def _inequality(
    name: str, says: str, claim: Claim, case: Case, small: Any, large: Any, conditions: Sequence[Any],
    extra: Mapping[Any, str] | None = None, form: Any = None,
) -> Theorem:  # fmt: skip
    setting = setting_of(claim, case, (small, large), conditions, extra)
    (small, large), lines = _named(setting, (small, large))
    parts = claim.shifted(case)
    if form is None and len(parts) > 1:
        gap = (large - small).subs(setting.named).subs(setting.where)
        script = [*setting.opening, *lines, *setting.fix, *_by_parts(claim, case, (small, large), conditions, extra, gap)]
        return _stated(name, says, claim, case, setting, f"{term(small)}\n    <= {term(large)}", script)
    if form is None:
        form = nonnegative_form((large - small).subs(setting.named).subs(setting.where), setting.rules)
    form = sp.sympify(form).subs(setting.ends, simultaneous=True)
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
    lines = _cut([s.region for s in there])
    for s in there:
        form = nonnegative_form(gap, s.rules).subs(s.ends, simultaneous=True)
        lines += ["{", *s.shift, f"apply (at_most _ _ ({term(form)})); [identity | nonneg].", "}"]
    return lines


def _squares(gap: Any, decision: Sequence[Any]) -> Any:
    """A gap that is quadratic in the decision, zero at its minimum, as a sum of multiples of squares."""
    rest, below = sp.fraction(sp.cancel(sp.together(gap)))
    total = sp.Integer(0)
    for x in decision:
        polynomial = sp.Poly(rest, x)
        if polynomial.degree() <= 0:
            continue
        if polynomial.degree() != 2 or below.has(x):
            raise Unprovable(f"the objective is not quadratic in {x}")
        a, b, c = polynomial.all_coeffs()
        total += in_factors(a / below) * in_factors(x + b / (2 * a)) ** 2
        rest = sp.cancel(c - b**2 / (4 * a))
    if rest != 0:
        raise Unprovable("the gap is not zero at the claimed optimum")
    return total


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
            form = _squares(setting.rewritten(any_risk) - setting.rewritten(best), decision)
    says = "No decision has a smaller risk than the claimed optimum."
    return _inequality(name, says, claim, case, best, any_risk, conditions, extra, form)


def _limit(name: str, claim: Claim, case: Case, value: Any, approach: Any, t: Any, conditions: Sequence[Any]) -> Theorem:
    """|f(t) - limit| <= C/t for t >= T.

    With f - limit = P/Q: C is the sum of |coefficients| of P over the leading one of Q; where Q has negative
    coefficients, twice that, from the T on at which its leading term outweighs them twice.
    """
    setting = setting_of(claim, case, (approach.subs(t, 1), approach.subs(t, 2), value), conditions)
    here, there = setting.rewritten(approach), setting.rewritten(value)
    top, bottom = (sp.Poly(part, t) for part in sp.fraction(sp.cancel(sp.together(here - there))))
    if top.degree() >= bottom.degree() and not top.is_zero:
        raise Unprovable("the quantity does not tend to the claimed limit")
    lead = absolute(bottom.LC())
    size = sum((absolute(c) for c in top.all_coeffs()), sp.Integer(0)) / lead
    against = sum((absolute(c, negative_only=True) for c in (bottom * _some_sign(bottom.LC())).all_coeffs()),
                  sp.Integer(0)) / lead  # fmt: skip
    shared = sp.factor(sum((_share(c, i, bottom) for (i,), c in top.terms()), sp.Integer(0)))
    n = sp.Symbol("n_t", nonnegative=True)
    why = Unprovable("no bound")
    for bound, start in ((shared, ONE), (size, ONE), (2 * size, 1 + 2 * against), (2 * size, 2 + 4 * against)):
        bound, start = sp.factor(bound), sp.factor(start)
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
            signs, forms = _from(t, start, n, [bound / t - sign * (here - there) for sign in (1, -1)])
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


def _from(t: Any, start: Any, n: Any, gaps: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Gaps as products of factors that are positive from a start on, and lines that say so of those that need it."""
    lines = [f"assert (P_t : 0 < {t}) by (apply Rlt_le_trans with ({term(start)}); [positive | exact H_t])."]
    forms = []
    known: dict[Any, Any] = {}
    plain = {f.as_base_exp()[0] for gap in gaps for f in sp.Mul.make_args(sp.fraction(factored(gap))[1])}
    for k, b in enumerate(sorted((b for b in plain if structural(sp.expand(b)) and not b.is_number), key=str)):
        lines.append(f"assert (N{k} : {term(sp.expand(b))} <> 0) by (apply not_zero; positive).")
    for gap in gaps:
        shown = sp.Integer(1)
        for factor in sp.Mul.make_args(factored(gap)):
            base, power = factor.as_base_exp()
            if base.is_Number:
                shown *= abs(factor)
                continue
            if not structural(sp.expand(base)) and base not in known:
                at = factored(base.subs(t, start + n))
                try:
                    form, known[base] = _plain(at), base
                except Unprovable:
                    form, known[base] = _plain(factored(-at)), sp.expand(-base)
                known[base] = sp.expand(known[base])
                there = f"destruct (above _ t H_t) as [{n} [P_{n} E_{n}]]; subst t"
                by = f"{there}; apply (same_sign _ ({term(form)})); [identity | positive]"
                lines.append(f"assert (F{len(known)} : 0 < {term(known[base])}) by ({by}).")
                lines.append(f"assert (G{len(known)} := not_zero _ F{len(known)}).")
            shown *= known.get(base, base) ** power
        forms.append(shown)
    return lines, forms


def _some_sign(coefficient: Any) -> int:
    """Sign of a polynomial's first coefficient."""
    symbols = sorted(coefficient.free_symbols, key=str)
    return 1 if (sp.Poly(coefficient, *symbols).coeffs()[0] if symbols else coefficient) > 0 else -1


def _share(c: Any, i: int, bottom: Any) -> Any:
    """A bound of c t^(i+1) over the denominator for t >= 1: through the first coefficient of a later power that leaves a
    divisor without zeros, for the leading one may vanish.
    """  # fmt: skip
    later = [b for (k,), b in reversed(bottom.terms()) if k > i]
    shares = [sp.factor(absolute(c) / absolute(b)) for b in later]
    return next((s for s in shares if structural(sp.expand(sp.fraction(s)[1]))), shares[-1] if shares else sp.Integer(0))


def absolute(p: Any, negative_only: bool = False) -> Any:
    """A polynomial of non-negative letters with its coefficients' absolute values (of the negative ones only)."""
    symbols = sorted(p.free_symbols, key=str)
    if not symbols:
        return abs(p) if p < 0 or not negative_only else sp.Integer(0)
    top, bottom = sp.fraction(sp.together(p))
    return sp.Add(*(abs(c) * sp.Mul(*(s**k for s, k in zip(symbols, powers, strict=True)))
                    for powers, c in sp.Poly(top, *symbols).terms() if c < 0 or not negative_only)) / bottom  # fmt: skip


def _refutation(claim: Claim, derived: Any) -> Theorem:
    """The printed formula is not the right one: an exact point where they differ."""
    assert claim.printed is not None
    point = find_counterexample(claim)
    if point is None:
        raise Unprovable("no exact counterexample")
    case = domain.case_of(claim.variables, point)
    rules = domain.substitution(claim.variables, case, point)
    if any(not sp.sympify(v).is_Rational for v in rules.values()):
        raise Unprovable("the counterexample is not a rational point")
    right = claim.symbolic(claim.corrected, case) if claim.corrected else derived(case)
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


# --- a whole claim ---------------------------------------------------------------------------------------------------


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
                return sp.factor(sp.cancel(sp.together(e)))
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
        found.append(_refutation(claim, derived))
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
        if text(p.subs(where)) == text(d.subs(where)):
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
                found.append(_limit("limit" + suffix, claim, case, v, factored(f) if simplified else f, t, conditions))
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


def wrapped(text: str) -> list[str]:
    """Lines of a comment."""
    import textwrap

    return textwrap.wrap(text, 110)


__all__ = [
    "SAME_TEXT",
    "SHOW",
    "Theorem",
    "Unprovable",
    "absolute",
    "comment",
    "hypotheses",
    "identity",
    "is_algebraic",
    "name_of",
    "nonnegative_form",
    "relation",
    "source",
    "term",
    "theorems",
    "wrapped",
]
