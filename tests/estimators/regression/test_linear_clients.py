"""Linear regressions of many clients: against densities by brute force, lme4, limits, equivariance, bad input."""

import os
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize
from scipy.io import loadmat
from scipy.stats import multivariate_normal

from estimators.closed_forms import priors, regression
from estimators.regression.client_rows import ClientRows, RegressionTally, Tallies
from estimators.regression.linear_clients import LinearClients, evaluate

ML = "marginal-likelihood"

S = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.3]])
MU = np.array([3.0, -1.0, 0.5])


def simulate(m=12, S=S, mu=MU, sd=0.7, seed=1, most=9):
    """Clients with 1 to most - 1 rows: some have fewer rows than coefficients."""
    rng = np.random.default_rng(seed)
    d = len(mu)
    Xs = [np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))]) for n in rng.integers(1, most, m)]
    thetas = rng.multivariate_normal(mu, S, m)
    return Xs, [X @ t + rng.normal(0, sd, len(X)) for X, t in zip(Xs, thetas, strict=True)], thetas


def density(Xs, Ys, mu, covariance, sigma2):
    """Marginal log density of all responses, by the definition."""
    sigma2s = np.broadcast_to(sigma2, (len(Xs),))
    return sum(
        multivariate_normal(X @ mu, X @ covariance @ X.T + s * np.eye(len(X))).logpdf(Y)
        for X, Y, s in zip(Xs, Ys, sigma2s, strict=True)
    )


WAYS = [
    {},
    {"covariance": "diagonal"},
    {"covariance": "scalar"},
    {"covariance": S},
    {"mu": MU},
    {"mu": 1.0, "covariance": [1.0, 2.0, 0.0]},
    {"mu": MU, "covariance": S, "sigma2": 0.49},
    {"sigma2": np.linspace(0.3, 0.6, 12)},
]


@pytest.mark.parametrize("way", WAYS)
def test_density_and_posterior_by_the_definition(way):
    Xs, Ys, _ = simulate()
    model = LinearClients(**{"prior": ML, **way}).fit(Xs, Ys)
    assert model.converged_
    mu, C, sigma2s = model.mu_, model.covariance_, np.broadcast_to(model.sigma2_, (12,))
    assert model.log_likelihood_ == pytest.approx(density(Xs, Ys, mu, C, model.sigma2_), rel=1e-12)
    for i, (X, Y, s) in enumerate(zip(Xs, Ys, sigma2s, strict=True)):
        gain = C @ X.T @ np.linalg.inv(X @ C @ X.T + s * np.eye(len(X)))
        np.testing.assert_allclose(model.posterior_mean_[i], mu + gain @ (Y - X @ mu), atol=1e-11)
        np.testing.assert_allclose(model.posterior_covariance_[i], C - gain @ X @ C, atol=1e-12)
        assert model.borrowed_[i] == pytest.approx(1 - np.trace(gain @ X) / 3, abs=1e-11)


@pytest.mark.parametrize("way", [{}, {"covariance": "diagonal"}, {"covariance": "scalar"}, {"mu": MU}, {"covariance": S}])
def test_no_other_prior_is_more_likely(way):
    """SciPy's Nelder-Mead from the fitted point, on the density by the definition, finds nothing better."""
    Xs, Ys, _ = simulate()
    model = LinearClients(**{"prior": ML, **way}).fit(Xs, Ys)
    shape = way.get("covariance", "full")

    def loss(x):
        mu = way.get("mu", x[:3])
        covariance = shape
        if isinstance(shape, str):
            L = {"full": np.zeros((3, 3)), "diagonal": np.diag(x[4:7]), "scalar": np.eye(3) * x[4]}[shape]
            if shape == "full":
                L[np.tril_indices(3)] = x[4:]
            covariance = L @ L.T
        return -density(Xs, Ys, mu, covariance, np.exp(x[3]))

    L = np.linalg.cholesky(model.covariance_ + 1e-13 * np.eye(3))
    root = {"full": L[np.tril_indices(3)], "diagonal": np.diag(L), "scalar": L[:1, 0]}.get(str(shape), [])
    start = np.concatenate([model.mu_, [np.log(model.sigma2_)], root])
    best = optimize.minimize(loss, start, method="Nelder-Mead", options={"maxfev": 300})
    assert loss(start) == pytest.approx(-model.log_likelihood_, abs=1e-6)
    assert best.fun >= -model.log_likelihood_ - 1e-6


