"""The backend in JAX (extra ``learn``): all clients of a round in one batched program, on a CPU or an accelerator unchanged.

Gradients come from automatic differentiation, batches and noise from the same streams as in the other backends, so that all
agree up to rounding.  Bits are reproducible on one kind of device with one version of JAX, not between kinds.

Belongs here: `JaxBackend`.  Does not belong here: what is computed, which ``backend`` says; the backend without extras is in
``numpy_backend``.
"""

# pyright: reportMissingImports=false, reportOptionalMemberAccess=false

from functools import partial

import numpy as np

from estimators.federated.backend import Diverged, Evaluation, check_evaluated, client_arrays, local_training
from estimators.validation import choice

try:
    import jax
    from jax import numpy as jnp
except ImportError:  # the extra is not installed
    jax = jnp = None

__all__ = ["JaxBackend"]


def example_scores(model, parameters, x):
    """Scores of one example x (features,)."""
    first, *others = model.layers(parameters)
    scores = x @ first[:-1] + first[-1]
    for layer in others:
        scores = jax.nn.relu(scores) @ layer[:-1] + layer[-1]
    return scores


def example_loss(model, parameters, x, y):
    """Loss of one example."""
    scores = example_scores(model, parameters, x)
    if model.loss == "softmax":
        return jax.nn.logsumexp(scores) - scores[y.astype(int)]
    if model.loss == "square":
        return (scores[0] - y) ** 2 / 2
    margin = (2 * y - 1) * scores[0]
    if model.loss == "hinge":
        return jnp.where(margin < 1, 1 - margin, 0)
    return jnp.maximum(0, -margin) + jnp.log1p(jnp.exp(-jnp.abs(margin)))


def one_step(model, clipped, w, x, y, batch, how, normals):
    """Parameters of one client after one step; see ``backend`` for the formula."""
    rows, weights, divisor, taken = batch
    rate, lam, anchor, clip, scale = how
    if clipped:
        gradients = jax.vmap(jax.grad(partial(example_loss, model)), (None, 0, 0))(w, x[rows], y[rows])
        norms = jnp.sqrt((gradients**2).sum(axis=1))
        total = (weights * jnp.minimum(1, clip / jnp.maximum(norms, 1e-30))) @ gradients
    else:
        losses = jax.vmap(partial(example_loss, model), (None, 0, 0))
        total = jax.grad(lambda w: weights @ losses(w, x[rows], y[rows]))(w)
    moved = w - rate * ((total + scale * normals) / divisor + lam * (w - anchor))
    return jnp.where(taken, moved, w)


def trained(model, clipped, starts, x, y, batches, how, normals):
    """Parameters (C, P) after the steps on axis 0 of `batches`, and the first step (C,) that left them not finite, or -1."""
    each = jax.vmap(partial(one_step, model, clipped), (0, None, None, 0, 0, 0))

    def step(state, batch):
        w, failed = state
        number, batch = batch
        w = each(w, x, y, batch, how, normals)
        return (w, jnp.where((failed < 0) & ~jnp.isfinite(w).all(axis=1), number, failed)), None

    numbers = jnp.arange(batches[0].shape[0])
    return jax.lax.scan(step, (starts, jnp.full(len(starts), -1)), (numbers, batches))[0]


def evaluated(model, width, x, y, parameters, first, sizes):
    """Mean loss and share of predicted classes of each client, whose sizes are at most `width`."""

    def one(client):
        w, start, n = client
        rows, used = start + jnp.arange(width), jnp.arange(width) < n
        rows = jnp.where(used, rows, start)
        loss = jax.vmap(partial(example_loss, model), (None, 0, 0))(w, x[rows], y[rows])
        scores = jax.vmap(partial(example_scores, model), (None, 0))(w, x[rows])
        predicted = scores.argmax(axis=1) if model.sizes[-1] > 1 else scores[:, 0] > 0
        return jnp.where(used, loss, 0).sum() / n, (used & (predicted == y[rows])).sum() / n

    return jax.lax.map(one, (parameters, first, sizes))


def mean_loss(model, parameters, x, y):
    """Mean loss of examples."""
    return jax.vmap(partial(example_loss, model), (None, 0, 0))(parameters, x, y).mean()


