"""Rational functions as fractions of two polynomials with whole coefficients, in the arithmetic of python-flint.

SymPy expands products term by term; here a sum of fractions that takes it seconds takes milliseconds, and the answer is
the same polynomial.

Belongs here: reading an expression as a polynomial or a fraction, writing one as an expression.  Does not belong here:
what is decided with them (algebra.py), numbers at a point (values.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import sympy as sp
from flint import Ordering, fmpz_mpoly, fmpz_mpoly_ctx


class NotRational(ValueError):
    """The expression is no rational function of its letters with rational coefficients, or divides by zero."""


class Fractions:
    """Fractions in the given letters; each subexpression is read once.

    >>> x, y = sp.symbols("x y")
    >>> fractions = Fractions((x, y))
    >>> fractions.of(1 / x - (x + y) / x**2)
    (-x1, x0^2)
    >>> fractions.factored((2 * x**2 - 2 * y**2) / (4 * x + 4 * y))
    (x - y)/2
    """

    def __init__(self, letters: Sequence[Any]):
        self.letters = tuple(letters)
        self._ring = fmpz_mpoly_ctx.get(tuple(f"x{i}" for i in range(len(self.letters))), Ordering.lex)
        self._one = self._ring.constant(1)
        self._known = {s: (x, self._one) for s, x in zip(self.letters, self._ring.gens(), strict=True)}

    def of(self, expression: Any) -> tuple[fmpz_mpoly, fmpz_mpoly]:
        """Numerator and denominator without a common factor.

        Raises
        ------
        NotRational
            For anything else than sums, products and whole powers of the letters and rational numbers.
        """
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = self._from_parts(expression)
        return found

    def _from_parts(self, e: Any) -> tuple[fmpz_mpoly, fmpz_mpoly]:
        if e.is_Rational:
            return self._ring.constant(int(e.p)), self._ring.constant(int(e.q))
        if e.is_Add:
            return reduce(_sum, map(self.of, e.args))
        if e.is_Mul:
            return reduce(_product, map(self.of, e.args))
        if e.is_Pow and e.exp.is_Integer:
            top, bottom = self.of(e.base)
            if e.exp < 0:
                top, bottom = bottom, top
                if bottom.is_zero():
                    raise NotRational(f"division by zero: {e}")
            return top ** abs(int(e.exp)), bottom ** abs(int(e.exp))
        raise NotRational(str(e.func))

    def factored(self, expression: Any) -> Any:
        """The expression as one cancelled fraction of products of irreducible factors, as `sympy.factor` writes it."""
        parts = [part.factor() for part in self.of(expression)]
        coefficient = sp.Rational(*(int(constant) for constant, _ in parts))
        powers = [(p, k * sign) for (_, found), sign in zip(parts, (1, -1), strict=True) for p, k in found]
        product = sp.Mul(*(self.expression(p) ** k for p, k in powers))
        if product.is_Add and coefficient not in (1, -1):
            return sp.Mul(coefficient, product, evaluate=False)  # SymPy would multiply it out
        return coefficient * product

    def cancelled(self, expression: Any) -> Any:
        """The expression as one fraction of two polynomials multiplied out, as `sympy.cancel` writes it."""
        top, bottom = self.of(expression)
        sign = -1 if bottom.leading_coefficient() < 0 else 1
        return self.expression(sign * top) / self.expression(sign * bottom)

    def expression(self, polynomial: fmpz_mpoly) -> Any:
        """A polynomial as an expression."""
        terms = ((int(c), powers) for powers, c in polynomial.to_dict().items())
        return sp.Add(*(sp.Mul(c, *(s**k for s, k in zip(self.letters, powers, strict=True) if k)) for c, powers in terms))


Fraction = tuple[fmpz_mpoly, fmpz_mpoly]


def _sum(a: Fraction, b: Fraction) -> Fraction:
    if a[1] == b[1]:
        return _reduced(a[0] + b[0], a[1])
    common = a[1].gcd(b[1])
    left, right = a[1] / common, b[1] / common
    top, bottom = a[0] * right + b[0] * left, left * b[1]
    common = top.gcd(common)  # no other factor can have come in
    return top / common, bottom / common


def _product(a: Fraction, b: Fraction) -> Fraction:
    (p, q), (r, s) = _reduced(a[0], b[1]), _reduced(b[0], a[1])
    return p * r, q * s


def _reduced(top: fmpz_mpoly, bottom: fmpz_mpoly) -> Fraction:
    if bottom.is_one():
        return top, bottom
    common = top.gcd(bottom)
    return top / common, bottom / common


__all__ = ["Fractions", "NotRational"]
