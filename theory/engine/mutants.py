"""Mutants: small wrong variations of a formula, which the checks must reject.

Belongs here: generating and classifying them. Does not belong here: how a check decides (judging.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from theory.engine.algebra import is_zero

MAX_PER_FORMULA = 60


@dataclass(frozen=True)
class Mutant:
    """A changed formula and what was changed."""

    change: str
    formula: Any


def _nodes(expression: sp.Expr, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], sp.Expr]]:
    """Every subexpression with the path of argument positions that leads to it."""
    yield path, expression
    for i, arg in enumerate(expression.args):
        if isinstance(arg, sp.Expr):
            yield from _nodes(arg, (*path, i))


def _rebuilt(expression: sp.Expr, path: tuple[int, ...], new: sp.Expr) -> sp.Expr:
    """The expression with the subexpression at a path replaced."""
    if not path:
        return new
    i = path[0]
    inner = _rebuilt(expression.args[i], path[1:], new)
    return expression.func(*expression.args[:i], inner, *expression.args[i + 1 :])


def _edits(symbols: Sequence[sp.Symbol]):
    def edit(node: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
        if isinstance(node, sp.Add):
            for i, term in enumerate(node.args):
                rest = node.func(*node.args[:i], *node.args[i + 1 :])
                yield f"sign of {term}", rest - term
                yield f"dropped term {term}", rest
        if isinstance(node, sp.Mul):
            for i, factor in enumerate(node.args):
                if not factor.is_Number:
                    rest = node.func(*node.args[:i], *node.args[i + 1 :])
                    yield f"dropped factor {factor}", rest
        if isinstance(node, sp.Symbol):
            if node.is_integer:
                yield f"{node} -> {node}-1", node - 1
                yield f"{node} -> {node}+1", node + 1
            for other in [s for s in symbols if s != node and s.is_integer == node.is_integer][:2]:
                yield f"{node} -> {other}", other
        if not node.is_Number or node not in (sp.Integer(-1),):
            yield f"factor 2 on {node}", 2 * node
        if isinstance(node, sp.Pow) and isinstance(node.exp, sp.Integer) and node.exp > 1:
            yield f"exponent of {node} lowered", node.base ** (node.exp - 1)

    return edit


def mutants(formula: Any) -> list[Mutant]:
    """Distinct single-edit mutants of an expression, thinned evenly to at most MAX_PER_FORMULA."""
    formula = sp.sympify(formula)
    if formula.is_number:
        other = sp.Integer(1) if formula.is_infinite else formula + 1
        return [Mutant(f"{formula} -> {other}", other)]
    symbols = sorted(formula.free_symbols, key=str)
    edit = _edits(symbols)
    edits = [(path, change, new) for path, node in _nodes(formula) for change, new in edit(node)]
    found: dict[Any, Mutant] = {}
    # Thin before rebuilding the trees, which is what costs; a large formula has thousands of edits.
    step = max(1.0, len(edits) / (1.5 * MAX_PER_FORMULA))
    for k in range(int(len(edits) / step)):
        path, change, new = edits[int(k * step)]
        mutant = _rebuilt(formula, path, new)
        if mutant != formula and not mutant.has(sp.zoo, sp.nan):
            found.setdefault(mutant, Mutant(change, mutant))
    return list(found.values())[:MAX_PER_FORMULA]


def classify(
    mutant: Mutant, formula: Any, samples: Iterable[tuple[dict[Any, Any], Any]], value: Callable[..., Any],
    differs: Callable[[Any, Any], bool],
) -> str:  # fmt: skip
    """killed: differs from the oracle's value at some sample; equivalent: proved equal; else survived."""
    for rules, truth in samples:
        if differs(value(mutant.formula, rules), truth):
            return "killed"
    try:
        return "equivalent" if is_zero(mutant.formula - formula) else "survived"
    except Exception:  # an undecided equality is not a proof
        return "survived"
