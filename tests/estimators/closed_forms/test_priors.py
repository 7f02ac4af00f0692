"""Penalties, losses and population fit: gradients, outside densities, laws, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from estimators.closed_forms import priors, regression

RNG = np.random.default_rng(20)
THETAS = RNG.normal(size=(4, 3))
CENTRE = np.array([0.2, -0.1, 0.4])
WEIGHTS, CENTRES, VARIANCES = [0.2, 0.5, 0.3], RNG.normal(size=(3, 3)), [0.5, 1.0, 2.0]


def data(m=6, n=4, d=2, seed=3):
    """Clients with random designs."""
    gen = np.random.default_rng(seed)
    Xs = [gen.normal(size=(n, d)) for _ in range(m)]
    thetas = gen.normal(1.0, 2.0, size=(m, d))
    return Xs, [X @ t + gen.normal(size=n) for X, t in zip(Xs, thetas, strict=True)], thetas


def slopes(function, at):
    """Central differences."""
    at = np.asarray(at, float)
    return np.array([(function(at + h) - function(at - h)) / 2e-6 for h in 1e-6 * np.eye(at.size)])


def test_penalties_are_minus_outside_log_densities():
    assert priors.gaussian_penalty(THETAS, CENTRE, 0.7)[0] == pytest.approx(
        -stats.norm.logpdf(THETAS, CENTRE, np.sqrt(0.7)).sum(), rel=1e-12
    )
    assert priors.laplace_penalty(THETAS, CENTRE, 0.7)[0] == pytest.approx(
        -stats.laplace.logpdf(THETAS, CENTRE, 0.7).sum(), rel=1e-12
    )
    density = sum(
        w * stats.multivariate_normal(mu, v).pdf(THETAS) for w, mu, v in zip(WEIGHTS, CENTRES, VARIANCES, strict=True)
    )
    assert priors.mixture_penalty(THETAS, WEIGHTS, CENTRES, VARIANCES)[0] == pytest.approx(-np.log(density).sum(), rel=1e-12)


@pytest.mark.parametrize(
    "penalty",
    [
        lambda t: priors.gaussian_penalty(t, CENTRE, 0.7),
        lambda t: priors.laplace_penalty(t, CENTRE, 0.7),
        lambda t: priors.mixture_penalty(t, WEIGHTS, CENTRES, VARIANCES),
    ],
)
def test_penalty_gradients(penalty):
    found = penalty(THETAS)[1]
    assert found.ravel() == pytest.approx(slopes(lambda t: penalty(t.reshape(4, 3))[0], THETAS.ravel()), abs=1e-7)


def test_loss_gradients_and_outside_likelihoods():
    X, theta = RNG.normal(size=(5, 3)), np.array([0.3, -1.0, 2.0])
    Y, labels = RNG.normal(size=5), np.array([0, 1, 1, 0, 1])
    value, gradient = priors.gaussian_loss(X, Y, theta, 0.4)
    assert value == pytest.approx(-stats.norm.logpdf(Y, X @ theta, np.sqrt(0.4)).sum(), rel=1e-12)
    assert gradient == pytest.approx(slopes(lambda t: priors.gaussian_loss(X, Y, t, 0.4)[0], theta), abs=1e-6)
    value, gradient = priors.logistic_loss(X, labels, theta)
    odds = np.exp(X @ theta)
    assert value == pytest.approx(-stats.bernoulli.logpmf(labels, odds / (1 + odds)).sum(), rel=1e-12)
    assert gradient == pytest.approx(slopes(lambda t: priors.logistic_loss(X, labels, t)[0], theta), abs=1e-6)


@given(z=st.floats(-1e4, 1e4))
def test_logistic_loss_survives_extremes(z):
    value, gradient = priors.logistic_loss([[1.0]], [1], [z])
    assert np.isfinite(value)
    assert -1 <= gradient[0] <= 0
    assert value >= max(0.0, -z)


def test_mixture_far_away_is_its_nearest_component():
    value, gradient = priors.mixture_penalty([[1e6]], [0.5, 0.5], [[0.0], [1e6]], [1.0, 1.0])
    assert value == pytest.approx(np.log(2) + np.log(2 * np.pi) / 2)
    assert gradient[0, 0] == pytest.approx(0.0, abs=1e-12)


def test_joint_objective_falls_without_end_and_the_marginal_does_not():
    Xs, Ys, _ = data()
    same = np.ones((6, 2))
    joint = [priors.joint_objective(Xs, Ys, same, 1.0, v, 1.0) for v in (1e-2, 1e-20, 1e-200)]
    assert joint[0] > joint[1] > joint[2]
    assert joint[2] < -2000
    marginal = [priors.marginal_objective(Xs, Ys, 1.0, v, 1.0)[0] for v in (1e-20, 1e-200)]
    assert marginal[0] == pytest.approx(marginal[1])


def test_marginal_objective_against_outside_density_and_differences():
    Xs, Ys, _ = data()
    outside = -sum(
        stats.multivariate_normal(X @ [0.5, 1.0], 1.5 * X @ X.T + 0.8 * np.eye(4)).logpdf(Y)
        for X, Y in zip(Xs, Ys, strict=True)
    )
    value, (by_mu, by_v, by_s) = priors.marginal_objective(Xs, Ys, [0.5, 1.0], 1.5, 0.8)
    assert value == pytest.approx(outside, rel=1e-12)
    found = slopes(lambda z: priors.marginal_objective(Xs, Ys, z[:2], z[2], z[3])[0], [0.5, 1.0, 1.5, 0.8])
    assert [*by_mu, by_v, by_s] == pytest.approx(found, abs=1e-5)


def test_fisher_identity_for_any_shape():
    """generative:eq19:fisher with two features and four samples."""
    Xs, Ys, _ = data(m=1)
    mean, C = regression.posterior(Xs[0], Ys[0], [0.5, 1.0], 1.5, 0.8)
    _, (by_mu, by_v, by_s) = priors.marginal_objective(Xs, Ys, [0.5, 1.0], 1.5, 0.8)
    off, rest = mean - [0.5, 1.0], Ys[0] - Xs[0] @ mean
    assert by_mu == pytest.approx(-off / 1.5)
    assert by_v == pytest.approx(2 / (2 * 1.5) - (off @ off + np.trace(C)) / (2 * 1.5**2))
    assert by_s == pytest.approx(4 / (2 * 0.8) - (rest @ rest + np.trace(Xs[0] @ C @ Xs[0].T)) / (2 * 0.8**2))


def test_em_never_lowers_the_likelihood_and_ends_at_the_optimum():
    Xs, Ys, _ = data(m=30, seed=5)
    state = (np.zeros(2), 0.5, 3.0)
    last = priors.marginal_objective(Xs, Ys, *state)[0]
    for _ in range(25):
        state = priors.em_step(Xs, Ys, *state)
        value = priors.marginal_objective(Xs, Ys, *state)[0]
        assert value <= last + 1e-9
        last = value
    fit = priors.fit_population(Xs, Ys, tol=1e-14)
    assert fit.converged
    _, (by_mu, by_v, by_s) = priors.marginal_objective(Xs, Ys, fit.mu, fit.sigma2_theta, fit.sigma2_x)
    assert [*by_mu, by_v, by_s] == pytest.approx([0, 0, 0, 0], abs=1e-3)
    outside = optimize.minimize(
        lambda z: priors.marginal_objective(Xs, Ys, z[:2], np.exp(z[2]), np.exp(z[3]))[0], np.zeros(4), method="BFGS"
    )
    assert -fit.log_likelihood == pytest.approx(outside.fun, rel=1e-8)


def test_a_fit_step_by_step():
    """From every client's least squares, by steps of `em_step`, until a step gains too little."""
    Xs, Ys, _ = data(m=8, n=5)
    own = np.array([np.linalg.lstsq(X, Y, rcond=None)[0] for X, Y in zip(Xs, Ys, strict=True)])
    rss = sum(np.sum((Y - X @ t) ** 2) for X, Y, t in zip(Xs, Ys, own, strict=True))
    mu, s = own.mean(axis=0), rss / 40
    state = mu, np.mean((own - mu) ** 2), s
    assert state[1] > s
    logs = [-priors.marginal_objective(Xs, Ys, *state)[0]]
    whole = priors.fit_population(Xs, Ys, tol=1e-4)
    for k in range(1, whole.n_iter + 1):
        state = priors.em_step(Xs, Ys, *state)
        logs.append(-priors.marginal_objective(Xs, Ys, *state)[0])
        fit = priors.fit_population(Xs, Ys, max_iter=k, tol=1e-4)
        np.testing.assert_allclose(fit.mu, state[0], rtol=1e-10)
        assert (fit.sigma2_theta, fit.sigma2_x, fit.log_likelihood) == pytest.approx((*state[1:], logs[-1]), rel=1e-10)
        assert (fit.n_iter, fit.converged) == (k, k == whole.n_iter)
    enough = np.diff(logs) <= 1e-4 * (1 + np.abs(logs[1:]))
    assert np.flatnonzero(enough).tolist() == [whole.n_iter - 1]
    assert whole.n_iter > 3
    alike = [np.ones((4, 1))] * 6, [np.array([0.0, 1.0, 2.0, 3.0])] * 6  # no client is apart: spread as in the noise
    first = priors.fit_population(*alike, max_iter=1)
    assert first.sigma2_theta == pytest.approx(priors.em_step(*alike, [1.5], 1.25, 1.25)[1], rel=1e-12)


