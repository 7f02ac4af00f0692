"""Privacy loss distributions of events, by the library dp-accounting, with bounded work.

Belongs here: which grid, and one release as a distribution of losses.  Does not belong here: Renyi divergences
(``divergences`` of ``accountants``), which bound is taken (``accountants``).

Losses are rounded up: the smallest delta at each loss of a grid is joined by straight lines (Doroshenko et al. 2022), so
that eps is an upper bound whatever the grid.  The grid is a fortieth of a release's deviation of losses, which raises eps by
about 1e-4 of it, or coarser where that would take more than ``POINTS`` points; where that is too coarse to say anything
there is no bound by this way, and Renyi divergences give one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache, reduce
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting import privacy
from estimators.numerics.arrays import Floats
from estimators.numerics.limits import quiet

if TYPE_CHECKING:
    from estimators.accounting.events import Event

__all__ = ["POINTS", "loss_epsilon"]

POINTS = 2**17
FURTHEST = 500.0
"""Largest loss of one release whose exponential is safely a number; beyond it the bound is inf."""
SMALLEST = 1e-10
"""Smallest delta that rounding in Fourier transforms leaves untouched; below it the bound is inf."""
SLACK = 1e-13
"""Taken off delta for that rounding."""


def library() -> list[ModuleType]:
    """Return the modules of dp-accounting that hold loss distributions and their masses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies, at import
        return [import_module(f"dp_accounting.pld.{name}") for name in ("privacy_loss_distribution", "pld_pmf")]


def furthest(event: Event) -> float:
    """Return a loss of one release beyond which less than 1e-22 of its probability lies."""
    if event.mechanism != "gaussian":
        return event.shift
    shift = min(float(event.shift), 1e6)  # whose square is a number; the loss is far past FURTHEST
    most = shift * (shift / 2 + 10)
    return float(np.log1p(event.rate * np.expm1(most))) if most < FURTHEST else most


def deviation(event: Event) -> float:
    """Return about the deviation of one release's loss."""
    if event.mechanism != "gaussian":
        return event.shift
    return float(np.sqrt(np.log1p(event.rate**2 * np.expm1(min(event.shift**2, FURTHEST)))))


def grid(events: Sequence[Event]) -> tuple[float, float]:
    """Return the distance of losses for releases that are composed, and the smallest deviation of one of them."""
    square = sum(event.number * deviation(event) ** 2 for event in events)
    span = 2 * max(max(map(furthest, events)), square + 12 * np.sqrt(square))
    finest = min(map(deviation, events))
    return max(finest / 40, span / POINTS), finest


def profile(event: Event, level: np.ndarray) -> Floats:
    """Return the smallest delta of one release at the losses `level`, of either sign; the same in both directions.

    Batches of fixed size: the curve of Gaussian noise amplified by Balle, Barthe and Gaboardi (2018).  Purely private: that
    of randomised response, which dominates.
    """
    size = np.abs(level)
    if event.mechanism == "pure":
        eps = event.shift
        above = np.maximum(0.0, -np.expm1(size - eps)) / (1 + np.exp(-eps))
    else:
        ratio = np.log1p(np.expm1(size) / event.rate)  # of the two laws of a batch with the row
        above = event.rate * privacy.gaussian_delta(eps=ratio, sensitivity=event.shift, sigma=1.0)
    return np.clip(np.where(level >= 0, above, -np.expm1(-size) + np.exp(-size) * above), 0.0, 1.0)


def one_release(event: Event, step: float) -> Any:
    """Return the loss distribution of one release on a grid of distance `step`."""
    distributions, masses = library()
    if event.mechanism == "laplace":
        return distributions.from_laplace_mechanism(
            1 / event.shift, value_discretization_interval=step, use_connect_dots=True
        )
    if event.mechanism == "gaussian" and event.sampling != "fixed":
        return distributions.from_gaussian_mechanism(
            1 / event.shift, sampling_prob=event.rate, value_discretization_interval=step, use_connect_dots=True
        )
    most = int(np.ceil(furthest(event) / step))
    losses = np.arange(-most, most + 1)
    pmf = masses.create_pmf_pessimistic_connect_dots(step, losses, profile(event, losses * step))
    return distributions.PrivacyLossDistribution(pmf)


@lru_cache(maxsize=4096)
def loss_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return an upper bound on the smallest eps at `delta` of a tuple of events; inf where this way gives none."""
    events = [event for event in events if not event.silent]
    if not SMALLEST <= delta < 1 or any(event.noise == 0 or furthest(event) > FURTHEST for event in events):
        return np.inf
    if not events:
        return 0.0
    step, finest = grid(events)
    if step > finest / 2:  # rounding would add more than the losses themselves, release by release
        return np.inf
    with quiet():
        parts = [one_release(event, step).self_compose(event.number) for event in events]
        total = reduce(lambda one, other: one.compose(other), parts)
        found = float(total.get_epsilon_for_delta(delta - SLACK))
    return max(0.0, found) if found < np.inf else np.inf
