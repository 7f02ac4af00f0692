"""Variances that few rows estimate: limma's numbers, quadrature, limits, coverage, bad input."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

from estimators.coverage import coverage
from estimators.normal_means import sample_means
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.prior_inference import (
    coefficient_intervals,
    heterogeneity,
    mean_squared_error,
    variance_interval,
)
from estimators.normal_means.sample_means import SampleLikelihood, SampleMeans, TLikelihood, variance_spans
from estimators.normal_means.variances import moderated_variances

either_noise = pytest.mark.parametrize("noise", ["expected", "t"])


def rows_of(m, n, seed=0, tau=1.0, spread=30.0):
    """Truths, means, sample variances and true variances; those are log-uniform over a factor `spread`."""
    g = np.random.default_rng([8, seed])
    sigma2 = np.exp(g.uniform(0, np.log(spread), m))
    truth = g.normal(0, tau, m)
    x = truth[:, None] + np.sqrt(sigma2)[:, None] * g.normal(size=(m, n))
    return truth, x.mean(1), x.var(1, ddof=1), sigma2


def test_limma_golden_numbers():
    """limma 3.54 (R 4.2, Debian): squeezeVar(c(.5,1,2,4,8,.3,.9,1.5), 4): df.prior, var.prior, var.post[1]."""
    found = moderated_variances([0.5, 1, 2, 4, 8, 0.3, 0.9, 1.5], 4)
    assert [found.prior_degrees, found.prior_variance, found.variances[0]] == pytest.approx(
        [4.92350123, 1.45346365, 1.02606923], abs=6e-9
    )


def test_limma_of_prostate_genes(shared_data):
    """limma's eBayes of 6,033 genes, 50 controls and 52 patients: d0 18.357993, s0^2 .84145365."""
    data = np.load(shared_data("efron_eb/singh2002_prostate.npz"))
    X = next(data[name] for name in data.files if data[name].ndim == 2)
    X = X if X.shape[0] > X.shape[1] else X.T
    pooled = (49 * X[:, :50].var(axis=1, ddof=1) + 51 * X[:, 50:].var(axis=1, ddof=1)) / 100
    found = moderated_variances(pooled, 100)
    assert [found.prior_degrees, found.prior_variance] == pytest.approx([18.357993, 0.84145365], abs=6e-7)


def test_moderation_in_formulas():
    """The moments of log variances are matched: trigamma(d0 / 2), and the mean."""
    s2, d = np.array([0.5, 1, 2, 4, 8, 0.3]), np.array([3, 5, 9, 2, 4, 6.0])
    found = moderated_variances(1e200 * s2, d)
    logs = np.log(s2) - special.digamma(d / 2) + np.log(d / 2)
    half = found.prior_degrees / 2
    assert special.polygamma(1, half) == pytest.approx(logs.var(ddof=1) - special.polygamma(1, d / 2).mean())
    assert np.log(found.prior_variance / 1e200) == pytest.approx(logs.mean() + special.digamma(half) - np.log(half))
    np.testing.assert_allclose(found.degrees, d + found.prior_degrees)
    shrunk = (d * s2 + found.prior_degrees * found.prior_variance / 1e200) / found.degrees
    np.testing.assert_allclose(found.variances / 1e200, shrunk)


@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e-3, 1e9])
def test_variances_are_moderated_alike_in_any_unit(unit):
    s2, d = np.array([0.5, 1, 2, 4, 8, 0.3, 0.9, 1.5]), np.array([4, 3, 0, 5, 4, 9, 2, 4])
    plain, other = moderated_variances(s2, d), moderated_variances(unit * s2, d)
    np.testing.assert_allclose(other.degrees, plain.degrees, rtol=1e-9)
    assert other.prior_variance == pytest.approx(unit * plain.prior_variance, rel=1e-9)
    np.testing.assert_allclose(other.variances, unit * plain.variances, rtol=1e-9)


