"""What a claim's variables are, where they live, and how points of that domain are read and sampled.

Belongs here: variables, points, validation of points, the relations between a paper's letters
(`sigma2_c = alpha2 + tau2`, ...). Does not belong here: formulas of claims, symbolic algebra.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from theory.engine.lines import join_texts

Point = dict[str, Any]


# Why a claim is judged between bounds only, where its sentence does not say so.
BOUNDS = {
    "paper": "the paper's own range",
    "formula": "below it the formula has no meaning, and the upper end stands for any large number",
    "code": "below it the function of estimators refuses, and the upper end stands for any large number",
    "certified": "what certifies the sign does so on this box",
    "digits": "beyond it sums and integrals in many digits take too long",
    "floats": "beyond it values leave the range of 64-bit floats",
}


class DomainError(ValueError):
    """A point, or one of its coordinates, lies outside the domain of a claim."""


@dataclass(frozen=True)
class Variable:
    """One argument of a formula.

    `kind` is one of "real", "nonnegative", "positive", "size" (an integer >= `low`), "fraction"
    (strictly between 0 and 1 unless `closed`), "choice" (one of `choices`). `lengths` lists the lengths
    at which a list-valued variable is verified; None means a scalar. A variable with a `default` may be
    left out of a point. `every` says of a choice among whole numbers that there are no others (levels, tables,
    labels): otherwise they are instances of a number that could be any. `within` bounds a number from both sides
    (ends included), where a claim is only made, or can only be decided, on a bounded range; `why` is the reason, one of
    `BOUNDS`.
    """

    name: str
    kind: str
    meaning: str
    low: int = 1
    closed: bool = False
    choices: tuple[Any, ...] = ()
    lengths: tuple[int, ...] | None = None
    default: Any = None
    extreme: bool = True
    within: tuple[Any, Any] | None = None
    every: bool = False
    why: str = ""

    def __post_init__(self) -> None:
        join_texts(self)
        kinds = ("real", "nonnegative", "positive", "size", "fraction", "choice")
        if self.kind not in kinds:
            raise DomainError(f"{self.name}: kind {self.kind!r} is not one of {', '.join(kinds)}")
        if (self.kind == "choice") != bool(self.choices):
            raise DomainError(f"{self.name}: choices belong to a choice, which needs at least one")
        if self.why and (self.within is None or self.why not in BOUNDS):
            raise DomainError(f"{self.name}: why={self.why!r} gives no reason for bounds; one of {', '.join(BOUNDS)} does")
        if self.within is not None:
            low, high = (exact(x, self.name) for x in self.within)
            bounded = low <= high < sp.oo and low > -sp.oo
            # The ends belong to the range, so they must belong to what the kind admits.
            if not bounded or not all(replace(self, within=None, why="", lengths=None)._admits(x) for x in (low, high)):
                what = f"nothing can be sampled within [{low}, {high}], ends included, as {self.kind}"
                raise DomainError(f"{self.name}: {what}")

    @property
    def instances(self) -> bool:
        """Whether the choices are instances of a number that could be any other."""
        numbers = [c for c in self.choices if isinstance(c, int | sp.Integer) and not isinstance(c, bool)]
        return self.default is None and not self.every and bool(numbers) and set(numbers) != {0, 1}

    def symbol(self, suffix: str = "") -> sp.Symbol:
        """The SymPy symbol of this variable (of one entry, with a suffix, when it is a list)."""
        return _symbol(self.name + suffix, self.kind, self.low > 0, self.closed)

    def check(self, value: Any) -> Any:
        """Return `value` as an exact number (or choice), or raise DomainError naming this variable."""
        if self.lengths is not None:
            if isinstance(value, (str, bytes)) or not isinstance(value, Sequence | np.ndarray):
                raise DomainError(f"{self.name}: expected a list of numbers ({self.meaning}), got {value!r}")
            if len(value) == 0:
                raise DomainError(f"{self.name}: the list is empty; give at least one number")
            return [self._check_one(v, f"{self.name}[{i}]") for i, v in enumerate(value)]
        if isinstance(value, list | tuple | np.ndarray):
            raise DomainError(f"{self.name}: expected one number ({self.meaning}), got a list")
        return self._check_one(value, self.name)

    def _admits(self, value: Any) -> bool:
        try:
            self._check_one(value, self.name)
        except DomainError:
            return False
        return True

    def _check_one(self, value: Any, name: str) -> Any:
        if self.kind == "choice":
            for option in self.choices:
                if str(value) == str(option):
                    return option
            options = ", ".join(map(str, self.choices))
            raise DomainError(f"{name}: {value!r} is not one of {options} ({self.meaning})")
        number = exact(value, name)
        if number is sp.oo:
            if self.kind in ("nonnegative", "positive"):
                return number
            raise DomainError(f"{name}: must be finite ({self.meaning})")
        if self.kind == "size" and not (number.is_integer and number >= self.low):
            raise DomainError(f"{name}: must be an integer >= {self.low} ({self.meaning}), got {value}")
        if self.kind == "nonnegative" and number < 0:
            raise DomainError(f"{name}: must be >= 0 ({self.meaning}), got {value}")
        if self.kind == "positive" and number <= 0:
            raise DomainError(f"{name}: must be > 0 ({self.meaning}), got {value}")
        if self.kind == "fraction":
            inside = 0 <= number <= 1 if self.closed else 0 < number < 1
            if not inside:
                ends = "between 0 and 1" if self.closed else "strictly between 0 and 1"
                raise DomainError(f"{name}: must lie {ends} ({self.meaning}), got {value}")
        if self.within is not None and not exact(self.within[0]) <= number <= exact(self.within[1]):
            raise DomainError(f"{name}: must lie in [{self.within[0]}, {self.within[1]}] ({self.meaning}), got {value}")
        return number

    def sample(self, rng: np.random.Generator) -> Any:
        """A small exact value, for oracles whose cost grows with the sizes."""
        if self.kind == "choice":
            return self.choices[int(rng.integers(len(self.choices)))]
        if self.within is not None:
            return self._sample_within(rng)
        if self.kind == "size":
            return sp.Integer(self.low + int(rng.integers(0, 4)))
        if self.kind == "fraction":
            q = int(rng.integers(2, 12))
            return sp.Rational(int(rng.integers(1, q)), q)
        p, q = int(rng.integers(1, 10)), int(rng.integers(1, 10))
        value = sp.Rational(p, q) * sp.Integer(10) ** int(rng.integers(-1, 2))
        if self.kind == "real":
            return value * (-1) ** int(rng.integers(2))
        if self.kind == "nonnegative" and rng.random() < 0.15:
            return sp.Integer(0)
        return value

    def _sample_within(self, rng: np.random.Generator) -> Any:
        """A value between the bounds, ends included; evenly by logarithm where they are positive and far apart."""
        assert self.within is not None
        low, high = exact(self.within[0]), exact(self.within[1])
        if self.kind == "size":
            return low + int(rng.integers(0, int(high - low) + 1))
        if rng.random() < 0.1:
            return low if rng.random() < 0.5 else high
        if low > 0 and high > 20 * low:
            value = exact(f"{float(low) * (float(high) / float(low)) ** rng.random():.3g}")
        else:
            value = low + (high - low) * sp.Rational(int(rng.integers(1, 64)), 64)
        return min(max(value, low), high)

    def sample_extreme(self, rng: np.random.Generator) -> Any:
        """A value from the far ends of the domain, for closed forms whose cost does not depend on it."""
        if self.kind == "choice" or not self.extreme or self.within is not None:
            return self.sample(rng)
        if self.kind == "size":
            return sp.Integer(self.low) + sp.Integer(int(10 ** rng.uniform(0, 7)) - 1)
        if self.kind == "fraction":
            return sp.Rational(1, 2 + int(10 ** rng.uniform(0, 6)))
        value = sp.Rational(Fraction(float(10 ** rng.uniform(-12, 12))))  # exactly a float64
        if self.kind == "nonnegative" and rng.random() < 0.1:
            return sp.Integer(0)
        return value if self.kind != "real" else value * (-1) ** int(rng.integers(2))


@cache
def _symbol(name: str, kind: str, counted_from_one: bool, closed: bool) -> sp.Symbol:
    assumptions = {
        "real": {"real": True},
        "nonnegative": {"nonnegative": True},
        "positive": {"positive": True},
        "size": {"positive": True, "integer": True} if counted_from_one else {"nonnegative": True, "integer": True},
        "fraction": {"nonnegative": True} if closed else {"positive": True},
    }[kind]
    return sp.Symbol(name, **assumptions)


def exact(value: Any, name: str = "value") -> Any:
    """An exact SymPy number for an int, float, Fraction, or text such as `0.25`, `1/3`, `1e-3`, `inf`.

    Floats are read as the decimal that they print as, so that 0.1 means one tenth.
    """
    if isinstance(value, bool):
        raise DomainError(f"{name}: expected a number, got {value!r}")
    if (
        isinstance(value, sp.Rational)
        or value is sp.oo
        or (isinstance(value, sp.Expr) and value.is_number and value.is_real)
    ):
        return value
    text = str(value).strip().lower()
    if text in ("inf", "+inf", "infinity", "oo"):
        return sp.oo
    if len(text) > 400 or any(len(part) > 4 for part in text.split("e")[1:]):
        raise DomainError(f"{name}: {text[:20]}... has too many digits; write it with an exponent below 1000")
    try:
        return sp.Rational(Fraction(text))
    except (ValueError, ZeroDivisionError):
        hint = "NaN is not a number" if text == "nan" else "expected a number such as 3, 0.25, 1/3 or 1e-3"
        raise DomainError(f"{name}: {hint}, got {value!r}") from None


@dataclass(frozen=True)
class Relation:
    """`target` follows from `sources`; fills in letters that a caller did not give."""

    target: str
    sources: tuple[str, ...]
    rule: Any
    convention: bool = False  # a choice of unit, which other choices do not contradict

    def implied(self, known: Mapping[str, Any]) -> Any:
        """The target's value, or None where the sources are not all known or decide nothing (0/0, inf - inf)."""
        if any(s not in known for s in self.sources):
            return None
        value = self.rule(*(known[s] for s in self.sources))
        return None if value in (sp.nan, sp.zoo) else value


