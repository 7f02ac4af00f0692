"""Mixtures of Beta laws against SciPy's: of one part and of several, U-shaped, narrow and far apart."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from estimators.private.rate_posterior import BetaMixtures

LAWS = [
    [(1.0, 2.0, 5.0)],
    [(0.25, 3.0, 1.0), (0.75, 0.5, 7.0)],
    [(0.2, 300.0, 20_000.0), (0.3, 0.3, 0.4), (0.5, 9000.0, 30.0)],
    [(1.0, 0.02, 0.5)],
    [(0.9, 1.5, 1.5), (0.1, 40.0, 2.0)],
]
CLIENTS = [4, 0, 2, 2, 1, 3]


@pytest.fixture
def laws():
    parts = np.array([part for law in LAWS for part in law]).T
    return BetaMixtures(*parts, [len(law) for law in LAWS], np.array(CLIENTS))


def cdf(law, t):
    return sum(w * stats.beta.cdf(t, a, b) for w, a, b in law)


def test_moments_are_those_of_the_parts(laws):
    for k, mean, sd in zip(CLIENTS, laws.mean(), laws.sd(), strict=True):
        first = sum(w * stats.beta.mean(a, b) for w, a, b in LAWS[k])
        second = sum(w * stats.beta.moment(2, a, b) for w, a, b in LAWS[k])
        assert (mean, sd) == (pytest.approx(first, rel=1e-12), pytest.approx(np.sqrt(second - first**2), rel=1e-9))


@pytest.mark.parametrize("q", [1e-9, 0.01, 0.2, 0.5, 0.83, 0.975])
def test_quantiles_invert_the_distribution_function(laws, q):
    for k, found in zip(CLIENTS, laws.quantile(q), strict=True):
        if len(LAWS[k]) == 1:
            assert found == pytest.approx(stats.beta.ppf(q, *LAWS[k][0][1:]), rel=1e-9, abs=0)
        else:
            x = optimize.brentq(lambda x, k=k: cdf(LAWS[k], 1 / (1 + np.exp(-x))) - q, -100, 100, xtol=1e-13)
            assert found == pytest.approx(1 / (1 + np.exp(-x)), rel=1e-8, abs=0)
    for t in (-1.0, 0.0, 0.3, 0.995, 1.0, 2.0):
        assert laws.cdf(t) == pytest.approx([cdf(LAWS[k], t) for k in CLIENTS], rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("q", [0.025, 0.5, 0.975])
def test_quantiles_are_roots_to_rounding_however_small(q):
    """Random mixtures of rates down to 1e-6, each by bisection of the log of its rate."""
    generator, m = np.random.default_rng(0), 100
    w, a, b = (
        generator.dirichlet([1, 1, 1], m),
        np.exp(generator.uniform(-1, 5, (m, 3))),
        np.exp(generator.uniform(-1, 9, (m, 3))),
    )
    found = BetaMixtures(w.ravel(), a.ravel(), b.ravel(), [3] * m, np.arange(m)).quantile(q)
    for x, *law in zip(found, w, a, b, strict=True):
        exact = optimize.brentq(
            lambda t, law=law: law[0] @ special.betainc(*law[1:], np.exp(t)) - q, -300, -1e-17, xtol=1e-15
        )
        assert x == pytest.approx(np.exp(exact), rel=1e-13, abs=0)


def test_the_ends(laws):
    assert laws.quantile(0.0).tolist() == [0.0] * len(CLIENTS)
    assert laws.quantile(1.0).tolist() == [1.0] * len(CLIENTS)


def test_draws_follow_each_clients_law_independently(laws):
    draws = laws.draw(np.random.default_rng(5), 4000)
    assert draws.shape == (4000, len(CLIENTS))
    for k, found in zip(CLIENTS, draws.T, strict=True):
        assert stats.kstest(found, lambda t, k=k: cdf(LAWS[k], t)).pvalue > 1e-4
    same = [i for i, k in enumerate(CLIENTS) if k == 2]
    assert abs(stats.spearmanr(draws[:, same])[0]) < 5 / np.sqrt(4000)
