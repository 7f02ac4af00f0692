"""The arena: our defaults, chosen before the truth is seen, beside what others use; simulated cells and real data.

``make arena`` runs what is missing of the full setting and writes the page; cells in the file of results are not run again.
By hand::

    python tests/bench/arena.py run --results FILE [--setting small] [--only TEXT] [--data FOLDER] [--minutes N]
    python tests/bench/arena.py page --results FILE > tests/bench/ARENA.md

Each cell draws true values and data of them several times; every entrant gets the same draws.  Measured: risk (mean squared
error over that of clients' own estimates), how often 95 % intervals hold the truth, their length over that of own intervals,
processor seconds.  The variance between clients equals the harmonic mean of the sampling variances in cells of normal
estimates.  Belongs here: cells, the contest and its page.  Entrants are in ``arena_entrants``, real data in ``arena_real``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from arena_entrants import FAMILY, OURS, entrants
from arena_real import REAL

COLUMNS = (
    "kind", "prior", "m", "design", "entrant", "replicates", "failed", "risk", "behind", "behind_se", "held", "held_se",
    "length", "seconds",
)  # fmt: skip

NORMAL = {
    "normal": lambda g, m: g.standard_normal(m),
    "t3": lambda g, m: g.standard_t(3, m) / np.sqrt(3),
    "skewed": lambda g, m: g.exponential(1, m) - 1,
    "two-point": lambda g, m: g.choice([-1.0, 1.0], m),
    "spike 50 %": lambda g, m: g.standard_normal(m) * np.sqrt(2) * (g.random(m) < 0.5),
    "spike 90 %": lambda g, m: g.standard_normal(m) * np.sqrt(10) * (g.random(m) < 0.1),
}
PRIORS = {
    "estimates": NORMAL,
    "rows": {name: NORMAL[name] for name in ("normal", "t3", "spike 90 %")},
    "trials": {
        "beta wide": lambda g, m: g.beta(2, 5, m),
        "beta narrow": lambda g, m: g.beta(20, 60, m),
        "two shares": lambda g, m: g.choice([0.2, 0.6], m),
    },
    "exposures": {
        "gamma wide": lambda g, m: g.gamma(0.7, 2, m),
        "gamma narrow": lambda g, m: g.gamma(10, 0.2, m),
        "two rates": lambda g, m: g.choice([0.5, 4.0], m),
    },
}
DESIGNS = ("equal", "unequal")
SIZES = {"estimates": (5, 10, 20, 100, 1000), "rows": (5, 20, 100), "trials": (20, 100, 1000), "exposures": (20, 100, 1000)}
SETTINGS = {"full": (2000, 100, 8), "short": (400, 20, 4), "small": (60, 4, 3)}  # truths per cell, most replicates, fewest
ROWS = 5


def variances(m, design):
    """Return variances of harmonic mean 1, a hundredfold apart if unequal."""
    v = np.geomspace(0.1, 10, m) if design == "unequal" else np.ones(m)
    return v * np.mean(1 / v)


def drawn(kind, prior, m, design, seed, replicate):
    """Return (data, truth, variance of the truth's own noise) of one replicate."""
    place = [list(PRIORS).index(kind), list(PRIORS[kind]).index(prior), m, DESIGNS.index(design), replicate]
    g = np.random.default_rng([seed, *place])
    truth = PRIORS[kind][prior](g, m)
    if kind == "estimates":
        v = variances(m, design)
        data = truth + np.sqrt(v) * g.standard_normal(m), v
    elif kind == "rows":
        sd = np.sqrt(ROWS * (g.permutation(np.geomspace(1, 30, m)) / 6 if design == "unequal" else np.ones(m)))
        data = (truth[:, None] + sd[:, None] * g.standard_normal((m, ROWS)),)
    elif kind == "trials":
        n = g.integers(5, 200, m) if design == "unequal" else np.full(m, 10)
        data = g.binomial(n, truth), n
    else:
        e = g.gamma(2, 0.5, m) + 0.05 if design == "unequal" else np.ones(m)
        data = g.poisson(e * truth), e
    return data, truth, np.zeros(m)


def measured(entrant, data, truth, noise):
    """Return squared error, share held, mean length and seconds; None where the entrant gives no answer."""
    start = time.process_time()
    try:
        estimate, low, high = entrant(*data)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return None
    seconds = time.process_time() - start
    if not np.isfinite(estimate).all():
        return None
    # Where the truth is an average of few, its noise is taken off the error, and added to the interval.
    wide = 1.959964 * np.sqrt(noise)
    low, high = estimate - np.hypot(estimate - low, wide), estimate + np.hypot(high - estimate, wide)
    error = np.mean((estimate - truth) ** 2 - noise)
    return error, np.mean((low <= truth) & (truth <= high)), np.mean(high - low), seconds


def contest(kind, draws):
    """Return {entrant: row without the cell's columns} from a list of (data, truth, noise)."""
    found = {}
    for name, entrant in entrants(kind).items():
        rows = [measured(entrant, *draw) for draw in draws]
        found[name] = np.array([row or (np.nan,) * 4 for row in rows])
    own = found["own"]
    errors = {name: rows[:, 0] for name, rows in found.items()}
    risks = {name: np.nanmean(e) / np.mean(own[:, 0]) for name, e in errors.items() if not np.isnan(e).all()}
    best = min(risks, key=risks.__getitem__)
    table = {}
    for name, rows in found.items():
        good = ~np.isnan(rows[:, 0])
        if not good.any():
            table[name] = dict.fromkeys(COLUMNS[7:], np.nan) | {"replicates": 0, "failed": len(rows)}
            continue
        e, top = errors[name], errors[best]
        some = ~np.isnan(e + top)
        gap = e[some] - top[some]
        scale = np.mean(top[some])
        count = good.sum()
        table[name] = {
            "replicates": int(count),
            "failed": int((~good).sum()),
            "risk": risks[name],
            "behind": np.mean(gap) / scale,
            "behind_se": np.std(gap, ddof=1) / np.sqrt(gap.size) / scale if gap.size > 1 else np.nan,
            "held": np.mean(rows[good, 1]),
            "held_se": np.std(rows[good, 1], ddof=1) / np.sqrt(count) if count > 1 else np.nan,
            "length": np.mean(rows[good, 2]) / np.mean(own[good, 2]),
            "seconds": np.mean(rows[good, 3]),
        }
    return table


def cells(setting):
    """Yield (kind, prior, m, design) of the simulated cells; those of few clients come first."""
    for kind, sizes in sorted(SIZES.items()):
        if setting == "small":
            sizes = sizes[:1]
        yield from ((kind, prior, m, design) for m in sizes for prior in PRIORS[kind] for design in DESIGNS)


def run(results, setting="full", seed=1, only="", data=None, minutes=np.inf):
    """Run cells that are missing from the file of results, adding their rows to it."""
    warnings.simplefilter("ignore")
    warnings.showwarning = lambda *_: None  # some packages set filters of their own
    results, end = Path(results), time.monotonic() + 60 * minutes
    done = {tuple(row[c] for c in COLUMNS[:4]) for row in read(results)}
    truths, most, fewest = SETTINGS[setting]

    def finish(cell, kind, draws):
        with open(results, "a", newline="") as file:
            writer = csv.writer(file)
            if not file.tell():
                writer.writerow(COLUMNS)
            for name, row in contest(kind, draws).items():
                values = [row[c] for c in COLUMNS[5:]]
                writer.writerow([*cell, name, *(f"{x:.4g}" if isinstance(x, float) else x for x in values)])
        print(*cell, flush=True)

    for kind, prior, m, design in cells(setting):
        cell = kind, prior, str(m), design
        if cell not in done and only in " ".join(cell) and time.monotonic() < end:
            replicates = range(int(np.clip(truths // m, fewest, most)))
            finish(cell, kind, [drawn(kind, prior, m, design, seed, r) for r in replicates])
    for name, (kind, reader, replicates) in REAL.items() if data else ():
        try:
            first = reader(Path(data), 0)
        except FileNotFoundError as error:
            print(f"{name}: skipped, {error.filename} is not there", file=sys.stderr)
            continue
        cell = kind, name, str(len(first[1])), "real"
        if cell not in done and only in " ".join(cell) and time.monotonic() < end:
            finish(cell, kind, [first, *(reader(Path(data), r) for r in range(1, replicates))])


def read(results):
    """Return the rows of a file of results, numbers as text."""
    if not Path(results).is_file():
        return []
    with open(results, newline="") as file:
        return list(csv.DictReader(file))


def percent(text, signed=False):
    return "" if text in ("", "nan") else f"{100 * float(text):{'+' if signed else ''}.1f}"


def page(results):
    """Return the page: where our defaults stand, every cell worst first, and coverage, worst first."""
    rows = read(results)
    by_cell = {}
    for row in rows:
        by_cell.setdefault(tuple(row[c] for c in COLUMNS[:4]), {})[row["entrant"]] = row
    standing, wider = [], []
    for cell, table in by_cell.items():
        ours, risk = OURS[cell[0]], {n: float(r["risk"]) for n, r in table.items() if float(r["risk"]) == float(r["risk"])}
        default = next(iter(ours))
        peers = {n: r for n, r in risk.items() if n not in ours}
        rival, best = min(peers, key=peers.__getitem__), min(risk, key=risk.__getitem__)
        standing.append(
            (risk[default] / peers[rival] - 1, cell, table[default], rival, best, risk[default] / risk[best] - 1)
        )
        wider.append(min(r for n, r in risk.items() if n in ours) / peers[rival] - 1)
    standing.sort(key=lambda entry: -entry[0])
    many = len(standing)
    within = sum(gap <= 0.02 for gap, *_ in standing)
    models = sum(entry[-1] <= 0.02 for entry in standing)
    lines = [
        "# The arena",
        "",
        "Written by `python tests/bench/arena.py page`; `make arena` runs what is missing and writes it anew. Do not edit.",
        "",
        "The default of each kind of data (`GaussianMeans`, `SampleMeans`, `BetaBinomial`, `GammaPoisson`) is named before",
        "the truth is seen. Risk is the mean squared error over that of clients' own estimates, held is how often 95 %",
        "intervals hold the truth, length is relative to own intervals, seconds are of one processor. Peers' intervals take",
        "the fitted prior for true, as their manuals do. The best peer of a cell is chosen after the truth is seen.",
        "",
        f"- Default best, or within 2 % of the best peer: {within} of {many} cells ({100 * within / many:.0f} %).",
        f"- Default best, or within 2 % of the best of all, our other models too: {models} of {many} cells.",
        f"- A model of ours best, or within 2 % of the best peer: {sum(w <= 0.02 for w in wider)} of {many} cells; the",
        "  model is chosen after the truth is seen, so this is no promise.",
        "",
        "## Risk of the default, worst cells first",
        "",
        "| cell | m | design | risk | behind best peer % | peer | behind best % (its error) | best | held % | length | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for gap, (kind, prior, m, design), row, rival, best, _ in standing:
        error = f" ({percent(row['behind_se'])})" if row["behind_se"] not in ("", "nan") else ""
        lines.append(
            f"| {kind}: {prior} | {m} | {design} | {float(row['risk']):.3f} | {100 * gap:+.1f} | {rival} | "
            f"{percent(row['behind'], True)}{error} | {best} | {percent(row['held'])} | {float(row['length']):.2f} | "
            f"{float(row['seconds']):.3f} |"
        )
    lines += ["", "## Intervals, worst cells first", "", "Inside: the prior is one that the model is made for.", ""]
    lines += ["| entrant | cell | m | design | inside | held % | error | length | replicates |", "| --- " * 9 + "|"]
    ours = [row for row in rows if row["entrant"] in OURS[row["kind"]] and row["design"] != "real" and row["held"] != "nan"]
    ours.sort(
        key=lambda row: (
            row["entrant"],
            row["prior"] not in FAMILY.get(row["entrant"], PRIORS[row["kind"]]),
            float(row["held"]),
        )
    )
    for row in ours:
        inside = "yes" if row["prior"] in FAMILY.get(row["entrant"], PRIORS[row["kind"]]) else ""
        lines.append(
            f"| {row['entrant']} | {row['kind']}: {row['prior']} | {row['m']} | {row['design']} | {inside} | "
            f"{percent(row['held'])} | {percent(row['held_se'])} | {float(row['length']):.2f} | {row['replicates']} |"
        )
    lines += ["", "## Every entrant: cells, and averages over them", ""]
    lines += ["| kind | entrant | cells | failed | risk | held % | length | s |", "| --- " * 8 + "|"]
    for kind in SIZES:
        for name in dict.fromkeys(row["entrant"] for row in rows if row["kind"] == kind):
            mine = [r for r in rows if r["kind"] == kind and r["entrant"] == name]
            means = {c: np.nanmean([float(r[c]) for r in mine]) for c in ("risk", "held", "length", "seconds")}
            failed = sum(int(r["failed"]) for r in mine)
            lines.append(
                f"| {kind} | {name} | {len(mine)} | {failed} | {means['risk']:.3f} | {100 * means['held']:.1f} | "
                f"{means['length']:.2f} | {means['seconds']:.3f} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments=None):
    """Run cells, or print the page."""
    parser = argparse.ArgumentParser(description="Our defaults beside what others use.")
    parser.add_argument("what", choices=["run", "page"])
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("arena.csv"))
    parser.add_argument("--setting", choices=SETTINGS, default="full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cells whose name holds this text")
    parser.add_argument("--data", type=Path, help="folder of the real data sets; those that are missing are skipped")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no cell after this time")
    chosen = parser.parse_args(arguments)
    if chosen.what == "page":
        print(page(chosen.results), end="")
    else:
        run(chosen.results, chosen.setting, chosen.seed, chosen.only, chosen.data, chosen.minutes)


if __name__ == "__main__":
    main()
