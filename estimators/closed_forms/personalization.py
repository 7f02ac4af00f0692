"""How far a client should trust the server's estimate (FedHDP, Ditto): errors and the best strength.

The client minimises (t - y_j)^2 / 2 + lam (t - theta)^2 / 2, so it reports (y_j + lam theta) / (1 + lam),
where y_j is its own noise-free estimate and theta = sum_i w_i psi_i comes from the server.  The model and
the conventions for `sizes` and `gamma2s` are those of ``aggregation``; `level`, from 1, is the level the
client is in.

`own_noise` says what theta holds of client j itself:

- True: its message psi_j, with the privacy noise it added.  This is what the algorithms run.
- False: its own noise-free y_j in place of psi_j.  This is what the paper's proofs assume (fedhdp:eq44).

Mean-regularised training with a plain average is in ``mean_regularized``.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from estimators.closed_forms.aggregation import read_levels
from estimators.numerics import wide
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import harmonic, pooled_variance, quiet, quotient, share, split, times
from estimators.numerics.units import homogeneous
from estimators.numerics.validation import by_level, index, paired, switch
from estimators.numerics.wide import Wide

if TYPE_CHECKING:
    from estimators.closed_forms.aggregation import Levels


__all__ = ["bayes_mse", "local_mse", "message_weights", "personalization_strength"]


def own_and_others(level: int, levels: Levels) -> tuple[int, Floats]:
    """Return the position of the client's level and the number of other clients in each level."""
    own = index("level", level, 1, len(levels.sizes)) - 1
    others = levels.sizes.copy()
    others[own] -= 1
    return own, others


@paired
def personalization_strength(
    level: int,
    sizes: ArrayLike,
    gamma2s: ArrayLike,
    alpha2: ArrayLike,
    tau2: ArrayLike,
    ratios: ArrayLike | None = None,
    *,
    own_noise: bool,
) -> Floats:
    """Strength lam* that minimises the error of a client of the given level.

    With the client's own weight w and noise g = N_j gamma2_j, and optimal server weights,
    lam* = alpha2 / (tau2 + w g) if `own_noise` is False and alpha2 / (tau2 + g w / (1 - w)) if it is True.
    Exact.  Claims: fedhdp:lemma3:lambda, fedhdp:levels:lambda, fedhdp:thm8:np, fedhdp:thm8:p.

    Parameters
    ----------
    level : int from 1, the client's level.
    sizes, gamma2s, alpha2, tau2, ratios : see ``aggregation.level_weights``.
    own_noise : bool, see the module.

    Returns
    -------
    float or array, dimensionless; the unconstrained minimiser over the real line.  It may be inf (report
    theta), and for ratios that overrate the client it may be negative: then inf is the best of the
    strengths >= 0.  Where the error does not depend on lam, or alpha2 = 0, the value of the formula at the
    nearest regular point is returned.  A client alone in the world gets 0 if its message is noisy and
    `own_noise` is True.

    >>> float(personalization_strength(1, [5, 5], [0.0, 1.0], 1.0, 0.5, own_noise=True))
    2.0
    >>> [personalization_strength(2, [5, 5], [0.0, 1.0], 1.0, 0.5, own_noise=own).round(6).tolist()
    ...  for own in (False, True)]
    [1.454545, 1.439252]
    """
    own_noise = switch("own_noise", own_noise)
    if ratios is not None:
        return strength_of_ratios(level, sizes, gamma2s, alpha2, tau2, ratios, own_noise)
    with quiet():  # variances that are no numbers are not used
        levels = read_levels(sizes, gamma2s, alpha2, tau2)
    own, others = own_and_others(level, levels)
    within, between, noises = Wide(levels.alpha2), Wide(levels.tau2), Wide(levels.sizes) * Wide(levels.gamma2s)
    # w s_j is the server's error V, and V / (1 - w) the error of an average of the others only.
    error = wide.pooled(within + between + noises, others if own_noise else levels.sizes)
    return (within / (between + wide.share(noises[own], within + between) * error)).floats()


