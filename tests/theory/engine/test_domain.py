"""Variables and points: what is accepted, what follows from what, and that an error names its variable."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from theory import claims, find
from theory.engine.domain import (
    Case,
    DomainError,
    Variable,
    as_float,
    as_text,
    case_of,
    cases,
    complete,
    exact,
    sample_point,
    substitution,
    symbols_of,
)

REAL = Variable("shift", "real", "a shift")
NONNEGATIVE = Variable("tau2", "nonnegative", "a variance")
POSITIVE = Variable("alpha2", "positive", "a variance")
SIZE = Variable("N", "size", "clients", low=2)
OPEN = Variable("rho", "fraction", "a share")
CLOSED = Variable("q", "fraction", "a rate", closed=True)
CHOICE = Variable("level", "choice", "a level", choices=(1, 2))
LIST = Variable("sizes", "size", "clients per level", lengths=(2, 3))

BAD = [
    (REAL, [math.nan, "nan", math.inf, "x", None, "", "1/0", True, [1.0], 1j, "1,5"]),
    (NONNEGATIVE, [-1, -1e-300, "-1/3", math.nan, -math.inf, "-inf", False, [1], {}]),
    (POSITIVE, [0, -1, "0.0", math.nan]),
    (SIZE, [1, 0, -3, 2.5, "5/2", math.inf, math.nan, "two", True]),
    (OPEN, [0, 1, -0.1, 1.1, math.inf, math.nan]),
    (CLOSED, [-1e-9, "10/9", math.inf, math.nan]),
    (CHOICE, [0, 3, "first", None, math.nan, [1]]),
    (LIST, [5, "123", None, [], (), np.array([]), [1, 0], [1, math.nan], [[1, 2]], [2, -1], np.array([1.5, 2])]),
]


@pytest.mark.parametrize(
    ("variable", "value"),
    [(v, value) for v, values in BAD for value in values],
    ids=lambda p: getattr(p, "name", str(p)),
)
def test_a_bad_value_names_its_variable(variable, value):
    with pytest.raises(DomainError, match=rf"^{variable.name}\b"):
        variable.check(value)


def test_a_bad_entry_of_a_list_is_named_by_its_place():
    with pytest.raises(DomainError, match=r"^sizes\[1\]: must be an integer >= 1"):
        LIST.check([3, 0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, sp.Rational(1, 10)),
        ("0.1", sp.Rational(1, 10)),
        (np.float64(0.1), sp.Rational(1, 10)),
        ("1/3", sp.Rational(1, 3)),
        (Fraction(2, 6), sp.Rational(1, 3)),
        (sp.Rational(1, 3), sp.Rational(1, 3)),
        ("1e-3", sp.Rational(1, 1000)),
        (1e-300, sp.Rational(1, 10**300)),
        (np.int64(7), sp.Integer(7)),
        (" 2 ", sp.Integer(2)),
        ("inf", sp.oo),
        ("Infinity", sp.oo),
        (math.inf, sp.oo),
        (np.inf, sp.oo),
        (sp.oo, sp.oo),
    ],
    ids=repr,
)
def test_numbers_are_read_exactly(value, expected):
    assert exact(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_survives_the_round_trip(value):
    assert float(exact(value)) == value


@given(st.fractions())
def test_a_fraction_survives_the_round_trip(value):
    assert exact(as_text(exact(value))) == sp.Rational(value.numerator, value.denominator)


@pytest.mark.parametrize("value", [math.nan, "nan", "NaN", np.nan])
def test_nan_is_called_by_its_name(value):
    with pytest.raises(DomainError, match="tau2: NaN is not a number"):
        exact(value, "tau2")


def test_infinity_is_a_variance_but_not_a_size():
    assert NONNEGATIVE.check(math.inf) is sp.oo
    assert POSITIVE.check("inf") is sp.oo
    for variable in (REAL, SIZE, OPEN, CLOSED):
        with pytest.raises(DomainError, match=f"^{variable.name}: must be finite"):
            variable.check("inf")


# --- relations between letters -----------------------------------------------------------------------------------

THM8 = find("fedhdp:thm8:p").variables
RSTAR = find("fedhdp:lemma6:rstar").variables
TWO = find("fedhdp:lemma2:cov").variables


@pytest.mark.parametrize(
    ("given_", "variables", "name", "expected"),
    [
        ({"alpha2": 1, "tau2": 2, "N_np": 2, "N_p": 3, "gamma2": 1}, RSTAR, "sigma2_c", 3),
        ({"sigma2_c": 1, "N": 10, "N_p": 3, "gamma2": 1}, RSTAR, "N_np", 7),
        ({"sigma2_c": 1, "N": 10, "rho_np": "3/10", "gamma2": 1}, RSTAR, "N_p", 7),
        ({"alpha2": 4, "Upsilon2": "1/2", "N_np": 2, "N_p": 3, "gamma2": 1}, THM8, "tau2", 2),
        ({"alpha2": 4, "sigma2_c": 4, "N_np": 2, "N_p": 3, "gamma2": 1}, THM8, "tau2", 0),
        ({"alpha2": 6, "tau2": 1, "Gamma2": 2, "N_np": 2, "N_p": 3}, THM8, "gamma2", 4),
        ({"Upsilon2": 5, "Gamma2": 2, "N_np": 2, "N_p": 2}, THM8, "alpha2", 1),
        ({"N": 8, "rho1": "1/4", "sigma2_c": 1, "gamma2_1": 0, "gamma2_2": 1}, TWO, "N2", 6),
        ({"N": 8, "N2": 3, "sigma2_c": 1, "gamma2_1": 0, "gamma2_2": 1}, TWO, "N1", 5),
        ({"K": 3, "sigma2": 6, "n": 2, "sigma2_dp": 4, "tau2": 1}, find("mrmtl:cor6.4").variables, "sigma2_loc", 4),
    ],
)
def test_letters_follow_from_others(given_, variables, name, expected):
    point = complete(given_, variables)
    assert point[name] == expected
    assert list(point) == [v.name for v in variables]


def test_a_default_is_filled_in():
    assert complete({"alpha2": 1, "tau2": 1, "N_np": 2, "N_p": 3, "gamma2": 1}, THM8)["own_noise"] == 0


GOOD = {"alpha2": 1, "tau2": 2, "N_np": 2, "N_p": 3, "gamma2": 1}


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"sigma2_c": 4}, "sigma2_c"),
        ({"N": 6}, "N"),
        ({"rho_np": "1/2"}, "N_np|rho_np"),
        ({"Upsilon2": 3}, "tau2|Upsilon2"),
        ({"Gamma2": 1}, "gamma2"),
        ({"tau2": 0, "sigma2_c": 5}, "tau2|sigma2_c"),
        ({"tau2": 0, "Upsilon2": 5}, "tau2|Upsilon2"),
        ({"Upsilon2": 0}, "tau2|Upsilon2"),
        ({"Gamma2": 0}, "gamma2|Gamma2"),
    ],
    ids=str,
)
def test_letters_that_contradict_each_other_are_refused(extra, named):
    with pytest.raises(DomainError, match=rf"^({named}): .*contradicts"):
        complete({**GOOD, **extra}, THM8)


@pytest.mark.parametrize("extra", [{}, {"sigma2_c": math.inf}], ids=str)
def test_an_infinite_variance_contradicts_nothing(extra):
    """inf - inf decides nothing: tau2 = 2 agrees with an infinite sigma2_c."""
    point = complete({**GOOD, "alpha2": math.inf, **extra}, RSTAR)
    assert point["sigma2_c"] is sp.oo


def test_a_local_variance_without_privacy_noise_is_still_checked():
    point = {"K": 3, "sigma2_loc": 1, "sigma2": 4, "n": 2, "sigma2_dp": 0, "tau2": 1}  # 4/2 + 0 is not 1
    with pytest.raises(DomainError, match=r"^sigma2_loc: .*contradicts"):
        complete(point, find("mrmtl:cor6.4").variables)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"alpha2": -1, "tau2": 3}, "alpha2"),
        ({"alpha2": 5, "sigma2_c": 3, "tau2": None}, "tau2"),
        ({"Gamma2_1": -4}, "Gamma2_1"),
        ({"alpha2": math.nan}, "alpha2"),
        ({"alpha2": [1, 2]}, "alpha2"),
    ],
    ids=str,
)
def test_letters_that_only_lead_to_others_must_make_sense_too(changes, named):
    """lemma6:rstar depends on sigma2_c only; a negative alpha2 is nonsense all the same."""
    point = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    with pytest.raises(DomainError, match=rf"\b{named}\b"):
        complete(point, RSTAR)


@pytest.mark.parametrize("gap", list(GOOD))
def test_a_missing_letter_is_named(gap):
    with pytest.raises(DomainError, match=rf"missing value for .*\b{gap} \("):
        complete({k: v for k, v in GOOD.items() if k != gap}, THM8)


def test_an_unknown_letter_is_named_with_those_there_are():
    with pytest.raises(DomainError, match=r"^lambda: not a variable of this claim; its variables are N_np, N_p, "):
        complete({**GOOD, "lambda": 1}, THM8)


def test_a_derived_letter_outside_its_domain_is_named():
    with pytest.raises(DomainError, match=r"^N_np: must be an integer"):
        complete({"sigma2_c": 1, "N": 10, "rho_np": "1/3", "gamma2": 1}, RSTAR)


LEVELS = find("fedhdp:eq68").variables


def test_lists_of_one_claim_have_one_length():
    with pytest.raises(DomainError, match=r"sizes \(2\), gamma2s \(3\)"):
        complete({"sizes": [1, 2], "gamma2s": [0, 1, 2], "alpha2": 1, "tau2": 1, "level": 1}, LEVELS)


def test_a_level_points_into_the_lists():
    with pytest.raises(DomainError, match="level: 3 is beyond the 2 levels"):
        complete({"sizes": [1, 2], "gamma2s": [0, 1], "alpha2": 1, "tau2": 1, "level": 3}, LEVELS)


def test_a_silo_points_into_the_lists():
    with pytest.raises(DomainError, match="k: silo 2 does not exist; silos are 0 to 1"):
        complete({"sigma2_loc_k": [1, 2], "tau2": 1, "k": 2}, find("mrmtl:lemE.4:var").variables)


def test_lists_may_be_arrays_and_longer_than_verified():
    point = complete(
        {"sizes": np.array([1, 2, 3, 4]), "gamma2s": (0, 0.1, 1, 2), "alpha2": 1, "tau2": 1, "level": 2}, LEVELS
    )
    assert point["sizes"] == [1, 2, 3, 4]
    assert point["gamma2s"][1] == sp.Rational(1, 10)


# --- cases, sampling, conversions --------------------------------------------------------------------------------


def test_cases_are_all_combinations_that_exist():
    labels = [c.label() for c in cases(LEVELS)]
    assert len(labels) == len(set(labels)) == 5  # two levels of two, three of three
    assert not [c for c in cases(LEVELS) if c.choices["level"] > c.length]


@given(st.sampled_from(claims()), st.integers(0, 2**32), st.booleans())
def test_sampled_points_lie_in_the_domain(claim, seed, extreme):
    """A sampled point is complete, valid, and its own completion; the symbols of its case cover it."""
    rng = np.random.default_rng(seed)
    case = claim.cases()[seed % len(claim.cases())]
    point = sample_point(claim.variables, case, rng, extreme)
    for v in claim.variables:
        assert v.check(point[v.name]) == point[v.name], (claim.id, v.name)
    assert claim.point(point) == point
    assert case_of(claim.variables, point) == case
    rules = substitution(claim.variables, case, point)
    symbols = [s for value in symbols_of(claim.variables, case).values() for s in np.atleast_1d(np.array(value, object))]
    assert set(rules) == {s for s in symbols if isinstance(s, sp.Symbol)}


@pytest.mark.parametrize("claim", claims(), ids=lambda c: c.id)
def test_examples_and_counterexamples_are_points_of_their_claim(claim):
    for point in (*claim.examples, *([claim.counterexample] if claim.counterexample else [])):
        assert claim.point(claim.point(point)) == claim.point(point)


@pytest.mark.parametrize("value", [sp.sqrt(2), sp.Rational(5, 2), sp.Integer(1), sp.pi])
def test_a_size_is_a_whole_number_from_its_least_on(value):
    with pytest.raises(DomainError, match="K: must be an integer >= 2"):
        Variable("K", "size", "number of silos", low=2).check(value)


def test_as_float_and_as_text():
    assert as_float([sp.Rational(1, 2), sp.Integer(3), sp.oo]) == [0.5, 3, math.inf]
    assert isinstance(as_float(sp.Integer(3)), int)
    assert as_text((sp.Rational(1, 3), sp.oo, "fixed", None)) == ["1/3", "oo", "fixed", None]
    assert Case({"level": 2}, 3).label() == "level=2, entries=3"


# --- domains that cannot be sampled ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"kind": "positive", "within": (2, 1)}, "nothing can be sampled"),
        ({"kind": "nonnegative", "within": (-1, 1)}, "nothing can be sampled"),
        ({"kind": "size", "within": (1, "5/2")}, "nothing can be sampled"),
        ({"kind": "real", "within": (0, "inf")}, "nothing can be sampled"),
        ({"kind": "positive", "within": (0, 1)}, "nothing can be sampled"),  # the ends belong to a range
        ({"kind": "fraction", "within": ("1/2", 1)}, "nothing can be sampled"),
        ({"kind": "fraction", "closed": True, "within": ("1/2", 2)}, "nothing can be sampled"),
        ({"kind": "positive", "why": "certified"}, "no reason for bounds"),  # there are none
        ({"kind": "positive", "within": (1, 2), "why": "it is slow"}, "no reason for bounds"),
        ({"kind": "choice"}, "at least one"),
        ({"kind": "real", "choices": (1, 2)}, "at least one"),
        ({"kind": "wibble"}, "is not one of"),
    ],
)
def test_a_domain_that_cannot_be_sampled_is_refused(arguments, problem):
    with pytest.raises(DomainError, match=rf"x: .*{problem}"):
        Variable("x", meaning="a number", **arguments)


@given(st.integers(0, 2**32))
def test_samples_within_bounds_stay_there(seed):
    rng = np.random.default_rng(seed)
    for v in (
        Variable("a", "positive", "", within=("1e-6", "1/3")),
        Variable("b", "real", "", within=(-2, 5)),
        Variable("c", "size", "", within=(3, 9)),
        Variable("d", "fraction", "", within=("1/10", "9/10")),
    ):
        for draw in (v.sample, v.sample_extreme):
            assert v.check(draw(rng)) is not None


def test_a_privacy_parameter_may_be_given_for_its_exponential():
    from theory import evaluate

    value = evaluate("generative:qpriv:variance", x="1/2", eps0=1)["derived"]
    assert value == pytest.approx(math.e / (math.e - 1) ** 2 + 1 / 4, rel=1e-14)
    assert evaluate("generative:qpriv:variance", x="1/2", E0="2")["derived"] == 1.0
    with pytest.raises(DomainError, match="E0: 2 contradicts eps0=1"):
        evaluate("generative:qpriv:variance", x="1/2", E0=2, eps0=1)
