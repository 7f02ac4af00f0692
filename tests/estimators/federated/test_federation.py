"""Pools and federations at the ends of what they take: seeds, booleans, one class or none, groups, names, bad clients."""

import numpy as np
import pytest

from estimators.federated.data.federation import Examples, Federation, generator, labels

X, Y = np.eye(4), [0, 1, 0, 1]


def test_seeds_are_whole_numbers_of_63_bits():
    assert generator(2**63 - 1, "iid").random() != generator(2**63 - 2, "iid").random()
    for seed in (-1, 2**63):
        with pytest.raises(ValueError, match="seed must be"):
            generator(seed, "iid")


def test_labels_may_be_booleans():
    for y in ([True, False], np.array([True, False])):
        assert labels("y", y).tolist() == [1, 0]
    assert Examples(np.eye(2), [True, False], classes=2).y.dtype == np.int64


@pytest.mark.parametrize("classes", [0, 1])
def test_without_classes_the_share_for_testing_is_of_all_rows(classes):
    pool = Examples(np.eye(40), np.zeros(40), classes=classes).split_test(0.25, seed=0)
    assert pool.test.sum() == 10
    assert pool.provenance["split_test"] == {"share": 0.25, "seed": 0, "by_class": bool(classes)}


@pytest.mark.parametrize("given", [{"names": 5}, {"test": "ab"}, {"test": 3}])
def test_names_and_test_rows_are_lists(given):
    with pytest.raises(ValueError, match=f"{next(iter(given))} must be a list with one entry per client, or None"):
        Federation(X, Y, [[0], [1]], **given)


def test_groups_are_whole_numbers_or_minus_one():
    assert [client.group for client in Federation(X, Y, [[0], [1]])] == [-1, -1]
    assert [client.group for client in Federation(X, Y, [[0], [1]], group=[-1, 0])] == [-1, 0]
    with pytest.raises(ValueError, match="group must be"):
        Federation(X, Y, [[0], [1]], group=[-2, 0])


def test_a_client_without_rows_is_named_alone_or_with_the_number_of_others():
    with pytest.raises(ValueError, match="client b has no training row"):
        Federation(X, Y, [[0], [], [2]], names="abc")
    with pytest.raises(ValueError, match=r"client a \(and 2 more\) has no training row"):
        Federation(X, Y, [[], [], []], names="abc")
