"""Coq texts of claims, or why there is none, generated in worker processes that order terms alike.

The theorems state what the derivation gives before simplification ("model"); where that is too large, its simplified result
("simplified"); with functions ("functions") or inequalities on boxes ("boxes"), or what the formula is of ("defined").

Belongs here: which generator a mode asks, time limits, fingerprints of what a text follows from.  Does not belong here:
statements (generator.py, functions.py, boxes.py, defined.py), files (proof_files.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import fields
from threading import Event
from typing import NamedTuple

from estimators.system.processes import finished, worker_pool
from theory.coq import boxes, defined, functions, terms
from theory.coq import generator as coq
from theory.coq.objects import OBJECTS
from theory.coq.proof_files import MODES, NOT_ALGEBRAIC, NOT_DECIDED, category
from theory.coq.terms import SAME_TEXT
from theory.engine import reach
from theory.engine.algebra import TimeLimit, leave_unsimplified, time_limit
from theory.engine.claim import Claim
from theory.engine.evidence import with_lemmas
from theory.engine.registry import find

LIBRARIES = {"model": "Positive", "simplified": "Positive", "functions": functions.LIBRARY}
CHECK_SECONDS = 600.0  # of processor time, for a text that is on file; one that is new gets less (MODES)
# What of a claim neither a statement nor a script depends on.
UNSTATED = ("oracle", "computed", "simulate", "not_computed", "not_simulated", "remark", "related", "assumptions", "unit",
            "slip", "corrected_text", "edits", "assumes", "although", "tight", "finding", "shares",
            "model")  # fmt: skip


def _start(mode: str) -> None:
    if mode == "model":
        leave_unsimplified()


class Generated(NamedTuple):
    """The Coq text of a claim, or the reason why there is none, and the claims whose results its derivation took."""

    claim: str
    text: str
    reason: str
    lemmas: tuple[str, ...] = ()


def _theorems(claim: Claim, mode: str) -> list[terms.Theorem]:
    if mode == "defined":
        return defined.theorems(claim)
    if mode in ("functions", "boxes"):
        return boxes.theorems(claim, mode == "boxes")
    return coq.theorems(claim, mode == "simplified")


def _library(claim: Claim, mode: str, proved: Sequence[terms.Theorem]) -> str:
    """The file of lemmas that a claim's theorems use."""
    if mode == "defined":
        return OBJECTS[claim.id].library
    return boxes.library_of(proved) if mode == "boxes" else LIBRARIES[mode]


def _generate(claim_id: str, mode: str, seconds: float) -> Generated:
    claim = find(claim_id)
    try:
        with time_limit(seconds):
            proved = _theorems(claim, mode)
            text = coq.source(claim, proved, _library(claim, mode, proved))
            return Generated(claim_id, text, "", tuple({x for case in claim.cases() for x in claim.derivation(case).lemmas}))
    except terms.Unprovable as error:
        reason = str(error)
    except TimeLimit as error:
        reason = f"{NOT_DECIDED}: {error}"
    except Exception as error:  # a formula that one route cannot handle must not stop the others
        reason = f"{type(error).__name__}: {error}"[:300]
    later = mode not in ("defined", "model")
    if later and not reason.startswith((SAME_TEXT, NOT_DECIDED)) and not coq.is_algebraic(claim):
        reason = f"{NOT_ALGEBRAIC}: {reason}"
    return Generated(claim_id, "", reason)


def _why_not(claim_id: str, mode: str, seconds: float) -> Generated:
    """Why a claim has no statement in a mode, nor in those that are tried after it; its text where it has one."""
    # A process that leaves formulas unsimplified cannot go on to the other modes.
    of = "defined" if claim_id in OBJECTS else mode
    later = [of] if of in ("defined", "model") else list(MODES)[list(MODES).index(mode) :]
    for k, one in enumerate(later, 1):
        found = _generate(claim_id, one, seconds)
        if found.text or k == len(later) or adds_nothing(one, found.reason):
            return found
    raise AssertionError(later)


