"""Exact slopes by forward differentiation in fractions: the oracle of gradients.

A number carries its slope along one direction through every operation of a program, so no formula is differentiated
and nothing is rounded. The value of a logarithm is not rational and never needed: only its slope is kept.

Belongs here: numbers with slopes. Does not belong here: objectives, symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy as sp

from theory.engine.bruteforce import fraction, rational


@dataclass(frozen=True)
class Dual:
    """A value and its slope; value None where only the slope is known."""

    value: Fraction | None
    slope: Fraction

    def __add__(self, other: Any) -> Dual:
        b = lift(other)
        value = None if self.value is None or b.value is None else self.value + b.value
        return Dual(value, self.slope + b.slope)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Dual:
        b = lift(other)
        if self.value is None:  # a logarithm times a constant
            assert b.slope == 0
            assert b.value is not None
            return Dual(None, self.slope * b.value)
        if b.value is None:
            return b * self
        return Dual(self.value * b.value, self.slope * b.value + self.value * b.slope)

    __rmul__ = __mul__

    def __neg__(self) -> Dual:
        return self * -1

    def __sub__(self, other: Any) -> Dual:
        return self + lift(other) * -1

    def __rsub__(self, other: Any) -> Dual:
        return lift(other) - self

    def inverse(self) -> Dual:
        """One over the number."""
        assert self.value is not None
        return Dual(1 / self.value, -self.slope / self.value**2)

    def __truediv__(self, other: Any) -> Dual:
        return self * lift(other).inverse()

    def __rtruediv__(self, other: Any) -> Dual:
        return lift(other) * self.inverse()

    def log(self) -> Dual:
        """Natural logarithm, of which only the slope is kept."""
        assert self.value is not None
        return Dual(None, self.slope / self.value)

    def exp(self, value: Any) -> Dual:
        """Exponential, whose value is given as a number of its own."""
        value = fraction(value)
        return Dual(value, value * self.slope)


def lift(value: Any) -> Dual:
    """A number as a constant with slope zero."""
    return value if isinstance(value, Dual) else Dual(fraction(value), Fraction(0))


def gradient(function: Callable[..., Dual], at: Sequence[Any]) -> tuple[sp.Rational, ...]:
    """Slope of a function of several numbers along each of them, as SymPy rationals.

    >>> gradient(lambda x, y: x * x / y + y.log(), [3, 2])
    (3, -7/4)
    """
    point = [fraction(x) for x in at]
    found = []
    for i in range(len(point)):
        arguments = [Dual(x, Fraction(int(i == j))) for j, x in enumerate(point)]
        found.append(rational(function(*arguments).slope))
    return tuple(found)


__all__ = ["Dual", "gradient", "lift"]
