"""Robust-HDP and what it is compared with: one shared model from clients whose updates are not equally noisy.

Every client trains with DP-SGD for its own (eps_i, delta_i), in batches of its own size.  The server moves the shared model
by a weighted average of their updates; the algorithms differ in the weights alone (PFA also in the updates that it averages,
minimum eps also in the noise).

Belongs here: rounds of this form.  Does not belong here: weights of given updates and what they lose
(``estimators.server.server_weights``), estimates of the noise (``estimators.server.robust_pca``).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting import dpsgd
from estimators.closed_forms.aggregation import aggregate_variance, precision_weights, relative_excess
from estimators.federated.algorithms.basic import RowTraining, rate_at
from estimators.federated.algorithms.parts import State
from estimators.federated.kinds import typed
from estimators.federated.privacy import RowPrivacy
from estimators.federated.task import weighted_sum
from estimators.numerics.arrays import Floats
from estimators.numerics.validation import index
from estimators.server import server_weights
from estimators.server.robust_pca import noise_variances

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["PFA", "MinimumEps", "OracleWeights", "RobustHDP", "RowWeights", "UniformWeights", "WeiAvg"]


@dataclass(frozen=True, kw_only=True)
class Weighted(RowTraining):
    """What the algorithms of this module share; a subclass says with which weights the updates are averaged.

    Parameters
    ----------
    learning_rate : number > 0; decay : None or (factor, rounds), see ``basic.rate_at``.
    per_noise : True: the learning rate is `learning_rate` over the noise's standard deviation in an element of the average
        at learning rate 1, all clients participating, so that with one number for all algorithms the shared model gets the
        same noise in every round from each.  The noise is that of the planned weights: PFA's before it projects,
        Robust-HDP's with the best weights.
    privacy : RowPrivacy, with one eps and delta for all clients or one for each.
    rate, number : participants of a round, see ``Task.participants``; neither: all.

    Notes of a round are `participants` and, where every participant's noise is known and nothing but it is averaged,
    `noise`: variance of the privacy noise in an element of the average over the squared learning rate, as in Table 2;
    `excess`: that variance beyond the least one, relative to it (claim robusthdp:eq8:loss); `steps`: the clients' mean
    number of local steps under the weights, the length of the server's step (claim robusthdp:eq8:signal); `lowest` and
    `highest`: the extreme ratios of a client's weight to the best one.
    """

    privacy: RowPrivacy = field()
    per_noise: bool = False
    rate: float | None = None
    number: int | None = None

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.privacy, RowPrivacy):
            raise ValueError(f"privacy must be a RowPrivacy, got {self.privacy!r}; FedAvg also trains without")

    own = ("multiplier",)

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Shared parameters, noise multipliers (K,), learning rate."""
        state = {"shared": np.asarray(task.initial(), dtype=float), **self.row_state(task, rounds)}
        deviation = 1.0
        if self.per_noise:
            variances = noise_power(self, task, state)
            if (variances == 0).any():
                raise ValueError("eps must be finite for a learning rate per noise; set per_noise = False")
            deviation = np.sqrt(aggregate_variance(self.weights(task, state, np.arange(task.n_clients)), variances))
        return {**state, "learning_rate": np.asarray(self.learning_rate / deviation)}

    @typed
    def message(self, task: Terms, server: Mapping[str, Any], clients: np.ndarray) -> State:
        """The shared parameters and the learning rate."""
        return {name: server[name] for name in ("shared", "learning_rate")}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train from the shared parameters, send the update."""
        rate = rate_at(message["learning_rate"], self.decay, t)
        ends = self.train(task, clients, own, message["shared"], t, learning_rate=rate)
        return {"updates": ends - message["shared"]}, {}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Average the updates; a round without participants changes nothing."""
        if len(clients) == 0:
            return {}, {"participants": 0}
        changed = dict(server)
        weights, updates = self.weighted(task, changed, t, clients, reply["updates"])
        changed["shared"] = server["shared"] + weighted_sum(weights, updates)
        return changed, {"participants": len(clients), **self.loss(task, changed, clients, weights)}

    @typed
    def weights(self, task: Terms, state: dict[str, Any], clients: Any) -> Any:
        """Weights (C,) of some clients, before anything is known of their updates."""
        raise NotImplementedError

    @typed
    def weighted(self, task: Terms, state: dict[str, Any], t: int, clients: Any, updates: np.ndarray) -> tuple[Any, Any]:
        """Weights (C,) that add to one, and updates (C, P) that they are for; may add to the state's entries."""
        return self.weights(task, state, clients), updates

    @typed
    def loss(self, task: Terms, state: dict[str, Any], clients: Any, weights: np.ndarray) -> dict[str, Any]:
        """What these weights lose against the best ones."""
        variances = noise_power(self, task, state)[clients]
        if (variances == 0).any():
            return {}
        ratios = weights / precision_weights(variances)
        return {
            "steps": weights @ np.broadcast_to(task.work["n_steps"], task.n_clients)[clients],
            "noise": aggregate_variance(weights, variances),
            "excess": relative_excess(weights, variances),
            "lowest": ratios.min(),
            "highest": ratios.max(),
        }


