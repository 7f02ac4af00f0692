"""Private posteriors beside independent quadrature, an oracle and the fits before: risk and coverage, over eps, n and m.

Run it to measure the cells that private_posteriors.csv lacks and to print the table of PRIVATE.md:
python tests/bench/private_posteriors.py [PATTERN [SECONDS]] begins no cell without the PATTERN in its name ("m=100 ",
"local"), nor any after so many SECONDS; what is done is kept, so that it goes on after a stop.  With "ends" it prints how
many rates are an end of their interval.

Truths are drawn from the prior that the fits state, hyperparameters included, or at fixed parameters; reports have the law
of the clients' mechanism (rows drawn, clipped and averaged up to 1,000 of them; the normal law of their mean beyond).

Belongs here: that simulation, and a quadrature that shares nothing with the fits: midpoints on dense grids of truths,
centres and spreads, with laws of reports from sums.  Does not belong here: speed (``bench_private``).
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
import zlib
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import betainc

from estimators.accounting.budget import Guarantee
from estimators.private import MeanReport, PrivateGaussianMeans, PrivateRates, RateReport

LOW, HIGH, WIDTH = -5.0, 5.0, 10.0
DENSE = 1600
RESULTS = Path(__file__).with_name("private_posteriors.csv")


def clipped(theta, sd):
    """Mean and variance of N(theta, sd^2) clipped to the bounds, by midpoints."""
    z = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    x = np.clip(np.asarray(theta)[:, None] + sd * z, LOW, HIGH)
    return x.mean(axis=1), x.var(axis=1)


def means_drawn(rng, theta, n, eps, local, mechanism="discrete-laplace"):
    """Reports of clients with rows N(theta, 1)."""
    m = theta.size
    if local:
        mean = np.clip(theta + rng.standard_normal(m) / np.sqrt(n), LOW, HIGH)
    elif n <= 1000:
        mean = np.clip(theta[:, None] + rng.standard_normal((m, n)), LOW, HIGH).mean(axis=1)
    else:
        centre, variance = clipped(theta, 1.0)
        mean = centre + np.sqrt(variance / n) * rng.standard_normal(m)
    scale = WIDTH / eps / (1 if local else n)
    noise = rng.laplace(0, scale, m) if mechanism == "discrete-laplace" else np.sqrt(2) * scale * rng.standard_normal(m)
    sent = Guarantee(
        eps, 0.0 if mechanism == "discrete-laplace" else 1e-6, "client" if local else "row", "client", mechanism
    )
    return [MeanReport("", n, sent, float(y), 2 * scale**2, 0.0, (LOW, HIGH)) for y in mean + noise]


def means_by_quadrature(reports):
    """Posterior means with the same prior, and the coverage of its own 95 % intervals as a function of the truths."""
    local, n = reports[0].guarantee.adjacency == "client", reports[0].n
    b = np.sqrt(reports[0].noise_variance / 2)
    theta = LOW + (np.arange(DENSE) + 0.5) / DENSE * WIDTH
    centre, variance = clipped(theta, 1 / np.sqrt(n) if local else 1.0)
    sd = np.sqrt(variance if local else variance / n)
    z = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    likelihood = np.array(
        [np.exp(-np.abs(r.estimate - centre[:, None] - sd[:, None] * z) / b).mean(axis=1) for r in reports]
    )
    likelihood /= likelihood.max(axis=1, keepdims=True)
    spread = ((np.arange(60) + 0.5) / 60) ** 2
    sizes = np.log(spread) / 2
    total, density = [], np.zeros_like(likelihood)
    mu = LOW + (np.arange(160) + 0.5) / 160 * WIDTH
    best = -np.inf
    for s, size in zip(spread * WIDTH / 2, sizes, strict=True):
        prior = np.exp(-(((theta[:, None] - mu) / s) ** 2) / 2)
        prior /= np.maximum(prior.sum(axis=0), 1e-300)
        marginal = np.maximum(likelihood @ prior, 1e-300)
        log = np.log(marginal).sum(axis=0) + size
        if log.max() > best:
            density *= np.exp(best - log.max()) if total else 0.0
            best = log.max()
        total.append(0)
        density += likelihood * ((np.exp(log - best) / marginal) @ prior.T)
    density /= density.sum(axis=1, keepdims=True)
    return density @ theta


def rates_drawn(rng, rate, n, eps):
    """Reports of clients with n answers and discrete Laplace noise."""
    stop = -np.expm1(-eps)
    noise = rng.geometric(stop, rate.size) - rng.geometric(stop, rate.size)
    sent = Guarantee(eps, 0.0, "row", "client", "discrete-laplace")
    variance = float(1 / (2 * np.sinh(eps / 2) ** 2))
    return [RateReport("", n, sent, "ones", n, float(y), variance) for y in rng.binomial(n, rate) + noise]


def rates_by_quadrature(reports, eps):
    """Posterior means with the same prior: cells of the angle with exact prior probabilities."""
    n, cells = reports[0].trials, 1200
    edges = np.sin(np.linspace(0, np.pi / 2, cells + 1)) ** 2
    p = np.sin((np.arange(cells) + 0.5) / cells * np.pi / 2) ** 2
    k = np.arange(n + 1)
    table = stats.binom.pmf(k[:, None], n, p)
    likelihood = np.array([np.exp(-eps * np.abs(r.value - k)) @ table for r in reports])
    likelihood /= likelihood.max(axis=1, keepdims=True)
    density, best, first = np.zeros_like(likelihood), -np.inf, True
    mu = (np.arange(48) + 0.5) / 48
    for s in (np.arange(48) + 0.5) / 48:
        size = 1 / s**2 - 1
        prior = np.diff(betainc(mu * size, (1 - mu) * size, edges[:, None]), axis=0)
        marginal = np.maximum(likelihood @ prior, 1e-300)
        log = np.log(marginal).sum(axis=0)
        if log.max() > best:
            density *= 0.0 if first else np.exp(best - log.max())
            best, first = log.max(), False
        density += likelihood * ((np.exp(log - best) / marginal) @ prior.T)
    density /= density.sum(axis=1, keepdims=True)
    return density @ p


def federation(rng, kind, m, n, eps, drawn=None):
    """Truths, of a prior that is drawn itself where it is not given, and their reports."""
    if kind == "rates":
        mu, s = (rng.random(), rng.random()) if drawn is None else drawn
        size = 1 / s**2 - 1
        truth = rng.beta(mu * size, (1 - mu) * size, m)
        return truth, rates_drawn(rng, truth, n, eps)
    mu, tau = (rng.uniform(LOW, HIGH), rng.uniform(0, WIDTH / 2)) if drawn is None else drawn
    truth = truncated(rng, mu, tau, m)
    return truth, means_drawn(rng, truth, n, eps, kind == "local")


def truncated(rng, mu, tau, m):
    """Draws from a normal law cut off at the bounds."""
    return stats.truncnorm.rvs((LOW - mu) / tau, (HIGH - mu) / tau, loc=mu, scale=tau, size=m, random_state=rng)


class Cell(NamedTuple):
    """A cell of the grid: kind of reports, clients, rows, eps, runs, and in how many of them the quadrature runs too."""

    kind: str
    m: int
    n: int
    eps: float
    runs: int
    oracle: int = 0
    drawn: tuple[float, float] | None = None

    @property
    def name(self):
        """The cell in words, by which it is asked for and kept."""
        at = "" if self.drawn is None else f" at {self.drawn[0]:.3g}, {self.drawn[1]:.3g}"
        return f"{self.kind} m={self.m} n={self.n} eps={self.eps:g}{at}"


FIXED = (
    Cell("local", 10, 10, 1.0, 200, 0, (0.0, 1.0)), Cell("local", 10, 10, 1.0, 200, 0, (2.0, 1.0)),
    Cell("local", 10, 10, 1.0, 200, 0, (4.5, 1.0)), Cell("local", 1000, 10, 1.0, 40, 0, (0.0, 1.0)),
    Cell("row", 10, 10, 0.1, 200, 0, (0.0, 1.0)), Cell("row", 10, 10, 0.1, 200, 0, (2.0, 1.0)),
    Cell("row", 10, 10, 1.0, 200, 0, (0.0, 1.0)), Cell("row", 100, 10, 1.0, 50, 0, (0.0, 0.2)),
    Cell("row", 100, 1000, 1.0, 50, 0, (4.5, 1.0)),
    Cell("rates", 240, 500, 1.0, 40, 0, (0.3 / 30.3, 31.3**-0.5)),
    Cell("rates", 240, 20, 1.0, 40, 0, (0.3 / 30.3, 31.3**-0.5)),
    Cell("rates", 100, 50, 1.0, 50, 0, (0.3, 11**-0.5)), Cell("rates", 240, 20, 0.5, 40, 0, (0.5, 3**-0.5)),
)  # fmt: skip


def grid():
    """All cells: averaged over the stated hyperprior, of few clients first, and at fixed parameters."""
    found, scattered = [], {10: 1000, 100: 800, 1000: 375}  # runs of rates that hide nearly all
    for m, runs, oracle in ((100, 200, 4), (10, 400, 10), (1000, 150, 0), (10_000, 64, 0), (100_000, 1, 0)):
        for n, eps, kind in product((10, 1000), (0.1, 1.0, 10.0), ("row", "local", "rates")):
            more = scattered.get(m, runs) if (kind, n, eps) == ("rates", 10, 0.1) else runs
            found.append(Cell(kind, m, n, eps, more, 0 if kind == "rates" and n > 100 else oracle))
    return [*found, *FIXED]


def measured(cell):
    """One row: coverage and its error, risks of the exact fit, of the fit before and over the quadrature's, seconds."""
    # a generator of its own, so that cells can be run alone; another than that of fewer runs, by which some were chosen
    rng = np.random.default_rng([18, zlib.crc32(cell.name.encode())])
    kind, m, n, eps = cell.kind, cell.m, cell.n, cell.eps
    cover, risks, ratios, seconds = [], [], [], []
    for run in range(cell.runs):
        truth, reports = federation(rng, kind, m, n, eps, cell.drawn)
        if kind == "rates":
            models = PrivateRates(), PrivateRates("moments")
        else:
            models = PrivateGaussianMeans(sigma2=1.0), PrivateGaussianMeans("integrated", sigma2=1.0)
        begun = time.process_time()
        exact = models[0].fit(reports)
        fitted = time.process_time()
        low, high = exact.interval()
        seconds.append([fitted - begun, time.process_time() - fitted])
        cover.append(np.mean((low <= truth) & (truth <= high)))
        before = models[1].fit(reports).posterior_mean_
        risks.append([np.mean((x - truth) ** 2) for x in (exact.posterior_mean_, before)])
        if run < cell.oracle:
            reference = rates_by_quadrature(reports, eps) if kind == "rates" else means_by_quadrature(reports)
            ratios.append([risks[-1][0], np.mean((reference - truth) ** 2)])
    (mine, old), (fit, interval) = np.mean(risks, axis=0), np.mean(seconds, axis=0)
    error = np.std(cover, ddof=1) / np.sqrt(cell.runs) if cell.runs > 1 else np.nan
    ratio = np.divide(*np.mean(ratios, axis=0)) if cell.oracle else np.nan
    numbers = (np.mean(cover), error, mine, old, ratio, fit, interval)
    return dict(zip(("coverage", "error", "risk", "before", "ratio", "fit", "interval"), map(float, numbers), strict=True))


