"""An audit of each mechanism that the toolkit runs: the claimed eps beside what an adversary proves.

Belongs here: canaries, statistics and claims of single mechanisms, and the list of all.  Does not belong here: bounds from
samples and the worlds they come from (``audit``), drawing (``figures``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from estimators.accounting.adaped import adaped_epsilon
from estimators.accounting.budget import Guarantee, guarantee
from estimators.accounting.events import Event
from estimators.accounting.mechanisms import exponential_choice
from estimators.accounting.tuning import TruncatedNegativeBinomial, tuned_epsilon
from estimators.federated.algorithms.fedhdp import DPFedAvg
from estimators.federated.audit import (
    Bound,
    client_releases,
    epsilon_bound,
    gaussian_bound,
    row_releases,
    row_statistics,
)
from estimators.federated.kinds import typed
from estimators.federated.privacy import client_guarantee, update_multiplier
from estimators.numerics.validation import choice

__all__ = ["CASES", "TIGHT", "Case", "averaged_clients", "clients", "exponential", "rows", "table", "tuned"]

TIGHT = 1e-5
"""Delta of bounds for Gaussian mechanisms."""


@dataclass(frozen=True)
class Case:
    """A claim and what was proved against it: `claimed` eps and `bound` at the bound's delta, for any mechanism.

    mechanism, adjacency : what was run, and against which neighbour.
    gaussian : claimed eps and bound at delta ``TIGHT`` where the mechanism is Gaussian without sampling, else None.
    """

    mechanism: str
    adjacency: str
    claimed: float
    bound: Bound
    gaussian: tuple | None = None

    @property
    def refuted(self) -> bool:
        """Whether one of the two claims is refuted; a true pair is with probability at most 2 beta."""
        return self.bound.refutes(self.claimed) or (self.gaussian is not None and self.gaussian[1].refutes(self.gaussian[0]))

    def row(self) -> dict[str, Any]:
        """Values for a table."""
        small = (None, None) if self.gaussian is None else (self.gaussian[0], self.gaussian[1].eps)
        return {
            "mechanism": self.mechanism, "adjacency": self.adjacency, "delta": self.bound.delta, "claimed": self.claimed,
            "proved": self.bound.eps, "runs": self.bound.runs, "claimed_gaussian": small[0], "proved_gaussian": small[1],
        }  # fmt: skip


def judged(name: str, claim: Guarantee, worlds: Any, *, delta: float, beta: float, exact: Guarantee | None = None) -> Case:
    """`Case` of samples from two worlds; `exact` : Guarantee at delta ``TIGHT`` of a Gaussian mechanism, or None."""
    gaussian = None if exact is None else (exact.eps, gaussian_bound(*worlds, delta=TIGHT, beta=beta))
    return Case(name, claim.adjacency, claim.eps, epsilon_bound(*worlds, delta=delta, beta=beta), gaussian)


@typed
def rows(
    rule: str="poisson",
    *,
    batch: int,
    n: int=100,
    multiplier: float=1.0,
    rounds: int=1,
    silo_count: int=200,
    delta: float=0.01,
    beta: float=0.01,
    seed: int=0,
    accountant: str="pld",
    **mutant: Any,
) -> Case:  # fmt: skip
    """Audit DP-SGD of rows at silos, one step a round, every iterate seen.

    Parameters
    ----------
    rule : of the task's work; batch : whole number >= 1, its size (n for "epochs": one batch a pass); n : rows of a silo.
    multiplier : noise; rounds, silo_count : whole numbers >= 1.
    delta, beta : of the bound; seed : whole number; accountant : of the claim.
    mutant : `backend`, `task` or `algorithm` of ``audit.row_releases``, broken on purpose.

    >>> case = rows(batch=100, silo_count=100)
    >>> case.refuted, bool(0.8 < case.gaussian[1].eps / case.gaussian[0] < 1)
    (False, True)
    """
    choice("rule", rule, ("poisson", "fixed", "epochs"))
    replaced = rule != "poisson"
    work = {"rule": rule, "batch_size": batch, ("n_epochs" if rule == "epochs" else "n_steps"): 1}
    others = -1 if rule == "fixed" and batch < n else None
    without, present = (
        row_releases(
            multiplier=multiplier, clip=0.5, work=work, rows=n, rounds=rounds, silo_count=silo_count, canary=canary,
            others=others, seed=2 * seed + (canary > 0), **mutant,
        )
        for canary in ((-1, 1) if replaced else (0, 1))
    )  # fmt: skip
    base = -batch if others else -1 if replaced else 0
    how = {"multiplier": multiplier, "rate": batch / n, "shift": 2.0 if replaced else 1.0, "base": base}
    worlds = [row_statistics(releases, **how) for releases in (without, present)]
    said = Event(noise=multiplier, sampling="fixed" if replaced else "poisson", rate=batch / n, number=rounds)
    claim = guarantee(said, delta=delta, accountant=accountant)
    steps = "1 step" if rounds == 1 else f"{rounds} steps"
    name = f"DP-SGD of rows, {rule}, batch {batch} of {n}, {steps}, z = {multiplier:g}"
    exact = guarantee(said, delta=TIGHT) if batch == n else None
    return judged(name, claim, worlds, delta=delta, beta=beta, exact=exact)


@typed
def clients(
    *,
    clients: int = 1,
    rate: float = 0.5,
    multiplier: float = 1.0,
    count_noise: float = 1.0,
    rounds: int = 4000,
    delta: float = 0.01,
    beta: float = 0.01,
    seed: int = 0,
    accountant: str = "pld",
    algorithm: Any = DPFedAvg,
) -> Case:
    """Audit one round of clipped, noisy averages of clients.

    `multiplier` covers updates and counts together; `algorithm` may be a mutant of DPFedAvg.  With one client the noisy
    count of adaptive clipping is audited too; with more, who are a run each, the updates alone.
    """
    made = algorithm(
        learning_rate=1e-3, rate=rate, clip=1.0, clip_rate=1e-4, multiplier=multiplier, count_noise=count_noise, delta=delta
    )
    z = update_multiplier(multiplier, count_noise)
    worlds = []
    for canary in (False, True):
        updates, counts = client_releases(made, canary=canary, rounds=rounds, clients=clients, seed=2 * seed + canary)
        found = [row_statistics(updates.reshape(-1, 1), multiplier=z, rate=rate)]
        if clients == 1:
            both = (updates / z**2 - counts[:, None] / (2 * count_noise**2)) * multiplier**2
            found += [row_statistics(both, multiplier=multiplier, rate=rate), counts[:, None]]
        worlds.append(np.concatenate(found, axis=1))
    released = count_noise if clients == 1 else np.inf
    claim = client_guarantee(z, released, rate=rate, rounds=1, delta=delta, accountant=accountant)
    name = f"DP-FedAvg of {clients} clients, rate {rate:g}, 1 round, z = {multiplier:g}"
    name += f", counts {count_noise:g}" if clients == 1 else ""
    exact = client_guarantee(z, released, rate=1.0, rounds=1, delta=TIGHT) if rate == 1 else None
    return judged(name, claim, worlds, delta=delta, beta=beta, exact=exact)


@typed
def exponential(
    *,
    eps: float = 1.0,
    candidates: int = 100,
    runs: int = 100_000,
    beta: float = 0.01,
    seed: int = 0,
    choose: Callable[..., Any] = exponential_choice,
) -> Case:
    """Audit a choice by the exponential mechanism, whose scores move by 1, up for one candidate and down for the others."""
    scores = np.zeros((2, candidates))
    scores[0, 0], scores[1, 1:] = 1, 1
    rngs = [np.random.default_rng([seed, world]) for world in (0, 1)]
    worlds = [
        (choose(s, eps=eps, sensitivity=1.0, rng=rng, size=runs) == 0).astype(float)
        for s, rng in zip(scores, rngs, strict=True)
    ]
    name = f"choice among {candidates} by the exponential mechanism"
    return Case(name, "row", eps, epsilon_bound(*worlds, delta=0.0, beta=beta))


@typed
def tuned(
    *,
    multiplier: float = 2.0,
    eta: float = 1.0,
    mean: float = 5.0,
    runs: int = 100_000,
    delta: float = 0.01,
    beta: float = 0.01,
    seed: int = 0,
) -> Case:
    """Audit publishing the best of a truncated negative binomial number of Gaussian runs, whose score is what they release.

    Claim: mrmtl:thmF.2.
    """
    from scipy.special import ndtri

    law = TruncatedNegativeBinomial.with_mean(eta=eta, mean=mean)
    orders = np.concatenate([np.arange(11, 60) / 10, np.arange(6, 200)])
    claimed = tuned_epsilon(law, orders, orders / (2 * multiplier**2), delta=delta)
    worlds = []
    for world in (0, 1):
        rng = np.random.default_rng([seed, world])
        number = law.sample(rng, runs)
        worlds.append(ndtri(rng.random(runs) ** (1 / number)) + world / multiplier)
    name = f"best of about {mean:g} Gaussian runs (eta = {eta:g})"
    return Case(name, "row add-remove", claimed, epsilon_bound(*worlds, delta=delta, beta=beta))


@typed
def averaged_clients(
    *,
    tau: int = 4,
    multiplier: float = 4.0,
    runs: int = 2000,
    delta: float = 0.01,
    beta: float = 0.01,
    seed: int = 0,
    **mutant: Any,
) -> Case:
    """Audit DP-AdaPeD's message: the model after tau noisy steps of a client all of whose data are replaced.

    Claims: generative:thm7:valid.
    """
    work = {"rule": "fixed", "n_steps": tau, "batch_size": 1}
    worlds = [
        row_statistics(
            row_releases(
                multiplier=multiplier, clip=0.5, work=work, rows=1, rounds=1, silo_count=runs, canary=canary,
                seed=2 * seed + (canary > 0), **mutant,
            ) / np.sqrt(tau),
            multiplier=multiplier, rate=1.0, shift=2 * np.sqrt(tau), base=-np.sqrt(tau),
        )
        for canary in (-1, 1)
    ]  # fmt: skip
    said = {"tau": tau, "T": tau, "K": 1, "m": 1, "C1": 1.0, "sigma2_q1": multiplier**2, "adjacency": "replace"}
    orders = np.concatenate([np.arange(11, 110) / 10, np.arange(11, 129)])
    gaussian = adaped_epsilon(delta=TIGHT, orders=orders, **said), gaussian_bound(*worlds, delta=TIGHT, beta=beta)
    claimed = adaped_epsilon(delta=delta, orders=orders, **said)
    name = f"DP-AdaPeD, message after {tau} noisy steps, z = {multiplier:g}"
    return Case(name, "client", claimed, epsilon_bound(*worlds, delta=delta, beta=beta), gaussian)


CASES = {
    "rows, all in every step": partial(rows, batch=100, silo_count=2000),
    "rows, passes": partial(rows, "epochs", batch=100, rounds=3, multiplier=4.0, silo_count=2000),
    "rows, Poisson": partial(rows, batch=25, rounds=3, multiplier=0.8, silo_count=2000),
    "rows, fixed size": partial(rows, "fixed", batch=1, n=4, rounds=2, multiplier=1.6, silo_count=10_000),
    "clients, all": partial(clients, clients=100, rate=1.0, rounds=1000),
    "clients, Poisson": partial(clients, clients=100, rounds=1000),
    "clients and counts": partial(clients, rate=1.0, rounds=4000),
    "choice": partial(exponential, runs=200_000),
    "tuning": partial(tuned, runs=1_000_000),
    "DP-AdaPeD": partial(averaged_clients, runs=10_000),
}
"""Audits of the size that tables show; each takes seconds. Any argument may be given anew, such as a smaller size."""


@typed
def table(*, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of all audits, a dict each."""
    return [{"case": name, **case(seed=seed).row()} for name, case in CASES.items()]
