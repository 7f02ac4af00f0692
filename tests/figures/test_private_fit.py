"""Private runs of `borrow fit`: what they spend stays spent, seeded ones say so everywhere, and nothing raw comes out."""

import csv
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import borrow
from estimators.accounting import BudgetFile
from estimators.fit.private import untold

SECRET = "731313"
"""Digits that stand in every raw value, and nowhere else."""

PRIVATE = ["--eps", "1", "--bounds", "0", "10", "--sigma2", "1"]


@pytest.fixture
def raw(tmp_path):
    path = tmp_path / "wards.csv"
    rows = [f"ward {w},{3 + w % 4}.{SECRET}{k:02d}" for w in range(6) for k in range(30)]
    path.write_text("\n".join(["client,value", *rows]))
    return path


@pytest.fixture
def fit(tmp_path, capfd):
    """Run `borrow fit` with its output in a folder of the test; returns status, output and the bytes of all its files."""

    def run(*arguments):
        out = tmp_path / "out"
        status = borrow.main(["fit", *map(str, arguments), "--out", str(out)])
        said = capfd.readouterr()
        files = {path.name: path.read_bytes() for path in out.iterdir()} if out.exists() else {}
        return SimpleNamespace(status=status, out=said.out, err=said.err, files=files)

    return run


def test_three_runs_at_eps_1_say_that_eps_3_is_spent(raw, fit):
    for number in (1, 2, 3):
        found = fit(raw, *PRIVATE, "--json", "--no-plot")
        assert found.status == 0
        facts = json.loads(found.out)
        assert (facts["budget"]["spent"], facts["budget"]["releases"]) == (number, number)
    assert "budget of data set 'wards.csv': eps=3 at delta=0 spent in 3 releases; no limit is set." in facts["privacy"]
    assert "eps=4 at delta=0 spent in 4 releases" in fit(raw, *PRIVATE, "--no-plot").out


def test_a_spent_budget_releases_nothing(raw, fit, tmp_path, capfd):
    budget = tmp_path / "a.budget"
    assert borrow.main(["budget", str(budget), "--eps", "1.5", "--data", "wards.csv"]) == 0
    capfd.readouterr()
    assert fit(raw, *PRIVATE, "--budget", budget, "--no-plot").status == 0
    before = budget.read_bytes()
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    found = fit(raw, *PRIVATE, "--budget", budget)
    assert (found.status, found.out, found.files) == (2, "", {})
    assert "(eps=1, delta=0) would bring the total to eps=2 at delta=0; the budget is eps=1.5" in found.err
    assert budget.read_bytes() == before
    assert not (tmp_path / "wards.csv.budget").exists()
    assert borrow.main(["budget", str(budget), "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert (shown["spent"], shown["limit"], shown["left"], shown["data"]) == (1.0, 1.5, 0.5, "wards.csv")
    assert [entry["what"] for entry in shown["entries"]] == ["borrow fit"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_text(path.read_text()[:100]), "is not complete JSON"),
        (lambda path: path.write_text(path.read_text().replace('"eps": 5.0', '"eps": 9.0')), "does not fit its checksum"),
        (lambda path: path.unlink(), "no budget is here"),
        (
            lambda path: (path.unlink(), BudgetFile.create(path, data="others")),
            "of the data set 'others', not of 'wards.csv'",
        ),
        (
            lambda path: (path.unlink(), BudgetFile.create(path, data="wards.csv", adjacency="client")),
            "guarantee is for the adjacency 'row', the budget for 'client'",
        ),
    ],
)
def test_a_damaged_or_wrong_budget_releases_nothing(damage, said, raw, fit, tmp_path):
    budget = tmp_path / "a.budget"
    BudgetFile.create(budget, data="wards.csv", eps=5.0)
    damage(budget)
    found = fit(raw, *PRIVATE, "--budget", budget)
    assert (found.status, found.out, found.files) == (2, "", {})
    assert said in found.err
    assert "Traceback" not in found.err


