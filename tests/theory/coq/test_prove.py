"""Proofs: what is stated follows the claim, coqc decides, and nothing that is edited, stale or admitted passes."""

import os
import re
import shutil
from dataclasses import replace

import pytest
import sympy as sp

import borrow
from theory import find
from theory.coq import checker, code_proofs, known, model_proofs, proof_files, prove, terms, texts
from theory.coq import generator as coq
from theory.coq.checker import ProofError
from theory.coq.proof_files import path_of, read, with_header
from theory.coq.prove import check
from theory.coq.terms import SAME_TEXT
from theory.engine import reach
from theory.engine.algebra import entrywise
from theory.engine.derivation import Derivation

needs_coqc = pytest.mark.skipif(shutil.which("coqc") is None, reason=f"coqc is not installed; {checker.INSTALL}")
SMALL = "mrmtl:thm6.8"
SAME = "generative:thm5:mse"  # the derivation ends in the printed formula itself


@pytest.fixture
def folder(tmp_path, compiled_into, monkeypatch):
    """An own folder of proofs and of work, so that tests leave the real ones alone."""
    monkeypatch.setattr(proof_files, "FOLDER", tmp_path / "proofs")
    monkeypatch.setattr(proof_files, "UNPROVED", tmp_path / "proofs" / "unproved.json")
    monkeypatch.setattr(checker, "WORK", compiled_into(tmp_path / "work"))
    monkeypatch.setattr(known, "STATUS", tmp_path / "work" / "status.json")
    monkeypatch.setattr(model_proofs, "with_models", lambda chosen: [])  # these are tests of algebra (test_model.py)
    monkeypatch.setattr(code_proofs, "with_code", lambda chosen: [])  # (test_code.py)
    (tmp_path / "proofs").mkdir()
    for file in REAL.glob("*.v"):
        shutil.copy(file, tmp_path / "proofs")
    return tmp_path


REAL = proof_files.FOLDER


def stated(claim):
    return coq.source(claim, coq.theorems(claim))


def accepted(claim, folder):
    path, _ = checker.coqc()
    checker.prepare(path)
    return checker.compile_texts(path, {claim.id: stated(claim)})


# --- terms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("x - y", "x - y"),
        ("-x - y", "- x - y"),
        ("x*(w + y)/(2*z)", "(x * (w + y)) / (2 * z)"),
        ("x/y - z/w", "x / y - z / w"),
        ("(x + y)**2/z**3", "(x + y) ^ 2 / z ^ 3"),
        ("-3*x/4", "- (3 * x) / 4"),
        ("1/(x*(1 - y))", "1 / (x * (1 - y))"),
    ],
)
def test_terms_read_as_formulas(expression, text):
    letters = {s: sp.Symbol(s, positive=True) for s in "xyzw"}
    assert terms.term(sp.sympify(expression, letters)) == text


def test_a_term_means_what_the_expression_means():
    """Coq's operators bind as Python's, with ^ for **."""
    x, y, z = sp.symbols("x y z")
    for e in (x - (y - z), x / (y / z), -(x**2), (-x) ** 2, x * (-y) / z - 2, 1 / (x - 1 / (y + z)), (x / y) ** 3):
        text = terms.term(e).replace("^", "**")
        assert sp.simplify(sp.sympify(text) - e) == 0, text


def test_what_is_no_rational_function_is_not_stated():
    with pytest.raises(terms.Unprovable, match="exp"):
        terms.term(sp.exp(sp.Symbol("x")))


def test_words_of_coq_are_no_letters():
    assert terms.term(sp.Symbol("at")) == "at_"


# --- statements follow the claim -----------------------------------------------------------------------------------


def test_a_claim_states_its_formula_its_domain_and_its_conditions():
    text = stated(find("fedhdp:lemma2:rstar"))
    assert "1 <= N1" in text
    assert "0 <= gamma2_1" in text
    assert "Definition all_theorems := (optimal)" in text
    assert "printed_fails" in stated(find("mrmtl:eq39"))


def test_a_changed_claim_changes_the_statement():
    claim = find(SMALL)
    double = replace(claim, printed=lambda **v: entrywise(claim.call(claim.printed, v), lambda e: 2 * e))
    assert stated(double) != stated(claim)


