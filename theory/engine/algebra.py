"""Exact decisions about rational functions: is it zero, is it non-negative, what is its limit.

Belongs here: algorithms that end in yes, no or "unknown" and say which. Does not belong here: models, claims.
An answer is never guessed from numbers; "unknown" is never a pass.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import sympy as sp

from theory.engine.fractions import Fractions, NotRational
from theory.engine.values import Values


class TimeLimit(Exception):
    """A symbolic computation ran out of its time."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimit in the body after `seconds` of processor time, so that what is decided does not depend on how busy
    the machine is (main thread only; elsewhere there is no limit).
    """  # fmt: skip
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    outer = signal.getitimer(signal.ITIMER_PROF)[0]
    limit = min(seconds, outer) if outer else seconds

    def ring(signum: int, frame: Any) -> None:
        raise TimeLimit(f"no answer within {limit:g} s of processor time")

    previous = signal.signal(signal.SIGPROF, ring)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        if outer:  # an outer limit goes on with what is left of it
            signal.setitimer(signal.ITIMER_PROF, max(outer - (time.process_time() - start), 1e-6))


FACTORABLE = 120, 7  # operations and letters; factoring larger rational functions can take minutes


_as_derived = False


def leave_unsimplified() -> None:
    """From now on `simplest` returns what it gets, in this process: for stating theorems in the model's own terms."""
    global _as_derived
    _as_derived = True


def simplest(expression: Any) -> Any:
    """A rational function as one cancelled, factored fraction; a large one is left as it is."""
    expression = sp.sympify(expression)
    if _as_derived:
        return expression
    if expression.count_ops() > FACTORABLE[0] or len(expression.free_symbols) > FACTORABLE[1]:
        return expression
    return factored(expression)


def factored(expression: Any) -> Any:
    """A rational function as one cancelled fraction of factored polynomials, however large it is; in SymPy's writing.

    >>> x, y = sp.symbols("x y")
    >>> factored(1 / x - (x + y) / x**2)
    -y/x**2
    """
    expression = sp.sympify(expression)
    try:
        return Fractions(_letters(expression)).factored(expression)
    except NotRational:
        return sp.factor(sp.cancel(sp.together(expression)))


def _letters(expression: Any) -> tuple[sp.Symbol, ...]:
    """The letters of an expression in SymPy's order, which says what sign a factor has."""
    free = expression.free_symbols
    found: Any = sp.Poly(sp.Add(*free)).gens if free else ()
    return found


def cancelled(expression: Any) -> Any:
    """A rational function as one fraction of two polynomials without a common factor, multiplied out.

    >>> x, y = sp.symbols("x y")
    >>> cancelled(1 / (x + y) + y / (x * (x + y)))
    1/x
    """
    expression = sp.sympify(expression)
    try:
        return Fractions(_letters(expression)).cancelled(expression)
    except NotRational:
        return sp.cancel(sp.together(expression))


def is_zero(expression: Any) -> bool:
    """Whether a rational function of the symbols is identically zero: the numerator's polynomial is.

    Complete for rational functions. Anything else (roots, logarithms) is simplified first and counts as
    zero only if that leaves a rational function that is.
    """
    expression = sp.sympify(expression)
    if not expression.free_symbols:
        return sp.simplify(expression) == 0
    # Expanding and simplifying what is not zero can take minutes, and one point shows that it is not.
    if _nonzero_at_a_point(expression):
        return False
    return _vanishes(expression)


def _vanishes(expression: Any) -> bool:
    # What is not rational as letters of its own: zero in those letters is zero; only otherwise it has to be looked into.
    parts = {e: sp.Dummy() for e in _irrational(expression)}
    rational = expression.xreplace(parts)
    with suppress(NotRational):
        if Fractions(tuple(rational.free_symbols)).of(rational)[0].is_zero():
            return True
        if not parts:
            return False
    numerator, _ = sp.fraction(sp.together(expression))
    return sp.simplify(numerator) == 0