def lme4_data():
    Xs, Ys = [], []
    for i in range(1, 13):
        j = np.arange(3 + i % 5)
        x = j - 2.0
        Xs.append(np.column_stack([np.ones(len(j)), x]))
        Ys.append(i * 17 % 11 + (i * 7 % 5 - 2) * x + ((i * 31 + j * 47 + i * j * 19) % 23 - 11) / 5)
    return Xs, Ys


# lme4 1.1-31, R 4.2: lmer(y ~ x + (x|g)), REML = FALSE or TRUE, and (x||g), bobyqa with rhoend = 1e-12; logLik, fixef,
# VarCorr (var, var, cov, residual), ranef of the clients 1 and 5 (intercepts, then slopes).
LME4 = [
    ({}, -136.5057748555357, [4.5507282880987, 0.0333745485037],
     [8.9753126948736, 2.8245967895489, 0.3363073745912, 1.8103336997344],
     [1.3723644357, 2.8428132703, 0.6440666902, -2.8912613167]),
    ({"prior": "reml"}, -135.4187812395942, [4.5414935532518, 0.0256088333219],
     [9.8035003093757, 3.1331658029252, 0.3806614413116, 1.8080858430663],
     [1.3905320257, 2.8180008511, 0.6598520343, -2.9366776238]),
    ({"covariance": "diagonal"}, -136.5292017657050, [4.5551887364847, 0.0372837293887],
     [8.9683901356635, 2.8087920455354, 0.0, 1.8119262064611],
     [1.3614292381, 2.8627128537, 0.6334802085, -2.8932596742]),
]  # fmt: skip


@pytest.mark.parametrize(("way", "log_likelihood", "mu", "variances", "effects"), LME4)
def test_equal_to_lme4(way, log_likelihood, mu, variances, effects):
    model = LinearClients(**{"prior": ML, "tol": 1e-9, **way}).fit(*lme4_data())
    C = model.covariance_
    assert model.log_likelihood_ == pytest.approx(log_likelihood, abs=1e-9)
    np.testing.assert_allclose(model.mu_, mu, rtol=1e-7)
    np.testing.assert_allclose([C[0, 0], C[1, 1], C[0, 1], model.sigma2_], variances, rtol=1e-6)
    np.testing.assert_allclose((model.posterior_mean_ - model.mu_)[[0, 4]].T.ravel(), effects, rtol=1e-6)
    if not way:  # attr(ranef(..., condVar = TRUE), "postVar")[,,5] and the standard errors of vcov
        np.testing.assert_allclose(
            model.posterior_covariance_[4].ravel(), [1.1441995196, 0.6130986826, 0.6130986826, 0.6492834921], rtol=1e-6
        )
        np.testing.assert_allclose(np.sqrt(np.diag(model.mu_covariance_)), [0.8906254883, 0.5090217821], rtol=1e-6)


