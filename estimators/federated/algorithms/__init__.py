"""Federated algorithms, each a frozen dataclass of its settings with the methods of ``training.Algorithm``.

Where the ledger corrects a printed line, the corrected line runs; ``as_printed=True`` runs the printed one.

Belongs here: the names, imported on first use, and `make`.  Does not belong here: code of algorithms (a module per family),
noise calibration and guarantees (``estimators.federated.privacy``).
"""

from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .adaped import AdaPeD, DPAdaPeD
    from .basic import FedAvg, Local
    from .clustered import IFCA, ClusteredMRMTL
    from .distillation import FederatedMutualLearning, QuPeD
    from .fedem import FedEM
    from .fedhdp import DPFedAvg, FedHDP, FeO2
    from .fine_tuning import FedAvgPlus
    from .mean_regularised import MRMTL, Ditto, FineTuning, Mocha
    from .noise_aware import PFA, MinimumEps, OracleWeights, RobustHDP, RowWeights, UniformWeights, WeiAvg
    from .per_fedavg import PerFedAvg
    from .pfedme import PFedMe
    from .tuned import Tuned

NAMES = {
    "AdaPeD": "adaped",
    "ClusteredMRMTL": "clustered",
    "DPAdaPeD": "adaped",
    "DPFedAvg": "fedhdp",
    "Ditto": "mean_regularised",
    "FeO2": "fedhdp",
    "FedAvg": "basic",
    "FedAvgPlus": "fine_tuning",
    "FedEM": "fedem",
    "FedHDP": "fedhdp",
    "FederatedMutualLearning": "distillation",
    "FineTuning": "mean_regularised",
    "IFCA": "clustered",
    "Local": "basic",
    "MRMTL": "mean_regularised",
    "MinimumEps": "noise_aware",
    "Mocha": "mean_regularised",
    "OracleWeights": "noise_aware",
    "PFA": "noise_aware",
    "PFedMe": "pfedme",
    "PerFedAvg": "per_fedavg",
    "QuPeD": "distillation",
    "RobustHDP": "noise_aware",
    "RowWeights": "noise_aware",
    "Tuned": "tuned",
    "UniformWeights": "noise_aware",
    "WeiAvg": "noise_aware",
}

__all__ = [
    "IFCA",
    "MRMTL",
    "PFA",
    "AdaPeD",
    "ClusteredMRMTL",
    "DPAdaPeD",
    "DPFedAvg",
    "Ditto",
    "FeO2",
    "FedAvg",
    "FedAvgPlus",
    "FedEM",
    "FedHDP",
    "FederatedMutualLearning",
    "FineTuning",
    "Local",
    "MinimumEps",
    "Mocha",
    "OracleWeights",
    "PFedMe",
    "PerFedAvg",
    "QuPeD",
    "RobustHDP",
    "RowWeights",
    "Tuned",
    "UniformWeights",
    "WeiAvg",
    "make",
]


def __getattr__(name):
    if name in NAMES:
        return getattr(import_module(f"{__name__}.{NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})


def make(name, settings):
    """Algorithm of this name with these settings.

    Raises ValueError naming an unknown algorithm or setting, with the known ones.

    >>> make("Local", {"learning_rate": 0.1}).learning_rate
    0.1
    """
    if name not in NAMES:
        raise ValueError(f"algorithm must be one of {', '.join(sorted(NAMES))}, got {name!r}")
    kind = getattr(import_module(f"{__name__}.{NAMES[name]}"), name)
    known = {field.name: field for field in fields(kind)}
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{name} has no setting {setting!r}; it has {', '.join(sorted(known))}")
    try:
        return kind(**settings)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None