def _irrational(expression: Any) -> set[Any]:
    """The largest parts of an expression that are no rational functions of its letters."""
    if expression.is_Rational or expression.is_Symbol:
        return set()
    if expression.is_Add or expression.is_Mul or (expression.is_Pow and expression.exp.is_Integer):
        return set().union(*map(_irrational, expression.args))
    return {expression}


def _nonzero_at_a_point(expression: sp.Expr) -> bool:
    """Whether the expression is clearly not zero at one rational point (False decides nothing)."""
    point = {s: 1 + sp.Rational(1, k + 2) if s.is_integer is None else k + 2
             for k, s in enumerate(sorted(expression.free_symbols, key=str))}  # fmt: skip
    value = Values(point).digits(expression)
    if value.is_Rational:
        return value != 0
    value = sp.N(value, 30)
    return bool(value.is_Float and abs(value) > sp.Float("1e-15"))


def nonnegative(expression: Any, shifts: Mapping[sp.Symbol, Any] | None = None) -> bool | None:
    """A sign certificate for a rational function: True, False or None (unknown).

    After the substitution `shifts` (such as N -> 1 + n for a size, rho -> t/(1+t) for a fraction) every
    symbol that is not known to be non-negative is looked at on both sides of zero, so that each ranges over the
    non-negative numbers; if all coefficients of numerator and denominator are then
    non-negative the function is >= 0 wherever it is defined. False needs a witness: all numerator
    coefficients negative with a positive denominator. Anything else is unknown.
    """
    expression = sp.sympify(expression)
    if shifts:
        expression = expression.subs(dict(shifts), simultaneous=True)
    for s in sorted(expression.free_symbols, key=str):
        if not s.is_nonnegative:
            x = sp.Dummy(s.name, nonnegative=True)
            sides = [nonnegative(expression.subs(s, side)) for side in (x, -x)]
            return sides[0] if sides[0] is sides[1] else None
    expression = expression.subs({s: sp.Dummy(s.name, nonnegative=True) for s in expression.free_symbols})
    if _sign_of_fraction(expression) is True:
        return True
    # Innermost sums of positive terms as letters of their own keep the polynomials small.
    sums = {a: sp.Dummy(f"s{i}", nonnegative=True) for i, a in enumerate(sorted(_positive_sums(expression), key=str))}
    if sums and _sign_of_coefficients(sp.together(expression.xreplace(sums))) is True:
        return True
    # Common factors of numerator and denominator rarely hide a sign, and finding them is what takes long.
    answer = _sign_of_coefficients(sp.together(expression))
    return answer if answer is not None else _sign_of_coefficients(sp.cancel(sp.together(expression)))


def covers(shifts: Mapping[Any, Any], values: Mapping[Any, Any]) -> bool:
    """Whether non-negative values of the new letters of `shifts` lead to these values of the old ones, or tend to them.

    On the right stand new letters, also where they have the name of an old one; each substitution may bring one more.

    >>> n, p, more, t = sp.symbols("n p more t")
    >>> [covers({n: 2 + more, p: t / (1 + t)}, {n: k, p: 1}) for k in (1, 2)]
    [False, True]
    >>> [covers({n: p + n}, {n: k, p: 2}) for k in (1, 3)]
    [False, True]
    """
    known = {s: value for s, value in values.items() if s not in shifts}
    waiting = dict(shifts)
    while waiting:
        new = {s: sp.sympify(e).subs(known) for s, e in waiting.items()}
        s = min(new, key=lambda s: len(new[s].free_symbols))
        expression = new[s]
        del waiting[s]
        if not expression.free_symbols:
            if expression != values[s]:
                return False
            continue
        (letter,) = expression.free_symbols
        roots = [r for r in _roots(expression - values[s], letter) if r >= 0]
        if not roots and sp.limit(expression, letter, sp.oo) != values[s]:
            return False
        known[letter] = roots[0] if roots else sp.oo
    return True


