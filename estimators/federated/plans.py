"""What an algorithm releases about its clients' data: declared before anything runs, counted while it runs.

A `PrivacyPlan` says what is released, in which rounds, how often in each, and how far a neighbour can move one release.
Noise is calibrated for the numbers of the plan and guarantees are computed from them; a `Meter` counts the releases that a
round really makes, where they are made (``task``), and refuses the first one that the plan does not have: before it is made.

The count does not confine: what uses clients' data without a release is named in the plan's text as not covered. Measures
of models (accuracy and loss, on training or test rows) are no releases of a plan: they leave exactly, nothing counts them,
and no guarantee covers them.

Belongs here: the declaration, the count, `PlanBroken`.  Does not belong here: noise for given numbers (``privacy``,
``row_accounting``), the releases themselves (``task``), which algorithm releases what (``algorithms``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting.budget import SIMULATED
from estimators.federated.kinds import several, typed
from estimators.federated.row_accounting import choices_rho, guarantees_beside
from estimators.numerics.validation import choice, index, nonnegative, number, shown

if TYPE_CHECKING:
    from estimators.accounting.budget import Guarantee
    from estimators.federated.task import Terms

__all__ = ["ALWAYS_UNCOVERED", "KINDS", "Meter", "PlanBroken", "PrivacyPlan", "Release"]

KINDS = {
    "training": ("row", "clip of the privacy, twice that where batches have a fixed size"),
    "choice": ("row", "one, or the cap: what a row adds to a score"),
    "score": ("row", "one, or the cap: what a row for validation adds to the score of a run"),
    "sum": ("client", "clipping norm of a client's update, twice that where so many clients take part"),
    "count": ("client", "1/2: a client gives +1/2 or -1/2"),
    "step": ("client", "clip of a local step's gradient, twice that for another client's data"),
}
"""Kinds of releases: whose data one protects, a "row" or all of a "client", and how far a neighbour moves it."""
ALWAYS_UNCOVERED = (
    "measures on test rows and the notes of rounds, which are exact: for the experimenter, not for publication",
    "names of clients and their numbers of rows, which are public",
    "code that reaches rows by another way than its task (a reference it kept, a file): releases are counted, not confined",
    f"anybody who knows or guesses the seed, and with it all noise: a training here is {SIMULATED}",
)
"""What no plan covers, whatever the algorithm."""
PROTECTS = ("nothing", "row", "client")
SLACK = 1 + 1e-9


class PlanBroken(ValueError):
    """A round released what the privacy plan does not have, or did not release what it has."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One kind of release about a client's data, and how often it is made.

    Parameters
    ----------
    what : a key of KINDS, which says what is protected and the sensitivity.
    rounds : range of the rounds t = 0, 1, ... in which it is made; times : whole number >= 0, how often in each of them.
    noise : number >= 0, or one for each client, in units of the sensitivity (for a "choice" its eps); None: what the plan's
        privacy calibrates.
    clients : True for those whose data are in it, (K,); None: all.

    >>> Release(what="training", rounds=range(10), times=2).number
    20
    """

    what: str
    rounds: range
    times: int = 1
    noise: Any = None
    clients: Any = None

    def __post_init__(self):
        choice("what", self.what, KINDS)
        if not isinstance(self.rounds, range):
            raise ValueError(f"rounds must be a range of rounds, as range(rounds), got {self.rounds!r}")
        index("times", self.times, 0, 10**9)

    @property
    def number(self) -> int:
        """How often it is made over all rounds, at most."""
        return len(self.rounds) * self.times

    @typed
    def at(self, t: int, K: int) -> np.ndarray:
        """How often it is made in round t about each of K clients (K,)."""
        mask = np.ones(K, bool) if self.clients is None else np.asarray(self.clients, bool)
        return np.where(mask, self.times if t in self.rounds else 0, 0)


@dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """What is released about clients' data over a whole training, and what its noise is calibrated from.

    Parameters
    ----------
    releases : list of Release, all that leaves a client, or the server where it is trusted; () where nothing is promised.
    privacy : RowPrivacy whose noise is calibrated for these releases; None where their noise is given.
    uncovered : texts, what the algorithm makes of clients' data beside its releases; no guarantee speaks of it.

    >>> plan = PrivacyPlan(releases=[Release(what="training", rounds=range(5), times=2)])
    >>> plan.count("training")
    10
    >>> plan.text()[:79]
    "released: training, 10 times (2 in each of 5 rounds), about all clients' rows; "
    """

    releases: Sequence[Release] = ()
    privacy: Any = None
    uncovered: Sequence[str] = ()
    protects: str = field(init=False, default="nothing")

    def __post_init__(self):
        if not several(self.releases) or not all(isinstance(release, Release) for release in self.releases):
            raise ValueError(f"releases must be a list of Release, got {shown(self.releases)}")
        kinds = [release.what for release in self.releases]
        if len(set(kinds)) < len(kinds) and {"row"} & {KINDS[kind][0] for kind in kinds}:
            raise ValueError(f"releases must have each kind of release about rows once, got {', '.join(kinds)}")
        protected = {KINDS[kind][0] for kind in kinds}
        if len(protected) > 1:
            raise ValueError(f"releases must all protect rows, or all whole clients, got {', '.join(kinds)}")
        if self.privacy is not None and not hasattr(self.privacy, "multipliers"):
            raise ValueError(f"privacy must be a RowPrivacy or None, got {self.privacy!r}")
        if not several(self.uncovered) or not all(isinstance(text, str) and text for text in self.uncovered):
            raise ValueError(f"uncovered must be a list of texts, got {shown(self.uncovered)}")
        object.__setattr__(self, "protects", protected.pop() if protected else "nothing")

    @typed
    def text(self) -> str:
        """The plan in lines: what is released how often, and what uses clients' data without being counted."""
        lines = []
        for release in self.releases:
            whose, moved = KINDS[release.what]
            mask = None if release.clients is None else np.asarray(release.clients, bool)
            who = "all clients'" if mask is None or mask.all() else f"{mask.sum()} clients'"
            often = f"{release.number} times ({release.times} in each of {len(release.rounds)} rounds)"
            data = "rows" if whose == "row" else "whole data"
            lines.append(f"released: {release.what}, {often}, about {who} {data}; moved by {moved}")
        if not lines:
            lines.append("released: nothing is declared, and nothing is promised")
        return "\n".join([*lines, *(f"not covered: {text}" for text in (*self.uncovered, *ALWAYS_UNCOVERED))])

    @typed
    def count(self, what: str) -> int:
        """How often releases of a kind are made over all rounds."""
        return sum(release.number for release in self.releases if release.what == what)

    @typed
    def rho(self, terms: Terms) -> np.ndarray:
        """Zero-concentrated rate (K,) of a client's private choices, 0 where they have no eps."""
        found = np.zeros(terms.n_clients)
        for release in self.releases:
            if release.what == "choice":
                eps = np.broadcast_to(number("noise", release.noise), terms.n_clients)
                found += [choices_rho(e, release.number) if np.isfinite(e) else 0.0 for e in eps]
        return found

    @typed
    def multipliers(self, terms: Terms) -> np.ndarray:
        """Noise multiplier (K,) of each client's private training, for the number of trainings that the plan has.

        Raises ValueError naming a client whose eps no noise can meet.
        """
        beside = {"rho": self.rho(terms)} if self.chooses else {}
        return self.privacy.multipliers(terms, rounds=self.count("training"), **beside)

    @typed
    def guarantees(self, terms: Terms) -> list[Guarantee | None]:
        """Guarantee of each client's rows, None where nothing is promised."""
        if self.privacy is None:
            return [None] * terms.n_clients
        trainings = self.count("training")
        if self.chooses:
            return guarantees_beside(self.privacy, terms, rounds=trainings, rho=self.rho(terms))
        return self.privacy.guarantees(terms, rounds=trainings)

    @property
    def chooses(self) -> bool:
        """Whether clients make private choices beside training."""
        return any(release.what == "choice" for release in self.releases)

    @typed
    def meter(self, terms: Terms) -> Meter | None:
        """`Meter` of a training; None where nothing is promised, so that nothing is counted."""
        noise = None if self.privacy is None else self.multipliers(terms)
        if self.protects == "nothing" or (noise is not None and not noise.any()):
            return None
        return Meter(self, terms.n_clients, noise)


