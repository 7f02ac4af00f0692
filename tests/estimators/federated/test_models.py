"""What models refuse by their last scores, and which arrays of parameters they take as they are."""

import numpy as np
import pytest

from estimators.federated.models import Model, convolutional_network, logistic_regression


def test_the_scores_of_a_loss_are_the_last_units_not_the_hidden_ones():
    assert Model((3, 1, 2), "softmax").n_classes == 2
    with pytest.raises(ValueError, match="at least 2 scores"):
        Model((3, 5, 1), "softmax")
    for loss in ("square", "logistic", "hinge"):
        assert Model((3, 5, 1), loss).shapes == ((4, 5), (6, 1))
        with pytest.raises(ValueError, match="must end in 1 score"):
            Model((3, 1, 2), loss)


def test_layers_of_many_models_are_views():
    model, rows = Model((1, 2, 2), "softmax"), np.arange(20.0).reshape(2, 10)
    first, second = model.layers(rows)
    assert first.tolist() == [[[0, 1], [2, 3]], [[10, 11], [12, 13]]]
    assert second.tolist() == [[[4, 5], [6, 7], [8, 9]], [[14, 15], [16, 17], [18, 19]]]
    assert np.shares_memory(first, rows)
    assert model.layers(rows[:, None])[1].shape == (2, 1, 3, 2)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_parameters_in_single_precision_stay_so_and_all_are_finite(kind):
    model, given = logistic_regression(2), np.array([[1, 2, 3]], kind)
    found = model.check_parameters("w", given)
    assert found.dtype == (np.float32 if kind is np.float32 else np.float64)
    assert found.tolist() == [[1, 2, 3]]
    assert np.shares_memory(found, given) == (kind is not np.int64)
    for bad in (np.nan, np.inf):
        if kind is not np.int64:
            with pytest.raises(ValueError, match="w "):
                model.check_parameters("w", np.array([1, bad, 3], kind))
    for shape in ((), (2,), (3, 2)):
        with pytest.raises(ValueError, match="w must have 3 entries along its last axis"):
            model.check_parameters("w", np.ones(shape, kind))


def test_images_without_a_shape_are_mnist_s_or_squares_of_one_or_three_channels():
    assert convolutional_network(channels=(2,), size=3) == convolutional_network(784, 10, channels=(2,), size=3)
    for features, image in ((16, (4, 4, 1)), (48, (4, 4, 3)), (25, (5, 5, 1)), (75, (5, 5, 3))):
        assert convolutional_network(features, channels=(2,), size=3).image == image
    with pytest.raises(ValueError, match="too small for its convolutions"):
        convolutional_network(1, channels=(2,), size=1)
    for features in (0, 50, 51):
        with pytest.raises(ValueError, match="n_features"):
            convolutional_network(features, channels=(2,), size=3)
