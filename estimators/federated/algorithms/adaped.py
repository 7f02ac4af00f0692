"""AdaPeD: networks coupled by a divergence whose weight 1/(2 psi) is learned too; with local fine-tuning; with privacy.

Belongs here: Algorithms 5 and 6 and DP-AdaPeD of the generative framework (Ozkara, Girgis, Data, Diggavi 2022), and the
noise of the last.  Does not belong here: its accountant (``estimators.accounting.adaped``), the steps (``pairs``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting.accountants import calibrate_noise, stated
from estimators.accounting.adaped import adaped_epsilon, adaped_rdp
from estimators.accounting.budget import Guarantee
from estimators.accounting.privacy import ORDERS
from estimators.federated.algorithms.distillation import Coupled, given_to
from estimators.federated.algorithms.parts import State
from estimators.federated.backend import clipping_norm
from estimators.federated.kinds import typed
from estimators.federated.pairs import PairStep
from estimators.federated.plans import PrivacyPlan, Release
from estimators.federated.schedule import Schedule
from estimators.numerics.validation import fraction, number, positive, single

if TYPE_CHECKING:
    from estimators.federated.schedule import GaussianNoise
    from estimators.federated.task import Task, Terms

__all__ = ["AdaPeD", "DPAdaPeD", "adaped_multiplier"]


@dataclass(frozen=True, kw_only=True)
class AdaPeD(Coupled):
    """Adaptive personalisation by distillation: psi, one number for all clients, says how far apart networks may be.

    Participants descend CE(theta) + log(2 psi)/2 + KL(p_mu || p_theta)/(2 psi) in theta, mu and psi in turn; the server
    averages the mu and psi of the round.  Claims: generative:alg5, generative:alg6, generative:alg5:server,
    generative:alg6:server (copies of index t + 1 are sent), generative:alg5:positive and generative:eq23 (nothing keeps psi
    from 0 but the floor, which the paper sets by hand).

    Parameters
    ----------
    learning_rate, common_rate, decay, rate, number : as in ``distillation.Coupled``: eta_1, eta_2, participants.
    psi_rate : number >= 0, eta_3, which does not decay; 0 keeps psi.
    psi : number > 0, the first one; inf is local training.
    floor : number > 0 (below psi), psi never falls below it.
    fine_tuning : whether the others train their own networks too, towards what they last received (Algorithm 6); then every
        round takes the time and memory of all clients.
    as_printed : whether the copies sent are those from before the last step, of index t, as the printed lines have it.
    """

    psi_rate: float
    psi: float = 4.0
    floor: float = 0.5
    fine_tuning: bool = False
    as_printed: bool = False

    def __post_init__(self):
        if self.psi != inf:
            positive("psi", self.psi)
        super().__post_init__()

    @typed
    def step(self, t: int) -> PairStep:
        """How pairs are trained in round t."""
        psi_rate = 0.0 if self.psi == inf else self.psi_rate
        return PairStep(rates=(*self.rates(t), psi_rate), own=(1, 1), common=(0, 1), floor=self.floor)

    own = ("personal", "received", "received_psi")

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Every network with the same first parameters; with fine-tuning also what each client has received."""
        state = super().start(task, rounds=rounds)
        state["psi"] = np.array(min(float(self.psi), 1e300))
        if self.fine_tuning:
            state |= {"received": state["personal"].copy(), "received_psi": np.full(task.n_clients, float(state["psi"]))}
        return state

    @typed
    def noise(self, task: Terms, message: Mapping[str, Any], t: int) -> GaussianNoise | None:
        """`GaussianNoise` of the round, or None."""
        return None

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train both networks, send the copy; with fine-tuning keep what was received."""
        given, noise = given_to(own["personal"], message), {"noise": self.noise(task, message, t)}
        if self.as_printed:
            steps = task.schedule(t, clients)
            sent = self.pairs(task, clients, given, t, schedule=part(steps, 0, -1), **noise)
            last = {"schedule": part(steps, -1, None), "step": one_sided(self.step(t))}
            ends = sent._replace(own=self.pairs(task, clients, sent._asdict(), t, **last).own)
        else:
            ends = self.pairs(task, clients, given, t, **noise)
        mine = {"personal": ends.own.astype(own["personal"].dtype)}
        if self.fine_tuning:
            received = np.tile(message["shared"].astype(own["received"].dtype), (len(clients), 1))
            mine |= {"received": received, "received_psi": np.full(len(clients), float(message["psi"]))}
        return {"common": ends.common, "psi": ends.psi}, mine

    @property
    def trains_alone(self) -> bool:
        """With fine-tuning."""
        return self.fine_tuning

    @typed
    def client_alone(self, task: Task, clients: np.ndarray, own: Mapping[str, Any], t: int) -> State:
        """With fine-tuning: train one's own network, towards what was last received."""
        given = {"own": own["personal"], "common": own["received"], "psi": own["received_psi"]}
        ends = self.pairs(task, clients, given, t, step=one_sided(self.step(t)))
        return {"personal": ends.own.astype(own["personal"].dtype)}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Average the copies and psi."""
        changed, notes = super().server_aggregate(task, server, t, clients, reply)
        return changed, notes | {"psi": changed.get("psi", server["psi"])}


def one_sided(step: Any) -> PairStep:
    """The step of a client's own network alone."""
    return PairStep(rates=(step.rates[0], 0.0, 0.0), own=step.own, common=step.common)


