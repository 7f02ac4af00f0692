"""Mutants: every kind of small change, each different from the formula, and no more than are asked for."""

import pytest
import sympy as sp

from theory.engine import mutants as m
from theory.engine.values import Values

A, B = sp.symbols("a b", positive=True)
C = sp.Symbol("c", integer=True)
N = sp.Symbol("n", integer=True, positive=True)


def test_mutants_of_a_small_formula_are_known():
    found = {x.change: x.formula for x in m.mutants(A**2 / N - 3)}
    assert found["sign of -3"] == A**2 / N + 3
    assert found["dropped term a**2/n"] == -3
    assert found["dropped factor 1/n"] == A**2 - 3
    assert found["exponent of a**2 lowered"] == A / N - 3
    assert found["n -> n-1"] == A**2 / (N - 1) - 3
    assert found["n -> n+1"] == A**2 / (N + 1) - 3
    assert found["factor 2 on a"] == 4 * A**2 / N - 3
    assert m.mutants(A + B)[0].change == "sign of a"
    assert {x.change for x in m.mutants(A + B)} >= {"a -> b", "b -> a"}


@pytest.mark.parametrize("formula", [sum(A**k * B ** (9 - k) / (N + k) for k in range(12)), A + sp.sqrt(B)], ids=str)
def test_mutants_are_distinct_and_thinned(formula):
    found = [x.formula for x in m.mutants(formula)]
    assert 0 < len(found) <= m.MAX_PER_FORMULA
    assert len(set(found)) == len(found)
    assert formula not in found


def test_trees_that_nobody_asks_for_are_not_built(monkeypatch):
    """A large formula's mutants are told apart, and judged at a point, by their values; trees are built when asked for."""
    made = []
    before = m._rebuilt
    monkeypatch.setattr(
        m, "_rebuilt", lambda e, path, new: (made.append(1) if e is large else None, before(e, path, new))[1]
    )
    large = sp.Add(*(A**k / (B + k) for k in range(1, 300)))
    found = m.mutants(large)
    assert len(found) == m.MAX_PER_FORMULA
    at = Values({A: sp.Rational(1, 3), B: sp.Integer(2)})
    values = [x.digits(at) for x in found]
    assert made == []
    assert values == [at.digits(x.formula) for x in found]
    assert len(made) == m.MAX_PER_FORMULA


@pytest.mark.parametrize(
    "formula",
    [
        2 * A * sp.sqrt(B) + sp.exp(-A / 2) / 2,  # roots and exponentials
        (A - B) ** 3 / (A - B + 1) ** N * 2**N,  # powers of a size
        sp.erfc(A / sp.sqrt(2)) / 2 + sp.Rational(1, 2) ** sp.Rational(1, 3) * sp.log(2 * A) / 4,
        sp.loggamma(A + 1) - sp.gamma(N) + sp.Max(A, B),
        sp.Sum(A**C, (C, 1, N)) + sp.sin(A) * B,  # no enclosure: every tree is built
        1 / (1 + A) - 1 / (A - 1) + (2 * A - 2) ** 2,  # a factor 2 in two places is one mutant
    ],
    ids=str,
)
def test_values_tell_mutants_apart_as_expressions_do(formula):
    """Building every tree, and keeping the distinct ones that have a value, gives the same mutants in the same order."""
    edit, built = m._edits(sorted(formula.free_symbols, key=str)), {}
    for path, node in m._nodes(formula):
        for what, part, new in edit(node):
            tree = m._rebuilt(formula, path, new())
            if tree != formula and not tree.has(sp.zoo, sp.nan):
                built.setdefault(tree, what.format(part))
    assert 0 < len(built) < m.MAX_PER_FORMULA
    assert {x.formula: x.change for x in m.mutants(formula)} == built
    assert [x.formula for x in m.mutants(formula)] == list(built)
