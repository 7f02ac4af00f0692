"""Averaging of clipped updates with noise for levels of privacy: DP-FedAvg, FeO2, FedHDP, with Ditto beside them.

Belongs here: privacy of whole clients towards whoever sees the shared model.  Does not belong here: privacy of rows
(``basic`` and others, by ``RowPrivacy``), accountants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from estimators.accounting.accountants import ACCOUNTANTS
from estimators.federated.algorithms.basic import Descent
from estimators.federated.algorithms.parts import State
from estimators.federated.backend import clipping_norm
from estimators.federated.kinds import typed
from estimators.federated.own_rows import rows_of
from estimators.federated.plans import PrivacyPlan, Release
from estimators.federated.privacy import client_guarantee, update_multiplier
from estimators.federated.task import weighted_sum
from estimators.numerics.validation import choice, finite, nonnegative, number, positive, probability, single

if TYPE_CHECKING:
    from estimators.accounting.budget import Guarantee
    from estimators.federated.task import Task, Terms

__all__ = ["DPFedAvg", "FeO2", "FedHDP"]


class Level(NamedTuple):
    """Clients (positions) of one level, whether in `mask` (K,), their noise, weight and strength of the pull."""

    mask: np.ndarray
    multiplier: float
    ratio: float
    lam: float


def own_lam(lam: Any, level: Any) -> float:
    """Strength of a level from a number for all levels or one for each; 0 where no personal models are wanted."""
    return 0.0 if lam is None else float(np.ravel(lam)[level if np.ndim(lam) else 0])


@dataclass(frozen=True, kw_only=True)
class ClippedAverage(Descent):
    """What DP-FedAvg, FeO2 and FedHDP share: a round of clipped, noisy averages of levels, and personal models beside it.

    Subclasses say in `levels` who has how much noise and weight.  With the clipping norm S and the levels j,

        shared += sum_j r_j (sum_(i in j) clip_S(update_i) + z_j S N(0, I)) / sum_j r_j n_j,
        log S -= clip_rate (1/2 + (sum_i (b_i - 1/2) + z_b N(0, 1)) / sum_j n_j - quantile),   b_i = [|update_i| <= S],

    where n_j is the expected number of participants of a private level, so that the sensitivity is S whoever takes part,
    and the number found in a level without noise.

    Parameters
    ----------
    learning_rate, decay : as in ``basic.Descent``.
    rate : number in (0, 1], each client takes part by itself with this probability; guarantees are then add-or-remove.
    number : whole number >= 1, as printed: so many clients take part, and n_j is the number found in every level, a level
        without participants adding nothing, not even noise.  The same noise then promises much less (an eps of 16 where
        the paper says 3.6): neighbours differ in one client's data, which can move a sum by 2 S.
    clip : number > 0, the first S, >= 1e-15 with noise; inf: no clipping, for levels without noise only.
    quantile : number in [0, 1] of updates that S should leave as they are; clip_rate : number >= 0; 0: S stays.
    count_noise : number > 0, z_b above; None: a twentieth of the expected participants (Andrew et al. 2021), but no less
        than the largest multiplier.
    delta : number in (0, 1) of the guarantees; needed where a level has noise.
    accountant : "pld" or "rdp", of the guarantees, see ``estimators.accounting.accountants``.
    lam : None; or a number >= 0 or one for each level, strength of the pull of personal models to the shared one
        (Ditto, Li et al. 2021).  They start from the shared model when their client first takes part (until then the
        shared model is theirs), and train on the same batches, in the same rounds.
    """

    rate: float | None = None
    number: int | None = None
    clip: float = 0.5
    quantile: float = 0.5
    clip_rate: float = 0.2
    count_noise: float | None = None
    delta: float | None = None
    accountant: str = "pld"
    lam: Any = None

    def __post_init__(self):
        super().__post_init__()
        if (self.rate is None) == (self.number is None):
            raise ValueError("give rate (each client by itself) or number (so many)")
        if self.rate is not None and not single(probability, "rate", self.rate) > 0:
            raise ValueError("rate must be > 0")
        probability("quantile", self.quantile)
        nonnegative("clip_rate", self.clip_rate)
        if self.lam is not None:
            nonnegative("lam", self.lam)
        choice("accountant", self.accountant, ACCOUNTANTS)
        private = any(z > 0 for z in self.noise())
        if not number("clip", self.clip) > 0:
            raise ValueError(f"clip must be > 0 (inf: no clipping), got {self.clip}")
        if private and np.isinf(self.clip):
            raise ValueError("clip must be finite where a level has noise: the noise is a multiple of it")
        if private:
            clipping_norm("clip", self.clip)
        if private and (self.delta is None or not 0 < single(finite, "delta", self.delta) < 1):
            raise ValueError(f"delta must be given, strictly between 0 and 1, where a level has noise, got {self.delta}")
        if self.count_noise is not None:
            positive("count_noise", self.count_noise)

    def noise(self) -> Any:
        """Multipliers of the levels, of updates and counts together."""
        raise NotImplementedError

    @typed
    def levels(self, task: Terms) -> Any:
        """List of `Level`, together all clients."""
        raise NotImplementedError

    @typed
    def counts(self, task: Terms) -> float:
        """Noise z_b on the number of unclipped updates, inf where S stays."""
        if np.isinf(self.clip) or self.clip_rate == 0:
            return np.inf
        if self.count_noise is not None:
            return float(self.count_noise)
        expected = self.number if self.number is not None else (self.rate or 0.0) * task.n_clients
        return max(expected / 20, *self.noise())

    own = ("personal", "begun")

    @typed
    def start(self, task: Terms, *, rounds: int) -> dict[str, Any]:
        """Shared parameters, clipping norm, and personal parameters of the clients that have `begun`."""
        state = {"shared": np.asarray(task.initial(), dtype=float), "clip": np.array(float(self.clip))}
        self.privacy_plan(task, rounds=rounds)  # refuses levels and noise that cannot be, before any round
        if self.lam is not None:
            state["personal"] = rows_of(np.zeros(task.model.n_parameters, np.float32), task.n_clients)
            state["begun"] = np.zeros(task.n_clients, bool)
        return state

    @typed
    def privacy_plan(self, task: Terms, *, rounds: int) -> PrivacyPlan:
        """In every round, of each level with noise and weight: a sum of clipped updates, and a count where S moves."""
        counts, releases = self.counts(task), []
        for level in self.levels(task):
            updates = update_multiplier(level.multiplier, counts)
            if updates > 0 and level.ratio > 0:
                same = {"rounds": range(rounds), "clients": level.mask}
                releases.append(Release(what="sum", noise=updates, **same))
                if np.isfinite(counts):
                    releases.append(Release(what="count", noise=2 * counts, **same))
        kept = () if self.lam is None else ("personal models, trained without noise: they stay with their clients",)
        return PrivacyPlan(releases=releases, uncovered=kept)

    @typed
    def called(self, task: Terms, t: int) -> np.ndarray:
        """Participants, but for levels that take no part."""
        active = np.any([level.mask for level in self.levels(task) if level.ratio > 0], axis=0)
        clients = super().called(task, t)
        return clients[active[clients]]

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """Train from the shared parameters, and one's own parameters on the same batches, pulled to the shared ones."""
        steps, rate, shared = task.schedule(t, clients), self.pace(t), message["shared"]
        update = task.train(shared, t, learning_rate=rate, steps=steps) - shared
        if self.lam is None:
            return {"updates": update}, {}
        levels = self.levels(task)
        lam = np.select([level.mask[clients] for level in levels], [level.lam for level in levels])
        starts = np.where(own["begun"][:, None], own["personal"], shared.astype(np.float32))
        ends = task.train(starts, t, learning_rate=rate, steps=steps, pull=(lam, shared)).astype(np.float32)
        return {"updates": update}, {"personal": ends, "begun": np.ones(len(clients), bool)}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """Add the noisy average of the updates, move the clipping norm.

        The notes (how many took part, the norm, the share of clipped updates) are exact: for the experimenter, who must not
        publish the first and the last.
        """
        updates = reply.get("updates", np.zeros((0, task.model.n_parameters)))
        norms, changed = np.sqrt(np.einsum("cp,cp->c", updates, updates)), dict(server)
        notes = self.aggregate(task, changed, t, clients, self.levels(task), updates, norms)
        return changed, {"participants": len(clients), **notes}

    @typed
    def aggregate(
        self, task: Terms, state: dict[str, Any], t: int, clients: Any, levels: Any, updates: np.ndarray, norms: np.ndarray
    ) -> dict[str, Any]:
        """Add the noisy average of the updates to a state's "shared", move its "clip"; return notes on the clipping."""
        clip = float(state["clip"])
        scale = np.minimum(1, clip / np.maximum(norms, np.finfo(float).tiny))
        step, weight, total = np.zeros(task.model.n_parameters), 0.0, 0.0
        for j, level in enumerate(levels):
            if level.ratio == 0:
                continue
            own = level.mask[clients]
            private = level.multiplier > 0
            n = self.rate * level.mask.sum() if private and self.rate is not None else own.sum()
            if private and n > 0:
                added = task.noisy(
                    updates[own], t, weights=scale[own], what="sum", clients=np.flatnonzero(level.mask), sensitivity=clip,
                    multiplier=update_multiplier(level.multiplier, self.counts(task)), stage=j,
                )  # fmt: skip
            else:
                added = weighted_sum(scale[own], updates[own])
            step, weight, total = step + level.ratio * added, weight + level.ratio * n, total + n
        if weight > 0:
            state["shared"] = state["shared"] + step / weight
        inside = norms <= clip
        if np.isfinite(clip) and self.clip_rate > 0 and total > 0:
            votes = inside - 0.5
            private = [level.mask for level in levels if level.multiplier > 0 and level.ratio > 0]
            counted = votes.sum()
            if private:
                counted = task.noisy(
                    votes, t, what="count", clients=np.flatnonzero(np.any(private, axis=0)), sensitivity=0.5,
                    multiplier=2 * self.counts(task), stage=len(levels),
                )  # fmt: skip
            fraction = 0.5 + counted / total
            state["clip"] = np.array(clip * np.exp(-self.clip_rate * (fraction - self.quantile)))
        return {"clip": clip, "clipped": 1 - inside.sum() / max(len(inside), 1)} if np.isfinite(clip) else {}

    @typed
    def personalise(self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """What the client has trained, or the shared model until it has; None where no personal models are wanted."""
        if self.lam is None:
            return None
        if own["begun"].all():
            return own["personal"]
        return np.where(own["begun"][:, None], own["personal"], message["shared"].astype(np.float32))

    @typed
    def guarantees(self, task: Terms, *, rounds: int) -> list[Guarantee | None]:
        """Guarantee of each client against everyone who sees the shared models of all rounds; None without noise.

        Clients of a level of ratio 0 send nothing, and get None too.  Choosing ratio or lam by looking at several runs
        costs more than the guarantee of one run says.
        """
        found = np.full(task.n_clients, None)
        if self.rate is None:
            rate, sampling = (self.number or 0) / task.n_clients, "fixed"
        else:
            rate, sampling = self.rate, "poisson"
        counts = self.counts(task)
        for release in self.privacy_plan(task, rounds=rounds).releases:
            if release.what == "sum":
                found[release.clients] = client_guarantee(
                    release.noise, counts, rate=rate, sampling=sampling, rounds=release.number, delta=self.delta or 0.0,
                    accountant=self.accountant,
                )  # fmt: skip
        return found.tolist()


@dataclass(frozen=True, kw_only=True)
class DPFedAvg(ClippedAverage):
    """DP-FedAvg with adaptive clipping (McMahan et al. 2018, Andrew et al. 2021): all clients in one level.

    Claims: fedhdp:dp-noise, fedhdp:table1.

    Parameters
    ----------
    multiplier : number >= 0, noise of updates and counts together in units of their sensitivity; 0: none.
    learning_rate, decay, rate, number, clip, quantile, clip_rate, count_noise, delta, accountant, lam : `ClippedAverage`.
    """

    multiplier: float = 0.0

    def noise(self) -> list[float]:
        """The one multiplier."""
        return [single(nonnegative, "multiplier", self.multiplier)]

    @typed
    def levels(self, task: Terms) -> list[Level]:
        """One level."""
        return [Level(np.ones(task.n_clients, bool), self.noise()[0], 1.0, own_lam(self.lam, 0))]


@dataclass(frozen=True, kw_only=True)
class FedHDP(ClippedAverage):
    """FedHDP, Algorithm 2: levels of privacy, each with its own noise and weight.

    With all ratios 1 it is the paper's HDP-FedAvg; with one level, `DPFedAvg`.  Claims: fedhdp:alg2, fedhdp:dp-noise.

    Parameters
    ----------
    groups : names of task.groups, the levels; together they hold every client once.
    multipliers : numbers >= 0, noise of each level, updates and counts together; 0: none.
    ratios : numbers >= 0, weight of one client of each level; a level of ratio 0 takes no part.
    learning_rate, decay, rate, number, clip, quantile, clip_rate, count_noise, delta, accountant, lam : `ClippedAverage`.
    """

    groups: tuple = field(default=("public", "private"))
    multipliers: tuple
    ratios: tuple

    def __post_init__(self):
        if not len(self.groups) == len(self.multipliers) == len(self.ratios):
            raise ValueError("groups, multipliers and ratios must have one entry for each level")
        if not (nonnegative("ratios", self.ratios) > 0).any():
            raise ValueError("ratios must be > 0 for at least one level")
        if np.ndim(self.lam) and len(self.lam) != len(self.groups):
            raise ValueError(f"lam must be a number or have one entry for each of the {len(self.groups)} levels")
        super().__post_init__()

    def noise(self) -> list[float]:
        """The multipliers."""
        return [float(z) for z in nonnegative("multipliers", self.multipliers)]

    @typed
    def levels(self, task: Terms) -> list[Level]:
        """A level for each group."""
        return split(task, self.groups, self.noise(), self.ratios, self.lam)


@dataclass(frozen=True, kw_only=True)
class FeO2(ClippedAverage):
    """FeO2, Algorithm 1: clients that opted out of privacy, and clients that did not; FedHDP with two levels.

    Claims: feo2:alg1, fedhdp:alg2.

    Parameters
    ----------
    public, private : names of task.groups, which together hold every client once.
    multiplier : number >= 0, noise of the private clients, updates and counts together.
    ratio : number >= 0, weight of a private client relative to a public one; 0: private clients take no part.
    learning_rate, decay, rate, number, clip, quantile, clip_rate, count_noise, delta : see `ClippedAverage`.
    lam : None, a number, or a pair (of public, of private clients).
    """

    public: str = "public"
    private: str = "private"
    multiplier: float
    ratio: float

    def __post_init__(self):
        nonnegative("ratio", self.ratio)
        if np.ndim(self.lam) and len(self.lam) != 2:
            raise ValueError("lam must be a number or a pair, of the public and of the private clients")
        super().__post_init__()

    def noise(self) -> list[float]:
        """None for those who opted out."""
        return [0.0, single(nonnegative, "multiplier", self.multiplier)]

    @typed
    def levels(self, task: Terms) -> list[Level]:
        """Two levels."""
        return split(task, (self.public, self.private), self.noise(), (1.0, self.ratio), self.lam)


def split(task: Terms, names: Any, multipliers: Any, ratios: Any, lam: Any) -> list[Level]:
    """List of `Level` from groups of the task, which must hold every client once."""
    for name in names:
        if name not in task.groups:
            raise ValueError(f"task has no group {name!r}; it has {', '.join(sorted(task.groups)) or 'none'}")
    masks = np.zeros((len(names), task.n_clients), bool)
    for mask, name in zip(masks, names, strict=True):
        mask[task.groups[name]] = True
    if (masks.sum(axis=0) != 1).any():
        k = int(np.flatnonzero(masks.sum(axis=0) != 1)[0])
        raise ValueError(f"groups {', '.join(names)} must hold every client once; client {k} is in {masks[:, k].sum()}")
    parts = zip(masks, multipliers, ratios, strict=True)
    return [Level(mask, z, float(ratio), own_lam(lam, j)) for j, (mask, z, ratio) in enumerate(parts)]
