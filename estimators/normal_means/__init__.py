"""Clients with one normal estimate each, whose variances are known: priors, posteriors, and tallies for many clients.

Belongs here: ``gaussian_means`` (normal prior) with ``tau2_likelihood`` (its variance) and ``normal_posteriors`` (what
clients get from it), ``meta_regression`` (its covariates), ``prior_inference`` (intervals and tests of it), ``variances``
and ``sample_means`` (variances that few rows estimate), ``point_normal`` (some clients are the centre) with
``spike_average`` (its average over priors), ``mixture_means`` (groups) with ``mixture_likelihood`` (the best such prior) and
``mixture_sampling`` (draws of such priors given the data), ``streaming`` with ``streaming_passes`` and ``streaming_prior``
(more clients than memory).
Does not belong here: a prior of any shape (``npmle``), closed-form risks (``closed_forms.gaussian``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import (
        gaussian_means,
        meta_regression,
        mixture_likelihood,
        mixture_means,
        mixture_sampling,
        normal_posteriors,
        point_normal,
        prior_inference,
        sample_means,
        spike_average,
        streaming,
        streaming_passes,
        streaming_prior,
        tau2_likelihood,
        variances,
    )

__all__ = [
    "gaussian_means",
    "meta_regression",
    "mixture_likelihood",
    "mixture_means",
    "mixture_sampling",
    "normal_posteriors",
    "point_normal",
    "prior_inference",
    "sample_means",
    "spike_average",
    "streaming",
    "streaming_passes",
    "streaming_prior",
    "tau2_likelihood",
    "variances",
]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
