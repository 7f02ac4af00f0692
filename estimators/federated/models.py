"""The models that clients train, as descriptions: sizes of the layers, loss, layout of the parameters, first values.

A model is a chain of affine layers with rectifiers, max(0, t), between them, and a loss of the last layer's scores.  All its
parameters are one vector: layer after layer the matrix (inputs + 1, outputs) row by row, whose last row is the intercepts.

Belongs here: what every backend must agree on before it computes anything.  Does not belong here: losses and gradients as
code (``reference_backend``, ``numpy_backend``), the choice of batches (``schedule``), data.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from estimators.validation import choice, finite, index

__all__ = ["Model", "linear_regression", "linear_svm", "logistic_regression", "neural_network"]

LOSSES = ("square", "logistic", "hinge", "softmax")


@dataclass(frozen=True)
class Model:
    """A chain of affine layers with rectifiers between them, and the loss of its last scores.

    Parameters
    ----------
    sizes : tuple of whole numbers >= 1: features, units of each hidden layer (none: a linear model), scores.
    loss : of the scores s and the response y of one example:
        "square", (s - y)^2 / 2 for a real y; "logistic", log(1 + exp(-t s)) and "hinge", max(0, 1 - t s), for t = 2 y - 1
        and y in 0, 1 (all three have one score); "softmax", log(sum_k exp(s_k)) - s_y for y in 0..scores - 1, in nats.

    Where the loss or a rectifier has a kink its derivative is taken as 0.

    Attributes
    ----------
    shapes : tuple of pairs, the (inputs + 1, outputs) of each layer; n_parameters : int; n_features : int.

    >>> model = Model((3, 2), "softmax")
    >>> model.shapes, model.n_parameters
    (((4, 2),), 8)
    """

    sizes: tuple
    loss: str

    def __post_init__(self):
        choice("loss", self.loss, LOSSES)
        if not isinstance(self.sizes, tuple) or len(self.sizes) < 2:
            raise ValueError(f"sizes must be a tuple of features, hidden units and scores, got {self.sizes!r}")
        object.__setattr__(self, "sizes", tuple(index(f"sizes[{i}]", s, 1, inf) for i, s in enumerate(self.sizes)))
        if self.loss == "softmax" and self.sizes[-1] < 2:
            raise ValueError('sizes must end in at least 2 scores for the loss "softmax"; "logistic" has one')
        if self.loss != "softmax" and self.sizes[-1] != 1:
            raise ValueError(f"sizes must end in 1 score for the loss {self.loss!r}, got {self.sizes[-1]}")

    @property
    def shapes(self):
        """Shape (inputs + 1, outputs) of each layer, the last row being the intercepts."""
        return tuple((inputs + 1, outputs) for inputs, outputs in pairwise(self.sizes))

    @property
    def n_parameters(self):
        """Length P of the vector of all parameters."""
        return sum(rows * columns for rows, columns in self.shapes)

    @property
    def n_features(self):
        """Number of features of an example."""
        return self.sizes[0]

    @property
    def n_classes(self):
        """Number of classes, 0 for regression."""
        return {"square": 0, "softmax": self.sizes[-1]}.get(self.loss, 2)

    def initialise(self, generator):
        """First parameters (P,): zeros for a linear model, else uniform within 1/sqrt(inputs) of 0, layer by layer.

        Zeros are no worse than any other start where the loss is convex; with hidden units they would never separate.

        Parameters
        ----------
        generator : numpy.random.Generator.
        """
        if not isinstance(generator, np.random.Generator):
            raise ValueError(f"generator must be a numpy.random.Generator, got {generator!r}")
        if len(self.sizes) == 2:
            return np.zeros(self.n_parameters)
        layers = (generator.uniform(-1, 1, rows * columns) / np.sqrt(rows - 1) for rows, columns in self.shapes)
        return np.concatenate(list(layers))

    def layers(self, parameters):
        """Views (..., inputs + 1, outputs) of each layer in `parameters` (..., P)."""
        views, start = [], 0
        for rows, columns in self.shapes:
            stop = start + rows * columns
            views.append(parameters[..., start:stop].reshape(*parameters.shape[:-1], rows, columns))
            start = stop
        return views

    def check_parameters(self, name, parameters):
        """Return finite `parameters` (..., P) as an array of float64 or float32."""
        array = np.asarray(parameters)
        if array.dtype != np.float32 or not np.isfinite(array).all():  # float32 is kept: these arrays may be large
            array = finite(name, array)
        if array.ndim == 0 or array.shape[-1] != self.n_parameters:
            raise ValueError(f"{name} must have {self.n_parameters} entries along its last axis, has shape {array.shape}")
        return array

    def check_data(self, name, x, y):
        """Return finite features (n, n_features) and responses (n,) as float arrays."""
        x, y = finite(f"{name} x", x), finite(f"{name} y", y)
        if x.ndim != 2 or x.shape[1] != self.n_features:
            raise ValueError(f"{name} x must have shape (n, {self.n_features}), has {x.shape}")
        if y.shape != (len(x),):
            raise ValueError(f"{name} y must have one entry for each of the {len(x)} rows of x, has shape {y.shape}")
        if self.n_classes and not (np.isin(y, np.arange(self.n_classes))).all():
            raise ValueError(f"{name} y must hold classes 0..{self.n_classes - 1} as whole numbers")
        return x, y


def linear_regression(n_features):
    """Linear regression, with half the squared error as loss.

    >>> linear_regression(28).n_parameters
    29
    """
    return Model((n_features, 1), "square")


def logistic_regression(n_features, n_classes=2):
    """Logistic regression: one score for two classes, one score for each of more (multinomial).

    >>> logistic_regression(4).n_parameters, logistic_regression(4, 3).n_parameters
    (5, 15)
    """
    n_classes = index("n_classes", n_classes, 2, inf)
    return Model((n_features, 1), "logistic") if n_classes == 2 else Model((n_features, n_classes), "softmax")


def linear_svm(n_features):
    """Linear support vector machine for two classes: hinge loss; the penalty is the backend's pull towards 0.

    >>> linear_svm(4).loss
    'hinge'
    """
    return Model((n_features, 1), "hinge")


def neural_network(n_features=784, n_hidden=50, n_classes=10):
    """Network with one hidden layer of rectifiers and a softmax.

    >>> neural_network().n_parameters
    39760
    """
    return Model((n_features, n_hidden, n_classes), "softmax")
