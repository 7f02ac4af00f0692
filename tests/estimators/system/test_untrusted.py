"""Files and messages of others: whatever the bytes are, values or a ValueError, and neither memory nor the stack goes."""

import gzip
import io
import json
import random
import re
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from scipy import sparse

from estimators.counts.beta_binomial import BetaBinomialTally
from estimators.federated import data
from estimators.federated.data import files
from estimators.federated.data.matlab import cell_arrays
from estimators.federated.experiments import checkpoints
from estimators.normal_means.streaming import GaussianTally, RowTally
from estimators.numerics import tally_state
from estimators.private import BetaPrior, MeanClient, Prior, RateClient, RegressionClient, RegressionPrior, read_report
from estimators.private.reports import checksum
from estimators.system.untrusted import gunzip, may_have_no_end, names_of_arrays, read_arrays, read_bytes, read_json

RNG = np.random.default_rng
ROUNDS = 300
JUNK = [
    None,
    True,
    -1,
    0,
    10**18,
    10**400,
    1e308,
    -0.0,
    "",
    "a",
    "inf",
    "nan",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    [1, [2]],
    "x" * 9,
]


def reports():
    rng = RNG(0)
    yield MeanClient(bounds=(0, 1), eps=1.0, delta=1e-6, variance_share=0.1, name="a").report([0.1, 0.4], rng)
    yield RateClient(eps=2.0, name="c").report([0, 1, 1], rng)
    yield RegressionClient(norm=2.0, eps=1.0, delta=1e-6, name="d").report([[1.0], [0.5]], [0.3, 0.2], rng)


def tallies():
    yield GaussianTally.of([1.0, 2.5, 3.0], [1.0, 0.25, 1.0])
    yield BetaBinomialTally.of([1, 3, 2], [4, 4, 5])
    yield RowTally.of(["a", "b", "a"], [1.0, 5.0, 2.0])


def survives(call, *arguments):
    """A value, or a ValueError of readable length, and nothing behind it that is not a ValueError's cause."""
    said = None
    try:
        call(*arguments)
    except ValueError as error:
        said = str(error)
    assert said is None or 5 < len(said) < 2000
    return said is None


def mutated(text, chance):
    """A text with some characters changed, cut out or repeated."""
    text = list(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text)) if text else 0
        kind = chance.randrange(4)
        if kind == 0 and text:
            text[at] = chance.choice('[]{}",:0123456789eE.-+\\ntfaNI\x00\u00e9')
        elif kind == 1:
            del text[at : at + chance.randint(1, 20)]
        elif kind == 2:
            text[at:at] = text[at : at + chance.randint(1, 30)]
        else:
            text[at:at] = list(chance.choice(["[" * 999, "{" * 50, "NaN", "1e999", "9" * 5000, "null"]))
    return "".join(text)


