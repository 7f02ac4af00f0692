"""Many clients a few at a time, and sums over them that have the same bits on every machine.

Small work arrays stay in the processor's cache and cost no fresh memory.

Belongs here: how work is cut, and sums without BLAS.  Does not belong here: how large a part is, which the work decides.
"""

import numpy as np

from estimators.numerics.arrays import Floats

__all__ = ["before", "dot", "dots", "over_others", "parts"]


def parts(size: int, length: int) -> list[slice]:
    """Return slices that cover 0..size-1, each of `length` numbers, or of one where that is 0; the last may hold fewer."""
    length = max(1, length)
    return [slice(start, start + length) for start in range(0, size, length)]


def dot(x: Floats, y: Floats) -> float:
    """Return the inner product without BLAS, whose threads stall on a busy machine and change bits."""
    return float(np.einsum("i,i->", x, y))


def dots(x: Floats, y: Floats) -> Floats:
    """Return the inner products of the rows of two arrays (m, K), each the same in any block of rows."""
    return np.einsum("ik,ik->i", x, y)


def before(x: Floats) -> Floats:
    """Return, for each entry, the sum of those before it."""
    return np.concatenate(([0.0], np.cumsum(x)[:-1]))


def over_others(x: Floats) -> Floats:
    """Return, for each entry, the sum of all others: added up, as the whole less its own loses what is small beside it."""
    return before(x) + before(x[::-1])[::-1]
