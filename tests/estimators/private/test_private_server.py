"""The server's estimates from private reports: laws, known noise, predicted risk, coverage, boundaries, bad input."""

import warnings
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, betabinom, binom, ks_2samp, truncnorm

from estimators import GaussianMeans
from estimators.accounting.budget import Budget, Guarantee
from estimators.closed_forms import bernoulli, gaussian
from estimators.private import (
    MeanClient,
    MeanReport,
    Prior,
    PrivateGaussianMeans,
    PrivateRates,
    RateClient,
    RateReport,
    noisy_rate_moments,
    release_prior,
)
from estimators.private.noise import flip_probability
from estimators.private.noise_laws import log_likelihood, noisy_value
from estimators.private.prior import NormalMixtures, cut_mean, grid_posterior
from estimators.private.rate_posterior import rate_posteriors
from estimators.private.rates import pair_errors, rate_errors
from estimators.private.server import pooled_sigma2

RNG = np.random.default_rng
EXACT = Guarantee(np.inf, 0.0, "row", "client", "none")
BOUNDS = (-4.0, 4.0)


def report(estimate, n=10, noise=0.0, mechanism="gaussian", bounds=BOUNDS):
    return MeanReport("", n, replace(EXACT, mechanism=mechanism), float(estimate), noise, 0.0, bounds)


def simulated(rng, m, n, tau2, noise):
    """Return true means, exact means, and reports with normal noise, rows of variance 1."""
    theta = rng.normal(0.0, np.sqrt(tau2), m)
    means = theta + rng.normal(0.0, 1 / np.sqrt(n), m)
    noisy = means + rng.normal(0.0, np.sqrt(noise), m)
    return theta, means, [report(x, n, noise) for x in noisy]


# --- means -----------------------------------------------------------------------------------------------------------------


def test_without_noise_it_is_gaussian_means():
    x, variances = [1.0, 2.5, 3.0, 6.0], 1 / np.array([2, 3, 4, 5])
    reports = [report(a, n) for a, n in zip(x, [2, 3, 4, 5], strict=True)]
    for prior in ("marginal-likelihood", "reml", "moments"):
        ours = PrivateGaussianMeans(prior, sigma2=1.0).fit(reports)
        theirs = GaussianMeans(prior).fit(x, variances)
        np.testing.assert_allclose(ours.posterior_mean_, theirs.posterior_mean_, rtol=1e-12)
        np.testing.assert_allclose(ours.posterior_sd_, theirs.posterior_sd_, rtol=1e-12)
        assert ours.log_likelihood_ == pytest.approx(theirs.log_likelihood_, rel=1e-9)
        assert ours.tau2_ == pytest.approx(theirs.tau2_)


@pytest.mark.parametrize("prior", ["integrated", "marginal-likelihood", "reml"])
def test_joint_draws_have_the_posteriors_moments(prior):
    reports = [report(x, n, 0.2) for x, n in [(0.3, 2), (-1.0, 5), (1.4, 3), (0.8, 40), (-2.2, 9), (1.9, 1)]]
    model = PrivateGaussianMeans(prior, sigma2=1.0).fit(reports)
    draws = model.sample_posterior(RNG(3), 20_000)
    error = model.posterior_sd_ / np.sqrt(20_000)
    assert (np.abs(draws.mean(axis=0) - model.posterior_mean_) < 5 * error).all()
    np.testing.assert_allclose(draws.std(axis=0), model.posterior_sd_, rtol=0.03)


def test_integrated_posterior_is_that_of_quadrature():
    """Posterior means over a flat prior for mu and tau in [0, 4] by an outside integral over tau."""
    x, v = np.array([0.3, -1.0, 1.4, 0.8, -0.2]), 0.1 + np.array([0.1, 0.4, 0.2, 0.3, 0.05])
    reports = [report(a, 10, noise) for a, noise in zip(x, v - 0.1, strict=True)]
    model = PrivateGaussianMeans("integrated", sigma2=1.0).fit(reports)

    def at(tau):
        p = 1 / (v + tau**2)
        mu = p @ x / p.sum()
        likelihood = np.sqrt(np.prod(p) / p.sum()) * np.exp(-(p @ (x - mu) ** 2) / 2)
        return likelihood, (tau**2 * x + v * mu) * p

    total = quad(lambda t: at(t)[0], 0, 4)[0]
    for i in range(5):
        mean = quad(lambda t, i=i: at(t)[0] * at(t)[1][i], 0, 4)[0] / total
        assert model.posterior_mean_[i] == pytest.approx(mean, abs=2e-3)


def test_fits_move_with_the_data_and_do_not_depend_on_the_order():
    _, _, reports = simulated(RNG(0), 30, 5, 0.3, 0.2)
    model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
    moved = [
        replace(r, estimate=10 + 2 * r.estimate, noise_variance=4 * r.noise_variance, bounds=(2.0, 18.0)) for r in reports
    ]
    other = PrivateGaussianMeans(sigma2=4.0).fit(moved)
    np.testing.assert_allclose(other.posterior_mean_, 10 + 2 * model.posterior_mean_, rtol=1e-9)
    np.testing.assert_allclose(other.posterior_sd_, 2 * model.posterior_sd_, rtol=1e-9)
    turned = PrivateGaussianMeans(sigma2=1.0).fit(reports[::-1])
    np.testing.assert_allclose(turned.posterior_mean_[::-1], model.posterior_mean_, rtol=1e-9)


