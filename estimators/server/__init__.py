"""The server's side of a federation: whom to weigh how much, and how far clients differ.

Belongs here: ``server_weights``, ``robust_pca`` (noise of each client), ``variance_components``, ``strengths`` (how much
to personalise), ``federated_means`` (all of it as one model). Does not belong here: training (``federated``), the papers'
closed forms (``closed_forms.aggregation``, ``closed_forms.personalization``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import federated_means, robust_pca, server_weights, strengths, variance_components

__all__ = ["federated_means", "robust_pca", "server_weights", "strengths", "variance_components"]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
