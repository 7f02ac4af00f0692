"""Accounting against high-precision sums, the exact curve of one release, and dp-accounting if installed."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.accounting import privacy

noise_multipliers = st.floats(-1, 3).map(lambda x: 10.0**x)
rates = st.floats(-8, 0).map(lambda x: 10.0**x)
orders = st.integers(2, 64)
deltas = st.floats(-12, -0.5).map(lambda x: 10.0**x)


def exact_rdp(z, q, order):
    """Return the Renyi divergence summed with enough digits."""
    with mpmath.workdps(60):
        z, q = mpmath.mpf(z), mpmath.mpf(q)
        terms = (
            mpmath.binomial(order, k) * (1 - q) ** (order - k) * q**k * mpmath.exp(k * (k - 1) / (2 * z**2))
            for k in range(order + 1)
        )
        return float(mpmath.log(mpmath.fsum(terms)) / (order - 1))


@given(noise_multipliers, rates, orders)
def test_rdp_keeps_its_digits(z, q, order):
    value = privacy.rdp_sampled_gaussian(noise_multiplier=z, sampling_rate=q, order=order)
    np.testing.assert_allclose(value, exact_rdp(z, q, order), rtol=1e-10, atol=1e-300)


@given(noise_multipliers, rates, orders)
def test_rdp_rises_with_order_and_rate_and_falls_with_noise(z, q, order):
    def rdp(z, q, order):
        return privacy.rdp_sampled_gaussian(noise_multiplier=z, sampling_rate=q, order=order) * (1 + 1e-10)

    value = rdp(z, q, order) / (1 + 1e-9)
    assert 0 <= value <= rdp(z, q, order + 1)
    assert value <= rdp(z, min(1.0, 2 * q), order)
    assert rdp(2 * z, q, order) <= value * (1 + 1e-8)
    assert value <= rdp(z, 1.0, order)  # subsampling amplifies privacy


def test_rdp_limits_and_arrays():
    def rdp(z, q, order):
        return np.asarray(privacy.rdp_sampled_gaussian(noise_multiplier=z, sampling_rate=q, order=order)).tolist()

    assert rdp(2.0, 1.0, [2, 4]) == [0.25, 0.5]
    assert rdp(2.0, 0.0, [2, 4]) == rdp(np.inf, 0.5, [2, 4]) == rdp(0.0, 0.0, [2, 4]) == [0, 0]
    assert rdp(0.0, 0.5, [2, 4]) == rdp(1e-160, 0.5, [2, 4]) == [np.inf, np.inf]
    assert rdp(1.0, 0.1, [[2, 3]]) == [[rdp(1.0, 0.1, 2), rdp(1.0, 0.1, 3)]]


@given(noise_multipliers, rates, st.integers(0, 10_000), deltas)
def test_epsilon_is_monotone_and_the_improved_conversion_improves(z, q, rounds, delta):
    def epsilon(rounds=rounds, delta=delta, conversion="improved"):
        return privacy.sampled_gaussian_epsilon(
            noise_multiplier=z, sampling_rate=q, rounds=rounds, delta=delta, conversion=conversion
        )

    assert 0 <= epsilon() <= epsilon(conversion="classic")
    assert epsilon() <= epsilon(rounds=rounds + 1)
    assert epsilon() <= epsilon(delta=delta / 2)
    assert epsilon(rounds=0) == 0


def test_epsilon_at_the_ends_of_delta():
    orders, rdp = [2, 3], [0.1, 0.15]
    for conversion in ("classic", "improved"):
        assert privacy.epsilon_from_rdp(orders, rdp, delta=0, conversion=conversion) == np.inf
        assert privacy.epsilon_from_rdp(orders, [0, 0], delta=0, conversion=conversion) == 0
        assert privacy.epsilon_from_rdp(orders, [np.inf, np.inf], delta=0.1, conversion=conversion) == np.inf
    assert privacy.epsilon_from_rdp(orders, rdp, delta=1) == 0


@given(noise_multipliers.filter(lambda z: z > 0.2), st.integers(1, 1000), deltas)
def test_renyi_bound_is_above_the_exact_gaussian_curve(z, rounds, delta):
    """Composed Gaussian rounds are one of smaller noise, whose exact delta the bound must respect."""
    for conversion in ("classic", "improved"):
        eps = privacy.sampled_gaussian_epsilon(
            noise_multiplier=z, sampling_rate=1.0, rounds=rounds, delta=delta, conversion=conversion
        )
        exact = privacy.gaussian_delta(eps=eps, sensitivity=np.sqrt(rounds), sigma=z)
        assert exact <= delta * (1 + 1e-9)


def exact_delta(eps, sensitivity, sigma):
    """Return the difference of two normal probabilities with enough digits."""
    with mpmath.workdps(80):
        step, eps = mpmath.mpf(sensitivity) / mpmath.mpf(sigma), mpmath.mpf(eps)
        upper, lower = step / 2 - eps / step, -step / 2 - eps / step
        return float(mpmath.ncdf(upper) - mpmath.exp(eps) * mpmath.ncdf(lower))


@given(st.floats(0, 50), st.floats(-1.5, 1.5).map(lambda x: 10.0**x))
def test_gaussian_delta_keeps_its_digits(eps, sigma):
    value = privacy.gaussian_delta(eps=eps, sensitivity=1.0, sigma=sigma)
    np.testing.assert_allclose(value, exact_delta(eps, 1.0, sigma), rtol=1e-9, atol=1e-300)


@given(st.floats(0, 20), st.floats(0.05, 20), st.floats(0.1, 10))
def test_gaussian_delta_is_monotone_and_scale_free(eps, sigma, sensitivity):
    value = privacy.gaussian_delta(eps=eps, sensitivity=sensitivity, sigma=sigma)
    slack = 1 + 1e-9
    assert 0 <= value <= 1
    assert privacy.gaussian_delta(eps=eps + 0.1, sensitivity=sensitivity, sigma=sigma) <= value * slack
    assert privacy.gaussian_delta(eps=eps, sensitivity=sensitivity, sigma=sigma * 1.1) <= value * slack
    scaled = privacy.gaussian_delta(eps=eps, sensitivity=sensitivity * 8, sigma=sigma * 8)
    np.testing.assert_allclose(scaled, value, rtol=1e-9, atol=1e-300)


def test_gaussian_delta_limits():
    eps = np.array([0.0, 1.0, np.inf])
    assert privacy.gaussian_delta(eps=eps, sensitivity=1.0, sigma=0.0).tolist() == [1, 1, 0]
    assert privacy.gaussian_delta(eps=eps, sensitivity=0.0, sigma=0.0).tolist() == [0, 0, 0]
    assert privacy.gaussian_delta(eps=0.0, sensitivity=1.0, sigma=1e12) == pytest.approx(1e-12 / np.sqrt(2 * np.pi))
    # dp-accounting 0.6.0: get_sigma_gaussian(1, 1e-5) = 3.730632.
    assert privacy.gaussian_delta(eps=1.0, sensitivity=1.0, sigma=3.730632) == pytest.approx(1e-5, rel=1e-5)


@given(noise_multipliers, rates, st.floats(0.1, 10), st.integers(1, 10**6))
def test_server_noise_has_the_multiplier_times_its_sensitivity(z, q, S, N):
    deviation = np.sqrt(privacy.server_noise_variance(z=z, S=S, q=q, N=N))
    assert deviation / (S / (q * N)) == pytest.approx(z)


# dp-accounting 0.6.0, RdpAccountant with its own orders, q = 0.01, z = 1, 1000 rounds, delta = 1e-5.
GOLDEN = 2.101367


def test_golden_epsilon():
    """Its fractional orders are summed to 6 digits, ours to 12."""
    setting = {"noise_multiplier": 1.0, "sampling_rate": 0.01, "rounds": 1000, "delta": 1e-5}
    assert privacy.sampled_gaussian_epsilon(**setting) == pytest.approx(GOLDEN, abs=3e-6)


WHOLE = [a for a in privacy.ORDERS if a == int(a)]


@pytest.mark.parametrize("z", [0.06, 0.4, 3.0, 1e5, 9e18])
@pytest.mark.parametrize("q", [1e-6, 0.02, 0.7])
@pytest.mark.parametrize("order", [2.1, 5.5, 10.9])
def test_divergences_between_whole_orders_are_the_integral(z, q, order):
    """With 120 digits, as the excess of the moment over one; below 1/16 they are a bound."""
    with mpmath.workdps(120):
        noise, rate, a = mpmath.mpf(z), mpmath.mpf(q), mpmath.mpf(order)

        def integrand(u):
            d = rate * mpmath.expm1(u / noise - 1 / (2 * noise**2))
            return ((1 + d) ** a - 1 - a * d) * mpmath.npdf(u)

        ends = sorted({-12.0, -4.0, 0.0, 0.5 / z, 4.0, order / z, order / z + 4, order / z + 12})
        exact = float(mpmath.log1p(mpmath.quad(integrand, ends)) / (a - 1))
    found = float(privacy.rdp_sampled_gaussian(noise_multiplier=z, sampling_rate=q, order=order))
    assert found >= exact * (1 - 1e-11)
    if z > 1 / 16:
        assert found == pytest.approx(exact, rel=1e-10)


def test_noise_beyond_all_measure_costs_nothing_that_is_negative():
    for z in (1e8, 9e18, 1e100):
        curve = privacy.rdp_sampled_gaussian(noise_multiplier=z, sampling_rate=0.5, order=privacy.ORDERS)
        assert (curve >= 0).all()
        assert privacy.sampled_gaussian_epsilon(noise_multiplier=z, sampling_rate=0.5, rounds=10, delta=1e-5) == 0


@given(st.floats(-9, 1).map(lambda x: 10.0**x), st.floats(1.001, 300.0))
def test_laplace_divergence_keeps_its_digits_and_is_below_randomised_response(eps, order):
    with mpmath.workdps(60):
        e, a = mpmath.mpf(eps), mpmath.mpf(order)
        moment = a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)
        exact = float(mpmath.log(moment) / (a - 1))
    found = float(privacy.rdp_laplace(eps, order))
    assert found == pytest.approx(exact, rel=1e-11)
    assert found <= privacy.rdp_pure(eps, order) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("z", "q", "rounds", "delta"), [(1.0, 0.01, 1000, 1e-5), (0.6, 0.2, 10, 1e-6), (5.0, 1.0, 200, 1e-3)]
)
def test_agrees_with_dp_accounting_at_equal_orders(dp_accounting, z, q, rounds, delta):
    rdp = dp_accounting.rdp
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
    accountant = rdp.RdpAccountant(WHOLE).compose(event, rounds)
    ours = privacy.sampled_gaussian_epsilon(noise_multiplier=z, sampling_rate=q, rounds=rounds, delta=delta, orders=WHOLE)
    assert ours == pytest.approx(accountant.get_epsilon(delta), rel=1e-9)
    if (z, q, rounds, delta) == (1.0, 0.01, 1000, 1e-5):
        default = rdp.RdpAccountant().compose(event, rounds).get_epsilon(delta)
        assert default == pytest.approx(GOLDEN, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: privacy.rdp_sampled_gaussian(noise_multiplier=-1, sampling_rate=0.1, order=2),
            "noise_multiplier",
        ),
        (
            lambda: privacy.rdp_sampled_gaussian(noise_multiplier=1, sampling_rate=1.1, order=2),
            "sampling_rate",
        ),
        (lambda: privacy.rdp_sampled_gaussian(noise_multiplier=1, sampling_rate=0.1, order=1), "order"),
        (lambda: privacy.rdp_sampled_gaussian(noise_multiplier=1, sampling_rate=0.1, order=1.9), "order"),
        (
            lambda: privacy.rdp_sampled_gaussian(noise_multiplier=[1, 2], sampling_rate=0.1, order=2),
            "single numbers",
        ),
        (lambda: privacy.compose(0.1, -1), "rounds"),
        (lambda: privacy.compose(-0.1, 1), "rdp"),
        (lambda: privacy.epsilon_from_rdp([2, 3], [0.1], delta=0.1), "orders and rdp"),
        (lambda: privacy.epsilon_from_rdp([1], [0.1], delta=0.1), "orders"),
        (lambda: privacy.delta_from_rdp([2, 3], [0.1], eps=1), "orders and rdp must be 1-d of one length >= 1"),
        (lambda: privacy.delta_from_rdp([[2]], [[0.1]], eps=1), "orders and rdp must be 1-d of one length >= 1"),
        (lambda: privacy.delta_from_rdp([], [], eps=1), "orders and rdp must be 1-d of one length >= 1"),
        (lambda: privacy.renyi_divergence([0.5, 0.5], [1.0], order=2), "p and q must be 1-d of one length >= 1"),
        (lambda: privacy.renyi_divergence([[1.0]], [[1.0]], order=2), "p and q must be 1-d of one length >= 1"),
        (lambda: privacy.renyi_divergence([], [], order=2), "p and q must be 1-d of one length >= 1"),
        (lambda: privacy.epsilon_from_rdp([2], [0.1], delta=1.5), "delta"),
        (
            lambda: privacy.epsilon_from_rdp([2], [0.1], delta=0.5, conversion="best"),
            "conversion must be one of",
        ),
        (lambda: privacy.gaussian_delta(eps=-1, sensitivity=1, sigma=1), "eps"),
        (lambda: privacy.gaussian_delta(eps=1, sensitivity=np.inf, sigma=1), "sensitivity"),
        (lambda: privacy.gaussian_delta(eps=1, sensitivity=1, sigma=-1), "sigma"),
        (lambda: privacy.server_noise_variance(z=1, S=1, q=0, N=1), "q must be > 0"),
        (lambda: privacy.server_noise_variance(z=1, S=1, q=0.5, N=0.5), "N must be a whole number"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_arguments_cannot_be_swapped_silently():
    with pytest.raises(TypeError):
        privacy.gaussian_delta(1.0, 1.0, 1.0)


@pytest.mark.parametrize("order", [1, 2])
def test_a_law_that_all_but_misses_an_outcome_has_a_divergence(order):
    """Its share of that outcome is far below a rounding of the other law's."""
    found = privacy.renyi_divergence([1e-20, 1 - 1e-20], [0.5, 0.5], order=order)
    assert found == pytest.approx(np.log(2), rel=1e-9)


