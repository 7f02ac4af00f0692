"""Claims of Liu, Hu, Wu and Smith, "On Privacy and Personalization in Cross-Silo Federated Learning".

Belongs here: what Section 6 and Appendix E of that paper print and how it is judged, one module per subject,
in the paper's order; the model is in model.py. Does not belong here: engines.
"""

from theory.engine.paper import Paper

PAPER = Paper(
    key="mrmtl",
    order=3,
    citation=(
        "Liu, Hu, Wu, Smith. On Privacy and Personalization in Cross-Silo Federated Learning, NeurIPS 2022, arXiv 2206.07902"
    ),
    package=__name__,
    modules=(
        "setup",
        "optimum",
        "gaps",
        "observations",
        "spectrum",
        "silos",
        "silo_strengths",
        "trends",
        "mmse",
        "silo_algorithm",
        "silo_joint",
        "privacy",
        "gaussian_noise",
        "accounting",
        "subsampling",
        "selection",
        "runs",
        "tuning",
        "tuning_poisson",
        "tuning_cost",
        "budgets",
        "procedures",
        "datasets",
    ),
)