def test_quantiles_and_probabilities_are_inverse():
    _, _, reports = simulated(RNG(1), 20, 5, 0.3, 0.5)
    model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
    for q in (0.025, 0.5, 0.9):
        ends = model.posterior_quantile(q)
        found = [model.posterior_cdf(float(t))[i] for i, t in enumerate(ends)]
        np.testing.assert_allclose(found, q, atol=1e-10)
    low, high = model.interval(0.95)
    assert (low < model.posterior_mean_).all()
    assert (model.posterior_mean_ < high).all()
    assert (model.local_false_sign_rate() <= 0.5).all()


def test_the_error_is_the_predicted_risk():
    """2,000 clients with known prior up to estimation: errors within 5 standard errors of the formula's risk.

    `gaussian.risk` with a quantiser's noise is for clients who keep their exact mean, so it predicts the error at home.
    """
    m, n, tau2, noise = 2000, 10, 0.25, 0.4
    theta, means, reports = simulated(RNG(2), m, n, tau2, noise)
    model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
    server = (model.posterior_mean_ - theta) ** 2
    s = 1 / n + noise
    assert abs(server.mean() - tau2 * s / (tau2 + s)) < 5 * server.std() / np.sqrt(m)
    told = [model.prior_.at_home(x, 1 / n, (r.estimate, s)) for x, r in zip(means, reports, strict=True)]
    home = (np.array([law.mean()[0] for law in told]) - theta) ** 2
    predicted = gaussian.risk(tau2, 1.0, n=n, m=m, sigma2_q=noise)
    assert abs(home.mean() - predicted) < 5 * home.std() / np.sqrt(m)
    assert home.mean() < 0.1 < server.mean()  # 0.1 is the error of the own mean


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
def test_intervals_keep_their_promise(noise):
    """Fits of 200 clients, 30 times: coverage of 95 % intervals between 94 and 96 % at home; 3 standard errors allowed."""
    rng, own, home = RNG(int(10 * noise)), [], []
    for _ in range(30):
        theta, means, reports = simulated(rng, 200, 10, 0.25, noise)
        model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
        low, high = model.interval()
        own.append(np.mean((low <= theta) & (theta <= high)))
        for i in range(0, 200, 25):
            law = model.prior_.at_home(means[i], 0.1, (reports[i].estimate, 0.1 + noise))
            home.append(law.quantile(0.025)[0] <= theta[i] <= law.quantile(0.975)[0])
    assert 0.94 - 3 * np.std(home) / np.sqrt(len(home)) <= np.mean(home) <= 0.96 + 3 * np.std(home) / np.sqrt(len(home))
    error = 3 * np.std(own) / np.sqrt(len(own))
    assert np.mean(own) >= 0.94 - error
    if noise < 1:  # where noise hides tau, the bound on tau makes the server's intervals wide
        assert np.mean(own) <= 0.96 + error


def test_negative_control_ignoring_the_noise_undercovers():
    theta, _, reports = simulated(RNG(5), 500, 10, 0.25, 0.3)
    blind = [replace(r, noise_variance=0.0) for r in reports]
    low, high = PrivateGaussianMeans(sigma2=1.0).fit(blind).interval()
    assert np.mean((low <= theta) & (theta <= high)) < 0.8


def test_home_is_never_much_worse_than_the_own_mean():
    """Local privacy at eps = 0.5 tells next to nothing; with one value of tau2 the clients' errors would be large."""
    rng, home, own = RNG(6), [], []
    for _ in range(10):
        theta = rng.normal(0.0, 0.5, 100)
        rows = rng.normal(theta[:, None], 1.0, (100, 10))
        clients = [MeanClient(bounds=(-3.0, 3.0), eps=0.5, adjacency="client") for _ in rows]
        reports = [c.report(r, rng) for c, r in zip(clients, rows, strict=True)]
        prior = PrivateGaussianMeans(sigma2=1.0).fit(reports).prior_
        found = [c.at_home(r, prior, told).mean for c, r, told in zip(clients, rows, reports, strict=True)]
        home.append(np.mean((found - theta) ** 2))
        own.append(np.mean((rows.mean(axis=1) - theta) ** 2))
    assert np.mean(home) < 1.02 * np.mean(own)


def test_own_exact_rows_replace_the_own_report():
    """Without noise it makes no difference whether a client's value comes by its report or at home."""
    _, means, reports = simulated(RNG(7), 8, 10, 0.25, 0.0)
    model = PrivateGaussianMeans("integrated", sigma2=1.0).fit(reports)
    for i in range(8):
        law = model.prior_.at_home(means[i], 0.1, (reports[i].estimate, 0.1))
        assert law.mean()[0] == pytest.approx(model.posterior_mean_[i], rel=1e-6)
        assert law.sd()[0] == pytest.approx(model.posterior_sd_[i], rel=1e-6)


def test_the_variance_within_clients_is_learnt():
    """500 clients of 20 rows with variance 2: within 5 standard errors, noise included."""
    rng = RNG(8)
    rows = rng.normal(rng.normal(0, 0.5, 500)[:, None], np.sqrt(2.0), (500, 20))
    reports = [MeanClient(bounds=(-8.0, 8.0), eps=2.0, variance_share=0.5).report(r, rng) for r in rows]
    model = PrivateGaussianMeans().fit(reports)
    error = np.sqrt((float(reports[0].variance_noise or 0.0) + 2 * 4 / 19) / 500)
    assert abs(model.sigma2_ - 2.0) < 5 * error
    assert model.prior_.sigma2 == model.sigma2_


