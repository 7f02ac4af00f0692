"""Regressions of counts averaged over priors, number by number: modes by SciPy, plain sums, laws and draws."""

import warnings

import numpy as np
import pytest
from scipy import optimize, stats

from estimators import BetaBinomial
from estimators.counts import averaged_regression, beta_binomial, gamma_poisson
from estimators.counts.averaged_regression import Nodes
from estimators.counts.count_regression import BetaBinomialRegression, GammaPoissonRegression

RNG = np.random.default_rng
LIKELIEST = "marginal-likelihood"
Z = np.array([-1.0, 0.2, 1.4, -0.6, 0.9, 0.1, -0.3, 2.0])
X, N = np.array([0, 8, 6, 5, 9, 1, 10, 11]), np.array([9, 11, 12, 7, 10, 9, 14, 11])
E = np.array([0.7, 2.0, 1.1, 0.9, 3.0, 1.6, 2.2, 0.8])
BASIS = np.column_stack([np.ones(8), Z])


def models(prior="bayes"):
    return (
        ("beta", BetaBinomialRegression(prior).fit(X, N, Z), N),
        ("gamma", GammaPoissonRegression(prior).fit(X, E, Z), E),
    )


def density(kind, eta, phi):
    """Log-likelihoods of the clients by SciPy."""
    if kind == "beta":
        mean = 1 / (1 + np.exp(-eta))
        return stats.betabinom.logpmf(X, N, mean * phi, (1 - mean) * phi)
    return stats.nbinom.logpmf(X, phi, phi / (phi + E * np.exp(eta)))


def test_the_likeliest_prior_and_its_errors_are_scipys():
    for kind, model, _ in models(LIKELIEST):

        def loss(t, kind=kind):
            return -density(kind, t[0] + t[1] * Z, np.exp(t[2])).sum()

        options = {"xatol": 1e-8, "fatol": 1e-12, "maxiter": 4000}
        best = optimize.minimize(loss, [0.0, 0.5, 1.5], method="Nelder-Mead", options=options)
        assert model.log_likelihood_ == pytest.approx(-best.fun, abs=1e-8)
        assert [model.mu_, model.beta_[0], np.log(model.concentration_)] == pytest.approx(best.x, abs=2e-4)
        h = 1e-3 * np.eye(3)
        x = np.array([model.mu_, model.beta_[0], np.log(model.concentration_)])
        hessian = np.array([
            [(loss(x + u + w) - loss(x + u - w) - loss(x - u + w) + loss(x - u - w)) / 4e-6 for u in h] for w in h
        ])  # fmt: skip
        errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
        assert [model.mu_sd_, model.beta_sd_[0]] == pytest.approx(errors[:2], rel=2e-3)
        for level in (0.8, 0.95):
            reach = stats.norm.ppf((1 + level) / 2)
            found = model.prior_interval(level)
            assert found["mean"] == pytest.approx((model.mu_ - reach * model.mu_sd_, model.mu_ + reach * model.mu_sd_))
            ends = (model.beta_[0] - reach * model.beta_sd_[0], model.beta_[0] + reach * model.beta_sd_[0])
            assert found["slopes"] == [pytest.approx(ends)]
        summary = model.prior_summary()
        assert summary["mean"] == pytest.approx(model.prior_mean_.mean())
        assert summary["sd"] == pytest.approx(np.sqrt(model.prior_variance().mean()))
        assert summary["slopes"] == model.beta_.tolist()
        assert summary["concentration"] == model.concentration_
        new = model.predict([0.5, -2.0])
        eta = model.mu_ + model.beta_[0] * np.array([0.5, -2.0])
        np.testing.assert_allclose(new, 1 / (1 + np.exp(-eta)) if kind == "beta" else np.exp(eta), rtol=1e-9)
        np.testing.assert_allclose(model.predict(Z), model.prior_mean_, rtol=1e-9)


