"""Compiled loops that draw replicates of a model and return moments of statistics.

Belongs here: ``@njit`` functions ``(gen, reps, *scalars and arrays) -> (mean[M], scatter[M, M], batch means[K, M])``,
with everything they call, because numba's on-disk cache does not notice changes in other files. What normals come from is
a NumPy generator, the `Words` of one, a ``nets.Net`` or a ``cubature.Design``; the kernels are the same text for all, and
only `_draw` tells them apart.
Does not belong here: validation (``experiments``), vectorised twins (``reference``), formulas under test.

How they stay close to the bare cost of their draws: replicates are drawn one after another (the
stream order of ``gen.standard_normal((reps, draws))``) into the columns of a small block of `LANES`
replicates, and all arithmetic then runs along the lanes, which vectorises without reordering any sum.
Each lane has its own accumulators, added up at the end, so the bits depend on (gen, reps, arguments)
only. No ``fastmath``. Loops over a constant number of lanes compile best, so a last, incomplete block is
drawn in full and its surplus replicates are left out of the sums: `gen` may end up further on than
`reps` replicates need. NumPy's SFC64 and its ziggurat are written out (`_words_block`), because a call into
NumPy for every word costs more than the word; the bits are NumPy's.

Scatter is accumulated around a shift: the first replicate, or zero where the model guarantees that the
variance of a statistic is at least twice its squared mean (products of jointly Gaussian, centred factors).
The shift keeps the relative accuracy of the scatter when the spread is tiny compared with the mean.

Compiled on first use, cached on disk, and they release the GIL. Give each call its own generator or net.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

try:
    from numba.np.random._constants import fi_double, ki_double, wi_double, ziggurat_nor_inv_r, ziggurat_nor_r
except ImportError:  # numba promises no place for them; NumPy draws the same normals, for more time
    fi_double = ki_double = wi_double = np.zeros(0)
    ziggurat_nor_inv_r = ziggurat_nor_r = 0.0

# The fastest of 16, 32, 64, 128 for every kernel. A constant of this file, so the cache sees it change.
LANES = 64

# Replicates of a batch, ``moments.BATCH``, a multiple of LANES; also a constant of this file.
BATCH = 256

LOG2_LANES = 6

# Of ``laws.tabled``: mantissa bits below those that choose a row, number of the first row, degree; its PARTS and
# LOWEST are 32 and -33, and a test holds both files to each other.
MANTISSA = 52 - 5
FIRST_ROW = (1023 - 33) * 32
DEGREE = 6


class Words(NamedTuple):
    """The state of an SFC64 bit generator, from which a kernel draws what the generator would.

    Parameters
    ----------
    state : uint64 array, shape (4,)
        Changed by drawing.
    """

    state: np.ndarray


def called(kernel: Any, source: Any, *arguments: Any) -> Any:
    """``kernel(source, *arguments)``; a generator on SFC64 is drawn from by its words, and moves on as if it had drawn."""
    bits = getattr(source, "bit_generator", None)
    compiled = hasattr(kernel, "py_func")  # plain Python draws by NumPy
    if not isinstance(bits, np.random.SFC64) or not compiled or not ki_double.size:
        return kernel(source, *arguments)
    whole = bits.state
    found = kernel(Words(whole["state"]["state"]), *arguments)
    bits.state = whole
    return found


@njit(nogil=True, cache=True)
def bare_kernel(gen, draws):
    """Sum of `draws` standard normals: the cost every other kernel is measured against."""
    total = 0.0
    for _ in range(draws):
        total += gen.standard_normal()
    return total


def _draw(source, normals):
    """Fill normals[draws, LANES] with the next LANES replicates (columns) of a generator, its words, a net or a design."""
    if not isinstance(source, tuple):
        _stream_block(source, normals)
    elif isinstance(source, Words):
        _words_block(source, normals)
    else:
        (_net_block if hasattr(source, "steps") else _design_block)(source, normals)


@overload(_draw)
def _draw_compiled(source, normals):
    """The same choice, made when a kernel is compiled for its source."""
    if isinstance(source, types.BaseNamedTuple):
        if source.instance_class is Words:  # pyright: ignore[reportAttributeAccessIssue]
            return lambda source, normals: _words_block(source, normals)
        if "steps" in source.instance_class._fields:  # pyright: ignore[reportAttributeAccessIssue]
            return lambda source, normals: _net_block(source, normals)
        return lambda source, normals: _design_block(source, normals)
    return lambda source, normals: _stream_block(source, normals)


@njit(nogil=True, cache=True)
def _stream_block(gen, normals):
    """One replicate after another."""
    for lane in range(LANES):
        for draw in range(normals.shape[0]):
            normals[draw, lane] = gen.standard_normal()


@njit(inline="always")
def _next_word(a, b, c, counter):
    """SFC64's next word, and its state after it."""
    word = a + b + counter
    return word, b ^ (b >> np.uint64(11)), c + (c << np.uint64(3)), ((c << np.uint64(24)) | (c >> np.uint64(40))) + word


