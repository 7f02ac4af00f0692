"""Everything that is known of one claim, as plain data for pages: formulas as LaTeX, evidence, proof, code, a curve.

Belongs here: gathering, without judging anything. Does not belong here: HTML and drawing (``figures.report``), typesetting
of letters (notation.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import sympy as sp

from theory.chain import WAYS, chain
from theory.coq import code_proofs, model_proofs, proof_files
from theory.engine import domain, reach
from theory.engine.algebra import entries
from theory.engine.assumption import inherited, taken
from theory.engine.claim import Claim
from theory.engine.domain import Case, Point, Variable
from theory.engine.evidence import LEVELS, Record
from theory.engine.exemption import COMPUTED, text_of
from theory.engine.notation import latex, letter
from theory.engine.paper import papers
from theory.engine.traced import ways
from theory.strength import strength

POINTS = 33
READABLE, SHOWN = 60, 3  # operations of a traced formula, and how many of them, on a page
MEANING = {
    "derived": "exact algebra from the model",
    "computed": "an oracle by another route, and the float64 function, at points and as a formula",
    "simulated": "the model's raw noise, with declared error rates",
    "integrated": "exact means of the simulation's quadratic statistics, by a cubature in place of draws",
    "attacked": "search of the domain for a counterexample",
    "literal": "the paper's display, read by machine, is the printed formula",
    "independent": "what two judges share is machinery or packing",
}


def describe(claim: Claim, record: Record) -> dict[str, Any]:
    """What a page about the claim shows; every value is a plain Python one."""
    case = domain.case_of(claim.variables, claim.point(claim.examples[0]))
    derivation = claim.derivation(case)
    counterexample = record.levels["derived"].get("counterexample")
    return {
        "id": claim.id,
        "title": claim.title,
        "paper": claim.paper,
        "paper_title": papers()[claim.paper].citation,
        "place": claim.place,
        "kind": claim.kind,
        "statement": claim.statement,
        "latex": claim.latex,
        "relation": claim.relation,
        "ours": claim.ours or claim.printed is None,
        "unit": claim.unit,
        "variables": [_variable(v) for v in claim.variables],
        "assumptions": [*claim.assumptions, *(a.sentence for a in inherited(claim, taken(claim)))],
        "finding": claim.finding,
        "strength": strength(claim).short,
        "strength_text": strength(claim).text,
        "edits": [asdict(e) for e in claim.edits],
        "condition": claim.condition_text,
        "case": case.label(),
        "cases": len(claim.cases()),
        "printed": _formulas(claim, claim.printed, case),
        "corrected": _formulas(claim, claim.corrected, case),
        "derived": _entries(claim, derivation.result),
        "corrected_text": claim.corrected_text,
        "slip": claim.slip,
        "remark": claim.remark,
        "steps": [{"text": s.text, "latex": "" if s.formula is None else latex(s.formula)} for s in derivation.steps],
        "verdict": record.verdict(),
        "evidence": [
            {"level": name, "meaning": MEANING[name], **{k: record.levels[name][k] for k in ("status", "detail")}}
            for name in LEVELS
            if name in record.levels
        ],
        "mutants": {k: record.mutants.get(k) or 0 for k in ("killed", "equivalent", "survived")},
        "counterexample": counterexample and _counterexample(counterexample),
        "proof": _proof(claim.id),
        "chain": [asdict(step) | {"said": WAYS[step.way]} for step in chain(claim, record)],
        "traced": _traced(claim, record),
        "lemmas": list(record.levels["derived"].get("lemmas", ())),
        "related": list(claim.related),
        "code": _code(claim),
        "curve": curve(claim),
    }


def _variable(v: Variable) -> dict[str, Any]:
    return {"name": v.name, "latex": letter(v.name), "meaning": v.meaning, "domain": domain_text(v),
            "default": None if v.default is None else str(v.default)}  # fmt: skip


def domain_text(v: Variable) -> str:
    """Where a variable lives, in words."""
    if v.kind == "choice":
        return "one of " + ", ".join(map(str, v.choices))
    text = {
        "real": "any real number",
        "nonnegative": "at least 0" + (", or infinite" if v.within is None else ""),
        "positive": "above 0" + (", or infinite" if v.within is None else ""),
        "size": f"whole number from {v.low}",
        "fraction": "between 0 and 1" + (", ends included" if v.closed else ""),
    }[v.kind]
    if v.within is not None:
        reason = f" ({domain.BOUNDS[v.why]})" if v.why else ""
        text += f", judged from {v.within[0]} to {v.within[1]}{reason}"
    return ("a list of numbers: each " if v.lengths is not None else "") + text


def _entries(claim: Claim, value: Any) -> list[dict[str, str]]:
    found = entries(value)
    names = claim.entries if len(claim.entries) == len(found) else [""] * len(found)
    return [
        {"name": name, "latex": "" if e is None else latex(e), "text": "not printed" if e is None else sp.sstr(e)}
        for name, e in zip(names, found, strict=True)
    ]


def _formulas(claim: Claim, function: Callable[..., Any] | None, case: Case) -> list[dict[str, str]]:
    return [] if function is None else _entries(claim, claim.symbolic(function, case))


def _counterexample(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "at": [{"latex": letter(k), "name": k, "value": domain.in_line(v)} for k, v in found["at"].items()],
        "printed": domain.in_line(found["printed"]),
        "right": domain.in_line(found["derived"]),
    }


def _proof(claim_id: str) -> dict[str, Any]:
    path = proof_files.path_of(claim_id)
    statement = model_proofs.said(claim_id)
    about_code = code_proofs.path_of(claim_id)
    code = about_code.read_text(encoding="utf-8") if about_code.exists() else ""
    theorems = proof_files.count_theorems(code)
    if not path.exists():
        return {
            "text": "",
            "statement": statement,
            "code": code,
            "code_theorems": theorems,
            "reason": proof_files.unproved().get(claim_id, "none has been written"),
        }
    text = path.read_text(encoding="utf-8")
    return {
        "text": text,
        "statement": statement,
        "code": code,
        "code_theorems": theorems,
        "theorems": proof_files.count_theorems(text),
        "reason": "",
    }


def _traced(claim: Claim, record: Record) -> list[dict[str, str]]:
    """What the code computes in the first case, branch by branch, each formula once; nothing where it is not traced."""
    if record.levels["computed"].get("code", {}).get("state") != "equal":
        return []
    found = {e: None for way in ways(claim, claim.cases()[0]) if not way.narrow for e in way.computed}
    return [{"name": "", "latex": latex(e), "text": sp.sstr(e)} for e in found if e.count_ops() <= READABLE][:SHOWN]


def _code(claim: Claim) -> dict[str, Any]:
    sources = {
        name: inspect.getsource(function).strip()
        for name, function in (("derive", claim.derive), ("oracle", claim.oracle), ("computed", claim.computed))
        if function is not None and inspect.isfunction(function)
    }
    read = reach.sources()
    nodes = reach.collect(read, claim.computed, reach.Reached()).nodes
    nodes |= {used for node in nodes if node[0].startswith("theory.") for used in read.uses(node)}
    called = {".".join(node) for node in nodes if node[0].startswith("estimators.") and node[1].islower()}
    return {"sources": sources, "estimators": sorted(called), "why_not": text_of(claim.not_computed, COMPUTED)}


# --- a curve ---------------------------------------------------------------------------------------------------------


def curve(claim: Claim) -> dict[str, Any] | None:
    """The formula along one of its variables, through the example or the counterexample; None where there is no line.

    The value is `computed`, which the evidence compares with the derivation; `printed` is evaluated as printed.
    """
    starts = [claim.counterexample] if claim.counterexample and claim.condition is None else []
    numbers = [v for v in claim.variables if v.kind != "choice" and v.lengths is None]
    lists = [v for v in claim.variables if v.kind != "choice" and v.lengths is not None]
    # Numbers first, whole ones after; of a list the first entry moves.
    order = sorted(numbers, key=lambda v: v.kind == "size") + lists
    for start in [*starts, *claim.examples]:
        for v in order:
            # A variable that was left out follows from the others and cannot move alone.
            found = _along(claim, start, v) if v.name in start else None
            if found is not None:
                return found
    return None


def _along(claim: Claim, start: Mapping[str, Any], v: Variable) -> dict[str, Any] | None:
    point = claim.point(start)
    given = list(point[v.name]) if v.lengths is not None else [point[v.name]]
    if given[0] in (0, sp.oo):
        return None
    xs, right, printed = [], [], []
    for x in _sweep(v, float(given[0])):
        try:
            at = claim.point({**start, v.name: x if v.lengths is None else [x, *given[1:]]})
            value = _numbers(_right_value(claim, at))
            said = _numbers(claim.printed_at(at)) if claim.printed is not None else [None] * len(value)
        except (ValueError, ArithmeticError, TypeError):  # outside the domain, or a pole
            continue
        xs.append(x)
        right.append(value)
        printed.append(said)
    if len(xs) < 7 or len({len(row) for row in (*right, *printed)}) > 1:
        return None
    columns = [list(column) for column in zip(*right, strict=True)]
    said = [list(column) for column in zip(*printed, strict=True)]
    apart = [i for i, (r, p) in enumerate(zip(columns, said, strict=True)) if _apart(r, p)]
    varying = [i for i, r in enumerate(columns) if _apart(r, [r[len(r) // 2]] * len(r))]
    shown = [i for i in (apart or varying) if sum(y is not None for y in columns[i]) > len(xs) // 2]
    if not shown:
        return None
    i = shown[0]
    name = v.name if v.lengths is None else f"{v.name}_1"
    return {
        "x": xs,
        "name": name,
        "latex": letter(name),
        "meaning": v.meaning,
        "logarithmic": v.kind in ("positive", "nonnegative", "size") and min(xs) > 0 and max(xs) > 20 * min(xs),
        "right": columns[i],
        "printed": said[i] if any(y is not None for y in said[i]) else None,
        "differs": bool(apart),
        "entry": claim.entries[i] if len(claim.entries) == len(columns) else "",
        "example": float(given[0]),
        "at": [
            {"latex": letter(k), "value": domain.in_line(x)}
            for k, x in point.items()
            if k != v.name or v.lengths is not None
        ],
        "relation": claim.relation,
    }


def _sweep(v: Variable, centre: float) -> list[float]:
    reach = 3 * max(1.0, abs(centre))
    low, high = {
        "fraction": (0.02, 0.98),
        "real": (centre - reach, centre + reach),
        "size": (v.low, max(30 * centre, 200)),
    }.get(v.kind, (centre / 30, centre * 30))
    if v.within is not None:
        ends = [float(domain.exact(x)) for x in v.within]
        low, high = ends if v.kind == "fraction" else (max(low, ends[0]), min(high, ends[1]))
    if v.kind in ("fraction", "real"):
        return [float(f"{x:.4g}") for x in np.linspace(low, high, POINTS)]
    if v.kind == "size":
        return sorted({int(x) for x in np.geomspace(max(low, 1), high, POINTS).round()} | ({0} if low == 0 else set()))
    return [float(f"{x:.3g}") for x in np.geomspace(low, high, POINTS)] if 0 < low < high else []


def _right_value(claim: Claim, point: Point) -> Any:
    if claim.computed is None:
        return claim.derived_at(point)
    return claim.call(claim.computed, {k: domain.as_float(x) for k, x in point.items()})


def _numbers(value: Any) -> list[float | None]:
    found = []
    for e in entries(value) if not isinstance(value, np.ndarray | list) else np.ravel(value):
        x = float("nan") if e is None else float(e)
        found.append(x if np.isfinite(x) else None)
    return found


def _apart(a: list[float | None], b: list[float | None]) -> bool:
    return any(x is not None and y is not None and abs(x - y) > 1e-9 * (abs(x) + abs(y)) for x, y in zip(a, b, strict=True))


__all__ = ["curve", "describe", "domain_text"]
