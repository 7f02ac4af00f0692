"""Laws of added noise, by the name of the mechanism: densities, alone and with a normal error, and new draws.

A law holds arrays, one entry per report.  Noise on whole numbers whose distance is known is taken as
spread evenly between them, with its variance: their number is thousands, and where it is few, ``mean_posterior`` sums.

Belongs here: laws of noise that is added, for posteriors (``mean_posterior``).  Does not belong here: mechanisms that add
nothing (``finite_output``), the noise that clients add (``noise``), laws of noisy counts (``rate_laws``), how far noise
goes at the most (``agreement``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.inversion import root
from estimators.numerics.limits import quiet
from estimators.numerics.validation import nonnegative
from estimators.private.mechanisms import worst_variances
from estimators.private.staircase import Staircase

__all__ = ["LAWS", "LaplaceNoise", "NoiseLaw", "NormalNoise", "StaircaseNoise", "laplace_beyond"]

JUMPS = 24  # lengths that resolve a staircase, in one of its blocks
KINK = 12  # and the kink of Laplace noise, in its scale
LEAST = 1e-6  # of a scale, below which a normal error is none
SMOOTH = 2.0  # blocks of a staircase below a normal deviation that leaves nothing of its steps


class NoiseLaw(Protocol):
    """Noise of several reports.

    Attributes
    ----------
    feature : array (m,) of the lengths in which the density changes; slope : array (m,), about how fast its log falls at
        most, inf for normal noise.
    normal : array (m,), the variance of the noise if it is normal, 0 otherwise.
    """

    feature: Floats
    slope: Floats
    normal: Floats

    def log_density(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the log density of noise plus an independent normal error of some variance, of reports `rows`."""
        ...

    def draw(self, generator: np.random.Generator) -> Floats:
        """Return new noise of each report, array (m,)."""
        ...


def column(values: Floats, rows: Ints) -> Floats:
    """Return one entry per row, to calculate with arrays that have a row per report."""
    return values[rows][:, None]


