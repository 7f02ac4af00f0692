"""Claims of Liu, Hu, Wu and Smith, "On Privacy and Personalization in Cross-Silo Federated Learning".

Belongs here: what Section 6 and Appendix E of that paper print and how it is judged, one module per subject,
in the paper's order; the model is in model.py. Does not belong here: engines.
"""

from theory.mrmtl import setup, optimum, spectrum, silos, procedures, runs, tuning  # isort: skip (the paper's order)

__all__ = ["optimum", "procedures", "runs", "setup", "silos", "spectrum", "tuning"]
