"""How long the intervals of a fitted model take, over its fit: every model's default, from few clients to very many.

Belongs here: data of each model's own kind, and the table INTERVALS.md.  Does not belong here: fits beside other software
(``bench_normal_means``, ``bench_counts``), how often intervals hold the truth (arena.py).

``python tests/bench/intervals.py`` writes the table, of the processor seconds of the fastest of several turns in one
process that does nothing else; names of models as arguments: those alone, printed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from estimators.counts.beta_binomial import BetaBinomial
from estimators.counts.count_regression import BetaBinomialRegression, GammaPoissonRegression
from estimators.counts.gamma_poisson import GammaPoisson
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.point_normal import PointNormalMeans
from estimators.normal_means.sample_means import SampleMeans
from estimators.npmle.nonparametric import NonparametricCounts, NonparametricMeans, NonparametricRates
from estimators.npmle.solver import FEW
from estimators.numerics.normal_mixture import MANY

PAGE = Path(__file__).with_name("INTERVALS.md")
SIZES = 10, 100, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000
AIM = 3  # times its fit that a model's intervals may take
DEAR = 20.0  # seconds of a fit and its intervals, after which no larger size is tried
BUDGET, TURNS = 1.5, 25  # seconds of a call's turns, and how many at most


def estimates(generator: np.random.Generator, m: int) -> tuple[np.ndarray, ...]:
    """Estimates and their variances, which differ by a factor of up to nine."""
    v = generator.uniform(0.3, 2.7, m)
    return generator.normal(0, np.sqrt(1 + v)), v


def alike(generator: np.random.Generator, m: int) -> tuple[Any, ...]:
    """Estimates of one variance."""
    return generator.normal(0, np.sqrt(2), m), 1.0


def spiked(generator: np.random.Generator, m: int) -> tuple[np.ndarray, ...]:
    """Estimates whose true values are 0 for half of the clients."""
    v = generator.uniform(0.3, 2.7, m)
    return generator.normal(0, np.sqrt(3 * (generator.random(m) < 0.5) + v)), v


def rows(generator: np.random.Generator, m: int) -> tuple[np.ndarray, ...]:
    """Means, variances and numbers of 4 to 30 rows."""
    n, sigma2 = generator.integers(4, 31, m), generator.uniform(0.5, 3, m)
    variances = sigma2 * generator.chisquare(n - 1) / (n - 1)
    return generator.normal(0, np.sqrt(0.25 + sigma2 / n)), variances, n


def trials(generator: np.random.Generator, m: int) -> tuple[np.ndarray, ...]:
    """Ones of 5 to 59 trials."""
    n = generator.integers(5, 60, m)
    return generator.binomial(n, generator.beta(3, 7, m)), n


def exposures(generator: np.random.Generator, m: int) -> tuple[np.ndarray, ...]:
    """Events over exposures, all different."""
    e = generator.uniform(0.5, 8, m)
    return generator.poisson(e * generator.gamma(3, 0.5, m)), e


def with_covariate(data: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """The same data with a covariate that says nothing."""
    return lambda generator, m: (*data(generator, m), generator.normal(size=m))


CASES: dict[str, tuple[Callable[[], Any], Callable[..., tuple[Any, ...]]]] = {
    "GaussianMeans": (GaussianMeans, estimates),
    "GaussianMeans, equal variances": (GaussianMeans, alike),
    "GaussianMeans, a covariate": (GaussianMeans, with_covariate(estimates)),
    "PointNormalMeans": (PointNormalMeans, spiked),
    "SampleMeans": (SampleMeans, rows),
    "BetaBinomial": (BetaBinomial, trials),
    "GammaPoisson": (GammaPoisson, exposures),
    "BetaBinomialRegression": (BetaBinomialRegression, with_covariate(trials)),
    "GammaPoissonRegression": (GammaPoissonRegression, with_covariate(exposures)),
    "NonparametricMeans": (NonparametricMeans, estimates),
    "NonparametricRates": (NonparametricRates, trials),
    "NonparametricCounts": (NonparametricCounts, exposures),
}


def seconds(call: Callable[[], Any]) -> float:
    """Processor seconds of the fastest turn."""
    turns: list[float] = []
    while len(turns) < 3 or (sum(turns) < BUDGET and len(turns) < TURNS):
        start = process_time()
        call()
        turns.append(process_time() - start)
        if turns[-1] > DEAR:
            break
    return min(turns)


def measured(name: str, m: int) -> tuple[float, float]:
    """Processor seconds of a fit and of its intervals."""
    model, data = CASES[name]
    arguments = data(np.random.default_rng(m), m)
    fitted = model().fit(*arguments)
    fitted.interval()  # what is compiled or loaded once
    return seconds(lambda: model().fit(*arguments)), seconds(fitted.interval)


def line(name: str) -> list[str]:
    """The table's cells of a model: how many times its fit the intervals take, and their milliseconds."""
    cells = []
    for m in SIZES:
        fit, intervals = measured(name, m)
        cells.append(f"{intervals / fit:.2f} ({1e3 * intervals:.3g})")
        if fit + intervals > DEAR:
            break
    return cells + ["—"] * (len(SIZES) - len(cells))


def table(names: list[str]) -> dict[str, list[str]]:
    """The cells of models, told as they are measured."""
    rows = {}
    for name in names:
        rows[name] = line(name)
        print(f"{name}: {' | '.join(rows[name])}", file=sys.stderr, flush=True)
    return rows


def page(rows: dict[str, list[str]]) -> str:
    """The page: a line per model, and which cells are above the aim."""
    over = [f"{name} at {m:,}" for name, cells in rows.items() for m, cell in zip(SIZES, cells, strict=True)
            if cell[0].isdigit() and float(cell.split()[0]) > AIM]  # fmt: skip
    lines = [
        "# Intervals over fits",
        "",
        "By `python tests/bench/intervals.py`: processor time of the 95 % intervals of a fitted model over that of its fit,",
        "each the fastest of several turns, and the intervals' milliseconds in brackets. Columns are numbers of clients.",
        "",
        f"The aim is {AIM} at most. Above it: {', '.join(over) or 'none'}.",
        "The nonparametric models draw mixing laws by a fixed number of sweeps, whose calls alone cost more than few",
        f"clients do; compiled ones serve more than {FEW:,} different clients: for fewer, loading them costs more than",
        "it saves. `SampleMeans` mixes a normal law for each pair of a spread and a client's variance, and looks at each",
        f"for either end; from {MANY:,} clients on that is compiled.",
        "",
        f"| model, default | {' | '.join(f'{m:,}' for m in SIZES)} |",
        "| --- " * (1 + len(SIZES)) + "|",
    ]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())]) + "\n"


def main() -> None:
    """Write the page, or print the lines of the models that are asked for."""
    warnings.simplefilter("ignore")
    if asked := sys.argv[1:]:
        print(page(table(asked)))
    else:
        PAGE.write_text(page(table(list(CASES))), encoding="utf-8")


if __name__ == "__main__":
    main()