class NormalNoise:
    """Normal noise, continuous or on whole numbers; also noise of no known mechanism.

    >>> law = NormalNoise(np.array([1.0]), np.array([0.0]), np.array([1.0]))
    >>> law.log_density(np.array([0]), np.array([[0.0, 1.0]]), np.array(0.0)).round(3).tolist()
    [[-0.919, -1.419]]
    """

    def __init__(self, variance: Floats, unit: Floats, eps: Floats) -> None:
        self.normal = variance
        self.feature, self.slope = np.sqrt(variance), np.full(variance.size, np.inf)

    def log_density(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the log density of noise plus an independent normal error of some variance, of reports `rows`."""
        total = variance + column(self.normal, rows)
        return -(away**2) / (2 * total) - np.log(2 * np.pi * total) / 2

    def draw(self, generator: np.random.Generator) -> Floats:
        """Return new noise of each report, array (m,)."""
        return np.sqrt(self.normal) * generator.standard_normal(self.normal.size)


def laplace_beyond(distance: Floats, normal: Floats, scale: Floats) -> Floats:
    """Chance that a normal error and Laplace noise together exceed a distance, on either side; exact.

    Parameters
    ----------
    distance, normal, scale : arrays of one shape, numbers >= 0: distances, standard deviations of the normal error, scales
        of the Laplace noise (0 for none).

    >>> laplace_beyond(np.array([1.96, 2.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])).round(4).tolist()
    [0.05, 0.1353]
    """
    from scipy.special import erfcx, ndtr

    named = {"distance": distance, "normal": normal, "scale": scale}
    t, s, b = np.broadcast_arrays(*(nonnegative(name, value, infinite=True) for name, value in named.items()))
    with quiet():
        plain = np.where(s > 0, 2 * ndtr(-t / np.where(s > 0, s, 1.0)), (t <= 0) * 1.0)
        r, z = s / np.where(b > 0, b, 1.0), t / np.where(s > 0, s, 1.0)
        top = np.exp(-(z**2) / 2) / 2  # r z - r^2 / 2 is calculated where the normal error is less than the distance alone
        near = np.where(z > r, np.exp(-r * (z - r / 2)) * ndtr(z - r), top * erfcx(np.maximum(r - z, 0.0) / np.sqrt(2)))
        both = 2 * ndtr(-z) + near - top * erfcx((r + z) / np.sqrt(2))
        laplace = np.exp(-t / np.where(b > 0, b, 1.0))
    return np.clip(np.where(b == 0, plain, np.where(s > 1e-6 * b, both, laplace)), 0.0, 1.0)


class LaplaceNoise:
    """Laplace noise, on whole numbers `unit` apart or continuous (0).

    >>> law = LaplaceNoise(np.array([2.0]), np.array([0.0]), np.array([1.0]))
    >>> law.log_density(np.array([0]), np.array([[0.0, 1.0]]), np.array(0.0)).round(3).tolist()
    [[-0.693, -1.693]]
    """

    def __init__(self, variance: Floats, unit: Floats, eps: Floats) -> None:
        self.normal = np.zeros(variance.size)
        with quiet():
            steps = unit / np.sqrt(2 * variance)
            fine = steps < 1e-8
            self.unit = np.where(fine, 0.0, unit)
            self.scale = np.where(fine, np.sqrt(variance / 2), unit / (2 * np.arcsinh(np.where(fine, 1.0, steps))))
        self.feature, self.slope = self.scale / KINK, 1 / self.scale

    def log_density(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the log density of noise plus an independent normal error of some variance, of reports `rows`."""
        from scipy.special import erfcx

        b = column(self.scale, rows)
        size, sd = np.abs(away), np.sqrt(variance)
        if (sd <= LEAST * b).all():
            return -size / b - np.log(2 * b)
        sd = np.maximum(sd, LEAST * b)
        ratio, z = sd / b, size / sd
        # exp(-z^2 / 2) [erfcx((ratio - z) / sqrt 2) + erfcx((ratio + z) / sqrt 2)] / 4 b, without what is out of range
        outer, rest = z > ratio, np.abs(z - ratio)
        fall = np.where(outer, np.exp(-(rest**2) / 2), 1.0)
        near = erfcx(rest / np.sqrt(2))
        total = np.where(outer, 2 - fall * near, near) + fall * erfcx((ratio + z) / np.sqrt(2))
        return np.where(outer, ratio * (ratio / 2 - z), -(z**2) / 2) + np.log(total / (4 * b))

    def draw(self, generator: np.random.Generator) -> Floats:
        """Return new noise of each report, array (m,)."""
        with quiet():
            stop = np.where(self.unit > 0, -np.expm1(-self.unit / self.scale), 1.0)
        whole = generator.geometric(stop) - generator.geometric(stop)
        return np.where(self.unit > 0, self.unit * whole, generator.laplace(0.0, self.scale))


@lru_cache(maxsize=256)
def share_of_eps(eps: float, variance: float) -> float:
    """Return the eps at which a staircase has a variance per squared sensitivity: a part of `eps`, or all of it."""
    if not np.isfinite(eps) or variance <= 0:
        return 40.0

    def above(log_eps):
        return float(np.log(worst_variances(eps=np.exp(log_eps), options=["staircase"])["staircase"] / variance))

    end = float(np.log(eps))
    if abs(above(end)) < 1e-3 or above(end) > 0:
        return eps
    low = end - 1.0
    while above(low) < 0:
        low -= 1.0
    return float(np.exp(root(above, low, end, xtol=1e-9)))


class StaircaseNoise:
    """Staircase noise as on a continuum: blocks of one length, each lower than the one before it by one factor.

    The length of a block is the largest change that is hidden, `width`.

    >>> law = StaircaseNoise(np.array([1.918]), np.array([0.0]), np.array([1.0]), np.array([1.0]))
    >>> away = np.array([[0.0, 0.2, 0.5, 1.2]])
    >>> law.log_density(np.array([0]), away, np.array(0.0)).round(2).tolist()
    [[-0.69, -0.69, -1.69, -1.69]]
    """

    LEVELS: ClassVar[int] = 1 << 12

    def __init__(self, variance: Floats, unit: Floats, eps: Floats, width: Floats) -> None:
        self.normal = np.zeros(variance.size)
        self.width = width
        ratio = variance / width**2
        keys, place = np.unique(np.column_stack([eps, np.round(ratio, 12)]), axis=0, return_inverse=True)
        laws = [Staircase(sensitivity=self.LEVELS, eps=share_of_eps(float(e), float(v))) for e, v in keys]
        place = place.ravel()
        self.used, self.inner, self.step = (
            np.array([value(law) for law in laws])[place]
            for value in (lambda law: law.used, lambda law: law.inner / self.LEVELS, lambda law: law.step)
        )
        self.feature, self.slope = width / JUMPS, 2 * self.used / width
        self.smooth = LaplaceNoise(variance, np.zeros(variance.size), eps)

    def resized(self, row: int, width: Floats) -> StaircaseNoise:
        """Return the noise of one report for other largest changes."""
        ratio, same = 2 * (self.smooth.scale[row] / self.width[row]) ** 2, np.ones(width.size)
        return StaircaseNoise(ratio * width**2, 0 * width, self.used[row] * same, width)

    def pieces(self, rows: Ints, away: Floats, variance: Floats) -> tuple[Floats, list[tuple[Floats, Floats, Floats]]]:
        """Return the deviation, and the pieces near each point: the log height, and the ends."""
        D, g, used = (column(x, rows) for x in (self.width, self.inner, self.used))
        step = np.log(column(self.step, rows))
        sd = np.maximum(np.sqrt(variance), 1e-7 * D) + np.zeros_like(away)
        top = np.log(-np.expm1(-used) / (2 * D * (g + np.exp(step) * (1 - g))))
        blocks = int(np.ceil(8 * min(float((sd / D).max()), SMOOTH))) + 1
        first, found = np.floor(away / D), []
        for j in range(-blocks, blocks + 1):
            k = first + j
            fall = top - used * np.where(k >= 0, k, -k - 1)
            middle = np.where(k >= 0, k + g, k + 1 - g) * D
            found.append((fall + np.where(k >= 0, 0.0, step), k * D, middle))
            found.append((fall + np.where(k >= 0, step, 0.0), middle, (k + 1) * D))
        return sd, found

    def log_density(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the log density of noise plus an independent normal error of some variance, of reports `rows`."""
        from scipy.special import ndtr

        sd, pieces = self.pieces(rows, away, variance)
        highest = np.max([log for log, _, _ in pieces], axis=0)
        total = np.zeros_like(away)
        for log, low, high in pieces:
            left, right = (low - away) / sd, (high - away) / sd
            flip = left > 0
            total += np.exp(log - highest) * np.where(flip, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))
        with quiet():
            found = highest + np.log(total)
        plain = sd > SMOOTH * column(self.width, rows)
        return np.where(plain, self.smooth.log_density(rows, away, variance), found) if plain.any() else found

    def beyond(self, rows: Ints, away: Floats, variance: Floats) -> Floats:
        """Return the chance that noise plus an independent normal error of some variance is farther than `away` on a side.

        >>> law = StaircaseNoise(np.array([1.918]), np.array([0.0]), np.array([1.0]), np.array([1.0]))
        >>> law.beyond(np.array([0]), np.array([[0.0, 1.0, 2.0]]), np.array(0.0)).round(4).tolist()
        [[0.5, 0.1839, 0.0677]]
        """
        from scipy.special import ndtr

        def below(z):  # the integral of the normal distribution function up to z
            return z * ndtr(z) + np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

        sd, pieces = self.pieces(rows, away, variance)
        used, D = column(self.used, rows), column(self.width, rows)
        total = np.exp(-used * np.rint(pieces[-1][2] / D)) / 2  # of all blocks farther out
        for log, low, high in pieces:
            total = total + np.exp(log) * sd * (below((high - away) / sd) - below((low - away) / sd))
        plain = sd > SMOOTH * D
        if plain.any():  # Laplace noise that falls as the blocks do; the normal error makes up for the rest of the variance
            more = 2 * (column(self.smooth.scale, rows) ** 2 - (D / used) ** 2)
            smooth = laplace_beyond(away, np.sqrt(np.maximum(sd**2 + more, 0.0)), D / used) / 2
            total = np.where(plain, smooth, total)
        return total

    def draw(self, generator: np.random.Generator) -> Floats:
        """Return new noise of each report, array (m,)."""
        m, g = self.width.size, self.inner
        blocks = generator.geometric(-np.expm1(-self.used)) - 1
        inside = generator.random(m) * (g + self.step * (1 - g)) < g
        place = np.where(inside, g * generator.random(m), g + (1 - g) * generator.random(m))
        return np.where(generator.random(m) < 0.5, 1.0, -1.0) * (blocks + place) * self.width


LAWS: dict[str, type[NormalNoise] | type[LaplaceNoise] | type[StaircaseNoise]] = {
    "discrete-laplace": LaplaceNoise,
    "staircase": StaircaseNoise,
    "gaussian": NormalNoise,
    "discrete-gaussian": NormalNoise,
    "none": NormalNoise,
}
