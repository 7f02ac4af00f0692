"""Judging one claim: the levels of evidence, each an exact or a calibrated decision.

Belongs here: how each level decides and what it records. Does not belong here: the verdict rule (evidence.py),
running many claims (api.py), mathematics of a paper.

derived    printed against the derivation, as an identity or a sign certificate on the whole domain, case by case
computed   derivation against the oracle in exact numbers; float64 function of `estimators` against both, at points and
           (where it can be run on letters) as a formula
simulated  the model's raw noise against the derived value, with declared error rates
attacked   a search of the domain for points that break the verdict; mutants must be rejected
literal    the paper's display, read by machine, is the printed formula, or differs by declared edits only
independent  what two judges share is machinery, packing of arguments, or declared with a reason
"""

from __future__ import annotations

import itertools
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

import numpy as np
import sympy as sp

from theory.engine import domain, exemption, exemption_checks, independence, intervals, reach
from theory.engine.algebra import TimeLimit, covers, entries, entrywise, is_zero, nonnegative
from theory.engine.assumption import contradictions, inherited
from theory.engine.claim import Claim, tidy
from theory.engine.condition import alternatives, met, on_condition, substitutions
from theory.engine.domain import Case, Point, as_float, as_text
from theory.engine.evidence import Record, source_hash
from theory.engine.literal import literal
from theory.engine.mutants import classify, mutants
from theory.engine.sampling import DEEP, SEEN, in_words, performed
from theory.engine.simulation import Simulation
from theory.engine.traced import traced
from theory.engine.values import DIGITS, Values, differs, in_digits

FLOAT_TOLERANCE = 1e-12  # relative; 64-bit closed forms keep 12 of 16 digits on the whole domain
POINTS_PER_CASE = 3
EXTREME_PER_CASE = 4
COVER_PER_CASE = 8
ATTACK_POINTS = 60
SIMULATED_EXAMPLES = 2
MUTANT_POINTS = 16
RATIO_DIGITS = 12  # of a bound's stated slack, where it is not rational
SHOWN = 3  # of what makes judges dependent
SLIP_LEAVES = 2  # a slip of the pen changes at most so many letters or numbers of a formula


def judge(claim: Claim, root: int, quick: bool = False, deep: bool = False) -> Record:
    """All levels of evidence on a claim. Errors of a level become its status, never an exception.

    `quick` leaves out the simulated level; `deep` has simulations on nets see ten times smaller errors.
    """
    start = time.perf_counter()
    record = Record(claim.id, "", root, quick)
    record.levels["derived"] = _guard(_derived, claim)
    global _answers
    _answers = {}  # the oracle is asked once for each point
    try:
        record.levels["computed"] = _guard(_computed, claim, record.levels["derived"])
        if not quick:
            record.levels["simulated"] = _guard(_simulated, claim, root, DEEP if deep else SEEN)
        record.levels["attacked"] = _guard(_attacked, claim, record.levels["derived"])
        record.mutants = _guard(_mutants, claim, record.levels["derived"], record.levels.get("simulated", {}))
    finally:
        _answers = None
    record.levels["independent"] = _guard(_independent, claim)
    record.levels["literal"] = _guard(_literal, claim)
    record.source, record.tree = source_hash(claim, record.lemmas), reach.sources().tree
    record.seconds = time.perf_counter() - start
    return record


def judge_exactly(claim: Claim, root: int) -> Record:
    """The two levels that a verdict follows from, for a quick answer; such a record is not kept in a ledger."""
    record = Record(claim.id, "", root, True)
    record.levels["derived"] = _guard(_derived, claim)
    record.levels["computed"] = _guard(_computed, claim, record.levels["derived"])
    return record


def _guard(level: Any, *arguments: Any) -> dict[str, Any]:
    try:
        return level(*arguments)
    except TimeLimit as error:
        return {"status": "unknown", "detail": str(error)}
    except Exception as error:  # a defect of one claim must not stop the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
        return {"status": "unknown", "detail": f"{type(error).__name__}: {error} ({place})"}


def _rng(claim: Claim, purpose: str) -> np.random.Generator:
    """A stream fixed by the claim's id, so that the points tried do not depend on order or workers."""
    return np.random.default_rng(np.random.SeedSequence([crc32(claim.id.encode()), crc32(purpose.encode())]))


# --- derived -----------------------------------------------------------------------------------------------------


