"""The page of speed has the lines that were measured, and a line stays when others are added."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import federated_speed as speed


def test_the_page_has_the_lines():
    page = Path(__file__).with_name("FEDERATED.md").read_text(encoding="utf-8")
    assert speed.page(speed.kept()) in page
    assert {("network", "numba"), ("network", "jax"), ("network", "sgemm")} <= speed.kept().keys()


def test_a_line_is_kept_beside_those_of_another_run(tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "LINES", tmp_path / "lines.csv")
    monkeypatch.setattr(speed, "BUSY", 0.0)
    monkeypatch.setattr(speed, "CLIENTS", {"network": 1, "cnn": 1})
    monkeypatch.setitem(speed.WAYS, "sgemm", ("numpy", lambda round: {} if round.cnn else {"plain": lambda: None}))
    monkeypatch.setitem(speed.WAYS, "opacus", ("no_such_package", None))
    assert speed.kept() == {}
    assert speed.lines_of([("cnn", "opacus"), ("cnn", "sgemm")]) == []
    first = dict.fromkeys(speed.FIELDS, "1") | {"model": "network", "way": "numba"}
    speed.keep({("network", "numba"): first})
    (found,) = speed.lines_of([("network", "sgemm")])
    speed.keep(speed.kept() | {("network", "sgemm"): found})
    assert list(speed.kept()) == [("network", "numba"), ("network", "sgemm")]
    assert speed.kept()["network", "numba"] == first
    assert found["clipped"] == found["private"] == ""
    assert "| numba | 1 | 1 | 1 | 1.00 | 1 | 1, 1 |" in speed.page(speed.kept())


def test_what_another_process_says_of_its_seconds_counts_and_rows_take_turns(monkeypatch):
    turns = []

    def way(name, seconds):
        return ("numpy", lambda round: {"plain": lambda: turns.append(name) or next(seconds)})

    monkeypatch.setitem(speed.WAYS, "pfl", way("pfl", iter([9.0, 3.0, 2.0, 4.0])))
    monkeypatch.setitem(speed.WAYS, "opacus", way("opacus", iter([9.0, 0.5, 0.75, 0.25])))
    monkeypatch.setattr(speed, "BUSY", 1.0)
    monkeypatch.setattr(speed, "CLIENTS", {"network": 1})
    rows = [("network", "pfl"), ("network", "opacus")]
    assert [found["plain"] for found in speed.lines_of(rows)] == ["2", "0.25"]
    assert turns == 4 * ["pfl", "opacus"]
