"""Personal models pulled towards what the others learned: MR-MTL, Ditto, Mocha; and local fine-tuning of a shared model.

A pull uses no data, so it costs no privacy (claim mrmtl:algA1): noise is calibrated for the passes over the data alone.

Belongs here: methods between local training and averaging without clusters.  Does not belong here: clusters of clients
(``clustered``), strengths that minimise an expected error (``estimators.closed_forms.mean_regularized``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import WEIGHTS, RowTraining, averaging, everyone
from estimators.federated.kinds import typed
from estimators.federated.task import weighted_sum
from estimators.numerics.validation import choice, nonnegative, positive, probability

if TYPE_CHECKING:
    from estimators.federated.task import Task

__all__ = ["MRMTL", "Ditto", "FineTuning", "Mocha"]


@dataclass(frozen=True, kw_only=True)
class MRMTL(RowTraining):
    """Mean-regularised multi-task learning, Algorithm A1 of `mrmtl`: a penalty lam/2 |w_k - mean|^2 at every client.

    Every client goes on from its own model; the mean is that of the round before.  lam = 0 is local training; a large lam
    keeps the models together, if learning_rate lam < 2.  The printed server adds mean updates to a first mean, which is the
    mean of the models only if it was so at first (claim mrmtl:lem6.1:algA1); here all start from the same parameters and
    the mean is taken, which is then the same.

    The pull is added to the clipped and noisy gradient, as in Section 5; the authors' code clips the sum of both.

    Parameters
    ----------
    lam : number >= 0, or (K,) with one for each client (claim mrmtl:thmE.5).
    learning_rate, decay, privacy : as in ``basic.RowTraining``.
    weights : of the mean, "rows" or "uniform", see ``basic.averaging``.

    Source: Liu, Hu, Wu and Smith (2022).
    """

    lam: Any
    weights: str = "rows"

    def __post_init__(self):
        super().__post_init__()
        nonnegative("lam", self.lam)
        choice("weights", self.weights, WEIGHTS)

    @typed
    def start(self, task: Task, *, rounds: int) -> dict[str, Any]:
        """Every client's parameters, all the same first ones."""
        return {"personal": everyone(task), **self.row_state(task, rounds)}

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> dict[str, Any]:
        """Train every client on its own rows, pulled towards the mean of the models."""
        mean = weighted_sum(averaging(task, self.weights), state["personal"])
        state["personal"] = self.train(task, state, state["personal"], t, pull=(self.lam, mean))
        return {}

    @typed
    def models(self, task: Task, state: dict[str, Any]) -> dict[str, Any]:
        """Personal parameters (K, P), and their mean (P,) as the shared ones."""
        return {"personal": state["personal"], "shared": weighted_sum(averaging(task, self.weights), state["personal"])}


@dataclass(frozen=True, kw_only=True)
class Ditto(MRMTL):
    """Ditto with federated averaging as its solver, as `mrmtl` runs it (Li, Hu, Beirami and Smith 2021).

    In every round each client works twice on its rows: from the shared model, for the average, and from its own model,
    pulled towards the shared model that the round began with.  So its noise is for twice the steps.

    Parameters
    ----------
    lam, learning_rate, decay, privacy, weights : as in `MRMTL`.
    """

    trainings = 2

    @typed
    def start(self, task: Task, *, rounds: int) -> dict[str, Any]:
        """Shared parameters, and every client's."""
        return {"shared": np.asarray(task.initial(), dtype=float), **super().start(task, rounds=rounds)}

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> dict[str, Any]:
        """Train for the average in stage 0 and for oneself in stage 1."""
        ends = self.train(task, state, state["shared"], t, stage=0)
        pull = (self.lam, state["shared"])
        state["personal"] = self.train(task, state, state["personal"], t, stage=1, pull=pull)
        state["shared"] = weighted_sum(averaging(task, self.weights), ends)
        return {}

    @typed
    def models(self, task: Task, state: dict[str, Any]) -> dict[str, Any]:
        """Shared parameters (P,) and personal ones (K, P)."""
        return {"shared": state["shared"], "personal": state["personal"]}


