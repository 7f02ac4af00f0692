"""The models that clients train, as descriptions: sizes of the layers, loss, layout of the parameters, first values.

A model is a chain of affine layers with rectifiers, max(0, t), between them, and a loss of the last layer's scores.  Layers
that see the features as an image come first: a `Convolution` is an affine layer too, from each square patch of the image to
the channels of one position.  All parameters are one vector: layer after layer the matrix (inputs + 1, outputs) row by row,
whose last row is the intercepts.

Data stay rows of numbers, also for images: pixel after pixel, row by row, the channels of a pixel together, which is what
``federation.scaled(flat=True)`` gives.

Belongs here: what every backend must agree on before it computes anything.  Does not belong here: losses and gradients as
code (``reference_backend``, ``numpy_backend``, ``jax_backend``), the choice of batches (``schedule``), which inputs dropout
leaves out in a step (``dropout``), data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from estimators.federated.kinds import typed
from estimators.numerics.validation import choice, finite, index, listing, probability, real, single

__all__ = [
    "Convolution", "Model", "adaped_network", "convolutional_network", "fedhdp_network", "linear_regression", "linear_svm",
    "logistic_regression", "mrmtl_network", "neural_network",
]  # fmt: skip

LOSSES = ("square", "logistic", "hinge", "softmax")


class Convolution(NamedTuple):
    """An affine layer on each patch of size x size pixels, a rectifier, and the largest value of each pool x pool block.

    Parameters
    ----------
    channels : whole number >= 1 of outputs at each position; size : whole number >= 1.
    same : whether the image is padded with zeros to as many patches as it has pixels, (size - 1) // 2 rows above and columns
        on the left and the rest below and on the right; else patches lie within the image.
    pool : whole number >= 1; 1 for no pooling.  Blocks do not overlap; rows and columns that fill no block are dropped.

    >>> Convolution(32, 3).output((28, 28, 1)), Convolution(16, 3, same=True).output((28, 28, 1))
    ((13, 13, 32), (14, 14, 16))
    """

    channels: int
    size: int
    same: bool = False
    pool: int = 2

    @typed
    def positions(self, image: tuple[int, int, int]) -> tuple[Any, Any]:
        """Rows and columns of patches in an image of shape (height, width, channels)."""
        lost = 0 if self.same else self.size - 1
        return image[0] - lost, image[1] - lost

    @typed
    def output(self, image: tuple[int, int, int]) -> tuple[Any, Any, int]:
        """Shape (height, width, channels) of what comes of an image of such a shape."""
        rows, columns = self.positions(image)
        return rows // self.pool, columns // self.pool, self.channels


@typed
@dataclass(frozen=True)
class Model:
    """A chain of affine layers with rectifiers between them, and the loss of its last scores.

    Parameters
    ----------
    sizes : tuple of whole numbers >= 1: features, units of each hidden layer (none: a linear model), scores.
    loss : of the scores s and the response y of one example:
        "square", (s - y)^2 / 2 for a real y; "logistic", log(1 + exp(-t s)) and "hinge", max(0, 1 - t s), for t = 2 y - 1
        and y in 0, 1 (all three have one score); "softmax", log(sum_k exp(s_k)) - s_y for y in 0..scores - 1, in nats.
    image : (height, width, channels) of the features for `convolutions`, a tuple of `Convolution` before the other layers.
    dropout : tuple of numbers in [0, 1), for each layer after the convolutions the probability with which each of its inputs
        is left out in training; () for none.

    Where the loss or a rectifier has a kink its derivative is taken as 0; equal largest values of a block share the slope.

    Attributes
    ----------
    shapes : tuple of pairs, the (inputs + 1, outputs) of each layer, inputs of a convolution being the numbers of a patch.
    images : tuple of shapes, of the features and of each convolution's output; n_parameters : int; n_features : int.

    >>> model = Model((3, 2), "softmax")
    >>> model.shapes, model.n_parameters
    (((4, 2),), 8)
    >>> Model((16, 2), "softmax", (4, 4, 1), (Convolution(5, 3),)).shapes
    ((10, 5), (6, 2))
    """

    sizes: tuple
    loss: str
    image: tuple = ()
    convolutions: tuple = ()
    dropout: tuple = ()

    def __post_init__(self):
        choice("loss", self.loss, LOSSES)
        if not isinstance(self.sizes, tuple) or len(self.sizes) < 2:
            raise ValueError(f"sizes must be a tuple of features, hidden units and scores, got {self.sizes!r}")
        object.__setattr__(self, "sizes", tuple(index(f"sizes[{i}]", s, 1) for i, s in enumerate(self.sizes)))
        if self.loss == "softmax" and self.sizes[-1] < 2:
            raise ValueError('sizes must end in at least 2 scores for the loss "softmax"; "logistic" has one')
        if self.loss != "softmax" and self.sizes[-1] != 1:
            raise ValueError(f"sizes must end in 1 score for the loss {self.loss!r}, got {self.sizes[-1]}")
        if bool(self.image) != bool(self.convolutions):
            raise ValueError("image and convolutions belong together; give both or neither")
        for i, layer in enumerate(self.convolutions):
            if not isinstance(layer, Convolution):
                raise ValueError(f"convolutions[{i}] must be a Convolution, got {layer!r}")
            for name in ("channels", "size", "pool"):
                index(f"{name} of convolutions[{i}]", getattr(layer, name), 1)
        if self.image and (len(self.image) != 3 or prod(self.image) != self.n_features):
            raise ValueError(f"image must be (height, width, channels) of {self.n_features} features, got {self.image}")
        if any(min(shape) < 1 for shape in self.images):
            raise ValueError(f"image of {self.image} is too small for its convolutions, which leave {self.images[-1]}")
        if not isinstance(self.dropout, tuple) or len(self.dropout) not in (0, len(self.sizes) - 1):
            raise ValueError(
                f"dropout must be a tuple of {len(self.sizes) - 1} numbers, one for each layer after the convolutions, or "
                f"empty, got {self.dropout!r}"
            )
        chances = tuple(single(probability, f"dropout[{i}]", p) for i, p in enumerate(self.dropout))
        if 1 in chances:
            raise ValueError("dropout must be below 1: no input of such a layer would ever be seen")
        object.__setattr__(self, "dropout", chances if any(chances) else ())

    @property
    def images(self) -> tuple[tuple[Any, ...], ...]:
        """Shape (height, width, channels) of the features and of what each convolution leaves; empty without them."""
        shapes = [self.image] if self.image else []
        for layer in self.convolutions:
            shapes.append(layer.output(shapes[-1]))
        return tuple(shapes)

    @property
    def shapes(self) -> tuple[tuple[Any, Any] | tuple[int | Any, int | Any], ...]:
        """Shape (inputs + 1, outputs) of each layer, the last row being the intercepts."""
        patches = [
            (layer.size**2 * image[2] + 1, layer.channels)
            for image, layer in zip(self.images[:-1], self.convolutions, strict=True)
        ]
        flat = (prod(self.images[-1]), *self.sizes[1:]) if self.images else self.sizes
        return (*patches, *((inputs + 1, outputs) for inputs, outputs in pairwise(flat)))

    @property
    def n_parameters(self) -> int:
        """Length P of the vector of all parameters."""
        return sum(rows * columns for rows, columns in self.shapes)

    @property
    def n_features(self) -> Any:
        """Number of features of an example."""
        return self.sizes[0]

    @property
    def n_classes(self) -> Any:
        """Number of classes, 0 for regression."""
        return {"square": 0, "softmax": self.sizes[-1]}.get(self.loss, 2)

    @typed
    def initialise(self, generator: np.random.Generator) -> np.ndarray:
        """First parameters (P,): zeros for a linear model, else uniform within 1/sqrt(inputs) of 0, layer by layer.

        Zeros are no worse than any other start where the loss is convex; with hidden units they would never separate.

        Parameters
        ----------
        generator : numpy.random.Generator.
        """
        if not isinstance(generator, np.random.Generator):
            raise ValueError(f"generator must be a numpy.random.Generator, got {generator!r}")
        if len(self.shapes) == 1:
            return np.zeros(self.n_parameters)
        layers = (generator.uniform(-1, 1, rows * columns) / np.sqrt(rows - 1) for rows, columns in self.shapes)
        return np.concatenate(list(layers))

    @typed
    def layers(self, parameters: np.ndarray) -> list[Any]:
        """Views (..., inputs + 1, outputs) of each layer in `parameters` (..., P)."""
        views, start = [], 0
        for rows, columns in self.shapes:
            stop = start + rows * columns
            views.append(parameters[..., start:stop].reshape(*parameters.shape[:-1], rows, columns))
            start = stop
        return views

    @typed
    def check_parameters(self, name: str, parameters: np.ndarray) -> np.ndarray:
        """Return finite `parameters` (..., P) as an array of float64 or float32."""
        array = parameters if type(parameters) is np.ndarray else real(name, parameters)
        if array.dtype != np.float32 or not np.isfinite(array).all():  # float32 is kept: these arrays may be large
            array = finite(name, array)
        if array.ndim == 0 or array.shape[-1] != self.n_parameters:
            raise ValueError(f"{name} must have {self.n_parameters} entries along its last axis, has shape {array.shape}")
        return array

    @typed
    def check_data(self, name: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return finite features (n, n_features) and responses (n,) as float arrays."""
        x, y = finite(f"{name} x", x), finite(f"{name} y", y)
        if x.ndim != 2 or x.shape[1] != self.n_features:
            raise ValueError(f"{name} x must have shape (n, {self.n_features}), has {x.shape}")
        if y.shape != (len(x),):
            raise ValueError(f"{name} y must have one entry for each of the {len(x)} rows of x, has shape {y.shape}")
        if self.n_classes and not (np.isin(y, np.arange(self.n_classes))).all():
            raise ValueError(f"{name} y must hold classes 0..{self.n_classes - 1} as whole numbers")
        return x, y


