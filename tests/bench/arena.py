"""The arena: our defaults, chosen before the truth is seen, beside what others use; simulated cells and real data.

``make arena`` runs what is missing of the full setting and writes the page; cells in the file of results are not run again,
unless the code of one of their entrants is another by now.  By hand::

    python tests/bench/arena.py run --results FILE [--setting small] [--only TEXT] [--data FOLDER] [--minutes N]
    python tests/bench/arena.py gaps --replicates N [--gaps FILE] [--only TEXT] [--minutes N]
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
from collections import Counter
from inspect import getsource
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from arena_entrants import FAMILY, OURS, code, entrants
from arena_real import REAL

from estimators.system.files import locked

COLUMNS = (
    "kind", "prior", "m", "design", "entrant", "replicates", "failed", "risk", "behind", "behind_se", "held", "held_se",
    "length", "seconds", "code",
)  # fmt: skip
GAPS = "kind", "prior", "m", "design", "replicates", "risk", "behind", "behind_se", "peer", "held", "code"

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
HOME = Path(__file__).parent
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
            table[name] = dict.fromkeys(COLUMNS[7:-1], np.nan) | {"replicates": 0, "failed": len(rows)}
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


def fingerprint(kind, prior, name):
    """Fingerprint of what an entrant's line in a cell was made by: its code and that of the draws."""
    draws = PRIORS[kind].get(prior) or REAL[prior][1]
    return code(name, entrants(kind)[name], map(getsource, (variances, drawn, measured, draws)))


def current(rows):
    """Return whether all lines of a cell, of entrants that are here, are of the present code."""
    here = entrants(rows[0]["kind"])
    return all(r["entrant"] not in here or r["code"] == fingerprint(r["kind"], r["prior"], r["entrant"]) for r in rows)


def cells_of(rows):
    """Return {cell: its lines}, in the order of the file."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[c] for c in COLUMNS[:4]), []).append(row)
    return found


def write(path, columns, rows):
    """Write a file of results as a whole or not at all."""
    path = Path(path)
    new = path.with_name(f"{path.name}~")
    with open(new, "w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    new.replace(path)


def run(results, setting="full", seed=1, only="", data=None, minutes=np.inf):
    """Run cells that are missing from the file of results, adding their rows to it."""
    warnings.simplefilter("ignore")
    warnings.showwarning = lambda *_: None  # some packages set filters of their own
    results, end = Path(results), time.monotonic() + 60 * minutes
    done = {cell for cell, rows in cells_of(read(results)).items() if current(rows)}
    truths, most, fewest = SETTINGS[setting]

    def finish(cell, kind, draws):
        new, place = [], dict(zip(COLUMNS[:4], cell, strict=True))
        for name, row in contest(kind, draws).items():
            values = {c: f"{x:.4g}" if isinstance(x := row[c], float) else x for c in COLUMNS[5:-1]}
            new.append(place | values | {"entrant": name, "code": fingerprint(kind, cell[1], name)})
        with locked(results):  # another run may have added cells in the meantime, and may be at it
            old = [row for row in read(results) if tuple(row[c] for c in COLUMNS[:4]) != cell]
            write(results, COLUMNS, old + new)
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


def gap(kind, draws):
    """Return the default's risk, its gap to the best peer with the paired standard error, that peer, and what it held."""
    default = next(iter(OURS[kind]))
    here = {name: f for name, f in entrants(kind).items() if name == default or name not in OURS[kind]}
    rows = {name: np.array([measured(f, *draw) or (np.nan,) * 4 for draw in draws]) for name, f in here.items()}
    ours, worst = rows[default][:, 0], (-np.inf, np.nan, "")
    for name in here:
        both = ~np.isnan(ours + rows[name][:, 0])
        if name != default and both.sum() > 1:
            e, other = ours[both], rows[name][both, 0]
            ratio = e.mean() / other.mean()
            worst = max(worst, (ratio - 1, np.std(e - ratio * other, ddof=1) / np.sqrt(e.size) / other.mean(), name))
    risk = np.nanmean(ours) / np.mean(rows["own"][:, 0])
    return {
        "risk": risk,
        "behind": worst[0],
        "behind_se": worst[1],
        "peer": worst[2],
        "held": np.nanmean(rows[default][:, 1]),
    }


