"""Private hyperparameter tuning: a random number of trainings, of which only the best by a private score is published.

Belongs here: the wrapper that makes one algorithm of many runs of another.  Does not belong here: laws of the number of
runs and their cost (``estimators.accounting.tuning``), calibration (``row_accounting``).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from estimators.accounting.privacy import gaussian_zcdp
from estimators.accounting.tuning import TruncatedNegativeBinomial
from estimators.federated.algorithms.catalogue import make
from estimators.federated.algorithms.clustered import badness
from estimators.federated.kinds import typed
from estimators.federated.plans import Release
from estimators.federated.privacy import RowPrivacy
from estimators.federated.row_accounting import TunedRowPrivacy
from estimators.federated.schedule import sequence, stream
from estimators.federated.task import Task
from estimators.numerics.validation import fraction, positive, single

if TYPE_CHECKING:
    from estimators.accounting.budget import Guarantee

__all__ = ["Tuned"]

RUNS, SEEDS, SPLIT, SCORES = 42, 43, 44, 45  # purposes of streams

splits = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The best of a random number of runs of another algorithm, each with settings drawn anew from a grid.

    Appendix F of `mrmtl` (after Papernot and Steinke 2022): the number of runs is truncated negative binomial, and every
    run draws its point of the grid uniformly and independently, as claim mrmtl:thmF.2:grid asks.  Each row is for
    validation by a coin of its own, else for training; the score of a run is the sum of `badness` over all clients'
    validation rows, to which each client adds normal noise of standard deviation `score_noise` times the sensitivity.
    Noise of training is calibrated so that what is published, the run of the least score, has the eps of `privacy`.

    The promise is against those who see the published models, not against a server that sees all runs; appendix F.3 asks
    silos that distrust it to draw and to choose alone.

    Parameters
    ----------
    algorithm : name of an algorithm of this package; settings : its settings, without `privacy` and those of the grid.
    grid : dict from settings' names to their values; a setting that changes what a run costs in privacy is refused.
    mean, eta : of the number of runs, see ``tuning.TruncatedNegativeBinomial``.
    privacy : RowPrivacy of what is published, or None: scores without noise.
    validation : number in (0, 1), chance of a row to be for validation.
    score_noise : number > 0; cap : None or number > 0, as in ``clustered.IFCA``.
    """

    algorithm: str
    settings: dict
    grid: dict
    mean: float = 10.0
    eta: float = 0.0
    privacy: RowPrivacy | None = None
    validation: float = 0.2
    score_noise: float = 10.0
    cap: Any = None

    def __post_init__(self):
        for name in ("mean", "score_noise"):
            positive(name, getattr(self, name))
        single(fraction, "validation", self.validation)
        if not self.grid or any(len(values) == 0 for values in self.grid.values()):
            raise ValueError("grid must name at least one setting, each with at least one value")
        if self.cap is not None:
            positive("cap", self.cap)
        _ = self.law
        for point in np.ndindex(*self.shape):
            self.candidate(point)

    @property
    def law(self) -> Any:
        """Law of the number of runs."""
        return TruncatedNegativeBinomial.with_mean(eta=self.eta, mean=self.mean)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each setting of the grid."""
        return tuple(len(values) for values in self.grid.values())

    @typed
    def candidate(self, point: Any) -> Any:
        """Algorithm at a point of the grid (one position per setting)."""
        chosen = {name: values[int(i)] for (name, values), i in zip(self.grid.items(), point, strict=True)}
        private = None
        if self.privacy is not None:
            rho = float(gaussian_zcdp(sensitivity=1.0, sigma=self.score_noise))
            rows = self.privacy
            private = TunedRowPrivacy(eps=rows.eps, delta=rows.delta, clip=rows.clip, runs=self.law, score_rho=rho)
        return make(self.algorithm, {**self.settings, **chosen, "privacy": private})

    @typed
    def start(self, task: Task, *, rounds: int) -> dict[str, Any]:
        """Draw the number of runs and their points, and start them all."""
        generator = stream(task.seed, RUNS)
        number = self.law.sample(generator)
        points = np.array([[generator.integers(n) for n in self.shape] for _ in range(number)])
        state: dict = {"points": points, "rounds": np.array(rounds), "scores": np.full(number, np.nan)}
        for i, point in enumerate(points):
            own = self.candidate(point).start(part(task, self.validation, i), rounds=rounds)
            state |= {f"{i}.{name}": value for name, value in own.items()}
        if self.privacy is not None:
            self.cost(task, rounds)
        return state

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> dict[str, Any]:
        """One round of every run, and its score after the last."""
        for i, point in enumerate(state["points"]):
            own, meter = inner(state, i), None if task.meter is None else task.meter.again()
            self.candidate(point).round(part(task.bare, self.validation, i).metered(meter), own, t)
            if t + 1 == int(state["rounds"]):
                state["scores"][i] = self.score(task.bare, i, point, own, meter)
            if meter is not None:
                meter.close()
            state |= {f"{i}.{name}": value for name, value in own.items()}
        return {"runs": len(state["points"])}

    def score(self, task: Task, i: int, point: Any, own: dict[str, Any], meter: Any) -> float:
        """Private score of run i, a release about the rows that are for validation; small is good."""
        split, sub = split_of(task, self.validation), part(task, self.validation, i)
        eps = np.inf if self.privacy is None else np.broadcast_to(self.privacy.eps, task.n_clients)[split.checked]
        learned = self.candidate(point).models(sub, own)
        parameters = learned.get("personal", learned.get("shared"))
        if np.ndim(parameters) == 2:
            parameters = parameters[split.checked]
        if meter is not None:
            meter.score(split.checked[~np.isinf(eps)], multiplier=self.score_noise)
        noise = stream(sub.seed, SCORES).standard_normal(len(split.checked)) * np.where(np.isinf(eps), 0.0, 1.0)
        sensitivity = 1.0 if self.cap is None else self.cap
        return badness(sub, split.validation, parameters, self.cap).sum() + self.score_noise * sensitivity * noise.sum()

    @typed
    def best(self, task: Task, state: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Number of the best run and its settings from the grid; before the last round nothing is scored: of the first."""
        i = 0 if np.isnan(state["scores"]).all() else int(state["scores"].argmin())
        return i, {name: values[j] for (name, values), j in zip(self.grid.items(), state["points"][i], strict=True)}

    @typed
    def models(self, task: Task, state: dict[str, Any]) -> dict[str, Any]:
        """Models of the best run, before the last round of the first."""
        i, _ = self.best(task, state)
        return self.candidate(state["points"][i]).models(part(task, self.validation, i), inner(state, i))

    @typed
    def cost(self, task: Task, rounds: int) -> Any:
        """Guarantees of every point of the grid, which must agree."""
        sub = part(task, self.validation, 0)
        found = [self.candidate(point).guarantees(sub, rounds=rounds) for point in np.ndindex(*self.shape)]
        if any(other != found[0] for other in found[1:]):
            raise ValueError("grid must not have settings that change what a run costs in privacy; give them in settings")
        return found[0]

    @typed
    def privacy_plan(self, task: Task, *, rounds: int) -> Any:
        """Plan of one run, which every run keeps: its releases, and one score at the end, of rows that no run trains on."""
        candidate, sub = self.candidate((0,) * len(self.shape)), part(task, self.validation, 0)
        plan = candidate.privacy_plan(sub, rounds=rounds)
        if self.privacy is not None:
            scored = np.zeros(task.n_clients, bool)
            scored[split_of(task, self.validation).checked] = True
            scored &= ~np.isinf(np.broadcast_to(self.privacy.eps, task.n_clients))
            score = Release(what="score", rounds=range(rounds - 1, rounds), noise=self.score_noise, clients=scored)
            seen = "models and scores of runs that are not published, towards a server that sees them; it draws and chooses"
            plan = replace(plan, releases=[*plan.releases, score], uncovered=[*plan.uncovered, seen])
        return OneRun(plan=plan, task=sub)

    @typed
    def guarantees(self, task: Task, *, rounds: int) -> list[Guarantee | None]:
        """Guarantee of each client's rows once the best run is published, tuning included."""
        return [None] * task.n_clients if self.privacy is None else self.cost(task, rounds)


