"""Discoveries: formulas by hand, optimal lists by brute force, error rates in simulation; checks of the prior."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from estimators import BetaBinomial, GaussianMeans, LinearClients, NonparametricCounts, PointNormalMeans, SampleMeans
from estimators.decisions import discoveries, exceedance, prior_check, tail_averages


def test_local_rates_of_a_spike_and_slab_by_hand():
    """lfdr = pi0 f0 / f (Efron 2008), lfsr = min(P(theta <= 0), P(theta >= 0)) (Stephens 2017), at the fitted prior."""
    y = np.array([0.1, -0.2, 0.3, -0.1, 0.0, 6.0, -7.0, 0.2])
    model = PointNormalMeans(mode=0.0, prior="marginal-likelihood").fit(y, variances=0.04)
    pi0, tau2 = model.spike_weight_, model.tau2_
    null, slab = pi0 * norm.pdf(y, 0, 0.2), (1 - pi0) * norm.pdf(y, 0, np.sqrt(0.04 + tau2))
    lfdr = null / (null + slab)
    assert model.local_false_discovery_rate() == pytest.approx(lfdr, abs=1e-12)
    assert model.local_false_discovery_rate(0.0) == pytest.approx(lfdr, abs=1e-12)
    assert model.local_false_discovery_rate(1.0) == pytest.approx(np.zeros(8), abs=1e-15)
    shrink = tau2 / (tau2 + 0.04)
    wrong = (1 - lfdr) * norm.cdf(-np.abs(y) * np.sqrt(shrink) / 0.2)
    found = discoveries(model, 0.05, at=0.0)
    assert found.error == pytest.approx(lfdr + wrong, abs=1e-9)
    differ = discoveries(model, 0.05, side="differs")
    assert np.flatnonzero(differ.selected).tolist() == [5, 6]
    assert differ.error == pytest.approx(lfdr, abs=1e-12)
    assert found.direction[5:7].tolist() == [1.0, -1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0.01, 0.99))
def test_the_selection_is_the_largest_list(errors, alpha):
    """By brute force over all lists: none with an average error of at most alpha is longer, but for ties at its end."""
    q = tail_averages(errors)
    selected = q <= alpha
    errors = np.array(errors)
    longest = max(
        (
            size
            for size in range(len(errors) + 1)
            if any(np.mean(errors[list(some)]) <= alpha for some in itertools.combinations(range(len(errors)), size) if some)
        ),
        default=0,
    )
    assert selected.sum() <= longest
    if selected.any():
        assert errors[selected].mean() <= alpha + 1e-12
    if selected.sum() < longest:  # equal errors go together, all or none
        rest = np.sort(errors[~selected])
        first = np.flatnonzero(~selected)[np.argmin(errors[~selected])]
        assert np.sum(errors == errors[first]) > 1 or abs(q[first] - alpha) < 1e-9
        assert rest.size
    order = np.argsort(errors, kind="stable")
    assert (np.diff(q[order]) >= -1e-12).all()
    assert (q <= errors + 1e-12).all()


def test_selections_are_wrong_as_often_as_they_say():
    """Truths from the prior, half of them at 0: share of wrong calls of 1500 data sets of 60 clients, and a control."""
    generator, replicates, alpha = np.random.default_rng(3), 1500, 0.1
    shares, naive = [], []
    for _ in range(replicates):
        truth = np.where(generator.random(60) < 0.5, 0.0, generator.normal(0, 2, 60))
        y = generator.normal(truth, 1.0)
        null, slab = 0.5 * norm.pdf(y), 0.5 * norm.pdf(y, 0, np.sqrt(5))
        lfdr = null / (null + slab)
        selected = tail_averages(lfdr) <= alpha
        shares.append(np.mean(truth[selected] == 0) if selected.any() else 0.0)
        raw = 2 * norm.sf(np.abs(y)) < 0.2  # p-values one by one
        naive.append(np.mean(truth[raw] == 0))
    error = np.std(shares) / np.sqrt(replicates)
    assert np.mean(shares) < alpha + 4.75 * error
    assert np.mean(shares) > alpha / 3
    assert np.mean(naive) > alpha + 4.75 * error  # negative control


@pytest.mark.parametrize("side", ["either", "above"])
def test_learnt_priors_keep_their_error_rate(side):
    """Default models that learn the prior: 200 data sets of 50 clients; the share of wrong signs is at most alpha."""
    generator, replicates, alpha, shares = np.random.default_rng(4), 200, 0.1, []
    for _ in range(replicates):
        truth = generator.normal(0.3, 1.0, 50)
        v = generator.uniform(0.2, 2.0, 50)
        found = discoveries(GaussianMeans().fit(generator.normal(truth, np.sqrt(v)), v), alpha, at=0.0, side=side)
        wrong = np.sign(truth) != found.direction
        shares.append(np.mean(wrong[found.selected]) if found.selected.any() else 0.0)
    error = np.std(shares) / np.sqrt(replicates)
    assert np.mean(shares) < alpha + 4.75 * error
    assert np.mean(shares) > alpha / 4


def test_sides_and_places():
    model = BetaBinomial("fixed", alpha=1, beta=1).fit([0, 5, 10], 10)
    found = discoveries(model, 0.05)
    assert found.at == 0.5
    assert found.direction.tolist() == [-1.0, 0.0, 1.0]
    assert found.selected.tolist() == [True, False, True]
    assert found.error == pytest.approx(model.local_false_sign_rate(), abs=1e-12)
    above, below = (discoveries(model, 0.05, 0.3, side) for side in ("above", "below"))
    assert above.error + below.error == pytest.approx(np.ones(3))
    assert exceedance(model, 0.3) == pytest.approx(1 - above.error)
    rows = [[[1.0], [1.0], [1.0]]] * 3
    lines = LinearClients().fit(rows, [[0.0, 1.0, 2.0], [5.0, 6.0, 7.0], [1.0, 1.0, 3.0]])
    assert discoveries(lines).at == 0.0
    assert discoveries(lines).error.shape == (3, 1)
    with pytest.raises(ValueError, match="use 'either'"):
        discoveries(model, side="differs")
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1"):
        discoveries(model, 1.0)
    with pytest.raises(ValueError, match="side must be"):
        discoveries(model, side="both")
    with pytest.raises(ValueError, match="errors"):
        tail_averages([0.1, 1.2])


def test_leave_one_out_ranks_are_those_of_refits():
    """Exact: fits without each client predict it, averaged over tau2 or at a known one, with covariates too."""
    y, v = np.array([2, 1.2, -0.5, 3, 0.8, 0.1, 5.0]), np.array([1, 0.25, 0.25, 4, 0.1, 1, 0.5])
    x = np.array([0.0, 1.0, 2.0, 4.0, 3.0, 1.5, 0.5])
    for model, covariates in (
        (GaussianMeans("fixed", tau2=0.7), None),
        (GaussianMeans("fixed", tau2=0.7), x),
        # Laws of tau2 that do not depend on the clients' variances, as the default's scale does.
        (GaussianMeans(hyperprior="flat-tau"), None),
        (GaussianMeans(hyperprior="flat-tau"), x),
    ):
        given_x = () if covariates is None else (covariates,)
        found = model.fit(y, v, *given_x).predictive_ranks()
        for i in range(7):
            kept = np.arange(7) != i
            other = type(model)(**model.get_params()).fit(y[kept], v[kept], *(a[kept] for a in given_x))
            means, spreads, _ = other.new_clients(None if covariates is None else covariates[i : i + 1])
            scale = 2.0**other._exponent
            z = (y[i] / scale - means[0]) / np.sqrt(spreads[0] + v[i] / scale**2)
            assert found[i] == pytest.approx(float(np.sum(other._nodes[-1] * norm.cdf(z))), abs=2e-5)


def test_predictive_values_are_even_where_the_prior_is_true():
    generator = np.random.default_rng(6)
    rates = generator.beta(2, 6, 3000)
    n = generator.integers(1, 30, 3000)
    right = BetaBinomial("fixed", alpha=2, beta=6).fit(generator.binomial(n, rates), n)
    check = prior_check(right, seed=1)
    assert check.p_value > 1e-4
    assert check.note == ""
    assert check.p_value == pytest.approx(kstest(check.pit, "uniform").pvalue, rel=1e-6)
    wrong = BetaBinomial("fixed", alpha=20, beta=60).fit(right.clients_[0], n)
    assert prior_check(wrong, seed=1).p_value < 1e-6
    assert not (prior_check(wrong).low <= prior_check(wrong).observed).all()
    same = prior_check(right, seed=1)
    assert np.array_equal(same.pit, check.pit)


def test_checks_of_every_kind():
    y = np.array([0.1, -0.2, 0.3, -0.1, 0.0, 6.0, -7.0, 0.2])
    normal = prior_check(GaussianMeans().fit(y, 0.04))
    assert normal.left_out
    assert "p-value is too large" in normal.note
    assert "gross misfits only" in normal.note
    assert not prior_check(PointNormalMeans().fit(y, 0.04), draws=50).left_out
    unheard = NonparametricCounts().fit([3, 5, 0, 9], [1.0, 2.0, 0.0, 1.0])
    assert np.isnan(prior_check(unheard, draws=20).pit).tolist() == [False, False, True, False]
    rows = SampleMeans().fit([1.0, 2.0, 4.0, 3.0], [1.0, 2.0, 0.5, 1.0], 4)
    assert ((prior_check(rows, draws=20).pit > 0) & (prior_check(rows, draws=20).pit < 1)).all()
    lines = LinearClients().fit([[[1.0], [1.0], [1.0]]] * 3, [[0.0, 1.0, 2.0], [5.0, 6.0, 7.0], [1.0, 1.0, 3.0]])
    with pytest.raises(ValueError, match="one number per client, which LinearClients has not"):
        prior_check(lines)
