"""Data of the learning experiments: files, partitions, generated clients, choices of privacy."""

import gzip
import hashlib
import json
import os
import struct
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
import scipy.stats

from estimators.federated import data
from estimators.federated.data import checksums, files
from estimators.federated.data.federation import Examples, Federation, apportion

RNG = np.random.default_rng(7)


def idx_bytes(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder, stem, x, y, zipped=False):
    """A pair of IDX files as MNIST names them."""
    for kind, array in (("images-idx3", x), ("labels-idx1", y)):
        content = idx_bytes(array)
        file = folder / f"{stem}-{kind}-ubyte{'.gz' if zipped else ''}"
        file.write_bytes(gzip.compress(content) if zipped else content)


def pictures(n, shape=(28, 28), classes=10):
    return RNG.integers(0, 256, (n, *shape), dtype=np.uint8), (np.arange(n) % classes).astype(np.uint8)


def pool(n=600, test=200, classes=10, side=4):
    """A balanced pool of small images in which every row is different."""
    x = RNG.integers(0, 256, (n + test, side, side), dtype=np.uint8)
    return Examples(x, np.arange(n + test) % classes, np.arange(n + test) >= n, classes=classes, top=255.0, name="pool")


# Files


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_come_back(tmp_path, zipped):
    (x, y), (test_x, test_y) = pictures(20), pictures(10)
    write_idx(tmp_path, "train", x, y, zipped)
    write_idx(tmp_path, "t10k", test_x, test_y, zipped)
    read = data.mnist(tmp_path)
    np.testing.assert_array_equal(read.x[~read.test], x)
    np.testing.assert_array_equal(read.y[~read.test], y)
    np.testing.assert_array_equal(read.x[read.test], test_x)
    np.testing.assert_array_equal(read.y[read.test], test_y)
    assert [f["published"] for f in read.provenance["files"]] == [None] * 4
    first = read.provenance["files"][0]
    with open(first["path"], "rb") as file:
        assert first["sha256"] == hashlib.sha256(file.read()).hexdigest()
    alone = data.mnist(tmp_path / f"train-images-idx3-ubyte{'.gz' if zipped else ''}")
    assert len(alone) == 20
    assert not alone.test.any()
    with pytest.raises(ValueError, match="read-only"):
        read.x[0] = 0


def test_emnist_is_turned_upright_and_numbered_from_zero(tmp_path):
    x, y = pictures(26)
    write_idx(tmp_path, "emnist-letters-train", x, np.arange(1, 27, dtype=np.uint8), True)
    write_idx(tmp_path, "emnist-digits-train", x, y, True)
    letters = data.emnist(tmp_path, split="letters")
    np.testing.assert_array_equal(letters.x, x.transpose(0, 2, 1))
    assert letters.y.tolist() == list(range(26))
    assert data.emnist(tmp_path).classes == 10
    with pytest.raises(ValueError, match="split must be one of"):
        data.emnist(tmp_path, split="Letters")


def test_npz_pools_are_joined(tmp_path):
    x, y = pictures(12)
    np.savez(tmp_path / "pool_0.npz", images=x[:5], labels=y[:5])
    np.savez(tmp_path / "pool_1.npz", images=x[5:], labels=y[5:])
    read = data.fashion_mnist(tmp_path)
    np.testing.assert_array_equal(read.x, x)
    assert not read.test.any()
    assert len(data.fashion_mnist([tmp_path / "pool_1.npz"])) == 7
    np.savez(tmp_path / "contest.npz", images=x[:1], labels=y[:1])  # no test file by its name
    assert not data.fashion_mnist(tmp_path).test.any()
    np.savez(tmp_path / "my_test.npz", images=x[:1], labels=y[:1])
    assert data.fashion_mnist(tmp_path).test.sum() == 1


