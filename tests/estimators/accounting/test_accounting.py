"""Guarantees, budgets, compositions and calibration: exact where the theory is, never negative, against dp-accounting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators.accounting import accountants, mechanisms, privacy, tuning
from estimators.accounting import budget as accounting
from estimators.accounting.budget import Budget, Guarantee, guarantee
from estimators.accounting.events import Event
from estimators.accounting.privacy import ORDERS

few = settings(max_examples=max(1, settings().max_examples // 5))  # each example is a root search
EPS = st.floats(1e-3, 20.0)
DELTA = st.floats(1e-12, 1e-2)


def gaussian(ratio, delta=1e-5):
    eps = float(mechanisms.gaussian_epsilon(delta=delta, sensitivity=ratio, sigma=1.0))
    return Guarantee(eps, delta, "row", "client", "gaussian", rho=ratio**2 / 2)


@few
@given(EPS, DELTA)
def test_zcdp_calibration_is_on_the_safe_side_and_tight(eps, delta):
    rho = privacy.zcdp_from_epsilon(eps=eps, delta=delta)
    assert rho > 0
    assert privacy.epsilon_from_zcdp(rho=rho, delta=delta) <= eps
    assert privacy.epsilon_from_zcdp(rho=rho * (1 + 1e-9), delta=delta) >= eps * (1 - 1e-8)
    sigma = mechanisms.gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0)
    assert 1 / np.sqrt(2 * rho) >= sigma * (1 - 1e-9)  # an upper bound cannot beat the exact curve


def test_zcdp_calibration_at_the_ends():
    assert privacy.zcdp_from_epsilon(eps=np.inf, delta=1e-5) == np.inf
    assert privacy.zcdp_from_epsilon(eps=1.0, delta=0.0) == 0.0
    assert privacy.zcdp_from_epsilon(eps=1e-9, delta=1e-5) > 0


@pytest.mark.parametrize(("eps", "delta"), [(1e-155, 1e-158), (1e-156, 1e-170), (1e-158, 1e-300)])
def test_zcdp_calibration_of_the_smallest_numbers_ends_between_neighbours(eps, delta):
    """Rates below 1e-308 have too few digits for a search that goes by relative distances only."""
    rho = privacy.zcdp_from_epsilon(eps=eps, delta=delta)
    assert 0 < rho < 1e-308
    spent = [privacy.epsilon_from_zcdp(rho=x, delta=delta) for x in (rho, np.nextafter(rho, 1.0))]
    assert spent[0] <= eps < spent[1]


@given(st.floats(1e-6, 30.0), st.floats(1.001, 200.0))
def test_pure_divergence_is_that_of_randomised_response(eps, order):
    p, q = 1 / (1 + np.exp(-eps)), 1 / (1 + np.exp(eps))
    found = float(privacy.rdp_pure(eps, order))
    assert 0 <= found <= eps
    assert found <= order * eps**2 / 2 * (1 + 1e-9)  # Bun and Steinke 2016
    if eps > 1e-3 and order < 60:
        assert found == pytest.approx(privacy.renyi_divergence([p, q], [q, p], order=order), rel=1e-6)


def test_pure_divergence_at_the_ends():
    assert privacy.rdp_pure(0.0, 2.0) == 0.0
    assert privacy.rdp_pure(np.inf, 2.0) == np.inf


@few
@given(st.lists(st.tuples(st.floats(0.1, 5.0), st.floats(0.5, 50.0)), min_size=1, max_size=5), DELTA)
def test_gaussian_releases_compose_like_one(pairs, delta):
    """Against the divergences: the exact curve is below what Renyi accounting of the same releases gives."""
    sensitivities, sigmas = np.array(pairs).T
    exact = accounting.composed_gaussian_epsilon(sensitivities=sensitivities, sigmas=sigmas, delta=delta)
    rho = np.sum((sensitivities / sigmas) ** 2) / 2
    assert 0 <= exact <= privacy.epsilon_from_zcdp(rho=rho, delta=delta) * (1 + 1e-9)
    alone = max(mechanisms.gaussian_epsilon(delta=delta, sensitivity=s, sigma=z) for s, z in pairs)
    assert exact >= alone * (1 - 1e-9)


@few
@given(EPS, DELTA, st.lists(st.floats(0.1, 1.0), min_size=1, max_size=4))
def test_split_noise_spends_exactly_the_budget(eps, delta, shares):
    shares = np.array(shares) / sum(shares)
    sensitivities = np.arange(1.0, len(shares) + 1)
    sigmas = accounting.composed_gaussian_sigma(sensitivities=sensitivities, shares=shares, eps=eps, delta=delta)
    spent = accounting.composed_gaussian_epsilon(sensitivities=sensitivities, sigmas=sigmas, delta=delta)
    assert spent == pytest.approx(eps, rel=1e-8)


def test_two_gaussians_by_simulation_of_the_privacy_loss():
    """The privacy loss of both together, simulated: P(loss > e) - e^e P'(loss > e) is delta; 4e6 draws, |z| < 5."""
    sensitivities, sigmas, eps = np.array([1.0, 2.0]), np.array([2.0, 3.0]), 0.7
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 4_000_000)) * sigmas[:, None]
    loss = np.sum((sensitivities / sigmas**2)[:, None] * (x + sensitivities[:, None] / 2), axis=0)
    gain = np.maximum(0.0, 1 - np.exp(eps - loss))
    z = (sensitivities / sigmas) @ (sensitivities / sigmas)
    exact = privacy.gaussian_delta(eps=eps, sensitivity=np.sqrt(z), sigma=1.0)
    assert abs(gain.mean() - exact) < 5 * gain.std() / 2000


