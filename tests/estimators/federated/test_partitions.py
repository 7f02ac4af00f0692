"""Rules that give rows to clients, against counts by hand and by brute force, at the ends of what they take."""

import numpy as np
import pytest

from estimators.federated import data
from estimators.federated.data import partitions
from estimators.federated.data.federation import Examples
from estimators.federated.data.partitions import largest_size, number_of

RNG = np.random.default_rng


def pool(counts, test=()):
    """So many training rows of each class, and so many test rows of each."""
    y = np.repeat(np.arange(len(counts)), counts)
    held = np.repeat(np.arange(len(test)), test)
    x = np.arange(len(y) + len(held), dtype=float)[:, None]
    return Examples(x, np.append(y, held), np.arange(len(x)) >= len(y), classes=len(counts))


def test_there_may_be_a_billion_clients_and_rows_of_each():
    assert number_of(10**9) == 10**9
    assert number_of(1) == 1
    for clients in (0, 10**9 + 1):
        with pytest.raises(ValueError, match="clients must be in"):
            number_of(clients)
    rows = pool([5, 5])
    assert data.iid(rows, clients=1, size=10**9, seed=0).sizes.tolist() == [10]
    assert data.iid(rows, clients=3, size=1, seed=0).sizes.tolist() == [1, 1, 1]
    for size in (0, 10**9 + 1):
        with pytest.raises(ValueError, match="size must be in"):
            data.iid(rows, clients=1, size=size, seed=0)


