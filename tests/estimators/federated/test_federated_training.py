"""The loop over rounds, the task, and the two plain algorithms."""

# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from estimators.federated.algorithms import AdaPeD, FedAvg, Local, PFedMe, make
from estimators.federated.data import Federation, synthetic_federation
from estimators.federated.jax_backend import JaxBackend
from estimators.federated.models import Model, linear_regression, logistic_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.pairs import PairStep
from estimators.federated.privacy import RowPrivacy
from estimators.federated.reference_backend import ReferenceBackend
from estimators.federated.task import Task, weighted_sum
from estimators.federated.training import train, training

WORK = {"rule": "poisson", "n_steps": 3, "batch_size": 4}


def task(workers=1, seed=0, work=WORK, clients=6, **options):
    federation = synthetic_federation(clients=clients, rows=25, seed=1)
    model = logistic_regression(10, federation.classes)
    return Task(federation, model, work=work, seed=seed, backend=NumpyBackend(workers=workers), **options)


def decaying(lam, anchors):
    return task(work=WORK | {"weight_decay": 0.5}).train(np.zeros(11), 0, learning_rate=0.1, pull=(lam, np.zeros(anchors)))


PRIVATE = RowPrivacy(eps=3.0, delta=1e-3, clip=1.0)
ALGORITHMS = [
    Local(learning_rate=0.1),
    Local(learning_rate=0.1, privacy=PRIVATE),
    FedAvg(learning_rate=0.1, rate=0.5),
    FedAvg(learning_rate=0.1, number=3, privacy=PRIVATE, decay=(0.9, 2)),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
def test_same_bits_for_any_workers_and_after_a_resume(algorithm, same_bits):
    same_bits(algorithm, task)


def test_another_seed_gives_another_history():
    assert train(ALGORITHMS[2], task(), rounds=3).history != train(ALGORITHMS[2], task(seed=1), rounds=3).history


def test_one_client_makes_averaging_and_local_training_the_same():
    one = task(clients=1)
    shared, own = (train(a, one, rounds=3).state for a in (FedAvg(learning_rate=0.1), Local(learning_rate=0.1)))
    assert (shared["shared"].astype(np.float32) == own["personal"][0]).all()


def test_a_round_without_participants_changes_nothing(idle_round):
    assert idle_round(FedAvg(learning_rate=0.1, rate=0.0), task()) == {"participants": 0}


def test_private_rows_get_what_they_asked_for():
    eps = np.array([0.5, 1.0, 2.0, 4.0, 8.0, np.inf])
    algorithm = Local(learning_rate=0.1, privacy=RowPrivacy(eps=eps, delta=1e-3, clip=1.0))
    multipliers = algorithm.start(task(), rounds=4)["multiplier"]
    assert (np.diff(multipliers) < 0).all()
    assert multipliers[-1] == 0
    promised = algorithm.guarantees(task(), rounds=4)
    assert promised[-1] is None
    np.testing.assert_allclose([g.eps for g in promised[:-1]], eps[:-1], rtol=1e-2)
    assert all(str(g).startswith("simulated, no guarantee; ") for g in promised[:-1])


def test_measures_are_of_the_rows_they_name():
    t = task(groups={"first": [0, 1]})
    models = {"shared": t.initial(), "personal": np.zeros((6, t.model.n_parameters))}
    measured, result = t.measure(models), t.evaluate(models["personal"])
    assert measured["personal.clients.accuracy"] == result.accuracy.mean()
    assert measured["personal.spread.accuracy"] == result.accuracy.var()
    assert measured["personal.first.accuracy"] == result.accuracy[:2].mean()
    assert "personal.server.accuracy" not in measured


def test_models_are_measured_after_every_so_many_rounds_and_the_last():
    steps = training(FedAvg(learning_rate=0.1), task(), rounds=5, every=2)
    assert [step.record and step.record["round"] for step in steps] == [None, 2, None, 4, 5]


def test_weighted_sum_is_a_product():
    rows, weights = np.random.default_rng(0).normal(size=(7, 11)), np.arange(7.0)
    np.testing.assert_allclose(weighted_sum(weights, rows), weights @ rows)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: make("FedAvgg", {}), "algorithm must be one of"),
        (lambda: make("Local", {"rate": 1}), "Local has no setting 'rate'"),
        (lambda: make("Local", {}), "learning_rate"),
        (lambda: task(work={"n_epochs": 1}), "work must name its rule"),
        (lambda: task(work=WORK | {"weight_decay": -1e-4}), "weight_decay must be >= 0"),
        (lambda: task(work=WORK | {"weight_decay": [1e-4] * 6}), "weight_decay must be one number"),
        (lambda: decaying(-0.1, 11), "lam must be >= 0"),
        (lambda: decaying([1.0, 2.0], 11), "lam must be a number or have one entry for each of the 6 clients"),
        (lambda: decaying([1.0] * 6, 3), "anchors must have 11 entries"),
        (lambda: decaying([1.0] * 6, (2, 11)), "anchors must have shape"),
        (lambda: task(groups={"none": []}), "group 'none' must name at least one client"),
        (lambda: task(groups={"far": [0, 6]}), "group 'far' must name at least one client, by positions below 6"),
        (lambda: task().participants(0, rate=0.5, number=2), "not both"),
        (lambda: train(ALGORITHMS[0], task(), rounds=0), "rounds"),
        (lambda: next(training(ALGORITHMS[0], task(), rounds=3, finished=2)), "state and finished belong together"),
        (lambda: RowPrivacy(eps=0.0, delta=1e-3, clip=1.0), "eps must be > 0"),
        (lambda: RowPrivacy(eps=1.0, delta=1.0, clip=1.0), "delta must lie strictly"),
        (
            lambda: Local(learning_rate=0.1, privacy=RowPrivacy(eps=1e-3, delta=1e-300, clip=1.0)).start(task(), rounds=1),
            "client 0: eps=0.001 is out of reach",
        ),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_divergence_names_client_and_round():
    from estimators.federated.backend import Diverged

    federation = synthetic_federation(clients=3, rows=20, seed=1)
    t = Task(federation, linear_regression(10), work={"rule": "epochs", "n_epochs": 50, "batch_size": 1}, seed=0)
    with pytest.raises(Diverged, match="client") as caught:
        train(Local(learning_rate=1e4), t, rounds=2)
    assert caught.value.__notes__ == ["in round 1 of 2"]