def test_an_uncertain_variance_is_moderated_at_home():
    rows = np.array([1.0, 2.0, 6.0])
    prior = replace(Prior.known(mu=0.0, tau2=1.0, sigma2=4.0), sigma2_sd=2.0)
    assert prior.row_variance(rows) == pytest.approx((8 * 4 + 14) / (8 + 2))
    assert prior.row_variance(rows[:1]) == Prior.known(mu=0.0, tau2=1.0, sigma2=4.0).row_variance(rows) == 4.0


def test_noise_that_hides_the_variance_warns():
    reports = [replace(report(x, 5, 1.0), variance=-1.0, variance_noise=4.0) for x in (0.0, 1.0, 2.0)]
    with pytest.warns(UserWarning, match="sigma2"):  # the mean of N(-1, 4 / 3) above 0
        assert PrivateGaussianMeans().fit(reports).sigma2_ == pytest.approx(
            truncnorm.mean(3**0.5 / 2, np.inf, -1, (4 / 3) ** 0.5)
        )


@pytest.mark.parametrize("values", [(2.0, 3.0, 4.5), (0.2, 0.1, 1.2), (0.5, 0.1, 0.9)])
def test_variances_are_pooled_by_their_precision(values):
    """Each has the variance of its noise and 2 sigma2^2 / (n - 1) of its rows; above 0, as a variance is."""
    noises, sizes = np.array([1.0, 0.5, 0.25]), np.array([5, 9, 3])
    drawn = [
        replace(report(0.0, int(n), 1.0), variance=v, variance_noise=e)
        for v, e, n in zip(values, noises, sizes, strict=True)
    ]
    precision = 1 / (noises + 2 * np.median(values) ** 2 / (sizes - 1))
    mean, error = np.average(values, weights=precision), precision.sum() ** -0.5
    expected = truncnorm.mean(-mean / error, np.inf, mean, error)
    with pytest.warns(UserWarning, match="hides sigma2") if mean < error else nullcontext():
        assert pooled_sigma2(drawn) == pytest.approx((expected, error), rel=1e-12)
    exact = [
        replace(report(0.0, int(n), 1.0), variance=v, variance_noise=0.0)
        for v, n in zip((-1.0, 0.0, 4.0), sizes, strict=True)
    ]
    assert pooled_sigma2(exact) == (1.0, 0.0)  # nothing is known of how sure each is


def test_one_bit_says_nothing_about_differences():
    rng = RNG(9)
    reports = [
        MeanClient(bounds=(0.0, 1.0), eps=2.0, adjacency="client", mechanism="two-point").report([p] * 3, rng)
        for p in rng.uniform(0.2, 0.4, 300)
    ]
    model = PrivateGaussianMeans("integrated", sigma2=0.01).fit(reports)
    assert model.mu_ == pytest.approx(0.3, abs=5 * 0.06)
    assert np.ptp(model.prior_.weight[1:-1]) < 1e-12  # every tau is as likely as before
    with pytest.raises(ValueError, match="one bit"):
        PrivateGaussianMeans("reml", sigma2=0.01).fit(reports)


def test_laplace_noise_is_not_taken_for_normal():
    """Reports counted as normal would pretend to know tau better than Laplace noise lets them."""
    rng = RNG(10)
    x = rng.normal(0, 0.5, 300) + rng.laplace(0, 1.0, 300)
    normal, laplace = (
        PrivateGaussianMeans("integrated", sigma2=0.0).fit([report(a, 5, 2.0, k) for a in x])
        for k in ("gaussian", "discrete-laplace")
    )

    def spread(model):
        tau, weight = np.array(model.prior_.tau), np.array(model.prior_.weight)
        return np.sqrt(weight @ tau**4 - (weight @ tau**2) ** 2)

    assert spread(laplace) > 1.2 * spread(normal)


def test_guarantees_come_with_the_result():
    reports = [report(x, 5, 1.0) for x in (0.0, 1.0, 2.0)]
    reports[0] = replace(reports[0], guarantee=Guarantee(1.0, 0.0, "client", "client", "discrete-laplace"), client="a")
    model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
    assert model.guarantees_[0].adjacency == "client"
    assert sum(model.guarantee_.values()) == 3
    assert any(line.startswith("2 clients: eps=inf") for line in model.prior_summary()["guarantees"])
    assert model.clients_ == ("a", "", "")


def test_draws_have_the_design_and_can_be_fitted():
    _, _, reports = simulated(RNG(11), 50, 5, 0.3, 0.5)
    model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
    truth, arguments = model.draw(RNG(0))
    again = PrivateGaussianMeans(sigma2=1.0).fit(*arguments)
    assert truth.shape == (50,)
    np.testing.assert_array_equal(again.variances_, model.variances_)


def test_mixtures_with_points():
    law = NormalMixtures(np.array([[0.5], [0.5]]), np.array([[0.0], [1.0]]), np.array([[0.0], [0.0]]))
    assert law.cdf(0.0)[0] == 0.5
    assert law.cdf(0.0, strict=True)[0] == 0.0
    assert law.quantile(0.4)[0] == 0.0
    assert law.sd()[0] == 0.5


