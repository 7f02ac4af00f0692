"""A simulation counts when it can fail: with a variance of its model doubled, or draws of another law, it does."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.montecarlo import perform
from theory import claims
from theory.engine.disturbance import disturbed
from theory.engine.levels.simulated import SIMULATED_EXAMPLES, derived_floats, simulate_at
from theory.engine.simulation import compared

# What a claim says of means does not depend on how far draws spread; these simulations are not counted.
BLIND = {
    "generative:thm1:unbiased": "a mean of unbiased estimates",
    "generative:eq64": "a mean of unbiased gradients",
    "mrmtl:thm6.8:factor": "a ratio that the noise cancels from",
}
SIMULATED = [c for c in claims() if c.simulate is not None]


@pytest.mark.parametrize("claim", SIMULATED, ids=lambda c: c.id)
def test_a_disturbed_model_fails(claim):
    tried = []
    for i, example in enumerate(claim.examples[:SIMULATED_EXAMPLES]):
        point = claim.point(example)
        simulation = simulate_at(claim, point)
        if simulation is None:
            continue
        checks = compared(simulation, derived_floats(claim, point))
        for what, other in disturbed(simulation):
            tried.append(what)
            try:
                results = perform(other.experiment, checks, key=f"{claim.id}#{i}", root=3, threads=1)
            except (ValueError, FloatingPointError, np.linalg.LinAlgError):  # the other model is none: it is told apart
                return
            if not all(r.passed for r in results):
                assert claim.id not in BLIND, f"take {claim.id} out of BLIND: it sees {what}"
                return
    assert claim.id in BLIND, f"the simulation of {claim.id} sees none of: {', '.join(tried) or 'no noise was found in it'}"


def test_most_claims_have_a_simulation_that_counts():
    assert len(SIMULATED) - len(BLIND) >= 230
