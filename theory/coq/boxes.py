"""Inequalities of functions on bounded boxes as Coq theorems, by coq-interval's tactic, and formulas refuted at a point.

What signs alone show needs no tactic (functions.py). Where a letter spans more than a factor of 4, its range is cut
there, as intervals.py does; the tactic halves what is left.

Belongs here: scripts that call the tactic, all theorems of a claim with functions. Does not belong here: equations
between functions (functions.py, nodes.py), ball arithmetic (intervals.py), files (proof_files.py), coqc (checker.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from theory.coq import functions, generator
from theory.coq.functions import setting_for
from theory.coq.generator import must_be_met
from theory.coq.nodes import Canonical, Node, Terms
from theory.coq.setting import Setting, structural
from theory.coq.terms import SAME_TEXT, SameText, Theorem, Unprovable, name_of, term
from theory.engine import domain
from theory.engine.algebra import entries, factored
from theory.engine.claim import Claim
from theory.engine.domain import Case
from theory.engine.levels.counterexample import find_counterexample

LIBRARIES = ("Boxes", "Tails")
LIBRARY = LIBRARIES[-1]
NEEDED = "an enclosure is needed"
PRECISION, DEPTH = 40, 20
SHALLOW = 10  # tried first where letters are several: a way that does not fit is given up there, not after 2^20 halves
CUT = 4  # a side that spans a larger factor is cut, at its geometric mean and so on


def library_of(proved: Sequence[Theorem]) -> str:
    """The file of lemmas that theorems need: erfc has its own."""
    return LIBRARIES["erfc" in "".join(t.render() for t in proved)]


def _only_known(terms: Terms) -> None:
    if terms.others:
        names = ", ".join(sorted(name.removesuffix("_of") for name in terms.others))
        raise Unprovable(f"Coq's libraries do not define {names}, and coq-interval encloses no function that they do not")


def within(claim: Claim, case: Case, letters: Sequence[Any]) -> dict[Any, tuple[Any, Any]]:
    """The ends of letters' ranges. Raises Unprovable where one is not bounded."""
    box = domain.box(claim.variables, case)
    if missing := [str(s) for s in letters if s not in box]:
        raise Unprovable(f"enclosures need a bounded range, and that of {', '.join(missing)} is not")
    return {s: box[s] for s in letters}


def _cuts(low: Any, high: Any) -> list[Any]:
    """Where a range is cut: at powers of the factor from its low end."""
    found: list[Any] = []
    while low > 0 and high > CUT * low:
        low *= CUT
        found.append(low)
    return found


def _cut(letter: Any, places: Sequence[Any]) -> str:
    """Ltac that cuts a letter's range at several places, the low end first."""
    text = ""
    for place in reversed(places):
        text = f"cut_at {name_of(letter)} ({term(place)})" + (f"; [| {text}]" if text else "")
    return f"({text})" if text else "idtac"


def _enclosed(letters: Sequence[Any], box: Mapping[Any, tuple[Any, Any]]) -> str:
    """Ltac that shows a sign on a box: cut where letters span much, then the tactic with slopes or polynomials of each."""
    names = [name_of(s) for s in letters]
    halved = ", ".join([*(f"i_bisect {x}" for x in names), f"i_prec {PRECISION}"])
    ways = [f", {how} {x}" for how in ("i_autodiff", "i_taylor") for x in names] or [""]
    depths = (SHALLOW, DEPTH) if len(names) > 1 else (DEPTH,)
    tries = " | ".join(f"interval with ({halved}, i_depth {depth}{way})" for depth in depths for way in ways)
    cuts = [c for s in letters if (c := _cut(s, _cuts(*box[s])))]
    return f"({'; '.join([*cuts, f'first [ {tries} ]'])})"


def _collected(terms: Terms, form: Any) -> Any:
    """A polynomial by powers of its function of the most letters, where it has several functions: an enclosure is the wider
    the more often a letter stands in a form.
    """
    letters = {s: terms.letters(s) for s in sorted(form.free_symbols & terms.nodes.keys(), key=str)}
    if sum(map(bool, letters.values())) < 2:
        return form
    return sp.collect(form, max(letters, key=lambda s: (len(letters[s]), sum(x.has(s) for x in form.args))))


