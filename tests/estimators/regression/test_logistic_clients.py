"""Logistic regressions of many clients: against quadrature, limits, equivariance, bad input."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from scipy.io import loadmat
from scipy.special import expit, log_expit

from estimators.numerics.logistic_normal import logistic_normal
from estimators.regression import logistic_clients
from estimators.regression.client_rows import ClientRows, Groups, Tallies
from estimators.regression.covariances import Coordinates
from estimators.regression.logistic_clients import Bound, LogisticClients, mixed, separating

ML = "marginal-likelihood"


@pytest.mark.parametrize("mean", [-30.0, -2.0, 0.0, 0.7, 12.0])
@pytest.mark.parametrize("variance", [1e-4, 0.5, 9.0, 400.0])
def test_averages_by_quadrature(mean, variance):
    sd = np.sqrt(variance)

    def average(f):
        at = sorted({-9.0, 9.0, *np.clip([-mean / sd - 1 / sd, -mean / sd, 1 / sd - mean / sd], -9, 9)})
        return integrate.quad(
            lambda z: f(mean + sd * z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi), -9, 9, points=at, limit=200, epsabs=1e-12
        )[0]

    ours = logistic_normal(mean, variance)
    for one, f in zip(ours, (lambda x: -log_expit(-x), expit, lambda x: expit(x) * expit(-x)), strict=True):
        assert one == pytest.approx(average(f), abs=2e-8)


def test_averages_at_the_limits():
    np.testing.assert_allclose(logistic_normal(1.5, np.inf)[1], 0.5)
    np.testing.assert_allclose(logistic_normal(1.5, 0.0)[1], expit(1.5), atol=1e-8)
    with pytest.raises(ValueError, match="variance must be >= 0"):
        logistic_normal(0.0, -1.0)


def intercepts(m, n, mu, v, seed):
    """Clients with random intercepts only."""
    rng = np.random.default_rng(seed)
    thetas = mu + np.sqrt(v) * rng.standard_normal(m)
    return [np.ones((n, 1))] * m, [(rng.random(n) < expit(t)).astype(float) for t in thetas], thetas


NODES, MASSES = np.polynomial.hermite_e.hermegauss(60)


def quadrature(counts, n, mu, v):
    """Log-likelihood of random intercepts by Gauss-Hermite quadrature centred at each posterior's mode, 60 nodes."""
    s, t = np.sqrt(v), np.zeros(len(counts))
    for _ in range(100):
        p = expit(mu + s * t)
        t = t + np.clip((s * (counts - n * p) - t) / (1 + v * n * p * (1 - p)), -1, 1)
    p = expit(mu + s * t)
    sd = 1 / np.sqrt(1 + v * n * p * (1 - p))
    u = t[:, None] + sd[:, None] * NODES
    odds = mu + s * u
    logs = counts[:, None] * odds + n * log_expit(-odds) - u**2 / 2 + NODES**2 / 2
    top = logs.max(axis=1)
    laplace = counts * (mu + s * t) + n * log_expit(-mu - s * t) - t**2 / 2 + np.log(sd)
    total = top + np.log(np.exp(logs - top[:, None]) @ MASSES / np.sqrt(2 * np.pi) * sd)
    return total.sum(), laplace.sum(), (mu + s * t, v * sd**2)