def kept(x):
    return mpmath.mpf(float(x))


@pytest.mark.parametrize("order", [1.003, 1.5, 2.7, 9.0, 250.0])
@pytest.mark.parametrize("eps", [1e-11, 1e-4, 0.3, 0.999, 1.7, 12.0, 400.0])
def test_divergence_of_randomised_response_is_rounded_up_by_at_most_24_units(eps, order):
    with mpmath.workdps(80):
        a, p = kept(order), 1 / (1 + mpmath.exp(-kept(eps)))
        exact = mpmath.log(p * mpmath.exp((a - 1) * kept(eps)) + (1 - p) * mpmath.exp((1 - a) * kept(eps))) / (a - 1)
        found = kept(privacy.rdp_pure(eps, order))
        assert found >= exact or found == kept(eps)  # never above eps, where rounding ends
        assert found <= exact * (1 + 24 * mpmath.mpf(2) ** -52)


@pytest.mark.parametrize(
    ("order", "rdp", "eps", "delta"),
    [(1.01, 0.02, 0.3, 1e-9), (1.01, 0.02, 0.3, 0.15), (2, 0.1, 3.0, 1e-3), (2.5, 0.7, 0.4, 0.02), (80, 3.1, 5, 0.9)],
)
def test_conversions_at_one_order_are_their_formula(order, rdp, eps, delta):
    """Proposition 12 of Canonne, Kamath and Steinke 2020, and Proposition 3 of Mironov 2017, with 50 digits."""
    with mpmath.workdps(50):
        a, r, e, d = map(kept, (order, rdp, eps, delta))
        of_delta = mpmath.exp((a - 1) * (r - e)) / (a - 1) * (1 - 1 / a) ** a
        of_eps = r + mpmath.log(1 - 1 / a) - mpmath.log(d * a) / (a - 1)
        classic = r - mpmath.log(d) / (a - 1)
        apart = mpmath.sqrt(1 - mpmath.exp(-r))
    assert privacy.delta_at_order(order=order, rdp=rdp, eps=eps) == pytest.approx(float(of_delta), rel=1e-12)
    assert privacy.epsilon_at_order(order=order, rdp=rdp, delta=delta) == pytest.approx(float(of_eps), rel=1e-12, abs=1e-13)
    found = {c: privacy.epsilon_from_rdp([order], [rdp], delta=delta, conversion=c) for c in ("classic", "improved")}
    assert found["classic"] == pytest.approx(float(classic), rel=1e-12)
    assert found["improved"] == pytest.approx(max(0.0, float(of_eps)) if delta < apart else 0.0, rel=1e-12)
    assert privacy.delta_from_rdp([order], [rdp], eps=eps) == pytest.approx(float(min(of_delta, apart, 1)), rel=1e-12)