def test_two_runs_at_once_are_both_counted(raw, tmp_path):
    commands = [
        [sys.executable, "-m", "borrow", "fit", raw, *PRIVATE, "--no-plot", "--out", tmp_path / f"out{i}"] for i in range(2)
    ]
    runs = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    assert [run.wait() for run in runs] == [0, 0]
    assert BudgetFile(f"{raw}.budget", "wards.csv").spent() == 2.0


def test_the_command_budget(tmp_path, capfd):
    path = str(tmp_path / "wards.budget")

    def said(*arguments, status=0):
        assert borrow.main(["budget", *arguments]) == status
        found = capfd.readouterr()
        return found.err if status else found.out

    assert "no budget is here; make one" in said(path, status=2)
    assert said(path, "--eps", "3", "--delta", "1e-6", "--local").startswith(
        "Budget of data set 'wards': eps=0 at delta=1e-06"
    )
    assert "Protected: all rows of one client" in said(path)
    assert "can be lowered but not raised" in said(path, "--eps", "4", "--delta", "1e-6", status=2)
    assert "of eps=2, eps=2 is left" in said(path, "--eps", "2", "--delta", "1e-6")
    assert "--delta is for a limit" in said(path, "--delta", "1e-6", status=2)
    assert "--local is for a new file" in said(path, "--local", status=2)
    assert "not of 'schools'" in said(path, "--data", "schools", status=2)
    assert "eps must be > 0" in said(str(tmp_path / "b"), "--eps", "0", status=2)


def test_a_seeded_run_says_in_every_output_that_it_is_no_guarantee(raw, fit, tmp_path):
    words = "simulated, no guarantee"
    found = fit(raw, *PRIVATE, "--seed", "1", "--rank")
    assert words in found.out
    assert "no privacy" in found.err
    assert {name: words.encode() in content for name, content in found.files.items() if name != ".fit"} == dict.fromkeys(
        ("estimates.csv", "shrinkage.svg", "shrinkage.png", "ranks.svg", "ranks.png"), True
    )
    rows = list(csv.DictReader(found.files["estimates.csv"].decode().splitlines()))
    assert {row["guarantee"] for row in rows} == {words}
    facts = json.loads(fit(raw, *PRIVATE, "--seed", "1", "--json", "--no-plot").out)
    assert facts["provenance"]["simulated"]
    assert words in facts["provenance"]["randomness"]
    assert words in facts["prior"]["guarantees"][0]
    assert facts["budget"] is None
    assert not (tmp_path / "wards.csv.budget").exists()
    refused = fit(raw, *PRIVATE, "--seed", "1", "--budget", tmp_path / "b")
    assert (refused.status, refused.out) == (2, "")
    assert "no --budget can account for it" in refused.err


def test_a_secure_run_says_what_it_rests_on(raw, fit):
    found = fit(raw, *PRIVATE)
    assert "simulated" not in found.out + found.err
    assert not any(b"simulated" in content for content in found.files.values())
    assert b"eps=1, delta=0 for one row" in found.files["shrinkage.png"]
    facts = json.loads(fit(raw, *PRIVATE, "--json", "--no-plot").out)["provenance"]
    assert (facts["simulated"], facts["randomness"]) == (False, "the operating system's entropy")
    (promise,) = facts["guarantees"]
    assert (promise["clients"], promise["eps"], promise["adjacency"], promise["trusted"]) == (6, 1.0, "row", "client")
    assert promise["accountant"].startswith("exact (borrowed-strength")
    assert "how many rows each client has" in facts["public"]
    assert any("bounds" in each for each in facts["not_covered"])