@njit(inline="always")
def _uniform(word):
    return np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53


@njit(nogil=True, cache=True)
def _words_block(words, normals):
    """The same as `_stream_block`, by NumPy's ziggurat (Marsaglia and Tsang 2000), whose tables numba has."""
    state, one = words.state, np.uint64(1)
    a, b, c, counter = state[0], state[1], state[2], state[3]
    for lane in range(LANES):
        for draw in range(normals.shape[0]):
            while True:
                word, a, b, c = _next_word(a, b, c, counter)
                counter += one
                layer = np.int64(word & np.uint64(0xFF))
                along = (word >> np.uint64(9)) & np.uint64(0x000FFFFFFFFFFFFF)
                value = np.float64(np.int64(along)) * wi_double[layer]
                if (word >> np.uint64(8)) & one:
                    value = -value
                if along < ki_double[layer]:
                    break
                word, a, b, c = _next_word(a, b, c, counter)
                counter += one
                if layer > 0:  # in the wedge beside the layer's box
                    height = (fi_double[layer - 1] - fi_double[layer]) * _uniform(word) + fi_double[layer]
                    if height < np.exp(-0.5 * value * value):
                        break
                    continue
                while True:  # in the tail
                    beyond = -ziggurat_nor_inv_r * np.log1p(-_uniform(word))
                    word, a, b, c = _next_word(a, b, c, counter)
                    counter += one
                    spare = -np.log1p(-_uniform(word))
                    if spare + spare > beyond * beyond:
                        break
                    word, a, b, c = _next_word(a, b, c, counter)
                    counter += one
                value = ziggurat_nor_r + beyond
                if (along >> np.uint64(8)) & one:
                    value = -value
                break
            normals[draw, lane] = value
    state[0], state[1], state[2], state[3] = a, b, c, counter