@homogeneous("gamma2s", "alpha2", "tau2", degree=0)
def strength_of_ratios(
    level: int, sizes: ArrayLike, gamma2s: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike, ratios: ArrayLike, own_noise: bool
) -> Floats:
    """Return `personalization_strength` for weights that need not be the best ones."""
    levels = read_levels(sizes, gamma2s, alpha2, tau2, ratios)
    own, others = own_and_others(level, levels)
    noise = levels.noises[own]
    weight = levels.weights[own]
    rest = np.sum(others * levels.weights, axis=0)
    # Writing w_k s_k - w alpha2 this way leaves no difference of large numbers when the ratios are equal.
    terms = levels.weights * levels.tau2 + times(levels.weights, levels.noises)
    terms = terms + (levels.weights - weight) * levels.alpha2
    average = np.sum(times(others * levels.weights, terms), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        average = np.where(rest == 0, terms[own], average / rest)
    spread = rest * levels.tau2 + average
    if own_noise:
        spread = spread + quotient(times(weight**2, noise), rest)
    with np.errstate(invalid="ignore"):
        near = (rest > 0) & (np.abs(spread) < weight * levels.alpha2 / 16)  # where digits cancel, the sum is exact
    if near.any():
        given = np.broadcast_arrays(
            levels.alpha2, levels.tau2, *others, *by_level("gamma2s", gamma2s), *by_level("ratios", ratios)
        )
        spread = np.array(np.broadcast_to(spread, given[0].shape))
        for where in zip(*np.broadcast_to(near, given[0].shape).nonzero(), strict=True) if spread.ndim else [()]:
            spread[where] = exact_spread(own, [Fraction(float(part[where])) for part in given], own_noise)
    return quotient(levels.alpha2, spread)


def exact_spread(own: int, given: list[Fraction], own_noise: bool) -> float:
    """Return the `spread` of a client of level `own` from rational alpha2, tau2, other clients, gamma2s and ratios."""
    alpha2, tau2, *rest = given
    n = len(rest) // 3
    others, gamma2s, ratios = rest[:n], rest[n : 2 * n], rest[2 * n :]
    noises = [(count + (k == own)) * gamma2 for k, (count, gamma2) in enumerate(zip(others, gamma2s, strict=True))]
    mass = sum(count * r for count, r in zip(others, ratios, strict=True))
    terms = [
        count * r * (r * (tau2 + g) + (r - ratios[own]) * alpha2) for count, r, g in zip(others, ratios, noises, strict=True)
    ]
    found = mass * tau2 + sum(terms) / mass + (ratios[own] ** 2 * noises[own] / mass if own_noise else 0)
    return float(found / (mass + ratios[own]))


@paired
@homogeneous("gamma2s", "alpha2", "tau2", degree=1)
def local_mse(
    lam: ArrayLike,
    level: int,
    sizes: ArrayLike,
    gamma2s: ArrayLike,
    alpha2: ArrayLike,
    tau2: ArrayLike,
    ratios: ArrayLike | None = None,
    *,
    own_noise: bool,
) -> Floats:
    """Mean squared error of the personalised estimate of a client's own phi_j at strength `lam`.

    With u = lam / (1 + lam) and w the client's weight at the server it is
    (1 - u + u w)^2 alpha2 + u^2 [(1-w)^2 tau2 + sum over others of w_i^2 s_i (+ w^2 g if `own_noise`)]:
    a sum of squares, so no digits cancel.  Exact; flat prior on the centre.

    Parameters
    ----------
    lam : float or array, dimensionless, >= 0 or inf (negative ones but -1 name combinations, see
        ``limits.split``).
    level, sizes, gamma2s, alpha2, tau2, ratios, own_noise : see `personalization_strength`.

    >>> [local_mse(lam, 2, [5, 5], [0.0, 1.0], 1.0, 0.5, own_noise=True).round(6).tolist()
    ...  for lam in (0.0, 1.439252, float("inf"))]
    [1.0, 0.432088, 0.70625]
    """
    levels, own_noise = read_levels(sizes, gamma2s, alpha2, tau2, ratios), switch("own_noise", own_noise)
    own, others = own_and_others(level, levels)
    keep, pull = split(lam)
    weight = levels.weights[own]
    rest = np.sum(others * levels.weights, axis=0)
    if ratios is None:
        # w_k s_k is the server's error for every k, also where s_k is infinite and w_k zero.
        error = pooled_variance(levels.sizes, levels.variances)
        from_others = times(error, rest)
        from_own = times(weight * share(levels.noises[own], levels.alpha2 + levels.tau2), error)
    else:
        from_others = np.sum(others * times(levels.weights**2, levels.variances), axis=0)
        from_own = times(weight**2, levels.noises[own])
    spread = rest**2 * levels.tau2 + from_others + (from_own if own_noise else 0.0)
    return (keep + pull * weight) ** 2 * levels.alpha2 + times(pull**2, spread)


@paired
def message_weights(
    lam: ArrayLike,
    level: int,
    sizes: ArrayLike,
    gamma2s: ArrayLike,
    alpha2: ArrayLike,
    tau2: ArrayLike,
    ratios: ArrayLike | None = None,
    *,
    own_noise: bool,
) -> tuple[Floats, Floats, Floats]:
    """What a client's personalised estimate at strength `lam` is made of: its own estimate, others' messages, own noise.

    With u = lam / (1 + lam) and w_k the server's weight of a message of level k: 1 - u + u w on the own estimate and u w_k
    on each other client's message.  Exact.  Claims: fedhdp:eq44, fedhdp:eq77.

    Parameters
    ----------
    lam, level, sizes, gamma2s, alpha2, tau2, ratios, own_noise : see `local_mse`.

    Returns
    -------
    own : number or array; weight of the client's own estimate.
    messages : array, levels on axis 0; weight of one message of each level.  With `own` they add to one over the clients.
    noise : number or array; variance of the own privacy noise that comes back, 0 unless `own_noise`.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> own, messages, noise = message_weights(1.0, 2, [2, 2], [0.5, 1.0], 1.0, 0.5, ratios=[1.0, 0.5], own_noise=True)
    >>> round(float(own), 12), messages.round(6).tolist(), round(float(noise), 12)
    (0.583333333333, [0.166667, 0.083333], 0.013888888889)
    """
    levels, own_noise = read_levels(sizes, gamma2s, alpha2, tau2, ratios), switch("own_noise", own_noise)
    own, _ = own_and_others(level, levels)
    keep, pull = split(lam)
    messages = pull * levels.weights
    noise = times(messages[own] ** 2, levels.noises[own]) if own_noise else np.zeros(np.shape(messages[own]))
    return keep + messages[own], messages, noise[()]


@paired
@homogeneous("gamma2s", "alpha2", "tau2", degree=1)
def bayes_mse(level: int, sizes: ArrayLike, gamma2s: ArrayLike, alpha2: ArrayLike, tau2: ArrayLike) -> Floats:
    """Smallest mean squared error for a client that knows its own y_j and the messages of all others.

    The posterior variance of phi_j: 1 / (1 / alpha2 + 1 / A) with A = tau2 + 1 / sum over others of 1 / s_i.
    Exact.  Claims: fedhdp:eq41, fedhdp:eq74.  Parameters as in `personalization_strength`.

    >>> bayes_mse(2, [5, 5], [0.0, 1.0], 1.0, 0.5).round(6).tolist()
    0.42963
    """
    levels = read_levels(sizes, gamma2s, alpha2, tau2)
    _, others = own_and_others(level, levels)
    return harmonic(levels.tau2 + pooled_variance(others, levels.variances), levels.alpha2)
