"""Averages over covariances against routes that share no code: normal means, draws from the law, dense covariances."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import invwishart, wishart

from estimators import GaussianMeans, LinearClients
from estimators.regression.covariance_average import Nodes, even, even_cube, log_law, representative
from estimators.regression.covariances import Factor


def rows_of(m=6, d=2, n=5, seed=0, spread=0.8):
    rng = np.random.default_rng(seed)
    Xs = [np.column_stack([np.ones(k), rng.normal(0.5, 1.0, (k, d - 1))]) for k in rng.integers(n - 1, n + 3, m)]
    thetas = rng.normal(1.0, spread, (m, d))
    return Xs, [X @ t + rng.normal(size=len(X)) for X, t in zip(Xs, thetas, strict=True)]


@pytest.mark.parametrize(("m", "n", "spread"), [(4, 3, 0.0), (6, 4, 1.0), (40, 3, 0.5)])
def test_one_coefficient_is_a_mean(m, n, spread):
    """With an intercept alone and a known noise these are the averages of `GaussianMeans`, by quadrature over tau2."""
    rng = np.random.default_rng(m)
    sizes = rng.integers(1, 2 * n, m)
    Ys = [rng.normal(t, 1.0, k) for t, k in zip(rng.normal(2.0, spread, m), sizes, strict=True)]
    ours = LinearClients(sigma2=1.0).fit([np.ones((k, 1)) for k in sizes], Ys)
    means = GaussianMeans().fit([Y.mean() for Y in Ys], 1 / sizes)
    unit = means.posterior_sd_
    assert ours.converged_
    assert np.abs(ours.posterior_mean_[:, 0] - means.posterior_mean_).max() < 0.01 * unit.min()
    np.testing.assert_allclose(ours.posterior_sd_[:, 0], unit, rtol=0.01)
    ends, expected = np.array(ours.interval())[:, :, 0], np.array(means.interval())
    assert np.abs((ends - expected) / unit).max() < 0.02
    np.testing.assert_allclose(ours.posterior_cdf(2.0)[:, 0], means.posterior_cdf(2.0), atol=0.005)
    assert ours.predict() == pytest.approx(means.predict(), abs=0.01 * unit.min())
    for name, slack in (("mean", 0.05), ("sd", 0.15), ("new client", 0.15)):  # of the tails of few nodes
        stated = ours.prior_interval()[name]
        assert stated[0] == pytest.approx(means.prior_interval()[name], abs=slack * max(means.prior_interval()["sd"]))


def averaged_by_draws(Xs, Ys, known, draws=40_000, seed=1):
    """Posterior means, second moments and shares below 1 of coefficients: relative covariances drawn from the law itself.

    T = 4 A^(1/2) B^-1 A^(1/2) with A, B Wishart of d + 1 and d degrees of freedom has density |4 I + T|^-(d + 1/2); it is
    in units of what a client of average size knows.  Dense covariances of all rows of a client, no elimination.
    """
    rng, d = np.random.default_rng(seed), Xs[0].shape[1]
    n = sum(map(len, Xs))
    unit = np.linalg.cholesky(len(Xs) * np.linalg.inv(sum(X.T @ X for X in Xs)))
    halves = np.linalg.cholesky(wishart(d + 1, np.eye(d)).rvs(draws, random_state=rng))
    root = unit @ (2 * halves) @ np.linalg.cholesky(invwishart(d, np.eye(d)).rvs(draws, random_state=rng))
    log, information, pulls, total, own = np.zeros(draws), np.zeros((draws, d, d)), np.zeros((draws, d)), 0.0, []
    for X, Y in zip(Xs, Ys, strict=True):
        K = np.eye(d) + np.swapaxes(root, 1, 2) @ X.T @ X @ root
        inner = root @ np.linalg.solve(K, np.swapaxes(root, 1, 2))
        log -= np.linalg.slogdet(K)[1] / 2
        information += X.T @ (np.eye(len(X)) - X @ inner @ X.T) @ X
        pulls += (X.T @ (np.eye(len(X)) - X @ inner @ X.T)) @ Y
        total = total + Y @ Y - np.einsum("i,kij,j->k", X.T @ Y, inner, X.T @ Y)
        own.append(inner)
    mu = np.linalg.solve(information, pulls[..., None])[..., 0]
    Q = total - np.einsum("ki,ki->k", pulls, mu)
    log -= np.linalg.slogdet(information)[1] / 2
    free = n - d
    log -= Q / 2 if known else free / 2 * np.log(Q)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    s = np.ones(draws) if known else Q / rng.chisquare(free, draws)
    found = []
    for X, Y, inner in zip(Xs, Ys, own, strict=True):
        mean = mu + np.einsum("kij,kj->ki", inner, X.T @ Y - mu @ (X.T @ X))
        kept = np.eye(d) - inner @ X.T @ X
        error = kept @ np.linalg.solve(information, np.swapaxes(kept, 1, 2))
        sd = np.sqrt(s[:, None] * np.einsum("kii->ki", inner + error))
        first = weights @ mean
        found.append((first, np.sqrt(weights @ (mean**2 + sd**2) - first**2), weights @ ndtr((1.0 - mean) / sd)))
    return [np.array(part) for part in zip(*found, strict=True)], 1 / np.sum(weights**2)


@pytest.mark.parametrize("known", [True, False], ids=["noise known", "noise unknown"])
@pytest.mark.parametrize(("d", "spread"), [(2, 0.3), (2, 1.5), (3, 0.6)])
def test_full_covariances_are_averaged_over_their_law(d, spread, known):
    Xs, Ys = rows_of(d=d, spread=spread)
    (mean, sd, below), effective = averaged_by_draws(Xs, Ys, known)
    model = LinearClients(sigma2=1.0 if known else None).fit(Xs, Ys)
    slack = 4 / np.sqrt(effective)  # of the draws; the law's shape is what this asks for
    assert effective > 1000
    assert model.converged_
    assert np.abs((model.posterior_mean_ - mean) / sd).max() < 0.02 + slack / 2
    np.testing.assert_allclose(model.posterior_sd_, sd, rtol=0.02 + slack)
    np.testing.assert_allclose(model.posterior_cdf(1.0), below, atol=0.01 + slack / 2)
    if known:  # and a law without its factor 4 is told apart
        other = LinearClients(sigma2=1.0, prior="penalised-reml").fit(Xs, Ys)
        assert np.abs(other.posterior_sd_ / sd - 1).max() > 0.02 + slack


def test_coordinates_of_features_do_not_matter():
    Xs, Ys = rows_of(m=12, d=2)
    A = np.array([[2.0, 0.3], [-5.0, 1.5]])
    one, two = LinearClients().fit(Xs, Ys), LinearClients().fit([X @ A for X in Xs], Ys)
    moved = two.posterior_mean_ @ A.T
    assert np.abs((moved - one.posterior_mean_) / one.posterior_sd_).max() < 0.03
    covariance = A @ two.posterior_covariance_ @ A.T
    np.testing.assert_allclose(np.einsum("mii->mi", covariance), one.posterior_sd_**2, rtol=0.05)


@pytest.mark.parametrize("shape", ["full", "diagonal", "scalar"])
def test_slopes_of_the_law(shape):
    factor = Factor(np.eye(3), shape)
    x = factor.start + 0.1 * np.arange(len(factor.start))
    _, slope = log_law(factor, x, 0.7)
    step = 1e-6 * np.eye(len(x))
    found = [(log_law(factor, x + h, 0.7)[0] - log_law(factor, x - h, 0.7)[0]) / 2e-6 for h in step]
    np.testing.assert_allclose(slope, found, rtol=1e-7)


def test_groups_are_averaged_over_too():
    """Posteriors of schools of many classes are those of one covariance; of few they are wider than under it."""
    rng = np.random.default_rng(3)
    widths = []
    for schools in (3, 60):
        groups = np.repeat(np.arange(schools), 4)
        levels = rng.normal(5.0, 1.0, schools)[groups] + rng.normal(0.0, 0.7, len(groups))
        Xs = [np.ones((4, 1))] * len(groups)
        Ys = [rng.normal(level, 1.0, 4) for level in levels]
        model, fixed = LinearClients().fit(Xs, Ys, groups), LinearClients("reml").fit(Xs, Ys, groups)
        widths.append(np.median(model.group_sd_ / fixed.group_sd_))
        mean, sd = model.predict(None, return_sd=False), model.law(None, 0)[1]
        assert mean == pytest.approx(model.mu_)
        assert sd[0, 0] > model.law(0, None)[1][0, 0] * 0.2
    assert widths[0] > 1.05
    assert widths[1] == pytest.approx(1.0, abs=0.05)


def test_draws_pairs_and_copies_agree_with_the_posteriors():
    Xs, Ys = rows_of(m=8, spread=0.5)
    model = LinearClients().fit(Xs, Ys)
    draws = model.posterior_draws(4000, seed=2)
    np.testing.assert_allclose(draws.mean(axis=0), model.posterior_mean_, atol=5 * model.posterior_sd_.max() / 63)
    np.testing.assert_allclose(draws.std(axis=0), model.posterior_sd_, rtol=0.08)
    pairs = model.exceedances(slice(0, 3))
    np.testing.assert_allclose(
        pairs, (draws[:, :3, None] > draws[:, None]).mean(axis=0) + 0.5 * np.eye(8)[:3, :, None], atol=0.04
    )
    low, high = model.interval(0.8)
    np.testing.assert_allclose(((low < draws) & (draws < high)).mean(axis=0), 0.8, atol=0.03)
    np.testing.assert_allclose(model.posterior_cdf(low), 0.1, atol=1e-9)
    assert not model.independent
    copied = pickle.loads(pickle.dumps(model))
    assert copied.posterior_draws(3).tobytes() == model.posterior_draws(3).tobytes()


def test_the_same_bits_and_few_nodes_of_many_clients():
    Xs, Ys = rows_of(m=3000, d=1, n=3, spread=0.3)
    one, two = LinearClients().fit(Xs, Ys), LinearClients().fit(Xs, Ys)
    assert one.posterior_mean_.tobytes() == two.posterior_mean_.tobytes()
    fixed = LinearClients("reml").fit(Xs, Ys)
    assert len(one.average_.weights) <= 66
    np.testing.assert_allclose(one.posterior_sd_, fixed.posterior_sd_, rtol=0.02)
    np.testing.assert_allclose(one.posterior_mean_, fixed.posterior_mean_, atol=0.02 * fixed.posterior_sd_.max())


def test_even_steps_and_points_stand_for_the_whole():
    weights = np.random.default_rng(0).dirichlet(np.ones(500))
    places, shares = even(weights, 40)
    assert shares.sum() == pytest.approx(1.0)
    value = np.linspace(0.0, 1.0, 500)
    assert shares @ value[places] == pytest.approx(weights @ value, abs=0.02)
    cube = even_cube(256, 4)
    assert ((cube > 0) & (cube < 1)).all()
    np.testing.assert_allclose(cube.mean(axis=0), 0.5, atol=0.002)  # independent points are off by .018
    np.testing.assert_allclose(np.corrcoef(cube.T), np.eye(4), atol=0.03)


@pytest.mark.parametrize("shape", ["diagonal", "full"])
def test_the_representative_borrows_as_much_as_the_nodes_on_average(shape):
    """(I + T)^-1 at its parameters is the mean of that at the nodes, in units in which an average client has I."""
    factor, scale, weights = Factor(np.eye(2), shape), 1.7, np.array([0.3, 0.7])
    x = np.array([[0.4, 2.0], [1.5, 0.3]] if shape == "diagonal" else [[0.4, 0.2, 2.0], [1.5, -0.8, 0.3]])
    found = representative(SimpleNamespace(white=factor, count=1), Nodes(x, np.ones(2), weights, np.arange(2)), (scale,))

    def taken(x):
        E = factor.inner(x) if shape == "full" else np.diag(x)
        return np.linalg.inv(np.eye(2) + scale * E @ E.T)

    np.testing.assert_allclose(taken(found), 0.3 * taken(x[0]) + 0.7 * taken(x[1]), rtol=1e-12)
