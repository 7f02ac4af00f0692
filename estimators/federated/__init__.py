"""Federated learning under privacy: data sets, models, and backends that train many clients at once.

Belongs here: the names of the parts, imported on first use.  Does not belong here: code; closed forms and estimators of
many means are in ``estimators``.
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import (
        algorithms,
        audit,
        backend,
        data,
        jax_backend,
        models,
        numpy_backend,
        pairs,
        predictions,
        privacy,
        reference_backend,
        schedule,
        task,
        training,
    )

__all__ = [
    "algorithms",
    "audit",
    "backend",
    "data",
    "jax_backend",
    "models",
    "numpy_backend",
    "pairs",
    "predictions",
    "privacy",
    "reference_backend",
    "schedule",
    "task",
    "training",
]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
