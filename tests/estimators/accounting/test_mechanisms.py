"""Mechanisms: laws, round trips, outside oracles (mpmath, SciPy, dp-accounting if installed), bad input."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from estimators.accounting import mechanisms, privacy

budgets = st.floats(-6, 4).map(lambda x: 10.0**x)
deltas = st.floats(-12, -0.05).map(lambda x: 10.0**x)
FEW = settings(max_examples=max(1, settings().max_examples // 3))


def exact_delta(eps, step):
    """Return the curve of Gaussian noise with enough digits."""
    with mpmath.workdps(120):
        eps, step = mpmath.mpf(eps), mpmath.mpf(step)
        return mpmath.ncdf(step / 2 - eps / step) - mpmath.exp(eps) * mpmath.ncdf(-step / 2 - eps / step)


# --- Gaussian noise ----------------------------------------------------------------------------------------------------


@FEW
@given(budgets, deltas)
def test_the_smallest_noise_gives_exactly_delta(eps, delta):
    sigma = mechanisms.gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0)
    # a last digit of sigma moves delta by a factor that grows with the distance into the tail
    allowed = 1e-13 * (10 + eps * sigma**2 + 1 / sigma**2 + (eps * sigma) ** 2)
    assert abs(float(exact_delta(eps, 1 / sigma) / delta) - 1) < max(allowed, 1e-11)


@FEW
@given(budgets, deltas, st.floats(0.1, 10))
def test_smallest_noise_is_monotone_and_scales_with_the_sensitivity(eps, delta, sensitivity):
    def sigma(eps=eps, delta=delta, sensitivity=sensitivity):
        return mechanisms.gaussian_sigma(eps=eps, delta=delta, sensitivity=sensitivity)

    assert sigma(eps=1.5 * eps) < sigma()
    assert sigma(delta=delta / 2) > sigma()
    assert sigma(sensitivity=4 * sensitivity) == pytest.approx(4 * sigma(), rel=1e-13)


@FEW
@given(budgets, deltas)
def test_noise_and_eps_are_inverse(eps, delta):
    sigma = mechanisms.gaussian_sigma(eps=eps, delta=delta, sensitivity=2.0)
    back = mechanisms.gaussian_epsilon(delta=delta, sensitivity=2.0, sigma=sigma)
    # at eps far below delta the curve is flat in eps and digits of sigma do not determine it
    assert back == pytest.approx(eps, rel=1e-9, abs=1e-12 * (1 + 1 / sigma))


def test_calibration_at_the_ends():
    def sigma(eps, delta):
        return float(mechanisms.gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0))

    assert sigma(1.0, 0.0) == np.inf
    assert sigma(1.0, 1.0) == sigma(np.inf, 0.5) == 0
    assert mechanisms.gaussian_sigma(eps=1.0, delta=0.0, sensitivity=0.0) == 0
    assert sigma(0.0, 1e-5) == pytest.approx(1 / (1e-5 * np.sqrt(2 * np.pi)), rel=1e-9)
    assert sigma(1e12, 1e-5) == pytest.approx(1 / np.sqrt(2e12), rel=1e-4)
    assert sigma(1.0, 1e-300) == pytest.approx(36.8654978941111, rel=1e-12)
    for eps, delta in ((5e-324, 5e-324), (1e300, 0.5), (1e-12, 1 - 1e-16), (1e12, 1 - 1e-16)):
        assert sigma(eps, delta) > 0
    assert mechanisms.gaussian_epsilon(delta=0.0, sensitivity=1.0, sigma=1.0) == np.inf
    assert mechanisms.gaussian_epsilon(delta=0.5, sensitivity=1.0, sigma=1.0) == 0
    assert mechanisms.gaussian_epsilon(delta=0.5, sensitivity=1.0, sigma=0.0) == np.inf
    shaped = mechanisms.gaussian_sigma(eps=[[1.0], [2.0]], delta=[1e-5, 1e-6], sensitivity=1.0)
    assert shaped.shape == (2, 2)


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_what_nothing_moves_or_delta_allows_costs_nothing(sigma):
    for delta in (0.0, 1e-5, 1.0):
        assert mechanisms.gaussian_epsilon(delta=delta, sensitivity=0.0, sigma=sigma) == 0
    assert mechanisms.gaussian_epsilon(delta=1.0, sensitivity=2.0, sigma=sigma) == 0


def test_golden_noise():
    """dp-accounting 0.6.0: get_sigma_gaussian(1, 1e-5) = 3.730632; Balle and Wang's figure gives the same."""
    assert mechanisms.gaussian_sigma(eps=1.0, delta=1e-5, sensitivity=1.0) == pytest.approx(3.730632, abs=1e-6)


