"""Sums over frequency tables by few nodes: against the plain sums, and against mpmath's gamma functions."""

import json

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import chebyshev

from estimators.counts.beta_binomial import BetaBinomial, BetaBinomialTally
from estimators.counts.gamma_poisson import GammaPoisson, GammaPoissonTally
from estimators.counts.tallies import (
    Frequencies,
    below,
    chebyshev_nodes,
    distinct,
    exact_squares,
    log_rises_over_factorials,
    polynomial_sums,
    read,
    spread_over_nodes,
)
from estimators.numerics.tally_state import load, save, seal

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


@pytest.mark.parametrize("size", [20, 21, 22])
def test_points_no_more_than_the_nodes_are_nodes_themselves(size):
    """Of each power of two, whose nodes are 21; weights of the many are those of Chebyshev's interpolation."""
    points = np.concatenate([np.linspace(1, 1.99, size), np.linspace(4, 7.9, 3)])
    counts = np.arange(1.0, size + 4)
    nodes = spread_over_nodes(points, counts)
    assert nodes.positions.size == min(size, 21) + 3
    assert (size > 21) or np.array_equal(nodes.positions, points)
    assert (size > 21) or np.array_equal(nodes.weights, counts[None])
    assert nodes.weights @ np.log(nodes.positions) == pytest.approx(counts @ np.log(points), rel=1e-13)


@pytest.mark.parametrize("edge", [128, 256, 1024])
def test_sums_below_are_exact_at_every_edge_of_nodes(edge):
    """Of entries next to a power of two, where one stretch of nodes ends and the next begins, beside a larger one."""
    for v in (edge - 2, edge - 1, edge, edge + 1, edge + 2, edge + edge // 2, 2 * edge - 1):
        for values in ([v], [v, v, 5 * edge]):
            nodes, j = below(Frequencies.of(values)), np.concatenate([np.arange(v, dtype=float) for v in values])
            assert nodes.weights.sum() == pytest.approx(j.size, rel=1e-13)
            for a in (0.5, 900.0):
                assert nodes.weights @ np.log(a + nodes.positions) == pytest.approx(np.log(a + j).sum(), rel=1e-13)


def test_weights_at_nodes_are_those_of_interpolation():
    """Of a polynomial of the highest degree, by its values at cos((2 k + 1) pi / 42)."""
    unit, transform = chebyshev_nodes.__wrapped__()  # which is made once and kept
    np.testing.assert_allclose(unit, np.sort(np.cos(np.arange(1, 42, 2) * np.pi / 42)), atol=1e-15)
    coefficients = np.random.default_rng(2).normal(size=21)
    for x in (-1.0, 0.3, 0.99):
        weights = chebyshev.chebvander(np.array([x]), 20)[0] @ transform
        exact = np.sum(coefficients * np.cos(np.arange(21) * np.arccos(x)))
        assert weights @ chebyshev.chebval(unit, coefficients) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("start", [16, 128])
def test_sums_of_polynomials_are_polynomials(start):
    """Sums of T_q over whole numbers, by adding up."""
    sums = polynomial_sums.__wrapped__(start)
    for v in (start, start + 1, 3 * start // 2, 2 * start):
        x = (np.arange(start, v) - 1.5 * start) / (0.5 * start)
        exact = np.cos(np.arange(21) * np.arccos(x)[:, None]).sum(axis=0)
        end = (v - 1.5 * start) / (0.5 * start)
        np.testing.assert_allclose(chebyshev.chebval(end, sums), exact, rtol=0, atol=1e-11)


@pytest.mark.parametrize("top", [5, 300, 10**7])
def test_distinct_keys_and_their_places(top):
    """Few whole numbers, each many times, and many far apart: keys are those of their places, in order."""
    keys = np.random.default_rng(top).integers(0, top, 50)
    position, place = distinct(keys)
    np.testing.assert_array_equal(keys[position], np.unique(keys))
    np.testing.assert_array_equal(keys[position][place], keys)


def test_no_entries_are_a_table_too():
    nobody = Frequencies.of([]) + Frequencies.of([])
    assert (nobody.values.size, nobody.counts.size, nobody.total, nobody.sum) == (0, 0, 0, 0)
    both = nobody + Frequencies.of([7, 7])
    assert (both.values.tolist(), both.counts.tolist()) == ([7], [2])


def test_frequencies_add_up():
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 10**12, 50)
    table = Frequencies.of(numbers[:20]) + Frequencies.of(numbers[20:])
    assert (table.total, table.sum) == (50, int(numbers.sum()))
    assert Frequencies.of([]).total == 0
    for none in ([], [0, 0]):
        assert [part.size for part in below(Frequencies.of(none))] == [0, 0]


def test_binomial_coefficients_of_huge_numbers_keep_their_digits():
    table = Frequencies.of([10**9])
    with mpmath.workdps(40):
        exact = float(mpmath.loggamma(mpmath.mpf(10**9) + 3) - mpmath.loggamma(3) - mpmath.loggamma(mpmath.mpf(10**9) + 1))
        tiny = float(mpmath.loggamma(10**9 + mpmath.mpf("1e-9")) - mpmath.loggamma("1e-9") - mpmath.loggamma(10**9 + 1))
    assert log_rises_over_factorials(table, 3.0) == pytest.approx(exact, rel=1e-14)
    assert log_rises_over_factorials(table, 1e-9) == pytest.approx(tiny, rel=1e-14)


# --- states ----------------------------------------------------------------------------------------------------------


def count_tallies():
    gen = np.random.default_rng(5)
    n = gen.integers(0, 30, 200)
    months = gen.integers(1, 12, 200) / 7
    return [BetaBinomialTally.of(gen.binomial(n, 0.3), n), GammaPoissonTally.of(gen.poisson(months), months)]


@pytest.mark.parametrize("index", [0, 1])
def test_states_come_back_and_batches_can_be_added(index, tmp_path):
    tally = count_tallies()[index]
    kind = type(tally)
    assert kind.from_dict(json.loads(json.dumps(tally.to_dict()))) == tally
    save(tally, tmp_path / "t.json")
    again = load(kind, tmp_path / "t.json")
    assert again == tally
    more = again.add([1, 0], 3)
    assert more == tally + kind.of([1, 0], 3)
    assert more != tally
    model = {BetaBinomialTally: BetaBinomial, GammaPoissonTally: GammaPoisson}[kind]
    assert model().fit_tally(more).log_likelihood_ == model().fit_tally(tally + kind.of([1, 0], 3)).log_likelihood_


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: c["clients"].__setitem__(0, c["clients"][0] + 1), "contradict"),
        (lambda c: c["clients"].__setitem__(0, -1), "whole numbers >= 0"),
        (lambda c: c.pop("sums"), "makes no sense"),
        (lambda c: c["sums"].pop(), "one entry for each"),
        (lambda c: c.__setitem__("clients", "many"), "makes no sense"),
    ],
)
def test_states_that_make_no_sense_are_refused(index, spoil, message):
    """Even if somebody renews the checksum."""
    tally = count_tallies()[index]
    content = json.loads(json.dumps(tally.content()))
    spoil(content)
    with pytest.raises(ValueError, match=message):
        type(tally).from_dict(seal(type(tally).__name__, content))


