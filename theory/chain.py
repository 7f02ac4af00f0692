"""From the sentence in the paper to the number that a program prints: every step, and how it is checked.

Belongs here: reading the steps off evidence and proofs.  Does not belong here: judging (engine.levels), proofs (coq),
drawing them (figures.report).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from theory.coq import code_proofs, model_proofs, proof_files
from theory.engine.claim import Claim
from theory.engine.evidence import Record
from theory.engine.exemption import COMPUTED, text_of

WAYS = {
    "coq": "checked by Coq",
    "exact": "checked exactly, as formulas",
    "points": "compared at points",
    "reading": "read by people",
    "none": "there is none",
}
# What Coq has checked of the formula, by the grade of its proof; that another one fails says nothing of it.
COQ = {
    "definition": "what it is of, by its definition",
    "algebra": "the algebra of its derivation",
    "interval": "the inequalities of its derivation, by enclosures",
}


@dataclass(frozen=True)
class Step:
    """One arrow of the chain: from what to what, one of `WAYS`, and the particulars."""

    start: str
    end: str
    way: str
    how: str

    @property
    def text(self) -> str:
        """For readers."""
        return f"{self.start} → {self.end}: {WAYS[self.way]}" + (f"; {self.how}" if self.how else "")


def chain(claim: Claim, record: Record) -> tuple[Step, ...]:
    """The steps from the paper's sentence to the number."""
    return (
        *((_sentence(record),) if claim.printed is not None else ()),
        _formula(claim, record),
        _code(claim, record),
        *((_number(record),) if claim.computed is not None else ()),
    )


def _sentence(record: Record) -> Step:
    detail = record.levels.get("literal", {}).get("detail", "")
    verdict, _, more = str(detail).partition(": ")
    said = {"same": "the display, read by machine, is the formula", "edited": f"the display, read by machine, after {more}"}
    return Step("sentence", "formula", "exact" if verdict in said else "reading", said.get(verdict) or more)


def _formula(claim: Claim, record: Record) -> Step:
    if model_proofs.proved(claim.id):
        return Step("model", "formula", "coq", "for every number of clients")
    detail = str(record.levels["derived"]["detail"]) if "detail" in record.levels["derived"] else ""
    if how := COQ.get(proof_files.grade_of(claim.id)):
        return Step("model", "formula", "coq", how)
    return Step("model", "formula", "exact", detail)


def _code(claim: Claim, record: Record) -> Step:
    if claim.computed is None:
        return Step("formula", "code", "none", text_of(claim.not_computed, COMPUTED))
    found: Mapping[str, str] = record.levels["computed"].get("code", {})
    if found.get("state") != "equal":
        return Step("formula", "code", "points", found.get("detail", ""))
    proved = code_proofs.proved(claim.id)
    return Step("formula", "code", "coq" if proved else "exact", found["detail"])


def _number(record: Record) -> Step:
    error = record.levels["computed"].get("largest_relative_error")
    points = record.levels["computed"].get("points", 0) + record.levels["computed"].get("extreme_points", 0)
    within = f", within {error:.0e} of exact" if isinstance(error, float) and error > 0 else ""
    return Step("code", "number", "points", f"floats round: {points} points, extremes among them{within}")


def state_of_code(record: Record) -> str:
    """Whether the code computes the formula: "equal", or a key of `theory.engine.ratios.REASONS`; empty where none runs."""
    return str(record.levels.get("computed", {}).get("code", {}).get("state", ""))


def counts(claims: Iterable[Claim], records: Mapping[str, Record]) -> Counter[str]:
    """Claims by `state_of_code`, of those that have code."""
    return Counter(state_of_code(records[c.id]) for c in claims if c.computed is not None)


__all__ = ["WAYS", "Step", "chain", "counts", "state_of_code"]
