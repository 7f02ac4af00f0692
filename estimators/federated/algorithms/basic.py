"""Local training and federated averaging, and what algorithms share.

Belongs here: the two ends between which every personalised algorithm lies; `Descent` and `RowTraining`, the bases of the
other families; averages over clients.  Does not belong here: personalisation, client-level privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.kinds import typed
from estimators.federated.privacy import RowPrivacy
from estimators.federated.task import weighted_sum
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import choice, count, positive, shown, single

if TYPE_CHECKING:
    from estimators.accounting.budget import Guarantee
    from estimators.federated.task import Task

__all__ = ["WEIGHTS", "Descent", "FedAvg", "Local", "RowTraining", "averaging", "everyone", "rate_at"]

WEIGHTS = ("rows", "uniform")
"""What clients may weigh in an average, see `averaging`."""


@typed
def rate_at(learning_rate: ArrayLike, decay: tuple[float, int] | None, t: int) -> np.ndarray:
    """Learning rate of round t: multiplied by the factor decay[0] every decay[1] rounds; None: constant.

    >>> [float(rate_at(0.5, (0.9, 50), t)) for t in (0, 49, 50)]
    [0.5, 0.5, 0.45]
    """
    rate = np.asarray(positive("learning_rate", learning_rate))
    if decay is None:
        return rate[()]
    if np.shape(decay) != (2,):
        raise ValueError(f"decay must be a pair (factor, rounds) or None, got {shown(decay)}")
    return (rate * single(positive, "decay", decay[0]) ** (t // int(single(count, "decay", decay[1]))))[()]


@typed
def averaging(task: Task, weights: str, clients: Any = slice(None)) -> np.ndarray:
    """Weights of some clients in an average, adding to 1: by training "rows", or "uniform".

    Weights by rows reveal the numbers of rows, which add-or-remove privacy does not allow (claim mrmtl:algA1:weights);
    our guarantees take these numbers as public.
    """
    sizes = task.sizes[clients]
    sizes = sizes if choice("weights", weights, WEIGHTS) == "rows" else np.ones(len(sizes))
    return sizes / sizes.sum()


@typed
def everyone(task: Task) -> np.ndarray:
    """The task's first parameters for every client (K, P), as float32."""
    return np.tile(np.asarray(task.initial(), dtype=np.float32), (task.n_clients, 1))


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Every algorithm's learning rate, and what most of them answer; with `RowTraining`, no algorithm by itself.

    Parameters
    ----------
    learning_rate : number > 0; decay : None or (factor, rounds), see `rate_at`.
    """

    learning_rate: float
    decay: tuple | None = None

    def __post_init__(self):
        self.pace(0)

    @typed
    def pace(self, t: int) -> np.ndarray:
        """Learning rate of round t."""
        return rate_at(self.learning_rate, self.decay, t)

    @typed
    def models(self, task: Task, state: dict[str, Any]) -> dict[str, Any]:
        """What the state has of shared parameters (P,) and personal ones (K, P)."""
        return {name: state[name] for name in ("shared", "personal") if name in state}

    @typed
    def guarantees(self, task: Task, *, rounds: int) -> list[Guarantee | None]:
        """None for every client: nothing is promised."""
        return [None] * task.n_clients


@dataclass(frozen=True, kw_only=True)
class RowTraining(Descent):
    """What algorithms share whose clients' rows are private, or may be.

    Parameters
    ----------
    learning_rate, decay : as in `Descent`.
    privacy : RowPrivacy of every client's rows, or None.
    """

    privacy: RowPrivacy | None = None
    trainings = 1
    """How often a client trains on its rows in a round."""

    @typed
    def row_state(self, task: Task, rounds: int) -> dict[str, Any]:
        """Noise multipliers (K,) of private rows, as part of a state."""
        if self.privacy is None:
            return {}
        return {"multiplier": self.privacy.multipliers(task, rounds=self.trainings * rounds)}

    @typed
    def train(self, task: Task, state: dict[str, Any], starts: np.ndarray, t: int, **options: Any) -> Any:
        """Parameters (C, P) after local training under the learning rate and the privacy of rows; options as in
        ``Task.train``."""
        private = {}
        if self.privacy is not None:
            own = options.get("clients", slice(None))
            private = {"clip": self.privacy.clip, "multiplier": state["multiplier"][own]}
        return task.train(starts, t, **{"learning_rate": self.pace(t), **private, **options})

    @typed
    def guarantees(self, task: Task, *, rounds: int) -> list[Guarantee | None]:
        """Guarantee of each client's rows, None without privacy."""
        if self.privacy is None:
            return [None] * task.n_clients
        return self.privacy.guarantees(task, rounds=self.trainings * rounds)


@dataclass(frozen=True, kw_only=True)
class Local(RowTraining):
    """Every client trains alone: the end of no borrowing.

    Parameters
    ----------
    learning_rate, decay, privacy : as in `RowTraining`.
    """

    @typed
    def start(self, task: Task, *, rounds: int) -> dict[str, Any]:
        """Every client's parameters, all the same first ones."""
        return {"personal": everyone(task), **self.row_state(task, rounds)}

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> dict[str, Any]:
        """Train every client on its own rows."""
        state["personal"] = self.train(task, state, state["personal"], t)
        return {}


@dataclass(frozen=True, kw_only=True)
class FedAvg(RowTraining):
    """Federated averaging (McMahan et al. 2017): the end of full borrowing.

    Participants train from the shared parameters; the server averages their results.

    Parameters
    ----------
    learning_rate, decay, privacy : as in `RowTraining`.
    rate, number : participants of a round, see ``Task.participants``; neither: all.
    weights : "rows" or "uniform", see `averaging`.
    """

    rate: float | None = None
    number: int | None = None
    weights: str = "rows"

    def __post_init__(self):
        super().__post_init__()
        choice("weights", self.weights, WEIGHTS)

    @typed
    def start(self, task: Task, *, rounds: int) -> dict[str, Any]:
        """Shared parameters."""
        return {"shared": np.asarray(task.initial(), dtype=float), **self.row_state(task, rounds)}

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> dict[str, Any]:
        """Train the participants, average; a round without participants changes nothing."""
        clients = task.participants(t, rate=self.rate, number=self.number)
        if len(clients):
            ends = self.train(task, state, state["shared"], t, clients=clients)
            state["shared"] = weighted_sum(averaging(task, self.weights, clients), ends)
        return {"participants": len(clients)}
