"""Dropout: its bits against the published ones, its law, and training with it against networks that have none."""

import numpy as np
import pytest
from scipy import stats

from estimators.federated.algorithms import FedAvg, PerFedAvg, PFedMe
from estimators.federated.backend import local_training
from estimators.federated.data import synthetic_federation
from estimators.federated.dropout import dropped, factors, threefry
from estimators.federated.models import (
    Convolution,
    Model,
    convolutional_network,
    fedhdp_network,
    linear_regression,
    neural_network,
)
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.pairs import PairStep
from estimators.federated.reference_backend import ReferenceBackend
from estimators.federated.schedule import GaussianNoise, Schedule, epochs, fixed_batches, poisson_batches
from estimators.federated.task import Task
from estimators.federated.training import train
from tests.estimators.federated.test_federated_jax import SIZES, federation, start

REFERENCE = ReferenceBackend()
LEVEL = 1e-6
"""Rate of error of each test of a law."""
MODELS = {
    "features": Model((5, 1), "square", dropout=(0.5,)),
    "hidden": Model((5, 7, 3), "softmax", dropout=(0, 0.5)),
    "deep": Model((5, 4, 4, 3), "softmax", dropout=(0.2, 0, 0.7)),
    "images": convolutional_network(49, 3, channels=(2, 3), size=2, same=True, hidden=(4,), dropout=(0.25, 0.5)),
    "no others": Model((36, 1), "logistic", (6, 6, 1), (Convolution(2, 3),), dropout=(0.4,)),
}
SETTINGS = {"plain": {}, "clipped": {"clip": 0.3}, "private": {"clip": 0.5, "noise": GaussianNoise(0.7, 1, 2)}}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def words(*numbers):
    return tuple(np.array([number], np.uint32) for number in numbers)


# Bits.


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_has_the_known_answers_of_its_authors(key, counter, expected):
    """The vectors of 20 rounds that Random123 is released with (kat_vectors)."""
    assert [int(bits[0]) for bits in threefry(words(*key), words(*counter))] == list(expected)


def test_threefry_is_the_one_of_jax():
    random = pytest.importorskip("jax.extend.random", reason="the extra learn is not installed")
    rng = np.random.default_rng(2)
    key, counter = (rng.integers(0, 2**32, size, dtype=np.uint32) for size in (2, (2, 500)))
    expected = np.asarray(random.threefry_2x32(key, counter.ravel()))
    assert np.concatenate(threefry((key[0], key[1]), (counter[0], counter[1]))).tolist() == expected.tolist()


# What is left out.


def test_each_input_is_left_out_with_its_probability_and_the_others_count_more():
    model = Model((200, 100, 50, 2), "softmax", dropout=(0.1, 0, 0.75))
    assert dropped(model) == [200, 0, 50]
    first, second, third = factors(model, np.array([5, 6], np.uint32), 2000)
    assert second == 1
    for p, found in ((0.1, first), (0.75, third)):
        left_out = found == 0
        assert found[~left_out] == pytest.approx(1 / (1 - p), rel=1e-9)
        assert stats.binomtest(int(left_out.sum()), left_out.size, p).pvalue > LEVEL


def test_next_to_one_what_is_left_is_rare_and_not_nothing():
    """Probabilities have 32 bits: the largest one leaves an input in 2^32."""
    (found,) = factors(Model((2000, 1), "square", dropout=(1 - 1e-15,)), np.array([5, 6], np.uint32), 50)
    assert found.shape == (50, 2000)
    assert not found.any()


def test_inputs_examples_steps_and_clients_are_independent():
    """Signs of what is left out with probability 1/2, of neighbours in each of these, have no covariance."""
    model = Model((400, 1), "square", dropout=(0.5,))
    keys = epochs([8] * 3, n_epochs=1, batch_size=2, seed=3, round=7).keyed(3, 7).keys
    signs = np.array([[factors(model, key, 100)[0] - 1 for key in client] for client in keys])
    assert signs.shape == (3, 4, 100, 400)
    assert set(np.unique(signs)) == {-1, 1}
    for axis in range(4):
        for distance in (1, 2, 3, 200):  # the two words of a counter are 200 inputs apart
            if distance < signs.shape[axis]:
                left = np.take(signs, range(signs.shape[axis] - distance), axis)
                right = np.take(signs, range(distance, signs.shape[axis]), axis)
                assert abs((left * right).sum()) / left.size**0.5 < stats.norm.isf(LEVEL / 2)


