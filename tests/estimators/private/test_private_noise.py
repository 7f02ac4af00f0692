"""Noise on whole numbers: exact laws by enumeration, exact guarantees, and checks that catch a broken calibration."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators.accounting.privacy import gaussian_delta
from estimators.private import exact_noise, noise

few = settings(max_examples=max(1, settings().max_examples // 4))


def gaussian_pmf(sigma2, reach):
    y = np.arange(-reach, reach + 1)
    weights = np.exp(-(y**2) / (2 * sigma2))
    return weights / weights.sum()


def laplace_pmf(scale, reach):
    y = np.arange(-reach, reach + 1)
    return np.exp(-np.abs(y) / scale) * np.tanh(1 / (2 * scale))


def hockey_stick(p, q, eps):
    """Smallest delta for which p <= e^eps q + delta on every event, by summing over all outcomes."""
    return float(np.sum(np.maximum(p - np.exp(eps) * q, 0.0)))


def shifted(pmf, shift):
    """The law of the noise after a change of the number, on a line long enough for both."""
    return np.concatenate([np.zeros(shift), pmf]), np.concatenate([pmf, np.zeros(shift)])


@pytest.mark.parametrize("sigma2", [1, 7, 400])
def test_discrete_gaussian_draws_follow_their_law(sigma2):
    """4,000 draws; every frequency and the variance within 5 standard errors."""
    rng, size = np.random.default_rng(sigma2), 4_000
    draws = np.array([exact_noise.discrete_gaussian(sigma2, rng) for _ in range(size)])
    variance = exact_noise.discrete_gaussian_variance(sigma2)
    assert abs(draws.mean()) < 5 * np.sqrt(variance / size)
    assert abs(draws.var() / variance - 1) < 5 * np.sqrt(2 / size)
    reach = int(3 * np.sqrt(sigma2)) + 1
    pmf = gaussian_pmf(sigma2, 12 * reach)
    for y in range(-reach, reach + 1):
        p = pmf[12 * reach + y]
        assert abs(np.mean(draws == y) - p) < 5 * np.sqrt(p * (1 - p) / size)


@pytest.mark.parametrize("scale", [1, 5, (7, 3)])
def test_discrete_laplace_draws_follow_their_law(scale):
    rng, size = np.random.default_rng(3), 4_000
    draws = np.array([exact_noise.discrete_laplace(scale, rng) for _ in range(size)])
    b = scale if isinstance(scale, int) else scale[0] / scale[1]
    pmf = laplace_pmf(b, 10)
    for y in range(-10, 11):
        p = pmf[10 + y]
        assert abs(np.mean(draws == y) - p) < 5 * np.sqrt(p * (1 - p) / size)
    assert abs(draws.var() / exact_noise.discrete_laplace_variance(b) - 1) < 5 * np.sqrt(5 / size)


def test_draws_that_leave_nothing_to_chance():
    rng = np.random.default_rng(0)
    assert exact_noise.discrete_gaussian(0, rng) == 0
    for bit in (0, 1):
        assert exact_noise.randomised_response(bit, (0, 1), rng) == bit
        assert exact_noise.randomised_response(bit, (1, 1), rng) == 1 - bit


def test_bernoulli_exponentials():
    rng, size = np.random.default_rng(4), 4_000
    for numerator, denominator in ((0, 1), (1, 3), (1, 1), (5, 2)):
        p = exp(-numerator / denominator)
        hits = np.mean([exact_noise.bernoulli_exp(numerator, denominator, rng) for _ in range(size)])
        assert abs(hits - p) <= 5 * np.sqrt(p * (1 - p) / size)


def test_uniform_integers_of_any_size():
    rng = np.random.default_rng(5)
    draws = np.array([exact_noise.below(10, rng) for _ in range(20_000)])
    assert set(draws) == set(range(10))
    assert np.abs(np.bincount(draws) - 2000).max() < 5 * np.sqrt(2000)
    huge = [exact_noise.below(1 << 200, rng) for _ in range(200)]
    assert max(huge) > 1 << 197
    assert max(huge) < 1 << 200
    assert exact_noise.below(1, rng) == 0
    assert 0 <= exact_noise.below(7, None) < 7  # the operating system's entropy


def test_fresh_entropy_is_fresh():
    first, second = ([exact_noise.discrete_gaussian(10**6) for _ in range(5)] for _ in range(2))
    assert first != second


@few
@given(st.floats(0.1, 5.0), st.integers(1, 12), st.integers(1, 400))
def test_discrete_gaussian_delta_is_that_of_all_events(eps, change, sigma2):
    """Exact enumeration of all outcomes, for the change and for every smaller one."""
    stated = exact_noise.discrete_gaussian_delta(eps=eps, sensitivity=change, sigma2=sigma2)
    pmf = gaussian_pmf(sigma2, int(12 * np.sqrt(sigma2)) + 2 * change)
    found = [hockey_stick(*shifted(pmf, d), eps) for d in range(1, change + 1)]
    assert found[-1] == pytest.approx(stated, rel=1e-6, abs=1e-15)
    assert (np.diff(found) >= -1e-15).all()


@pytest.mark.parametrize("eps", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("sigma2", [0.1, 0.6, 8.9, 9.1])
def test_discrete_gaussian_delta_of_little_noise_is_that_of_all_events(eps, sigma2):
    for change in (1, 3):
        stated = exact_noise.discrete_gaussian_delta(eps=eps, sensitivity=change, sigma2=sigma2)
        assert stated == pytest.approx(hockey_stick(*shifted(gaussian_pmf(sigma2, 80), change), eps), rel=1e-9, abs=1e-15)


def test_a_delta_is_summed_up_to_a_variance_of_1e14(monkeypatch):
    monkeypatch.setattr(exact_noise, "parts", lambda *_: [])
    assert exact_noise.discrete_gaussian_delta(eps=1.0, sensitivity=1, sigma2=1e14) == 0
    with pytest.raises(ValueError, match="at most 1e14"):
        exact_noise.discrete_gaussian_delta(eps=1.0, sensitivity=1, sigma2=float(np.nextafter(1e14, 2e14)))


def test_what_does_not_change_needs_no_delta():
    assert exact_noise.discrete_gaussian_delta(eps=0.0, sensitivity=0, sigma2=3.0) == 0.0


def test_discrete_gaussian_delta_is_nearly_the_continuous_one():
    for ratio in (3.0, 5.0):
        continuous = gaussian_delta(eps=1.0, sensitivity=1.0, sigma=ratio)
        fine = exact_noise.discrete_gaussian_delta(eps=1.0, sensitivity=100, sigma2=(100 * ratio) ** 2)
        assert fine == pytest.approx(float(continuous), rel=1e-4)  # whole thresholds against real ones


def release(mechanism, eps, delta, sensitivities=(1,), shares=(1.0,), **more):
    return noise.add_noise(
        [[0]] * len(sensitivities),
        eps=eps,
        delta=delta,
        mechanism=mechanism,
        adjacency="row",
        trusted="client",
        generator=np.random.default_rng(0),
        sensitivities=[[change] for change in sensitivities],
        shares=list(shares),
        **more,
    )


@few
@given(st.floats(0.05, 6.0), st.floats(1e-9, 1e-2), st.integers(1, 30))
def test_calibrated_discrete_gaussian_meets_its_budget(eps, delta, change):
    sigma2 = release("discrete-gaussian", eps, delta, [change]).guarantees[0].rho
    sigma2 = round(change**2 / (2 * sigma2))
    assert exact_noise.discrete_gaussian_delta(eps=eps, sensitivity=change, sigma2=sigma2) <= delta
    if sigma2 > 50:  # and not with much more noise than needed; whole variances are coarse below
        assert exact_noise.discrete_gaussian_delta(eps=eps, sensitivity=change, sigma2=0.97 * sigma2) > delta


@few
@given(st.floats(0.05, 6.0), st.integers(1, 30))
def test_calibrated_laplace_meets_its_budget(eps, change):
    """The largest ratio of probabilities over all outcomes is at most e^eps, and attained."""
    variance = release("discrete-laplace", eps, 0.0, [change]).variances[0][0]
    scale = 1 / (2 * np.arcsinh(1 / np.sqrt(2 * variance)))
    pmf = laplace_pmf(scale, change + 5)
    loss = np.log(pmf[change:] / pmf[:-change]).max()
    assert loss == pytest.approx(eps, rel=1e-6)
    assert hockey_stick(*shifted(laplace_pmf(scale, 60 * change), change), 0.9 * eps) > 0


def test_two_numbers_share_a_budget():
    g = release("discrete-gaussian", 1.0, 1e-6, [3, 40], [0.8, 0.2])
    rho = sum(s**2 / (2 * v) for s, v in zip([3, 40], [v for (v,) in g.variances], strict=True))
    stated = float(g.guarantees[0].rho or 0.0)
    assert stated * 0.99 < rho <= stated * (1 + 1e-12)
    laplace = release("discrete-laplace", 1.0, 0.0, [30, 40], [0.8, 0.2])
    scales = [1 / (2 * np.arcsinh(1 / np.sqrt(2 * v))) for (v,) in laplace.variances]
    assert sum(s / b for s, b in zip([30, 40], scales, strict=True)) == pytest.approx(1.0, rel=1e-6)


def test_negative_control_a_broken_calibration_is_caught():
    """Noise for a sensitivity of half the true one, as printed in mrmtl:sigma-dp, fails the enumeration."""
    change, eps, delta = 20, 1.0, 1e-5
    sigma2 = round((change // 2) ** 2 / (2 * release("discrete-gaussian", eps, delta, [change // 2]).guarantees[0].rho))
    pmf = gaussian_pmf(sigma2, int(14 * np.sqrt(sigma2)))
    assert hockey_stick(*shifted(pmf, change), eps) > 50 * delta
    assert hockey_stick(*shifted(pmf, change // 2), eps) <= delta


@given(st.floats(0.01, 30.0))
def test_randomised_response_is_private_to_the_last_bit(eps):
    flip, whole = noise.flip_probability(eps)
    wrong = Fraction(flip, whole)
    assert 0 < wrong < Fraction(1, 2)
    log_odds = np.log(float((1 - wrong) / wrong))
    assert log_odds <= eps * (1 + 1e-15) + 1e-15
    assert log_odds == pytest.approx(eps, rel=1e-9)


def test_the_default_mechanism_has_the_least_noise():
    assert noise.choose_mechanism(None, 1.0, 1e-6) == "discrete-laplace"
    assert noise.choose_mechanism(None, 1.0, 0.0) == "discrete-laplace"
    assert noise.choose_mechanism(None, 0.01, 0.1) == "discrete-gaussian"
    laplace, gauss = (release(m, 1.0, 1e-6, [1000]).variances[0][0] for m in ("discrete-laplace", "discrete-gaussian"))
    assert laplace < gauss / 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noise.choose_mechanism("discrete-gaussian", 1.0, 0.0), "delta must be > 0"),
        (lambda: noise.choose_mechanism("uniform", 1.0, 0.1), "mechanism"),
        (lambda: noise.choose_mechanism(None, 0.0, 0.1), "eps must be > 0"),
        (lambda: noise.flip_probability(31.0), "at most 30"),
        (lambda: exact_noise.check_generator(1), "generator"),
        (lambda: exact_noise.discrete_gaussian_delta(eps=1.0, sensitivity=1, sigma2=1e15), "sigma2"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
