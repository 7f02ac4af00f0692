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
import arena_limit
from arena_entrants import OURS, PEERS, entrants, sources

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


def test_the_page_says_why_a_peer_is_ahead(results, tmp_path):
    assert arena.reason(("estimates", "t3", "5", "equal"), "GaussianMeans", 0.3, 0.1) == "prior outside the default's family"
    assert arena.reason(("estimates", "normal", "5", "equal"), "GaussianMeans", 0.3, 0.2) == "no more than chance"
    assert arena.reason(("estimates", "normal", "20", "equal"), "GaussianMeans", 0.3, 0.1) == "few clients"
    assert arena.reason(("trials", "beta wide", "100", "equal"), "BetaBinomial", 0.3, 0.1) == "inside the default's family"
    assert arena.reason(("trials", "batters", "60", "real"), "BetaBinomial", 0.3, 0.0) == "real data"
    rows = arena.read(results)
    for row in rows:
        if (row["kind"], row["entrant"]) == ("exposures", "GammaPoisson"):
            row["risk"] = "9"
    arena.write(tmp_path / "results.csv", arena.COLUMNS, rows)
    said = arena.page(tmp_path / "results.csv").split("and why")[1].split("##")[0]
    assert "1 prior outside the default's family" in said
    [line] = [line for line in said.splitlines() if "two rates" in line]
    assert line.endswith("| prior outside the default's family | NonparametricCounts |")


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


def test_cells_of_other_code_are_named_and_run_again(results, tmp_path):
    path = tmp_path / "results.csv"
    rows = arena.read(results)
    for row in rows:
        row["code"] = "older" if row["entrant"] == "BetaBinomial" else row["code"]
    arena.write(path, arena.COLUMNS, rows)
    assert "1 of 4 cells: trials beta wide 20 equal." in arena.page(path)
    assert "0 of 4 cells." in arena.page(results)
    arena.run(path, "small", only=CELLS[2])
    assert "0 of 4 cells." in arena.page(path)
    assert sorted(map(str, numbers(path))) == sorted(map(str, numbers(results)))


def test_cells_that_another_run_adds_in_the_meantime_stay(tmp_path, monkeypatch):
    """Each cell is written after minutes; what came into the file in these is of another process."""
    path, row = tmp_path / "results.csv", dict.fromkeys(arena.COLUMNS, "1")
    line = dict.fromkeys(arena.COLUMNS[5:-1], 1.0)

    def contest(kind, draws):
        arena.write(path, arena.COLUMNS, [row])
        return {"own": line}

    monkeypatch.setattr(arena, "contest", contest)
    arena.run(path, "small", only=CELLS[2])
    assert [each["kind"] for each in arena.read(path)] == ["1", "trials"]
    assert [each.name for each in tmp_path.iterdir()] == ["results.csv"]


def test_code_is_of_what_an_entrant_reaches():
    fingerprint = arena.fingerprint("estimates", "normal", "GaussianMeans")
    assert fingerprint != arena.fingerprint("estimates", "t3", "GaussianMeans")  # other draws
    assert fingerprint != arena.fingerprint("estimates", "normal", "PointNormalMeans")
    reached = {module for module, _ in sources().closure([(GaussianMeans.__module__, "GaussianMeans")])}
    assert "estimators.normal_means.tau2_likelihood" in reached
    assert "estimators.npmle.solver" not in reached


def test_the_gap_of_many_replicates_is_that_of_the_contest(tmp_path):
    draws = [arena.drawn("trials", "beta wide", 20, "equal", 1, r) for r in range(4)]
    table, found = arena.contest("trials", draws), arena.gap("trials", draws)
    peers = {name: row["risk"] for name, row in table.items() if name in PEERS["trials"]}
    assert found["risk"] == pytest.approx(table["BetaBinomial"]["risk"])
    assert found["peer"] == min(peers, key=peers.__getitem__)
    assert found["behind"] == pytest.approx(found["risk"] / min(peers.values()) - 1)
    arena.run_gaps(tmp_path / "gaps.csv", 4, only="trials beta wide 20 equal")
    [row] = arena.read(tmp_path / "gaps.csv")
    assert float(row["behind"]) == pytest.approx(found["behind"], abs=1e-4)
    before = (tmp_path / "gaps.csv").read_bytes()
    arena.run_gaps(tmp_path / "gaps.csv", 5, only="trials beta wide 20 equal")
    assert (tmp_path / "gaps.csv").read_bytes() == before


LIMITS = {(r["cell"], r["prior"], r["ratio"], r["choice"]): r for r in arena.read(arena.HOME / "arena_limit.csv")}


def risk_and_held(*place):
    return tuple(float(LIMITS[place][column]) for column in ("risk", "held"))


