"""Count, mean and scatter of a few statistics, and what can be estimated from them.

Belongs here: merging moments, and linear combinations and ratios of means with standard errors.
Does not belong here: how the statistics were simulated, or what their means should be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats

BATCH = 256
"""Replicates of a batch, whose mean is kept to see whether replicates are independent (``independence``)."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of ``M`` statistics over independent replicates.

    Parameters
    ----------
    count : int, >= 0
        Replicates.
    mean : array, shape (M,)
        Sample means.
    scatter : array, shape (M, M)
        Sum over the replicates of the outer product of the deviations from `mean`.
    batches : array, shape (K, M), optional
        Means of batches of `BATCH` consecutive replicates, for ``independence``; merged moments have none.

    Examples
    --------
    >>> sample = np.array([[1.0, 2.0], [3.0, 5.0], [5.0, 5.0]])
    >>> whole = Moments.of(sample)
    >>> parts = Moments.of(sample[:1]).merge(Moments.of(sample[1:]))
    >>> parts.count, parts.mean.tolist(), np.allclose(parts.scatter, whole.scatter)
    (3, [3.0, 4.0], True)
    """

    count: int
    mean: np.ndarray
    scatter: np.ndarray
    batches: np.ndarray | None = None

    def __post_init__(self):
        mean = np.array(self.mean, dtype=float)
        scatter = np.array(self.scatter, dtype=float)
        if self.count < 0:
            raise ValueError(f"count must be >= 0, got {self.count}")
        if mean.ndim != 1 or mean.size == 0:
            raise ValueError(f"mean must be a non-empty vector, got shape {mean.shape}")
        if scatter.shape != (mean.size, mean.size):
            raise ValueError(f"scatter must have shape {(mean.size, mean.size)}, got {scatter.shape}")
        mean.setflags(write=False)
        scatter.setflags(write=False)
        object.__setattr__(self, "count", int(self.count))
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scatter", scatter)

    @classmethod
    def of(cls, sample: ArrayLike) -> Moments:
        """Moments of a sample of shape (replicates, M)."""
        sample = np.asarray(sample, dtype=float)
        if sample.ndim != 2 or len(sample) == 0:
            raise ValueError(f"sample must have shape (replicates >= 1, M), got {sample.shape}")
        rows = np.ascontiguousarray(sample.T)  # sums along rows are fast
        mean = rows.mean(axis=1)
        deviation = rows - mean[:, None]
        # Not a BLAS product: its last bits depend on how many threads it takes.
        return cls(len(sample), mean, np.einsum("ik,jk->ij", deviation, deviation))

    def merge(self, other: Moments) -> Moments:
        """Moments of both samples together (Chan, Golub and LeVeque 1979)."""
        if self.mean.shape != other.mean.shape:
            raise ValueError(f"other has {other.mean.size} statistics, expected {self.mean.size}")
        count = self.count + other.count
        if count == 0:
            return self
        difference = other.mean - self.mean
        # Divided first, so that counts beyond 2**53 cannot overflow the product.
        pooled = self.count * (other.count / count)
        return Moments(
            count,
            self.mean + difference * (other.count / count),
            self.scatter + other.scatter + np.outer(difference, difference) * pooled,
        )

    @property
    def covariance(self) -> np.ndarray:
        """Unbiased covariance of the statistics of one replicate, shape (M, M)."""
        if self.count < 2:
            raise ValueError(f"count must be >= 2 for a covariance, got {self.count}")
        return self.scatter / (self.count - 1)

    def standard_deviation(self, coefficients: ArrayLike) -> float:
        """Standard deviation over replicates of the combination ``coefficients @ statistics``."""
        c = self._coefficients(coefficients)
        # Rounding can push the variance of a combination that cancels a little below zero.
        return math.sqrt(max(float(c @ self.covariance @ c), 0.0))

    def standard_error(self, coefficients: ArrayLike) -> float:
        """Standard error of ``coefficients @ mean``."""
        return self.standard_deviation(coefficients) / math.sqrt(self.count)

    def linear(self, coefficients: ArrayLike) -> tuple[float, float]:
        """Estimate and standard error of a linear combination of the means.

        Examples
        --------
        >>> Moments.of([[1.0, 0.0], [3.0, 0.0]]).linear([1, 1])
        (2.0, 1.0)
        """
        return float(self._coefficients(coefficients) @ self.mean), self.standard_error(coefficients)

    def ratio(self, numerator: ArrayLike, denominator: ArrayLike) -> tuple[float, float]:
        """Estimate and standard error (delta method) of a ratio of two linear combinations.

        The delta method is a large-sample approximation: it needs a denominator many standard
        errors away from zero.
        """
        a, b = self._coefficients(numerator), self._coefficients(denominator)
        below = float(b @ self.mean)
        if below == 0:
            raise ValueError("denominator has mean zero: the ratio is undefined")
        value = float(a @ self.mean) / below
        return value, self.standard_error(a - value * b) / abs(below)

    def _coefficients(self, coefficients) -> np.ndarray:
        c = np.asarray(coefficients, dtype=float)
        if c.shape != self.mean.shape or not np.isfinite(c).all():
            raise ValueError(f"coefficients must be {self.mean.size} finite numbers, got {coefficients!r}")
        return c


def require_finite(means: Floats) -> None:
    """Raise ValueError unless means over nets, shape (nets, M), are numbers: one point that is none spoils a whole net."""
    wrong = ~np.isfinite(means)
    if wrong.any():
        statistic = int(np.argmax(wrong.any(axis=0)))
        raise ValueError(
            f"experiment: statistic {statistic} is not a finite number at some point of {wrong[:, statistic].sum()} of "
            f"{len(means)} nets; its model divides by zero or takes a root or a logarithm of what may be negative"
        )


def batch_means(sample: Floats) -> np.ndarray:
    """Means of the full batches of `BATCH` consecutive rows of a sample of shape (replicates, M)."""
    full = len(sample) // BATCH
    rows = np.ascontiguousarray(sample[: full * BATCH].T)
    return np.ascontiguousarray(rows.reshape(sample.shape[1], full, BATCH).mean(axis=2).T)


def combine(parts: Iterable[Moments]) -> Moments:
    """Merge moments one after another, in the order given.

    Floating-point addition is not associative, so the order fixes the bits: pass chunks in the order
    of their numbers.
    """
    parts = iter(parts)
    total = next(parts, None)
    if total is None:
        raise ValueError("parts must hold at least one Moments")
    for part in parts:
        total = total.merge(part)
    return total