@pytest.mark.parametrize(("eps", "delta"), [(0.1, 1e-3), (1.0, 1e-5), (8.0, 1e-6), (50.0, 1e-9)])
def test_agrees_with_dp_accounting(dp_accounting, eps, delta):
    sigma = mechanisms.gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0)
    losses = dp_accounting.pld.privacy_loss_distribution
    loss = losses.from_gaussian_mechanism(float(sigma), value_discretization_interval=1e-4)
    assert loss.get_delta_for_epsilon(eps) == pytest.approx(delta, rel=2e-2)


@FEW
@given(st.floats(1e-3, mechanisms.CLASSICAL_EPS), deltas)
def test_classical_noise_is_enough_and_more_than_the_smallest(eps, delta):
    classical = mechanisms.classical_gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0)
    assert classical >= mechanisms.gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0)


def test_classical_noise_is_refused_where_it_can_fail():
    with pytest.raises(ValueError, match="use gaussian_sigma"):
        mechanisms.classical_gaussian_sigma(eps=4.0, delta=1e-5, sensitivity=1.0)
    assert np.sqrt(2 * np.log(1.25e5)) / 10 < mechanisms.gaussian_sigma(eps=10.0, delta=1e-5, sensitivity=1.0)


def test_a_private_mean_has_the_noise_of_its_adjacency():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((50, 3)) * 5
    setting = {"c": 1.5, "eps": 2.0, "delta": 1e-4}
    for adjacency, factor in (("replace", 2.0), ("add-remove", 1.0)):
        draws = [mechanisms.private_mean(values, adjacency=adjacency, rng=rng, **setting) for _ in range(250)]
        sigma = mechanisms.gaussian_sigma(eps=2.0, delta=1e-4, sensitivity=factor * 1.5) / 50
        assert np.std(draws, axis=0) == pytest.approx(np.full(3, sigma), rel=0.25)
        norms = np.linalg.norm(values, axis=1)
        clipped = values * np.minimum(1, 1.5 / norms)[:, None]
        np.testing.assert_allclose(np.mean(draws, axis=0), clipped.mean(axis=0), atol=6 * sigma / np.sqrt(250))


# --- clipping ----------------------------------------------------------------------------------------------------------


@given(st.floats(0, 10), st.floats(0.01, 100), st.integers(1, 10**6), deltas, st.floats(-1, 1))
def test_the_clipping_bound_rarely_clips(bound, sigma2, n, beta, where):
    c = mechanisms.clipping_bound(bound=bound, sigma2=sigma2, n=n, beta=beta)
    chance = mechanisms.clipping_probability(c=c, centre=where * bound, sigma2=sigma2, n=n)
    assert 0 <= chance <= beta
    assert mechanisms.clipping_probability(c=c, centre=bound + 40 * np.sqrt(sigma2), sigma2=sigma2, n=n) > 0.99


# --- exponential mechanism ---------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=6), st.floats(0, 20), st.floats(0.1, 10))
def test_probabilities_are_a_softmax(scores, eps, sensitivity):
    found = mechanisms.exponential_probabilities(scores, eps=eps, sensitivity=sensitivity)
    np.testing.assert_allclose(found, softmax(np.array(scores) * eps / (2 * sensitivity)), rtol=1e-9, atol=1e-300)


def test_gumbel_choices_follow_the_probabilities():
    rng = np.random.default_rng(7)
    scores, setting = [0.0, 1.0, 0.3], {"eps": 1.5, "sensitivity": 0.5}
    chosen = mechanisms.exponential_choice(scores, rng=rng, size=100_000, **setting)
    share = np.bincount(chosen, minlength=3) / 100_000
    np.testing.assert_allclose(share, mechanisms.exponential_probabilities(scores, **setting), atol=0.01)


