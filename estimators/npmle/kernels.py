"""Compiled loops of priors of any shape: likelihoods at atoms, the dual function, its bound; a sweep of the chain of draws.

Belongs here: ``@njit`` functions over a range of clients or cells, with everything they call, because numba's on-disk
cache does not notice changes in other files.  Does not belong here: checks, the plan of the grid and the choice of steps
(``npmle``).  Each call handles one fixed range of clients; who calls adds the results in a fixed order, so that bits do
not depend on the number of threads.  The same loops in NumPy are in ``arrays``; the constants are written in both, for the
sake of numba's cache, and a test compares them.

A client's likelihood, relative to its peak, is exp(-z^2/2) with z = (t - p1) p2 (Gaussian), or exp(p1 alpha(t) +
p2 beta(t) - offset) with alpha = log sin^2 t, beta = log cos^2 t (binomial) or alpha = log t^2, beta = -t^2 (Poisson).
Either way it is unimodal in t, and |likelihood(t + iy)| <= exp(y^2 / (2 s^2)).
"""

import numpy as np
from numba import njit

# Values below exp(-CUT) of a client's peak are left out of the dual function; `npmle` adds them to its bound.
CUT = 36.25


# Clients per block of `sums`: arithmetic runs along them, so that it vectorises without reordering sums over atoms.
LANES = 64
# Least log of a likelihood relative to its peak that is still told from zero; `npmle` takes densities this low as zero.
FLOOR = -700.0
# Likelihoods over the mixture's density that are left out of sums where all of a block's clients have less: they change D,
# and the product of the curvature and masses, by no more.
FAINT = 1e-30
PIECES = 32  # of a cell whose coefficients rise and fall more than once, between which maxima are looked for


@njit(nogil=True, cache=True)
def _exp(x, bits, powers):
    """Replace the LANES entries of x, all in [FLOOR, 700], by exp(x); `powers` is a view of the memory of `bits`.

    exp(k log 2 + r) = 2^k exp(r), |r| <= log(2) / 2, with a Taylor polynomial of degree 13; unlike the library's exp, the
    compiler can vectorise it.
    """
    for m in range(LANES):
        k = np.floor(x[m] * 1.4426950408889634 + 0.5)
        r = (x[m] - k * 0.6931471803691238) - k * 1.9082149292705877e-10
        bits[m] = (np.int64(k) + 1023) << 52
        y = 1.6059043836821613e-10
        y = y * r + 2.08767569878681e-09
        y = y * r + 2.505210838544172e-08
        y = y * r + 2.755731922398589e-07
        y = y * r + 2.7557319223985893e-06
        y = y * r + 2.48015873015873e-05
        y = y * r + 0.0001984126984126984
        y = y * r + 0.001388888888888889
        y = y * r + 0.008333333333333333
        y = y * r + 0.041666666666666664
        y = y * r + 0.16666666666666666
        y = y * r + 0.5
        y = y * r + 1.0
        x[m] = y * r + 1.0
    for m in range(LANES):
        x[m] *= powers[m]


# Sums along the lanes: the compiler chooses their order, always the same one.
@njit(nogil=True, cache=True, forceinline=True, fastmath={"reassoc", "contract"})
def _dot(x, y):
    """Sum of products over the lanes."""
    total = 0.0
    for m in range(LANES):
        total += x[m] * y[m]
    return total


@njit(nogil=True, cache=True, forceinline=True, fastmath={"reassoc", "contract"})
def _products(values, left, right, second):
    """Add the products of rows left .. right - 1 of `values` to their upper band `second`."""
    width = second.shape[1]
    for r in range(left, right):
        for c in range(r, min(r + width, right)):
            total = 0.0
            for m in range(LANES):
                total += values[r, m] * values[c, m]
            second[r, c - r] += total


