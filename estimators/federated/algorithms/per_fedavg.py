"""Per-FedAvg: shared parameters from which one gradient step leads to good personal ones.

Belongs here: `PerFedAvg`.  Does not belong here: longer fine-tuning of shared parameters learned by averaging.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated import schedule as schedules
from estimators.federated.algorithms.basic import WEIGHTS, Averaging, Descent
from estimators.federated.algorithms.parts import State
from estimators.federated.kinds import typed
from estimators.numerics.validation import choice, index, nonnegative, positive

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["PerFedAvg"]


@dataclass(frozen=True, kw_only=True)
class PerFedAvg(Averaging, Descent):
    """Minimise the mean over clients of f_k(w - alpha grad f_k(w)), the loss after adaptation (Fallah et al. 2020).

    A local step takes three independent batches D, D', D'': it adapts, u = w - alpha g(w; D), and moves along the gradient
    of the adapted loss, w <- w - learning_rate (v - alpha H v), v = g(u; D').  "first-order" leaves out the Hessian H;
    "hessian-free" puts H v = (g(w + delta v; D'') - g(w - delta v; D'')) / (2 delta).  The server averages.  Personal models
    are the shared one after gradient steps of rate alpha on all the client's rows, as in the objective.

    Parameters
    ----------
    learning_rate : number > 0, decaying by `decay` as in ``Local``; alpha : number >= 0, 0 for federated averaging.
    variant : "first-order" or "hessian-free".
    delta : number > 0; much smaller ones than the default drown the difference in the rounding of float32.
    adaptations : whole number >= 0 of gradient steps to a personal model.
    rate, number : participants of a round, see ``Task.participants``; neither: all.
    weights : "uniform", as in the source, or "rows".

    No privacy is promised.
    """

    alpha: float
    variant: str = "first-order"
    delta: float = 1e-3
    adaptations: int = 1
    rate: float | None = None
    number: int | None = None
    weights: str = "uniform"

    def __post_init__(self):
        super().__post_init__()
        nonnegative("alpha", self.alpha)
        choice("variant", self.variant, ("first-order", "hessian-free"))
        positive("delta", self.delta)
        index("adaptations", self.adaptations, 0, 10**6)
        choice("weights", self.weights, WEIGHTS)

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Shared parameters."""
        return {"shared": np.asarray(task.initial(), dtype=float)}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Local steps from the shared parameters."""
        return {"ends": self.work(task, message["shared"], t, clients)}, {}

    @typed
    def work(self, task: Task, shared: np.ndarray, t: int, clients: Any) -> np.ndarray:
        """Parameters (C, P) after the local steps."""
        batches = [task.schedule(t, clients, stage=stage) for stage in range(3)]
        rate = self.pace(t)
        if self.alpha == 0:
            return task.train(shared, t, learning_rate=rate, steps=batches[0])
        w = np.tile(shared.astype(task.backend.dtype), (len(clients), 1))
        for s in range(batches[0].indices.shape[1]):
            outer, inner, third = (part.step(s) for part in batches)
            adapted = task.train(w, t, learning_rate=self.alpha, steps=inner)
            moved = task.train(adapted, t, learning_rate=rate, steps=outer) - adapted
            if self.variant == "hessian-free":
                shift = np.asarray(self.delta / rate, w.dtype) * moved
                for point, sign in ((w - shift, 1), (w + shift, -1)):
                    half = rate * self.alpha / (2 * self.delta)
                    moved -= sign * (task.train(point, t, learning_rate=half, steps=third) - point)
            w += moved
        return w

    @typed
    def personalise(self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """The shared parameters after adaptation."""
        shared = message["shared"]
        if self.alpha == 0:
            return np.broadcast_to(shared, (len(clients), len(shared)))
        sizes, whole = task.sizes, {"n_epochs": self.adaptations, "batch_size": task.sizes}
        steps = schedules.epochs(sizes, **whole, seed=0, round=0, clients=clients).keyed(task.seed, 0)
        return task.train(shared, 0, learning_rate=self.alpha, steps=steps)
