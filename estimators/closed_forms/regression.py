"""Linear regression of one client with a Gaussian prior: posterior, its error, the local estimate's error.

Model: Y = X theta + noise, noise ~ N(0, sigma2_x I), theta ~ N(mu, sigma2_theta I); X is (n, d), Y is (n,).
Everything goes through the singular values of X, so no normal equations are formed and the limits
sigma2_theta = 0 or inf and sigma2_x = 0 are exact.  Learning mu and the variances from many clients is not
here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import harmonic, quiet, quotient, share, times
from estimators.numerics.rows import all_finite, read_rows
from estimators.numerics.units import exponents
from estimators.numerics.validation import finite, nonnegative, paired

__all__ = ["local_mse", "posterior", "posterior_all", "posterior_mse", "posterior_mse_parts"]


def read_design(X: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Check X; return U, the singular values padded to d with exact zeros past the numerical rank, and V'."""
    X = finite("X", X)
    if X.ndim != 2 or X.shape[1] == 0:
        raise ValueError(f"X must have shape (samples, coefficients) with at least one coefficient, got {X.shape}")
    n, d = X.shape
    U, values, Vt = np.linalg.svd(X, full_matrices=n < d)  # all d right vectors, and no n by n matrix
    singular = np.zeros(d)
    singular[: values.size] = values
    singular[singular <= max(n, d) * np.finfo(float).eps * singular.max()] = 0.0
    return U, singular, Vt


def read_variance(name: str, value: ArrayLike, infinite: bool = False) -> float:
    """Return a variance as a float, refusing arrays: a client has one."""
    value = nonnegative(name, value, infinite=infinite)
    if value.ndim:
        raise ValueError(f"{name} must be one number, got shape {value.shape}")
    return float(value)


def posterior_variances(singular: Floats, sigma2_theta: float, sigma2_x: float) -> Floats:
    """Return the posterior variances along the right singular vectors of X."""
    known = np.where(singular == 0, np.inf, over_squares(sigma2_x, singular))
    if np.isinf(sigma2_theta) and (singular == 0).any():
        raise ValueError("sigma2_theta=inf needs X of full column rank; give a finite prior variance")
    return harmonic(sigma2_theta, known)


def over_squares(sigma2_x: float, singular: Floats) -> Floats:
    """Return sigma2_x over the squares of singular values, which need not be floating-point numbers."""
    k = exponents(singular.max(initial=0.0))
    with quiet():
        return np.ldexp(quotient(sigma2_x, np.ldexp(singular, -k) ** 2), -2 * k)


@paired
def posterior(X: ArrayLike, Y: ArrayLike, mu: ArrayLike, sigma2_theta: float, sigma2_x: float) -> tuple[Floats, Floats]:
    """Posterior mean and covariance of the client's coefficients; exact.  Claim: generative:thm6.

    Parameters
    ----------
    X : array (n, d) of features; Y : array (n,) of responses.
    mu : array (d,) or number, the prior mean.
    sigma2_theta : variance >= 0 or inf (then X needs full column rank) of each coefficient.
    sigma2_x : variance >= 0 of a response.

    Returns
    -------
    mean : array (d,); covariance : array (d, d).

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain or has the wrong shape.

    >>> X = [[1.0, 0.0], [1.0, 0.0]]
    >>> mean, covariance = posterior(X, [2.0, 4.0], mu=0.0, sigma2_theta=1.0, sigma2_x=1.0)
    >>> mean.round(12).tolist(), covariance.round(12).tolist()
    ([2.0, 0.0], [[0.333333333333, 0.0], [0.0, 1.0]])
    """
    U, singular, Vt = read_design(X)
    sigma2_theta = read_variance("sigma2_theta", sigma2_theta, infinite=True)
    sigma2_x = read_variance("sigma2_x", sigma2_x)
    variances = posterior_variances(singular, sigma2_theta, sigma2_x)
    X, Y, mu = finite("X", X), finite("Y", Y), finite("mu", mu)
    if Y.shape != X.shape[:1]:
        raise ValueError(f"Y must have one response per row of X, {X.shape[:1]}, got shape {Y.shape}")
    if mu.shape not in ((), X.shape[1:]):
        raise ValueError(f"mu must be one number or have one entry per column of X, got shape {mu.shape}")
    k = exponents(singular.max())  # in whose unit no square leaves the range of numbers
    with quiet():
        noise_ratio = np.inf if sigma2_theta == 0 else sigma2_x / np.ldexp(sigma2_theta, 2 * k)
        scaled = np.ldexp(singular, -k)
        gains = np.ldexp(quotient(scaled, scaled**2 + noise_ratio), -k)
    used = min(X.shape)
    surprise = U[:, :used].T @ (Y - X @ np.broadcast_to(mu, X.shape[1:]))
    return mu + Vt[:used].T @ (gains[:used] * surprise), (Vt.T * variances) @ Vt


