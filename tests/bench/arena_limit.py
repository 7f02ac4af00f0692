"""What stands in the way of defaults in the arena's cells where a peer is ahead: other choices there and in other cells.

By hand, two minutes of one processor; the players need the folder of the real data sets::

    python tests/bench/arena_limit.py ../shared/data > tests/bench/arena_limit.csv

Few estimates: laws of the spread between clients.  Rows: whether a client's variance is judged by its rows alone, or by how
far it lies from the others too, and what the likelihood of the prior knows of it.  Players: what is known of them besides.
Each has its risk over that of own estimates and how often 95 % intervals hold.  Belongs here: these cells.  Laws for fewer
and more clients are in ``defaults``, peers in ``arena``.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

sys.path.insert(0, str(Path(__file__).parent))

from arena import DESIGNS, NORMAL, ROWS, drawn, measured, variances
from arena_real import players
from defaults import LAWS, held, normal_posteriors, share

from estimators import BetaBinomial, BetaBinomialRegression, GaussianMeans, SampleMeans

COLUMNS = "cell", "prior", "ratio", "choice", "risk", "risk_se", "held"
HERE = {
    "Strawderman": LAWS["Strawderman"],
    "Strawderman, quarter scale": lambda t: (1 + t) ** -1.5,
    "uniform shrinkage": lambda t: (1 + t) ** -2.0,
    "half-Cauchy": LAWS["half-Cauchy"],
    "flat on tau": LAWS["flat on tau"],
}
RATIOS, SIZE, DEGREES, TABLES = (0.1, 1.0, 10.0, 30.0), 3000, 3.0, 100
FEW = (("normal", 5, "unequal"), ("t3", 5, "unequal"), ("normal", 5, "equal"), ("two-point", 10, "unequal"))
Found = dict[str, tuple[float, float, float]]


def told(error: np.ndarray, inside: np.ndarray, own: float) -> tuple[float, float, float]:
    """Return the risk over that of own estimates, its standard error, and the share of intervals that hold."""
    loss = np.mean(error**2, axis=1) / own
    return float(loss.mean()), float(loss.std(ddof=1) / np.sqrt(loss.size)), float(np.mean(inside))


def estimates(prior: str, clients: int, design: str, ratio: float) -> Found:
    """Return what each law of the spread has of a few estimates."""
    v, g = variances(clients, design), np.random.default_rng([clients, int(ratio * 10)])
    theta = np.sqrt(ratio) * NORMAL[prior](g, clients * SIZE).reshape(SIZE, clients)
    y = theta + np.sqrt(v) * g.standard_normal((SIZE, clients))
    t = np.exp(np.linspace(np.log(1e-9), np.log(1e7), 120))
    logs, means, variance = normal_posteriors(y, v, t)
    places, rows, found = ndtr((theta[:, :, None] - means) / np.sqrt(variance)), np.arange(SIZE), {}
    for name, density in HERE.items():
        p = share(logs, density(t) * t)
        inside = held(np.einsum("rk,rik->ri", p, places))
        found[name] = told(np.einsum("rk,rik->ri", p, means) - theta, inside, v.mean())
    precision = (1 / (v[:, None] + t)).sum(axis=0)
    for name, value in (("REML", logs), ("maximum likelihood", logs + 0.5 * np.log(precision))):
        best = value.argmax(axis=1)
        found[name] = told(means[rows, :, best] - theta, held(places[rows, :, best]), v.mean())
    return found


def raw_rows(prior: str, ratio: float) -> Found:
    """Return what two posteriors have of a client with five rows, where both priors are known but for their shape.

    Variances of means are `DEGREES` / chi-square(`DEGREES`), and given the rows v df / chi-square(df).
    """
    g, known = np.random.default_rng([ROWS, int(ratio * 10)]), ROWS - 1
    sigma2 = DEGREES / g.chisquare(DEGREES, 20 * SIZE)
    theta = np.sqrt(ratio) * NORMAL[prior](g, sigma2.size)
    y = theta + np.sqrt(sigma2) * g.standard_normal(sigma2.size)
    df = DEGREES + known
    v = (DEGREES + sigma2 * g.chisquare(known, sigma2.size)) / df
    u = np.linspace(-9.0, 3.0, 120)  # log of chi-square(df) / df
    noise = v[:, None] * np.exp(-u)
    own = ratio / (ratio + noise)
    alone = np.broadcast_to(df / 2 * (u - np.exp(u)), own.shape)
    with_distance = alone - (np.log(ratio + noise) + y[:, None] ** 2 / (ratio + noise)) / 2
    means, found = own * y[:, None], {}
    places = ndtr((theta[:, None] - means) / np.sqrt(own * noise))
    for name, logs in (("rows alone", alone), ("rows and distance", with_distance)):
        p = share(logs, np.ones(1))
        inside = held(np.einsum("rk,rk->r", p, places))
        found[name] = told((np.einsum("rk,rk->r", p, means) - theta)[:, None], inside, np.mean((y - theta) ** 2))
    return found


class KnownNoise(SampleMeans):
    """The prior as if moderated variances were the true ones; clients' own posteriors as ever."""

    def likelihood(self, plain: bool = False) -> Any:
        """Return the likelihood of tau2 for known variances."""
        return GaussianMeans.likelihood(self, plain)


