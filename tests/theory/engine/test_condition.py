"""A condition is met inside the domain or it excuses nothing, and no certificate covers only a part of it."""

from dataclasses import replace

import pytest
import sympy as sp

from theory import claims, find
from theory.coq import generator as coq
from theory.coq import terms
from theory.engine.algebra import nonnegative
from theory.engine.claim import Claim
from theory.engine.condition import alternatives, met, moved, on_condition, substitutions
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.judging import judge as judge_fully
from theory.engine.judging import judge_exactly
from theory.engine.tight import Tight

K = Variable("K", "size", "number of silos", low=2)
A = Variable("a", "positive", "a variance")
SHARE = Variable("share", "fraction", "a share")
CLOSED = Variable("share", "fraction", "a share, ends included", closed=True)
BOUNDED = Variable("x", "positive", "a number between 2 and 5", within=(2, 5))
TWO = sp.Integer(2)


def made(variables, printed, derived, **more):
    """A claim whose right formula is `derived`, with a condition that is on trial."""
    example = {v.name: {"size": 3, "positive": 3, "fraction": "1/3", "nonnegative": 2}[v.kind] for v in variables}
    return Claim(
        id="mrmtl:test", title="test", place="nowhere", statement="test", latex="",
        kind="lower bound" if "relation" in more else "identity",
        variables=variables, examples=(example,), printed=printed, oracle=derived,
        derive=lambda **v: Derivation().conclude("It is", derived(**v)),
        not_computed=Exempt(kind="outside"), not_simulated=Exempt(kind="deterministic"), **more,
    )  # fmt: skip


def right_for(value, condition):
    """a (1 + a)/value is printed for a (1 + a)/K, right where K == value only."""
    return made(
        (K, A), lambda K, a: a / value + a**2 / value, lambda K, a: a * (1 + a) / K,
        condition=condition, condition_text="K is as it must be",
    )  # fmt: skip


def levels(claim):
    return judge_exactly(claim, 1).levels


