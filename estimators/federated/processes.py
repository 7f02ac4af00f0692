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

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from estimators.federated.backend import Diverged
from estimators.federated.experiments.building import Built
from estimators.federated.kinds import typed
from estimators.federated.runtime import Arrays, Node, Order, Server, parts_of
from estimators.federated.training import Progress, plain
from estimators.numerics.validation import index
from estimators.system.processes import worker_pool

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
    every = rounds if every is None else index("every", every, 1, 10**7)
    finished = index("finished", finished, 0, rounds)
    if (state is None) != (finished == 0):
        raise ValueError("state and finished belong together: the state after that many finished rounds")
    server = Server(parts_of(algorithm), task.terms, rounds=rounds)
    whole: Arrays = algorithm.start(task.terms, rounds=rounds) if state is None else state
    server.state = algorithm.server_part(whole)
    held = [np.arange(task.n_clients)[i::processes] for i in range(processes)]
    with ExitStack() as stack:
        pools = [stack.enter_context(worker_pool(1)) for _ in held]
        pairs = zip(pools, held, strict=True)
        for future in [pool.submit(_hold, build, who, algorithm.client_part(whole, who)) for pool, who in pairs]:
            future.result()
        for t in range(finished, rounds):
            orders = server.orders(t, held)
            asked = [(pool, o) for pool, o in zip(pools, orders, strict=True) if len(o.called) or len(o.others)]
            futures = [(order, pool.submit(_update, order)) for pool, order in asked]
            try:
                answers = [(order, *future.result()) for order, future in futures]
            except Diverged as error:
                error.add_note(f"in round {t + 1} of {rounds}")
                raise
            notes = server.aggregate(t, [(order.called, reply) for order, reply, _ in answers])
            whole |= server.state
            for order, _, kept in answers:
                who = np.concatenate([order.called, order.others])
                for name, rows in kept.items():
                    whole[name][who] = rows
            record = None
            if (t + 1) % every == 0 or t + 1 == rounds:
                record = {"round": t + 1, **task.measure(algorithm.models(task, whole)), **plain(notes)}
            yield Progress(t + 1, whole, record)


def _hold(build: Callable[[], Built], clients: np.ndarray, own: Arrays) -> None:
    """Begin to hold some clients in this process."""
    task, algorithm, rounds = build()
    _here[:] = [Node(algorithm, task, rounds=rounds, clients=clients.tolist(), own=own)]


def _update(order: Order) -> tuple[Arrays, Arrays]:
    """What the clients here answer, and what those that were asked keep now."""
    (node,) = _here
    reply = node.update(order)
    return reply, node.rows_of(np.concatenate([order.called, order.others]))
