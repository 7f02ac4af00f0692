"""The chain's draws have the posterior law: against quadrature with one component, and by calibration with three."""

import numpy as np
import pytest
from scipy import stats

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
