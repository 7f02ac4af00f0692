"""`borrow fit`: one path for every table, numbers that add up, nothing written when something is wrong."""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
import pytest

from estimators import BetaBinomialRegression, GaussianMeans, SampleMeans
from estimators.closed_forms.gaussian import from_samples
from estimators.fit.models import DATA, MODELS, build, choose, parse_options
from estimators.fit.regressions import least_squares, own_logistic
from estimators.tables.client_table import read_client_table
from estimators.tables.datasets import efron_morris
from figures import shrinkage, style
from figures.fit.command import add_arguments
from figures.fit.report import SHOWN

SUMMARY = "client,mean,variance,n\na,1.0,4.0,4\nb,2.0,4.0,2\nc,6.0,4.0,1\nd,2.0,4.0,4\ne,2.0,4.0,4\n"


def main(*arguments):
    parser = argparse.ArgumentParser(prog="borrow")
    add_arguments(parser.add_subparsers(required=True).add_parser("fit"))
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
    assert {path.name for path in tmp_path.iterdir()} == {"estimates.csv", "shrinkage.svg", "shrinkage.png", ".fit"}
    # 0.0753 is Efron and Morris' total squared error of the raw averages.
    assert "the total squared error was 0.0753 before" in said
    assert "Clemente moved most" in said
    shrunken = np.array([float(row["shrunken"]) for row in rows])
    assert ((shrunken - data.average_rest) ** 2).sum() < 0.0753 / 3
    early = data.hits / data.at_bats
    nearer = (abs(shrunken - data.average_rest) < abs(early - data.average_rest)).sum()
    assert f"{nearer} of 18 estimates came nearer" in said


