"""The arena at its small setting: reproducible, resumable, honest about who fails and what is missing."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

from estimators import GaussianMeans, MixtureMeans
from estimators.coverage import coverage

sys.path.insert(0, str(Path(__file__).parent))

import arena
from arena_entrants import OURS, PEERS, entrants

CELLS = ("estimates normal 5 equal", "rows normal 5 unequal", "trials beta wide 20 equal", "exposures two rates 20 equal")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("arena") / "results.csv"
    for cell in CELLS:
        arena.run(path, "small", only=cell)
    return path


def numbers(path):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in arena.read(path)]


def test_a_second_run_adds_nothing_and_a_fresh_one_is_the_same(results, tmp_path):
    before = results.read_bytes()
    arena.run(results, "small", only=CELLS[0])
    assert results.read_bytes() == before
    arena.run(tmp_path / "again.csv", "small", only=CELLS[0])
    assert numbers(tmp_path / "again.csv") == [row for row in numbers(results) if row["kind"] == "estimates"]
    arena.run(tmp_path / "other.csv", "small", seed=2, only=CELLS[0])
    assert numbers(tmp_path / "other.csv") != numbers(tmp_path / "again.csv")


def test_every_kind_has_its_default_and_everyone_installed(results):
    rows = arena.read(results)
    for kind in OURS:
        there = [row["entrant"] for row in rows if row["kind"] == kind]
        assert there == list(entrants(kind))
        assert next(iter(OURS[kind])) in there
        assert set(there) <= set(OURS[kind] | PEERS[kind])
    own = [row for row in rows if row["entrant"] == "own"]
    assert all(float(row["risk"]) == 1 and float(row["length"]) == 1 for row in own)
    assert all(float(row["behind"]) >= 0 for row in rows if row["replicates"] == own[0]["replicates"])


def test_the_page_names_the_worst_first_and_counts_what_the_table_says(results):
    text = arena.page(results)
    table = text.split("## Risk")[1].split("## Intervals")[0].splitlines()
    behind = [
        float(line.split("|")[5]) for line in table if line.startswith("| ") and "---" not in line and "cell" not in line
    ]
    assert behind == sorted(behind, reverse=True)
    assert len(behind) == len(CELLS)
    within = sum(gap <= 2.0 for gap in behind)
    assert f"best peer: {within} of {len(CELLS)} cells" in text


def test_real_data_that_are_missing_are_named(tmp_path, capsys):
    arena.run(tmp_path / "results.csv", "small", only="batters 2005, pitchers", data=tmp_path)
    assert "batters 2005, pitchers: skipped" in capsys.readouterr().err
    assert not (tmp_path / "results.csv").exists()


def test_real_half_seasons(shared_data, tmp_path):
    folder = shared_data("baseball/bball_halfseasons_2002_2012.csv").parents[1]
    arena.run(tmp_path / "results.csv", "small", only="batters 2005, pitchers", data=folder)
    found = {row["entrant"]: float(row["risk"]) for row in arena.read(tmp_path / "results.csv")}
    assert found["BetaBinomial"] < 0.5 < found["own"] == 1


def test_who_gives_no_answer_is_counted_and_not_measured(monkeypatch):
    def broken(y, v):
        raise np.linalg.LinAlgError("singular")

    def silent(y, v):
        return np.full(y.shape, np.nan), y, y

    monkeypatch.setattr(arena, "entrants", lambda kind: {"own": PEERS[kind]["own"], "broken": broken, "silent": silent})
    table = arena.contest("estimates", [arena.drawn("estimates", "normal", 5, "equal", 1, r) for r in range(3)])
    assert (table["own"]["failed"], table["broken"]["failed"], table["silent"]["failed"]) == (0, 3, 3)
    assert table["own"]["behind"] == 0


def test_own_intervals_hold_as_often_as_they_say():
    draws = [arena.drawn("estimates", "t3", 100, "unequal", 1, r) for r in range(40)]
    rows = np.array([arena.measured(PEERS["estimates"]["own"], *draw) for draw in draws])
    assert abs(rows[:, 1].mean() - 0.95) < 5 * rows[:, 1].std() / np.sqrt(40)


@pytest.mark.parametrize(("kind", "prior"), [(GaussianMeans, "spike 90 %"), (MixtureMeans, "normal")])
def test_coverage_says_what_the_arena_finds(kind, prior):
    """Two ways to the same number: replicates of the arena, and `coverage` told the prior of the truth."""
    draws = [arena.drawn("estimates", prior, 20, "unequal", 1, r) for r in range(40)]
    entrant = OURS["estimates"][kind.__name__]
    results = [arena.measured(entrant, *draw) for draw in draws]
    held = np.array([result[1] for result in results if result is not None])
    assert held.size == 40
    model = kind().fit(*draws[0][0])
    found = coverage(model, replicates=40, seed=3, prior=lambda g, shape: arena.NORMAL[prior](g, shape[0]))
    assert abs(held.mean() - found.average) < 5 * np.hypot(held.std() / np.sqrt(40), found.average_se)


def test_the_noise_of_a_truth_is_no_error():
    """A truth that is an average of few: its noise is taken off the error, and the interval is widened by it."""
    rng, y = np.random.default_rng(0), np.zeros(4000)
    noisy = rng.normal(0, 2, y.size)
    error, held, length, _ = arena.measured(lambda y: (y, y, y), (y,), noisy, np.full(y.size, 4.0))
    assert abs(error) < 5 * 4 * np.sqrt(2 / y.size)
    assert abs(held - 0.95) < 5 * np.sqrt(0.05 * 0.95 / y.size)
    assert length == pytest.approx(4 * 1.959964)


def test_columns_are_those_of_the_file(results):
    with open(results, newline="") as file:
        assert tuple(next(csv.reader(file))) == arena.COLUMNS