def test_variances_that_do_not_differ_are_pooled():
    found = moderated_variances([1.0, 1.1, 0.9, 1.0, 7.0], [4, 4, 4, 4, 0])
    assert found.prior_degrees == np.inf
    np.testing.assert_allclose(found.variances, 1.0)
    model = SampleMeans().fit([1.0, 2, 4, 5, 3], [1.0, 1.1, 0.9, 1.0, 7.0], [5, 5, 5, 5, 1])
    same = GaussianMeans().fit([1.0, 2, 4, 5, 3], 1.0 / np.array([5, 5, 5, 5, 1]))
    for name in ("posterior_mean_", "posterior_sd_", "weights_", "mu_", "tau2_", "mu_sd_"):
        np.testing.assert_allclose(getattr(model, name), getattr(same, name), rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(model.interval(), same.interval(), rtol=1e-7)


def test_expected_variances_are_the_means_of_their_laws():
    """Scaled inverse chi-squares given the rows; up to 2 degrees of freedom they have no mean."""
    y, s2 = np.arange(8.0), np.array([1e-3, 2e-3, 0.5, 1.0, 2.0, 300.0, 900.0, 1e3])
    model = SampleMeans().fit(y, s2, np.array([2, 3, 4, 8, 2, 3, 4, 8]))
    assert 0 < model.prior_degrees_ < 1  # so that those of clients are on both sides of 2 and 3
    laws = stats.invgamma(model.degrees_ / 2, scale=model.degrees_ * model.variances_ / 2)
    np.testing.assert_allclose(model.expected_variances_, laws.mean(), rtol=1e-12)
    assert np.isinf(model.expected_variances_[[0, 4]]).all()
    assert np.isfinite(model.expected_variances_[[1, 2, 3]]).all()
    alike = SampleMeans().fit(y, np.full(8, 2.0), 5)  # one variance for all is known
    np.testing.assert_allclose(alike.expected_variances_, 2.0 / 5)


@pytest.mark.parametrize("given", [True, False])
def test_a_client_against_quadrature(given):
    """mu and tau2 given: the posterior of a client is an average over what its rows tell of its variance."""
    _, y, s2, _ = rows_of(12, 3, seed=1)
    y[0] += 40  # an outlier, which stays one
    model = SampleMeans("fixed", mu=0.3 if given else None, tau2=0.8).fit(y, s2, 3)
    if given:
        for i in (0, 1, 5):
            half = model.degrees_[i] / 2
            law = stats.invgamma(half, scale=half * model.variances_[i])

            def average(f, law=law):
                pieces = pairwise([0.0, *law.ppf([1e-9, 0.1, 0.9, 1 - 1e-9]), np.inf])
                return sum(integrate.quad(lambda v: f(v) * law.pdf(v), *piece, epsabs=0, epsrel=1e-9)[0] for piece in pieces)

            def centre(v, i=i):
                return 0.3 + 0.8 / (0.8 + v) * (y[i] - 0.3)

            def spread(v):
                return 0.8 * v / (0.8 + v)

            mean = average(centre)
            sd = np.sqrt(average(spread) + average(lambda v, centre=centre: centre(v) ** 2) - mean**2)
            assert (model.posterior_mean_[i], model.posterior_sd_[i]) == pytest.approx((mean, sd), rel=2e-6)
            assert model.weights_[i] == pytest.approx((mean - 0.3) / (y[i] - 0.3), rel=2e-6)
            z = model.posterior_quantile(0.1)[i]
            below = average(lambda v, centre=centre, z=z: special.ndtr((z - centre(v)) / np.sqrt(spread(v))))
            assert below == pytest.approx(0.1, abs=2e-6)
    else:
        # The best mu is where the slope of the likelihood is 0.
        def loss(mu):
            return -SampleMeans("fixed", mu=mu, tau2=0.8).fit(y, s2, 3).log_likelihood_

        assert loss(model.mu_) < min(loss(model.mu_ - 1e-3), loss(model.mu_ + 1e-3))
        bend = (loss(model.mu_ + 0.01) - 2 * loss(model.mu_) + loss(model.mu_ - 0.01)) / 1e-4
        assert model.mu_sd_ == pytest.approx(bend**-0.5, rel=1e-4)


def test_the_prior_is_learnt_with_the_variances_that_rows_let_expect():
    """Of clients whose variance has no mean, or one of more than ten times the moderated one, the likelihood takes that."""
    y, s2, n = np.arange(8.0), np.array([1e-3, 2e-3, 0.5, 1.0, 2.0, 300.0, 900.0, 1e3]), np.array([2, 3, 4, 8, 2, 3, 4, 8])
    model = SampleMeans("reml").fit(y, s2, n)
    laws = stats.invgamma(model.degrees_ / 2, scale=model.degrees_ * model.variances_ / 2)
    noise = np.minimum(laws.mean(), 10 * model.variances_)
    assert 0 < np.sum(noise == 10 * model.variances_) < 8
    known = GaussianMeans("reml").fit(y, noise)
    for name in ("mu_", "mu_sd_", "tau2_"):
        assert getattr(model, name) == pytest.approx(getattr(known, name), rel=1e-9)
    expected = stats.norm(model.mu_, np.sqrt(model.tau2_ + noise)).logpdf(y).sum()
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-12)