def test_raw_rows_end_to_end(tmp_path, capsys):
    generator = np.random.default_rng(5)
    samples = [generator.normal(i, 1.0, 2 + i) for i in range(5)]
    path = tmp_path / "raw.csv"
    rows = [f"site {i},{value!r}" for i, sample in enumerate(samples) for value in sample.tolist()]
    path.write_text("\n".join(["client,value", *rows]))
    assert main(path, "--out", tmp_path / "out", "--json", "--no-plot") == 0
    found = json.loads(capsys.readouterr().out)
    statistics = [[f(sample) for sample in samples] for f in (np.mean, lambda x: x.var(ddof=1), len)]
    model = SampleMeans().fit(*statistics)
    assert [client["shrunken"] for client in found["clients"]] == pytest.approx(model.posterior_mean_, rel=1e-9)
    assert [client["standard_error"] for client in found["clients"]] == pytest.approx(model.expected_variances_**0.5)
    assert found["model"] == "sample-means"
    assert main(path, "--out", tmp_path / "out", "--model", "normal", "--prior", "reml", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    model = GaussianMeans("reml").fit(*from_samples(samples))
    assert [client["shrunken"] for client in found["clients"]] == pytest.approx(model.posterior_mean_, rel=1e-12)
    assert [client["n"] for client in found["clients"]] == [2, 3, 4, 5, 6]
    assert found["spread"] == pytest.approx(model.tau2_**0.5)
    assert (found["model"], found["data"], found["n_clients"]) == ("normal", "means", 5)
    assert found["files"] == [str(tmp_path / "out" / n) for n in ("estimates.csv", "shrinkage.svg", "shrinkage.png")]


def test_file_json_and_model_agree(table, tmp_path, capsys):
    assert main(table, "--out", tmp_path, "--prior", "fixed", "--mu", 2, "--tau2", 1, "--json", "--no-plot") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["centre"] == 2
    assert found["prior"]["mean_standard_error"] == 0
    assert [client["weight_on_own"] for client in found["clients"]] == pytest.approx([1 / 2, 1 / 3, 1 / 5, 1 / 2, 1 / 2])
    assert [client["shrunken"] for client in found["clients"]] == pytest.approx([1.5, 2.0, 2.8, 2.0, 2.0])
    assert found["moved_most"] == "c"
    assert found["expected_squared_error_before"] == pytest.approx(1 + 2 + 4 + 1 + 1)
    assert found["expected_squared_error_after"] == pytest.approx(1 / 2 + 2 / 3 + 4 / 5 + 1)
    for row, client in zip(written(tmp_path), found["clients"], strict=True):
        assert {key: str(value) for key, value in client.items()} == row
        assert client["high"] - client["low"] == pytest.approx(2 * 1.959964 * client["posterior_sd"], rel=1e-6)
    assert not (tmp_path / "shrinkage.svg").exists()


def test_without_n_the_column_stays_empty(tmp_path, capsys):
    path = tmp_path / "clients.csv"
    path.write_text("client,mean,variance\na,1,1\nb,3,1\n")
    assert main(path, "--out", tmp_path, "--no-plot", "--prior", "reml") == 0
    assert [row["n"] for row in written(tmp_path)] == ["", ""]
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["a", "-"]


@pytest.mark.parametrize("model", ["normal", "point-normal", "npmle", "points"])
def test_equal_estimates_move_nowhere(model, tmp_path, capsys):
    path = tmp_path / "clients.csv"
    path.write_text("client,mean,variance\na,1,1\nb,1,1\nc,1,1\nd,1,1\n")
    assert main(path, "--out", tmp_path, "--model", model) == 0
    said = capsys.readouterr().out
    assert "moved most" not in said
    assert "nan" not in said
    # An average over what the data leave open keeps some spread.
    assert ("everyone gets the centre" in said) == (model not in ("normal", "point-normal"))


def test_no_spread_is_said(tmp_path, capsys):
    path = tmp_path / "clients.csv"
    path.write_text("client,mean,variance\na,1,100\nb,3,100\n")
    assert main(path, "--out", tmp_path, "--no-plot", "--prior", "reml") == 0
    assert "everyone gets the centre" in capsys.readouterr().out


def test_many_clients_are_abridged_on_screen_but_not_in_the_file(tmp_path, capsys):
    path = tmp_path / "many.csv"
    path.write_text("client,mean,variance\n" + "".join(f"client {i},{i % 7},1\n" for i in range(700)))
    assert main(path, "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out.splitlines()
    assert f"... {700 - SHOWN} more in estimates.csv" in said
    assert len(said) < SHOWN + 14
    assert len(written(tmp_path / "out")) == 700
    assert (tmp_path / "out" / "shrinkage.svg").stat().st_size < 1_000_000


def test_the_default_folder_is_named_after_the_file(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(table, "--no-plot") == 0
    assert (tmp_path / "build" / "fit" / "clients" / "estimates.csv").exists()


def test_files_of_the_same_name_keep_their_own_outputs(tmp_path, monkeypatch):
    here = tmp_path / "here"
    files = [
        here / "clients.csv",
        here / "a" / "clients.csv",
        tmp_path / "b" / "clients.csv",
        tmp_path / "c" / "clients.csv",
    ]
    files.append(here / "clients")  # the same name but for its ending
    for i, path in enumerate(files):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SUMMARY.replace("6.0", f"{6 + i}.0"))
    monkeypatch.chdir(here)
    for path in files:
        assert main(path, "--no-plot") == 0
    found = [path.read_text() for path in here.glob("build/fit/**/estimates.csv")]
    assert sorted(text.split("c,1,")[1][:3] for text in found) == ["10.", "6.0", "7.0", "8.0", "9.0"]
    assert main("a/../clients.csv", "--no-plot") == 0  # the same file by another way
    assert len(list(here.glob("build/fit/**/estimates.csv"))) == 5


def test_outputs_of_another_file_are_not_overwritten(table, tmp_path, capsys):
    out, other = tmp_path / "out", tmp_path / "b" / "clients.csv"
    other.parent.mkdir()
    other.write_text(SUMMARY.replace("6.0", "9.0"))
    assert main(table, "--out", out, "--no-plot") == 0
    before = (out / "estimates.csv").read_bytes()
    for arguments, whose in (([other], "clients.csv elsewhere"), (["--example"], "clients.csv")):
        with pytest.raises(ValueError, match=f"out holds the fit of {whose}; give another --out"):
            main(*arguments, "--out", out)
    assert (out / "estimates.csv").read_bytes() == before
    (tmp_path / "moved").mkdir()
    table = table.rename(tmp_path / "moved" / "clients.csv")  # both together
    out = out.rename(tmp_path / "moved" / "out")
    assert main(tmp_path / "b" / ".." / "moved" / "clients.csv", "--out", out, "--prior", "reml", "--no-plot") == 0
    assert (out / "estimates.csv").read_bytes() != before
    (out / ".fit").unlink()
    with pytest.raises(ValueError, match=r"out holds estimates\.csv, which is of no fit that is known; move it"):
        main(table, "--out", out)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full"])
@pytest.mark.parametrize("name", [None, "a.csv", "a.parquet"])
def test_a_device_is_not_read_without_end(device, name, tmp_path):
    path = device
    if name is not None:
        path = tmp_path / name
        path.symlink_to(device)
    with pytest.raises(ValueError, match="is a device, which may have no end; give a file or a pipe"):
        main(path, "--out", tmp_path / "out")


def test_files_of_an_earlier_fit_do_not_stay(raw, tmp_path, capsys):
    """A picture of raw data beside the estimates of a private fit would tell what the fit hides."""
    out = tmp_path / "out"
    assert main(raw, "--out", out) == 0
    (out / "mine.txt").write_text("kept")
    capsys.readouterr()
    assert main(raw, "--out", out, "--eps", 2, "--bounds", 0, 10, "--no-plot") == 0
    assert {path.name for path in out.iterdir()} == {"estimates.csv", "mine.txt", ".fit"}
    assert "removed, because an earlier fit made them: " in capsys.readouterr().out


def test_a_full_disk_names_the_file(table, tmp_path, monkeypatch):
    from estimators.system import files

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left") as caught:
        main(table, "--out", tmp_path / "out", "--no-plot")
    assert caught.value.filename == str(tmp_path / "out" / "estimates.csv")
    assert not list((tmp_path / "out").iterdir())
    with pytest.raises(OSError, match="No space left") as caught:
        files.write(tmp_path / "ledger.json", "{}")
    assert caught.value.filename == str(tmp_path / "ledger.json")


def test_names_cannot_steer_the_terminal(tmp_path, capsys):
    path = tmp_path / "clients.csv"
    path.write_text('client,mean,variance\n"a\nb",1,1\n\x1b[2Jc,9,1\nd,3,1\ne,4,1\n')
    assert main(path, "--no-plot", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert "\\x1b[2Jc" in said
    assert "a\\nb" in said
    assert "\x1b" not in said
    assert written(tmp_path)[1]["client"] == "\x1b[2Jc"


FREQUENCIES = "z,count\n0,10\n1,20\n2,8\n3,4\n5,1\n"


@pytest.mark.parametrize(
    ("text", "flags", "warned"),
    [
        (FREQUENCIES, ["--client", "z"], True),
        (FREQUENCIES, ["--count", "count"], True),
        (FREQUENCIES.replace("z", "client"), [], False),  # who calls them clients means clients
        (FREQUENCIES.replace("\n0,", "\nward 0,"), ["--client", "z"], False),
        (FREQUENCIES.replace("\n0,", "\n107,"), ["--client", "z"], False),
        (FREQUENCIES.replace("z,count", "z,count,exposure").replace("0\n", "0,1\n").replace("8\n", "8,1\n")
         .replace("4\n", "4,1\n").replace(",1\n5,1\n", ",1\n5,1,1\n"), ["--client", "z"], False),
    ],
)  # fmt: skip
def test_a_table_of_frequencies_is_not_taken_for_clients_without_a_word(text, flags, warned, tmp_path, capsys):
    path = tmp_path / "counts.csv"
    path.write_text(text)
    assert main(path, *flags, "--no-plot", "--out", tmp_path) == 0
    assert ("the table is one of frequencies" in capsys.readouterr().out) == warned


def test_pictures_are_the_same_bytes(table, tmp_path):
    for folder in ("one", "two"):
        assert main(table, "--out", tmp_path / folder) == 0
    for name in ("estimates.csv", "shrinkage.svg", "shrinkage.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def outcome_of(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser.add_subparsers().add_parser("fit"))
    args = parser.parse_args(["fit", *map(str, arguments)])
    from figures.fit import command

    return command.fit(args, read_client_table(args.file))


@pytest.mark.parametrize("count", [4, shrinkage.NAMED, shrinkage.NAMED + 1, 6000])
def test_names_are_drawn_as_long_as_they_fit(count, tmp_path):
    names = [f"$x_{i}$ & <{i}>" for i in range(count)]
    path = tmp_path / "clients.csv"
    path.write_text("client,mean,variance\n" + "".join(f"{name},{i % 97},{1 + i % 3}\n" for i, name in enumerate(names)))
    figure = shrinkage.picture(outcome_of(path))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert (set(labels) == set(names)) == (count <= shrinkage.NAMED)
    assert len(figure.axes) == (1 if count <= shrinkage.NAMED else 2)
    assert len(style.render(figure, "svg", "names")) < 1_000_000


def test_what_came_out_since_stands_in_the_row_of_its_client():
    own = np.array([3.0, 1.0, 2.0])
    figure = shrinkage.draw("cab", own, own, own - 1, own + 1, 2.0, truth=("what came out", own + 0.25))
    marks = [line for line in figure.axes[0].get_lines() if line.get_marker() == "|"]
    assert len(marks) == 1
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert {rows[int(y)]: x for x, y in marks[0].get_xydata()} == {"c": 3.25, "a": 1.25, "b": 2.25}
    assert "what came out" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_pictures_of_equal_clients_and_of_clients_without_own_estimates():
    values = np.full(100, 2.0)
    style.render(shrinkage.draw_many(values, values, 2.0), "png", "equal")
    own = np.array([np.nan, 1.0])
    style.render(shrinkage.draw(("a", "b"), own, own * 0 + 1, own * 0, own * 0 + 2, 1.0), "png", "missing")


# --- covariates ------------------------------------------------------------------------------------------------------

WARDS = (
    "client,estimate,se,age,town\na,1,.5,30,Ulm\nb,2,.7,40,Bonn\nc,6,.5,70,Ulm\nd,2.5,1,45,Kiel\ne,3,.3,50,Bonn\n"
    "f,5,.4,62,Kiel\n"
)


def test_covariates_of_numbers_and_words(tmp_path, capsys):
    path = tmp_path / "wards.csv"
    path.write_text(WARDS)
    assert main(path, "--out", tmp_path, "--covariates", "Age,town", "--no-plot") == 0
    said = capsys.readouterr().out
    age = np.array([30, 40, 70, 45, 50, 62.0])
    town = np.array([[town == name for name in ("Kiel", "Ulm")] for town in ("Ulm", "Bonn", "Ulm", "Kiel", "Bonn", "Kiel")])
    y, se = np.array([1, 2, 6, 2.5, 3, 5]), np.array([0.5, 0.7, 0.5, 1, 0.3, 0.4])
    model = GaussianMeans().fit(y, se**2, np.column_stack([age, town.astype(float)]))
    assert [float(row["shrunken"]) for row in written(tmp_path)] == pytest.approx(model.posterior_mean_, rel=1e-9)
    assert "true values are normal around what covariates predict" in said
    (low, high), *_ = model.prior_interval()["slopes"]
    assert f"One more in age goes with {model.beta_[0]:+.4g} (95% interval [{low:.4g}, {high:.4g}])." in said
    assert "One more in town=Kiel goes with" in said
    assert "town=Bonn" not in said
    assert "of its distance to what its covariates predict" in said


def test_a_picture_marks_what_covariates_predict_of_each_client(tmp_path):
    path = tmp_path / "wards.csv"
    path.write_text(WARDS)
    assert main(path, "--out", tmp_path, "--covariates", "age", "--no-plot") == 0
    predicted = {row["client"]: float(row["predicted"]) for row in written(tmp_path)}
    model = GaussianMeans().fit([1, 2, 6, 2.5, 3, 5], np.array([0.5, 0.7, 0.5, 1, 0.3, 0.4]) ** 2, [30, 40, 70, 45, 50, 62])
    assert list(predicted.values()) == pytest.approx(model.prior_mean_, rel=1e-9)
    names = tuple(predicted)
    own, centre = np.array([3.0, 1, 2, 0, 4, 5]), np.array(list(predicted.values()))
    figure = shrinkage.draw(names, own, (own + centre) / 2, own - 1, own + 1, centre)
    (marks,) = [line for line in figure.axes[0].get_lines() if line.get_marker() == "D"]
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert {rows[int(y)]: x for x, y in marks.get_xydata()} == predicted
    assert "predicted by covariates" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_many_clients_with_covariates_are_seen_from_what_these_predict():
    generator = np.random.default_rng(3)
    centre, off = generator.normal(size=200), generator.normal(size=200)
    figure = shrinkage.draw_many(centre + off, centre + off / 4, centre)
    points = next(line for line in figure.axes[1].get_lines() if line.get_marker() == ".").get_xydata()
    assert points[:, 0] == pytest.approx(4 * points[:, 1], abs=1e-12)
    assert len(points) == 200
    assert "less predicted" in figure.axes[1].get_xlabel()


def test_covariates_of_counts(tmp_path, capsys):
    path = tmp_path / "counts.csv"
    x, n, age = [1, 4, 3, 9, 14, 12, 19], [20, 25, 18, 22, 30, 19, 24], [30, 35, 41, 48, 55, 61, 70]
    rows = "".join(f"c{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(zip(x, n, age, strict=True)))
    path.write_text(f"client,successes,trials,age\n{rows}")
    assert main(path, "--out", tmp_path, "--covariates", "age", "--no-plot") == 0
    said = capsys.readouterr().out
    model = BetaBinomialRegression().fit(x, n, age)
    assert f"One more in age goes with {model.prior_summary()['slopes'][0]:+.4g} in the log-odds" in said
    assert [float(row["shrunken"]) for row in written(tmp_path)] == pytest.approx(model.posterior_mean_, rel=1e-9)
    path.write_text(f"client,count,exposure,age\n{rows}")
    assert main(path, "--out", tmp_path, "--covariates", "age", "--no-plot") == 0
    assert "in the logarithm of the rate" in capsys.readouterr().out


COUNTED, OUT_OF, AGES = [1, 4, 3, 9, 14, 12, 19], [20, 25, 18, 22, 30, 19, 24], [30, 35, 41, 48, 55, 61, 70]
SEPARATE = "covariates separate clients with nothing but zeros"


def counts_fitted(head, folder, x, size, columns):
    """Run a fit of counts with covariates, {name: column}, and return its exit status."""
    (path := folder / "counts.csv").write_text(
        "\n".join([",".join([head, *columns]), *(f"c{i},{','.join(map(str, row))}" for i, row in
                   enumerate(zip(x, size, *columns.values(), strict=True)))])
    )  # fmt: skip
    return main(path, "--out", folder / "out", "--covariates", ",".join(columns), "--no-plot")


@pytest.mark.parametrize("head", ["client,successes,trials", "client,count,exposure"])
@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (
            (COUNTED, OUT_OF),
            {"age": [30, "", *AGES[2:]]},
            "line 3, column 'age': '' is not a number; drop the row or fill in",
        ),
        ((COUNTED, OUT_OF), {f"c{i}": [j**i for j in range(7)] for i in range(1, 9)}, "fewer covariates, or more clients"),
        ((COUNTED, OUT_OF), {"town": list("abcdefg")}, "covariates leave 7 coefficients to learn"),
        ((COUNTED[:3], OUT_OF[:3]), {"age": AGES[:3], "b": [1, 0, 5]}, "needs 4 clients with data or more, and there are 3"),
        (([0, 0, 0, 9, 14, 12, 19], OUT_OF), {"ward": [0, 0, 0, 1, 1, 1, 1]}, SEPARATE),
        (([0, 0, 0, 9, 14, 12, 19], OUT_OF), {"ward": list("aaabbcc")}, SEPARATE),
        (([0] * 7, OUT_OF), {"age": AGES}, "holds zeros only.*'marginal-likelihood'\\) fits"),
    ],
)
def test_counts_that_covariates_cannot_explain_are_named(head, rows, columns, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        counts_fitted(head, tmp_path, *rows, columns)
    assert not (tmp_path / "out" / "estimates.csv").exists()


@pytest.mark.parametrize("head", ["client,successes,trials", "client,count,exposure"])
@pytest.mark.parametrize(
    ("rows", "columns", "said"),
    [
        ((COUNTED, OUT_OF), {"age": AGES, "twice": [2 * a for a in AGES]}, "'twice' left out: constant, or a combination"),
        ((COUNTED, OUT_OF), {"age": [5] * 7}, "'age' left out: constant"),
        ((COUNTED, OUT_OF), {"age": [1e9 + a for a in AGES]}, "One more in age goes with"),
        ((COUNTED[:3], OUT_OF[:3]), {"age": AGES[:3]}, "One more in age goes with"),
        (([0, 0, 1, 0, 1, 1, 1], [1] * 7), {"age": AGES}, "One more in age goes with"),
    ],
)
def test_counts_that_covariates_hardly_explain_are_answered(head, rows, columns, said, tmp_path, capsys):
    assert counts_fitted(head, tmp_path, *rows, columns) == 0
    out = capsys.readouterr().out
    assert said in out
    one = rows[1][0] == 1 and "trials" in head
    assert ("trials is 1 for all clients, and one trial each cannot tell how far clients of equal" in out) == one
    found = np.array([[float(row[name]) for name in ("shrunken", "low", "high")] for row in written(tmp_path / "out")])
    assert np.isfinite(found).all()
    assert (found[:, 1] < found[:, 0]).all()
    assert (found[:, 0] < found[:, 2]).all()


def test_successes_only_of_clients_with_covariates(tmp_path):
    with pytest.raises(ValueError, match="holds successes only"):
        counts_fitted("client,successes,trials", tmp_path, OUT_OF, OUT_OF, {"age": AGES})
    with pytest.raises(ValueError, match=SEPARATE):
        counts_fitted("client,successes,trials", tmp_path, [0, 0, 0, 1, 1, 1, 1], [1] * 7, {"age": AGES})


def test_covariates_of_raw_rows_are_one_per_client(tmp_path, capsys):
    path, rows = tmp_path / "rows.csv", ["client,value,age"]
    generator = np.random.default_rng(1)
    for i in range(8):
        rows += [f"c{i},{generator.normal(i)},{i}" for _ in range(4)]
    path.write_text("\n".join(rows))
    assert main(path, "--out", tmp_path / "out", "--covariates", "age", "--no-plot", "--json") == 0
    assert json.loads(capsys.readouterr().out)["prior"]["slopes"][0] == pytest.approx(1, abs=0.5)
    path.write_text("\n".join([*rows, "c0,1,5"]))
    with pytest.raises(ValueError, match="line 34, column 'age': differs from an earlier row of 'c0'"):
        main(path, "--out", tmp_path / "out", "--covariates", "age", "--no-plot")


@pytest.mark.parametrize(
    ("covariates", "more", "message"),
    [
        ("weight", [], "no column 'weight' \\(a covariate\\)"),
        ("se", [], "named twice"),
        ("age,age", [], "named twice"),
        (",", [], "--covariates must name columns"),
        ("age", ["--model", "npmle"], "takes no --covariates; use --model normal"),
        ("age", ["--eps", "1"], "no private version"),
        ("age,town,half", [], "--covariates leave 5 coefficients to learn"),
        ("gap", [], "line 3, column 'gap': '' is not a number; drop the row or fill in"),
        ("mixed", [], "column 'mixed': 'x' is not a number"),
        ("same", [], "the same word for every client"),
    ],
)
def test_bad_covariates_are_named(covariates, more, message, tmp_path):
    path = tmp_path / "wards.csv"
    extra = ["half,gap,mixed,same", "1,1,1,u", "2,,2,u", "1,3,x,u", "5,4,4,u", "3,1,5,u"]
    path.write_text("\n".join(f"{a},{b}" for a, b in zip(WARDS.splitlines(), extra, strict=False)))
    with pytest.raises(ValueError, match=message):
        main(path, "--out", tmp_path / "out", "--covariates", covariates, "--no-plot", *more)


def test_a_covariate_that_says_nothing_is_noted_by_its_name(tmp_path, capsys):
    path = tmp_path / "wards.csv"
    head, *lines = WARDS.splitlines()
    path.write_text("\n".join([f"{head},twice", *(f"{line},{2 * float(line.split(',')[3])}" for line in lines)]))
    assert main(path, "--out", tmp_path / "out", "--covariates", "age,twice", "--no-plot") == 0
    said = capsys.readouterr().out
    assert "Note: 'twice' left out: constant, or a combination" in said
    assert "One more in twice" not in said


# --- models ----------------------------------------------------------------------------------------------------------

TABLES = {
    "means": "client,estimate,se\na,1,0.5\nb,2,0.7\nc,6,0.5\nd,2.5,1\ne,3,0.3\n",
    "binomial": "client,successes,trials\na,1,20\nb,12,30\nc,0,5\nd,9,11\ne,5,12\n",
    "poisson": "client,count,exposure\na,1,2\nb,12,3\nc,0,0.5\nd,9,2\ne,40,7\n",
}


def table_for(kind):
    """A table that the model takes."""
    if kind.name == "sample-means":
        return "client,mean,variance,n\na,1,2,8\nb,2,5,9\nc,6,1,5\nd,2.5,4,3\ne,3,1,10\n"
    return TABLES[kind.data]


@pytest.fixture
def regressions(tmp_path):
    rng = np.random.default_rng(1)
    path, rows = tmp_path / "regressions.csv", ["client,y,label,x1,x2"]
    for i in range(25):
        slope = rng.normal([2.0, -1.0, 0.5], [1.0, 0.7, 0.2])
        for _ in range(2 + i % 12):
            x = rng.normal(size=2)
            y = slope[0] + slope[1] * x[0] + slope[2] * x[1] + rng.normal()
            rows.append(f"s{i},{y},{int(y > 2)},{x[0]},{x[1]}")
    path.write_text("\n".join(rows))
    return path


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: f"{kind.data}-{kind.name}")
def test_every_model_runs_and_says_what_it_assumes(kind, tmp_path, capsys, regressions):
    path = tmp_path / "clients.csv"
    arguments = ["--model", kind.name, "--out", tmp_path / "out"]
    if kind.data == "regression":
        path, target = regressions, "label" if kind.name == "logistic" else "y"
        arguments += ["--target", target, "--features", "x1,x2"]
    else:
        path.write_text(table_for(kind))
    status = main(path, *arguments)
    said = capsys.readouterr().out
    assert status == 0, said
    assert f"Model {kind.name}: {kind.assumes}." in said
    assert "moved most" in said
    rows = written(tmp_path / "out")
    assert len(rows) == (25 * 3 if kind.data == "regression" else 5)
    for row in rows:
        low, shrunken, high = (float(row[name]) for name in ("low", "shrunken", "high"))
        assert low <= high
        # A posterior of a few points may hold 97.5 % in one of them; then that is the interval, and the mean beside it.
        assert low - 1e-9 <= shrunken <= high + 1e-9 or kind.name in ("npmle", "points")
    assert main(path, *arguments, "--json", "--no-plot") == 0
    assert json.loads(capsys.readouterr().out)["model"] == kind.name


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind.data != "regression"], ids=lambda k: f"{k.data}-{k.name}")
def test_groups_centre_and_spread_are_those_of_the_prior(kind, tmp_path, capsys):
    path = tmp_path / "clients.csv"
    path.write_text(table_for(kind))
    outcome = outcome_of(path, "--model", kind.name)
    groups = outcome.groups()
    # The mean of the posterior means is that of the prior at its maximum likelihood, or close to it.
    assert outcome.centre == pytest.approx(outcome.mean.mean(), rel=0.2)
    assert outcome.spread > 0
    if groups:
        assert sum(share for share, _, _ in groups) == pytest.approx(1)
        assert [share for share, _, _ in groups] == sorted((share for share, _, _ in groups), reverse=True)
        assert sum(share * mean for share, mean, _ in groups) == pytest.approx(outcome.centre)
        second = sum(share * (sd**2 + mean**2) for share, mean, sd in groups)
        assert second - outcome.centre**2 == pytest.approx(outcome.spread**2, rel=1e-6)
    assert bool(groups) == (kind.name in ("npmle", "mixture", "points", "point-normal"))


@pytest.mark.parametrize("data", TABLES)
def test_the_default_model_is_the_first_of_its_data(data, tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text(TABLES[data])
    table = read_client_table(path)
    assert choose("auto", table) is next(kind for kind in MODELS if kind.data == data)
    assert set(DATA) == {kind.data for kind in MODELS}


def test_numbers_are_those_of_the_class(tmp_path, capsys):
    from estimators import BetaBinomial

    path = tmp_path / "clients.csv"
    path.write_text(TABLES["binomial"])
    assert main(path, "--json", "--no-plot", "--level", 0.8, "--out", tmp_path) == 0
    found = json.loads(capsys.readouterr().out)
    model = BetaBinomial().fit([1, 12, 0, 9, 5], [20, 30, 5, 11, 12])
    low, high = model.interval(0.8)
    for name, expected in (("shrunken", model.posterior_mean_), ("low", low), ("high", high)):
        assert [client[name] for client in found["clients"]] == pytest.approx(expected.tolist())
    assert found["log_likelihood"] == pytest.approx(model.log_likelihood_)


def test_regression_rows_are_one_per_coefficient(regressions, tmp_path, capsys):
    from estimators import LinearClients

    flags = ("--target", "y", "--features", "x1,x2", "--json", "--out", tmp_path / "out")
    assert main(regressions, *flags) == 0
    found = json.loads(capsys.readouterr().out)
    table = read_client_table(regressions, target="y", features=["x1", "x2"])
    model = LinearClients().fit(table.designs, table.targets)
    assert [row["coefficient"] for row in found["clients"][:4]] == ["intercept", "x1", "x2", "intercept"]
    assert [row["shrunken"] for row in found["clients"]] == pytest.approx(model.posterior_mean_.ravel().tolist())
    assert found["moved_most_coefficient"] in table.features
    few = next(i for i, y in enumerate(table.targets) if len(y) == 2)
    assert found["clients"][3 * few]["estimate"] is None


@pytest.fixture
def classes(tmp_path):
    """Pupils of two classes in each of eight schools, which every school calls a and b; what hours do is the same in all."""
    rng = np.random.default_rng(3)
    path, rows = tmp_path / "pupils.csv", ["Score,Passed,Hours,Class,School"]
    for school in range(8):
        of_school = rng.normal(0, 2)
        for name in "ab":
            of_class = of_school + rng.normal(0, 1)
            for hours in rng.uniform(0, 4, 7):
                score = 5 + of_class + 1.5 * hours + rng.normal()
                rows.append(f"{score},{int(score > 8)},{hours},{name},s{school}")
    path.write_text("\n".join(rows))
    return path


def test_classes_in_schools(classes, tmp_path, capsys):
    from estimators import LinearClients, LogisticClients

    flags = ["--client", "class", "--group", "School", "--features", "hours", "--shared", "hours", "--out", tmp_path / "out"]
    table = read_client_table(classes, {"client": "class"}, "score", ["hours"], group="school")
    assert table.clients[:3] == ("s0/a", "s0/b", "s1/a")
    assert table.groups is not None
    assert table.groups[:3] == ("s0", "s0", "s1")
    assert main(classes, *flags, "--target", "score", "--rank") == 0
    said = capsys.readouterr().out
    model = LinearClients(shared=[1]).fit(table.designs, table.targets, table.groups)
    within, between = np.sqrt(model.covariance_[0, 0]), np.sqrt(model.group_covariance_[0, 0])
    assert f"intercept around {model.mu_[0]:.4g}, sd {within:.4g} within one School and {between:.4g} from one to" in said
    error = np.sqrt(model.mu_covariance_[1, 1])
    assert f"The same for all clients: hours {model.mu_[1]:.4g} (standard error {error:.2g})." in said
    best = table.groups[2 * int(np.argmax(model.group_mean_[:, 0]))]
    assert f"highest in {best} ({model.group_mean_[:, 0].max():.4g}), of 8" in said
    assert main(classes, *flags, "--target", "passed", "--json", "--no-plot") == 0
    found = json.loads(capsys.readouterr().out)
    table = read_client_table(classes, {"client": "class"}, "passed", ["hours"], group="school")
    model = LogisticClients(shared=[1]).fit(table.designs, table.targets, table.groups)
    assert [row["shrunken"] for row in found["clients"]] == pytest.approx(model.posterior_mean_.ravel().tolist())
    assert {row["weight_on_own"] for row in found["clients"][1::2]} == {None}
    assert found["moved_most_coefficient"] == "intercept"
    assert found["prior"]["sd_between_groups"] == pytest.approx(np.sqrt(np.diag(model.group_covariance_)).tolist())


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ["--features", "hours", "--shared", "size"],
            "--shared names 'size', which is no feature; those are intercept, hours",
        ),
        (["--features", "hours", "--shared", "intercept,hours"], "--shared must leave a coefficient that varies"),
        (["--features", "hours", "--group", "district"], r"no column 'district' \(the group\)"),
        (["--features", "hours", "--group", "class"], "'class' is named twice among client, group, target and features"),
        (["--features", "hours,passed", "--group", "hours"], "'hours' is named twice among client, group"),
        (["--features", "hours", "--shared", "hours", "--with", "shared=1"], "given twice, by --shared and by --with"),
    ],
)
def test_groups_and_shared_features_that_cannot_be(classes, flags, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        main(classes, "--client", "class", "--target", "score", *flags, "--out", tmp_path / "out")
    with pytest.raises(ValueError, match="--group is for regressions; give --target and --features too"):
        main(classes, "--client", "class", "--value", "score", "--group", "school", "--out", tmp_path / "out")


def test_separated_labels_are_named_by_their_column(classes, tmp_path):
    lines = classes.read_text().splitlines()
    rare = [f"{line},{int(j % 9 == 0)}" for j, line in enumerate(lines[1:])]
    rare = [line.replace(",0,", ",1,", 1) if line.endswith(",1") else line for line in rare]
    classes.write_text("\n".join([f"{lines[0]},gifted", *rare]))
    flags = ["--client", "class", "--target", "passed", "--features", "hours,gifted", "--shared", "hours,gifted"]
    with pytest.raises(ValueError, match=r"^the target has labels that 'gifted' separates: .* leave out a feature"):
        main(classes, *flags, "--prior", "penalised", "--out", tmp_path / "out")
    assert main(classes, *flags, "--no-plot") == 0  # the law of the centre bounds it


def test_least_squares_of_one_client():
    X = np.column_stack([np.ones(4), [0.0, 1.0, 2.0, 3.0]])
    found, error = least_squares(X, np.array([1.0, 3.0, 5.0, 7.0]))
    np.testing.assert_allclose(found, [1.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(error, 0.0, atol=1e-12)
    assert np.isnan(least_squares(X[:1], np.ones(1))[0]).all()
    assert np.isnan(least_squares(X[:2], np.ones(2))[1]).all()
    assert np.isnan(least_squares(np.ones((5, 2)), np.ones(5))[0]).all()


def test_own_logistic_regression_is_the_most_likely_one():
    from scipy.optimize import minimize

    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(60), 3 * rng.normal(size=60)])
    y = (rng.random(60) < 1 / (1 + np.exp(-X @ [0.5, 1.0]))).astype(float)
    found, error = own_logistic(X, y)

    def slope(t):
        return X.T @ (1 / (1 + np.exp(-X @ t)) - y)

    best = minimize(lambda t: np.sum(np.logaddexp(0, X @ t) - y * (X @ t)), np.zeros(2), jac=slope, tol=1e-12)
    np.testing.assert_allclose(found, best.x, rtol=1e-4)
    curvature = [(slope(found + step) - slope(found - step)) / 2e-4 for step in 1e-4 * np.eye(2)]
    np.testing.assert_allclose(error, np.sqrt(np.diag(np.linalg.inv(curvature))), rtol=1e-5)
    assert np.isnan(own_logistic(X, np.ones(60))[0]).all()
    assert np.isnan(own_logistic(X, (X[:, 1] > 0.3).astype(float))[0]).all()  # separated
    assert np.isnan(own_logistic(X[:1], y[:1])[0]).all()
    assert [part.size for part in own_logistic(X[:, :0], y)] == [0, 0]


def test_options_of_models():
    assert parse_options(["k=3", "components=points", "x=None", "y=1e-3"]) == {
        "k": 3,
        "components": "points",
        "x": None,
        "y": 1e-3,
    }
    normal = MODELS[0]
    assert build(normal, {"prior": "fixed", "mu": None, "tau2": 2.0}).get_params() == {
        "prior": "fixed",
        "mu": None,
        "tau2": 2.0,
        "hyperprior": "strawderman",
    }
    with pytest.raises(ValueError, match="--model normal has no option 'k'; its options are: prior, mu, tau2"):
        build(normal, {"k": 2})
    with pytest.raises(ValueError, match="--with k: write it as NAME=VALUE"):
        parse_options(["k"])


def test_parquet_in(tmp_path, capsys):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"who": list("abcd"), "m": [1.0, 2.0, 6.0, 3.0], "v": [1.0, 2.0, 4.0, 1.0]})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert main(tmp_path / "t.parquet", "--client", "who", "--mean", "m", "--variance", "v", "--out", tmp_path) == 0
    assert "c moved most" in capsys.readouterr().out


