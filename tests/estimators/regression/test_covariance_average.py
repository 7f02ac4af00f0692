"""Averages over covariances against routes that share no code: normal means, draws from the law, dense covariances."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import chi2, f, invwishart, kstest, multivariate_t, norm, wishart

from estimators import GaussianMeans, LinearClients
from estimators.regression.covariance_average import (
    Density,
    Nodes,
    average,
    bent,
    drawn,
    even,
    even_cube,
    explored,
    log_law,
    representative,
    weighed,
)
from estimators.regression.covariances import Factor, Levels


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


ROOT = np.array([[1.5, 0.0], [-0.6, 0.4]])


def test_points_are_of_t_laws_and_weighed_by_their_mixture():
    """Five degrees of freedom, by SciPy's densities; squared distances have an F law."""
    mean, uniform = np.array([0.3, -2.0]), even_cube(2048, 3)
    points = drawn(uniform, mean, ROOT)
    stretch = np.sqrt(5 / chi2.isf(uniform[:, 2], 5))
    np.testing.assert_allclose(points, mean + (norm.ppf(uniform[:, :2]) * stretch[:, None]) @ ROOT.T, rtol=1e-9)
    far = np.sum(np.linalg.solve(ROOT, (points - mean).T) ** 2, axis=0) / 2
    assert kstest(far, f(2, 5).cdf).pvalue > 0.01
    logs = -np.sum(points**2, axis=1) / 3
    laws = [(mean, ROOT), (np.zeros(2), 0.7 * np.eye(2)), (np.ones(2), 2 * ROOT)]
    density = sum(multivariate_t(centre, root @ root.T, df=5).pdf(points) for centre, root in laws)
    exact = np.exp(logs) / density
    np.testing.assert_allclose(weighed(points, logs, laws), exact / exact.sum(), rtol=1e-9)
    one = np.exp(logs) / multivariate_t(mean, ROOT @ ROOT.T, df=5).pdf(points)
    np.testing.assert_allclose(weighed(points, logs - 1e4, laws[:1]), one / one.sum(), rtol=1e-9)  # of any unit


class Bell:
    """A normal density of t, as ``Density`` shows its own."""

    def __init__(self, mean, precision):
        self.mean, self.precision = mean, precision

    def loss(self, t):
        away = t - self.mean
        return away @ self.precision @ away / 2, self.precision @ away

    def height(self, t):
        return -self.loss(t)[0], 1.0 + t[0]


def test_a_search_about_a_mode_finds_the_law():
    covariance = ROOT @ ROOT.T
    bell = Bell(np.array([0.4, 1.0]), np.linalg.inv(covariance))
    np.testing.assert_allclose(bent(bell, bell.mean), covariance, rtol=1e-9)
    flat = bent(Bell(np.zeros(2), np.diag([0.01, 5.0])), np.zeros(2))  # where a density is flatter than sd 2
    np.testing.assert_allclose(flat, np.diag([4.0, 0.2]), atol=1e-12)
    n = 256
    for mode in (bell.mean, bell.mean + np.array([1.5, -0.5])):  # where it is, and somewhere beside it
        points, noises, weights = explored(bell, mode, even_cube(8 * n, 3), n)
        assert points.shape == (2 * n, 2)  # one round is not enough, and two are
        assert 1 / np.sum(weights**2) >= 1.5 * n
        np.testing.assert_allclose(noises, 1 + points[:, 0])
        np.testing.assert_allclose(weights @ points, bell.mean, atol=0.02)
        away = points - bell.mean
        np.testing.assert_allclose(np.einsum("n,ni,nj->ij", weights, away, away), covariance, atol=0.05)
    narrow = Bell(np.zeros(2), np.diag([1e8, 1e8]))
    with pytest.warns(RuntimeWarning, match=r"the average over covariances rests on \d+ points"):
        points, _, _ = explored(SimpleNamespace(loss=bell.loss, height=narrow.height), bell.mean, even_cube(24, 3), 12)
    assert len(points) == 24  # as many as there are