@dataclass(frozen=True)
class OneRun:
    """A run's plan, metered on the rows that runs train on; the meter itself only makes one for each run."""

    plan: Any
    task: Task

    @typed
    def meter(self, task: Task) -> Any:
        """`Meter` of a run."""
        return self.plan.meter(self.task)

    def text(self) -> str:
        """The plan of each run in lines."""
        return f"each of a random number of runs:\n{self.plan.text()}"


def inner(state: dict[str, Any], i: int) -> dict[str, Any]:
    """State of run number i."""
    start = f"{i}."
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}


@dataclass(frozen=True)
class Split:
    """Training task without the validation rows, these rows, and whose they are."""

    training: Task
    validation: Any
    checked: np.ndarray


def split_of(task: Task, share: float) -> Any:
    """`Split` of a task's training rows, the same whenever it is asked for."""
    kept = splits.setdefault(task, {})
    if share not in kept:
        federation, train, checks = task.federation, [], []
        for k, rows in enumerate(federation.train):
            held = stream(task.seed, SPLIT, k).random(len(rows)) < share
            if held.all():
                raise ValueError(f"client {k} is left without training rows; lower validation or leave the client out")
            train.append(rows[~held])
            checks.append(rows[held])
        checked = np.flatnonzero([len(rows) > 0 for rows in checks])
        if len(checked) == 0:
            raise ValueError("no client has validation rows; raise validation")
        pairs = [(federation.x[checks[k]], federation.y[checks[k]]) for k in checked]
        sub = Task(
            replace(federation, train=train), task.model, work=task.work, seed=task.seed, backend=task.backend,
            groups=task.groups,
        )  # fmt: skip
        kept[share] = Split(sub, task.backend.prepare(task.model, pairs), checked)
    return kept[share]


def part(task: Task, share: float, i: int) -> Any:
    """Training task of run number i: the same data, a seed of its own."""
    sub = copy(split_of(task, share).training)
    sub.seed = int(sequence(task.seed, SEEDS, i).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return sub