SHARES = {"ones": [0, 1, 1, 3], "zeros": [2, 1, 0, 2], "trials": [1, 2, 5]}  # 0 of 2, 1 of 2, 1 of 1, 3 of 5
CLIENTS = np.array([1, 2, 1]), np.array([1, 1, 3]), exact_squares(np.array([1, 1, 3]))  # of each size; sums, squares


def checked(tally, whole, message):
    """Without a message the tally's parts agree, and it is the whole one."""
    if message is None:
        tally.check()
        assert tally == whole
    else:
        with pytest.raises(ValueError, match=message):
            tally.check()


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ({}, None),
        ({"ones": [0, 1, 1, 3, 0]}, "numbers of clients or of ones contradict"),
        ({"zeros": [2, 1, 0, 2, 0]}, "numbers of clients or of ones contradict"),
        ({"ones": [0, 1, 1, 3, 0], "zeros": [2, 1, 0, 2, 0]}, "numbers of clients or of ones contradict"),
        ({"ones": [0, 1, 1, 4], "zeros": [2, 1, 0, 1]}, "numbers of clients or of ones contradict"),
        ({"zeros": [2, 1, 0, 3]}, "do not add up"),
        ({"trials": [1, 3, 5]}, "do not add up"),
        ({"trials": [1, 5, 2]}, "must be >= 0 and rise"),
        ({"trials": [1, 2, 5, 6]}, "one entry for each number of trials"),
    ],
)
def test_parts_of_a_tally_of_shares_agree(spoilt, message):
    ones, zeros, trials = map(np.array, (SHARES | spoilt).values())
    tally = BetaBinomialTally(Frequencies.of(ones), Frequencies.of(zeros), trials, *CLIENTS)
    checked(tally, BetaBinomialTally.of([0, 1, 1, 3], [2, 2, 1, 5]), message)


@pytest.mark.parametrize(
    ("counts", "exposures", "message"),
    [
        ([0, 1, 1, 3], [0.5, 2.0, 5.0], None),
        ([0, 0, 1, 1, 3], [0.5, 2.0, 5.0], "numbers of clients or of events contradict"),
        ([0, 1, 1, 4], [0.5, 2.0, 5.0], "numbers of clients or of events contradict"),
        ([0, 1, 1, 3], [2.0, 0.5, 5.0], "must be >= 0 and rise"),
        ([0, 1, 1, 3], [0.5, 2.0], "one entry for each exposure"),
    ],
)
def test_parts_of_a_tally_of_events_agree(counts, exposures, message):
    tally = GammaPoissonTally(Frequencies.of(np.array(counts)), np.array(exposures), *CLIENTS)
    checked(tally, GammaPoissonTally.of([0, 1, 1, 3], [2.0, 2.0, 0.5, 5.0]), message)


@pytest.mark.parametrize("counts", [[1, 0], [2], [1, 2, 3]])
def test_a_table_has_a_positive_count_for_each_value(counts):
    assert read({"values": [3, 5], "counts": [1, 2]}).total == 3
    with pytest.raises(ValueError, match="counts must be positive, one for each value"):
        read({"values": [3, 5], "counts": counts})
    with pytest.raises(ValueError, match="values must be >= 0 and rise"):
        read({"values": [3, 3], "counts": [1, 1]})


def test_damaged_states_are_refused(tmp_path):
    tally = count_tallies()[0]
    state = tally.to_dict()
    state["content"]["sums"][1] += 1
    with pytest.raises(ValueError, match="damaged"):
        BetaBinomialTally.from_dict(state)
    with pytest.raises(ValueError, match="not a GammaPoissonTally"):
        GammaPoissonTally.from_dict(tally.to_dict())