def whole_tables(prior: str, design: str) -> Found:
    """Return what tables of a hundred clients with five rows have, by what the likelihood of the prior knows of noise."""
    ways = {"t likelihood": SampleMeans, "noise taken for known": KnownNoise}
    errors, inside, own = {way: [] for way in ways}, {way: [] for way in ways}, []
    for replicate in range(TABLES):
        data, theta, _ = drawn("rows", prior, 100, design, 2, replicate)
        rows = data[0]
        means, variances_ = rows.mean(axis=1), rows.var(axis=1, ddof=1)
        own.append(np.mean((means - theta) ** 2))
        for way, model in ways.items():
            fit = model().fit(means, variances_, ROWS)
            low, high = fit.interval()
            errors[way].append(fit.posterior_mean_ - theta)
            inside[way].append((low <= theta) & (theta <= high))
    return {way: told(np.array(errors[way]), np.array(inside[way]), float(np.mean(own))) for way in ways}


def batters(path: Path) -> Found:
    """Return what is known of the players of 2005 does for the second half of the season; errors are over players."""
    (x, n, pitcher), later, noise = players(path, (0.0, 1.0))
    known = {"who pitches": pitcher, "log at bats": np.log(n)}
    every = {"the default": BetaBinomial().fit(x, n)}
    every |= {f"and {name}": BetaBinomialRegression().fit(x, n, z) for name, z in known.items()}
    every["and both"] = BetaBinomialRegression().fit(x, n, np.column_stack(list(known.values())))
    loss = (x / n - later) ** 2 - noise
    found = {"own estimates": (1.0, 0.0, np.nan)}
    for name, model in every.items():
        answer = model.posterior_mean_, *model.interval()
        _, inside, *_ = measured(lambda answer=answer: answer, (), later, noise)
        mine = (answer[0] - later) ** 2 - noise
        ratio = mine.mean() / loss.mean()
        error = np.std(mine - ratio * loss, ddof=1) / np.sqrt(n.size) / loss.mean()
        found[name] = float(ratio), float(error), float(inside)
    return found


def cells(path: Path) -> Iterator[tuple[str, str, str, Found]]:
    """Yield each cell by its name, its prior and the variance between clients over that within."""
    for prior, clients, design in FEW:
        yield from ((f"{clients} {design} estimates", prior, str(r), estimates(prior, clients, design, r)) for r in RATIOS)
    for prior in ("normal", "t3", "spike 90 %"):
        yield from (("rows", prior, str(r), raw_rows(prior, r)) for r in RATIOS)
        yield from ((f"100 clients, {design} rows", prior, "1.0", whole_tables(prior, design)) for design in DESIGNS)
    yield "batters 2005", "real", "", batters(path)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS)
    for *place, found in cells(Path(sys.argv[1])):
        writer.writerows([*place, choice, *(f"{value:.3f}" for value in values)] for choice, values in found.items())
