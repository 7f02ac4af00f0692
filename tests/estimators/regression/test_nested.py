"""Coefficients that all clients share, and clients within groups: against lme4, brute force, statsmodels, limits."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t

from estimators.regression.client_rows import ClientRows, Groups, RegressionTally, Tallies
from estimators.regression.covariances import Coordinates
from estimators.regression.gauss_hermite import Quadrature
from estimators.regression.linear_clients import LinearClients
from estimators.regression.logistic_clients import LogisticClients
from estimators.regression.nested_linear import centred, evaluate_nested
from estimators.regression.nested_logistic import NestedQuadrature
from tests.estimators.regression.test_gauss_hermite import HERD, SICK, SIZE

ML, REML = "marginal-likelihood", "reml"

# Oats of nlme (Yates 1935): yields of 18 plots, of three varieties in each of the blocks I to VI (Victory, Golden Rain,
# Marvellous), each in four parts with 0, 0.2, 0.4 and 0.6 hundredweight of nitrogen per acre.
YIELDS = np.array([
    [111, 130, 157, 174], [117, 114, 161, 141], [105, 140, 118, 156], [61, 91, 97, 100], [70, 108, 126, 149],
    [96, 124, 121, 144], [68, 64, 112, 86], [60, 102, 89, 96], [89, 129, 132, 124], [74, 89, 81, 122], [64, 103, 132, 133],
    [70, 89, 104, 117], [62, 90, 100, 116], [80, 82, 94, 126], [63, 70, 109, 99], [53, 74, 118, 113], [89, 82, 86, 104],
    [97, 99, 119, 121],
], float)  # fmt: skip
BLOCKS = np.repeat(["I", "II", "III", "IV", "V", "VI"], 3)
NITRO = np.column_stack([np.ones(4), [0.0, 0.2, 0.4, 0.6]])

# lme4 1.1-31, R 4.2, control = lmerControl("bobyqa", optCtrl = list(rhoend = 1e-12)), REML = FALSE or TRUE:
# lmer(yield ~ nitro + (1 | Block:Variety)), (1 | Block/Variety), (1 + nitro | Block/Variety): logLik, sqrt(diag(vcov)),
# VarCorr of plots, of blocks (var, or var, var, cov) and residual, ranef of the first plot and the first block.
# fixef is 81.8722222222 and 73.6666666667 in all.
LME4 = [
    (ML, [1], None, -304.2468569633, [4.725464936, 6.718394992], [288.1955247], [], 162.4925926, 34.20618056, None),
    (REML, [1], None, -299.0327513065, [4.845744236, 6.781479894], [306.7713263], [], 165.5584904, 34.38812765, None),
    (ML, [1], BLOCKS, -302.114503959, [6.38832076, 6.71839500], [121.869907], [166.325612], 162.492593, None, None),
    (REML, [1], BLOCKS, -296.520876658, [6.94528299, 6.78147990], [121.103432], [210.423610], 165.558491, 10.4985624,
     24.9411129),
    (REML, [], BLOCKS, -296.0298765, [6.474914, 7.009706], [77.474763, 55.812465, 65.757566],
     [188.059935, 7.195716, 36.786220], 161.409587, None, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prior", "shared", "groups", "log_likelihood", "errors", "plots", "blocks", "noise", "plot", "block"), LME4
)
def test_equal_to_lme4(prior, shared, groups, log_likelihood, errors, plots, blocks, noise, plot, block):
    model = LinearClients(prior, shared=shared, tol=1e-9).fit([NITRO] * 18, list(YIELDS), groups)
    assert model.converged_
    assert model.log_likelihood_ == pytest.approx(log_likelihood, abs=1e-7)
    np.testing.assert_allclose(model.mu_, [81.8722222222, 73.6666666667], rtol=1e-10)
    np.testing.assert_allclose(np.sqrt(np.diag(model.mu_covariance_)), errors, rtol=1e-6)
    picked = [0] if shared else [0, 3, 1]
    np.testing.assert_allclose(model.covariance_.ravel()[picked], plots, rtol=1e-6)
    if groups is not None:
        np.testing.assert_allclose(model.group_covariance_.ravel()[picked], blocks, rtol=1e-6)
    assert model.sigma2_ == pytest.approx(noise, rel=1e-7)
    around = model.mu_ if groups is None else model.group_mean_[model.groups_.index("I")]
    if plot is not None:
        assert model.posterior_mean_[0, 0] - around[0] == pytest.approx(plot, rel=1e-6)
    if block is not None:
        assert around[0] - model.mu_[0] == pytest.approx(block, rel=1e-6)


def test_pastes():
    """Davies and Goldsmith (1972), as Pastes in lme4 1.1-31, R 4.2: lmer(strength ~ 1 + (1 | batch/cask), Pastes)."""
    strength = [
        62.8, 62.6, 60.1, 62.3, 62.7, 63.1, 60.0, 61.4, 57.5, 56.9, 61.1, 58.9, 58.7, 57.5, 63.9,
        63.1, 65.4, 63.7, 57.1, 56.4, 56.9, 58.6, 64.7, 64.5, 55.1, 55.1, 54.7, 54.2, 58.8, 57.5,
        63.4, 64.9, 59.3, 58.1, 60.5, 60.0, 62.5, 62.6, 61.0, 58.7, 56.9, 57.7, 59.2, 59.4, 65.2,
        66.0, 64.8, 64.1, 54.8, 54.8, 64.0, 64.0, 57.7, 56.8, 58.3, 59.3, 59.2, 59.2, 58.9, 56.6,
    ]  # fmt: skip
    casks = np.array(strength).reshape(30, 2)
    model = LinearClients(REML, tol=1e-9).fit([np.ones((2, 1))] * 30, list(casks), np.repeat(list("ABCDEFGHIJ"), 3))
    found = [model.covariance_[0, 0], model.group_covariance_[0, 0], model.sigma2_]
    np.testing.assert_allclose(found, [8.43366662, 1.65730908, 0.677999984], rtol=1e-6)
    assert model.mu_[0] == pytest.approx(60.0533333333, abs=1e-9)
    assert np.sqrt(model.mu_covariance_[0, 0]) == pytest.approx(0.676870097, rel=1e-6)
    assert model.log_likelihood_ == pytest.approx(-123.495372927, abs=1e-8)


def simulate(seed=0, sizes=(3, 1, 4, 2, 5), d=3, most=6):
    """Clients of 0 to most - 1 rows in groups of those sizes; intercepts vary at both levels, slopes do not."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shift = rng.normal(0, 1.0, len(sizes))[groups] + rng.normal(0, 0.7, len(groups))
    Xs = [np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))]) for n in rng.integers(0, most, len(groups))]
    Ys = [X @ np.arange(1.0, d + 1) + s + rng.normal(0, 0.5, len(X)) for X, s in zip(Xs, shift, strict=True)]
    order = rng.permutation(len(groups))
    return [Xs[i] for i in order], [Ys[i] for i in order], groups[order]


