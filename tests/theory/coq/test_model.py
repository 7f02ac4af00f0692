"""Proofs from the model: what is stated is Model.v's expectation, and another model, hypothesis or definition is refused."""

import re
import shutil
from dataclasses import fields, is_dataclass, replace

import pytest
import sympy as sp

import borrow
from theory import claims, find
from theory.coq import checker, model, model_proofs, proof_files, statements, terms
from theory.coq.checker import ProofError
from theory.coq.models import unlike

needs_coqc = pytest.mark.skipif(shutil.which("coqc") is None, reason=f"coqc is not installed; {checker.INSTALL}")
HERE = model_proofs.HERE


@pytest.fixture(scope="module")
def coqc(own_work):
    """coqc where the hand-written files are compiled."""
    model_proofs.prepare(own_work)
    return own_work


def pair(claim_id):
    """Statement and proof of a claim as they are generated now."""
    claim = find(claim_id)
    return statements.texts(claim, statements.statements(claim))


def judged(path, claim_id, texts):
    return model_proofs.compile_pairs(path, {claim_id: "".join(texts)})


# --- what stands on file -------------------------------------------------------------------------------------------------


def test_the_trusted_files_are_as_pinned():
    assert not model_proofs.tampered()
    assert set(model_proofs.TRUSTED) == set(model_proofs.PINNED)


def test_an_edited_trusted_file_is_refused_by_name(tmp_path, monkeypatch):
    for name in (*model_proofs.LIBRARY, *model_proofs.BY_HAND):
        shutil.copy(HERE / f"{name}.v", tmp_path)
    edited = tmp_path / "Model.v"
    text = edited.read_text()
    assert text.count("(estimate o - target o) ^ 2") == 1
    edited.write_text(text.replace("(estimate o - target o) ^ 2", "(estimate o - target o) ^ 4"))
    monkeypatch.setattr(model_proofs, "HERE", tmp_path)
    with pytest.raises(ProofError, match=r"Model\.v .*PINNED"):
        model_proofs.prepare("coqc")


def test_nothing_is_assumed_by_hand():
    for name in (*model_proofs.LIBRARY, *model_proofs.BY_HAND):
        text = re.sub(r"\(\*.*?\*\)", "", (HERE / f"{name}.v").read_text(), flags=re.DOTALL)
        assert not re.search(r"\b(Axiom|Parameter|Conjecture|Admitted|admit|Unset|bypass_check)\b", text), name


def test_every_model_belongs_to_a_claim_and_has_a_proof_or_a_reason():
    ids = {c.id for c in claims()}
    reasons = model_proofs.unproved()
    for claim_id in model.MODELS:
        assert claim_id in ids
        assert model_proofs.proved(claim_id) != (claim_id in reasons), claim_id
    known = {p for i in model.MODELS for p in model_proofs.paths_of(i)}
    for file in proof_files.FOLDER.glob("*/model/*.v"):
        assert file in known, f"{file.name} belongs to no model"
        assert model_proofs.read(file)[1], f"{file.name} was edited by hand"


def test_a_claim_names_its_model_and_a_model_is_of_claims_that_name_it():
    assert not unlike(claims())
    assert sum(bool(c.model) for c in claims()) == len(model.MODELS)
    about = find("fedhdp:lemma2:cov")
    assert about.model == ("Value(Server)", "LeastCentre")
    for other in ((), ("Value(Server)",), ("Value(Personal)", "LeastCentre")):
        with pytest.raises(ProofError, match=r"fedhdp:lemma2:cov: write model=\('Value\(Server\)', 'LeastCentre'\)"):
            model_proofs.with_models([replace(about, model=other)])
    without = next(c for c in claims() if c.id not in model.MODELS)
    with pytest.raises(ProofError, match="no model of it is in theory/coq/models"):
        model_proofs.with_models([replace(without, model=("LeastCentre",))])