def test_a_step_by_hand_with_weight_decay():
    """One row (x, y) = (2, 3) of a line from (w, c) = (1, 0.5): residual -0.5, gradient (-1, -0.5), and the pulls."""
    federation = Federation(np.array([[2.0]]), np.array([3.0]), train=[[0]])
    work = {"rule": "fixed", "n_steps": 1, "batch_size": 1, "weight_decay": 0.25}
    backend = NumpyBackend(dtype="float64", workers=1)
    t = Task(federation, linear_regression(1), work=work, seed=0, backend=backend)
    for pull, moved in [
        (None, [-1 + 0.25 * 1, -0.5 + 0.25 * 0.5]),
        ((2.0, np.array([3.0, 0.0])), [-1 + 0.25 * 1 + 2 * (1 - 3), -0.5 + 0.25 * 0.5 + 2 * 0.5]),
        ((0.0, np.array([3.0, 0.0])), [-1 + 0.25 * 1, -0.5 + 0.25 * 0.5]),
    ]:
        found = t.train([1.0, 0.5], 0, learning_rate=0.1, pull=pull)
        np.testing.assert_allclose(found, [np.array([1.0, 0.5]) - 0.1 * np.array(moved)], rtol=1e-14)


@pytest.mark.parametrize("pull", [None, (0.3, 1), ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], 6)], ids=["none", "one", "each"])
@pytest.mark.parametrize("kind", ["reference", "numpy", "jax"])
def test_weight_decay_is_the_gradient_of_half_a_square(kind, pull):
    """Two steps against their written form, with clipping, which leaves the decay alone."""
    if kind == "jax":
        pytest.importorskip("jax", reason="the extra learn is not installed")
    made: dict[str, Any] = {"reference": ReferenceBackend, "numpy": NumpyBackend, "jax": JaxBackend}
    backend = made[kind](**({} if kind == "reference" else {"dtype": "float64"}))
    federation, work = synthetic_federation(clients=6, rows=25, seed=1), {"rule": "fixed", "n_steps": 2, "batch_size": 4}
    model = logistic_regression(10, federation.classes)
    plain, decaying = (
        Task(federation, model, work=work | more, seed=0, backend=backend) for more in ({}, {"weight_decay": 0.5})
    )
    rng, P = np.random.default_rng(0), model.n_parameters
    w = np.tile(rng.standard_normal(P), (6, 1))
    anchors = None if pull is None else rng.standard_normal((pull[1], P)).squeeze(0 if pull[1] == 1 else ())
    options = {"learning_rate": 0.1, "clip": 0.3}
    found = decaying.train(w, 3, pull=None if pull is None else (pull[0], anchors), **options)
    assert decaying.weight_decay == 0.5
    whole = plain.schedule(3)
    np.testing.assert_array_equal(whole.indices, decaying.schedule(3).indices)
    lam = 0.0 if pull is None else np.reshape(pull[0], (-1, 1))
    for s in range(2):
        slope = plain.train(w, 3, steps=whole.step(s), **options) - w
        w = w + slope - 0.1 * (0.5 * w + (0.0 if pull is None else lam * (w - anchors)))
    np.testing.assert_allclose(found, w, rtol=1e-10, atol=1e-12)


