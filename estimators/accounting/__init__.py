"""Differential privacy in numbers: what a release costs, what several cost together, and the noise that a budget allows.

Belongs here: ``privacy`` (divergences and the curves of single mechanisms), ``mechanisms`` (sensitivities, calibration and
releases of real numbers), ``subsampling`` (noise on random batches), ``budget`` (guarantees that add up), ``tuning`` (the
best of several runs), ``dpsgd`` and ``adaped`` (the papers' algorithms). Does not belong here: a client's reports
(``private``), training (``federated.privacy``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from .budget import (
        Budget,
        Guarantee,
        calibrate_noise,
        composed_gaussian_epsilon,
        composed_gaussian_sigma,
        total_epsilon,
    )

HOMES = {"budget": "Budget Guarantee calibrate_noise composed_gaussian_epsilon composed_gaussian_sigma total_epsilon"}

__all__ = [
    "Budget",
    "Guarantee",
    "calibrate_noise",
    "composed_gaussian_epsilon",
    "composed_gaussian_sigma",
    "total_epsilon",
]
__getattr__, __dir__ = attach(__name__, HOMES)
