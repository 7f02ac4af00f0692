"""Local training and federated averaging, and what algorithms share.

Belongs here: the two ends between which every personalised algorithm lies; `Descent` and `RowTraining`, the bases of the
other families; averages over clients.  Does not belong here: personalisation, client-level privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.parts import Parts, State
from estimators.federated.kinds import typed
from estimators.federated.plans import PrivacyPlan, Release
from estimators.federated.privacy import RowPrivacy
from estimators.federated.task import weighted_sum
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import choice, count, positive, shown, single

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["WEIGHTS", "Averaging", "Descent", "FedAvg", "Local", "RowTraining", "averaging", "everyone", "rate_at"]

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
def averaging(task: Terms, weights: str, clients: Any = slice(None)) -> np.ndarray:
    """Weights of some clients in an average, adding to 1: by training "rows", or "uniform".

    Weights by rows reveal the numbers of rows, which add-or-remove privacy does not allow (claim mrmtl:algA1:weights);
    our guarantees take these numbers as public.
    """
    sizes = task.sizes[clients]
    sizes = sizes if choice("weights", weights, WEIGHTS) == "rows" else np.ones(len(sizes))
    return sizes / sizes.sum()


@typed
def everyone(task: Terms) -> np.ndarray:
    """The task's first parameters for every client (K, P), as float32."""
    return np.tile(np.asarray(task.initial(), dtype=np.float32), (task.n_clients, 1))


def of(clients: np.ndarray, value: Any) -> Any:
    """A setting of some clients: their entries (C,) of one with an entry for each client, or the one number for all.

    >>> of(np.array([0, 2]), [1.0, 2.0, 3.0]).tolist(), of(np.array([0, 2]), 0.5)
    ([1.0, 3.0], 0.5)
    """
    return value if np.ndim(value) == 0 else np.asarray(value)[clients]


@dataclass(frozen=True, kw_only=True)
class Descent(Parts):
    """Every algorithm's learning rate; with `RowTraining`, no algorithm by itself.

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


@dataclass(frozen=True, kw_only=True)
class RowTraining(Descent):
    """What algorithms share whose clients' rows are private, or may be.

    Its plan has one training of every client in every round; an algorithm that releases more says so in its own
    `privacy_plan`, or its first round ends with what is missing.

    Parameters
    ----------
    learning_rate, decay : as in `Descent`.
    privacy : RowPrivacy of every client's rows, or None.
    """

    privacy: RowPrivacy | None = None
    own = ("personal", "multiplier")

    @typed
    def row_plan(self, *releases: Release) -> PrivacyPlan:
        """Plan of these releases under the privacy of rows; an empty one without privacy."""
        return PrivacyPlan() if self.privacy is None else PrivacyPlan(releases=releases, privacy=self.privacy)

    @typed
    def privacy_plan(self, task: Terms, *, rounds: int) -> PrivacyPlan:
        """Every client trains on its rows once in every round."""
        return self.row_plan(Release(what="training", rounds=range(rounds)))

    @typed
    def row_state(self, task: Terms, rounds: int) -> dict[str, Any]:
        """Noise multipliers (K,) of private rows, as part of a state."""
        if self.privacy is None:
            return {}
        return {"multiplier": self.privacy_plan(task, rounds=rounds).multipliers(task)}

    @typed
    def train(
        self, task: Task, clients: np.ndarray, own: Mapping[str, Any], starts: np.ndarray, t: int, **options: Any
    ) -> np.ndarray:
        """Parameters (C, P) after local training of some clients under the learning rate and the privacy of rows; options
        as in ``Task.train``."""
        private = {}
        if self.privacy is not None:
            private = {"clip": self.privacy.clip, "multiplier": own["multiplier"]}
        return task.train(starts, t, **{"learning_rate": self.pace(t), "clients": clients, **private, **options})


@dataclass(frozen=True, kw_only=True)
class Local(RowTraining):
    """Every client trains alone: the end of no borrowing.

    Parameters
    ----------
    learning_rate, decay, privacy : as in `RowTraining`.
    """

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Every client's parameters, all the same first ones."""
        return {"personal": everyone(task), **self.row_state(task, rounds)}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train on one's own rows, say nothing."""
        return {}, {"personal": self.train(task, clients, own, own["personal"], t)}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Nothing."""
        return {}, {}


class Averaging:
    """The server's part of algorithms whose clients send the "ends" of their training from the shared parameters."""

    weights: str

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Average; a round without participants changes nothing."""
        notes = {"participants": len(clients)}
        if len(clients) == 0:
            return {}, notes
        return {"shared": weighted_sum(averaging(task, self.weights, clients), reply["ends"])}, notes


@dataclass(frozen=True, kw_only=True)
class FedAvg(Averaging, RowTraining):
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
    own = ("multiplier",)

    def __post_init__(self):
        super().__post_init__()
        choice("weights", self.weights, WEIGHTS)

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Shared parameters."""
        return {"shared": np.asarray(task.initial(), dtype=float), **self.row_state(task, rounds)}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train from the shared parameters, send the result."""
        return {"ends": self.train(task, clients, own, message["shared"], t)}, {}
