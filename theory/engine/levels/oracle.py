"""The oracle's answers, each asked for once while a claim is judged: levels share their first points, the examples.

Belongs here: asking, and remembering for one claim.  Does not belong here: oracles (the papers' claims, bruteforce.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from theory.engine.claim import Claim
from theory.engine.domain import Point

_answers: dict[Any, Any] | None = None


@contextmanager
def asked_once() -> Iterator[None]:
    """In the block, which judges one claim, the oracle is asked once for each point."""
    global _answers
    _answers = {}
    try:
        yield
    finally:
        _answers = None


def answer(claim: Claim, point: Point) -> Any:
    """The oracle's value at a point."""
    if _answers is None:
        return claim.at(claim.oracle, point)
    key = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in point.items())
    if key not in _answers:
        _answers[key] = claim.at(claim.oracle, point)
    return _answers[key]