WRONG = {
    "a word for a number": ("client,value", f"a,1.{SECRET}", f"a,{SECRET}x"),
    "a blank client": ("client,value", f"a,1.{SECRET}", f",2.{SECRET}"),
    "no names of columns": (f"a,1.{SECRET}", f"a,2.{SECRET}"),
    "other names of columns": (f"ward,{SECRET}", f"a,2.{SECRET}"),
    "too many cells": ("client,value", f"a,1.{SECRET},{SECRET}"),
    "an open quote": ("client,value", f'a,"1.{SECRET}"{SECRET}'),
    "infinite": ("client,value", f"a,1.{SECRET}", f"a,{SECRET}e999"),
    "too large": ("client,value", f"a,{SECRET}e200", f"a,1.{SECRET}"),
    "no two rows": ("client,value", f"a,1.{SECRET}", f"b,2.{SECRET}"),
    "hardly different": ("client,value", f"a,{SECRET}e-150", f"a,{SECRET}e-151"),
    "more successes than trials": ("client,successes,trials", f"a,{SECRET},5"),
    "half a success": ("client,successes,trials", f"a,0.{SECRET},5"),
    "an outcome that is none": ("client,outcome", "a,1", f"a,{SECRET}"),
    "a covariate that differs": ("client,value,beds", f"a,1.{SECRET},1.{SECRET}", f"a,2.{SECRET},2.{SECRET}"),
    "a count of events": ("client,count", f"a,0.{SECRET}"),
    "a negative variance": ("client,mean,variance", f"a,1.{SECRET},-2.{SECRET}"),
}


@pytest.mark.parametrize("name", WRONG)
def test_no_error_of_a_private_run_shows_a_cell(name, tmp_path, fit):
    path = tmp_path / "wards.csv"
    path.write_text("\n".join(WRONG[name]))
    more = ["--covariates", "beds"] if "beds" in WRONG[name][0] else []
    found = fit(path, "--eps", "1", *(PRIVATE[2:] if "value" in WRONG[name][0] else []), *more)
    assert found.status == 2
    assert "wards.csv" in found.err
    assert SECRET not in found.out + found.err
    assert found.files == {}
    assert not (tmp_path / "wards.csv.budget").exists()
    open_run = fit(path, *more)  # which may show it, and where it does the test could have failed
    assert open_run.status == 2
    if name in ("a word for a number", "no names of columns", "too large", "more successes than trials"):
        assert SECRET in open_run.err or "e+205" in open_run.err


@pytest.mark.parametrize("local", [False, True])
def test_no_file_or_output_of_a_private_run_shows_a_value(local, raw, tmp_path, fit):
    flags = [*PRIVATE, *(["--local"] if local else []), "--rank", "--discoveries", "--check"]
    values = [float(line.split(",")[1]) for line in raw.read_text().splitlines()[1:]]
    means = np.reshape(values, (6, -1)).mean(axis=1)
    found = fit(raw, *flags)
    also = fit(raw, *flags, "--json")
    budget = (tmp_path / "wards.csv.budget").read_text()
    texts = [found.out, found.err, also.out, also.err, budget, *(each.decode("latin-1") for each in found.files.values())]
    assert len(found.files) == 6
    for text in texts:
        assert SECRET not in text
        assert not any(f"{mean:.6g}"[:7] in text for mean in means)


def test_an_error_of_a_private_run_has_none_behind_it():
    def read():
        raise ValueError(SECRET)

    with pytest.raises(ValueError, match=r"wards\.csv cannot be used") as caught:
        untold(read, "wards.csv")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_parquet_too(tmp_path, fit):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for number, table in enumerate(
        (
            {"client": ["a", "a"], "value": [SECRET, f"1.{SECRET}"]},
            {"client": ["a", None], "value": [float(f"1.{SECRET}"), 2.0]},
            {"client": ["a", "a"], "value": [float(f"{SECRET}e200"), 1.0]},
        )
    ):
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(pyarrow.table(table), path)
        found = fit(path, *PRIVATE)
        assert (found.status, SECRET in found.err, "e+205" in found.err) == (2, False, False)


# --- budgets of each client, a trusted curator, regressions ------------------------------------------------------------


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    rng = np.random.default_rng(0)
    start = 3 + rng.standard_normal(30)  # wards differ by more than the noise of these tests hides
    rows = [
        f"ward {w},{start[w] + 2 * x + rng.normal(0, 0.5):.6f},{x:.6f},{(0.5, 2)[w % 2]}"
        for w in range(30)
        for x in rng.uniform(0, 1, 20)
    ]
    path.write_text("\n".join(["ward,stay,age,budget", *rows]))
    return path