def test_reml_by_integrating_mu_out():
    """A nearly flat normal prior on mu, by brute force, gives the residual likelihood and its wider posteriors."""
    Xs, Ys, _ = simulate(6)
    model = LinearClients(prior="reml", covariance="diagonal").fit(Xs, Ys)
    flat = 1e5
    X, Y = np.concatenate(Xs), np.concatenate(Ys)
    C = np.zeros((len(Y), len(Y)))
    at = np.concatenate([[0], np.cumsum([len(Y) for Y in Ys])])
    for a, b in pairwise(at):
        C[a:b, a:b] = X[a:b] @ model.covariance_ @ X[a:b].T
    V = C + model.sigma2_ * np.eye(len(Y)) + flat * X @ X.T
    value = multivariate_normal(np.zeros(len(Y)), V).logpdf(Y) + 1.5 * np.log(2 * np.pi * flat)
    assert model.log_likelihood_ == pytest.approx(value, abs=1e-3)
    cross = model.covariance_ @ X[: at[1]].T @ np.eye(at[1], len(Y)) + flat * X.T
    covariance = model.covariance_ + flat * np.eye(3) - cross @ np.linalg.solve(V, cross.T)
    np.testing.assert_allclose(model.posterior_covariance_[0], covariance, atol=1e-3)
    np.testing.assert_allclose(model.posterior_mean_[0], cross @ np.linalg.solve(V, Y), atol=1e-3)


def test_known_prior_is_the_closed_form():
    Xs, Ys, _ = simulate()
    model = LinearClients(ML, mu=MU, covariance=0.7, sigma2=0.4).fit(Xs, Ys)
    means, covariances = regression.posterior_all(Xs, Ys, MU, 0.7, 0.4)
    np.testing.assert_allclose(model.posterior_mean_, means, atol=1e-12)
    np.testing.assert_allclose(model.posterior_covariance_, covariances, atol=1e-12)
    assert model.log_likelihood_ == pytest.approx(-priors.marginal_objective(Xs, Ys, MU, 0.7, 0.4)[0], rel=1e-12)


def test_scalar_covariance_is_where_expectation_maximisation_ends():
    Xs, Ys, _ = simulate(30, most=12)
    fit = priors.fit_population(Xs, Ys, tol=1e-13)
    model = LinearClients(ML, covariance="scalar").fit(Xs, Ys)
    assert model.log_likelihood_ == pytest.approx(fit.log_likelihood, abs=1e-8)
    assert model.covariance_[0, 0] == pytest.approx(fit.sigma2_theta, rel=1e-4)


def test_units_of_features_and_responses_do_not_matter():
    Xs, Ys, _ = simulate(30)
    T = np.array([[2.0, 0.0, 300.0], [0.0, 1e-4, 0.0], [0.0, 5.0, 1e3]])
    one = LinearClients(ML).fit(Xs, Ys)
    two = LinearClients(ML).fit([X @ T for X in Xs], [1e6 * Y for Y in Ys])
    np.testing.assert_allclose(1e-6 * two.posterior_mean_ @ T.T, one.posterior_mean_, rtol=1e-4, atol=1e-5)
    n = sum(len(Y) for Y in Ys)
    assert two.log_likelihood_ + n * np.log(1e6) == pytest.approx(one.log_likelihood_, abs=1e-6)


@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_responses_that_every_client_interpolates_are_told_in_any_unit(unit, size):
    generator = np.random.default_rng(3)
    Xs = [generator.normal(size=(6, 2)) for _ in range(4)]
    line = [size * X @ generator.normal(size=2) for X in Xs]
    with pytest.raises(ValueError, match="interpolates every response"):
        LinearClients(ML).fit([unit * X for X in Xs], line)
    near = [y + 1e-6 * size * generator.standard_normal(6) for y in line]
    rest = sum(np.linalg.lstsq(X, y, rcond=None)[1][0] for X, y in zip(Xs, near, strict=True))
    # The law of covariances keeps them from 0 as two rows more would.
    for prior, rows in ((ML, 16), ("reml", 16), ("penalised-reml", 18)):
        found = LinearClients(prior).fit([unit * X for X in Xs], near)
        assert found.sigma2_ == pytest.approx(rest / rows, rel=1e-5, abs=0)
        best = LinearClients(prior, tol=1e-12).fit([unit * X for X in Xs], near)
        assert found.log_likelihood_ == pytest.approx(best.log_likelihood_, abs=1e-4)