def test_more_examples_change_nothing_for_the_first():
    model, key = MODELS["deep"], np.array([1, 2], np.uint32)
    for few, many in zip(factors(model, key, 3), factors(model, key, 9), strict=True):
        assert np.array_equal(few, many if np.isscalar(many) else many[:3])


def test_dropout_of_features_is_ridge_regression_on_average():
    """E (sum_j f_j w_j x_j - y)^2 / 2 has the penalty p / (1 - p) sum_j w_j^2 x_j^2 / 2 (Srivastava et al. 2014, 9.1)."""
    w, x, y, p = np.array([0.5, -1.0, 2.0, 0.3]), np.array([1.0, 2.0, -0.5]), 1.5, 0.4
    model, n = Model((3, 1), "square", dropout=(p,)), 40_000
    data = REFERENCE.prepare(model, [(np.tile(x, (n, 1)), np.full(n, y))])
    whole = Schedule([0], np.arange(n)[None, None], np.ones((1, 1, n)), [[float(n)]], [1])
    found = []
    for seed in range(12):
        found.append(w - REFERENCE.local_sgd(model, w, data, whole.keyed(seed, 0), learning_rate=1.0)[0])
    residual = w[:3] @ x + w[3] - y
    expected = np.append(residual * x + p / (1 - p) * w[:3] * x**2, residual)
    errors = np.std(found, axis=0, ddof=1) / len(found) ** 0.5
    assert (abs(np.mean(found, axis=0) - expected) < stats.t.isf(LEVEL / 2, len(found) - 1) * errors).all()


# Training.


def without(model):
    return Model(model.sizes, model.loss, model.image, model.convolutions)


def scaled(model, w, kept):
    """Parameters of the network without dropout whose weights are what inputs count, times those that they are left with."""
    times = [np.ones(shape) for shape in model.shapes]
    for layer, part in zip(times[len(model.convolutions) :], kept, strict=True):
        layer[:-1] *= np.reshape(part, (-1, 1))
    times = np.concatenate([layer.ravel() for layer in times])
    return times * w, times


@pytest.mark.parametrize("how", SETTINGS)
def test_a_step_is_that_of_networks_with_other_weights(model, how):
    """Of an example whose inputs count f the network without dropout has weights f w; slopes by w are f times its slopes."""
    settings, w, clients = SETTINGS[how], start(model), federation(model)
    schedule = poisson_batches(SIZES, n_steps=1, batch_size=1, seed=4, round=2).keyed(9, 2)
    found = REFERENCE.local_sgd(model, w, REFERENCE.prepare(model, clients), schedule, learning_rate=0.1, **settings)
    for i, (x, y) in enumerate(clients):
        total, clip = np.zeros(len(w)), settings.get("clip", np.inf)
        kept = factors(model, schedule.keys[i, 0], schedule.indices.shape[2])
        for j, row in enumerate(schedule.indices[i, 0]):
            if schedule.weights[i, 0, j]:
                other, times = scaled(model, w, [1 if np.isscalar(part) else part[j] for part in kept])
                slope = times * REFERENCE.example_gradients(without(model), other, x[[row]], y[[row]])[0]
                total += slope * min(1, clip / np.linalg.norm(slope))
        if "noise" in settings:
            total += 0.7 * clip * settings["noise"].draw(i, [0], len(w))[0].astype(float)
        np.testing.assert_allclose(found[i], w - 0.1 * total / schedule.divisors[i, 0], atol=1e-13)


