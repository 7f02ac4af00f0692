"""Compiled steps of principal component pursuit: everything between two eigendecompositions in one pass over the matrix.

Belongs here: ``@njit`` functions on matrices cut into tiles, with everything they call.  Does not belong here: checks,
the eigendecomposition, stopping (``robust_pca``, whose method "gram" is the NumPy twin of these loops).

A p x n matrix is kept as an array (tiles, n, `TILE`): `TILE` parameters of all clients side by side, the last tile filled
up with zeros, which stay zero.  A tile fits the innermost caches, so that a pass reads and writes each number once.  No
function calls BLAS: the order of every sum depends on the shape alone, so the bits do not depend on threads.
Reassociation is allowed, without which sums within a tile would not vectorise.  What two loops share is inlined: a shared
function has a copy of its own order in each of them, and which copy is called would depend on whether this process has
compiled the loops or loaded them from the cache.
"""

import numpy as np
from numba import njit

TILE = 128


@njit(nogil=True, cache=True)
def pack(matrix):
    """Cut a p x n matrix into tiles."""
    p, n = matrix.shape
    tiles = np.zeros(((p + TILE - 1) // TILE, n, TILE))
    for i in range(p):
        for j in range(n):
            tiles[i // TILE, j, i % TILE] = matrix[i, j]
    return tiles


@njit(nogil=True, cache=True)
def unpack(tiles, p):
    """Put the first p rows of tiles back into a matrix."""
    n = tiles.shape[1]
    matrix = np.empty((p, n))
    for i in range(p):
        for j in range(n):
            matrix[i, j] = tiles[i // TILE, j, i % TILE]
    return matrix


@njit(inline="always")
def _dot(x, y):
    """Inner product of two rows of a tile."""
    total = 0.0
    for t in range(TILE):
        total += x[t] * y[t]
    return total


@njit(inline="always")
def _add_products(tile, gram):
    """Add the inner products of a tile's rows to the lower triangle of gram, four at a time."""
    for j in range(tile.shape[0]):
        k = 0
        while k + 3 <= j:
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for t in range(TILE):
                x = tile[j, t]
                a += x * tile[k, t]
                b += x * tile[k + 1, t]
                c += x * tile[k + 2, t]
                d += x * tile[k + 3, t]
            gram[j, k] += a
            gram[j, k + 1] += b
            gram[j, k + 2] += c
            gram[j, k + 3] += d
            k += 4
        while k <= j:
            gram[j, k] += _dot(tile[j], tile[k])
            k += 1


@njit(inline="always")
def _combine(coefficients, tile, out):
    """Write coefficients @ tile to out, two rows of out and four of the tile at a time."""
    count = tile.shape[0]
    out[:] = 0.0
    for j in range(0, count - 1, 2):
        k = 0
        while k + 4 <= count:
            a, b, c, d = coefficients[j, k], coefficients[j, k + 1], coefficients[j, k + 2], coefficients[j, k + 3]
            e, f, g, h = (
                coefficients[j + 1, k],
                coefficients[j + 1, k + 1],
                coefficients[j + 1, k + 2],
                coefficients[j + 1, k + 3],
            )
            for t in range(TILE):
                w, x, y, z = tile[k, t], tile[k + 1, t], tile[k + 2, t], tile[k + 3, t]
                out[j, t] += a * w + b * x + c * y + d * z
                out[j + 1, t] += e * w + f * x + g * y + h * z
            k += 4
        while k < count:
            a, b = coefficients[j, k], coefficients[j + 1, k]
            for t in range(TILE):
                out[j, t] += a * tile[k, t]
                out[j + 1, t] += b * tile[k, t]
            k += 1
    if count % 2:
        for k in range(count):
            a = coefficients[count - 1, k]
            for t in range(TILE):
                out[count - 1, t] += a * tile[k, t]


@njit(inline="always")
def _mirror(gram):
    """Copy the lower triangle to the upper one."""
    for j in range(gram.shape[0]):
        for k in range(j):
            gram[k, j] = gram[j, k]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def gram_matrix(tiles):
    """Inner products of the columns of the matrix."""
    gram = np.zeros((tiles.shape[1], tiles.shape[1]))
    for s in range(tiles.shape[0]):
        _add_products(tiles[s], gram)
    _mirror(gram)
    return gram


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def step(matrix, shrinkage, bound, argument, multiplier, new_multiplier):
    """One iteration: renews argument, fills new_multiplier; returns the Gram matrix of the former and |M - L - S|^2.

    The low-rank part is argument times shrinkage; with T = matrix - low_rank + multiplier the new multiplier is T cut off
    at +-bound, and the next argument low_rank + 2 new_multiplier - multiplier.
    """
    n = matrix.shape[1]
    gram = np.zeros((n, n))
    low = np.empty((n, TILE))
    residual = 0.0
    for s in range(matrix.shape[0]):
        _combine(shrinkage, argument[s], low)
        for j in range(n):
            for t in range(TILE):
                old = multiplier[s, j, t]
                total = matrix[s, j, t] - low[j, t] + old
                new = bound if total > bound else (-bound if total < -bound else total)
                change = new - old
                new_multiplier[s, j, t] = new
                argument[s, j, t] = change + low[j, t] + new
                low[j, t] = change
            residual += _dot(low[j], low[j])
        _add_products(argument[s], gram)
    _mirror(gram)
    return gram, residual


@njit(nogil=True, cache=True)
def finish(matrix, bound, argument, multiplier, new_multiplier):
    """Recover the last iteration's low-rank part, into `argument`, and sparse part, into `multiplier`."""
    for s in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            for t in range(TILE):
                low = argument[s, j, t] - new_multiplier[s, j, t] - (new_multiplier[s, j, t] - multiplier[s, j, t])
                total = matrix[s, j, t] - low + multiplier[s, j, t]
                cut = bound if total > bound else (-bound if total < -bound else total)
                argument[s, j, t] = low
                multiplier[s, j, t] = total - cut
