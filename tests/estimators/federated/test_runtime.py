"""The four parts at nodes and a server, one after the other in this process: the simulator's bits, and no row of others."""

import numpy as np
import pytest

from estimators.federated.algorithms import Tuned
from estimators.federated.algorithms.basic import averaging
from estimators.federated.data.federation import Federation
from estimators.federated.experiments import building
from estimators.federated.experiments.experiment import experiments, read
from estimators.federated.models import logistic_regression
from estimators.federated.plans import PlanBroken
from estimators.federated.runtime import Node, Server
from estimators.federated.task import Task, weighted_sum
from estimators.federated.training import train

ROUNDS = 2


@pytest.fixture(autouse=True, scope="module")
def forget():
    yield
    building.forget()


def first_runs():
    """The first run of every algorithm that an experiment names and the NumPy backend computes, on embedded data."""
    found = {}
    for name in experiments():
        for run in read(name).runs(seeds=[0], rounds=ROUNDS, embedded=True):
            if run.setup.backend == "numpy" and run.algorithm not in found:
                found[run.algorithm] = run
    return found


RUNS = first_runs()


def federate(task, algorithm, n_nodes=3, drop=(), renew=False):
    """Rounds over nodes that hold every third client; drop: pairs (round, node) that do not answer; renew: nodes restart."""
    held = [np.arange(task.n_clients)[k::n_nodes] for k in range(n_nodes)]
    nodes = [Node(algorithm, task, rounds=ROUNDS, clients=clients) for clients in held]
    server = Server(algorithm, task.terms, rounds=ROUNDS)
    for t in range(ROUNDS):
        answers = []
        for k, order in enumerate(server.orders(t, held)):
            if renew:  # what a node keeps is all that it needs
                nodes[k] = Node(algorithm, task, rounds=ROUNDS, clients=held[k], own=nodes[k].own)
            if (t, k) not in drop:
                answers.append((order.called, nodes[k].update(order)))
        server.aggregate(t, answers)
    tested = [np.intersect1d(task.tested, clients) for clients in held]
    measures = [node.measure(server.last_message(clients)) for node, clients in zip(nodes, held, strict=True)]
    pairs = [(who, found) for who, found in zip(tested, measures, strict=True) if len(who)]
    return server, nodes, server.measure(pairs, task.test.sizes)


@pytest.mark.parametrize("name", sorted(RUNS))
def test_nodes_and_a_server_have_the_simulators_bits(name):
    built = building.build(RUNS[name])
    whole = train(built.algorithm, built.task, rounds=ROUNDS)
    server, nodes, measured = federate(built.task, built.algorithm, renew=True)
    for entry, value in server.state.items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(whole.state[entry]), err_msg=entry)
    for node in nodes:
        for entry, value in node.own.items():
            np.testing.assert_array_equal(value, whole.state[entry][node.clients], err_msg=entry)
    last = whole.history[-1]
    assert measured == {key: last[key] for key in measured}
    assert {key for key in last if key.count(".") == 2 and ".server." not in key} == set(measured)


def test_the_four_of_the_papers_are_among_them():
    assert {"FeO2", "MRMTL", "RobustHDP", "AdaPeD"} <= set(RUNS)


def test_a_client_that_drops_out_is_as_one_not_called():
    built = building.build(RUNS["FedAvg"])
    server, _, _ = federate(built.task, built.algorithm, drop={(0, 1)})
    full, _, _ = federate(built.task, built.algorithm)
    assert np.isfinite(server.state["shared"]).all()
    assert (server.state["shared"] != full.state["shared"]).any()
    with pytest.raises(RuntimeError, match=r"none of .* clients answered in round 1; the rounds before it are kept"):
        federate(built.task, built.algorithm, drop={(t, k) for t in range(ROUNDS) for k in range(3)})


