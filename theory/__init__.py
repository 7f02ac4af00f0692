"""What is true: models, derivations, claims of papers, and their verification (SymPy).

Belongs here: the names that users import. Does not belong here: code.

>>> from theory import evaluate
>>> evaluate("mrmtl:thm6.3", sigma2=1, n=10, sigma2_dp=0, tau2=0.1)["derived"]
1
"""

from theory.api import evaluate, verify
from theory.box import box
from theory.engine.registry import claims, find

__all__ = ["box", "claims", "evaluate", "find", "verify"]