def test_what_is_measured_of_limits_is_measured_again():
    again = arena_limit.estimates("normal", 5, "unequal", 10.0)
    assert {law: risk_and_held("5 unequal estimates", "normal", "10.0", law) for law in again} == {
        law: pytest.approx((risk, held), abs=6e-4) for law, (risk, _, held) in again.items()
    }
    for cell, prior, ratio, again in (
        ("rows", "t3", "10.0", arena_limit.raw_rows("t3", 10.0)),
        ("100 clients, equal rows", "spike 90 %", "10.0", arena_limit.whole_tables("spike 90 %", 100, "equal", 10.0)),
    ):
        assert {choice: risk_and_held(cell, prior, ratio, choice) for choice in again} == {
            choice: pytest.approx((risk, held), abs=6e-4) for choice, (risk, _, held) in again.items()
        }


@pytest.mark.parametrize("name", arena_limit.PLAYERS)
def test_what_is_known_of_players_is_worth_what_the_page_says(shared_data, name):
    path = shared_data("baseball/bball_halfseasons_2002_2012.csv").parents[1]
    again = arena_limit.batters(path, arena_limit.PLAYERS[name])
    for model, (risk, error, held) in again.items():
        row = LIMITS[name, "real", "", model]
        found = [float(row[c]) for c in ("risk", "risk_se", "held")]
        assert found == pytest.approx((risk, error, held), abs=6e-4, nan_ok=True)


@pytest.mark.parametrize(("prior", "clients", "design"), [cell for cell in arena_limit.FEW if cell[0] != "spike 90 %"])
def test_a_law_that_gains_where_few_clients_are_alike_holds_less_where_they_are_not(prior, clients, design):
    cell = f"{clients} {design} estimates"
    for law in arena_limit.HERE:
        if risk_and_held(cell, prior, "1.0", law)[0] < risk_and_held(cell, prior, "1.0", "Strawderman")[0]:
            risk, held = risk_and_held(cell, prior, "10.0", law)
            assert risk > risk_and_held(cell, prior, "10.0", "Strawderman")[0]
            assert held < risk_and_held(cell, prior, "10.0", "Strawderman")[1]


def test_no_law_that_holds_as_often_with_few_clients_has_less_risk_on_average():
    columns = "cell", "prior", "choice", "ratio", "risk", "held"
    rows = [tuple(row[c] for c in columns) for row in LIMITS.values() if row["cell"].endswith(" estimates")]
    table = [line.strip("| ").split(" | ") for line in arena.overall(rows)[2:-1]]
    least, risk = ({law: float(numbers[k]) for law, *numbers in table} for k in (0, 1))
    assert least["Strawderman"] == pytest.approx(
        100 * min(float(held) for *_, law, _, _, held in rows if law == "Strawderman")
    )
    assert all(
        risk[law] > risk["Strawderman"] for law in least if least[law] >= least["Strawderman"] and law != "Strawderman"
    )
    assert sum(least[law] >= least["Strawderman"] for law in least) < len(least)


@pytest.mark.parametrize("kind", ["trials", "exposures"])
def test_a_law_that_gains_where_twenty_counts_are_alike_holds_less_where_they_are_not(kind):
    rows = {
        (row["ratio"], row["law"]): (float(row["risk"]), float(row["held"]))
        for row in arena.read(arena.HOME / "defaults.csv")
        if (row["kind"], row["m"], row["prior"]) == (kind, "20", "own family")
    }
    gain = [law for ratio, law in rows if ratio == "0.1" and rows["0.1", law][0] < rows["0.1", "Strawderman"][0]]
    assert {"flat on tau", "half-Cauchy"} <= set(gain)
    for law in gain:
        assert rows["1.0", law][1] < rows["1.0", "Strawderman"][1]


ROW_CELLS = [(f"{m} clients, {design} rows", prior, str(ratio)) for prior in arena.PRIORS["rows"]
             for m in arena_limit.TABLES for design in arena.DESIGNS for ratio in arena_limit.RATIOS[:3]]  # fmt: skip


def test_expected_variances_cost_little_where_t_laws_are_right_and_t_laws_much_where_not():
    more = {}  # than with t laws, of own estimates' risk
    for cell in ROW_CELLS:
        expected, of_t = (risk_and_held(*cell, way)[0] for way in ("expected variances", "t laws"))
        more[cell] = expected - of_t
    assert max(more.values()) < 0.02
    assert min(more[cell] for cell in ROW_CELLS if cell[1] == "spike 90 %") < -3


def test_estimates_from_rows_are_no_worse_than_clients_own():
    """Up to two standard errors; with t laws some have four times the risk of own estimates."""
    for cell in ROW_CELLS:
        row = LIMITS[(*cell, "expected variances")]
        assert float(row["risk"]) < 1 + 2 * float(row["risk_se"])
    assert max(risk_and_held(*cell, "t laws")[0] for cell in ROW_CELLS) > 4


def test_judging_noise_by_distance_gains_little_where_it_is_right_and_loses_much_elsewhere():
    for ratio in ("1.0", "10.0", "30.0"):
        ways = {
            prior: [risk_and_held("rows", prior, ratio, f"rows {way}")[0] for way in ("alone", "and distance")]
            for prior in ("normal", "t3", "spike 90 %")
        }
        assert 1 <= ways["normal"][0] / ways["normal"][1] < 1.03
        assert ways["t3"][1] > 1.1 * ways["t3"][0]
        assert ways["spike 90 %"][1] > 1.2 * ways["spike 90 %"][0]
