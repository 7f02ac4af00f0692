"""Fractions of polynomials: what SymPy finds, by other arithmetic, and refused where there is no such fraction."""

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from theory.engine.algebra import cancelled, factored, simplest
from theory.engine.fractions import Fractions, NotRational

x, y, z = LETTERS = sp.symbols("x y z")
leaves = (
    st.sampled_from(LETTERS) | st.integers(-3, 3).map(sp.Integer) | st.fractions(-2, 2, max_denominator=5).map(sp.sympify)
)
trees = st.recursive(
    leaves,
    lambda s: st.builds(sp.Add, s, s) | st.builds(sp.Mul, s, s) | st.builds(lambda p, q: p / (2 + q**2), s, s),
    max_leaves=8,
)


@given(trees)
def test_the_same_factors_as_sympy_finds(expression):
    """The same tree too: proofs and mutants are made of it."""
    fraction = sp.cancel(sp.together(expression))
    assert cancelled(expression) == fraction
    assert simplest(expression) == factored(expression) == sp.factor(fraction)


@given(trees, trees)
def test_a_fraction_is_reduced_and_has_the_value_of_the_expression(p, q):
    fractions = Fractions(LETTERS)
    top, bottom = fractions.of(p / (1 + q**2))
    assert top.gcd(bottom).is_one()
    at = dict(zip(LETTERS, (sp.Rational(7, 3), sp.Rational(-5, 11), sp.Integer(13)), strict=True))
    value = fractions.expression(top).subs(at) / fractions.expression(bottom).subs(at)
    assert value == (p / (1 + q**2)).subs(at)


@pytest.mark.parametrize(
    "expression",
    [sp.sqrt(x), sp.exp(x), x**y, sp.pi * x, sp.Float("0.5") * x, sp.Symbol("w"), sp.oo, sp.nan,
     1 / (x * (x + 1) - x**2 - x), 1 + (x**2 - y**2 - (x - y) * (x + y)) ** -3],
    ids=str,
)  # fmt: skip
def test_what_is_no_fraction_is_refused(expression):
    with pytest.raises(NotRational):
        Fractions(LETTERS).of(expression)
