"""How strong a proof file is, read off its text: what its statements name, and what its scripts rest on.

A file is of a "definition" only where every statement names something that the pinned files define, or an integral, a limit
or a count of Coq's libraries; functions of numbers, as erfc, are none. That the printed formula fails is about what the
right one is of, where another statement of the file says that of one side of it. Else it is a "counterexample" where
nothing but failures is stated; an "interval" where a script, or a lemma that it names, needs coq-interval's enclosures;
and "algebra".

Belongs here: reading texts. Does not belong here: files (proof_files.py), what the grades are called (theory.strength).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from theory.coq import libraries
from theory.coq.defined import DEFINED

DEFINITIONS = ("Objects", "Model")  # pinned by fingerprint: defined.py, model_proofs.py
# Of Coquelicot, and of Coq's lists.
NOTIONS = frozenset({"RInt", "is_RInt", "is_RInt_gen", "is_lim", "filterlim", "is_series", "length"})
THEOREM = re.compile(r"^Theorem \w+ :\n(.*?)\.\nProof\.\n(.*?)^Qed\.", re.MULTILINE | re.DOTALL)
LEMMA = re.compile(r"^(?:Lemma|Theorem) (\w+)(.*?)\bQed\.", re.MULTILINE | re.DOTALL)
DEFINED_NAME = re.compile(r"^(?:Definition|Fixpoint|Record) (\w+)", re.MULTILINE)
BOUND = re.compile(r"\b(?:forall|exists|fun|let)\s+([\w\s']+?)\s*(?::|,|=>)|\(([\w\s']+?)\s*:")
SIDES = re.compile(r"\s(?:=|<=|>=)\s")
TACTICS = frozenset({"interval", "integral"})


def grade(text: str) -> str:
    """The grade of a proof file's text: "definition", "algebra", "interval" or "counterexample".

    >>> grade("Theorem holds :\\n  1 + 1 = 2.\\nProof.\\n  lra.\\nQed.")
    'algebra'
    """
    behind = _behind(tuple(libraries.required(text)))
    found: list[tuple[str, str]] = THEOREM.findall(text)
    if not found:
        raise ValueError("a proof file without a theorem")
    if only_refutes(text):
        return "counterexample"
    named = [" ".join(s.split()) for s, _ in found if _words(s, free=True) & objects(behind)]
    if all(" ".join(s.split()) in named or _refutes_one_of(s, named) for s, _ in found):
        return "definition"
    return "interval" if any(_words(script) & enclosing(behind) for _, script in found) else "algebra"


def only_refutes(text: str) -> bool:
    """Whether each theorem of a proof file says that something fails."""
    return all(s.lstrip().startswith("~ (") for s, _ in THEOREM.findall(text))


@cache
def objects(behind: tuple[str, ...]) -> frozenset[str]:
    """What a statement may be of, where the files of ours behind it are these."""
    if DEFINITIONS[0] not in behind:
        return frozenset()
    texts = "".join(libraries.text_of(name) for name in DEFINITIONS)
    return (frozenset(DEFINED_NAME.findall(texts)) | NOTIONS) - DEFINED


@cache
def enclosing(behind: tuple[str, ...]) -> frozenset[str]:
    """coq-interval's tactics, and the lemmas of files of ours that need them, in whatever steps."""
    found = set(TACTICS)
    for name in behind:  # what a lemma needs comes before it
        found |= {lemma for lemma, rest in LEMMA.findall(libraries.text_of(name)) if _words(rest) & found}
    return frozenset(found)


@cache
def _behind(required: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(libraries.behind(required))


def _words(text: str, free: bool = False) -> set[str]:
    """The names in a text; where `free`, without those that it binds."""
    bound = {x for names in BOUND.findall(text) for x in " ".join(names).split()} if free else set()
    return set(re.findall(r"[A-Za-z_][\w']*", text)) - bound


def _refutes_one_of(statement: str, others: Iterable[str]) -> bool:
    """Whether it is a negation that compares with what another statement speaks of, more than a letter or a number."""
    inside = re.fullmatch(r"~ \((.*)\)", " ".join(statement.split()))
    sides = SIDES.split(inside[1].rpartition("-> ")[2]) if inside else []
    whole = (x[1:-1] if x.startswith("(") and x.endswith(")") else x for x in sides)
    return any(f"({x})" in other for x in whole if re.search(r"\s", x) for other in others)


__all__ = ["DEFINITIONS", "NOTIONS", "enclosing", "grade", "objects", "only_refutes"]
