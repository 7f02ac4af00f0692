"""Federated learning under privacy: data sets, models, and backends that train many clients at once.

Belongs here: the names of the parts, imported on first use.  Does not belong here: code; closed forms and estimators of
many means are in ``estimators``.
"""

from importlib import import_module

MODULES = (
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
)

__all__ = [*MODULES]


def __getattr__(name):
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
