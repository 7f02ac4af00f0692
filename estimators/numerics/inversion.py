"""Roots: of a function, and quantiles of many laws at once from their distribution functions.

Belongs here: solving f(x) = 0, F_i(t_i) = q for all i together, and a step towards a root.  The distribution functions are
in the models' modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from estimators.numerics.arrays import Floats, Ints

__all__ = ["householder", "lattice_quantile", "quantiles", "root"]


def root(function: Callable[[float], float], low: float, high: float, **tolerances: float) -> float:
    """Return a root of `function`, whose signs at `low` and `high` differ, by SciPy's ``brentq`` with its tolerances.

    >>> round(root(lambda x: x * x - 2, 0.0, 2.0), 6)
    1.414214
    """
    from scipy.optimize import brentq

    found: Any = brentq(function, low, high, **tolerances)  # type: ignore[arg-type]
    return found


def quantiles(
    cdf: Callable[[Floats, Ints], Floats],
    derivatives: Callable[[Floats, Ints], Sequence[Floats] | Floats],
    q: float | Floats,
    low: Floats,
    high: Floats,
    start: Floats,
) -> Floats:
    """Return the smallest t_i in [low_i, high_i] with F_i(t_i) >= q, to rounding, by Newton's method kept inside brackets.

    By Householder's of third order where two derivatives of the density are known and it changes little along the step.
    Where a step leaves its bracket, or is not half of the one before the last (a jump, a flat stretch), the bracket is
    halved instead, so that every entry settles, on a jump too.

    Parameters
    ----------
    cdf, derivatives : functions of (t, rows), an array of values and the positions of the laws that they belong to;
        `derivatives` returns densities, or densities and their first and second derivatives.
    q : number in (0, 1).
    low, high, start : arrays (m,); the quantiles lie in [low, high]; `start` is a guess.

    >>> F = lambda t, rows: t**2
    >>> quantiles(F, lambda t, rows: [2 * t], 0.25, np.zeros(1), np.ones(1), np.array([0.9])).round(12).tolist()
    [0.5]
    """
    low, high = np.array(low, float), np.array(high, float)
    t = np.where((start > low) & (start < high), start, low + (high - low) / 2)
    rows = np.flatnonzero(low < high)
    last = high - low
    before = last.copy()
    while rows.size:
        here = t[rows]
        gap = cdf(here, rows) - q
        enough = gap >= 0
        high[rows] = np.where(enough, here, high[rows])
        low[rows] = np.where(enough, low[rows], here)
        a, b = low[rows], high[rows]
        density, *more = derivatives(here, rows)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = np.where((density > 0) & (density < np.inf), gap / density, np.nan)
            smooth = np.zeros(rows.shape, bool)
            if more:
                smooth = np.maximum(np.abs(step * more[0]), step * step * np.abs(more[1])) <= 3e-3 * density
                step = householder(step * density, density, *more)
        following, middle = here - step, a + (b - a) / 2
        inside = (following >= a) & (following <= b) & (np.abs(step) <= before[rows] / 2)
        # The next error is of its square, or fourth power; not by an end where a law has much within that of it.
        near = inside & (np.abs(step) <= np.where(smooth, 1e-4, 1e-9) * np.abs(here))
        near &= np.abs(gap) <= np.where(smooth, 1e-3, 1e-6) * np.minimum(q, 1 - q)
        stuck = ~near & ((b - a <= 4e-16 * np.maximum(np.abs(a), np.abs(b))) | (middle <= a) | (middle >= b))
        following = np.where(inside, following, middle)
        t[rows] = np.where(stuck, b, following)
        before[rows], last[rows] = last[rows], np.abs(following - here)
        rows = rows[~(near | stuck)]
    return t


def householder(gap: Floats, density: Floats, slope: Floats, bend: Floats) -> Floats:
    """Return the step of Householder's third order from where the function is `gap`, or Newton's far from the root.

    `density`, `slope` and `bend` are the function's derivatives; the root is near the place less the step.

    >>> float(0.1 - householder(np.expm1(np.array(0.1)), *[np.exp(np.array(0.1))] * 3)) < 0.1**4
    True
    """
    step = gap / density
    a, b = step * slope / density, step * step * bend / density
    return np.where(np.maximum(np.abs(a), np.abs(b)) < 0.5, step * (6 - 3 * a) / (6 - 6 * a + b), step)


def lattice_quantile(values: Floats, weights: Floats, q: float) -> float:
    """Return a quantile of a smooth law from places and probabilities that stand for it, such as nodes of a quadrature.

    Half of a place's probability lies on either side of it, evenly up to the next one; beyond the ends there is nothing.

    >>> lattice_quantile(np.array([3.0, 1.0, 2.0]), np.array([0.25, 0.25, 0.5]), 0.5)
    2.0
    """
    order = np.argsort(values, kind="stable")
    middle = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(q * weights.sum(), middle, values[order]))
