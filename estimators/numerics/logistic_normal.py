"""Averages of the logistic function and its relatives over a normal variable.

Belongs here: `logistic_normal`.  The regressions that need it are in ``logistic_clients``.
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.validation import finite, nonnegative, paired

__all__ = ["logistic_normal"]

# Mixture of normal distribution functions closest to the logistic one, 8 terms (Monahan and Stefanski 1992, in Handbook of
# the Logistic Distribution, table 3): sum WEIGHTS Phi(SCALES x).
WEIGHTS = np.array(
    [
        *(0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818),
        *(0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354),
    ]
)
SCALES = np.array(
    [
        *(1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391),
        *(0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306),
    ]
)


@paired
def logistic_normal(mean: ArrayLike, variance: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Averages of log(1 + e^z), 1/(1 + e^-z) and its slope over z ~ N(mean, variance); within 1e-8 everywhere.

    Parameters
    ----------
    mean : array; variance : array >= 0 or inf, of the same shape.

    Returns
    -------
    Three arrays of that shape.

    >>> [round(float(x), 6) for x in logistic_normal(0.0, 0.0)]
    [0.693147, 0.5, 0.25]
    """
    return averages(finite("mean", mean), nonnegative("variance", variance, infinite=True))


def averages(mean: Numbers, variance: Numbers) -> tuple[Floats, Floats, Floats]:
    """`logistic_normal` without checks."""
    from scipy.special import ndtr

    first = np.zeros(np.broadcast_shapes(np.shape(mean), np.shape(variance)))
    second, third = np.zeros_like(first), np.zeros_like(first)
    for weight, scale in zip(WEIGHTS, SCALES, strict=True):
        width = np.sqrt(1 / scale**2 + variance)
        t = mean / width
        below, height = ndtr(t), np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
        first += weight * (mean * below + width * height)
        second += weight * below
        third += weight * height / width
    return first, second, third