def gap_code(kind, prior):
    """Fingerprint of the default, of its peers and of the draws."""
    default = next(iter(OURS[kind]))
    names = sorted(name for name in entrants(kind) if name == default or name not in OURS[kind])
    return code(default, gap, [fingerprint(kind, prior, name) for name in names])


def run_gaps(gaps, replicates, seed=1, only="", minutes=np.inf):
    """Run simulated cells of the default and its peers alone, with many replicates; those missing or of old code."""
    warnings.simplefilter("ignore")
    warnings.showwarning = lambda *_: None
    end = time.monotonic() + 60 * minutes
    for kind, prior, m, design in cells("full"):
        cell, print_ = (kind, prior, str(m), design), gap_code(kind, prior)
        done = cells_of(read(gaps)).get(cell)
        if only not in " ".join(cell) or time.monotonic() > end or (done and done[0]["code"] == print_):
            continue
        found = gap(kind, [drawn(kind, prior, m, design, seed, r) for r in range(replicates)])
        values = {name: f"{x:.4g}" if isinstance(x, float) else x for name, x in found.items()}
        new = dict(zip(COLUMNS[:4], cell, strict=True)) | values | {"replicates": replicates, "code": print_}
        with locked(gaps):
            write(gaps, GAPS, [row for other, [row] in cells_of(read(gaps)).items() if other != cell] + [new])
        print(*cell, flush=True)


def read(results):
    """Return the rows of a file of results, numbers as text."""
    if not Path(results).is_file():
        return []
    with open(results, newline="") as file:
        return list(csv.DictReader(file))


def percent(text, signed=False):
    return "" if text in ("", "nan") else f"{100 * float(text):{'+' if signed else ''}.1f}"


def by_ratio(rows, head):
    """Return a table of risk and coverage: a line per (cell, prior, choice), a column per ratio, of such rows."""
    ratios = list(dict.fromkeys(row[3] for row in rows))
    lines = [
        f"| {head} | {' | '.join(f'{ratio} between / within' for ratio in ratios)} |",
        "| --- " * (3 + len(ratios)) + "|",
    ]
    for place in dict.fromkeys(row[:3] for row in rows):
        cells = {ratio: f"{float(risk):.3f}, {percent(held)}" for *where, ratio, risk, held in rows if (*where,) == place}
        lines.append(f"| {' | '.join(place)} | {' | '.join(cells[ratio] for ratio in ratios)} |")
    return [*lines, ""]


def overall(rows):
    """Return a table of laws over all cells of such rows: least coverage, average risk, the most above the best law."""
    cells = {}
    for cell, prior, law, ratio, risk, held in rows:
        cells.setdefault((cell, prior, ratio), {})[law] = float(risk), float(held)
    lines = [
        "| law, over all of these cells | held at least % | average risk | at most above the best law |",
        "| --- " * 4 + "|",
    ]
    for law in next(iter(cells.values())):
        risks = [found[law][0] for found in cells.values()]
        above = max(found[law][0] - min(risk for risk, _ in found.values()) for found in cells.values())
        least = min(found[law][1] for found in cells.values())
        lines.append(f"| {law} | {100 * least:.1f} | {np.mean(risks):.3f} | {above:.3f} |")
    return [*lines, ""]