def _by_factors(
    terms: Terms, gap: Any, at: Mapping[Any, Any], box: Mapping[Any, tuple[Any, Any]], lemma: str = "at_most _ _"
) -> list[str]:
    """Lines that show a gap as a product of factors of plain or enclosed signs; none where it is one factor only."""
    form = factored(gap)
    top, bottom = sp.fraction(form)
    lines: list[str] = []
    shown = sp.Integer(1)
    values = Canonical(terms, {}, False, at)
    for part, below in ((top, False), (bottom, True)):
        for factor in sp.Mul.make_args(part):
            base, power = factor.as_base_exp()
            if base.is_Number:
                shown *= abs(factor) ** (-1 if below else 1)
                continue
            base = -base if values.value(base) < 0 else base
            base = sp.expand(base) if base.is_Mul else base
            shown *= base ** (-power if below else power)
            if not structural(base):
                letters = sorted(terms.letters(base), key=str)
                sign = "<" if below else "<="
                fact = f"L{len(lines) + 1} : 0 {sign} {terms.text(_collected(terms, base), unfolded=True)}"
                lines.append(f"assert ({fact}) by {_enclosed(letters, box)}.")
    if bottom.is_number and len(sp.Mul.make_args(top)) == 1:
        return []
    return [*lines, f"apply ({lemma} ({terms.text(shown, unfolded=True)})); [identity | nonneg]."]


def _divisors(terms: Terms, sides: Sequence[Any], at: Mapping[Any, Any], box: Mapping[Any, tuple[Any, Any]]) -> list[str]:
    """Lines that say of what sign divisors are, where that is not plain."""
    found: list[Any] = []
    for e in (x for side in sides for x in sp.preorder_traversal(side)):
        if isinstance(e, sp.Pow) and e.exp.is_Integer and e.exp < 0 and e.base.is_polynomial(*e.base.free_symbols):
            found += [f for f in sp.Mul.make_args(e.base) if not f.is_Number and not structural(f)]
    lines = []
    for k, base in enumerate(dict.fromkeys(found), 1):
        sign = "<" if Canonical(terms, {}, False, at).value(base) > 0 else ">"
        letters = sorted(terms.letters(base), key=str)
        lines.append(f"assert (D{k} : 0 {sign} {terms.text(base, unfolded=True)}) by {_enclosed(letters, box)}.")
    return lines


def _under(terms: Terms, gap: Any, at: Mapping[Any, Any], mills: bool) -> tuple[Any, list[str], list[Any]]:
    """A gap with bounds in the places of its erfc, what the gap has more than that, and the arguments that have a bound.

    Where the gap grows with an erfc, that is at least 0; where it falls, at most exp(-x^2) or Mills' exp(-x^2)/(x sqrt PI).
    """
    lower, more, bounded = gap, [], []
    for s in sorted((s for s in gap.free_symbols if s in terms.nodes and terms.nodes[s].kind == "erfc"), key=str):
        slope = sp.expand(sp.diff(lower, s))
        if slope.has(s):
            raise Unprovable("a tail probability enters the gap other than linearly, where its bounds settle no sign")
        if Canonical(terms, {}, False, at).value(slope) > 0:
            lower = lower.subs(s, 0)
            more.append(f"({terms.text(slope, unfolded=True)}) * {terms.text(s, unfolded=True)}")
            continue
        (x,) = terms.nodes[s].arguments
        most = terms.node("exp", (-(x**2),))
        most = most / (x * terms.node("sqrt", (terms.node("pi", ()),))) if mills else most
        lower = lower.subs(s, most)
        less = f"({terms.text(most, unfolded=True)} - {terms.text(s, unfolded=True)})"
        more.append(f"({terms.text(sp.factor(-slope), unfolded=True)}) * {less}")
        bounded.append((x, most))
    return lower, more, bounded


