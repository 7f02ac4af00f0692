"""What claims' formulas are of, one module per paper or kind of object; importing this package names them all.

Belongs here: Coq propositions about definitions of Objects.v and Model.v, and the lines that prove them. Does not belong
here: formulas and hypotheses, which come from the claim (defined.py); definitions and lemmas (theory/proofs).
"""

from __future__ import annotations

from theory.coq.defined import OBJECTS
from theory.coq.objects import counts, generative, normals, outputs, shares, tables

__all__ = ["OBJECTS", "counts", "generative", "normals", "outputs", "shares", "tables"]
