"""Inequalities between functions that are not rational, certified in ball arithmetic on a bounded box.

A box is cut in pieces until on every piece the lower end of a rigorous enclosure (python-flint's `arb`) is >= 0.
Rounding is included in the enclosures, so "yes" is a proof for every real point of the box, and "no" comes with a
point. Running out of pieces is "unknown", which is never a pass.

Belongs here: enclosing SymPy expressions, branch and bound. Does not belong here: rational functions (algebra.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import sympy as sp
from flint import arb, ctx, fmpq, fmpz

PIECES = 60_000
BITS = 128
Box = Mapping[sp.Symbol, tuple[Any, Any]]


class NotEnclosed(ValueError):
    """The expression holds a function that has no enclosure here."""


_FUNCTIONS = {
    sp.exp: lambda x: x.exp(),
    sp.log: lambda x: x.log(),
    sp.erf: lambda x: x.erf(),
    sp.erfc: lambda x: x.erfc(),
    sp.sinh: lambda x: x.sinh(),
    sp.cosh: lambda x: x.cosh(),
    sp.tanh: lambda x: x.tanh(),
    sp.gamma: lambda x: x.gamma(),
    sp.loggamma: lambda x: x.lgamma(),
    sp.Abs: abs,
}


def number(value: Any) -> arb:
    """An exact rational, or another SymPy number, as a ball."""
    value = sp.sympify(value)
    if value.is_Rational:
        return arb(fmpq(fmpz(int(value.p)), fmpz(int(value.q))))
    return enclose(value, {})


def enclose(expression: Any, at: Mapping[sp.Symbol, arb]) -> arb:
    """A ball that holds every value of the expression when its symbols range over balls.

    >>> x = sp.Symbol("x")
    >>> enclose(sp.exp(x), {x: arb(0)}).overlaps(arb(1))
    True
    """
    expression = sp.sympify(expression)
    if expression.is_Rational:
        return number(expression)
    if expression.is_Symbol:
        return at[expression]
    if expression is sp.pi:
        return arb.pi()
    if expression is sp.E:
        return arb(1).exp()
    if isinstance(expression, sp.Add):
        total = arb(0)
        for term in expression.args:
            total += enclose(term, at)
        return total
    if isinstance(expression, sp.Mul):
        product = arb(1)
        for factor in expression.args:
            product *= enclose(factor, at)
        return product
    if isinstance(expression, sp.Pow):
        base, exponent = expression.args
        if base is sp.E:
            return enclose(exponent, at).exp()
        if exponent.is_Integer:
            return enclose(base, at) ** int(exponent)
        if exponent == sp.Rational(1, 2):
            return enclose(base, at).sqrt()
        if exponent == -sp.Rational(1, 2):
            return enclose(base, at).rsqrt()
        return (enclose(exponent, at) * enclose(base, at).log()).exp()
    if isinstance(expression, sp.Max | sp.Min):
        first, *others = (enclose(a, at) for a in expression.args)
        for other in others:
            first = first.max(other) if isinstance(expression, sp.Max) else first.min(other)
        return first
    function = _FUNCTIONS.get(expression.func)
    if function is None:
        raise NotEnclosed(f"no enclosure for {expression.func}")
    return function(enclose(expression.args[0], at))


def nonnegative(expression: Any, box: Box, pieces: int = PIECES) -> bool | None:
    """Whether an expression is >= 0 on a whole box: True, False (with a point that shows it), or None (unknown).

    `box` gives the exact ends of every symbol. A piece is cut where its widest side (relative to its place) is; a
    side that spans more than a factor of 4 is cut at the geometric mean.

    >>> x = sp.Symbol("x", positive=True)
    >>> nonnegative(sp.exp(x) - 1 - x - x**2 / 2, {x: (sp.Rational(1, 100), 5)})
    True
    >>> nonnegative(1 + 2 * x - sp.exp(x), {x: (sp.Rational(1, 100), 5)})
    False
    """
    expression = sp.sympify(expression)
    symbols = sorted(expression.free_symbols, key=str)
    if any(s not in box for s in symbols):
        return None
    before, ctx.prec = ctx.prec, BITS
    try:
        stack = [tuple((sp.Rational(box[s][0]), sp.Rational(box[s][1])) for s in symbols)]
        smooth = not expression.has(sp.Max, sp.Min, sp.Abs)
        slopes = [sp.diff(expression, s) for s in symbols] if smooth else None
        done = 0
        while stack:
            piece = stack.pop()
            done += 1
            if done > pieces:
                return None
            balls = {s: number(a).union(number(b)) for s, (a, b) in zip(symbols, piece, strict=True)}
            if enclose(expression, balls) >= 0:
                continue
            centre = {s: number((a + b) / 2) for s, (a, b) in zip(symbols, piece, strict=True)}
            middle = enclose(expression, centre)
            if middle < 0:
                return False
            if slopes is not None:
                rates = [enclose(slope, balls) for slope in slopes]
                # The mean value theorem: much narrower than the expression itself on a small piece.
                if middle + sum(r * (balls[s] - centre[s]) for s, r in zip(symbols, rates, strict=True)) >= 0:
                    continue
                # Where it only rises or falls along a letter, its least value is at that end.
                ends = tuple(
                    (a, a) if r >= 0 else (b, b) if r <= 0 else (a, b) for r, (a, b) in zip(rates, piece, strict=True)
                )
                if ends != piece:
                    stack.append(ends)
                    continue
            if all(a == b for a, b in piece):
                exact = expression.subs({s: a for s, (a, _) in zip(symbols, piece, strict=True)})
                if exact.is_Rational and exact >= 0:
                    continue
                return None
            stack += _cut(piece)
        return True
    except NotEnclosed:
        return None
    finally:
        ctx.prec = before


def _cut(piece: tuple[tuple[Any, Any], ...]) -> list[tuple[tuple[Any, Any], ...]]:
    widths = [float(b - a) / max(abs(float(a)), abs(float(b)), 1e-300) for a, b in piece]
    i = widths.index(max(widths))
    a, b = piece[i]
    where = (a + b) / 2
    if a > 0 and b > 4 * a:
        where = sp.Rational(Fraction(math.sqrt(float(a)) * math.sqrt(float(b))))
    return [(*piece[:i], (a, where), *piece[i + 1 :]), (*piece[:i], (where, b), *piece[i + 1 :])]


__all__ = ["Box", "NotEnclosed", "enclose", "nonnegative", "number"]