def _by_tails(
    terms: Terms, setting: Setting, gap: Any, at: Mapping[Any, Any], box: Mapping[Any, tuple[Any, Any]]
) -> list[str]:
    """Lines that show a gap that holds erfc, through bounds of it: the plainer ones, where they will do at the point."""
    lower, more, bounded = _under(terms, gap, at, False)
    if mills := Canonical(terms, {}, False, at).value(lower) < 0:
        lower, more, bounded = _under(terms, gap, at, True)
    enclosed = _enclosed(setting.symbols, box)
    lemma, low = ("erfc_mills_gap", "0 <") if mills else ("erfc_gap", "1 / 2000 <=")
    lines = [
        f"assert (T{s} : 0 < {terms.text(s)}) by apply erfc_positive." for s in terms.nodes if terms.nodes[s].kind == "erfc"
    ]
    for k, (x, most) in enumerate(bounded, 1):
        argument, bound = terms.text(x, unfolded=True), terms.text(most, unfolded=True)
        lines.append(f"assert (A{k} : {low} {argument}) by {enclosed}.")
        how = f"apply ({lemma} ({argument}) _ A{k}); repeat f_equal; identity"
        lines.append(f"assert (B{k} : 0 <= {bound} - erfc ({argument})) by ({how}).")
    lines += functions.facts(terms, [*terms.nodes], "T")
    steps, _, (value,) = functions.rewritten(terms, [lower], setting, at, lambda *_: True, ((True, False),))
    roots = functions.roots_of(steps)
    same = f"first [ identity | solve [ field [{roots}]; nonzero ] | ring [{roots}] ]" if roots else "identity"
    inside = [x for x in steps if x.startswith("try rewrite")]
    if factored(value) == 0:
        inside += ["right. symmetry. identity."]
    else:
        inside += _by_factors(terms, value, at, box, "at_least_0 _") or [f"{enclosed}."]
    goal = terms.text(lower, unfolded=True)
    proof = [*(x for x in steps if not x.startswith("try rewrite")), f"assert (G : 0 <= {goal}).", "{", *inside, "}"]
    positive = f"first [ factor_positive | {enclosed} ]"
    for old, new in (("factor_positive", positive), ("counted", "cbn [INR]; identity"), ("identity", same)):
        proof = [x.replace(old, new) for x in proof]
    whole = " + ".join([goal, *more])
    lines = [x.replace("factor_positive", positive) for x in lines]
    return [*lines, *proof, f"apply (at_most _ _ ({whole})); [identity | nonneg]."]


def boxed(name: str, says: str, claim: Claim, case: Case, small: Any, large: Any, conditions: Sequence[Any]) -> Theorem:
    """That one expression is at most another on a box, by the tactic."""
    terms = Terms(tails=True)
    sides = [terms.flat(small), terms.flat(large)]
    _only_known(terms)
    setting = setting_for(terms, claim, case, sides, conditions)
    must_be_met(claim, case, setting.needs)
    box = within(claim, case, setting.symbols)
    if setting.where:
        raise Unprovable("a condition that sets a letter")
    inside = terms.nodes.get(sides[0])
    if inside is not None and inside.kind == "ln" and sp.expand(inside.arguments[0] - 1 - sides[1]) == 0:
        lines = [f"apply ln_below; [{_enclosed(setting.symbols, box)} | ring]."]
    elif any(n.kind == "erfc" for n in terms.nodes.values()):
        lines = _by_tails(terms, setting, sides[1] - sides[0], functions.point_at(claim, case, conditions), box)
    else:
        positive = f"first [ factor_positive | {_enclosed(setting.symbols, box)} ]"
        facts = [x.replace("factor_positive", positive) for x in functions.facts(terms, [*terms.nodes])]
        point = functions.point_at(claim, case, conditions)
        lines = _by_factors(terms, sides[1] - sides[0], point, box)
        facts += _divisors(terms, sides, point, box) if lines else []
        lines = [*facts, *lines] if lines else ["apply gap_at_most.", f"{_enclosed(setting.symbols, box)}."]
    unfolded = ["unfold Rpower."] if any(n.kind == "power" for n in terms.nodes.values()) else []
    conclusion = f"{terms.text(sides[0])}\n    <= {terms.text(sides[1])}"
    return Theorem(name, says, setting.symbols, setting.hypotheses, conclusion, [*setting.opening, *unfolded, *lines])