def noise_power(algorithm: Any, task: Terms, state: dict[str, Any]) -> np.ndarray:
    """Variance (K,) of the privacy noise in an element of each client's update, over the squared learning rate.

    (7) with the noise of (3) alone: what sampling adds to it needs the gradients.  Claim: robusthdp:eq7.
    """
    if "n_steps" not in task.work:  # a pass ends with a batch that has another divisor
        raise ValueError('work must have the rule "fixed" or "poisson" for the noise of updates (7), got "epochs"')
    b = task.work["batch_size"]
    return dpsgd.model_update_variance(
        K=task.work["n_steps"], N=b, b=b, eta=1.0, c=algorithm.privacy.clip, z=state["multiplier"], p=1, path="shuffled"
    )


class UniformWeights(Weighted):
    """Equal weights; parameters as in `Weighted`."""

    @typed
    def weights(self, task: Terms, state: dict[str, Any], clients: Any) -> np.ndarray:
        """1 / C."""
        return np.full(len(clients), 1 / len(clients))


class RowWeights(Weighted):
    """Weights in proportion to rows (Noble, Bellet and Dieuleveut 2022); parameters as in `Weighted`.

    The same as ``FedAvg`` with `privacy`, here with notes on its noise.
    """

    @typed
    def weights(self, task: Terms, state: dict[str, Any], clients: Any) -> Floats:
        """n_i / sum n_j."""
        return server_weights.sample_weights(task.sizes[clients])


class MinimumEps(RowWeights):
    """Weights in proportion to rows, and everyone trains with the least eps and delta of all; parameters as in `Weighted`.

    What a server must ask for that cannot handle more than one level of privacy: every client gets the guarantee of the
    strictest.
    """

    def __post_init__(self):
        super().__post_init__()
        strictest = replace(self.privacy, eps=np.min(self.privacy.eps), delta=np.min(self.privacy.delta))
        object.__setattr__(self, "privacy", strictest)


class WeiAvg(Weighted):
    """Weights in proportion to eps (Liu, Lou, Xiong, Liu and Meng 2021); parameters as in `Weighted`.

    The server must know every eps, all for the same delta; each is finite.  Claim: robusthdp:eq8:eps-weights.
    """

    def __post_init__(self):
        super().__post_init__()
        if not np.isfinite(self.privacy.eps).all():
            raise ValueError("eps must be finite for weights in proportion to it")

    @typed
    def weights(self, task: Terms, state: dict[str, Any], clients: Any) -> Floats:
        """eps_i / sum eps_j."""
        return server_weights.eps_weights(self.eps(task)[clients])

    @typed
    def eps(self, task: Terms) -> np.ndarray:
        """The eps (K,) of each client."""
        return np.broadcast_to(np.asarray(self.privacy.eps, dtype=float), task.n_clients)


