"""Which model a claim is about: clients in levels, who estimates what, what is decided. Model.v says what that means.

    >>> import sympy as sp
    >>> N, tau2, alpha2 = sp.symbols("N tau2 alpha2", positive=True)
    >>> fed = Clients((N,), tau2=tau2, alpha2=alpha2)
    >>> Server(fed, Ratios((1,))).closed
    (alpha2 + tau2)/N

Belongs here: the records and the risks' closed forms (which Coq does not trust: it proves them equal to Model.v's
expectation). Does not belong here: Coq text (frame.py, sayings.py), which claim has which model (models/).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sympy as sp

from theory.engine.algebra import cancelled, factored

# Letters of a model that its claim does not name: a theorem is about all of them.
# Any part of a given variance sigma2_c around the centre may be that of clients' parameters.
PART = sp.Symbol("tau2", real=True)
# Any spread of clients' parameters, any other variance, any share of a pivot.
SPREAD = sp.Symbol("tau2", nonnegative=True)
NOISE = sp.Symbol("noise2", positive=True)
SHARE = sp.Symbol("share", real=True)
FREE = (PART, SPREAD, NOISE, SHARE)
# What grows in a limit: a real number, or a number of clients.
BIG = sp.Symbol("big", positive=True)
MANY = sp.Symbol("many", positive=True, integer=True)


def _per_level(value: Any, count: int) -> tuple[Any, ...]:
    return tuple(map(sp.sympify, value)) if isinstance(value, tuple | list) else (sp.sympify(value),) * count


@dataclass(frozen=True)
class Clients:
    """Levels of `sizes` clients with the variances of own parameters, of sampling, and of privacy noise; one per level
    or one for all. `copies`: as many independent coordinates, each such a federation.
    """

    sizes: tuple[Any, ...]
    tau2: Any = 0
    alpha2: Any = 0
    nu2: Any = 0
    copies: Any = None

    def __post_init__(self) -> None:
        for name in ("tau2", "alpha2", "nu2"):
            object.__setattr__(self, name, _per_level(getattr(self, name), len(self.sizes)))
        object.__setattr__(self, "sizes", tuple(map(sp.sympify, self.sizes)))

    @property
    def message(self) -> tuple[Any, ...]:
        """Variance of a message around the centre, per level."""
        return tuple(t + a + n for t, a, n in zip(self.tau2, self.alpha2, self.nu2, strict=True))

    def optimal(self, without: int | None = None) -> tuple[tuple[Any, ...], Any]:
        """The best weights of the messages, per level, and the variance that they leave; without one client of a level."""
        count = [n - int(i == without) for i, n in enumerate(self.sizes)]
        left = 1 / sum(n / s for n, s in zip(count, self.message, strict=True))
        return tuple(left / s for s in self.message), left

    def best_mixture(self, weights: Weights, level: int) -> Any:
        """The best share of the server's estimate, which comes back with the client's own noise."""
        w, tau2, alpha2 = weights.per_client(self)[level], self.tau2[level], self.alpha2[level]
        shared = Server(self, weights).closed
        return factored(alpha2 * (1 - w) / (shared + tau2 * (1 - 2 * w) + alpha2 - 2 * alpha2 * w))

    def bayes(self, level: int) -> tuple[Any, tuple[Any, ...], Any]:
        """The best weights of a client's own estimate and of others' messages, and what each times its variance is."""
        count = [n - int(i == level) for i, n in enumerate(self.sizes)]
        precision = sum(n / s for n, s in zip(count, self.message, strict=True))
        alpha2, tau2 = self.alpha2[level], self.tau2[level]
        kappa = alpha2 / (1 + precision * (alpha2 + tau2))
        return 1 - kappa * precision, tuple(kappa / s for s in self.message), kappa


@dataclass(frozen=True)
class Weights:
    """Weights of the messages, one per level."""

    values: tuple[Any, ...]

    def per_client(self, clients: Clients) -> tuple[Any, ...]:
        """The weight of one message of each level."""
        return tuple(map(sp.sympify, self.values))


@dataclass(frozen=True)
class Ratios(Weights):
    """Weights proportional to one ratio per level."""

    def per_client(self, clients: Clients) -> tuple[Any, ...]:
        """The weight of one message of each level."""
        total = sum(n * r for n, r in zip(clients.sizes, self.values, strict=True))
        return tuple(sp.sympify(r) / total for r in self.values)


@dataclass(frozen=True, eq=False)
class Risk:
    """A mean squared error; `symbol` stands for it in expressions."""

    clients: Clients
    symbol: Any = field(default_factory=lambda: sp.Dummy("risk", real=True), init=False)

    @cached_property
    def closed(self) -> Any:
        """The closed form, summed over the copies."""
        return cancelled(self._one()) * (1 if self.clients.copies is None else self.clients.copies)

    def _one(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Server(Risk):
    """Of the server's weighted sum of messages, around the centre."""

    weights: Weights

    def _one(self) -> Any:
        v = self.weights.per_client(self.clients)
        return sum(n * w**2 * s for n, w, s in zip(self.clients.sizes, v, self.clients.message, strict=True))


