"""The attack on all theorems that are on file about claims, in worker processes.

Belongs here: which files a claim has, and what is said of the whole. Does not belong here: the attack itself (faults.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import as_completed
from pathlib import Path

from estimators.system.processes import worker_pool
from theory.coq import code_proofs, model_proofs, proof_files
from theory.coq.attack.faults import Attack, attacked
from theory.engine.claim import Claim


def files_of(claim: Claim) -> list[Path]:
    """The files with statements about a claim that are there: of its algebra, its model and its code."""
    files = (proof_files.path_of(claim.id), model_proofs.paths_of(claim.id)[0], code_proofs.path_of(claim.id))
    return [f for f in files if f.exists()]


def _attacked(path: Path) -> list[Attack]:
    return [*attacked(path)]


def attack(claims: Sequence[Claim], jobs: int = 1) -> dict[str, list[Attack]]:
    """Attack all theorems on file about claims, by claim."""
    found: dict[str, list[Attack]] = {c.id: [] for c in claims if files_of(c)}
    if not found:
        return found
    with worker_pool(jobs) as pool:
        running = {pool.submit(_attacked, f): c.id for c in claims for f in files_of(c)}
        for future in as_completed(running):
            found[running[future]] += future.result()
    return found


def broken(found: dict[str, list[Attack]]) -> list[str]:
    """A sentence about each fault."""
    faults = ((i, a) for i, attacks in found.items() for a in attacks if a.fault)
    return [f"{i}: theorem {a.name} is {SAYS[a.fault]}: {a.detail}" for i, a in faults]


SAYS = {
    "false": "false",
    "vacuous": "vacuous",
    "same": "about nothing",
    "not refuted": "said to fail, and does not",
    "junk": "about what has no value",
}


def summary(attacks: Iterable[Attack]) -> str:
    """What was tried, in one line."""
    attacks = [*attacks]
    faults, points = sum(bool(a.fault) for a in attacks), sum(a.tried for a in attacks)
    beyond = sum(bool(a.beyond) for a in attacks)
    tried = f"{len(attacks)} theorems attacked at {points} points: {faults} with a fault"
    return tried + (f"; what {beyond} conclude of objects was not tried" if beyond else "")


__all__ = ["attack", "broken", "files_of", "summary"]
