"""pFedMe: personalisation by Moreau envelopes.

Belongs here: `PFedMe`.  Does not belong here: other penalised personal models (a module per family).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import WEIGHTS, Descent, averaging
from estimators.federated.algorithms.parts import State
from estimators.federated.kinds import typed
from estimators.federated.own_rows import rows_of
from estimators.federated.task import weighted_sum
from estimators.numerics.validation import choice, index, nonnegative, positive

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["PFedMe"]


@dataclass(frozen=True, kw_only=True)
class PFedMe(Descent):
    """Minimise the mean over clients of the envelope F_k(w) = min_v f_k(v) + lam |v - w|^2 / 2 (T. Dinh et al. 2020).

    Every batch of a client's work is one local step of the method: `inner_steps` gradient steps on this batch move the
    personal v towards the minimum, starting from the v before (in a round's first step from the shared parameters); then
    w <- w - learning_rate lam (w - v), the envelope's gradient step.  The server moves the shared parameters the part
    `beta` of the way to the average of the participants' w.  Personal models are the last v.

    Parameters
    ----------
    learning_rate : number > 0 of w, decaying by `decay` as in ``Local``; learning_rate lam = 1 jumps from w to v.
    personal_rate : number > 0, learning rate of the inner steps; constant.
    lam : number >= 0; 0 trains alone, a large one averages.
    inner_steps : whole number >= 1.
    beta : number > 0, 1 for plain averaging.
    rate, number : participants of a round, see ``Task.participants``; neither: all.
    everyone : True: clients whose w is not averaged work too, so that their personal models move, as in Algorithm 1 of the
        source; False: only participants do, and a client's personal model is that of its last participation.
    weights : "uniform", as in the source, or "rows".

    No privacy is promised.
    """

    personal_rate: float
    lam: float
    inner_steps: int
    beta: float = 1.0
    rate: float | None = None
    number: int | None = None
    everyone: bool = False
    weights: str = "uniform"

    def __post_init__(self):
        super().__post_init__()
        for name in ("personal_rate", "beta"):
            positive(name, getattr(self, name))
        nonnegative("lam", self.lam)
        index("inner_steps", self.inner_steps, 1, 10**6)
        choice("weights", self.weights, WEIGHTS)

    own = ("personal",)

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Shared parameters and every client's own, all the same first ones."""
        first = np.asarray(task.initial(), dtype=float)
        return {"shared": first, "personal": rows_of(first.astype(task.backend.dtype), task.n_clients)}

    @typed
    def called(self, task: Terms, t: int) -> np.ndarray:
        """All where everyone works, else those that are averaged."""
        return np.arange(task.n_clients) if self.everyone else super().called(task, t)

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Local steps: v to keep, w to send."""
        personal, w = self.work(task, message["shared"], t, clients)
        return {"w": w}, {"personal": personal}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Move towards the average; a round without participants leaves the shared parameters."""
        averaged = np.intersect1d(super().called(task, t), clients)  # of whom some may have dropped out
        notes = {"participants": len(averaged)}
        if len(averaged) == 0:
            return {}, notes
        mean = weighted_sum(averaging(task, self.weights, averaged), reply["w"][np.searchsorted(clients, averaged)])
        return {"shared": (1 - self.beta) * server["shared"] + self.beta * mean}, notes

    @typed
    def work(self, task: Task, shared: np.ndarray, t: int, clients: Any) -> tuple[np.ndarray | Any, np.ndarray | Any]:
        """Personal parameters (C, P) and w (C, P) after the clients' local steps."""
        w = v = np.tile(shared.astype(task.backend.dtype), (len(clients), 1))
        steps = task.schedule(t, clients)
        pace = self.pace(t) * self.lam
        for s in range(steps.indices.shape[1]):
            now = steps.step(s, times=self.inner_steps)
            v = task.train(v, t, learning_rate=self.personal_rate, steps=now, pull=(self.lam, w))
            w = w - (pace * (now.steps > 0)).astype(w.dtype)[:, None] * (w - v)
        return v, w