def _derived(claim: Claim) -> dict[str, Any]:
    level: dict[str, Any] = {"status": "pass", "steps": len(claim.derivation(claim.cases()[0]).steps)}
    lemmas = dict.fromkeys(x for case in claim.cases() for x in claim.derivation(case).lemmas)
    level["lemmas"] = list(lemmas)  # and every case must derive, whatever the judgement
    answers = inherited(claim, lemmas)
    level["assumes"] = [[a.switch, a.answer, a.by] for a in answers]
    if apart := contradictions(answers):
        return level | {"status": "unknown", "detail": "; ".join(apart)}
    if claim.printed is None:
        level |= {"judgement": "agrees", "detail": "the paper prints no formula; derived here"}
        return level | _check_corrected(claim)
    counterexample = find_counterexample(claim) if claim.condition is not None or claim.corrected else None
    refuted = counterexample is not None and claim.condition is None
    agrees, how = (False, set()) if refuted else _agreement(claim)
    left_out = _left_out(claim) if "signs" in how else None
    if left_out is not None:
        at = ", ".join(f"{k} = {as_text(v)}" for k, v in left_out.items())
        return {"status": "unknown", "detail": f"the sign certificate leaves out a part of the domain, such as {at}"}
    if agrees and claim.relation != "=":
        if claim.tight is None:
            detail = "a bound that holds needs tight: where it is attained, or a witness of its slack"
            return level | {"status": "unknown", "detail": detail}
        level["tight"] = slack(claim)
        if level["tight"]["wrong"]:
            return level | {"status": "fail", "detail": level["tight"]["wrong"]}
    if agrees and claim.condition is None:
        changed = next((e for e in claim.edits if e.changes_value), None)
        if changed is not None:
            detail = f"it agrees only because {changed.printed} is read as {changed.read}, which changes the value"
            return level | {"status": "fail", "detail": detail}
        level |= {"judgement": "agrees", "detail": _agreement_text(claim, how)}
        return level
    counterexample = counterexample or find_counterexample(claim)
    if counterexample is None:
        detail = "no exact counterexample found and no certificate that the printed relation holds"
        return {"status": "unknown", "detail": detail}
    level["counterexample"] = _describe(claim, counterexample)
    if claim.condition is not None:
        met_at, nowhere = condition_met(claim)
        if nowhere:
            return level | {"status": "fail", "detail": nowhere}
        level["condition_met_at"] = met_at
        if not agrees:
            return level | {
                "status": "fail",
                "detail": f"the printed formula fails even when {claim.condition_text}",
            }
        level["judgement"] = "agrees under the condition"
        level["detail"] = f"{_agreement_text(claim, how)} when {claim.condition_text}"
        return level
    level |= {"judgement": "differs", "detail": "printed minus derived is not zero"}
    if claim.corrected is None:
        return level | {"status": "fail", "detail": "the printed formula fails and no corrected one is given"}
    plain = [c for c in claim.cases() if all(c.choices[v.name] == v.default for v in claim.switches)]
    level["slip"] = bool(claim.slip and plain) and all(_is_slip(claim, case) for case in plain)
    return level | _check_corrected(claim)


def _check_corrected(claim: Claim) -> dict[str, Any]:
    """The corrected formula must be the derived one in every case."""
    for case in claim.cases() if claim.corrected is not None else ():
        assert claim.corrected is not None
        corrected = claim.symbolic(claim.corrected, case)
        if not all(_same(a, b) for a, b in zip(entries(corrected), entries(claim.derived(case)), strict=True)):
            return {
                "status": "fail",
                "detail": f"the corrected formula is not the derived one ({case.label()})",
            }
    return {}


def _agreement(claim: Claim) -> tuple[bool, set[str]]:
    """Whether the printed relation holds wherever the condition does, and what shows it."""
    assert claim.printed is not None
    agrees, how = True, set()
    for case in claim.cases():
        printed, derived = claim.symbolic(claim.printed, case), claim.derived(case)
        # With a condition, what holds outside it does not matter here: the counterexample shows what does not.
        condition = True if claim.condition is None else claim.symbolic(claim.condition, case)
        for relations in alternatives(condition):
            rules, _ = substitutions(relations)
            held, ways = _relation_holds(claim, case, printed, derived, rules)
            agrees &= held
            how |= ways
    return agrees, how


