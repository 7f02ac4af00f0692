"""Averages of logistic regressions over covariances against routes that share no code: dense grids, draws from the laws."""

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import invwishart, wishart

from estimators import LogisticClients


def share_of_ones(Ys):
    """Between 0 and 1, as the scale of the law has it."""
    ones, n = sum(Y.sum() for Y in Ys), sum(map(len, Ys))
    return (ones + 1) / (n + 2)


def by_grids(ones, sizes, ends):
    """Means and sds of clients' log-odds, P(theta <= ends), mean and sd of mu: sums over theta, mu and tau."""
    p = (ones.sum() + 1) / (sizes.sum() + 2)
    theta, mus = np.linspace(-30, 30, 2401), np.linspace(-15, 15, 161)
    T = np.exp(np.linspace(np.log(1e-3), np.log(1e5), 80))  # of the law, uniform in log T
    taus = np.sqrt(T / (p * (1 - p) * sizes.mean()))
    fit = ones[:, None] * log_expit(theta) + (sizes - ones)[:, None] * log_expit(-theta)
    top = fit.max(axis=1)
    x, w = np.polynomial.hermite_e.hermegauss(21)
    logs, parts = [], []
    for t, tau in zip(T, taus, strict=True):
        if tau < 0.3:  # narrower than the grid of theta is good for
            at = mus[:, None] + tau * x
            odds = ones[:, None, None] * log_expit(at) + (sizes - ones)[:, None, None] * log_expit(-at)
            each, weights = np.exp(odds - top[:, None, None]), np.broadcast_to(w / w.sum(), at.shape)
        else:
            at, each = theta, np.exp(fit - top[:, None])[:, None]
            weights = np.exp(-(((theta - mus[:, None]) / tau) ** 2) / 2)
            weights /= weights.sum(axis=1, keepdims=True)
        below = [at <= end[:, None, None] for end in ends]
        whole = np.stack([np.einsum("igt,gt->ig", each * of, weights) for of in (at**0, at, at**2, *below)])
        logs.append(np.log(whole[0]).sum(axis=0) - 1.5 * np.log(4 + t) + np.log(t) - np.log1p((mus / 2.5) ** 2))
        parts.append(whole[1:] / whole[0])
    chance = np.exp(np.array(logs) - logsumexp(logs))
    first, second, low, high = np.einsum("tg,tkig->ki", chance, np.array(parts))
    mu = chance.sum(axis=0) @ mus
    return first, np.sqrt(second - first**2), low, high, mu, np.sqrt(chance.sum(axis=0) @ (mus - mu) ** 2)


