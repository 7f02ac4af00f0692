"""Risk of private posteriors of many clients over that of an independent quadrature with the same prior.

Run it to print the table of PRIVATE.md:  python tests/bench/private_large.py [RUNS [PATTERN]], only cells whose line
begins with the PATTERN ("| rates | 1 | 10000")

The quadrature of ``private_posteriors`` has one grid of centres and spreads, too coarse where a thousand clients leave
little open.  This one looks for where the posterior of the two is, in four passes, each over the box that mattered before,
with a margin, and sums there.  Of rates, equal reports are computed once, and the law of noisy counts is a sum over counts
by recursion.  Of 100,000 means all is computed at values on an even grid, between which cubics say what holds for a report.

With the word "times", and numbers of clients and federations if not 10,000 and five, it prints what fits and intervals of
means take, in processor seconds, and nothing else.

Belongs here: that quadrature, and its table.  Does not belong here: coverage over the whole grid (``private_posteriors``).
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import lru_cache
from itertools import product

import numpy as np
from private_posteriors import HIGH, LOW, WIDTH, clipped, federation
from scipy import stats
from scipy.signal import lfilter
from scipy.sparse import csr_matrix, eye_array
from scipy.special import betainc, expit, log_ndtr

from estimators.private import PrivateGaussianMeans, PrivateRates

HEAD = (
    "| reports | eps | n | m | runs | over quadrature | largest difference / posterior sd | coverage (error) |\n"
    "|---|---|---|---|---|---|---|---|"
)
CELLS = [(kind, 1000, 10, eps, 1600) for kind in ("row", "local") for eps in (0.1, 1.0, 10.0)]
CELLS += [("row", 1000, 1000, 1.0, 3200), ("local", 1000, 1000, 1.0, 1600), ("row", 3000, 10, 1.0, 1600)]
CELLS += [(kind, 10_000, 10, eps, 1600) for kind in ("row", "local") for eps in (0.1, 1.0, 10.0)]
CELLS += [("row", 10_000, 10_000, eps, 3200) for eps in (0.1, 1.0, 10.0)]
CELLS += [("local", 10_000, 10_000, eps, 1600) for eps in (0.1, 1.0, 10.0)]
CELLS += [(kind, 100_000, 10, eps, 1600) for kind in ("row", "local") for eps in (0.1, 1.0, 10.0)]
CELLS += [("rates", m, 10_000, eps, 3000) for m in (100, 1000, 10_000) for eps in (0.1, 1.0, 10.0)]
CELLS += [("rates", m, n, eps, 1200) for m in (10_000, 100_000) for n in (10, 1000) for eps in (0.1, 1.0, 10.0)]
NODES, PASSES, FALL = 40, 4, 16.0
GRIDDED, VALUES = 30_000, 4000  # clients from which means are computed at values on a grid, and how many of these there are
FEW, LEAST = 24, 1e-13  # nodes of rates; likelihood over its largest below which a cell is left out


def normal_and_laplace(y, centre, sd, scale):
    """Density of the sum of a normal error and Laplace noise, up to a factor: in closed form."""
    away, rise = y - centre, sd**2 / (2 * scale**2)
    return np.exp(
        np.logaddexp(
            rise - away / scale + log_ndtr(away / sd - sd / scale), rise + away / scale + log_ndtr(-away / sd - sd / scale)
        )
    )


def likelihoods(reports, places):
    """Likelihood of each report at the places, over its largest: sums over the errors, tabulated by reports' values.

    Means of more than a thousand rows are drawn from a normal law, and their noise may be narrower than the steps of such a
    sum: theirs is a formula.
    """
    local, n = reports[0].guarantee.adjacency == "client", reports[0].n
    scale = np.sqrt(reports[0].noise_variance / 2)
    if not local and n > 1000:
        centre, variance = clipped(places, 1.0)
        found = np.array([normal_and_laplace(r.estimate, centre, np.sqrt(variance / n), scale) for r in reports])
        return found / found.max(axis=1, keepdims=True)
    y = np.array([r.estimate for r in reports])
    log = tabulated(y, places, n, local, scale)
    return np.exp(log - log.max(axis=1, keepdims=True))


def means_of_rows(places, n, local):
    """Means of a client's rows at even quantiles of their errors, (places, 100)."""
    z = stats.norm.ppf((np.arange(100) + 0.5) / 100)
    if local:
        return np.clip(places[:, None] + z / np.sqrt(n), LOW, HIGH)
    centre, variance = clipped(places, 1.0)
    return centre[:, None] + np.sqrt(variance / n)[:, None] * z


def log_laws(grid, mean, scale):
    """Log of the likelihood of each value of the grid at each place, up to a constant."""
    return np.array([np.log(np.maximum(np.exp(-np.abs(g - mean) / scale).mean(axis=1), 1e-300)) for g in grid])


