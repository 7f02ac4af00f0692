"""Counts with covariates: glmmTMB's numbers, the models without covariates, laws, simulation, bad input."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import optimize, special, stats

from estimators import BetaBinomial, BetaBinomialRegression, GammaPoisson, GammaPoissonRegression
from estimators.counts.count_regression import rise, separated
from estimators.numerics import spread_law

# cbpp of lme4 (Lesnoff et al. 2004): cattle with the disease, herd size, and period of each visit.
SICK = np.array(
    [2, 3, 4, 0, 3, 1, 1, 8, 2, 0, 2, 2, 0, 2, 0, 5, 0, 0, 1, 3, 0, 0, 1, 8, 1, 3, 0, 12, 2, 0, 0, 0, 1, 1, 0, 2, 0, 5, 3, 1,
     2, 1, 0, 0, 1, 2, 0, 0, 11, 0, 0, 0, 1, 1, 1, 0]
)  # fmt: skip
SIZE = np.array(
    [14, 12, 9, 5, 22, 18, 21, 22, 16, 16, 20, 10, 10, 9, 6, 18, 25, 24, 4, 17, 17, 18, 20, 16, 10, 9, 5, 34, 9, 6, 8, 6, 22,
     22, 18, 22, 25, 27, 22, 22, 10, 8, 6, 5, 21, 24, 19, 23, 19, 2, 3, 2, 19, 15, 15, 15]
)  # fmt: skip
PERIOD = np.array([*[1, 2, 3, 4, 1, 2, 3], *[1, 2, 3, 4] * 5, 1, *[1, 2, 3, 4] * 7], float)
EVENTS, EXPOSURE = (
    [10, 13, 32, 7, 52, 90, 4, 81, 12, 66, 101, 155],
    [2.0, 2.2, 1.8, 2.5, 2.0, 2.4, 1.9, 2.6, 2.5, 2.0, 2.3, 2.7],
)
Z = [-1.2, -0.9, -0.7, -0.2, -0.1, 0.1, 0.2, 0.5, 0.9, 0.3, 1.1, 1.6]


def numbers(model):
    return [model.mu_, model.beta_[0], model.concentration_, model.mu_sd_, model.beta_sd_[0]]


def test_glmmtmb_beta_binomial():
    """R 4.2 (Debian): glmmTMB(cbind(incidence, size-incidence) ~ as.integer(period), cbpp, family=betabinomial()).

    fixef, sigma, standard errors, logLik; its search stops within about 1e-6.
    """
    model = BetaBinomialRegression().fit(SICK, SIZE, covariates=PERIOD)
    stated = [-0.8968057989, -0.5402208057, 10.1829544, 0.3524418294, 0.1640569503]
    np.testing.assert_allclose(numbers(model), stated, rtol=3e-6)
    assert model.log_likelihood_ == pytest.approx(-88.81051541, abs=1e-8)


def test_glmmtmb_negative_binomial():
    """R 4.2 (Debian): glmmTMB(x ~ z + offset(log(e)), family=nbinom2())."""
    model = GammaPoissonRegression().fit(EVENTS, EXPOSURE, covariates=Z)
    stated = [2.860155821, 0.7122856622, 1.672769491, 0.2330129172, 0.303038615]
    np.testing.assert_allclose(numbers(model), stated, rtol=3e-6)
    assert model.log_likelihood_ == pytest.approx(-56.47411233, abs=1e-8)


@pytest.mark.parametrize(
    ("way", "plain", "data"),
    [
        (BetaBinomialRegression, BetaBinomial, (SICK, SIZE)),
        (GammaPoissonRegression, GammaPoisson, (EVENTS, EXPOSURE)),
    ],
)
def test_without_covariates_it_is_the_plain_model(way, plain, data):
    way = partial(way, "marginal-likelihood")
    model, plain = way().fit(*data), plain("marginal-likelihood").fit(*data)
    for name in ("posterior_mean_", "posterior_sd_", "weights_", "log_likelihood_"):
        np.testing.assert_allclose(getattr(model, name), getattr(plain, name), rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(model.interval(), plain.interval(), rtol=1e-5, atol=1e-9)
    with pytest.warns(UserWarning, match=r"covariates\[:, 0\] left out"):
        same = way().fit(*data, covariates=np.ones(len(data[0])))
    np.testing.assert_allclose(same.posterior_mean_, model.posterior_mean_, rtol=1e-7)


def test_likelihood_and_posterior_by_scipy():
    """The marginal laws and the posteriors of SciPy, and no better parameters by another search."""
    model = BetaBinomialRegression("marginal-likelihood").fit(SICK, SIZE, PERIOD)

    def loss(t):
        mean = 1 / (1 + np.exp(-t[0] - t[1] * PERIOD))
        return -stats.betabinom(SIZE, mean * np.exp(t[2]), (1 - mean) * np.exp(t[2])).logpmf(SICK).sum()

    best = optimize.minimize(loss, [-1.0, 0.0, 2.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
    assert model.log_likelihood_ == pytest.approx(-best.fun, abs=1e-7)
    mean, phi = model.prior_mean_, model.concentration_
    posterior = stats.beta(mean * phi + SICK, (1 - mean) * phi + SIZE - SICK)
    np.testing.assert_allclose(model.posterior_cdf(0.1), posterior.cdf(0.1), rtol=1e-12)
    assert [set(model.posterior_cdf(t)) for t in (-0.5, 0.0, 1.0, 1.5)] == [{0.0}, {0.0}, {1.0}, {1.0}]
    np.testing.assert_allclose(model.posterior_mean_, (1 - model.weights_) * mean + model.weights_ * SICK / SIZE, rtol=1e-12)
    model = GammaPoissonRegression("marginal-likelihood").fit(EVENTS, EXPOSURE, Z)
    k, expected = model.concentration_, np.array(EXPOSURE) * model.prior_mean_
    marginal = stats.nbinom(k, k / (k + expected)).logpmf(EVENTS).sum()
    assert model.log_likelihood_ == pytest.approx(marginal, abs=1e-9)
    rates = np.array(EVENTS) / EXPOSURE
    np.testing.assert_allclose(
        model.posterior_mean_, (1 - model.weights_) * model.prior_mean_ + model.weights_ * rates, rtol=1e-12
    )


def test_draws_given_one_prior_are_of_each_clients_own_law_and_independent():
    shares = BetaBinomialRegression("marginal-likelihood").fit(SICK, SIZE, PERIOD)
    mean, phi = shares.prior_mean_, shares.concentration_
    betas = stats.beta(mean * phi + SICK, (1 - mean) * phi + SIZE - SICK)
    rates = GammaPoissonRegression("marginal-likelihood").fit(EVENTS, EXPOSURE, Z)
    k = rates.concentration_
    gammas = stats.gamma(k + np.array(EVENTS), scale=1 / (k / rates.prior_mean_ + EXPOSURE))
    for model, laws in ((shares, betas), (rates, gammas)):
        even = laws.cdf(model.sample_posterior(np.random.default_rng(1), 4000))
        assert even.shape == (4000, model.posterior_mean_.size)
        assert stats.kstest(even, "uniform").pvalue.min() > 1e-6
        apart = np.corrcoef(even, rowvar=False) - np.eye(even.shape[1])
        assert np.abs(apart).max() < 6 / np.sqrt(4000)


def test_coordinates_of_covariates_say_nothing():
    model = BetaBinomialRegression().fit(SICK, SIZE, PERIOD)
    moved = BetaBinomialRegression().fit(SICK, SIZE, 1e6 + 1e3 * PERIOD)
    np.testing.assert_allclose(moved.posterior_mean_, model.posterior_mean_, rtol=1e-6)
    assert moved.beta_[0] * 1e3 == pytest.approx(model.beta_[0], rel=1e-5)
    assert moved.predict([1e6 + 2e3])[0] == pytest.approx(model.predict([2.0])[0], rel=1e-5)
    twice = GammaPoissonRegression().fit(EVENTS, 100 * np.array(EXPOSURE), Z)
    np.testing.assert_allclose(
        100 * twice.posterior_mean_, GammaPoissonRegression().fit(EVENTS, EXPOSURE, Z).posterior_mean_, rtol=1e-6
    )


def test_truth_is_found_and_covariates_are_worth_it():
    g = np.random.default_rng(2)
    z = g.normal(size=(400, 2))
    mean = 1 / (1 + np.exp(1 - z @ [1.0, -0.5]))
    truth = g.beta(20 * mean, 20 * (1 - mean))
    n = g.integers(5, 30, 400)
    x = g.binomial(n, truth)
    model, plain = BetaBinomialRegression().fit(x, n, z), BetaBinomial().fit(x, n)
    for estimate, error, value in zip(
        [model.mu_, *model.beta_], [model.mu_sd_, *model.beta_sd_], (-1, 1, -0.5), strict=True
    ):
        assert abs(estimate - value) < 4 * error
    losses = [np.mean((m.posterior_mean_ - truth) ** 2) for m in (model, plain)]
    assert losses[0] < 0.6 * losses[1]
    low, high = model.interval()
    assert abs(np.mean((low <= truth) & (truth <= high)) - 0.95) < 4 * np.sqrt(0.05 * 0.95 / 400)
    drawn, data = model.draw(np.random.default_rng(1))
    assert drawn.shape == (400,)
    assert BetaBinomialRegression().fit(*data).converged_
    low, high = model.prior_interval()["slopes"][0]
    assert low < model.beta_[0] < high


def test_no_spread_beyond_the_covariates():
    n = np.full(12, 20)
    x = np.round(20 / (1 + np.exp(-np.array(Z)))).astype(int)
    with pytest.warns(UserWarning, match="intervals have no width; prior='bayes' counts"):
        model = BetaBinomialRegression("marginal-likelihood").fit(x, n, Z)
    assert model.concentration_ == np.inf
    np.testing.assert_allclose(model.posterior_mean_, model.prior_mean_)
    logistic = optimize.minimize(
        lambda t: -stats.binom(n, 1 / (1 + np.exp(-t[0] - t[1] * np.array(Z)))).logpmf(x).sum(), [0.0, 1.0]
    )
    np.testing.assert_allclose([model.mu_, model.beta_[0]], logistic.x, atol=1e-4)
    assert (model.posterior_cdf(0.0) == 0).all()


@pytest.mark.parametrize(
    ("way", "plain", "data"),
    [
        (BetaBinomialRegression, BetaBinomial, (SICK, SIZE)),
        (GammaPoissonRegression, GammaPoisson, (EVENTS, EXPOSURE)),
        (BetaBinomialRegression, BetaBinomial, ([1, 5, 0, 3, 4, 9], [6, 20, 8, 9, 12, 40])),
    ],
)
def test_without_covariates_the_average_is_that_of_the_plain_model(way, plain, data):
    """Whose quadrature over both parameters shares no code with this one.

    The error of Laplace's method with six clients is 4 % of an sd, of ends 6 %.
    """
    model, plain = way().fit(*data), plain().fit(*data)
    sd = plain.posterior_sd_
    assert np.abs((model.posterior_mean_ - plain.posterior_mean_) / sd).max() < 0.05
    assert np.abs(model.posterior_sd_ / sd - 1).max() < 0.05
    for ends, others in zip(model.interval(), plain.interval(), strict=True):
        assert np.abs((ends - others) / sd).max() < 0.08


@pytest.mark.parametrize("spread", [3.0, 300.0])
def test_intervals_of_the_average_hold_with_few_clients(spread):
    """Twelve clients: the likeliest prior held 80 % and 21 % of the truths, with intervals of width 0 among them."""
    g, held = np.random.default_rng(5), []
    for _ in range(40):
        z, n = g.normal(size=12), g.integers(5, 60, 12)
        mean = 1 / (1 + np.exp(1 - 0.7 * z))
        truth = g.beta(mean * spread, (1 - mean) * spread)
        low, high = BetaBinomialRegression().fit(g.binomial(n, truth), n, z).interval()
        assert (high > low).all()
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(held) > 0.95 - 4 * np.std(held) / np.sqrt(40)


def by_quadrature(way, x, size):
    """Mean (median of what it may be, of rates), 2.5 and 97.5 % points of a new client, and mean and sd of the intercept."""
    unit = np.mean(size) if way is BetaBinomialRegression else np.mean(x)
    log_rho, eta = np.meshgrid(np.linspace(np.log(1e-4 / unit), np.log(1e4), 120), np.linspace(-9, 9, 361), indexing="ij")
    log_rho, eta = log_rho.ravel(), eta.ravel()
    phi = np.exp(-log_rho)
    if way is BetaBinomialRegression:
        mean = 1 / (1 + np.exp(-eta))
        chance = sum(stats.betabinom.logpmf(a, b, mean * phi, (1 - mean) * phi) for a, b in zip(x, size, strict=True))
        chance, law = chance + np.log(mean * (1 - mean)), stats.beta(mean * phi, (1 - mean) * phi)
    else:
        mean = np.exp(eta)
        chance = sum(stats.nbinom.logpmf(a, phi, phi / (phi + b * mean)) for a, b in zip(x, size, strict=True))
        law = stats.gamma(phi, scale=mean / phi)
    logs = chance + log_rho + spread_law.log_density(unit * np.exp(log_rho))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    some = np.flatnonzero(weights > 1e-9)
    law = law.dist(*(a[some] for a in law.args), **{name: a[some] for name, a in law.kwds.items()})
    low, high = (optimize.brentq(lambda t, q=q: np.sum(weights[some] * law.cdf(t)) - q, 1e-9, 1e3) for q in (0.025, 0.975))
    centre = np.sum(weights * eta)
    if way is GammaPoissonRegression:
        order = np.argsort(eta, kind="stable")
        middle = np.exp(np.interp(0.5, np.cumsum(weights[order]), eta[order]))
    else:
        middle = np.sum(weights * mean)
    return middle, low, high, centre, np.sqrt(np.sum(weights * (eta - centre) ** 2))


@pytest.mark.parametrize(
    ("way", "data"),
    [
        (BetaBinomialRegression, ([1, 5, 0, 3, 4, 9], [6, 20, 8, 9, 12, 40])),
        (BetaBinomialRegression, ([3, 5, 4, 6], [10] * 4)),
        (GammaPoissonRegression, (EVENTS[:6], EXPOSURE[:6])),
    ],
)
@pytest.mark.filterwarnings("ignore:clients of equal covariates differ by no more than noise")
def test_what_is_said_of_the_prior_is_the_average_that_posteriors_use(way, data):
    """By a lattice over both parameters with SciPy's laws, on the scale of the link: Laplace's method errs by so much."""
    link = special.logit if way is BetaBinomialRegression else np.log
    model, likeliest = way().fit(*data), way("marginal-likelihood").fit(*data)
    mean, low, high, centre, sd = by_quadrature(way, *data)
    spread = (link(high) - link(low)) / 4
    summary, intervals = model.prior_summary(), model.prior_interval()
    np.testing.assert_allclose(model.prior_mean_, model.predict(), rtol=1e-12)
    assert summary["mean"] == pytest.approx(model.predict(), rel=1e-12)
    assert abs(link(model.predict()) - link(mean)) < 0.05 * spread
    assert (
        np.abs(link(np.array(intervals["new client"])) - link(np.array([low, high]))).max() < 0.08 * spread
    )  # as of posteriors
    assert abs(summary["intercept"] - centre) < 0.05 * sd
    assert abs(summary["intercept_standard_error"] / sd - 1) < 0.1
    assert np.ptp(intervals["mean"]) > 3.5 * summary["intercept_standard_error"]
    if way is BetaBinomialRegression:
        assert abs(likeliest.predict() - mean) > 5 * abs(model.predict() - mean)


def test_many_clients_leave_nothing_to_average_over():
    g = np.random.default_rng(3)
    z, n = g.normal(size=3000), g.integers(20, 60, 3000)
    mean = 1 / (1 + np.exp(1 - 0.7 * z))
    x = g.binomial(n, g.beta(mean * 10, (1 - mean) * 10))
    model, likeliest = (BetaBinomialRegression(prior).fit(x, n, z) for prior in ("bayes", "marginal-likelihood"))
    for key in ("mean", "slopes"):
        ends, wald = (np.array(fit.prior_interval()[key]).ravel() for fit in (model, likeliest))
        np.testing.assert_allclose(ends, wald, atol=0.1 * likeliest.mu_sd_)
    new = [[-1.0], [0.5]]
    np.testing.assert_allclose(model.predict(new), likeliest.predict(new), atol=1e-3)
    np.testing.assert_allclose(model.new_client_interval(new), likeliest.new_client_interval(new), atol=5e-3)


@pytest.mark.parametrize("spread", [3.0, 30.0])
@pytest.mark.parametrize("way", [BetaBinomialRegression, GammaPoissonRegression])
def test_new_clients_and_slopes_are_where_the_intervals_say(way, spread):
    """Ten clients; the share of new clients inside is exact for each fit, so that only fits vary."""
    g, held, slopes, short = np.random.default_rng(11), [], [], []
    for _ in range(40):
        z, size = g.normal(size=10), g.integers(5, 60, 10)
        eta, new = 0.7 * z - 1, 0.5
        if way is BetaBinomialRegression:
            mean, at = 1 / (1 + np.exp(-eta)), 1 / (1 + np.exp(1 - 0.7 * new))
            data = g.binomial(size, g.beta(mean * spread, (1 - mean) * spread)), size, z
            law = stats.beta(at * spread, (1 - at) * spread)
        else:
            at = np.exp(0.7 * new - 1)
            data = g.poisson(size * np.exp(eta) * g.gamma(spread, 1 / spread, 10)), size, z
            law = stats.gamma(spread, scale=at / spread)
        for prior, found in (("bayes", held), ("marginal-likelihood", short)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model = way(prior).fit(*data)
            low, high = model.new_client_interval([[new]])[0]
            found.append(law.cdf(high) - law.cdf(low))
            if prior == "bayes":
                low, high = model.prior_interval()["slopes"][0]
                slopes.append(low <= 0.7 <= high)
    assert np.mean(held) > 0.95 - 4 * np.std(held) / np.sqrt(40) > 0.88
    assert np.mean(held) > np.mean(short)
    assert np.mean(slopes) >= 0.85  # of 40: fewer have a chance of 1e-3 if 95 % is true


def test_covariates_that_break_a_rule_of_the_fit_tell_nothing_of_a_new_client():
    z = np.column_stack([Z, 2 * np.array(Z)])
    for way, data, top in ((BetaBinomialRegression, ([3] * 12, 10), 1.0), (GammaPoissonRegression, (EVENTS, 1.0), np.inf)):
        with pytest.warns(UserWarning, match="left out"):
            model = way().fit(*data, z)
        kept, broken = model.new_client_interval([[1.0, 2.0], [1.0, 3.0]])
        assert 0 < kept[0] < kept[1] < top
        assert broken.tolist() == [0.0, top]
        assert model.prior_interval()["slopes"][1] == (-np.inf, np.inf)
        assert model.prior_summary()["slope_standard_errors"][1] == np.inf


@pytest.mark.parametrize(
    ("way", "data"),
    [
        (way, data)
        for ways, data in (
            ((BetaBinomial, BetaBinomialRegression), ([*[0] * 10, 20, 53], [*[20] * 11, 54])),
            ((GammaPoisson, GammaPoissonRegression), ([*[0] * 10, 10**8, 1], 1.0)),
        )
        for way in ways
    ],
)
def test_intervals_hold_what_is_too_small_for_a_number(way, data):
    """More than 2.5 % of these posteriors is below 1e-307; of the Beta law SciPy's inverse answers 2.2e-308 there."""
    model = way().fit(*data)
    low, high = model.interval()
    assert (model.posterior_cdf(1e-307)[:10] > 0.025).all()
    assert (low[:10] == 0).all()
    assert (high > low).all()
    np.testing.assert_allclose([model.posterior_cdf(low[i])[i] for i in (10, 11)], 0.025, rtol=1e-6)