def test_show_says_which_model_a_claim_is_about(capsys):
    borrow.main(["show", "fedhdp:lemma2:cov"])
    assert "ABOUT THE MODEL  Value(Server), LeastCentre" in capsys.readouterr().out


def test_every_statement_is_about_an_expectation_of_named_clients_and_can_be_met():
    for claim_id in filter(model_proofs.proved, model.MODELS):
        said = model_proofs.paths_of(claim_id)[0].read_text()
        stated = re.split(r"^Parameter ", said, flags=re.MULTILINE)[1:]
        holds = [x for x in stated if x.startswith("holds")]
        assert holds, claim_id
        for text in holds:
            assert re.search(r"\b(risk S|moment S|least_of_centre|least_of_client|least_without)", text), (claim_id, text)
            assert re.search(r": (nat -> )?clients S", text), (claim_id, text)
            met = text.split(" ", 1)[0].replace("holds", "met", 1)
            assert any(x.startswith(f"{met} :") for x in stated), (claim_id, met)


def test_the_page_of_a_claim_shows_the_grade(capsys):
    assert model_proofs.grade("fedhdp:lemma2:cov") == "model"
    assert borrow.main(["show", "fedhdp:lemma2:cov"]) == 0
    out = capsys.readouterr().out
    assert "PROOF FROM THE MODEL" in out
    assert "model/lemma2_cov.v" in out


# --- coqc decides --------------------------------------------------------------------------------------------------------


@needs_coqc
@pytest.mark.parametrize(("file", "name"), [("Scripts", "trusted"), ("Any", "any_number"), ("Independence", "independence")])
def test_the_theorems_by_hand_rest_on_the_reals_alone(file, name, coqc):
    assert checker.run_text(coqc, f"Require Import Borrow.{file}.\nPrint Assumptions {name}.\n", 60.0) == (True, "")


@pytest.mark.parametrize(
    ("file", "end", "named"), [("Any", "any_number", model_proofs.ANY), ("Independence", "independence", model_proofs.ALL)]
)
def test_theorems_by_hand_are_there_and_belong_to_claims(file, end, named):
    text = (HERE / f"{file}.v").read_text()
    ids = {c.id for c in claims()}
    for claim_id, names in named.items():
        assert claim_id in ids
        for name in names.split(", "):
            assert f"Theorem {name} :" in text
            assert re.search(rf"\b{name}\b", text.rsplit(f"Definition {end}", 1)[1])


CHANGES = {
    "the clients' own spread": lambda c: replace(c, tau2=tuple(2 * x + 1 for x in c.tau2)),
    "the sampling noise": lambda c: replace(c, alpha2=tuple(2 * x + 1 for x in c.alpha2)),
    "the privacy noise": lambda c: replace(c, nu2=tuple(2 * x + 1 for x in c.nu2)),
}
SEVERAL = (
    "fedhdp:lemma2:cov", "fedhdp:lemma2:weights", "fedhdp:lemma7:eq79", "fedhdp:eq37", "fedhdp:eq42", "fedhdp:lemma3:lambda",
    "fedhdp:lemma3:bayes", "feo2:theta-p", "mrmtl:cor6.4", "mrmtl:thm6.3", "mrmtl:lemE.4:var", "robusthdp:eq8:loss",
    "generative:thm1:mse", "generative:thm2:a", "fedhdp:eq34", "mrmtl:negative", "mrmtl:mmse:loss",
    "mrmtl:lem6.7:quasiconvex", "generative:remark1:limits", "generative:bern:known-mse",
)  # fmt: skip


def with_risks(value, change):
    """A value, or a limit, of changed risks and optima."""
    risks = tuple(map(change, value.risks))
    swap = {old.symbol: new.symbol for old, new in zip(value.risks, risks, strict=True)}
    return replace(value, expression=sp.sympify(value.expression).subs(swap), risks=risks)


