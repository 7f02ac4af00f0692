"""The commands on claims: verify, prove, ledger, claims, show, evaluate.

Belongs here: reading arguments, printing, exit status (0 success, 1 a claim is not verified, 3 a proof is not decided in
its time). Does not belong here: mathematics, files other than the ledger, what all commands share (``borrow``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import sympy as sp
from tqdm import tqdm

from estimators.system import files
from estimators.system.processes import workers_for
from theory import api
from theory.chain import chain, state_of_code
from theory.coq import checker, code_proofs, model_proofs, proof_files, prove
from theory.coq.attack import run as attack
from theory.coq.terms import SAME_TEXT
from theory.engine.algebra import entries
from theory.engine.assumption import inherited, taken
from theory.engine.claim import Claim
from theory.engine.domain import DomainError, case_of, in_line
from theory.engine.evidence import DEFAULT_LEDGER, LEVELS, VERDICTS, Ledger, LedgerError, Record
from theory.engine.paper import papers
from theory.engine.problem import Problem
from theory.engine.registry import claims, find, malformed
from theory.engine.sampling import percent
from theory.strength import counts as strengths
from theory.strength import strength


def add_verify(p: argparse.ArgumentParser) -> None:
    """Add the arguments of `borrow verify`."""
    p.add_argument("ids", nargs="*", metavar="ID", help="claim ids (default: all)")
    p.add_argument("--paper", metavar="KEY", help="claims of one paper")
    p.add_argument("--quick", action="store_true", help="leave out the simulated and the integrated level")
    p.add_argument("--deep", action="store_true", help="simulations on nets see errors of 1e-5; all judged anew")
    p.add_argument("--fresh", action="store_true", help="make all evidence anew")
    p.add_argument("--ledger", type=Path, default=DEFAULT_LEDGER, help="evidence file (default: %(default)s)")
    p.add_argument("--jobs", type=int, help="worker processes (default: one per core)")
    p.add_argument("--mc-seed", default=None, help="root of the random streams: an integer, or 'any' for a new one")
    p.add_argument("--json", action="store_true", help="print JSON")
    p.set_defaults(run=_verify)


def add_prove(p: argparse.ArgumentParser) -> None:
    """Add the arguments of `borrow prove`."""
    p.add_argument("ids", nargs="*", metavar="ID", help="claim ids (default: all)")
    p.add_argument("--paper", metavar="KEY", help="claims of one paper")
    p.add_argument("--write", action="store_true", help="generate the proof files anew from the claims")
    p.add_argument("--fresh", action="store_true", help="run coqc also on files that it has accepted before")
    p.add_argument("--recheck", action="store_true", help="have coqchk check what coqc accepts")
    p.add_argument("--attack", action="store_true", help="also try to break what is stated, without coqc (as --write does)")
    p.add_argument("--jobs", type=int, help="worker processes (default: one per core)")
    p.add_argument("--json", action="store_true", help="print JSON")
    p.set_defaults(run=_prove)


def add_ledger(p: argparse.ArgumentParser) -> None:
    """Add the arguments of `borrow ledger`."""
    p.add_argument("--ledger", type=Path, default=DEFAULT_LEDGER, help="evidence file (default: %(default)s)")
    p.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    p.set_defaults(run=_ledger)


def add_claims(p: argparse.ArgumentParser) -> None:
    """Add the arguments of `borrow claims`."""
    p.add_argument("--paper", metavar="KEY", help="claims of one paper")
    p.add_argument("--ledger", type=Path, default=DEFAULT_LEDGER)
    p.add_argument("--json", action="store_true")
    p.set_defaults(run=_claims)


def add_show(p: argparse.ArgumentParser) -> None:
    """Add the arguments of `borrow show`."""
    p.add_argument("id", metavar="ID")
    p.add_argument("--ledger", type=Path, default=DEFAULT_LEDGER)
    p.add_argument("--json", action="store_true")
    p.set_defaults(run=_show)


def add_evaluate(p: argparse.ArgumentParser) -> None:
    """Add the arguments of `borrow evaluate`."""
    p.add_argument("id", metavar="ID")
    p.add_argument("--at", nargs="+", default=[], metavar="NAME=VALUE", help="a point; lists as 1,2,3")
    p.add_argument("--simulate", action="store_true", help="simulate the model at this point too")
    p.add_argument("--digits", type=int, metavar="N", help="with --simulate: integrate the model to N significant digits")
    p.add_argument(
        "--seconds", type=float, default=10, metavar="S", help="about how long on two cores (default: %(default)s)"
    )
    p.add_argument("--json", action="store_true")
    p.set_defaults(run=_evaluate)


# --- verify --------------------------------------------------------------------------------------------------------


def _root(text: str | None) -> int:
    if text is None:
        return api.DEFAULT_ROOT
    if text == "any":
        import secrets

        return secrets.randbits(63)
    try:
        root = int(text)
    except ValueError:
        raise ValueError(f"--mc-seed: expected an integer >= 0 or 'any', got {text!r}") from None
    if root < 0:
        raise ValueError(f"--mc-seed: expected an integer >= 0 or 'any', got {root}")
    return root


def _verify(a: argparse.Namespace) -> int:
    chosen = api.select(a.ids, a.paper)
    root = _root(a.mc_seed)
    bar = tqdm(total=len(chosen), unit="claim", disable=not sys.stderr.isatty(), file=sys.stderr)

    def progress(record: Record, reused: bool) -> None:
        bar.set_postfix_str(record.claim)
        bar.update()

    with bar:
        report = api.verify(
            a.ids, paper=a.paper, quick=a.quick, deep=a.deep, fresh=a.fresh, root=root, jobs=a.jobs, ledger=a.ledger,
            progress=progress,
        )  # fmt: skip
    _say_outdated(report.outdated)
    problems = report.problems()
    if a.json:
        data = {
            "ok": report.ok,
            "root": root,
            "reused": report.reused,
            "ledger": str(report.ledger),
            "counts": dict(report.counts()),
            "strength": strengths(find(r.claim) for r in report.records),
            "problems": problems,
            "malformed": [p.to_json() for p in report.malformed],
            "claims": {r.claim: r.to_json() for r in report.records},
        }
        print(json.dumps(data, indent=1))
        return 0 if report.ok else 1
    _verify_table(report.records)
    for claim_id, texts in problems.items():
        for text in texts:
            print(f"NOT VERIFIED  {claim_id}: {text}")
    _name_malformed(report.malformed)
    counts = report.counts()
    killed, equivalent, survived = (
        sum(r.mutants.get(k) or 0 for r in report.records) for k in ("killed", "equivalent", "survived")
    )
    print(
        f"\n{len(report.records)} claims: " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
        + f"; mutants: {killed} killed, {equivalent} proved equivalent, {survived} survived"
    )  # fmt: skip
    per_level = Counter(name for r in report.records for name in LEVELS if r.levels.get(name, {}).get("status") == "pass")
    print("evidence: " + ", ".join(f"{name} {per_level[name]}" for name in LEVELS))
    graded = strengths(find(r.claim) for r in report.records)
    print("strength: " + ", ".join(f"{grade} {number}" for grade, number in graded.items() if number))
    if report.reused:
        print(f"{report.reused} records were up to date and taken from the ledger (--fresh makes them anew)")
    print(f"ledger: {report.ledger}")
    return 0 if report.ok else 1


def _name_malformed(problems: Sequence[Problem]) -> bool:
    """Name on standard error what could not be read; whether there is any."""
    for p in problems:
        print(f"MALFORMED  {p}", file=sys.stderr)
    return bool(problems)


def _say_outdated(sentence: str) -> None:
    if sentence:
        print(f"borrow: {sentence}", file=sys.stderr)


def _verify_table(records: Sequence[Record]) -> None:
    width = max((len(r.claim) for r in records), default=10)
    columns = " ".join(name[:3] for name in LEVELS)
    head = f"{'claim':{width}}  {'verdict':11}  {columns}  {'max |z|':>7}  {'sees':>7}  {'mutants':>9}"
    print(head + "\n" + "-" * len(head))
    marks = {"pass": "+", "fail": "FAIL", "unknown": "?", "not applicable": "."}
    for r in records:
        shown = "".join(f"{marks.get(r.levels.get(name, {}).get('status', ''), ' '):^4}" for name in LEVELS)
        sim = r.levels.get("simulated", {})
        z = f"{sim['largest_z']:.2f}" if "largest_z" in sim else ""
        sees = percent(sim["smallest_detectable"]) if "smallest_detectable" in sim else ""
        killed, lived = r.mutants.get("killed"), r.mutants.get("survived")
        mutants = "" if killed is None else f"{killed}/{killed + lived + r.mutants['equivalent']}"
        print(f"{r.claim:{width}}  {r.verdict():11} {shown} {z:>7}  {sees:>7}  {mutants:>9}")


# --- prove -----------------------------------------------------------------------------------------------------------


def _prove(a: argparse.Namespace) -> int:
    chosen = api.select(a.ids, a.paper)
    of_code = code_proofs.with_code(chosen) if a.write else code_proofs.with_files(chosen)
    total = len(chosen) + len(model_proofs.with_models(chosen)) + len(of_code)
    bar = tqdm(total=total, unit="claim", disable=not sys.stderr.isatty(), file=sys.stderr)

    def progress(outcome: prove.Outcome) -> None:
        bar.set_postfix_str(outcome.claim)
        bar.update()

    with bar:
        make = [
            m.write if a.write else partial(m.check, fresh=a.fresh or a.recheck, again=a.recheck)
            for m in (prove, model_proofs, code_proofs)
        ]
        with files.locked(checker.WORK):  # its files have fixed names
            algebra, models, code = (m(chosen, jobs=a.jobs, progress=progress) for m in make)
    outcomes = [*algebra, *models, *code]
    broken = _name_malformed(() if a.ids else malformed(a.paper))
    attacks = attack.attack(chosen, workers_for(a.jobs)) if a.write or a.attack else {}
    faults = attack.broken(attacks)
    ok = all(o.ok for o in outcomes) and not broken and not faults
    proved = [o for o in algebra if o.state == "proved"]
    from_model = [o for o in models if o.state == "proved"]
    undecided = [o for o in outcomes if o.state == "undecided"]
    status = 0 if ok else 1 if broken or faults or any(not o.ok and o not in undecided for o in outcomes) else 3
    if a.json:
        of = {"claims": algebra, "models": models, "code": code}
        by_claim = {k: {o.claim: vars(o) for o in found} for k, found in of.items()}
        print(json.dumps({"ok": ok, "faults": faults, **by_claim}, indent=1))
        return status
    for o in outcomes:
        if o.state != "proved":
            print(f"{o.state.upper():9} {o.claim}{'' if o.grade == 'algebra' else f' ({o.grade})'}: {o.detail}")
    print(f"{len(proved)} of {len(algebra)} claims proved by coqc, {sum(o.theorems for o in proved)} theorems, "
          "nothing assumed beyond Coq's real numbers")  # fmt: skip
    if boxed := [o for o in proved if o.grade == "interval"]:
        print(f"{len(boxed)} of them by coq-interval's enclosures, which rest on its arithmetic of whole numbers too")
    if failing := [o for o in proved if o.grade == "counterexample"]:
        print(f"{len(failing)} of them that the printed formula fails, and nothing of the right one")
    if defined := [o for o in proved if o.grade == "definition"]:
        print(f"{len(defined)} of them about a law, an integral, a count or a best value, by its definition")
    if models:
        print(f"{len(from_model)} of {len(models)} claims that name a model proved from it, for every number of clients: "
              f"{sum(o.theorems for o in from_model)} theorems")  # fmt: skip
        at_all = {o.claim for o in (*proved, *from_model)}
        print(f"{len(at_all)} of {len(algebra)} claims proved in one way at least, {len(at_all) - len(proved)} of them from "
              "the model only")  # fmt: skip
    if code:
        about_code = [o for o in code if o.state == "proved"]
        print(f"{len(about_code)} of {len(code)} claims whose running code is proved to compute the formula: "
              f"{sum(o.theorems for o in about_code)} theorems")  # fmt: skip
    for fault in faults:
        print(f"FAULT     {fault}")
    if attacks:
        print(attack.summary(x for found in attacks.values() for x in found))
    same = sum(o.detail == SAME_TEXT for o in outcomes)
    if same:
        print(f"{same} claims are not counted: {SAME_TEXT}")
    if undecided:
        print(f"{len(undecided)} not decided: what is on file stays as it was")
    return status


# --- ledger ----------------------------------------------------------------------------------------------------------


def _ledger(a: argparse.Namespace) -> int:
    from theory import page

    store = Ledger.load(a.ledger)
    own = [c for c in claims() if papers()[c.paper].own]  # the page is the same whatever claim packs are installed
    if _name_malformed([p for p in malformed() if p.paper not in papers() or papers()[p.paper].own]):
        raise LedgerError("claims that cannot be read have no evidence; mend them first")
    missing = [c.id for c in own if store.fresh(c, api.DEFAULT_ROOT, False) is None]
    if missing:
        raise LedgerError(
            f"{a.ledger}: no up-to-date evidence on {len(missing)} claims ({missing[0]}, ...); run `borrow verify` first"
        )
    text = page.render(own, store.records)
    if a.check:
        same = page.PAGE.exists() and page.PAGE.read_text(encoding="utf-8") == text
        print(f"{page.PAGE.name} is up to date" if same else f"{page.PAGE.name} is out of date; run `borrow ledger`")
        return 0 if same else 1
    files.write(page.PAGE, text)
    print(f"wrote {page.PAGE}")
    return 0


# --- claims and show -------------------------------------------------------------------------------------------------


def _state(claim: Claim, ledger: Ledger) -> tuple[str, Record | None]:
    record = ledger.records.get(claim.id)
    if record is None:
        return "not verified yet", None
    if not record.current(claim):
        return "stale", record
    return record.verdict(), record


def _claims(a: argparse.Namespace) -> int:
    ledger = Ledger.load(a.ledger)
    _say_outdated(ledger.outdated)
    rows = [(c, _state(c, ledger)[0]) for c in claims(a.paper)]
    status = int(_name_malformed(malformed(a.paper)))
    if a.json:
        data = [
            {"claim": c.id, "title": c.title, "place": c.place, "kind": c.kind, "verdict": state,
             "strength": strength(c).short,
             "code": state_of_code(ledger.records[c.id]) or None if c.id in ledger.records else None,
             "variables": [v.name for v in c.variables]}
            for c, state in rows
        ]  # fmt: skip
        print(json.dumps(data, indent=1))
        return status
    width = max((len(c.id) for c, _ in rows), default=0)
    for c, state in rows:
        print(f"{c.id:{width}}  {state:16}  {c.title}")
    return status


def _show(a: argparse.Namespace) -> int:
    claim = find(a.id)
    ledger = Ledger.load(a.ledger)
    _say_outdated(ledger.outdated)
    state, record = _state(claim, ledger)
    if record is None or state == "stale":
        record, note = api.quick_record(claim.id), f"{state}; the two levels that decide, judged now"
        state = record.verdict()
    else:
        note = f"from {a.ledger}"
    case = case_of(claim.variables, claim.point(claim.examples[0]))
    derivation = claim.derivation(case)
    answers = inherited(claim, taken(claim))
    printed = None if claim.printed is None else _formula(claim.symbolic(claim.printed, case))
    corrected = _formula(claim.symbolic(claim.corrected, case)) if claim.corrected else None
    if a.json:
        data = {
            "claim": claim.id, "title": claim.title, "paper": papers()[claim.paper].citation, "place": claim.place,
            "kind": claim.kind, "statement": claim.statement, "latex": claim.latex, "printed": printed,
            "relation": claim.relation, "case": case.label(),
            "variables": {v.name: v.meaning for v in claim.variables}, "assumptions": list(claim.assumptions),
            "condition": claim.condition_text or None,
            "derivation": [{"text": s.text, "formula": None if s.formula is None else sp.sstr(s.formula)}
                           for s in derivation.steps],
            "derived": _formula(derivation.result), "corrected": corrected,
            "corrected_text": claim.corrected_text or None, "slip": claim.slip or None, "remark": claim.remark or None,
            "lemmas": derivation.lemmas, "related": list(claim.related), "proof": proof_files.summary(claim.id),
            "model": list(claim.model), "proof_from_model": model_proofs.summary(claim.id),
            "proof_of_code": code_proofs.summary(claim.id),
            "chain": [asdict(step) for step in chain(claim, record)],
            "finding": claim.finding or None, "strength": strength(claim).short,
            "assumes": [{"switch": a.switch, "answer": a.answer, "by": a.by} for a in answers],
            "edits": [asdict(e) for e in claim.edits],
            "verdict": state, "evidence": record.to_json(), "evidence_note": note,
        }  # fmt: skip
        print(json.dumps(data, indent=1))
        return 0
    print(f"{claim.id} — {claim.title}")
    print(f"  {papers()[claim.paper].citation}\n  {claim.place}\n")
    print(f"VERDICT  {state}" + (f" {claim.condition_text}" if state == "holds under" else ""))
    print(f"STRENGTH {strength(claim).text}")
    if state in ("misprint", "wrong") and claim.finding:
        print(f"FINDING  {claim.finding}")
    print(f"\nSTATEMENT ({claim.kind})\n  {claim.statement}\n  {claim.latex}")
    for a_ in claim.assumptions:
        print(f"  assumes: {a_}")
    for answer in answers:
        print(f"  assumes: {answer.sentence}" + (f" (by {answer.by})" if answer.by != claim.id else ""))
    for edit in claim.edits:
        changed = ", which changes the value" if edit.changes_value else ""
        print(f"  reads {edit.read} for the printed {edit.printed}{changed}: {edit.reason}")
    print("\nVARIABLES")
    for v in claim.variables:
        print(f"  {v.name:10} {v.meaning}" + (f" (default {v.default})" if v.default is not None else ""))
    label = f" for {case.label()}" if case.label() else ""
    if printed is not None:
        sign = {"=": "", "<=": "  (an upper bound)", ">=": "  (a lower bound)"}[claim.relation]
        print(f"\nPRINTED{label}{sign}\n  {printed}")
    if claim.corrected is not None:
        print(f"\nCORRECT{label}\n  {corrected}")
        if claim.corrected_text:
            print(f"  {claim.corrected_text}")
        if claim.slip:
            print(f"  slip: {claim.slip}")
    print(f"\nDERIVATION{label}\n{derivation.render()}")
    print(f"\nEVIDENCE ({note})")
    for name in LEVELS:
        level = record.levels.get(name)
        if level is not None:
            print(f"  {name:10} {level['status']}: {level['detail']}")
    counterexample = record.levels["derived"].get("counterexample")
    if counterexample:
        at = ", ".join(f"{k}={in_line(v)}" for k, v in counterexample["at"].items())
        print(f"  counterexample at {at}:\n    printed {in_line(counterexample['printed'])}, "
              f"right {in_line(counterexample['derived'])}")  # fmt: skip
    m = record.mutants
    if m.get("killed") is not None:
        print(f"  mutants    {m['killed']} killed, {m['equivalent']} proved equivalent, {m['survived']} survived")
    print("\nFROM THE SENTENCE TO THE NUMBER")
    for step in chain(claim, record):
        print(f"  {step.text}")
    if claim.remark:
        print(f"\nREMARK\n  {claim.remark}")
    if claim.model:
        print("\nABOUT THE MODEL  " + ", ".join(claim.model) + " (theory/coq/model.py)")
    about_model = model_proofs.summary(claim.id)
    about_code = code_proofs.summary(claim.id)
    proofs = {"PROOF FROM THE MODEL": about_model, "PROOF": proof_files.summary(claim.id), "PROOF OF THE CODE": about_code}
    for where, proof in proofs.items():
        if proof:
            print(f"\n{where}\n  {proof}")
    if derivation.lemmas:
        print("\nTAKES THE RESULTS OF  " + ", ".join(derivation.lemmas))
    if claim.related:
        print("\nSEE ALSO  " + ", ".join(claim.related))
    return 0


def _formula(value: Any) -> str:
    parts = ["not printed" if e is None else sp.sstr(e) for e in entries(value)]
    return parts[0] if len(parts) == 1 else "(" + ", ".join(parts) + ")"


# --- evaluate --------------------------------------------------------------------------------------------------------


def read_point(pairs: Sequence[str]) -> dict[str, Any]:
    """`name=value` texts as a dict; a value with commas is a list. Raises DomainError."""
    point: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or not value:
            raise DomainError(f"--at: expected NAME=VALUE, got {pair!r}")
        if name in point:
            raise DomainError(f"{name}: given twice")
        point[name] = value.strip("[]").split(",") if "," in value or value.startswith("[") else value
    return point


def _evaluate(a: argparse.Namespace) -> int:
    claim = find(a.id)
    point = read_point(a.at)
    lists = {v.name for v in claim.variables if v.lengths is not None}
    point = {k: [v] if k in lists and not isinstance(v, list) else v for k, v in point.items()}
    if a.digits is not None and not a.simulate:
        raise ValueError("--digits: say --simulate too; derived values have all digits")
    result = api.evaluate(a.id, simulate=a.simulate, digits=a.digits, seconds=a.seconds, **point)
    if a.json:
        print(json.dumps(result, indent=1))
        return 0
    print(f"{a.id} — {claim.title}")
    print("  at " + ", ".join(f"{k}={in_line(v)}" for k, v in result["at"].items()))
    if "entries" in result:
        print("  entries: " + ", ".join(result["entries"]))
    printed = "not printed" if result["printed"] is None else in_line(result["printed"])
    print(f"  printed   {printed}")
    print(f"  derived   {in_line(result['derived'])}")
    if "relation" in result:
        print(f"  claimed   {result['relation']}")
    if "simulated" in result:
        s = result["simulated"]
        if s["value"] is None:
            print(f"  simulated not possible: {s['why']}")
        else:
            print(f"  simulated {in_line(s['value'])} ± {in_line(s['standard_error'])} ({s['replicates']} replicates)")
        if "sure" in s:
            print(f"  {s['sure']}")
    for v in result.get("variants", ()):
        switch = next(k for k in v if k not in ("meaning", "derived"))
        print(f"  with {switch}={v[switch]}: derived {in_line(v['derived'])}")
    print(f"  verdict   {result['verdict']}", end="")
    print(f" {result['condition']}" if result["verdict"] == "holds under" else "")
    if "condition_holds" in result and not result["condition_holds"]:
        print("  (this point lies outside the condition)")
    return 0
