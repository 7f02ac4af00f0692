"""Exact sums, called directly: wrong arguments are refused before compiled loops write where they should not."""

from fractions import Fraction

import numpy as np
import pytest

from estimators.numerics import exact_kernels
from estimators.numerics.exact import UNIT, exact_sum, group_by, mean_and_scatter, power_sums, rounded

WRONG = {
    "a group beyond the last": ([1.0, 2.0], [0, 7], 2, "group must lie in 0..1"),
    "a group far beyond": ([1.0, 2.0], [0, 2**40], 2, "group must lie in 0..1"),
    "a group before the first": ([1.0, 2.0], [0, -1], 2, "group must lie in 0..1"),
    "fewer groups than values": ([1.0] * 1000, [0], 1, "group must hold whole numbers, as many"),
    "groups that are no whole numbers": ([1.0, 2.0], [0.0, 1.0], 2, "group must hold whole numbers"),
    "groups that are text": ([1.0, 2.0], ["a", "b"], 2, "group must hold whole numbers"),
    "an infinity": ([1.0, np.inf], [0, 1], 2, "values must be finite"),
    "NaN": ([1.0, np.nan], [0, 1], 2, "values holds NaN"),
    "a matrix": ([[1.0, 2.0]], [[0, 1]], 2, "1-d array values"),
    "no group": ([1.0], [0], 0, "groups must be in 1"),
    "more groups than memory": ([1.0], [0], 2**63, "groups must be in 1"),
    "one more group than are counted": ([1.0], [2**40], 2**31 + 1, "groups must be in 1"),
    "groups of another kind": ([1.0], [0], None, "groups must be an integer"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays_are_refused(name):
    *arguments, says = WRONG[name]
    with pytest.raises(ValueError, match=says):
        power_sums(*arguments)


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.uint64, np.int64])
def test_every_kind_of_whole_numbers_names_groups(kind):
    values = np.array([0.1, 1e300, -5e-324, 7.0])
    counts, sums, squares = power_sums(values, np.array([1, 0, 1, 2], kind), 4)
    exact = [[Fraction(1e300)], [Fraction(0.1), Fraction(-5e-324)], [Fraction(7.0)], []]
    assert counts == [len(part) for part in exact]
    assert [Fraction(s, UNIT) for s in sums] == [sum(part, Fraction(0)) for part in exact]
    assert [Fraction(s, UNIT**2) for s in squares] == [sum((x * x for x in part), Fraction(0)) for part in exact]


def test_what_is_no_number_has_no_exact_sum_and_no_group():
    for bad in (np.inf, np.nan):
        with pytest.raises(ValueError, match="values"):
            exact_sum([1.0, bad])
        with pytest.raises(ValueError, match="keys"):
            group_by(np.array([1.0, bad]), 2)
    with pytest.raises(ValueError, match="keys must not be 0"):
        group_by(np.array([1.0, 0.0]), 2)
    assert exact_sum([]) == 0
    assert power_sums([], [], 2) == ([0, 0], [0, 0], [0, 0])


def test_quotients_of_whole_numbers_are_rounded_once_and_infinite_with_their_sign():
    assert rounded(3 * 10**400, 2 * 10**400) == 1.5
    assert rounded(10**400 + 1, 3 * 10**399) == 10 / 3
    assert [rounded(sign * 10**400, 1) for sign in (1, -1)] == [np.inf, -np.inf]
    assert rounded(0, 10**400) == 0.0


@pytest.mark.parametrize("groups", [1, 511, 512, 513, 1024, 1025, 1300])
@pytest.mark.parametrize("at_once", [1 << 30, 97])
def test_sums_of_any_number_of_groups_in_any_number_of_parts_are_those_of_fractions(groups, at_once, monkeypatch):
    monkeypatch.setattr(exact_kernels, "MOST", min(at_once, exact_kernels.MOST))
    rng = np.random.default_rng(groups)
    values = rng.choice([-1.0, 1.0], 700) * rng.random(700) * 2.0 ** rng.integers(-1080, 1023, 700)
    group = rng.integers(0, groups, 700)
    group[:2] = 0, groups - 1
    exact = [[Fraction(x) for x in values[group == g]] for g in range(groups)]
    counts, sums, squares = power_sums(values, group, groups)
    assert counts == [len(part) for part in exact]
    assert [Fraction(s, UNIT) for s in sums] == [sum(part, Fraction(0)) for part in exact]
    assert [Fraction(s, UNIT**2) for s in squares] == [sum((x * x for x in part), Fraction(0)) for part in exact]
    assert Fraction(exact_sum(values), UNIT) == sum(map(Fraction, values.tolist()))
    assert exact_sum(values.reshape(7, 100)) == exact_sum(values)
    for g in np.flatnonzero(np.array(counts) > 1)[:40]:
        mean = sum(exact[g]) / counts[g]
        scatter = sum((x - mean) ** 2 for x in exact[g])
        whole = float(scatter) if scatter < Fraction(2) ** 1023 else np.inf
        for origin in (0.0, -0.75, values[0]):
            away = float(mean - Fraction(origin))
            assert mean_and_scatter(counts[g], sums[g], squares[g], origin) == (away, whole)


@pytest.mark.parametrize("distinct", [1, 2, 3, 64, 1000])
def test_keys_are_numbered_as_they_appear(distinct):
    rng = np.random.default_rng(distinct)
    names = rng.permutation(np.concatenate([[5e-324, 1e308][:distinct], rng.normal(size=max(distinct - 2, 0))]))
    keys = names[np.concatenate([np.arange(distinct), rng.integers(0, distinct, 2000)])]
    for most in (distinct, distinct + 1, 10**6):
        groups = group_by(keys, most)
        assert groups is not None
        found, place = groups
        assert np.array_equal(found, names)
        assert np.array_equal(found[place], keys)
    assert group_by(keys, distinct - 1) is None
    none = group_by(keys[:0], distinct)
    assert none is not None
    assert [part.size for part in none] == [0, 0]


def test_means_are_told_from_zero_unless_another_origin_is_given():
    counts, sums, squares = power_sums([1.0, 2.0, 6.0], [0, 0, 0], 1)
    assert mean_and_scatter(counts[0], sums[0], squares[0]) == (3.0, 14.0)
    assert mean_and_scatter(counts[0], sums[0], squares[0], 1.0) == (2.0, 14.0)