def test_a_search_that_stopped_short_is_told(monkeypatch):
    """Where slopes of the log-likelihood are 1e-4 of the square root of the number of clients, or more."""
    minimize = optimize.minimize

    def beside(share):
        def search(loss, *args, **more):
            found = minimize(loss, *args, **more)
            step = 1e-3 * np.eye(found.x.size)[0]
            found.x = found.x + step * share * 1e-4 * np.sqrt(8) / np.abs(loss(found.x + step)[1]).max()
            return found

        return search

    for share in (0.97, 1.03):
        monkeypatch.setattr(optimize, "minimize", beside(share))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = BetaBinomialRegression(LIKELIEST).fit(X, N, Z)
        assert model.converged_ == (share < 1)
        assert [w.filename for w in caught if "did not converge" in str(w.message)] == [__file__] * (share > 1)


def terms(eta):
    """A concave term for each client, and its slope."""
    scale = np.array([1.0, 0.5, 2.0, 1.5, 0.7, 1.1, 0.9, 1.3])
    return X * eta / 5 - scale * np.exp(eta), X / 5 - scale * np.exp(eta)


def test_the_best_coefficients_have_no_slope_and_their_curvature():
    b, value, curvature = averaged_regression.best(terms, BASIS, np.array([-3.0, 2.0]))
    exact = optimize.minimize(lambda b: -terms(BASIS @ b)[0].sum(), [0.0, 0.0], method="BFGS", options={"gtol": 1e-10})
    np.testing.assert_allclose(b, exact.x, atol=1e-5)
    assert value == pytest.approx(-exact.fun, rel=1e-10)
    assert value == terms(BASIS @ b)[0].sum()
    bend = terms(BASIS @ b)[1] - X / 5  # minus the second derivatives' negatives
    np.testing.assert_allclose(curvature, BASIS.T @ (-bend[:, None] * BASIS), rtol=1e-6)
    convex = averaged_regression.best(lambda eta: (eta**2 - eta**4 / 4, 2 * eta - eta**3), np.ones((1, 1)), np.array([0.1]))
    assert convex[0][0] == pytest.approx(np.sqrt(2), abs=1e-4)  # past where the term is not concave


def test_one_step_is_all_that_quadratic_terms_take():
    looks = []

    def quadratic(eta):
        looks.append(eta)
        return -0.5 * (eta - Z) ** 2, Z - eta

    b, value, _ = averaged_regression.best(quadratic, BASIS, np.array([-3.0, 2.0]))
    np.testing.assert_allclose([*b, value], [0, 1, 0], atol=1e-8)
    assert len(looks) == 1 + 3 + 2  # at the start, for a step, and for the curvature at its end


def test_terms_of_little_curvature_keep_it():
    b, _, curvature = averaged_regression.best(lambda eta: tuple(1e-3 * part for part in terms(eta)), BASIS, np.zeros(2))
    exact, _, whole = averaged_regression.best(terms, BASIS, np.zeros(2))
    np.testing.assert_allclose(b, exact, atol=1e-3)
    np.testing.assert_allclose(curvature, 1e-3 * whole, rtol=1e-2)


@pytest.mark.parametrize("slant", [-400.0, -4.0, 4.0, 16.0, 17.0, 400.0])
def test_what_laplaces_method_leaves_out_is_at_most_one_sd(slant):
    """Third derivative 2 slant at one client: half of it times the variance times the sd, which are 1/4 and 1/2."""
    found = averaged_regression.lean(lambda eta: slant * eta**2, np.ones((1, 1)), np.zeros(1), np.full((1, 1), 0.5))
    assert found == pytest.approx([np.clip(slant / 8, -1, 1)], rel=1e-6)