def test_far_from_the_origin_no_digits_are_lost():
    Xs, Ys, _ = simulate(30)
    one, two = LinearClients(ML).fit(Xs, Ys), LinearClients(ML).fit(Xs, [Y + 1e7 for Y in Ys])
    np.testing.assert_allclose(two.posterior_mean_ - [1e7, 0, 0], one.posterior_mean_, atol=1e-5)
    assert two.log_likelihood_ == pytest.approx(one.log_likelihood_, abs=1e-5)


def test_rows_in_any_number_of_parts():
    Xs, Ys, _ = simulate(15)
    parts = [
        sum(
            (RegressionTally.of(X[j : j + 1], Y[j : j + 1]) for j in range(1, len(Y))),
            start=RegressionTally.of(X[:1], Y[:1]),
        )
        for X, Y in zip(Xs, Ys, strict=True)
    ]
    one, two = LinearClients(ML).fit(Xs, Ys), LinearClients(ML).fit(parts)
    np.testing.assert_allclose(two.posterior_mean_, one.posterior_mean_, atol=1e-6)
    assert two.log_likelihood_ == pytest.approx(one.log_likelihood_, abs=1e-9)
    tally = RegressionTally.of(Xs[2], Ys[2])
    np.testing.assert_allclose(tally.XtX, Xs[2].T @ Xs[2], atol=1e-12)
    np.testing.assert_allclose(tally.XtY, Xs[2].T @ Ys[2], atol=1e-12)
    assert tally.YtY == pytest.approx(Ys[2] @ Ys[2])


def test_clients_without_rows_have_the_prior():
    Xs, Ys, _ = simulate(15)
    model = LinearClients(ML).fit([*Xs, np.zeros((0, 3))], [*Ys, np.zeros(0)])
    np.testing.assert_allclose(model.posterior_mean_[-1], model.mu_, atol=1e-12)
    np.testing.assert_allclose(model.posterior_covariance_[-1], model.covariance_, atol=1e-12)
    assert model.borrowed_[-1] == 1
    assert model.log_likelihood_ == pytest.approx(LinearClients(ML).fit(Xs, Ys).log_likelihood_, abs=1e-9)
    mean, sd = model.predict(None, [[1.0, 0.0, 0.0]], return_sd=True)
    assert mean[0] == pytest.approx(model.mu_[0])
    assert sd[0] == pytest.approx(np.sqrt(model.covariance_[0, 0] + model.sigma2_))


def test_clients_without_rows_leave_an_average_over_priors_as_it_is():
    """As many as would leave it fewer points, had they a say."""
    Ys = [np.random.default_rng(3).normal(i % 4, 1.0, 3) for i in range(12)]
    Xs, none = [np.ones((3, 1))] * 12, 400
    one = LinearClients().fit(Xs, Ys)
    two = LinearClients().fit([*Xs, *[np.zeros((0, 1))] * none], [*Ys, *[np.zeros(0)] * none])
    np.testing.assert_allclose(two.posterior_mean_[:12], one.posterior_mean_, rtol=1e-9)
    np.testing.assert_allclose(two.posterior_sd_[:12], one.posterior_sd_, rtol=1e-9)


