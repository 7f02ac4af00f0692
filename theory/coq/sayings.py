"""What a theorem says of a value or a limit, and the proof script that shows it; which function says which decision.

Belongs here: the decisions of ``model`` that compare one number with a formula.  Does not belong here: decisions against
all others (``sayings_of_best``), what is wrong at a point (``refutations``).
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq import certificates, model
from theory.coq.frame import Frame, Said, argument, rewrite, risk_text
from theory.coq.sayings_of_best import BEST, best
from theory.coq.setting import CERTIFICATE_SECONDS
from theory.coq.terms import Unprovable, name_of, term
from theory.engine.algebra import cancelled, factored, time_limit


def best_of(d: model.Value) -> list[tuple[str, model.Optimum]]:
    """The letters of a decision's optima."""
    found = [r for r in d.risks if isinstance(r, model.Optimum)]
    return [(f"best{k if len(found) > 1 else ''}", r) for k, r in enumerate(found, 1)]


def expression_text(f: Frame, d: model.Value) -> str:
    """The risks' expression as text."""
    letters: dict[Any, str] = {r: name for name, r in best_of(d)}
    stand_in = {r.symbol: sp.Symbol(letters.get(r, f"risk_{k}_")) for k, r in enumerate(d.risks)}
    text = term(sp.sympify(d.expression).subs(stand_in))
    for k, r in enumerate(d.risks):
        if not isinstance(r, model.Optimum):
            inner = risk_text(f, r)
            text = inner if text == f"risk_{k}_" else text.replace(f"risk_{k}_", f"({inner})")
    return text


def optima_of(f: Frame, d: model.Value, rules: Any) -> tuple[str, list[str]]:
    """What comes before a statement about optima, and the lines that prove it: each exists, and no other number is it."""
    before, lines = "", []
    for name, r in best_of(d):
        what = best(r.decision, f, (sp.Symbol(name),), "=", rules).conclusion
        before += f"exists {name}, ({what}) /\\\n    "
        proof = best(r.decision, f, (r.closed,), "=", rules).lines
        lines += [f"exists ({term(r.closed)}).", "split.", "{", *(f"  {x}" for x in proof), "}"]
        if isinstance(r.decision, model.BestStrength):  # at -1 there is no estimate
            before += f"1 + {name} <> 0 /\\\n    "
            lines += ["split; [side |]."]
    return before, lines


def of_value(d: model.Value, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """An expression of risks is the formula, or bounds it."""
    (value,) = formula
    before, optima = optima_of(f, d, rules)
    rewrites = [line for r in d.risks if isinstance(r, model.Risk) for line in rewrite(f, r)]
    lines = [*optima, "unfold ratios.", *rewrites]
    left = before + expression_text(f, d)
    if sign == "=":
        return Said(f"{left}\n      = {term(value)}", [*lines, "algebra."], "The risk is the formula.")
    gap = sp.sympify(d.expression).subs({r.symbol: r.closed for r in d.risks}) - value
    right = expression_text(f, d)
    small, large = (right, term(value)) if sign == "<=" else (term(value), right)
    gap = -gap if sign == "<=" else gap
    try:
        with time_limit(CERTIFICATE_SECONDS):
            form = certificates.nonnegative_form(rules(gap))
    except Unprovable:
        rules = rules.shifted()
        with time_limit(CERTIFICATE_SECONDS):
            form = certificates.nonnegative_form(rules(gap))
    proof = [f"apply (at_most _ _ ({term(form)})); [identity_of_letters | nonneg]."] if form != 0 else ["right. algebra."]
    lines = [*lines, "unfold_levels.", *rules.lines, *proof]
    return Said(f"{before}{small}\n      <= {large}", lines, "The risk is bounded as claimed.")


def of_limit(d: model.Limit, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """An expression of risks comes as near to the formula as C over the letter that grows."""
    (value,), big = map(sp.sympify, formula), f.grows
    before, optima = optima_of(f, d, rules)
    rewrites = [line for r in d.risks if isinstance(r, model.Risk) for line in rewrite(f, r)]
    gap = sp.sympify(d.expression).subs({r.symbol: r.closed for r in d.risks}) - value
    f.within, forms = _within(gap, big, rules)
    left, bound = expression_text(f, d), f"C / {name_of(big)}"
    n = f"n_{name_of(big)}"
    real = name_of(big) if big not in f.sizes else f"(INR {name_of(big)})"
    lines = [
        *optima, "unfold ratios.", *rewrites, "unfold_levels.", *rules.lines,
        f"destruct (above 1 {real} H_{name_of(big)}) as [{n} [P_{n} E_{n}]]; rewrite E_{n} in *; clear E_{n}.", "split.",
        *("- " + (f"apply (at_most _ _ ({term(x)})); [identity_of_letters | nonneg]." if x != 0 else "right. algebra.")
          for x in forms),
    ]  # fmt: skip
    value = argument(value)
    conclusion = f"{before}{left} - {value}\n      <= {bound} /\\\n    {value} - ({left})\n      <= {bound}"
    says = f"As {name_of(big)} grows, the limit is the formula: the difference is within C/{name_of(big)}."
    return Said(conclusion, lines, says)


def _within(gap: Any, big: Any, rules: Any) -> tuple[Any, list[Any]]:
    """A C with |gap| <= C / big for big >= 1, and the differences as sums of what is not negative."""
    top, bottom = (sp.Poly(part, big) for part in sp.fraction(cancelled(gap)))
    if top.is_zero:
        return sp.Integer(0), [0, 0]
    if top.degree() >= bottom.degree():
        raise Unprovable("the quantity does not tend to the claimed limit")
    lead = certificates.absolute(bottom.LC())
    size = sum((certificates.absolute(c) for c in top.all_coeffs()), sp.Integer(0)) / lead
    start = 1 + sp.Symbol(f"n_{name_of(big)}", nonnegative=True)
    why = Unprovable("no bound")
    for bound in (factored(size), factored(2 * size)):
        try:
            with time_limit(CERTIFICATE_SECONDS):
                gaps = [rules(bound / big - sign * gap).subs(big, start) for sign in (1, -1)]
                return bound, [certificates.nonnegative_form(x) for x in gaps]
        except Unprovable as error:
            why = error
    raise why


SAYS = {
    model.Value: of_value,
    model.Limit: of_limit,
    **BEST,
}
"""What says each kind of decision."""


def say(d: Any, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """Conclusion and proof of a decision about the formula's entries."""
    if type(d) not in SAYS:
        raise Unprovable(f"{type(d).__name__} is no decision")
    return SAYS[type(d)](d, f, formula, sign, rules)
