"""Your own implementation of a claim's formula, tested against the derived one on the claim's whole domain.

>>> def strength(N_np, N_p, alpha2, tau2, gamma2):
...     n, ratio, noise = N_np + N_p, tau2 / alpha2, N_p * gamma2 / alpha2
...     top = n + n * ratio + N_np * noise
...     return top / (n * ratio * (ratio + 1) + (N_np + 1) * ratio * noise + noise)
>>> check(strength, "fedhdp:thm8:p")  # doctest: +ELLIPSIS
Checked(claim='fedhdp:thm8:p', points=..., largest_error=...e-16)

Points are searched by Hypothesis, from the simple to the extreme and at the ends of every variable's range; a failure is
told at the smallest point that was found.

Belongs here: strategies for points, and the check.  Does not belong here: what a domain is (engine.domain), how claims
are judged (engine.levels).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import sympy as sp

from theory.engine import domain
from theory.engine.algebra import TimeLimit, entries, time_limit
from theory.engine.claim import Claim
from theory.engine.domain import Point, Variable
from theory.engine.registry import find
from theory.engine.values import differs, in_digits

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

FARTHEST = 12  # powers of ten that values reach up and down, and half of it for sizes
EXAMPLES = 200
SECONDS = 5.0  # for one right value; points where it takes longer are passed over


class Mismatch(AssertionError):
    """A function differs from a claim; `point` is the smallest point found at which it does."""

    def __init__(self, message: str, point: Point):
        super().__init__(message)
        self.point = point


@dataclass(frozen=True)
class Checked:
    """A function agrees with a claim at so many points, with this largest relative error (0 in exact arithmetic)."""

    claim: str
    points: int
    largest_error: float


def points(claim_id: str, *, exact: bool = False) -> SearchStrategy[dict[str, Any]]:
    """Points of a claim's domain, as arguments by name: a Hypothesis strategy.

    Parameters
    ----------
    claim_id : permanent id such as "mrmtl:thm6.3".
    exact : exact SymPy numbers; otherwise float64 (and int for sizes), each of which is exactly the number meant.

    Returns
    -------
    SearchStrategy
        Over all choices and list lengths of the claim; numbers from simple ones, to which failures shrink, to the ends of
        the domain and twelve powers of ten away.

    Raises
    ------
    UnknownClaim : an id that no claim has. ImportError : Hypothesis is not installed.

    Examples
    --------
    >>> points("mrmtl:thm6.3")
    points('mrmtl:thm6.3')
    """
    claim = find(claim_id)
    st = _hypothesis().strategies

    @st.composite
    def of_claim(draw: Any) -> dict[str, Any]:
        case = draw(st.sampled_from(claim.cases()))
        found: dict[str, Any] = {}
        for v in claim.variables:
            if v.kind == "choice":
                found[v.name] = case.choices[v.name]
            elif v.lengths is not None:
                found[v.name] = [draw(_numbers(st, v)) for _ in range(case.length or 0)]
            else:
                found[v.name] = draw(_numbers(st, v))
        return found if exact else _floats(claim, found)

    strategy = of_claim()
    strategy.__class__ = type("Points", (strategy.__class__,), {"__repr__": lambda self: f"points({claim_id!r})"})
    return strategy


def check(
    function: Callable[..., Any],
    claim_id: str,
    *,
    exact: bool = False,
    rtol: float = 1e-9,
    atol: float = 0.0,
    arguments: Sequence[str] | Mapping[str, str] | None = None,
    against: str = "derived",
    examples: int = EXAMPLES,
) -> Checked:
    """Test a function against a claim's formula on the claim's whole domain.

    Parameters
    ----------
    function : called with the claim's variables by name; choices that have a default may be missing, then the default's
        variant is meant. It returns a number, or the claim's several values in a sequence.
    claim_id : permanent id such as "fedhdp:thm8:p".
    exact : call it with exact SymPy numbers and ask for exact results; otherwise with float64.
    rtol, atol : how far a float may be from the right value, which is known in 50 digits. A right value of zero must come
        out as zero, unless `atol` allows more; an infinite one as infinity, or as a ZeroDivisionError.
    arguments : variables in the order in which the function takes them by position, or {variable: name in the function}.
    against : "derived", the right formula, or "printed", the paper's.
    examples : points that are searched at random; every end of every variable is tried besides.

    Returns
    -------
    Checked

    Raises
    ------
    Mismatch : an AssertionError, with the smallest point found at which the function gives another value, none, or as
        many as the claim has not.
    UnknownClaim : an id that no claim has.
    ValueError : the function does not take the claim's variables, or an option is not of the kind it must be.
    ImportError : Hypothesis is not installed.

    Examples
    --------
    >>> check(lambda n, sigma2, sigma2_dp, tau2: (sigma2 + sigma2_dp / n) / tau2, "mrmtl:thm6.3")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    theory.testing.Mismatch: mrmtl:thm6.3 at K=3, n=2, sigma2=1.0, sigma2_dp=0.0, tau2=1.0: the function gives 1.0, ...
    """
    tester = _Tester(find(claim_id), function, exact, rtol, atol, arguments, against)
    hypothesis = _hypothesis()
    if not isinstance(examples, int) or isinstance(examples, bool) or examples < 1:
        raise ValueError(f"examples: a number of points from 1, got {examples!r}")
    phases = (hypothesis.Phase.generate, hypothesis.Phase.shrink)
    options = {"max_examples": examples, "database": None, "derandomize": True, "deadline": None, "print_blob": False}
    options |= {"suppress_health_check": list(hypothesis.HealthCheck), "verbosity": hypothesis.Verbosity.quiet}

    @hypothesis.settings(phases=phases, report_multiple_bugs=False, **options)
    @hypothesis.given(points(claim_id, exact=True))
    def search(point: Point) -> None:
        tester.test(point)

    search()
    for point in _ends(tester.claim):
        tester.test(point)
    if not tester.tried:
        raise ValueError(f"{claim_id}: the {against} formula has a value at none of the points tried")
    return Checked(claim_id, tester.tried, float(tester.worst))


class _Tester:
    """Calls a function at a point and compares."""

    def __init__(
        self,
        claim: Claim,
        function: Callable[..., Any],
        exact: bool,
        rtol: float,
        atol: float,
        arguments: Sequence[str] | Mapping[str, str] | None,
        against: str,
    ):
        if against not in ("derived", "printed"):
            raise ValueError(f"against: 'derived' or 'printed', got {against!r}")
        if against == "printed" and claim.printed is None:
            raise ValueError(f"against: {claim.id} prints no formula; take 'derived'")
        for name, value in (("rtol", rtol), ("atol", atol)):
            if not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise ValueError(f"{name}: a number from 0, got {value!r}")
        if not callable(function):
            raise ValueError(f"function: something to call with the claim's variables, got {function!r}")
        self.claim, self.function, self.exact, self.against = claim, function, exact, against
        self.rtol, self.atol = rtol, atol
        self.takes, self.positional = _taken(claim, function, arguments)
        self.tried, self.worst = 0, 0.0

    def test(self, point: Point) -> None:
        """Raise `Mismatch` where the function differs; points at which the formula has no value are passed over."""
        point = {v.name: v.default if v.name not in self.takes else point[v.name] for v in self.claim.variables}
        given: Mapping[str, Any] = point
        if not self.exact:
            given = _floats(self.claim, point)
            chosen = {v.name for v in self.claim.variables if v.kind == "choice"}  # stays as the claim has it
            point = {k: point[k] if k in chosen else _meant(v) for k, v in given.items()}
        right = self._right(point)
        if right is None:
            return
        self.tried += 1
        names = {v: given[v] for v in self.takes}
        try:
            found = self.function(*names.values()) if self.positional else self.function(
                **{self.takes[v]: x for v, x in names.items()})  # fmt: skip
        except Exception as error:
            if isinstance(error, ZeroDivisionError) and all(x in (None, sp.oo, -sp.oo) for x in right):
                return
            self._fail(given, f"the function raises {type(error).__name__}: {error}", error)
        values = self._values(given, found, len(right))
        for i, (value, truth) in enumerate(zip(values, right, strict=True)):
            if truth is not None and not self._close(given, value, truth):
                name = f" for {self.claim.entries[i]}" if len(self.claim.entries) == len(right) > 1 else ""
                shown = str(truth) if truth.is_Rational and len(str(truth)) < 30 else str(sp.N(truth, 17))
                self._fail(given, f"the function gives {value}{name}, right is {shown}")

    def _right(self, point: Point) -> tuple[Any, ...] | None:
        try:
            with time_limit(SECONDS):
                if self.against == "printed":
                    value = self.claim.printed_at(point)
                else:
                    value = self.claim.derived_at(point) if self.exact else self.claim.derived_digits(point)
        except (ArithmeticError, TimeLimit):
            return None
        found = tuple(None if x is None else sp.sympify(x) for x in entries(value))
        return None if any(x is not None and x in (sp.nan, sp.zoo) for x in found) else found

    def _values(self, given: Mapping[str, Any], found: Any, count: int) -> list[Any]:
        try:
            values = list(np.atleast_1d(np.asarray(found, dtype=object)))
        except ValueError:
            values = [found]
        if any(isinstance(x, list | tuple | np.ndarray) for x in values):
            self._fail(given, f"the function gives {found!r}, which is neither a number nor a sequence of numbers")
        if len(values) != count:
            what = f": {', '.join(self.claim.entries)}" if len(self.claim.entries) == count else ""
            self._fail(given, f"the function gives {len(values)} values, the claim has {count}{what}")
        return values

    def _close(self, given: Mapping[str, Any], value: Any, truth: Any) -> bool:
        if self.exact:
            if isinstance(value, float | np.floating) or getattr(value, "is_Float", False):
                self._fail(given, f"the function gives the float {value!r} for exact numbers")
            if truth in (sp.oo, -sp.oo):
                return value in (truth, sp.zoo)
            return not differs(sp.sympify(value), truth)
        try:
            number = float(value)
        except (TypeError, ValueError):
            self._fail(given, f"the function gives {value!r}, which is no real number")
        if not math.isfinite(number) or truth in (sp.oo, -sp.oo):
            return not math.isnan(number) and sp.Float(number) == sp.Float(float(truth))
        digits = in_digits(truth)
        gap = abs(sp.Float(number, 50) - digits)
        if digits != 0 and gap > self.atol:
            self.worst = max(self.worst, float(gap / abs(digits))) if gap <= self.rtol * abs(digits) else self.worst
        return bool(gap <= max(self.atol, self.rtol * abs(digits)))

    def _fail(self, given: Mapping[str, Any], what: str, cause: Exception | None = None) -> NoReturn:
        place = ", ".join(f"{k}={v}" for k, v in given.items())
        raise Mismatch(f"{self.claim.id} at {place}: {what}", dict(given)) from cause


def _taken(
    claim: Claim, function: Callable[..., Any], arguments: Sequence[str] | Mapping[str, str] | None
) -> tuple[dict[str, str], bool]:
    """The claim's variables that a function takes, with its own names for them, and whether it takes them by position."""
    variables = {v.name: v for v in claim.variables}
    meanings = "; ".join(f"{v.name} ({v.meaning})" for v in claim.variables)
    known = f"{claim.id} has the variables {meanings}"
    if isinstance(arguments, str):
        raise ValueError(
            f"arguments: a sequence of names, or a mapping from the claim's to the function's, got {arguments!r}"
        )
    names = {k: k for k in arguments or variables} if not isinstance(arguments, Mapping) else {
        **{k: k for k in variables if k not in arguments}, **arguments}  # fmt: skip
    unknown = [k for k in names if k not in variables]
    if unknown:
        raise ValueError(f"arguments: {', '.join(unknown)} is no variable; {known}")
    positional = arguments is not None and not isinstance(arguments, Mapping)
    if not positional:
        names = _by_name(function, names, variables, known)
    missing = [k for k, v in variables.items() if k not in names and v.default is None]
    if missing:
        raise ValueError(f"function: it does not take {', '.join(missing)}; {known}")
    return names, positional


