"""Rational functions of letters whose signs are known, and branches: what was decided of them on a way through some code.

Values of functions that are not rational (roots, exponentials, logarithms) are letters of their own, in a normal form that
knows how exp and log of sums and products split.

Belongs here: fractions of polynomials, their signs, branches.  Does not belong here: running code (tracing.py, relinked.py).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple

import sympy as sp
from flint import Ordering, fmpq, fmpq_mpoly_ctx

UNITS, ATOMS = 24, 12  # letters for units, and for values of functions that are not rational
WORK = 100_000  # terms of polynomials that a case may take, so that what is traced does not depend on a machine's speed
FACTORABLE = 10**18  # whole numbers that are taken apart into primes; longer ones are floats' digits, and can take minutes
FEW = 3  # terms of a polynomial that is looked at anew more quickly than remembered
OF_FLOATS = 4  # units in which floats are taken apart, one after the other
BRANCHES = 400
SIGNS = frozenset((-1, 0, 1))
PLUS, MINUS, ZERO = frozenset((1,)), frozenset((-1,)), frozenset((0,))
# Why code is not traced: each is what stopped the tracer.
REASONS = {
    "iterates": "how much work it does depends on the numbers",
    "numbers": "all its arguments are numbers",
    "digits": "it works with the digits of floats",
    "library": "it calls a function of a library that has no formula here",
    "compiled": "compiled code that is not Python's",
    "infinite": "it goes through infinity",
    "branches": f"more than {BRANCHES} branches",
    "refuses": "it refuses points of the domain, or that it does not is not decided",
    "undecided": "its formula is not decided to be the claim's",
    "large": "its formulas grow too large",
    "time": "whether they are equal is not decided in the processor time given",
}


class NotTraced(Exception):
    """Code that cannot be run on letters: the kind of reason, and what stopped it."""

    def __init__(self, kind: str, what: str):
        super().__init__(f"{REASONS[kind]}: {what}")
        self.kind, self.what = kind, what


class TooFew(NotTraced):
    """The ring has too few letters."""


class Impossible(Exception):
    """A branch that no point of the domain takes."""


# --- rational functions of letters ---------------------------------------------------------------------------------------


class Ratio(NamedTuple):
    """A reduced fraction of two polynomials."""

    top: Any
    bottom: Any


class Letters:
    """The letters of one trace: a claim's, shifted so that their signs are plain; units; values of other functions."""

    def __init__(
        self, symbols: Sequence[Any], signs: Mapping[Any, frozenset[int]], shifts: Mapping[Any, Any], atoms: int = ATOMS
    ):
        self.symbols, self.shifts = list(symbols), shifts
        names = [f"x{i}" for i in range(len(symbols))] + [f"u{i}" for i in range(UNITS)] + [f"f{i}" for i in range(atoms)]
        self.ring = fmpq_mpoly_ctx.get(names, Ordering.lex)
        self.gens = self.ring.gens()
        self.signs = [signs.get(s, SIGNS) for s in symbols] + [PLUS] * UNITS + [SIGNS] * atoms
        self.most = atoms
        self.one = self.ring.constant(1)
        self.atoms: dict[Any, int] = {}
        self.inner: dict[int, tuple[str, Ratio]] = {}
        self.roots: list[int] = []
        self.units, self.floats, self.work = OF_FLOATS, 0, 0
        self.values: dict[Any, Ratio] = {}
        self.factored: dict[str, Any] = {}
        self.signed_terms: dict[str, frozenset[int]] = {}
        plain = {s: Ratio(self.gens[i], self.one) for i, s in enumerate(self.symbols)}
        self.values |= plain
        for s, e in shifts.items():
            self.values[s] = self.read(e, {s: plain[s]})

    def factors(self, polynomial: Any) -> tuple[Any, list[tuple[Any, int]]]:
        """`factors_of`, remembered."""
        key = str(polynomial)
        if key not in self.factored:
            self.factored[key] = factors_of(polynomial)
        return self.factored[key]

    def sign(self, polynomial: Any) -> frozenset[int]:
        """`_sign_of_terms` for the letters' signs, remembered."""
        if len(polynomial) < FEW:
            return _sign_of_terms(polynomial, self.signs)
        key = str(polynomial)
        if key not in self.signed_terms:
            self.signed_terms[key] = _sign_of_terms(polynomial, self.signs)
        return self.signed_terms[key]

    def signed(self, a: Ratio) -> Any:
        """A polynomial with the sign of a fraction: its numerator, where the sign of its denominator is plain."""
        below = self.sign(a.bottom)
        return a.top if below == PLUS else -a.top if below == MINUS else a.top * a.bottom

    def shift(self, symbol: Any) -> Any:
        """A letter as it is counted: a size from its least value, and so on; the counted one has its name."""
        return self.shifts.get(symbol, symbol)

    def unshift(self, symbol: Any) -> Any:
        """What is counted, in terms of the letter."""
        e = self.shift(symbol)
        return symbol / (1 - symbol) if e == symbol / (1 + symbol) else 2 * symbol - e

    def number(self, x: Any) -> Ratio:
        """A rational number."""
        return Ratio(self.ring.constant(fmpq(x.numerator, x.denominator)), self.one)

    def reduced(self, top: Any, bottom: Any) -> Ratio:
        """A fraction in lowest terms, its denominator with leading coefficient one."""
        if not bottom:
            raise ZeroDivisionError
        self.work += len(top) + len(bottom)
        if self.work > WORK:
            raise NotTraced("large", f"more than {WORK} terms of polynomials")
        for i in self.roots:
            top, bottom = self.without_squares(top, i), self.without_squares(bottom, i)
        common = top.gcd(bottom)
        if not common.is_one():
            top, bottom = top // common, bottom // common
        lead = bottom.leading_coefficient()
        return Ratio(top, bottom) if lead == 1 else Ratio(top / lead, bottom / lead)

    def without_squares(self, polynomial: Any, i: int) -> Any:
        """A polynomial with the square of a root as what it is the root of."""
        if polynomial.degrees()[i] < 2:
            return polynomial
        inside, found = self.inner[i][1].top, self.ring.constant(0)
        for powers, c in polynomial.to_dict().items():
            one = tuple(p % 2 if k == i else p for k, p in enumerate(powers))
            found += self.ring.from_dict({one: c}) * inside ** (int(powers[i]) // 2)
        return found

    def add(self, a: Ratio, b: Ratio) -> Ratio:
        """a + b."""
        if a.bottom == b.bottom:
            return self.reduced(a.top + b.top, a.bottom)
        return self.reduced(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom)

    def times(self, a: Ratio, b: Ratio) -> Ratio:
        """a b."""
        return self.reduced(a.top * b.top, a.bottom * b.bottom)

    def over(self, a: Ratio, b: Ratio) -> Ratio:
        """a / b."""
        return self.reduced(a.top * b.bottom, a.bottom * b.top)

    def power(self, a: Ratio, n: int) -> Ratio:
        """a to a whole power."""
        if n > 1 and self.roots:
            return self.reduced(a.top**n, a.bottom**n)
        return Ratio(a.top**n, a.bottom**n) if n >= 0 else self.reduced(a.bottom**-n, a.top**-n)

    def minus(self, a: Ratio, b: Ratio) -> Ratio:
        """a - b."""
        return self.add(a, Ratio(-b.top, b.bottom))

    def unit(self) -> int:
        """A new unit."""
        if self.units == UNITS:
            raise NotTraced("branches", "more units than the tracer has letters for")
        self.units += 1
        return len(self.symbols) + self.units - 1

    def read(self, e: Any, known: Mapping[Any, Ratio] | None = None) -> Ratio:
        """A SymPy expression as a fraction; values of functions that are not rational are letters of their own."""
        e = sp.sympify(e)
        known = self.values if known is None else known
        if e in known:
            return known[e]
        if e.is_Rational:
            return self.number(Fraction(int(e.p), int(e.q)))
        if e.is_Add:
            found = functools.reduce(self.add, (self.read(a, known) for a in e.args))
        elif e.is_Mul:
            found = functools.reduce(self.times, (self.read(a, known) for a in e.args))
        elif e.is_Pow and e.exp.is_Integer:
            found = self.power(self.read(e.base, known), int(e.exp))
        elif e.is_Pow and e.exp.is_Rational and e.exp.q == 2:
            found = self.power(self.root(self.read(e.base, known)), int(e.exp.p))
        elif e.is_Pow and e.base is sp.E:
            found = self.exponential(self.read(e.exp, known))
        elif isinstance(e, sp.exp):
            found = self.exponential(self.read(e.args[0], known))
        elif isinstance(e, sp.log):
            found = self.logarithm(self.read(e.args[0], known))
        elif e.is_Pow:
            found = self.exponential(self.times(self.logarithm(self.read(e.base, known)), self.read(e.exp, known)))
        elif isinstance(e, sp.Function) and len(e.args) == 1:
            found = self.atom(e.func.__name__, self.read(e.args[0], known))
        elif e in (sp.pi, sp.E):
            found = self.atom(str(e), self.number(Fraction(0)))
        else:
            raise NotTraced("undecided", f"{e.func.__name__} has no normal form here")
        if known is self.values:
            self.values[e] = found
        return found

    def exponential(self, x: Ratio) -> Ratio:
        """exp of a sum as a product of powers, so that exp(-x) and 1/exp(x) are one value."""
        found = Ratio(self.one, self.one)
        for powers, c in x.top.to_dict().items():
            log = next((i for i, p in enumerate(powers) if p and self.inner.get(i, ("",))[0] == "log"), None)
            if log is not None and sum(powers) == 1 and c.denominator == 1 and x.bottom.is_one():
                found = self.times(found, self.power(self.inner[log][1], int(c.numerator)))
                continue
            part = self.reduced(self.ring.from_dict({powers: fmpq(1, int(c.denominator))}), x.bottom)
            found = self.times(found, self.power(self.atom("exp", part), int(c.numerator)))
        return found

    def logarithm(self, x: Ratio) -> Ratio:
        """log of a product as a sum, where the factors' signs are plain."""
        scale, factors = factors_of(x.top)
        every = [*factors, *((f, -n) for f, n in factors_of(x.bottom)[1])]
        left, found = Ratio(self.ring.constant(scale), self.one), self.number(Fraction(0))
        for factor, power in every:
            sign = _sign_of_terms(factor, self.signs)
            if (0 in sign and sign != PLUS | ZERO) or (-1 in sign and sign != MINUS):
                left = self.times(left, self.power(Ratio(factor, self.one), power))
                continue
            if sign == MINUS:
                factor, left = -factor, self.times(left, self.number(Fraction((-1) ** power)))
            terms = factor.to_dict()
            (powers,) = terms if len(terms) == 1 else (None,)
            one = next((i for i, p in enumerate(powers) if p), -1) if powers and sum(powers) == 1 else -1
            kind, inner = self.inner.get(one, ("", None))
            value = inner if kind == "exp" and inner is not None else self.atom("log", Ratio(factor, self.one))
            found = self.add(found, self.times(value, self.number(Fraction(power))))
        c = left.top.leading_coefficient() if left.top.is_constant() and left.bottom.is_one() else None
        if c is not None and max(abs(c.numerator), c.denominator) < FACTORABLE:
            for n, sign in ((int(c.numerator), 1), (int(c.denominator), -1)):
                for prime, power in sp.factorint(n).items() if n > 0 else [(n, 1)]:
                    if prime != 1:
                        one = self.atom("log", self.number(Fraction(prime)))
                        found = self.add(found, self.times(one, self.number(Fraction(sign * power))))
            return found
        return self.add(found, self.atom("log", left))

    def root(self, x: Ratio) -> Ratio:
        """A square root, without what is square in plain sight."""
        scale, factors = factors_of(x.top * x.bottom)
        outside, inside = self.one, self.one
        for factor, power in factors:
            if power > 1 and _sign_of_terms(factor, self.signs) <= PLUS | ZERO:
                outside *= factor ** (power // 2)
                power %= 2
            inside *= factor**power
        number: Any = sp.sqrt(sp.Rational(int(scale.numerator), int(scale.denominator)))
        if number.is_Rational:
            outside *= fmpq(int(number.p), int(number.q))
        else:
            inside *= scale
        found = self.reduced(outside, x.bottom)
        return found if inside.is_one() else self.times(found, self.atom("sqrt", Ratio(inside, self.one)))

    def atom(self, name: str, inner: Ratio) -> Ratio:
        """The value of a function as a letter."""
        key = name, str(inner.top), str(inner.bottom)
        if key not in self.atoms:
            if len(self.atoms) == self.most:
                raise TooFew("undecided", "more values of functions than the tracer has letters for")
            at = self.atoms[key] = len(self.symbols) + UNITS + len(self.atoms)
            self.inner[at] = name, inner
            self.signs[at] = self.sign_of(name, inner)
            self.roots += [at] if name == "sqrt" else []
        return Ratio(self.gens[self.atoms[key]], self.one)

    def sign_of(self, name: str, x: Ratio) -> frozenset[int]:
        """The signs that a function's value can have."""
        if name in ("exp", "pi", "E", "erfc", "gamma"):
            return PLUS
        if name in ("sqrt", "Abs"):
            return PLUS if _sign_of_terms(x.top * x.bottom, self.signs) == PLUS else PLUS | ZERO
        return _sign_of_terms((x.top - x.bottom) * x.bottom, self.signs) if name == "log" else SIGNS


def factors_of(polynomial: Any) -> tuple[Any, list[tuple[Any, int]]]:
    """A polynomial's constant and its factors with their powers."""
    try:
        scale, factors = polynomial.factor()
        return scale, [(f, int(n)) for f, n in factors]
    except RuntimeError:  # flint gave up: it is one factor
        return fmpq(1), [(polynomial, 1)]


def _sign_of_terms(polynomial: Any, signs: Sequence[frozenset[int]]) -> frozenset[int]:
    """The signs that a polynomial can have, as far as its terms show."""
    if not polynomial:
        return ZERO
    used = [i for i, d in enumerate(polynomial.degrees()) if d]
    if all(signs[i] <= PLUS | ZERO for i in used):
        coefficients = polynomial.coeffs()
        sign = PLUS if coefficients[0] > 0 else MINUS
        if any((c > 0) != (sign == PLUS) for c in coefficients):
            return SIGNS
        perhaps = [i for i in used if 0 in signs[i]]
        return sign if not perhaps or any(not any(m[i] for i in perhaps) for m in polynomial.monoms()) else sign | ZERO
    found: frozenset[int] | None = None
    for powers, c in polynomial.to_dict().items():
        one = PLUS if c > 0 else MINUS
        for i in used:
            power, sign = int(powers[i]), signs[i]
            if power and sign != PLUS:
                one = frozenset(a * b**power for a in one for b in sign)
        found = one if found is None else found | one if len(found | one) == 1 else _summed(found, one)
        if found == SIGNS:
            return SIGNS
    return ZERO if found is None else found


def _summed(found: frozenset[int], one: frozenset[int]) -> frozenset[int]:
    return frozenset(s for a in found for b in one for s in _sum(a, b))


def _sum(a: int, b: int) -> frozenset[int]:
    return SIGNS if a * b < 0 else frozenset((a or b,))


# --- a branch --------------------------------------------------------------------------------------------------------------


class Branch:
    """One way through the code: what was decided on the way, and what the letters are there."""

    def __init__(self, letters: Letters, choices: Sequence[int]):
        self.letters = letters
        letters.units, letters.floats = OF_FLOATS, 0
        self.choices = list(choices)  # positions among the signs that were possible
        self.widths: list[int] = []
        self.signs = letters.signs
        self.factors: dict[str, tuple[Any, frozenset[int]]] = {}
        self.zero: set[int] = set()  # letters that are zero here
        self.equations: list[Any] = []  # other polynomials that are zero here

    @property
    def narrow(self) -> bool:
        """Whether something is zero on this branch, so that it is a boundary of the domain."""
        return bool(self.zero or self.equations)

    @property
    def choices_made(self) -> int:
        """How many comparisons were not decided by the domain."""
        return len(self.widths)

    def here(self, polynomial: Any) -> Any:
        """A polynomial with the letters that are zero here."""
        for i in self.zero:
            polynomial = polynomial.subs({str(self.letters.gens[i]): 0})
        return polynomial

    def possible(self, polynomial: Any) -> frozenset[int]:
        """The signs that a polynomial can have here."""
        polynomial = self.here(polynomial)
        plain = self.letters.sign(polynomial)
        if len(plain) == 1 or polynomial.is_constant():
            return plain
        scale, factors = self.letters.factors(polynomial)
        found = PLUS if scale > 0 else MINUS
        for factor, power in factors:
            one = self._of_factor(factor)
            found = frozenset(a * b ** int(power) for a in found for b in one)
        return found & plain

    def _of_factor(self, factor: Any) -> frozenset[int]:
        plain = self.letters.sign(factor)
        known = self.factors.get(str(factor))
        return plain & known[1] if known else plain

    def sign(self, polynomial: Any) -> int:
        """The sign of a polynomial here; where it is not known, one of those possible, and the others are run later."""
        polynomial = self.here(polynomial)
        found = self.possible(polynomial)
        if len(found) == 1:
            return next(iter(found))
        _, factors = self.letters.factors(polynomial)
        for factor, _power in factors:
            one = self._of_factor(factor)
            if len(one) > 1:
                self._decide(factor, self._choose([frozenset((s,)) for s in sorted(one, reverse=True)]))
        return self.sign(polynomial)

    def decided(self, polynomial: Any, signs: frozenset[int]) -> bool:
        """Whether a polynomial's sign is among these; where that is not known, first as if it were, and later not."""
        polynomial = self.here(polynomial)
        scale, factors = self.letters.factors(polynomial)
        open_ = [(f, n) for f, n in factors if len(self._of_factor(f)) > 1]
        for factor, _ in open_[1:]:
            self._decide(factor, self._choose([frozenset((s,)) for s in sorted(self._of_factor(factor), reverse=True)]))
        if open_:
            factor, power = open_[0]
            one = 1 if scale > 0 else -1
            for other, n in factors:
                if other is not factor:
                    (sign,) = self._of_factor(other)
                    one *= sign**n
            yes = frozenset(s for s in self._of_factor(factor) if one * s**power in signs)
            options = [o for o in (yes, self._of_factor(factor) - yes) if o]
            if len(options) > 1:
                self._decide(factor, self._choose(options))
        return self.possible(polynomial) <= signs

    def _choose(self, options: Sequence[frozenset[int]]) -> frozenset[int]:
        at = len(self.widths)
        self.widths.append(len(options))
        if at == len(self.choices):
            self.choices.append(0)
        return options[self.choices[at]]

    def _decide(self, factor: Any, signs: frozenset[int]) -> None:
        self.factors[str(factor)] = factor, signs
        if signs == ZERO:
            vanishing = self._vanishing(factor)
            self.zero |= vanishing
            if not vanishing:
                self.equations.append(factor)
        for other, signs in [*self.factors.values()]:
            if not signs & self._plain_here(other):
                raise Impossible
        for equation in self.equations:
            self.zero |= self._vanishing(self.here(equation))

    def _plain_here(self, factor: Any) -> frozenset[int]:
        here = self.here(factor)
        return self.letters.sign(here) if here else ZERO

    def _vanishing(self, factor: Any) -> set[int]:
        """Letters that must be zero where a sum without cancellation is."""
        if not factor or self.letters.sign(factor) not in (PLUS | ZERO, MINUS | ZERO):
            terms = factor.to_dict() if factor else {}
            if len(terms) != 1:
                return set()
        found: set[int] = set()
        for _ in range(len(factor.to_dict())):  # a letter that is zero makes other terms so
            for powers in factor.to_dict():
                zero = found | self.zero
                open_ = [i for i, p in enumerate(powers) if p and 0 in self.signs[i]]
                if len(open_) == 1 and not zero & set(open_):
                    found |= set(open_)
        return found

    def takes(self, rules: Mapping[Any, Any]) -> bool:
        """Whether a point goes this way, as far as that can be seen from its letters alone."""
        letters = self.letters
        values = [sp.sympify(letters.unshift(s)).subs(s, rules[s]) for s in letters.symbols]
        if not all(v.is_Rational for v in values):
            return False
        given = {str(g): fmpq(int(v.p), int(v.q)) for g, v in zip(letters.gens, values, strict=False)}
        given |= {str(letters.gens[i]): 1 for i in range(len(values), len(values) + UNITS)}
        for polynomial, signs in self.factors.values():
            value = polynomial.subs(given)
            if not value.is_constant():
                return False
            number = value.leading_coefficient() if value else 0
            if (number > 0) - (number < 0) not in signs:
                return False
        return True

    def next(self) -> list[int] | None:
        """The choices of the next branch to run; None after the last."""
        choices = self.choices[: len(self.widths)]
        while choices:
            at = len(choices) - 1
            if choices[at] + 1 < self.widths[at]:
                return [*choices[:at], choices[at] + 1]
            choices.pop()
        return None

    def equal(self, a: Ratio, b: Ratio, also: Sequence[Any] = ()) -> bool:
        """Whether two fractions are equal here (where `also` are zero, too)."""
        gap = self.here(a.top * b.bottom - b.top * a.bottom)
        if not gap:
            return True
        equations = [q for q in map(self.here, (*also, *self.equations)) if q]
        if any(not divmod(gap, q)[1] for q in equations):
            return True
        while equations and gap:  # a letter that one of them gives is put into the others
            q, *equations = equations
            alone = (i for i, d in enumerate(q.degrees()) if d == 1 and 0 not in _sign_of_terms(q.derivative(i), self.signs))
            i = next(alone, None)
            if i is not None:
                gap, *equations = (p.resultant(q, i) for p in (gap, *equations))
                equations = [p for p in equations if p]
        return not gap


_now: Branch | None = None


def now() -> Branch:
    """The branch that is run."""
    assert _now is not None
    return _now


@contextmanager
def branch(letters: Letters, choices: Sequence[int]) -> Iterator[Branch]:
    """A branch in which letters are numbers."""
    global _now
    before, _now = _now, Branch(letters, choices)
    try:
        yield _now
    finally:
        _now = before