def test_rates_of_fewer_clients_with_events_than_coefficients_are_refused():
    """Their posterior was that of the widest prior allowed: intervals held 81 % (error 4) of simulated true rates."""
    exposure, z = [1.8, 3.0, 5.0, 8.2, 13.6], [0.3, -0.5, -0.2, 0.2, -0.7]
    with pytest.raises(ValueError, match=r"x holds events of 1 client only, .* 2 with the intercept"):
        GammaPoissonRegression().fit([0, 0, 0, 37, 0], exposure, z)
    assert np.isfinite(GammaPoissonRegression().fit([0, 0, 5, 37, 0], exposure, z).posterior_mean_).all()
    assert np.isfinite(GammaPoissonRegression().fit([0, 0, 0, 37, 0], exposure).posterior_mean_).all()
    assert np.isfinite(
        GammaPoissonRegression("marginal-likelihood").fit([0, 0, 0, 37, 0], exposure, z).posterior_mean_
    ).all()


@pytest.mark.parametrize("way", [BetaBinomial, GammaPoisson])
def test_intervals_of_many_clients_hold_what_is_too_small_for_a_number(way):
    """More than a thousand different ones are interpolated between few, by logarithms."""
    g, m = np.random.default_rng(0), 3000
    x, size = g.integers(0, 3, m), g.permutation(np.arange(2, m + 2))
    low, high = way("fixed", 1e-3, 1e-3).fit(x, size).interval()
    assert (low[x == 0] == 0).all()
    assert (low[x > 0] > 0).all()
    assert (high >= low).all()


