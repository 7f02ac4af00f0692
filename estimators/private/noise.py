"""Noise for whole numbers that a budget asks for: how much, drawn, and with its guarantee.

Belongs here: from (eps, delta), sensitivities and a mechanism to noisy numbers of one client or of many, the variances of
the noise and a `Guarantee`.  The samplers are in ``exact_noise`` and ``exact_batches``; what the numbers mean is in
``client`` and ``central``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple, TypeVar

import numpy as np

from estimators.accounting.budget import Guarantee, budget_numbers
from estimators.accounting.mechanisms import gaussian_sigma
from estimators.accounting.privacy import zcdp_from_epsilon
from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.validation import choice
from estimators.private.exact_batches import (
    MOST_SCALE,
    MOST_SIGMA2,
    discrete_gaussians,
    discrete_laplaces,
    uniforms,
)
from estimators.private.exact_noise import (
    FEW,
    discrete_gaussian,
    discrete_gaussian_delta,
    discrete_gaussian_variance,
    discrete_laplace,
    discrete_laplace_variance,
    randomised_response,
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
    "wrong_answers",
]

T = TypeVar("T", bound=Hashable)

MECHANISMS = ("discrete-gaussian", "discrete-laplace", "staircase", "gaussian")
CLAIMS = {
    "discrete-gaussian": ("mrmtl:appA:zcdp", "mrmtl:appA:composition"),
    "discrete-laplace": (),
    "gaussian": ("mrmtl:sigma-dp:exact", "mrmtl:sigma-dp:vector"),
    "none": (),
}
COMPARED = ("discrete-laplace", "staircase", "discrete-gaussian", "finite-output")  # the others are never less
LAPLACE_DENOMINATOR = 1 << 30
LARGEST_NUMERATOR = 1 << 62  # of a scale that arrays of 64-bit integers draw at
SMALLEST_EPS = 1e-70
LARGEST_EPS = 1e20  # above which Gaussian noise is that of this eps, itself next to none
SUMMABLE = 1e12  # largest sigma2 at which the exact delta is summed


class Noisy(NamedTuple):
    """Noisy numbers, the variance of each one's noise, and what protects the numbers of each client together.

    `values` and `variances` have a list for each number that clients release, with an entry for each client.
    """

    values: list
    variances: list
    guarantees: list[Guarantee]


def choose_mechanism(mechanism: str | None, eps: float, delta: float, options: Sequence[str] = MECHANISMS) -> str:
    """Return the mechanism to use, checked against eps and delta.

    None is the one of discrete Laplace and Gaussian noise that is less on one number; "best" is the least of all options.
    """
    eps, delta = budget_numbers(eps, delta)
    if eps < SMALLEST_EPS:
        raise ValueError(f"eps must be at least {SMALLEST_EPS:g} for noise whose variance can be calculated, got {eps:g}")
    if LARGEST_EPS < eps < np.inf:
        raise ValueError(f"eps must be at most {LARGEST_EPS:g}, which hides nothing, got {eps:g}; inf says so: no noise")
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
    totals: Sequence[Sequence[int]],
    *,
    eps: float,
    delta: float,
    mechanism: str | None,
    adjacency: str,
    trusted: str,
    generator: np.random.Generator | None,
    sensitivities: Sequence[Sequence[int]] | None = None,
    shares: Sequence[int | Fraction] | None = None,
    squares: Sequence[int | Fraction] | None = None,
) -> Noisy:
    """Add noise to whole numbers of clients so that all those of one client together are (eps, delta)-private.

    Parameters
    ----------
    totals : list of lists of ints, one for each number that is released, in it an entry for each client.
    sensitivities : of the shape of `totals`, ints >= 0, the largest change of each number under `adjacency`; shares : list
        of numbers > 0 that add to 1, the part of the budget for each.  Or, for Gaussian noise on what changes together,
    squares : list of numbers q_i > 0 such that the sum of (change_i)^2 / q_i never exceeds 1.
    eps, delta, mechanism, adjacency, trusted : see ``accounting.Guarantee``; the mechanism is checked already.
    generator : numpy.random.Generator or None.

    Returns
    -------
    Noisy, whose values are ints unless mechanism="gaussian".
    """
    eps, delta = budget_numbers(eps, delta)
    clients = len(totals[0])
    simulated = generator is not None
    if np.isinf(eps):
        guarantee = Guarantee(np.inf, delta, adjacency, trusted, "none", simulated=simulated)
        return Noisy([list(column) for column in totals], [[0.0] * clients for _ in totals], [guarantee] * clients)
    assert mechanism is not None
    if mechanism in ("discrete-laplace", "staircase"):
        assert sensitivities is not None
        assert shares is not None
        parts = [Fraction(eps) * Fraction(share) for share in shares]
        laws = [laws_of(mechanism, column, part) for column, part in zip(sensitivities, parts, strict=True)]
        known = {law: laplace_variance(law) if isinstance(law, tuple) else law.variance for law in set().union(*laws) if law}
        guarantee = Guarantee(eps, 0.0, adjacency, trusted, mechanism, simulated=simulated)
        return Noisy(
            added(totals, drawn(laws, laplaces if mechanism == "discrete-laplace" else staircases, generator)),
            [[known.get(law, 0.0) for law in column] for column in laws],
            [guarantee] * clients,
        )
    ratio = largest_ratio(mechanism, eps, delta)
    rhos = [ratio**2 / 2] * clients
    if squares is not None:
        sigma2s = [[enough(Fraction(square), ratio)] * clients for square in squares]
    else:
        assert sensitivities is not None
        assert shares is not None
        sigma2s = [
            [enough(Fraction(change) ** 2 / Fraction(part), ratio) for change in column]
            for column, part in zip(sensitivities, shares, strict=True)
        ]
    if mechanism == "gaussian":
        source = np.random.default_rng() if generator is None else generator
        noise = [(np.sqrt(np.array(column, float)) * source.standard_normal(clients)).tolist() for column in sigma2s]
        variances = [[float(v) for v in column] for column in sigma2s]
    else:
        if len(totals) == 1 and sensitivities is not None:
            pairs = list(zip(sensitivities[0], sigma2s[0], strict=True))
            sigma2s = [[scalar_gaussian(change, eps, delta, most) for change, most in pairs]]
            rhos = [
                float(Fraction(change**2, 2 * v)) if v else 0.0 for (change, _), v in zip(pairs, sigma2s[0], strict=True)
            ]
        noise = drawn(sigma2s, gaussians, generator)
        known = {v: gaussian_variance(v) for v in set().union(*sigma2s)}
        variances = [[known[v] for v in column] for column in sigma2s]
    made = {
        rho: Guarantee(eps, delta, adjacency, trusted, mechanism, rho=rho, claims=CLAIMS[mechanism], simulated=simulated)
        for rho in set(rhos)
    }
    return Noisy(added(totals, noise), variances, [made[rho] for rho in rhos])


def added(totals: Sequence[Sequence[int]], noise: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return numbers with noise; Python's integers, so that none overflows."""
    return [[t + z for t, z in zip(*columns, strict=True)] for columns in zip(totals, noise, strict=True)]


