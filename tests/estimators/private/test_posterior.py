"""Exact posteriors against quadrature that shares nothing with them, and what holds of them: inside, never of width zero."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import betainc, logsumexp
from scipy.stats import beta, betabinom, binom, ks_2samp, norm, truncnorm

from estimators.accounting.budget import Guarantee
from estimators.private import (
    FiniteOutput,
    MeanClient,
    MeanReport,
    PrivateGaussianMeans,
    PrivateRates,
    RateClient,
    RateReport,
)
from estimators.private.mean_posterior import TruncatedNormals, clipped_moments
from estimators.private.noise_laws import StaircaseNoise, log_likelihood
from estimators.private.posterior import Nodes, Places, Table, Window, density
from estimators.private.rate_posterior import Betas, rate_posteriors
from estimators.private.staircase import Staircase

RNG = np.random.default_rng
LOW, HIGH = -3.0, 5.0
SIGMA = 0.8


def integrated(likelihood, prior, log_hyperprior):
    """Bayes by midpoints: densities (m, T) of all truths and the mean density of the reports, for nodes (T, nodes)."""
    marginal = likelihood @ prior
    log = np.log(np.maximum(marginal, 1e-300)).sum(axis=0) + log_hyperprior
    weight = np.exp(log - log.max())
    found = likelihood * ((weight / np.maximum(marginal, 1e-300)) @ prior.T)
    return found / found.sum(axis=1, keepdims=True), log.max() + np.log(weight.sum())


def agrees(model, found, values, edges, evidence=None):
    """Means, deviations, quantiles and probabilities of the fitted laws against those of densities on a dense grid."""
    mean = found @ values
    sd = np.sqrt(found @ values**2 - mean**2)
    np.testing.assert_allclose(model.posterior_mean_, mean, atol=2e-3 * sd.min())
    np.testing.assert_allclose(model.posterior_sd_, sd, rtol=3e-3)
    below = np.cumsum(found, axis=1)
    for q in (0.025, 0.3, 0.975):
        ends = model.posterior_quantile(q)
        assert [np.interp(end, edges, row) for end, row in zip(ends, below, strict=True)] == pytest.approx(
            [q] * len(ends), abs=1.5e-3
        )
        np.testing.assert_allclose([model.posterior_cdf(float(end))[i] for i, end in enumerate(ends)], q, atol=1e-9)
    if evidence is not None:
        assert model.log_likelihood_ == pytest.approx(evidence, abs=5e-3)


# --- means -----------------------------------------------------------------------------------------------------------------


def staircase_density(x, width, eps, inner):
    """Density of the staircase law as its authors print it, with the share `inner` of a block before the step."""
    b = np.exp(-eps)
    top = (1 - b) / (2 * width * (inner + b * (1 - inner)))
    block, part = np.divmod(np.abs(x) / width, 1)
    return top * b ** (block + (part >= inner))


def best_inner(eps):
    b = np.exp(-eps)
    return -b / (1 - b) + np.cbrt(b - 2 * b**2 + 2 * b**4 - b**5) / (np.cbrt(2) * (1 - b) ** 2)


THETA = LOW + (np.arange(800) + 0.5) / 800 * (HIGH - LOW)


@lru_cache(maxsize=1)
def normal_priors():
    """Normal priors cut off at the bounds, on dense grids of truths and of centres and spreads; the logs of the weights."""
    mu, share = np.meshgrid(LOW + (np.arange(100) + 0.5) / 100 * (HIGH - LOW), (np.arange(100) + 0.5) / 100)
    tau = share.ravel() ** 2 * (HIGH - LOW) / 2
    prior = np.exp(-(((THETA[:, None] - mu.ravel()) / tau) ** 2) / 2)
    prior /= np.maximum(prior.sum(axis=0), 1e-300)
    return prior, np.log(2 * share.ravel() / tau.size)


@lru_cache(maxsize=1)
def beta_priors():
    """Edges and middles of cells of the rate, Beta priors on them, and the logs of the weights."""
    angle = np.linspace(0, np.pi / 2, 701)
    edges, p = np.sin(angle) ** 2, np.sin((angle[1:] + angle[:-1]) / 2) ** 2
    mu, spread = (x.ravel() for x in np.meshgrid((np.arange(120) + 0.5) / 120, (np.arange(60) + 0.5) / 60))
    size = 1 / spread**2 - 1
    return edges, p, np.diff(betainc(mu * size, (1 - mu) * size, edges[:, None]), axis=0), np.full(mu.size, -np.log(mu.size))


CASES = [
    {"adjacency": "client", "eps": 1.0},
    {"adjacency": "client", "eps": 8.0},
    {"adjacency": "client", "eps": 3.0, "mechanism": "staircase"},
    {"adjacency": "client", "eps": 4.0, "mechanism": "finite-output"},
    {"adjacency": "client", "eps": 1.0, "mechanism": "two-point"},
    {"adjacency": "client", "eps": 2.0, "bits": 2},
    {"adjacency": "row", "eps": 0.5},
    {"adjacency": "row", "eps": 5.0},
    {"adjacency": "row", "eps": 1.0, "delta": 1e-6, "mechanism": "discrete-gaussian"},
    {"adjacency": "row", "eps": 3.0, "mechanism": "staircase"},
    {"adjacency": "client", "eps": np.inf},
]


def density_given_mean(report, mean):
    """Density or probability of a report given the mean after clipping, array like `mean`, as the mechanism is defined."""
    kind, noise, n = report.guarantee.mechanism, report.noise_variance, report.n
    width, eps = HIGH - LOW, report.guarantee.eps
    if kind in ("finite-output", "two-point"):
        law = FiniteOutput(bounds=(LOW, HIGH), eps=eps, outputs=2 if kind == "two-point" else None)
        return np.exp(law.log_likelihood(report.estimate, mean))
    if kind in ("discrete-gaussian", "none"):
        return norm.pdf(report.estimate - mean, scale=np.sqrt(noise + report.rounding_variance))
    if kind == "staircase":
        change = width / (n if report.guarantee.adjacency == "row" else 1)
        return staircase_density(report.estimate - mean, change, eps, best_inner(eps))
    scale = width / eps / (n if report.guarantee.adjacency == "row" else 1)
    if report.rounding_variance < 1e-3:
        return np.exp(-np.abs(report.estimate - mean) / scale) / (2 * scale)
    step = 2 * np.sqrt(report.rounding_variance)  # means go to one of the two levels around them
    down = np.floor((mean - LOW) / step)
    up = (mean - LOW) / step - down
    at = [np.exp(-np.abs(report.estimate - LOW - step * (down + j)) / scale) for j in (0, 1)]
    return (1 - up) * at[0] + up * at[1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_means_are_those_of_quadrature(case):
    """Four clients; truths, centres and spreads on dense grids, laws of reports by sums over clipped normal means."""
    rng, n = RNG(3), 12
    client = {"bounds": (LOW, HIGH), **case}
    reports = [MeanClient(**client).report(rng.normal(t, SIGMA, n), rng) for t in (0.5, 1.4, 2.0, 3.9)]
    model = PrivateGaussianMeans(sigma2=SIGMA**2).fit(reports)
    theta = THETA
    z = norm.ppf((np.arange(1000) + 0.5) / 1000)
    if case["adjacency"] == "client":
        mean = np.clip(theta[:, None] + SIGMA / np.sqrt(n) * z, LOW, HIGH)
        if (
            case.get("mechanism") not in ("finite-output", "two-point") and case.get("bits") != 2
        ):  # the normal law of its moments
            mean = mean.mean(axis=1)[:, None] + mean.std(axis=1)[:, None] * z
    else:
        rows = np.clip(theta[:, None] + SIGMA * z, LOW, HIGH)
        mean = rows.mean(axis=1)[:, None] + rows.std(axis=1)[:, None] / np.sqrt(n) * z
    if np.isinf(case["eps"]):
        likelihood = np.array([norm.pdf(r.estimate, mean.mean(axis=1), mean.std(axis=1)) for r in reports])
    else:
        likelihood = np.array([density_given_mean(r, mean).mean(axis=1) for r in reports])
    found, evidence = integrated(likelihood, *normal_priors())
    known = case.get("mechanism") not in ("staircase",) and case.get("bits") != 2
    agrees(model, found, theta, theta + (HIGH - LOW) / 1600, evidence if known else None)


def test_moments_of_clipped_normals():
    z = norm.ppf((np.arange(400_000) + 0.5) / 400_000)
    for below, above, sd in ((0.0, 8.0, 1.0), (0.3, 0.4, 2.0), (5.0, 0.1, 0.5), (4.0, 4.0, 0.1)):
        x = np.clip(sd * z, -below, above)
        shift, variance = clipped_moments(np.array(below), np.array(above), np.array(sd))
        assert float(shift) == pytest.approx(x.mean(), abs=1e-5)
        assert float(variance) == pytest.approx(x.var(), abs=1e-4)


def reports_of(rng, theta, eps, local, n=10):
    """Reports without clients, for speed: Laplace noise on the mean of clipped rows."""
    rows = rng.normal(theta[:, None], 1.0, (theta.size, n))
    mean = np.clip(rows.mean(axis=1), -5, 5) if local else np.clip(rows, -5, 5).mean(axis=1)
    scale = 10 / eps / (1 if local else n)
    sent = Guarantee(eps, 0.0, "client" if local else "row", "client", "discrete-laplace")
    return [
        MeanReport("", n, sent, float(y), 2 * scale**2, 0.0, (-5.0, 5.0)) for y in mean + rng.laplace(0, scale, mean.size)
    ]


@pytest.mark.parametrize(("eps", "local"), [(0.1, False), (1.0, True), (1.0, False), (20.0, False)])
def test_nothing_lies_outside_the_bounds_and_nothing_has_width_zero(eps, local):
    rng = RNG(4)
    for _ in range(5):
        model = PrivateGaussianMeans(sigma2=1.0).fit(reports_of(rng, rng.normal(4.0, 1.0, 10).clip(-5, 5), eps, local))
        low, high = model.interval(0.99)
        assert ((low > -5) & (low < model.posterior_mean_) & (model.posterior_mean_ < high) & (high < 5)).all()
        assert (model.posterior_sd_ > 0).all()


@pytest.mark.parametrize(("eps", "local"), [(1.0, True), (0.5, False), (10.0, False)])
def test_means_cover_on_average_over_the_stated_hyperprior(eps, local):
    """100 federations of 8 clients, drawn from the prior of the prior: 94 to 96 %, and 3 standard errors."""
    rng, held = RNG(5), []
    for _ in range(100):
        mu, tau = rng.uniform(-5, 5), rng.uniform(0, 5)
        theta = truncnorm.rvs((-5 - mu) / tau, (5 - mu) / tau, loc=mu, scale=tau, size=8, random_state=rng)
        low, high = PrivateGaussianMeans(sigma2=1.0).fit(reports_of(rng, theta, eps, local)).interval()
        held.append(np.mean((low <= theta) & (theta <= high)))
    error = 3 * np.std(held) / np.sqrt(len(held))
    assert 0.94 - error <= np.mean(held) <= 0.96 + error


@pytest.mark.parametrize(
    ("n", "eps", "sigma"), [(10_000, 1.0, 1.0), (10_000, 10.0, 1.0), (100_000, 1.0, 3.0), (50, 10.0, 8.0)]
)
def test_truths_near_a_bound_are_found_again_from_many_clipped_rows(n, eps, sigma):
    """Clipping moves a mean by many of its standard errors; where the truth is, by the mean of 20,000 clipped quantiles."""
    rng, m = RNG(5), 40
    theta = truncnorm.rvs(-4.0, 4.0, loc=HIGH - 0.3, scale=0.07, size=m, random_state=rng)
    z = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    at = np.linspace(LOW, HIGH, 401)
    means = np.array([np.clip(t + sigma * z, LOW, HIGH).mean() for t in at])
    scale = (HIGH - LOW) / eps / n
    told = [np.clip(t + sigma * rng.standard_normal(n), LOW, HIGH).mean() + rng.laplace(0, scale) for t in theta]
    sent = Guarantee(eps, 0.0, "row", "client", "discrete-laplace")
    reports = [MeanReport(str(i), n, sent, y, 2 * scale**2, 0.0, (LOW, HIGH)) for i, y in enumerate(told)]
    model = PrivateGaussianMeans(sigma2=sigma**2).fit(reports)
    low, high = model.interval()
    assert np.mean((low <= theta) & (theta <= high)) >= 0.8  # 32 of 40: fewer have a chance of 1.3e-4
    if n > 1000:
        back = np.interp(told, means, at)
        np.testing.assert_allclose(model.posterior_mean_, back, atol=2 * model.posterior_sd_.max())
        assert model.posterior_sd_.max() < 0.1


def test_the_error_is_a_fifth_of_that_of_normal_noise_where_noise_hides_nearly_all():
    rng, exact, normal = RNG(6), [], []
    for _ in range(60):
        theta = rng.normal(0.0, 1.0, 10).clip(-5, 5)
        reports = reports_of(rng, theta, 1.0, True)
        for found, prior in ((exact, "exact"), (normal, "integrated")):
            found.append(np.mean((PrivateGaussianMeans(prior, sigma2=1.0).fit(reports).posterior_mean_ - theta) ** 2))
    assert np.mean(exact) < np.mean(normal) / 5


def test_order_and_equal_reports_do_not_matter():
    rng = RNG(7)
    reports = reports_of(rng, rng.normal(0, 1, 40), 2.0, False)
    model = PrivateGaussianMeans(sigma2=1.0).fit([*reports, *reports[:7]])
    turned = PrivateGaussianMeans(sigma2=1.0).fit([*reports, *reports[:7]][::-1])
    np.testing.assert_allclose(turned.posterior_mean_[::-1], model.posterior_mean_, rtol=1e-9)
    np.testing.assert_array_equal(model.posterior_mean_[:7], model.posterior_mean_[40:])


def test_many_clients_leave_what_some_of_them_located():
    """4,000 clients of different n: near the best linear estimates under the true prior, which they know well."""
    rng = RNG(8)
    n = rng.integers(20, 400, 4000)
    theta = rng.normal(0.5, 0.6, 4000)
    noise = (10 / 2.0 / n) ** 2
    sent = Guarantee(2.0, 1e-6, "row", "client", "gaussian")
    y = theta + np.sqrt(1 / n + noise) * rng.standard_normal(4000)
    reports = [
        MeanReport("", int(k), sent, float(a), float(v), 0.0, (-5.0, 5.0)) for k, a, v in zip(n, y, noise, strict=True)
    ]
    model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
    own = 0.36 / (0.36 + 1 / n + noise)
    best = own * y + (1 - own) * 0.5
    assert np.mean((model.posterior_mean_ - best) ** 2) < 2e-3 * np.mean((best - theta) ** 2)
    low, high = model.prior_interval()["sd"]
    assert low < 0.6 < high < low + 0.06


def test_joint_draws_have_the_posterior():
    rng = RNG(9)
    reports = reports_of(rng, rng.normal(0, 1, 6), 2.0, True)
    model = PrivateGaussianMeans(sigma2=1.0).fit([*reports, reports[0]])
    assert model.converged_ is True  # an integral is no search
    draws = model.sample_posterior(rng, 4000)
    np.testing.assert_allclose(draws.mean(axis=0), model.posterior_mean_, atol=5 * model.posterior_sd_.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=0), model.posterior_sd_, rtol=0.06)
    assert (draws[:, 0] != draws[:, 6]).any()  # the same report, another client
    assert np.corrcoef(draws[:, 0], draws[:, 6])[0, 1] > 0  # of one centre


@pytest.mark.parametrize(
    "case", [case for case in CASES if np.isfinite(case["eps"])], ids=lambda c: " ".join(map(str, c.values()))
)
def test_new_reports_have_the_mechanisms_law(case):
    rng, n = RNG(10), 12
    client = {"bounds": (LOW, HIGH), **case}
    theirs = [MeanClient(**client).report(rng.normal(2.0, SIGMA, n), rng) for _ in range(300)]
    model = PrivateGaussianMeans(sigma2=SIGMA**2).fit(theirs)
    (ours,) = model.draw(rng, np.full(300, 2.0))[1]
    assert ks_2samp(*(np.round([r.estimate for r in each], 6) for each in (theirs, ours))).pvalue > 1e-4
    truth = model.draw(rng)[0]
    assert ((truth > LOW) & (truth < HIGH)).all()


def test_bad_reports_are_named():
    rng = RNG(11)
    reports = reports_of(rng, rng.normal(0, 1, 6), 2.0, True)
    with pytest.raises(ValueError, match="equal bounds"):
        PrivateGaussianMeans(sigma2=1.0).fit([replace(reports[0], bounds=(-6.0, 5.0)), *reports[1:]])
    with pytest.raises(ValueError, match="at least 3"):
        PrivateGaussianMeans(sigma2=1.0).fit(reports[:2])
    with pytest.raises(ValueError, match="truth must lie within the bounds"):
        PrivateGaussianMeans(sigma2=1.0).fit(reports).draw(rng, np.full(6, 7.0))
    one = MeanClient(bounds=(-5.0, 5.0), eps=1.0, adjacency="client", mechanism="finite-output").report([1.0], rng)
    with pytest.raises(ValueError, match="outputs for these bounds"):
        PrivateGaussianMeans(sigma2=1.0).fit([replace(one, estimate=one.estimate + 0.1)] * 3)


# --- rates -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        {"eps": 0.7},
        {"eps": 5.0},
        {"eps": 0.7, "delta": 1e-6, "mechanism": "discrete-gaussian"},
        {"eps": 0.7, "mechanism": "answers"},
        {"eps": 1.0, "mechanism": "staircase"},
        {"eps": 4.0, "adjacency": "client"},
        {"eps": 3.0, "adjacency": "client", "mechanism": "finite-output"},
        {"eps": 2.0, "adjacency": "client", "mechanism": "two-point"},
        {"eps": 2.0, "adjacency": "client", "mechanism": "two-point", "statistic": "pairs"},
        {"eps": np.inf},
    ],
    ids=lambda case: " ".join(map(str, case.values())),
)
@pytest.mark.parametrize("ones", [(0, 0, 1, 3), (4, 9, 10, 16)])
def test_rates_are_those_of_quadrature(case, ones):
    """Four clients of 16 answers: cells of the rate with exact prior probabilities, means and spreads on dense grids."""
    rng, n = RNG(12), 16
    reports = [RateClient(**case).report([1] * k + [0] * (n - k), rng) for k in ones]
    model = PrivateRates().fit(reports)
    edges, p, prior, weights = beta_priors()
    counts = 2 if case.get("statistic") == "pairs" else reports[0].trials
    binomial = binom.pmf(np.arange(counts + 1)[:, None], counts, p)
    likelihood = np.array([np.exp(log_likelihood(r)) @ binomial for r in reports])
    found, evidence = integrated(likelihood, prior, weights)
    mean = found @ p
    np.testing.assert_allclose(model.posterior_mean_, mean, rtol=3e-3)
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt(found @ p**2 - mean**2), rtol=1e-2)
    for q in (0.3, 0.975):
        ends = model.posterior_quantile(q)
        for end, row in zip(
            ends, np.cumsum(found, axis=1), strict=True
        ):  # between the ends of its cell, which may hold much
            cell = np.clip(np.searchsorted(edges, end), 1, row.size) - 1
            assert row[cell] >= q - 6e-3
            assert (row[cell - 1] if cell else 0.0) <= q + 6e-3
    assert model.log_likelihood_ == pytest.approx(evidence, abs=0.02)


def test_rates_cover_on_average_over_the_stated_hyperprior():
    """100 federations of 8 clients of 30 answers, drawn from the prior of the prior: 94 to 96 %, and 3 standard errors."""
    rng, held = RNG(13), []
    sent = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")
    stop = -np.expm1(-1.0)
    for _ in range(100):
        mu, size = rng.random(), 1 / rng.random() ** 2 - 1
        p = rng.beta(mu * size, (1 - mu) * size, 8)
        values = rng.binomial(30, p) + rng.geometric(stop, 8) - rng.geometric(stop, 8)
        model = PrivateRates().fit([RateReport("", 30, sent, "ones", 30, float(v), 1.841) for v in values])
        low, high = model.interval()
        assert (low < high).all()
        held.append(np.mean((low <= p) & (p <= high)))
    error = 3 * np.std(held) / np.sqrt(len(held))
    assert 0.94 - error <= np.mean(held) <= 0.96 + error


def test_laws_nearer_to_an_end_than_the_places_are_exact():
    """Of priors with nearly all mass at the ends rates may be 1e-100; the first place is at 5e-17.

    Against mixtures of Beta laws at each node, which know no places; and one minus the rates have the mirrored laws.
    """
    rng = RNG(5)
    sent = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")
    stop, s = -np.expm1(-1.0), 0.8
    p = rng.beta(0.3 * (s**-2 - 1), 0.7 * (s**-2 - 1), 12)
    values = rng.binomial(30, p) + rng.geometric(stop, 12) - rng.geometric(stop, 12)
    reports = [RateReport("", 30, sent, "ones", 30, float(v), 1.841) for v in values]
    model = PrivateRates().fit(reports)
    nodes = list(zip(model.nodes_.weight, *Betas.shapes(model.nodes_.centre, model.nodes_.spread), strict=True))
    for t in (1e-250, 1e-100, 1e-40, 1e-20, 1e-16, 1e-10):
        exact = sum(weight * rate_posteriors(reports, a, b)[0].cdf(t) for weight, a, b in nodes if weight > 1e-6)
        np.testing.assert_allclose(model.posterior_cdf(t), exact, rtol=0.03, atol=1e-6)
    deep = 0
    for q in (1e-3, 0.025, 0.5):
        ends = model.posterior_quantile(q)
        deep += np.count_nonzero(ends < 1e-17)
        assert (ends > 0).all()
        np.testing.assert_allclose([model.posterior_cdf(float(end))[i] for i, end in enumerate(ends)], q, rtol=1e-9)
    assert deep > 0
    mirrored = PrivateRates().fit([RateReport("", 30, sent, "ones", 30, 30.0 - v, 1.841) for v in values])
    low, high = model.interval()
    np.testing.assert_allclose(mirrored.interval(), (1 - high, 1 - low), atol=1e-9)
    draws = model.sample_posterior(rng, 4000)
    for t in (1e-40, 1e-20):
        below = model.posterior_cdf(t)
        np.testing.assert_allclose((draws < t).mean(axis=0), below, atol=5 * np.sqrt(below.max() / 4000))


def test_of_rates_no_number_is_as_small_as_the_quantile_is_an_end():
    """All answers are zeros: half of what is below 1e-308 has no other number than 0, where the law has nothing."""
    sent = Guarantee(10.0, 0.0, "row", "client", "discrete-laplace")
    model = PrivateRates().fit([RateReport("", 10, sent, "ones", 10, 0.0, 9e-5)] * 10)
    low = model.posterior_quantile(1e-3)
    assert (low == 0).all()
    assert (model.posterior_cdf(1e-300) > 1e-3).all()
    assert (model.posterior_cdf(0.0) == 0).all()
    ones = PrivateRates().fit([RateReport("", 10, sent, "ones", 10, 10.0, 9e-5)] * 10)
    assert (ones.posterior_cdf(1.0) == 1).all()  # what is within 1e-16 of 1 is counted, too


@pytest.mark.parametrize("eps", [0.3, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("normal", [0.3, 1.9, 2.1, 10.0])
def test_staircase_noise_behind_normal_errors_has_the_density_of_sums(eps, normal):
    """Against the exact law on whole numbers, so fine that it is a continuum; into tails that only noise reaches."""
    law = Staircase(sensitivity=400, eps=eps)
    noise = StaircaseNoise(np.array([law.variance / 400**2]), np.zeros(1), np.array([eps]), np.ones(1))
    reach = int(400 * (60 / min(eps, 2.0) + 9 * normal + eps * normal**2))
    y = np.arange(-reach, reach + 1)
    chance = law.log_likelihood(y, 0)
    for away in (0.0, 0.7 * normal, 2 * normal, 5 * normal, 10 / eps + 8 * normal, eps * normal**2 + 9 * normal + 5):
        exact = logsumexp(chance + norm.logpdf(away, y / 400, normal))
        found = noise.log_density(np.array([0]), np.array([[away]]), np.array([[normal**2]]))[0, 0]
        assert found == pytest.approx(exact, abs=0.02 if normal < 2 else 0.1)  # of 400 levels the best step is another


def test_the_extremes_of_rates_keep_their_width():
    sent = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")
    for values in ([-20, -30, -25], [0, 0, 0], [900, 901, 950], [450, 450, 450]):
        model = PrivateRates().fit([RateReport("", 900, sent, "ones", 900, float(v), 1.841) for v in values])
        low, high = model.interval()
        assert ((low >= 0) & (low < high) & (high <= 1)).all()
        assert ((model.posterior_mean_ > 0) & (model.posterior_mean_ < 1)).all()


# --- the grid --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.4, 0.05])
@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.0), (4.9, 0.5), (4.99, 0.01), (-2.9, 4.0), (1.0, 0.03)])
def test_places_integrate_smooth_functions_times_priors(step, centre, spread):
    """Against SciPy's truncated normal law; the function changes within eight steps of the coarser grid."""
    family, places = TruncatedNormals(LOW, HIGH), Places(LOW, HIGH, step, TruncatedNormals.depth)
    window = Window(places, 0, places.size)
    prior = density(family, window, Nodes(np.array([centre]), np.array([spread]), np.ones(1)))[:, 0]
    x = family.value(*places.at(np.arange(places.size))[:2])
    law = truncnorm((LOW - centre) / spread, (HIGH - centre) / spread, loc=centre, scale=spread)
    for f in (np.ones_like, np.cos, lambda x: np.exp(-((x - 4) ** 2) / 2)):
        assert prior @ f(x) == pytest.approx(law.expect(f, epsabs=1e-10), abs=2e-4)