def with_clients(value, change):
    """A decision about changed clients: every federation in it, those of its risks and optima too."""
    if isinstance(value, model.Clients):
        return change(value)
    if isinstance(value, tuple):
        return tuple(with_clients(x, change) for x in value)
    if isinstance(value, model.Value):
        return with_risks(value, lambda r: with_clients(r, change))
    if isinstance(value, model.Optimum):
        return replace(value, decision=with_clients(value.decision, change))
    if is_dataclass(value) and any(f.name == "clients" for f in fields(value)):
        return replace(value, clients=change(value.clients))
    return value


def in_the_first(change):
    """Changes the clients of the first risk alone, where a decision compares several."""

    def wrong(value):
        if isinstance(value, tuple):
            return tuple(map(wrong, value))
        if not isinstance(value, model.Value):
            return with_clients(value, change)
        first = value.risks[0]
        return with_risks(value, lambda r: with_clients(r, change) if r is first else r)

    return wrong


def refused(path, claim_id, monkeypatch, wrong):
    """Whether a claim with another model has no proof: it cannot be stated, or coqc says no."""
    right = model.MODELS[claim_id]

    def other(**v):
        found = find(claim_id).call(right, v)
        return None if found is None else wrong(found)

    claim = find(claim_id)
    with monkeypatch.context() as changed:  # each change by itself: the next one starts from the claim's own model
        changed.setitem(model.MODELS, claim_id, other)
        try:
            stated = statements.statements(claim)
        except terms.Unprovable:
            return True
        return any(judged(path, claim_id, statements.texts(claim, part))[0] is False for part in (stated[:2], stated))


def other_pivot(value):
    """A decision about a server that gives every message the same weight, or the first level three times as much."""
    if isinstance(value, tuple):
        return tuple(map(other_pivot, value))
    if isinstance(value, model.Value):
        return with_risks(value, other_pivot)
    if isinstance(value, model.Optimum):
        return replace(value, decision=other_pivot(value.decision))
    weights = getattr(value, "weights", None)
    if not isinstance(weights, model.Weights):
        return value
    first, *rest = weights.values
    return replace(value, weights=type(weights)((3 * first, *rest)))


def variances(of):
    """Clients with all their variances changed; the first level's, where `of` asks for the level."""

    def change(c):
        names = ("tau2", "alpha2", "nu2")
        return replace(c, **{n: tuple(of(x, k) for k, x in enumerate(getattr(c, n))) for n in names})

    return change


# What every claim's proof is tried with, until one is refused.
WRONG = {
    "all variances": lambda d: with_clients(d, variances(lambda x, _: 2 * x + 1)),
    "one federation's variances, halved": in_the_first(variances(lambda x, _: x / 2)),
    "one federation's variances, raised": in_the_first(variances(lambda x, _: 2 * x + 1)),
    "the first level's variances": lambda d: with_clients(d, variances(lambda x, k: x if k else 3 * x + 1)),
    "another pivot": other_pivot,
    "what grows falls": lambda d: with_clients(d, variances(lambda x, _: sp.sympify(x).subs(model.BIG, 1 / model.BIG))),
}
# coqc does not refuse its long fractions in time; fedhdp:lemma3:lambda is its short twin.
UNDECIDED = {"fedhdp:levels:lambda"}
# Bounds from below, which hold with more noise than the model's: the test after the next one takes some away.
FROM_BELOW = {"generative:eq46", "generative:eq47"}


@needs_coqc
@pytest.mark.parametrize("claim_id", SEVERAL)
def test_the_right_model_is_accepted_and_a_changed_variance_is_not(claim_id, coqc, monkeypatch):
    accepted, why = judged(coqc, claim_id, pair(claim_id))
    assert accepted, why
    name = next(n for n in CHANGES if not (n == "the sampling noise" and "robusthdp" in claim_id))
    assert refused(coqc, claim_id, monkeypatch, lambda d: with_clients(d, CHANGES[name])), name