@FEW
@given(st.lists(st.floats(0, 1), min_size=2, max_size=4), st.floats(0.01, 8), st.randoms(use_true_random=False))
def test_no_neighbour_exceeds_the_exact_eps(scores, eps, random):
    """Scores in [0, 1] of sensitivity 1/4: range over sensitivity is 4."""
    moved = [min(1.0, max(0.0, s + random.choice((-0.25, 0.25)))) for s in scores]
    p, q = (mechanisms.exponential_probabilities(s, eps=eps, sensitivity=0.25) for s in (scores, moved))
    exact = mechanisms.exponential_epsilon(eps=eps, n_candidates=len(scores), score_range=1.0, sensitivity=0.25)
    assert np.abs(np.log(p / q)).max() <= exact + 1e-9
    assert exact <= eps
    for order in (1.5, 2.0, 10.0):
        rho = mechanisms.exponential_zcdp(eps=eps)
        assert privacy.renyi_divergence(p, q, order=order) <= privacy.rdp_from_zcdp(rho, order) + 1e-12


def test_exact_eps_has_its_limits():
    assert mechanisms.exponential_epsilon(eps=3.0) == 3.0
    assert mechanisms.exponential_epsilon(eps=3.0, n_candidates=5) == pytest.approx(3.0)
    assert mechanisms.exponential_epsilon(eps=0.0, n_candidates=5) == 0
    assert mechanisms.exponential_epsilon(eps=900.0, n_candidates=2, score_range=2.0) == pytest.approx(900 - np.log(2))
    assert mechanisms.exponential_epsilon(eps=1e-9, n_candidates=2, score_range=1.0) == pytest.approx(5e-10)


# --- subsampling and accounting ------------------------------------------------------------------------------------------


@given(st.floats(0, 60), deltas, st.floats(0, 1))
def test_amplification_never_hurts_and_has_its_limits(eps, delta, q):
    small, lost = mechanisms.amplified_budget(eps=eps, delta=delta, sampling_rate=q)
    assert 0 <= small <= eps * (1 + 1e-12) + 1e-15
    assert lost == q * delta
    assert mechanisms.amplified_budget(eps=eps, delta=delta, sampling_rate=1.0)[0] == pytest.approx(eps)
    if eps <= 1:
        assert small <= 2 * q * eps
    # sampling twice is sampling once at the product of the rates
    twice = mechanisms.amplified_budget(eps=small, delta=lost, sampling_rate=0.5)
    once = mechanisms.amplified_budget(eps=eps, delta=delta, sampling_rate=q / 2)
    np.testing.assert_allclose(twice, once, rtol=1e-9, atol=1e-300)


@given(st.floats(-6, 3).map(lambda x: 10.0**x), deltas)
def test_zcdp_conversion_is_the_best_of_all_orders(rho, delta):
    eps = privacy.epsilon_from_zcdp(rho=rho, delta=delta)
    orders = 1 + np.geomspace(1e-6, 1e8, 3000)
    assert eps <= privacy.epsilon_from_rdp(orders, rho * orders, delta=delta) * (1 + 1e-9) + 1e-15
    assert eps <= rho + 2 * np.sqrt(-rho * np.log(delta))  # Bun and Steinke 2016
    # the exact curve of the Gaussian mechanism of that rate lies below
    assert privacy.gaussian_delta(eps=eps, sensitivity=np.sqrt(2 * rho), sigma=1.0) <= delta * (1 + 1e-9)


def test_zcdp_conversion_at_the_ends():
    assert privacy.epsilon_from_zcdp(rho=0.0, delta=0.0) == 0
    assert privacy.epsilon_from_zcdp(rho=1.0, delta=0.0) == privacy.epsilon_from_zcdp(rho=np.inf, delta=0.1) == np.inf
    assert privacy.epsilon_from_zcdp(rho=1.0, delta=1.0) == 0


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_renyi_divergence_rises_with_the_order(p, q):
    laws = [p, 1 - p], [q, 1 - q]
    values = [privacy.renyi_divergence(*laws, order=a) for a in (1, 1.5, 2, 7, 200, np.inf)]
    assert all(a <= b + 1e-12 for a, b in pairwise(values))
    assert privacy.renyi_divergence(laws[0], laws[0], order=3) == 0


