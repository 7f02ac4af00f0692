"""The fields of a claim that keep its verdict honest: edits, assumptions, tightness of bounds, exemptions by kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

from theory import claims, find
from theory.engine import exemption_checks, registry
from theory.engine.assumption import contradictions, inherited
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.levels import computed, derived
from theory.engine.levels.slack import slack
from theory.engine.problem import Malformed
from theory.engine.steps import Steps
from theory.engine.switches import SWITCHES
from theory.engine.tight import Tight

HOLDS = find("feo2:gamma-prop")


def judged(claim):
    return derived.level(claim)


def test_an_edit_that_changes_the_value_excludes_holds():
    assert judged(HOLDS)["judgement"] == "agrees"
    harmless = Edit(printed=r"\gamma^2", read=r"\gamma_p^2", reason="the private group's noise")
    assert judged(replace(HOLDS, edits=(harmless,)))["judgement"] == "agrees"
    changing = replace(harmless, changes_value=True)
    level = judged(replace(HOLDS, edits=(changing,)))
    assert level["status"] == "fail"
    assert "changes the value" in level["detail"]


def test_edits_are_of_the_text_and_have_reasons():
    with pytest.raises(Malformed, match="latex does not hold"):
        replace(HOLDS, edits=(Edit(printed=r"\zeta", read="z", reason="x"),))
    with pytest.raises(Malformed, match="no reason"):
        Edit(printed="a", read="b", reason="")
    with pytest.raises(Malformed, match="edits nothing"):
        Edit(printed="a", read="a", reason="x")


@pytest.mark.parametrize(("answers", "said"), [({"priors": "flat"}, "no switch"), ({"prior": "round"}, "no answer")])
def test_unknown_assumptions_are_named(answers, said):
    with pytest.raises(Malformed, match=said):
        replace(HOLDS, assumes=answers)


def test_every_switch_has_answers_in_words():
    for name, switch in SWITCHES.items():
        assert switch.question.endswith("?"), name
        assert len(switch.answers) > 1


def test_a_claim_cannot_answer_otherwise_than_its_lemmas(monkeypatch):
    lemma, claim = find("fedhdp:lemma3:bayes"), replace(find("feo2:lemma2"), assumes={})
    assert lemma.id in judged(claim)["lemmas"]
    flat = replace(lemma, assumes={"prior": "flat"})
    monkeypatch.setitem(registry._claims, lemma.id, flat)
    answers = inherited(claim, [lemma.id])
    assert ("prior", "flat", lemma.id) in [(a.switch, a.answer, a.by) for a in answers]
    assert contradictions(answers) == []
    proper = replace(claim, assumes={"prior": "proper"})
    level = judged(proper)
    assert level["status"] == "unknown"
    assert "on which it rests" in level["detail"]
    excused = replace(proper, although={lemma.id: "with no noise both priors give the same"})
    assert judged(excused)["status"] == "pass"


def _one(value):
    return not isinstance(value, tuple) and value != 0


def _a_bound():
    """A bound of one entry that is not zero: twice nothing is nothing."""
    bounds = (c for c in claims() if c.relation != "=" and c.printed is not None and c.condition is None)
    return next(c for c in bounds if c.corrected is None and _one(c.at(c.printed, c.point(c.examples[0]))))


def test_a_stated_slack_is_checked_and_notices_a_loosened_bound():
    claim = _a_bound()
    point = claim.examples[0]
    wrong = slack(replace(claim, tight=Tight(at=point, ratio="17/19")))
    assert "times what it bounds" in wrong["wrong"]
    stated = wrong["wrong"].split(" is ")[1].split(" times")[0]
    right = replace(claim, tight=Tight(at=point, ratio=stated))
    assert slack(right)["wrong"] == ""
    factor = 2 if claim.relation == "<=" else sp.Rational(1, 2)
    looser = replace(right, printed=lambda **v: claim.call(claim.printed, v) * factor)
    assert "times what it bounds" in slack(looser)["wrong"]


def test_a_bound_that_is_no_fraction_can_be_attained():
    claim = find("generative:thm7:valid")
    assert slack(claim)["wrong"] == ""
    loose = replace(claim, tight=Tight(at=claim.tight.at, ratio="1.010000"))
    assert "times what it bounds" in slack(loose)["wrong"]


@pytest.mark.parametrize("claim_id", ["robusthdp:thm2:dependent-weights", "generative:bern:variance-event:finite"])
def test_a_loosened_bound_is_noticed_where_it_bounds_nothing(claim_id):
    claim = find(claim_id)
    assert slack(claim)["wrong"] == ""
    looser = replace(claim, printed=lambda **v: claim.call(claim.printed, v) * sp.Rational(1001, 1000))
    assert f"and not {claim.tight.value}" in slack(looser)["wrong"]


def test_a_bound_of_something_is_not_said_to_bound_nothing():
    claim = find("generative:thm7:valid")
    wrong = slack(replace(claim, tight=Tight(at=claim.tight.at, ratio="oo", value="1")))["wrong"]
    assert "times what it bounds there, and not oo" in wrong


@pytest.mark.parametrize("said", [{"ratio": "oo"}, {"ratio": "1", "value": "1"}])
def test_a_bound_of_nothing_says_its_own_value_and_no_other_does(said):
    with pytest.raises(Malformed, match="own value where it bounds 0"):
        Tight(at={"a": 1}, **said)


def test_tight_is_of_bounds_only():
    with pytest.raises(Malformed, match="no bound"):
        replace(HOLDS, tight=Tight(at=HOLDS.examples[0]))


@pytest.mark.parametrize(
    ("claim_id", "exempt", "kinds", "said"),
    [
        ("feo2:theta-p", Exempt(kind="deterministic"), exemption_checks.SIMULATED, "random variables"),
        ("feo2:theta-p", Exempt(kind="arithmetic"), exemption_checks.SIMULATED, "kind number"),
        ("feo2:theta-p", Exempt(kind="part"), exemption_checks.SIMULATED, "name in `of`"),
        ("feo2:theta-p", Exempt(kind="part", of=("feo2:none",)), exemption_checks.SIMULATED, "no claim has the id"),
        ("feo2:theta-p", Exempt(kind="limit", of=("feo2:theta-np",)), exemption_checks.SIMULATED, "no limit"),
        ("feo2:theta-p", Exempt(kind="line"), exemption_checks.COMPUTED, "no algorithm line"),
        ("feo2:theta-p", Exempt(kind="constant"), exemption_checks.COMPUTED, "depends on"),
        (
            "feo2:theta-p",
            Exempt(kind="elsewhere", function="estimators.server.nothing"),
            exemption_checks.COMPUTED,
            "has no",
        ),
        ("feo2:theta-p", Exempt(kind="refuted"), exemption_checks.COMPUTED, "not refuted"),
        ("fedhdp:lemma3:lambda", Exempt(kind="few"), exemption_checks.COMPUTED, "operations"),
        ("feo2:theta-p", Exempt(kind="outside"), exemption_checks.COMPUTED, "reach estimators"),
        ("generative:mtl", Exempt(kind="outside"), exemption_checks.COMPUTED, "computes generative:eq12:gauss"),
        ("feo2:theta-p", Exempt(kind="rare"), exemption_checks.COMPUTED, "no reason here"),
    ],
)
def test_an_exemption_that_does_not_stand_is_refused(claim_id, exempt, kinds, said):
    assert said in exemption_checks.refused(find(claim_id), exempt, kinds)


def test_exact_fractions_are_nothing_random():
    exact = find("generative:alg2:positive")  # its oracle counts in fractions
    assert exemption_checks.refused(exact, Exempt(kind="deterministic"), exemption_checks.SIMULATED) == ""


def test_an_exemption_that_stands_is_no_mark_against_a_claim():
    few = Exempt(kind="few", note="z^2 S^2 / N^2")
    assert exemption_checks.refused(find("feo2:theta-np"), few, exemption_checks.COMPUTED) == ""
    level = computed.level(
        replace(HOLDS, computed=None, not_computed=Exempt(kind="elsewhere", function="estimators.x.y")), {}
    )
    assert level["status"] == "unknown"
    assert "does not stand" in level["detail"]


@pytest.mark.parametrize("field", ["not_simulated", "not_computed"])
def test_prose_exempts_nothing(field):
    with pytest.raises(Malformed, match="text, which no code can check"):
        replace(HOLDS, **{field: "too easy"})


def test_texts_stand_on_as_many_lines_as_they_like():
    two = r"""\frac{a}%
        {b}\quad
        c"""
    edit = Edit(
        printed=two,
        read=r"\frac{a}{b}",
        reason="""c stands
            for nothing""",
    )
    claim = replace(HOLDS, title=" kept ", statement="One thing,\n    and 50%\n    more.", latex=two, edits=(edit,))
    assert (claim.title, claim.statement) == (" kept ", "One thing, and 50% more.")
    assert claim.latex == claim.edits[0].printed == r"\frac{a}{b}\quad c"
    assert claim.edits[0].reason == "c stands for nothing"
    assert Exempt(kind="few", note="a\n  b").note == "a b"
    steps = Steps()
    steps.say("first\n    half")
    assert steps.steps[0].text == "first half"


def test_kinds_are_named_when_one_is_unknown():
    with pytest.raises(Malformed, match="take one of"):
        Exempt(kind="boring")