@pytest.mark.filterwarnings("ignore:.* left out", "ignore:clients of equal covariates differ by no more than noise")
@pytest.mark.parametrize(
    ("way", "data", "top"),
    [(BetaBinomialRegression, ([3] * 12, 10), 1.0), (GammaPoissonRegression, ([3] * 12, 1.0), np.inf)],
)
def test_a_likeliest_prior_without_spread_knows_no_more_of_broken_rules(way, data, top):
    """It answered for them as for others."""
    model = way("marginal-likelihood").fit(*data, np.column_stack([Z, 2 * np.array(Z)]))
    assert model.concentration_ == np.inf
    kept, broken = model.new_client_interval([[1.0, 2.0], [1.0, 3.0]])
    np.testing.assert_allclose(kept, model.predict([[1.0, 2.0]]).repeat(2), rtol=1e-12)
    assert broken.tolist() == [0.0, top]
    assert model.new_client_interval([[1.0, 2.0]]).shape == (1, 2)


@pytest.mark.parametrize("x", [[0, 2, 5, 9, 30], [3, 1, 0, 2, 1, 0]])
def test_the_centre_of_rates_of_few_clients_is_no_average_over_priors_without_bound(x):
    """It was 1.3e11 where five clients have 9.2 events on average."""
    model, plain = GammaPoissonRegression().fit(x), GammaPoisson().fit(x).prior_summary()
    assert 0.5 < model.predict() / plain["mean"] < 2
    assert 0.5 < model.prior_summary()["sd"] / plain["sd"] < 2
    apart = GammaPoissonRegression().fit([*x, 0], [1.0] * len(x) + [0.0])
    np.testing.assert_allclose(apart.posterior_mean_[:-1], model.posterior_mean_, rtol=1e-9)
    assert apart.posterior_mean_[-1] == GammaPoisson().fit([*x, 0], [1.0] * len(x) + [0.0]).posterior_mean_[-1] == np.inf