def limits(path=HOME / "arena_limit.csv", defaults=HOME / "defaults.csv"):
    """Return the section on what other choices gain in such cells, and lose in others."""
    rows = read(path)

    def of(wanted):
        """The rows of cells whose names are wanted."""
        columns = "cell", "prior", "choice", "ratio", "risk", "held"
        return [tuple(row[c] for c in columns) for row in rows if wanted(row["cell"])]

    few = of(lambda cell: cell.endswith(" estimates"))
    counts = [
        (f"20 {row['kind']}", row["prior"], row["law"], row["ratio"], row["risk"], row["held"])
        for row in read(defaults)
        if row["kind"] in ("trials", "exposures") and row["m"] == "20" and row["prior"] == "own family"
    ]
    real = [row for row in rows if row["prior"] == "real"]
    return [
        "## Why a peer can be ahead: what other choices gain there, and lose elsewhere",
        "",
        "Risk over that of own estimates, and how often 95 % intervals hold, %; from `arena_limit.py` and, of counts, from",
        "[DEFAULTS.md](DEFAULTS.md).",
        "",
        "**Few clients.** They differ little in the cells of the arena (between over within is 1, and about .1 where counts",
        "are narrow): whoever guesses a small spread gains, the more so who pools all. What has less risk there than the",
        "default's law (Strawderman) holds less often where clients differ more, or has more risk in other cells. The",
        "default is chosen for intervals that hold.",
        "",
        *overall(few),
        *by_ratio(few, "cell | prior | law"),
        *by_ratio(counts, "cell | prior | law"),
        "**Raw rows.** How noisy a client is, is judged by its rows alone. To count its distance from the others as noise",
        "too is right where true values are normal, and gains little there; elsewhere it takes clients that differ for",
        "noisy ones.",
        "",
        *by_ratio(of(lambda cell: cell == "rows"), "cell | prior | noise judged by"),
        "So does the likelihood of the prior: it counts the variances that rows let expect. One of t laws,",
        '`SampleMeans(noise="t")`, gains where true values differ little, and loses most where a few are far from the',
        "others. One variance for all, which peers take, gains a little where it is true, and loses where it is not.",
        "",
        *by_ratio(of(lambda cell: cell.endswith(" rows")), "cell | prior | noise"),
        "**Real data.** Schools' variances hardly differ. Players' averages and at bats are not independent: who bats",
        "better bats more, and pitchers do neither. The default is told nothing of it; it gains where it is. Errors of",
        "players are over players: of the default beside own estimates, of others beside the default.",
        "",
        "| cell | choice | risk | its error | held % |",
        "| --- " * 5 + "|",
        *(f"| {r['cell']} | {r['choice']} | {r['risk']} | {r['risk_se']} | {percent(r['held'])} |" for r in real),
        "",
    ]


def reason(cell, default, behind, error):
    """Return why a peer may be ahead of a default in a cell, as far as the cell's own description says it."""
    _, prior, m, design = cell
    if design == "real":
        return "real data"
    if prior not in FAMILY[default]:
        return "prior outside the default's family"
    if behind - 2 * error <= 0.02:
        return "no more than chance"
    return "few clients" if int(m) <= 20 else "inside the default's family"


def reasons(late):
    """Return the section on cells where a peer is ahead by more than 2 %: why, and which of our models is not."""
    counts = Counter(why for _, _, why, _, _ in late)
    lines = [
        "## Where a peer is ahead by more than 2 %, and why",
        "",
        f"{len(late)} cells: {'; '.join(f'{many} {why}' for why, many in counts.most_common())}." if late else "No cell.",
        "A default is made for one family of priors and is to hold its intervals whatever the prior is; a peer that",
        "borrows more, or a model of ours that is made for such a prior, gains where one knows of it beforehand.",
        "*No more than chance*: less than twice its error beyond 2 %, where that error is known.",
        "",
        "| cell | m | design | behind % | peer | why | models of ours within 2 % |",
        "| --- " * 7 + "|",
    ]
    for behind, (kind, prior, m, design), why, rival, near in sorted(late, key=lambda entry: -entry[0]):
        names = "; ".join(near)
        lines.append(f"| {kind}: {prior} | {m} | {design} | {100 * behind:+.1f} | {rival} | {why} | {names} |")
    return [*lines, ""]