# --- coqc decides --------------------------------------------------------------------------------------------------


@needs_coqc
@pytest.mark.parametrize("claim_id", [SMALL, "mrmtl:eq39"])
def test_a_right_claim_is_accepted(claim_id, folder):
    assert accepted(find(claim_id), folder) == (True, "")


@needs_coqc
@pytest.mark.parametrize("factor", [2, -1, 1 + sp.Rational(1, 10**12)])
def test_a_wrong_claim_is_rejected(factor, folder):
    claim = find(SMALL)
    wrong = replace(claim, printed=lambda **v: entrywise(claim.call(claim.printed, v), lambda e: factor * e))
    assert not accepted(wrong, folder)[0]


@needs_coqc
@pytest.mark.parametrize(
    "text",
    [
        "Axiom easy : 1 <= 0.\nTheorem t : 1 <= 0.\nProof. exact easy.\nQed.\n",
        "Theorem t : 1 <= 0.\nProof. Admitted.\n",
    ],
)
def test_what_is_assumed_is_not_proved(text, folder):
    path, _ = checker.coqc()
    checker.prepare(path)
    head, tail = "Require Import Borrow.Positive.\nOpen Scope R_scope.\n", f"Definition all_theorems := (t).\n{coq.SHOW}\n"
    accepted_, why = checker.compile_texts(path, {"a:cheat": head + text + tail})
    assert not accepted_
    assert "rests on" in why
    assert not checker.compile_texts(path, {"a:cheat": head + text})[0]  # nor what is not asked about


# --- nothing is proved by a text that equals itself ----------------------------------------------------------------------


def sides(theorem):
    """The two sides of a theorem's conclusion, as they stand in a file."""
    conclusion = theorem.split("->")[-1].split("R,\n")[-1]
    return [part.strip() for part in re.split(r"(?<![<>])=|<=|>=", conclusion)]


def test_a_claim_that_is_derived_as_it_is_printed_has_nothing_to_prove():
    with pytest.raises(terms.SameText, match="same text"):
        coq.theorems(find(SAME))


def test_the_order_of_terms_makes_no_theorem_and_a_step_of_algebra_does():
    claim = find(SMALL)
    (case,) = claim.cases()
    letters = sorted(sp.sympify(claim.derived(case)).free_symbols, key=str)
    x, y = letters[:2]

    def theorems(printed, derived):
        def of(e):
            return lambda **v: e

        small = replace(claim, printed=of(printed), derive=lambda **v: Derivation().conclude("", derived))
        return coq.theorems(small)

    for one, other in ((x + y, y + x), (x * y / 2, y * x / 2), ((x + y) / x, (y + x) / x), (x + x, 2 * x)):
        with pytest.raises(terms.SameText):
            theorems(one, other)
    assert len(theorems(1 + y / x, (x + y) / x)) == 1


def test_no_committed_theorem_has_the_same_text_on_both_sides():
    count = 0
    for file in REAL.glob("*/*.v"):
        for name, body in re.findall(r"^Theorem (\w+) :(.*?)\.\nProof", file.read_text(), re.DOTALL | re.MULTILINE):
            found = sides(body)
            count += 1
            assert len(found) != 2 or found[0] != found[1], f"{file.name}: {name}"
    assert count > 400
    same = [i for i, reason in proof_files.unproved().items() if reason == SAME_TEXT]
    assert SAME in same
    assert not any(path_of(i).exists() for i in same)


@needs_coqc
def test_a_proof_of_the_same_text_is_removed_and_the_reason_noted(folder):
    file = path_of(SAME)
    file.parent.mkdir(parents=True)
    file.write_text(with_header("(* as it was *)\n", "model"))
    (outcome,) = prove.write([find(SAME)], jobs=1)
    assert (outcome.state, outcome.detail, file.exists()) == ("unproved", SAME_TEXT, False)
    assert proof_files.unproved() == {SAME: SAME_TEXT}
    assert proof_files.category(proof_files.unproved()[SAME]) in proof_files.WITHOUT
    assert [o.ok for o in check([find(SAME)], jobs=1)] == [True]


# --- a proof is kept unless something says no ---------------------------------------------------------------------------