STAY = ["--client", "ward", "--value", "stay"]
LINE = ["--client", "ward", "--target", "stay", "--features", "age"]


@pytest.mark.parametrize("prior", [None, "exact", "integrated", "moments"])
def test_intervals_that_average_over_the_prior_say_so(prior, raw, fit):
    said = fit(raw, *PRIVATE, *(["--prior", prior] if prior else []), "--no-plot").out
    averaged = prior != "moments"
    assert ("Intervals count what the clients leave unknown about the prior." in said) == averaged
    assert ("(averaged over what data and noise leave open)" in said) == averaged
    assert ("few clients they are too short" in said) != averaged


def test_a_column_of_budgets(visits, fit):
    found = fit(visits, *STAY, "--eps", "Budget", "--bounds", "0", "10", "--sigma2", "1", "--json", "--no-plot")
    assert found.status == 0
    facts = json.loads(found.out)
    assert [row["guarantee"] for row in facts["clients"]][:2] == [f"eps={e}, delta=0 for one row" for e in (0.5, 2)]
    assert facts["budget"]["spent"] == 2


@pytest.mark.parametrize(
    "arguments", [[*STAY, "--central", "--bounds", "0", "10"], [*LINE, "--delta", "1e-5", "--norm", "9"]]
)
def test_a_prior_is_released_alone(arguments, visits, fit, tmp_path):
    found = fit(visits, *arguments, "--eps", "1e6")
    assert found.status == 0
    assert set(found.files) == {"prior.json", ".fit"}
    kept = json.loads(found.files["prior.json"])
    assert kept["provenance"]["randomness"] == "the operating system's entropy"
    assert kept["budget"]["releases"] == 1
    assert "no number about a single one is released" in found.out
    assert (tmp_path / "visits.csv.budget").exists()
    seeded = fit(visits, *arguments, "--eps", "1e6", "--seed", "1", "--json")
    for text in (seeded.out, seeded.files["prior.json"].decode()):
        assert json.loads(text)["provenance"]["simulated"]
        assert "simulated, no guarantee" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*STAY, "--eps", "nosuch", "--bounds", "0", "10"], "no column 'nosuch'"),
        ([*STAY, "--eps", "ward", "--bounds", "0", "10"], "--eps ward must name a column with one number"),
        ([*STAY, "--eps", "stay", "--bounds", "0", "10"], "--eps stay must name a column with one number"),
        ([*STAY, "--eps", "nan", "--bounds", "0", "10"], "--eps holds NaN"),
        ([*STAY, "--eps", "1", "--central"], "--bounds must be given"),
        ([*STAY, "--eps", "1", "--central", "--local", "--bounds", "0", "10"], "leave out --local"),
        ([*STAY, "--eps", "1", "--central", "--rank", "--bounds", "0", "10"], "none is released here"),
        ([*STAY, "--eps", "budget", "--central", "--bounds", "0", "10"], "give one number"),
        ([*STAY, "--eps", "1", "--norm", "3", "--bounds", "0", "10"], "--norm is for private regressions"),
        ([*STAY, "--central"], "--central is for private fits; give --eps too"),
        ([*LINE, "--eps", "1", "--norm", "3"], "--delta must be given"),
        ([*LINE, "--eps", "1", "--delta", "1e-5"], "--norm R must be given"),
        ([*LINE, "--eps", "1", "--delta", "1e-5", "--norm", "3", "--local"], "leave out --local"),
        ([*LINE, "--eps", "1", "--delta", "1e-5", "--norm", "3", "--central"], "--central is for measurements and counts"),
        ([*LINE, "--eps", "0.01", "--delta", "1e-5", "--norm", "3"], "within 3 times the noise"),
    ],
)
def test_bad_arguments_of_the_new_doors_are_named(arguments, says, visits, fit):
    found = fit(visits, *arguments)
    assert (found.status, found.out, found.files) == (2, "", {})
    assert says in found.err