@typed
def linear_regression(n_features: int) -> Model:
    """Linear regression, with half the squared error as loss.

    >>> linear_regression(28).n_parameters
    29
    """
    return Model((index("n_features", n_features, 1), 1), "square")


@typed
def logistic_regression(n_features: int, n_classes: int = 2) -> Model:
    """Logistic regression: one score for two classes, one score for each of more (multinomial).

    >>> logistic_regression(4).n_parameters, logistic_regression(4, 3).n_parameters
    (5, 15)
    """
    n_features, n_classes = index("n_features", n_features, 1), index("n_classes", n_classes, 2)
    return Model((n_features, 1), "logistic") if n_classes == 2 else Model((n_features, n_classes), "softmax")


@typed
def linear_svm(n_features: int) -> Model:
    """Linear support vector machine for two classes: hinge loss; the penalty is the backend's pull towards 0.

    >>> linear_svm(4).loss
    'hinge'
    """
    return Model((index("n_features", n_features, 1), 1), "hinge")


@typed
def neural_network(n_features: int = 784, n_hidden: int = 50, n_classes: int = 10) -> Model:
    """Network with one hidden layer of rectifiers and a softmax.

    >>> neural_network().n_parameters
    39760
    """
    return Model((n_features, n_hidden, n_classes), "softmax")


