"""Nonparametric models on data: published and other software's numbers, posteriors, limits and bad input."""

import copy
import csv

import numpy as np
import pytest
from scipy import stats

from estimators.npmle import optimality_gap, poisson_clients
from estimators.npmle.nonparametric import NonparametricCounts, NonparametricMeans, NonparametricRates, robbins

CLAIMS = np.repeat(np.arange(8), [7840, 1317, 239, 42, 14, 4, 4, 1])


def numbers(path, *names):
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [np.array([float(row[name]) for row in rows]) for name in names]


def test_woba_equals_ebnm_on_its_grid_and_beats_it_on_the_line(shared_data):
    """R ebnm 1.1-42, ebnm_npmle(x, s): 994.192998.

    Its grid (ebnm_scale_npmle): spacing min(s) (64 / n)^(1/4), rounded down to a whole number of steps over the range: 95
    points.
    """
    x, s = numbers(shared_data("baseball/woba_2022.csv"), "x", "s")
    points = int(np.ceil(np.ptp(x) / (s.min() * (64 / x.size) ** 0.25))) + 1
    on_grid = NonparametricMeans(grid=np.linspace(x.min(), x.max(), points)).fit(x, s**2)
    assert points == 95
    assert on_grid.converged_
    assert on_grid.log_likelihood_ == pytest.approx(994.192998, abs=1e-5)
    anywhere = NonparametricMeans(tolerance=1e-6).fit(x, s**2)
    assert anywhere.log_likelihood_ > on_grid.log_likelihood_
    # The certificate of the grid's solution sees what the line adds.
    assert 0 <= anywhere.gap_ < 1e-6
    assert anywhere.log_likelihood_ <= on_grid.log_likelihood_ + on_grid.gap_


def test_prostate(shared_data):
    (z,) = numbers(shared_data("efron_eb/empirikos_prostz.txt"), "Z")
    model = NonparametricMeans(tolerance=1e-5).fit(z, 1.0)
    assert z.size == 6033
    assert model.gap_ < 1e-5
    normal = stats.norm.logpdf(z, z.mean(), z.std()).sum()
    assert model.log_likelihood_ > normal
    assert model.support_.size < 10
    assert model.log_likelihood_ == pytest.approx(-9286.000047, abs=1e-5)  # this package's own, certified by the gap
    assert np.all(np.diff(model.posterior_mean_[np.argsort(z)]) >= -1e-12)  # equal variances: posterior means are ordered


def test_insurance_claims(shared_data):
    """Thyrion's claims; Robbins' row as printed by Efron and Hastie (2016), table 6.1."""
    (claims,) = numbers(shared_data("efron_eb/bayesgof_AutoIns.csv"), "AutoIns")
    assert np.array_equal(np.bincount(claims.astype(int)), np.bincount(CLAIMS))
    first = np.unique(CLAIMS, return_index=True)[1]
    assert robbins(CLAIMS)[first].round(3).tolist() == [0.168, 0.363, 0.527, 1.333, 1.429, 6.0, 1.75, 0.0]
    model = NonparametricCounts(tolerance=1e-6).fit(CLAIMS)
    assert model.gap_ < 1e-6
    assert model.posterior_mean_[first][:3] == pytest.approx([0.168, 0.363, 0.527], abs=0.004)
    assert np.all(np.diff(model.posterior_mean_[first]) > 0)
    assert model.predictive_mean(2.0)[0] == 2 * model.posterior_mean_[0]
    # Simar (1976) as quoted in the literature, from memory: atoms 0, .3356, 2.5454 with masses .4184, .5730, .0087.
    printed = optimality_gap(poisson_clients(CLAIMS), [0, 0.3356, 2.5454], [0.4184, 0.573, 0.0087])[1]
    assert model.log_likelihood_ - 1e-3 < printed < model.log_likelihood_


