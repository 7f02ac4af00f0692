"""LEDGER.md: the verdicts on all claims as one page, with the list of errata on top, for readers and for the authors.

The page holds nothing that differs between machines (times, last digits, z-scores), so that it can be compared.

Belongs here: turning records into Markdown. Does not belong here: judging, proofs, anything typed about a single claim.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sympy as sp

from theory import joint
from theory.chain import counts
from theory.coq import code_proofs, model_proofs, proof_files
from theory.coq.terms import SAME_TEXT
from theory.engine.algebra import entries
from theory.engine.claim import Claim
from theory.engine.domain import case_of
from theory.engine.evidence import LEVELS, VERDICTS, Record
from theory.engine.notation import latex
from theory.engine.paper import Paper, papers
from theory.engine.ratios import REASONS
from theory.strength import GRADES, strength
from theory.strength import counts as strengths

PAGE = Path(__file__).resolve().parent / "LEDGER.md"
FAILING = ("wrong", "misprint")
LONGEST = 40  # letters of an exact value; a longer one is shown as a decimal
SHORT = {"pass": "+", "fail": "FAIL", "unknown": "?", "not applicable": "·"}


def _own() -> dict[str, Paper]:
    """The papers of this toolkit: the page is the same whatever claim packs are installed."""
    return {key: paper for key, paper in papers().items() if paper.own}


def render(claims: Sequence[Claim], records: Mapping[str, Record]) -> str:
    """The whole page, on the toolkit's own claims; each needs a record."""
    verdicts = {c.id: records[c.id].verdict() for c in claims}
    parts = [_head(claims, verdicts, records), _errata(claims, records, verdicts), _conditions(claims, records, verdicts)]
    parts += [_edits(claims)]
    parts += [_paper(p, [c for c in claims if c.paper == p], records, verdicts) for p in _own()]
    parts += [joint.words(joint.load()), _graph(claims, records), _without_proof(claims)]
    return "\n".join(parts)


def _link(claim_id: str) -> str:
    return f"[`{claim_id}`](#{_anchor(claim_id)})"


def _anchor(claim_id: str) -> str:
    return claim_id.replace(":", "-").lower()


def _words(text: str) -> str:
    """Plain text that Markdown leaves alone; what stands in `code` or in mathematics stays."""
    parts = re.split(r"(\$`[^`]*`\$|`[^`]*`)", text)
    return "".join(part if i % 2 else re.sub(r"([*_<>\[\]~])", r"\\\1", part) for i, part in enumerate(parts))


def _cell(text: Any) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def proof_of(claim_id: str) -> str:
    """Links to the proof file of a claim and to what is proved of its model, from the folder `theory`."""
    files = {"Coq": proof_files.path_of(claim_id), "model": model_proofs.paths_of(claim_id)[0]}
    return ", ".join(f"[{name}]({f.relative_to(PAGE.parent).as_posix()})" for name, f in files.items() if f.exists())


def _head(claims: Sequence[Claim], verdicts: Mapping[str, str], records: Mapping[str, Record]) -> str:
    rows = []
    for paper in _own():
        mine = [c for c in claims if c.paper == paper]
        rows.append(_row(f"`{paper}`", mine, verdicts))
    rows.append(_row("all", claims, verdicts))
    listed = "\n".join(f"- `{k}`: {p.citation}" for k, p in _own().items())
    counts = Counter(verdicts.values())
    grades = strengths(claims)
    graded = "\n".join(f"| {grade} | {meaning} | {grades[grade]} |" for grade, meaning in GRADES.items())
    return f"""# The ledger: a verdict on every claim

Of {len(claims)} claims in {len(_own())} papers, **{counts["misprint"] + counts["wrong"]} fail as printed** \
({counts["wrong"]} wrong, {counts["misprint"]} misprints), {counts["holds under"]} hold only under an assumption \
that the paper does not state there, and {counts["holds"]} hold.

| paper | claims | {" | ".join(VERDICTS)} | proved in Coq beside the derivation, of the algebraic ones |
| --- | --- | {" | ".join("---" for _ in VERDICTS)} | --- |
{chr(10).join(rows)}

{listed}

How strong a verdict is:

| strength | meaning | claims |
| --- | --- | --- |
{graded}

{_code(claims, records)}

A verdict follows from evidence: *derived* (exact algebra from the model), *computed* (an oracle by another route, and the
float64 function), *simulated* (the model's raw noise, with declared error rates), *integrated* (exact means of that
simulation's quadratic statistics, in place of draws: the same model), *attacked* (search for counterexamples, mutants), and
*proved* (a Coq file generated from the claim, checked by `borrow prove`). `borrow show ID` prints all of a claim.

{_kinds(claims)}

An equality whose two sides are the same text would prove nothing: it is not stated, and a claim with nothing else to state
is not counted as proved by it ({_same_text(claims)} claims, listed at the end).

No machine sees that all judges of a claim have the same wrong model, that a domain is narrower than the
paper's sentence (each bound says why it is there), or that a letter means something else: `borrow show` prints model,
domain, assumptions and edits for readers. This page is generated by `borrow ledger` from the evidence that
`borrow verify` makes, and not edited.
""".replace("\\\n", "")