def test_the_largest_size_is_the_largest_that_serves_all():
    rng = RNG(0)
    for _ in range(200):
        rows, clients = rng.integers(0, 30, rng.integers(1, 5)), int(rng.integers(1, 12))
        fits = [size for size in range(1, 31) if (rows // size).sum() >= clients]
        assert largest_size(rows, clients) == max(fits, default=0)


def test_clients_of_one_class_have_one_row_at_least_and_no_more_than_there_are():
    assert data.one_class(pool([3, 2]), clients=5, size=1, seed=0).sizes.tolist() == [1] * 5
    assert data.one_class(pool([7]), clients=1, seed=0).sizes.tolist() == [7]
    for clients, size in ((2, 3), (6, 1)):
        with pytest.raises(ValueError, match=f"size {size} needs {clients} x {size} rows of single classes"):
            data.one_class(pool([3, 2]), clients=clients, size=size, seed=0)
    with pytest.raises(ValueError, match="serves 6 clients with 0 at most"):
        data.one_class(pool([3, 2]), clients=6, seed=0)


def test_clients_go_to_classes_by_their_rows_until_those_are_full():
    found = data.one_class(pool([11, 4, 5], (7, 3, 0)), clients=4, size=3, seed=1)
    assert found.group.tolist() == [0, 0, 1, 2]
    assert [len(client.test_y) for client in found] == [3, 3, 3, 0]
    for client in found:
        assert set(client.y) == {client.group}
        assert set(client.test_y) <= {client.group}
    assert found.server_test.tolist() == list(range(20, 30))
    full = data.one_class(pool([10, 4, 4]), clients=6, size=2, seed=1)
    assert full.group.tolist() == [0, 0, 0, 0, 1, 2] or full.group.tolist() == [0, 0, 0, 1, 1, 2]
    tight = data.one_class(pool([9, 6, 6]), clients=6, size=3, seed=1)
    assert np.bincount(tight.group).tolist() == [2, 2, 2]
    crowded = data.one_class(pool([11, 7, 2]), clients=5, size=3, seed=1)  # proportions say 3, 2 and 0 or 1
    assert np.bincount(crowded.group).tolist() == [3, 2]


def test_clients_may_share_so_many_test_rows_of_their_class():
    rows = pool([6, 6], (4, 3))
    found = data.one_class(rows, clients=6, size=2, test_size=3, seed=2)
    assert all(len(set(client.test_y)) == 1 and len(client.test_y) == 3 for client in found)
    assert found.provenance["one_class"] == {"clients": 6, "size": 2, "test_size": 3, "seed": 2}
    with pytest.raises(ValueError, match="test_size is 4, but class 1 has 3 test rows"):
        data.one_class(rows, clients=6, size=2, test_size=4, seed=2)


@pytest.mark.parametrize(("spread", "least", "most"), [((1.0, 1.0), 30, 30), ((0.25, 1.0), 60 * 0.2 - 1, 60 * 0.8 + 1)])
def test_classes_are_parted_between_their_clients_as_the_spread_says(spread, least, most):
    """Two clients of both classes: equal parts, or shares whose ratio is 4 at most; and no pair has the same."""
    sizes = []
    for seed in range(30):
        found = data.random_classes(pool([60, 60]), clients=2, classes=2, spread=spread, seed=seed)
        sizes.append([(client.y == label).sum() for client in found for label in (0, 1)])
        assert np.reshape(sizes[-1], (2, 2)).sum(axis=0).tolist() == [60, 60]
    assert least <= np.min(sizes) <= np.max(sizes) <= most
    assert (np.ptp(sizes, axis=0) > 10).all() == (spread != (1.0, 1.0))


def test_settings_of_random_classes():
    rows = pool([8, 8, 8])
    said = data.random_classes(rows, clients=6, classes=2, balanced=True, seed=3)
    assert said.provenance["random_classes"] == {
        "clients": 6, "classes": 2, "spread": [1.0, 1.0], "balanced": True, "seed": 3,
    }  # fmt: skip
    holders = [sum(label in client.y for client in said) for label in range(3)]
    assert holders == [4, 4, 4]
    drawn = data.random_classes(rows, clients=6, classes=2, seed=3)
    assert drawn.provenance["random_classes"]["balanced"] is False
    uneven = [np.ptp([sum(label in client.y for client in data.random_classes(pool([40] * 4), clients=6, classes=1, seed=s))
                      for label in range(4)]) for s in range(8)]  # fmt: skip
    assert max(uneven) > 1  # without balance chance alone decides
    assert len(set(data.random_classes(rows, clients=2, classes=3, seed=0).client(0).y)) == 3
    for settings, said in (
        ({"classes": 4}, "classes must be in 1..3"),
        ({"classes": 0}, "classes must be in 1..3"),
        ({"spread": (2.0, 1.0)}, "0 < low <= high"),
        ({"spread": (1.0, 1.0, 1.0)}, "must be 2 entries"),
    ):
        with pytest.raises(ValueError, match=said):
            data.random_classes(rows, clients=2, **({"classes": 1} | settings), seed=0)
    with pytest.raises(ValueError, match=r"classes must be in 1\.\.1"):
        data.random_classes(pool([4]), clients=1, classes=2, seed=0)
    numbers = Examples(np.eye(4), np.zeros(4))
    for call in (lambda: data.random_classes(numbers, clients=1, classes=1, seed=0),
                 lambda: data.dirichlet(numbers, clients=1, alpha=1.0, seed=0),
                 lambda: data.one_class(numbers, clients=1, seed=0)):  # fmt: skip
        with pytest.raises(ValueError, match="has no classes to part by; use iid"):
            call()


def test_papers_numbers_of_clients_and_classes():
    rows = pool([60] * 10)
    three, five = data.three_classes(rows, seed=0), data.five_random_classes(rows, seed=0)
    assert (len(three), {len(set(client.y)) for client in three}) == (50, {3})
    assert (len(five), {len(set(client.y)) for client in five}) == (30, {5})
    assert five.provenance["random_classes"]["spread"] == [0.4, 0.6]
    assert {sum(label in client.y for client in five) for label in range(10)} == {15}


def test_draws_of_dirichlet_are_cut_so_that_a_last_bit_decides_nothing(monkeypatch):
    seen = []
    monkeypatch.setattr(partitions, "by_shares", lambda examples, shares, *_: seen.append(shares))
    data.dirichlet(pool([4, 4, 4]), clients=5, alpha=0.7, seed=0)
    data.dirichlet(pool([4]), clients=5, alpha=0.7, seed=0)
    shares, of_one = seen
    assert of_one.shape == (5, 1)
    assert shares.shape == (5, 3)
    np.testing.assert_allclose(shares.sum(axis=0), 1, atol=5 * 2.0**-41)
    assert (shares * 2.0**40 == np.round(shares * 2.0**40)).all()
    assert (shares * 2.0**39 != np.round(shares * 2.0**39)).any()


def test_rows_go_to_clients_in_proportion_to_their_shares():
    """Training and test rows alike; a class of which nobody has a share has no owner, a client without rows is named."""
    rows = pool([8, 6, 4], (4, 3, 2))
    shares = np.array([[3.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 0.0]])
    found = partitions.by_shares(rows, shares, RNG(0), {"made": {}})
    assert [np.bincount(client.y, minlength=3).tolist() for client in found] == [[6, 0, 0], [2, 4, 0], [0, 2, 0]]
    assert [np.bincount(client.test_y, minlength=3).tolist() for client in found] == [[3, 0, 0], [1, 2, 0], [0, 1, 0]]
    shares[2] = 0.0
    with pytest.raises(ValueError, match=r"1 of 3 clients \(the first is 2\) have no training row"):
        partitions.by_shares(rows, shares, RNG(0), {})
