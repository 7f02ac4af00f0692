"""Accounting at the ends of its domains and on both sides of every switch, against formulas evaluated another way."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from estimators.accounting import Budget, Guarantee, accountants, adaptive, dpsgd, losses, mechanisms, privacy, shuffling
from estimators.accounting.adaped import adaped_rdp
from estimators.accounting.budget import (
    composed_gaussian_epsilon,
    composed_gaussian_sigma,
    guarantee,
    in_parallel,
    total_epsilon,
)
from estimators.accounting.budget_file import BudgetFile
from estimators.accounting.events import Event
from estimators.accounting.tuning import FixedRuns, PoissonRuns, TruncatedNegativeBinomial, _log_sinhc, noise_inflation

ORDERS = np.array(privacy.ORDERS)
RUNS = TruncatedNegativeBinomial(eta=0.5, gamma=0.2)


def up(x):
    return float(np.nextafter(x, np.inf))


def down(x):
    return float(np.nextafter(x, -np.inf))


# --- the first refused and the last permitted ------------------------------------------------------------------------------

ENDS = [  # a call of one number; permitted; refused
    (lambda x: shuffling.shuffled_delta(eps=0.5, eps0=x, n=3), [5e-324, 30.0], [0.0, up(30.0)]),
    (lambda x: shuffling.shuffled_delta(eps=x, eps0=1.0, n=3), [0.0], [-5e-324]),
    (lambda x: shuffling.shuffled_delta(eps=0.5, eps0=1.0, n=x), [1], [0, 1.5]),
    (lambda x: shuffling.closed_form_epsilon(delta=x, eps0=1.0, n=9), [1e-300, down(1.0)], [0.0, 1.0]),
    (lambda x: shuffling.closed_form_epsilon(delta=0.1, eps0=1.0, n=x), [1], [0]),
    (lambda x: mechanisms.classical_gaussian_sigma(eps=x, delta=0.1, sensitivity=1.0), [1e-300, 3.5], [0.0, up(3.5)]),
    (lambda x: mechanisms.classical_gaussian_sigma(eps=1.0, delta=x, sensitivity=1.0), [1e-300, down(1.0)], [0.0, 1.0]),
    (lambda x: mechanisms.accuracy_sensitivity(n=x, adjacency="replace"), [1], [0]),
    (lambda x: mechanisms.accuracy_sensitivity(n=x, adjacency="add"), [1], [0]),
    (lambda x: mechanisms.accuracy_sensitivity(n=x, adjacency="remove"), [2], [1]),
    (lambda x: mechanisms.accuracy_sensitivity(n=x, adjacency="add-remove"), [2], [1]),
    (lambda x: mechanisms.clipping_bound(bound=x, sigma2=0.0, n=1, beta=1.0), [0.0], [-5e-324]),
    (lambda x: mechanisms.clipping_bound(bound=1.0, sigma2=1.0, n=2, beta=x), [5e-324, 1.0], [0.0, up(1.0)]),
    (lambda x: mechanisms.exponential_epsilon(eps=1.0, n_candidates=2, score_range=x, sensitivity=2.0), [2.0], [down(2.0)]),
    (lambda x: mechanisms.exponential_epsilon(eps=1.0, n_candidates=x, score_range=2.0), [2], [1]),
    (lambda x: mechanisms.amplified_budget(eps=1.0, delta=x, sampling_rate=0.5), [0.0, 1.0], [-5e-324, up(1.0)]),
    (lambda x: mechanisms.amplified_budget(eps=1.0, delta=0.1, sampling_rate=x), [0.0, 1.0], [-5e-324, up(1.0)]),
    (lambda x: privacy.epsilon_at_order(order=x, rdp=1.0, delta=0.1), [up(1.0)], [1.0]),
    (lambda x: privacy.epsilon_at_order(order=2.0, rdp=1.0, delta=x), [5e-324, 1.0], [0.0, up(1.0)]),
    (lambda x: privacy.delta_at_order(order=x, rdp=1.0, eps=0.1), [up(1.0)], [1.0]),
    (lambda x: privacy.delta_from_rdp([x], [0.5], eps=1.0), [1.0, 1e300], [down(1.0), np.inf]),
    (lambda x: privacy.rdp_from_zcdp(0.5, x), [up(1.0)], [1.0]),
    (lambda x: privacy.rdp_pure(0.5, x), [up(1.0)], [1.0]),
    (lambda x: privacy.rdp_laplace(0.5, x), [up(1.0)], [1.0]),
    (lambda x: privacy.rdp_sampled_gaussian(noise_multiplier=1.0, sampling_rate=0.5, order=x), [2.0], [down(2.0)]),
    (lambda x: privacy.renyi_divergence([0.5, 0.5], [0.25, 0.75], order=x), [1.0, np.inf], [down(1.0)]),
    (lambda x: privacy.renyi_divergence([0.5, 0.5], [0.25, 0.75 + x], order=2), [0.9e-9, -0.9e-9], [1.1e-9, -1.1e-9]),
    (lambda x: privacy.renyi_divergence([0.5 + x, 0.5], [0.25, 0.75], order=2), [0.9e-9, -0.9e-9], [1.1e-9, -1.1e-9]),
    (lambda x: privacy.zcdp_from_epsilon(eps=x, delta=0.1), [1e-300, np.inf], [0.0]),
    (lambda x: privacy.zcdp_from_epsilon(eps=1.0, delta=x), [0.0, down(1.0)], [1.0]),
    (lambda x: privacy.server_noise_variance(z=1.0, S=1.0, q=x, N=1), [5e-308, 1.0], [0.0, up(1.0)]),
    (lambda x: dpsgd.model_update_variance(K=1, N=2, b=1, eta=1, c=1, z=1, p=1, contraction=x, path="curved"),
     [0.0, down(2.0)], [-5e-324, 2.0]),
    (lambda x: dpsgd.batch_gradient_variance(b=1, c=1, z=1, p=1, alignment=x), [0.0, 1.0], [-5e-324, up(1.0)]),
    (lambda x: accountants.fixed_batch_rdp(noise_multiplier=1.0, sampling_rate=x, order=2), [1e-12, 1.0], [0.0, up(1.0)]),
    (lambda x: accountants.fixed_batch_rdp(noise_multiplier=1.0, sampling_rate=0.5, order=x), [2.0], [down(2.0)]),
    (lambda x: accountants.epsilon(Event(noise=1.0), delta=x), [0.0, 1.0], [-5e-324, up(1.0)]),
    (lambda x: accountants.noise_for(Event(), eps=1.0, delta=x), [1e-300, down(1.0)], [0.0, 1.0]),
    (lambda x: Event(sampling="poisson", rate=x, noise=1.0), [0.0, 1.0], [-5e-324, up(1.0)]),
    (lambda x: Event(number=x), [0], [-1, 0.5]),
    (lambda x: Event(noise=x), [0.0, np.inf], [-5e-324]),
    (lambda x: TruncatedNegativeBinomial(eta=x, gamma=0.5), [up(-1.0)], [-1.0]),
    (lambda x: TruncatedNegativeBinomial(eta=1.0, gamma=x), [5e-324, down(1.0)], [0.0, 1.0]),
    (lambda x: TruncatedNegativeBinomial.with_mean(eta=x, mean=2.0), [-0.999], [-1.0]),
    (lambda x: TruncatedNegativeBinomial.with_mean(eta=1.0, mean=x), [1 + 1e-9], [1.0]),
    (lambda x: PoissonRuns(x), [1.0], [down(1.0)]),
    (lambda x: FixedRuns(x), [1], [0]),
    (lambda x: RUNS.pmf(x), [1], [0]),
    (lambda x: PoissonRuns(2.0).pmf(x), [0], [-1]),
    (lambda x: FixedRuns(2).pmf(x), [0], [-1]),
    (lambda x: noise_inflation(RUNS, eps=1.0, delta=x), [1e-300], [0.0, 1.0]),
    (lambda x: adaptive.best_order(eps=x, delta=0.1), [5e-324], [0.0]),
    (lambda x: adaptive.best_order(eps=1.0, delta=x), [1e-300, down(1.0)], [0.0, 1.0]),
    (lambda x: adaped_rdp(order=x, tau=2, T=4, K=1, m=2, C1=1, sigma2_q1=1), [up(1.0)], [1.0]),
    (lambda x: adaped_rdp(order=2, tau=2, T=4, K=x, m=3, C1=1, sigma2_q1=1), [1, 3], [0, 4]),
    (lambda x: Guarantee(x, 0.0, "row", "client", "m"), [5e-324, np.inf], [0.0]),
    (lambda x: Guarantee(1.0, x, "row", "client", "m"), [0.0, down(1.0)], [-5e-324, 1.0]),
    (lambda x: Guarantee(1.0, 0.0, "row", "client", "m", rho=x), [0.0, np.inf], [-5e-324]),
    (lambda x: Budget(eps=x, delta=0.0, adjacency="row"), [5e-324, np.inf], [0.0]),
    (lambda x: Budget(eps=1.0, delta=x, adjacency="row"), [0.0, down(1.0)], [1.0, -5e-324]),
    (lambda x: Budget(eps=1.0, delta=x, adjacency="row", order=8.0), [1e-300], [0.0]),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(ENDS)))
def test_domains_end_where_they_are_said_to(case):
    call, permitted, refused = ENDS[case]
    for x in permitted:
        found = call(x)
        if isinstance(found, (float, np.ndarray)):
            assert not np.isnan(found).any()
    for x in refused:
        with pytest.raises(ValueError, match="must"):
            call(x)


# --- mechanisms ------------------------------------------------------------------------------------------------------------


def test_numbers_of_simple_mechanisms():
    assert mechanisms.clipped_sum_sensitivity(c=1.7, adjacency="add-remove") == 1.7
    assert mechanisms.clipped_sum_sensitivity(c=1.7, adjacency="replace") == 3.4
    for adjacency, exact in (("replace", 1 / 7), ("remove", 1 / 7), ("add-remove", 1 / 7), ("add", 1 / 8)):
        assert mechanisms.accuracy_sensitivity(n=7, adjacency=adjacency) == exact
    exact = 1.7 * np.sqrt(2 * np.log(1.25 / 0.03)) / 0.6
    assert mechanisms.classical_gaussian_sigma(eps=0.6, delta=0.03, sensitivity=1.7) == pytest.approx(exact, rel=1e-14)
    exact = 0.7 + np.sqrt(2.6) * np.sqrt(2 * np.log(9 / 0.3))
    assert mechanisms.clipping_bound(bound=0.7, sigma2=2.6, n=9, beta=0.3) == pytest.approx(exact, rel=1e-14)
    assert mechanisms.exponential_zcdp(eps=0.7) == pytest.approx(0.7**2 / 8, rel=1e-15)
    assert mechanisms.exponential_epsilon(eps=0.7) == 0.7
    assert mechanisms.exponential_epsilon(eps=0.7, n_candidates=3) == pytest.approx(0.7)
    assert privacy.server_noise_variance(z=1.3, S=0.7, q=0.2, N=9) == pytest.approx((1.3 * 0.7 / 1.8) ** 2)
    assert privacy.gaussian_zcdp(sensitivity=1.7, sigma=0.6) == pytest.approx((1.7 / 0.6) ** 2 / 2)
    assert privacy.rdp_from_zcdp(0.3, 2.5) == pytest.approx(0.75)
    assert privacy.compose(0.3, 0) == 0
    assert privacy.compose(np.inf, 0) == 0  # no round costs nothing
    exact = np.exp([0.4 * 3 / 3.4, 0.4 * -1 / 3.4, 0.0])
    found = mechanisms.exponential_probabilities([3.0, -1.0, 0.0], eps=0.4, sensitivity=1.7)
    np.testing.assert_allclose(found, exact / exact.sum(), rtol=1e-13)
    assert mechanisms.exponential_choice([0.0, 9.0], eps=40.0, sensitivity=1.0, rng=np.random.default_rng(1)).shape == ()
    drawn = mechanisms.exponential_choice([0.0, 1.0], eps=1.0, sensitivity=1.0, rng=np.random.default_rng(1), size=(40, 50))
    assert drawn.shape == (40, 50)
    assert drawn.mean() == pytest.approx(1 / (1 + np.exp(-0.5)), abs=5 * 0.5 / np.sqrt(2000))


@pytest.mark.parametrize("eps", [29.9, 30.0, 30.1, 400.0])
def test_the_exponential_mechanism_on_both_sides_of_its_switch(eps):
    with mpmath.workdps(400):
        e, w = mpmath.exp(mpmath.mpf(eps)), 4 * mpmath.exp(mpmath.mpf(eps) * mpmath.mpf(3) / 2 / 2)
        exact = float(mpmath.log(e * (1 + w) / (e + w)))
    found = mechanisms.exponential_epsilon(eps=eps, n_candidates=5, score_range=3.0, sensitivity=2.0)
    assert found == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("eps", [0.0, 1e-5, 699.9, 700.0, 700.1, 1e4])
def test_amplification_on_both_sides_of_its_switch(eps):
    with mpmath.workdps(5000):
        exact = float(mpmath.log1p(mpmath.mpf(0.3) * mpmath.expm1(mpmath.mpf(eps))))
    found = mechanisms.amplified_budget(eps=eps, delta=0.25, sampling_rate=0.3)
    assert tuple(map(float, found)) == pytest.approx((exact, 0.075), rel=1e-13)
    assert mechanisms.amplified_budget(eps=np.inf, delta=1.0, sampling_rate=0.0)[0] == 0


@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_private_mean_clips_rows_and_divides_by_their_number(n, shape):
    """With next to no noise: what is left is the mean of clipped rows, at lengths whose squares are no numbers too."""
    rng = np.random.default_rng(4)
    rows = rng.normal(0, 2, (n, *shape))
    norms = np.abs(rows) if not shape else np.sqrt((rows**2).sum(axis=1))
    exact = (rows * np.minimum(1, 1.1 / norms).reshape(n, *[1] * len(shape))).mean(axis=0)
    for unit in (1.0, 2.0**600, 2.0**-600):
        found = mechanisms.private_mean(rows * unit, c=1.1 * unit, eps=1e9, delta=0.4, adjacency="add-remove", rng=rng)
        np.testing.assert_allclose(found / unit, exact, atol=1e-4)
        assert np.shape(found) == shape
    for bad in (np.zeros((2, 2, 2)), np.zeros((0, 2)), 1.0):
        with pytest.raises(ValueError, match="values must have shape"):
            mechanisms.private_mean(bad, c=1.0, eps=1.0, delta=0.1, adjacency="replace", rng=rng)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_private_mean_has_noise_per_coordinate_for_its_adjacency(adjacency):
    rows, rng = np.zeros((4, 20_000)), np.random.default_rng(5)
    found = mechanisms.private_mean(rows, c=1.5, eps=0.7, delta=1e-3, adjacency=adjacency, rng=rng)
    change = 3.0 if adjacency == "replace" else 1.5
    sigma = float(found.std() * 4)
    assert privacy.gaussian_delta(eps=0.7, sensitivity=change, sigma=sigma) == pytest.approx(1e-3, rel=0.2)


@pytest.mark.parametrize("step", [1e-3, 0.4, 0.999, 1.0, 1.001, 3.0, 9.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.6, 2.0])
def test_the_curve_of_gaussian_noise_and_its_complement_on_both_sides_of_its_switches(step, share):
    eps = share * step**2  # eps = step^2 / 2 is where the bulk becomes a tail
    with mpmath.workdps(60):
        s, e = mpmath.mpf(step), mpmath.mpf(eps)
        exact = mpmath.ncdf(s / 2 - e / s) - mpmath.exp(e) * mpmath.ncdf(-s / 2 - e / s)
        found, rest = privacy.gaussian_curve(np.float64(eps), np.float64(step))
        assert found == pytest.approx(float(exact), rel=1e-12)
        assert rest == pytest.approx(float(1 - exact), rel=1e-12)


@pytest.mark.parametrize("order", [1.05, 2.0, 7.3])
@pytest.mark.parametrize("product", [1e-20, 1e-3, 0.05, 0.0999, 0.1001, 0.9999, 1.0, 1.0001, 40.0])
def test_divergences_of_pure_releases_on_both_sides_of_their_switches(order, product):
    eps = product / (order - 1)
    with mpmath.workdps(80):
        a, e = mpmath.mpf(order), mpmath.mpf(eps)
        p = 1 / (1 + mpmath.exp(-e))
        pure = mpmath.log(p * mpmath.exp((a - 1) * e) + (1 - p) * mpmath.exp((1 - a) * e)) / (a - 1)
        moment = a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)
        laplace = mpmath.log(moment) / (a - 1)
    assert privacy.rdp_pure(eps, order) == pytest.approx(float(pure), rel=1e-14)
    assert privacy.rdp_laplace(eps, order) == pytest.approx(float(laplace), rel=1e-11)


@pytest.mark.parametrize("x", [-0.2, -0.1, -0.0999, -1e-9, 0.0, 1e-6, 0.0999, 0.1, 0.3, 1.0])
def test_what_the_exponential_has_beyond_its_line(x):
    with mpmath.workdps(50):
        exact = float(mpmath.expm1(mpmath.mpf(x)) - mpmath.mpf(x))
    assert privacy.beyond_line(np.array(x)) == pytest.approx(exact, rel=3e-14, abs=0)


@pytest.mark.parametrize(("rho", "delta"), [(0.3, 1e-5), (2.5, 0.2), (40.0, 0.7), (1e-9, 1e-6), (2e-8, 4.5e-5)])
def test_zcdp_to_eps_is_the_least_of_all_orders(rho, delta):
    a = 1 + np.exp(np.linspace(-12, 16, 280_001))
    least = float(np.min(rho * a + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)))
    found = privacy.epsilon_from_zcdp(rho=rho, delta=delta)
    assert found == pytest.approx(max(0.0, least) if delta**2 < -np.expm1(-rho) else 0.0, rel=1e-7)
    if found > 0:
        assert privacy.zcdp_from_epsilon(eps=found, delta=delta) == pytest.approx(rho, rel=1e-9)
    assert privacy.epsilon_from_zcdp(rho=rho, delta=min(1.0, np.sqrt(-np.expm1(-rho)) * (1 + 1e-9))) == 0


# --- noisy gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("c", "z"), [(1.3, 0.7), (1e-160, 1e158), (1e158, 1e-160), (3e-146, 1e-140), (1e-80, 1e-100)])
def test_noise_of_a_gradient_has_its_variance_in_any_units(c, z):
    with mpmath.workdps(40):
        noise = 11 * (mpmath.mpf(c) * mpmath.mpf(z) / 3) ** 2
        c2 = mpmath.mpf(c) ** 2
        sampled = {"independent": c2 * (1 - mpmath.mpf(0.4) ** 2) / 3}
        sampled["without replacement"] = sampled["independent"] * 5 / 7
        sampled["poisson"] = c2 * 5 / (3 * 8)
        for kind, part in sampled.items():
            found = dpsgd.batch_gradient_variance(b=3, c=c, z=z, p=11, alignment=0.4, others=5, sampling=kind)
            assert found == pytest.approx(float(part + noise), rel=1e-13)
    assert dpsgd.batch_gradient_variance(b=3, c=c, z=0.0, p=11, others=0, sampling="poisson") == 0
    without = dpsgd.batch_gradient_variance(b=1, c=2.0, z=0.0, p=1, alignment=0.0, others=0, sampling="without replacement")
    assert without == 0  # the only record
    one_of_two = dpsgd.batch_gradient_variance(
        b=1, c=2.0, z=0.0, p=1, alignment=0.5, others=1, sampling="without replacement"
    )
    assert one_of_two == pytest.approx(4 * (1 - 0.25))  # gradients c apart from each other's mean by c^2 (1 - s^2)


@pytest.mark.parametrize("a", [0.0, 1e-7, 0.3, 1.0, 1.2, 1.999])
def test_a_curved_path_adds_up_what_its_steps_leave(a):
    """One step after the other: the variance is pulled back by (1 - a)^2, and that of a gradient is added."""
    one = 0.3**2 * float(dpsgd.batch_gradient_variance(b=3, c=1.3, z=0.7, p=11, alignment=0.4))
    variance = 0.0
    for _ in range(2 * 4):
        variance = (1 - a) ** 2 * variance + one
    common = {"K": 2, "N": 10, "b": 3, "eta": 0.3, "c": 1.3, "z": 0.7, "p": 11, "alignment": 0.4}
    found = dpsgd.model_update_variance(**common, contraction=a, path="curved")
    assert found == pytest.approx(variance, rel=1e-9)
    assert dpsgd.model_update_variance(**common, contraction=a) == pytest.approx(8 * one, rel=1e-13)
    aligned = 0.3**2 * float(dpsgd.batch_gradient_variance(b=3, c=1.3, z=0.7, p=11))
    assert dpsgd.model_update_variance(**common, path="shuffled") == pytest.approx(8 * aligned, rel=1e-13)


def test_noise_of_the_closed_form_is_its_formula():
    with mpmath.workdps(40):
        e, d = mpmath.mpf(0.7), -mpmath.log(mpmath.mpf(1e-4))
        exact = float(mpmath.sqrt(mpmath.mpf(9) / 2) / (mpmath.sqrt(d + e) - mpmath.sqrt(d)))
    assert dpsgd.closed_form_noise_multiplier(eps=0.7, delta=1e-4, steps=9) == pytest.approx(exact, rel=1e-12)
    assert dpsgd.unclipped_gradient_variance(sigma2_g=0.9, b=3, c=1.3, z=0.7, p=11) == pytest.approx(
        0.9 + 11 * (1.3 * 0.7 / 3) ** 2, rel=1e-14
    )


# --- shuffling -------------------------------------------------------------------------------------------------------------


def test_the_closed_form_of_shuffling_and_where_its_domain_ends():
    n, delta = 5000, 1e-4
    end = np.log(n / (16 * np.log(2 / delta)))
    for eps0 in (0.3, 1.7, end * (1 - 1e-12)):
        size = np.exp(eps0)
        spread = 8 * np.sqrt(size * np.log(4 / delta) / n) + 8 * size / n
        exact = min(np.log(1 + (size - 1) / (size + 1) * spread), eps0)
        assert shuffling.closed_form_epsilon(delta=delta, eps0=eps0, n=n) == pytest.approx(exact, rel=1e-12)
    assert shuffling.closed_form_epsilon(delta=delta, eps0=end * (1 + 1e-12), n=n) == end * (1 + 1e-12)
    assert exact < 0.7 * end  # the bound just inside is far below eps0 itself


def test_shuffled_eps_is_the_first_at_which_delta_is_low_enough():
    for n, delta in ((1, 0.2), (30, 0.05), (400, 1e-3)):
        found = shuffling.shuffled_epsilon(delta=delta, eps0=1.4, n=n)
        assert shuffling.shuffled_delta(eps=found, eps0=1.4, n=n) <= delta
        assert shuffling.shuffled_delta(eps=found - 1e-9, eps0=1.4, n=n) > delta
    assert shuffling.shuffled_epsilon(delta=0.9, eps0=1.4, n=3) == 0
    assert shuffling.shuffled_delta(eps=0.0, eps0=30.0, n=1) == pytest.approx(1 - 2 / (1 + np.exp(30)), rel=1e-12)
    made = shuffling.shuffled(Guarantee(1.4, 0.0, "client", "client", "answers"), n=3, delta=0.9)
    assert made.eps == np.finfo(float).tiny  # nothing is left, but eps is above 0


def test_clones_are_a_binomial_of_which_next_to_nothing_is_left_out():
    for n, eps0 in ((1, 0.7), (2, 3.0), (900, 1.1)):
        clones, chances, out = shuffling.clones_of(eps0, n)
        law = stats.binom(n - 1, np.exp(-eps0))
        np.testing.assert_allclose(chances, law.pmf(clones), rtol=1e-12)
        assert out == pytest.approx(0.0, abs=2e-18)
        assert chances.sum() + out == pytest.approx(1.0, abs=1e-12)
        assert clones.size <= 20 * law.std() + 4


@pytest.mark.parametrize(("n", "eps0"), [(2, 3.0), (60, 0.5), (900, 1.1), (900, 0.02), (900, 5.0)])
def test_clones_are_the_numbers_outside_both_tails_and_one_more_on_each_side(n, eps0):
    """Each number costs a row of every step of a search: none beyond is worth it."""
    chances = stats.binom(n - 1, np.exp(-eps0)).pmf(np.arange(n))
    at_most, at_least = np.cumsum(chances), np.cumsum(chances[::-1])[::-1]
    inside = np.flatnonzero((at_most >= shuffling.LEFT_OUT) & (at_least >= shuffling.LEFT_OUT))
    clones = shuffling.clones_of(eps0, n)[0]
    assert clones.tolist() == list(range(max(inside[0] - 1, 0), min(inside[-1] + 2, n)))


# --- events, losses, accountants -------------------------------------------------------------------------------------------


def test_a_neighbour_moves_a_release_by_its_sensitivity_over_the_noise():
    assert Event(noise=4.0).shift == 0.25
    assert Event(noise=4.0, sampling="poisson", rate=0.1).shift == 0.25
    assert Event(noise=4.0, sampling="fixed", rate=0.1).shift == 0.5
    assert Event(noise=np.inf).shift == 0.0
    assert [Event(noise=1.0, number=0).silent, Event(noise=1.0).silent, Event(noise=np.inf).silent] == [True, False, True]
    assert Event(noise=1.0, sampling="poisson", rate=0.0).silent
    with pytest.raises(ValueError, match="noise of the event is not given"):
        _ = Event().shift
    with pytest.raises(ValueError, match="rate must be 1 where all rows"):
        Event(rate=down(1.0))
    with pytest.raises(ValueError, match='mechanism must be "gaussian"'):
        Event(mechanism="laplace", sampling="poisson", rate=0.5)


def loss_of(event):
    """The privacy loss of one Gaussian release, and its law, by quadrature over the release with the row."""
    m, q = event.shift, event.rate
    x = np.linspace(-12, m + 12, 200_001)
    law = q * stats.norm.pdf(x - m) + (1 - q) * stats.norm.pdf(x)
    return np.log1p(q * np.expm1(m * x - m * m / 2)), law, x


@pytest.mark.parametrize(
    "event", [Event(noise=0.8), Event(noise=3.0, sampling="poisson", rate=0.2), Event(noise=2.0, sampling="fixed", rate=0.5)]
)
def test_losses_reach_as_far_and_are_as_wide_as_the_grid_takes_them(event):
    loss, law, x = loss_of(event)
    mean = integrate.trapezoid(law * loss, x)
    deviation = np.sqrt(integrate.trapezoid(law * (loss - mean) ** 2, x))
    assert losses.deviation(event) == pytest.approx(deviation, rel=0.5)
    far = losses.furthest(event)
    m, q = event.shift, event.rate
    at = (np.log1p(np.expm1(far) / q) + m * m / 2) / m  # where the loss is so large
    assert q * stats.norm.sf(at - m) + (1 - q) * stats.norm.sf(at) < 1e-22
    assert at < m + 11
    step, finest = losses.grid([event])
    assert finest == losses.deviation(event)
    assert step == pytest.approx(finest / 40)
    many = Event(**{**event.__dict__, "number": 10**9})
    square = 10**9 * finest**2
    assert losses.grid([many])[0] == pytest.approx(max(finest / 40, 2 * (square + 12 * np.sqrt(square)) / losses.POINTS))


def test_pure_releases_lose_at_most_their_eps():
    event = Event(mechanism="pure", noise=0.4)
    assert losses.furthest(event) == losses.deviation(event) == 2.5
    levels = np.array([-3.0, -1.0, 0.0, 0.7, 2.5, 3.0])
    likely = 1 / (1 + np.exp(-2.5))
    exact = [max(likely - np.exp(t) * (1 - likely), 0) + max((1 - likely) - np.exp(t) * likely, 0) for t in levels]
    np.testing.assert_allclose(losses.profile(event, levels), exact, atol=3e-15)


def test_the_profile_of_a_fixed_batch_is_that_of_the_amplified_pair():
    event = Event(noise=1.6, sampling="fixed", rate=0.3)
    x = np.linspace(-14, 16, 300_001)
    without = stats.norm.pdf(x)
    with_row = 0.7 * without + 0.3 * stats.norm.pdf(x - 1.25)
    for t in (0.0, 0.2, 0.9):
        exact = integrate.trapezoid(np.maximum(with_row - np.exp(t) * without, 0), x)
        assert losses.profile(event, np.array(t)) == pytest.approx(exact, rel=1e-6)
    for t in (-0.1, -0.7):  # by symmetry of what is replaced
        above = integrate.trapezoid(np.maximum(with_row - np.exp(-t) * without, 0), x)
        assert losses.profile(event, np.array(t)) == pytest.approx(1 - np.exp(t) + np.exp(t) * above, rel=1e-6)


def test_no_loss_distribution_where_floats_do_not_reach():
    event = Event(noise=1.0, sampling="poisson", rate=0.1, number=3)
    assert losses.loss_epsilon((event,), losses.SMALLEST) < np.inf
    assert losses.loss_epsilon((event,), down(losses.SMALLEST)) == np.inf
    assert losses.loss_epsilon((event,), 1.0) == np.inf
    assert losses.loss_epsilon((event.at(np.inf),), 0.1) == 0.0
    assert losses.loss_epsilon((event.at(0.0),), 0.1) == np.inf
    for eps, known in ((losses.FURTHEST, True), (up(losses.FURTHEST), False)):
        assert (losses.loss_epsilon((Event(mechanism="pure", noise=1 / eps),), 0.1) < np.inf) == known


@pytest.mark.parametrize("noise", [0.1, 0.2, 0.9, 50.0])
def test_the_loss_of_gaussian_noise_on_all_rows_is_normal(noise):
    """With the mean m^2 / 2 and the deviation m: ten deviations are what 1e-22 leaves out."""
    event, m = Event(noise=noise), 1 / noise
    assert losses.deviation(event) == pytest.approx(m, rel=1e-12)
    assert 1e-24 < stats.norm.sf(losses.furthest(event), loc=m * m / 2, scale=m) < 1e-22


def test_rounding_of_losses_and_of_transforms_is_on_the_safe_side():
    """One purely private release: delta = p - e^eps (1 - p) is straight between losses, and 1e-13 is taken off it."""
    for eps in (0.3, 1.1):
        p, event = 1 / (1 + np.exp(-eps)), Event(mechanism="pure", noise=1 / eps)
        for delta in (1e-2, 1e-6, 1e-10):
            exact = np.log((p - delta) / (1 - p))
            found = losses.loss_epsilon((event,), delta)
            assert 0.3e-13 < (found - exact) * (p - delta) < 3e-13


def test_no_bound_where_a_step_of_losses_is_half_as_wide_as_a_release():
    """N releases of deviation one span 2 (N + 12 sqrt N), which POINTS points cut into steps."""
    for number, known in ((28_000, True), (32_000, False)):
        step = 2 * (number + 12 * np.sqrt(number)) / losses.POINTS
        assert (1 / 3 < step < 1 / 2) == known
        assert (losses.loss_epsilon((Event(noise=1.0, number=number),), 1e-5) < np.inf) == known


def test_the_least_noises_are_told_from_none():
    """A search that starts at 1 goes down to e^-60; a shift of 1e100 still has a square, one above it need not."""
    for log_noise in (-59.5, -58.5, -0.5, 0.5, 59.5):
        found = accountants.calibrate_noise(lambda z, least=log_noise: np.exp(least) / z, eps=1.0)
        assert found == pytest.approx(np.exp(log_noise), rel=1e-12)
    assert accountants.HUGE == 1 / 1e-100
    np.testing.assert_allclose(accountants.divergences(Event(noise=1e-100)), ORDERS * 1e200 / 2, rtol=1e-12)
    assert np.isinf(accountants.divergences(Event(noise=down(1e-100) / 2))).all()


# --- AdaPeD ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("C1", [0.0, 1e-3, 0.7, 12.0, 26.4, 26.7, 40.0])
@pytest.mark.parametrize(("K", "m"), [(3, 3), (3, 20), (1, 10**12), (1, 1e305)])
def test_steps_of_adaped_cost_what_their_formula_says_at_400_digits(adjacency, C1, K, m):
    """On both sides of where exponentials leave the range of numbers, at orders one apart from two and not."""
    tau, T, variance = 3, 10, 2.5
    for order in (1.5, 2.0, 7.0):
        for C2, more, variance2 in ((0.0, {}, 1.0), (0.9, {}, 1.0), (0.9, {"sigma2_q2": 0.4}, 0.4)):
            with mpmath.workdps(400):
                move2 = {"zero-out": 1, "replace": 4}[adjacency]
                x = mpmath.mpf(order) * tau * move2 * (mpmath.mpf(C1) ** 2 / variance + mpmath.mpf(C2) ** 2 / variance2) / 2
                grown = mpmath.expm1((mpmath.mpf(order) - 1) * x)
                exact = mpmath.mpf(T) / tau * mpmath.log1p(mpmath.mpf(K) / m * grown) / (mpmath.mpf(order) - 1)
            found = adaped_rdp(
                order=order, tau=tau, T=T, K=K, m=m, C1=C1, sigma2_q1=variance, C2=C2, adjacency=adjacency, **more
            )
            assert found == pytest.approx(float(exact), rel=1e-12)


def test_a_tiny_share_of_a_cost_without_end_keeps_what_it_leaves():
    """Whatever is left of e^702 for one client of 1e305: the one beside the share counts as much as the exponential."""
    for grown in (700.5, 702.0, 704.0):
        exact = mpmath.log1p(mpmath.expm1(mpmath.mpf(grown)) / mpmath.mpf(1e305))
        found = adaped_rdp(order=2, tau=1, T=1, K=1, m=1e305, C1=1, sigma2_q1=1 / grown, adjacency="zero-out")
        assert found == pytest.approx(float(exact), rel=1e-11)


def test_an_average_hides_steps_where_clients_are_more_than_those():
    """Of 2 or 6 clients whose sums of 3 steps are averaged: 3 steps are never more than they are, 9 / 6 are fewer."""
    known = {"order": 2, "T": 3, "C1": 1.0, "sigma2_q1": 1.0, "adjacency": "zero-out", "average": True}
    for K, hidden in ((1, 3.0), (2, 3.0), (3, 3.0), (4, 9 / 4), (6, 9 / 6), (9, 1.0)):
        assert adaped_rdp(tau=3, K=K, m=K, **known) == pytest.approx(hidden, rel=1e-14)


@pytest.mark.parametrize("near", [1e-6, 1.0, 3e5])
def test_noise_is_found_wherever_the_search_starts(near):
    assert accountants.calibrate_noise(lambda z: 7 / z, eps=0.2, near=near) == pytest.approx(35, rel=1e-12)
    assert accountants.calibrate_noise(lambda z: 7 / z, eps=0.2, near=near) >= 35
    for spent in (0.1, 0.2):  # at most eps is enough
        assert accountants.calibrate_noise(lambda z, spent=spent: spent, eps=0.2, near=near) == 0
    assert 3 <= accountants.calibrate_noise(lambda z: 0.2 if z >= 3 else 0.3, eps=0.2, near=near) <= 3 * np.e
    with pytest.raises(ValueError, match="out of reach"):
        accountants.calibrate_noise(lambda z: 0.3, eps=0.2, near=near)
    for bad in ({"eps": 0.0}, {"near": 0.0}):
        with pytest.raises(ValueError, match="must be > 0"):
            accountants.calibrate_noise(lambda z: 7 / z, **{"eps": 0.2, **bad})


def test_noise_is_looked_for_up_to_e_to_the_60():
    assert accountants.calibrate_noise(lambda z: np.exp(59.9) / z, eps=1.0) == pytest.approx(np.exp(59.9), rel=1e-11)
    with pytest.raises(ValueError, match="out of reach"):
        accountants.calibrate_noise(lambda z: np.exp(60.1) / z, eps=1.0)


def test_costs_of_single_releases():
    orders = ORDERS
    np.testing.assert_allclose(accountants.divergences(Event(noise=1.6, number=3)), 3 * orders / 1.6**2 / 2, rtol=1e-14)
    fixed = accountants.divergences(Event(noise=1.6, sampling="fixed", number=3))
    np.testing.assert_allclose(fixed, 3 * orders * (2 / 1.6) ** 2 / 2, rtol=1e-14)
    pure = accountants.divergences(Event(mechanism="pure", noise=1.6, number=2))
    np.testing.assert_allclose(pure, 2 * privacy.rdp_pure(1 / 1.6, orders))
    laplace = accountants.divergences(Event(mechanism="laplace", noise=1.6, number=2))
    np.testing.assert_allclose(laplace, 2 * privacy.rdp_laplace(1 / 1.6, orders))
    assert (accountants.divergences(Event(noise=0.0)) == np.inf).all()
    assert (accountants.divergences(Event(noise=np.inf)) == 0).all()
    assert accountants.fixed_batch_rdp(noise_multiplier=1.6, sampling_rate=1.0, order=3.5) == pytest.approx(3.5 * 2 / 1.6**2)
    both = accountants.fixed_batch_rdp(noise_multiplier=1.6, sampling_rate=0.2, order=[[3, 4.5]])
    event = Event(noise=1.6, sampling="fixed", rate=0.2)
    known = accountants.divergences(event)
    np.testing.assert_allclose(both, [[known[privacy.ORDERS.index(a)] for a in (3.0, 4.5)]], rtol=1e-12)


def test_eps_of_events_at_the_ends_of_delta():
    gauss, laplace = Event(noise=2.0), Event(mechanism="laplace", noise=2.0, number=3)
    assert accountants.epsilon([gauss], delta=1.0) == 0
    assert accountants.epsilon([], delta=0.5) == 0
    assert accountants.epsilon(gauss.at(0.0), delta=0.5) == np.inf
    assert accountants.epsilon(gauss, delta=0.0) == np.inf
    assert accountants.epsilon(laplace, delta=0.0) == pytest.approx(1.5)
    assert accountants.epsilon([gauss, laplace], delta=0.0) == np.inf
    two = accountants.epsilon([gauss, Event(noise=0.5, number=2)], delta=1e-3)
    assert privacy.gaussian_delta(eps=two, sensitivity=np.sqrt(1 / 4 + 2 * 4), sigma=1.0) == pytest.approx(1e-3, rel=1e-9)
    with pytest.raises(ValueError, match="one sampling"):
        accountants.epsilon([gauss, Event(noise=1.0, sampling="fixed", rate=0.1)], delta=0.1)
    for way, package in (("pld", "dp-accounting"), ("rdp", "borrowed-strength"), ("exact", "borrowed-strength")):
        assert accountants.stated(way).startswith(f"{way} ({package}")


@pytest.mark.parametrize(("eps", "delta", "number"), [(0.8, 1e-4, 1), (0.1, 1e-10, 7), (3.0, 1e-6, 50), (10.0, 1e-2, 1000)])
@pytest.mark.parametrize(("sampling", "shift"), [("all", 1), ("fixed", 2)])
def test_noise_on_all_rows_is_enough_to_the_last_digit_and_no_more(sampling, shift, eps, delta, number):
    """Balle and Wang 2018, with 60 digits: rounding never leaves a little less noise than is promised."""
    noise = accountants.noise_for(Event(sampling=sampling, number=number), eps=eps, delta=delta)
    with mpmath.workdps(60):
        ratio, level = shift * mpmath.sqrt(number) / mpmath.mpf(noise), mpmath.mpf(eps)
        spent = mpmath.ncdf(ratio / 2 - level / ratio) - mpmath.exp(level) * mpmath.ncdf(-ratio / 2 - level / ratio)
        assert mpmath.mpf(delta) * (1 - 1e-10) < spent <= mpmath.mpf(delta)


@pytest.mark.parametrize("sampling", ["all", "fixed"])
def test_noise_beside_other_releases_leaves_their_rate(sampling):
    """Gaussian releases on all rows beside rho: rates add up to what (eps, delta) allows."""
    event = Event(sampling=sampling, number=5)
    for rho in (0.0, 0.01):
        noise = accountants.noise_for(event, eps=0.8, delta=1e-4, rho=rho)
        shift = {"all": 1, "fixed": 2}[sampling] / noise
        if rho:
            spent = privacy.epsilon_from_zcdp(rho=rho + 5 * shift**2 / 2, delta=1e-4)
            assert spent == pytest.approx(0.8, rel=1e-9)
        else:
            exact = privacy.gaussian_delta(eps=0.8, sensitivity=shift * np.sqrt(5), sigma=1.0)
            assert exact == pytest.approx(1e-4, rel=1e-9)
    with pytest.raises(ValueError, match="is spent by rho"):
        accountants.noise_for(event, eps=0.8, delta=1e-4, rho=1.0)
    assert accountants.noise_for(Event(number=0), eps=0.8, delta=1e-4) == 0
    for mechanism in ("laplace", "pure"):
        other = Event(mechanism=mechanism, number=4)
        noise = accountants.noise_for(other, eps=0.8, delta=1e-4, accountant="rdp")
        assert accountants.epsilon(other.at(noise), delta=1e-4, accountant="rdp") == pytest.approx(0.8, rel=1e-5)


# --- filters and odometers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("eps", "delta"), [(0.4, 1e-5), (3.0, 1e-2), (20.0, 1e-9)])
def test_the_best_order_allows_the_largest_rate(eps, delta):
    """At each order the largest rate rho whose eps is the limit, by its own formula."""
    rates = {a: (eps - np.log1p(-1 / a) + np.log(delta * a) / (a - 1)) / a for a in privacy.ORDERS}
    assert adaptive.best_order(eps=eps, delta=delta) == max(rates, key=rates.get)


def test_a_filter_and_an_odometer_are_their_formulas():
    rdp = 0.02 * ORDERS**1.3
    for order in (2.0, 9.7, 64.0):
        total = rdp[privacy.ORDERS.index(order)]
        exact = max(0.0, total + np.log1p(-1 / order) - np.log(order * 1e-4) / (order - 1))
        assert adaptive.filter_epsilon(rdp, order=order, delta=1e-4) == pytest.approx(exact, rel=1e-13)
    found = adaptive.odometer_epsilon(rdp, delta=1e-4)
    with mpmath.workdps(60):

        def mean(e):
            pairs = zip(privacy.ORDERS, rdp, strict=True)
            return mpmath.fsum(mpmath.exp((mpmath.mpf(a) - 1) * (e - mpmath.mpf(float(r)))) for a, r in pairs) / len(rdp)

        assert mean(mpmath.mpf(found)) >= 1e4
        assert mean(mpmath.mpf(found * (1 - 1e-9))) < 1e4
    rdp[5] = np.inf
    assert adaptive.odometer_epsilon(rdp, delta=1e-4) < np.inf
    assert adaptive.odometer_epsilon(0 * rdp[:0].sum() + np.zeros(len(ORDERS)), delta=1e-4) == 0
    assert adaptive.odometer_epsilon(np.full(len(ORDERS), np.inf), delta=1e-4) == np.inf
    assert adaptive.filter_epsilon(np.full(len(ORDERS), np.inf), order=2.0, delta=1e-4) == np.inf


# --- numbers of runs -------------------------------------------------------------------------------------------------------

LAWS = [(-0.6, 0.3), (0.0, 0.2), (0.7, 0.4), (1.0, 0.1), (3.0, 0.5)]


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_laws_of_numbers_of_runs_are_their_products(eta, gamma):
    runs = TruncatedNegativeBinomial(eta=eta, gamma=gamma)
    h = np.arange(1, 1500)
    with mpmath.workdps(30):
        weight, log_weights = mpmath.mpf(1), []
        for k in h:
            weight *= (1 - mpmath.mpf(gamma)) * ((mpmath.mpf(eta) + int(k) - 1) if k > 1 or eta != 0 else 1) / int(k)
            log_weights.append(weight)
        total = mpmath.fsum(log_weights)
        exact = np.array([float(w / total) for w in log_weights])
    np.testing.assert_allclose(runs.pmf(h), exact, rtol=1e-9, atol=1e-300)
    assert runs.mean == pytest.approx(float(h @ exact), rel=1e-9)
    for x in (0.0, 0.3, 1.0):
        assert runs.generating(x) == pytest.approx(float(exact @ x**h), rel=1e-9, abs=1e-12)
    made = TruncatedNegativeBinomial.with_mean(eta=eta, mean=runs.mean)
    assert made.gamma == pytest.approx(gamma, rel=1e-9)
    masses = np.array([0.2, 0.0, 0.5, 0.3])
    below = np.concatenate([[0.0], np.cumsum(masses)])
    best = [sum(exact * (b**h - a**h)) for a, b in pairwise(below)]
    np.testing.assert_allclose(runs.best_of(masses), best, atol=1e-12)


@pytest.mark.parametrize("eta", [-0.5, 0.0, 0.5, 2.0])
def test_few_stops_are_drawn_by_rejection_from_the_same_law(eta):
    """gamma below 1e-3: a table would be long.  Mean and the share of one run, within five standard errors."""
    runs, size = TruncatedNegativeBinomial(eta=eta, gamma=5e-4), 20_000
    draws = runs.sample(np.random.default_rng(6), (2, size // 2))
    assert draws.shape == (2, size // 2)
    assert draws.min() >= 1
    h = np.arange(1, 60_000)
    chances = runs.pmf(h)
    mean, square = chances @ h, chances @ h.astype(float) ** 2
    assert draws.mean() == pytest.approx(mean, abs=5 * np.sqrt((square - mean**2) / size))
    for k in (1, 3, 40, 1000):
        upto = chances[:k].sum()
        assert np.mean(draws <= k) == pytest.approx(upto, abs=5 * np.sqrt(upto * (1 - upto) / size))
    assert isinstance(runs.sample(np.random.default_rng(6)), int)


@pytest.mark.parametrize("x", [0.0, 1e-9, -0.3, 0.9999, 1.0, -1.0001, 3.0, 800.0])
def test_the_log_of_a_sinh_over_its_argument(x):
    with mpmath.workdps(40):
        exact = float(mpmath.log(mpmath.sinh(mpmath.mpf(x)) / mpmath.mpf(x))) if x else 0.0
    assert _log_sinhc(x) == pytest.approx(exact, rel=1e-13)


def test_poisson_and_fixed_numbers_of_runs():
    runs, h = PoissonRuns(2.3), np.arange(200)
    np.testing.assert_allclose(runs.pmf(h), stats.poisson.pmf(h, 2.3), rtol=1e-10, atol=1e-300)
    for x in (0.0, 0.4, 1.0):
        assert runs.generating(x) == pytest.approx(stats.poisson.pmf(h, 2.3) @ x**h, rel=1e-12)
        assert FixedRuns(3).generating(x) == x**3
    masses = np.array([0.2, 0.0, 0.5, 0.3])
    below = np.concatenate([[0.0], np.cumsum(masses)])
    best = [stats.poisson.pmf(h, 2.3) @ (b**h - a**h) for a, b in pairwise(below)]
    np.testing.assert_allclose(runs.best_of(masses), [np.exp(-2.3), *best], atol=1e-13)
    np.testing.assert_allclose(FixedRuns(3).best_of(masses), np.diff(below**3), atol=1e-15)
    assert FixedRuns(3).pmf([2, 3, 4]).tolist() == [0, 1, 0]
    assert FixedRuns(3).mean == 3
    assert FixedRuns(3).sample(np.random.default_rng(1), 2).tolist() == [3, 3]
    given = runs.rdp([2.0, 5.0], [0.3, 0.4], delta=[0.1, 0.02])
    exact = [r + 2.3 * d + np.log(2.3) / (a - 1) for a, r, d in ((2, 0.3, 0.1), (5, 0.4, 0.02))]
    np.testing.assert_allclose(given, [min(exact), exact[1]], rtol=1e-13)
    own = runs.rdp([2.0, 5.0], [0.3, 0.4])
    at = [privacy.delta_from_rdp([2.0, 5.0], [0.3, 0.4], eps=np.log(a / (a - 1))) for a in (2, 5)]
    np.testing.assert_allclose(own, runs.rdp([2.0, 5.0], [0.3, 0.4], delta=at), rtol=1e-13)
    assert PoissonRuns(1.0).rdp([1.0, 2.0], [0.1, 0.2], delta=0.5).tolist() == pytest.approx([0.6, 0.7])


def test_the_cost_of_a_random_number_of_runs_is_its_formula():
    orders, rdp = np.array([1.5, 4.0, 30.0]), np.array([0.1, 0.35, 2.0])
    second = min((1 - 1 / a) * r + np.log(1 / 0.2) / a for a, r in zip(orders, rdp, strict=True))
    exact = rdp + 1.5 * second + np.log(RUNS.mean) / (orders - 1)
    np.testing.assert_allclose(RUNS.rdp(orders, rdp), np.minimum.accumulate(exact[::-1])[::-1], rtol=1e-12)


# --- budgets ---------------------------------------------------------------------------------------------------------------


def plain(eps, delta):
    return Guarantee(eps, delta, "row", "client", "known by its numbers")


def test_totals_of_releases_with_a_delta():
    """A sum of deltas may exceed that of the budget by rounding, and no more; then there is no bound at all."""
    two = (plain(0.3, 4e-6), plain(0.5, 6e-6))
    assert total_epsilon(two, 1e-5) == pytest.approx(0.8)
    assert total_epsilon(two, 1e-5 * (1 - 1e-10)) == pytest.approx(0.8)
    assert total_epsilon(two, 1e-5 * (1 - 1e-8)) == np.inf
    assert total_epsilon(two, 1e-5, np.inf) == pytest.approx(0.8)
    assert total_epsilon(two, 1e-5 * (1 - 1e-8), np.inf) == np.inf
    assert total_epsilon((), 0.0) == 0.0
    pure = Guarantee(0.4, 0.0, "row", "client", "answers")
    assert total_epsilon((pure,), 1e-5) == 0.4  # one release costs what it says
    assert total_epsilon((pure, pure), 0.0) == total_epsilon((pure, pure), 0.0, np.inf) == pytest.approx(0.8)
    assert total_epsilon((pure, plain(0.3, 4e-6)), 4e-6) == pytest.approx(0.7)  # no delta is left for the first
    assert total_epsilon((plain(0.3, 4e-6), pure), 3.9e-6) == np.inf


def test_a_rate_counts_as_gaussian_noise_only_where_the_noise_is_gaussian():
    """Otherwise it is one of the curves; and Gaussian noise of no known rate is known by eps and delta only."""
    rated = Guarantee(3.0, 1e-6, "row", "client", "answers", rho=0.02)
    for number in (1, 2):
        exact = privacy.epsilon_from_rdp(ORDERS, number * 0.02 * ORDERS, delta=1e-5)
        assert total_epsilon((rated,) * number, 1e-5) == pytest.approx(exact, rel=1e-14)
    assert total_epsilon((Guarantee(0.3, 1e-6, "row", "client", "gaussian"),), 1e-5) == 0.3


def test_what_was_chosen_as_one_went_along_costs_less_than_its_sum():
    pure = Guarantee(0.1, 0.0, "row", "client", "answers")
    budget = Budget(eps=np.inf, delta=1e-5, adjacency="row")
    for _ in range(80):
        budget.spend(pure)
    exact = adaptive.odometer_epsilon(80 * privacy.rdp_pure(0.1, ORDERS), delta=1e-5)
    assert budget.odometer() == pytest.approx(exact, rel=1e-13)
    assert exact < 5


def test_a_budget_admits_what_exceeds_it_by_rounding_only():
    budget = Budget(eps=0.8, delta=0.0, adjacency="row")
    budget.spend(Guarantee(0.3, 0.0, "row", "client", "answers"))
    budget.check(Guarantee(0.5 * (1 + 1e-9), 0.0, "row", "client", "answers"))
    with pytest.raises(ValueError, match="would bring the total"):
        budget.check(Guarantee(0.5 * (1 + 1e-8), 0.0, "row", "client", "answers"))
    assert budget.left() == pytest.approx(0.5)
    assert Budget(eps=np.inf, delta=0.0, adjacency="row").left() == np.inf


def test_a_filter_of_no_order_adds_what_is_known_by_its_numbers_only():
    budget = Budget(eps=1.0, delta=1e-5, adjacency="row", order=np.inf)
    budget.spend(plain(0.3, 1e-6))
    budget.spend(plain(0.4, 1e-6))
    assert budget.spent() == pytest.approx(0.7)
    assert Budget(eps=1.0, delta=0.0, adjacency="row", order=np.inf).order == np.inf


def test_divergences_of_a_guarantee_are_the_least_that_are_known():
    assert plain(0.3, 1e-6).divergences() is None
    np.testing.assert_allclose(
        Guarantee(0.3, 0.0, "row", "client", "answers", rho=0.004).divergences(),
        np.minimum(0.004 * ORDERS, privacy.rdp_pure(0.3, ORDERS)),
    )
    curve = tuple(0.01 * ORDERS)
    np.testing.assert_allclose(Guarantee(0.3, 1e-6, "row", "client", "m", renyi=curve, rho=0.02).divergences(), curve)
    with pytest.raises(ValueError, match="renyi must have one entry"):
        Guarantee(0.3, 1e-6, "row", "client", "m", renyi=curve[:-1])
    (event,) = Guarantee(0.3, 1e-6, "row", "client", "gaussian", rho=0.02).released()
    assert event.noise == pytest.approx(5.0)  # 1 / (2 noise^2) is the rate
    (event,) = Guarantee(0.25, 0.0, "row", "client", "answers").released()
    assert (event.mechanism, event.noise) == ("pure", 4.0)
    both = Guarantee(9.0, 1e-6, "row", "client", "m", events=(Event(noise=2.0), Event(noise=3.0, number=2)))
    np.testing.assert_allclose(both.divergences(), ORDERS * (1 / 8 + 2 / 18))
    assert plain(0.3, 1e-6).released() is None
    assert Guarantee(np.inf, 0.0, "row", "client", "gaussian", rho=0.02).released() is None
    assert Guarantee(1e-12, 0.0, "row", "client", "answers").released() is None


def test_releases_about_different_clients_cost_the_worst_of_each():
    one = Guarantee(0.3, 1e-6, "row", "client", "a", rho=0.02, renyi=tuple(0.01 * ORDERS), claims=("y",))
    two = Guarantee(0.5, 1e-7, "row", "client", "b", rho=0.01, renyi=tuple(0.02 * ORDERS), claims=("x", "y"), simulated=True)
    both = in_parallel([one, two, one])
    assert (both.eps, both.delta, both.rho, both.mechanism) == (0.5, 1e-6, 0.02, "a, b")
    np.testing.assert_allclose(both.renyi, 0.01 * ORDERS)  # each has the smaller of its two curves
    assert both.claims == ("x", "y")
    assert both.simulated
    assert in_parallel([one, one]) is one
    assert in_parallel([one, plain(0.1, 0.0)]).rho is None
    assert in_parallel([one, plain(0.1, 1e-9)]).renyi is None
    for wrong in ([], [one, 3], [one, Guarantee(0.3, 0.0, "client", "client", "a")]):
        with pytest.raises(ValueError, match="guarantees must"):
            in_parallel(wrong)


def test_guarantees_of_events_name_what_they_rest_on():
    gauss = guarantee([Event(noise=2.0, number=3), Event(noise=0.5)], delta=1e-5, adjacency="row")
    assert gauss.rho == pytest.approx(3 / 8 + 2)
    assert (gauss.mechanism, gauss.events, gauss.claims) == ("gaussian", (), ("mrmtl:sigma-dp:exact",))
    full = guarantee(Event(noise=2.0, sampling="fixed", number=3), delta=1e-5)
    assert full.rho == pytest.approx(3 * (2 / 2) ** 2 / 2)
    fixed = guarantee(Event(noise=2.0, sampling="fixed", rate=0.1, number=3), delta=1e-5, accountant="rdp", trusted="server")
    assert (fixed.adjacency, fixed.rho, fixed.mechanism) == ("client", None, "sampled gaussian")
    assert "mrmtl:appA:amplification" in fixed.claims
    poisson = guarantee(Event(noise=2.0, sampling="poisson", rate=0.1, number=3), delta=1e-5, accountant="rdp")
    assert (poisson.adjacency, "mrmtl:appA:amplification" in poisson.claims) == ("row add-remove", False)
    both = guarantee([Event(noise=3.0, mechanism="laplace"), Event(noise=2.0)], delta=1e-5, adjacency="row")
    assert both.mechanism == "gaussian, laplace"
    silent = guarantee(Event(noise=np.inf), delta=0.0, adjacency="row")
    assert (silent.eps, silent.rho, silent.claims) == (np.finfo(float).tiny, 0.0, ())
    loud = guarantee(Event(noise=0.0), delta=0.0, adjacency="row")
    assert (loud.eps, loud.rho) == (np.inf, np.inf)
    for wrong in ({"adjacency": None}, {"delta": 1.0}):
        with pytest.raises(ValueError, match="must"):
            guarantee(Event(noise=1.0), **{"delta": 0.1, "adjacency": "row", **wrong})
    with pytest.raises(ValueError, match="at least one Event"):
        guarantee([], delta=0.1)


def test_what_underflows_and_what_is_certain():
    """A release of rate 0 adds nothing; a law that is sure is itself; many runs of nearly Poisson number; delta at eps 0."""
    gauss = Guarantee(1.0, 1e-5, "row", "client", "gaussian", rho=0.02)
    silent = Guarantee(1e-300, 1e-5, "row", "client", "gaussian", rho=0.0)
    both, one = (total_epsilon(some, 1e-5) for some in ((gauss, silent), (gauss,)))
    assert both == pytest.approx(one, rel=1e-12)
    assert privacy.renyi_divergence([1.0, 0.0], [1.0, 0.0], order=2) == 0
    assert privacy.renyi_divergence([1.0, 0.0], [0.0, 1.0], order=2) == np.inf
    runs = TruncatedNegativeBinomial.with_mean(eta=1e9, mean=30.0)
    assert runs.mean == pytest.approx(30.0, rel=1e-6)
    most = float(privacy.gaussian_delta(eps=0.0, sensitivity=1.0, sigma=2.0))
    assert mechanisms.gaussian_epsilon(delta=most * (1 + 1e-12), sensitivity=1.0, sigma=2.0) == 0
    assert 0 < mechanisms.gaussian_epsilon(delta=most * (1 - 1e-12), sensitivity=1.0, sigma=2.0) < 1e-10


def test_compositions_of_gaussian_releases_at_their_ends():
    def eps(sensitivities, sigmas, delta):
        return composed_gaussian_epsilon(sensitivities=sensitivities, sigmas=sigmas, delta=delta)

    assert eps([0.0, 3.0], [0.0, 4.0], 1e-3) == pytest.approx(eps([3.0], [4.0], 1e-3), rel=1e-12)
    assert (eps([1.0, 3.0], [0.0, 4.0], 0.5), eps([1.0, 3.0], [0.0, 4.0], 1.0)) == (np.inf, 0)
    exact = privacy.gaussian_delta(eps=eps([1.0, 3.0], [2.0, 4.0], 1e-3), sensitivity=np.sqrt(0.25 + 9 / 16), sigma=1.0)
    assert exact == pytest.approx(1e-3, rel=1e-9)
    sigmas = composed_gaussian_sigma(sensitivities=[1.0, 3.0], shares=[0.3, 0.7], eps=0.8, delta=1e-4)
    assert (1 / sigmas[0]) ** 2 / (3 / sigmas[1]) ** 2 == pytest.approx(3 / 7)
    assert eps([1.0, 3.0], sigmas, 1e-4) == pytest.approx(0.8, rel=1e-9)
    equal = composed_gaussian_sigma(sensitivities=[1.0, 3.0], shares=2, eps=0.8, delta=1e-4)
    np.testing.assert_allclose(equal * 3, equal[0] * np.array([3.0, 9.0]))
    for shares in ([0.3, 0.7 + 2e-9], [0.3, 0.7 - 2e-9], [1.0], 3):
        with pytest.raises(ValueError, match="shares must add to 1"):
            composed_gaussian_sigma(sensitivities=[1.0, 3.0], shares=shares, eps=0.8, delta=1e-4)


def test_a_file_with_another_past_is_refused_whatever_its_length(tmp_path):
    """An older copy that has gone on otherwise has as many releases, but not those that were seen."""
    path = tmp_path / "a.budget"
    watch = BudgetFile.create(path, data="ward", eps=9.0)
    empty = path.read_bytes()
    watch.spend(Guarantee(0.5, 0.0, "row", "client", "answers"))
    path.write_bytes(empty)
    BudgetFile(path).spend(Guarantee(0.7, 0.0, "row", "client", "answers"))
    with pytest.raises(ValueError, match="has lost releases"):
        watch.load()
    path.write_bytes(empty)
    with pytest.raises(ValueError, match="has lost releases"):
        watch.load()


@pytest.mark.parametrize("rho", [1e-3, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-12, 0.02, 0.3, 0.6, 0.9])
def test_the_best_order_of_zcdp_is_that_of_a_fine_grid_for_large_delta_too(rho, delta):
    found = privacy.epsilon_from_zcdp(rho=rho, delta=delta)
    orders = 1 + np.geomspace(1e-7, 1e7, 40_001)
    best = np.min(privacy.epsilon_at_order(order=orders, rdp=rho * orders, delta=delta))
    if delta**2 < -np.expm1(-rho):
        assert found == pytest.approx(max(best, 0.0), rel=1e-6, abs=1e-12)
    else:
        assert found == 0.0  # by total variation, of which no order knows


def test_at_delta_1_anything_is_private_even_without_noise():
    for event in (Event(mechanism="laplace", noise=1.0), Event(mechanism="gaussian", noise=0.0)):
        assert accountants.found_epsilon([event], 1.0, "pld") == (0.0, "exact")
        assert accountants.found_epsilon([event], 0.999, "pld")[0] >= 0
    assert accountants.found_epsilon([Event(mechanism="gaussian", noise=0.0)], 0.999, "pld")[0] == np.inf
