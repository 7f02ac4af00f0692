"""The toolkit's code with other globals, so that it runs on letters instead of numbers.

What runs is the code itself: the very code objects of `estimators`.  In their globals NumPy's arrays hold letters, and the
one strict reader of users' numbers (`validation.real`) lets letters through; all checks behind it run, and must find nothing
to refuse.  Nothing of this is seen from outside a trace, so no user's input takes another way.  Of compiled functions the
Python text runs that was compiled.

Belongs here: what stands for functions, classes, modules and builtins in a trace.  Does not belong here: letters as numbers
(tracing.py), which formula a claim's code must compute (traced.py).
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import types
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from estimators.numerics import units, validation
from theory.engine.reals import Exponent, Real, extreme, give_up
from theory.engine.tracing import Library, Type, bare, base, has_letters, symbols

HOMES = ("estimators.", "theory.papers.")


def _reader(name: str, value: Any, booleans: bool = False) -> Any:
    """The strict reader, which lets letters through."""
    return symbols(value) if has_letters(value) else validation.real(name, value, booleans)


def _unit(signature: Any, names: Any, args: Any, kwargs: Any) -> Any:
    """Of a formula homogeneous in variances: any unit."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return symbols(Exponent.new()), bound


def _exponents(sizes: Any, *_: Any) -> Any:
    """Units for all entries: any."""
    array = np.asarray(base(sizes), object)
    return symbols(np.frompyfunc(lambda _: Exponent.new(), 1, 1)(array))


def _fraction(*args: Any) -> Any:
    """A float's exact value: the number itself."""
    if has_letters(list(args)):
        return functools.reduce(operator.truediv, map(bare, args))
    return Fraction(*args)


def _round(x: Any, *digits: Any) -> Any:
    return give_up("digits", "a rounded number") if has_letters(x) else round(x, *digits)


def _isinstance(x: Any, kinds: Any) -> bool:
    every = kinds if isinstance(kinds, tuple) else (kinds,)
    every = tuple(k.kind if isinstance(k, Type) else k for k in every)
    return isinstance(x, every) or (isinstance(x, Real) and float in every)


def _extremum(original: Any, worse: Any) -> Any:
    def found(*args: Any, **options: Any) -> Any:
        values = list(args[0]) if len(args) == 1 else list(args)
        if not has_letters(values) or options:
            return original(*args, **options)
        return functools.reduce(lambda a, b: symbols(extreme(bare(a), bare(b), worse)), values)

    return found


class _Globals(dict):  # type: ignore[type-arg]
    """The globals of a module in a trace, made as they are asked for."""

    def __init__(self, original: dict[str, Any], world: World):
        super().__init__()
        self.original, self.world = original, world
        self["__builtins__"] = world.builtins

    def __missing__(self, name: str) -> Any:
        if name not in self.original:
            raise KeyError(name)
        self[name] = found = self.world.of(self.original[name])
        return found


