"""Gaussian means of many equal clients: shrinkage with a known prior, James-Stein, and their exact risks.

Model: theta_i ~ N(mu, sigma2_theta), and a client's estimate of theta_i is its sample mean,
N(theta_i, sigma2_x / n).  The fit for unequal clients, who learn the prior, is in ``gaussian_means``.  Formulas
in which messages carry privacy noise of several levels are in ``aggregation`` and ``personalization``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import hyp1f1

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.exact import UNIT, exact_sum, rounded
from estimators.numerics.limits import share
from estimators.numerics.units import exponents, homogeneous
from estimators.numerics.validation import (
    choice,
    count,
    finite,
    index,
    listing,
    nonnegative,
    number,
    paired,
    positive,
    probability,
    without_labels,
)
from estimators.numerics.wide import Wide

__all__ = [
    "conditional_bias",
    "conditional_risk",
    "from_samples",
    "james_stein",
    "james_stein_conditional_risk",
    "james_stein_risk",
    "local_risk",
    "pooling_border",
    "pooling_excess",
    "risk",
    "risk_parts",
    "shrinkage_factor",
]


def read_variances(
    sigma2_theta: ArrayLike, sigma2_x: ArrayLike, n: ArrayLike, sigma2_q: ArrayLike = 0.0, m: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Return the variance between clients as the server sees it and that of a sample mean, both checked."""
    sigma2_theta = nonnegative("sigma2_theta", sigma2_theta, infinite=True)
    sigma2_q = nonnegative("sigma2_q", sigma2_q)
    if (sigma2_q > 0).any():
        if m is None:
            raise ValueError("m, the number of clients, is needed when sigma2_q > 0")
        sigma2_theta = sigma2_theta + sigma2_q / (count("m", m, 2) - 1)
    return sigma2_theta, local_risk(sigma2_x, n)


@paired
@homogeneous("sigma2_theta", "sigma2_x", "sigma2_q", degree=0)
def shrinkage_factor(
    sigma2_theta: ArrayLike, sigma2_x: ArrayLike, n: ArrayLike, sigma2_q: ArrayLike = 0.0, m: ArrayLike | None = None
) -> Floats:
    """Best weight `a` on a client's own mean in a x_bar_i + (1 - a) average of the clients' messages.

    a = t / (t + sigma2_x / n), with t = sigma2_theta + sigma2_q / (m - 1).  Exact.
    Claims: generative:thm1:estimator, generative:thm2:a.

    Parameters
    ----------
    sigma2_theta : variance >= 0 or inf between clients.
    sigma2_x : variance >= 0 of one sample; n : whole number >= 1 of samples per client.
    sigma2_q : variance >= 0 of the unbiased quantiser or privacy mechanism on each message.
    m : whole number >= 2 of clients; needed only when sigma2_q > 0.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> float(shrinkage_factor(1.0, 3.0, n=1)), float(shrinkage_factor(1.0, 3.0, n=1, sigma2_q=8.0, m=5))
    (0.25, 0.5)
    """
    return share(*read_variances(sigma2_theta, sigma2_x, n, sigma2_q, m))


@paired
@homogeneous("sigma2_theta", "sigma2_x", "sigma2_q", degree=1)
def risk(
    sigma2_theta: ArrayLike, sigma2_x: ArrayLike, n: ArrayLike, m: ArrayLike, sigma2_q: ArrayLike = 0.0, d: ArrayLike = 1
) -> Floats:
    """Mean squared error of a client at the best `shrinkage_factor`, d sigma2_x / n ((1 - a) / m + a).

    Exact where the paper prints an upper bound.  Claims: generative:thm1:mse, generative:thm2:mse.

    Parameters
    ----------
    m : whole number >= 1 of clients (>= 2 if sigma2_q > 0); d : whole number >= 1 of coordinates.
    sigma2_theta, sigma2_x, n, sigma2_q : see `shrinkage_factor`; variances per coordinate.

    >>> float(risk(1.0, 3.0, n=1, m=3))
    1.5
    """
    between, within = read_variances(sigma2_theta, sigma2_x, n, sigma2_q, m)
    return count("d", d) * within * (share(between, within) + share(within, between) / count("m", m))


