"""Federated algorithms, each a frozen dataclass of its settings with the methods of ``training.Algorithm``.

Where the ledger corrects a printed line, the corrected line runs; ``as_printed=True`` runs the printed one.

Belongs here: the names, imported on first use, and `make`.  Does not belong here: code of algorithms (a module per family),
noise calibration and guarantees (``estimators.federated.privacy``).
"""

from dataclasses import fields
from typing import TYPE_CHECKING

from estimators.system.lazy import attach

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

__all__ = [
    "IFCA", "MRMTL", "PFA", "AdaPeD", "ClusteredMRMTL", "DPAdaPeD", "DPFedAvg", "Ditto", "FeO2", "FedAvg", "FedAvgPlus",
    "FedEM", "FedHDP", "FederatedMutualLearning", "FineTuning", "Local", "MinimumEps", "Mocha", "OracleWeights", "PFedMe",
    "PerFedAvg", "QuPeD", "RobustHDP", "RowWeights", "Tuned", "UniformWeights", "WeiAvg", "make",
]  # fmt: skip
NAMES = tuple(name for name in __all__ if name != "make")

__getattr__, __dir__ = attach(
    __name__,
    {
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
    },
)


def make(name, settings):
    """Algorithm of this name with these settings.

    Raises ValueError naming an unknown algorithm or setting, with the known ones.

    >>> make("Local", {"learning_rate": 0.1}).learning_rate
    0.1
    """
    if not isinstance(settings, dict):
        raise ValueError(f"settings must be a dict from names to values, got a {type(settings).__name__}")
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"algorithm must be one of {', '.join(sorted(NAMES))}, got {name!r}")
    kind = __getattr__(name)
    known = {field.name: field for field in fields(kind)}
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{name} has no setting {setting!r}; it has {', '.join(sorted(known))}")
    try:
        return kind(**settings)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None