@pytest.mark.parametrize(("n", "mu", "v", "least"), [(5, 0.0, 1.0, -0.0), (2, 0.0, 1.0, -0.0), (20, -2.5, 2.0, -0.05)])
def test_the_bound_is_one_and_its_maximum_near_the_best(n, mu, v, least):
    """Against quadrature on 100 clients: below the likelihood, and its maximum loses less of it than the alternatives'.

    Where labels are rare the Laplace approximation is a little nearer: at most 0.05 nats.
    """
    Xs, Ys, _ = intercepts(100, n, mu, v, 3)
    counts = np.array([Y.sum() for Y in Ys])
    model = LogisticClients(ML).fit(Xs, Ys)
    exact = quadrature(counts, n, model.mu_[0], model.covariance_[0, 0])[0]
    assert exact - 2.0 < model.log_likelihood_ <= exact + 1e-6

    def climb(which):
        loss = lambda x: -quadrature(counts, n, x[0], np.exp(x[1]))[which]  # noqa: E731
        return optimize.minimize(loss, [mu, np.log(v)], method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-5})

    best, laplace = climb(0), climb(1)
    lost = -best.fun - exact
    assert -1e-4 <= lost < 0.9
    assert -best.fun - quadrature(counts, n, laplace.x[0], np.exp(laplace.x[1]))[0] - lost > least
    centre, spread = mu, v
    for _ in range(200):  # expectation-maximisation with mode and curvature for mean and variance
        modes, variances = quadrature(counts, n, centre, spread)[2]
        centre, spread = modes.mean(), np.mean(variances + (modes - modes.mean()) ** 2)
    assert lost < -best.fun - quadrature(counts, n, centre, spread)[0]
    assert model.covariance_[0, 0] > spread


def simulate(m=60, seed=0, n=12):
    rng = np.random.default_rng(seed)
    thetas = rng.normal([0.5, -1.0, 0.0], [1.0, 0.5, 0.8], (m, 3))
    Xs = [np.column_stack([np.ones(k), rng.normal(size=(k, 2))]) for k in rng.integers(1, n, m)]
    return Xs, [(rng.random(len(X)) < expit(X @ t)).astype(float) for X, t in zip(Xs, thetas, strict=True)], thetas


@pytest.mark.parametrize("covariance", ["full", "diagonal", "scalar"])
def test_stationary_in_prior_and_posteriors(covariance):
    """The conditions of the maximum, each by its own formula: mu and Sigma are averages over posteriors that fit them."""
    Xs, Ys, _ = simulate()
    model = LogisticClients(ML, covariance=covariance, tol=1e-6).fit(Xs, Ys)
    assert model.converged_
    gaps = model.posterior_mean_ - model.mu_
    np.testing.assert_allclose(gaps.mean(axis=0), 0, atol=1e-4)
    average = np.mean(model.posterior_covariance_ + gaps[:, :, None] * gaps[:, None, :], axis=0)
    if covariance == "scalar":
        np.testing.assert_allclose(np.trace(average), np.trace(model.covariance_), rtol=2e-4)
    elif covariance == "diagonal":
        np.testing.assert_allclose(np.diag(average), np.diag(model.covariance_), atol=2e-4)
    else:
        np.testing.assert_allclose(average, model.covariance_, atol=5e-4)
    if covariance == "full":
        return
    precision = np.linalg.inv(model.covariance_ + 1e-12 * np.eye(3))
    for X, Y, mean, C in zip(Xs, Ys, model.posterior_mean_, model.posterior_covariance_, strict=True):
        _, p, w = logistic_normal(X @ mean, np.einsum("nj,jk,nk->n", X, C, X))
        assert np.abs(model.covariance_ @ X.T @ (Y - p) - (mean - model.mu_)).max() < 1e-4
        np.testing.assert_allclose(C @ (precision + X.T @ (w[:, None] * X)), np.eye(3), atol=1e-3)


