"""Formulas as numbers: sums, products, comparisons and functions of letters, as the toolkit's code would have of floats.

Arithmetic is that of the real numbers: floats round, and what is traced says nothing of rounding.  Units that the code
chooses to keep digits (powers of two) are letters too, so that a formula is traced for every unit at once; those in which
floats are taken apart one by one (`frexp`) repeat after a few.

A comparison that the domain decides is decided; any other makes branches, all of which are run.

Belongs here: numbers, truths, exponents, and NumPy's functions of one entry.  Does not belong here: arrays of them
(tracing.py), fractions of polynomials (ratios.py).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theory.engine.ratios import MINUS, OF_FLOATS, PLUS, SIGNS, ZERO, Letters, NotTraced, Ratio, now


def give_up(kind: str, what: str) -> Any:
    """Say that code is not traced."""
    raise NotTraced(kind, what)


# --- letters as numbers ----------------------------------------------------------------------------------------------


class Truth:
    """A comparison: of the sign of a polynomial, or and, or, not of such."""

    def __init__(self, kind: str, parts: tuple[Any, ...]):
        self.kind, self.parts = kind, parts

    def known(self) -> bool | None:
        """Whether it holds here; None where that is not decided."""
        if self.kind == "sign":
            polynomial, signs = self.parts
            possible = now().possible(polynomial)
            return True if possible <= signs else False if not possible & signs else None
        known = [p if isinstance(p, bool) else p.known() for p in self.parts]
        if self.kind == "or":
            return True if True in known else None if None in known else False
        return False if False in known else None if None in known else True

    def __bool__(self) -> bool:
        known = self.known()
        if known is not None:
            return known
        if self.kind == "sign":
            return now().decided(*self.parts)
        return (any if self.kind == "or" else all)(map(bool, self.parts))

    def __invert__(self) -> Truth:
        if self.kind == "sign":
            return Truth("sign", (self.parts[0], SIGNS - self.parts[1]))
        return Truth("and" if self.kind == "or" else "or", tuple((not p) if isinstance(p, bool) else ~p for p in self.parts))

    def merges(self, a: Any, b: Any) -> bool:
        """Whether two values are equal wherever this holds."""
        if self.known() is False:
            return True
        if self.kind == "or":
            return all((not p) if isinstance(p, bool) else p.merges(a, b) for p in self.parts)
        if self.kind == "and":
            return any(not isinstance(p, bool) and p.merges(a, b) for p in self.parts)
        polynomial, signs = self.parts
        if now().possible(polynomial) & signs != ZERO:
            return False
        _, factors = now().letters.factors(now().here(polynomial))
        return all(now().equal(a, b, [f]) for f, _ in factors if 0 in now()._of_factor(f))


def _both(kind: str, a: Any, b: Any) -> Any:
    a, b = (bool(x) if plain(x) else x != 0 if isinstance(x, Real) else x for x in (a, b))
    for x, y in ((a, b), (b, a)):
        if isinstance(x, bool):
            return (x or y) if kind == "or" else (x and y)
    return Truth(kind, (a, b))


class Exponent:
    """A whole number k as the power of two that it stands for: a product of units."""

    def __init__(self, powers: Mapping[int, int] | None = None, number: int = 0):
        self.powers, self.number = dict(powers or {}), number

    @classmethod
    def new(cls) -> Exponent:
        """Of a unit that may be any."""
        return cls({now().letters.unit(): 1})

    def __add__(self, other: Any) -> Exponent:
        if isinstance(other, np.ndarray):
            return NotImplemented
        other = other if isinstance(other, Exponent) else Exponent(number=int(other))
        powers = {k: self.powers.get(k, 0) + other.powers.get(k, 0) for k in {**self.powers, **other.powers}}
        return Exponent({k: n for k, n in powers.items() if n}, self.number + other.number)

    def __mul__(self, n: Any) -> Exponent:
        if isinstance(n, np.ndarray):
            return NotImplemented
        return Exponent({k: p * int(n) for k, p in self.powers.items()}, self.number * int(n))

    def __neg__(self) -> Exponent:
        return self * -1

    def __sub__(self, other: Any) -> Exponent:
        return NotImplemented if isinstance(other, np.ndarray) else self + (-other)

    def __rsub__(self, other: Any) -> Exponent:
        return -self + other

    def __floordiv__(self, _: Any) -> Exponent:
        return Exponent.new()  # that of a unit again, which may be any

    __radd__, __rmul__ = __add__, __mul__

    def scale(self, x: Any) -> Any:
        """x times that power of two."""
        if not isinstance(x, Real):
            if x == 0 or not math.isfinite(x):
                return x
            x = real(x)
        if not now().here(x.r.top):
            return 0.0
        letters = now().letters
        r = x.r
        if self.number:
            if abs(self.number) > 20_000:
                raise NotTraced("digits", "a number beyond the range of floats")
            r = letters.times(r, letters.number(Fraction(2) ** self.number))
        for i, power in self.powers.items():
            r = letters.times(r, letters.power(Ratio(letters.gens[i], letters.one), power))
        return Real(x.e * sp.Integer(2) ** self.number, r)


class Real:
    """A formula: as the code writes it (in units of one), and as a fraction."""

    __slots__ = ("e", "r")
    shape: tuple[int, ...] = ()

    def __init__(self, e: Any, r: Ratio):
        self.e, self.r = e, r

    def _with(self, other: Any, e: Any, r: Any, swap: bool = False) -> Any:
        if isinstance(other, (np.ndarray, Exponent, Truth)):
            return NotImplemented
        a, b = self, real(other)
        if b is None:
            return NotImplemented
        if swap:
            a, b = b, a
        return Real(e(a.e, b.e), r(now().letters, a.r, b.r))

    def __add__(self, other: Any) -> Any:
        return _infinite("+", self, other) or self._with(other, operator.add, Letters.add)

    def __sub__(self, other: Any) -> Any:
        return _infinite("-", self, other) or self._with(other, operator.sub, Letters.minus)

    def __rsub__(self, other: Any) -> Any:
        return _infinite("+", self, other) or self._with(other, operator.sub, Letters.minus, True)

    def __mul__(self, other: Any) -> Any:
        return _infinite("*", self, other) or self._with(other, operator.mul, Letters.times)

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, float) and math.isinf(other):
            return 0.0
        return self._divided(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if isinstance(other, (int, float)) and math.isinf(other):
            return other if bool(self > 0) else give_up("infinite", "an infinity over nothing")
        return self._divided(other, self)

    @staticmethod
    def _divided(a: Any, b: Any) -> Any:
        b = b if isinstance(b, np.ndarray) else real(b)
        if isinstance(b, np.ndarray):
            return NotImplemented
        if not now().here(b.r.top):
            a = real(a)
            if not now().here(a.r.top):
                return math.nan
            return math.inf * now().sign(a.r.top * a.r.bottom)
        return real(a)._with(b, operator.truediv, Letters.over)

    def __pow__(self, n: Any) -> Any:
        if isinstance(n, np.ndarray):
            return NotImplemented
        if isinstance(n, Real):
            if not n.e.is_Integer:
                raise NotTraced("undecided", "a power with a letter above")
            n = int(n.e)
        if n == 0.5:
            return apply("sqrt", self)
        if n != int(n):
            raise NotTraced("undecided", "a power that is no whole number")
        return Real(self.e ** int(n), now().letters.power(self.r, int(n)))

    def __rpow__(self, base: Any) -> Any:
        raise NotTraced("undecided", "a power with a letter above")

    def __neg__(self) -> Real:
        return Real(-self.e, Ratio(-self.r.top, self.r.bottom))

    def __pos__(self) -> Real:
        return self

    def __abs__(self) -> Real:
        return -self if bool(self < 0) else self

    __radd__, __rmul__ = __add__, __mul__

    def _compared(self, other: Any, signs: frozenset[int]) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, float) and not math.isfinite(other):
            return not math.isnan(other) and ((-1 if other > 0 else 1) in signs)
        b = real(other)
        if b is None:
            return NotImplemented
        gap = now().letters.minus(self.r, b.r) if b.r.top else self.r
        truth = Truth("sign", (now().letters.signed(gap), signs))
        known = truth.known()
        return truth if known is None else known

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, MINUS)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, MINUS | ZERO)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, PLUS)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, PLUS | ZERO)

    def __eq__(self, other: object) -> Any:
        return self._compared(other, ZERO)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, PLUS | MINUS)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __str__(self) -> str:
        return str(self.e)

    def __format__(self, _: str) -> str:
        return str(self.e)

    def __float__(self) -> float:
        if self.e.is_Rational:
            return float(self.e)
        raise NotTraced("digits", "a letter is made a float")

    def __int__(self) -> int:
        if self.e.is_Integer:
            return int(self.e)
        raise NotTraced("iterates", "a letter is made a whole number")

    __index__ = __int__


def _infinite(operation: str, x: Real, other: Any) -> Any:
    """The value of an operation with an infinity; None where there is none."""
    if not isinstance(other, float) or math.isfinite(other):
        return None
    if math.isnan(other):
        return other
    if operation == "*":
        sign = now().sign(x.r.top * x.r.bottom)
        return other * sign if sign else math.nan
    return -other if operation == "-" else other


CONSTANTS = {float(e): e for e in (
    sp.pi, sp.E, sp.log(2), sp.log(2 * sp.pi), sp.log(2 * sp.pi) / 2, sp.sqrt(2), 1 / sp.sqrt(2), sp.sqrt(sp.pi),
    sp.sqrt(2 * sp.pi), sp.sqrt(sp.pi / 2), sp.sqrt(2 / sp.pi), 2 * sp.pi, sp.log(sp.pi),
)}  # fmt: skip
SIMPLE, ULPS = 10**5, 4.5e-16


def _constant(x: Any) -> Any:
    """A number of the code as the constant that it is nearest to: 0.1 is a tenth, 1/3 a third, and pi is pi."""
    x = x.item() if isinstance(x, (np.number, np.bool_)) else x
    if isinstance(x, float):
        near = next((e for c, e in CONSTANTS.items() if abs(x - c) <= ULPS * abs(c)), None)
        if near is not None:
            return near
        simple = Fraction(x).limit_denominator(SIMPLE)
        x = simple if abs(float(simple) - x) <= ULPS * abs(x) else Fraction(repr(x))
    found = Fraction(x)
    return sp.Rational(found.numerator, found.denominator)


def real(x: Any) -> Any:
    """A number as a formula; None for what is none."""
    if isinstance(x, Real):
        return x
    if isinstance(x, np.ndarray) and x.shape == ():
        return real(x.item())
    if isinstance(x, (bool, int, float, np.number, np.bool_, Fraction)):
        if not isinstance(x, Fraction) and not math.isfinite(x):
            raise NotTraced("infinite", "an infinity among letters")
        e = _constant(x)
        return Real(e, now().letters.read(e))
    if isinstance(x, sp.Rational):
        return real(Fraction(int(x.p), int(x.q)))
    return None


# --- functions of numbers --------------------------------------------------------------------------------------------

FORMULAS: dict[str, Callable[[Any], Any]] = {
    "exp": sp.exp, "log": sp.log, "sqrt": sp.sqrt, "erf": sp.erf, "erfc": sp.erfc, "gammaln": sp.loggamma, "gamma": sp.gamma,
    "expm1": lambda x: sp.exp(x) - 1, "log1p": lambda x: sp.log(1 + x), "log2": lambda x: sp.log(x) / sp.log(2),
    "square": lambda x: x**2, "reciprocal": lambda x: 1 / x, "expit": lambda x: 1 / (1 + sp.exp(-x)),
    "positive": lambda x: x,
    "ndtr": lambda x: sp.erfc(-x / sp.sqrt(2)) / 2, "tanh": lambda x: 1 - 2 / (sp.exp(2 * x) + 1),
    "cosh": lambda x: (sp.exp(x) + sp.exp(-x)) / 2, "sinh": lambda x: (sp.exp(x) - sp.exp(-x)) / 2,
    "logit": lambda x: sp.log(x / (1 - x)), "erfcx": lambda x: sp.exp(x**2) * sp.erfc(x), "entr": lambda x: -x * sp.log(x),
    "log_expit": lambda x: -sp.log(1 + sp.exp(-x)),
}  # fmt: skip


def apply(name: str, x: Any) -> Any:
    """A function of one number."""
    if isinstance(x, (Exponent, Truth)):
        raise NotTraced("digits", f"{name} of the exponent of a float")
    x = real(x)
    stands = sp.Dummy()
    return Real(FORMULAS[name](x.e), now().letters.read(FORMULAS[name](stands), {stands: x.r}))


def _sign_of(x: Any) -> Any:
    return 1.0 if bool(x > 0) else -1.0 if bool(x < 0) else 0.0


def _largest(a: Any, b: Any) -> Any:
    return extreme(a, b, operator.lt)


def _smallest(a: Any, b: Any) -> Any:
    return extreme(a, b, operator.gt)


def extreme(a: Any, b: Any, worse: Callable[[Any, Any], Any]) -> Any:
    """The larger or the smaller of two."""
    if isinstance(a, Exponent) or isinstance(b, Exponent):
        return Exponent.new()  # of the two units one, which may be any
    truth = worse(a, b)
    return b if bool(truth) else a


def _floor(x: Any) -> Any:
    if x.e.is_integer:
        return x
    raise NotTraced("digits", "a letter is rounded to a whole number")


def plain(x: Any) -> bool:
    """Whether something is a number, and no formula."""
    return not isinstance(x, (Real, Truth, Exponent))


def _ldexp(x: Any, k: Any) -> Any:
    return k.scale(x) if isinstance(k, Exponent) else Exponent(number=int(k)).scale(x)


def frexp(x: Any) -> tuple[Any, Any]:
    """A number taken apart into mantissa and exponent."""
    if plain(x):
        if x == 0:
            return 0.0, 0
    elif now().letters.minus(x.r, x.r) and not now().here(x.r.top):
        return 0.0, 0
    k = Exponent({len(now().letters.symbols) + now().letters.floats: 1})
    now().letters.floats = (now().letters.floats + 1) % OF_FLOATS
    return (-k).scale(x), k


UFUNCS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "negative": operator.neg, "power": operator.pow,
    "float_power": operator.pow, "absolute": abs, "fabs": abs, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
    "maximum": _largest, "minimum": _smallest, "fmax": _largest, "fmin": _smallest, "sign": _sign_of, "floor": _floor,
    "ceil": _floor, "rint": _floor, "trunc": _floor, "ldexp": _ldexp,
    "floor_divide": lambda a, b: a // b if isinstance(a, Exponent) else _floor(a / b),
    "bitwise_or": lambda a, b: _both("or", a, b), "logical_or": lambda a, b: _both("or", a, b),
    "bitwise_and": lambda a, b: _both("and", a, b), "logical_and": lambda a, b: _both("and", a, b),
    "invert": lambda a: ~a if isinstance(a, Truth) else not a,
    "logical_not": lambda a: ~a if isinstance(a, Truth) else not a,
    "isnan": lambda x: plain(x) and x != x, "isinf": lambda x: plain(x) and math.isinf(x),
    "isfinite": lambda x: not plain(x) or math.isfinite(x), "signbit": lambda x: x < 0,
    "true_divide": lambda a, b: _quotient(a, b), "divide": lambda a, b: _quotient(a, b), "conjugate": lambda x: x,
    "xlogy": lambda x, y: _xlogy(x, y), "xlog1py": lambda x, y: _xlogy(x, 1 + y),
    "log_ndtr": lambda x: apply("log", apply("ndtr", x)),
    "logaddexp": lambda a, b: apply("log", apply("exp", a) + apply("exp", b)),
    "hypot": lambda a, b: apply("sqrt", a * a + b * b),
    **{name: functools.partial(apply, name) for name in FORMULAS},
}  # fmt: skip
REDUCED = {"add": 0, "multiply": 1, "logical_or": False, "logical_and": True}


def _quotient(a: Any, b: Any) -> Any:
    if plain(a) and plain(b):
        return concretely(np.true_divide, a, b)
    if isinstance(a, Exponent):
        raise NotTraced("digits", "half of an exponent")
    return a / b


def _xlogy(x: Any, y: Any) -> Any:
    return 0.0 if bool(x == 0) else x * apply("log", y)


def concretely(function: Any, *values: Any) -> Any:
    """What NumPy makes of plain numbers."""
    with np.errstate(all="ignore"):
        found = function(*(np.float64(v) if isinstance(v, float) else v for v in values))
    return found.item() if hasattr(found, "item") else found
