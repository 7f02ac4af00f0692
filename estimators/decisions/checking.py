"""Whether the fitted prior goes with the clients' data: where each falls in what the model predicts for it.

Belongs here: predictive checks of any fitted model, by drawing data from it.  Exact leave-one-out predictions of normal
models are their own (``GaussianMeans.predictive_ranks``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from estimators.decisions.posterior import several
from estimators.numerics.arrays import Floats
from estimators.numerics.validation import count, index, single

__all__ = ["LEVELS", "PriorCheck", "prior_check"]

LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
DRAWS, WORK = (99, 999), 20_000_000  # fewest and most data sets, and numbers drawn by default


class PriorCheck(NamedTuple):
    """How the clients' own estimates fall in what the fitted prior predicts for them.

    pit : array (m,), predictive probability of less than was seen, ties split at random; even on (0, 1) if the prior holds.
        NaN for clients without data.
    statistic, p_value : Kolmogorov and Smirnov's distance of `pit` from even, and the probability of a larger one.
    levels, observed, low, high : quantiles of the clients' own estimates, and the ends between which 95 % of those of drawn
        data lie.
    left_out : whether a client's own data were left out of what predicts them.
    note : what the numbers cannot say.
    """

    pit: Floats
    statistic: float
    p_value: float
    levels: Floats
    observed: Floats
    low: Floats
    high: Floats
    left_out: bool
    note: str


def prior_check(model: Any, *, draws: int | None = None, seed: int = 0) -> PriorCheck:
    """Compare the clients' own estimates with data drawn from the fitted model; exact only in the limit of many draws.

    Probability integral transforms (Dawid 1984, J. R. Statist. Soc. A 147:278), randomised for counts (Czado, Gneiting and
    Held 2009, Biometrics 65:1254), and posterior predictive quantiles.

    Parameters
    ----------
    model : fitted ``ClientModel`` with one number per client, at least two clients.
    draws : whole number >= 1 of data sets, or None for 99 to 999, fewer of many clients; seed : whole number >= 0.

    Returns
    -------
    PriorCheck

    Raises
    ------
    ValueError
        For models without one own number per client, such as regressions.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> y = np.random.default_rng(0).normal(0.0, 2.0**0.5, 200)
    >>> right, wrong = (GaussianMeans("fixed", mu=0.0, tau2=t).fit(y, 1.0) for t in (1.0, 9.0))
    >>> prior_check(right).p_value > 0.1, prior_check(wrong).p_value < 1e-3
    (True, True)
    """
    from scipy.stats import kstwo

    m = several(model, "prior_check")
    own = model.own_numbers()
    if draws is None:
        draws = int(np.clip(WORK // m, *DRAWS))
    draws = int(single(count, "draws", draws))
    generator = np.random.default_rng(index("seed", seed, 0, 2**63))
    known = np.isfinite(own)
    below, ties = np.zeros(m), np.zeros(m)
    quantiles = np.empty((draws, len(LEVELS)))
    for i in range(draws):
        drawn = model.own_numbers(model.draw(generator)[1])
        below += drawn < own
        ties += drawn == own
        quantiles[i] = np.quantile(drawn[known], LEVELS)
    exact = model.predictive_ranks()
    pit = (below + generator.random(m) * (ties + 1)) / (draws + 1) if exact is None else exact
    pit = np.where(known, pit, np.nan)
    values = np.sort(pit[known])
    n = values.size
    if n < 2:
        raise ValueError("prior_check needs at least two clients with data")
    steps = np.arange(n + 1) / n
    statistic = float(max(np.max(steps[1:] - values), np.max(values - steps[:-1])))
    low, high = np.quantile(quantiles, (0.025, 0.975), axis=0)
    return PriorCheck(
        pit, statistic, float(kstwo.sf(statistic, n)), np.array(LEVELS), np.quantile(own[known], LEVELS), low, high,
        exact is not None, note(n, exact is not None, model),
    )  # fmt: skip


def note(n: int, left_out: bool, model: Any) -> str:
    """Return what the check cannot say."""
    told = []
    if model.prior_summary().get("found_by") != "fixed":
        seen = "all other clients" if left_out else "all clients, its own data among them"
        told.append(
            f"each client is predicted from {seen}, by a prior learnt to go with them: the p-value is too large, so a small "
            "one counts and a large one proves nothing"
        )
    if n < 50:
        told.append(f"{n} clients show gross misfits only")
    return "; ".join(told)
