"""A client's own posterior, of its exact rows and the prior that the server broadcast: mean, sd and intervals.

Belongs here: what stays with the client.  Does not belong here: what it sends (``client``), the laws of the integral
(``prior``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from estimators.numerics.validation import probability, single

if TYPE_CHECKING:
    from estimators.private.prior import BetaPrior, NormalMixtures

__all__ = ["AtHome", "AtHomeRate"]


class AtHome:
    """A client's own posterior: mean, sd and intervals.  It comes from raw data and stays with the client."""

    def __init__(self, law: NormalMixtures) -> None:
        self.law = law
        self.mean, self.sd = float(law.mean()[0]), float(law.sd()[0])

    def __repr__(self):
        return f"AtHome(mean={self.mean!r}, sd={self.sd!r})"

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends (low, high) of the equal-tailed posterior interval."""
        level = single(probability, "level", level)
        return float(self.law.quantile((1 - level) / 2)[0]), float(self.law.quantile((1 + level) / 2)[0])


class AtHomeRate:
    """A client's own posterior of its rate: mean, sd and intervals.  It comes from raw data and stays with the client."""

    def __init__(self, ones: int, n: int, prior: BetaPrior) -> None:
        size = prior.size
        own = 0.0 if np.isinf(size) else n / (n + size)
        self.mean = float(own * ones / n + (1 - own) * prior.mu)
        self.size = n + size
        self.sd = float(np.sqrt(self.mean * (1 - self.mean) / (self.size + 1)))

    def __repr__(self):
        return f"AtHomeRate(mean={self.mean!r}, sd={self.sd!r})"

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends (low, high) of the equal-tailed posterior interval."""
        from scipy.special import betaincinv

        level = single(probability, "level", level)
        if np.isinf(self.size):
            return self.mean, self.mean
        a, b = self.mean * self.size, (1 - self.mean) * self.size
        return float(betaincinv(a, b, (1 - level) / 2)), float(betaincinv(a, b, (1 + level) / 2))