def part(steps: Any, start: int, stop: int | None) -> Schedule:
    """Schedule of each row's steps start .. stop - 1, counted from its end where negative."""
    S = steps.divisors.shape[1]
    if (steps.steps != S).any() or S == 0:
        raise ValueError("as_printed needs work with the same number >= 1 of steps for every client")
    cut = slice(start, stop)
    left = np.full(len(steps.clients), len(range(S)[cut]))
    return Schedule(steps.clients, steps.indices[:, cut], steps.weights[:, cut], steps.divisors[:, cut], left)


@lru_cache(maxsize=256)
def adaped_multiplier(*, eps: float, delta: float, tau: int, rounds: int, K: int, m: int, vectors: Any) -> float:
    """Smallest noise multiplier with which ``adaped_epsilon`` is at most eps.

    Parameters
    ----------
    eps : number > 0; delta : number in (0, 1); tau : whole number >= 1 of steps a round; rounds : whole number >= 1.
    K, m : whole numbers >= 1, clients of a round and of all.
    vectors : 1 or 2, separately clipped and noisy vectors of a step (mu alone or jointly with psi; mu and psi).

    >>> z = adaped_multiplier(eps=2.567, delta=1e-4, tau=5, rounds=20, K=20, m=60, vectors=1)
    >>> 19.5 < z < 20
    True
    """

    def spent(z):
        return adaped_epsilon(delta=delta, orders=ORDERS, **parameters(z, tau, rounds, K, m, vectors))

    return calibrate_noise(spent, eps=eps)


def parameters(z: float, tau: int, rounds: int, K: int, m: int, vectors: Any) -> dict[str, Any]:
    """What ``estimators.accounting.adaped`` calls these."""
    clips = {"C1": 1.0, "C2": float(vectors - 1)}
    return {"tau": tau, "T": tau * rounds, "K": K, "m": m, "sigma2_q1": z**2, "sigma2_q2": z**2, **clips}


