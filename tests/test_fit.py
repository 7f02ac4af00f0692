"""`borrow fit`: one path for every table, numbers that add up, nothing written when something is wrong."""

import argparse
import csv
import json

import numpy as np
import pytest

from estimators.client_table import read_client_table
from estimators.datasets import efron_morris
from estimators.gaussian import from_samples
from estimators.gaussian_means import GaussianMeans
from figures import shrinkage, style
from figures.commands import SHOWN, add_fit

SUMMARY = "client,mean,variance,n\na,1.0,4.0,4\nb,2.0,4.0,2\nc,6.0,4.0,1\n"


def main(*arguments):
    parser = argparse.ArgumentParser(prog="borrow")
    add_fit(parser.add_subparsers(required=True))
    args = parser.parse_args(["fit", *map(str, arguments)])
    return args.run(args)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text(SUMMARY)
    return path


def written(folder):
    with open(folder / "estimates.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_example_end_to_end(tmp_path, capsys):
    assert main("--example", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    data = efron_morris()
    rows = written(tmp_path)
    assert [row["client"] for row in rows] == list(data.clients)
    assert {path.name for path in tmp_path.iterdir()} == {"estimates.csv", "shrinkage.svg", "shrinkage.png"}
    # 0.0753 is Efron and Morris' total squared error of the raw averages.
    assert "the total squared error was 0.0753 before" in said
    assert "Clemente moved most" in said
    shrunken = np.array([float(row["shrunken"]) for row in rows])
    assert ((shrunken - data.average_rest) ** 2).sum() < 0.0753 / 3


def test_raw_rows_end_to_end(tmp_path, capsys):
    generator = np.random.default_rng(5)
    samples = [generator.normal(i, 1.0, 2 + i) for i in range(5)]
    path = tmp_path / "raw.csv"
    rows = [f"site {i},{value!r}" for i, sample in enumerate(samples) for value in sample.tolist()]
    path.write_text("\n".join(["client,value", *rows]))
    assert main(path, "--out", tmp_path / "out", "--prior", "reml", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    model = GaussianMeans("reml").fit(*from_samples(samples))
    assert [client["shrunken"] for client in found["clients"]] == pytest.approx(model.posterior_mean_, rel=1e-12)
    assert [client["n"] for client in found["clients"]] == [2, 3, 4, 5, 6]
    assert found["tau2"] == pytest.approx(model.tau2_)
    assert found["files"] == [str(tmp_path / "out" / n) for n in ("estimates.csv", "shrinkage.svg", "shrinkage.png")]


def test_file_json_and_model_agree(table, tmp_path, capsys):
    assert main(table, "--out", tmp_path, "--prior", "fixed", "--mu", 2, "--tau2", 1, "--json", "--no-plot") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["centre"] == 2
    assert found["centre_standard_error"] == 0
    assert [client["weight_on_own"] for client in found["clients"]] == pytest.approx([1 / 2, 1 / 3, 1 / 5])
    assert [client["shrunken"] for client in found["clients"]] == pytest.approx([1.5, 2.0, 2.8])
    assert found["moved_most"] == "c"
    assert found["expected_squared_error_before"] == pytest.approx(1 + 2 + 4)
    assert found["expected_squared_error_after"] == pytest.approx(1 / 2 + 2 / 3 + 4 / 5)
    for row, client in zip(written(tmp_path), found["clients"], strict=True):
        assert {key: str(value) for key, value in client.items()} == row
        assert client["high"] - client["low"] == pytest.approx(2 * 1.959964 * client["posterior_sd"], rel=1e-6)
    assert not (tmp_path / "shrinkage.svg").exists()


def test_without_n_the_column_stays_empty(tmp_path, capsys):
    path = tmp_path / "clients.csv"
    path.write_text("client,mean,variance\na,1,1\nb,3,1\n")
    assert main(path, "--out", tmp_path, "--no-plot") == 0
    assert [row["n"] for row in written(tmp_path)] == ["", ""]
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["a", "-"]


def test_no_spread_is_said(tmp_path, capsys):
    path = tmp_path / "clients.csv"
    path.write_text("client,mean,variance\na,1,100\nb,3,100\n")
    assert main(path, "--out", tmp_path, "--no-plot") == 0
    assert "everyone gets the centre" in capsys.readouterr().out


def test_many_clients_are_abridged_on_screen_but_not_in_the_file(tmp_path, capsys):
    path = tmp_path / "many.csv"
    path.write_text("client,mean,variance\n" + "".join(f"client {i},{i % 7},1\n" for i in range(700)))
    assert main(path, "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out.splitlines()
    assert f"... {700 - SHOWN} more in estimates.csv" in said
    assert len(said) < SHOWN + 12
    assert len(written(tmp_path / "out")) == 700
    assert (tmp_path / "out" / "shrinkage.svg").stat().st_size < 1_000_000


def test_the_default_folder_is_named_after_the_file(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(table, "--no-plot") == 0
    assert (tmp_path / "build" / "fit" / "clients" / "estimates.csv").exists()


def test_pictures_are_the_same_bytes(table, tmp_path):
    for folder in ("one", "two"):
        assert main(table, "--out", tmp_path / folder) == 0
    for name in ("estimates.csv", "shrinkage.svg", "shrinkage.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("count", [shrinkage.NAMED, shrinkage.NAMED + 1])
def test_names_are_drawn_as_long_as_they_fit(count):
    names = tuple(f"$x_{i}$ & <{i}>" for i in range(count))
    values = np.arange(float(count))[::-1]
    figure = shrinkage.draw(names, values, values / 2, values / 2 - 1, values / 2 + 1, 0.0)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == (list(names[::-1]) if count <= shrinkage.NAMED else [])
    assert style.render(figure, "svg", "names").startswith(b"<?xml")


MALFORMED = [
    ("client,value\na,1\na,x\n", "line 3, column 'value'.*not a number"),
    ("client,value\na,1\n,2\n", "line 3, column 'client'.*blank"),
    ("client,value\na,1\na,nan\n", "line 3, column 'value'.*not finite"),
    ("client,value\na,1\na,2,3\n", "line 3: 3 cells under 2"),
    ('client,value\na,1\n"a,2\n', "line 3: not valid CSV"),
    ("client,mean\na,1\n", "line 1: missing columns"),
    ("client,mean,mean,variance\na,1,1,1\n", "line 1: column 'mean' appears twice"),
    ("client,mean,variance\na,1,1\na,2,1\n", "line 3, column 'client'.*already in line 2"),
    ("client,mean,variance\na,1,1\nb,2,0\n", "line 3, column 'variance'.*not > 0"),
    ("client,mean,variance,n\na,1,1,2\nb,2,1,1.5\n", "line 3, column 'n'.*whole number"),
    ("", "is empty"),
    ("client,value\n", "no clients"),
    ("client,value\na,1\nb,2\n", "no client has two rows"),
    ("client,mean,variance\na,1,1\n", "at least two clients"),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_tables_are_refused_and_nothing_is_overwritten(text, message, tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text(text)
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "estimates.csv").write_text("before")
    with pytest.raises(ValueError, match=message):
        main(path, "--out", folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"estimates.csv": "before"}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], ValueError, "give one table"),
        (["{table}", "--example"], ValueError, "give one table"),
        (["{table}", "--prior", "fixed"], ValueError, "tau2 must be given"),
        (["{table}", "--tau2", "1"], ValueError, "tau2 must be given for prior='fixed' and left out"),
        (["{table}", "--prior", "fixed", "--tau2", "-1"], ValueError, "tau2 must be >= 0"),
        (["{table}", "--mu", "nan"], ValueError, "mu holds NaN"),
        (["missing.csv"], FileNotFoundError, "missing.csv"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        main(*(argument.format(table=table) for argument in arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["clients.csv"]


def test_the_table_is_the_one_of_the_reader(table, tmp_path):
    main(table, "--out", tmp_path, "--no-plot")
    expected = read_client_table(table)
    assert [float(row["estimate"]) for row in written(tmp_path)] == expected.estimates.tolist()
    assert [float(row["standard_error"]) for row in written(tmp_path)] == np.sqrt(expected.variances).tolist()
