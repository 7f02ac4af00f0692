"""Noise on random batches: the compiled curves, their calibration, and dp-accounting beside them."""

import math
import tracemalloc
from time import perf_counter

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import binom

from estimators.accounting import dpsgd, losses, privacy, subsampling_kernels
from estimators.accounting.accountants import divergences, epsilon, fixed_batch_rdp, noise_for
from estimators.accounting.budget import guarantee
from estimators.accounting.events import Event
from estimators.accounting.losses import loss_epsilon
from estimators.accounting.mechanisms import gaussian_epsilon
from estimators.accounting.privacy import ORDERS

SETTINGS = [(0.01, 1.0), (0.3, 2.0), (0.2, 20.0), (0.9, 0.7), (0.001, 0.6)]


@pytest.mark.parametrize(("rate", "z"), SETTINGS)
def test_poisson_curve_is_the_known_one(rate, z):
    known = privacy.rdp_sampled_gaussian(noise_multiplier=z, sampling_rate=rate, order=ORDERS)
    # the alternating series of the known one loses digits where both q and the divergence are small
    assert divergences(Event(noise=z, sampling="poisson", rate=rate)) == pytest.approx(known, rel=1e-7)
    whole = np.array(ORDERS) == np.floor(ORDERS)
    assert divergences(Event(noise=z, sampling="poisson", rate=rate))[whole] == pytest.approx(known[whole], rel=1e-12)


def profile(rate, z, level):
    """Hockey-stick divergence of fixed batches at a level >= 1, the amplified one of Gaussian noise moved by 2 / z."""
    return rate * privacy.gaussian_delta(eps=np.log1p((level - 1) / rate), sensitivity=2.0, sigma=z)


@pytest.mark.parametrize(("rate", "z", "order"), [(0.1, 2.0, 2.0), (0.1, 2.0, 3.5), (0.4, 3.0, 8.0), (0.02, 1.5, 5.0)])
def test_fixed_curve_is_the_integral_of_the_amplified_profile(rate, z, order):
    def integrand(log_level):
        t = np.exp(log_level)
        weight = t ** (order - 2) + t ** (-order - 1)  # levels above one, and below one by symmetry
        return order * (order - 1) * weight * profile(rate, z, t) * t

    pieces = [quad(integrand, a, a + 0.5, epsabs=1e-14, epsrel=1e-10)[0] for a in np.arange(0, 20, 0.5)]
    found = fixed_batch_rdp(noise_multiplier=z, sampling_rate=rate, order=order)
    assert found == pytest.approx(np.log1p(sum(pieces)) / (order - 1), rel=1e-8)


@pytest.mark.parametrize(("rate", "z"), SETTINGS)
def test_fixed_curve_lies_between_poisson_of_the_same_shift_and_no_sampling(rate, z):
    fixed = divergences(Event(noise=z, sampling="fixed", rate=rate))
    assert (fixed >= divergences(Event(noise=z / 2, sampling="poisson", rate=rate))).all()
    assert (fixed <= 2 * np.array(ORDERS) / z**2 * (1 + 1e-12)).all()
    assert divergences(Event(noise=z, sampling="fixed", rate=1.0)) == pytest.approx(2 * np.array(ORDERS) / z**2)
    near = divergences(Event(noise=z, sampling="fixed", rate=1 - 1e-9))
    assert near == pytest.approx(divergences(Event(noise=z, sampling="fixed", rate=1.0)), rel=1e-6)


def test_orders_between_whole_ones_where_quadrature_gives_way_are_above_chords_ends_and_convex():
    orders = np.array([2.0, 2.5, 3.0])
    for sampling in ("poisson", "fixed"):
        curve = divergences(Event(noise=0.05, sampling=sampling, rate=0.1))
        moments = curve[[ORDERS.index(a) for a in orders]] * (orders - 1)
        assert moments[1] == pytest.approx((moments[0] + moments[2]) / 2)