@pytest.mark.parametrize(("name", "trials", "atoms"), [("surgical-mortality", "K", 12), ("rat-tumors", "N", 71)])
def test_binomial_data(shared_data, name, trials, atoms):
    path = shared_data(f"efron_eb/{name}.csv")
    header = next(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    trials = trials if trials in header.split(",") else header.split(",")[1]
    x, n = numbers(path, "y", trials)
    model = NonparametricRates(tolerance=1e-6).fit(x, n)
    assert x.size == atoms
    assert model.gap_ < 1e-6
    assert np.all((model.support_ >= 0) & (model.support_ <= 1))
    beta = max(
        stats.betabinom.logpmf(x, n, m * a, (1 - m) * a).sum()
        for m in np.linspace(0.05, 0.2, 7)
        for a in (5, 10, 20, 50, 100)
    )
    assert model.log_likelihood_ > beta
    # The mean of the posterior means is the mean of the prior: a consequence of D = 1 on the support.
    assert np.mean(model.posterior_mean_) == pytest.approx(model.masses_ @ model.support_, rel=1e-4)


def posterior_by_hand(model, likelihood):
    joint = likelihood * model.masses_
    return joint / joint.sum(axis=1, keepdims=True)


def models():
    rng = np.random.default_rng(5)
    theta = rng.choice([-1.0, 2.0], 60)
    v = rng.uniform(0.2, 2, 60)
    x = theta + np.sqrt(v) * rng.standard_normal(60)
    gaussian = NonparametricMeans().fit(x, v)
    yield gaussian, stats.norm.pdf(x[:, None], gaussian.support_, np.sqrt(v)[:, None])
    n = rng.integers(1, 30, 60)
    k = rng.binomial(n, rng.beta(2, 5, 60))
    binomial = NonparametricRates().fit(k, n)
    yield binomial, stats.binom.pmf(k[:, None], n[:, None], binomial.support_)
    exposure = rng.uniform(0.5, 4, 60)
    k = rng.poisson(exposure * rng.gamma(2, 1, 60))
    poisson = NonparametricCounts().fit(k, exposure)
    yield poisson, stats.poisson.pmf(k[:, None], exposure[:, None] * poisson.support_)


@pytest.mark.parametrize("index", range(3))
def test_posteriors(index):
    model, likelihood = list(models())[index]
    weights = posterior_by_hand(model, likelihood)
    assert model.converged_
    assert model.gap_ <= 1e-4
    assert model.log_likelihood_ == pytest.approx(np.log(likelihood @ model.masses_).sum(), rel=1e-12)
    assert model.posterior_weights() == pytest.approx(weights, abs=1e-12)
    mean = weights @ model.support_
    assert model.posterior_mean_ == pytest.approx(mean, rel=1e-12)
    assert model.posterior_sd_**2 == pytest.approx(weights @ model.support_**2 - mean**2, abs=1e-10)
    middle = float(model.support_[model.support_.size // 2])
    assert model.posterior_cdf(middle) - model.posterior_cdf(middle, strict=True) == pytest.approx(
        weights[:, model.support_.size // 2], abs=1e-12
    )
    for q in (0.0, 0.025, 0.5, 1.0):
        quantile = model.posterior_quantile(q)
        assert np.isin(quantile, model.support_).all()
        for i, t in enumerate(quantile):
            assert weights[i, model.support_ <= t].sum() >= q - 1e-9
            assert q == 0 or weights[i, model.support_ < t].sum() < q + 1e-9
    low, high = model.interval(0.9)
    assert (low <= high).all()
    assert np.all(model.local_false_sign_rate(middle) <= 1)
    summary = model.prior_summary()
    assert len(summary["means"]) == len(summary["probabilities"]) == model.support_.size
    assert type(summary["mean"]) is float


def test_intervals_count_that_the_prior_was_learnt():
    """A normal prior of 40 clients: posteriors of its few fitted points hold half of the truths, intervals nearly all."""
    held, generator = {"integrated": [], "posterior": []}, np.random.default_rng(7)
    for _ in range(12):
        truth = generator.standard_normal(40)
        model = NonparametricMeans().fit(generator.normal(truth, 1.0), np.ones(40))
        for method, found in held.items():
            low, high = model.interval(method=method)
            found.append(np.mean((low <= truth) & (truth <= high)))
            assert method == "posterior" or (low < high).all()
    assert np.mean(held["integrated"]) > 0.93 - 5 * np.std(held["integrated"]) / np.sqrt(12)
    assert np.mean(held["posterior"]) < 0.75
    # Equal clients fix no point either; all families, and clients without information.
    for model, data in (
        (NonparametricMeans(), ([2.0] * 6, [1.0, 1.0, 1.0, 1.0, 1.0, np.inf])),
        (NonparametricRates(), ([3, 3, 3, 3, 0], [9, 9, 9, 9, 0])),
        (NonparametricCounts(), ([3, 3, 3, 3, 0], [1.0, 1.0, 1.0, 1.0, 0.0])),
    ):
        low, high = model.fit(*data).interval()
        assert (low < high).all()
        np.testing.assert_array_equal(model.interval(), (low, high))


@pytest.mark.parametrize("index", range(3))
def test_draws_can_be_fitted(index):
    model, _ = list(models())[index]
    truth, arguments = model.draw(np.random.default_rng(0))
    again, same = model.draw(np.random.default_rng(0))
    assert np.array_equal(truth, again)
    assert np.array_equal(arguments[0], same[0])
    assert np.isin(truth, model.support_).all()
    fresh = type(model)(**model.get_params()).fit(*arguments)
    assert fresh.posterior_mean_.shape == truth.shape


def test_new_estimates_of_means_have_the_stated_variances():
    variances = np.tile([0.04, 1.0, 25.0], 4000)
    model = NonparametricMeans(grid=[-1.0, 2.0]).fit(np.resize([-1.0, 2.0], variances.size), variances)
    truth, (estimates, stated) = model.draw(np.random.default_rng(1))
    np.testing.assert_array_equal(stated, variances)
    z = (estimates - truth) / np.sqrt(variances)
    for part in range(3):
        assert stats.kstest(z[part::3], stats.norm.cdf).pvalue > 1e-5


def test_a_client_without_information_gets_the_prior():
    means = NonparametricMeans().fit([-3, 3, 3, 0], [1, 1, 1, np.inf])
    assert means.log_likelihood_ == NonparametricMeans().fit([-3, 3, 3], [1, 1, 1]).log_likelihood_
    assert means.posterior_weights()[3] == pytest.approx(means.masses_, rel=1e-12)
    assert np.isfinite(means.draw(np.random.default_rng(0))[1][0]).all()
    rates = NonparametricRates().fit([1, 9, 0], [10, 10, 0])
    assert rates.posterior_weights()[2] == pytest.approx(rates.masses_, rel=1e-12)
    counts = NonparametricCounts().fit([1, 30, 0], [1, 1, 0])
    assert counts.posterior_weights()[2] == pytest.approx(counts.masses_, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "theta"),
    [
        (NonparametricMeans().fit([2.5], 1.0), 2.5),
        (NonparametricMeans().fit([2.5] * 5, [1, 2, 3, 4, 5]), 2.5),
        (NonparametricRates().fit([3] * 4, 10), 0.3),
        (NonparametricRates().fit([0], [7]), 0.0),
        (NonparametricRates().fit([7], [7]), 1.0),
        (NonparametricCounts().fit([0, 0]), 0.0),
        (NonparametricCounts().fit([4]), 4.0),
    ],
)
def test_equal_clients_give_one_atom(model, theta):
    assert model.support_ == pytest.approx([theta], abs=1e-12)
    assert model.masses_.tolist() == [1.0]
    assert model.posterior_sd_ == pytest.approx(np.zeros(model.posterior_mean_.size), abs=1e-12)
    assert model.gap_ < 1e-9


@pytest.mark.parametrize(
    ("model", "arguments", "silent"),
    [
        (NonparametricMeans, ([3.0, -1.0, 0.5, 3.0, 2.0], [1.0, 2.0, 1.0, 1.0, 0.25]), (7.0, np.inf)),
        (NonparametricRates, ([3, 1, 0, 3, 9], [4, 8, 5, 4, 10]), (0, 0)),
        (NonparametricCounts, ([3, 1, 0, 3, 9], [4.0, 8.0, 5.0, 4.0, 1.0]), (0, 0.0)),
    ],
)
def test_a_client_s_numbers_depend_on_its_data_and_not_on_its_place(model, arguments, silent):
    """Equal clients, another order, and one who knows nothing: each has its numbers, that one the prior."""
    first, second = (np.append(a, b) for a, b in zip(arguments, silent, strict=True))
    order = np.array([5, 4, 2, 0, 1, 3])
    one, other = (model().fit(first[at], second[at]) for at in (np.arange(6), order))

    def of(fitted):
        averaged = copy.copy(fitted)
        averaged._drawn = cells, priors  # the same ones: which clients they are drawn for is not asked here
        return [
            fitted.posterior_mean_, fitted.posterior_sd_, fitted.posterior_cdf(0.4), fitted.posterior_quantile(0.3),
            averaged.posterior_cdf(0.4), averaged.posterior_quantile(0.1), *fitted.posterior_weights().T,
        ]  # fmt: skip

    cells, priors = one.averaged(0)._drawn
    for ours, theirs in zip(of(one), of(other), strict=True):
        assert ours[order].tobytes() == theirs.tobytes()
        assert ours[0] == ours[3]
    np.testing.assert_allclose(one.posterior_weights()[5], one.masses_, rtol=1e-12)
    assert one.posterior_mean_[5] == pytest.approx(one.masses_ @ one.support_, rel=1e-12)
    # Bayes' rule in each client's own numbers.
    law = {
        NonparametricMeans: lambda t: stats.norm.pdf(first[:5, None], t, np.sqrt(second[:5, None])),
        NonparametricRates: lambda t: stats.binom.pmf(first[:5, None], second[:5, None], t),
        NonparametricCounts: lambda t: stats.poisson.pmf(first[:5, None], second[:5, None] * t),
    }[model]
    heard = law(one.support_) * one.masses_
    np.testing.assert_allclose(one.posterior_weights()[:5], heard / heard.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-300)


def test_too_few_rounds_are_reported():
    rng = np.random.default_rng(0)
    x = 3 * rng.standard_normal(200)
    with pytest.warns(RuntimeWarning, match="raise max_iter"):
        model = NonparametricMeans(max_iter=1).fit(x, 1.0)
    assert not model.converged_
    best = NonparametricMeans().fit(x, 1.0)
    assert model.gap_ > 1e-4
    assert model.log_likelihood_ + model.gap_ >= best.log_likelihood_


@pytest.mark.parametrize(
    ("model", "arguments", "match"),
    [
        (NonparametricMeans(), ([1, np.nan], 1.0), "estimates holds NaN"),
        (NonparametricMeans(), ([1, np.inf], 1.0), "estimates must be finite"),
        (NonparametricMeans(), ([1, 2], [1, 0]), "variances must be > 0"),
        (NonparametricMeans(), ([1, 2], [1, -1]), "variances must be >= 0"),
        (NonparametricMeans(), ([1, 2], [1, 1, 1]), "variances must have one entry per client"),
        (NonparametricMeans(), ([], []), "estimates must be a one-dimensional"),
        (NonparametricMeans(), ([1, 2], np.inf), "no client carries information"),
        (NonparametricMeans(tolerance=0), ([1, 2], 1.0), "tolerance must be > 0"),
        (NonparametricMeans(max_iter=0), ([1, 2], 1.0), "max_iter must be a whole number"),
        (NonparametricMeans(threads=0), ([1, 2], 1.0), "threads must be a whole number"),
        (NonparametricMeans(grid=[]), ([1, 2], 1.0), "grid must be"),
        (NonparametricMeans(grid=[np.nan]), ([1, 2], 1.0), "grid holds NaN"),
        (NonparametricRates(), ([3], [2]), "x must not exceed n"),
        (NonparametricRates(), ([0.5], [2]), "x must be a whole number"),
        (NonparametricRates(), ([1], [1.5]), "n must be a whole number"),
        (NonparametricRates(grid=[0.5, 2]), ([1], [2]), "grid must lie in"),
        (NonparametricRates(grid=[0.0, 1.0]), ([1], [2]), "no likelihood at all"),
        (NonparametricCounts(), ([-1], 1.0), "x must be a whole number"),
        (NonparametricCounts(), ([1], 0.0), "x must be 0 where exposure is 0"),
        (NonparametricCounts(), ([1], np.inf), "exposure must be finite"),
    ],
)
def test_bad_input(model, arguments, match):
    with pytest.raises(ValueError, match=match):
        model.fit(*arguments)


def test_before_the_fit():
    for call in (NonparametricMeans().prior_summary, NonparametricMeans().posterior_weights, NonparametricMeans().interval):
        with pytest.raises(ValueError, match="call fit first"):
            call()


def test_new_data_are_those_of_the_generator_at_the_truths():
    truth, rng = np.array([1.0, 2.0, 30.0]), np.random.default_rng
    e = np.array([1.0, 2.0, 0.5])
    rates = NonparametricCounts().fit([0, 3, 9], e)
    _, (x, same) = rates.draw(rng(1), truth)
    np.testing.assert_array_equal((x, same), (rng(1).poisson(truth * e), e))
    np.testing.assert_array_equal(rates.own_numbers(([4, 8, 1], e)), [4, 4, 2])
    means = NonparametricMeans().fit([0.0, 1.0, 5.0], [1.0, 2.0, np.inf])
    _, (y, _) = means.draw(rng(1), truth)
    np.testing.assert_allclose(y, truth + np.sqrt([1, 2, 0]) * rng(1).standard_normal(3), rtol=1e-15)
    np.testing.assert_array_equal(means.own_numbers(([4.0, 8.0, 1.0],)), [4, 8, np.nan])
    assert means.prior_summary()["sds"] == [0.0] * means.support_.size
