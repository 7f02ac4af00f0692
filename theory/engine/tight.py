"""How tight a bound is: a point where it is attained, or a witness of its slack.

A bound that is attained somewhere cannot be loosened unnoticed; one that is nowhere attained says at a point how far it lies
from what it bounds, which a loosened one would not.

Belongs here: the record.  Does not belong here: its check, and whether the bound holds (engine.levels).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp


@dataclass(frozen=True, kw_only=True)
class Tight:
    """At the point `at` the bound is `ratio` times what it bounds: "1" where it is attained.

    A ratio is exact ("1", "3/2"), or a decimal of at least six digits for numbers that are not rational; of several entries
    it is that of the first that is a bound.
    """

    at: Mapping[str, Any] = field(default_factory=dict)
    ratio: str = "1"

    @property
    def exact(self) -> Any:
        """The ratio as a SymPy number."""
        read: Any = sp.sympify  # whose annotations know no `rational` for texts
        return read(self.ratio, rational=True)

    @property
    def attained(self) -> bool:
        """Whether the bound is an equality there."""
        return bool(self.exact == 1)


__all__ = ["Tight"]
