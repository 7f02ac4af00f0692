"""What was released, as data: mechanism, noise, how rows get into it, how often.

Belongs here: `Event` and the adjacency that each way of sampling protects.  Does not belong here: what an event costs
(``accountants``), guarantees and budgets (``budget``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from estimators.numerics.validation import choice, count, nonnegative, positive, probability, single

__all__ = ["MECHANISMS", "SAMPLINGS", "Event"]

SAMPLINGS = {"all": (None, 1.0), "poisson": ("row add-remove", 1.0), "fixed": ("row", 2.0)}
"""Adjacency of each way of sampling (None: that of the sensitivity), and a neighbour's move in units of it."""
MECHANISMS = ("gaussian", "laplace", "pure")


@dataclass(frozen=True, kw_only=True)
class Event:
    """`number` releases with fresh noise, each with a row in it with probability `rate`; later may depend on earlier.

    Parameters
    ----------
    mechanism : "gaussian"; "laplace" (on one number); "pure", anything that is purely private.
    noise : number >= 0 or inf, noise over sensitivity (deviation, scale, 1/eps), dimensionless; None: to be calibrated.
    sampling : "all", every row is in every release, under any adjacency; "poisson", each row by itself with probability
        `rate`, one row added or removed; "fixed", a batch of so many rows without replacement, one row replaced, which moves
        a clipped sum by twice the clipping norm that `noise` is counted in.
    rate : number in [0, 1], 1 unless the noise is Gaussian and rows are sampled; number : whole number >= 0.

    >>> Event(noise=1.0, sampling="poisson", rate=0.01, number=1000).mechanism
    'gaussian'
    """

    mechanism: str = "gaussian"
    noise: float | None = None
    sampling: str = "all"
    rate: float = 1.0
    number: int = 1

    def __post_init__(self):
        choice("mechanism", self.mechanism, MECHANISMS)
        choice("sampling", self.sampling, SAMPLINGS)
        rate, number = float(single(probability, "rate", self.rate)), int(single(count, "number", self.number, 0))
        if rate < 1 and self.sampling == "all":
            raise ValueError(f"rate must be 1 where all rows are in every release, got {rate}; or say how rows are sampled")
        if self.sampling != "all" and self.mechanism != "gaussian":
            raise ValueError(
                f'mechanism must be "gaussian" where rows are sampled, got {self.mechanism!r}; others: amplified_budget'
            )
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "number", number)
        if self.noise is not None:
            object.__setattr__(self, "noise", float(single(nonnegative, "noise", self.noise, infinite=True)))

    def at(self, noise: float) -> Self:
        """Return the event with this noise.

        >>> Event(number=3).at(2.0).noise
        2.0
        """
        return replace(self, noise=noise)

    @property
    def shift(self) -> float:
        """How far a neighbour moves one release, in units of its noise; > 0.  Raises ValueError without noise."""
        if self.noise is None:
            raise ValueError("noise of the event is not given: Event(noise=...), or calibrate it by accountants.noise_for")
        return SAMPLINGS[self.sampling][1] / positive("noise", self.noise) if self.noise < float("inf") else 0.0

    @property
    def silent(self) -> bool:
        """Whether nothing about a row is released."""
        return self.number == 0 or self.rate == 0 or self.noise == float("inf")