def dense(Xs, groups, inner, outer, sigma2):
    """Covariances of all responses, of all clients' coefficients with them, and of the coefficients, by the definition."""
    m, d = len(Xs), Xs[0].shape[1]
    C = np.kron(np.eye(m), inner) + np.kron(np.equal.outer(groups, groups), outer)
    X = np.zeros((sum(map(len, Xs)), m * d))
    for i, (a, b) in enumerate(pairwise(np.cumsum([0, *map(len, Xs)]))):
        X[a:b, i * d : (i + 1) * d] = Xs[i]
    return X, C, X @ C @ X.T + sigma2 * np.eye(len(X))


@pytest.mark.parametrize("way", [{"shared": [1, 2]}, {"shared": [0]}, {}, {"covariance": "diagonal", "mu": [1.0, 2.0, 3.0]}])
@pytest.mark.parametrize("prior", [ML, REML, "penalised-reml"])
def test_density_and_posteriors_by_the_definition(way, prior):
    Xs, Ys, groups = simulate()
    model = LinearClients(prior, **way).fit(Xs, Ys, groups)
    Y, m, d = np.concatenate(Ys), len(Xs), 3
    X, C, V = dense(Xs, groups, model.covariance_, model.group_covariance_, model.sigma2_)
    ones = np.kron(np.ones((m, 1)), np.eye(d))
    value = multivariate_normal(X @ ones @ model.mu_, V).logpdf(Y)
    counted = prior != ML and "mu" not in way
    if counted:
        information = ones.T @ X.T @ np.linalg.solve(V, X @ ones)
        value += d / 2 * np.log(2 * np.pi) - np.linalg.slogdet(information)[1] / 2
        np.testing.assert_allclose(model.mu_covariance_, np.linalg.inv(information), rtol=1e-8)
    assert model.log_likelihood_ == pytest.approx(value, abs=1e-8)
    gain = C @ X.T @ np.linalg.inv(V)
    mean = ones @ model.mu_ + gain @ (Y - X @ ones @ model.mu_)
    joint = C - gain @ X @ C
    if counted:
        moved = ones - gain @ X @ ones
        joint = joint + moved @ model.mu_covariance_ @ moved.T
    np.testing.assert_allclose(model.posterior_mean_.ravel(), mean, atol=1e-9)
    sums = np.zeros((m * d, m * d))
    for units, loadings in model.terms_:
        flat = np.zeros((m * d, (units.max() + 1) * loadings.shape[2]))
        for i, (unit, loading) in enumerate(zip(units, loadings, strict=True)):
            flat[i * d : (i + 1) * d, unit * loading.shape[1] : (unit + 1) * loading.shape[1]] = loading
        sums += flat @ flat.T
    np.testing.assert_allclose(sums, joint, atol=1e-9)
    np.testing.assert_allclose(model.posterior_covariance_[2], joint[6:9, 6:9], atol=1e-9)
    if "shared" in way:
        assert np.ptp(model.posterior_mean_[:, way["shared"]], axis=0).max() == 0