def test_grids_find_narrow_peaks_and_keep_two():
    two = grid_posterior(lambda t: (0.0 if t in (0.0, 2.0) else -1e3, 0.0, 0.1), 2.0)
    assert two.variance == pytest.approx(2.0)
    prior = grid_posterior(lambda t: (-(((t - 1.234567) / 1e-6) ** 2) / 2, 0.0, 0.1), 1000.0)
    assert np.sqrt(prior.variance) == pytest.approx(1.234567, abs=1e-7)
    assert len([w for w in prior.weight if w > 1e-3]) > 8


# --- central -------------------------------------------------------------------------------------------------------------


def test_central_release_is_unbiased_and_its_noise_is_known():
    rng = RNG(12)
    means = rng.normal(1.0, 0.5, 200)
    releases = [
        release_prior(means, 0.05, bounds=(-1.0, 3.0), eps=1.0, delta=1e-6, generator=rng, mechanism="gaussian")
        for _ in range(300)
    ]
    mu = np.array([r.prior.mean for r in releases])
    total = np.array([r.total_variance for r in releases])
    assert abs(mu.mean() - means.mean()) < 5 * np.sqrt(releases[0].mean_noise / 300)
    assert abs(total.mean() - means.var(ddof=1)) < 5 * np.sqrt(releases[0].variance_noise / 300)
    assert abs(total.var() / releases[0].variance_noise - 1) < 5 * np.sqrt(2 / 300)
    g = releases[0].guarantee
    assert (g.adjacency, g.trusted, g.eps) == ("client", "server", 1.0)


def test_central_prior_improves_every_client_at_home():
    """2,000 clients at eps = 1: the error at home is within 5 standard errors of what a known prior would give."""
    rng, m = RNG(13), 2000
    theta = rng.normal(0.0, 0.5, m)
    means = theta + rng.normal(0.0, np.sqrt(0.2), m)
    found = release_prior(means, 0.2, bounds=(-3.0, 3.0), eps=1.0, delta=1e-6, generator=rng, sigma2=1.0)
    home = (np.array([found.prior.at_home(x, 0.2).mean()[0] for x in means]) - theta) ** 2
    assert abs(home.mean() - 0.25 * 0.2 / 0.45) < 5 * home.std() / np.sqrt(m)


def test_central_release_spends_a_budget():
    budget = Budget(eps=1.0, delta=1e-6, adjacency="client")
    settings = {"bounds": (-1.0, 1.0), "eps": 0.6, "delta": 0.0, "budget": budget, "generator": RNG(0)}
    release_prior([0.0, 0.5, 0.2], 0.1, **settings)
    with pytest.raises(ValueError, match="would bring"):
        release_prior([0.0, 0.5, 0.2], 0.1, **settings)


# --- rates ---------------------------------------------------------------------------------------------------------------


def test_moments_without_noise_are_the_unbiased_ones():
    x, n = np.array([0, 3, 5, 2, 4, 1]), 6
    mu, sigma2, _ = noisy_rate_moments(x, np.full(6, n), np.zeros(6), weights=np.ones(6))
    expected = bernoulli.moments(x, n)
    assert (mu, sigma2) == pytest.approx((expected.mu, expected.sigma2))


def test_moments_are_unbiased_for_unequal_clients_and_noise():
    """4,000 repetitions with public weights: both moments within 5 standard errors of the prior's."""
    rng = RNG(14)
    n, noise = np.array([1, 2, 5, 20, 50, 50, 3, 8]), np.array([1.0, 4.0, 1.0, 9.0, 4.0, 25.0, 0.0, 2.0])
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0])
    p = rng.beta(2, 3, (4000, 8))
    x = rng.binomial(n, p) + np.sqrt(noise) * rng.standard_normal((4000, 8))
    found = np.array([noisy_rate_moments(row, n, noise, weights=weights)[:2] for row in x])
    for values, truth in zip(found.T, (0.4, float(bernoulli.prior_variance(2, 3))), strict=True):
        assert abs(values.mean() - truth) < 5 * values.std() / np.sqrt(4000)


@pytest.mark.parametrize(("a", "b", "m1", "m2", "eps"), [(1, 1, 100, 100, 1.0), (2, 5, 7, 30, 2.0), (0.5, 9, 3, 1, 4.0)])
def test_errors_of_moments_from_pairs_are_those_of_the_claim(a, b, m1, m2, eps):
    """generative:thm4:protocol:variance, where noise may differ between clients: its mean counts."""
    mu, noise = a / (a + b), float(bernoulli.report_variance(0.0, eps=eps))
    sigma2 = mu * (1 - mu) / (a + b + 1)
    uneven = [noise * (np.linspace(0.5, 1.5, m) if m > 1 else np.ones(1)) for m in (m1, m2)]
    of_mean, of_variance = pair_errors(mu, sigma2, *uneven)
    assert of_variance**2 == pytest.approx(float(bernoulli.private_variance(a, b, m1, m2, eps=eps)), rel=1e-12)
    assert of_mean**2 == pytest.approx((noise + mu * (1 - mu)) / m1, rel=1e-12)


