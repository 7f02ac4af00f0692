"""Which model each claim is about, one module per paper; importing this package names them all.

Belongs here: functions of a claim's variables that name clients, estimates and what is decided (model.py). Does not belong
here: formulas. These may move into the claims themselves.
"""

from theory.coq.models import fedhdp, feo2

__all__ = ["fedhdp", "feo2"]