@paired
@homogeneous("sigma2_theta", "sigma2_x", degree=1)
def risk_parts(
    weight: ArrayLike, sigma2_theta: ArrayLike, sigma2_x: ArrayLike, n: ArrayLike, m: ArrayLike
) -> tuple[Floats, Floats]:
    """Variance and squared bias, averaged over clients, of an estimate with any `weight` a on the client's own mean.

    s (a^2 + (1 - a^2) / m) and sigma2_theta (1 - a)^2 (1 - 1/m), with s = sigma2_x / n: a small weight buys less variance
    with bias.  They add to `risk` at the `shrinkage_factor`.  Exact.  Claim: generative:claim1.

    Parameters
    ----------
    weight : number in [0, 1] on the client's own mean; the rest goes to the plain average of all m clients, itself included.
    sigma2_theta, sigma2_x, n : see `shrinkage_factor`; m : whole number >= 1 of clients.

    Returns
    -------
    variance, squared bias : arrays or numbers, per coordinate.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> variance, bias2 = risk_parts(0.25, sigma2_theta=1.0, sigma2_x=3.0, n=1, m=3)
    >>> round(float(variance), 12), round(float(bias2), 12)
    (1.125, 0.375)
    """
    weight, m = probability("weight", weight), count("m", m)
    variance = local_risk(sigma2_x, n) * (weight**2 + (1 - weight**2) / m)
    return variance, nonnegative("sigma2_theta", sigma2_theta) * (1 - weight) ** 2 * (1 - 1 / m)


@paired
def local_risk(sigma2_x: ArrayLike, n: ArrayLike, d: ArrayLike = 1) -> Floats:
    """Mean squared error of a client's own sample mean, d sigma2_x / n.

    >>> float(local_risk(3.0, n=2))
    1.5
    """
    return count("d", d) * nonnegative("sigma2_x", sigma2_x) / count("n", n)


def read_theta(theta: ArrayLike, i: int) -> tuple[Floats, int]:
    """Return the array of true values, one row per client, and the position of client i."""
    theta = finite("theta", theta)
    if theta.ndim not in (1, 2):
        raise ValueError(f"theta must have shape (clients,) or (clients, coordinates), got {theta.shape}")
    return theta, index("i", i, 0, len(theta) - 1)


@paired
def conditional_bias(theta: ArrayLike, i: int, sigma2_theta: ArrayLike, sigma2_x: ArrayLike, n: ArrayLike) -> Floats:
    """Bias of client i's shrunk estimate given all true values, (1 - a)(mean of theta - theta_i).

    Zero on average over the prior, not client by client.  Claim: generative:thm1:unbiased.

    Parameters
    ----------
    theta : array (m,) or (m, d) of true values; i : int in 0..m-1.
    sigma2_theta, sigma2_x, n : numbers, see `shrinkage_factor`.

    >>> float(conditional_bias([0.0, 4.0], 0, sigma2_theta=1.0, sigma2_x=1.0, n=1))
    1.0
    """
    theta, i = read_theta(theta, i)
    read_variances(sigma2_theta, sigma2_x, n)
    # Where large values cancel, the distance from their mean is less than the rounding of their differences.
    gaps = [rounded(exact_sum(x) - len(x) * exact_sum(x[i]), UNIT * len(x)) for x in np.atleast_2d(theta.T)]
    mean = np.array(gaps) if theta.ndim == 2 else np.float64(gaps[0])
    within, between = Wide(np.asarray(sigma2_x, float)) / Wide(np.asarray(n, float)), Wide(np.asarray(sigma2_theta, float))
    # The share may be too small for a number where its product with the mean is not.
    return (np.sign(mean) * (within / (within + between) * Wide(np.abs(mean))).floats())[()]


@paired
def conditional_risk(theta: ArrayLike, i: int, sigma2_theta: ArrayLike, sigma2_x: ArrayLike, n: ArrayLike) -> Floats:
    """Mean squared error of client i's shrunk estimate when all true values `theta` are given.

    a^2 s + (1 - a^2) s / m per coordinate plus the squared bias, with s = sigma2_x / n.
    Averaged over the prior it is `risk`.  Parameters as in `conditional_bias`.

    >>> float(conditional_risk([0.0, 4.0], 0, sigma2_theta=1.0, sigma2_x=1.0, n=1))
    1.625
    """
    bias = conditional_bias(theta, i, sigma2_theta, sigma2_x, n)
    between, within = read_variances(sigma2_theta, sigma2_x, n)
    a = share(between, within)
    variance = within * (a**2 + share(within, between) * (1 + a) / len(finite("theta", theta)))
    return np.size(bias) * variance + np.sum(bias**2)