@paired
def posterior_all(
    Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike], mu: ArrayLike, sigma2_theta: float, sigma2_x: float
) -> tuple[Floats, Floats]:
    """Posterior means (m, d) and covariances (m, d, d) of m clients with their own data and one common prior.

    Parameters
    ----------
    Xs, Ys : lists with one entry per client, see `posterior`; clients may differ in their number of samples.

    >>> means, covariances = posterior_all([[[1.0]], [[1.0], [1.0]]], [[2.0], [2.0, 4.0]], 0.0, 1.0, 1.0)
    >>> means.round(12).tolist()
    [[1.0], [2.0]]
    """
    designs, responses = read_rows(Xs, Ys)
    all_finite(designs, responses)
    fits = [posterior(X, Y, mu, sigma2_theta, sigma2_x) for X, Y in zip(designs, responses, strict=True)]
    return np.stack([mean for mean, _ in fits]), np.stack([covariance for _, covariance in fits])


@paired
def posterior_mse(X: ArrayLike, sigma2_theta: float, sigma2_x: float) -> float:
    """Mean squared error of the posterior mean, tr((I / sigma2_theta + X'X / sigma2_x)^-1); exact.

    Averaged over theta and the noise, for the given X.  Claim: generative:thm6.  Parameters as in
    `posterior`.

    >>> round(float(posterior_mse([[1.0, 0.0], [1.0, 0.0]], sigma2_theta=1.0, sigma2_x=1.0)), 12)
    1.333333333333
    """
    sigma2_theta = read_variance("sigma2_theta", sigma2_theta, infinite=True)
    variances = posterior_variances(read_design(X)[1], sigma2_theta, read_variance("sigma2_x", sigma2_x))
    return np.sum(variances)


@paired
def posterior_mse_parts(X: ArrayLike, sigma2_theta: float, sigma2_x: float) -> tuple[float, float]:
    """The two parts of `posterior_mse`: variance around its mean given theta, and squared bias of that mean; exact.

    With M = I / sigma2_theta + X'X / sigma2_x: tr(M^-1 X'X M^-1) / sigma2_x and tr(M^-2) / sigma2_theta, the second on
    average over theta.  Claim: generative:thm6:parts.  Parameters and errors as in `posterior`.

    >>> variance, bias2 = posterior_mse_parts([[1.0, 0.0], [1.0, 0.0]], sigma2_theta=1.0, sigma2_x=1.0)
    >>> round(float(variance), 12), round(float(bias2), 12)
    (0.222222222222, 1.111111111111)
    """
    sigma2_theta = read_variance("sigma2_theta", sigma2_theta, infinite=True)
    sigma2_x, singular = read_variance("sigma2_x", sigma2_x), read_design(X)[1]
    variances = posterior_variances(singular, sigma2_theta, sigma2_x)
    known = np.where(singular == 0, np.inf, over_squares(sigma2_x, singular))
    return np.sum(times(share(sigma2_theta, known), variances)), np.sum(times(share(known, sigma2_theta), variances))


@paired
def local_mse(X: ArrayLike, sigma2_x: float, sigma2_theta: float | None = None, mu: ArrayLike | None = None) -> float:
    """Mean squared error of the client's own least-squares estimate (pseudo-inverse of X); exact.

    sigma2_x tr((X'X)^-1) if X has full column rank.  Otherwise the estimate is 0 outside the row space of
    X, and the error there, (d - rank) sigma2_theta + |(I - P) mu|^2 on average over the prior, has to be
    added.  Claim: generative:eq18 (which prints the first part only).

    Parameters
    ----------
    X : array (n, d); sigma2_x : variance >= 0.
    sigma2_theta : variance >= 0 or inf; mu : array (d,) or number.  Both needed only if X is rank-deficient.

    >>> round(float(local_mse([[1.0], [1.0]], sigma2_x=1.0)), 12)
    0.5
    >>> float(local_mse([[1.0, 0.0], [1.0, 0.0]], sigma2_x=1.0, sigma2_theta=2.0, mu=[5.0, 3.0]))
    11.5
    """
    _, singular, Vt = read_design(X)
    noise = np.sum(over_squares(read_variance("sigma2_x", sigma2_x), singular[singular > 0]))
    missing = Vt[singular == 0]
    if len(missing) == 0:
        return noise
    if sigma2_theta is None or mu is None:
        raise ValueError("X is rank-deficient, so the error depends on the prior: give sigma2_theta and mu")
    mu = finite("mu", mu)
    if mu.shape not in ((), Vt.shape[:1]):
        raise ValueError(f"mu must be one number or have one entry per column of X, got shape {mu.shape}")
    lost = missing @ np.broadcast_to(mu, Vt.shape[:1])
    return noise + len(missing) * read_variance("sigma2_theta", sigma2_theta, infinite=True) + float(lost @ lost)
