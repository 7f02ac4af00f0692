"""Independence of judges is measured: frauds and slips are seen, packing and machinery are let through."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from theory import find
from theory.engine import independence, reach
from theory.engine.independence import _computes, _typed, problems

HONEST = find("fedhdp:lemma1")


def test_an_honest_claim_has_no_problem():
    assert problems(HONEST) == []


PACKING = """
def f(a, b): return [a, *b], {"x": a}
def f(v, level): return [v[f"x{i}"] for i in range(3)], v[level - 1]
def f(a): return sp.Integer(2), sp.sympify(a), sorted(a.items())
TABLE = {"a": (1, 2.5), "b": (-3, "x")}
def f(a): return [a] * 3 + [a]
"""
COMPUTING = """
def f(a, b): return a + b
def f(a): return -a
def f(a): return sum(a)
def f(a): return sp.sqrt(a)
def f(a):
    a *= 2
    return a
def f(a): return a.subs(1, 2)
RATIO = A / B
"""


def _statements(text):
    return ast.parse(text).body


@pytest.mark.parametrize("statement", _statements(PACKING))
def test_packing_computes_nothing(statement):
    assert not _computes(statement)


@pytest.mark.parametrize("statement", _statements(COMPUTING))
def test_arithmetic_is_no_packing(statement):
    assert _computes(statement)


TYPED = """
def derive(a, b):
    d = Derivation()
    d.say("we find", a / b)
    return d.conclude("so", a / (a + b))
def derive(a, b):
    d = Derivation()
    x = d.say("we find", sp.sqrt(a))
    return d.conclude("so", x)
def derive(a, b):
    return Derivation().conclude("so", sp.Integer(0))
"""
HONEST_TEXT = """
def derive(a, b):
    d = Derivation()
    x = d.say("first", a / b)
    return d.conclude("so", x + a)
def derive(a, b):
    d = Derivation()
    return d.conclude("so", d.lemma("x", a=a))
def derive(a, b):
    d = Derivation()
    found = []
    for x in (a, b):
        found.append(sp.diff(x, a))
    return d.conclude("so", tuple(found))
def derive(a, b):
    d = Derivation()
    x = d.say("the root", sp.solve(a, b)[0])
    return d.conclude("so", x)
"""


@pytest.mark.parametrize("function", _statements(TYPED))
def test_a_typed_conclusion_is_seen(function):
    assert _typed(function)


@pytest.mark.parametrize("function", _statements(HONEST_TEXT))
def test_a_conclusion_of_steps_is_let_through(function):
    assert not _typed(function)


def test_the_lines_between_two_routes_are_not_crossed():
    """Derivation and oracle through the same half of the engine are one route."""
    derive = find("fedhdp:lemma3:bayes").derive
    crossed = replace(HONEST, oracle=derive, derive=derive)
    assert any(p.startswith("derive and oracle share") for p in problems(crossed))


def test_shares_must_name_what_is_shared():
    named = replace(HONEST, shares={"theory.papers.nothing.f": "because"})
    assert any("no two judges share" in p for p in problems(named))


def test_few_functions_are_declared_as_shared():
    found = independence.declared()
    assert len(found) <= independence.SHARES_AT_MOST, found


def test_closures_know_the_lemmas_of_a_derivation():
    claim, lemma = find("feo2:lemma2"), find("fedhdp:lemma3:bayes")
    code = reach.collect(reach.sources(), lemma.derive, reach.Reached()).nodes
    assert code <= independence.reached(claim, "derive")
    assert not code <= independence.reached(claim, "oracle")
