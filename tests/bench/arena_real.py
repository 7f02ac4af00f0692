"""Real data with held-out truth for the arena: half-seasons, counties' elections, schools' pupils.

Each reader yields (data, truth, variance of the truth's own noise); ``path`` is the folder of the data sets, and a file that
is not there is skipped with its name.  Belongs here: how data are split.  The contest is in ``arena``.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from estimators.federated.data.loaders import school

VOTERS, PUPILS = 50, 5


def players(path: Path, kinds):
    """First half of 2005 and the second, players with more than 10 at bats in both (Brown 2008), and who of them pitches."""
    with open(path / "baseball" / "bball_halfseasons_2002_2012.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["year"] == "2005" and float(row["pitcher"]) in kinds]
    halves = [
        {
            r["id"]: [float(r[c]) for c in ("H", "AB", "pitcher")]
            for r in rows
            if float(r["season"]) == s and float(r["AB"]) > 10
        }
        for s in (1, 2)
    ]
    both = [player for player in halves[0] if player in halves[1]]
    (x, n, pitcher), (later, trials, _) = (np.array([half[player] for player in both]).T for half in halves)
    share = later / trials
    return (x.astype(int), n.astype(int), pitcher), share, share * (1 - share) / (trials - 1)


def half_seasons(kinds):
    def read(path: Path, replicate: int):
        """The first half of a season, and the second as the truth."""
        (x, n, _), share, noise = players(path, kinds)
        return (x, n), share, noise

    return read


def counties(year):
    def read(path: Path, replicate: int):
        """Fifty voters of each county, drawn at random; the truth is how all of them voted."""
        with open(path / "us_county_elections" / "county_pres_2000_2024.csv", newline="") as file:
            rows = [r for r in csv.DictReader(file) if r["year"] == str(year)]
        dem, votes = np.array([(float(r["votes_dem"] or 0), float(r["votes_all"] or 0)) for r in rows]).T
        dem, votes = dem[votes >= 10 * VOTERS].astype(int), votes[votes >= 10 * VOTERS].astype(int)
        rng = np.random.default_rng([year, replicate])
        x = rng.hypergeometric(dem, votes - dem, VOTERS)
        return (x, np.full(x.size, VOTERS)), dem / votes, np.zeros(x.size)

    return read


def schools(path: Path, replicate: int):
    """Five pupils of each school; the truth is the mean of the others."""
    federation = school(path / "school" / "school.mat", test_fraction=0.0)
    rng = np.random.default_rng([5, replicate])
    scores = [rng.permutation(federation.y[rows]) for rows in federation.train]
    later = [s[PUPILS:] for s in scores]
    noise = np.array([s.var(ddof=1) / s.size for s in later])
    return (np.array([s[:PUPILS] for s in scores]),), np.array([s.mean() for s in later]), noise


REAL = {  # kind of cell, reader, replicates
    "batters 2005": ("trials", half_seasons((0.0, 1.0)), 1),
    "batters 2005, no pitchers": ("trials", half_seasons((0.0,)), 1),
    "batters 2005, pitchers": ("trials", half_seasons((1.0,)), 1),
    "counties 2012, 50 voters": ("trials", counties(2012), 8),
    "counties 2020, 50 voters": ("trials", counties(2020), 8),
    "schools, 5 pupils": ("rows", schools, 20),
}
