"""Parts, gains and losses: each is what the errors that it is a part or a difference of say, without their lost digits."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from estimators.closed_forms import (
    aggregation,
    distillation,
    gaussian,
    mean_regularized,
    personalization,
    regression,
)

variance = st.floats(1e-3, 1e3)
size = st.integers(2, 9)


@given(st.floats(0, 50), st.integers(1, 3), st.lists(size, min_size=3, max_size=3), variance, variance, st.booleans())
def test_the_weights_of_an_estimate_give_its_error(lam, level, sizes, alpha2, tau2, own_noise):
    gamma2s = [0.0, 0.5, 2.0]
    own, messages, noise = personalization.message_weights(lam, level, sizes, gamma2s, alpha2, tau2, own_noise=own_noise)
    others = np.array(sizes) - (np.arange(1, 4) == level)
    assert own + others @ messages == pytest.approx(1)
    # From parameters, sampling errors and message noises, one by one.
    error = own**2 * alpha2 + (1 - own) ** 2 * tau2 + noise
    error += others @ (messages**2 * (alpha2 + tau2 + np.array(sizes) * gamma2s))
    assert error == pytest.approx(
        personalization.local_mse(lam, level, sizes, gamma2s, alpha2, tau2, own_noise=own_noise), rel=1e-12
    )
    comes_back = own_noise and gamma2s[level - 1] > 0
    assert noise > 0 if comes_back and lam > 1e-100 else comes_back or noise == 0


def server_error(N_np, N_p, s, added):
    return 1 / (N_np / s + N_p / (s + added))


@given(st.integers(0, 8), size, variance, variance)
def test_opting_out_gains_the_difference_of_two_errors(N_np, N_p, s, gamma2):
    s, g = Fraction(s), N_p * Fraction(gamma2)
    before = server_error(N_np, N_p, s, g)
    for others, added in (("kept", g), ("recalibrated", N_p * g / (N_p - 1))):
        gain = before - server_error(N_np + 1, N_p - 1, s, added)
        found = aggregation.opt_out_gain(N_np, N_p, float(s), 0.0, gamma2, others)
        assert found == pytest.approx(float(gain), rel=1e-13)


def test_what_gains_nothing_and_bad_input():
    assert aggregation.opt_out_gain(3, 4, 1.0, 1.0, 0.0) == 0  # there was no noise
    with pytest.raises(ValueError, match="alpha2 and tau2"):
        aggregation.opt_out_gain(1, 2, 0.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="others"):
        aggregation.opt_out_gain(1, 2, 1.0, 0.0, 1.0, "left")
    with pytest.raises(ValueError, match="N_p"):
        aggregation.opt_out_gain(1, 1, 1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="exact"):
        mean_regularized.averaging_loss(0, [1.0, 0.0, 1.0], 0.0)
    with pytest.raises(ValueError, match="at least 2"):
        gaussian.james_stein_conditional_risk([1.0], 1.0, 1)
    with pytest.raises(ValueError, match="kd"):
        distillation.best_psi([])
    with pytest.raises(ValueError, match="weight"):
        gaussian.risk_parts(1.5, 1.0, 1.0, 1, 2)


@given(variance, variance, st.integers(1, 9), st.integers(1, 30))
def test_variance_and_bias_add_to_the_least_error(sigma2_theta, sigma2_x, n, m):
    best = gaussian.shrinkage_factor(sigma2_theta, sigma2_x, n)
    least = sum(gaussian.risk_parts(best, sigma2_theta, sigma2_x, n, m))
    assert least == pytest.approx(gaussian.risk(sigma2_theta, sigma2_x, n, m), rel=1e-13)
    for weight in (0.0, best / 2, 1.0):
        assert sum(gaussian.risk_parts(weight, sigma2_theta, sigma2_x, n, m)) >= least * (1 - 1e-14)
    assert gaussian.risk_parts(1.0, sigma2_theta, sigma2_x, n, m)[1] == 0


X = np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 1.0, 1.0]])


@given(variance, variance)
def test_the_parts_of_the_posterior_means_error(sigma2_theta, sigma2_x):
    parts = regression.posterior_mse_parts(X, sigma2_theta, sigma2_x)
    inverse = np.linalg.inv(np.eye(3) / sigma2_theta + X.T @ X / sigma2_x)
    around = np.trace(inverse @ X.T @ X @ inverse) / sigma2_x
    assert parts == pytest.approx((around, np.trace(inverse @ inverse) / sigma2_theta), rel=1e-8)
    assert sum(parts) == pytest.approx(regression.posterior_mse(X, sigma2_theta, sigma2_x), rel=1e-13)


def test_the_parts_at_the_ends_of_the_prior():
    assert regression.posterior_mse_parts(X, np.inf, 2.0) == (pytest.approx(regression.local_mse(X, 2.0)), 0.0)
    assert regression.posterior_mse_parts(X, 0.0, 2.0) == (0.0, 0.0)
    assert regression.posterior_mse_parts(X[:1], 1.5, 0.0) == (0.0, pytest.approx(3.0))  # two directions that it never sees


@given(variance, variance, size)
def test_the_advantage_is_over_the_better_end(sigma2_loc, tau2, K):
    ends = min(mean_regularized.mse(lam, sigma2_loc, tau2, K) for lam in (0.0, np.inf))
    assert mean_regularized.advantage(sigma2_loc, tau2, K) == pytest.approx(
        ends - mean_regularized.optimal_mse(sigma2_loc, tau2, K), rel=1e-9, abs=1e-13 * ends
    )
    assert mean_regularized.advantage(sigma2_loc, tau2, K) <= mean_regularized.advantage(tau2, tau2, K)


@given(st.lists(variance, min_size=2, max_size=5), variance, st.integers(0, 1))
def test_plain_averaging_loses_the_difference_of_two_errors(sigma2_locs, tau2, k):
    own, others = Fraction(sigma2_locs[k]), [Fraction(s) for i, s in enumerate(sigma2_locs) if i != k]
    spreads = [Fraction(tau2) + s for s in others]
    plain, best = sum(spreads) / len(spreads) ** 2, 1 / sum(1 / v for v in spreads)
    with_plain, with_best = (1 / (1 / own + 1 / (Fraction(tau2) + v)) for v in (plain, best))
    found = mean_regularized.averaging_loss(k, sigma2_locs, tau2)
    assert found == pytest.approx(float(with_plain - with_best), rel=1e-12)


def test_small_losses_keep_their_digits():
    found = mean_regularized.averaging_loss(0, [1.0, 1.0, 1.0 + 2**-30], tau2=1e9)
    spread = Fraction(10**9 + 1)
    excess = Fraction(1, 2**60) / (4 * (2 * spread + Fraction(1, 2**30)))
    plain, best = spread / 2 + Fraction(1, 2**32), spread / 2 + Fraction(1, 2**32) - excess
    assert found == pytest.approx(float(excess / ((10**9 + 1 + plain) * (10**9 + 1 + best))), rel=1e-12)


@pytest.mark.parametrize(("m", "sigma2_theta"), [(4, 0.5), (6, 3.0), (40, 1.0)])
def test_the_conditional_james_stein_risk_averages_to_the_other(m, sigma2_theta):
    """The parameters' sum of squares around their mean is sigma2_theta times a chi-square of m - 1."""

    def at(x):
        theta = np.zeros(m)
        theta[:2] = np.sqrt(x / 2), -np.sqrt(x / 2)
        return gaussian.james_stein_conditional_risk(theta, 2.0, 1) * stats.chi2.pdf(x / sigma2_theta, m - 1) / sigma2_theta

    average = integrate.quad(at, 0, np.inf, epsabs=0, epsrel=1e-10, limit=200)[0]
    assert average == pytest.approx(gaussian.james_stein_risk(m, sigma2_theta, 2.0, 1), rel=1e-8)


