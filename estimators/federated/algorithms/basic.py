"""Local training and federated averaging.

Belongs here: the two ends between which every personalised algorithm lies, and what all algorithms share (decay of the
learning rate).  Does not belong here: personalisation, client-level privacy.
"""

from dataclasses import dataclass

import numpy as np

from estimators.federated.privacy import RowPrivacy
from estimators.federated.task import weighted_sum
from estimators.validation import choice, positive

__all__ = ["FedAvg", "Local", "rate_at"]


def rate_at(learning_rate, decay, t):
    """Learning rate of round t: multiplied by the factor decay[0] every decay[1] rounds; None: constant.

    >>> [float(rate_at(0.5, (0.9, 50), t)) for t in (0, 49, 50)]
    [0.5, 0.5, 0.45]
    """
    rate = np.asarray(positive("learning_rate", learning_rate))
    return (rate if decay is None else rate * float(positive("decay", decay[0])) ** (t // int(decay[1])))[()]


def train_rows(algorithm, task, state, starts, t, **options):
    """Local training under the algorithm's learning rate, decay and privacy of rows."""
    clients = options.get("clients")
    private = {}
    if algorithm.privacy is not None:
        own = slice(None) if clients is None else clients
        private = {"clip": algorithm.privacy.clip, "multiplier": state["multiplier"][own]}
    rate = rate_at(algorithm.learning_rate, algorithm.decay, t)
    return task.train(starts, t, **{"learning_rate": rate, **private, **options})


def row_state(algorithm, task, rounds):
    """Noise multipliers (K,) of private rows, as part of a state."""
    return {} if algorithm.privacy is None else {"multiplier": algorithm.privacy.multipliers(task, rounds=rounds)}


def row_guarantees(algorithm, task, rounds):
    """Guarantee of each client's rows, None without privacy."""
    if algorithm.privacy is None:
        return [None] * task.n_clients
    return algorithm.privacy.guarantees(task, rounds=rounds)


@dataclass(frozen=True, kw_only=True)
class Local:
    """Every client trains alone: the end of no borrowing.

    Parameters
    ----------
    learning_rate : number > 0; decay : None or (factor, rounds), see `rate_at`.
    privacy : RowPrivacy of every client's rows, or None.
    """

    learning_rate: float
    decay: tuple | None = None
    privacy: RowPrivacy | None = None

    def start(self, task, *, rounds):
        """Every client's parameters, all the same first ones."""
        first = np.asarray(task.initial(), dtype=np.float32)
        return {"personal": np.tile(first, (task.n_clients, 1)), **row_state(self, task, rounds)}

    def round(self, task, state, t):
        """Train every client on its own rows."""
        state["personal"] = train_rows(self, task, state, state["personal"], t)
        return {}

    def models(self, task, state):
        """Personal parameters (K, P)."""
        return {"personal": state["personal"]}

    def guarantees(self, task, *, rounds):
        """Guarantees of rows."""
        return row_guarantees(self, task, rounds)


@dataclass(frozen=True, kw_only=True)
class FedAvg:
    """Federated averaging (McMahan et al. 2017): the end of full borrowing.

    Participants train from the shared parameters; the server averages their results.

    Parameters
    ----------
    learning_rate, decay, privacy : as in `Local`.
    rate, number : participants of a round, see ``Task.participants``; neither: all.
    weights : "rows", in proportion to training rows, or "uniform".
    """

    learning_rate: float
    decay: tuple | None = None
    privacy: RowPrivacy | None = None
    rate: float | None = None
    number: int | None = None
    weights: str = "rows"

    def __post_init__(self):
        choice("weights", self.weights, ("rows", "uniform"))

    def start(self, task, *, rounds):
        """Shared parameters."""
        return {"shared": np.asarray(task.initial(), dtype=float), **row_state(self, task, rounds)}

    def round(self, task, state, t):
        """Train the participants, average; a round without participants changes nothing."""
        clients = task.participants(t, rate=self.rate, number=self.number)
        if len(clients):
            ends = train_rows(self, task, state, state["shared"], t, clients=clients)
            sizes = task.sizes[clients] if self.weights == "rows" else np.ones(len(clients))
            state["shared"] = weighted_sum(sizes / sizes.sum(), ends)
        return {"participants": len(clients)}

    def models(self, task, state):
        """Shared parameters (P,)."""
        return {"shared": state["shared"]}

    def guarantees(self, task, *, rounds):
        """Guarantees of rows."""
        return row_guarantees(self, task, rounds)