def test_errors_of_rates_are_those_of_a_normal_sample():
    """Equal clients: the error of a mean, and of a sample variance whose mean is known to be that of m - 1 degrees."""
    m, trials, noise, mu, sigma2 = 40, 25, 2.0, 0.3, 0.01
    within = 0.2
    variance = sigma2 + within / trials + noise / trials**2
    at = np.full(m, mu), np.full(m, trials), np.full(m, noise)  # squares that scatter less than normal ones
    of_mean, of_variance = rate_errors(*at, mu, sigma2, within)
    assert of_mean == pytest.approx(np.sqrt(variance / m))
    assert of_variance == pytest.approx(np.sqrt(2 * variance**2 * m) / (m - 1))
    far = mu + np.where(np.arange(m) < 4, 1.0, 0.0)  # and more
    assert rate_errors(far, *at[1:], mu, sigma2, within)[1] == pytest.approx(
        np.sqrt(4 * (1 - variance) ** 2 + 36 * variance**2) / (m - 1)
    )


def test_clients_who_answer_alike_leave_an_error():
    """All ones: the variance of an answer is that at (ones + 1) / (answers + 2), of as many."""
    m, trials = 10, 5
    smooth = 51 / 52
    at = np.ones(m), np.full(m, trials), np.zeros(m)
    of_mean, _ = rate_errors(*at, 1.0, -0.01, 0.0)
    assert of_mean == pytest.approx(np.sqrt(smooth * (1 - smooth) / 52 / trials / m))
    assert rate_errors(*at, 1.7, 0.0, 0.0)[0] == rate_errors(*at, 1.0, 0.0, 0.0)[0]  # a mean that noise moved outside


@pytest.mark.parametrize("estimate", [-3.0, -0.2, 0.0, 0.4, 1.0, 1.3, 8.0])
@pytest.mark.parametrize("error", [0.05, 0.3, 4.0])
@pytest.mark.parametrize("high", [1.0, np.inf])
def test_a_mean_cut_at_the_ends_is_that_of_scipys_truncated_normal(estimate, error, high):
    law = truncnorm(-estimate / error, (high - estimate) / error, loc=estimate, scale=error)
    assert cut_mean(estimate, error, high) == pytest.approx(law.mean(), rel=1e-6)
    assert cut_mean(estimate, 0.0, high) == min(max(estimate, 0.0), high)


@pytest.mark.parametrize(
    ("found", "nearest"),
    [
        ((-0.3, -0.5), (0, 0)),
        ((-0.3, 0.5), (0, 0.5)),
        ((1.4, 0.1), (1, 0)),
        ((0.5, 0.9), (0.5, 0.75)),
        ((0.5, -1), (0.5, -0.25)),
    ],
)
def test_errors_of_moments_that_cannot_be_are_those_of_the_nearest(found, nearest):
    noise = np.full(5, 0.3), np.full(4, 0.2)
    assert pair_errors(*found, *noise) == pair_errors(*nearest, *noise)


def test_without_noise_rates_are_the_beta_posterior():
    rng = RNG(15)
    n = rng.integers(5, 60, 300)
    x = rng.binomial(n, rng.beta(4, 6, 300))
    model = PrivateRates("moments").fit(
        [RateReport("", int(k), EXACT, "ones", int(k), float(a), 0.0) for a, k in zip(x, n, strict=True)]
    )
    np.testing.assert_allclose(model.posterior_mean_, bernoulli.posterior_mean(x, n, model.alpha_, model.beta_), rtol=1e-9)
    low, high = model.interval()
    a, b = model.alpha_ + x, model.beta_ + n - x
    np.testing.assert_allclose(low, beta.ppf(0.025, a, b), rtol=1e-6)
    np.testing.assert_allclose(high, beta.ppf(0.975, a, b), rtol=1e-6)
    np.testing.assert_allclose(model.posterior_cdf(0.4), beta.cdf(0.4, a, b), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    "case",
    [
        {"eps": 1.0},
        {"eps": 0.5, "delta": 1e-6, "mechanism": "discrete-gaussian"},
        {"eps": 1.0, "mechanism": "answers"},
        {"eps": 4.0, "adjacency": "client"},
    ],
    ids=lambda case: " ".join(map(str, case.values())),
)
def test_rates_have_the_predicted_error_and_cover(case):
    """1,000 clients of 30 answers, Beta(3, 7): error within 5 standard errors of the linear risk, coverage 94-96 % +- 3."""
    rng, m, n = RNG(16), 1000, 30
    p = rng.beta(3, 7, m)
    reports = [RateClient(**case).report(rng.random(n) < q, rng) for q in p]
    model = PrivateRates().fit(reports)
    sigma2 = float(bernoulli.prior_variance(3, 7))
    within = (0.21 - sigma2) / n + reports[0].noise_variance / n**2
    error = (model.posterior_mean_ - p) ** 2
    assert abs(error.mean() - sigma2 * within / (sigma2 + within)) < 5 * error.std() / np.sqrt(m)
    low, high = model.interval()
    cover = np.mean((low <= p) & (p <= high))
    assert 0.94 - 3 * 0.007 <= cover <= 0.96 + 3 * 0.007
    assert abs(model.mu_ - 0.3) < 5 * np.sqrt((sigma2 + within) / m)


