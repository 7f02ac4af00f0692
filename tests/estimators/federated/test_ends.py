"""Ends of what settings may be, and which part of a condition refuses: places that mutants of the code found untested."""

import io
import struct
import zlib
from functools import partial

import numpy as np
import pytest
import scipy.io
from scipy import stats

from estimators.federated import data, schedule
from estimators.federated.algorithms import (
    IFCA,
    DPAdaPeD,
    FedAvg,
    FedAvgPlus,
    FedEM,
    FeO2,
    Local,
    Mocha,
    PerFedAvg,
    PFedMe,
    RobustHDP,
)
from estimators.federated.asked import Asked
from estimators.federated.audit import row_releases, row_statistics
from estimators.federated.data import files, synthetic_federation
from estimators.federated.data.federation import generator
from estimators.federated.data.matlab import cell_arrays, elements
from estimators.federated.experiments.experiment import setup_of
from estimators.federated.experiments.plan import put
from estimators.federated.kinds import number
from estimators.federated.models import logistic_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.one_run import audit_training
from estimators.federated.pairs import PairStep, checked_pairs
from estimators.federated.privacy import RowPrivacy
from estimators.federated.runtime import Node, Server
from estimators.federated.schedule import GaussianNoise, stream
from estimators.federated.task import Task
from estimators.federated.training import training

WORK = {"rule": "fixed", "n_steps": 2, "batch_size": 4}


def task(clients=4, seed=0, **settings):
    federation = synthetic_federation(clients=clients, rows=20, seed=1)
    model = logistic_regression(10, federation.classes)
    return Task(federation, model, work=WORK, seed=seed, backend=NumpyBackend(workers=1), **settings)


def test_a_whole_number_is_one_that_a_float_has():
    assert number(1 << 1023)
    assert number(-(1 << 1023))
    assert not number((1 << 1023) + 1)
    assert not number(1 << 1024)


def test_settings_are_put_under_all_their_keys():
    settings = {"a": {"x": 1}}
    put(settings, ["a", "b", "c"], 2)
    put(settings, ["d"], 3)
    assert settings == {"a": {"x": 1, "b": {"c": 2}}, "d": 3}


def test_rounds_are_numbered_up_to_32_bits():
    assert schedule.epochs([5], n_epochs=1, batch_size=2, seed=0, round=2**32 - 1).steps.tolist() == [3]
    for round in (2**32, 2**32 + 1):
        with pytest.raises(ValueError, match="round"):
            schedule.epochs([5], n_epochs=1, batch_size=2, seed=0, round=round)


@pytest.mark.parametrize("passes", [[1, 1, 1], [[1, 1]], [[1], [1]], [[[1, 1]]]])
def test_a_number_for_each_client_comes_as_one_list_of_their_length(passes):
    with pytest.raises(ValueError, match="n_epochs must be a whole number or have one entry for each of the 2 clients"):
        schedule.epochs([5, 3], n_epochs=passes, batch_size=2, seed=0, round=0)


def test_seeds_of_noise_have_up_to_64_bits():
    last, first = (GaussianNoise(1.0, seed=seed, round=0).draw(0, range(2), 3) for seed in (2**64 - 1, 0))
    assert (last != first).all()
    for seed in (2**64, -1):
        with pytest.raises(ValueError, match="seed"):
            GaussianNoise(1.0, seed=seed, round=0).draw(0, range(2), 3)


def test_seeds_of_training_have_up_to_63_bits():
    assert task(seed=2**63 - 1).seed == 2**63 - 1
    for seed in (2**63, -1):
        with pytest.raises(ValueError, match="seed"):
            task(seed=seed)