def test_a_few_clients_far_away_do_not_hide_that_clients_differ():
    """A tenth of true values differ, by a hundred variances of rows: no estimate is worse than the client's own, on average.

    A likelihood of t laws takes those for noisy clients, and all others for alike.
    """
    own, loss = 0.0, {"expected": 0.0, "t": 0.0}
    for seed in range(12):
        g = np.random.default_rng([11, seed])
        truth = 10 * g.standard_normal(100) * (g.random(100) < 0.1)
        x = truth[:, None] + np.exp(g.uniform(0, np.log(30), 100) / 2)[:, None] * g.normal(size=(100, 5))
        own += np.mean((x.mean(axis=1) - truth) ** 2)
        for noise in loss:
            model = SampleMeans(noise=noise).fit(x.mean(axis=1), x.var(axis=1, ddof=1), 5)
            loss[noise] += np.mean((model.posterior_mean_ - truth) ** 2)
    assert loss["expected"] < own
    assert loss["t"] > 1.5 * loss["expected"]


def test_likelihood_against_the_t_law():
    """With tau2 = 0 the density of every mean is a t density."""
    _, y, s2, _ = rows_of(9, 4, seed=3)
    model = SampleMeans("fixed", mu=0.1, tau2=0.0, noise="t").fit(y, s2, 4)
    expected = stats.t(model.degrees_, 0.1, np.sqrt(model.variances_)).logpdf(y).sum()
    assert model.log_likelihood_ == pytest.approx(expected, abs=1e-5)


@either_noise
def test_residuals_are_made_normal_before_their_squares_are_summed(noise):
    """With tau2 = 0 a residual is t, with more it is a sum of a t and a normal, by quadrature."""
    _, y, s2, _ = rows_of(9, 4, seed=3)
    model = SampleMeans("fixed", mu=0.1, tau2=0.0, noise=noise).fit(y, s2, 4)
    squares = model.likelihood().squares(np.array([0.0, 2.0 / model.unit2]))
    laws = [stats.t(d, 0.1, np.sqrt(v)) for d, v in zip(model.degrees_, model.variances_, strict=True)]
    assert squares[0] == pytest.approx(sum(special.ndtri(law.cdf(x)) ** 2 for law, x in zip(laws, y, strict=True)), rel=1e-4)
    below = [
        integrate.quad(lambda t, law=law, x=x: law.cdf(x - t) * stats.norm.pdf(t, 0, np.sqrt(2.0)), -12, 12)[0]
        for law, x in zip(laws, y, strict=True)
    ]
    assert squares[1] == pytest.approx(np.sum(special.ndtri(below) ** 2), rel=1e-4)


def test_clients_that_do_not_differ_are_seldom_said_to():
    """12 clients with 4 rows of equal means: probabilities of a larger Q are uniform, where Cochran's are not."""
    found = []
    for seed in range(400):
        g = np.random.default_rng([9, seed])
        sigma2 = 3 / g.chisquare(3, 12)
        x = np.sqrt(sigma2)[:, None] * g.normal(size=(12, 4))
        found.append(heterogeneity(SampleMeans().fit(x.mean(1), x.var(1, ddof=1), 4)).p_value)
    for level in (0.05, 0.2, 0.5):
        # 400 tests: three standard errors, and what 12 clients leave open of their variances' law.
        assert np.mean(np.array(found) < level) == pytest.approx(level, abs=3 * np.sqrt(level * (1 - level) / 400) + 0.03)


