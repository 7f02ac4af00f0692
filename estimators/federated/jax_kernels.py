"""What ``jax_backend`` compiles: networks, their losses and slopes, a step of local SGD, the loop over all clients' steps.

With the inputs a and the slopes d of a layer, one row for each position of the image, an example's gradient by the layer is
a' d.  Clipping forms these for convolutions only: with one position the norm is |a| |d| (Goodfellow 2015, arXiv:1510.01799)
and the sum over the batch, each times its factor, is one product of matrices.

Belongs here: functions of arrays on the device.  Does not belong here: checks, noise, chunks of clients (``jax_backend``);
steps of pairs of networks (``jax_pairs``); what is computed, which ``backend`` says.
"""

from __future__ import annotations

# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
from math import prod
from typing import Any

try:
    import jax
    from jax import numpy as jnp
except ImportError:  # the extra is not installed
    jax = jnp = None

TINY = 1e-30


def patches_of(layer: Any, image: Any) -> Any:
    """Numbers (n, positions, inputs) of each patch of the images (n, height, width, channels)."""
    rows, columns = layer.positions(image.shape[1:])
    around = ((layer.size - 1) // 2, layer.size // 2) if layer.same else (0, 0)
    padded = jnp.pad(image, ((0, 0), around, around, (0, 0)))
    pixels = [(i, j) for i in range(layer.size) for j in range(layer.size)]
    parts = [padded[:, i : i + rows, j : j + columns] for i, j in pixels]
    return jnp.concatenate(parts, axis=-1).reshape(len(image), rows * columns, -1)


def pooled(layer: Any, values: Any) -> Any:
    """Largest value of each block of values (n, rows, columns, channels)."""
    n, height, width, channels = values.shape
    rows, columns = height // layer.pool, width // layer.pool
    whole = values[:, : rows * layer.pool, : columns * layer.pool]
    return whole.reshape(n, rows, layer.pool, columns, layer.pool, channels).max(axis=(2, 4))


def taps_of(model: Any, n: Any, dtype: Any) -> Any:
    """Zeros (n, positions, outputs) of each layer, to be added to its outputs: slopes by them are slopes by the outputs."""
    positions = [prod(c.positions(i)) for c, i in zip(model.convolutions, model.images[:-1], strict=True)]
    positions += [1] * (len(model.shapes) - len(positions))
    return [jnp.zeros((n, p, outputs), dtype) for p, (_, outputs) in zip(positions, model.shapes, strict=True)]


def forward(model: Any, parameters: Any, x: Any, taps: Any) -> tuple[Any, list[Any]]:
    """Scores (n, scores) of examples x (n, features), and what each layer takes, (n, positions, inputs)."""
    taken, layers = [], zip(model.layers(parameters), taps, strict=True)

    def affine(values):
        layer, tap = next(layers)
        taken.append(values)
        return values @ layer[:-1] + layer[-1] + tap

    if model.convolutions:
        x = x.reshape(len(x), *model.image)
    for layer in model.convolutions:
        values = jax.nn.relu(affine(patches_of(layer, x)))
        x = pooled(layer, values.reshape(len(x), *layer.positions(x.shape[1:]), -1))
    values = affine(x.reshape(len(x), 1, -1))
    for _ in model.sizes[2:]:
        values = affine(jax.nn.relu(values))
    return values[:, 0], taken


def losses_of(model: Any, scores: Any, y: Any) -> Any:
    """Loss (n,) of examples with scores (n, scores)."""
    if model.loss == "softmax":
        return jax.nn.logsumexp(scores, axis=1) - jnp.take_along_axis(scores, y.astype(int)[:, None], axis=1)[:, 0]
    s = scores[:, 0]
    if model.loss == "square":
        return (s - y) ** 2 / 2
    margin = (2 * y - 1) * s
    if model.loss == "hinge":
        return jnp.where(margin < 1, 1 - margin, 0)
    size = jnp.maximum(margin, -margin)  # abs would have the slope 1 at 0, where this has 0
    return jnp.maximum(0, -margin) + jnp.log1p(jnp.exp(-size))


def slopes_of(model: Any, parameters: Any, x: Any, y: Any) -> list[tuple[Any, Any]]:
    """For each layer what it takes, (n, positions, inputs), and the slopes of each example's loss by its outputs."""

    def total(taps):
        scores, taken = forward(model, parameters, x, taps)
        return losses_of(model, scores, y).sum(), taken

    slopes, taken = jax.grad(total, has_aux=True)(taps_of(model, len(x), x.dtype))
    return list(zip(taken, slopes, strict=True))


def summed(taken: Any, slopes: Any) -> Any:
    """Gradient by one layer, summed over examples, as a vector."""
    return jnp.concatenate([jnp.einsum("npi,npo->io", taken, slopes).ravel(), slopes.sum(axis=(0, 1))])


def by_example(taken: Any, slopes: Any) -> Any:
    """Squared norm (n,) of each example's gradient by one layer, and a function from weights (n,) to the weighted sum."""
    if taken.shape[1] == 1:
        norms = ((taken**2).sum(axis=(1, 2)) + 1) * (slopes**2).sum(axis=(1, 2))
        return norms, lambda weights: summed(taken, slopes * weights[:, None, None])
    matrices, intercepts = jnp.einsum("npi,npo->nio", taken, slopes), slopes.sum(axis=1)
    norms = (matrices**2).sum(axis=(1, 2)) + (intercepts**2).sum(axis=1)
    return norms, lambda weights: jnp.concatenate([(weights @ matrices.reshape(len(weights), -1)), weights @ intercepts])


def one_step(model: Any, clipped: Any, state: Any, x: Any, y: Any, batch: Any, how: Any, normals: Any) -> tuple[Any]:
    """Parameters of one client after one step; see ``backend`` for the formula."""
    (w,), (rows, weights, divisor) = state, batch
    rate, lam, anchor, clip, scale = how
    pairs = slopes_of(model, w, x[rows], y[rows])
    if clipped:
        norms, sums = zip(*(by_example(*pair) for pair in pairs), strict=True)
        weights = weights * jnp.minimum(1, clip / jnp.maximum(jnp.sqrt(sum(norms)), TINY))
        total = jnp.concatenate([weighted(weights) for weighted in sums])
    else:
        total = jnp.concatenate([summed(a, slopes * weights[:, None, None]) for a, slopes in pairs])
    return (w - rate * ((total + scale * normals) / divisor + lam * (w - anchor)),)


def trained(
    step: Any,
    model: Any,
    form: Any,
    noisy: Any,
    state: Any,
    x: Any,
    y: Any,
    batches: Any,
    how: Any,
    normals: Any,
    first: Any,
    stop: Any,
) -> Any:
    """State of C clients after the steps first .. stop - 1: what they train, and the first step that left it not finite.

    Parameters
    ----------
    step, form : a function of one client like `one_step`, and what it is compiled for besides the model.
    state : tuple of arrays (C, ...), which `step` takes and returns, and array (C,) of whole numbers, -1 so far.
    batches : arrays (S, C, ...): rows, weights, divisors, and whether a client takes the step at all.
    how : arrays (C, ...) of settings; normals : array (T, C, numbers) for the steps from `first` on, used if `noisy`.
    """

    def one(parts, batch, how, normals):
        *batch, taken = batch
        moved = step(model, form, parts, x, y, batch, how, normals)
        parts = tuple(jnp.where(taken, new, old) for new, old in zip(moved, parts, strict=True))
        return parts, jnp.stack([jnp.isfinite(part).all() for part in parts]).all()

    each = jax.vmap(one)

    def advance(number, state):
        parts, failed = state
        batch = [part[number] for part in batches]
        noise = normals[number - first] if noisy else jnp.zeros((len(failed), 1), x.dtype)
        parts, finite = each(parts, batch, how, noise)
        return parts, jnp.where((failed < 0) & ~finite, number, failed)

    return jax.lax.fori_loop(first, stop, advance, state)


def scored(model: Any, each: Any, parameters: Any, x: Any, rows: Any) -> Any:
    """Scores (U, R, n_scores) of rows (U, R), each U with parameters of its own if `each`."""

    def one(w, rows):
        return forward(model, w, x[rows], taps_of(model, len(rows), x.dtype))[0]

    return jax.vmap(one, (0 if each else None, 0))(parameters, rows)


def mean_loss(model: Any, parameters: Any, x: Any, y: Any) -> Any:
    """Mean loss of examples."""
    return losses_of(model, forward(model, parameters, x, taps_of(model, len(x), x.dtype))[0], y).mean()


def gradients_of(model: Any, parameters: Any, x: Any, y: Any) -> Any:
    """Gradient (n, P) of each example's loss."""
    pairs = slopes_of(model, parameters, x, y)
    return jax.vmap(lambda pairs: jnp.concatenate([summed(a[None], d[None]) for a, d in pairs]))(pairs)
