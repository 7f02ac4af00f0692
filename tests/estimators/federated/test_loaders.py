"""Conventions of data sets from files: classes, scales, ranges of labels, what is held out where nothing is said."""

import json
import struct

import numpy as np
import pytest
import scipy.io

from estimators.federated import data

RNG = np.random.default_rng


def cells(file, x, y, names=("X", "Y")):
    columns = []
    for parts in (x, y):
        column = np.empty(len(parts), dtype=object)
        column[:] = parts
        columns.append(column)
    scipy.io.savemat(file, dict(zip(names, columns, strict=True)))


def same(one, two):
    np.testing.assert_array_equal(one.x, two.x)
    assert [rows.tolist() for rows in one.train] == [rows.tolist() for rows in two.train]


@pytest.mark.parametrize(("load", "shape"), [(data.mnist, (28, 28)), (data.fashion_mnist, (28, 28)),
                                             (data.cifar10, (32, 32, 3))])  # fmt: skip
def test_pools_of_images_have_ten_classes_and_255_for_white(tmp_path, load, shape):
    x = np.full((2, *shape), 255, np.uint8)
    np.savez(tmp_path / "a.npz", images=x, labels=np.array([0, 9]))
    read = load(tmp_path)
    assert read.classes == 10
    assert (data.iid(read, clients=1, seed=0).scaled().x == 1).all()
    np.savez(tmp_path / "a.npz", images=x, labels=np.array([0, 10]))
    with pytest.raises(ValueError, match=r"labels are 0\.\.10; .* has 0\.\.9"):
        load(tmp_path)


def test_a_file_of_images_without_rows_is_an_empty_part(tmp_path):
    x = np.zeros((3, 28, 28), np.uint8)
    np.savez(tmp_path / "a.npz", images=x, labels=[1, 2, 3])
    np.savez(tmp_path / "b.npz", images=x[:0], labels=np.zeros(0, int))
    assert data.mnist(tmp_path).y.tolist() == [1, 2, 3]


def test_missing_labels_are_named_as_they_stand_beside_the_images(tmp_path):
    file = tmp_path / "train-images-idx3-ubyte.gz"
    file.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 0, 28, 28))
    with pytest.raises(FileNotFoundError, match=r"train-labels-idx1-ubyte\.gz does not exist"):
        data.mnist(file)


@pytest.mark.parametrize(("load", "file", "share"), [
    (data.school, "school.mat", 0.2), (data.vehicle, "vehicle.mat", 0.25), (data.gleam, "gleam.mat", 0.25),
    (data.landmine, "LandmineData.mat", 0.25),
])  # fmt: skip
def test_silos_hold_out_what_the_papers_do_by_the_first_seed(tmp_path, load, file, share):
    x = [RNG(k).normal(size=(40, 2)) for k in range(2)]
    cells(tmp_path / file, x, [np.ones((40, 1))] * 2)
    read = load(tmp_path)
    same(read, load(tmp_path, test_fraction=share, seed=0))
    assert read.sizes.tolist() == [40 - round(40 * share)] * 2


@pytest.mark.parametrize(("scores", "fine"), [((1, 70), True), ((0, 70), False), ((1, 70.5), False), ((0, 71), False)])
def test_scores_of_school_are_1_to_70(tmp_path, scores, fine):
    cells(tmp_path / "school.mat", [np.ones((2, 1))], [np.array(scores, float)[:, None]])
    if fine:
        assert np.sort(data.school(tmp_path, test_fraction=0.0).y).tolist() == [0.0, 1.0]
    else:
        with pytest.raises(ValueError, match=r"School has 1\.\.70, so this is another file"):
            data.school(tmp_path)


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_two_classes_are_0_and_1_however_the_lower_is_written(tmp_path, low):
    y = np.array([low, 1.0, low, low])
    cells(tmp_path / "gleam.mat", [np.arange(4.0)[:, None]], [y[:, None]])
    read = data.gleam(tmp_path, test_fraction=0.0)
    assert read.y[np.argsort(read.x.ravel())].tolist() == [0, 1, 0, 0]


def test_a_silo_may_be_one_row_of_one_feature(tmp_path):
    cells(tmp_path / "vehicle.mat", [np.ones((1, 1)), np.ones((3, 1))], [np.ones((1, 1)), np.ones((3, 1))])
    assert data.vehicle(tmp_path, test_fraction=0.0).sizes.tolist() == [1, 3]


def leaf(file, users):
    """Writers with so many images, labels from the first of each on; each image has one shade of its own."""
    rows = {name: {"x": [[k / 100] * 784 for k in range(len(y))], "y": y} for name, y in users.items()}
    file.write_text(json.dumps({"users": list(users), "user_data": rows}))


def test_femnist_has_62_classes_of_which_ten_are_digits(tmp_path):
    leaf(tmp_path / "a.json", {"a": [61, 0, 10, 9], "b": [10, 61]})
    read = data.femnist(tmp_path, test_fraction=0.0)
    assert read.classes == 62
    assert [sorted(client.y) for client in read] == [[0, 9, 10, 61], [10, 61]]
    digits = data.femnist(tmp_path, digits_only=True, test_fraction=0.0)
    assert digits.names == ("a",)
    order = np.argsort(digits.client(0).y)
    assert digits.client(0).y[order].tolist() == [0, 9]
    assert digits.client(0).x[order, 0, 0].tolist() == np.float32([0.01, 0.03]).tolist()  # each label keeps its image


def test_a_tenth_of_each_writer_is_held_out_by_the_first_seed(tmp_path):
    leaf(tmp_path / "a.json", {"a": [0] * 20, "b": [1] * 11})
    read = data.femnist(tmp_path)
    assert [len(client.test_y) for client in read] == [2, 2]
    same(read, data.femnist(tmp_path, test_fraction=0.1, seed=0))


def test_writers_keep_the_rows_of_leaf_s_two_folders(tmp_path):
    """Some have no test row; one folder of the two alone is a folder like any other."""
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
    leaf(tmp_path / "train" / "a.json", {"a": [0, 1], "b": [2], "c": [3, 4, 5]})
    leaf(tmp_path / "test" / "a.json", {"a": [6], "c": [7, 8]})
    read = data.femnist(tmp_path)
    assert [client.y.tolist() for client in read] == [[0, 1], [2], [3, 4, 5]]
    assert [client.test_y.tolist() for client in read] == [[6], [], [7, 8]]
    for part in ("train", "test"):
        alone = tmp_path / f"only {part}"
        (alone / part).mkdir(parents=True)
        leaf(alone / "all.json", {"z": [0, 1]})
        leaf(alone / part / "a.json", {"y": [0]})
        assert data.femnist(alone).names == ("z",)
