"""What a server makes of reports, number by number: rational moments, mixtures of normal laws, sums over nodes."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from estimators.accounting import Budget, Guarantee
from estimators.private import (
    MeanReport,
    PrivateGaussianMeans,
    PrivateRates,
    PrivateRegressionMeans,
    RateReport,
    RegressionReport,
    outlying,
    release_prior,
)
from estimators.private.central import noisy_moments
from estimators.private.mean_posterior import new_estimates
from estimators.private.rates import noisy_rate_moments, pair_errors, rate_errors
from estimators.private.regression import RegressionPrior, pooled_coefficients, variances
from estimators.private.server import pooled_sigma2, report_variance, tau_information

RNG = np.random.default_rng


def fractions(values):
    return [Fraction(float(v)) for v in values]


@pytest.mark.parametrize("weights", [[1, 1, 1, 1], [1, 4, 0.5, 2], [1, 0, 0, 3]])
def test_moments_of_noisy_rates_are_their_rational_formula(weights):
    values, trials, noise = [0.5, 3.25, 6.0, 1.0], [1, 4, 9, 3], [0.25, 2.0, 0.5, 0.0]
    w = [x / sum(fractions(weights)) for x in fractions(weights)]
    n, y = fractions(trials), [v / t for v, t in zip(fractions(values), fractions(trials), strict=True)]
    v = [s / t**2 for s, t in zip(fractions(noise), n, strict=True)]
    mu = sum(a * b for a, b in zip(w, y, strict=True))
    some = [i for i in range(4) if trials[i] >= 2]
    c = {i: w[i] for i in some} if sum(w[i] for i in some) > 0 else dict.fromkeys(some, Fraction(1))
    within = sum(c[i] * (y[i] * (1 - y[i]) + v[i]) * n[i] / (n[i] - 1) for i in some) / sum(c.values())
    left = [a * (1 - a) for a in w]
    spread = sum(a * (b - mu) ** 2 for a, b in zip(w, y, strict=True))
    sigma2 = (spread - sum(a * (within / t + s) for a, t, s in zip(left, n, v, strict=True))) / sum(left)
    found = noisy_rate_moments(values, trials, noise, weights=weights)
    assert found == pytest.approx((float(mu), float(sigma2), float(within)), rel=1e-12)


@pytest.mark.parametrize(
    ("values", "trials", "noise"),
    [
        ([0.5, 3.25, 6.0, 1.0, 2.0], [1, 4, 9, 3, 2], [0.25, 2.0, 0.5, 0.0, 0.7]),
        ([0.5, 3.25, 11.0, 1.0, 2.0], [1, 4, 9, 3, 2], [0.25, 2.0, 0.5, 0.0, 0.7]),
        ([0.4, 0.3, 0.9, 0.2, 0.2], [4, 4, 9, 3, 2], [0.05, 0.1, 0.03, 0.2, 0.1]),  # they differ by less than by sampling
        ([-2.0, 2.0, 4.0, 2.0, 1.0], [2, 4, 9, 3, 2], [0.1, 0.2, 0.1, 0.0, 0.0]),  # rates outside of [0, 1]
    ],
)
def test_moments_weigh_rates_as_a_uniform_prior_would_and_then_by_what_they_found(values, trials, noise):
    """A uniform rate has variance 1/12, and its single answers 1/6 on average, never more than 1/4."""
    first = [1 / (1 / 12 + 1 / 6 / n + s / n**2) for n, s in zip(trials, noise, strict=True)]
    _, sigma2, within = noisy_rate_moments(values, trials, noise, weights=first)
    within = min(max(within, 0.0), 0.25)
    second = [1 / (max(sigma2, 0.0) + within / n + s / n**2) for n, s in zip(trials, noise, strict=True)]
    exact = noisy_rate_moments(values, trials, noise, weights=second)
    assert noisy_rate_moments(values, trials, noise) == pytest.approx(exact, rel=1e-12)
    alike = noisy_rate_moments([0, 0, 0], [1, 2, 3], np.zeros(3))  # nothing is left to weigh by
    assert alike == (0.0, 0.0, 0.0)


def test_moments_need_two_clients_and_two_trials():
    assert np.isfinite(noisy_rate_moments([1.0, 2.0], [2, 2], [0.0, 0.0])).all()
    assert np.isfinite(noisy_rate_moments([1.0, 1.0], [1, 2], [0.0, 0.0])).all()
    assert np.isfinite(noisy_rate_moments([1.0, 2.0, 0.0], [2, 2, 2], [0.0] * 3, weights=[1, 1, 0])).all()
    assert (
        noisy_rate_moments([0.0, 1.0, 1.0], [1, 1, 2], np.zeros(3), weights=[1, 1, 0])[2] == 0.5
    )  # no weight on two trials
    for values, trials, weights in (([1.0], [2], None), ([1.0, 1.0], [1, 1], None), ([1.0, 2.0], [2, 2], [1, 0])):
        with pytest.raises(ValueError, match="must"):
            noisy_rate_moments(values, trials, np.zeros(len(values)), weights=weights)


def test_errors_of_moments_are_their_formulas():
    n, noise = np.array([4.0, 9.0, 3.0]), np.array([0.5, 2.0, 0.0])
    mu, sigma2, within = 0.45, 0.06, 0.18
    variance = sigma2 + within / n + noise / n**2
    w = (1 / variance) / (1 / variance).sum()
    for y in (np.array([0.2, 2.5, -0.9]), np.array([0.2, 0.5, 0.9])):  # squares that scatter more than normal ones, and less
        normal, seen = (w**2 * 2 * variance**2).sum(), (w**2 * ((y - mu) ** 2 - variance) ** 2).sum()
        exact = np.sqrt((w**2 * variance).sum()), np.sqrt(max(normal, seen)) / (w * (1 - w)).sum()
        assert rate_errors(y, n, noise, mu, sigma2, within) == pytest.approx(exact, rel=1e-12)
    for mean, ones in ((-0.1, 0), (0.5, 8), (1.2, 16)):  # of sixteen answers: a success and a failure more
        smooth = (ones + 1) / 18
        variance = smooth * (1 - smooth) / 18 / n
        w = (1 / variance) / (1 / variance).sum()
        found = rate_errors(np.full(3, mean), n, 0 * n, mean, -0.2, 0.0)[0]
        assert found == pytest.approx(np.sqrt((w**2 * variance).sum()))
    assert rate_errors(y, n, noise, mu, sigma2, 0.9) == rate_errors(y, n, noise, mu, sigma2, 0.25)  # no variance is larger
    ones, pairs = np.array([0.3, 0.5]), np.array([0.2, 0.1, 0.6])
    one, two = 0.4 + 0.45 * 0.55, 0.3 + (0.06 + 0.45**2) * (1 - 0.06 - 0.45**2)
    exact = np.sqrt(one / 2), np.sqrt(two / 3 + 4 * 0.45**2 * one / 2 + 2 * one**2 / 2)
    assert pair_errors(0.45, 0.06, ones, pairs) == pytest.approx(exact, rel=1e-12)


def mean_report(value, noise, n=9, rounding=0.0, mechanism="gaussian", bounds=(-8.0, 8.0), **more):
    made = Guarantee(1.0, 1e-6, "row", "client", mechanism)
    return MeanReport("", n, made, value, noise, rounding, bounds, **more)


@pytest.mark.parametrize("mechanism", ["staircase", "discrete-laplace", "gaussian"])
def test_reports_without_noise_have_none_of_any_kind(mechanism):
    estimates, normal, noise = outlying.read([mean_report(0.5, 0.0, mechanism=mechanism)] * 2, sigma2=1.0)
    assert estimates.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(normal, 1 / 9, rtol=1e-15)
    assert not noise.stairs.size
    assert not noise.scale.any()


def test_new_reports_have_the_variance_of_a_mean_of_rows_and_of_their_noise():
    """Rows are clipped first: at bounds one and two standard deviations away, by moments of a truncated normal law."""
    clients, n, sigma2, noise = 20_000, 25, 4.0, 0.01
    reports = [mean_report(0.0, noise, n=n, bounds=(-2.0, 4.0)) for _ in range(clients)]
    found = new_estimates(reports, sigma2, np.zeros(clients), RNG(3))
    rows = stats.truncnorm(-1.0, 2.0, scale=2.0)
    inside, below, above = rows.cdf(np.inf) * (stats.norm.cdf(2) - stats.norm.cdf(-1)), stats.norm.cdf(-1), stats.norm.sf(2)
    mean = inside * rows.mean() - 2 * below + 4 * above
    square = inside * rows.moment(2) + 4 * below + 16 * above
    variance = (square - mean**2) / n + noise
    assert found.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / clients))
    assert found.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / clients))


X, NOISE, SIZES = [1.3, -0.4, 2.9, 0.2, 4.1], [0.3, 0.9, 0.1, 0.5, 1.2], [9, 4, 12, 30, 7]
REPORTS = [mean_report(x, v, n, 0.02) for x, v, n in zip(X, NOISE, SIZES, strict=True)]
TOTAL = np.array([2.5 / n + v + 0.02 for v, n in zip(NOISE, SIZES, strict=True)])


def test_variances_of_reports_and_who_tells_of_differences():
    assert [report_variance(r, 2.5) for r in REPORTS] == pytest.approx(TOTAL)
    reports = [mean_report(0.0, 0.1, rounding=share * 16.0**2) for share in (0.25, 0.2491, 0.2489, 0.0)]
    assert tau_information(reports).tolist() == [0, 0, 1, 1]


def test_the_variance_of_rows_is_pooled_from_noisy_ones():
    """Weights by noise and twice the squared median over the degrees of freedom; then a normal law cut off at zero."""
    told, noise, n = np.array([2.3, 3.5, 1.2]), np.array([0.5, 2.0, 0.1]), np.array([9, 4, 12])
    reports = [mean_report(0.0, 0.1, int(k), variance=v, variance_noise=s) for v, s, k in zip(told, noise, n, strict=True)]
    spread = noise + 2 * 2.3**2 / (n - 1)
    pooled, error = (told / spread).sum() / (1 / spread).sum(), (1 / spread).sum() ** -0.5
    law = stats.truncnorm(-pooled / error, np.inf, pooled, error)
    assert pooled_sigma2([*reports, mean_report(0.0, 0.1)]) == pytest.approx((law.mean(), error), rel=1e-9)
    hidden = [mean_report(0.0, 0.1, 9, variance=v, variance_noise=4.0) for v in (-1.0, 0.5, -0.2)]

    def fit():  # the warning points at who calls the fit that asks
        return pooled_sigma2(hidden)

    with pytest.warns(UserWarning, match="their noise hides sigma2"):
        low = fit()
    error = np.sqrt(4 / 3)
    assert low == pytest.approx((stats.truncnorm(0.7 / 3 / error, np.inf, -0.7 / 3, error).mean(), error), rel=1e-9)
    assert pooled_sigma2([mean_report(0.0, 0.1, 9, variance=0.0, variance_noise=0.0)] * 2) == (0.0, 0.0)
    with pytest.raises(ValueError, match="sigma2 must be given"):
        pooled_sigma2([mean_report(0.0, 0.1)])


def test_an_integrated_prior_is_an_average_over_the_spread():
    """Flat in tau from 0 to half of the width, and in the centre: by a fine sum over tau."""
    model = PrivateGaussianMeans("integrated", sigma2=2.5).fit(REPORTS)
    tau = np.linspace(0, 8, 16_001)
    precision = 1 / (tau[:, None] ** 2 + TOTAL)
    whole = precision.sum(axis=1)
    mu = precision @ X / whole
    log = 0.5 * (np.log(precision) - precision * (X - mu[:, None]) ** 2).sum(axis=1) - 0.5 * np.log(whole)
    weight = np.exp(log - log.max())
    weight[[0, -1]] /= 2
    weight /= weight.sum()
    assert model.mu_ == pytest.approx(weight @ mu, abs=2e-3)
    assert model.tau2_ == pytest.approx(weight @ tau**2, rel=5e-3)
    assert model.mu_sd_ == pytest.approx(np.sqrt(weight @ (1 / whole + (mu - weight @ mu) ** 2)), rel=5e-3)
    own = tau[:, None] ** 2 * precision
    means = own * X + (1 - own) * mu[:, None]
    mean = weight @ means
    square = weight @ (own * TOTAL + (1 - own) ** 2 / whole[:, None] + (means - mean) ** 2)
    np.testing.assert_allclose(model.posterior_mean_, mean, atol=5e-3)
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt(square), rtol=5e-3)
    np.testing.assert_allclose(model.weights_, weight @ own, atol=3e-3)
    low, high = model.prior_interval(0.8)["sd"]
    cdf = np.cumsum(weight)
    assert np.interp([low, high], tau, cdf) == pytest.approx([0.1, 0.9], abs=0.01)
    low, high = model.prior_interval(0.8)["mean"]
    for end, tail in ((low, 0.1), (high, 0.9)):
        assert weight @ stats.norm.cdf(end, mu, 1 / np.sqrt(whole)) == pytest.approx(tail, abs=3e-3)
    draws = model.sample_posterior(RNG(1), 20_000)
    assert (np.abs(draws.mean(axis=0) - model.posterior_mean_) < 5 * model.posterior_sd_ / np.sqrt(20_000)).all()
    np.testing.assert_allclose(draws.std(axis=0), model.posterior_sd_, rtol=0.04)
    assert not model.independent
    summary = model.prior_summary()
    assert summary["family"] == "normal"
    assert (summary["mean"], summary["sd"]) == (model.mu_, pytest.approx(np.sqrt(model.tau2_)))


def test_an_exact_prior_is_broadcast_as_its_nodes_spread_by_spread():
    """Of each spread the moments of normal laws cut off at the bounds, over the centres that go with it."""
    model = PrivateGaussianMeans(sigma2=2.5).fit(REPORTS)
    nodes = model.nodes_
    law = stats.truncnorm(*((end - nodes.centre) / nodes.spread for end in (-8.0, 8.0)), nodes.centre, nodes.spread)
    mean, variance, spreads = law.mean(), law.var(), np.unique(nodes.spread)
    assert len(model.prior_.tau) == spreads.size < nodes.spread.size
    told = np.transpose([model.prior_.tau, model.prior_.weight, model.prior_.mu, model.prior_.mu_sd])
    for spread, found in zip(spreads, told, strict=True):
        w = np.where(nodes.spread == spread, nodes.weight, 0.0)
        mu = w @ mean / w.sum()
        exact = np.sqrt(w @ variance / w.sum()), w.sum() / nodes.weight.sum(), mu, np.sqrt(w @ (mean - mu) ** 2 / w.sum())
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-7)
    assert (model.prior_.sigma2, model.prior_.sigma2_sd) == (2.5, 0.0)
    assert model.prior_summary()["family"] == "normal within the bounds"
    assert not model.independent
    ends = np.array([-8.0, 8.0, -8.0, 8.0, 0.0])  # true means at the bounds are within
    np.testing.assert_array_equal(model.draw(RNG(1), ends)[0], ends)
    for k in (0, 1):
        with pytest.raises(ValueError, match="truth must lie within the bounds -8 to 8"):
            model.draw(RNG(1), np.where(np.arange(5) == k, 1.001, 1.0) * ends)


@pytest.mark.parametrize("prior", ["exact", "integrated", "marginal-likelihood"])
def test_reports_without_any_error_are_refused(prior):
    with pytest.raises(ValueError, match="sigma2 must be > 0 for reports without noise"):
        PrivateGaussianMeans(prior, sigma2=0.0).fit([*REPORTS, mean_report(0.3, 0.0)])


@pytest.mark.parametrize("prior", ["reml", "marginal-likelihood", "moments"])
def test_one_value_of_the_spread_gives_normal_laws(prior):
    model = PrivateGaussianMeans(prior, sigma2=2.5).fit(REPORTS)
    own = model.tau2_ / (model.tau2_ + TOTAL)
    np.testing.assert_allclose(model.posterior_mean_, own * X + (1 - own) * model.mu_, rtol=1e-9)
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt(own * TOTAL + (1 - own) ** 2 * model.mu_sd_**2), rtol=1e-9)
    np.testing.assert_allclose(model.weights_, own, rtol=1e-9)
    law = stats.norm(model.posterior_mean_, model.posterior_sd_)
    for t in (0.0, 1.7):
        np.testing.assert_allclose(model.posterior_cdf(t), law.cdf(t), rtol=1e-9)
    np.testing.assert_allclose(model.posterior_quantile(0.2), law.ppf(0.2), atol=1e-9)
    exact = stats.norm.logpdf(X, model.mu_, np.sqrt(model.tau2_ + TOTAL)).sum()
    assert model.log_likelihood_ == pytest.approx(exact, rel=1e-9)
    assert set(model.prior_interval(0.9)) == {"mean"}
    assert not model.independent  # of the error of the centre, which all share
    low, high = model.prior_interval(0.9)["mean"]
    assert (low, high) == pytest.approx(stats.norm.interval(0.9, model.mu_, model.mu_sd_), rel=1e-6)
    truth, (drawn,) = model.draw(RNG(2))
    assert truth.shape == (5,)
    truths = np.concatenate([model.draw(RNG(k))[0] for k in range(400)])
    assert stats.kstest(truths, stats.norm(model.mu_, np.sqrt(model.tau2_)).cdf).pvalue > 1e-4
    many = np.array([[r.estimate for r in model.draw(RNG(k), truth)[1][0]] for k in range(1500)])
    np.testing.assert_allclose(many.var(axis=0), TOTAL, rtol=0.2)
    assert (np.abs(many.mean(axis=0) - truth) < 5 * np.sqrt(TOTAL / 1500)).all()
    assert drawn[0].noise_variance == 0.3
    for few, enough in ((REPORTS[:2], True), (REPORTS[:1], False)):
        if enough:
            PrivateGaussianMeans(prior, sigma2=2.5).fit(few)
        else:
            with pytest.raises(ValueError, match="at least 2"):
                PrivateGaussianMeans(prior, sigma2=2.5).fit(few)


# --- regression ------------------------------------------------------------------------------------------------------------


def symmetric(generator, m, noise):
    """Noise matrices with this variance on the diagonal and half of it beside, as clients add them, for x and y."""
    upper = np.triu(generator.standard_normal((m, 3, 3)) * np.sqrt(noise / 2)[:, None, None], 1)
    diagonal = np.sqrt(noise)[:, None] * generator.standard_normal((m, 3))
    return upper + np.swapaxes(upper, 1, 2) + np.einsum("mi,ij->mij", diagonal, np.eye(3))


@pytest.mark.parametrize("given", [None, 0.6])
def test_variances_of_coefficients_are_unbiased_and_scatter_as_stated(given):
    """20,000 clients whose X'X, X'Y and Y'Y are noisy: both moment equations hold on average, whatever the weights."""
    generator, m = RNG(3), 20_000
    mu, tau2, sigma2 = np.array([1.0, -0.5]), 0.4, 0.6
    n = generator.integers(3, 9, m).astype(float)
    noise = np.where(n > 5, 4.0, 1.0)
    sums = np.empty((m, 3, 3))
    for size in np.unique(n).astype(int):
        mine = np.flatnonzero(n == size)
        design = generator.normal(size=(mine.size, size, 2))
        beta = mu + np.sqrt(tau2) * generator.standard_normal((mine.size, 2))
        answer = np.einsum("mij,mj->mi", design, beta) + np.sqrt(sigma2) * generator.standard_normal((mine.size, size))
        rows = np.concatenate([design, answer[..., None]], axis=2)
        sums[mine] = np.einsum("mij,mik->mjk", rows, rows)
    noisy = sums + symmetric(generator, m, noise)
    for weights in (np.ones(m), 1 / n**2):
        found = variances(noisy, noise, n, mu, weights, given)
        assert abs(found[0] - tau2) < 4.5 * found[2]
        assert found[2] < 0.1
        if given is None:
            assert abs(found[1] - sigma2) < 4.5 * found[3]
            assert found[3] < 0.1
        else:
            assert found[1] == given
            assert found[3] == 0
    exact = np.linalg.solve(sums[:, :2, :2].sum(axis=0), sums[:, :2, 2].sum(axis=0))
    np.testing.assert_allclose(pooled_coefficients(sums, 0 * noise, np.ones(m)), exact, rtol=1e-10)
    np.testing.assert_allclose(pooled_coefficients(noisy, noise, 1 / n), mu, atol=0.05)
    smallest = np.linalg.eigvalsh(sums[:, :2, :2].sum(axis=0)).min()
    edge = smallest**2 / 9 / 2  # of the sum of noise: three of its deviations times the root of two columns
    for weight in (0.5, 1.0, 2.0):
        pooled_coefficients(sums, np.full(m, edge / m * 0.999), np.full(m, weight))
        with pytest.raises(ValueError, match="smallest eigenvalue"):
            pooled_coefficients(sums, np.full(m, edge / m * 1.001), np.full(m, weight))
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        pooled_coefficients(np.zeros((2, 3, 3)), np.zeros(2), np.ones(2))