def _code(claims: Sequence[Claim], records: Mapping[str, Record]) -> str:
    found = counts(claims, records)
    found += Counter(undecided=found.pop("time", 0))  # how much is decided in a time differs between machines
    equal, proved = found.pop("equal", 0), sum(code_proofs.proved(c.id) for c in claims)
    others = "; ".join(f"{n} because {REASONS[state]}" for state, n in sorted(found.items()) if state in REASONS)
    return (
        f"The code that runs: of {equal + sum(found.values())} float64 functions {equal} have been run on letters, branch "
        f"by branch, and compute the claim's formula ({proved} of these equalities are proved in Coq, too). The others are "
        f"compared at points: {others}."
    )


def _row(name: str, claims: Sequence[Claim], verdicts: Mapping[str, str]) -> str:
    counts = Counter(verdicts[c.id] for c in claims)
    cells = " | ".join(str(counts[v]) for v in VERDICTS)
    return f"| {name} | {len(claims)} | {cells} | {_proved(claims)} |"


def _proved(claims: Sequence[Claim]) -> str:
    reasons = proof_files.unproved()
    algebraic = [c for c in claims if not reasons.get(c.id, "").startswith(proof_files.NOT_ALGEBRAIC)]
    return f"{sum(proof_files.path_of(c.id).exists() for c in claims)} of {len(algebraic)}"


def _kinds(claims: Sequence[Claim]) -> str:
    """How many claims are proved, and from what; a claim may be proved in two ways."""
    grades = Counter(proof_files.grade_of(c.id) for c in claims)
    files = sum(n for grade, n in grades.items() if grade)
    of_model = [c for c in claims if model_proofs.proved(c.id)]
    only = sum(not proof_files.grade_of(c.id) for c in of_model)
    theorems = sum(model_proofs.count_theorems(c.id) for c in of_model)
    return f"""Proved from what: {files} claims have a Coq file beside their derivation, {_theorems(claims)} theorems \
({grades["algebra"]}: the formula is what the derivation ends with, or bounds it, as algebra; {grades["interval"]}: so, by
enclosures of exponentials, logarithms and tails; {grades["definition"]}: of what the formula is of, by its definition; \
{grades["counterexample"]}: that
the printed formula fails, and nothing else).
{len(of_model)} are proved from the model, whose risks are expectations of squared errors, {theorems} theorems; \
{only} of them have no other proof, so that {files + only} claims are proved in one way at least and \
{len(claims) - files - only} in none. That running code computes a formula is proved beside this and counts for neither."""


def _theorems(claims: Sequence[Claim]) -> int:
    files = [proof_files.path_of(c.id) for c in claims]
    return sum(proof_files.count_theorems(f.read_text(encoding="utf-8")) for f in files if f.exists())


def _same_text(claims: Sequence[Claim]) -> int:
    reasons = proof_files.unproved()
    return sum(reasons.get(c.id) == SAME_TEXT for c in claims)


def _math(text: str) -> str:
    """Mathematics as GitHub renders it, safe from Markdown."""
    return f"$`{text}`$"


def _formula(claim: Claim, function: Any, record: Record) -> str:
    """A formula of the claim in the first case, or in that of the counterexample."""
    counterexample = record.levels["derived"].get("counterexample")
    case = claim.cases()[0]
    if counterexample:
        case = case_of(claim.variables, claim.point(counterexample["at"]))
    found = entries(claim.symbolic(function, case))
    shown = ["not printed" if e is None else _math(latex(e)) for e in found]
    if len(shown) == 1:
        return shown[0]
    names = claim.entries if len(claim.entries) == len(shown) else [f"entry {i + 1}" for i in range(len(shown))]
    return "; ".join(f"{n}: {t}" for n, t in zip(names, shown, strict=True))


