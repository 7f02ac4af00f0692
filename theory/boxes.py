"""A claim as a box in a notebook, judged at the moment it is shown.

Belongs here: the box. Does not belong here: judging (judging.py), the pages of the report (describe.py).
"""

from __future__ import annotations

from theory.api import quick_record
from theory.engine.domain import case_of
from theory.engine.evidence import Record
from theory.engine.notation import latex
from theory.engine.registry import find


class Box:
    """A claim with the verdict that follows from evidence made now: exact algebra and an oracle by another route.

    In a notebook the last line `box("mrmtl:thm6.3")` of a cell shows it.
    """

    def __init__(self, claim_id: str):
        self.claim = find(claim_id)
        self.record: Record = quick_record(claim_id)

    @property
    def verdict(self) -> str:
        """One of holds, holds under, misprint, wrong, open."""
        return self.record.verdict()

    def _said(self) -> str:
        """The verdict in words."""
        if self.verdict == "holds under":
            return f"holds under {self.claim.condition_text}"
        if self.verdict in ("misprint", "wrong") and self.claim.corrected_text:
            return f"{self.verdict}; right is: {self.claim.corrected_text.removesuffix('.')}"
        return self.verdict

    def _repr_markdown_(self) -> str:
        claim = self.claim
        levels = self.record.levels
        lines = [f"**Claim `{claim.id}`** — {claim.title} (*{claim.place}*)", "", claim.statement]
        if claim.latex:
            lines += ["", f"$${claim.latex}$$"]
        if self.verdict in ("misprint", "wrong") and claim.corrected is not None:
            # Of several cases, one in which the printed formula fails.
            at = claim.point(levels["derived"]["counterexample"]["at"])
            right = claim.symbolic(claim.corrected, case_of(claim.variables, at))
            lines += ["", f"Right: $${latex(right)}$$"]
        checked = "; ".join(f"{name}: {levels[name]['detail']}" for name in ("derived", "computed") if name in levels)
        lines += ["", f"**Verdict: {self._said()}.** Judged just now; {checked}."]
        return "\n".join(f"> {line}" if line else ">" for line in lines)

    def __repr__(self) -> str:
        return f"{self.claim.id}: {self.claim.title}\nverdict: {self._said()}"


def box(claim_id: str) -> Box:
    """A claim as a box, judged now.

    Parameters
    ----------
    claim_id : permanent id such as "mrmtl:thm6.3".

    Raises
    ------
    UnknownClaim

    Examples
    --------
    >>> box("feo2:gamma-prop").verdict
    'holds'
    """
    return Box(claim_id)


__all__ = ["Box", "box"]
