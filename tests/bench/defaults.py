"""Which law of the spread between clients to average over when few clients tell it: risk and coverage of each, simulated.

By hand, a minute or two of one processor::

    python tests/bench/defaults.py run > tests/bench/defaults.csv
    python tests/bench/defaults.py page > tests/bench/DEFAULTS.md

Every law gets the same draws, and every average is a sum over a grid of its own, not the estimators' (test_defaults.py holds
the two against each other).  Measured: risk (mean squared error over that of clients' own estimates) and how often 95 %
intervals hold the truth.  Belongs here: the laws, the cells and their page.  Models beside their peers are in ``arena``.
"""

from __future__ import annotations

import csv
import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc, betaln, expit, gammainc, gammaln, logit, ndtr

from estimators import LinearClients

HOME = Path(__file__).parent
COLUMNS = ("kind", "m", "ratio", "prior", "law", "risk", "held", "held_se")
SIZES = (3, 5, 10, 20, 50)
RATIOS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # variance between clients over (the harmonic mean of) the sampling variances
TRUTHS = {"estimates": 24_000, "trials": 3_000, "exposures": 3_000, "regressions": 300}  # per cell
TAILS = 0.025, 0.975

# Densities of t, the variance between clients over the sampling variance, without constants.
LAWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "flat on tau2": np.ones_like,
    "flat on tau": lambda t: t**-0.5,
    "half-Cauchy": lambda t: t**-0.5 / (1 + t),  # of tau, its scale the sampling standard deviation
    "Strawderman": lambda t: (4 + t) ** -1.5,
}
MORRIS = "Morris, equal"  # for equal variances alone, so that its risk is of other cells
LEAST = 0.94  # how often intervals must hold in every cell of the model's family
DEFAULT = {"estimates": "Strawderman", "trials": "flat on tau", "exposures": "Strawderman", "regressions": "penalised-reml"}
TRIALS = (
    "It is the law of Gelman et al. (2013, section 5.3), which readers of counts know; Strawderman's would hold more often "
    "in the worst cell, for a little more risk."
)
REASONS = {"trials": TRIALS, "regressions": "No average over covariances is offered."}
SHAPES = {
    "normal": lambda g, size: g.standard_normal(size),
    "t3": lambda g, size: g.standard_t(3, size) / np.sqrt(3),
    "two-point": lambda g, size: g.choice([-1.0, 1.0], size),
}


def held(below: np.ndarray) -> np.ndarray:
    """Return whether true values lie between the ends of intervals, from their places in the posterior laws."""
    return (below >= TAILS[0]) & (below <= TAILS[1])


def share(logs: np.ndarray, density: np.ndarray) -> np.ndarray:
    """Return posterior probabilities of nodes (replicates, nodes)."""
    with np.errstate(divide="ignore"):
        logs = logs + np.log(density)
    mass = np.exp(logs - logs.max(axis=1, keepdims=True))
    return mass / mass.sum(axis=1, keepdims=True)


# --- normal estimates ------------------------------------------------------------------------------------------------