def test_groups_and_new_clients():
    """A client without rows is a new client of its group; a group whose clients have none is a new group."""
    Xs, Ys, groups = simulate()
    none = np.zeros((0, 3)), np.zeros(0)
    model = LinearClients(shared=[1]).fit([*Xs, none[0], none[0]], [*Ys, none[1], none[1]], [*groups, 2, 99])
    plain = LinearClients(shared=[1]).fit(Xs, Ys, groups)
    X = np.array([[1.0, 0.3, -2.0]])
    for i, group in ((-2, 2), (-1, None)):
        told = model.predict(len(Xs) + 2 + i, X, return_sd=True)
        new = plain.predict(None, X, return_sd=True, group=group)
        np.testing.assert_allclose(told, new, rtol=1e-5)
        np.testing.assert_allclose(model.posterior_mean_[i], plain.predict(group=group), rtol=1e-5)
    assert plain.prior_summary()["sd_between_groups"][1] == 0
    total = np.sqrt(np.diag(plain.covariance_ + plain.group_covariance_))
    np.testing.assert_allclose(plain.prior_summary()["sd"], total)
    with pytest.raises(ValueError, match="group must be one of the groups"):
        plain.predict(group="nowhere")
    with pytest.raises(ValueError, match="leave it out where i is given"):
        plain.predict(0, X, group=2)


