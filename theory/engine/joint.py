"""How judges fail together: errors are made on purpose, and which comparison of the engine notices which.

Knight and Leveson's question to programs written apart: were comparisons to fail independently, the share of errors that two
of them miss would be the product of the shares that each misses.  An error is a slip in a formula (mutants.py), or another
model: one variance doubled, one noise or spread left out, two of a kind swapped, a size off by one, the other reading of a
switch.  It is made in one place, or the same one in two, as one hand would: in the printed formula, in the model of
derivation, oracle, simulation, or in the float function.  A wrong model is real: the judge runs on the changed variables.
Every comparison keeps its points and its rule.

Belongs here: errors, who misses them, rates and ratios with intervals.  Does not belong here: how a claim is judged
(theory.engine.levels), the page that shows this (theory.page).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import sympy as sp

from estimators.montecarlo import DECLARED, run
from theory.engine import domain
from theory.engine.algebra import entries, is_zero
from theory.engine.claim import Claim
from theory.engine.domain import Case, Point, as_float
from theory.engine.levels.computed import FLOAT_TOLERANCE, float_error
from theory.engine.levels.points import attack_points, extreme_points, oracle_points
from theory.engine.levels.simulated import derived_floats, simulate_at
from theory.engine.mutants import mutants
from theory.engine.simulation import Simulation, compared
from theory.engine.values import Values, differs, in_digits

PLACES = ("printed", "derive", "oracle", "computed", "simulate")
JUDGES = ("derived", "oracle", "float64", "simulated", "attacked")  # comparisons; what each compares is in `told`
EACH = {"slip": 2, "model": 3, "reading": 1}  # errors of a claim
BY_ORACLE = 20  # points of an attack that the oracle answers
PILOT = 65_536  # replicates that say how many a simulation takes
MOST = 2_000_000  # replicates
SEEN = NormalDist().inv_cdf(1 - DECLARED.false_alarm / 2)  # standard errors; a right value is so far off once in a million
RESAMPLES = 4000

Change = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Error:
    """A wrong formula, entry by entry, in one case; and for a wrong model the change of the variables that makes it."""

    kind: str
    what: str
    formula: tuple[Any, ...]
    change: Change | None = None


class Row(NamedTuple):
    """An error in some places, and for each of `JUDGES` whether it misses it."""

    kind: str
    what: str
    places: tuple[str, ...]
    missed: tuple[bool, ...]


class Ratio(NamedTuple):
    """Joint misses of two judges over what independence expects, with a 95 % interval over claims where there is one."""

    first: str
    second: str
    joint: int
    expected: float
    ratio: float | None
    low: float | None
    high: float | None


def suited(claim: Claim) -> bool:
    """Whether every judge has something to say: an equality, printed, right without a condition, computed, simulated."""
    right = claim.relation == "=" and claim.condition is None and claim.corrected is None and claim.printed is not None
    return right and claim.computed is not None and claim.simulate is not None


# --- errors -------------------------------------------------------------------------------------------------------------


def errors(claim: Claim) -> list[Error]:
    """Errors of a claim in the case of its first example, a few of each kind, drawn by the claim's id."""
    case = domain.case_of(claim.variables, claim.point(claim.examples[0]))
    right = tuple(sp.sympify(x) for x in entries(claim.derived(case)))
    rng = np.random.default_rng(crc32(f"{claim.id} joint".encode()))
    found: list[Error] = []
    for kind, count in EACH.items():
        candidates, mine = list(_candidates(claim, case, right, kind)), []
        for k in rng.permutation(len(candidates)):
            error, taken = candidates[k], {e.formula for e in (*found, *mine)}
            if len(mine) < count and error.formula not in taken and _differs(error.formula, right):
                mine.append(error)
        found += mine
    return found