# --- privacy ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def raw(tmp_path):
    rng = np.random.default_rng(3)
    path = tmp_path / "raw.csv"
    rows = [f"ward {w},{value:.4f}" for w in range(8) for value in rng.normal(4 + w % 3, 1.0, 40 + 10 * w)]
    path.write_text("\n".join(["client,value", *rows]))
    return path


def numbers_in(folder):
    return {cell for row in written(folder) for cell in row.values()}


@pytest.mark.parametrize("local", [False, True])
def test_private_fits_say_their_guarantee_and_hold_nothing_raw(local, raw, tmp_path, capsys):
    flags = ["--eps", 2, "--bounds", 0, 10, "--seed", 5, "--out", tmp_path / "out", *(["--local"] if local else [])]
    assert main(raw, *flags) == 0
    said = capsys.readouterr()
    protects = "all rows of one client take any other values" if local else "one row of a client takes any other value"
    promise = "eps=2, delta=0 (staircase)"
    assert f"Privacy: 8 clients: simulated, no guarantee; the system's entropy would give {promise}: {protects}" in said.out
    assert "experiments only" in said.err
    table = read_client_table(raw)
    private = numbers_in(tmp_path / "out")
    assert not private & {str(value) for value in (*table.estimates.tolist(), *table.variances.tolist())}
    # The same seed gives the same reports, another one others.
    first = (tmp_path / "out" / "estimates.csv").read_bytes()
    assert main(raw, *flags, "--no-plot") == 0
    assert (tmp_path / "out" / "estimates.csv").read_bytes() == first
    assert main(raw, *flags, "--no-plot", "--seed", 6) == 0
    assert (tmp_path / "out" / "estimates.csv").read_bytes() != first


