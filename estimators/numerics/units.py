"""Units in which data are fitted, so that results do not depend on those in which they are given.

Squares and reciprocals of numbers beyond 1e150 or below 1e-150 leave the range of floating-point numbers.  Dividing data by
a power of two loses no digit, so models fit data in a unit of their own and multiply the results by it.

Formulas in variances do so only where they must, so that elsewhere they do no more than they say.

Belongs here: the choice of such a unit, and the refusal of data that no unit suits.  Does not belong here: any model.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from estimators.numerics.arrays import Floats, Ints, Numbers
from estimators.numerics.validation import number

__all__ = [
    "LOG2", "WIDEST", "common_unit", "exponent", "exponents", "gaussian_unit", "homogeneous", "represented", "shifted",
]  # fmt: skip

Formula = TypeVar("Formula", bound=Callable[..., Any])

LOG2 = math.log(2)
WIDEST = 1e70  # fourth powers of what is this many times its unit are still numbers


def exponent(size: float) -> int:
    """Return the whole number k with size / 2^k in [1, 2); 0 for size 0.

    >>> exponent(1.5), exponent(1e-200), exponent(0.0)
    (0, -665, 0)
    """
    return math.frexp(size)[1] - 1 if size > 0 else 0


def exponents(sizes: Numbers) -> Ints:
    """Return `exponent` of every entry of an array of finite numbers >= 0."""
    return np.where(np.asarray(sizes) > 0, np.frexp(sizes)[1] - 1, 0)


def shifted(x: Floats, k: int) -> Floats:
    """Return x 2^k, as ``np.ldexp`` does, many times faster: a product with a power of two rounds no other way.

    >>> shifted(np.array([3.0, 5e-324, np.inf]), -1).tolist()
    [1.5, 0.0, inf]
    """
    return x * 2.0**k if abs(k) < 1022 else np.ldexp(x, k)


def gaussian_unit(y: Floats, v: Floats, centre: float | None = None) -> tuple[int, Floats, Floats]:
    """Return k, y / 2^k and v / 4^k for estimates y of variances v (> 0 or inf), the smallest variance now in [1/2, 2).

    Raises ValueError where estimates, or variances, differ by so much that no unit suits all.

    >>> k, y, v = gaussian_unit(np.array([3e200, 0.0]), np.array([1e300, np.inf]))
    >>> k, (y * 2.0**k).tolist(), v.round(3).tolist()
    (498, [3e+200, 0.0], [1.493, inf])
    """
    known = np.isfinite(v)
    if not known.any():
        return 0, y, v
    k = (exponent(float(v.min())) + 1) // 2
    with np.errstate(over="ignore", invalid="ignore"):
        y, v = shifted(y, -k), shifted(v, -2 * k)
        told = y if known.all() else y[known]
        low, high = told.min(axis=0), told.max(axis=0)
        origin = None if centre is None else np.ldexp(centre, -k)
        spread = np.max(high - low if origin is None else np.maximum(high - origin, origin - low))
    if not spread < WIDEST:
        raise ValueError(
            f"estimates lie further apart than {WIDEST:g} times the smallest standard error, of clients who are "
            "as good as exact; check the units of the variances, or leave such clients out"
        )
    if not v.max(where=known, initial=0.0) < WIDEST**2:
        raise ValueError(f"variances differ by more than a factor of {WIDEST**2:g}; give inf for those that say nothing")
    return k, y, v


def represented(name: str, size: float, k: int) -> float:
    """Return size 2^k, or raise ValueError where that is beyond the range of floating-point numbers.

    >>> represented("estimates", 1.5, 1)
    3.0
    """
    try:
        return math.ldexp(size, k)
    except OverflowError:
        raise ValueError(f"{name} are so large that their squares are beyond 1e308; change their units") from None


def homogeneous(*names: str, degree: int) -> Callable[[Formula], Formula]:
    """Let a function of variances `names`, homogeneous of `degree` in them, keep sums of them in range.

    Entries of results with a variance beyond 2^900 are computed in units of 2^128, and those with one below 2^-900 and none
    beyond 2^700 in units in which the largest is 2^700; all others are untouched.  Beside variances beyond 2^700, those
    below 2^-894 lose digits.
    """

    def decorate(function: Formula) -> Formula:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def scaled(*args, **kwargs):
            k, bound = unit_of_arguments(signature, names, args, kwargs)
            if k is None or bound is None:
                return function(*args, **kwargs)
            for name in names:
                value = bound.arguments[name]
                bound.arguments[name] = [np.ldexp(v, -k) for v in value] if listed(name, value) else np.ldexp(value, -k)
            with np.errstate(over="ignore"):
                return np.ldexp(function(*bound.args, **bound.kwargs), degree * k)[()]

        return scaled  # type: ignore[return-value]

    return decorate


def unit_of_arguments(
    signature: inspect.Signature, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Ints, inspect.BoundArguments] | tuple[None, None]:
    """Return exponents of the units for a call, or None where all are 0 or the function must refuse, and its arguments."""
    try:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = [(name, bound.arguments[name]) for name in names]
        parts = [number(name, v) for name, value in given for v in (value if listed(name, value) else [value])]
        if not all((part >= 0).all() for part in parts):
            return None, None
        k = np.asarray(units(parts))
    except (TypeError, ValueError):
        return None, None  # the function knows what to say
    return (k, bound) if k.any() else (None, None)


def listed(name: str, value: object) -> bool:
    """Return whether an argument has one entry per level or silo, which a plural says, rather than one per result."""
    return name.endswith("s") and (isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0))


def units(parts: Iterable[Numbers]) -> Ints:
    """Return the exponent k of the unit for each entry of arrays of variances that broadcast."""
    largest, smallest = 0.0, 1.0
    for part in parts:
        largest = np.maximum(largest, np.where(np.isinf(part), 0.0, part))
        smallest = np.minimum(smallest, np.where(part == 0, 1.0, part))
    low = (largest < 2.0**700) & (smallest < 2.0**-900)
    return np.where(largest > 2.0**900, 128, np.where(low, exponents(largest) - 700, 0))


def common_unit(*variances: Floats) -> int:
    """Return the exponent k of one unit for all of these arrays of variances."""
    every = np.concatenate([np.ravel(part) for part in variances])
    some = every[(every > 0) & np.isfinite(every)]
    return int(units([some.max(), some.min()])) if some.size else 0
