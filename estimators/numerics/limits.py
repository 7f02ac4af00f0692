"""Arithmetic of variances that keeps its meaning at 0 and at infinity, and its digits in between.

A variance of 0 is exact knowledge, one of infinity is no knowledge.  No model belongs here.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.units import exponents
from estimators.numerics.validation import number

__all__ = ["harmonic", "pooled_variance", "quotient", "ratio", "relative_precisions", "share", "split", "times"]

quiet = partial(np.errstate, divide="ignore", invalid="ignore", over="ignore")


def times(x: Numbers, y: Numbers) -> Floats:
    """Return x y, where 0 times infinity is 0: what gets no weight does no harm.

    >>> float(times(0.0, np.inf))
    0.0
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    with quiet():
        return np.where((x == 0) | (y == 0), 0.0, x * y)[()]


def quotient(x: Numbers, y: Numbers) -> Floats:
    """Return x / y for x >= 0, where 0 / 0 is 0 and anything else over 0 is infinity.

    >>> float(quotient(1.0, 0.0)), float(quotient(0.0, 0.0))
    (inf, 0.0)
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    with quiet():
        return np.where(x == 0, 0.0, x / np.where(y == 0, 0.0, y))[()]  # a denominator of -0.0 becomes 0.0


def ratio(x: Numbers, y: Numbers) -> Floats:
    """Return x / y, where anything over 0 is NaN: events per trial of those who have no trials.

    >>> ratio([1.0, 0.0], [4.0, 0.0]).tolist()
    [0.25, nan]
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    with quiet():
        return np.where(y == 0, np.nan, x / y)[()]


def ordered(x: Numbers, y: Numbers) -> tuple[Floats, Floats, Floats]:
    """Return the smaller, the larger and their ratio in [0, 1] (1 for two zeros or two infinities)."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    small, large = np.minimum(x, y), np.maximum(x, y)
    with quiet():
        return small, large, np.where(small == large, 1.0, small / large)


def harmonic(x: Numbers, y: Numbers) -> Floats:
    """Return x y / (x + y), the variance that is left after combining two independent estimates.

    >>> float(harmonic(2.0, np.inf)), float(harmonic(0.0, 3.0))
    (2.0, 0.0)
    """
    small, _, ratio = ordered(x, y)
    return (small / (1 + ratio))[()]


def share(x: Numbers, y: Numbers) -> Floats:
    """Return x / (x + y) for x, y >= 0; it is 0 when both are 0.

    >>> float(share(1.0, 3.0)), float(share(np.inf, 3.0)), float(share(0.0, 0.0))
    (0.25, 1.0, 0.0)
    """
    _, large, ratio = ordered(x, y)
    part = np.where(np.asarray(x, float) >= y, 1.0, ratio) / (1 + ratio)
    return np.where(large == 0, 0.0, part)[()]


def relative_precisions(variances: Floats, axis: int = 0) -> Floats:
    """Return the precisions along `axis` relative to the largest of them; all equal if all variances are inf.

    >>> relative_precisions([1.0, 4.0, np.inf]).tolist()
    [1.0, 0.25, 0.0]
    """
    variances = np.asarray(variances, float)
    smallest = variances.min(axis=axis, keepdims=True)
    with quiet():
        return np.where(variances == smallest, 1.0, smallest / variances)


def pooled_variance(counts: Numbers, variances: Floats) -> Floats:
    """Return 1 / sum(counts / variances) along axis 0, the variance of the best average; inf if all are inf.

    >>> float(pooled_variance([2.0, 1.0], [4.0, 2.0]))
    1.0
    """
    variances = np.asarray(variances, float)
    smallest = variances.min(axis=0, initial=np.inf, where=np.isfinite(variances) & (variances > 0))
    k = exponents(np.where(np.isinf(smallest), 0.0, smallest))  # in whose unit no reciprocal overflows
    with quiet():
        return np.ldexp(quotient(1.0, np.sum(quotient(counts, np.ldexp(variances, -k)), axis=0)), k)[()]


def split(lam: ArrayLike) -> tuple[Floats, Floats]:
    """Return (1 / (1 + lam), lam / (1 + lam)), the weights on one's own and on the common estimate.

    The minimiser of (t - own)^2 + lam (t - common)^2 puts these weights on the two.  `lam` is any real number
    but -1, or inf; a negative one has no minimisation behind it but still names a combination.

    >>> [float(weight) for weight in split(np.inf)]
    [0.0, 1.0]
    """
    lam = number("lam", lam)
    if (lam == -1).any():
        raise ValueError("lam must not be -1, where the weights 1 / (1 + lam) and lam / (1 + lam) blow up")
    keep = 1 / (1 + lam)
    with quiet():
        return keep[()], np.where(np.isinf(lam), 1.0, lam / (1 + lam))[()]
