"""The first table of the issue on private fits, measured anew in its own settings: before, possible, now.

Run it to print the table:  python tests/bench/private_table.py [RUNS]

*Before* are the fits that take noise for normal and truths for unbounded (prior="integrated", "moments").  *Possible* is a
quadrature with the same prior, which shares nothing with the fits.  *Oracle* knows the centre and the spread of the clients,
which nobody does.

Belongs here: the rows of that table.  Does not belong here: the grid of cells (``private_posteriors``), the variances of
noise, which are two more rows of it (``private_mechanisms``).
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np
from private_posteriors import HIGH, LOW, means_by_quadrature, means_drawn, rates_drawn, truncated

from estimators.private import Agreement, MeanClient, PrivateGaussianMeans, PrivateRates, doubt

HEAD = "| measured | runs | before | now | now over possible | oracle |\n|---|---|---|---|---|---|"
QUADRATURES = 4  # runs that have one, which takes a second
CENTRES = 0.0, 2.0, 4.5
BETA = 0.3, 30.0


def told(values):
    """A mean with its standard error."""
    return f"{np.mean(values):.4g} ({np.std(values, ddof=1) / np.sqrt(len(values)):.2g})"


def oracle(reports, mu, tau):
    """Posterior means of somebody who knows centre and spread, by sums over fine places."""
    local, n = reports[0].guarantee.adjacency == "client", reports[0].n
    scale = np.sqrt(reports[0].noise_variance / 2)
    theta = LOW + (np.arange(1600) + 0.5) / 1600 * (HIGH - LOW)
    z = np.sqrt(2) * np.linspace(-3.5, 3.5, 71)  # rows of variance 1; their clipping is left out for the oracle
    weight = np.exp(-(z**2) / 2)
    mean = theta[:, None] + z / np.sqrt(n)
    mean = np.clip(mean, LOW, HIGH) if local else mean
    prior = np.exp(-(((theta - mu) / tau) ** 2) / 2)
    density = [prior * (np.exp(-np.abs(r.estimate - mean) / scale) @ weight) for r in reports]
    return np.array([d @ theta / d.sum() for d in density])


def means(kind, eps, runs, centre=None):
    """Risks before, now, of the oracle; now over the quadrature; coverage; shares of posterior means outside the bounds."""
    rng = np.random.default_rng([17, int(1000 * eps), 7 if centre is None else int(10 * centre)])
    risks, cover, outside = [], [], []
    for run in range(runs):
        mu, tau = (rng.uniform(LOW, HIGH), rng.uniform(0, 5)) if centre is None else (centre, 1.0)
        truth = truncated(rng, mu, tau, 10)
        reports = means_drawn(rng, truth, 10, eps, kind == "local")
        exact = PrivateGaussianMeans(sigma2=1.0).fit(reports)
        before = PrivateGaussianMeans("integrated", sigma2=1.0).fit(reports).posterior_mean_
        found = [before, exact.posterior_mean_, oracle(reports, mu, tau)]
        found += [means_by_quadrature(reports)] if run < QUADRATURES else []
        risks.append([np.mean((each - truth) ** 2) for each in found])
        outside.append([np.mean((x < LOW) | (x > HIGH)) for x in (before, exact.posterior_mean_)])
        low, high = exact.interval()
        cover.append(np.mean((low <= truth) & (truth <= high)))
    ratio = np.divide(*np.mean([each[1::2] for each in risks[:QUADRATURES]], axis=0))
    return np.array([each[:3] for each in risks]).T, ratio, cover, np.array(outside).T


def mean_rows(runs):
    """Rows of mean squared errors, and of posterior means outside the bounds."""
    for kind, eps in (("local", 1.0), ("row", 0.1)):
        for centre in (None, *CENTRES):
            (before, now, known), ratio, cover, _ = means(kind, eps, runs, centre)
            at = "centre and spread drawn" if centre is None else f"mu = {centre:g}, tau = 1"
            yield (
                f"| {kind}, eps {eps:g}, n = m = 10: MSE, {at} | {runs} | {told(before)} | {told(now)} "
                f"| {ratio:.4f} | {told(known)} |"
            )
            yield f"| the same: coverage of 95 % intervals | {runs} | | {told(cover)} | | |"
    for kind in ("row", "local"):
        *_, outside = means(kind, 0.1, runs)
        before, now = (f"{100 * x.mean():.3g} %" for x in outside)
        yield f"| outside the bounds, eps .1, m = 10, {kind} | {runs} | {before} | {now} | | |"


def rate_rows(runs):
    """Intervals of rates from Beta(.3, 30), 500 answers each, eps 1."""
    rng, covers, widths = np.random.default_rng(1713), [], []
    for _ in range(runs):
        truth = rng.beta(*BETA, 240)
        reports = rates_drawn(rng, truth, 500, 1.0)
        found = []
        for model in (PrivateRates("moments"), PrivateRates()):
            low, high = model.fit(reports).interval()
            found.append((np.mean((low <= truth) & (truth <= high)), np.mean(high == low)))
        covers.append([each[0] for each in found])
        widths.append([each[1] for each in found])
    (before, now), (none_before, none_now) = np.array(covers).T, np.mean(widths, axis=0)
    yield f"| rates of Beta(.3, 30), n = 500, eps 1, m = 240: coverage | {runs} | {told(before)} | {told(now)} | | |"
    yield f"| of them of width 0 | {runs} | {100 * none_before:.3g} % | {100 * none_now:.3g} % | | |"


def hostile_row():
    """The centre of 199 honest clients of 200, and with one report of own bounds, n and noise."""
    rng = np.random.default_rng(5)
    agreed = Agreement(MeanClient, {"bounds": (0.0, 10.0), "eps": 1.0})
    clients = [MeanClient(**agreed.settings, name=f"ward {i}") for i in range(200)]
    liar, *honest = [each.report(rng.normal(rng.normal(5, 1), 1, 50), rng) for each in clients]
    worst = replace(liar, estimate=1e6, bounds=(0.0, 1e7), n=10**9, noise_variance=1e-9)
    believed = PrivateGaussianMeans("integrated", sigma2=1.0).fit([worst, *honest]).mu_
    kept = doubt(agreed.screen([worst, *honest]), hostile=0.01, sigma2=1.0)
    alone, now = (PrivateGaussianMeans(sigma2=1.0).fit(each).mu_ for each in (honest, kept.reports))
    far = f"{kept.influence:.2g} by 1 % of liars"
    return (
        f"| one hostile report of 200: the centre | 1 | {alone:.4g} -> {believed:.4g} | {alone:.4g} -> {now:.4g} "
        f"(at most {far}) | | |"
    )


def main(runs):
    """Print the table."""
    warnings.simplefilter("ignore")
    print(HEAD)
    for row in mean_rows(runs):
        print(row, flush=True)
    for row in rate_rows(max(runs // 5, 2)):
        print(row, flush=True)
    print(hostile_row())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