@pytest.mark.parametrize("at", [0.0, 2.0, 10.0, 50.0])
@pytest.mark.parametrize(
    ("way", "x", "size"),
    [
        (GammaPoissonRegression, [5, 8, 9, 6, 4], 5.0),
        (GammaPoissonRegression, [2, 8, 19, 3, 1], 5.0),
        (BetaBinomialRegression, [2, 8, 11, 3, 1], 20),
    ],
)
def test_new_clients_far_from_all_others_are_where_draws_of_the_average_are(way, x, size, at):
    """Intervals of a few coarse nodes were off, and those of covariates far away took minutes."""
    model = way().fit(x, size, [0.1, -0.1, 0.6, 0.2, -0.5])
    low, high = model.new_client_interval([[at]])[0]
    generator, nodes, draws = np.random.default_rng(3), model._nodes, 40_000
    [row], _ = model.new_rows([[at]])
    which = generator.choice(nodes.weights.size, draws, p=nodes.weights)
    b = nodes.means[which] + np.einsum("spq,sq->sp", nodes.roots[which], generator.standard_normal((draws, row.size)))
    eta, phi = b @ row, np.exp(-nodes.log_rho[which])
    if way is GammaPoissonRegression:
        truth = np.exp(eta) * generator.gamma(phi) / phi
    else:
        mean = np.clip(special.expit(eta), 1e-300, 1 - 1e-16)
        truth = generator.beta(np.maximum(mean * phi, 1e-12), np.maximum((1 - mean) * phi, 1e-12))
    error = np.sqrt(0.025 * 0.975 / draws)
    for side, beyond in ((truth < low, low > 1e-12), (truth > high, high < 1 - 1e-9 or way is GammaPoissonRegression)):
        if beyond:
            assert side.mean() == pytest.approx(0.025, abs=4.5 * error + 5e-4)
        else:  # much of the law is at the end itself
            assert side.mean() <= 0.025 + 4.5 * error


