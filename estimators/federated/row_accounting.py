"""Noise of private rows where training is not all that sees them: private choices beside it, the best of several runs.

Every round of DP-SGD, every choice by the exponential mechanism and the tuning add up at each Renyi order (claims
mrmtl:appA:composition:adaptive, mrmtl:algA2:privacy, mrmtl:thmF.2), under the adjacency of the task's sampling.

Belongs here: calibration and guarantees of `RowPrivacy` beside such releases.  Does not belong here: training alone
(``privacy``), the curves themselves (``estimators.accounting.privacy``, ``mechanisms``, ``tuning``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting import privacy
from estimators.accounting.accountants import calibrate_noise, divergences, stated
from estimators.accounting.budget import Guarantee
from estimators.accounting.events import SAMPLINGS
from estimators.accounting.mechanisms import exponential_zcdp
from estimators.accounting.privacy import ORDERS
from estimators.federated.kinds import typed
from estimators.federated.privacy import RowPrivacy, row_steps
from estimators.numerics.validation import count, nonnegative, single

if TYPE_CHECKING:
    from estimators.federated.task import Terms

__all__ = ["TunedRowPrivacy", "choices_rho", "guarantees_beside"]


@dataclass(frozen=True, kw_only=True)
class TunedRowPrivacy(RowPrivacy):
    """Privacy of rows when only the best of several runs, by a private score, is published: `RowPrivacy` of that.

    A row is for training or for scoring, not for both, so one run costs the larger of the two.  Claims: mrmtl:thmF.2,
    mrmtl:thmF.2:grid.

    Parameters
    ----------
    eps, delta, clip : as in `RowPrivacy`, of what is published.
    runs : TruncatedNegativeBinomial, PoissonRuns or FixedRuns of ``estimators.accounting.tuning``.
    score_rho : number >= 0, zero-concentrated rate of one run's score.
    """

    runs: Any
    score_rho: float

    @typed
    def multiplier(self, eps: Any, delta: Any, steps: Any, rho: Any) -> float:
        """Noise multiplier of one client in every run."""
        return tuned_multiplier(eps, delta, steps, rho, self.runs, self.score_rho)

    @typed
    def guarantees(self, task: Terms, *, rounds: int) -> list[Guarantee | None]:
        """Guarantee of each client's rows after publishing the best run."""
        return guarantees_beside(self, task, rounds=rounds, rho=0.0)


@typed
def choices_rho(eps: Any, number: Any) -> float:
    """Zero-concentrated rate of `number` choices by the exponential mechanism, each of `eps`.

    Claim: mrmtl:appA:em-zcdp.

    >>> choices_rho(2.0, 10)
    5.0
    """
    return float(exponential_zcdp(eps=single(nonnegative, "eps", eps))) * single(count, "number", number, 0)


def release(z: Any, steps: Any, rho: Any, runs: Any, score_rho: float) -> Any:
    """Renyi divergences at ORDERS of all that is published about a client's rows; runs None: training is not repeated."""
    orders = np.array(ORDERS)
    curve = divergences(steps.at(z)) if z else np.zeros(len(orders))
    curve = curve + rho * orders
    return curve if runs is None else runs.rdp(orders, np.maximum(curve, score_rho * orders))


@lru_cache(maxsize=4096)
def tuned_multiplier(eps: Any, delta: Any, steps: Any, rho: Any, runs: Any, score_rho: float) -> float:
    """Noise multiplier with which the best of several runs is (eps, delta)-private."""
    alone = privacy.epsilon_from_rdp(ORDERS, release(0.0, steps, rho, runs, score_rho), delta=delta)
    if alone >= eps:
        raise ValueError(
            f"eps={eps:g} at delta={delta:g} is spent before training: tuning alone costs {alone:.4g}; "
            "try fewer runs, more score_noise, or raise eps"
        )

    def spent(z):
        return privacy.epsilon_from_rdp(ORDERS, release(z, steps, rho, runs, score_rho), delta=delta)

    return calibrate_noise(spent, eps=eps)


@typed
def guarantees_beside(rows: Any, task: Terms, *, rounds: int, rho: Any) -> list[Any]:
    """Guarantee of each client's rows for training and what is published beside it, None where eps is inf.

    What is tuned is private against those who see the published run only, not against who sees all runs: `trusted` is
    "server" then.
    """
    tuned, found = isinstance(rows, TunedRowPrivacy), []
    runs, score_rho = (rows.runs, rows.score_rho) if tuned else (None, 0.0)
    z = rows.multipliers(task, rounds=rounds, rho=rho)
    rho = np.broadcast_to(rho, task.n_clients).tolist()
    for (eps, delta), steps, own, multiplier in zip(rows.budgets(task), row_steps(task, rounds), rho, z, strict=True):
        if np.isinf(eps):
            found.append(None)
            continue
        curve = release(multiplier, steps, own, runs, score_rho)
        spent = float(privacy.epsilon_from_rdp(ORDERS, curve, delta=delta))
        adjacency, shift = SAMPLINGS[steps.sampling]
        if steps.rate == 1 and not tuned:  # all real orders
            rate = own + steps.number * (shift / multiplier) ** 2 / 2
            spent = min(spent, float(privacy.epsilon_from_zcdp(rho=rate, delta=delta)))
        beside = ("mrmtl:thmF.2",) if tuned else ("mrmtl:algA2:privacy", "mrmtl:appA:em-zcdp")
        found.append(
            Guarantee(
                max(spent, np.finfo(float).tiny), delta, adjacency, "server" if tuned else "client",
                "best of several runs" if tuned else "sampled gaussian and private choices",
                renyi=tuple(map(float, curve)), claims=("mrmtl:appA:composition:adaptive", "mrmtl:eq13", *beside),
                accountant=stated("rdp"), simulated=True,
            )
        )  # fmt: skip
    return found
