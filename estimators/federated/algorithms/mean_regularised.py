"""Personal models pulled towards what the others learned: MR-MTL, Ditto, Mocha; and local fine-tuning of a shared model.

A pull uses no data, so it costs no privacy (claim mrmtl:algA1): noise is calibrated for the passes over the data alone.

Belongs here: methods between local training and averaging without clusters.  Does not belong here: clusters of clients
(``clustered``), strengths that minimise an expected error (``estimators.closed_forms.mean_regularized``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import WEIGHTS, RowTraining, averaging, everyone, of
from estimators.federated.algorithms.parts import State
from estimators.federated.kinds import typed
from estimators.federated.plans import Release
from estimators.federated.task import weighted_sum
from estimators.numerics.validation import choice, nonnegative, positive, probability

if TYPE_CHECKING:
    from estimators.federated.plans import PrivacyPlan
    from estimators.federated.task import Task, Terms

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
    lam : number >= 0, or (K,) with one for each client.  Among unequal clients (local variance) / tau2 with uniform weights
        is best for all of them at once (claim mrmtl:thmE.5:algA1); the mean then weighs clients by 1 / (1 + lam) by itself
        (claim mrmtl:algA1:silos), with weights by rows times these (claim mrmtl:algA1:counts).
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
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Every client's parameters, all the same first ones, and their mean."""
        first = everyone(task)
        mean = weighted_sum(averaging(task, self.weights), first)
        return {"personal": first, "shared": mean, **self.row_state(task, rounds)}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train on one's own rows, pulled towards the mean of the models."""
        pull = (of(clients, self.lam), message["shared"])
        ends = self.train(task, clients, own, own["personal"], t, pull=pull)
        return {"ends": ends}, {"personal": ends}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """The mean of the models."""
        return {"shared": weighted_sum(averaging(task, self.weights, clients), reply["ends"])}, {}


@dataclass(frozen=True, kw_only=True)
class Ditto(MRMTL):
    """Ditto with federated averaging as its solver, as `mrmtl` runs it (Li, Hu, Beirami and Smith 2021).

    In every round each client works twice on its rows: from the shared model, for the average, and from its own model,
    pulled towards the shared model that the round began with.  So its noise is for twice the steps.

    Parameters
    ----------
    lam, learning_rate, decay, privacy, weights : as in `MRMTL`.
    """

    @typed
    def privacy_plan(self, task: Terms, *, rounds: int) -> PrivacyPlan:
        """Every client trains on its rows twice in every round."""
        return self.row_plan(Release(what="training", rounds=range(rounds), times=2))

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Shared parameters, and every client's."""
        return {**super().start(task, rounds=rounds), "shared": np.asarray(task.initial(), dtype=float)}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train for the average in stage 0 and for oneself in stage 1."""
        ends = self.train(task, clients, own, message["shared"], t, stage=0)
        pull = (of(clients, self.lam), message["shared"])
        return {"ends": ends}, {"personal": self.train(task, clients, own, own["personal"], t, stage=1, pull=pull)}


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
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Every client's parameters, their average, the round from which they train alone and whether they do."""
        first, alone = everyone(task), int(self.share * rounds + 1e-9)
        averaged = {"average": first[0].astype(float), "averaged": np.asarray(False)}
        return {"personal": first, "alone": np.asarray(alone), **averaged, **self.row_state(task, rounds)}

    @typed
    def message(self, task: Terms, server: Mapping[str, Any], clients: np.ndarray) -> State:
        """The average of the round before, if it was averaged."""
        return {name: server[name] for name in ("average", "averaged")}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train from the average, or go on alone."""
        ends = self.train(task, clients, own, self.personalise(task, clients, message, own), t)
        return {"ends": ends}, {"personal": ends}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Average as long as that is due."""
        if t >= server["alone"]:
            return {"averaged": np.asarray(False)}, {}
        average = weighted_sum(averaging(task, self.weights, clients), reply["ends"])
        return {"average": average, "averaged": np.asarray(True)}, {}

    @typed
    def personalise(self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """The average if the last round made one, else what the client has itself."""
        if not message["averaged"]:
            return own["personal"]
        return np.tile(message["average"].astype(own["personal"].dtype), (len(clients), 1))


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

    addressed = ("strength", "anchors")

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Every client's parameters, which the server has too, and the penalty's matrix (K, K)."""
        K, first = task.n_clients, everyone(task)
        matrix = np.eye(K) * (K if self.penalty == "inverse" else 1 / K)
        return {"personal": first, "matrix": matrix, "received": first, **self.row_state(task, rounds)}

    @typed
    def message(self, task: Terms, server: Mapping[str, Any], clients: np.ndarray) -> State:
        """What pulls each client: how strongly, and to where the others are."""
        strength = np.diag(server["matrix"])
        others = server["matrix"] - np.diag(strength)
        anchors = -np.einsum("kj,jp->kp", others, server["received"].astype(float)) / strength[:, None]
        return {"strength": strength[clients], "anchors": anchors[clients]}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train on one's own rows against the others' models."""
        pull = (self.lam * message["strength"], message["anchors"])
        ends = self.train(task, clients, own, own["personal"], t, pull=pull)
        return {"ends": ends}, {"personal": ends}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Relate the models anew."""
        return {"received": reply["ends"], "matrix": related(reply["ends"], self.penalty, self.floor)}, {}


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