def _local_variances(sigma2_k: Any, n_k: Any, sigma2_dp_k: Any) -> list[Any]:
    lists = (sigma2_k, n_k, sigma2_dp_k)
    if len({len(x) for x in lists}) > 1:
        raise DomainError("sigma2_k, n_k, sigma2_dp_k: give three lists of one length, one entry per silo")
    return [s / n + d / n**2 for s, n, d in zip(*lists, strict=True)]


def _excess(eps: Any, parts: int = 1) -> Any:
    """e^(eps/parts) - 1; a list of budgets, or a named one, has no single one."""
    return sp.exp(eps / parts) - 1 if isinstance(eps, sp.Expr) else sp.nan


def _relations() -> tuple[Relation, ...]:
    def rel(target: str, sources: str, rule: Any) -> Relation:
        return Relation(target, tuple(sources.split()), rule)

    return (
        rel("N", "N1 N2", lambda a, b: a + b),
        rel("N1", "N rho1", lambda n, r: n * r),
        rel("N2", "N N1", lambda n, a: n - a),
        rel("N1", "N N2", lambda n, b: n - b),
        rel("N", "N_np N_p", lambda a, b: a + b),
        rel("N_np", "N rho_np", lambda n, r: n * r),
        rel("N_p", "N N_np", lambda n, a: n - a),
        rel("N_np", "N N_p", lambda n, b: n - b),
        rel("rho_np", "N_np N", lambda a, n: a / n),
        rel("rho1", "N1 N", lambda a, n: a / n),
        rel("sigma2_c", "alpha2 tau2", lambda a, t: a + t),
        rel("tau2", "sigma2_c alpha2", lambda s, a: s - a),
        rel("alpha2", "sigma2_c tau2", lambda s, t: s - t),
        rel("tau2", "Upsilon2 alpha2", lambda u, a: u * a),
        rel("gamma2", "Gamma2 alpha2 N_p", lambda g, a, n: g * a / n),
        rel("gamma2_1", "Gamma2_1 alpha2 N1", lambda g, a, n: g * a / n),
        rel("gamma2_2", "Gamma2_2 alpha2 N2", lambda g, a, n: g * a / n),
        rel("Upsilon2", "tau2 alpha2", lambda t, a: t / a),
        rel("sigma2_loc", "sigma2 n sigma2_dp", lambda s, n, d: s / n + d / n**2),
        rel("sigma2_loc_k", "sigma2_k n_k sigma2_dp_k", _local_variances),
        # Privacy claims are rational in these letters.
        rel("E0", "eps0", _excess),
        rel("E_half", "eps0", lambda e: _excess(e, 2)),
        rel("E1", "eps", _excess),
        # lambda depends on ratios of variances only, so alpha2 = 1 is a choice of unit.
        Relation("alpha2", ("Upsilon2",), lambda u: sp.Integer(1), convention=True),
    )


