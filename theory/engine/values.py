"""Values of expressions at one point: rational ones exactly, other ones exactly or in 50 digits.

Rational arithmetic is done by python-flint and not by building SymPy's expressions again for every point; what two
expressions share, such as a formula and its mutants, is evaluated once.  Digits come from rigorous enclosures (`arb`), and
are given only where an enclosure is narrow enough to fix them.

Belongs here: evaluating at a point, and whether two values differ.  Does not belong here: enclosing on a whole box
(intervals.py), whether a claim holds at a point (levels.counterexample).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any

import sympy as sp
from flint import arb, ctx, fmpq
from mpmath.libmp import from_man_exp, from_rational

from theory.engine.intervals import FUNCTIONS, NotEnclosed

DIGITS = 50
FLOAT_BITS = 169  # of a SymPy number of 50 digits
ENOUGH = 185  # bits that an enclosure must fix
PRECISIONS = 256, 1024
LONGEST = 1 << 20  # bits of a power that is worked out exactly


class TooLong(ArithmeticError):
    """An exact value that has more digits than a computer should write down."""


class Values:
    """Values at one point, which `rules` gives as a number for every symbol; with `roots` for enclosures only.

    >>> x = sp.Symbol("x", positive=True)
    >>> at = Values({x: sp.Rational(1, 3)})
    >>> at.exact((x + 1) / x), at.exact(sp.exp(x) / 2), at.digits(sp.sqrt(x) / 2)
    (4, exp(1/3)/2, 0.28867513459481288225457439025097872782380087563506)
    """

    def __init__(self, rules: Mapping[Any, Any], roots: bool = False):
        self.roots = roots  # as balls, also those that may be rational
        self.rules = {s: v for s, v in rules.items() if v is not sp.oo}
        self.infinite = [s for s, v in rules.items() if v is sp.oo]
        self._known: dict[Any, Any] = {s: _native(sp.sympify(v)) for s, v in self.rules.items()}
        self._of_precision: dict[int, dict[Any, Any]] = {bits: {} for bits in PRECISIONS}

    def exact(self, expression: Any) -> Any:
        """Exact value; infinite coordinates through a limit along their symbols."""
        expression = sp.sympify(expression)
        value = _symbolic(self._exact(expression))
        if self.infinite:
            for s in (s for s in self.infinite if s in expression.free_symbols):
                value = sp.limit(value, s, sp.oo)
        return value

    def digits(self, expression: Any) -> Any:
        """A rational value exactly, another one in 50 digits, or as `exact` gives it where no enclosure fixes so many."""
        expression = sp.sympify(expression)
        if expression.is_Number:
            return expression
        found = self.digits_with(expression)
        return self.exact(expression) if found is None else found

    def digits_with(self, expression: Any, path: Sequence[int] = (), new: Any = None) -> Any:
        """As `digits` of the expression with another part at a path of argument positions, which is not built; None where
        no enclosure of it, as it stands, fixes the digits.

        >>> x = sp.Symbol("x", positive=True)
        >>> Values({x: sp.Integer(3)}).digits_with(1 + x**2, (1, 1), sp.Integer(4))
        82
        """  # fmt: skip
        for bits in PRECISIONS:
            value = self.enclosure(expression, path, new, bits)
            if value is None:
                return None
            if isinstance(value, fmpq):
                return _symbolic(value)
            if value.rel_accuracy_bits() >= ENOUGH:
                man, exp = value.mid().man_exp()
                return sp.Float(from_man_exp(int(man), int(exp), FLOAT_BITS, "n"), precision=FLOAT_BITS)
        return None

    def enclosure(
        self, expression: Any, path: Sequence[int] = (), new: Any = None, bits: int = PRECISIONS[0]
    ) -> fmpq | arb | None:
        """A rational value exactly, another one as a ball that holds it; with another part at a path, as `digits_with`."""
        before, ctx.prec = ctx.prec, bits
        try:
            value = self._changed(expression, path, new, self._of_precision[bits])
        except (NotEnclosed, ZeroDivisionError, OverflowError):
            return None
        finally:
            ctx.prec = before
        return value if isinstance(value, fmpq) or value.is_finite() else None

    # --- exactly: a rational number of python-flint, or SymPy's own value

    def _exact(self, e: Any) -> Any:
        if e.is_Rational:
            return fmpq(e.p, e.q)
        found = self._known.get(e)
        if found is None:
            found = self._known[e] = self._exact_from_parts(e)
        return found

    def _exact_from_parts(self, e: Any) -> Any:
        if not e.args:
            return e
        parts = [self._exact(a) for a in e.args]
        if all(isinstance(v, fmpq) for v in parts):
            value = _arithmetic(e, parts)
            if value is not None:
                return value
            if e.is_Pow and _is_long(*parts):
                raise TooLong(f"a power of more than {LONGEST} bits")  # which SymPy would work out, and nothing can stop it
        new = [_symbolic(v) for v in parts]
        return e if all(a == b for a, b in zip(new, e.args, strict=True)) else _native(e.func(*new))

    # --- as a rational number or as a ball

    def _ball(self, e: Any, balls: dict[Any, Any]) -> Any:
        if e.is_Rational:
            return fmpq(e.p, e.q)
        found = balls.get(e)
        if found is None:
            found = balls[e] = self._ball_from_parts(e, balls) if e.args else self._leaf(e, balls)
        return found

    def _ball_from_parts(self, e: Any, balls: dict[Any, Any]) -> Any:
        known = self._known.get(e)
        if isinstance(known, fmpq):
            return known
        if e.is_Piecewise:
            return self._ball(self._piece(e), balls)
        if hasattr(e.func, "formula"):  # a function of a paper, with its definition
            return self._ball(e.func.formula(*e.args), balls)
        _require_enclosed(e)
        parts = [self._ball(a, balls) for a in e.args]
        value = _arithmetic(e, parts) if all(isinstance(v, fmpq) for v in parts) else None
        if value is not None:
            self._known[e] = value
            return value
        return self._of_parts(e, parts)

    def _changed(self, e: Any, path: Sequence[int], new: Any, balls: dict[Any, Any]) -> Any:
        if not path:
            return self._ball(e if new is None else sp.sympify(new), balls)
        if hasattr(e.func, "formula"):
            raise NotEnclosed(e.func.__name__)
        _require_enclosed(e)
        at, *rest = path
        parts = [self._changed(a, rest, new, balls) if i == at else self._ball(a, balls) for i, a in enumerate(e.args)]
        value = _arithmetic(e, parts) if all(isinstance(v, fmpq) for v in parts) else None
        return self._of_parts(e, parts) if value is None else value

    def _of_parts(self, e: Any, parts: list[Any]) -> Any:
        """A sum, product, power or function of numbers and balls; plain arithmetic of rational numbers has been tried."""
        if e.is_Add:
            return sum(parts[1:], parts[0])
        if e.is_Mul:
            return reduce(mul, parts)
        if e.is_Pow:
            base, exponent = parts
            return _power(base, exponent, self.roots)
        if all(isinstance(v, fmpq) and v.q == 1 for v in parts):  # there a function may have a rational value
            value = _native(e.func(*map(_symbolic, parts)))
            if isinstance(value, fmpq):
                return value
        return FUNCTIONS[e.func.__name__](*parts)

    def _piece(self, e: Any) -> Any:
        """The expression that holds at the point."""
        for value, condition in e.args:
            holds = condition.xreplace(self.rules)
            if holds is sp.true:
                return value
            if holds is not sp.false:
                break
        raise NotEnclosed(str(e))

    def _leaf(self, e: Any, balls: dict[Any, Any]) -> Any:
        if e in self.rules:
            known = self._known[e]
            return known if isinstance(known, fmpq) else self._ball(known, balls)
        if e is sp.pi or e is sp.E:
            return arb.pi() if e is sp.pi else arb(1).exp()
        if e.is_Float:
            sign, man, exponent, _ = e._mpf_
            return arb(int(-man if sign else man)) * arb(2) ** int(exponent)
        raise NotEnclosed(str(e))


def _require_enclosed(e: Any) -> None:
    if not (e.is_Add or e.is_Mul or e.is_Pow or e.func.__name__ in FUNCTIONS):
        raise NotEnclosed(e.func.__name__)


def _native(value: Any) -> Any:
    return fmpq(value.p, value.q) if value.is_Rational else value


def _symbolic(value: Any) -> Any:
    if isinstance(value, fmpq):
        return sp.Integer(int(value.p)) if value.q == 1 else sp.Rational(int(value.p), int(value.q))
    return value


def _arithmetic(e: Any, parts: list[fmpq]) -> fmpq | None:
    """A sum, product or whole power of rational numbers; None for anything else and for a division by zero."""
    if e.is_Add:
        return sum(parts[1:], parts[0])
    if e.is_Mul:
        return reduce(mul, parts)
    if e.is_Pow:
        base, exponent = parts
        if exponent.q == 1 and (base != 0 or exponent >= 0) and not _is_long(base, exponent):
            return base ** int(exponent.p)
    return None


def _is_long(base: fmpq, exponent: fmpq) -> bool:
    """Whether a power has more digits than anybody reads, as (1 - 1/n)^n has for a million."""
    digits = max(int(base.p).bit_length(), int(base.q).bit_length())
    return abs(int(exponent.p) // int(exponent.q)) * digits > LONGEST and abs(base) != 1


def _power(base: Any, exponent: Any, as_ball: bool) -> Any:
    if isinstance(exponent, fmpq) and exponent.q == 1:
        return (arb(base) if isinstance(base, fmpq) and _is_long(base, exponent) else base) ** int(exponent.p)
    if isinstance(exponent, fmpq) and abs(exponent) == fmpq(1, 2):
        if isinstance(base, fmpq) and base > 0:
            roots = [math.isqrt(int(part)) for part in (base.p, base.q)]
            if roots[0] ** 2 == base.p and roots[1] ** 2 == base.q:
                return fmpq(*roots) if exponent > 0 else fmpq(*reversed(roots))
        return arb(base).sqrt() if exponent > 0 else arb(base).rsqrt()
    readable = isinstance(base, fmpq) and isinstance(exponent, fmpq) and exponent.q < 1000 and not _is_long(base, exponent)
    if (readable and not as_ball) or not base > 0:
        raise NotEnclosed("a root that may be rational")
    return (arb(exponent) * arb(base).log()).exp()


def differs(a: Any, b: Any) -> bool:
    """Whether two exact values differ (numbers that are not rational: in 35 of 50 digits)."""
    if a == b:
        return False
    if all(isinstance(x, sp.Rational) or x is sp.oo for x in (a, b)):
        return True
    a, b = in_digits(a), in_digits(b)
    if not (a.is_Number and b.is_Number and a.is_finite and b.is_finite):
        return True
    scale = max(abs(a), abs(b)) if a and b else 1  # against zero there is no relative error
    return bool(abs(a - b) > sp.Float(10, DIGITS) ** -(DIGITS - 15) * scale)


def in_digits(value: Any) -> Any:
    """A number in 50 digits, of which 35 are compared."""
    value = Values({}).digits(value)
    if value.is_Rational:
        return sp.Float(from_rational(int(value.p), int(value.q), FLOAT_BITS, "n"), precision=FLOAT_BITS)
    return value if value.is_Float and value._prec == FLOAT_BITS else sp.N(value, DIGITS)


__all__ = ["DIGITS", "TooLong", "Values", "differs", "in_digits"]