NOT_PAID = {
    "a prior that is none": (["--prior", "nonsense"], "--prior must be one of"),
    "a negative variance": (["--sigma2", "-1"], "--sigma2 must be >= 0"),
    "no variance": (["--sigma2", "nan"], "--sigma2 holds NaN"),
    "a point that is none": (["--discoveries", "--at", "nan"], "--at must be a finite number, got nan"),
    "a folder of another file": ([], "holds the fit of other.csv"),
    "a folder in a file": ([], "cannot write into the folder"),
}


@pytest.mark.parametrize("name", NOT_PAID)
def test_what_cannot_succeed_is_not_paid_for(name, raw, tmp_path, capfd):
    """A slip of the keyboard, or a folder that cannot be written, would spend the budget and release nothing."""
    flags, says = NOT_PAID[name]
    out = tmp_path / "out"
    if "folder" in name:
        other = tmp_path / "other.csv"
        other.write_text("client,successes,trials\na,1,3\nb,2,3\n")
        assert borrow.main(["fit", str(other), "--no-plot", "--out", str(out)]) == 0
        out = out if "another" in name else other / "out"
    assert borrow.main(["fit", str(raw), "--eps", "1", "--bounds", "0", "10", *flags, "--no-plot", "--out", str(out)]) == 2
    assert says in capfd.readouterr().err
    assert not (tmp_path / "wards.csv.budget").exists()


REGRESSION = ["--delta", "1e-6", "--norm", "9", "--target", "y", "--features", "x"]
FEW = [
    ("client,value\na,1\na,2\nb,2\nb,3", ["--bounds", "0", "10"], 3),
    ("client,outcome\na,1\na,0", [], 2),
    ("client,y,x\na,1,2\na,2,3\na,3,5", REGRESSION, 2),
]


@pytest.mark.parametrize(("rows", "flags", "fewest"), FEW)
def test_too_few_clients_pay_nothing(rows, flags, fewest, tmp_path, fit):
    path = tmp_path / "few.csv"
    path.write_text(rows)
    found = fit(path, "--eps", "1", *flags)
    assert (found.status, found.out) == (2, "")
    assert f"at least {fewest} clients" in found.err
    assert not (tmp_path / "few.csv.budget").exists()


@pytest.mark.parametrize("local", [[], ["--local"]])
def test_an_eps_of_which_no_noise_is_left(local, raw, fit):
    """At eps 1e20 the noise has variance 0 as a float: the fit is that of reports without noise.  Beyond, none is made."""
    found = fit(raw, "--eps", "1e300", *PRIVATE[2:], *local, "--json", "--no-plot")
    assert (found.status, found.out) == (2, "")
    assert "--eps must be at most 1e+20, which hides nothing, got 1e+300" in found.err
    assert not raw.with_name(raw.name + ".budget").exists()
    found = fit(raw, "--eps", "1e20", *PRIVATE[2:], *local, "--json", "--no-plot")
    assert found.status == 0, found.err
    told = [row["estimate"] for row in json.loads(found.out)["clients"]]
    assert np.allclose(told, [3.73 + w % 4 for w in range(6)], atol=0.02)


@pytest.mark.parametrize(
    ("flags", "mechanism", "part"),
    [(["--local"], "finite-output", 0.06), ([], "staircase", 0.14)],
)
def test_reports_have_the_least_noise_that_there_is(flags, mechanism, part, raw, fit):
    """Variances of reports over those of Laplace noise of the same budget, 30 rows of variance 1/4 each."""
    found = fit(raw, "--eps", "8", "--sigma2", "0.25", *flags, "--bounds", "0", "10", "--json", "--no-plot")
    assert found.status == 0, found.err
    told = json.loads(found.out)
    assert f"({mechanism})" in told["privacy"][0]
    laplace = 2 * (10 / 8 / (1 if flags else 30)) ** 2
    noise = np.array([row["standard_error"] for row in told["clients"]]) ** 2 - 0.25 / 30
    assert (noise < part * laplace).all()


def test_a_sum_of_squares_has_a_staircase_also_where_it_is_wider_than_words(raw, fit):
    found = fit(raw, "--eps", "1e-7", "--bounds", "0", "10", "--json", "--no-plot")
    assert found.status == 0, found.err
    assert "(staircase)" in json.loads(found.out)["privacy"][0]
