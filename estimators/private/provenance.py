"""Where a guarantee comes from: its noise, whom it protects from what, what is public anyway, and what nobody promised.

Belongs here: words and plain values about guarantees, for summaries, files and pictures.  Does not belong here: the
guarantees and their sums (``accounting.budget``), what was spent before (``accounting.budget_file``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from estimators.accounting.budget import ADJACENCIES, SIMULATED, Guarantee
from estimators.numerics.validation import instance, listing

__all__ = ["in_short", "provenance_of"]

PUBLIC = (
    "the names of the clients, how many there are, and that each took part",
    "how many rows each client has",
    "bounds, numbers of levels, eps, delta and mechanism",
)
NOT_COVERED = (
    "choices made after looking at the data: bounds, columns, which clients and which eps",
    "releases about the same people that are not in this budget",
    "what others' data tell about a person",
    "how long a client takes, which depends on its noise",
)
ROW = "a person with several rows, of which one is protected"
FLOATS = "the last bits of floating-point noise (Mironov 2012), drawn by a generator made for statistics"
TOGETHER = (
    "clients of whom more tell the server their noise than was agreed, and a server that gave them each other's keys for "
    "signatures"
)
SEEDED = "anybody who knows or guesses the seed, and with it the noise"


def in_short(guarantee: Guarantee) -> str:
    """Return a guarantee in a few words, for a cell or a caption.

    >>> in_short(Guarantee(1.0, 0.0, "row", "client", "discrete-laplace"))
    'eps=1, delta=0 for one row'
    >>> in_short(Guarantee(1.0, 0.0, "row", "client", "discrete-laplace", simulated=True))
    'simulated, no guarantee'
    """
    instance("guarantee", guarantee, Guarantee)
    if guarantee.simulated:
        return SIMULATED
    who = "one client" if guarantee.adjacency.startswith("client") else "one row"
    return f"eps={guarantee.eps:g}, delta={guarantee.delta:g} for {who}"


def provenance_of(guarantees: Iterable[Guarantee], together: int | None = None) -> dict[str, Any]:
    """Return what the guarantees of many clients rest on, as plain values for JSON.

    Parameters
    ----------
    guarantees : list of Guarantee, one per client; or one per release, each about all clients together.
    together : whole number >= 1, of those clients; None if each guarantee is of one client.

    Returns
    -------
    dict of "simulated" (True if any noise was seeded), "randomness", "guarantees" (each kind with its number of clients
    and of releases, adjacency, who is trusted, mechanism and accountant), "public" and "not_covered" (lists of sentences).

    >>> found = provenance_of([Guarantee(1.0, 0.0, "row", "client", "answers", simulated=True)] * 3)
    >>> found["simulated"], found["randomness"], found["guarantees"][0]["clients"]
    (True, 'a seeded generator: simulated, no guarantee', 3)
    """
    listed = [instance(f"guarantees[{i}]", g, Guarantee) for i, g in enumerate(listing("guarantees", guarantees))]
    simulated = any(each.simulated for each in listed)
    kinds = Counter(listed)
    missing = [*([SEEDED] if simulated else []), *NOT_COVERED]
    missing += [ROW] if any(each.adjacency.startswith("row") for each in kinds) else []
    missing += [FLOATS] if any("gaussian" in each.mechanism.split(", ") for each in kinds) else []
    missing += [TOGETHER] if any(each.mechanism.startswith("distributed") for each in kinds) else []
    return {
        "simulated": simulated,
        "randomness": f"a seeded generator: {SIMULATED}" if simulated else "the operating system's entropy",
        "guarantees": [
            {
                "clients": times if together is None else together,
                "releases": times,
                "eps": each.eps if np.isfinite(each.eps) else None,
                "delta": each.delta,
                "adjacency": each.adjacency,
                "protects": ADJACENCIES[each.adjacency],
                "trusted": each.trusted,
                "mechanism": each.mechanism,
                "accountant": each.accountant,
                "simulated": each.simulated,
            }
            for each, times in kinds.most_common()
        ],
        "public": list(PUBLIC),
        "not_covered": missing,
    }
