"""Which nets a simulation gets: those planned, and larger ones after them where what was asked for is not seen."""

from dataclasses import replace

import numpy as np
import pytest

from estimators import montecarlo as mc
from estimators.montecarlo.student import Plan
from theory.engine import sampling
from theory.engine.simulation import Mean, Simulation

ERROR = [-1, 0, 0, 1]
RISK = 1.25  # of the mean of four messages of variance 3, for client 0
MODEL = Simulation(mc.ClientsExperiment(1.0, 1.0, 1.0, 0, np.full(4, 0.25), ERROR, ERROR), [Mean("mse", [1.0])])


@pytest.fixture
def planned(monkeypatch):
    """A function that makes plans as small as it is told."""

    def plan_at(size, most=None):
        def plan(*args, **kwargs):
            made = mc.plan_nets(*args, **kwargs)
            return replace(made, log2_points=size, most=most or made.most)

        monkeypatch.setattr(sampling, "plan_nets", plan)

    return plan_at


def test_plans_that_fall_short_are_followed_by_larger_nets(planned):
    planned(12)
    done = sampling.performed(MODEL, RISK, "short", 1)
    assert "2^12" not in done.method
    assert done.seen <= 2 * sampling.SEEN
    assert all(result.passed for result in done.results)


def test_the_larger_nets_may_refuse_what_the_first_could_not_see(planned):
    planned(12)
    wrong = sampling.performed(MODEL, RISK * (1 + 4e-4), "short", 1)
    assert [r.passed for r in wrong.results] == [False]
    assert "2^12" not in wrong.method


def test_a_refusal_stays_one(planned):
    planned(12)
    done = sampling.performed(MODEL, RISK * 1.05, "short", 1)
    assert [r.passed for r in done.results] == [False]
    assert "2^12" in done.method


def test_nets_grow_to_their_cap_and_no_further(planned):
    planned(12, most=13)
    done = sampling.performed(MODEL, RISK, "capped", 1)
    assert "2^13" in done.method
    assert done.seen > sampling.SEEN


def test_how_much_larger_is_read_from_what_was_seen():
    plan = Plan(log2_points=10, averaged=1, dimensions=3, expected=1e-4, most=14)
    results = sampling.performed(MODEL, RISK, "seen", 1).results

    def seeing(error):
        return [replace(results[0], smallest_detectable=error)]

    assert [plan.larger(10, seeing(e), 1e-4) for e in (3e-5, 1e-4, 1.01e-4, 2e-4, 5e-4, 1e-2)] == [10, 10, 11, 11, 13, 14]
