"""What ``jax_backend`` compiles: networks, their losses and slopes, a step of local SGD, the loop over all clients' steps.

With the inputs a and the slopes d of a layer, one row for each position of the image, an example's gradient by the layer is
a' d.  Clipping forms these for convolutions only: with one position the norm is |a| |d| (Goodfellow 2015, arXiv:1510.01799)
and the sum over the batch, each times its factor, is one product of matrices.

Belongs here: functions of arrays on the device.  Does not belong here: checks, noise, chunks of clients (``jax_backend``);
steps of pairs of networks (``jax_pairs``); what is left out (``dropout``); what is computed, which ``backend`` says.
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

from estimators.federated.dropout import factors

TINY = 1e-30


def patches_of(layer: Any, image: Any) -> Any:
    """Numbers (n, positions, inputs) of each patch of the images (n, height, width, channels).

    Rows of patches first, then patches of these: twice `size` copies of longer and longer stretches instead of size^2.
    """
    rows, columns = layer.positions(image.shape[1:])
    around = ((layer.size - 1) // 2, layer.size // 2) if layer.same else (0, 0)
    padded = jnp.pad(image, ((0, 0), around, around, (0, 0)))
    strips = jnp.concatenate([padded[:, :, j : j + columns] for j in range(layer.size)], axis=-1)
    patches = jnp.concatenate([strips[:, i : i + rows] for i in range(layer.size)], axis=-1)
    return patches.reshape(len(image), rows * columns, -1)


def pooled(layer: Any, values: Any) -> Any:
    """Largest value of each block of values (n, rows, columns, channels)."""
    n, height, width, channels = values.shape
    rows, columns = height // layer.pool, width // layer.pool
    whole = values[:, : rows * layer.pool, : columns * layer.pool]
    return whole.reshape(n, rows, layer.pool, columns, layer.pool, channels).max(axis=(2, 4))


def pieces_of(model: Any, parameters: Any) -> list[tuple[Any, Any]]:
    """Weights (inputs, outputs) and intercepts (outputs,) of each layer of parameters (P,): a step changes them in place."""
    return [(layer[:-1], layer[-1]) for layer in model.layers(parameters)]


def joined(pieces: Any) -> Any:
    """Vector (P,) of the pieces of all layers."""
    return jnp.concatenate([part.ravel() for layer in pieces for part in layer])


def taps_of(model: Any, n: Any, dtype: Any) -> Any:
    """Zeros (n, positions, outputs) of each layer, to be added to its outputs: slopes by them are slopes by the outputs."""
    positions = [prod(c.positions(i)) for c, i in zip(model.convolutions, model.images[:-1], strict=True)]
    positions += [1] * (len(model.shapes) - len(positions))
    return [jnp.zeros((n, p, outputs), dtype) for p, (_, outputs) in zip(positions, model.shapes, strict=True)]


def forward(model: Any, pieces: Any, x: Any, taps: Any, kept: Any = ()) -> tuple[Any, list[Any]]:
    """Scores (n, scores) of examples x (n, features), and what each layer takes, (n, positions, inputs).

    kept : what ``dropout.factors`` multiplies the inputs of the layers after the convolutions by; () for nothing.
    """
    taken, layers = [], zip(pieces, taps, strict=True)

    def affine(values):
        (weights, intercepts), tap = next(layers)
        taken.append(values)
        return values @ weights + intercepts + tap

    if model.convolutions:
        x = x.reshape(len(x), *model.image)
    for layer in model.convolutions:
        values = jax.nn.relu(affine(patches_of(layer, x)))
        x = pooled(layer, values.reshape(len(x), *layer.positions(x.shape[1:]), values.shape[-1]))
    values = x.reshape(len(x), 1, -1)
    for i, _ in enumerate(model.sizes[1:]):
        values = jax.nn.relu(values) if i else values
        values = affine(values * kept[i] if kept else values)
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


def slopes_of(model: Any, pieces: Any, x: Any, y: Any, kept: Any = ()) -> tuple[list[tuple[Any, Any]], Any]:
    """For each layer what it takes, (n, positions, inputs), and the slopes of each example's loss by its outputs; scores."""

    def total(taps):
        scores, taken = forward(model, pieces, x, taps, kept)
        return losses_of(model, scores, y).sum(), (taken, scores)

    slopes, (taken, scores) = jax.grad(total, has_aux=True)(taps_of(model, len(x), x.dtype))
    return list(zip(taken, slopes, strict=True)), scores


def summed(taken: Any, slopes: Any) -> tuple[Any, Any]:
    """Gradient by one layer's pieces, summed over examples."""
    taken, flat = taken.reshape(-1, taken.shape[-1]), slopes.reshape(-1, slopes.shape[-1])
    return taken.T @ flat, flat.sum(axis=0)


