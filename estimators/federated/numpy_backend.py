"""The backend that is always there: compiled loops on the CPU, clients in parallel on threads.

Each client is trained by itself, by loops whose sums have a fixed order, so results have the same bits for any number of
workers, any cut of the clients into chunks and any number of BLAS threads (none is used).

Belongs here: `NumpyBackend`, threads, noise on its way into the loops.  Does not belong here: the loops themselves, which
are in ``kernels``; what is computed, which ``backend`` says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.backend import Diverged, Evaluation, check_evaluated, client_arrays, local_training
from estimators.federated.kinds import typed
from estimators.federated.pairs import Pairs, checked_pairs
from estimators.federated.reference_backend import ReferenceBackend
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import choice, index

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from estimators.federated.backend import ClientArrays
    from estimators.federated.models import Model
    from estimators.federated.pairs import PairStep
    from estimators.federated.schedule import GaussianNoise, Schedule

__all__ = ["NumpyBackend"]

KINDS = ("square", "logistic", "hinge", "softmax")
AHEAD = 8
"""Steps whose noise is drawn at once: more would leave the caches, fewer would keep threads waiting for each other."""


class NumpyBackend(ReferenceBackend):
    """Training and evaluation in compiled loops; losses and gradients of single examples as in `ReferenceBackend`.

    Parameters
    ----------
    dtype : "float32" or "float64", the precision of `local_sgd` and `evaluate` and of the parameters they return; norms for
        clipping and losses are summed in float64.
    workers : whole number >= 1 of threads; None: one per core.

    Models may have at most one hidden layer, no convolutions and no dropout; ``jax_backend`` trains those.

    >>> from estimators.federated.models import linear_regression
    >>> from estimators.federated.schedule import fixed_batches
    >>> backend, model = NumpyBackend(), linear_regression(1)
    >>> data = backend.prepare(model, [([[1.0], [2.0]], [2.0, 4.0])])
    >>> steps = fixed_batches(data.sizes, n_steps=200, batch_size=2, seed=0, round=0)
    >>> backend.local_sgd(model, [0.0, 0.0], data, steps, learning_rate=0.5).round(2).tolist()
    [[2.0, 0.0]]
    """

    @typed
    def __init__(self, *, dtype: DTypeLike = "float32", workers: int | None = None) -> None:
        self.dtype = np.dtype(choice("dtype", dtype, ("float32", "float64")))
        self.workers = (os.cpu_count() or 1) if workers is None else index("workers", workers, 1)

    @typed
    def prepare(self, model: Model, clients: Sequence[tuple[Any, Any]]) -> ClientArrays:
        """Checked data of all clients; see `Backend`."""
        check_trainable(model)
        return client_arrays(model, clients, dtype=self.dtype)

    @typed
    def local_sgd(
        self,
        model: Model,
        starts: np.ndarray,
        data: ClientArrays,
        schedule: Schedule,
        *,
        learning_rate: ArrayLike,
        pull: tuple[Any, Any] | None = None,
        clip: Any = None,
        noise: GaussianNoise | None = None,
    ) -> np.ndarray:
        """Parameters (C, P) after local SGD; see `Backend`."""
        how = local_training(model, starts, data, schedule, learning_rate=learning_rate, pull=pull, clip=clip, noise=noise)
        self._check(data)
        ends = np.empty(how.starts.shape, self.dtype)

        def train(rows):
            layers = Layers(model, self.dtype)
            for i in rows:
                layers.load(how.starts[i])
                train_one(layers, ends, how, data, schedule, i)

        self._share(train, len(ends))
        return ends

    @typed
    def local_pairs(
        self,
        model: Model,
        own: np.ndarray,
        common: np.ndarray,
        psi: np.ndarray,
        data: ClientArrays,
        schedule: Schedule,
        *,
        step: PairStep,
        noise: GaussianNoise | None = None,
    ) -> Pairs:
        """`Pairs` after their training; see `Backend`."""
        start, z = checked_pairs(model, own, common, psi, data, schedule, step=step, noise=noise)
        self._check(data)
        ends = Pairs(np.empty(start.own.shape, self.dtype), np.empty(start.own.shape, self.dtype), start.psi.copy())

        def train(rows):
            theta, mu = Layers(model, self.dtype), Layers(model, self.dtype)
            for i in rows:
                theta.load(start.own[i])
                mu.load(start.common[i])
                train_pair(theta, mu, ends, step, data, schedule, i, noise, z)

        self._share(train, len(ends.psi))
        return ends

    @typed
    def scores(self, model: Model, parameters: np.ndarray, data: ClientArrays) -> np.ndarray:
        """Scores of all clients' examples; see `Backend`."""
        rows = check_evaluated(model, parameters, data)
        self._check(data)
        last = np.cumsum(data.sizes)
        scores = np.empty((last[-1], model.sizes[-1]), self.dtype)

        def work(clients):
            from estimators.federated import kernels

            layers = Layers(model, self.dtype)
            for k in clients:
                layers.load(rows[k])
                found = kernels.all_scores(data.client(k)[0], layers.bottom, layers.top, *layers.sizes[:2])
                scores[last[k] - data.sizes[k] : last[k]] = found[:, : model.sizes[-1]]

        self._share(work, len(rows))
        return scores

    @typed
    def evaluate(self, model: Model, parameters: np.ndarray, data: ClientArrays) -> Evaluation:
        """Loss and accuracy of each client; see `Backend`."""
        rows = check_evaluated(model, parameters, data)
        self._check(data)
        loss, accuracy = np.empty(len(rows)), np.empty(len(rows))

        def evaluate(clients):
            from estimators.federated import kernels

            layers = Layers(model, self.dtype)
            for k in clients:
                layers.load(rows[k])
                loss[k], accuracy[k] = kernels.evaluate(*data.client(k), layers.bottom, layers.top, *layers.sizes)

        self._share(evaluate, len(rows))
        return Evaluation(loss, accuracy if model.n_classes else None)

    def _check(self, data):
        if data.x.dtype != self.dtype:
            raise ValueError(f"data is of {data.x.dtype}, the backend of {self.dtype}; use this backend's prepare")

    def _share(self, work, n):
        """Call work(chunk) on chunks of range(n), on threads; raise the first chunk's error."""
        chunks = [c for c in np.array_split(np.arange(n), 8 * self.workers) if len(c)]
        if self.workers == 1 or len(chunks) == 1:
            for chunk in chunks:
                work(chunk)
            return
        with ThreadPoolExecutor(min(self.workers, len(chunks))) as pool:
            for done in [pool.submit(work, chunk) for chunk in chunks]:
                done.result()


