"""The JAX backend against the plain twin (skipped without the extra ``learn``), and what is said without JAX."""

import numpy as np
import pytest

from estimators.federated import jax_backend
from estimators.federated.backend import Diverged
from estimators.federated.jax_backend import JaxBackend
from estimators.federated.models import Model, linear_regression, linear_svm, logistic_regression, neural_network
from estimators.federated.reference_backend import ReferenceBackend
from estimators.federated.schedule import GaussianNoise, epochs, fixed_batches, poisson_batches

REFERENCE = ReferenceBackend()
SIZES = (11, 1, 6)
MODELS = {
    "linear": linear_regression(5),
    "logistic": logistic_regression(5),
    "svm": linear_svm(5),
    "multinomial": logistic_regression(5, 3),
    "network": neural_network(5, 7, 3),
    "deep": Model((5, 4, 4, 3), "softmax"),
}


def federation(model):
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal((n, 5)), rng.integers(0, model.n_classes, n) if model.n_classes else rng.standard_normal(n))
        for n in SIZES
    ]


def start(model, seed=1):
    return 0.3 * np.random.default_rng(seed).standard_normal(model.n_parameters)


@pytest.fixture(scope="module", params=["float64", "float32"])
def backend(request):
    pytest.importorskip("jax", reason="the extra learn is not installed")
    return JaxBackend(dtype=request.param)


@pytest.mark.parametrize("name", MODELS)
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


@pytest.mark.parametrize(
    ("name", "way"),
    [("linear", "epochs"), ("svm", "fixed"), ("network", "epochs"), ("network", "private"), ("deep", "private")],
)
def test_training_equals_the_plain_twin(backend, name, way):
    model = MODELS[name]
    make, how = {
        "epochs": (epochs(SIZES, n_epochs=2, batch_size=4, seed=1, round=2), {}),
        "fixed": (
            fixed_batches(SIZES, n_steps=3, batch_size=4, seed=1, round=2, clients=[2, 0]),
            {"pull": ([0.3, 0.0], start(model, 2)), "clip": 0.5},
        ),
        "private": (
            poisson_batches(SIZES, n_steps=5, batch_size=1, seed=1, round=2),
            {"clip": [0.5, 1.0, 0.2], "noise": GaussianNoise(0.7, 1, 2)},
        ),
    }[way]
    expected, found = (
        b.local_sgd(model, start(model), b.prepare(model, federation(model)), make, learning_rate=0.1, **how)
        for b in (REFERENCE, backend)
    )
    assert found.dtype == backend.dtype
    np.testing.assert_allclose(found, expected, atol=1e-12 if backend.dtype == np.float64 else 1e-5)


def test_kinks_have_slope_zero_in_every_backend(backend):
    """A margin of exactly 1 and hidden values of exactly 0."""
    assert not backend.example_gradients(linear_svm(1), [1.0, 0.0], [[1.0]], [1]).any()
    model = neural_network(2, 3, 2)
    w = np.ones(model.n_parameters)
    w[:9] = 0
    expected = REFERENCE.example_gradients(model, w, [[1.0, 2.0]], [1])
    np.testing.assert_allclose(backend.example_gradients(model, w, [[1.0, 2.0]], [1]), expected, atol=1e-7)
    assert not expected[0, :9].any()


@pytest.mark.parametrize("noise", [None, GaussianNoise(1.0, 0, 0)])
def test_diverging_training_names_client_and_step(backend, noise):
    model = MODELS["linear"]
    steps = fixed_batches(SIZES, n_steps=40, batch_size=4, seed=0, round=0, clients=[1, 2, 0])
    how = {"pull": ([0.0, 1.0, 1.0], np.zeros(6)), "clip": 1.0, "noise": noise}
    data, rates = backend.prepare(model, federation(model)), [1e-3, 1e12, 1e13]
    with pytest.raises(Diverged, match="client 2 diverged in step"):
        backend.local_sgd(model, start(model), data, steps, learning_rate=rates, **how)


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(jax_backend, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'borrowed-strength\[learn\]'"):
        JaxBackend()
