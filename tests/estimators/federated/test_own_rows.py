"""Rows that few of many clients have written have the bits of dense ones: in training, after a stop, in measures."""

import os

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
    assert sorted(rows.written) == np.flatnonzero((dense != first).any(axis=1)).tolist()
    other = rows.copy()
    np.testing.assert_array_equal(other[np.arange(30)], dense)
    np.testing.assert_array_equal(other.written, rows.written)
    other[np.array([5])] = 0.0
    np.testing.assert_array_equal(rows[5], dense[5])
    with pytest.raises(ValueError, match="rows of 30 clients do not fit in memory at once"):
        np.asarray(rows)


def test_rows_are_one_array_up_to_the_limit_and_say_how_many_bytes_they_keep(monkeypatch):
    monkeypatch.setattr(own_rows, "DENSE", 240)
    assert isinstance(rows_of(np.zeros(3), 10), np.ndarray)
    rows = rows_of(np.zeros(3), 11)
    assert isinstance(rows, OwnRows)
    assert (len(rows), rows.shape, rows.ndim, rows.nbytes) == (11, (11, 3), 2, 11 * 8)
    for who, written in (([4], [4]), ([4, 9], [4, 9]), ([4, 0, 9], [4, 9, 0])):
        rows[who] = 1.0
        assert rows.written.tolist() == written
        assert rows.nbytes == 11 * 8 + len(written) * 24
    monkeypatch.setattr(own_rows, "SHARD", 4)
    doubled = own_rows.Shards(lambda clients: 2 * clients[:, None], (11, 1))
    assert len(doubled) == 11
    found = list(doubled.of(np.arange(10, 0, -1)))
    assert [places.tolist() for places, _ in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert np.concatenate([models[:, 0] for _, models in found]).tolist() == list(range(20, 0, -2))


def test_a_file_that_moves_few_bytes_at_a_time_has_the_same_rows_and_a_short_one_is_refused(monkeypatch):
    read, write = os.preadv, os.pwritev
    monkeypatch.setattr(os, "preadv", lambda file, parts, start: read(file, [parts[0][:5]], start))
    monkeypatch.setattr(os, "pwritev", lambda file, parts, start: write(file, [parts[0][:7]], start))
    rows, values = OwnRows(np.zeros(3), 9), np.random.default_rng(0).standard_normal((4, 3))
    rows[[7, 2, 5, 0]] = values
    np.testing.assert_array_equal(rows[[0, 2, 5, 7]], values[[3, 1, 2, 0]])
    np.testing.assert_array_equal(rows[[[7, 1], [1, 2]]], [[values[0], np.zeros(3)], [np.zeros(3), values[1]]])
    rows.file.truncate(4 * 24 - 1)
    with pytest.raises(OSError, match="rows that clients keep are cut short"):
        rows[[0]]
