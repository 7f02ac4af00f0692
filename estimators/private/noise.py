"""Noise for whole numbers that a budget asks for: how much, drawn, and with its guarantee.

Belongs here: from (eps, delta), sensitivities and a mechanism to noisy numbers, the variances of the noise and a
`Guarantee`.  The samplers are in ``exact_noise``; what the numbers mean is in ``client`` and ``central``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np

from estimators.accounting.budget import Guarantee, budget_numbers
from estimators.accounting.mechanisms import gaussian_sigma
from estimators.accounting.privacy import zcdp_from_epsilon
from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.validation import choice
from estimators.private.exact_noise import (
    discrete_gaussian,
    discrete_gaussian_delta,
    discrete_gaussian_variance,
    discrete_laplace,
    discrete_laplace_variance,
)
from estimators.private.mechanisms import least_noise
from estimators.private.staircase import Staircase

__all__ = [
    "MECHANISMS",
    "Noisy",
    "add_noise",
    "choose_mechanism",
    "flip_probability",
    "quantised_integers",
]

MECHANISMS = ("discrete-gaussian", "discrete-laplace", "staircase", "gaussian")
CLAIMS = {
    "discrete-gaussian": ("mrmtl:appA:zcdp", "mrmtl:appA:composition"),
    "discrete-laplace": (),
    "gaussian": ("mrmtl:sigma-dp:exact", "mrmtl:sigma-dp:vector"),
    "none": (),
}
COMPARED = ("discrete-laplace", "staircase", "discrete-gaussian", "finite-output")  # the others are never less
LAPLACE_DENOMINATOR = 1 << 30
SMALLEST_EPS = 1e-70
SUMMABLE = 1e12  # largest sigma2 at which the exact delta is summed


class Noisy(NamedTuple):
    """Noisy numbers, the variance of each one's noise, and what protects them together."""

    values: list
    variances: list
    guarantee: Guarantee


def choose_mechanism(mechanism: str | None, eps: float, delta: float, options: Sequence[str] = MECHANISMS) -> str:
    """Return the mechanism to use, checked against eps and delta.

    None is the one of discrete Laplace and Gaussian noise that is less on one number; "best" is the least of all options.
    """
    eps, delta = budget_numbers(eps, delta)
    if eps < SMALLEST_EPS:
        raise ValueError(f"eps must be at least {SMALLEST_EPS:g} for noise whose variance can be calculated, got {eps:g}")
    if mechanism is None:
        pure = delta == 0 or np.isinf(eps) or 2 / eps / eps <= 1 / largest_ratio("gaussian", eps, delta) ** 2
        mechanism = "discrete-laplace" if pure else "discrete-gaussian"
    if mechanism == "best":
        mechanism = least_noise(eps=eps, delta=delta, options=[option for option in options if option in COMPARED])
    choice("mechanism", mechanism, options)
    if mechanism.endswith("gaussian") and delta == 0 and np.isfinite(eps):
        raise ValueError(f"delta must be > 0 for mechanism={mechanism!r}, which is never purely private")
    return mechanism


