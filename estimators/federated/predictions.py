"""What follows from scores: losses of single examples, and mixtures of models, whose predictions are averaged.

Belongs here: `Mixture`, `example_losses`, `posterior`, `evaluate_mixture`, for every backend.  Does not belong here: scores
(backends), how a mixture is learned (``algorithms.fedem``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.backend import Evaluation
from estimators.federated.kinds import typed
from estimators.federated.reference_backend import losses
from estimators.numerics.validation import nonnegative, number

if TYPE_CHECKING:
    from estimators.federated.backend import Backend, ClientArrays
    from estimators.federated.models import Model

__all__ = ["Mixture", "evaluate_mixture", "example_losses", "posterior"]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Models of which every client uses all, in its own proportions.

    Parameters
    ----------
    weights : array (K, M) >= 0, rows summing to 1; components : array (M, P) of parameters.

    >>> Mixture([[0.5, 0.5]], [[1.0], [2.0]]).weights.shape
    (1, 2)
    """

    weights: np.ndarray
    components: np.ndarray

    def __post_init__(self):
        weights, components = nonnegative("weights", self.weights), np.asarray(self.components)
        if weights.ndim != 2 or components.ndim != 2 or weights.shape[1] != len(components):
            raise ValueError(
                f"weights must have shape (K, M) and components (M, P), got {weights.shape} and {components.shape}"
            )
        if not np.allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-9):
            raise ValueError("weights of each client must sum to 1")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "components", components)

    @typed
    def take(self, clients: np.ndarray) -> Mixture:
        """Mixture of some of the clients, in this order."""
        return Mixture(self.weights[clients], self.components)


def responses(data: ClientArrays) -> np.ndarray:
    """Responses y of all clients, client after client: the order of ``Backend.scores``."""
    return np.concatenate([data.client(k)[1] for k in range(len(data.sizes))])


@typed
def example_losses(backend: Backend, model: Model, parameters: np.ndarray, data: Any) -> Any:
    """Loss of each example of all clients, client after client, in float64.

    Parameters
    ----------
    backend : Backend; model : Model; parameters : array (P,) or (K, P); data : from the backend's `prepare`.

    >>> from estimators.federated.models import linear_regression
    >>> from estimators.federated.numpy_backend import NumpyBackend
    >>> backend, model = NumpyBackend(), linear_regression(1)
    >>> data = backend.prepare(model, [([[1.0], [2.0]], [1.0, 4.0]), ([[3.0]], [2.0])])
    >>> example_losses(backend, model, [1.0, 0.0], data).tolist()
    [0.0, 2.0, 0.5]
    """
    return losses(model, np.asarray(backend.scores(model, parameters, data), dtype=float), responses(data))[0]


@typed
def posterior(weights: np.ndarray, losses: np.ndarray) -> tuple[Any, Any]:
    """Which component an example comes from, given prior weights (M, ...) and losses (M, ...), minus log likelihoods.

    Returns
    -------
    tuple of probabilities (M, ...), and log sum_m weights_m exp(-losses_m) (...).

    >>> q, log_likelihood = posterior([0.5, 0.5], [0.0, 1e4])
    >>> q.tolist(), round(float(log_likelihood), 4)
    ([1.0, 0.0], -0.6931)
    """
    with np.errstate(divide="ignore"):
        logs = np.log(nonnegative("weights", weights)) - number("losses", losses)
    top = logs.max(axis=0)
    shares = np.exp(logs - top)
    total = shares.sum(axis=0)
    return shares / total, top + np.log(total)


@typed
def evaluate_mixture(backend: Backend, model: Model, mixture: Mixture, data: ClientArrays) -> Evaluation:
    """`Evaluation` of each client's mixture on its data.

    Probabilities of classes are averaged with the client's weights; where there are none, scores are (regression, support
    vector machine).  The loss is that of the average: for probabilities minus the log of the average one.

    >>> from estimators.federated.models import linear_regression
    >>> from estimators.federated.numpy_backend import NumpyBackend
    >>> backend, model = NumpyBackend(), linear_regression(1)
    >>> data = backend.prepare(model, [([[1.0]], [1.0])])
    >>> evaluate_mixture(backend, model, Mixture([[0.25, 0.75]], [[0.0, 0.0], [4.0, 0.0]]), data).loss.tolist()
    [2.0]
    """
    if len(mixture.weights) != len(data.sizes):
        raise ValueError(f"mixture has weights of {len(mixture.weights)} clients, data are of {len(data.sizes)}")
    y = responses(data)
    weights = np.repeat(mixture.weights, data.sizes, axis=0).T
    scores = np.stack([np.asarray(backend.scores(model, row, data), dtype=float) for row in mixture.components])
    certain = model.loss in ("square", "hinge")
    average = np.einsum("mn,mns->ns", weights, scores if certain else probabilities(scores))
    if certain:
        loss = losses(model, average, y)[0]
    else:
        loss = -posterior(weights, np.stack([losses(model, s, y)[0] for s in scores]))[1]
    predicted = average.argmax(axis=1) if average.shape[1] > 1 else average[:, 0] > (0 if certain else 0.5)
    first = np.cumsum(data.sizes) - data.sizes
    hits = np.add.reduceat((predicted == y).astype(float), first) / data.sizes
    return Evaluation(np.add.reduceat(loss, first) / data.sizes, hits if model.n_classes else None)


def probabilities(scores: np.ndarray) -> Any:
    """Probabilities of the classes, of the class 1 where there is one score."""
    if scores.shape[-1] == 1:
        tail = np.exp(-np.abs(scores))
        return np.where(scores > 0, 1, tail) / (1 + tail)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
