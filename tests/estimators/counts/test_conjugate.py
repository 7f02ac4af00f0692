"""Few priors stand for all of an average, and few clients for the quantiles of all, without a change that one can see."""

import numpy as np
import pytest
from scipy import stats

from estimators import BetaBinomial, GammaPoisson
from estimators.counts import conjugate
from estimators.numerics import surfaces

RNG = np.random.default_rng


def beta_binomial(m, seed=0):
    rng = RNG(seed)
    n = rng.integers(2, 400, m)
    return BetaBinomial, rng.binomial(n, rng.beta(0.4, 3, m)), n


def gamma_poisson(m, seed=0):
    rng = RNG(seed)
    e = rng.gamma(2, 3, m)
    return GammaPoisson, rng.poisson(e * rng.gamma(0.7, 0.3, m)), e


CASES = pytest.mark.parametrize("case", [beta_binomial, gamma_poisson])


@CASES
@pytest.mark.parametrize("m", [500, 2000])
def test_few_priors_stand_for_all(monkeypatch, case, m):
    kind, *data = case(m)
    few = kind().fit(*data)
    monkeypatch.setattr(conjugate, "SHARP", -1.0)
    every = kind().fit(*data)
    assert few.components_.weights.size < every.components_.weights.size / 3
    for one, other in zip((few.posterior_mean_, *few.interval()), (every.posterior_mean_, *every.interval()), strict=True):
        assert np.max(np.abs(one - other) / every.posterior_sd_) < 1e-7  # priors of weight < 1e-9 were left out of `every`


def test_a_wide_law_keeps_its_priors():
    kind, *data = beta_binomial(12)
    assert kind().fit(*data).components_.weights.size > 100


@CASES
@pytest.mark.parametrize("prior", ["bayes", "marginal-likelihood"])
def test_interpolated_quantiles_are_those_of_each_client(monkeypatch, case, prior):
    kind, *data = case(6000)
    model = kind(prior).fit(*data)
    ends = model.interval()
    monkeypatch.setattr(conjugate, "MANY", 10**9)
    for one, other in zip(ends, model.interval(), strict=True):
        assert np.max(np.abs(one - other) / model.posterior_sd_) < 1e-9


def test_a_function_that_bends_too_much_is_called_where_it_does():
    """A kink on the diagonal: the cells that it crosses are cut until few places are left."""
    rng = RNG(1)
    a, b = rng.uniform(1, 300, (2, 20_000))
    called = []

    def kinked(a, b):
        called.append(a.size)
        return np.abs(np.log(a / b))

    assert np.max(np.abs(surfaces.from_cells(kinked, a, b) - np.abs(np.log(a / b)))) < 1e-10
    assert 0 < sum(called) < 40_000


def test_a_function_without_value_somewhere_is_called_for_each():
    a, b = RNG(2).uniform(1, 2, (2, 2000))
    found = surfaces.from_cells(lambda a, b: np.where(a + b > 3, np.inf, a), a, b)
    assert np.array_equal(found, np.where(a + b > 3, np.inf, a))


@CASES
def test_clients_depend_on_each_other_exactly_where_the_prior_is_averaged_over(case):
    """Two clients without data have nothing in common but the prior."""
    kind, x, size = case(8)
    x, size = np.append(x, [0, 0]), np.append(size, [0, 0])
    for prior, independent in (("bayes", False), ("marginal-likelihood", True)):
        model = kind(prior).fit(x, size)
        draws = model.sample_posterior(RNG(3), 8000)[:, -2:]
        assert model.independent is independent
        assert (abs(stats.spearmanr(draws)[0]) < 5 / np.sqrt(8000)) == independent
        assert (model.prior_interval() == {}) == independent


@pytest.mark.parametrize(
    ("kind", "x", "size"), [(BetaBinomial, [2, 4, 0], [4, 8, 0]), (GammaPoisson, [2, 4, 0], [4.0, 8.0, 0.0])]
)
def test_equal_clients_have_a_prior_that_is_one_point(kind, x, size):
    model = kind("marginal-likelihood").fit(x, size)
    np.testing.assert_allclose(model.posterior_mean_, 0.5, rtol=1e-12)
    at = float(model.posterior_mean_[0])
    assert model.atoms() == pytest.approx([at])
    assert model.posterior_cdf(at).tolist() == [1.0] * 3
    assert model.posterior_cdf(at, strict=True).tolist() == [0.0] * 3
    assert model.posterior_cdf(np.array([0.4, at, 0.6])).tolist() == [0.0, 1.0, 1.0]
    assert model.posterior_quantile(0.3).tolist() == [at] * 3
    assert model.sample_posterior(RNG(0), 2).tolist() == [[at] * 3] * 2


def test_clients_of_one_kind_each_have_a_prior_at_both_ends():
    """Nothing but zeros or nothing but ones: a client without trials is a one as often as those with trials are."""
    model = BetaBinomial("marginal-likelihood").fit([3, 0, 0, 5, 0], [3, 2, 4, 5, 0])
    assert model.mean_ == 0.5  # of four, not of five
    assert model.atoms().tolist() == [0.0, 1.0]
    assert model.posterior_mean_.tolist() == [1.0, 0.0, 0.0, 1.0, 0.5]
    assert model.posterior_sd_.tolist() == [0.0, 0.0, 0.0, 0.0, 0.5]
    assert model.posterior_cdf(0.0).tolist() == [0.0, 1.0, 1.0, 0.0, 0.5]
    assert model.posterior_cdf(0.0, strict=True).tolist() == [0.0] * 5
    assert model.posterior_cdf(1.0, strict=True).tolist() == [0.0, 1.0, 1.0, 0.0, 0.5]
    assert model.posterior_cdf(1.0).tolist() == [1.0] * 5
    assert model.posterior_quantile(0.4).tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert model.posterior_quantile(0.6).tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]
    draws = model.sample_posterior(RNG(0), 4000)
    assert set(draws[:, 4]) == {0.0, 1.0}
    assert abs(draws[:, 4].mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)
    assert (draws[:, :4] == [1.0, 0.0, 0.0, 1.0]).all()


@pytest.mark.parametrize(("kind", "mean", "sd"), [(BetaBinomial, 0.4, 0.2), (GammaPoisson, 2.0, 0.8)])
def test_prior_intervals_hold_the_moments_of_the_prior(kind, mean, sd):
    """Beta(2, 3), and Gamma with shape 6.25 and mean 2, of 2000 clients with 30 trials, or exposure 30."""
    rng, size = RNG(6), np.full(2000, 30)
    if kind is BetaBinomial:
        x = rng.binomial(size, rng.beta(2, 3, 2000))
    else:
        x = rng.poisson(size * rng.gamma(6.25, 2 / 6.25, 2000))
    ends = kind().fit(x, size).prior_interval()
    for name, truth in (("mean", mean), ("sd", sd)):
        low, high = ends[name]
        assert low < truth < high
        assert high - low < 0.1 * truth