def refuted(claim: Claim) -> Theorem | None:
    """That the printed formula is not the right one: a point where they differ, by enclosures of both. None where the right
    value there is infinite, of which nothing can be said over the reals.
    """
    assert claim.printed is not None
    point = find_counterexample(claim)
    if point is None:
        raise Unprovable("no exact counterexample")
    case = domain.case_of(claim.variables, point)
    rules = domain.substitution(claim.variables, case, point)
    if any(not sp.sympify(v).is_Rational for v in rules.values()):
        raise Unprovable("the counterexample is not a rational point")
    right = claim.symbolic(claim.corrected, case) if claim.corrected else claim.derived(case)
    if all(sp.sympify(r).is_infinite for r in entries(right)):
        return None
    for p, r in zip(entries(claim.symbolic(claim.printed, case)), entries(right), strict=True):
        if p is None:
            continue
        terms = Terms(tails=True)
        sides = [terms.flat(p), terms.flat(r)]
        a, b = (sp.sympify(e).subs(rules) for e in (p, r))
        gap = (b - a).evalf(30)
        if not gap.is_Float or abs(gap) < 1e-12 or not {"=": True, "<=": gap > 0, ">=": gap < 0}[claim.relation]:
            continue
        _only_known(terms)
        setting = setting_for(terms, claim, case, sides, [])
        sign = {"=": "=", "<=": ">=", ">=": "<="}[claim.relation]
        values = {s: rules[s] for s in setting.symbols}
        given = " ".join([*(f"({term(values[s])})" for s in setting.symbols), *("ltac:(lra)" for _ in setting.hypotheses)])
        printed, other = (_at(terms.text(e), values) for e in sides)
        less, more = (printed, other) if gap > 0 else (other, printed)
        known = "".join([*_ceilings_at(terms, values), *_tails_at(terms, values)])
        script = [
            f"intro H. assert (X := H {given}). clear H." if given else "intro X.",
            f"assert (A : 0 < ({more}) - ({less})) by ({known}unfold Rpower; interval with (i_prec 100)).",
            "lra.",
        ]
        at = ", ".join(f"{s} = {v}" for s, v in values.items())
        says = f"The printed formula is not the right one at {at or 'this case'}."
        conclusion = f"{terms.text(sides[0])}\n    {sign} {terms.text(sides[1])}"
        return Theorem("printed_fails", says, setting.symbols, setting.hypotheses, conclusion, script, negated=True)
    raise Unprovable("the counterexample has no finite values that differ")


FAR = 3


def _ceilings_at(terms: Terms, values: Mapping[Any, Any]) -> list[str]:
    """Ltac that puts whole numbers in the places of ceilings at a point."""
    lines = []
    for k, n in enumerate((n for n in terms.nodes.values() if n.name == "ceiling_of"), 1):
        text, whole = _at(terms.text(n.arguments[0]), values), sp.ceiling(_inside(terms, n).subs(values))
        lines.append(
            f"assert (W{k} : ceiling_of ({text}) = {whole}) by (apply (ceiling_is _ {whole}); lra); rewrite ?W{k}; "
        )
    return lines