def test_units_and_directions_do_not_matter():
    Xs, Ys, _ = simulate()
    T = np.array([[1.0, 0.0, 30.0], [0.0, 0.01, 0.0], [0.0, 0.5, 100.0]])
    one, two = LogisticClients(ML, tol=1e-6).fit(Xs, Ys), LogisticClients(ML, tol=1e-6).fit([X @ T for X in Xs], Ys)
    assert two.log_likelihood_ == pytest.approx(one.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(two.posterior_mean_ @ T.T, one.posterior_mean_, atol=1e-2)
    flipped = LogisticClients(ML, tol=1e-6).fit(Xs, [1 - Y for Y in Ys])
    assert flipped.log_likelihood_ == pytest.approx(one.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(flipped.posterior_mean_, -one.posterior_mean_, atol=1e-2)


def test_separable_one_sided_and_empty_clients():
    Xs, Ys, _ = simulate()
    odd = [np.column_stack([np.ones(4), [-2.0, -1, 1, 2], np.zeros(4)]), np.ones((5, 3)), np.zeros((0, 3))]
    model = LogisticClients(ML, covariance="diagonal").fit([*Xs, *odd], [*Ys, [0, 0, 1, 1], np.ones(5), np.zeros(0)])
    assert np.isfinite(model.posterior_mean_).all()
    np.testing.assert_allclose(model.posterior_mean_[-1], model.mu_, atol=1e-9)
    np.testing.assert_allclose(model.posterior_covariance_[-1], model.covariance_, atol=1e-9)
    assert model.posterior_mean_[-3, 1] > model.mu_[1]
    assert model.borrowed_[-1] == pytest.approx(1.0)
    new, last = model.predict_proba(None, [[1.0, 0, 0]]), model.predict_proba(62, [[1.0, 0, 0]])
    np.testing.assert_allclose(new, last, atol=1e-9)
    assert new == pytest.approx(logistic_normal(model.mu_[:1], model.covariance_[0, :1])[1])
    assert model.predict(60, [[1.0, 5.0, 0.0]]).tolist() == [1]


def test_known_priors():
    Xs, Ys, _ = simulate()
    model = LogisticClients(ML, mu=[0.5, -1.0, 0.0], covariance=[1.0, 0.25, 0.64]).fit(Xs, Ys)
    assert model.converged_
    assert model.mu_.tolist() == [0.5, -1.0, 0.0]
    learnt = LogisticClients(ML).fit(Xs, Ys)
    assert learnt.log_likelihood_ > model.log_likelihood_
    half = LogisticClients(ML, covariance=[1.0, 0.25, 0.64]).fit(Xs, Ys)
    assert model.log_likelihood_ < half.log_likelihood_ < learnt.log_likelihood_
    none = LogisticClients(ML, mu=0.0, covariance=0.0).fit(Xs, Ys)
    assert none.log_likelihood_ == pytest.approx(-np.log(2) * sum(len(Y) for Y in Ys), rel=1e-7)
    assert LogisticClients(ML, mu=0.0).fit([np.ones((9, 1))] * 3, [np.ones(9), np.ones(9), np.zeros(9)]).mu_ == [0.0]


def test_the_penalty_keeps_variances_from_zero():
    """Equal clients: the bound is largest at a variance of 0 or near it, the penalised one is not, and weighs both."""
    rng = np.random.default_rng(4)
    Xs = [np.column_stack([np.ones(6), rng.normal(size=6)]) for _ in range(30)]
    Ys = [(rng.random(6) < expit(X @ [0.3, 1.0])).astype(float) for X in Xs]
    plain, kept = LogisticClients(ML).fit(Xs, Ys), LogisticClients(prior="penalised").fit(Xs, Ys)
    assert kept.converged_
    assert np.linalg.eigvalsh(kept.covariance_)[0] > max(1e-3, np.linalg.eigvalsh(plain.covariance_)[0])
    assert kept.log_likelihood_ <= plain.log_likelihood_ + 1e-6
    best = kept.log_likelihood_ + np.linalg.slogdet(kept.covariance_)[1] / 2
    for factor in (0.8, 1.25):  # nearby covariances are worse for likelihood and penalty together
        near = LogisticClients(ML, covariance=factor * kept.covariance_).fit(Xs, Ys)
        assert near.log_likelihood_ + np.linalg.slogdet(near.covariance_)[1] / 2 < best


def test_unseen_directions():
    Xs, Ys, _ = simulate()
    model = LogisticClients(ML, covariance="diagonal").fit([np.column_stack([X, np.zeros(len(X))]) for X in Xs], Ys)
    assert np.isinf(model.posterior_sd_[:, 3]).all()
    assert model.predict_proba(0, [[1.0, 0, 0, 1]]) == pytest.approx(0.5, abs=1e-12)


def test_a_prior_that_is_all_known_knows_directions_that_are_not_seen():
    Xs, Ys = [np.column_stack([np.ones(6), np.zeros(6)])] * 2, [[0, 1, 1, 0, 1, 1], [1, 0, 0, 0, 1, 0]]
    for way in ({}, {"mu": 0.3}, {"covariance": 1.5}):
        model = LogisticClients(ML, **{"covariance": "diagonal", **way}).fit(Xs, Ys)
        assert np.isinf(model.posterior_sd_).tolist() == [[False, True]] * 2
    known = LogisticClients(ML, mu=0.3, covariance=1.5).fit(Xs, Ys)
    assert known.unseen_.shape == (2, 0)
    np.testing.assert_allclose(known.posterior_sd_[:, 1], np.sqrt(1.5))
    assert (known.n_iter_, known.converged_) == (0, True)
    Xs = [[[1.0, 0.4], [1.0, -0.7], [1.0, 2.0]], [[1.0, -1.3], [1.0, 0.2], [1.0, 0.1]]]
    borrowing = LogisticClients(ML, mu=0.3, covariance=[1.5, 0.4]).fit(Xs, [[0, 1, 1], [1, 0, 0]])
    left = np.einsum("mii,i->m", borrowing.posterior_covariance_, 1 / np.array([1.5, 0.4]))
    np.testing.assert_allclose(borrowing.borrowed_, left / 2, rtol=1e-6)


def test_two_labels_of_a_client_are_enough_and_defaults_are_as_said():
    model = LogisticClients(ML).fit([np.ones((2, 1))] * 6, [[0, 1], [1, 1], [0, 0], [1, 1], [0, 1], [1, 1]])
    assert model.converged_
    assert LogisticClients().get_params()["max_iter"] == 1000


@pytest.mark.parametrize(
    ("way", "spoil", "says"),
    [
        ({}, lambda Xs, Ys: (Xs, [Y + 1 for Y in Ys]), "only 0 and 1"),
        ({}, lambda Xs, Ys: (Xs, [0 * Y for Y in Ys]), "one label only"),
        ({}, lambda Xs, Ys: (Xs[:1], Ys[:1]), "two clients"),
        ({"mu": 0.0}, lambda Xs, Ys: (Xs[:1], Ys[:1]), "two clients"),
        ({"covariance": 1.0}, lambda Xs, Ys: (Xs[:1], Ys[:1]), "two clients"),
        ({}, lambda Xs, Ys: ([Xs[0], Xs[1][:0]], [Ys[0], Ys[1][:0]]), "two clients"),
        ({}, lambda Xs, Ys: ([X * np.nan for X in Xs], Ys), r"Xs\[0\] holds NaN"),
        ({"prior": "best"}, lambda Xs, Ys: (Xs, Ys), "prior must be one of"),
        ({"covariance": "round"}, lambda Xs, Ys: (Xs, Ys), "covariance must be one of"),
        ({"mu": [1.0, 2.0]}, lambda Xs, Ys: (Xs, Ys), "mu must be"),
    ],
)
def test_bad_input(way, spoil, says):
    Xs, Ys, _ = simulate(8)
    with pytest.raises(ValueError, match=says):
        LogisticClients(**{"prior": ML, **way}).fit(*spoil(Xs, Ys))


def test_not_converged_is_said():
    Xs, Ys, _ = simulate()
    with pytest.warns(UserWarning, match="max_iter=1"):
        assert not LogisticClients(ML, max_iter=1).fit(Xs, Ys).converged_


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """100 clients of 30 labels, 5 replicates: 500 events, standard error 1 point; 5 points are 5 of them."""
    Xs, Ys, _ = intercepts(100, 30, -1.0, 1.0, 1)
    model, rng, held = LogisticClients(ML).fit(Xs, Ys), np.random.default_rng(2), []
    for _ in range(5):
        truth, arguments = model.draw(rng)
        low, high = LogisticClients(ML).fit(*arguments).interval()
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert abs(np.mean(held) - 0.95) < 0.05


def test_landmine_fields(shared_data):
    """29 fields, half of each held out: probabilities of the learnt prior beat those of one fit for all fields."""
    data = loadmat(shared_data("landmine/LandmineData.mat"))
    rng, train, test = np.random.default_rng(0), [], []
    for X, Y in zip(data["feature"][0], data["label"][0], strict=True):
        order = rng.permutation(len(Y))
        X, Y = np.column_stack([np.ones(len(X)), X]), Y[:, 0].astype(float)
        train.append((X[order[::2]], Y[order[::2]]))
        test.append((X[order[1::2]], Y[order[1::2]]))
    scores = {}
    for name, way in {"learnt": {"covariance": "scalar"}, "pooled": {"covariance": 0.0}}.items():
        model = LogisticClients(**{"prior": ML, **way}).fit([x for x, _ in train], [y for _, y in train])
        p = np.concatenate([model.predict_proba(i, X) for i, (X, _) in enumerate(test)])
        y = np.concatenate([Y for _, Y in test])
        scores[name] = np.mean(y * np.log(p) + (1 - y) * np.log1p(-p))
    assert scores["learnt"] > scores["pooled"] + 0.003


def few_rows(seed, scale):
    """Three clients of five rows with three coefficients."""
    rng = np.random.default_rng(seed)
    Xs, Ys = [], []
    for _ in range(3):
        Xs.append(np.column_stack([np.ones(5), rng.normal(size=5), rng.normal(size=5)]) * scale)
        Ys.append((rng.random(5) < 0.5) * 1.0)
    return Xs, Ys


@pytest.mark.parametrize(("prior", "covariance"), [("penalised", "full"), ("penalised", "diagonal"), ("bayes", "diagonal")])
def test_units_of_features_do_not_matter(prior, covariance):
    scale = np.array([1.0, 1e8, 1e-9])
    plain, scaled = (LogisticClients(prior, covariance=covariance).fit(*few_rows(4, by)) for by in (1.0, scale))
    assert scaled.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-6)
    assert scaled.posterior_mean_ * scale == pytest.approx(plain.posterior_mean_, rel=1e-2, abs=1e-3)


def test_a_search_without_bound_is_refused_in_words():
    with pytest.raises(ValueError, match=r"Ys: labels of single clients .* give covariance"):
        LogisticClients("penalised").fit(*few_rows(11, 1.0))
    assert np.abs(LogisticClients().fit(*few_rows(11, 1.0)).posterior_mean_).max() < 30  # laws of both parts bound it
    assert LogisticClients(prior="marginal-likelihood").fit(*few_rows(1, 1.0)).converged_


@pytest.mark.parametrize("mu", [None, np.array([0.4, -0.3])])
def test_slopes_of_the_bound_are_those_of_its_value(mu):
    """By the root, against differences; by the covariance, of which the root's are -2 times it times the root."""
    rng = np.random.default_rng(3)
    Xs = [np.column_stack([np.ones(n), rng.normal(size=n)]) for n in rng.integers(4, 12, 25)]
    rows = ClientRows.read(Xs, [(rng.random(len(X)) < expit(X @ rng.normal(size=2))) * 1.0 for X in Xs])
    surface = Bound(rows, Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y)), mu, 1e-10)
    root, h = np.array([[0.9, 0.0], [0.3, 0.6]]), 1e-4
    state = surface.at(root)
    assert state.settled
    assert not surface.wide
    for i, j in np.ndindex(2, 2):
        step = h * (np.arange(2)[:, None] == i) * (np.arange(2) == j)
        slope = (surface.at(root + step).loss - surface.at(root - step).loss) / (2 * h)
        assert state.by_root[i, j] == pytest.approx(slope, abs=1e-5)
    np.testing.assert_allclose(-2 * state.by_covariance @ root, state.by_root, atol=1e-6)