@pytest.mark.parametrize(
    ("name", "how", "dtype"),
    [
        ("deep", "plain", "float64"),
        ("no others", "private", "float64"),
        ("images", "private", "float64"),
        ("images", "clipped", "float32"),
    ],
)
def test_training_in_jax_equals_the_plain_twin(name, how, dtype):
    """Of clients with 6, 2 and 4 steps, which JAX takes in another order, and of batches of any size."""
    pytest.importorskip("jax", reason="the extra learn is not installed")
    from estimators.federated.jax_backend import JaxBackend

    model = MODELS[name]
    drawn = {"plain": epochs(SIZES, n_epochs=2, batch_size=4, seed=1, round=2)}
    schedule = drawn.get(how, poisson_batches(SIZES, n_steps=11, batch_size=1, seed=1, round=2)).keyed(1, 2)
    ends, settings = [], SETTINGS[how] | {"learning_rate": 0.1, "pull": (0.1, 0.5 * start(model, 2))}
    for backend in (REFERENCE, JaxBackend(dtype=dtype)):
        data = backend.prepare(model, federation(model))
        ends.append(backend.local_sgd(model, start(model), data, schedule, **settings))
    assert abs(ends[0] - start(model)).max() > 1e-3
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-12 if dtype == "float64" else 1e-5)


def test_losses_scores_and_gradients_of_examples_leave_nothing_out(model):
    clients, w = federation(model), start(model)
    data = REFERENCE.prepare(model, clients)
    assert REFERENCE.loss(model, w, *clients[0]) == REFERENCE.loss(without(model), w, *clients[0])
    assert np.array_equal(REFERENCE.scores(model, w, data), REFERENCE.scores(without(model), w, data))
    assert np.array_equal(REFERENCE.evaluate(model, w, data).loss, REFERENCE.evaluate(without(model), w, data).loss)
    found, expected = (REFERENCE.example_gradients(m, w, *clients[0]) for m in (model, without(model)))
    assert np.array_equal(found, expected)


def test_a_batch_without_examples_moves_nothing():
    model = MODELS["hidden"]
    empty = Schedule([0], np.zeros((1, 2, 0)), np.zeros((1, 2, 0)), np.ones((1, 2)), [2]).keyed(0, 0)
    data = REFERENCE.prepare(model, federation(model))
    assert REFERENCE.local_sgd(model, start(model), data, empty, learning_rate=0.1).tolist() == [start(model).tolist()]


# Keys.


def test_keys_are_a_function_of_seed_round_client_and_step():
    whole = fixed_batches(SIZES, n_steps=4, batch_size=2, seed=0, round=0).keyed(5, 6)
    assert whole.keys.shape == (3, 4, 2)
    assert len({tuple(key) for client in whole.keys.tolist() for key in client}) == 12
    some = fixed_batches(SIZES, n_steps=2, batch_size=1, seed=3, round=1, clients=[2, 0]).keyed(5, 6)
    assert some.keys.tolist() == whole.keys[[2, 0], :2].tolist()
    for other in ((4, 6), (5, 7), (6, 5)):
        assert not (whole.keyed(*other).keys == whole.keys).all(axis=2).any()


def test_keys_go_where_their_batches_go():
    whole = fixed_batches(SIZES, n_steps=4, batch_size=2, seed=0, round=0).keyed(5, 6)
    assert whole.rows([2, 0]).keys.tolist() == whole.keys[[2, 0]].tolist()
    assert whole.step(3, times=2).keys.tolist() == whole.keys[:, [3, 3]].tolist()
    bare = Schedule([0], [[[0]]], [[[1.0]]], [[1.0]], [1])
    assert bare.keys is bare.rows([0]).keys is bare.step(0).keys is None


def test_a_task_gives_keys_where_the_model_has_dropout():
    clients = synthetic_federation(clients=4, rows=20, seed=1)
    work = {"rule": "epochs", "n_epochs": 1, "batch_size": 5}
    sizes = (10, 3, clients.classes)
    models = [Model(sizes, "softmax", dropout=p) for p in ((0, 0.5), (0, 0))]
    tasks = [Task(clients, model, work=work, seed=3, backend=REFERENCE) for model in models]
    assert tasks[1].schedule(2).keys is None
    later = [tasks[0].schedule(t, stage=stage).keys for t, stage in ((2, 0), (2, 1), (3, 0))]
    assert len({tuple(map(tuple, keys.reshape(-1, 2).tolist())) for keys in later}) == 3
    assert tasks[0].schedule(2, [3, 1]).keys.tolist() == later[0][[3, 1]].tolist()


