"""Inequalities between functions that are not rational, certified in ball arithmetic on a bounded box.

A box is cut in pieces until on every piece the lower end of a rigorous enclosure (python-flint's `arb`) is >= 0.
Rounding is included in the enclosures, so "yes" is a proof for every real point of the box, and "no" comes with a
point. Running out of pieces is "unknown", which is never a pass.

Belongs here: enclosing SymPy expressions, branch and bound. Does not belong here: rational functions (algebra.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import sympy as sp
from flint import arb, ctx, fmpq, fmpz
from sympy.printing.lambdarepr import LambdaPrinter

PIECES = 60_000
BITS = 128
Box = Mapping[sp.Symbol, tuple[Any, Any]]


class NotEnclosed(ValueError):
    """The expression holds a function that has no enclosure here."""


FUNCTIONS = {
    "exp": lambda x: arb(x).exp(),
    "log": lambda x: arb(x).log(),
    "sqrt": lambda x: arb(x).sqrt(),
    "rsqrt": lambda x: arb(x).rsqrt(),
    "erf": lambda x: arb(x).erf(),
    "erfc": lambda x: arb(x).erfc(),
    "sinh": lambda x: arb(x).sinh(),
    "cosh": lambda x: arb(x).cosh(),
    "tanh": lambda x: arb(x).tanh(),
    "gamma": lambda x: arb(x).gamma(),
    "loggamma": lambda x: arb(x).lgamma(),
    "beta": lambda x, y: arb(x).gamma() * arb(y).gamma() / arb(x + y).gamma(),
    "Abs": lambda x: abs(arb(x)),
    "Max": lambda *x: reduce(arb.max, map(arb, x)),
    "Min": lambda *x: reduce(arb.min, map(arb, x)),
}


_ENCLOSED = (sp.Tuple, sp.Symbol, sp.Rational, sp.Add, sp.Mul, sp.Pow)


class _Printer(LambdaPrinter):
    """Python code in which every number is a ball and every power has an enclosure."""

    def __init__(self) -> None:
        super().__init__({"fully_qualified_modules": False})
        self.constants: dict[str, arb] = {}

    def _constant(self, value: arb) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = value
        return name

    def _print_Rational(self, expr: Any) -> str:
        return self._constant(number(expr))

    def _print_Pi(self, expr: Any) -> str:
        return self._constant(arb.pi())

    def _print_Exp1(self, expr: Any) -> str:
        return self._constant(arb(1).exp())

    def _print_Pow(self, expr: Any, **_: Any) -> str:
        base, exponent = expr.args
        inner = self._print(base)
        if exponent.is_Integer:
            return f"(({inner})**({int(exponent)}))"
        if abs(exponent) == sp.Rational(1, 2):
            return f"{'sqrt' if exponent > 0 else 'rsqrt'}({inner})"
        return f"exp(({self._print(exponent)})*log({inner}))"

    def _print_Function(self, expr: Any) -> str:
        return f"{expr.func.__name__}({', '.join(map(self._print, expr.args))})"


# SymPy prints these by names of their own; here they all become calls.
for _name in ("Half", "Integer"):
    setattr(_Printer, f"_print_{_name}", _Printer._print_Rational)
for _name in FUNCTIONS:
    setattr(_Printer, f"_print_{_name}", _Printer._print_Function)


def number(value: Any) -> arb:
    """An exact rational as a ball (as narrow as the working precision allows)."""
    value = sp.Rational(value)
    return arb(fmpq(fmpz(int(value.p)), fmpz(int(value.q))))


def compiled(expressions: Sequence[Any], symbols: Sequence[sp.Symbol]) -> Callable[..., list[arb]]:
    """A function from balls for the symbols to balls that hold the values of the expressions.

    Constants are as narrow as the precision at the time of this call. Raises NotEnclosed.
    """
    for node in sp.preorder_traversal(sp.Tuple(*expressions)):
        if not isinstance(node, _ENCLOSED) and node not in (sp.pi, sp.E) and node.func.__name__ not in FUNCTIONS:
            raise NotEnclosed(f"no enclosure for {node.func.__name__}")
    printer = _Printer()
    function = sp.lambdify(symbols, list(expressions), modules=[FUNCTIONS], printer=printer, cse=True)
    function.__globals__.update(printer.constants)  # known only after printing
    return function


def enclose(expression: Any, at: Mapping[sp.Symbol, arb]) -> arb:
    """A ball that holds every value of the expression when its symbols range over balls.

    >>> x = sp.Symbol("x")
    >>> enclose(sp.exp(x), {x: arb(0)}).overlaps(arb(1))
    True
    """
    return arb(compiled([sp.sympify(expression)], list(at))(*at.values())[0])


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
        value = compiled([expression], symbols)
        smooth = not expression.has(sp.Max, sp.Min, sp.Abs)
        slopes = compiled([sp.diff(expression, s) for s in symbols], symbols) if smooth else None
        return _search(expression, symbols, value, slopes, box, pieces)
    except NotEnclosed:
        return None
    finally:
        ctx.prec = before


def _search(expression: Any, symbols: Sequence[Any], value: Any, slopes: Any, box: Box, pieces: int) -> bool | None:
    stack = [tuple((_exact(box[s][0]), _exact(box[s][1])) for s in symbols)]
    for _ in range(pieces):
        if not stack:
            return True
        piece = stack.pop()
        balls = [arb(a).union(arb(b)) for a, b in piece]
        if arb(value(*balls)[0]) >= 0:
            continue
        centre = [arb((a + b) / 2) for a, b in piece]
        middle = arb(value(*centre)[0])
        if middle < 0:
            return False
        if slopes is not None:
            rates = [arb(r) for r in slopes(*balls)]
            # The mean value theorem: much narrower than the expression itself on a small piece.
            if middle + sum(r * (x - c) for r, x, c in zip(rates, balls, centre, strict=True)) >= 0:
                continue
            # Where it only rises or falls along a letter, its least value is at that end.
            ends = tuple((a, a) if r >= 0 else (b, b) if r <= 0 else (a, b) for r, (a, b) in zip(rates, piece, strict=True))
            if ends != piece:
                stack.append(ends)
                continue
        if all(a == b for a, b in piece):
            exact = expression.subs({s: sp.Rational(int(a.p), int(a.q)) for s, (a, _) in zip(symbols, piece, strict=True)})
            if exact.is_Rational and exact >= 0:
                continue
            return None
        stack += _cut(piece)
    return None


def _exact(value: Any) -> fmpq:
    value = sp.Rational(value)
    return fmpq(int(value.p), int(value.q))


def _float(value: fmpq) -> float:
    return int(value.p) / int(value.q)


def _cut(piece: tuple[tuple[fmpq, fmpq], ...]) -> list[tuple[tuple[fmpq, fmpq], ...]]:
    widths = [_float(b - a) / max(abs(_float(a)), abs(_float(b)), 1e-300) for a, b in piece]
    i = widths.index(max(widths))
    a, b = piece[i]
    where = (a + b) / 2
    if a > 0 and b > 4 * a:
        where = fmpq(*(math.sqrt(_float(a)) * math.sqrt(_float(b))).as_integer_ratio())
    return [(*piece[:i], (a, where), *piece[i + 1 :]), (*piece[:i], (where, b), *piece[i + 1 :])]


__all__ = ["FUNCTIONS", "Box", "NotEnclosed", "compiled", "enclose", "nonnegative", "number"]
