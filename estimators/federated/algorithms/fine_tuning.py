"""Federated averaging, after which every client goes on alone.

Belongs here: `FedAvgPlus`.  Does not belong here: fine-tuning that shares the rounds with averaging (``mean_regularised``),
averaging itself (``basic``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import FedAvg
from estimators.federated.kinds import typed
from estimators.numerics.validation import index

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["FedAvgPlus"]


@dataclass(frozen=True, kw_only=True)
class FedAvgPlus(FedAvg):
    """FedAvg whose personal models are the shared one after some steps on the client's own rows (Jiang et al. 2019).

    The steps take nothing back to the server, so they are made afresh wherever the models are asked for.

    Parameters
    ----------
    learning_rate, decay, privacy, rate, number, weights : as in ``basic.FedAvg``; the steps take the first learning rate.
    tuning_steps : whole number >= 0 of steps for work with the rule "fixed" or "poisson"; 0 leaves the shared model.
    """

    tuning_steps: int

    def __post_init__(self):
        super().__post_init__()
        index("tuning_steps", self.tuning_steps, 0, 10**6)

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Shared parameters.

        Raises ValueError for work that is counted in passes.
        """
        if "n_steps" not in task.work:
            raise ValueError('work must have the rule "fixed" or "poisson" for tuning_steps, got "epochs"')
        return super().start(task, rounds=rounds)

    @typed
    def personalise(self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """The shared parameters after the steps, which the client keeps to itself."""
        batches = {"n_steps": self.tuning_steps}
        options = {"learning_rate": self.learning_rate, "clients": clients, "stage": 15, "batches": batches}
        return np.asarray(task.train(message["shared"], 0, **options))