@njit(nogil=True, cache=True)
def sums(gaussian, p1, p2, offset, weights, low, high, t, shapes, masses, order, density, first, second):
    """Mixture density of each client, and sums over clients that a Newton step needs.

    shapes[0..5] hold alpha, beta and their first two derivatives at the atoms t.  `density` (clients) is overwritten.
    With V_j = L_ij / g_i and ' a derivative in t_j: order >= 1 adds sum w V_j to first[0, j], order 2 sum w V_j V_k to
    second[j, k - j], k >= j.  Order 3 further adds sum w V'_j to first[1, j], sum w V''_j to first[2, j], and has the
    products of V_0, V'_0, V_1, V'_1, ... in `second`.  Products further from the diagonal than it is wide are left out.
    Client i sees atoms low[i] .. high[i] - 1 only, and sums leave out the first and the last where V_j is below FAINT.
    """
    size, each = t.size, 2 if order == 3 else 1  # rows of `values` of each atom
    values = np.zeros((each * size, LANES))
    bits = np.empty(LANES, np.int64)
    powers = bits.view(np.float64)
    q1, q2, q3 = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    root, scale, logs = np.zeros(LANES), np.empty(LANES), np.empty(LANES)
    for begin in range(0, p1.size, LANES):
        count = min(LANES, p1.size - begin)
        if count < LANES:  # lanes without a client have a flat likelihood and no weight
            q1[:], q2[:], q3[:], root[:] = 0.0, 0.0, 0.0, 0.0
        left, right = size, 0
        for m in range(count):
            i = begin + m
            left, right = min(left, low[i]), max(right, high[i])
            q1[m], q2[m], q3[m] = p1[i], p2[i], offset[i]
            root[m] = np.sqrt(weights[i])
        scale[:] = 0.0
        for j in range(left, right):
            if gaussian:
                for m in range(LANES):
                    z = (t[j] - q1[m]) * q2[m]
                    logs[m] = max(-0.5 * z * z - q3[m], FLOOR)
            else:
                a, b = shapes[0, j], shapes[1, j]
                for m in range(LANES):
                    logs[m] = max(q1[m] * a + q2[m] * b - q3[m], FLOOR)
            _exp(logs, bits, powers)
            mass = masses[j]
            for m in range(LANES):
                values[each * j, m] = logs[m]
                scale[m] += mass * logs[m]
        for m in range(count):
            density[begin + m] = scale[m]
        if order == 0:
            continue
        for m in range(LANES):
            scale[m] = root[m] / scale[m] if scale[m] > 0 else 0.0
        while left < right and (values[each * left] * scale).max() < FAINT:
            left += 1
        while left < right and (values[each * (right - 1)] * scale).max() < FAINT:
            right -= 1
        for j in range(left, right):
            row = each * j
            for m in range(LANES):
                values[row, m] *= scale[m]
            first[0, j] += _dot(root, values[row])
            if order == 3:
                if gaussian:
                    for m in range(LANES):
                        slope = (q1[m] - t[j]) * q2[m] * q2[m]
                        values[row + 1, m] = values[row, m] * slope
                        logs[m] = values[row, m] * (slope * slope - q2[m] * q2[m])
                else:
                    a, b, c, d = shapes[2, j], shapes[3, j], shapes[4, j], shapes[5, j]
                    for m in range(LANES):
                        slope = q1[m] * a + q2[m] * b
                        values[row + 1, m] = values[row, m] * slope
                        logs[m] = values[row, m] * (slope * slope + q1[m] * c + q2[m] * d)
                first[1, j] += _dot(root, values[row + 1])
                first[2, j] += _dot(root, logs)
        if order >= 2:
            _products(values, each * left, each * right, second)