@pytest.mark.parametrize(("mu", "spread"), [(0.3, 0.3), (0.01, 0.18), (0.02, 0.9), (0.999, 0.5), (0.5, 0.01)])
def test_places_integrate_binomials_times_beta_laws(mu, spread):
    family, places = Betas(), Places(0.0, np.pi, 0.05, Betas.depth)
    centre = 2 * np.arcsin(np.sqrt(mu))
    prior = density(family, Window(places, 0, places.size), Nodes(np.array([centre]), np.array([spread]), np.ones(1)))[:, 0]
    p = family.value(*places.at(np.arange(places.size))[:2])
    size = 1 / spread**2 - 1
    for n, k in ((40, 0), (40, 1), (40, 20), (40, 40)):
        exact = betabinom.pmf(k, n, mu * size, (1 - mu) * size)
        assert prior @ binom.pmf(k, n, p) == pytest.approx(exact, rel=2e-3, abs=1e-9)


def test_positions_are_inverse():
    places = Places(LOW, HIGH, 0.1, 9.0)
    at = np.linspace(0.0, places.size - 1.0, 400)
    np.testing.assert_allclose(places.position(places.at(at)[0]), at, atol=1e-5)


# --- where everything but centre and spread has a closed form, and the agreement is many digits ----------------------------