@pytest.mark.parametrize(
    ("sampling", "eps", "delta", "rate", "steps"),
    [
        (s, *rest)
        for s in ("poisson", "fixed")
        for rest in [(1.0, 1e-5, 0.1, 300), (6.0, 1e-3, 0.4, 40), (0.05, 1e-6, 0.02, 7), (30.0, 1e-5, 0.3, 5)]
    ],
)
def test_calibrated_noise_is_the_smallest_that_the_curve_allows(sampling, eps, delta, rate, steps):
    event = Event(sampling=sampling, rate=rate, number=steps)
    z = noise_for(event, eps=eps, delta=delta, accountant="rdp")
    assert 0.9999999 * eps < guarantee(event.at(z), delta=delta, accountant="rdp").eps <= eps * (1 + 1e-11)
    least = noise_for(event, eps=eps, delta=delta)
    assert 0.998 * eps < guarantee(event.at(least), delta=delta).eps <= eps * (1 + 1e-11)
    assert (
        least
        <= z
        <= dpsgd.closed_form_noise_multiplier(eps=eps, delta=delta, steps=steps) * (2 if sampling == "fixed" else 1)
    )


def test_full_batches_are_exact():
    for sampling, shift in (("all", 1.0), ("poisson", 1.0), ("fixed", 2.0)):
        event = Event(sampling=sampling, number=9)
        z = noise_for(event, eps=1.5, delta=1e-5)
        assert gaussian_epsilon(delta=1e-5, sensitivity=3 * shift, sigma=z) == pytest.approx(1.5)
        g = guarantee(event.at(z), delta=1e-5, adjacency="client" if sampling == "all" else None)
        assert (g.eps, g.mechanism, g.rho) == (pytest.approx(1.5), "gaussian", pytest.approx(9 * shift**2 / (2 * z**2)))
        assert g.accountant.startswith("exact (borrowed-strength")


@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_releases_beside_take_their_part(rate):
    rho, delta, event = 0.02, 1e-5, Event(sampling="poisson", rate=rate, number=50)
    z = noise_for(event, eps=2.0, delta=delta, rho=rho)
    curve = divergences(event.at(z)) + rho * np.array(ORDERS)
    assert privacy.epsilon_from_rdp(ORDERS, curve, delta=delta) == pytest.approx(2.0, rel=1e-4)
    assert z > noise_for(event, eps=2.0, delta=delta)
    with pytest.raises(ValueError, match="is spent by rho"):
        noise_for(event, eps=0.1, delta=delta, rho=rho)


def test_an_excess_of_order_two_is_a_square():
    """(1 + d)^2 - 1 - 2 d = d^2, for d on all branches: where digits cancel, in between, and where only the power counts."""
    for d in (-0.9, -1e-9, 1e-6, 0.1, 0.3, 5.0, 2e6, 1e7, 1e9):
        assert subsampling_kernels.log_excess(2.0, d) == pytest.approx(2 * np.log(abs(d)), rel=1e-13)
    assert subsampling_kernels.log_excess(2.0, 0.0) == -np.inf


@pytest.mark.parametrize("a", [2.0, 2.5, 33.25, 1000.5, -0.2, -1.0, -1.5, -40.0])
def test_an_excess_over_the_tangent_has_all_digits(a):
    """(1 + d)^a - 1 - a d at 60 digits, on both sides of every switch: a series, in between, and where the power is all."""
    turns = [np.exp(x / a) - 1 for x in (29.99, 30.01, 60.0) if a > 0 or x < -30 * a]
    near = [0.24 / abs(a), 0.26 / abs(a), *([-0.24 / abs(a)] if abs(a) >= 1 else [])]
    with mpmath.workdps(60):
        for d in (-0.9, -0.2, -1e-9, 1e-12, 1e-5, 0.2, 0.24, 0.3, 5.0, *near, *turns):
            exact = mpmath.log((1 + mpmath.mpf(d)) ** a - 1 - a * mpmath.mpf(d))
            found = subsampling_kernels.log_excess(a, d)
            assert found == pytest.approx(float(exact), rel=1e-15, abs=1e-13)