@pytest.mark.parametrize("prior", ["exact", "integrated", "marginal-likelihood", "reml", "moments"])
def test_every_way_to_a_prior_says_that_it_has_come_to_its_end(prior):
    """Of plain reports, whose equal variances give all of them the same centre."""
    made, estimates = Guarantee(9.0, 1e-6, "row", "client", "gaussian"), [1.0, 3.0, 4.0, 6.0, 7.0, 9.0]
    reports = [MeanReport(str(x), 10, made, x, 0.1, 0.0, (0.0, 10.0)) for x in estimates]
    model = PrivateGaussianMeans(sigma2=1.0, prior=prior).fit(reports)
    assert model.converged_ is True
    assert model.mu_ == pytest.approx(5.0, abs=1e-6)


def slopes(estimate, weights):
    """Derivatives of an estimate in the log of each weight, by differences: what one client's equations tell."""
    h = 1e-4
    moved = [[estimate(weights * np.where(np.arange(weights.size) == i, s, 1.0)) for s in (1 + h, 1 - h)] for i in
             range(weights.size)]  # fmt: skip
    return np.array([np.subtract(*both) / (2 * h) for both in moved])


def small_regressions(m=9):
    generator, n = RNG(8), np.arange(4.0, 4.0 + m)
    noise, sums = np.linspace(0.1, 0.5, m), np.empty((m, 3, 3))
    for i, size in enumerate(n.astype(int)):
        x = generator.normal(size=(size, 2)) * [1.0, 1.5]
        rows = np.column_stack([x, x @ generator.normal([1.0, -0.5], 0.9) + 0.5 * generator.standard_normal(size)])
        sums[i] = rows.T @ rows
    return n, noise, sums + symmetric(generator, m, noise)