def test_private_output_depends_on_the_reports_alone(raw, tmp_path):
    """Rows that are clipped to the same reports leave no trace."""
    text = raw.read_text()
    raw.write_text(text + "\nward 0,11.0")
    flags = ["--eps", 1, "--bounds", 0, 10, "--seed", 1, "--sigma2", 1, "--out"]
    assert main(raw, *flags, tmp_path / "a") == 0
    raw.write_text(text + "\nward 0,12345.0")
    assert main(raw, *flags, tmp_path / "b") == 0
    for name in ("estimates.csv", "shrinkage.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_private_rates(tmp_path, capsys):
    path = tmp_path / "clients.csv"
    path.write_text("client,successes,trials\n" + "".join(f"s{i},{10 + 7 * (i % 5)},{60 + i}\n" for i in range(20)))
    assert main(path, "--eps", 1, "--seed", 2, "--json", "--no-plot", "--out", tmp_path / "out") == 0
    found = json.loads(capsys.readouterr().out)
    assert "would give eps=1, delta=0 (discrete-laplace): one row of a client" in found["privacy"][0]
    assert [client["n"] for client in found["clients"]] == [60 + i for i in range(20)]
    own = [client["estimate"] for client in found["clients"]]
    assert np.mean(own) == pytest.approx(24 / 69.5, abs=0.05)
    assert main(path, "--eps", 1, "--no-plot", "--out", tmp_path / "out") == 0  # noise of the operating system


def notes_of(capsys, *arguments):
    assert main(*arguments, "--json", "--no-plot") == 0
    return json.loads(capsys.readouterr().out)["notes"]


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((0, 10), None),
        ((-5, 15), None),
        ((100, 200), "at the lower end of --bounds 100 200"),
        ((-20, -10), "at the upper end of --bounds -20 -10"),
        ((0, 1000), "at the lower end of --bounds 0 1000"),
        ((4.9, 5.1), "as if most were at the two ends of --bounds 4.9 5.1"),
    ],
)
def test_bounds_that_clip_most_values_are_remarked_from_the_reports(bounds, said, raw, tmp_path, capsys):
    notes = notes_of(capsys, raw, "--eps", 5, "--bounds", *bounds, "--seed", 1, "--out", tmp_path)
    clipped = [note for note in notes if "clipped" in note]
    assert len(clipped) == bool(said)
    assert not said or said in clipped[0]