def _tails_at(terms: Terms, values: Mapping[Any, Any]) -> list[str]:
    """Ltac that puts letters between two numbers in the places of erfc at a point: an integral, and Mills' bound beyond; far
    out exp (- x^2), which other factors may have to make small.
    """
    lines = []
    found = {_at(terms.text(n.arguments[0], unfolded=True), values): n for n in terms.nodes.values() if n.kind == "erfc"}
    for k, (text, n) in enumerate(found.items(), 1):
        x = _inside(terms, n).subs(values)
        if x >= FAR:
            between = f"0 <= erfc ({text}) <= exp (- ({text}) ^ 2)"
            how = "(split; [apply erfc_nonneg | apply erfc_at_most; interval with (i_prec 60)])"
            lines.append(f"assert (T{k} : {between}) by {how}; set (e{k} := erfc ({text})) in *; clearbody e{k}; ")
            continue
        value, far = sp.erfc(x).evalf(30), int(max(sp.ceiling(x.evalf(30)), 0)) + 5
        low, high = (sp.floor(value * 10**6 + side) / sp.Integer(10) ** 6 for side in (-1, 2))
        lines.append(
            f"assert (T{k} : {term(low)} <= erfc ({text}) <= {term(high)}) by (destruct (erfc_between ({text}) {far}); "
            f"[interval with (i_prec 60) | lra |]; "
            f"assert ({term(low)} <= RInt bell ({text}) {far} <= {term(high)} - 1 / 10 ^ 7) "
            f"by (unfold bell; integral with (i_prec 60, i_fuel 400, i_degree 12)); "
            f"assert (exp (- {far} ^ 2) / ({far} * sqrt PI) <= 1 / 10 ^ 7) by interval with (i_prec 60); lra); "
            f"set (e{k} := erfc ({text})) in *; clearbody e{k}; "
        )
    return lines


def _inside(terms: Terms, n: Node) -> Any:
    """What a function is of, in letters."""
    return Canonical(terms, {}, False, {}).back(n.arguments[0])


def _at(text: str, values: Mapping[Any, Any]) -> str:
    for s, v in sorted(values.items(), key=lambda item: -len(name_of(item[0]))):
        text = re.sub(rf"\b{name_of(s)}\b", f"({term(v)})", text)
    return text


def theorems(claim: Claim, boxes: bool) -> list[Theorem]:
    """All theorems of a claim. Raises Unprovable, naming the case, where one cannot be stated or certified; where not
    `boxes`, also where the tactic is needed.
    """
    if claim.objective is not None or claim.approach is not None:
        raise Unprovable("an optimum or a limit whose formula has functions that are not rational")
    found: list[Theorem] = []
    for case in claim.cases():
        label = re.sub(r"[^A-Za-z0-9]+", "_", case.label()).strip("_")
        try:
            found += _of_case(claim, case, label, boxes)
        except Unprovable as error:
            raise Unprovable(f"{error} ({case.label()})" if case.label() else str(error)) from None
        except sp.PolynomialError as error:
            raise Unprovable(f"no certificate: {error} ({case.label() or 'one case'})") from None
    if claim.printed is not None and (claim.condition is not None or claim.corrected is not None):
        if not boxes:
            raise Unprovable(NEEDED)
        failing = refuted(claim)
        found += [] if failing is None else [failing]
    if not found:
        raise SameText(SAME_TEXT)
    return generator.distinct(found)


def _of_case(claim: Claim, case: Case, label: str, boxes: bool) -> list[Theorem]:
    found: list[Theorem] = []
    model = entries(claim.derived(case))
    for conditions, end in generator.ways_of(claim, case, label):
        for side in generator.sides_of(claim, case, model, conditions, end, functions.shown):
            if _rational(side.left) and _rational(side.right):
                found.append(generator.of_side(side, claim, case, conditions))
                continue
            of = (side.name, side.says, claim, case, side.left, side.right, conditions)
            if side.relation == "=":
                found.append(functions.equation(*of))
                continue
            try:
                found.append(functions.at_most(*of))
            except Unprovable:
                if not boxes:
                    raise Unprovable(NEEDED) from None
                found.append(boxed(*of))
    return found


def _rational(e: Any) -> bool:
    terms = Terms()
    terms.flat(e)
    return not terms.nodes


__all__ = ["LIBRARIES", "LIBRARY", "NEEDED", "boxed", "library_of", "refuted", "theorems", "within"]
