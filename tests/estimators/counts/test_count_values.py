"""Models of counts, number by number: SciPy's laws for a given prior, their mixtures for an averaged one, and corners."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from estimators import BetaBinomial, GammaPoisson
from estimators.counts import beta_binomial, conjugate, gamma_poisson, tallies
from estimators.counts.beta_binomial import BetaBinomialTally
from estimators.counts.count_regression import BetaBinomialRegression, GammaPoissonRegression, rise
from estimators.counts.gamma_poisson import GammaPoissonTally
from estimators.counts.tallies import Frequencies

RNG = np.random.default_rng
LIKELIEST = "marginal-likelihood"  # the prior is taken for known
X, N = np.array([0, 2, 7, 5, 3]), np.array([0, 9, 7, 11, 40])
E = np.array([0.0, 0.7, 2.5, 1.3, 9.0])


def betas(alpha, beta):
    return stats.beta(alpha + X, beta + N - X)


def gammas(shape, rate):
    return stats.gamma(shape + X, scale=1 / (rate + E))


GIVEN = [
    (BetaBinomial("fixed", alpha=0.6, beta=2.3), (X, N), betas(0.6, 2.3), stats.beta(0.6, 2.3)),
    (BetaBinomial("fixed", alpha=7.0, beta=1.5), (X, N), betas(7.0, 1.5), stats.beta(7.0, 1.5)),
    (GammaPoisson("fixed", shape=0.6, rate=2.3), (X, E), gammas(0.6, 2.3), stats.gamma(0.6, scale=1 / 2.3)),
    (GammaPoisson("fixed", shape=7.0, rate=0.4), (X, E), gammas(7.0, 0.4), stats.gamma(7.0, scale=1 / 0.4)),
]


@pytest.mark.parametrize("case", range(len(GIVEN)))
def test_given_a_prior_everything_is_scipys(case):
    model, (x, size), laws, prior = GIVEN[case]
    x = x if case < 2 else np.where(size > 0, x, 0)
    model.fit(x, size)
    assert (model.converged_, model.n_iter_) == (True, 0)
    np.testing.assert_allclose(model.posterior_mean_, laws.mean(), rtol=1e-11)
    np.testing.assert_allclose(model.posterior_sd_, laws.std(), rtol=1e-11)
    for t in (0.05, 0.4, 0.83, 1.7):
        np.testing.assert_allclose(model.posterior_cdf(t), laws.cdf(t), rtol=1e-10, atol=1e-14)
        each = np.array([t, 0.1, 0.3, t, 0.9])
        np.testing.assert_allclose(model.posterior_cdf(each), laws.cdf(each), rtol=1e-10, atol=1e-14)
        sign = np.minimum(laws.cdf(t), laws.sf(t))
        np.testing.assert_allclose(model.local_false_sign_rate(t), sign, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(
        model.local_false_sign_rate(), np.minimum(laws.cdf(prior.mean()), laws.sf(prior.mean())), rtol=1e-8, atol=1e-14
    )
    for q in (0.003, 0.4, 0.96):
        np.testing.assert_allclose(model.posterior_quantile(q), laws.ppf(q), rtol=1e-9)
    summary = model.prior_summary()
    assert (summary["mean"], summary["sd"]) == (pytest.approx(prior.mean()), pytest.approx(prior.std()))
    assert summary["found_by"] == "fixed"
    draws = model.sample_posterior(RNG(1), 4000)
    assert (np.abs(draws.mean(axis=0) - laws.mean()) < 5 * laws.std() / np.sqrt(4000)).all()
    np.testing.assert_allclose(draws.std(axis=0), laws.std(), rtol=0.12)
    assert model.independent
    assert model.prior_interval() == {}
    assert model.atoms().size == 0
    assert model.predict() == pytest.approx(prior.mean())
    np.testing.assert_allclose(model.predict(x, size), laws.mean(), rtol=1e-11)
    own = np.where(size > 0, size, 0.0)
    strength = {0: 2.9, 1: 8.5, 2: 2.3, 3: 0.4}[case]
    np.testing.assert_allclose(model.weights_, own / (own + strength), rtol=1e-12)
    np.testing.assert_allclose(model.own_numbers()[1:], x[1:] / size[1:])
    assert np.isnan(model.own_numbers()[0])


@pytest.mark.parametrize("way", ["fixed", LIKELIEST])
def test_one_prior_that_is_taken_for_known_is_the_only_component(way):
    """Its mean, one over its concentration, and all of the weight."""
    given = way == "fixed"
    one = BetaBinomial(way, **({"alpha": 1.4, "beta": 2.6} if given else {})).fit(X, N)
    two = GammaPoisson(way, **({"shape": 1.4, "rate": 2.6} if given else {})).fit(X, N + 1.0)
    size = one.alpha_ + one.beta_
    np.testing.assert_allclose(np.ravel(one.components_), [one.alpha_ / size, 1 / size, 1.0], rtol=1e-12)
    np.testing.assert_allclose(np.ravel(two.components_)[1:], [1 / two.shape_, 1.0], rtol=1e-12)
    assert one.independent
    assert two.independent


def test_likelihoods_of_given_priors_are_scipys():
    model = BetaBinomial("fixed", alpha=0.6, beta=2.3).fit(X, N)
    assert model.log_likelihood_ == pytest.approx(stats.betabinom.logpmf(X, N, 0.6, 2.3).sum(), rel=1e-12)
    x = np.where(E > 0, X, 0)
    model = GammaPoisson("fixed", shape=0.6, rate=2.3).fit(x, E)
    exact = stats.nbinom.logpmf(x[1:], 0.6, 2.3 / (2.3 + E[1:])).sum()
    assert model.log_likelihood_ == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("case", [0, 2])
def test_draws_of_truths_and_counts_follow_the_prior(case):
    model, _, _, prior = GIVEN[case]
    size = np.full(3000, 6) if case == 0 else np.full(3000, 1.7)
    model.fit(np.zeros(3000, int), size)
    truth, (x, same) = model.draw(RNG(2))
    np.testing.assert_array_equal(same, size)
    assert stats.kstest(truth, prior.cdf).pvalue > 1e-6
    within = size * truth * ((1 - truth) if case == 0 else 1)
    assert abs((x - size * truth).sum()) < 5 * np.sqrt(within.sum())
    assert ((x - size * truth) ** 2).sum() == pytest.approx(within.sum(), rel=0.2)
    again, (x, _) = model.draw(RNG(2), truth)
    np.testing.assert_array_equal(again, truth)


def mixture(model, kind):
    """The laws that an average over priors stands for: (weights, frozen laws (components, clients))."""
    locations, rhos, weights = (column[:, None] for column in model.components_)
    if kind == "beta":
        return weights, stats.beta(locations / rhos + X[1:], (1 - locations) / rhos + N[1:] - X[1:])
    unit = 2.0**model._exponent
    return weights, stats.gamma(1 / rhos + X[1:], scale=1 / (1 / (rhos * locations / unit) + E[1:]))


@pytest.mark.parametrize("kind", ["beta", "gamma"])
def test_averaged_posteriors_are_mixtures_of_scipys(kind):
    model = BetaBinomial().fit(X[1:], N[1:]) if kind == "beta" else GammaPoisson().fit(X[1:], E[1:])
    weights, laws = mixture(model, kind)
    assert weights.sum() == pytest.approx(1.0)
    mean = (weights * laws.mean()).sum(axis=0)
    sd = np.sqrt((weights * (laws.var() + (laws.mean() - mean) ** 2)).sum(axis=0))
    np.testing.assert_allclose(model.posterior_mean_, mean, rtol=1e-9)
    np.testing.assert_allclose(model.posterior_sd_, sd, rtol=1e-9)
    for t in (0.1, 0.6, 2.0):
        np.testing.assert_allclose(model.posterior_cdf(t), (weights * laws.cdf(t)).sum(axis=0), rtol=1e-9)
    for q in (0.01, 0.5, 0.99):
        ends = model.posterior_quantile(q)
        # For 7 of 7 the last one is 5e-11 below 1, where neighbouring floats are 1e-8 in probability apart.
        np.testing.assert_allclose((weights * laws.cdf(ends)).sum(axis=0), q, rtol=2e-8)
    draws = model.sample_posterior(RNG(3), 4000)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(4000)).all()
    assert not model.independent
    assert model.atoms().size == 0
    size = N[1:] if kind == "beta" else E[1:]
    locations, rhos, _ = (column[:, None] for column in model.components_)
    strength = rhos * size if kind == "beta" else rhos * locations * size / 2.0**model._exponent
    np.testing.assert_allclose(model.weights_, (weights * strength / (1 + strength)).sum(axis=0), rtol=1e-9)
    # The one prior of the summary gives a client of average size the posterior means of the average.
    summary, average = model.prior_summary(), size.mean()
    if kind == "beta":
        one = lambda x: (summary["alpha"] + x) / (summary["concentration"] + average)  # noqa: E731
        each = lambda x: (weights * (locations / rhos + x) / (1 / rhos + average)).sum()  # noqa: E731
    else:
        one = lambda x: (summary["shape"] + x) / (summary["rate"] + average)  # noqa: E731
        rate = 1 / (rhos * locations / 2.0**model._exponent)
        each = lambda x: (weights * (1 / rhos + x) / (rate + average)).sum()  # noqa: E731
    for x in (0, 3):
        assert one(x) == pytest.approx(each(x), rel=1e-9)


# --- corners ---------------------------------------------------------------------------------------------------------------


def test_corners_of_rates_out_of_trials():
    point = BetaBinomial("marginal-likelihood").fit([3, 5, 4, 6], 10)  # less spread than binomial
    assert (point.concentration_, point.alpha_, point.beta_) == (np.inf, np.inf, np.inf)
    assert point.mean_ == pytest.approx(0.45, abs=1e-15)
    assert point.posterior_mean_ == pytest.approx([0.45] * 4)
    assert point.posterior_sd_.tolist() == [0.0] * 4
    assert point.posterior_cdf(point.mean_).tolist() == [1.0] * 4
    assert point.posterior_cdf(point.mean_, strict=True).tolist() == [0.0] * 4
    assert point.posterior_cdf(0.46, strict=True).tolist() == [1.0] * 4
    assert point.posterior_quantile(0.2) == pytest.approx([0.45] * 4)
    assert point.sample_posterior(RNG(1), 2) == pytest.approx(np.full((2, 4), 0.45))
    assert point.atoms() == pytest.approx([0.45])
    assert point.log_likelihood_ == pytest.approx(stats.binom.logpmf([3, 5, 4, 6], 10, 0.45).sum())
    assert point.prior_summary()["sd"] == 0
    assert point.weights_.tolist() == [0.0] * 4
    apart = BetaBinomial("marginal-likelihood").fit([0, 4, 4, 0, 0], [3, 4, 4, 2, 0])  # each all or nothing
    assert (apart.concentration_, apart.mean_, apart.alpha_, apart.beta_) == (0, 0.5, 0, 0)
    assert apart.posterior_mean_.tolist() == [0, 1, 1, 0, 0.5]
    assert apart.posterior_sd_.tolist() == [0, 0, 0, 0, 0.5]
    assert apart.posterior_cdf(0.0).tolist() == [1, 0, 0, 1, 0.5]
    assert apart.posterior_cdf(0.0, strict=True).tolist() == [0, 0, 0, 0, 0]
    assert apart.posterior_cdf(0.7).tolist() == [1, 0, 0, 1, 0.5]
    assert apart.posterior_cdf(1.0, strict=True).tolist() == [1, 0, 0, 1, 0.5]
    assert apart.posterior_cdf(1.0).tolist() == [1] * 5
    assert apart.posterior_quantile(0.4).tolist() == [0, 1, 1, 0, 0]
    assert apart.posterior_quantile(0.6).tolist() == [0, 1, 1, 0, 1]
    assert apart.atoms().tolist() == [0, 1]
    assert apart.log_likelihood_ == pytest.approx(4 * np.log(0.5))  # of four clients with trials
    assert apart.prior_summary()["sd"] == 0.5
    draws = apart.sample_posterior(RNG(2), 2000)
    np.testing.assert_array_equal(draws[:, :4], np.broadcast_to([0, 1, 1, 0], (2000, 4)))
    assert draws[:, 4].mean() == pytest.approx(0.5, abs=0.06)
    truth = apart.draw(RNG(3))[0]
    assert set(truth) <= {0.0, 1.0}
    none = BetaBinomial("marginal-likelihood").fit([0, 0], [3, 4])
    assert (none.mean_, none.alpha_, none.beta_, none.log_likelihood_) == (0, 0, np.inf, 0)
    every = BetaBinomial("marginal-likelihood").fit([3, 4], [3, 4])
    assert (every.mean_, every.alpha_, every.beta_, every.log_likelihood_) == (1, np.inf, 0, 0)
    for model, at in ((none, 0.0), (every, 1.0)):
        assert model.posterior_quantile(0.5).tolist() == [at, at]
        assert model.draw(RNG(1))[0].tolist() == [at, at]
        with pytest.raises(ValueError, match="needs a client with both ones and zeros"):
            BetaBinomial().fit(*model.clients_)


def test_corners_of_rates_of_events():
    point = GammaPoisson("marginal-likelihood").fit([3, 5, 4, 6], [1.0, 2.0, 1.5, 1.5])
    assert (point.shape_, point.rate_, point.mean_) == (np.inf, np.inf, 3.0)
    assert point.posterior_mean_.tolist() == [3.0] * 4
    assert point.posterior_cdf(3.0).tolist() == [1.0] * 4
    assert point.posterior_cdf(3.0, strict=True).tolist() == [0.0] * 4
    assert point.posterior_quantile(0.2).tolist() == [3.0] * 4
    assert point.atoms().tolist() == [3.0]
    assert point.log_likelihood_ == pytest.approx(stats.poisson.logpmf([3, 5, 4, 6], 3 * np.array([1, 2, 1.5, 1.5])).sum())
    assert point.draw(RNG(1))[0].tolist() == [3.0] * 4
    assert point.sample_posterior(RNG(1), 2).tolist() == [[3.0] * 4] * 2
    none = GammaPoisson("marginal-likelihood").fit([0, 0], [1.0, 2.0])
    assert (none.mean_, none.log_likelihood_, none.posterior_mean_.tolist()) == (0, 0, [0, 0])
    with pytest.raises(ValueError, match="needs two clients with events"):
        GammaPoisson().fit([0, 4], [1.0, 2.0])
    for wrong in ({"prior": "fixed"}, {"prior": "fixed", "shape": 1.0}, {"shape": 1.0}, {"rate": 1.0}):
        with pytest.raises(ValueError, match="shape and rate must be given"):
            GammaPoisson(**wrong).fit([1, 2], 1.0)
    for wrong in ({"prior": "fixed"}, {"prior": "fixed", "alpha": 1.0}, {"alpha": 1.0}, {"beta": 1.0}):
        with pytest.raises(ValueError, match="alpha and beta must be given"):
            BetaBinomial(**wrong).fit([1, 2], 4)


def test_clients_of_all_or_nothing_beside_others_under_a_prior_at_the_ends():
    """Moments may say that shares are 0 or 1 though one client has both: its posterior is a Beta law of its own counts."""
    model = BetaBinomial("naive-moments").fit([0, 9, 1], [9, 9, 2])
    assert model.concentration_ == 0
    np.testing.assert_allclose(model.posterior_mean_, [0, 1, 0.5])
    np.testing.assert_allclose(model.posterior_sd_, [0, 0, np.sqrt(1 / 12)])
    assert model.log_likelihood_ == -np.inf
    for t in (-0.5, 0.0, 0.3, 1.0, 1.5):
        np.testing.assert_allclose(model.posterior_cdf(t), [t >= 0, t >= 1, np.clip(t, 0, 1)])  # of one in two: uniform
    assert model.n_iter_ == 0
    draws = model.sample_posterior(RNG(1), 4000)
    assert draws[:, :2].tolist() == [[0, 1]] * 4000
    assert stats.kstest(draws[:, 2], stats.uniform.cdf).pvalue > 1e-6
    np.testing.assert_allclose(model.posterior_quantile(0.3), [0, 1, 0.3])


def test_the_largest_numbers_are_permitted_and_no_larger_ones():
    huge = tallies.LARGEST
    assert BetaBinomialTally.of([huge, 0], huge).trials.tolist() == [huge]
    assert GammaPoissonTally.of([huge, 0], 1.0).counts.sum == huge
    for call in (lambda: BetaBinomialTally.of([1, 0], huge + 1), lambda: GammaPoissonTally.of([huge + 1, 0], 1.0)):
        with pytest.raises(ValueError, match="must be at most"):
            call()


def test_moments_match_their_formulas():
    """With rational numbers: unbiased for any numbers of trials, and as the paper prints it."""
    shares = [Fraction(int(x), int(n)) for x, n in zip(X[1:], N[1:], strict=True)]
    mean = sum(shares) / 4
    spread = sum((s - mean) ** 2 for s in shares) / 3
    naive = BetaBinomialTally.of(X, N).moments("naive")
    assert naive == pytest.approx((float(mean), float(spread)), rel=1e-12)
    both = sum(Fraction(int(x * (x - 1)), int(n * (n - 1))) for x, n in zip(X[1:], N[1:], strict=True)) / 4
    found = BetaBinomialTally.of(X, N).moments()
    assert found == pytest.approx((float(mean), float(both - (mean**2 - spread / 4))), rel=1e-10)
    model = BetaBinomial("naive-moments").fit(X, N)
    m, s = naive
    assert model.concentration_ == pytest.approx(m * (1 - m) / s - 1)
    assert model.alpha_ == pytest.approx(m * model.concentration_)


# --- pieces ----------------------------------------------------------------------------------------------------------------


def surface_value(kind, t, rho):
    """Marginal log-likelihood up to a constant, with SciPy's laws."""
    if kind == "beta":
        mean = 1 / (1 + np.exp(-t))
        return stats.betabinom.logpmf(X, N, mean / rho, (1 - mean) / rho).sum()
    return stats.nbinom.logpmf(X[1:], 1 / rho, 1 / (1 + rho * np.exp(t) * E[1:])).sum()


