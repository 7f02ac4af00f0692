"""The convergence bound of federated averaging holds where it says so, and not for clipped gradients."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.closed_forms.convergence import gradient_bound, printed_step_limit, step_limit, weights_term

STEPS = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def train(theta, rounds, eta, steps, weights, gradient):
    """Models of all rounds of federated averaging."""
    visited = []
    for _ in range(rounds):
        visited.append(theta)
        moved = 0.0
        for i, (count, w) in enumerate(zip(steps, weights, strict=True)):
            local = theta
            for _ in range(count):
                local -= eta * gradient(i, local)
            moved += w * (local - theta)
        theta += moved
    return np.array(visited)


def test_the_printed_limit_is_as_printed():
    assert printed_step_limit([1, 3, 2], beta=0.5) == pytest.approx(1 / (6 * np.sqrt((1 + 6) * (1 + 81 + 16))), rel=1e-15)


@given(steps=STEPS, start=st.floats(0.1, 5), share=st.floats(0.05, 1), rounds=st.integers(1, 40), seed=st.integers(0, 99))
def test_bound_holds_on_quadratics_with_equal_optima(steps, start, share, rounds, seed):
    bent = np.random.default_rng(seed).uniform(0.2, 1, len(steps))
    lam = np.full(len(steps), 1 / len(steps))
    visited = train(start, rounds, eta := share * step_limit(steps), steps, lam, lambda i, theta: bent[i] * theta)
    curvature = bent @ lam
    slopes = np.abs(np.outer(visited, bent)).max(initial=0.0)
    off = 3 / 8 * weights_term(steps, lam, lam, slopes)
    sigma2 = np.max((np.outer(visited, bent - curvature)) ** 2)
    bound = gradient_bound(
        gap=curvature * start**2 / 2, rounds=rounds, eta=eta, steps=steps, noise=[0.0] * len(steps), sigma2=sigma2, off=off
    )
    assert np.mean((curvature * visited) ** 2) <= bound


def test_clipped_training_breaks_it():
    records, clip = np.array([0.0, 0.0, 0.0, 4.0]), 0.3
    visited = train(0.1, 1000, 1 / 17, [1], [1.0], lambda i, theta: np.clip(theta - records, -clip, clip).mean())
    left = np.min((visited - records.mean()) ** 2)
    right = gradient_bound(gap=0.405, rounds=1000, eta=1 / 17, steps=[1], noise=[0.0])
    assert left == pytest.approx(0.81)
    assert right < 0.0207


@given(steps=STEPS)
def test_printed_limit_is_below_ours(steps):
    assert printed_step_limit(steps) < step_limit(steps)
    assert printed_step_limit(steps) <= 1 / (6 * max(steps))


@given(steps=STEPS, beta=st.floats(0.1, 10))
def test_units_of_the_parameter_do_not_matter(steps, beta):
    """With the parameter in units of beta times as much, gradients and their squares scale, the bound with them."""
    eta, noise = step_limit(steps) / 2, [0.3] * len(steps)
    one = gradient_bound(gap=2.0, rounds=7, eta=eta, steps=steps, noise=noise)
    bent = gradient_bound(gap=2.0, rounds=7, eta=eta / beta, steps=steps, noise=[beta * v for v in noise], beta=beta)
    assert bent == pytest.approx(beta * one, rel=1e-12)


def test_parts_of_a_move_count_as_in_the_proof():
    """Three parts, of which 3 (1 / (4a) + 2/16) times the square counts with a = 1/3: weights, heterogeneity, noise.

    The last two are a drift, up to 1 / (1 - 2/144) larger as it drifts on: after k of K local steps K eta^2 (2 k v + 8 k^2
    sigma2).  What counts as much as 1 is read off the gap.
    """
    steps, noise, part = [2, 1, 5], [0.3, 4.0, 0.7], 3 * (3 / 4 + 1 / 8)
    eta = 0.4 * step_limit(steps)
    bound = partial(gradient_bound, rounds=3, eta=eta, steps=steps)
    base = bound(gap=1.0, noise=[0.0] * 3)
    unit = bound(gap=1.0 + 3 * eta, noise=[0.0] * 3) - base
    drift = {"sigma2": 0.0, "noise": 0.0}
    jump = sum(eta * K * v for K, v in zip(steps, noise, strict=True))
    for K, v in zip(steps, noise, strict=True):
        for k in range(K):
            drift["sigma2"] += K * eta**2 * 8 * k**2 / (1 - 2 / 144)
            drift["noise"] += K * eta**2 * 2 * k * v / (1 - 2 / 144)
    assert (bound(gap=1.0, noise=[0.0] * 3, off=1.0) - base) / unit == pytest.approx(part, rel=1e-9)
    assert (bound(gap=1.0, noise=[0.0] * 3, sigma2=1.0) - base) / unit == pytest.approx(part * drift["sigma2"], rel=1e-9)
    assert (bound(gap=1.0, noise=noise) - base) / unit == pytest.approx(part * drift["noise"] + jump, rel=1e-9)


def test_weights_term_vanishes_for_equal_clients_and_nowhere_else():
    assert weights_term([3, 3], [0.25, 0.75], [0.25, 0.75]) == 0
    assert weights_term([3, 3], [0.25, 0.75], [0.5, 0.5]) > 0
    assert weights_term([3, 4], [0.25, 0.75], [0.25, 0.75]) > 0
    # 2 (0.25^2 + (3 * 0.25)^2) for the weights, (0.25^2 + 0.75^2) (1 + 1) for steps that are one off their mean 2.
    assert weights_term([1, 3], [0.25, 0.75], [0.5, 0.5], lipschitz=2.0) == pytest.approx(8 / 3 * 4 * (1.25 + 1.25))


def test_too_large_steps_and_unequal_lists_are_refused():
    with pytest.raises(ValueError, match="eta must be at most"):
        gradient_bound(gap=1.0, rounds=1, eta=0.1, steps=[1], noise=[0.0])
    with pytest.raises(ValueError, match="noise must hold one entry per client"):
        gradient_bound(gap=1.0, rounds=1, eta=0.01, steps=[1, 2], noise=[0.0])
    with pytest.raises(ValueError, match="steps"):
        step_limit([0])
