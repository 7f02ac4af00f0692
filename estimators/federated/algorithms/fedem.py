"""FedEM: every client's data are a mixture of a few shared distributions.

Belongs here: `FedEM`.  Does not belong here: hard clusters of clients; predictions of mixtures (``predictions``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import Descent, averaging
from estimators.federated.algorithms.parts import State
from estimators.federated.kinds import typed
from estimators.federated.predictions import Mixture, example_losses, posterior
from estimators.federated.schedule import Schedule
from estimators.federated.task import weighted_sum
from estimators.numerics.validation import index

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["FedEM"]


@dataclass(frozen=True, kw_only=True)
class FedEM(Descent):
    """Expectation maximisation over shared components and clients' own proportions (Marfoq et al. 2021).

    A client with proportions p and components of losses l_m gives its example i the responsibilities
    q_im = p_m exp(-l_im) / sum_j p_j exp(-l_ij) (E), takes their mean as its new p, and trains every component with its
    examples' gradients weighted by q_im (M; all components on the same batches).  The server averages each component in
    proportion to training rows.  A client's model is the mixture with its p of its last participation.

    Parameters
    ----------
    learning_rate : number > 0, decaying by `decay` as in ``Local``.
    components : whole number M >= 1; 1 is federated averaging.
    rate, number : participants of a round, see ``Task.participants``; neither: all.

    Components that start equal stay equal: where the model's first parameters are always the same (linear models), normal
    numbers of norm about 1 are added to each component.  No privacy is promised.
    """

    components: int
    rate: float | None = None
    number: int | None = None

    def __post_init__(self):
        super().__post_init__()
        index("components", self.components, 1, 1000)

    own = ("weights",)

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Components (M, P) and equal proportions (K, M)."""
        M = self.components
        first = np.stack([np.asarray(task.initial(m), dtype=float) for m in range(M)])
        if M > 1 and (first == first[0]).all():
            first += task.server_noise(0, first.shape) / np.sqrt(first.shape[1])
        return {"components": first, "weights": np.full((task.n_clients, M), 1 / M)}

    @typed
    def message(self, task: Terms, server: Mapping[str, Any], clients: np.ndarray) -> State:
        """The components."""
        return {"components": server["components"]}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """E, then M: new proportions to keep, components (C, M, P) to send."""
        sizes, steps = task.sizes[clients], task.schedule(t, clients)
        first = np.cumsum(sizes) - sizes
        q = self.responsibilities(task, message["components"], own["weights"], clients)
        weights = (np.add.reduceat(q, first, axis=1) / sizes).T
        ends = self.train(task, message["components"], t, steps, q[:, first[:, None, None] + steps.indices])
        return {"ends": ends.swapaxes(0, 1)}, {"weights": weights}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Average every component; a round without participants changes nothing."""
        notes = {"participants": len(clients)}
        if len(clients) == 0:
            return {}, notes
        share = averaging(task, "rows", clients)
        return {"components": np.stack([weighted_sum(share, rows) for rows in reply["ends"].swapaxes(0, 1)])}, notes

    @typed
    def responsibilities(self, task: Task, components: np.ndarray, weights: np.ndarray, clients: Any) -> Any:
        """Responsibilities (M, rows) of the clients' training rows, client after client."""
        data = task.data.take(clients)
        losses = [example_losses(task.backend, task.model, row, data) for row in components]
        return posterior(np.repeat(weights, data.sizes, axis=0).T, np.stack(losses))[0]

    @typed
    def train(self, task: Task, components: np.ndarray, t: int, steps: Any, q: np.ndarray) -> Any:
        """Components (M, C, P) after local training with weights q (M, C, S, B) of the batches' rows."""
        M, C = len(q), len(steps.clients)
        every = Schedule(
            np.tile(steps.clients, M),
            np.tile(steps.indices, (M, 1, 1)),
            (steps.weights * q).reshape(M * C, *q.shape[2:]),
            np.tile(steps.divisors, (M, 1)),
            np.tile(steps.steps, M),
        )
        starts = np.repeat(components, C, axis=0)
        rate = self.pace(t)
        return task.train(starts, t, learning_rate=rate, steps=every).reshape(M, C, -1)

    @typed
    def personalise(self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """Every client's mixture."""
        return Mixture(own["weights"], message["components"])