def _by_name(
    function: Callable[..., Any], names: dict[str, str], variables: Mapping[str, Variable], known: str
) -> dict[str, str]:
    """Those of the names that the function has as parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ValueError("function: its parameters cannot be read; give arguments, the variables in its order") from None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return names
    has = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    needed = {p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}
    more = sorted(needed - set(names.values()))
    if more:
        raise ValueError(
            f"function: its parameter {', '.join(more)} is no variable; {known}; give arguments to rename or order"
        )
    return {k: name for k, name in names.items() if name in has}


def _numbers(st: Any, v: Variable) -> Any:
    """Exact numbers of one variable, the simplest first, to which Hypothesis shrinks."""
    if v.kind == "size":
        low, high = v.low, 10 ** (FARTHEST // 2)
        if v.within is not None:
            low, high = (int(domain.exact(x)) for x in v.within)
        far = st.integers(low, high) if v.extreme or v.within is not None else st.integers(low, low + 6)
        return st.one_of(st.integers(low, min(low + 6, high)), far).map(sp.Integer)
    simple = st.builds(lambda p, q: sp.Rational(p, q), st.integers(1, 9), st.integers(1, 9))
    if v.within is not None:
        low, high = (domain.exact(x) for x in v.within)
        shares = st.builds(lambda p, q: sp.Rational(min(p, q), q), st.integers(0, 64), st.integers(1, 64))
        inside = shares.map(lambda share: low + (high - low) * share)
        if low > 0 and high > 20 * low:
            middle = st.floats(float(low), float(high)).map(lambda x: min(max(sp.Rational(Fraction(x)), low), high))
            inside = st.one_of(inside, middle)
        return inside
    if v.kind == "fraction":
        inside = st.builds(lambda p, q: sp.Rational(min(p, q), q + 1), st.integers(1, 9), st.integers(1, 9))
        near = st.integers(2, FARTHEST // 2).map(lambda k: sp.Rational(1, 10**k))
        found = [inside, near, near.map(lambda x: 1 - x)]
        return st.one_of(st.sampled_from([sp.Integer(0), sp.Integer(1)]), *found) if v.closed else st.one_of(*found)
    far = st.builds(lambda x, k: x * sp.Integer(10) ** k, simple, st.integers(-FARTHEST, FARTHEST))
    kinds = [simple, *([far] if v.extreme else [])]
    if v.kind != "positive":
        kinds.insert(0, st.just(sp.Integer(0)))
    if v.kind == "real":
        kinds += [k.map(lambda x: -x) for k in kinds[1:]]
    return st.one_of(*kinds)


def _ends(claim: Claim) -> Iterator[Point]:
    """The claim's examples, and from each of them every end of every variable, with every value of every choice."""
    for example in claim.examples:
        base = claim.point(example)
        yield base
        for v in claim.variables:
            for end in _ends_of(v):
                moved = [end, *base[v.name][1:]] if v.lengths is not None else end
                point = {**base, v.name: moved}
                if domain.case_of(claim.variables, point) in claim.cases():
                    yield point