@dataclass(frozen=True, kw_only=True)
class PFA(WeiAvg):
    """Projected federated averaging: weights in proportion to eps, updates of the stricter clients projected first.

    Clients with a large eps (``server_weights.public_clients``, found among all clients) are public; see
    ``server_weights.project_private`` for the projection.  Where no public client participates, nothing is projected.

    Parameters
    ----------
    components : whole number >= 0, how many directions to keep, at most the round's public clients less one; the code of
        Robust-HDP's authors keeps 1.  The others as in `Weighted`.
    """

    components: int = 1

    @typed
    def weighted(
        self, task: Terms, state: dict[str, Any], t: int, clients: Any, updates: np.ndarray
    ) -> tuple[Floats, Floats | Any]:
        """Weights eps_i / sum eps_j, of the projected updates."""
        public = server_weights.public_clients(self.eps(task))[clients]
        if public.any():
            components = min(self.components, int(public.sum()) - 1)
            updates = server_weights.project_private(updates.T, public, components).T
        return self.weights(task, state, clients), updates

    @typed
    def loss(self, task: Terms, state: dict[str, Any], clients: Any, weights: np.ndarray) -> dict[str, Any]:
        """Nothing: the noise of projected updates depends on the data."""
        return {}


@dataclass(frozen=True, kw_only=True)
class OracleWeights(Weighted):
    """The best weights, from each client's true noise, which no server knows.

    Claims: robusthdp:eq7, robusthdp:eq8:weights.

    Parameters
    ----------
    per_step : False: inversely proportional to the noise, which leaves the least noise in the average.  True: in proportion
        to a client's steps over its noise, which leaves the least noise for a given length of the server's step where
        clients take unequal numbers of steps (robusthdp:eq8:signal; not in the paper).  The others as in `Weighted`.
    """

    per_step: bool = False

    @typed
    def weights(self, task: Terms, state: dict[str, Any], clients: Any) -> Any:
        """By the true noise."""
        return self.precise(task, clients, noise_power(self, task, state)[clients])

    @typed
    def precise(self, task: Terms, clients: Any, variances: np.ndarray) -> Any:
        """Weights of some clients with these noises."""
        weights = precision_weights(variances)
        if self.per_step:
            weights = weights * np.broadcast_to(task.work["n_steps"], task.n_clients)[clients]
        return weights / weights.sum()


@dataclass(frozen=True, kw_only=True)
class RobustHDP(OracleWeights):
    """Robust-HDP, Algorithm 1: weights by the noise that robust PCA finds in the updates.

    The server needs to know neither eps nor batch sizes (with `per_step` the numbers of steps).  Columns of the matrix of
    updates are the round's participants in their order (robusthdp:alg1:columns), and the last round's model is the result.
    Claims: robusthdp:alg1, robusthdp:alg1:rounds.

    Parameters
    ----------
    every : whole number >= 1, estimate in rounds 1, 1 + every, ...; with more than there are rounds only in the first, as
        the authors' code does.  In other rounds a client keeps its last estimate, so that the weights do not follow the
        round's noise, which Theorem 2 needs (robusthdp:thm2:dependent-weights); a client without one makes the round one of
        estimates.
    as_printed : True: what the printed lines return, theta^E, which is the model before the last of E accounted rounds.
        The others as in `OracleWeights`.
    """

    every: int = 1
    as_printed: bool = False

    def __post_init__(self):
        super().__post_init__()
        index("every", self.every, 1, 10**7)

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """As in `Weighted`, with the parameters before the last round and estimates of noise (K,), 0 where there is none."""
        state = super().start(task, rounds=rounds)
        return {**state, "previous": state["shared"], "estimates": np.zeros(task.n_clients)}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """As in `Weighted`, keeping the parameters before."""
        changed, notes = super().server_aggregate(task, server, t, clients, reply)
        return {**changed, "previous": server["shared"]}, notes

    @typed
    def weighted(self, task: Terms, state: dict[str, Any], t: int, clients: Any, updates: np.ndarray) -> tuple[Any, Any]:
        """Weights by the estimates."""
        if t % self.every == 0 or (state["estimates"][clients] == 0).any():
            found = noise_variances(updates.T, block_rows=server_weights.BLOCK_ROWS)
            if not found.converged:
                message = f"robust PCA has not converged in round {t + 1} (gap {found.gap:.1g}); its weights may be far off"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            estimates = state["estimates"].copy()
            estimates[clients] = found.variances
            state["estimates"] = estimates
        return self.precise(task, clients, state["estimates"][clients]), updates

    @typed
    def models(self, task: Terms | None, state: dict[str, Any]) -> dict[str, Any]:
        """Shared parameters (P,)."""
        return {"shared": state["previous" if self.as_printed else "shared"]}
