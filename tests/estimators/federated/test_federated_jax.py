"""The JAX backend against the plain twin (skipped without the extra ``learn``), and what is said without JAX."""

import numpy as np
import pytest

from estimators.federated import jax_backend
from estimators.federated.backend import Diverged
from estimators.federated.jax_backend import JaxBackend
from estimators.federated.models import (
    Convolution,
    Model,
    convolutional_network,
    linear_regression,
    linear_svm,
    logistic_regression,
    neural_network,
)
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.reference_backend import ReferenceBackend
from estimators.federated.schedule import GaussianNoise, Schedule, epochs, fixed_batches, poisson_batches

REFERENCE = ReferenceBackend()
SIZES = (11, 1, 6)
MODELS = {
    "linear": linear_regression(5),
    "logistic": logistic_regression(5),
    "svm": linear_svm(5),
    "multinomial": logistic_regression(5, 3),
    "network": neural_network(5, 7, 3),
    "deep": Model((5, 4, 4, 3), "softmax"),
    "images": convolutional_network(49, 3, channels=(2, 3), size=2, same=True, hidden=(4,)),
    "colours": Model((60, 1), "hinge", (5, 4, 3), (Convolution(2, 3, pool=1), Convolution(3, 2, same=True))),
}


def federation(model):
    rng, classes = np.random.default_rng(0), model.n_classes
    rows = [rng.standard_normal((n, model.n_features)) for n in SIZES]
    return [(x, rng.integers(0, classes, len(x)) if classes else rng.standard_normal(len(x))) for x in rows]


def start(model, seed=1):
    return 0.3 * np.random.default_rng(seed).standard_normal(model.n_parameters)


@pytest.fixture(params=["float64"])
def backend(request):
    """Most cases run in double precision only: compiling is what these tests wait for."""
    pytest.importorskip("jax", reason="the extra learn is not installed")
    return JaxBackend(dtype=request.param)


@pytest.mark.parametrize(
    ("backend", "name"),
    [*(("float64", name) for name in MODELS), ("float32", "network"), ("float32", "images")],
    indirect=["backend"],
)
def test_gradients_losses_and_evaluation_equal_the_plain_twin(backend, name):
    model = MODELS[name]
    clients, w = federation(model), start(model)
    atol = 1e-12 if backend.dtype == np.float64 else 1e-5
    x, y = clients[0]
    expected = REFERENCE.example_gradients(model, w, x, y)
    np.testing.assert_allclose(backend.example_gradients(model, w, x, y), expected, atol=atol)
    assert backend.loss(model, w, x, y) == pytest.approx(REFERENCE.loss(model, w, x, y), rel=atol)
    rows = np.stack([start(model, k) for k in range(3)])
    expected, found = (b.evaluate(model, rows, b.prepare(model, clients)) for b in (REFERENCE, backend))
    np.testing.assert_allclose(found.loss, expected.loss, atol=atol)
    if model.n_classes:
        np.testing.assert_allclose(found.accuracy, expected.accuracy, atol=1e-6)
    else:
        assert found.accuracy is None


WAYS = {
    "epochs": (epochs(SIZES, n_epochs=2, batch_size=4, seed=1, round=2), {}),
    "fixed": (
        fixed_batches(SIZES, n_steps=3, batch_size=4, seed=1, round=2, clients=[2, 0]),
        {"pull": ([0.3, 0.0], 0.5), "clip": 0.5},
    ),
    "private": (
        poisson_batches(SIZES, n_steps=11, batch_size=1, seed=1, round=2),
        {"clip": [0.5, 1.0, 0.2], "noise": GaussianNoise([0.7, 0.0, 1.4], 1, 2), "pull": (0.1, 0.5)},
    ),
    "weighted": (Schedule([1, 0], [[[0, 0]], [[3, 9]]], [[[0, 0.5]], [[0.2, 0.7]]], [[2.0], [1.5]], [1, 1]), {"clip": 0.1}),
    "empty": (Schedule([0], np.zeros((1, 3, 0)), np.zeros((1, 3, 0)), np.ones((1, 3)), [2]), {"pull": (0.4, 0.5)}),
}


@pytest.mark.parametrize(
    ("backend", "name", "way"),
    [
        *(("float64", name, "private") for name in MODELS),
        *(("float64", "network", way) for way in WAYS if way != "private"),
        ("float64", "images", "epochs"),
        ("float32", "network", "private"),
    ],
    indirect=["backend"],
)
def test_training_equals_the_plain_twin(backend, name, way):
    model = MODELS[name]
    schedule, how = WAYS[way]
    if "pull" in how:
        how = {**how, "pull": (how["pull"][0], how["pull"][1] * start(model, 2))}
    twins = [REFERENCE, backend]
    if not model.convolutions and len(model.sizes) < 4:
        twins.append(NumpyBackend(dtype=backend.dtype.name, workers=1))
    expected, *found = (
        b.local_sgd(model, start(model), b.prepare(model, federation(model)), schedule, learning_rate=0.1, **how)
        for b in twins
    )
    assert abs(expected - start(model)).max() > 1e-3
    for ends in found:
        assert ends.dtype == backend.dtype
        np.testing.assert_allclose(ends, expected, atol=1e-12 if backend.dtype == np.float64 else 1e-5)


