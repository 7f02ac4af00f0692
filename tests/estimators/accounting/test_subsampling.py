"""Noise on random batches: the compiled curves, their calibration, and dp-accounting beside them."""

from time import perf_counter

import numpy as np
import pytest
from scipy.integrate import quad

from estimators.accounting import dpsgd, privacy
from estimators.accounting.budget import ORDERS
from estimators.accounting.mechanisms import gaussian_epsilon
from estimators.accounting.subsampling import (
    divergences,
    fixed_batch_rdp,
    noise_multiplier_for,
    pld_fixed_batch_epsilon,
    sampled_guarantee,
)

SETTINGS = [(0.01, 1.0), (0.3, 2.0), (0.2, 20.0), (0.9, 0.7), (0.001, 0.6)]


@pytest.mark.parametrize(("rate", "z"), SETTINGS)
def test_poisson_curve_is_the_known_one(rate, z):
    known = privacy.rdp_sampled_gaussian(noise_multiplier=z, sampling_rate=rate, order=ORDERS)
    # the alternating series of the known one loses digits where both q and the divergence are small
    assert divergences("poisson", z, rate) == pytest.approx(known, rel=1e-7)
    whole = np.array(ORDERS) == np.floor(ORDERS)
    assert divergences("poisson", z, rate)[whole] == pytest.approx(known[whole], rel=1e-12)


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
    fixed = divergences("fixed", z, rate)
    assert (fixed >= divergences("poisson", z / 2, rate)).all()
    assert (fixed <= 2 * np.array(ORDERS) / z**2 * (1 + 1e-12)).all()
    assert divergences("fixed", z, 1.0) == pytest.approx(2 * np.array(ORDERS) / z**2)
    near = divergences("fixed", z, 1 - 1e-9)
    assert near == pytest.approx(divergences("fixed", z, 1.0), rel=1e-6)


def test_orders_between_whole_ones_where_quadrature_gives_way_are_above_chords_ends_and_convex():
    orders = np.array([2.0, 2.5, 3.0])
    for sampling in ("poisson", "fixed"):
        moments = divergences(sampling, 0.05, 0.1)[[ORDERS.index(a) for a in orders]] * (orders - 1)
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
    how = {"eps": eps, "delta": delta, "sampling_rate": rate, "steps": steps, "sampling": sampling}
    z = noise_multiplier_for(**how)
    assert (
        0.9999999 * eps
        < sampled_guarantee(noise_multiplier=z, sampling_rate=rate, steps=steps, delta=delta, sampling=sampling).eps
        <= eps * (1 + 1e-11)
    )
    if sampling == "poisson" and eps == 6.0:
        known = dpsgd.noise_multiplier(eps=eps, delta=delta, sampling_rate=rate, steps=steps, orders=ORDERS)
        assert z == pytest.approx(known, rel=1e-11)


def test_full_batches_are_exact():
    for sampling, shift in (("poisson", 1.0), ("fixed", 2.0)):
        z = noise_multiplier_for(eps=1.5, delta=1e-5, sampling_rate=1.0, steps=9, sampling=sampling)
        assert gaussian_epsilon(delta=1e-5, sensitivity=3 * shift, sigma=z) == pytest.approx(1.5)
        g = sampled_guarantee(noise_multiplier=z, sampling_rate=1.0, steps=9, delta=1e-5, sampling=sampling)
        assert (g.eps, g.mechanism, g.rho) == (pytest.approx(1.5), "gaussian", pytest.approx(9 * shift**2 / (2 * z**2)))


@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_releases_beside_take_their_part(rate):
    rho, delta, steps = 0.02, 1e-5, 50
    z = noise_multiplier_for(eps=2.0, delta=delta, sampling_rate=rate, steps=steps, rho=rho)
    curve = steps * divergences("poisson", z, rate) + rho * np.array(ORDERS)
    assert privacy.epsilon_from_rdp(ORDERS, curve, delta=delta) == pytest.approx(2.0, rel=1e-4)
    assert z > noise_multiplier_for(eps=2.0, delta=delta, sampling_rate=rate, steps=steps)
    with pytest.raises(ValueError, match="is spent by rho"):
        noise_multiplier_for(eps=0.1, delta=delta, sampling_rate=rate, steps=steps, rho=rho)


