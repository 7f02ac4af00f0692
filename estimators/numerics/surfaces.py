"""A smooth function of two positive numbers at very many places, from its values at a few hundred.

Belongs here: interpolation on cells, and when it is exact enough.  The functions are the models' own (quantiles of
posteriors over a client's counts, in ``counts.conjugate``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev

from estimators.numerics.arrays import Floats, Ints

__all__ = ["from_cells"]

DEGREE = 12
WIDTH = np.log(4.0)  # of a cell in the logarithm of either number
FEW = 1.5 * (DEGREE + 1) ** 2  # places in a cell up to which the function itself serves
TAIL = 3e-12  # the last coefficients, up to which they count as rounding


@cache
def nodes() -> tuple[Floats, Floats]:
    """Return Chebyshev's nodes on [-1, 1] and the matrix from values there to coefficients."""
    unit = chebyshev.chebpts1(DEGREE + 1)
    transform = np.asarray(chebyshev.chebvander(unit, DEGREE).T * (2 / (DEGREE + 1)), float)
    transform[0] /= 2
    return unit, transform


def from_cells(function: Callable[[Floats, Floats], Floats], a: Floats, b: Floats) -> Floats:
    """Return function(a, b), arrays (m,) > 0, as exact as `function` but for `TAIL`, with few evaluations of it.

    The function is interpolated by Chebyshev polynomials in (log a, log b) on cells; those where coefficients do not fall
    to rounding are cut in four, and where that leaves few places, or the function is not finite, it is called for them.

    Parameters
    ----------
    function : analytic in log a and log b, with values of the order of 1; takes and returns arrays of the same shape (k,).
    a, b : arrays (m,) > 0.

    >>> a, b = np.linspace(1, 100, 5000), np.linspace(9, 2, 5000)
    >>> called = []
    >>> found = from_cells(lambda a, b: (called.append(a.size), np.log(a + b))[1], a, b)
    >>> bool(np.abs(found - np.log(a + b)).max() < 1e-10), sum(called) < 5000
    (True, True)
    """
    x, y = np.log(a / a.min()), np.log(b / b.min())
    column, row = (x / WIDTH).astype(np.int64), (y / WIDTH).astype(np.int64)
    key = column * (int(row.max()) + 1) + row
    order = np.argsort(key.astype(np.uint16) if key.max() < 2**16 else key, kind="stable")
    cells = np.split(order, np.cumsum(np.bincount(key))[:-1])
    found, direct = np.empty(a.size), []
    waiting = [cell for cell in cells if cell.size]
    while waiting:
        direct += [cell for cell in waiting if cell.size <= FEW]
        waiting = [piece for cell in waiting if cell.size > FEW for piece in interpolated(function, a, b, x, y, cell, found)]
    if direct:
        left = np.sort(np.concatenate(direct))
        found[left] = function(a[left], b[left])
    return found


def interpolated(
    function: Callable[[Floats, Floats], Floats], a: Floats, b: Floats, x: Floats, y: Floats, cell: Ints, found: Floats
) -> list[Ints]:
    """Fill `found` for the places of a cell; returns its quarters where that is not exact enough."""
    from estimators.numerics.surface_kernels import chebyshev_surface

    unit, transform = nodes()
    here, scaled, at = [], [], []
    for z, given in ((x, a), (y, b)):
        mine = z[cell]
        low, high = mine.min(), mine.max()
        centre, half = (low + high) / 2, max((high - low) / 2, 1e-12)
        here.append(mine > centre)
        scaled.append((mine - centre) / half)
        at.append(given.min() * np.exp(centre + half * unit))
    places = np.meshgrid(*at, indexing="ij")
    with np.errstate(all="ignore"):
        values = function(*(place.ravel() for place in places)).reshape(places[0].shape)
    coefficients = np.einsum("pi,ij,qj->pq", transform, values, transform)
    last = np.concatenate((coefficients[-2:].ravel(), coefficients[:, -2:].ravel()))
    if np.isfinite(values).all() and np.abs(last).max() <= TAIL:
        chebyshev_surface(coefficients, scaled[0], scaled[1], cell, found)
        return []
    if not np.isfinite(values).all():
        found[cell] = function(a[cell], b[cell])
        return []
    return [cell[(here[0] == right) & (here[1] == upper)] for right in (False, True) for upper in (False, True)]
