"""Checks of arguments: each returns the argument as an array or raises a ValueError naming it and the fix.

Only checks belong here; arithmetic that survives zeros and infinities is in ``limits``.
"""

import operator

import numpy as np

__all__ = [
    "by_level",
    "choice",
    "count",
    "finite",
    "index",
    "nonnegative",
    "number",
    "positive",
    "probability",
]


def number(name, value):
    """Return `value` as a float array without NaN (infinities may pass).

    >>> float(number("lam", 2))
    2.0
    """
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number or an array of numbers, not {value!r}") from None
    if np.isnan(array).any():
        raise ValueError(f"{name} holds NaN; drop or fill the missing values first")
    return array


def finite(name, value):
    """Return `value` as a finite float array."""
    array = number(name, value)
    if np.isinf(array).any():
        raise ValueError(f"{name} must be finite; it holds an infinity")
    return array


def nonnegative(name, value, *, infinite=False):
    """Return `value` as a float array of numbers >= 0, with infinity only where the caller has that limit.

    >>> nonnegative("tau2", -1)
    Traceback (most recent call last):
    ...
    ValueError: tau2 must be >= 0, got -1.0
    """
    array = number(name, value) if infinite else finite(name, value)
    if (array < 0).any():
        raise ValueError(f"{name} must be >= 0, got {array.min()}")
    return array


def positive(name, value):
    """Return `value` as a float array of finite numbers > 0."""
    array = finite(name, value)
    if (array <= 0).any():
        raise ValueError(f"{name} must be > 0, got {array.min()}")
    return array


def count(name, value, minimum=1):
    """Return `value` as a float array of whole numbers >= `minimum`."""
    array = finite(name, value)
    if (array < minimum).any() or (array != np.floor(array)).any():
        raise ValueError(f"{name} must be a whole number >= {minimum}, got {value!r}")
    return array


def probability(name, value):
    """Return `value` as a float array of numbers in [0, 1]."""
    array = number(name, value)
    if ((array < 0) | (array > 1)).any():
        raise ValueError(f"{name} must lie in [0, 1], got {value!r}")
    return array


def index(name, value, first, last):
    """Return `value` as an int in first..last."""
    try:
        position = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer in {first}..{last}, got {value!r}") from None
    if not first <= position <= last:
        raise ValueError(f"{name} must be in {first}..{last}, got {position}")
    return position


def choice(name, value, options):
    """Return `value` if it is one of the strings `options`."""
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")
    return value


def by_level(name, values):
    """Return a list with one entry per level, each a number or an array, as one array with levels on axis 0.

    >>> by_level("gamma2s", [0.0, [1.0, 2.0]]).tolist()
    [[0.0, 0.0], [1.0, 2.0]]
    """
    if isinstance(values, np.ndarray) and values.ndim:
        array = number(name, values)
    elif isinstance(values, (list, tuple)):
        entries = [number(f"{name}[{i}]", value) for i, value in enumerate(values)]
        try:
            array = np.stack(np.broadcast_arrays(*entries)) if entries else np.empty(0)
        except ValueError:
            shapes = [entry.shape for entry in entries]
            raise ValueError(f"{name} has entries whose shapes {shapes} do not fit together") from None
    else:
        raise ValueError(f"{name} must be a list or array with one entry per level, got {values!r}")
    if len(array) == 0:
        raise ValueError(f"{name} is empty; give one entry per level")
    return array
