"""An algorithm as four pure parts, and the rounds that they make.

- `client_update`: what clients do when they are called: from a message and what they keep, a reply and what they keep now;
- `server_aggregate`: what the server makes of the replies; it knows the `Terms` of the federation and sees no rows;
- `personalise`: clients' own models from the last message and what they keep;
- `privacy_plan`: what is released of clients' data, from which noise and guarantees follow (``plans``).

None of them changes its arguments, so that the same parts run in the simulator, where all clients of a round are rows of
arrays, and at clients one by one.  The state of ``training`` is one dict: its entries named in `own` have a row for each
client, which stays there; the others are the server's.

Belongs here: the parts' meeting in a round.  Does not belong here: any algorithm's parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.kinds import typed
from estimators.federated.own_rows import OwnRows, Shards
from estimators.federated.plans import PrivacyPlan

if TYPE_CHECKING:
    from estimators.accounting.budget import Guarantee
    from estimators.federated.task import Task, Terms

__all__ = ["Parts"]

State = dict[str, Any]


class Parts:
    """Base of algorithms that are written as parts: it makes rounds, models and guarantees of them.

    A subclass has `start` and the parts.  Class attributes say what is whose:

    own : names of the state's entries of which every client keeps its own row.
    known : names among `own` that everybody can compute from the terms (noise multipliers), so that the server has them too.
    addressed : names of the message's entries that have a row for each client that is called.
    """

    own: tuple[str, ...] = ()
    known: tuple[str, ...] = ("multiplier",)
    addressed: tuple[str, ...] = ()
    rate: float | None
    number: int | None
    rate = number = None

    @typed
    def start(self, task: Terms, *, rounds: int) -> State:
        """State before the first of `rounds` rounds: every client's rows and the server's entries, from the terms alone."""
        raise NotImplementedError

    @typed
    def called(self, task: Terms, t: int) -> np.ndarray:
        """Positions of the clients that get the message of round t, increasing."""
        return task.participants(t, rate=self.rate, number=self.number)

    @typed
    def message(self, task: Terms, server: Mapping[str, Any], clients: np.ndarray) -> State:
        """What the server sends these clients; "shared" is the model of all, if there is one."""
        return {name: server[name] for name in ("shared",) if name in server}

    @typed
    def client_update(
        self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any], t: int
    ) -> tuple[State, State]:
        """What some clients reply in round t, and what they keep: dicts of arrays with a row for each of them."""
        raise NotImplementedError

    @property
    def trains_alone(self) -> bool:
        """Whether clients that are not called do anything, so that they are asked for what they keep."""
        return type(self).client_alone is not Parts.client_alone

    @typed
    def client_alone(self, task: Task, clients: np.ndarray, own: Mapping[str, Any], t: int) -> State:
        """What clients that are not called in round t keep; {}: as it was."""
        return {}

    @typed
    def server_aggregate(
        self, task: Terms, server: Mapping[str, Any], t: int, clients: np.ndarray, reply: Mapping[str, Any]
    ) -> tuple[State, State]:
        """What changes at the server in round t by the replies of some clients, and notes, numbers for the history."""
        raise NotImplementedError

    @typed
    def personalise(self, task: Task, clients: np.ndarray, message: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
        """Own models (C, P) of some clients, or a `Mixture`; None: they use the shared one."""
        return own.get("personal")

    @typed
    def privacy_plan(self, task: Terms, *, rounds: int) -> PrivacyPlan:
        """What so many rounds release about clients' data; without privacy an empty plan, which promises nothing."""
        return PrivacyPlan()

    # --- what the loop asks

    @typed
    def guarantees(self, task: Terms, *, rounds: int) -> list[Guarantee | None]:
        """Guarantee of each client after `rounds` rounds, None where nothing is promised."""
        return self.privacy_plan(task, rounds=rounds).guarantees(task)

    @typed
    def server_part(self, state: Mapping[str, Any]) -> State:
        """The server's entries of a state."""
        return {name: value for name, value in state.items() if name not in self.own or name in self.known}

    @typed
    def client_part(self, state: Mapping[str, Any], clients: np.ndarray) -> State:
        """The rows of a state that some clients keep."""
        mine = {name: state[name] for name in self.own if name in state}
        whole = all(len(clients) == len(value) and not isinstance(value, OwnRows) for value in mine.values())
        return mine if whole else {name: value[clients] for name, value in mine.items()}

    @typed
    def round(self, task: Task, state: dict[str, Any], t: int) -> State:
        """Do round t = 0, 1, ...: change `state` in place, after everything else; return notes for the history."""
        terms, server = task.terms, self.server_part(state)
        clients, reply, kept = self.called(task, t), {}, []
        if len(clients):
            message = self.message(terms, server, clients)
            reply, mine = self.client_update(task, clients, message, self.client_part(state, clients), t)
            whole(clients, reply, t)
            kept.append((clients, mine))
        if self.trains_alone:
            others = np.setdiff1d(np.arange(task.n_clients), clients)
            if len(others):
                kept.append((others, self.client_alone(task, others, self.client_part(state, others), t)))
        changed, notes = self.server_aggregate(terms, server, t, clients, reply)
        for positions, mine in kept:
            fitting(positions, mine, state, t)
        if task.meter is not None:
            task.meter.close(clients)
        state |= changed
        for positions, mine in kept:
            for name, rows in mine.items():
                if len(positions) == task.n_clients and not isinstance(state[name], OwnRows):
                    state[name] = rows
                else:
                    state[name][positions] = rows
        return notes

    @typed
    def models(self, task: Task, state: dict[str, Any]) -> State:
        """Learned parameters: "shared" (P,), "personal" (K, P), `Shards` of them or a `Mixture`, either or both."""
        everyone = np.arange(task.n_clients)
        message = self.message(task.terms, self.server_part(state), everyone)
        found = {name: message[name] for name in ("shared",) if name in message}
        kept = [state[name] for name in self.own if isinstance(state.get(name), OwnRows)]
        if kept and not self.addressed:

            def some(clients):
                return self.personalise(task, clients, message, self.client_part(state, clients))

            return {**found, "personal": Shards(some, kept[0].shape)}
        personal = self.personalise(task, everyone, message, self.client_part(state, everyone))
        return found if personal is None else {**found, "personal": personal}