@pytest.mark.parametrize("given", [None, 0.3])
def test_variances_of_coefficients_solve_two_moment_equations_and_err_by_what_each_client_tells(given):
    """Sums over rows and columns one by one; off the diagonal the noise has half the variance."""
    n, noise, sums = small_regressions()
    mu, weights = np.array([0.8, -0.4]), 1 / n
    found = variances(sums, noise, n, mu, weights, given)
    rows = np.zeros((2, 3))
    for w, k, v, S in zip(weights, n, noise, sums, strict=True):
        A, b, c = S[:2, :2], S[:2, 2], S[2, 2]
        squares = (A**2).sum() - v - v - v / 2 - v / 2  # two on the diagonal, two off it
        told = b - A @ mu
        off = v / 2 * (2 + 2 * mu @ mu) + v / 2 * (mu @ mu)  # B of two numbers, A mu, and once more what is on the diagonal
        rows[0] += w * k * np.array([np.trace(A), k, c - 2 * b @ mu + mu @ A @ mu])
        rows[1] += w * np.array([squares, np.trace(A), told @ told - off])
    if given is None:
        exact = np.linalg.solve(rows[:, :2], rows[:, 2])
    else:
        exact = np.array([(rows[1, 2] - given * rows[1, 1]) / rows[1, 0], given])
    np.testing.assert_allclose(found[:2], exact, rtol=1e-10)
    told = slopes(lambda w: np.array(variances(sums, noise, n, mu, w, given)[:2]), weights)
    np.testing.assert_allclose(found[2:], np.sqrt((told**2).sum(axis=0)), rtol=1e-5)
    less = sums.copy()
    less[:, :2, 2] = less[:, 2, :2] = np.einsum("ijk,k->ij", sums[:, :2, :2], mu)  # of which the scores are nothing
    found = variances(less, noise, n, mu, weights, given)
    assert found[0] < 0
    residual = less[:, 2, 2] - np.einsum("ij,j->i", less[:, :2, 2], mu)
    expected = (weights * n * residual).sum() / (weights * n * n).sum() if given is None else given
    assert found[1] == pytest.approx(expected, rel=1e-10)