def test_the_conditional_james_stein_risk_of_many_alike():
    """At equal parameters it is 3 s / m, however many clients; golden values of mpmath's hyp1f1 beside it."""
    assert gaussian.james_stein_conditional_risk(np.ones(10**6), 2.0, 1) == pytest.approx(6e-6, rel=1e-14)
    theta = [1.0, -1.0, *[0.0] * 998]
    assert gaussian.james_stein_conditional_risk(theta, 1.0, 1) == pytest.approx(0.0049920159283657045, rel=1e-13)


def test_weights_of_tables_are_those_of_their_rows():
    variances = np.array([[1.0, 4.0, 0.5, 2.0], [3.0, 0.25, 1.0, 9.0], [0.1, 0.2, 0.3, 0.4]])
    weights = np.array([[0.1, 0.5, 0.2, 0.2], [1.0, 1.0, 2.0, 3.0], [-0.5, 0.7, 0.8, 0.0]])
    for f in (aggregation.precision_weights, aggregation.eps_weights, aggregation.least_variance):
        rows = np.array([f(row) for row in variances])
        np.testing.assert_allclose(f(variances), rows, rtol=1e-14)
        np.testing.assert_allclose(f(variances.T, axis=0), rows.T, rtol=1e-14)
    for f in (aggregation.aggregate_variance, aggregation.relative_excess, aggregation.excess_variance):
        rows = np.array([f(*pair) for pair in zip(weights, variances, strict=True)])
        np.testing.assert_allclose(f(weights, variances), rows, rtol=1e-13)
        np.testing.assert_allclose(f(weights.T, variances.T, axis=0), rows, rtol=1e-13)
        for unit in (1e-300, 1e300):
            np.testing.assert_allclose(f(weights[0] * unit, variances[0]), rows[0], rtol=1e-13)