def test_a_budget_adds_up_and_refuses():
    budget = Budget(eps=1.0, delta=1e-5, adjacency="row")
    assert (budget.spent(), budget.left()) == (0.0, 1.0)
    budget.spend(gaussian(0.1))
    budget.spend(gaussian(0.1))
    assert budget.spent() == pytest.approx(float(gaussian(0.1 * np.sqrt(2)).eps), rel=1e-9)  # exact, not plain sums
    before = budget.spent()
    with pytest.raises(ValueError, match="would bring the total"):
        budget.spend(gaussian(0.5))
    assert budget.spent() == before
    with pytest.raises(ValueError, match="adjacency"):
        budget.spend(Guarantee(0.1, 0.0, "row add-remove", "client", "answers"))
    with pytest.raises(ValueError, match="Guarantee"):
        budget.spend(0.1)


def test_a_client_guarantee_pays_for_rows_but_not_the_reverse():
    both = Guarantee(0.5, 0.0, "client", "client", "two-point")
    Budget(eps=1.0, delta=0.0, adjacency="row").spend(both)
    with pytest.raises(ValueError, match="adjacency"):
        Budget(eps=1.0, delta=0.0, adjacency="client").spend(Guarantee(0.5, 0.0, "row", "client", "answers"))


def test_many_pure_releases_cost_less_than_their_sum():
    budget = Budget(eps=3.0, delta=1e-6, adjacency="row")
    part = Guarantee(0.05, 0.0, "row", "client", "discrete-laplace")
    for _ in range(100):
        budget.spend(part)  # 5 by plain sums
    assert 0.5 < budget.spent() < 3.0
    strict = Budget(eps=3.0, delta=0.0, adjacency="row")
    for _ in range(60):
        strict.spend(part)
    assert strict.spent() == pytest.approx(3.0)
    with pytest.raises(ValueError, match="would bring"):
        strict.spend(part)


def test_an_exponential_mechanism_is_cheaper_than_its_eps():
    """Its rate eps^2/8 is a quarter of what pure privacy alone gives (mrmtl:appA:em-zcdp)."""
    eps = 0.1
    choices, other = Budget(eps=4.0, delta=1e-6, adjacency="row"), Budget(eps=9.0, delta=1e-6, adjacency="row")
    rho = float(mechanisms.exponential_zcdp(eps=eps))
    for _ in range(80):
        choices.spend(Guarantee(eps, 0.0, "row", "client", "exponential", rho=rho))
        other.spend(Guarantee(eps, 0.0, "row", "client", "discrete-laplace"))
    assert choices.spent() < 0.6 * other.spent()
    assert choices.spent() == pytest.approx(privacy.epsilon_from_zcdp(rho=80 * rho, delta=1e-6), rel=1e-2)


