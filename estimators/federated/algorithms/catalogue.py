"""Algorithms by name, each loaded when it is asked for: an algorithm may itself run others by name.

Belongs here: which module each algorithm is in, and `make`.  Does not belong here: code of algorithms (a module per
family).
"""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any

from estimators.federated.kinds import typed

__all__ = ["HOMES", "made", "make"]

HOMES = {
    "adaped": "AdaPeD DPAdaPeD",
    "basic": "FedAvg Local",
    "clustered": "IFCA ClusteredMRMTL",
    "distillation": "FederatedMutualLearning QuPeD",
    "fedem": "FedEM",
    "fedhdp": "DPFedAvg FedHDP FeO2",
    "fine_tuning": "FedAvgPlus",
    "mean_regularised": "MRMTL Ditto FineTuning Mocha",
    "noise_aware": "PFA MinimumEps OracleWeights RobustHDP RowWeights UniformWeights WeiAvg",
    "per_fedavg": "PerFedAvg",
    "pfedme": "PFedMe",
    "tuned": "Tuned",
}
"""Modules of this package and the names of their algorithms."""
HOME = {name: module for module, names in HOMES.items() for name in names.split()}


@typed
def make(name: str, settings: Any) -> Any:
    """Algorithm of this name with these settings.

    Raises ValueError naming an unknown algorithm or setting, with the known ones.

    >>> make("Local", {"learning_rate": 0.1}).learning_rate
    0.1
    """
    if not isinstance(settings, dict):
        raise ValueError(f"settings must be a dict from names to values, got a {type(settings).__name__}")
    if not isinstance(name, str) or name not in HOME:
        raise ValueError(f"algorithm must be one of {', '.join(sorted(HOME))}, got {name!r}")
    kind = getattr(import_module(f"estimators.federated.algorithms.{HOME[name]}"), name)
    return made(kind, settings)


@typed
def made(kind: type, settings: dict[str, Any]) -> Any:
    """An algorithm of a class, ours or the user's own, with these settings.

    Raises ValueError naming an unknown setting, with the known ones.
    """
    known = {field.name: field for field in fields(kind)}
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{kind.__name__} has no setting {setting!r}; it has {', '.join(sorted(known))}")
    try:
        return kind(**settings)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None
