r"""Reading LaTeX: what the reader gives for formulas whose value is known, and that it guesses nothing."""

import re

import pytest
import sympy as sp

from theory.engine.latex import NoRange, Reader, Unread, chains, letters, tokens

x, y, s2 = sp.symbols("x y s2", positive=True)
NUMBERS = [sp.Integer(2), sp.Integer(3), sp.Integer(5)]
KNOWN = letters(
    {
        "x": lambda: x,
        "y": lambda: y,
        r"\sigma_c^2": lambda: s2,
        "w_#": lambda i: NUMBERS[i - 1],
        r"N_{\mathrm p}": lambda: sp.Integer(7),
        "N": lambda: sp.Integer(11),
        "M": lambda: sp.Matrix([[1, 2], [0, 3]]),
        "B": lambda: lambda a, b: a - b,
        "h": lambda: sp.Symbol("h", positive=True, integer=True),
    }
)


def read(text, **bound):
    return Reader(KNOWN, 3, bound).value(tokens(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\frac12x", x / 2),
        (r"\frac{x+1}{y}", (x + 1) / y),
        (r"x/2y", x / (2 * y)),
        (r"x/2\cdot y", x / 2 * y),
        (r"-x^2", -(x**2)),
        (r"2^{10}", 1024),
        (r"\sigma_c^4+\sigma_c^2", s2**2 + s2),
        (r"\sigma^{2}_{c}", s2),
        (r"\Big(\sigma_{c}^{2}\Big)^{-1}", 1 / s2),
        (r"N_{\mathrm{p}}+N", 18),
        (r"\sqrt{2\ln(x/y)}", sp.sqrt(2 * sp.log(x / y))),
        (r"\log x y+1", sp.log(x * y) + 1),
        (r"\exp\left(-\frac{x^2}{2}\right)y", sp.exp(-(x**2) / 2) * y),
        (r"e^{-x}", sp.exp(-x)),
        (r"x(1-x)", x * (1 - x)),
        (r"2|x-3|", 2 * sp.Abs(x - 3)),
        (r"x\|y\|_2^2", x * y**2),
        (r"\lceil\frac72\rceil", 4),
        (r"\max(2,3)", 3),
        (r"\max_iw_i", 5),
        (r"\min_{j\neq i}w_j", 2),
        (r"\max(\{w_i\}_{i=1}^2)+1", 4),
        (r"\binom{5}{2}x", 10 * x),
        (r"\sum_iw_i", 10),
        (r"\sum_{i=1}^{2}w_ix+1", 5 * x + 1),
        (r"\prod_{k\in[3]\setminus i}w_k", 10),
        (r"\sum_{j\neq i}w_j", 7),
        (r"\sum_{i<j}w_iw_j", 31),
        (r"\sum_jj", 6),
        (r"\sum_i\prod_{k\neq i}w_k", 31),
        (r"\prod_{l=1}^{0}w_l+1", 2),
        (r"\mathsf{Tr}\left(M^{-1}\right)", sp.Rational(4, 3)),
        (r"\mathrm{Tr}M^TM", 14),
        (r"B(x,1)y", (x - 1) * y),
        (r"\begin{cases}x&\quad y\neq 0,\\2&\quad y=0\end{cases}", x),
        (r"\frac{x^3}{3!}", x**3 / 6),
        (r"\Phi(0)", sp.Rational(1, 2)),
    ],
)
def test_known_formulas_have_their_value(text, value):
    assert sp.simplify(read(text, i=2) - value) == 0


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("z+1", "z+1"),  # an unknown letter
        (r"N_q", "N_q"),  # a longer letter, which is another one
        (r"x^{(t)}", "t"),
        (r"w_m", "w_m"),  # an index that nothing binds
        (r"x\pm y", r"\pm"),
        (r"(x+1", ")"),
        (r"\|x\|_3", "norm"),
        (r"x^", "ends"),
        (r"\sum_{i}^{3}", "its end"),
    ],
)
def test_nothing_is_guessed(text, where):
    with pytest.raises(Unread, match=re.escape(where)):
        read(text)


def test_a_sum_to_a_letter_says_that_numbers_are_needed():
    with pytest.raises(NoRange):
        read(r"\sum_{i=1}^{h}w_i")


def test_a_display_falls_into_parts_and_sides():
    found = chains(r"f(x,y)=\frac{a}{b}\leq1\quad\text{where}\quad a:=b_{\text{opt}},\ \|x,y\|>0")
    assert [len(sides) for sides in found] == [3, 2, 2]
    assert found[0][0] == tokens("f(x,y)")
    assert found[1][1] == tokens(r"b_{\text{opt}}")


def test_what_looks_the_same_is_the_same():
    assert tokens(r"\bm{\mu}_{i}^{2}") == tokens(r"\mu^2_i") == tokens(r"{\mu}_i ^ {2}")
    assert tokens(r"\mathcal{N}") != tokens("N")


def test_what_follows_from_a_part_is_the_next_part():
    assert [len(sides) for sides in chains(r"y\sim x\Rightarrow y")] == [2, 1]


def test_the_largest_of_a_set_without_its_index_is_not_guessed():
    with pytest.raises(Unread):
        read(r"\max(\{x,y\})")
