"""Claims of "Noise-Aware Algorithm for Heterogeneous Differentially Private Federated Learning" (Robust-HDP).

Belongs here: what that paper prints and how it is judged, one module per subject. Does not belong here: engines.
"""

import theory.robusthdp.variance  # noqa: F401
