"""The level *independent*: what two judges share is machinery, packing of arguments, or declared with a reason.

Belongs here: the record.  Does not belong here: what judges reach and may share (independence.py).
"""

from __future__ import annotations

from typing import Any

from theory.engine import independence
from theory.engine.claim import Claim

SHOWN = 3  # of what makes judges dependent


def level(claim: Claim) -> dict[str, Any]:
    """What the code of the judges says of them."""
    found = independence.problems(claim)
    if found:
        return {
            "status": "unknown",
            "detail": "the judges are not independent: " + "; ".join(found[:SHOWN]),
            "found": len(found),
        }
    declared = "".join(f"; they share {name}: {why}" for name, why in claim.shares.items())
    return {"status": "pass", "detail": f"judges share machinery and packing of arguments only{declared}"}
