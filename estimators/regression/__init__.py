"""Clients with a regression each: coefficients around common ones.

Belongs here: ``linear_clients`` and ``logistic_clients``, what both share (``coefficient_model``, ``covariances``), the
average over covariances of the former (``covariance_average``), the integrals of the latter (``gauss_hermite``), both with
groups of clients (``nested_linear``, ``nested_logistic``), their data (``client_rows``), the papers' gradient algorithms
(``gradient_personalization``).
Does not belong here: closed forms of one regression (``closed_forms.regression``) and the papers' losses
(``closed_forms.priors``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import (
        client_rows,
        coefficient_model,
        covariance_average,
        covariances,
        gauss_hermite,
        gradient_personalization,
        linear_clients,
        logistic_clients,
        nested_linear,
        nested_logistic,
    )

__all__ = [
    "client_rows",
    "coefficient_model",
    "covariance_average",
    "covariances",
    "gauss_hermite",
    "gradient_personalization",
    "linear_clients",
    "logistic_clients",
    "nested_linear",
    "nested_logistic",
]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
