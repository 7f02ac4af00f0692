"""Proofs about the code that runs: what the float64 function of a claim computes is the claim's formula, as Coq theorems.

The left side is what `theory.engine.traced` read off the running code, branch by branch; the right side is the formula that
the claim's other theorems speak of.  Only rational formulas; where both are the same text, there is
nothing to prove, and nothing is counted.

Belongs here: these statements, their files, running coqc on them.  Does not belong here: reading formulas off code
(theory.engine.traced), the other proofs (prove.py, model_proofs.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed
from functools import partial
from pathlib import Path
from typing import Any

import sympy as sp

from estimators.system import files
from estimators.system.processes import worker_pool, workers_for
from theory.coq import checker, functions, generator, libraries, model_proofs, proof_files
from theory.coq.prove import Outcome
from theory.coq.terms import SAME_TEXT, SameText, Theorem, Unprovable, term
from theory.coq.texts import fixed_order
from theory.engine import reach
from theory.engine.algebra import TimeLimit, entries, time_limit
from theory.engine.claim import Claim
from theory.engine.domain import Case
from theory.engine.registry import find
from theory.engine.traced import traced

GRADE = "code"
GENERATE_SECONDS = 240.0
REACHED = ("variables", "printed", "corrected", "derive", "computed", "relation", "condition", "shifts")
STATUS = checker.WORK / "code.json"


def path_of(claim_id: str) -> Path:
    """Where the proof about a claim's code is, or would be."""
    paper, rest = claim_id.split(":", 1)
    return proof_files.folder_of(paper) / "code" / (re.sub(r"[^A-Za-z0-9]+", "_", rest) + ".v")


def formula(claim: Claim, case: Case) -> tuple[Any, ...]:
    """The formula that a claim ends with: as printed where that is right in every case, or corrected, or derived."""
    right = claim.corrected or (claim.printed if claim.relation == "=" and claim.condition is None else None)
    return entries(claim.derived(case) if right is None else claim.symbolic(right, case))


def theorems(claim: Claim) -> list[Theorem]:
    """All theorems about a claim's code. Raises Unprovable where there is none."""
    if claim.computed is None:
        raise Unprovable("nothing of estimators computes it")
    run = traced(claim)
    if run.state != "equal":
        raise Unprovable(f"{proof_files.NOT_DECIDED}: {run.text}" if run.state == "time" else run.text)
    found: list[Theorem] = []
    seen: set[str] = set()
    rational = False
    for way in (w for w in run.ways if not w.narrow):
        stated = formula(claim, way.case)
        for i, (value, right) in enumerate(zip(way.computed, stated, strict=False), 1):
            value, right = sp.sympify(value), sp.sympify(right)
            if not (value.is_rational_function() and right.is_rational_function()) or right.has(sp.oo, sp.zoo, sp.nan):
                continue
            rational = True
            if term(value) == term(right) or f"{way.case.label()} {i} {term(value)}" in seen:
                continue
            seen.add(f"{way.case.label()} {i} {term(value)}")
            label = re.sub(r"[^A-Za-z0-9]+", "_", way.case.label()).strip("_")
            name = "_".join(p for p in ("code", str(len(found) + 1), label) if p)
            says = "What the code computes" + (f" (entry {i})" if len(stated) > 1 else "") + " is the formula."
            found.append(generator.identity(name, says, claim, way.case, value, right))
    if not found and not rational:
        raise Unprovable(proof_files.NOT_ALGEBRAIC)
    if not found:
        raise SameText(SAME_TEXT)
    return found


def _generate(claim_id: str) -> tuple[str, str, str]:
    claim = find(claim_id)
    try:
        with time_limit(GENERATE_SECONDS):
            return claim_id, generator.source(claim, theorems(claim)), ""
    except Unprovable as error:
        return claim_id, "", str(error)
    except TimeLimit as error:
        return claim_id, "", f"{proof_files.NOT_DECIDED}: {error}"
    except Exception as error:  # one claim must not stop the others
        return claim_id, "", f"{type(error).__name__}: {error}"[:300]


def generate(ids: Sequence[str], jobs: int) -> Iterable[tuple[str, str, str]]:
    """(claim, text, why there is none) of claims, as they are finished."""
    if ids:
        with fixed_order(), worker_pool(jobs) as pool:
            for future in as_completed([pool.submit(_generate, i) for i in ids]):
                yield future.result()


def basis(claim: Claim) -> str:
    """Fingerprint of all that a claim's text follows from: the claim, its code, the tracer and the generator."""
    sources = reach.sources()
    reached = reach.Reached(nodes={(__name__, "_generate")})
    for name in REACHED:
        reach.collect(sources, getattr(claim, name), reached)
    return reach.digest(sources, sources.closure(reached.nodes), reached.texts)


def proved(claim_id: str) -> bool:
    """Whether a proof about the code of a claim is on file."""
    return path_of(claim_id).exists()


