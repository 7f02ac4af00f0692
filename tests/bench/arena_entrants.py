"""Who takes part in the arena: our defaults, what others use, and what needs no model; each a function of a cell's data.

An entrant takes the data of its kind of cell and returns (estimates, low, high), 95 % intervals.  Peers do what their
manuals say: the fitted prior is taken for true.  Belongs here: entrants.  The cells and the contest are in ``arena``.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from inspect import getsource
from pathlib import Path

import numpy as np
from scipy import optimize, stats

import estimators
from estimators import (
    BetaBinomial,
    GammaPoisson,
    GaussianMeans,
    MixtureMeans,
    NonparametricCounts,
    NonparametricMeans,
    NonparametricRates,
    PointNormalMeans,
    SampleMeans,
)
from estimators.system.sources import Sources, digest, versions_text

Z = float(stats.norm.ppf(0.975))
MODELS: dict[Callable, type] = {}
"""Our model behind an entrant: what it reaches is the code that made its lines."""


def fitted(kind, method=None):
    """Return the entrant that fits one of our models with its defaults, and takes intervals of its default method."""

    def enter(*data):
        model = kind().fit(*data)
        if method is None:
            return model.posterior_mean_, *model.interval()
        low, high = model.interval(method=method)
        return (low + high) / 2, low, high

    MODELS[enter] = kind
    return enter


def around(mean, sd):
    return mean, mean - Z * sd, mean + Z * sd


def shrunken(y, v, mu, tau2):
    """Return the posterior under N(mu, tau2), taken for true."""
    w = tau2 / (tau2 + v)
    return around(mu + w * (y - mu), np.sqrt(w * v))


def own_estimate(y, v):
    return around(y, np.sqrt(np.broadcast_to(v, y.shape)))


def pooled_mean(y, v):
    w = 1 / np.broadcast_to(v, y.shape)
    return around(np.full(y.shape, np.average(y, weights=w)), np.full(y.shape, 1 / np.sqrt(w.sum())))


def scipy_normal(y, v):
    """Maximise the likelihood of N(mu, tau2) by L-BFGS."""

    def loss(x):
        total = v + np.exp(x[1])
        return 0.5 * np.sum(np.log(total) + (y - x[0]) ** 2 / total)

    start = [np.average(y), np.log(max(y.var() - np.mean(v), 0.1 * np.mean(v)))]
    found = optimize.minimize(loss, start, method="L-BFGS-B", bounds=[(None, None), (-30, None)]).x
    return shrunken(y, v, found[0], np.exp(found[1]))


def statsmodels_meta(method):
    def enter(y, v):
        from statsmodels.stats.meta_analysis import combine_effects

        found = combine_effects(y, np.broadcast_to(v, y.shape), method_re=method)
        return shrunken(y, v, float(found.mean_effect_re), max(float(found.tau2), 0.0))

    return enter


def summarised(rows):
    return rows.mean(axis=1), rows.var(axis=1, ddof=1), np.full(len(rows), rows.shape[1])


def sample_means(rows):
    return fitted(SampleMeans)(*summarised(rows))


MODELS[sample_means] = SampleMeans


def one_variance(kind):
    """Return the entrant that takes one variance for all rows, as `borrow fit --model` does for this model."""

    def enter(rows):
        means, variances, counts = summarised(rows)
        return fitted(kind)(means, variances.mean() / counts)

    MODELS[enter] = kind
    return enter


def own_rows(rows):
    half = stats.t.ppf(0.975, rows.shape[1] - 1) * rows.std(axis=1, ddof=1) / np.sqrt(rows.shape[1])
    return rows.mean(axis=1), rows.mean(axis=1) - half, rows.mean(axis=1) + half


def mixed_lm(rows):
    from statsmodels.regression.mixed_linear_model import MixedLM

    m, n = rows.shape
    found = MixedLM(rows.ravel(), np.ones((m * n, 1)), groups=np.repeat(np.arange(m), n)).fit(reml=True)
    mean = np.array([found.fe_params[0] + found.random_effects[i].iloc[0] for i in range(m)])
    return around(mean, np.sqrt([float(np.asarray(found.random_effects_cov[i]).ravel()[0]) for i in range(m)]))


def bayesian_ridge(rows):
    from sklearn.linear_model import BayesianRidge

    m, n = rows.shape
    dummies = np.repeat(np.eye(m), n, axis=0)
    mean, sd = (model := BayesianRidge().fit(dummies, rows.ravel())).predict(np.eye(m), return_std=True)
    return around(mean, np.sqrt(np.maximum(sd**2 - 1 / model.alpha_, 0.0)))


def own_share(x, n):
    """Return shares with Wilson's intervals."""
    p, n = x / n, np.broadcast_to(n, x.shape)
    centre, half = (x + Z**2 / 2) / (n + Z**2), Z / (n + Z**2) * np.sqrt(x * (n - x) / n + Z**2 / 4)
    return p, centre - half, centre + half


def pooled_share(x, n):
    p = np.full(x.shape, x.sum() / np.sum(np.broadcast_to(n, x.shape)))
    return around(p, np.sqrt(p * (1 - p) / np.sum(np.broadcast_to(n, x.shape))))