def replaced(value, chance):
    """A JSON value with one of its parts, at any depth, replaced by something of another kind."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        return {**value, key: replaced(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], replaced(value[at], chance), *value[at + 1 :]]
    return chance.choice(JUNK)


@pytest.mark.parametrize("report", list(reports()), ids=lambda report: type(report).__name__)
def test_any_text_is_a_report_or_a_value_error(report):
    chance, text = random.Random(1), report.to_json()
    content = {key: value for key, value in json.loads(text).items() if key != "checksum"}
    taken = 0
    for _ in range(ROUNDS):
        survives(read_report, mutated(text, chance))
        survives(read_report, mutated(text, chance).encode("utf-8", "replace")[: chance.randrange(400)])
        other = replaced(content, chance)
        if isinstance(other, dict):  # with a checksum that fits, as whoever wants to harm can make one
            taken += survives(read_report, json.dumps({**other, "checksum": checksum(other)}))
    assert taken < ROUNDS / 2
    assert survives(read_report, text)


@pytest.mark.parametrize(
    "prior", [BetaPrior(0.2, 0.01), Prior.known(mu=1.0, tau2=2.0), RegressionPrior((1.0, 2.0), 0.5, 1.0)]
)
def test_any_text_is_a_prior_or_a_value_error(prior):
    chance, text = random.Random(2), prior.to_json()
    for _ in range(ROUNDS):
        survives(type(prior).from_json, mutated(text, chance))
        survives(type(prior).from_json, json.dumps(replaced(json.loads(text), chance)))
    assert type(prior).from_json(text) == prior


@pytest.mark.parametrize("tally", list(tallies()), ids=lambda tally: type(tally).__name__)
def test_any_file_is_a_tally_or_a_value_error(tally, tmp_path):
    chance, path, kind = random.Random(3), tmp_path / "tally.json", type(tally)
    tally_state.save(tally, path)
    text, content = path.read_text(), json.loads(json.dumps(tally.content()))
    for _ in range(ROUNDS):
        path.write_text(mutated(text, chance), encoding="utf-8", errors="replace")
        survives(tally_state.load, kind, path)
        sealed = tally_state.seal(kind.__name__, replaced(content, chance))
        path.write_text(json.dumps(sealed))
        survives(tally_state.load, kind, path)
    path.write_text(text)
    assert tally_state.load(kind, path) == tally
    nested = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ValueError, match="damaged"):
        kind.from_dict({"tally": kind.__name__, "content": nested, "sha256": ""})
    while nested:  # a list so deep is taken apart from the outside
        nested = nested[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 10**6, "nested deeper than 32"),
        ('{"a":' * 10**5, "nested deeper than 32"),
        ("[" * 33 + "]" * 33, "nested deeper than 32"),
        ("9" * 20, "more than 19 digits"),
        ("9" * 10**6, "more than 19 digits"),
        ("1e999", "not finite"),
        ("NaN", "not finite"),
        ('{"n": 1, "n": 2}', "twice"),
        ("[0]" + " " * (1 << 24), "at most"),
        (b"\xff", "no UTF-8"),
        (3.5, "str or bytes"),
        (None, "str or bytes"),
        ("[1,", "not complete JSON"),
    ],
    ids=str,
)
def test_json_has_limits(text, message):
    with pytest.raises(ValueError, match=f"it.*{message}"):
        read_json(text, what="it")


def test_json_within_the_limits_is_read():
    assert read_json("[" * 32 + "]" * 32, what="it")
    assert read_json('["[[[[", "\\\\", "]\\"", -1, 2.5e3, true]', what="it") == ["[[[[", "\\", ']"', -1, 2500.0, True]
    assert read_json("\ufeff1".encode(), what="it") == 1


# --- archives ------------------------------------------------------------------------------------------------------------


def npy(array=None, header=None):
    """Bytes of an npy file; with another header if one is given."""
    stream = io.BytesIO()
    np.save(stream, np.arange(6.0) if array is None else array)
    content = stream.getvalue()
    if header is None:
        return content
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content[128:]


def zipped(kind=zipfile.ZIP_DEFLATED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


HEADERS = {
    "8 GB": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,), }",
    "more than there is": "{'descr': '<f8', 'fortran_order': False, 'shape': (10**30,), }",
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-6,), }",
    "nothing": "{'descr': '|V0', 'fortran_order': False, 'shape': (10000000000,), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (6,), }",
    "records": "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (6,), }",
    "no dict": "[" * 100,
    "code": "__import__('os').abort()",
    "empty": "",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_header_that_promises_something_else_is_refused_before_memory_is_taken(header):
    content = zipped(y=npy(header=header))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"a\.npz: 'y'"):
        read_arrays(content, what="a.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_bombs_are_refused_before_they_unpack():
    zeros = npy(np.zeros(1 << 21))  # 16 MB of them, 16 KB packed
    content = zipped(y=zeros)
    assert len(content) < 40_000
    assert read_arrays(content, what="a.npz")["y"].size == 1 << 21
    packed = gzip.compress(bytes(1 << 24))
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to 16777344 bytes; at most 1000000"):
        read_arrays(content, what="a.npz", largest=10**6)
    with pytest.raises(ValueError, match="unpacks to more than 1000000 bytes"):
        files.gunzip(packed, what="a.gz", largest=10**6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_archives_that_lie_about_their_size_unpack_no_further():
    zeros = npy(np.zeros(1 << 23))  # 64 MB
    ten = zeros.replace(b"(8388608,)", b"(10,)     ")
    lying = zipped(y=ten).replace(struct.pack("<I", len(zeros)), struct.pack("<I", 128 + 80))
    other = zipped(zipfile.ZIP_BZIP2, y=zeros)
    short = zipped(y=ten[: 128 + 80])
    assert read_arrays(short, what="a.npz")["y"].tolist() == [0.0] * 10
    tracemalloc.start()
    with pytest.raises(ValueError, match="is damaged"):
        read_arrays(lying, what="a.npz")
    with pytest.raises(ValueError, match="packed by another method"):
        read_arrays(other, what="a.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_any_archive_is_arrays_or_a_value_error(tmp_path):
    chance = random.Random(4)
    x, y = RNG(0).integers(0, 256, (3, 28, 28)).astype(np.uint8), np.arange(3, dtype=np.uint8)
    contents = [zipped(kind, images=npy(x), labels=npy(y)) for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)]
    for _ in range(ROUNDS):
        content = bytearray(chance.choice(contents))
        for _ in range(chance.randint(1, 6)):
            near = chance.choice([0, len(content) - 250, chance.randrange(len(content))])  # often in zip's own tables
            content[min(near + chance.randrange(250), len(content) - 1)] = chance.randrange(256)
        survives(
            lambda c: read_arrays(c, what="a.npz"),
            bytes(content[: chance.choice([len(content), chance.randrange(len(content))])]),
        )
    found = read_arrays(contents[1], what="a.npz")
    assert (found["images"] == x).all()
    fortran = read_arrays(zipped(y=npy(np.asfortranarray(np.arange(6).reshape(2, 3)))), what="a.npz")["y"]
    assert fortran.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_damaged_checkpoints_are_damaged_and_nothing_else(tmp_path):
    chance, path = random.Random(5), tmp_path / checkpoints.CHECKPOINT
    checkpoints.save(tmp_path, {"w": np.arange(5.0), "n": np.int64(3)}, {"finished": 2})
    whole = path.read_bytes()
    for _ in range(ROUNDS):
        content = bytearray(whole)
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(content))
        try:
            state, record, _ = checkpoints.load(tmp_path)
            assert (state["w"] == np.arange(5.0)).all()  # a bit that nobody reads
            assert (state["n"], record) == (3, {"finished": 2})
        except checkpoints.Damaged:
            pass
    path.write_bytes(zipped(w=npy(np.zeros(1 << 22))))  # packed, which a checkpoint never is
    with pytest.raises(checkpoints.Damaged):
        checkpoints.load(tmp_path)


# --- MATLAB and LEAF -------------------------------------------------------------------------------------------------------


def element(kind, content):
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(kind, inner, name=b""):
    head = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack("<ii", 1, 1)) + element(1, name)
    return element(14, head + inner)


def nested_cells(depth, name=b"X"):
    inner = matrix(6, element(9, struct.pack("<d", 1.0)))
    for level in range(depth):
        inner = matrix(1, inner, name if level == depth - 1 else b"")
    return inner


HEAD = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x100) + b"IM"


def test_deeply_nested_cells_are_no_numbers(tmp_path):
    """SciPy's reader ends the whole process on such a file."""
    file = tmp_path / "vehicle.mat"
    packed = zlib.compress(nested_cells(5000) + nested_cells(5000, b"Y"))
    file.write_bytes(HEAD + nested_cells(5000) + nested_cells(5000, b"Y"))
    with pytest.raises(ValueError, match="client 0 does not hold numbers"):
        data.vehicle(file)
    file.write_bytes(HEAD + struct.pack("<II", 15, len(packed)) + packed)
    with pytest.raises(ValueError, match="packed variables that are not one each"):
        data.vehicle(file)