@pytest.mark.parametrize("size", [1.0, 100.0])
@pytest.mark.parametrize("centre", [-14.0, -8.0, -3.1, 0.2, 4.0, 8.9])
@pytest.mark.parametrize("sd", [0.05, 0.3, 1.0, 1.9])
def test_nodes_cover_what_counts_between_the_ends_and_little_else(size, centre, sd):
    """Of normal terms whose precision is rho: the integral over two coefficients falls as 1 / rho."""

    def at(eta, log_rho):
        return -0.5 * np.exp(log_rho) * (eta - 0.3) ** 2, -np.exp(log_rho) * (eta - 0.3)

    nodes = averaged_regression.average(at, lambda s: -0.5 * ((s - centre) / sd) ** 2 - 1e3, BASIS, np.zeros(2), size)
    logs = -0.5 * ((nodes.log_rho - centre) / sd) ** 2 - nodes.log_rho
    weights = np.exp(logs - logs.max())
    np.testing.assert_allclose(nodes.weights, weights / weights.sum(), rtol=1e-5, atol=1e-12)
    low, high, middle = np.log(1e-4 / size), np.log(1e4), centre - sd**2
    reach = np.sqrt(2 * 14.0 * sd**2 + (np.clip(middle, low, high) - middle) ** 2)  # 14 below the largest logarithm
    first, last = np.clip([middle - reach, middle + reach], low, high)
    step = np.ptp(nodes.log_rho) / 0.6 / 14  # of the search, whose cells are 14
    assert first - step <= nodes.log_rho[0] <= first + 1e-9
    assert last - 1e-9 <= nodes.log_rho[-1] <= last + step


def test_nodes_weigh_overdispersion_as_laplaces_method_does():
    def at(eta, log_rho):
        value, slope = terms(eta)
        return value - np.exp(log_rho) / 8, slope

    def hyperprior(log_rho):
        return -0.5 * (log_rho + 1) ** 2

    nodes = averaged_regression.average(at, hyperprior, BASIS, np.zeros(2), 1.0)
    assert nodes.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.diff(nodes.log_rho), nodes.log_rho[1] - nodes.log_rho[0], rtol=1e-9)
    logs = hyperprior(nodes.log_rho) - np.exp(nodes.log_rho)  # all else is the same for each
    weights = np.exp(logs - logs.max())
    np.testing.assert_allclose(nodes.weights, weights / weights.sum(), rtol=1e-6)
    x = np.linspace(-12, 8, 4001)
    exact = np.exp(hyperprior(x) - np.exp(x))
    mean = exact @ x / exact.sum()
    assert nodes.weights @ nodes.log_rho == pytest.approx(mean, abs=2e-3)
    assert nodes.weights @ (nodes.log_rho - mean) ** 2 == pytest.approx(exact @ (x - mean) ** 2 / exact.sum(), rel=5e-3)
    b, _, curvature = averaged_regression.best(terms, BASIS, np.zeros(2))
    covariance = np.linalg.inv(curvature)
    np.testing.assert_allclose(nodes.roots[0] @ nodes.roots[0].T, covariance, rtol=1e-4)
    third = terms(BASIS @ b)[1] - X / 5  # the exponential's derivatives are all the same
    lean = 0.5 * np.einsum("ab,mb,m,mc,cd,md->a", covariance, BASIS, third, BASIS, covariance, BASIS)
    np.testing.assert_allclose(nodes.means, [b + lean] * nodes.weights.size, atol=1e-5)
    # The exact mean, on a lattice: the first term that Laplace's method leaves out is most of what the mode is off by.
    lattice = np.stack(np.meshgrid(np.linspace(-4, 3, 301), np.linspace(-3, 3, 301)), -1).reshape(-1, 2)
    logs = terms(lattice @ BASIS.T)[0].sum(axis=1)
    density = np.exp(logs - logs.max())
    exact_mean = density @ lattice / density.sum()
    assert np.abs(nodes.means[0] - exact_mean).max() < 0.4 * np.abs(b - exact_mean).max()


