"""The four parts of an algorithm in Flower (flwr): a ClientApp for nodes, a Strategy and a ServerApp for the server.

What is run is an experiment file's method, as `borrow learn` runs it; Flower carries the messages between
``runtime.Server`` and ``runtime.Node``.  A node keeps its clients' personal models in its context's state, where they stay,
and what its errors say, which may be of rows, in its own log.  What ``runtime`` says of a server that wants to know holds.

A Flower app is two lines, ``app = flower.client_app()`` and ``app = flower.server_app()``, with a run configuration of

    experiment   name of an experiment, or path of a .toml file;  method: name of one of its methods
    seed, rounds, embedded (true: data that need no file), data (folder of the data), out (file for the result, or "")

and a node configuration of `partition-id` and `num-partitions`: node i of n holds the clients i, i + n, i + 2 n, ...; of
`count`, the file in which a private node keeps what it answered (without one, Flower's new process for a message has
forgotten it); and of `measures`, false for a node that tells none.

Flower 1.41 starts a process for every message and gives its task to another one unless it is heard of within 30 s, which no
setting changes: on a machine too busy for that every process is refused ("task-token authentication failed").

Belongs here: what is Flower's.  Does not belong here: what server and nodes do (``runtime``), experiments (``experiments``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from traceback import print_exc
from typing import Any

import numpy as np

from estimators.federated.backend import Evaluation
from estimators.federated.experiments.building import Built, build
from estimators.federated.experiments.experiment import read
from estimators.federated.experiments.plan import plain
from estimators.federated.kinds import typed
from estimators.federated.runtime import Node, Order, Server
from estimators.numerics.validation import index
from estimators.system import files

__all__ = ["built_of", "client_app", "clients_of", "server_app", "strategy"]

PATIENCE = 600.0
"""Seconds to wait for nodes that together hold all clients."""


def flower(module: str) -> Any:
    """A module of Flower."""
    try:
        return import_module(f"flwr.{module}")
    except ImportError:
        raise ValueError("Flower is not installed: pip install 'borrowed-strength[flower]'") from None


def built_of(config: Mapping[str, Any]) -> Built:
    """Task, algorithm and rounds of a run configuration."""
    experiment = read(str(config["experiment"]))
    rounds = int(config.get("rounds", 0)) or None
    runs = experiment.runs(
        [int(config.get("seed", 0))], rounds, [str(config["method"])], embedded=bool(config.get("embedded", False))
    )
    if len(runs) != 1:
        raise ValueError(f"method {config['method']!r} has a grid of {len(runs)} points; give an experiment file with one")
    return build(runs[0], str(config["data"]) if config.get("data") else None)


@typed
def clients_of(config: Mapping[str, Any], n_clients: int) -> np.ndarray:
    """Positions of a node's clients, from its configuration.

    >>> clients_of({"partition-id": 1, "num-partitions": 3}, 8).tolist()
    [1, 4, 7]
    """
    n_clients = index("n_clients", n_clients, 1)
    missing = [name for name in ("partition-id", "num-partitions") if name not in config]
    if missing:
        raise ValueError(f"config must have {' and '.join(missing)}; give a node --node-config")
    node, nodes = (index(f"config's {name}", config[name], 0) for name in ("partition-id", "num-partitions"))
    if not node < nodes <= n_clients:
        raise ValueError(f"partition-id must be below num-partitions, at most {n_clients}; got {node} and {nodes}")
    return np.arange(n_clients)[node::nodes]


@typed
def tells(config: Mapping[str, Any]) -> bool:
    """Whether a node tells measures, from its configuration; a text like "false" is refused, for it would be true.

    >>> tells({}), tells({"measures": False})
    (True, False)
    """
    found = config.get("measures", True)
    if not isinstance(found, bool):
        raise ValueError(f"config's measures must be true or false, without quotes, got {found!r}")
    return found


def record(arrays: Mapping[str, Any]) -> Any:
    """Arrays as Flower carries them."""
    app = flower("app")
    return app.ArrayRecord({name: app.Array(np.asarray(value)) for name, value in arrays.items()})


def arrays(found: Any) -> dict[str, np.ndarray]:
    """What `record` was made of."""
    return {name: value.numpy() for name, value in found.items()}


def kept_here(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A node's step whose errors tell the server their kind alone; Flower sends what they say, which may be of rows."""

    @wraps(step)
    def careful(message: Any, context: Any) -> Any:
        try:
            return step(message, context)
        except Exception as error:
            print_exc()
            raise RuntimeError(f"{type(error).__name__} at the node, whose log says more") from None

    return careful


