"""What coqc has accepted before, and what texts followed from, so that neither has to be found out twice.

Belongs here: the status file of proofs of algebra.  Does not belong here: deciding anything (prove.py).
"""

from __future__ import annotations

import json
from typing import Any

from estimators.system import files
from theory.coq import checker, functions, libraries, texts
from theory.engine.claim import Claim
from theory.engine.registry import find

STATUS = checker.WORK / "status.json"


class Known:
    """Texts that coqc has accepted, and what texts followed from, so that neither has to be found out twice."""

    def __init__(self, version: str):
        self.key = version
        self.libraries = libraries.fingerprints((functions.LIBRARY, *checker.ENCLOSING))
        self.texts: dict[str, str] = {}
        self.stated: dict[str, list[Any]] = {}
        try:
            data = json.loads(STATUS.read_text(encoding="utf-8"))
            if data["key"] == self.key:
                self.texts, self.stated = dict(data["texts"]), dict(data["stated"])
        except (OSError, ValueError, KeyError, TypeError):  # a lost or damaged status only costs time
            pass

    def has(self, claim_id: str, text: str) -> bool:
        """Whether coqc has accepted the text."""
        return self.texts.get(claim_id) == libraries.resting_on(text, self.libraries)

    def follows(self, claim: Claim, mode: str, text: str) -> bool:
        """Whether the text is what the generator gave, and nothing has changed since that it follows from."""
        match self.stated.get(claim.id):
            case [str(was), str(before), list(lemmas)]:
                return was == libraries.digest(mode + text) and before == texts.basis(claim, lemmas)
        return False

    def reason(self, claim: Claim, reason: str) -> bool:
        """Whether the reason why a claim has no proof was checked, and nothing has changed since that it follows from."""
        return self.stated.get(claim.id) == [libraries.digest(reason), texts.basis(claim), []]

    def checked(self, claim: Claim, reason: str) -> None:
        """Note that the reason why a claim has no proof was checked."""
        self.stated[claim.id] = [libraries.digest(reason), texts.basis(claim), []]
        self._write()

    def add(self, claim_id: str, text: str) -> None:
        """Note that coqc has accepted a text."""
        self.texts[claim_id] = libraries.resting_on(text, self.libraries)
        self._write()

    def state(self, mode: str, found: texts.Generated) -> None:
        """Note what a text followed from."""
        self.stated[found.claim] = [
            libraries.digest(mode + found.text),
            texts.basis(find(found.claim), found.lemmas),
            sorted(found.lemmas),
        ]
        self._write()

    def _write(self) -> None:
        data = {"key": self.key, "texts": self.texts, "stated": self.stated}
        files.write(STATUS, json.dumps(data, indent=1, sort_keys=True) + "\n")


__all__ = ["STATUS", "Known"]
