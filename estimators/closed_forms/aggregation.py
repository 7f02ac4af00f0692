"""Server weights and server error when clients send messages of unequal noise (FedHDP and special cases).

Model, with clients in levels i = 1..l of sizes N_i: a message is psi_j = phi + p_j + e_j + l_j, where phi
is the centre (flat prior), p_j ~ N(0, tau2) the client's deviation, e_j ~ N(0, alpha2) its estimation error
and l_j ~ N(0, N_i gamma2_i) its privacy noise.  The server returns theta = sum_j w_j psi_j with weights
that add to one.  What a client does with theta is in ``personalization``.

In every function here `sizes` and `gamma2s` are lists with one entry per level (to have one level pass one
entry); entries may be arrays, which broadcast against `alpha2` and `tau2`.  Results per level have the
level on axis 0.  All results are exact.  An infinite gamma2 is allowed: such a message gets no weight.

Without levels (Robust-HDP): `variances` holds one entry per client along `axis` and is all that matters of them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import pooled_variance, quiet, quotient, relative_precisions, share, times
from estimators.numerics.units import exponents, homogeneous
from estimators.numerics.validation import axis_of, by_level, choice, count, finite, nonnegative, paired, positive

__all__ = [
    "aggregate_variance",
    "eps_weights",
    "excess_variance",
    "gap_dp_fedavg",
    "gap_dp_to_uniform",
    "gap_to_uniform",
    "least_variance",
    "level_ratios",
    "level_weights",
    "message_variances",
    "opt_out_gain",
    "optimal_ratio",
    "precision_weights",
    "read_levels",
    "relative_excess",
    "server_mse",
]


class Levels(NamedTuple):
    """Checked arguments, with levels on axis 0 of the first five; a noise is N_i gamma2_i."""

    sizes: np.ndarray
    gamma2s: np.ndarray
    noises: np.ndarray
    variances: np.ndarray
    weights: np.ndarray
    alpha2: np.ndarray
    tau2: np.ndarray


def read_levels(
    sizes: ArrayLike, gamma2s: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike, ratios: ArrayLike | None = None
) -> Levels:
    """Check the description of the levels and return it; `ratios=None` means the optimal weights."""
    lists = {"sizes": by_level("sizes", sizes), "gamma2s": by_level("gamma2s", gamma2s)}
    if ratios is not None:
        lists["ratios"] = by_level("ratios", ratios)
    lengths = {name: len(entries) for name, entries in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"sizes, gamma2s and ratios need one entry per level each, got lengths {lengths}")
    count("sizes", lists["sizes"])
    nonnegative("gamma2s", lists["gamma2s"], infinite=True)
    alpha2, tau2 = nonnegative("alpha2", alpha2), nonnegative("tau2", tau2)
    # Levels come first, so the remaining axes have to be lined up by hand.
    ndim = max(alpha2.ndim, tau2.ndim, *(entries.ndim - 1 for entries in lists.values()))
    for name, entries in lists.items():
        lists[name] = entries.reshape(entries.shape[:1] + (1,) * (ndim + 1 - entries.ndim) + entries.shape[1:])
    noises = times(lists["sizes"], lists["gamma2s"])
    variances = alpha2 + tau2 + noises
    if ratios is None:
        shares = relative_precisions(variances)
    else:
        shares = nonnegative("ratios", lists["ratios"])
        if (shares.sum(axis=0) == 0).any():
            raise ValueError("ratios are all zero; at least one level needs a positive ratio")
    weights = shares / np.sum(lists["sizes"] * shares, axis=0)
    return Levels(lists["sizes"], lists["gamma2s"], noises, variances, weights, alpha2, tau2)


@paired
@homogeneous("gamma2s", "alpha2", "tau2", degree=1)
def message_variances(sizes: ArrayLike, gamma2s: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike) -> Floats:
    """Variance of a message of each level around the centre, s_i = alpha2 + tau2 + N_i gamma2_i.

    Claims: fedhdp:eq61, fedhdp:eq64 (the sigma_{p_i}^2 of the paper).

    Parameters
    ----------
    sizes : list of whole numbers >= 1, the number of clients N_i in each level.
    gamma2s : list of variances >= 0 or inf, the privacy noise gamma2_i as seen in the average of the level.
    alpha2, tau2 : variances >= 0 of a client's estimate and of the clients' true values; arrays broadcast.

    Returns
    -------
    array of shape (levels, ...), in squared units of the estimate.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> message_variances([2, 3], [0.0, 1.0], alpha2=1.0, tau2=0.5).tolist()
    [1.5, 4.5]
    """
    return read_levels(sizes, gamma2s, alpha2, tau2).variances


@paired
@homogeneous("gamma2s", "alpha2", "tau2", degree=0)
def level_ratios(sizes: ArrayLike, gamma2s: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike) -> Floats:
    """Optimal weight of a client of each level relative to one of the first level, r_i* = s_1 / s_i.

    Claim: fedhdp:eq64.  Parameters as in `message_variances`.  Two levels without any information (or two
    with exact information) count as equal.

    >>> level_ratios([2, 3], [0.0, 1.0], alpha2=1.0, tau2=0.5).round(6).tolist()
    [1.0, 0.333333]
    """
    variances = read_levels(sizes, gamma2s, alpha2, tau2).variances
    return np.where(variances == variances[0], 1.0, quotient(variances[0], variances))


@paired
@homogeneous("gamma2s", "alpha2", "tau2", degree=0)
def level_weights(
    sizes: ArrayLike, gamma2s: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike, ratios: ArrayLike | None = None
) -> Floats:
    """Server's weight on each single client of each level, w_i = r_i / sum_k N_k r_k.

    Claims: fedhdp:eq64, fedhdp:lemma2:weights (the optimum, inversely proportional to the message variances).

    Parameters
    ----------
    sizes, gamma2s, alpha2, tau2 : see `message_variances`.
    ratios : list of numbers >= 0, not all zero, dimensionless; None for the optimal `level_ratios`.

    Returns
    -------
    array of shape (levels, ...); sum_i N_i w_i = 1.

    >>> level_weights([2, 3], [0.0, 1.0], alpha2=1.0, tau2=0.5).round(6).tolist()
    [0.333333, 0.111111]
    >>> level_weights([2, 3], [0.0, 1.0], alpha2=1.0, tau2=0.5, ratios=[1, 1]).tolist()
    [0.2, 0.2]
    """
    return read_levels(sizes, gamma2s, alpha2, tau2, ratios).weights


@paired
@homogeneous("gamma2s", "alpha2", "tau2", degree=1)
def server_mse(
    sizes: ArrayLike, gamma2s: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike, ratios: ArrayLike | None = None
) -> Floats:
    """Mean squared error of the server's estimate of the centre, sum_i N_i w_i^2 s_i.

    At the optimal ratios it is 1 / sum_i (N_i / s_i).  Claims: fedhdp:eq61, fedhdp:lemma2:cov,
    fedhdp:lemma6:var.  Parameters as in `level_weights`.

    >>> round(float(server_mse([2, 3], [0.0, 1.0], alpha2=1.0, tau2=0.5)), 12)
    0.5
    >>> round(float(server_mse([2, 3], [0.0, 1.0], alpha2=1.0, tau2=0.5, ratios=[1, 1])), 12)
    0.66
    """
    levels = read_levels(sizes, gamma2s, alpha2, tau2, ratios)
    if ratios is None:
        return pooled_variance(levels.sizes, levels.variances)
    return np.sum(levels.sizes * times(levels.weights**2, levels.variances), axis=0)[()]


@paired
def optimal_ratio(
    N1: ArrayLike, N2: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike, gamma2_1: ArrayLike, gamma2_2: ArrayLike
) -> Floats:
    """Optimal ratio r* of the weights of a client of the second and of the first level.

    Claims: fedhdp:lemma2:rstar; fedhdp:lemma6:rstar with N1 = N_np, gamma2_1 = 0.  It exceeds 1 when the
    second level is the less noisy one.

    >>> optimal_ratio(2, 3, alpha2=1.0, tau2=0.5, gamma2_1=0.0, gamma2_2=1.0).round(6).tolist()
    0.333333
    """
    sizes = [count("N1", N1), count("N2", N2)]
    noises = [nonnegative(name, value, infinite=True) for name, value in (("gamma2_1", gamma2_1), ("gamma2_2", gamma2_2))]
    return level_ratios(sizes, noises, alpha2, tau2)[1]


@paired
def precision_weights(variances: ArrayLike, axis: int = -1) -> Floats:
    """Weights inversely proportional to `variances` (>= 0 or inf) that add to one along `axis`.

    The minimum-variance unbiased average of independent unbiased estimates; claim: robusthdp:eq8:weights.
    Exact estimates (variance 0) share all the weight; if every variance is infinite the weights are equal.

    >>> precision_weights([1.0, 4.0, float("inf")]).tolist()
    [0.8, 0.2, 0.0]
    """
    variances = nonnegative("variances", variances, infinite=True)
    axis = axis_of("variances", variances, axis)
    relative = relative_precisions(variances, axis)
    return relative / relative.sum(axis=axis, keepdims=True)


@paired
def eps_weights(eps: ArrayLike, axis: int = -1) -> Floats:
    """Weights proportional to the clients' privacy parameters, eps_i / sum_j eps_j (WeiAvg and PFA).

    Not the best ones, not even where clients differ in eps alone; `relative_excess` says what they lose.
    Claim: robusthdp:eq8:eps-weights.

    Parameters
    ----------
    eps : array of numbers > 0, one per client along `axis`.

    >>> eps_weights([1.0, 3.0]).tolist()
    [0.25, 0.75]
    """
    eps = positive("eps", eps)
    axis = axis_of("eps", eps, axis)
    shares = eps / eps.max(axis=axis, keepdims=True)
    return shares / shares.sum(axis=axis, keepdims=True)


def read_weighted(weights: ArrayLike, variances: ArrayLike, axis: int) -> tuple[Floats, Floats]:
    """Check weights against positive variances; return both with clients last and the weights summing to one."""
    weights, variances = np.broadcast_arrays(finite("weights", weights), positive("variances", variances))
    axis = axis_of("weights and variances", variances, axis)
    weights, variances = np.moveaxis(weights, axis, -1), np.moveaxis(variances, axis, -1)
    weights = np.ldexp(weights, -exponents(np.abs(weights).max(axis=-1, keepdims=True)))
    total = weights.sum(axis=-1, keepdims=True)
    if (total == 0).any():
        raise ValueError("weights add to zero; give weights with a sum that can be scaled to one")
    return weights / total, variances


@paired
def aggregate_variance(weights: ArrayLike, variances: ArrayLike, axis: int = -1) -> Floats:
    """Variance of the weighted average of independent updates, sum_i w_i^2 sigma_i^2; exact.

    Claims: robusthdp:eq8:minvar, robusthdp:eq8:eps-weights.

    Parameters
    ----------
    weights : array of real numbers whose sum is not 0, one per client along `axis`; scaled to add to one.
    variances : array of numbers > 0, broadcast against `weights`; in squared units of an update.

    Raises
    ------
    ValueError
        Naming the argument that is empty, not finite or not positive.

    >>> round(float(aggregate_variance([1, 1], [1.0, 4.0])), 12)
    1.25
    """
    weights, variances = read_weighted(weights, variances, axis)
    squares = np.where(np.abs(weights) > 1e-140, weights**2 * variances, weights * variances * weights)
    return np.sum(squares, axis=-1)[()]


@paired
def least_variance(variances: ArrayLike, axis: int = -1) -> Floats:
    """Least variance of a weighted average of independent updates, 1 / sum_i (1 / sigma_i^2); exact.

    Reached by `precision_weights` and by no other weights.  Claim: robusthdp:eq8:minvar.

    >>> round(float(least_variance([1.0, 4.0])), 12)
    0.8
    """
    variances = positive("variances", variances)
    axis = axis_of("variances", variances, axis)
    return pooled_variance(1.0, np.moveaxis(variances, axis, 0))[()]


@paired
def relative_excess(weights: ArrayLike, variances: ArrayLike, axis: int = -1) -> Floats:
    """What weights lose against the best ones, relative to the least variance; exact, 0 for the best ones.

    sum over pairs i < j of (w_i s_i - w_j s_j)^2 / (s_i s_j), with s_i the variances and weights scaled to add to
    one; computed as a weighted variance of the w_i s_i, in linear time.  Claims: robusthdp:eq8:loss,
    robusthdp:eq8:eps-loss.  Parameters as in `aggregate_variance`.

    >>> round(float(relative_excess([1, 1], [1.0, 4.0])), 12)
    0.5625
    """
    weights, variances = read_weighted(weights, variances, axis)
    smallest = variances.min(axis=-1, keepdims=True)
    wide = variances.max(axis=-1, keepdims=True) / 2.0**450 > smallest
    if (variances.max(axis=-1, keepdims=True) / 2.0**1000 > smallest).any():
        raise ValueError("variances differ by more than a factor of 1e300; leave out the clients who say nothing")
    variances = np.ldexp(variances, -exponents(smallest))
    loads = weights * variances
    # Only differences count.  From the load of the most precise client, whose term then holds the square of the mean, no
    # digits are lost.
    loads = loads - np.take_along_axis(loads, np.argmin(variances, axis=-1, keepdims=True), axis=-1)
    precisions = 1 / variances
    total = precisions.sum(axis=-1, keepdims=True)
    loads = loads - np.sum(precisions * loads, axis=-1, keepdims=True) / total
    with quiet():
        squares = np.where(wide, (np.sqrt(precisions) * loads) ** 2, precisions * loads**2)
    return (np.sum(squares, axis=-1) * total[..., 0])[()]


@paired
def excess_variance(weights: ArrayLike, variances: ArrayLike, axis: int = -1) -> Floats:
    """Variance of a weighted average beyond the least one, sum_i s_i (w_i - w_i*)^2; exact, without cancellation.

    Claim: robusthdp:eq8:loss.  Parameters as in `aggregate_variance`.

    >>> round(float(excess_variance([1, 1], [1.0, 4.0])), 12)
    0.45
    """
    return relative_excess(weights, variances, axis) * least_variance(np.broadcast_arrays(variances, weights)[0], axis)


def opt_out(
    N_np: ArrayLike, N_p: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike, gamma2: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return rho, 1 - rho, gamma2 and x / (alpha2 + tau2 + x) for x = rho (1 - rho) N gamma2, all checked."""
    N_np, N_p = nonnegative("N_np", N_np), nonnegative("N_p", N_p)
    N = N_np + N_p
    if (N < 1).any():
        raise ValueError(f"N_np + N_p must be >= 1 client, got {N.min()}")
    gamma2 = nonnegative("gamma2", gamma2, infinite=True)
    excess = times(N_np * (N_p / N), gamma2)
    return N_np / N, N_p / N, gamma2, share(excess, nonnegative("alpha2", alpha2) + nonnegative("tau2", tau2))