@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(learning_rate=0.1),
        PerFedAvg(learning_rate=0.1, alpha=0.05),
        PFedMe(learning_rate=0.1, personal_rate=0.1, lam=0.5, inner_steps=2),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_algorithms_train_networks_with_dropout(algorithm):
    clients = synthetic_federation(clients=4, rows=20, seed=1)
    work, ends = {"rule": "epochs", "n_epochs": 1, "batch_size": 5}, []
    for p in (0.5, 0.5, 0.0):
        model = Model((10, 6, clients.classes), "softmax", dropout=(0, p))
        task = Task(clients, model, work=work, seed=3, backend=REFERENCE)
        ends.append(algorithm.models(task, train(algorithm, task, rounds=3).state))
    for name, found in ends[0].items():
        assert np.isfinite(found).all()
        assert np.array_equal(found, ends[1][name])
        assert not np.allclose(found, ends[2][name], atol=1e-3)


# What is refused.


def test_a_schedule_without_keys_is_refused():
    model = MODELS["hidden"]
    data = REFERENCE.prepare(model, federation(model))
    steps = fixed_batches(SIZES, n_steps=1, batch_size=2, seed=0, round=0)
    with pytest.raises(ValueError, match=r"^schedule has no keys for the dropout of model; take schedule\.keyed"):
        REFERENCE.local_sgd(model, start(model), data, steps, learning_rate=0.1)
    assert local_training(without(model), start(model), data, steps, learning_rate=0.1).noise is None


@pytest.mark.parametrize("keys", [np.zeros((1, 1, 2)), np.zeros((1, 2, 2), np.uint32), np.zeros((1, 1), np.uint32)])
def test_other_keys_are_refused(keys):
    with pytest.raises(ValueError, match=r"^keys must be an array of uint32 of shape \(1, 1, 2\), got "):
        Schedule([0], [[[0]]], [[[1.0]]], [[1.0]], [1], keys)


@pytest.mark.parametrize(
    ("dropout", "said"),
    [
        ((0.5,), r"dropout must be a tuple of 2 numbers, one for each layer after the convolutions, or empty, got \(0.5,\)"),
        ([0.5, 0.5], r"dropout must be a tuple of 2 numbers"),
        ((0.5, 1.0), r"dropout must be below 1"),
        ((0.5, -0.1), r"dropout\[1\] must lie in \[0, 1\]"),
        ((np.nan, 0.1), r"dropout\[0\] holds NaN"),
        (("half", 0.1), r"dropout\[0\] must be"),
    ],
)
def test_dropout_that_cannot_be_is_refused(dropout, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        Model((5, 7, 3), "softmax", dropout=dropout)


def test_dropout_of_nothing_is_none():
    assert Model((5, 7, 3), "softmax", dropout=(0, 0.0)) == neural_network(5, 7, 3)
    assert fedhdp_network().dropout == (0.25, 0.5)
    assert dropped(linear_regression(3)) == []


def test_what_cannot_train_with_dropout_says_so():
    model = MODELS["hidden"]
    with pytest.raises(ValueError, match=r"^model has dropout; NumpyBackend trains .*--backend jax"):
        NumpyBackend().prepare(model, federation(model))
    data, step = REFERENCE.prepare(model, federation(model)), PairStep(rates=(0.1, 0.1, 0), own=(1, 0), common=(1, 0))
    steps = fixed_batches(SIZES, n_steps=1, batch_size=2, seed=0, round=0).keyed(0, 0)
    with pytest.raises(ValueError, match=r"^model has dropout, which pairs of networks are not trained with"):
        REFERENCE.local_pairs(model, start(model), start(model), 1.0, data, steps, step=step)