# Systems are solved here and not by LAPACK, whose threads cost more than they save and may change bits.
@njit(nogil=True, cache=True)
def solve(band, x):
    """Overwrite x by matrix^-1 x; False if the symmetric matrix is not positive definite.

    ``band`` : its upper half, row r from the diagonal on; overwritten.  A row ends at its last number: atoms that no client
    sees together cost nothing.
    """
    size, width = band.shape
    ends = np.empty(size, np.int64)
    reached = 0
    for r in range(size):
        if not band[r, 0] > 0:
            return False
        end = min(width, size - r)
        while end > reached - r and band[r, end - 1] == 0:
            end -= 1
        ends[r], reached = end, r + end
        for c in range(1, end):
            share = band[r, c] / band[r, 0]
            if share != 0:
                x[r + c] -= share * x[r]
                for k in range(c, end):
                    band[r + c, k - c] -= share * band[r, k]
    for r in range(size - 1, -1, -1):
        for c in range(1, ends[r]):
            x[r] -= band[r, c] * x[r + c]
        x[r] /= band[r, 0]
    return True


@njit(nogil=True, cache=True)
def spread_gaussian(coefficients, nodes, starts, steps, reach, out):
    """Add sum_i c_i L_i at the nodes of the clients' grids to `out`.

    nodes[i] is the place in `out` of the node nearest to client i, which is starts[i] standard errors right of its
    peak; nodes are steps[i] standard errors apart.  Two multiplications per value, outwards from the nearest node.
    """
    for i in range(nodes.size):
        node, start, step = nodes[i], starts[i], steps[i]
        right = coefficients[i] * np.exp(-0.5 * start * start)
        left = right
        right_ratio = np.exp(-step * start - 0.5 * step * step)
        left_ratio = np.exp(step * start - 0.5 * step * step)
        bend = np.exp(-step * step)
        out[node] += right
        for m in range(1, int(reach / step) + 2):
            right *= right_ratio
            left *= left_ratio
            right_ratio *= bend
            left_ratio *= bend
            out[node + m] += right
            out[node - m] += left


@njit(nogil=True, cache=True)
def spread_exponential(coefficients, p1, p2, offset, nodes, steps, reach, alpha, beta, shift, out):
    """Do what `spread_gaussian` does for the other families; alpha and beta hold the nodes' values, from `shift` on."""
    for i in range(nodes.size):
        band = int(reach / steps[i]) + 1
        for node in range(nodes[i] - band, nodes[i] + band + 1):
            log_value = p1[i] * alpha[node + shift] + p2[i] * beta[node + shift] - offset[i]
            if log_value > -CUT:
                out[node] += coefficients[i] * np.exp(log_value)


@njit(nogil=True, cache=True)
def _halve(b, right):
    """Replace Bernstein coefficients on a cell by those on its left or right half (de Casteljau)."""
    degree = b.size - 1
    if right:
        for level in range(degree):
            for m in range(degree - level):
                b[m] = 0.5 * (b[m] + b[m + 1])
    else:
        for level in range(degree):
            for m in range(degree, level, -1):
                b[m] = 0.5 * (b[m - 1] + b[m])


@njit(nogil=True, cache=True)
def expand(values, matrix, windows, parents, sides, coefficients):
    """Bernstein coefficients of the dual function on every cell: the parent's half plus the cell's own level."""
    size = matrix.shape[0]
    for cell in range(windows.size):
        b = coefficients[cell]
        b[:] = 0.0
        if parents[cell] >= 0:
            b[:] = coefficients[parents[cell]]
            _halve(b, sides[cell] == 1)
        start = windows[cell]
        if start >= 0:
            for m in range(size):
                total = 0.0
                for k in range(size):
                    total += matrix[m, k] * values[start + k]
                b[m] += total


@njit(nogil=True, cache=True)
def _at(b, x, work):
    """Value of a Bernstein polynomial at x in [0, 1], and its derivative there over the degree."""
    degree = b.size - 1
    work[:] = b
    for level in range(degree - 1):
        for m in range(degree - level):
            work[m] += x * (work[m + 1] - work[m])
    return work[0] + x * (work[1] - work[0]), work[1] - work[0]