def test_renyi_divergence_of_what_cannot_happen():
    assert privacy.renyi_divergence([1.0, 0.0], [0.5, 0.5], order=2) == pytest.approx(np.log(2))
    assert privacy.renyi_divergence([0.5, 0.5], [1.0, 0.0], order=2) == np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mechanisms.gaussian_sigma(eps=-1, delta=0.1, sensitivity=1), "eps"),
        (lambda: mechanisms.gaussian_sigma(eps=np.nan, delta=0.1, sensitivity=1), "eps holds NaN"),
        (lambda: mechanisms.gaussian_sigma(eps=1, delta=2, sensitivity=1), "delta"),
        (lambda: mechanisms.gaussian_epsilon(delta=0.1, sensitivity=1, sigma=-1), "sigma"),
        (lambda: mechanisms.classical_gaussian_sigma(eps=0, delta=0.1, sensitivity=1), "eps must be > 0"),
        (lambda: mechanisms.clipped_sum_sensitivity(c=1, adjacency="swap"), "adjacency must be one of"),
        (lambda: mechanisms.accuracy_sensitivity(n=1, adjacency="remove"), "n must be a whole number >= 2"),
        (lambda: mechanisms.private_mean([], c=1, eps=1, delta=0.1, adjacency="replace", rng=None), "values"),
        (lambda: mechanisms.clipping_bound(bound=1, sigma2=-1, n=1, beta=0.1), "sigma2"),
        (lambda: mechanisms.exponential_probabilities([], eps=1, sensitivity=1), "scores"),
        (lambda: mechanisms.exponential_probabilities([1.0], eps=1, sensitivity=0), "sensitivity"),
        (lambda: mechanisms.exponential_epsilon(eps=1, n_candidates=2, score_range=0.5), "score_range"),
        (lambda: mechanisms.amplified_budget(eps=1, delta=0.1, sampling_rate=1.5), "sampling_rate"),
        (lambda: privacy.epsilon_at_order(order=1, rdp=1, delta=0.1), "order"),
        (lambda: privacy.renyi_divergence([0.5, 0.6], [0.5, 0.5], order=2), "p must add to 1"),
        (lambda: privacy.rdp_from_zcdp(1, 1), "order"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("eps", [1e-9, 1.0, 30.0, 31.0, 500.0, 710.0, 1e4])
@pytest.mark.parametrize("rate", [1e-300, 1e-12, 0.3])
def test_an_amplified_eps_keeps_its_digits(eps, rate):
    with mpmath.workdps(400):
        exact = float(mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(mpmath.mpf(eps))))
    found, _ = mechanisms.amplified_budget(eps=eps, delta=0.0, sampling_rate=rate)
    assert found == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("step", [1e-6, 0.03, 0.7, 1.0, 2.5, 7.9, 8.0, 8.1, 40.0])
@pytest.mark.parametrize("share", [1 - 1e-11, 0.999, 0.5, 1e-3, 1e-30])
def test_eps_of_gaussian_noise_is_the_smallest_float_that_holds(step, share):
    """At shares of the delta that noise has at eps = 0, from next to it to far below, with 120 digits."""
    delta = float(exact_delta(0.0, step) * mpmath.mpf(share))
    eps = float(mechanisms.gaussian_epsilon(delta=delta, sensitivity=step, sigma=1.0))
    assert exact_delta(eps, step) <= delta
    assert eps == 0 or exact_delta(np.nextafter(eps, 0.0), step) > delta


@pytest.mark.parametrize("step", [0.2, 0.6, 1.2, 1.4, 3.0])
def test_the_float_next_below_the_delta_that_costs_nothing_costs_a_little(step):
    most = exact_delta(0.0, step)
    delta = float(most) if float(most) < most else float(np.nextafter(float(most), 0.0))
    eps = float(mechanisms.gaussian_epsilon(delta=delta, sensitivity=step, sigma=1.0))
    assert exact_delta(eps, step) <= delta < exact_delta(np.nextafter(eps, 0.0), step)


def test_eps_of_gaussian_noise_has_its_last_float_far_out():
    eps = float(mechanisms.gaussian_epsilon(delta=1e-300, sensitivity=1.0, sigma=1.0))
    assert exact_delta(eps, 1.0) <= 1e-300 < exact_delta(np.nextafter(eps, 0.0), 1.0)
    eps = float(mechanisms.gaussian_epsilon(delta=0.5, sensitivity=1e150, sigma=1.0))  # where the loss is half a square
    assert Fraction(eps) >= Fraction(1e150) ** 2 / 2 > Fraction(float(np.nextafter(eps, 0.0)))