def test_where_only_the_power_counts_the_tangent_is_still_taken_off():
    """Of a square the tangent is 2 d + 1: the excess is d^2, whose logarithm has 16 digits, and not (1 + d)^2 - d."""
    for d in np.exp(np.linspace(15.001, 15.2, 40)):
        assert subsampling_kernels.log_excess(2.0, d) == pytest.approx(2 * math.log(d), rel=0, abs=2.5e-14)


def moment(q, m, a, fixed):
    """Log of the moment by the trapezoidal rule: of the ratio's power, or of the amplified profile's symmetric one."""
    u = np.linspace(m / 2 if fixed else -15.0, a * m + 15, 200_001)
    log = np.logaddexp(np.log1p(-q), np.log(q) + m * u - m * m / 2)  # of the ratio
    most = max(0.0, np.max(a * log - u * u / 2))  # whose exponential need not be a number
    power, one, density, other = (np.exp(x - u * u / 2 - most) for x in (a * log, log, 0 * log, (1 - a) * log))
    terms = power + other - density - one if fixed else power - density - a * (one - density)
    above = np.trapezoid(terms, u) / np.sqrt(2 * np.pi)
    return float(np.logaddexp(0, most + np.log(above)))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("q", "m", "a"),
    [(0.3, 0.7, 2.0), (0.3, 0.7, 3.5), (0.05, 2.5, 6.25), (0.6, 1.5, 4.0), (0.01, 3.0, 2.1), (0.02, 6.0, 3.5)],
)
def test_moments_are_integrals_of_the_ratios_powers(q, m, a, fixed):
    assert subsampling_kernels.log_moment(q, m, a, fixed) == pytest.approx(moment(q, m, a, fixed), rel=1e-10)


@pytest.mark.parametrize("fixed", [False, True])
def test_where_quadrature_gives_way_moments_are_sums_and_chords(fixed):
    """At shifts above 16: sums of binomial terms at whole orders, (a - 1) q besides for fixed batches, chords in between."""
    for q, m in ((0.3, 17.0), (1e-40, 16.5), (1e-150, 17.0)):
        orders, moments = np.arange(2, 6), {}
        for a in orders.tolist():
            k = np.arange(a + 1)
            terms = binom.logpmf(k, a, q) + m * m * k * (k - 1) / 2  # the first two of which are P's own
            beside = [np.log((a - 1) * q)] if fixed else []
            moments[a] = np.logaddexp(0, logsumexp([*terms[2:], *beside]))
            assert subsampling_kernels.log_moment(q, m, float(a), fixed) == pytest.approx(moments[a], rel=1e-11, abs=0)
        for a in orders[:-1].tolist():
            chord = 0.75 * moments[a] + 0.25 * moments[a + 1]
            assert subsampling_kernels.log_moment(q, m, a + 0.25, fixed) == pytest.approx(chord, rel=1e-11)
    for a in (2.0, 2.5):  # at 16 itself nothing gives way
        assert subsampling_kernels.log_moment(0.1, 16.0, a, fixed) == pytest.approx(moment(0.1, 16.0, a, fixed), rel=1e-13)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("steps", "rho", "delta"), [(1, 0.0, 1e-5), (300, 0.01, 1e-5), (10_000, 0.0, 0.3)])
def test_the_best_order_is_the_best_of_all(steps, rho, delta, fixed):
    for orders in (np.array([2.0, 3.0, 4.5, 8.0, 20.0, 64.0]), np.array([2.0, 40.0]), np.array([7.0])):
        for q, m in ((0.05, 0.3), (0.3, 2.0), (0.01, 1e-3)):
            curve = subsampling_kernels.curve(q, m, orders, fixed)
            each = [
                float(privacy.epsilon_from_rdp(orders[[i]], (rho * orders + steps * curve)[[i]], delta=delta))
                for i in range(orders.size)
            ]
            best, eps = subsampling_kernels.best_order(q, m, orders, fixed, steps, rho, delta)
            if min(each) > 0:
                assert best == np.argmin(each)
                assert eps == pytest.approx(min(each), rel=1e-12)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("start", [1e-3, 0.1, 30.0])