def test_one_bit_per_client_learns_the_prior():
    """20,000 clients, half report ones and half pairs: the variance within 5 of its exact standard errors."""
    rng, m = RNG(17), 20_000
    p = rng.beta(1, 3, m)
    flip, reports = 1 / (1 + np.exp(2.0)), []
    wrong = flip * (1 - flip) / (1 - 2 * flip) ** 2
    g = Guarantee(2.0, 0.0, "client", "client", "two-point")
    for i, q in enumerate(p):  # what RateClient sends, drawn at once
        pairs = i % 2 == 1
        bit = rng.random() < (q * q if pairs else q)
        value = ((bit ^ (rng.random() < flip)) - flip) / (1 - 2 * flip)
        reports.append(RateReport("", 5, g, "pairs" if pairs else "ones", 1, float(value), wrong))
    model = PrivateRates("moments").fit(reports)
    variance = float(bernoulli.private_variance(1, 3, m // 2, m // 2, eps=2.0))
    assert abs(model.moments_[1] - float(bernoulli.prior_variance(1, 3))) < 5 * np.sqrt(variance)
    assert (model.weights_[1::2] == 0).all()
    with pytest.raises(ValueError, match="pairs"):
        PrivateRates("moments").fit([replace(r, trials=2) if r.statistic == "ones" else r for r in reports[:10]])


def test_two_bits_of_ones_are_enough_beside_pairs_and_one_is_not():
    """mu is the mean of the ones, sigma2 the mean of the pairs less the product of the two ones, which do not depend."""
    g = Guarantee(2.0, 0.0, "client", "client", "two-point")
    ones = [RateReport("", 5, g, "ones", 1, value, 0.2) for value in (0.1, 0.7)]
    pairs = [RateReport("", 5, g, "pairs", 1, value, 0.2) for value in (0.05, 0.3, 0.25)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # few reports
        model = PrivateRates("moments").fit([*ones, *pairs])
    assert model.moments_ == pytest.approx((0.4, 0.2 - 0.1 * 0.7))
    with pytest.raises(ValueError, match="at least two one-bit reports"):
        PrivateRates("moments").fit([ones[0], *pairs])
    with pytest.raises(ValueError, match="at least two one-bit reports"):
        PrivateRates("moments").fit([replace(ones[0], trials=2), ones[1], *pairs])


def test_weights_of_noisy_rates_are_those_of_the_best_linear_prediction():
    """Cov(rate, y) / var(y) of y = value / trials, by SciPy's Beta and beta-binomial laws and the noise's variance."""
    reports = [RateReport("", n, EXACT, "ones", n, float(x), noise)
               for n, x, noise in ((5, 1, 1.5), (12, 9, 0.7), (40, 6, 8.0), (60, 50, 2.0))]  # fmt: skip
    model = PrivateRates("moments").fit(reports)
    assert (model.converged_, model.n_iter_) == (True, 1)
    x, n, noise = np.transpose([(r.value, r.trials, r.noise_variance) for r in reports])
    *moments, within = noisy_rate_moments(x, n, noise)
    assert model.independent
    assert not PrivateRates().fit(reports).independent
    assert model.own_numbers((reports[:2],)).tolist() == (x / n)[:2].tolist()
    assert model.moments_ == tuple(moments)
    assert model.moment_errors_ == pytest.approx(rate_errors(x / n, n, noise, *moments, within), rel=1e-12)
    law = model.alpha_, model.beta_
    exact = [beta.var(*law) * r.trials**2 / (betabinom.var(r.trials, *law) + r.noise_variance) for r in reports]
    np.testing.assert_allclose(model.weights_, exact, rtol=1e-9)


def test_boundaries_are_told_and_leave_no_interval_of_width_zero():
    def fit(values, trials=20, noise=1.0):
        return PrivateRates("moments").fit([RateReport("", trials, EXACT, "ones", trials, float(v), noise) for v in values])

    with pytest.warns(UserWarning, match="no differences"):
        same = fit([10, 10, 10, 10])
    assert same.boundary_ == "no differences"
    np.testing.assert_allclose(same.posterior_mean_, 0.5)
    with pytest.warns(UserWarning, match="only zeros and ones|0 and 1"):
        apart = fit([0, 20, 0, 20], noise=0.0)
    assert apart.boundary_ == "only zeros and ones"
    assert (apart.posterior_mean_[[0, 2]] < 0.1).all()
    assert (apart.posterior_mean_[[1, 3]] > 0.9).all()
    with pytest.warns(UserWarning, match="outside|no differences"):
        below = fit([-5, -6, -4, -5])
    assert 0 < below.mu_ < 0.1
    for sums, average in (([-5, -6, -4, -5], "-0.25"), ([25, 26, 24, 25], "1.25")):
        with pytest.warns(UserWarning, match="outside|no differences") as told:
            fit(sums)
        assert any(f"average to {average}, outside [0, 1]" in str(w.message) for w in told)
    with pytest.warns(UserWarning, match="no differences"):
        alike = fit([0, 0, 0], noise=0.0)  # nobody said yes, and there is no noise
    for model in (same, apart, below, alike):
        assert 0 < model.mu_ < 1
        assert 0 < model.sigma2_ < model.mu_ * (1 - model.mu_)
        low, high = model.interval()
        assert (low < high).all()
        assert (model.posterior_sd_ > 0).all()
        truth, arguments = model.draw(RNG(0))
        assert len(truth) == len(arguments[0]) == len(low)
        assert model.prior_summary()["boundary"] == model.boundary_


def test_moments_on_an_end_are_beyond_it_or_inside_as_is_said():
    def settled(moments, errors=(0.1, 0.01)):
        class Settled(PrivateRates):
            def fit_moments(self, reports):
                self.moments_, self.moment_errors_, self.converged_ = moments, errors, True
                self.settle()
                self.posteriors_, self.log_likelihood_ = rate_posteriors(reports, self.alpha_, self.beta_)

        return Settled("moments").fit([RateReport("", 20, EXACT, "ones", 20, 5.0, 1.0)] * 2)

    with pytest.warns(UserWarning, match="no differences"):
        assert settled((0.5, 0.0)).boundary_ == "no differences"
    with pytest.warns(UserWarning, match="only zeros and ones|0 and 1"):
        assert settled((0.5, 0.25), (0.0, 0.01)).boundary_ == "only zeros and ones"
    for mu in (0.0, 1.0):  # without a warning
        assert settled((mu, 0.01)).boundary_ is None
    model = settled((0.9, 0.01))
    assert model.mu_ == pytest.approx(truncnorm(-9, 1, 0.9, 0.1).mean(), rel=1e-6)
    ceiling = (model.mu_ * (1 - model.mu_) - 0.01) / 0.01
    assert model.sigma2_ == pytest.approx(truncnorm(-1, ceiling, 0.01, 0.01).mean(), rel=1e-6)
    assert beta.stats(model.alpha_, model.beta_) == pytest.approx((model.mu_, model.sigma2_), rel=1e-12)


@pytest.mark.parametrize(
    ("values", "noise", "says"),
    [([-5, -6, -4, -5], 1.0, "outside"), ([10, 10, 10], 1.0, "no differences"), ([0, 20, 0, 20], 0.0, "rates 0 and 1")],
)
def test_warnings_of_moments_point_at_who_fits(values, noise, says):
    reports = [RateReport("", 20, EXACT, "ones", 20, float(v), noise) for v in values]
    with pytest.warns(UserWarning, match=says) as told:
        PrivateRates("moments").fit(reports)
    assert {w.filename for w in told} == {__file__}


LAWS = [  # what a client of 12 answers reports, and the smallest and largest value that has to be summed over
    {"eps": 0.7},
    {"eps": 0.7, "delta": 1e-6, "mechanism": "discrete-gaussian"},
    {"eps": 0.7, "delta": 1e-6, "mechanism": "gaussian"},
    {"eps": 0.7, "mechanism": "answers"},
    {"eps": 4.0, "adjacency": "client"},
    {"eps": 2.0, "adjacency": "client", "mechanism": "two-point"},
    {"eps": 2.0, "adjacency": "client", "mechanism": "two-point", "statistic": "pairs"},
]


@pytest.mark.parametrize("case", LAWS, ids=lambda case: " ".join(map(str, case.values())))
def test_posteriors_are_exact_given_the_prior(case):
    """The mixture's mean, sd and quantiles against Bayes' rule with the mechanism's own law, by quadrature over p."""
    client = RateClient(**case)
    n, a, b = 12, 0.8, 2.5
    report = client.report([1] * 4 + [0] * (n - 4), RNG(5))
    law = rate_posteriors([report], a, b)[0]
    wrong = float(Fraction(*flip_probability(case["eps"]))) if case["eps"] <= 30 else 0.0
    bits = report.trials * wrong + (1 - 2 * wrong) * report.value

    def likelihood(p):
        if report.guarantee.mechanism == "two-point":
            yes = p**2 if report.statistic == "pairs" else p
            return binom.pmf(round(bits), 1, wrong + (1 - 2 * wrong) * yes)
        if report.guarantee.mechanism == "answers":
            return binom.pmf(round(bits), n, wrong + (1 - 2 * wrong) * p)
        k = np.arange(n + 1)
        if report.guarantee.mechanism == "discrete-laplace":
            noise = np.exp(-np.abs(report.value - k) * case["eps"] / (n if client.adjacency == "client" else 1))
        else:
            noise = np.exp(-((report.value - k) ** 2) / (2 * report.noise_variance))
        return np.sum(binom.pmf(k, n, p) * noise)

    def integral(f, top=1.0):  # in p = x^5, which smooths the prior's singularity at 0
        return quad(lambda x: f(x**5) * likelihood(x**5) * beta.pdf(x**5, a, b) * 5 * x**4, 0, top**0.2, epsabs=1e-13)[0]

    total = integral(lambda p: 1.0)
    mean = integral(lambda p: p) / total
    assert law.mean()[0] == pytest.approx(mean, rel=1e-7)
    assert law.sd()[0] == pytest.approx(np.sqrt(integral(lambda p: (p - mean) ** 2) / total), rel=1e-6)
    for q in (0.001, 0.025, 0.5, 0.975):
        t = law.quantile(q)[0]
        assert integral(lambda p: 1.0, t) / total == pytest.approx(q, rel=1e-6)
        assert law.cdf(t)[0] == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("case", LAWS, ids=lambda case: " ".join(map(str, case.values())))
def test_new_reports_have_the_mechanisms_law(case):
    """4,000 draws of `noisy_value` beside 4,000 reports of clients of that rate: the same law (Kolmogorov-Smirnov)."""
    rng, p, n = RNG(6), 0.3, 12
    drawn = rng.random((4000, n)) < p
    clients = [RateClient(**case).report(row, rng) for row in drawn]
    ours = [noisy_value(clients[0], p, rng) for _ in range(4000)]
    theirs = [r.value for r in clients]
    assert ks_2samp(np.round(ours, 9), np.round(theirs, 9)).pvalue > 1e-4
    wide = [noisy_value(replace(clients[0], noise_variance=4 * clients[0].noise_variance), p, rng) for _ in range(4000)]
    assert ks_2samp(np.round(wide, 9), np.round(theirs, 9)).pvalue < 1e-4


@pytest.mark.parametrize(
    ("a", "b", "n", "eps", "least"),
    [
        (0.3, 30, 500, 1.0, 0.92),
        (0.3, 30, 20, 1.0, 0.92),
        (2, 5, 20, 0.5, 0.92),
        (1, 1, 20, 0.5, 0.92),
        (1, 1, 500, 4.0, 0.93),
    ],
)
@pytest.mark.filterwarnings("ignore:the estimated variance between clients")
def test_intervals_cover_and_have_width_where_rates_are_small(a, b, n, eps, least):
    """480 clients in two runs.  Clipped means with the sd at the clip covered .77 and .72 in the first two cases."""
    held = []
    for seed in range(2):
        rng = RNG([seed, 20])
        p = rng.beta(a, b, 240)
        model = PrivateRates().fit([RateClient(eps=eps).report(rng.random(n) < q, rng) for q in p])
        low, high = model.interval()
        assert (low < high).all()
        assert ((model.posterior_mean_ > 0) & (model.posterior_mean_ < 1)).all()
        held.append((low <= p) & (p <= high))
    assert least < np.mean(held) < 0.985


def test_a_merged_mixture_keeps_its_law():
    """5,000 trials behind noise that leaves all counts open, against the sum over all of them."""
    report = RateReport("", 5000, replace(EXACT, mechanism="discrete-laplace"), "ones", 5000, 2000.0, 4e6)
    law = rate_posteriors([report], 2.0, 3.0)[0]
    k = np.arange(5001)
    weight = betabinom.pmf(k, 5000, 2.0, 3.0) * np.exp(log_likelihood(report))
    weight /= weight.sum()
    assert len(law.a) <= 512 < len(k)
    assert law.mean()[0] == pytest.approx(np.sum(weight * (2 + k) / 5005), rel=1e-10)
    for q in (0.025, 0.5, 0.975):
        t = law.quantile(q)[0]
        assert np.sum(weight * beta.cdf(t, 2 + k, 3 + 5000 - k)) == pytest.approx(q, abs=1e-5)


def test_an_efficient_weighting_helps():
    """Clients of 2 and of 200 answers: the default's error in the variance is below that of equal weights."""
    rng, plain, weighted = RNG(18), [], []
    n = np.array([2] * 50 + [200] * 50)
    for _ in range(200):
        x = rng.binomial(n, rng.beta(20, 30, 100)) + rng.normal(0, 2, 100)
        noise = np.full(100, 4.0)
        plain.append(noisy_rate_moments(x, n, noise, weights=np.ones(100))[1])
        weighted.append(noisy_rate_moments(x, n, noise)[1])
    truth = float(bernoulli.prior_variance(20, 30))
    assert np.mean((np.array(weighted) - truth) ** 2) < 0.1 * np.mean((np.array(plain) - truth) ** 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrivateGaussianMeans(sigma2=1.0).fit([report(0.0)] * 2), "at least 3"),
        (lambda: PrivateGaussianMeans("mode", sigma2=1.0).fit([report(0.0)] * 3), "prior"),
        (lambda: PrivateGaussianMeans().fit([report(0.0)] * 3), "sigma2 must be given"),
        (lambda: PrivateGaussianMeans(sigma2=-1.0).fit([report(0.0)] * 3), "sigma2"),
        (lambda: PrivateGaussianMeans(sigma2=0.0).fit([report(0.0)] * 3), "sigma2 must be > 0"),
        (lambda: PrivateGaussianMeans(sigma2=1.0).fit([1.0, 2.0, 3.0]), "MeanReport"),
        (lambda: PrivateGaussianMeans(sigma2=1.0).fit([replace(report(0.0), client="a")] * 3), "two from the client 'a'"),
        (lambda: PrivateGaussianMeans(sigma2=1.0).interval(), "not been fitted"),
        (lambda: PrivateRates("moments").fit([RateReport("", 5, EXACT, "ones", 1, 1.0, 0.0)] * 3), "trials must be >= 2"),
        (lambda: PrivateRates().fit([]), "at least 2"),
        (
            lambda: PrivateRates().fit([RateReport("", 5, EXACT, "ones", 5, v, 0.0) for v in (1.5, 2.0)]),
            "number in 0..5",
        ),
        (lambda: PrivateRates().fit([RateReport("", 9, EXACT, "ones", 10**9, v, 1.0) for v in (1.0, 2.0)]), "trials must"),
        (lambda: noisy_rate_moments([1.0, 2.0], [2, 2], [0.0, 0.0], weights=[1.0, 0.0]), "weights"),
        (lambda: release_prior([1.0], 0.1, bounds=(0, 1), eps=1.0, delta=0.0), "two clients"),
        (lambda: release_prior([1.0, 2.0], 0.1, bounds=(0, 1), eps=1.0, delta=0.0, variance_share=0.0), "variance_share"),
        (lambda: release_prior([1.0, 2.0], -0.1, bounds=(0, 1), eps=1.0, delta=0.0), "variances"),
        (lambda: release_prior([1.0, 2.0], 0.1, bounds=(0, 1), eps=1.0, delta=0.0, budget=1), "budget"),
        (lambda: Prior.known(mu=0.0, tau2=-1.0), "tau2"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
