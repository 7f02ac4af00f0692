"""Compiled sums and averages against their NumPy twins."""

import numpy as np
import pytest

from estimators.normal_means import normal_posteriors, tau2_likelihood
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.normal_kernels import averages, density_sums, score_sums, spike_slab_sums
from estimators.normal_means.point_normal import Likelihood
from estimators.normal_means.tau2_likelihood import MarginalLikelihood


def clients(m, decades, seed=0):
    generator = np.random.default_rng(seed)
    v = 10.0 ** generator.uniform(0, decades, m) if decades else np.full(m, 2.0)
    return generator.normal(0, np.sqrt(1 + v)), v


@pytest.mark.parametrize("decades", [1, 8, 40, 200])
@pytest.mark.parametrize("m", [8193, 20_000])
def test_sums(m, decades):
    likelihood = MarginalLikelihood(*clients(m, decades), None, "bayes")
    assert likelihood.compiled
    tau2s = np.array([0.0, 0.3, 1e5])
    for density in (True, False):
        likelihood.compiled = True
        compiled = likelihood.sums(tau2s, density)
        likelihood.compiled = False
        scale = np.array([1, np.abs(compiled[1]).max(), 1, 1, 1])[:, None]  # the sum of w y may cancel
        np.testing.assert_allclose(compiled / scale, likelihood.sums(tau2s, density) / scale, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("m", [7, 256, 300])
def test_sums_of_few_clients_by_their_words(m):
    y, v = clients(m, 1)
    tau2s = np.array([0.0, 0.3, 50.0])
    w = 1 / (tau2s + v[:, None])
    wy = w * y[:, None]
    out = np.empty((5, 3))
    score_sums(y, v, tau2s, out)
    np.testing.assert_allclose(out, [a.sum(axis=0) for a in (w, wy, wy**2, w * wy, w**2)], rtol=1e-10)
    for group in (1, 4, 9):
        out = np.full((4, 3), np.nan)
        density_sums(y, v, tau2s, v.max(), group, out)
        np.testing.assert_allclose(out, [a.sum(axis=0) for a in (w, wy, wy * y[:, None], np.log(w))], rtol=1e-10)


@pytest.mark.parametrize("m", [7, 300])
def test_averages_of_few_clients_by_the_law_of_total_variance(m):
    y, v = clients(m, 1)
    v[3] = np.inf
    t, mu, mu_variance, p = np.array([[0.5, 2.0, 7.0], [0.3, -1.0, 2.0], [0.1, 0.2, 0.4], [0.2, 0.7, 0.1]])
    found = np.empty((3, m))
    averages(y, v, 1e9, t, mu, mu_variance, p, *found)
    noise = np.minimum(v, 1e9)[:, None]
    w = t / (t + noise)
    mean, variance = mu + w * (y[:, None] - mu), w * noise + (1 - w) ** 2 * mu_variance
    np.testing.assert_allclose(found[0], w @ p, rtol=1e-11)
    np.testing.assert_allclose(found[1], mean @ p, rtol=1e-10)
    np.testing.assert_allclose(found[2] ** 2, variance @ p + (mean - (mean @ p)[:, None]) ** 2 @ p, rtol=1e-10)


def test_averages_of_clients_far_from_their_prior_keep_the_digits_of_their_deviations():
    y, v, found = np.full(5, 1e7), np.geomspace(0.5, 8, 5), np.empty((3, 5))
    averages(y, v, 1e9, np.array([2.0]), np.array([-1e7]), np.array([0.25]), np.ones(1), *found)
    w = 2 / (2 + v)
    np.testing.assert_allclose(found, [w, -1e7 + w * 2e7, np.sqrt(w * v + (1 - w) ** 2 * 0.25)], rtol=1e-9)


def test_variances_whose_products_are_no_numbers_are_left_to_numpy():
    """The kernel takes one logarithm of a product of as many variances as have one; over 280 decades none have."""
    assert MarginalLikelihood(*clients(8193, 200), None, "bayes").compiled
    assert not MarginalLikelihood(*clients(8193, 300), None, "bayes").compiled


@pytest.mark.parametrize("prior", ["bayes", "reml", "fixed"])
@pytest.mark.parametrize("decades", [0, 1, 8])
def test_fits_agree(monkeypatch, prior, decades):
    y, v = clients(9000, decades)
    v[:3] = np.inf
    tau2 = 1.0 if prior == "fixed" else None
    compiled = GaussianMeans(prior, tau2=tau2).fit(y, v)
    for module in (tau2_likelihood, normal_posteriors):
        monkeypatch.setattr(module, "MANY", 10**9)
    plain = GaussianMeans(prior, tau2=tau2).fit(y, v)
    assert compiled.tau2_ == pytest.approx(plain.tau2_, rel=1e-9)
    assert compiled.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-11)
    for name in ("posterior_mean_", "posterior_sd_", "weights_"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(plain, name), rtol=1e-8, atol=1e-9)
    assert (compiled.weights_[:3] < 1e-200).all()


def test_same_bits_twice():
    y, v = clients(10_000, 1)
    one, two = GaussianMeans().fit(y, v), GaussianMeans().fit(y.copy(), v.copy())
    np.testing.assert_array_equal(one.posterior_mean_, two.posterior_mean_)
    assert one.log_likelihood_ == two.log_likelihood_


@pytest.mark.parametrize("point", [(2.0, 0.3, 0.7, 0.1), (1e6, 1e-12, 1.0, 0.0), (1e-9, 0.999, 1e-3, -2.0)])
@pytest.mark.parametrize("decades", [0, 1, 8])
def test_spike_slab_sums(point, decades):
    y, v = clients(1000, decades)
    found = np.empty(10)
    spike_slab_sums(y, v, *point, found)
    expected = Likelihood.sums(y, v, *point)
    sizes = np.maximum(np.abs(expected), 1e-6 * np.abs(expected).max())  # some sums cancel
    np.testing.assert_allclose(found / sizes, expected / sizes, atol=1e-9)