@dataclass(frozen=True, eq=False)
class Message(Risk):
    """Of a client's message, around the centre."""

    level: int

    def _one(self) -> Any:
        return self.clients.message[self.level]


@dataclass(frozen=True, eq=False)
class Shared(Risk):
    """Mean product of the errors of a client's own estimate and of the server's, both around the centre: a covariance."""

    weights: Weights
    level: int

    def _one(self) -> Any:
        c, a = self.clients, self.level
        return self.weights.per_client(c)[a] * (c.tau2[a] + c.alpha2[a])


@dataclass(frozen=True, eq=False)
class Own(Risk):
    """Of a client's own estimate, around its parameter."""

    level: int

    def _one(self) -> Any:
        return self.clients.alpha2[self.level]


@dataclass(frozen=True, eq=False)
class Personal(Risk):
    """Of a client's estimate that a penalty of strength `lam` pulls towards the server's, around the client's parameter.

    `own_noise`: the client's own privacy noise comes back in what the server sends; otherwise it is taken out.
    """

    weights: Weights
    level: int
    lam: Any
    own_noise: bool

    def _one(self) -> Any:
        c, a, lam = self.clients, self.level, self.lam
        w = self.weights.per_client(c)[a]
        shared = Server(c, self.weights)._one() - (0 if self.own_noise else w**2 * c.nu2[a])
        tau2, alpha2 = c.tau2[a], c.alpha2[a]
        return (lam**2 * shared + tau2 * lam**2 * (1 - 2 * w) + alpha2 * (1 + 2 * lam * w)) / (1 + lam) ** 2


@dataclass(frozen=True, eq=False)
class Mixed(Risk):
    """Of (1 - u) own estimate + u server's, around the client's parameter; `own_noise` as in Personal."""

    weights: Weights
    level: int
    u: Any
    own_noise: bool = True

    def _one(self) -> Any:
        c, a, u = self.clients, self.level, self.u
        w = self.weights.per_client(c)[a]
        shared = Server(c, self.weights)._one() - (0 if self.own_noise else w**2 * c.nu2[a])
        return u**2 * shared + c.tau2[a] * u**2 * (1 - 2 * w) + c.alpha2[a] * ((1 - u) ** 2 + 2 * u * (1 - u) * w)


# --- what is decided ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a theorem says of an entry of a claim's formula (`of`: which; None: of all entries together)."""

    of: int | None = 0


@dataclass(frozen=True, eq=False)
class Optimum:
    """What a decision decides, as a number that occurs in expressions: the least risk, or the best strength, of the one
    entry that the decision is about.
    """

    decision: Any
    symbol: Any = field(default_factory=lambda: sp.Dummy("best", real=True), init=False)

    @property
    def clients(self) -> Clients:
        """Whose optimum it is."""
        return self.decision.clients

    @cached_property
    def closed(self) -> Any:
        """The closed form."""
        return self.decision.closed


@dataclass(frozen=True)
class Value(Decision):
    """An expression in risks and optima (their symbols) has, or is bounded by, the claim's formula, as the claim's relation
    says.
    """

    expression: Any
    risks: tuple[Risk | Optimum, ...]


@dataclass(frozen=True)
class Limit(Value):
    """The formula is what such an expression tends to as its letter BIG or MANY grows: it is within C over that letter."""


@dataclass(frozen=True)
class LeastCentre(Decision):
    """The formula is the least risk of any linear estimate of the centre; `without` a client of that level."""

    clients: Clients
    without: int | None = None

    @property
    def closed(self) -> Any:
        """The least risk."""
        return self.clients.optimal(self.without)[1]


