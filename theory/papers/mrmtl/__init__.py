"""Claims of Liu, Hu, Wu and Smith, "On Privacy and Personalization in Cross-Silo Federated Learning".

Belongs here: what Section 6 and Appendix E of that paper print and how it is judged, one module per subject,
in the paper's order; the model is in model.py. Does not belong here: engines.
"""

from theory.papers.mrmtl import (  # isort: skip (the paper's order)
    setup,
    optimum,
    spectrum,
    silos,
    mmse,
    privacy,
    gaussian_noise,
    accounting,
    selection,
    tuning,
    runs,
    procedures,
)

__all__ = [
    "accounting",
    "gaussian_noise",
    "mmse",
    "optimum",
    "privacy",
    "procedures",
    "runs",
    "selection",
    "setup",
    "silos",
    "spectrum",
    "tuning",
]