def test_no_weight_decay_and_one_of_zero_have_the_same_bits():
    for algorithm in (*ALGORITHMS, AdaPeD(learning_rate=0.1, psi_rate=0.1), PFedMe(
        learning_rate=0.1, personal_rate=0.1, lam=0.5, inner_steps=2
    )):  # fmt: skip
        without, zero, some = (
            train(algorithm, task(work=WORK | more), rounds=3).state
            for more in ({}, {"weight_decay": 0.0}, {"weight_decay": 0.5})
        )
        assert all((without[name] == zero[name]).all() for name in without)
        assert any((without[name] != some[name]).any() for name in without)


def test_pairs_take_the_decay_of_the_work():
    t = task(work=WORK | {"weight_decay": 0.5})
    step = PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(0, 1), floor=0.5)
    pair = {"own": t.initial(), "common": t.initial(1), "psi": 0.7}
    found = t.train_pairs(t.schedule(0), step, **pair)
    expected = task().train_pairs(t.schedule(0), replace(step, weight_decay=0.5), **pair)
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def test_passes_become_steps_and_batches_fit():
    t = task(work={"rule": "poisson", "n_epochs": 2, "batch_size": [3, 4, 5, 7, 20, 100]})
    assert t.work["batch_size"].tolist() == [3, 4, 5, 7, 20, 20]
    assert t.work["n_steps"].tolist() == [14, 10, 8, 6, 2, 2]


def test_weights_of_sums_are_one_for_each_row():
    for weights, rows in (([1.0], np.ones((2, 3))), (np.ones((2, 3)), np.ones((2, 3))), (1.0, np.ones((1, 3)))):
        with pytest.raises(ValueError, match="weights must have one entry for each row"):
            weighted_sum(weights, rows)


def test_first_parameters_are_those_of_index_0_unless_another_is_given():
    federation = synthetic_federation(clients=2, rows=25, seed=1)
    hidden = Task(federation, Model((10, 3, federation.classes), "softmax"), work=WORK, seed=0)
    first, last = hidden.initial(), 2**32 - 1
    assert first.tolist() == hidden.initial(0).tolist() != hidden.initial(1).tolist()
    assert hidden.initial(last).tolist() != first.tolist()
    for wrong in (-1, last + 1, last + 2):
        with pytest.raises(ValueError, match="index must be"):
            hidden.initial(wrong)
