"""Private posteriors beside independent quadrature, an oracle and the fits before: risk and coverage, over eps, n and m.

Run it to print the tables of PRIVATE.md:  python tests/bench/private_posteriors.py [hyperprior | many | fixed] [share]

Truths are drawn from the prior that the fits state, hyperparameters included, or at fixed parameters; reports have the law
of the clients' mechanism (rows drawn, clipped and averaged up to 1,000 of them; the normal law of their mean beyond).

Belongs here: that simulation, and a quadrature that shares nothing with the fits: midpoints on dense grids of truths,
centres and spreads, with laws of reports from sums.  Does not belong here: speed (``bench_private``).
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
from scipy import stats
from scipy.special import betainc

from estimators.accounting.budget import Guarantee
from estimators.private import MeanReport, PrivateGaussianMeans, PrivateRates, RateReport

LOW, HIGH, WIDTH = -5.0, 5.0, 10.0
DENSE = 1600


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


def truncated(rng, mu, tau, m):
    """Draws from a normal law cut off at the bounds."""
    return stats.truncnorm.rvs((LOW - mu) / tau, (HIGH - mu) / tau, loc=mu, scale=tau, size=m, random_state=rng)


def cell(rng, runs, m, n, eps, kind, drawn=None, oracle=0):
    """One row of a table: coverage, its error, risks of the exact fit and of the fit before; and the ratio of the risk to
    that of the reference in the first `oracle` runs."""
    cover, risks, ratios = [], [], []
    for run in range(runs):
        if kind == "rates":
            mu, s = (rng.random(), rng.random()) if drawn is None else drawn
            size = 1 / s**2 - 1
            truth = rng.beta(mu * size, (1 - mu) * size, m)
            reports, models = rates_drawn(rng, truth, n, eps), (PrivateRates(), PrivateRates("moments"))
        else:
            mu, tau = (rng.uniform(LOW, HIGH), rng.uniform(0, WIDTH / 2)) if drawn is None else drawn
            truth = truncated(rng, mu, tau, m)
            reports = means_drawn(rng, truth, n, eps, kind == "local")
            models = PrivateGaussianMeans(sigma2=1.0), PrivateGaussianMeans("integrated", sigma2=1.0)
        exact = models[0].fit(reports)
        low, high = exact.interval()
        cover.append(np.mean((low <= truth) & (truth <= high)))
        before = models[1].fit(reports).posterior_mean_
        risks.append([np.mean((x - truth) ** 2) for x in (exact.posterior_mean_, before)])
        if run < oracle:
            reference = rates_by_quadrature(reports, eps) if kind == "rates" else means_by_quadrature(reports)
            ratios.append([risks[-1][0], np.mean((reference - truth) ** 2)])
    mine, old = np.mean(risks, axis=0)
    error = np.std(cover, ddof=1) / np.sqrt(runs) if runs > 1 else np.nan
    ratio = f"{np.divide(*np.mean(ratios, axis=0)):.4f}" if oracle else ""
    return (
        f"| {kind} | {eps:g} | {n} | {m} | {runs} | {np.mean(cover):.3f} ({error:.3f}) | {mine:.4g} | {old:.4g} | {ratio} |"
    )


HEAD = (
    "| reports | eps | n | m | runs | coverage (error) | risk | before | risk over quadrature |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def main(part, share=1.0):
    """Print the tables, of this share of the runs; every row has a generator of its own, so that rows can be run alone."""
    import warnings

    warnings.simplefilter("ignore")
    if part in ("", "hyperprior"):
        print("## Averaged over the stated hyperprior\n\n" + HEAD, flush=True)
        for place, (kind, n, eps) in enumerate(product(("rates", "local", "row"), (10, 100, 10_000), (0.1, 1.0, 10.0))):
            oracle = 10 if kind != "rates" or n <= 100 else 0
            rng = np.random.default_rng([17, 0, place])
            print(cell(rng, int(np.ceil(share * 200)), 10, n, eps, kind, oracle=oracle), flush=True)
    if part in ("", "many"):
        print("\n## Of many clients, averaged over the stated hyperprior\n\n" + HEAD, flush=True)
        for place, (m, kind, n, eps) in enumerate(
            product((1000, 10_000, 100_000), ("rates", "local", "row"), (10, 10_000), (0.1, 1.0, 10.0))
        ):
            runs = {1000: 40, 10_000: 8, 100_000: 3}[m]
            rng = np.random.default_rng([17, 1, place])
            print(cell(rng, int(np.ceil(share * runs)), m, n, eps, kind), flush=True)
    if part in ("", "fixed"):
        print("\n## At fixed parameters\n\n| parameters " + HEAD.replace("\n|", "\n|---|", 1), flush=True)
        for place, (kind, drawn, n, eps, m, runs) in enumerate((
            ("local", (0.0, 1.0), 10, 1.0, 10, 200), ("local", (2.0, 1.0), 10, 1.0, 10, 200),
            ("local", (4.5, 1.0), 10, 1.0, 10, 200), ("local", (0.0, 1.0), 10, 1.0, 1000, 40),
            ("row", (0.0, 1.0), 10, 0.1, 10, 200), ("row", (2.0, 1.0), 10, 0.1, 10, 200),
            ("row", (0.0, 1.0), 10, 1.0, 10, 200), ("row", (0.0, 0.2), 10, 1.0, 100, 50),
            ("row", (4.5, 1.0), 1000, 1.0, 100, 50),
            ("rates", (0.3 / 30.3, 31.3**-0.5), 500, 1.0, 240, 40), ("rates", (0.3 / 30.3, 31.3**-0.5), 20, 1.0, 240, 40),
            ("rates", (0.3, 11**-0.5), 50, 1.0, 100, 50), ("rates", (0.5, 3**-0.5), 20, 0.5, 240, 40),
        )):  # fmt: skip
            rng = np.random.default_rng([17, 2, place])
            row = cell(rng, int(np.ceil(share * runs)), m, n, eps, kind, drawn)
            print(f"| {drawn[0]:.3g}, {drawn[1]:.3g} " + row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "", float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
