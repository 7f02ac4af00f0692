"""The law of the variance between clients over which models average unless they are told otherwise.

With t that variance over the sampling variance (the harmonic mean of the clients'), sqrt(4/(4 + t)) is uniform on (0, 1):
the density of t is proportional to (4 + t)^(-3/2), after Strawderman (1971, Ann. Math. Statist. 42:385).  One law for means,
trials and exposures, chosen by simulation (``tests/bench/DEFAULTS.md``, which says what private fits do);
``regression.covariance_average`` has it for covariances.

Belongs here: that law.  Does not belong here: integrals over it, which are the models'.
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import nonnegative

__all__ = ["EDGE", "POWER", "log_density"]

EDGE, POWER = 4.0, 1.5


def log_density(t: ArrayLike) -> Floats:
    """Return the log density of t >= 0, the variance between clients over the sampling variance, up to a constant.

    >>> log_density(np.array([0.0, 12.0])).round(4).tolist()
    [-2.0794, -4.1589]
    """
    return -POWER * np.log(EDGE + nonnegative("t", t))
