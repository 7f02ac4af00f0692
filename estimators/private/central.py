"""The central model: a trusted server sees all clients' means and releases their common prior once, with noise.

Each client then shrinks its own exact mean at home (``MeanClient.at_home``).  Everybody but client i sees only what is
computed from the private release, so that all the estimates given to the others together are as private about client i as
the release: joint differential privacy (Kearns et al. 2014).  A client's own estimate is not private and stays with it.

Belongs here: that release.  Clients who trust no server use ``client`` and ``server``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from estimators.accounting.budget import Budget, Guarantee
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import fraction, nonnegative, paired, single
from estimators.private.client import DEFAULT_BITS, MeanClient
from estimators.private.prior import Prior, cut_normal, grid_posterior, log_normal
from estimators.private.raw_rows import read_rows
from estimators.private.reports import MeanReport

__all__ = ["CentralPrior", "release_prior"]


class CentralPrior(NamedTuple):
    """The released prior, how it is protected, and the release that it was computed from.

    prior : Prior; guarantee : Guarantee, for replacing all data of one client, the number of clients public;
    total_variance : noisy variance among the clipped means; mean_noise, variance_noise : variances of the noise.
    """

    prior: Prior
    guarantee: Guarantee
    total_variance: float
    mean_noise: float
    variance_noise: float


@paired
def release_prior(
    means: ArrayLike,
    variances: ArrayLike,
    *,
    bounds: tuple[float, float],
    eps: float,
    delta: float,
    variance_share: float = 0.5,
    mechanism: str | None = None,
    bits: int = DEFAULT_BITS,
    sigma2: float | None = None,
    generator: np.random.Generator | None = None,
    budget: Budget | None = None,
) -> CentralPrior:
    """Release the mean and the variance of the clients' true means, (eps, delta)-private for each client.

    Means are clipped to `bounds`, rounded at random to 2^bits levels and summed as integers; noise is added to their sum
    (which moves by at most high - low if a client is replaced) and to the sum of squared differences of all pairs (by at
    most (m - 1) (high - low)^2).  The noisy variance among the means estimates tau^2 plus the mean of `variances`; what it
    and its known error leave open about tau goes into the prior's grid; the centre lies between the bounds, alike likely
    anywhere.  A "row" of the trusted server is a client's mean (see ``MeanClient``).

    Parameters
    ----------
    means : array (m,) of the clients' raw means, m >= 2.
    variances : array (m,) or number >= 0, of their errors; public, such as sigma2 / n_i: they enter without noise.
    bounds : pair (low, high), fixed without looking at the data (`a_priori_bounds`).
    eps : number > 0 or inf; delta : number in [0, 1).
    variance_share : number in (0, 1), the share of the budget for the variance.
    mechanism, bits, generator : as for ``MeanClient``.
    sigma2 : number >= 0 or None, passed on to the clients in the prior.
    budget : accounting.Budget of adjacency "client" that the release is taken from, or None.

    Returns
    -------
    CentralPrior

    >>> rng = np.random.default_rng(0)
    >>> means = rng.normal(3.0, 1.0, 2000) + rng.normal(0.0, 0.5, 2000)
    >>> found = release_prior(means, 0.25, bounds=(-2.0, 8.0), eps=1.0, delta=1e-6, generator=rng)
    >>> round(found.prior.mean, 1), round(found.prior.variance, 1), found.guarantee.adjacency
    (3.0, 0.8, 'client')
    """
    means = read_rows(means, "means")
    variances = nonnegative("variances", variances)
    if len(means) < 2 or variances.shape not in ((), means.shape):
        raise ValueError(
            f"means must be of at least two clients, with one variance or one each, got {means.shape} and {variances.shape}"
        )
    single(fraction, "variance_share", variance_share)
    (report,) = noisy_moments(
        [means], [""], bounds=bounds, eps=eps, delta=delta, generator=generator, variance_share=variance_share,
        mechanism=mechanism, bits=bits,
    )  # fmt: skip
    guarantee = replace(report.guarantee, adjacency="client", trusted="server")
    if budget is not None:
        if not isinstance(budget, Budget):
            raise ValueError(f"budget must be an accounting.Budget or None, got {type(budget).__name__}")
        budget.spend(guarantee)
    assert report.variance is not None  # a share of the budget is for it
    told = report.variance_noise
    assert told is not None  # as every report with a variance says it
    total, within, m = float(report.variance), float(np.mean(variances)), len(means)

    def given_tau(tau):
        spread = tau**2 + within
        error = 2 * spread**2 / (m - 1) + told
        mass, mu, mu_sd = cut_normal(report.estimate, np.sqrt(spread / m + report.noise_variance), low, high)
        return log_normal(total - spread, max(error, np.finfo(float).tiny)) + mass, mu, mu_sd

    low, high = report.bounds
    prior = grid_posterior(given_tau, (high - low) / 2, None if sigma2 is None else float(sigma2))
    return CentralPrior(prior, guarantee, total, report.noise_variance, told)


def noisy_moments(
    means: list[Floats],
    names: list[str],
    *,
    generator: np.random.Generator | None,
    variance_share: float = 0.5,
    **settings: Any,
) -> list[MeanReport]:
    """Return the noisy mean and variance of each list of clients' means: a client is a row of the trusted server."""
    return MeanClient(variance_share=variance_share, **settings).reports(means, names, generator)