RELATIONS = _relations()


# What the papers' letters are, for those that a claim does not have as variables but that lead to its variables.
LETTERS = {
    **{n: Variable(n, "size", "number of clients", low=0) for n in ("N", "N1", "N2", "N_np", "N_p")},
    **{n: Variable(n, "fraction", "share of the clients", closed=True) for n in ("rho1", "rho_np")},
    **{
        n: Variable(n, "nonnegative", "a variance or a ratio of variances")
        for n in [
            "alpha2",
            "tau2",
            "sigma2_c",
            "gamma2",
            "gamma2_1",
            "gamma2_2",
            "Upsilon2",
            "Gamma2",
            "Gamma2_1",
            "Gamma2_2",
            "sigma2",
            "sigma2_dp",
            "sigma2_loc",
        ]
    },
    **{n: Variable(n, "positive", "privacy parameter") for n in ("eps", "eps0")},
    **{n: Variable(n, "positive", "e^eps - 1 of a privacy parameter") for n in ("E0", "E1", "E_half")},
    "n": Variable("n", "size", "records per silo"),
    "n_k": Variable("n_k", "size", "records of each silo", lengths=()),
    **{
        n: Variable(n, "nonnegative", "a variance per silo", lengths=()) for n in ("sigma2_k", "sigma2_dp_k", "sigma2_loc_k")
    },
}