def test_nodes_of_a_new_client_are_those_of_the_mixture_of_normals():
    root = np.array([[0.4, 0.0], [0.1, 0.3]])
    nodes = Nodes(np.log([0.5, 2.0]), np.array([0.3, 0.7]), np.array([[0.1, 0.2], [-1.2, 1.4]]), np.array([root, 2 * root]))
    row = np.array([1.0, 2.5])
    weights, eta, log_rho = averaged_regression.new_laws(nodes, row, lambda eta, s: (eta, np.full(eta.shape, s)))
    assert weights.sum() == pytest.approx(1.0)
    assert [weights[log_rho[:, 0] == s].sum() for s in nodes.log_rho] == pytest.approx([0.3, 0.7])
    laws = stats.norm(nodes.means @ row, [np.linalg.norm(row @ r) for r in nodes.roots])
    for t in np.linspace(-2, 7, 19):
        assert weights @ (eta[:, 0] <= t) == pytest.approx(nodes.weights @ laws.cdf(t), abs=0.03)  # of 81 steps
    for power in (1, 2):
        exact = sum(
            w * stats.norm(m, s).moment(power) for w, m, s in zip(nodes.weights, laws.mean(), laws.std(), strict=True)
        )
        assert weights @ eta[:, 0] ** power == pytest.approx(exact, rel=2e-3)


def beta_moments(first, second):
    law = stats.beta(first, second)
    return law.mean(), law.var()


def alike(mean, variance):
    total = mean * (1 - mean) / variance - 1
    return mean * total, (1 - mean) * total


@pytest.mark.parametrize("spread", [0.05, 3.0])
def test_laws_spread_over_nodes_keep_their_moments(spread):
    """One law of the same moments for each node or, where coefficients are unsure and the prior wide, all of them."""
    root = spread * np.array([[0.4, 0.0], [0.1, 0.3]])
    nodes = Nodes(np.log([0.5, 2.0]), np.array([0.3, 0.7]), np.array([[0.1, 0.2], [-0.2, 0.4]]), np.array([root, root / 2]))

    def shapes(eta, log_rho):
        mean, phi = 1 / (1 + np.exp(-eta)), np.exp(-log_rho)
        return mean * phi + X, (1 - mean) * phi + N - X

    weights, first, second = averaged_regression.spread_over(nodes, BASIS, 10.0, shapes, beta_moments, alike)
    assert weights.sum() == pytest.approx(1.0)
    mean, variance = beta_moments(first, second)
    found = weights @ mean, weights @ (variance + mean**2)
    x, w = np.polynomial.hermite_e.hermegauss(41)
    w, exact = w / w.sum(), np.zeros((2, 8))
    for log_rho, share, b, r in zip(*nodes, strict=True):
        sd = np.linalg.norm(BASIS @ r, axis=1)
        means, variances = beta_moments(*shapes(BASIS @ b + x[:, None] * sd, log_rho))
        exact += share * np.array([w @ means, w @ (variances + means**2)])
    np.testing.assert_allclose(found, exact, rtol=1e-6 if spread < 1 else 5e-2)
    assert weights.size == (2 if spread < 1 else weights.size)
    small = averaged_regression.spread_over(nodes, BASIS, 1e-6, shapes, beta_moments, alike)[0]
    assert small.size == 2
    wide = nodes._replace(log_rho=np.log([2.0, 10.0]))  # 0.2 times either is above 0.25
    laws = averaged_regression.spread_over(wide, BASIS, 0.2, shapes, beta_moments, alike)[0]
    assert laws.size == (2 if spread < 1 else 2 * averaged_regression.POINTS)