FAKE = """#!/bin/sh
case "$*" in
  *--version*) echo "The Coq Proof Assistant, version 8.16.1" ;;
  *-where*) echo /nowhere ;;
  *Rational.v*) touch Rational.vo ;;
  *Signs.v*) touch Signs.vo ;;
  *Positive.v*) touch Positive.vo ;;
  *Functions.v*) touch Functions.vo ;;
  *) {does} ;;
esac
"""
REFUSES = 'echo "Error: No applicable tactic." >&2; exit 1'
UNDECIDED = {
    "slow": "sleep 60",
    "slow, with a process of its own": "sleep 60 & wait",
    "busy": "while :; do :; done",
    "killed": "kill -9 $$",
    "ended": "kill -15 $$",
    "out of memory": 'echo "Error: Out of memory." >&2; exit 1',
    "without a word": "exit 1",
}


@pytest.fixture
def proof(folder):
    """A good proof on file, and a note about another claim."""
    claim = find(SMALL)
    path = path_of(claim.id)
    path.parent.mkdir(parents=True)
    shutil.copy(REAL / path.relative_to(proof_files.FOLDER), path)
    proof_files.UNPROVED.write_text('{"mrmtl:eq2": "a reason"}')
    return path


def fake(folder, monkeypatch, does):
    """A coqc of one's own, first on the PATH."""
    program = folder / "bin" / "coqc"
    program.parent.mkdir()
    program.write_text(FAKE.format(does=does))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def contents(folder):
    return {f.relative_to(folder): f.read_bytes() for f in (folder / "proofs").rglob("*") if f.is_file()}


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_coqc_that_does_not_answer_decides_nothing(name, proof, folder, monkeypatch):
    fake(folder, monkeypatch, UNDECIDED[name])
    monkeypatch.setattr(checker, "COQC_SECONDS", 1.0)
    monkeypatch.setattr(checker, "PATIENCE", 30.0 if name == "busy" else 1.0)
    checker.prepare(checker.coqc()[0])
    decided, why = checker.compile_texts(checker.coqc()[0], {SMALL: stated(find(SMALL))})
    assert decided is None
    assert why
    assert not list(checker.WORK.glob("check_*"))


@pytest.mark.parametrize("name", ["slow", "killed"])
def test_a_proof_survives_a_slow_and_a_killed_coqc(name, proof, folder, monkeypatch, capsys):
    before = contents(folder)
    fake(folder, monkeypatch, UNDECIDED[name])
    monkeypatch.setattr(checker, "COQC_SECONDS", 1.0)
    monkeypatch.setattr(checker, "PATIENCE", 1.0)
    assert borrow.main(["prove", "--write", "--jobs", "1", SMALL]) == 3
    assert "UNDECIDED" in capsys.readouterr().out
    assert contents(folder) == before
    assert borrow.main(["prove", "--jobs", "1", SMALL]) == 3
    assert contents(folder) == before


def test_a_proof_survives_a_slow_generation(proof, folder, monkeypatch, capsys):
    before = contents(folder)
    fake(folder, monkeypatch, REFUSES)
    monkeypatch.setattr(prove, "MODES", dict.fromkeys(proof_files.MODES, 1e-3))
    assert borrow.main(["prove", "--write", "--jobs", "1", SMALL]) == 3
    assert proof_files.NOT_DECIDED in capsys.readouterr().out
    assert contents(folder) == before


def test_what_was_never_decided_is_noted_once_and_is_known_then(proof, folder, monkeypatch):
    fake(folder, monkeypatch, REFUSES)
    monkeypatch.setattr(prove, "MODES", dict.fromkeys(proof_files.MODES, 1e-3))
    proof.unlink()
    claim = find(SMALL)
    assert [o.state for o in prove.write([claim], jobs=1)] == ["undecided"]
    assert proof_files.category(proof_files.unproved()[SMALL]) == proof_files.NOT_DECIDED
    assert proof_files.unproved()["mrmtl:eq2"] == "a reason"
    assert [o.state for o in prove.write([claim], jobs=1)] == ["unproved"]