def normal_posteriors(y: np.ndarray, v: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return log restricted likelihood (replicates, t), posterior means (replicates, m, t) and variances (m, t)."""
    w = 1 / (v[:, None] + t)
    s0, s1, s2 = w.sum(axis=0), y @ w, y**2 @ w
    mu, own, rest = s1 / s0, t * w, v[:, None] * w
    logs = (np.log(w).sum(axis=0) - np.log(s0) - s2 + s1**2 / s0) / 2
    means = own * y[:, :, None] + rest * mu[:, None, :]
    return logs, means, rest * (t + rest / s0)


def normal_cell(m: int, ratio: float, prior: str, seed: list[int]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return, by law, squared errors over own ones and whether intervals hold, arrays (replicates, m)."""
    g, size = np.random.default_rng(seed), max(60, TRUTHS["estimates"] // (2 * m))
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for spread in (0.0, 1.0):  # equal variances, and unequal ones
        v = np.exp(spread * np.linspace(-1.5, 1.5, m))
        v *= np.mean(1 / v)  # the harmonic mean is 1
        theta = np.sqrt(ratio) * SHAPES[prior](g, (size, m))
        y = theta + np.sqrt(v) * g.standard_normal((size, m))
        t = np.exp(np.linspace(np.log(1e-9), np.log(1e7), 160))  # the first stands for 0
        logs, means, variances = normal_posteriors(y, v, t)
        places = ndtr((theta[:, :, None] - means) / np.sqrt(variances))
        scale = np.mean(v)
        for name, density in LAWS.items():
            if name == "flat on tau2" and m < 4:
                continue  # no law
            p = share(logs, density(t) * t)
            mean = np.einsum("rk,rik->ri", p, means)
            inside = held(np.einsum("rk,rik->ri", p, places))
            found.setdefault(name, []).append(((mean - theta) ** 2 / scale, inside))
        best, rows = logs.argmax(axis=1), np.arange(size)
        reml = (means[rows, :, best] - theta) ** 2 / scale, held(places[rows, :, best])
        found.setdefault("REML", []).append(reml)
        if spread == 0 and m > 3:  # Morris (1983), for equal variances
            centre = y.mean(axis=1, keepdims=True)
            B = (m - 3) / (m - 1) * np.minimum(1, (m - 1) / np.sum((y - centre) ** 2, axis=1, keepdims=True))
            sd = np.sqrt(1 - (m - 1) / m * B + 2 / (m - 3) * B**2 * (y - centre) ** 2)
            error = y - B * (y - centre) - theta
            found[MORRIS] = [(error**2, held(ndtr(-error / sd)))]
    return {name: tuple(np.concatenate(parts) for parts in zip(*several, strict=True)) for name, several in found.items()}


# --- counts ----------------------------------------------------------------------------------------------------------


def lattice(centre: np.ndarray, size: float, m: int, slope: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return rho, locations (replicates, nodes) and log measures of a lattice; rho size is the variance over sampling's."""
    rho = np.exp(np.linspace(np.log(1e-4), np.log(1e4), 32)) / size
    width = np.sqrt((1 / size + rho / (1 + rho)) / m)
    offsets = np.linspace(-6, 6, 17)
    t = centre[:, None, None] + slope[:, None, None] * width[:, None] * offsets
    logs = np.log(rho * width)[:, None] + 0 * offsets
    return np.repeat(rho, offsets.size), t.reshape(centre.size, -1), logs.ravel()


def trials_posteriors(x: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return rho, log likelihood (replicates, nodes), log measure with a uniform mean, and shapes (replicates, m, nodes)."""
    ones = (x.sum(axis=1) + 1) / (n.sum() + 2)
    rho, t, logs = lattice(logit(ones), np.mean(n), n.size, 1 / np.sqrt(ones * (1 - ones)))
    a, b = expit(t)[:, None] / rho, expit(-t)[:, None] / rho
    first, second = a + x[:, :, None], b + (n - x)[:, :, None]
    chance = (betaln(first, second) - betaln(a, b)).sum(axis=1)
    return rho, chance, logs + np.log(expit(t) * expit(-t)), first, second


def trials_cell(m: int, ratio: float, prior: str, seed: list[int]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return, by law, squared errors over own ones and whether intervals hold, arrays (replicates, m)."""
    g, size = np.random.default_rng(seed), max(40, TRUTHS["trials"] // m)
    n = np.round(20 * np.exp(np.linspace(-1, 1, m))).astype(int)
    rho, mu = ratio / np.mean(n), 0.3
    sd = np.sqrt(mu * (1 - mu) * rho / (1 + rho))
    theta = g.beta(mu / rho, (1 - mu) / rho, (size, m)) if prior == "own family" else mu + sd * g.choice([-1, 1], (size, m))
    x = g.binomial(n, np.clip(theta, 0, 1))
    rhos, chance, measure, first, second = trials_posteriors(x, n)
    places = betainc(first, second, np.clip(theta, 0, 1)[:, :, None])
    return averaged(rhos * np.mean(n), chance, measure, first / (first + second), places, theta, (x / n - theta) ** 2)


def exposures_posteriors(x: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, ...]:
    """As `trials_posteriors`, with a uniform log mean, and shapes and rates (replicates, m, nodes)."""
    rate = (x.sum(axis=1) + 0.5) / e.sum()
    size = float(np.mean(e) * np.mean(rate))
    rho, t, logs = lattice(np.log(rate), size, e.size, np.ones(rate.size))
    shape, per = 1 / rho + 0 * t, np.exp(-t) / rho
    first, second = shape[:, None] + x[:, :, None], per[:, None] + e[:, None]
    terms = gammaln(first) - gammaln(shape)[:, None] + (shape * np.log(per))[:, None] - first * np.log(second)
    return rho, terms.sum(axis=1), logs, first, second


def exposures_cell(m: int, ratio: float, prior: str, seed: list[int]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return, by law, squared errors over own ones and whether intervals hold, arrays (replicates, m)."""
    g, size = np.random.default_rng(seed), max(40, TRUTHS["exposures"] // m)
    e, mu = 5 * np.exp(np.linspace(-1, 1, m)), 1.0
    rho = ratio / (np.mean(e) * mu)
    wide = min(np.sqrt(rho), 0.99)
    theta = (
        g.gamma(1 / rho, rho * mu, (size, m)) if prior == "own family" else mu * (1 + wide * g.choice([-1, 1], (size, m)))
    )
    x = g.poisson(e * theta)
    rhos, chance, measure, first, second = exposures_posteriors(x, e)
    places = gammainc(first, second * theta[:, :, None])
    events = np.maximum(x.mean(axis=1, keepdims=True), 1 / m)
    return averaged(rhos * events, chance, measure, first / second, places, theta, (x / e - theta) ** 2)


def averaged(
    t: np.ndarray,
    chance: np.ndarray,
    measure: np.ndarray,
    means: np.ndarray,
    places: np.ndarray,
    theta: np.ndarray,
    own: np.ndarray,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return squared errors over the mean of own ones, and whether intervals hold, by law and for the likeliest prior."""
    found = {}
    for name, density in LAWS.items():
        p = share(chance + measure, density(t))
        mean, below = (np.einsum("rk,rik->ri", p, part) for part in (means, places))
        found[name] = (mean - theta) ** 2 / own.mean(), held(below)
    best, rows = chance.argmax(axis=1), np.arange(len(chance))  # of the lattice
    found["likeliest"] = (means[rows, :, best] - theta) ** 2 / own.mean(), held(places[rows, :, best])
    return found


# --- regressions -----------------------------------------------------------------------------------------------------


def regressions_cell(m: int, ratio: float, prior: str, seed: list[int]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return, by prior of ``LinearClients``, squared errors over own ones and whether intervals hold."""
    g, rows, found = np.random.default_rng(seed), 8, {}
    X = np.repeat(np.column_stack((np.ones(rows), np.linspace(-1.5, 1.5, rows)))[None], m, axis=0)
    noise = np.linalg.inv(X[0].T @ X[0])
    for _ in range(max(10, TRUTHS["regressions"] // (2 * m))):
        theta = np.sqrt(ratio * np.diag(noise)) * SHAPES[prior](g, (m, 2))
        y = np.einsum("irp,ip->ir", X, theta) + g.standard_normal((m, rows))
        own = np.einsum("pq,iqr,ir->ip", noise, X.transpose(0, 2, 1), y)
        base = np.mean((own - theta) ** 2, axis=0)
        for name in ("penalised-reml", "reml", "marginal-likelihood"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                model = LinearClients(prior=name).fit(list(X), list(y))
            low, high = model.interval()
            found.setdefault(name, []).append(
                ((model.posterior_mean_ - theta) ** 2 / base, (low <= theta) & (theta <= high))
            )
    return {name: tuple(np.stack(parts) for parts in zip(*several, strict=True)) for name, several in found.items()}


CELLS: dict[str, tuple[Any, tuple[int, ...], tuple[float, ...], tuple[str, ...]]] = {
    "estimates": (normal_cell, SIZES, RATIOS, tuple(SHAPES)),
    "trials": (trials_cell, SIZES, (0.1, 0.3, 1.0, 3.0), ("own family", "two-point")),
    "exposures": (exposures_cell, SIZES, (0.1, 0.3, 1.0, 3.0), ("own family", "two-point")),
    "regressions": (regressions_cell, (5, 10, 20), (0.1, 1.0, 10.0), ("normal",)),
}


def cell(kind: str, m: int, ratio: float, prior: str) -> list[tuple[Any, ...]]:
    """Return the rows of one cell, as in `COLUMNS`."""
    function, sizes, ratios, priors = CELLS[kind]
    seed = [16, list(CELLS).index(kind), sizes.index(m), ratios.index(ratio), priors.index(prior)]
    found = []
    for law, (errors, inside) in function(m, ratio, prior, seed).items():
        each = inside.reshape(len(inside), -1).mean(axis=1)
        error = float(each.std(ddof=1) / np.sqrt(each.size))
        found.append((kind, m, ratio, prior, law, f"{errors.mean():.4g}", f"{each.mean():.4f}", f"{error:.4f}"))
    return found


def run() -> str:
    """Return the table of all cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for kind, (_, sizes, ratios, priors) in CELLS.items():
        for m in sizes:
            for ratio in ratios:
                for prior in priors:
                    writer.writerows(cell(kind, m, ratio, prior))
    return text.getvalue()


# --- the page --------------------------------------------------------------------------------------------------------

OWN = ("normal", "own family")  # families of priors that the models are made for


def read(path: Path = HOME / "defaults.csv") -> list[dict[str, Any]]:
    """Return the rows of the table of results, numbers as numbers."""
    with open(path, newline="") as file:
        return [
            row | {"m": int(row["m"])} | {c: float(row[c]) for c in ("ratio", "risk", "held", "held_se")}
            for row in csv.DictReader(file)
        ]


def summary(rows: list[dict[str, Any]], kind: str) -> dict[str, dict[str, float]]:
    """Return, by law in all sizes, mean and worst risk over the least of the cell, and how often intervals hold.

    That is in the family that the models are made for, on average and in the worst cell, and in the other families.
    """
    cells: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] == kind:
            cells.setdefault((row["m"], row["ratio"], row["prior"]), {})[row["law"]] = row
    laws = list(dict.fromkeys(law for cell in cells.values() for law in cell))
    found = {}
    for law in laws:
        there = [cell for cell in cells.values() if law in cell]
        over = [cell[law]["risk"] / min(row["risk"] for name, row in cell.items() if name != MORRIS) for cell in there]
        inside, outside = (
            [cell[law]["held"] for cell in there if (cell[law]["prior"] in OWN) == own] for own in (True, False)
        )
        errors = {cell[law]["held"]: cell[law]["held_se"] for cell in there}
        found[law] = {
            "error": errors[min(inside)],
            "cells": len(there), "risk": float(np.exp(np.mean(np.log(over)))), "worst": max(over),
            "held": float(np.mean(inside)), "least": min(inside), "outside": min(outside, default=np.nan),
        }  # fmt: skip
    return found


def asked(found: dict[str, dict[str, float]]) -> str:
    """Return the law of least risk among those whose intervals hold in every cell of the family; else that nearest to it."""
    fair = {law: one for law, one in found.items() if law != MORRIS}
    holding = [law for law, one in fair.items() if one["least"] >= LEAST]
    return min(holding, key=lambda law: fair[law]["risk"]) if holding else max(fair, key=lambda law: fair[law]["least"])


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page, from the rows of the table."""
    lines = [
        "# Defaults for few clients", "",
        "Written by `python tests/bench/defaults.py page` from `defaults.csv`; do not edit.", "",
        "Which law of the variance between clients should posteriors be averaged over? Each got the same simulated clients.",
        "Risk is the mean squared error over that of clients' own estimates; *over least* is it over the least of its cell",
        "(geometric mean of all cells, and the worst); *held* is how often 95 % intervals hold the truth where the prior is",
        "of the model's family (mean, and the worst cell with its simulation's standard error), and in the worst cell of",
        "other families. A law that has no",
        "posterior for three clients is left out there, and Morris's is for equal variances alone, so that its risk is not",
        "set beside the others'. **Bold** is what the model does by default. Asked for is the law of least risk among those",
        f"whose intervals hold {100 * LEAST:.0f} % or more in every cell of the family.", "",
    ]  # fmt: skip
    for kind in CELLS:
        found = summary(rows, kind)
        wanted, chosen = asked(found), DEFAULT[kind]
        none = "" if found[wanted]["least"] >= LEAST else "None holds as often as that everywhere. "
        said = f"{none}Asked for: {wanted}; it is the default."
        if wanted != chosen:
            loss, least = (found[chosen][name] / found[wanted][name] for name in ("risk", "least"))
            said = (
                f"Asked for: {wanted}. The default is {chosen}, whose risk is {loss:.2f} times as much on average, and "
                f"whose intervals hold {least:.3f} times as often in the worst cell. {REASONS[kind]}"
            )
        lines += [f"## {kind.capitalize()}", "", said, ""]
        lines += ["| law | cells | over least | worst | held % | worst | other families |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        for law, one in sorted(found.items(), key=lambda item: item[1]["risk"]):
            name = f"**{law}**" if law == DEFAULT[kind] else law
            over = " | " if law == MORRIS else f"{one['risk']:.2f} | {one['worst']:.2f}"
            outside = "" if np.isnan(one["outside"]) else f"{100 * one['outside']:.1f}"
            least = f"{100 * one['least']:.1f} ({100 * one['error']:.1f})"
            lines.append(f"| {name} | {one['cells']} | {over} | {100 * one['held']:.1f} | {least} | {outside} |")
        lines.append("")
    lines += ["## Risk and % held, cell by cell", ""]
    for kind, (_, sizes, ratios, priors) in CELLS.items():
        laws = list(summary(rows, kind))
        lines += [f"### {kind.capitalize()}", "", "| prior | m | between / within | " + " | ".join(laws) + " |",
                  "| --- " * (3 + len(laws)) + "|"]  # fmt: skip
        table = {(r["prior"], r["m"], r["ratio"], r["law"]): r for r in rows if r["kind"] == kind}
        for prior in priors:
            for m in sizes:
                for ratio in ratios:
                    here = [table.get((prior, m, ratio, law)) for law in laws]
                    shown = ["" if one is None else f"{one['risk']:.3f}, {100 * one['held']:.1f}" for one in here]
                    lines.append(f"| {prior} | {m} | {ratio:g} | " + " | ".join(shown) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        sys.stdout.write(run())
    elif sys.argv[1:] == ["page"]:
        sys.stdout.write(page(read()))
    else:
        raise SystemExit(__doc__)
