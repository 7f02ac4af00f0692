"""County elections: what each Beta-binomial estimate gains over the county's own share of Republican wins.

The elections 2000-2020 but one are a county's trials, the one left out is predicted; the gain is that in squared error,
averaged over the six.  The counties are the 3,112 of an independent collection of returns, as many as the generative paper
has.  Two need care: Oglala Lakota was Shannon county (code 46113, now 46102) until 2015, and Broomfield was founded after
the first election, so that it has one trial fewer.  Claims: generative:exp:elections, generative:exp:elections:best.
"""

import csv

import numpy as np
import pytest

from estimators import BetaBinomial

YEARS = (2000, 2004, 2008, 2012, 2016, 2020)
# Gains in per cent on the vote share and on the 0/1 outcome.  The paper quotes 10.7 +- 1.9 for its printed estimator.
GAINS = {"naive-moments": (10.52, 1.00), "moments": (13.80, 0.92), "marginal-likelihood": (13.78, 0.98)}


def read(path, listed):
    """Return Republican shares of the two-party vote of the listed counties, (counties, years), NaN where there is none."""
    share = {code: np.full(len(YEARS), np.nan) for code in listed}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            code = {"46102": 46113}.get(
                row["county_fips"], int(row["county_fips"]) if row["county_fips"].isdigit() else None
            )
            if code in share and int(row["year"]) in YEARS:
                democrat, republican = int(row["votes_dem"]), int(row["votes_rep"])
                share[code][YEARS.index(int(row["year"]))] = republican / (democrat + republican)
    return np.array(list(share.values()))


def gains(share, estimate):
    """Return relative gains over the county's own share of wins, on vote share and outcome, one row per election."""
    won = np.where(np.isnan(share), np.nan, share > 0.5)
    found = []
    for i in range(share.shape[1]):
        others = np.delete(won, i, axis=1)
        x, n = np.nansum(others, axis=1), (~np.isnan(others)).sum(axis=1)
        guess = estimate(x, n)
        found.append([1 - np.nansum((guess - y[:, i]) ** 2) / np.nansum((x / n - y[:, i]) ** 2) for y in (share, won)])
    return np.array(found)


@pytest.fixture
def share(shared_data):
    with open(shared_data("us_county_elections/tonmcg_2008_2016.csv"), encoding="utf-8", newline="") as file:
        listed = [int(row["fips_code"]) for row in csv.DictReader(file)]
    return read(shared_data("us_county_elections/county_pres_2000_2024.csv"), listed)


def test_the_counties(share):
    assert share.shape == (3112, 6)
    assert np.isnan(share).sum() == 1


@pytest.mark.parametrize("prior", GAINS)
def test_gains_on_counties(share, prior):
    found = 100 * gains(share, lambda x, n: BetaBinomial(prior).fit(x, n).posterior_mean_)
    np.testing.assert_allclose(found.mean(axis=0), GAINS[prior], atol=0.005)


def test_the_corrected_estimators_gain_more_on_vote_shares(share):
    """The printed one reproduces the quoted gain; without its bias the same data give three points more."""
    printed, corrected = (100 * gains(share, lambda x, n, p=p: BetaBinomial(p).fit(x, n).posterior_mean_)[:, 0]
                          for p in ("naive-moments", "moments"))  # fmt: skip
    assert abs(printed.mean() - 10.7) < 1.9
    assert (corrected > printed + 2).all()
