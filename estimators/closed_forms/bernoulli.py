"""Bernoulli clients: client i answers n_i yes/no questions with its own probability p_i, drawn from a common prior.

Model: p_i ~ Beta(alpha, beta) (or any law on [0, 1] where a docstring says so), x_i ~ Binomial(n_i, p_i), i = 1..m.

Belongs here: posterior means, exact risks, estimates of the prior's mean and variance, and the two-point randomiser with
a protocol that learns both moments from private reports. Does not belong here: Gaussian means (``gaussian``), accounting
of many releases (``privacy``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import choice, count, finite, paired, positive, probability

__all__ = [
    "Moments",
    "PrivateReports",
    "estimate_rates",
    "limit_weight",
    "local_mse",
    "moments",
    "moments_from_reports",
    "mse",
    "naive_excess",
    "naive_variance_mean",
    "posterior_mean",
    "posterior_weight",
    "prior_variance",
    "private_reports",
    "private_variance",
    "randomize",
    "report_variance",
    "shrinkage_gain",
    "shrinkage_weight",
]


class Moments(NamedTuple):
    """Estimates of the prior's mean and variance."""

    mu: float
    sigma2: float


class PrivateReports(NamedTuple):
    """One report per client: of its mean, or of its share of pairs of samples that are both ones."""

    means: np.ndarray
    pairs: np.ndarray


def _read_prior(alpha, beta):
    alpha, beta = positive("alpha", alpha), positive("beta", beta)
    largest = max(alpha.max(initial=0.0), beta.max(initial=0.0))
    if largest > 1e300:
        raise ValueError(f"alpha and beta must be at most 1e300, got {largest:g}; beyond, the prior is a point")
    return alpha, beta


def _read_counts(x, n):
    n = count("n", n)
    x = count("x", x, 0)
    try:
        x, n = np.broadcast_arrays(x, n)
    except ValueError:
        raise ValueError(f"x and n must have one entry per client, got shapes {x.shape} and {n.shape}") from None
    if (x > n).any():
        raise ValueError("x must not exceed n: it counts the ones among n samples")
    return x, n


@paired
def prior_variance(alpha: ArrayLike, beta: ArrayLike) -> Floats:
    """Variance of a Beta(alpha, beta) probability; exact.

    >>> float(prior_variance(1, 1)) == 1 / 12
    True
    """
    alpha, beta = _read_prior(alpha, beta)
    s = alpha + beta
    return (alpha / s) * (beta / s) / (s + 1)


@paired
def local_mse(alpha: ArrayLike, beta: ArrayLike, n: ArrayLike) -> Floats:
    """Mean squared error of the client's own share of ones, x/n; exact.  Claim: generative:bern:known-mse:local.

    Parameters
    ----------
    alpha, beta : numbers > 0 of the Beta prior; n : whole number >= 1 of samples.

    >>> float(local_mse(1, 1, 2))
    0.08333333333333333
    """
    alpha, beta = _read_prior(alpha, beta)
    s = alpha + beta
    return (alpha / s) * (beta / (s + 1)) / count("n", n)


@paired
def posterior_weight(alpha: ArrayLike, beta: ArrayLike, n: ArrayLike) -> Floats:
    """Weight n/(alpha + beta + n) of the client's own share of ones in its posterior mean; exact.

    The posterior mean's squared error is this multiple of the local one.  Claim: generative:bern:posterior.

    >>> float(posterior_weight(1, 1, 2))
    0.5
    """
    alpha, beta = _read_prior(alpha, beta)
    n = count("n", n)
    return n / (alpha + beta + n)


@paired
def shrinkage_gain(alpha: ArrayLike, beta: ArrayLike, n: ArrayLike) -> Floats:
    """Relative gain (alpha + beta)/(alpha + beta + n) of the posterior mean over the local estimate; exact.

    Claim: generative:bern:known-mse:gain.

    >>> float(shrinkage_gain(1, 1, 14))
    0.125
    """
    alpha, beta = _read_prior(alpha, beta)
    return (alpha + beta) / (alpha + beta + count("n", n))


@paired
def posterior_mean(x: ArrayLike, n: ArrayLike, alpha: ArrayLike, beta: ArrayLike) -> Floats:
    """Posterior mean of a client's probability after x ones in n samples; exact.  Claim: generative:bern:posterior.

    Parameters
    ----------
    x : whole numbers 0..n; n : whole numbers >= 1; alpha, beta : numbers > 0 of the Beta prior. All broadcast.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> float(posterior_mean(3, 4, 1, 1)) == 4 / 6
    True
    """
    x, n = _read_counts(x, n)
    alpha, beta = _read_prior(alpha, beta)
    return (alpha + x) / (alpha + beta + n)