def test_a_fitted_regression_states_its_second_pass_and_what_its_clients_tell():
    n, noise, sums = small_regressions()
    made = Guarantee(1.0, 1e-6, "row", "client", "gaussian")
    told = zip(n.astype(int), sums, noise, strict=True)
    reports = [RegressionReport(f"c{k}", int(k), made, s, float(v), 9.0) for k, s, v in told]
    for given in (None, 0.3):
        model = PrivateRegressionMeans(sigma2=given).fit(reports)
        first = pooled_coefficients(sums, noise, 1 / n)
        tau2, sigma2, *_ = variances(sums, noise, n, first, 1 / n**2, given)
        gram = np.trace(sums[:, :2, :2], axis1=1, axis2=2).sum() / (2 * n.sum()) * n
        weights = 1 / (tau2 * gram + sigma2 + noise / 2 * (1 + first @ first) / gram)
        np.testing.assert_allclose(model.mu_, pooled_coefficients(sums, noise, weights), rtol=1e-10)
        found = variances(sums, noise, n, model.mu_, weights**2 / weights.max() ** 2, given)
        assert (model.tau2_, model.tau2_sd_) == pytest.approx((found[0], found[2]), rel=1e-9)
        right = stats.truncnorm.mean(-found[1] / found[3], np.inf, found[1], found[3]) if given is None else given
        assert model.sigma2_ == pytest.approx(right, rel=1e-7)
        assert model.converged_
        each = slopes(lambda w: pooled_coefficients(sums, noise, w), weights)
        np.testing.assert_allclose(model.mu_covariance_, each.T @ each, rtol=1e-5)
        assert model.prior_ == RegressionPrior(tuple(model.mu_), model.tau2_, model.sigma2_, model.tau2_sd_)
        assert (model.clients_, model.guarantee_) == (tuple(r.client for r in reports), {made: 9})


