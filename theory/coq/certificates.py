"""Forms of an expression that show its sign: fractions of non-negative coefficients, completed squares.

Belongs here: algebra that makes a proof script short.  Does not belong here: statements and scripts (``generator``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from theory.coq.setting import CERTIFICATE_SECONDS, coefficient_sign, structural
from theory.coq.terms import Unprovable, term
from theory.engine.algebra import cancelled, factored, time_limit

LONG = 40  # terms of a form that are put in order first


def nonnegative_form(gap: Any, rules: Mapping[Any, Any] | None = None) -> Any:
    """An equal fraction whose sign is plain: factors with non-negative coefficients, or to even powers.

    `rules` replace bounded letters by non-negative ones. Where the factors' signs are plain without them, each factor
    gets its new letters by itself, which saves expanding (1 + n)^k.
    """
    with time_limit(CERTIFICATE_SECONDS):
        gap = sp.sympify(gap)
        if rules:
            try:
                return plain_form(factored(gap)).subs(rules, simultaneous=True)
            except Unprovable:
                gap = gap.subs(rules, simultaneous=True)
        return plain_form(factored(gap))


def plain_form(gap: Any) -> Any:
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
        one = coefficient_sign(sp.expand(base))
        if one is None and power % 2:
            squares = completed(sp.expand(base)) or completed(sp.expand(-base))
            if squares is None or power != 1:
                raise Unprovable(f"the sign of {base} is not plain")
            sign *= 1 if completed(sp.expand(base)) is not None else -1
            found *= squares
            continue
        if one == -1 and power % 2:
            sign = -sign
        found *= (base if one != -1 else sp.expand(-base)) ** power
    if sign < 0:
        raise Unprovable("the relation fails everywhere: the gap is negative")
    return found


def between(form: Any, ends: Mapping[Any, Any]) -> Any:
    """A form in letters' distances from the ends of their ranges, with these put back in their places.

    A long one by powers of two distances, which are then whole numbers' multiples: what an identity takes is expanding,
    and here each product of powers is expanded once and holds no fraction (41 s of coqc became 11).
    """
    top, bottom = sp.fraction(form)
    used = [d for d in ends if top.has(d)]
    if not used or len(sp.Add.make_args(sp.expand(top))) <= LONG:
        return form.subs(ends, simultaneous=True)
    whole = {d: sp.ilcm(1, *(c.q for c in sp.Poly(ends[d], *ends[d].free_symbols).coeffs())) for d in used}
    scaled = sp.Poly(top.subs({d: d / whole[d] for d in used}, simultaneous=True), *used)
    scale, scaled = scaled.clear_denoms()
    most = max(used, key=scaled.degree)
    pair = [d for d in used if ends[d].free_symbols == ends[most].free_symbols]
    groups: dict[Any, Any] = {}
    for powers, c in scaled.terms():
        parts = dict(zip(used, powers, strict=True))
        outer = sp.Mul(*(d ** parts.pop(d) for d in pair))
        groups[outer] = groups.get(outer, 0) + c * sp.Mul(*(d**k for d, k in parts.items()))
    multiples = {d: sp.expand(ends[d] * whole[d]) for d in used}
    total = sp.Add(*(outer * inner for outer, inner in groups.items()))
    return total.subs(multiples, simultaneous=True) / (scale * bottom.subs(ends, simultaneous=True))


def completed(polynomial: Any, depth: int = 4) -> Any:
    """A polynomial as squares plus terms with non-negative coefficients, by completing squares; None where that fails."""
    if polynomial == 0 or coefficient_sign(polynomial) == 1:
        return polynomial
    if depth == 0:
        return None
    for x in sorted(polynomial.free_symbols, key=str):
        p = sp.Poly(polynomial, x)
        if p.degree() != 2 or coefficient_sign(sp.expand(p.LC())) != 1:
            continue
        a, b, c = p.all_coeffs()
        rest = cancelled(c - b**2 / (4 * a))
        top, bottom = sp.fraction(rest)
        sign = coefficient_sign(sp.expand(bottom))
        inner = None if sign is None else completed(sp.expand(sign * top), depth - 1)
        if inner is not None:
            return a * factored(x + b / (2 * a)) ** 2 + inner / (sign * bottom)
    return None


def squares(gap: Any, decision: Sequence[Any]) -> Any:
    """A gap that is quadratic in the decision, zero at its minimum, as a sum of multiples of squares."""
    rest, below = sp.fraction(cancelled(gap))
    total = sp.Integer(0)
    for x in decision:
        polynomial = sp.Poly(rest, x)
        if polynomial.degree() <= 0:
            continue
        if polynomial.degree() != 2 or below.has(x):
            raise Unprovable(f"the objective is not quadratic in {x}")
        a, b, c = polynomial.all_coeffs()
        total += factored(a / below) * factored(x + b / (2 * a)) ** 2
        rest = cancelled(c - b**2 / (4 * a))
    if rest != 0:
        raise Unprovable("the gap is not zero at the claimed optimum")
    return total


def beyond(t: Any, start: Any, n: Any, gaps: Sequence[Any]) -> tuple[list[str], list[Any]]:
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
                    form, known[base] = plain_form(at), base
                except Unprovable:
                    form, known[base] = plain_form(factored(-at)), sp.expand(-base)
                known[base] = sp.expand(known[base])
                there = f"destruct (above _ t H_t) as [{n} [P_{n} E_{n}]]; subst t"
                by = f"{there}; apply (same_sign _ ({term(form)})); [identity | positive]"
                lines.append(f"assert (F{len(known)} : 0 < {term(known[base])}) by ({by}).")
                lines.append(f"assert (G{len(known)} := not_zero _ F{len(known)}).")
            shown *= known.get(base, base) ** power
        forms.append(shown)
    return lines, forms


def some_sign(coefficient: Any) -> int:
    """Sign of a polynomial's first coefficient."""
    symbols = sorted(coefficient.free_symbols, key=str)
    return 1 if (sp.Poly(coefficient, *symbols).coeffs()[0] if symbols else coefficient) > 0 else -1


def share_of(c: Any, i: int, bottom: Any) -> Any:
    """A bound of c t^(i+1) over the denominator for t >= 1: through the first coefficient of a later power that leaves a
    divisor without zeros, for the leading one may vanish.
    """  # fmt: skip
    later = [b for (k,), b in reversed(bottom.terms()) if k > i]
    shares = [factored(absolute(c) / absolute(b)) for b in later]
    return next((s for s in shares if structural(sp.expand(sp.fraction(s)[1]))), shares[-1] if shares else sp.Integer(0))


def absolute(p: Any, negative_only: bool = False) -> Any:
    """A polynomial of non-negative letters with its coefficients' absolute values (of the negative ones only)."""
    symbols = sorted(p.free_symbols, key=str)
    if not symbols:
        return abs(p) if p < 0 or not negative_only else sp.Integer(0)
    top, bottom = sp.fraction(sp.together(p))
    return sp.Add(*(abs(c) * sp.Mul(*(s**k for s, k in zip(symbols, powers, strict=True)))
                    for powers, c in sp.Poly(top, *symbols).terms() if c < 0 or not negative_only)) / bottom  # fmt: skip