def client_app(build_run: Callable[[Mapping[str, Any]], Built] = built_of) -> Any:
    """ClientApp of nodes.

    Parameters
    ----------
    build_run : function from a run configuration to a `Built`; a silo's own reads the silo's rows alone.
    """
    app, kept = flower("clientapp").ClientApp(), {}

    def node_of(context: Any) -> Node:
        key = json.dumps(dict(context.run_config), sort_keys=True)
        if key not in kept:
            kept[key] = build_run(context.run_config)
        built = kept[key]
        own = arrays(context.state["own"]) if "own" in context.state else None
        clients = clients_of(context.node_config, built.task.n_clients)
        how = {"own": own, "count": context.node_config.get("count"), "measures": tells(context.node_config)}
        return Node(built.algorithm, built.task, rounds=built.rounds, clients=clients.tolist(), **how)

    def answer(message: Any, **records: Mapping[str, Any]) -> Any:
        module = flower("app")
        content = module.RecordDict({name: record(found) for name, found in records.items()})
        return module.Message(content, reply_to=message)

    @app.query()
    @kept_here
    def query(message: Any, context: Any) -> Any:
        node = node_of(context)
        task = node.task.bare
        here = np.intersect1d(task.tested, node.clients)
        rows = np.zeros(0, np.int64) if task.test is None else task.test.sizes[np.isin(task.tested, node.clients)]
        return answer(message, place={"clients": node.clients, "tested": here, "rows": rows})

    @app.train()
    @kept_here
    def train(message: Any, context: Any) -> Any:
        node, order = node_of(context), arrays(message.content["order"])
        sent = arrays(message.content["message"])
        reply = node.update(Order(int(order["t"]), order["called"], order["others"], sent))
        context.state["own"] = record(node.own)
        return answer(message, reply=reply)

    @app.evaluate()
    @kept_here
    def evaluate(message: Any, context: Any) -> Any:
        node = node_of(context)
        found = node.measure(arrays(message.content["message"])) if node.measures else {}
        flat = {f"{name}.loss": result.loss for name, result in found.items()}
        flat |= {f"{name}.accuracy": r.accuracy for name, r in found.items() if r.accuracy is not None}
        return answer(message, measures=flat)

    return app


