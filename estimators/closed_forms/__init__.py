"""The papers' formulas as vectorised functions of plain numbers, accurate at extremes; claims of ``theory`` judge them.

Belongs here: ``aggregation``, ``personalization``, ``mean_regularized`` (server weights, strengths, risks, gaps),
``gaussian``, ``bernoulli``, ``mixture``, ``regression`` (exact risks, unbiased moments, EM), ``quantization``,
``priors`` and ``distillation`` (losses and penalties with gradients), ``convergence`` (of federated averaging),
``intervals`` (that hold whatever the prior is). Does not belong here: fitted models, privacy (``accounting``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import (
        aggregation,
        bernoulli,
        convergence,
        distillation,
        gaussian,
        intervals,
        mean_regularized,
        mixture,
        personalization,
        priors,
        quantization,
        regression,
    )

__all__ = [
    "aggregation",
    "bernoulli",
    "convergence",
    "distillation",
    "gaussian",
    "intervals",
    "mean_regularized",
    "mixture",
    "personalization",
    "priors",
    "quantization",
    "regression",
]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
