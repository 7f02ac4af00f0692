"""Shuffled reports: the clones' pair by enumeration, true mechanisms below it, closed forms above it."""

from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from estimators.accounting import Guarantee, shuffling
from estimators.accounting.shuffling import closed_form_epsilon, shuffled, shuffled_delta, shuffled_epsilon


def enumerated(eps, eps0, n):
    """Hockey-stick divergence of the clones' pair, every clone one by one, and without knowing where a ratio rises."""
    clone, honest = np.exp(-eps0), np.exp(eps0) / (1 + np.exp(eps0))
    laws = [{}, {}]
    for kinds in product((None, 0, 1), repeat=n - 1):
        weight = np.prod([1 - clone if kind is None else clone / 2 for kind in kinds])
        ones, zeros = kinds.count(1), kinds.count(0)
        for law, chance in zip(laws, (honest, 1 - honest), strict=True):
            for own, probability in ((1, chance), (0, 1 - chance)):
                seen = ones + own, zeros + 1 - own
                law[seen] = law.get(seen, 0.0) + weight * probability
    return sum(max(p - np.exp(eps) * laws[1][seen], 0.0) for seen, p in laws[0].items())


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("eps0", [0.1, 1.0, 4.0])
def test_delta_is_that_of_the_pair(n, eps0):
    for eps in (0.0, 0.3 * eps0, 0.9 * eps0):
        found = shuffled_delta(eps=eps, eps0=eps0, n=n)
        assert enumerated(eps, eps0, n) <= found + 1e-15
        assert found == pytest.approx(enumerated(eps, eps0, n), rel=1e-9, abs=1e-16)


@pytest.mark.parametrize("n", [35, 45, 55])
def test_a_bound_is_above_the_exact_delta_by_no_more_than_the_chance_left_out(n):
    """Close to eps0 only reports that are all ones tell the two apart, which has a closed form."""
    eps0, eps = 0.7, 0.7 - 1e-9
    exact = -np.expm1(eps - eps0) / (1 + np.exp(-eps0)) * (1 - np.exp(-eps0) / 2) ** (n - 1)
    assert 1e-16 < exact < 1e-13
    assert 0 < shuffled_delta(eps=eps, eps0=eps0, n=n) - exact < 2.2e-18  # 1e-18 on each side of the clones' law


def divergence(one, other, eps):
    return np.maximum(one - np.exp(eps) * other, 0.0).sum()


@pytest.mark.parametrize("others", [0, 5, 20])
@pytest.mark.parametrize("eps0", [0.5, 2.0])
def test_random_bits_are_never_easier_to_tell_apart(others, eps0):
    """The exact law of the number of ones of 21 shuffled random bits, whatever the others' data are."""
    honest, j = 1 / (1 + np.exp(-eps0)), np.arange(22)
    rest = np.convolve(
        binom.pmf(np.arange(others + 1), others, honest), binom.pmf(np.arange(21 - others), 20 - others, 1 - honest)
    )
    laws = [p * np.append(0.0, rest) + (1 - p) * np.append(rest, 0.0) for p in (honest, 1 - honest)]
    assert len(laws[0]) == len(j)
    for eps in np.linspace(0, eps0, 7)[:-1]:
        worst = max(divergence(*laws, eps), divergence(*laws[::-1], eps))
        assert worst <= shuffled_delta(eps=float(eps), eps0=eps0, n=21) * (1 + 1e-9)
        assert worst > 0


@settings(max_examples=max(1, settings().max_examples // 10))
@given(st.floats(0.05, 4.0), st.integers(1, 10**5), st.floats(1e-9, 1e-3))
def test_eps_is_between_nothing_and_the_closed_form(eps0, n, delta):
    found = shuffled_epsilon(delta=delta, eps0=eps0, n=n)
    assert 0 <= found <= closed_form_epsilon(delta=delta, eps0=eps0, n=n) <= eps0
    assert shuffled_delta(eps=found, eps0=eps0, n=n) <= delta
    if found > 0:
        assert shuffled_delta(eps=found * (1 - 1e-6), eps0=eps0, n=n) > delta * (1 - 1e-3)


def test_the_closed_form_is_some_four_times_loose():
    for n in (10**4, 10**5):
        ratio = closed_form_epsilon(delta=1e-6, eps0=1.0, n=n) / shuffled_epsilon(delta=1e-6, eps0=1.0, n=n)
        assert 3 < ratio < 6


def test_one_client_is_hidden_by_nobody_and_a_guarantee_says_what_it_is():
    assert shuffled_delta(eps=0.999999, eps0=1.0, n=1) > 0
    assert shuffled_delta(eps=1.0, eps0=1.0, n=1) == 0
    made = shuffled(Guarantee(2.0, 0.0, "client", "client", "finite-output", simulated=True), n=5000, delta=1e-6)
    assert (made.mechanism, made.adjacency, made.delta, made.simulated) == ("shuffled finite-output", "client", 1e-6, True)
    assert made.eps == shuffled_epsilon(delta=1e-6, eps0=2.0, n=5000) < 0.3


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: shuffled_delta(eps=-1.0, eps0=1.0, n=5), "eps"),
        (lambda: shuffled_delta(eps=0.1, eps0=1e300, n=5), "eps0 must be at most 30"),
        (lambda: shuffled_delta(eps=0.1, eps0=0.0, n=5), "eps0 must be > 0"),
        (lambda: shuffled_delta(eps=0.1, eps0=1.0, n=0), "n must"),
        (lambda: shuffled_epsilon(delta=0.0, eps0=1.0, n=5), "delta"),
        (lambda: shuffled_epsilon(delta=1e-6, eps0=np.nan, n=5), "eps0"),
        (lambda: shuffled(Guarantee(1.0, 1e-6, "client", "client", "x"), n=5, delta=1e-6), "purely private"),
        (lambda: shuffled(Guarantee(1.0, 0.0, "row", "client", "x"), n=5, delta=1e-6), "purely private"),
        (lambda: shuffled("eps=1", n=5, delta=1e-6), "guarantee must be a Guarantee"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize(
    ("n", "eps0", "delta", "below", "above"),
    [
        (10_000, 1.0, 1e-6, 0.0530052, 0.0555617),
        (1000, 1.0, 1e-5, 0.1540419, 0.1628545),
        (1000, 0.5, 1e-6, 0.0705222, 0.0737838),
    ],
)
def test_between_the_bounds_of_the_authors_code(n, eps0, delta, below, above):
    """Lower and upper bounds on the same pair, 22 bisections, by apple/ml-shuffling-amplification (November 2026)."""
    found = shuffled_epsilon(delta=delta, eps0=eps0, n=n)
    assert below <= found <= above
    assert found == pytest.approx(below, rel=1e-4)


@pytest.mark.parametrize(("eps0", "n"), [(0.5, 1000), (0.5, 4000)])
def test_numbers_of_clones_that_are_left_out_count_as_told_apart(eps0, n):
    """Their chance term by term; next to eps0 nothing else is told apart."""
    clones, _, out = shuffling.clones_of(eps0, n)
    with mpmath.workdps(40):
        p = mpmath.exp(-mpmath.mpf(eps0))
        left = (c for c in range(n) if not clones[0] <= c <= clones[-1])
        exact = float(mpmath.fsum(mpmath.binomial(n - 1, c) * p**c * (1 - p) ** (n - 1 - c) for c in left))
    assert 0 < exact < 2 * shuffling.LEFT_OUT
    assert out == pytest.approx(exact, rel=1e-9, abs=0)
    assert shuffling.clone_delta(0.99 * eps0, eps0, n) == pytest.approx(exact, rel=1e-9, abs=0)