def strategy(server: Server, *, timeout: float = PATIENCE) -> Any:
    """Strategy whose rounds are those of a `Server`.

    Its `measures` are those of the last round's models; its `notes` those of each round.

    Parameters
    ----------
    server : Server; timeout : seconds to wait for nodes that together hold all clients.
    """
    app, base = flower("app"), flower("serverapp.strategy").Strategy

    def asked(kind: str, node: int, **records: Mapping[str, Any]) -> Any:
        content = app.RecordDict({name: record(found) for name, found in records.items()})
        return app.Message(content, dst_node_id=node, message_type=kind)

    class PartsStrategy(base):
        """Flower's Strategy of an algorithm's four parts."""

        def __init__(self):
            self.server, self.places, self.called, self.notes, self.measures = server, {}, {}, [], {}

        def find(self, grid):
            """Ask every node for its clients, until all are found."""
            end = time.monotonic() + timeout
            while True:
                new = [node for node in grid.get_node_ids() if node not in self.places]
                for reply in grid.send_and_receive([asked("query", node, none={}) for node in new], timeout=timeout):
                    self.places[reply.metadata.src_node_id] = arrays(content_of(reply)["place"])
                held = np.concatenate([place["clients"] for place in self.places.values()] or [np.empty(0, int)])
                if len(np.unique(held)) < len(held):
                    raise ValueError("two nodes hold the same client; give every node its own partition-id")
                if len(held) == server.terms.n_clients:
                    return
                if time.monotonic() > end:
                    raise TimeoutError(f"nodes hold {len(held)} of {server.terms.n_clients} clients after {timeout:g} s")
                time.sleep(0.5)

        def configure_train(self, server_round, arrays, config, grid):
            if not self.places:
                self.find(grid)
            nodes = list(self.places)
            orders = server.orders(server_round - 1, [self.places[node]["clients"] for node in nodes])
            pairs = [(node, o) for node, o in zip(nodes, orders, strict=True) if len(o.called) or len(o.others)]
            self.called = {node: order.called for node, order in pairs}
            return [
                asked("train", node, message=o.message, order={"t": o.t, "called": o.called, "others": o.others})
                for node, o in pairs
            ]

        def aggregate_train(self, server_round, replies):
            replies, whole = list(replies), []
            for reply in replies:
                if not reply.has_error():
                    node = reply.metadata.src_node_id
                    whole.append((self.called[node], arrays(reply.content["reply"])))
            if replies and not whole:
                content_of(replies[0])  # all failed: the reason, not an empty round
            notes = server.aggregate(server_round - 1, whole)
            self.notes.append({name: np.asarray(value).item() for name, value in notes.items()})
            return record({name: server.state[name] for name in ("shared",) if name in server.state}), None

        def configure_evaluate(self, server_round, arrays, config, grid):
            if server_round < server.rounds:
                return []
            held = [(node, place["clients"]) for node, place in self.places.items() if len(place["tested"])]
            return [asked("evaluate", node, message=server.last_message(clients)) for node, clients in held]

        def aggregate_evaluate(self, server_round, replies):
            found = {reply.metadata.src_node_id: arrays(content_of(reply)["measures"]) for reply in replies}
            found = {node: told for node, told in found.items() if told}  # some may tell none
            if found:
                places = [self.places[node] for node in found]
                tested, rows = (np.concatenate([place[name] for place in places]) for name in ("tested", "rows"))
                pairs = [(p["tested"], evaluations(f)) for p, f in zip(places, found.values(), strict=True)]
                self.measures = server.measure(pairs, rows[np.argsort(tested)])
            return None

        def summary(self):
            """Nothing to say."""

    return PartsStrategy()


def content_of(reply: Any) -> Any:
    """What a node answered.

    Raises RuntimeError with its reason, if it failed.
    """
    if reply.has_error():
        raise RuntimeError(f"node {reply.metadata.src_node_id} failed: {reply.error.reason}")
    return reply.content


def evaluations(found: Mapping[str, np.ndarray]) -> dict[str, Evaluation]:
    """Measures by kind of model from arrays by kind and measure."""
    names = [name.removesuffix(".loss") for name in found if name.endswith(".loss")]
    return {name: Evaluation(found[f"{name}.loss"], found.get(f"{name}.accuracy")) for name in names}


def server_app(build_run: Callable[[Mapping[str, Any]], Built] = built_of) -> Any:
    """ServerApp that does all rounds and writes the result where the run configuration says `out`.

    Parameters
    ----------
    build_run : as for `client_app`; of its task the terms are used, and no row.
    """
    app = flower("serverapp").ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        built = build_run(context.run_config)
        plan = strategy(Server(built.algorithm, built.task.terms, rounds=built.rounds))
        plan.start(grid, record({}), num_rounds=built.rounds)
        if context.run_config.get("out"):
            files.write(str(context.run_config["out"]), json.dumps(result_of(plan)))

    return app


def result_of(plan: Any) -> dict[str, Any]:
    """Measures and notes of a finished strategy, and the server's arrays of numbers as lists."""
    state: Iterable[tuple[str, Any]] = plan.server.state.items()
    return plain({"measures": plan.measures, "notes": plan.notes, "state": {n: np.asarray(v).tolist() for n, v in state}})