def test_the_bound_bends_about_its_centre_as_its_information_says():
    """By differences over centres that are given; it leaves out how spreads move, of second order where they are small."""
    rng = np.random.default_rng(3)
    Xs = [np.column_stack([np.ones(n), rng.normal(size=n)]) for n in rng.integers(4, 12, 8)]
    rows = ClientRows.read(Xs, [(rng.random(len(X)) < expit(X @ rng.normal(size=2))) * 1.0 for X in Xs])
    coordinates, root, h = Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y)), np.array([[0.5, 0.0], [0.2, 0.4]]), 0.02

    def at(phi):
        return Bound(rows, coordinates, coordinates.out @ phi, 1e-10).at(root)

    learnt = Bound(rows, coordinates, None, 1e-10).at(root)
    best, unit = learnt.phi, h * np.eye(2)
    now = at(best)
    assert learnt.settled
    assert now.loss == pytest.approx(learnt.loss, abs=1e-9)
    bend = [[at(best + u + w).loss - at(best + u - w).loss - at(best - u + w).loss + at(best - u - w).loss for u in unit]
            for w in unit]  # fmt: skip
    moved = np.stack([(at(best + u).nu - at(best - u).nu) / (2 * h) for u in unit], axis=-1)
    for state in (now, learnt):
        np.testing.assert_allclose(state.information, np.array(bend) / (4 * h * h), rtol=0.02, atol=0.1)
        np.testing.assert_allclose(state.by_phi, moved, atol=0.02)
        np.testing.assert_allclose(state.P, np.eye(2) - state.cov)
        assert state.profiled == 0

    # A wide law of the centre: (1 + phi^2 / 2.5^2)^-(3/2), of curvature 3 / (2.5^2 + phi^2) as a mixture of normal laws.
    wide = Bound(rows, coordinates, None, 1e-10, True).at(root)
    size, there = 2.5**2 + wide.phi @ wide.phi, at(wide.phi)
    law = 1.5 * np.log(size / 2.5**2)
    assert (wide.loss, wide.law) == (pytest.approx(there.loss + law, abs=1e-9), pytest.approx(law))
    np.testing.assert_allclose(wide.information, there.information + 3 / size * np.eye(2), rtol=1e-6)
    slope = [(at(wide.phi + u / 20).loss - at(wide.phi - u / 20).loss) / (2 * h / 20) for u in unit]
    np.testing.assert_allclose(slope, -3 / size * wide.phi, atol=1e-4)
    # Without variance between clients and at even odds every label is worth log 2.
    none = Bound(rows, coordinates, np.zeros(2), 1e-10).at(np.zeros((2, 2)))
    assert none.loss == pytest.approx(len(rows.Y) * np.log(2), abs=1e-8 * len(rows.Y))


