"""How judges fail together: the errors are errors, the arithmetic is right, and the kept report is what making it gives."""

import numpy as np
import pytest
import sympy as sp

from theory import joint as report
from theory.engine import joint
from theory.engine.registry import find

EVERYTHING = dict.fromkeys(
    ["small", "attack, first", "attack, rest", "right simulation", "wrong simulation"]
    + [f"{which} float, {where}" for which in ("right", "wrong") for where in ("small", "far")],
    True,
)


def test_an_error_in_one_place_is_noticed_by_who_compares_it():
    def who(*places):
        return {j for j, told in joint.told(EVERYTHING, places).items() if told}

    assert who() == set()
    assert who("printed") == {"derived", "attacked"}
    assert who("derive") == {"derived", "oracle", "float64", "simulated", "attacked"}
    assert who("oracle") == {"oracle", "float64", "attacked"}
    assert who("computed") == {"float64"}
    assert who("simulate") == {"simulated"}
    assert who("printed", "derive") == {"oracle", "float64", "simulated", "attacked"}
    assert who(*joint.PLACES) == set()  # what is wrong everywhere passes


def test_what_cannot_be_told_apart_is_missed():
    blind = dict.fromkeys(EVERYTHING, False)
    assert not any(joint.told(blind, ("oracle", "computed", "simulate")).values())
    assert joint.told(blind, ("printed",))["derived"]  # formulas are compared as formulas


def test_errors_are_errors():
    claim = find("mrmtl:eq5")
    found = joint.errors(claim)
    assert {"slip", "model"} <= {e.kind for e in found}
    assert found == joint.errors(claim)[: len(found)] or [e.what for e in found] == [e.what for e in joint.errors(claim)]
    right = claim.derived(claim.cases()[0])
    assert all(sp.simplify(e.formula[0] - right) != 0 for e in found)
    model = next(e for e in found if e.kind == "model")
    point = claim.point(claim.examples[0])
    assert model.change is not None
    assert model.change(point) != point


def drawn(rng, claims, misses):
    """A table of errors, of which each judge misses some: `misses` draws one pattern."""
    found = {}
    for i in range(claims):
        part = {}
        for _ in range(20):
            pattern = "".join("01"[bool(b)] for b in misses(rng))
            part[pattern] = part.get(pattern, 0) + 1
        found[str(i)] = part
    return found


def test_judges_that_fail_apart_have_a_ratio_of_one():
    rng = np.random.default_rng(1)
    table = drawn(rng, 400, lambda rng: rng.random(5) < 0.4)
    inside = [r.low <= 1 <= r.high for r in joint.ratios(table)]
    assert sum(inside) >= 8
    assert all(r.ratio == pytest.approx(1, abs=0.1) for r in joint.ratios(table))


def test_judges_that_fail_together_are_told():
    rng = np.random.default_rng(2)
    table = drawn(rng, 200, lambda rng: np.repeat(rng.random() < 0.25, 5))
    assert all(r.low > 3 and r.ratio == pytest.approx(4, rel=0.1) for r in joint.ratios(table))
    assert joint.rates(table)["all"] == joint.rates(table)["oracle"]


def test_a_judge_that_misses_nothing_has_no_ratio():
    found = joint.ratios({"a": {"01000": 3, "01100": 1}, "b": {"01010": 2}})
    none = [r for r in found if "derived" in (r.first, r.second)]
    assert all(r.ratio is None and r.low is None and r.joint == 0 for r in none)


@pytest.mark.parametrize("claim_id", ["mrmtl:eq5", "generative:bern:known-mse"])
def test_the_kept_report_is_what_making_it_gives(claim_id):
    assert report.made([find(claim_id)])[claim_id] == report.load()[claim_id]


def test_what_the_report_says_is_counted():
    kept = report.load()
    words, formulas = report.words(kept), joint.rates(report.table(kept, "formulas"))
    for which in ("one", "two"):
        rates = joint.rates(report.table(kept, which))
        for judge in joint.JUDGES:
            assert f"{rates[judge][0]} of {rates[judge][1]}" in words
    assert f"**{formulas['all'][0]} of {formulas['all'][1]} pass every judge**" in words
    assert formulas["all"][0] == 0  # an error in one formula passes no verdict