def holds(model, weights, mean, sd):
    """Whether intervals of the prior's mean and sd end where the lattice says, to the probability of its columns."""
    for level in (0.5, 0.95):
        for name, values in (("mean", mean), ("sd", sd)):
            for end, q in zip(model.prior_interval(level)[name], ((1 - level) / 2, (1 + level) / 2), strict=True):
                assert weights[values <= end].sum() == pytest.approx(q, abs=0.02)


def test_means_under_normal_noise_are_truncated_normal_laws_averaged_over_a_lattice():
    """Bounds so far away that no row is clipped: given centre and spread a truth is normal, cut off at the bounds."""
    y, n = np.array([0.5, -1.2, 3.0, 1.1, 0.2]), np.array([10, 40, 12, 90, 25])
    noise, end, at = np.array([0.3, 0.04, 0.5, 0.01, 0.2]), 30.0, 0.4
    sent = Guarantee(2.0, 1e-6, "row", "client", "gaussian")
    reports = [
        MeanReport("", int(k), sent, float(a), float(v), 0.0, (-end, end)) for k, a, v in zip(n, y, noise, strict=True)
    ]
    model = PrivateGaussianMeans(sigma2=2.0).fit(reports)
    part = (np.arange(200) + 0.5) / 200
    mu, tau = (x[..., None] for x in np.meshgrid(np.linspace(-end, end, 1000), end * part**3, indexing="ij"))
    own = 2.0 / n + noise
    centre, variance = (mu * own + y * tau**2) / (own + tau**2), own * tau**2 / (own + tau**2)

    def inside(centre, deviation):
        return np.maximum(norm.cdf((end - centre) / deviation) - norm.cdf((-end - centre) / deviation), 1e-300)

    log = norm.logpdf(y, mu, np.sqrt(own + tau**2)) + np.log(inside(centre, np.sqrt(variance)) / inside(mu, tau))
    density = np.exp(log.sum(axis=2)) * 3 * part**2
    weights = density / density.sum()
    mean = np.einsum("mt,mti->i", weights, centre)
    sd = np.sqrt(np.einsum("mt,mti->i", weights, variance + centre**2) - mean**2)
    np.testing.assert_allclose(model.posterior_mean_, mean, atol=1e-5)
    np.testing.assert_allclose(model.posterior_sd_, sd, rtol=1e-5)
    below = np.einsum("mt,mti->i", weights, norm.cdf((at - centre) / np.sqrt(variance)))
    np.testing.assert_allclose(model.posterior_cdf(at), below, atol=1e-3)
    assert model.log_likelihood_ == pytest.approx(np.log(density.mean() * 1000 / 999), abs=1e-4)
    holds(model, weights, mu[..., 0], tau[..., 0])