def page(results, gaps=None):
    """Return the page: where our defaults stand, every cell worst first, and coverage, worst first."""
    rows = read(results)
    by_cell = {cell: {row["entrant"]: row for row in lines} for cell, lines in cells_of(rows).items()}
    old = [" ".join(cell) for cell, lines in cells_of(rows).items() if not current(lines)]
    said = [f"{sum(cell.startswith(kind) for cell in old)} of {kind}" for kind in SIZES]
    many_times = cells_of(read(gaps or Path(results).with_name("arena_gaps.csv")))
    many_replicates = {cell: row for cell, [row] in many_times.items() if cell in by_cell}
    standing, wider, late = [], [], []
    for cell, table in by_cell.items():
        ours, risk = OURS[cell[0]], {n: float(r["risk"]) for n, r in table.items() if float(r["risk"]) == float(r["risk"])}
        default = next(iter(ours))
        peers = {n: r for n, r in risk.items() if n not in ours}
        rival, best = min(peers, key=peers.__getitem__), min(risk, key=risk.__getitem__)
        wider.append(min(r for n, r in risk.items() if n in ours) / peers[rival] - 1)
        behind, its_error = risk[default] / peers[rival] - 1, ""
        if again := many_replicates.get(cell):
            behind, rival, its_error = float(again["behind"]), again["peer"], f" ({percent(again['behind_se'])})"
        standing.append((behind, cell, table[default], rival + its_error, best, risk[default] / risk[best] - 1))
        if behind > 0.02:
            error = float(again["behind_se"]) if again else 0.0  # that of a contest's line is to the best of all
            near = [n for n, r in risk.items() if n in ours and r <= 1.02 * peers[rival.split(" (")[0]]]
            late.append((behind, cell, reason(cell, default, behind, error), rival, near))
    standing.sort(key=lambda entry: -entry[0])
    many = len(standing)
    within = sum(behind <= 0.02 for behind, *_ in standing)
    models = sum(entry[-1] <= 0.02 for entry in standing)
    beyond = {
        cell: row["peer"]
        for cell, row in many_replicates.items()
        if float(row["behind"]) - 2 * float(row["behind_se"]) > 0.02
    }
    fixed = sum(peer in ("own", "pooled") for peer in beyond.values())
    lines = [
        "# The arena",
        "",
        "Written by `python tests/bench/arena.py page`; `make arena` runs what is missing and writes it anew. Do not edit.",
        "",
        "The default of each kind of data (`GaussianMeans`, `SampleMeans`, `BetaBinomial`, `GammaPoisson`) is named before",
        "the truth is seen. Risk is the mean squared error over that of clients' own estimates, held is how often 95 %",
        "intervals hold the truth, length is relative to own intervals, seconds are of one processor. Peers' intervals take",
        "the fitted prior for true, as their manuals do. The best peer of a cell is chosen after the truth is seen.",
        "Where a peer has an error in brackets, default and peers alone were run with many replicates",
        "(`arena.py gaps`), and that gap, with its paired standard error, is the cell's.",
        "",
        f"Run with other code than today's, or before lines named it: {len(old)} of {len(by_cell)} cells"
        + (": " + "; ".join(old if len(old) <= 20 else said) + "." if old else "."),
        "",
        f"- Default best, or within 2 % of the best peer: {within} of {many} cells ({100 * within / many:.0f} %).",
        f"- Default best, or within 2 % of the best of all, our other models too: {models} of {many} cells.",
        f"- A model of ours best, or within 2 % of the best peer: {sum(w <= 0.02 for w in wider)} of {many} cells; the",
        "  model is chosen after the truth is seen, so this is no promise.",
        "",
        f"- Of the {len(many_replicates)} cells with many replicates, in {len(beyond)} the best peer is ahead by more than",
        f"  2 % beyond twice the error; in {fixed} of these it is the pooled or the own estimate, which look at no spread.",
        "",
        *reasons(late),
        *limits(),
        "## Risk of the default, worst cells first",
        "",
        "| cell | m | design | risk | behind best peer % | peer | behind best % (its error) | best | held % | length | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for behind, (kind, prior, m, design), row, rival, best, _ in standing:
        error = f" ({percent(row['behind_se'])})" if row["behind_se"] not in ("", "nan") else ""
        lines.append(
            f"| {kind}: {prior} | {m} | {design} | {float(row['risk']):.3f} | {100 * behind:+.1f} | {rival} | "
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
    parser.add_argument("what", choices=["run", "gaps", "page"])
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("arena.csv"))
    parser.add_argument("--gaps", type=Path, default=HOME / "arena_gaps.csv")
    parser.add_argument("--replicates", type=int, default=300, help="of gaps")
    parser.add_argument("--setting", choices=SETTINGS, default="full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cells whose name holds this text")
    parser.add_argument("--data", type=Path, help="folder of the real data sets; those that are missing are skipped")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no cell after this time")
    chosen = parser.parse_args(arguments)
    if chosen.what == "page":
        print(page(chosen.results, chosen.gaps), end="")
    elif chosen.what == "gaps":
        run_gaps(chosen.gaps, chosen.replicates, chosen.seed, chosen.only, chosen.minutes)
    else:
        run(chosen.results, chosen.setting, chosen.seed, chosen.only, chosen.data, chosen.minutes)


if __name__ == "__main__":
    main()
