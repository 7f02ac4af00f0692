"""Losses, gradients and training in a few plain NumPy lines, without regard to time: what the other backends must equal.

Belongs here: `ReferenceBackend`.  Does not belong here: anything clever, which is in ``numpy_backend``.  No BLAS, so the
bits do not depend on threads.
"""

import numpy as np

from estimators.federated.backend import Diverged, Evaluation, check_evaluated, client_arrays, local_training

__all__ = ["ReferenceBackend"]


def product(a, b):
    """Matrix product without BLAS."""
    return np.einsum("ij,jk->ik", a, b)


def activations(model, parameters, x):
    """Inputs of each layer with a column of ones, and the last layer's scores (n, scores)."""
    inputs, scores = [], x
    for i, layer in enumerate(model.layers(parameters)):
        values = np.maximum(scores, 0) if i else scores
        inputs.append(np.column_stack([values, np.ones(len(x))]))
        scores = product(inputs[-1], layer)
    return inputs, scores


def losses(model, scores, y):
    """Loss (n,) of each example, and its slopes (n, scores)."""
    s = scores[:, 0]
    if model.loss == "square":
        return (s - y) ** 2 / 2, (s - y)[:, None]
    if model.loss == "softmax":
        top = scores.max(axis=1, keepdims=True)
        total = np.exp(scores - top).sum(axis=1, keepdims=True)
        one = np.arange(scores.shape[1]) == y[:, None]
        return (np.log(total) + top - scores)[one], np.exp(scores - top) / total - one
    t = 2 * y - 1
    if model.loss == "hinge":
        return np.maximum(0, 1 - t * s), np.where(t * s < 1, -t, 0.0)[:, None]
    tail = np.exp(-np.abs(s))
    share = np.where(s > 0, 1 / (1 + tail), tail / (1 + tail))
    return np.maximum(0, -t * s) + np.log1p(tail), (share - y)[:, None]


class ReferenceBackend:
    """The backend in plain NumPy and float64.

    >>> from estimators.federated.models import linear_regression
    >>> ReferenceBackend().example_gradients(linear_regression(1), [2.0, 0.0], [[3.0]], [5.0]).tolist()
    [[3.0, 1.0]]
    """

    def prepare(self, model, clients):
        """Checked data of all clients; see `Backend`."""
        return client_arrays(model, clients)

    def initialise(self, model, generator):
        """First parameters (P,); see `Backend`."""
        return model.initialise(generator)

    def loss(self, model, parameters, x, y):
        """Mean loss; see `Backend`."""
        parameters, (x, y) = model.check_parameters("parameters", parameters), model.check_data("data", x, y)
        return float(losses(model, activations(model, parameters, x)[1], y)[0].mean())

    def example_gradients(self, model, parameters, x, y):
        """Gradients (n, P); see `Backend`."""
        parameters, (x, y) = model.check_parameters("parameters", parameters), model.check_data("data", x, y)
        inputs, scores = activations(model, parameters, x)
        slopes, gradients = losses(model, scores, y)[1], []
        for values, layer in zip(reversed(inputs), reversed(model.layers(parameters)), strict=True):
            gradients.insert(0, (values[:, :, None] * slopes[:, None, :]).reshape(len(x), layer.size))
            slopes = product(slopes, layer[:-1].T) * (values[:, :-1] > 0)
        return np.concatenate(gradients, axis=1)

    def local_sgd(self, model, starts, data, schedule, *, learning_rate, pull=None, clip=None, noise=None):
        """Parameters (C, P) after local SGD; see `Backend`."""
        how = local_training(model, starts, data, schedule, learning_rate=learning_rate, pull=pull, clip=clip, noise=noise)
        ends = how.starts.copy()
        for i, k in enumerate(schedule.clients):
            x, y = data.client(k)
            for s in range(schedule.steps[i]):
                used = schedule.weights[i, s] > 0
                rows, weights = schedule.indices[i, s, used], schedule.weights[i, s, used]
                with np.errstate(over="ignore", invalid="ignore"):
                    gradients = self.example_gradients(model, ends[i], x[rows], y[rows])
                    norms = np.sqrt((gradients**2).sum(axis=1))
                    total = ((weights * np.minimum(1, how.clip[i] / np.maximum(norms, 1e-300)))[:, None] * gradients).sum(
                        axis=0
                    )
                    if noise is not None:
                        total += how.multiplier[i] * how.clip[i] * noise.draw(k, [s], len(total))[0]
                    step = total / schedule.divisors[i, s] + how.lam[i] * (ends[i] - how.anchors[i])
                    ends[i] -= how.rate[i] * step
                if not np.isfinite(ends[i]).all():
                    raise Diverged(int(k), s)
        return ends

    def evaluate(self, model, parameters, data):
        """Loss and accuracy of each client; see `Backend`."""
        rows, loss, accuracy = check_evaluated(model, parameters, data), [], []
        for k, row in enumerate(rows):
            x, y = data.client(k)
            scores = activations(model, row, x)[1]
            loss.append(losses(model, scores, y)[0].mean())
            predicted = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
            accuracy.append((predicted == y).mean())
        return Evaluation(np.array(loss), np.array(accuracy) if model.n_classes else None)
