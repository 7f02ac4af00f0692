"""Beta-binomial fits: SciPy as an outside oracle, published fits, merging of tallies, corners, bad input, coverage."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from estimators import BetaBinomial
from estimators.closed_forms import bernoulli
from estimators.counts import conjugate
from estimators.counts.beta_binomial import BetaBinomialTally, Surface

ML = "marginal-likelihood"


def load(path):
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")][1:]
    return np.array([[float(entry) for entry in line.split(",")] for line in lines]).T


def sample(m, alpha, beta, sizes, seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(*sizes, m)
    p = rng.beta(alpha, beta, m)
    return p, rng.binomial(n, p), n


def scipy_fit(x, n, start=(0.0, 1.0)):
    def loss(logs):
        return -stats.betabinom.logpmf(x, n, *np.exp(logs)).sum()

    found = optimize.minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000})
    return np.exp(found.x), -found.fun


counts = st.lists(st.integers(0, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=12)


@given(counts)
def test_no_prior_of_a_grid_is_likelier_than_the_fitted_one(clients):
    x, n = np.array(clients).T
    if n.max() < 2 or (n > 0).sum() < 2:
        return
    model = BetaBinomial(ML).fit(x, n)
    assert model.converged_
    for mu, s in itertools.product((0.01, 0.2, 0.5, 0.9), (1e-3, 0.1, 1.0, 10.0, 1e4)):
        other = BetaBinomial("fixed", alpha=mu * s, beta=(1 - mu) * s).fit(x, n)
        assert other.log_likelihood_ <= model.log_likelihood_ + 1e-9 * abs(model.log_likelihood_)
    assert np.isfinite(model.posterior_mean_).all()
    assert np.isfinite(model.posterior_sd_).all()
    low, high = model.interval(0.9)
    assert (low <= high).all()
    assert ((model.posterior_mean_ >= 0) & (model.posterior_mean_ <= 1)).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("alpha", "beta", "sizes"), [(2, 5, (2, 40)), (0.3, 0.2, (1, 9)), (30, 400, (50, 5000))])
def test_the_fit_is_scipys_and_its_score_vanishes(alpha, beta, sizes, seed):
    _, x, n = sample(60, alpha, beta, sizes, seed)
    model = BetaBinomial(ML).fit(x, n)
    shapes, value = scipy_fit(x, n, np.log([alpha, beta]))
    np.testing.assert_allclose(
        model.log_likelihood_, stats.betabinom.logpmf(x, n, model.alpha_, model.beta_).sum(), rtol=1e-10
    )
    assert model.log_likelihood_ >= value - 1e-8
    np.testing.assert_allclose([model.alpha_, model.beta_], shapes, rtol=1e-4)


def test_posterior_is_bayes_rule_by_quadrature():
    x, n = [0, 3, 7, 0], [4, 5, 7, 0]
    model = BetaBinomial("fixed", alpha=1.3, beta=0.8).fit(x, n)
    for i in range(4):

        def joint(p, i=i):
            return stats.beta.pdf(p, 1.3, 0.8) * stats.binom.pmf(x[i], n[i], p)

        total = integrate.quad(joint, 0, 1)[0]
        mean = integrate.quad(lambda p: p * joint(p), 0, 1)[0] / total
        variance = integrate.quad(lambda p, c=mean: (p - c) ** 2 * joint(p), 0, 1)[0] / total
        below = integrate.quad(joint, 0, 0.4)[0] / total
        np.testing.assert_allclose(
            [model.posterior_mean_[i], model.posterior_sd_[i] ** 2, model.posterior_cdf(0.4)[i]],
            [mean, variance, below],
            rtol=1e-6,
        )
    np.testing.assert_allclose(model.posterior_mean_[:3], bernoulli.posterior_mean(x[:3], n[:3], 1.3, 0.8))
    q = model.posterior_quantile(0.3)
    np.testing.assert_allclose(np.diag([model.posterior_cdf(t) for t in q]), 0.3, rtol=1e-12)
    np.testing.assert_allclose(model.posterior_cdf(q), 0.3, rtol=1e-12)


def test_moments_are_those_of_bernoulli_and_give_its_estimates():
    _, x, n = sample(200, 2, 3, (1, 12), 1)
    tally = BetaBinomialTally.of(x, n)
    for method, prior in (("unbiased", "moments"), ("naive", "naive-moments")):
        np.testing.assert_allclose(tally.moments(method), bernoulli.moments(x, n, method=method), rtol=1e-12)
        model = BetaBinomial(prior).fit(x, n)
        np.testing.assert_allclose(model.posterior_mean_, bernoulli.estimate_rates(x, n, method=method), rtol=1e-9)


def same(left, right):
    ours = [left.ones.values, left.ones.counts, left.zeros.values, left.zeros.counts, left.trials, left.clients, left.sums]
    theirs = [
        right.ones.values,
        right.ones.counts,
        right.zeros.values,
        right.zeros.counts,
        right.trials,
        right.clients,
        right.sums,
    ]
    pairs = zip([*ours, left.squares], [*theirs, right.squares], strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("sizes", [(0, 9), (0, 10**6), (5, 6)])
def test_tallies_merge_to_the_same_bits_in_any_order(sizes):
    _, x, n = sample(999, 2, 3, sizes, 2)
    whole = BetaBinomialTally.of(x, n)
    parts = [BetaBinomialTally.of(x[i::5], n[i::5]) for i in range(5)]
    forth = parts[0] + parts[1] + parts[2] + (parts[3] + parts[4])
    back = parts[4] + (parts[2] + parts[1]) + (parts[0] + parts[3])
    assert same(forth, back)
    assert same(forth, whole)
    one, many = BetaBinomial(ML).fit(x, n), BetaBinomial(ML).fit_tally(forth)
    assert (one.alpha_, one.beta_, one.log_likelihood_) == (many.alpha_, many.beta_, many.log_likelihood_)
    assert np.array_equal(np.concatenate([many.predict(x[i::5], n[i::5]) for i in range(5)]),
                          np.concatenate([one.posterior_mean_[i::5] for i in range(5)]))  # fmt: skip


def test_the_order_of_clients_and_the_names_of_the_outcomes_do_not_matter():
    _, x, n = sample(80, 2, 3, (1, 50), 3)
    model, turned, flipped = (
        BetaBinomial(ML).fit(x, n),
        BetaBinomial(ML).fit(x[::-1], n[::-1]),
        BetaBinomial(ML).fit(n - x, n),
    )
    assert (model.alpha_, model.beta_) == (turned.alpha_, turned.beta_)
    np.testing.assert_allclose((flipped.beta_, flipped.alpha_), (model.alpha_, model.beta_), rtol=1e-8)
    low, high = model.interval()
    np.testing.assert_allclose(flipped.interval(), (1 - high, 1 - low), atol=1e-8)


@pytest.mark.parametrize("prior", ["marginal-likelihood", "moments"])
def test_corners(prior):
    pooled = BetaBinomial(prior).fit([5, 5, 5], 10)
    assert (pooled.concentration_, pooled.posterior_mean_.tolist(), pooled.posterior_sd_.tolist()) == (
        np.inf,
        [0.5] * 3,
        [0] * 3,
    )
    assert pooled.log_likelihood_ == pytest.approx(stats.binom.logpmf(5, 10, 0.5) * 3, rel=1e-12)
    assert [end.tolist() for end in pooled.interval()] == [[0.5] * 3] * 2
    none, every = BetaBinomial(prior).fit([0, 0], [3, 9]), BetaBinomial(prior).fit([3, 9], [3, 9])
    assert (none.mean_, none.posterior_mean_.tolist(), none.log_likelihood_) == (0, [0, 0], 0)
    assert (every.mean_, every.posterior_mean_.tolist(), every.log_likelihood_) == (1, [1, 1], 0)
    assert (none.alpha_, none.beta_, every.alpha_, every.beta_) == (0, np.inf, np.inf, 0)
    assert none.posterior_cdf(0.0).tolist() == [1, 1]
    assert none.posterior_cdf(0.0, strict=True).tolist() == [0, 0]
    apart = BetaBinomial(prior).fit([0, 4, 4, 0, 0], [2, 4, 4, 2, 0])
    if prior == "marginal-likelihood":
        assert (apart.concentration_, apart.mean_, apart.posterior_mean_.tolist()) == (0, 0.5, [0, 1, 1, 0, 0.5])
        assert apart.log_likelihood_ == pytest.approx(4 * np.log(0.5), rel=1e-12)
        assert [end.tolist() for end in apart.interval()] == [[0, 1, 1, 0, 0], [0, 1, 1, 0, 1]]
        assert apart.posterior_cdf(0.3).tolist() == [1, 0, 0, 1, 0.5]
        assert apart.posterior_cdf(1.0).tolist() == apart.posterior_cdf(1.5, strict=True).tolist() == [1] * 5
        assert apart.posterior_cdf(1.0, strict=True).tolist() == [1, 0, 0, 1, 0.5]
    for model in (pooled, none, every, apart):
        truth, (x, n) = model.draw(np.random.default_rng(0))
        assert ((x <= n) & (truth >= 0)).all()
        assert model.converged_


def test_corners_are_limits():
    """Close to each corner the general path gives what the corner's own formula gives."""
    x, n = np.array([4, 6, 5]), np.array([10, 10, 12])
    for s in (1e9, 1e13):
        near = BetaBinomial("fixed", alpha=0.4 * s, beta=0.6 * s).fit(x, n)
        np.testing.assert_allclose(near.log_likelihood_, stats.binom.logpmf(x, n, 0.4).sum(), rtol=1e-7)
        np.testing.assert_allclose(near.posterior_mean_, 0.4, rtol=1e-6)
    wide = BetaBinomial("fixed", alpha=0.4e-9, beta=0.6e-9).fit([0, 3], [2, 3])
    np.testing.assert_allclose(wide.log_likelihood_, np.log(0.24), rtol=1e-7)
    only_zeros = BetaBinomial("fixed", alpha=2, beta=3).fit([0, 0], [2, 300])
    np.testing.assert_allclose(only_zeros.log_likelihood_, stats.betabinom.logpmf([0, 0], [2, 300], 2, 3).sum(), rtol=1e-12)


