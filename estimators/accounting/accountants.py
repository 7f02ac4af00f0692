"""What events cost, and the noise that a promise needs: one question, an event times an accountant.

Belongs here: Renyi divergences of events, eps at a delta by either accountant, calibration.  Does not belong here: formulas
of single mechanisms (``privacy``, ``mechanisms``), grids of losses (``losses``), guarantees and budgets (``budget``).

The accountants; both give upper bounds, and the exact number where every release is Gaussian noise on all rows:

- "pld", the default: the smaller of what privacy loss distributions and Renyi divergences give.
- "rdp": Renyi divergences at ``privacy.ORDERS`` alone; faster, and up to three times as large for a few steps.

What has no known loss distribution (rates of zero-concentrated privacy beside an event, the best of several runs) goes by
Renyi divergences under either name, as do losses too large and deltas too small for floats (``losses``).

Fixed batches.  Replacing a row moves the clipped sum of a batch that has it by up to m = 2/z deviations.  By the
amplification of Balle, Barthe and Gaboardi (2018) two neighbours' releases are at most as easy to tell apart, at every level
t >= 1, as Q' = (1-q) P + q Q from P, where P = N(0, 1) and Q = N(m, 1); replacing is symmetric, so at t < 1 as P from Q'.
Integrating this profile gives the moment

    E_P[L^a] + E_P[L^(1-a) - 1 + (a-1)(L-1); L > 1] - E_P[L^a - 1 - a(L-1); L < 1],   L = dQ'/dP,

of order a: the best that the profile allows, hence never above the bound of Wang, Balle and Kasiviswanathan (2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from estimators.accounting import privacy
from estimators.accounting.events import SAMPLINGS, Event
from estimators.accounting.losses import loss_epsilon
from estimators.accounting.mechanisms import gaussian_epsilon, gaussian_sigma
from estimators.accounting.privacy import ORDERS
from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.inversion import root
from estimators.numerics.limits import quiet
from estimators.numerics.validation import (
    choice,
    fraction,
    nonnegative,
    number,
    paired,
    positive,
    probability,
    single,
)

if TYPE_CHECKING:
    from estimators.accounting.tuning import Runs

__all__ = [
    "ACCOUNTANTS",
    "calibrate_noise",
    "divergences",
    "epsilon",
    "fixed_batch_rdp",
    "noise_for",
    "stated",
    "tuned_noise_multiplier",
]

ACCOUNTANTS = ("pld", "rdp")
HUGE = 1e100  # a shift whose square may not be a number


@cache
def stated(way: str) -> str:
    """Name of a way of accounting with the version of what computes it.

    Parameters
    ----------
    way : "pld", "rdp" or "exact".

    >>> stated("rdp").split()[0]
    'rdp'
    """
    package = "dp-accounting" if choice("way", way, (*ACCOUNTANTS, "exact")) == "pld" else "borrowed-strength"
    try:
        return f"{way} ({package} {version(package)})"
    except PackageNotFoundError:
        return f"{way} ({package})"


def listed(events: Event | Sequence[Event]) -> tuple[Event, ...]:
    """Return events, one or several, as a tuple; all by one way of sampling, all with noise."""
    events = (events,) if isinstance(events, Event) else tuple(events)
    for event in events:
        if not isinstance(event, Event):
            raise ValueError(f"events must be Events, got {type(event).__name__}")
        if event.noise is None:
            raise ValueError("noise of an event is not given: Event(noise=...), or calibrate it by noise_for")
    if len(found := {event.sampling for event in events}) > 1:
        raise ValueError(f"events must have one sampling, as their adjacencies differ, got {sorted(found)}")
    return events


@paired
def divergences(event: Event) -> Floats:
    """Renyi divergences at ``privacy.ORDERS`` of all releases of an event; upper bounds, exact but for fixed batches.

    >>> divergences(Event(noise=2.0, sampling="fixed", rate=1.0, number=3))[:2].tolist()
    [3.0, 3.1500000000000004]
    """
    (event,) = listed(event)
    return privacy.compose(one_divergence(replace(event, number=1)), event.number)


@lru_cache(maxsize=4096)
def one_divergence(event: Event) -> Numbers:
    """Return the divergences of one release, of an event with number 1."""
    orders = np.array(ORDERS, float)
    if event.silent:
        return np.zeros(len(orders))
    if event.noise == 0 or event.shift > HUGE:
        return np.full(len(orders), np.inf)
    if event.mechanism == "laplace":
        return privacy.rdp_laplace(event.shift, orders)
    if event.mechanism == "pure":
        return privacy.rdp_pure(event.shift, orders)
    if event.rate == 1:
        return orders * event.shift**2 / 2
    from estimators.accounting import subsampling_kernels

    return subsampling_kernels.curve(event.rate, event.shift, orders, event.sampling == "fixed")


@paired
def fixed_batch_rdp(*, noise_multiplier: float, sampling_rate: float, order: ArrayLike) -> Floats:
    """Renyi divergence of Gaussian noise on a batch drawn without replacement; one row replaced; an upper bound.

    Claim: mrmtl:appA:amplification.

    Parameters
    ----------
    noise_multiplier : number > 0, deviation of the noise on the clipped sum over the clipping norm.
    sampling_rate : number in (0, 1], batch size over rows; order : number >= 2, or array.

    >>> round(float(fixed_batch_rdp(noise_multiplier=2.0, sampling_rate=0.1, order=2)), 6)
    0.023134
    """
    z, q = single(positive, "noise_multiplier", noise_multiplier), single(positive, "sampling_rate", sampling_rate)
    order = number("order", order)
    if not (order >= 2).all():
        raise ValueError(f"order must be >= 2, got {order.min()}")
    if probability("sampling_rate", q) == 1:
        return (order * 2 / z**2)[()]
    from estimators.accounting import subsampling_kernels

    return subsampling_kernels.curve(q, 2 / z, np.atleast_1d(order).ravel(), True).reshape(order.shape)[()]


@paired
def epsilon(events: Event | Sequence[Event], *, delta: float, accountant: str = "pld") -> float:
    """Eps at `delta` of events together; an upper bound, exact where all are Gaussian noise on all rows.

    Parameters
    ----------
    events : Event with its noise, or several of one sampling, which names the adjacency.
    delta : number in [0, 1]; accountant : "pld" or "rdp", see the module.

    >>> run = Event(noise=1.0, sampling="poisson", rate=0.01, number=1000)
    >>> round(epsilon(run, delta=1e-5), 3), round(epsilon(run, delta=1e-5, accountant="rdp"), 3)
    (1.828, 2.101)
    """
    choice("accountant", accountant, ACCOUNTANTS)
    return found_epsilon(listed(events), float(single(probability, "delta", delta)), accountant)[0]


def found_epsilon(events: Iterable[Event], delta: float, accountant: str) -> tuple[float, str]:
    """Return eps of checked events and the way that gave it."""
    events = tuple(event for event in events if not event.silent)
    if not events or delta == 1:
        return 0.0, "exact"
    if any(event.noise == 0 for event in events):
        return np.inf, "exact"
    if all(event.mechanism == "gaussian" and event.rate == 1 for event in events):
        ratio = np.sqrt(sum(event.number * event.shift**2 for event in events))
        return float(gaussian_epsilon(delta=delta, sensitivity=ratio, sigma=1.0)), "exact"
    if delta == 0:
        gaussian = any(event.mechanism == "gaussian" for event in events)
        return (np.inf if gaussian else float(sum(event.number * event.shift for event in events))), "exact"
    curve = sum(divergences(event) for event in events)
    found = [(float(privacy.epsilon_from_rdp(ORDERS, curve, delta=delta)), "rdp")]
    if accountant == "pld":
        found.append((loss_epsilon(events, delta), "pld"))
    return min(found)


# --- calibration -------------------------------------------------------------------------------------------------------


@paired
def calibrate_noise(spent: Callable[[float], float], *, eps: float, near: float = 1.0, within: float = 1e-13) -> float:
    """Smallest noise at which an accountant reports at most `eps`; on the safe side of a root found numerically.

    Parameters
    ----------
    spent : function of one positive number, the noise, that returns an eps and falls with the noise.
    eps : number > 0; near : number > 0 where the search starts; within : number > 0, relative, of the noise found.

    Raises
    ------
    ValueError
        If no noise up to e^60 is enough: the accountant's orders or its delta are too small.

    >>> from estimators.accounting import privacy
    >>> z = calibrate_noise(lambda z: privacy.epsilon_from_zcdp(rho=10 / (2 * z * z), delta=1e-5), eps=1.0)
    >>> round(z, 6)
    12.791825
    """
    eps = single(positive, "eps", eps)
    if not callable(spent):
        raise ValueError(f"spent must be a function of the noise that returns an eps, not a {type(spent).__name__}")

    def excess(log_noise):
        with quiet():
            return float(np.clip(np.log(spent(float(np.exp(log_noise))) / eps), -700, 700))

    high = float(np.log(single(positive, "near", near)))
    while not excess(high) <= 0:
        high += 1.0
        if high > 60:
            raise ValueError(f"eps={eps:g} is out of reach of this accountant; add larger orders or raise eps or delta")
    low = high - 1.0
    while excess(low) <= 0:
        low, high = low - 1.0, low
        if low < -60:
            return 0.0  # delta alone pays for releasing the data
    found = root(excess, low, high, xtol=within)
    step = within
    while not excess(found) <= 0:
        found, step = found + step, 2 * step
    return float(np.exp(found))


@paired
def noise_for(event: Event, *, eps: float, delta: float, accountant: str = "pld", rho: float = 0.0) -> float:
    """Smallest noise with which an event is certified as (eps, delta)-private; on the safe side.

    Exact for Gaussian noise on all rows, whatever the accountant; by "pld" within 0.1 % of the smallest.

    Parameters
    ----------
    event : Event, whose own noise does not matter; its sampling names the adjacency.
    eps : number > 0; delta : number in (0, 1); accountant : "pld" or "rdp", see the module.
    rho : number >= 0, rate of zero-concentrated privacy of everything that is released beside the event; by "rdp".

    Returns
    -------
    Noise over sensitivity, 0 for an event in which no row is.

    Raises
    ------
    ValueError
        If no noise is enough: rho alone costs too much, or delta is too small for the orders.

    >>> training = Event(sampling="poisson", rate=0.02, number=1000)
    >>> round(noise_for(training, eps=2.0, delta=1e-4), 2)
    1.33
    >>> round(noise_for(training, eps=2.0, delta=1e-4, accountant="rdp"), 4)
    1.4281
    """
    choice("accountant", accountant, ACCOUNTANTS)
    (event,) = listed(event.at(1.0) if isinstance(event, Event) else event)
    eps, delta = float(single(positive, "eps", eps)), single(fraction, "delta", delta)
    return known_noise(event, eps, delta, accountant, float(single(nonnegative, "rho", rho)))


@lru_cache(maxsize=4096)
def known_noise(event: Event, eps: float, delta: float, accountant: str, rho: float) -> float:
    """Return what `noise_for` does, of checked arguments."""
    if rho > 0 and privacy.epsilon_from_zcdp(rho=rho, delta=delta) >= eps:
        raise ValueError(f"eps={eps:g} at delta={delta:g} is spent by rho={rho:g} before any step")
    if event.silent:
        return 0.0
    shift, steps = SAMPLINGS[event.sampling][1], event.number
    if event.mechanism != "gaussian":
        return calibrate_noise(lambda z: beside(event.at(z), delta, accountant, rho), eps=eps, within=1e-6)
    if event.rate == 1 and rho > 0:
        return float(shift * np.sqrt(steps / (2 * (privacy.zcdp_from_epsilon(eps=eps, delta=delta) - rho))))
    if event.rate == 1:
        return float(np.sqrt(steps) * gaussian_sigma(eps=eps, delta=delta, sensitivity=shift)) * (1 + 1e-12)
    from estimators.accounting import subsampling_kernels

    orders, fixed = np.array(ORDERS, float), event.sampling == "fixed"
    most = subsampling_kernels.largest_shift(eps, delta, event.rate, steps, rho, orders, fixed, 0.1)
    if most == 0:
        raise ValueError(f"eps={eps:g} is out of reach at delta={delta:g}: raise eps or delta")
    enough = float(shift / most)
    if accountant == "rdp" or rho > 0:
        return enough
    found = calibrate_noise(lambda z: beside(event.at(z), delta, "pld", 0.0), eps=eps, near=enough, within=2e-4)
    return min(found, enough)


def beside(event: Event, delta: float, accountant: str, rho: float) -> float:
    """Return eps of an event beside rho-zero-concentrated privacy."""
    if rho == 0:
        return found_epsilon((event,), delta, accountant)[0]
    return float(privacy.epsilon_from_rdp(ORDERS, divergences(event) + rho * np.array(ORDERS), delta=delta))


@paired
def tuned_noise_multiplier(runs: Runs, event: Event, *, eps: float, delta: float) -> float:
    """Noise of each run for which publishing the best of `runs` runs is (eps, delta)-private; an upper bound.

    By Renyi divergences.  Claim: mrmtl:thmF.2.

    Parameters
    ----------
    runs : ``tuning.FixedRuns``, ``PoissonRuns`` or ``TruncatedNegativeBinomial``.
    event : Event, what one run releases; its own noise does not matter.
    eps : number > 0; delta : number in (0, 1).

    >>> from estimators.accounting.tuning import FixedRuns
    >>> round(tuned_noise_multiplier(FixedRuns(1), Event(), eps=1.0, delta=1e-5), 4)
    4.0454
    """
    from estimators.accounting.tuning import tuned_epsilon

    single(fraction, "delta", delta)
    return calibrate_noise(lambda z: tuned_epsilon(runs, ORDERS, divergences(event.at(z)), delta=delta), eps=eps)