def _agreement_text(claim: Claim, how: set[str]) -> str:
    if claim.relation == "=":
        return "printed minus derived is zero"
    if "intervals" in how:
        return "the bound is certified in ball arithmetic on the whole domain"
    return "sign certificate for the bound" if "signs" in how else "the bound is an equality"


def _same(a: Any, b: Any) -> bool:
    a, b = sp.sympify(a), sp.sympify(b)
    if a is sp.nan or b is sp.nan:  # no value is not a value that agrees
        return False
    return a == b or (a - b != sp.nan and is_zero(a - b))


def _relation_holds(claim: Claim, case: Case, printed: Any, derived: Any, rules: Mapping[Any, Any]) -> tuple[bool, set[str]]:
    """Whether the claimed relation holds for all symbols (after substituting `rules`), and what shows it."""
    if all(p is None for p in entries(printed)):
        raise ValueError("no entry of the formula is printed, so that there is nothing to compare")
    how: set[str] = set()
    for p, d in zip(entries(printed), entries(derived), strict=True):
        if p is None:
            continue
        p, d = (sp.sympify(x).subs(rules) for x in (p, d))
        if _same(p, d):
            continue
        if claim.relation == "=":
            return False, set()
        gap = d - p if claim.relation == ">=" else p - d
        if gap.is_rational_function() and all(nonnegative(gap, shifts) is True for shifts in claim.shifted(case)):
            how.add("signs")
        elif intervals.nonnegative(gap, domain.box(claim.variables, case)) is True:
            how.add("intervals")
        else:
            return False, set()
    return True, how


def _left_out(claim: Claim) -> Point | None:
    """A point of the domain, and of the condition, to which no substitution of the sign certificate leads."""
    for point in (*map(claim.point, claim.examples), *_points(claim, "cover", COVER_PER_CASE * len(claim.cases()))):
        case = domain.case_of(claim.variables, point)
        values = domain.substitution(claim.variables, case, point)
        if claim.holds_at(point) and not any(covers(shifts, values) for shifts in claim.shifted(case)):
            return point
    return None


def condition_met(claim: Claim) -> tuple[dict[str, Any], str]:
    """A point of the domain that meets the condition, and what is wrong: each of its alternatives must be met somewhere."""
    first: dict[str, Any] = {}
    for case in claim.cases():
        for relations in alternatives(claim.symbolic(claim.condition, case)) if claim.condition else ():
            point = met(claim, case, relations)
            if point is None or not claim.holds_at(point):
                what = " and ".join(map(str, relations)) or claim.condition_text
                where = f" ({case.label()})" if case.label() else ""
                return {}, f"no point of the domain was found at which the condition {what} holds{where}"
            first = first or {k: as_text(v) for k, v in point.items()}
    return first, "" if first else "the condition holds nowhere"


def _leaves(expression: Any) -> Counter[str]:
    return Counter(str(leaf) for leaf in sp.preorder_traversal(sp.sympify(expression)) if not leaf.args)


def _is_slip(claim: Claim, case: Case) -> bool:
    """Whether printed and corrected formula differ in few letters only."""
    assert claim.printed is not None
    assert claim.corrected is not None
    for p, c in zip(
        entries(claim.symbolic(claim.printed, case)),
        entries(claim.symbolic(claim.corrected, case)),
        strict=True,
    ):
        a, b = _leaves(p), _leaves(c)
        if max((a - b).total(), (b - a).total()) > SLIP_LEAVES:
            return False
    return True


def slack(claim: Claim) -> dict[str, Any]:
    """What the claim's `tight` says, checked: the ratio at the point, and what is wrong (empty when all is well)."""
    assert claim.tight is not None
    assert claim.printed is not None
    point = claim.point(claim.tight.at)
    at = {k: as_text(v) for k, v in point.items()}
    # A ratio that is stated exactly is not judged by digits.
    derived = claim.derived_digits(point) if "." in claim.tight.ratio else claim.derived_at(point)
    pairs = zip(entries(claim.at(claim.printed, point)), entries(derived), strict=True)
    bound, value = next((sp.sympify(p), sp.sympify(t)) for p, t in pairs if p is not None)
    if not claim.holds_at(point):
        return {"at": at, "wrong": "the point of tight does not meet the condition"}
    if value == 0:
        found = sp.Integer(1) if bound == 0 else sp.oo
    else:
        found = sp.nsimplify(bound / value) if (bound / value).is_Rational else sp.N(bound / value, 30)
    stated = claim.tight.exact
    digits = len(claim.tight.ratio.replace(".", "").lstrip("0")) if "." in claim.tight.ratio else 0
    exact = not digits and found == stated
    if not exact and not (digits >= 6 and abs(found / stated - 1) < sp.Rational(1, 10 ** (min(digits, RATIO_DIGITS) - 1))):
        said = as_text(found) if found.is_Rational else str(sp.N(found, RATIO_DIGITS))
        return {"at": at, "wrong": f"the bound is {said} times what it bounds there, and not {claim.tight.ratio}"}
    return {"at": at, "ratio": claim.tight.ratio, "wrong": ""}


