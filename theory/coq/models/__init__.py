"""Which model each claim is about, one module per paper; importing this package names them all.

Belongs here: functions of a claim's variables that name clients, estimates and what is decided (model.py), and whether the
claim says the same in its field `model`. Does not belong here: formulas.
"""

from __future__ import annotations

from collections.abc import Iterable

from theory.coq.model import MODELS, Decision
from theory.coq.models import fedhdp, feo2, generative, mrmtl, robusthdp
from theory.engine.claim import Claim
from theory.engine.domain import symbols_of

NAMED = MODELS  # by the modules above


def decided(claim: Claim) -> tuple[str, ...]:
    """What the claim's model decides, as its field `model` has it: in all cases, each once; empty without a model.

    >>> from theory import find
    >>> decided(find("fedhdp:lemma2:weights")), decided(find("fedhdp:lemma2:cov"))
    (('BestWeights',), ('Value(Server)', 'LeastCentre'))
    """
    if claim.id not in MODELS:
        return ()
    cases = (claim.call(MODELS[claim.id], symbols_of(claim.variables, case)) or () for case in claim.cases())
    return tuple(dict.fromkeys(_name(decision) for decisions in cases for decision in decisions))


def _name(decision: Decision) -> str:
    risks = ", ".join(type(risk).__name__ for risk in getattr(decision, "risks", ()))
    return type(decision).__name__ + (f"({risks})" if risks else "")


def unlike(claims: Iterable[Claim]) -> list[str]:
    """Claims whose field `model` is not what their model decides, each with the mend."""
    found = ((c, decided(c)) for c in claims)
    return [f"{c.id}: write model={names!r}" if names else f"{c.id}: no model of it is in theory/coq/models; leave model out"
            for c, names in found if names != c.model]  # fmt: skip


__all__ = ["NAMED", "decided", "fedhdp", "feo2", "generative", "mrmtl", "robusthdp", "unlike"]
