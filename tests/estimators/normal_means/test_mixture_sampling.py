"""The chain's draws have the posterior law: against quadrature with one component, and by calibration with three."""

import numpy as np
import pytest
from scipy import stats

from estimators import MixtureMeans
from estimators.normal_means import mixture_sampling


def draws(y, v, reach2, k, count, seed, strength=1.0, points=False):
    start = np.full(k, 1 / k), np.zeros((k, y.shape[1])), np.zeros(k) if points else np.ones(k)
    return mixture_sampling.chain(np.random.default_rng(seed), y, v, reach2, strength, points, *start, 200, 4, count)


@pytest.mark.parametrize("d", [1, 2])
def test_one_component_against_quadrature(d):
    rng = np.random.default_rng(d)
    v, reach2 = rng.gamma(2, 0.5, 9) + 0.2, 7.0
    y = 1 + 1.4 * rng.standard_normal((9, d)) + np.sqrt(v)[:, None] * rng.standard_normal((9, d))
    _, mus, tau2s = draws(y, v, reach2, 1, 20_000, 0)
    logs, centres = np.linspace(-14, 14, 600), np.linspace(-8, 8, 801)
    table = -1.5 * np.log(4 + np.exp(logs)) + logs
    first = []  # of the centre, given tau2
    for c in range(d):
        logpdf = stats.norm.logpdf(y[:, c, None, None], centres[None, :, None], np.sqrt(v[:, None, None] + np.exp(logs)))
        joint = logpdf.sum(axis=0) + stats.norm.logpdf(centres, 0, np.sqrt(reach2))[:, None]
        top = joint.max()
        table = table + top + np.log(np.exp(joint - top).sum(axis=0))
        first.append((centres[:, None] * np.exp(joint - top)).sum(axis=0) / np.exp(joint - top).sum(axis=0))
    chance = np.exp(table - table.max())
    chance /= chance.sum()
    kept = 1 / (1 + tau2s[:, 0])
    expected = chance @ (1 / (1 + np.exp(logs)))
    error = batch_error(kept)
    assert abs(kept.mean() - expected) < 5 * error < 0.05
    for c in range(d):
        assert abs(mus[:, 0, c].mean() - chance @ first[c]) < 5 * batch_error(mus[:, 0, c])


def batch_error(x):
    """Standard error of the mean of dependent draws."""
    means = x.reshape(20, -1).mean(axis=1)
    return means.std(ddof=1) / np.sqrt(20)


@pytest.mark.parametrize("points", [False, True])
def test_ranks_of_what_was_drawn_from_the_hyperprior_are_uniform(points):
    """Simulation-based calibration (Talts et al. 2018): also where the law of tau2 has no mean, and components are empty."""
    rng, k, m, reach2, ranks = np.random.default_rng(4), 3, 25, 9.0, []
    v = np.geomspace(0.3, 3, m)
    for seed in range(120):
        p, mus = rng.dirichlet(np.full(k, 0.7)), np.sqrt(reach2) * rng.standard_normal(k)
        tau2s = np.zeros(k) if points else 4 * (rng.random(k) ** -2 - 1)
        which = rng.choice(k, m, p=p)
        y = mus[which] + np.sqrt(tau2s[which] + v) * rng.standard_normal(m)
        weights, centres, spreads = draws(y[:, None], v, reach2, k, 60, seed, 0.7, points)
        chance_below = np.sum(weights * stats.norm.cdf((1 - centres[..., 0]) / np.sqrt(spreads + 1)), axis=1)
        truth = np.sum(p * stats.norm.cdf((1 - mus) / np.sqrt(tau2s + 1)))  # of a new estimate with variance 1
        ranks.append(np.mean(chance_below < truth))
    assert stats.kstest(ranks, "uniform").pvalue > 1e-3


def test_a_hyperprior_other_than_the_one_drawn_from_is_found_out():
    rng, ranks = np.random.default_rng(5), []
    v = np.ones(25)
    for seed in range(120):
        y = 30 * rng.standard_normal() + np.sqrt(0.01 + v) * rng.standard_normal(25)
        *_, tau2s = draws(y[:, None], v, 9.0, 1, 60, seed)
        ranks.append(np.mean(tau2s[:, 0] < 0.01))
    assert stats.kstest(ranks, "uniform").pvalue < 1e-3


def test_a_slice_is_stepped_out_from_a_random_place_about_the_last_value():
    """Where both ends of the first interval lie below the level it is the slice, and the next uniform says where in it."""
    generator = np.random.default_rng(3)
    y, rows = generator.normal(0.0, 3.0, (400, 1)), np.arange(400)
    data = y, np.full(400, 0.5), rows, 0, 400, 9.0
    x = float(np.log(np.var(y) - 0.5))
    first = 0
    for seed in range(40):
        drawn = np.random.default_rng(seed)
        level = mixture_sampling.log_density(x, *data) - drawn.standard_exponential()
        low = x - mixture_sampling.WIDTH * drawn.random()
        ends = [mixture_sampling.log_density(at, *data) for at in (low, low + mixture_sampling.WIDTH)]
        new = low + mixture_sampling.WIDTH * drawn.random()
        if max(ends) < level < mixture_sampling.log_density(new, *data):
            first += 1
            assert mixture_sampling.slice_sample(np.random.default_rng(seed), x, *data) == pytest.approx(new, abs=1e-12)
    assert first >= 3


def test_averages_over_mixtures_are_in_the_unit_of_the_data():
    generator = np.random.default_rng(5)
    v = generator.uniform(0.5, 2.0, 12)
    y = generator.normal(0.0, 1.5, 12) + np.sqrt(v) * generator.standard_normal(12)
    one, other = (MixtureMeans(k=2).fit(scale * y, scale**2 * v).averaged(1) for scale in (1.0, 1.3))
    np.testing.assert_allclose(other.posterior_mean_, 1.3 * one.posterior_mean_, rtol=1e-8)
    np.testing.assert_allclose(other.posterior_sd_, 1.3 * one.posterior_sd_, rtol=1e-8)