@lru_cache(maxsize=1024)
def largest_ratio(mechanism: str, eps: float, delta: float) -> float:
    """Return the largest Euclidean change over the deviation of the noise that (eps, delta) allows."""
    eps = min(eps, LARGEST_EPS)
    if mechanism == "gaussian":
        return float(1 / gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0))
    return float(np.sqrt(2 * zcdp_from_epsilon(eps=eps, delta=delta)))


@lru_cache(maxsize=1024)
def enough(square: Fraction, ratio: float) -> int:
    """Return a whole sigma2 that is enough for a squared change at the largest ratio of change to deviation."""
    return ceil(square / Fraction(ratio) ** 2)


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


def drawn(
    laws: Sequence[Sequence[T]],
    draw: Callable[[list[T], np.random.Generator | None], list[int]],
    generator: np.random.Generator | None,
) -> list[list[int]]:
    """Return noise of the shape of `laws`, all numbers of all clients drawn at once by a function of a list of laws."""
    clients = len(laws[0])
    noise = draw([law for column in laws for law in column], generator)
    return [noise[start : start + clients] for start in range(0, len(noise), clients)]


def laws_of(mechanism: str, sensitivities: Sequence[int], eps: Fraction) -> list[Any]:
    """Return the scale of Laplace noise or the staircase for each sensitivity, None for a number that does not change."""
    law = laplace_scale if mechanism == "discrete-laplace" else staircase_law
    found = {change: law(int(change), eps) if change else None for change in set(sensitivities)}
    return [found[change] for change in sensitivities]


