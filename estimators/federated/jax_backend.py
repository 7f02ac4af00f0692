"""The backend in JAX (extra ``learn``): many clients of a round in one compiled program, on a CPU or a GPU unchanged.

Slopes come from automatic differentiation, batches and noise from the same streams as in the other backends, so that all
agree up to rounding.  To use a GPU install JAX for it (``pip install 'jax[cuda13]'``); nothing here changes, JAX takes the
first accelerator that it sees (``jax.devices()``), and the variable ``JAX_PLATFORMS=cpu`` sends it back to the CPU.

On a CPU bits are reproducible with the same settings, machine and version of JAX, hence after a resume too.  They may change
with `memory`, with the kind of device, and with the other clients of a round, since XLA orders the terms of a sum by the
shapes of the arrays that it compiles for; ``numpy_backend`` promises more.  On GPUs nothing is promised beyond rounding.

Belongs here: `JaxBackend`, which checks, draws noise and cuts rounds into chunks of clients.  Does not belong here: what is
compiled (``jax_kernels``, ``jax_pairs``), what is computed, which ``backend`` says; the backend without extras is in
``numpy_backend``.
"""

from __future__ import annotations

# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from estimators.federated.backend import Diverged, Evaluation, check_evaluated, client_arrays, local_training
from estimators.federated.dropout import dropped
from estimators.federated.jax_kernels import gradients_of, jax, jnp, mean_loss, one_step, scored, taps_of, trained
from estimators.federated.jax_pairs import pair_step
from estimators.federated.pairs import Pairs, checked_pairs
from estimators.federated.reference_backend import losses
from estimators.numerics.validation import choice, index

if TYPE_CHECKING:
    from estimators.federated.backend import ClientArrays
    from estimators.federated.models import Model
    from estimators.federated.schedule import Schedule

__all__ = ["JaxBackend"]

AHEAD = 8
"""Steps whose noise goes to the device at once."""
ALIGNED = 64
"""Bytes to whose multiples XLA wants arrays to be aligned that it does not copy."""
ROWS = 256
"""Examples that are evaluated together with the same parameters."""


