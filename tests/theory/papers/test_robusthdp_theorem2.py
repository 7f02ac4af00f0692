"""Theorem 2 of Robust-HDP is judged for what it speaks of: clipped gradients, and every step size that it allows."""

import math

import pytest
import sympy as sp

from theory.engine.registry import find

CLIPPED = {
    "steps": [1], "noise": [0], "sigma2": 0, "off": 0, "dist": "9/10", "E": 1000, "u": "16/17", "clipping": "effective",
}  # fmt: skip


def test_clipped_training_stays_above_the_bound_for_ever():
    """Records 0, 0, 0, 4, clipping norm 0.3, start 0.1, eta = 1/17, no noise: worked out by hand."""
    claim = find("robusthdp:thm2")
    point = claim.point(CLIPPED)
    gap, eta, rounds = sp.Rational(9, 10) ** 2 / 2, sp.Rational(1, 17), 1000
    assert claim.at(claim.printed, point) == 3 * gap / (rounds * eta)
    assert claim.derived_at(point) == claim.at(claim.oracle, point) == sp.Rational(81, 100)
    assert not claim.holds_at(point)


def test_the_bound_breaks_from_26_rounds_on():
    claim = find("robusthdp:thm2")
    broken = {
        E: claim.at(claim.printed, p) < claim.derived_at(p) for E in (25, 27) for p in [claim.point(CLIPPED | {"E": E})]
    }
    assert broken == {25: False, 27: True}


@pytest.mark.parametrize("steps", [[1], [3], [1, 1], [2, 5], [1, 1, 1], [4, 1, 9]])
def test_every_allowed_step_size_lies_in_the_domain(steps):
    counts = [steps[0], *(steps[0] + k - 1 for k in steps[1:])]
    n = len(counts)
    allowed = 1 / (12 * math.sqrt((1 + sum(counts)) * sum(k**4 for k in counts)))
    largest = (2 * n + 1) / (24 * (n + 1) * sum(k**2 for k in counts))  # u = 1
    assert allowed < largest


def test_weights_that_follow_the_noise_are_outside():
    claim = find("robusthdp:thm2:dependent-weights")
    point = claim.point(claim.counterexample)
    assert claim.derived_at(point) > claim.at(claim.printed, point)