def test_slopes_are_those_of_the_value():
    """Of both likelihoods, by both roots, against differences."""
    Xs, Ys, groups = simulate(most=9)
    codes = Groups.read(groups, len(Xs), True)
    rng, h = np.random.default_rng(1), 1e-5
    for prior in (ML, REML):
        data = centred(LinearClients(prior).white(Tallies.read(Xs, Ys), None))
        roots = rng.normal(size=(2, 3, 2))

        def value(roots, data=data):
            return evaluate_nested(data, codes, *roots)

        state = value(roots)
        for place in np.ndindex(roots.shape):
            step = np.zeros(roots.shape)
            step[place] = h
            slope = (value(roots + step).loss - value(roots - step).loss) / (2 * h)
            assert state.by_root[place] == pytest.approx(slope, abs=2e-6)
    rows = ClientRows.read(Xs, [(Y > 2.0).astype(float) for Y in Ys])
    coordinates = Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y))
    one = np.array([[[0.5], [0.2], [0.4]], [[0.3], [-0.3], [0.5]]])
    two = np.concatenate([one, [[[0.1], [0.4], [-0.2]], [[0.3], [0.2], [0.1]]]], axis=2)
    for roots, close in ((one, 2e-4), (two, 2e-3)):
        surface = NestedQuadrature(rows, coordinates, None, 1e-10, codes)
        state, h = surface.at(*roots), 1e-4
        assert state.settled
        for place in list(np.ndindex(roots.shape))[:: roots.shape[2] + 1]:
            step = np.zeros(roots.shape)
            step[place] = h
            slope = (surface.at(*roots + step).loss - surface.at(*roots - step).loss) / (2 * h)
            assert state.by_root[place] == pytest.approx(slope, abs=close)
        for level in (0, 1):  # the slope in the covariance itself gives that in its root
            np.testing.assert_allclose(-2 * state.by_covariance[level] @ roots[level], state.by_root[level], atol=5 * close)


def test_a_wide_law_of_mu_counts_as_scipys_cauchy():
    """Labels that a feature separates: with the law there is a maximum, of the likelihood given mu and the law of mu."""
    Xs, _, groups = simulate(d=2)
    Ys = [(X[:, 1] > 0.1).astype(float) for X in Xs]
    rows, codes = ClientRows.read(Xs, Ys), Groups.read(groups, len(Xs), True)
    coordinates = Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y))
    roots = np.array([[[0.5], [0.2]], [[0.3], [-0.3]]])
    best = NestedQuadrature(rows, coordinates, None, 1e-8, codes, True).at(*roots)
    law = multivariate_t(np.zeros(2), 2.5**2 * np.eye(2), df=1)
    unlikely = law.logpdf(np.zeros(2)) - law.logpdf(best.phi)
    assert best.settled
    assert unlikely > 0.5
    given = NestedQuadrature(rows, coordinates, coordinates.out @ best.phi, 1e-8, codes).at(*roots)
    assert best.law == pytest.approx(unlikely, rel=1e-12)
    assert best.loss == pytest.approx(given.loss + unlikely, abs=1e-8)
    for step in (0.05 * np.eye(2), -0.05 * np.eye(2)):
        for phi in best.phi + step:
            beside = NestedQuadrature(rows, coordinates, coordinates.out @ phi, 1e-8, codes).at(*roots).loss
            assert beside + law.logpdf(np.zeros(2)) - law.logpdf(phi) > best.loss


def test_order_and_units_and_origin_do_not_matter():
    Xs, Ys, groups = simulate(most=9)
    one = LinearClients(REML, shared=[1], tol=1e-8).fit(Xs, Ys, groups)
    order = np.random.default_rng(0).permutation(len(Xs))
    names = np.array(["b", "a", "e", "d", "c"])[groups]
    T = np.array([[1.0, 0.0, 300.0], [0.0, 1e-4, 0.0], [0.0, 0.0, 1e3]])
    two = LinearClients(REML, shared=[1], tol=1e-8).fit(
        [Xs[i] @ T for i in order], [10 * (Ys[i] + 1e7) for i in order], [names[i] for i in order]
    )
    back = two.posterior_mean_ @ T.T / 10 - [1e7, 0, 0]
    np.testing.assert_allclose(back[np.argsort(order)], one.posterior_mean_, atol=1e-4)


def test_tallies_carry_groups():
    Xs, Ys, groups = simulate()
    tallies = [RegressionTally.of(X, Y) for X, Y in zip(Xs, Ys, strict=True)]
    one, two = LinearClients(ML).fit(Xs, Ys, groups), LinearClients(ML).fit(tallies, groups=groups)
    np.testing.assert_allclose(one.posterior_mean_, two.posterior_mean_, atol=1e-6)


