"""Arguments of the kind that annotations say, or a ValueError that names the argument and what to give.

For functions that hand objects to each other (a task, a model, a schedule), where an object of another class would end in an
error about an attribute that its user has never heard of.  What numbers must be is in ``validation``.

Belongs here: that check.  Does not belong here: checks of values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

import numpy as np

from estimators.numerics.validation import LARGEST, shown

__all__ = ["several", "several_of", "typed"]

Function = TypeVar("Function", bound=Callable[..., Any])

NUMBER = (int, float, np.number)
WORDS = {
    "int": "a whole number below 2^63",
    "float": "a number",
    "str": "text",
    "bool": "True or False",
    "bytes": "bytes",
    "Mapping": "a dict",
    "dict": "a dict",
    "Sequence": "a list",
    "Iterable": "a list",
    "Callable": "a function",
    "tuple": "a tuple",
    "DTypeLike": "float32 or float64",
    "ndarray": "an array",
    "Path": "a path",
}


PROTOCOLS = {"Backend": ("prepare", "local_sgd", "evaluate"), "Algorithm": ("start", "round", "models")}


def number(value: object) -> bool:
    """Whether a value is one real number that a float has, of plain Python, of NumPy, or an array of no dimension."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, NUMBER):
        return False
    return not isinstance(value, int) or abs(value) <= 1 << 1023


def whole(value: Any) -> bool:
    """Whether a value is one whole number that arrays of them hold, be it written as 5.0."""
    return number(value) and abs(value) <= LARGEST and value == int(value)


def several(value: object) -> bool:
    """Whether a value is a list of something, of whatever class."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__"):
        return False
    return not isinstance(value, (np.ndarray, np.generic)) or value.ndim > 0


def floating(value: Any) -> bool:
    """Whether a value names numbers with a point."""
    try:
        return value is not None and np.dtype(value).kind == "f"
    except TypeError:
        return False


TESTS: dict[str, Callable[[Any], bool]] = {
    "int": whole,
    "float": number,
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, (bool, np.bool_)),
    "bytes": lambda value: isinstance(value, (bytes, bytearray, memoryview)),
    "Mapping": lambda value: isinstance(value, Mapping),
    "dict": lambda value: isinstance(value, dict),
    "Sequence": several,
    "Iterable": several,
    "Callable": callable,
    "tuple": several,
    "DTypeLike": floating,
    "Path": lambda value: hasattr(value, "__fspath__"),
}
UNTOLD = {"Any", "ArrayLike", "Floats", "Ints", "Bools", "Numbers", "object", "np", "Literal", "type"}


BETWEEN = re.compile(r"\|(?![^\[]*\])")
"""Between the kinds of a union, not within brackets."""
SIZED = re.compile(r"tuple\[[^.]*\]")
"""A tuple of so many entries."""


def one(kind: str) -> str:
    """Return the name of a class with its article."""
    return kind if kind.endswith("s") else f"an {kind}" if kind[0] in "AEIO" else f"a {kind}"


def sized(size: int) -> Callable[[Any], bool]:
    """Return the test whether a value is a list of so many entries."""
    return lambda value: several(value) and len(value) == size


def test_of(annotation: str) -> tuple[str, Callable[[Any], bool]] | None:
    """Return what an annotation asks for in words, and its test; None where it asks for nothing that is tested here.

    A class is known by its name, its own or that of one it derives from, so that nothing has to be imported for it.
    """
    parts = [part.strip() for part in BETWEEN.split(annotation)]
    kinds = [part.partition("[")[0].partition(".")[0] for part in parts]
    if UNTOLD & {*kinds} or not annotation:
        return None
    some = [(kind, part) for kind, part in zip(kinds, parts, strict=True) if kind != "None"]
    tests = [sized(part.count(",") + 1) if SIZED.fullmatch(part) else TESTS.get(kind) or named(kind) for kind, part in some]
    words = [
        f"{part.count(',') + 1} entries" if SIZED.fullmatch(part) else WORDS.get(kind, one(kind)) for kind, part in some
    ]
    return " or ".join(words), lambda value: (value is None and "None" in kinds) or any(test(value) for test in tests)


def named(kind: str) -> Callable[[Any], bool]:
    """Return the test whether a value is of a class of this name, or has the methods of a protocol of this name."""
    if kind in PROTOCOLS:
        return lambda value: not isinstance(value, type) and all(hasattr(value, method) for method in PROTOCOLS[kind])
    return lambda value: any(cls.__name__ == kind for cls in type(value).__mro__)


def typed(function: Function) -> Function:
    """Make a function, or a class when it is made, refuse arguments of another kind than its annotations say.

    >>> @typed
    ... def rows(pool: Mapping, name: str = "x") -> int:
    ...     return len(pool[name])
    >>> rows({"x": [1, 2]})
    2
    >>> rows(8)
    Traceback (most recent call last):
    ...
    ValueError: pool must be a dict, got 8
    """
    if isinstance(function, type):
        function.__init__ = typed(function.__init__)
        return function  # pyright: ignore[reportReturnType]
    parameters = signature(function).parameters
    names = list(parameters)
    several_ = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    tests = {
        name: found
        for name, one in parameters.items()
        if isinstance(one.annotation, str) and one.kind not in several_ and (found := test_of(one.annotation)) is not None
    }
    defaults = {name: parameters[name].default for name in tests}

    @wraps(function)
    def checked(*args, **kwargs):
        for given in (zip(names, args, strict=False), kwargs.items()):
            for name, value in given:
                if name in tests and value is not defaults[name] and not tests[name][1](value):
                    raise ValueError(f"{name} must be {tests[name][0]}, got {shown(value)}")
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def several_of(name: str, values: Any, size: int) -> None:
    """Raise ValueError unless the entries of an argument are tuples of a size.

    >>> several_of("levels", [(0.5, 1.0), 8], 2)
    Traceback (most recent call last):
    ...
    ValueError: levels[1] must have 2 entries, got 8
    """
    for i, value in enumerate(values):
        if not several(value) or len(value) != size:
            raise ValueError(f"{name}[{i}] must have {size} entries, got {shown(value)}")
