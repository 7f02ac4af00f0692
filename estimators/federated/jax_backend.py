"""The backend in JAX (extra ``learn``): many clients of a round in one compiled program, on a CPU or a GPU unchanged.

Slopes come from automatic differentiation, batches and noise from the same streams as in the other backends, so that all
agree up to rounding.  To use a GPU install JAX for it (``pip install 'jax[cuda13]'``); nothing here changes, JAX takes the
first accelerator that it sees (``jax.devices()``), and the variable ``JAX_PLATFORMS=cpu`` sends it back to the CPU.

On a CPU bits are reproducible with the same settings, machine and version of JAX, hence after a resume too.  They may change
with `memory`, with the kind of device, and with the other clients of a round, since XLA orders the terms of a sum by the
shapes of the arrays that it compiles for; ``numpy_backend`` promises more.  On GPUs nothing is promised beyond rounding.

With the inputs a and the slopes d of a layer, one row for each position of the image, an example's gradient by the layer is
a' d.  Clipping forms these for convolutions only: with one position the norm is |a| |d| (Goodfellow 2015, arXiv:1510.01799)
and the sum over the batch, each times its factor, is one product of matrices.

Belongs here: `JaxBackend`.  Does not belong here: what is computed, which ``backend`` says; the backend without extras is in
``numpy_backend``.
"""

# pyright: reportMissingImports=false, reportOptionalMemberAccess=false

from dataclasses import replace
from functools import partial
from math import inf, prod

import numpy as np

from estimators.federated.backend import Diverged, Evaluation, check_evaluated, client_arrays, local_training
from estimators.federated.reference_backend import losses
from estimators.validation import choice, index

try:
    import jax
    from jax import numpy as jnp
except ImportError:  # the extra is not installed
    jax = jnp = None

__all__ = ["JaxBackend"]

TINY = 1e-30
AHEAD = 8
"""Steps whose noise goes to the device at once."""
ROWS = 256
"""Examples that are evaluated together with the same parameters."""