def bucket(n: Any) -> int:
    """Next whole number with three binary digits and zeros: programs are compiled for few shapes, 25% too large at most.

    >>> [bucket(n) for n in (0, 1, 7, 9, 600)]
    [1, 1, 7, 10, 640]
    """
    unit = 1 << max(0, int(n).bit_length() - 3)
    return max(1, -(-int(n) // unit) * unit)


def alike(order: np.ndarray, steps: np.ndarray) -> list[np.ndarray]:
    """Cut clients in the order of falling steps where one has less than two thirds of those of the first of its group.

    Clients that are trained all together wait for the one with the most steps, and for the largest batch, which those with
    few steps have: without cuts Robust-HDP's clients, whose batches have 16 to 128 rows, would do 5.7 times their work.

    >>> [part.tolist() for part in alike(np.array([2, 0, 1, 3]), np.array([90, 80, 150, 38]))]
    [[2], [0, 1], [3]]
    """
    firsts = [0]
    for i, client in enumerate(order):
        if steps[client] < 2 / 3 * steps[order[firsts[-1]]]:
            firsts.append(i)
    return np.split(order, firsts[1:])


def longest(weights: np.ndarray) -> int:
    """Rows of the largest batch of weights (C, S, B).

    >>> longest(np.array([[[1.0, 0.0, 0.0], [1.0, 2.0, 0.0]]]))
    2
    """
    return int(np.flatnonzero(weights.any(axis=(0, 1))).max(initial=-1)) + 1


class Training(NamedTuple):
    """What the C clients of a schedule do in each of their steps.

    step, form : as in ``jax_kernels.trained``; starts, settings : arrays (C, ...), its `state` and `how`.
    noise : None or GaussianNoise, of which each step of the clients that are `noisy` (C,) takes so many `numbers`.
    """

    step: Any
    form: Any
    starts: tuple
    settings: tuple
    noise: Any
    noisy: np.ndarray
    numbers: int

    @property
    def networks(self) -> int:
        """How many vectors of parameters a client trains."""
        return sum(part.ndim == 2 for part in self.starts)


class Room:
    """Room for the noise of some steps of some clients, which the CPU's programs read where it lies; accelerators copy it.

    shape : (clients, steps, numbers); reader : what the program that reads it gives, waited for before it is filled.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        size = int(np.prod(shape)) * dtype.itemsize
        whole = np.zeros(size + ALIGNED, np.uint8)
        first = -whole.ctypes.data % ALIGNED
        self.host, self.reader = whole[first : first + size].view(dtype).reshape(shape), None
        self.numbers = np.empty(shape[1:], np.float32)

    def fill(self, place: int, noise: Any, client: int, steps: Any) -> None:
        """Draw the noise of one client."""
        if self.reader is not None:
            self.reader.block_until_ready()
            self.reader = None
        whole = self.host[place, : len(steps)]
        exact = whole.dtype == np.float32
        numbers = noise.draw(client, steps, whole.shape[1], whole if exact else self.numbers[: len(steps)])
        if not exact:
            whole[:] = numbers

    @property
    def device(self) -> Any:
        """What a program takes."""
        return jax.dlpack.from_dlpack(self.host) if jax.default_backend() == "cpu" else self.host.copy()


class JaxBackend:
    """Training of networks and of pairs, gradients and evaluation in JAX.

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

    def __init__(self, *, dtype: Any = "float32", memory: Any = None) -> None:
        self.dtype = np.dtype(choice("dtype", dtype, ("float32", "float64")))
        if jax is None:
            raise ImportError("JaxBackend needs JAX: pip install 'borrowed-strength[learn]'")
        self.together = jax.default_backend() != "cpu"
        usual = 2**32 if self.together else 2**26
        self.memory = usual if memory is None else index("memory", memory, 1)
        fixed = {trained: (0, 1, 2, 3, 4), scored: (0, 1), mean_loss: (0,), gradients_of: (0,)}
        self._programs = {function: jax.jit(function, static_argnums=first) for function, first in fixed.items()}

    def _run(self, function, *arguments):
        """Call a compiled function in this backend's precision, on accelerators too; what it returns stays on the device."""
        with jax.enable_x64(self.dtype == np.float64), jax.default_matmul_precision("highest"):
            return self._programs[function](*arguments)

    def prepare(self, model: Model, clients: Any) -> ClientArrays:
        """Checked data of all clients, on the device; see `Backend`."""
        data = client_arrays(model, clients, dtype=self.dtype)
        with jax.enable_x64(self.dtype == np.float64):
            return replace(data, x=jnp.asarray(data.x), y=jnp.asarray(data.y))

    def initialise(self, model: Model, generator: np.random.Generator) -> Any:
        """First parameters (P,); see `Backend`."""
        return model.initialise(generator)

    def loss(self, model: Model, parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        """Mean loss; see `Backend`."""
        return float(self._run(mean_loss, model, *self._checked(model, parameters, x, y)))

    def example_gradients(self, model: Model, parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
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
        numbers += sum(dropped(model))
        return max(1, self.memory // (self.dtype.itemsize * (2 * rows * numbers + copies * model.n_parameters)))

    def local_sgd(
        self,
        model: Model,
        starts: Any,
        data: Any,
        schedule: Schedule,
        *,
        learning_rate: Any,
        pull: Any = None,
        clip: Any = None,
        noise: Any = None,
    ) -> np.ndarray:
        """Parameters (C, P) after local SGD; see `Backend`."""
        how = local_training(model, starts, data, schedule, learning_rate=learning_rate, pull=pull, clip=clip, noise=noise)
        scale = how.multiplier * np.where(how.multiplier > 0, how.clip, 0)
        settings = how.rate, how.lam, how.anchors, how.clip, scale
        form = clip is not None, bool(how.lam.any())
        work = Training(one_step, form, (how.starts,), settings, noise, scale != 0, model.n_parameters)
        return self._train(model, work, data, schedule)[0]

    def local_pairs(
        self, model: Model, own: Any, common: Any, psi: Any, data: Any, schedule: Schedule, *, step: Any, noise: Any = None
    ) -> Pairs:
        """`Pairs` after their training; see `Backend`."""
        start, z = checked_pairs(model, own, common, psi, data, schedule, step=step, noise=noise)
        C, copied, learned = len(schedule.clients), any(step.rates[1:]), step.rates[2] > 0
        scales = [z * clip if z else 0.0 for clip in (step.clips[0], step.clips[not step.joint])]
        values = step.rates, step.own, step.common, step.floor, step.clips, scales, step.weight_decay
        settings = tuple(np.broadcast_to(value, (C, *np.shape(value))) for value in values)
        largest = np.minimum(start.psi, np.finfo(self.dtype).max)
        noisy = np.full(C, z > 0 and copied)
        form = step.mutual, step.joint, copied, learned, step.weight_decay > 0
        work = Training(pair_step, form, (*start[:2], largest), settings, noise, noisy, model.n_parameters + 1)
        own, common, psi = self._train(model, work, data, schedule)
        moved = learned & (schedule.steps > 0)  # only this psi is rounded to the backend's precision
        return Pairs(own, common, np.where(moved, np.maximum(psi.astype(float), step.floor), start.psi))

    def _train(self, model, work, data, schedule):
        """Arrays like the starts of `work`, after the steps of the schedule."""
        copies = 4 * work.networks + AHEAD * (work.noise is not None)
        order, failed = np.argsort(-schedule.steps, kind="stable"), np.full(len(schedule.clients), -1)
        ends = [np.empty(part.shape, self.dtype) for part in work.starts]
        for group in alike(order, schedule.steps) if self.together else [order]:  # those with many steps together
            most = longest(schedule.weights[group]) if self.together else schedule.indices.shape[2]
            width = min(self._fitting(model, work.networks * bucket(most), copies), bucket(len(group)))
            for chunk in (group[first : first + width] for first in range(0, len(group), width)):
                found, failed[chunk] = self._train_chunk(model, work, data, schedule, chunk, width)
                for end, part in zip(ends, found, strict=True):
                    end[chunk] = part
        if (failed >= 0).any():
            i = int(np.argmax(failed >= 0))
            raise Diverged(int(schedule.clients[i]), int(failed[i]))
        return ends

    def _train_chunk(self, model, work, data, schedule, chunk, width):
        """What some rows of the schedule end with, and their first step (n,) that is not finite, or -1."""
        steps, clients = schedule.steps[chunk], schedule.clients[chunk]
        last = int(steps.max(initial=0))
        weights = schedule.weights[chunk, :last] * (np.arange(last) < steps[:, None])[..., None]
        batch = longest(weights)

        def filled(part, *shape, value=0, dtype: Any = self.dtype):
            whole = np.full(shape, value, dtype)
            whole[tuple(map(slice, part.shape))] = part
            return whole

        rows = np.where(weights > 0, schedule.indices[chunk, :last], 0) + data.first[clients][:, None, None]
        shape = width, bucket(last)
        batches = [
            filled(rows[:, :, :batch], *shape, bucket(batch), dtype=np.int32),
            filled(weights[:, :, :batch], *shape, bucket(batch)),
            filled(schedule.divisors[chunk, :last], *shape, value=1),
            *([filled(schedule.keys[chunk, :last], *shape, 2, dtype=np.uint32)] if model.dropout else []),
            filled(steps, width, dtype=np.int32),
        ]
        starts, settings = (
            tuple(filled(part[chunk], width, *part.shape[1:], value=1) for part in parts)
            for parts in (work.starts, work.settings)
        )
        state = starts, np.full(width, -1, np.int32)
        noisy = bool(work.noisy[chunk].any())
        ahead = AHEAD if noisy else bucket(last)
        rooms = [Room((width, ahead, work.numbers), self.dtype) for _ in range(2)] if noisy else []
        normals, who = np.zeros((width, 1, 1), self.dtype), np.flatnonzero(work.noisy[chunk])
        for number, first in enumerate(range(0, last, ahead)):
            stop = min(first + ahead, last)
            if noisy:
                room = rooms[number % 2]
                for i in who:
                    room.fill(int(i), work.noise, int(clients[i]), range(first, stop))
                normals = room.device
            arguments = data.x, data.y, batches, settings, normals, first, stop
            state = self._run(trained, work.step, model, work.form, noisy, self.together, state, *arguments)
            if noisy:
                rooms[number % 2].reader = state[1]
        ends, failed = state
        return [np.asarray(part)[: len(chunk)] for part in ends], np.asarray(failed)[: len(chunk)]

    def scores(self, model: Model, parameters: np.ndarray, data: Any) -> np.ndarray:
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

    def evaluate(self, model: Model, parameters: np.ndarray, data: Any) -> Evaluation:
        """Loss and accuracy of each client; see `Backend`."""
        scores = self.scores(model, parameters, data).astype(float)
        order = np.concatenate([np.arange(n) + first for first, n in zip(data.first, data.sizes, strict=True)])
        y, starts = np.asarray(data.y)[order], np.cumsum(data.sizes) - data.sizes
        predicted = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
        each = losses(model, scores, y)[0], predicted == y
        loss, hit = (np.add.reduceat(part.astype(float), starts) / data.sizes for part in each)
        return Evaluation(loss, hit if model.n_classes else None)