@njit(nogil=True, cache=True)
def _pieces(b):
    """Into how many pieces to divide a cell to tell its maxima apart: only those above 1 are ever asked for."""
    turns = 0
    for m in range(2, b.size):
        turns += (b[m] > b[m - 1]) != (b[m - 1] > b[m - 2])
    return PIECES if turns > 1 and b.max() > 1 else 1


@njit(nogil=True, cache=True)
def peaks(coefficients, leaves, before, lefts, widths, begin, places, heights):
    """Local maxima of the dual function inside or between the leaf cells, or at its left end; returns how many were stored.

    ``before`` : of each leaf, the cell that ends where it begins, or -1.
    """
    found = 0
    work = np.empty(coefficients.shape[1])
    for index in range(leaves.size):
        b = coefficients[leaves[index]]
        rising = b[1] > b[0]
        if not rising:
            # Two cells agree on the slope between them but for rounding: a maximum there may lie inside neither.
            left = before[index]
            if lefts[index] <= begin if left < 0 else coefficients[left, -1] > coefficients[left, -2]:
                places[found], heights[found] = lefts[index], b[0]
                found += 1
        pieces = _pieces(b)
        for piece in range(pieces):
            low, high, rose = piece / pieces, (piece + 1) / pieces, rising
            rising = b[-1] > b[-2] if piece == pieces - 1 else _at(b, high, work)[1] > 0
            if rising or not rose:
                continue
            for _ in range(40):
                middle = 0.5 * (low + high)
                if _at(b, middle, work)[1] > 0:
                    low = middle
                else:
                    high = middle
            middle = 0.5 * (low + high)
            places[found] = lefts[index] + widths[index] * middle
            heights[found] = _at(b, middle, work)[0]
            found += 1
    return found


@njit(nogil=True, cache=True)
def upper_bound(coefficients, leaves, tolerance):
    """Bound from above on the maximum over all leaf cells, within the share `tolerance` of it, by hulls of coefficients."""
    best = 0.0
    for leaf in leaves:
        best = max(best, coefficients[leaf, 0], coefficients[leaf, -1])
    bound = best
    size = coefficients.shape[1]
    stack = np.empty((64, size))
    depth = np.empty(64, np.int64)
    for leaf in leaves:
        stack[0] = coefficients[leaf]
        depth[0] = 0
        count = 1
        while count:
            count -= 1
            b = stack[count]
            best = max(best, b[0], b[-1])
            top = b.max()
            if not np.isfinite(top):
                return np.inf
            if top <= best * (1.0 + tolerance) or depth[count] == 40:
                bound = max(bound, top)
                continue
            depth[count] += 1
            depth[count + 1] = depth[count]
            stack[count + 1] = b
            _halve(stack[count], False)
            _halve(stack[count + 1], True)
            count += 2
    return bound


@njit(nogil=True, cache=True)
def sort_clients(likelihoods, logs, place, weights, uniforms, held, heights):
    """Draw each client's group; write how many each holds into `held`, and sums of their rows of `logs` into `heights`.

    likelihoods : array (places, m).  logs : array (m, places).  place, weights : arrays (groups,), a group's chances are
    weight times likelihood at its place.  uniforms : array (m,).  held : array (groups,).  heights : array (groups, places).
    """
    m, groups = uniforms.size, place.size
    mark, below, group = np.zeros(m), np.zeros(m), np.zeros(m, np.int64)
    for k in range(groups):
        row, weight = likelihoods[place[k]], weights[k]
        for i in range(m):
            mark[i] += row[i] * weight
    for i in range(m):
        mark[i] *= uniforms[i]
    for k in range(groups - 1):  # whoever is beyond all others is of the last
        row, weight = likelihoods[place[k]], weights[k]
        for i in range(m):
            below[i] += row[i] * weight
            group[i] += below[i] < mark[i]
    held[:] = 0
    heights[:] = 0.0
    for i in range(m):
        k = group[i]
        held[k] += 1
        for j in range(logs.shape[1]):
            heights[k, j] += logs[i, j]
