"""Readable NumPy twins of the compiled kernels.

Belongs here: one vectorised function per kernel, with the same signature, the same draw order and the
same result up to rounding. Read these to learn what a kernel simulates.
Does not belong here: anything fast, anything without a compiled twin.

Each twin draws all replicates in one call, ``gen.standard_normal((reps, draws))``, which is the stream
order of the kernels, so on equal generators both see the same normals and differ by rounding only.
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import Floats

from .moments import batch_means


def clients_reference(
    gen: np.random.Generator,
    reps: int,
    tau_sd: Floats,
    alpha_sd: Floats,
    nu_sd: Floats,
    client: int,
    weights: Floats,
    left: Floats,
    right: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Twin of ``kernels.clients_kernel``."""
    sd = np.stack([tau_sd, alpha_sd, nu_sd])
    seen = (weights != 0).any(axis=0)
    seen[client] = True
    kept = (sd > 0) & seen
    noise = np.zeros((reps, *sd.shape))
    noise[:, kept] = sd[kept] * gen.standard_normal((reps, np.count_nonzero(kept)))
    p, e, l = noise[:, 0], noise[:, 1], noise[:, 2]  # noqa: E741 - the papers' letter
    aggregates = (p + e + l) @ weights.T
    z = np.column_stack([p[:, client], e[:, client], l[:, client], aggregates])
    return _moments((z @ left.T) * (z @ right.T))


def regression_reference(
    gen: np.random.Generator,
    reps: int,
    design: Floats,
    centre: Floats,
    prior_sd: Floats,
    noise_sd: Floats,
    gain: Floats,
    offset: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Twin of ``kernels.regression_kernel``."""
    n, d = design.shape
    normals = gen.standard_normal((reps, d + n))
    theta = centre + prior_sd * normals[:, :d]
    y = theta @ design.T + noise_sd * normals[:, d:]
    squares = (y @ gain.T + offset - theta) ** 2
    return _moments(np.column_stack([squares.sum(axis=1), squares]))


def james_stein_reference(
    gen: np.random.Generator, reps: int, m: int, mu: float, theta_sd: float, noise_sd: float, shrink: float
) -> tuple[Floats, Floats, Floats]:
    """Twin of ``kernels.james_stein_kernel``."""
    normals = gen.standard_normal((reps, 2 * m))
    error = noise_sd * normals[:, m:]
    x = mu + theta_sd * normals[:, :m] + error
    deviation = x - x.mean(axis=1, keepdims=True)
    spread = (deviation**2).sum(axis=1, keepdims=True)
    classical = 1 - (m - 3) * noise_sd**2 / spread
    factors = [classical, shrink, np.maximum(classical, 0)]
    # estimate - theta = xbar + f (x - xbar) - theta = (x - theta) - (1 - f)(x - xbar)
    squares = [((error - (1 - f) * deviation) ** 2).mean(axis=1) for f in factors]
    return _moments(np.column_stack(squares))


def _moments(statistics):
    """Mean, scatter and batch means of statistics of shape (reps, M)."""
    mean = statistics.mean(axis=0)
    deviation = statistics - mean
    return mean, deviation.T @ deviation, batch_means(statistics)