@pytest.mark.parametrize("many", [1, 1000])
@pytest.mark.parametrize("small", [5e-324, 1e-20])
def test_a_mean_that_rounds_to_an_end_leaves_posteriors_of_clients_with_the_other_outcome(small, many, monkeypatch):
    """With a beta of 1e-20 beside an alpha of 3 a client of 0 of 2 has a Beta(3, 2) law, not a point at one."""
    monkeypatch.setattr(conjugate, "MANY", many)
    x, law = np.array([0, 1, 2]), stats.beta([3, 4], [2, 1])
    for model, sign in (
        (BetaBinomial("fixed", alpha=3, beta=small).fit(x, 2), 1),
        (BetaBinomial("fixed", alpha=small, beta=3).fit(2 - x, 2), -1),
    ):
        end = float(sign > 0)  # of the third client
        np.testing.assert_allclose(model.posterior_mean_, [*(0.5 + sign * (law.mean() - 0.5)), end], rtol=1e-12, atol=1e-20)
        for q in (0.1, 0.7):
            right = [*(0.5 + sign * (law.ppf(q) - 0.5)), end]
            found = model.posterior_quantile(q if sign > 0 else 1 - q)
            np.testing.assert_allclose(found, right, rtol=1e-12)
        right = [*(law.cdf(0.4) if sign > 0 else law.sf(0.6)), 1 - end]
        np.testing.assert_allclose(model.posterior_cdf(0.4), right, rtol=1e-12)
        draws = model.sample_posterior(np.random.default_rng(2), 500)[:, 0]
        assert stats.kstest(draws if sign > 0 else 1 - draws, stats.beta(3, 2).cdf).pvalue > 1e-6
        assert model.draw(np.random.default_rng(3))[0].tolist() == [end] * 3