def test_the_largest_shift_is_a_root_at_the_best_order(start, fixed):
    orders = np.array([2.0, 3.0, 5.0, 9.0, 20.0, 64.0])
    for eps, q, steps, rho in ((1.0, 0.05, 100, 0.0), (0.4, 0.3, 3, 0.001), (25.0, 0.01, 2, 0.0), (2.0, 0.001, 1, 0.0)):

        def excess(m, q=q, steps=steps, rho=rho, eps=eps):
            return subsampling_kernels.best_order(q, m, orders, fixed, steps, rho, 1e-5)[1] - eps

        root = brentq(excess, 1e-9, 100.0, xtol=1e-15, rtol=1e-14)
        found = subsampling_kernels.largest_shift(eps, 1e-5, q, steps, rho, orders, fixed, start)
        assert found == pytest.approx(root, rel=1e-11)
        assert excess(found) <= 1e-12 * eps
    assert subsampling_kernels.largest_shift(1e-3, 1e-300, 0.1, 10, 0.0, orders, fixed, start) == 0


def test_laplace_noise_beside_concentrated_privacy_spends_the_rest():
    """Three releases and rho = 0.02 together, by the formula of Laplace noise's divergences: all of eps, and no more."""
    event, orders = Event(mechanism="laplace", number=3), np.array(ORDERS, float)
    z = noise_for(event, eps=2.0, delta=1e-5, accountant="rdp", rho=0.02)
    together = 3 * privacy.rdp_laplace(1 / z, orders) + 0.02 * orders
    assert 2 * (1 - 1e-5) < privacy.epsilon_from_rdp(orders, together, delta=1e-5) <= 2.0


