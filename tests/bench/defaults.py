"""Which law of the spread between clients to average over when few clients tell it: risk and coverage of each, simulated.

By hand, ten minutes of one processor, forty for regressions; a cell whose rows stand in the file is not drawn again::

    python tests/bench/defaults.py run
    python tests/bench/defaults.py page > tests/bench/DEFAULTS.md

Every law gets the same draws, and every average is a sum over a grid of its own, not the estimators' (test_defaults.py holds
the two against each other).  Measured: risk (mean squared error over that of clients' own estimates) and how often 95 %
intervals hold the truth.  Belongs here: the laws, the cells and their page.  Regressions of counts are in
``count_defaults``, models beside their peers in ``arena``.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc, betaln, expit, gammainc, gammaln, log_ndtr, logit, ndtr, ndtri
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).parent))

import count_defaults

from estimators import LinearClients, LogisticClients

HOME = Path(__file__).parent
COLUMNS = ("kind", "m", "ratio", "prior", "law", "risk", "risk_se", "held", "held_se")
SIZES = (3, 5, 10, 20, 50)
RATIOS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # variance between clients over (the harmonic mean of) the sampling variances
CHUNK = 3_000  # truths drawn together
TAILS = 0.025, 0.975

# Densities of t, the variance between clients over the sampling variance, without constants.
LAWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "flat on tau2": np.ones_like,
    "flat on tau": lambda t: t**-0.5,
    "half-Cauchy": lambda t: t**-0.5 / (1 + t),  # of tau, its scale the sampling standard deviation
    "Strawderman": lambda t: (4 + t) ** -1.5,
}
OWN_ESTIMATE, MORRIS = "own", "Morris, equal"  # the latter for equal variances alone, so that its risk is of other cells
DEFAULT = "Strawderman"
BOUNDED = "Its spread is uniform up to the largest that the bounds allow, a law that needs no sampling variance."
EXCEPT = {
    "private means, wide bounds": ("flat on tau", BOUNDED),
    "private means, tight bounds": ("flat on tau", BOUNDED),
    "private rates": ("flat on tau", BOUNDED),
}
"""By kind: the law that is the default there, and why."""
NOTES = {
    "regressions": "Strawderman is here the default itself, `LinearClients()`, over full covariances and the noise; the\n"
    "other laws average over each variance by itself and take the noise for known; the last three take one prior for true.",
    "logistic regressions": "Strawderman is here `LogisticClients()`, over full covariances, the mean Cauchy;\n"
    "the others take one prior for true. Own estimates are those with normal priors of sd 2.5.",
}
"""By kind: what its laws are there."""
LEAST = 0.94  # how often intervals must hold in every cell of the model's family
SHAPES = {
    "normal": lambda g, size: g.standard_normal(size),
    "t3": lambda g, size: g.standard_t(3, size) / np.sqrt(3),
    "two-point": lambda g, size: g.choice([-1.0, 1.0], size),
}
Found = dict[str, tuple[np.ndarray, np.ndarray]]


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


GRID = np.exp(np.linspace(np.log(1e-9), np.log(1e7), 160))  # of t; the first stands for 0


def normal_averages(y: np.ndarray, v: np.ndarray, theta: np.ndarray) -> Found:
    """Return, by law, errors and whether intervals hold (replicates, m), where the harmonic mean of the variances is 1."""
    logs, means, variances = normal_posteriors(y, v, GRID)
    places, found = ndtr((theta[:, :, None] - means) / np.sqrt(variances)), {}
    for name, density in LAWS.items():
        if name == "flat on tau2" and v.size < 4:
            continue  # no law
        p = share(logs, density(GRID) * GRID)
        found[name] = np.einsum("rk,rik->ri", p, means) - theta, held(np.einsum("rk,rik->ri", p, places))
    best, rows = logs.argmax(axis=1), np.arange(len(y))
    found["REML"] = means[rows, :, best] - theta, held(places[rows, :, best])
    return found


def estimates_cell(m: int, ratio: float, prior: str, g: np.random.Generator, size: int) -> Found:
    """Return, by law, squared errors and whether intervals hold, arrays (replicates, m); half have equal variances."""
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for spread in (0.0, 1.0):
        v = np.exp(spread * np.linspace(-1.5, 1.5, m))
        v *= np.mean(1 / v)  # the harmonic mean is 1
        theta = np.sqrt(ratio) * SHAPES[prior](g, (-(-size // 2), m))
        y = theta + np.sqrt(v) * g.standard_normal(theta.shape)
        parts = normal_averages(y, v, theta) | {OWN_ESTIMATE: (y - theta, np.ones(y.shape))}
        if spread == 0 and m > 3:  # Morris (1983), for equal variances
            centre = y.mean(axis=1, keepdims=True)
            B = (m - 3) / (m - 1) * np.minimum(1, (m - 1) / np.sum((y - centre) ** 2, axis=1, keepdims=True))
            sd = np.sqrt(1 - (m - 1) / m * B + 2 / (m - 3) * B**2 * (y - centre) ** 2)
            error = y - B * (y - centre) - theta
            parts[MORRIS] = error, held(ndtr(-error / sd))
        for name, (errors, inside) in parts.items():
            found.setdefault(name, []).append((errors**2 / np.mean(v), inside))
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


def trials_cell(m: int, ratio: float, prior: str, g: np.random.Generator, size: int) -> Found:
    """As `estimates_cell`, of shares of some 20 trials."""
    n = np.round(20 * np.exp(np.linspace(-1, 1, m))).astype(int)
    rho, mu = ratio / np.mean(n), 0.3
    sd = np.sqrt(mu * (1 - mu) * rho / (1 + rho))
    theta = g.beta(mu / rho, (1 - mu) / rho, (size, m)) if prior == "own family" else mu + sd * g.choice([-1, 1], (size, m))
    x = g.binomial(n, np.clip(theta, 0, 1))
    rhos, chance, measure, first, second = trials_posteriors(x, n)
    places = betainc(first, second, np.clip(theta, 0, 1)[:, :, None])
    return averaged(rhos * np.mean(n), chance, measure, first / (first + second), places, theta, x / n)


def exposures_posteriors(x: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, ...]:
    """As `trials_posteriors`, with a uniform log mean, and shapes and rates (replicates, m, nodes)."""
    rate = (x.sum(axis=1) + 0.5) / e.sum()
    size = float(np.mean(e) * np.mean(rate))
    rho, t, logs = lattice(np.log(rate), size, e.size, np.ones(rate.size))
    shape, per = 1 / rho + 0 * t, np.exp(-t) / rho
    first, second = shape[:, None] + x[:, :, None], per[:, None] + e[:, None]
    terms = gammaln(first) - gammaln(shape)[:, None] + (shape * np.log(per))[:, None] - first * np.log(second)
    return rho, terms.sum(axis=1), logs, first, second


def exposures_cell(m: int, ratio: float, prior: str, g: np.random.Generator, size: int) -> Found:
    """As `estimates_cell`, of rates of some 5 events."""
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
    return averaged(rhos * events, chance, measure, first / second, places, theta, x / e)


def averaged(
    t: np.ndarray,
    chance: np.ndarray,
    measure: np.ndarray,
    means: np.ndarray,
    places: np.ndarray,
    theta: np.ndarray,
    own: np.ndarray,
) -> Found:
    """Return squared errors and whether intervals hold, by law and for the likeliest prior, and of own estimates."""
    found = {OWN_ESTIMATE: ((own - theta) ** 2, np.ones(theta.shape))}
    for name, density in LAWS.items():
        p = share(chance + measure, density(t))
        mean, below = (np.einsum("rk,rik->ri", p, part) for part in (means, places))
        found[name] = (mean - theta) ** 2, held(below)
    best, rows = chance.argmax(axis=1), np.arange(len(chance))  # of the lattice
    found["likeliest"] = (means[rows, :, best] - theta) ** 2, held(places[rows, :, best])
    return found


# --- private fits ----------------------------------------------------------------------------------------------------


def private_averages(
    likelihood: np.ndarray, prior: np.ndarray, t: np.ndarray, measure: np.ndarray, edges: np.ndarray, theta: np.ndarray
) -> Found:
    """Return, by law, squared errors and whether intervals hold (replicates, m), from likelihoods (replicates, m, cells).

    `prior` (cells, nodes) has the probabilities of the cells between `edges`; `t` and log `measure` are of the nodes.
    """
    marginal = np.maximum(likelihood @ prior, 1e-300)
    chance = np.log(marginal).sum(axis=1) + measure
    middle = (edges[1:] + edges[:-1]) / 2
    cell = np.clip(np.searchsorted(edges, theta, side="right") - 1, 0, middle.size - 1)[..., None]
    part = (theta - edges[cell[..., 0]]) / np.diff(edges)[cell[..., 0]]
    found = {}
    for name, density in LAWS.items():
        p = share(chance, density(t))
        law = likelihood * ((p[:, None] / marginal) @ prior.T)
        law /= law.sum(axis=2, keepdims=True)
        above = np.cumsum(law, axis=2)
        here, up_to = (np.take_along_axis(part_of, cell, axis=2)[..., 0] for part_of in (law, above))
        found[name] = (law @ middle - theta) ** 2, held(up_to - (1 - part) * here)
    return found


def nodes_about(centre: float, spread: np.ndarray, own: float, low: float, high: float, m: int) -> tuple[np.ndarray, ...]:
    """Return spreads, centres and log measures of a lattice, uniform in the centres between two bounds and in spread^2."""
    x, w = np.polynomial.legendre.leggauss(40)
    reach = 10 * np.sqrt((own + spread**2) / m)
    first, last = np.maximum(centre - reach, low), np.minimum(centre + reach, high)
    centres = first[:, None] + (last - first)[:, None] * (x + 1) / 2
    logs = np.log(spread**2 * (last - first))[:, None] + np.log(w)
    return np.repeat(spread, x.size), centres.ravel(), logs.ravel()


def private_means_cell(half: float) -> Callable[..., Found]:
    """Return the function as `estimates_cell` of means that lie within +-`half`, behind noise of variance 1.

    Half of that is of a normal law, rows', and half of a Laplace law, for privacy.
    """
    s, b = np.sqrt(0.5), 0.5

    def likelihood(x):  # of the sum of both, in logs
        sides = [-side * x / b + log_ndtr(side * x / s - s / b) for side in (1, -1)]
        return np.exp(np.logaddexp(*sides) + s**2 / (2 * b**2) - np.log(2 * b))

    def cell(m: int, ratio: float, prior: str, g: np.random.Generator, size: int) -> Found:
        mu, tau = 0.3 * half, np.sqrt(ratio)
        ends = ndtr((np.array([-half, half]) - mu) / tau)
        theta = mu + tau * (
            ndtri(ends[0] + (ends[1] - ends[0]) * g.random((size, m)))
            if prior == "own family"
            else g.choice([-1, 1], (size, m))
        )
        theta = np.clip(theta, -half, half)
        y = theta + s * g.standard_normal(theta.shape) + g.laplace(0, b, theta.shape)
        edges = np.linspace(-half, half, int(np.ceil(20 * half)) + 1)
        spread = np.exp(np.linspace(np.log(0.02), np.log(half), 24))
        spreads, centres, measure = nodes_about(mu, spread, 1 + ratio, -half, half, m)
        below = np.diff(ndtr((edges[:, None] - centres) / spreads), axis=0)
        found = private_averages(
            likelihood(y[:, :, None] - (edges[1:] + edges[:-1]) / 2),
            below / below.sum(axis=0),
            spreads**2,
            measure,
            edges,
            theta,
        )
        return found | {OWN_ESTIMATE: ((np.clip(y, -half, half) - theta) ** 2, np.ones(theta.shape))}

    return cell


def private_rates_cell(m: int, ratio: float, prior: str, g: np.random.Generator, size: int) -> Found:
    """As `estimates_cell`, of rates of 40 answers whose number of ones has discrete Laplace noise of eps = .5."""
    n, eps, mu = 40, 0.5, 0.3
    own = mu * (1 - mu) / n + 1 / (2 * np.sinh(eps / 2) ** 2) / n**2
    spread = np.sqrt(ratio * own / (mu * (1 - mu)))  # (alpha + beta + 1)^(-1/2)
    whole = 1 / spread**2 - 1
    sd = spread * np.sqrt(mu * (1 - mu))
    theta = (
        g.beta(mu * whole, (1 - mu) * whole, (size, m)) if prior == "own family" else mu + sd * g.choice([-1, 1], (size, m))
    )
    stop = -np.expm1(-eps)
    y = g.binomial(n, theta) + g.geometric(stop, theta.shape) - g.geometric(stop, theta.shape)
    edges = np.sin(np.linspace(0, np.pi / 2, 241)) ** 2
    k = np.arange(n + 1)
    table = binom.pmf(k[:, None], n, (edges[1:] + edges[:-1]) / 2)
    spreads = np.exp(np.linspace(np.log(0.01), np.log(0.99), 24))
    # Centres are uniform in the rate; their range is as wide as that of angles, at most 1/2 as long.
    spreads, centres, measure = nodes_about(mu, spreads, own + sd**2, 0.0, 1.0, m)
    size_of = 1 / spreads**2 - 1
    below = np.diff(betainc(centres * size_of, (1 - centres) * size_of, edges[:, None]), axis=0)
    found = private_averages(
        np.exp(-eps * np.abs(y[..., None] - k)) @ table, below, spreads**2 * mu * (1 - mu) / own, measure, edges, theta
    )
    return found | {OWN_ESTIMATE: ((np.clip(y / n, 0, 1) - theta) ** 2, np.ones(theta.shape))}


# --- regressions -----------------------------------------------------------------------------------------------------


def regressions_cell(m: int, ratio: float, prior: str, g: np.random.Generator, size: int) -> Found:
    """As `estimates_cell`, of two coefficients: priors of ``LinearClients``, and what averages over each variance would do.

    The latter, all laws but the default, are for a design whose coefficients are estimated independently, with the noise's
    variance taken as known.
    """
    rows, drawn = 8, []
    X = np.repeat(np.column_stack((np.ones(rows), np.linspace(-1.5, 1.5, rows)))[None], m, axis=0)
    noise = np.linalg.inv(X[0].T @ X[0])
    for _ in range(size):
        theta = np.sqrt(ratio * np.diag(noise)) * SHAPES[prior](g, (m, 2))
        y = np.einsum("irp,ip->ir", X, theta) + g.standard_normal((m, rows))
        own = np.einsum("pq,iqr,ir->ip", noise, X.transpose(0, 2, 1), y)
        parts = {OWN_ESTIMATE: (own - theta, np.ones(own.shape))}
        s2 = np.sum((y - np.einsum("irp,ip->ir", X, own)) ** 2) / (m * (rows - 2))
        unit = np.sqrt(s2 * np.diag(noise))
        for name, (errors, inside) in normal_averages((own / unit).T, np.ones(m), (theta / unit).T).items():
            if name in LAWS and name != DEFAULT:
                parts[name] = errors.T * unit, inside.T
        for name in (DEFAULT, "penalised-reml", "reml", "marginal-likelihood"):
            parts[name] = fitted(LinearClients() if name == DEFAULT else LinearClients(prior=name), X, y, theta)
        drawn.append({name: (errors**2 / np.diag(noise), inside) for name, (errors, inside) in parts.items()})
    return stacked(drawn)


def stacked(drawn: list[Found]) -> Found:
    """Return what replicates have found, together."""
    return {name: tuple(np.stack(parts) for parts in zip(*(one[name] for one in drawn), strict=True)) for name in drawn[0]}


def fitted(model: Any, X: np.ndarray, y: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return errors of a fit to clients' rows and whether its intervals hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model.fit(list(X), list(y))
    low, high = model.interval()
    return model.posterior_mean_ - theta, (low <= theta) & (theta <= high)


def labels_cell(m: int, ratio: float, prior: str, g: np.random.Generator, size: int) -> Found:
    """As `estimates_cell`, of two coefficients of 20 labels, some 40 % ones, by priors of ``LogisticClients``.

    Own estimates are those with normal priors of sd 2.5, since labels that are separated have no others.  A fit that refuses
    the labels has these errors, and intervals that do not hold.
    """
    rows, drawn = 20, []
    X = np.repeat(np.column_stack((np.ones(rows), np.linspace(-1.5, 1.5, rows)))[None], m, axis=0)
    noise = np.linalg.inv(X[0].T @ X[0] * 0.24)
    for _ in range(size):
        theta = [-0.5, 0.5] + np.sqrt(ratio * np.diag(noise)) * SHAPES[prior](g, (m, 2))
        y = (g.random((m, rows)) < expit(np.einsum("irp,ip->ir", X, theta))).astype(float)
        own = fitted(LogisticClients(mu=0.0, covariance=2.5**2), X, y, theta)[0], np.ones(theta.shape)
        parts = {OWN_ESTIMATE: own}
        for name in (DEFAULT, "penalised", "marginal-likelihood"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # no maximum
                try:
                    parts[name] = fitted(LogisticClients() if name == DEFAULT else LogisticClients(prior=name), X, y, theta)
                except ValueError:
                    parts[name] = own[0], np.zeros(theta.shape)
        drawn.append({name: (errors**2 / np.diag(noise), inside) for name, (errors, inside) in parts.items()})
    return stacked(drawn)


COUNT_RATIOS, COUNT_PRIORS = (0.1, 0.3, 1.0, 3.0), ("own family", "two-point")
CELLS: dict[str, tuple[Callable[..., Found], int, tuple[int, ...], tuple[float, ...], tuple[str, ...]]] = {
    "estimates": (estimates_cell, 96_000, SIZES, RATIOS, tuple(SHAPES)),
    "trials": (trials_cell, 15_000, SIZES, COUNT_RATIOS, COUNT_PRIORS),
    "exposures": (exposures_cell, 15_000, SIZES, COUNT_RATIOS, COUNT_PRIORS),
    "private means, wide bounds": (private_means_cell(16.0), 9_000, SIZES, COUNT_RATIOS, COUNT_PRIORS),
    "private means, tight bounds": (private_means_cell(2.0), 9_000, SIZES, COUNT_RATIOS, COUNT_PRIORS),
    "private rates": (private_rates_cell, 9_000, SIZES, COUNT_RATIOS, COUNT_PRIORS),
    "regressions": (regressions_cell, 4_500, (5, 10, 20), (0.1, 1.0, 10.0), ("normal",)),
    "logistic regressions": (labels_cell, 1_500, (5, 10, 20), (0.1, 1.0, 10.0), ("normal",)),
}
"""By kind: how a cell is drawn, how many truths, and the cells."""


def cell(kind: str, m: int, ratio: float, prior: str) -> list[dict[str, Any]]:
    """Return the rows of one cell, as in `COLUMNS`."""
    function, truths, sizes, ratios, priors = CELLS[kind]
    key = [16, list(CELLS).index(kind), sizes.index(m), ratios.index(ratio), priors.index(prior)]
    replicates = max(120, truths // m)
    chunks = -(-replicates * m // CHUNK)
    parts: dict[str, list[np.ndarray]] = {}
    for seed in np.random.SeedSequence(key).spawn(chunks):
        for law, found in function(m, ratio, prior, np.random.default_rng(seed), -(-replicates // chunks)).items():
            parts.setdefault(law, []).append(np.stack([part.reshape(len(part), -1).mean(axis=1) for part in found]))
    means = {law: np.concatenate(several, axis=1) for law, several in parts.items()}  # (2, replicates)
    own, rows = means.pop(OWN_ESTIMATE)[0], []
    for law, (errors, inside) in means.items():
        base = own if errors.size == own.size else np.ones(errors.size)  # of a part of the replicates, where it is 1
        risk = errors.mean() / base.mean()
        risk_se = (errors - risk * base).std(ddof=1) / np.sqrt(errors.size) / base.mean()
        rows.append({"kind": kind, "m": m, "ratio": ratio, "prior": prior, "law": law, "risk": f"{risk:.4g}",
                     "risk_se": f"{risk_se:.2g}", "held": f"{inside.mean():.4f}",
                     "held_se": f"{inside.std(ddof=1) / np.sqrt(inside.size):.4f}"})  # fmt: skip
    return rows


def cells() -> Iterator[tuple[str, int, float, str]]:
    """Return kind, number of clients, ratio and prior of each cell."""
    for kind, (_, _, sizes, ratios, priors) in CELLS.items():
        for prior in priors:
            yield from ((kind, m, ratio, prior) for m in sizes for ratio in ratios)


def run(path: Path) -> None:
    """Add the cells to the file that it lacks, one at a time."""
    there = {tuple(row[name] for name in COLUMNS[:4]) for row in read(path)} if path.exists() else set()
    with open(path, "a", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not there:
            table.writeheader()
        for one in cells():
            if one not in there:
                table.writerows(cell(*one))
                file.flush()


# --- the page --------------------------------------------------------------------------------------------------------

OWN = ("normal", "own family")  # families of priors that the models are made for


def read(path: Path = HOME / "defaults.csv") -> list[dict[str, Any]]:
    """Return the rows of the table of results, numbers as numbers."""
    with open(path, newline="") as file:
        return [
            row | {"m": int(row["m"])} | {c: float(row[c]) for c in ("ratio", "risk", "risk_se", "held", "held_se")}
            for row in csv.DictReader(file)
        ]


def summary(rows: list[dict[str, Any]], kinds: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return, by law, mean and worst risk over the least of each cell of these kinds, and how often intervals hold.

    The latter in the family that the models are made for, on average and in the worst cell, and in the other families.
    """
    cells: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] in kinds:
            cells.setdefault(tuple(row[name] for name in COLUMNS[:4]), {})[row["law"]] = row
    found = {}
    for law in dict.fromkeys(law for cell in cells.values() for law in cell):
        there = [cell for cell in cells.values() if law in cell]
        over = [cell[law]["risk"] / min(row["risk"] for name, row in cell.items() if name != MORRIS) for cell in there]
        inside, outside = ([cell[law] for cell in there if (cell[law]["prior"] in OWN) == own] for own in (True, False))
        worst = min(inside, key=lambda row: row["held"])
        found[law] = {
            "cells": len(there), "risk": float(np.exp(np.mean(np.log(over)))), "worst": max(over),
            "held": float(np.mean([row["held"] for row in inside])), "least": worst["held"], "error": worst["held_se"],
            "outside": min((row["held"] for row in outside), default=np.nan),
            "short": sum(row["held"] + 2 * row["held_se"] < LEAST for row in inside), "inside": len(inside),
        }  # fmt: skip
    return found


