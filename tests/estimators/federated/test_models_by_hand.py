"""Models, their shapes, mixtures of them and parts of a pool, against definitions by hand and by enumeration."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from estimators.federated.data.partitions import largest_size
from estimators.federated.models import (
    Convolution,
    Model,
    adaped_network,
    convolutional_network,
    fedhdp_network,
    linear_regression,
    linear_svm,
    logistic_regression,
    mrmtl_network,
    neural_network,
)
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.predictions import Mixture, evaluate_mixture, example_losses, posterior, probabilities, responses

BACKEND = NumpyBackend(dtype="float64", workers=1)

# --- shapes ----------------------------------------------------------------------------------------------------------------


def test_convolutions_leave_what_their_patches_and_blocks_leave():
    for size in (1, 2, 3, 5):
        for pool in (1, 2, 3):
            for same in (True, False):
                rows, columns = (9, 7) if same else (9 - size + 1, 7 - size + 1)
                layer = Convolution(4, size, same, pool)
                assert layer.positions((9, 7, 3)) == (rows, columns)
                assert layer.output((9, 7, 3)) == (rows // pool, columns // pool, 4)
    assert Convolution(4, 3) == Convolution(4, 3, False, 2)


def test_shapes_of_named_models():
    assert linear_regression(3).shapes == ((4, 1),)
    assert linear_svm(3) == Model((3, 1), "hinge")
    assert logistic_regression(3) == logistic_regression(3, 2) == Model((3, 1), "logistic")
    assert logistic_regression(3, 4) == Model((3, 4), "softmax")
    assert neural_network() == Model((784, 50, 10), "softmax")
    assert mrmtl_network(784, 0, 5).loss == "square"
    assert mrmtl_network().images == ((28, 28, 1), (13, 13, 32), (5, 5, 64))
    assert mrmtl_network(3072).images[0] == (32, 32, 3)
    assert fedhdp_network().shapes == ((10, 16), (145, 32), (1569, 128), (129, 62))
    assert fedhdp_network(size=5).shapes[0] == (26, 16)
    assert adaped_network().n_parameters == 26 * 6 + 151 * 16 + 257 * 120 + 121 * 84 + 85 * 10
    assert convolutional_network(12, 2, channels=(2,), size=1, image=(2, 6, 1)).images == ((2, 6, 1), (1, 3, 2))
    assert convolutional_network(64, channels=(8,), size=3, same=True).images[1] == (4, 4, 8)
    assert [m.n_classes for m in (linear_regression(1), linear_svm(1), logistic_regression(1), neural_network())] == [
        0,
        2,
        2,
        10,
    ]
    for call, why in (
        (lambda: convolutional_network(50, channels=(2,), size=3), "no square image of 1 or 3 channels"),
        (lambda: convolutional_network(9, channels=(2,), size=3), "too small for its convolutions"),
        (lambda: Model((3, 1), "softmax"), "at least 2 scores"),
        (lambda: Model((3, 2), "hinge"), "must end in 1 score"),
        (lambda: Model((3,), "square"), "sizes must be a tuple"),
        (lambda: Model((4, 1), "square", (2, 2, 1)), "belong together"),
        (lambda: Model((4, 1), "square", (2, 3, 1), (Convolution(1, 1),)), "of 4 features"),
        (lambda: Model((4, 1), "square", (2, 2, 1), (Convolution(1, 1, pool=0),)), r"pool of convolutions\[0\]"),
    ):
        with pytest.raises(ValueError, match=why):
            call()
    assert Model((4, 1), "square", (2, 2, 1), (Convolution(1, 1),)).images[1] == (1, 1, 1)


def test_first_parameters_are_uniform_by_the_inputs_of_each_layer():
    model = Model((9, 400, 3), "softmax")
    found = model.layers(model.initialise(np.random.default_rng(0)))
    assert [layer.shape for layer in found] == [(10, 400), (401, 3)]
    for layer, inputs in zip(found, (9, 400), strict=True):
        end = 1 / np.sqrt(inputs)
        assert np.abs(layer).max() <= end
        assert np.abs(layer).max() > 0.98 * end
        assert layer.std() == pytest.approx(end / np.sqrt(3), rel=0.06)
        assert abs(layer.mean()) < 5 * end / np.sqrt(3 * layer.size)
    assert not linear_regression(3).initialise(np.random.default_rng(0)).any()


# --- losses and mixtures ---------------------------------------------------------------------------------------------------


def loss_of(model, scores, y):
    """The loss of one example by its definition."""
    sign = 2 * y - 1
    return {
        "square": lambda: (scores[0] - y) ** 2 / 2,
        "logistic": lambda: np.log1p(np.exp(-sign * scores[0])),
        "hinge": lambda: max(0.0, 1 - sign * scores[0]),
        "softmax": lambda: logsumexp(scores) - scores[int(y)],
    }[model.loss]()


MODELS = [linear_regression(2), logistic_regression(2), linear_svm(2), logistic_regression(2, 3), Model((2, 3, 1), "square")]
X = [np.array([[0.5, -1.0], [2.0, 0.3]]), np.array([[-0.7, 1.1], [0.2, 0.2], [1.5, -2.0]])]
Y = {0: [np.array([0.3, -1.0]), np.array([2.0, 0.0, 1.0])], 2: [np.array([0.0, 1.0]), np.array([1.0, 1.0, 0.0])],
     3: [np.array([2.0, 0.0]), np.array([1.0, 1.0, 2.0])]}  # fmt: skip


def forward(model, parameters, x):
    layers = model.layers(np.asarray(parameters))
    for i, layer in enumerate(layers):
        x = x @ layer[:-1] + layer[-1]
        x = np.maximum(x, 0) if i < len(layers) - 1 else x
    return x


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{m.loss} {m.sizes}")
def test_losses_and_mixtures_example_by_example(model):
    rng = np.random.default_rng(1)
    y = Y[model.n_classes]
    data = BACKEND.prepare(model, list(zip(X, y, strict=True)))
    assert responses(data).tolist() == np.concatenate(y).tolist()
    first, second = rng.normal(size=(2, model.n_parameters))
    scores = [[forward(model, p, x) for x in X] for p in (first, second)]
    exact = [loss_of(model, s, t) for x, t_all in zip(scores[0], y, strict=True) for s, t in zip(x, t_all, strict=True)]
    np.testing.assert_allclose(example_losses(BACKEND, model, first, data), exact, rtol=1e-12)
    own = example_losses(BACKEND, model, np.stack([first, second]), data)
    np.testing.assert_allclose(own[:2], exact[:2], rtol=1e-12)
    np.testing.assert_allclose(own[2], loss_of(model, scores[1][1][0], y[1][0]), rtol=1e-12)

    weights = np.array([[0.3, 0.7], [0.9, 0.1]])
    mixture = Mixture(weights, np.stack([first, second]))
    found = evaluate_mixture(BACKEND, model, mixture, data)
    for k in range(2):
        total, hits = 0.0, 0.0
        for j, answer in enumerate(y[k]):
            one, two = scores[0][k][j], scores[1][k][j]
            if model.loss in ("square", "hinge"):
                mean = weights[k, 0] * one + weights[k, 1] * two
                total += loss_of(model, mean, answer)
                hits += (mean[0] > 0) == answer
            else:
                classes = [softmax(s) if s.size > 1 else softmax([0.0, s[0]]) for s in (one, two)]
                mean = weights[k, 0] * classes[0] + weights[k, 1] * classes[1]
                total += -np.log(mean[int(answer)])
                hits += np.argmax(mean) == answer
        assert found.loss[k] == pytest.approx(total / len(y[k]), rel=1e-12)
        if model.n_classes:
            assert found.accuracy is not None
            assert found.accuracy[k] == pytest.approx(hits / len(y[k]))
    swapped = evaluate_mixture(BACKEND, model, mixture.take(np.array([1, 0])), data)
    assert swapped.loss[0] != found.loss[0]
    with pytest.raises(ValueError, match="weights of 1 clients, data are of 2"):
        evaluate_mixture(BACKEND, model, mixture.take(np.array([1])), data)


def test_posteriors_are_bayes_rule_and_probabilities_stay_numbers():
    weights, losses = np.array([[0.2, 0.5], [0.8, 0.5]]), np.array([[1.0, 3.0], [2.0, 0.5]])
    joint = weights * np.exp(-losses)
    q, log = posterior(weights, losses)
    np.testing.assert_allclose(q, joint / joint.sum(axis=0))
    np.testing.assert_allclose(log, np.log(joint.sum(axis=0)))
    q, log = posterior([0.0, 1.0], [-5.0, 800.0])
    assert (q.tolist(), float(log)) == ([0.0, 1.0], -800.0)
    one = probabilities(np.array([[0.0], [2.0], [-2.0], [900.0], [-900.0]]))[:, 0]
    np.testing.assert_allclose(one, [0.5, 1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2)), 1.0, 0.0], atol=1e-300)
    np.testing.assert_allclose(probabilities(np.array([[1.0, 2.0, 1000.0], [0.3, 0.1, -2.0]])),
                               softmax([[1.0, 2.0, 1000.0], [0.3, 0.1, -2.0]], axis=1), atol=1e-300)  # fmt: skip
    for weights, why in (([[0.5, 0.6]], "must sum to 1"), ([[1.0]], "must have shape"), ([0.5, 0.5], "must have shape")):
        with pytest.raises(ValueError, match=why):
            Mixture(weights, [[1.0], [2.0]])
    Mixture([[0.5, 0.5 + 0.9e-9]], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="must sum to 1"):
        Mixture([[0.5, 0.5 + 1.1e-9]], [[1.0], [2.0]])


# --- parts -----------------------------------------------------------------------------------------------------------------


def test_the_largest_size_is_the_largest_that_serves_all():
    rng = np.random.default_rng(2)
    for _ in range(200):
        rows, clients = rng.integers(0, 40, rng.integers(1, 5)), int(rng.integers(1, 12))
        serves = [size for size in range(1, 41) if (rows // size).sum() >= clients]
        assert largest_size(rows, clients) == max(serves, default=0)
