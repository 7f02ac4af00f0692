"""What is true: models, derivations, claims of papers, and their verification (SymPy).

Belongs here: the names that users import. Does not belong here: code.

>>> from theory import evaluate
>>> evaluate("mrmtl:thm6.3", sigma2=1, n=10, sigma2_dp=0, tau2=0.1)["derived"]
1
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from .api import evaluate, verify
    from .boxes import box
    from .engine.registry import claims, find

__all__ = ["box", "claims", "evaluate", "find", "verify"]

__getattr__, __dir__ = attach(__name__, {"api": "evaluate verify", "boxes": "box", "engine.registry": "claims find"})
