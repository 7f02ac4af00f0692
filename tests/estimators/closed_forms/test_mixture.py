"""Discrete priors: posterior means, exact risk, EM and the paper's alternation. Laws, outside oracles, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from estimators.closed_forms import mixture


def sample(m, p, mus, variance, seed):
    """Clients' true values and sample means."""
    generator = np.random.default_rng(seed)
    truth = np.asarray(mus)[generator.choice(len(p), m, p=p)]
    return truth, truth + generator.normal(0, np.sqrt(variance), truth.shape)


@given(
    x=st.floats(-4, 4),
    p=st.lists(st.floats(0.05, 1), min_size=3, max_size=3),
    mus=st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    variance=st.floats(0.1, 4),
)
def test_posterior_weights_are_bayes_rule(x, p, mus, variance):
    joint = np.array(p) * stats.norm.pdf(x, mus, np.sqrt(variance))
    weights = mixture.posterior_weights([x], p, mus, variance)[0]
    np.testing.assert_allclose(weights, joint / joint.sum(), rtol=1e-9)
    assert mixture.posterior_mean([x], p, mus, variance)[0] == pytest.approx(weights @ mus, abs=1e-12)
    density = mixture.log_likelihood([x], p, mus, variance)
    assert density == pytest.approx(np.log(joint.sum() / np.sum(p)), abs=1e-9)


def test_rotations_and_shifts_carry_over():
    _, means = sample(40, [0.3, 0.7], [[0.0, 1.0], [2.0, -1.0]], 0.5, 1)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    mus = np.array([[0.0, 1.0], [2.0, -1.0]])
    plain = mixture.posterior_mean(means, [0.3, 0.7], mus, 0.5)
    turned = mixture.posterior_mean(means @ turn.T + 5, [0.3, 0.7], mus @ turn.T + 5, 0.5)
    np.testing.assert_allclose(turned, plain @ turn.T + 5, atol=1e-12)


def test_far_data_do_not_underflow():
    weights = mixture.posterior_weights([1e4], [0.5, 0.5], [-1.0, 1.0], 1e-6)
    assert np.isfinite(weights).all()
    assert weights[0, 1] == 1.0


@pytest.mark.parametrize(
    ("p", "mus", "variance"),
    [([0.5, 0.5], [-1.0, 1.0], 1.0), ([0.05, 0.95], [-1.0, 3.0], 0.5), ([0.2, 0.3, 0.5], [-1.0, 0.0, 2.0], 0.5)],
)
def test_risk_against_scipy_quadrature(p, mus, variance):
    def integrand(x):
        joint = np.array(p) * stats.norm.pdf(x, mus, np.sqrt(variance))
        mean = joint @ mus / joint.sum()
        return joint @ (np.array(mus) - mean) ** 2

    value, _ = integrate.quad(integrand, -20, 20, limit=400, epsabs=1e-13)
    assert mixture.risk(p, mus, variance, 1) == pytest.approx(value, rel=1e-9)
    assert mixture.risk(p, mus, 4 * variance, 4) == pytest.approx(mixture.risk(p, mus, variance, 1), rel=1e-12)


def test_risk_of_three_values_merges_into_two():
    three = mixture.risk([0.25, 0.25, 0.5], [-1.0, -1.0, 1.0], 1.0, 1)
    assert three == pytest.approx(mixture.risk([0.5, 0.5], [-1.0, 1.0], 1.0, 1), rel=1e-12)


