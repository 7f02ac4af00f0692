"""Claims of "Noise-Aware Algorithm for Heterogeneous Differentially Private Federated Learning" (Robust-HDP).

Belongs here: what that paper prints and how it is judged, one module per subject. Does not belong here: engines.
"""

from theory.papers.robusthdp import (  # isort: skip (the paper's order)
    mechanism,
    variance,
    noise_scale,
    weights,
    estimate,
    algorithm,
    table,
    guarantee,
    convergence,
)

__all__ = [
    "algorithm",
    "convergence",
    "estimate",
    "guarantee",
    "mechanism",
    "noise_scale",
    "table",
    "variance",
    "weights",
]
