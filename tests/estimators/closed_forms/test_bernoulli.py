"""Bernoulli clients: limits, SciPy as an outside oracle, unbiasedness by enumeration, privacy, bad input, real elections."""

import csv
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from estimators.closed_forms import bernoulli

shapes = st.floats(-2, 2).map(lambda x: 10.0**x)
sizes = st.integers(1, 40)
budgets = st.floats(-2, 1.5).map(lambda x: 10.0**x)


@given(shapes, shapes, sizes)
def test_posterior_mean_and_risks_against_scipy(alpha, beta, n):
    z = np.arange(n + 1)
    law = stats.betabinom(n, alpha, beta).pmf(z)
    posterior = [stats.beta(alpha + k, beta + n - k) for k in z]
    np.testing.assert_allclose(bernoulli.posterior_mean(z, n, alpha, beta), [b.mean() for b in posterior], rtol=1e-9)
    np.testing.assert_allclose(bernoulli.prior_variance(alpha, beta), stats.beta(alpha, beta).var(), rtol=1e-9)
    risk = sum(q * b.var() for q, b in zip(law, posterior, strict=True))
    np.testing.assert_allclose(bernoulli.mse(alpha, beta, n), risk, rtol=1e-6)
    spread = stats.betabinom(n, alpha, beta).var() / n**2
    np.testing.assert_allclose(bernoulli.naive_variance_mean(alpha, beta, n), spread, rtol=1e-8)


@given(shapes, shapes, sizes, st.floats(-0.5, 1.5))
def test_the_posterior_weight_is_best_and_gains(alpha, beta, n, weight):
    best = bernoulli.mse(alpha, beta, n)
    assert best <= bernoulli.mse(alpha, beta, n, weight) * (1 + 1e-12)
    np.testing.assert_allclose(bernoulli.mse(alpha, beta, n, bernoulli.posterior_weight(alpha, beta, n)), best, rtol=1e-9)
    np.testing.assert_allclose(1 - best / bernoulli.local_mse(alpha, beta, n), bernoulli.shrinkage_gain(alpha, beta, n),
                               rtol=1e-6, atol=1e-12)  # fmt: skip