@pytest.mark.parametrize(
    ("error", "y"),
    [
        (0.3, [2.0, 1.0, 0.0, 1.5]), (0.05, [1.5, 1.1, 1.3, 1.2]), (0.03, [1.4, 1.2, 1.28, 1.31]),
        (0.015, [1.34, 1.25, 1.28, 1.31]), (1e-4, [1.34, 1.25, 1.28, 1.31]),
    ],
)  # fmt: skip
def test_intervals_of_the_prior_of_four_clients_hold_down_to_hardly_any_noise(error, y):
    """Of exact reports small spreads are out of the question, by hundreds in the log: splines swung far above all."""
    y, end = np.array(y), 5.0
    sent = Guarantee(2.0, 1e-6, "row", "client", "gaussian")
    model = PrivateGaussianMeans(sigma2=0.0).fit([MeanReport("", 9, sent, a, error**2, 0.0, (-end, end)) for a in y])
    tau, z = np.meshgrid(end * ((np.arange(600) + 0.5) / 600) ** 4, np.linspace(-9, 9, 301), indexing="ij")
    width = np.hypot(tau, error) / 2  # of the centre
    mu = y.mean() + width * z
    own, total = error**2, np.hypot(tau, error)
    log = norm.logpdf(y, mu[..., None], total[..., None]).sum(axis=2)
    for a in y:  # the truth between the bounds, given its report and without it
        centre, deviation = (mu * own + a * tau**2) / total**2, tau * error / total
        inside, before = (
            np.maximum(norm.cdf((end - c) / d) - norm.cdf((-end - c) / d), 1e-300)
            for c, d in ((centre, deviation), (mu, tau))
        )
        log += np.log(inside / before)
    weights = np.where(np.abs(mu) < end, np.exp(log - log.max()) * width * tau**0.75, 0.0)
    family = model.family_
    mean, variance = family.moments(np.clip(mu, -end, end).ravel(), tau.ravel())
    holds(model, (weights / weights.sum()).ravel(), mean, np.sqrt(variance))


