"""The level *literal*: the paper's display, read by machine, is the printed formula, or differs by declared edits only.

Belongs here: the record.  Does not belong here: reading and comparing (theory.engine.literal).
"""

from __future__ import annotations

from typing import Any

from theory.engine.claim import Claim
from theory.engine.literal import literal


def level(claim: Claim) -> dict[str, Any]:
    """What the paper's text says of the printed formula."""
    if claim.printed is None:
        return {"status": "not applicable", "detail": "the paper prints no formula"}
    found = literal(claim)
    status = {"same": "pass", "edited": "pass", "unread": "not applicable"}.get(found.verdict, "unknown")
    return {"status": status, "detail": f"{found.verdict}: {found.detail}" if found.detail else found.verdict}