@pytest.mark.parametrize("shape", ["full", "diagonal", "scalar"])
def test_the_law_has_the_jacobian_of_what_points_are(shape):
    """Of T = scale E E' by logarithms of diagonals of E and its other entries, at each of two levels, by differences."""
    levels, scales = Levels(Factor(np.eye(2), shape), Factor(np.eye(2), shape), 2), (0.7, 1.9)
    A = np.array([[1.0, 0.3], [0.0, 2.0]])

    def at(*roots, slopes=True):
        loss = sum(np.sum(A * (root @ root.T)) for root in roots)
        return SimpleNamespace(loss=loss, by_root=np.array([(A + A.T) @ root for root in roots]), s=3.0)

    density = Density(at, levels, scales)
    size = len(levels.white.start)

    def entries(t):  # what varies of T, level by level
        parts = [levels.white.inner(part) for part in np.split(np.where(density.positive, np.exp(t), t), 2)]
        T = [scale * E @ E.T for E, scale in zip(parts, scales, strict=True)]
        some = {"full": np.tril_indices(2), "diagonal": ([0, 1], [0, 1]), "scalar": ([0], [0])}[shape]
        return np.concatenate([each[some] for each in T]), T

    def exact(t):
        step = 1e-5 * np.eye(2 * size)
        jacobian = np.array([(entries(t + h)[0] - entries(t - h)[0]) / 2e-5 for h in step])
        laws = [
            -2.5 * np.linalg.slogdet(4 * np.eye(2) + T)[1] if shape == "full"
            else -1.5 * np.log(4 + np.diag(T)[: len(levels.white.start)]).sum() for T in entries(t)[1]
        ]  # fmt: skip
        return sum(laws) + np.linalg.slogdet(jacobian)[1]

    rng = np.random.default_rng(2)
    one, two = rng.normal(size=(2, 2 * size))
    found = [density.law(density.x(t), t)[0] for t in (one, two)]
    assert found[0] - found[1] == pytest.approx(exact(one) - exact(two), abs=1e-6)
    loss, slope = density.loss(one)
    step = 1e-5 * np.eye(2 * size)
    np.testing.assert_allclose(
        slope, [(density.loss(one + h)[0] - density.loss(one - h)[0]) / 2e-5 for h in step], rtol=1e-6, atol=1e-7
    )
    assert density.height(one) == (pytest.approx(-loss), 3.0)


@pytest.mark.parametrize("y", [0.5, 3.0])
def test_nodes_stand_for_the_law_of_one_variance(y):
    """One client, y ~ N(0, 1 + T), T of density (4 + T)^(-3/2): means over nodes are integrals; noises are chi-square."""
    levels = Levels(Factor(np.eye(1), "full"), Factor(np.eye(1), "full"), 1)

    def at(root, slopes=True):
        v = 1 + root[0, 0] ** 2
        slope = root * (1 / v - y**2 / v**2)
        return SimpleNamespace(loss=np.log(v) / 2 + y**2 / (2 * v), by_root=slope, s=2.0)

    nodes, steps, good = average(at, levels, (1.0,), 30.0, 100, 1e-8, 1)
    assert good
    assert steps >= 1
    assert nodes.weights.sum() == pytest.approx(1.0)

    def weight(T):
        return (4 + T) ** -1.5 / np.sqrt(1 + T) * np.exp(-(y**2) / (2 + 2 * T))

    whole = quad(weight, 0, np.inf)[0]
    for function in (lambda T: 1 / (1 + T), lambda T: T / (4 + T), lambda T: np.exp(-T)):
        exact = quad(lambda T, g=function: g(T) * weight(T), 0, np.inf)[0] / whole
        assert nodes.weights @ function(nodes.x[:, 0] ** 2) == pytest.approx(exact, abs=0.01)
    assert nodes.weights @ (2.0 / nodes.s) == pytest.approx(1.0, abs=0.02)
    assert nodes.weights @ (2.0 / nodes.s - 1) ** 2 == pytest.approx(2 / 30, rel=0.15)
    known = average(at, levels, (1.0,), None, 100, 1e-8, 1)[0]
    assert (known.s == 2.0).all()
    np.testing.assert_allclose(known.x, nodes.x)