@pytest.mark.parametrize(
    ("weights", "variances"),
    [
        ((1.0, 1 + 2.0**-52), (1.0, 1.0)),
        ((1.0, 1e-170), (1e-60, 1e300)),
        ((0.5, 0.5), (1.0, 2.0**600)),
        ((0.3, 0.7), (2.0**-500, 2.0**499)),
        ((1, 3), (2, 5)),
    ],
)
def test_variances_far_apart_have_their_excess_in_fractions(weights, variances):
    w, s = [Fraction(x) / sum(map(Fraction, weights)) for x in weights], [Fraction(x) for x in variances]
    exact = sum(a**2 * b for a, b in zip(w, s, strict=True))
    assert aggregation.aggregate_variance(weights, variances) == pytest.approx(float(exact), rel=1e-14, abs=0)
    if s[1] / s[0] <= 2**1000:
        exact = (w[0] * s[0] - w[1] * s[1]) ** 2 / (s[0] * s[1])
        assert aggregation.relative_excess(weights, variances) == pytest.approx(float(exact), rel=1e-14, abs=0)


def test_variances_as_far_apart_as_may_be():
    pair = aggregation.relative_excess([0.5, 0.5], [1.0, 2.0])
    far = [[2.0**500, 2.0**501], [2.0**-520, 2.0**-519]]  # rows of their own
    assert aggregation.relative_excess([0.5, 0.5], far).tolist() == [pair, pair]
    assert aggregation.relative_excess([0.5, 0.5], [1.0, 2.0**1000]) == pytest.approx(2.0**998, rel=1e-14)
    with pytest.raises(ValueError, match="differ by more than"):
        aggregation.relative_excess([0.5, 0.5], [1.0, 2.0**1000 * (1 + 2.0**-52)])


def test_silos_whose_digits_cancel_are_exact():
    """A strength next to where it has no limit, what averages of all but equal silos lose, and exact silos."""
    tau2, others = 0.3, [1.1, 0.7]
    own = (3 * tau2 + 0.9) * (1 + 3e-15)
    slack = Fraction(tau2) + (sum(map(Fraction, others)) / 2 - Fraction(own)) / 3
    found = mean_regularized.silo_strength(0, [own, *others], tau2)
    assert found == pytest.approx(float(Fraction(own) / slack), rel=1e-14)
    own, others = 3.0, [1e15, 1e15 + 1, 1e15 + 3]
    plain = sum(map(Fraction, others)) / 9
    best = 1 / sum(1 / Fraction(x) for x in others)
    exact = Fraction(own) ** 2 * (plain - best) / ((Fraction(own) + plain) * (Fraction(own) + best))
    assert mean_regularized.averaging_loss(0, [own, *others], 0.0) == pytest.approx(float(exact), rel=1e-13, abs=0)
    for locs, tau2 in (([0.0, 1.0, 1.0], 0.5), ([0.0, 0.0, 1.0], 0.0)):
        assert mean_regularized.silo_mmse_weights(0, locs, tau2).tolist() == [1, 0, 0]
    for unit in (1e-300, 1e300):
        found = mean_regularized.iterated_weights([0.0, 1.0, 3.0], np.array([0.2, 0.5, 0.1]) * unit)
        np.testing.assert_allclose(found, mean_regularized.iterated_weights([0.0, 1.0, 3.0], [2, 5, 1]), rtol=1e-14)


