"""Which clients' intervals of regressions of counts an exact posterior would hold, on the draws of ``count_defaults``.

By hand: ``python tests/bench/count_lattice.py REPLICATES FAMILY M``, which adds a row to ``count_lattice.csv``.  A lattice
over log rho and both coefficients, far into their tails, sums the likelihood itself: coefficients are not taken as
normal, no laws are merged.  What is left between its share and 95 % is of the draws: coefficients are fixed ones, and
refused data are left out.  Belongs here: that lattice.  The cells and the page are in ``count_defaults``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from count_defaults import SPREADS, WAYS, drawn, read, write
from scipy import special

from estimators.numerics import spread_law

PATH = Path(__file__).parent / "count_lattice.csv"
COLUMNS = "family", "m", "replicates", "refused", "fit", "fit_se", "exact", "exact_se", "gap", "gap_se"
RHOS, ACROSS, REACH, BEND = 40, 49, 40.0, 4.5  # values of log rho, of a coefficient, sds that they reach, how they widen


def log_chance(family, x, size, eta, phi):
    """Return each client's log-likelihood up to a constant, with two derivatives, at linear predictors (..., m)."""
    digamma, trigamma = special.digamma, lambda a: special.polygamma(1, a)
    if family == "exposures":
        u = eta + np.log(size) - np.log(phi)
        p = special.expit(u)
        value = special.gammaln(phi + x) - special.gammaln(phi) + x * u - (phi + x) * np.logaddexp(0, u)
        return value, x * (1 - p) - phi * p, -(x + phi) * p * (1 - p)
    mean = np.clip(special.expit(eta), 1e-15, 1 - 1e-15)
    a, b = mean * phi, (1 - mean) * phi
    value = special.betaln(a + x, b + (size - x)) - special.betaln(a, b)
    slope = digamma(a + x) - digamma(a) - digamma(b + (size - x)) + digamma(b)
    bend = trigamma(a + x) - trigamma(a) + trigamma(b + (size - x)) - trigamma(b)
    by_eta = mean * (1 - mean)
    before = -np.logaddexp(0, eta) - np.logaddexp(0, -eta)
    first = phi * slope * by_eta + (1 - 2 * mean) / x.size
    second = (phi * by_eta) ** 2 * bend + phi * slope * by_eta * (1 - 2 * mean) - 2 * by_eta / x.size
    return value + before / x.size, first, second


def centre(at, basis, b):
    """Return a place near the largest density and a root of the inverse curvature there, by damped Newton steps."""
    curvature = np.eye(basis.shape[1])
    for _ in range(60):
        value, slope, bend = at(basis @ b)
        curvature = np.einsum("mp,m,mq->pq", basis, np.maximum(-bend, 1e-3 * np.abs(bend) + 1e-4 / len(basis)), basis)
        move = np.linalg.solve(curvature, basis.T @ slope)
        share = 1.0
        while share > 1e-3 and at(basis @ (b + share * move))[0].sum() < value.sum():
            share /= 2
        b = b + share * move
        if np.abs(move).max() < 1e-6:
            break
    return b, np.linalg.inv(np.linalg.cholesky(curvature)).T


def lattice(family, x, size, z):
    """Return weights (k,), log rho (k,) and linear predictors (k, m) of the places that count."""
    basis = np.column_stack([np.ones(x.size), (z - z.mean()) / z.std()])
    unit = np.mean(size) if family == "trials" else np.mean(x)
    u = np.linspace(-1, 1, ACROSS)
    steps = REACH * np.sinh(BEND * u) / np.sinh(BEND)
    places = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    cells = np.add.outer(np.log(np.cosh(BEND * u)), np.log(np.cosh(BEND * u))).ravel()
    b = np.array([0.0 if family == "trials" else np.log(x.sum() / size.sum()), 0.0])
    logs, etas = [], []
    log_rhos = np.linspace(np.log(1e4), np.log(1e-4 / unit), RHOS)
    for log_rho in log_rhos:
        b, root = centre(lambda eta, s=log_rho: log_chance(family, x, size, eta, np.exp(-s)), basis, b)
        eta = np.clip((b + places @ root.T) @ basis.T, -600, 600)
        prior = log_rho + float(spread_law.log_density(unit * np.exp(log_rho))) + np.linalg.slogdet(root)[1]
        logs.append(log_chance(family, x, size, eta, np.exp(-log_rho))[0].sum(axis=1) + cells + prior)
        etas.append(eta)
    weights = np.exp(np.array(logs) - np.max(logs))
    some = weights > 1e-7 * weights.max()
    return weights[some] / weights[some].sum(), np.broadcast_to(log_rhos[:, None], some.shape)[some], np.array(etas)[some]


def held(family, data, truth):
    """Return whose true value the exact 95 % interval holds; 0 and 1 stand for what is next to them."""
    x, size, _ = data
    weights, log_rho, eta = lattice(family, *data)
    phi = np.exp(-log_rho)[:, None]

    def cdf(t):
        if family == "exposures":
            return weights @ special.gammainc(phi + x, (phi * np.exp(-eta) + size) * t)
        mean = np.clip(special.expit(eta), 1e-300, 1 - 1e-16)
        return weights @ special.betainc(mean * phi + x, (1 - mean) * phi + (size - x), np.clip(t, 0, 1))

    return (cdf(np.nextafter(truth, np.inf)) >= 0.025) & (cdf(np.maximum(np.nextafter(truth, -1), 0)) <= 0.975)


def row(family, m, replicates):
    """Return the row of a family over the hyperprior: shares held by the fit and by the lattice on data that are fitted."""
    key, pairs, refused = [16, list(WAYS).index(family), m, SPREADS.index("hyperprior")], [], 0
    for seed in np.random.SeedSequence(key).spawn(replicates):
        data, truth, _, _ = drawn(family, m, "hyperprior", np.random.default_rng(seed))
        try:
            low, high = WAYS[family]().fit(*data).interval()
        except ValueError:
            refused += 1
            continue
        pairs.append((np.mean((low <= truth) & (truth <= high)), np.mean(held(family, data, truth))))
    fit, exact = np.array(pairs).T
    found = {"fit": fit, "exact": exact, "gap": fit - exact}
    values = {name: f"{part.mean():.4f}" for name, part in found.items()}
    values |= {f"{name}_se": f"{part.std(ddof=1) / np.sqrt(part.size):.4f}" for name, part in found.items()}
    return {"family": family, "m": m, "replicates": len(fit), "refused": refused} | values


def main(replicates, family, m):
    """Draw a family's row, and put it into the file."""
    warnings.simplefilter("ignore")
    new = row(family, m, replicates)
    rows = [r for r in read(PATH) if (r["family"], r["m"]) != (family, str(m))] + [new]
    rows.sort(key=lambda r: (int(r["m"]), list(WAYS).index(r["family"])))
    write(PATH, COLUMNS, rows)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
