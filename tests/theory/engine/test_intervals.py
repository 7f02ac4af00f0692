"""Ball arithmetic: enclosures hold the value, a certificate is never wrong, and "unknown" stays unknown."""

import mpmath
import pytest
import sympy as sp
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from theory.engine.intervals import NotEnclosed, enclose, nonnegative

x, y = sp.symbols("x y", positive=True)
EXPRESSIONS = [
    sp.exp(-x) * sp.log(1 + y),
    sp.sqrt(x) / (1 + y**2),
    sp.erfc(x - y),
    x**y,
    sp.Max(x, y) - sp.Min(x, 2 * y),
    sp.tanh(x) + sp.Abs(y - 2) * sp.pi,
    sp.gamma(1 + x) / sp.E,
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
@given(a=st.floats(min_value=0.05, max_value=4), b=st.floats(min_value=0.05, max_value=4))
def test_an_enclosure_holds_the_value(expression, a, b):
    width = arb(0, 0.01)
    ball = enclose(expression, {x: arb(a) + width, y: arb(b) + width})
    with mpmath.workdps(40):
        value = sp.lambdify((x, y), expression, "mpmath")(mpmath.mpf(a), mpmath.mpf(b))
    assert ball.overlaps(arb(str(value)))
    assert float(ball.rad()) < 10


def test_certificates_and_refutations():
    box = {x: (sp.Rational(1, 10), 3), y: (1, 2)}
    assert nonnegative(sp.exp(x) - 1 - x, box) is True
    assert nonnegative(x - sp.log(1 + x) - sp.Rational(1, 250), box) is True
    assert nonnegative(x - sp.log(1 + x) - sp.Rational(1, 100), box) is False  # fails at the left end only
    assert nonnegative(sp.exp(x) - sp.exp(x + y - y), box) is True  # zero is not negative


def test_the_ends_of_a_box_belong_to_it():
    assert nonnegative(3 - x, {x: (1, 3)}) is True
    assert nonnegative(3 - x - sp.Rational(1, 10**9), {x: (1, 3)}, pieces=5000) is not True


def test_what_cannot_be_decided_is_unknown():
    assert nonnegative(sp.sin(x) + 2, {x: (1, 2)}) is None  # no enclosure for this function
    assert nonnegative(x - y, {x: (2, 3)}) is None  # a letter without bounds
    assert nonnegative((sp.exp(x) - sp.exp(y)) ** 2, {x: (1, 2), y: (1, 2)}, pieces=50) is None  # touches zero
    with pytest.raises(NotEnclosed):
        enclose(sp.sin(x), {x: arb(1)})


def test_rounding_does_not_decide():
    """A gap far below the width of a float is still seen, with its right sign."""
    tiny = sp.Rational(1, 10**25)
    assert nonnegative(sp.log(x) - sp.log(2) + tiny, {x: (2, 3)}) is True
    assert nonnegative(sp.log(x) - sp.log(2) - tiny, {x: (2, 3)}, pieces=2000) is not True