@typed
def convolutional_network(
    n_features: int = 784,
    n_classes: int = 10,
    *,
    channels: Sequence[int],
    size: int,
    same: bool = False,
    hidden: Sequence[int] = (),
    image: tuple[int, int, int] | None = None,
    dropout: Sequence[float] = (),
) -> Model:
    """Convolutions of one patch size, each with a rectifier and the largest of 2 x 2 blocks, then hidden layers.

    Parameters
    ----------
    n_features : whole number; n_classes : whole number >= 2 for a softmax, or 0 for regression.
    channels : one number for each convolution; size, same : as in `Convolution`; hidden : units of each hidden layer.
    image : (height, width, channels) of the features; None: a square with one channel or three.
    dropout : as in `Model`, a number for each hidden layer and one for the last.

    >>> convolutional_network(64, channels=(8,), size=3).shapes
    ((10, 8), (73, 10))
    """
    n_features = index("n_features", n_features, 1)
    if image is None:
        sides = {c: isqrt(n_features // c) for c in (1, 3)}
        image = next(((side, side, c) for c, side in sides.items() if c * side**2 == n_features), None)
        if image is None:
            raise ValueError(f"n_features = {n_features} is no square image of 1 or 3 channels; give image")
    scores, loss = (n_classes, "softmax") if n_classes else (1, "square")
    convolutions = tuple(Convolution(c, size, bool(same)) for c in listing("channels", channels))
    return Model((n_features, *hidden, scores), loss, tuple(image), convolutions, tuple(listing("dropout", dropout)))


@typed
def fedhdp_network(n_features: int = 784, n_classes: int = 62, size: int = 3) -> Model:
    """Network of FedHDP (2023), Table 6, for FEMNIST: 16 and 32 channels, padded, and 128 hidden units.

    Dropout comes before the hidden units and after.  The table does not give the size of the patches; 3 is this library's
    choice.

    >>> fedhdp_network().images, fedhdp_network().dropout, fedhdp_network().n_parameters
    (((28, 28, 1), (14, 14, 16), (7, 7, 32)), (0.25, 0.5), 213630)
    """
    layers = {"channels": (16, 32), "size": size, "same": True, "hidden": (128,), "dropout": (0.25, 0.5)}
    return convolutional_network(n_features, n_classes, **layers)


@typed
def mrmtl_network(n_features: int = 784, n_classes: int = 10, size: int = 3) -> Model:
    """Network of MR-MTL (2022), Appendix C, for CIFAR-10 and MNIST; with size 5 and n_classes 0 the one for ADNI.

    >>> [mrmtl_network(n_features).n_parameters for n_features in (784, 3072)]
    [34826, 42442]
    """
    return convolutional_network(n_features, n_classes, channels=(32, 64), size=size)


@typed
def adaped_network(n_features: int = 784, n_classes: int = 10) -> Model:
    """Network of AdaPeD (2023), Section 4.1: 6 and 16 channels of 5 x 5 patches, 120 and 84 hidden units.

    >>> adaped_network().shapes
    ((26, 6), (151, 16), (257, 120), (121, 84), (85, 10))
    """
    return convolutional_network(n_features, n_classes, channels=(6, 16), size=5, hidden=(120, 84))