def test_a_coqc_that_says_no_removes_the_proof(proof, folder, monkeypatch, capsys):
    fake(folder, monkeypatch, REFUSES)
    assert borrow.main(["prove", "--jobs", "1", SMALL]) == 1  # a check changes nothing
    assert proof.exists()
    assert borrow.main(["prove", "--write", "--jobs", "1", SMALL]) == 0
    assert "No applicable tactic" in capsys.readouterr().out
    assert not proof.exists()
    assert proof_files.unproved() == {"mrmtl:eq2": "a reason", SMALL: "coqc: Error: No applicable tactic."}


@needs_coqc
def test_a_refusal_names_the_step_and_the_statement(folder):
    text = stated(find(SMALL))
    wrong = text.replace("  identity.\n", "  lra.\n", 1)
    assert wrong != text
    checker.prepare(checker.coqc()[0])
    accepted, why = checker.compile_texts(checker.coqc()[0], {SMALL: wrong})
    assert accepted is False
    said = prove.refusal(wrong, why)
    assert said.startswith("coqc: refuses the step `lra.` in the proof of holds")
    assert "formula is what the model gives" in said
    assert said.endswith(": No applicable tactic.")
    assert prove.refusal(wrong, "Error: No applicable tactic.") == "coqc: Error: No applicable tactic."


def test_a_coqc_that_cannot_compile_anything_is_said(folder, monkeypatch, capsys):
    fake(folder, monkeypatch, "exit 0")
    monkeypatch.setattr(checker, "WORK", folder / "empty")
    program = folder / "bin" / "coqc"
    program.write_text(program.read_text().replace("touch Positive.vo", 'echo "Error: no library" >&2; exit 1'))
    assert borrow.main(["prove", SMALL]) == 2
    assert "coqc does not compile Positive.v" in capsys.readouterr().err


# --- files -----------------------------------------------------------------------------------------------------------


@needs_coqc
def test_write_then_check_then_edit(folder):
    claim = find(SMALL)
    assert [o.state for o in prove.write([claim], jobs=1)] == ["proved"]
    assert [o.state for o in check([claim], jobs=1)] == ["proved"]
    file = path_of(claim.id)
    mode, text, intact = read(file)
    assert intact
    file.write_text(file.read_text().replace("identity.", "identity. (* by hand *)"))
    assert [o.state for o in check([claim], jobs=1)] == ["edited"]
    file.write_text(with_header(text + "\n(* the claim was another one *)\n", mode))
    assert [o.state for o in check([claim], jobs=1)] == ["stale"]
    file.unlink()
    (outcome,) = check([claim], jobs=1)
    assert (outcome.state, outcome.ok) == ("stale", False)


@needs_coqc
def test_what_has_not_changed_is_not_stated_again(folder, monkeypatch):
    claim = find(SMALL)
    assert [o.state for o in prove.write([claim], jobs=1)] == ["proved"]
    asked = []
    generate = texts.generate
    monkeypatch.setattr(prove, "generate", lambda ids, *rest: asked.extend(ids) or generate(ids, *rest))
    assert [o.state for o in check([claim], jobs=1)] == ["proved"]
    assert not asked
    assert [o.state for o in check([claim], jobs=1, fresh=True)] == ["proved"]
    assert asked == [SMALL]
    monkeypatch.setattr(texts, "basis", lambda *_: "something that it follows from has changed")
    assert [o.state for o in check([claim], jobs=1)] == ["proved"]
    assert [o.state for o in check([claim], jobs=1)] == ["proved"]
    assert asked == [SMALL] * 2
    monkeypatch.undo()


def copied(tmp_path, module, old, new):
    """The sources as they are, but for one edit of a module."""
    folders = {package: tmp_path / package for package in reach.PACKAGES}
    for package, folder in folders.items():
        shutil.copytree(reach.ROOT / package, folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, new))
    return reach.Sources(folders, reach.libraries())


