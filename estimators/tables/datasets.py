"""Small data sets that ship with the package, as facts with their citation.

Loaders of the user's files are not here; larger public data (MNIST and the like) is neither shipped nor
fetched.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources

import numpy as np

__all__ = ["EfronMorris", "SurgicalMortality", "efron_morris", "surgical_mortality"]


@dataclass(frozen=True, eq=False)
class EfronMorris:
    """Eighteen batters: hits in the first at-bats of a season, and the average over the rest of it."""

    clients: tuple[str, ...]
    hits: np.ndarray
    at_bats: np.ndarray
    average_45: np.ndarray
    average_rest: np.ndarray
    rest_at_bats: np.ndarray


@dataclass(frozen=True, eq=False)
class SurgicalMortality:
    """Twelve hospitals: operations on babies' hearts, and how many of the babies died."""

    clients: tuple[str, ...]
    deaths: np.ndarray
    operations: np.ndarray


def efron_morris() -> EfronMorris:
    """Batting averages of 18 major-league players in 1970: the first 45 at-bats, and the rest of the season.

    Source: B. Efron and C. Morris, "Data analysis using Stein's estimator and its generalizations",
    Journal of the American Statistical Association 70 (1975) 311-319, table 1.  Averages have the three
    digits printed there (``hits / at_bats`` has all of them).  Williams is listed as printed, .256 in 270
    at-bats; some copies of the table have put the well-known Billy Williams' .330 in 591 in his place.

    With the rest of the season as the truth, and hits / 45 as the estimates,

    - the total squared error of the raw averages is 0.0753;
    - ``james_stein`` with the binomial variance at the grand mean, 0.265 * 0.735 / 45 = 0.0043, shrinks by
      the factor 0.212 that Efron and Morris give (Scientific American 236 (1977) 119-127) and has total
      error 0.0213;
    - after x -> sqrt(45) arcsin(2 x - 1), which makes the variance 1, the totals are 17.6 and 5.00, a gain
      of 3.5; that James-Stein estimate taken back to averages has total error 0.0215, or 0.022 with two
      digits.

    Returns
    -------
    EfronMorris
        With arrays of 18 entries, players by falling early average.

    >>> data = efron_morris()
    >>> data.clients[0], int(data.hits[0]), float(data.average_rest[0])
    ('Clemente', 18, 0.346)
    """
    clients, columns = shipped("efron_morris.csv", "client", whole=("hits", "at_bats", "rest_at_bats"))
    return EfronMorris(clients=clients, **columns)


def surgical_mortality() -> SurgicalMortality:
    """Deaths after heart operations on babies in twelve hospitals.

    Source: "Surgical: institutional ranking" in BUGS 0.5 Examples, volume 1 (MRC Biostatistics Unit, Cambridge,
    1996), also in the examples of OpenBUGS.  Hospital A lost none of 47, H lost 31 of 215; nobody knows the true risks.

    Returns
    -------
    SurgicalMortality
        With arrays of 12 entries, hospitals in the order of the source.

    >>> data = surgical_mortality()
    >>> data.clients[0], int(data.deaths.sum()), int(data.operations.sum())
    ('A', 208, 2814)
    """
    clients, columns = shipped("surgical_mortality.csv", "hospital", whole=("deaths", "operations"))
    return SurgicalMortality(clients=clients, **columns)


def shipped(file: str, key: str, whole: tuple[str, ...] = ()) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Return the column `key` of a shipped CSV file as a tuple of texts and the others as arrays by name."""
    text = resources.files("estimators.tables").joinpath("data", file).read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name != key}
    columns |= {name: columns[name].astype(int) for name in whole}
    return tuple(row[key] for row in rows), columns