@paired
@homogeneous("sigma2_theta", "sigma2_x", degree=1)
def james_stein_risk(m: ArrayLike, sigma2_theta: ArrayLike, sigma2_x: ArrayLike, n: ArrayLike) -> Floats:
    """Mean squared error per client of James-Stein shrinkage to the grand mean, s (a + 3 (1 - a) / m).

    Averaged over the prior, for the plain (not positive-part) estimator with known s = sigma2_x / n; exact
    for m >= 4.  Not knowing the prior's variance costs 2 s (1 - a) / m over `risk`.  Claim:
    generative:thm1:james-stein.

    >>> float(james_stein_risk(6, sigma2_theta=1.0, sigma2_x=3.0, n=1))
    1.875
    """
    between, within = read_variances(sigma2_theta, sigma2_x, n)
    return within * (share(between, within) + 3 * share(within, between) / count("m", m, 4))


@paired
@homogeneous("sigma2_theta", "sigma2_y", degree=1)
def pooling_excess(m: ArrayLike, sigma2_theta: ArrayLike, sigma2_y: ArrayLike) -> Floats:
    """Risk per client of the mean of all reports for everybody, less that of James-Stein's estimates from the same reports.

    ((m - 1) sigma2_theta^2 - 2 sigma2_y^2) / (m (sigma2_theta + sigma2_y)); averaged over the prior, exact for m >= 4.
    Claim: generative:privacy:pooling.

    Parameters
    ----------
    m : whole number >= 4 of clients; sigma2_theta : variance >= 0 between them.
    sigma2_y : variance > 0 of a report around its client's parameter, the noise of privacy included.

    >>> float(pooling_excess(6, sigma2_theta=1.0, sigma2_y=1.0))
    0.25
    """
    between, within = nonnegative("sigma2_theta", sigma2_theta), positive("sigma2_y", sigma2_y)
    m = count("m", m, 4)
    return ((m - 1) * between * share(between, within) - 2 * within * share(within, between)) / m


@paired
@homogeneous("sigma2_y", degree=1)
def pooling_border(m: ArrayLike, sigma2_y: ArrayLike) -> Floats:
    """Variance between clients beyond which James-Stein's estimates beat the mean of all reports, sqrt(2 / (m-1)) sigma2_y.

    Below it clients are so alike, or reports so noisy, that it does not pay to find out how much they differ.  Exact for
    m >= 4.  Claim: generative:privacy:border.

    Parameters
    ----------
    m : whole number >= 4 of clients; sigma2_y : variance > 0 of a report, the noise of privacy included.

    >>> float(pooling_border(9, sigma2_y=3.0))
    1.5
    """
    return np.sqrt(2 / (count("m", m, 4) - 1)) * positive("sigma2_y", sigma2_y)


@paired
def james_stein_conditional_risk(theta: ArrayLike, sigma2_x: float, n: int) -> Floats:
    """Mean squared error per client of James-Stein shrinkage to the grand mean when all true values `theta` are given.

    s [1 - (m - 3)^2 / m E(1 / X)] with s = sigma2_x / n and X noncentral chi-square of m - 1 degrees of freedom and
    noncentrality sum (theta_i - mean)^2 / s: from m = 4 on below the own mean's error s for all true values, and near it
    when they lie far apart.  For the plain (not positive-part) estimator with known s; exact.  Averaged over the prior it is
    `james_stein_risk`.  Claim: generative:intro:stein.

    Parameters
    ----------
    theta : array (m,) of true values, m >= 2.  With two clients the risk is infinite, with three it is s: nothing is shrunk.
    sigma2_x : variance > 0 of one sample; n : whole number >= 1 of samples per client.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> [round(float(james_stein_conditional_risk([x, 0, 0, 0, -x], 1.0, 1)), 6) for x in (0.0, 1.0, 100.0)]
    [0.6, 0.747152, 0.99996]
    >>> [float(james_stein_conditional_risk(m * [0.0], 1.0, 1)) for m in (2, 3)]
    [inf, 1.0]
    """
    theta = finite("theta", theta)
    if theta.ndim != 1 or theta.size < 2:
        raise ValueError(f"theta must hold the true values of at least 2 clients, got shape {theta.shape}")
    m, within = theta.size, positive("sigma2_x", number("sigma2_x", sigma2_x)) / count("n", number("n", n))
    apart = np.sum((theta - theta.mean()) ** 2) / within
    if m == 2:
        return np.array(np.inf)  # 1 / X has no mean
    # 1 / X is the integral of exp(-t X) over t > 0: (m - 3) E(1 / X) is Kummer's function, here by what it lacks to 1.
    return within * (3 / m + (1 - 3 / m) * apart / (m - 1) * hyp1f1(1.0, (m + 1) / 2, -apart / 2))


