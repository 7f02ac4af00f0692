"""The four parts of an algorithm at two places: a `Server` that sees no rows, and `Node`s that keep those of some clients.

What ``Parts.round`` does for all clients at once, these do with messages in between, and give the same bits: every random
number is a function of (seed, purpose, round, client), and a client's step does not depend on who is computed beside it.
Whoever carries the messages (``flower``, or a loop in one process) needs dicts of arrays only.

Both places count the releases of each round against the privacy plan: a node those of its clients, the server the noise
that it adds.  That shows mistakes; it does not protect from a server that wants to know.  The server has the seed and with
it the noise of every client (``accounting.budget.SIMULATED``).  Where a plan is in force, a node answers each of its rounds
once (``asked``), also after a restart if it has a file for that count.  Measures leave exactly and are not counted by any
plan or guarantee, those of clients' own models and test rows too: they are for experiments, and a node that must keep its
promise to people is made with ``measures=False``, which refuses them.

Belongs here: the two places.  Does not belong here: transport (``flower``), rounds of a simulation (``algorithms.parts``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from estimators.federated.algorithms.parts import Parts, whole
from estimators.federated.asked import Asked, of_plan
from estimators.federated.backend import ClientArrays, Evaluation
from estimators.federated.plans import PlanBroken
from estimators.federated.predictions import Mixture, evaluate_mixture
from estimators.federated.task import summaries
from estimators.numerics.validation import index

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["Node", "Order", "Server", "own_rows"]

Arrays = dict[str, Any]


class Order(NamedTuple):
    """What the server asks of some clients of one node: the round, those it calls, those it does not, the message."""

    t: int
    called: np.ndarray
    others: np.ndarray
    message: Arrays


def parts_of(algorithm: Any) -> Parts:
    """The algorithm, if its rounds are made of the four parts."""
    if not isinstance(algorithm, Parts) or type(algorithm).round is not Parts.round:
        raise ValueError(f"{type(algorithm).__name__} makes rounds of its own; a runtime needs the four parts of Parts")
    return algorithm


def own_rows(task: Task, clients: Sequence[int] | np.ndarray) -> Task:
    """The same task with the training rows of these clients only: all others are NaN, which no reply can hide."""
    mine = np.zeros(task.n_clients, bool)
    mine[np.asarray(clients)] = True
    view, rows = copy(task.bare), task.bare.rows
    kept = np.repeat(mine, rows.sizes)
    view.rows = ClientArrays(
        np.where(kept[:, None], rows.x, np.nan).astype(rows.x.dtype),
        np.where(kept, rows.y, np.nan).astype(rows.y.dtype), rows.first, rows.sizes,
    )  # fmt: skip
    return view


class Node:
    """Some clients of a federation with their rows and what they keep.

    Parameters
    ----------
    algorithm : algorithm made of ``algorithms.parts``; task : Task, of which only the rows of `clients` are read.
    rounds : whole number >= 1; clients : positions, increasing.
    own : what the clients kept after an earlier round, rows in the order of `clients`; None: they begin.
    count : file in which the node keeps what it answered under its privacy plan, over restarts; None: it counts while it
        lives.
    measures : whether it tells measures on rows, which no plan counts.

    Raises
    ------
    PlanBroken
        If a client is asked again for a round, or `count` is of another plan.
    """

    def __init__(
        self, algorithm: Any, task: Task, *, rounds: int, clients: Sequence[int], own: Mapping[str, Any] | None = None,
        count: str | Path | None = None, measures: bool = True,
    ) -> None:  # fmt: skip
        self.algorithm, self.clients = parts_of(algorithm), np.unique(np.asarray(clients, dtype=np.int64))
        if (
            len(self.clients) != len(clients)
            or len(clients) == 0
            or not 0 <= self.clients[0] <= self.clients[-1] < task.n_clients
        ):
            raise ValueError(f"clients must be different positions below {task.n_clients}, got {list(clients)}")
        rounds = index("rounds", rounds, 1, 10**7)
        self.meter = algorithm.privacy_plan(task.terms, rounds=rounds).meter(task.terms)
        self.task = own_rows(task, self.clients).metered(self.meter)
        self.asked, self.measures = None, measures
        if self.meter is not None:
            plan = of_plan(algorithm, task.terms, rounds, self.meter.noise)
            self.asked = Asked(self.clients, rounds=rounds, plan=plan, path=count)
        if own is None:
            start = algorithm.start(task.terms, rounds=rounds)
            own = {name: np.array(value[self.clients]) for name, value in start.items() if name in algorithm.own}
        self.own: Arrays = dict(own)

    def update(self, order: Order) -> Arrays:
        """Do what the server asks; the reply has a row for each client that it calls."""
        alone = self.algorithm.trains_alone
        if self.meter is not None and self.asked is not None:
            who = [order.called, order.others] if alone else [order.called]
            self.asked.enter(np.concatenate(who).astype(np.int64), int(order.t))
            self.meter.begin(order.t)
        reply: Arrays = {}
        kept = []
        if len(order.called):
            reply, mine = self.algorithm.client_update(
                self.task, order.called, order.message, self.rows_of(order.called), order.t
            )
            whole(order.called, reply, order.t)
            kept.append((order.called, mine))
        if len(order.others) and alone:
            mine = self.algorithm.client_alone(self.task, order.others, self.rows_of(order.others), order.t)
            kept.append((order.others, mine))
        if self.meter is not None:
            self.meter.close()
        for who, mine in kept:
            places = np.searchsorted(self.clients, who)
            for name, rows in mine.items():
                self.own[name] = np.array(self.own[name])
                self.own[name][places] = rows
        return reply

    def rows_of(self, clients: np.ndarray) -> Arrays:
        """What some of the clients keep."""
        places = np.searchsorted(self.clients, clients)
        return {name: value[places] for name, value in self.own.items()}

    def measure(self, message: Mapping[str, Any]) -> dict[str, Evaluation]:
        """Measures of the shared and of the clients' own models on the test rows of the node's clients that have any.

        They are exact, for experiments: no privacy plan counts them and no guarantee covers them.

        Raises PlanBroken from a node without measures.
        """
        if not self.measures:
            raise PlanBroken("this node tells no measures: they would leave exactly, and no privacy plan counts them")
        task = self.task.bare
        here = np.flatnonzero(np.isin(task.tested, self.clients))
        if task.test is None or len(here) == 0:
            return {}
        who, found = task.tested[here], {}
        personal = self.algorithm.personalise(self.task, self.clients, message, self.own)
        models = {name: message[name] for name in ("shared",) if name in message}
        models |= {} if personal is None else {"personal": personal}
        data, places = task.test.take(here), np.searchsorted(self.clients, who)
        for name, parameters in models.items():
            if isinstance(parameters, Mixture):
                found[name] = evaluate_mixture(task.backend, task.model, parameters.take(places), data)
            else:
                own = parameters[places] if np.ndim(parameters) == 2 else parameters
                found[name] = task.backend.evaluate(task.model, own, data)
        return found


class Server:
    """The server of a federation, which knows its terms and sees no rows.

    Parameters
    ----------
    algorithm : algorithm made of ``algorithms.parts``; terms : Terms; rounds : whole number >= 1.
    """

    def __init__(self, algorithm: Any, terms: Terms, *, rounds: int) -> None:
        self.algorithm, self.terms = parts_of(algorithm), copy(terms)
        self.rounds = index("rounds", rounds, 1, 10**7)
        self.meter = algorithm.privacy_plan(terms, rounds=self.rounds).meter(terms)
        self.terms.meter = self.meter
        self.state = algorithm.server_part(algorithm.start(terms, rounds=self.rounds))

    def orders(self, t: int, nodes: Sequence[Sequence[int]]) -> list[Order]:
        """What to ask of nodes that hold these clients in round t; a node of which nothing is asked has no called ones."""
        called = self.algorithm.called(self.terms, t)
        message = self.algorithm.message(self.terms, self.state, called) if len(called) else {}
        found = []
        for clients in map(np.asarray, nodes):
            here = clients[np.isin(clients, called)]
            others = clients[~np.isin(clients, called)] if self.algorithm.trains_alone else clients[:0]
            found.append(Order(t, here, others, self.addressed(message, called, here)))
        return found

    def addressed(self, message: Arrays, called: np.ndarray, here: np.ndarray) -> Arrays:
        """A message with the rows of some of those whom it is for."""
        places = np.searchsorted(called, here)
        rows = self.algorithm.addressed
        return {name: np.asarray(value)[places] if name in rows else np.asarray(value) for name, value in message.items()}

    def aggregate(self, t: int, answers: Sequence[tuple[np.ndarray, Mapping[str, Any]]]) -> Arrays:
        """Take the replies of round t, pairs of clients and rows; whoever is missing dropped out.  Returns notes.

        Raises RuntimeError if all did.
        """
        answers = [(clients, reply) for clients, reply in answers if len(clients)]
        for clients, reply in answers:
            whole(clients, reply, t)
        called = np.concatenate([clients for clients, _ in answers]) if answers else np.empty(0, np.int64)
        wanted = self.algorithm.called(self.terms, t)
        if len(wanted) and not len(called):
            raise RuntimeError(f"none of {len(wanted)} clients answered in round {t + 1}; the rounds before it are kept")
        order = np.argsort(called)
        names = answers[0][1] if answers else {}
        reply = {name: np.concatenate([np.asarray(rows[name]) for _, rows in answers])[order] for name in names}
        clients = called[order]
        if self.meter is not None:
            self.meter.begin(t)
        changed, notes = self.algorithm.server_aggregate(self.terms, self.state, t, clients, reply)
        if self.meter is not None:
            self.meter.close(clients)
        self.state |= changed
        return notes

    def last_message(self, clients: Sequence[int]) -> Arrays:
        """The message that models are made from, for a node with these clients."""
        everyone = np.arange(self.terms.n_clients)
        message = self.algorithm.message(self.terms, self.state, everyone)
        return self.addressed(message, everyone, np.asarray(clients))

    def measure(self, answers: Sequence[tuple[np.ndarray, Mapping[str, Evaluation]]], sizes: np.ndarray) -> dict[str, float]:
        """Measures over all clients, as ``Task.measure`` has them, from pairs of a node's tested clients and their measures.

        sizes : array of test rows of the tested clients, in increasing order of clients.
        """
        tested = np.concatenate([clients for clients, _ in answers])
        order, found = np.argsort(tested), {}
        for name in answers[0][1]:
            parts = [measures[name] for _, measures in answers]
            loss = np.concatenate([part.loss for part in parts])[order]
            right = [part.accuracy for part in parts if part.accuracy is not None]
            result = Evaluation(loss, np.concatenate(right)[order] if right else None)
            found |= summaries(name, result, sizes=sizes, tested=tested[order], groups=self.terms.groups)
        return found