_answers: dict[Any, Any] | None = None  # while one claim is judged: levels share their first points, the examples


def _answer(claim: Claim, point: Point) -> Any:
    """The oracle's value at a point."""
    if _answers is None:
        return claim.at(claim.oracle, point)
    key = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in point.items())
    if key not in _answers:
        _answers[key] = claim.at(claim.oracle, point)
    return _answers[key]


# --- points ------------------------------------------------------------------------------------------------------


def _points(claim: Claim, purpose: str, count: int, extreme: bool = False) -> Iterator[Point]:
    """`count` random points of the domain, going round the cases."""
    rng = _rng(claim, purpose)
    all_cases = claim.cases()
    for i in range(count):
        case = all_cases[i % len(all_cases)]
        yield domain.sample_point(claim.variables, case, rng, extreme)


def _with_condition(claim: Claim, points: Iterator[Point]) -> Iterator[Point]:
    """The points, and after each those on the claim's condition that it leads to: random ones hardly meet an equation."""
    for point in points:
        yield point
        yield from on_condition(claim, point)


def oracle_points(claim: Claim) -> list[Point]:
    """Where oracle, derivation and float function are compared: the examples, and points of every case."""
    return [*map(claim.point, claim.examples), *_points(claim, "oracle", POINTS_PER_CASE * len(claim.cases()))]


def extreme_points(claim: Claim) -> list[Point]:
    """Where the float function is compared with the derivation besides."""
    return list(_points(claim, "extreme", EXTREME_PER_CASE * len(claim.cases()), extreme=True))


def attack_points(claim: Claim, extreme: bool) -> Iterator[Point]:
    """Where the printed formula is attacked."""
    rounds = max(ATTACK_POINTS, 2 * len(claim.cases()))
    return _with_condition(claim, _points(claim, f"attack{extreme}", rounds, extreme))


def violates(claim: Claim, printed: Any, truth: Any) -> bool:
    """Whether the claimed relation between printed and true values fails at a point."""
    for p, t in zip(entries(printed), entries(truth), strict=True):
        if p is None or not differs(p, t):
            continue
        if claim.relation == "=":
            return True
        # SymPy compares expressions by expanding them, which takes long; these two are known to differ in 35 digits.
        p, t = (x if x.is_Rational or x in (sp.oo, -sp.oo) else in_digits(x) for x in (sp.sympify(p), sp.sympify(t)))
        if t < p if claim.relation == ">=" else t > p:
            return True
    return False


def find_counterexample(claim: Claim) -> Point | None:
    """The first exact point where printed and derived value break the relation: hints first, then a search."""
    assert claim.printed is not None
    hints = [claim.counterexample] if claim.counterexample else []
    candidates = [claim.point(h) for h in (*hints, *claim.examples)]
    for point in (*candidates, *_points(claim, "counterexample", 40 * len(claim.cases()))):
        try:
            printed, truth = claim.at(claim.printed, point), claim.derived_digits(point)
        except ZeroDivisionError:
            continue
        if any(x is sp.nan for x in (*entries(printed), *entries(truth))):
            continue
        if violates(claim, printed, truth) and (claim.condition is None or not claim.holds_at(point)):
            return point
    return None


def _describe(claim: Claim, point: Point) -> dict[str, Any]:
    assert claim.printed is not None
    return {
        "at": {k: as_text(v) for k, v in point.items()},
        "printed": as_text(claim.at(claim.printed, point)),
        "derived": as_text(claim.derived_at(point)),
    }


# --- computed ----------------------------------------------------------------------------------------------------


