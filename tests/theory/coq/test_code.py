"""Theorems about the code: the left side comes from the code and the right side from the claim; another code is refused."""

import shutil
from dataclasses import replace

import pytest

from estimators.closed_forms import aggregation
from theory.coq import checker, code_proofs, generator, model_proofs, proof_files
from theory.coq.terms import SameText, Unprovable
from theory.engine.exemption import Exempt
from theory.engine.registry import claims, find
from theory.engine.traced import Traced

needs_coqc = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")
COV = "fedhdp:lemma2:cov"


def on_file():
    return [c for c in claims() if code_proofs.proved(c.id)]


def test_there_are_many_and_each_is_as_it_was_generated():
    found = on_file()
    assert len(found) >= 90
    for claim in found:
        text, intact = model_proofs.read(code_proofs.path_of(claim.id))
        assert intact, f"{claim.id} was edited by hand"
        assert proof_files.count_theorems(text) >= 1
        assert "code" in code_proofs.summary(claim.id)


def test_no_file_is_left_over():
    known = {code_proofs.path_of(c.id) for c in on_file()}
    assert {f for folder in proof_files.FOLDER.glob("*/code") for f in folder.glob("*.v")} == known


def test_the_sides_come_from_code_and_claim():
    claim = find(COV)
    (theorem,) = code_proofs.theorems(claim)
    left, right = theorem.conclusion.split("\n    = ")
    assert left == "1 / (N1 / (sigma2_c + gamma2_1 * N1) + N2 / (sigma2_c + gamma2_2 * N2))"
    assert left != right
    assert [h for _, h in theorem.hypotheses][:5] == ["1 <= N1", "1 <= N2", "0 < sigma2_c", "0 <= gamma2_1", "0 <= gamma2_2"]


def test_what_is_the_same_text_is_not_counted():
    with pytest.raises(SameText):
        code_proofs.theorems(find("fedhdp:lemma2:rstar"))
    assert not code_proofs.proved("fedhdp:lemma2:rstar")


def test_code_that_computes_something_else_has_no_theorem():
    def halved(N1, N2, sigma2_c, gamma2_1, gamma2_2):
        return aggregation.server_mse([N1, N2], [gamma2_1, gamma2_2], sigma2_c, 0.0) / 2

    with pytest.raises(Unprovable, match="another formula"):
        code_proofs.theorems(replace(find(COV), computed=halved))
    with pytest.raises(Unprovable, match="nothing of estimators"):
        code_proofs.theorems(replace(find(COV), computed=None, not_computed=Exempt(kind="divergence")))


@needs_coqc
def test_coq_accepts_the_theorem_and_refuses_another_left_side(tmp_path, monkeypatch):
    path, _ = checker.coqc()
    checker.prepare(path)
    claim = find(COV)
    (theorem,) = code_proofs.theorems(claim)
    right = generator.source(claim, [theorem])
    wrong = right.replace("1 / (N1 / (sigma2_c", "2 / (N1 / (sigma2_c")
    assert checker.compile_texts(path, {COV: right}) == (True, "")
    assert checker.compile_texts(path, {COV: wrong})[0] is False


@needs_coqc
def test_an_edited_or_outdated_file_is_told(tmp_path, monkeypatch):
    file = tmp_path / "code.v"
    content = code_proofs.path_of(COV).read_text()
    monkeypatch.setattr(code_proofs, "path_of", lambda i: file)
    monkeypatch.setattr(code_proofs, "STATUS", tmp_path / "status.json")
    file.write_text(content.replace("1 <= N1", "2 <= N1"))
    assert [o.state for o in code_proofs.check([find(COV)], jobs=1)] == ["edited"]
    file.write_text(model_proofs.with_header(content.partition("\n")[2].replace("1 <= N1", "2 <= N1")))
    assert [o.state for o in code_proofs.check([find(COV)], jobs=1)] == ["stale"]
    file.write_text(content)
    assert [o.state for o in code_proofs.check([find(COV)], jobs=1)] == ["proved"]


def test_a_proof_survives_a_slow_tracer(tmp_path, monkeypatch):
    """What was not decided in the time given is neither outdated nor removed."""
    file = tmp_path / "code.v"
    shutil.copy(code_proofs.path_of(COV), file)
    monkeypatch.setattr(code_proofs, "path_of", lambda i: file)
    monkeypatch.setattr(code_proofs, "STATUS", tmp_path / "status.json")
    monkeypatch.setattr(checker, "coqc", lambda: ("coqc", "8.16"))
    monkeypatch.setattr(checker, "prepare", lambda path: None)
    with monkeypatch.context() as m:
        m.setattr(code_proofs, "traced", lambda claim: Traced("time", "no answer within 4 s of processor time"))
        slow = code_proofs._generate(COV)
    monkeypatch.setattr(code_proofs, "generate", lambda ids, jobs: [slow])
    for run in (code_proofs.check, code_proofs.write):
        assert [(o.state, o.ok) for o in run([find(COV)], jobs=1)] == [("undecided", False)]
        assert file.exists()
