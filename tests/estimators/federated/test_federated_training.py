"""The loop over rounds, the task, and the two plain algorithms."""

# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false

import numpy as np
import pytest

from estimators.federated.algorithms import FedAvg, Local, make
from estimators.federated.data import synthetic_federation
from estimators.federated.models import logistic_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.privacy import RowPrivacy
from estimators.federated.task import Task, weighted_sum
from estimators.federated.training import train, training

WORK = {"rule": "poisson", "n_steps": 3, "batch_size": 4}


def task(workers=1, seed=0, work=WORK, clients=6, **options):
    federation = synthetic_federation(clients=clients, rows=25, seed=1)
    model = logistic_regression(10, federation.classes)
    return Task(federation, model, work=work, seed=seed, backend=NumpyBackend(workers=workers), **options)


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
        (lambda: task(groups={"none": []}), "group 'none' must name at least one client"),
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
    from estimators.federated.models import linear_regression

    federation = synthetic_federation(clients=3, rows=20, seed=1)
    t = Task(federation, linear_regression(10), work={"rule": "epochs", "n_epochs": 50, "batch_size": 1}, seed=0)
    with pytest.raises(Diverged, match="client") as caught:
        train(Local(learning_rate=1e4), t, rounds=2)
    assert caught.value.__notes__ == ["in round 1 of 2"]


def test_passes_become_steps_and_batches_fit():
    t = task(work={"rule": "poisson", "n_epochs": 2, "batch_size": [3, 4, 5, 7, 20, 100]})
    assert t.work["batch_size"].tolist() == [3, 4, 5, 7, 20, 20]
    assert t.work["n_steps"].tolist() == [14, 10, 8, 6, 2, 2]
