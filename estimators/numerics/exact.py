"""Sums of float64 numbers and of their squares without any rounding, as Python integers.

Belongs here: turning arrays into exact sums, and exact sums into a mean and a scatter that are rounded once.  The
loops are in ``exact_kernels``; what clients do with the sums is in ``streaming``.

A float64 is a whole number of 1 / UNIT, so a sum is a Python integer that counts them (squares: 1 / UNIT^2).
Integers add exactly, which makes any sum of batches, in any order and by any worker, the same bits.
"""

from __future__ import annotations

import math
from itertools import chain, pairwise

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.validation import finite, index

__all__ = ["UNIT", "exact_sum", "group_by", "mean_and_scatter", "power_sums", "rounded"]

UNIT = 1 << 1074
"""Every finite float64 is a whole number of 1 / UNIT."""

TOGETHER = 512
"""Groups summed at a time: their limbs take 1 MB."""


def exact_sum(values: Floats) -> int:
    """Return the exact sum of finite float64 `values`, as an integer in units of 1 / UNIT.

    >>> rounded(exact_sum([1e308, 1.0, 2.0**-1074, -1e308]))
    1.0
    """
    from estimators.numerics import exact_kernels as kernels

    bits = np.ascontiguousarray(finite("values", values)).reshape(-1).view(np.int64)
    total = 0
    for start in range(0, bits.size, kernels.MOST):
        limbs = np.zeros((1, kernels.LIMBS), np.int64)
        kernels.add_values(bits[start : start + kernels.MOST], limbs[0])
        total += whole(limbs)[0]
    return total


def power_sums(values: Floats, group: Ints, groups: int) -> tuple[list[int], list[int], list[int]]:
    """Return counts, exact sums and exact sums of squares of `values` in each of `groups` groups.

    Parameters
    ----------
    values : float64 array (m,), finite.
    group : integer array (m,), entries in 0..groups - 1.
    groups : integer.

    Returns
    -------
    counts, sums, squares : lists of integers; sums in units of 1 / UNIT and squares in 1 / UNIT^2.

    Raises
    ------
    ValueError
        Naming the argument that is of another kind, length or range: compiled loops would write beyond their arrays.

    >>> counts, sums, squares = power_sums([1.0, 2.0, 4.0], [0, 1, 1], 2)
    >>> counts, [rounded(s) for s in sums], [s / UNIT**2 for s in squares]
    ([1, 2], [1.0, 6.0], [1.0, 20.0])
    """
    values, group, groups = finite("values", values), np.asarray(group), index("groups", groups, 1, 2**31)
    if values.ndim != 1 or group.shape != values.shape or group.dtype.kind not in ("iu" if group.size else "iuf"):
        raise ValueError("group must hold whole numbers, as many as the 1-d array values, got another length or kind")
    if group.size and not 0 <= group.min() <= group.max() < groups:
        raise ValueError(f"group must lie in 0..{groups - 1}, got {group.min()}..{group.max()}")
    return summed(np.ascontiguousarray(values), np.ascontiguousarray(group, dtype=np.int64), groups)


def summed(values: Floats, group: Ints, groups: int) -> tuple[list[int], list[int], list[int]]:
    """Return what `power_sums` does, of checked arguments."""
    from estimators.numerics import exact_kernels as kernels

    if groups > TOGETHER:
        order = np.argsort(group, kind="stable")
        values, group = values[order], group[order]
        cuts = np.searchsorted(group, np.arange(0, groups + TOGETHER, TOGETHER))
        parts = [
            summed(values[a:b], group[a:b] - k * TOGETHER, min(TOGETHER, groups - k * TOGETHER))
            for k, (a, b) in enumerate(pairwise(cuts))
        ]
        counts, sums, squares = (list(chain(*lists)) for lists in zip(*parts, strict=True))
        return counts, sums, squares
    bits = values.view(np.int64)
    counts, sums, squares = np.zeros(groups, np.int64), [0] * groups, [0] * groups
    for start in range(0, bits.size, kernels.MOST):
        limbs = np.zeros((2, groups, kernels.LIMBS), np.int64)
        part = slice(start, start + kernels.MOST)
        kernels.add_powers(bits[part], group[part], limbs[0], limbs[1], counts)
        sums = [a + b for a, b in zip(sums, whole(limbs[0]), strict=True)]
        squares = [a + b for a, b in zip(squares, whole(limbs[1]), strict=True)]
    return counts.tolist(), sums, squares


def group_by(keys: np.ndarray, most: int) -> tuple[np.ndarray, Ints] | None:
    """Return the distinct `keys` as they appear and the place of each key among them; None if there are over `most`.

    >>> keys, place = group_by(np.array([0.5, 2.0, 0.5]), most=2)
    >>> keys.tolist(), place.tolist(), group_by(keys, most=1)
    ([0.5, 2.0], [0, 1, 0], None)
    """
    from estimators.numerics import exact_kernels as kernels

    bits = np.ascontiguousarray(finite("keys", keys)).reshape(-1).view(np.int64)
    if (bits == 0).any():
        raise ValueError("keys must not be 0, which stands for a free place")
    place, found = np.empty(bits.size, np.int64), np.empty(min(most, bits.size), np.int64)
    table, ids = np.zeros((2, 1 << (2 * found.size).bit_length()), np.int64)
    count = kernels.find_groups(bits, place, found, table, ids)
    return None if count < 0 else (found[:count].view(float), place)


def whole(limbs: Ints) -> list[int]:
    """Return the Python integer in each row of `limbs`."""
    from estimators.numerics import exact_kernels as kernels

    rest = kernels.carry(limbs).tolist()
    rows, size = limbs.astype("<u4"), 32 * limbs.shape[1]
    return [int.from_bytes(row.tobytes(), "little") + (over << size) for row, over in zip(rows, rest, strict=True)]


def rounded(total: int, scale: int = UNIT) -> float:
    """Return total / scale, rounded once to float64; infinite where it is too large for one."""
    try:
        return total / scale
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def mean_and_scatter(count: int, first: int, second: int, origin: float = 0.0) -> tuple[float, float]:
    """Return mean - origin and the sum of squares about the mean, each rounded once.

    Parameters
    ----------
    count : integer >= 1; first, second : exact sum and sum of squares, in the units of ``power_sums``.
    origin : float64.

    >>> counts, sums, squares = power_sums([1e9 + 1, 1e9 + 2, 1e9 + 3], [0, 0, 0], 1)
    >>> mean_and_scatter(counts[0], sums[0], squares[0], origin=1e9)
    (2.0, 2.0)
    """
    top, bottom = float(origin).as_integer_ratio()
    shift = top * (UNIT // bottom)
    return rounded(first - count * shift, count * UNIT), rounded(count * second - first * first, count * UNIT * UNIT)
