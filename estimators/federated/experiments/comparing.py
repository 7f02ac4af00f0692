"""Is a result what was printed?  Three comparisons that can fail, each from results of several seeds.

Errors are compared on a log scale: 99.88 % and 99.98 % right differ by a factor of six in what is wrong.  A `level` is a
printed number: ours is the same if the interval of the ratio of errors lies within FACTOR (less where that would not tell
methods apart), another if it lies outside.  A `gap` is that one method is ahead of another: differences are paired by seed,
which gives both the same split, and counted in standard errors.  A `tie` is that two methods are within FACTOR of each
other.  One seed has no standard error and decides nothing.

Belongs here: numbers and their comparison.  Does not belong here: which results belong to which claim, and what follows for
a table of a paper (``published``).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import log
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from estimators.federated.kinds import several, typed
from estimators.numerics.validation import shown

__all__ = ["ERROR", "FACTOR", "Compared", "failing", "fall", "gap", "level", "log_error", "printed_unit", "tie"]

FACTOR = 1.25
"""Errors are the same if neither is more than a quarter above the other."""
ERROR = 0.05
"""Rate of false statements: of one that a comparison holds, and of any in an entry that one fails."""


class Compared(NamedTuple):
    """What a comparison came to.

    value is a log ratio of errors (of ours to the printed one, or of the method behind to the one ahead), error its standard
    error over n seeds.  holds says whether it is shown to hold at the rate ERROR; p is the probability, if it did hold, of a
    result as far against it; both say nothing (False, 1) where n is 1.
    """

    value: float
    error: float
    n: int
    holds: bool
    p: float


def is_accuracy(measure: str) -> bool:
    """Whether a measure is a share of what is right, not a loss."""
    return measure.rsplit(".", 1)[-1] == "accuracy"


@typed
def printed_unit(measure: str, value: float) -> float:
    """The last digit of a printed number: accuracies are printed in per cent with two digits.

    >>> printed_unit("clients.accuracy", 0.938), printed_unit("rows.mse", 0.02394)
    (0.0001, 1e-05)
    """
    exponent = Decimal(repr(float(value))).as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) else 0
    return 10.0 ** -(max(digits, 4) if is_accuracy(measure) else digits)


@typed
def log_error(measure: str, value: float, unit: float = 1e-4) -> float:
    """Log of what is wrong: of a mean loss, or of 1 - accuracy and half a unit, so that no error at all has a logarithm.

    >>> round(log_error("clients.accuracy", 0.9988) - log_error("clients.accuracy", 0.9998), 2)
    1.61
    """
    if not (0 <= value <= 1 if is_accuracy(measure) else value > 0):
        raise ValueError(f"{measure} must be {'in [0, 1]' if is_accuracy(measure) else '> 0'}, got {value}")
    return log(1 - value + unit / 2 if is_accuracy(measure) else value)


def moments(values: Sequence[float]) -> tuple[float, float, int]:
    """Mean, standard error (NaN for one value) and number."""
    found = np.asarray(values, dtype=float)
    n = len(found)
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan, n


def beyond(distance: float, error: float, n: int) -> float:
    """Probability of a mean of n values at least so far above its expectation, by Student's law; 1 for one value."""
    if n < 2:
        return 1.0
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(n - 1, -distance / error))


def same(value: float, error: float, n: int, margin: float, slack: float = 0.0) -> tuple[bool, float]:
    """Whether the interval about a log ratio lies within the margin; how probable one is so far outside it, less slack."""
    if n < 2:
        return False, 1.0
    reach = float(stdtrit(n - 1, 1 - ERROR)) * error
    return abs(value) + reach <= margin, min(2 * beyond(abs(value) - slack - margin, error, n), 1.0)


@typed
def level(
    measure: str, ours: Sequence[float], printed: float, printed_error: float = 0.0, others: Sequence[float] = ()
) -> Compared:
    """Our values of several seeds beside a printed number with its standard error.

    It holds for the number as printed; it fails if it would for every number that is printed so.  The margin is FACTOR, or
    half the distance to what is printed of `others` where that is less; half a distance below what rounding leaves open
    counts as that.

    >>> near, far = (level("rows.mse", [0.0249, 0.0250, 0.0251], 0.02564, others=found).holds for found in ([], [0.02628]))
    >>> near, far  # within a quarter, but nearer to the number than the two methods to each other it is not
    (True, False)
    """
    unit = printed_unit(measure, printed)
    mean, error, n = moments([log_error(measure, value, unit) for value in ours])
    target = log_error(measure, printed, unit)
    error = float(np.hypot(error, printed_error / np.exp(target)))
    rounding = float(unit / 2 / np.exp(target))
    apart = [abs(log_error(measure, other, unit) - target) / 2 for other in others]
    margin = min([log(FACTOR), *(max(distance, rounding) for distance in apart)])
    return Compared(mean - target, error, n, *same(mean - target, error, n, margin, rounding))


@typed
def gap(measure: str, ahead: Sequence[float], behind: Sequence[float]) -> Compared:
    """Whether a method is ahead of another: values of the same seeds, in the same order."""
    return positive(paired(measure, ahead, behind))


@typed
def tie(measure: str, one: Sequence[float], other: Sequence[float]) -> Compared:
    """Whether two methods are within FACTOR of each other: values of the same seeds, in the same order."""
    mean, error, n = moments(paired(measure, one, other))
    return Compared(mean, error, n, *same(mean, error, n, log(FACTOR)))


@typed
def fall(
    measure: str, ahead: Sequence[float], behind: Sequence[float], ahead_now: Sequence[float], behind_now: Sequence[float]
) -> Compared:
    """Whether a method's gain on another is less now than before: values of the same seeds, in the same order.

    >>> fall("rows.accuracy", [0.90, 0.91], [0.80, 0.81], [0.85, 0.86], [0.84, 0.85]).holds
    True
    """
    gains = paired(measure, ahead, behind), paired(measure, ahead_now, behind_now)
    return positive([a - b for a, b in zip(*gains, strict=True)])


def positive(differences: Sequence[float]) -> Compared:
    """Whether the mean that these differences have is above zero."""
    mean, error, n = moments(differences)
    return Compared(mean, error, n, beyond(mean, error, n) <= ERROR, beyond(-mean, error, n))


def paired(measure: str, ahead: Sequence[float], behind: Sequence[float]) -> list[float]:
    """Differences of log errors, positive where the second one has more."""
    return [log_error(measure, b) - log_error(measure, a) for a, b in zip(ahead, behind, strict=True)]


@typed
def failing(found: Sequence[Compared]) -> list[int]:
    """Positions of the comparisons that fail: Holm's rule over those of an entry, so that ERROR is the rate of any mistake.

    >>> failing([Compared(1.0, 0.1, 3, False, 0.001), Compared(0.0, 0.1, 3, False, 0.04)])
    [0, 1]
    >>> failing([Compared(1.0, 0.1, 3, False, 0.03), Compared(0.0, 0.1, 3, False, 0.5)])
    []
    """
    if not several(found) or not all(isinstance(compared, Compared) for compared in found):
        raise ValueError(f"found must be a list of Compared, got {shown(found)}")
    order = sorted(range(len(found)), key=lambda i: found[i].p)
    lost = []
    for rank, i in enumerate(order):
        if found[i].p > ERROR / (len(found) - rank):
            break
        lost.append(i)
    return sorted(lost)
