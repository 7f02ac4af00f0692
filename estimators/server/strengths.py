"""Personalisation strength of every client at once, for any mix of variances and server weights (Ditto, FedHDP, MR-MTL).

Client i minimises (t - y_i)^2 + lam_i (t - theta)^2, so it reports (y_i + lam_i theta) / (1 + lam_i), where the server's
theta = sum_j w_j message_j.  Its own estimate y_i has the error variance a_i around the client's true value, its message is
y_i plus privacy noise of variance g_i, and true values have variance tau2 around their centre (flat prior on the centre).

Belongs here: one strength per client from known or estimated variances.  Closed forms by privacy level are in
``personalization``, those of equal silos and what they lose in ``mean_regularized``, estimates of the variances in
``variance_components``.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from estimators.closed_forms.aggregation import precision_weights
from estimators.numerics import wide
from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.blocks import over_others
from estimators.numerics.limits import pooled_variance, quotient, share, split, times
from estimators.numerics.units import common_unit
from estimators.numerics.validation import nonnegative, paired
from estimators.numerics.wide import Wide

__all__ = ["Strengths", "personalization_strengths", "personalized_mse"]


class Strengths(NamedTuple):
    """One strength and one mean squared error per client and coordinate, and the id of the claim that gives the strength."""

    lam: np.ndarray
    mse: np.ndarray
    claim: str


class Clients(NamedTuple):
    """Checked arguments, one entry per client; `total` is the variance of theta if the weights are the best, else None."""

    own: np.ndarray
    noises: np.ndarray
    tau2: float
    weights: np.ndarray
    total: float | None


def read_clients(
    own_variances: ArrayLike, tau2: ArrayLike, noises: ArrayLike, weights: Literal["precision", "uniform"] | ArrayLike
) -> tuple[Clients, int]:
    """Check the description of the clients, and return it in a unit 2^k in which sums stay in range, and k.

    Infinite variances are for precision weights only, which give them nothing.
    """
    own = nonnegative("own_variances", own_variances)
    if own.ndim != 1 or own.size == 0:
        raise ValueError(f"own_variances must be a list with one variance per client, got shape {own.shape}")
    tau2 = nonnegative("tau2", tau2)
    if tau2.ndim:
        raise ValueError(f"tau2 must be a single number, got shape {tau2.shape}")
    best = isinstance(weights, str) and weights == "precision"
    noises = nonnegative("noises", noises, infinite=best)
    if noises.shape not in ((), own.shape):
        raise ValueError(f"noises must be one number or one for each of the {own.size} clients, got shape {noises.shape}")
    k = common_unit(own, tau2, noises)
    own, tau2, noises = (np.ldexp(part, -k) for part in (own, tau2, np.broadcast_to(noises, own.shape)))
    if best:
        variances = own + noises + tau2
        total = float(pooled_variance(1.0, variances))
        found = Clients(own, noises, float(tau2), precision_weights(variances), total)
        if np.isinf(total):
            raise ValueError("noises are all infinite; at least one client must send something")
        return found, k
    if isinstance(weights, str):
        if weights != "uniform":
            raise ValueError(f"weights must be 'precision', 'uniform' or one number per client, got {weights!r}")
        return Clients(own, noises, float(tau2), np.full(own.size, 1 / own.size), None), k
    weights = nonnegative("weights", weights)
    if weights.shape != own.shape:
        raise ValueError(f"weights must have one entry for each of the {own.size} clients, got shape {weights.shape}")
    if abs(weights.sum() - 1) > 1e-6:
        raise ValueError(f"weights must add to one, got {weights.sum()}; divide them by their sum")
    return Clients(own, noises, float(tau2), weights / weights.sum(), None), k


def exact_slacks(wanted: Bools, clients: Clients) -> Floats:
    """Return where `wanted` (1-w)^2 tau2 - w (1-w) a + w^2 g + sum over others of w_j^2 (tau2 + a_j + g_j), rounded once."""
    found = np.zeros(clients.own.size)
    if wanted.any():
        own, noises = ([Fraction(x) for x in column.tolist()] for column in (clients.own, clients.noises))
        tau2, weights = Fraction(clients.tau2), [Fraction(x) for x in clients.weights.tolist()]
        total = sum(weights)
        alike = len(set(weights)) == 1
        weights = [Fraction(1, len(own)) if alike else w / total for w in weights]
        terms = [w * w * (tau2 + a + g) for w, a, g in zip(weights, own, noises, strict=True)]
        everyone = sum(terms)
        for i in np.flatnonzero(wanted):
            w = weights[i]
            slack = (1 - w) * ((1 - w) * tau2 - w * own[i]) + w * w * noises[i] + everyone - terms[i]
            found[i] = slack
    return found


def error(lam: Floats, clients: Clients) -> Floats:
    """Return the mean squared error of every client at strengths `lam`, a sum of squares."""
    own, noises, tau2, weights, total = clients
    keep, pull = split(lam)
    if total is None:
        rest = over_others(weights**2 * (own + noises + tau2))
        itself = weights**2 * noises
    else:
        rest = times(total, over_others(weights))
        itself = times(weights * share(noises, own + tau2), total)
    spread = over_others(weights) ** 2 * tau2 + rest + itself
    return (keep + pull * weights) ** 2 * own + pull**2 * spread


@paired
def personalized_mse(
    lam: ArrayLike,
    own_variances: ArrayLike,
    tau2: float,
    *,
    noises: ArrayLike = 0.0,
    weights: Literal["precision", "uniform"] | ArrayLike = "precision",
) -> Floats:
    """Mean squared error of every client's personalised estimate at strengths `lam`, per coordinate.

    With w and a the client's weight and own variance it is (keep + pull w)^2 a + pull^2 [(1 - w)^2 tau2 + w^2 g + sum over
    others of w_j^2 (tau2 + a_j + g_j)], where keep = 1 / (1 + lam) and pull = 1 - keep.  Exact.  Its minimisers are those of
    fedhdp:levels:lambda and mrmtl:thmE.5.

    Parameters
    ----------
    lam : number or array (clients,), >= 0 or inf.
    own_variances, tau2, noises, weights : as in `personalization_strengths`.

    Returns
    -------
    array (clients,), in squared units of the estimate.

    >>> personalized_mse([0.0, 2.0], [1.0, 1.0], tau2=0.5, weights="uniform").round(6).tolist()
    [1.0, 0.666667]
    """
    clients, k = read_clients(own_variances, tau2, noises, weights)
    lam = nonnegative("lam", lam, infinite=True)
    if lam.shape not in ((), clients.own.shape):
        raise ValueError(f"lam must be one number or one for each of the {clients.own.size} clients, got shape {lam.shape}")
    return np.ldexp(error(np.broadcast_to(lam, clients.own.shape), clients), k)


def best_strengths(own: Wide, tau2: Wide, noises: Wide) -> Floats:
    """Return a_i / (tau2 + g_i / (a_i + tau2 + g_i) E_i), with E_i the error of the best average of all others' messages."""
    variances = own + tau2 + noises
    precisions = wide.relative_precisions(variances)
    first = np.lexsort((precisions.mantissas, precisions.exponents))[-1]
    # Sums over others are in units of the largest precision, and for that client itself in those of the others.
    error = variances[first] / Wide(over_others((precisions / precisions[first]).floats()))
    alone = wide.pooled(variances[np.arange(len(precisions.mantissas)) != first])
    error.mantissas[first], error.exponents[first] = alone.mantissas, alone.exponents
    lam = (own / (tau2 + wide.share(noises, own + tau2) * error)).floats()
    return np.where(np.isinf(error.mantissas), 0.0, lam)


