"""Clients with one normal estimate each, whose variances are known: priors, posteriors, and tallies for many clients.

Belongs here: ``gaussian_means`` (normal prior), ``point_normal`` (some clients are the centre), ``spike_average`` (its
average over priors), ``mixture_means`` (groups), ``streaming`` with ``streaming_passes`` and ``streaming_prior`` (more
clients than memory). Does not belong here: a prior of any shape (``npmle``), closed-form risks (``closed_forms.gaussian``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import (
        gaussian_means,
        mixture_means,
        point_normal,
        spike_average,
        streaming,
        streaming_passes,
        streaming_prior,
    )

__all__ = [
    "gaussian_means",
    "mixture_means",
    "point_normal",
    "spike_average",
    "streaming",
    "streaming_passes",
    "streaming_prior",
]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