def test_one_variance_for_all_gives_the_analysis_of_variance():
    g = np.random.default_rng(5)
    samples = [g.normal(0, 1, n) for n in (3, 5, 4, 6, 5)]
    model = SampleMeans().fit([s.mean() for s in samples], [s.var(ddof=1) for s in samples], [s.size for s in samples])
    assert np.isinf(model.prior_degrees_)
    found, known = heterogeneity(model), stats.f_oneway(*samples)
    assert (found.Q / found.df, found.p_value) == pytest.approx((known.statistic, known.pvalue), rel=1e-9)
    assert (found.df, found.residual_df) == (4, 18)


@either_noise
def test_profiles_fall_by_half_a_quantile_of_chi_square(noise):
    _, y, s2, _ = rows_of(15, 4, seed=4)
    model = SampleMeans("marginal-likelihood", noise=noise).fit(y, s2, 4)
    for end in coefficient_intervals(model, method="profile")[0]:
        at_end = SampleMeans("marginal-likelihood", mu=end, noise=noise).fit(y, s2, 4)
        assert model.log_likelihood_ - at_end.log_likelihood_ == pytest.approx(special.chdtri(1, 0.05) / 2, rel=1e-4)
    low, high = variance_interval(model, method="q-profile")
    assert low < model.tau2_ < high


def test_formulas_for_known_variances_are_refused():
    _, y, s2, _ = rows_of(15, 4, seed=4)
    with pytest.raises(ValueError, match="variances that are known"):
        mean_squared_error(SampleMeans("reml").fit(y, s2, 4))
    pooled = SampleMeans("reml").fit(y, np.full(15, 2.0), 4)
    known = GaussianMeans("reml").fit(y, 0.5)
    np.testing.assert_allclose(mean_squared_error(pooled), mean_squared_error(known), rtol=1e-9)


@either_noise
def test_likelihood_is_largest_at_the_fit(noise):
    _, y, s2, _ = rows_of(20, 4, seed=4)
    model = SampleMeans("marginal-likelihood", noise=noise).fit(y, s2, 4)
    for mu, tau2 in ((0.01, 1.0), (-0.01, 1.0), (0.0, 1.01), (0.0, 0.99)):
        other = SampleMeans("fixed", mu=model.mu_ + mu, tau2=model.tau2_ * tau2, noise=noise).fit(y, s2, 4)
        assert other.log_likelihood_ < model.log_likelihood_
    assert model.converged_


def test_many_rows_are_known_variances():
    _, y, s2, _ = rows_of(30, 4000, seed=2)
    model, known = SampleMeans().fit(y, s2, 4000), GaussianMeans().fit(y, s2 / 4000)
    np.testing.assert_allclose(model.posterior_mean_, known.posterior_mean_, atol=2e-4)
    np.testing.assert_allclose(model.interval(), known.interval(), atol=4e-3)


def test_intervals_of_the_noisiest_hold_better():
    """100 clients with 5 rows, variances over a factor of 30: the noisiest fifth, and the squared error of all."""
    held, loss = np.zeros(3), np.zeros(2)
    for seed in range(40):
        truth, y, s2, sigma2 = rows_of(100, 5, seed, tau=1.5)
        inside = np.zeros(100, bool)
        noisy = sigma2 >= np.quantile(sigma2, 0.8)
        model, pooled = SampleMeans().fit(y, s2, 5), GaussianMeans().fit(y, s2.mean() / 5)
        for k, fit in enumerate((pooled, model)):
            low, high = fit.interval()
            inside = (low <= truth) & (truth <= high)
            held[k] += inside[noisy].mean() / 40
            loss[k] += np.mean((fit.posterior_mean_ - truth) ** 2)
        held[2] += inside.mean() / 40
    assert held[0] < 0.88
    assert held[1] > 0.9
    assert abs(held[2] - 0.95) < 0.015
    assert loss[1] < 0.93 * loss[0]


