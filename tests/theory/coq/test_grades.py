"""The grade of a proof file follows from its text: a statement that loses its object loses its grade."""

import re

import pytest

from theory import claims, find
from theory.coq import checker, grades, libraries, proof_files
from theory.coq.terms import Theorem
from theory.strength import GRADES, strength

OF_OBJECT = ("generative:thm2:tail", "mrmtl:eq12:kl", "robusthdp:gauss", "fedhdp:tables:gains", "generative:remark1")


def on_file(claim_id):
    return proof_files.path_of(claim_id).read_text(encoding="utf-8")


def file_of(*theorems, library="Costs"):
    """A proof file's text with theorems, given as a statement and a script."""
    made = [Theorem(f"holds_{k}", "", [], [], said, [script]).render() for k, (said, script) in enumerate(theorems)]
    return "\n".join([f"Require Import Borrow.{library}.\nOpen Scope R_scope.\n", *made])


@pytest.mark.parametrize("claim_id", OF_OBJECT)
def test_a_statement_that_loses_its_object_loses_its_grade(claim_id):
    text = on_file(claim_id)
    assert grades.grade(text) == "definition"
    known = grades.objects(tuple(libraries.behind(libraries.required(text))))

    def without(found):
        return re.sub(rf"\b(?:{'|'.join(known)})\b", "exp", found[0])

    lost = grades.THEOREM.sub(without, text, count=1)
    assert lost != text
    assert grades.grade(lost) != "definition"


def test_a_closed_inequality_is_of_no_object_however_its_file_begins():
    closed = ("erfc (sqrt x) <= exp (- x)", "now apply erfc_mills.")
    law = ("least_delta eps p q (erfc x)", "trivial.")
    assert grades.grade(file_of(law)) == "definition"
    assert grades.grade(file_of(law, closed)) == "algebra"
    assert grades.grade(file_of(closed)) == "algebra"
    # A letter that is called as a definition is a letter.
    assert grades.grade(file_of(("forall risk step : R,\n    exp risk <= step", "lra."))) == "algebra"
    assert grades.grade(file_of(("forall (x : R) (bias : R),\n    x <= bias", "lra."))) == "algebra"
    # What no file behind it defines is none of our definitions.
    assert grades.grade(file_of(law, library="Positive")) == "algebra"
    # A function of numbers is no object.
    assert grades.grade(file_of(("Beta_of 1 1 = 1", "now apply beta_one."))) == "algebra"


def test_enclosures_are_found_in_scripts_and_behind_lemmas():
    said = "exp 1 <= 3"
    assert grades.grade(file_of((said, "interval."))) == "interval"
    assert grades.grade(file_of((said, "unfold bell; integral with (i_prec 40)."))) == "interval"
    assert grades.grade(file_of((said, "apply classical_noise."))) == "interval"  # by way of room_is_left
    assert grades.grade(file_of((said, "apply pays_beyond."))) == "algebra"
    assert "room_is_left" in grades.enclosing(tuple(libraries.behind(["Costs"])))
    assert "room_is_left" not in grades.enclosing(tuple(libraries.behind(["Positive"])))
    assert grades.enclosing(tuple(libraries.behind(["Positive"]))) == grades.TACTICS


def test_a_failure_is_of_the_object_that_the_right_formula_is_of_and_alone_is_a_counterexample():
    law = ("least_delta eps p q\n      (erfc x / 2)", "trivial.")
    rights = ("erfc x / 2", "erfc x")
    fails, another = ((f"~ (forall x : R,\n    0 < x ->\n    exp x = {right})", "lra.") for right in rights)
    assert grades.grade(file_of(law, fails)) == "definition"
    assert grades.grade(file_of(law, another)) == "algebra"
    assert grades.grade(file_of(fails)) == "counterexample"
    assert grades.grade(file_of(fails, another)) == "counterexample"
    with pytest.raises(ValueError, match="without a theorem"):
        grades.grade("Require Import Borrow.Costs.\n")


def test_every_definition_is_read():
    """What coqc would take for a definition is one here, so that none is missed."""
    for name in grades.DEFINITIONS:
        text = re.sub(r"\(\*.*?\*\)", "", libraries.text_of(name), flags=re.DOTALL)
        made = set(re.findall(r"^(?:Definition|Fixpoint|Record|Inductive|CoFixpoint|Notation) +(\w+)", text, re.MULTILINE))
        assert made == set(grades.DEFINED_NAME.findall(text))
        assert made - grades.DEFINED <= grades.objects(("Objects",))


def test_the_grades_on_file_tell_the_truth():
    """Read once more, by other means: what needs coq-interval names it, and what is said to be of an object names one."""
    seen = set()
    for claim in claims():
        if not (grade := proof_files.grade_of(claim.id)):
            continue
        seen.add(grade)
        text = on_file(claim.id)
        statements = [s for s, _ in grades.THEOREM.findall(text)]
        assert len(statements) == proof_files.count_theorems(text), claim.id
        assert (grade == "counterexample") == all(s.strip().startswith("~") for s in statements) or grade == "definition"
        if grade == "definition":
            assert proof_files.read(proof_files.path_of(claim.id))[0] == "defined", claim.id
        if not checker._may_assume(text)[1]:  # no library of coq-interval's behind it
            assert grade in ("algebra", "counterexample"), claim.id
    assert seen == {"definition", "algebra", "interval", "counterexample"} < GRADES.keys()


def test_a_claim_of_which_only_a_failure_is_proved_says_so():
    found = strength(find("fedhdp:personal"))
    assert found.short == "counterexample"
    assert "nothing of the right one" in found.text
