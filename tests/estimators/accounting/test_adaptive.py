"""Filters and odometers: what they promise under adversaries who choose by what they see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.accounting import Budget, Event, Guarantee, guarantee
from estimators.accounting.adaptive import best_order, filter_epsilon, odometer_epsilon
from estimators.accounting.privacy import ORDERS, epsilon_from_rdp, epsilon_from_zcdp, rdp_pure, zcdp_from_epsilon

A = np.array(ORDERS)


def mixture(curve, eps):
    """The average over orders, as it stands in the module."""
    return np.mean(np.exp((A - 1) * (eps - curve)))


@given(st.floats(1e-4, 3.0), st.floats(1e-9, 0.1))
def test_the_odometer_is_the_root_of_its_mixture_and_above_what_is_planned(rho, delta):
    found = odometer_epsilon(rho * A, delta=delta)
    with np.errstate(over="ignore"):
        assert mixture(rho * A, found) >= 1 / delta * (1 - 1e-6)
        assert mixture(rho * A, found - 1e-6) < 1 / delta
    assert found > epsilon_from_rdp(ORDERS, rho * A, delta=delta)


def best_closed_form(rho, delta):
    """Whitehouse et al. (2023), normal mixture, at the weight that is best for this very rate."""
    V, g = 2 * rho, np.geomspace(1e-7, 100, 4000)
    return np.min(np.sqrt(2 * np.log(np.sqrt((V + g) / g) / delta) * (V + g)) + V / 2)


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize("rho", [1e-3, 0.01, 0.1, 0.5, 2.0, 8.0])
def test_the_odometer_is_near_the_normal_mixture_tuned_to_the_answer(rho, delta):
    ratio = odometer_epsilon(rho * A, delta=delta) / best_closed_form(rho, delta)
    assert 0.95 < ratio < 1.09


def losses(rng, runs, steps, choose):
    """Sums of privacy losses of Gaussian releases, their rates chosen by `choose` from the sums so far; all times."""
    total, spent, path = np.zeros(runs), np.zeros(runs), []
    for _ in range(steps):
        rho = choose(total, spent)
        total = total + rng.normal(rho, np.sqrt(2 * rho))
        spent = spent + rho
        path.append((total, spent))
    return np.array([p[0] for p in path]), np.array([p[1] for p in path])


def test_a_loss_passes_the_odometer_less_often_than_delta_whoever_chooses():
    """20,000 runs of 300 releases: after a lucky one the adversary spends little, after an unlucky one much."""
    delta = 0.02

    def choose(total, spent):
        return np.where(total > spent, 0.002, 0.01)

    total, spent = losses(np.random.default_rng(5), 20_000, 300, choose)
    at = np.geomspace(1e-3, 4.0, 400)
    bound = np.interp(spent, at, [odometer_epsilon(r * A, delta=delta) for r in at])
    planned = np.interp(spent, at, [2 * np.sqrt(r * np.log(1 / delta)) + r for r in at])  # holds at one time, not at all
    ever = np.mean((total > bound).any(axis=0))
    assert ever < delta
    assert np.mean((total > planned).any(axis=0)) > 3 * ever


def filter_offset(order, delta):
    """What the conversion adds to the divergence at an order (Canonne, Kamath and Steinke 2020)."""
    return np.log1p(-1 / order) - np.log(order * delta) / (order - 1)


def test_a_filter_keeps_its_promise_whoever_chooses():
    """40,000 runs, the rates chosen after seeing the loss and stopped by the filter: delta, as a mean over runs."""
    eps, delta = 1.0, 1e-2
    order = best_order(eps=eps, delta=delta)
    limit = eps - filter_offset(order, delta)

    def choose(total, spent):
        rho = np.where(total > 0.6, 0.02, 0.004)
        return np.where((spent + rho) * order <= limit, rho, 0.0)

    total, spent = losses(np.random.default_rng(6), 40_000, 60, choose)
    assert filter_epsilon(spent.max() * A, order=order, delta=delta) <= eps
    assert filter_epsilon((spent.max() + 0.004) * A, order=order, delta=delta) > eps
    gain = np.maximum(-np.expm1(eps - total[-1]), 0.0)
    assert 0 < gain.mean() + 5 * gain.std() / 200 < delta


@pytest.mark.parametrize(("eps", "delta"), [(0.5, 1e-6), (1.0, 1e-2), (4.0, 1e-9)])
def test_a_filter_of_gaussian_releases_allows_what_planning_does(eps, delta):
    order = best_order(eps=eps, delta=delta)
    rho = zcdp_from_epsilon(eps=eps, delta=delta)
    assert filter_epsilon(rho * A, order=order, delta=delta) == pytest.approx(eps, rel=0.01)
    assert filter_epsilon(rho * A, order=order, delta=delta) >= epsilon_from_zcdp(rho=rho, delta=delta) * (1 - 1e-9)


def test_budgets_with_an_order_count_by_it_and_refuse_what_it_cannot_add():
    order = best_order(eps=2.0, delta=1e-6)
    budget = Budget(eps=2.0, delta=1e-6, adjacency="row", order=order)
    pure = Guarantee(0.3, 0.0, "row", "client", "discrete-laplace")
    event = guarantee(Event(noise=20.0, number=3), delta=1e-7, adjacency="row")
    for each in (pure, event, pure):
        budget.spend(each)
    curve = 2 * rdp_pure(0.3, A) + 3 * A / (2 * 20.0**2)
    assert budget.spent() == pytest.approx(filter_epsilon(curve, order=order, delta=1e-6), rel=1e-12)
    assert budget.odometer() == pytest.approx(odometer_epsilon(curve, delta=1e-6), rel=1e-9)
    with pytest.raises(ValueError, match="make a budget of order inf"):
        budget.spend(Guarantee(0.1, 1e-8, "row", "client", "own"))
    plain = Budget(eps=0.75, delta=2e-8, adjacency="row", order=np.inf)
    plain.spend(Guarantee(0.4, 1e-8, "row", "client", "own"))
    assert plain.spent() == 0.4
    assert plain.odometer() == np.inf
    with pytest.raises(ValueError, match=r"would bring the total to eps=0\.8"):
        plain.spend(Guarantee(0.4, 1e-8, "row", "client", "own"))
    plain.spend(Guarantee(0.3, 1e-8, "row", "client", "own"))
    with pytest.raises(ValueError, match="eps=inf"):
        plain.spend(Guarantee(0.01, 1e-8, "row", "client", "own"))


@pytest.mark.parametrize("order", [0.0, 1.0, -np.inf, np.nan, 2.05, "2"])
def test_orders_that_are_none_are_refused(order):
    with pytest.raises(ValueError, match="order"):
        Budget(eps=1.0, delta=1e-6, adjacency="row", order=order)


def test_where_no_order_allows_anything_eps_adds_up():
    order = best_order(eps=1e-3, delta=1e-9)
    assert order == np.inf
    budget = Budget(eps=1e-3, delta=1e-9, adjacency="row", order=order)
    budget.spend(Guarantee(6e-4, 0.0, "row", "client", "discrete-laplace"))
    with pytest.raises(ValueError, match="would bring the total"):
        budget.spend(Guarantee(6e-4, 0.0, "row", "client", "discrete-laplace"))


def test_an_order_needs_a_delta():
    with pytest.raises(ValueError, match="order must be inf"):
        Budget(eps=1.0, delta=0.0, adjacency="row", order=2.0)


def test_extremes():
    assert odometer_epsilon(np.zeros(A.size), delta=1e-6) == 0
    assert odometer_epsilon(np.full(A.size, np.inf), delta=1e-6) == np.inf
    one = np.full(A.size, np.inf)
    one[0] = 0.5  # order 2 alone is known
    assert odometer_epsilon(one, delta=1e-3) == pytest.approx(0.5 + np.log(A.size / 1e-3), rel=1e-9)
    assert filter_epsilon(one, order=3.0, delta=1e-3) == np.inf
    with pytest.raises(ValueError, match="one entry for each"):
        odometer_epsilon([1.0], delta=0.1)
