"""`borrow fit --rank`, `--discoveries`, `--check`: the same numbers in text, JSON, file and model; bad input; privacy."""

import csv
import json

import numpy as np
import pytest

from estimators import BetaBinomial, GaussianMeans, private
from estimators.decisions import discoveries
from estimators.normal_means.variances import moderated_variances
from estimators.tables.datasets import surgical_mortality
from figures import league
from tests.figures.test_fit import main, written


@pytest.fixture
def hospitals(tmp_path):
    data = surgical_mortality()
    path = tmp_path / "hospitals.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["client", "successes", "trials"])
        writer.writerows(zip(data.clients, data.deaths.tolist(), data.operations.tolist(), strict=True))
    return path


def test_file_json_text_and_model_agree(hospitals, tmp_path, capsys):
    asked = [hospitals, "--out", tmp_path / "out", "--rank", "--smallest-first", "--discoveries", "0.1", "--check"]
    assert main(*asked, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    data = surgical_mortality()
    model = BetaBinomial().fit(data.deaths, data.operations)
    ranks, called = model.rank(largest_first=False), discoveries(model, 0.1)
    clients = found["clients"]
    assert [client["expected_rank"] for client in clients] == pytest.approx(ranks.expected.tolist())
    assert [client["rank_low"] for client in clients] == ranks.low.tolist()
    assert [client["chance_first"] for client in clients] == pytest.approx(ranks.top.tolist())
    assert [client["chance_wrong"] for client in clients] == pytest.approx(called.error.tolist())
    assert [client["discovery"] for client in clients] == called.selected.tolist()
    assert [client["side"] for client in clients] == ["above" if way > 0 else "below" for way in called.direction]
    assert {1.0, -1.0} == set(called.direction)
    assert found["discoveries"]["number"] == called.selected.sum()
    assert found["discoveries"]["at"] == pytest.approx(model.prior_summary()["mean"])
    assert found["prior_intervals"]["mean"] == pytest.approx(model.prior_interval()["mean"])
    assert 0.01 < found["prior_check"]["p_value"] <= 1
    for row, client in zip(written(tmp_path / "out"), clients, strict=True):
        assert {key: str(value) for key, value in client.items()} == row
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"ranks.svg", "ranks.png", "shrinkage.png"}

    assert main(*asked, "--no-plot") == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    order = np.argsort(ranks.expected)
    assert [line.split()[0] for line in lines[1:13]] == [data.clients[i] for i in order]
    first = data.clients[int(np.argmax(ranks.top))]
    assert f"Rank 1 is the smallest true probability; most likely to have it: {first} {100 * ranks.top.max():.2g}%" in said
    assert f"{int((called.selected & (called.direction > 0)).sum())} above (" in said
    assert "go with what the prior predicts" in said
    assert "removed, because an earlier fit made them" in said
    assert not (tmp_path / "out" / "ranks.png").exists()


def test_columns_are_called_what_the_user_calls_them(tmp_path, capsys):
    path = tmp_path / "hospitals.csv"
    path.write_text("hospital,deaths,operations\nA,0,47\nB,18,148\nC,8,119\nD,46,810\nH,31,215\n")
    names = ["--client", "hospital", "--successes", "deaths", "--trials", "operations"]
    assert main(path, *names, "--out", tmp_path, "--no-plot", "--rank", "--discoveries", "0.2") == 0
    said = capsys.readouterr().out
    assert "Rank 1 is the largest true probability of deaths; most likely to have it: H" in said
    assert "Discoveries (*), true probabilities of deaths against" in said


def test_heterogeneity_is_in_the_json(tmp_path, capsys):
    assert main("--example", "--out", tmp_path, "--json", "--no-plot") == 0
    found = json.loads(capsys.readouterr().out)
    assert main("--example", "--out", tmp_path, "--no-plot") == 0
    said = capsys.readouterr().out
    told = found["heterogeneity"]
    assert f"{told['I2']:.0%} is between clients (I2)" in said
    assert f"Cochran's Q = {told['Q']:.4g}, {told['df']} degrees of freedom" in said
    low, high = found["prior_intervals"]["mean"]
    assert f"the centre [{low:.4g}, {high:.4g}]" in said
    assert not {"expected_rank", "discovery"} & found["clients"][0].keys()