def tabulated(y, places, n, local, scale):
    """Logs of likelihoods of reports, (reports, places), linear between values on a grid."""
    mean = means_of_rows(places, n, local)
    fine = min(scale, float(np.ptp(mean, axis=1).mean()) / 5)
    grid = np.linspace(y.min(), y.max(), int(np.clip(25 * np.ptp(y) / fine, 200, 4000)))
    log = log_laws(grid, mean, scale)
    first = np.clip(np.searchsorted(grid, y) - 1, 0, grid.size - 2)
    part = ((y - grid[first]) / (grid[first + 1] - grid[first]))[:, None]
    return (1 - part) * log[first] + part * log[first + 1]


def cubics(y, grid):
    """Matrix (reports, values) that reads a function off its values on an even grid, by cubics through the nearest four."""
    step = grid[1] - grid[0]
    first = np.clip(np.floor((y - grid[0]) / step).astype(int) - 1, 0, grid.size - 4)
    at = (y - grid[first]) / step
    weights = [np.prod([(at - k) / (j - k) for k in range(4) if k != j], axis=0) for j in range(4)]
    rows = np.tile(np.arange(y.size), 4)
    return csr_matrix((np.concatenate(weights), (rows, np.concatenate([first + j for j in range(4)]))), (y.size, grid.size))


def box(ends, size, kept):
    """The part of an interval in which something was kept, with a margin, within its limits."""
    step = (ends[1] - ends[0]) / size
    inside = ends[0] + (np.flatnonzero(kept) + 0.5) * step
    return max(ends[0], inside.min() - 1.5 * step), min(ends[1], inside.max() + 1.5 * step)


