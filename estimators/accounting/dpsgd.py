"""Noise of DP-SGD: variances of noisy batch gradients and of a client's model update, and a closed form of the noise.

Model.  In each step a client clips the gradients of b records to the norm c, adds them up, adds Gaussian noise of
standard deviation c z to each of p coordinates and divides by b.  A variance is a mean squared distance from the mean,
summed over the p coordinates.  Privacy is by record, add or remove one, with the batch drawn by Poisson sampling.

Belongs here: what the noise is, and the closed form of what is enough.  How a server weighs noisy updates is in
``aggregation``; the noise that a promise needs is ``accountants.noise_for`` of an event.
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import quiet, times
from estimators.numerics.validation import (
    choice,
    count,
    finite,
    fraction,
    nonnegative,
    paired,
    positive,
    probability,
)

__all__ = [
    "batch_gradient_variance",
    "closed_form_noise_multiplier",
    "model_update_variance",
    "unclipped_gradient_variance",
]

SAMPLINGS = ("independent", "without replacement", "poisson")
PATHS = ("fixed mean", "shuffled", "curved")


@paired
def batch_gradient_variance(
    *,
    b: ArrayLike,
    c: ArrayLike,
    z: ArrayLike,
    p: ArrayLike,
    alignment: ArrayLike = 1.0,
    others: ArrayLike = 0,
    sampling: str = "independent",
) -> Floats:
    """Variance of a noisy batch gradient when every gradient is clipped; exact.

    Sampling part plus p c^2 z^2 / b^2.  The sampling part is (c^2 - |G|^2) / b for independent gradients, that times
    others / (b + others - 1) for a batch of fixed size drawn without replacement (conditional on the records), and
    c^2 others / (b (b + others)) for Poisson sampling with a fixed divisor b.  If only some gradients are clipped the first
    is an upper bound.  Claims: robusthdp:eq3, robusthdp:eq3:any-clip.

    Parameters
    ----------
    b : whole number >= 1, the (expected) batch size; c : number > 0, clipping norm; z : number >= 0, noise multiplier.
    p : whole number >= 1 of parameters.
    alignment : number in [0, 1], the norm of the mean clipped gradient over c; 1 drops the sampling part of
        independent gradients.
    others : whole number >= 0 of records outside the batch (not used for independent gradients).
    sampling : "independent", "without replacement" or "poisson".

    Returns
    -------
    array in squared units of c.

    >>> round(float(batch_gradient_variance(b=4, c=2.0, z=1.0, p=10, alignment=0.5)), 12)
    3.25
    """
    choice("sampling", sampling, SAMPLINGS)
    b, p, others = count("b", b), count("p", p), count("others", others, 0)
    c, z, s = positive("c", c), nonnegative("z", z), probability("alignment", alignment)
    with quiet():
        c2, square = c**2, (z / b) ** 2
        # Where one of the squares is not a number their product may still be.
        noise = np.where((c2 > 1e-290) & (c2 * square < np.inf) & (square > 1e-290), p * c2 * square, p * (c * (z / b)) ** 2)
    if sampling == "poisson":
        return (times(c2, others) / (b * (b + others)) + noise)[()]
    part = times(c2, 1 - s) * (1 + s) / b
    if sampling == "without replacement":
        part = part * others / np.maximum(b + others - 1, 1)
    return (part + noise)[()]


@paired
def unclipped_gradient_variance(*, sigma2_g: ArrayLike, b: ArrayLike, c: ArrayLike, z: ArrayLike, p: ArrayLike) -> Floats:
    """Variance of a noisy batch gradient when no gradient is clipped, sigma2_g + p c^2 z^2 / b^2; exact.

    An upper bound where `sigma2_g` is one.  Claim: robusthdp:eq5.

    Parameters
    ----------
    sigma2_g : number >= 0, variance of the noiseless batch gradient; the others as in `batch_gradient_variance`.

    >>> round(float(unclipped_gradient_variance(sigma2_g=0.5, b=4, c=2.0, z=1.0, p=10)), 12)
    3.0
    """
    return nonnegative("sigma2_g", sigma2_g) + batch_gradient_variance(b=b, c=c, z=z, p=p)


@paired
def model_update_variance(
    *,
    K: ArrayLike,
    N: ArrayLike,
    b: ArrayLike,
    eta: ArrayLike,
    c: ArrayLike,
    z: ArrayLike,
    p: ArrayLike,
    alignment: ArrayLike = 1.0,
    contraction: ArrayLike = 0.0,
    path: str = "fixed mean",
) -> Floats:
    """Variance of a client's model update after K epochs of DP-SGD, given where it started; exact.

    With n = K ceil(N / b) steps and v the `batch_gradient_variance` of independent gradients: n eta^2 v where the mean
    gradient does not change along the way ("fixed mean"); n eta^2 p c^2 z^2 / b^2 where it does not change and every
    epoch visits each record once ("shuffled", conditional on the records); eta^2 v sum_{k<n} (1 - a)^(2k) where steps
    pull back by a = eta times the loss's curvature ("curved").  Claim: robusthdp:eq7.

    Parameters
    ----------
    K : whole number >= 1 of epochs; N : whole number >= 1 of records; eta : number >= 0, step size.
    b, c, z, p, alignment : see `batch_gradient_variance`.
    contraction : number in [0, 2), eta times the curvature (only for "curved").
    path : "fixed mean", "shuffled" or "curved".

    >>> round(float(model_update_variance(K=2, N=10, b=4, eta=0.5, c=2.0, z=1.0, p=10)), 12)
    3.75
    """
    choice("path", path, PATHS)
    steps = count("K", K) * np.ceil(count("N", N) / count("b", b))
    aligned = 1.0 if path == "shuffled" else alignment
    one = nonnegative("eta", eta) ** 2 * batch_gradient_variance(b=b, c=c, z=z, p=p, alignment=aligned)
    if path != "curved":
        return (steps * one)[()]
    a = finite("contraction", contraction)
    if ((a < 0) | (a >= 2)).any():
        raise ValueError(f"contraction must lie in [0, 2) (the iteration diverges otherwise), got {contraction!r}")
    with quiet():
        log_pull = np.where(a < 1, np.log1p(-np.minimum(a, 1)), np.log(np.abs(1 - a)))
        visits = np.where(a == 0, steps, -np.expm1(2 * steps * log_pull) / (a * (2 - a)))
    return (visits * one)[()]


@paired
def closed_form_noise_multiplier(*, eps: ArrayLike, delta: ArrayLike, steps: ArrayLike) -> Floats:
    """Noise multiplier that is enough for (eps, delta) after `steps` steps, whatever is sampled; an upper bound.

    sqrt(steps / 2) / (sqrt(log(1/delta) + eps) - sqrt(log(1/delta))): the zero-concentrated accounting of Gaussian steps
    solved for z.  It holds for every eps > 0 and every delta in (0, 1), add or remove, and does not use that sampling
    helps; ``accountants.noise_for`` does.  Claim: robusthdp:thm1:rule.

    >>> round(float(closed_form_noise_multiplier(eps=1.0, delta=1e-5, steps=1)), 6)
    4.900555
    """
    eps, steps, delta = positive("eps", eps), count("steps", steps), fraction("delta", delta)
    log_delta = -np.log(delta)
    return (np.sqrt(steps / 2) * (np.sqrt(log_delta + eps) + np.sqrt(log_delta)) / eps)[()]
