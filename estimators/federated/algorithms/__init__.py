"""Federated algorithms, each a frozen dataclass of its settings, written as the pure parts of ``parts``.

Where the ledger corrects a printed line, the corrected line runs; ``as_printed=True`` runs the printed one.

Belongs here: the names, imported on first use.  Does not belong here: code of algorithms (a module per family;
``catalogue`` makes one by name), noise calibration and guarantees (``estimators.federated.privacy``).
"""

from typing import TYPE_CHECKING

from estimators.federated.algorithms.catalogue import HOMES, make
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
__getattr__, __dir__ = attach(__name__, HOMES)