def test_where_variances_are_estimated_residuals_are_made_normal_first(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    rows = {"a": (1.0, 1.2, 0.9), "b": (9.0, 2.0, 4.0), "c": (3.0, 3.1, 3.2), "d": (8.0, -2.0, 1.0)}
    path.write_text("client,value\n" + "".join(f"{name},{x}\n" for name, values in rows.items() for x in values))
    assert main(path, "--out", tmp_path / "out", "--no-plot") == 0
    said = capsys.readouterr().out
    assert "Q of residuals made normal = " in said
    assert "Cochran" not in said
    moderated = moderated_variances([np.var(values, ddof=1) for values in rows.values()], np.full(4, 2))
    drawn = f"drawn to {moderated.prior_variance:.4g}, as by {moderated.prior_degrees:.3g} rows more."
    assert f"How much rows vary differs between clients: each variance is {drawn}" in said


def test_rows_that_vary_alike_have_one_variance(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    rows = {name: (at - 1.0, at, at + scale) for name, at, scale in (("a", 0.0, 1.0), ("b", 3.0, 1.2), ("c", 9.0, 0.9))}
    path.write_text("client,value\n" + "".join(f"{name},{x}\n" for name, values in rows.items() for x in values))
    assert main(path, "--out", tmp_path / "out", "--no-plot") == 0
    pooled = np.mean([np.var(values, ddof=1) for values in rows.values()])
    said = capsys.readouterr().out
    assert f"How much rows vary does not differ between clients beyond chance: all have the variance {pooled:.4g}." in said


def test_nothing_is_sure_is_said(tmp_path, capsys):
    path = tmp_path / "schools.csv"
    values = zip("ABCDEFGH", [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18], strict=True)
    path.write_text("client,estimate,se\n" + "\n".join(f"{a},{b},{c}" for a, b, c in values))
    assert main(path, "--out", tmp_path, "--no-plot", "--rank", "--discoveries") == 0
    said = capsys.readouterr().out
    assert "nobody is surely in one half" in said
    assert "Expected ranks are integrated" in said
    assert "No discoveries (*): if at most 5% of calls may be wrong, nobody can be called above or below" in said
    assert main(path, "--out", tmp_path, "--no-plot", "--discoveries", "--at", "0", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    model = GaussianMeans().fit([28, 8, -3, 7, -1, 1, 18, 12], np.square([15, 10, 16, 11, 9, 11, 10, 18]))
    assert [client["discovery"] for client in found["clients"]] == discoveries(model, 0.05, at=0.0).selected.tolist()


def test_coefficients_are_ranked_one_by_one(tmp_path, capsys):
    generator = np.random.default_rng(0)
    path = tmp_path / "rows.csv"
    lines = [
        f"{client},{x!r},{slope * x + generator.normal()!r}"
        for client, slope in zip("abcd", (0.0, 1.0, 2.0, 8.0), strict=True)
        for x in generator.normal(size=12).tolist()
    ]
    path.write_text("client,x,y\n" + "\n".join(lines))
    asked = [path, "--target", "y", "--features", "x", "--out", tmp_path / "out", "--rank", "--discoveries"]
    assert main(*asked, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["clients"]
    slopes = [row for row in rows if row["coefficient"] == "x"]
    assert slopes[3]["expected_rank"] < 1.2
    assert sum(row["expected_rank"] for row in slopes) == pytest.approx(10)
    assert main(*asked) == 0
    said = capsys.readouterr().out
    assert "Ranks are of each coefficient by itself, 1 for the largest." in said
    assert "d x" in said.split("Discoveries (*), true coefficients against 0: ")[1]
    with pytest.raises(ValueError, match="--check needs one number per client"):
        main(*asked, "--check")


def test_private_fits_are_ranked_from_reports(hospitals, tmp_path, capsys):
    """What is said is what a server says that has the reports alone, as they went over the line."""
    data = surgical_mortality()
    asked = ["--eps", "2", "--seed", "3", "--rank", "--discoveries", "--json", "--no-plot", "--out", tmp_path / "out"]
    assert main(hospitals, *asked) == 0
    found = json.loads(capsys.readouterr().out)
    generator = np.random.default_rng(3)
    client = private.RateClient(eps=2.0)
    texts = [each.to_json() for each in client.reports(data.deaths, data.operations, list(data.clients), generator)]
    server = private.PrivateRates().fit([private.read_report(text) for text in texts])
    ranks, called = server.rank(), discoveries(server, 0.05)
    assert [row["expected_rank"] for row in found["clients"]] == pytest.approx(ranks.expected.tolist())
    assert [row["rank_high"] for row in found["clients"]] == ranks.high.tolist()
    assert [row["chance_wrong"] for row in found["clients"]] == pytest.approx(called.error.tolist())
    assert any("eps=2" in line for line in found["privacy"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--smallest-first"], "--smallest-first is for ranks; give --rank too"),
        (["--at", "1"], "--at is for discoveries; give --discoveries too"),
    ],
)
def test_options_that_change_nothing_are_refused(arguments, message, hospitals, tmp_path):
    with pytest.raises(ValueError, match=message):
        main(hospitals, "--out", tmp_path / "out", *arguments)


@pytest.mark.parametrize("alpha", ["0", "1", "nan", "clients.csv"])
def test_alpha_is_a_share(alpha, hospitals, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(hospitals, "--discoveries", alpha)
    assert "ALPHA must lie strictly between 0 and 1" in capsys.readouterr().err


def test_the_picture_shows_every_client_in_order():
    names = [f"client {i}" for i in range(70)]
    expected = np.linspace(70, 1, 70)
    few = league.draw(names[:5], expected[:5] - 65, expected[:5] - 66, expected[:5] - 64, 0.9, "smallest")
    axes = few.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == names[4::-1]
    assert "1 = smallest" in axes.get_xlabel()
    many = league.draw(names, expected, np.maximum(expected - 3, 1), np.minimum(expected + 3, 70))
    assert "70 clients" in many.axes[0].get_ylabel()