@pytest.mark.parametrize("order", [1, 1.2, 2, 7, 60, np.inf])
@pytest.mark.parametrize(
    "p", [[0.2, 0.5, 0.3], [0.0, 0.4, 0.6], [0.3 + 1e-9, 0.3 - 1e-9, 0.4], [1e-6, 0.1, 0.9 - 1e-6], [0.02, 0.9, 0.08]]
)
def test_divergences_of_finite_laws_are_their_sums(p, order):
    q = [0.3, 0.3, 0.4]
    with mpmath.workdps(50):
        pairs = [(kept(a), kept(b)) for a, b in zip(p, q, strict=True) if a > 0]
        if order == 1:
            exact = mpmath.fsum(a * mpmath.log(a / b) for a, b in pairs)
        elif order == np.inf:
            exact = max(mpmath.log(a / b) for a, b in pairs)
        else:
            exact = mpmath.log(mpmath.fsum(a * (a / b) ** (kept(order) - 1) for a, b in pairs)) / (order - 1)
    # Laws that are all but equal have the rounding errors of their own sums, 1e-16, in a divergence of 1e-17.
    assert privacy.renyi_divergence(p, q, order=order) == pytest.approx(float(exact), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("order", [1.2, 1.5, 2, 3, 7, 25, 60, 2000])
@pytest.mark.parametrize("powers", [(20, 21), (33, 36), (40, 46), (50, 40), (2, 50)])
def test_divergences_of_a_rare_outcome_have_all_digits(powers, order):
    """However large the loss of what hardly ever happens: the laws are binary fractions that add to one exactly."""
    p, q = ([2.0**-k, 1 - 2.0**-k] for k in powers)
    with mpmath.workdps(60):
        moment = mpmath.fsum(mpmath.mpf(a) * (mpmath.mpf(a) / b) ** (kept(order) - 1) for a, b in zip(p, q, strict=True))
        exact = float(mpmath.log(moment) / (kept(order) - 1))
    assert privacy.renyi_divergence(p, q, order=order) == pytest.approx(exact, rel=3e-14, abs=0)


def test_what_is_certain_at_the_ends_of_the_conversions():
    assert privacy.epsilon_from_rdp([2.0], [np.inf], delta=1.0) == 0.0
    assert privacy.delta_from_rdp([2.0], [0.0], eps=0.0) == privacy.delta_from_rdp([2.0], [0.3], eps=np.inf) == 0.0
    assert privacy.delta_from_rdp([2.0], [0.3], eps=1e4) == 5e-324  # what underflows is not nothing
    assert privacy.delta_from_rdp([2.0, 3.0], [0.3, np.inf], eps=2.0) == privacy.delta_from_rdp([2.0], [0.3], eps=2.0)
    assert privacy.delta_at_order(order=2.0, rdp=np.inf, eps=1.0) == privacy.rdp_from_zcdp(np.inf, 2.0) == np.inf
    assert privacy.renyi_divergence([1.0], [1.0], order=2) == 0.0


@pytest.mark.parametrize("excess", [1e-9, 0.1, 0.4, 0.49])
def test_the_largest_loss_keeps_its_digits_where_it_is_of_what_hardly_ever_happens(excess):
    p, q = (1 + excess) * 2.0**-900, 2.0**-900
    exact = np.log1p((p - q) / q)
    assert privacy.renyi_divergence([p, 1.0], [q, 1.0], order=np.inf) == pytest.approx(exact, rel=4e-16, abs=0)


@pytest.mark.parametrize("eps", [1e-3, 0.7, 3.0, 40.0])
def test_divergences_of_pure_releases_keep_their_digits_at_orders_near_one(eps):
    order = 1 + 3e-7
    with mpmath.workdps(60):
        a, e = kept(order), kept(eps)
        p, b = 1 / (1 + mpmath.exp(-e)), a - 1
        pure = mpmath.log(p * mpmath.exp(b * e) + (1 - p) * mpmath.exp(-b * e)) / b
        laplace = mpmath.log((a * mpmath.exp(b * e) + b * mpmath.exp(-a * e)) / (2 * a - 1)) / b
    assert privacy.rdp_pure(eps, order) == pytest.approx(float(pure), rel=1e-14)
    assert privacy.rdp_laplace(eps, order) == pytest.approx(float(laplace), rel=1e-12)
    assert privacy.rdp_pure(np.inf, order) == privacy.rdp_laplace(np.inf, order) == np.inf