@lru_cache(maxsize=1)
def counts_said(n, eps, cells):
    """Chance of each whole number as a report at the middles of even cells of the angle, up to a factor; (n + 1, cells).

    The sum over counts k of exp(-eps |y - k|) P(k) goes from one whole number y to the next by a factor, once up, once down.
    """
    angle, fall = (np.arange(cells) + 0.5) / cells * np.pi / 2, ([1.0], [1.0, -np.exp(-eps)])
    found = np.empty((n + 1, cells))
    for part in np.array_split(np.arange(cells), -(-cells * n // 4_000_000)):
        chances = stats.binom.pmf(np.arange(n + 1)[:, None], n, np.sin(angle[part]) ** 2)
        found[:, part] = lfilter(*fall, chances, axis=0) + lfilter(*fall, chances[::-1], axis=0)[::-1] - chances
    return found


def beta_cells(centres, spread, cells):
    """Chances of the cells for Beta laws of means `centres` whose deviation is this share of the largest."""
    size = 1 / spread**2 - 1
    edges = np.sin(np.linspace(0, np.pi / 2, cells + 1)) ** 2
    return np.diff(betainc(centres * size, (1 - centres) * size, edges[:, None]), axis=0)


def rate_means(reports, cells):
    """Means of the rates by cells of the angle, centres and spreads; of these the log odds are even, with their density.

    Given both, a mean is a ratio of two sums over cells, of which a report of many trials needs few.
    """
    n = reports[0].trials  # a report beyond the ends says what one at the end does
    different, whose = np.unique(np.clip([r.value for r in reports], 0, n).astype(int), return_inverse=True)
    likelihood = counts_said(n, reports[0].guarantee.eps, cells)[different]
    likelihood /= likelihood.max(axis=1, keepdims=True)
    likelihood = csr_matrix(np.where(likelihood > LEAST, likelihood, 0.0))
    count = np.bincount(whose)
    places = np.sin((np.arange(cells) + 0.5) / cells * np.pi / 2) ** 2
    centres = spreads = (-9.0, 9.0)
    middle = (np.arange(FEW) + 0.5) / FEW

    def priors():
        at = expit(centres[0] + middle * (centres[1] - centres[0]))
        for spread in expit(spreads[0] + middle * (spreads[1] - spreads[0])):
            prior = beta_cells(at, spread, cells)
            marginal = np.maximum(likelihood @ prior, 1e-300)
            yield prior, marginal, count @ np.log(marginal) + np.log(at * (1 - at) * spread * (1 - spread))

    for k in range(2 * PASSES):  # the centres first: beside one that is off, too large a spread looks best
        log = np.array([each for _, _, each in priors()])
        kept = log > log.max() - FALL
        centres = box(centres, FEW, kept.any(axis=0))
        spreads = spreads if k < PASSES else box(spreads, FEW, kept.any(axis=1))
    best, total, sums = -np.inf, 0.0, np.zeros(different.size)
    for prior, marginal, each in priors():
        if each.max() > best:
            total, sums = (x * np.exp(best - each.max()) for x in (total, sums))
            best = each.max()
        weight = np.exp(each - best)
        sums = sums + ((likelihood @ (places[:, None] * prior)) / marginal) @ weight
        total += weight.sum()
    return (sums / total)[whose]


def posterior_means(reports, cells):
    """Means of the truths by midpoints over truths, centres and spreads."""
    places = LOW + (np.arange(cells) + 0.5) / cells * WIDTH
    if len(reports) >= GRIDDED:
        local, n = reports[0].guarantee.adjacency == "client", reports[0].n
        y, scale = np.array([r.estimate for r in reports]), np.sqrt(reports[0].noise_variance / 2)
        values = np.linspace(y.min(), y.max(), VALUES)
        log = log_laws(values, means_of_rows(places, n, local), scale)
        likelihood, reader = np.exp(log - log.max(axis=1, keepdims=True)), cubics(y, values)
    else:
        likelihood, reader = likelihoods(reports, places), eye_array(len(reports), format="csr")
    count = np.asarray(reader.sum(axis=0)).ravel()
    centres, spreads = (LOW, HIGH), (0.0, WIDTH / 2)
    middle = (np.arange(NODES) + 0.5) / NODES

    def priors():
        at = centres[0] + middle * (centres[1] - centres[0])
        for spread in spreads[0] + middle * (spreads[1] - spreads[0]):
            prior = np.exp(-(((places[:, None] - at) / spread) ** 2) / 2)
            prior /= np.maximum(prior.sum(axis=0), 1e-300)
            marginal = np.maximum(likelihood @ prior, 1e-300)
            yield prior, marginal, count @ np.log(marginal)

    for _ in range(PASSES):
        log = np.array([each for _, _, each in priors()])
        kept = log > log.max() - FALL
        centres, spreads = box(centres, NODES, kept.any(axis=0)), box(spreads, NODES, kept.any(axis=1))
    best = max(each.max() for _, _, each in priors())
    density = np.zeros_like(likelihood)
    for prior, marginal, each in priors():
        some = each > best - 25
        density += likelihood * ((np.exp(each[some] - best) / marginal[:, some]) @ prior[:, some].T)
    return reader @ (density @ places / density.sum(axis=1))


def drawn(rng, kind, m, n, eps):
    """Truths of a prior that is drawn, their reports, and the fit that is judged."""
    return *federation(rng, kind, m, n, eps), PrivateRates() if kind == "rates" else PrivateGaussianMeans(sigma2=1.0)


def line(kind, m, n, eps, cells, runs):
    """One line of the table."""
    rng = np.random.default_rng([1717, m, n, int(10 * eps), kind == "row", *([1] if kind == "rates" else [])])
    risks, cover, farthest = [], [], 0.0
    for _ in range(runs):
        truth, reports, model = drawn(rng, kind, m, n, eps)
        exact, other = model.fit(reports), (rate_means if kind == "rates" else posterior_means)(reports, cells)
        risks.append([np.mean((x - truth) ** 2) for x in (exact.posterior_mean_, other)])
        low, high = exact.interval()
        cover.append(np.mean((low <= truth) & (truth <= high)))
        farthest = max(farthest, float(np.max(np.abs(exact.posterior_mean_ - other) / exact.posterior_sd_)))
    ratio = np.divide(*np.mean(risks, axis=0))
    error = f" ({np.std(cover, ddof=1) / np.sqrt(runs):.4f})" if runs > 1 else ""
    return f"| {kind} | {eps:g} | {n} | {m} | {runs} | {ratio:.5f} | {farthest:.2g} | {np.mean(cover):.4f}{error} |"


def times(m=10_000, tries=5):
    """Print processor seconds of fits and intervals of means, medians of some federations whose priors are drawn."""
    print("| reports | eps | n | m | fit | intervals | intervals / fit |\n|---|---|---|---|---|---|---|")
    for kind, n, eps in product(("row", "local"), (10, 10_000)[: 2 if m <= 10_000 else 1], (0.1, 1.0, 10.0)):
        rng, seconds = np.random.default_rng([1718, n, int(10 * eps), kind == "row"]), []
        for _ in range(tries):
            _, reports, model = drawn(rng, kind, m, n, eps)
            begun = time.process_time()
            fit = model.fit(reports)
            fitted = time.process_time()
            fit.interval()
            seconds.append([fitted - begun, time.process_time() - fitted])
        fit, interval = np.median(seconds, axis=0)
        print(f"| {kind} | {eps:g} | {n} | {m} | {fit:.2f} | {interval:.2f} | {interval / fit:.2f} |", flush=True)


def main(runs, pattern=""):
    """Print the table."""
    warnings.simplefilter("ignore")
    print(HEAD)
    for cell in CELLS:
        kind, m, n, eps, _ = cell
        if f"| {kind} | {eps:g} | {n} | {m} |".startswith(pattern):
            print(line(*cell, 1 if m == 100_000 else runs), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["times"]:
        times(*map(int, sys.argv[2:4]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, *sys.argv[2:3])