def test_many_silos_are_calibrated_in_about_a_second():
    noise_for(Event(sampling="poisson", rate=0.3, number=10), eps=6.1, delta=1e-3, accountant="rdp")  # compiles
    sizes = np.arange(60, 199)
    start = perf_counter()
    found = [
        noise_for(Event(sampling="poisson", rate=16 / n, number=200 * -(-n // 16)), eps=6.1, delta=1e-3, accountant="rdp")
        for n in sizes.tolist()
    ]
    assert perf_counter() - start < 10  # a second on a machine with nothing else to do
    assert (np.diff(found[1::16]) < 0).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Event(sampling="shuffled"), "sampling"),
        (lambda: Event(mechanism="cauchy"), "mechanism"),
        (lambda: Event(rate=0.5), "rate must be 1"),
        (lambda: Event(mechanism="laplace", sampling="poisson", rate=0.5), "mechanism must be"),
        (lambda: Event(noise=-1.0), "noise"),
        (lambda: Event(noise=np.nan), "noise"),
        (lambda: Event(number=1.5), "number"),
        (lambda: noise_for(RUN, eps=1.0, delta=1e-5, accountant="moments"), "accountant"),
        (lambda: noise_for(RUN, eps=1.0, delta=1.0), "delta must lie strictly"),
        (lambda: noise_for(RUN, eps=0.0, delta=1e-5), "eps"),
        (lambda: noise_for(RUN, eps=1e-3, delta=1e-300), "out of reach"),
        (lambda: epsilon(RUN, delta=1e-5), "noise of an event is not given"),
        (lambda: epsilon([RUN.at(1.0), Event(noise=1.0)], delta=1e-5), "one sampling"),
        (lambda: epsilon("training", delta=1e-5), "Events"),
        (lambda: guarantee(Event(noise=1.0), delta=1e-5), "adjacency must be given"),
        (lambda: guarantee(RUN.at(1.0), delta=1e-5, adjacency="row"), "adjacency must be given"),
        (lambda: guarantee([], delta=1e-5), "at least one Event"),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


RUN = Event(sampling="poisson", rate=0.1, number=10)


# --- one default, whatever the door --------------------------------------------------------------------------------------


def test_silence_and_no_noise():
    for event in (RUN.at(np.inf), Event(noise=1.0, number=0), Event(noise=0.0, sampling="poisson", rate=0.0)):
        assert epsilon(event, delta=0.0) == 0
    assert epsilon(RUN.at(0.0), delta=1e-5) == np.inf
    assert epsilon(RUN.at(1e200), delta=0.0) == np.inf  # whatever the noise, Gaussians are never purely private
    assert epsilon(Event(mechanism="laplace", noise=2.0, number=6), delta=0.0) == 3.0


def test_events_together_are_those_apart_and_exact_where_they_can_be():
    parts = [Event(noise=2.0, number=3), Event(noise=5.0)]
    ratio = np.sqrt(3 / 4 + 1 / 25)
    assert epsilon(parts, delta=1e-5) == pytest.approx(float(gaussian_epsilon(delta=1e-5, sensitivity=ratio, sigma=1.0)))
    halves = [RUN.at(1.0), RUN.at(1.0)]
    whole = epsilon(Event(noise=1.0, sampling="poisson", rate=0.1, number=20), delta=1e-5)
    assert epsilon(halves, delta=1e-5) == pytest.approx(whole, rel=1e-6)
    mixed = [Event(mechanism="laplace", noise=5.0), Event(noise=3.0)]
    alone = max(epsilon(part, delta=1e-5) for part in mixed)
    assert alone < epsilon(mixed, delta=1e-5) < epsilon(mixed, delta=1e-5, accountant="rdp")


@pytest.mark.parametrize("number", [1, 10, 1000, 100_000])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9, 2e-10])
def test_loss_distributions_are_above_the_exact_curve_and_close(number, delta):
    """The grid against the closed form of composed Gaussians: never below, however small delta or many the releases."""
    z = 1.5 * np.sqrt(number)
    exact = float(gaussian_epsilon(delta=delta, sensitivity=np.sqrt(number), sigma=z))
    assert exact <= loss_epsilon((Event(noise=z, number=number),), delta) <= exact * (1 + 1e-3)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_purely_private_releases_cost_what_randomised_response_costs(number):
    """Kairouz, Oh and Viswanath (2015): sums over all answers, exact."""
    eps, delta = 0.7, 0.01
    p = 1 / (1 + np.exp(-eps))
    losses_of = eps * (2 * np.arange(number + 1) - number)
    chance = binom.pmf(np.arange(number + 1), number, p)
    exact = brentq(lambda e: chance @ np.maximum(0, -np.expm1(e - losses_of)) - delta, 0, number * eps)
    found = loss_epsilon((Event(mechanism="pure", noise=1 / eps, number=number),), delta)
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-3)


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
@pytest.mark.parametrize(
    ("noise", "number"), [(1e-3, 10), (1e-160, 1), (0.05, 10**9), (1.0, 10**12), (9e18, 10), (1e4, 10**9)]
)
def test_work_is_bounded_whatever_the_noise_and_the_number(sampling, noise, number):
    """At a noise of 1e-3 the library's own grid asks for 38 GiB."""
    event = Event(noise=noise, sampling=sampling, rate=0.01, number=number)
    tracemalloc.start()
    start = perf_counter()
    found = epsilon(event, delta=1e-5)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 <= found <= epsilon(event, delta=1e-5, accountant="rdp")
    assert found > 0 or noise > 1
    assert perf_counter() - start < 60
    assert most < 300 * 2**20


# --- dp-accounting -------------------------------------------------------------------------------------------------------


def test_poisson_eps_is_that_of_dp_accounting(dp_accounting):
    dp = dp_accounting
    event = dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(1.3))
    run = Event(noise=1.3, sampling="poisson", rate=0.05, number=200)
    other = dp.rdp.RdpAccountant(list(ORDERS)).compose(event, 200).get_epsilon(1e-5)
    assert epsilon(run, delta=1e-5, accountant="rdp") == pytest.approx(other, rel=1e-5)
    other = dp.pld.PLDAccountant().compose(event, 200).get_epsilon(1e-5)
    assert other * (1 - 1e-6) < epsilon(run, delta=1e-5) < other * (1 + 2e-4)