def test_fit_with_equal_clients_finds_no_spread():
    gen = np.random.default_rng(8)
    fit = priors.fit_population([np.ones((4, 1))] * 50, [1.0 + gen.normal(size=4) for _ in range(50)])
    assert fit.sigma2_theta < 0.1
    assert fit.n_iter >= 1


def test_best_variance_is_the_minimum_of_the_penalised_joint_objective():
    best = priors.best_variance(THETAS, CENTRE, b=0.5)
    found = optimize.minimize_scalar(
        lambda v: priors.gaussian_penalty(THETAS, CENTRE, v)[0] + 0.5 / v, bounds=(1e-3, 10), method="bounded"
    )
    assert best == pytest.approx(found.x, rel=1e-4)


def test_without_a_penalty_the_best_variance_is_the_mean_square_around_the_centre():
    assert priors.best_variance(THETAS, CENTRE) == pytest.approx(np.mean((THETAS - CENTRE) ** 2), rel=1e-12)
    assert priors.best_variance([[2.0], [2.0]], 2.0) == 0.0  # which collapses with the parameters


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: priors.gaussian_penalty(THETAS, CENTRE, 0.0), "sigma2_theta"),
        (lambda: priors.gaussian_penalty(THETAS, [1.0], 1.0), "mu"),
        (lambda: priors.gaussian_penalty([1.0], 0.0, 1.0), "thetas"),
        (lambda: priors.laplace_penalty(THETAS, CENTRE, -1.0), "b"),
        (lambda: priors.laplace_penalty([[np.nan]], 0.0, 1.0), "thetas"),
        (lambda: priors.mixture_penalty(THETAS, [0.5, 0.6, 0.1], CENTRES, VARIANCES), "p must add to one"),
        (lambda: priors.mixture_penalty(THETAS, WEIGHTS, CENTRES, [1.0]), "sigma2_thetas"),
        (lambda: priors.logistic_loss([[1.0]], [2], [0.0]), "Y"),
        (lambda: priors.gaussian_loss([[1.0]], [2.0, 1.0], [0.0], 1.0), "Y"),
        (lambda: priors.gaussian_loss([[1.0]], [2.0], [0.0, 1.0], 1.0), "theta"),
        (lambda: priors.joint_objective([], [], THETAS, 0.0, 1.0, 1.0), "Xs"),
        (lambda: priors.joint_objective([[[1.0]]], [[1.0]], THETAS, 0.0, 1.0, 1.0), "thetas"),
        (lambda: priors.marginal_objective([[[1.0]]], [[1.0, 2.0]], 0.0, 1.0, 1.0), "Ys"),
        (lambda: priors.marginal_objective([[[1.0]]], [[1.0]], 0.0, [1.0], 1.0), "sigma2_theta"),
        (lambda: priors.fit_population([[[1.0]]], [[1.0]]), "Xs"),
        (lambda: priors.fit_population([[[1.0]], [[2.0]]], [[1.0], [3.0]]), "interpolates"),
        (lambda: priors.fit_population([[[1.0]], [[2.0]]], [[-1.0], [-3.0]]), "interpolates"),
        (lambda: priors.fit_population([[[1.0], [2.0]]] * 2, [[0.0, 0.0]] * 2), "interpolates"),
        (lambda: priors.gaussian_loss([1.0, 2.0], [1.0, 2.0], 0.5, 1.0), "X must have shape"),
        (lambda: priors.gaussian_loss(np.empty((0, 2)), [], [0.0, 0.0], 1.0), "X must have shape"),
        (lambda: priors.best_variance(THETAS, CENTRE, b=-1.0), "b"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


def test_fit_takes_clients_with_fewer_samples_than_coefficients():
    gen = np.random.default_rng(9)
    Xs = [gen.normal(size=(n, 3)) for n in (1, 2, 3, 8, 9, 10, 12, 7)]
    Xs[4][:, 2] = 0.0  # rank-deficient
    Ys = [X @ gen.normal(1.0, 1.0, size=3) + 0.5 * gen.normal(size=len(X)) for X in Xs]
    fit = priors.fit_population(Xs, Ys)
    value = priors.marginal_objective(Xs, Ys, fit.mu, fit.sigma2_theta, fit.sigma2_x)[0]
    assert fit.log_likelihood == pytest.approx(-value, rel=1e-12)
    means, _ = regression.posterior_all(Xs, Ys, fit.mu, fit.sigma2_theta, fit.sigma2_x)
    assert fit.thetas == pytest.approx(means)