def test_matlab_cells_are_what_scipy_reads(tmp_path):
    """Types, layouts and sparse cells, packed or not, in a grid of cells of two columns."""
    from scipy.io import loadmat, savemat

    rng, cells = RNG(8), np.empty((3, 2), object)
    kinds = (float, np.float32, np.int8, np.uint16, np.int64, bool)
    for place, kind in zip(np.ndindex(3, 2), kinds, strict=True):
        cells[place] = (3 * rng.normal(size=(4, 1 + place[0]))).astype(kind)
    cells[2, 0] = sparse.random(5, 4, 0.4, random_state=1, format="csc")
    for packed in (False, True):
        savemat(tmp_path / "a.mat", {"X": cells, "n": 3.0, "s": {"a": 1}}, do_compression=packed)
        found = cell_arrays((tmp_path / "a.mat").read_bytes())
        assert found["n"] is None
        assert found["s"] is None
        stored = loadmat(tmp_path / "a.mat", spmatrix=False)["X"].ravel()
        for ours, theirs in zip(found["X"], stored, strict=True):
            np.testing.assert_array_equal(ours, theirs.toarray() if sparse.issparse(theirs) else theirs)


def test_packed_matlab_bombs_are_refused():
    packed = zlib.compress(matrix(6, element(9, bytes(1 << 24)), b"X"))
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more bytes than are read"):
        cell_arrays(HEAD + struct.pack("<II", 15, len(packed)) + packed, largest=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_any_matlab_file_is_data_or_a_value_error(tmp_path):
    from scipy.io import savemat

    chance, file = random.Random(6), tmp_path / "vehicle.mat"
    x, y = np.empty((1, 3), object), np.empty((1, 3), object)
    for k in range(3):
        x[0, k], y[0, k] = RNG(k).normal(size=(6, 2)), np.array([[1.0], [-1]] * 3)
    for packed in (False, True):
        savemat(file, {"X": x, "Y": y}, do_compression=packed)
        whole = file.read_bytes()
        for _ in range(ROUNDS // 3):
            content = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                content[chance.randrange(124, len(content))] = chance.randrange(256)
            file.write_bytes(bytes(content))
            survives(data.vehicle, file)
        file.write_bytes(whole)
        assert len(data.vehicle(file).train) == 3


def test_any_leaf_file_is_data_or_a_value_error(tmp_path):
    chance, file = random.Random(7), tmp_path / "a.json"
    content = {"users": ["a"], "user_data": {"a": {"x": [[0.5] * 784] * 2, "y": [1, 2]}}}
    text = json.dumps(content)
    for _ in range(ROUNDS // 3):
        file.write_text(mutated(text, chance), encoding="utf-8", errors="replace")
        survives(data.femnist, file)
        file.write_text(json.dumps(replaced(content, chance)))
        survives(data.femnist, file)


def test_only_regular_files_of_bounded_size_are_read(tmp_path):
    (tmp_path / "a").write_bytes(bytes(11))
    assert read_bytes(tmp_path / "a", largest=11) == bytes(11)
    for what, named in ((None, str(tmp_path / "a")), ("the table", "the table")):
        with pytest.raises(ValueError, match=f"^{re.escape(named)} has more than 10 bytes"):
            read_bytes(tmp_path / "a", largest=10, what=what)
    with pytest.raises(ValueError, match="no regular file"):
        read_bytes(tmp_path, largest=10)
    with pytest.raises(ValueError, match="no regular file"):
        read_bytes("/dev/zero", largest=10)


# --- nothing of the data in an error at the client's ----------------------------------------------------------------------

SECRET = "salary 52000"
MEAN = {"bounds": (0.0, 1.0), "eps": 1.0}


class Loud:
    """Says what it holds when it is turned into a number."""

    def __float__(self):
        raise TypeError(SECRET)


BAD_ROWS = {
    "text": ([3.14, SECRET], r"position 1 is no number"),
    "text that Python prints": (["52000x"], "position 0 is no number"),
    "NaN": ([52000.0, np.nan], "position 1 is NaN"),
    "infinity": ([52000.0, 3.0, -np.inf], "position 2 is an infinity"),
    "object": ([52000.0, Loud()], "position 1 is no number"),
    "dict": ({"52000": 1}, "no number"),
    "jagged": ([[52000.0], [52000.0, 1.0]], "position 1 has another length"),
    "large": ([10**400, 52000], "position 0 is no number"),
    "table": ([[52000.0]], ""),
    "complex": ([52000j], ""),
    "text alone": (SECRET, ""),
}


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
@pytest.mark.parametrize(
    "call",
    [
        lambda rows: MeanClient(**MEAN).report(rows),
        lambda rows: MeanClient(**MEAN, adjacency="client").report(rows),
        lambda rows: MeanClient(**MEAN).share_clipped(rows),
        lambda rows: MeanClient(**MEAN).at_home(rows, Prior.known(mu=0.0, tau2=1.0, sigma2=1.0)),
        lambda rows: RateClient(eps=1.0).report(rows),
        lambda rows: RateClient(eps=1.0).at_home(rows, BetaPrior(0.2, 0.01)),
        lambda rows: RegressionClient(norm=1.0, eps=1.0, delta=1e-6).report(rows, [1.0, 2.0]),
        lambda rows: RegressionClient(norm=1.0, eps=1.0, delta=1e-6).report([[1.0], [2.0]], rows),
    ],
    ids=["mean", "local mean", "clipped", "at home", "rate", "rate at home", "X", "Y"],
)
def test_errors_at_the_client_tell_positions_and_no_value(call, rows, message):
    with pytest.raises(ValueError, match="must") as caught:
        call(rows)
    error, chain = caught.value, []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    for text in [
        part
        for error in chain
        for part in (str(error), repr(error), repr(error.args), repr(getattr(error, "__notes__", "")))
    ]:
        assert "52000" not in text
        assert "3.14" not in text
    assert message in str(caught.value)


def test_answers_that_are_neither_0_nor_1_are_told_by_position():
    with pytest.raises(ValueError, match="position 1 is neither") as caught:
        RateClient(eps=1.0).report([1, 52000])
    assert "52000" not in str(caught.value)


def test_the_largest_floats_are_reported_within_the_bounds():
    """Their sum is no number, which must not become a report outside the range that the noise hides."""
    rows = np.tile([1e308, 1e308, -1e308, -1e308], 40).reshape(4, 40).T.ravel()
    for seed in range(5):
        client = MeanClient(bounds=(0.0, 1.0), eps=30.0, adjacency="client", variance_share=0.5, variance_bound=4.0)
        report = client.report(rows, RNG(seed))
        assert -1 < report.estimate < 2
        assert report.variance is not None
        assert 3 < report.variance < 5


def test_what_is_as_large_as_a_limit_is_read_and_what_is_larger_is_not():
    digits, packed = "9" * 19, gzip.compress(b"abc")
    assert read_json("[1]", what="it", largest=3) == [1]
    assert read_json(f"[{digits}, -{digits}]", what="it") == [10**19 - 1, 1 - 10**19]
    assert gunzip(packed, what="it", largest=3) == b"abc"
    for call, why in (
        (lambda: read_json("[1]", what="it", largest=2), "it has 3 characters; at most 2 are read"),
        (lambda: read_json("1" + digits, what="it"), "it holds a whole number of more than 19 digits"),
        (lambda: gunzip(packed, what="it", largest=2), "it unpacks to more than 2 bytes"),
    ):
        with pytest.raises(ValueError, match=why):
            call()


def test_a_part_of_an_archive_and_what_is_none_are_told_apart(tmp_path):
    with pytest.raises(ValueError, match="it is cut off or damaged"):
        names_of_arrays(b"PK\3\4", what="it")
    for other in (b"", b"PQ\3\4", b"\0PK\3"):
        with pytest.raises(ValueError, match="it is not an npz file"):
            names_of_arrays(other, what="it")
    assert may_have_no_end(tmp_path / "nothing there") is False


def npz_of(content):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("a.npy", content)
    return whole.getvalue()


def test_arrays_without_entries_of_either_version_and_of_the_largest_size_are_read():
    for array in (np.zeros((0, 3)), np.arange(6.0).reshape(2, 3), np.array(5.0)):
        for version in ((1, 0), (2, 0)):
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=version)
            size = len(content.getvalue())
            found = read_arrays(npz_of(content.getvalue()), what="it", largest=size)["a"]
            assert (found.shape, found.tolist()) == (array.shape, array.tolist())
            with pytest.raises(ValueError, match=f"it unpacks to {size} bytes; at most {size - 1} are read"):
                read_arrays(npz_of(content.getvalue()), what="it", largest=size - 1)


def test_sizes_below_zero_whose_product_fits_are_damage():
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": (-1, -3)})
    with pytest.raises(ValueError, match="it: 'a' is damaged"):
        read_arrays(npz_of(content.getvalue() + bytes(24)), what="it")
