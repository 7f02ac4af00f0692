"""Files by hand: what each requires is found, an edit concerns what rests on it alone; `rational`, `by_sign` decide."""

import shutil

import pytest

from theory.coq import checker, defined, libraries

needs_coqc = pytest.mark.skipif(shutil.which("coqc") is None, reason=f"coqc is not installed; {checker.INSTALL}")
ALL = (*defined.LIBRARIES, "Any", "Independence")


def test_every_file_comes_after_what_it_requires():
    order = libraries.behind(ALL)
    assert len(order) == len(set(order))
    for k, name in enumerate(order):
        assert set(libraries.required(libraries.text_of(name))) <= set(order[:k])
    files = {file.stem for folder in (libraries.PROOFS, libraries.MODELS) for file in folder.glob("*.v")}
    assert files == set(order)


@pytest.mark.parametrize(
    ("edited", "rest_on_it"),
    [
        ("Outputs", {"Outputs", "Costs"}),
        ("Lines", {"Lines", "Bounds", "Costs"}),
        ("Counts", {"Counts"}),
        ("Rational", set(libraries.behind(ALL))),
    ],
)
def test_an_edit_concerns_what_rests_on_it_and_nothing_else(edited, rest_on_it, tmp_path, monkeypatch):
    before = libraries.fingerprints(ALL)
    for file in libraries.PROOFS.glob("*.v"):
        shutil.copy(file, tmp_path)
    (tmp_path / f"{edited}.v").write_text(libraries.text_of(edited) + "\n(* one more word *)\n")
    monkeypatch.setattr(libraries, "PROOFS", tmp_path)
    after = libraries.fingerprints(ALL)
    assert {name for name in before if after[name] != before[name]} == rest_on_it
    text = "Require Import Borrow.Laws.\n"
    assert (libraries.resting_on(text, before) == libraries.resting_on(text, after)) == ("Laws" not in rest_on_it)


@pytest.fixture(scope="module")
def tried(own_work):
    """Whether coqc accepts a lemma, where the files by hand are compiled."""
    checker.prepare(own_work)

    def lemma(says, script):
        text = f"Require Import Borrow.Positive.\nOpen Scope R_scope.\nTheorem t : {says}.\nProof. {script} Qed.\n"
        return checker.run_text(own_work, f"{text}Print Assumptions t.\n", 60.0)[0]

    return lemma


INVERSES = "forall x y, 0 < x -> 0 < y -> 1 / x - 1 / y = (y - {y}) / (x * y)"


@needs_coqc
@pytest.mark.parametrize(
    ("says", "script", "right"),
    [
        (INVERSES.format(y="x"), "intros. rational; lra.", True),
        (INVERSES.format(y="2 * x"), "intros. rational; lra.", False),  # another formula
        (INVERSES.format(y="x").replace("0 < y -> ", ""), "intros. rational; nonzero.", False),  # y may be 0
        (INVERSES.format(y="x"), "intros. rational.", False),  # that no denominator is 0 is left to prove
        ("forall x y, (x + y) ^ 3 - (x - y) ^ 3 = 2 * y ^ 3 + 6 * x ^ 2 * y", "intros. rational.", True),
        ("forall n : nat, 0 < INR n -> (INR n + 1) / INR n = 1 + / INR n", "intros. rational. lra.", True),
        ("forall x n, x ^ n * x = x ^ S n", "intros. rational.", False),  # no power that is written out
        ("forall x, exp x - exp x = 0", "intros. rational.", False),  # no function of a field
        ("forall x, 1 - exp x <> 0 -> exp x - 1 <> 0", "intros. nonzero.", True),
        ("forall x y, x = y -> x + 1 = y + 1", "intros. identity.", True),  # by the hypothesis
    ],
)
def test_rational_proves_what_is_so_and_leaves_the_denominators(says, script, right, tried):
    assert bool(tried(says, script)) is right


LETTERS = "forall (n : nat) (a b c x : R), 0 < a -> 0 <= b -> 1 <= c -> 1 <= INR n -> "


@needs_coqc
@pytest.mark.parametrize(
    ("says", "right"),
    [
        ("0 < (a + b) * (x - 1) ^ 2 / c + a * INR n", True),  # by parts
        ("0 <= (a + b) * (x - 1) ^ 3 / c", False),  # nothing is known of x
        ("0 < (a + b) * (c + 2) - a", True),  # by coefficients: the minus signs cancel
        ("0 < (a + b) * (c + 2) - 3 * a", False),  # they do not
        ("0 <= (a + b) * (c + 2) - 2 * a", True),
        ("0 < (a + b) * (c + 2) - 2 * a - a * c", False),  # it may be 0
        ("2 * a - (a + b) * (c + 2) <> 0", True),
        ("b <> 0", False),
        ("0 < a / b", False),  # b may be 0
        ("0 < - a / (- c - b)", True),
        ("0 < - a / (b - b - a)", False),  # coefficients are asked of polynomials only
        ("0 < exp a", False),  # no function of a field
    ],
)
def test_a_sign_is_what_those_of_the_letters_make_it(says, right, tried):
    assert bool(tried(f"{LETTERS}{says}", "intros. by_sign.")) is right
