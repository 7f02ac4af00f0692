"""Mutants of the formula that is judged right: the exact oracle must reject each, or it must be the same formula.

Belongs here: which formula, at which points, who rejects.  Does not belong here: making mutants (mutants.py).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import sympy as sp

from theory.engine import domain
from theory.engine.algebra import entries
from theory.engine.claim import Claim, tidy
from theory.engine.domain import Case
from theory.engine.levels.oracle import answer
from theory.engine.levels.points import stream_of, with_condition
from theory.engine.mutants import classify, mutants
from theory.engine.values import Values, differs, in_digits

MUTANT_POINTS = 16


def level(claim: Claim, derived: Mapping[str, Any], simulated: Mapping[str, Any]) -> dict[str, Any]:
    """Mutate the formula that is judged right and see that the exact oracle, or the simulation, rejects it."""
    tally: Counter[str] = Counter()
    survivors: list[str] = []
    by_simulation = 0
    seen = simulated.get("smallest_detectable")
    sampled = False
    for case in claim.cases():
        formula, condition = _judged_formula(claim, case, derived)
        if (
            condition
            and claim.condition
            and claim.symbolic(claim.condition, case) not in (True, sp.true)
            and _has_plain_case(claim)
        ):
            continue  # the printed formula is right on a slice of this case only; it is mutated in the other cases
        samples = _Remembered(_mutant_samples(claim, case, condition))
        first = next(iter(samples), None)
        if first is None:
            continue
        sampled = True
        for i, entry in enumerate(entries(formula)):
            if entry is None:
                continue
            for mutant in mutants(entry):
                truths = ((at, entries(truth)[i]) for at, truth in samples)
                fate = classify(mutant, entry, truths, lambda m, at: tidy(m.digits(at)), differs)
                tally[fate] += 1
                if fate == "survived":
                    survivors.append(f"{mutant.change} ({case.label() or 'one case'})")
                if fate == "killed" and seen is not None:
                    truth, value = (tidy(x) for x in (in_digits(entries(first[1])[i]), mutant.digits(first[0])))
                    if truth.is_finite and truth != 0 and value.is_finite:
                        by_simulation += bool(abs(value / truth - 1) > seen)
    if not sampled:
        return {"status": "unknown", "detail": "at no point that meets the condition does the oracle have a value"}
    return {
        "status": "fail" if survivors else "pass",
        "killed": tally["killed"],
        "equivalent": tally["equivalent"],
        "survived": tally["survived"],
        "also_seen_by_simulation": by_simulation,
        "survivors": survivors[:5],
    }


def _has_plain_case(claim: Claim) -> bool:
    assert claim.condition is not None
    return any(claim.symbolic(claim.condition, case) in (True, sp.true) for case in claim.cases())


def _judged_formula(claim: Claim, case: Case, derived: Mapping[str, Any]) -> tuple[Any, bool]:
    """The formula to mutate (the printed one where it is right) and whether it needs the claim's condition."""
    judgement = derived.get("judgement", "")
    if claim.printed is not None and claim.relation == "=" and judgement.startswith("agrees"):
        printed = claim.symbolic(claim.printed, case)
        # A printed constant (an excess of zero, a limit) has hardly any mutants; the formula behind it has.
        if any(getattr(e, "free_symbols", None) for e in entries(printed)):
            return printed, judgement != "agrees"
    if claim.corrected is not None:
        return claim.symbolic(claim.corrected, case), False
    return claim.derived(case), False


def _mutant_samples(claim: Claim, case: Case, condition: bool) -> Iterator[tuple[Values, Any]]:
    """Up to MUTANT_POINTS points of a case with the oracle's value."""
    rng = stream_of(claim, "mutants" + case.label())
    examples = [p for e in claim.examples if domain.case_of(claim.variables, p := claim.point(e)) == case]
    found = 0
    drawn = (domain.sample_point(claim.variables, case, rng) for _ in range(4 * MUTANT_POINTS - len(examples)))
    points = itertools.chain(examples, drawn)
    for point in with_condition(claim, points) if condition else points:
        if condition and not claim.holds_at(point):
            continue
        truth = answer(claim, point)
        if any(x is sp.nan for x in entries(truth)):
            continue
        yield Values(domain.substitution(claim.variables, case, point)), truth
        found += 1
        if found == MUTANT_POINTS:
            return


class _Remembered:
    """Iterate an expensive iterator several times; what was drawn once is kept. Most mutants die at the first point."""

    def __init__(self, source: Iterator[Any]):
        self.source = source
        self.kept: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        i = 0
        while True:
            if i == len(self.kept):
                try:
                    self.kept.append(next(self.source))
                except StopIteration:
                    return
            yield self.kept[i]
            i += 1