def test_pfedme_averages_those_who_answered():
    """Everybody trains and some are averaged: rows stay with their clients when others are missing."""
    built = building.build(RUNS["PFedMe"])
    server = Server(built.algorithm, built.task.terms, rounds=ROUNDS)
    order = server.orders(0, [np.arange(built.task.n_clients)])[0]
    reply = Node(built.algorithm, built.task, rounds=ROUNDS, clients=order.called.tolist()).update(order)
    averaged = built.task.participants(0, number=built.algorithm.number)
    here = np.setdiff1d(order.called, averaged[:1])
    rest = {name: rows[np.searchsorted(order.called, here)] for name, rows in reply.items()}
    server.aggregate(0, [(here, rest)])
    begun, beta = built.algorithm.start(built.task.terms, rounds=ROUNDS)["shared"], built.algorithm.beta
    left = averaged[1:]
    mean = weighted_sum(averaging(built.task.terms, built.algorithm.weights, left), rest["w"][np.searchsorted(here, left)])
    np.testing.assert_array_equal(server.state["shared"], (1 - beta) * begun + beta * mean)


def test_a_node_without_its_rows_is_found_out():
    """Rows of others are NaN at a node: training on them cannot go unnoticed."""
    built = building.build(RUNS["FedAvg"])
    node = Node(built.algorithm, built.task, rounds=ROUNDS, clients=[0, 1])
    server = Server(built.algorithm, built.task.terms, rounds=ROUNDS)
    order = server.orders(0, [[0, 1]])[0]
    assert all(np.isfinite(rows).all() for rows in node.update(order).values())
    with pytest.raises((ValueError, ArithmeticError), match=r"client|diverged"):
        node.update(order._replace(called=np.array([2])))


def test_replies_that_are_no_rows_are_refused():
    built = building.build(RUNS["FedAvg"])
    server = Server(built.algorithm, built.task.terms, rounds=ROUNDS)
    P = built.task.model.n_parameters
    with pytest.raises(ValueError, match="client 1 sends numbers that are not finite"):
        server.aggregate(0, [(np.array([0, 1]), {"ends": np.array([np.zeros(P), np.full(P, np.nan)])})])
    with pytest.raises(ValueError, match="row of ends for each of 2 clients"):
        server.aggregate(0, [(np.array([0, 1]), {"ends": np.zeros((3, P))})])


def test_a_node_counts_its_own_releases():
    run = next(
        r
        for r in read("demo").runs(seeds=[0], rounds=ROUNDS)
        if "private" in r.method and np.isfinite(r.settings["privacy"]["eps"])
    )
    built = building.build(run)
    node = Node(built.algorithm, built.task, rounds=ROUNDS, clients=[0])
    order = Server(built.algorithm, built.task.terms, rounds=ROUNDS).orders(0, [[0]])[0]
    update = type(built.algorithm).client_update

    class Twice(type(built.algorithm)):
        def client_update(self, task, clients, message, own, t):
            update(self, task, clients, message, own, t)
            return update(self, task, clients, message, own, t)

    node.algorithm = Twice(**{name: getattr(built.algorithm, name) for name in built.algorithm.__dataclass_fields__})
    with pytest.raises(PlanBroken, match=r"makes 2 releases \(training\) in round 1"):
        node.update(order)


def test_what_has_no_parts_is_refused():
    built = building.build(RUNS["FedAvg"])
    tuned = object.__new__(Tuned)
    with pytest.raises(ValueError, match="Tuned makes rounds of its own"):
        Server(tuned, built.task.terms, rounds=ROUNDS)
    with pytest.raises(ValueError, match="clients must be different positions"):
        Node(built.algorithm, built.task, rounds=ROUNDS, clients=[0, 0])


def test_clients_with_one_test_row_are_tested():
    clients = Federation(np.eye(6), np.arange(6) % 2, [[0], [1], [2]], test=[[3], [], [4, 5]], classes=2)
    alone = Task(clients, logistic_regression(6, 2), work={"rule": "poisson", "n_epochs": 1, "batch_size": 1}, seed=0)
    assert alone.tested.tolist() == [0, 2]
    assert alone.test is not None
    assert alone.test.sizes.tolist() == [1, 2]