@paired
def james_stein(
    x: ArrayLike, variance: ArrayLike, toward: Literal["mean"] | ArrayLike = "mean", positive_part: bool = True
) -> Floats:
    """James-Stein estimate of the means of which `x` holds one observation each, of a common known variance.

    Shrinks by 1 - (m - 3) variance / S to the grand mean, where S is the sum of squared distances to it, or
    by 1 - (m - 2) variance / S to a fixed value.

    Parameters
    ----------
    x : array (..., m), clients on the last axis; m >= 4 to shrink to the mean, m >= 3 to a value.
    variance : number >= 0, or array broadcasting against x[..., :1].
    toward : "mean" or a number.
    positive_part : bool; never shrink past the target (this always lowers the risk).

    Returns
    -------
    array like `x`.

    >>> james_stein([1.0, 2.0, 3.0, 6.0], variance=2.0).round(6).tolist()
    [1.285714, 2.142857, 3.0, 5.571429]
    """
    x = finite("x", x)
    fixed = not isinstance(toward, str)
    lost = 2 if fixed else 3
    if x.ndim == 0 or x.shape[-1] <= lost:
        raise ValueError(f"x must hold at least {lost + 1} clients on its last axis to shrink toward {toward!r}")
    if not fixed:
        choice("toward", toward, ("mean",))
    variance, target = nonnegative("variance", variance), finite("toward", toward) if fixed else np.zeros(())
    # In a unit in which no square leaves the range of numbers.
    k = exponents(np.maximum(np.max(np.abs(x), axis=-1, keepdims=True), np.abs(target)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x, target, variance = np.ldexp(x, -k), np.ldexp(target, -k), np.ldexp(variance, -2 * k)
        if not fixed:
            target = x.mean(axis=-1, keepdims=True)
        deviation = x - target
        total = np.sum(deviation**2, axis=-1, keepdims=True)
        factor = 1 - (x.shape[-1] - lost) * variance / total
        if positive_part:
            factor = np.maximum(factor, 0.0)
        return np.ldexp(target + np.where(deviation == 0, 0.0, factor * deviation), k)


@paired
def from_samples(samples: Sequence[ArrayLike]) -> tuple[Floats, Floats]:
    """Turn raw samples into client means and their variances, the pooled variance over each n_i.

    Parameters
    ----------
    samples : list of 1-d arrays, one per client, of any lengths >= 1, at least one of them >= 2.

    Returns
    -------
    estimates, variances : arrays with one entry per client, ready for ``GaussianMeans.fit``.

    >>> estimates, variances = from_samples([[1.0, 3.0], [5.0]])
    >>> estimates.tolist(), variances.tolist()
    ([2.0, 5.0], [1.0, 2.0])
    """
    arrays = [finite(f"samples[{i}]", without_labels(sample)) for i, sample in enumerate(listing("samples", samples))]
    if not arrays:
        raise ValueError("samples is empty; give one array per client")
    for i, array in enumerate(arrays):
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"samples[{i}] must be a 1-d array with at least one value, got shape {array.shape}")
    counts = np.array([array.size for array in arrays])
    freedom = int(np.sum(counts - 1))
    if freedom == 0:
        raise ValueError(
            "samples has one value per client, which says nothing about the variance within clients; "
            "give the variances and call GaussianMeans.fit(estimates, variances)"
        )
    estimates = np.array([array.mean() for array in arrays])
    deviations = np.concatenate([array - mean for array, mean in zip(arrays, estimates, strict=True)])
    with np.errstate(over="ignore"):
        squares = sum(np.sum((array - mean) ** 2) for array, mean in zip(arrays, estimates, strict=True))
    if not squares < np.inf or (squares < 1e-290 and deviations.any()):
        raise ValueError(
            f"samples differ from their clients' means by {np.abs(deviations).max():.1g}, the square of which is not a "
            "floating-point number; change their units"
        )
    return estimates, squares / freedom / counts
