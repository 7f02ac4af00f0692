"""Losses, gradients and training in a few plain NumPy lines, without regard to time: what the other backends must equal.

Belongs here: `ReferenceBackend`.  Does not belong here: anything clever, which is in ``numpy_backend``.  No BLAS, so the
bits do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.backend import Diverged, Evaluation, check_evaluated, client_arrays, local_training
from estimators.federated.dropout import factors
from estimators.federated.pairs import Pairs, checked_pairs

if TYPE_CHECKING:
    from estimators.federated.backend import ClientArrays
    from estimators.federated.models import Model
    from estimators.federated.schedule import Schedule

__all__ = ["ReferenceBackend"]


def product(a: Any, b: Any) -> Any:
    """Matrix product without BLAS."""
    return np.einsum("ij,jk->ik", a, b)


def windows(layer: Any, image: Any) -> Any:
    """Slices of each pixel of a patch in an image (n, height, width, channels), and the rows and columns of zeros around."""
    rows, columns = layer.positions(image.shape[1:])
    around = ((layer.size - 1) // 2, layer.size // 2) if layer.same else (0, 0)
    pixels = [(i, j) for i in range(layer.size) for j in range(layer.size)]
    return [np.s_[:, i : i + rows, j : j + columns] for i, j in pixels], ((0, 0), around, around, (0, 0))


def blocks(layer: Any, values: Any) -> Any:
    """View (n, rows, pool, columns, pool, channels) of the blocks of values (n, height, width, channels)."""
    n, height, width, channels = values.shape
    rows, columns = height // layer.pool, width // layer.pool
    whole = values[:, : rows * layer.pool, : columns * layer.pool]
    return whole.reshape(n, rows, layer.pool, columns, layer.pool, channels)  # a view: axes are only split


def convolve(layer: Any, matrix: Any, image: Any) -> tuple[np.ndarray, Any, Any]:
    """Patches (n, rows, columns, inputs + 1) with ones, their rectified values, and the largest of each block."""
    slices, around = windows(layer, image)
    padded = np.pad(image, around)
    patches = np.concatenate([padded[s] for s in slices] + [np.ones_like(padded[slices[0]][..., :1])], axis=-1)
    values = np.maximum(np.einsum("nrci,io->nrco", patches, matrix), 0)
    return patches, values, blocks(layer, values).max(axis=(2, 4))


def convolve_back(layer: Any, matrix: Any, image: Any, patches: Any, values: Any, slopes: Any) -> tuple[Any, np.ndarray]:
    """Gradient (n, inputs + 1, channels) of each example, and slopes by the image, from slopes by the largest values."""
    spread, mine = np.zeros_like(values), blocks(layer, values)
    largest = mine == mine.max(axis=(2, 4), keepdims=True)
    shares = largest / largest.sum(axis=(2, 4), keepdims=True)
    blocks(layer, spread)[...] = shares * slopes[:, :, None, :, None]
    spread *= values > 0
    slices, around = windows(layer, image)
    below = np.pad(np.zeros_like(image), around)
    by_patch = np.einsum("nrco,io->nrci", spread, matrix[:-1])
    for part, s in zip(np.split(by_patch, len(slices), axis=-1), slices, strict=True):
        below[s] += part
    (top, bottom), (left, right) = around[1:3]
    inside = below[:, top : below.shape[1] - bottom, left : below.shape[2] - right]
    return np.einsum("nrci,nrco->nio", patches, spread), inside


def activations(
    model: Model, parameters: np.ndarray, x: np.ndarray, kept: Sequence[Any] = ()
) -> tuple[list[Any], list[Any], Any]:
    """What each convolution takes and makes, inputs of each other layer with a column of ones, and scores (n, scores).

    kept : what ``dropout.factors`` multiplies the inputs of these layers by; () for nothing.
    """
    layers, made, inputs = model.layers(parameters), [], []
    image = x.reshape(len(x), *model.image) if model.image else x
    for layer, matrix in zip(model.convolutions, layers, strict=False):
        patches, values, pooled = convolve(layer, matrix, image)
        made.append((image, patches, values))
        image = pooled
    scores = image.reshape(len(x), layers[len(made)].shape[0] - 1)
    for i, layer in enumerate(layers[len(made) :]):
        values = np.maximum(scores, 0) if i else scores
        values = values * kept[i] if kept else values
        inputs.append(np.column_stack([values, np.ones(len(x))]))
        scores = product(inputs[-1], layer)
    return made, inputs, scores


def losses(model: Model, scores: Any, y: np.ndarray) -> tuple[Any, Any] | tuple[Any, np.ndarray]:
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


def backwards(
    model: Model, parameters: np.ndarray, made: Any, inputs: Any, slopes: Any, kept: Sequence[Any] = ()
) -> np.ndarray:
    """Gradients (n, P) of functions of each example's scores with these slopes (n, scores); kept as in `activations`."""
    layers, gradients, n = model.layers(parameters), [], len(slopes)
    for i in reversed(range(len(inputs))):
        values, layer = inputs[i], layers[len(made) + i]
        gradients.insert(0, (values[:, :, None] * slopes[:, None, :]).reshape(n, layer.size))
        slopes = product(slopes, layer[:-1].T) * (values[:, :-1] > 0)
        slopes = slopes * kept[i] if kept else slopes
    for i in reversed(range(len(made))):
        slopes = slopes.reshape(n, *model.images[i + 1])
        gradient, slopes = convolve_back(model.convolutions[i], layers[i], *made[i], slopes)  # pyright: ignore[reportCallIssue]
        gradients.insert(0, gradient.reshape(n, layers[i].size))
    return np.concatenate(gradients, axis=1)