@given(shapes, shapes, sizes)
def test_naive_estimates_keep_more_than_half_on_the_own_share(alpha, beta, n):
    reached = bernoulli.limit_weight(alpha, beta, n)
    assert bernoulli.posterior_weight(alpha, beta, n) < reached <= 1
    assert reached > n / (2 * n - 1) * (1 - 1e-12)
    variance = bernoulli.naive_variance_mean(alpha, beta, n)
    mu = alpha / (alpha + beta)
    np.testing.assert_allclose(bernoulli.shrinkage_weight(mu, variance, n), reached, rtol=1e-9)
    worse = bernoulli.mse(alpha, beta, n, reached) / bernoulli.mse(alpha, beta, n) - 1
    np.testing.assert_allclose(worse, bernoulli.naive_excess(alpha, beta, n), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n", [[2, 2], [1, 4, 2], [3, 1, 1]])
def test_unbiased_moments_are_unbiased_for_any_sizes_and_any_prior(n):
    """A prior that is no Beta: 0.2 or 0.7 with probabilities 0.3 and 0.7."""
    prior = {0.2: 0.3, 0.7: 0.7}
    mu = sum(p * q for p, q in prior.items())
    variance = sum(p**2 * q for p, q in prior.items()) - mu**2
    laws = [sum(q * stats.binom(k, p).pmf(np.arange(k + 1)) for p, q in prior.items()) for k in n]
    total = np.zeros(2)
    for z in itertools.product(*(range(k + 1) for k in n)):
        total += np.prod([law[k] for law, k in zip(laws, z, strict=True)]) * np.array(bernoulli.moments(z, n))
    np.testing.assert_allclose(total, [mu, variance], rtol=1e-12)


def test_estimated_rates_approach_the_posterior_means():
    rng = np.random.default_rng(0)
    n = rng.integers(1, 8, 40_000)
    p = rng.beta(3, 5, len(n))
    x = rng.binomial(n, p)
    best = np.mean((bernoulli.posterior_mean(x, n, 3, 5) - p) ** 2)
    unbiased = np.mean((bernoulli.estimate_rates(x, n) - p) ** 2)
    naive = np.mean((bernoulli.estimate_rates(x, n, method="naive") - p) ** 2)
    assert best <= unbiased < 1.01 * best < 1.2 * best < naive


def test_private_moments_serve_the_clients_who_keep_their_data():
    rng = np.random.default_rng(4)
    n = np.full(30_000, 3)
    p = rng.beta(4, 4, len(n))
    x = rng.binomial(n, p)
    prior = bernoulli.moments_from_reports(*bernoulli.private_reports(x, n, eps=2.0, rng=rng))
    risk = np.mean((bernoulli.estimate_rates(x, n, prior=prior) - p) ** 2)
    assert bernoulli.mse(4, 4, 3) * 0.97 < risk < bernoulli.mse(4, 4, 3) * 1.1
    # What the printed private estimates lead to, for comparison: a weight above n/(n+1).
    assert risk < 0.5 * bernoulli.mse(4, 4, 3, weight=3 / 4)


def test_weights_at_the_ends():
    assert bernoulli.shrinkage_weight(0.5, -0.1, 4) == 0
    assert bernoulli.shrinkage_weight(0.5, 0.0, 4) == 0
    assert bernoulli.shrinkage_weight(0.5, 9.0, 4) == 1
    assert bernoulli.shrinkage_weight(0.0, 0.1, 4) == 0
    assert bernoulli.estimate_rates([0, 0, 0], 5).tolist() == [0, 0, 0]


@given(st.floats(0, 1), st.floats(0, 1), budgets)
def test_two_point_law_is_unbiased_and_private(x, other, eps):
    rise = np.expm1(eps)
    low, high = -1 / rise, 1 + 1 / rise

    def law(x):
        # The share of high reports follows from mean and range, without the randomiser's code.
        return np.array([(high - x) / (high - low), (x - low) / (high - low)])

    variance = law(x) @ np.array([low, high]) ** 2 - x**2
    np.testing.assert_allclose(bernoulli.report_variance(x, eps=eps), variance, rtol=1e-7, atol=1e-12)
    assert (law(x) <= np.exp(eps) * law(other) * (1 + 1e-9)).all()
    np.testing.assert_allclose((law(1.0) / law(0.0))[1], np.exp(eps), rtol=1e-7)


def test_randomize_draws_that_law():
    rng = np.random.default_rng(1)
    x = rng.random((4, 250_000)) * 0 + np.array([[0.0], [0.3], [0.8], [1.0]])
    drawn = bernoulli.randomize(x, eps=1.2, rng=rng)
    assert len(np.unique(drawn.round(9))) == 2
    error = np.sqrt(bernoulli.report_variance(x[:, 0], eps=1.2) / x.shape[1])
    assert (abs(drawn.mean(axis=1) - x[:, 0]) < 5 * error).all()


def test_two_reports_compose_exactly_as_dp_accounting_says(dp_accounting):
    losses = dp_accounting.pld.privacy_loss_distribution
    # (7) at the inputs 0 and 1 is randomised response between two outputs.
    eps = 0.8
    p_flip = 2 / (np.exp(eps) + 1)
    one = losses.from_randomized_response(p_flip, 2, value_discretization_interval=1e-4)
    assert one.get_delta_for_epsilon(eps * (1 + 1e-3)) < 1e-9 < one.get_delta_for_epsilon(eps * 0.99)
    both = one.self_compose(2)
    assert both.get_delta_for_epsilon(2 * eps * (1 + 1e-3)) < 1e-9 < both.get_delta_for_epsilon(2 * eps * 0.99)


def test_private_protocol_learns_the_variance():
    rng = np.random.default_rng(2)
    alpha, beta, clients, eps = 1.0, 2.0, 4000, 2.0
    found, sizes = [], (0, 0)
    for _ in range(60):
        n = rng.integers(1, 6, clients)
        x = rng.binomial(n, rng.beta(alpha, beta, clients))
        reports = bernoulli.private_reports(x, n, eps=eps, rng=rng)
        sizes = len(reports.means), len(reports.pairs)
        assert sum(sizes) == clients
        found.append(bernoulli.moments_from_reports(*reports).sigma2)
    deviation = np.sqrt(bernoulli.private_variance(alpha, beta, *sizes, eps=eps))
    assert abs(np.mean(found) - bernoulli.prior_variance(alpha, beta)) < 5 * deviation / np.sqrt(len(found))
    assert 0.6 < np.std(found) / deviation < 1.6


def test_the_choice_of_report_does_not_look_at_the_data():
    n = np.array([1, 2, 3, 4, 5, 2, 1])
    sizes = {
        tuple(len(part) for part in bernoulli.private_reports(x, n, eps=1.0, rng=np.random.default_rng(3)))
        for x in (np.zeros(7, int), n, n // 2)
    }
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("one", "two", "pairs"), [(0, 10, 5), (4, 6, 5), (8, 2, 2), (0, 4, 2), (0, 3, 1), (1, 2, 1), (6, 3, 3), (1, 9, 4)]
)
def test_half_of_the_clients_report_pairs_or_all_who_can(one, two, pairs):
    """So many clients with one sample, and with two."""
    n = np.repeat([1, 2], [one, two])
    found = bernoulli.private_reports(np.zeros(len(n), int), n, eps=1.0, rng=np.random.default_rng(3))
    assert (len(found.means), len(found.pairs)) == (len(n) - pairs, pairs)


def test_ends_of_domains():
    largest = float(np.nextafter(1e300, np.inf))
    assert bernoulli.prior_variance(1e300, 1e300) == pytest.approx(0.125e-300, rel=1e-12, abs=0)
    for prior in ((largest, 1.0), (1.0, largest)):
        with pytest.raises(ValueError, match="at most 1e300"):
            bernoulli.prior_variance(*prior)
    assert bernoulli.report_variance(0.5, eps=700.0) == pytest.approx(0.25)
    with pytest.raises(ValueError, match="eps must be <= 700"):
        bernoulli.report_variance(0.5, eps=np.nextafter(700.0, 701.0))
    assert bernoulli.estimate_rates([1, 2], 4, prior=bernoulli.Moments(1.3, 0.1)).tolist() == [1, 1]  # a mean of all ones
    assert bernoulli.estimate_rates([1, 2], 4, prior=bernoulli.Moments(-0.3, 0.1)).tolist() == [0, 0]
    assert bernoulli.moments_from_reports([0.0, 1.0], [0.75]) == (0.5, 0.75)  # two reports' mean product is 0
    with pytest.raises(ValueError, match="at least three clients"):
        bernoulli.private_reports([1, 1], 2, eps=1.0, rng=np.random.default_rng(0))


@given(shapes, shapes, st.integers(2, 1000), st.integers(1, 1000), budgets)
def test_private_variance_falls_with_clients_and_budget(alpha, beta, m1, m2, eps):
    def variance(m1=m1, m2=m2, eps=eps):
        return bernoulli.private_variance(alpha, beta, m1, m2, eps=eps)

    assert 0 < variance(eps=2 * eps) <= variance()
    assert variance(m1=2 * m1) < variance()
    assert variance(m2=2 * m2) < variance()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bernoulli.posterior_mean(3, 2, 1, 1), "x must not exceed n"),
        (lambda: bernoulli.posterior_mean(1, 2, 0, 1), "alpha must be > 0"),
        (lambda: bernoulli.posterior_mean(np.nan, 2, 1, 1), "x holds NaN"),
        (lambda: bernoulli.mse(1, 1, 0), "n must be a whole number >= 1"),
        (lambda: bernoulli.mse(1, 1, 2, np.inf), "weight must be finite"),
        (lambda: bernoulli.naive_variance_mean(1, 1, 2, 2), "m must be a whole number >= 3"),
        (lambda: bernoulli.moments([1], 2), "at least two clients"),
        (lambda: bernoulli.moments([], 2), "at least two clients"),
        (lambda: bernoulli.moments([0, 1], [1, 1]), "n must be >= 2"),
        (lambda: bernoulli.moments([0, 1, 1], [2, 2]), "one entry per client"),
        (lambda: bernoulli.moments([0, 1], 2, method="other"), "method must be one of"),
        (lambda: bernoulli.shrinkage_weight(1.5, 0.1, 2), r"mu must lie in \[0, 1\]"),
        (lambda: bernoulli.randomize(0.5, eps=0.0, rng=np.random.default_rng(0)), "eps must be > 0"),
        (lambda: bernoulli.randomize(0.5, eps=1e4, rng=np.random.default_rng(0)), "eps must be <= 700"),
        (lambda: bernoulli.randomize(1.5, eps=1.0, rng=np.random.default_rng(0)), r"x must lie in \[0, 1\]"),
        (lambda: bernoulli.report_variance(0.5, eps=-1), "eps must be > 0"),
        (lambda: bernoulli.private_reports([1, 1, 0], 1, eps=1.0, rng=np.random.default_rng(0)), "two of them with n >= 2"),
        (lambda: bernoulli.private_reports(1, 2, eps=1.0, rng=np.random.default_rng(0)), "list of the clients' counts"),
        (lambda: bernoulli.moments_from_reports([1.0], [1.0]), "means must be a list of at least two"),
        (lambda: bernoulli.moments_from_reports([1.0, 0.0], []), "pairs must be a list of at least one"),
        (lambda: bernoulli.private_variance(1, 1, 1, 1, eps=1.0), "m1 must be a whole number >= 2"),
    ],
)
def test_bad_input_names_the_argument(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_embedded_election_counts_and_quoted_gain_from_the_returns(shared_data):
    from theory.papers.generative.bernoulli_experiments import election_cells

    years = (2000, 2004, 2008, 2012, 2016, 2020)
    votes: dict[str, dict[int, list[tuple[int, int]]]] = {}
    with open(shared_data("us_county_elections/county_pres_2000_2024.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            county = votes.setdefault(row["county_fips"], {})
            county.setdefault(int(row["year"]), []).append((int(row["votes_dem"]), int(row["votes_rep"])))
    counties = [c for c in votes.values() if all(len(c.get(y, ())) == 1 for y in years)]
    share = np.array([[c[y][0][1] / sum(c[y][0]) for y in years] for c in counties])
    won = np.array([[c[y][0][1] > c[y][0][0] for y in years] for c in counties])
    assert len(counties) == 3150
    gains = {"share": [], "outcome": []}
    for i in range(6):
        x = np.delete(won, i, axis=1).sum(axis=1)
        for target, y in (("share", share[:, i]), ("outcome", won[:, i].astype(float))):
            for wins, (z, k, first, second) in enumerate(election_cells(target)[i]):
                inside = y[x == wins]
                assert (z, k) == (wins, len(inside))
                np.testing.assert_allclose([float(first), float(second)], [inside.sum(), (inside**2).sum()], atol=1e-6)
            estimate = bernoulli.estimate_rates(x, 5, method="naive")
            gains[target].append(1 - np.sum((estimate - y) ** 2) / np.sum((x / 5 - y) ** 2))
    assert abs(np.mean(gains["share"]) - 0.107) < 0.019
    assert np.mean(gains["outcome"]) < 0.02
