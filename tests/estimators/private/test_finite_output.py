"""Finite outputs: private by integers, unbiased exactly, and as good as a linear program allows."""

import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from estimators.private import FiniteOutput, MeanClient, RateClient, read_report
from estimators.private.mechanisms import least_noise, worst_variances
from estimators.private.noise_laws import log_likelihood, noisy_value
from estimators.private.window_designs import Design, design, two_point

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench.private_mechanisms import lower_bound

few = settings(max_examples=max(1, settings().max_examples // 5))
EPS = st.floats(-9.0, math.log10(20.0)).map(lambda power: 10.0**power)


def private(d: Design, eps: float) -> bool:
    """Whether the two weights differ by at most e^eps, by a lower bound on it: its series to 200 terms, exactly."""
    x = Fraction(eps)
    series, term = Fraction(0), Fraction(1)
    for k in range(1, 200):
        series, term = series + term, term * x / k
    return Fraction(d.inside, d.outside) <= series


def laws(d: Design) -> np.ndarray:
    """Probabilities of the outputs at each knot, from the integers, as Fractions."""
    starts = range(len(d.scores) - d.width + 1)
    return np.array(
        [[Fraction(d.inside if s <= k < s + d.width else d.outside, d.total) for k in range(len(d.scores))] for s in starts]
    )


# --- designs -----------------------------------------------------------------------------------------------------------


@few
@given(EPS)
def test_designs_are_private_odd_and_fit_into_64_bits(eps):
    for d in (design(eps), two_point(eps)):
        assert private(d, eps)
        assert not private(d._replace(inside=d.inside + d.inside // 10**9 + 1), eps)  # and nothing is given away
        assert d.total <= 1 << 62
        assert list(d.scores) == sorted(set(d.scores))
        assert d.scores == tuple(-score for score in reversed(d.scores))
        assert (np.diff(d.knots()) > 0).all()


@pytest.mark.parametrize("eps", [0.3, 1.0, 2.5, 4.0])
def test_reports_are_unbiased_and_the_worst_variance_is_exact(eps):
    """By another route: sums over all outputs in rational numbers, at knots and between them."""
    d = design(eps)
    p = laws(d)
    assert set(p.sum(axis=1)) == {1}
    unit = Fraction(d.total, (d.inside - d.outside) * d.sums()[-1])
    y = np.array([score * unit for score in d.scores])
    means, squares = p @ y, p @ y**2
    assert [means[0], means[-1]] == [-1, 1]
    assert list(means) == [Fraction(s, d.sums()[-1]) for s in d.sums()]
    parts = [Fraction(k, 64) for k in range(65)]
    variances = [
        (1 - t) * squares[i] + t * squares[i + 1] - ((1 - t) * means[i] + t * means[i + 1]) ** 2
        for i in range(len(means) - 1)
        for t in parts
    ]
    assert 0.9999 * float(d.worst_variance()) < float(max(variances)) <= float(d.worst_variance())
    assert all(v <= d.worst_variance() for v in variances)


@pytest.mark.parametrize("eps", [0.5, 1.0, 2.0, 4.0])
def test_no_mechanism_is_half_a_percent_better(eps):
    """By a bound that holds for all of them, whatever their outputs are."""
    best = lower_bound(eps)
    assert best < float(design(eps).worst_variance()) < 1.005 * best


def test_variances_beside_known_mechanisms():
    """Duchi et al. 2018; the piecewise and hybrid mechanisms of Wang et al. 2019, from their formulas."""
    for eps in (0.1, 0.61, 1.0, 3.0, 6.0, 12.0, 20.0):
        z = np.exp(eps / 2)
        bit = ((z**2 + 1) / (z**2 - 1)) ** 2
        piecewise = 4 * z / (3 * (z - 1) ** 2)
        hybrid = (z + 3) / (3 * z * (z - 1)) + (z**2 + 1) ** 2 / (z * (z**2 - 1) ** 2) if eps > 0.61 else bit
        ours = float(design(eps).worst_variance())
        assert float(two_point(eps).worst_variance()) == pytest.approx(bit, rel=1e-7)
        assert ours < min(bit, piecewise, hybrid)
        stairs = worst_variances(eps=eps, options=["staircase"])["staircase"]
        assert ours / 4 < 0.53 * stairs


def test_the_sine_is_the_limit_of_the_convex_program():
    from estimators.private.window_designs import SINE_EPS, convex_scores, sine_scores

    outputs = len(design(SINE_EPS).scores)
    convex, sine = (solve(SINE_EPS, outputs)[0] for solve in (convex_scores, sine_scores))
    assert convex < sine < 1.003 * convex


# --- releases ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("eps", "outputs"), [(0.5, None), (2.0, None), (9.0, None), (1.0, 2)])
def test_draws_follow_the_likelihood(eps, outputs):
    mechanism = FiniteOutput(bounds=(-2.0, 6.0), eps=eps, outputs=outputs)
    size = 200_000
    for seed, truth in enumerate([-2.0, 1.3, 6.0]):
        said = mechanism.release(np.full(size, truth), np.random.default_rng(seed))
        p = np.exp(mechanism.log_likelihood(mechanism.values, truth))
        assert p.sum() == pytest.approx(1, abs=1e-9)
        assert p @ mechanism.values == pytest.approx(truth, abs=1e-9)
        assert p @ mechanism.values**2 - truth**2 == pytest.approx(float(mechanism.variance(truth)), rel=1e-9)
        assert mechanism.variance(truth) <= mechanism.worst_variance * (1 + 1e-12)
        counts = np.bincount(mechanism.position(said), minlength=len(p))
        distance = np.sum((counts - size * p) ** 2 / (size * p))
        assert distance < chi2.isf(1e-6, len(p) - 1)


@few
@given(EPS, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_no_output_tells_two_truths_apart_by_more_than_eps(eps, one, other):
    mechanism = FiniteOutput(bounds=(0.0, 1.0), eps=eps)
    gap = mechanism.log_likelihood(mechanism.values, one) - mechanism.log_likelihood(mechanism.values, other)
    assert np.abs(gap).max() <= eps * (1 + 1e-6)


def test_shapes_and_entropy():
    mechanism = FiniteOutput(bounds=(0.0, 1.0), eps=1.0)
    assert mechanism.release(0.5).shape == ()
    assert mechanism.release(np.full((3, 4), 0.5)).shape == (3, 4)
    first, second = (mechanism.release(np.full(100, 0.5)) for _ in range(2))
    assert (first != second).any()
    rng = np.random.default_rng(5)
    assert (mechanism.release([0.2, 0.9], np.random.default_rng(5)) == mechanism.release([0.2, 0.9], rng)).all()


def test_large_eps_uses_that_of_twenty():
    assert (
        FiniteOutput(bounds=(0.0, 1.0), eps=1e300).worst_variance == FiniteOutput(bounds=(0.0, 1.0), eps=20.0).worst_variance
    )
    assert FiniteOutput(bounds=(0.0, 1.0), eps=1e300).worst_variance ** 0.5 < 0.001


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: FiniteOutput(bounds=(0.0, 1.0), eps=1e-300), "eps must be at least 1e-09"),
        (lambda: FiniteOutput(bounds=(1.0, 0.0), eps=1.0), "bounds must be a pair"),
        (lambda: FiniteOutput(bounds=(0.0, 1.0), eps=1.0, outputs=3), "outputs must be 2"),
        (lambda: FiniteOutput(bounds=(0.0, 1.0), eps=1.0).release([0.5, 1.5]), "truth must lie within the bounds; clip"),
        (lambda: FiniteOutput(bounds=(0.0, 1.0), eps=1.0).release([np.nan]), "truth"),
        (lambda: FiniteOutput(bounds=(0.0, 1.0), eps=1.0).position([0.51, 5000.0]), "2 of 2 are not"),
        (lambda: FiniteOutput(bounds=(0.0, 1.0), eps=1.0).release([0.5], 1), "generator"),
        (lambda: worst_variances(eps=1.0, options=["uniform"]), "options"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, mechanism="finite-output"), "mechanism"),
        (
            lambda: MeanClient(
                bounds=(0.0, 1.0), eps=1.0, adjacency="client", mechanism="finite-output", variance_share=0.5
            ),
            "variance_share must be below 1, and 0",
        ),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_errors_about_truths_do_not_quote_them():
    with pytest.raises(ValueError, match="truth") as caught:
        FiniteOutput(bounds=(0.0, 1.0), eps=1.0).release(np.array([0.25, 77.125]))
    assert "77" not in str(caught.value)


# --- clients -----------------------------------------------------------------------------------------------------------


def test_a_client_reports_one_of_the_outputs_and_spends_its_budget():
    client = MeanClient(bounds=(0.0, 10.0), eps=4.0, adjacency="client", mechanism="finite-output", name="a")
    report = client.report([1.0, 2.0, 3.0])
    mechanism = FiniteOutput(bounds=report.bounds, eps=report.guarantee.eps)
    mechanism.position(report.estimate)
    assert read_report(report.to_json()) == report
    assert report.noise_variance == mechanism.worst_variance
    assert report.guarantee.delta == 0
    with pytest.raises(ValueError, match="budget"):
        client.report([1.0])
    assert MeanClient(bounds=(0.0, 10.0), eps=np.inf, adjacency="client", mechanism="finite-output").report([2.0]).n == 1


def test_rates_have_their_exact_law():
    """The likelihood of a report is the frequency of reports that are equal to it."""
    size = 4_000
    for mechanism in ("finite-output", "staircase"):
        report = RateClient(eps=2.0, adjacency="client", mechanism=mechanism).report([1, 1, 0], np.random.default_rng(1))
        rng = np.random.default_rng(2)
        again = np.array([noisy_value(report, 1.0, rng) for _ in range(size)])  # three ones
        seen = np.mean(np.abs(again - report.value) < 1e-9)
        if mechanism == "finite-output":
            law = FiniteOutput(bounds=(0.0, 1.0), eps=2.0)
            p = np.exp(law.log_likelihood(report.value / 3, 1.0))
        else:
            p = np.exp(log_likelihood(report))[-1]
        assert abs(seen - p) < 5 * np.sqrt(p / size)
        gaps = log_likelihood(report) - log_likelihood(report)[0]
        assert np.abs(gaps).max() <= 2.0 * (1 + 1e-9)


def test_best_is_the_least_of_all():
    assert MeanClient(bounds=(0.0, 1.0), eps=1.0, adjacency="client", mechanism="best").mechanism == "finite-output"
    assert MeanClient(bounds=(0.0, 1.0), eps=1.0, delta=1e-6, mechanism="best").mechanism == "staircase"
    assert MeanClient(bounds=(0.0, 1.0), eps=0.01, delta=0.01, mechanism="best").mechanism == "discrete-gaussian"
    assert RateClient(eps=1.0, mechanism="best").mechanism in ("discrete-laplace", "staircase")
    shared = MeanClient(
        bounds=(0.0, 1.0), eps=1.0, adjacency="client", mechanism="best", variance_share=0.5, variance_bound=1.0
    )
    assert shared.mechanism == "staircase"
    assert shared.report([0.2, 0.4], np.random.default_rng(0)).variance is not None
    names = ["discrete-laplace", "staircase", "two-point", "finite-output"]
    for eps in (0.01, 0.25, 1.0, 4.0, 6.0, 8.0, 20.0):
        assert least_noise(eps=eps, options=names) == "finite-output"


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.0, 10.0), (1000.0, 1001.0), (-3e-5, 7e-5)])
def test_outputs_are_told_to_a_billionth_of_their_width(bounds):
    law = FiniteOutput(bounds=bounds, eps=4.0)
    values, width = law.values, law.values[-1] - law.values[0]
    assert law.position(values).tolist() == list(range(len(values)))
    near = 0.99e-9 * width - 4 * np.spacing(np.abs(values).max())
    for off in (-near, near):
        assert law.position(values + off).tolist() == list(range(len(values)))
        for value in values + 1.03 * off / 0.99:
            with pytest.raises(ValueError, match="1 of 1 are not"):
                law.position(value)


@pytest.mark.parametrize("outputs", [None, 2])
def test_knots_rise_from_one_bound_to_the_other(outputs):
    for bounds in ((-0.1, 0.3), (1.1, 7.7)):
        for eps in (1e-9, 0.3, 4.0):
            law = FiniteOutput(bounds=bounds, eps=eps, outputs=outputs)
            assert (law.knots[0], law.knots[-1]) == bounds
            assert (np.diff(law.knots) > 0).all()
            steps = np.diff(law.knots)
            np.testing.assert_allclose(steps, steps[::-1], rtol=1e-9)
    with pytest.raises(ValueError, match="eps must be at least 1e-09"):
        FiniteOutput(bounds=(0.0, 1.0), eps=0.99e-9, outputs=outputs)
