"""Numbers >= 0 of any size, for formulas whose arguments span more than floating-point numbers do.

A product of two variances, or a share of a share, may be out of range while what is asked for is an ordinary number; and
no unit suits 5e-324 beside 1e308.  Here a number has an exponent of its own, so that sums, products and quotients are
rounded as ever and are never out of range.

Belongs here: that arithmetic.  Does not belong here: differences, which formulas in variances should not need, and formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Ints, Numbers

__all__ = ["Wide", "pooled", "relative_precisions", "share"]

NOTHING = -(1 << 40)
"""The exponent of 0, below all others."""


class Wide:
    """An array of numbers >= 0 or inf, as mantissas in [1/2, 1) times powers of two; 0 times inf and 0 / 0 are 0.

    >>> (Wide(5e-324) * Wide(1e308) / Wide(1e-10)).floats().round(10).tolist()
    4.9407e-06
    >>> (Wide([1.0, 0.0]) / Wide(0.0)).floats().tolist()
    [inf, 0.0]
    """

    def __init__(self, mantissas: ArrayLike, exponents: Ints | int = 0) -> None:
        """Take numbers >= 0, each times a power of two."""
        self.mantissas, powers = np.frexp(np.asarray(mantissas, float))
        self.exponents = np.where(self.mantissas == 0, NOTHING, powers + np.asarray(exponents, np.int64))

    def __add__(self, other: Wide) -> Wide:
        top = np.maximum(self.exponents, other.exponents)
        return Wide(lowered(self, top) + lowered(other, top), top)

    def __mul__(self, other: Wide) -> Wide:
        none = (self.mantissas == 0) | (other.mantissas == 0)
        with np.errstate(invalid="ignore"):
            return Wide(np.where(none, 0.0, self.mantissas * other.mantissas), self.exponents + other.exponents)

    def __truediv__(self, other: Wide) -> Wide:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(self.mantissas == 0, 0.0, self.mantissas / other.mantissas)
        return Wide(found, self.exponents - other.exponents)

    def __getitem__(self, where: Any) -> Wide:
        return Wide(self.mantissas[where], self.exponents[where])

    def sum(self) -> Wide:
        """Sum along axis 0, which has an entry at least."""
        top = self.exponents.max(axis=0)
        return Wide(lowered(self, top).sum(axis=0), top)

    def floats(self) -> Floats:
        """Nearest floating-point numbers, inf for what is too large for one."""
        with np.errstate(over="ignore"):
            return np.ldexp(self.mantissas, np.clip(self.exponents, -4000, 4000))[()]


def pooled(variances: Wide, counts: Numbers = 1.0) -> Wide:
    """Return 1 / sum(counts / variances) along axis 0, the variance of the best average; inf if all are inf or nobody's.

    >>> pooled(Wide([1e-320, 1e-320]), [1.0, 3.0]).floats() == 1e-320 / 4
    np.True_
    """
    return Wide(1.0) / (Wide(counts) / variances).sum()


def share(x: Wide, y: Wide) -> Wide:
    """Return x / (x + y), also for infinite x and finite y, where it is 1.

    >>> share(Wide(np.inf), Wide(1.0)).floats().tolist()
    1.0
    """
    whole = np.isinf(x.mantissas)
    found = x / (x + y)
    return Wide(np.where(whole, 1.0, found.mantissas), np.where(whole, 0, found.exponents))


def relative_precisions(variances: Wide) -> Wide:
    """Return precisions along axis 0 up to a common factor; exact ones, if there are any, have all of it.

    >>> relative_precisions(Wide([0.0, 1.0, 0.0])).floats().tolist()
    [1.0, 0.0, 1.0]
    """
    exact = variances.mantissas == 0
    among = exact.any(axis=0)
    precisions = Wide(1.0) / variances
    return Wide(np.where(among, exact, precisions.mantissas), np.where(among, 0, precisions.exponents))


def lowered(x: Wide, top: Ints) -> Floats:
    """Return the numbers in units of 2^top, which is not less than any exponent of theirs but that of inf."""
    return np.ldexp(x.mantissas, np.clip(x.exponents - top, -4000, 4000))
