"""The table of regressions of counts: its draws have the spread that they are named after, a cell is drawn again."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import count_defaults


@pytest.mark.parametrize(("family", "size"), [("trials", 20.0), ("exposures", 5.0)])
def test_new_clients_differ_as_the_spread_says(family, size):
    """Between over within: t, for a client of average size (and of rate 1, whose events are as many as their variance)."""
    for seed in range(5):
        (x, n, z), truth, new, law = count_defaults.drawn(family, 50, "1", np.random.default_rng(seed))
        mean = law.mean()
        assert np.all(x >= 0) and truth.shape == z.shape == (50,)  # noqa: PT018
        assert n.mean() == pytest.approx(size * np.sinh(1), rel=0.05)
        if family == "trials":
            own = mean * (1 - mean) / (n.mean() + 1)
        else:
            assert mean == pytest.approx(np.exp(0.5 * new))
            own = mean**2 / n.mean()
        assert law.var() == pytest.approx(own, rel=1e-9)


def test_spreads_of_the_hyperprior_have_its_law():
    """P(t <= T) = 1 - 2 / sqrt(4 + T)."""
    g = np.random.default_rng(0)
    t = np.array([count_defaults.spread_of("hyperprior", g) for _ in range(4000)])
    for at in (1.0, 12.0, 96.0):
        p = 1 - 2 / np.sqrt(4 + at)
        assert np.mean(t <= at) == pytest.approx(p, abs=4.5 * np.sqrt(p * (1 - p) / t.size))


def test_a_cell_is_drawn_again():
    """Each cell that is there has both ways, and one of the cheapest is as committed."""
    rows = count_defaults.read()
    places = [tuple(map(str, one)) for one in count_defaults.cells()]
    there = [(*(r[c] for c in count_defaults.PLACE), r["prior"]) for r in rows]
    assert there == [(*place, prior) for place in places for prior in count_defaults.PRIORS if (*place, prior) in there]
    assert len(there) % 2 == 0
    mine = [r for r in rows if (r["family"], r["m"], r["spread"]) == ("exposures", "5", "hyperprior")]
    replicates = int(mine[0]["replicates"]) + int(mine[0]["refused"])
    for row, again in zip(mine, count_defaults.cell("exposures", 5, "hyperprior", replicates), strict=True):
        assert (row["prior"], int(row["replicates"])) == (again["prior"], again["replicates"])
        for part in count_defaults.PARTS:
            assert float(row[part]) == pytest.approx(float(again[part]), abs=2e-3)


def test_a_run_draws_what_is_missing_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(count_defaults, "cells", lambda: iter([("exposures", 5, "1"), ("exposures", 5, "4")]))
    path = tmp_path / "cells.csv"
    count_defaults.run(path, 3)
    whole = count_defaults.read(path)
    assert [(r["spread"], r["prior"]) for r in whole] == [(s, p) for s in ("1", "4") for p in count_defaults.PRIORS]
    count_defaults.run(path, 3)
    assert count_defaults.read(path) == whole
    count_defaults.run(path, 5, only="exposures 5 4")
    assert [int(r["replicates"]) + int(r["refused"]) for r in count_defaults.read(path)] == [3, 3, 5, 5]


def test_what_holds_too_seldom_or_too_often_is_said():
    row = dict.fromkeys(count_defaults.COLUMNS, "0") | {"clients": ".951", "new": ".90", "slope": ".99", "new_se": ".01"}
    assert count_defaults.outside(row) == ["new 90.0 (1.0)", "slope 99.0 (0.0)"]
