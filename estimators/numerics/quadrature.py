"""Few places that stand for many: Gauss's rule for a law of points, and for normal variables.

Belongs here: rules for given laws.  Where they are enough is for those to say who know what is averaged
(``normal_means.tau2_likelihood``, ``counts.conjugate``).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.numerics.blocks import dot

__all__ = ["deviation", "gauss", "normal_grid"]


def deviation(x: Floats, mass: Floats) -> float:
    """Return the standard deviation of a law of points x with probabilities `mass`."""
    mean = dot(mass, x)
    return float(np.sqrt(dot(mass, (x - mean) ** 2)))


def gauss(x: Floats, mass: Floats, places: int) -> tuple[Floats, Floats]:
    """Return `places` points and probabilities with the same first 2 `places` moments (Golub and Welsch 1969).

    Parameters
    ----------
    x : array (k,) of points that are not all the same; mass : array (k,) of probabilities, adding up to one.
    places : whole number < k.

    >>> points, mass = gauss(np.arange(5.0), np.full(5, 0.2), 2)
    >>> round(float(mass @ points), 12), round(float(mass @ points**3), 12)
    (2.0, 20.0)
    """
    mean, sd = dot(mass, x), deviation(x, mass)
    z = (x - mean) / sd
    vectors, diagonal, beside = [np.sqrt(mass)], [], []
    for _ in range(places):
        image = z * vectors[-1]
        diagonal.append(dot(image, vectors[-1]))
        for _ in range(2):  # Gram-Schmidt twice is enough
            for vector in vectors:
                image = image - dot(image, vector) * vector
        beside.append(np.sqrt(dot(image, image)))
        vectors.append(image / beside[-1])
    roots, axes = np.linalg.eigh(np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1))
    return mean + sd * roots, axes[0] ** 2


@cache
def normal_grid(k: int, points: int) -> tuple[Floats, Floats]:
    """Return the nodes (q, k) and masses (q,) of the rule for N(0, I) in k dimensions, with so many points along each.

    >>> nodes, masses = normal_grid(1, 3)
    >>> round(float(masses @ nodes[:, 0] ** 4), 12)
    3.0
    """
    x, w = np.polynomial.hermite_e.hermegauss(points)
    nodes = np.stack(np.meshgrid(*[x] * k, indexing="ij"), axis=-1).reshape(-1, k)
    masses = np.prod(np.stack(np.meshgrid(*[w / np.sqrt(2 * np.pi)] * k, indexing="ij"), axis=-1).reshape(-1, k), axis=1)
    return nodes, masses
