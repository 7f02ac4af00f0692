"""Mutants: every kind of small change, each different from the formula, and no more than are asked for."""

import pytest
import sympy as sp

from theory.engine import mutants as m

A, B = sp.symbols("a b", positive=True)
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


def test_changes_that_are_not_used_are_not_made(monkeypatch):
    """Of a large formula's edits only those that become mutants are made and put into a tree."""
    made = []
    before = m._rebuilt
    monkeypatch.setattr(
        m, "_rebuilt", lambda e, path, new: (made.append(1) if e is large else None, before(e, path, new))[1]
    )
    large = sp.Add(*(A**k / (B + k) for k in range(1, 300)))
    assert len(m.mutants(large)) == m.MAX_PER_FORMULA
    assert m.MAX_PER_FORMULA <= len(made) <= 1.5 * m.MAX_PER_FORMULA
