"""How strong a verdict is: proved from the model for every size, or as algebra, or derived, or judged on sizes or instances.

Belongs here: the grades, and reading them off a claim and its proof.  Does not belong here: verdicts (engine/evidence.py),
proofs (coq).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from theory.coq import model_proofs, proof_files
from theory.engine.claim import Claim

GRADES = {
    "model": "proved in Coq from the model, for every number of clients",
    "definition": "proved in Coq of what the formula is of, by its definition: a law, an integral, a step, a count",
    "algebra": "derived from the model; its algebra is proved in Coq",
    "interval": "derived from the model; its inequalities are proved in Coq by enclosures (coq-interval)",
    "counterexample": "derived from the model; Coq has proved that the printed formula fails, and nothing of the right one",
    "derived": "derived from the model, for all values of its letters",
    "sizes": "derived for lists of a few entries",
    "instances": "judged on instances",
}


@dataclass(frozen=True)
class Strength:
    """A grade of `GRADES`, and what it is limited to, in words (empty where nothing limits it)."""

    grade: str
    limits: str = ""

    @property
    def text(self) -> str:
        """For readers."""
        return GRADES[self.grade] + (f" ({self.limits})" if self.limits else "")

    @property
    def short(self) -> str:
        """For tables."""
        return f"{self.grade} {self.limits}".strip() if self.grade in ("sizes", "instances") else self.grade


def strength(claim: Claim) -> Strength:
    """The grade of a claim: what limits it most counts.

    >>> from theory import find
    >>> strength(find("fedhdp:lemma1")).grade in GRADES
    True
    """
    instances = [f"{v.name} = {', '.join(map(str, v.choices))}" for v in claim.variables if v.instances]
    lists = {max(v.lengths) for v in claim.variables if v.lengths is not None}
    if claim.id in model_proofs.ANY and model_proofs.proved(claim.id):
        return Strength("model")  # by hand for every number of levels or silos, whichever of them it is about
    if instances:
        return Strength("instances", "; ".join(instances))
    if lists:
        return Strength("sizes", f"up to {max(lists)}")
    if model_proofs.proved(claim.id):
        return Strength("model")
    return Strength(proof_files.grade_of(claim.id) or "derived")


def counts(claims: Iterable[Claim]) -> dict[str, int]:
    """Claims of each grade."""
    found = Counter(strength(c).grade for c in claims)
    return {grade: found[grade] for grade in GRADES}


__all__ = ["GRADES", "Strength", "counts", "strength"]