def test_a_client_of_one_trial_is_all_zeros_or_all_ones():
    model = BetaBinomial(ML).fit([0, 3, 1, 0], [2, 3, 1, 0])
    assert (model.mean_, model.concentration_) == (2 / 3, 0)
    assert model.posterior_mean_.tolist() == [0, 1, 1, 2 / 3]
    model = BetaBinomial(ML).fit([0, 1, 2, 0, 0], [1, 1, 2, 2, 0])
    for q in (0.1, 0.5, 0.9):  # of the last client 0 and 1 are as likely
        assert model.posterior_quantile(q).tolist() == [0, 1, 1, 0, float(q > 0.5)]
    assert model.sample_posterior(np.random.default_rng(0), 9)[:, :4].tolist() == [[0, 1, 1, 0]] * 9


@pytest.mark.parametrize("small", [5e-324, 1e-300, 1e-20, 1e-12, 1.0])
@pytest.mark.parametrize("x", [[0, 0], [0, 5], [1, 30]])
def test_a_given_prior_keeps_its_numbers_however_far_apart(small, x):
    """Of the mean and the concentration alone a beta of 1e-20 beside an alpha of 3 would be 0."""
    n = np.array([2, 30])
    one = BetaBinomial("fixed", alpha=small, beta=3).fit(x, n)
    two = BetaBinomial("fixed", alpha=3, beta=small).fit(n - x, n)  # the other name of the outcomes
    assert (one.alpha_, one.beta_, one.concentration_) == (small, 3, small + 3)
    assert (two.beta_, two.alpha_, two.concentration_) == (small, 3, small + 3)

    def log_rise(start, steps):  # of start (start + 1) ...
        return sum(np.log(start + j) for j in range(steps))

    chances = [log_rise(small, k) + log_rise(3, m - k) - log_rise(3 + small, m) for k, m in zip(x, n, strict=True)]
    right = sum(chances) + np.log(special.comb(n, x)).sum()
    assert one.log_likelihood_ == two.log_likelihood_ == pytest.approx(right, rel=1e-13, abs=1e-13)