@paired
@homogeneous("alpha2", "tau2", "gamma2", degree=1)
def gap_to_uniform(N_np: ArrayLike, N_p: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike, gamma2: ArrayLike) -> Floats:
    """Server error of equal weights (HDP-FedAvg, r = 1) in excess of the optimum, in the opt-out model.

    rho (1-rho)^3 gamma2^2 N / (alpha2 + tau2 + rho (1-rho) gamma2 N) with rho = N_np/N, computed without the
    difference that defines it.  Claim: fedhdp:lemma7:eq79.

    Parameters
    ----------
    N_np, N_p : number of clients without and with privacy, >= 0 (they need not be whole: the formula is smooth).
    alpha2, tau2 : variances >= 0.
    gamma2 : variance >= 0 or inf of the privacy noise in the average of the private clients.

    >>> round(float(gap_to_uniform(5, 5, alpha2=1.0, tau2=1.0, gamma2=2.0)), 12)
    0.357142857143
    """
    _, private, gamma2, part = opt_out(N_np, N_p, alpha2, tau2, gamma2)
    return times(times(private**2, part), gamma2)


@paired
@homogeneous("alpha2", "tau2", "gamma2", degree=1)
def opt_out_gain(
    N_np: ArrayLike,
    N_p: ArrayLike,
    alpha2: ArrayLike,
    tau2: ArrayLike,
    gamma2: ArrayLike,
    others: Literal["kept", "recalibrated"] = "kept",
) -> Floats:
    """What the server's least error falls by when one of the private clients opts out.

    With s = alpha2 + tau2 and g = N_p gamma2 the error is 1 / (N_np / s + N_p / (s + g)), before and after; computed without
    their difference.  Exact.  Claim: fedhdp:optout-helps:server.

    Parameters
    ----------
    N_np, N_p : whole numbers of clients without (>= 0) and with privacy (>= 2), before one of the latter leaves.
    alpha2, tau2 : variances >= 0, of which one is positive.
    gamma2 : variance >= 0 of the privacy noise in the average of the private clients.
    others : "kept", each of them adds noise as before, or "recalibrated", the noise in their sum stays as it was, so that
        each adds more.

    Returns
    -------
    float or array >= 0, in squared units of an estimate.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> [round(float(opt_out_gain(1, 3, 1.0, 0.0, 2.0, others)), 12) for others in ("kept", "recalibrated")]
    [0.2625, 0.245454545455]
    """
    choice("others", others, ("kept", "recalibrated"))
    N_np, N_p = count("N_np", N_np, 0), count("N_p", N_p, 2)
    s, g = nonnegative("alpha2", alpha2) + nonnegative("tau2", tau2), N_p * nonnegative("gamma2", gamma2)
    if np.any(s == 0):
        raise ValueError("alpha2 and tau2 are both zero: without any variance but the noise's one free client is enough")
    before = g / (N_np * (s + g) + N_p * s)  # times s it is what privacy costs, relative to s + g
    if others == "kept":
        return s * before * ((s + g) / ((N_np + 1) * (s + g) + (N_p - 1) * s))
    left = (N_p - 1) * s
    return s * before * (N_p * g / (N_np * (N_p * g + left) + N_p * (g + left)))