@pytest.mark.parametrize("prior", ["bayes", "penalised", "marginal-likelihood"])
def test_single_labels_do_not_show_how_coefficients_vary(prior):
    """One row per client: the search left for infinity, in minutes, to NaN; a given covariance needs none."""
    rng = np.random.default_rng(0)
    Xs = [np.array([[1.0, x]]) for x in rng.normal(size=20)]
    Ys = [np.array([y]) for y in (rng.random(20) < 0.5).astype(int)]
    with pytest.raises(ValueError, match=r"one row at most.*give covariance"):
        LogisticClients(prior).fit(Xs, Ys)
    assert np.isfinite(LogisticClients(prior, covariance=1.0).fit(Xs, Ys).posterior_mean_).all()


@pytest.mark.parametrize("both", [0, 1, 2])
def test_a_warning_tells_where_sds_are_infinite(both):
    """sd^2 is an average of tau^2, whose law falls as tau^-2, times a chance ~ 1/tau of each client with both labels."""
    Ys = [[1, 1, 1], [1, 1, 1], [0, 0, 0]] + [[0, 1, 1]] * both
    Xs = [np.ones((3, 1))] * len(Ys)
    if both < 2:
        with pytest.warns(UserWarning, match="^Ys: fewer than two clients have both labels") as caught:
            LogisticClients().fit(Xs, Ys)
        assert [w.filename for w in caught] == [__file__]
    else:
        LogisticClients().fit(Xs, Ys)

    def chance(labels, tau):
        def density(theta):
            return np.exp(sum(log_expit(theta if y else -theta) for y in labels)) * stats.norm.pdf(theta, 0, tau)

        return sum(integrate.quad(density, *ends, limit=200)[0] for ends in pairwise([-9 * tau, -30, 0, 30, 9 * tau]))

    growth = [np.prod([chance(labels, tau) for labels in Ys]) * tau for tau in (1e4, 1e5)]  # tau times tau^2 tau^-2
    assert growth[1] / growth[0] == pytest.approx(10.0 ** (1 - both), rel=0.01)  # finite where that falls