def gradients_of(model: Model, parameters: np.ndarray, x: np.ndarray, y: np.ndarray, kept: Sequence[Any] = ()) -> np.ndarray:
    """Gradient (n, P) of each example's loss; kept as in `activations`."""
    made, inputs, scores = activations(model, parameters, x, kept)
    return backwards(model, parameters, made, inputs, losses(model, scores, y)[1], kept)


def log_shares(model: Model, scores: Any) -> Any:
    """Logarithms (n, classes) of the probabilities of the classes."""
    scores = scores if model.loss == "softmax" else np.column_stack([np.zeros(len(scores)), scores])
    top = scores.max(axis=1, keepdims=True)
    return scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))


def clipped(vector: Any, norm: Any, clip: Any) -> Any:
    """Vector, made shorter if its norm is above clip."""
    return vector * (clip / norm if norm > clip else 1.0)


def pair_step(
    model: Model,
    step: Any,
    theta: Any,
    mu: Any,
    psi: Any,
    x: np.ndarray,
    y: np.ndarray,
    weights: Any,
    divisor: Any,
    normals: Any,
) -> tuple[Any, Any, Any]:
    """Theta, mu and psi after one step on some rows; see ``pairs``.  normals (P + 1,) are multiples of the clips."""
    first = 0 if model.loss == "softmax" else 1  # class of the first score

    def total(parameters, below, slopes):
        return (weights[:, None] * backwards(model, parameters, *below, slopes)).sum(axis=0) / divisor  # pyright: ignore[reportCallIssue]

    def slope(log_p, log_q):
        """Slope k of the objective in psi."""
        mean = (weights[:, None] * np.exp(log_q) * (log_q - log_p)).sum() / divisor
        return 1 / (2 * psi) - mean / (2 * psi**2)

    *inputs, scores = activations(model, theta, x)
    *common_inputs, common_scores = activations(model, mu, x)
    log_p, log_q = log_shares(model, scores), log_shares(model, common_scores)
    slopes = step.own[0] * losses(model, scores, y)[1]
    slopes += step.own[1] / (2 * psi) * (np.exp(log_p) - np.exp(log_q))[:, first:]
    theta = theta - step.rates[0] * (total(theta, inputs, slopes) + step.weight_decay * theta)

    log_p = log_shares(model, activations(model, theta, x)[-1])
    p, q = np.exp(log_p), np.exp(log_q)
    apart = q - p if step.mutual else q * (log_q - log_p - (q * (log_q - log_p)).sum(axis=1, keepdims=True))
    slopes = step.common[0] * losses(model, common_scores, y)[1] + step.common[1] / (2 * psi) * apart[:, first:]
    h = total(mu, common_inputs, slopes)
    if step.joint:
        k = slope(log_p, log_q)
        norm = np.sqrt((h**2).sum() + k**2)
        h, k, noise_k = clipped(h, norm, step.clips[0]), clipped(k, norm, step.clips[0]), step.clips[0]
    else:
        h, k, noise_k = clipped(h, np.sqrt((h**2).sum()), step.clips[0]), 0.0, step.clips[1]
    if normals is not None:
        h = h + step.clips[0] * normals[:-1]
    mu = mu - step.rates[1] * (h + step.weight_decay * mu)
    if step.rates[2] > 0:
        if not step.joint:
            k = np.clip(slope(log_p, log_shares(model, activations(model, mu, x)[-1])), -step.clips[1], step.clips[1])
        if normals is not None:
            k = k + noise_k * normals[-1]
        psi = max(step.floor, psi - step.rates[2] * k)
    return theta, mu, psi


