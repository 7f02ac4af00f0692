"""Values at a point: the same numbers as substituting in SymPy gives, exactly where they are rational."""

import pytest
import sympy as sp

from theory.engine.values import TooLong, Values

X, Y = sp.symbols("x y", positive=True)
N = sp.Symbol("n", integer=True, positive=True)
POINT = {X: sp.Rational(3, 7), Y: sp.Rational(-5, 2), N: sp.Integer(4)}
EXPRESSIONS = [
    X + Y - 1,
    X * Y / (X - Y) ** 3 + 1 / N,
    (X + N) ** N / (Y**2 + 1) ** (-N),
    X**-Y,
    sp.exp(X / N) * sp.sqrt(1 + X) - sp.pi,
    sp.erfc(X) * sp.log(N * X) / sp.E,
    sp.sqrt(N) * X,
    sp.exp(X * N - sp.Rational(12, 7)),
    sp.Max(X, Y, 1) + sp.Min(X, sp.sqrt(N + 1)),
    sp.Piecewise((X, X < Y), (sp.exp(Y), True)),
    sp.gamma(N) + sp.binomial(N, 2) * X,
    sp.Abs(Y) ** sp.Rational(1, 3) + sp.Float("0.125", 50) * X,
    sp.log(Y),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_values_are_those_that_substitution_gives(expression):
    expected, at = expression.xreplace(POINT), Values(POINT)
    assert at.exact(expression) == expected
    value, other = at.digits(expression), sp.N(expected, 50)
    assert abs(sp.N(value, 60) - other) <= abs(other) * sp.Float("1e-48", 50)
    assert (value == expected) if expected.is_Rational else not value.is_Rational


@pytest.mark.parametrize(
    ("expression", "expected"),
    [(1 / (X - 1), sp.zoo), ((X - 1) / (X - 1 + Y - Y * X), sp.nan), (1 / (1 + 1 / (X - 1)), 0), (sp.exp(1 - X), 1)],
)
def test_poles_are_what_sympy_makes_of_them(expression, expected):
    at = Values({X: sp.Integer(1), Y: sp.Integer(3)})
    assert at.exact(expression) == at.digits(expression) == expected


def test_an_infinite_coordinate_is_a_limit():
    at = Values({X: sp.oo, Y: sp.Integer(3)})
    assert at.exact(X / (2 * X + Y)) == at.digits(X / (2 * X + Y)) == sp.Rational(1, 2)
    assert at.digits(Y + 1) == 4


def test_cancelling_digits_are_found_with_more_precision():
    """1 - (1 - tiny) keeps no digit of 256 bits."""
    tiny = sp.exp(-200)
    value = Values({X: sp.Integer(1)}).digits((X + tiny) - sp.sqrt(X + tiny**2))
    assert abs(value / sp.N(tiny, 50, maxn=2000) - 1) < sp.Float("1e-48", 50)


def test_a_zero_that_no_enclosure_shows_is_left_to_sympy():
    value = Values({X: sp.Integer(2)}).digits(sp.sqrt(X) * sp.sqrt(3) - sp.sqrt(6 + 0 * X))
    assert value == 0
    assert not Values({X: sp.Integer(2)}).digits(sp.log(X + 2) - 2 * sp.log(X) + sp.log(1 + sp.exp(-300))).is_Rational


def test_a_part_of_several_expressions_is_evaluated_once(monkeypatch):
    calls = []
    before = Values._ball_from_parts
    monkeypatch.setattr(Values, "_ball_from_parts", lambda self, e, balls: calls.append(e) or before(self, e, balls))
    at, shared = Values(POINT), sp.exp(X) + Y**2
    at.digits(shared * X)
    at.digits(shared * N)
    assert calls.count(shared) == calls.count(sp.exp(X)) == 1


def test_long_powers_are_enclosed_and_never_written_out():
    n = sp.Symbol("n", positive=True)
    at = Values({n: sp.Integer(10) ** 9})
    e = (1 - 1 / n) ** n
    assert abs(at.digits(e) - sp.exp(-1).n(50) * (1 - sp.Rational(1, 2) / 10**9)) < sp.Float("1e-18")
    with pytest.raises(TooLong, match="bits"):
        at.exact(e)
    assert at.digits((-1) ** n) == 1
    assert abs(at.digits((1 - 1 / n) ** (n + sp.Rational(1, 2))) - at.digits(e)) < sp.Float("1e-9")
    assert Values({n: sp.Integer(1000)}).exact(e) == sp.Rational(999, 1000) ** 1000


class Doubled(sp.Function):
    """A function with a definition, as a paper's E[h]."""

    nargs = 1
    formula = staticmethod(lambda x: 2 * x**x)


def test_pieces_and_functions_with_a_formula_are_enclosed(monkeypatch):
    """SymPy works the exact power of two floats out for seconds."""
    monkeypatch.setattr(Values, "exact", lambda self, e: pytest.fail(f"{e} was worked out exactly"))
    x, y = sp.symbols("x y")
    at = Values({x: sp.Rational(0.3), y: sp.Integer(0)})
    third = sp.Rational(0.3)
    expected = sp.N(sp.exp(third * sp.log(third)), 50)
    assert abs(at.digits(Doubled(x)) - 2 * expected) < 1e-45
    pieces = sp.Piecewise((x + sp.exp(x), sp.Eq(y, 1)), (x**x, y < 1), (sp.zoo, True))
    assert abs(at.digits(pieces) - expected) < 1e-45


def test_a_condition_that_is_open_is_no_piece():
    x, z = sp.symbols("x z")
    pieces = sp.Piecewise((x, z > 0), (2 * x, True))
    assert Values({x: sp.Integer(3)}).digits(pieces).has(sp.Piecewise)
