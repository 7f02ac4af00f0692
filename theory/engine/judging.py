"""Judging one claim: all levels of evidence on it, whatever becomes of each.

Belongs here: the order of the levels, and what an error in one becomes.  Does not belong here: how a level decides
(theory.engine.levels), the verdict rule (evidence.py), running many claims (theory.api).
"""

from __future__ import annotations

import time
import traceback
from typing import Any

from theory.engine import reach
from theory.engine.algebra import TimeLimit
from theory.engine.claim import Claim
from theory.engine.evidence import Record, source_hash
from theory.engine.levels import attacked, computed, derived, independent, integrated, literal, mutated, simulated
from theory.engine.levels.oracle import asked_once
from theory.engine.sampling import DEEP, SEEN


def judge(claim: Claim, root: int, quick: bool = False, deep: bool = False) -> Record:
    """All levels of evidence on a claim. Errors of a level become its status, never an exception.

    `quick` leaves out the simulated and the integrated level; `deep` has simulations on nets see ten times smaller errors.
    """
    start = time.perf_counter()
    record = Record(claim.id, "", root, quick)
    derivation = record.levels["derived"] = _guard(derived.level, claim)
    with asked_once():
        record.levels["computed"] = _guard(computed.level, claim, derivation)
        if not quick:
            record.levels["simulated"] = _guard(simulated.level, claim, root, DEEP if deep else SEEN)
            record.levels["integrated"] = _guard(integrated.level, claim)
        record.levels["attacked"] = _guard(attacked.level, claim, derivation)
        record.mutants = _guard(mutated.level, claim, derivation, record.levels.get("simulated", {}))
    record.levels["independent"] = _guard(independent.level, claim)
    record.levels["literal"] = _guard(literal.level, claim)
    record.source, record.tree = source_hash(claim, record.lemmas), reach.sources().tree
    record.seconds = time.perf_counter() - start
    return record


def judge_exactly(claim: Claim, root: int) -> Record:
    """The two levels that a verdict follows from, for a quick answer; such a record is not kept in a ledger."""
    record = Record(claim.id, "", root, True)
    record.levels["derived"] = _guard(derived.level, claim)
    record.levels["computed"] = _guard(computed.level, claim, record.levels["derived"])
    return record


def _guard(level: Any, *arguments: Any) -> dict[str, Any]:
    try:
        return level(*arguments)
    except TimeLimit as error:
        return {"status": "unknown", "detail": str(error)}
    except Exception as error:  # a defect of one claim must not stop the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
        return {"status": "unknown", "detail": f"{type(error).__name__}: {error} ({place})"}
