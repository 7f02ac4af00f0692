"""Mixtures of models where they are undecided, and what is refused for one reason alone."""

import numpy as np
import pytest

from estimators.federated.models import Model, linear_svm, logistic_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.predictions import Mixture, evaluate_mixture, posterior, probabilities

BACKEND = NumpyBackend(dtype="float64", workers=1)


@pytest.mark.parametrize(("model", "classes"), [
    (linear_svm(1), [0]), (logistic_regression(1), [0]), (logistic_regression(1, 3), [0, 2]),
])  # fmt: skip
def test_where_both_classes_are_as_likely_the_first_is_predicted(model, classes):
    """Two opposite models, half of each: the average is exactly 0, or 1/2, or has its largest share twice."""
    one = np.zeros((2, model.n_parameters // 2)) if model.n_classes == 2 else np.zeros((2, 3))
    one[0, 0], one[0, -1] = (1.5, -1.5) if model.n_classes > 2 else (1.5, 1.5)
    pair = np.stack([one.ravel(), -one.ravel()])
    data = BACKEND.prepare(model, [([[1.0]], [k]) for k in range(max(model.n_classes, 2))])
    found = evaluate_mixture(BACKEND, model, Mixture(np.full((len(data.sizes), 2), 0.5), pair), data)
    assert found.accuracy is not None
    assert np.flatnonzero(found.accuracy).tolist() == classes[:1]


def test_two_scores_are_two_classes():
    """A softmax of two scores predicts its larger one, and loses what its class lacks."""
    model = Model((1, 2), "softmax")
    data = BACKEND.prepare(model, [([[1.0]], [0]), ([[1.0]], [1])])
    found = evaluate_mixture(BACKEND, model, Mixture([[1.0], [1.0]], [[0.0, np.log(3.0), 0.0, 0.0]]), data)
    np.testing.assert_allclose(found.loss, [np.log(4.0), np.log(4.0 / 3.0)], rtol=1e-14)
    assert list(found.accuracy) == [0.0, 1.0]


@pytest.mark.parametrize(("weights", "components"), [
    ([0.5, 0.5], [[1.0], [2.0]]), ([[0.5, 0.5]], [1.0, 2.0]), ([[1.0]], [[1.0], [2.0]]), ([[[1.0]]], [[1.0]]),
])  # fmt: skip
def test_weights_and_components_are_tables_that_fit(weights, components):
    with pytest.raises(ValueError, match="weights must have shape"):
        Mixture(weights, components)


def test_weights_add_up_for_each_client_and_are_in_its_order():
    two = Mixture([[0.25, 0.75], [1.0, 0.0]], [[1.0], [2.0]])
    assert two.take(np.array([1, 0, 1])).weights.tolist() == [[1, 0], [0.25, 0.75], [1, 0]]
    for weights in ([[0.5, 0.5], [0.5, 0.4]], [[1.5, -0.5]]):
        with pytest.raises(ValueError, match="weights"):
            Mixture(weights, [[1.0], [2.0]])


def test_a_component_without_weight_and_scores_of_zero_are_no_trouble():
    with np.errstate(all="raise", under="ignore"):
        shares, log = posterior([0.0, 0.25, 0.75], [0.0, 3.0, 3.0])
    np.testing.assert_allclose(shares, [0.0, 0.25, 0.75], rtol=1e-14)
    assert float(log) == pytest.approx(-3.0, rel=1e-14)
    assert probabilities(np.zeros((2, 1))).tolist() == [[0.5], [0.5]]
    assert probabilities(np.zeros((1, 4))).tolist() == [[0.25] * 4]