def _value(text: Any) -> str:
    """A value for readers: exact where that is short, else a decimal."""
    if isinstance(text, list):
        return "(" + ", ".join(map(_value, text)) + ")"
    if len(str(text)) <= LONGEST:
        return str(text)
    try:
        return f"about {sp.N(sp.sympify(str(text)), 6)}"
    except (ValueError, TypeError, SyntaxError, AttributeError):  # a word, or a function that only the exact text names
        return str(text)


def _at(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {_value(v)}" for k, v in point.items())


def _counterexample(record: Record) -> str:
    found = record.levels["derived"].get("counterexample")
    if not found:
        return ""
    return f"at {_at(found['at'])}: printed {_value(found['printed'])}, right {_value(found['derived'])}"


def _routes(claim: Claim, record: Record) -> str:
    levels = record.levels
    derived = levels["derived"]
    points = levels["computed"]["points"]
    text = f"derivation in {derived['steps']} steps; the oracle, by another route, agrees at {points} points"
    if levels.get("simulated", {}).get("status") == "pass":
        text += "; simulation of the model"
    proof = proof_of(claim.id)
    right = proof_files.grade_of(claim.id) not in ("", "counterexample") or model_proofs.proved(claim.id)
    what = "of the right formula and that the printed one fails" if right else "that the printed one fails"
    return text + (f"; {proof} proof {what}" if proof else "")


def _folded(summary: str, lines: Sequence[str], indent: str = "") -> list[str]:
    """Lines that a reader opens."""
    return [
        f"{indent}<details><summary>{summary}</summary>",
        "",
        *(f"{indent}{line}" for line in lines),
        "",
        f"{indent}</details>",
    ]


def _errata(claims: Sequence[Claim], records: Mapping[str, Record], verdicts: Mapping[str, str]) -> str:
    failing = [c for c in claims if verdicts[c.id] in FAILING]
    lines = [
        "## Errata",
        "",
        f"{len(failing)} printed formulas or statements fail, each with an exact counterexample and independent routes that",
        "agree on the right one. By paper; what is wrong first, then slips of the pen.",
    ]
    for paper in _own():
        mine = sorted((c for c in failing if c.paper == paper), key=lambda c: FAILING.index(verdicts[c.id]))
        if mine:
            lines += ["", f"### {paper}", ""]
        for c in mine:
            lines += [
                f"- **{_words(c.sentence)}** {_link(c.id)}, *{_words(c.place)}* ({verdicts[c.id]}; {strength(c).short})",
                "",
            ]
            lines += [*_folded("printed, right, counterexample", _erratum(c, records[c.id]), "  "), ""]
    return "\n".join(lines) + "\n"


def _erratum(c: Claim, r: Record) -> list[str]:
    lines = [f"- {_words(c.title)}. {_words(c.statement)}"]
    if c.printed is not None:
        lines.append(f"- printed: {_formula(c, c.printed, r)}")
    if c.corrected is not None:
        note = f" ({_words(c.corrected_text)})" if c.corrected_text else ""
        lines.append(f"- correct: {_formula(c, c.corrected, r)}{note}")
    if c.slip:
        lines.append(f"- slip: {_words(c.slip)}")
    lines.append(f"- counterexample {_words(_counterexample(r))}")
    lines.append(f"- routes: {_routes(c, r)}")
    lines += [f"- read for {_math(e.printed)}: {_math(e.read)} ({_words(e.reason)})" for e in c.edits]
    lines += [f"- two judges share `{name}`: {_words(why)}" for name, why in c.shares.items()]
    return lines + ([f"- {_words(c.remark)}"] if c.remark else [])


def _conditions(claims: Sequence[Claim], records: Mapping[str, Record], verdicts: Mapping[str, str]) -> str:
    held = [c for c in claims if verdicts[c.id] == "holds under"]
    lines = ["## Hidden assumptions", "", f"{len(held)} claims hold under a condition that the paper does not state, or "
             "states elsewhere.", ""]  # fmt: skip
    rows = ["| claim | holds when | outside it |", "| --- | --- | --- |"]
    for c in held:
        rows.append(
            f"| {_link(c.id)} | {_cell(_words(c.condition_text))} | {_cell(_words(_counterexample(records[c.id])))} |"
        )
    return "\n".join([*lines, *_folded("all of them", rows)]) + "\n"


def _edits(claims: Sequence[Claim]) -> str:
    """Where the text is read otherwise than it stands."""
    edited = [c for c in claims if c.edits]
    rows = ["| claim | printed | read | why | another value |", "| --- | --- | --- | --- | --- |"]
    for c in edited:
        for e in c.edits:
            cells = (_link(c.id), _math(e.printed), _math(e.read), _words(e.reason), "yes" if e.changes_value else "no")
            rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    lines = ["## Edits", "", f"In {len(edited)} claims a formula is read otherwise than it stands.", ""]
    return "\n".join([*lines, *(_folded("all of them", rows) if edited else [])]) + "\n"


def _paper(paper: str, claims: Sequence[Claim], records: Mapping[str, Record], verdicts: Mapping[str, str]) -> str:
    lines = [
        f"## {paper}",
        "",
        papers()[paper].citation + ".",
        "",
        "Levels: derived, computed, simulated, integrated, attacked, independent, literal (`+` passed, `·` not applicable);",
        "mutants of the formula that the checks rejected; the proof.",
        "",
    ]
    rows = [
        "| claim | statement | verdict | strength | levels | mutants | proof |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for c in claims:
        r = records[c.id]
        levels = "".join(SHORT.get(r.levels.get(name, {}).get("status", ""), " ") for name in LEVELS)
        killed, equivalent = r.mutants.get("killed") or 0, r.mutants.get("equivalent") or 0
        verdict = f"**{verdicts[c.id]}**" + (" (ours)" if c.ours or c.printed is None else "")
        if verdicts[c.id] == "holds under":
            verdict += f" {_words(c.condition_text)}"
        elif verdicts[c.id] in FAILING:
            verdict += f": {_words(c.corrected_text)}" if c.corrected_text else ""
        elif verdicts[c.id] == "open":
            verdict += ": " + _words("; ".join(r.contradictions()))
        name = f'<a id="{_anchor(c.id)}"></a>`{c.id}`'
        statement = f"{_words(c.title)}. *{_words(c.place)}*"
        mutants = f"{killed}/{killed + equivalent}" if killed or equivalent else ""
        cells = (name, statement, verdict, strength(c).short, f"`{levels}`", mutants, proof_of(c.id) or "·")
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join([*lines, *_folded(f"{len(claims)} claims", rows)]) + "\n"


def _graph(claims: Sequence[Claim], records: Mapping[str, Record]) -> str:
    edges = [(c.id, lemma) for c in claims for lemma in records[c.id].levels["derived"].get("lemmas", ())]
    lines = [
        "## Dependencies",
        "",
        f"{len(edges)} times a derivation takes another claim's result; recorded while deriving.",
        "",
    ]
    rows = ["| derivation of | takes the result of |", "| --- | --- |"]
    for c in claims:
        lemmas = records[c.id].levels["derived"].get("lemmas", ())
        if lemmas:
            rows.append(f"| {_link(c.id)} | {', '.join(map(_link, lemmas))} |")
    return "\n".join([*lines, *_folded("all of them", rows)]) + "\n"


def _without_proof(claims: Sequence[Claim]) -> str:
    reasons = {i: reason for i, reason in proof_files.unproved().items() if any(c.id == i for c in claims)}

    def marked(claim_id: str) -> str:
        return _link(claim_id) + (r"\*" if model_proofs.proved(claim_id) else "")

    lines = [
        "## Claims without a Coq file beside their derivation",
        "",
        "Those marked * are proved from their model all the same; the others have no proof.",
    ]
    for category, meaning in proof_files.WITHOUT.items():
        mine = {i: reason for i, reason in reasons.items() if proof_files.category(reason) == category}
        lines += ["", f"### {category.capitalize()}", "", f"{len(mine)} claims: {meaning}.", ""]
        if category == SAME_TEXT:
            lines.append(", ".join(map(marked, mine)))
        elif mine:
            rows = ["| claim | reason |", "| --- | --- |"]
            rows += [f"| {marked(i)} | {_cell(reason.removeprefix(f'{category}: '))[:160]} |" for i, reason in mine.items()]
            lines += _folded("all of them", rows)
    return "\n".join(lines) + "\n"


__all__ = ["PAGE", "proof_of", "render"]