def test_a_hundred_laplace_releases():
    """dp-accounting 0.6.0, from_laplace_mechanism(10) composed 100 times at delta 1e-6: 4.69267; Renyi divergences: 5.07."""
    event = Event(mechanism="laplace", noise=10.0)
    budget = Budget(eps=4.7, delta=1e-6, adjacency="row")
    for _ in range(100):
        budget.spend(guarantee(event, delta=0.0, adjacency="row"))
    assert 4.69266 < budget.spent() < 4.6932
    assert budget.spent() == accountants.epsilon(Event(mechanism="laplace", noise=10.0, number=100), delta=1e-6)
    assert budget.releases[0].eps == 0.1


def test_what_has_no_divergences_takes_its_delta_from_the_others():
    """An opaque release costs its eps, and leaves the releases beside it less delta to be stated at."""

    def spent(delta, *releases):
        budget = Budget(eps=50.0, delta=delta, adjacency="row")
        for each in releases:
            budget.spend(each)
        return budget.spent()

    opaque = Guarantee(0.3, 4e-6, "row", "client", "something")
    for known in ([Guarantee(0.1, 0.0, "row", "client", "laplace")] * 60, [gaussian(0.05), gaussian(0.2)]):
        together, apart = spent(1e-5, opaque, *known), 0.3 + spent(6e-6, *known)
        assert together == pytest.approx(apart, rel=3e-3)  # of Gaussian noise alone the curve is exact, not discretised
        assert together >= apart * (1 - 1e-12)
    budget = Budget(eps=50.0, delta=1e-5, adjacency="row")
    budget.spend(gaussian(0.05))
    with pytest.raises(ValueError, match="would bring the total to eps=inf"):
        budget.spend(Guarantee(0.3, 2e-5, "row", "client", "something"))


def test_releases_known_only_by_eps_and_delta_add_plainly():
    opaque = Guarantee(0.3, 1e-6, "row", "client", "something")
    budget = Budget(eps=1.0, delta=1e-5, adjacency="row")
    budget.spend(opaque)
    budget.spend(opaque)
    assert budget.spent() == pytest.approx(0.6)
    budget.spend(gaussian(0.02))
    assert 0.6 < budget.spent() < 1.0
    tight = Budget(eps=1.0, delta=1e-6, adjacency="row")
    tight.spend(opaque)
    with pytest.raises(ValueError, match="would bring the total to eps=inf"):
        tight.spend(opaque)


def test_golden_subsampled_gaussian():
    """dp-accounting 0.6.0, RdpAccountant: 2.101367 (its fractional orders are summed to 6 digits; ours to 12, by mpmath)."""
    run = Event(noise=1.0, sampling="poisson", rate=0.01, number=1000)
    g = guarantee(run, delta=1e-5, accountant="rdp")
    assert g.eps == pytest.approx(2.101367, abs=3e-6)
    assert g.accountant.startswith("rdp (borrowed-strength")
    budget = Budget(eps=2.5, delta=1e-5, adjacency="row add-remove")
    budget.spend(g)
    assert budget.spent() == pytest.approx(g.eps)
    with pytest.raises(ValueError, match="would bring"):
        budget.spend(g)
    assert accountants.noise_for(run, eps=1.0, delta=1e-5, accountant="rdp") == pytest.approx(1.513122, abs=2e-5)


def test_golden_privacy_loss_distribution():
    """dp-accounting 0.6.0, PLDAccountant with its own grid: 1.828244; ours is coarser, and above."""
    g = guarantee(Event(noise=1.0, sampling="poisson", rate=0.01, number=1000), delta=1e-5)
    assert 1.828243 < g.eps < 1.828243 * (1 + 1e-4)
    assert g.accountant.startswith("pld (dp-accounting")


