"""Gauss's rule keeps twice as many moments as it has places, and no more."""

import numpy as np

from estimators.numerics.quadrature import gauss

RNG = np.random.default_rng


def test_gauss_nodes_have_the_moments():
    rng = RNG(3)
    x, weights = rng.normal(2, 3, 40), rng.random(40)
    weights /= weights.sum()
    nodes, masses = gauss(x, weights, 4)
    for power in range(8):
        np.testing.assert_allclose(masses @ ((nodes - 2) / 3) ** power, weights @ ((x - 2) / 3) ** power, rtol=1e-11)
    assert abs(masses @ ((nodes - 2) / 3) ** 8 / (weights @ ((x - 2) / 3) ** 8) - 1) > 1e-3
