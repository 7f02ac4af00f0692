"""Speed of private reports and of the server's fits, beside the non-private fit of the same clients."""

import numpy as np
import pytest

from estimators import GaussianMeans
from estimators.accounting.budget import Guarantee
from estimators.private import (
    MeanClient,
    MeanReport,
    PrivateGaussianMeans,
    PrivateRates,
    RateClient,
    RateReport,
    RegressionClient,
)

RNG = np.random.default_rng
EXACT = Guarantee(1.0, 1e-6, "row", "client", "gaussian")


@pytest.mark.benchmark(group="report of 1,000 rows")
@pytest.mark.parametrize("mechanism", ["discrete-laplace", "discrete-gaussian", "gaussian"])
def bench_report(benchmark, mechanism):
    rows, rng = RNG(0).normal(size=1000), RNG(1)
    benchmark(lambda: MeanClient(bounds=(-4, 4), eps=1.0, delta=1e-6, mechanism=mechanism).report(rows, rng))


BATCHES = {
    "discrete-laplace": {"mechanism": "discrete-laplace"},
    "staircase": {"mechanism": "staircase"},
    "discrete-gaussian": {"mechanism": "discrete-gaussian", "delta": 1e-6},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-6},
    "best, variances too": {"mechanism": "best", "variance_share": 0.25},
    "finite-output": {"mechanism": "finite-output", "adjacency": "client"},
    "two-point": {"mechanism": "two-point", "adjacency": "client"},
}


@pytest.mark.benchmark(group="reports of 4,000 clients of 20 rows at once")
@pytest.mark.parametrize("name", BATCHES)
def bench_means_at_once(benchmark, name):
    samples, names = list(RNG(4).normal(size=(4000, 20))), list(map(str, range(4000)))
    benchmark(lambda: MeanClient(bounds=(-4, 4), eps=1.0, **BATCHES[name]).reports(samples, names))


@pytest.mark.benchmark(group="reports of 4,000 clients of 20 answers at once")
@pytest.mark.parametrize("mechanism", ["discrete-laplace", "answers"])
def bench_rates_at_once(benchmark, mechanism):
    ones, names = RNG(5).binomial(20, 0.3, 4000), list(map(str, range(4000)))
    benchmark(lambda: RateClient(eps=1.0, mechanism=mechanism).reports(ones, np.full(4000, 20), names))


@pytest.mark.benchmark(group="reports of 4,000 clients of 20 rows with regressions at once")
@pytest.mark.parametrize("size", [1, 2, 4])
def bench_regressions_at_once(benchmark, size):
    Xs, Ys = list(RNG(6).normal(size=(4000, 20, size))), list(RNG(7).normal(size=(4000, 20)))
    names = list(map(str, range(4000)))
    benchmark(lambda: RegressionClient(norm=3.0, eps=1.0, delta=1e-6).reports(Xs, Ys, names))


@pytest.mark.benchmark(group="fit of 10,000 clients")
@pytest.mark.parametrize("prior", ["integrated", "marginal-likelihood", "not private"])
def bench_means(benchmark, prior):
    rng = RNG(2)
    x = rng.normal(0, 1, 10_000)
    if prior == "not private":
        benchmark(lambda: GaussianMeans().fit(x, 0.5))
    else:
        reports = [MeanReport("", 10, EXACT, float(a), 0.4, 0.0, (-4.0, 4.0)) for a in x]
        benchmark(lambda: PrivateGaussianMeans(prior, sigma2=1.0).fit(reports))


@pytest.mark.benchmark(group="fit of 10,000 rates")
def bench_rates(benchmark):
    rng = RNG(3)
    x = rng.binomial(50, rng.beta(3, 7, 10_000))
    reports = [RateReport("", 50, EXACT, "ones", 50, float(a), 2.0) for a in x]
    benchmark(lambda: PrivateRates().fit(reports))
