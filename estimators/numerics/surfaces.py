"""A smooth function of two numbers at very many places, from its values at a few hundred.

Belongs here: interpolation on cells, and when it is exact enough.  The functions are the models' own (quantiles of
posteriors over what a client's data are, in ``counts.conjugate`` and ``normal_means.normal_posteriors``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev

from estimators.numerics.arrays import Floats, Ints

__all__ = ["from_cells"]

FEW = 1.5  # places in a cell, in evaluations that interpolation takes, up to which the function itself serves
TAIL = 3e-12  # the last coefficients, up to which they count as rounding


@cache
def nodes(degree: int) -> tuple[Floats, Floats]:
    """Return Chebyshev's `degree` + 1 nodes on [-1, 1] and the matrix from values there to coefficients."""
    unit = chebyshev.chebpts1(degree + 1)
    transform = np.asarray(chebyshev.chebvander(unit, degree).T * (2 / (degree + 1)), float)
    transform[0] /= 2
    return unit, transform


def from_cells(
    function: Callable[[Floats, Floats], Floats], x: Floats, y: Floats, degree: int = 12, width: float | None = None
) -> Floats:
    """Return function(x, y), arrays (m,), as exact as `function` but for `TAIL`, with few evaluations of it.

    The function is interpolated by Chebyshev polynomials on rectangles.  Those where coefficients do not fall to rounding
    are cut across the sides along which they do not, and where that leaves few places, or parts none, or the function is not
    finite, it is called for them.

    Parameters
    ----------
    function : analytic, with values of the order of 1; takes and returns arrays of the same shape (k,).
    x, y : arrays (m,).
    degree : whole number >= 4 of the polynomials; more make cells larger that take (degree + 1)^2 evaluations each.
    width : number > 0, sides of the first squares; None for one rectangle that holds all places.

    >>> x, y = np.linspace(0, 4, 5000), np.linspace(2, 0.5, 5000)
    >>> called = []
    >>> found = from_cells(lambda x, y: (called.append(x.size), np.log(x + y))[1], x, y)
    >>> bool(np.abs(found - np.log(x + y)).max() < 1e-10), sum(called) < 5000
    (True, True)
    """
    found, direct, waiting, few = np.empty(x.size), [], [np.arange(x.size)], FEW * (degree + 1) ** 2
    if width is not None:
        column, row = (((z - z.min()) / width).astype(np.int64) for z in (x, y))
        key = column * (int(row.max()) + 1) + row
        order = np.argsort(key.astype(np.uint16) if key.max() < 2**16 else key, kind="stable")
        waiting = [cell for cell in np.split(order, np.cumsum(np.bincount(key))[:-1]) if cell.size]
    while waiting:
        direct += [cell for cell in waiting if cell.size <= few]
        wide = [cell for cell in waiting if cell.size > few]
        waiting = [piece for cell in wide for piece in interpolated(function, x, y, degree, cell, found)]
    if direct:
        left = np.sort(np.concatenate(direct))
        found[left] = function(x[left], y[left])
    return found


def interpolated(
    function: Callable[[Floats, Floats], Floats], x: Floats, y: Floats, degree: int, cell: Ints, found: Floats
) -> list[Ints]:
    """Fill `found` for the places of a cell; returns its halves or quarters where that is not exact enough."""
    from estimators.numerics.surface_kernels import chebyshev_surface

    unit, transform = nodes(degree)
    upper, scaled, at = [], [], []
    for z in (x[cell], y[cell]):
        low, high = z.min(), z.max()
        centre, half = (low + high) / 2, max((high - low) / 2, 1e-12 * max(1.0, abs(low), abs(high)))
        upper.append(z > centre)
        scaled.append((z - centre) / half)
        at.append(centre + half * unit)
    places = np.meshgrid(*at, indexing="ij")
    with np.errstate(all="ignore"):
        values = function(*(place.ravel() for place in places)).reshape(places[0].shape)
    if np.isfinite(values).all():
        coefficients = np.einsum("pi,ij,qj->pq", transform, values, transform)
        size = np.abs(coefficients)
        cut = [bool(size[-2:].max() > TAIL), bool(size[:, -2:].max() > TAIL)]
        if not any(cut):
            across, along = (int(np.flatnonzero(size.max(axis=axis) > TAIL / degree**2)[-1:].sum()) + 1 for axis in (1, 0))
            chebyshev_surface(coefficients[:across, :along], scaled[0], scaled[1], cell, found)
            return []
        pieces = [cell]
        for above, wanted in zip(upper, cut, strict=True):
            if wanted:
                whole = np.zeros(x.size, bool)
                whole[cell] = above
                pieces = [piece[whole[piece] == side] for piece in pieces for side in (False, True)]
        if max(piece.size for piece in pieces) < cell.size:  # else all are on one side: no cut makes that smaller
            return pieces
    found[cell] = function(x[cell], y[cell])
    return []