def test_small_memory_cuts_clients_and_changes_only_rounding():
    pytest.importorskip("jax", reason="the extra learn is not installed")
    model = MODELS["network"]
    schedule, how = WAYS["private"][0], {**WAYS["private"][1], "pull": None}
    ends, evaluations = [], []
    for memory in (1, 10**8, 10**8):
        backend = JaxBackend(memory=memory)
        data = backend.prepare(model, federation(model))
        ends.append(backend.local_sgd(model, start(model), data, schedule, learning_rate=0.1, **how))
        evaluations.append(backend.evaluate(model, ends[0], data))
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)
    np.testing.assert_allclose(evaluations[0].loss, evaluations[1].loss, atol=1e-6)
    assert ends[1].tobytes() == ends[2].tobytes()
    assert evaluations[1].loss.tobytes() == evaluations[2].loss.tobytes()


@pytest.mark.parametrize("backend", ["float32", "float64"], indirect=True)
def test_as_many_clients_are_computed_at_once_as_fit_into_memory(backend):
    """Of a layer's position what it takes and three of what it gives, twice; slopes by weights at many; dropout."""
    dense = (5 + 1 + 3 * 7) + (7 + 1 + 3 * 3)
    patches = 2 * (2 * 2 + 1 + 3 * 2) + (2 * 2 + 1) * 2  # two positions of 2 x 2 pixels, 2 channels
    images = Model((6, 3), "softmax", (2, 3, 1), (Convolution(2, 2, pool=1),))
    dropping = Model((5, 7, 3), "softmax", dropout=(0, 0.5))
    for model, numbers in ((neural_network(5, 7, 3), dense), (images, patches + 4 + 1 + 3 * 3), (dropping, dense + 7)):
        for rows, copies in ((10, 4), (3, 0)):
            each = backend.dtype.itemsize * (2 * rows * numbers + copies * model.n_parameters)
            for memory, fit in ((5 * each, 5), (5 * each - 1, 4), (1, 1)):
                backend.memory = memory
                assert backend._fitting(model, rows, copies) == fit


def test_an_accelerator_trains_clients_with_alike_steps_together(backend):
    model, schedule = MODELS["network"], WAYS["epochs"][0]
    assert [part.tolist() for part in jax_backend.alike(np.array([0, 2, 1]), schedule.steps)] == [[0, 2], [1]]
    data, ends = backend.prepare(model, federation(model)), []
    for together in (False, True):
        backend.together = together
        ends.append(backend.local_sgd(model, start(model), data, schedule, learning_rate=0.1))
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-12)


def test_shared_parameters_are_evaluated_as_everyones_own(backend):
    model = MODELS["images"]
    data, w = backend.prepare(model, federation(model)), start(model)
    shared, own = backend.evaluate(model, w, data), backend.evaluate(model, np.tile(w, (3, 1)), data)
    np.testing.assert_allclose(shared.loss, own.loss, rtol=1e-5)
    assert shared.accuracy.tolist() == own.accuracy.tolist()
    some = data.take([2, 0])
    np.testing.assert_allclose(backend.evaluate(model, w, some).loss, shared.loss[[2, 0]], rtol=1e-5)


def test_rounds_of_similar_shape_share_a_program(backend):
    from estimators.federated.jax_backend import bucket, trained

    model = MODELS["logistic"]
    data, programs = backend.prepare(model, federation(model)), []
    for n in (33, 37, 40):
        schedule = fixed_batches(SIZES, n_steps=n, batch_size=4, seed=n, round=0)
        backend.local_sgd(model, start(model), data, schedule, learning_rate=0.1)
        programs.append(backend._programs[trained]._cache_size())
    assert programs[0] == programs[1] == programs[2]
    assert [bucket(n) for n in (33, 37, 40)] == [40] * 3


def test_other_users_of_jax_are_left_alone(backend):
    import jax

    before = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision
    data = backend.prepare(MODELS["linear"], federation(MODELS["linear"]))
    backend.evaluate(MODELS["linear"], start(MODELS["linear"]), data)
    assert (jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision) == before
    assert jax.numpy.ones(1).dtype == (np.float64 if before[0] else np.float32)


def test_kinks_have_slope_zero_in_every_backend(backend):
    """A margin of exactly 1 and hidden values of exactly 0."""
    assert not backend.example_gradients(linear_svm(1), [1.0, 0.0], [[1.0]], [1]).any()
    model = neural_network(2, 3, 2)
    w = np.ones(model.n_parameters)
    w[:9] = 0
    expected = REFERENCE.example_gradients(model, w, [[1.0, 2.0]], [1])
    np.testing.assert_allclose(backend.example_gradients(model, w, [[1.0, 2.0]], [1]), expected, atol=1e-7)
    assert not expected[0, :9].any()