@pytest.mark.parametrize("kind", ["beta", "gamma"])
def test_the_surface_that_is_searched_is_the_likelihood_and_its_derivatives(kind):
    surface = (
        beta_binomial.Surface(BetaBinomialTally.of(X, N))
        if kind == "beta"
        else gamma_poisson.Surface(GammaPoissonTally.of(X[1:], E[1:]))
    )
    points = np.array([[-0.4, 0.3], [0.9, 0.02], [-1.7, 4.0], [0.2, 60.0]])
    value, slope, curvature, by_rho = surface.at(*points.T)
    exact = np.array([surface_value(kind, *p) for p in points])
    np.testing.assert_allclose(value - value[0], exact - exact[0], atol=1e-9)
    step = 1e-5
    for i, (t, rho) in enumerate(points):
        up, down = surface_value(kind, t + step, rho), surface_value(kind, t - step, rho)
        assert slope[i] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-6)
        more, less = surface_value(kind, t, rho * (1 + step)), surface_value(kind, t, rho * (1 - step))
        assert by_rho[i] == pytest.approx((more - less) / (2 * step * rho), rel=1e-5, abs=1e-6)
    t, _, curvature, _, _, settled = conjugate.climb(surface, points[:, 1])
    assert settled
    for at, bend, rho in zip(t, curvature, points[:, 1], strict=True):
        h = 1e-3
        values = [surface_value(kind, at + k * h, rho) for k in (-1, 0, 1)]
        assert bend == pytest.approx(-(values[0] - 2 * values[1] + values[2]) / h**2, rel=1e-3)
        assert values[1] >= max(values)


