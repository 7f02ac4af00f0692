"""Clusters of clients that choose among several models: IFCA, and MR-MTL within clusters that IFCA found.

A choice looks at the client's rows, so it is made by the exponential mechanism and has its place in the accounting
(``row_accounting``), which leaves more noise for training.

Belongs here: iterative clustering and what starts from it.  Does not belong here: personalisation without clusters
(``mean_regularised``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import WEIGHTS, RowTraining, averaging, everyone, of
from estimators.federated.algorithms.parts import State
from estimators.federated.kinds import typed
from estimators.federated.plans import Release
from estimators.federated.predictions import example_losses
from estimators.federated.schedule import stream
from estimators.federated.task import weighted_sum
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import choice, fraction, index, nonnegative, positive, probability, single

if TYPE_CHECKING:
    from estimators.federated.plans import PrivacyPlan
    from estimators.federated.task import Task, Terms

__all__ = ["IFCA", "ClusteredMRMTL", "badness"]

CENTRES = 40  # a purpose of streams


@typed
def badness(task: Task, data: Any, parameters: Any, cap: float | None = None) -> Any:
    """How badly clients' rows fit a model (K,): a sum over rows in which one row adds at most 1, or `cap`.

    cap None: the number of wrong classes; else the sum of losses, each at most `cap`.  Adding, removing or replacing a row
    changes it by at most 1, or `cap`: n times the sensitivity of the mean, of claim mrmtl:eq15.

    Parameters
    ----------
    task : Task; data : rows that its backend's `prepare` made; parameters : array (P,) or (K, P); cap : None or number > 0.
    """
    if cap is None:
        accuracy = task.backend.evaluate(task.model, parameters, data).accuracy
        if accuracy is None:
            raise ValueError("cap must be given for regression: the largest loss of a row that counts")
        return np.rint((1 - accuracy) * data.sizes)
    each = np.minimum(example_losses(task.backend, task.model, parameters, data), cap)
    return np.add.reduceat(each, np.cumsum(data.sizes) - data.sizes)


@dataclass(frozen=True, kw_only=True)
class IFCA(RowTraining):
    """Iterative federated clustering (Ghosh et al. 2020; HypCluster, Mansour et al. 2020) as `mrmtl` runs it.

    In every round each client chooses the cluster's model with the least `badness` on its training rows and trains from it;
    a cluster's model becomes its members' mean, and stays as it is without members.  After the choosing rounds clients stay
    where they are.  With `privacy` every choice is by the exponential mechanism with `eps_share` of the total eps (claims
    mrmtl:eq14, mrmtl:appA:gumbel), and DP-SGD has what is left (mrmtl:algA2:privacy).

    Models of clusters must differ at first: those that start at zero (linear ones) get normal noise of standard deviation
    1 / sqrt(features) when there are several.

    Parameters
    ----------
    clusters : whole number >= 1 of clusters; 1 is `FedAvg` with all clients, and chooses nothing.
    choosing : number in (0, 1], the share of the rounds in which clients choose, at least one round.
    eps_share : number in (0, 1), eps of a choice as a share of the total.
    cap : None, to choose by the number of wrong classes, or number > 0, by losses of at most `cap`.
    learning_rate, decay, privacy, weights : as in ``basic.FedAvg``.

    Raises ValueError if the choices alone cost all of eps.
    """

    clusters: int
    choosing: float = 1.0
    eps_share: float = 0.03
    cap: float | None = None
    weights: str = "rows"

    def __post_init__(self):
        super().__post_init__()
        index("clusters", self.clusters, 1, 10**6)
        if not single(probability, "choosing", self.choosing) > 0:
            raise ValueError("choosing must be > 0: clients choose in at least one round")
        single(fraction, "eps_share", self.eps_share)
        if self.cap is not None:
            positive("cap", self.cap)
        choice("weights", self.weights, WEIGHTS)

    own = ("chosen", "personal", "multiplier")

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Models of the clusters (G, P), each client's cluster and parameters, the number of choosing rounds."""
        return {
            "centres": centres(task, self.clusters),
            "chosen": np.zeros(task.n_clients, dtype=np.int64),
            "personal": everyone(task),
            "choosing": np.asarray(self.choices(rounds)),
            **self.row_state(task, rounds),
        }

    @typed
    def privacy_plan(self, task: Terms, *, rounds: int) -> PrivacyPlan:
        """Every client trains once in every round, and chooses in the first of them."""
        choosing = range(0 if self.clusters == 1 else self.choices(rounds))
        choices = Release(what="choice", rounds=choosing, noise=self.eps(task))
        return self.row_plan(Release(what="training", rounds=range(rounds)), choices)

    @typed
    def choices(self, rounds: int) -> int:
        """Number of rounds in which clients choose."""
        return max(1, int(self.choosing * rounds + 1e-9))

    @typed
    def eps(self, task: Terms) -> np.ndarray:
        """Eps (K,) of one choice, inf without privacy."""
        total = np.inf if self.privacy is None else np.asarray(self.privacy.eps, dtype=float)
        return np.broadcast_to(self.eps_share * total, task.n_clients)

    @typed
    def choose(self, task: Task, state: Mapping[str, Any], t: int, clients: ArrayLike | None = None) -> Any:
        """Cluster (C,) of some clients (None: all) in round t, by what the state has of "centres" and, where there is one
        cluster, of "chosen"."""
        if self.clusters == 1:
            return state["chosen"]
        clients = np.arange(task.n_clients) if clients is None else np.asarray(clients)
        sensitivity = 1.0 if self.cap is None else self.cap

        def scores(rows):
            return -np.stack([badness(task, rows, centre, self.cap) for centre in state["centres"]], axis=1)

        return task.choose(t, scores, clients, eps=self.eps(task)[clients], sensitivity=sensitivity)

    @typed
    def message(self, task: Terms, server: Mapping[str, Any], clients: np.ndarray) -> State:
        """Models of all clusters, and how many rounds choose."""
        return {name: server[name] for name in ("centres", "choosing")}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Choose, train from the cluster's model."""
        chosen = own["chosen"]
        if t < message["choosing"]:
            chosen = self.choose(task, {**own, **message}, t, clients)
        starts, pull = self.begin(message["centres"][chosen], message, own, clients, t)
        ends = self.train(task, clients, own, starts, t, pull=pull)
        return {"ends": ends, "chosen": chosen}, {"personal": ends, "chosen": chosen}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Average within clusters."""
        weights, middles, chosen = averaging(task, self.weights, clients), server["centres"].copy(), reply["chosen"]
        for g in np.unique(chosen):
            members = np.flatnonzero(chosen == g)
            share = weights[members] / weights[members].sum() if self.clusters > 1 else weights
            middles[g] = weighted_sum(share, reply["ends"][members])
        return {"centres": middles}, {"clusters": len(np.unique(chosen))}

    @typed
    def begin(
        self, centre: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], clients: np.ndarray, t: int
    ) -> tuple[Any, Any]:
        """Where clients of these clusters' models start from in round t, and what pulls them."""
        return centre, None

    @typed
    def personalise(self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """Each client's cluster's model."""
        return message["centres"][own["chosen"]]


@dataclass(frozen=True, kw_only=True)
class ClusteredMRMTL(IFCA):
    """MR-MTL within clusters, after some rounds of `IFCA`: Algorithm A2 of `mrmtl`.

    Claims: mrmtl:algA2, mrmtl:algA2:privacy.

    After the choosing rounds every client goes on from its own model, pulled with strength lam towards the mean of its
    cluster; lam = 0 is local training after clustering, and `IFCA` with the same `choosing` is averaging within clusters.

    Parameters
    ----------
    lam : number >= 0, or (K,); choosing : share of the rounds that cluster, as in `IFCA`, whose other settings it has.
    """

    lam: Any
    choosing: float = field(default=0.1)

    def __post_init__(self):
        super().__post_init__()
        nonnegative("lam", self.lam)

    @typed
    def begin(
        self, centre: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], clients: np.ndarray, t: int
    ) -> tuple[Any, Any]:
        """From the cluster's model in choosing rounds, then from one's own, pulled towards the cluster's."""
        return (centre, None) if t < message["choosing"] else (own["personal"], (of(clients, self.lam), centre))

    @typed
    def personalise(self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """What the client has itself."""
        return own["personal"]


def centres(task: Terms, number: int) -> Any:
    """First models (number, P) of the clusters, all different."""
    found = np.stack([np.asarray(task.initial(g), dtype=float) for g in range(number)])
    if number > 1 and (found == found[0]).all():
        scale = 1 / np.sqrt(task.model.n_features)
        noise = [stream(task.seed, CENTRES, g).standard_normal(found.shape[1]) for g in range(number)]
        found = found + scale * np.stack(noise)
    return found