class World:
    """The toolkit's code as it runs in a trace. The same code objects, with other globals.

    `home` is a package that runs with other globals, too (a claim pack's); `instead` puts another function in a function's
    place, for tests: what it computes must be seen.
    """

    def __init__(self, home: str = "", instead: Mapping[Any, Any] | None = None) -> None:
        self.homes = (*HOMES, f"{home}.") if home else HOMES
        self.builtins = {
            **vars(builtins), "round": _round, "min": _extremum(min, operator.gt), "max": _extremum(max, operator.lt),
        }  # fmt: skip
        fixed: list[tuple[Any, Any]] = [
            (validation.real, _reader), (units.unit_of_arguments, _unit), (units.exponents, _exponents),
            (units.exponent, _exponents), (units.units, lambda parts: symbols(Exponent.new())),
            (units.common_unit, lambda *_: symbols(Exponent.new())), (Fraction, _fraction),
        ]  # fmt: skip
        self.made: dict[int, tuple[Any, Any]] = {id(a): (a, b) for a, b in fixed}
        self.globals: dict[int, _Globals] = {}
        for kind in (float, int):
            self.builtins[kind.__name__] = Type(kind)
        self.builtins["isinstance"] = _isinstance
        self.made |= {id(f): (f, self.of(other)) for f, other in (instead or {}).items()}

    def of(self, x: Any) -> Any:
        """What stands for an object in a trace."""
        if id(x) in self.made:
            return self.made[id(x)][1]
        found = self._of(x)
        self.made[id(x)] = x, found
        return found

    def _of(self, x: Any) -> Any:
        if hasattr(x, "py_func"):
            return self.of(x.py_func)
        if isinstance(x, types.FunctionType):
            return self._function(x) if f"{x.__module__}.".startswith(self.homes) else x
        if isinstance(x, functools.partial):
            return functools.partial(
                self.of(x.func), *map(self.of, x.args), **{k: self.of(v) for k, v in x.keywords.items()}
            )
        if isinstance(x, types.ModuleType):
            ours = f"{x.__name__}.".startswith(self.homes)
            return _Home(x, self) if ours else Library(x) if x.__name__.split(".")[0] in ("numpy", "scipy", "math") else x
        if isinstance(x, type):
            return self._class(x)
        if isinstance(x, np.ufunc) or (
            (getattr(x, "__module__", "") or "").startswith(("scipy.", "numpy.")) and callable(x)
        ):
            name = getattr(x, "__name__", "function")
            library: Any = types.SimpleNamespace()
            library.__name__ = (x.__module__ if not isinstance(x, np.ufunc) else "scipy.special").split(".")[0]
            called: Any = Library.called
            return functools.partial(called, _Bare(library), x, name)
        if hasattr(x, "__wrapped__") and callable(x):  # a cache
            return self.of(inspect.unwrap(x))
        if type(x) in (list, tuple) and any(callable(v) for v in x):
            return type(x)(map(self.of, x))
        if type(x) is dict and any(callable(v) for v in x.values()):
            return {k: self.of(v) for k, v in x.items()}
        if isinstance(x, types.BuiltinFunctionType) and x.__module__ == "math":
            return getattr(Library(math), x.__name__)
        return x

    def _function(self, f: types.FunctionType) -> Any:
        space = self.globals.setdefault(id(f.__globals__), _Globals(f.__globals__, self))
        made = types.FunctionType(
            f.__code__, space, f.__name__, f.__defaults__, tuple(types.CellType() for _ in f.__closure__ or ())
        )
        self.made[id(f)] = f, made
        made.__kwdefaults__ = f.__kwdefaults__
        made.__dict__.update(f.__dict__)
        for new, cell in zip(made.__closure__ or (), f.__closure__ or (), strict=True):
            new.cell_contents = self.of(cell.cell_contents)
        return made

    def _class(self, c: type) -> Any:
        """A class of plain methods, again; other ones (records, errors) as they are."""
        if not f"{c.__module__}.".startswith(self.homes) or issubclass(c, (BaseException, tuple)):
            return c
        held = {k: v for k, v in vars(c).items() if k not in ("__dict__", "__weakref__")}
        kind: Any = type(c)
        made = kind(c.__name__, tuple(map(self.of, c.__bases__)), {})
        self.made[id(c)] = c, made
        for k, v in held.items():
            if isinstance(v, (staticmethod, classmethod)):
                v = type(v)(self.of(v.__func__))
            elif isinstance(v, property):
                v = property(*(self.of(f) if f else None for f in (v.fget, v.fset, v.fdel)))
            elif isinstance(v, types.FunctionType):
                v = self.of(v)
            setattr(made, k, v)
        return made


class _Bare:
    """A library whose function was imported by name."""

    def __init__(self, module: Any):
        self._module = module


class _Home:
    """A module of ours in a trace."""

    def __init__(self, module: Any, world: World):
        self._module, self._world = module, world

    def __getattr__(self, name: str) -> Any:
        return self._world.of(getattr(self._module, name))
