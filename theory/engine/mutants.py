"""Mutants: small wrong variations of a formula, which the checks must reject.

A mutant is a place in the formula and what stands there instead.  SymPy takes far longer to build its expression than
anybody to evaluate it, so it is built only where it is needed: values at a point tell most mutants apart.

Belongs here: generating and classifying them. Does not belong here: how a check decides (levels.mutated).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy as sp
from flint import arb, fmpq

from theory.engine.algebra import is_zero
from theory.engine.values import Values

MAX_PER_FORMULA = 60


@dataclass(frozen=True)
class Mutant:
    """A changed formula and what was changed."""

    what: str
    part: Any
    whole: Any
    path: tuple[int, ...]
    new: Any

    @cached_property
    def formula(self) -> Any:
        """The changed formula as an expression."""
        return _rebuilt(self.whole, self.path, self.new)

    @property
    def change(self) -> str:
        """What was changed, in words; writing a large part down takes long, and only survivors are shown."""
        return self.what.format(self.part)

    def digits(self, at: Values) -> Any:
        """The value at a point, as `Values.digits` gives it."""
        found = at.digits_with(self.whole, self.path, self.new)
        return at.digits(self.formula) if found is None else found


def _nodes(expression: sp.Expr, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], sp.Expr]]:
    """Every subexpression with the path of argument positions that leads to it."""
    yield path, expression
    for i, arg in enumerate(expression.args):
        if isinstance(arg, sp.Expr):
            yield from _nodes(arg, (*path, i))


def _rebuilt(expression: Any, path: tuple[int, ...], new: sp.Expr) -> sp.Expr:
    """The expression with the subexpression at a path replaced."""
    if not path:
        return new
    i = path[0]
    inner = _rebuilt(expression.args[i], path[1:], new)
    return expression.func(*expression.args[:i], inner, *expression.args[i + 1 :])


Edit = tuple[str, Any, Callable[[], sp.Expr]]
"""What is changed, at which part, and the changed node, which is made when it is asked for: most are not."""


def _edits(symbols: Sequence[sp.Symbol]) -> Callable[[sp.Expr], Iterator[Edit]]:
    def without(node: sp.Expr, i: int) -> sp.Expr:
        return node.func(*node.args[:i], *node.args[i + 1 :])

    def edit(node: sp.Expr) -> Iterator[Edit]:
        if isinstance(node, sp.Add):
            for i, term in enumerate(node.args):
                yield "sign of {}", term, lambda i=i, term=term: without(node, i) - term
                yield "dropped term {}", term, lambda i=i: without(node, i)
        if isinstance(node, sp.Mul):
            for i, factor in enumerate(node.args):
                if not factor.is_Number:
                    yield "dropped factor {}", factor, lambda i=i: without(node, i)
        if isinstance(node, sp.Symbol):
            if node.is_integer:
                yield "{0} -> {0}-1", node, lambda: node - 1
                yield "{0} -> {0}+1", node, lambda: node + 1
            for other in [s for s in symbols if s != node and s.is_integer == node.is_integer][:2]:
                yield f"{{}} -> {other}", node, lambda other=other: other
        if not node.is_Number or node not in (sp.Integer(-1),):
            yield "factor 2 on {}", node, lambda: 2 * node
        if isinstance(node, sp.Pow) and isinstance(node.exp, sp.Integer) and node.exp > 1:
            yield "exponent of {} lowered", node, lambda: node.base ** (node.exp - 1)

    return edit


def mutants(formula: Any) -> list[Mutant]:
    """Distinct single-edit mutants of an expression, thinned evenly to at most MAX_PER_FORMULA."""
    formula = sp.sympify(formula)
    if formula.is_number:
        other = sp.Integer(1) if formula.is_infinite else formula + 1
        return [Mutant(f"{{}} -> {other}", formula, formula, (), other)]
    symbols = sorted(formula.free_symbols, key=str)
    edit = _edits(symbols)
    edits = [(path, found) for path, node in _nodes(formula) for found in edit(node)]
    distinct = _Distinct(formula, symbols)
    # Thin before changing nodes and rebuilding the trees, which is what costs; a large formula has thousands of edits.
    step = max(1.0, len(edits) / (1.5 * MAX_PER_FORMULA))
    for k in range(int(len(edits) / step)):
        if len(distinct.found) == MAX_PER_FORMULA:
            break
        path, (what, part, new) = edits[int(k * step)]
        distinct.add(Mutant(what, part, formula, path, new()))
    return distinct.found


class _Distinct:
    """Mutants whose expressions differ from each other and from the formula.

    Expressions that have different values at a point differ; those with the same one, or with none, are built and compared.
    """

    def __init__(self, formula: Any, symbols: Sequence[sp.Symbol]):
        # Whole numbers for sizes, and no two alike; SymPy's own rules keep the value of an expression at such a point.
        point = {s: sp.Integer(sp.prime(k + 5)) / (1 if s.is_integer else 101) for k, s in enumerate(symbols)}
        self.at = Values({s: -v if s.is_negative else v for s, v in point.items()}, roots=True)
        self.found: list[Mutant] = []
        self._values = [(formula, self.at.enclosure(formula))]

    def add(self, mutant: Mutant) -> None:
        """Add a mutant, unless its expression is there, or has no value anywhere."""
        value = self.at.enclosure(mutant.whole, mutant.path, mutant.new)
        alike = [other for other, there in self._values if _may_be_equal(value, there)]
        if value is None and mutant.formula.has(sp.zoo, sp.nan):
            return
        if not any(mutant.formula == (o.formula if isinstance(o, Mutant) else o) for o in alike):
            self._values.append((mutant, value))
            self.found.append(mutant)


def _may_be_equal(a: fmpq | arb | None, b: fmpq | arb | None) -> bool:
    if a is None or b is None:
        return True
    return a == b if isinstance(a, fmpq) and isinstance(b, fmpq) else bool(arb(a).overlaps(arb(b)))


def classify(
    mutant: Mutant, formula: Any, samples: Iterable[tuple[Any, Any]], value: Callable[..., Any],
    differs: Callable[[Any, Any], bool],
) -> str:  # fmt: skip
    """killed: differs from the oracle's value at some sample; equivalent: proved equal; else survived."""
    for at, truth in samples:
        if differs(value(mutant, at), truth):
            return "killed"
    try:
        return "equivalent" if is_zero(mutant.formula - formula) else "survived"
    except Exception:  # an undecided equality is not a proof
        return "survived"
