"""Cost of fitting priors to counts and mixtures, beside SciPy's likelihood under a general optimiser in the same run.

Run with ``make bench``.  ``extra_info`` holds the times in ms and their ratio; calls take turns and the fastest of each
counts.  SciPy's side is what one would write without this package: the sum of ``betabinom.logpmf`` (``nbinom.logpmf``) over
clients, minimised over two logarithms by Nelder-Mead.
"""

from time import perf_counter

import numpy as np
import pytest
from scipy import optimize, stats

from estimators import BetaBinomial, GammaPoisson, MixtureMeans
from estimators.counts.beta_binomial import BetaBinomialTally


def fastest(call, rounds):
    times = []
    for _ in range(rounds):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def general(log_chance):
    """Minimise over two logarithms to about the accuracy of ours."""
    options = {"xatol": 1e-6, "fatol": 1e-6}
    return optimize.minimize(lambda logs: -log_chance(*np.exp(logs)), [0.0, 0.0], method="Nelder-Mead", options=options)


def report(benchmark, **numbers):
    for name, value in numbers.items():
        benchmark.extra_info[name] = round(value, 2)
    print(benchmark.name, benchmark.extra_info)


@pytest.mark.benchmark(group="beta-binomial")
@pytest.mark.parametrize("largest", [50, 10**6])
@pytest.mark.parametrize("m", [10**4, 10**5, 10**6])
def test_beta_binomial(benchmark, m, largest):
    rng = np.random.default_rng(0)
    n = rng.integers(5, largest, m)
    x = rng.binomial(n, rng.beta(2, 5, m))
    tally = BetaBinomialTally.of(x, n)
    numbers = {
        "fit_ms": fastest(lambda: BetaBinomial().fit(x, n), 7),
        "tally_ms": fastest(lambda: BetaBinomialTally.of(x, n), 7),
        "fit_tally_ms": fastest(lambda: BetaBinomial().fit_tally(tally), 7),
    }
    model = BetaBinomial().fit(x, n)
    numbers["interval_ms"] = fastest(BetaBinomial().fit(x, n).interval, 3)
    if m <= 10**5:
        start = perf_counter()
        found = general(lambda a, b: stats.betabinom.logpmf(x, n, a, b).sum())
        numbers["scipy_ms"] = 1e3 * (perf_counter() - start)
        numbers["ratio"] = numbers["scipy_ms"] / numbers["fit_ms"]
        assert model.log_likelihood_ >= -found.fun - 1e-9 * m * largest**0.5  # rounding of SciPy's sum
    report(benchmark, **numbers)
    benchmark.pedantic(lambda: BetaBinomial().fit(x, n), rounds=3)


@pytest.mark.benchmark(group="gamma-poisson")
@pytest.mark.parametrize("exposures", ["equal", "months", "continuous"])
@pytest.mark.parametrize("m", [10**5, 10**6])
def test_gamma_poisson(benchmark, m, exposures):
    rng = np.random.default_rng(0)
    e = {"equal": np.ones(m), "months": rng.integers(1, 13, m) / 12, "continuous": rng.gamma(2, 1, m)}[exposures]
    x = rng.poisson(e * rng.gamma(0.7, 0.3, m))
    numbers = {"fit_ms": fastest(lambda: GammaPoisson().fit(x, e), 7)}
    numbers["interval_ms"] = fastest(GammaPoisson().fit(x, e).interval, 3)
    if m <= 10**5:
        start = perf_counter()
        general(lambda a, b: stats.nbinom.logpmf(x, a, b / (b + e)).sum())
        numbers["scipy_ms"] = 1e3 * (perf_counter() - start)
        numbers["ratio"] = numbers["scipy_ms"] / numbers["fit_ms"]
    report(benchmark, **numbers)
    benchmark.pedantic(lambda: GammaPoisson().fit(x, e), rounds=3)


@pytest.mark.benchmark(group="mixtures")
@pytest.mark.parametrize("components", ["gaussian", "points"])
@pytest.mark.parametrize("m", [10**4, 10**5])
def test_mixture_means(benchmark, m, components):
    rng = np.random.default_rng(0)
    v = rng.gamma(2, 0.5, m) + 0.1
    which = rng.choice(3, m, p=[0.6, 0.3, 0.1])
    y = np.array([-1.0, 1.0, 3.0])[which] + np.array([0.2, 0.5, 0.1])[which] * rng.standard_normal(m)
    y += np.sqrt(v) * rng.standard_normal(m)
    fit = fastest(lambda: MixtureMeans(k=3, components=components).fit(y, v), 3)
    model = MixtureMeans(k=3, components=components).fit(y, v)
    report(benchmark, fit_ms=fit, interval_ms=fastest(model.interval, 2))
    benchmark.pedantic(lambda: MixtureMeans(k=3, components=components).fit(y, v), rounds=1)