@pytest.mark.parametrize("eps", [0.1, 1.0, 5.0])
def test_noise_for_a_delta_next_to_one_has_the_digits_of_what_is_missing(eps):
    sigma = mechanisms.gaussian_sigma(eps=eps, delta=1 - 2.0**-40, sensitivity=1.0)
    assert float(1 - exact_delta(eps, 1 / mpmath.mpf(float(sigma)))) == pytest.approx(2.0**-40, rel=1e-11, abs=0)


def test_a_clipping_bound_is_finite_for_every_beta():
    found = mechanisms.clipping_bound(bound=1.0, sigma2=4.0, n=10, beta=5e-324)
    assert found == pytest.approx(1 + 2 * np.sqrt(2 * (np.log(10) + 1074 * np.log(2))), rel=1e-14)


@pytest.mark.parametrize(("c", "centre", "sigma2", "n"), [(0.5, 0.2, 2.0, 1), (3.0, -1.4, 0.7, 40), (9.0, 1.0, 1.0, 1000)])
def test_chances_to_clip_are_those_of_mpmath(c, centre, sigma2, n):
    with mpmath.workdps(50):
        deviation = mpmath.sqrt(mpmath.mpf(sigma2))
        stay = mpmath.ncdf((c - centre) / deviation) - mpmath.ncdf((-c - centre) / deviation)
        exact = float(1 - stay**n)
    assert mechanisms.clipping_probability(c=c, centre=centre, sigma2=sigma2, n=n) == pytest.approx(exact, rel=1e-11, abs=0)


@pytest.mark.parametrize(
    ("eps", "candidates", "spread", "sensitivity"), [(0.4, 2, 1.0, 1.0), (3.0, 7, 5.0, 2.0), (45.0, 3, 3.5, 2.5)]
)
def test_exact_eps_of_the_exponential_mechanism_is_its_formula(eps, candidates, spread, sensitivity):
    with mpmath.workdps(50):
        e = mpmath.mpf(eps)
        w = (candidates - 1) * mpmath.exp(e * spread / sensitivity / 2)
        exact = float(mpmath.log(mpmath.exp(e) * (1 + w) / (mpmath.exp(e) + w)))
    found = mechanisms.exponential_epsilon(eps=eps, n_candidates=candidates, score_range=spread, sensitivity=sensitivity)
    assert found == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("eps", "delta", "q"), [(0.01, 1e-6, 0.3), (2.0, 0.1, 0.05), (690.0, 1e-3, 0.9), (720.0, 1e-3, 0.2)]
)
def test_amplified_budgets_are_their_formula(eps, delta, q):
    with mpmath.workdps(400):
        exact = float(mpmath.log(1 + mpmath.mpf(q) * (mpmath.exp(mpmath.mpf(eps)) - 1)))
    found = mechanisms.amplified_budget(eps=eps, delta=delta, sampling_rate=q)
    assert tuple(map(float, found)) == pytest.approx((exact, q * delta), rel=1e-13)


@pytest.mark.parametrize("digits", [30, 60, 400])
def test_tails_of_the_normal_law_keep_all_digits_asked_for(digits):
    """Behind eps to its last float: pi, and the Mills ratio on both sides of where its series gives way."""
    with localcontext() as context, mpmath.workdps(digits + 30):
        context.prec = digits
        pi = mechanisms.pi()
        assert abs(mpmath.mpf(str(pi)) / mpmath.pi - 1) < mpmath.mpf(10) ** (1 - digits)
        width = (2 * pi).sqrt()
        for x in (-30.0, -4.5, -3.0, 0.001, 1.0, 3.9, 4.1, 12.0, 5000.0):
            exact = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(mpmath.mpf(x) ** 2 / 2) * mpmath.erfc(x / mpmath.sqrt(2))
            found = mpmath.mpf(str(mechanisms.mills(Decimal(x), width)))
            assert abs(found / exact - 1) < mpmath.mpf(10) ** (12 - digits)  # what the series loses to cancellation