@dataclass(frozen=True, kw_only=True)
class FineTuning(RowTraining):
    """Federated averaging for a share of the rounds, then every client alone from the shared model; `mrmtl`, Appendix C.3.

    Parameters
    ----------
    share : number in [0, 1] of the rounds that average, rounded down; 0 is local training, 1 averaging.
    learning_rate, decay, privacy, weights : as in `MRMTL`.
    """

    share: float = 0.5
    weights: str = "rows"

    def __post_init__(self):
        super().__post_init__()
        probability("share", self.share)
        choice("weights", self.weights, WEIGHTS)

    @typed
    def start(self, task: Task, *, rounds: int) -> dict[str, Any]:
        """Every client's parameters, and the round from which they train alone."""
        alone = np.asarray(int(self.share * rounds + 1e-9))
        return {"personal": everyone(task), "alone": alone, **self.row_state(task, rounds)}

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> dict[str, Any]:
        """Train from the shared parameters and average, or go on alone."""
        ends = self.train(task, state, state["personal"], t)
        if t < state["alone"]:
            shared = weighted_sum(averaging(task, self.weights), ends)
            ends = np.tile(shared.astype(ends.dtype), (task.n_clients, 1))
        state["personal"] = ends
        return {}


@dataclass(frozen=True, kw_only=True)
class Mocha(RowTraining):
    """Mocha in its primal form by SGD: models and the relations between clients are learned in turn.

    After every round the relation is S = (W W')^(1/2) / trace, for the matrix W (K, P) of all models; before the first it is
    I / K.  In a round each client follows its loss and the penalty lam/2 trace(W' M W) with the other rows of W held fixed,
    which is a pull of strength lam M_kk towards -sum_j M_kj w_j / M_kk over the others j.

    Parameters
    ----------
    lam : number >= 0; learning_rate, decay, privacy : as in `MRMTL`.
    penalty : "inverse", M = S^-1 (Smith, Chiang, Sanjabi and Talwalkar 2017), or "relation", M = S, as the authors of
        `mrmtl`, who print no formula, have it in their code.
    floor : number > 0, smallest root of an eigenvalue of W W' as a share of the largest.

    The inverse is stiff: learning_rate lam M_kk must stay below 2, and M_kk is up to K / floor.
    """

    lam: float
    penalty: str = "inverse"
    floor: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        nonnegative("lam", self.lam)
        positive("floor", self.floor)
        choice("penalty", self.penalty, ("inverse", "relation"))

    @typed
    def start(self, task: Task, *, rounds: int) -> dict[str, Any]:
        """Every client's parameters, and the penalty's matrix (K, K)."""
        K = task.n_clients
        matrix = np.eye(K) * (K if self.penalty == "inverse" else 1 / K)
        return {"personal": everyone(task), "matrix": matrix, **self.row_state(task, rounds)}

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> dict[str, Any]:
        """Train every client against the others' models, then relate the models anew."""
        strength = np.diag(state["matrix"])
        others = state["matrix"] - np.diag(strength)
        anchors = -np.einsum("kj,jp->kp", others, state["personal"].astype(float)) / strength[:, None]
        ends = self.train(task, state, state["personal"], t, pull=(self.lam * strength, anchors))
        state["personal"], state["matrix"] = ends, related(ends, self.penalty, self.floor)
        return {}


def related(models: np.ndarray, penalty: str, floor: float) -> Any:
    """Matrix of Mocha's penalty for models (K, P): S = (W W')^(1/2) / trace, or its inverse; I / K if all models are 0.

    >>> related(np.array([[3.0, 0.0], [0.0, 1.0]]), "relation", 1e-9).tolist()
    [[0.75, 0.0], [0.0, 0.25]]
    """
    rows = np.asarray(models, dtype=float)
    values, vectors = np.linalg.eigh(np.einsum("kp,jp->kj", rows, rows))
    roots = np.sqrt(np.maximum(values, 0))
    roots = np.maximum(roots, floor * roots.max()) if roots.max() > 0 else np.ones(len(roots))
    roots = roots / roots.sum()
    return np.einsum("ki,i,ji->kj", vectors, 1 / roots if penalty == "inverse" else roots, vectors)
