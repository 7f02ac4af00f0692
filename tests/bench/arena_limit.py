"""What stands in the way of defaults in the arena's cells where a peer is ahead: other choices there and in other cells.

By hand, five minutes of one processor; players and schools need the folder of the real data sets::

    python tests/bench/arena_limit.py ../shared/data > tests/bench/arena_limit.csv

Few estimates: laws of the spread between clients.  Rows: whether a client's variance is judged by its rows alone, or by how
far it lies from the others too, and how the likelihood of the prior counts it.  Players: how they differ, and what is known
of them besides.  Each has its risk over that of own estimates and how often 95 % intervals hold.  Belongs here: these cells.
Laws for fewer and more clients are in ``defaults``, peers in ``arena``.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import ndtr

sys.path.insert(0, str(Path(__file__).parent))

from arena import DESIGNS, NORMAL, PRIORS, ROWS, drawn, measured, variances
from arena_entrants import summarised
from arena_real import REAL, players
from defaults import LAWS, held, normal_posteriors, share

from estimators import BetaBinomial, BetaBinomialRegression, GaussianMeans, SampleMeans
from estimators.numerics.arrays import Floats

COLUMNS = "cell", "prior", "ratio", "choice", "risk", "risk_se", "held"
HERE = {
    "Strawderman": LAWS["Strawderman"],
    "Strawderman, quarter scale": lambda t: (1 + t) ** -1.5,
    "uniform shrinkage": lambda t: (1 + t) ** -2.0,
    "half-Cauchy": LAWS["half-Cauchy"],
    "flat on tau": LAWS["flat on tau"],
}
RATIOS, SIZE, DEGREES = (0.1, 1.0, 10.0, 30.0), 3000, 3.0
TABLES = {5: 400, 20: 200, 100: 60}  # of so many clients
FEW = (
    *((prior, 5, "unequal") for prior in NORMAL), ("normal", 5, "equal"), ("spike 90 %", 5, "equal"),
    *((prior, 10, "unequal") for prior in ("normal", "two-point", "spike 50 %")),
    *((prior, 10, "equal") for prior in ("normal", "spike 90 %")),
)  # fmt: skip
PLAYERS = {"batters 2005": (0.0, 1.0), "batters 2005, no pitchers": (0.0,), "batters 2005, pitchers": (1.0,)}
Found = dict[str, tuple[float, float, float]]


def told(squares: Floats, inside: Floats, own: float) -> tuple[float, float, float]:
    """Return the risk over that of own estimates, its standard error, and the share of intervals that hold.

    `squares` are the mean squared errors of replicates, `own` that of own estimates over all of them.
    """
    loss = squares / own
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
        found[name] = told(np.mean((np.einsum("rk,rik->ri", p, means) - theta) ** 2, axis=1), inside, v.mean())
    precision = (1 / (v[:, None] + t)).sum(axis=0)
    for name, value in (("REML", logs), ("maximum likelihood", logs + 0.5 * np.log(precision))):
        best = value.argmax(axis=1)
        squares = np.mean((means[rows, :, best] - theta) ** 2, axis=1)
        found[name] = told(squares, held(places[rows, :, best]), v.mean())
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
        found[name] = told((np.einsum("rk,rk->r", p, means) - theta) ** 2, inside, float(np.mean((y - theta) ** 2)))
    return found


WAYS = {
    "expected variances": lambda means, variances, n: SampleMeans().fit(means, variances, n),
    "t laws": lambda means, variances, n: SampleMeans(noise="t").fit(means, variances, n),
    "one variance": lambda means, variances, n: GaussianMeans().fit(means, variances.mean() / n),
    "one variance, REML": lambda means, variances, n: GaussianMeans("reml").fit(means, variances.mean() / n),
}


def tables(draws: Iterable[tuple[Floats, Floats, Floats]]) -> Found:
    """Return what each way to count noise has of tables of rows, from a list of (rows, truth, the truth's own noise)."""
    own, squares, inside = [], {way: [] for way in WAYS}, {way: [] for way in WAYS}
    for rows, truth, noise in draws:
        own.append(np.mean((rows.mean(axis=1) - truth) ** 2 - noise))
        for way, fit in WAYS.items():
            model = fit(*summarised(rows))
            square, share_held, *_ = measured(
                lambda model=model: (model.posterior_mean_, *model.interval()), (), truth, noise
            )
            squares[way].append(square)
            inside[way].append(share_held)
    return {way: told(np.array(squares[way]), np.array(inside[way]), float(np.mean(own))) for way in WAYS}


def whole_tables(prior: str, clients: int, design: str, ratio: float) -> Found:
    """Return what tables of clients with five rows have; variances of means are 1, or 30-fold apart."""
    draws = []
    for replicate in range(TABLES[clients]):
        data, truth, noise = drawn("rows", prior, clients, design, 2, replicate)
        rows = np.asarray(data[0])
        draws.append((rows + (np.sqrt(ratio) - 1) * truth[:, None], np.sqrt(ratio) * truth, noise))
    return tables(draws)


def schools(path: Path) -> Found:
    """Return what schools have, of five pupils each."""
    _, reader, replicates = REAL["schools, 5 pupils"]
    found = [reader(path, replicate) for replicate in range(replicates)]
    return tables([(rows, truth, noise) for (rows,), truth, noise in found])


def batters(path: Path, kinds: tuple[float, ...]) -> Found:
    """Return what players of 2005 have in the second half of the season; errors are over players."""
    (x, n, pitcher), later, noise = players(path, kinds)
    known = {"log at bats": np.log(n)} | ({"who pitches": pitcher} if np.ptp(pitcher) else {})
    every = {"the default": BetaBinomial().fit(x, n), "likeliest prior": BetaBinomial("marginal-likelihood").fit(x, n)}
    every |= {f"told {name}": BetaBinomialRegression().fit(x, n, z) for name, z in known.items()}
    if len(known) > 1:
        every["told both"] = BetaBinomialRegression().fit(x, n, np.column_stack(list(known.values())))
    loss, losses = (x / n - later) ** 2 - noise, {}
    found = {"own estimates": (1.0, 0.0, np.nan)}
    for name, model in every.items():
        answer = model.posterior_mean_, *model.interval()
        _, inside, *_ = measured(lambda answer=answer: answer, (), later, noise)
        # The default's error is beside own estimates, that of others beside the default: players are the same.
        other = losses.get("the default", loss)
        losses[name] = mine = (answer[0] - later) ** 2 - noise
        error = np.std(mine - mine.mean() / other.mean() * other, ddof=1) / np.sqrt(n.size) / loss.mean()
        found[name] = float(mine.mean() / loss.mean()), float(error), float(inside)
    return found


def cells(path: Path) -> Iterator[tuple[str, str, str, Found]]:
    """Yield each cell by its name, its prior and the variance between clients over that within."""
    for prior, clients, design in FEW:
        yield from ((f"{clients} {design} estimates", prior, str(r), estimates(prior, clients, design, r)) for r in RATIOS)
    for prior in PRIORS["rows"]:
        yield from (("rows", prior, str(r), raw_rows(prior, r)) for r in RATIOS)
    for prior, m, design, r in product(PRIORS["rows"], TABLES, DESIGNS, RATIOS[:3]):
        yield f"{m} clients, {design} rows", prior, str(r), whole_tables(prior, m, design, r)
    yield "schools, 5 pupils", "real", "", schools(path)
    for name, kinds in PLAYERS.items():
        yield name, "real", "", batters(path, kinds)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS)
    for *place, found in cells(Path(sys.argv[1])):
        writer.writerows([*place, choice, *(f"{value:.3f}" for value in values)] for choice, values in found.items())
