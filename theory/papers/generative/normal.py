"""Tails of the standard normal: as a formula, and in 40 digits by quadrature (the oracle's side).

Belongs here: what several modules of this package need of them. Does not belong here: printed formulas, claims.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import sympy as sp

DIGITS = 40


def upper_tail(z: Any) -> Any:
    """Probability that a standard normal exceeds z, as a formula."""
    return sp.erfc(z / sp.sqrt(2)) / 2


def number(value: Any) -> Any:
    """An exact value as a number of the oracle's precision."""
    return mpmath.mpf(sp.N(value, DIGITS + 5))


def exported(value: Any) -> Any:
    """A number of the oracle as a SymPy float."""
    return sp.Float(mpmath.nstr(value, DIGITS), DIGITS)


@cache
def _nodes() -> tuple[list[tuple[Any, Any]], Any]:
    """Squares of the nodes of a trapezoidal rule on (0, oo) with exp(-t^2) at them, and the step."""
    with mpmath.workdps(DIGITS + 10):
        step = mpmath.mpf(27) / 100
        squares = [(k * step) ** 2 for k in range(1, 43)]
        return [(t2, mpmath.exp(-t2)) for t2 in squares], step


def mass_beyond(z: Any) -> Any:
    """The same from erfc(x) = (2x/pi) exp(-x^2) int_0^oo exp(-t^2)/(t^2 + x^2) dt, x = z/sqrt(2).

    By the trapezoidal rule and the residue at t = ix, which leave an error of about exp(-pi^2/step^2) = 1e-58.
    """
    if z == 0:
        return mpmath.mpf(1) / 2
    nodes, step = _nodes()
    with mpmath.workdps(DIGITS + 10):
        x2 = z * z / 2
        x = mpmath.sqrt(x2)
        total = 1 / x2 + 2 * sum(weight / (t2 + x2) for t2, weight in nodes)
        return (step * x / mpmath.pi * mpmath.exp(-x2) * total - 2 / mpmath.expm1(2 * mpmath.pi * x / step)) / 2


__all__ = ["DIGITS", "exported", "mass_beyond", "number", "upper_tail"]
