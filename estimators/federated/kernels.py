"""Compiled local SGD of one client and its evaluation, for models without or with one hidden layer.

Belongs here: ``@njit`` functions with everything they call, among them what a step of ``pair_kernels`` is made of.  Does not
belong here: checks, threads, random numbers (``numpy_backend``); batches (``schedule``); pairs of networks
(``pair_kernels``).  The plain twin of these loops is ``reference_backend``.

Layers are matrices (inputs + 1, units), each row filled up with zeros to whole vectors of `LANES` numbers, with room for the
ones that multiply the next layer's intercepts.  All products go through one routine whose innermost loop keeps a tile of the
result in vector registers; LLVM does not find that form by itself (measured: 9 microseconds for 10 x 784 times 784 x 50 in
float32, the best plain loops 25, OpenBLAS 12).  It adds the terms of every sum one after the other, each with one fused
multiply-add, so that a result depends neither on the tile, nor on the rows beside it, nor on threads.  Features that are 0
in a whole batch (half of MNIST's pixels) are left out, which changes no bit: a fused multiply-add of 0 adds nothing.

Per-example clipping never forms a gradient: that of a layer is an outer product of inputs a and slopes d, of squared norm
|a|^2 |d|^2 (Goodfellow 2015, arXiv:1510.01799).
"""

# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportAttributeAccessIssue=false
# numba hands its intrinsics one argument more than their callers do.

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
ROWS = 128
"""Examples that are evaluated together."""

SQUARE, LOGISTIC, HINGE, SOFTMAX = 0, 1, 2, 3

part = njit(nogil=True, cache=True, inline="always")
"""Decorator of what steps are made of: copied to where it is called, as fast as one long loop; `put` by call costs 5%."""


