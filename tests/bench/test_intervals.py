"""The table of INTERVALS.md: every model of it can be fitted and has intervals, and the page has a cell for every size."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import intervals


@pytest.mark.parametrize("name", intervals.CASES)
def test_every_case_has_intervals(name, monkeypatch):
    called = []
    monkeypatch.setattr(intervals, "seconds", lambda call: called.append(call()) or 1.0)
    assert intervals.measured(name, 12) == (1.0, 1.0)
    low, high = called[1]
    assert low.shape == (12,)
    assert (low < high).all()


def test_the_fastest_turn_counts(monkeypatch):
    clock, calls = iter([0.0, 3.0, 3.0, 5.0, 5.0, 6.5]), []
    monkeypatch.setattr(intervals, "process_time", lambda: next(clock))
    assert intervals.seconds(lambda: calls.append(1)) == 1.5
    assert len(calls) == 3
    clock = iter([0.0, 1.01 * intervals.DEAR])
    assert intervals.seconds(lambda: None) == 1.01 * intervals.DEAR


def test_a_line_ends_where_a_size_is_dear(monkeypatch):
    monkeypatch.setattr(intervals, "measured", lambda name, m: (m / 1e3, m / 5e2))
    cells = intervals.line("GaussianMeans")
    assert len(cells) == len(intervals.SIZES)
    assert cells[0] == "2.00 (20)"
    assert cells.count("—") == sum(np.array(intervals.SIZES) > 10_000)


def test_the_page_as_committed_has_every_model():
    lines = intervals.PAGE.read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert [row[0] for row in table[2:]] == list(intervals.CASES)
    assert {len(row) for row in table} == {1 + len(intervals.SIZES)}


def test_the_page_names_the_cells_above_its_aim():
    cells = ["3.01 (20)", "3.00 (20)", "0.50 (1e+03)", "12.40 (9)", *["—"] * (len(intervals.SIZES) - 4)]
    text = intervals.page({"A": cells, "B": ["1.00 (2)"] * len(intervals.SIZES)})
    assert "Above it: A at 10, A at 3,000." in text
    assert f"| A | {' | '.join(cells)} |" in text
    assert "Above it: none." in intervals.page({"B": ["1.00 (2)"] * len(intervals.SIZES)})
