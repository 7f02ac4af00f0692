"""FedEM: every client's data are a mixture of a few shared distributions.

Belongs here: `FedEM`.  Does not belong here: hard clusters of clients; predictions of mixtures (``predictions``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import Descent, averaging
from estimators.federated.kinds import typed
from estimators.federated.predictions import Mixture, example_losses, posterior
from estimators.federated.schedule import Schedule
from estimators.federated.task import weighted_sum
from estimators.numerics.validation import index

if TYPE_CHECKING:
    from estimators.federated.task import Task

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

    @typed
    def start(self, task: Task, *, rounds: int) -> dict[str, Any]:
        """Components (M, P) and equal proportions (K, M)."""
        M = self.components
        first = np.stack([np.asarray(task.initial(m), dtype=float) for m in range(M)])
        if M > 1 and (first == first[0]).all():
            first += task.server_noise(0, first.shape) / np.sqrt(first.shape[1])
        return {"components": first, "weights": np.full((task.n_clients, M), 1 / M)}

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> dict[str, Any]:
        """E and M of the participants, average; a round without participants changes nothing."""
        clients = task.participants(t, rate=self.rate, number=self.number)
        if len(clients):
            sizes, steps = task.sizes[clients], task.schedule(t, clients)
            first = np.cumsum(sizes) - sizes
            q = self.responsibilities(task, state, clients)
            state["weights"][clients] = (np.add.reduceat(q, first, axis=1) / sizes).T
            ends = self.train(task, state, t, steps, q[:, first[:, None, None] + steps.indices])
            state["components"] = np.stack([weighted_sum(averaging(task, "rows", clients), rows) for rows in ends])
        return {"participants": len(clients)}

    @typed
    def responsibilities(self, task: Task, state: dict[str, Any], clients: Any) -> Any:
        """Responsibilities (M, rows) of the clients' training rows, client after client."""
        data = task.data.take(clients)
        losses = [example_losses(task.backend, task.model, row, data) for row in state["components"]]
        return posterior(np.repeat(state["weights"][clients], data.sizes, axis=0).T, np.stack(losses))[0]

    @typed
    def train(self, task: Task, state: dict[str, Any], t: int, steps: Any, q: np.ndarray) -> Any:
        """Components (M, C, P) after local training with weights q (M, C, S, B) of the batches' rows."""
        M, C = len(q), len(steps.clients)
        every = Schedule(
            np.tile(steps.clients, M),
            np.tile(steps.indices, (M, 1, 1)),
            (steps.weights * q).reshape(M * C, *q.shape[2:]),
            np.tile(steps.divisors, (M, 1)),
            np.tile(steps.steps, M),
        )
        starts = np.repeat(state["components"], C, axis=0)
        rate = self.pace(t)
        return task.train(starts, t, learning_rate=rate, steps=every).reshape(M, C, -1)

    @typed
    def models(self, task: Task, state: dict[str, Any]) -> dict[str, Any]:
        """Every client's mixture."""
        return {"personal": Mixture(state["weights"], state["components"])}
