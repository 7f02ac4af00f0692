"""Exact sums, called directly: wrong arguments are refused before compiled loops write where they should not."""

from fractions import Fraction

import numpy as np
import pytest

from estimators.numerics.exact import UNIT, exact_sum, group_by, power_sums, rounded

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