def test_rates_without_noise_are_beta_laws_averaged_over_a_lattice():
    x, n, at = np.array([0, 1, 3, 5, 2, 9, 4]), np.array([4, 9, 8, 12, 2, 15, 30]), 0.3
    none = Guarantee(np.inf, 0.0, "row", "client", "none")
    model = PrivateRates().fit(
        [RateReport("", int(k), none, "ones", int(k), float(a), 0.0) for k, a in zip(n, x, strict=True)]
    )
    t, spread = np.meshgrid(np.linspace(-12, 10, 500), (np.arange(180) + 0.5) / 180, indexing="ij")
    mu, rest, size = 1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t)), 1 / spread**2 - 1
    log = sum(betabinom.logpmf(k, m, mu * size, rest * size) for k, m in zip(x, n, strict=True)) + np.log(mu * rest)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    laws = [beta(mu * size + k, rest * size + m - k) for k, m in zip(x, n, strict=True)]
    mean = np.array([(weights * law.mean()).sum() for law in laws])
    square = np.array([(weights * (law.var() + law.mean() ** 2)).sum() for law in laws])
    np.testing.assert_allclose(model.posterior_mean_, mean, rtol=2e-4)
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt(square - mean**2), rtol=4e-4)
    below = [(weights * law.cdf(at)).sum() for law in laws[:3]]
    np.testing.assert_allclose(model.posterior_cdf(at)[:3], below, atol=5e-4)
    evidence = log.max() + np.log(np.exp(log - log.max()).sum() * 22 / 499 / 180)
    assert model.log_likelihood_ == pytest.approx(evidence, abs=2e-5)
    assert model.mu_ == pytest.approx((weights * mu).sum(), rel=1e-4)
    assert model.sigma2_ == pytest.approx((weights * mu * rest * spread**2).sum(), rel=1e-3)
    holds(model, weights, mu, np.sqrt(mu * rest) * spread)


