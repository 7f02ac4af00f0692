"""What a node was asked: the last round that each of its clients answered, in a file that outlives the node.

Noise of a round is one draw.  Whoever is answered twice in a round, or in a round that was left behind, gets two answers for
what the privacy plan counts once; so a client answers rounds in increasing order only, and with the plan's own count in each
round no total of the plan can be exceeded.  A round is entered before anything of it is computed, and is on the disk by
then: a node that is killed may have entered an answer that never left, but none has left that was not entered.

One number per client and an identity of what was planned are all that the file holds, of whatever many rounds.  Like a
``accounting.budget_file.BudgetFile``, which accounts for guarantees and not for rounds, it belongs where the data are:
whoever may write it may also replace it by an older copy.

Belongs here: `Asked` and its file.  Does not belong here: what a round releases (``plans``), the node (``runtime``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray  # by this name `typed` tells it

from estimators.federated.kinds import typed
from estimators.federated.plans import PlanBroken
from estimators.numerics.validation import index
from estimators.system import files
from estimators.system.untrusted import EXPANDED, read_bytes, read_json

__all__ = ["Asked"]

KEYS = {"kind", "plan", "last", "checksum"}


class Asked:
    """Rounds that clients have answered, of one plan.

    Parameters
    ----------
    clients : positions, increasing; rounds : whole number >= 1, how many the plan has.
    plan : str that tells the plan from others; path : file that keeps the count, made where it is not there; None: the count
        lasts as long as this object.

    Raises
    ------
    PlanBroken
        If the file is damaged, of another plan or of other clients: then nothing may be released.

    >>> asked = Asked(np.array([4, 7]), rounds=3, plan="example")
    >>> asked.enter(np.array([7]), 0)
    >>> asked.enter(np.array([7]), 0)
    Traceback (most recent call last):
    ...
    estimators.federated.plans.PlanBroken: client 7 is asked for round 1 and has answered round 1 already: one draw of \
noise is for one answer; ask for a later round
    """

    @typed
    def __init__(self, clients: ndarray, *, rounds: int, plan: str, path: str | Path | None = None) -> None:
        self.clients, self.rounds = clients, index("rounds", rounds, 1, 10**7)
        self.plan, self.path = hashlib.sha256(plan.encode()).hexdigest(), None if path is None else Path(path)
        self.last = np.full(len(clients), -1)
        with self.held():
            if self.path is not None and not self.path.exists():
                self.store(self.last)
            self.last = self.load()

    def held(self) -> Any:
        """The lock on the file, if there is one."""
        return nullcontext() if self.path is None else files.locked(self.path)

    @typed
    def enter(self, clients: ndarray, t: int) -> None:
        """These clients are about to answer round t; raise `PlanBroken` and enter nothing if one of them may not."""
        if not 0 <= t < self.rounds:
            raise PlanBroken(f"round {t + 1} is asked for, and the privacy plan has {self.rounds}; begin a new plan")
        if len(np.unique(clients)) < len(clients):
            raise PlanBroken("a client is asked twice in one order: both answers would have the same noise")
        places = np.searchsorted(self.clients, clients)
        if (self.clients[np.minimum(places, len(self.clients) - 1)] != clients).any():
            raise PlanBroken(f"clients {np.setdiff1d(clients, self.clients).tolist()} are asked and not held here")
        with self.held():
            last = self.load()
            over = np.flatnonzero(last[places] >= t)
            if len(over):
                k, done = int(clients[over[0]]), int(last[places[over[0]]])
                raise PlanBroken(
                    f"client {k} is asked for round {t + 1} and has answered round {done + 1} already: one draw of noise is "
                    "for one answer; ask for a later round"
                )
            last[places] = t
            self.store(last)
            self.last = last

    def load(self) -> np.ndarray:
        """The last rounds, as the file has them now."""
        if self.path is None:
            return self.last.copy()
        try:
            content = read_json(read_bytes(self.path, largest=EXPANDED), what=str(self.path), largest=EXPANDED)
            if not isinstance(content, dict) or content.keys() != KEYS or content.pop("checksum") != digest(content):
                raise ValueError("it does not fit its checksum")
            last = {int(k): int(t) for k, t in content["last"].items()}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise PlanBroken(f"the count {self.path} is damaged or gone ({error}); put a whole copy back") from None
        if content["kind"] != "asked" or content["plan"] != self.plan or last.keys() != set(self.clients.tolist()):
            raise PlanBroken(
                f"the count {self.path} is of another plan, seed or other clients; what it holds is not for this one"
            )
        found = np.array([last[k] for k in self.clients.tolist()])
        if (found < self.last).any():
            raise PlanBroken(f"the count {self.path} is older than what this node has answered; put the newest copy back")
        return found

    def store(self, last: np.ndarray) -> None:
        """Put the last rounds on the disk."""
        if self.path is None:
            return
        rows = zip(self.clients.tolist(), last.tolist(), strict=True)
        content: dict[str, Any] = {"kind": "asked", "plan": self.plan, "last": {str(k): t for k, t in rows}}
        files.write(self.path, json.dumps({**content, "checksum": digest(content)}))
        files.settle(self.path.parent)


def digest(content: Any) -> str:
    """SHA-256 of plain values, as sorted JSON text."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def of_plan(algorithm: Any, terms: Any, rounds: int, noise: Sequence[float] | np.ndarray | None) -> str:
    """What tells one plan from another: algorithm and settings, seed, rounds, sizes, noise."""
    work = {name: np.asarray(value).tolist() for name, value in terms.work.items()}
    numbers = np.asarray(terms.sizes).tolist(), None if noise is None else np.asarray(noise, float).tolist()
    return json.dumps([repr(algorithm), terms.model.n_parameters, terms.seed, rounds, work, *numbers], sort_keys=True)