def _differs(formula: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Whether a formula has a value and is no other way of writing the right one."""
    if any(x.has(sp.zoo, sp.nan, sp.oo) for x in formula):
        return False
    return not all(a == b or is_zero(a - b) for a, b in zip(formula, right, strict=True))


def _candidates(claim: Claim, case: Case, right: tuple[Any, ...], kind: str) -> Iterator[Error]:
    if kind == "slip":
        for i, entry in enumerate(right):
            for m in mutants(entry):
                yield Error(kind, m.change, (*right[:i], sp.sympify(m.formula), *right[i + 1 :]))
    elif kind == "model":
        symbols = domain.symbols_of(claim.variables, case)
        for what, change in _models(claim, symbols):
            changed = change(symbols)
            rules = {a: b for name in symbols for a, b in zip(_flat(symbols[name]), _flat(changed[name]), strict=True)}
            rules = {a: b for a, b in rules.items() if isinstance(a, sp.Symbol) and a != b}
            yield Error(kind, what, tuple(x.subs(rules, simultaneous=True) for x in right), change)
    else:
        for v in claim.switches:
            for other in v.choices:
                read = Case({**case.choices, v.name: other}, case.length)
                if other != case.choices[v.name] and read in claim.cases():
                    formula = tuple(sp.sympify(x) for x in entries(claim.derived(read)))
                    if len(formula) == len(right):
                        yield Error(kind, f"{v.name} = {other}", formula, _setting(v.name, other))


def _setting(name: str, value: Any) -> Change:
    return lambda point: {**point, name: value}


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _models(claim: Claim, symbols: Mapping[str, Any]) -> Iterator[tuple[str, Change]]:
    """Other models, as changes of the variables."""
    places = [(v.kind, v.name, i) for v in claim.variables if v.kind in ("size", "positive", "nonnegative")
              for i in (range(len(symbols[v.name])) if v.lengths is not None else [None])]  # fmt: skip
    for kind, name, i in places:
        label = name if i is None else f"{name}[{i}]"
        if kind == "size":
            yield f"{label} one more", _changed(name, i, lambda x: x + 1)
            yield f"{label} one less", _changed(name, i, lambda x: x - 1)
        else:
            yield f"{label} doubled", _changed(name, i, lambda x: 2 * x)
            yield f"{label} left out", _changed(name, i, lambda x: 0 * x)
    for (kind, a, i), (other, b, j) in itertools.combinations(places, 2):
        if kind == other and i is None and j is None:
            yield f"{a} and {b} swapped", lambda point, a=a, b=b: {**point, a: point[b], b: point[a]}


def _changed(name: str, i: int | None, by: Callable[[Any], Any]) -> Change:
    def change(point: Mapping[str, Any]) -> dict[str, Any]:
        old = point[name]
        new = by(old) if i is None else [by(x) if k == i else x for k, x in enumerate(old)]
        return {**point, name: new}

    return change


# --- who misses them ----------------------------------------------------------------------------------------------------


def rows(claim: Claim) -> list[Row]:
    """Every error of a claim in every place, and in every two, with the judges that miss it."""
    found = []
    for error, seen in zip(mine := errors(claim), _seen(claim, mine), strict=True):
        places = PLACES if error.change is not None else PLACES[:-1]  # a slip of the pen is in no simulation
        for wrong in (*((p,) for p in places), *itertools.combinations(places, 2)):
            notices = told(seen, wrong)
            found.append(Row(error.kind, error.what, wrong, tuple(not notices[j] for j in JUDGES)))
    return found


def told(seen: Mapping[str, bool], wrong: Sequence[str]) -> dict[str, bool]:
    """What each comparison of the engine says of an error in some places, from what can be told apart at all."""
    printed, derive, oracle, computed, simulate = (p in wrong for p in PLACES)
    small, far = ("wrong float, small", "wrong float, far") if computed else ("right float, small", "right float, far")
    return {
        "derived": printed != derive,  # as formulas
        "oracle": oracle != derive and seen["small"],
        "float64": (computed != oracle and seen[small]) or (computed != derive and seen[far]),
        "simulated": simulate != derive and seen["wrong simulation" if simulate else "right simulation"],
        "attacked": (printed != oracle and seen["attack, first"]) or (printed != derive and seen["attack, rest"]),
    }


def _seen(claim: Claim, found: Sequence[Error]) -> Iterator[dict[str, bool]]:
    """For each error, where right and wrong values are told apart by the rules of the engine."""
    if not found:
        return
    case = domain.case_of(claim.variables, claim.point(claim.examples[0]))
    right = tuple(sp.sympify(x) for x in entries(claim.derived(case)))
    small, far = ([*_in(claim, case, points)] for points in (oracle_points(claim), extreme_points(claim)))
    mild = [*_in(claim, case, attack_points(claim, False))]
    first, rest = mild[:BY_ORACLE], [*mild[BY_ORACLE:], *_in(claim, case, attack_points(claim, True))]
    point, at = next(iter(small))
    moments = _moments(claim, point, derived_floats(claim, point))
    for error in found:
        apart = {"small": small, "attack, first": first, "attack, rest": rest}
        seen = {k: any(_apart(error.formula, right, at) for _, at in where) for k, where in apart.items()}
        for name, where in (("small", small), ("far", far)):
            seen[f"right float, {name}"] = any(_float_apart(claim, p, at, error.formula) for p, at in where)
            seen[f"wrong float, {name}"] = any(_wrong_float_apart(claim, error, p, at, right) for p, at in where)
        value = _floats(error.formula, at)
        seen["right simulation"] = value is None or _off(moments, value)
        seen["wrong simulation"] = error.change is None or _wrong_simulation(claim, error, point, at, right)
        yield seen


def _in(claim: Claim, case: Case, points: Iterable[Point]) -> Iterator[tuple[Point, Values]]:
    for point in points:
        if domain.case_of(claim.variables, point) == case:
            yield point, Values(domain.substitution(claim.variables, case, point))


def _apart(formula: tuple[Any, ...], right: tuple[Any, ...], at: Values) -> bool:
    return any(differs(at.digits(a), at.digits(b)) for a, b in zip(formula, right, strict=True))


def _float_apart(claim: Claim, point: Point, at: Values, formula: tuple[Any, ...]) -> bool:
    """The float function against a wrong truth."""
    return not float_error(claim, point, tuple(at.digits(x) for x in formula)) <= FLOAT_TOLERANCE


def _wrong_float_apart(claim: Claim, error: Error, point: Point, at: Values, right: tuple[Any, ...]) -> bool:
    """A wrong float function against the truth: it gets other variables, or is the wrong formula."""
    truth = [in_digits(at.digits(x)) for x in right]
    try:
        if error.change is None:
            values = [float(in_digits(at.digits(x))) for x in error.formula]
        else:
            given = {k: as_float(v) for k, v in error.change(point).items()}
            values = np.atleast_1d(np.asarray(claim.call(claim.computed, given), float)).tolist()  # type: ignore[arg-type]
    except (ValueError, ArithmeticError, TypeError):
        return True  # it refuses to compute, which is noticed
    if len(values) != len(truth) or not all(t.is_extended_real for t in truth):
        return True
    return any(v != t and not abs(v - t) <= FLOAT_TOLERANCE * abs(t) for v, t in zip(values, map(float, truth), strict=True))


def _floats(formula: tuple[Any, ...], at: Values) -> Any:
    """The formula's value; None where that is no real number."""
    values = [in_digits(at.digits(x)) for x in formula]
    if not all(x.is_real and x.is_finite for x in values):
        return None
    return tuple(map(float, values)) if len(values) > 1 else float(values[0])


def _moments(claim: Claim, point: Point, value: Any) -> tuple[Simulation, Any]:
    """A simulation at a point and its moments, of as many replicates as the checks of a value ask for."""
    simulation = simulate_at(claim, point)
    if simulation is None:
        raise ValueError(f"{claim.id}: the first example has no simulation")
    pilot = run(simulation.experiment, PILOT, f"{claim.id}#pilot", threads=1)
    checks = compared(simulation, value)
    wanted = [DECLARED.required_reps(pilot.standard_deviation(c.coefficients) / c.scale) for c in checks]
    return simulation, run(simulation.experiment, min(max(wanted), MOST), f"{claim.id}#joint", threads=1)


def _wrong_simulation(claim: Claim, error: Error, point: Point, at: Values, right: tuple[Any, ...]) -> bool:
    """A simulation of the wrong model against the right value."""
    assert error.change is not None
    value = _floats(right, at)
    try:
        with np.errstate(all="ignore"):
            return _off(_moments(claim, error.change(point), value), value)
    except (ValueError, ArithmeticError, TypeError, IndexError):
        return True  # it refuses to simulate


def _off(simulated: tuple[Simulation, Any], value: Any) -> bool:
    """Whether a check of the value is further off than one of a right value ever is."""
    simulation, moments = simulated
    for reading in simulation.readings:
        try:
            check = reading.check(value)
        except (ValueError, ArithmeticError):  # a wrong value of zero, say, relative to which no error can be stated
            return True
        estimate, error = moments.linear(check.coefficients)
        if not abs(estimate - check.expected) <= SEEN * max(error, 1e-12 * check.scale):
            return True
    return False


# --- rates --------------------------------------------------------------------------------------------------------------

Table = Mapping[str, Mapping[str, int]]
"""Claim by claim, how many errors each pattern of misses has: "10010", a digit for each of `JUDGES`."""


def patterns(found: Iterable[Row]) -> dict[str, int]:
    """The patterns of misses of some errors of a claim."""
    return dict(sorted(Counter("".join("01"[m] for m in r.missed) for r in found).items()))


def rates(missed: Table) -> dict[str, tuple[int, int]]:
    """For each judge, the errors that it misses, and all; under "all", those that every judge misses."""
    total = sum(map(Counter, missed.values()), Counter())
    count = total.total()
    by_judge = {j: (sum(n for p, n in total.items() if p[i] == "1"), count) for i, j in enumerate(JUDGES)}
    return by_judge | {"all": (total["1" * len(JUDGES)], count)}


def ratios(missed: Table, seed: int = 0) -> list[Ratio]:
    """For each pair of judges the joint misses over the product of their rates.

    Claims are drawn anew for the interval, since errors of one claim go together; there is none where a judge may well miss
    nothing.
    """
    sums = np.array([_counts(part) for part in missed.values() if part])
    drawn = np.random.default_rng(seed).integers(len(sums), size=(RESAMPLES, len(sums)))
    total, resampled = sums.sum(axis=0), sums[drawn].sum(axis=1)
    found = []
    for i, j in itertools.combinations(range(len(JUDGES)), 2):
        joint, expected = int(total[i, j]), float(total[i, i] * total[j, j] / total[-1, -1])
        product = resampled[:, i, i] * resampled[:, j, j] / resampled[:, -1, -1]
        low = high = None
        if (product > 0).all():
            low, high = map(float, np.quantile(resampled[:, i, j] / product, [0.025, 0.975]))
        found.append(Ratio(JUDGES[i], JUDGES[j], joint, expected, joint / expected if expected else None, low, high))
    return found


def _counts(part: Mapping[str, int]) -> Any:
    """Joint misses of every pair of judges, single ones on the diagonal, the number of errors in the last corner."""
    found = np.zeros((len(JUDGES) + 1, len(JUDGES) + 1))
    for pattern, count in part.items():
        bits = np.array([*map(int, pattern), 1])
        found += count * np.outer(bits, bits)
    return found


__all__ = [
    "JUDGES",
    "PLACES",
    "Error",
    "Ratio",
    "Row",
    "Table",
    "errors",
    "patterns",
    "rates",
    "ratios",
    "rows",
    "suited",
    "told",
]
