"""How tight a bound is: a point where it is attained, or a witness of its slack.

A bound that is attained somewhere cannot be loosened unnoticed; one that is nowhere attained says at a point how far it lies
from what it bounds, which a loosened one would not.  A bound of 0, however loose, is infinitely many times that: it says its
own value there.

Belongs here: the record.  Does not belong here: its check, and whether the bound holds (engine.levels).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from theory.engine.problem import Malformed


@dataclass(frozen=True, kw_only=True)
class Tight:
    """At the point `at` the bound is `ratio` times what it bounds: "1" where it is attained.

    A ratio is exact ("1", "3/2"), or a decimal of at least six digits for numbers that are not rational; of several entries
    it is that of the first that is a bound. With the ratio "oo" (it bounds 0 there) goes `value`, the bound's own, in
    the same writing.
    """

    at: Mapping[str, Any] = field(default_factory=dict)
    ratio: str = "1"
    value: str = ""

    def __post_init__(self) -> None:
        if (self.ratio == "oo") != bool(self.value):
            what = f"tight has the ratio {self.ratio} and the value {self.value!r}"
            raise Malformed(what, "say the bound's own value where it bounds 0 (ratio oo), and only there")


__all__ = ["Tight"]
