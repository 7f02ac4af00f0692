"""What smoothness guarantees of federated averaging with unequal local steps and weights (Robust-HDP, Theorem 2).

Model: in a round client i makes E_i gradient steps of size eta from the server's model, each with centred noise of variance
v_i, and the server adds the average of the updates with weights w_i >= 0 that add to one and do not follow that noise.  The
common loss is f = sum_i lambda_i f_i, the f_i are smooth with the constant beta and |grad f_i - grad f|^2 <= sigma2.

Belongs here: bounds and their terms. Does not belong here: running federated averaging (``federated``), weights.

Clipped gradients are not covered: their mean is not that of the loss, and no such bound holds (claim robusthdp:thm2).
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import count, finite, nonnegative, paired, positive, single

__all__ = ["gradient_bound", "printed_step_limit", "step_limit", "weights_term"]


def _per_client(**lists: np.ndarray) -> None:
    """Refuse lists of unequal lengths."""
    first, *others = lists.items()
    for name, values in others:
        if values.shape != first[1].shape:
            raise ValueError(f"{name} must hold one entry per client, as {first[0]} does, got {values.shape}")


def step_limit(steps: ArrayLike, beta: float = 1.0) -> float:
    """Largest step size for which `gradient_bound` holds; the theorem's own limit is at or below it.

    (2n+1) / (24 (n+1) beta sum E_i^2).  Claim: robusthdp:thm2.

    Parameters
    ----------
    steps : array of n whole numbers >= 1, local steps of each client.
    beta : number > 0, smoothness of the clients' losses; the step size has the unit 1/beta.

    Raises
    ------
    ValueError
        Naming the argument.

    >>> step_limit([1])
    0.0625
    """
    counts = count("steps", np.atleast_1d(steps)).astype(float)
    n = len(counts)
    return float((2 * n + 1) / (24 * (n + 1) * single(positive, "beta", beta) * np.sum(counts**2)))


def printed_step_limit(steps: ArrayLike, beta: float = 1.0) -> float:
    """Largest step size that Theorem 2 allows, 1 / (12 beta sqrt((1 + sum E_i)(sum E_i^4))); below `step_limit`.

    Its other condition, 1 / (6 beta E_i), is implied.  Claim: robusthdp:thm2:step.  Parameters as in `step_limit`.

    >>> round(printed_step_limit([1]), 6)
    0.058926
    """
    counts = count("steps", np.atleast_1d(steps)).astype(float)
    return float(1 / (12 * single(positive, "beta", beta) * np.sqrt((1 + np.sum(counts)) * np.sum(counts**4))))


@paired
def gradient_bound(
    *, gap: float, rounds: int, eta: float, steps: ArrayLike, noise: ArrayLike, sigma2: float = 0.0, off: float = 0.0,
    beta: float = 1.0,
) -> float:  # fmt: skip
    """Mean over the rounds of E|grad f|^2, and so its least value; an upper bound.

    Tighter than the printed right side of Theorem 2 everywhere.  Claim: robusthdp:thm2.

    Parameters
    ----------
    gap : number > 0, f at the start minus its least value.
    rounds : whole number >= 1.
    eta : number > 0, at most `step_limit`.
    steps, noise : arrays with one entry per client: local steps E_i, and variance v_i >= 0 of a noisy gradient.
    sigma2 : number >= 0, bound on |grad f_i - grad f|^2.
    off : number >= 0, what the weights add: ``weights_term`` over 8/3.
    beta : number > 0, smoothness.

    Raises
    ------
    ValueError
        Naming the argument; also where eta is above `step_limit`.

    >>> round(gradient_bound(gap=0.5, rounds=100, eta=1 / 17, steps=[1], noise=[1.0]), 6)
    0.308543
    """
    counts, v = count("steps", np.atleast_1d(steps)).astype(float), nonnegative("noise", np.atleast_1d(noise))
    _per_client(steps=counts, noise=v)
    x, limit = single(positive, "eta", eta) * beta, step_limit(counts, beta) * beta
    if x > limit * (1 + 1e-12):
        raise ValueError(f"eta must be at most step_limit(steps, beta) = {limit / beta:g}, got {eta!r}")
    used = x / limit / 12
    grow = 72 / 71
    kept = np.min(counts) - 1 / 3 - 2 * used - 7 * grow * used**2
    both = counts**2 * (counts - 1) * x**2
    drift = (
        21 / 8 * grow * (4 / 3 * single(nonnegative, "sigma2", sigma2) * np.sum(both * (2 * counts - 1)) + np.sum(both * v))
    )
    start = single(positive, "gap", gap) * beta / (single(count, "rounds", rounds) * x)
    return float((start + 21 / 8 * single(nonnegative, "off", off) + drift + x * np.sum(counts * v)) / kept)


@paired
def weights_term(steps: ArrayLike, shares: ArrayLike, weights: ArrayLike, lipschitz: float = 1.0) -> float:
    """What weights other than the shares, and unequal local steps, add to the bound: Psi_p of (11); exact.

    Claim: robusthdp:thm2:weights.

    Parameters
    ----------
    steps, shares, weights : arrays with one entry per client: E_i, lambda_i, w_i.
    lipschitz : number >= 0, the losses' Lipschitz constant L_0.

    Raises
    ------
    ValueError
        Naming the argument.

    >>> weights_term([1, 1], [0.5, 0.5], [0.75, 0.25])
    0.6666666666666666
    """
    counts = positive("steps", np.atleast_1d(steps))
    lam, w = nonnegative("shares", np.atleast_1d(shares)), finite("weights", np.atleast_1d(weights))
    _per_client(steps=counts, shares=lam, weights=w)
    apart = len(counts) * np.sum((counts * (w - lam)) ** 2)
    spread = np.sum(lam**2) * np.sum((counts - np.sum(w * counts)) ** 2)
    return float(8 / 3 * single(nonnegative, "lipschitz", lipschitz) ** 2 * (apart + spread))