@pytest.mark.parametrize("z", [0.0, 1e-9, 0.003, 0.0499, 0.05, 0.0501, 0.9, 40.0])
def test_what_cancels_in_the_derivative_by_overdispersion(z):
    with mpmath.workdps(60):
        m = mpmath.mpf(z)
        exact = float((mpmath.log1p(m) - m / (1 + m)) / m**2) if z else 0.5
    found = gamma_poisson.curved(np.array([z]), np.log1p(np.array([z])), 1 / (1 + np.array([z])))
    assert found[0] == pytest.approx(exact, rel=2e-13)


@pytest.mark.parametrize("u", [1e-12, 0.003, 0.36787944117144233, 1.0, 2.7, 3.0, 1e9])
def test_places_of_the_trapezoidal_rule_are_inverse(u):
    w = conjugate.place(u)
    assert np.exp(w - np.exp(-w)) == pytest.approx(u, rel=1e-13)


@pytest.mark.parametrize("sd", [1e-3, 0.05, 0.2, 0.25, 0.2501])
def test_so_many_nodes_are_enough(sd):
    """The bound (sd / pi)^(2 n) n! falls below 1e-11 at n and not before."""
    n = conjugate.nodes_enough(sd)
    if sd > 0.25:
        assert n == 0
        return
    bound = [mpmath.mpf(sd / np.pi) ** (2 * k) * mpmath.factorial(k) for k in (n - 1, n)]
    assert bound[1] < 1e-11
    assert n == 2 or bound[0] >= 1e-11