@intrinsic
def address(typingctx, array, position):
    """Pointer to an item of a contiguous array or of its transpose."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.gep(data, [args[1]])

    return types.CPointer(array.dtype)(array, types.intp), codegen


def tile(rows: int, listed: str = "") -> Any:
    """Compiled c[i, :LANES] += sum_s a[i, s] b[s, :LANES] for i < rows, with the result kept in registers.

    With listed "inner" the numbers s, with "rows" the numbers i are replaced by those of a list.
    """

    def codegen(context, builder, signature, args):
        a, a_row, a_column, b, b_row, c, c_row, inner, *positions = args
        item, whole = context.get_data_type(signature.args[0].dtype), ir.IntType(64)
        vector = ir.VectorType(item, LANES)
        name = f"llvm.fma.v{LANES}f{64 if signature.args[0].dtype == types.float64 else 32}"
        fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
        undefined = ir.Constant(vector, ir.Undefined)
        first_lane = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)

        def at(pointer, *steps):
            for step, number in steps:
                pointer = builder.gep(pointer, [builder.mul(step, number)])
            return pointer

        def load(pointer):
            value = builder.load(builder.bitcast(pointer, vector.as_pointer()))
            value.align = signature.args[0].dtype.bitwidth // 8
            return value

        def spread(number):
            one = builder.insert_element(undefined, number, ir.IntType(32)(0))
            return builder.shuffle_vector(one, undefined, first_lane)

        def named(kind, number):
            return builder.load(builder.gep(positions[0], [number])) if kind == listed else number

        numbers = [named("rows", whole(i)) for i in range(rows)]
        lefts = [at(a, (a_row, number)) for number in numbers]
        targets = [at(c, (c_row, number)) for number in numbers]
        starts = [load(target) for target in targets]
        before = builder.block
        loop, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
        builder.branch(loop)

        builder.position_at_end(loop)
        s = builder.phi(whole)
        sums = [builder.phi(vector) for _ in range(rows)]
        at_s = named("inner", s)
        right = load(at(b, (b_row, at_s)))
        left = [spread(builder.load(at(pointer, (a_column, at_s)))) for pointer in lefts]
        added = [builder.call(fma, [x, right, total]) for x, total in zip(left, sums, strict=True)]
        following = builder.add(s, whole(1))
        builder.cbranch(builder.icmp_signed("<", following, inner), loop, after)
        for phi, start, end in zip([s, *sums], [whole(0), *starts], [following, *added], strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, loop)

        builder.position_at_end(after)
        for total, target in zip(added, targets, strict=True):
            builder.store(total, builder.bitcast(target, vector.as_pointer())).align = signature.args[0].dtype.bitwidth // 8
        return context.get_dummy_value()

    n = types.intp

    def add(typingctx, a, a_row, a_column, b, b_row, c, c_row, inner):
        return types.void(a, n, n, b, n, c, n, n), codegen

    def add_listed(typingctx, a, a_row, a_column, b, b_row, c, c_row, inner, positions):
        return types.void(a, n, n, b, n, c, n, n, positions), codegen

    return intrinsic(add_listed if listed else add)


tile8, tile2, tile1 = tile(8), tile(2), tile(1)
inner8, inner2, inner1 = tile(8, "inner"), tile(2, "inner"), tile(1, "inner")
rows8, rows2, rows1 = tile(8, "rows"), tile(2, "rows"), tile(1, "rows")


@njit(nogil=True, cache=True)
def add_product(a, b, c, rows, inner):
    """Add a[:rows, :inner] b[:inner] to c[:rows]; a may be a transpose, b and c have whole vectors as rows."""
    if inner == 0:
        return
    size = a.itemsize
    a_row, a_column, width = a.strides[0] // size, a.strides[1] // size, c.shape[1]
    for j in range(0, width, LANES):
        i = 0
        while i + 7 < rows:
            tile8(address(a, i * a_row), a_row, a_column, address(b, j), width, address(c, i * width + j), width, inner)
            i += 8
        while i + 1 < rows:
            tile2(address(a, i * a_row), a_row, a_column, address(b, j), width, address(c, i * width + j), width, inner)
            i += 2
        if i < rows:
            tile1(address(a, i * a_row), a_row, a_column, address(b, j), width, address(c, i * width + j), width, inner)


@njit(nogil=True, cache=True)
def add_columns_product(a, b, c, rows, columns):
    """Add a[:rows, columns] b[columns] to c[:rows]."""
    inner = columns.size
    if inner == 0:
        return
    size = a.itemsize
    a_row, a_column, width = a.strides[0] // size, a.strides[1] // size, c.shape[1]
    p = address(columns, 0)
    for j in range(0, width, LANES):
        i = 0
        while i + 7 < rows:
            inner8(address(a, i * a_row), a_row, a_column, address(b, j), width, address(c, i * width + j), width, inner, p)
            i += 8
        while i + 1 < rows:
            inner2(address(a, i * a_row), a_row, a_column, address(b, j), width, address(c, i * width + j), width, inner, p)
            i += 2
        if i < rows:
            inner1(address(a, i * a_row), a_row, a_column, address(b, j), width, address(c, i * width + j), width, inner, p)


@njit(nogil=True, cache=True)
def add_rows_product(a, b, c, rows, inner):
    """Add a[rows, :inner] b[:inner] to c[rows]."""
    if inner == 0:
        return
    size = a.itemsize
    a_row, a_column, width = a.strides[0] // size, a.strides[1] // size, c.shape[1]
    for j in range(0, width, LANES):
        i = 0
        while i + 7 < rows.size:
            rows8(address(a, 0), a_row, a_column, address(b, j), width, address(c, j), width, inner, address(rows, i))
            i += 8
        while i + 1 < rows.size:
            rows2(address(a, 0), a_row, a_column, address(b, j), width, address(c, j), width, inner, address(rows, i))
            i += 2
        if i < rows.size:
            rows1(address(a, 0), a_row, a_column, address(b, j), width, address(c, j), width, inner, address(rows, i))


@njit(nogil=True, cache=True)
def used_columns(a, n, used):
    """Numbers, increasing, of the columns in which one of the first n rows of a is not 0; `used` is room for them."""
    for k in range(a.shape[1]):
        used[k] = a[0, k] != 0 if n else False
    for i in range(1, n):
        for k in range(a.shape[1]):
            used[k] |= a[i, k] != 0
    return np.flatnonzero(used)


@njit(nogil=True, cache=True)
def load(flat, start, layer, units):
    """Fill a layer from `flat`, from position `start` on."""
    for i in range(layer.shape[0]):
        for j in range(units):
            layer[i, j] = flat[start + i * units + j]


@njit(nogil=True, cache=True)
def store(layer, units, flat, start):
    """Put a layer into `flat`; return whether all its numbers are finite."""
    finite = True
    for i in range(layer.shape[0]):
        for j in range(units):
            flat[start + i * units + j] = layer[i, j]
            finite &= math.isfinite(layer[i, j])
    return finite


@njit(nogil=True, cache=True, forceinline=True, fastmath={"reassoc", "contract"})
def square_norm(row, n):
    """Sum of squares of the first numbers of a row."""
    total = 0.0
    for j in range(n):
        total += np.float64(row[j]) * np.float64(row[j])
    return total


@part
def room(most, features, bottom, top, n_scores):
    """Room for `most` examples: inputs, responses, weights, hidden values, scores, slopes by both, and `top` across."""
    a, t, w = np.empty((most, features + 1), top.dtype), np.empty(most, top.dtype), np.empty(most, top.dtype)
    h, below = np.zeros((most, bottom.shape[1]), top.dtype), np.zeros((most, bottom.shape[1]), top.dtype)
    scores, slopes = np.zeros((most, top.shape[1]), top.dtype), np.zeros((most, top.shape[1]), top.dtype)
    return a, t, w, h, scores, slopes, below, np.zeros((n_scores, bottom.shape[1]), top.dtype)


@part
def put(x, row, a, i):
    """Make an example, and a one for the intercepts, row i of a."""
    for k in range(x.shape[1]):
        a[i, k] = x[row, k]
    a[i, x.shape[1]] = 1


@part
def fill(x, y, indices, weights, a, t, w):
    """Take over the examples with weights > 0; return how many there are."""
    n = 0
    for j in range(indices.size):
        if weights[j] > 0:
            put(x, indices[j], a, n)
            t[n], w[n] = y[indices[j]], weights[j]
            n += 1
    return n


@part
def forward(a, n, columns, bottom, top, h, scores, n_hidden, n_scores):
    """Find scores (and hidden values) of the n examples in a, 0 but for some columns; return whether scores are finite."""
    scores[:n] = 0
    if n_hidden == 0:
        add_columns_product(a, top, scores, n, columns)
    else:
        h[:n] = 0
        add_columns_product(a, bottom, h, n, columns)
        for i in range(n):
            for j in range(n_hidden):
                if h[i, j] < 0:  # lets NaN pass
                    h[i, j] = 0
            h[i, n_hidden] = 1
        add_product(h, top, scores, n, n_hidden + 1)
    for i in range(n):
        for j in range(n_scores):
            if not math.isfinite(scores[i, j]):
                return False
    return True


@njit(nogil=True, cache=True)
def loss_and_slopes(kind, s, n_scores, y, slopes):
    """Loss of one example with scores s; its slopes by the scores; whether the class is predicted."""
    if kind == SOFTMAX:
        best = 0
        for j in range(n_scores):
            if s[j] > s[best]:
                best = j
        total = 0.0
        for j in range(n_scores):
            slopes[j] = math.exp(s[j] - s[best])
            total += slopes[j]
        for j in range(n_scores):
            slopes[j] /= total
        right = int(y)
        slopes[right] -= 1
        return math.log(total) + np.float64(s[best] - s[right]), best == right
    if kind == SQUARE:
        slopes[0] = s[0] - y
        return 0.5 * np.float64(slopes[0]) ** 2, True
    t = 2 * y - 1
    if kind == HINGE:
        slopes[0] = -t if t * s[0] < 1 else 0
        return max(0.0, 1.0 - np.float64(t * s[0])), (s[0] > 0) == (y > 0)
    tail = math.exp(-abs(s[0]))
    slopes[0] = (1 / (1 + tail) if s[0] > 0 else tail / (1 + tail)) - y
    return max(0.0, -np.float64(t * s[0])) + math.log1p(tail), (s[0] > 0) == (y > 0)


@njit(nogil=True, cache=True)
def shift(layer, units, start, flat, by_layer, by_flat):
    """Add by_layer * layer + by_flat * flat to a layer."""
    by_layer, by_flat = layer.dtype.type(by_layer), layer.dtype.type(by_flat)
    units, at = np.uint64(units), np.uint64(start)  # without a sign: no test for positions from the end
    for i in range(layer.shape[0]):
        for j in range(units):
            layer[i, j] += by_layer * layer[i, j] + by_flat * flat[at + j]
        at += units


@part
def weigh(a, n, w, h, slopes, below, across, top, n_hidden, n_scores, by, clip):
    """Find the slopes by hidden values from those by scores; multiply both by `by`, the weights and what clipping leaves."""
    if n_hidden:
        for j in range(n_scores):
            for k in range(n_hidden):
                across[j, k] = top[k, j]
        below[:n] = 0
        add_product(slopes, across, below, n, n_scores)
        for i in range(n):
            for k in range(n_hidden):
                if not h[i, k] > 0:
                    below[i, k] = 0
    for i in range(n):
        factor = np.float64(w[i])
        if clip < math.inf:
            inputs = square_norm(a[i], a.shape[1])
            norm2 = square_norm(slopes[i], n_scores)
            if n_hidden:
                norm2 = norm2 * square_norm(h[i], n_hidden + 1) + square_norm(below[i], n_hidden) * inputs
            else:
                norm2 *= inputs
            if norm2 > clip * clip:
                factor *= clip / math.sqrt(norm2)
        factor *= by
        for j in range(n_scores):
            slopes[i, j] *= factor
        for k in range(n_hidden):
            below[i, k] *= factor


@part
def add_gradient(a, n, columns, h, slopes, below, bottom, top, n_hidden):
    """Add the gradient that has the slopes of `weigh` to two layers, which need not be the network's."""
    if n_hidden:
        add_rows_product(a.T, below, bottom, columns, n)
        add_product(h.T, slopes, top, n_hidden + 1, n)
    else:
        add_rows_product(a.T, slopes, top, columns, n)