@pytest.mark.parametrize(("m", "n", "spread"), [(6, 10, 1.0), (10, 6, 0.3), (20, 10, 0.7)])
def test_intercepts_by_grids(m, n, spread):
    rng = np.random.default_rng(m)
    sizes = rng.integers(n // 2, 2 * n, m)
    ones = rng.binomial(sizes, expit(-0.5 + spread * rng.standard_normal(m)))
    Ys = [np.repeat([1.0, 0.0], [k, s - k]) for k, s in zip(ones, sizes, strict=True)]
    model = LogisticClients().fit([np.ones((s, 1)) for s in sizes], Ys)
    ends = np.array(model.interval())[:, :, 0]
    mean, sd, low, high, mu, error = by_grids(ones, sizes, ends)
    assert np.abs((model.posterior_mean_[:, 0] - mean) / sd).max() < 0.02
    np.testing.assert_allclose(model.posterior_sd_[:, 0], sd, rtol=0.015)
    np.testing.assert_allclose(low, 0.025, atol=0.01)  # of normal laws under every prior
    np.testing.assert_allclose(high, 0.975, atol=0.01)
    assert model.mu_[0] == pytest.approx(mu, abs=0.02 * error)
    assert np.sqrt(model.mu_covariance_[0, 0]) == pytest.approx(error, rel=0.05)
    one = LogisticClients("penalised").fit([np.ones((s, 1)) for s in sizes], Ys)
    assert np.abs(one.posterior_sd_[:, 0] / sd - 1).max() > 0.1  # of one prior taken for true


def by_draws(Xs, Ys, draws=150_000, seed=1):
    """Posterior means and sds of coefficients from covariances, centres and coefficients drawn from their laws.

    T = 4 A^(1/2) B^-1 A^(1/2), A and B Wishart of d + 1 and d degrees of freedom, has density |4 I + T|^-(d + 1/2).
    """
    rng, d, n, p = np.random.default_rng(seed), Xs[0].shape[1], sum(map(len, Xs)), share_of_ones(Ys)
    white = np.linalg.cholesky(n * np.linalg.inv(sum(X.T @ X for X in Xs)))
    halves = np.linalg.cholesky(wishart(d + 1, np.eye(d)).rvs(draws, random_state=rng))
    inverse = np.linalg.cholesky(invwishart(d, np.eye(d)).rvs(draws, random_state=rng))
    root = white @ (2 * halves) @ inverse * np.sqrt(len(Xs) / n / (p * (1 - p)))
    mu = 2.5 * rng.standard_normal((draws, d)) / np.abs(rng.standard_normal((draws, 1))) @ white.T  # Cauchy
    log, each = np.zeros(draws), []
    for X, Y in zip(Xs, Ys, strict=True):
        theta = mu[:, None] + np.einsum("kij,knj->kni", root, rng.standard_normal((draws, 8, d)))
        fit = log_expit((2 * Y - 1) * (theta @ X.T)).sum(axis=2)
        log += logsumexp(fit, axis=1)
        share = np.exp(fit - logsumexp(fit, axis=1)[:, None])
        each.append([np.einsum("kn,kni->ki", share, theta**power) for power in (1, 2)])
    weights = np.exp(log - logsumexp(log))
    first, second = np.einsum("k,ipkd->pid", weights, np.array(each))
    return first, np.sqrt(second - first**2), 1 / np.sum(weights**2)


def test_two_coefficients_by_draws():
    rng = np.random.default_rng(4)
    Xs = [np.column_stack([np.ones(8), rng.normal(0.3, 1.0, 8)]) for _ in range(5)]
    Ys = [(rng.random(8) < expit(X @ rng.normal([0.3, -0.5], 0.6))).astype(float) for X in Xs]
    mean, sd, effective = by_draws(Xs, Ys)
    assert effective > 800
    model, one = LogisticClients().fit(Xs, Ys), LogisticClients("penalised").fit(Xs, Ys)
    assert np.abs((model.posterior_mean_ - mean) / sd).max() < 0.1
    np.testing.assert_allclose(model.posterior_sd_, sd, rtol=0.08)
    assert np.abs(one.posterior_sd_ / sd - 1).max() > 0.2


def test_groups_and_many_coefficients_are_averaged_over_too():
    """Of few clients posteriors are wider than under one covariance; labels that leave a prior without bound have one."""
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(4), 3)
    for d, given in ((1, groups), (3, None)):
        Xs = [np.column_stack([np.ones(12), rng.normal(size=(12, d - 1))]) for _ in groups]
        Ys = [(rng.random(12) < expit(X @ rng.normal(0.2, 0.8, d))).astype(float) for X in Xs]
        model, one = LogisticClients().fit(Xs, Ys, given), LogisticClients("penalised").fit(Xs, Ys, given)
        assert model.converged_
        assert np.mean(model.posterior_sd_ / one.posterior_sd_) > 1.02
        assert not model.independent
        low, high = np.array(model.prior_interval()["sd"])[0]
        assert low**2 < (model.covariance_ + model.group_covariance_)[0, 0] < high**2


def test_the_same_for_other_units_and_labels():
    rng = np.random.default_rng(6)
    Xs = [np.column_stack([np.ones(15), rng.normal(size=15)]) for _ in range(8)]
    Ys = [(rng.random(15) < expit(X @ rng.normal([0.5, 1.0], 0.7))).astype(float) for X in Xs]
    one, two = LogisticClients().fit(Xs, Ys), LogisticClients().fit(Xs, Ys)
    assert one.posterior_mean_.tobytes() == two.posterior_mean_.tobytes()
    flipped = LogisticClients().fit(Xs, [1 - Y for Y in Ys])
    assert np.abs((flipped.posterior_mean_ + one.posterior_mean_) / one.posterior_sd_).max() < 0.03
    A = np.array([[2.0, 0.3], [-5.0, 1.5]])
    moved = LogisticClients().fit([X @ A for X in Xs], Ys)
    assert np.abs((moved.posterior_mean_ @ A.T - one.posterior_mean_) / one.posterior_sd_).max() < 0.05