@pytest.mark.parametrize("prior", ["bayes", "marginal-likelihood"])
@pytest.mark.parametrize("unit", [1e-135, 1e-20, 1e12, 1e135])
@pytest.mark.filterwarnings("ignore:clients of equal covariates differ by no more than noise")
def test_the_unit_of_exposures_says_nothing(unit, prior):
    """Logarithms of rates beyond 25 are no separation; what separates does so in any unit."""
    x, z = np.array([2, 0, 9, 4, 30, 11]), np.array([0.0, 1, 2, 3, 4, 5])
    one, other = (GammaPoissonRegression(prior).fit(x, np.full(6, u), z) for u in (1.0, unit))
    np.testing.assert_allclose(other.beta_, one.beta_, rtol=1e-5)
    for name in ("posterior_mean_", "posterior_sd_", "prior_mean_"):
        np.testing.assert_allclose(getattr(other, name) * unit, getattr(one, name), rtol=1e-4)
    np.testing.assert_allclose(np.array(other.interval()) * unit, one.interval(), rtol=1e-4)
    np.testing.assert_allclose(other.new_client_interval([[2.5]]) * unit, one.new_client_interval([[2.5]]), rtol=1e-4)
    with pytest.raises(ValueError, match="covariates separate"):
        GammaPoissonRegression(prior).fit([0, 0, 3, 4, 7], unit, [0.0, 0, 1, 1, 1])