@pytest.mark.parametrize("kind", [LinearClients, LogisticClients])
def test_intervals_of_redrawn_clients(kind):
    """Clients redrawn from a fitted prior with groups: 95 % intervals of what varies and of what is shared."""
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(12), 5)
    Xs = [np.column_stack([np.ones(8), rng.normal(size=8)]) for _ in groups]
    odds = [X @ [0.5, 1.0] + a for X, a in zip(Xs, rng.normal(0, 1, 12)[groups] + rng.normal(0, 0.8, 60), strict=True)]
    if kind is LogisticClients:
        Ys = [(rng.random(8) < 1 / (1 + np.exp(-o))).astype(float) for o in odds]
    else:
        Ys = [o + rng.normal(0, 1, 8) for o in odds]
    model, held = kind(shared=[1]).fit(Xs, Ys, groups), []
    for _ in range(20 if kind is LinearClients else 3):
        truth, arguments = model.draw(rng)
        low, high = kind(shared=[1]).fit(*arguments).interval()
        held.append(((low <= truth) & (truth <= high)).mean(axis=0))
    assert np.mean(held, axis=0)[0] > (0.92 if kind is LinearClients else 0.88)
    if kind is LinearClients:
        assert np.mean(held, axis=0)[1] >= 0.8  # one number for all clients, 20 times
    low, high = model.interval()
    assert (high > low).all()
    ranks = model.rank(draws=200)
    np.testing.assert_allclose(ranks.expected[:, 1], 30.5)  # of a shared coefficient all clients have the middle rank
    assert np.ptp(ranks.expected[:, 0]) > 20
    draws = model.posterior_draws(2000, seed=1)
    np.testing.assert_allclose(draws.std(axis=0), model.posterior_sd_, rtol=0.15)
    chances = model.exceedances(slice(0, 3))
    assert chances is not None
    pairs = chances[:, :, 0]
    np.testing.assert_allclose(
        np.mean(draws[:, :3, None, 0] > draws[:, None, :, 0], axis=0) + 0.5 * np.eye(3, 60), pairs, atol=0.06
    )


PERIOD = np.concatenate([np.arange(n) for n in (4, 3, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4)])


def visits():
    """Cattle at each visit of lme4's cbpp: designs with an intercept and the periods 2 to 4, labels, and herds."""
    designs = [np.tile(np.eye(4)[p] + np.eye(4)[0] * (p > 0), (n, 1)) for p, n in zip(PERIOD, SIZE, strict=True)]
    return designs, [(np.arange(n) < k).astype(float) for k, n in zip(SICK, SIZE, strict=True)], HERD


def test_periods_of_cbpp_are_shared_by_herds():
    """R 4.2, lme4: glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), cbpp, binomial, nAGQ = 25)."""
    designs, labels, herds = visits()
    Xs = [np.concatenate([designs[j] for j in np.flatnonzero(herds == h)]) for h in range(15)]
    Ys = [np.concatenate([labels[j] for j in np.flatnonzero(herds == h)]) for h in range(15)]
    model = LogisticClients(ML, shared=[1, 2, 3], tol=1e-8).fit(Xs, Ys)
    np.testing.assert_allclose(model.mu_, [-1.399230452, -0.991403664, -1.127819482, -1.579470728], atol=1e-7)
    assert np.sqrt(model.covariance_[0, 0]) == pytest.approx(0.647518462, abs=1e-7)
    # sqrt(diag(vcov)) is .2335 .3068 .3268 .4276 with the variance's part, .2289 .3054 .3261 .4289 by a quadratic.
    np.testing.assert_allclose(np.sqrt(np.diag(model.mu_covariance_)), [0.2335, 0.3068, 0.3268, 0.4276], rtol=0.02)