def test_silos_of_strengths_without_end():
    far = mean_regularized.joint_weights([1e30, 1.0, 3.0])
    np.testing.assert_allclose(mean_regularized.joint_weights([np.inf, 1.0, 3.0]), far, rtol=1e-14)
    np.testing.assert_allclose(mean_regularized.joint_weights([np.inf] * 3), np.full((3, 3), 1 / 3), rtol=1e-15)
    assert mean_regularized.local_variance(1.0, 2, np.inf) == np.inf
    assert mean_regularized.mse(0.0, 1.5, np.inf, 4) == mean_regularized.optimal_mse(1.5, np.inf, 4) == 1.5
    assert mean_regularized.mse(2.0, np.inf, 1.0, 4) == mean_regularized.optimal_mse(np.inf, 1.0, 4) == np.inf
    assert mean_regularized.gap_to_local(1.0, np.inf, 4) == mean_regularized.gap_to_fedavg(np.inf, 1.0, 4) == 0


def test_the_conditional_james_stein_risk_does_not_see_where_the_centre_is():
    theta = np.array([0.25, -1.5, 2.5, 0.5])
    risk = gaussian.james_stein_conditional_risk(theta, 1.3, 2)
    assert gaussian.james_stein_conditional_risk(theta + 8, 1.3, 2) == pytest.approx(risk, rel=1e-13)
    for wrong in (theta.reshape(2, 2), 1.0):
        with pytest.raises(ValueError, match="theta must hold"):
            gaussian.james_stein_conditional_risk(wrong, 1.3, 2)


@pytest.mark.parametrize("unit", [1.0, 1e100, 1e-100])
def test_james_stein_shrinks_to_a_value_by_its_distances_to_it(unit):
    """Of 3, -1, 6 and 2 from 2 the squares add to 26; with a value given two clients are lost, else three."""
    x = np.array([3.0, -1.0, 6.0, 2.0])
    found = gaussian.james_stein(x * unit, 1.5 * unit**2, 2.0 * unit)
    np.testing.assert_allclose(found / unit, 2 + (x - 2) * (1 - 2 * 1.5 / 26), rtol=1e-14)
    found = gaussian.james_stein(x[:3] * unit, 1.5 * unit**2, 2.0 * unit)
    np.testing.assert_allclose(found / unit, 2 + (x[:3] - 2) * (1 - 1.5 / 26), rtol=1e-14)
    with pytest.raises(ValueError, match="at least 3 clients"):
        gaussian.james_stein(x[:2], 1.5, 2.0)


def test_clients_and_samples_from_which_on_there_are_answers():
    for call in (lambda m: gaussian.pooling_border(m, 1.0), lambda m: gaussian.pooling_excess(m, 0.3, 1.0)):
        assert np.isfinite(call(4))
        with pytest.raises(ValueError, match="m must be a whole number >= 4"):
            call(3)
    estimates, variances = gaussian.from_samples([[5.0, 5.0], [3.0, 3.0, 3.0]])  # no squares at all are no lost ones
    assert (estimates.tolist(), variances.tolist()) == ([5.0, 3.0], [0.0, 0.0])
    np.testing.assert_allclose(gaussian.from_samples([[5.1, 5.2], [3.0]])[1], [0.0025, 0.005], rtol=1e-12)
    for size, says in ((1e200, r"by 1e\+200"), (1e-200, "by 1e-200")):
        with pytest.raises(ValueError, match=says):
            gaussian.from_samples([[size, -size], [0.0]])


@given(st.lists(st.floats(0, 10), min_size=1, max_size=5), st.floats(0.01, 2))
def test_the_best_psi_minimises(kd, b):
    psi = distillation.best_psi(kd, b)

    def objective(log_psi):
        return sum(np.log(2) / 2 + log_psi / 2 + (k / 2 + b / len(kd)) * np.exp(-log_psi) for k in kd)

    found = optimize.minimize_scalar(objective, bracket=(np.log(psi) - 2, np.log(psi) + 3))
    assert np.exp(found.x) == pytest.approx(psi, rel=1e-5)


def test_strengths_as_large_as_can_be_have_weights():
    """Of huge strengths only their ratios count: 1 / lam_k over the sum."""
    found = mean_regularized.iterated_weights([1e200, 2e200, 4e200])
    np.testing.assert_allclose(found, np.tile([4 / 7, 2 / 7, 1 / 7], (3, 1)), rtol=1e-12)


def test_one_client_is_enough_and_less_is_not():
    gap = aggregation.gap_to_uniform
    assert gap(1, 0, 1.0, 1.0, 1.0) == gap(0, 1, 1.0, 1.0, 1.0) == 0.0
    with pytest.raises(ValueError, match="N_np \\+ N_p must be >= 1"):
        gap(0.5, 0.25, 1.0, 1.0, 1.0)
