"""Laws of the number of runs, bounds against exact divergences of explicit algorithms, dp-accounting, bad input."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from estimators.accounting import adaped, privacy, tuning
from estimators.accounting.tuning import FixedRuns, PoissonRuns, TruncatedNegativeBinomial

shapes = st.floats(-0.95, 8.0)
gammas = st.floats(-4, -0.02).map(lambda x: 10.0**x)
ORDERS = np.array([1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128])


def laws(rng, size):
    """Two random laws on a few answers, from close to far apart."""
    p = rng.dirichlet(np.full(size, 0.7))
    q = p * np.exp(rng.normal(size=size) * rng.choice([0.05, 0.5, 2.0]))
    return p, q / q.sum()


@given(shapes, gammas)
def test_probabilities_mean_and_generating_function_agree(eta, gamma):
    runs = TruncatedNegativeBinomial(eta=eta, gamma=gamma)
    longest = int(50 * (2 + abs(eta)) / gamma) + 50
    if longest > 200_000:
        return
    h = np.arange(1, longest)
    pmf = runs.pmf(h)
    assert (pmf >= 0).all()
    np.testing.assert_allclose(pmf.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(pmf @ h, runs.mean, rtol=1e-9)
    np.testing.assert_allclose(runs.generating(0.7), pmf @ 0.7**h, rtol=1e-9)


def test_special_cases_are_scipys():
    h = np.arange(1, 30)
    np.testing.assert_allclose(TruncatedNegativeBinomial(eta=0, gamma=0.2).pmf(h), stats.logser(0.8).pmf(h), rtol=1e-12)
    np.testing.assert_allclose(TruncatedNegativeBinomial(eta=1, gamma=0.2).pmf(h), stats.geom(0.2).pmf(h), rtol=1e-12)
    negative = stats.nbinom(2.5, 0.2)
    truncated = TruncatedNegativeBinomial(eta=2.5, gamma=0.2)
    np.testing.assert_allclose(truncated.pmf(h), negative.pmf(h) / negative.sf(0), rtol=1e-12)
    np.testing.assert_allclose(PoissonRuns(3.0).pmf(h), stats.poisson(3.0).pmf(h), rtol=1e-12)
    near = TruncatedNegativeBinomial(eta=1e-9, gamma=0.2)
    np.testing.assert_allclose(near.pmf(h), stats.logser(0.8).pmf(h), rtol=1e-7)


@given(st.floats(-0.9, 20.0), st.floats(1.01, 1000.0))
def test_with_mean_round_trip(eta, mean):
    runs = TruncatedNegativeBinomial.with_mean(eta=eta, mean=mean)
    np.testing.assert_allclose(runs.mean, mean, rtol=1e-9)
    assert np.log(mean) * (1 - 1e-9) <= (1 + eta) * runs.log_inverse_gamma <= mean * (1 + 1e-9)


@pytest.mark.parametrize(("eta", "mean", "rel"), [(1e12, 20.0, 1e-4), (1e12, 50.0, 1e-4), (1e13, 1000.0, 1e-6)])
def test_a_shape_without_end_has_a_law_of_every_mean(eta, mean, rel):
    """(1 + eta) log(1/gamma) then comes as near to the mean as its bound says it may."""
    runs = TruncatedNegativeBinomial.with_mean(eta=eta, mean=mean)
    assert runs.mean == pytest.approx(mean, rel=rel)  # 1 - gamma, of some 1e-11, has few digits
    assert (1 + eta) * runs.log_inverse_gamma == pytest.approx(mean, rel=rel)


@pytest.mark.parametrize(
    ("eta", "gamma"), [(-0.5, 1 / 361), (0.0, 0.03), (1.0, 0.1), (20.0, 0.05), (0.5, 5e-4), (0.0, 5e-4), (-0.5, 5e-4)]
)
def test_samples_follow_the_law(eta, gamma):
    runs = TruncatedNegativeBinomial(eta=eta, gamma=gamma)
    draws = runs.sample(np.random.default_rng(1), 40_000)
    assert draws.min() >= 1
    for h in (1, 2, 5):
        p = runs.pmf(h)
        assert abs((draws == h).mean() - p) < 5 * np.sqrt(p * (1 - p) / 40_000)
    assert abs(draws.mean() - runs.mean) < 5 * draws.std() / np.sqrt(40_000)
    assert isinstance(runs.sample(np.random.default_rng(1)), int)
    assert runs.sample(np.random.default_rng(1), (2, 3)).shape == (2, 3)


def test_one_draw_after_the_other_is_many_at_once():
    """Where draws are by inversion, each takes one number of the stream."""
    runs, one = TruncatedNegativeBinomial(eta=0.5, gamma=0.01), np.random.default_rng(2)
    assert [runs.sample(one) for _ in range(20)] == runs.sample(np.random.default_rng(2), 20).tolist()


@pytest.mark.parametrize("eta", [-0.5, 0.0, 0.5])
def test_draws_one_by_one_follow_the_law_where_they_are_by_rejection(eta):
    runs, generator = TruncatedNegativeBinomial(eta=eta, gamma=5e-4), np.random.default_rng(3)
    draws = np.array([runs.sample(generator) for _ in range(2000)])
    p = runs.pmf(1)
    assert draws.min() >= 1
    assert abs((draws == 1).mean() - p) < 5 * np.sqrt(p * (1 - p) / 2000)
    assert abs(draws.mean() - runs.mean) < 5 * draws.std() / np.sqrt(2000)


def test_probabilities_of_no_run_and_of_a_fixed_number():
    assert PoissonRuns(3.0).pmf([0, 1]) == pytest.approx([np.exp(-3), 3 * np.exp(-3)])
    assert FixedRuns(3).pmf([0, 2, 3, 4]).tolist() == [0, 0, 1, 0]


def test_outcomes_that_no_run_has_are_not_the_best():
    """Of two runs, the worse of two outcomes is the best only if both have it; a sure outcome is the best."""
    for masses, best in (([0, 0.5, 0, 0.5], [0, 0.25, 0, 0.75]), ([1.0], [1.0]), ([0.0, 1.0, 0.0], [0.0, 1.0, 0.0])):
        assert FixedRuns(2).best_of(masses) == pytest.approx(best, abs=1e-15)


RUNS = [
    FixedRuns(4),
    PoissonRuns(1.0),
    PoissonRuns(10.0),
    *(TruncatedNegativeBinomial.with_mean(eta=e, mean=10.0) for e in (-0.5, 0.0, 0.5, 1.0, 3.0)),
]


@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_best_of_is_the_law_of_the_maximum(runs):
    masses = np.array([0.5, 0.3, 0.15, 0.05])
    law = runs.best_of(masses)
    np.testing.assert_allclose(law.sum(), 1, rtol=1e-12)
    upto = [runs.generating(x) for x in np.minimum(np.cumsum(masses), 1)]
    np.testing.assert_allclose(np.cumsum(law)[-4:], upto, rtol=1e-12)


@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_bounds_hold_for_explicit_algorithms(runs):
    rng = np.random.default_rng(7)
    for _ in range(60):
        p, q = laws(rng, int(rng.integers(2, 6)))
        one = [max(privacy.renyi_divergence(*pair, order=a) for pair in ((p, q), (q, p))) for a in ORDERS]
        bound = runs.rdp(ORDERS, one)
        here, there = runs.best_of(p), runs.best_of(q)
        exact = [privacy.renyi_divergence(here, there, order=a) for a in ORDERS]
        assert (np.array(exact) <= bound * (1 + 1e-12) + 1e-12).all()


def test_poisson_bound_fails_below_mean_one_and_is_refused():
    with pytest.raises(ValueError, match="mean must be one number >= 1"):
        PoissonRuns(0.5)


def test_fixed_runs_cost_their_number():
    bad = 1 / (1 + np.exp(-1.0))
    runs = FixedRuns(6)
    here, there = runs.best_of([bad, 1 - bad]), runs.best_of([1 - bad, bad])
    np.testing.assert_allclose(np.log(here[0] / there[0]), 6.0, rtol=1e-12)
    for order in (2.0, 5.0, 50.0):
        printed = 6 * (1 - np.log1p(np.exp(-1.0)) / (order - 1))
        assert printed <= privacy.renyi_divergence(here, there, order=order) <= 6


def test_the_order_one_alone_bounds_only_a_single_run():
    """log(mean) / (order - 1) is 0 for one run, and without limit for more."""
    for runs in (PoissonRuns(3.0), TruncatedNegativeBinomial.with_mean(eta=1.0, mean=3.0)):
        assert runs.rdp([1.0], [0.1]).tolist() == [np.inf]
        np.testing.assert_array_equal(runs.rdp([1.0, 4.0], [0.1, 0.4]), runs.rdp([4.0, 4.0], [0.4, 0.4]))
    np.testing.assert_allclose(PoissonRuns(1.0).rdp([1.0], [0.1]), [1.1])  # delta is 1 at order 1


def test_smaller_eta_is_cheaper():
    rdp = ORDERS * 0.01
    found = [TruncatedNegativeBinomial.with_mean(eta=e, mean=10).rdp(ORDERS, rdp) for e in (-0.9, -0.5, 0, 0.5, 1, 4)]
    assert (np.diff(found, axis=0) >= -1e-12).all()
    eps = [tuning.tuned_epsilon(r, ORDERS, rdp, delta=1e-6) for r in (FixedRuns(1), *RUNS[3:])]
    assert (np.diff(eps) > 0).all()


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 4.0, np.inf])
def test_against_dp_accounting(dp_accounting, eta):
    orders = [1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    events = dp_accounting.dp_event
    event = events.RepeatAndSelectDpEvent(events.GaussianDpEvent(4.0), mean=10.0, shape=eta)
    accountant = dp_accounting.rdp.RdpAccountant(orders)
    accountant.compose(event)
    runs = PoissonRuns(10.0) if np.isinf(eta) else TruncatedNegativeBinomial.with_mean(eta=eta, mean=10.0)
    rdp = np.array(orders) / 32
    ours = tuning.tuned_epsilon(runs, orders, rdp, delta=1e-6)
    np.testing.assert_allclose(ours, accountant.get_epsilon(1e-6), rtol=1e-6)


@pytest.mark.parametrize("eta", [-0.999, -0.5, 0.0, 1.0, 100.0])
@pytest.mark.parametrize("gamma", [1 - 1e-12, 1 - 1e-6, 0.96, 0.95, 0.9, 0.1, 1e-300])
def test_the_cost_of_tuning_is_never_rounded_below_its_formula(eta, gamma):
    """(50) of mrmtl with 60 digits; a mean number of runs close to one has few digits of its own."""
    runs = TruncatedNegativeBinomial(eta=eta, gamma=gamma)
    with mpmath.workdps(60):
        g, e = mpmath.mpf(gamma), mpmath.mpf(eta)
        mean = (1 - g) / g / (-mpmath.log(g) if eta == 0 else (1 - g**e) / e)
        for order in (2.0, 4096.0):
            a, d = mpmath.mpf(order), mpmath.mpf(1e-12)
            exact = d + (1 + e) * ((1 - 1 / a) * d - mpmath.log(g) / a) + mpmath.log(mean) / (a - 1)
            assert abs(runs.rdp([order], [1e-12])[0] / exact - 1) < 1e-12


def test_a_delta_that_underflows_is_not_none():
    assert 0 < privacy.delta_from_rdp([50.0], [3.0], eps=100.0) < 1e-300
    assert privacy.delta_from_rdp([50.0], [0.0], eps=100.0) == 0
    assert privacy.delta_from_rdp([1e6], [1.0], eps=0.9) == pytest.approx(np.sqrt(-np.expm1(-1.0)))


@given(st.floats(0.05, 2.0), st.floats(0.0, 4.0))
def test_delta_from_rdp_bounds_the_exact_gaussian_curve(mu, eps):
    orders = np.arange(2.0, 200.0)
    bound = privacy.delta_from_rdp(orders, orders * mu**2 / 2, eps=eps)
    assert privacy.gaussian_delta(eps=eps, sensitivity=mu, sigma=1.0) <= bound <= 1


@given(st.floats(1.1, 20.0), st.floats(0.0, 10.0), st.floats(1e-9, 0.5))
def test_delta_and_epsilon_at_one_order_are_inverse(order, rdp, delta):
    eps = privacy.epsilon_at_order(order=order, rdp=rdp, delta=delta)
    assert privacy.delta_at_order(order=order, rdp=rdp, eps=eps) == pytest.approx(delta, rel=1e-9)


def test_delta_at_one_order_needs_an_order_above_one():
    with pytest.raises(ValueError, match="order must be > 1"):
        privacy.delta_at_order(order=[2.0, 1.0], rdp=0.1, eps=1.0)


def test_delta_and_epsilon_conversions_are_inverse():
    for order, rdp, delta in ((3.0, 0.2, 1e-5), (10.0, 1.0, 1e-3)):
        eps = privacy.epsilon_from_rdp([order], [rdp], delta=delta)
        np.testing.assert_allclose(privacy.delta_from_rdp([order], [rdp], eps=eps), delta, rtol=1e-10)


def test_noise_inflation():
    factors = [tuning.noise_inflation(r, eps=1.0, delta=1e-6) for r in RUNS[3:]]
    assert (np.diff(factors) > 0).all()
    assert factors[0] > 1
    assert tuning.noise_inflation(FixedRuns(3), eps=1.0, delta=1e-6) == 3.0
    orders = 1 + np.geomspace(0.05, 5e4, 40_000)
    runs = RUNS[4]
    rho = (np.sqrt(np.log(1e6) + 1) - np.sqrt(np.log(1e6))) ** 2
    tuned = orders * rho / factors[1]
    eps = tuning.tuned_epsilon(runs, orders, tuned, delta=1e-6, conversion="classic")
    np.testing.assert_allclose(eps, 1.0, rtol=1e-4)


@pytest.mark.parametrize(("eta", "gamma"), [(0.0, 0.05), (1.0, 0.3), (-0.5, 0.1), (2.0, 0.9), (0.7, 0.95), (-0.3, 0.85)])
@pytest.mark.parametrize(("eps", "delta"), [(0.3, 1e-8), (3.0, 1e-6), (9.0, 1e-3), (0.1, 0.5), (0.3, 0.9)])
def test_noise_inflation_is_what_a_search_over_both_orders_says(eta, gamma, eps, delta):
    """Theorem 2 of Papernot and Steinke, and the classic conversion; near gamma = 1 the second order is 1."""
    runs = TruncatedNegativeBinomial(eta, gamma)

    def spent(rho, tuned):
        pay, lost = np.log(1 / delta) + tuned * np.log(runs.mean), np.log(1 / gamma)
        first = optimize.minimize_scalar(
            lambda t: rho * (1 + np.exp(t)) + pay * np.exp(-t), bounds=(-12, 12), method="bounded"
        )
        second = optimize.minimize_scalar(
            lambda t: rho * np.exp(t) + lost / (1 + np.exp(t)), bounds=(-45, 12), method="bounded", options={"xatol": 1e-9}
        )
        return first.fun + tuned * (1 + eta) * second.fun

    assert spent(1e-12, True) < eps  # the choice alone never spends all: its second order grows as there is more noise
    one, tuned = (
        np.exp(optimize.brentq(lambda t, with_it=with_it: spent(np.exp(t), with_it) - eps, -27, 10, xtol=1e-12))
        for with_it in (False, True)
    )
    assert tuning.noise_inflation(runs, eps=eps, delta=delta) == pytest.approx(one / tuned, rel=1e-6)


@given(
    st.integers(1, 8), st.integers(1, 5), st.integers(0, 20), st.floats(0.05, 3.0), st.integers(2, 32),
    st.sampled_from(["replace", "zero-out"]),
)  # fmt: skip
def test_adaped_bound_covers_the_averaged_federation(tau, K, idle, C1, order, adjacency):
    m, T = K + idle, 10 * tau
    bound = adaped.adaped_rdp(order=order, tau=tau, T=T, K=K, m=m, C1=C1, sigma2_q1=1.0, adjacency=adjacency)
    multiplier = np.sqrt(K / tau) / (adaped.SHIFTS[adjacency] * C1)
    averaged = 10 * privacy.rdp_sampled_gaussian(noise_multiplier=multiplier, sampling_rate=K / m, order=order)
    assert averaged <= bound * (1 + 1e-9)
    everyone = adaped.adaped_rdp(order=order, tau=tau, T=T, K=m, m=m, C1=C1, sigma2_q1=1.0, adjacency=adjacency)
    assert bound <= everyone * (1 + 1e-12)
    np.testing.assert_allclose(everyone, adaped.SHIFTS[adjacency] ** 2 * order * T * C1**2 / 2, rtol=1e-12)


@given(st.integers(1, 8), st.integers(1, 9), st.integers(2, 32))
def test_adaped_average_covers_erased_noise(tau, K, order):
    known = {"order": order, "tau": tau, "T": tau, "K": K, "m": K, "C1": 1.0, "sigma2_q1": 1.0}
    seen, averaged = adaped.adaped_rdp(**known), adaped.adaped_rdp(average=True, **known)
    assert 2 * order * tau**2 / (K - 1 + tau) <= averaged * (1 + 1e-12)
    assert averaged <= seen
    assert adaped.adaped_rdp(average=True, C2=1.0, **known) == adaped.adaped_rdp(C2=1.0, **known)


def test_adaped_limits():
    base = {"order": 4, "tau": 2, "T": 10, "K": 1, "m": 10, "sigma2_q1": 1.0}
    assert adaped.adaped_rdp(C1=0.0, **base) == 0
    assert np.isfinite(adaped.adaped_rdp(C1=1e6, **base))
    both = adaped.adaped_rdp(C1=1.0, C2=1.0, sigma2_q2=1.0, **base)
    np.testing.assert_allclose(both, adaped.adaped_rdp(C1=np.sqrt(2.0), **base), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: TruncatedNegativeBinomial(eta=-1, gamma=0.5), "eta"),
        (lambda: TruncatedNegativeBinomial(eta=np.nan, gamma=0.5), "eta"),
        (lambda: TruncatedNegativeBinomial(eta=1, gamma=1.0), "gamma"),
        (lambda: TruncatedNegativeBinomial(eta=1, gamma=[0.1, 0.2]), "gamma"),
        (lambda: TruncatedNegativeBinomial.with_mean(eta=1, mean=1), "mean"),
        (lambda: TruncatedNegativeBinomial.with_mean(eta=-2, mean=3), "eta"),
        (lambda: TruncatedNegativeBinomial.with_mean(eta=-1, mean=3), "eta must be > -1, got"),
        (lambda: TruncatedNegativeBinomial.with_mean(eta=-1.5, mean=3), "eta must be > -1, got"),
        (lambda: FixedRuns(0), "runs"),
        (lambda: FixedRuns(2).pmf(-1), "h"),
        (lambda: FixedRuns(2).sample(None), "generator"),
        (lambda: FixedRuns(2).rdp([2], [-1.0]), "rdp"),
        (lambda: FixedRuns(2).rdp([0.5], [1.0]), "orders"),
        (lambda: FixedRuns(2).best_of([0.5, 0.4]), "masses"),
        (lambda: RUNS[3].rdp([], []), "orders"),
        (lambda: PoissonRuns(2.0).rdp([2.0], [1.0], [2.0]), "delta"),
        (lambda: privacy.delta_from_rdp([2.0], [1.0], eps=-1.0), "eps"),
        (lambda: tuning.noise_inflation(FixedRuns(2), eps=0.0, delta=0.1), "eps"),
        (lambda: tuning.noise_inflation(FixedRuns(2), eps=1.0, delta=1.0), "delta"),
        (lambda: tuning.noise_inflation(PoissonRuns(2.0), eps=1.0, delta=0.1), "runs"),
        (lambda: privacy.renyi_divergence([1.0], [0.5, 0.5], order=2), "p"),
        (lambda: privacy.renyi_divergence([0.5, 0.5], [0.5, 0.5], order=0.5), "order"),
        (lambda: adaped.adaped_rdp(order=1, tau=1, T=1, K=1, m=1, C1=1, sigma2_q1=1), "order"),
        (lambda: adaped.adaped_rdp(order=2, tau=1, T=1, K=2, m=1, C1=1, sigma2_q1=1), "K"),
        (lambda: adaped.adaped_rdp(order=2, tau=1, T=1, K=1, m=1, C1=1, sigma2_q1=0), "sigma2_q1"),
        (lambda: adaped.adaped_rdp(order=2, tau=1, T=1, K=1, m=1, C1=1, sigma2_q1=1, adjacency="add"), "adjacency"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
