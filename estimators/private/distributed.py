"""A sum that nobody sees without noise, and no noise that anybody knows: discrete Gaussians of many clients, added up.

Each client adds discrete Gaussian noise of parameter s2 to whole numbers; secure aggregation (``secure_sum``) shows the
server the sum alone (Kairouz, Liu and Steinke 2021).  The noise P of n clients together is no discrete Gaussian but nearly
the one of parameter n s2, G.  Adding one of s2 to one of k s2 gives, at x, the weight exp(-x^2 / (2 (k+1) s2)) times

    sum over y of exp(-(y - x / (k+1))^2 / (2 v)) = sqrt(2 pi v) theta(x / (k+1)),   v = s2 k / (k+1),
    theta(u) = 1 + 2 sum_{j >= 1} q^(j^2) cos(2 pi j u),   q = exp(-2 pi^2 v)   (Poisson's summation),

so that the log of the ratio to the discrete Gaussian of (k+1) s2 moves by at most log theta(0) / theta(1/2), some 4 q, and
no further convolution widens that.  With t the sum over k = 1..n-1, log P/G stays in [a, a + t], a <= 0.  Hence, for a move
D of one number,

    delta_P(eps) <= e^t delta_G(eps - t),   R_order(P, P + D) <= order D^2 / (2 n s2) + t order / (order - 1),

and t counts once for each number that moves.  The authors' tau, with 10 q for the 4 q here, is a bound of the same kind.

Who knows the noise of c clients subtracts it, and who falls silent adds none.  So noise is counted of as many clients as
`threshold - colluding`, the least that a sum can hold which nobody else knows.

Belongs here: that law, its calibration, and the release of means by it.  Does not belong here: masks (``secure_sum``), a
server that is trusted (``central``), noise that protects each report alone (``client``).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from estimators.accounting.budget import Budget, Guarantee, budget_numbers
from estimators.accounting.privacy import ORDERS, epsilon_from_rdp, zcdp_from_epsilon
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.validation import count, fraction, instance, nonnegative, paired, positive, single
from estimators.private.client import DEFAULT_BITS, MAX_BITS
from estimators.private.exact_noise import check_generator, discrete_gaussian_delta, discrete_gaussian_variance
from estimators.private.noise import SMALLEST_EPS, SUMMABLE, gaussians, quantised_integers
from estimators.private.raw_rows import raw
from estimators.private.reports import low_high
from estimators.private.secure_sum import MOST_BITS, secure_sum

__all__ = [
    "DistributedMean",
    "distributed_mean",
    "noisy_parts",
    "sigma2_each",
    "sum_gap",
    "summed_delta",
    "summed_divergences",
]

FIRST = 64  # terms of t that are added one by one; the others are at most the last of these
WRAP = 1e-15  # probability that a sum with noise leaves the modulus


@paired
def sum_gap(*, sigma2: int, clients: int) -> float:
    """Length t of an interval that holds log P/G, P the sum of discrete Gaussians, G one of their parameters' sum; upper.

    Parameters
    ----------
    sigma2 : whole number >= 1, parameter of each; clients : whole number >= 1.

    >>> [float(f"{sum_gap(sigma2=s, clients=10):.3g}") for s in (1, 2, 100)]
    [0.000217, 1.07e-08, 0.0]
    """
    sigma2, clients = int(single(count, "sigma2", sigma2)), int(single(count, "clients", clients))
    total, last = 0.0, 0.0
    for k in range(1, min(clients, FIRST + 1)):
        with np.errstate(under="ignore"):
            q = float(np.exp(-2 * np.pi**2 * (sigma2 * k / (k + 1))))
        least = 1 - 2 * q  # at most theta(1/2), as q is at most exp(-pi^2)
        last = float(np.log1p(4 * (q + q**9 / (1 - q)) / least))
        total += last
    return (total + max(clients - 1 - FIRST, 0) * last) * (1 + 1e-12)


@paired
def summed_delta(*, eps: float, sensitivity: int, sigma2: int, clients: int) -> float:
    """Delta at `eps` of one number behind the noise of several clients; an upper bound, exact but for `sum_gap`.

    Parameters
    ----------
    eps : number >= 0; sensitivity : whole number >= 0, the largest change of the number.
    sigma2 : whole number >= 1, of each client; clients : whole number >= 1; their product up to 1e14.

    >>> float(round(summed_delta(eps=1.0, sensitivity=1, sigma2=2, clients=7), 9))
    9.956e-06
    """
    eps, gap = single(nonnegative, "eps", eps), sum_gap(sigma2=sigma2, clients=clients)
    less = eps - gap
    delta = discrete_gaussian_delta(eps=abs(less), sensitivity=sensitivity, sigma2=sigma2 * clients)
    if less < 0:  # the same curve seen from the other law
        delta = -np.expm1(less) + np.exp(less) * delta
    return float(min(np.exp(gap) * delta, 1.0)) if sensitivity else 0.0


@paired
def summed_divergences(*, sensitivity: int, dimension: int, sigma2: int, clients: int) -> Floats:
    """Renyi divergences at ``privacy.ORDERS`` of numbers behind the noise of several clients; upper bounds.

    Parameters
    ----------
    sensitivity : whole number >= 0, the largest change of each number; dimension : whole number >= 1, how many they are.
    sigma2, clients : as in `sum_gap`.

    >>> summed_divergences(sensitivity=1, dimension=2, sigma2=10, clients=10)[:2].tolist()
    [0.02, 0.021]
    """
    change, d = int(single(count, "sensitivity", sensitivity, 0)), int(single(count, "dimension", dimension))
    gap, orders = sum_gap(sigma2=sigma2, clients=clients), np.array(ORDERS, float)
    if change == 0:
        return np.zeros(orders.size)
    return orders * (d * change**2 / (2 * sigma2 * clients)) + d * gap * orders / (orders - 1)


@lru_cache(maxsize=1024)
def enough(sigma2: int, eps: float, delta: float, sensitivity: int, dimension: int, clients: int) -> bool:
    """Return whether noise of a parameter of each is certified as enough."""
    if dimension == 1 and sigma2 * clients <= SUMMABLE:
        return summed_delta(eps=eps, sensitivity=sensitivity, sigma2=sigma2, clients=clients) <= delta
    curve = summed_divergences(sensitivity=sensitivity, dimension=dimension, sigma2=sigma2, clients=clients)
    return bool(epsilon_from_rdp(ORDERS, curve, delta=delta) <= eps)


@paired
def sigma2_each(*, eps: float, delta: float, sensitivity: int, clients: int, dimension: int = 1) -> int:
    """Least parameter of each client's discrete Gaussian noise at which the sum is certified (eps, delta)-private.

    Least up to a part in a million.

    Parameters
    ----------
    eps : number > 0; delta : number in (0, 1); sensitivity : whole number >= 1, the largest change of each number.
    clients : whole number >= 1 whose noise counts; dimension : whole number >= 1, how many numbers move together.

    >>> [sigma2_each(eps=1.0, delta=1e-5, sensitivity=change, clients=7) for change in (1, 10)]
    [2, 199]
    """
    eps, delta = budget_numbers(float(single(positive, "eps", eps)), single(fraction, "delta", delta))
    sensitivity, clients = int(single(count, "sensitivity", sensitivity)), int(single(count, "clients", clients))
    dimension = int(single(count, "dimension", dimension))
    high = max(ceil(dimension * sensitivity**2 / (2 * zcdp_from_epsilon(eps=eps, delta=delta) * clients)), 1)
    while not enough(high, eps, delta, sensitivity, dimension, clients):
        high *= 2
        if high > 1 << 200:
            raise ValueError(
                f"eps={eps:g} at delta={delta:g} is out of reach of noise by so many clients; raise eps or delta"
            )
    low = 0
    while high - low > max(1, high >> 20):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle, eps, delta, sensitivity, dimension, clients) else (middle, high)
    return high


class DistributedMean(NamedTuple):
    """A mean of clients that the server saw without seeing one of them.

    mean : array (d,), unbiased for the mean of the clipped values of those heard; noise_variance : of each of its numbers,
    by the noise that really came; rounding_variance : upper bound on what rounding adds; heard : places of the clients
    in it; bits : of the modulus, which a client's message has for each number; guarantee : Guarantee of the least noise.
    """

    mean: Floats
    noise_variance: float
    rounding_variance: float
    heard: tuple[int, ...]
    bits: int
    guarantee: Guarantee


def noisy_parts(whole: Ints, sigma2: int, generator: np.random.Generator | None) -> Ints:
    """Return each client's whole numbers with its own noise, array (m, d)."""
    noise = gaussians([sigma2] * whole.size, generator)
    return whole + np.array(noise, np.int64).reshape(whole.shape)


