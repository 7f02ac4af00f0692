"""Closed forms under a change of units and of sizes: what n samples are worth, how results scale, arrays entry by entry."""

import numpy as np
import pytest

from estimators.closed_forms import (
    aggregation,
    bernoulli,
    gaussian,
    mean_regularized,
    mixture,
    personalization,
    quantization,
)

THETA = [0.3, -1.2, 2.5, 0.4, 1.9]

SAMPLES = {
    "conditional_bias": lambda s, n: gaussian.conditional_bias(THETA, 1, 0.7, s, n),
    "conditional_risk": lambda s, n: gaussian.conditional_risk(THETA, 1, 0.7, s, n),
    "james_stein_conditional_risk": lambda s, n: gaussian.james_stein_conditional_risk(THETA, s, n),
    "james_stein_risk": lambda s, n: gaussian.james_stein_risk(6, 0.7, s, n),
    "local_risk": lambda s, n: gaussian.local_risk(s, n, 3),
    "risk": lambda s, n: gaussian.risk(0.7, s, n, 5, 0.2, 3),
    "risk_parts": lambda s, n: np.array(gaussian.risk_parts(0.4, 0.7, s, n, 5)),
    "shrinkage_factor": lambda s, n: gaussian.shrinkage_factor(0.7, s, n, 0.2, 5),
    "mixture.risk": lambda s, n: mixture.risk([0.2, 0.3, 0.5], [-1.0, 0.5, 2.0], s, n),
    "local_variance": lambda s, n: mean_regularized.local_variance(s, n, 0.0),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("n", [3, 10])
def test_n_samples_are_worth_one_of_an_nth_of_the_variance(name, n):
    f = SAMPLES[name]
    np.testing.assert_allclose(f(1.3 * n, n), f(1.3, 1), rtol=1e-9)
    assert np.abs(f(1.3, n) / f(1.3, 1) - 1).max() > 1e-3  # it does depend on them


def levels(c, f, *more, **told):
    return f(*more, [3, 5], [0.2 * c, 0.7 * c], 1.3 * c, 0.4 * c, **told)


VARIANCES = {  # of a function of the unit of variances: the power of it that comes out
    "local_risk": (1, lambda c: gaussian.local_risk(1.3 * c, 2, 3)),
    "risk": (1, lambda c: gaussian.risk(0.7 * c, 1.3 * c, 2, 5, 0.2 * c, 3)),
    "risk_parts": (1, lambda c: np.array(gaussian.risk_parts(0.4, 0.7 * c, 1.3 * c, 2, 5))),
    "james_stein_risk": (1, lambda c: gaussian.james_stein_risk(6, 0.7 * c, 1.3 * c, 2)),
    "james_stein_conditional_risk": (
        1,
        lambda c: gaussian.james_stein_conditional_risk(np.sqrt(c) * np.array(THETA), 1.3 * c, 2),
    ),
    "conditional_risk": (1, lambda c: gaussian.conditional_risk(np.sqrt(c) * np.array(THETA), 1, 0.7 * c, 1.3 * c, 2)),
    "conditional_bias": (0.5, lambda c: gaussian.conditional_bias(np.sqrt(c) * np.array(THETA), 1, 0.7 * c, 1.3 * c, 2)),
    "shrinkage_factor": (0, lambda c: gaussian.shrinkage_factor(0.7 * c, 1.3 * c, 2, 0.2 * c, 5)),
    "pooling_border": (1, lambda c: gaussian.pooling_border(5, 1.3 * c)),
    "pooling_excess": (1, lambda c: gaussian.pooling_excess(5, 0.2 * c, 1.3 * c)),
    "mixture.risk": (1, lambda c: mixture.risk([0.2, 0.3, 0.5], np.sqrt(c) * np.array([-1.0, 0.5, 2.0]), 1.3 * c, 2)),
    "aggregate_variance": (1, lambda c: aggregation.aggregate_variance([0.2, 0.8], [1.3 * c, 0.4 * c])),
    "excess_variance": (1, lambda c: aggregation.excess_variance([0.2, 0.8], [1.3 * c, 0.4 * c])),
    "relative_excess": (0, lambda c: aggregation.relative_excess([0.2, 0.8], [1.3 * c, 0.4 * c])),
    "least_variance": (1, lambda c: aggregation.least_variance([1.3 * c, 0.4 * c])),
    "precision_weights": (0, lambda c: aggregation.precision_weights([1.3 * c, 0.4 * c])),
    "gap_to_uniform": (1, lambda c: aggregation.gap_to_uniform(3, 5, 1.3 * c, 0.4 * c, 0.7 * c)),
    "gap_dp_fedavg": (1, lambda c: aggregation.gap_dp_fedavg(3, 5, 1.3 * c, 0.4 * c, 0.7 * c)),
    "gap_dp_to_uniform": (1, lambda c: aggregation.gap_dp_to_uniform(3, 5, 0.7 * c)),
    "opt_out_gain": (1, lambda c: aggregation.opt_out_gain(3, 5, 1.3 * c, 0.4 * c, 0.7 * c)),
    "opt_out_gain, recalibrated": (
        1,
        lambda c: aggregation.opt_out_gain(3, 5, 1.3 * c, 0.4 * c, 0.7 * c, "recalibrated"),
    ),
    "optimal_ratio": (0, lambda c: aggregation.optimal_ratio(3, 5, 1.3 * c, 0.4 * c, 0.2 * c, 0.7 * c)),
    "message_variances": (1, lambda c: levels(c, aggregation.message_variances)),
    "level_ratios": (0, lambda c: levels(c, aggregation.level_ratios)),
    "level_weights": (0, lambda c: levels(c, aggregation.level_weights)),
    "server_mse": (1, lambda c: levels(c, aggregation.server_mse)),
    "server_mse, ratios": (1, lambda c: levels(c, aggregation.server_mse, ratios=[1.0, 0.3])),
    "bayes_mse": (1, lambda c: levels(c, personalization.bayes_mse, 2)),
    "local_mse": (1, lambda c: levels(c, personalization.local_mse, 1.7, 2, ratios=[1.0, 0.3], own_noise=True)),
    "personalization_strength": (0, lambda c: levels(c, personalization.personalization_strength, 2, own_noise=True)),
    "strength of ratios": (
        0,
        lambda c: levels(c, personalization.personalization_strength, 2, ratios=[1.0, 0.3], own_noise=True),
    ),
    "advantage": (1, lambda c: mean_regularized.advantage(1.3 * c, 0.4 * c, 5)),
    "averaging_loss": (1, lambda c: mean_regularized.averaging_loss(1, [1.3 * c, 0.2 * c, 0.9 * c], 0.4 * c)),
    "gap_to_fedavg": (1, lambda c: mean_regularized.gap_to_fedavg(1.3 * c, 0.4 * c, 5)),
    "gap_to_local": (1, lambda c: mean_regularized.gap_to_local(1.3 * c, 0.4 * c, 5)),
    "mse": (1, lambda c: mean_regularized.mse(0.8, 1.3 * c, 0.4 * c, 5)),
    "optimal_mse": (1, lambda c: mean_regularized.optimal_mse(1.3 * c, 0.4 * c, 5)),
    "privacy_gap": (1, lambda c: mean_regularized.privacy_gap(0.8, 5, 3, 0.7 * c)),
    "silo_mmse": (1, lambda c: mean_regularized.silo_mmse(1, [1.3 * c, 0.2 * c, 0.9 * c], 0.4 * c)),
    "silo_mmse_weights": (0, lambda c: mean_regularized.silo_mmse_weights(1, [1.3 * c, 0.2 * c, 0.9 * c], 0.4 * c)),
    "silo_mse": (1, lambda c: mean_regularized.silo_mse(0.8, 1, [1.3 * c, 0.2 * c, 0.9 * c], 0.4 * c)),
    "silo_strength": (0, lambda c: mean_regularized.silo_strength(1, [1.3 * c, 0.2 * c, 0.9 * c], 0.4 * c)),
    "strength": (0, lambda c: mean_regularized.strength(1.3 * c, 0.4 * c)),
    "train_strength": (0, lambda c: mean_regularized.train_strength(1.3 * c, 3, 0.7 * c, 0.4 * c)),
    "message_range": (0.5, lambda c: quantization.message_range(6, 4, 0.7 * c, 1.3 * c, 0.5 * np.sqrt(c))),
    "norm_radius": (0.5, lambda c: quantization.norm_radius(6, 4, 3, 1.3 * c, 0.5 * np.sqrt(c))),
    "quantiser_variance": (1, lambda c: quantization.quantiser_variance(0.3 * np.sqrt(c), 1.1 * np.sqrt(c), 3)),
    "quantiser_variance_bound": (1, lambda c: quantization.quantiser_variance_bound(1.1 * np.sqrt(c), 3)),
    "projection_bias": (0.5, lambda c: quantization.projection_bias(1.1 * np.sqrt(c), 0.8 * np.sqrt(c), 0.6 * c)),
    "box_sensitivity": (0.5, lambda c: quantization.box_sensitivity(1.1 * np.sqrt(c), 3)),
    "gaussian_noise_variance": (
        1,
        lambda c: quantization.gaussian_noise_variance(eps=0.8, delta=1e-5, sensitivity=1.1 * np.sqrt(c)),
    ),
}


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("c", [3.7, 0.019])
def test_results_have_the_units_of_their_arguments(name, c):
    power, f = VARIANCES[name]
    plain = f(1.0)
    np.testing.assert_allclose(f(c), c**power * np.asarray(plain), rtol=1e-9, atol=1e-13 * c**power)
    assert np.abs(plain).max() > 1e-6


ARRAYS = {
    "gaussian.risk": (gaussian.risk, ([0.7, 0.1], [1.3, 2.0], [2, 3], [5, 9], [0.2, 0.0], [3, 1])),
    "gaussian.local_risk": (gaussian.local_risk, ([1.3, 2.0], [2, 3], [3, 1])),
    "gaussian.shrinkage_factor": (gaussian.shrinkage_factor, ([0.7, 0.1], [1.3, 2.0], [2, 3], [0.2, 0.1], [5, 9])),
    "gaussian.james_stein_risk": (gaussian.james_stein_risk, ([5, 9], [0.7, 0.1], [1.3, 2.0], [2, 3])),
    "gaussian.pooling_excess": (gaussian.pooling_excess, ([5, 9], [0.7, 0.1], [1.3, 2.0])),
    "bernoulli.mse": (bernoulli.mse, ([0.7, 2.0], [1.3, 2.5], [2, 9], [0.3, 0.8])),
    "bernoulli.local_mse": (bernoulli.local_mse, ([0.7, 2.0], [1.3, 2.5], [2, 9])),
    "bernoulli.limit_weight": (bernoulli.limit_weight, ([0.7, 2.0], [1.3, 2.5], [2, 9])),
    "bernoulli.naive_excess": (bernoulli.naive_excess, ([0.7, 2.0], [1.3, 2.5], [2, 9])),
    "bernoulli.naive_variance_mean": (bernoulli.naive_variance_mean, ([0.7, 2.0], [1.3, 2.5], [2, 9], [4, 7])),
    "bernoulli.shrinkage_gain": (bernoulli.shrinkage_gain, ([0.7, 2.0], [1.3, 2.5], [2, 9])),
    "bernoulli.shrinkage_weight": (bernoulli.shrinkage_weight, ([0.3, 0.6], [0.02, 0.05], [2, 9])),
    "mean_regularized.mse": (mean_regularized.mse, ([0.8, 2.0], [1.3, 0.4], [0.4, 1.0], [5, 9])),
    "mean_regularized.privacy_gap": (mean_regularized.privacy_gap, ([0.8, 2.0], [5, 9], [3, 4], [0.7, 1.2])),
    "mean_regularized.train_strength": (mean_regularized.train_strength, ([1.3, 0.4], [3, 4], [0.7, 1.2], [0.4, 2.0])),
    "aggregation.gap_dp_fedavg": (aggregation.gap_dp_fedavg, ([3, 2], [5, 6], [1.3, 0.2], [0.4, 2.0], [0.7, 0.1])),
    "aggregation.optimal_ratio": (
        aggregation.optimal_ratio,
        ([3, 2], [5, 6], [1.3, 0.2], [0.4, 2.0], [0.2, 0.3], [0.7, 0.1]),
    ),
    "quantization.message_range": (quantization.message_range, ([6, 9], [4, 2], [0.7, 0.3], [1.3, 2.0], [0.05, 0.2])),
    "quantization.norm_radius": (quantization.norm_radius, ([6, 9], [4, 2], [3, 5], [1.3, 2.0], [0.05, 0.2])),
    "quantization.projection_bias": (quantization.projection_bias, ([1.1, 2.0], [0.8, -1.0], [0.6, 1.5])),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_taken_entry_by_entry(name):
    f, columns = ARRAYS[name]
    whole = f(*columns)
    each = [f(*(column[k] for column in columns)) for k in (0, 1)]
    np.testing.assert_allclose(whole, each, rtol=1e-14)
    assert each[0] != each[1]
    table = f(*(np.array(column)[:, None] if k % 2 else np.array(column) for k, column in enumerate(columns)))
    assert table.shape == (2, 2)
    np.testing.assert_allclose(np.diag(table), each, rtol=1e-14)


def test_coordinates_add_up():
    assert gaussian.risk(0.7, 1.3, 2, 5, 0.2, 3) == pytest.approx(3 * float(gaussian.risk(0.7, 1.3, 2, 5, 0.2)), rel=1e-14)
    assert gaussian.local_risk(1.3, 2, 4) == pytest.approx(4 * float(gaussian.local_risk(1.3, 2)), rel=1e-14)
    assert gaussian.risk(0.7, 1.3, 2, 5) == gaussian.risk(0.7, 1.3, 2, 5, 0.0, 1)
    assert gaussian.shrinkage_factor(0.7, 1.3, 2) == gaussian.shrinkage_factor(0.7, 1.3, 2, 0.0)


@pytest.mark.parametrize(("alpha", "beta", "n"), [(0.7, 1.9, 3), (4.0, 2.5, 8), (1.0, 1.0, 1)])
def test_rates_by_enumeration_of_counts(alpha, beta, n):
    """Every count with its beta-binomial chance and, of each, the posterior moments."""
    from scipy import stats

    x = np.arange(n + 1)
    chance, mean = stats.betabinom.pmf(x, n, alpha, beta), alpha / (alpha + beta)
    law = stats.beta(alpha + x, beta + n - x)

    def error(estimate):
        return chance @ (law.var() + (law.mean() - estimate) ** 2)

    assert bernoulli.prior_variance(alpha, beta) == pytest.approx(stats.beta(alpha, beta).var())
    assert bernoulli.local_mse(alpha, beta, n) == pytest.approx(error(x / n))
    np.testing.assert_allclose(bernoulli.posterior_mean(x, n, alpha, beta), law.mean())
    weight = float(bernoulli.posterior_weight(alpha, beta, n))
    np.testing.assert_allclose(weight * x / n + (1 - weight) * mean, law.mean())
    for w in (weight, 0.1, 0.8):
        assert bernoulli.mse(alpha, beta, n, w) == pytest.approx(error(w * x / n + (1 - w) * mean))
    assert bernoulli.mse(alpha, beta, n) == pytest.approx(error(law.mean()))
    assert bernoulli.shrinkage_gain(alpha, beta, n) == pytest.approx(1 - error(law.mean()) / error(x / n))


@pytest.mark.parametrize("k", [0, 1, 2])
def test_weights_of_silos_attain_their_least_error(k):
    """By the normal equations of own, other silos' true values and errors; a silo without error keeps its own alone."""
    variances, tau2 = np.array([0.5, 1.3, 4.0]), 0.7
    others = np.arange(3) != k
    weights = mean_regularized.silo_mmse_weights(k, variances, tau2)
    # theta_k from the estimates, under a flat mean: minimise over weights that add to one.
    total = np.diag(variances + tau2)
    system = np.block([[total, np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]])
    exact = np.linalg.solve(system, np.append(tau2 * ~others, 1.0))[:3]
    np.testing.assert_allclose(weights, exact, rtol=1e-12)
    error = variances @ weights**2 + tau2 * ((weights - ~others) ** 2).sum()
    assert mean_regularized.silo_mmse(k, variances, tau2) == pytest.approx(error, rel=1e-12)
    variances[k] = 0.0
    np.testing.assert_array_equal(mean_regularized.silo_mmse_weights(k, variances, tau2), (~others).astype(float))


SILOS = {
    "averaging_loss": mean_regularized.averaging_loss,
    "silo_mmse": mean_regularized.silo_mmse,
    "silo_mmse_weights": mean_regularized.silo_mmse_weights,
    "silo_posterior_variance": mean_regularized.silo_posterior_variance,
    "silo_strength": mean_regularized.silo_strength,
    "silo_mse": lambda k, variances, tau2: mean_regularized.silo_mse(0.8, k, variances, tau2),
}


@pytest.mark.parametrize("name", SILOS)
@pytest.mark.parametrize("tau2s", [[0.7, 0.3], [0.7, 0.3, 1.1], [[0.7, 0.2, 0.9], [0.4, 0.3, 1.1]]])
def test_several_variances_of_silos_are_taken_one_by_one(name, tau2s):
    """As many of them as there are other silos, too, which were taken for theirs."""
    f = SILOS[name]
    found, tau2s = f(1, [0.5, 1.3, 4.0], tau2s), np.array(tau2s)
    each = np.array([f(1, [0.5, 1.3, 4.0], t) for t in tau2s.ravel()])
    np.testing.assert_allclose(found, np.moveaxis(each, 0, -1).reshape(*each.shape[1:], *tau2s.shape), rtol=1e-13)
    columns = np.array([0.5, 2.0]), np.array([1.3, 0.2]), np.array([4.0, 1.0])
    both = f(2, columns, 0.7)
    np.testing.assert_allclose(both[..., 1], f(2, [2.0, 0.2, 1.0], 0.7), rtol=1e-13)