def test_averaged_posteriors_are_mixtures_and_their_draws():
    for kind, model, size in models():
        weights, first, second = model.laws_
        laws = stats.beta(first, second) if kind == "beta" else stats.gamma(first, scale=1 / second)
        assert weights.sum() == pytest.approx(1.0)
        mean = weights @ laws.mean()
        np.testing.assert_allclose(model.posterior_mean_, mean, rtol=1e-10)
        sd = np.sqrt(weights @ (laws.var() + (laws.mean() - mean) ** 2))
        np.testing.assert_allclose(model.posterior_sd_, sd, rtol=1e-9)
        for t in (0.1, 0.5, 2.0):
            np.testing.assert_allclose(model.posterior_cdf(t), weights @ laws.cdf(t), rtol=1e-9, atol=1e-14)
        for q in (0.02, 0.5, 0.97):
            ends = model.posterior_quantile(q)
            inside = (ends < 1 - 1e-9) | (kind == "gamma")  # of 11 of 11 some lie where floats are too far apart
            np.testing.assert_allclose((weights @ laws.cdf(ends))[inside], q, rtol=1e-7)
            assert (weights @ laws.cdf(np.nextafter(ends, 0)) <= q + 1e-9).all()
            assert inside.sum() >= 7
        bounds = (0.0, 1.0) if kind == "beta" else (0.0, np.inf)
        assert [model.posterior_quantile(q).tolist() for q in (0.0, 1.0)] == [[end] * 8 for end in bounds]
        draws = model.sample_posterior(RNG(3), 20_000)
        np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * sd.max() / 100)
        np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.06)
        for i in (1, 4):
            t = np.quantile(draws[:, i], [0.1, 0.4, 0.8])
            frozen = stats.beta if kind == "beta" else lambda a, b: stats.gamma(a, scale=1 / b)
            exact = weights @ frozen(first[:, i, None], second[:, i, None]).cdf(t)
            np.testing.assert_allclose(exact, [0.1, 0.4, 0.8], atol=0.02)
        nodes = model._nodes
        phis = np.exp(-nodes.log_rho)
        if kind == "beta":
            own = [size / (size + phi) for phi in phis]
            unit = size.mean()
            share = nodes.weights @ (unit / (unit + phis))
            assert model.stated_concentration_ == pytest.approx(unit * (1 / share - 1))
        else:
            own = [size * model.prior_mean_ / (size * model.prior_mean_ + phi) for phi in phis]
        np.testing.assert_allclose(model.weights_, nodes.weights @ np.array(own), rtol=1e-9)
        assert (model.independent, model.atoms().size) == (False, 0)
        np.testing.assert_allclose(model.own_numbers(), X / size)
        np.testing.assert_allclose(model.own_numbers((X[::-1], size)), X[::-1] / size)


def test_intercepts_and_slopes_have_means_and_sds_of_their_mixtures():
    """Of nodes that are made up, and lie apart: by the linear predictors of clients whose covariate is 0 or 1."""
    for _, model, _ in models():
        root = np.array([[0.4, 0.0], [0.1, 0.3]])
        nodes = Nodes(
            np.log([0.5, 2.0]), np.array([0.3, 0.7]), np.array([[0.1, 0.2], [-1.2, 1.4]]), np.array([root, 2 * root])
        )
        model._nodes = nodes
        none, one = model.new_rows([0.0, 1.0])[0]
        summary = model.prior_summary()
        for form, mean, sd in (
            (none, summary["intercept"], summary["intercept_standard_error"]),
            (one - none, summary["slopes"][0], summary["slope_standard_errors"][0]),
        ):
            each = nodes.means @ form
            assert mean == pytest.approx(nodes.weights @ each)
            second = np.array([form @ r @ r.T @ form for r in nodes.roots]) + each**2
            assert sd == pytest.approx(np.sqrt(nodes.weights @ second - mean**2))


def test_new_counts_are_those_of_the_truths_and_sizes():
    truth = np.linspace(0.05, 0.9, 8)
    for kind, model, size in models(LIKELIEST):
        drawn = np.array([model.draw(RNG(seed), truth)[1][0] for seed in range(400)])
        law = stats.binom(size, truth) if kind == "beta" else stats.poisson(size * truth)
        assert (np.abs(drawn.mean(axis=0) - law.mean()) < 5 * law.std() / 20).all()
        np.testing.assert_allclose(drawn.std(axis=0), law.std(), rtol=0.3)


