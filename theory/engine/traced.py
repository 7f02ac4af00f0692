"""Whether the code that runs computes the claim's formula: `computed` is run on letters and compared, branch by branch.

The formula comes from the derivation, what is compared with it from the code of `estimators`; nothing is typed twice.  Both
are formulas over the real numbers: floats round, which `computed` measures at points.  Finite numbers only: what the code
does with an infinite argument, and where a denominator is zero, is not traced.

Belongs here: letters for a claim's variables, the comparison, the answer.  Does not belong here: running code on letters
(relinked.py, tracing.py), statements for Coq (theory.coq).
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from theory.engine import domain
from theory.engine.algebra import TimeLimit, entries, is_zero, time_limit
from theory.engine.claim import Claim
from theory.engine.domain import Case
from theory.engine.ratios import (
    ATOMS,
    BRANCHES,
    MINUS,
    PLUS,
    REASONS,
    SIGNS,
    ZERO,
    Branch,
    Impossible,
    Letters,
    NotTraced,
    TooFew,
    branch,
)
from theory.engine.reals import Real, real
from theory.engine.relinked import HOMES, World
from theory.engine.tracing import letter
from theory.engine.values import Values, differs

SECONDS = 20.0  # of processor time for a claim; a case is given up by its terms (`WORK`), whatever the machine, long before
SIMPLIFY_SECONDS = 2.0
MANY = 60  # values of functions that are not rational, where a few are not enough
POINTS = 40
ROUNDED = 1e-9  # what the rounding of numbers that the code works out can make of a formula
SHOWN = 90  # letters of a formula


@dataclass(frozen=True)
class Way:
    """One way through the code: what it computes, entry by entry, and the formula; `narrow`: something is zero on it."""

    case: Case
    narrow: bool
    computed: tuple[Any, ...]
    formula: tuple[Any, ...]


@dataclass(frozen=True)
class Traced:
    """What came of a trace: "equal", "differs", or a key of `REASONS`, with what stopped it; the ways through the code."""

    state: str
    detail: str = ""
    ways: tuple[Way, ...] = field(default=(), repr=False)

    @property
    def text(self) -> str:
        """For readers."""
        if self.state == "equal":
            ways = f", in {len(self.ways)} branches" if len(self.ways) > 1 else ""
            return f"the code computes the formula{ways}" + (
                f", where it takes the point ({self.detail})" if self.detail else ""
            )
        if self.state == "differs":
            return f"the code computes another formula: {self.detail}"
        return f"not traced: {REASONS[self.state]} ({self.detail})"


@cache
def world(home: str) -> World:
    """The toolkit's code, and that of a claim's own package, as it is traced."""
    return World(home)


def traced(claim: Claim, within: World | None = None) -> Traced:
    """Run the claim's `computed` on letters, in every case, and compare with the derived formula.

    `within` is the code with which it is traced, by default as it is.

    >>> from theory import find
    >>> traced(find("mrmtl:lem6.1")).text
    'the code computes the formula'
    """
    found: list[Way] = []
    refused: dict[str, None] = {}
    try:
        with time_limit(SECONDS):
            for case in claim.cases():
                found += ways(claim, case, within, refused)
    except _Differs as error:
        return Traced("differs", str(error))
    except NotTraced as error:
        return Traced(error.kind, error.what)
    except TimeLimit as error:
        return Traced("time", str(error))
    return Traced("equal", "; ".join(refused), tuple(found))


def ways(claim: Claim, case: Case, within: World | None = None, refused: dict[str, None] | None = None) -> list[Way]:
    """The ways through the code in one case; what it refuses is added to `refused`. Raises NotTraced."""
    code = (within or world(_home(claim.computed))).of(claim.computed)
    refused = {} if refused is None else refused
    try:
        return _case(claim, case, code, refused)
    except TooFew:
        return _case(claim, case, code, refused, MANY)


def _home(code: Any) -> str:
    """The package of a claim pack; that of the toolkit's own papers needs no mention."""
    module = getattr(code, "__module__", "") or ""
    return "" if f"{module}.".startswith(HOMES) else module.partition(".")[0]


class _Differs(Exception):
    """A way on which the code computes something else."""


