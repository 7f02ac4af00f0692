"""Few priors stand for all of an average, and few clients for the quantiles of all, without a change that one can see."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy import optimize, special, stats

from estimators import BetaBinomial, GammaPoisson
from estimators.counts import beta_binomial as beta_binomial_module
from estimators.counts import conjugate
from estimators.counts import gamma_poisson as gamma_poisson_module
from estimators.counts.beta_binomial import BetaBinomialTally
from estimators.counts.gamma_poisson import GammaPoissonTally
from estimators.numerics import surfaces

RNG, ML = np.random.default_rng, "marginal-likelihood"


def beta_binomial(m, seed=0):
    rng = RNG(seed)
    n = rng.integers(2, 400, m)
    return BetaBinomial, rng.binomial(n, rng.beta(0.4, 3, m)), n


def gamma_poisson(m, seed=0):
    rng = RNG(seed)
    e = rng.gamma(2, 3, m)
    return GammaPoisson, rng.poisson(e * rng.gamma(0.7, 0.3, m)), e


CASES = pytest.mark.parametrize("case", [beta_binomial, gamma_poisson])


@CASES
@pytest.mark.parametrize("m", [500, 2000])
def test_few_priors_stand_for_all(monkeypatch, case, m):
    kind, *data = case(m)
    few = kind().fit(*data)
    monkeypatch.setattr(conjugate, "SHARP", -1.0)
    every = kind().fit(*data)
    assert few.components_.weights.size < every.components_.weights.size / 3
    for one, other in zip((few.posterior_mean_, *few.interval()), (every.posterior_mean_, *every.interval()), strict=True):
        assert np.max(np.abs(one - other) / every.posterior_sd_) < 1e-7  # priors of weight < 1e-9 were left out of `every`


def test_a_wide_law_keeps_its_priors():
    kind, *data = beta_binomial(12)
    assert kind().fit(*data).components_.weights.size > 100


@CASES
@pytest.mark.parametrize("prior", ["bayes", "marginal-likelihood"])
def test_interpolated_quantiles_are_those_of_each_client(monkeypatch, case, prior):
    kind, *data = case(6000)
    model = kind(prior).fit(*data)
    ends = model.interval()
    monkeypatch.setattr(conjugate, "MANY", 10**9)
    for one, other in zip(ends, model.interval(), strict=True):
        assert np.max(np.abs(one - other) / model.posterior_sd_) < 1e-9


@CASES
def test_quantiles_are_looked_for_with_the_derivatives_of_the_laws(monkeypatch, case):
    """By differences of the distribution function, at and beside the quantiles; two looks at a client are enough then."""
    kind, *data = case(300)
    model, plain, seen, looks = kind().fit(*data), conjugate.quantiles, [], []

    def spied(cdf, densities, q, *ends):
        found = plain(lambda t, rows: (looks.append(rows.size), cdf(t, rows))[1], densities, q, *ends)
        seen.append((cdf, densities, found))
        return found

    monkeypatch.setattr(conjugate, "quantiles", spied)
    for q in (0.025, 0.6):
        model.posterior_quantile(q)
    for cdf, densities, found in seen:
        everyone = np.arange(found.size)
        for t in (found, 1.1 * found, 0.7 * found):
            first, second, third = densities(t, everyone)
            step = 1e-4 * t
            np.testing.assert_allclose((cdf(t + step, everyone) - cdf(t - step, everyone)) / (2 * step), first, rtol=1e-4)
            up, down = (densities(t + side * step, everyone) for side in (1, -1))
            np.testing.assert_allclose((up[0] - down[0]) / (2 * step), second, rtol=1e-4, atol=1e-4 * np.max(first / t))
            np.testing.assert_allclose((up[1] - down[1]) / (2 * step), third, rtol=1e-4, atol=1e-4 * np.max(first / t**2))
    assert sum(looks) < 2.5 * sum(found.size for *_, found in seen)


def test_derivatives_of_laws_are_those_of_polynomials():
    """Beta(3, 5) has the density 105 t^2 (1 - t)^4; Gamma(4) with rate 2 has 8 t^3 / 3 and an exponential of -2 t."""
    t, one = np.array([0.1, 0.45, 0.9]), np.array([1])
    share = 105 * Polynomial([0, 0, 1]) * Polynomial([1, -1]) ** 4
    found = BetaBinomial()._densities(0.4, 0.2, (one, 3 * one), t)
    np.testing.assert_allclose(found, [share(t), share.deriv()(t), share.deriv(2)(t)], rtol=1e-11)
    rate = Polynomial([0, 0, 0, 8 / 3])
    first = rate.deriv() - 2 * rate
    found = GammaPoisson()._densities(2.0, 1 / 3, (one, 0.5 * one), t)
    np.testing.assert_allclose(found, np.exp(-2 * t) * [rate(t), first(t), (first.deriv() - 2 * first)(t)], rtol=1e-11)


def test_a_function_that_bends_too_much_is_called_where_it_does():
    """A kink on the diagonal: the cells that it crosses are cut until few places are left."""
    rng = RNG(1)
    a, b = rng.uniform(1, 300, (2, 20_000))
    called = []

    def kinked(a, b):
        called.append(a.size)
        return np.abs(np.log(a / b))

    assert np.max(np.abs(surfaces.from_cells(kinked, a, b) - np.abs(np.log(a / b)))) < 1e-10
    assert 0 < sum(called) < 40_000


@pytest.mark.parametrize("fall", [1.5, 3.0, 5.5, 9.0])
def test_neither_of_two_numbers_is_cut_more_often_than_the_other(fall):
    """A function of one of them takes as many evaluations whichever it is, and no more cells than its bend asks for."""
    x, y = RNG(1).uniform(0, 1, (2, 4000))
    called, found = [0, 0], []

    def counted(which, bent):
        called[which] += bent.size
        return np.exp(-fall * bent)

    found.append(surfaces.from_cells(lambda a, b: counted(0, a), x, y))
    found.append(surfaces.from_cells(lambda a, b: counted(1, b), y, x))
    assert called[0] == called[1] < 4000
    np.testing.assert_allclose(found, [np.exp(-fall * x)] * 2, atol=1e-10)


@pytest.mark.parametrize("degree", [6, 12])
def test_few_places_are_called_for_and_more_take_no_more_calls_than_nodes(degree):
    nodes = (degree + 1) ** 2
    for m, calls in ((nodes // 2, nodes // 2), (nodes * 3 // 2, nodes * 3 // 2), (nodes * 3 // 2 + 1, nodes), (9999, nodes)):
        called, (a, b) = [], RNG(3).uniform(1, 1.01, (2, m))
        found = surfaces.from_cells(lambda a, b, called=called: (called.append(a.size), np.log(a + b))[1], a, b, degree)
        np.testing.assert_allclose(found, np.log(a + b), atol=1e-10)
        assert sum(called) == calls


def test_a_function_without_value_somewhere_is_called_for_each():
    a, b = RNG(2).uniform(1, 2, (2, 2000))
    found = surfaces.from_cells(lambda a, b: np.where(a + b > 3, np.inf, a), a, b)
    assert np.array_equal(found, np.where(a + b > 3, np.inf, a))


def test_a_rough_function_of_places_in_a_row_is_called_for_each():
    """Cells that have no width in one direction cannot be cut across it: they once were, for ever."""
    a, b = np.full(5000, 2.0), np.linspace(1, 3, 5000)

    def rough(a, b):
        return np.round(a * b * 1e5 + np.sin(a * 1e13), 1)

    assert np.array_equal(surfaces.from_cells(rough, a, b), rough(a, b))
    assert np.array_equal(surfaces.from_cells(lambda b, a: rough(a, b), b, a), rough(a, b))


@pytest.mark.filterwarnings("error")
def test_quantiles_of_rates_at_both_ends_end():
    """1600 clients that nearly all have no success or nothing else: posteriors of the latter reach the last digit of one."""
    n = np.arange(10, 1610)
    x = np.where(np.arange(1600) < 40, n // 2, np.where(np.arange(1600) % 2, n, 0))
    model = BetaBinomial().fit(x, n)
    for q in (0.025, 0.5, 0.975):
        few = [0, 7, 41, 42, 900, 901, 1598, 1599]
        direct = model._quantile_of((x[few], n[few]), q)
        np.testing.assert_allclose(model.posterior_quantile(q)[few], direct, rtol=1e-9, atol=1e-300)


@CASES
def test_clients_depend_on_each_other_exactly_where_the_prior_is_averaged_over(case):
    """Two clients without data have nothing in common but the prior."""
    kind, x, size = case(8)
    x, size = np.append(x, [0, 0]), np.append(size, [0, 0])
    for prior, independent in (("bayes", False), ("marginal-likelihood", True)):
        model = kind(prior).fit(x, size)
        draws = model.sample_posterior(RNG(3), 8000)[:, -2:]
        assert model.independent is independent
        assert (abs(stats.spearmanr(draws)[0]) < 5 / np.sqrt(8000)) == independent
        assert (model.prior_interval() == {}) == independent


@pytest.mark.parametrize("many", [1, 1000])
@pytest.mark.parametrize(
    ("kind", "x", "size"), [(BetaBinomial, [2, 4, 0], [4, 8, 0]), (GammaPoisson, [2, 4, 0], [4.0, 8.0, 0.0])]
)
def test_equal_clients_have_a_prior_that_is_one_point(kind, x, size, many, monkeypatch):
    monkeypatch.setattr(conjugate, "MANY", many)
    model = kind("marginal-likelihood").fit(x, size)
    np.testing.assert_allclose(model.posterior_mean_, 0.5, rtol=1e-12)
    at = float(model.posterior_mean_[0])
    assert model.atoms() == pytest.approx([at])
    assert model.posterior_cdf(at).tolist() == [1.0] * 3
    assert model.posterior_cdf(at, strict=True).tolist() == [0.0] * 3
    assert model.posterior_cdf(np.array([0.4, at, 0.6])).tolist() == [0.0, 1.0, 1.0]
    assert model.posterior_quantile(0.3).tolist() == [at] * 3
    assert model.sample_posterior(RNG(0), 2).tolist() == [[at] * 3] * 2


def test_a_prior_beyond_the_last_that_is_tried_is_said_not_to_be_found():
    """Of 2^k + 1 clients one has one of two: it has with chance 1 / (2 (1 + rho)), so that the best rho is (2^k - 1) / 2."""

    def best(k):
        tally = BetaBinomialTally.of([0, 2], 2)
        for _ in range(k - 1):
            tally = tally + tally
        return conjugate.maximise(beta_binomial_module.Surface(tally + BetaBinomialTally.of([1], 2)))

    near = best(20)
    assert near.converged
    assert near.rho == pytest.approx((2**20 - 1) / 2, rel=1e-9)
    with pytest.warns(RuntimeWarning, match="did not settle"):
        beyond = best(57)
    assert not beyond.converged
    assert 1e15 <= beyond.rho < (2**57 - 1) / 2
    assert beyond.location == near.location == 0


def test_clients_of_one_kind_each_have_a_prior_at_both_ends():
    """Nothing but zeros or nothing but ones: a client without trials is a one as often as those with trials are."""
    model = BetaBinomial("marginal-likelihood").fit([3, 0, 0, 5, 0], [3, 2, 4, 5, 0])
    assert model.mean_ == 0.5  # of four, not of five
    assert model.atoms().tolist() == [0.0, 1.0]
    assert model.posterior_mean_.tolist() == [1.0, 0.0, 0.0, 1.0, 0.5]
    assert model.posterior_sd_.tolist() == [0.0, 0.0, 0.0, 0.0, 0.5]
    assert model.posterior_cdf(0.0).tolist() == [0.0, 1.0, 1.0, 0.0, 0.5]
    assert model.posterior_cdf(0.0, strict=True).tolist() == [0.0] * 5
    assert model.posterior_cdf(0.3, strict=True).tolist() == model.posterior_cdf(0.3).tolist() == [0.0, 1.0, 1.0, 0.0, 0.5]
    assert model.posterior_cdf(1.0, strict=True).tolist() == [0.0, 1.0, 1.0, 0.0, 0.5]
    assert model.posterior_cdf(1.0).tolist() == [1.0] * 5
    assert model.posterior_quantile(0.4).tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert model.posterior_quantile(0.6).tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]
    draws = model.sample_posterior(RNG(0), 4000)
    assert set(draws[:, 4]) == {0.0, 1.0}
    assert abs(draws[:, 4].mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)
    assert (draws[:, :4] == [1.0, 0.0, 0.0, 1.0]).all()


@pytest.mark.parametrize(("kind", "mean", "sd"), [(BetaBinomial, 0.4, 0.2), (GammaPoisson, 2.0, 0.8)])
def test_prior_intervals_hold_the_moments_of_the_prior(kind, mean, sd):
    """Beta(2, 3), and Gamma with shape 6.25 and mean 2, of 2000 clients with 30 trials, or exposure 30."""
    rng, size = RNG(6), np.full(2000, 30)
    if kind is BetaBinomial:
        x = rng.binomial(size, rng.beta(2, 3, 2000))
    else:
        x = rng.poisson(size * rng.gamma(6.25, 2 / 6.25, 2000))
    model = kind().fit(x, size)
    ends, half = model.prior_interval(), model.prior_interval(0.5)
    for name, truth in (("mean", mean), ("sd", sd)):
        low, high = ends[name]
        assert low < truth < high
        assert high - low < 0.1 * truth
        normal = stats.norm.ppf(0.75) / stats.norm.ppf(0.975)  # what is learnt of so many clients is nearly normal
        assert (half[name][1] - half[name][0]) / (high - low) == pytest.approx(normal, abs=0.02)


# --- what the search and the average see, beside laws of SciPy ----------------------------------------------------------


ONES, TRIALS = np.array([0, 1, 3, 5, 2, 9, 4, 0]), np.array([4, 9, 8, 12, 2, 15, 30, 0])
EVENTS, EXPOSURES = np.array([0, 1, 3, 5, 2, 9, 4, 0]), np.array([4, 0.9, 8, 1.25, 2, 1.5, 3, 0])


def rates_surface():
    def log_chance(t, rho):
        return stats.betabinom.logpmf(ONES, TRIALS, special.expit(t) / rho, special.expit(-t) / rho).sum()

    return beta_binomial_module.Surface(beta_binomial_module.BetaBinomialTally.of(ONES, TRIALS)), log_chance


def counts_surface():
    some = EXPOSURES > 0

    def log_chance(t, rho):
        return stats.nbinom.logpmf(EVENTS[some], 1 / rho, 1 / (1 + rho * np.exp(t) * EXPOSURES[some])).sum()

    return gamma_poisson_module.Surface(gamma_poisson_module.GammaPoissonTally.of(EVENTS, EXPOSURES)), log_chance


def slope_of(f, x, h):
    """Differences of fourth order."""
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


SURFACES = pytest.mark.parametrize("case", [rates_surface, counts_surface])


@SURFACES
@pytest.mark.parametrize(("t", "rho"), [(-0.7, 0.3), (0.4, 0.02), (-1.5, 4.0), (0.9, 60.0)])
def test_the_search_climbs_the_likelihood_by_its_own_derivatives(case, t, rho):
    surface, log_chance = case()
    value, slope, _, by_rho = (float(x[1]) for x in surface.at(np.array([0.1, t]), np.array([0.5, rho])))
    elsewhere = float(surface.at(np.array([0.1]), np.array([0.5]))[0][0])
    assert value - elsewhere == pytest.approx(log_chance(t, rho) - log_chance(0.1, 0.5), rel=1e-9)
    assert slope == pytest.approx(slope_of(lambda x: log_chance(x, rho), t, 1e-3), rel=1e-7)
    assert by_rho == pytest.approx(slope_of(lambda x: log_chance(t, x), rho, 1e-3 * rho), rel=1e-7)


@SURFACES
def test_no_spread_is_the_limit_of_little(case):
    found = case()[0].at(np.array([-0.7, -0.7]), np.array([0.0, 1e-12]))
    np.testing.assert_allclose(*np.transpose(found), rtol=1e-9)


@SURFACES
@pytest.mark.parametrize("rho", [1e-5, 0.01, 0.4, 7.0, 900.0])
def test_the_best_location_is_bracketed_stationary_and_has_its_curvature(case, rho):
    surface, log_chance = case()
    (t,), (value,), (curvature,), _, passes, settled = conjugate.climb(surface, np.array([rho]))
    (low,), (high,) = surface.bracket(np.array([rho]))
    assert settled
    assert passes <= 8  # Newton's steps
    assert low < t < high
    assert abs(float(surface.at(np.array([t]), np.array([rho]))[1][0])) < 1e-11 * curvature
    assert max(log_chance(t - 0.05, rho), log_chance(t + 0.05, rho)) < log_chance(t, rho)
    assert value == pytest.approx(float(surface.at(np.array([t]), np.array([rho]))[0][0]), rel=1e-13)
    second = slope_of(lambda x: float(surface.at(np.array([x]), np.array([rho]))[1][0]), t, 1e-3)
    assert curvature == pytest.approx(-second, rel=1e-7)


@pytest.mark.parametrize("rho", [0.0, 0.01, 0.5, 40.0])
@pytest.mark.parametrize("last", [[1, 1], [3, 2]])
@pytest.mark.parametrize("flipped", [False, True])
def test_the_best_mean_is_found_where_most_clients_have_one_kind_only(rho, last, flipped):
    x, n = np.array([0] * 20 + last), np.array([2] * 20 + [3, 4])
    x = n - x if flipped else x

    def score(t):
        mu, rest = special.expit(t), special.expit(-t)
        ones = sum((1 / (mu + rho * np.arange(k))).sum() for k in x)
        return ones - sum((1 / (rest + rho * np.arange(k))).sum() for k in n - x)

    t = conjugate.climb(beta_binomial_module.Surface(BetaBinomialTally.of(x, n)), np.array([rho]))[0]
    assert t[0] == pytest.approx(optimize.brentq(score, -20, 20, xtol=1e-14), rel=1e-10)


@pytest.mark.parametrize("rho", [0.0, 0.01, 0.5, 40.0])
@pytest.mark.parametrize("last", [0, 3])
def test_the_best_rate_is_found_where_one_client_has_nearly_all_exposure(rho, last):
    x, e = np.array([0] * 20 + [last, 1000]), np.array([1.0] * 21 + [1000.0])

    def score(t):
        return np.sum(x - (1 + rho * x) * np.exp(t) * e / (1 + rho * np.exp(t) * e))

    t = conjugate.climb(gamma_poisson_module.Surface(GammaPoissonTally.of(x, e)), np.array([rho]))[0]
    assert t[0] == pytest.approx(optimize.brentq(score, -20, 20, xtol=1e-14), rel=1e-10, abs=1e-10)


def lattice(u_weight, log_likelihood, low, high):
    """Locations, rhos and their weights, u = sqrt(rho) even in its logarithm up to 100: sums that converge geometrically."""
    t, v = np.meshgrid(np.linspace(low, high, 700), np.linspace(-16, np.log(100), 150), indexing="ij")
    rho = np.exp(2 * v)
    logs = log_likelihood(t, rho) + np.log(u_weight(t, rho)) + v
    weights = np.exp(logs - logs.max())
    weights[:, [0, -1]] /= 2
    return t, rho, weights / weights.sum()


def rates_by_brute_force():
    def log_likelihood(t, rho):
        mu, rest = special.expit(t), special.expit(-t)
        return sum(
            sum(np.log(mu + j * rho) for j in range(x)) + sum(np.log(rest + j * rho) for j in range(n - x))
            - sum(np.log1p(j * rho) for j in range(n))
            for x, n in zip(ONES, TRIALS, strict=True)
        )  # fmt: skip

    size = TRIALS.sum() / 7  # of the clients with trials
    t, rho, weights = lattice(
        lambda t, rho: special.expit(t) * special.expit(-t) * np.sqrt(rho) * (4 + size * rho) ** -1.5, log_likelihood, -9, 7
    )
    mu = special.expit(t)
    laws = [stats.beta(mu / rho + x, special.expit(-t) / rho + n - x) for x, n in zip(ONES, TRIALS, strict=True)]
    return BetaBinomial().fit(ONES, TRIALS), laws, weights, mu, np.sqrt(mu * special.expit(-t) * rho / (1 + rho)), 0.3


def counts_by_brute_force():
    def log_likelihood(t, rho):
        return sum(
            sum(np.log1p(j * rho) for j in range(x)) - (1 / rho + x) * np.log1p(rho * np.exp(t) * e) + x * t
            for x, e in zip(EVENTS, EXPOSURES, strict=True)
        )

    size = EVENTS.sum() / 7  # of the clients with exposure
    t, rho, weights = lattice(lambda t, rho: np.sqrt(rho) * (4 + size * rho) ** -1.5, log_likelihood, -7, 8)
    mu = np.exp(t)
    laws = [stats.gamma(1 / rho + x, scale=1 / (1 / (rho * mu) + e)) for x, e in zip(EVENTS, EXPOSURES, strict=True)]
    return GammaPoisson().fit(EVENTS, EXPOSURES), laws, weights, mu, mu * np.sqrt(rho), 1.3


@pytest.mark.parametrize(("case", "close"), [(rates_by_brute_force, 1e-5), (counts_by_brute_force, 2e-4)])
def test_averages_over_priors_are_sums_over_a_lattice_of_100_000(case, close):
    """Ours go to 4.8 standard deviations of the location, and the tails of rates are longer than those of shares."""
    model, laws, weights, mean, sd, at = case()
    for i in (0, 1, 5):
        law = laws[i]
        centre = (weights * law.mean()).sum()
        variance = (weights * (law.var() + (law.mean() - centre) ** 2)).sum()
        assert model.posterior_mean_[i] == pytest.approx(centre, rel=close)
        assert model.posterior_sd_[i] == pytest.approx(np.sqrt(variance), rel=close)
        assert model.posterior_cdf(at)[i] == pytest.approx((weights * law.cdf(at)).sum(), abs=1e-4)
    for level in (0.5, 0.9):
        ends = model.prior_interval(level)
        for values, name in ((mean, "mean"), (sd, "sd")):
            for end, q in zip(ends[name], ((1 - level) / 2, (1 + level) / 2), strict=True):
                assert weights[values <= end].sum() == pytest.approx(q, abs=0.01)
    # The one prior that borrows as much: for a client of the average size, by a line through any two counts.
    summary = model.prior_summary()
    total, many = (TRIALS.sum(), 7) if "alpha" in summary else (EXPOSURES.sum(), 7)
    size = total / many
    strength = summary["concentration"] if "alpha" in summary else summary["rate"]
    own = size / (size + strength)
    prior_size = mean / sd**2 if "rate" in summary else mean * (1 - mean) / sd**2 - 1
    assert own == pytest.approx((weights * size / (size + prior_size)).sum(), rel=close)
    assert summary["mean"] == pytest.approx((weights * mean * prior_size / (size + prior_size)).sum() / (1 - own), rel=close)


@pytest.mark.parametrize("prior", ["bayes", ML, "moments", "naive-moments"])
def test_two_clients_are_enough_and_one_is_not(prior):
    """Of shares, if one of the two has two trials (naive moments do not ask); a third client without data adds nothing."""
    model = BetaBinomial(prior).fit([1, 1, 0], [2, 1, 0])
    assert model.predict([1], [2])[0] == pytest.approx(model.posterior_mean_[0])
    for x, n in (([1, 0], [2, 0]), ([1, 1], [1, 1]))[: 1 if prior == "naive-moments" else 2]:
        with pytest.raises(ValueError, match=r"at least two clients with trials|n must be >= 2 for some client|both ones"):
            BetaBinomial(prior).fit(x, n)
    if prior != "naive-moments":
        assert GammaPoisson(prior).fit([1, 2, 0], [1.0, 2.0, 0.0]).mean_ == pytest.approx(1.0)
        with pytest.raises(ValueError, match="at least two clients with exposure"):
            GammaPoisson(prior).fit([3, 0], [1.0, 0.0])


@pytest.mark.parametrize("big", [100, 10**6])
def test_a_prior_beyond_a_valley_is_found(big):
    """Large clients are all alike, small ones all or nothing: no spread is better than little, and much is best of all."""
    rhos = np.geomspace(1e-3, 100, 200)
    x, n = np.array([big // 2, big // 2, *[0, 4] * 6]), np.array([big, big, *[4] * 12])
    shares = BetaBinomial(ML).fit(x, n), stats.binom.logpmf(x, n, 0.5).sum()
    chances = [stats.betabinom.logpmf(x, n, 0.5 / rho, 0.5 / rho).sum() for rho in rhos]
    events, e = np.array([big, big, *[0] * 11, 12]), np.array([big, big, *[1] * 12])
    rates = GammaPoisson(ML).fit(events, e), stats.poisson.logpmf(events, e).sum()
    means = [stats.nbinom.logpmf(events, 1 / rho, 1 / (1 + rho * e)).sum() for rho in rhos]
    for (model, alike), found in ((shares, chances), (rates, means)):
        best = int(np.argmax(found))
        rho = 1 / (model.concentration_ if model is shares[0] else model.shape_)
        assert found[0] < alike < found[best] <= model.log_likelihood_ + 1e-8
        assert rhos[best - 1] < rho < rhos[best + 1]


@pytest.mark.parametrize("prior", ["bayes", ML])
@pytest.mark.parametrize("kind", [BetaBinomial, GammaPoisson])
def test_clients_have_the_posteriors_that_they_have_alone(kind, prior):
    """None is taken for another, as 0 of 5 for 1 of 1 or 4 of 4."""
    x, size = np.array([0, 1, 2, 4, 0, 5, 1, 0, 4]), np.array([5, 1, 5, 5, 1, 5, 5, 0, 4])
    model = kind(prior).fit(x, size)
    each = [model.posterior([a], [b]) for a, b in zip(x, size, strict=True)]
    for name in ("posterior_mean_", "posterior_sd_", "weights_"):
        np.testing.assert_allclose(getattr(model, name), [float(getattr(one, name)[0]) for one in each], rtol=1e-13)
    for t in (0.3, np.linspace(0.1, 0.9, 9)):
        alone = [float(one.posterior_cdf(float(at))[0]) for one, at in zip(each, np.broadcast_to(t, 9), strict=True)]
        np.testing.assert_allclose(model.posterior_cdf(t), alone, rtol=1e-13)


def test_clients_with_one_trial_are_clients():
    x, n = np.array([1, 0, 2, 5, 0]), np.array([1, 1, 4, 9, 0])
    size = n.sum() / 4
    assert beta_binomial_module.Surface(BetaBinomialTally.of(x, n)).size == size
    model = BetaBinomial().fit(x, n)
    means, rhos, weights = model.components_
    summary = model.prior_summary()
    for k in (0, 3):
        each = weights @ ((means / rhos + k) / (1 / rhos + size))
        assert (summary["alpha"] + k) / (summary["concentration"] + size) == pytest.approx(each, rel=1e-10)


def test_the_bracket_of_a_location_holds_the_best_one_where_all_its_ends_are_one():
    """Of clients of one trial each the likelihood knows no spread: the best location is the same for all."""
    for x in ([1, 0, 0], [1, 1, 1, 0, 0]):
        surface, rho = beta_binomial_module.Surface(BetaBinomialTally.of(x, [1] * len(x))), np.array([1e-3, 1.0, 1e3])
        low, high = surface.bracket(rho)
        best = np.log(sum(x) / (len(x) - sum(x)))
        assert ((low < best) & (best < high)).all()
        assert (high - low < 1e-8).all()


def test_the_first_spread_that_is_tried_changes_no_factor_by_more_than_a_thousandth():
    """Of shares they are mean + j rho and 1 - mean + j rho, of rates 1 + j rho, for fewer than x or for e mean."""
    for x in ([2, 9, 5], [18, 31, 15]):
        tally = BetaBinomialTally.of(x, [20, 40, 20])
        share = min(sum(x), 80 - sum(x)) / 80
        assert 40 * beta_binomial_module.Surface(tally).lowest / share == pytest.approx(1e-3, rel=1e-12)
    for x, e, most in (
        ([1, 0, 1], [1, 0.5, 1], 1),
        ([5, 0, 1], [1, 0.5, 2.5], 5),
        ([3, 2, 3], [10, 20, 30], 8 / 60 * 30),
        ([3, 2], [6, 2], 15 / 4),
    ):
        tally = GammaPoissonTally.of(x, e)
        assert most * gamma_poisson_module.Surface(tally).lowest == pytest.approx(1e-3, rel=1e-12)


# --- the search on functions whose maxima are known ---------------------------------------------------------------------


class Hills:
    """A function of location and rho with its best location at 0.3, and by rho whatever it is told; it counts its calls."""

    guess, lowest, highest = 0.0, 1e-3, 1e3

    def __init__(self, of_rho):
        self.of_rho, self.calls = Polynomial(of_rho), 0

    def bracket(self, rho):
        return np.full(rho.shape, -1.0), np.full(rho.shape, 1.0)

    def at(self, t, rho):
        self.calls += 1
        off = t - 0.3
        return self.of_rho(rho) - np.cosh(off), -np.sinh(off), np.cosh(off), self.of_rho.deriv()(rho)


@pytest.mark.parametrize("peak", [0.0, 1e-200, 1e-12, 3e-4, 1e-3, 0.02, 7.0, 900.0, 1100.0, 4e5])
def test_one_hill_is_climbed_wherever_it_is(peak):
    surface = Hills([0.0, peak, -0.5])
    found = conjugate.maximise(surface)
    assert found.rho == pytest.approx(peak, rel=1e-12)
    assert found.location == pytest.approx(0.3, rel=1e-14)
    assert found.value == pytest.approx(peak**2 / 2 - 1, rel=1e-12)
    assert (found.passes, found.converged) == (surface.calls, True)


@pytest.mark.parametrize("valley", np.geomspace(0.01, 0.05, 24))
def test_a_valley_and_a_hill_a_factor_of_four_apart_are_never_missed(valley):
    hill = 4.01 * valley  # above 3 valleys it is higher than the end at 0
    found = conjugate.maximise(Hills([0.0, -valley * hill, (valley + hill) / 2, -1 / 3]))
    assert found.rho == pytest.approx(hill, rel=1e-10)


@pytest.mark.parametrize(("valley", "hill"), [(0.5, 5e4), (500.0, 3e5)])
def test_a_hill_beyond_the_first_grid_is_found_from_any_valley(valley, hill):
    found = conjugate.maximise(Hills([0.0, -valley * hill, (valley + hill) / 2, -1 / 3]))
    assert found.rho == pytest.approx(hill, rel=1e-10)
    assert found.converged


@pytest.mark.parametrize(("valley", "hill"), [(1.0, 2.5), (5e-4, 1.2e-3)])
def test_the_end_at_no_spread_may_be_higher_than_a_hill(valley, hill):
    found = conjugate.maximise(Hills([0.0, -valley * hill, (valley + hill) / 2, -1 / 3]))
    assert (found.rho, found.converged) == (0.0, True)
    assert found.value == pytest.approx(-1)


@pytest.mark.parametrize(("first", "valley", "last"), [(5e-4, 3.5e-3, 5e-3), (0.02, 0.9, 1.4), (0.02, 0.3, 1.4)])
def test_the_higher_of_two_hills_is_the_maximum(first, valley, last):
    surface = Hills([0.0, *(-Polynomial.fromroots([first, valley, last])).integ().coef[1:]])
    found = conjugate.maximise(surface)
    assert found.rho == pytest.approx(max((first, last), key=surface.of_rho), rel=1e-10)
    assert (found.passes, found.converged) == (surface.calls, True)


def test_a_flat_function_has_its_maximum_at_no_spread():
    found = conjugate.maximise(Hills([0.0]))
    assert (found.rho, found.value, found.converged) == (0.0, pytest.approx(-1), True)


def test_a_hill_that_is_too_near_to_no_spread_for_a_float_is_found_there():
    found = conjugate.maximise(Hills([0.0, 1e-305, -0.5]))
    assert found.rho <= 1e-300
    assert (found.value, found.converged) == (pytest.approx(-1), True)


@pytest.mark.filterwarnings("ignore:the search for the prior did not settle:RuntimeWarning")
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (2e3, 1e9), (4e5 - 1, 4e5 + 1)])
def test_a_location_that_is_not_reached_is_said_not_to_be(low, high):
    """On the first grid, beyond it, or only where the maximum is refined."""

    class Slow(Hills):
        def at(self, t, rho):
            value, slope, curvature, by_rho = super().at(t, rho)
            return value, slope, np.where((rho >= low) & (rho <= high), 1e10, 1.0) * curvature, by_rho

    found = conjugate.maximise(Slow([0.0, 4e5, -0.5]))
    assert not found.converged


def test_a_slope_without_end_is_said_to_have_none():
    surface = Hills([0.0, 1e-20])
    with pytest.warns(RuntimeWarning, match="did not settle"):
        found = conjugate.maximise(surface)
    assert 1e15 <= found.rho < 4e15
    assert found.value == pytest.approx(1e-20 * found.rho - 1, rel=1e-12)
    assert (found.passes, found.converged) == (surface.calls, False)


class Chi:
    """A law of which sqrt(rho) / b has a power times a normal density, and the location is normal about 0.7 log(rho)."""

    guess, lowest, highest = 0.0, 1e-3, 1e3

    def __init__(self, power, b, sd):
        self.power, self.b, self.sd = power, b, sd

    def bracket(self, rho):
        return np.full(rho.shape, -99.0), np.full(rho.shape, 99.0)

    def at(self, t, rho):
        off = (t - 0.7 * np.log(rho)) / self.sd
        return -(off**2) / 2 - rho / (2 * self.b**2), -off / self.sd, np.full(t.shape, self.sd**-2.0), np.nan

    def log_hyperprior(self, t, rho):
        return self.power / 2 * np.log(rho) + 0.3 * t

    def moments(self):
        """Means and variances of log(rho) and of the location."""
        half = (self.power + 0.42 + 1) / 2
        mean, variance = np.log(2 * self.b**2) + special.digamma(half), float(special.polygamma(1, half))
        return mean, variance, 0.7 * mean + 0.3 * self.sd**2, 0.49 * variance + self.sd**2


@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("condensed", [False, True])
@pytest.mark.parametrize(("power", "b", "sd"), [(3, 0.5, 0.4), (40, 0.5, 0.19), (200, 0.02, 0.05), (200, 3.0, 0.24)])
def test_averages_have_the_moments_of_a_chi_law(power, b, sd, condensed, scale):
    """Wide laws and sharp ones; the scale at which places begin is that of the maximum, or one where there is none."""
    law = Chi(power, b, sd)
    best = conjugate.Maximum(np.nan, power * b**2 if scale is None else 0.0, np.nan, 0, True)
    t, rho, weights = conjugate.average(law, best, condensed=condensed)
    assert weights.sum() == pytest.approx(1, rel=1e-14)
    found = [x for values in (np.log(rho), t) for x in (weights @ values, weights @ (values - weights @ values) ** 2)]
    assert found == pytest.approx(law.moments(), rel=2e-6, abs=2e-7)
    assert (weights.size < 100) == (condensed and power > 3)


@pytest.mark.parametrize("scale", [0.3, 5.0, 60.0])
def test_averages_end_at_a_sqrt_of_rho_of_100(scale):
    """A power law up to there: the logarithm of sqrt(rho) is exponential below its end."""
    t, rho, weights = conjugate.average(Chi(3.0, 1e6, 0.4), conjugate.Maximum(np.nan, scale**2, np.nan, 0, True))
    assert 8e3 < rho.max() < 1e4
    assert weights @ np.log(rho) == pytest.approx(2 * (np.log(100) - 1 / 4.42), abs=0.02)
    assert weights @ t == pytest.approx(0.7 * 2 * (np.log(100) - 1 / 4.42) + 0.3 * 0.16, abs=0.02)