@pytest.mark.parametrize("a", [1e-3, 0.7, 2500.0, 999.0, 1e7])
@pytest.mark.parametrize("x", [0.0, 1.0, 2.0, 7.0])
def test_rising_factorials_on_both_sides_of_their_switch(a, x):
    with mpmath.workdps(40):
        exact = float(mpmath.log(mpmath.rf(mpmath.mpf(a), int(x)))) if x else 0.0
    assert rise(np.array([a]), np.array([x]))[0] == pytest.approx(exact, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(("a", "x"), [(3e3 + 3, 2.0), (9e3, 7.0), (5e4, 40.0), (3.1e6, 3000.0), (1e9, 7.0)])
def test_rising_factorials_of_large_numbers_have_all_digits(a, x):
    with mpmath.workdps(40):
        exact = float(mpmath.log(mpmath.rf(mpmath.mpf(a), int(x))))
    assert rise(np.array([a]), np.array([x]))[0] == pytest.approx(exact, rel=1e-14)


def test_counting_is_the_same_by_either_way():
    """Few distinct numbers are counted by places, many by sorting; the switch is at 8 times their count and 1000 more."""
    few, many = np.array([3, 0, 3, 9]), np.array([3, 0, 3, 40_000])
    for numbers in (few, many, np.array([1032, 0, 1032, 1]), np.array([1033, 0, 1033, 1])):
        table = Frequencies.of(numbers)
        values, counts = np.unique(numbers, return_counts=True)
        assert (table.values.tolist(), table.counts.tolist()) == (values.tolist(), counts.tolist())
        assert (table.total, table.sum) == (4, int(numbers.sum()))
        position, place = tallies.distinct(numbers)
        np.testing.assert_array_equal(numbers[position], values)
        np.testing.assert_array_equal(values[place], numbers)
    assert Frequencies.of(np.array([], int)).total == 0
    huge = tallies.LARGEST
    assert tallies.square_sums(tallies.exact_squares(np.array([huge, 3])))[0] == float(huge) ** 2
    for x, n in ((np.tile([1, 0, 2], 50), np.tile([4, 4, 5], 50)), (np.array([1, 0, 2]), np.array([4, 4, 5]))):
        tally = BetaBinomialTally.of(x, n)
        assert tally.trials.tolist() == [4, 5]
        assert (tally.sums / tally.clients).tolist() == [0.5, 2.0]
        np.testing.assert_allclose(tallies.square_sums(tally.squares) / tally.clients, [0.5, 4.0])
        assert (tally.ones.sum, tally.zeros.sum) == (x.sum(), (n - x).sum())


# --- with covariates -------------------------------------------------------------------------------------------------------


def test_regressions_have_the_likelihood_and_the_posteriors_of_scipy():
    x, n, z = np.array([1, 3, 9, 2, 8, 5]), np.array([9, 11, 12, 7, 10, 9]), np.array([-1.0, 0.2, 1.4, -0.6, 0.9, 0.1])
    e = np.array([0.7, 2.0, 1.1, 0.9, 3.0, 1.6])
    for model, size in ((BetaBinomialRegression(LIKELIEST), n), (GammaPoissonRegression(LIKELIEST), e)):
        model._x, model._n, model._e = x.astype(float), n.astype(float), e
        eta, log_phi = 0.3 * z - 0.2, 0.8
        value, by_eta, by_phi = model.value(eta, log_phi)

        def exact(eta, log_phi, size=size):
            phi = np.exp(log_phi)
            if size is n:
                mean = 1 / (1 + np.exp(-eta))
                return stats.betabinom.logpmf(x, n, mean * phi, (1 - mean) * phi)
            return stats.nbinom.logpmf(x, phi, phi / (phi + e * np.exp(eta)))

        h = 1e-6
        np.testing.assert_allclose(value, exact(eta, log_phi), rtol=1e-10)
        np.testing.assert_allclose(by_eta, (exact(eta + h, log_phi) - exact(eta - h, log_phi)) / (2 * h), atol=1e-7)
        np.testing.assert_allclose(by_phi, (exact(eta, log_phi + h) - exact(eta, log_phi - h)) / (2 * h), atol=1e-7)
        model.concentration_, model.prior_mean_, model.covariates_ = 2.5, model.inverse(eta), None
        model.set_posterior(10.0, n > 0)
        if size is n:
            laws = stats.beta(model.prior_mean_ * 2.5 + x, (1 - model.prior_mean_) * 2.5 + n - x)
            prior = stats.beta(model.prior_mean_ * 2.5, (1 - model.prior_mean_) * 2.5)
        else:
            laws = stats.gamma(2.5 + x, scale=1 / (2.5 / model.prior_mean_ + e))
            prior = stats.gamma(2.5, scale=model.prior_mean_ / 2.5)
        np.testing.assert_allclose(model.prior_variance(), prior.var())
        for at in (0.2, 0.7):
            np.testing.assert_allclose(model.posterior_cdf(at), laws.cdf(at))
        weights = size / (size + 2.5) if size is n else size * model.prior_mean_ / (size * model.prior_mean_ + 2.5)
        np.testing.assert_allclose(model.weights_, weights)
        np.testing.assert_allclose(model.posterior_mean_, laws.mean())
        np.testing.assert_allclose(model.posterior_sd_, laws.std())
        np.testing.assert_allclose(
            model.posterior_mean_, weights * x / size + (1 - weights) * model.prior_mean_
        )  # weights are those of the own numbers
        truths = np.array([model.draw(RNG(k))[0] for k in range(400)])
        assert (np.abs(truths.mean(axis=0) - prior.mean()) < 5 * prior.std() / 20).all()
        np.testing.assert_allclose(truths.std(axis=0), prior.std(), rtol=0.4)


def test_conjugate_laws_are_scipys():
    laws = (
        (BetaBinomialRegression(), stats.beta, [(0.2, 0.3), (7.0, 2.5), (0.01, 40.0)]),
        (GammaPoissonRegression(), lambda a, b: stats.gamma(a, scale=1 / b), [(0.2, 3.0), (70.0, 0.5)]),
    )
    for model, law, cases in laws:
        for first, second in cases:
            moments = law(first, second).mean(), law(first, second).var()
            assert model.moments(first, second) == pytest.approx(moments, rel=1e-12)
            assert model.alike(*moments) == pytest.approx((first, second), rel=1e-9)
            for t in (0.03, 0.4, 0.9):
                assert model.law_cdf(first, second, t) == pytest.approx(law(first, second).cdf(t), rel=1e-10)
                assert model.law_density(first, second, t) == pytest.approx(law(first, second).pdf(t), rel=1e-10)
            assert model.law_quantile(first, second, 0.7) == pytest.approx(law(first, second).ppf(0.7), rel=1e-10)
    mean, phi = np.array([0.0, 0.5, 1.0]), 3.0
    first, second = BetaBinomialRegression().prior_shapes(mean, phi)
    assert (first > 0).all()
    assert (second > 0).all()  # there is no Beta law of a parameter of 0
    np.testing.assert_allclose([first, second], [mean * phi, (1 - mean) * phi], atol=1e-15)


def test_before_counts_are_seen_log_odds_are_those_of_a_uniform_mean():
    eta = np.array([-30.0, -2.0, 0.0, 0.7, 30.0])
    value, slope = BetaBinomialRegression().log_location(eta)
    np.testing.assert_allclose(value, stats.logistic.logpdf(eta), rtol=1e-13)
    np.testing.assert_allclose(slope, -np.tanh(eta / 2), rtol=1e-13)


@pytest.mark.parametrize("eta", [-40.0, -30.0, 30.0, 40.0])
def test_clients_pull_back_from_priors_that_exclude_what_they_saw(eta):
    """Log-likelihoods fall by one for each unit of log-odds where the prior's mean is next to 0 or 1, to the last digits."""
    model = BetaBinomialRegression()
    model._x, model._n = np.array([3.0]), np.array([5.0])
    with mpmath.workdps(60):
        mean, phi = 1 / (1 + mpmath.exp(-eta)), mpmath.mpf(2)
        a, b = mean * phi, (1 - mean) * phi
        by_a, by_b = (mpmath.digamma(s + k) - mpmath.digamma(s) for s, k in ((a, 3), (b, 2)))
        exact = float(phi * mean * (1 - mean) * (by_a - by_b))
    assert model.value(np.array([eta]), np.log(2.0))[1] == pytest.approx(exact, rel=2e-3)


def test_intervals_are_of_95_percent_unless_they_are_told_otherwise():
    for model in (BetaBinomial().fit(X, N), GammaPoisson().fit(X[1:], E[1:]), BetaBinomialRegression().fit(X, N)):
        assert model.prior_interval() == model.prior_interval(0.95) != model.prior_interval(0.9)
        np.testing.assert_array_equal(model.interval(), model.interval(0.95))


@pytest.mark.filterwarnings("ignore:clients of equal covariates differ by no more than noise")
def test_regressions_without_spread_put_clients_at_what_their_covariates_predict():
    x, n = np.array([3, 5, 4, 6]), np.array([10, 10, 10, 10])
    for model in (BetaBinomialRegression(LIKELIEST).fit(x, n), GammaPoissonRegression(LIKELIEST).fit(x, n)):
        assert model.concentration_ == np.inf
        assert model.prior_mean_ == pytest.approx([0.45] * 4)
        at = model.prior_mean_[0]
        assert model.posterior_cdf(at).tolist() == [1.0] * 4
        assert model.posterior_cdf(at, strict=True).tolist() == [0.0] * 4
        assert model.posterior_cdf(at * (1 + 1e-9), strict=True).tolist() == [1.0] * 4
        assert model.posterior_cdf(at * (1 - 1e-9)).tolist() == [0.0] * 4
        np.testing.assert_array_equal(model.posterior_quantile(0.3), model.prior_mean_)
        assert model.posterior_sd_.tolist() == [0.0] * 4
        np.testing.assert_array_equal(model.sample_posterior(RNG(1), 2), [model.prior_mean_] * 2)