def test_many_silos_are_calibrated_in_about_a_second():
    noise_multiplier_for(eps=6.1, delta=1e-3, sampling_rate=0.3, steps=10)  # compiles
    sizes = np.arange(60, 199)
    start = perf_counter()
    found = [
        noise_multiplier_for(eps=6.1, delta=1e-3, sampling_rate=16 / n, steps=200 * -(-n // 16)) for n in sizes.tolist()
    ]
    assert perf_counter() - start < 10  # a second on a machine with nothing else to do
    assert (np.diff(found[1::16]) < 0).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sampling": "shuffled"}, "sampling"),
        ({"accountant": "moments"}, "accountant"),
        ({"delta": 1.0}, "delta must lie strictly"),
        ({"sampling_rate": 0.0}, "sampling_rate"),
        ({"eps": 0.0}, "eps"),
        ({"eps": 1e-3, "delta": 1e-300}, "out of reach"),
        ({"rho": 0.1, "accountant": "pld"}, "rho needs accountant"),
    ],
)
def test_bad_arguments_are_named(changes, says):
    how = {"eps": 1.0, "delta": 1e-5, "sampling_rate": 0.1, "steps": 10, **changes}
    with pytest.raises(ValueError, match=says):
        noise_multiplier_for(**how)


# --- dp-accounting -------------------------------------------------------------------------------------------------------


def test_poisson_eps_is_that_of_dp_accounting(dp_accounting):
    dp = dp_accounting
    event = dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(1.3))
    other = dp.rdp.RdpAccountant(list(ORDERS)).compose(event, 200).get_epsilon(1e-5)
    ours = sampled_guarantee(noise_multiplier=1.3, sampling_rate=0.05, steps=200, delta=1e-5).eps
    assert ours == pytest.approx(other, rel=1e-5)


@pytest.mark.parametrize(("n", "b", "z", "steps"), [(1000, 20, 2.0, 300), (100, 50, 20.0, 100)])
def test_fixed_batches_cost_less_than_wang_et_al_and_more_than_loss_distributions(dp_accounting, n, b, z, steps):
    dp = dp_accounting
    how = {"noise_multiplier": z, "sampling_rate": b / n, "delta": 1e-5}
    ours = sampled_guarantee(**how, steps=steps, sampling="fixed").eps
    replace = dp.rdp.RdpAccountant(list(range(2, 40)), neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    replace.compose(dp.SampledWithoutReplacementDpEvent(n, b, dp.GaussianDpEvent(z / 2)), steps)  # sensitivity 2
    tight = pld_fixed_batch_epsilon(**how, rounds=steps)
    assert tight < ours < replace.get_epsilon(1e-5)
    assert tight == pytest.approx(pld_fixed_batch_epsilon(**how, rounds=steps, grid=2e-4), rel=2e-3)
    poisson = sampled_guarantee(noise_multiplier=z / 2, sampling_rate=b / n, steps=steps, delta=1e-5, accountant="pld")
    assert tight > poisson.eps  # both directions of a replacement are as bad as the worse of Poisson's


@pytest.mark.usefixtures("dp_accounting")
def test_loss_distributions_of_a_full_batch_are_the_exact_ones():
    found = pld_fixed_batch_epsilon(noise_multiplier=8.0, sampling_rate=1.0, rounds=4, delta=1e-5)
    assert found == pytest.approx(float(gaussian_epsilon(delta=1e-5, sensitivity=4.0, sigma=8.0)), rel=1e-3)


@pytest.mark.usefixtures("dp_accounting")
def test_the_tight_accountant_needs_less_noise_and_keeps_its_word():
    how = {"delta": 1e-4, "sampling_rate": 0.05, "steps": 100, "sampling": "fixed"}
    loose, tight = (noise_multiplier_for(eps=2.0, **how, accountant=a) for a in ("rdp", "pld"))
    assert 0.8 * loose < tight < loose
    assert 1.98 < sampled_guarantee(noise_multiplier=tight, **how, accountant="pld").eps <= 2.0
    poisson = {"noise_multiplier": 1.5, "sampling_rate": 0.1, "steps": 4, "delta": 1e-4}
    assert sampled_guarantee(**poisson, accountant="pld").eps < sampled_guarantee(**poisson).eps
