"""Mean-regularised multi-task estimation across silos (MR-MTL): errors as functions of lam, and the best lam.

Model, with silos k = 0..K-1: centres w_k ~ N(theta, tau2) around a common theta (flat prior), local estimates
w_hat_k ~ N(w_k, sigma2_loc), and w_hat_k(lam) = (w_hat_k + lam w_bar) / (1 + lam), where w_bar is the plain
average of all K local estimates, that of silo k included.  Errors are E (w_k - w_hat_k(lam))^2 over
everything; exact.

`lam` is >= 0 or inf; where it is an argument, negative values other than -1 are accepted and name the linear
combination of the same formula (``mrmtl:negative``).  Weighted averages are in ``personalization``.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import harmonic, pooled_variance, quotient, share, split, times
from estimators.numerics.units import homogeneous
from estimators.numerics.validation import by_level, count, index, nonnegative, paired, positive
from estimators.numerics.wide import Wide, pooled, relative_precisions

__all__ = [
    "advantage",
    "averaging_loss",
    "gap_to_fedavg",
    "gap_to_local",
    "iterated_weights",
    "joint_weights",
    "local_variance",
    "mse",
    "optimal_mse",
    "own_weight",
    "privacy_gap",
    "silo_mmse",
    "silo_mmse_weights",
    "silo_mse",
    "silo_posterior_variance",
    "silo_strength",
    "strength",
    "train_strength",
]


@paired
@homogeneous("sigma2", "sigma2_dp", degree=1)
def local_variance(sigma2: ArrayLike, n: ArrayLike, sigma2_dp: ArrayLike) -> Floats:
    """Variance of a local private mean of `n` records, sigma2 / n + sigma2_dp / n^2.

    Claims: mrmtl:eq5, mrmtl:eq39 (array arguments, one entry per silo).

    Parameters
    ----------
    sigma2 : variance >= 0 of one record.
    n : whole number >= 1 of records.
    sigma2_dp : variance >= 0 or inf of the privacy noise in the *sum* of the records.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> float(local_variance(sigma2=2.0, n=10, sigma2_dp=5.0))
    0.25
    """
    n = count("n", n)
    return nonnegative("sigma2", sigma2) / n + nonnegative("sigma2_dp", sigma2_dp, infinite=True) / n**2


@paired
def own_weight(lam: ArrayLike, K: ArrayLike) -> Floats:
    """Weight of silo k's own estimate in w_hat_k(lam), (K + lam) / ((1 + lam) K); claim: mrmtl:lem6.1.

    >>> [float(own_weight(lam, K=4)) for lam in (0.0, 1.0, float("inf"))]
    [1.0, 0.625, 0.25]
    """
    keep, pull = split(lam)
    return keep + pull / count("K", K)


@paired
def strength(sigma2_loc: ArrayLike, tau2: ArrayLike) -> Floats:
    """Strength lam* = sigma2_loc / tau2 that minimises `mse`; claim: mrmtl:thm6.3.

    It is inf for identical silos (tau2 = 0) and 0 for exact estimates (sigma2_loc = 0), also when both are 0.

    >>> float(strength(sigma2_loc=0.5, tau2=0.25)), float(strength(0.5, 0.0))
    (2.0, inf)
    """
    return quotient(nonnegative("sigma2_loc", sigma2_loc), nonnegative("tau2", tau2, infinite=True))


@paired
@homogeneous("sigma2_loc", "tau2", degree=1)
def mse(lam: ArrayLike, sigma2_loc: ArrayLike, tau2: ArrayLike, K: ArrayLike) -> Floats:
    """Mean squared error of the mean-regularised estimate of one silo's centre.

    (1 - 1/K) (sigma2_loc + lam^2 tau2) / (1 + lam)^2 + sigma2_loc / K.  Exact.  Claim: mrmtl:lem6.7.

    Parameters
    ----------
    lam : float or array, >= 0 or inf, dimensionless (see the module for negative values).
    sigma2_loc, tau2 : variances >= 0 or inf, in squared units of the estimate.
    K : whole number >= 1 of silos.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> [round(float(mse(lam, sigma2_loc=1.0, tau2=0.5, K=10)), 12) for lam in (0.0, 2.0, float("inf"))]
    [1.0, 0.4, 0.55]
    """
    keep, pull = split(lam)
    K = count("K", K)
    sigma2_loc = nonnegative("sigma2_loc", sigma2_loc, infinite=True)
    spread = times(keep**2, sigma2_loc) + times(pull**2, nonnegative("tau2", tau2, infinite=True))
    return times(1 - 1 / K, spread) + sigma2_loc / K


@paired
def optimal_mse(sigma2_loc: ArrayLike, tau2: ArrayLike, K: ArrayLike) -> Floats:
    """Smallest mean squared error over lam, sigma2_loc (sigma2_loc + K tau2) / (K (sigma2_loc + tau2)).

    Claim: mrmtl:cor6.4.  Parameters as in `mse`.

    >>> round(float(optimal_mse(sigma2_loc=1.0, tau2=0.5, K=10)), 12)
    0.4
    """
    K = count("K", K)
    sigma2_loc = nonnegative("sigma2_loc", sigma2_loc, infinite=True)
    return times(1 - 1 / K, harmonic(sigma2_loc, nonnegative("tau2", tau2, infinite=True))) + sigma2_loc / K


@paired
def gap_to_local(sigma2_loc: ArrayLike, tau2: ArrayLike, K: ArrayLike) -> Floats:
    """Excess error of local training (lam = 0), (1 - 1/K) sigma2_loc^2 / (sigma2_loc + tau2).

    Claim: mrmtl:prop6.5.

    >>> round(float(gap_to_local(sigma2_loc=1.0, tau2=0.5, K=10)), 12)
    0.6
    """
    sigma2_loc = nonnegative("sigma2_loc", sigma2_loc)
    return (1 - 1 / count("K", K)) * sigma2_loc * share(sigma2_loc, nonnegative("tau2", tau2, infinite=True))


@paired
def gap_to_fedavg(sigma2_loc: ArrayLike, tau2: ArrayLike, K: ArrayLike) -> Floats:
    """Excess error of FedAvg (lam = inf), (1 - 1/K) tau2^2 / (sigma2_loc + tau2).

    Claim: mrmtl:prop6.6.

    >>> round(float(gap_to_fedavg(sigma2_loc=1.0, tau2=0.5, K=10)), 12)
    0.15
    """
    tau2 = nonnegative("tau2", tau2)
    return (1 - 1 / count("K", K)) * tau2 * share(tau2, nonnegative("sigma2_loc", sigma2_loc, infinite=True))


@paired
def advantage(sigma2_loc: ArrayLike, tau2: ArrayLike, K: ArrayLike) -> Floats:
    """What the best strength gains over the better of local training and FedAvg, the lesser of their two gaps.

    (1 - 1/K) min(sigma2_loc, tau2)^2 / (sigma2_loc + tau2): largest, for a given tau2, at sigma2_loc = tau2.  Exact.
    Claim: mrmtl:best-advantage.  Parameters, finite ones, as in `mse`.

    >>> [round(float(advantage(sigma2_loc, tau2=0.5, K=10)), 12) for sigma2_loc in (0.25, 0.5, 1.0)]
    [0.075, 0.225, 0.15]
    """
    return np.minimum(gap_to_local(sigma2_loc, tau2, K), gap_to_fedavg(sigma2_loc, tau2, K))


@paired
def privacy_gap(lam: ArrayLike, K: ArrayLike, n: ArrayLike, sigma2_dp: ArrayLike) -> Floats:
    """Error due to the privacy noise at strength `lam`, [(1 - 1/K) / (1 + lam)^2 + 1/K] sigma2_dp / n^2.

    Claim: mrmtl:thm6.8 (between lam = 0 and lam = inf it falls by the factor K).

    >>> [float(privacy_gap(lam, K=4, n=10, sigma2_dp=100.0)) for lam in (0.0, float("inf"))]
    [1.0, 0.25]
    """
    keep, _ = split(lam)
    K = count("K", K)
    part = (1 - 1 / K) * keep**2 + 1 / K
    return part * local_variance(0.0, n, sigma2_dp)


@paired
@homogeneous("sigma2", "sigma2_dp", "tau2", degree=0)
def train_strength(sigma2: ArrayLike, n: ArrayLike, sigma2_dp: ArrayLike, tau2: ArrayLike) -> Floats:
    """Strength that minimises the error to the silo's own *empirical* mean, v / (tau2 + sigma2 / n).

    v = sigma2_dp / n^2 is the variance of the privacy noise in the local mean.  It is positive as soon as
    there is any, so lam = 0 is best for the training error only without privacy.  Claim:
    mrmtl:train-lambda.

    >>> float(train_strength(sigma2=1.0, n=10, sigma2_dp=10.0, tau2=0.1))
    0.5
    """
    noise = local_variance(0.0, n, nonnegative("sigma2_dp", sigma2_dp))
    return quotient(noise, nonnegative("tau2", tau2) + local_variance(sigma2, n, 0.0))


def read_silos(k: int, sigma2_locs: ArrayLike, tau2: ArrayLike) -> tuple[Floats, Floats, Floats, int]:
    """Check the arguments; return silo k's variance, the other silos' variances, tau2 and K."""
    sigma2_locs = nonnegative("sigma2_locs", by_level("sigma2_locs", sigma2_locs))
    K = len(sigma2_locs)
    if K < 2:
        raise ValueError("sigma2_locs needs at least two silos, one entry each")
    k, tau2 = index("k", k, 0, K - 1), nonnegative("tau2", tau2)
    # Silos stay on the first axis whatever the shape of tau2 is.
    missing = max(0, tau2.ndim - (sigma2_locs.ndim - 1))
    sigma2_locs = sigma2_locs.reshape(K, *(1,) * missing, *sigma2_locs.shape[1:])
    sigma2_locs = np.broadcast_to(sigma2_locs, (K, *np.broadcast_shapes(sigma2_locs.shape[1:], tau2.shape)))
    return sigma2_locs[k], np.delete(sigma2_locs, k, axis=0), tau2, K


@paired
@homogeneous("sigma2_locs", "tau2", degree=0)
def silo_strength(k: int, sigma2_locs: ArrayLike, tau2: ArrayLike) -> Floats:
    """Strength for silo `k` of unequal silos, s_k / (tau2 + (mean of the others' s_j - s_k) / K).

    Exact minimiser of `silo_mse` over the real line.  Claim: mrmtl:thmE.5.

    Parameters
    ----------
    k : int in 0..K-1.
    sigma2_locs : list of K >= 2 variances >= 0, one per silo; entries may be arrays.
    tau2 : variance >= 0.

    Returns
    -------
    float or array, dimensionless.  It is inf where the denominator is 0 and *negative* (below -K) beyond,
    that is for a silo noisier than K tau2 + the mean of the others; the best strength >= 0 is then inf. 0
    for an exact silo (s_k = 0).

    >>> [float(silo_strength(0, [s, 1.0, 1.0], tau2=0.5)) for s in (0.5, 1.0, 2.5, 4.0)]
    [0.75, 2.0, inf, -8.0]
    """
    own, others, tau2, K = read_silos(k, sigma2_locs, tau2)
    slack = tau2 + np.mean(others - own, axis=0) / K
    near = np.abs(slack) < (tau2 + (np.mean(others, axis=0) + own) / K) / 16  # where digits cancel, the sum is exact
    if near.any():
        columns = np.broadcast_arrays(slack, near, tau2, own, *others)
        slack = np.array([exact_slack(*column) for column in zip(*(c.ravel() for c in columns), strict=True)])
        slack = slack.reshape(columns[0].shape)
    return quotient(own, slack)


def exact_slack(slack: float, near: bool, tau2: float, own: float, *others: float) -> float:
    """Return tau2 + (mean of the others - own) / K, rounded once, or the `slack` given unless `near`."""
    if not near:
        return slack
    total = sum(map(Fraction, others), Fraction(0)) - len(others) * Fraction(own)
    return float(Fraction(tau2) + total / (len(others) * (len(others) + 1)))


@paired
@homogeneous("sigma2_locs", "tau2", degree=1)
def silo_mse(lam: ArrayLike, k: int, sigma2_locs: ArrayLike, tau2: ArrayLike) -> Floats:
    """Mean squared error of w_hat_k(lam) for silo `k` when silos differ in their local variance.

    >>> round(float(silo_mse(0.75, 0, [0.5, 1.0, 1.0], tau2=0.5)), 12)
    0.357142857143
    """
    keep, pull = split(lam)
    own, others, tau2, K = read_silos(k, sigma2_locs, tau2)
    spread = ((K - 1) / K) ** 2 * tau2 + np.sum(tau2 + others, axis=0) / K**2
    return (keep + pull / K) ** 2 * own + pull**2 * spread


@paired
@homogeneous("sigma2_locs", "tau2", degree=1)
def silo_posterior_variance(k: int, sigma2_locs: ArrayLike, tau2: ArrayLike) -> Floats:
    """Posterior variance of w_k given w_hat_k and the plain average of the others; claim: mrmtl:lemE.4:var.

    It is `silo_mse` at `silo_strength`, and at least `silo_mmse`, which uses the others one by one.

    >>> round(float(silo_posterior_variance(0, [0.5, 1.0, 1.0], tau2=0.5)), 12)
    0.357142857143
    """
    own, others, tau2, K = read_silos(k, sigma2_locs, tau2)
    return harmonic(own, K / (K - 1) * tau2 + np.sum(others, axis=0) / (K - 1) ** 2)


@paired
@homogeneous("sigma2_locs", "tau2", degree=1)
def silo_mmse(k: int, sigma2_locs: ArrayLike, tau2: ArrayLike) -> Floats:
    """Posterior variance of w_k given *all* w_hat_j, (1/s_k + 1/(tau2 + 1/sum_{j != k} 1/(tau2 + s_j)))^-1.

    No estimator does better.  Equal to `silo_posterior_variance` if the other silos are alike.
    Claim: mrmtl:thmE.5.

    >>> round(float(silo_mmse(0, [0.5, 1.0, 4.0], tau2=0.5)), 12)
    0.382352941176
    """
    own, others, tau2, _ = read_silos(k, sigma2_locs, tau2)
    return harmonic(own, tau2 + pooled_variance(np.ones_like(others), tau2 + others))


@paired
@homogeneous("sigma2_locs", "tau2", degree=1)
def averaging_loss(k: int, sigma2_locs: ArrayLike, tau2: ArrayLike) -> Floats:
    """What silo `k` loses because the others enter by their plain average, `silo_posterior_variance` less `silo_mmse`.

    s^2 (A - H) / ((s + tau2 + A) (s + tau2 + H)) with A and H the variances of the others' plain and precision-weighted
    averages; computed without the difference, so that a small loss is exact, too.  0 if the other silos are alike.
    Claims: mrmtl:mmse:loss, mrmtl:thmE.5:mmse.

    Parameters
    ----------
    k, sigma2_locs, tau2 : see `silo_strength`; no other silo may be exact where tau2 = 0.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> [round(float(averaging_loss(0, [2.0, s, 12.0], tau2=0.25)), 12) for s in (12.0, 0.25)]
    [0.0, 0.729358839431]
    """
    own, others, tau2, K = read_silos(k, sigma2_locs, tau2)
    if np.any(tau2 + others == 0):
        raise ValueError("sigma2_locs: another silo is exact and tau2 is 0, so that its estimate is all that counts")
    precisions = 1 / (tau2 + others)
    total = precisions.sum(axis=0)
    # Only differences of the variances count; from the least of them no digits are lost.
    beyond = others - others.min(axis=0)
    beyond = beyond - np.sum(precisions * beyond, axis=0) / total
    excess = np.sum(precisions * beyond**2, axis=0) / (K - 1) ** 2  # A less H
    return share(own, tau2 + 1 / total + excess) * share(own, tau2 + 1 / total) * excess


@paired
def silo_mmse_weights(k: int, sigma2_locs: ArrayLike, tau2: ArrayLike) -> Floats:
    """Weights on all K local estimates, in the silos' order, that attain `silo_mmse`; they add to one.

    >>> silo_mmse_weights(0, [0.5, 1.0, 4.0], tau2=0.5).round(6).tolist()
    [0.764706, 0.176471, 0.058824]
    """
    mine, others, tau2, _ = read_silos(k, sigma2_locs, tau2)
    own, between = Wide(mine), Wide(tau2)
    spread = between + Wide(others)
    prior = between + pooled(spread)
    kept = np.where(own.mantissas == 0, 1.0, (prior / (prior + own)).floats())
    precisions = relative_precisions(spread)
    return np.insert((own / (own + prior) * precisions / precisions.sum()).floats(), k, kept, axis=0)


def read_strengths(lam: ArrayLike) -> Floats:
    """Check one strength per silo."""
    lam = nonnegative("lam", by_level("lam", lam), infinite=True)
    if lam.ndim != 1 or len(lam) < 2:
        raise ValueError(f"lam must be a list of strengths, one for each of at least two silos, got shape {lam.shape}")
    return lam


@paired
def iterated_weights(lam: ArrayLike, counts: ArrayLike | None = None) -> Floats:
    """Weights of all K local estimates in every silo's model where Algorithm A1 ends; rows are silos.

    Silo k ends at (w_hat_k + lam_k m) / (1 + lam_k) around m, the average of the estimates with weights proportional to
    1 / (1 + lam_j): the mean of the models moves with them, and a silo with a large lam_j adds little to it.  With
    lam_k = sigma2_loc_k / tau2 every silo gets its `silo_mmse_weights`.  Exact, for a mean model that starts as the mean
    of the models.  Claims: mrmtl:algA1:silos, mrmtl:algA1:counts, mrmtl:thmE.5:algA1.

    Parameters
    ----------
    lam : list of K >= 2 strengths >= 0, one per silo; inf for a silo that follows m, though not for all of them.
    counts : list of K numbers > 0 by which line 9 may weigh the updates (example counts); uniform if left out.

    Returns
    -------
    array (K, K), dimensionless; rows add to one.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain; for lam = inf everywhere, where nothing moves from its start.

    >>> iterated_weights([0.0, 1.0, 3.0]).round(6).tolist()
    [[1.0, 0.0, 0.0], [0.285714, 0.642857, 0.071429], [0.428571, 0.214286, 0.357143]]
    """
    keep, pull = split(read_strengths(lam))
    if not keep.any():
        raise ValueError("lam must be finite for at least one silo; with inf everywhere no model leaves its start")
    shares = np.ones(len(keep)) if counts is None else positive("counts", by_level("counts", counts))
    if shares.shape != keep.shape:
        raise ValueError(f"counts must be one number for each of the {len(keep)} silos, got shape {shares.shape}")
    centre = keep / keep.max() * (shares / shares.max())
    return np.diag(keep) + pull[:, None] * (centre / centre.sum())


def joint_weights(lam: ArrayLike) -> Floats:
    """Weights of all K local estimates in every silo's model where all models minimise the mean objective together.

    The objective is (18) of `mrmtl` with lam_k in silo k.  With equal strengths it is what `iterated_weights` returns; else
    the models' mean is that of the estimates, and no strengths make every silo's model the best estimate.  Claims:
    mrmtl:eq18:silos, mrmtl:eq18:loss.

    Parameters
    ----------
    lam : list of K >= 2 strengths >= 0, one per silo, or inf.

    Returns
    -------
    array (K, K), dimensionless; rows add to one.

    >>> joint_weights([0.0, 1.0, 3.0]).round(6).tolist()
    [[0.761905, 0.047619, 0.190476], [0.047619, 0.690476, 0.261905], [0.190476, 0.261905, 0.547619]]
    """
    lam = read_strengths(lam)
    keep = [Fraction(0) if np.isinf(x) else 1 / (1 + Fraction(float(x))) for x in lam]  # digits cancel: exact, rounded once
    total, equal = sum(keep) or Fraction(1), Fraction(1, len(keep))
    return np.array(
        [[equal + (a if j == k else 0) - a * b / total for j, b in enumerate(keep)] for k, a in enumerate(keep)], float
    )
