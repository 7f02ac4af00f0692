"""Gamma-Poisson fits: SciPy as an outside oracle, published tables, merging of tallies, corners, bad input, coverage."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from estimators import GammaPoisson
from estimators.counts.gamma_poisson import GammaPoissonTally

ML = "marginal-likelihood"


def sample(m, shape, rate, seed, exposure=None):
    rng = np.random.default_rng(seed)
    e = rng.gamma(2, 1, m) if exposure is None else np.broadcast_to(float(exposure), (m,))
    theta = rng.gamma(shape, 1 / rate, m)
    return theta, rng.poisson(e * theta), e


def log_chance(x, e, shape, rate):
    return stats.nbinom.logpmf(x, shape, rate / (rate + e)).sum()


counts = st.lists(st.tuples(st.integers(0, 40), st.floats(-3, 3).map(lambda v: 10.0**v)), min_size=2, max_size=12)


@given(counts)
def test_no_prior_of_a_grid_is_likelier_than_the_fitted_one(clients):
    x, e = (np.array(column) for column in zip(*clients, strict=True))
    model = GammaPoisson(ML).fit(x, e)
    assert model.converged_
    for mean, shape in itertools.product(np.array([0.1, 0.6, 1.0, 4.0]) * (x.sum() + 0.1) / e.sum(), (0.01, 0.5, 3.0, 1e4)):
        other = GammaPoisson("fixed", shape=shape, rate=shape / mean).fit(x, e)
        assert other.log_likelihood_ <= model.log_likelihood_ + 1e-9 * abs(model.log_likelihood_)
    low, high = model.interval(0.9)
    assert (low <= high).all()
    assert np.isfinite([model.posterior_mean_, model.posterior_sd_, low, high]).all()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("shape", "rate", "exposure"), [(0.7, 3, 1), (2, 0.5, None), (30, 0.01, None)])
def test_the_fit_is_scipys(shape, rate, exposure, seed):
    _, x, e = sample(80, shape, rate, seed, exposure)
    model = GammaPoisson(ML).fit(x, e)
    assert model.log_likelihood_ == pytest.approx(log_chance(x, e, model.shape_, model.rate_), rel=1e-10)
    start = np.log([shape, rate])
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    found = optimize.minimize(lambda v: -log_chance(x, e, *np.exp(v)), start, method="Nelder-Mead", options=options)
    assert model.log_likelihood_ >= -found.fun - 1e-8
    np.testing.assert_allclose([model.shape_, model.rate_], np.exp(found.x), rtol=1e-4)


def test_many_distinct_exposures_are_spread_over_nodes_without_loss():
    _, x, e = sample(5000, 2, 0.5, 3)
    model = GammaPoisson(ML).fit(x, e)
    assert model.log_likelihood_ == pytest.approx(log_chance(x, e, model.shape_, model.rate_), rel=1e-12)
    for shape, rate in ((1.001, 1.0), (1.0, 1.001)):
        assert log_chance(x, e, model.shape_ * shape, model.rate_ * rate) < model.log_likelihood_


def test_posterior_is_bayes_rule_by_quadrature():
    x, e = [0, 3, 0], [0.5, 2.0, 0.0]
    model = GammaPoisson("fixed", shape=1.7, rate=2.5).fit(x, e)
    for i in range(3):

        def joint(t, i=i):
            return stats.gamma.pdf(t, 1.7, scale=1 / 2.5) * stats.poisson.pmf(x[i], e[i] * t)

        total = integrate.quad(joint, 0, np.inf)[0]
        mean = integrate.quad(lambda t: t * joint(t), 0, np.inf)[0] / total
        square = integrate.quad(lambda t: t * t * joint(t), 0, np.inf)[0] / total
        below = integrate.quad(joint, 0, 0.4)[0] / total
        np.testing.assert_allclose(
            [model.posterior_mean_[i], model.posterior_sd_[i], model.posterior_cdf(0.4)[i]],
            [mean, np.sqrt(square - mean**2), below],
            rtol=1e-6,
        )
    q = model.posterior_quantile(0.3)
    np.testing.assert_allclose(model.posterior_cdf(q), 0.3, rtol=1e-12)


def test_moments_are_unbiased():
    """A prior that is no Gamma, and very unequal exposures; five standard errors of the average of 10 000 samples."""
    rng = np.random.default_rng(4)
    e = np.array([0.2, 1.0, 1.0, 9.0])
    values = np.array([0.5, 3.0])
    found = []
    for x in rng.poisson(e * values[rng.integers(0, 2, (10_000, 4))]):
        found.append(GammaPoissonTally.of(x, e).moments())
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (abs(np.mean(found, axis=0) - [1.75, values.var()]) < 5 * error).all()


@pytest.mark.parametrize("exposure", [1.0, None])
def test_tallies_merge_to_the_same_bits_in_any_order(exposure):
    _, x, e = sample(999, 2, 0.3, 5, exposure)
    e = np.round(e, 1) + 0.1
    parts = [GammaPoissonTally.of(x[i::4], e[i::4]) for i in range(4)]
    forth, back = parts[0] + parts[1] + (parts[2] + parts[3]), parts[3] + parts[1] + (parts[0] + parts[2])
    one, there, again = (
        GammaPoisson(ML).fit(x, e),
        GammaPoisson(ML).fit_tally(forth),
        GammaPoisson(ML).fit_tally(back),
    )
    for model in (there, again):
        assert (one.shape_, one.rate_, one.log_likelihood_) == (model.shape_, model.rate_, model.log_likelihood_)
    assert np.array_equal(there.predict(x, e), one.posterior_mean_)
    assert forth.moments() == back.moments() == GammaPoissonTally.of(x, e).moments()


def test_the_unit_of_exposure_does_not_matter():
    _, x, e = sample(60, 2, 0.5, 6)
    years, days = GammaPoisson(ML).fit(x, e), GammaPoisson(ML).fit(x, 365 * e)
    np.testing.assert_allclose(days.shape_, years.shape_, rtol=1e-8)
    np.testing.assert_allclose(days.posterior_mean_ * 365, years.posterior_mean_, rtol=1e-8)
    assert days.log_likelihood_ == pytest.approx(years.log_likelihood_, rel=1e-12)


@pytest.mark.parametrize("prior", ["marginal-likelihood", "moments"])
def test_corners(prior):
    pooled = GammaPoisson(prior).fit([5, 5, 10], [1, 1, 2])
    assert (pooled.shape_, pooled.rate_, pooled.posterior_sd_.tolist()) == (np.inf, np.inf, [0, 0, 0])
    np.testing.assert_allclose(pooled.posterior_mean_, 5, rtol=1e-14)
    assert pooled.log_likelihood_ == pytest.approx(stats.poisson.logpmf([5, 5, 10], [5, 5, 10]).sum(), rel=1e-12)
    summary = pooled.prior_summary()
    assert [summary[name] for name in ("shape", "rate", "mean", "sd")] == [np.inf, np.inf, pooled.mean_, 0]
    none = GammaPoisson(prior).fit([0, 0], [3, 9])
    assert (none.mean_, none.posterior_mean_.tolist(), none.log_likelihood_) == (0, [0, 0], 0)
    assert [end.tolist() for end in none.interval()] == [[0, 0], [0, 0]]
    assert pooled.posterior_cdf(pooled.mean_).tolist() == [1, 1, 1]
    assert pooled.posterior_cdf(pooled.mean_, strict=True).tolist() == [0, 0, 0]
    for model in (pooled, none):
        truth, (x, e) = model.draw(np.random.default_rng(0))
        assert (x >= 0).all()
        assert truth.shape == e.shape
    near = GammaPoisson("fixed", shape=1e12, rate=2e11).fit([5, 5, 10], [1, 1, 2])
    assert near.log_likelihood_ == pytest.approx(pooled.log_likelihood_, rel=1e-9)


def test_exposures_that_are_not_given_are_one():
    tally = GammaPoissonTally.of([1, 2])
    assert tally.exposures.tolist() == [1.0]
    model = GammaPoisson("fixed", shape=2.0, rate=3.0).fit([1, 2])
    one = [model.posterior_mean_, model.predict([1, 2]), model.posterior([1, 2]).posterior_mean_]
    np.testing.assert_allclose(one, [[3 / 4, 4 / 4]] * 3, rtol=1e-14)


def test_own_rates_are_those_of_the_counts_that_are_given():
    model = GammaPoisson(ML).fit([0, 2, 0], [4.0, 5.0, 0.0])
    np.testing.assert_array_equal(model.own_numbers(), [0, 0.4, np.nan])
    np.testing.assert_array_equal(model.own_numbers(([1, 15, 0], [4.0, 5.0, 0.0])), [0.25, 3, np.nan])


def test_without_exposure_a_client_gets_the_prior():
    _, x, e = sample(40, 2, 0.5, 7)
    model = GammaPoisson(ML).fit([*x, 0], [*e, 0])
    prior = stats.gamma(model.shape_, scale=1 / model.rate_)
    np.testing.assert_allclose(
        [model.posterior_mean_[-1], model.posterior_sd_[-1], *(end[-1] for end in model.interval())],
        [prior.mean(), prior.std(), *prior.ppf([0.025, 0.975])],
        rtol=1e-9,
    )
    np.testing.assert_allclose(GammaPoisson(ML).fit(x, e).shape_, model.shape_, rtol=1e-9)


@pytest.mark.parametrize(("m", "mean", "sd"), [(4, False, False), (30, True, False), (400, True, True)])
def test_without_exposure_moments_are_finite_where_the_widest_prior_leaves_them_so(m, mean, sd):
    model = GammaPoisson().fit([*[0, 3] * (m // 2), 0], [*[1.0] * m, 0.0])
    wide = model.components_.rhos.max() / m
    assert (mean, sd) == (wide < 1, wide < 0.5)
    assert np.isfinite([model.posterior_mean_[-1], model.posterior_sd_[-1]]).tolist() == [mean, sd]
    assert np.isfinite([model.posterior_mean_[:-1], model.posterior_sd_[:-1]]).all()
    for wide, finite in ((0.499, [True, True]), (0.5, [True, False]), (0.999, [True, False]), (1.0, [False, False])):
        model._widest = wide
        silent = model.posterior([0, 0], [1.0, 0.0])
        assert np.isfinite([silent.posterior_mean_, silent.posterior_sd_]).T.tolist() == [[True, True], finite]


def test_insurance_claims_as_efron_and_hastie_have_them(shared_data):
    """Computer Age Statistical Inference, table 6.1, gamma line, and the fitted Gamma .702, .306 (from memory)."""
    x = np.loadtxt(shared_data("efron_eb/bayesgof_AutoIns.csv"), skiprows=1)
    model = GammaPoisson(ML).fit(x)
    assert [round(v, 3) for v in (model.shape_, 1 / model.rate_)] == [0.702, 0.306]
    printed = [0.164, 0.398, 0.633, 0.87, 1.10, 1.34, 1.57]
    np.testing.assert_allclose(model.predict(range(7)), printed, atol=0.006)
    assert model.log_likelihood_ == pytest.approx(log_chance(x, 1, model.shape_, model.rate_), rel=1e-12)


def test_norberg_group_life(shared_data):
    _, deaths, e = np.loadtxt(shared_data("efron_eb/bayesgof_NorbergIns.csv"), skiprows=1, delimiter=",").T
    model = GammaPoisson(ML).fit(deaths, e)
    best = optimize.minimize(lambda v: -log_chance(deaths, e, *np.exp(v)), [0.0, 5.0], method="Nelder-Mead",
                             options={"xatol": 1e-9, "fatol": 1e-11, "maxiter": 4000})  # fmt: skip
    np.testing.assert_allclose([model.shape_, model.rate_], np.exp(best.x), rtol=1e-6)
    assert [round(model.shape_, 3), round(model.rate_, 1), round(model.log_likelihood_, 4)] == [6.02, 1805.7, -142.4483]
    bayes = GammaPoisson().fit(deaths, e)
    assert np.median(bayes.posterior_sd_ / model.posterior_sd_) > 1


def test_the_average_over_priors_is_brute_forces():
    _, x, e = sample(12, 2, 0.5, 8)
    t, u = np.meshgrid(np.linspace(-1.5, 4, 200), np.linspace(1e-4, 6, 800), indexing="ij")
    logs = np.log(u) - 1.5 * np.log(4 + x.mean() * u**2)  # Strawderman's law of u^2 times the events of a client
    shape, rate = u**-2, u**-2 / np.exp(t)
    for xi, ei in zip(x, e, strict=True):
        logs += stats.nbinom.logpmf(xi, shape, rate / (rate + ei))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    model = GammaPoisson().fit(x, e)
    mean = [(weights * (shape + xi) / (rate + ei)).sum() for xi, ei in zip(x, e, strict=True)]
    np.testing.assert_allclose(model.posterior_mean_, mean, rtol=2e-4)
    low, high = model.interval()
    np.testing.assert_allclose(model.posterior_cdf(low), 0.025, rtol=1e-9)
    np.testing.assert_allclose(model.posterior_cdf(high), 0.975, rtol=1e-9)


def covered(model, m, reps, seed):
    """Share of truths inside 95 % intervals and its standard error; the model's law of 95 % is Gamma(2, 0.5)."""
    shares = []
    for k in range(reps):
        theta, x, e = sample(m, 2, 0.5, seed + k)
        low, high = model.fit(x, e).interval()
        shares.append(((low <= theta) & (theta <= high)).mean())
    return np.mean(shares), np.std(shares) / np.sqrt(reps)


