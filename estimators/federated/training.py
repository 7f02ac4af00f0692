"""Rounds of an algorithm, one after the other, with a history.

An algorithm is a frozen dataclass of its settings.  Its state is a dict of arrays, all that must be kept to go on after a
stop: with the state after round t, rounds t + 1, t + 2, ... have the same bits as in an unbroken run.  The loop asks it for
rounds; ``algorithms.parts`` makes them of the four pure parts that a real runtime asks for.

Every round runs under the algorithm's privacy plan: its releases are counted where they are made, and the first one that the
plan does not have ends the training before it is made, with the rounds before it kept.

Belongs here: the protocol, the loop.  Does not belong here: algorithms (``algorithms``), files of runs (``figures.learn``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from estimators.federated.backend import Diverged
from estimators.federated.kinds import typed
from estimators.federated.plans import PlanBroken, PrivacyPlan
from estimators.numerics.validation import index

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["Algorithm", "Progress", "Trained", "train", "training"]


class Algorithm(Protocol):
    """What the loop asks of an algorithm."""

    def start(self, task: Task, *, rounds: int) -> dict:
        """State before the first of `rounds` rounds: a dict of arrays; calibrates noise where it has any."""
        ...

    def round(self, task: Task, state: dict[str, Any], t: int) -> dict:
        """Do round t = 0, 1, ...: change `state` in place; return notes, a dict of numbers for the history."""
        ...

    def models(self, task: Task, state: dict[str, Any]) -> dict:
        """Learned parameters: "shared" (P,), "personal" (K, P) or a `Mixture`, either or both."""
        ...

    def privacy_plan(self, task: Terms, *, rounds: int) -> Any:
        """`PrivacyPlan` of what is released about clients' data in so many rounds, for which noise is calibrated."""
        ...

    def guarantees(self, task: Task, *, rounds: int) -> list:
        """A Guarantee for each client after `rounds` rounds, None where nothing is promised."""
        ...


class Progress(NamedTuple):
    """Where a training is: finished rounds, its state, the history's newest record or None if not evaluated now."""

    finished: int
    state: dict
    record: dict | None


class Trained(NamedTuple):
    """What a training ends with: the state, and a list of records {"round": finished rounds, measure: number, ...}."""

    state: dict
    history: list


@typed
def training(
    algorithm: Algorithm,
    task: Task,
    *,
    rounds: int,
    every: int | None = None,
    state: dict[str, Any] | None = None,
    finished: Any = 0,
) -> Iterator[Progress]:
    """Do one round after the other, and yield after each.

    Parameters
    ----------
    algorithm : Algorithm; task : Task; rounds : whole number >= 1 of rounds in total.
    every : whole number >= 1, evaluate after each so many rounds and after the last; None: after the last only.
    state, finished : to go on after a stop: the state after so many finished rounds.

    Raises
    ------
    Diverged
        Naming the client, its step and the round; the state yielded last is then no longer whole, a stored copy is.
    PlanBroken
        If a round makes releases that the algorithm's privacy plan does not have, or leaves out some; or if an algorithm
        promises privacy without a plan.  The state yielded last is that of the rounds before.

    >>> from estimators.federated.data import synthetic_federation
    >>> from estimators.federated.models import logistic_regression
    >>> from estimators.federated.task import Task
    >>> from estimators.federated.algorithms import FedAvg
    >>> clients = synthetic_federation(clients=4, rows=20, seed=1)
    >>> work = {"rule": "epochs", "n_epochs": 1, "batch_size": 5}
    >>> task = Task(clients, logistic_regression(10, clients.classes), work=work, seed=0)
    >>> [step.finished for step in training(FedAvg(learning_rate=0.1), task, rounds=2)]
    [1, 2]
    """
    rounds = index("rounds", rounds, 1, 10**7)
    every = rounds if every is None else index("every", every, 1, 10**7)
    finished = index("finished", finished, 0, rounds)
    if (state is None) != (finished == 0):
        raise ValueError("state and finished belong together: the state after that many finished rounds")
    meter = plan_of(algorithm, task, rounds).meter(task)
    metered = task.metered(meter)
    state = algorithm.start(task, rounds=rounds) if state is None else state
    for t in range(finished, rounds):
        try:
            if meter is not None:
                meter.begin(t)
            notes = algorithm.round(metered, state, t)
            if meter is not None:
                meter.close()
        except Diverged as error:
            error.add_note(f"in round {t + 1} of {rounds}")
            raise
        record = None
        if (t + 1) % every == 0 or t + 1 == rounds:
            record = {"round": t + 1, **task.measure(algorithm.models(task, state)), **plain(notes)}
        yield Progress(t + 1, state, record)


@typed
def train(algorithm: Algorithm, task: Task, *, rounds: int, every: int | None = None) -> Any:
    """Do all rounds; see `training` for the arguments.

    Returns
    -------
    Trained
    """
    state, history = {}, []
    for step in training(algorithm, task, rounds=rounds, every=every):
        state = step.state
        if step.record is not None:
            history.append(step.record)
    return Trained(state, history)


def plan_of(algorithm: Algorithm, task: Task, rounds: int) -> PrivacyPlan:
    """The algorithm's privacy plan, an empty one where it has none and promises nothing."""
    if hasattr(algorithm, "privacy_plan"):
        return algorithm.privacy_plan(task, rounds=rounds)
    if any(algorithm.guarantees(task, rounds=rounds)):
        raise PlanBroken(
            f"{type(algorithm).__name__} promises privacy and has no privacy_plan; declare what it releases: a PrivacyPlan"
        )
    return PrivacyPlan()


def plain(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Notes as Python numbers."""
    return {name: np.asarray(value).item() for name, value in notes.items()}