def test_units_of_exposures_are_bounded_by_what_squares_of_rates_can_be():
    x = np.array([0, 1, 3, 4, 7])
    for rate, held in ((0.9e-140, False), (1.5e-140, True), (0.9e140, True), (1.1e140, False)):
        if held:
            assert 0 < GammaPoissonRegression("marginal-likelihood").fit(x, 3 / rate).posterior_sd_.min() < rate
        else:
            with pytest.raises(ValueError, match="exposure is in a unit"):
                GammaPoissonRegression("marginal-likelihood").fit(x, 3 / rate)


def test_one_trial_each_tells_of_covariates_alone():
    x = [0, 0, 1, 0, 1, 1, 1]
    with pytest.warns(UserWarning, match="n is 1 for all clients"):
        model = BetaBinomialRegression().fit(x, 1, np.arange(7.0))
    logistic = optimize.minimize(
        lambda b: np.sum(np.logaddexp(0, b[0] + b[1] * np.arange(7)) - np.array(x) * (b[0] + b[1] * np.arange(7))), [0, 0]
    )
    assert model.beta_[0] == pytest.approx(logistic.x[1], rel=1e-4)
    np.testing.assert_allclose(model.beta_sd_[0], np.sqrt(logistic.hess_inv[1, 1]), rtol=0.05)
    assert np.isnan(model.concentration_)
    with pytest.raises(ValueError, match="no spread is likeliest"):
        BetaBinomialRegression("marginal-likelihood").fit(x, 1, np.arange(7.0))


