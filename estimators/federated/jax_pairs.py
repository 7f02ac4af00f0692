"""A step of a client's pair of networks, its own and its copy of the common one, in JAX.

Belongs here: the function that ``jax_kernels.trained`` repeats for the pairs that ``pairs`` defines.  Does not belong here:
checks and noise (``jax_backend``); networks, losses and slopes, which are those of ``jax_kernels``.
"""

from __future__ import annotations

# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
from functools import partial
from typing import Any

from estimators.federated.jax_kernels import TINY, forward, jax, jnp, losses_of, pieces_of, summed, taps_of


def log_shares(model: Any, scores: Any) -> Any:
    """Logarithms (n, classes) of the probabilities of the classes."""
    if model.loss == "softmax":
        return jax.nn.log_softmax(scores)
    return jax.nn.log_sigmoid(jnp.concatenate([-scores, scores], axis=1))


def divergence(log_p: Any, log_q: Any) -> Any:
    """KL(p || q) (n,) in nats."""
    return (jnp.exp(log_p) * (log_p - log_q)).sum(axis=1)


def pair_step(model: Any, form: Any, state: Any, x: Any, y: Any, batch: Any, how: Any, normals: Any) -> Any:
    """Pieces of theta and mu, and psi, of one client after one step, and whether shares and psi are finite; see
    ``pairs``.

    form says whether the divergence is mutual, whether mu and psi are clipped as one, whether either moves, whether psi
    does, and whether weights decay; normals (P + 1,) are multiplied by two scales.
    """
    (theta, mu, psi), (rows, weights, divisor) = state, batch
    mutual, joint, copied, learned, decays = form
    rates, own, common, floor, clips, scales, decay = how
    x, y = x[rows], y[rows]

    def mean(values):
        return weights @ values / divisor

    def decayed(slopes, w):
        """Slopes with those of the decay of w; without it the program is the one from before there was any."""
        return jax.tree.map(lambda slope, part: slope + decay * part, slopes, w) if decays else slopes

    def network(w):
        """Logarithms of its shares, and a function from weights of cross-entropy and divergence to their gradient."""
        scores, back, taken = jax.vjp(partial(forward, model, w, x), taps_of(model, len(x), x.dtype), has_aux=True)

        def gradient(parts, apart):
            def objective(scores):
                each = apart(log_shares(model, scores))
                return parts[0] * mean(losses_of(model, scores, y)) + parts[1] * mean(each) / (2 * psi)

            (slopes,) = back(jax.grad(objective)(scores))
            return [summed(a, d) for a, d in zip(taken, slopes, strict=True)]

        return log_shares(model, scores), gradient

    def slope(log_q):
        """Slope k of the objective in psi."""
        return (1 - mean(divergence(log_q, log_p)) / psi) / (2 * psi)

    log_q, gradient_of_mu = network(mu)
    log_own, gradient_of_theta = network(theta)
    moved = gradient_of_theta(own, lambda log_p: divergence(log_q, log_p))
    theta = jax.tree.map(lambda part, slope: part - rates[0] * slope, theta, decayed(moved, theta))
    finite = jnp.stack([jnp.isfinite(log_q).all(), jnp.isfinite(log_own).all(), jnp.isfinite(psi)]).all()
    if not copied:
        return (theta, mu, psi), finite
    log_p, _ = network(theta)
    h = gradient_of_mu(common, lambda log_q: divergence(log_p, log_q) if mutual else divergence(log_q, log_p))
    k = slope(log_q) if joint else 0.0
    norm = jnp.sqrt(sum((part**2).sum() for part in jax.tree.leaves(h)) + k**2)
    kept = jnp.minimum(1, clips[0] / jnp.maximum(norm, TINY))
    h = jax.tree.map(lambda part: kept * part, h)
    if normals is not None:
        h = jax.tree.map(lambda part, noise: part + scales[0] * noise, h, pieces_of(model, normals[:-1]))
    mu = jax.tree.map(lambda part, slope: part - rates[1] * slope, mu, decayed(h, mu))
    if learned:
        k = kept * k if joint else jnp.clip(slope(network(mu)[0]), -clips[1], clips[1])
        k = k if normals is None else k + scales[1] * normals[-1]
        psi = jnp.maximum(floor, psi - rates[2] * k)
    return (theta, mu, psi), finite
