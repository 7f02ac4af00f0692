"""Cost of fitting 1,000 linear regressions with a learnt prior, beside expectation-maximisation and statsmodels.

1,000 clients, 50 rows each, 10 coefficients, full covariance.  The plain expectation-maximisation is a Python loop over the
clients until the log-likelihood is within 1e-4 of the fit, 40 rounds at most (it needs hundreds); statsmodels' MixedLM
(where installed) is given 50 clients and 3 coefficients, beside the same problem here, as it needs minutes for more.
``extra_info`` holds ``ratio``: how many times slower the alternative was in the same run.
"""

import warnings
from time import perf_counter

import numpy as np
import pytest

from estimators.regression.linear_clients import LinearClients
from estimators.regression.logistic_clients import LogisticClients


def simulate(m, n, d, labels=False):
    rng = np.random.default_rng(m)
    root = rng.standard_normal((d, d)) / np.sqrt(4 * d)
    thetas = 0.5 + rng.standard_normal((m, d)) @ root.T
    Xs = [np.column_stack([np.ones(n), rng.standard_normal((n, d - 1))]) for _ in range(m)]
    if labels:
        return Xs, [(rng.logistic(size=n) < X @ t).astype(float) for X, t in zip(Xs, thetas, strict=True)]
    return Xs, [X @ t + rng.standard_normal(n) for X, t in zip(Xs, thetas, strict=True)]


def best_of(call, times=3):
    spent, result = [], None
    for _ in range(times):
        start = perf_counter()
        result = call()
        spent.append(perf_counter() - start)
    return min(spent), result


def plain_em(Xs, Ys, target, most=40):
    """Expectation-maximisation as in textbooks; returns its rounds."""
    d, n = Xs[0].shape[1], sum(len(Y) for Y in Ys)
    mu, S, s = np.zeros(d), np.eye(d), 1.0
    for t in range(most):
        value, means, squares, noise = 0.0, [], np.zeros((d, d)), 0.0
        for X, Y in zip(Xs, Ys, strict=True):
            C = np.linalg.inv(np.linalg.inv(S) + X.T @ X / s)
            mean = mu + C @ (X.T @ (Y - X @ mu)) / s
            V = X @ S @ X.T + s * np.eye(len(Y))
            value -= (
                len(Y) * np.log(2 * np.pi) + np.linalg.slogdet(V)[1] + (Y - X @ mu) @ np.linalg.solve(V, Y - X @ mu)
            ) / 2
            means.append(mean)
            squares += C + np.outer(mean, mean)
            noise += np.sum((Y - X @ mean) ** 2) + np.sum((X.T @ X) * C)
        if value > target - 1e-4:
            return t
        mu = np.mean(means, axis=0)
        S, s = squares / len(Xs) - np.outer(mu, mu), noise / n
    return most


@pytest.mark.benchmark(group="regression-1000x50x10")
def test_linear_clients(benchmark):
    Xs, Ys = simulate(1000, 50, 10)
    fit = benchmark(lambda: LinearClients("marginal-likelihood").fit(Xs, Ys))
    ours, _ = best_of(lambda: LinearClients("marginal-likelihood").fit(Xs, Ys))
    theirs, rounds = best_of(lambda: plain_em(Xs, Ys, fit.log_likelihood_), 1)
    benchmark.extra_info.update(steps=fit.n_iter_, em_rounds=rounds, em_seconds=theirs, ratio=theirs / ours)
    print(f"\nLinearClients {ours:.3f} s in {fit.n_iter_} steps, plain EM {theirs:.1f} s in {rounds} rounds")


@pytest.mark.benchmark(group="regression-50x50x3")
def test_linear_clients_beside_statsmodels(benchmark):
    statsmodels = pytest.importorskip("statsmodels.api")
    Xs, Ys = simulate(50, 50, 3)
    fit = benchmark(lambda: LinearClients("marginal-likelihood").fit(Xs, Ys))
    ours, _ = best_of(lambda: LinearClients("marginal-likelihood").fit(Xs, Ys))
    X, Y, client = np.concatenate(Xs), np.concatenate(Ys), np.repeat(np.arange(50), 50)

    def other():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return statsmodels.MixedLM(Y, X, groups=client, exog_re=X).fit(reml=False).llf

    theirs, result = best_of(other, 1)
    benchmark.extra_info.update(ratio=theirs / ours, gap=fit.log_likelihood_ - result)
    print(f"\nLinearClients {ours:.4f} s, statsmodels {theirs:.2f} s; log-likelihoods {fit.log_likelihood_} and {result}")


@pytest.mark.benchmark(group="logistic-200x50x5")
def test_logistic_clients(benchmark):
    Xs, Ys = simulate(200, 50, 5, labels=True)
    fit = benchmark(lambda: LogisticClients("marginal-likelihood").fit(Xs, Ys))
    benchmark.extra_info.update(steps=fit.n_iter_)
