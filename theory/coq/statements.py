"""Theorems about models: what a claim says of risks in Model.v's clients, for every number of them, and proof scripts.

For a claim and its model (model.py), per case:

- the printed formula (where it is wrong: the corrected one) is a risk, or the difference of risks, or bounds it;
- it is the least risk of all linear estimates; the printed weights or strength are better than all others;
- where it is wrong, or needs a condition that does not hold: the negation, at a point of the model.

Each with a second theorem: something meets the hypotheses. Clients are whole numbers, other letters reals of the
claim's domain.

Belongs here: Coq text of statements and scripts. Does not belong here: terms and hypotheses of a domain (generator.py),
models (model.py), files (proof_files.py), coqc (checker.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from theory.coq import model, terms
from theory.coq.frame import Frame, Rules, binders_of, clients_binders, frame_of, growing_of, members_of, type_text
from theory.coq.refutations import instance_at, point_text, say_no
from theory.coq.sayings import say
from theory.coq.terms import Unprovable, name_of, term
from theory.engine import domain
from theory.engine.algebra import entries
from theory.engine.claim import Claim
from theory.engine.condition import alternatives, met, substitutions
from theory.engine.domain import Case
from theory.engine.levels.counterexample import find_counterexample

GRADE = "model"
_FREELY = {s: sp.Integer(1 if s.is_positive else 0) for s in model.FREE}  # at a point


class NoModel(Unprovable):
    """A claim whose model is not named."""


@dataclass
class Statement:
    """A theorem about a model: name, sentence, Coq proposition, script."""

    name: str
    says: str
    proposition: str
    script: list[str]


def _proposition(f: Frame, conclusion: str) -> str:
    letters = binders_of(f)
    text = (f"forall{letters},\n    " if letters else "") + "".join(f"{h} ->\n    " for _, h in f.hypotheses)
    if f.grows is not None:
        letter, low = growing_of(f)
        text += f"exists C : R, forall {letter}, {low} ->\n    "
    text += f"forall {clients_binders(f)}"
    members = members_of(f)
    text += f" ({' '.join(i for i, _ in members)} : nat),\n    " if members else ",\n    "
    text += "".join(f"{h} ->\n    " for _, h in members)
    return text + conclusion


def _opening(f: Frame) -> list[str]:
    sizes = [name_of(s) for s in f.symbols if s in f.sizes]
    reals = [name_of(s) for s in f.symbols if s not in f.sizes]
    names = [*sizes, *reals, *(h for h, _ in f.hypotheses)]
    lines = []
    if f.grows is not None:
        lines = [f"intros {' '.join(names)}."] if names else []
        lines += [f"exists ({term(f.within)})."]
        names = [name_of(f.grows), f"H_{name_of(f.grows)}"]
    for c in f.clients:
        names += [f.space_name(c), f.clients_name(c, inner=False)]
    names += [i for i, _ in members_of(f)] + [f"I_{i}" for i, _ in members_of(f)]
    return [*lines, f"intros {' '.join(names)}."]


def _by_cases(f: Frame, lines: Sequence[str]) -> list[str]:
    """The script, once for each letter that may be the one that is not zero."""
    for k, letters in enumerate(f.some, 1):
        if len(letters) > 1:
            pattern = f"Z{k}"
            for _ in letters[1:]:
                pattern = f"Z{k} | {pattern if pattern == f'Z{k}' else f'[{pattern}]'}"
            lines = [f"destruct Z{k} as [{pattern}].", *(x for _ in letters for x in ("{", *(f"  {y}" for y in lines), "}"))]
    return list(lines)


def _satisfied(f: Frame, name: str) -> Statement:
    """Something meets the hypotheses: a point of the domain, and clients there."""
    ask = [sp.Or(*(s > 0 for s in letters)) for letters in f.some]
    point = met(f.claim, f.case, [*f.conditions, *ask]) if f.conditions or ask else _example(f)
    if point is None:
        raise Unprovable("no point of the domain was found that meets the hypotheses")
    rules = {**dict.fromkeys(f.symbols, sp.Integer(1)), **_FREELY, **domain.substitution(f.claim.variables, f.case, point)}
    values = []
    for s in [*(s for s in f.symbols if s in f.sizes), *(s for s in f.symbols if s not in f.sizes)]:
        values.append(f"{rules[s]}%nat" if s in f.sizes else f"({term(rules[s])})")
    binders = binders_of(f)
    hyps = [h for _, h in f.hypotheses]
    if f.grows is not None:
        letter, low = growing_of(f)
        binders += f" ({letter})"
        hyps.append(low)
        values.append("1%nat" if f.grows == model.MANY else "1")
    parts = [*hyps, *(f"exists {_one_clients(f, c)}, True" for c in f.clients)]
    members = members_of(f)
    body = " /\\\n    ".join(f"({p})" for p in [*parts, *(f"exists {i}, {h}" for i, h in members)])
    exists = f"exists{binders},\n    " if binders else ""
    script = [f"exists {', '.join(values)}."] if values else []
    ways = "unfold_levels; lra | left; lra | right; lra | right; right; lra | exists 0%nat; lia"
    script += [f"repeat split; try solve [{ways}]."] if len(parts) + len(members) > 1 else []
    script += ["all: apply clients_exist; each_level_exists."] if f.clients else []
    return Statement(name, "Something meets the hypotheses.", exists + body, script)


def _one_clients(f: Frame, c: model.Clients) -> str:
    return f"({f.space_name(c)} : space) (M : {type_text(f, c)})"


def _example(f: Frame) -> Any:
    return met(f.claim, f.case, [sp.true])


def statements(claim: Claim) -> list[Statement]:
    """All theorems of a claim about its model. Raises Unprovable, naming the case, where one cannot be stated."""
    if claim.id not in model.MODELS:
        raise NoModel(f"{claim.id} names no model")
    found: list[Statement] = []
    for case in claim.cases():
        try:
            found += _of_case(claim, case)
        except Unprovable as error:
            raise Unprovable(f"{error} ({case.label()})" if case.label() else str(error)) from None
    if claim.printed is not None and (claim.condition is not None or claim.corrected is not None):
        found += refutation(claim)
    if not found:
        raise Unprovable("nothing to state")
    return found


def _of_case(claim: Claim, case: Case) -> list[Statement]:
    label = re.sub(r"[^A-Za-z0-9]+", "_", case.label()).strip("_")
    wrong = claim.corrected is not None and claim.printed is not None and claim.condition is None
    formula = claim.corrected if wrong or claim.printed is None else claim.printed
    values = entries(claim.derived(case) if formula is None else claim.symbolic(formula, case))
    ways = [[]] if claim.condition is None else alternatives(claim.symbolic(claim.condition, case))
    decisions = claim.call(model.MODELS[claim.id], domain.symbols_of(claim.variables, case))
    if decisions is None:  # the case is outside the model
        return []
    found: list[Statement] = []
    for a, conditions in enumerate(ways):
        where, _ = substitutions(conditions)
        for k, d in enumerate(decisions, 1):
            number = str(k) if len(decisions) > 1 else ""
            end = "_".join(p for p in (number, label, f"or{a + 1}" if len(ways) > 1 else "") if p)
            name = "holds" + (f"_{end}" if end else "")
            entry = tuple(values) if d.of is None else (values[d.of],)
            f = frame_of(claim, case, conditions, [d], entry)
            said = say(d, f, entry, "=" if wrong else claim.relation, Rules(f, where))
            script = [*_opening(f), *_by_cases(f, said.lines)]
            if f.grows is not None and f.some:
                raise Unprovable("a limit with letters of which one is not zero")
            found.append(Statement(name, said.says, _proposition(f, said.conclusion), script))
            found.append(_satisfied(f, name.replace("holds", "met", 1)))
    return found


def refutation(claim: Claim) -> list[Statement]:
    """The negation of what is printed, where a point of the model refutes it; nothing for decisions without a number."""
    point = find_counterexample(claim)
    if point is None:
        return []
    case = domain.case_of(claim.variables, point)
    rules = {**_FREELY, **domain.substitution(claim.variables, case, point)}
    decisions = claim.call(model.MODELS[claim.id], domain.symbols_of(claim.variables, case))
    values = entries(claim.derived(case) if claim.printed is None else claim.symbolic(claim.printed, case))
    if decisions is None or any(not sp.sympify(v).is_Rational for v in rules.values()):
        return []
    for d in decisions:
        entry = tuple(values) if d.of is None else (values[d.of],)
        if any(e is None for e in entry):
            continue
        f = frame_of(claim, case, [], [d], entry)
        if any(all(rules[s] == 0 for s in letters) for letters in f.some):
            continue
        said = say_no(d, f, entry, claim.relation, rules)
        if said is not None:
            says = f"What is printed is wrong: it fails for these clients, {point_text(f, rules)}."
            return [
                Statement("fails", says, f"~ ({_proposition(f, said.conclusion)})", [*instance_at(f, rules), *said.lines])
            ]
    return []


def module_of(claim_id: str) -> str:
    """The Coq name of a claim."""
    return re.sub(r"[^A-Za-z0-9]+", "_", claim_id)


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def texts(claim: Claim, proved: Sequence[Statement]) -> tuple[str, str]:
    """A claim's statement file and proof file, without header lines."""
    about = [claim.id + ": " + claim.title, claim.place, "", *terms.wrapped(claim.statement)]
    about += ["", "LaTeX, as printed:", *terms.wrapped(claim.latex)] if claim.printed is not None else []
    about += ["", "Condition: " + claim.condition_text] if claim.condition is not None else []
    head = "(* " + "\n   ".join(map(terms.comment, about)) + " *)\n"
    name = module_of(claim.id)
    said = "\n".join(f"(* {terms.comment(s.says)} *)\nParameter {s.name} :\n  {s.proposition}.\n" for s in proved)
    opening = "Require Import Borrow.Model.\nOpen Scope R_scope.\n"
    statement = f"{head}{opening}\nModule Type {name}_says.\n\n{said}\nEnd {name}_says.\n"
    bodies = "\n".join(f"Theorem {s.name} :\n  {s.proposition}.\nProof.\n{_indented(s.script)}\nQed.\n" for s in proved)
    names = ", ".join(s.name for s in proved)
    proof = (
        f"(* The proof of {claim.id}; what is proved stands in the file beside. *)\n"
        f"Require Import Borrow.Scripts.\nOpen Scope R_scope.\n\nModule {name}_proved <: {name}_says.\n\n{bodies}\n"
        f"Definition all_theorems := ({names}).\n\nEnd {name}_proved.\n"
    )
    return statement, proof


__all__ = ["GRADE", "NoModel", "Statement", "module_of", "refutation", "statements", "texts"]