def test_risk_in_the_plane_against_simulation():
    p, mus = [0.2, 0.3, 0.5], np.array([[-1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    truth, means = sample(200_000, p, mus, 0.5, 3)
    errors = ((mixture.posterior_mean(means, p, mus, 0.5) - truth) ** 2).sum(axis=1)
    assert abs(errors.mean() - mixture.risk(p, mus, 0.5, 1)) < 5 * errors.std() / np.sqrt(errors.size)


@given(p=st.floats(0.01, 0.99), mu=st.floats(0.01, 4), n=st.integers(1, 20))
def test_risk_between_zero_and_prior_and_local_error(p, mu, n):
    value = mixture.risk([p, 1 - p], [-mu, mu], 2.0, n)
    assert 0 <= value <= min(4 * mu**2 * p * (1 - p), 2.0 / n) * (1 + 1e-9)
    assert value >= mixture.risk([p, 1 - p], [-mu, mu], 2.0, n + 1) * (1 - 1e-9)


def test_risk_limits():
    assert mixture.risk([0.5, 0.5], [1.0, 1.0], 1.0, 1) == 0
    assert mixture.risk([1.0], [3.0], 1.0, 1) == 0
    assert mixture.risk([0.5, 0.5], [0.0, 1.0], 1e12, 1) == pytest.approx(0.25, rel=1e-9)
    assert mixture.risk([0.5, 0.5], [0.0, 40.0], 1.0, 1) < 1e-40
    distance = np.sqrt(2.0)
    vectors = mixture.risk([0.3, 0.7], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], 1.0, 2)
    assert vectors == pytest.approx(mixture.risk([0.3, 0.7], [0.0, distance], 1.0, 2), rel=1e-12)


@given(seed=st.integers(0, 10_000), k=st.integers(1, 4))
def test_em_never_lowers_the_likelihood(seed, k):
    generator = np.random.default_rng(seed)
    means, variances = generator.normal(0, 2, 15), generator.uniform(0.1, 2, 15)
    model = mixture.DiscretePrior(k=k, restarts=2, max_iter=60, seed=seed).fit(means, variances)
    trace = model.log_likelihoods_
    assert (np.diff(trace) >= -1e-9 * (1 + abs(trace[1:]))).all()
    assert model.log_likelihood_ == model.restart_log_likelihoods_.max()
    assert model.log_likelihood_ == pytest.approx(mixture.log_likelihood(means, model.p_, model.mus_, variances), rel=1e-9)
    assert model.p_.sum() == pytest.approx(1)
    assert model.n_iter_ == len(trace) - 1


def test_em_finds_the_prior_with_unequal_variances():
    generator = np.random.default_rng(5)
    p, mus = np.array([0.3, 0.7]), np.array([-1.0, 1.5])
    variances = generator.uniform(0.3, 2.0, 40_000)
    truth = mus[generator.choice(2, variances.size, p=p)]
    model = mixture.DiscretePrior(k=2, restarts=2, tol=1e-9).fit(truth + generator.normal(0, np.sqrt(variances)), variances)
    assert model.converged_
    np.testing.assert_allclose(model.mus_, mus, atol=0.06)
    np.testing.assert_allclose(model.p_, p, atol=0.03)


def test_em_beats_the_alternation_and_the_local_estimate():
    truth, means = sample(4000, [0.5, 0.5], [-1.0, 1.0], 1.0, 11)
    em = mixture.DiscretePrior(k=2, restarts=3).fit(means, 1.0)
    paper = mixture.alternate_clusters(means, 1.0, k=2, rounds=20)

    def error(estimate):
        return ((estimate - truth) ** 2).mean()

    assert error(em.posterior_mean_) < error(means)
    assert error(em.posterior_mean_) < error(paper.models)
    assert error(em.posterior_mean_) == pytest.approx(mixture.risk([0.5, 0.5], [-1.0, 1.0], 1.0, 1), rel=0.1)


def test_restarts_help_where_one_start_is_trapped():
    _, means = sample(300, [0.25] * 4, [-9.0, -3.0, 3.0, 9.0], 0.2, 2)
    many = mixture.DiscretePrior(k=4, restarts=10, max_iter=300).fit(means, 0.2)
    assert many.log_likelihood_ >= many.restart_log_likelihoods_.min()
    np.testing.assert_allclose(many.mus_, [-9, -3, 3, 9], atol=0.4)


def test_em_in_the_plane_and_prediction_shape():
    mus = np.array([[0.0, 0.0], [4.0, 4.0]])
    _, means = sample(500, [0.5, 0.5], mus, 0.3, 4)
    model = mixture.DiscretePrior(k=2).fit(means, 0.3)
    np.testing.assert_allclose(model.mus_, mus, atol=0.2)
    assert model.posterior_mean_.shape == means.shape
    assert model.weights_.shape == (500, 2)


def test_one_value_is_the_precision_weighted_mean():
    model = mixture.DiscretePrior(k=1).fit([1.0, 4.0], [1.0, 2.0])
    assert model.mus_[0] == pytest.approx(2.0)


def test_not_converged_is_said():
    _, means = sample(200, [0.5, 0.5], [-0.3, 0.3], 1.0, 6)
    assert not mixture.DiscretePrior(k=2, max_iter=2).fit(means, 1.0).converged_


@given(seed=st.integers(0, 10_000), k=st.integers(2, 3))
def test_the_alternation_draws_its_centres_together(seed, k):
    means = np.random.default_rng(seed).normal(0, 1.5, 12)
    found = mixture.alternate_clusters(means, 1.0, k=k, rounds=6, seed=seed)
    collapsed = found.spreads[:-1] < 1e-13  # nothing but rounding is left to fall
    assert ((np.diff(found.spreads) < 0) | collapsed).all()
    assert np.ptp(found.models) < np.ptp(means)


def test_the_alternation_collapses_and_starts_biased():
    _, means = sample(20_000, [0.5, 0.5], [-1.0, 1.0], 1.0, 8)
    first = mixture.alternate_clusters(means, 1.0, k=2, rounds=1).spreads[0] / 2
    assert first == pytest.approx(1.1666, abs=0.03)  # E|N(1, 1)|
    _, few = sample(60, [0.5, 0.5], [-1.0, 1.0], 1.0, 8)
    assert mixture.alternate_clusters(few, 1.0, k=2, rounds=300).spreads[-1] < 0.1


def test_parameters_can_be_read_and_set():
    model = mixture.DiscretePrior(k=3)
    assert model.get_params()["k"] == 3
    assert model.set_params(k=2, tol=1e-6).get_params()["tol"] == 1e-6
    with pytest.raises(ValueError, match="no parameter"):
        model.set_params(clusters=2)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: mixture.posterior_weights([np.nan], [1.0], [0.0], 1.0), "means"),
        (lambda: mixture.posterior_weights([], [1.0], [0.0], 1.0), "means"),
        (lambda: mixture.posterior_weights([0.0], [0.5, -0.5], [0.0, 1.0], 1.0), "p"),
        (lambda: mixture.posterior_weights([0.0], [0.5], [0.0, 1.0], 1.0), "p"),
        (lambda: mixture.posterior_weights([0.0], [0.5, 0.5], [[0.0, 1.0], [1.0, 1.0]], 1.0), "mus"),
        (lambda: mixture.posterior_weights([0.0], [0.5, 0.5], [0.0, 1.0], 0.0), "variances"),
        (lambda: mixture.posterior_weights([0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 1.0]), "variances"),
        (lambda: mixture.risk([0.5, 0.5], [0.0, 1.0], -1.0, 1), "sigma2_x"),
        (lambda: mixture.risk([0.5, 0.5], [0.0, 1.0], 1.0, 0), "n"),
        (lambda: mixture.risk([0.25] * 4, np.eye(4), 1.0, 1), "mus"),
        (lambda: mixture.risk([0.25] * 3, [0.0, 1.0, 1e9], 1.0, 1), "mus"),
        (lambda: mixture.DiscretePrior(k=3).fit([0.0, 1.0], 1.0), "k"),
        (lambda: mixture.DiscretePrior(k=1, restarts=0).fit([0.0], 1.0), "restarts"),
        (lambda: mixture.DiscretePrior(k=1, tol=0.0).fit([0.0], 1.0), "tol"),
        (lambda: mixture.alternate_clusters([0.0, 1.0], 1.0, k=2, rounds=0), "rounds"),
    ],
)
def test_bad_input_names_the_argument(call, name):
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        call()
