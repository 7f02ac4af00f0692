"""The loops of ``kernels`` in NumPy: for few clients, where compiling costs more than the fit, and as reference in tests.

Belongs here: a twin of each function of ``kernels`` that others call, with the same arguments.  Does not belong here:
checks, the plan of the grid and the choice of steps (``npmle``); which of the two modules serves is decided in ``solver``.
No function calls BLAS, whose threads would change bits.
"""

from functools import cache
from math import comb

import numpy as np

from estimators.numerics.arrays import Floats, Ints

__all__ = [
    "CUT",
    "FLOOR",
    "cholesky",
    "expand",
    "forward",
    "peaks",
    "spread_exponential",
    "spread_gaussian",
    "sums",
    "upper_bound",
]

CUT = 36.25
FLOOR = -700.0
ROWS = 256  # clients at a time: few enough that far atoms are left out, many enough for long inner loops


def sums(
    gaussian: bool,
    p1: Floats,
    p2: Floats,
    offset: Floats,
    weights: Floats,
    low: Ints,
    high: Ints,
    t: Floats,
    shapes: Floats,
    masses: Floats,
    order: int,
    density: Floats,
    first: Floats,
    second: Floats,
) -> None:
    """Mixture density of each client, and sums over clients that a Newton step needs; as ``kernels.sums``."""
    size = t.size
    for begin in range(0, p1.size, ROWS):
        rows = slice(begin, begin + ROWS)
        atoms = slice(int(low[rows].min()), int(high[rows].max()))
        q1, q2, q3, root = p1[rows], p2[rows], offset[rows], np.sqrt(weights[rows])
        with np.errstate(over="ignore"):  # an infinite distance is one below FLOOR
            if gaussian:
                logs = -0.5 * np.square((t[atoms, None] - q1) * q2) - q3
            else:
                logs = shapes[0, atoms, None] * q1 + shapes[1, atoms, None] * q2 - q3
        values = np.exp(np.maximum(logs, FLOOR))
        scale = np.einsum("j,jm->m", masses[atoms], values)
        density[rows] = scale
        if order == 0:
            continue
        values *= np.divide(root, scale, out=np.zeros(scale.size), where=scale > 0)
        first[0, atoms] += np.einsum("jm,m->j", values, root)
        moved = np.empty((0, scale.size))
        if order == 3:
            if gaussian:
                slope = (q1 - t[atoms, None]) * np.square(q2)
                bend = np.square(slope) - np.square(q2)
            else:
                slope = shapes[2, atoms, None] * q1 + shapes[3, atoms, None] * q2
                bend = np.square(slope) + shapes[4, atoms, None] * q1 + shapes[5, atoms, None] * q2
            moved = values * slope
            first[1, atoms] += np.einsum("jm,m->j", moved, root)
            first[2, atoms] += np.einsum("jm,m->j", values * bend, root)
        if order >= 2:
            second[atoms, atoms] += np.tril(np.einsum("jm,km->jk", values, values))
        if order == 3:
            moves = slice(size + atoms.start, size + atoms.stop)
            second[moves, atoms] += np.einsum("jm,km->jk", moved, values)
            second[moves, moves] += np.tril(np.einsum("jm,km->jk", moved, moved))


def cholesky(a: Floats) -> bool:
    """Overwrite the lower triangle of a symmetric matrix by its Cholesky factor; False if it is not positive definite."""
    if not a.size:
        return True
    starts = (a != 0).argmax(axis=1)
    stops = np.array([np.flatnonzero(starts <= i)[-1] + 1 for i in range(a.shape[0])])
    for i, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        column = a[i:stop, i] - np.einsum("jk,k->j", a[i:stop, start:i], a[i, start:i])
        if not column[0] > 0:
            return False
        a[i:stop, i] = column / np.sqrt(column[0])
        a[i, i + 1 :] = 0.0
    return True


def forward(root: Floats, b: Floats) -> None:
    """Overwrite the columns of b by root^-1 b, for a lower triangular root."""
    for i, row in enumerate(root):
        start = int((row != 0).argmax())
        b[i] = (b[i] - np.einsum("k,km->m", root[i, start:i], b[start:i])) / root[i, i]


def spread_gaussian(coefficients: Floats, nodes: Floats, starts: Ints, steps: Floats, reach: int, out: Floats) -> None:
    """Add sum_i c_i L_i at the nodes of the clients' grids to `out`; as ``kernels.spread_gaussian``."""
    band = (reach / steps).astype(np.int64) + 1
    m = np.arange(-band.max(), band.max() + 1)
    values = coefficients[:, None] * np.exp(-0.5 * np.square(starts[:, None] + m * steps[:, None]))
    inside = np.abs(m) <= band[:, None]
    out += np.bincount((nodes[:, None] + m)[inside], values[inside], out.size)


