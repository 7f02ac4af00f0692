"""Claims of Aldaghri, Mahdavifar and Beirami, "Federated Learning with Heterogeneous Differential Privacy".

Model (A.1): phi_j = phi + p_j, phi_hat_j = phi_j + e_j, psi_j = phi_hat_j + l_j with variances tau2, alpha2 and,
in level i, N_i gamma2_i; flat prior on phi.  sigma2_c = alpha2 + tau2, s_i = sigma2_c + N_i gamma2_i.

Belongs here: what that paper prints and how it is judged, one module per subject. Does not belong here: engines.
"""

from theory.engine.paper import Paper

PAPER = Paper(
    key="fedhdp",
    order=1,
    citation="Aldaghri, Mahdavifar, Beirami. Federated Learning with Heterogeneous Differential Privacy, arXiv 2110.15252",
    package=__name__,
    modules=(
        "setup",
        "privacy",
        "server",
        "ratio",
        "gaps",
        "estimates",
        "strength",
        "limits",
        "theorems",
        "trade_off",
        "opting_out",
        "levels_server",
        "levels",
        "levels_strength",
        "algorithms",
        "tables",
    ),
)
