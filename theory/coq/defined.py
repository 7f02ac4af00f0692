"""Claims about an object that Coq can define: a law, an integral, a count, an optimum over all arguments.

Where a derivation ends in the printed formula itself, their equality says nothing; what the formula is *of* does. Such a
claim says here what that is, as a Coq proposition about definitions of Objects.v in which `formula_1`, `formula_2`, ...
stand for the entries of its formula (`formula` for the only one; `derived` for what the derivation ends with, `printed`
for what is refuted), and how it is proved. A script that needs a part of the formula, as what erfc is taken of, asks for
`parts`. The formula and the hypotheses on its letters are put in from the claim, and so stay what the claim says; a lemma
that another formula does not fit fails.

Belongs here: the record of such a proposition, and its theorems. Does not belong here: the propositions (objects/),
definitions and lemmas (theory/proofs), equalities of formulas (generator.py, functions.py), files (proof_files.py), coqc
(checker.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from theory.coq import boxes, functions, generator, libraries
from theory.coq.nodes import Terms
from theory.coq.setting import setting_of
from theory.coq.terms import Theorem, Unprovable, name_of, term
from theory.engine import domain
from theory.engine.algebra import entries
from theory.engine.claim import Claim
from theory.engine.domain import Case

# Definitions that a reader has to believe, and lemmas about them.
LIBRARIES = ("Objects", "Gauss", "Losses", "Laws", "Counts", "Outputs", "Lines", "Bounds", "Betas", "Costs")
DEFINED = {"Beta_of", "RisingFactorial_of", "factorial_of"}  # functions of formulas that Objects.v defines
PLACE = re.compile(r"\b(formula|derived|printed)(?:_(\d+))?\b")


@dataclass(frozen=True)
class About:
    """What a claim's formula is of: a Coq proposition, and the lines that prove it once its letters are introduced."""

    says: str
    proposition: str
    script: Sequence[str]
    name: str = "holds"
    negated: bool = False  # the proposition fails somewhere; the script introduces its letters itself
    whole: tuple[str, ...] = ()  # sizes that are whole numbers in it; others are real numbers


class DefinedTerms(Terms):
    """Terms with functions that Objects.v defines, and with cases, which are so where a letter has a value and otherwise."""

    def __init__(self) -> None:
        super().__init__(tails=True)

    def flat(self, e: Any) -> Any:
        """As Terms has it; a Piecewise by what it asks of one letter."""
        if isinstance(e, sp.Piecewise):
            cases: Any = e.args
            if len(cases) != 2 or cases[1][1] is not sp.true or not isinstance(cases[0][1], sp.Eq):
                raise Unprovable("cases that are not told apart by one equation")
            (value, condition), (other, _) = cases
            return self.node("case", tuple(map(self.flat, (*condition.args, value, other))))
        return super().flat(e)

    def text(self, e: Any, unfolded: bool = False) -> str:
        """As Terms has it; cases only where they are the whole expression."""
        if (node := self.nodes.get(e)) is not None and node.kind == "case":
            left, right, value, other = (self.text(a, unfolded) for a in node.arguments)
            return f"(if Req_EM_T ({left}) ({right}) then {value} else {other})"
        if any(self.nodes[s].kind == "case" for s in sp.sympify(e).free_symbols & self.nodes.keys()):
            raise Unprovable("cases inside a formula")
        return super().text(e, unfolded)

    def of(self, expression: Any) -> str:
        """An expression as a Coq term in parentheses; functions that nothing defines are refused."""
        found = f"({self.text(self.flat(expression))})"
        if unknown := self.others.keys() - DEFINED:
            raise Unprovable(f"Objects.v does not define {', '.join(sorted(unknown))}")
        return found


@dataclass(frozen=True)
class Parts:
    """What the entries of a claim's formula, and of what its derivation ends with, are made of, for scripts."""

    formula: tuple[Any, ...]
    derived: tuple[Any, ...]
    text: Callable[[Any], str]


@dataclass(frozen=True)
class Object:
    """What a claim's formula is of: `said` of its variables (and `parts`), None in a case that is of no such object; and the
    file of lemmas that its scripts use.
    """

    said: Callable[..., tuple[About, ...] | About | None]
    library: str


OBJECTS: dict[str, Object] = {}


def about(library: str, *ids: str) -> Callable[[Any], Any]:
    """Say what claims' formulas are of, by a function of their variables, with the lemmas of a file."""

    def name(said: Any) -> Any:
        for claim_id in ids:
            if claim_id in OBJECTS:
                raise ValueError(f"claim {claim_id} is about two objects")
            OBJECTS[claim_id] = Object(said, library)
        return said

    return name


@dataclass
class _Met(Theorem):
    """A theorem with a lemma before it: something meets its hypotheses."""

    witness: str = ""

    def render(self) -> str:
        return self.witness + super().render()


def listed(values: Sequence[Any]) -> str:
    """A list of terms in Coq's notation.

    >>> listed(sp.symbols("x y"))
    '[x; y]'
    """
    texts = [*map(term, values)]
    return f"[{'; '.join(texts)}]" if len(texts) > 1 else f"({texts[0]} :: nil)"  # [x] is Coquelicot's row of one