def fitting(positions: np.ndarray, mine: Mapping[str, Any], state: Mapping[str, Any], t: int) -> None:
    """Refuse what clients keep, if it is no row of the state's own entries, before any of the state is changed."""
    for name, rows in mine.items():
        if name not in state:
            made = ", ".join(state)
            raise ValueError(f"clients keep {name!r} after round {t + 1}, which start does not make; it makes {made}")
        wanted = (len(positions), *state[name].shape[1:])
        if np.shape(rows) != wanted:
            raise ValueError(f"clients must keep {name} of shape {wanted} after round {t + 1}, got {np.shape(rows)}")


@typed
def whole(clients: np.ndarray, reply: Mapping[str, Any], t: int) -> None:
    """Refuse replies that do not have a row of finite numbers for each client.

    >>> whole(np.array([3, 5]), {"ends": np.array([[1.0], [np.nan]])}, 0)
    Traceback (most recent call last):
    ...
    ValueError: client 5 sends numbers that are not finite (ends) in round 1; lower its learning_rate, or leave it out
    """
    for name, rows in reply.items():
        try:
            rows = np.asarray(rows)
        except ValueError:
            raise ValueError(f"client_update must reply with rows of one shape as {name}, got several shapes") from None
        if rows.shape[:1] != (len(clients),):
            raise ValueError(
                f"client_update must reply with a row of {name} for each of {len(clients)} clients, got shape {rows.shape}"
            )
        lost = np.flatnonzero(~np.isfinite(rows.reshape(len(clients), -1)).all(axis=1))
        if len(lost):
            raise ValueError(
                f"client {int(clients[lost[0]])} sends numbers that are not finite ({name}) in round {t + 1}; lower its "
                "learning_rate, or leave it out"
            )
