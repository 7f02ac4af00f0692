"""Claims of "Noise-Aware Algorithm for Heterogeneous Differentially Private Federated Learning" (Robust-HDP).

Belongs here: what that paper prints and how it is judged, one module per subject. Does not belong here: engines.
"""

from theory.robusthdp import estimate, algorithm, convergence, table  # isort: skip (the paper's order)

__all__ = ["algorithm", "convergence", "estimate", "table"]