@dataclass(frozen=True, kw_only=True)
class DPAdaPeD(AdaPeD):
    """AdaPeD whose messages protect whole clients: in every step clipped gradients of mu and psi, with noise.

    The promise holds for all data of one client (numbers of rows are public), against everyone who sees all messages; with
    fewer than all clients in a round, against those who do not know which they were: the server chooses them and must be
    trusted.  Claims: generative:thm7:valid, in place of generative:thm7:rdp.  Without the noise its networks are those of
    AdaPeD with clipped gradients.

    Parameters
    ----------
    learning_rate, common_rate, psi_rate, psi, floor, decay, number, fine_tuning, as_printed : as in `AdaPeD`; `rate` may not
        be used: the number of participants is fixed.
    eps : number > 0, inf clips without noise; delta : number in (0, 1).
    clip : number >= 1e-15, C_1, largest norm of a step's gradient of mu.
    psi_clip : number >= 1e-15, C_2, of psi; None: (mu, psi) is one vector, clipped at C_1 (Section 4, Figures 2 and 3).
    """

    eps: float
    delta: float
    clip: float
    psi_clip: float | None = None

    def __post_init__(self):
        if not single(number, "eps", self.eps) > 0:
            raise ValueError(f"eps must be > 0 (inf: no privacy), got {self.eps}")
        single(fraction, "delta", self.delta)
        if self.rate is not None:
            raise ValueError("rate cannot be used with privacy of clients here; give number, the participants of a round")
        super().__post_init__()

    @typed
    def step(self, t: int) -> PairStep:
        """How pairs are trained in round t."""
        step, joint = super().step(t), self.psi_clip is None
        psi_clip = inf if self.psi_clip is None else float(clipping_norm("psi_clip", self.psi_clip))
        clips = float(clipping_norm("clip", self.clip)), psi_clip
        return PairStep(
            rates=step.rates, own=step.own, common=step.common, floor=step.floor, clips=clips,
            joint=joint and step.rates[2] > 0,
        )  # fmt: skip

    @typed
    def privacy_plan(self, task: Terms, *, rounds: int) -> PrivacyPlan:
        """Every local step releases a clipped gradient, or two where mu and psi are clipped apart."""
        z = self.multiplier(task, rounds=rounds)
        if z == 0:
            return PrivacyPlan()
        return PrivacyPlan(releases=[Release(what="step", rounds=range(rounds), times=self.taken(task), noise=z)])

    @typed
    def taken(self, task: Terms) -> int:
        """Local steps of a round."""
        return int(task.schedule(0).steps.max())

    @typed
    def plan(self, task: Terms, rounds: int) -> dict[str, Any]:
        """Arguments of `adaped_multiplier` but for the promise."""
        step, m = self.step(0), task.n_clients
        return {
            "tau": self.taken(task),
            "rounds": rounds,
            "K": m if self.number is None else self.number,
            "m": m,
            "vectors": 2 if step.rates[2] > 0 and not step.joint else 1,
        }

    @typed
    def multiplier(self, task: Terms, *, rounds: int) -> float:
        """Noise in units of the clips, 0 where eps is inf."""
        if self.eps == inf:
            return 0.0
        return adaped_multiplier(eps=float(self.eps), delta=float(self.delta), **self.plan(task, rounds))

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """State of `AdaPeD`, and the noise multiplier."""
        return super().start(task, rounds=rounds) | {"multiplier": np.array(self.multiplier(task, rounds=rounds))}

    @typed
    def message(self, task: Terms, server: Mapping[str, Any], clients: np.ndarray) -> State:
        """The common parameters, psi, and the noise."""
        return {name: server[name] for name in ("shared", "psi", "multiplier")}

    @typed
    def noise(self, task: Terms, message: Mapping[str, Any], t: int) -> GaussianNoise | None:
        """`GaussianNoise` of the round, or None."""
        return task.noise(t, float(message["multiplier"])) if message["multiplier"] > 0 else None

    @typed
    def guarantees(self, task: Terms, *, rounds: int) -> list[Guarantee | None]:
        """Guarantee of whole clients, the same for each; None where eps is inf."""
        promise = None
        for release in self.privacy_plan(task, rounds=rounds).releases:
            plan = self.plan(task, len(release.rounds))
            spent = parameters(release.noise, **plan)
            promise = Guarantee(
                adaped_epsilon(delta=self.delta, orders=ORDERS, **spent),
                float(self.delta),
                "client",
                "client" if plan["K"] == plan["m"] else "server",
                "clipped gradients of every local step with gaussian noise",
                renyi=tuple(map(float, adaped_rdp(order=np.array(ORDERS), **spent))),
                claims=("generative:thm7:valid",),
                accountant=stated("rdp"),
                simulated=True,
            )
        return [promise] * task.n_clients