def test_labels_that_a_feature_separates_are_averaged_over_however_sure_the_others_are():
    """A rare feature with label 1 throughout has no likeliest slope, but a law; log-odds elsewhere are far beyond 5."""
    rng = np.random.default_rng(0)
    Xs = [np.column_stack([np.ones(6), 8 * rng.normal(size=6), np.arange(6) == 5]) for _ in range(20)]
    Ys = [np.where(X[:, 2] == 1, 1.0, rng.random(6) < expit(X[:, 1])) for X in Xs]
    model = LogisticClients(shared=[1, 2], likelihood="bound").fit(Xs, Ys)
    assert np.abs(np.vstack(Xs) @ model.mu_).max() > 8
    assert abs(model.mu_[1] - 1) < 4 * np.sqrt(model.mu_covariance_[1, 1])  # the slope that drew the labels
    assert model.mu_[2] > 0
    with pytest.raises(ValueError, match=r"Xs\[:, 2\] separates"):
        LogisticClients("penalised", shared=[1, 2], likelihood="bound").fit(Xs, Ys)


@pytest.mark.parametrize("unit", [1e-14, 1.0, 1e14])
def test_a_plane_that_separates_is_found_in_any_unit(unit):
    x, y = unit * np.array([-2.0, -1.0, 1.0, 3.0]), np.array([0.0, 0, 1, 1])
    apart = ClientRows(np.column_stack([np.full(4, unit), x]), y, np.array([4]))
    assert 1 in separating(apart)
    mixed = ClientRows(apart.X, np.array([0.0, 1, 0, 1]), np.array([4]))
    assert separating(mixed) == []


