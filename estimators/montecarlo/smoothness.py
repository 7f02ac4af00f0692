"""Whether a statistic is a smooth function of its draws, seen by running it on arrays that only know smooth operations.

Belongs here: those arrays, and what counts as smooth.  Does not belong here: nets (``nets`` ask this before they serve).

Why it must be known: where a statistic jumps, as at a threshold, the mean over a net may have an error of one point in a few
randomisations and none in the others.  Sixteen of them may then agree by luck, far from the truth, and Student's t says
nothing.  Independent draws have no such trouble, so statistics with jumps are left to them.  Comparisons, ranks, rounding,
maxima, and code that takes arrays of numbers only: all of these are refused, with what it was that could not be followed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

UFUNCS = {
    "add", "subtract", "multiply", "divide", "negative", "positive", "reciprocal", "square", "sqrt", "exp", "exp2", "expm1",
    "log", "log2", "log10", "log1p", "sin", "cos", "tanh", "arctan", "sinh", "cosh", "power", "float_power", "matmul",
    "logaddexp", "ndtr", "log_ndtr", "expit", "erf", "erfc", "betaincinv", "gammainc", "gammaincc", "gammaincinv",
}  # fmt: skip
"""Functions of NumPy and SciPy that are smooth where they are finite."""

METHODS = {
    "sum", "mean", "prod", "cumsum", "var", "dot", "reshape", "ravel", "transpose", "swapaxes", "squeeze", "copy", "repeat",
    "take", "diagonal", "trace",
}  # fmt: skip
"""Sums, products and rearrangements, as methods of an array or functions of NumPy."""

FUNCTIONS = METHODS | {
    "vdot", "inner", "outer", "tensordot", "einsum", "average", "stack", "column_stack", "concatenate", "hstack", "vstack",
    "dstack", "moveaxis", "rollaxis", "expand_dims", "broadcast_to", "atleast_1d", "atleast_2d", "tile", "flip", "roll",
    "split", "array_split", "zeros_like", "ones_like", "empty_like", "full_like", "shape", "ndim", "size", "append", "block",
    "diff", "kron", "norm", "solve", "inv", "det",
}  # fmt: skip
"""The same of what is a function only."""


class NoNet(Exception):
    """An experiment draws, or uses its draws, in a way that a net cannot serve; the message says which."""


class Smooth(NDArrayOperatorsMixin):
    """An array of smooth functions of draws.

    Parameters
    ----------
    values : array

    Examples
    --------
    >>> x = Smooth(np.array([1.0, 2.0]))
    >>> np.mean(np.exp(x) ** 2 - 3).values.round(2).item()
    27.99
    >>> x > 1
    Traceback (most recent call last):
    estimators.montecarlo.smoothness.NoNet: it takes greater of its draws, which is not smooth
    """

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        if ufunc.__name__ not in UFUNCS or method not in ("__call__", "reduce", "accumulate"):
            raise NoNet(f"it takes {ufunc.__name__} of its draws, which is not smooth")
        settings.pop("out", None)  # x += y gives x another name for the sum
        return Smooth(getattr(ufunc, method)(*map(bare, inputs), **{k: bare(v) for k, v in settings.items()}))

    def __array_function__(self, function: Any, _: Any, inputs: Any, settings: Any) -> Any:
        if function.__name__ not in FUNCTIONS or "out" in settings:
            raise NoNet(f"it takes {function.__name__} of its draws, which is not smooth")
        found = function(*bare(inputs), **bare(settings))
        if isinstance(found, list | tuple) and not all(isinstance(x, int) for x in found):
            return type(found)(map(Smooth, found))
        return Smooth(found) if isinstance(found, np.ndarray | np.floating) else found

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NoNet("code that takes numbers only uses its draws")

    __bool__ = __float__ = __int__ = __index__ = __array__

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> Smooth:
        return Smooth(self.values[require_plain(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.values = np.array(self.values)
        self.values[require_plain(key)] = bare(value)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "ndim", "size", "dtype"):
            return getattr(self.values, name)
        if name == "T":
            return Smooth(self.values.T)
        if name in METHODS:
            return lambda *a, **k: Smooth(getattr(self.values, name)(*bare(a), **bare(k)))
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoNet(f"it takes {name} of its draws, which may not be smooth")


def bare(value: Any) -> Any:
    """The values of what is smooth, also inside of lists, tuples and dicts."""
    if isinstance(value, Smooth):
        return value.values
    if isinstance(value, list | tuple):
        return type(value)(map(bare, value))
    return {k: bare(v) for k, v in value.items()} if isinstance(value, dict) else value


def require_plain(key: Any) -> Any:
    """An index that does not depend on draws."""
    if any(isinstance(part, Smooth) for part in (key if isinstance(key, tuple) else (key,))):
        raise NoNet("it picks by its draws, which is not smooth")
    return key


__all__ = ["NoNet", "Smooth", "bare"]