def test_own_shares_are_those_of_the_counts_that_are_given():
    model = BetaBinomial(ML).fit([0, 2, 0], [4, 5, 0])
    np.testing.assert_array_equal(model.own_numbers(), [0, 0.4, np.nan])
    np.testing.assert_array_equal(model.own_numbers(([1, 5, 0], [4, 5, 0])), [0.25, 1, np.nan])


def test_without_trials_a_client_gets_the_prior():
    _, x, n = sample(40, 2, 3, (5, 20), 5)
    model = BetaBinomial(ML).fit([*x, 0], [*n, 0])
    prior = stats.beta(model.alpha_, model.beta_)
    np.testing.assert_allclose(
        [model.posterior_mean_[-1], model.posterior_sd_[-1], *(end[-1] for end in model.interval())],
        [prior.mean(), prior.std(), *prior.ppf([0.025, 0.975])],
        rtol=1e-9,
    )
    np.testing.assert_allclose(BetaBinomial(ML).fit(x, n).alpha_, model.alpha_, rtol=1e-9)


def test_rat_tumours(shared_data, monkeypatch):
    """BDA3, section 5.3 (from memory): posterior means of alpha 2.4, beta 14.3, mode of (log a/b, log a+b) (-1.75, 2.8).

    BDA's law is uniform in the mean and in (alpha + beta)^(-1/2), and the average takes any.
    """
    x, n = load(shared_data("efron_eb/rat-tumors.csv"))
    model = BetaBinomial(ML).fit(x, n)
    shapes, value = scipy_fit(x, n)
    np.testing.assert_allclose([model.alpha_, model.beta_], shapes, rtol=1e-5)
    assert model.log_likelihood_ == pytest.approx(value, abs=1e-8)
    assert [round(v, 4) for v in (model.alpha_, model.beta_, model.log_likelihood_)] == [2.3416, 14.1148, -156.5689]
    monkeypatch.setattr(Surface, "log_hyperprior", lambda surface, t, rho: -np.logaddexp(0, t) - np.logaddexp(0, -t))
    bayes = BetaBinomial().fit(x, n)
    mean, rho, weights = bayes.components_
    assert [round(float(weights @ v), 1) for v in (mean / rho, (1 - mean) / rho)] == [2.4, 14.3]
    assert weights @ np.log(mean / (1 - mean)) == pytest.approx(-1.78, abs=0.02)
    # Naive moments (BDA's starting point, "1.4 and 8.6").
    naive = BetaBinomial("naive-moments").fit(x, n)
    assert [round(naive.alpha_, 1), round(naive.beta_, 1)] == [1.4, 8.6]