@pytest.mark.parametrize(("eps", "share"), [(60.0, 0.5), (6.0, 0.3), (2.0, 0.5)])
def test_a_central_prior_is_the_posterior_of_a_spread_up_to_half_the_width_given_two_noisy_numbers(eps, share):
    """By sums over 400 spreads: a normal law of the variance of means, and one of their mean cut off at the bounds."""
    means, known, say = [-0.9, -0.2, 0.3, -1.4, 0.6], np.array([0.1, 0.05, 0.2, 0.1, 0.3]), {"bounds": (-1.0, 3.0)}
    say |= {"eps": eps, "delta": 0.0, "variance_share": share}
    found = release_prior(means, known, sigma2=0.7, generator=RNG(5), **say)
    (report,) = noisy_moments([np.array(means)], [""], generator=RNG(5), **say)
    assert report.variance is not None
    assert report.variance_noise is not None
    assert found[2:] == (report.variance, report.noise_variance, report.variance_noise)
    tau = (np.arange(400) + 0.5) * 2 / 400
    spread = tau**2 + known.mean()
    sd = np.sqrt(spread / 5 + report.noise_variance)
    a, b = (-1.0 - report.estimate) / sd, (3.0 - report.estimate) / sd
    weight = stats.norm.pdf(report.variance, spread, np.sqrt(2 * spread**2 / 4 + report.variance_noise))
    weight *= stats.norm.cdf(b) - stats.norm.cdf(a)
    weight /= weight.sum()
    shift, square = stats.truncnorm.stats(a, b, report.estimate, sd)
    mean = weight @ shift
    assert found.prior.mean == pytest.approx(mean, abs=2e-3 * sd.min())
    assert found.prior.mean_sd == pytest.approx(np.sqrt(weight @ (square + (shift - mean) ** 2)), rel=2e-3)
    assert found.prior.variance == pytest.approx(weight @ tau**2, rel=5e-3)
    assert found.prior.sigma2 == 0.7
    assert release_prior(means[:2], 0.1, generator=RNG(5), **say).prior.sigma2 is None  # two clients are enough
    if share == 0.5:
        plain = {name: value for name, value in say.items() if name != "variance_share"}
        assert release_prior(means, known, sigma2=0.7, generator=RNG(5), **plain) == found


