"""Who trains on which examples in which step, and the streams of the noise, chosen before any backend computes.

Everything is a function of (seed, round, client, step), so that neither the backend, the number of workers, the way clients
are cut into chunks nor a resume leaves a trace.

Belongs here: `Schedule` with its keys of dropout, ways to make one, `GaussianNoise`.  Does not belong here: gradients
(backends), what is left out by a key (``dropout``), privacy accounting (``estimators.accounting.privacy``,
``estimators.accounting.budget``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray  # by this name `typed` tells it

from estimators.federated.dropout import threefry
from estimators.federated.kinds import typed
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import count, index, nonnegative, positive

__all__ = ["GaussianNoise", "Schedule", "epochs", "fixed_batches", "poisson_batches", "stream"]

BATCHES, NOISE, DROPOUT = 0, 1, 5


def sequence(seed: int, purpose: int, *position: Any) -> np.random.SeedSequence:
    """Seeds of one purpose at one position (round, client, ...); different arguments, independent seeds."""
    keys = tuple(index("position", key, 0, 2**32 - 1) for key in (purpose, *position))
    return np.random.SeedSequence(index("seed", seed, 0, 2**64 - 1), spawn_key=keys)


@typed
def stream(seed: int, purpose: int, *position: Any) -> np.random.Generator:
    """Generator of one purpose at one position (round, client, ...); different arguments, independent streams.

    >>> stream(1, 0, 2, 3).random() == stream(1, 0, 2, 3).random() != stream(1, 0, 3, 2).random()
    True
    """
    return np.random.Generator(np.random.SFC64(sequence(seed, purpose, *position)))


@dataclass(frozen=True, eq=False)
class Schedule:
    """Batches of the local steps of C clients in one round.

    Step s of row i moves along the gradient sum_j weights[i, s, j] g(indices[i, s, j]) / divisors[i, s] of the client
    clients[i]; a batch may be empty.

    Parameters
    ----------
    clients : array (C,) of whole numbers, positions in the list of all clients.
    indices : array (C, S, B) of whole numbers, rows of a client's data.
    weights : array (C, S, B) >= 0; 0 marks filling.
    divisors : array (C, S) > 0; with differential privacy a number that does not depend on the draw.
    steps : array (C,) of whole numbers <= S, how many steps each client takes.
    keys : array (C, S, 2) of uint32, keys of each step's dropout (``dropout.factors``), from `keyed`; None: models with
        dropout cannot be trained.

    >>> Schedule([0], [[[2, 0]]], [[[1.0, 0.5]]], [[2.0]], [1]).indices.shape
    (1, 1, 2)
    """

    clients: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    divisors: np.ndarray
    steps: np.ndarray
    keys: Any = None

    def __post_init__(self):
        whole = {name: count(name, getattr(self, name), 0).astype(np.int64) for name in ("clients", "indices", "steps")}
        weights, divisors = nonnegative("weights", self.weights), nonnegative("divisors", self.divisors)
        shape = whole["indices"].shape
        if len(shape) != 3 or weights.shape != shape or divisors.shape != shape[:2]:
            raise ValueError(
                "indices and weights must have shape (C, S, B) and divisors (C, S), "
                f"got {shape}, {weights.shape} and {divisors.shape}"
            )
        if whole["clients"].shape != shape[:1] or whole["steps"].shape != shape[:1]:
            raise ValueError(f"clients and steps must have one entry for each of the {shape[0]} rows of indices")
        if (divisors == 0).any():
            raise ValueError("divisors must be > 0")
        if (whole["steps"] > shape[1]).any():
            raise ValueError(f"steps must be at most {shape[1]}, the length of indices' second axis")
        if self.keys is not None:
            keys = np.asarray(self.keys)
            if keys.shape != (*shape[:2], 2) or keys.dtype != np.uint32:
                raise ValueError(
                    f"keys must be an array of uint32 of shape {(*shape[:2], 2)}, got {keys.dtype} of {keys.shape}"
                )
            object.__setattr__(self, "keys", keys)
        for name, array in {**whole, "weights": weights, "divisors": divisors}.items():
            object.__setattr__(self, name, array)

    @typed
    def keyed(self, seed: int, round: int) -> Schedule:
        """The same schedule with keys of dropout: a function of seed, round, client and step.

        >>> Schedule([4], [[[0]]], [[[1.0]]], [[1.0]], [1]).keyed(0, 3).keys.tolist()
        [[[1278477178, 1874439016]]]
        """
        words = sequence(seed, DROPOUT, index("round", round, 0, 2**32 - 1)).generate_state(2, np.uint32)
        places = self.clients[:, None], np.arange(self.indices.shape[1])[None, :]
        counter = np.broadcast_arrays(*(place.astype(np.uint32) for place in places))
        return replace(self, keys=np.stack(threefry((words[0], words[1]), (counter[0], counter[1])), axis=-1))

    @typed
    def rows(self, chosen: np.ndarray) -> Schedule:
        """Schedule of some rows only.

        >>> Schedule([4, 7], np.zeros((2, 1, 1)), np.ones((2, 1, 1)), np.ones((2, 1)), [1, 1]).rows([1]).clients.tolist()
        [7]
        """
        chosen = np.arange(len(self.clients))[chosen] if isinstance(chosen, slice) else np.asarray(chosen)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iub":
            raise ValueError("chosen must be positions of rows, or True and False for each row")
        parts: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return replace(self, **{name: part[chosen] for name, part in parts.items() if part is not None})

    @typed
    def step(self, number: int, times: int = 1) -> Schedule:
        """Schedule of one step only, taken so many times in a row; clients without such a step take none.

        >>> s = Schedule([4, 7], [[[5], [6]], [[8], [0]]], np.ones((2, 2, 1)), np.ones((2, 2)), [2, 1]).step(1, times=3)
        >>> s.indices[0].tolist(), s.steps.tolist()
        ([[6], [6], [6]], [3, 0])
        """
        number, times = index("number", number, 0, self.indices.shape[1] - 1), index("times", times, 0)
        parts = {name: getattr(self, name) for name in ("indices", "weights", "divisors", "keys")}
        batches = {k: None if part is None else np.repeat(part[:, [number]], times, axis=1) for k, part in parts.items()}
        return replace(self, **batches, steps=np.where(self.steps > number, times, 0))


def drawn(sizes: ArrayLike, clients: ArrayLike | None, batches: Callable[..., Any], *, seed: int, round: int) -> Schedule:
    """Schedule of `batches(generator, n, client)`, which gives a list of index arrays and one divisor per step."""
    sizes, round = count("sizes", sizes, 0).astype(np.int64), index("round", round, 0, 2**32 - 1)
    if sizes.ndim != 1:
        raise ValueError(f"sizes must be a list with the rows of each client, got shape {sizes.shape}")
    clients = np.arange(len(sizes)) if clients is None else np.atleast_1d(count("clients", clients, 0))
    if (clients >= len(sizes)).any():
        raise ValueError(f"clients must be positions below {len(sizes)}, the number of sizes, got {clients.max():g}")
    clients = clients.astype(np.int64)
    chosen = []
    for client in clients:
        if sizes[client] == 0:
            raise ValueError(f"client {client} has no data; leave it out of clients")
        chosen.append(batches(stream(seed, BATCHES, round, client), int(sizes[client]), client))
    most = max((len(batch) for lists, _ in chosen for batch in lists), default=0)
    steps = np.array([len(lists) for lists, _ in chosen], dtype=np.int64)
    shape = (len(clients), steps.max(initial=0), most)
    indices, weights, divisors = np.zeros(shape, np.int64), np.zeros(shape), np.ones(shape[:2])
    for i, (lists, by) in enumerate(chosen):
        divisors[i, : len(lists)] = by
        for s, batch in enumerate(lists):
            indices[i, s, : len(batch)] = batch
            weights[i, s, : len(batch)] = 1
    return Schedule(clients, indices, weights, divisors, steps)


def each(name: str, value: ArrayLike, sizes: ArrayLike, minimum: int) -> np.ndarray:
    """Return a whole number per client from one for all or one for each."""
    value, K = count(name, value, minimum).astype(np.int64), len(np.atleast_1d(sizes))
    if value.ndim > 1 or (value.ndim == 1 and len(value) != K):
        raise ValueError(f"{name} must be a whole number or have one entry for each of the {K} clients, has {value.shape}")
    return np.broadcast_to(value, K)


@typed
def epochs(
    sizes: ArrayLike, *, n_epochs: ArrayLike, batch_size: ArrayLike, seed: int, round: int, clients: ArrayLike | None = None
) -> Schedule:
    """Schedule of passes over the data, freshly shuffled in each; the last batch of a pass may be smaller.

    Parameters
    ----------
    sizes : array (K,) of whole numbers, examples of each client.
    n_epochs : whole number >= 0; batch_size : whole number >= 1; each one number for all clients, or an array (K,).
    seed, round : whole numbers >= 0.
    clients : array (C,) of positions in `sizes`, None for all.

    >>> epochs([5], n_epochs=1, batch_size=2, seed=0, round=0).divisors.tolist()
    [[2.0, 2.0, 1.0]]
    """
    n_epochs, batch_size = each("n_epochs", n_epochs, sizes, 0), each("batch_size", batch_size, sizes, 1)

    def batches(generator, n, client):
        b = batch_size[client]
        orders = [generator.permutation(n) for _ in range(n_epochs[client])]
        lists = [order[start : start + b] for order in orders for start in range(0, n, b)]
        return lists, [len(batch) for batch in lists]

    return drawn(sizes, clients, batches, seed=seed, round=round)


@typed
def fixed_batches(
    sizes: ArrayLike, *, n_steps: ArrayLike, batch_size: ArrayLike, seed: int, round: int, clients: ArrayLike | None = None
) -> Schedule:
    """Schedule of batches of fixed size, each drawn without replacement and apart from the others.

    A client with fewer than `batch_size` examples uses all of them in every step.

    Parameters
    ----------
    n_steps : whole number >= 0; batch_size : whole number >= 1; each one number or (K,); the others as in `epochs`.

    >>> fixed_batches([5, 1], n_steps=3, batch_size=2, seed=0, round=0).weights.sum(axis=2).tolist()
    [[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]
    """
    n_steps, batch_size = each("n_steps", n_steps, sizes, 0), each("batch_size", batch_size, sizes, 1)

    def batches(generator, n, client):
        b, steps = min(batch_size[client], n), np.arange(int(n_steps[client]))
        order = np.tile(np.arange(n), (len(steps), 1))
        for t in range(b):  # the first b swaps of a shuffle, for all steps at once
            other = generator.integers(t, n, len(steps))
            order[steps, t], order[steps, other] = order[steps, other], order[steps, t]
        return list(order[:, :b]), b

    return drawn(sizes, clients, batches, seed=seed, round=round)


@typed
def poisson_batches(
    sizes: ArrayLike, *, n_steps: ArrayLike, batch_size: ArrayLike, seed: int, round: int, clients: ArrayLike | None = None
) -> Schedule:
    """Schedule of batches into which every example comes by itself with probability batch_size / n.

    Sums are divided by the expected size `batch_size`, whatever the draw; a batch may be empty.

    Parameters
    ----------
    n_steps : whole number >= 0; batch_size : number > 0, at most the examples of each client; each one number or (K,).
        The others as in `epochs`.

    >>> poisson_batches([4], n_steps=1, batch_size=4, seed=0, round=0).indices.tolist()
    [[[0, 1, 2, 3]]]
    """
    n_steps = each("n_steps", n_steps, sizes, 0)
    batch_size = np.broadcast_to(positive("batch_size", batch_size), len(n_steps))

    def batches(generator, n, client):
        b = float(batch_size[client])
        if b > n:
            raise ValueError(f"batch_size must be at most the examples of each client; client {client} has {n}, not {b:g}")
        return [np.flatnonzero(generator.random(n) < b / n) for _ in range(n_steps[client])], b

    return drawn(sizes, clients, batches, seed=seed, round=round)


@lru_cache(maxsize=256)
def noise_key(seed: int, round: int, client: int) -> Any:
    """Key (4,) of a client's noise in one round, of which a backend draws some steps at a time."""
    return sequence(seed, NOISE, round, client).generate_state(4, np.uint64)


@dataclass(frozen=True, eq=False)
class GaussianNoise:
    """Noise of DP-SGD: normal with standard deviation multiplier times clipping norm, on the sum of clipped gradients.

    Parameters
    ----------
    multiplier : number >= 0, or array (C,) with one for each row of the schedule; seed, round : whole numbers >= 0.

    >>> noise = GaussianNoise(1.1, seed=0, round=2)
    >>> bool((noise.draw(5, range(2), 3)[1] == noise.draw(5, [1], 3)[0]).all())
    True
    """

    multiplier: float
    seed: int
    round: int

    def __post_init__(self):
        object.__setattr__(self, "multiplier", nonnegative("multiplier", self.multiplier))

    @typed
    def draw(self, client: int, steps: Iterable[int], size: int, out: ndarray | None = None) -> np.ndarray:
        """Standard normal numbers (steps, size) of float32, one row for each of the range `steps` of one client.

        They are written to `out` of that shape and type, if it is given.
        """
        from estimators.federated import noise_kernels

        place = index("seed", self.seed, 0, 2**64 - 1), index("round", self.round, 0, 2**32 - 1)
        key = noise_key(*place, index("client", client, 0, 2**32 - 1))
        for step in (*steps[:1], *steps[-1:]) if isinstance(steps, range) else steps:  # the ends of a range are enough
            index("steps", step, 0, 2**32 - 1)
        steps = np.array([*steps], np.int64)
        shape = len(steps), index("size", size, 0)
        numbers = np.empty(shape, np.float32) if out is None else out
        if numbers.shape != shape or numbers.dtype != np.float32:
            raise ValueError(f"out must be an array of float32 of shape {shape}, got {numbers.dtype} of {numbers.shape}")
        noise_kernels.normals(key, steps, numbers)
        return numbers