@paired
def distributed_mean(
    values: ArrayLike,
    *,
    bounds: tuple[float, float],
    eps: float,
    delta: float,
    threshold: int,
    colluding: int = 0,
    bits: int = DEFAULT_BITS,
    silent: Collection[int] = (),
    late: Collection[int] = (),
    generator: np.random.Generator | None = None,
    budget: Budget | None = None,
) -> DistributedMean:
    """Mean of the clients' values by secure aggregation with noise of their own; (eps, delta)-private for each client.

    Parameters
    ----------
    values : array (m,) or (m, d), one number of each client or several, which are clipped to `bounds` and rounded at random
        to 2^bits levels.
    bounds : pair (low, high), fixed without looking at the data.
    eps : number > 0; delta : number in (0, 1).
    threshold : whole number in m/2 < threshold <= m, clients without which the round ends and nothing is released.
    colluding : whole number in 0..threshold - 1, clients that may tell the server all they know; they are not protected,
        and their noise does not count.  With more than 2 threshold - m - 1 of them the shares could tell both of a client's
        secrets to a server that lies, so those are refused.
    silent, late, generator : as for ``secure_sum``.
    budget : accounting.Budget of adjacency "client" that the release is taken from, or None.

    Raises
    ------
    ValueError
        Naming the argument, or how few clients were left; no value is told.

    >>> rng = np.random.default_rng(0)
    >>> found = distributed_mean(rng.normal(3.0, 1.0, 9), bounds=(0.0, 6.0), eps=4.0, delta=1e-6, threshold=6, silent=[2],
    ...     generator=rng)
    >>> round(float(found.mean[0]), 1), len(found.heard), found.bits, found.guarantee.adjacency
    (4.2, 8, 18, 'client')
    """
    check_generator(generator)
    known = raw("values", values)
    known = known[:, None] if known.ndim == 1 else known
    if known.ndim != 2 or 0 in known.shape:
        raise ValueError(f"values must be an array (m,) or (m, d), got shape {known.shape}")
    m, d = known.shape
    low, high = low_high("bounds", bounds)
    threshold, colluding = int(single(count, "threshold", threshold)), int(single(count, "colluding", colluding, 0))
    bits = int(single(count, "bits", bits))
    if bits > MAX_BITS:
        raise ValueError(f"bits must be at most {MAX_BITS}, got {bits}")
    if not m + colluding < 2 * threshold <= 2 * m:
        raise ValueError(
            f"threshold must be at most the {m} clients and more than half of clients and colluding ones together, got "
            f"{threshold} with colluding={colluding}"
        )
    if budget is not None:
        instance("budget", budget, Budget)
    if single(positive, "eps", eps) < SMALLEST_EPS:
        raise ValueError(f"eps must be at least {SMALLEST_EPS:g} for noise whose variance can be calculated, got {eps:g}")
    levels, honest = 2**bits - 1, threshold - colluding
    sigma2 = sigma2_each(eps=eps, delta=delta, sensitivity=levels, clients=honest, dimension=d)
    curve = summed_divergences(sensitivity=levels, dimension=d, sigma2=sigma2, clients=honest)
    guarantee = Guarantee(
        float(eps), float(delta), "client", "client", "distributed-discrete-gaussian", renyi=tuple(curve.tolist()),
        simulated=generator is not None,
    )  # fmt: skip
    # Sums are subgaussian: one of d is above r in size with probability at most 2 d exp(-r^2 / (2 m sigma2)).
    most = m * levels + float(np.sqrt(2 * m * sigma2 * np.log(2 * d / WRAP)))
    modulus = ceil(log2(most + 1)) + 1
    if modulus > MOST_BITS:
        raise ValueError(f"eps={eps:g} asks for noise that {MOST_BITS} bits do not hold; raise eps or lower bits")
    if budget is not None:
        budget.check(guarantee)
    step = (high - low) / levels
    whole = quantised_integers((np.clip(known, low, high) - low) / step, levels, generator)
    parts = noisy_parts(whole, sigma2, generator)
    found = secure_sum(parts, threshold=threshold, bits=modulus, silent=silent, late=late, generator=generator)
    if budget is not None:
        budget.spend(guarantee)
    size = len(found.heard)
    return DistributedMean(
        low + step * found.total / size,
        float(step**2 * discrete_gaussian_variance(sigma2) / size),
        float(step**2 / (4 * size)),
        found.heard,
        modulus,
        guarantee,
    )