def wrong_reasons(reasons: Mapping[str, str], jobs: int, stop: Event | None = None) -> dict[str, str]:
    """Claims that are noted as without a proof for a reason that is none, and what is wrong with it.

    That both sides are one text, that a function is none of Coq's, that no certificate is found: each is found out again.
    What was not decided, and what coqc has refused, is taken as noted.
    """
    wrong = {}
    open_ = {i: r for i, r in reasons.items() if not r.startswith((NOT_DECIDED, "coqc: "))}
    for mode, chosen in (("model", [i for i, r in open_.items() if r == SAME_TEXT]), ("simplified", [*open_])):
        for found in _each(_why_not, dict.fromkeys((i for i in chosen if i in open_), mode), CHECK_SECONDS, jobs, stop):
            noted = open_[found.claim]
            if found.reason.startswith(NOT_DECIDED) or (not found.text and category(found.reason) == category(noted)):
                del open_[found.claim]
            elif mode == "simplified":
                seen = found.reason or "it can be stated"
                wrong[found.claim] = f"noted as without a proof ({category(noted)}), but {seen}"
    return wrong


def generate(modes: Mapping[str, str], seconds: float, jobs: int, stop: Event | None = None) -> Iterable[Generated]:
    """Coq texts of claims, each in its mode, or why there is none, as they are finished; the first are begun first.

    A worker takes seconds to read all claims, so that one pool serves all modes but "model", whose processes do no other.
    """
    for unsimplified in (True, False):
        chosen = {i: mode for i, mode in modes.items() if (mode == "model") == unsimplified}
        yield from _each(_generate, chosen, seconds, jobs, stop)


def _each(
    function: Callable[..., Generated], modes: Mapping[str, str], seconds: float, jobs: int, stop: Event | None
) -> Iterable[Generated]:
    if not modes:
        return
    with fixed_order(), worker_pool(min(jobs, len(modes)), _start, next(iter(modes.values()))) as pool:
        running = {pool.submit(function, i, mode, seconds): i for i, mode in modes.items()}
        for future in finished(running, stop):
            try:
                yield future.result()
            except BrokenProcessPool:
                yield Generated(running[future], "", f"{NOT_DECIDED}: a worker process was killed")


@contextmanager
def fixed_order() -> Iterator[None]:
    """Worker processes that start in here order terms alike: SymPy's order, and so a text, depends on the seed of hashes."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        os.environ.pop("PYTHONHASHSEED")
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


def basis(claim: Claim, lemmas: Iterable[str] = (), sources: reach.Sources | None = None) -> str:
    """Fingerprint of all that a claim's Coq text follows from: the claim, what its functions and the generator reach, and
    the derivations of its lemmas. While it stays the same, so does the text.
    """
    sources = sources or reach.sources()
    reached = reach.Reached(nodes={(__name__, "_generate"), (__name__, "_start")})
    for name in (f.name for f in fields(claim) if f.name not in UNSTATED):
        reached.texts.add(f"{name} is None: {getattr(claim, name) is None}")
        reach.collect(sources, getattr(claim, name), reached)
    return reach.digest(sources, with_lemmas(claim, reached, lemmas, sources), reached.texts)


def adds_nothing(mode: str, reason: str) -> bool:
    """Whether the modes after this one have nothing to say where it fails for this reason."""
    if reason == SAME_TEXT or mode == "defined":
        return True
    if mode == "simplified":
        return terms.NOT_RATIONAL not in reason
    return mode == "functions" and boxes.NEEDED not in reason


__all__ = [
    "CHECK_SECONDS",
    "LIBRARIES",
    "UNSTATED",
    "Generated",
    "adds_nothing",
    "basis",
    "fixed_order",
    "generate",
    "wrong_reasons",
]
