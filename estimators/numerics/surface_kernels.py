"""Compiled loop of ``surfaces``: values of Chebyshev polynomials of two variables at very many places.

Belongs here: that loop, with everything it calls, because numba's on-disk cache does not notice changes in other files.
"""

import numpy as np
from numba import njit

WIDTH = 128  # places at a time, for vector units


@njit(nogil=True, cache=True)
def chebyshev_surface(coefficients, u, v, rows, out):
    """Set out[rows[i]] to the sum of coefficients[p, q] T_p(u_i) T_q(v_i), by Clenshaw's recurrence in both."""
    across, along = coefficients.shape
    one, two, twice = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    outer, before = np.empty(WIDTH), np.empty(WIDTH)
    for start in range(0, rows.size, WIDTH):
        size = min(WIDTH, rows.size - start)
        for i in range(size):
            twice[i] = 2 * v[start + i]
        outer[:], before[:] = 0.0, 0.0
        for p in range(across - 1, -1, -1):
            one[:], two[:] = 0.0, 0.0
            q = along - 1
            while q > 1:  # two at a time, so that nothing is copied
                c, d = coefficients[p, q], coefficients[p, q - 1]
                for i in range(size):
                    two[i] = c + twice[i] * one[i] - two[i]
                    one[i] = d + twice[i] * two[i] - one[i]
                q -= 2
            if q == 1:
                c = coefficients[p, 1]
                for i in range(size):
                    two[i] = c + twice[i] * one[i] - two[i]
                one, two = two, one
            c, factor = coefficients[p, 0], 2.0 if p else 1.0
            for i in range(size):
                inner = c + v[start + i] * one[i] - two[i]
                new = inner + factor * u[start + i] * outer[i] - before[i]
                before[i] = outer[i]
                outer[i] = new
        for i in range(size):
            out[rows[start + i]] = outer[i]
