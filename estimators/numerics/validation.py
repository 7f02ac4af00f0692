"""Checks of arguments: each returns the argument as an array or raises a ValueError naming it and the fix.

All numbers of users come in here, by one strict reader (`number`, through which all other checks go).  It takes what
holds real numbers and nothing else: masked, missing and NaN entries, dates, durations, complex numbers, booleans (but
where outcomes 0 and 1 are meant), text, records, sparse matrices and jagged lists are refused.  Arguments with labels
(a data frame's columns) are paired by position only if their labels are equal, for which `paired` stands over a public
function.  Messages name positions; they show a value only if it is a single number, never one of an array, which may be
somebody's data.

Only checks belong here; arithmetic that survives zeros and infinities is in ``limits``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from itertools import chain
from typing import Any, NoReturn, SupportsIndex, TypeVar

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats

__all__ = [
    "axis_of",
    "by_level",
    "choice",
    "count",
    "finite",
    "flags",
    "index",
    "instance",
    "listing",
    "nonnegative",
    "number",
    "paired",
    "places",
    "positive",
    "probability",
    "real",
    "same_labels",
    "shown",
    "single",
    "switch",
    "texts",
    "without_labels",
]

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")

PLAIN = {float, int, *(np.dtype(code).type for code in "bhilqBHILQefd")}
FLOAT = np.dtype(float)
LARGEST = 2**63 - 1  # that arrays of whole numbers hold
MISSING = ("NoneType", "NAType", "NaTType")  # of pandas, which need not be installed, the last two
# Of shapes: this module's words, then NumPy's.  A check in advance would have to know which arguments meet which.
MISFIT = ("do not fit together; give numbers", "could not be broadcast", "cannot be broadcast", "mismatch in its core")
REFUSED = {
    "b": "booleans; convert with .astype(float) if 0 and 1 are meant",
    "c": "complex numbers; give the real part or the modulus, whichever is meant",
    "M": "dates; give a duration since some date as a number",
    "m": "durations; divide by a unit, such as numpy.timedelta64(1, 'D')",
    "U": "text; convert to numbers first",
    "S": "text; convert to numbers first",
    "T": "text; convert to numbers first",
    "V": "records; give one field as an array",
}


def number(name: str, value: ArrayLike, *, booleans: bool = False) -> np.ndarray:
    """Return `value` as a float array without NaN (infinities may pass).

    Parameters
    ----------
    name : the argument's name, for messages.
    value : number, array, nested list, or column of a data frame (pandas, polars, pyarrow) of real numbers.
    booleans : bool; whether True and False may stand for 1 and 0.

    Raises
    ------
    ValueError
        Naming the argument, the position of what is no number, and the fix; never a value.

    >>> float(number("lam", 2))
    2.0
    >>> number("x", np.ma.masked_equal([1.0, 99999.0], 99999.0))
    Traceback (most recent call last):
    ...
    ValueError: x is masked at position 1; drop or fill the masked entries first
    """
    array = value if type(value) is np.ndarray and value.dtype == FLOAT else real(name, value, booleans)
    missing = np.isnan(array)
    if missing.any():
        raise ValueError(f"{name} holds NaN{places(missing)}; drop or fill the missing values first")
    return array


def real(name: str, value: ArrayLike, booleans: bool = False) -> np.ndarray:
    """Return `value` as a float array, in which NaN is left to the caller, who says in which row it is."""
    if type(value) in PLAIN:  # as most arguments are
        try:
            return np.array(value, FLOAT)
        except OverflowError:
            raise ValueError(f"{name} is an integer too large for a float") from None
    if isinstance(value, (list, tuple)):
        return listed(name, value, booleans)
    if hasattr(value, "toarray"):
        raise ValueError(f"{name} is sparse; give {name}.toarray()")
    refuse_masked(name, value)
    labels = labels_of(value)
    if labels is not None and not by_position(labels):
        raise ValueError(f"{name} has labels, which say nothing here; give {name}.to_numpy() to pair entries by position")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be a number or an array of numbers, not a {type(value).__name__}") from None
    kind = array.dtype.kind
    if kind == "O":
        return from_objects(name, value, array, booleans)
    if kind in REFUSED and not (kind == "b" and booleans):
        raise ValueError(f"{name} must be a number or an array of numbers, not {REFUSED[kind]}")
    with np.errstate(over="ignore"):  # of numbers with more digits than a float has
        return np.asarray(array, float)


def listed(name: str, values: list[Any] | tuple[Any, ...], booleans: bool) -> Floats:
    """Return a nested list as a float array."""
    kinds = set(map(type, values))
    flat = kinds <= PLAIN
    if flat or (kinds <= {list, tuple} and set(map(type, chain.from_iterable(values))) <= PLAIN):
        try:
            return np.array(values, float)
        except OverflowError:
            raise ValueError(f"{name} holds an integer too large for a float") from None
        except ValueError:
            pass  # jagged, which is said below
    entries = [real(f"{name}[{i}]", entry, booleans) for i, entry in enumerate(values)]
    shapes = sorted({entry.shape for entry in entries})
    if len(shapes) > 1:
        raise ValueError(f"{name} has entries of different shapes {', '.join(map(str, shapes[:5]))}; give equal ones")
    return np.array(entries, float)


def from_objects(name: str, value: object, array: np.ndarray, booleans: bool) -> Floats:
    """Return an array of objects as floats, one object at a time unless all of them are plain numbers."""
    if set(map(type, array.flat)) <= PLAIN:
        try:
            return array.astype(float)
        except OverflowError:
            raise ValueError(f"{name} holds an integer too large for a float") from None
    if array.ndim:
        entries = [
            real(f"{name}{list(place)}".replace(", ", "]["), array[place], booleans) for place in np.ndindex(array.shape)
        ]
        if any(entry.ndim for entry in entries):
            raise ValueError(f"{name} holds arrays as entries; give numbers, as many for each")
        return np.array(entries, float).reshape(array.shape)
    entry = array.item()
    if type(entry).__name__ in MISSING:
        raise ValueError(f"{name} is missing ({type(entry).__name__}); drop or fill the missing values first")
    try:
        if not hasattr(entry, "__float__"):
            raise TypeError
        return np.array(float(entry))
    except (TypeError, ValueError, RuntimeError):
        kind = type(value).__name__
        raise ValueError(f"{name} must be a number or an array of numbers, not an object of type {kind}") from None
    except OverflowError:
        raise ValueError(f"{name} holds an integer too large for a float") from None


def refuse_masked(name: str, value: Any) -> None:
    """Raise ValueError if entries of `value` are masked."""
    mask = getattr(value, "mask", None)
    if mask is None or callable(mask) or not hasattr(value, "__array__"):
        return
    mask = np.asarray(mask)
    if mask.dtype == bool and mask.any():
        bad = np.broadcast_to(mask, np.shape(value))
        raise ValueError(f"{name} is masked{places(bad)}; drop or fill the masked entries first")


def labels_of(value: object) -> Any:
    """Return the index of a column or a data frame, or None for what has no labels."""
    labels = getattr(value, "index", None)
    return None if labels is None or callable(labels) or not hasattr(value, "__array__") else labels


def by_position(labels: Any) -> bool:
    """Return whether the labels are 0, 1, 2, ..., so that they say no more than positions do."""
    keys = np.asarray(labels)
    return keys.dtype.kind in "iu" and bool((keys == np.arange(len(keys))).all())


def same_labels(**arguments: Any) -> dict:
    """Return the arguments without labels, by name, if those that have labels have the same in the same order.

    A column of a data frame is thereby paired with another of the same frame, however its rows were chosen, and with any
    array by position; columns whose labels differ are refused, since only their owner knows how to align them.
    """
    labels = {name: found for name, value in arguments.items() if (found := labels_of(value)) is not None}
    first = next(iter(labels), "")
    for name, found in labels.items():
        if found is labels[first] or len(np.shape(arguments[name])) == 0:
            continue
        if not (found.equals(labels[first]) if hasattr(found, "equals") else np.array_equal(found, labels[first])):
            raise ValueError(
                f"{first} and {name} have different labels (index), by which they would be paired wrongly; align them, "
                f"or give {first}.to_numpy() and {name}.to_numpy() to pair entries by position"
            )
    return {name: np.asarray(value) if name in labels else value for name, value in arguments.items()}


def paired(function: Function) -> Function:
    """Make a function whose arguments are paired by position refuse labels that differ, and name shapes that do not fit.

    >>> @paired
    ... def gap(x, y):
    ...     return number("x", x) - number("y", y)
    >>> gap([1.0, 2.0], [1.0, 2.0, 3.0])
    Traceback (most recent call last):
    ...
    ValueError: x of shape (2,) and y of shape (3,) do not fit together; give numbers, or arrays whose shapes broadcast
    """

    @wraps(function)
    def checked(*args, **kwargs):
        if any(labels_of(value) is not None for value in chain(args, kwargs.values())):
            bound = signature(function).bind(*args, **kwargs)
            bound.arguments.update(same_labels(**bound.arguments))
            args, kwargs = bound.args, bound.kwargs
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            if not any(words in str(error) for words in MISFIT):
                raise
            shapes = shapes_of(signature(function).bind(*args, **kwargs).arguments)
            if not shapes:
                raise
            told = " and ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise ValueError(f"{told} {MISFIT[0]}, or arrays whose shapes broadcast")

    return checked  # type: ignore[return-value]


def shapes_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shapes of those arguments that are arrays, by name; a jagged list counts by the shapes of its entries."""
    shapes = {}
    for name, value in arguments.items():
        if isinstance(value, (list, tuple, range)) or hasattr(value, "__array__"):
            try:
                shape = np.shape(value)
            except ValueError:
                shape = [np.shape(entry) for entry in value]
            if shape != ():
                shapes[name] = shape
    return shapes