def formulas(claim: Claim, case: Case) -> tuple[Any, ...]:
    """The entries of the formula that a claim's theorems are about: as printed, corrected, or derived where none is."""
    formula, _, _ = generator.formula_of(claim)
    return entries(claim.derived(case) if formula is None else claim.symbolic(formula, case))


def of_object(claim: Claim) -> list[Theorem]:
    """What is said of a claim's object, in every case. Raises Unprovable where a case or an entry is left out."""
    found: list[Theorem] = []
    for case in claim.cases():
        label = re.sub(r"[^A-Za-z0-9]+", "_", case.label()).strip("_")
        for conditions, end in generator.ways_of(claim, case, label):
            found += _of_case(claim, case, conditions, end)
    if not found:
        raise Unprovable("no case of it is about the object")
    return generator.distinct(found)


def theorems(claim: Claim) -> list[Theorem]:
    """All theorems of a claim: of its object, and that the printed formula fails where it is wrong."""
    found = of_object(claim)
    wrong = claim.printed is not None and (claim.condition is not None or claim.corrected is not None)
    if wrong and not any(t.negated for t in found) and (fails := boxes.refuted(claim)) is not None:
        found.append(fails)
    return found


def _of_case(claim: Claim, case: Case, conditions: Sequence[Any], end: str) -> list[Theorem]:
    terms = DefinedTerms()
    formula, derived = formulas(claim, case), entries(claim.derived(case))
    printed = formula if claim.printed is None else entries(claim.symbolic(claim.printed, case))
    values = domain.symbols_of(claim.variables, case)
    said = claim.call(OBJECTS[claim.id].said, {**values, "parts": Parts(formula, derived, terms.of)})
    said = (said,) if isinstance(said, About) else said or ()
    texts = {}
    for what, stated in (("formula", formula), ("derived", derived), ("printed", printed)):
        asked = any(k[0] == what for one in said for k in PLACE.findall(one.proposition))
        needed = asked or (what == "formula" and said)
        texts[what] = [terms.of(sp.sympify(e)) for e in stated if e is not None] if needed else []
    used = {int(k or 1) for one in said for what, k in PLACE.findall(one.proposition) if what == "formula"}
    if said and used != set(range(1, len(texts["formula"]) + 1)):
        count = len(texts["formula"])
        raise Unprovable(f"{count} entries of the formula, and entries {sorted(used)} in what is said of them")
    letters = [s for v in claim.variables if v.kind != "choice" for s in _list(values[v.name])]
    at = functions.point_at(claim, case, conditions)
    found: list[Theorem] = []
    for one in said:
        setting = setting_of(claim, case, letters, conditions)
        generator.must_be_met(claim, case, setting.needs)
        whole = [s for s in setting.symbols if str(s) in one.whole]
        real = [s for s in setting.symbols if s not in whole]
        low = {
            f"H_{name_of(s)}": f"({v.low} <= {name_of(s)})%nat" for s in whole for v in claim.variables if v.name == str(s)
        }
        hypotheses = [(h, low.get(h, text)) for h, text in setting.hypotheses]
        opening = " ".join([*map(name_of, (*whole, *real)), *(h for h, _ in hypotheses)])
        put = [PLACE.sub(lambda k: texts[k[1]][int(k[2] or 1) - 1], x) for x in (one.proposition, *one.script)]
        conclusion, *lines = put
        script = lines if one.negated else [*([f"intros {opening}."] if opening else []), *setting.fix, *lines]
        binders = [f"({name_of(s)} : nat)" for s in whole]
        name = one.name + end
        witness = _witness(name, whole, real, hypotheses, at)
        about_ = _Met(name, one.says, real, hypotheses, conclusion, script, one.negated, binders, witness)
        found.append(about_)
    return found


def _witness(
    name: str, whole: Sequence[Any], real: Sequence[Any], hypotheses: Sequence[tuple[str, str]], at: Mapping[Any, Any]
) -> str:
    """A lemma: letters exist that meet the hypotheses."""
    if not hypotheses:
        return ""
    binders = "".join(f"exists {name_of(s)} : {kind}, " for group, kind in ((whole, "nat"), (real, "R")) for s in group)
    values = ", ".join([*(f"{at[s]}%nat" for s in whole), *(f"({term(at[s])})" for s in real)])
    both = " /\\\n    ".join(h for _, h in hypotheses)
    return f"Lemma met_{name} :\n  {binders}\n    {both}.\nProof. exists {values}. met. Qed.\n\n"


def _list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, list | tuple) else [x]


# The fingerprint of Objects.v. To change a definition knowingly: read what the statements that use it then say, put the new
# fingerprint here in the same commit, and say in its message what the definition means now.
PINNED = "79af3f3310032c52"


def tampered() -> bool:
    """Whether the definitions are not as pinned."""
    return hashlib.sha256(libraries.text_of(LIBRARIES[0]).encode()).hexdigest()[:16] != PINNED


__all__ = [
    "LIBRARIES",
    "OBJECTS",
    "PINNED",
    "About",
    "DefinedTerms",
    "Object",
    "Parts",
    "about",
    "formulas",
    "listed",
    "of_object",
    "tampered",
    "theorems",
]