def test_what_separates_is_named():
    X = np.column_stack([np.ones(5), [-1.0, -1, -1, 0, 1]])
    apart = ClientRows(X, np.array([0.0, 0, 0, 1, 1]), np.array([5]))
    with pytest.raises(ValueError, match=r"labels that Xs\[:, 1\] separates"):
        LogisticClients().refuse_separated(apart, None)
    LogisticClients().refuse_separated(apart, np.zeros(2))  # a mu that is given is no matter of likelihoods
    away = ClientRows(X + np.array([0.0, 5.0]), apart.Y, apart.counts)
    with pytest.raises(ValueError, match=r"labels that Xs\[:, 0\] and Xs\[:, 1\] together separate"):
        LogisticClients().refuse_separated(away, None)
    assert separating(ClientRows(np.column_stack([X, np.zeros(5)]), apart.Y, apart.counts)) == [1]
    twice = ClientRows(np.column_stack([X, X[:, 1], -X[:, 1]]), np.array([0.0, 1, 0, 1, 0]), apart.counts)
    assert separating(twice) == []


def test_clients_with_both_labels_are_told():
    Ys = [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0], [], [1.0]]
    assert mixed(ClientRows.read([np.ones((len(Y), 1)) for Y in Ys], Ys)).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize(("grouped", "d", "cost"), [(False, 1, 1), (False, 3, 4), (True, 1, 10), (True, 2, 30)])