def claim_of(clients: Clients, common: bool) -> str:
    """Return the id of the claim that the strengths are an instance of."""
    alike = bool((clients.own == clients.own[0]).all())
    silent = not clients.noises.any()
    uniform = bool((clients.weights == clients.weights[0]).all())
    if uniform and silent and (alike or common):
        return "mrmtl:thm6.3"
    if common:
        return "fedhdp:levels:lambda"
    if clients.total is not None:
        return "fedhdp:levels:lambda" if alike else "mrmtl:mmse"
    return "mrmtl:thmE.5" if uniform and silent else "fedhdp:levels:lambda"


@paired
def personalization_strengths(
    own_variances: ArrayLike,
    tau2: float,
    *,
    noises: ArrayLike = 0.0,
    weights: Literal["precision", "uniform"] | ArrayLike = "precision",
    common: bool = False,
) -> Strengths:
    """Strength lam >= 0 that minimises each client's error, or one for all that minimises the mean of the errors; exact.

    With precision weights lam_i = a_i / (tau2 + g_i w_i / (1 - w_i)); with any weights
    lam_i = (1 - w_i) a_i / (V_i - (1 - w_i) a_i), V_i the variance of theta - y_i.

    - Ditto and FedHDP: a_i = alpha2, the error of the noise-free y_i that the client keeps, and g_i its privacy noise, which
      theta contains as the algorithms run (fedhdp:levels:lambda; own_noise is True in ``personalization``).
    - MR-MTL: y_i is itself private, so a_i = sigma2_loc, noise included, g_i = 0, and weights are "uniform".  Equal silos,
      or common=True: mean(sigma2_loc) / tau2 (mrmtl:thm6.3, whose silos are equal).  Silo-specific: mrmtl:thmE.5.  With
      "precision" in place of uniform weights it is sigma2_loc_i / tau2, the best estimate of all (mrmtl:mmse); so it is
      where the mean is that of the models, as in Algorithm A1, which then weighs them so itself (mrmtl:thmE.5:algA1).

    Parameters
    ----------
    own_variances : array (clients,) of variances a_i >= 0, per coordinate.
    tau2 : variance >= 0 between clients.
    noises : number or array (clients,) of variances g_i >= 0 of the privacy noise in the messages; inf for a client that
        sends nothing (with precision weights).
    weights : "precision" (inverse to tau2 + a_i + g_i), "uniform", or array (clients,) of numbers >= 0 that add to one.
    common : bool; one strength for all clients.

    Returns
    -------
    Strengths
        lam : array (clients,).  It is inf (report theta) where tau2 = 0 and no own noise comes back, which is also what an
        estimate tau2 = 0 gives; and where even more would be best, for a client whose weight is far too large.  It is 0 for
        an exact own estimate and for a client alone or with all the weight.
        mse : array (clients,), the errors at these strengths.
        claim : id of the claim whose formula it is; for mixes that no paper treats, the claim that it extends.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> personalization_strengths([1.0, 1.0], 0.5, noises=[0.0, 3.0]).lam.round(6).tolist()
    [2.0, 0.666667]
    >>> personalization_strengths([0.5, 1.0, 1.0], 0.5, weights="uniform").lam.round(6).tolist()
    [0.75, 2.4, 2.4]
    """
    clients, k = read_clients(own_variances, tau2, noises, weights)
    given = (own_variances, tau2, np.broadcast_to(noises, clients.own.shape))
    own, noises, tau2, weights, total = clients
    rest = over_others(weights)
    if own.size == 1:
        return Strengths(np.zeros(1), np.ldexp(own, k), claim_of(clients, common))
    # slack is the variance of theta - y_i less (1 - w_i) a_i, without the difference.
    if total is not None:
        slack = rest * tau2 + times(share(noises, own + tau2), total)
    else:
        loads = weights * own
        loads = loads - loads[np.argmax(weights)]
        noise = over_others(weights**2 * (noises + tau2)) + weights**2 * noises
        slack = rest * (rest * tau2 - loads) + noise + over_others(weights * loads)
        near = np.abs(slack) < rest * (rest * tau2 + weights * own) / 16  # where digits cancel, the sum is exact
        slack = np.where(near, exact_slacks(near, clients), slack)
    if common:
        lam = np.full(own.size, quotient(np.sum(rest * own), max(0.0, np.sum(slack))))
    elif total is None:
        lam = quotient(rest * own, np.maximum(slack, 0.0))
    else:
        lam = best_strengths(*(Wide(part) for part in given))
    return Strengths(lam, np.ldexp(error(lam, clients), k), claim_of(clients, common))