def _ends_of(v: Variable) -> list[Any]:
    if v.kind == "choice":
        return list(v.choices)
    if v.within is not None:
        return [domain.exact(x) for x in v.within]
    if v.kind == "size":
        return [sp.Integer(v.low), sp.Integer(v.low + 1), *([sp.Integer(10 ** (FARTHEST // 2))] if v.extreme else [])]
    tiny, huge = (sp.Integer(10) ** k for k in (-FARTHEST, FARTHEST))
    if v.kind == "fraction":
        return [sp.Integer(0), sp.Integer(1)] if v.closed else [sp.Rational(1, 10**6), 1 - sp.Rational(1, 10**6)]
    found = [tiny, huge] if v.extreme else []
    return found if v.kind == "positive" else [sp.Integer(0), *found, *([-x for x in found] if v.kind == "real" else [])]


def _floats(claim: Claim, point: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as an implementation gets them: sizes are ints, other numbers floats, also whole ones."""

    def plain(kind: str, value: Any) -> Any:
        if isinstance(value, list):
            return [plain(kind, x) for x in value]
        if kind == "choice":
            return domain.as_float(value)
        return int(value) if kind == "size" else float(value)

    return {v.name: plain(v.kind, point[v.name]) for v in claim.variables}


def _meant(value: Any) -> Any:
    """The exact number that a float is."""
    if isinstance(value, list):
        return [_meant(v) for v in value]
    if isinstance(value, float):
        return sp.Rational(Fraction(value)) if math.isfinite(value) else sp.oo
    return sp.Integer(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _hypothesis() -> ModuleType:
    try:
        import hypothesis
        import hypothesis.strategies
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "hypothesis":
            raise
        raise ImportError(
            "theory.testing needs Hypothesis, which is not installed: pip install 'borrowed-strength[testing]'"
        ) from error
    return hypothesis


__all__ = ["Checked", "Mismatch", "check", "points"]