class ReferenceBackend:
    """The backend in plain NumPy and float64.

    >>> from estimators.federated.models import linear_regression
    >>> ReferenceBackend().example_gradients(linear_regression(1), [2.0, 0.0], [[3.0]], [5.0]).tolist()
    [[3.0, 1.0]]
    """

    dtype = np.dtype(float)

    def prepare(self, model: Model, clients: Sequence[tuple[Any, Any]]) -> ClientArrays:
        """Checked data of all clients; see `Backend`."""
        return client_arrays(model, clients)

    def initialise(self, model: Model, generator: np.random.Generator) -> Any:
        """First parameters (P,); see `Backend`."""
        return model.initialise(generator)

    def loss(self, model: Model, parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        """Mean loss; see `Backend`."""
        parameters, (x, y) = model.check_parameters("parameters", parameters), model.check_data("data", x, y)
        return float(losses(model, activations(model, parameters, x)[-1], y)[0].mean())

    def example_gradients(self, model: Model, parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Gradients (n, P); see `Backend`."""
        parameters, (x, y) = model.check_parameters("parameters", parameters), model.check_data("data", x, y)
        return gradients_of(model, parameters, x, y)

    def local_sgd(
        self,
        model: Model,
        starts: Any,
        data: ClientArrays,
        schedule: Schedule,
        *,
        learning_rate: Any,
        pull: Any = None,
        clip: Any = None,
        noise: Any = None,
    ) -> np.ndarray:
        """Parameters (C, P) after local SGD; see `Backend`."""
        how = local_training(model, starts, data, schedule, learning_rate=learning_rate, pull=pull, clip=clip, noise=noise)
        ends = how.starts.copy()
        for i, k in enumerate(schedule.clients):
            x, y = data.client(k)
            for s in range(schedule.steps[i]):
                used = schedule.weights[i, s] > 0
                rows, weights = schedule.indices[i, s, used], schedule.weights[i, s, used]
                whole = factors(model, schedule.keys[i, s], len(used)) if model.dropout else []
                kept = [part if isinstance(part, int) else part[used] for part in whole]
                with np.errstate(over="ignore", invalid="ignore"):
                    gradients = gradients_of(model, ends[i], x[rows], y[rows], kept)
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

    def local_pairs(
        self,
        model: Model,
        own: Any,
        common: Any,
        psi: Any,
        data: ClientArrays,
        schedule: Schedule,
        *,
        step: Any,
        noise: Any = None,
    ) -> Pairs:
        """`Pairs` after their training; see `Backend`."""
        start, z = checked_pairs(model, own, common, psi, data, schedule, step=step, noise=noise)
        ends = Pairs(*(part.astype(float) for part in start))
        for i, k in enumerate(schedule.clients):
            x, y = data.client(k)
            for s in range(schedule.steps[i]):
                used = schedule.weights[i, s] > 0
                rows = schedule.indices[i, s, used]
                batch = x[rows], y[rows], schedule.weights[i, s, used], schedule.divisors[i, s]
                normals = None
                if noise is not None:
                    normals = z * noise.draw(k, [s], model.n_parameters + 1)[0].astype(float)
                with np.errstate(over="ignore", invalid="ignore"):
                    moved = pair_step(model, step, *(part[i] for part in ends), *batch, normals)  # pyright: ignore[reportCallIssue]
                for part, value in zip(ends, moved, strict=True):
                    part[i] = value
                    if not np.isfinite(value).all():
                        raise Diverged(int(k), s)
        return ends

    def scores(self, model: Model, parameters: np.ndarray, data: ClientArrays) -> np.ndarray:
        """Scores of all clients' examples; see `Backend`."""
        rows = check_evaluated(model, parameters, data)
        return np.concatenate([activations(model, row, data.client(k)[0])[-1] for k, row in enumerate(rows)])

    def evaluate(self, model: Model, parameters: np.ndarray, data: ClientArrays) -> Evaluation:
        """Loss and accuracy of each client; see `Backend`."""
        rows, loss, accuracy = check_evaluated(model, parameters, data), [], []
        for k, row in enumerate(rows):
            x, y = data.client(k)
            scores = activations(model, row, x)[-1]
            loss.append(losses(model, scores, y)[0].mean())
            predicted = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
            accuracy.append((predicted == y).mean())
        return Evaluation(np.array(loss), np.array(accuracy) if model.n_classes else None)
