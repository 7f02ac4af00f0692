"""Private estimates on real data: with moderate budgets, clients at home are close to what they would be without privacy."""

import csv

import numpy as np
import pytest

from estimators import GaussianMeans, efron_morris
from estimators.closed_forms import bernoulli
from estimators.private import MeanClient, PrivateGaussianMeans, PrivateRates, RateClient, release_prior

RNG = np.random.default_rng


@pytest.mark.filterwarnings("ignore:the estimated variance between clients")
def test_efron_morris_batters():
    """Row-level eps = 2 (one at-bat), 40 releases: total squared error at most a third of the raw averages' 0.0753."""
    data, rng, errors = efron_morris(), RNG(0), []
    for _ in range(40):
        rows = [np.repeat([1, 0], [int(h), int(n - h)]) for h, n in zip(data.hits, data.at_bats, strict=True)]
        model = PrivateRates().fit([RateClient(eps=2.0).report(r, rng) for r in rows])
        errors.append(np.sum((model.posterior_mean_ - data.average_rest) ** 2))
    raw = np.sum((data.hits / data.at_bats - data.average_rest) ** 2)
    assert raw == pytest.approx(0.0753, abs=1e-4)
    assert np.mean(errors) < raw / 3


def test_polls_of_twenty_voters_in_every_county(shared_data):
    """Vote shares of 2016 from polls of 20 per county; eps = 1 protects one voter's answer.

    At home the error is within 1 % of the non-private one; 95 % intervals of the server cover 94 to 96 %, +- 3 standard
    errors.
    """
    with open(shared_data("us_county_elections/county_pres_2000_2024.csv"), encoding="utf-8") as file:
        votes = [(float(r["votes_dem"]), float(r["votes_rep"])) for r in csv.DictReader(file) if r["year"] == "2016"]
    share = np.array([d / (d + r) for d, r in votes if d + r > 0])
    rng, n = RNG(1), 20
    polls = rng.random((len(share), n)) < share[:, None]
    model = PrivateRates().fit([RateClient(eps=1.0).report(p, rng) for p in polls])
    low, high = model.interval()
    cover = np.mean((low <= share) & (share <= high))
    assert 0.94 - 3 * 0.004 <= cover <= 0.96 + 3 * 0.004
    ones = polls.sum(axis=1)
    own, plain = np.mean((ones / n - share) ** 2), np.mean((bernoulli.estimate_rates(ones, n) - share) ** 2)
    home = np.mean([(RateClient(eps=1.0).at_home(p, model.prior_).mean - t) ** 2 for p, t in zip(polls, share, strict=True)])
    assert home < 1.01 * plain < 0.8 * own
    assert np.mean((model.posterior_mean_ - share) ** 2) < own


def test_school_means_from_ten_pupils(shared_data):
    """139 schools, eps = 4 for one pupil, mean and variance reported: clients at home beat their own means."""
    from scipy.io import loadmat

    scores = [y.ravel() for y in loadmat(shared_data("school/school.mat"))["Y"].ravel()]
    truth, rng, errors = np.array([y.mean() for y in scores]), RNG(2), []
    for _ in range(4):
        samples = [rng.choice(y, 10, replace=False) for y in scores]
        clients = [MeanClient(bounds=(0.0, 70.0), eps=4.0, variance_share=0.3) for _ in samples]
        reports = [c.report(s, rng) for c, s in zip(clients, samples, strict=True)]
        prior = PrivateGaussianMeans().fit(reports).prior_
        home = [c.at_home(s, prior, r) for c, s, r in zip(clients, samples, reports, strict=True)]
        low, high = np.array([h.interval() for h in home]).T
        errors.append(
            (
                np.mean(([h.mean for h in home] - truth) ** 2),
                np.mean(([s.mean() for s in samples] - truth) ** 2),
                np.mean((low <= truth) & (truth <= high)),
            )
        )
    home, own, cover = np.mean(errors, axis=0)
    assert home < 0.85 * own
    assert cover > 0.88


def test_central_prior_of_woba(shared_data):
    """469 players with 100 plate appearances or more, eps = 2 for a player: close to the posterior without privacy."""
    data = np.genfromtxt(shared_data("baseball/woba_2022.csv"), delimiter=",", skip_header=1, usecols=(3, 4, 5))
    x, s = data[data[:, 0] >= 100, 1:].T
    plain = GaussianMeans().fit(x, s**2).posterior_mean_
    prior = release_prior(x, s**2, bounds=(0.1, 0.6), eps=2.0, delta=1e-6, generator=RNG(3)).prior
    home = np.array([prior.at_home(a, v).mean()[0] for a, v in zip(x, s**2, strict=True)])
    assert np.sqrt(np.mean((home - plain) ** 2)) < 0.4 * np.sqrt(np.mean((x - plain) ** 2))
