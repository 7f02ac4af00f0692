"""Sums over frequency tables by few nodes: against the plain sums, and against mpmath's gamma functions."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.tallies import Frequencies, below, log_rises_over_factorials, spread_over_nodes

powers = st.floats(-9, 6).map(lambda x: 10.0**x)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=8), powers, powers)
def test_nodes_give_the_plain_sums(values, a, r):
    nodes = below(Frequencies.of(values))
    j = np.concatenate([np.arange(v, dtype=float) for v in values])
    for g in (
        lambda j: np.log1p(j * r / a),
        lambda j: 1 / (a + j * r),
        lambda j: j / (a + j * r),
        lambda j: 1 / (a + j * r) ** 2,
    ):
        plain = g(j).sum()
        assert nodes.weights @ g(nodes.positions) == pytest.approx(plain, rel=1e-12, abs=1e-300)
    assert nodes.weights.sum() == pytest.approx(j.size, rel=1e-13)


@pytest.mark.parametrize("v", [10**6 + 3, 2**31 - 1])
@pytest.mark.parametrize("a", [1e-3, 2.5, 1e7])
def test_huge_counts_against_mpmath(v, a):
    nodes = below(Frequencies.of([v]))
    assert nodes.positions.size < 700
    with mpmath.workdps(40):
        log = float(mpmath.loggamma(a + v) - mpmath.loggamma(a))
        inverse = float(mpmath.digamma(a + v) - mpmath.digamma(a))
    assert nodes.weights @ np.log(a + nodes.positions) == pytest.approx(log, rel=1e-13)
    assert nodes.weights @ (1 / (a + nodes.positions)) == pytest.approx(inverse, rel=1e-13)


@pytest.mark.parametrize("c", [1e-6, 1.0, 1e6])
def test_points_are_spread_over_nodes_without_loss(c):
    rng = np.random.default_rng(0)
    points = np.sort(rng.lognormal(0, 3, 30_000))
    first, second = rng.random((2, points.size))
    nodes = spread_over_nodes(points, first, second)
    assert nodes.positions.size < 900
    for weights, column in zip(nodes.weights, (first, second), strict=True):
        for g in (lambda e: np.log1p(c * e), lambda e: e / (1 + c * e) ** 2, lambda e: e):
            assert weights @ g(nodes.positions) == pytest.approx(column @ g(points), rel=1e-12)


def test_frequencies_add_up():
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 10**12, 50)
    table = Frequencies.of(numbers[:20]) + Frequencies.of(numbers[20:])
    assert (table.total, table.sum) == (50, int(numbers.sum()))
    assert Frequencies.of([]).total == 0
    assert below(Frequencies.of([0, 0])).positions.size == 0


def test_binomial_coefficients_of_huge_numbers_keep_their_digits():
    table = Frequencies.of([10**9])
    with mpmath.workdps(40):
        exact = float(mpmath.loggamma(mpmath.mpf(10**9) + 3) - mpmath.loggamma(3) - mpmath.loggamma(mpmath.mpf(10**9) + 1))
        tiny = float(mpmath.loggamma(10**9 + mpmath.mpf("1e-9")) - mpmath.loggamma("1e-9") - mpmath.loggamma(10**9 + 1))
    assert log_rises_over_factorials(table, 3.0) == pytest.approx(exact, rel=1e-14)
    assert log_rises_over_factorials(table, 1e-9) == pytest.approx(tiny, rel=1e-14)