def test_what_no_client_shows_stays_unknown():
    """A column of zeros and a column that repeats another: predictions as without them, no certainty along them."""
    Xs, Ys, _ = simulate(30)
    wide = [np.column_stack([X, np.zeros(len(X)), X[:, 1]]) for X in Xs]
    narrow, model = LinearClients(ML).fit(Xs, Ys), LinearClients(ML).fit(wide, Ys)
    assert model.unseen_.shape == (5, 2)
    assert model.log_likelihood_ == pytest.approx(narrow.log_likelihood_, abs=1e-7)
    for seen, new in zip(model.predict(3, wide[5], return_sd=True), narrow.predict(3, Xs[5], return_sd=True), strict=True):
        np.testing.assert_allclose(seen, new, atol=1e-4)
    assert np.isinf(model.posterior_sd_[0]).tolist() == [False, True, False, True, True]
    low, high = model.interval()
    assert (low[:, 3] == -np.inf).all()
    assert (high[:, 4] == np.inf).all()
    assert (model.local_false_sign_rate()[:, 3] == 0.5).all()
    assert np.isinf(model.predict(0, [[1.0, 0, 0, 1, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 1]], return_sd=True)[1]).tolist() == [
        True,
        True,
        False,
    ]
    known = LinearClients(ML, mu=0.0, covariance=1.0).fit(wide, Ys)
    assert known.unseen_.shape == (5, 0)
    assert np.isfinite(known.posterior_sd_).all()
    np.testing.assert_allclose(known.posterior_sd_[:, 3], 1.0)


def test_equal_clients_borrow_everything():
    """No variance between clients: the fit is pooled least squares, at the edge of the domain, and says so."""
    rng = np.random.default_rng(3)
    Xs = [rng.normal(size=(6, 2)) for _ in range(20)]
    Ys = [X @ [1.0, 2.0] + 0.1 * np.resize([1, -1, -1, 1], 6) for X in Xs]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearClients(ML).fit(Xs, Ys)
    if model.covariance_.max() < 1e-7:
        pooled = np.linalg.lstsq(np.concatenate(Xs), np.concatenate(Ys), rcond=None)[0]
        np.testing.assert_allclose(model.mu_, pooled, atol=1e-4)
    exact = LinearClients(ML, covariance=0.0).fit(Xs, Ys)
    assert (exact.borrowed_ == 1).all()
    assert (exact.posterior_sd_ == 0).all()
    assert (exact.local_false_sign_rate(at=exact.mu_[0])[:, 0] == 1).all()
    assert (exact.posterior_cdf(5.0) == 1).all()
    assert model.log_likelihood_ >= exact.log_likelihood_ - 1e-9


@pytest.mark.parametrize("m", [2, 9])
def test_random_intercepts_of_equal_clients_have_a_closed_form(m):
    """One-way analysis of variance: the maximum of the likelihood for equal group sizes (Searle et al. 1992, 3.7)."""
    rng = np.random.default_rng(5)
    Y = rng.normal(2.0, 9.0 / m, (m, 1)) + rng.normal(size=(m, 4))
    model = LinearClients(ML, tol=1e-9).fit([np.ones((4, 1))] * m, list(Y))
    within = np.sum((Y - Y.mean(1, keepdims=True)) ** 2) / (m * 3)
    between = 4 * np.mean((Y.mean(1) - Y.mean()) ** 2)
    assert model.sigma2_ == pytest.approx(within, rel=1e-6)
    assert model.covariance_[0, 0] == pytest.approx((between - within) / 4, rel=1e-6)
    reml = LinearClients(prior="reml", tol=1e-9).fit([np.ones((4, 1))] * m, list(Y))
    assert reml.covariance_[0, 0] == pytest.approx((between * m / (m - 1) - within) / 4, rel=1e-6)