@paired
def mse(alpha: ArrayLike, beta: ArrayLike, n: ArrayLike, weight: ArrayLike | None = None) -> Floats:
    """Mean squared error of weight x/n + (1 - weight) mean of the prior; exact.  Claim: generative:bern:known-mse.

    Parameters
    ----------
    alpha, beta : numbers > 0 of the Beta prior; n : whole number >= 1 of samples.
    weight : number, default the posterior mean's, for which the error is least.

    >>> float(mse(1, 1, 2)), float(mse(1, 1, 2, weight=1.0))
    (0.041666666666666664, 0.08333333333333333)
    """
    if weight is None:
        return local_mse(alpha, beta, n) * posterior_weight(alpha, beta, n)
    weight = finite("weight", weight)
    return weight**2 * local_mse(alpha, beta, n) + (1 - weight) ** 2 * prior_variance(alpha, beta)


# --- unknown prior -----------------------------------------------------------------------------------------------------


@paired
def naive_variance_mean(alpha: ArrayLike, beta: ArrayLike, n: ArrayLike, m: ArrayLike | None = None) -> Floats:
    """Mean of the naive estimate sum_{l != i} (x_l/n - mu_hat_l)^2 / (m-2) of the prior's variance; exact.

    mu_hat_l is the mean of the others' shares of ones; m=None is the limit of many clients, the variance of x/n itself.
    It exceeds the prior's variance by the sampling noise, however many clients there are.
    Claim: generative:bern:variance-estimate.

    >>> float(naive_variance_mean(1, 1, 2)), float(naive_variance_mean(1, 1, 2, m=4))
    (0.16666666666666666, 0.3333333333333333)
    """
    variance = prior_variance(alpha, beta) * (1 + (positive("alpha", alpha) + positive("beta", beta)) / count("n", n))
    if m is None:
        return variance
    m = count("m", m, 3)
    return variance * (m / (m - 2))


@paired
def limit_weight(alpha: ArrayLike, beta: ArrayLike, n: ArrayLike) -> Floats:
    """Weight that the naive estimates lead to with many clients, n (n+s)/(n^2 + (2n-1) s) with s = alpha + beta; exact.

    The right weight is n/(n+s).  Claim: generative:bern:moments:limit-weight.

    >>> float(limit_weight(1, 1, 1)), float(posterior_weight(1, 1, 1)) == 1 / 3
    (1.0, True)
    """
    alpha, beta = _read_prior(alpha, beta)
    s, n = alpha + beta, count("n", n)
    return (n + s) / (n + (2 - 1 / n) * s)


@paired
def naive_excess(alpha: ArrayLike, beta: ArrayLike, n: ArrayLike) -> Floats:
    """What the naive estimates add to the least mean squared error, in multiples of it, with many clients; exact.

    Claim: generative:bern:moments:cost.

    >>> float(naive_excess(1, 1, 1))
    2.0
    """
    alpha, beta = _read_prior(alpha, beta)
    s, n = alpha + beta, count("n", n)
    return s / n * ((s + 1) / (n + (2 - 1 / n) * s)) ** 2


@paired
def moments(x: ArrayLike, n: ArrayLike, *, method: Literal["unbiased", "naive"] = "unbiased") -> Moments:
    """Estimate of the mean and the variance of the clients' probabilities, for any prior on [0, 1] and any n_i.

    "unbiased" averages x (x-1)/(n (n-1)), the share of pairs of a client's samples that are both ones, whose mean is
    E[p^2], over the clients with n >= 2, and subtracts the mean product of two different clients' shares of ones, whose
    mean is E[p]^2: exactly unbiased for every m >= 2 (so it can be negative), if n_i says nothing about p_i.
    Claim: generative:bern:moments:unbiased.
    "naive" is the sample variance of x/n, as in Section 2.2 of the generative paper; it includes the sampling noise.

    Parameters
    ----------
    x : array (m,) of whole numbers 0..n_i, ones per client; n : whole number >= 1 or array (m,), samples per client.
    method : "unbiased" or "naive".

    Returns
    -------
    Moments (mu, sigma2), two floats.

    Raises
    ------
    ValueError for fewer than two clients, counts outside 0..n, or (unbiased) no client with two samples.

    >>> round(moments([0, 1, 2], 2).sigma2, 12)
    0.166666666667
    >>> moments([0, 1, 2], 2, method="naive")
    Moments(mu=0.5, sigma2=0.25)
    """
    choice("method", method, ("unbiased", "naive"))
    x, n = _read_counts(x, n)
    if x.ndim != 1 or len(x) < 2:
        raise ValueError(f"x must be a list of at least two clients' counts, got shape {x.shape}")
    share = x / n
    mu, spread = share.mean(), share.var(ddof=1)
    if method == "naive":
        return Moments(float(mu), float(spread))
    several = n >= 2
    if not several.any():
        raise ValueError("n must be >= 2 for some client: one sample per client shows the prior's mean only")
    both = (x[several] * (x[several] - 1) / (n[several] * (n[several] - 1))).mean()
    # The mean product over pairs of different clients is mu^2 - spread/m.
    return Moments(float(mu), float(both - (mu**2 - spread / len(x))))