@pytest.mark.parametrize(("shape", "golden"), [(0.0, 3.522633), (0.5, 3.830596), (1.0, 4.103271), (np.inf, 4.329498)])
def test_golden_repeat_and_select(shape, golden):
    """dp-accounting 0.6.0, RepeatAndSelectDpEvent of the same run with mean 10; infinite shape is Poisson."""
    orders = np.array([k / 10 for k in range(20, 110)] + [*range(11, 64), 128, 256, 512, 1024])
    one = privacy.rdp_sampled_gaussian(noise_multiplier=1.0, sampling_rate=0.01, order=orders)
    runs = tuning.PoissonRuns(10.0) if np.isinf(shape) else tuning.TruncatedNegativeBinomial.with_mean(eta=shape, mean=10)
    eps = tuning.tuned_epsilon(runs, orders, privacy.compose(one, 1000), delta=1e-5)
    assert eps == pytest.approx(golden, abs=3e-4)


def test_golden_analytic_gaussian():
    assert mechanisms.gaussian_sigma(eps=1.0, delta=1e-5, sensitivity=1.0) == pytest.approx(3.730632, abs=5e-7)


def test_noise_for_a_tuned_run_meets_its_target():
    orders = np.array(ORDERS)
    runs = tuning.TruncatedNegativeBinomial.with_mean(eta=1.0, mean=5)
    z = accountants.tuned_noise_multiplier(runs, Event(), eps=2.0, delta=1e-5)
    rdp = orders / (2 * z * z)
    assert tuning.tuned_epsilon(runs, orders, rdp, delta=1e-5) == pytest.approx(2.0, rel=1e-9)
    assert z > accountants.tuned_noise_multiplier(tuning.FixedRuns(1), Event(), eps=2.0, delta=1e-5)


def test_calibration_ends():
    assert accountants.calibrate_noise(lambda z: 0.5, eps=1.0) == 0.0
    with pytest.raises(ValueError, match="out of reach"):
        accountants.calibrate_noise(lambda z: 2.0, eps=1.0)


def test_a_guarantee_survives_json():
    g = Guarantee(np.inf, 1e-6, "row", "client", "none", rho=np.inf)
    assert Guarantee.from_dict(g.to_dict()) == g
    endless = Guarantee(1.0, 1e-6, "row", "client", "none", renyi=(1.0,) * (len(ORDERS) - 1) + (np.inf,))
    assert Guarantee.from_dict(endless.to_dict()) == endless
    older = {name: value for name, value in g.to_dict().items() if name != "simulated"}
    assert not Guarantee.from_dict(older).simulated  # as of a file from before that was said
    with pytest.raises(ValueError, match="incomplete"):
        Guarantee.from_dict({"eps": 1.0})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Guarantee(0.0, 0.0, "row", "client", "x"), "eps must be > 0"),
        (lambda: Guarantee(1.0, 1.0, "row", "client", "x"), "delta"),
        (lambda: Guarantee(1.0, 0.0, "user", "client", "x"), "adjacency"),
        (lambda: Guarantee(1.0, 0.0, "row", "nobody", "x"), "trusted"),
        (lambda: Guarantee(1.0, 0.0, "row", "client", "x", renyi=(1.0,)), "renyi"),
        (lambda: Budget(eps=-1.0, delta=0.0, adjacency="row"), "eps must be > 0"),
        (lambda: Budget(eps=np.nan, delta=0.0, adjacency="row"), "NaN"),
        (lambda: Budget(eps=1.0, delta=-0.1, adjacency="row"), "delta"),
        (lambda: privacy.zcdp_from_epsilon(eps=0.0, delta=1e-5), "eps must be > 0"),
        (lambda: privacy.zcdp_from_epsilon(eps=1.0, delta=1.0), "delta must be below 1"),
        (lambda: privacy.rdp_pure(1.0, 1.0), "order"),
        (lambda: accounting.composed_gaussian_epsilon(sensitivities=[1.0], sigmas=[1.0, 2.0], delta=0.1), "one length"),
        (
            lambda: accounting.composed_gaussian_sigma(sensitivities=[1.0], shares=[0.5], eps=1.0, delta=0.1),
            "shares must add to 1",
        ),
        (lambda: accountants.tuned_noise_multiplier(tuning.FixedRuns(1), Event(), eps=1.0, delta=0.0), "delta"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
