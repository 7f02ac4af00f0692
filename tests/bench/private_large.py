"""Risk of private posteriors of many clients over that of an independent quadrature with the same prior.

Run it to print the table of PRIVATE.md:  python tests/bench/private_large.py [RUNS]

The quadrature of ``private_posteriors`` has one grid of centres and spreads, too coarse where a thousand clients leave
little open.  This one looks for where the posterior of the two is, in four passes, each over the box that mattered before,
with a margin, and sums there.

Belongs here: that quadrature, and its table.  Does not belong here: coverage (``private_posteriors``).
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from private_posteriors import HIGH, LOW, WIDTH, clipped, means_drawn, truncated
from scipy import stats

from estimators.private import PrivateGaussianMeans

HEAD = (
    "| reports | eps | n | m | runs | over quadrature | largest difference / posterior sd |\n|---|---|---|---|---|---|---|"
)
CELLS = [(kind, 1000, 10, eps, 1600) for kind in ("row", "local") for eps in (0.1, 1.0, 10.0)]
CELLS += [("row", 1000, 1000, 1.0, 3200), ("local", 1000, 1000, 1.0, 1600), ("row", 3000, 10, 1.0, 1600)]
NODES, PASSES, FALL = 40, 4, 16.0


def likelihoods(reports, places):
    """Likelihood of each report at the places, over its largest: sums over the errors, tabulated by reports' values."""
    local, n = reports[0].guarantee.adjacency == "client", reports[0].n
    scale = np.sqrt(reports[0].noise_variance / 2)
    z = stats.norm.ppf((np.arange(100) + 0.5) / 100)
    if local:
        mean = np.clip(places[:, None] + z / np.sqrt(n), LOW, HIGH)
    else:
        centre, variance = clipped(places, 1.0)
        mean = centre[:, None] + np.sqrt(variance / n)[:, None] * z
    y = np.array([r.estimate for r in reports])
    fine = min(scale, float(np.ptp(mean, axis=1).mean()) / 5)
    grid = np.linspace(y.min(), y.max(), int(np.clip(25 * np.ptp(y) / fine, 200, 4000)))
    log = np.array([np.log(np.maximum(np.exp(-np.abs(g - mean) / scale).mean(axis=1), 1e-300)) for g in grid])
    first = np.clip(np.searchsorted(grid, y) - 1, 0, grid.size - 2)
    part = ((y - grid[first]) / (grid[first + 1] - grid[first]))[:, None]
    found = (1 - part) * log[first] + part * log[first + 1]
    return np.exp(found - found.max(axis=1, keepdims=True))


def box(ends, size, kept):
    """The part of an interval in which something was kept, with a margin, within its limits."""
    step = (ends[1] - ends[0]) / size
    inside = ends[0] + (np.flatnonzero(kept) + 0.5) * step
    return max(ends[0], inside.min() - 1.5 * step), min(ends[1], inside.max() + 1.5 * step)


def posterior_means(reports, cells):
    """Means of the truths by midpoints over truths, centres and spreads."""
    places = LOW + (np.arange(cells) + 0.5) / cells * WIDTH
    likelihood = likelihoods(reports, places)
    centres, spreads = (LOW, HIGH), (0.0, WIDTH / 2)
    middle = (np.arange(NODES) + 0.5) / NODES

    def priors():
        at = centres[0] + middle * (centres[1] - centres[0])
        for spread in spreads[0] + middle * (spreads[1] - spreads[0]):
            prior = np.exp(-(((places[:, None] - at) / spread) ** 2) / 2)
            prior /= np.maximum(prior.sum(axis=0), 1e-300)
            marginal = np.maximum(likelihood @ prior, 1e-300)
            yield prior, marginal, np.log(marginal).sum(axis=0)

    for _ in range(PASSES):
        log = np.array([each for _, _, each in priors()])
        kept = log > log.max() - FALL
        centres, spreads = box(centres, NODES, kept.any(axis=0)), box(spreads, NODES, kept.any(axis=1))
    best = max(each.max() for _, _, each in priors())
    density = np.zeros_like(likelihood)
    for prior, marginal, each in priors():
        some = each > best - 25
        density += likelihood * ((np.exp(each[some] - best) / marginal[:, some]) @ prior[:, some].T)
    return density @ places / density.sum(axis=1)


def line(kind, m, n, eps, cells, runs):
    """One line of the table."""
    rng = np.random.default_rng([1717, m, n, int(10 * eps), kind == "row"])
    risks, farthest = [], 0.0
    for _ in range(runs):
        mu, tau = rng.uniform(LOW, HIGH), rng.uniform(0, WIDTH / 2)
        truth = truncated(rng, mu, tau, m)
        reports = means_drawn(rng, truth, n, eps, kind == "local")
        exact, other = PrivateGaussianMeans(sigma2=1.0).fit(reports), posterior_means(reports, cells)
        risks.append([np.mean((x - truth) ** 2) for x in (exact.posterior_mean_, other)])
        farthest = max(farthest, float(np.max(np.abs(exact.posterior_mean_ - other) / exact.posterior_sd_)))
    ratio = np.divide(*np.mean(risks, axis=0))
    return f"| {kind} | {eps:g} | {n} | {m} | {runs} | {ratio:.5f} | {farthest:.2g} |"


def main(runs):
    """Print the table."""
    warnings.simplefilter("ignore")
    print(HEAD)
    for cell in CELLS:
        print(line(*cell, runs), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
