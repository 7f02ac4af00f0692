"""Which mechanism releases one number with the least noise: by eps, delta and what the number is.

Variances are of the worst input and per squared sensitivity, for the largest change is what a mechanism must hide.  They are
those of the continuous laws, which whole numbers attain but for a part in their number of levels.

Belongs here: that comparison.  Does not belong here: the mechanisms (``finite_output``, ``staircase``, ``noise``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from estimators.accounting.budget import budget_numbers
from estimators.accounting.mechanisms import gaussian_sigma
from estimators.numerics.limits import quiet
from estimators.private.staircase import Staircase
from estimators.private.window_designs import LARGEST_EPS, SMALLEST_EPS, design, two_point

__all__ = ["least_noise", "worst_variances"]

LEVELS = 1 << 20  # of the staircase whose variance is that of the continuous one


def worst_variances(*, eps: float, delta: float = 0.0, options: Iterable[str]) -> dict[str, float]:
    """Worst noise variance of each mechanism on one number, per squared sensitivity; exact for the continuous laws.

    Parameters
    ----------
    eps : number > 0; delta : number in [0, 1).
    options : of "discrete-laplace", "staircase", "discrete-gaussian", "gaussian" (noise added to a number of a known
        sensitivity), "two-point", "finite-output" (a number between bounds as wide as the sensitivity).

    Returns
    -------
    dict of floats, inf for a mechanism that there is not for this eps and delta.

    >>> found = worst_variances(eps=4.0, options=["discrete-laplace", "staircase", "finite-output"])
    >>> {name: round(value, 4) for name, value in found.items()}
    {'discrete-laplace': 0.125, 'staircase': 0.065, 'finite-output': 0.0319}
    """
    eps, delta = budget_numbers(eps, delta)
    return {name: worst_variance(name, eps, delta) for name in options}


@lru_cache(maxsize=1024)
def worst_variance(name: str, eps: float, delta: float) -> float:
    """Return the entry of `worst_variances` for one mechanism, found once: every client of a federation asks for it."""
    if np.isinf(eps):
        return 0.0
    if name.endswith("gaussian"):
        return float(gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0)) ** 2 if delta > 0 else np.inf
    with quiet():
        if name == "discrete-laplace":
            return float(2 / np.float64(eps) / eps)
    if eps < SMALLEST_EPS:
        return np.inf
    if name == "staircase":
        return Staircase(sensitivity=LEVELS, eps=eps).variance / LEVELS**2
    if name in ("two-point", "finite-output"):
        make = two_point if name == "two-point" else design
        return float(make(min(eps, LARGEST_EPS)).worst_variance()) / 4
    raise ValueError(f"options must be names of mechanisms for one number, got {name!r}")


def least_noise(*, eps: float, delta: float = 0.0, options: Iterable[str]) -> str:
    """Return the mechanism with the smallest of the `worst_variances`; of equal ones the first.

    >>> least_noise(eps=1.0, delta=1e-6, options=["discrete-laplace", "staircase", "discrete-gaussian"])
    'staircase'
    >>> least_noise(eps=0.1, delta=0.01, options=["discrete-laplace", "staircase", "discrete-gaussian"])
    'discrete-gaussian'
    """
    found = worst_variances(eps=eps, delta=delta, options=options)
    return min(found, key=lambda name: found[name])
