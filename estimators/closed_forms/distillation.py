"""The population whose regulariser is knowledge distillation: its density's normaliser, and what AdaPeD puts in its place.

Model: inputs x with probabilities p_x and binary labels; the global model says P(y = 1 | x) = p_mu(x).  A client's
probabilities q(x) have the density c(psi) exp(-psi sum_x p_x KL(p_mu(x) || q(x))) on the unit cube: independent Beta
distributions.  psi is an inverse variance here; AdaPeD's objective has 1/(2 psi) in its place.  Training is not here.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, digamma, entr

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import nonnegative, number, paired, positive, probability

__all__ = ["best_psi", "log_normalizer", "variance_penalty"]


def read_inputs(p_mu: ArrayLike, p_x: ArrayLike | None) -> tuple[Floats, Floats]:
    """Check the global model's probabilities and the inputs' (equal by default)."""
    p_mu = np.atleast_1d(probability("p_mu", p_mu))
    if p_mu.ndim != 1 or p_mu.size == 0:
        raise ValueError(f"p_mu must be one probability or a list with one per input, got shape {p_mu.shape}")
    p_x = np.full(p_mu.shape, 1 / p_mu.size) if p_x is None else np.atleast_1d(positive("p_x", p_x))
    if p_x.shape != p_mu.shape or abs(p_x.sum() - 1) > 1e-9:
        raise ValueError("p_x must have one entry per input, adding to one")
    return p_mu, p_x


def entropy(p: Floats) -> Floats:
    """Entropy of a binary label, in nats."""
    return entr(p) + entr(1 - p)


@paired
def best_psi(kd: ArrayLike, b: ArrayLike = 0.0) -> Floats:
    """AdaPeD's variance psi at which its objective is least for given models: the clients' mean divergence, plus 2 b / m.

    The sum over m clients of log(2 psi) / 2 + kd_i / (2 psi), with a penalty b / psi that keeps psi from zero where all
    models agree.  Exact.  Claim: generative:eq23:psi.

    Parameters
    ----------
    kd : array (m,) of divergences >= 0 between the global and each client's model, in nats.
    b : number >= 0.

    Returns
    -------
    float >= 0, nats; 0 where every divergence and b are 0, and the objective has no least value.

    >>> float(best_psi([1.0, 2.0, 4.5])), float(best_psi([0.0, 0.0], b=0.25))
    (2.5, 0.25)
    """
    kd = nonnegative("kd", kd)
    if kd.ndim != 1 or kd.size == 0:
        raise ValueError(f"kd must hold one divergence per client, got shape {kd.shape}")
    return (np.sum(kd) + 2 * nonnegative("b", number("b", b))) / kd.size


@paired
def log_normalizer(psi: ArrayLike, p_mu: ArrayLike, p_x: ArrayLike | None = None) -> Floats:
    """Logarithm of the normaliser c(psi) of the distillation density; exact.

    Claims: generative:kd:density (printed with 1/(psi p_x) where psi p_x is right), generative:kd:density:inputs.

    Parameters
    ----------
    psi : inverse variance > 0, one number.
    p_mu : probability in [0, 1] of label 1 under the global model, or a list with one per input.
    p_x : probabilities > 0 of the inputs, adding to one; default: equal.

    Returns
    -------
    log c(psi), nats, >= 0.

    >>> round(float(log_normalizer(1.0, 1.0)), 6)  # q has density 2 q
    0.693147
    """
    psi = positive("psi", psi)
    if psi.ndim:
        raise ValueError(f"psi must be one number, got shape {psi.shape}")
    p_mu, p_x = read_inputs(p_mu, p_x)
    w = psi * p_x
    return -np.sum(w * entropy(p_mu) + betaln(1 + w * p_mu, 1 + w * (1 - p_mu)))


@paired
def variance_penalty(psi: ArrayLike, p_mu: ArrayLike, p_x: ArrayLike | None = None) -> tuple[Floats, Floats]:
    """The term -log c(1/(2 psi)) of the distillation objective, for AdaPeD's variance psi, and its slope in psi; exact.

    Replaces AdaPeD's log(2 psi)/2, which has the right slope only for one input and small psi.  Claims:
    generative:kd:regulariser, generative:kd:regulariser:slope.

    Parameters
    ----------
    psi : variance > 0, one number; p_mu, p_x : as in `log_normalizer`.

    Returns
    -------
    value : nats, <= 0; slope : > 0.

    >>> value, slope = variance_penalty(0.5, 1.0)
    >>> round(float(value), 6), round(float(slope), 6)
    (-0.693147, 1.0)
    """
    psi = positive("psi", number("psi", psi))
    value = -log_normalizer(1 / (2 * psi), p_mu, p_x)
    p_mu, p_x = read_inputs(p_mu, p_x)
    w = p_x / (2 * psi)
    mean_divergence = (
        digamma(2 + w) - p_mu * digamma(1 + w * p_mu) - (1 - p_mu) * digamma(1 + w * (1 - p_mu)) - entropy(p_mu)
    )
    return value, np.sum(p_x * mean_divergence) / (2 * psi**2)
