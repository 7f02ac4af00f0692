"""What the regressions of counts promise: risk and coverage of clients', new clients' and the slope's intervals, simulated.

By hand; a cell whose rows stand in the file with as many replicates is not drawn again::

    python tests/bench/count_defaults.py REPLICATES [MINUTES] [TEXT THAT A CELL'S NAME HOLDS]

Clients' means follow one standard normal covariate with a slope of .5.  Spreads are t, the variance between clients of equal
covariates over (about) their sampling variance; in cells of the hyperprior each replicate draws its own from the law that
the default averages over.  Both ways of the prior get the same draws.  Belongs here: the cells and their section of
``DEFAULTS.md``, which ``defaults`` writes.
"""

from __future__ import annotations

import csv
import io
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

from estimators import BetaBinomialRegression, GammaPoissonRegression
from estimators.system import files

PATH = Path(__file__).parent / "count_defaults.csv"
PLACE, PARTS = ("family", "m", "spread"), ("risk", "clients", "new", "slope")
COLUMNS = (*PLACE, "prior", "replicates", "refused", *(c for part in PARTS for c in (part, f"{part}_se")), "seconds")
SIZES, SPREADS, PRIORS = (5, 10, 20, 100), ("hyperprior", "0.1", "1", "4"), ("bayes", "marginal-likelihood")
SLOPE, LEAST, MOST = 0.5, 0.94, 0.97
WAYS = {"trials": BetaBinomialRegression, "exposures": GammaPoissonRegression}


def spread_of(name: str, g: np.random.Generator) -> float:
    """Return t: as named, or from the law with density proportional to (4 + t)^(-3/2)."""
    return 4 / (1 - g.random()) ** 2 - 4 if name == "hyperprior" else float(name)


def drawn(family: str, m: int, spread: str, g: np.random.Generator) -> tuple[tuple[np.ndarray, ...], np.ndarray, float, Any]:
    """Return (x, size, z), clients' true values, a new client's covariate and the law of its true value."""
    z, new, t = g.standard_normal(m), g.standard_normal(), spread_of(spread, g)
    if family == "trials":
        n = np.round(20 * np.exp(np.linspace(-1, 1, m))).astype(int)
        mean, at, phi = expit(SLOPE * z - 1), expit(SLOPE * new - 1), np.mean(n) / t
        truth = g.beta(mean * phi, (1 - mean) * phi)
        return (g.binomial(n, truth), n, z), truth, new, stats.beta(at * phi, (1 - at) * phi)
    e = 5 * np.exp(np.linspace(-1, 1, m))
    phi = np.mean(e) / t
    truth = np.exp(SLOPE * z) * g.gamma(phi, 1 / phi, m)
    return (g.poisson(e * truth), e, z), truth, new, stats.gamma(phi, scale=np.exp(SLOPE * new) / phi)


def measured(way: type, prior: str, data: tuple[np.ndarray, ...], truth: np.ndarray, new: float, law: Any) -> list[float]:
    """Return squared error, own squared error, shares of clients, of a new client's law, and of the slope that are held."""
    model = way(prior).fit(*data)
    low, high = model.interval()
    [[first, last]] = model.new_client_interval([[new]])
    least, largest = model.prior_interval()["slopes"][0]
    own = np.mean((data[0] / data[1] - truth) ** 2)
    return [
        float(np.mean((model.posterior_mean_ - truth) ** 2)), float(own), float(np.mean((low <= truth) & (truth <= high))),
        float(law.cdf(last) - law.cdf(first)), float(least <= SLOPE <= largest),
    ]  # fmt: skip


def cell(family: str, m: int, spread: str, replicates: int) -> list[dict[str, Any]]:
    """Return the two rows of a cell; replicates whose data are refused, as separated ones are, are counted and left out."""
    key = [16, list(WAYS).index(family), m, SPREADS.index(spread)]
    found: dict[str, list[list[float]]] = {prior: [] for prior in PRIORS}
    seconds, refused = dict.fromkeys(PRIORS, 0.0), 0
    for seed in np.random.SeedSequence(key).spawn(replicates):
        data, truth, new, law = drawn(family, m, spread, np.random.default_rng(seed))
        try:
            rows = {}
            for prior in PRIORS:
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    rows[prior] = measured(WAYS[family], prior, data, truth, new, law)
                seconds[prior] += time.process_time() - start
        except ValueError:
            refused += 1
            continue
        for prior, row in rows.items():
            found[prior].append(row)
    return [row_of((family, m, spread, prior), np.array(found[prior]), refused, seconds[prior]) for prior in PRIORS]