def test_the_penalty_keeps_variances_from_zero():
    """Random intercepts: the maximum of the residual likelihood times a deviation, by SciPy; and equal clients."""
    rng = np.random.default_rng(5)
    Y = rng.normal(2.0, 0.3, (9, 1)) + rng.normal(size=(9, 4))
    model = LinearClients(prior="penalised-reml", tol=1e-7).fit([np.ones((4, 1))] * 9, list(Y))
    within, between = np.sum((Y - Y.mean(1, keepdims=True)) ** 2), 4 * np.sum((Y.mean(1) - Y.mean()) ** 2)

    def loss(x):  # x = log of the ratio of variances; noise at its best: (within + between/(1 + 4 ratio))/35
        return (35 * np.log(within + between / (1 + 4 * np.exp(x))) + 8 * np.log1p(4 * np.exp(x)) - x) / 2

    ratio = np.exp(optimize.minimize_scalar(loss, bounds=(-8, 4), method="bounded", options={"xatol": 1e-9}).x)
    assert model.covariance_[0, 0] / model.sigma2_ == pytest.approx(ratio, rel=1e-4)
    assert ratio > LinearClients(prior="reml").fit([np.ones((4, 1))] * 9, list(Y)).covariance_[0, 0] / model.sigma2_
    Xs = [rng.normal(size=(6, 2)) for _ in range(20)]
    equal = [X @ [1.0, 2.0] + 0.1 * rng.normal(size=6) for X in Xs]
    for shape in ("full", "diagonal", "scalar"):
        fit = LinearClients(prior="penalised-reml", covariance=shape).fit(Xs, equal)
        assert fit.converged_
        assert np.linalg.eigvalsh(fit.covariance_)[0] > 1e-5


def test_draw_repeats_the_design():
    """Means and variances of redrawn responses, 2,000 draws, within 5 standard errors."""
    Xs, Ys, _ = simulate(8)
    model = LinearClients(ML).fit(Xs, Ys)
    rng = np.random.default_rng(0)
    X, values, tallies = Xs[0], [], []
    for _ in range(2000):
        truth, (tallies,) = model.draw(rng)
        assert truth.shape == (8, 3)
        values.append(tallies[0].XtY)
    values = np.array(values)
    V = X @ model.covariance_ @ X.T + model.sigma2_ * np.eye(len(X))
    sd = np.sqrt(np.diag(X.T @ V @ X))
    assert (np.abs(values.mean(0) - X.T @ X @ model.mu_) < 5 * sd / np.sqrt(2000)).all()
    assert (np.abs(values.std(0) / sd - 1) < 5 / np.sqrt(2 * 2000)).all()
    again = model.draw(np.random.default_rng(0))[0]
    np.testing.assert_array_equal(again, model.draw(np.random.default_rng(0))[0])
    assert LinearClients(ML).fit(tallies).converged_


@pytest.mark.parametrize(
    ("way", "spoil", "says"),
    [
        ({}, lambda Xs, Ys: (Xs[:1], Ys[:1]), "two clients"),
        ({"mu": MU}, lambda Xs, Ys: (Xs[:1], Ys[:1]), "two clients"),
        ({"covariance": S}, lambda Xs, Ys: (Xs[:1], Ys[:1]), "two clients"),
        ({}, lambda Xs, Ys: ([Xs[0], Xs[1][:0]], [Ys[0], Ys[1][:0]]), "two clients"),
        ({}, lambda Xs, Ys: ([], []), "one entry per client"),
        ({}, lambda Xs, Ys: (Xs, Ys[:-1]), "one entry per client"),
        ({}, lambda Xs, Ys: (Xs, None), "one entry per client"),
        ({}, lambda Xs, Ys: ([X * np.nan for X in Xs], Ys), r"Xs\[0\] holds NaN"),
        ({}, lambda Xs, Ys: (Xs, [*Ys[:-1], Ys[-1] + np.inf]), r"Ys\[11\] must be finite"),
        ({}, lambda Xs, Ys: ([Xs[0][:, :2], *Xs[1:]], Ys), "number of columns"),
        ({}, lambda Xs, Ys: ([X.T for X in Xs], Ys), r"Xs\[0\] must be \(samples"),
        ({}, lambda Xs, Ys: ([0 * X for X in Xs], Ys), "only zeros"),
        ({}, lambda Xs, Ys: (Xs, [X @ MU for X in Xs]), "interpolates"),
        ({}, lambda Xs, Ys: (Xs, [0 * Y for Y in Ys]), "interpolates"),
        ({}, lambda Xs, Ys: ([X[:1] for X in Xs], [Y[:1] for Y in Ys]), "interpolates"),
        ({"prior": "best"}, lambda Xs, Ys: (Xs, Ys), "prior must be one of"),
        ({"covariance": "round"}, lambda Xs, Ys: (Xs, Ys), "covariance must be one of"),
        ({"covariance": -1.0}, lambda Xs, Ys: (Xs, Ys), "no negative eigenvalue"),
        ({"covariance": np.ones((2, 2))}, lambda Xs, Ys: (Xs, Ys), "covariance must be a number"),
        ({"mu": [0.0, 1.0]}, lambda Xs, Ys: (Xs, Ys), "mu must be one number"),
        ({"sigma2": 0.0}, lambda Xs, Ys: (Xs, Ys), "sigma2 must be > 0"),
        ({"sigma2": [1.0, 2.0]}, lambda Xs, Ys: (Xs, Ys), "sigma2 must be one number"),
        ({"tol": 0.0}, lambda Xs, Ys: (Xs, Ys), "tol must be > 0"),
        ({"max_iter": 0}, lambda Xs, Ys: (Xs, Ys), "max_iter"),
    ],
)
def test_bad_input(way, spoil, says):
    Xs, Ys, _ = simulate()
    with pytest.raises(ValueError, match=says):
        LinearClients(**{"prior": ML, **way}).fit(*spoil(Xs, Ys))