def without_labels(value: ArrayLike) -> ArrayLike:
    """Return a column or data frame as an array, and anything else as it is: where rows stand alone, labels say nothing."""
    return np.asarray(value) if labels_of(value) is not None else value


def listing(name: str, values: Iterable[T]) -> list[T] | tuple[T, ...]:
    """Return a list with one entry per client."""
    if isinstance(values, (list, tuple)):
        return values
    try:
        if isinstance(values, (str, bytes, dict)):
            raise TypeError
        return list(values)
    except TypeError:
        raise ValueError(f"{name} must be a list with one entry per client, got {shown(values)}") from None


def texts(name: str, values: ArrayLike) -> np.ndarray:
    """Return names as an array of str, none of them missing.

    >>> texts("clients", ["a", None])
    Traceback (most recent call last):
    ...
    ValueError: clients is missing at position 1; every row needs the name of its client
    """
    refuse_masked(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be a list of names, and is jagged") from None
    entries = values if isinstance(values, (list, tuple)) else array.ravel().tolist() if array.dtype.kind in "OMf" else ()
    lost = np.array([type(entry).__name__ in MISSING or (isinstance(entry, float) and entry != entry) for entry in entries])
    if lost.any():
        raise ValueError(f"{name} is missing{places(lost)}; every row needs the name of its client")
    if array.dtype.kind not in "USTOiuf":
        raise ValueError(f"{name} must be names or whole numbers, not {REFUSED.get(array.dtype.kind, array.dtype)}")
    return array.astype(str)


def flags(name: str, values: ArrayLike) -> np.ndarray:
    """Return an array of True and False, which nothing else stands for."""
    array = number(name, values, booleans=True)
    if np.asarray(values).dtype != bool:
        raise ValueError(f"{name} must hold True or False only, not numbers; compare them, as in {name} == 1")
    return array == 1


def switch(name: str, value: object) -> bool:
    """Return `value` if it is True or False, which nothing else stands for (the text "False" would be true)."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def places(bad: ArrayLike) -> str:
    """Say in words where `bad` is true; nothing for a single number.

    >>> places(np.array([False, True, True]))
    ' at positions 1, 2'
    """
    found = np.argwhere(bad).tolist()
    if np.ndim(bad) == 0:
        return ""
    shown = ", ".join(str(place[0] if len(place) == 1 else tuple(place)) for place in found[:5])
    more = f", ... ({len(found)} in all)" if len(found) > 5 else ""
    return f" at position{'s' if len(found) > 1 else ''} {shown}{more}"


def refuse(name: str, law: str, array: Any, bad: ArrayLike) -> NoReturn:
    """Raise the ValueError that `name` breaks the `law` where `bad` is true; only a single number is shown."""
    if np.ndim(array):
        raise ValueError(f"{name} must {law}, and is not{places(bad)}")
    raise ValueError(f"{name} must {law}, got {array}")


def single(check: Callable[..., np.ndarray], name: str, value: ArrayLike | None, *limits: Any, **options: Any) -> float:
    """Return the single number `value` as a Python float, checked by one of the functions here.

    >>> single(finite, "mu", [1.0, 2.0])
    Traceback (most recent call last):
    ...
    ValueError: mu must be one number, got shape (2,)
    """
    array = check(name, value, *limits, **options)
    if array.ndim:
        raise ValueError(f"{name} must be one number, got shape {array.shape}")
    return float(array)


def finite(name: str, value: ArrayLike, *, booleans: bool = False) -> np.ndarray:
    """Return `value` as a finite float array."""
    array = number(name, value, booleans=booleans)
    infinite = np.isinf(array)
    if infinite.any():
        raise ValueError(f"{name} must be finite; it holds an infinity{places(infinite)}")
    return array


def nonnegative(name: str, value: ArrayLike, *, infinite: bool = False) -> np.ndarray:
    """Return `value` as a float array of numbers >= 0, with infinity only where the caller has that limit.

    >>> nonnegative("tau2", -1)
    Traceback (most recent call last):
    ...
    ValueError: tau2 must be >= 0, got -1.0
    """
    array = number(name, value) if infinite else finite(name, value)
    negative = array < 0
    if negative.any():
        refuse(name, "be >= 0", array, negative)
    return array


def positive(name: str, value: ArrayLike) -> np.ndarray:
    """Return `value` as a float array of finite numbers > 0."""
    array = finite(name, value)
    bad = array <= 0
    if bad.any():
        refuse(name, "be > 0", array, bad)
    return array


def count(name: str, value: ArrayLike, minimum: int = 1) -> np.ndarray:
    """Return `value` as a float array of whole numbers >= `minimum`."""
    array = finite(name, value)
    bad = (array < minimum) | (array != np.floor(array))
    if bad.any():
        refuse(name, f"be a whole number >= {minimum}", value if array.ndim == 0 else array, bad)
    return array


def probability(name: str, value: ArrayLike) -> np.ndarray:
    """Return `value` as a float array of numbers in [0, 1]."""
    array = number(name, value)
    bad = (array < 0) | (array > 1)
    if bad.any():
        refuse(name, "lie in [0, 1]", value if array.ndim == 0 else array, bad)
    return array


def fraction(name: str, value: ArrayLike) -> np.ndarray:
    """Return `value` as a float array of numbers strictly between 0 and 1.

    >>> single(fraction, "level", 1)
    Traceback (most recent call last):
    ...
    ValueError: level must lie strictly between 0 and 1, got 1
    """
    array = number(name, value)
    bad = (array <= 0) | (array >= 1)
    if bad.any():
        refuse(name, "lie strictly between 0 and 1", value if array.ndim == 0 else array, bad)
    return array


def index(name: str, value: Any, first: int, last: int = LARGEST) -> int:
    """Return `value` as an int in first..last.

    >>> index("n_features", 2**63, 1)
    Traceback (most recent call last):
    ...
    ValueError: n_features must be in 1..9223372036854775807, got 9223372036854775808
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        position = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer in {first}..{last}, got {shown(value)}") from None
    if not first <= position <= last:
        raise ValueError(f"{name} must be in {first}..{last}, got {position}")
    return position


def axis_of(name: str, array: np.ndarray, axis: SupportsIndex) -> int:
    """Return `axis` as one of the axes of the array `name`, which has at least one entry along it."""
    if array.ndim == 0:
        raise ValueError(f"{name} must be an array with one entry per client along axis, not a single number")
    axis = index("axis", axis, -array.ndim, array.ndim - 1)
    if array.shape[axis] == 0:
        raise ValueError(f"{name} must hold at least one entry along axis {axis}, got shape {array.shape}")
    return axis


def choice(name: str, value: T, options: Iterable[object]) -> T:
    """Return `value` if it is one of `options`, which are text, True, False or None."""
    if not isinstance(value, (str, bool, type(None))) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {shown(value)}")
    return value


def instance(name: str, value: object, kind: type[T], *, none: bool = False) -> T:
    """Return `value` if it is of class `kind`, or None where that is allowed.

    >>> instance("prior", 8, str)
    Traceback (most recent call last):
    ...
    ValueError: prior must be a str, got 8
    """
    if not (isinstance(value, kind) or (none and value is None)):
        raise ValueError(f"{name} must be a {kind.__name__}{' or None' if none else ''}, got {shown(value)}")
    return value  # type: ignore[return-value]


def shown(value: object) -> str:
    """Return a single value as text, and of anything larger the type."""
    alone = value is None or isinstance(value, (str, int, float, np.number))
    return repr(value) if alone else f"a {type(value).__name__}"


def by_level(name: str, values: ArrayLike) -> np.ndarray:
    """Return a list with one entry per level, each a number or an array, as one array with levels on axis 0.

    >>> by_level("gamma2s", [0.0, [1.0, 2.0]]).tolist()
    [[0.0, 0.0], [1.0, 2.0]]
    """
    if isinstance(values, (list, tuple)):
        entries = [number(f"{name}[{i}]", value) for i, value in enumerate(values)]
        try:
            array = np.stack(np.broadcast_arrays(*entries)) if entries else np.empty(0)
        except ValueError:
            shapes = [entry.shape for entry in entries]
            raise ValueError(f"{name} has entries whose shapes {shapes} do not fit together") from None
    else:
        array = number(name, values)
        if array.ndim == 0:
            raise ValueError(f"{name} must be a list or array with one entry per level, got {shown(values)}")
    if len(array) == 0:
        raise ValueError(f"{name} is empty; give one entry per level")
    return array
