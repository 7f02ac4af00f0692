"""Compiled loop of ``surfaces``: values of Chebyshev polynomials of two variables at very many places.

Belongs here: that loop, with everything it calls, because numba's on-disk cache does not notice changes in other files.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def chebyshev_surface(coefficients, u, v, rows, out):
    """Set out[rows[i]] to the sum of coefficients[p, q] T_p(u_i) T_q(v_i), by Clenshaw's recurrence in both."""
    across, along = coefficients.shape
    inner = np.empty(across)
    for i in range(rows.size):
        for p in range(across):
            one, two = 0.0, 0.0
            for q in range(along - 1, 0, -1):
                one, two = coefficients[p, q] + 2 * v[i] * one - two, one
            inner[p] = coefficients[p, 0] + v[i] * one - two
        one, two = 0.0, 0.0
        for p in range(across - 1, 0, -1):
            one, two = inner[p] + 2 * u[i] * one - two, one
        out[rows[i]] = inner[0] + u[i] * one - two
