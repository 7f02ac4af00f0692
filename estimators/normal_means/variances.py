"""Variances that few rows estimate, each moderated by those of all clients.

Belongs here: the law from which the clients' variances come, learnt from their sample variances, and each client's variance
given its rows (Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3:3; R's limma).  Means with such variances are in
``sample_means``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import nonnegative, paired

__all__ = ["ModeratedVariances", "moderated_variances"]

SMALLEST = 1e-5  # part of the median that stands for a smaller variance, as in limma
FEWEST = 3  # clients with two rows from whom on it can be seen whether variances differ


class ModeratedVariances(NamedTuple):
    """Clients' variances given their rows: sigma2_i ~ variances_i degrees_i / chi-square(degrees_i).

    ``prior_variance`` s0^2 and ``prior_degrees`` d0 (inf where variances do not differ beyond their noise) are the law
    from which they come, sigma2_i ~ s0^2 d0 / chi-square(d0); ``variances`` (m,) = (d0 s0^2 + d_i s_i^2) / (d0 + d_i) and
    ``degrees`` (m,) = d0 + d_i.
    """

    prior_variance: float
    prior_degrees: float
    variances: Floats
    degrees: Floats


@paired
def moderated_variances(variances: ArrayLike, degrees: ArrayLike) -> ModeratedVariances:
    """Return the clients' variances, moderated by the law from which all of them come.

    Model: s_i^2 ~ sigma2_i chi-square(d_i) / d_i, sigma2_i ~ s0^2 d0 / chi-square(d0), with d0 and s0^2 from the mean and
    variance of log s_i^2 (limma's ``squeezeVar``).  With fewer than three clients of d_i > 0, or where log variances vary
    no more than by chance, d0 = inf and all have the pooled variance.

    Parameters
    ----------
    variances : array (m,), sample variances s_i^2 >= 0, each with the divisor d_i; not looked at where d_i = 0.
    degrees : array (m,) or number >= 0, degrees of freedom d_i, the number of rows less one.

    Raises
    ------
    ValueError
        Naming the argument; also if no client has a positive variance.

    >>> found = moderated_variances([0.5, 1, 2, 4, 8, 0.3, 0.9, 1.5], 4)
    >>> round(found.prior_degrees, 8), round(found.prior_variance, 8), round(float(found.variances[0]), 8)
    (4.92350123, 1.45346365, 1.02606923)
    """
    from scipy.special import digamma, polygamma

    s2, d = nonnegative("variances", variances), nonnegative("degrees", degrees)
    if s2.ndim != 1 or d.shape not in ((), s2.shape):
        raise ValueError(f"variances must be 1-d and degrees one number or as many, got shapes {s2.shape} and {d.shape}")
    d = np.broadcast_to(d, s2.shape)
    some = d > 0
    if not (s2[some] > 0).any():
        raise ValueError(
            "variances must be > 0 for some client with degrees > 0; no client's rows differ, so theirs are unknown"
        )
    unit = np.ldexp(1.0, np.frexp(s2[some].max())[1])
    s2 = np.where(some, s2 / unit, 0.0)
    own, df = s2[some], d[some]
    pooled = float(np.sum(df * own) / np.sum(df))
    prior, degrees0 = pooled, float(np.inf)
    if own.size >= FEWEST:
        floor = SMALLEST * (float(np.median(own)) or pooled)
        logs = np.log(np.maximum(own, floor)) - digamma(df / 2) + np.log(df / 2)
        beyond = float(np.var(logs, ddof=1) - np.mean(polygamma(1, df / 2)))
        if beyond > 0:
            half = inverse_trigamma(beyond)
            prior, degrees0 = float(np.exp(np.mean(logs) + digamma(half) - np.log(half))), 2 * half
    if np.isinf(degrees0):
        return ModeratedVariances(float(pooled * unit), np.inf, np.full(d.shape, pooled * unit), np.full(d.shape, np.inf))
    total = degrees0 + d
    return ModeratedVariances(float(prior * unit), degrees0, (degrees0 * prior + d * s2) / total * unit, total)


def inverse_trigamma(value: float) -> float:
    """Return x > 0 with trigamma(x) = value > 0, by Newton's method on 1 / trigamma, which is convex and nearly linear.

    >>> from scipy.special import polygamma
    >>> [round(float(polygamma(1, inverse_trigamma(value))) / value, 12) for value in (1e-9, 0.5, 3.0, 1e9)]
    [1.0, 1.0, 1.0, 1.0]
    """
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    if value < 1e-6:
        return x  # up to value^2
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-14 * x:
            break
    return x