@pytest.mark.parametrize("mixed", [1, 2, 40])
def test_clients_that_are_nearly_all_one_or_the_other_have_the_prior_of_their_shares(mixed):
    """Of two trials both kinds come with chance 1 / (2 (1 + rho)) where the mean is a half: the share that was seen."""
    x = np.repeat([0, 1, 2], [10_000, mixed, 10_000])
    model = BetaBinomial(ML).fit(x, 2)
    rho = x.size / (2 * mixed) - 1
    assert model.mean_ == pytest.approx(0.5, rel=1e-12)
    assert 1 / model.concentration_ == pytest.approx(rho, rel=1e-9)
    assert model.converged_


def test_the_average_over_priors_is_brute_forces(shared_data):
    """Posterior by a plain sum over 300 x 300 values of (logit mean, log concentration) with the stated hyperprior."""
    from scipy.special import betaln

    x, n = load(shared_data("efron_eb/surgical-mortality.csv"))
    t, ell = np.meshgrid(np.linspace(-4.2, -1.2, 240), np.linspace(0.5, 16, 300), indexing="ij")
    mu, s = 1 / (1 + np.exp(-t)), np.exp(ell)
    a, b = mu * s, (1 - mu) * s
    logs = np.log(mu * (1 - mu)) - ell - 1.5 * np.log(4 + n.mean() / s)  # density times the Jacobian
    for xi, ni in zip(x, n, strict=True):
        logs = logs + betaln(a + xi, b + ni - xi) - betaln(a, b)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    model = BetaBinomial().fit(x, n)
    assert model.components_.weights.sum() == pytest.approx(1, rel=1e-12)
    for i in (0, 3, 7):
        mean = (weights * (a + x[i]) / (s + n[i])).sum()
        square = (weights * (a + x[i]) * (a + x[i] + 1) / (s + n[i]) / (s + n[i] + 1)).sum()
        assert model.posterior_mean_[i] == pytest.approx(mean, rel=2e-4)
        assert model.posterior_sd_[i] == pytest.approx(np.sqrt(square - mean**2), rel=2e-3)
    low, high = model.interval()
    np.testing.assert_allclose(model.posterior_cdf(low), 0.025, rtol=1e-10)
    np.testing.assert_allclose(model.posterior_cdf(high), 0.975, rtol=1e-10)
    plug_in = BetaBinomial(ML).fit(x, n)
    assert (model.posterior_sd_ > plug_in.posterior_sd_).all()


def covered(model, m, reps, seed):
    """Share of truths inside 95 % intervals and its standard error, priors Beta(2, 6), 10 to 39 trials."""
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(reps):
        n = rng.integers(10, 40, m)
        p = rng.beta(2, 6, m)
        low, high = model.fit(rng.binomial(n, p), n).interval()
        shares.append(((low <= p) & (p <= high)).mean())
    return np.mean(shares), np.std(shares) / np.sqrt(reps)


