"""Rotations, masks, standardised features and joined clients, row by row at the ends of what they take."""

import numpy as np
import pytest

from estimators.federated import data
from estimators.federated.data.federation import Examples, Federation


def images(n, *shape, test=0):
    """Images with different numbers in all pixels, the last few for testing."""
    x = np.arange(n * np.prod(shape)).reshape(n, *shape)
    return Examples(x, np.zeros(n), np.arange(n) >= n - test, classes=1, top=255.0)


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 3)])
@pytest.mark.parametrize("rotations", [1, 2, 3, 4])
def test_each_group_of_silos_has_a_number_of_quarter_turns(shape, rotations):
    pool = images(24, *shape, test=8)
    found = data.rotated_silos(pool, clients=2 * rotations, rotations=rotations, seed=1)
    assert sorted(found.group) == sorted([*range(rotations)] * 2)
    assert found.server_test.size == 0
    for client in found:
        for rows, turned in ((client.train, client.x), (client.test, client.test_x)):
            for row, image in zip(rows, turned, strict=True):
                straight = pool.x[row]
                for _ in range(client.group):  # a quarter turn: the last column becomes the first row
                    straight = np.stack([straight[:, -1 - i] for i in range(shape[0])])
                np.testing.assert_array_equal(image, straight)
    assert found.provenance["rotated_silos"] == {"rotations": rotations, "seed": 1}


def test_who_is_rotated():
    pool = images(40, 2, 2)
    found = data.rotated_silos(pool, seed=0)
    assert (len(found), np.bincount(found.group).tolist()) == (40, [10, 10, 10, 10])
    assert len(data.rotated_silos(pool, clients=3, rotations=3, seed=0)) == 3
    assert len(data.rotated_silos(images(91, 1, 1), clients=91, seed=0)) == 91
    for settings, said in (
        ({"rotations": 5}, "rotations must be in 1..4"),
        ({"rotations": 0}, "rotations must be in 1..4"),
        ({"clients": 3}, "clients must be in 4.."),
        ({"clients": 10**9 + 1}, "clients must be in 4..1000000000"),
    ):
        with pytest.raises(ValueError, match=said):
            data.rotated_silos(pool, **settings, seed=0)
    for shape in ((4,), (2, 3), (2, 3, 3), (2, 2, 1, 1)):
        with pytest.raises(ValueError, match="rotation needs square images"):
            data.rotated_silos(images(8, *shape), clients=4, seed=0)


@pytest.mark.parametrize("patch", [1, 2, 3, 5])
@pytest.mark.parametrize("colours", [(), (3,)])
def test_masks_are_patches_of_a_grid_that_begins_at_the_first_pixel(patch, colours):
    before = data.iid(images(12, 5, 4, *colours, test=4), clients=4, seed=0)
    found = data.masked(before, ratio=0.5, patch=patch, seed=2)
    mask = found.truth["mask"]
    assert mask.shape == (4, 5, 4)
    cells = [mask[:, i : i + patch, j : j + patch] for i in range(0, 5, patch) for j in range(0, 4, patch)]
    for cell in cells:  # a patch is white, or is not
        assert (cell == cell[:, :1, :1]).all()
    for k, client in enumerate(found):
        for rows, shown in ((client.train, client.x), (client.test, client.test_x)):
            assert (shown[:, mask[k]] == 255).all()
            np.testing.assert_array_equal(shown[:, ~mask[k]], before.x[rows][:, ~mask[k]])
    assert len({each.tobytes() for each in mask}) == 4 or patch == 5
    assert found.server_test.size == 0
    assert found.provenance["masked"] == {"ratio": 0.5, "patch": patch, "seed": 2}
    assert not data.masked(before, ratio=0.0, seed=2).truth["mask"].any()
    assert data.masked(before, ratio=1.0, seed=2).truth["mask"].all()


def test_a_patch_is_two_pixels_wide_and_no_larger_than_the_image():
    pool = data.iid(images(6, 3, 5), clients=2, seed=0)
    same = [data.masked(pool, ratio=0.5, seed=3, **size).truth["mask"] for size in ({}, {"patch": 2})]
    np.testing.assert_array_equal(*same)
    assert len(data.masked(pool, ratio=0.5, patch=5, seed=0)) == 2
    for patch in (0, 6):
        with pytest.raises(ValueError, match=r"patch must be in 1\.\.5"):
            data.masked(pool, ratio=0.5, patch=patch, seed=0)
    with pytest.raises(ValueError, match="masks need images"):
        data.masked(data.iid(images(4, 6), clients=2, seed=0), ratio=0.5, seed=0)


X = np.array([[1.0, 5.0], [3.0, 5.0], [9.0, 4.0], [-1.0, 2.0], [7.0, 2.0], [0.0, 0.0]])


def test_features_have_mean_0_and_variance_1_over_the_rows_that_train():
    both = Federation(X, np.zeros(6), [[0, 1], [3, 4]], [[2], [5]])
    own = data.standardised(both)
    assert own.x.tolist() == [[-1, 0], [1, 0], [7, -1], [-1, 0], [1, 0], [-0.75, -2]]
    assert data.standardised(both, by="client").x.tolist() == own.x.tolist()
    together = data.standardised(both, by="all")
    train = X[[0, 1, 3, 4]]
    np.testing.assert_allclose(together.x, (X - [2.5, 3.5]) / [8.75**0.5, 1.5], rtol=1e-15)
    assert train.mean(axis=0).tolist() == [2.5, 3.5]
    assert (own.top, own.provenance["standardised"]) == (1.0, {"by": "client"})
    assert together.provenance["standardised"] == {"by": "all"}
    flat = Federation(np.full((3, 1), 0.1), np.zeros(3), [[0, 1, 2]])  # three times 0.1 over 3 is not 0.1
    assert data.standardised(flat).x.tolist() == data.standardised(flat, by="all").x.tolist() == [[0.0]] * 3
    assert data.standardised(Federation(X, np.zeros(6), [[2]], [[0]])).x[[2, 0]].tolist() == [[0.0, 0.0], [-8.0, 1.0]]
    with pytest.raises(ValueError, match="clients share rows"):
        data.standardised(Federation(X, np.zeros(6), [[0, 1], [2]], [[], [1]]))


def test_clients_are_joined_size_by_size():
    parts = Federation(X, np.zeros(6), [[0], [1], [2], [3], [4]], [[5], [], [], [], []], names="abcde")
    found = data.merged(parts, size=2, seed=0)
    assert [len(client) for client in found] == [2, 2]
    for client in found:
        assert sorted(client.name.split("+")) == ["abcde"[row] for row in client.train]
        assert (5 in client.test) == ("a" in client.name)
    assert found.provenance["merged"] == {"size": 2, "clients": 2, "seed": 0}
    assert len(data.merged(parts, size=5, clients=1, seed=0)) == 1
    assert len(data.merged(parts, size=1, seed=0)) == 5
    with pytest.raises(ValueError, match="3 clients of 2 need 6, federation has 5"):
        data.merged(parts, size=2, clients=3, seed=0)
    for settings, said in (({"size": 0}, "size must be in 1..5"), ({"size": 6}, "size must be in 1..5"),
                           ({"size": 1, "clients": 0}, "clients must be in 1.."),
                           ({"size": 1, "clients": 10**9 + 1}, "clients must be in 1..1000000000")):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            data.merged(parts, **settings, seed=0)
    with pytest.raises(ValueError, match="need 1000000000, federation has 5"):
        data.merged(parts, size=1, clients=10**9, seed=0)
