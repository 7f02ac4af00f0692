"""Where a claim is tried: its examples, random points of every case and of the far ends, points on its condition.

The streams are fixed by the claim's id, so that the points do not depend on order or workers.

Belongs here: which points, and how many.  Does not belong here: one random point (domain.py), what is decided there.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import numpy as np

from theory.engine import domain
from theory.engine.claim import Claim
from theory.engine.condition import on_condition
from theory.engine.domain import Point

POINTS_PER_CASE = 3
EXTREME_PER_CASE = 4
ATTACK_POINTS = 60


def stream_of(claim: Claim, purpose: str) -> np.random.Generator:
    """A stream fixed by the claim's id, so that the points tried do not depend on order or workers."""
    return np.random.default_rng(np.random.SeedSequence([crc32(claim.id.encode()), crc32(purpose.encode())]))


def random_points(claim: Claim, purpose: str, count: int, extreme: bool = False) -> Iterator[Point]:
    """`count` random points of the domain, going round the cases."""
    rng = stream_of(claim, purpose)
    all_cases = claim.cases()
    for i in range(count):
        case = all_cases[i % len(all_cases)]
        yield domain.sample_point(claim.variables, case, rng, extreme)


def with_condition(claim: Claim, points: Iterator[Point]) -> Iterator[Point]:
    """The points, and after each those on the claim's condition that it leads to: random ones hardly meet an equation."""
    for point in points:
        yield point
        yield from on_condition(claim, point)


def oracle_points(claim: Claim) -> list[Point]:
    """Where oracle, derivation and float function are compared: the examples, and points of every case."""
    return [*map(claim.point, claim.examples), *random_points(claim, "oracle", POINTS_PER_CASE * len(claim.cases()))]


def extreme_points(claim: Claim) -> list[Point]:
    """Where the float function is compared with the derivation besides."""
    return list(random_points(claim, "extreme", EXTREME_PER_CASE * len(claim.cases()), extreme=True))


def attack_points(claim: Claim, extreme: bool) -> Iterator[Point]:
    """Where the printed formula is attacked."""
    rounds = max(ATTACK_POINTS, 2 * len(claim.cases()))
    return with_condition(claim, random_points(claim, f"attack{extreme}", rounds, extreme))