@pytest.mark.parametrize(
    ("module", "old", "new", "changes"),
    [
        ("theory.coq.generator", "LARGEST = 900", "LARGEST = 900  # as before", False),
        ("theory.coq.terms", "A rational function as a Coq term over the reals.", "Another text.", False),
        ("theory.engine.levels.computed", "FLOAT_TOLERANCE = 1e-12", "FLOAT_TOLERANCE = 1e-11", False),
        ("theory.coq.generator", "LARGEST = 900", "LARGEST = 901", True),
        ("theory.coq.terms", "return _term(sp.sympify(expression), 0)", "return _term(sp.sympify(expression), 1)", True),
        ("theory.engine.algebra", "return sp.factor(sp.cancel(sp.together(expression)))", "return expression", True),
        ("theory.engine.levels.derived", "COVER_PER_CASE = 8", "COVER_PER_CASE = 9", False),
    ],
)
def test_a_text_follows_from_what_is_reached_and_from_nothing_else(module, old, new, changes, tmp_path):
    claim = find(SMALL)
    assert (texts.basis(claim, sources=copied(tmp_path, module, old, new)) != texts.basis(claim)) == changes


def test_a_text_follows_from_the_claim_and_its_lemmas():
    claim = find(SMALL)
    assert texts.basis(replace(claim, statement="Another one.")) != texts.basis(claim)
    assert texts.basis(replace(claim, derive=lambda **_: Derivation())) != texts.basis(claim)
    assert texts.basis(claim, ["mrmtl:thm6.3"]) != texts.basis(claim)
    assert texts.basis(replace(claim, oracle=lambda **_: 0, remark="another")) == texts.basis(claim)


def test_missing_coqc_is_said_with_the_way_out(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ProofError, match="apt-get install coq"):
        check([find(SMALL)])
    assert borrow.main(["prove", SMALL]) == 2
    assert "coqc is not on the PATH" in capsys.readouterr().err


def test_every_committed_proof_is_as_generated_and_belongs_to_a_claim():
    from theory import claims

    known = {path_of(c.id): c.id for c in claims()}
    for file in sorted(REAL.glob("*/*.v")):
        assert file in known, f"{file.name} belongs to no claim"
        assert read(file)[2], f"{file.name} was edited by hand"
    for claim in claims():
        assert path_of(claim.id).exists() != (claim.id in proof_files.unproved()), claim.id


# --- limits that are infinite, conditions with letters of their own ----------------------------------------------------


def test_a_limit_without_bound_is_stated_and_one_that_is_bounded_is_refused():
    claim = find("fedhdp:lemma7:large-noise")
    stated_ = {t.name: t for t in coq.theorems(claim)}
    assert "exists C T, 0 < C /\\ forall t, T <= t ->" in stated_["limit_1"].conclusion
    assert "<= C / t" in stated_["limit_3"].conclusion
    bounded = replace(claim, approach=lambda t, **v: (t / (1 + t), t, v["sigma2_c"] / (v["rho_np"] * v["count"])))
    with pytest.raises(terms.Unprovable, match="does not grow without bound"):
        coq.theorems(bounded)


@needs_coqc
def test_a_limit_without_bound_is_proved_and_a_faster_growth_is_refused(folder):
    claim = find("fedhdp:lemma7:large-noise")
    text = coq.source(claim, [t for t in coq.theorems(claim, simplified=True) if t.name == "limit_1"])
    checker.prepare(checker.coqc()[0])
    assert checker.compile_texts(checker.coqc()[0], {claim.id: text}) == (True, "")
    faster = text.replace("t <= C * (", "t ^ 2 <= C * (", 1)
    assert faster != text
    assert checker.compile_texts(checker.coqc()[0], {claim.id: faster})[0] is False


def test_a_letter_that_a_condition_brings_is_positive_by_hypothesis():
    (one, *_) = [t for t in coq.theorems(find("mrmtl:thmE.5"), simplified=True) if t.name == "optimal_k_0_entries_2"]
    assert ("H_slack", "0 < slack") in one.hypotheses
    assert any(h.startswith("C") and text.startswith("tau2 = slack") for h, text in one.hypotheses)


def test_a_divisor_that_holds_one_of_hidden_sign_has_a_letter_of_its_own():
    """Once the inner one's value is put in, nothing would show that the outer one does not vanish."""
    claim = find("fedhdp:optout-helps")
    (one,) = [t for t in coq.theorems(claim, simplified=True) if t.name == "holds_own_noise_1"]
    assert any(h == "L_v2" and text.startswith("v2 = ") and "/ (v1 * " in text for h, text in one.hypotheses)
