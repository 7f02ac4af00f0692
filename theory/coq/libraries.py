"""The Coq files written by hand: where each is, what it requires, and a fingerprint of all that it rests on.

Belongs here: finding them. Does not belong here: which of them readers have to believe (defined.py, model_proofs.py),
running coqc on them (checker.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# Definitions and lemmas about objects and functions lie beside the proofs, those about models beside the generator.
PROOFS = Path(__file__).resolve().parents[1] / "proofs"
MODELS = Path(__file__).resolve().parent
REQUIRED = re.compile(r"^Require (?:Import|Export)((?: Borrow\.\w+)+)\.$", re.MULTILINE)


def path_of(name: str) -> Path:
    """Where a file is."""
    return next((p for p in (PROOFS / f"{name}.v", MODELS / f"{name}.v") if p.exists()), PROOFS / f"{name}.v")


def text_of(name: str) -> str:
    """What stands in a file."""
    return path_of(name).read_text(encoding="utf-8")


def required(text: str) -> list[str]:
    """The files of ours that a text requires.

    >>> required("Require Export Borrow.Gauss Borrow.Scripts.\\nFrom Coquelicot Require Export Coquelicot.")
    ['Gauss', 'Scripts']
    """
    return [name.removeprefix("Borrow.") for group in REQUIRED.findall(text) for name in group.split()]


def behind(names: Iterable[str]) -> list[str]:
    """Files and all that they require, in an order in which they can be compiled.

    >>> behind(["Positive"])
    ['Rational', 'Signs', 'Positive']
    """
    found: list[str] = []
    for name in names:
        found += [x for x in (*behind(required(text_of(name))), name) if x not in found]
    return list(dict.fromkeys(found))


def fingerprints(names: Iterable[str]) -> dict[str, str]:
    """A fingerprint of each file and of all that it requires, for the files and those behind them."""
    found: dict[str, str] = {}
    for name in behind(names):
        found[name] = resting_on(text_of(name), found)
    return found


def resting_on(text: str, known: Mapping[str, str]) -> str:
    """A fingerprint of a text and of the files that it requires, by theirs."""
    return digest("\n".join((text, *(known.get(name, "") for name in required(text)))))


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


__all__ = ["MODELS", "PROOFS", "behind", "digest", "fingerprints", "path_of", "required", "resting_on", "text_of"]