def nested_density(mu, within, between):
    """The likelihood of the visits by sums over 300 x 300 places."""
    u = np.linspace(-8, 8, 300)
    w = np.exp(-(u**2) / 2) / np.exp(-(u**2) / 2).sum()
    total = 0.0
    for herd in range(15):
        logs = np.zeros(len(u))
        for j in np.flatnonzero(herd == HERD):
            odds = mu[0] + (mu[PERIOD[j]] if PERIOD[j] else 0) + between * u[:, None] + within * u
            logs += np.log(np.exp(SICK[j] * odds - SIZE[j] * np.logaddexp(0, odds)) @ w)
        total += np.log(np.exp(logs) @ w)
    return total


def test_visits_within_herds():
    """Labels in visits in herds: the likelihood by brute force, at its maximum.

    R 4.2, glmmTMB 1.1.5: glmmTMB(cbind(incidence, size - incidence) ~ period + (1 | herd/obs), cbpp, family = binomial),
    which is Laplace's approximation, as lme4's glmer is with two levels: near, and less likely.
    """
    model = LogisticClients(ML, shared=[1, 2, 3]).fit(*visits())
    assert model.converged_
    sds = np.sqrt([model.covariance_[0, 0], model.group_covariance_[0, 0]])
    here = nested_density(model.mu_, *sds)
    assert model.log_likelihood_ == pytest.approx(here, abs=1e-5)
    laplace = [-1.500291836, -1.226508890, -1.328840478, -1.866264947], 0.891078461, 0.183947119
    assert nested_density(*laplace) < here
    np.testing.assert_allclose(model.mu_, laplace[0], atol=0.02)
    np.testing.assert_allclose(sds, laplace[1:], atol=0.08)
    for factor in (0.97, 1.03):
        assert nested_density(model.mu_, factor * sds[0], sds[1]) < here
        assert nested_density(model.mu_, sds[0], factor * sds[1]) < here
        assert nested_density(factor * model.mu_, *sds) < here
    # A herd's effect by the same sums: the mean of mu + b for the first herd.
    u = np.linspace(-8, 8, 300)
    w = np.exp(-(u**2) / 2)
    logs = np.zeros(300)
    for j in range(4):
        odds = model.mu_[0] + (model.mu_[PERIOD[j]] if PERIOD[j] else 0) + sds[1] * u[:, None] + sds[0] * u
        logs += np.log(np.exp(SICK[j] * odds - SIZE[j] * np.logaddexp(0, odds)) @ w)
    chance = w * np.exp(logs - logs.max())
    assert model.group_mean_[0, 0] == pytest.approx(model.mu_[0] + sds[1] * (chance @ u) / chance.sum(), abs=1e-6)