@pytest.mark.parametrize("adjacency", ["row", "client"])
@pytest.mark.parametrize("mechanism", ["discrete-laplace", "staircase", "best"])
@pytest.mark.parametrize("eps", [1e8, 1e20])
def test_a_report_of_which_no_noise_is_left_counts_as_one_without(adjacency, mechanism, eps):
    """The variance of the noise is 0 as a float from eps 1e7 or so: what is left is rounding."""
    rng = np.random.default_rng(3)
    reports = [
        MeanClient(bounds=(0.0, 10.0), eps=eps, adjacency=adjacency, mechanism=mechanism, name=str(i)).report(
            3 + i / 4 + rng.standard_normal(12)
        )
        for i in range(6)
    ]
    quiet = [replace(r, noise_variance=0.0, guarantee=replace(r.guarantee, mechanism="none", eps=np.inf)) for r in reports]
    found, without = (PrivateGaussianMeans(sigma2=1.0).fit(some) for some in (reports, quiet))
    assert found.posterior_mean_ == pytest.approx(without.posterior_mean_, abs=1e-3)
    assert np.ravel(found.interval()) == pytest.approx(np.ravel(without.interval()), abs=3e-3)


@pytest.mark.parametrize("eps", [14.0, 16.0, 20.0])
def test_the_narrow_middle_of_a_staircase_is_resolved(eps):
    """Truths of clients whose means are far more exact than the blocks of the staircase: within the middle of the noise.

    Places that resolve the blocks alone miss it: posterior means were wrong by more than a standard deviation.  Nearly all
    of the posterior is normal errors times that middle, which a sum over fine places gives.
    """
    rng = np.random.default_rng(8)
    sent = Guarantee(eps, 0.0, "client", "client", "staircase")
    law = Staircase(sensitivity=4096, eps=eps)
    variance = (
        MeanClient(bounds=(0.0, 10.0), eps=eps, adjacency="client", mechanism="staircase").report([1.0]).noise_variance
    )
    half = 10 * law.inner / 4096
    truth = rng.uniform(2.0, 8.0, 30)
    reports = [MeanReport(str(i), 4, sent, float(x), variance, 0.0, (0.0, 10.0)) for i, x in enumerate(truth)]
    sd = half / 4
    found = PrivateGaussianMeans(sigma2=4 * sd**2).fit(reports)
    fine = np.linspace(-3, 3, 60_001) * half
    z = fine / sd
    density = norm.cdf(z + half / sd) - norm.cdf(z - half / sd)  # uniform on the middle, and a normal error
    spread = float(np.sqrt((density * fine**2).sum() / density.sum()))
    assert found.posterior_mean_ == pytest.approx(truth, abs=0.1 * spread)
    assert np.median(found.posterior_sd_) == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("seed", range(10))
def test_ranges_are_found_soon_where_the_density_has_cliffs_and_gaps(seed, monkeypatch):
    """For a small spread the centre of staircases has islands, with nothing between them and with cliffs at their ends."""
    passes = []
    plain = Table.log_marginals
    monkeypatch.setattr(Table, "log_marginals", lambda self, nodes: passes.append(1) or plain(self, nodes))
    gen = np.random.default_rng(seed)
    truth = 3 + 0.7 * gen.standard_normal(8)
    client = MeanClient(bounds=(0.0, 10.0), eps=8.0, adjacency="client", mechanism="staircase")
    names = [f"client {i}" for i in range(8)]
    reports = client.reports(list(truth[:, None] + 0.1 * gen.standard_normal((8, 12))), names, gen)
    PrivateGaussianMeans(sigma2=0.01).fit(reports)
    assert len(passes) <= 24