def test_coverage():
    """Plug-in intervals are right with many clients and too short with ten; averaging over priors mends that."""
    many, error = covered(BetaBinomial(ML), 2000, 10, 0)
    assert abs(many - 0.95) < 5 * error < 0.015
    few, error = covered(BetaBinomial(ML), 10, 300, 1)
    assert few < 0.95 - 4 * error
    bayes, error = covered(BetaBinomial(), 10, 60, 2)
    assert abs(bayes - 0.95) < 4 * error < 0.05


def test_sign_rates_and_summary():
    _, x, n = sample(100, 2, 3, (5, 20), 6)
    model = BetaBinomial(ML).fit(x, n)
    np.testing.assert_allclose(model.local_false_sign_rate(), model.local_false_sign_rate(model.mean_))
    below = model.posterior_cdf(0.5)
    np.testing.assert_allclose(model.local_false_sign_rate(0.5), np.minimum(below, 1 - below))
    prior = stats.beta(model.alpha_, model.beta_)
    assert model.prior_summary()["sd"] == pytest.approx(prior.std(), rel=1e-9)
    assert all(type(v) in (str, float) for v in model.prior_summary().values())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: BetaBinomial(ML).fit([3, 1], 2), "client 0 has x = 3 of n = 2"),
        (lambda: BetaBinomial(ML).fit([0.5, 1], 2), "x must be a whole number"),
        (lambda: BetaBinomial(ML).fit([-1, 1], 2), "x must be a whole number"),
        (lambda: BetaBinomial(ML).fit([np.nan, 1], 2), "x holds NaN"),
        (lambda: BetaBinomial(ML).fit([1, 1], [2, np.inf]), "n must be finite"),
        (lambda: BetaBinomial(ML).fit([1, 1], [2, 2, 2]), "n must be one number or one per client"),
        (lambda: BetaBinomial(ML).fit([], []), "x must be a list with one count per client"),
        (lambda: BetaBinomial(ML).fit([1], 2), "at least two clients with trials"),
        (lambda: BetaBinomial(ML).fit([1, 0], [2, 0]), "at least two clients with trials"),
        (lambda: BetaBinomial(ML).fit([1, 0], 1), "n must be >= 2 for some client"),
        (lambda: BetaBinomial("moments").fit([1, 0], 1), "n must be >= 2 for some client"),
        (lambda: BetaBinomial(ML).fit([1, 0], 3e9), "n must be at most 2147483647"),
        (lambda: BetaBinomial("other").fit([1, 0], 2), "prior must be one of"),
        (lambda: BetaBinomial("fixed").fit([1, 0], 2), "alpha and beta must be given"),
        (lambda: BetaBinomial(alpha=1).fit([1, 0], 2), "alpha and beta must be given"),
        (lambda: BetaBinomial("fixed", alpha=1, beta=0).fit([1, 0], 2), "beta must be > 0"),
        (lambda: BetaBinomial().fit([0, 0], 2), "client with both ones and zeros"),
        (lambda: BetaBinomial(ML).interval(), "has not been fitted"),
        (lambda: BetaBinomial(ML).predict([1], 2), "has not been fitted"),
        (lambda: BetaBinomial(ML).fit([0, 2], 3).predict([1]), "x and n must be given together"),
        (lambda: BetaBinomial(ML).fit([0, 2], 3).predict(n=3), "x and n must be given together"),
        (lambda: BetaBinomial(ML).fit([0, 2], 3).posterior_quantile(0), "q must lie strictly between"),
        (lambda: BetaBinomial(ML).fit([0, 2], 3).interval(1.0), "level must lie strictly between"),
    ],
)
def test_bad_input_names_the_argument(call, words):
    with pytest.raises(ValueError, match=words):
        call()