def test_a_client_that_differs_is_not_called_a_noisy_one():
    """Own weights are of the rows alone, so that the risk of estimates is that of the prior's two moments."""
    _, y, s2, _ = rows_of(12, 3, seed=1)
    far = y.copy()
    far[4] += 1e3
    model, other = (SampleMeans("fixed", mu=0.3, tau2=0.8).fit(means, s2, 3) for means in (y, far))
    assert np.isfinite(model.prior_degrees_)
    np.testing.assert_allclose(other.weights_, model.weights_, rtol=1e-7)
    moved = other.posterior_mean_ - model.posterior_mean_
    np.testing.assert_allclose(moved, model.weights_ * (far - y), rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("m", [40, 8200])  # by either loop of the quantiles
def test_ends_of_intervals_are_where_the_posterior_has_its_tails(m):
    generator = np.random.default_rng(4)
    rows = generator.integers(2, 9, m)
    sigma2 = 4 / generator.chisquare(6, m)
    means = generator.normal(1, 0.8, m) + np.sqrt(sigma2 / rows) * generator.standard_normal(m)
    means[:3] += [20, -9, 4]
    model = SampleMeans().fit(means, sigma2 * generator.chisquare(rows - 1) / (rows - 1), rows)
    for level in (0.5, 0.95, 0.9999):
        ends = model.interval(level)
        for end, tail in zip(ends, ((1 - level) / 2, (1 + level) / 2), strict=True):
            np.testing.assert_allclose(model.posterior_cdf(end), tail, rtol=1e-10)
            np.testing.assert_array_equal(end, model.posterior_quantile(tail))


def test_coverage_of_its_own_draws():
    _, y, s2, _ = rows_of(15, 4, seed=5)
    found = coverage(SampleMeans().fit(y, s2, 4), replicates=200, seed=1)
    assert abs(found.average - 0.95) < 4 * found.average_se + 0.015


def test_covariates_and_units():
    g = np.random.default_rng(3)
    _, y, s2, _ = rows_of(25, 4, seed=6)
    z = g.normal(size=25)
    model = SampleMeans().fit(y + 2 * z, s2, 4, covariates=z)
    large = SampleMeans().fit(1e60 * (y + 5), 1e120 * s2, 4, covariates=z)
    np.testing.assert_allclose(large.posterior_mean_ / 1e60, model.posterior_mean_ - 2 * z + 5, rtol=1e-6)
    assert large.beta_[0] / 1e60 + 2 == pytest.approx(model.beta_[0], rel=1e-6)
    low, high = variance_interval(model)
    assert low < model.tau2_ < high
    assert model.predict([0.5])[0] == pytest.approx(model.mu_ + 0.5 * model.beta_[0])


def test_rows_that_do_not_suffice_are_named():
    for arguments, words in (
        (([1.0, 2, 3], [1.0, 1, 1], 1), "no client's rows differ"),
        (([1.0, 2, 3], [0.0, 0, 0], 5), "no client's rows differ"),
        (([1.0, 2, 3], [1.0, 1], 5), "one entry per client"),
        (([], [], []), "means, variances and counts must be 1-d with one entry per client"),
        (([1.0, 2, 3], [1.0, 1, -1], 5), "variances must be >= 0"),
        (([1.0, 2, 3], [1.0, 1, 1], [5, 5, 0]), "counts"),
    ):
        with pytest.raises(ValueError, match=words):
            SampleMeans().fit(*arguments)
    with pytest.raises(ValueError, match="prior"):
        SampleMeans("moments").fit([1.0, 2, 3], [1.0, 1, 1], 5)
    with pytest.raises(ValueError, match="noise must be one of"):
        SampleMeans(noise="normal").fit([1.0, 2, 3], [1.0, 1, 1], 5)  # pyright: ignore[reportArgumentType]
    model = SampleMeans().fit([1.0, 2, 3, 7], [1.0, 0.0, 1, 0], [5, 5, 5, 1])  # rows that agree, and a single row
    assert np.isfinite(model.interval()).all()
    alone = SampleMeans("fixed", mu=0.0, tau2=1.0).fit([1.0], [3.0], 3)  # a variance of 1, as its rows have it
    assert (alone.posterior_mean_.tolist(), alone.weights_.tolist()) == ([0.5], [0.5])


@pytest.mark.parametrize("prior", [{"prior": "fixed", "mu": 0.5, "tau2": 2.0}, {}], ids=["known prior", "averaged"])
def test_joint_draws_have_the_posterior_laws_of_the_clients(prior):
    """Each draw takes the clients' variances from their law at its own tau2: quantiles of clients are met as often."""
    _, means, variances, _ = rows_of(6, 3, seed=2)
    model = SampleMeans(**prior).fit(means, variances, 3)
    draws = model.posterior_draws(20_000, seed=4)
    for q in (0.025, 0.2, 0.5, 0.8, 0.975):
        below = np.mean(draws <= model.posterior_quantile(q), axis=0)
        # 60 frequencies at a false alarm of 1e-6 in all: 5.6 binomial standard errors.
        np.testing.assert_allclose(below, q, atol=5.6 * np.sqrt(q * (1 - q) / 20_000))


def test_passes_over_the_data_are_counted_one_by_one():
    law = TLikelihood(np.array([0.0, 1.0, 3.0]), np.ones(3), np.full(3, 4.0), np.ones((3, 1)), 1.0, "reml", 0.0)
    law.look(0.5, np.array([-1.0, 0.0, 2.0]))
    law.look(0.7, np.array([-1.0, 0.0, 2.0]))
    assert law.passes == 2


def test_laws_of_clients_come_in_arrays_as_large_as_they_may_be(monkeypatch):
    """Those that need about as many variances together, all of them once."""
    _, y, s2, _ = rows_of(150, 4, seed=5)
    y[:5] += 30
    counts = np.where(np.arange(150) < 60, 3, 9)
    model = SampleMeans().fit(y, s2, counts)
    monkeypatch.setattr(sample_means, "WORK", most := 2**13)
    shares = model._nodes[3].size
    sizes = variance_spans(model.degrees_, width=model.widths(slice(None)))[2]
    kinds, pieces = np.ceil(8 * np.log2(sizes)), {}
    for rows, weights, *_ in model.laws():
        (kind,) = set(kinds[rows])
        assert weights.shape == (rows.size, shares * sizes[rows].max())
        assert weights.size <= most
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        pieces.setdefault(kind, []).append(rows)
    assert sorted(np.concatenate([rows for parts in pieces.values() for rows in parts])) == list(range(150))
    assert list(pieces) == sorted(pieces)
    assert max(map(len, pieces.values())) > 1
    for kind, parts in pieces.items():
        assert all((rows.size + 1) * shares * 2 ** (kind / 8) > most for rows in parts[:-1])


@pytest.mark.parametrize(("counts", "spread"), [((3, 12), 4.0), ((10, 40), 8.0), ((2, 4), 2.0), ((2, 3), 1.0)])
def test_intervals_are_those_of_a_far_finer_grid(counts, spread, monkeypatch):
    """Ends to 1e-6 of a posterior sd, down to clients of two rows whose variances have hardly a mean."""
    generator = np.random.default_rng(7)
    n = generator.integers(*counts, 200)
    noise = 2 * spread / generator.chisquare(spread, 200)
    y = generator.normal(size=200) + np.sqrt(noise / n) * generator.normal(size=200)
    y[:3] *= 6
    data = y, noise * generator.chisquare(n - 1) / (n - 1), n
    model = SampleMeans().fit(*data)
    found = model.posterior_quantiles(0.025, 0.5, 0.975)
    for name, value in (("DEEP", 50.0), ("CURVED", 40.0)):
        monkeypatch.setattr(sample_means, name, value)
    finer = SampleMeans().fit(*data)
    assert np.max(np.abs(found - finer.posterior_quantiles(0.025, 0.5, 0.975)) / finer.posterior_sd_) < 1e-6
    np.testing.assert_allclose(model.posterior_mean_, finer.posterior_mean_, atol=1e-6 * finer.posterior_sd_.min())
    np.testing.assert_allclose(model.posterior_sd_, finer.posterior_sd_, rtol=1e-6)


def test_widths_are_of_what_changes_fastest_by_brute_force_over_variances_and_spreads():
    """A client's posterior mean, in its sds, by the log of its variance."""
    _, y, s2, _ = rows_of(12, 4, seed=5)
    y[:2] += [30, -8]
    for model in (SampleMeans().fit(y, s2, 4), SampleMeans("fixed", mu=1.0, tau2=0.3).fit(y, s2, 4)):
        tau2s, (y_, v), mus = model._nodes[0], model._scaled, np.broadcast_to(model.centres()[0], (12, model._nodes[0].size))
        low, high = sample_means.ends(model.degrees_)
        exact = []
        for i in range(12):
            u = np.linspace(low[i], high[i], 4001)[:, None]
            noise = v[i] * np.exp(-u)
            moves = np.abs(y_[i] - mus[i]) * tau2s * noise / (tau2s + noise) ** 2
            exact.append(np.min(np.sqrt(tau2s * noise / (tau2s + noise)) / moves))
        np.testing.assert_allclose(model.widths(slice(None)), exact, rtol=1e-4)
        np.testing.assert_allclose(model.widths(slice(3, 5)), exact[3:5], rtol=1e-4)
    for prior, mu in (("bayes", None), ("bayes", 1.0), ("reml", None), ("reml", 1.0)):  # is it taken for true?
        assert SampleMeans(prior, mu).fit(y, s2, 4).independent == ((prior, mu) == ("reml", 1.0))
    still = SampleMeans("fixed", mu=1.0, tau2=0.0).fit(y, s2, 4)
    assert np.isinf(still.widths(slice(None))).all()
    assert still.posterior_cdf(1.0).tolist() == [1.0] * 12  # all are at the centre
    assert still.posterior_cdf(1.0, strict=True).tolist() == [0.0] * 12


@pytest.mark.parametrize("df", [4.0, 8.0, 30.0, 100.0, 1e3, 1e6])
@pytest.mark.parametrize("reach", [None, 0.5, 900.0])
def test_ends_of_variances_are_where_they_are_unlikely_given_rows_and_a_residual(df, reach):
    """The log density of chi-square(df) by its log, with that of a residual, less than that of its top by 20 to 24."""
    df, e2 = np.array([df]), reach or 0.0
    low, high = sample_means.ends(df) if reach is None else sample_means.ends(df, reach)
    sizes = -np.array([df * u - (df + e2) * np.exp(u) for u in (low, np.log(df / (df + e2)), high)])[:, 0] / 2
    assert 19.8 < sizes[0] - sizes[1] < 24.2
    if not e2:
        assert 20 < sizes[2] - sizes[1] < 24.2


def test_grids_of_variances_have_as_few_values_as_their_steps_allow():
    """Steps h with h^-2 at least df / 2 + 4, and what changes within a width adds its own: 1001 values at most."""
    df = np.array([1.5, 4.0, 60.0, 1e3, 7.0, np.inf])
    for width in (None, np.array([0.3, 2.0, 0.05, np.inf, 1e-9, 0.1])):
        low, high, sizes = variance_spans(df) if width is None else variance_spans(df, width=width)
        np.testing.assert_array_equal((low, high), sample_means.ends(df))
        needed = df / 2 + 4 + (0 if width is None else 1 / width**2)
        for i in range(5):
            if width is None or width[i] > 1e-3:
                steps = np.array([sizes[i] - 2, sizes[i] - 1]) / (high[i] - low[i])
                assert steps[0] ** 2 < needed[i] <= steps[1] ** 2
        assert sizes[-1] == 1
        assert width is None or sizes[4] == 1001
    far = variance_spans(df[:5], np.full(5, 9.0))
    np.testing.assert_array_equal(far[:2], sample_means.ends(df[:5], 9.0))


def test_likelihoods_of_means_far_from_the_others_and_what_is_left_of_them():
    """t laws with normal noise by quadrature where a residual is 300 sds; twelve sds are no less of many degrees."""
    y, v, df = np.array([0.3, 30.0, -0.2, 0.1]), np.array([0.01, 0.01, 0.04, 0.02]), np.array([5.0, 5.0, 8.0, 6.0])
    law = TLikelihood(y, v, df, np.full((4, 1), 0.5), 0.0, "marginal-likelihood", 1.5)
    exact = 0.0
    for mean, s2, d in zip(y, v, df, strict=True):

        def density(u, mean=mean, s2=s2, d=d):  # u: log of chi-square(d) / d
            noise = 0.02 + s2 * np.exp(-u)
            return stats.norm.pdf(mean, 0.0, np.sqrt(noise)) * stats.chi2.pdf(d * np.exp(u), d) * d * np.exp(u)

        exact += np.log(integrate.quad(density, -25, 5, epsabs=0, epsrel=1e-10, limit=500, points=[-10, -8, -6, -3, 0])[0])
    assert law.objective(np.array([0.02]), mu=np.zeros(1), restricted=False)[0] == pytest.approx(exact, rel=1e-6)
    ((gamma,),) = law.centre(np.array([0.02]))[0]
    order = np.argsort(v, kind="stable")
    np.testing.assert_allclose(law.residuals(0.02), y[order] - gamma / 2, rtol=1e-9)
    assert (law.power, law.alike(y, law.basis, "reml").power) == (1.5, 0.0)
    for k in (-10, 10):  # slopes are of no unit
        scaled = TLikelihood(np.ldexp(y, k), np.ldexp(v, 2 * k), df, law.basis, 0.0, "reml", 0.0)
        plain = TLikelihood(y, v, df, law.basis, 0.0, "reml", 0.0)
        for tau2 in (0.0, 0.02):
            found = np.ldexp(scaled.score(np.array([np.ldexp(tau2, 2 * k)])), 2 * k)
            assert found == pytest.approx(plain.score(np.array([tau2])), rel=1e-6)
    y, v = np.array([2e-3, -1e-3, 5e-4, 1.0]), np.array([1e-6, 1e-6, 2e-6, 1.0])
    wide = TLikelihood(y, v, df, np.full((4, 1), 0.5), 0.0, "marginal-likelihood", 0.0)
    ends = wide.objective(np.array([0.999e-6, 1.001e-6]))
    assert wide.score(np.array([1e-6]))[0] == pytest.approx(2 * (ends[1] - ends[0]) / 2e-9, rel=1e-3)
    sure = SampleLikelihood(np.array([12.0, 0.5, -1.0]), np.ones(3), np.full(3, 1e6), np.zeros((3, 0)), 0.0, "reml", 0.0)
    assert sure.squares(np.zeros(1))[0] == pytest.approx(12**2 + 0.5**2 + 1, rel=1e-4)


@pytest.mark.parametrize("seed", [3, 7, 8, 13, 16])
def test_steps_to_the_best_centre_are_halved_where_they_go_too_far(seed, monkeypatch):
    """Two groups and few degrees of freedom: Newton's steps alone would fall; the end is a maximum above the start."""
    g = np.random.default_rng(seed)
    m = int(g.integers(3, 8))
    y = g.normal(0, 1, m)
    y[: m // 2] += g.choice([3, 10, 30])
    law = TLikelihood(y, np.exp(g.uniform(-4, 1, m)), g.uniform(1.2, 4, m), np.full((m, 1), m**-0.5), 0.0, "reml", 0.0)
    seen, look = [], law.look

    def noted(tau2, residual):
        found = look(tau2, residual)
        seen.append((float(law.gamma[0]), found[0]))
        return found

    monkeypatch.setattr(law, "look", noted)
    top, information = law.best(0.01)
    last, height, halved = *seen[0], 0
    for (at, value), (after, _) in zip(seen[1:], [*seen[2:], (law.gamma[0], 0.0)], strict=True):
        if value < height - 1e-9:
            assert after == pytest.approx((at + last) / 2, rel=1e-12)
            halved += 1
        else:
            last, height = at, value
    assert halved > 0
    assert len(seen) < 30
    assert top == pytest.approx(height, rel=1e-12)
    assert top > seen[0][1]
    h = 1e-4
    ends = [law.objective(np.array([0.01]), law.start + law.gamma + d, restricted=False)[0] for d in (-h, 0.0, h)]
    assert (ends[2] - ends[0]) / (2 * h) == pytest.approx(0.0, abs=1e-5)
    assert -(ends[0] + ends[2] - 2 * ends[1]) / h**2 == pytest.approx(information[0, 0], rel=1e-3)


def test_grids_of_variances_are_as_fine_as_a_client_far_from_the_centre_needs():
    """Also where its mean is the centre with the other sign: distributions by quadrature over the chi-square law."""
    y, s2 = np.array([-20.0, 20.0, 20.5, 19.0, 21.0, 20.2]), np.array([9.0, 0.2, 14.0, 1.0, 30.0, 0.5])
    model = SampleMeans("fixed", mu=20.0, tau2=1.0).fit(y, s2, 4)
    assert np.isfinite(model.degrees_).all()
    at = model.posterior_mean_ + 0.3 * model.posterior_sd_
    for found, t, mean, v, d in zip(model.posterior_cdf(at), at, y, model.variances_, model.degrees_, strict=True):

        def below(x, t=t, mean=mean, v=v, d=d):
            noise = v * d / x
            own = (mean + noise * 20.0) / (1 + noise)
            return stats.norm.cdf((t - own) / np.sqrt(noise / (1 + noise))) * stats.chi2.pdf(x, d)

        assert found == pytest.approx(integrate.quad(below, 0, np.inf, epsabs=1e-11, limit=500)[0], abs=1e-8)
