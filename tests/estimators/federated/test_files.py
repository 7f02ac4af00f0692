"""Formats of data files at their smallest, and each single thing that makes a file another one."""

import gzip
import hashlib
import json
import struct

import numpy as np
import pytest
import scipy.io

from estimators.federated.data import checksums, files


def said(content, suffix=""):
    return hashlib.sha256(content).hexdigest() + suffix


def test_a_reader_keeps_what_it_read_and_compares_sums_without_regard_to_case(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"abc")
    digest = said(b"abc")
    for sums in (None, digest.upper(), {"a": digest}, {"a": digest.upper()}):
        reader = files.Reader("mnist", sums)
        assert reader.read(tmp_path / "a") == b"abc"
        record = {"path": str(tmp_path / "a"), "bytes": 3, "sha256": digest, "published": None}
        assert reader.provenance(seed=4) == {"dataset": "mnist", "files": [record], "seed": 4}
    with pytest.raises(ValueError, match="not 00 as asked"):
        files.Reader("mnist", "00").read(tmp_path / "a")
    monkeypatch.setitem(checksums.KNOWN, digest, ("mnist", "all", "its name"))
    for part in (None, "train", "test"):  # a file of all parts is any of them
        reader = files.Reader("mnist")
        reader.read(tmp_path / "a", part)
        assert reader.files[0]["published"] == "its name"
    monkeypatch.setitem(checksums.KNOWN, digest, ("mnist", "train", "its name"))
    files.Reader("mnist").read(tmp_path / "a")
    with pytest.raises(ValueError, match="holds the train of mnist, but is taken as test"):
        files.Reader("mnist").read(tmp_path / "a", "test")
    with pytest.raises(ValueError, match="is its name of mnist, not a file of emnist"):
        files.Reader("emnist").read(tmp_path / "a")


def test_sums_of_files_that_were_not_read_are_an_error(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    reader = files.Reader("mnist", {"a": said(b"abc"), "b": "00", "c": "00"})
    reader.read(tmp_path / "a")
    with pytest.raises(ValueError, match=r"sha256 names b, which was not read \(read were a\)"):
        reader.provenance()


def idx(*shape, body=b"", first=bytes([0, 0, 8])):
    return first + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + body


def test_idx_files_have_their_shape_after_the_first_four_bytes():
    assert files.idx(idx(2, 3, body=bytes(range(6))), "a", 2).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert files.idx(gzip.compress(idx(2, body=b"ab")), "a", 1).tolist() == [97, 98]
    assert files.idx(idx(0), "a", 1).shape == (0,)
    assert files.idx(idx(*[1] * 32, body=b"\x07"), "a", 32).shape == (1,) * 32
    big = idx(1 << 16, 1 << 16, 1 << 16, 1 << 16)  # no product of 64 bits
    with pytest.raises(ValueError, match=f"is half: its header promises {20 + (1 << 64)} bytes"):
        files.idx(big, "a", 4)
    for content in (idx(2, body=b"ab", first=bytes([1, 0, 8])), idx(2, body=b"ab", first=bytes([0, 1, 8])),
                    idx(2, body=b"ab", first=bytes([0, 0, 9])), idx(2)[:7], idx(1, 2, body=b"ab"), b""):  # fmt: skip
        with pytest.raises(ValueError, match="does not begin as an IDX file"):
            files.idx(content, "a", 1)
    for content, word in ((idx(2, body=b"a"), "half"), (idx(2, body=b"abc"), "too long")):
        with pytest.raises(ValueError, match=f"is {word}: its header promises 10 bytes .* has {len(content)}"):
            files.idx(content, "a", 1)
    for dimensions in (0, 256):
        with pytest.raises(ValueError, match=r"dimensions must be in 1\.\.255"):
            files.idx(idx(2, body=b"ab"), "a", dimensions)


def test_cifar_rows_are_a_label_and_three_planes():
    planes = np.arange(2 * 3072).reshape(2, 3, 32, 32).astype(np.uint8)
    content = b"".join(bytes([label]) + plane.tobytes() for label, plane in zip((9, 0), planes, strict=True))
    x, y = files.cifar_binary(content, "a")
    assert y.tolist() == [9, 0]
    for k, row, column, colour in ((0, 0, 0, 0), (1, 31, 2, 1), (1, 5, 30, 2)):
        assert x[k, row, column, colour] == planes[k, colour, row, column]
    assert x.shape == (2, 32, 32, 3)
    for bad, word in ((b"", "has 0 bytes"), (content[:-1], "no multiple of 3073"), (b"\x0a" + content[1:], "label 10")):
        with pytest.raises(ValueError, match=word):
            files.cifar_binary(bad, "a")


def mat(tmp_path, **variables):
    for name, parts in variables.items():
        if isinstance(parts, list):
            variables[name] = np.empty(len(parts), dtype=object)
            variables[name][:] = parts
    scipy.io.savemat(tmp_path / "a.mat", variables)
    return (tmp_path / "a.mat").read_bytes()


PAIRS = (("X", "Y"), ("feature", "label"))


def test_cells_of_the_first_pair_that_is_there_are_taken(tmp_path):
    one, two = [np.ones((2, 3))], [np.full((1, 2), 4.0)]
    for there in ({"X": one, "Y": two}, {"feature": one, "label": two}, {"X": two, "feature": one, "label": two},
                  {"X": one, "Y": two, "feature": two, "label": one}):  # fmt: skip
        x, y = files.matlab_cells(mat(tmp_path, **there), "a", PAIRS)
        assert [part.tolist() for part in x] == [[[1, 1, 1], [1, 1, 1]]]
        assert [part.tolist() for part in y] == [[4, 4]]
    for there in ({"X": one, "Y": two * 2}, {"X": one, "Y": 3.0}, {"X": 3.0, "Y": one}):
        with pytest.raises(ValueError, match="must be cell arrays with one cell per client and equally many"):
            files.matlab_cells(mat(tmp_path, **there), "a", PAIRS)
    for there in ({"X": [*one, "text"], "Y": two * 2}, {"X": one * 2, "Y": [*two, "text"]}):
        with pytest.raises(ValueError, match="the cell of client 1 does not hold numbers"):
            files.matlab_cells(mat(tmp_path, **there), "a", PAIRS)
    with pytest.raises(ValueError, match="has the variables X; needed are"):
        files.matlab_cells(mat(tmp_path, X=one), "a", PAIRS)
    for tail in (b"\x00\x02IM", b"\x02\x00MI"):
        with pytest.raises(ValueError, match=r"is a MATLAB 7\.3"):
            files.matlab_cells(b"MATLAB".ljust(124) + tail + bytes(9), "a", PAIRS)


def test_users_of_leaf_have_rows_and_labels_equally_many():
    def of(x, y):
        return json.dumps({"users": ["a"], "user_data": {"a": {"x": x, "y": y}}}).encode()

    found = files.leaf(of([[1, 2]], [3]), "a")
    assert [part.tolist() for part in found["a"]] == [[[1, 2]], [3]]
    assert (found["a"][0].dtype, found["a"][1].dtype) == (np.float32, np.int64)
    for x, y, rows, labels in (
        ([], [], 0, 0),
        ([[1]], [1, 2], 1, 2),
        ([[1], [2]], [1], 2, 1),
        (5, [1], 0, 1),
        ([[1]], 5, 1, 0),
        (5, 5, 0, 0),
    ):
        with pytest.raises(ValueError, match=f"user a has {rows} rows and {labels} labels"):
            files.leaf(of(x, y), "a")