def complete(point: Mapping[str, Any], variables: Sequence[Variable]) -> Point:
    """Validate a point, derive missing letters from given ones, fill in defaults.

    Raises DomainError for unknown, missing, inconsistent or out-of-domain coordinates.
    """
    wanted = {v.name: v for v in variables}
    letters = {**LETTERS, **wanted}
    known: Point = {}
    for name, value in point.items():
        if name not in letters:
            names = ", ".join(wanted)
            raise DomainError(f"{name}: not a variable of this claim; its variables are {names}")
        known[name] = letters[name].check(value)
    given = dict(known)
    changed = True
    while changed:
        changed = False
        for r in RELATIONS:
            implied = None if r.target in known else r.implied(known)
            if implied is not None:
                known[r.target] = letters[r.target].check(implied)
                changed = True
    for r in RELATIONS:
        implied = r.implied(known) if r.target in given and not r.convention else None
        if implied is not None and implied != given[r.target]:
            parts = ", ".join(f"{s}={known[s]}" for s in r.sources)
            raise DomainError(f"{r.target}: {given[r.target]} contradicts {parts} (they give {implied})")
    missing = [v for v in variables if v.name not in known and v.default is None]
    if missing:
        what = "; ".join(f"{v.name} ({v.meaning})" for v in missing)
        raise DomainError(f"missing value for {what}")
    result = {v.name: known.get(v.name, v.default) for v in variables}
    lengths = {len(result[v.name]) for v in variables if v.lengths is not None}
    if len(lengths) > 1:
        names = ", ".join(f"{v.name} ({len(result[v.name])})" for v in variables if v.lengths is not None)
        raise DomainError(f"lists of one claim must have one length, got {names}")
    for length in lengths:
        if result.get("level", 1) > length:
            raise DomainError(f"level: {result['level']} is beyond the {length} levels given")
        if result.get("k", 0) >= length:
            raise DomainError(f"k: silo {result['k']} does not exist; silos are 0 to {length - 1}")
    return result


@dataclass(frozen=True)
class Case:
    """One discrete choice of a claim's arguments: values of choices and lengths of lists."""

    choices: Point = field(default_factory=dict)
    length: int | None = None

    def label(self) -> str:
        """Short text such as `level=1, own_noise=0`."""
        parts = [f"{k}={v}" for k, v in self.choices.items()]
        if self.length is not None:
            parts.append(f"entries={self.length}")
        return ", ".join(parts)


