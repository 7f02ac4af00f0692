"""Formulas as numbers of NumPy: arrays of letters with which the toolkit's code computes; comparisons that make branches.

Arithmetic is that of the real numbers: floats round, and what is traced says nothing of rounding.  Units that the code
chooses to keep digits (powers of two) are letters too, so that a formula is traced for every unit at once; those in which
floats are taken apart one by one (`frexp`) repeat after a few.

A comparison that the domain decides is decided; where two values are chosen between that agree where they could be mixed up
(`where(x == 0, 0, x y)`), there is no choice; any other comparison makes branches, all of which are run.

Belongs here: numbers, truths, exponents, arrays, NumPy's functions on them.  Does not belong here: fractions of polynomials
(ratios.py), which code runs with them (relinked.py).
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theory.engine.ratios import MINUS, OF_FLOATS, PLUS, SIGNS, ZERO, Letters, NotTraced, Ratio, now

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
    a, b = (bool(x) if _plain(x) else x != 0 if isinstance(x, Real) else x for x in (a, b))
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
        gap = now().letters.minus(self.r, b.r)
        truth = Truth("sign", (gap.top * gap.bottom, signs))
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


# --- NumPy on letters ------------------------------------------------------------------------------------------------

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
LIBRARY = {math: math, np: np}


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


def _plain(x: Any) -> bool:
    return not isinstance(x, (Real, Truth, Exponent))


def _ldexp(x: Any, k: Any) -> Any:
    return k.scale(x) if isinstance(k, Exponent) else Exponent(number=int(k)).scale(x)


def _frexp(x: Any) -> tuple[Any, Any]:
    if _plain(x):
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
    "isnan": lambda x: _plain(x) and x != x, "isinf": lambda x: _plain(x) and math.isinf(x),
    "isfinite": lambda x: not _plain(x) or math.isfinite(x), "signbit": lambda x: x < 0,
    "true_divide": lambda a, b: _quotient(a, b), "divide": lambda a, b: _quotient(a, b), "conjugate": lambda x: x,
    "xlogy": lambda x, y: _xlogy(x, y), "xlog1py": lambda x, y: _xlogy(x, 1 + y),
    "log_ndtr": lambda x: apply("log", apply("ndtr", x)),
    "logaddexp": lambda a, b: apply("log", apply("exp", a) + apply("exp", b)),
    "hypot": lambda a, b: apply("sqrt", a * a + b * b),
    **{name: functools.partial(apply, name) for name in FORMULAS},
}  # fmt: skip
REDUCED = {"add": 0, "multiply": 1, "logical_or": False, "logical_and": True}


def _quotient(a: Any, b: Any) -> Any:
    if _plain(a) and _plain(b):
        return _concretely(np.true_divide, a, b)
    if isinstance(a, Exponent):
        raise NotTraced("digits", "half of an exponent")
    return a / b


def _xlogy(x: Any, y: Any) -> Any:
    return 0.0 if bool(x == 0) else x * apply("log", y)


def _concretely(function: Any, *values: Any) -> Any:
    with np.errstate(all="ignore"):
        found = function(*(np.float64(v) if isinstance(v, float) else v for v in values))
    return found.item() if hasattr(found, "item") else found


class Symbols(np.ndarray):
    """An array of formulas, numbers, exponents or comparisons."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        name = ufunc.__name__
        parts = [base(x) for x in inputs]
        if method == "reduce":
            found = self._reduced(ufunc, parts, options)
        elif method == "accumulate":
            found = getattr(ufunc, method)(*parts, **options)
        elif method != "__call__" or ufunc.signature is not None:
            if name not in ("matmul", "vecdot"):
                raise NotTraced("library", f"numpy.{name}.{method}")
            found = ufunc(*parts)
        elif name == "frexp":
            pairs = np.frompyfunc(_frexp, 1, 2)(*parts)
            return tuple(symbols(p) for p in pairs)
        elif name not in UFUNCS:
            raise NotTraced("library", f"numpy.{name}")
        else:
            found = np.frompyfunc(functools.partial(_call, ufunc, UFUNCS[name]), len(parts), 1)(*parts)
        if out is not None:
            (target,) = out
            base(target)[...] = found
            return target
        return symbols(found)

    @staticmethod
    def _reduced(ufunc: Any, parts: Sequence[Any], options: Mapping[str, Any]) -> Any:
        (array,), name = parts, ufunc.__name__
        function = UFUNCS.get(name)
        if function is None:
            raise NotTraced("library", f"numpy.{name}.reduce")
        axis, keep = options.get("axis", 0), options.get("keepdims", False)
        where = options.get("where", True)
        initial, given = options.get("initial"), "initial" in options and options["initial"] is not np._NoValue  # type: ignore[attr-defined]
        initial = initial if given else REDUCED.get(name)
        axes = tuple(range(array.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(a % array.ndim for a in axes) if array.ndim else ()
        rest = [a for a in range(array.ndim) if a not in axes]
        moved = np.transpose(array, [*rest, *axes]).reshape([array.shape[a] for a in rest] + [-1])
        masks = np.transpose(np.broadcast_to(base(where), array.shape), [*rest, *axes]).reshape(moved.shape)
        found = np.empty(moved.shape[:-1], object)
        for at in np.ndindex(found.shape):
            chosen = [x for x, there in zip(moved[at], masks[at], strict=True) if bool(there)]
            if initial is not None and (given or not chosen):
                chosen = [initial, *chosen]
            if not chosen:
                raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
            found[at] = functools.reduce(functools.partial(_call, ufunc, function), chosen)
        if name.startswith("logical") and len(moved.shape) == 1:
            found[()] = found[()] if isinstance(found[()], Truth) else bool(found[()])
        if keep:
            found = found.reshape([1 if a in axes else array.shape[a] for a in range(array.ndim)])
        return found

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(_concrete(key))
        return found if isinstance(found, np.ndarray) else symbols(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.shape == ():
            value = bare(value)
        base(self)[_concrete(key)] = base(value)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """Itself: a formula stays one."""
        if np.dtype(dtype).kind == "b":
            return _concrete(self)
        return self.copy()

    def item(self, *at: Any) -> Any:
        """An entry, as an array without axes."""
        return symbols(super().item(*at))

    def tolist(self) -> Any:
        """Nested lists of entries."""
        return [x.tolist() for x in self] if self.ndim else self

    def __float__(self) -> float:
        return float(super().item())

    def __int__(self) -> int:
        return int(super().item())

    def __index__(self) -> int:
        return operator.index(super().item())

    def __array_function__(self, func: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        if func in OVERRIDES:
            return OVERRIDES[func](*args, **kwargs)
        return super().__array_function__(func, kinds, args, kwargs)


def _call(ufunc: Any, function: Callable[..., Any], *values: Any) -> Any:
    """Of plain numbers what NumPy gives, of others the function."""
    if all(map(_plain, values)):
        return _concretely(ufunc, *values)
    return function(*values)


def base(x: Any) -> Any:
    """A plain array of objects."""
    if isinstance(x, Symbols):
        return x.view(np.ndarray)
    if isinstance(x, (list, tuple)) and has_letters(x):
        return symbols(np.array(_nested(x), object)).view(np.ndarray)
    return x


def _nested(x: Any) -> Any:
    many = isinstance(x, (list, tuple)) or (isinstance(x, np.ndarray) and x.ndim)
    return [_nested(v) for v in x] if many else bare(x)


def bare(x: Any) -> Any:
    """The entry of an array without axes."""
    return np.ndarray.item(x) if isinstance(x, np.ndarray) else x


def has_letters(x: Any) -> bool:
    """Whether there are letters in a value."""
    if isinstance(x, (list, tuple)):
        return any(map(has_letters, x))
    if isinstance(x, np.ndarray) and x.dtype == object and not isinstance(x, Symbols):
        return any(isinstance(v, (Real, Exponent, Truth)) for v in x.flat)
    return isinstance(x, (Symbols, Real, Exponent, Truth))


def symbols(x: Any) -> Any:
    """An array of formulas; of plain numbers or truths an array as NumPy's own."""
    if isinstance(x, (list, tuple)):
        x = np.array(_nested(x), object)
    if not isinstance(x, np.ndarray):
        held = np.empty((), object)
        held[()] = x
        x = held
    if x.dtype == object and all(map(_plain, x.ravel())):
        kinds = {type(v) for v in x.ravel()}
        if kinds <= {bool, np.bool_} and kinds:
            return x.astype(bool)[()]
        if kinds <= {int, float, bool, np.float64, np.int64}:
            return (x.astype(np.int64) if kinds <= {int, np.int64} else x.astype(float))[()]
    return x.view(Symbols if x.dtype == object else np.ndarray)


def _concrete(key: Any) -> Any:
    """An index in which comparisons are decided."""
    if isinstance(key, tuple):
        return tuple(map(_concrete, key))
    if isinstance(key, Symbols) and key.dtype != object:
        return key.view(np.ndarray)
    if isinstance(key, Symbols):
        return np.array([bool(x) for x in key.view(np.ndarray).ravel()]).reshape(key.shape)
    return key


def where(condition: Any, *values: Any) -> Any:
    """np.where, which makes no branch where the two values agree if they could be mixed up."""
    if not values:
        return np.nonzero(_concrete(condition))
    parts = [base(symbols(x) if has_letters(x) else x) for x in (condition, *values)]
    parts = np.broadcast_arrays(*(np.asarray(p, object) for p in parts))
    return symbols(np.frompyfunc(_chosen, 3, 1)(*parts))


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, Truth):
        return a if condition else b
    known = condition.known()
    if known is not None:
        return a if known else b
    if not any(isinstance(x, (Exponent, Truth)) for x in (a, b)) and _finite(a) and _finite(b):
        if condition.merges(real(a).r, real(b).r):
            return b
        if (~condition).merges(real(a).r, real(b).r):
            return a
    return a if bool(condition) else b


def _finite(x: Any) -> bool:
    return not _plain(x) or math.isfinite(x)


def _array(x: Any, dtype: Any = None, **options: Any) -> Any:
    if has_letters(x):
        if dtype is not None and np.dtype(dtype).kind == "b":
            return _concrete(symbols(x))
        found = symbols(x)
        return found.copy() if isinstance(found, np.ndarray) and options.pop("copy", True) else found
    return np.array(x, dtype, **options)


def _as_array(x: Any, dtype: Any = None, **_: Any) -> Any:
    if isinstance(x, Symbols):
        return x
    return symbols(x) if has_letters(x) else np.asarray(x, dtype)


def _filled(make: Callable[..., Any]) -> Callable[..., Any]:
    """Arrays into which letters may be written."""

    def made(*args: Any, **options: Any) -> Any:
        if has_letters(list(args)) and make in (np.full, np.full_like):
            shape, value = args[0] if make is np.full else np.shape(args[0]), args[1]
            return symbols(np.full(shape, None, object)) if value is None else _full(shape, value)
        options.pop("dtype", None)
        like = make in (np.zeros_like, np.ones_like, np.empty_like)
        array = make(np.empty(np.shape(args[0])) if like else args[0], **options)
        return array.astype(object).view(Symbols)

    return made


def _full(shape: Any, value: Any) -> Any:
    found = np.empty(shape, object)
    found[...] = bare(value)
    return found.view(Symbols)


def _clip(x: Any, low: Any = None, high: Any = None, **_: Any) -> Any:
    if any(isinstance(v, Exponent) for v in np.ravel(base(x))):
        return x  # an exponent within the range of floats
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


OVERRIDES: dict[Any, Callable[..., Any]] = {
    np.where: where, np.clip: _clip, np.array: _array, np.asarray: _as_array,
    np.size: lambda x, axis=None: base(x).size if axis is None else base(x).shape[axis],
    np.array_equal: lambda a, b, **_: np.shape(a) == np.shape(b) and bool(np.all(a == b)),
    np.isclose: lambda *_, **__: give_up("digits", "numpy.isclose"),
    np.allclose: lambda *_, **__: give_up("digits", "numpy.allclose"),
    np.interp: lambda *_, **__: give_up("library", "numpy.interp"),
}  # fmt: skip


def give_up(kind: str, what: str) -> Any:
    """Say that code is not traced."""
    raise NotTraced(kind, what)


MAKERS = {name: _filled(getattr(np, name)) for name in ("zeros", "ones", "empty", "zeros_like", "ones_like", "empty_like")}


def _number(kind: Any) -> Any:
    def made(x: Any = 0) -> Any:
        if isinstance(x, (Real, Symbols)) and kind in (float, np.float64):
            return x if isinstance(x, Symbols) else symbols(x)
        if isinstance(x, (Real, Symbols)):
            if isinstance(bare(x), Exponent):
                return x
            e = bare(x).e if isinstance(bare(x), Real) else None
            if e is not None and e.is_integer and not e.is_Integer:
                return x
        return kind(x)

    return made


class Ufunc:
    """A function of NumPy in a trace."""

    def __init__(self, function: Any):
        self._function = function

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Its value."""
        return self._function(*(symbols(x) if has_letters(x) else x for x in args), **options)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._function, name)
        if not callable(method):
            return method
        return lambda *args, **options: method(*(symbols(x) if has_letters(x) else x for x in args), **options)


class Type:
    """float and int in a trace: called on a letter they leave it as it is."""

    def __init__(self, kind: Any):
        self.kind, self.__name__, self.dtype = kind, kind.__name__, np.dtype(kind)
        self._made = _number(kind)

    def __call__(self, *args: Any) -> Any:
        """A number as this type."""
        return self._made(*args) if len(args) == 1 else self.kind(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kind, name)

    def __or__(self, other: Any) -> Any:
        return self.kind | other

    def __ror__(self, other: Any) -> Any:
        return other | self.kind

    def __eq__(self, other: object) -> bool:
        return other is self.kind or other is self

    def __hash__(self) -> int:
        return hash(self.kind)


class Library:
    """A library's module in a trace: its functions take letters."""

    def __init__(self, module: Any):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if self._module is np and name in MAKERS:
            return MAKERS[name]
        if found in (np.float64, np.int64):
            return Type(found)
        if isinstance(found, np.ufunc) and self._module is np:
            return Ufunc(found)
        if isinstance(found, types.ModuleType):
            return Library(found)
        if isinstance(found, type) or not callable(found):
            return found
        return functools.partial(self.called, found, name)

    def called(self, function: Any, name: str, *args: Any, **options: Any) -> Any:
        """A function's value."""
        if not any(map(has_letters, (*args, *options.values()))):
            return function(*args, **options)
        if function in OVERRIDES:
            return OVERRIDES[function](*args, **options)
        if name in ("full", "full_like"):
            return _full(args[0] if name == "full" else np.shape(args[0]), args[1])
        args = tuple(
            symbols(x) if has_letters(x) and not (isinstance(x, (list, tuple)) and name in LISTS) else x for x in args
        )
        if name in LISTS:
            args = tuple([symbols(v) for v in x] if isinstance(x, (list, tuple)) and has_letters(x) else x for x in args)
        if (self._module is not np and isinstance(function, np.ufunc)) or self._module is math:
            if name not in UFUNCS:
                raise NotTraced("library", f"{self._module.__name__}.{name}")
            return symbols(np.frompyfunc(functools.partial(_safe, function, UFUNCS[name]), len(args), 1)(*map(base, args)))
        if not self._module.__name__.startswith("numpy") or self._module is np.linalg:
            raise NotTraced("library", f"{self._module.__name__}.{name}")
        try:
            found = function(*args, **options)
        except TypeError as error:
            raise NotTraced("library", f"numpy.{name}: {error}"[:120]) from None
        if isinstance(found, (list, tuple)):
            return type(found)(map(symbols, found)) if type(found) in (list, tuple) else found
        return symbols(found) if isinstance(found, np.ndarray) or not _plain(found) else found


LISTS = (
    "stack",
    "concatenate",
    "broadcast_arrays",
    "column_stack",
    "vstack",
    "hstack",
    "broadcast_shapes",
    "append",
    "insert",
)


def _safe(function: Any, formula: Any, *values: Any) -> Any:
    return function(*values) if all(map(_plain, values)) else formula(*values)


def letter(letters: Letters, symbol: Any) -> Any:
    """A letter as an argument."""
    return symbols(Real(symbol, letters.values[symbol]))