def two_logs(log_chance, start):
    found = optimize.minimize(
        lambda logs: -log_chance(*np.exp(logs)), np.log(start), method="L-BFGS-B", bounds=[(-15, 15)] * 2
    )
    return np.exp(found.x)


def scipy_betabinom(x, n):
    p = x.sum() / np.sum(np.broadcast_to(n, x.shape))
    a, b = two_logs(lambda a, b: stats.betabinom.logpmf(x, n, a, b).sum(), (5 * p, 5 * (1 - p)))
    law = stats.beta(a + x, b + n - x)
    return law.mean(), law.ppf(0.025), law.ppf(0.975)


def own_rate(x, e):
    """Return rates with Garwood's exact intervals."""
    return x / e, np.where(x > 0, stats.gamma.ppf(0.025, np.maximum(x, 1)), 0.0) / e, stats.gamma.ppf(0.975, x + 1) / e


def pooled_rate(x, e):
    total = np.sum(np.broadcast_to(e, x.shape))
    return around(np.full(x.shape, x.sum() / total), np.full(x.shape, np.sqrt(x.sum()) / total))


def scipy_nbinom(x, e):
    rate = x.sum() / np.sum(np.broadcast_to(e, x.shape))
    a, b = two_logs(lambda a, b: stats.nbinom.logpmf(x, a, b / (b + e)).sum(), (1.0, 1 / rate))
    law = stats.gamma(a + x, scale=1 / (b + e))
    return law.mean(), law.ppf(0.025), law.ppf(0.975)


# Kinds of cells: who takes part.  The first is what the package takes if nothing else is said.
OURS = {
    "estimates": {
        "GaussianMeans": fitted(GaussianMeans),
        "PointNormalMeans": fitted(PointNormalMeans),
        "MixtureMeans": fitted(MixtureMeans),
        "NonparametricMeans": fitted(NonparametricMeans),
        "robust": fitted(GaussianMeans, "robust"),
        "every-client": fitted(GaussianMeans, "every-client"),
    },
    "rows": {
        "SampleMeans": sample_means,
        "GaussianMeans, one variance": one_variance(GaussianMeans),
        "PointNormalMeans, one variance": one_variance(PointNormalMeans),
        "MixtureMeans, one variance": one_variance(MixtureMeans),
        "NonparametricMeans, one variance": one_variance(NonparametricMeans),
    },
    "trials": {"BetaBinomial": fitted(BetaBinomial), "NonparametricRates": fitted(NonparametricRates)},
    "exposures": {"GammaPoisson": fitted(GammaPoisson), "NonparametricCounts": fitted(NonparametricCounts)},
}
PEERS = {
    "estimates": {
        "own": own_estimate,
        "pooled": pooled_mean,
        "SciPy L-BFGS": scipy_normal,
        "statsmodels DL": statsmodels_meta("chi2"),
        "statsmodels PM": statsmodels_meta("iterated"),
    },
    "rows": {"own": own_rows, "statsmodels MixedLM": mixed_lm, "scikit-learn BayesianRidge": bayesian_ridge},
    "trials": {"own": own_share, "pooled": pooled_share, "SciPy L-BFGS": scipy_betabinom},
    "exposures": {"own": own_rate, "pooled": pooled_rate, "SciPy L-BFGS": scipy_nbinom},
}
FAMILY = {  # the priors that a model is made for
    "GaussianMeans": {"normal"},
    "PointNormalMeans": {"normal", "spike 50 %", "spike 90 %"},
    "MixtureMeans": {"normal", "two-point", "spike 50 %", "spike 90 %"},
    "SampleMeans": {"normal"},
    **{name: set() for name in OURS["rows"] if "one variance" in name},  # where variances differ, for none
    "BetaBinomial": {"beta wide", "beta narrow"},
    "GammaPoisson": {"gamma wide", "gamma narrow"},
}


def entrants(kind):
    """Return {name: function} of those who take part and are installed."""
    there = {name: bool(importlib.util.find_spec(name)) for name in ("statsmodels", "sklearn")}
    needs = {"statsmodels": "statsmodels", "scikit-learn": "sklearn"}
    peers = {n: f for n, f in PEERS[kind].items() if there.get(needs.get(n.split()[0], ""), True)}
    return OURS[kind] | peers


@cache
def sources() -> Sources:
    """The sources of the package, read once."""
    return Sources({"estimators": Path(estimators.__file__ or ".").parent}, versions_text(("numpy", "scipy")))


def code(name: str, entrant: Callable, texts: Iterable[str] = ()) -> str:
    """Fingerprint of what made an entrant's line: its text, all that its model reaches, its package, further texts."""
    package = {"statsmodels": "statsmodels", "scikit-learn": "scikit-learn"}.get(name.split()[0])
    try:
        texts = [*texts, name, getsource(entrant), version(package) if package else ""]
    except PackageNotFoundError:
        texts = [*texts, name, getsource(entrant), "not installed"]
    model = MODELS.get(entrant)
    nodes = sources().closure([(model.__module__, model.__qualname__)]) if model else ()
    return digest(sources(), nodes, texts)