@pytest.mark.nightly
@needs_coqc
@pytest.mark.parametrize("claim_id", sorted(model.MODELS.keys() - UNDECIDED - FROM_BELOW))
def test_another_model_of_any_claim_is_refused(claim_id, coqc, monkeypatch):
    monkeypatch.setattr(checker, "COQC_SECONDS", 12.0)  # what is refused is so soon; what is not decided tells nothing
    assert any(refused(coqc, claim_id, monkeypatch, wrong) for wrong in WRONG.values())


@needs_coqc
@pytest.mark.parametrize(
    ("claim_id", "old", "new"),
    [
        ("generative:eq46", "(two (sigma2_x / n) 0)", "(two (sigma2_x / (2 * n)) 0)"),  # a bound from below: less noise
        ("generative:eq46", "(two sigma2_theta 0)", "(two (sigma2_theta / 2) 0)"),
        ("generative:eq47", "(same (sigma2_x / n))", "(same (sigma2_x / (2 * n)))"),
    ],
)
def test_a_bound_from_below_is_refused_where_the_clients_have_less_noise(claim_id, old, new, coqc):
    said, proof = pair(claim_id)
    assert old in said
    assert judged(coqc, claim_id, (said.replace(old, new), proof.replace(old, new)))[0] is False


@needs_coqc
@pytest.mark.parametrize("claim_id", [SEVERAL[0], "fedhdp:lemma7:eq79", "fedhdp:lemma3:lambda", "fedhdp:lemma3:bayes"])
def test_another_pivot_is_refused(claim_id, coqc, monkeypatch):
    assert refused(coqc, claim_id, monkeypatch, other_pivot)


LEVELS = {"sizes": [2, 2], "gamma2s": ["1/4", 1], "alpha2": 1, "tau2": "1/2", "level": 1, "own_noise": 0}


@needs_coqc
@pytest.mark.parametrize(
    ("claim_id", "values", "wrong"),
    [
        (
            "robusthdp:eq8:eps-weights", {"sigma2s": [1, 1], "eps": [1, 1]},
            lambda d: with_clients(d, variances(lambda x, _: x / 2)),
        ),
        (
            "fedhdp:levels:lambda", LEVELS,
            lambda ds: tuple(replace(d, own_noise=not d.own_noise) for d in ds),
        ),
        (
            "fedhdp:levels:lambda", LEVELS,
            lambda d: with_clients(d, variances(lambda x, k: x if k else 3 * x + 1)),
        ),
    ],
)  # fmt: skip
def test_what_is_printed_is_refuted_by_coq_for_other_clients(claim_id, values, wrong, coqc, monkeypatch):
    """The same sentence of clients with other noise is not merely unproved: Coq proves that it is wrong at a point."""
    right, claim = model.MODELS[claim_id], find(claim_id)
    monkeypatch.setitem(model.MODELS, claim_id, lambda **v: wrong(claim.call(right, v)))
    point = claim.point(values)
    monkeypatch.setattr(statements, "find_counterexample", lambda _: point)
    (said,) = statements.refutation(claim)
    assert said.proposition.startswith("~ (")
    accepted, why = judged(coqc, claim_id, statements.texts(claim, [said]))
    assert accepted, why
    monkeypatch.setitem(model.MODELS, claim_id, right)
    assert statements.refutation(claim) == []  # of the claim's own clients nothing is refuted


@needs_coqc
def test_own_noise_that_comes_back_is_refused_where_it_was_taken_out(coqc, monkeypatch):
    """The hidden assumption of Lemma 3: with the own noise left in, the printed strength is not the best."""
    wrong = lambda ds: tuple(replace(d, own_noise=True) for d in ds)  # noqa: E731
    assert refused(coqc, "fedhdp:lemma3:lambda", monkeypatch, wrong)


@needs_coqc
@pytest.mark.parametrize("factor", [2, -1, 1 + sp.Rational(1, 10**12)])
def test_another_formula_is_refused(factor, coqc):
    claim = find("mrmtl:cor6.4")
    wrong = replace(claim, printed=lambda **v: factor * claim.call(claim.printed, v))
    assert not judged(coqc, claim.id, statements.texts(wrong, statements.statements(wrong)))[0]