@paired
def shrinkage_weight(mu: ArrayLike, sigma2: ArrayLike, n: ArrayLike) -> Floats:
    """Weight n/(mu (1-mu)/sigma2 - 1 + n) of the client's own share of ones, kept in [0, 1]; an estimate.

    0 where sigma2 <= 0 (no differences between clients seen), 1 where sigma2 >= mu (1-mu).

    Parameters
    ----------
    mu : number in [0, 1]; sigma2 : number, an estimate and so perhaps negative; n : whole number >= 1.

    >>> float(shrinkage_weight(0.5, 1 / 12, 2))
    0.5
    """
    mu, sigma2, n = probability("mu", mu), finite("sigma2", sigma2), count("n", n)
    spread = mu * (1 - mu)
    kept = np.clip(sigma2, 0.0, spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = n * kept / (spread + (n - 1) * kept)
    return np.where(spread == 0, 0.0, weight)[()]


@paired
def estimate_rates(
    x: ArrayLike, n: ArrayLike, *, method: Literal["unbiased", "naive"] = "unbiased", prior: Sequence[float] | None = None
) -> Floats:
    """Estimate every client's probability: own share of ones shrunk to the common mean, prior learnt from the clients.

    Parameters
    ----------
    x, n, method : as in `moments`.
    prior : Moments learnt elsewhere, such as from private reports (`moments_from_reports`); its mean is kept in [0, 1].

    Returns
    -------
    array (m,) of numbers in [0, 1].

    >>> estimate_rates([0, 1, 2], 2).round(12).tolist()
    [0.1, 0.5, 0.9]
    >>> estimate_rates([0, 1, 2], 2, prior=Moments(0.5, 1 / 12)).tolist()
    [0.25, 0.5, 0.75]
    """
    mu, sigma2 = moments(x, n, method=method) if prior is None else prior
    mu = float(np.clip(finite("prior", mu), 0.0, 1.0))
    x, n = _read_counts(x, n)
    weight = shrinkage_weight(mu, sigma2, n)
    return weight * (x / n) + (1 - weight) * mu


# --- private reports ---------------------------------------------------------------------------------------------------


def _read_budget(eps):
    """The rise e^eps - 1 > 0."""
    eps = positive("eps", eps)
    if (eps > 700).any():
        raise ValueError("eps must be <= 700; beyond that nothing is randomised")
    return np.expm1(eps)


@paired
def randomize(x: ArrayLike, *, eps: ArrayLike, rng: np.random.Generator) -> Floats:
    """Randomise numbers in [0, 1] to two points, unbiased and eps-LDP for any two inputs (replacement); exact guarantee.

    Reports -1/(e^eps - 1) or e^eps/(e^eps - 1).  Claim: generative:qpriv.

    Parameters
    ----------
    x : array of numbers in [0, 1]; eps : number > 0; rng : numpy Generator.

    >>> sorted(set(randomize([0.0, 1.0] * 50, eps=np.log(2), rng=np.random.default_rng(0)).round(12).tolist()))
    [-1.0, 2.0]
    """
    x, rise = probability("x", x), _read_budget(eps)
    high = (1 + x * rise) / (2 + rise)
    return np.where(rng.random(np.broadcast_shapes(x.shape, rise.shape)) < high, 1 + 1 / rise, -1 / rise)


@paired
def report_variance(x: ArrayLike, *, eps: ArrayLike) -> Floats:
    """Variance e^eps/(e^eps - 1)^2 + x (1-x) of a two-point report of x; exact.  Claim: generative:qpriv:variance.

    >>> round(float(report_variance(0.5, eps=np.log(2))), 12)
    2.25
    """
    x, rise = probability("x", x), _read_budget(eps)
    return (1 + 1 / rise) / rise + x * (1 - x)


@paired
def private_reports(x: ArrayLike, n: ArrayLike, *, eps: ArrayLike, rng: np.random.Generator) -> PrivateReports:
    """Let every client send one eps-LDP report, from which `moments_from_reports` learns the prior's mean and variance.

    A fair half of the clients (chosen without looking at data) report their share of ones, the others their share
    x (x-1)/(n (n-1)) of pairs of samples that are both ones; clients with one sample report their sample. One report per
    client, so no budget is composed: replacing all of a client's samples changes any probability by at most e^eps.
    Claims: generative:thm4:protocol, generative:thm4:protocol:ldp.

    Parameters
    ----------
    x : array (m,) of whole numbers 0..n_i; n : whole number or array (m,), public; eps : number > 0; rng : Generator.

    Returns
    -------
    PrivateReports (means, pairs).
    """
    x, n = _read_counts(x, n)
    if x.ndim != 1:
        raise ValueError(f"x must be a list of the clients' counts, got shape {x.shape}")
    able = rng.permutation(np.flatnonzero(n >= 2))
    if len(able) < 2 or len(x) < 3:
        raise ValueError("x must hold at least three clients, two of them with n >= 2, to learn a variance")
    surplus = (len(x) - len(able)) // 2
    in_pairs = able[: min(len(able), len(able) // 2 + surplus, len(x) - 2)]
    in_means = np.setdiff1d(np.arange(len(x)), in_pairs)
    both = x[in_pairs] * (x[in_pairs] - 1) / (n[in_pairs] * (n[in_pairs] - 1))
    return PrivateReports(randomize(x[in_means] / n[in_means], eps=eps, rng=rng), randomize(both, eps=eps, rng=rng))


@paired
def moments_from_reports(means: ArrayLike, pairs: ArrayLike) -> Moments:
    """Unbiased estimates of the prior's mean and variance from private (or plain) reports; an estimate.

    Parameters
    ----------
    means : array (m1,), m1 >= 2, reports whose means are the clients' p; pairs : array (m2,), m2 >= 1, reports whose
        means are p^2.

    >>> moments_from_reports([0.0, 1.0], [1.0, 0.0])
    Moments(mu=0.5, sigma2=0.5)
    """
    means, pairs = finite("means", means), finite("pairs", pairs)
    if means.ndim != 1 or len(means) < 2:
        raise ValueError(f"means must be a list of at least two reports, got shape {means.shape}")
    if pairs.ndim != 1 or len(pairs) < 1:
        raise ValueError(f"pairs must be a list of at least one report, got shape {pairs.shape}")
    mu = means.mean()
    return Moments(float(mu), float(pairs.mean() - (mu**2 - means.var(ddof=1) / len(means))))


@paired
def private_variance(alpha: ArrayLike, beta: ArrayLike, m1: ArrayLike, m2: ArrayLike, *, eps: ArrayLike) -> Floats:
    """Variance of the private estimate of the prior's variance; exact.  Claim: generative:thm4:protocol:variance.

    Model: Beta(alpha, beta) prior; m1 clients report their share of ones, m2 their pairs, as in `private_reports`, with any
    numbers of samples (>= 2 in the second group). eps-LDP, replacement of all data of a client.

    Parameters
    ----------
    alpha, beta : numbers > 0; m1 : whole number >= 2; m2 : whole number >= 1; eps : number > 0.

    >>> round(float(private_variance(1, 1, 100, 100, eps=1.0)), 6)
    0.023413
    """
    alpha, beta = _read_prior(alpha, beta)
    m1, m2 = count("m1", m1, 2), count("m2", m2)
    s, noise = alpha + beta, report_variance(0.0, eps=eps)
    mu = alpha / s
    # E[p^2] (1 - E[p^2]) with the complement in closed form, as it may be tiny.
    two = noise + mu * ((alpha + 1) / (s + 1)) * (beta / s) * ((alpha + s + 1) / (s + 1))
    one = noise + mu * (beta / s)
    return two / m2 + 4 * mu**2 * one / m1 + 2 * one**2 / (m1 * (m1 - 1))