def test_the_first_step_from_zeros_has_half_the_slope_of_a_certain_error(backend):
    """Linear models start with scores of exactly 0, where the logistic loss is smooth."""
    found = backend.example_gradients(logistic_regression(1), [0.0, 0.0], [[2.0], [2.0]], [0, 1])
    np.testing.assert_allclose(found, [[1, 0.5], [-1, -0.5]], rtol=1e-6)


def test_equal_largest_values_share_the_slope(backend):
    """A block of four equal pixels passes a quarter to each."""
    model = Model((4, 1), "square", (2, 2, 1), (Convolution(1, 1),))
    w = np.array([1.0, 0, 1, 0])
    x = np.array([[2.0, 2, 2, 2], [1, 2, 2, 0]])
    for found in (REFERENCE, backend):
        np.testing.assert_allclose(found.example_gradients(model, w, x, [0, 0]), [[4, 2, 4, 2]] * 2, rtol=1e-6)


@pytest.mark.parametrize("noise", [None, GaussianNoise(1.0, 0, 0)])
def test_diverging_training_names_client_and_step(backend, noise):
    model = MODELS["linear"]
    steps = fixed_batches(SIZES, n_steps=40, batch_size=4, seed=0, round=0, clients=[1, 2, 0])
    how = {"pull": ([0.0, 1.0, 1.0], np.zeros(6)), "clip": 1.0, "noise": noise}
    data, rates = backend.prepare(model, federation(model)), [1e-3, 1e12, 1e13]
    with pytest.raises(Diverged, match="client 2 diverged in step"):
        backend.local_sgd(model, start(model), data, steps, learning_rate=rates, **how)


def test_training_that_diverges_in_its_only_step_says_so(backend):
    model = MODELS["linear"]
    data = backend.prepare(model, federation(model))
    steps = fixed_batches(SIZES, n_steps=1, batch_size=4, seed=0, round=0, clients=[2])
    with pytest.raises(Diverged, match="client 2 diverged in step 0"):
        backend.local_sgd(model, 1e30 * start(model), data, steps, learning_rate=1e300)


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(jax_backend, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'borrowed-strength\[learn\]'"):
        JaxBackend()


@pytest.mark.parametrize("backend", ["float32"], indirect=True)
def test_a_network_with_convolutions_learns_digits(backend):
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    from estimators.federated.algorithms import FedAvg
    from estimators.federated.data import digits, iid
    from estimators.federated.task import Task
    from estimators.federated.training import train

    clients = iid(digits(), clients=5, seed=0).scaled(flat=True)
    model = convolutional_network(64, 10, channels=(16,), size=3, same=True)
    task = Task(clients, model, work={"rule": "epochs", "n_epochs": 1, "batch_size": 10}, seed=0, backend=backend)
    record = train(FedAvg(learning_rate=0.3), task, rounds=6).history[-1]
    assert record["shared.rows.accuracy"] > 0.9


ROUNDS = {
    "adaped": ("AdaPeD", {"psi_rate": 0.3, "psi": 0.7, "floor": 0.4, "fine_tuning": True}),
    "private": ("DPAdaPeD", {"psi_rate": 0.3, "psi": 0.7, "eps": 8.0, "delta": 1e-3, "clip": 0.1, "psi_clip": 0.2}),
    "quped": ("QuPeD", {"lam": 0.25}),
    "mutual": ("FederatedMutualLearning", {"alpha": 0.25, "beta": 0.5}),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_of_pairs_equal_those_of_the_other_backend(backend, name):
    from estimators.federated.algorithms import make
    from estimators.federated.data import synthetic_federation
    from estimators.federated.jax_backend import trained
    from estimators.federated.task import Task
    from estimators.federated.training import train

    federation = synthetic_federation(clients=6, rows=25, seed=1)
    model, work = logistic_regression(10, federation.classes), {"rule": "fixed", "n_steps": 3, "batch_size": 4}
    kind, settings = ROUNDS[name]
    algorithm = make(kind, {"learning_rate": 0.1, "common_rate": 0.2, "number": 3, "decay": (0.9, 1), **settings})
    programs = backend._programs[trained]._cache_size()
    expected, found = (
        train(algorithm, Task(federation, model, work=work, seed=0, backend=b), rounds=4)
        for b in (NumpyBackend(dtype="float64", workers=1), backend)
    )
    assert expected.state.keys() == found.state.keys()
    for key, value in expected.state.items():
        np.testing.assert_allclose(found.state[key], value, atol=1e-6)  # own parameters are stored in single precision
    assert found.history[-1] == pytest.approx(expected.history[-1], abs=1e-6)
    programs = backend._programs[trained]._cache_size() - programs
    assert programs <= 1 + (name == "adaped")  # one for all rounds, whatever the rates; one for those who tune alone
