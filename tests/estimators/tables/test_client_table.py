"""Reading a practitioner's CSV: what goes in comes out, and every mistake is named with its place."""

import csv
import io
import os
import re
import threading

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from estimators import GaussianMeans
from estimators.tables import table_arrow
from estimators.tables.client_table import FORMS, ROLES, read_client_table
from estimators.tables.table_file import open_table

names = st.text("abc, \"'é\n", min_size=1, max_size=6).filter(lambda name: name == name.strip())
numbers = st.floats(-1e9, 1e9)
positives = st.floats(1e-6, 1e6)


def written(header, rows):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    return text.getvalue().splitlines(keepends=True)


@given(st.dictionaries(names, st.tuples(numbers, positives, st.integers(1, 1000)), min_size=1), st.booleans())
def test_client_level_table_round_trips(clients, with_n):
    rows = [[name, *values[: 2 + with_n]] for name, values in clients.items()]
    table = read_client_table(written(["client", "mean", "variance", "n"][: 3 + with_n], rows))
    means, variances, counts = map(np.array, zip(*clients.values(), strict=True))
    assert table.clients == tuple(clients)
    np.testing.assert_array_equal(table.estimates, means)
    np.testing.assert_array_equal(table.variances, variances / counts if with_n else variances)
    if with_n:
        np.testing.assert_array_equal(table.counts, counts)
    else:
        assert table.counts is None


@given(
    st.dictionaries(names, st.lists(st.integers(-1000, 1000), min_size=1, max_size=5), min_size=1),
    st.randoms(),
)
def test_raw_rows_are_summarised_in_any_order(samples, random):
    rows = [[name, value] for name, values in samples.items() for value in values]
    random.shuffle(rows)
    squares = sum(len(values) * np.var(values) for values in samples.values())
    assume(squares > 0)
    table = read_client_table(written(["client", "value"], rows))
    assert table.clients == tuple(dict(rows))
    counts = np.array([len(samples[name]) for name in table.clients])
    np.testing.assert_array_equal(table.counts, counts)
    np.testing.assert_allclose(table.estimates, [np.mean(samples[name]) for name in table.clients])
    np.testing.assert_allclose(table.variances * counts, squares / (len(rows) - len(samples)))
    # The same clients in the other form give the same table.
    pooled = table.variances * counts
    rows = [[n, *v] for n, *v in zip(table.clients, table.estimates, pooled, counts, strict=True)]
    again = read_client_table(written(["client", "mean", "variance", "n"], rows))
    np.testing.assert_allclose(again.variances, table.variances)


def test_file_with_byte_order_mark_blank_lines_and_extra_columns(tmp_path):
    path = tmp_path / "clients.csv"
    text = '\ufeff Client , team,MEAN,Variance\r\n\r\nNoé,x,1.5,0.5\r\n"b, c",y, 2.5 ,1e-1\r\n,,,\r\n'
    path.write_bytes(text.encode())
    for source in (path, str(path)):
        table = read_client_table(source)
        assert table.clients == ("Noé", "b, c")
        assert table.estimates.tolist() == [1.5, 2.5]
        assert GaussianMeans("marginal-likelihood").fit(table.estimates, table.variances).converged_


