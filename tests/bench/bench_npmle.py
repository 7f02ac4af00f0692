"""Cost of the nonparametric fit beside plain expectation-maximisation on a grid of 300 points, to the same gap.

Run with ``make bench``.  ``extra_info`` holds the gap that each run certified and its rounds.  Data: unequal standard errors
in [0.5, 2], half of the truths 0, half N(0, 4).  The alternative keeps all likelihoods in memory and is run at the
smallest size only; its gap is on its grid, the package's on the whole line.
"""

import numpy as np
import pytest

from estimators.npmle import gaussian_clients, maximise

GAP = 1e-2


def data(n):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 2, n)
    theta = np.where(rng.random(n) < 0.5, 0.0, rng.normal(0, 2, n))
    return theta + s * rng.standard_normal(n), s**2


def expectation_maximisation(x, variances, seconds=60.0):
    """Plain NumPy EM on 300 points; returns (gap on the grid, rounds, reached)."""
    from time import perf_counter

    grid = np.linspace(x.min(), x.max(), 300)
    table = np.exp(-((x[:, None] - grid) ** 2) / (2 * variances[:, None]))
    masses = np.full(300, 1 / 300)
    start, rounds, gap = perf_counter(), 0, np.inf
    while gap > GAP and perf_counter() - start < seconds:
        dual = table.T @ (1 / (table @ masses)) / x.size
        gap = x.size * np.log(dual.max())
        masses *= dual
        rounds += 1
    return gap, rounds, gap <= GAP


@pytest.mark.parametrize("n", [10_000, 100_000, 1_000_000])
@pytest.mark.benchmark(group="npmle")
def test_fit(benchmark, n):
    x, variances = data(n)
    run = benchmark.pedantic(lambda: maximise(gaussian_clients(x, variances), tolerance=1e-3), rounds=3, warmup_rounds=1)
    assert run.gap <= 1e-3
    benchmark.extra_info.update(gap=run.gap, rounds=run.n_iter, atoms=run.support.size)
    print(
        f"npmle n={n}: {benchmark.stats.stats.min:.3f} s, gap {run.gap:.1e}, {run.n_iter} rounds, {run.support.size} atoms"
    )


@pytest.mark.parametrize("n", [10_000])
@pytest.mark.benchmark(group="npmle")
def test_expectation_maximisation(benchmark, n):
    x, variances = data(n)
    gap, rounds, reached = benchmark.pedantic(expectation_maximisation, args=(x, variances), rounds=1)
    benchmark.extra_info.update(gap=gap, rounds=rounds, reached=reached)
    print(f"EM n={n}: {benchmark.stats.stats.min:.1f} s, gap {gap:.1e} after {rounds} rounds, reached: {reached}")
