"""Exact means of quadratic statistics of normals: a cubature of degree three, through the kernels that also simulate.

Belongs here: the design, and which experiments it integrates exactly.  Does not belong here: anything random; kernels.

The 2 D points +-sqrt(D) e_i with equal weights have the moments of D independent standard normals up to degree three, so the
mean over them of a polynomial of degree three or less is its expectation, up to rounding (formula II of Stroud and Secrest
1963, "Approximate integration formulas for certain spherically symmetric regions", Math. Comp. 17:105-135).  No draw is
made, and nothing is said of the law beyond its first three moments.  Kernels and model are a simulation's, and so are their
errors: only chance is out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .experiments import ClientsExperiment, Experiment, RegressionExperiment
from .moments import Moments

QUADRATIC = ClientsExperiment, RegressionExperiment
"""Experiments whose statistics are polynomials of degree two in their normals."""


class Design(NamedTuple):
    """A place in the design, from which a kernel takes points as from a generator.

    Parameters
    ----------
    block : int array, shape (1,)
        Number of the next block of points, changed by taking them.
    """

    block: np.ndarray


class NotQuadratic(Exception):
    """The statistics of an experiment are not known to be quadratic in its normals."""


def integrate(experiment: Experiment) -> Moments:
    """Moments whose means are the exact expectations of an experiment's statistics, up to rounding.

    Their scatter is that over the design's points; it is no measure of error, as there is none.

    Parameters
    ----------
    experiment : ClientsExperiment or RegressionExperiment

    Raises
    ------
    NotQuadratic
        For any other experiment.

    Examples
    --------
    The mean of 4 messages, each of variance 3, has mean square error 1.25 as an estimate of client 0:

    >>> error = [-1, 0, 0, 1]
    >>> mean = ClientsExperiment(1.0, 1.0, 1.0, 0, np.full(4, 0.25), error, error)
    >>> round(float(integrate(mean).mean[0]), 12)
    1.25
    """
    if not isinstance(experiment, QUADRATIC):
        raise NotQuadratic(f"the statistics of a {type(experiment).__name__} are not known to be quadratic in normals")
    return experiment.kernel_call(Design(np.zeros(1, np.int64)), max(2 * len(experiment.net_order()), 1))  # pyright: ignore


__all__ = ["Design", "NotQuadratic", "integrate"]
