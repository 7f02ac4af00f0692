"""The table of defaults: its averages are the estimators', its page and the words elsewhere are its numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from estimators import BetaBinomial, GammaPoisson, GaussianMeans
from estimators.numerics import spread_law

sys.path.insert(0, str(Path(__file__).parent))

import defaults

GRID = np.array([0.1, 1.0, 30.0])


@pytest.mark.parametrize(("law", "hyperprior"), [("Strawderman", "strawderman"), ("flat on tau", "flat-tau")])
def test_averages_of_normal_estimates_are_the_estimators(law, hyperprior):
    y, v = np.array([1.0, -0.5, 0.3, 3.0, 0.2]), np.array([0.5, 1.0, 2.0, 1.0, 4.0])
    v *= np.mean(1 / v)
    t = np.exp(np.linspace(np.log(1e-10), np.log(1e8), 400))
    logs, means, variances = defaults.normal_posteriors(y[None], v, t)
    p = defaults.share(logs, defaults.LAWS[law](t) * t)[0]
    model = GaussianMeans(hyperprior=hyperprior).fit(y, v)
    np.testing.assert_allclose(means[0] @ p, model.posterior_mean_, atol=1e-4)
    for end, tail in zip(model.interval(), defaults.TAILS, strict=True):
        np.testing.assert_allclose(ndtr((end[:, None] - means[0]) / np.sqrt(variances)) @ p, tail, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "posteriors", "model", "x", "size"),
    [
        ("trials", defaults.trials_posteriors, BetaBinomial(), [3, 9, 5, 1, 14], [10, 20, 30, 15, 25]),
        ("exposures", defaults.exposures_posteriors, GammaPoisson(), [3, 9, 5, 1, 14], [1.0, 2.0, 3.0, 1.5, 2.5]),
    ],
)
def test_averages_of_counts_are_the_estimators(kind, posteriors, model, x, size):
    x, size = np.array(x), np.array(size)
    rho, chance, measure, first, second = posteriors(x[None], size)
    t = rho * (np.mean(size) if kind == "trials" else np.mean(x))
    p = defaults.share(chance + measure, defaults.LAWS[defaults.DEFAULT](t))[0]
    total = first + second if isinstance(model, BetaBinomial) else second
    mean = (first / total)[0] @ p
    np.testing.assert_allclose(mean, model.fit(x, size).posterior_mean_, rtol=2e-3)


def test_the_page_is_what_the_table_says():
    assert (defaults.HOME / "DEFAULTS.md").read_text(encoding="utf-8") == defaults.page(defaults.read())


@pytest.mark.parametrize("kind", defaults.CELLS)
def test_every_cell_is_there(kind):
    _, _, sizes, ratios, priors = defaults.CELLS[kind]
    rows = [row for row in defaults.read() if row["kind"] == kind]
    assert {(r["m"], r["ratio"], r["prior"]) for r in rows} == {(m, r, p) for m in sizes for r in ratios for p in priors}


LONG = {"logistic regressions": [pytest.mark.nightly]}  # two minutes


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=LONG.get(kind, [])) for kind in defaults.CELLS])
def test_a_cell_is_drawn_again(kind):
    """Each kind's first cell is as committed."""
    _, _, sizes, ratios, priors = defaults.CELLS[kind]
    rows = [row for row in defaults.read() if row["kind"] == kind]
    m, ratio, prior = sizes[-1], ratios[0], priors[0]
    mine = [r for r in rows if (r["m"], r["ratio"], r["prior"]) == (m, ratio, prior)]
    for row, again in zip(mine, defaults.cell(kind, m, ratio, prior), strict=True):
        assert row["law"] == again["law"]
        for name in ("risk", "held"):
            assert row[name] == pytest.approx(float(again[name]), abs=2e-3)


def test_a_run_draws_what_is_missing_and_no_more(tmp_path, monkeypatch):
    few = [("estimates", 5, 0.3, "normal"), ("private rates", 5, 1.0, "own family")]
    monkeypatch.setattr(defaults, "cells", lambda: few)
    monkeypatch.setattr(defaults, "CELLS", {kind: (one[0], 60, *one[2:]) for kind, one in defaults.CELLS.items()})
    path = tmp_path / "cells.csv"
    defaults.run(path)
    whole = path.read_text()
    assert {(row["kind"], row["m"], row["ratio"], row["prior"]) for row in defaults.read(path)} == set(few)
    path.write_text("".join(line for line in whole.splitlines(keepends=True) if not line.startswith("private")))
    defaults.run(path)
    defaults.run(path)
    assert path.read_text() == whole


def test_one_law_is_the_default_of_all_that_average():
    """Where the table asks for it, over all kinds, and what is different says what that costs."""
    rows = defaults.read()
    shared = {law: one for law, one in defaults.summary(rows, defaults.CELLS).items() if law in defaults.LAWS}
    assert defaults.asked(shared) == defaults.DEFAULT == "Strawderman"
    assert (defaults.LAWS["Strawderman"](GRID) / np.exp(spread_law.log_density(GRID))).tolist() == pytest.approx([1] * 3)
    for kind in set(defaults.CELLS) - set(defaults.EXCEPT):
        found = defaults.summary(rows, [kind])
        assert found[defaults.DEFAULT]["short"] == 0


def test_the_words_of_normal_means_are_the_tables():
    """How its default law was chosen, and what five clients who differ little lose under the others."""
    rows, words = defaults.read(), " ".join(str(GaussianMeans.__doc__).split())
    found = defaults.summary(rows, ["estimates"])
    assert defaults.asked(found) == "Strawderman"
    least = {law: f"{100 * one['least']:.1f}" for law, one in found.items()}
    assert f"held the truth {least['Strawderman']} % of the time or more wherever true values were normal" in words
    assert f'"flat-tau" came down to {least["flat on tau"]} %' in words
    five = {r["law"]: f"{r['risk']:.2f}".lstrip("0") for r in rows
            if (r["kind"], r["m"], r["ratio"], r["prior"]) == ("estimates", 5, 0.1, "normal")}  # fmt: skip
    assert (
        f'it leaves {five["flat on tau2"]} of the squared error where "strawderman" leaves {five["Strawderman"]} '
        f'and "flat-tau" {five["flat on tau"]}.' in words
    )


@pytest.mark.parametrize(
    ("kind", "model", "shape"), [("exposures", GammaPoisson, "Gamma"), ("trials", BetaBinomial, "Beta")]
)
def test_the_words_of_counts_are_the_tables(kind, model, shape):
    """What the law gains over the one that is flat on tau, and what it costs."""
    found, words = defaults.summary(defaults.read(), [kind]), " ".join(str(model.__doc__).split())
    mine, other = found["Strawderman"], found["flat on tau"]
    assert f"the truth at least {100 * mine['least']:.1f} % of the time wherever" in words
    assert f"were {shape} and {100 * mine['outside']:.1f} % where they took two values" in words
    assert f"{100 * other['least']:.1f} and {100 * other['outside']:.1f} %, for one per cent less risk" in words
    assert other["risk"] == pytest.approx(0.99 * mine["risk"], rel=5e-3)