def test_the_ends_of_whole_settings():
    privacy = RowPrivacy(eps=1.0, delta=1e-3, clip=1.0)
    RobustHDP(learning_rate=0.1, privacy=privacy, every=10**7)
    with pytest.raises(ValueError, match="every"):
        RobustHDP(learning_rate=0.1, privacy=privacy, every=10**7 + 1)
    once = partial(training, FedAvg(learning_rate=0.1), task())
    record = next(once(rounds=1, every=10**7)).record
    assert record is not None
    assert record["round"] == 1
    for more in ({"rounds": 1, "every": 10**7 + 1}, {"rounds": 10**7 + 1}):
        with pytest.raises(ValueError, match=list(more)[-1]):
            next(once(**more))
    FedAvgPlus(learning_rate=0.1, tuning_steps=10**6)
    with pytest.raises(ValueError, match="tuning_steps"):
        FedAvgPlus(learning_rate=0.1, tuning_steps=10**6 + 1)


POOL = data.Examples(np.zeros((8, 2, 2)), [0, 1] * 4, classes=2)
RATES = {"learning_rate": 0.1, "personal_rate": 0.1, "lam": 1.0}


@pytest.mark.parametrize(
    ("call", "name", "first", "last"),
    [
        (lambda: stream(0, -1), "position", 0, 4294967295),
        (lambda: stream(-1, 0), "seed", 0, 18446744073709551615),
        (lambda: task().initial(-1), "index", 0, 4294967295),
        (lambda: task(seed=-1), "seed", 0, 9223372036854775807),
        (lambda: generator(-1, "iid"), "seed", 0, 9223372036854775807),
        (lambda: GaussianNoise(1.0, -1, 0).draw(0, [0], 1), "seed", 0, 18446744073709551615),
        (lambda: GaussianNoise(1.0, 0, -1).draw(0, [0], 1), "round", 0, 4294967295),
        (lambda: GaussianNoise(1.0, 0, 0).draw(-1, [0], 1), "client", 0, 4294967295),
        (lambda: GaussianNoise(1.0, 0, 0).draw(0, [-1], 1), "steps", 0, 4294967295),
        (lambda: data.eps_levels(0, [(1.0, 1.0)], seed=0), "clients", 1, 1000000000),
        (lambda: data.draw_eps(0, [(1.0, "normal", 1.0, 1.0)], seed=0), "clients", 1, 1000000000),
        (lambda: data.rotated_silos(POOL, clients=2, rotations=3, seed=0), "clients", 3, 1000000000),
        (lambda: data.rotated_silos(POOL, rotations=0, seed=0), "rotations", 1, 4),
        (lambda: data.merged(data.iid(POOL, clients=4, seed=0), size=0, seed=0), "size", 1, 4),
        (lambda: data.merged(data.iid(POOL, clients=4, seed=0), size=1, clients=0, seed=0), "clients", 1, 1000000000),
        (lambda: data.masked(data.iid(POOL, clients=4, seed=0), ratio=0.5, patch=0, seed=0), "patch", 1, 2),
        (lambda: data.iid(POOL, clients=4, size=0, seed=0), "size", 1, 1000000000),
        (lambda: data.iid(POOL, clients=0, seed=0), "clients", 1, 1000000000),
        (lambda: synthetic_federation(clients=0), "clients", 1, 1000000000),
        (lambda: synthetic_federation(rows=0), "rows", 1, 1000000000),
        (lambda: synthetic_federation(features=0), "features", 1, 1000000000),
        (lambda: synthetic_federation(clients=7, groups=0), "groups", 1, 7),
        (lambda: synthetic_federation(classes=1), "classes", 2, 1000000),
        (lambda: row_releases(multiplier=0.0, clip=1.0, work=WORK, rows=0, rounds=1, silo_count=1, canary=1),
         "rows", 1, 1000000),
        (lambda: IFCA(learning_rate=0.1, clusters=0), "clusters", 1, 1000000),
        (lambda: FedEM(learning_rate=0.1, components=0), "components", 1, 1000),
        (lambda: PFedMe(**RATES, inner_steps=0), "inner_steps", 1, 1000000),
        (lambda: PerFedAvg(learning_rate=0.1, alpha=0.1, adaptations=-1), "adaptations", 0, 1000000),
        (lambda: next(training(FedAvg(learning_rate=0.1), task(), rounds=0)), "rounds", 1, 10000000),
        (lambda: Node(FedAvg(learning_rate=0.1), task(), rounds=0, clients=[0]), "rounds", 1, 10000000),
        (lambda: Server(FedAvg(learning_rate=0.1), task().terms, rounds=0), "rounds", 1, 10000000),
        (lambda: Asked(np.array([0]), rounds=0, plan=""), "rounds", 1, 10000000),
        (lambda: audit_training(Local(learning_rate=0.1), data.iid(POOL, clients=1, seed=0), logistic_regression(4),
                                work=WORK, rounds=0, canaries=[(0, 0)]), "rounds", 1, 10000000),
        (lambda: files.idx(b"", "x", 0), "dimensions", 1, 255),
    ],
)  # fmt: skip
def test_whole_settings_end_where_their_refusal_says(call, name, first, last):
    with pytest.raises(ValueError, match=rf"^{name} must be in {first}\.\.{last}, got"):
        call()


