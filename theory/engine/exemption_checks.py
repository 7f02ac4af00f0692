"""Whether an exemption stands: what each kind of reason asks of the claim that gives it.

Belongs here: the checks.  Does not belong here: the kinds in words (exemption.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import sympy as sp

from theory.engine import reach, registry
from theory.engine.algebra import entries
from theory.engine.assumption import taken
from theory.engine.claim import Claim
from theory.engine.exemption import FEW, Exempt

RANDOM = ("theory.engine.hierarchy", "theory.engine.bruteforce", "theory.engine.simulation", "estimators.montecarlo")
ARITHMETIC = (
    "exact",
    "fraction",
    "rational",
    "solve",
    "_solve",
    "_answer",
)  # of bruteforce: exact numbers and linear equations
ENUMERATORS = ("product", "combinations", "permutations", "binomial", "comb", "multinomial_coefficients")
RARE = 1e-4


Check = Callable[[Claim, Exempt], str]


def _closure(claim: Claim, *names: str) -> set[reach.Node]:
    found = reach.Reached()
    for name in names:
        reach.collect(reach.sources(), getattr(claim, name), found)
    return reach.sources().closure(found.nodes)


def _deterministic(claim: Claim, e: Exempt) -> str:
    if claim.kind == "probability":
        return "a probability is of something random"
    held = {m for m, name in _closure(claim, "derive", "oracle") if m.startswith(RANDOM) and name not in ARITHMETIC}
    return f"its judges reach {', '.join(sorted(held))}, which is about random variables" if held else ""


def _divergence(claim: Claim, e: Exempt) -> str:
    nodes = _closure(claim, "derive", "oracle", "computed")
    named = any(m.startswith("estimators.accounting") or "divergence" in n.lower() or "renyi" in n.lower() for m, n in nodes)
    words = f"{claim.title} {claim.statement} {claim.unit}".lower()
    named |= any(w in words for w in ("divergence", "privacy", "private", "rdp", "adversary"))
    return "" if named else "neither its judges nor its words speak of a divergence or of privacy"


def _enumerated(claim: Claim, e: Exempt) -> str:
    sources = reach.sources()
    held = reach.collect(sources, claim.oracle, reach.Reached())
    texts = [*held.texts, *(sources.text(n) for n in sources.closure(held.nodes))]
    return "" if any(f"'{n}'" in t for t in texts for n in ENUMERATORS) else "its oracle enumerates nothing"


def _leans(field: str) -> Check:
    """The claims that stand in have the judge that is missing here, and the derivation shares a lemma or steps with them."""

    def check(claim: Claim, e: Exempt) -> str:
        if not e.of:
            return "name in `of` the claims that stand in"
        for other_id in e.of:
            if not registry.known(other_id):
                return f"no claim has the id {other_id}"
            other = registry.find(other_id)
            if getattr(other, field) is None:
                return f"{other_id} has no {field} either"
            if not _related(claim, other):
                return f"the derivation takes nothing from {other_id}, and neither shares a step with it"
        return ""

    return check


def _related(claim: Claim, other: Claim) -> bool:
    if other.id in claim.related or claim.id in other.related or other.id in taken(claim):
        return True
    shared = _closure(claim, "derive", "oracle", "printed") & _closure(other, "derive", "oracle", "printed")
    # What the other one takes is asked last: that derives it, which is its own judging's work.
    return any(not module.startswith("theory.engine") for module, _ in shared) or claim.id in taken(other)


def _limit(field: str) -> Check:
    def check(claim: Claim, e: Exempt) -> str:
        if claim.kind != "limit" and claim.approach is None:
            return "the claim is no limit"
        return _leans(field)(claim, e)

    return check


def _rare(claim: Claim, e: Exempt) -> str:
    for example in claim.examples:
        for value in entries(claim.derived_at(claim.point(example))):
            number = abs(float(value))
            if RARE < number < 1 - RARE:
                return f"the probability is {number:.2g} at an example"
    return ""


def _arithmetic(claim: Claim, e: Exempt) -> str:
    return "" if claim.kind == "number" else "only claims of kind number are arithmetic on printed numbers"


def _simulates(claim: Claim, e: Exempt) -> str:
    sources = reach.sources()
    nodes = _closure(claim, "derive", "oracle")
    random = any(m.startswith("estimators.montecarlo") or "'default_rng'" in sources.text((m, n)) for m, n in nodes)
    return "" if random else "neither derivation nor oracle draws anything"


def _line(claim: Claim, e: Exempt) -> str:
    return "" if claim.kind == "algorithm line" else "the claim is no algorithm line"


def _few(claim: Claim, e: Exempt) -> str:
    most = max(sp.count_ops(x) for case in claim.cases() for x in entries(claim.derived(case)) if x is not None)
    return "" if most <= FEW else f"the formula has {most} operations: give the function"


def _constant(claim: Claim, e: Exempt) -> str:
    free = set().union(
        *(getattr(x, "free_symbols", set()) for case in claim.cases() for x in entries(claim.derived(case)) if x is not None)
    )
    return f"the value depends on {', '.join(map(str, free))}" if free else ""


def _elsewhere(claim: Claim, e: Exempt) -> str:
    module, _, name = e.function.rpartition(".")
    if not module.startswith("estimators."):
        return "name in `function` the function of estimators"
    try:
        found = hasattr(importlib.import_module(module), name)
    except ImportError:
        found = False
    return "" if found else f"estimators has no {e.function}"


def _refuted(claim: Claim, e: Exempt) -> str:
    return "" if claim.counterexample is not None and claim.condition is None else "the printed formula is not refuted"


def _outside(claim: Claim, e: Exempt) -> str:
    reached = {module for module, _ in _closure(claim, "derive", "oracle", "printed", "simulate")}
    # The room `system` holds what the engine itself runs on, and computes no estimate.
    held = sorted(m for m in reached if m.startswith("estimators.") and not m.startswith("estimators.system."))
    if held:
        return f"its judges reach {', '.join(held)}"
    near = [i for i in (*claim.related, *taken(claim)) if registry.known(i) and registry.find(i).computed is not None]
    return f"estimators computes {', '.join(near)}, on which it leans" if near else ""


SIMULATED: dict[str, Check] = {
    "deterministic": _deterministic,
    "divergence": _divergence,
    "enumerated": _enumerated,
    "limit": _limit("simulate"),
    "part": _leans("simulate"),
    "rare": _rare,
    "arithmetic": _arithmetic,
    "simulation": _simulates,
}
COMPUTED: dict[str, Check] = {
    "line": _line,
    "difference": _leans("computed"),
    "part": _leans("computed"),
    "limit": _limit("computed"),
    "enumerated": _enumerated,
    "arithmetic": _arithmetic,
    "few": _few,
    "constant": _constant,
    "elsewhere": _elsewhere,
    "refuted": _refuted,
    "divergence": _divergence,
    "outside": _outside,
}


def refused(claim: Claim, exempt: Exempt | None, kinds: dict[str, Check]) -> str:
    """Why an exemption does not stand, in words; empty where it does, and where there is none."""
    if exempt is None:
        return ""
    if exempt.kind not in kinds:
        return f"{exempt.kind!r} is no reason here; take one of {', '.join(kinds)}"
    wrong = kinds[exempt.kind](claim, exempt)
    return f"exemption {exempt.kind!r} does not stand: {wrong}" if wrong else ""


__all__ = ["COMPUTED", "SIMULATED", "refused"]