def test_the_library_confirms_the_noise(dp_accounting):
    z = noise_for(Event(sampling="poisson", rate=0.02, number=1000), eps=2.0, delta=1e-4)
    event = dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(z))
    assert 1.997 < dp_accounting.pld.PLDAccountant().compose(event, 1000).get_epsilon(1e-4) <= 2.0


@pytest.mark.parametrize(("n", "b", "z", "steps"), [(1000, 20, 2.0, 300), (100, 50, 20.0, 100)])
def test_fixed_batches_cost_less_than_wang_et_al_and_more_than_loss_distributions(
    dp_accounting, n, b, z, steps, monkeypatch
):
    dp = dp_accounting
    event = Event(noise=z, sampling="fixed", rate=b / n, number=steps)
    ours = epsilon(event, delta=1e-5, accountant="rdp")
    replace = dp.rdp.RdpAccountant(list(range(2, 40)), neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    replace.compose(dp.SampledWithoutReplacementDpEvent(n, b, dp.GaussianDpEvent(z / 2)), steps)  # sensitivity 2
    tight = epsilon(event, delta=1e-5)
    assert tight < ours < replace.get_epsilon(1e-5)
    assert tight > epsilon(Event(noise=z / 2, sampling="poisson", rate=b / n, number=steps), delta=1e-5)
    fine, _ = losses.grid((event,))
    monkeypatch.setattr(losses, "grid", lambda events: (fine / 5, 1.0))
    finer = loss_epsilon.__wrapped__((event,), 1e-5)
    assert finer <= tight <= finer * (1 + 5e-4)


def test_loss_distributions_of_a_full_batch_are_the_exact_ones():
    found = loss_epsilon((Event(noise=8.0, sampling="fixed", number=4),), 1e-5)
    exact = float(gaussian_epsilon(delta=1e-5, sensitivity=4.0, sigma=8.0))
    assert exact <= found < exact * (1 + 2e-4)


def test_a_few_steps_cost_far_less_than_renyi_divergences_say():
    few = Event(noise=1.0, sampling="poisson", rate=0.01, number=3)
    assert 0.27 < epsilon(few, delta=1e-5) < 0.28
    assert 0.98 < epsilon(few, delta=1e-5, accountant="rdp") < 1.0


@pytest.mark.parametrize(
    ("rate", "shift", "order"),
    [(0.1, 5.0, 10.5), (0.1, 10.0, 10.5), (0.01, 16.0, 8.5), (1e-6, 15.0, 12.25), (1e-300, 16.0, 12.5)],
)
def test_moments_of_likelihood_ratios_beyond_all_floats(rate, shift, order):
    """E_P[L^a], whose integrand is large where dQ/dP = exp(m u - m^2 / 2) overflows, by mpmath."""
    with mpmath.workdps(30):
        q, m, a = map(mpmath.mpf, (rate, shift, order))
        places = [-12, *(m * k / 2 for k in range(int(2 * a))), a * m - 6, a * m, a * m + 12]
        moment = mpmath.quad(lambda u: ((1 - q + q * mpmath.exp(m * u - m * m / 2)) ** a) * mpmath.npdf(u), sorted(places))
        expected = float(mpmath.log(moment))
    assert subsampling_kernels.log_moment(rate, shift, order, False) == pytest.approx(expected, rel=1e-12)
    assert subsampling_kernels.log_moment(rate, shift, order, True) >= expected * (1 - 1e-13)


def test_divergences_rise_with_the_order_where_ratios_are_beyond_all_floats():
    orders = np.arange(8.0, 30.0, 0.5)
    for found in (
        fixed_batch_rdp(noise_multiplier=0.2, sampling_rate=0.1, order=orders),
        privacy.rdp_sampled_gaussian(noise_multiplier=0.2, sampling_rate=0.1, order=orders),
    ):
        assert (np.diff(found) > 0).all()