# --- statement and proof stand apart -------------------------------------------------------------------------------------

APART = "fedhdp:lemma2:cov"


@needs_coqc
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    0 <= gamma2_1 ->\n", "    0 < gamma2_1 ->\n"),  # a hypothesis made stronger
        ("    1 <= N2 ->\n", "    2 <= N2 ->\n"),
        ("(same tau2)", "(same 0)"),  # other clients
    ],
)
def test_a_proof_of_something_else_is_refused(old, new, coqc):
    said, proof = pair(APART)
    assert old in proof
    assert judged(coqc, APART, (said, proof.replace(old, new)))[0] is False


@needs_coqc
def test_a_redefined_risk_is_refused(coqc):
    said, proof = pair(APART)
    cheat = "Definition risk (S : space) (estimate target : outcome S -> R) : R := 0.\n"
    head, _, rest = proof.partition("Open Scope R_scope.\n")
    accepted, reason = judged(coqc, APART, (said, f"{head}Open Scope R_scope.\n{cheat}{rest}"))
    assert accepted is False
    assert reason


@needs_coqc
def test_an_admitted_proof_is_refused(coqc):
    said, proof = pair(APART)
    admitted = re.sub(r"Proof\.\n.*?\nQed\.", "Proof. Admitted.", proof, count=1, flags=re.DOTALL)
    accepted, reason = judged(coqc, APART, (said, admitted))
    assert accepted is False
    assert "rests on" in reason


# --- files ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An own folder of proofs, so that tests leave the real ones alone."""
    (tmp_path / "proofs").mkdir()
    for file in proof_files.FOLDER.glob("*.v"):
        shutil.copy(file, tmp_path / "proofs")
    monkeypatch.setattr(proof_files, "FOLDER", tmp_path / "proofs")
    return tmp_path


@needs_coqc
def test_write_then_check_then_edit(folder, coqc, monkeypatch):
    claim = find("feo2:theta-p")
    assert [(o.state, o.grade, o.theorems) for o in model_proofs.write([claim], jobs=1)] == [("proved", "model", 1)]
    asked = []
    generate = model_proofs.generate
    monkeypatch.setattr(model_proofs, "generate", lambda ids, *rest: asked.extend(ids) or generate(ids, *rest))
    assert [o.state for o in model_proofs.check([claim], jobs=1)] == ["proved"]
    assert not asked  # what has not changed is not stated again
    monkeypatch.setattr(model_proofs, "basis", lambda *_: "something has changed")
    assert [o.state for o in model_proofs.check([claim], jobs=1)] == ["proved"]
    assert asked == [claim.id]
    said, _ = model_proofs.paths_of(claim.id)
    text = said.read_text()
    said.write_text(text.replace("1 <= N_p", "2 <= N_p"))
    (outcome,) = model_proofs.check([claim], jobs=1)
    assert (outcome.state, outcome.ok) == ("edited", False)
    assert "theta_p.v was edited by hand" in outcome.detail
    said.write_text(model_proofs.with_header(text.partition("\n")[2].replace("1 <= N_p", "2 <= N_p")))
    assert [o.state for o in model_proofs.check([claim], jobs=1)] == ["stale"]
    said.unlink()
    assert [o.state for o in model_proofs.check([claim], jobs=1)] == ["stale"]


def test_a_claim_without_a_model_says_so():
    with pytest.raises(statements.NoModel, match="names no model"):
        statements.statements(find("mrmtl:algA1"))
    assert model_proofs.summary("mrmtl:algA1") == ""
    assert model_proofs.check([find("mrmtl:algA1")]) == []


def test_missing_coqc_is_said_with_the_way_out(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ProofError, match="apt-get install coq"):
        model_proofs.check([find("feo2:theta-p")])