def test_two_trials_each_tell_how_far_clients_differ():
    x = [0, 2, 0, 2, 1, 2, 0, 1]
    model, plain = (way("marginal-likelihood").fit(x, 2) for way in (BetaBinomialRegression, BetaBinomial))
    assert model.concentration_ == pytest.approx(plain.concentration_, rel=1e-5)


def test_who_is_separated():
    """Some direction lowers what is lowest, raises what is highest, moves nobody between; by its definition."""
    basis = np.column_stack([np.ones(6), np.arange(6.0), [0, 0, 1, 0, 0, 0]])
    none, first = np.zeros(6, bool), np.arange(6) < 2
    assert not separated(basis, none, none)
    assert separated(basis, ~none, none)  # all are lowest: the intercept separates
    assert separated(basis, first, ~first)
    assert separated(basis, np.arange(6) == 2, none)  # whom a column of his own separates
    assert not separated(basis, np.arange(6) == 3, none)
    assert not separated(basis[:, :2], np.arange(6) % 2 == 0, np.arange(6) % 2 == 1)
    assert separated(basis[:, :2], np.arange(6) < 3, np.arange(6) >= 3)
    assert separated(basis[:, :2], np.arange(6) < 2, np.arange(6) > 2)  # quasi: who lies between stays where he is


