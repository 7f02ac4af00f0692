"""One federation over several processes: the bits of one, also when it goes on, and a clear word when a process dies."""

from functools import partial
from multiprocessing import active_children

import numpy as np
import pytest

from estimators.federated.backend import Diverged
from estimators.federated.experiments.building import Built, build, forget
from estimators.federated.experiments.experiment import read
from estimators.federated.experiments.runs import execute, same_result
from estimators.federated.experiments.sweep import sweep
from estimators.federated.processes import training_in_processes
from estimators.federated.training import training

ROUNDS = 3


@pytest.fixture(autouse=True, scope="module")
def let_go():
    yield
    forget()


def run_of(name, algorithm, rounds=ROUNDS):
    return next(run for run in read(name).runs([0], rounds, embedded=True) if run.algorithm == algorithm)


def copied(step):
    return step.finished, {name: np.array(value) for name, value in step.state.items()}, step.record


def same(ours, theirs):
    assert ours[0] == theirs[0]
    assert ours[2] == theirs[2]
    assert set(ours[1]) == set(theirs[1])
    for name, value in theirs[1].items():
        np.testing.assert_array_equal(ours[1][name], value, err_msg=name)


# What clients keep and private noise; messages that differ from client to client. All algorithms: ``test_runtime``.
@pytest.mark.parametrize(("name", "algorithm"), [("adaped-figure1", "DPAdaPeD"), ("mrmtl-figure3a", "IFCA")])
def test_rounds_have_the_bits_of_one_process_and_go_on_in_another_number(name, algorithm):
    run = run_of(name, algorithm)
    task, chosen, rounds = build(run)
    whole = [copied(step) for step in training(chosen, task, rounds=rounds, every=2)]
    steps = training_in_processes(partial(build, run), processes=2, every=2)
    first = copied(next(steps))
    steps.close()
    same(first, whole[0])
    rest = training_in_processes(partial(build, run), processes=3, every=2, state=dict(first[1]), finished=1)
    for step, other in zip(rest, whole[1:], strict=True):
        same(copied(step), other)


def test_a_run_in_processes_has_the_same_result(tmp_path):
    run = run_of("robusthdp-cifar10", "RobustHDP")
    alone = execute(run, tmp_path / "one")
    assert same_result(execute(run, tmp_path / "two", processes=2), alone)


def diverging():
    built = build(run_of("mrmtl-figure3a", "MRMTL"))
    return Built(built.task, type(built.algorithm)(lam=1e30, learning_rate=1e30), ROUNDS)


def test_a_client_that_diverges_is_named_with_its_round():
    with pytest.raises(Diverged, match="training of client") as found:
        list(training_in_processes(diverging, processes=2))
    assert found.value.__notes__ == ["in round 1 of 3"]


def test_a_killed_process_is_said_and_finished_rounds_stand(tmp_path):
    run = run_of("mrmtl-figure3a", "MRMTL", rounds=40)

    def kill(finished, *_):
        if finished == 3:
            active_children()[0].kill()

    with pytest.raises(ChildProcessError, match="killed or ran out of memory; what is finished is kept"):
        execute(run, tmp_path, processes=2, progress=kill)
    seen = []
    resumed = execute(run, tmp_path, progress=lambda finished, *_: seen.append(finished))
    assert seen[0] == 4
    assert same_result(resumed, execute(run, tmp_path / "whole"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"processes": 0}, "processes must be"),
        ({"processes": 10**6}, "processes must be"),
        ({"processes": 2, "every": 0}, "every must be"),
        ({"processes": 2, "finished": 1}, "state and finished belong together"),
        ({"processes": "two"}, "processes must be"),
        ({"processes": 2, "state": 3, "finished": 1}, "state must be"),
    ],
)
def test_arguments_outside_their_domain_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        next(training_in_processes(partial(build, run_of("mrmtl-figure3a", "MRMTL")), **options))


@pytest.mark.parametrize("wrong", [None, 3, "build"])
def test_what_builds_is_a_function(wrong):
    with pytest.raises(ValueError, match="build must be"):
        next(training_in_processes(wrong, processes=2))


def test_several_runs_at_once_or_several_processes(tmp_path):
    with pytest.raises(ValueError, match="jobs or processes must be 1"):
        next(sweep([run_of("mrmtl-figure3a", "MRMTL")], tmp_path, jobs=2, processes=2))
