"""A simulation counts when it can fail: with a variance of its model doubled, or draws of another law, it does.

It is tried the way it is performed: on large nets, on many small ones, or on plain draws.
"""

from __future__ import annotations

import numpy as np
import pytest

from estimators.montecarlo import NoNet, SampledExperiment, perform, perform_on_nets, perform_on_strata, plan_strata
from theory import claims
from theory.engine.disturbance import disturbed
from theory.engine.levels.simulated import SIMULATED_EXAMPLES, derived_floats, simulate_at
from theory.engine.simulation import compared, sample_means

# What a claim says of means does not depend on how far draws spread; these simulations are not counted.
BLIND = {
    "generative:thm1:unbiased": "a mean of unbiased estimates",
    "generative:eq64": "a mean of unbiased gradients",
    "mrmtl:thm6.8:factor": "a ratio that the noise cancels from",
}
SIMULATED = [c for c in claims() if c.simulate is not None]


LARGE, SMALL = 12, 2**24  # log2 of points, coordinates: less than claims are given, because what is to be seen is gross


def results_on(way, experiment, checks, key):
    """Results of checks on nets, small nets, or plain draws."""
    if way == "nets":
        return perform_on_nets(experiment, checks, key, LARGE, averaged=2, root=3, threads=1)
    if way == "small nets":
        try:
            plan = plan_strata(experiment, checks, key, detectable=1e-2, max_coordinates=SMALL, root=3)
        except NoNet:  # what is disturbed no longer varies: no net is needed
            return perform(experiment, checks, key, root=3, threads=1)
        return perform_on_strata(experiment, checks, key, plan, root=3, threads=1)
    return perform(experiment, checks, key, root=3, threads=1)


def ways_of(experiment):
    """The ways that serve an experiment, the one that claims are given first."""
    try:
        experiment.net_order()
        yield "nets"
    except NoNet:
        pass
    try:
        if isinstance(experiment, SampledExperiment) and experiment.coordinates:
            yield "small nets"
    except NoNet:
        pass
    yield "plain draws"


@pytest.mark.parametrize("claim", SIMULATED, ids=lambda c: c.id)
def test_a_disturbed_model_fails(claim):
    tried = []
    for i, example in enumerate(claim.examples[:SIMULATED_EXAMPLES]):
        point = claim.point(example)
        simulation = simulate_at(claim, point)
        if simulation is None:
            continue
        checks = compared(simulation, derived_floats(claim, point))
        way = next(ways_of(simulation.experiment))
        for what, other in disturbed(simulation):
            tried.append(f"{what} on {way}")
            try:
                results = results_on(way, other.experiment, checks, f"{claim.id}#{i}")
            except (ValueError, FloatingPointError, np.linalg.LinAlgError):  # the other model is none: it is told apart
                return
            if not all(r.passed for r in results):
                assert claim.id not in BLIND, f"take {claim.id} out of BLIND: it sees {what}"
                return
    assert claim.id in BLIND, f"the simulation of {claim.id} sees none of: {', '.join(tried) or 'no noise was found in it'}"


def test_most_claims_have_a_simulation_that_counts():
    assert len(SIMULATED) - len(BLIND) >= 230


@pytest.mark.parametrize("way", ["nets", "small nets", "plain draws"])
def test_a_net_is_disturbed_too(way):
    """The stand-in of a net keeps the points of the net: undisturbed draws pass, twice the variance does not."""
    smooth = sample_means(lambda gen, n: (gen.standard_normal((n, 3)) ** 2).sum(axis=1, keepdims=True), draws=3)
    checks = compared(smooth, 3.0)
    assert all(r.passed for r in results_on(way, smooth.experiment, checks, "as it is"))
    for what, other in disturbed(smooth):
        assert "normal draws" in what
        assert not any(r.passed for r in results_on(way, other.experiment, checks, "other")), (way, what)
