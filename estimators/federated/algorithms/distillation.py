"""Algorithms in which every client has two networks, its own and a copy of the common one, coupled by their divergence.

In a round the participants receive the common parameters, train both networks by the steps of ``pairs``, and send their
copies back, which the server averages; their own networks never leave them.

Belongs here: such rounds, QuPeD and federated mutual learning.  Does not belong here: AdaPeD, whose coupling is learned and
whose messages may be private (``adaped``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import Descent, rate_at
from estimators.federated.algorithms.parts import State
from estimators.federated.kinds import typed
from estimators.federated.own_rows import rows_of
from estimators.federated.pairs import PairStep
from estimators.federated.task import weighted_sum
from estimators.numerics.validation import probability, single

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["FederatedMutualLearning", "QuPeD"]


@dataclass(frozen=True, kw_only=True)
class Coupled(Descent):
    """Rounds of pairs; what a step is, `step` of a subclass says.

    Parameters
    ----------
    learning_rate : number > 0, of the clients' own networks; common_rate : number > 0, of the copies; None: the same.
    decay : None or (factor, rounds) for both rates, see ``basic.rate_at``.
    rate, number : participants of a round, see ``Task.participants``; neither: all.
    """

    common_rate: float | None = None
    rate: float | None = None
    number: int | None = None

    def __post_init__(self):
        super().__post_init__()
        self.step(0)

    psi = 0.5  # 1 / (2 psi) = 1: the weights of `step` say all

    @typed
    def step(self, t: int) -> PairStep:
        """How pairs are trained in round t."""
        raise NotImplementedError

    @typed
    def rates(self, t: int) -> tuple[float, ...]:
        """Both networks' learning rates in round t."""
        both = self.learning_rate, self.learning_rate if self.common_rate is None else self.common_rate
        return tuple(float(rate_at(rate, self.decay, t)) for rate in both)

    own = ("personal",)

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Every network with the same first parameters."""
        personal = rows_of(np.asarray(task.initial(), np.float32), task.n_clients)
        return {"personal": personal, "shared": personal[0].astype(float), "psi": np.array(float(self.psi))}

    @typed
    def message(self, task: Terms, server: Mapping[str, Any], clients: np.ndarray) -> State:
        """The common parameters and psi."""
        return {name: server[name] for name in ("shared", "psi")}

    @typed
    def pairs(self, task: Task, clients: np.ndarray, given: Mapping[str, Any], t: int, **changes: Any) -> Any:
        """``Pairs`` of the clients' networks after the round's steps, from those `given`: own, common, psi."""
        return task.train_pairs(**({"schedule": task.schedule(t, clients), "step": self.step(t), **given} | changes))

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train both networks, send the copy of the common one."""
        ends = self.pairs(task, clients, given_to(own["personal"], message), t)
        return {"common": ends.common, "psi": ends.psi}, {"personal": ends.own.astype(own["personal"].dtype)}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Average the copies; a round without participants changes nothing."""
        notes = {"participants": len(clients)}
        if len(clients) == 0:
            return {}, notes
        share = np.full(len(clients), 1 / len(clients))
        psi = np.asarray(weighted_sum(share, reply["psi"]))
        return {"shared": weighted_sum(share, reply["common"]), "psi": psi}, notes


def given_to(own: np.ndarray, message: Mapping[str, Any]) -> dict[str, Any]:
    """The pair of networks that a client begins a round with, and its psi."""
    return {"own": own, "common": message["shared"], "psi": message["psi"]}


@dataclass(frozen=True, kw_only=True)
class QuPeD(Coupled):
    """QuPeD in full precision, without quantisation (Ozkara, Singh, Data, Diggavi 2021).

    A client's own network descends (1 - lam) CE(theta) + lam KL(p_mu || p_theta), its copy lam KL(p_mu || p_theta): only
    through the client's own network does it learn of labels.

    Parameters
    ----------
    learning_rate, common_rate, decay, rate, number : as in `Coupled`.
    lam : number in [0, 1], the weight of the divergence; 0 is local training.
    """

    lam: float

    @typed
    def step(self, t: int) -> PairStep:
        """How pairs are trained in round t."""
        lam = single(probability, "lam", self.lam)
        return PairStep(rates=(*self.rates(t), 0.0), own=(1 - lam, lam), common=(0.0, lam))


@dataclass(frozen=True, kw_only=True)
class FederatedMutualLearning(Coupled):
    """Federated mutual learning (Shen et al. 2020): both networks learn labels and each other's scores.

    A client's own network descends alpha CE(theta) + (1 - alpha) KL(p_mu || p_theta), its copy of the common one
    beta CE(mu) + (1 - beta) KL(p_theta || p_mu), with theta as just made.

    Parameters
    ----------
    learning_rate, common_rate, decay, rate, number : as in `Coupled`.
    alpha, beta : numbers in [0, 1], the weights of cross-entropy; both 1: local training beside federated averaging.
    """

    alpha: float
    beta: float

    @typed
    def step(self, t: int) -> PairStep:
        """How pairs are trained in round t."""
        a, b = single(probability, "alpha", self.alpha), single(probability, "beta", self.beta)
        return PairStep(rates=(*self.rates(t), 0.0), own=(a, 1 - a), common=(b, 1 - b), mutual=True)
