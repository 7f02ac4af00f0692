"""Formulas as numbers of NumPy: arrays of letters with which the toolkit's code computes.

Where two values are chosen between that agree where they could be mixed up (`where(x == 0, 0, x y)`), there is no choice,
and no branch.

Belongs here: arrays, NumPy's functions and types on them.  Does not belong here: one number (reals.py), which code runs with
them (relinked.py).
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from theory.engine.ratios import Letters, NotTraced
from theory.engine.reals import REDUCED, UFUNCS, Exponent, Real, Truth, concretely, frexp, give_up, plain, real


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
            pairs = np.frompyfunc(frexp, 1, 2)(*parts)
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
    if all(map(plain, values)):
        return concretely(ufunc, *values)
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
    if x.dtype == object and all(map(plain, x.ravel())):
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
    return not plain(x) or math.isfinite(x)


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
        return symbols(found) if isinstance(found, np.ndarray) or not plain(found) else found


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
    return function(*values) if all(map(plain, values)) else formula(*values)


def letter(letters: Letters, symbol: Any) -> Any:
    """A letter as an argument."""
    return symbols(Real(symbol, letters.values[symbol]))