def letters_of(claim: Claim, case: Case, atoms: int = ATOMS) -> Letters:
    """The letters of a case: a size is counted from its least value, a share is t/(1 + t), so that their signs are plain."""
    symbols: list[Any] = []
    signs: dict[Any, frozenset[int]] = {}
    shifts: dict[Any, Any] = {}
    given = domain.symbols_of(claim.variables, case)
    for v in claim.variables:
        for s in [] if v.kind == "choice" else given[v.name] if v.lengths is not None else [given[v.name]]:
            symbols.append(s)
            low = domain.exact(v.within[0]) if v.within is not None else sp.Integer(v.low) if v.kind == "size" else None
            if low is not None:
                shifts[s], signs[s] = low + s, PLUS | ZERO
            elif v.kind == "fraction" and not v.closed:
                shifts[s], signs[s] = s / (1 + s), PLUS
            else:
                signs[s] = {"positive": PLUS, "real": SIGNS}.get(v.kind, PLUS | ZERO)
    return Letters(symbols, signs, shifts, atoms)


def _case(claim: Claim, case: Case, code: Any, refused: dict[str, None], atoms: int = ATOMS) -> list[Way]:
    letters = letters_of(claim, case, atoms)
    if not letters.symbols:
        raise NotTraced("numbers", case.label() or "no letter")
    formula = entries(claim.derived(case))
    given = domain.symbols_of(claim.variables, case)
    choices: list[int] | None = []
    found: list[Way] = []
    runs = 0
    while choices is not None:
        runs += 1
        if runs > BRANCHES:
            raise NotTraced("branches", case.label() or "one case")
        with branch(letters, choices) as way:
            try:
                arguments = {k: _argument(letters, v) for k, v in given.items()}
                value = _values(claim.call(code, arguments))
                end = _compared(claim, case, way, value, formula)
                found += [end] if end else []
            except Impossible:
                pass
            except (NotTraced, _Differs):
                raise
            except ZeroDivisionError:
                if not way.narrow:
                    raise NotTraced("infinite", "a denominator that is zero everywhere") from None
            except ValueError as error:
                if not _by_us(error):
                    raise NotTraced("library", f"{error}"[:120]) from None
                if not way.narrow:
                    refused[str(error)[:120]] = None
            except TimeLimit:
                raise
            except Exception as error:  # a library that does not take letters may say anything
                raise NotTraced("library", f"{type(error).__name__}: {error}"[:120]) from None
            choices = way.next()
    if not found and refused:
        raise NotTraced("refuses", next(iter(refused)))
    if not found:
        raise NotTraced("undecided", "no way through the code on which the formula has a value")
    return found


def _by_us(error: Exception) -> bool:
    """Whether the toolkit's own code refused."""
    frames = traceback.extract_tb(error.__traceback__)
    return "/estimators/" in frames[-1].filename.replace("\\", "/")


def _argument(letters: Letters, value: Any) -> Any:
    if isinstance(value, list):
        return [letter(letters, s) for s in value]
    return letter(letters, value) if isinstance(value, sp.Symbol) else domain.as_float(value)


def _values(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [v for part in value for v in _values(part)]
    if isinstance(value, np.ndarray):
        return list(value.view(np.ndarray).ravel())
    return [value]


def _compared(claim: Claim, case: Case, way: Branch, values: list[Any], formula: tuple[Any, ...]) -> Way | None:
    """The way, where the code computes the formula on it; None where the formula has no value there."""
    if len(values) != len(formula):
        raise NotTraced("undecided", f"{len(values)} values for {len(formula)} entries of the formula")
    pairs = []
    for value, e in zip(values, formula, strict=True):
        if e is None or e is sp.nan:
            continue
        e = _piece(way, sp.sympify(e))
        if not isinstance(value, Real) and not np.isfinite(value):
            if way.narrow:
                return None  # at a boundary, where the formula has a limit, or none
            if value == np.inf and e is sp.oo:
                continue
            raise NotTraced("infinite", "its value")
        value = real(value)
        equal = _equal(way, value, e)
        if equal is None:
            return None
        if not equal:
            at = _apart(claim, case, way, value, e)
            if at:
                raise _Differs(f"{_short(value.e)} is not {_short(e)} at {at}")
            raise NotTraced("undecided", f"a branch computes {_short(value.e)}")
        pairs.append((value.e, e))
    return Way(case, way.narrow, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))