@njit(nogil=True, cache=True)
def _design_block(design, normals):
    """The next points of ``cubature.Design``: on every axis one on each side, and beyond the last axis the origin."""
    draws = normals.shape[0]
    normals[:] = 0.0
    for lane in range(LANES):
        point = design.block[0] * LANES + lane
        if point < 2 * draws:
            normals[point // 2, lane] = np.sqrt(draws) if point % 2 == 0 else -np.sqrt(draws)
    design.block[0] += 1


@njit(nogil=True, cache=True)
def _net_block(net, normals):
    """The next block of points, by the polynomials of ``nets.quantile_table``."""
    signed, beyond, along = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    bits = beyond.view(np.int64)
    row = np.empty(LANES, np.int64)
    for draw in range(normals.shape[0]):
        for lane in range(LANES):
            # The point minus 1/2, exactly, and the probability beyond it on its side.
            signed[lane] = (np.float64(net.base[draw] ^ net.within[draw, lane]) - 2147483647.5) * 2.0**-32
            beyond[lane] = 0.5 - abs(signed[lane])
        for lane in range(LANES):
            # Exponent and leading bits of the mantissa say which polynomial, the other bits where along its part.
            row[lane] = (bits[lane] >> MANTISSA) - FIRST_ROW
            along[lane] = np.float64(bits[lane] & ((1 << MANTISSA) - 1)) * (2.0 / (1 << MANTISSA)) - 1.0
        for lane in range(LANES):
            value = net.quantile[row[lane], DEGREE]
            for power in range(DEGREE - 1, -1, -1):
                value = value * along[lane] + net.quantile[row[lane], power]
            normals[draw, lane] = value * signed[lane]
    _next_block(net)


@njit(nogil=True, cache=True)
def _next_block(net):
    """Go on to the next block, by its place in the Gray code."""
    block, blocks = net.block
    if block >= blocks:
        raise ValueError("net: used beyond its last point, where its points would repeat; make one with more points")
    block += 1
    net.block[0] = block
    if block < blocks:
        bit = 0
        while block >> bit & 1 == 0:
            bit += 1
        for draw in range(net.base.shape[0]):
            net.base[draw] ^= net.steps[draw, LOG2_LANES + bit]


@njit(nogil=True, cache=True)
def scramble(plain, random):
    """Direction numbers[D, bits] times a lower triangular matrix of random bits, and the points of the first block.

    Column k of a coordinate's matrix is 1 on the diagonal and has the bits of random[D, k] below it.
    """
    dimensions, count = plain.shape
    steps = np.zeros((dimensions, count), np.uint32)
    within = np.zeros((dimensions, LANES), np.uint32)
    for d in range(dimensions):
        for bit in range(count):
            diagonal = np.uint32(1) << np.uint32(count - 1 - bit)
            column = diagonal | (random[d, bit] & (diagonal - np.uint32(1)))
            for k in range(count):
                if plain[d, k] & diagonal:
                    steps[d, k] ^= column
        for lane in range(1, LANES):
            bit = 0
            while lane >> bit & 1 == 0:
                bit += 1
            within[d, lane] = within[d, lane & (lane - 1)] ^ steps[d, bit]
    return steps, within


@njit(nogil=True, cache=True)
def skip_blocks(net, blocks):
    """Go on by so many blocks."""
    for _ in range(blocks):
        _next_block(net)


@njit(nogil=True, cache=True)
def net_coordinates(net, blocks, first, last, normal):
    """Fill blocks[draws, first .. last - 1, LANES] with the next blocks of a net, as normals or as uniforms."""
    normals = np.empty((blocks.shape[0], LANES))
    for block in range(first, last):
        if normal:
            _net_block(net, normals)
            for draw in range(blocks.shape[0]):
                for lane in range(LANES):
                    blocks[draw, block, lane] = normals[draw, lane]
        else:
            for draw in range(blocks.shape[0]):
                for lane in range(LANES):
                    blocks[draw, block, lane] = (np.float64(net.base[draw] ^ net.within[draw, lane]) + 0.5) * 2.0**-32
            _next_block(net)


@njit(nogil=True, cache=True)
def strata(net, plain, random, blocks, normal):
    """Fill blocks[D, K * per, LANES] with the points of K small nets, as uniforms or as normals.

    Net k has the scrambling random[k, D, bits + 1] of the direction numbers plain[D, bits]; the arrays of `net` are where it
    is made.
    """
    per = blocks.shape[1] // random.shape[0]
    for k in range(random.shape[0]):
        steps, within = scramble(plain, random[k])
        net.steps[:] = steps
        net.within[:] = within
        net.base[:] = random[k, :, -1]
        net.block[0] = 0
        net_coordinates(net, blocks, k * per, (k + 1) * per, normal)


@njit(nogil=True, cache=True)
def quantiles(uniforms, lower, upper):
    """Quantiles by the polynomials of two ``laws.tabled``: of the probability below, up to 1/2, and of that above."""
    found = np.empty(uniforms.size)
    beyond = np.empty(1)
    bits = beyond.view(np.int64)
    for i in range(uniforms.size):
        below = uniforms[i] <= 0.5
        beyond[0] = uniforms[i] if below else 1.0 - uniforms[i]
        table = lower if below else upper
        row = (bits[0] >> MANTISSA) - FIRST_ROW
        along = np.float64(bits[0] & ((1 << MANTISSA) - 1)) * (2.0 / (1 << MANTISSA)) - 1.0
        value = table[row, DEGREE]
        for power in range(DEGREE - 1, -1, -1):
            value = value * along + table[row, power]
        found[i] = value
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def binomials(uniforms, n, p):
    """Least k whose binomial distribution function is at least the uniform, entry by entry; n may be at most 500."""
    found = np.empty(uniforms.size)
    for i in range(uniforms.size):
        # From the end where the count is small, so that the first probability is at least 2^-500.
        mirrored = p[i] > 0.5
        success = 1.0 - p[i] if mirrored else p[i]
        left = 1.0 - uniforms[i] if mirrored else uniforms[i]
        odds = success / (1.0 - success)
        weight = (1.0 - success) ** np.int64(n[i])  # by products: a power of floats takes longer than all the rest
        k = 0.0
        while (left > weight or (mirrored and left == weight)) and k < n[i]:
            left -= weight
            weight *= odds * (n[i] - k) / (k + 1.0)
            k += 1.0
        found[i] = n[i] - k if mirrored else k
    return found


@njit(nogil=True, cache=True)
def _add(total, coefficients, rows):
    """Add coefficients[k] * rows[k, LANES] to total[LANES], in the order of k; four at a time, to load less."""
    count = coefficients.shape[0]
    fours = count - count % 4
    for k in range(0, fours, 4):
        a, b, c, d = coefficients[k], coefficients[k + 1], coefficients[k + 2], coefficients[k + 3]
        for lane in range(LANES):
            sum2 = (total[lane] + a * rows[k, lane]) + b * rows[k + 1, lane]
            total[lane] = (sum2 + c * rows[k + 2, lane]) + d * rows[k + 3, lane]
    for k in range(fours, count):
        for lane in range(LANES):
            total[lane] += coefficients[k] * rows[k, lane]


@njit(nogil=True, cache=True)
def _accumulate(statistics, lanes, shift, sums, cross):
    """Add the shifted statistics[M, LANES] and their products to the accumulators of each lane."""
    count = statistics.shape[0]
    for m in range(count):
        for lane in range(lanes):
            statistics[m, lane] -= shift[m]
            sums[m, lane] += statistics[m, lane]
    for m in range(count):
        for k in range(m + 1):
            for lane in range(lanes):
                cross[m, k, lane] += statistics[m, lane] * statistics[k, lane]


@njit(nogil=True, cache=True)
def _note(done, sums, totals):
    """After every full batch, note the sums so far of the shifted statistics in totals[K, M]."""
    if done % BATCH == 0 and done // BATCH <= totals.shape[0]:
        for m in range(totals.shape[1]):
            totals[done // BATCH - 1, m] = sums[m].sum()


@njit(nogil=True, cache=True)
def _finish(reps, shift, sums, cross, totals):
    """Mean and scatter from the accumulators of all lanes, and the means of the batches."""
    count = shift.shape[0]
    total = np.empty(count)
    scatter = np.empty((count, count))
    for m in range(count):
        total[m] = sums[m].sum()
    for m in range(count):
        for k in range(m + 1):
            scatter[m, k] = cross[m, k].sum() - total[m] * total[k] / reps
            scatter[k, m] = scatter[m, k]
    batches = np.empty(totals.shape)
    for k in range(totals.shape[0]):
        for m in range(count):
            batches[k, m] = shift[m] + (totals[k, m] - (totals[k - 1, m] if k > 0 else 0.0)) / BATCH
    return shift + total / reps, scatter, batches


@njit(nogil=True, cache=True)
def clients_kernel(gen, reps, tau_sd, alpha_sd, nu_sd, client, weights, left, right):
    """Products of linear forms in the noise of Gaussian clients.

    Model, with the centre at 0: p_i ~ N(0, tau_sd[i]^2), e_i ~ N(0, alpha_sd[i]^2), l_i ~ N(0, nu_sd[i]^2),
    message psi_i = p_i + e_i + l_i, aggregates A_a = sum_i weights[a, i] psi_i. With j = client and
    z = (p_j, e_j, l_j, A_0, A_1, ...), statistic m is (left[m] . z) (right[m] . z).

    Draw order in one replicate: all p_i, all e_i, all l_i, but only what has a standard deviation > 0 and is the client's
    own or in some aggregate.

    Parameters
    ----------
    gen : numpy.random.Generator or nets.Net
    reps : int, >= 1
    tau_sd, alpha_sd, nu_sd : float array, shape (N,)
        Standard deviations.
    client : int, 0 <= client < N
    weights : float array, shape (A, N)
    left, right : float array, shape (M, 3 + A)

    Returns
    -------
    mean : array, shape (M,)
    scatter : array, shape (M, M)
    batches : array, shape (reps // BATCH, M)
        Means of batches of replicates.
    """
    n = tau_sd.shape[0]
    aggregates = weights.shape[0]
    count = left.shape[0]
    # Of the 3 N noises, kind by kind, those that reach z: `kept`; and at which of them the client's own three are.
    sd = np.concatenate((tau_sd, alpha_sd, nu_sd))
    reaches = np.zeros(3 * n, np.bool_)
    for noise in range(3 * n):
        if sd[noise] > 0.0:
            reaches[noise] = noise % n == client or np.any(weights[:, noise % n] != 0.0)
    kept = np.flatnonzero(reaches)
    draws = kept.shape[0]
    own = np.full(3, -1)
    scaled = np.empty((aggregates, draws))  # weight of the client that owns the draw, times the draw's standard deviation
    for draw in range(draws):
        i = kept[draw] % n
        if i == client:
            own[kept[draw] // n] = draw
        for a in range(aggregates):
            scaled[a, draw] = weights[a, i] * sd[kept[draw]]

    normals = np.empty((draws, LANES))
    z = np.zeros((3 + aggregates, LANES))
    statistics = np.empty((count, LANES))
    factor = np.empty(LANES)
    shift = np.zeros(count)  # Var(LR) >= 2 E(LR)^2 for centred Gaussian L, R: no shift needed
    sums = np.zeros((count, LANES))
    cross = np.zeros((count, count, LANES))
    totals = np.empty((reps // BATCH, count))

    for start in range(0, reps, LANES):
        _draw(gen, normals)
        for kind in range(3):
            if own[kind] >= 0:
                for lane in range(LANES):
                    z[kind, lane] = sd[kept[own[kind]]] * normals[own[kind], lane]
        for a in range(aggregates):
            z[3 + a, :] = 0.0
            _add(z[3 + a], scaled[a], normals)
        for m in range(count):
            factor[:] = 0.0
            statistics[m, :] = 0.0
            _add(statistics[m], left[m], z)
            _add(factor, right[m], z)
            for lane in range(LANES):
                statistics[m, lane] *= factor[lane]
        _accumulate(statistics, min(LANES, reps - start), shift, sums, cross)
        _note(start + LANES, sums, totals)
    return _finish(reps, shift, sums, cross, totals)


@njit(nogil=True, cache=True)
def regression_kernel(gen, reps, design, centre, prior_sd, noise_sd, gain, offset):
    """Squared errors of a linear rule in Gaussian linear regression.

    Model: theta_k = centre[k] + N(0, prior_sd[k]^2), y_i = design[i] . theta + N(0, noise_sd[i]^2);
    estimate gain @ y + offset. Statistics: the squared error, then its d coordinates.

    Draw order in one replicate: the d deviations of theta, then the n noise terms.

    Parameters
    ----------
    gen : numpy.random.Generator or nets.Net
    reps : int, >= 1
    design : float array, shape (n, d)
    centre, prior_sd, offset : float array, shape (d,)
    noise_sd : float array, shape (n,)
    gain : float array, shape (d, n)

    Returns
    -------
    mean : array, shape (1 + d,)
    scatter : array, shape (1 + d, 1 + d)
    batches : array, shape (reps // BATCH, 1 + d)
        Means of batches of replicates.
    """
    n, d = design.shape
    normals = np.empty((d + n, LANES))
    theta = np.empty((d, LANES))
    statistics = np.empty((1 + d, LANES))
    shift = np.zeros(1 + d)
    sums = np.zeros((1 + d, LANES))
    cross = np.zeros((1 + d, 1 + d, LANES))
    totals = np.empty((reps // BATCH, 1 + d))
    # gain @ y is linear in theta and in the noise; what multiplies each is the same in every replicate.
    on_theta = np.zeros((d, d))
    on_noise = np.empty((d, n))
    for k in range(d):
        for i in range(n):
            on_noise[k, i] = gain[k, i] * noise_sd[i]
            for j in range(d):
                on_theta[k, j] += gain[k, i] * design[i, j]

    for start in range(0, reps, LANES):
        _draw(gen, normals)
        for k in range(d):
            for lane in range(LANES):
                theta[k, lane] = centre[k] + prior_sd[k] * normals[k, lane]
        for k in range(d):
            for lane in range(LANES):
                statistics[1 + k, lane] = offset[k] - theta[k, lane]
            _add(statistics[1 + k], on_theta[k], theta)
            _add(statistics[1 + k], on_noise[k], normals[d:])
        statistics[0, :] = 0.0
        for k in range(1, 1 + d):
            for lane in range(LANES):
                statistics[k, lane] *= statistics[k, lane]
                statistics[0, lane] += statistics[k, lane]
        if start == 0:
            shift[:] = statistics[:, 0]
        _accumulate(statistics, min(LANES, reps - start), shift, sums, cross)
        _note(start + LANES, sums, totals)
    return _finish(reps, shift, sums, cross, totals)


@njit(nogil=True, cache=True, error_model="numpy")
def james_stein_kernel(gen, reps, m, mu, theta_sd, noise_sd, shrink):
    """Mean squared errors of shrinkage toward the grand mean.

    Model: theta_i ~ N(mu, theta_sd^2), x_i = theta_i + N(0, noise_sd^2), i < m. Every rule estimates
    theta_i by xbar + f (x_i - xbar), and each statistic is the mean over i of its squared error:
    (0) classical James-Stein, f = 1 - (m - 3) noise_sd^2 / sum_i (x_i - xbar)^2;
    (1) fixed factor f = shrink; (2) positive-part James-Stein, f = max(0, f of (0)).

    Draw order in one replicate: m deviations of theta, then m noise terms.

    Parameters
    ----------
    gen : numpy.random.Generator or nets.Net
    reps : int, >= 1
    m : int, >= 4
    mu, theta_sd, noise_sd, shrink : float
        noise_sd > 0.

    Returns
    -------
    mean : array, shape (3,)
    scatter : array, shape (3, 3)
    batches : array, shape (reps // BATCH, 3)
        Means of batches of replicates.
    """
    normals = np.empty((2 * m, LANES))
    grand = np.empty(LANES)
    spread = np.empty(LANES)
    both = np.empty(LANES)
    square = np.empty(LANES)
    statistics = np.empty((3, LANES))
    shift = np.zeros(3)
    sums = np.zeros((3, LANES))
    cross = np.zeros((3, 3, LANES))
    totals = np.empty((reps // BATCH, 3))

    for start in range(0, reps, LANES):
        _draw(gen, normals)
        grand[:] = 0.0
        for i in range(m):  # row i becomes x_i, row m + i its error x_i - theta_i
            for lane in range(LANES):
                normals[m + i, lane] *= noise_sd
                normals[i, lane] = mu + theta_sd * normals[i, lane] + normals[m + i, lane]
                grand[lane] += normals[i, lane]
        for lane in range(LANES):
            grand[lane] /= m
        spread[:] = 0.0
        both[:] = 0.0
        square[:] = 0.0
        for i in range(m):
            for lane in range(LANES):
                deviation = normals[i, lane] - grand[lane]
                error = normals[m + i, lane]
                spread[lane] += deviation * deviation
                both[lane] += error * deviation
                square[lane] += error * error
        for lane in range(LANES):
            # estimate - theta_i = error - (1 - f) deviation, so three sums give every rule's squared error
            pull = (m - 3) * noise_sd**2 / spread[lane]  # 1 - f of the classical rule
            statistics[0, lane] = (square[lane] - pull * (2.0 * both[lane] - pull * spread[lane])) / m
            pull = min(pull, 1.0)
            statistics[2, lane] = (square[lane] - pull * (2.0 * both[lane] - pull * spread[lane])) / m
            pull = 1.0 - shrink
            statistics[1, lane] = (square[lane] - pull * (2.0 * both[lane] - pull * spread[lane])) / m
        if start == 0:
            shift[:] = statistics[:, 0]
        _accumulate(statistics, min(LANES, reps - start), shift, sums, cross)
        _note(start + LANES, sums, totals)
    return _finish(reps, shift, sums, cross, totals)
