"""One training of each kind, audited by its own canaries; and trainings broken on purpose.

The canaries of most cases are the worst that there are: each row (or client) moves one parameter of its own by as much as
clipping lets it, so that the auditor reads the likelihood ratio of being in off the models of all rounds.  Ordinary rows are
trained on beside them.  The last case is what an outsider can do, who has the last model only, and rows with wrong labels.

Belongs here: canaries, scores and sizes of single trainings, the broken ones, the list of all.  Does not belong here: coins,
guesses and bounds (``one_run``), audits by many runs (``audit_cases``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.algorithms.basic import FedAvg, Local
from estimators.federated.algorithms.fedhdp import DPFedAvg
from estimators.federated.audit import FAR, row_statistics
from estimators.federated.data.federation import Federation
from estimators.federated.kinds import typed
from estimators.federated.models import linear_regression, logistic_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.one_run import SHARES, OneRun, audit_training
from estimators.federated.privacy import RowPrivacy, client_multiplier

if TYPE_CHECKING:
    from estimators.federated.task import Task

__all__ = ["BROKEN", "CASES", "clients", "rows", "wrong_labels"]

DELTA = 1e-5
FEATURES = 5  # of ordinary rows
CLIP, STEP = 0.5, 0.01


def planted(clients: int, each: int, ordinary: int, *, apart: bool, seed: int) -> Federation:
    """Clients with `each` canaries before their ordinary rows; the features of canaries are their own in all the federation
    if it trains one model, and else within their client."""
    rng, m = np.random.default_rng([seed, 1]), clients * each
    x = np.zeros((m + clients * ordinary, FEATURES + (m if apart else each)))
    x[np.arange(m), FEATURES + (np.arange(m) if apart else np.tile(np.arange(each), clients))] = FAR
    x[m:, :FEATURES] = rng.standard_normal((clients * ordinary, FEATURES))
    y = np.full(len(x), FAR**3)
    y[m:] = x[m:, :FEATURES].sum(axis=1) + rng.standard_normal(clients * ordinary)
    own = np.arange(m).reshape(clients, each), m + np.arange(clients * ordinary).reshape(clients, ordinary)
    return Federation(x, y, list(np.concatenate(own, axis=1)), name="canaries")


def moves(seen: list[dict[str, Any]], name: str) -> np.ndarray:
    """How far each canary's parameter moved in each round, array (m, rounds)."""
    found = [np.ravel(models[name][..., FEATURES:-1]) for models in seen]
    return np.diff(found, axis=0).T


@typed
def rows(
    *,
    silos: int = 1,
    canaries: int = 4000,
    ordinary: int = 200,
    rate: float = 1.0,
    rounds: int = 5,
    eps: float = 4.0,
    shared: bool = False,
    seed: int = 0,
    backend: Any = None,
) -> OneRun:
    """Audit DP-SGD of rows by one training: one silo is central training, several train alone or share a model.

    Parameters
    ----------
    silos, canaries (of each), ordinary (rows of each), rounds : whole numbers >= 1; rate : number in (0, 1], of Poisson
        batches; eps : number > 0, that noise is calibrated for, at delta 1e-5.
    shared : whether the silos average one model (FedAvg), of which alone the auditor hears.
    seed : whole number; backend : of the task, for broken ones.

    >>> found = rows(silos=20, canaries=100, rounds=2)
    >>> found.refuted, found.canaries, 0.5 < found.proved < found.claimed
    (False, 2000, True)
    """
    federation = planted(silos, canaries, ordinary, apart=shared, seed=seed)
    batch = rate * (canaries + ordinary)
    privacy = RowPrivacy(eps=eps, delta=DELTA, clip=CLIP)
    algorithm = (FedAvg if shared else Local)(learning_rate=STEP * batch, privacy=privacy)

    def score(task: Task, seen: list[dict[str, Any]]) -> np.ndarray:
        noise = float(algorithm.privacy_plan(task, rounds=rounds).multipliers(task)[0])
        many = silos if shared else 1  # models that are averaged, with a noise each
        sums = moves(seen, "shared" if shared else "personal") * many / (STEP * CLIP)
        return row_statistics(sums, multiplier=noise * np.sqrt(many), rate=rate)[:, 0]

    return audit_training(
        algorithm, federation, linear_regression(federation.x.shape[1]), rounds=rounds, seed=seed, backend=backend,
        work={"rule": "poisson", "n_steps": 1, "batch_size": batch}, score=score,
        canaries=[(k, i) for k in range(silos) for i in range(canaries)], name=f"DP-SGD of rows at {silos} silos, one run",
    )  # fmt: skip


