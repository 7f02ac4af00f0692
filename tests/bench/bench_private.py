"""Speed of private reports and of the server's fits, beside the non-private fit of the same clients."""

import numpy as np
import pytest

from estimators import GaussianMeans
from estimators.accounting.budget import Guarantee
from estimators.private import MeanClient, MeanReport, PrivateGaussianMeans, PrivateRates, RateReport

RNG = np.random.default_rng
EXACT = Guarantee(1.0, 1e-6, "row", "client", "gaussian")


@pytest.mark.benchmark(group="report of 1,000 rows")
@pytest.mark.parametrize("mechanism", ["discrete-laplace", "discrete-gaussian", "gaussian"])
def bench_report(benchmark, mechanism):
    rows, rng = RNG(0).normal(size=1000), RNG(1)
    benchmark(lambda: MeanClient(bounds=(-4, 4), eps=1.0, delta=1e-6, mechanism=mechanism).report(rows, rng))


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
