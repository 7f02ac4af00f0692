"""A federation with a model, a backend and a rule for batches: all that algorithms ask for, and measures of models.

`Terms` are what everybody knows, the server too; a `Task` has the clients' rows as well.  Where a privacy plan is in force
(``Task.metered``), everything that reads rows tells its meter first.

Every random choice is a function of (seed, purpose, round, client), so a training that stops and resumes, and any number of
workers, gives the same bits.

Belongs here: `Terms`, `Task`, choice of participants, the releases that are counted, evaluation.  Does not belong here:
algorithms (``algorithms``), the loop over rounds (``training``), what may be released (``plans``) and with how much noise
(``privacy``).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting.mechanisms import exponential_choice
from estimators.federated import schedule as schedules
from estimators.federated.backend import Evaluation
from estimators.federated.data import Federation
from estimators.federated.kinds import typed
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.own_rows import Shards
from estimators.federated.predictions import Mixture, evaluate_mixture
from estimators.federated.schedule import GaussianNoise, stream
from estimators.numerics import validation
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import choice, count, index, nonnegative, number, probability, real, single

if TYPE_CHECKING:
    from estimators.federated.backend import Backend, ClientArrays
    from estimators.federated.models import Model
    from estimators.federated.schedule import Schedule

__all__ = ["Task", "Terms", "summaries", "weighted_sum"]

RULES = {"epochs": schedules.epochs, "fixed": schedules.fixed_batches, "poisson": schedules.poisson_batches}
START, PARTICIPANTS, SERVER, CHOICES = 2, 3, 4, 41  # purposes of streams; ``schedule`` has 0 and 1
STAGES = 16


@typed
def weighted_sum(weights: np.ndarray, rows: np.ndarray) -> Any:
    """Sum_c weights[c] rows[c], added in the order of the rows, without BLAS: same bits for any number of threads.

    >>> weighted_sum([0.5, 0.5], np.array([[1.0, 3.0], [3.0, 5.0]])).tolist()
    [2.0, 4.0]
    """
    weights = number("weights", weights)
    rows = rows if isinstance(rows, np.ndarray) else real("rows", rows)
    if weights.ndim != 1 or rows.shape[:1] != weights.shape:
        raise ValueError(f"weights must have one entry for each row, got shapes {weights.shape} and {rows.shape}")
    return np.einsum("c,c...->...", weights, rows)


class Terms:
    """What everybody knows of a federation: model, numbers of rows, work, seed, groups; no rows.

    The server's part of an algorithm gets these and nothing else.

    Parameters
    ----------
    model, work, seed, backend, groups : as in `Task`, checked there; sizes : array (K,) of training rows.
    """

    meter: Any = None  # a ``plans.Meter``, where releases are counted

    @typed
    def __init__(
        self,
        model: Model,
        sizes: np.ndarray,
        *,
        work: Mapping[str, Any],
        seed: int,
        backend: Backend,
        groups: Mapping[str, Any],
    ) -> None:
        self.model, self.sizes, self.work, self.seed = model, sizes, dict(work), seed
        self.backend, self.groups = backend, dict(groups)

    @property
    def n_clients(self) -> int:
        """Number K of clients."""
        return len(self.sizes)

    @property
    def weight_decay(self) -> float:
        """Weight decay d of the work, 0 where it has none."""
        return self.work.get("weight_decay", 0.0)

    @typed
    def initial(self, index: int = 0) -> np.ndarray:
        """First parameters (P,); another `index`, other parameters."""
        position = validation.index("index", index, 0, 2**32 - 1)
        return self.backend.initialise(self.model, stream(self.seed, START, position))

    @typed
    def participants(self, t: int, *, rate: float | None = None, number: int | None = None) -> np.ndarray:
        """Positions of the clients of round t, increasing: each by itself with probability `rate`, or `number` of them.

        Neither given: all.  With `rate` the result may be empty.
        """
        generator, K = stream(self.seed, PARTICIPANTS, t), self.n_clients
        if rate is not None and number is not None:
            raise ValueError("give rate (each client by itself) or number (so many), not both")
        if rate is not None:
            return np.flatnonzero(generator.random(K) < single(probability, "rate", rate))
        if number is not None:
            return np.sort(generator.permutation(K)[: index("number", number, 1, K)])
        return np.arange(K)

    @typed
    def schedule(self, t: int, clients: ArrayLike | None = None, *, stage: int = 0, **changes: Any) -> Schedule:
        """`Schedule` of some clients in round t; algorithms that train twice in a round do so in several stages 0..15."""
        work = {name: value for name, value in self.work.items() if name != "weight_decay"} | changes
        rule = RULES[work.pop("rule")]
        round = index("t", t, 0) * STAGES + index("stage", stage, 0, STAGES - 1)
        steps = rule(self.sizes, seed=self.seed, round=round, clients=clients, **work)
        return steps.keyed(self.seed, round) if self.model.dropout else steps

    @typed
    def noise(self, t: int, multiplier: Any, *, stage: int = 0) -> GaussianNoise:
        """`GaussianNoise` of local DP-SGD in round t, with the multipliers of the schedule's clients."""
        return GaussianNoise(multiplier, seed=self.seed, round=t * STAGES + stage)

    @typed
    def server_noise(self, t: int, size: Any, *, stage: int = 0) -> Any:
        """Standard normal numbers of the server in round t."""
        return stream(self.seed, SERVER, t, stage).standard_normal(size)

    @typed
    def noisy(
        self, rows: np.ndarray, t: int, *, what: str, clients: np.ndarray, sensitivity: float, multiplier: float, stage: int,
        weights: np.ndarray | None = None,
    ) -> Any:  # fmt: skip
        """A sum over clients with the server's Gaussian noise of standard deviation multiplier times sensitivity.

        Parameters
        ----------
        rows : array (C,) or (C, P), what each client that takes part sent; weights : (C,) its factor in the sum, None: 1.
        t : round; what : "sum" or "count", the kind of release; clients : whose data may be in it, in this round or not.
        sensitivity : number > 0, the most that one client may add; multiplier : number >= 0; stage : 0..15, another one
            for each release of a round.

        Raises
        ------
        PlanBroken
            If a release is not in the plan, or a client adds more than the sensitivity, before anything is added.
        """
        weights = np.ones(len(rows)) if weights is None else weights
        if self.meter is not None:
            flat = rows.reshape(len(rows), rows.size // max(len(rows), 1))  # there may be none
            norms = np.abs(weights) * np.sqrt(np.einsum("cp,cp->c", flat, flat))
            self.meter.noisy(what, clients, parts=norms, sensitivity=sensitivity, multiplier=multiplier, stage=stage)
        total = weighted_sum(weights, rows)
        return total + multiplier * sensitivity * self.server_noise(t, np.shape(total), stage=stage)


class Task(Terms):
    """What is learned, by whom, from which batches.

    Parameters
    ----------
    federation : Federation, its rows flat and scaled, also images (``federation.scaled(flat=True)``).
    model : Model of ``models``.
    work : dict, how a client's batches of one round are made: ``rule`` is "epochs", "fixed" or "poisson", the rest are the
        arguments of ``schedule.epochs`` (n_epochs, batch_size), ``fixed_batches`` or ``poisson_batches`` (n_steps,
        batch_size); numbers, or arrays (K,).  The last two take n_epochs too: as many steps as make so many passes on
        average.  Batches are no larger than a client's rows.  With any rule weight_decay, number >= 0 (default 0): every
        step of `train` and `train_pairs` takes learning rate times weight_decay off the parameters besides, as if
        weight_decay |w|^2 / 2 were part of each example's loss, but for clipping and noise: it uses no data.
    seed : whole number >= 0.
    backend : Backend; None: ``NumpyBackend()``.
    groups : dict from name to positions of clients, whose measures are reported too.

    Attributes
    ----------
    sizes : array (K,) of training rows; n_clients : K; data, test, server_test : what the backend's `prepare` made of them.

    Raises
    ------
    ValueError
        Naming what is wrong in the settings or in the data of which client.

    >>> from estimators.federated.data import synthetic_federation
    >>> from estimators.federated.models import logistic_regression
    >>> clients = synthetic_federation(clients=4, rows=20, seed=1)
    >>> work = {"rule": "epochs", "n_epochs": 1, "batch_size": 5}
    >>> task = Task(clients, logistic_regression(10, clients.classes), work=work, seed=0)
    >>> task.train(task.initial(), 0, learning_rate=0.1).shape == (4, task.model.n_parameters)
    True
    """

    origin: Task | None = None

    @typed
    def __init__(
        self,
        federation: Federation,
        model: Model,
        *,
        work: Mapping[str, Any],
        seed: int,
        backend: Backend | None = None,
        groups: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(federation, Federation):
            raise ValueError(f"federation must be a Federation, got {type(federation).__name__}")
        if "rule" not in work:
            raise ValueError(f"work must name its rule, one of {', '.join(RULES)}")
        choice("work's rule", work["rule"], RULES)
        super().__init__(
            model,
            federation.sizes,
            work=resolved(work, federation.sizes),
            seed=index("seed", seed, 0, 2**63 - 1),
            backend=NumpyBackend() if backend is None else backend,
            groups={name: np.asarray(members, dtype=np.int64) for name, members in (groups or {}).items()},
        )
        self.whole = federation
        for name, members in self.groups.items():
            if members.size == 0 or members.min() < 0 or members.max() >= len(federation):
                raise ValueError(f"group {name!r} must name at least one client, by positions below {len(federation)}")
        self.rows = self.backend.prepare(model, [(client.x, client.y) for client in federation])

    @property
    def federation(self) -> Federation:
        """The federation with its rows."""
        self.reading()
        return self.whole

    @property
    def data(self) -> ClientArrays:
        """Training rows of all clients."""
        self.reading()
        return self.rows

    @data.setter
    def data(self, rows: ClientArrays) -> None:
        self.rows = rows

    def reading(self) -> None:
        """Tell the meter, if there is one, that rows are read outside of a release."""
        if self.meter is not None:
            self.meter.raw()

    @property
    def terms(self) -> Terms:
        """What the server knows."""
        found = Terms(self.model, self.sizes, work=self.work, seed=self.seed, backend=self.backend, groups=self.groups)
        found.meter = self.meter
        return found

    @typed
    def metered(self, meter: Any) -> Task:
        """The same task, whose releases a meter counts."""
        view = copy(self)
        view.meter, view.origin = meter, self.bare
        return view

    @property
    def bare(self) -> Task:
        """The task itself, whose releases nobody counts."""
        return self if self.origin is None else self.origin

    @cached_property
    def tested(self) -> np.ndarray:
        """Positions of the clients that have test rows."""
        return np.flatnonzero([len(rows) > 0 for rows in self.whole.test])

    @cached_property
    def test(self) -> ClientArrays | None:
        """Test data of the clients `tested`, None if there are none."""
        clients = [self.whole.client(k) for k in self.tested.tolist()]
        return self.backend.prepare(self.model, [(c.test_x, c.test_y) for c in clients]) if clients else None

    @cached_property
    def server_test(self) -> ClientArrays | None:
        """The server's own test data as one client, None if it has none."""
        rows, pool = self.whole.server_test, self.whole
        return self.backend.prepare(self.model, [(pool.x[rows], pool.y[rows])]) if len(rows) else None

    @typed
    def train(
        self,
        starts: np.ndarray,
        t: int,
        *,
        learning_rate: ArrayLike,
        clients: ArrayLike | None = None,
        stage: int = 0,
        steps: Schedule | None = None,
        pull: tuple[Any, Any] | None = None,
        clip: float | None = None,
        multiplier: Any = None,
        batches: Mapping[str, Any] | None = None,
    ) -> np.ndarray:
        """Parameters (C, P) after the local training of some clients in round t.

        Parameters
        ----------
        starts : array (P,) or (C, P); t : whole number >= 0, the round; learning_rate : number or (C,).
        clients : positions (C,), None for all; stage : as in `schedule`.
        steps : Schedule; None: ``self.schedule(t, clients, stage=stage, **batches)``.
        pull : pair of lam and anchors, as in ``Backend.local_sgd``; clip : number or (C,) for single examples' gradients.
        multiplier : number or (C,), noise of DP-SGD in units of clip; None or all 0: none.
        batches : dict of changes to the work's settings.

        Raises `Diverged` naming the client.
        """
        if self.meter is not None:
            own = steps is not None or bool(batches)
            who = np.arange(self.n_clients) if clients is None else np.asarray(clients)
            who = who if steps is None else steps.clients
            self.meter.training(who, clip=clip, multiplier=multiplier, stage=stage, own_batches=own)
        steps = self.schedule(t, clients, stage=stage, **(batches or {})) if steps is None else steps
        noisy = multiplier is not None and bool(np.any(nonnegative("multiplier", multiplier)))
        noise = self.noise(t, multiplier, stage=stage) if noisy else None
        pull = with_decay(pull, self.weight_decay, (len(steps.clients), self.model.n_parameters))
        return self.backend.local_sgd(
            self.model, starts, self.rows, steps, learning_rate=learning_rate, pull=pull, clip=clip, noise=noise
        )

    @typed
    def train_pairs(self, schedule: Schedule, step: Any, *, noise: GaussianNoise | None = None, **pairs: Any) -> Any:
        """``Pairs`` of networks after the schedule's steps, as in ``Backend.local_pairs``, with the work's weight decay."""
        if self.weight_decay > 0:
            step = replace(step, weight_decay=self.weight_decay)
        if self.meter is not None and step.rates[1] > 0:  # only the common copy leaves its client
            multiplier = 0.0 if noise is None else noise.multiplier
            self.meter.steps(schedule.clients, schedule.steps, multiplier=multiplier)
        return self.backend.local_pairs(self.model, data=self.rows, schedule=schedule, step=step, noise=noise, **pairs)

    @typed
    def choose(self, t: int, scores: Any, clients: np.ndarray, *, eps: np.ndarray, sensitivity: float) -> np.ndarray:
        """Position (C,) of each client's choice: the highest score, by the exponential mechanism where its eps is finite.

        Parameters
        ----------
        t : round; scores : function from the clients' rows (``ClientArrays``) to scores (C, choices), in which a row adds
            at most `sensitivity`; clients : positions (C,); eps : array (C,), of one choice, inf for no privacy.
        """
        private = np.flatnonzero(np.isfinite(eps))
        if self.meter is not None:
            self.meter.choice(clients[private], eps[private])
        found = scores(self.rows.take(clients))
        chosen = found.argmax(axis=1)
        for i in private:
            rng = stream(self.seed, CHOICES, t, int(clients[i]))
            chosen[i] = exponential_choice(found[i], eps=float(eps[i]), sensitivity=sensitivity, rng=rng)
        return chosen

    @typed
    def evaluate(self, parameters: Any, where: str = "test") -> Evaluation:
        """`Evaluation` of parameters (P,) or (K, P) or of a `Mixture`.

        Rows are clients' own ("test" of the clients `tested`, or "data") or, for parameters (P,), the "server_test".
        """
        data = getattr(self, choice("where", where, ("test", "data", "server_test")))
        if data is None:
            raise ValueError(
                f"{self.federation.name} has no rows for {where}; split some off, as `Examples.split_test` does"
            )
        if isinstance(parameters, Mixture):
            own = parameters.take(self.tested) if where == "test" else parameters
            return evaluate_mixture(self.backend, self.model, own, data)
        if isinstance(parameters, Shards):
            clients = self.tested if where == "test" else np.arange(self.n_clients)
            parts = [self.backend.evaluate(self.model, own, data.take(at)) for at, own in parameters.of(clients)]
            loss, right = zip(*parts, strict=True)
            return Evaluation(np.concatenate(loss), None if right[0] is None else np.concatenate(right))
        if where == "test" and np.ndim(parameters) == 2 and len(parameters) == self.n_clients:
            parameters = parameters[self.tested]
        return self.backend.evaluate(self.model, parameters, data)

    @typed
    def measure(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """Measures of learned models, as a flat dict of numbers.

        Parameters
        ----------
        models : dict from a name, usually "shared" or "personal", to parameters (P,) or (K, P) or a `Mixture`.

        Returns
        -------
        dict with keys NAME.WHERE.WHAT: WHERE is "server" (only for (P,), the server's test rows), "clients" (mean over
        clients of each client's own measure), "spread" (variance over clients), "rows" (mean over all test rows) or the name
        of a group, alone or with "-spread"; WHAT is "loss" and "accuracy", or "mse" for regression.
        """
        found = {}
        for name, parameters in models.items():
            one = not isinstance(parameters, Mixture) and np.ndim(parameters) == 1
            if self.server_test is not None and one:
                found |= _values(f"{name}.server", self.evaluate(parameters, "server_test"), np.mean)
            if self.test is not None:
                result = self.evaluate(parameters)
                found |= summaries(name, result, sizes=self.test.sizes, tested=self.tested, groups=self.groups)
        return found


@typed
def summaries(
    name: str, result: Evaluation, *, sizes: np.ndarray, tested: np.ndarray, groups: Mapping[str, Any]
) -> dict[str, float]:
    """Measures of one kind of model over clients, and over those of each group; keys as in ``Task.measure``.

    Parameters
    ----------
    name : kind of model; result : of the clients `tested`, positions; sizes : their test rows; groups : as in `Task`.
    """
    rows = sizes / sizes.sum()
    found = _values(f"{name}.clients", result, np.mean) | _values(f"{name}.spread", result, np.var)
    found |= _values(f"{name}.rows", result, lambda v: v @ rows)
    for group, members in groups.items():
        own = np.isin(tested, members)
        if own.any():
            found |= _values(f"{name}.{group}", result, lambda v, own=own: v[own].mean())
            found |= _values(f"{name}.{group}-spread", result, lambda v, own=own: v[own].var())
    return found


def resolved(work: Mapping[str, Any], sizes: np.ndarray) -> dict[str, Any]:
    """Settings of the work with batches of at most a client's rows and, where passes are given, steps (K,)."""
    work = dict(work)
    if "weight_decay" in work:
        work["weight_decay"] = single(nonnegative, "weight_decay", work["weight_decay"])
    if "batch_size" in work:
        work["batch_size"] = np.minimum(count("batch_size", work["batch_size"]).astype(np.int64), sizes)
    if work["rule"] != "epochs" and "n_epochs" in work:
        if "n_steps" in work:
            raise ValueError("work has n_steps and n_epochs; give one")
        passes = count("n_epochs", work.pop("n_epochs"), 0)
        work["n_steps"] = np.ceil(passes * (sizes / work["batch_size"])).astype(np.int64)
    return work


def with_decay(pull: tuple[Any, Any] | None, decay: float, shape: tuple[int, int]) -> tuple[Any, Any] | None:
    """A pull of training with a weight decay d: lam (w - a) + d w = (lam + d) (w - lam a / (lam + d)).

    Parameters
    ----------
    pull : pair (lam, anchors) as in ``Backend.local_sgd``, or None; decay : number >= 0, 0 leaves the pull as it is.
    shape : (C, P), clients and parameters.

    >>> lam, anchors = with_decay((3.0, np.array([4.0, 8.0])), 1.0, (1, 2))
    >>> float(lam), anchors.tolist()
    (4.0, [3.0, 6.0])
    """
    if decay == 0:
        return pull
    if pull is None:
        return decay, np.zeros(shape[1])
    lam, anchors = nonnegative("lam", pull[0]), np.asarray(pull[1])
    if lam.shape not in ((), shape[:1]) or anchors.shape not in (shape[1:], shape):
        return pull  # which the backend refuses by name
    share = lam / (lam + decay)
    return lam + decay, anchors * (share[:, None] if lam.ndim else share)


def _values(prefix, result: Evaluation, summary):
    """Summaries of each client's loss and accuracy, or of its mean squared error."""
    if result.accuracy is None:
        return {f"{prefix}.mse": float(summary(2 * result.loss))}
    return {f"{prefix}.loss": float(summary(result.loss)), f"{prefix}.accuracy": float(summary(result.accuracy))}