def _roots(expression: Any, letter: sp.Symbol) -> list[Any]:
    """Where an expression of one letter is zero; most are fractions whose numerator is linear."""
    with suppress(NotRational):
        top, _ = Fractions((letter,)).of(expression)
        if top.total_degree() == 1:
            terms = top.to_dict()
            return [sp.Rational(-int(terms.get((0,), 0)), int(terms[(1,)]))]
    return sp.solve(expression, letter)


def _positive_sums(expression: sp.Expr) -> set[sp.Expr]:
    inner = {node for node in sp.preorder_traversal(expression) if isinstance(node, sp.Add)}
    return {
        node
        for node in inner
        if all(t.as_coeff_Mul()[0] > 0 for t in node.args)
        and not any(a in inner for part in node.args for a in sp.preorder_traversal(part))
    }


def _sign_of_coefficients(expression: Any) -> bool | None:
    numerator, denominator = sp.fraction(expression)
    symbols = sorted(expression.free_symbols, key=str)
    if not symbols:
        return bool(expression >= 0)
    return _sign(*(_coefficients(part, symbols) for part in (numerator, denominator)))


def _sign_of_fraction(expression: Any) -> bool | None:
    """As `_sign_of_coefficients` of the cancelled fraction, which takes no time; None also where it is none."""
    try:
        top, bottom = Fractions(tuple(expression.free_symbols)).of(expression)
    except NotRational:
        return None
    return _sign(top.coeffs(), bottom.coeffs())


def _sign(top: Sequence[Any], bottom: Sequence[Any]) -> bool | None:
    if all(c < 0 for c in bottom):
        top, bottom = [-c for c in top], [-c for c in bottom]
    if all(c >= 0 for c in bottom):
        if all(c >= 0 for c in top):
            return True
        if all(c < 0 for c in top):
            return False
    return None


def _coefficients(part: Any, symbols: Sequence[sp.Symbol]) -> Sequence[Any]:
    """The coefficients of a polynomial, but for a positive factor."""
    try:
        polynomial, divisor = Fractions(symbols).of(part)
        return polynomial.coeffs() if divisor.is_constant() else sp.Poly(part, *symbols).coeffs()
    except NotRational:
        return sp.Poly(part, *symbols).coeffs()


def limit(expression: Any, symbol: sp.Symbol, target: Any) -> Any:
    """Limit of a rational function from the right (or at infinity), by degrees, not by heuristics."""
    expression = sp.cancel(sp.together(sp.sympify(expression)))
    if target is not sp.oo:
        shift = sp.Dummy("h", positive=True)
        expression = sp.cancel(sp.together(expression.subs(symbol, target + 1 / shift)))
        symbol = shift
    numerator, denominator = (sp.Poly(part, symbol) for part in sp.fraction(expression))
    if numerator.is_zero:
        return sp.Integer(0)
    ratio = simplest(numerator.LC() / denominator.LC())
    gap = numerator.degree() - denominator.degree()
    if gap == 0:
        return ratio
    return sp.Integer(0) if gap < 0 else ratio * sp.oo


def stationary_point(objective: Any, variable: sp.Symbol) -> Any:
    """The unique minimiser over the reals of a quadratic in `variable`."""
    polynomial = sp.Poly(sp.expand(objective), variable)
    if polynomial.degree() != 2:
        raise ValueError(f"not a quadratic in {variable}: {objective}")
    a, b, _ = polynomial.all_coeffs()
    return simplest(-b / (2 * a))


def entrywise(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to a scalar or to each entry of a tuple; None stays None."""
    if isinstance(value, tuple):
        return tuple(None if v is None else function(v) for v in value)
    return None if value is None else function(value)


def entries(value: Any) -> tuple[Any, ...]:
    """The entries of a value: itself, or those of a tuple."""
    return value if isinstance(value, tuple) else (value,)
