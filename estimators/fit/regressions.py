"""What one client's rows say by themselves about its regression.

Belongs here: estimates without any borrowing, for comparison.  The models that borrow are in ``estimators``.
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import finite, paired

__all__ = ["least_squares", "own_logistic"]

SLACK = 1e-10  # share by which a step may raise the loss: that much is rounding, at which a shorter step would stop short


def one_client(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return one client's design (n, d) and responses (n,), checked."""
    X, y = finite("X", X), finite("y", y)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"X must be (rows, coefficients) and y (rows,), got {X.shape} and {y.shape}")
    return X, y


def of_size_one(X: Floats) -> tuple[Floats, Floats]:
    """Return X with columns divided by powers of 2 to sizes near 1, and these: what rows determine has no units.

    Powers of 2 round nothing, so that neither estimates nor their errors change but for features of extreme units.
    """
    size = np.ldexp(1.0, np.frexp(np.abs(X).max(axis=0, initial=0.0))[1])
    return X / size, size


@paired
def least_squares(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return a client's own coefficients and their standard errors; NaN where its rows do not determine them.

    >>> [values.round(12).tolist() for values in least_squares(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))]
    [[2.0], [1.0]]
    """
    X, y = one_client(X, y)
    n, d = X.shape
    unknown = np.full(d, np.nan)
    X, size = of_size_one(X)
    if n < d or np.linalg.matrix_rank(X) < d:
        return unknown, unknown
    found = np.linalg.lstsq(X, y, rcond=None)[0]
    if n == d:
        return found / size, unknown
    variance = np.sum((y - X @ found) ** 2) / (n - d)
    return found / size, np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X))) / size


@paired
def own_logistic(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return a client's own most likely coefficients of a logistic regression and their standard errors.

    NaN where there are none: where the rows do not determine them, or a plane separates the two classes; and where a row is
    farther away than all others by so much, a million times, that its rounding hides what they say.
    """
    from scipy.special import expit

    X, y = one_client(X, y)
    n, d = X.shape
    unknown = np.full(d, np.nan)
    X, size = of_size_one(X)
    if d == 0 or n < d or np.linalg.matrix_rank(X) < d:
        return unknown, unknown
    found = np.zeros(d)
    for _ in range(100):
        p = expit(X @ found)
        information = np.einsum("ni,n,nj->ij", X, p * (1 - p), X)
        if np.linalg.cond(information) > 1e12 or np.abs(y - p).max() < 0.5:
            return unknown, unknown  # on the way to infinity: all rows are on their classes' sides of a plane
        step = np.linalg.solve(information, X.T @ (y - p))
        change = np.abs(X @ step).max()
        if change < 1e-8:
            return found / size, np.sqrt(np.diag(np.linalg.inv(information))) / size
        most = loss(X @ found, y) * (1 + SLACK)
        while loss(X @ (found + step), y) > most:
            step = step / 2
        found = found + step
    return unknown, unknown


def loss(eta: Floats, y: Floats) -> float:
    """Return minus the log-likelihood of classes y of log-odds eta."""
    return float(np.sum(np.logaddexp(0.0, eta) - y * eta))