def test_a_central_prior_is_taken_from_a_budget_and_needs_a_variance_of_each_of_two_clients():
    say = {"bounds": (-1.0, 3.0), "eps": 2.0, "delta": 0.0}
    with pytest.raises(ValueError, match="at least two clients"):
        release_prior([0.5], 0.1, generator=RNG(5), **say)
    with pytest.raises(ValueError, match="one variance or one each"):
        release_prior([0.5, 0.7, 0.9], [0.1, 0.1], generator=RNG(5), **say)
    budget = Budget(eps=3.0, delta=0.0, adjacency="client")
    found = release_prior([0.5, 0.7, 0.9], 0.1, budget=budget, **say)
    assert found.guarantee.adjacency == "client"
    with pytest.raises(ValueError, match="budget"):  # 2 of 3 are spent
        release_prior([0.5, 0.7, 0.9], 0.1, budget=budget, **say)
    with pytest.raises(ValueError, match=r"budget must be an accounting\.Budget or None, got float"):
        release_prior([0.5, 0.7, 0.9], 0.1, budget=3.0, generator=RNG(5), **say)
    halves = [
        noisy_moments([np.array([0.1, 0.4])], [""], generator=RNG(6), **say, **more)
        for more in ({}, {"variance_share": 0.5})
    ]
    assert halves[0] == halves[1]