def test_two_coefficients_within_groups():
    """Likelihood and posterior means by brute force: sums over 25^2 places of a group's effects times 25^2 of a client's."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(3), 2)
    Xs = [np.column_stack([np.ones(7), rng.normal(size=7)]) for _ in groups]
    thetas = [1.0, -1.0] + rng.normal(0, 1, (3, 2))[groups] + rng.normal(0, [1.0, 0.7], (6, 2))
    Ys = [(rng.random(7) < 1 / (1 + np.exp(-X @ t))).astype(float) for X, t in zip(Xs, thetas, strict=True)]
    assert LogisticClients().fit(Xs, Ys, groups).converged_
    model = LogisticClients("penalised", tol=1e-3).fit(Xs, Ys, groups)
    assert model.converged_
    places = np.stack(np.meshgrid(*[np.linspace(-6.4, 6.4, 25)] * 2), axis=-1).reshape(-1, 2)
    mass = np.exp(-np.sum(places**2, axis=1) / 2)
    mass /= mass.sum()
    effects, own = (places @ np.linalg.cholesky(C).T for C in (model.group_covariance_, model.covariance_))
    total, first = 0.0, None
    for g in range(3):
        joint = []  # of each client, over the group's places and its own
        for i in np.flatnonzero(groups == g):
            sign = 2 * Ys[i] - 1
            given = [-np.logaddexp(0, -sign * (Xs[i] @ model.mu_ + effects @ Xs[i].T + own[k] @ Xs[i].T)).sum(axis=1)
                     for k in range(len(own))]  # fmt: skip
            joint.append(np.exp(np.stack(given, axis=1)) * mass)
        clients = [part.sum(axis=1) for part in joint]
        chance = mass * np.prod(clients, axis=0)
        total += np.log(chance.sum())
        if first is None:
            first = chance / chance.sum(), joint[0] / clients[0][:, None]
    assert model.log_likelihood_ == pytest.approx(total, abs=2e-3)
    chance, places_of_client = first
    group = model.mu_ + chance @ effects
    np.testing.assert_allclose(model.group_mean_[0], group, atol=3e-4)
    theta = model.mu_ + effects[:, None] + own
    weights = chance[:, None] * places_of_client
    mean = np.einsum("gk,gkd->d", weights, theta)
    np.testing.assert_allclose(model.posterior_mean_[0], mean, atol=3e-4)


@pytest.mark.parametrize("k", [1, 2])
def test_groups_alike_leave_the_clients_likelihood(k):
    Xs, Ys, groups = simulate(d=2)
    rows = ClientRows.read(Xs, [(Y > 0).astype(float) for Y in Ys])
    coordinates, root = Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y)), np.array([[0.8, 0.0], [0.3, 0.5]])[:, :k]
    codes = Groups.read(groups, len(Xs), True)
    assert codes is not None
    nested = NestedQuadrature(rows, coordinates, None, 1e-8, codes).at(root, 0 * root)
    alone = Quadrature(rows, coordinates, None, 1e-8).at(root)
    assert nested.loss == pytest.approx(alone.loss, abs=1e-3)
    np.testing.assert_allclose(nested.phi, alone.phi, atol=1e-3)
    np.testing.assert_allclose(nested.nu, alone.nu, atol=1e-3)
    np.testing.assert_allclose(nested.cov, alone.cov, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "way", "spoil", "says"),
    [
        (LinearClients, {"shared": [3]}, {}, r"shared must hold different positions .* 0\.\.2"),
        (LinearClients, {"shared": [1, 1]}, {}, "shared must hold different positions"),
        (LinearClients, {"shared": [0, 1, 2]}, {}, "shared must leave a coefficient that varies"),
        (LinearClients, {"shared": [1.5]}, {}, "shared must be a whole number"),
        (LinearClients, {"shared": [1], "covariance": 1.0}, {}, "shared is for a covariance that is learnt"),
        (LinearClients, {"covariance": 1.0}, {}, "groups need a covariance that is learnt"),
        (LinearClients, {}, {"groups": lambda g: g[:-1]}, "groups must have one label per client"),
        (LinearClients, {}, {"groups": lambda g: 0 * g}, "groups must name at least two groups"),
        (LinearClients, {}, {"groups": lambda g: np.arange(len(g))}, "one client per group"),
        (LinearClients, {}, {"groups": lambda g: [None, *g[1:]]}, "holds a missing value"),
        (LinearClients, {"shared": [1, 2]}, {"Xs": lambda X: X[:1], "Ys": lambda Y: Y[:1]}, "interpolates every response"),
        (LogisticClients, {}, {}, "2 coefficients at most that vary, got 3; name the others in shared"),
        (LogisticClients, {"shared": [1, 2], "likelihood": "bound"}, {}, "groups need likelihood='quadrature'"),
    ],
)
def test_bad_input(kind, way, spoil, says):
    Xs, Ys, groups = simulate()
    if kind is LogisticClients:
        Ys = [(Y > 0).astype(float) for Y in Ys]
    if "Xs" in spoil:
        Xs, Ys = map(spoil["Xs"], Xs), map(spoil["Ys"], Ys)
    with pytest.raises(ValueError, match=says):
        kind(**way).fit(list(Xs), list(Ys), spoil.get("groups", lambda g: g)(groups))


def test_few_rows_are_enough_where_slopes_are_shared():
    """Two rows per client and four shared features: sigma2 is told from what is left; one row per client leaves nothing."""
    rng = np.random.default_rng(0)
    Xs = [np.column_stack([np.ones(2), rng.normal(size=(2, 4))]) for _ in range(40)]
    Ys = [X @ np.ones(5) + rng.normal() + rng.normal(0, 0.5, 2) for X in Xs]
    model = LinearClients(shared=[1, 2, 3, 4]).fit(Xs, Ys)
    assert model.sigma2_ == pytest.approx(0.25, rel=0.5)
    with pytest.raises(ValueError, match="more rows than coefficients"):
        LinearClients().fit(Xs, Ys)
    with pytest.raises(ValueError, match="give sigma2"):
        LinearClients(shared=[1, 2, 3, 4]).fit([X[:1] for X in Xs], [Y[:1] for Y in Ys])
    assert LinearClients(shared=[1, 2, 3, 4], sigma2=0.25).fit([X[:1] for X in Xs], [Y[:1] for Y in Ys]).converged_


def test_collinear_and_constant_shared_features():
    """They are unknown by themselves and change nothing else."""
    Xs, Ys, _ = simulate(most=9)
    wide = [np.column_stack([X, 3 * X[:, 1], np.full(len(X), 7.0)]) for X in Xs]
    one, two = LinearClients(shared=[1, 2]).fit(Xs, Ys), LinearClients(shared=[1, 2, 3, 4]).fit(wide, Ys)
    assert np.isinf(two.posterior_sd_[0]).tolist() == [True, True, False, True, True]
    told = [model.predict(4, X, return_sd=True) for model, X in ((one, Xs[5]), (two, wide[5]))]
    np.testing.assert_allclose(told[0], told[1], rtol=1e-4)


def test_separated_labels_are_refused_by_feature():
    """A rare feature all of whose labels are 1 (quasi-separation) has no likeliest slope; the others are fine without it."""
    rng = np.random.default_rng(0)
    Xs = [np.column_stack([np.ones(6), rng.normal(size=6), np.arange(6) == 5]) for _ in range(20)]
    Ys = [np.where(X[:, 2] == 1, 1.0, (rng.random(6) < 0.5) * 1.0) for X in Xs]
    for likelihood in ("quadrature", "bound"):
        with pytest.raises(ValueError, match=r"Ys has labels that Xs\[:, 2\] separates: .* leave out"):
            LogisticClients("penalised", shared=[1, 2], likelihood=likelihood).fit(Xs, Ys)
        model = LogisticClients(shared=[1, 2], likelihood=likelihood).fit(Xs, Ys)
        assert 1 < model.mu_[2] < 15  # the law of mu bounds it
        assert np.sqrt(model.mu_covariance_[2, 2]) > 1
    assert LogisticClients(shared=[1]).fit([X[:, :2] for X in Xs], Ys).converged_


def test_statsmodels_agrees():
    """MixedLM with groups and a variance component of plots, REML; its tolerance is about 1e-4 here."""
    mixed_linear_model = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    X, Y = np.tile(NITRO, (18, 1)), YIELDS.ravel()
    plots = [[np.kron(np.eye(3), np.ones((4, 1)))] * 6]
    spec = mixed_linear_model.VCSpec(["plot"], [[["a", "b", "c"]] * 6], plots)
    theirs = mixed_linear_model.MixedLM(Y, X, np.repeat(BLOCKS, 4), exog_re=np.ones((72, 1)), exog_vc=spec).fit(reml=True)
    ours = LinearClients(REML, shared=[1], tol=1e-8).fit([NITRO] * 18, list(YIELDS), BLOCKS)
    assert theirs.llf == pytest.approx(ours.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(theirs.fe_params, ours.mu_, rtol=1e-6)
    found = [theirs.cov_re[0, 0], theirs.vcomp[0], theirs.scale]
    np.testing.assert_allclose(found, [ours.group_covariance_[0, 0], ours.covariance_[0, 0], ours.sigma2_], rtol=1e-3)
