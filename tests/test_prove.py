"""Proofs: what is stated follows the claim, coqc decides, and nothing that is edited, stale or admitted passes."""

import shutil
from dataclasses import replace

import pytest
import sympy as sp

from theory import cli, coq, find, prove
from theory.algebra import entrywise
from theory.prove import ProofError, check, path_of, read, with_header

needs_coqc = pytest.mark.skipif(shutil.which("coqc") is None, reason=f"coqc is not installed; {prove.INSTALL}")
SMALL = "mrmtl:eq5"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An own folder of proofs and of work, so that tests leave the real ones alone."""
    monkeypatch.setattr(prove, "FOLDER", tmp_path / "proofs")
    monkeypatch.setattr(prove, "UNPROVED", tmp_path / "proofs" / "unproved.json")
    monkeypatch.setattr(prove, "WORK", tmp_path / "work")
    monkeypatch.setattr(prove, "STATUS", tmp_path / "work" / "status.json")
    (tmp_path / "proofs").mkdir()
    shutil.copy(REAL / "Positive.v", tmp_path / "proofs")
    return tmp_path


REAL = prove.FOLDER


def stated(claim):
    return coq.source(claim, coq.theorems(claim))


def accepted(claim, folder):
    path, _ = prove.coqc()
    prove.prepare(path)
    return prove.compile_texts(path, {claim.id: stated(claim)})


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
    assert coq.term(sp.sympify(expression, letters)) == text


def test_a_term_means_what_the_expression_means():
    """Coq's operators bind as Python's, with ^ for **."""
    x, y, z = sp.symbols("x y z")
    for e in (x - (y - z), x / (y / z), -(x**2), (-x) ** 2, x * (-y) / z - 2, 1 / (x - 1 / (y + z)), (x / y) ** 3):
        text = coq.term(e).replace("^", "**")
        assert sp.simplify(sp.sympify(text) - e) == 0, text


def test_what_is_no_rational_function_is_not_stated():
    with pytest.raises(coq.Unprovable, match="exp"):
        coq.term(sp.exp(sp.Symbol("x")))


def test_words_of_coq_are_no_letters():
    assert coq.term(sp.Symbol("at")) == "at_"


# --- statements follow the claim -----------------------------------------------------------------------------------


def test_a_claim_states_its_formula_its_domain_and_its_conditions():
    text = stated(find("fedhdp:lemma2:rstar"))
    assert "1 <= N1" in text
    assert "0 <= gamma2_1" in text
    assert "Definition all_theorems := (holds" in text
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
    path, _ = prove.coqc()
    prove.prepare(path)
    head, tail = "Require Import Borrow.Positive.\nOpen Scope R_scope.\n", f"Definition all_theorems := (t).\n{coq.SHOW}\n"
    accepted_, why = prove.compile_texts(path, {"a:cheat": head + text + tail})
    assert not accepted_
    assert "rests on" in why
    assert not prove.compile_texts(path, {"a:cheat": head + text})[0]  # nor what is not asked about


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


def test_missing_coqc_is_said_with_the_way_out(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ProofError, match="apt-get install coq"):
        check([find(SMALL)])
    assert cli.main(["prove", SMALL]) == 2
    assert "coqc is not on the PATH" in capsys.readouterr().err


def test_every_committed_proof_is_as_generated_and_belongs_to_a_claim():
    from theory import claims

    known = {path_of(c.id): c.id for c in claims()}
    for file in sorted(REAL.rglob("*/*.v")):
        assert file in known, f"{file.name} belongs to no claim"
        assert read(file)[2], f"{file.name} was edited by hand"
    for claim in claims():
        assert path_of(claim.id).exists() != (claim.id in prove.unproved()), claim.id