def cases(variables: Sequence[Variable]) -> Iterator[Case]:
    """Every combination of choices and list lengths of the given variables."""
    lengths: tuple[int | None, ...] = (None,)
    for v in variables:
        if v.lengths is not None:
            lengths = v.lengths
    combos: list[Point] = [{}]
    for v in variables:
        if v.kind == "choice":
            combos = [{**c, v.name: option} for c in combos for option in v.choices]
    for length in lengths:
        for combo in combos:
            # An index into lists (level from 1, silo k from 0) must point into them.
            if length is None or (combo.get("level", 1) <= length and combo.get("k", 0) < length):
                yield Case(combo, length)


def symbols_of(variables: Sequence[Variable], case: Case) -> Point:
    """Arguments of a formula with a symbol for every continuous variable of the case."""
    arguments: Point = {}
    for v in variables:
        if v.kind == "choice":
            arguments[v.name] = case.choices[v.name]
        elif v.lengths is not None:
            assert case.length is not None
            arguments[v.name] = [v.symbol(f"_{i + 1}") for i in range(case.length)]
        else:
            arguments[v.name] = v.symbol()
    return arguments


def box(variables: Sequence[Variable], case: Case) -> dict[Any, tuple[Any, Any]]:
    """The ends between which each symbol of a case ranges, for those bounded from both sides."""
    found: dict[Any, tuple[Any, Any]] = {}
    symbols = symbols_of(variables, case)
    for v in variables:
        if v.within is not None and v.kind != "choice":
            ends = exact(v.within[0]), exact(v.within[1])
            found |= dict.fromkeys(symbols[v.name] if v.lengths is not None else [symbols[v.name]], ends)
    return found


def substitution(variables: Sequence[Variable], case: Case, point: Mapping[str, Any]) -> dict[Any, Any]:
    """The replacement of symbols of a case by the numbers of a point."""
    rules: dict[Any, Any] = {}
    for name, symbol in symbols_of(variables, case).items():
        if isinstance(symbol, list):
            rules.update(zip(symbol, point[name], strict=True))
        elif isinstance(symbol, sp.Symbol):
            rules[symbol] = point[name]
    return rules


def point_of(variables: Sequence[Variable], case: Case, values: Mapping[Any, Any]) -> Point:
    """The point of a case whose symbols have these values: the inverse of `substitution`."""
    return {
        name: [values[s] for s in symbol] if isinstance(symbol, list) else values.get(symbol, symbol)
        if isinstance(symbol, sp.Symbol) else symbol
        for name, symbol in symbols_of(variables, case).items()
    }  # fmt: skip


def case_of(variables: Sequence[Variable], point: Mapping[str, Any]) -> Case:
    """The case that a complete point belongs to."""
    choices = {v.name: point[v.name] for v in variables if v.kind == "choice"}
    length = next((len(point[v.name]) for v in variables if v.lengths is not None), None)
    return Case(choices, length)


def sample_point(variables: Sequence[Variable], case: Case, rng: np.random.Generator, extreme: bool = False) -> Point:
    """A random exact point of a case."""
    point: Point = {}
    for v in variables:
        draw = v.sample_extreme if extreme else v.sample
        if v.kind == "choice":
            point[v.name] = case.choices[v.name]
        elif v.lengths is not None:
            assert case.length is not None
            point[v.name] = [draw(rng) for _ in range(case.length)]
        else:
            point[v.name] = draw(rng)
    return point


def as_float(value: Any) -> Any:
    """Floats (lists of floats) for exact values; choices and integers of size kind stay as they are."""
    if isinstance(value, list | tuple):
        return [as_float(v) for v in value]
    if isinstance(value, sp.Integer):
        return int(value)
    if isinstance(value, sp.Expr):
        return float(value) if value is not sp.oo else float("inf")
    return value


def as_text(value: Any) -> Any:
    """JSON-ready exact text of a value: `3/4`, or a list of such."""
    if isinstance(value, list | tuple):
        return [as_text(v) for v in value]
    return value if isinstance(value, str | int | float) or value is None else str(value)


def in_line(value: Any) -> str:
    """Text of a value, or of a list in brackets, for people.

    >>> in_line(["1/2", 3]), in_line(7)
    ('(1/2, 3)', '7')
    """
    return "(" + ", ".join(map(str, value)) + ")" if isinstance(value, list) else str(value)
