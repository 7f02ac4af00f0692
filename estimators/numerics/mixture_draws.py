"""Which part of its mixture each client is drawn from, for many clients and draws at once.

Belongs here: that choice.  The mixtures are the models'; distribution functions of normal ones are in ``normal_mixture``.
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import Floats, Ints

__all__ = ["drawn_parts"]


def drawn_parts(weights: Floats, uniforms: Floats) -> Ints:
    """Return parts (size, m) drawn in proportion to `weights` (m, k), by uniform numbers (size, m).

    One search serves all: the cumulative shares of client i lie in [i, i + 1].

    >>> drawn_parts(np.array([[0.5, 0.5], [0.0, 2.0]]), np.array([[0.2, 0.2], [0.9, 0.9]])).tolist()
    [[0, 1], [1, 1]]
    """
    m, k = weights.shape
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    cumulative[:, -1] = 1.0
    clients = np.arange(m)
    found = np.searchsorted((cumulative + clients[:, None]).ravel(), uniforms + clients, side="right") - k * clients
    return np.clip(found, 0, k - 1)