def _computed(claim: Claim, derived: Mapping[str, Any]) -> dict[str, Any]:
    small = oracle_points(claim)
    worst, points_compared = 0.0, 0
    for point in small:
        truth = _answer(claim, point)
        other = claim.derived_digits(point)
        pairs = list(zip(entries(truth), entries(other), strict=True))
        if all(a is b and a in (None, sp.nan) for a, b in pairs):
            continue  # no value to compare
        for a, b in pairs:
            if differs(a, b):
                at = {k: as_text(v) for k, v in point.items()}
                detail = f"oracle {as_text(a)} and derivation {as_text(b)} disagree at {at}"
                return {"status": "fail", "detail": detail}
        worst = max(worst, float_error(claim, point, truth))
        points_compared += 1
    if not points_compared:
        return {"status": "unknown", "detail": "oracle and derivation have a value together at no point tried", "points": 0}
    far = extreme_points(claim)
    for point in far if claim.computed is not None else ():
        worst = max(worst, float_error(claim, point, claim.derived_digits(point)))
    level: dict[str, Any] = {
        "status": "pass" if worst <= FLOAT_TOLERANCE else "fail",
        "detail": f"oracle equals derivation at {points_compared} points"
        + (
            f"; float64 within {worst:.1e} of exact"
            if claim.computed is not None
            else f"; {exemption.text_of(claim.not_computed, exemption.COMPUTED)}"
        ),
        "points": points_compared,
        "extreme_points": len(far),
        "largest_relative_error": worst if np.isfinite(worst) else "inf",
    }
    if claim.computed is not None:
        run = traced(claim)
        level["code"] = {"state": run.state, "detail": run.text}
        if run.state == "differs":
            level |= {"status": "fail", "detail": run.text}
    refused = (
        exemption_checks.refused(claim, claim.not_computed, exemption_checks.COMPUTED) if claim.computed is None else ""
    )
    if refused:
        level |= {"status": "unknown", "detail": refused}
    if "counterexample" in derived:
        assert claim.printed is not None
        point = claim.point(derived["counterexample"]["at"])
        level["counterexample_confirmed"] = violates(claim, claim.at(claim.printed, point), _answer(claim, point))
    return level


def _not_computed(claim: Claim) -> str:
    return exemption.text_of(claim.not_computed, exemption.COMPUTED)


def float_error(claim: Claim, point: Point, truth: Any) -> float:
    """Largest relative error of the float64 function at a point whose coordinates it gets as floats."""
    if claim.computed is None:
        return 0.0
    value = claim.call(claim.computed, {k: as_float(v) for k, v in point.items()})
    values = [float(v) for v in np.atleast_1d(np.asarray(value, float))]
    worst = 0.0
    for got, want in zip(values, entries(truth), strict=True):
        if not np.isfinite(got) and want is not sp.oo:
            worst = np.inf
        elif want is sp.oo or want == 0:
            fine = got == (np.inf if want is sp.oo else 0.0)
            worst = max(worst, 0.0 if fine else np.inf)
        else:
            worst = max(worst, float(abs(sp.Float(got, DIGITS) / in_digits(want) - 1)))
    return worst


# --- simulated ---------------------------------------------------------------------------------------------------


def _simulated(claim: Claim, root: int, detectable: float = SEEN) -> dict[str, Any]:
    if claim.simulate is None:
        refused = exemption_checks.refused(claim, claim.not_simulated, exemption_checks.SIMULATED)
        if refused:
            return {"status": "unknown", "detail": refused}
        return {"status": "not applicable", "detail": exemption.text_of(claim.not_simulated, exemption.SIMULATED)}
    done = []
    for i, example in enumerate(claim.examples[:SIMULATED_EXAMPLES]):
        point = claim.point(example)
        simulation = simulate_at(claim, point)
        if simulation is not None:
            done.append(performed(simulation, derived_floats(claim, point), f"{claim.id}#{i}", root, detectable))
    if not done:
        return {"status": "unknown", "detail": "no example could be simulated"}
    results = [r for p in done for r in p.results]
    failed = [r for r in results if not r.passed]
    blunt = [r for r in results if not r.reached]
    level = {
        "status": "fail" if failed else "unknown" if blunt else "pass",
        "checks": len(results),
        "largest_z": max(abs(r.z) for r in results),
        "smallest_detectable": max(r.smallest_detectable for r in results),
        "replicates": sum(r.reps for r in results),
        "second_stages": sum(r.stages > 1 for r in results),
        "methods": [p.method for p in done],
    }
    level["detail"] = (
        "; ".join(f"{r.label}: {r.estimate:.6g} against the claim, z = {r.z:.2f}" for r in failed)
        if failed
        else f"a check cannot see errors of 1 %, only of {max(r.smallest_detectable for r in blunt):.1%}"
        if blunt
        else f"largest |z| {level['largest_z']:.2f}; {in_words(done)}"
    )
    return level


