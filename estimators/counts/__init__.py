"""Clients with counts: successes out of trials, events over exposures, and their tallies.

Belongs here: ``beta_binomial`` and ``gamma_poisson``, with covariates in ``count_regression`` (averaged over what is
unknown in ``averaged_regression``), what those without covariates share (``conjugate``), sums over clients (``tallies``).
Does not belong here: a prior of any shape (``npmle``), the papers' moments (``closed_forms.bernoulli``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import averaged_regression, beta_binomial, conjugate, count_regression, gamma_poisson, tallies

__all__ = ["averaged_regression", "beta_binomial", "conjugate", "count_regression", "gamma_poisson", "tallies"]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