def summary(claim_id: str) -> str:
    """What is proved of the code of a claim and in which file; empty where nothing is."""
    path = path_of(claim_id)
    if not path.exists():
        return ""
    text, intact = model_proofs.read(path)
    home = proof_files.FOLDER.parent.parent
    where = path.relative_to(home) if path.is_relative_to(home) else path
    return f"{where}: {proof_files.count_theorems(text)} theorems{'' if intact else '; EDITED BY HAND'}"


def _known() -> dict[str, list[str]]:
    try:
        return dict(json.loads(STATUS.read_text(encoding="utf-8")))
    except (OSError, ValueError):  # a lost or damaged status only costs time
        return {}


def check(
    chosen: Sequence[Claim], jobs: int | None = None, fresh: bool = False, progress: Callable[[Outcome], None] | None = None,
    again: bool = False,
) -> list[Outcome]:  # fmt: skip
    """Check the files: as generated, up to date with the code, and accepted by coqc, with `again` by coqchk too.

    Raises ProofError without coqc.
    """
    return _run(with_files(chosen), jobs, progress, fresh, keep=False, again=again)


def write(
    chosen: Sequence[Claim], jobs: int | None = None, progress: Callable[[Outcome], None] | None = None
) -> list[Outcome]:
    """Generate the files anew, and keep those that coqc accepts."""
    return _run(with_code(chosen), jobs, progress, True, keep=True)


def with_code(chosen: Sequence[Claim]) -> list[Claim]:
    """Those claims that have code."""
    return [c for c in chosen if c.computed is not None]


def with_files(chosen: Sequence[Claim]) -> list[Claim]:
    """Those claims about whose code a proof is on file."""
    return [c for c in chosen if proved(c.id)]


def _run(
    chosen: Sequence[Claim], jobs: int | None, progress: Callable[[Outcome], None] | None, fresh: bool, keep: bool,
    again: bool = False,
) -> list[Outcome]:  # fmt: skip
    if not chosen:
        return []
    jobs = workers_for(jobs)
    path, version = checker.coqc()
    checker.prepare(path)
    noted, outcomes, texts = _known(), [], {}
    known = libraries.fingerprints([functions.LIBRARY])

    def by_coqc(text: str) -> list[str]:
        return [version, libraries.resting_on(text, known)]

    def settle(claim_id: str, state: str, detail: str = "") -> None:
        count = proof_files.count_theorems(texts.get(claim_id, ""))
        outcomes.append(Outcome(claim_id, state, detail, count, GRADE))
        if progress:
            progress(outcomes[-1])

    for claim in chosen if not keep else ():
        texts[claim.id], intact = model_proofs.read(path_of(claim.id))
        if not intact:
            settle(
                claim.id, "edited", f"code/{path_of(claim.id).name} was edited by hand; `borrow prove --write {claim.id}`"
            )
            del texts[claim.id]
    ids = [c.id for c in chosen if keep or c.id in texts]
    follow = {i: [*by_coqc(texts[i]), basis(find(i))] for i in ids if i in texts}
    done = [i for i in follow if not fresh and noted.get(i) == follow[i]]
    for claim_id in done:
        settle(claim_id, "proved")
    todo = {}

    def note(claim_id: str) -> None:
        noted[claim_id] = [*by_coqc(texts[claim_id]), basis(find(claim_id))]
        files.write(STATUS, json.dumps(noted, indent=1, sort_keys=True) + "\n")

    for claim_id, text, why in generate([i for i in ids if i not in done], jobs):
        if keep and why.startswith(proof_files.NOT_DECIDED):
            if proved(claim_id):
                settle(claim_id, "undecided", why)
        elif keep and not text:
            path_of(claim_id).unlink(missing_ok=True)
        elif not keep and text != texts[claim_id]:
            changed = why or "the claim or its code has changed since its proof was generated"
            if why.startswith(proof_files.NOT_DECIDED):  # a slow machine, which says nothing of the proof
                settle(claim_id, "undecided", why)
            else:
                settle(claim_id, "stale", f"{changed}; run `borrow prove --write {claim_id}`")
        elif not fresh and noted.get(claim_id, [])[:2] == by_coqc(text):
            note(claim_id)
            settle(claim_id, "proved")
        else:
            texts[claim_id] = todo[claim_id] = text
    for claim_id, accepted, why in checker.judge_texts(path, todo, jobs, partial(checker.compile_texts, again=again)):
        if accepted:
            note(claim_id)
        if keep and accepted:
            path_of(claim_id).parent.mkdir(parents=True, exist_ok=True)
            files.write(path_of(claim_id), model_proofs.with_header(todo[claim_id]))
        elif keep and accepted is False:
            path_of(claim_id).unlink(missing_ok=True)
        refused = "unproved" if keep else "failed"
        settle(claim_id, {True: "proved", False: refused, None: "undecided"}[accepted], why)
    return outcomes


__all__ = ["check", "formula", "path_of", "proved", "summary", "theorems", "with_code", "with_files", "write"]