def simulate_at(claim: Claim, point: Point) -> Simulation | None:
    """The claim's simulation at a point, built without the claim's value (None where there is none)."""
    assert claim.simulate is not None
    return claim.call(claim.simulate, {k: as_float(v) for k, v in point.items()})


def derived_floats(claim: Claim, point: Point) -> Any:
    """The derived value at a point, which simulations are compared with."""
    return entrywise(claim.derived_at(point), lambda v: float(v) if v is not sp.oo else float("inf"))


# --- attacked ----------------------------------------------------------------------------------------------------


def _attacked(claim: Claim, derived: Mapping[str, Any]) -> dict[str, Any]:
    if claim.printed is None:
        return {"status": "not applicable", "detail": "the paper prints no formula"}
    tried = inside = broken = excused = 0
    for extreme in (False, True):
        for point in attack_points(claim, extreme):
            try:
                truth = _answer(claim, point) if not extreme and tried < 20 else claim.derived_digits(point)
                printed = claim.at(claim.printed, point)
            except ZeroDivisionError:
                continue
            if any(x is sp.nan for x in (*entries(printed), *entries(truth))):
                continue
            tried += 1
            holds = claim.holds_at(point)
            inside += holds
            if violates(claim, printed, truth):
                broken += 1
                excused += not holds
    unexcused = broken - excused
    refuted = derived.get("judgement") == "differs"
    if unexcused and not refuted:
        status, detail = (
            "fail",
            f"{unexcused} of {tried} points break the printed formula where it should hold",
        )
    elif not inside:
        status, detail = "unknown", f"none of {tried} points at which both sides have a value meets the condition"
    elif refuted:
        status, detail = "pass", f"fails at {broken} of {tried} points tried"
    elif claim.condition is not None:
        status, detail = "pass", f"{tried} points tried; fails at {excused}, all outside the condition"
    else:
        status, detail = "pass", f"no counterexample among {tried} points"
    return {"status": status, "detail": detail, "points": tried, "broken": broken}


def _independent(claim: Claim) -> dict[str, Any]:
    found = independence.problems(claim)
    if found:
        return {
            "status": "unknown",
            "detail": "the judges are not independent: " + "; ".join(found[:SHOWN]),
            "found": len(found),
        }
    declared = "".join(f"; they share {name}: {why}" for name, why in claim.shares.items())
    return {"status": "pass", "detail": f"judges share machinery and packing of arguments only{declared}"}


def _literal(claim: Claim) -> dict[str, Any]:
    if claim.printed is None:
        return {"status": "not applicable", "detail": "the paper prints no formula"}
    found = literal(claim)
    status = {"same": "pass", "edited": "pass", "unread": "not applicable"}.get(found.verdict, "unknown")
    return {"status": status, "detail": f"{found.verdict}: {found.detail}" if found.detail else found.verdict}


def _mutants(claim: Claim, derived: Mapping[str, Any], simulated: Mapping[str, Any]) -> dict[str, Any]:
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
                fate = classify(mutant, entry, truths, lambda f, at: tidy(at.digits(f)), differs)
                tally[fate] += 1
                if fate == "survived":
                    survivors.append(f"{mutant.change} ({case.label() or 'one case'})")
                if fate == "killed" and seen is not None:
                    truth, value = (tidy(x) for x in (in_digits(entries(first[1])[i]), first[0].digits(mutant.formula)))
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
    rng = _rng(claim, "mutants" + case.label())
    examples = [p for e in claim.examples if _case_matches(claim, p := claim.point(e), case)]
    found = 0
    drawn = (domain.sample_point(claim.variables, case, rng) for _ in range(4 * MUTANT_POINTS - len(examples)))
    points = itertools.chain(examples, drawn)
    for point in _with_condition(claim, points) if condition else points:
        if condition and not claim.holds_at(point):
            continue
        truth = _answer(claim, point)
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


def _case_matches(claim: Claim, point: Point, case: Case) -> bool:
    return domain.case_of(claim.variables, point) == case