def gradients_of(model, parameters, x, y):
    """Gradient (n, P) of each example's loss."""
    return jax.vmap(jax.grad(partial(example_loss, model)), (None, 0, 0))(parameters, x, y)


class JaxBackend:
    """Training, gradients and evaluation in JAX.

    Parameters
    ----------
    dtype : "float32" or "float64", the precision of everything.

    Raises
    ------
    ImportError
        Without JAX, naming the extra to install.

    Any number of hidden layers.  Where gradients are clipped they are formed: clients x batch x parameters numbers.  Noise
    is drawn on the host, step by step, so that it is the noise of the other backends.
    """

    def __init__(self, *, dtype="float32"):
        self.dtype = np.dtype(choice("dtype", dtype, ("float32", "float64")))
        if jax is None:
            raise ImportError("JaxBackend needs JAX: pip install 'borrowed-strength[learn]'")
        self._programs = {
            function: jax.jit(function, static_argnums=fixed)
            for function, fixed in ((trained, (0, 1)), (evaluated, (0, 1)), (mean_loss, (0,)), (gradients_of, (0,)))
        }

    def _run(self, function, *arguments):
        """Call a compiled function in this backend's precision."""
        with jax.enable_x64(self.dtype == np.float64):
            return jax.tree.map(np.asarray, self._programs[function](*arguments))

    def prepare(self, model, clients):
        """Checked data of all clients; see `Backend`."""
        return client_arrays(model, clients, dtype=self.dtype)

    def initialise(self, model, generator):
        """First parameters (P,); see `Backend`."""
        return model.initialise(generator)

    def loss(self, model, parameters, x, y):
        """Mean loss; see `Backend`."""
        return float(self._run(mean_loss, model, *self._checked(model, parameters, x, y)))

    def example_gradients(self, model, parameters, x, y):
        """Gradients (n, P); see `Backend`."""
        return self._run(gradients_of, model, *self._checked(model, parameters, x, y))

    def _checked(self, model, parameters, x, y):
        checked = model.check_parameters("parameters", parameters), *model.check_data("data", x, y)
        return [part.astype(self.dtype) for part in checked]

    def local_sgd(self, model, starts, data, schedule, *, learning_rate, pull=None, clip=None, noise=None):
        """Parameters (C, P) after local SGD; see `Backend`."""
        how = local_training(model, starts, data, schedule, learning_rate=learning_rate, pull=pull, clip=clip, noise=noise)
        cast = partial(np.asarray, dtype=self.dtype)
        C, S = schedule.divisors.shape
        batches = [
            np.where(schedule.weights > 0, schedule.indices, 0) + data.first[schedule.clients][:, None, None],
            cast(schedule.weights),
            cast(schedule.divisors),
            np.arange(S) < schedule.steps[:, None],
        ]
        batches = [np.moveaxis(part, 1, 0) for part in batches]
        scale = how.multiplier * np.where(how.multiplier > 0, how.clip, 0)
        settings = tuple(map(cast, (how.rate, how.lam, how.anchors, how.clip, scale)))
        ends, zeros = cast(how.starts), np.zeros((C, model.n_parameters), self.dtype)
        failed = np.full(C, -1)
        for steps in [slice(s, s + 1) for s in range(S)] if scale.any() else [slice(0, S)]:
            normals = zeros
            if scale.any():
                draws = [how.noise.draw(k, [steps.start], model.n_parameters) for k in schedule.clients]
                normals = cast(np.concatenate(draws))
            part = tuple(array[steps] for array in batches)
            ends, now = self._run(trained, model, clip is not None, ends, data.x, data.y, part, settings, normals)
            failed = np.where((failed < 0) & (now >= 0), now + steps.start, failed)
        if (failed >= 0).any():
            i = int(np.argmax(failed >= 0))
            raise Diverged(int(schedule.clients[i]), int(failed[i]))
        return ends

    def evaluate(self, model, parameters, data):
        """Loss and accuracy of each client; see `Backend`."""
        rows = check_evaluated(model, parameters, data).astype(self.dtype)
        width = int(data.sizes.max())
        loss, accuracy = self._run(evaluated, model, width, data.x, data.y, rows, data.first, data.sizes)
        return Evaluation(loss.astype(float), accuracy.astype(float) if model.n_classes else None)