def row_of(place: tuple[Any, ...], rows: np.ndarray, refused: int, seconds: float) -> dict[str, Any]:
    """Return a row of the file; the risk is over that of own estimates, with the error of a ratio."""
    error, own, *held = rows.T
    count = len(rows)
    risk = error.mean() / own.mean()
    values = {"risk": (risk, np.std(error - risk * own, ddof=1) / own.mean())}
    values |= {part: (h.mean(), h.std(ddof=1)) for part, h in zip(PARTS[1:], held, strict=True)}
    row = dict(zip((*PLACE, "prior"), place, strict=True)) | {"replicates": count, "refused": refused}
    for part, (value, sd) in values.items():
        row |= {part: f"{value:.4f}", f"{part}_se": f"{sd / np.sqrt(count):.4f}"}
    return row | {"seconds": f"{seconds / count:.3f}"}


def cells() -> Iterator[tuple[str, int, str]]:
    """Return family, number of clients and spread of each cell; those of few clients come first."""
    yield from ((family, m, spread) for m in SIZES for spread in SPREADS for family in WAYS)


def read(path: Path = PATH) -> list[dict[str, str]]:
    """Return the rows of the file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Put rows into a file, all at once."""
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    files.write(path, text.getvalue())


def run(path: Path, replicates: int, minutes: float = np.inf, only: str = "") -> None:
    """Draw the cells that the file lacks or has with fewer replicates, one at a time, until the minutes are over."""
    end = time.monotonic() + 60 * minutes
    for one in cells():
        place = tuple(map(str, one))
        mine = [row for row in read(path) if tuple(row[c] for c in PLACE) == place]
        if (mine and int(mine[0]["replicates"]) + int(mine[0]["refused"]) >= replicates) or only not in " ".join(place):
            continue
        if time.monotonic() > end:
            continue
        new_rows = cell(*one, replicates)
        with files.locked(path):  # another run may have added cells in the meantime, and may be at it
            rows = [row for row in read(path) if tuple(row[c] for c in PLACE) != place] + new_rows
            order = {tuple(map(str, c)): i for i, c in enumerate(cells())}
            rows.sort(key=lambda row: order[tuple(str(row[c]) for c in PLACE)])
            write(path, COLUMNS, rows)
        print(*one, flush=True)


def outside(row: dict[str, str]) -> list[str]:
    """Return which of a row's coverages are outside 94-97 % by more than twice their standard error."""
    found = []
    for part in PARTS[1:]:
        value, error = float(row[part]), 2 * float(row[f"{part}_se"])
        if not LEAST - error <= value <= MOST + error:
            found.append(f"{part} {100 * value:.1f} ({50 * error:.1f})")
    return found


def exactly(rows: list[dict[str, str]]) -> Iterator[str]:
    """Return the lines on what a lattice over all of the prior's parameters would hold, on the data that are fitted."""
    if not rows:
        return
    yield "What is the fits' own fault? A lattice over the spread and both coefficients (`count_lattice.py`) in place of the"
    yield "default's normal coefficients and merged laws, on the same data, refused ones left out. What it lacks of 95 % is"
    yield "of the draws: their coefficients are always the same, and those that are refused are the widest."
    yield ""
    yield "| family | m | data | refused | default % | lattice % | default - lattice |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for r in rows:
        held = (f"{100 * float(r[name]):.1f} ({100 * float(r[f'{name}_se']):.1f})" for name in ("fit", "exact", "gap"))
        yield f"| {r['family']} | {r['m']} | {r['replicates']} | {r['refused']} | {' | '.join(held)} |"
    yield ""


def section(rows: list[dict[str, str]]) -> Iterator[str]:
    """Return the lines of the section on regressions of counts."""
    yield "## Regressions of counts"
    yield ""
    yield "`BetaBinomialRegression` (about 20 trials a client) and `GammaPoissonRegression` (about 5 events), one covariate,"
    yield "its slope .5; from `count_defaults.py`. In cells of the hyperprior each replicate's spread is drawn from the law"
    yield "that the default averages over, where its intervals are to hold 94 to 97 %. Held: % of clients, of a new client's"
    yield "law, and how often the slope's interval held; standard errors in brackets. Refused: what covariates separate."
    yield ""
    short = [(row, outside(row)) for row in rows if row["prior"] == "bayes" and row["spread"] == "hyperprior"]
    bad = [f"{r['family']}, m {r['m']}: {', '.join(parts)}" for r, parts in short if parts]
    yield f"Outside by more than twice the error, default, over its hyperprior: {'; '.join(bad) if bad else 'none'}."
    yield ""
    yield from exactly(read(PATH.with_name("count_lattice.csv")))
    yield "| family | m | spread | prior | replicates | refused | risk | clients % | new client % | slope % | s |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for r in rows:
        held = (f"{100 * float(r[part]):.1f} ({100 * float(r[f'{part}_se']):.1f})" for part in PARTS[1:])
        yield (
            f"| {r['family']} | {r['m']} | {r['spread']} | {r['prior']} | {r['replicates']} | {r['refused']} "
            f"| {float(r['risk']):.3f} ({float(r['risk_se']):.3f}) | {' | '.join(held)} | {r['seconds']} |"
        )
    yield ""


if __name__ == "__main__":
    run(PATH, int(sys.argv[1]), *map(float, sys.argv[2:3]), *sys.argv[3:4])