def test_notes_on_clipping_depend_on_the_reports_alone(raw, tmp_path, capsys):
    flags = ["--eps", 5, "--bounds", 100, 200, "--seed", 1, "--out", tmp_path]
    first = notes_of(capsys, raw, *flags)
    rows = [line.split(",") for line in raw.read_text().splitlines()[1:]]
    raw.write_text("\n".join(["client,value", *(f"{who},{-1000 * abs(float(value))}" for who, value in rows)]))
    assert notes_of(capsys, raw, *flags) == first


def test_noise_as_wide_as_the_bounds_is_remarked(raw, tmp_path, capsys):
    notes = notes_of(capsys, raw, "--eps", 0.001, "--bounds", 0, 10, "--sigma2", 1, "--seed", 1, "--out", tmp_path)
    assert "by noise alone, which hides where between --bounds 0 10 the values lie" in notes[0]


def test_a_delta_that_is_not_spent_is_remarked(raw, tmp_path, capsys):
    flags = ["--eps", 1, "--bounds", 0, 10, "--sigma2", 1, "--seed", 1, "--out", tmp_path]
    assert "--delta 1e-06 was not spent: " in notes_of(capsys, raw, *flags, "--delta", 1e-6)[0]
    assert notes_of(capsys, raw, *flags, "--delta", 0.9) == []  # so large that Gaussian noise is the smaller
    assert notes_of(capsys, raw, *flags) == []