def test_other_errors():
    Xs, Ys, _ = simulate()
    with pytest.raises(ValueError, match="call fit first"):
        LinearClients(ML).predict(0, Xs[0])
    model = LinearClients(ML).fit(Xs, Ys)
    with pytest.raises(ValueError, match="i must be in"):
        model.predict(12, Xs[0])
    with pytest.raises(ValueError, match="X must have shape"):
        model.predict(0, [1.0, 2.0, 3.0])
    with pytest.warns(UserWarning, match="max_iter=1"):
        assert not LinearClients(ML, max_iter=1).fit(Xs, Ys).converged_
    with pytest.raises(ValueError, match="cannot be added"):
        _ = RegressionTally.of(Xs[0], Ys[0]) + RegressionTally.of(Xs[0][:, :1], Ys[0])
    with pytest.raises(ValueError, match="agree"):
        Tallies.read([RegressionTally.of(Xs[0], Ys[0]), RegressionTally.of(Xs[0][:, :1], Ys[0])])
    noisy = LinearClients(ML, sigma2=np.full(12, 0.5)).fit(Xs, Ys)
    with pytest.raises(ValueError, match="a new client has none"):
        noisy.predict(None, Xs[0], return_sd=True)


def test_the_model_keeps_its_arguments():
    model = LinearClients(ML, covariance="diagonal")
    assert repr(model) == "LinearClients(prior='marginal-likelihood', covariance='diagonal')"
    assert LinearClients().get_params()["max_iter"] == 1000
    assert model.set_params(prior="reml").get_params()["prior"] == "reml"
    summary = model.fit(*simulate()[:2]).prior_summary()
    assert summary["correlation"][0][1] == 0
    assert summary["sd"][0] == pytest.approx(np.sqrt(summary["covariance"][0][0]))


def test_a_prior_that_is_all_known_takes_no_step_and_noise_alone_takes_some():
    Xs, Ys, _ = simulate(12)
    assert LinearClients(ML, mu=MU, covariance=S, sigma2=0.49).fit(Xs, Ys).n_iter_ == 0
    assert LinearClients(ML, mu=MU, covariance=S).fit(Xs, Ys).n_iter_ > 0
    assert LinearClients(ML, mu=MU, covariance=0.0).fit(Xs, Ys).n_iter_ == 0  # begins at the mean square, where it ends
    fits = [LinearClients(ML, mu=u, covariance=u**2).fit(Xs, [u * Y for Y in Ys]) for u in (2.0**-60, 1.0, 2.0**60)]
    assert len({fit.n_iter_ for fit in fits}) == 1  # in any unit


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """100 clients of 8 rows, 20 replicates of 300 coefficients: the mean of 6,000 nearly independent events.

    The standard error is 0.28 points plus what the learnt prior adds; 3.5 points is beyond 5 of them.
    """
    Xs, Ys, _ = simulate(100)
    model = LinearClients(ML, mu=MU, covariance=S, sigma2=0.49).fit(Xs, Ys)
    rng, held = np.random.default_rng(2), []
    for _ in range(20):
        truth, arguments = model.draw(rng)
        low, high = LinearClients(ML).fit(*arguments).interval()
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert abs(np.mean(held) - 0.95) < 0.035