@njit(nogil=True, cache=True)
def sgd(
    x, y, indices, weights, divisors, first, last, noise, bottom, top, n_hidden, n_scores, kind,
    rate, lam, anchor, clip, scale,
):  # fmt: skip
    """Take the steps first .. last - 1 in place; return the first step with infinite or NaN scores, or -1.

    indices, weights (S, B) and divisors (S,) are those of all steps.  noise (last - first, P) has normal numbers, to be
    multiplied by scale; it may be empty where that is 0.
    """
    a, t, w, h, scores, slopes, below, across = room(indices.shape[1], x.shape[1], bottom, top, n_scores)
    split, used = bottom.shape[0] * n_hidden, np.empty(x.shape[1] + 1, np.bool_)
    for step in range(first, last):
        n = fill(x, y, indices[step], weights[step], a, t, w)
        columns = used_columns(a, n, used)
        if not forward(a, n, columns, bottom, top, h, scores, n_hidden, n_scores):
            return step
        for i in range(n):
            loss_and_slopes(kind, scores[i], n_scores, t[i], slopes[i])
        weigh(a, n, w, h, slopes, below, across, top, n_hidden, n_scores, -rate / divisors[step], clip)
        if lam > 0:
            shift(bottom, n_hidden, 0, anchor, -rate * lam, rate * lam)
            shift(top, n_scores, split, anchor, -rate * lam, rate * lam)
        if scale > 0:
            shift(bottom, n_hidden, 0, noise[step - first], 0.0, -rate * scale / divisors[step])
            shift(top, n_scores, split, noise[step - first], 0.0, -rate * scale / divisors[step])
        add_gradient(a, n, columns, h, slopes, below, bottom, top, n_hidden)
    return -1