def test_what_a_regression_needs_and_leaves_out():
    with pytest.warns(UserWarning, match="left out: constant, or a combination"):
        model = BetaBinomialRegression(LIKELIEST).fit(X, N, np.column_stack([Z, np.ones(8)]))
    plain = BetaBinomialRegression(LIKELIEST).fit(X, N, Z)
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-9)
    assert np.isinf(model.beta_sd_[1])
    assert model.beta_sd_[0] == pytest.approx(plain.beta_sd_[0], rel=1e-4)
    with pytest.raises(ValueError, match="leave 2 coefficients to learn, the intercept included, which needs 3 clients"):
        BetaBinomialRegression().fit([1, 2], 5, [0.0, 1.0])
    assert BetaBinomialRegression().fit([1, 2, 4], 5, [0.0, 1.0, 2.0]).converged_  # as few as can be
    with pytest.raises(ValueError, match="x holds zeros only"):
        BetaBinomialRegression().fit([0, 0, 0], 5, [0.0, 1.0, 3.0])
    with pytest.raises(ValueError, match="x holds successes only"):
        BetaBinomialRegression().fit([5, 5, 5], 5, [0.0, 1.0, 3.0])
    with pytest.raises(ValueError, match="separate clients with nothing but zeros"):
        BetaBinomialRegression().fit([0, 0, 0, 5, 5, 5], 5, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    for x, exposure, z in (
        ([0, 0, 3, 4, 7, 2], 1.0, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ([0, 0, 3, 4, 7, 2], [3.0, 1.0, 2.0, 1.0, 1.0, 2.0], [-1.0, -2.0, 0.0, 0.0, 0.0, 0.0]),
    ):
        with pytest.raises(ValueError, match="separate clients with nothing but zeros"):
            GammaPoissonRegression().fit(x, exposure, z)
    with pytest.raises(ValueError, match="separate clients with nothing but zeros"):
        BetaBinomialRegression().fit([0, 0, 3, 2, 5, 4], 6, [1.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="covariates must be given if the model was fitted with covariates"):
        plain.predict()
    bare = BetaBinomialRegression(LIKELIEST).fit(X, N)
    assert bare.predict() == bare.prior_mean_[0]
    with pytest.raises(ValueError, match="and only then"):
        bare.predict([1.0])
    silent = BetaBinomialRegression().fit(np.append(X, 0), np.append(N, 0), np.append(Z, 0.5))
    alone = BetaBinomialRegression().fit(X, N, Z)
    np.testing.assert_allclose(silent.posterior_mean_[:-1], alone.posterior_mean_, rtol=1e-5)
    assert silent.weights_[-1] == 0.0
    assert np.isnan(silent.own_numbers()[-1])


def test_quantiles_of_many_clients_are_those_of_each():
    """On both sides of the number from which they are interpolated."""
    g = RNG(2)
    n = g.integers(5, 400, 1400)
    x = g.binomial(n, g.beta(3, 7, 1400))
    model = BetaBinomial().fit(x, n)
    few = model.posterior(x[:40], n[:40])
    for q in (0.025, 0.5, 0.9):
        np.testing.assert_allclose(model.posterior_quantile(q)[:40], few.posterior_quantile(q), rtol=1e-8)
        np.testing.assert_allclose(few.posterior_cdf(few.posterior_quantile(q)), q, rtol=1e-7)


def test_separation_is_a_cone_of_directions():
    """Against a search of directions in the plane."""
    from estimators.counts.count_regression import separated

    for seed in range(40):
        g = RNG(seed)
        basis = np.column_stack([np.ones(6), g.integers(-2, 3, 6)])
        kind = g.integers(0, 3, 6)
        angles = np.concatenate([np.linspace(0, 2 * np.pi, 3600, endpoint=False), *(
            np.arctan2(row[0], -row[1]) + np.array([0.0, np.pi]) for row in basis
        )])  # fmt: skip
        moved = np.column_stack([np.cos(angles), np.sin(angles)]) @ basis.T
        moved[np.abs(moved) < 1e-12] = 0.0
        fits = np.where(kind == 0, moved <= 0, np.where(kind == 1, moved >= 0, moved == 0))
        exact = bool((fits.all(axis=1) & (moved != 0).any(axis=1)).any())
        assert separated(basis, kind == 0, kind == 1) is exact


def test_warnings_point_at_the_callers_line():
    calls = (
        lambda: BetaBinomialRegression(LIKELIEST).fit([3, 5, 4, 6], 10),
        lambda: GammaPoissonRegression(LIKELIEST).fit([3, 5, 4, 6], 10),
        lambda: BetaBinomialRegression().fit([3, 9, 0, 6, 2], 10, np.ones(5)),
    )
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [w.filename for w in caught] == [__file__]


def test_likelihoods_at_the_ends_of_all_parameters():
    """Binomial where clients do not differ, one draw per client where they are all or nothing, and impossible data."""
    x, n = np.array([0, 2, 7, 5]), np.array([3, 9, 7, 11])
    mixed = beta_binomial.BetaBinomialTally.of(x, n)
    for mean in (0.3, 0.8):
        found = beta_binomial.log_chance(mixed, mean, np.inf, np.inf)
        assert found == pytest.approx(stats.binom.logpmf(x, n, mean).sum(), rel=1e-12)
    assert beta_binomial.log_chance(mixed, 0.3, 0.0, 0.0) == -np.inf
    assert beta_binomial.log_chance(mixed, 0.0, 0.0, np.inf) == -np.inf
    whole = beta_binomial.BetaBinomialTally.of([0, 9, 7, 0, 0], [3, 9, 7, 11, 0])
    assert beta_binomial.log_chance(whole, 0.3, 0.0, 0.0) == pytest.approx(2 * np.log(0.3) + 2 * np.log(0.7))
    single = beta_binomial.BetaBinomialTally.of([0, 1, 3], [1, 1, 3])
    assert beta_binomial.log_chance(single, 0.3, 0.0, 0.0) == pytest.approx(2 * np.log(0.3) + np.log(0.7))
    nothing = beta_binomial.BetaBinomialTally.of([0, 0], [3, 5])
    for other in (3.0, np.inf):  # a mean of 0, whatever the spread
        assert beta_binomial.log_chance(nothing, 0.0, 0.0, other) == 0.0
        assert beta_binomial.log_chance(mixed, 0.0, 0.0, other) == -np.inf
    everything = beta_binomial.BetaBinomialTally.of([3, 5], [3, 5])
    for other in (3.0, np.inf):
        assert beta_binomial.log_chance(everything, 1.0, other, 0.0) == 0.0
        assert beta_binomial.log_chance(mixed, 1.0, other, 0.0) == -np.inf
    e = np.array([0.7, 2.0, 1.1, 0.9])
    events = gamma_poisson.GammaPoissonTally.of(x, e)
    assert gamma_poisson.log_chance(events, 1.7, 0.0) == pytest.approx(stats.poisson.logpmf(x, 1.7 * e).sum(), rel=1e-12)
    for rho in (0.2, 3.0):
        exact = stats.nbinom.logpmf(x, 1 / rho, 1 / (1 + rho * 1.7 * e)).sum()
        assert gamma_poisson.log_chance(events, 1.7, rho) == pytest.approx(exact, rel=1e-12)
    assert gamma_poisson.log_chance(events, 0.0, 0.0) == -np.inf
    assert gamma_poisson.log_chance(gamma_poisson.GammaPoissonTally.of([0, 0], [1.0, 2.0]), 0.0, 0.0) == 0.0
    assert beta_binomial.both_kinds(mixed) == 2
    assert beta_binomial.both_kinds(whole) == 0