def laplaces(scales: list[tuple[int, int] | None], generator: np.random.Generator | None) -> list[int]:
    """Return discrete Laplace noise of each scale, 0 for None."""
    loud = [scale for scale in scales if scale]
    if len(loud) <= FEW or any(t > MOST_SCALE * s for t, s in set(loud)):
        return [discrete_laplace(scale, generator) if scale else 0 for scale in scales]
    if len(loud) == len(scales) and len(set(loud)) == 1:
        return discrete_laplaces(loud[0], len(loud), generator).tolist()
    t, s = np.array(loud, np.int64).T
    each = iter(discrete_laplaces((t, s), len(loud), generator).tolist())
    return [next(each) if scale else 0 for scale in scales]


@lru_cache(maxsize=4096)
def laplace_scale(sensitivity: int, eps: Fraction) -> tuple[int, int] | None:
    """Return sensitivity / eps as a fraction, rounded up, with a numerator that arrays hold up to scales of 2^50."""
    if sensitivity == 0:
        return None
    scale = sensitivity / eps
    parts = max(min(LAPLACE_DENOMINATOR, LARGEST_NUMERATOR // ceil(scale)), 1)
    return ceil(scale * parts), parts


@lru_cache(maxsize=4096)
def laplace_variance(scale: tuple[int, int]) -> float:
    """Return the variance of discrete Laplace noise of a scale."""
    return float(discrete_laplace_variance(scale[0] / scale[1]))


@lru_cache(maxsize=4096)
def gaussian_variance(sigma2: int) -> float:
    """Return the variance of discrete Gaussian noise."""
    return discrete_gaussian_variance(sigma2)


def gaussians(sigma2s: Sequence[int], generator: np.random.Generator | None) -> list[int]:
    """Return discrete Gaussian noise for each sigma2."""
    kinds = set(sigma2s)
    if len(sigma2s) <= FEW or max(kinds) > MOST_SIGMA2:
        return [discrete_gaussian(v, generator) for v in sigma2s]
    if len(kinds) == 1:
        return discrete_gaussians(sigma2s[0], len(sigma2s), generator).tolist()
    each = np.array(sigma2s, np.int64 if max(kinds) < 1 << 62 else object)
    return discrete_gaussians(each, len(sigma2s), generator).tolist()


def staircases(laws: list[Staircase | None], generator: np.random.Generator | None) -> list[int]:
    """Return noise of each staircase, 0 for None."""
    noise, places = [0] * len(laws), {}
    for place, law in enumerate(laws):
        if law is not None:
            places.setdefault(law, []).append(place)
    for law, mine in places.items():
        for place, each in zip(mine, law.noise(len(mine), generator).tolist(), strict=True):
            noise[place] = each
    return noise


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


def wrong_answers(flip: tuple[int, int], size: int, generator: np.random.Generator | None) -> Ints:
    """Return for each of many answers whether it is to be changed, 1 or 0; exact.

    `flip` is what `flip_probability` returned.  A draw below 2^80 is two below 2^40, of which mostly the first decides.
    """
    if size <= FEW:
        return np.array([randomised_response(0, flip, generator) for _ in range(size)], np.int64)
    high, low = divmod(flip[0], 1 << 40)
    draw = uniforms(1 << 40, size, generator)
    wrong = draw < high
    open_yet = np.flatnonzero(draw == high)
    wrong[open_yet] = uniforms(1 << 40, open_yet.size, generator) < low
    return wrong.astype(np.int64)


def quantised_integers(position: Floats, levels: int, generator: np.random.Generator | None) -> Ints:
    """Round numbers in 0..levels to whole ones, up or down at random so that the mean stays; ints."""
    source = np.random.default_rng() if generator is None else generator
    floor = np.floor(position)
    up = source.random(np.shape(position)) < position - floor
    return np.minimum(floor + up, levels).astype(np.int64)