MISTAKES = {
    "": "table is empty; its first line must name the columns",
    "\n\n": "table is empty",
    "client,value\n": "column names but no clients",
    "client,mean\na,1\n": "line 1: missing columns in client,mean; give either client,value or",
    "a,1\nb,2\n": "line 1: missing columns in a,1",
    "client,value,mean,variance\n": "line 1: the columns of client,value and of client,mean,variance[,n] in ",
    "client,value,value\n": "line 1: column 'value' appears twice",
    "client,value\na,1\na,2,3\n": "line 3: 3 cells under 2 column names; check for missing or unquoted",
    "client,value\na,1\n\na\n": "line 4: 1 cells under 2",
    "client,value\na,1\na,x\n": "line 3, column 'value': 'x' is not a number",
    "client,value\na,1\na,\n": "line 3, column 'value': '' is not a number; drop the row or fill in the missing value",
    "client,value\na,1\na,1e999\n": "line 3, column 'value': '1e999' is not finite",
    "client,value\na,1\n , \nb,x\n": "line 4, column 'value': 'x' is not a number",
    "# a comment\n\nclient,value\na,1\na,x\n": "line 5, column 'value'",
    "client,estimate,se\na,1,0.5\nb,2,0\n": "line 3, column 'se': 0 is not > 0; a standard error must be positive",
    "client,estimate,se\na,1,0.5\nb,2,1e-200\n": "line 3, column 'se': 1e-200 is less than 1e-100; change the units",
    "client,mean,variance\na,1,1\nb,2e300,1\n": "line 3, column 'mean': 2e+300 is beyond 1e+100; change the units",
    "client,count,exposure\na,1,1\nb,2,1e-300\n": "line 3, column 'exposure': 1e-300 is less than 1e-100; change the units",
    "client,value\na,1\na,1_0\n": "line 3, column 'value': '1_0' is not a number",
    "client,value\na,1e-300\na,-1e-300\n": "column 'value': differences have the variance 0, change the units",
    "client,successes,trials\na,1,2\nb,3,2\n": "line 3, column 'successes': 3 exceeds the trials, 2; swap the columns",
    "client,successes,trials\na,1.5,2\n": "line 2, column 'successes': 1.5 is not a whole number >= 0 of successes",
    "client,successes,trials\na,1,-2\n": "line 2, column 'trials': -2 is not a whole number >= 0",
    "client,successes,trials\na,1,2\na,1,2\n": "line 3, column 'client': 'a' is already in line 2",
    "client,outcome\na,1\na,2\n": "line 3, column 'outcome': 2 is neither 0 nor 1",
    "client,count\na,-1\n": "line 2, column 'count': -1 is not a whole number >= 0 of events",
    "client,count,exposure\na,1,0\n": "line 2, column 'exposure': 0 is not > 0; an exposure must be positive",
    "client,value\na,1\na,nan\n": "line 3, column 'value': 'nan' is not finite; drop rows",
    "client,value\na,1\n,2\n": "line 3, column 'client': is blank",
    "client,value\na,1\nb,2\n": "no client has two rows, so the variance within clients is unknown",
    "client,value\na,1\na,1\nb,2\n": "no client's values differ",
    'client,value\na,1\n"a,2\n': "line 3: not valid CSV",
    "client,mean,variance\na,1,-2\n": "line 2, column 'variance': -2 is not > 0",
    "client,mean,variance\na,1,0\n": "line 2, column 'variance': 0 is not > 0",
    "client,mean,variance\na,inf,1\n": "line 2, column 'mean': 'inf' is not finite",
    "client,mean,variance\na,1,1\nb,1,1\na,2,1\n": "line 4, column 'client': 'a' is already in line 2",
    "client,mean,variance,n\na,1,1,0\n": "line 2, column 'n': 0 is not a whole number >= 1",
    "client,mean,variance,n\na,1,1,1.5\n": "line 2, column 'n': 1.5 is not a whole number",
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_mistakes_are_named_with_their_place(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_client_table(text.splitlines(keepends=True))


def test_the_message_names_the_file(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text("client,value\na,x\n")
    with pytest.raises(ValueError, match=r"clients\.csv, line 2, column 'value'"):
        read_client_table(path)
    path.write_bytes("client,value\nNoé,1\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"clients\.csv is not UTF-8 text"):
        read_client_table(path)
    with pytest.raises(FileNotFoundError):
        read_client_table(tmp_path / "absent.csv")


# --- other forms ------------------------------------------------------------------------------------------------------


def test_lines_may_be_any_iterable_and_a_path_any_path_like(tmp_path):
    """A tuple of lines was opened as if it named a file, and an object with `__fspath__` alone was taken for lines."""
    text = "client,estimate,se\na,1,0.5\nb,2,2\n"
    (tmp_path / "t.csv").write_text(text)

    class Place:
        def __fspath__(self):
            return str(tmp_path / "t.csv")

    for source in (tuple(text.splitlines()), (line for line in text.splitlines()), Place()):
        assert read_client_table(source).clients == ("a", "b")


def lines(text):
    return text.split()


def test_estimates_with_standard_errors():
    table = read_client_table(lines("client,estimate,se,n a,1,0.5,7 b,2,2,9"))
    assert (table.variances.tolist(), list(table.counts), table.rows) == ([0.25, 4.0], [7, 9], None)


def test_outcomes_are_counted():
    raw = read_client_table(lines("client,outcome b,1 a,0 b,0 b,1"))
    counted = read_client_table(lines("client,successes,trials b,2,3 a,0,1"))
    for table in (raw, counted):
        assert table.clients == ("b", "a")
        assert (table.successes.tolist(), table.trials.tolist()) == ([2, 0], [3, 1])


def test_events_with_and_without_exposure():
    assert read_client_table(lines("client,count a,3 b,0")).exposures is None
    table = read_client_table(lines("client,count,exposure a,3,1.5 b,0,2"))
    assert (list(table.counts), list(table.exposures)) == ([3, 0], [1.5, 2.0])


def test_regressions_are_grouped_by_client():
    text = "School,Score,hours,age a,1,2,3 b,4,5,6 a,7,8,9"
    table = read_client_table(lines(text), {"client": "school"}, target="score", features=["Hours", "AGE"])
    assert table.features == ("intercept", "hours", "age")
    assert [X.tolist() for X in table.designs] == [[[1, 2, 3], [1, 8, 9]], [[1, 5, 6]]]
    assert [y.tolist() for y in table.targets] == [[1, 7], [4]]
    bare = read_client_table(lines(text), {"client": "school"}, "score", ["age"], intercept=False)
    assert [X.tolist() for X in bare.designs] == [[[3], [9]], [[6]]]


def test_samples_come_back_by_client():
    table = read_client_table(lines("client,value a,1 b,2 a,5"))
    assert [values.tolist() for values in table.samples() or ()] == [[1, 5], [2]]
    assert read_client_table(lines("client,mean,variance a,1,1")).samples() is None


def test_a_large_common_part_costs_no_digits():
    table = read_client_table(["client,value", *(f"{c},{10**9 + v}" for c in "ab" for v in (0.25, 0.5, 0.75))])
    assert (table.estimates - 10**9).tolist() == [0.5, 0.5]
    np.testing.assert_allclose(table.variances, 0.0625 / 3, rtol=1e-6)


def test_columns_may_have_any_names():
    text = "Ward,Deaths,Ops,mean,variance x,1,2,3,4 y,2,5,6,7"
    table = read_client_table(lines(text), {"client": "ward", "successes": "deaths", "trials": "OPS"})
    assert (table.clients, table.successes.tolist(), table.trials.tolist()) == (("x", "y"), [1, 2], [2, 5])
    # Naming one role picks the form among those that the header has, too.
    both = lines("client,value,mean,variance a,1,2,3 b,4,5,6")
    assert read_client_table(both, {"mean": "mean"}).estimates.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x1f\x8b\x08\x00rest", "is compressed; unpack it first"),
        (b"PK\x03\x04rest", "is an archive or an Excel file"),
        (b"PAR1rest", "is Parquet; give it a name that ends in .parquet"),
        ("client,value\n".encode("utf-16"), "is UTF-16 text"),
    ],
)
def test_files_of_other_kinds_are_named(content, message, tmp_path):
    path = tmp_path / "clients.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"clients.csv {re.escape(message)}"):
        read_client_table(path)


def test_a_pipe_is_read_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=["client,value\na,1\na,2\nb,5\n"])
    writer.start()
    table = read_client_table(path)
    writer.join()
    assert table.estimates.tolist() == [1.5, 5.0]


def test_a_column_named_for_a_role_does_not_play_the_one_of_its_own_name():
    table = read_client_table(lines("client,mean,n,variance a,1,5,1 b,2,7,1"), {"mean": "n"})
    assert table.estimates.tolist() == [5.0, 7.0]
    assert table.counts is None


def test_a_parquet_file_damaged_inside_is_named(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "clients.parquet"
    parquet.write_table(arrow.table({"client": ["a", "a", "b"], "value": [1.0, 2.0, 3.0]}), path)
    content = bytearray(path.read_bytes())
    content[10:60] = b"\xff" * 50
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"clients\.parquet is no valid Parquet file"):
        read_client_table(path)


def test_rows_are_numbered_where_no_column_names_clients():
    table = read_client_table(lines("y;K 0;47 18;148"), {"successes": "y", "trials": "k"})
    assert table.clients == ("1", "2")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"client": "who"}, "table, line 1: no column 'who' (for client); the columns are client,value"),
        ({"shade": "value"}, "columns has the role 'shade'; known are client, value, mean"),
        ({"mean": "value"}, "missing columns in client,value; give either client,value or"),
        ({"value": "value", "se": "value"}, "column 'value' is named for both value and se; name another one"),
        ({"client": "value", "value": "value"}, "column 'value' is named for both client and value"),
        ({"client": "value"}, "missing columns in client,value"),
    ],
)
def test_wrong_names_of_columns(columns, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_client_table(lines("client,value a,1 a,2"), columns)


@pytest.mark.parametrize(
    ("target", "features", "columns", "message"),
    [
        ("y", None, {}, "a regression needs both a target and features"),
        (None, ["x"], {}, "a regression needs both a target and features"),
        ("y", [], {}, "a regression needs both a target and features"),
        ("z", ["x"], {}, "no column 'z' (the target); the columns are client,x,y,w"),
        ("y", ["x", "q"], {}, "no column 'q' (a feature)"),
        ("y", ["x", "x"], {}, "column 'x' is named twice"),
        ("y", ["x", "y"], {}, "column 'y' is named twice"),
        ("y", ["w"], {}, "line 2, column 'w': 'red' is not a number"),
        ("y", ["x"], {"value": "x"}, "leave out the role 'value'"),
    ],
)
def test_wrong_regressions(target, features, columns, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_client_table(lines("client,x,y,w a,1,2,red"), columns, target, features)


def test_every_form_has_a_reader():
    for form in FORMS.values():
        first = ",".join("a" if role == "client" else "1" for role in form.roles)
        second = ["a,0"] if not form.one_row_each else []
        assert read_client_table([",".join(form.roles), first, *second]).clients == ("a",)
    assert set(ROLES) == {role for form in FORMS.values() for role in (*form.roles, *form.optional)}


# --- files ------------------------------------------------------------------------------------------------------------


def test_long_files_are_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("estimators.tables.table_file.CHUNK", 7)
    rows = [f"c{i % 5},{i}" for i in range(100)]
    rows.insert(50, "")
    told = []
    table = read_client_table(["client,value", *rows], progress=told.append)
    assert list(table.counts) == [20] * 5
    assert told[-1] == 100
    assert told == sorted(told)
    with pytest.raises(ValueError, match="line 52, column 'value': 'x' is not a number"):
        read_client_table(["client,value", *rows[:49], "", "c1,x", *rows])


def test_quotes_tabs_and_semicolons():
    for sign in ";\t":
        table = read_client_table([f"client{sign}value", f'"a, b"{sign}1', f'"a, b"{sign} 2', f"c{sign}3"])
        assert table.clients == ("a, b", "c")
    table = read_client_table(["client,value", '"two', 'lines",1', '"two', 'lines",2'])
    assert len(table.clients) == 1


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=re.escape("pip install 'borrowed-strength[parquet]'")):
        open_table(tmp_path / "clients.parquet")


def test_parquet_gives_the_table_of_the_same_csv(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(**columns):
        parquet.write_table(arrow.table(columns), tmp_path / "t.parquet", row_group_size=2)
        return tmp_path / "t.parquet"

    path = write(Client=["b", "a", "b "], VALUE=[1.5, 2.0, 3.25], other=[None, 1, 2])
    table, same = read_client_table(path), read_client_table(lines("client,value b,1.5 a,2 b,3.25"))
    assert table.clients == same.clients
    assert table.estimates.tolist() == same.estimates.tolist()
    assert table.variances.tolist() == same.variances.tolist()
    assert read_client_table(write(client=[7, 8], successes=[1, 2], trials=[3, 4])).clients == ("7", "8")
    for columns, message in [
        ({"client": ["a", "a"], "value": [1.0, None]}, "row 2, column 'value': is missing"),
        ({"client": ["a", None], "value": [1.0, 2.0]}, "row 2, column 'client': is missing"),
        ({"client": ["a", " "], "value": [1.0, 2.0]}, "row 2, column 'client': is blank"),
        ({"client": ["a", "b"], "value": [1.0, float("nan")]}, "row 2, column 'value': 'nan' is not finite"),
        ({"client": ["a", "b"], "value": ["1", "2"]}, "column 'value': holds string, not numbers"),
        ({"client": ["a", "b"], "mean": [1, 2], "variance": [1, -1]}, "row 2, column 'variance': -1 is not > 0"),
        ({"client": ["a"]}, "missing columns in client"),
        ({"client": [1.0, float("nan")], "value": [1, 2]}, "row 2, column 'client': is missing"),
        ({"client": [["a"], ["b"]], "value": [1, 2]}, "column 'client': holds list<"),
        ({"client": [b"\xff", b"b"], "value": [1, 2]}, "column 'client': holds binary, not names in UTF-8"),
        ({"client": arrow.array([], "string"), "value": arrow.array([], "float64")}, "no clients"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            read_client_table(write(**columns))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="is no valid Parquet file"):
        read_client_table(path)
    with pytest.raises(FileNotFoundError):
        read_client_table(tmp_path / "absent.parquet")


@pytest.mark.parametrize(
    "text",
    [
        "client,value\nb,1.5\na,0.1\nb,1e-3\n",
        '# note\n\nclient;team;value\r\nb;"x; y";1.5\r\n\r\n"a ""q""";z;0.1\r\nb;;2\r\n',
        'client,value\n"two\nlines",1\n"two\nlines",2\n',
        "client,value\n b , 1\nb, 2 \n",
        'client,value\n "b",1\nb,2\n',
        'client,value\n "b, c",1\n"b, c",2\n',
        "client,value\nNA,1\nNA,2\nnull,3\n",
        ",,value,client\n,,1,a\n,,2,a\n,,,\n",
        "client,value\na,1\na,2",
        "\ufeffclient,value\na,1\na,2",
    ],
)
def test_pyarrow_reads_csv_as_the_plain_reader_does(text, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / "clients.csv"
    path.write_bytes(text.encode())
    plain = read_client_table(path)
    monkeypatch.setattr("estimators.tables.table_file.LARGE", 0)
    table = read_client_table(path)
    assert table.clients == plain.clients
    assert table.rows
    assert plain.rows
    for ours, theirs in zip(table.rows, plain.rows, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_pyarrow_is_used_for_large_files(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    seen = []
    real = table_arrow.read_csv
    monkeypatch.setattr(table_arrow, "read_csv", lambda *given: seen.append(real(*given)) or seen[-1])
    monkeypatch.setattr("estimators.tables.table_file.LARGE", 0)
    path = tmp_path / "clients.csv"
    path.write_text("client,value\na,1\na,2\n")
    told = []
    read_client_table(path, progress=told.append)
    assert seen[0] is not None
    assert told == [2]


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_messages_are_the_same_with_pyarrow(text, message, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("estimators.tables.table_file.LARGE", 0)
    path = tmp_path / "table"
    path.write_bytes(text.encode())
    with pytest.raises(ValueError, match=re.escape(message)):
        read_client_table(path)
