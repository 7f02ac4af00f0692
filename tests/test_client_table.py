"""Reading a practitioner's CSV: what goes in comes out, and every mistake is named with its place."""

import csv
import io
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from estimators.client_table import read_client_table
from estimators.gaussian_means import GaussianMeans

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
    "client,value,mean,variance\n": "line 1: the columns of both forms",
    "client,value,value\n": "line 1: column 'value' appears twice",
    "client,value\na,1\na,2,3\n": "line 3: 3 cells under 2 column names; check for missing or unquoted",
    "client,value\na,1\n\na\n": "line 4: 1 cells under 2",
    "client,value\na,1\na,x\n": "line 3, column 'value': 'x' is not a number",
    "client,value\na,1\na,\n": "line 3, column 'value': '' is not a number",
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
