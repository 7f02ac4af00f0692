"""Stochastic quantiser, ranges of sample means, noise for bounded messages: laws, outside oracles, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from estimators.accounting import privacy
from estimators.closed_forms import quantization

REALS = st.floats(-5, 5)
BITS = st.integers(1, 20)


@given(x=REALS, bits=BITS, seed=st.integers(0, 2**32 - 1))
def test_output_is_a_neighbouring_level(x, bits, seed):
    level = quantization.quantise(x, 2.0, bits, np.random.default_rng(seed))
    step = 4.0 / (2**bits - 1)
    assert abs((level + 2) / step - round((level + 2) / step)) < 1e-6
    assert abs(level - np.clip(x, -2, 2)) <= step * (1 + 1e-9)


@given(x=st.floats(-1, 1), bits=st.integers(1, 12))
def test_variance_is_that_of_the_two_levels_and_below_its_bound(x, bits):
    steps = 2**bits - 1
    position = (x + 1) / 2 * steps
    ahead = position - np.floor(position)
    two_point = (2 / steps) ** 2 * ahead * (1 - ahead)
    assert quantization.quantiser_variance(x, 1.0, bits) == pytest.approx(two_point, abs=1e-12)
    assert quantization.quantiser_variance(x, 1.0, bits) <= quantization.quantiser_variance_bound(1.0, bits) * (1 + 1e-12)


@pytest.mark.parametrize("bits", [1, 2, 5, 12, 48])
def test_the_largest_variance_is_that_midway_between_levels(bits):
    midway = 3.0 / (2**bits - 1)
    for x in (0.0, 2 * midway * (bits > 1)):
        found = quantization.quantiser_variance(x, 3.0, bits)
        assert found == pytest.approx(midway**2, rel=1e-3 if bits == 48 else 1e-9)
    assert quantization.quantiser_variance_bound(3.0, bits) == pytest.approx(midway**2, rel=1e-14)


@pytest.mark.parametrize(("eps", "delta", "s"), [(0.3, 1e-3, 1.7), (1.0, 0.4, 0.01), (0.77, 1e-12, 600.0), (0.01, 0.9, 1.0)])
def test_noise_variance_by_its_formula(eps, delta, s):
    found = quantization.gaussian_noise_variance(eps=eps, delta=delta, sensitivity=s)
    assert found == pytest.approx(2 * s * s * np.log(2 / delta) / (eps * eps), rel=1e-14)


def test_levels_are_fixed_points():
    levels = np.linspace(-3, 3, 8)
    for seed in range(5):
        drawn = quantization.quantise(levels, 3.0, 3, np.random.default_rng(seed))
        np.testing.assert_allclose(drawn, levels, atol=1e-12)
    np.testing.assert_allclose(quantization.quantiser_variance(levels, 3.0, 3), 0.0, atol=1e-12)


def test_mean_of_many_outputs_is_the_input():
    x = np.array([-0.9, -0.2, 0.0, 0.77])
    drawn = quantization.quantise(np.tile(x, (200_000, 1)), 1.0, 2, np.random.default_rng(7))
    error = np.sqrt(quantization.quantiser_variance(x, 1.0, 2) / 200_000)
    assert (abs(drawn.mean(axis=0) - x) < 5 * error + 1e-12).all()


def test_same_seed_same_output():
    first, second = (quantization.quantise(np.linspace(-1, 1, 9), 1.0, 4, np.random.default_rng(3)) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize(
    ("m", "n", "t", "s", "r"), [(2, 1, 0.0, 1.0, 0.0), (50, 10, 0.3, 2.0, 1.0), (10_000, 15, 0.01, 0.25, 0.0)]
)
def test_message_range_holds_all_means_with_the_stated_probability(m, n, t, s, r):
    margin = quantization.message_range(m, n, t, s, r) - r
    assert quantization.probability_all_inside(margin, r, t + s / n, m) >= 1 - 1 / (m * n)


def test_printed_range_fails_where_the_claim_says():
    margin = np.sqrt(1 / 10) * np.sqrt(np.log(10**2 * 10))
    assert quantization.probability_all_inside(margin, 10.0, 1 / 10, 10) < 1 - 2 / 100


@given(margin=st.floats(0, 6), mu=st.floats(-3, 3), m=st.integers(1, 1000))
def test_probability_all_inside_against_scipy(margin, mu, m):
    half = abs(mu) + margin
    inside = stats.norm.cdf(half, mu, 1.5) - stats.norm.cdf(-half, mu, 1.5)
    assert quantization.probability_all_inside(margin, mu, 2.25, m) == pytest.approx(inside**m, abs=1e-12)


def test_probability_without_spread():
    assert quantization.probability_all_inside(0.0, 1.0, 0.0, 5) == 1.0


@pytest.mark.parametrize("d", [1, 2, 7, 100])
def test_norm_radius_against_the_chi_law(d):
    m, n, sigma2_x = 20, 5, 2.0
    radius = quantization.norm_radius(m, n, d, sigma2_x, 0.0)
    assert stats.chi(d).sf(radius / np.sqrt(sigma2_x / n)) <= 1 / (m**2 * n)
    assert quantization.norm_radius(m, n, d, sigma2_x, 3.0) == pytest.approx(radius + 3)


@given(eps=st.floats(0.01, 1), delta=st.floats(1e-10, 0.5), d=st.integers(1, 50))
def test_noise_is_private_in_every_dimension(eps, delta, d):
    sensitivity = quantization.box_sensitivity(1.5, d)
    sigma = np.sqrt(quantization.gaussian_noise_variance(eps=eps, delta=delta, sensitivity=sensitivity))
    assert privacy.gaussian_delta(eps=eps, sensitivity=sensitivity, sigma=sigma) <= delta


def test_noise_for_one_coordinate_fails_for_four():
    sigma = np.sqrt(quantization.gaussian_noise_variance(eps=1.0, delta=1e-5, sensitivity=2.0))
    assert privacy.gaussian_delta(eps=1.0, sensitivity=quantization.box_sensitivity(1.0, 4), sigma=sigma) > 1e-5


@given(half=st.floats(0.5, 3), mu=st.floats(-3, 3))
def test_projection_bias_against_scipy(half, mu):
    law = stats.norm(mu, 1.3)
    value = law.expect(lambda x: np.clip(x, -half, half), lb=-half, ub=half) + half * (law.sf(half) - law.cdf(-half)) - mu
    assert quantization.projection_bias(half, mu, 1.69) == pytest.approx(value, abs=1e-7)
    assert quantization.projection_bias(half, -mu, 1.69) == pytest.approx(-value, abs=1e-7)


def test_box_sensitivity_is_the_distance_of_opposite_corners():
    assert quantization.box_sensitivity(0.5, 9) == pytest.approx(np.linalg.norm(np.full(9, 1.0)))


GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: quantization.quantise([np.nan], 1.0, 2, GENERATOR), "x"),
        (lambda: quantization.quantise([0.0], 0.0, 2, GENERATOR), "half_range"),
        (lambda: quantization.quantise([0.0], 1.0, 0, GENERATOR), "bits"),
        (lambda: quantization.quantise([0.0], 1.0, 60, GENERATOR), "bits"),
        (lambda: quantization.quantise([0.0], 1.0, 2, 3), "generator"),
        (lambda: quantization.quantiser_variance_bound(-1.0, 2), "half_range"),
        (lambda: quantization.message_range(0, 1, 1.0, 1.0, 1.0), "m"),
        (lambda: quantization.message_range(2, 1, -1.0, 1.0, 1.0), "sigma2_theta"),
        (lambda: quantization.norm_radius(2, 1, 0, 1.0, 1.0), "d"),
        (lambda: quantization.probability_all_inside(-1.0, 0.0, 1.0, 2), "margin"),
        (lambda: quantization.projection_bias(0.0, 0.0, 1.0), "half_range"),
        (lambda: quantization.projection_bias(1.0, 0.0, 0.0), "variance"),
        (lambda: quantization.box_sensitivity(1.0, 0), "d"),
        (lambda: quantization.gaussian_noise_variance(eps=0.0, delta=1e-5, sensitivity=1.0), "eps"),
        (lambda: quantization.gaussian_noise_variance(eps=2.0, delta=1e-5, sensitivity=1.0), "eps"),
        (lambda: quantization.gaussian_noise_variance(eps=0.5, delta=1.0, sensitivity=1.0), "delta"),
        (lambda: quantization.gaussian_noise_variance(eps=0.5, delta=0.0, sensitivity=1.0), "delta"),
    ],
)
def test_bad_input_names_the_argument(call, name):
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        call()
