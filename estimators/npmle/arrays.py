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
    "FAINT",
    "FLOOR",
    "PIECES",
    "expand",
    "peaks",
    "solve",
    "sort_clients",
    "spread_exponential",
    "spread_gaussian",
    "sums",
    "upper_bound",
]

CUT = 36.25
FLOOR = -700.0
FAINT = 1e-30
PIECES = 32
ROWS = 256  # clients at a time: few enough that far atoms are left out, many enough for long inner loops
WIDE = 200  # columns from which on sums down them are fastest row by row


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
        loud = np.flatnonzero(values.max(axis=1) >= FAINT)
        if not loud.size:
            continue
        values, atoms = values[loud[0] : loud[-1] + 1], slice(atoms.start + int(loud[0]), atoms.start + int(loud[-1]) + 1)
        first[0, atoms] += np.einsum("jm,m->j", values, root)
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
            values = np.stack([values, moved], axis=1).reshape(-1, scale.size)
        if order >= 2:
            products, start = np.einsum("jm,km->jk", values, values), atoms.start * (2 if order == 3 else 1)
            for c in range(min(second.shape[1], len(values))):
                second[start : start + len(values) - c, c] += products.diagonal(c)


def solve(band: Floats, x: Floats) -> bool:
    """Overwrite x by matrix^-1 x; False if the symmetric matrix is not positive definite; as ``kernels.solve``."""
    size, width = band.shape
    shares = np.zeros(2 * width - 1)  # of the rows below; zeros at the end stand for what is beyond the band
    lower = np.lib.stride_tricks.sliding_window_view(shares, width)
    for r, row in enumerate(band):
        if not row[0] > 0:
            return False
        end = min(width, size - r)
        shares[:end], shares[end:] = row[:end], 0.0
        share = row[1:end] / row[0]
        x[r + 1 : r + end] -= share * x[r]
        band[r + 1 : r + end] -= share[:, None] * lower[1:end]
    for r in range(size - 1, -1, -1):
        end = min(width, size - r)
        x[r] = (x[r] - np.einsum("k,k->", band[r, 1:end], x[r + 1 : r + end])) / band[r, 0]
    return True


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
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = np.diff(b, axis=1)
        up = slopes > 0
        first = ~up[:, 0] & np.where(before < 0, lefts <= begin, coefficients[before, -1] > coefficients[before, -2])
        wavy = ((up[:, 1:] != up[:, :-1]).sum(axis=1) > 1) & (b.max(axis=1) > 1)
        cells = [np.flatnonzero(first), np.flatnonzero(~wavy & up[:, 0] & ~up[:, -1])]
        low, width = [np.zeros(len(part)) for part in cells], [np.full(len(part), i) for i, part in enumerate(cells)]
        if wavy.any():
            inside = [polynomial(slopes[wavy], np.full(wavy.sum(), i / PIECES)) > 0 for i in range(1, PIECES)]
            rising = np.stack([up[wavy, 0], *inside, up[wavy, -1]], axis=1)
            cell, piece = np.nonzero(rising[:, :-1] & ~rising[:, 1:])
            cells.append(np.flatnonzero(wavy)[cell])
            low, width = [*low, piece / PIECES], [*width, np.full(piece.size, 1 / PIECES)]
        cell, low, high = np.concatenate(cells), np.concatenate(low), np.concatenate(low) + np.concatenate(width)
        order = np.lexsort((low, cell))
        cell, low, high, found = cell[order], low[order], high[order], cell.size
        for _ in range(40):
            middle = 0.5 * (low + high)
            rising = polynomial(slopes[cell], middle) > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        middle = 0.5 * (low + high)
        places[:found] = lefts[cell] + widths[cell] * middle
        heights[:found] = polynomial(b[cell], middle)
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


def sort_clients(
    likelihoods: Floats, logs: Floats, place: Ints, weights: Floats, uniforms: Floats, held: Ints, heights: Floats
) -> None:
    """As ``kernels.sort_clients``; sums to rounding, as the order in which NumPy adds is its own."""
    chances = running(likelihoods[place] * weights[:, None])
    group = (chances[:-1] < uniforms * chances[-1]).sum(axis=0, dtype=np.uint16)  # so few bits are sorted fast
    held[:] = np.bincount(group, minlength=place.size)
    heights[:] = 0.0
    taken = np.flatnonzero(held)
    begins = np.cumsum(held[taken]) - held[taken]
    heights[taken] = np.add.reduceat(logs[np.argsort(group, kind="stable")], begins, axis=0)


def running(table: Floats) -> Floats:
    """Return running sums down the columns, for many columns in place."""
    if table.shape[1] < WIDE:
        return np.cumsum(table, axis=0)
    above = table[0]
    for row in table[1:]:
        above = np.add(row, above, out=row)
    return table