def spread_exponential(
    coefficients: Floats,
    p1: Floats,
    p2: Floats,
    offset: Floats,
    nodes: Floats,
    steps: Floats,
    reach: int,
    alpha: Floats,
    beta: Floats,
    shift: Floats,
    out: Floats,
) -> None:
    """Do what `spread_gaussian` does for the other families; alpha and beta hold the nodes' values, from `shift` on."""
    band = (reach / steps).astype(np.int64) + 1
    m = np.arange(-band.max(), band.max() + 1)
    client, step = np.nonzero(np.abs(m) <= band[:, None])
    node = nodes[client] + m[step]
    with np.errstate(over="ignore"):
        logs = p1[client] * alpha[node + shift] + p2[client] * beta[node + shift] - offset[client]
    heard = logs > -CUT
    out += np.bincount(node[heard], coefficients[client[heard]] * np.exp(logs[heard]), out.size)


@cache
def halves(size: int) -> tuple[Floats, Floats]:
    """Return the matrices from `size` Bernstein coefficients on a cell to those on its left and its right half; exact."""
    left = np.array([[comb(m, j) / 2.0**m for j in range(size)] for m in range(size)])
    return left, left[::-1, ::-1].copy()


def expand(values: Floats, matrix: Floats, windows: Ints, parents: Ints, sides: Ints, coefficients: Floats) -> None:
    """Bernstein coefficients of the dual function on every cell: the parent's half plus the cell's own level."""
    size = matrix.shape[0]
    coefficients[:] = 0.0
    own = np.flatnonzero(windows >= 0)
    with np.errstate(over="ignore", invalid="ignore"):
        coefficients[own] = np.einsum("mk,ck->cm", matrix, values[windows[own, None] + np.arange(size)])
        begin, end = 0, int(np.searchsorted(parents, 0))
        while end < parents.size:  # level by level: parents come first, in the order of their children
            begin, end = end, int(np.searchsorted(parents, end))
            for side, half in enumerate(halves(size)):
                cells = begin + np.flatnonzero(sides[begin:end] == side)
                coefficients[cells] += np.einsum("mk,ck->cm", half, coefficients[parents[cells]])


def polynomial(b: Floats, x: Floats) -> Floats:
    """Value of each row of Bernstein coefficients at its x in [0, 1]."""
    degree = b.shape[1] - 1
    k = np.arange(degree + 1)
    basis = np.array([comb(degree, j) for j in k]) * x[:, None] ** k * (1 - x[:, None]) ** (degree - k)
    return np.einsum("ck,ck->c", b, basis)


def peaks(
    coefficients: Floats,
    leaves: Ints,
    before: Ints,
    lefts: Floats,
    widths: Floats,
    begin: float,
    places: Floats,
    heights: Floats,
) -> int:
    """Local maxima of the dual function inside or between the leaf cells, or at its left end; as ``kernels.peaks``."""
    b = coefficients[leaves]
    falling = b[:, 1] <= b[:, 0]
    summit = np.where(before < 0, lefts <= begin, coefficients[before, -1] > coefficients[before, -2])
    kept = np.flatnonzero(np.where(falling, summit, ~(b[:, -1] > b[:, -2])))
    b, falling, found = b[kept], falling[kept], kept.size
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = np.diff(b, axis=1)
        low, high = np.zeros(found), np.where(falling, 0.0, 1.0)
        for _ in range(40):
            middle = 0.5 * (low + high)
            up = polynomial(slopes, middle) > 0
            low, high = np.where(up, middle, low), np.where(up, high, middle)
        middle = 0.5 * (low + high)
        places[:found] = lefts[kept] + widths[kept] * middle
        heights[:found] = polynomial(b, middle)
    return found


def upper_bound(coefficients: Floats, leaves: Ints, tolerance: float) -> float:
    """Bound from above on the maximum over all leaf cells, within the share `tolerance` of it, by hulls of coefficients."""
    b = coefficients[leaves]
    left, right = halves(b.shape[1])
    bound = best = max(0.0, float(b[:, [0, -1]].max()))
    for depth in range(41):
        top = b.max(axis=1)
        if not np.isfinite(top).all():
            return np.inf
        best = max(best, float(b[:, [0, -1]].max()))
        closed = (top <= best * (1.0 + tolerance)) | (depth == 40)
        bound = max(bound, float(top[closed].max(initial=0.0)))
        b = b[~closed]
        if not len(b):
            break
        b = np.concatenate([np.einsum("mk,ck->cm", half, b) for half in (left, right)])
    return bound
