"""Proofs: one generated Coq file per claim, checked by coqc, with nothing assumed beyond Coq's real numbers.

A file is generated from its claim (texts.py) and is never edited: its first line carries a hash of the rest, and a check
generates the text anew, so that a statement cannot drift from its claim.

A file is replaced or removed only by a decision: coqc accepts the new text, or the claim cannot be stated, or coqc says
no. Running out of processor time, or being killed, decides nothing.

Belongs here: what becomes of a claim's file.  Does not belong here: files themselves (proof_files.py), texts (texts.py),
running coqc (checker.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock

from estimators.system import files
from estimators.system.processes import workers_for
from theory.coq import grades, libraries
from theory.coq.checker import (
    INSTALL_INTERVAL,
    NO_INTERVAL,
    beside,
    compile_texts,
    coqc,
    has_interval,
    judge_texts,
    prepare,
    prepare_objects,
)
from theory.coq.known import Known
from theory.coq.objects import OBJECTS
from theory.coq.proof_files import (
    ENCLOSED,
    MODES,
    NOT_DECIDED,
    count_theorems,
    note,
    path_of,
    read,
    unproved,
    with_header,
)
from theory.coq.texts import CHECK_SECONDS, adds_nothing, generate, wrong_reasons
from theory.engine.claim import Claim
from theory.engine.registry import find


@dataclass(frozen=True)
class Outcome:
    """What became of a claim's proof: "proved", or "unproved", "edited", "stale", "failed", "undecided" with the reason."""

    claim: str
    state: str
    detail: str = ""
    theorems: int = 0
    grade: str = "algebra"

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong: a proof is checked, or the claim is known to have none."""
        return self.state in ("proved", "unproved")


def check(
    chosen: Sequence[Claim], jobs: int | None = None, fresh: bool = False, progress: Callable[[Outcome], None] | None = None,
    again: bool = False,
) -> list[Outcome]:  # fmt: skip
    """Check the proof files of claims: as generated, up to date with the claim, and accepted by coqc.

    What coqc has accepted before, in the same version, is not run again unless `fresh`; nor is a text generated again while
    nothing has changed that it follows from. With `again`, coqchk checks what coqc has accepted, and the files that
    proofs share.
    Raises ProofError when coqc is missing.
    """
    jobs = workers_for(jobs)
    path, version = coqc()
    enclosures = has_interval(path)
    prepare(path, enclosures, again)
    if enclosures and any(c.id in OBJECTS for c in chosen):
        prepare_objects(path, again)
    noted = Known(version)
    reasons = unproved()
    outcomes: dict[str, Outcome] = {}
    texts: dict[str, tuple[str, str]] = {}
    without: dict[str, str] = {}

    def settle(outcome: Outcome) -> None:
        outcomes[outcome.claim] = outcome
        if progress:
            progress(outcome)

    for claim in chosen:
        file = path_of(claim.id)
        if not file.exists():
            reason = reasons.get(claim.id)
            lost = Outcome(claim.id, "stale", "no proof file and no reason; run `borrow prove --write`")
            if reason is None:
                settle(lost)
            else:
                without[claim.id] = reason
            continue
        mode, text, intact = read(file)
        if intact and (enclosures or mode not in ENCLOSED):
            texts[claim.id] = (mode, text)
        elif intact:
            missing = f"{NO_INTERVAL}: {INSTALL_INTERVAL}"
            settle(Outcome(claim.id, "undecided", missing, count_theorems(text), grades.grade(text)))
        else:
            settle(
                Outcome(claim.id, "edited", f"{file.name} was edited by hand; `borrow prove --write {claim.id}` restores it")
            )
    doubted = {i: r for i, r in without.items() if fresh or not noted.reason(find(i), r)}
    unsure = {i: mode for i, (mode, text) in texts.items() if fresh or not noted.follows(find(i), mode, text)}
    counts = {i: count_theorems(text) for i, (_, text) in texts.items()}
    graded = {i: grades.grade(text) for i, (_, text) in texts.items()}
    todo = {i: text for i, (_, text) in texts.items() if fresh or not noted.has(i, text)}
    # What coqc has accepted and what follows from the claims is found out side by side: a proof needs both.
    accepted = texts.keys() - todo.keys()
    stated = texts.keys() - unsure.keys()
    lock = Lock()

    def settle_proved(claim_id: str) -> None:
        if claim_id in accepted and claim_id in stated and claim_id not in outcomes:
            settle(Outcome(claim_id, "proved", theorems=counts[claim_id], grade=graded[claim_id]))

    def follow(stop: Event) -> None:
        wrong = wrong_reasons(doubted, jobs, stop)
        with lock:
            for claim_id, reason in without.items():
                if claim_id in wrong:
                    settle(Outcome(claim_id, "stale", f"{wrong[claim_id]}; run `borrow prove --write {claim_id}`"))
                    continue
                if claim_id in doubted:
                    noted.checked(find(claim_id), reason)
                settle(Outcome(claim_id, "unproved", reason))
        longest = sorted(unsure, key=lambda i: len(texts[i][1]), reverse=True)
        for found in generate({i: unsure[i] for i in longest}, CHECK_SECONDS, jobs, stop):
            claim_id = found.claim
            with lock:
                if found.text == texts[claim_id][1]:
                    noted.state(unsure[claim_id], found)
                    stated.add(claim_id)
                    settle_proved(claim_id)
                    continue
                why = found.reason or "the claim has changed since its proof was generated"
                lost = Outcome(claim_id, "stale", f"{why}; run `borrow prove --write {claim_id}`")
                settle(Outcome(claim_id, "undecided", why) if why.startswith(NOT_DECIDED) else lost)

    refused: dict[str, Outcome] = {}
    with beside(follow) as following:
        if jobs == 1:  # one process at a time was asked for
            following.result()
        with lock:
            for claim_id in texts:
                settle_proved(claim_id)
        for claim_id, right, why in judge_texts(path, todo, jobs, partial(compile_texts, again=again)):
            with lock:
                if right:
                    noted.add(claim_id, todo[claim_id])
                    accepted.add(claim_id)
                    settle_proved(claim_id)
                else:
                    state = "undecided" if right is None else "failed"
                    refused[claim_id] = Outcome(claim_id, state, why, counts[claim_id], graded[claim_id])
        following.result()
    for claim_id in refused.keys() - outcomes.keys():  # those that are stale are known as such
        settle(refused[claim_id])
    return [outcomes[c.id] for c in chosen]


def write(
    chosen: Sequence[Claim], jobs: int | None = None, progress: Callable[[Outcome], None] | None = None
) -> list[Outcome]:
    """Generate proof files anew, keep those that coqc accepts, and note why the others have none.

    Where that is not decided in time, what is there stays as it is; a claim of which nothing is known is noted as such.
    """
    jobs = workers_for(jobs)
    path, version = coqc()
    enclosures = has_interval(path)
    prepare(path, enclosures)
    if enclosures and any(c.id in OBJECTS for c in chosen):
        prepare_objects(path)
    noted = Known(version)
    outcomes: dict[str, Outcome] = {}
    why: dict[str, str] = {}
    todo = [c.id for c in chosen]

    def settle(outcome: Outcome) -> None:
        outcomes[outcome.claim] = outcome
        if progress:
            progress(outcome)

    for mode, seconds in MODES.items():
        mine = [i for i in todo if (i in OBJECTS) == (mode == "defined")]
        if mode in ENCLOSED and not enclosures:
            why |= dict.fromkeys(mine, f"{NOT_DECIDED}: {NO_INTERVAL}: {INSTALL_INTERVAL}")
            continue
        texts = {}
        generated = {found.claim: found for found in generate(dict.fromkeys(mine, mode), seconds, jobs)}
        for claim_id, found in generated.items():
            if found.text:
                texts[claim_id] = found.text
            else:
                why[claim_id] = found.reason
        for claim_id, accepted, reason in judge_texts(path, texts, jobs):
            if not accepted:
                why[claim_id] = f"{NOT_DECIDED}: {reason}" if accepted is None else refusal(texts[claim_id], reason)
                continue
            text = texts[claim_id]
            noted.add(claim_id, text)
            noted.state(mode, generated[claim_id])
            path_of(claim_id).parent.mkdir(parents=True, exist_ok=True)
            files.write(path_of(claim_id), with_header(text, mode))
            note({claim_id: None})
            settle(Outcome(claim_id, "proved", mode, count_theorems(text), grades.grade(text)))
        todo = [i for i in todo if i not in outcomes and not (i in mine and _final(i, mode, why[i]))]
    before = unproved()
    for claim_id, reason in why.items():
        if claim_id in outcomes:
            continue
        decided = not reason.startswith(NOT_DECIDED)
        if decided:
            path_of(claim_id).unlink(missing_ok=True)
        if decided or not (claim_id in before or path_of(claim_id).exists()):
            note({claim_id: reason})
        as_before = before.get(claim_id, "").startswith(NOT_DECIDED)
        settle(Outcome(claim_id, "unproved" if decided or as_before else "undecided", reason))
    return [outcomes[c.id] for c in chosen]


def refusal(text: str, why: str) -> str:
    """What coqc has refused of a proof file's text, in words: which step, and of which statement.

    >>> text = "(* Twice as much. *)\\nTheorem holds :\\n  2 = 1 + 1.\\nProof.\\n  fail.\\nQed."
    >>> refusal(text, "line 6, characters 2-6: Error: Tactic failure.")
    'coqc: refuses the step `fail.` in the proof of holds (Twice as much.): Tactic failure.'
    """
    found = re.match(r"line (\d+), .*?Error:\s*(.*)", why, re.DOTALL)
    lines = text.split("\n")
    before = 2 * len(libraries.required(text)) + 1  # lines of `compile_texts`: what it requires, and the module's name
    at = int(found[1]) - before if found else 0
    stated = [*re.finditer(r"^\(\* (.*?) \*\)\nTheorem (\w+)", "\n".join(lines[:at]), re.MULTILINE)]
    if found is None or not stated:
        return f"coqc: {why}"
    step = lines[at - 1].strip()
    shown = step if len(step) <= 80 else f"{step[:77]}..."
    return f"coqc: refuses the step `{shown}` in the proof of {stated[-1][2]} ({stated[-1][1]}): {found[2]}"


def _final(claim_id: str, mode: str, reason: str) -> bool:
    """Whether later modes are not tried after a failure in this one: there is nothing to prove, they add nothing, or a proof
    in this mode exists, which running out of time does not call in question.
    """
    path = path_of(claim_id)
    return adds_nothing(mode, reason) or (reason.startswith(NOT_DECIDED) and path.exists() and read(path)[0] == mode)


__all__ = ["Outcome", "check", "path_of", "refusal", "write"]