def test_results_may_be_kept_of_every_round():
    with pytest.raises(ValueError, match="every"):
        setup_of("", {"rounds": 3, "every": 0, "seeds": []}, None)
    with pytest.raises(ValueError, match="seeds"):  # one is fine: what is wrong comes after it
        setup_of("", {"rounds": 1, "every": 1, "seeds": []}, None)


def test_a_group_is_chosen_by_something_known_or_is_the_rest():
    given = {"rounds": 1, "seeds": [0], "model": {"kind": "logistic_regression"}, "work": WORK}
    groups = {"few": ["opt_out", {"share": 0.5}], "others": "rest"}
    assert setup_of("", {**given, "groups": groups}, None).groups == groups
    with pytest.raises(ValueError, match=r"groups\.few"):
        setup_of("", {**given, "groups": {"few": ["nobody_knows", {}]}}, None)


@pytest.mark.parametrize("scores", [(0, 60), (1, 71)])
def test_a_score_at_either_end_says_another_file(tmp_path, scores):
    cells = np.empty((1, 2), object), np.empty((1, 2), object)
    for i in range(2):
        cells[0][0, i] = np.arange(12.0).reshape(4, 3) + i
        cells[1][0, i] = np.linspace(*scores, 4)[:, None]
    scipy.io.savemat(tmp_path / "school.mat", {"X": cells[0], "Y": cells[1]})
    with pytest.raises(ValueError, match=r"School has 1\.\.70"):
        data.school(tmp_path)


@pytest.mark.parametrize(
    ("rates", "clips", "joint", "refused"),
    [
        ((0.1, 0.2, 0), (np.inf, 1.0), False, True),
        ((0.1, 0.2, 0.3), (1.0, np.inf), False, True),
        ((0.1, 0.2, 0.3), (1.0, np.inf), True, False),
        ((0.1, 0.2, 0), (1.0, np.inf), False, False),
    ],
)
def test_noise_needs_the_clips_that_it_is_a_multiple_of(rates, clips, joint, refused):
    model = logistic_regression(3)
    rng = np.random.default_rng(0)
    prepared = NumpyBackend(workers=1).prepare(model, [(rng.standard_normal((4, 3)), rng.integers(0, 2, 4))])
    step = PairStep(rates=rates, own=(1, 1), common=(0, 1), floor=0.5, clips=clips, joint=joint)
    batches = schedule.epochs([4], n_epochs=1, batch_size=2, seed=0, round=0)
    start = np.zeros(model.n_parameters)

    def check():
        return checked_pairs(
            model, start, start, 1.0, prepared, batches, step=step, noise=GaussianNoise(1.5, seed=0, round=0)
        )

    if refused:
        with pytest.raises(ValueError, match="finite clips"):
            check()
    else:
        assert check()[1] == 1.5


def test_mocha_starts_from_the_identity_or_a_share_of_it():
    inverse, relation = (
        Mocha(lam=0.5, learning_rate=0.1, penalty=p).start(task(), rounds=1)["matrix"] for p in ("inverse", "relation")
    )
    np.testing.assert_array_equal(inverse, 4 * np.eye(4))  # the inverse of the other
    np.testing.assert_array_equal(relation, np.eye(4) / 4)