def test_the_law_of_covariances_is_in_units_of_a_clients_information(grouped, d, cost, monkeypatch):
    """n p (1 - p) / m for m clients with rows, p the share of ones after one more of each label; of groups likewise."""

    class Asked(Exception):
        pass

    def average(at, levels, scales, free, max_iter, tol, m, work):
        raise Asked(scales, free, max_iter, tol, m, work)

    monkeypatch.setattr(logistic_clients, "average", average)
    Ys = [[0.0, 0, 1], [1.0], [0.0, 0, 0, 0], [1.0, 1], []]
    Xs = [np.random.default_rng(1).normal(size=(len(Y), d)) for Y in Ys]
    with pytest.raises(Asked) as asked:
        LogisticClients(max_iter=77).fit(Xs, Ys, ["a", "b", "a", "b", "c"] if grouped else None)
    scales, *rest = asked.value.args
    one = 10 * 5 / 12 * 7 / 12
    assert scales == pytest.approx([one / 4, one / 2] if grouped else [one / 4])
    assert rest == [None, 77, 1e-3, 4, 10_000 // cost]
    assert isinstance(rest[-1], int)


def test_how_likelihoods_are_computed_goes_by_how_many_coefficients_vary():
    rows = ClientRows.read([np.random.default_rng(1).normal(size=(6, 3))] * 3, [[0.0, 1, 0, 1, 1, 0]] * 3)
    coordinates, groups = Coordinates.of(Tallies.of(rows).pooled(), 18), Groups.read(["a", "a", "b"], 3, True)

    def kind(likelihood, varying, nested=None, **options):
        model = LogisticClients(likelihood=likelihood, **options)
        return type(model.surface(rows, coordinates, None, 1e-5, varying, nested)).__name__

    assert [kind("auto", varying) for varying in (1, 2, 3)] == ["Quadrature", "Quadrature", "Bound"]
    assert [kind("bound", varying) for varying in (1, 2, 3)] == ["Bound"] * 3
    assert [kind("quadrature", varying) for varying in (1, 2)] == ["Quadrature"] * 2
    assert [kind(way, varying, groups) for way in ("auto", "quadrature") for varying in (1, 2)] == ["NestedQuadrature"] * 4
    for call in (("quadrature", 3), ("auto", 3, groups), ("quadrature", 3, groups), ("bound", 1, groups)):
        with pytest.raises(ValueError, match="2 coefficients at most that vary"):
            kind(*call)
    for prior, wide in (("bayes", True), (ML, False), ("penalised", False)):
        surface = LogisticClients(prior).surface(rows, coordinates, None, 1e-5, 3, None)
        assert surface.wide is wide


def test_posteriors_count_how_far_off_a_learnt_centre_may_be():
    """Random intercepts of variance 1 about a centre with a flat law: sums over both."""
    ones, n = np.array([3, 9, 6, 11]), 14
    Ys = [np.repeat([1.0, 0.0], [k, n - k]) for k in ones]
    model = LogisticClients("penalised", covariance=1.0).fit([np.ones((n, 1))] * 4, Ys)
    theta, mu = np.linspace(-7, 7, 561), np.linspace(-6, 6, 241)
    prior = np.exp(-((theta - mu[:, None]) ** 2) / 2)
    each = np.exp(ones[:, None] * log_expit(theta) + (n - ones)[:, None] * log_expit(-theta))
    whole, first, second = (np.einsum("it,gt->ig", each * theta**power, prior) for power in range(3))
    chance = whole.prod(axis=0) / whole.prod(axis=0).sum()
    mean = first / whole @ chance
    sd = np.sqrt(second / whole @ chance - mean**2)
    np.testing.assert_allclose(model.posterior_sd_[:, 0], sd, rtol=0.02)
    np.testing.assert_allclose(model.posterior_mean_[:, 0], mean, atol=0.03)
    assert np.sqrt(model.mu_covariance_[0, 0]) == pytest.approx(np.sqrt(chance @ mu**2 - (chance @ mu) ** 2), rel=0.02)


def test_what_separates_is_the_same_whichever_label_is_called_1():
    """Three rows of one label against two, one of them in the plane: the feature separates without the intercept."""
    X = np.column_stack([np.ones(5), [-1.0, -1, -1, 0, 1]])
    for y in (np.array([0.0, 0, 0, 1, 1]), np.array([1.0, 1, 1, 0, 0])):
        assert separating(ClientRows(X, y, np.array([5]))) == [1]


@pytest.mark.parametrize(
    ("features", "y", "columns"),
    [
        ([[1, 0, 1], [-1, 1, 1], [2, 1, 0], [0, -2, -1], [-1, 1, -1], [0, 0, -1]], [1, 0, 0, 1, 1, 1], [0, 1, 2, 3]),
        (
            [[-2, 2, 1], [-1, -1, -2], [0, 0, -2], [-2, 0, -2], [1, 1, 1], [2, 2, -1]], [0, 0, 0, 0, 1, 0], [0, 1, 3],
        ),
    ],
)  # fmt: skip
def test_what_separates_is_the_same_whichever_way_a_feature_points(features, y, columns):
    X, y = np.column_stack([np.ones(len(y)), features]), np.array(y, float)
    for signs in product([1.0, -1.0], repeat=4):
        assert separating(ClientRows(X * signs, y, np.array([len(y)]))) == columns