def add_noise(
    totals: Sequence[int],
    *,
    eps: float,
    delta: float,
    mechanism: str | None,
    adjacency: str,
    trusted: str,
    generator: np.random.Generator | None,
    sensitivities: Sequence[int] | None = None,
    shares: Sequence[int | Fraction] | None = None,
    squares: Sequence[int | Fraction] | None = None,
) -> Noisy:
    """Add noise to whole numbers so that together they are (eps, delta)-private.

    Parameters
    ----------
    totals : list of ints.
    sensitivities : list of ints >= 0, the largest change of each number under `adjacency`; shares : list of numbers > 0
        that add to 1, the part of the budget for each.  Or, for Gaussian noise on numbers that change together,
    squares : list of numbers q_i > 0 such that the sum of (change_i)^2 / q_i never exceeds 1.
    eps, delta, mechanism, adjacency, trusted : see ``accounting.Guarantee``; the mechanism is checked already.
    generator : numpy.random.Generator or None.

    Returns
    -------
    Noisy, whose values are ints unless mechanism="gaussian".
    """
    eps, delta = budget_numbers(eps, delta)
    if np.isinf(eps):
        guarantee = Guarantee(np.inf, delta, adjacency, trusted, "none", simulated=generator is not None)
        return Noisy(list(totals), [0.0] * len(totals), guarantee)
    assert mechanism is not None
    if mechanism in ("discrete-laplace", "staircase"):
        assert sensitivities is not None and shares is not None  # noqa: PT018
        one = laplace if mechanism == "discrete-laplace" else staircase
        pairs = [
            one(int(total), int(sensitivity), Fraction(eps) * Fraction(share), generator)
            if sensitivity
            else (int(total), 0.0)
            for total, sensitivity, share in zip(totals, sensitivities, shares, strict=True)
        ]
        guarantee = Guarantee(eps, 0.0, adjacency, trusted, mechanism, simulated=generator is not None)
        return Noisy([value for value, _ in pairs], [variance for _, variance in pairs], guarantee)
    if squares is None:
        assert sensitivities is not None and shares is not None  # noqa: PT018
        squares = [Fraction(s) ** 2 / Fraction(part) for s, part in zip(sensitivities, shares, strict=True)]
    ratio = largest_ratio(mechanism, eps, delta)
    sigma2s = [ceil(square / Fraction(ratio) ** 2) for square in squares]
    rho = ratio**2 / 2
    if mechanism == "gaussian":
        source = np.random.default_rng() if generator is None else generator
        noise = (np.sqrt(np.array(sigma2s, float)) * source.standard_normal(len(totals))).tolist()
        variances = [float(v) for v in sigma2s]
    else:
        if len(totals) == 1 and sensitivities is not None:
            sigma2s = [scalar_gaussian(sensitivities[0], eps, delta, sigma2s[0])]
            rho = float(Fraction(sensitivities[0] ** 2, 2 * sigma2s[0])) if sigma2s[0] else 0.0
        noise = [discrete_gaussian(v, generator) for v in sigma2s]
        variances = [discrete_gaussian_variance(v) for v in sigma2s]
    guarantee = Guarantee(
        eps, delta, adjacency, trusted, mechanism, rho=rho, claims=CLAIMS[mechanism], simulated=generator is not None
    )
    return Noisy([t + z for t, z in zip(totals, noise, strict=True)], variances, guarantee)


@lru_cache(maxsize=1024)
def largest_ratio(mechanism: str, eps: float, delta: float) -> float:
    """Return the largest Euclidean change over the deviation of the noise that (eps, delta) allows."""
    if mechanism == "gaussian":
        return float(1 / gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0))
    return float(np.sqrt(2 * zcdp_from_epsilon(eps=eps, delta=delta)))


@lru_cache(maxsize=1024)
def scalar_gaussian(sensitivity: int, eps: float, delta: float, enough: int) -> int:
    """Return the smallest whole sigma2 that is exactly enough for one number, at most `enough`, which zCDP says is."""
    if enough > SUMMABLE or enough == 0:
        return enough
    low = 0
    while enough - low > max(1, enough >> 20):
        middle = (low + enough) // 2
        if discrete_gaussian_delta(eps=eps, sensitivity=sensitivity, sigma2=middle) <= delta:
            enough = middle
        else:
            low = middle
    return enough


def laplace(total: int, sensitivity: int, eps: Fraction, generator: np.random.Generator | None) -> tuple[int, float]:
    """Return a number with discrete Laplace noise, and its variance."""
    scale = (ceil(sensitivity / eps * LAPLACE_DENOMINATOR), LAPLACE_DENOMINATOR)
    return total + discrete_laplace(scale, generator), float(discrete_laplace_variance(scale[0] / scale[1]))


def staircase(total: int, sensitivity: int, eps: Fraction, generator: np.random.Generator | None) -> tuple[int, float]:
    """Return a number with staircase noise, and its variance."""
    law = staircase_law(sensitivity, eps)
    return total + int(law.noise(1, generator)[0]), law.variance


@lru_cache(maxsize=1024)
def staircase_law(sensitivity: int, eps: Fraction) -> Staircase:
    """Return the law for a part of a budget, whose nearest float may be above it and the next one below is not."""
    nearest = float(eps)
    return Staircase(sensitivity=sensitivity, eps=nearest if Fraction(nearest) <= eps else float(np.nextafter(nearest, 0.0)))


def flip_probability(eps: float) -> tuple[int, int]:
    """Return the probability of a wrong answer, as a pair of ints, at which randomised response is eps-private.

    1 / (1 + exp(eps)), rounded up by more than the error of the exponential.
    """
    eps = float(eps)
    if eps > 30:
        raise ValueError(f"eps must be at most 30 for randomised answers, got {eps:g}; beyond, hardly any is changed")
    denominator = 1 << 80
    return ceil(Fraction(1 / (1 + np.exp(eps))) * (1 + Fraction(1, 1 << 50)) * denominator), denominator


def quantised_integers(position: Floats, levels: int, generator: np.random.Generator | None) -> Ints:
    """Round numbers in 0..levels to whole ones, up or down at random so that the mean stays; ints."""
    source = np.random.default_rng() if generator is None else generator
    floor = np.floor(position)
    up = source.random(np.shape(position)) < position - floor
    return np.minimum(floor + up, levels).astype(np.int64)