def test_regressions_are_weighed_by_a_first_pass_in_which_clients_count_by_their_rows_inverted():
    generator, n = RNG(6), np.repeat([4.0, 9.0, 40.0, 150.0], 15)
    noise = np.where(n > 9, 3.0, 0.5)
    sums = np.empty((n.size, 3, 3))
    for i, size in enumerate(n.astype(int)):
        x = generator.normal(size=(size, 2))
        y = x @ generator.normal([1.0, -0.5], 0.6) + 0.9 * generator.standard_normal(size)
        rows = np.column_stack([x, y])
        sums[i] = rows.T @ rows
    sums += symmetric(generator, n.size, noise)
    mu = pooled_coefficients(sums, noise, 1 / n)
    tau2, sigma2, *_ = variances(sums, noise, n, mu, 1 / n**2, None)
    gram = np.trace(sums[:, :2, :2], axis1=1, axis2=2).sum() / (2 * n.sum()) * n
    uncertain = tau2 * gram + sigma2 + noise / 2 * (1 + mu @ mu) / gram
    made = Guarantee(1.0, 1e-6, "row", "client", "gaussian")
    told = zip(n.astype(int), sums, noise, strict=True)
    model = PrivateRegressionMeans().fit([RegressionReport("", int(k), made, s, float(v), 9.0) for k, s, v in told])
    np.testing.assert_allclose(model.mu_, pooled_coefficients(sums, noise, 1 / uncertain), rtol=1e-10)


def test_the_stated_error_of_the_spread_is_that_of_repetitions():
    """400 servers of 60 clients each, without noise: the mean of the stated error is the scatter of the estimates."""
    generator, m = RNG(4), 60
    found = []
    for _ in range(400):
        design = generator.normal(size=(m, 5, 2))
        beta = 0.7 * generator.standard_normal((m, 2))
        answer = np.einsum("mij,mj->mi", design, beta) + generator.standard_normal((m, 5))
        rows = np.concatenate([design, answer[..., None]], axis=2)
        sums = np.einsum("mij,mik->mjk", rows, rows)
        found.append(variances(sums, np.zeros(m), np.full(m, 5.0), np.zeros(2), np.ones(m), None))
    tau2, sigma2, error, other = np.array(found).T
    assert abs(tau2.mean() - 0.49) < 5 * tau2.std() / 20
    assert abs(sigma2.mean() - 1.0) < 5 * sigma2.std() / 20
    assert np.sqrt((error**2).mean()) == pytest.approx(tau2.std(), rel=0.2)
    assert np.sqrt((other**2).mean()) == pytest.approx(sigma2.std(), rel=0.2)