def patches_of(layer, image):
    """Numbers (n, positions, inputs) of each patch of the images (n, height, width, channels)."""
    rows, columns = layer.positions(image.shape[1:])
    around = ((layer.size - 1) // 2, layer.size // 2) if layer.same else (0, 0)
    padded = jnp.pad(image, ((0, 0), around, around, (0, 0)))
    pixels = [(i, j) for i in range(layer.size) for j in range(layer.size)]
    parts = [padded[:, i : i + rows, j : j + columns] for i, j in pixels]
    return jnp.concatenate(parts, axis=-1).reshape(len(image), rows * columns, -1)


def pooled(layer, values):
    """Largest value of each block of values (n, rows, columns, channels)."""
    n, height, width, channels = values.shape
    rows, columns = height // layer.pool, width // layer.pool
    whole = values[:, : rows * layer.pool, : columns * layer.pool]
    return whole.reshape(n, rows, layer.pool, columns, layer.pool, channels).max(axis=(2, 4))


def taps_of(model, n, dtype):
    """Zeros (n, positions, outputs) of each layer, to be added to its outputs: slopes by them are slopes by the outputs."""
    positions = [prod(c.positions(i)) for c, i in zip(model.convolutions, model.images[:-1], strict=True)]
    positions += [1] * (len(model.shapes) - len(positions))
    return [jnp.zeros((n, p, outputs), dtype) for p, (_, outputs) in zip(positions, model.shapes, strict=True)]


def forward(model, parameters, x, taps):
    """Scores (n, scores) of examples x (n, features), and what each layer takes, (n, positions, inputs)."""
    taken, layers = [], zip(model.layers(parameters), taps, strict=True)

    def affine(values):
        layer, tap = next(layers)
        taken.append(values)
        return values @ layer[:-1] + layer[-1] + tap

    if model.convolutions:
        x = x.reshape(len(x), *model.image)
    for layer in model.convolutions:
        values = jax.nn.relu(affine(patches_of(layer, x)))
        x = pooled(layer, values.reshape(len(x), *layer.positions(x.shape[1:]), -1))
    values = affine(x.reshape(len(x), 1, -1))
    for _ in model.sizes[2:]:
        values = affine(jax.nn.relu(values))
    return values[:, 0], taken


def losses_of(model, scores, y):
    """Loss (n,) of examples with scores (n, scores)."""
    if model.loss == "softmax":
        return jax.nn.logsumexp(scores, axis=1) - jnp.take_along_axis(scores, y.astype(int)[:, None], axis=1)[:, 0]
    s = scores[:, 0]
    if model.loss == "square":
        return (s - y) ** 2 / 2
    margin = (2 * y - 1) * s
    if model.loss == "hinge":
        return jnp.where(margin < 1, 1 - margin, 0)
    size = jnp.maximum(margin, -margin)  # abs would have the slope 1 at 0, where this has 0
    return jnp.maximum(0, -margin) + jnp.log1p(jnp.exp(-size))


def slopes_of(model, parameters, x, y):
    """For each layer what it takes, (n, positions, inputs), and the slopes of each example's loss by its outputs."""

    def total(taps):
        scores, taken = forward(model, parameters, x, taps)
        return losses_of(model, scores, y).sum(), taken

    slopes, taken = jax.grad(total, has_aux=True)(taps_of(model, len(x), x.dtype))
    return list(zip(taken, slopes, strict=True))


def summed(taken, slopes):
    """Gradient by one layer, summed over examples, as a vector."""
    return jnp.concatenate([jnp.einsum("npi,npo->io", taken, slopes).ravel(), slopes.sum(axis=(0, 1))])


def by_example(taken, slopes):
    """Squared norm (n,) of each example's gradient by one layer, and a function from weights (n,) to the weighted sum."""
    if taken.shape[1] == 1:
        norms = ((taken**2).sum(axis=(1, 2)) + 1) * (slopes**2).sum(axis=(1, 2))
        return norms, lambda weights: summed(taken, slopes * weights[:, None, None])
    matrices, intercepts = jnp.einsum("npi,npo->nio", taken, slopes), slopes.sum(axis=1)
    norms = (matrices**2).sum(axis=(1, 2)) + (intercepts**2).sum(axis=1)
    return norms, lambda weights: jnp.concatenate([(weights @ matrices.reshape(len(weights), -1)), weights @ intercepts])


def one_step(model, clipped, w, x, y, batch, how, normals):
    """Parameters of one client after one step; see ``backend`` for the formula."""
    rows, weights, divisor, taken = batch
    rate, lam, anchor, clip, scale = how
    pairs = slopes_of(model, w, x[rows], y[rows])
    if clipped:
        norms, sums = zip(*(by_example(*pair) for pair in pairs), strict=True)
        weights = weights * jnp.minimum(1, clip / jnp.maximum(jnp.sqrt(sum(norms)), TINY))
        total = jnp.concatenate([weighted(weights) for weighted in sums])
    else:
        total = jnp.concatenate([summed(a, slopes * weights[:, None, None]) for a, slopes in pairs])
    moved = w - rate * ((total + scale * normals) / divisor + lam * (w - anchor))
    return jnp.where(taken, moved, w)


def trained(model, clipped, noisy, state, x, y, batches, how, normals, first, stop):
    """Parameters (C, P) and the first step (C,) that left them not finite, or -1, after the steps first .. stop - 1.

    batches have axes (S, C, ...); normals (T, C, P), those of the steps from `first` on, are used if `noisy`.
    """
    each = jax.vmap(partial(one_step, model, clipped), (0, None, None, 0, 0, 0))

    def step(number, state):
        w, failed = state
        batch = [part[number] for part in batches]
        noise = normals[number - first] if noisy else jnp.zeros((len(w), 1), w.dtype)
        w = each(w, x, y, batch, how, noise)
        return w, jnp.where((failed < 0) & ~jnp.isfinite(w).all(axis=1), number, failed)

    return jax.lax.fori_loop(first, stop, step, state)


def scored(model, each, parameters, x, rows):
    """Scores (U, R, n_scores) of rows (U, R), each U with parameters of its own if `each`."""

    def one(w, rows):
        return forward(model, w, x[rows], taps_of(model, len(rows), x.dtype))[0]

    return jax.vmap(one, (0 if each else None, 0))(parameters, rows)


def mean_loss(model, parameters, x, y):
    """Mean loss of examples."""
    return losses_of(model, forward(model, parameters, x, taps_of(model, len(x), x.dtype))[0], y).mean()


def gradients_of(model, parameters, x, y):
    """Gradient (n, P) of each example's loss."""
    pairs = slopes_of(model, parameters, x, y)
    return jax.vmap(lambda pairs: jnp.concatenate([summed(a[None], d[None]) for a, d in pairs]))(pairs)


def bucket(n):
    """Next whole number with three binary digits and zeros: programs are compiled for few shapes, 25% too large at most.

    >>> [bucket(n) for n in (0, 1, 7, 9, 600)]
    [1, 1, 7, 10, 640]
    """
    unit = 1 << max(0, int(n).bit_length() - 3)
    return max(1, -(-int(n) // unit) * unit)


class JaxBackend:
    """Training, gradients and evaluation in JAX.

    Parameters
    ----------
    dtype : "float32" or "float64", the precision of everything; other users of JAX in the process are not affected.
    memory : whole number >= 1, bytes for what is computed at once, apart from the data: clients are cut into chunks of as
        many as fit (one at least).  None: 64 MiB on a CPU, whose caches like little, 4 GiB on an accelerator.

    Any number of hidden layers and convolutions.  Programs are compiled once for each model and (rounded) shape of a round.
    Noise is drawn on the host, so that it is the noise of the other backends.

    Raises
    ------
    ImportError
        Without JAX, naming the extra to install.
    """

    def __init__(self, *, dtype="float32", memory=None):
        self.dtype = np.dtype(choice("dtype", dtype, ("float32", "float64")))
        if jax is None:
            raise ImportError("JaxBackend needs JAX: pip install 'borrowed-strength[learn]'")
        usual = 2**26 if jax.default_backend() == "cpu" else 2**32
        self.memory = usual if memory is None else index("memory", memory, 1, inf)
        fixed = {trained: (0, 1, 2), scored: (0, 1), mean_loss: (0,), gradients_of: (0,)}
        self._programs = {function: jax.jit(function, static_argnums=first) for function, first in fixed.items()}

    def _run(self, function, *arguments):
        """Call a compiled function in this backend's precision, on accelerators too; what it returns stays on the device."""
        with jax.enable_x64(self.dtype == np.float64), jax.default_matmul_precision("highest"):
            return self._programs[function](*arguments)

    def prepare(self, model, clients):
        """Checked data of all clients, on the device; see `Backend`."""
        data = client_arrays(model, clients, dtype=self.dtype)
        with jax.enable_x64(self.dtype == np.float64):
            return replace(data, x=jnp.asarray(data.x), y=jnp.asarray(data.y))

    def initialise(self, model, generator):
        """First parameters (P,); see `Backend`."""
        return model.initialise(generator)

    def loss(self, model, parameters, x, y):
        """Mean loss; see `Backend`."""
        return float(self._run(mean_loss, model, *self._checked(model, parameters, x, y)))

    def example_gradients(self, model, parameters, x, y):
        """Gradients (n, P); see `Backend`."""
        return np.asarray(self._run(gradients_of, model, *self._checked(model, parameters, x, y)))

    def _checked(self, model, parameters, x, y):
        checked = model.check_parameters("parameters", parameters), *model.check_data("data", x, y)
        return [part.astype(self.dtype) for part in checked]

    def _fitting(self, model, rows, copies):
        """How often `rows` examples and `copies` vectors of parameters, with all that is computed of them, fit in memory."""
        positions = [tap.shape[1] for tap in jax.eval_shape(lambda: taps_of(model, 1, np.float32))]
        numbers = sum(
            p * (inputs + 3 * outputs) + (p > 1) * inputs * outputs
            for p, (inputs, outputs) in zip(positions, model.shapes, strict=True)
        )
        return max(1, self.memory // (self.dtype.itemsize * (2 * rows * numbers + copies * model.n_parameters)))

    def local_sgd(self, model, starts, data, schedule, *, learning_rate, pull=None, clip=None, noise=None):
        """Parameters (C, P) after local SGD; see `Backend`."""
        how = local_training(model, starts, data, schedule, learning_rate=learning_rate, pull=pull, clip=clip, noise=noise)
        C, most = len(schedule.clients), schedule.indices.shape[2]
        width = min(self._fitting(model, bucket(most), 4 + AHEAD * (noise is not None)), bucket(C))
        order, failed = np.argsort(-schedule.steps, kind="stable"), np.full(C, -1)  # those with many steps together
        ends = np.empty((C, model.n_parameters), self.dtype)
        for chunk in (order[first : first + width] for first in range(0, C, width)):
            ends[chunk], failed[chunk] = self._train(model, data, schedule, how, chunk, width, clip is not None)
        if (failed >= 0).any():
            i = int(np.argmax(failed >= 0))
            raise Diverged(int(schedule.clients[i]), int(failed[i]))
        return ends

    def _train(self, model, data, schedule, how, chunk, width, clipped):
        """Parameters (n, P) of some rows of the schedule and their first step that is not finite, or -1."""
        n, steps, clients = len(chunk), schedule.steps[chunk], schedule.clients[chunk]
        last = int(steps.max(initial=0))
        weights = schedule.weights[chunk, :last] * (np.arange(last) < steps[:, None])[..., None]
        batch = int(np.flatnonzero(weights.any(axis=(0, 1))).max(initial=-1)) + 1

        def filled(part, *shape, value=0, dtype=self.dtype):
            whole = np.full(shape, value, dtype)
            whole[tuple(map(slice, part.shape))] = part
            return whole

        rows = np.where(weights > 0, schedule.indices[chunk, :last], 0) + data.first[clients][:, None, None]
        shape = width, bucket(last)
        batches = [
            filled(rows[:, :, :batch], *shape, bucket(batch), dtype=np.int32),
            filled(weights[:, :, :batch], *shape, bucket(batch)),
            filled(schedule.divisors[chunk, :last], *shape, value=1),
            filled(np.arange(last) < steps[:, None], *shape, dtype=bool),
        ]
        batches = [np.moveaxis(part, 1, 0) for part in batches]
        scale = how.multiplier * np.where(how.multiplier > 0, how.clip, 0)
        settings = [
            filled(part[chunk], width, *part.shape[1:], value=1)
            for part in (how.rate, how.lam, how.anchors, how.clip, scale)
        ]
        state = filled(how.starts[chunk], width, model.n_parameters), np.full(width, -1)
        noisy = bool(scale.any())
        ahead = AHEAD if noisy else bucket(last)
        normals = np.zeros((ahead, width, model.n_parameters) if noisy else (1, 1, 1), self.dtype)
        for first in range(0, last, ahead):
            stop = min(first + ahead, last)
            if noisy:
                normals = normals.copy()  # the device may still read the last one
                for i, client in enumerate(clients):
                    if scale[chunk[i]] == 0:
                        continue
                    normals[: stop - first, i] = how.noise.draw(client, range(first, stop), model.n_parameters)
            arguments = data.x, data.y, batches, settings, normals, first, stop
            state = self._run(trained, model, clipped, noisy, state, *arguments)
        return tuple(np.asarray(part)[:n] for part in state)

    def local_pairs(self, model, own, common, psi, data, schedule, *, step, noise=None):
        """Not in this backend; see `Backend`."""
        raise ValueError("JaxBackend does not train pairs of networks; use NumpyBackend")

    def scores(self, model, parameters, data):
        """Scores of all clients' examples; see `Backend`."""
        each = np.ndim(parameters) == 2
        parameters = check_evaluated(model, parameters, data).astype(self.dtype)
        rows = np.concatenate([np.arange(n) + first for first, n in zip(data.first, data.sizes, strict=True)])
        sizes = data.sizes if each else np.array([len(rows)])  # rows that share parameters
        R = min(ROWS, bucket(sizes.max()))
        units = -(-sizes // R)
        owner = np.repeat(np.arange(len(sizes)), units)
        offset = (np.arange(len(owner)) - np.repeat(np.cumsum(units) - units, units)) * R
        place = offset[:, None] + np.arange(R)
        used = place < sizes[owner][:, None]
        rows = rows[np.where(used, place, 0) + (np.cumsum(sizes) - sizes)[owner][:, None]]
        width, found = min(self._fitting(model, R, 2 * each), bucket(len(rows))), []
        for first in range(0, len(rows), width):
            some = slice(first, first + width)
            fill = [(0, width - len(rows[some]))]
            own = parameters[np.pad(owner[some], fill)] if each else parameters[0]
            found.append(self._run(scored, model, each, own, data.x, np.pad(rows[some], [*fill, (0, 0)])))
        return np.concatenate(found)[: len(rows)][used]

    def evaluate(self, model, parameters, data):
        """Loss and accuracy of each client; see `Backend`."""
        scores = self.scores(model, parameters, data).astype(float)
        order = np.concatenate([np.arange(n) + first for first, n in zip(data.first, data.sizes, strict=True)])
        y, starts = np.asarray(data.y)[order], np.cumsum(data.sizes) - data.sizes
        predicted = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
        each = losses(model, scores, y)[0], predicted == y
        loss, hit = (np.add.reduceat(part.astype(float), starts) / data.sizes for part in each)
        return Evaluation(loss, hit if model.n_classes else None)
