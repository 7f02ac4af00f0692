"""Gaussian means on real data: does the promise hold where the truth is seen later?"""

import csv

import numpy as np
import pytest

from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.point_normal import PointNormalMeans
from estimators.tables.datasets import efron_morris

PRIORS = ("bayes", "marginal-likelihood", "reml", "moments")


def test_efron_morris_intervals():
    """18 batters, variance 1 on the arcsine scale; the raw total squared error is 17.6, that of James-Stein 5.0."""
    data = efron_morris()
    early, truth = (np.sqrt(45) * np.arcsin(2 * average - 1) for average in (data.hits / 45, data.average_rest))
    held = {}
    for prior in PRIORS:
        model = GaussianMeans(prior).fit(early, 1.0)
        assert np.sum((model.posterior_mean_ - truth) ** 2) < 17.6 / 3.2
        low, high = model.interval()
        held[prior] = int(np.sum((low <= truth) & (truth <= high)))
    # The truth is itself an average of about 370 at-bats.  Believing one tau2 misses a third of the players.
    assert held == {"bayes": 17, "marginal-likelihood": 12, "reml": 14, "moments": 14}


def half_season(path, half, kinds):
    """Estimates and variances of 2005's players with 11 at-bats or more, by player."""
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["year"] == "2005" and float(row["season"]) == half]
    rows = [row for row in rows if float(row["AB"]) >= 11 and float(row["pitcher"]) in kinds]
    return {row["id"]: (float(row["HA"]), 0.25 / float(row["AB"])) for row in rows}


def brown_james_stein(x, v):
    """Positive part, towards the weighted mean, all players shrunk by the same factor (Brown 2008)."""
    mean = np.average(x, weights=1 / v)
    return mean + max(0.0, 1 - (x.size - 3) / np.sum((x - mean) ** 2 / v)) * (x - mean)


# Brown (2008, Annals of Applied Statistics 2:113) predicts the second half of 2005 from the first: the total squared
# error less the binomial noise of the second half, relative to the raw averages.  His table has (quoted from memory) the
# group mean 0.85, James-Stein 0.54, EB by likelihood 0.90 for all batters, 0.38, 0.36, 0.40 for non-pitchers, and 0.13,
# 0.16, 0.12 for pitchers; he has 567 players of whom 499 in both halves, this extract 542 and 488.
BROWN = {
    "all": {
        "players": (542, 488), "group mean": 0.873, "James-Stein": 0.518, "moments": 0.726,
        "marginal-likelihood": 0.918, "reml": 0.916, "bayes": 0.910, "point-normal": 0.781,
    },
    "non-pitchers": {
        "players": (469, 428), "group mean": 0.380, "James-Stein": 0.324, "moments": 0.375,
        "marginal-likelihood": 0.402, "reml": 0.401, "bayes": 0.398, "point-normal": 0.412,
    },
    "pitchers": {
        "players": (73, 60), "group mean": 0.167, "James-Stein": 0.200, "moments": 0.152,
        "marginal-likelihood": 0.145, "reml": 0.149, "bayes": 0.156, "point-normal": 0.141,
    },
}  # fmt: skip


@pytest.mark.parametrize("group", BROWN)
def test_brown_half_seasons(shared_data, group):
    path = shared_data("baseball/bball_halfseasons_2002_2012.csv")
    kinds = {"all": (0, 1), "non-pitchers": (0,), "pitchers": (1,)}[group]
    first, second = (half_season(path, half, kinds) for half in (1, 2))
    x, v = np.array(list(first.values())).T
    both = [player in second for player in first]
    later, noise = np.array([second[player] for player in first if player in second]).T
    estimates = {prior: GaussianMeans(prior).fit(x, v).posterior_mean_ for prior in PRIORS}
    estimates["group mean"] = np.full(x.size, x.mean())
    estimates["James-Stein"] = brown_james_stein(x, v)
    estimates["point-normal"] = PointNormalMeans().fit(x, v).posterior_mean_
    raw = np.sum((x[both] - later) ** 2) - noise.sum()
    found = {name: (np.sum((e[both] - later) ** 2) - noise.sum()) / raw for name, e in estimates.items()}
    expected = dict(BROWN[group])
    assert (x.size, later.size) == expected.pop("players")
    assert {name: round(float(value), 3) for name, value in found.items()} == pytest.approx(expected, abs=0.0011)
    # What a practitioner should see: all batters are two populations; apart, the error falls to 0.40 and 0.16.
    assert found["bayes"] < 1


def test_woba_priors(shared_data):
    with open(shared_data("baseball/woba_2022.csv"), newline="") as file:
        x, s = np.array([(float(row["x"]), float(row["s"])) for row in csv.DictReader(file)]).T
    normal = GaussianMeans("marginal-likelihood").fit(x, s**2)
    averaged = GaussianMeans().fit(x, s**2)
    # R ebnm 1.1-42, ebnm(x, s, prior_family="normal", mode="estimate").
    assert normal.log_likelihood_ == pytest.approx(989.635658, abs=1e-6)
    assert (round(normal.mu_, 8), round(np.sqrt(normal.tau2_), 8)) == (0.30141900, 0.02874037)
    np.testing.assert_allclose(averaged.posterior_mean_, normal.posterior_mean_, atol=0.002)
    assert np.mean(averaged.posterior_sd_) > np.mean(normal.posterior_sd_)


def test_neighborhoods(shared_data):
    """Chetty and Hendren's effects of 595 commuting zones, of errors from 0.04 to 3.7."""
    with open(shared_data("efron_eb/empirikos_neighborhoods.csv"), newline="") as file:
        rows = [(row["p25_coef"], row["p25_se"]) for row in csv.DictReader(file)]
    x, s = np.array([(float(a), float(b)) for a, b in rows if a not in ("", "NA")]).T
    assert x.size == 595
    likelihood = GaussianMeans("marginal-likelihood").fit(x, s**2)
    tau2s = np.geomspace(1e-3, 1, 200)
    others = [GaussianMeans("fixed", tau2=tau2).fit(x, s**2).log_likelihood_ for tau2 in tau2s]
    assert max(others) <= likelihood.log_likelihood_ <= max(others) + 0.01
    assert PointNormalMeans().fit(x, s**2).log_likelihood_ >= likelihood.log_likelihood_
    model = GaussianMeans().fit(x, s**2)
    assert model.tau2_ == pytest.approx(likelihood.tau2_, rel=0.1)
    # Hardly anyone's direction is known, which the raw errors hide.
    assert np.mean(model.local_false_sign_rate() < 0.05) < 0.1
    assert model.posterior_sd_.max() < 0.15 < np.median(s)