def test_coverage():
    many, error = covered(GammaPoisson(ML), 1000, 10, 100)
    assert abs(many - 0.95) < 5 * error < 0.02
    few, error = covered(GammaPoisson(ML), 8, 200, 200)
    assert few < 0.95 - 4 * error
    bayes, error = covered(GammaPoisson(), 8, 60, 600)
    assert abs(bayes - 0.95) < 4 * error < 0.06


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: GammaPoisson(ML).fit([0.5, 1]), "x must be a whole number"),
        (lambda: GammaPoisson(ML).fit([-1, 1]), "x must be a whole number"),
        (lambda: GammaPoisson(ML).fit([np.nan, 1]), "x holds NaN"),
        (lambda: GammaPoisson(ML).fit([1, 1], [2, np.inf]), "exposure must be finite"),
        (lambda: GammaPoisson(ML).fit([1, 1], [2, -1]), "exposure must be >= 0"),
        (lambda: GammaPoisson(ML).fit([0, 1], [2, 0]), "client 1 has x = 1 and no exposure"),
        (
            lambda: GammaPoisson(ML).fit([1, 1], [2, 2, 2]),
            "exposure must be one number or one per client",
        ),
        (lambda: GammaPoisson(ML).fit([]), "x must be a list with one count per client"),
        (lambda: GammaPoisson(ML).fit([1]), "at least two clients with exposure"),
        (lambda: GammaPoisson(ML).fit([1, 3e9]), "x must be at most 2147483647"),
        (lambda: GammaPoisson("other").fit([1, 0]), "prior must be one of"),
        (lambda: GammaPoisson("fixed").fit([1, 0]), "shape and rate must be given"),
        (lambda: GammaPoisson("fixed", shape=1, rate=0).fit([1, 0]), "rate must be > 0"),
        (lambda: GammaPoisson().fit([0, 2]), "two clients with events"),
        (lambda: GammaPoisson(ML).interval(), "has not been fitted"),
        (lambda: GammaPoisson(ML).predict([1]), "has not been fitted"),
    ],
)
def test_bad_input_names_the_argument(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("k", [-1060, -900, -500, 0, 500, 1000])
def test_moments_in_other_units_of_exposure_are_the_same(k):
    x, exposure = [0, 3, 9, 4], np.array([0.5, 1.0, 2.0, 1.0])
    mean, variance = GammaPoissonTally.of(x, exposure).moments()
    tally = GammaPoissonTally.of(x, np.ldexp(exposure, k))
    if k < -500:  # a rate has a float, its square has none
        with pytest.raises(ValueError, match=r"the rates are so large .* change their units"):
            tally.moments()
    else:
        found = tally.moments()
        assert tuple(found) == (np.ldexp(mean, -k), np.ldexp(variance, -2 * k))


def test_moments_of_equal_exposures_by_hand():
    """Mean 3.4, variance 13.3 of which 3.4 is Poisson's: shape 3.4^2 / 9.9, rate 3.4 / 9.9."""
    prior = GammaPoisson("moments").fit([0, 1, 5, 9, 2], np.ones(5)).prior_summary()
    assert (prior["shape"], prior["rate"]) == (pytest.approx(11.56 / 9.9, rel=1e-12), pytest.approx(3.4 / 9.9, rel=1e-12))
