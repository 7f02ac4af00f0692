"""What a claim assumes, with what it inherits: answers to switches, its own and those of the lemmas that it takes.

What a derivation takes by ``Derivation.lemma`` brings its answers along: a theorem cannot be laxer than the lemmas that it
takes, and cannot answer otherwise than they do.

Belongs here: inheritance, contradictions.  Does not belong here: the switches themselves (switches.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from theory.engine import registry
from theory.engine.claim import Claim
from theory.engine.switches import SWITCHES


@dataclass(frozen=True)
class Answer:
    """An answer to a switch, and the claim that gave it."""

    switch: str
    answer: str
    by: str

    @property
    def sentence(self) -> str:
        """For readers."""
        return SWITCHES[self.switch].answers[self.answer]


def inherited(claim: Claim, lemmas: Iterable[str]) -> tuple[Answer, ...]:
    """The claim's answers and those of the lemmas that its derivation takes, all the way down.

    What is a variable of a lemma or of the claim is chosen by its value, and not assumed.
    """
    found: dict[tuple[str, str], Answer] = {}

    def add(one: Claim, open_names: frozenset[str], path: frozenset[str]) -> None:
        chosen = open_names | {v.name for v in one.variables}
        for switch, answer in one.assumes.items():
            if switch not in chosen or one is claim:
                found.setdefault((switch, answer), Answer(switch, answer, one.id))
        for lemma in taken(one) if one is not claim else lemmas:
            if registry.known(lemma) and lemma not in path and lemma not in one.although:
                add(registry.find(lemma), chosen, path | {lemma})

    add(claim, frozenset(), frozenset({claim.id}))
    return tuple(found.values())


def taken(claim: Claim) -> tuple[str, ...]:
    """The lemmas that a claim's derivations take in all its cases."""
    return tuple(dict.fromkeys(x for case in claim.cases() for x in claim.derivation(case).lemmas))


def contradictions(answers: Iterable[Answer]) -> list[str]:
    """Switches with two answers, in words."""
    first: dict[str, Answer] = {}
    wrong = []
    for a in answers:
        other = first.setdefault(a.switch, a)
        if other.answer != a.answer:
            wrong.append(f"{other.by} assumes that {other.sentence}, and {a.by}, on which it rests, that {a.sentence}")
    return wrong


__all__ = ["Answer", "contradictions", "inherited", "taken"]
