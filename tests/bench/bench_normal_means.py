"""Cost of fits of Gaussian means at 1e5 clients beside SciPy's optimiser on the same likelihood.

Run with ``make bench``.  ``extra_info`` holds milliseconds and the ratio to SciPy: calls take turns and the fastest of
each counts, so that other load on the machine cancels.  R ``ebnm`` 1.1-42 took 57 ms (normal) and 192 ms (point-normal)
for as many clients on such a machine.  What intervals take over fits is in ``intervals``.
"""

from time import perf_counter

import numpy as np
import pytest

from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.point_normal import PointNormalMeans

CLIENTS = 100_000
generator = np.random.default_rng(0)
VARIANCES = generator.uniform(0.5, 2.0, CLIENTS)
NORMAL = generator.normal(0.0, np.sqrt(1 + VARIANCES))
SPARSE = generator.normal(3.0 * generator.standard_normal(CLIENTS) * (generator.random(CLIENTS) < 0.2), np.sqrt(VARIANCES))


def normal_by_scipy(y, v):
    from scipy.optimize import minimize

    def loss(x):
        s = v + np.exp(x[1])
        r = y - x[0]
        slope = 0.5 * (1 / s - (r / s) ** 2)
        return 0.5 * np.sum(np.log(s) + r * r / s), np.array([-np.sum(r / s), np.exp(x[1]) * slope.sum()])

    x = minimize(loss, [y.mean(), np.log(max(y.var() - v.mean(), 0.1))], jac=True, method="BFGS").x
    w = np.exp(x[1]) / (v + np.exp(x[1]))
    return x[0] + w * (y - x[0]), np.sqrt(v * w)


def point_normal_by_scipy(y, v):
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(x):
        s = v + np.exp(x[1])
        r = y - x[2]
        spike = -0.5 * (np.log(v) + r * r / v) - np.logaddexp(0, x[0])
        slab = -0.5 * (np.log(s) + r * r / s) - np.logaddexp(0, -x[0])
        p = expit(slab - spike)
        slope = 0.5 * np.exp(x[1]) * ((r / s) ** 2 - 1 / s)
        gradient = [np.sum(p) - y.size * expit(x[0]), p @ slope, np.sum(r * (p / s + (1 - p) / v))]
        return -np.logaddexp(spike, slab).sum(), -np.array(gradient)

    return minimize(loss, [0.0, np.log(2 * max(y.var() - v.mean(), 0.1)), y.mean()], jac=True, method="L-BFGS-B").x


CASES = {  # model, SciPy's way, estimates, variances
    "normal-unequal": (GaussianMeans("marginal-likelihood"), normal_by_scipy, NORMAL, VARIANCES),
    "normal-equal": (GaussianMeans("marginal-likelihood"), normal_by_scipy, NORMAL, np.ones(CLIENTS)),
    "bayes-unequal": (GaussianMeans(), normal_by_scipy, NORMAL, VARIANCES),
    "bayes-equal": (GaussianMeans(), normal_by_scipy, NORMAL, np.ones(CLIENTS)),
    "point-normal": (PointNormalMeans(), point_normal_by_scipy, SPARSE, VARIANCES),
}


def fastest(*calls, turns=15):
    times = np.empty((turns, len(calls)))
    for row in times:
        for k, call in enumerate(calls):
            start = perf_counter()
            call()
            row[k] = perf_counter() - start
    return times[1:].min(axis=0) * 1e3


@pytest.mark.parametrize("name", CASES)
@pytest.mark.benchmark(group="normal means")
def test_cost(benchmark, name):
    model, scipy, *data = CASES[name]
    ours, theirs = fastest(lambda: model.fit(*data), lambda: scipy(*data))
    benchmark.extra_info.update(milliseconds=round(ours, 2), ratio_of_scipy=round(theirs / ours, 2))
    print(f"{name}: {ours:.2f} ms, SciPy {theirs:.2f} ms, {theirs / ours:.1f} x")
    benchmark.pedantic(model.fit, data, rounds=5, warmup_rounds=1)