def by_example(taken: Any, slopes: Any) -> Any:
    """Squared norm (n,) of each example's gradient by one layer, and a function from weights (n,) to the weighted sum."""
    if taken.shape[1] == 1:
        norms = ((taken**2).sum(axis=(1, 2)) + 1) * (slopes**2).sum(axis=(1, 2))
        return norms, lambda weights: summed(taken, slopes * weights[:, None, None])
    matrices, intercepts = jnp.einsum("npi,npo->nio", taken, slopes), slopes.sum(axis=1)
    norms = (matrices**2).sum(axis=(1, 2)) + (intercepts**2).sum(axis=1)
    return norms, lambda weights: (jnp.einsum("n,nio->io", weights, matrices), weights @ intercepts)


def one_step(model: Any, form: Any, state: Any, x: Any, y: Any, batch: Any, how: Any, normals: Any) -> tuple[Any, Any]:
    """Pieces of one client's network after one step, and whether its scores are finite; see ``backend`` for the formula.

    form says whether gradients are clipped, and whether something pulls.
    """
    (w,), (rows, weights, divisor, *keys), (clipped, pulled) = state, batch, form
    rate, lam, anchor, clip, scale = how
    kept = [part if isinstance(part, int) else part[:, None] for key in keys for part in factors(model, key, len(rows))]
    pairs, scores = slopes_of(model, w, x[rows], y[rows], kept)
    finite = jnp.isfinite(jnp.where(weights[:, None] > 0, scores, 0)).all()
    if clipped:
        norms, sums = zip(*(by_example(*pair) for pair in pairs), strict=True)
        weights = weights * jnp.minimum(1, clip / jnp.maximum(jnp.sqrt(sum(norms)), TINY))
        total = [weighted(weights) for weighted in sums]
    else:
        total = [summed(taken, slopes * weights[:, None, None]) for taken, slopes in pairs]
    if normals is not None:
        total = jax.tree.map(lambda part, noise: part + scale * noise, total, pieces_of(model, normals))
    total = jax.tree.map(lambda part: part / divisor, total)
    if pulled:
        total = jax.tree.map(lambda part, own, other: part + lam * (own - other), total, w, pieces_of(model, anchor))
    return (jax.tree.map(lambda own, part: own - rate * part, w, total),), finite


def trained(
    step: Any,
    model: Any,
    form: Any,
    noisy: Any,
    together: Any,
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

    Vectors of parameters are cut into pieces before the first step and joined after the last, so that no step copies them.
    On a CPU, where one client's layers are work enough and stay in its caches, clients follow each other; an accelerator
    takes all `together`.

    Parameters
    ----------
    step, form : a function of one client like `one_step`, and what it is compiled for besides the model.
    state : tuple of arrays (C, ...), which `step` takes and returns, those (C, P) in pieces, and array (C,) of whole
        numbers, -1 so far.
    batches : arrays (C, S, ...): rows, weights, divisors, and keys of dropout if the model has any; and array (C,), how
        many of the steps each client takes.
    how : arrays (C, ...) of settings; normals : array (C, T, numbers) for the steps from `first` on, used if `noisy`.
    """

    def one(client):
        place, (parts, failed), (*batches, steps), how = client
        last = jnp.minimum(stop, steps)

        def advance(number, state):
            parts, failed = state
            noise = normals[place, number - first] if noisy else None
            parts, finite = step(model, form, parts, x, y, [part[number] for part in batches], how, noise)
            return parts, jnp.where((failed < 0) & ~finite, number, failed)

        cut = tuple(pieces_of(model, part) if part.ndim else part for part in parts)
        cut, failed = jax.lax.fori_loop(first, last, advance, (cut, failed))
        parts = tuple(joined(new) if old.ndim else new for new, old in zip(cut, parts, strict=True))
        whole = jnp.stack([jnp.isfinite(part).all() for part in parts]).all()
        return parts, jnp.where((failed < 0) & (last > first) & ~whole, last - 1, failed)

    clients = jnp.arange(len(normals)), state, batches, how
    return jax.vmap(one)(clients) if together else jax.lax.map(one, clients)


def scored(model: Any, each: Any, parameters: Any, x: Any, rows: Any) -> Any:
    """Scores (U, R, n_scores) of rows (U, R), each U with parameters of its own if `each`."""

    def one(w, rows):
        return forward(model, pieces_of(model, w), x[rows], taps_of(model, len(rows), x.dtype))[0]

    return jax.vmap(one, (0 if each else None, 0))(parameters, rows)


def mean_loss(model: Any, parameters: Any, x: Any, y: Any) -> Any:
    """Mean loss of examples."""
    scores, _ = forward(model, pieces_of(model, parameters), x, taps_of(model, len(x), x.dtype))
    return losses_of(model, scores, y).mean()


def gradients_of(model: Any, parameters: Any, x: Any, y: Any) -> Any:
    """Gradient (n, P) of each example's loss."""
    pairs, _ = slopes_of(model, pieces_of(model, parameters), x, y)
    return jax.vmap(lambda pairs: joined([summed(a[None], d[None]) for a, d in pairs]))(pairs)
