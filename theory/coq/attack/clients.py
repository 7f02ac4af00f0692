"""Model.v's clients in exact numbers: what an estimate is made of, noise by noise, and so its risk.

An estimate is a number (what it takes of the centre) and a coefficient for each noise; a mean product is the sum of
coefficients times variances. No closed form of the toolkit is used, and no lemma of the proofs.

Belongs here: Model.v's records and definitions. Does not belong here: terms and propositions (meaning.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gmpy2 import mpq  # pyright: ignore[reportAttributeAccessIssue] - its stubs leave it out

Weights = Callable[[Any, Any], Any]
OWN, SAMPLING, PRIVATE = range(3)
CENTRE = mpq(3, 7)  # where the clients' centre is: what is said of all clients is said of these


@dataclass(frozen=True)
class Linear:
    """A quantity that is linear in the noises: its mean, and the coefficient of each noise (kind, level, member)."""

    of: Clients
    mean: Any
    coefficients: dict[tuple[int, int, int], Any]

    def __add__(self, other: Any) -> Linear:
        if not isinstance(other, Linear):
            return Linear(self.of, self.mean + other, self.coefficients)
        summed = dict(self.coefficients)
        for noise, c in other.coefficients.items():
            summed[noise] = summed.get(noise, 0) + c
        return Linear(self.of, self.mean + other.mean, summed)

    def __mul__(self, c: Any) -> Linear:
        return Linear(self.of, c * self.mean, {noise: c * x for noise, x in self.coefficients.items()})

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Any) -> Linear:
        return self + -other

    def __truediv__(self, c: Any) -> Linear:
        return self * (1 / c)


@dataclass(frozen=True, eq=False)
class Clients:
    """Levels of clients with their three variances; the record `clients` of Model.v."""

    sizes: tuple[int, ...]
    variances: tuple[tuple[Any, ...], ...] = field(repr=False)  # of own, sampling and private noise, by level

    def everyone(self) -> Iterator[tuple[int, int]]:
        """All clients, as level and member."""
        return ((level, i) for level, n in enumerate(self.sizes) for i in range(n))

    def noise(self, kind: int, level: Any, i: Any) -> Linear:
        """One client's noise of a kind. Raises IndexError where there is no such client."""
        if not (0 <= level < len(self.sizes) and 0 <= i < self.sizes[int(level)]):
            raise IndexError(f"client {i} of level {level}")
        return Linear(self, mpq(0), {(kind, int(level), int(i)): mpq(1)})

    def middle(self) -> Linear:
        """The centre, as a target."""
        return Linear(self, CENTRE, {})

    def parameter(self, level: Any, i: Any) -> Linear:
        """A client's parameter."""
        return self.middle() + self.noise(OWN, level, i)

    def estimate(self, level: Any, i: Any) -> Linear:
        """A client's own estimate."""
        return self.parameter(level, i) + self.noise(SAMPLING, level, i)

    def message(self, level: Any, i: Any) -> Linear:
        """What a client sends."""
        return self.estimate(level, i) + self.noise(PRIVATE, level, i)

    def aggregate(self, w: Weights) -> Linear:
        """The weighted sum of all messages."""
        return self.weighted([(c, w(*c)) for c in self.everyone()])

    def weighted(self, weights: Sequence[tuple[tuple[int, int], Any]]) -> Linear:
        """The sum of clients' messages, each times its weight."""
        noises = {(kind, *c): weight for c, weight in weights for kind in (OWN, SAMPLING, PRIVATE)}
        return Linear(self, CENTRE * sum((weight for _, weight in weights), mpq(0)), noises)

    def cleaned(self, w: Weights, level: Any, i: Any) -> Linear:
        """The same, as a client has it once its own private noise is taken out."""
        return self.aggregate(w) - self.noise(PRIVATE, level, i) * w(level, i)

    def personal(self, lam: Any, level: Any, i: Any, pivot: Linear) -> Linear:
        """Between own estimate and pivot, at a strength."""
        return (self.estimate(level, i) + pivot * lam) / (1 + lam)

    def mixed(self, u: Any, level: Any, i: Any, pivot: Linear) -> Linear:
        """Between own estimate and pivot, in a proportion."""
        return self.estimate(level, i) * (1 - u) + pivot * u

    def blend(self, x: Any, w: Weights, level: Any, i: Any) -> Linear:
        """Own estimate and all others' messages, with any weights."""
        others = [(c, w(*c)) for c in self.everyone() if c != (level, i)]
        return self.estimate(level, i) * x + self.weighted(others)

    def moment(self, x: Linear, y: Linear) -> Any:
        """The mean product."""
        shared = (
            c * y.coefficients[kind, level, i] * self.variances[kind][level]
            for (kind, level, i), c in x.coefficients.items()
            if (kind, level, i) in y.coefficients
        )
        return sum(shared, x.mean * y.mean)

    def variance(self, level: int) -> Any:
        """The variance of a message."""
        return sum(v[level] for v in self.variances)

    def inverse_variances(self, without: tuple[Any, Any] | None = None) -> dict[tuple[int, int], Any]:
        """Weights that add to one and have the least risk for the centre: inverse to the messages' variances, by Lagrange's
        rule; where some have none, these alone.
        """
        chosen = [c for c in self.everyone() if c != without]
        exact = [c for c in chosen if self.variance(c[0]) == 0]
        raw = {c: mpq(1) for c in exact} or {c: 1 / self.variance(c[0]) for c in chosen}
        whole = sum(raw.values())
        return {c: r / whole for c, r in raw.items()}

    def least_of_centre(self, without: tuple[Any, Any] | None = None) -> Any:
        """The least risk for the centre, without a client's message where one is named."""
        return sum((w**2 * self.variance(c[0]) for c, w in self.inverse_variances(without).items()), mpq(0))

    def best_share(self, level: Any, i: Any) -> Any:
        """What a client's own estimate counts in the least risk of its parameter, beside the best of all others."""
        others = self.variances[OWN][int(level)] + self.least_of_centre((level, i))
        sampling = self.variances[SAMPLING][int(level)]
        return others / (others + sampling) if others + sampling != 0 else mpq(1)

    def least_of_client(self, level: Any, i: Any) -> Any:
        """The least risk for a client's parameter from its own estimate and all others' messages."""
        own = self.variances[SAMPLING][int(level)]
        if all(c == (level, i) for c in self.everyone()):
            return own
        x = self.best_share(level, i)
        return x**2 * own + (1 - x) ** 2 * (self.variances[OWN][int(level)] + self.least_of_centre((level, i)))


def least_of(risk: Callable[[Any], Any]) -> tuple[Any, Any] | None:
    """Where a quadratic function of one number is least, and its value there; None where it has no single least.

    >>> least_of(lambda u: (u - 3) ** 2 + 1)
    (mpq(3,1), mpq(1,1))
    """
    here, up, down = (risk(mpq(x)) for x in (0, 1, -1))
    bend, slope = (up + down) / 2 - here, (up - down) / 2
    if risk(mpq(3)) != 9 * bend + 3 * slope + here:
        raise ValueError("the risk is not quadratic")
    if bend <= 0:
        return (mpq(0), here) if bend == slope == 0 else None
    return -slope / (2 * bend), here - slope**2 / (4 * bend)


__all__ = ["CENTRE", "Clients", "Linear", "Weights", "least_of"]
