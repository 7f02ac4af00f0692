"""One federation over several processes of this machine: in each some of the clients, here the server; the same bits.

What ``training`` does in one process, with messages between a ``runtime.Server`` and a ``runtime.Node`` in each process.
After every round what its clients keep comes back, so that the state is whole here: it can be stored, measured and gone on
with, in one process or in another number of them.

It is for long runs whose steps one process does not spread over the cores, for starting takes seconds, and for trying what
crosses a line; ``flower`` is for machines.

Belongs here: starting the processes, carrying messages to and from them.  Does not belong here: what server and nodes do
(``runtime``), how processes end (``system.processes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.experiments.building import Built
from estimators.federated.kinds import typed
from estimators.federated.plans import PrivacyPlan
from estimators.federated.runtime import Arrays, Node, Order, Server, parts_of
from estimators.federated.training import Progress, training
from estimators.numerics.validation import index
from estimators.system.processes import worker_pool

if TYPE_CHECKING:
    from estimators.federated.task import Task, Terms

__all__ = ["training_in_processes"]

_here: list[Node] = []  # of a process that holds clients


@typed
def training_in_processes(
    build: Callable[[], Built],
    *,
    processes: int,
    every: int | None = None,
    state: dict[str, Any] | None = None,
    finished: int = 0,
) -> Iterator[Progress]:
    """Do one round after the other, and yield after each, as ``training.training`` does, with its bits.

    Parameters
    ----------
    build : function without arguments that makes the task, the algorithm and the number of rounds; every process calls it,
        so it can be pickled (a function of a module, or a ``functools.partial`` of one).
    processes : whole number >= 1, at most the number of clients; process i of n holds the clients i, i + n, i + 2 n, ...
    every, state, finished : as for ``training.training``.

    Raises
    ------
    ValueError
        If the algorithm is not made of the four parts, or an argument is outside its domain.
    Diverged, PlanBroken
        As ``training.training``.
    ChildProcessError
        If a process was killed; the state yielded last is that of the rounds before.

    >>> from functools import partial
    >>> from estimators.federated.experiments.building import build
    >>> from estimators.federated.experiments.experiment import read
    >>> run = read("mrmtl-figure5-school").runs([0], 2, embedded=True)[0]
    >>> [step.finished for step in training_in_processes(partial(build, run), processes=2)]
    [1, 2]
    """
    task, algorithm, rounds = build()
    processes = index("processes", processes, 1, task.n_clients)
    held = [list(range(i, task.n_clients, processes)) for i in range(processes)]
    with ExitStack() as stack:
        spread = Spread(algorithm, task, rounds, held, [stack.enter_context(worker_pool(1)) for _ in held], state)
        own = [None if state is None else algorithm.client_part(state, np.array(who)) for who in held]
        places = zip(spread.pools, held, own, strict=True)
        for future in [pool.submit(_hold, build, who, kept) for pool, who, kept in places]:
            future.result()
        yield from training(spread, task, rounds=rounds, every=every, state=state, finished=finished)


class Spread:
    """An algorithm whose rounds are done by nodes in other processes, for the loop of ``training``.

    Parameters
    ----------
    algorithm : algorithm made of ``algorithms.parts``; task : Task; rounds : whole number >= 1.
    held : positions of each node's clients; pools : a pool of one process for each node.
    state : the state to go on with; None: the first one.
    """

    def __init__(
        self,
        algorithm: Any,
        task: Task,
        rounds: int,
        held: Sequence[Sequence[int]],
        pools: Sequence[Executor],
        state: Arrays | None,
    ) -> None:
        self.algorithm, self.held, self.pools = parts_of(algorithm), held, pools
        self.server = Server(algorithm, task.terms, rounds=rounds)
        if state is not None:
            self.server.state = algorithm.server_part(state)

    def start(self, task: Task, *, rounds: int) -> Arrays:
        """State before the first round."""
        return self.algorithm.start(task.terms, rounds=rounds)

    def round(self, task: Task, state: Arrays, t: int) -> Arrays:
        """Do round t: change `state` in place, after everything else; return notes."""
        orders = self.server.orders(t, self.held)
        asked = [(pool, o) for pool, o in zip(self.pools, orders, strict=True) if len(o.called) or len(o.others)]
        futures = [(order, pool.submit(_update, order)) for pool, order in asked]
        answers = [(order, *future.result()) for order, future in futures]
        notes = self.server.aggregate(t, [(order.called, reply) for order, reply, _ in answers])
        state |= self.server.state
        for order, _, kept in answers:
            who = np.concatenate([order.called, order.others])
            for name, rows in kept.items():
                state[name][who] = rows
        return notes

    def models(self, task: Task, state: Arrays) -> Arrays:
        """Learned parameters."""
        return self.algorithm.models(task, state)

    def privacy_plan(self, task: Terms, *, rounds: int) -> PrivacyPlan:
        """Nothing is released here: nodes and server count theirs under the algorithm's own plan."""
        return PrivacyPlan()

    def guarantees(self, task: Task, *, rounds: int) -> list[Any]:
        """Those of the algorithm."""
        return self.algorithm.guarantees(task, rounds=rounds)


def _hold(build: Callable[[], Built], clients: Sequence[int], own: Arrays | None) -> None:
    """Begin to hold some clients in this process."""
    task, algorithm, rounds = build()
    _here[:] = [Node(algorithm, task, rounds=rounds, clients=clients, own=own)]


def _update(order: Order) -> tuple[Arrays, Arrays]:
    """What the clients here answer, and what those that were asked keep now."""
    (node,) = _here
    reply = node.update(order)
    return reply, node.rows_of(np.concatenate([order.called, order.others]))