def kept():
    """The rows that were measured, by the cells' names."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {row.pop("cell"): row for row in csv.DictReader(file)}


def lines():
    """The table of what was measured, the worst coverage first."""
    rows = [(cell, {k: float(v) for k, v in found.items()}) for cell in grid() if (found := kept().get(cell.name))]
    rows.sort(key=lambda row: -abs(row[1]["coverage"] - 0.95))
    for cell, row in rows:
        error = "" if np.isnan(row["error"]) else f" ({row['error']:.3f})"
        ratio = "" if np.isnan(row["ratio"]) else f"{row['ratio']:.4f}"
        fixed = "" if cell.drawn is None else f"{cell.drawn[0]:.3g}, {cell.drawn[1]:.3g}"
        yield (
            f"| {cell.kind} | {cell.eps:g} | {cell.n} | {cell.m} | {fixed} | {row['runs']:.0f} "
            f"| {row['coverage']:.3f}{error} | {row['risk']:.4g} | {row['before']:.4g} | {ratio} "
            f"| {row['interval'] / row['fit']:.2f} |"
        )


def summary():
    """How many cells of the stated hyperprior lie outside 94 to 96 %, at all and beyond two of their standard errors."""
    cells, rows = {cell.name: cell for cell in grid()}, []
    for name, found in kept().items():
        row = {k: float(v) for k, v in found.items()}
        if cells[name].drawn is None and row["runs"] > 1:
            rows.append((cells[name], row))
    cover, error = (np.array([row[k] for _, row in rows]) for k in ("coverage", "error"))
    outside = np.maximum(0.94 - cover, cover - 0.96)
    ratios = [row["ratio"] for _, row in rows if np.isfinite(row["ratio"])]
    slowest = max(row["interval"] / row["fit"] for cell, row in rows if cell.m == max(cell.m for cell, _ in rows))
    weight = 1 / error**2
    yield f"{len(rows)} cells: mean coverage {cover.mean():.4f} (error {np.sqrt((error**2).sum()) / cover.size:.4f})"
    yield f"weighted by their errors {(weight * cover).sum() / weight.sum():.4f} ({weight.sum() ** -0.5:.4f})"
    yield f"largest error {error.max():.4f}; beyond two errors of 95 %: {(np.abs(cover - 0.95) > 2 * error).sum()}"
    yield f"outside 94 to 96 %: {(outside > 0).sum()}, beyond two errors: {(outside > 2 * error).sum()}"
    yield f"risk over quadrature's {min(ratios):.4f} to {max(ratios):.4f} in {len(ratios)}; interval / fit {slowest:.2f}"
    yield from (f"outside: {cell.name}, {c:.4f} ({e:.4f})"
                for (cell, _), c, e, o in zip(rows, cover, error, outside, strict=True) if o > 0)  # fmt: skip


def at_ends(m, runs):
    """Of the rates whose coverage is above 95 %: shares of truths that are an interval's end itself, and of those inside.

    Rates within 1e-16 of 1 are 1 in floats, as is the end of an interval that leaves out a part of them.
    """
    rng, shares = np.random.default_rng([19, m]), []
    for _ in range(runs):
        truth, reports = federation(rng, "rates", m, 10, 0.1)
        low, high = PrivateRates().fit(reports).interval()
        shares.append([np.mean((truth == low) | (truth == high)), np.mean((low < truth) & (truth < high))])
    (end, inside), errors = np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1) / np.sqrt(runs)
    yield f"m {m}, {runs} runs: at an end {end:.4f} ({errors[0]:.4f}), inside {inside:.4f} ({errors[1]:.4f})"


HEAD = (
    "| reports | eps | n | m | fixed at | runs | coverage (error) | risk | before | over quadrature | intervals / fit |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def main(pattern, seconds=np.inf):
    """Measure the cells that are not kept yet and whose names have the pattern, each kept as soon as it is done."""
    warnings.simplefilter("ignore")
    begun = time.monotonic()
    for cell in grid():
        if pattern in cell.name and cell.name not in kept() and time.monotonic() - begun < seconds:
            row = {"cell": cell.name, "runs": cell.runs} | measured(cell)
            new = not RESULTS.exists()
            with RESULTS.open("a", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, row)
                if new:
                    writer.writeheader()
                writer.writerow({k: v if isinstance(v, str) else f"{v:.6g}" for k, v in row.items()})
            print(cell.name, row, flush=True)
    print(*summary(), HEAD, *lines(), sep="\n")


if __name__ == "__main__" and sys.argv[1:2] == ["ends"]:
    warnings.simplefilter("ignore")
    print(*at_ends(10, 1000), *at_ends(100, 400), sep="\n")
elif __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "", float(sys.argv[2]) if len(sys.argv) > 2 else np.inf)