def test_cifar_in_both_formats(tmp_path):
    x, y = pictures(6, (32, 32, 3))
    rows = np.concatenate([y[:, None], x.transpose(0, 3, 1, 2).reshape(6, -1)], axis=1).astype(np.uint8)
    (tmp_path / "data_batch_1.bin").write_bytes(rows[:4].tobytes())
    (tmp_path / "test_batch.bin").write_bytes(rows[4:].tobytes())
    read = data.cifar10(tmp_path)
    np.testing.assert_array_equal(read.x, x)
    assert read.test.tolist() == [False] * 4 + [True] * 2
    np.savez(tmp_path / "c.npz", images=x, labels=y, is_test=np.arange(6) > 3)
    with pytest.raises(ValueError, match="training images in two formats"):
        data.cifar10(tmp_path)
    again = data.cifar10(tmp_path / "c.npz")
    np.testing.assert_array_equal(again.x, read.x)
    np.testing.assert_array_equal(again.test, read.test)
    (tmp_path / "data_batch_1.bin").write_bytes(rows[:4].tobytes()[:-1])
    with pytest.raises(ValueError, match=r"data_batch_1\.bin has 12291 bytes, no multiple of 3073"):
        data.cifar10(tmp_path / "data_batch_1.bin")
    (tmp_path / "data_batch_1.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(ValueError, match="label 10, above 9"):
        data.cifar10(tmp_path / "data_batch_1.bin")


def test_pickled_cifar_batches_are_not_read(tmp_path):
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x02")
    with pytest.raises(ValueError, match="pickled; take cifar-10-binary"):
        data.cifar10(tmp_path)


def damaged(tmp_path, change, zipped=False):
    """MNIST with its file of training images changed."""
    write_idx(tmp_path, "train", *pictures(20), zipped)
    file = tmp_path / f"train-images-idx3-ubyte{'.gz' if zipped else ''}"
    file.write_bytes(change(file.read_bytes()))
    return data.mnist(tmp_path)


@pytest.mark.parametrize(
    ("change", "zipped", "message"),
    [
        (lambda c: c[:-7], False, "is half: its header promises 15696 bytes"),
        (lambda c: c + b"x", False, "is too long"),
        (lambda c: b"\0\0\x08\x01" + c[4:], False, "does not begin as an IDX file .* 3 dimension"),
        (lambda c: b"<html>", False, "does not begin as an IDX file"),
        (lambda c: b"", False, "but with nothing"),
        (lambda c: c[: len(c) // 2], True, "damaged or half gzip"),
        (lambda c: c[:100] + bytes([c[100] ^ 1]) + c[101:], True, "damaged or half gzip"),
        (lambda c: gzip.compress(gzip.decompress(c)[:-1]), True, "is half"),
    ],
)
def test_damaged_idx_files_are_named(tmp_path, change, zipped, message):
    with pytest.raises(ValueError, match=rf"train-images-idx3-ubyte(\.gz)? .*{message}"):
        damaged(tmp_path, change, zipped)


def test_images_and_labels_must_agree(tmp_path):
    x, y = pictures(20)
    write_idx(tmp_path, "train", x, y[:19])
    with pytest.raises(ValueError, match="19 labels and images"):
        data.mnist(tmp_path)
    write_idx(tmp_path, "train", x, y + 1)
    with pytest.raises(ValueError, match=r"labels are 1\.\.10; mnist has 0\.\.9"):
        data.mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match="train-labels-idx1-ubyte does not exist"):
        data.mnist(tmp_path)


def test_damaged_npz_files_are_named(tmp_path):
    x, y = pictures(20)
    file = tmp_path / "a.npz"
    np.savez(file, images=x, labels=y)
    whole = file.read_bytes()
    for content, message in (
        (whole[:-100], "cut off"),
        (b"nothing", "not an npz"),
        (whole[:2000] + whole[2001:], "damaged"),
    ):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=rf"a\.npz.* {message}"):
            data.mnist(file)
    file.write_bytes(whole[:5000] + bytes([whole[5000] ^ 255]) + whole[5001:])
    with pytest.raises(ValueError, match="damaged"):
        data.mnist(file)
    np.savez(file, pictures=x)
    with pytest.raises(ValueError, match=r"no array 'images' \(it has pictures"):
        data.mnist(file)
    np.savez(file, images=x.astype(float), labels=y)
    with pytest.raises(ValueError, match="needed are uint8 images"):
        data.mnist(file)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_pickled_arrays_are_refused(tmp_path):
    x, _ = pictures(2)
    trap = tmp_path / "sprung"
    np.savez(tmp_path / "a.npz", images=x, labels=np.array([Trap(trap)], dtype=object))
    with pytest.raises(ValueError, match=r"a\.npz: 'labels' is kept as pickled Python objects"):
        data.mnist(tmp_path / "a.npz")
    assert not trap.exists()
    with np.load(tmp_path / "a.npz", allow_pickle=True) as archive:  # the trap works
        assert archive["labels"].shape == (1,)
    assert trap.exists()


def test_checksums_are_compared_and_files_told_apart(tmp_path, monkeypatch):
    write_idx(tmp_path, "train", *pictures(20))
    content = (tmp_path / "train-images-idx3-ubyte").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    read = data.mnist(tmp_path, sha256={"train-images-idx3-ubyte": digest})
    assert read.provenance["files"][0]["sha256"] == digest
    with pytest.raises(ValueError, match=f"train-images-idx3-ubyte has SHA-256 {digest}, not 00ff as asked"):
        data.mnist(tmp_path, sha256={"train-images-idx3-ubyte": "00ff"})
    with pytest.raises(ValueError, match=r"sha256 names train\.images, which was not read"):
        data.mnist(tmp_path, sha256={"train.images": digest})
    monkeypatch.setitem(checksums.KNOWN, digest, ("mnist", "train images", "published-name"))
    assert data.mnist(tmp_path).provenance["files"][0]["published"] == "published-name"
    with pytest.raises(ValueError, match="is published-name of mnist, not a file of fashion_mnist"):
        data.fashion_mnist(tmp_path)
    monkeypatch.setitem(checksums.KNOWN, digest, ("mnist", "test images", "published-name"))
    with pytest.raises(ValueError, match="holds the test images of mnist, but is taken as train images"):
        data.mnist(tmp_path)


def test_table_of_checksums():
    assert len(checksums.KNOWN) == 20
    assert all(len(bytes.fromhex(digest)) == 32 for digest in checksums.KNOWN)
    assert {dataset for dataset, *_ in checksums.KNOWN.values()} == {
        "mnist",
        "fashion_mnist",
        "cifar10",
        "school",
        "landmine",
    }


@pytest.mark.parametrize("load", [data.mnist, data.cifar10, data.school, data.femnist])
def test_missing_and_empty_folders(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load(tmp_path / "nowhere")
    with pytest.raises((ValueError, FileNotFoundError), match=r"holds no|does not exist"):
        load(tmp_path)


def cell(arrays, shape):
    cells = np.empty(len(arrays), dtype=object)
    cells[:] = arrays
    return cells.reshape(shape)


def write_mat(file, x, y, names=("X", "Y"), column=False):
    shape = (-1, 1) if column else (1, -1)
    scipy.io.savemat(file, {names[0]: cell(x, shape), names[1]: cell(y, shape)}, do_compression=True)


def test_silos_from_matlab_cells(tmp_path):
    sizes = (5, 8, 13)
    x = [RNG.normal(size=(n, 3)) for n in sizes]
    y = [np.where(RNG.random((n, 1)) < 0.5, -1, 1) for n in sizes]
    write_mat(tmp_path / "vehicle.mat", x, y, column=True)
    read = data.vehicle(tmp_path, seed=4)
    assert read.sizes.tolist() == [3, 6, 9]  # a quarter for testing, rounded up
    assert read.classes == 2
    for client, own_x, own_y in zip(read, x, y, strict=True):
        rows = np.concatenate([client.x, client.test_x])
        order = np.lexsort(rows.T), np.lexsort(own_x.T)
        np.testing.assert_array_equal(rows[order[0]], own_x[order[1]])
        labels = np.concatenate([client.y, client.test_y])
        np.testing.assert_array_equal(labels[order[0]], (own_y.ravel() > 0)[order[1]])
        assert np.shares_memory(client.x, read.x)  # a client's rows follow each other: no copy
    np.testing.assert_array_equal(data.vehicle(tmp_path, seed=4).x, read.x)
    assert not np.array_equal(data.vehicle(tmp_path, seed=5).x, read.x)
    assert data.vehicle(tmp_path, test_fraction=0.0).sizes.tolist() == list(sizes)
    write_mat(tmp_path / "LandmineData.mat", x, [a > 0 for a in y], ("feature", "label"))
    assert data.landmine(tmp_path).sizes.tolist() == [3, 6, 9]
    scores = [np.arange(1, n + 1)[:, None] for n in sizes]
    write_mat(tmp_path / "school.mat", x, scores)
    school = data.school(tmp_path)
    assert school.classes == 0
    assert np.sort(np.concatenate([school.client(2).y, school.client(2).test_y])) == pytest.approx(np.arange(13) / 69)


def test_bad_matlab_files_are_named(tmp_path):
    file = tmp_path / "gleam.mat"
    x, y = [RNG.normal(size=(40, 3)) for _ in range(3)], [np.ones((40, 1))] * 3
    cases = (
        (x, y[:2], "equally many"),
        ([*x[:2], np.empty((0, 0))], y, "client 2 has 0 rows"),
        ([*x[:2], x[2][:3]], y, "client 2 has 3 rows and 40 targets"),
        ([*x[:2], RNG.normal(size=(40, 4))], y, r"\[3, 4\] features"),
        ([*x[:2], np.full((40, 3), np.nan)], y, "NaN or infinity"),
        (x, [np.full((40, 1), 3.0)] * 3, "needed are 0 and 1, or -1 and 1"),
        (["text", *x[:2]], y, "client 0 does not hold numbers"),
    )
    for features, targets, message in cases:
        write_mat(file, features, targets)
        with pytest.raises(ValueError, match=message):
            data.gleam(file)
    scipy.io.savemat(file, {"X": np.eye(3), "Y": np.eye(3)})
    with pytest.raises(ValueError, match="must be cell arrays"):
        data.gleam(file)
    scipy.io.savemat(file, {"a": np.eye(3)})
    with pytest.raises(ValueError, match="has the variables a; needed are the cell arrays X and Y or feature and label"):
        data.gleam(file)
    write_mat(file, x, y)
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not matlab" * 50):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"gleam\.mat is no MATLAB file, or a damaged one"):
            data.gleam(file)
    file.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(100))
    with pytest.raises(ValueError, match="save it again in MATLAB with -v7"):
        data.gleam(file)


def leaf_text(users):
    data_of = {
        name: {"x": RNG.random((n, 784)).round(3).tolist(), "y": [i % 62 for i in range(n)]} for name, n in users.items()
    }
    return json.dumps({"users": list(users), "num_samples": list(users.values()), "user_data": data_of})


def test_femnist_writers(tmp_path):
    (tmp_path / "all_data_0.json").write_text(leaf_text({"f0001_41": 10, "f0002_00": 21}))
    (tmp_path / "all_data_1.json").write_text(leaf_text({"f0003_12": 30}))
    read = data.femnist(tmp_path, test_fraction=0.1)
    assert read.names == ("f0001_41", "f0002_00", "f0003_12")
    assert read.sizes.tolist() == [9, 18, 27]
    assert read.x.shape == (61, 28, 28)
    assert read.x.dtype == np.float32
    digits = data.femnist(tmp_path, digits_only=True, test_fraction=0.0)
    assert digits.classes == 10
    assert digits.sizes.tolist() == [10, 10, 10]  # labels of each writer are 0, 1, 2, ...
    joined = data.merged(read, size=3, seed=0)
    assert joined.sizes.tolist() == [54]
    assert joined.names[0].count("+") == 2
    for part, n in (("train", 4), ("test", 2)):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a.json").write_text(leaf_text({"w": n, "v": 3}))
    split = data.femnist(tmp_path)
    assert split.sizes.tolist() == [4, 3]
    assert [len(c.test_y) for c in split] == [2, 3]
    assert [c.y.tolist() for c in split] == [[0, 1, 2, 3], [0, 1, 2]]
    assert data.femnist(tmp_path, digits_only=True).sizes.tolist() == [4, 3]
    (tmp_path / "test" / "a.json").write_text(leaf_text({"z": 1}))
    with pytest.raises(ValueError, match="writer z has test rows only"):
        data.femnist(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (leaf_text({"a": 2})[:-30], "no json file, or a damaged one"),
        ("\udcff", "no json file"),
        ('{"users": ["a"], "user_data": {}}', "no LEAF file"),
        ("[1]", "no LEAF file"),
        ('{"users": [], "user_data": {}}', "lists no user"),
        ('{"users": ["a"], "user_data": {"a": {"x": [], "y": []}}}', "user a has 0 rows"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1], [1, 2]], "y": [0, 1]}}}', "user a has rows of unequal length"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1, 2]], "y": [0]}}}', "784 numbers per image"),
        (leaf_text({"a": 2}).replace('"y": [0, 1]', '"y": [0, 62]'), r"labels 0\.\.62"),
    ],
)
def test_bad_leaf_files_are_named(tmp_path, text, message):
    (tmp_path / "a.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=message):
        data.femnist(tmp_path / "a.json")


# Containers


def test_examples_are_checked():
    x, y = np.ones((4, 2)), [0, 1, 0, 1]
    for bad, message in (
        ({"x": np.ones(4)}, "one row per example"),
        ({"x": np.empty((0, 2)), "y": []}, "at least one row"),
        ({"y": [0, 1]}, "4, 2 and 2 rows"),
        ({"y": [0, 1, 2, 0.5]}, "whole number"),
        ({"y": [0, 1, 2, 1]}, "label 2"),
        ({"y": [0, -1, 1, 1]}, "must be >= 0"),
        ({"x": np.full((4, 2), np.inf)}, "NaN or infinity"),
        ({"x": np.full((4, 2), "a")}, "must hold numbers"),
        ({"test": [True]}, "rows; they must agree"),
    ):
        with pytest.raises(ValueError, match=message):
            Examples(**({"x": x, "y": y, "classes": 2} | bad))


def test_split_test_is_by_class_and_happens_once():
    examples = pool(test=0)
    split = examples.split_test(0.25, seed=3)
    assert np.bincount(split.y[split.test]).tolist() == [15] * 10
    np.testing.assert_array_equal(split.test, examples.split_test(0.25, seed=3).test)
    assert not np.array_equal(split.test, examples.split_test(0.25, seed=4).test)
    assert split.provenance["split_test"]["share"] == 0.25
    with pytest.raises(ValueError, match="150 test rows already"):
        split.split_test(0.5, seed=0)
    for share in (0, 1, -1):
        with pytest.raises(ValueError, match="share must lie strictly between 0 and 1"):
            examples.split_test(share, seed=0)
    for share, said in ((np.nan, "share holds NaN"), ("a", "share must be a number or an array of numbers, not text")):
        with pytest.raises(ValueError, match=said):
            examples.split_test(share, seed=0)
    with pytest.raises(ValueError, match="seed must be"):
        examples.split_test(0.5, seed=-1)


def test_federations_are_checked():
    x, y = np.ones((4, 2)), [0, 1, 0, 1]
    for bad, message in (
        ({"train": []}, "has no client"),
        ({"train": [[0], [], []], "names": "abc"}, r"client b \(and 1 more\) has no training row"),
        ({"train": [[4]]}, r"must be in 0\.\.3"),
        ({"train": [[-1]]}, r"must be in 0\.\.3"),
        ({"train": [[1, 1]]}, "name a row twice"),
        ({"train": [[0.5]]}, "row numbers"),
        ({"train": [[0]], "test": [[1], [2]]}, "one entry per client"),
    ):
        with pytest.raises(ValueError, match=message):
            Federation(x, y, classes=2, **bad)
    with pytest.raises(ValueError, match="k must be in"):
        Federation(x, y, [[0]], classes=2).client(1)


def test_two_thousand_clients_cost_one_pool():
    examples = pool(60000, 10000)
    federation = data.one_class(examples, clients=2000, seed=0)
    assert federation.x.base is not None
    assert np.shares_memory(federation.x, examples.x)
    assert sum(rows.nbytes for part in (federation.train, federation.test) for rows in part) < 1e6
    scaled = federation.scaled(flat=True)
    assert scaled.x.dtype == np.float32
    np.testing.assert_allclose(scaled.client(5).x * 255, federation.client(5).x.reshape(-1, 16), rtol=1e-6)
    assert scaled.top == 1
    assert federation.scaled().x.shape == federation.x.shape  # rows keep their shape unless they are to be flat


def test_apportion_keeps_the_total_and_is_within_one():
    for _ in range(50):
        shares, total = RNG.random(7), int(RNG.integers(0, 1000))
        counts = apportion(total, shares)
        assert counts.sum() == total
        assert (abs(counts - total * shares / shares.sum()) < 1).all()


# Partitions

PARTITIONS = {
    "iid": lambda p, seed: data.iid(p, clients=12, seed=seed),
    "one_class": lambda p, seed: data.one_class(p, clients=20, seed=seed),
    "three_classes": lambda p, seed: data.three_classes(p, clients=20, seed=seed),
    "five_random_classes": lambda p, seed: data.five_random_classes(p, clients=20, seed=seed),
    "dirichlet": lambda p, seed: data.dirichlet(p, clients=8, alpha=1.0, seed=seed),
    "rotated_silos": lambda p, seed: data.rotated_silos(p, clients=8, seed=seed),
    "masked": lambda p, seed: data.masked(data.iid(p, clients=8, seed=0), ratio=0.5, seed=seed),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_partitions_give_each_row_once_and_repeat_with_the_seed(name):
    examples = pool()
    a, b, c = (PARTITIONS[name](examples, seed) for seed in (1, 1, 2))
    for part, allowed in ((a.train, ~examples.test), (a.test, examples.test)):
        rows = np.concatenate(part)
        assert len(np.unique(rows)) == len(rows)
        assert allowed[rows].all()
    assert (a.sizes > 0).all()
    np.testing.assert_array_equal(a.x, b.x)
    for one, other in zip(a.train + a.test, b.train + b.test, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not all(np.array_equal(one.x, other.x) for one, other in zip(a, c, strict=False))
    np.testing.assert_array_equal(a.y, examples.y)
    assert json.loads(json.dumps(a.provenance)) == a.provenance
    assert name in a.provenance or name in ("three_classes", "five_random_classes")


def digest(federation):
    rows = np.concatenate([np.concatenate([a, [-1], b]) for a, b in zip(federation.train, federation.test, strict=True)])
    return hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16]


def test_partitions_have_the_same_bits_on_every_machine():
    """From x86-64 Linux, NumPy 2.4; a change of these numbers makes old results unrepeatable."""
    y = np.arange(800) % 10
    examples = Examples(np.zeros((800, 1)), y, np.arange(800) >= 600, classes=10)
    got = {name: digest(make(examples, 1)) for name, make in PARTITIONS.items() if name not in ("rotated_silos", "masked")}
    assert got == GOLDEN


GOLDEN = {
    "dirichlet": "3913ceeb36a9adfc",
    "five_random_classes": "37c7f0787885951e",
    "iid": "c191f032eca9b1f6",
    "one_class": "8e34d447a8b1f967",
    "three_classes": "ba68d3ff8eeff743",
}


def test_one_class_per_client():
    examples = pool()
    federation = data.one_class(examples, clients=20, seed=0)
    assert set(federation.sizes) == {30}
    for client in federation:
        assert set(client.y) == set(client.test_y) == {client.group}
    assert np.bincount(federation.group).tolist() == [2] * 10
    assert len(federation.server_test) == 200
    shared = data.one_class(examples, clients=20, test_size=20, seed=0)
    assert {len(c.test_y) for c in shared} == {20}
    with pytest.raises(ValueError, match="serves 20 clients with 30 at most"):
        data.one_class(examples, clients=20, size=31, seed=0)
    with pytest.raises(ValueError, match="with 0 at most"):
        data.one_class(examples, clients=601, seed=0)
    with pytest.raises(ValueError, match="test_size is 21"):
        data.one_class(examples, clients=20, test_size=21, seed=0)


def test_one_class_with_mnist_class_counts():
    """MNIST's classes serve 1,995 clients with 30 rows, so 2,000 get 29; clients never exceed what a class can serve."""
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    examples = Examples(np.zeros((60000, 1)), np.repeat(np.arange(10), counts), classes=10)
    assert sum(n // 30 for n in counts) == 1995
    for clients, size in ((2000, 29), (1995, 30)):
        federation = data.one_class(examples, clients=clients, seed=0)
        assert set(federation.sizes) == {size}
        assert len(federation) == clients
        assert all(len(client.test_y) == 0 for client in federation)


@pytest.mark.parametrize(
    ("counts", "clients", "of_class"),
    [
        ([8, 5, 10, 2], 6, [2, 1, 3, 0]),  # one of the last class in proportion, which has less than the 3 rows of a client
        ([10, 11, 2], 5, [3, 2, 0]),  # two each of the others' eight and nine rows, and the 3 rows are for who has most left
        ([8, 10, 1], 8, [4, 4, 0]),
        ([9, 1, 4, 11], 3, [1, 0, 0, 2]),
    ],
)
def test_clients_that_a_class_cannot_serve_go_to_those_with_rows_to_spare(counts, clients, of_class):
    examples = Examples(np.zeros((sum(counts), 1)), np.repeat(np.arange(len(counts)), counts), classes=len(counts))
    federation = data.one_class(examples, clients=clients, seed=0)
    assert np.bincount(federation.group, minlength=len(counts)).tolist() == of_class
    assert sum(n // federation.sizes[0] for n in counts) >= clients > sum(n // (federation.sizes[0] + 1) for n in counts)
    assert np.ptp(federation.sizes) == 0


def test_random_classes():
    examples = pool()
    three = data.three_classes(examples, clients=50, seed=0)
    assert {len(set(client.y)) for client in three} == {3}
    assert all(set(client.test_y) <= set(client.y) for client in three)
    five = data.five_random_classes(examples, clients=30, seed=0)
    assert {len(set(client.y)) for client in five} == {5}
    assert five.sizes.sum() == 600
    assert {int(five.holds(label).sum()) for label in range(10)} == {15}
    with pytest.raises(ValueError, match="classes must be in"):
        data.random_classes(examples, clients=3, classes=11, seed=0)
    for spread in ((0, 1), (2, 1), (1,), 3):
        with pytest.raises(ValueError, match="spread must"):
            data.random_classes(examples, clients=3, classes=2, spread=spread, seed=0)


def test_five_random_classes_have_the_papers_range_of_sizes():
    """MR-MTL, Table A1: 1,515 to 1,839 of 50,000 rows.  Sizes have standard deviation 84; 3.5 of them are allowed."""
    examples = Examples(np.zeros((50000, 1)), np.arange(50000) % 10, classes=10)
    sizes = np.concatenate([data.five_random_classes(examples, seed=s).sizes for s in range(5)])
    assert sizes.mean() == pytest.approx(50000 / 30)
    assert sizes.min() > 1667 - 3.5 * 84
    assert sizes.max() < 1667 + 3.5 * 84
    assert np.ptp(sizes) > 1839 - 1515  # five draws spread at least as far as the paper's one


def test_dirichlet_goes_from_one_class_to_equal_parts():
    examples = pool(6000, 0)
    even = data.dirichlet(examples, clients=10, alpha=1e6, seed=0)
    assert abs(even.sizes - 600).max() <= 12
    skewed = data.dirichlet(examples, clients=10, alpha=0.1, seed=0)
    top = [np.bincount(c.y, minlength=10).max() / len(c) for c in skewed]
    assert np.mean(top) > 0.3
    with pytest.raises(ValueError, match=r"clients \(the first is \d+\) have no training row of pool; take fewer clients"):
        data.dirichlet(pool(20, 0), clients=50, alpha=0.1, seed=0)
    for alpha in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="alpha"):
            data.dirichlet(examples, clients=2, alpha=alpha, seed=0)


def test_more_clients_than_rows_is_an_error():
    with pytest.raises(ValueError, match="has no training row"):
        data.iid(pool(10, 0), clients=11, seed=0)
    with pytest.raises(ValueError, match="clients must be"):
        data.iid(pool(10, 0), clients=0, seed=0)
    with pytest.raises(ValueError, match="examples must be Examples"):
        data.iid(np.eye(3), clients=1, seed=0)
    with pytest.raises(ValueError, match="has no classes"):
        data.dirichlet(Examples(np.eye(3), [0.5, 1, 2]), clients=1, alpha=1, seed=0)


# Silos


def test_rotated_and_masked_silos():
    examples = pool(side=6)
    rotated = data.rotated_silos(examples, clients=8, seed=0)
    assert np.bincount(rotated.group).tolist() == [2] * 4
    for client in rotated:
        for got, rows in ((client.x, client.train), (client.test_x, client.test)):
            np.testing.assert_array_equal(got, np.rot90(examples.x[rows], client.group, axes=(1, 2)))
    assert len(rotated.server_test) == 0
    for ratio in (0.0, 1.0):
        assert (data.masked(rotated, ratio=ratio, seed=0).x == (rotated.x if ratio == 0 else 255)).all()
    masked = data.masked(rotated, ratio=0.4, patch=2, seed=0)
    mask = masked.truth["mask"]
    for client, own in zip(masked, mask, strict=True):
        assert (client.x[:, own] == 255).all()
        np.testing.assert_array_equal(client.x[:, ~own], rotated.x[client.train][:, ~own])
    np.testing.assert_array_equal(mask[:, ::2, ::2].repeat(2, 1).repeat(2, 2), mask)  # whole patches of 2 x 2
    assert len(np.unique(mask, axis=0)) > 4
    assert data.masked(rotated, ratio=0.4, patch=4, seed=0).truth["mask"].shape == (8, 6, 6)  # cut at the edge
    pixels = data.masked(rotated, ratio=0.4, patch=1, seed=0).truth["mask"]
    assert (pixels[:, ::2, ::2] != pixels[:, 1::2, 1::2]).any()  # each by itself
    with pytest.raises(ValueError, match="ratio must lie in"):
        data.masked(rotated, ratio=1.5, seed=0)
    with pytest.raises(ValueError, match="share rows"):
        data.masked(data.one_class(examples, clients=20, test_size=15, seed=0), ratio=0.5, seed=0)
    with pytest.raises(ValueError, match="square images"):
        data.rotated_silos(Examples(np.eye(4), [0, 1, 0, 1], classes=2), clients=4, seed=0)


def test_masked_share_is_the_ratio():
    """Patches of 100 silos are independent: 19,600 of them, so that 5 standard errors of the share are 0.018."""
    silos = data.iid(pool(100, 0, side=28), clients=100, seed=0)
    assert data.masked(silos, ratio=0.5, seed=0).truth["mask"].mean() == pytest.approx(0.5, abs=0.018)


def test_standardised_uses_training_rows_only():
    federation = data.synthetic_federation("linear", clients=5, shift2=9.0, unequal=1.0, seed=0)
    own = data.standardised(federation)
    for raw, client in zip(federation, own, strict=True):
        np.testing.assert_allclose(client.x.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(client.x.std(axis=0), 1)
        np.testing.assert_allclose(client.test_x, (raw.test_x - raw.x.mean(axis=0)) / raw.x.std(axis=0))
    whole = data.standardised(federation, by="all")
    rows = np.concatenate([client.x for client in whole])
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows.std(axis=0), 1)
    constant = Federation([[0.1, 1.0], [0.1, 2.0], [0.1, 5.0]], [0, 1, 2], [[0, 1], [2]])
    assert data.standardised(constant).x.tolist() == [[0, -1], [0, 1], [0, 0]]  # one row: all its features become 0


def test_merged_clients():
    federation = data.synthetic_federation(clients=11, seed=0)
    three = data.merged(federation, size=3, seed=1)
    assert three.sizes.tolist() == [120] * 3
    assert len(np.unique(np.concatenate(three.train))) == 360
    assert len(data.merged(federation, size=3, clients=2, seed=1)) == 2
    with pytest.raises(ValueError, match="4 clients of 3 need 12"):
        data.merged(federation, size=3, clients=4, seed=1)


# Generated data


@pytest.mark.parametrize("model", ["linear", "logistic", "mixture"])
def test_synthetic_clients_scatter_as_asked(model):
    """Variances of 8,000 or more parameters: relative standard error sqrt(2 / n) < 1.6 %, of which five are allowed."""
    federation = data.synthetic_federation(model, clients=800, rows=5, features=11, classes=3, tau2=0.25, shift2=4.0, seed=2)
    theta = federation.truth["theta"]
    assert theta.shape == ((800, 3, 11) if model == "mixture" else (800, 11))
    assert theta.var(axis=0, ddof=1).mean() == pytest.approx(0.25, rel=0.08)
    assert federation.sizes.tolist() == [4] * 800
    same = data.synthetic_federation(model, clients=800, rows=5, features=11, classes=3, tau2=0.25, shift2=4.0, seed=2)
    np.testing.assert_array_equal(same.x, federation.x)
    np.testing.assert_array_equal(same.y, federation.y)
    if model != "mixture":
        means = np.array([np.concatenate([c.x, c.test_x]).mean(axis=0) for c in federation])
        assert means.var() == pytest.approx(4.0 + 1 / 5, rel=0.08)


def test_synthetic_linear_clients_follow_the_model():
    federation = data.synthetic_federation("linear", clients=50, rows=200, features=4, sigma2=0.25, seed=0)
    rest = [c.y - c.x @ theta for c, theta in zip(federation, federation.truth["theta"], strict=True)]
    # 8,000 rows: relative standard error of the variance 1.6 %.
    assert np.concatenate(rest).var() == pytest.approx(0.25, rel=0.08)
    exact = data.synthetic_federation("linear", clients=2, rows=20, sigma2=0.0, tau2=0.0, seed=0)
    solved = np.linalg.lstsq(exact.client(0).x, exact.client(0).y, rcond=None)[0]
    np.testing.assert_allclose(solved, exact.truth["theta"][1], rtol=1e-9)


def test_synthetic_clients_have_all_the_variances_that_are_said():
    """Of groups, clients, feature means, features, noise and labels; five standard errors are allowed."""

    def near(values, variance):
        assert np.var(values) == pytest.approx(variance, abs=5 * variance * np.sqrt(2 / np.size(values)))
        assert abs(np.mean(values)) < 5 * np.sqrt(variance / np.size(values))

    how = {"clients": 400, "features": 40, "tau2": 0.3, "apart2": 5.0, "sigma2": 0.6, "shift2": 2.0, "seed": 3}
    one = data.synthetic_federation("linear", rows=20, **how)
    centre = one.truth["theta"].mean(axis=0)
    assert centre.var() == pytest.approx(1.0, abs=5 * np.sqrt(2 / 40))  # of one group
    many = data.synthetic_federation("linear", rows=4, **{**how, "groups": 400})
    assert sorted(many.group.tolist()) == list(range(400))
    near(many.truth["theta"] - many.truth["theta"].mean(axis=0), 5.3 * 399 / 400)
    for federation, groups in ((one, 1), (data.synthetic_federation("linear", rows=20, **{**how, "groups": 4}), 4)):
        theta, group = federation.truth["theta"], federation.group
        middles = np.stack([theta[group == g].mean(axis=0) for g in range(groups)])
        near(theta - middles[group], 0.3 * (1 - groups / 400))
    rows = [(np.concatenate([c.x, c.test_x]), np.concatenate([c.y, c.test_y])) for c in one]
    near([y - x @ theta for (x, y), theta in zip(rows, one.truth["theta"], strict=True)], 0.6)
    near([x - x.mean(axis=0) for x, _ in rows], 1.0 * 19 / 20)
    near([x.mean(axis=0) for x, _ in rows], 2.0 + 1 / 20)
    assert not np.ptp(data.synthetic_federation("linear", clients=40, rows=3, tau2=0.0, seed=1).truth["theta"], axis=0).any()

    mixture = data.synthetic_federation("mixture", rows=20, classes=3, **{**how, "shift2": 0.0})
    owner = np.repeat(np.arange(400), 20)
    near(mixture.x - mixture.truth["theta"][owner, mixture.y], 0.6)
    assert np.abs(np.bincount(mixture.y) / 8000 - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 8000)
    logistic = data.synthetic_federation("logistic", rows=100, **how)
    score = np.einsum("ij,ij->i", logistic.x, np.repeat(logistic.truth["theta"], 100, axis=0))
    chance = 1 / (1 + np.exp(-score))
    for low, high in ((-40, -2), (-2, -0.5), (-0.5, 0.5), (0.5, 2), (2, 40)):
        inside = (score > low) & (score < high)
        sure = np.sqrt((chance * (1 - chance))[inside].mean() / inside.sum())
        assert logistic.y[inside].mean() == pytest.approx(chance[inside].mean(), abs=5 * sure)


def test_generated_clients_are_as_many_and_as_alike_as_said_unless_told_otherwise():
    said = {"clients": 100, "rows": 50, "features": 10, "classes": 4, "tau2": 0.5, "shift2": 0.0, "sigma2": 1.0, "groups": 1,
            "apart2": 4.0, "unequal": 0.0, "test_fraction": 0.2, "seed": 0}  # fmt: skip
    whole = data.synthetic_federation()
    told = data.synthetic_federation("logistic", **said)
    np.testing.assert_array_equal(whole.x, told.x)
    assert whole.provenance == told.provenance
    assert whole.provenance["generated"] == {"model": "logistic", **said}
    kinds = {model: data.synthetic_federation(model, clients=2).classes for model in ("linear", "logistic", "mixture")}
    assert kinds == {"linear": 0, "logistic": 2, "mixture": 4}


def test_unequal_clients_have_normal_logarithms_of_sizes():
    """Every client has one row, the others are in proportion to a log-normal number."""
    for unequal in (0.0, 0.5, 1.5):
        federation = data.synthetic_federation(
            clients=2000, rows=1000, features=1, unequal=unequal, test_fraction=0.0, seed=2
        )
        assert federation.sizes.sum() == 2_000_000
        logs = np.log(federation.sizes - 1.0)
        assert logs.std() == pytest.approx(unequal, rel=5 / np.sqrt(4000), abs=1e-12)
        assert np.median(logs) == pytest.approx(logs.mean(), abs=5 * 1.3 * unequal / np.sqrt(2000) + 1e-12)


@pytest.mark.parametrize("share", [0.0, 0.19, 0.2, 0.5, 0.99])
def test_a_client_s_share_for_testing_is_rounded_down_where_generated_and_up_where_read(tmp_path, share):
    federation = data.synthetic_federation("linear", clients=12, rows=9, unequal=1.0, test_fraction=share, seed=4)
    start = 0
    for client in federation:
        n = len(client.train) + len(client.test)
        assert len(client.test) == int(share * n + 1e-12)
        np.testing.assert_array_equal(np.concatenate([client.train, client.test]), np.arange(start, start + n))
        start += n
    assert start == len(federation.x) == 12 * 9
    sizes = (100, 107, 250)
    write_mat(tmp_path / "gleam.mat", [np.arange(3 * n).reshape(n, 3) for n in sizes], [np.ones((n, 1)) for n in sizes])
    for n, client in zip(sizes, data.gleam(tmp_path, test_fraction=share), strict=True):
        assert len(client.test) == np.ceil(share * n)
        assert sorted(np.concatenate([client.x, client.test_x])[:, 0]) == list(range(0, 3 * n, 3))
        if share == 0.5:
            assert (np.diff(client.x[:, 0]) < 0).any()  # at random
    for bad in (1.0, -0.1, np.nan, "a"):
        with pytest.raises(ValueError, match=r"test_fraction must be a number in \[0, 1\)"):
            data.gleam(tmp_path, test_fraction=bad)


def test_drawn_eps_have_the_mixture_s_law():
    """By the Kolmogorov distance to its distribution function; what is below the least is raised to it."""
    components = [(0.2, "normal", 3.0, 0.5), (0.5, "uniform", 0.5, 1.5), (0.3, "uniform", 1.0, 4.0)]
    drawn = data.draw_eps(4000, components, eps_min=0.7, seed=5)

    def below(t):
        inside = [scipy.stats.norm.cdf(t, 3.0, 0.5), np.clip(t - 0.5, 0, 1), np.clip((t - 1) / 3, 0, 1)]
        return np.average(inside, axis=0, weights=[0.2, 0.5, 0.3])

    found = np.sort(drawn)
    least = found > 0.7
    assert np.abs(below(found) - (np.arange(4000) + 0.5) / 4000)[least].max() < 2.0 / np.sqrt(4000)
    assert (drawn == 0.7).mean() == pytest.approx(below(0.7), abs=5 * np.sqrt(0.1 / 4000))
    assert found[0] == 0.7
    assert data.draw_eps(200, [(1.0, "normal", -1.0, 0.01)], seed=0).max() == 0.1
    levels = data.eps_levels(10, [(0.25, 1.0), (0.34, 2.0), (0.41, 4.0)], seed=1)  # 2.5, 3.4, 4.1: the rest to the largest
    assert [int((levels == value).sum()) for value in (1.0, 2.0, 4.0)] == [3, 3, 4]
    assert (np.diff(levels) < 0).any()
    for shares in ((0.5, 0.5 + 2e-9), (0.5, 0.5 - 2e-9)):
        with pytest.raises(ValueError, match="add up to 1"):
            data.eps_levels(4, [(share, 1.0) for share in shares], seed=0)
        with pytest.raises(ValueError, match="add up to 1"):
            data.draw_eps(4, [(share, "uniform", 0.0, 1.0) for share in shares], seed=0)
    assert len(data.eps_levels(4, [(0.5, 1.0), (0.5 + 5e-10, 2.0)], seed=0)) == 4


@pytest.mark.parametrize("share", [0.0, 0.024, 0.026, 0.33, 1.0])
def test_so_many_opt_out_as_the_share_of_all_rounds_to(share):
    federation = data.one_class(pool(), clients=20, seed=0)
    for others in (False, True):
        assert (data.opt_out(federation, share=share, others=others, seed=3) != others).sum() == round(20 * share)


def test_synthetic_groups_and_sizes():
    federation = data.synthetic_federation(clients=9, groups=3, apart2=100.0, tau2=0.01, unequal=1.0, seed=0)
    assert np.bincount(federation.group).tolist() == [3] * 3
    theta = federation.truth["theta"]
    within = max(np.ptp(theta[federation.group == g], axis=0).max() for g in range(3))
    assert within < 1 < np.ptp(theta, axis=0).max()
    assert len(set(federation.sizes)) > 3
    assert len(federation.x) == 9 * 50
    assert min(federation.sizes) >= 1
    single = data.synthetic_federation(clients=3, rows=1, seed=0)
    assert single.sizes.tolist() == [1, 1, 1]  # nothing is left to test on
    for bad, message in (
        ({"model": "cubic"}, "model must be"),
        ({"tau2": -1}, "tau2"),
        ({"groups": 10}, "groups must be"),
        ({"clients": 0}, "clients"),
        ({"test_fraction": 1}, "test_fraction"),
        ({"sigma2": np.nan}, "sigma2"),
    ):
        with pytest.raises(ValueError, match=message):
            data.synthetic_federation(**({"clients": 9} | bad))


def test_digits_of_scikit_learn(monkeypatch):
    bundle = SimpleNamespace(images=RNG.integers(0, 17, (100, 8, 8)).astype(float), target=np.arange(100) % 10)
    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "sklearn.datasets", SimpleNamespace(load_digits=lambda: bundle))
    digits = data.digits()
    assert digits.x.shape == (100, 8, 8)
    assert np.bincount(digits.y[digits.test]).tolist() == [2] * 10
    assert digits.classes == 10
    np.testing.assert_array_equal(digits.test, data.digits(seed=0, test_fraction=0.2).test)
    assert data.iid(digits, clients=4, seed=0).scaled().x.max() == 1
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'borrowed-strength\[learn\]'"):
        data.digits()


# Choices of privacy


def test_opting_out():
    federation = data.one_class(pool(), clients=100, seed=0)
    anyone = data.opt_out(federation, share=0.05, seed=1)
    assert anyone.sum() == 5
    np.testing.assert_array_equal(anyone, data.opt_out(federation, share=0.05, seed=1))
    assert not np.array_equal(anyone, data.opt_out(federation, share=0.05, seed=2))
    sevens = data.opt_out(federation, share=0.05, label=7, seed=1)
    assert set(federation.group[sevens]) == {7}
    assert sevens.sum() == 5
    assert data.opt_out(federation, share=0, seed=1).sum() == 0
    assert data.opt_out(federation, share=1, seed=1).all()
    with pytest.raises(ValueError, match="is 11, but 10 hold label 7"):
        data.opt_out(federation, share=0.11, label=7, seed=1)


def test_levels_and_draws_of_eps():
    eps = data.eps_levels(20, [(0.5, 1.0), (0.45, 3.0), (0.05, np.inf)], seed=0)
    assert sorted(eps)[9:11] == [1.0, 3.0]
    assert np.isinf(eps).sum() == 1
    for levels in ([(0.5, 1.0)], [], [(1.0, 0.0)], [(1.0, np.nan)]):
        with pytest.raises(ValueError, match=r"add up to 1|eps must be > 0"):
            data.eps_levels(20, levels, seed=0)
    drawn = data.draw_eps(10000, [(0.3, "normal", 5.0, 0.1), (0.7, "uniform", 0.2, 0.4)], seed=0)
    assert (drawn > 1).mean() == pytest.approx(0.3, abs=0.023)  # five standard errors
    assert drawn.min() >= 0.2
    assert data.draw_eps(50, [(1, "normal", 0.0, 1.0)], eps_min=0.1, seed=0).min() == 0.1
    for components in ([(0.5, "normal", 0, 1)], [(1, "gamma", 0, 1)], [(1, "uniform", 1, 0)], [(1, "normal", 0, 0)]):
        with pytest.raises(ValueError, match=r"weights|kind|low < high|standard deviation"):
            data.draw_eps(5, components, seed=0)


def test_robusthdp_lists_fit_what_the_paper_prints():
    """The lists are from the authors' code; Table 2's noise of "minimum eps" must be a falling function of the least eps."""
    lists = {f"Dist{i}": data.robusthdp_eps(f"Dist{i}") for i in range(1, 10)}
    assert {len(eps) for eps in lists.values()} == {20}
    printed = dict(zip(lists, (4.68, 103.91, 103.91, 127.18, 103.91, 1868.45, 74.41, 241.37, 87.15), strict=True))
    pairs = sorted({(float(eps.min()), printed[name]) for name, eps in lists.items()})
    assert [least for least, _ in pairs] == [0.15, 0.17, 0.19, 0.2, 0.21, 0.22, 0.85]
    assert [noise for _, noise in pairs] == sorted(set(printed.values()), reverse=True)
    assert set(data.robusthdp_batch_sizes()) == {16, 32, 64, 128}
    assert data.robusthdp_batch_sizes()[9] == 64
    assert data.robusthdp_eps("Dist6", eps_min=0.2).min() == 0.2
    for clients in (20, 40, 60):
        assert (
            len(data.robusthdp_eps("Dist6", clients=clients)) == len(data.robusthdp_batch_sizes(clients=clients)) == clients
        )
    with pytest.raises(ValueError, match="name must be one of"):
        data.robusthdp_eps("Dist10")
    with pytest.raises(ValueError, match="clients of Dist1"):
        data.robusthdp_eps("Dist1", clients=40)
    with pytest.raises(ValueError, match="clients"):
        data.robusthdp_batch_sizes(clients=61)


def test_batches_that_are_a_share_of_the_rows():
    """Sixty batches are within thirty rows of a pass, and nobody's batch is empty."""
    sizes = [1, 29, 30, 89, 90, 1200, 1229, 1230]
    last = np.cumsum(sizes)
    train = [np.arange(b - n, b) for n, b in zip(sizes, last, strict=True)]
    pool = data.Federation(np.zeros((last[-1], 1)), np.zeros(last[-1]), train=train, classes=2)
    assert data.share_batch_sizes(pool).tolist() == [1, 1, 1, 1, 2, 20, 20, 21]
    assert data.share_batch_sizes(pool, number=1).tolist() == sizes
    with pytest.raises(ValueError, match="number must be in 1"):
        data.share_batch_sizes(pool, number=0)


def test_iid_clients_keep_at_most_so_many_rows():
    whole, some = (data.iid(pool(100, 0), clients=3, size=size, seed=0) for size in (None, 20))
    assert some.sizes.tolist() == [20, 20, 20]
    assert all((a.train[:20] == b.train).all() for a, b in zip(whole, some, strict=True))
    assert some.provenance["iid"] == {"clients": 3, "seed": 0, "size": 20}
    with pytest.raises(ValueError, match="size"):
        data.iid(pool(100, 0), clients=3, size=0, seed=0)


# Real data


def test_real_mnist(shared_data):
    examples = data.mnist(shared_data("mnist/mnist_train.npz").parent)
    assert examples.test.sum() == 10000
    counts = np.bincount(examples.y[~examples.test]).tolist()
    assert counts == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    published = [f["published"] for f in examples.provenance["files"]]
    assert published == [None, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
    federation = data.one_class(examples, clients=2000, seed=0)
    assert set(federation.sizes) == {29}
    assert data.opt_out(federation, label=7, seed=0).sum() == 100
    silos = data.rotated_silos(examples, seed=0)
    assert set(silos.sizes) == {1500}
    assert {len(client.test) for client in silos} == {250}
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz of mnist, not a file of fashion_mnist"):
        data.fashion_mnist(shared_data("mnist/t10k-images-idx3-ubyte.gz"))


def test_real_fashion_mnist(shared_data):
    examples = data.fashion_mnist(shared_data("fashion_mnist/fashion_mnist_pool_0.npz").parent)
    assert np.bincount(examples.y).tolist() == [7000] * 10
    split = examples.split_test(1 / 7, seed=0)
    assert np.bincount(split.y[split.test]).tolist() == [1000] * 10


def test_real_cifar10(shared_data):
    examples = data.cifar10(shared_data("cifar10_subset/cifar10_subset.npz"))
    assert np.bincount(examples.y[examples.test]).tolist() == [100] * 10
    assert len(data.five_random_classes(examples, seed=0)) == 30


def test_real_school(shared_data):
    file = shared_data("school/school.mat")
    school = data.school(file, sha256="57fb3238fdd03a9aa17276e2ce18d9bbb5d128c3261e794fe6233b58b6909068")
    assert (len(school), len(school.x), school.x.shape[1]) == (139, 15362, 28)
    assert (school.sizes.min(), school.sizes.max()) == (17, 200)
    thirty = data.school(file, test_fraction=0.3)  # MR-MTL's Table A1 has the counts of this split
    assert (thirty.sizes.min(), thirty.sizes.max()) == (15, 175)
    assert 0 <= school.y.min() < school.y.max() == 1
    assert school.provenance["files"][0]["published"] == "school.mat"


def test_real_landmine(shared_data):
    landmine = data.landmine(shared_data("landmine/LandmineData.mat").parent)
    assert (len(landmine), len(landmine.x), landmine.classes) == (29, 14820, 2)
    assert landmine.y.sum() == 904


def test_parsers_never_unpickle():
    """No module of the package mentions a way to unpickle."""
    folder = os.path.dirname(files.__file__)
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            assert "import pickle" not in text
            assert "allow_pickle=True" not in text
