"""A private node answers a round once: asked again, restarted, with another plan, or with a file that was changed."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from estimators.federated.asked import Asked, of_plan
from estimators.federated.experiments import building
from estimators.federated.experiments.experiment import read
from estimators.federated.plans import PlanBroken
from estimators.federated.runtime import Node, Server

ROUNDS = 3


@pytest.fixture(scope="module")
def built():
    runs = read("demo").runs(seeds=[0], rounds=ROUNDS)
    run = next(r for r in runs if "private" in r.method and np.isfinite(r.settings["privacy"]["eps"]))
    yield building.build(run)
    building.forget()


def node_of(built, path=None, clients=(0, 2), rounds=ROUNDS, **more):
    return Node(built.algorithm, built.task, rounds=rounds, clients=list(clients), count=path, **more)


def order_of(built, t=0, clients=(0, 2)):
    return Server(built.algorithm, built.task.terms, rounds=ROUNDS).orders(t, [clients])[0]


def test_a_round_is_answered_once(built):
    node = node_of(built)
    node.update(order_of(built, 1))
    for t in (1, 0):  # again, and one that was left behind
        with pytest.raises(PlanBroken, match=rf"asked for round {t + 1} and has answered round 2 already"):
            node.update(order_of(built, t))
    node.update(order_of(built, 2))
    with pytest.raises(PlanBroken, match="round 4 is asked for, and the privacy plan has 3"):
        node.update(order_of(built)._replace(t=3))


def test_asking_for_some_clients_after_the_others_is_no_way_around(built):
    node, order = node_of(built), order_of(built)
    node.update(order._replace(called=np.array([2])))
    with pytest.raises(PlanBroken, match="client 2 is asked for round 1"):
        node.update(order)
    node.update(order._replace(called=np.array([0])))  # nothing was entered for client 0 when it was refused


def test_nobody_is_asked_twice_in_one_order(built, tmp_path):
    """Two messages to one client, whose answers differ by what they say without noise."""
    asked = Asked(np.array([0, 2]), rounds=ROUNDS, plan="any", path=tmp_path / "a.count")
    with pytest.raises(PlanBroken, match="asked twice in one order"):
        asked.enter(np.array([2, 2]), 0)
    asked.enter(np.array([2]), 0)  # nothing was entered
    node, order = node_of(built), order_of(built)
    twice = {k: np.repeat(v[:1], 2, axis=0) if k in built.algorithm.addressed else v for k, v in order.message.items()}
    with pytest.raises(PlanBroken, match="asked twice in one order"):
        node.update(order._replace(called=np.array([0, 0]), message=twice))


def test_a_count_that_is_no_number_is_damage(tmp_path):
    how = {"rounds": ROUNDS, "plan": "any", "path": tmp_path / "a.count"}
    asked = Asked(np.array([0]), **how)
    asked.store(np.array([None]))
    with pytest.raises(PlanBroken, match="is damaged or gone"):
        Asked(np.array([0]), **how)


def test_a_restarted_node_remembers(built, tmp_path):
    path = tmp_path / "a.count"
    node_of(built, path).update(order_of(built))
    with pytest.raises(PlanBroken, match="client 0 is asked for round 1"):
        node_of(built, path).update(order_of(built))
    before = path.stat().st_size
    for t in (1, 2):
        node_of(built, path).update(order_of(built, t))
    assert path.stat().st_size <= before + 2  # bounded: of whatever many rounds


def test_two_nodes_with_one_file_share_the_count(built, tmp_path):
    first, second = (node_of(built, tmp_path / "a.count") for _ in range(2))
    first.update(order_of(built))
    with pytest.raises(PlanBroken, match="has answered round 1 already"):
        second.update(order_of(built))


def test_a_round_is_entered_before_it_is_computed(built, tmp_path):
    """What fails on its way may have left: it is counted."""
    node = node_of(built, tmp_path / "a.count")
    order = order_of(built)
    broken = order._replace(message={name: np.full(np.shape(value), np.nan) for name, value in order.message.items()})
    with pytest.raises((ValueError, ArithmeticError)) as error:
        node.update(broken)
    assert not isinstance(error.value, PlanBroken)
    with pytest.raises(PlanBroken, match="has answered round 1 already"):
        node_of(built, tmp_path / "a.count").update(order)


def test_a_file_of_something_else_allows_nothing(built, tmp_path):
    path = tmp_path / "a.count"
    node = node_of(built, path)
    old = path.read_text()
    for others in ({"clients": (0, 1)}, {"rounds": ROUNDS + 1}):
        with pytest.raises(PlanBroken, match="is of another plan, seed or other clients"):
            node_of(built, path, **others)
    node.update(order_of(built))
    new = path.read_text()
    path.write_text(old)
    with pytest.raises(PlanBroken, match="is older than what this node has answered"):
        node.update(order_of(built, 1))
    content = json.loads(new)
    content["last"]["0"] = -1
    path.write_text(json.dumps(content))
    with pytest.raises(PlanBroken, match="is damaged or gone"):
        node_of(built, path)
    path.write_text(new)
    node.update(order_of(built, 1))
    path.unlink()
    with pytest.raises(PlanBroken, match="is damaged or gone"):
        node.update(order_of(built, 2))


def test_a_node_may_tell_no_measures(built):
    server, exact = Server(built.algorithm, built.task.terms, rounds=ROUNDS), node_of(built)
    message = server.last_message([0, 2])
    assert exact.measure(message)
    with pytest.raises(PlanBroken, match="tells no measures"):
        node_of(built, measures=False).measure(message)


def test_who_is_not_held_is_named_and_nobody_has_answered_at_first(tmp_path):
    """Those before, between and after the clients that are; and the keys of the file may stand in any order."""
    path = tmp_path / "asked"
    made = Asked(np.array([4, 7]), rounds=1, plan="a", path=path)
    assert made.last.tolist() == [-1, -1]
    for other in (3, 5, 9):
        with pytest.raises(PlanBroken, match=rf"clients \[{other}\] are asked and not held here"):
            made.enter(np.array([4, other]), 0)
    made.enter(np.array([7]), 0)
    path.write_text(json.dumps(dict(reversed(json.loads(path.read_text()).items()))))
    assert Asked(np.array([4, 7]), rounds=1, plan="a", path=path).last.tolist() == [-1, 0]


def test_settings_in_another_order_are_the_same_plan():
    def plan(**work):
        terms = SimpleNamespace(work=work, sizes=[3], model=SimpleNamespace(n_parameters=2), seed=0)
        return of_plan("algorithm", terms, 4, None)

    assert plan(rule="fixed", n_steps=2) == plan(n_steps=2, rule="fixed") != plan(rule="fixed", n_steps=3)