def test_schools(shared_data):
    """Held-out quarter of 139 schools: the learnt prior predicts better than the schools alone and than one fit for all."""
    data = loadmat(shared_data("school/school.mat"))
    rng, parts = np.random.default_rng(0), []
    for X, Y in zip(data["X"][0], data["Y"][0], strict=True):
        order = rng.permutation(len(Y))
        cut = 3 * len(Y) // 4
        X, Y = X.astype(float), Y[:, 0].astype(float)
        parts.append((X[order[:cut]], Y[order[:cut]], X[order[cut:]], Y[order[cut:]]))
    Xs, Ys = [p[0] for p in parts], [p[1] for p in parts]
    model = LinearClients(ML, covariance="diagonal").fit(Xs, Ys)
    assert model.converged_
    assert model.unseen_.shape == (28, 5)
    pooled = np.linalg.lstsq(np.concatenate(Xs), np.concatenate(Ys), rcond=None)[0]
    error = {"prior": 0.0, "pooled": 0.0, "local": 0.0}
    for i, (X, Y, X_new, Y_new) in enumerate(parts):
        error["prior"] += np.sum((model.predict(i, X_new) - Y_new) ** 2)
        error["pooled"] += np.sum((X_new @ pooled - Y_new) ** 2)
        error["local"] += np.sum((X_new @ np.linalg.lstsq(X, Y, rcond=None)[0] - Y_new) ** 2)
    assert error["prior"] < 0.95 * error["pooled"]
    assert error["prior"] < 0.93 * error["local"]


def test_threads_do_not_change_bits():
    code = (
        "import numpy as np; from estimators import LinearClients; rng = np.random.default_rng(0);"
        "Xs = [rng.normal(size=(20, 8)) for _ in range(300)]; t = rng.normal(size=(300, 8));"
        "Ys = [X @ b + rng.normal(size=20) for X, b in zip(Xs, t)];"
        "print(LinearClients().fit(Xs, Ys).posterior_mean_.tobytes().hex())"
    )
    ran = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            cwd=Path(__file__).resolve().parents[3],
            capture_output=True,
            check=True,
        )
        for threads in ("1", "2")
    ]
    assert ran[0].stdout == ran[1].stdout


@pytest.mark.parametrize("settings", [{}, {"prior": ML}, {"prior": ML, "sigma2": 0.5}, {"sigma2": 0.5}])
@pytest.mark.parametrize("mu", [None, MU])
def test_slopes_are_those_of_the_value(settings, mu):
    """By the root, against differences; by the covariance, of which the root's are -2 times it times the root."""
    model = LinearClients(**settings)
    data = model.white(Tallies.of(ClientRows.read(*simulate()[:2])), mu)
    root, h = np.array([[0.9, 0.0, 0.0], [0.3, 0.6, 0.0], [-0.2, 0.1, 0.8]]), 1e-5
    state = evaluate(data, root)
    for i, j in np.ndindex(3, 3):
        step = h * (np.arange(3)[:, None] == i) * (np.arange(3) == j)
        slope = (evaluate(data, root + step).loss - evaluate(data, root - step).loss) / (2 * h)
        assert state.by_root[i, j] == pytest.approx(slope, abs=1e-6)
    np.testing.assert_allclose(-2 * state.by_covariance @ root, state.by_root, atol=1e-9)
