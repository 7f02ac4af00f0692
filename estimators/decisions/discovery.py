"""Who differs for sure: false discovery and false sign rates, s-values and q-values, selection with error control.

Belongs here: from each client's probability of a wrong call to a list of clients with few wrong ones.  The probabilities
themselves are the models' (``local_false_sign_rate``, ``local_false_discovery_rate``, ``posterior_cdf``).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.validation import choice, finite, fraction, probability, single

__all__ = ["SIDES", "Discoveries", "discoveries", "exceedance", "tail_averages"]

SIDES = ("either", "above", "below", "differs")


class Discoveries(NamedTuple):
    """Clients called to be on a side of a value, with how often such calls are wrong.  Arrays like ``posterior_mean_``.

    error : probability that the call of this client is wrong: its local false sign rate ("either"), the probability of the
        other side ("above", "below"), or its local false discovery rate ("differs").
    q_value : expected share of wrong calls among all clients whose error is not larger; with signs an s-value.
    selected : q_value <= alpha.  direction : 1 for above, -1 for below, 0 where neither is likelier.
    false_rate : expected share of wrong calls among those selected, 0 if there are none.
    at, side, alpha : what was asked.
    """

    error: Floats
    q_value: Floats
    selected: Bools
    direction: Floats
    false_rate: float
    at: float | None
    side: str
    alpha: float


def tail_averages(errors: ArrayLike) -> Floats:
    """Average of all errors that are not larger, for each; from local rates to q-values and s-values.

    Selecting where this is at most alpha takes the largest set whose expected share of wrong calls is at most alpha (equals
    together), which is the best rule for that bound (Mueller, Parmigiani, Robert and Rousseau 2004, JASA 99:990; s-values:
    Stephens 2017).

    Parameters
    ----------
    errors : array of probabilities, of any shape.

    >>> tail_averages([0.3, 0.01, 0.02, 0.3]).round(4).tolist()
    [0.1575, 0.01, 0.015, 0.1575]
    """
    errors = probability("errors", errors)
    flat = errors.ravel()
    order = np.argsort(flat, kind="stable")
    along = flat[order]
    averages = np.cumsum(along) / np.arange(1, flat.size + 1)
    last = np.searchsorted(along, along, side="right") - 1  # equals go together
    found = np.empty(flat.size)
    found[order] = averages[last]
    return found.reshape(errors.shape)


def discoveries(
    model: Any,
    alpha: float = 0.05,
    at: float | None = None,
    side: Literal["either", "above", "below", "differs"] = "either",
) -> Discoveries:
    """Clients whose side of a value is known, at most a share `alpha` of the calls being wrong, as the model has it.

    The posterior expected share of wrong calls is controlled, given the data and the prior: right on average over truths
    drawn from the prior.  A prior that is taken for true (not averaged) errs more with few clients.  Where true values may
    be exactly at the value, tell the prior: under one without an atom there, such as a normal one, every client is above or
    below, and calls of those at it are wrong without being counted (``PointNormalMeans(mode=at)`` counts them).

    Parameters
    ----------
    model : fitted ``ClientModel``.
    alpha : number in (0, 1).
    at : the value, or None for the mean of the prior (0 for coefficients of regressions; for "differs" where the prior has
        its spike).
    side : "either" calls the likelier side of every client; "above" and "below" only that one; "differs" calls clients that
        are not exactly there, for priors with a spike or atoms.

    Returns
    -------
    Discoveries

    References
    ----------
    Efron (2008), Statistical Science 23:1, for local rates; Stephens (2017), Biostatistics 18:275, for signs.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> found = discoveries(GaussianMeans("fixed", mu=0.0, tau2=4.0).fit([5.0, -4.0, 0.5, 1.5], 1.0), alpha=0.1)
    >>> found.selected.tolist(), found.direction.tolist(), found.error.round(4).tolist()
    ([True, True, False, True], [1.0, -1.0, 1.0, 1.0], [0.0, 0.0002, 0.3274, 0.0899])
    """
    model.require_fit()
    alpha = single(fraction, "alpha", alpha)
    choice("side", side, SIDES)
    place = reference(model) if at is None else single(finite, "at", at)
    if not np.isfinite(place):
        raise ValueError("at must be given: the prior that was learnt has no finite mean to compare with")
    model = model.averaged()
    below, above = probabilities(model, place)
    direction = np.sign(above - below)
    if side == "differs":
        error = model.local_false_discovery_rate(at)
        if not np.any(error > 0):
            raise ValueError(
                "side='differs' is for priors with a spike or points at the value, which this one has not; use 'either'"
            )
    elif side == "either":
        error = 1 - np.maximum(below, above)  # a tie at the value is wrong on both sides
    else:
        error = 1 - (above if side == "above" else below)
        direction = np.full(error.shape, 1.0 if side == "above" else -1.0)
    error = np.clip(error, 0.0, 1.0)
    q_value = tail_averages(error)
    selected = q_value <= alpha
    rate = float(error[selected].mean()) if selected.any() else 0.0
    return Discoveries(
        error, q_value, selected, direction, rate, None if side == "differs" and at is None else place, side, alpha
    )


def reference(model: Any) -> float:
    """Return what clients are compared with if nothing is said: the prior's mean, 0 for vectors of coefficients."""
    mean = model.prior_summary().get("mean", ())
    return float(np.ravel(mean)[0]) if np.size(mean) == 1 and model.posterior_mean_.ndim == 1 else 0.0


def probabilities(model: Any, at: float) -> tuple[Floats, Floats]:
    """Return P(theta_i < at) and P(theta_i > at)."""
    return model.posterior_cdf(at, strict=True), 1 - model.posterior_cdf(at)


def exceedance(model: Any, c: float) -> Floats:
    """Probability that each client's true value exceeds `c`, given the data; like the model's ``posterior_mean_``.

    >>> from estimators.counts.beta_binomial import BetaBinomial
    >>> exceedance(BetaBinomial("fixed", alpha=1, beta=1).fit([0, 2], 2), 0.5).round(4).tolist()
    [0.125, 0.875]
    """
    return np.maximum(0.0, 1 - model.averaged().posterior_cdf(single(finite, "c", c)))