def test_a_seed_without_draws_is_remarked(table, tmp_path, capsys):
    assert notes_of(capsys, table, "--seed", 1, "--out", tmp_path) == [
        "--seed changes nothing: the model normal draws no random numbers"
    ]
    assert notes_of(capsys, table, "--seed", 1, "--model", "mixture", "--out", tmp_path) == []


# --- mistakes --------------------------------------------------------------------------------------------------------

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
    ("client,mean,variance\na,1,1\n", "at least (two|three|four) clients|too few to learn"),
    ("client,value\na,5\na,5\nb,5\nb,5\n", "no client's values differ"),
    ("client,mean,variance\na,1,1\nb,2,inf\n", "line 3, column 'variance': 'inf' is not finite"),
    ("client,successes,trials\na,3,2\n", "line 2, column 'successes': 3 exceeds the trials, 2"),
    ("client,successes,trials\na,3,4\n", "two clients"),
    ("client,count,exposure\na,3,-1\n", "line 2, column 'exposure': -1 is not > 0"),
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
        (["{table}", "--tau2", "1"], ValueError, "--tau2 must be given for --prior fixed and left out"),
        (["{table}", "--prior", "fixed", "--tau2", "-1"], ValueError, "tau2 must be >= 0"),
        (["{table}", "--mu", "nan"], ValueError, "mu holds NaN"),
        (["{table}", "--level", "1"], ValueError, "--level must lie strictly between 0 and 1, got 1"),
        (["{table}", "--model", "magic"], ValueError, "choose one of normal, sample-means, point-normal"),
        (["{table}", "--model", "beta-binomial"], ValueError, "--model beta-binomial does not fit these columns"),
        (["{table}", "--prior", "magic"], ValueError, "prior must be one of"),
        (["{table}", "--with", "k=2"], ValueError, "--model normal has no option 'k'"),
        (
            ["{table}", "--with", "tau2=1", "--prior", "reml"],
            ValueError,
            "--tau2 must be given for --prior fixed and left out",
        ),
        (["{table}", "--mean", "average"], ValueError, "line 1: no column 'average' \\(for mean\\)"),
        (["{table}", "--target", "mean"], ValueError, "a regression needs both a target and features"),
        (["{table}", "--target", "mean", "--features", "n,zeta"], ValueError, "no column 'zeta' \\(a feature\\)"),
        (["{table}", "--bounds", "0", "1"], ValueError, "--bounds is for private fits; give --eps too"),
        (["{table}", "--local"], ValueError, "--local is for private fits; give --eps too"),
        (["{table}", "--eps", "1", "--bounds", "0", "9"], ValueError, "--eps needs raw rows"),
        (["{raw}", "--eps", "1"], ValueError, "--bounds LOW HIGH must be given with --eps"),
        (["{raw}", "--eps", "0", "--bounds", "0", "9"], ValueError, "eps must be"),
        (["{raw}", "--eps", "-1", "--bounds", "0", "9"], ValueError, "eps must be"),
        (["{raw}", "--eps", "1", "--delta", "1", "--bounds", "0", "9"], ValueError, "delta must"),
        (["{raw}", "--eps", "1", "--bounds", "9", "0"], ValueError, "bounds must"),
        (["{raw}", "--eps", "1", "--bounds", "0", "9", "--model", "npmle"], ValueError, "has no private version here"),
        (["{raw}", "--eps", "1", "--bounds", "0", "9", "--with", "k=1"], ValueError, "has no option 'k'"),
        (["{raw}", "--eps", "1", "--bounds", "0", "1e300"], ValueError, "--bounds must be .* apart.*change the units"),
        (["{raw}", "--eps", "1", "--bounds", "0", "1e300", "--local"], ValueError, "--bounds must be .* apart"),
        (["{raw}", "--eps", "1e-300", "--bounds", "0", "9"], ValueError, "--eps must be at least 1e-70"),
        (["{raw}", "--eps", "1e-300", "--delta", "1e-6", "--bounds", "0", "9"], ValueError, "--eps must be at least 1e-70"),
        (["{raw}", "--eps", "1", "--bounds", "0", "9", "--sigma2", "1", "--with", "sigma2=1"], ValueError, "given twice"),
        (["{table}", "--delta", "0"], ValueError, "--delta is for private fits; give --eps too"),
        (["{table}", "--sigma2", "0"], ValueError, "--sigma2 is for private fits; give --eps too"),
        (["{table}", "--mu", "1", "--with", "mu=2"], ValueError, "mu is given twice"),
        (["{table}", "--no-intercept"], ValueError, "--no-intercept is for regressions"),
        (["{table}", "--seed", "-1"], ValueError, "--seed must be"),
        (["{table}", "--with", "mu=[1,2]"], ValueError, "--with mu=\\[1,2\\]|--mu must"),
        (["{table}", "--model", "mixture", "--with", "k=0"], ValueError, "--with k=VALUE must be a whole number"),
        (["{table}", "--client", "mean", "--mean", "mean"], ValueError, "named for both client and mean"),
        (["missing.csv"], FileNotFoundError, "missing.csv"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message, table, raw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        main(*(argument.format(table=table, raw=raw) for argument in arguments))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clients.csv", "raw.csv"]


def test_mistakes_end_in_one_line_and_status_2(table, tmp_path, monkeypatch, capsys):
    import borrow

    monkeypatch.chdir(tmp_path)
    table.write_text("client,mean,variance\na,1,1\nb,2,x\n")
    assert borrow.main(["fit", str(table)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [f"borrow: {table}, line 3, column 'variance': 'x' is not a number; write it like 0.25"]


def test_a_fit_that_did_not_converge_says_so(table, tmp_path, monkeypatch, capsys):
    import warnings

    from estimators import GaussianMeans

    fit = GaussianMeans.fit

    def stop(self, *data):
        fit(self, *data)
        self.converged_ = False
        warnings.warn("the search stopped early", RuntimeWarning, stacklevel=2)
        return self

    monkeypatch.setattr(GaussianMeans, "fit", stop)
    assert main(table, "--out", tmp_path, "--no-plot") == 1
    said = capsys.readouterr()
    assert "Note: the search stopped early" in said.out
    assert "did NOT converge" in said.out
    assert said.err == ""


def test_the_table_is_the_one_of_the_reader(table, tmp_path):
    main(table, "--out", tmp_path, "--no-plot")
    expected = read_client_table(table)
    assert [float(row["estimate"]) for row in written(tmp_path)] == expected.estimates.tolist()
    assert [float(row["standard_error"]) for row in written(tmp_path)] == np.sqrt(expected.variances).tolist()