@njit(nogil=True, cache=True)
def all_scores(x, bottom, top, n_hidden, n_scores):
    """Scores of the examples x, in rows of whole vectors."""
    d, most = x.shape[1], min(ROWS, x.shape[0])
    a, h = np.empty((most, d + 1), x.dtype), np.zeros((most, bottom.shape[1]), x.dtype)
    scores, used = np.zeros((x.shape[0], top.shape[1]), x.dtype), np.empty(d + 1, np.bool_)
    for start in range(0, x.shape[0], most):
        n = min(most, x.shape[0] - start)
        for i in range(n):
            put(x, start + i, a, i)
        columns = used_columns(a, n, used)
        forward(a, n, columns, bottom, top, h, scores[start : start + n], n_hidden, n_scores)
    return scores


@njit(nogil=True, cache=True)
def evaluate(x, y, bottom, top, n_hidden, n_scores, kind):
    """Mean loss and share of predicted classes."""
    scores, slopes = all_scores(x, bottom, top, n_hidden, n_scores), np.zeros(top.shape[1], x.dtype)
    total, hits = 0.0, 0
    for i in range(x.shape[0]):
        loss, hit = loss_and_slopes(kind, scores[i], n_scores, y[i], slopes)
        total += loss
        hits += hit
    return total / x.shape[0], hits / x.shape[0]