BAD = {
    "outside the domain": right_for(1, lambda K: sp.Eq(K, 1)),
    "no whole number": right_for(sp.Rational(5, 2), lambda K: sp.Eq(K, sp.Rational(5, 2))),
    "a contradiction": right_for(2, lambda K: sp.And(sp.Eq(K, 2), sp.Eq(K, 3))),
    "an order that contradicts an equation": right_for(2, lambda K: sp.And(sp.Eq(K, 2), K > 4)),
    "a letter by itself": right_for(2, lambda K: sp.Eq(K, 2 * K + 2)),
    "one alternative outside": right_for(1, lambda K, a: sp.Or(sp.Eq(K, 1), sp.And(sp.Eq(K, 3), sp.Eq(a, 0)))),
    "an end that is excluded": made(
        (SHARE,), lambda share: sp.Integer(1), lambda share: share,
        condition=lambda share: sp.Eq(share, 1), condition_text="share == 1",
    ),
    "beyond the range": made(
        (BOUNDED,), lambda x: sp.Integer(6), lambda x: x,
        condition=lambda x: sp.Eq(x, 6), condition_text="x == 6",
    ),
    "a positive letter that is zero": made(
        (A,), lambda a: sp.Integer(0), lambda a: a, condition=lambda a: sp.Eq(a, 0), condition_text="a == 0",
    ),
    "an order that no point meets": made(
        (A,), lambda a: 2 * a, lambda a: a, condition=lambda a: sp.Le(a, -1), condition_text="a <= -1",
    ),
}  # fmt: skip
GOOD = {
    "a size of the domain": right_for(2, lambda K: sp.Eq(K, 2)),
    "an end that belongs to it": made(
        (CLOSED,), lambda share: sp.Integer(1), lambda share: share,
        condition=lambda share: sp.Eq(share, 1), condition_text="share == 1",
    ),
    "an end of the range": made(
        (BOUNDED,), lambda x: sp.Integer(5), lambda x: x,
        condition=lambda x: sp.Eq(x, 5), condition_text="x == 5",
    ),
    "one letter through another": made(
        (A, Variable("b", "positive", "another")), lambda a, b: 2 * a, lambda a, b: a + b,
        condition=lambda a, b: sp.Eq(b, a), condition_text="b == a",
    ),
    "two alternatives": made(
        (K, Variable("c", "nonnegative", "a variance")), lambda K, c: c / 2, lambda K, c: c / K,
        condition=lambda K, c: sp.Or(sp.Eq(K, 2), sp.Eq(c, 0)), condition_text="K == 2 or c == 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_condition_that_is_met_nowhere_excuses_nothing(name):
    record = judge_exactly(BAD[name], 1)
    assert record.levels["derived"]["status"] == "fail"
    assert "condition" in record.levels["derived"]["detail"]
    assert record.verdict() == "open"


@pytest.mark.parametrize("name", GOOD)
def test_a_condition_inside_the_domain_holds_there(name):
    record = judge_exactly(GOOD[name], 1)
    assert record.verdict() == "holds under", record.contradictions()
    point = GOOD[name].point(record.levels["derived"]["condition_met_at"])
    assert GOOD[name].holds_at(point)


def test_a_formula_that_fails_on_the_condition_is_not_excused():
    assert levels(right_for(2, lambda K: sp.Eq(K, 3)))["derived"]["status"] == "fail"


def test_the_attack_reaches_equations_and_asks_for_points_on_them():
    claim = GOOD["one letter through another"]
    assert "all outside the condition" in judge_fully(claim, 1, True).levels["attacked"]["detail"]
    wrong = replace(claim, printed=lambda a, b: 3 * a)
    assert judge_fully(wrong, 1, True).levels["attacked"]["status"] == "fail"  # random points alone never have b == a
    never = replace(claim, condition=lambda a, b: sp.false)
    assert judge_fully(never, 1, True).levels["attacked"]["status"] == "unknown"
    assert judge_fully(never, 1, True).verdict() == "open"


def test_nothing_compared_is_no_agreement():
    nothing = made((A,), lambda a: (None, None), lambda a: (a, a))
    assert levels(nothing)["derived"]["status"] == "unknown"
    undefined = made((A,), lambda a: sp.nan, lambda a: sp.nan)
    found = judge_fully(undefined, 1, True).levels
    assert [found[x]["status"] for x in ("derived", "computed", "attacked")] == ["unknown"] * 3


def test_every_committed_condition_is_met_in_its_domain():
    from theory.engine.levels.derived import condition_met

    conditional = [c for c in claims() if c.condition is not None]
    assert len(conditional) > 50
    assert not {c.id: why for c in conditional if (why := condition_met(c)[1])}


# --- what a theorem assumes --------------------------------------------------------------------------------------------


def test_a_theorem_keeps_the_domain_and_the_condition():
    (holds, _) = coq.theorems(GOOD["a size of the domain"])
    texts = [text for _, text in holds.hypotheses]
    assert texts[:3] == ["2 <= K", "0 < a", "K = 2"]
    assert "K" in holds.conclusion


@pytest.mark.parametrize("name", ["outside the domain", "an order that contradicts an equation", "an end that is excluded"])
def test_a_theorem_without_a_point_is_not_stated(name):
    with pytest.raises(terms.Unprovable, match="no point of the domain"):
        coq.theorems(BAD[name])


# --- relations and points ------------------------------------------------------------------------------------------------


def test_equations_are_put_into_each_other():
    a, b, c = sp.symbols("a b c")
    assert substitutions([sp.Eq(a, b + c), sp.Eq(b, 2), a > 1]) == ({a: c + 2, b: 2}, [c + 2 > 1])
    assert substitutions([sp.Eq(a, 1), sp.Eq(a, 2)])[1] == [sp.false]
    assert alternatives(sp.Or(sp.And(a > 0, sp.Or(b > 0, c > 0)), sp.false)) == [[a > 0, b > 0], [a > 0, c > 0]]
    assert (alternatives(sp.true), alternatives(sp.false)) == ([[]], [])


def test_points_move_onto_a_condition_or_not_at_all():
    claim = GOOD["two alternatives"]
    point = claim.point({"K": 4, "c": 3})
    assert list(on_condition(claim, point)) == [{"K": 2, "c": 3}, {"K": 4, "c": 0}]
    (case,) = claim.cases()
    (k, _) = (v.symbol() for v in claim.variables)
    assert moved(claim, case, [sp.Eq(k, 1)], point) is None
    assert met(claim, case, [sp.Ne(k, 2), k < 4]) == {"K": 3, "c": 2}


# --- certificates cover the domain --------------------------------------------------------------------------------------


def bounded(shifts):
    """a K >= 3 a: wrong for K = 2, but right on the part of the domain that K = 3 + n covers."""
    return made((K, A), lambda K, a: 3 * a, lambda K, a: K * a, relation=">=", shifts=shifts)


def test_a_certificate_for_a_part_of_the_domain_is_none():
    n = sp.Symbol("n", nonnegative=True)
    part = levels(bounded(lambda K, **_: {K: 3 + n}))["derived"]
    assert part["status"] == "unknown"
    assert "leaves out a part of the domain, such as K = 2" in part["detail"]
    attained = Tight(at={"K": 2, "a": 1})
    whole = replace(bounded(lambda K, **_: {K: 2 + n}), printed=lambda K, a: 2 * a, tight=attained)
    assert levels(whole)["derived"]["status"] == "pass"


def test_several_substitutions_cover_a_domain_together():
    x = sp.Symbol("x", nonnegative=True)
    pair = (A, Variable("b", "positive", "another"))

    def claim(shifts):
        attained = Tight(at={"a": 1, "b": 1})
        return made(pair, lambda a, b: 2 * a * b, lambda a, b: a**2 + b**2, relation=">=", shifts=shifts, tight=attained)

    assert levels(claim(lambda a, b: [{b: a + x}, {a: b + x}]))["derived"]["status"] == "pass"
    assert levels(claim(lambda a, b: [{b: a + x}]))["derived"]["status"] == "unknown"


def test_a_sign_is_looked_at_on_both_sides_of_a_real_letter():
    """Coefficients say nothing about a letter that may be negative."""
    x, a = sp.Symbol("x", real=True), sp.Symbol("a", positive=True)
    assert nonnegative(x) is None
    assert nonnegative(x + a) is None
    assert nonnegative(x**2 + a) is True
    assert nonnegative(-(x**4) - 1) is False
    real = made((A,), lambda a: sp.Integer(0), lambda a: a, relation=">=", tight=Tight(at={"a": 1}, ratio="0"))
    letter = replace(real, variables=(Variable("a", "real", "any number"),))
    assert levels(real)["derived"]["status"] == "pass"
    assert levels(letter)["derived"]["status"] != "pass"


def test_the_orders_of_the_papers_cover_their_domains():
    for claim_id in ("generative:eq45", "robusthdp:eq8:eps-weights"):
        claim = find(claim_id)
        assert levels(claim)["derived"]["status"] == "pass"
        first = replace(claim, shifts=lambda claim=claim, **v: claim.call(claim.shifts, v)[0])
        assert "leaves out a part" in levels(first)["derived"]["detail"]