@typed
def clients(
    *,
    canaries: int = 2000,
    ordinary: int = 200,
    rate: float = 0.5,
    rounds: int = 4,
    eps: float = 4.0,
    seed: int = 0,
    algorithm: Any = DPFedAvg,
    shares: Any = SHARES,
) -> OneRun:
    """Audit DP-FedAvg by one training: each canary is a client; the auditor sees the shared models.

    Parameters
    ----------
    canaries, ordinary : whole numbers of clients; rate, rounds, eps : as in `rows`; seed : whole number.
    algorithm : what trains, for broken ones; what DPFedAvg promises is audited.
    shares : of the canaries, whom to guess, as in ``one_run.judged_guesses``.
    """
    pool = planted(1, canaries, 10 * ordinary, apart=True, seed=seed)
    train = [*np.arange(canaries)[:, None], *(canaries + np.arange(10 * ordinary).reshape(ordinary, 10))]
    federation = Federation(pool.x, pool.y, train, name="canaries")
    noise = client_multiplier(eps=eps, delta=DELTA, rate=rate, rounds=rounds)
    how: dict[str, Any] = {
        "learning_rate": 1e-3,
        "rate": rate,
        "clip": 1.0,
        "clip_rate": 0.0,
        "multiplier": noise,
        "delta": DELTA,
    }

    def score(task: Task, seen: list[dict[str, Any]]) -> np.ndarray:
        sums = moves(seen, "shared") * rate * task.n_clients
        return row_statistics(sums, multiplier=noise, rate=rate)[:, 0]

    return audit_training(
        algorithm(**how), federation, linear_regression(pool.x.shape[1]), rounds=rounds, seed=seed, claim=DPFedAvg(**how),
        work={"rule": "epochs", "n_epochs": 1, "batch_size": 10}, score=score, canaries=list(range(canaries)),
        name=f"DP-FedAvg of {canaries + ordinary} clients, one run", shares=shares,
    )  # fmt: skip


@typed
def wrong_labels(
    *,
    canaries: int = 1000,
    ordinary: int = 1000,
    features: int = 3000,
    rounds: int = 40,
    eps: float = 2.0,
    seed: int = 0,
    backend: Any = None,
) -> OneRun:
    """Audit a classifier by one training and its last model: canaries are noise with labels drawn at random.

    Parameters
    ----------
    canaries, ordinary, features, rounds : whole numbers >= 1; with more features than rows there is room for wrong labels.
    eps : as in `rows`; seed : whole number; backend : for broken ones.
    """
    rng, classes = np.random.default_rng([seed, 2]), 4
    centres = rng.standard_normal((classes, features))
    y = rng.integers(0, classes, canaries + ordinary)
    x = rng.standard_normal((canaries + ordinary, features))
    x[canaries:] += 0.3 * centres[y[canaries:]]
    federation = Federation(x, y, [np.arange(canaries + ordinary)], classes=classes, name="wrong labels")
    algorithm = Local(learning_rate=4.0, privacy=RowPrivacy(eps=eps, delta=DELTA, clip=1.0))
    return audit_training(
        algorithm, federation, logistic_regression(features, classes), rounds=rounds, seed=seed, backend=backend,
        work={"rule": "poisson", "n_steps": 1, "batch_size": len(y)}, canaries=[(0, i) for i in range(canaries)],
        name="classifier, wrong labels, last model, one run",
    )  # fmt: skip


CASES: dict[str, Callable[..., OneRun]] = {
    "one run: central, all rows": rows,
    "one run: central, Poisson": partial(rows, rate=0.25),
    "one run: silos": partial(rows, silos=100, canaries=200),
    "one run: silos, Poisson": partial(rows, silos=100, canaries=200, rate=0.25),
    "one run: FedAvg": partial(rows, silos=5, canaries=400, rate=0.25, shared=True),
    "one run: DP-FedAvg": clients,
    "one run: wrong labels": wrong_labels,
}
"""Audits of one training each, of seconds."""


# --- broken on purpose -------------------------------------------------------------------------------------------------


class LessNoise(NumpyBackend):
    """Adds a part of the noise that it is asked for."""

    def __init__(self, part: float) -> None:
        super().__init__()
        self.part = part

    def local_sgd(self, *args: Any, noise: Any = None, **how: Any) -> np.ndarray:
        """Train with too little noise."""
        less = None if noise is None else replace(noise, multiplier=self.part * noise.multiplier)
        return super().local_sgd(*args, noise=less, **how)


class NotClipped(NumpyBackend):
    """Clips gradients to so much that none is, with the noise that it is asked for."""

    def local_sgd(self, *args: Any, clip: Any = None, noise: Any = None, **how: Any) -> np.ndarray:
        """Train without clipping."""
        less = None if noise is None else replace(noise, multiplier=noise.multiplier / FAR**5)
        return super().local_sgd(*args, clip=None if clip is None else FAR**5 * clip, noise=less, **how)


@dataclass(frozen=True, kw_only=True)
class QuietServer(DPFedAvg):
    """A server that adds a part of the noise that its clients are promised."""

    part: float

    def noise(self) -> list[float]:
        """Too little, or none."""
        return [self.part * self.multiplier]


BROKEN: dict[str, Callable[..., OneRun]] = {
    "one run, no noise": partial(rows, silos=20, canaries=100, backend=LessNoise(0.0)),
    "one run, half the noise": partial(rows, silos=200, canaries=200, backend=LessNoise(0.5)),
    "one run, not clipped": partial(rows, silos=20, canaries=100, backend=NotClipped()),
    "one run, no noise at the server": partial(clients, canaries=1000, rate=1.0, algorithm=partial(QuietServer, part=0.0)),
    "one run, half the noise at the server": partial(
        clients, canaries=5000, ordinary=20, rate=1.0, rounds=1, algorithm=partial(QuietServer, part=0.5), shares=(0.15,)
    ),
    "one run, wrong labels, no noise": partial(wrong_labels, backend=LessNoise(0.0)),
}
"""Trainings that are broken, each in one way; every audit must refute the claim."""