def test_what_is_not_learned_is_no_vector_that_is_released():
    settings = {"learning_rate": 0.1, "common_rate": 0.2, "psi": 0.7, "floor": 0.4, "eps": 8.0, "delta": 1e-3, "clip": 0.1}
    vectors = {
        (rate, clip): DPAdaPeD(**settings, psi_rate=rate, psi_clip=clip).plan(task(), 3)["vectors"]
        for rate, clip in ((0.3, 0.2), (0.3, None), (0.0, 0.2))
    }
    assert vectors == {(0.3, 0.2): 2, (0.3, None): 1, (0.0, 0.2): 1}


def test_the_client_in_two_groups_is_named():
    algorithm = FeO2(learning_rate=0.1, number=2, delta=1e-3, multiplier=1.0, ratio=0.5, clip=1.0)
    twice = task(groups={"public": np.array([0, 2]), "private": np.array([1, 2, 3])})
    with pytest.raises(ValueError, match="client 2 is in 2"):
        algorithm.levels(twice)


def test_the_likelihood_ratio_of_a_sampled_canary():
    """Of independent releases, a mixture of noise with and without the canary against noise alone, from densities."""
    releases = np.array([[0.3, -1.2, 2.5], [4.0, 0.0, 0.1]])
    rate, scale, shift, base = 0.3, 1.7, 0.8, 0.25
    without = stats.norm.pdf(releases, base, scale)
    mixed = (1 - rate) * without + rate * stats.norm.pdf(releases, base + shift, scale)
    found = row_statistics(releases, multiplier=scale, rate=rate, shift=shift, base=base)
    np.testing.assert_allclose(found[:, 0], np.log(mixed / without).sum(axis=1), rtol=1e-12)
    always = row_statistics(releases, multiplier=scale, rate=1.0, shift=shift, base=base)[:, 0]
    only = np.log(stats.norm.pdf(releases, base + shift, scale) / without).sum(axis=1)
    np.testing.assert_allclose(always, only, rtol=1e-12)


def test_a_matlab_file_may_unpack_to_as_many_bytes_as_are_said():
    cells = np.empty(2, dtype=object)
    cells[:] = [np.arange(6.0).reshape(2, 3), np.eye(2)]
    file = io.BytesIO()
    scipy.io.savemat(file, {"x": cells, "y": cells[:1]}, do_compression=True)
    content, at, size = file.getvalue(), 128, 0
    while at < len(content):
        packed = int.from_bytes(content[at + 4 : at + 8], "little")
        size += len(zlib.decompress(content[at + 8 : at + 8 + packed]))
        at += 8 + packed
    found = cell_arrays(content, largest=size)
    assert sorted(found) == ["x", "y"]
    np.testing.assert_array_equal(found["x"][0], cells[0])
    with pytest.raises(ValueError, match="unpacks to more bytes than are read"):
        cell_arrays(content, largest=size - 1)


def test_a_matlab_element_has_as_many_bytes_as_it_says():
    """Four fit into a small element, whose size stands beside its type; others are filled up to a multiple of eight."""
    whole, short = struct.pack("<II", 1, 5) + b"abcde\0\0\0", struct.pack("<HH", 1, 4) + b"abcd"
    assert [(kind, bytes(part)) for kind, part in elements(whole + short, "<")] == [(1, b"abcde"), (1, b"abcd")]
    for damaged in (whole[:12], struct.pack("<HH", 1, 5) + b"abcde\0\0\0"):
        with pytest.raises(ValueError, match="it is cut off"):
            list(elements(damaged, "<"))


def test_work_says_steps_or_passes_and_evaluation_where_there_are_rows():
    federation = synthetic_federation(clients=4, rows=20, seed=1)
    ways = {"seed": 0, "backend": NumpyBackend(workers=1)}
    model = logistic_regression(10, federation.classes)
    with pytest.raises(ValueError, match="work has n_steps and n_epochs; give one"):
        Task(federation, model, work=WORK | {"n_epochs": 1}, **ways)
    whole = Task(federation, model, work=WORK, **ways)
    where = "server_test" if whole.server_test is None else "test"
    with pytest.raises(ValueError, match=f"has no rows for {where}; split some off"):
        whole.evaluate(np.zeros(model.n_parameters), where)
