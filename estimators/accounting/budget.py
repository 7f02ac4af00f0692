"""What several private releases cost together: guarantees, and budgets that refuse what exceeds them.

Belongs here: a guarantee as data, that of an event, a budget that adds guarantees up, compositions of Gaussian releases.
Does not belong here: budgets that outlive a process (``budget_file``); what an event costs and which noise it needs
(``accountants``); the curves of single mechanisms (``privacy``, ``mechanisms``); publishing the best of several runs
(``tuning``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from threading import RLock
from typing import Any, Self

import numpy as np

from estimators.accounting import adaptive, privacy
from estimators.accounting.accountants import ACCOUNTANTS, divergences, found_epsilon, listed, stated
from estimators.accounting.events import SAMPLINGS, Event
from estimators.accounting.losses import loss_epsilon
from estimators.accounting.mechanisms import gaussian_epsilon, gaussian_sigma
from estimators.accounting.privacy import ORDERS
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import quiet
from estimators.numerics.validation import choice, count, nonnegative, number, paired, positive, probability, single

__all__ = [
    "ADJACENCIES",
    "Budget",
    "Guarantee",
    "composed_gaussian_epsilon",
    "composed_gaussian_sigma",
    "guarantee",
    "in_parallel",
]

ADJACENCIES = {
    "row": "one row of a client takes any other value; the numbers of rows are public",
    "client": "all rows of one client take any other values; the numbers of rows and of clients are public",
    "row add-remove": "one row is added or removed",
    "client add-remove": "one client with all its rows is added or removed",
}
ROUNDING = 1e-9  # by which a sum of parts of a budget may exceed it
COPIED = "each copy would spend it anew; make clients where they run, or give them one accounting.BudgetFile"
TINY = 1e-12  # eps below which a release is not worth a distribution of losses
CLAIMS = ("mrmtl:appA:composition:adaptive", "mrmtl:eq13")
SIMULATED = "simulated, no guarantee"


def budget_numbers(eps: float, delta: float) -> tuple[float, float]:
    """Return eps in (0, inf] and delta in [0, 1) as floats."""
    eps, delta = single(number, "eps", eps), single(number, "delta", delta)
    if not eps > 0:
        raise ValueError(f"eps must be > 0, got {eps}; inf is no privacy")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta}")
    return eps, delta


@dataclass(frozen=True)
class Guarantee:
    """What a release protects, and how well: (eps, delta)-differential privacy with everything that it depends on.

    Parameters
    ----------
    eps : number > 0, or inf for no privacy; delta : number in [0, 1).
    adjacency : a key of ``ADJACENCIES``, which datasets are made hard to tell apart.
    trusted : "client" or "server", who sees the raw data; everybody else sees the release.
    mechanism : what randomises.  "gaussian" is the real-valued Gaussian, whose releases compose exactly.
    rho : number >= 0, the rate of zero-concentrated privacy that holds too, or None.
    renyi : tuple of the divergences at ``privacy.ORDERS`` that hold too, or None.
    events : tuple of Event, what was released, where that is known.
    accountant : what computed eps, with its version, as ``accountants.stated`` says it.
    claims : ids of the claims that it rests on.
    simulated : whether the noise came from a seeded generator, which whoever knows the seed can subtract: then nothing is
        protected, and the numbers are what noise from the system's entropy would give.

    >>> print(Guarantee(1.0, 0.0, "client", "client", "two-point", claims=("generative:qpriv",)))
    eps=1, delta=0 (two-point): all rows of one client take any other values; the numbers of rows and of clients are public
    """

    eps: float
    delta: float
    adjacency: str
    trusted: str
    mechanism: str
    rho: float | None = None
    renyi: tuple[float, ...] | None = None
    claims: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    accountant: str = field(default_factory=lambda: stated("exact"))
    simulated: bool = False

    def __post_init__(self):
        budget_numbers(self.eps, self.delta)
        choice("adjacency", self.adjacency, ADJACENCIES)
        choice("trusted", self.trusted, ("client", "server"))
        if not isinstance(self.simulated, bool):
            raise ValueError(f"simulated must be True or False, got {type(self.simulated).__name__}")
        if self.rho is not None:
            nonnegative("rho", self.rho, infinite=True)
        if self.renyi is not None:
            if len(self.renyi) != len(ORDERS):
                raise ValueError(f"renyi must have one entry for each of the {len(ORDERS)} ORDERS, got {len(self.renyi)}")
            nonnegative("renyi", self.renyi, infinite=True)

    def __str__(self):
        text = f"eps={self.eps:g}, delta={self.delta:g} ({self.mechanism}): {ADJACENCIES[self.adjacency]}"
        return would_be(text) if self.simulated else text

    def covers(self, adjacency: str) -> bool:
        """Whether the guarantee holds for that adjacency; replacing all rows includes replacing one."""
        return self.adjacency == adjacency or (self.adjacency, adjacency) in (
            ("client", "row"),
            ("client add-remove", "row add-remove"),
        )

    def divergences(self) -> Floats | None:
        """Return upper bounds on the Renyi divergences at ``ORDERS``, or None if nothing but (eps, delta) is known."""
        orders = np.array(ORDERS)
        bounds = [np.sum([divergences(event) for event in self.events], axis=0)] if self.events else []
        bounds += [np.asarray(self.renyi)] if self.renyi is not None else []
        if self.rho is not None:
            bounds.append(self.rho * orders)
        if self.delta == 0:
            bounds.append(privacy.rdp_pure(self.eps, orders))
        return np.min(bounds, axis=0) if bounds else None

    def released(self) -> tuple[Event, ...] | None:
        """Return events that cost at least what was released, its own or as its numbers say; None if there are none."""
        if self.events or not self.eps < np.inf:
            return self.events or None
        if self.mechanism == "gaussian" and self.rho is not None:
            with quiet():
                return (Event(noise=float(np.sqrt(0.5 / np.float64(self.rho)))),)
        return (Event(mechanism="pure", noise=1 / self.eps),) if self.delta == 0 and self.eps > TINY else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite eps or rho is the string "inf"."""
        return {
            "eps": _plain(self.eps),
            "delta": float(self.delta),
            "adjacency": self.adjacency,
            "trusted": self.trusted,
            "mechanism": self.mechanism,
            "rho": None if self.rho is None else _plain(self.rho),
            "renyi": None if self.renyi is None else [_plain(x) for x in self.renyi],
            "claims": list(self.claims),
            "events": [{**asdict(event), "noise": _plain(event.noise)} for event in self.events],
            "accountant": self.accountant,
            "simulated": self.simulated,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the guarantee that `to_dict` gave."""
        try:
            rho, renyi = data["rho"], data.get("renyi")
            events = [dict(event) for event in data.get("events", ())]
            return cls(
                eps=float(data["eps"]),
                delta=float(data["delta"]),
                adjacency=data["adjacency"],
                trusted=data["trusted"],
                mechanism=str(data["mechanism"]),
                rho=None if rho is None else float(rho),
                renyi=None if renyi is None else tuple(map(float, renyi)),
                claims=tuple(map(str, data["claims"])),
                events=tuple(Event(**{**event, "noise": float(event["noise"])}) for event in events),
                accountant=str(data.get("accountant", "not stated")),
                simulated=data.get("simulated", False),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"guarantee is incomplete or has wrong types: {error!r}") from None


def would_be(text: str) -> str:
    """Return the words for a guarantee whose noise was seeded, from those that the system's entropy would earn.

    >>> would_be("eps=1")
    "simulated, no guarantee; the system's entropy would give eps=1"
    """
    return f"{SIMULATED}; the system's entropy would give {text}"


def _plain(value):
    return "inf" if np.isinf(value) else float(value)


def in_parallel(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Guarantee of releases about different clients together: nobody's rows are in two of them, so the worst one holds.

    Parameters
    ----------
    guarantees : at least one Guarantee, of one adjacency and one trust.

    Returns
    -------
    Guarantee, each of its numbers the largest; the rate rho and the divergences only where all have them.

    >>> print(in_parallel([Guarantee(e, 0.0, "row", "client", "answers") for e in (0.5, 1.0)]))
    eps=1, delta=0 (answers): one row of a client takes any other value; the numbers of rows are public
    """
    found = list(dict.fromkeys(guarantees))
    if not found or not all(isinstance(each, Guarantee) for each in found):
        raise ValueError("guarantees must hold at least one Guarantee, and nothing else")
    if len(found) == 1:
        return found[0]
    kinds = {(each.adjacency, each.trusted) for each in found}
    if len(kinds) > 1:
        raise ValueError(f"guarantees must have one adjacency and be trusted by one, got {sorted(kinds)}")
    curves = [each.divergences() for each in found]
    worst = None if any(curve is None for curve in curves) else np.max([c for c in curves if c is not None], axis=0)
    rates = [each.rho for each in found if each.rho is not None]
    return Guarantee(
        max(each.eps for each in found),
        max(each.delta for each in found),
        found[0].adjacency,
        found[0].trusted,
        ", ".join(sorted({each.mechanism for each in found})),
        rho=max(rates) if len(rates) == len(found) else None,
        renyi=None if worst is None else tuple(worst.tolist()),
        claims=tuple(sorted({claim for each in found for claim in each.claims})),
        accountant=", ".join(sorted({each.accountant for each in found})),
        simulated=any(each.simulated for each in found),
    )


class Budget:
    """What one person or client has spent, and a refusal of what would exceed it.

    The total is the least of the bounds that hold: the exact curve if all releases are real-valued Gaussians; privacy loss
    distributions composed, a purely private release as randomised response; Renyi divergences added at every order of
    ``privacy.ORDERS`` (mrmtl:appA:composition:adaptive); plain sums of eps and delta.  Releases known by (eps, delta) only
    are added plainly to the rest.  Later releases may depend on earlier answers; their eps, delta and mechanisms must have
    been planned without looking at those (otherwise the smaller of several bounds is not a valid stopping rule; Rogers et
    al. 2016), unless the budget has an `order`: then it is a filter, and all that may be chosen as one goes along.

    It counts in the memory of one process, so it refuses to be copied or pickled, and to be spent in a forked process: each
    copy would count for itself.  One file for all of them is ``budget_file.BudgetFile``.

    Parameters
    ----------
    eps : number > 0 or inf; delta : number in [0, 1); adjacency : key of ``ADJACENCIES``.
    order : None for releases that are planned; for adaptive spending an order of ``privacy.ORDERS`` that is fixed now, such
        as ``adaptive.best_order`` gives, at which divergences add up (delta > 0); or inf, where eps and delta do.

    >>> budget = Budget(eps=1.0, delta=1e-5, adjacency="row")
    >>> part = Guarantee(0.4, 0.0, "row", "client", "discrete-laplace")
    >>> budget.spend(part); budget.spend(part)
    >>> round(budget.spent(), 6), round(budget.left(), 6)
    (0.799972, 0.200028)
    >>> budget.spend(part)
    Traceback (most recent call last):
    ...
    ValueError: this release (eps=0.4, delta=0) would bring the total to eps=1.19995 at delta=1e-05; the budget is eps=1
    """

    def __init__(self, *, eps: float, delta: float, adjacency: str, order: float | None = None) -> None:
        self.eps, self.delta = budget_numbers(eps, delta)
        self.adjacency = choice("adjacency", adjacency, ADJACENCIES)
        self.order = None if order is None else filter_order(order, self.delta)
        self.releases: list[Guarantee] = []
        self.process = os.getpid()
        self.guard = RLock()  # of threads, between what is looked at and what is entered

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: {COPIED}")

    def check(self, guarantee: Guarantee) -> None:
        """Raise ValueError if the release has another adjacency or would exceed the budget."""
        if not isinstance(guarantee, Guarantee):
            raise ValueError(f"guarantee must be a Guarantee, got {type(guarantee).__name__}")
        if not guarantee.covers(self.adjacency):
            raise ValueError(
                f"guarantee is for the adjacency {guarantee.adjacency!r}, the budget for {self.adjacency!r}; "
                "they do not add up"
            )
        if self.order is not None and self.order < np.inf and guarantee.divergences() is None:
            raise ValueError(
                f"this release is known by eps and delta only, which the order {self.order:g} of this budget cannot add; "
                "make a budget of order inf for such releases"
            )
        total = total_epsilon((*self.releases, guarantee), self.delta, self.order)
        if total > self.eps * (1 + ROUNDING):
            raise ValueError(
                f"this release (eps={guarantee.eps:g}, delta={guarantee.delta:g}) would bring the total to "
                f"eps={total:g} at delta={self.delta:g}; the budget is eps={self.eps:g}"
            )

    def spend(self, guarantee: Guarantee) -> None:
        """Enter a release, or raise ValueError and enter nothing.  Call it before the release leaves."""
        if os.getpid() != self.process:
            raise ValueError(f"this budget counts in another process, of which this one is a fork: {COPIED}")
        with self.guard:
            self.check(guarantee)
            self.releases.append(guarantee)

    def spent(self) -> float:
        """Upper bound on eps at the budget's delta of all releases together; 0 before the first.

        Of a budget with an order it is what its filter counts, a promise for what was spent once it has stopped at its
        limit; what holds now, however one came here, is the `odometer`'s.
        """
        return total_epsilon(tuple(self.releases), self.delta, self.order)

    def odometer(self) -> float:
        """Upper bound on eps at the budget's delta now, whatever was chosen by earlier answers, and this moment too.

        Inf at delta 0 unless all releases are purely private, and with a release that is known by eps and delta only.

        >>> budget = Budget(eps=2.0, delta=1e-6, adjacency="row", order=adaptive.best_order(eps=2.0, delta=1e-6))
        >>> budget.spend(Guarantee(0.4, 0.0, "row", "client", "discrete-laplace"))
        >>> round(budget.spent(), 3), round(budget.odometer(), 3)
        (1.296, 0.4)
        """
        return running_epsilon(tuple(self.releases), self.delta)

    def left(self) -> float:
        """What is missing to the budget's eps, never below 0."""
        return max(0.0, self.eps - self.spent()) if np.isfinite(self.eps) else np.inf


def filter_order(order: float, delta: float) -> float:
    """Return the order of a filter at `delta`: inf or one of ``privacy.ORDERS``."""
    order = float(single(number, "order", order))
    if order < np.inf:
        adaptive.place(order)
        if delta == 0:
            raise ValueError(f"order must be inf for a budget with delta=0, where eps is added, got {order:g}")
    return order


def summed_curves(guarantees: Iterable[Guarantee]) -> Floats | None:
    """Return divergences at ``privacy.ORDERS`` of releases together, or None where one has none."""
    total = np.zeros(len(ORDERS))
    for each, times in Counter(guarantees).items():
        curve = each.divergences()
        if curve is None:
            return None
        total = total + times * curve
    return total


@lru_cache(maxsize=4096)
def running_epsilon(guarantees: Sequence[Guarantee], delta: float) -> float:
    """Return eps at `delta` of releases that were chosen and stopped in any way."""
    pure = sum(g.eps for g in guarantees) if all(g.delta == 0 for g in guarantees) else np.inf
    curve = summed_curves(guarantees) if delta > 0 else None
    return float(pure if curve is None else min(pure, adaptive.odometer_epsilon(curve, delta=delta)))


@lru_cache(maxsize=4096)
def total_epsilon(guarantees: Sequence[Guarantee], delta: float, order: float | None = None) -> float:
    """Return an upper bound on eps at `delta` of a tuple of releases together.

    Of planned releases (order None) the smallest that the known bounds give; else what a filter of that order counts.
    """
    if not guarantees:
        return 0.0
    if order is not None:
        if order == np.inf:
            within = sum(g.delta for g in guarantees) <= delta * (1 + ROUNDING)
            return float(sum(g.eps for g in guarantees)) if within else np.inf
        curve = summed_curves(guarantees)
        return np.inf if curve is None else float(adaptive.filter_epsilon(curve, order=order, delta=delta))
    found = [(g, g.divergences()) for g in guarantees]
    plain = [g for g, curve in found if curve is None]
    curves = [curve for _, curve in found if curve is not None]
    bounds: list[float] = [np.inf]
    if sum(g.delta for g in guarantees) <= delta * (1 + ROUNDING):
        bounds.append(sum(g.eps for g in guarantees))
    rest = delta - sum(g.delta for g in plain)
    if curves and rest > 0:
        bounds.append(sum(g.eps for g in plain) + privacy.epsilon_from_rdp(ORDERS, sum(curves), delta=rest))
    if all(g.mechanism == "gaussian" and g.rho is not None for g in guarantees):
        with quiet():
            ratio = np.sqrt(2 * sum(g.rho or 0.0 for g in guarantees))
        bounds.append(np.inf if np.isinf(ratio) else float(gaussian_epsilon(delta=delta, sensitivity=ratio, sigma=1.0)))
    elif len(guarantees) > 1 and delta > 0:
        bounds.append(composed_losses(guarantees, delta))
    return float(min(bounds))


def composed_losses(guarantees: Iterable[Guarantee], delta: float) -> float:
    """Return eps at `delta` by privacy loss distributions; releases without one are added plainly."""
    known, plain = Counter(), []
    for each in guarantees:
        events = each.released()
        if events is None:
            plain.append(each)
        for event in events or ():
            known[replace(event, number=1)] += event.number
    rest = delta - sum(g.delta for g in plain)
    if not rest > 0 or not known:
        return np.inf
    events = tuple(replace(event, number=number) for event, number in known.items())
    return sum(g.eps for g in plain) + loss_epsilon(events, rest)


# --- events ------------------------------------------------------------------------------------------------------------


@paired
def guarantee(
    events: Event | Sequence[Event],
    *,
    delta: float,
    accountant: str = "pld",
    trusted: str = "client",
    adjacency: str | None = None,
    simulated: bool = False,
) -> Guarantee:
    """Guarantee of what was run, whatever its noise was calibrated for; upper bound, exact for Gaussian noise on all rows.

    Parameters
    ----------
    events : Event with its noise, or several of one sampling.
    delta : number in [0, 1); accountant : "pld" or "rdp", see ``accountants``.
    trusted : "client", whose rows are sampled; "server", who samples clients: the adjacency then speaks of clients.
    adjacency : key of ``ADJACENCIES``, only where the sampling is "all" and names none.
    simulated : whether the noise came from a seeded generator, as of ``Guarantee``.

    Returns
    -------
    Guarantee, its eps inf without noise, its accountant the one whose bound was the smaller.

    >>> g = guarantee(Event(noise=1.0, sampling="poisson", rate=0.01, number=1000), delta=1e-5, accountant="rdp")
    >>> round(g.eps, 6), g.adjacency, g.accountant.split()[0]
    (2.101365, 'row add-remove', 'rdp')
    >>> laplace = Event(mechanism="laplace", noise=10.0, number=100)
    >>> round(guarantee(laplace, delta=1e-6, adjacency="row").eps, 2)
    4.69
    """
    choice("accountant", accountant, ACCOUNTANTS)
    events, delta = listed(events), float(single(number, "delta", delta))
    budget_numbers(1.0, delta)
    if not events:
        raise ValueError("events must have at least one Event")
    named = SAMPLINGS[events[0].sampling][0]
    if (named is None) == (adjacency is None):
        raise ValueError(f"adjacency must be given where all rows are in every release, and only there, got {adjacency!r}")
    adjacency = adjacency or (named.replace("row", "client") if trusted == "server" else named)
    eps, way = found_epsilon(events, delta, accountant)
    loud = [event for event in events if not event.silent]
    gaussian = all(event.mechanism == "gaussian" and event.rate == 1 for event in loud)
    rho, claims = None, CLAIMS
    if gaussian:
        with quiet():
            rho = float(sum(e.number * np.square(np.divide(SAMPLINGS[e.sampling][1], e.noise or 0.0)) / 2 for e in loud))
        claims = ("mrmtl:sigma-dp:exact",) if loud else ()
    elif any(event.sampling == "fixed" and event.rate < 1 for event in loud):
        claims = (*CLAIMS, "mrmtl:appA:amplification")
    kinds = sorted({f"sampled {e.mechanism}" if e.rate < 1 else e.mechanism for e in loud})
    return Guarantee(
        max(eps, np.finfo(float).tiny), delta, adjacency, trusted, "gaussian" if gaussian else ", ".join(kinds),
        rho=rho, claims=claims, events=() if gaussian else events, accountant=stated(way), simulated=simulated,
    )  # fmt: skip


# --- compositions of Gaussian releases ---------------------------------------------------------------------------------


@paired
def composed_gaussian_epsilon(*, sensitivities: ArrayLike, sigmas: ArrayLike, delta: float) -> float:
    """Smallest eps at `delta` of several Gaussian releases together; exact.

    They are as hard to tell apart as one release of sensitivity sqrt(sum (sensitivity / sigma)^2) and deviation 1 (Dong,
    Roth and Su 2022).  All under one adjacency, that of the sensitivities.  Claims: mrmtl:sigma-dp:vector,
    mrmtl:sigma-dp:exact.

    Parameters
    ----------
    sensitivities, sigmas : arrays of one length, numbers >= 0 in the units of each release; delta : number in [0, 1].

    >>> round(float(composed_gaussian_epsilon(sensitivities=[3.0, 4.0], sigmas=[18.65316, 18.65316], delta=1e-5)), 6)
    1.0
    """
    sensitivities = np.atleast_1d(nonnegative("sensitivities", sensitivities))
    sigmas = np.atleast_1d(nonnegative("sigmas", sigmas))
    if sensitivities.shape != sigmas.shape or sigmas.ndim != 1:
        raise ValueError(f"sensitivities and sigmas must be 1-d of one length, got {sensitivities.shape}, {sigmas.shape}")
    with quiet():
        ratios = np.where(sensitivities == 0, 0.0, sensitivities / sigmas)
    if np.isinf(ratios).any():
        return 0.0 if single(probability, "delta", delta) == 1 else np.inf
    return float(gaussian_epsilon(delta=delta, sensitivity=np.sqrt(np.sum(ratios**2)), sigma=1.0))


@paired
def composed_gaussian_sigma(*, sensitivities: ArrayLike, shares: ArrayLike, eps: float, delta: float) -> Floats:
    """Deviations of several Gaussian releases that together are exactly (eps, delta)-private.

    Release i gets the share of the squared ratio sensitivity / sigma; inverse of ``composed_gaussian_epsilon``.

    Parameters
    ----------
    sensitivities : array (k,) of numbers >= 0; shares : array (k,) of numbers > 0 that add to 1, or a number k of equal
        ones.
    eps : number >= 0 or inf; delta : number in [0, 1], as in `gaussian_sigma`.

    >>> composed_gaussian_sigma(sensitivities=[1.0, 1.0], shares=[0.8, 0.2], eps=1.0, delta=1e-5).round(6).tolist()
    [4.170973, 8.341946]
    """
    sensitivities = np.atleast_1d(nonnegative("sensitivities", sensitivities))
    shares = positive("shares", shares)
    if shares.ndim == 0:
        shares = np.full(int(count("shares", shares)), 1 / shares)
    if shares.shape != sensitivities.shape or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"shares must add to 1 and be as many as the sensitivities, got {shares.tolist()}")
    return gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0) * sensitivities / np.sqrt(shares)
