"""Coverage by parametric bootstrap: known coverage found, undercoverage found out, same bits for any workers."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from estimators.counts.gamma_poisson import GammaPoisson
from estimators.coverage import coverage
from estimators.model import ClientModel
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.point_normal import PointNormalMeans

VARIANCES = np.geomspace(0.25, 4.0, 10)


def fitted(prior, tau2, m=10):
    """A fit whose prior is set to a known truth, to measure there."""
    model = GaussianMeans(prior).fit(np.arange(float(m)), np.resize(VARIANCES, m))
    model.mu_, model.tau2_ = 0.0, tau2
    return model


def test_exact_intervals_have_their_level():
    """With the prior known the posterior is exact: 0.9 within five standard errors."""
    model = GaussianMeans("fixed", mu=1.0, tau2=2.0).fit([0.0] * 10, VARIANCES)
    found = coverage(model, level=0.9, replicates=2000, seed=3)
    assert abs(found.average - 0.9) < 5 * found.average_se
    assert found.average_se == pytest.approx(np.sqrt(0.09 / 20_000), rel=0.1)
    assert abs(found.worst - 0.9) < 5 * found.worst_se
    np.testing.assert_allclose(found.by_client, 0.9, atol=5 * np.sqrt(0.09 / 2000))
    widths = 2 * stats.norm.ppf(0.95) * model.posterior_sd_
    assert found.mean_width == pytest.approx(widths.mean(), rel=1e-12)
    assert found.not_converged == 0


def test_taking_the_spread_for_known_is_found_out():
    """Negative control: ten clients, tau2 estimated and believed; averaged over, the promise holds."""
    believed = coverage(fitted("marginal-likelihood", 1.0), replicates=400, seed=1)
    averaged = coverage(fitted("bayes", 1.0), replicates=400, seed=1)
    assert believed.average < 0.9 - 5 * believed.average_se
    assert averaged.average > 0.95 - 5 * averaged.average_se
    assert averaged.mean_width > believed.mean_width


def test_many_clients_need_no_average():
    for prior in ("reml", "bayes"):
        found = coverage(fitted(prior, 1.0, m=300), replicates=60, seed=2)
        assert abs(found.average - 0.95) < 5 * found.average_se + 0.004


def test_point_normal():
    model = PointNormalMeans(0.0).fit(np.linspace(-9, 9, 200) ** 3 / 100, np.resize(VARIANCES, 200))
    found = coverage(model, replicates=50, seed=2)
    assert 0.9 < found.average < 1


def spike(generator, shape):
    return np.where(generator.random(shape) < 0.9, 0.0, 3 * generator.standard_normal(shape))


def test_a_given_prior_tells_the_truth():
    """A spike that twenty clients hide: the fitted prior has none and promises much, the prior that is feared does not."""
    y = np.random.default_rng(4).normal(spike(np.random.default_rng(4), 20), 1.0)
    believing = PointNormalMeans(prior="marginal-likelihood").fit(y, 1.0)
    averaging = PointNormalMeans().fit(y, 1.0)
    told = coverage(believing, replicates=100, seed=1, prior=spike)
    assert told.average + 5 * told.average_se < 0.75
    held = coverage(averaging, replicates=40, seed=1, prior=spike)
    assert held.average > 0.95 - 5 * held.average_se
    for method, level in (("robust", 0.94), ("every-client", 0.95)):
        found = coverage(believing, replicates=60, seed=1, prior=spike, method=method)
        assert found.average > level - 5 * found.average_se
    with pytest.raises(ValueError, match="prior must be a function"):
        coverage(believing, prior=0.5)
    with pytest.raises(ValueError, match="truth must be like the clients' true values"):
        coverage(believing, prior=lambda generator, shape: np.zeros(3))


def test_bits_do_not_depend_on_workers():
    one, two = (coverage(fitted("reml", 1.0), replicates=11, seed=5, workers=workers) for workers in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    assert coverage(fitted("reml", 1.0), replicates=11, seed=6).mean_width != one.mean_width


class Vectors(ClientModel):
    """Three clients with two numbers each; the second interval of the last client holds nothing."""

    def __init__(self, missing=True):
        self.missing = missing

    def fit(self, truth):
        self.truth_ = truth
        self.posterior_mean_ = truth
        self.converged_ = False
        return self

    def posterior_quantile(self, q):
        shift = np.zeros((3, 2))
        shift[2, 1] = 10.0 * self.missing
        return self.truth_ + shift + np.sign(q - 0.5)

    def draw(self, generator: np.random.Generator, truth: Any = None) -> tuple[Any, tuple[Any]]:
        truth = generator.standard_normal((3, 2)) if truth is None else truth
        return truth, (truth,)


def test_vectors_per_client():
    found = coverage(Vectors().fit(np.zeros((3, 2))), replicates=8)
    assert found.average == pytest.approx(5 / 6)
    assert found.average_se == pytest.approx(0, abs=1e-12)
    assert found.by_client.tolist() == [[1, 1], [1, 1], [1, 0]]
    assert (found.worst, found.worst_client) == (0.5, 2)
    assert found.not_converged == 8


def test_defaults_and_the_fewest_replicates():
    assert coverage(Vectors().fit(np.zeros((3, 2)))).not_converged == 1000
    exact = GaussianMeans("fixed", mu=1.0, tau2=2.0).fit([0.0] * 10, VARIANCES)
    assert coverage(exact, replicates=4).mean_width == pytest.approx(2 * stats.norm.ppf(0.975) * exact.posterior_sd_.mean())
    one, other, last = (coverage(fitted("reml", 1.0), replicates=4, **seed) for seed in ({}, {"seed": 0}, {"seed": 2**63}))
    assert one.mean_width == other.mean_width != last.mean_width
    with pytest.raises(ValueError, match="seed must be in"):
        coverage(exact, replicates=4, seed=2**63 + 1)


class Missed(ClientModel):
    """Clients whose intervals hold the truth but for those that a plan, a row for each replicate, says."""

    def __init__(self, plan=None):
        self.plan = plan

    def fit(self, truth):
        self.posterior_mean_, self.converged_, self.turn = np.zeros(len(truth)), True, 0
        return self

    def posterior_quantile(self, q):
        return np.full(len(self.posterior_mean_), np.sign(q - 0.5))

    def draw(self, generator: np.random.Generator, truth: Any = None) -> tuple[Any, tuple[Any]]:
        assert self.plan is not None
        self.turn += 1
        return 10.0 * np.array(self.plan[self.turn - 1]), (self.posterior_mean_,)


@pytest.mark.parametrize("last", [[], [[0, 0, 0]]], ids=["even", "odd"])
def test_who_is_worst_in_the_first_half_is_judged_by_the_second(last):
    """The second client misses three of the first four truths and one of the others; the first one those of the start."""
    plan = [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1], *last]
    found, others = coverage(Missed(plan).fit(np.zeros(3)), replicates=len(plan)), len(plan) - 4
    assert (found.worst_client, found.worst) == (1, pytest.approx(1 - 1 / others))
    assert found.worst_se == pytest.approx(np.sqrt((1 - 1 / others) / others / others))
    assert found.by_client == pytest.approx(1 - np.mean(plan, axis=0))
    shares = 1 - np.mean(plan, axis=1)  # of clients, in each replicate
    assert found.average == pytest.approx(shares.mean())
    assert found.average_se == pytest.approx(stats.sem(shares), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replicates": 3}, "replicates must be a whole number >= 4"),
        ({"level": 1.0}, "level must lie strictly between"),
        ({"level": np.nan}, "level holds NaN"),
        ({"seed": -1}, "seed must be in"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"workers": 0}, "workers must be a whole number"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        coverage(fitted("reml", 1.0), **arguments)


def test_before_fit():
    with pytest.raises(ValueError, match="has not been fitted"):
        coverage(GaussianMeans())


def test_an_interval_holds_a_truth_that_is_its_end():
    """Where no client ever has an event, every fit says that all rates are 0, and so they are."""
    model = GammaPoisson("marginal-likelihood").fit([3, 1, 2, 0])
    found = coverage(model, replicates=5, prior=lambda generator, shape: np.zeros(shape))
    assert found.average == 1
