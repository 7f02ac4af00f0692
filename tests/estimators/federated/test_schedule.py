"""Schedules at the ends of what they take: no step, no repetition, batches of one row, places of 32 bits."""

import numpy as np
import pytest

from estimators.federated.schedule import GaussianNoise, Schedule, epochs, fixed_batches, poisson_batches, stream

RULES = {
    "epochs": lambda **how: epochs([4, 2], seed=0, round=0, n_epochs=how.pop("times"), **how),
    "fixed": lambda **how: fixed_batches([4, 2], seed=0, round=0, n_steps=how.pop("times"), **how),
    "poisson": lambda **how: poisson_batches([4, 2], seed=0, round=0, n_steps=how.pop("times"), **how),
}


@pytest.mark.parametrize("name", RULES)
def test_work_may_be_nothing_for_all_or_for_some(name):
    rule = RULES[name]
    assert rule(times=0, batch_size=1).steps.tolist() == [0, 0]
    some = rule(times=[0, 1], batch_size=[1, 2])
    assert some.steps.tolist() == [0, 1]
    assert some.divisors.tolist() == [[1.0], [2.0]]  # where there is no step, the divisor is a filling of 1
    assert rule(times=1, batch_size=1).divisors[0, 0] == 1
    for bad in ({"times": -1, "batch_size": 1}, {"times": 1, "batch_size": 0}, {"times": [1], "batch_size": 1}):
        with pytest.raises(ValueError, match=r"n_epochs|n_steps|batch_size"):
            rule(**bad)


def test_rows_and_steps_of_a_schedule():
    plan = epochs([5, 3], n_epochs=2, batch_size=2, seed=1, round=4)
    assert plan.rows(slice(1, 2)).clients.tolist() == plan.rows([False, True]).clients.tolist() == [1]
    for chosen in ([[0]], np.ones((2, 1), int), [0.5], np.zeros(2)):
        with pytest.raises(ValueError, match="chosen must be"):
            plan.rows(chosen)
    for number in range(6):
        for times in (0, 1, 3):
            step = plan.step(number, times)
            assert step.steps.tolist() == [times, times if number < 4 else 0]
            assert step.indices.shape == (2, times, 2)
            assert (step.indices == plan.indices[:, [number]]).all()
            assert (step.divisors == plan.divisors[:, [number]]).all()
    assert plan.step(0).steps.tolist() == [1, 1]
    for wrong, name in (((0, -1), "times"), ((-1,), "number"), ((6,), r"number must be in 0\.\.5, got 6")):
        with pytest.raises(ValueError, match=name):
            plan.step(*wrong)


@pytest.mark.parametrize("change", [
    {"clients": [0, 1]}, {"steps": [0, 1]}, {"steps": [3]}, {"clients": [-1]}, {"indices": [[[-1], [0]]]},
    {"weights": [[[-0.5], [1]]]}, {"divisors": [[1.0, 0.0]]}, {"divisors": [[1.0, 1.0, 1.0]]},
    {"weights": [[[1.0, 1.0]] * 2]}, {"indices": [[0, 0]]},
])  # fmt: skip
def test_a_schedule_is_refused_for_each_part_alone(change):
    parts = {"clients": [0], "indices": [[[0], [0]]], "weights": [[[1.0], [1]]], "divisors": [[1.0, 1.0]], "steps": [2]}
    assert Schedule(**parts).steps.tolist() == [2]
    with pytest.raises(ValueError, match="must"):
        Schedule(**(parts | change))


def test_sizes_and_clients_are_lists_of_those_there_are():
    how = {"n_epochs": 1, "batch_size": 1, "seed": 0, "round": 0}
    assert epochs([0, 2], **how, clients=[1]).clients.tolist() == [1]
    assert epochs([0, 2], **how, clients=1).steps.tolist() == [2]
    assert epochs([2], **how, clients=[]).indices.shape == (0, 0, 0)
    for sizes, clients, said in (([2], [1], "positions below 1"), ([0], None, "client 0 has no data"),
                                 ([[2]], None, "sizes must be a list")):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            epochs(sizes, **how, clients=clients)


def test_places_have_32_bits_and_seeds_63():
    last = 2**32 - 1
    draws = {
        (k, r, s): GaussianNoise(1.0, seed=0, round=r).draw(k, [s], 3).tobytes() for k in (0, last) for r in (0, last)
        for s in (0, last)
    }  # fmt: skip
    assert len(set(draws.values())) == 8
    noise = GaussianNoise(1.0, seed=2**63 - 1, round=0)
    assert noise.draw(0, range(last - 1, last + 1), 3)[1].tobytes() == noise.draw(0, [last], 3)[0].tobytes()
    assert noise.draw(0, [], 3).shape == (0, 3)
    assert noise.draw(0, range(3), 0).shape == (3, 0)
    for call in (lambda: noise.draw(-1, [0], 1), lambda: noise.draw(2**32, [0], 1), lambda: noise.draw(0, [2**32], 1),
                 lambda: noise.draw(0, range(-1, 2), 1), lambda: noise.draw(0, range(last, last + 2), 1),
                 lambda: noise.draw(0, [-1], 1), lambda: GaussianNoise(1.0, -1, 0).draw(0, [0], 1),
                 lambda: GaussianNoise(1.0, 0, 2**32).draw(0, [0], 1), lambda: GaussianNoise(1.0, 0, -1).draw(0, [0], 1),
                 lambda: noise.draw(0, [0], -1), lambda: stream(0, 2**32), lambda: stream(0, 0, -1)):  # fmt: skip
        with pytest.raises(ValueError, match="must be"):
            call()
    assert stream(0, 0, last).random() != stream(0, last, 0).random()


def test_noise_is_written_where_it_is_asked_for():
    noise, out = GaussianNoise(1.0, seed=0, round=2), np.full((2, 5), np.nan, np.float32)
    assert noise.draw(3, [4, 1], 5, out) is out
    assert out.tobytes() == noise.draw(3, [4, 1], 5).tobytes()
    for bad in (np.zeros((2, 4), np.float32), np.zeros((1, 5), np.float32), np.zeros((2, 5))):
        with pytest.raises(ValueError, match=r"out must be an array of float32 of shape \(2, 5\)"):
            noise.draw(3, [4, 1], 5, bad)