class Meter:
    """Counts the releases of a round against a plan, and refuses what the plan does not have.

    Its methods are called where releases are made, before they are made; each raises `PlanBroken` with what to do.

    Parameters
    ----------
    plan : PrivacyPlan; K : whole number >= 1 of clients.
    noise : multipliers (K,) of private training that the plan's privacy needs, None where it has no such training.
    """

    @typed
    def __init__(self, plan: PrivacyPlan, K: int, noise: np.ndarray | None = None) -> None:
        self.plan, self.K, self.noise = plan, K, noise
        self.begin(0)

    @typed
    def begin(self, t: int) -> None:
        """Round t begins: nothing is counted yet."""
        self.t = t
        self.planned = {kind: np.zeros(self.K, np.int64) for kind in KINDS}
        for release in self.plan.releases:
            self.planned[release.what] += release.at(t, self.K)
        self.made = {kind: np.zeros(self.K, np.int64) for kind in KINDS}
        self.drawn: set = set()

    @typed
    def again(self) -> Meter:
        """A meter of the same plan and round that has counted nothing, for another run of the same training."""
        other = Meter(self.plan, self.K, self.noise)
        other.begin(self.t)
        return other

    def raw(self) -> None:
        """Rows are read, but not by a release."""
        if self.plan.protects == "row":
            raise PlanBroken(
                "the round reads rows that its privacy plan protects outside of every release; train by task.train, choose "
                "by task.choose, and declare both in privacy_plan"
            )

    @typed
    def training(self, clients: np.ndarray, *, clip: Any, multiplier: Any, stage: int, own_batches: bool) -> None:
        """These clients train on their rows, with this noise in units of this clip."""
        if self.plan.protects != "row" or self.noise is None:
            return
        wanted = self.noise[clients]
        given = np.broadcast_to(0.0 if multiplier is None else nonnegative("multiplier", multiplier), len(clients))
        short = np.flatnonzero(given * SLACK < wanted)
        if len(short):
            k = int(clients[short[0]])
            raise PlanBroken(
                f"client {k} trains with noise {given[short[0]]:.6g} in round {self.t + 1}, and the privacy plan needs "
                f"{wanted[short[0]]:.6g} for {self.plan.count('training')} trainings; give clip and multiplier as the state "
                "of `start` has them, and begin anew where the plan was changed since"
            )
        private = clients[wanted > 0]
        if len(private) == 0:
            return
        if clip is None or (np.broadcast_to(clip, len(clients))[wanted > 0] > self.plan.privacy.clip * SLACK).any():
            raise PlanBroken(f"clip must be at most that of the privacy plan, {self.plan.privacy.clip:g}, got {clip}")
        if own_batches:
            raise PlanBroken(
                "private training draws its batches from the task's work, for which noise is calibrated; leave out steps "
                "and batches, and change the work instead"
            )
        self.count("training", private)
        for k in private.tolist():
            self.once(f"client {k} trains", (k, stage))

    @typed
    def choice(self, clients: np.ndarray, eps: np.ndarray) -> None:
        """These clients choose, each by an exponential mechanism of its eps."""
        self.count("choice", clients)
        for release in self.plan.releases:
            if release.what == "choice":
                allowed = np.broadcast_to(number("noise", release.noise), self.K)[clients]
                over = np.flatnonzero(eps > allowed * SLACK)
                if len(over):
                    k, spent, planned = int(clients[over[0]]), eps[over[0]], allowed[over[0]]
                    raise PlanBroken(f"client {k} chooses with eps {spent:.6g}; the privacy plan has {planned:.6g}")

    @typed
    def score(self, clients: np.ndarray, *, multiplier: Any) -> None:
        """A run is scored on these clients' rows for validation, each with this noise in units of the sensitivity."""
        self.count("score", clients)
        for release in self.plan.releases:
            if release.what == "score" and float(multiplier) * SLACK < float(release.noise):
                raise PlanBroken(f"a run is scored with noise {multiplier:.6g}; the privacy plan has {release.noise:.6g}")

    @typed
    def noisy(
        self, what: str, clients: np.ndarray, *, parts: np.ndarray, sensitivity: float, multiplier: Any, stage: int
    ) -> None:
        """The server adds noise to the sum of what clients sent, in units of the sensitivity.

        `parts` are the norms of what each of those that take part adds to the sum: none may be above the sensitivity.
        """
        if self.plan.protects != "client":
            return
        large = np.flatnonzero(~(parts <= sensitivity * SLACK))
        if len(large):
            raise PlanBroken(
                f"a client adds more to the {what} of round {self.t + 1} than the sensitivity {sensitivity:.6g} that its "
                "noise is for; clip what it sent first"
            )
        self.once("the server draws noise", ("server", stage))
        needed = np.full(self.K, np.inf)
        for release in self.plan.releases:
            if release.what == what:
                needed = np.where(release.at(self.t, self.K) > 0, np.minimum(needed, release.noise), needed)
        short = np.flatnonzero(float(multiplier) * SLACK < needed[clients])
        if len(short):
            k, least = int(clients[short[0]]), needed[clients][short[0]]
            has = f"has {least:.6g} for client {k}" if np.isfinite(least) else f"has no such release of client {k}"
            made = f"a {what} is released in round {self.t + 1} with noise {multiplier:.6g}"
            raise PlanBroken(f"{made}; the privacy plan {has}")
        self.count(what, clients)

    @typed
    def steps(self, clients: np.ndarray, numbers: np.ndarray, *, multiplier: Any) -> None:
        """These clients take so many local steps, each of which releases a clipped gradient with this noise."""
        release = next((r for r in self.plan.releases if r.what == "step"), None)
        if release is None:
            return
        if float(np.min(multiplier)) * SLACK < float(release.noise):
            raise PlanBroken(f"steps are released with noise {multiplier}; the privacy plan has {float(release.noise):.6g}")
        self.count("step", clients, numbers)

    def count(self, what: str, clients: np.ndarray, numbers: Any = 1) -> None:
        """Add to what was made, and refuse what is too much."""
        self.made[what][clients] += numbers
        over = np.flatnonzero(self.made[what] > self.planned[what])
        if len(over):
            k = int(over[0])
            raise PlanBroken(
                f"client {k} makes {self.made[what][k]} releases ({what}) in round {self.t + 1}; its privacy plan counts "
                f"{self.planned[what][k]}, for which the noise is too small; declare them in privacy_plan"
            )

    def once(self, who: str, key: tuple[Any, int]) -> None:
        """Refuse noise that was drawn before: what has the same noise twice has none in the difference."""
        if key in self.drawn:
            raise PlanBroken(
                f"{who} twice in stage {key[1]} of round {self.t + 1}, with the same noise; give another stage, and declare "
                "both releases in privacy_plan"
            )
        self.drawn.add(key)

    @typed
    def close(self, called: np.ndarray | None = None) -> None:
        """The round is over: whoever released anything, or was called, has released all that the plan has.

        Parameters
        ----------
        called : positions of the clients that sent anything to the server, where that is known.
        """
        active = np.zeros(self.K, bool)
        if self.plan.protects == "client" and called is not None:
            active[called] = True
        elif self.noise is not None:
            active = np.any(list(self.made.values()), axis=0) & (self.noise > 0)
        for what in ("training", "choice", "sum", "count"):
            short = np.flatnonzero(active & (self.made[what] < self.planned[what]))
            if len(short):
                k = int(short[0])
                raise PlanBroken(
                    f"client {k} is in {self.made[what][k]} noisy releases ({what}) in round {self.t + 1}; its privacy plan "
                    f"has {self.planned[what][k]}: either its data are used without noise, or the noise of others is too "
                    "large; correct privacy_plan"
                )
