"""Claims of "Noise-Aware Algorithm for Heterogeneous Differentially Private Federated Learning" (Robust-HDP).

Belongs here: what that paper prints and how it is judged, one module per subject. Does not belong here: engines.
"""

from theory.engine.paper import Paper

PAPER = Paper(
    key="robusthdp",
    order=4,
    citation=(
        """Noise-Aware Algorithm for Heterogeneous Differentially Private Federated Learning (Robust-HDP), submission text
        without its appendix"""
    ),
    package=__name__,
    modules=(
        "mechanism",
        "mean",
        "variance",
        "update",
        "noise_scale",
        "weights",
        "other_weights",
        "estimate",
        "small_error",
        "algorithm",
        "table",
        "separation",
        "guarantee",
        "theorem2",
        "convergence",
        "discussion",
        "rate",
    ),
)
