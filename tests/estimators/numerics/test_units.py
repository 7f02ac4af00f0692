"""Fits do not depend on the units of the data: in units of any power of two they are equal to the last bit."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators import GammaPoisson, GaussianMeans, GaussianTally, MixtureMeans, PointNormalMeans, james_stein
from estimators.closed_forms.gaussian import from_samples
from estimators.normal_means.tau2_likelihood import MANY
from estimators.numerics.units import WIDEST, exponent, gaussian_unit

GAUSSIAN = [
    *(
        lambda prior=prior, **known: GaussianMeans(prior, **known)
        for prior in ("bayes", "marginal-likelihood", "reml", "moments")
    ),
    lambda mu=None: PointNormalMeans(mu),
    lambda: MixtureMeans(k=2, restarts=2),
    lambda: MixtureMeans(k=2, components="points", restarts=2),
]
NAMES = ["bayes", "marginal-likelihood", "reml", "moments", "point-normal", "mixture", "points"]
POWERS = st.integers(-499, 490)


def gaussian(seed, m=12):
    gen = np.random.default_rng(seed)
    v = gen.uniform(0.3, 3.0, m) if seed % 3 else np.array(gen.uniform(0.3, 3.0))
    return 5 + gen.choice([0.0, 4.0], m) + gen.standard_normal(m), v


def results(model):
    """All that has the units of the data."""
    cdf = model.posterior_cdf(model.posterior_mean_)
    return [model.posterior_mean_, model.posterior_sd_, *model.interval(0.9)], cdf


def assert_scaled(fit, plain, k):
    for found, expected in zip(results(fit)[0], results(plain)[0], strict=True):
        assert found.tobytes() == np.ldexp(expected, k).tobytes()
    assert results(fit)[1].tobytes() == results(plain)[1].tobytes()
    assert fit.n_iter_ == plain.n_iter_
    assert fit.converged_ == plain.converged_


@pytest.mark.parametrize("model", GAUSSIAN, ids=NAMES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), k=POWERS)
def test_gaussian_fits_in_other_units_are_the_same_to_the_last_bit(model, seed, k):
    x, v = gaussian(seed)
    plain, fit = model().fit(x, v), model().fit(np.ldexp(x, k), np.ldexp(v, 2 * k))
    assert_scaled(fit, plain, k)
    assert fit.log_likelihood_ == pytest.approx(plain.log_likelihood_ - x.size * k * math.log(2), rel=1e-12, abs=1e-12)
    for name, power in (("tau2_", 2), ("mu_", 1), ("mu_sd_", 1), ("mode_", 1), ("mus_", 1), ("tau2s_", 2)):
        if hasattr(plain, name):
            np.testing.assert_array_equal(getattr(fit, name), np.ldexp(getattr(plain, name), power * k), name)
    draws = [m.draw(np.random.default_rng(0))[1][0] for m in (plain, fit)]
    np.testing.assert_allclose(draws[1], np.ldexp(draws[0], k), rtol=1e-12)


@pytest.mark.parametrize("k", [-499, -300, 265, 490])
@pytest.mark.parametrize("model", [GaussianMeans, PointNormalMeans])
def test_compiled_fits_with_a_given_centre_and_clients_who_say_nothing_are_the_same_too(model, k):
    gen = np.random.default_rng(0)
    x, v = gen.standard_normal((2, MANY + 10)) ** 3
    v = np.abs(v) + 0.1
    v[3] = np.inf
    name = "mode" if model is PointNormalMeans else "mu"
    plain = model(**{name: 0.5}).fit(x, v)
    assert_scaled(model(**{name: math.ldexp(0.5, k)}).fit(np.ldexp(x, k), np.ldexp(v, 2 * k)), plain, k)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(-1000, 1000),
    prior=st.sampled_from(["bayes", "marginal-likelihood", "moments"]),
)
def test_rates_in_other_units_of_exposure_are_the_same_to_the_last_bit(seed, k, prior):
    gen = np.random.default_rng(seed)
    e = gen.uniform(0.5, 5.0, 12)
    x = 1 + gen.poisson(gen.gamma(2, 1, 12) * e)
    plain, fit = GammaPoisson(prior).fit(x, e), GammaPoisson(prior).fit(x, np.ldexp(e, k))
    assert_scaled(fit, plain, -k)
    assert fit.mean_ == np.ldexp(plain.mean_, -k)
    assert (fit.shape_, fit.log_likelihood_) == (plain.shape_, plain.log_likelihood_)
    assert fit.predict(x[:2], np.ldexp(e[:2], k)).tobytes() == np.ldexp(plain.predict(x[:2], e[:2]), -k).tobytes()
    assert fit.draw(np.random.default_rng(0))[1][1].tolist() == np.ldexp(e, k).tolist()
    fixed = [GammaPoisson("fixed", shape=2.0, rate=math.ldexp(3.0, n)).fit(x, np.ldexp(e, n)) for n in (0, k)]
    assert_scaled(*fixed[::-1], -k)


@given(seed=st.integers(0, 10**6), k=st.integers(-540, 500), toward=st.sampled_from(["mean", 0.25]))
def test_james_stein_in_other_units_is_the_same_to_the_last_bit(seed, k, toward):
    x = 1 + np.random.default_rng(seed).standard_normal((2, 6))
    target = toward if toward == "mean" else math.ldexp(toward, k)
    v = math.ldexp(0.5, 2 * k)
    expected = james_stein(x, 0.5 if v else 0.0, toward)
    assert james_stein(np.ldexp(x, k), v, target).tobytes() == np.ldexp(expected, k).tobytes()


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1.0, 1e200, 1e307])
def test_james_stein_without_noise_is_what_was_measured(scale):
    x = scale * np.array([1.0, 2.0, 3.0, 6.0])
    np.testing.assert_allclose(james_stein(x, 0.0), x, rtol=1e-15)


def test_what_no_unit_suits_is_refused_by_name():
    y, v = np.array([0.0, 1.0, 2.0, 4.0]), np.ones(4)
    for model in (GaussianMeans(), PointNormalMeans(), MixtureMeans(k=2)):
        for estimates, variances, match in [
            (y, v * 1e-150, "estimates lie further apart"),
            (y * 1e300, v, "estimates lie further apart"),
            (y, np.array([1.0, 1.0, 1.0, 3 * WIDEST**2]), "variances differ"),
        ]:
            with pytest.raises(ValueError, match=match):
                model.fit(estimates, variances)
    with pytest.raises(ValueError, match="squares are beyond 1e308"):
        GaussianMeans("moments").fit(y * 1e155, 1e305)
    for scale in (1e-170, 1e170):
        with pytest.raises(ValueError, match="change their units"):
            from_samples([[scale, 3 * scale], [5 * scale]])


@pytest.mark.parametrize("prior", ["bayes", "marginal-likelihood", "reml", "moments"])
@pytest.mark.parametrize("apart", [1e6, 1e30, 1e69])
def test_estimates_far_apart_keep_what_was_measured(prior, apart):
    """Where nothing is to be shrunk the posterior is the client's own."""
    y = apart * np.array([0.1, 0.2, 0.4, 0.8, 0.5, 0.3])
    model = GaussianMeans(prior).fit(y, np.array([1.0, 2.0, 1.0, 1.5, 1.0, 3.0]))
    np.testing.assert_allclose(model.posterior_mean_, y, rtol=1e-9)
    assert model.converged_


@given(st.floats(5e-324, 1.7e308))
def test_exponent_brings_any_size_between_one_and_two(size):
    scaled = (
        math.ldexp(size, -exponent(size))
        if exponent(size) > -1022
        else math.ldexp(size, 1000) / 2.0 ** (exponent(size) + 1000)
    )
    assert 1 <= scaled < 2
    _, _, (v,) = gaussian_unit(np.zeros(1), np.array([size]))
    assert 0.5 <= v < 2


@pytest.mark.parametrize("scale", [1e-80, 1e75, 1e100])
def test_streams_whose_precisions_have_no_squares_are_refused(scale):
    """Sums of squared precisions used to underflow, which moved mu by 2 % in silence."""
    y, v = gaussian(1)
    tally = GaussianTally.of(scale * y, scale**2 * v)
    with pytest.raises(ValueError, match="change their units"):
        tally.fit()