@dataclass(frozen=True)
class LeastClient(Decision):
    """The formula is the least risk of any blend of a client's own estimate and all others' messages."""

    clients: Clients
    level: int

    @property
    def closed(self) -> Any:
        """The least risk."""
        return self.clients.alpha2[self.level] * self.clients.bayes(self.level)[0]


@dataclass(frozen=True)
class BestWeights(Decision):
    """No weights, equal within a level or not, have a smaller risk than those that `weights` makes of the formula, and no
    others have the same.
    """

    clients: Clients
    weights: Callable[[tuple[Any, ...]], Weights]

    @property
    def closed(self) -> Any:
        """The second level's best weight, over the first's: the entry where `weights` makes ratios of one."""
        return self.clients.message[0] / self.clients.message[1]


@dataclass(frozen=True)
class BestWithout(Decision):
    """No weights of all messages but those of one client of `level` have a smaller risk around the centre than those that
    `weights` makes of the formula, and no others have the same.
    """

    clients: Clients
    level: int
    weights: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple


@dataclass(frozen=True)
class BestBlend(Decision):
    """No blend has a smaller risk than the weights that `weights` makes of the formula (own estimate, then one message of
    each level), or the same.
    """

    clients: Clients
    level: int
    weights: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple


@dataclass(frozen=True)
class BestStrength(Decision):
    """No strength has a smaller risk than the formula, over all real ones but -1; no other has the same, unless the client
    has all the weight.
    """

    clients: Clients
    weights: Weights
    level: int
    own_noise: bool

    @property
    def closed(self) -> Any:
        """The best strength."""
        c, a = self.clients, self.level
        w, alpha2, tau2 = self.weights.per_client(c)[a], c.alpha2[a], c.tau2[a]
        shared = Server(c, self.weights).closed - (0 if self.own_noise else w**2 * c.nu2[a])
        return factored(alpha2 * (1 - w) / (shared + tau2 * (1 - 2 * w) - alpha2 * w))


@dataclass(frozen=True)
class Unimodal(Decision):
    """The risk falls up to the strength `lam` and rises after it, with the own noise in what comes back; the formula's
    entries, which bound its slopes, are zero.
    """

    clients: Clients
    weights: Weights
    level: int
    lam: Any


@dataclass(frozen=True)
class PivotBest(Decision):
    """Where the own estimate's variance is at least the formula, no mixture, of either sign, is better than the server's
    estimate as it is; below, some is.
    """

    clients: Clients
    weights: Weights
    level: int


@dataclass(frozen=True)
class Attains(Decision):
    """The client's risk at a strength is the least of any blend; the formula is the excess, zero, or (without `lam`) the
    strength.
    """

    clients: Clients
    weights: Weights
    level: int
    own_noise: bool
    lam: Any = None


@dataclass(frozen=True)
class AttainsMixed(Decision):
    """The client's risk at a mixture is the least of any blend; the formula is the excess, zero."""

    clients: Clients
    weights: Weights
    level: int
    u: Any


@dataclass(frozen=True)
class BestMixture(Decision):
    """No mixture of own estimate and server's has a smaller risk than the one that `u` makes of the formula's entries."""

    clients: Clients
    weights: Weights
    level: int
    u: Callable[[tuple[Any, ...]], Any]

    @property
    def closed(self) -> Any:
        """The best share of the server's estimate: the entry where `u` is that."""
        return self.clients.best_mixture(self.weights, self.level)


@dataclass(frozen=True)
class LeastMixture(Decision):
    """The formula is the least risk of any mixture of own estimate and server's."""

    clients: Clients
    weights: Weights
    level: int

    @property
    def closed(self) -> Any:
        """The least risk."""
        u, w = self.clients.best_mixture(self.weights, self.level), self.weights.per_client(self.clients)[self.level]
        return self.clients.alpha2[self.level] * (1 - u * (1 - w))


Model = Callable[..., "tuple[Decision, ...] | None"]  # None: of no such case
MODELS: dict[str, Model] = {}


def of(*ids: str) -> Callable[[Model], Model]:
    """Name the model of claims: a function of their variables."""

    def name(model: Model) -> Model:
        for claim_id in ids:
            if claim_id in MODELS:
                raise ValueError(f"claim {claim_id} has two models")
            MODELS[claim_id] = model
        return model

    return name