@paired
@homogeneous("alpha2", "tau2", "gamma2", degree=1)
def gap_dp_fedavg(N_np: ArrayLike, N_p: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike, gamma2: ArrayLike) -> Floats:
    """Server error of DP-FedAvg (everybody adds noise of variance N_p gamma2) in excess of the optimum.

    [rho (1-rho)(alpha2+tau2) gamma2 + rho (1-rho)^2 gamma2^2 N] / (alpha2 + tau2 + rho (1-rho) gamma2 N).
    Claim: fedhdp:lemma7:eq80; parameters as in `gap_to_uniform`.

    >>> round(float(gap_dp_fedavg(5, 5, alpha2=1.0, tau2=1.0, gamma2=2.0)), 12)
    0.857142857143
    """
    return gap_to_uniform(N_np, N_p, alpha2, tau2, gamma2) + gap_dp_to_uniform(N_np, N_p, gamma2)


@paired
def gap_dp_to_uniform(N_np: ArrayLike, N_p: ArrayLike, gamma2: ArrayLike) -> Floats:
    """Server error of DP-FedAvg in excess of HDP-FedAvg, which is just rho (1-rho) gamma2.

    Claim: fedhdp:lemma7:eq81, whose printed quotient reduces to this.

    >>> float(gap_dp_to_uniform(5, 5, gamma2=2.0))
    0.5
    """
    rho, private, gamma2, _ = opt_out(N_np, N_p, 0.0, 0.0, gamma2)
    return times(rho * private, gamma2)
