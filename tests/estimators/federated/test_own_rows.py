"""Rows that few of many clients have written have the bits of dense ones: in training, after a stop, in measures."""

import numpy as np
import pytest

from estimators.federated import own_rows
from estimators.federated.algorithms import AdaPeD, DPFedAvg, PFedMe, QuPeD
from estimators.federated.data import synthetic_federation
from estimators.federated.experiments import checkpoints
from estimators.federated.models import logistic_regression
from estimators.federated.own_rows import OwnRows, rows_of
from estimators.federated.task import Task
from estimators.federated.training import train, training

CLIENTS, ROUNDS = 12, 4
ALGORITHMS = {
    "pfedme": PFedMe(learning_rate=0.1, personal_rate=0.1, lam=2.0, inner_steps=2, number=3),
    "fedhdp": DPFedAvg(learning_rate=0.1, lam=0.3, number=3),
    "adaped": AdaPeD(learning_rate=0.1, psi_rate=0.01, number=3),
    "quped": QuPeD(learning_rate=0.1, lam=0.3, number=3),
}


@pytest.fixture
def task():
    clients = synthetic_federation(clients=CLIENTS, rows=20, seed=1)
    work = {"rule": "epochs", "n_epochs": 1, "batch_size": 5}
    return Task(clients, logistic_regression(10, clients.classes), work=work, seed=0)


@pytest.fixture
def sparse(monkeypatch):
    monkeypatch.setattr(own_rows, "DENSE", 0)
    monkeypatch.setattr(own_rows, "SHARD", 5)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_sparse_rows_have_the_bits_of_dense_ones(name, task, monkeypatch, tmp_path):
    algorithm = ALGORITHMS[name]
    dense = train(algorithm, task, rounds=ROUNDS)
    monkeypatch.setattr(own_rows, "DENSE", 0)
    monkeypatch.setattr(own_rows, "SHARD", 5)
    step = None
    for step in training(algorithm, task, rounds=ROUNDS):
        if step.finished == 2:
            checkpoints.save(tmp_path, step.state, {"finished": 2})
    assert step is not None
    assert isinstance(step.state["personal"], OwnRows)
    called = np.unique(np.concatenate([task.participants(t, number=3) for t in range(ROUNDS)]))
    assert set(step.state["personal"].written) == set(called) < set(range(CLIENTS))
    state, record, _ = checkpoints.load(tmp_path)
    *_, resumed = training(algorithm, task, rounds=ROUNDS, state=state, finished=record["finished"])
    for found in (step, resumed):
        np.testing.assert_array_equal(found.state["personal"][np.arange(CLIENTS)], dense.state["personal"])
        np.testing.assert_array_equal(found.state["shared"], dense.state["shared"])
        assert found.record == dense.history[-1]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_round_reads_the_rows_of_those_alone_that_it_calls(name, task, sparse, monkeypatch):
    read, rows = [], OwnRows.__getitem__

    def counting(self, clients):
        read.append(np.size(clients))
        return rows(self, clients)

    monkeypatch.setattr(OwnRows, "__getitem__", counting)
    algorithm = ALGORITHMS[name]
    state = algorithm.start(task.terms, rounds=1)
    read.clear()
    algorithm.round(task, state, 0)
    assert read
    assert max(read) == 3 < CLIENTS


def test_a_checkpoint_holds_those_alone_that_took_part(sparse, tmp_path):
    few, more = rows_of(np.zeros(500), 10_000), rows_of(np.zeros(500), 10_000)
    few[np.arange(2)] = 1.0
    more[np.arange(200)] = 1.0
    sizes = []
    for rows in (few, more):
        checkpoints.save(tmp_path, {"personal": rows}, {})
        sizes.append((tmp_path / checkpoints.CHECKPOINT).stat().st_size)
    assert sizes[0] < 50_000
    assert 190 * 4000 < sizes[1] - sizes[0] < 210 * 4100


def test_rows_are_read_and_written_like_an_array(sparse):
    first, rng = np.arange(4, dtype=np.float32), np.random.default_rng(0)
    rows, dense = rows_of(first, 30), np.tile(first, (30, 1))
    for _ in range(20):
        who = rng.permutation(30)[: rng.integers(1, 9)]
        values = rng.standard_normal((len(who), 4)).astype(np.float32)
        rows[who], dense[who] = values, values
        some = rng.integers(0, 30, 11)
        np.testing.assert_array_equal(rows[some], dense[some])
    np.testing.assert_array_equal(rows[3:17:2], dense[3:17:2])
    np.testing.assert_array_equal(rows[dense[:, 0] > 0], dense[dense[:, 0] > 0])
    np.testing.assert_array_equal(rows[5], dense[5])
    other = rows.copy()
    other[np.array([5])] = 0.0
    np.testing.assert_array_equal(rows[5], dense[5])
    with pytest.raises(ValueError, match="rows of 30 clients do not fit in memory at once"):
        np.asarray(rows)
