"""Tables of clients at the ends of what they take: both sides of every check, pooling, covariates, groups, places."""

import re
import warnings

import numpy as np
import pytest

from estimators.tables.client_table import by_client, read_client_table
from estimators.tables.columns import Names, Untold, mistake, printable, shortened
from estimators.tables.table_file import number_problem, open_table


def lines(text):
    return text.split()


GOOD = {
    "client,mean,variance a,1e100,1e-100": (1e100, 1e-100),
    "client,mean,variance a,-1e100,1e100": (-1e100, 1e100),
    "client,mean,variance,n a,2,9,3": (2.0, 3.0),
    "client,estimate,se a,2,3": (2.0, 9.0),
    "client,estimate,se a,2,1e-100": (2.0, 1e-200),
}


@pytest.mark.parametrize(("text", "numbers"), GOOD.items())
def test_numbers_at_the_ends_are_taken(text, numbers):
    table = read_client_table(lines(text))
    assert (table.estimates[0], table.variances[0]) == pytest.approx(numbers, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,mean,variance a,1.1e100,1", "line 2, column 'mean': 1.1e+100 is beyond 1e+100; change the units"),
        ("client,mean,variance a,0,1 b,-1.1e100,1", "line 3, column 'mean': -1.1e+100 is beyond 1e+100"),
        ("client,mean,variance a,0,0.9e-100", "line 2, column 'variance': 9e-101 is less than 1e-100; change the units"),
        ("client,count,exposure a,0,0.9e-100", "line 2, column 'exposure': 9e-101 is less than 1e-100"),
        ("client,mean,variance,n a,0,1,0.5", "column 'n': 0.5 is not a whole number >= 1 of observations"),
        ("client,successes,trials a,1,2 b,9,8", "line 3, column 'successes': 9 exceeds the trials, 8"),
        ("client,outcome a,-1", "line 2, column 'outcome': -1 is neither 0 nor 1"),
        ("client,outcome a,0.5", "line 2, column 'outcome': 0.5 is neither 0 nor 1"),
        ("client,count a,9007199254740994", "is not a whole number >= 0 of events"),
        ("client,value a,0 a,1e-170 b,0", "differences have the variance 0, change the units"),
        ("client,value a,0 a,1e-101 b,0", "change the units"),
    ],
)
def test_numbers_beyond_them_are_not(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_client_table(lines(text))


def test_whole_numbers_up_to_two_to_the_53():
    assert read_client_table(lines("client,count a,9007199254740992")).counts.tolist() == [2**53]
    table = read_client_table(lines("client,successes,trials a,0,0 b,3,3"))
    assert (table.successes.tolist(), table.trials.tolist()) == ([0, 3], [0, 3])
    assert table.successes.dtype == table.trials.dtype == np.int64


def test_variances_are_pooled_over_clients_with_two_rows():
    table = read_client_table(lines("client,value a,1 b,10 a,3 c,7 b,11 b,15"))
    squares = 2.0 + 14.0
    assert table.estimates.tolist() == pytest.approx([2.0, 12.0, 7.0])
    assert table.variances.tolist() == pytest.approx([squares / 3 / n for n in (2, 3, 1)])
    assert table.row_variances.tolist() == pytest.approx([2.0, 7.0, 0.0])
    assert table.counts.tolist() == [2, 3, 1]
    assert [x.tolist() for x in table.samples() or ()] == [[1.0, 3.0], [10.0, 11.0, 15.0], [7.0]]
    assert table.data == "means"


def test_rows_go_to_their_clients_in_order():
    found = by_client(np.array([2, 0, 2, 3, 0]), np.arange(5.0), 5)
    assert [x.tolist() for x in found] == [[1.0, 4.0], [], [0.0, 2.0], [3.0], []]


def test_numbers_of_observations_are_whole_where_they_can_be():
    assert read_client_table(lines("client,estimate,se,n a,1,2,7")).counts.dtype == np.int64
    kept = read_client_table(lines("client,estimate,se,n a,1,2,7 b,1,2,7.5")).counts
    assert kept.tolist() == [7.0, 7.5]
    assert read_client_table(lines("client,mean,variance,n a,1,8,2")).row_variances.tolist() == [8.0]
    assert read_client_table(lines("client,mean,variance a,1,8")).row_variances is None


def test_covariates_of_numbers_and_words():
    text = "client,value,size,kind a,1,5,red b,2,6,blue a,3,5,red c,9,7,green"
    table = read_client_table(lines(text), covariates=[" Size", "KIND"])
    assert table.covariates.names == ("size", "kind=green", "kind=red")
    assert table.covariates.values.tolist() == [[5.0, 0.0, 1.0], [6.0, 0.0, 0.0], [7.0, 1.0, 0.0]]
    one = read_client_table(lines("client,count,kind a,1,x b,2,y"), covariates=["kind"])
    assert one.covariates.values.tolist() == [[0.0], [1.0]]
    assert read_client_table(lines(text)).covariates is None
    for covariates, message in (
        (["kind", "kind"], "column 'kind' is named twice among covariates"), (["value"], "column 'value' is named twice"),
        (["shape"], "no column 'shape' (a covariate)"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=re.escape(message)):
            read_client_table(lines(text), covariates=covariates)
    with pytest.raises(ValueError, match="line 4, column 'size': differs from an earlier row of 'a'"):
        read_client_table(lines("client,value,size a,1,5 b,2,6 a,3,6"), covariates=["size"])
    with pytest.raises(ValueError, match="column 'kind': the same word for every client says nothing"):
        read_client_table(lines("client,count,kind a,1,x b,2,x"), covariates=["kind"])
    with pytest.raises(ValueError, match="column 'kind': 'x' is not a number"):
        read_client_table(lines("client,count,kind a,1,x b,2,7"), covariates=["kind"])
    with pytest.raises(ValueError, match="--features, which serve for them"):
        read_client_table(lines("client,y,x a,1,2"), target="y", features=["x"], covariates=["x"])


def test_clients_of_a_name_in_two_groups_are_two():
    text = "school,class,y,x s,1,1,10 t,1,2,20 s,2,3,30 t,1,4,40 s,1,5,50"
    table = read_client_table(lines(text), {"client": "class"}, "y", ["x"], group="School ")
    assert table.clients == ("s/1", "t/1", "s/2")
    assert table.groups == ("s", "t", "s")
    assert [y.tolist() for y in table.targets] == [[1.0, 5.0], [2.0, 4.0], [3.0]]
    assert [X[:, 1].tolist() for X in table.designs] == [[10.0, 50.0], [20.0, 40.0], [30.0]]
    assert all((X[:, 0] == 1).all() for X in table.designs)
    plain = read_client_table(lines(text), {"client": "class"}, "y", ["x"])
    assert (plain.clients, plain.groups, plain.data) == (("1", "2"), None, "regression")
    with pytest.raises(ValueError, match="column 'class' is named twice among client, group"):
        read_client_table(lines(text), {"client": "class"}, "y", ["x"], group="class")
    with pytest.raises(ValueError, match=r"no column 'form' \(the group\)"):
        read_client_table(lines(text), {"client": "class"}, "y", ["x"], group="form")
    with pytest.raises(ValueError, match="groups of clients are for regressions"):
        read_client_table(lines("client,value a,1 a,2"), group="value")
    with pytest.raises(ValueError, match=r"line 3, column 'x': 1.1e\+100 is beyond"):
        read_client_table(lines("client,y,x a,1,2 a,1,1.1e100"), target="y", features=["x"])


@pytest.mark.parametrize(
    ("text", "columns", "warned"),
    [
        ("k,n 0,47 1,18 2,9", {"client": "k", "count": "n"}, "called by its k"),
        ("k,n 1,47 2,18 5,9", {"client": "k", "count": "n"}, "called by its k"),
        ("k,n 2,47 3,18 4,9", {"client": "k", "count": "n"}, None),
        ("k,n 0,47 2,18 1,9", {"client": "k", "count": "n"}, None),
        ("k,n a,47 b,18", {"client": "k", "count": "n"}, None),
        ("k,n 0,47 00,18 1,9", {"client": "k", "count": "n"}, None),
        ("client,count 0,47 1,18", None, None),
        ("k,n 0,47 1,18", {"count": "n"}, "the number of its row, with k not used"),
        ("n 47 18", {"count": "n"}, None),
        ("k,n,e 0,47,1 1,18,1", {"client": "k", "count": "n", "exposure": "e"}, None),
    ],
)
def test_tables_of_frequencies_are_warned_of(text, columns, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_client_table(lines(text), columns)
    assert [warned in str(w.message) for w in caught] == ([True] if warned else [])
    assert [w.filename for w in caught] == [__file__] * len(caught)  # where it was asked for


@pytest.mark.parametrize(("gap", "taken"), [(1.5e-100, True), (1.3e-100, False), (1e-90, True)])
def test_rows_may_differ_by_as_little_as_has_a_variance_above_the_least(gap, taken):
    """Two rows have the variance gap^2 / 2, which must not be below 1e-200."""
    text = lines(f"client,value a,0 a,{gap!r} b,1")
    if taken:
        assert read_client_table(text).variances == pytest.approx([gap**2 / 4, gap**2 / 2], rel=1e-12, abs=0)
    else:
        with pytest.raises(ValueError, match=r"differences have the variance 8\.45e-201, change the units"):
            read_client_table(text)


def test_whole_numbers_of_parquet_are_rounded_where_they_have_too_many_digits(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = [2**53 + 1, 2**62, 5]
    parquet.write_table(arrow.table({"client": ["a", "a", "b"], "value": values}), tmp_path / "t.parquet")
    table = read_client_table(tmp_path / "t.parquet")
    assert table.estimates == pytest.approx([(2**53 + 2**62) / 2, 5], rel=1e-15)


def test_names_and_their_repetitions():
    assert Names(["a", "b"], np.array([0, 1])).repeated() is None
    assert Names(["a", "b", "c"], np.array([0, 1, 2, 1, 0])).repeated() == (1, 3)
    assert Names(["a"], np.array([0, 0, 0])).repeated() == (0, 1)
    assert shortened("a" * 18) == "a" * 18
    assert shortened("a" * 19) == "a" * 17 + "…"
    assert shortened("abcdef", 3) == "ab…"
    assert printable("a\tb\u202ec") == "a\\tb\\u202ec"
    assert mistake("there", "is 5").untold == "there: cannot be used; what is there is not shown in a private run"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1e5", None), ("-.5", None), ("1_000", "'1_000' is not a number; write it like 0.25"),
        ("", "'' is not a number; drop the row"),
        ("N/A", "write it like 0.25"), ("NULL", "drop the row"), ("-", "drop the row"),
        ("inf", "'inf' is not finite"), ("x" * 40, f"'{'x' * 40}' is not"), ("x" * 41, f"'{'x' * 37}...' is not"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_cell(text, problem):
    found = number_problem(text)
    assert found is None if problem is None else problem in found


def test_places_count_comments_and_empty_lines():
    table = open_table(["# told", "", "# again", "client;a,b;value", "x;1;2", "", "y;3;4", "z;5;6"])
    assert (table.delimiter, table.header, table.first) == (";", ["client", "a,b", "value"], 4)
    assert [table.place(row) for row in range(3)] == ["line 5", "line 7", "line 8"]
    assert table.head == "table, line 4"
    names, columns = table.read(["value"], "client")
    assert (names.labels, columns["value"].tolist()) == (("x", "y", "z"), [2.0, 4.0, 6.0])
    assert table.read(["value"])[0] is None
    with pytest.raises(Untold, match=r"table, line 3: 3 cells under 2 column names"):
        open_table(["client,value", "a,1", "b,2,3"]).read(["value"], "client")
    with pytest.raises(ValueError, match="column 'value' appears twice"):
        open_table(["client,value,Value"])
    with pytest.raises(ValueError, match="has column names but no clients"):
        open_table(["client,value"]).read(["value"], "client")
    with pytest.raises(ValueError, match="its first line must name the columns, either client,value or"):
        read_client_table([""])
    assert open_table(["client,value", "#a,1"]).read(["value"], "client")[0].labels == ("#a",)  # below the header
    with pytest.raises(ValueError, match="path or lines of CSV"):
        open_table(np.array(["client,value", "a,1"]))
    with pytest.raises(ValueError, match="path or lines of CSV"):
        open_table([1, 2])
    with pytest.raises(ValueError, match="columns must be a dict"):
        read_client_table(["client,value"], ["client"])
    with pytest.raises(ValueError, match="columns must hold names"):
        read_client_table(["client,value"], {"client": 1})


def test_the_sign_between_cells_is_the_commonest():
    assert open_table(["client\tvalue", "a\t1"]).delimiter == "\t"
    assert open_table(["client,a;b,value"]).delimiter == ","
    assert open_table(["client;value,b;c"]).delimiter == ";"


def test_progress_is_told_in_rows(monkeypatch):
    monkeypatch.setattr("estimators.tables.table_file.CHUNK", 2)
    told = []
    read_client_table(lines("client,value a,1 a,2 b,3 b,4 b,6"), progress=told.append)
    assert told == [2, 4, 5]