def test_a_grid_of_a_broadcast_spread_is_its_normal_law():
    tau2, log = RegressionPrior((0.0,), 0.5, 1.0, 0.2).grid()
    np.testing.assert_allclose(np.diff(np.sqrt(tau2), 2), 0, atol=1e-12)
    assert (tau2[0], tau2[-1]) == (0.0, pytest.approx(1.5))
    np.testing.assert_allclose(log, stats.norm.logpdf(tau2, 0.5, 0.2) - stats.norm.logpdf(0.5, 0.5, 0.2))
    assert RegressionPrior((0.0,), -0.5, 1.0, 0.2).grid()[0][-1] == pytest.approx(1.0)
    assert [part.tolist() for part in RegressionPrior((0.0,), 0.5, 1.0).grid()] == [[0.5], [0.0]]
    for bad in (lambda: RegressionPrior((0.0,), -0.1, 1.0), lambda: RegressionPrior((0.0,), 0.1, -1.0)):
        with pytest.raises(ValueError, match="must be >= 0"):
            bad()


def test_intervals_are_of_95_percent_unless_they_are_told_otherwise():
    noisy = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")
    counts = [RateReport("", 12, noisy, "ones", 12, v, 1.841) for v in (1.0, 3.0, 9.0, 5.0)]
    for model, data in (
        (PrivateGaussianMeans("integrated", sigma2=2.5), REPORTS), (PrivateGaussianMeans(sigma2=2.5), REPORTS),
        (PrivateRates(), counts),
    ):  # fmt: skip
        model.fit(data)
        assert model.prior_interval() == model.prior_interval(0.95) != model.prior_interval(0.9)
        np.testing.assert_array_equal(model.interval(), model.interval(0.95))


def test_the_spread_of_an_integrated_prior_ends_at_half_of_the_widest_bounds():
    """Reports that say next to nothing: tau is uniform up to half of the distance of the outermost bounds."""
    reports = [
        mean_report(0.0, 1e6, bounds=(-8.0, 2.0)), mean_report(0.1, 1e6, bounds=(-1.0, 12.0)), mean_report(0.2, 1e6)
    ]  # fmt: skip
    model = PrivateGaussianMeans("integrated", sigma2=2.5).fit(reports)
    assert max(model.prior_.tau) == pytest.approx(10.0)
    assert model.tau2_ == pytest.approx(100 / 3, rel=2e-3)
    noisy = [mean_report(v, 1e6, mechanism="discrete-laplace") for v in (0.0, 0.1, 0.2)]
    assert max(PrivateGaussianMeans("integrated", sigma2=2.5).fit(noisy).prior_.tau) == pytest.approx(8.0)


@pytest.mark.parametrize("unit", [1.0, 0.1])
def test_a_likelihood_behind_laplace_noise_counts_less_by_its_kurtosis(unit):
    """By 1 + 3 f^2 / 2, f the noise's share of the variance at a first estimate of tau2, flat up to half of the width."""
    x = np.array([0.5, -1.0, 3.0, 1.0, -0.5, 4.5, 2.0, -2.0]) * unit
    noise, n, sigma2 = 1.8 * unit**2, 9, 2.5 * unit**2
    bounds = (-2.5 * unit, 5.0 * unit)
    reports = [mean_report(v, noise, n, bounds=bounds, mechanism="discrete-laplace") for v in x]
    total = sigma2 / n + noise
    tau = np.linspace(0, 7.5 / 2 * unit, 40_001)
    log = -(len(x) - 1) / 2 * np.log(tau**2 + total) - ((x - x.mean()) ** 2).sum() / (tau**2 + total) / 2

    def mean_square(part):
        weight = np.exp(part * (log - log.max()))
        weight[[0, -1]] /= 2
        return weight @ tau**2 / weight.sum()

    normal = [mean_report(v, noise, n, bounds=bounds) for v in x]
    first = PrivateGaussianMeans("integrated", sigma2=sigma2).fit(normal).tau2_
    assert first == pytest.approx(mean_square(1.0), rel=1e-3)
    part = 1 / (1 + 1.5 * (noise / (first + total)) ** 2)
    assert abs(mean_square(part) / mean_square(1.0) - 1) > 0.01  # or the test would see nothing
    assert PrivateGaussianMeans("integrated", sigma2=sigma2).fit(reports).tau2_ == pytest.approx(mean_square(part), rel=1e-3)


def test_a_client_reports_once_and_clients_without_names_are_different():
    def named(*names):
        return [replace(mean_report(float(i), 0.5), client=name) for i, name in enumerate(names)]

    PrivateGaussianMeans("moments", sigma2=1.0).fit(named("", "", "a"))
    with pytest.raises(ValueError, match="hold two from the client 'a'"):
        PrivateGaussianMeans("moments", sigma2=1.0).fit(named("a", "b", "a"))
