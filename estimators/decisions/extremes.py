"""r-values: how far up a list of clients one must go to meet this one, if every list is the best of its length.

Belongs here: ranking for the upper tail.  Expected ranks are in ``ranking``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from estimators.decisions.posterior import several
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import finite, nonnegative, paired, positive, single

__all__ = ["normal_r_values", "r_values"]

LISTS = 1000  # lengths of lists that are tried


def r_values(model: Any, largest_first: bool = True) -> Floats:
    """Shares a of the clients, the smallest for which a client belongs to the best list of the upper a of them.

    Theta_a is exceeded by a m of the m clients, as their posteriors have it, and the list holds the a m who exceed it most
    probably.  Henderson and Newton (2016, J. R. Statist. Soc. B 78:781) with these very clients in place of the prior's
    law, so that it serves every model; a list of the r-values up to a is at most a m long, or longer by ties.

    Parameters
    ----------
    model : fitted ``ClientModel`` with one number per client, at least two clients.
    largest_first : whether the upper tail is of large values.

    Returns
    -------
    array (m,)
        In (0, 1]; multiples of 1 / m, up to 1000 of them evenly spaced.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> model = GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([2.0, 1.2, -0.5, 3.0], [1.0, 0.25, 0.25, 4.0])
    >>> r_values(model).tolist()
    [0.25, 0.5, 1.0, 0.75]
    """
    m = several(model, "r_values")
    if model.posterior_mean_.ndim > 1:
        raise ValueError("r_values take models with one number per client")
    model = model.averaged()
    lengths = np.unique(np.linspace(1, m, min(m, LISTS)).round().astype(int))
    found = np.ones(m)
    mean, sd = model.posterior_mean_, np.where(np.isfinite(model.posterior_sd_), model.posterior_sd_, 0.0)
    ends = float(np.min(mean - 10 * sd)) - 1e-9, float(np.max(mean + 10 * sd)) + 1e-9
    for k in lengths[-2::-1]:  # from long lists to short ones, so that the shortest stays
        theta = threshold(model, float(k), ends, largest_first)
        inside = chances(model, theta, largest_first)
        least = np.partition(inside, m - k)[m - k]
        found[inside >= least] = k / m
    return found


def chances(model: Any, t: float, largest_first: bool) -> Floats:
    """Return P(theta_i >= t), or <= t."""
    return 1 - model.posterior_cdf(t, strict=True) if largest_first else model.posterior_cdf(t)


def threshold(model: Any, wanted: float, ends: tuple[float, float], largest_first: bool) -> float:
    """Return the t that `wanted` clients are expected to reach, by bisection."""
    low, high = ends if largest_first else ends[::-1]  # at low all reach it
    for _ in range(60):
        middle = (low + high) / 2
        if abs(high - low) <= 1e-10 * (abs(low) + abs(high)):
            break
        if float(np.sum(chances(model, middle, largest_first))) >= wanted:
            low = middle
        else:
            high = middle
    return low


@paired
def normal_r_values(estimates: ArrayLike, variances: ArrayLike, mu: float = 0.0, tau2: float = 1.0) -> Floats:
    """r-values under a known normal prior: how large a share of all clients, seen and unseen, the best list needs.

    Model: theta ~ N(mu, tau2), estimate ~ N(theta, variance), where the variance of a client is one of those given, each as
    likely.  With theta_a the upper a-quantile of the prior and V_a = P(theta >= theta_a | data), client i gets the least a
    for which V_a(i) >= lambda_a, where P(V_a >= lambda_a) = a over all clients (Henderson and Newton 2016).

    Parameters
    ----------
    estimates : array (m,); variances : array (m,) or number > 0; mu : number; tau2 : number >= 0.

    Returns
    -------
    array (m,)
        In (0, 1).  Exact to about eight digits.

    Raises
    ------
    ValueError
        Naming the argument; for tau2 = 0, where nobody is above another.

    >>> y, v = [2.0, 1.2, -0.5, 3.0, 0.8, 0.1], [1.0, 0.25, 0.25, 4.0, 0.1, 1.0]
    >>> normal_r_values(y, v).round(4).tolist()
    [0.0794, 0.1186, 0.6906, 0.1659, 0.2016, 0.471]
    """
    from scipy.special import ndtr

    y, v = finite("estimates", estimates), positive("variances", variances)
    mu, tau2 = single(finite, "mu", mu), single(nonnegative, "tau2", tau2)
    if y.ndim != 1 or not y.size or v.shape not in ((), y.shape):
        raise ValueError(
            f"estimates must be one per client, with one variance or one each, got shapes {y.shape} and {v.shape}"
        )
    if tau2 == 0:
        raise ValueError("tau2 must be > 0: with 0 all clients are alike, and none is above another")
    z, ratio = (y - mu) / np.sqrt(tau2), np.broadcast_to(v / tau2, y.shape)
    own = 1 / (1 + ratio)
    designs, copies = np.unique(own, return_counts=True)

    def surplus(upper):  # how far V_a lies above lambda_a, both as normal quantiles, where a = Phi(-upper)
        return (own * z - upper) / np.sqrt(1 - own) - levels(upper, designs, copies / y.size)

    # The least a: first on a mesh, evenly spaced in normal quantiles, then by bisection of the first rise above 0.
    mesh = np.linspace(7.5, -7.5, 601)
    first, found = np.zeros(y.size, int), np.zeros(y.size, bool)
    for k, level in enumerate(levels(mesh, designs, copies / y.size)):
        reached = (own * z - mesh[k]) / np.sqrt(1 - own) >= level
        first[reached & ~found], found = k, found | reached
    high, low = mesh[np.maximum(first - 1, 0)], mesh[first]
    for _ in range(45):
        middle = (low + high) / 2
        reached = surplus(middle) >= 0
        low, high = np.where(reached, middle, low), np.where(reached, high, middle)
    return np.where(found, ndtr(-low), 1.0)


def levels(upper: Floats, own: Floats, shares: Floats) -> Floats:
    """Return the normal quantile of lambda_a, for a = Phi(-upper): P(V_a >= lambda_a) = a over clients of these designs.

    The posterior means of clients whose estimates weigh `own` have the variance own, their posteriors 1 - own.
    """
    from scipy.special import ndtr

    low, high = np.full(upper.shape, -60.0), np.full(upper.shape, 60.0)
    for _ in range(60):
        middle = (low + high) / 2
        reach = (upper[:, None] + middle[:, None] * np.sqrt(1 - own)) / np.sqrt(own)
        above = np.einsum("aj,j->a", ndtr(-reach), shares) >= ndtr(-upper)
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low