def asked(found: dict[str, dict[str, Any]]) -> str:
    """Return the law whose intervals hold too seldom in the fewest cells of the family, of these that of least risk."""
    return min((law for law in found if law != MORRIS), key=lambda law: (found[law]["short"], found[law]["risk"]))


def table(found: dict[str, dict[str, Any]], default: str | None) -> list[str]:
    """Return the lines of a table of laws, the default in bold."""
    lines = ["| law | cells | over least | worst | held % | worst | too seldom | other families |", "| --- " * 8 + "|"]
    for law, one in sorted(found.items(), key=lambda item: item[1]["risk"]):
        name = f"**{law}**" if law == default else law
        over = " | " if law == MORRIS else f"{one['risk']:.2f} | {one['worst']:.2f}"
        outside = "" if np.isnan(one["outside"]) else f"{100 * one['outside']:.1f}"
        least = f"{100 * one['least']:.1f} ({100 * one['error']:.1f}) | {one['short']} of {one['inside']}"
        lines.append(f"| {name} | {one['cells']} | {over} | {100 * one['held']:.1f} | {least} | {outside} |")
    return [*lines, ""]


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page, from the rows of the table."""
    lines = [
        "# Defaults for few clients", "",
        "Written by `python tests/bench/defaults.py page` from `defaults.csv`; do not edit.", "",
        "Which law of the variance between clients should posteriors be averaged over? Each got the same simulated clients.",
        "Risk is the mean squared error over that of clients' own estimates; *over least* is it over the least of its cell",
        "(geometric mean of all cells, and the worst); *held* is how often 95 % intervals hold the truth where the prior is",
        "of the model's family (mean, and the worst cell with its simulation's standard error), in how many of those cells",
        f"they hold less than {100 * LEAST:.0f} % by more than two standard errors (*too seldom*), and how often in the",
        "worst cell of other families. Asked for is the law that holds too seldom in the fewest cells, of these that of",
        "least risk. A law that has no posterior for three estimates is left out there, and Morris's is for equal variances",
        "alone, so that its risk is not set beside the others'. **Bold** is what the models do by default.", "",
        "## All together", "",
    ]  # fmt: skip
    shared = {law: one for law, one in summary(rows, CELLS).items() if law in LAWS}
    lines += [f"Asked for: {asked(shared)}, one law for all kinds.", "", *table(shared, DEFAULT)]
    for kind in CELLS:
        found, (chosen, reason) = summary(rows, [kind]), EXCEPT.get(kind, (DEFAULT, ""))
        lines += [f"## {kind.capitalize()}", ""]
        if kind in EXCEPT:
            loss, least = (found[chosen][name] / found[DEFAULT][name] for name in ("risk", "least"))
            lines += [f"The default is {chosen}, of {loss:.2f} times the risk of {DEFAULT} on average, whose worst cell",
                      f"holds {least:.3f} times as often. {reason}", ""]  # fmt: skip
        lines += [*NOTES[kind].split("\n"), ""] if kind in NOTES else []
        lines += table(found, chosen)
    lines += count_defaults.section(count_defaults.read())
    lines += ["## Risk and % held, cell by cell", ""]
    for kind, (_, _, sizes, ratios, priors) in CELLS.items():
        laws = list(summary(rows, [kind]))
        lines += [f"### {kind.capitalize()}", "", "| prior | m | between / within | " + " | ".join(laws) + " |",
                  "| --- " * (3 + len(laws)) + "|"]  # fmt: skip
        there = {(r["prior"], r["m"], r["ratio"], r["law"]): r for r in rows if r["kind"] == kind}
        for prior in priors:
            for m in sizes:
                for ratio in ratios:
                    here = [there.get((prior, m, ratio, law)) for law in laws]
                    shown = ["" if one is None else f"{one['risk']:.3f}, {100 * one['held']:.1f}" for one in here]
                    lines.append(f"| {prior} | {m} | {ratio:g} | " + " | ".join(shown) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        run(HOME / "defaults.csv")
    elif sys.argv[1:] == ["page"]:
        sys.stdout.write(page(read()))
    else:
        raise SystemExit(__doc__)