def _piece(way: Branch, e: Any) -> Any:
    """The piece of a formula by cases that counts on a way."""
    while isinstance(e, sp.Piecewise):
        e = next(pair.args[0] for pair in e.args if _holds(way, pair.args[1]))
    return e


def _holds(way: Branch, condition: Any) -> bool:
    if condition in (True, False, sp.true, sp.false):
        return bool(condition)
    signs = {sp.Eq: ZERO, sp.Ne: PLUS | MINUS, sp.Lt: MINUS, sp.Le: MINUS | ZERO, sp.Gt: PLUS, sp.Ge: PLUS | ZERO}
    for kind, wanted in signs.items():
        if isinstance(condition, kind):
            gap = way.letters.read(condition.lhs - condition.rhs)
            return way.decided(gap.top * gap.bottom, wanted)
    raise NotTraced("undecided", "a formula by cases of another kind")


def letters_zero(way: Branch) -> list[Any]:
    """The claim's letters that are at their least value on a way."""
    return [s for i, s in enumerate(way.letters.symbols) if i in way.zero]


def _equal(way: Branch, value: Real, e: Any) -> bool | None:
    """Whether a value is the formula; None where the formula has no value on the way."""
    try:
        want = way.letters.read(e)
    except NotTraced:
        want = None
    except ZeroDivisionError:
        return None
    if want is not None:
        if not way.here(want.bottom) or not way.here(value.r.bottom):
            return None
        if way.equal(value.r, want):
            return True
    if e.is_rational_function() and value.e.is_rational_function():
        return False
    try:
        with time_limit(SIMPLIFY_SECONDS):
            rules = _rules(way)
            gap = (value.e - e).subs(rules)
            return bool(not way.here(way.letters.read(gap).top) or is_zero(gap))
    except TimeLimit as error:
        raise NotTraced("time", str(error)) from None
    except ZeroDivisionError:
        raise NotTraced("undecided", "the formula divides by zero there") from None


def _rules(way: Branch) -> dict[Any, Any]:
    """What letters are where something is zero, as far as one letter can be had from each equation."""
    letters = way.letters
    symbols = letters.symbols
    rules: dict[Any, Any] = {s: letters.shift(s).subs(s, 0) for s in letters_zero(way)}
    for equation in way.equations:
        terms = equation.to_dict()
        if any(any(powers[len(symbols) :]) for powers in terms):
            continue
        stand: list[Any] = [sp.Dummy(str(s)) for s in symbols]
        polynomial = sp.Add(*(sp.Rational(int(c.numerator), int(c.denominator)) * sp.Mul(*(x ** int(n) for x, n in zip(
            stand, powers, strict=False))) for powers, c in terms.items()))  # fmt: skip
        for x, s in zip(stand, symbols, strict=True):
            if sp.degree(polynomial, x) == 1:
                value = sp.solve(polynomial, x)[0].subs({y: letters.unshift(t) for y, t in zip(stand, symbols, strict=True)})
                rules[s] = letters.shift(s).subs(s, value)
                break
    return rules


def _apart(claim: Claim, case: Case, way: Branch, value: Real, e: Any) -> str:
    """A point of the way at which a value is not the formula, in words; nothing where none is found."""
    rng = np.random.default_rng(0)
    for _ in range(POINTS):
        point = domain.sample_point(claim.variables, case, rng)
        rules = domain.substitution(claim.variables, case, point)
        if not way.takes(rules):
            continue
        at = Values(rules)
        a, b = at.digits(value.e), at.digits(e)
        if a is sp.nan or b is sp.nan or not differs(a, b):
            continue
        if a.is_finite and b.is_finite and abs(a - b) <= ROUNDED * abs(b):
            raise NotTraced("undecided", "numbers that the code works out are rounded")
        return ", ".join(f"{k} = {domain.in_line(domain.as_text(v))}" for k, v in point.items())
    return ""


def _short(e: Any) -> str:
    text = str(e)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


__all__ = ["Traced", "Way", "letters_of", "traced", "ways", "world"]