def test_rising_factorials():
    found = rise(np.array([1e12, 3e5, 0.5, 7.0]), np.array([5.0, 2.0, 4.0, 0.0]))
    exact = [sum(np.log(a + j) for j in range(x)) for a, x in ((1e12, 5), (3e5, 2), (0.5, 4), (7.0, 0))]
    np.testing.assert_allclose(found, exact, rtol=1e-14, atol=1e-14)


def test_bad_input_is_named():
    x, n = [0, 2, 5, 9, 10], [10] * 5
    z = [0.0, 1.0, 2.0, 3.0, 4.0]
    for call, words in (
        (lambda: BetaBinomialRegression().fit([0] * 5, n, z), "x holds zeros only"),
        (lambda: BetaBinomialRegression().fit([10] * 5, n, z), "x holds successes only"),
        (lambda: BetaBinomialRegression().fit([1, 0], [1, 0]), "x holds successes only"),
        (lambda: GammaPoissonRegression().fit([0] * 5, 1.0, z), "x holds zeros only"),
        (lambda: BetaBinomialRegression().fit([0, 0, 10, 10, 10], n, z), "covariates separate"),
        (lambda: GammaPoissonRegression().fit([0, 0, 3, 4, 7], 1.0, [0.0, 0, 1, 1, 1]), "covariates separate"),
        (lambda: GammaPoissonRegression().fit([0, 1, 3, 4, 7], 1e-200, z), "exposure is in a unit"),
        (lambda: BetaBinomialRegression().fit(x, n, z[:4]), "one row per client, 5"),
        (lambda: BetaBinomialRegression().fit(x, n, np.eye(5)), "fewer covariates, or more clients"),
        (lambda: BetaBinomialRegression().fit(x, n, [np.nan, 1, 2, 3, 4]), "covariates holds NaN"),
        (lambda: BetaBinomialRegression().fit(x, n).predict([1.0]), "only then"),
        (lambda: BetaBinomialRegression().fit([11, 2, 5, 9, 10], n, z), "x must not exceed n"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