def check_trainable(model: Model) -> None:
    """Raise a ValueError if the compiled loops have not got this model's layers."""
    more = [f"{len(model.convolutions)} convolutions"] * bool(model.convolutions)
    more += [f"{len(model.sizes) - 2} hidden layers"] * (len(model.sizes) > 3) + ["dropout"] * bool(model.dropout)
    if more:
        raise ValueError(
            f"model has {' and '.join(more)}; NumpyBackend trains at most one hidden layer, no convolutions, no dropout: "
            "pip install 'borrowed-strength[learn]' and use JaxBackend (--backend jax)"
        )


class Layers:
    """One client's parameters in the form of ``kernels``: rows of whole vectors; without hidden layer `bottom` is empty."""

    @typed
    def __init__(self, model: Model, dtype: DTypeLike) -> None:
        from estimators.federated import kernels

        check_trainable(model)
        hidden = model.sizes[1] if len(model.sizes) == 3 else 0

        def vectors(units):
            return -(-units // kernels.LANES) * kernels.LANES

        self.kernels, self.dtype, self.split = kernels, dtype, (model.n_features + 1) * hidden
        self.bottom = np.zeros((model.n_features + 1, vectors(hidden + 1)) if hidden else (0, 0), dtype)
        self.top = np.zeros((model.sizes[-2] + 1, vectors(model.sizes[-1])), dtype)
        self.sizes = hidden, model.sizes[-1], KINDS.index(model.loss)

    @typed
    def load(self, row: Any) -> None:
        """Take over parameters (P,)."""
        row = np.ascontiguousarray(row, dtype=self.dtype)
        self.kernels.load(row, 0, self.bottom, self.sizes[0])
        self.kernels.load(row, self.split, self.top, self.sizes[1])

    @typed
    def store(self, end: Any) -> Any:
        """Write the parameters to end (P,); return whether they are finite."""
        finite = self.kernels.store(self.bottom, self.sizes[0], end, 0)
        return self.kernels.store(self.top, self.sizes[1], end, self.split) and finite


def train_one(layers: Any, ends: Any, how: Any, data: ClientArrays, schedule: Schedule, i: int) -> None:
    """Train row i of the schedule and write its parameters to `ends`."""
    scale = float(how.multiplier[i] * how.clip[i]) if how.multiplier[i] else 0.0
    anchor = np.ascontiguousarray(how.anchors[i], dtype=layers.dtype)
    settings = float(how.rate[i]), float(how.lam[i]), anchor, float(how.clip[i]), scale

    def go(*steps):
        return layers.kernels.sgd(*steps, layers.bottom, layers.top, *layers.sizes, *settings)

    def store():
        return layers.store(ends[i])

    take_steps(go, store, data, schedule, i, how.noise if scale else None, ends.shape[1])


def train_pair(
    theta: Any,
    mu: Any,
    ends: Any,
    step: Any,
    data: ClientArrays,
    schedule: Schedule,
    i: int,
    noise: GaussianNoise | None,
    multiplier: float,
) -> None:
    """Train the pair of row i of the schedule and write it to `ends`."""
    from estimators.federated import pair_kernels

    layers = theta.bottom, theta.top, mu.bottom, mu.top
    settings = step.rates, step.own, step.common, bool(step.mutual), step.floor, step.clips, bool(step.joint), multiplier

    def go(*steps):
        numbers = *steps, *layers, float(ends.psi[i]), *theta.sizes, *settings, step.weight_decay
        failed, ends.psi[i] = pair_kernels.train(*numbers)
        return failed

    def store():
        return all([theta.store(ends.own[i]), mu.store(ends.common[i]), np.isfinite(ends.psi[i])])

    take_steps(go, store, data, schedule, i, noise if multiplier else None, ends.own.shape[1] + 1)


def take_steps(
    go: Any, store: Any, data: ClientArrays, schedule: Schedule, i: int, noise: GaussianNoise | None, size: int
) -> None:
    """Take the steps of row i of the schedule, a few at a time if they need noise (steps, size); raise `Diverged`.

    go(x, y, indices, weights, divisors, first, last, normals) takes some and returns the first that failed, or -1;
    store() keeps what they led to and returns whether it is finite.
    """
    client, steps = int(schedule.clients[i]), int(schedule.steps[i])
    batches = *data.client(client), schedule.indices[i], schedule.weights[i], schedule.divisors[i]
    failed, normals, ahead = -1, np.empty((0, 0), np.float32), AHEAD if noise else max(steps, 1)
    for first in range(0, steps, ahead):
        last = min(first + ahead, steps)
        if noise:
            normals = noise.draw(client, range(first, last), size)
        failed = go(*batches, first, last, normals)
        if failed >= 0:
            break
    if not store() and failed < 0:
        failed = max(steps - 1, 0)
    if failed >= 0:
        raise Diverged(client, failed)
