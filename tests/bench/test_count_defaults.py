"""The table of regressions of counts: its draws have the spread that they are named after, a cell is drawn again."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import count_defaults
import count_lattice
from scipy import integrate, stats


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
    mine = [r for r in rows if (r["family"], r["m"], r["spread"]) == ("exposures", "5", "1")]
    replicates = int(mine[0]["replicates"]) + int(mine[0]["refused"])
    for row, again in zip(mine, count_defaults.cell("exposures", 5, "1", replicates), strict=True):
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


@pytest.mark.parametrize(
    ("family", "law"),
    [
        ("trials", lambda x, n, eta, phi: stats.betabinom.logpmf(x, n, phi / (1 + np.exp(-eta)), phi / (1 + np.exp(eta)))),
        ("exposures", lambda x, e, eta, phi: stats.nbinom.logpmf(x, phi, phi / (phi + e * np.exp(eta)))),
    ],
)
@pytest.mark.parametrize("phi", [0.02, 3.0, 400.0])
def test_the_lattice_sums_the_likelihood(family, law, phi):
    """Up to a constant, by SciPy's laws; of trials with the location's density, one client's worth over all; slopes too."""
    x, size, eta = np.array([0, 3, 7]), np.array([4, 9, 7]), np.array([[-3.0, 0.2, 1.5], [2.0, -1.0, 0.3]])
    value, slope, bend = count_lattice.log_chance(family, x, size, eta, phi)
    other = law(x, size, eta, phi)
    if family == "trials":
        other = other + stats.logistic.logpdf(eta) / 3
    np.testing.assert_allclose(np.diff(value, axis=0), np.diff(other, axis=0), rtol=1e-9)
    step = 1e-5
    ends = [count_lattice.log_chance(family, x, size, eta + d, phi) for d in (-step, step)]
    np.testing.assert_allclose(slope, (ends[1][0] - ends[0][0]) / (2 * step), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(bend, (ends[1][1] - ends[0][1]) / (2 * step), rtol=1e-5, atol=1e-7)


def test_the_lattice_has_the_mass_of_the_whole_posterior():
    """The slope's law at one spread, by adaptive integration over the plane."""
    x, n, z = np.array([1, 6, 2, 9, 4]), np.array([7, 12, 20, 33, 15]), np.array([0.3, -1.0, 0.4, -0.2, 1.1])
    weights, log_rho, eta = count_lattice.lattice("trials", x, n, z)
    at = np.unique(log_rho)[np.argmin(np.abs(np.unique(log_rho) + 1))]
    some = log_rho == at
    slope = (eta[some, 0] - eta[some, 1]) / (z[0] - z[1])
    found = np.sum(weights[some] * slope) / weights[some].sum()

    def density(b, a):
        return np.exp(count_lattice.log_chance("trials", x, n, a + b * z, np.exp(-at))[0].sum() + 40)

    total, first = (
        integrate.dblquad(f, -7, 5, -9, 9, epsabs=0, epsrel=1e-4)[0] for f in (density, lambda b, a: b * density(b, a))
    )
    assert found == pytest.approx(first / total, abs=2e-3)
