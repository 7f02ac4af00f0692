"""Proofs about objects: another formula, another object or an edited definition is refused; nothing is proved by itself."""

import re
import shutil
from dataclasses import replace

import pytest
import sympy as sp

from theory import claims, find
from theory.coq import checker, defined, generator, libraries, model_proofs, proof_files
from theory.coq.checker import ProofError
from theory.coq.objects import OBJECTS
from theory.coq.terms import Unprovable

needs_coqc = pytest.mark.skipif(shutil.which("coqc") is None, reason=f"coqc is not installed; {checker.INSTALL}")
ENCLOSED = bool(shutil.which("coqc")) and checker.has_interval(shutil.which("coqc") or "")
needs_interval = pytest.mark.skipif(not ENCLOSED, reason=f"{checker.NO_INTERVAL}; {checker.INSTALL_INTERVAL}")
TINY = sp.Rational(1, 10**9)
# For each object another one, of which the formula is not: what is put in the place of what.
WRONG = {
    "generative:eq12:laplace:scale": ("surprise (laplace b)", "surprise (normal_of 1 b)"),
    "generative:eq19:variance": ("normal_of d v", "normal_of (d + 1) v"),
    "generative:eq23:psi": ("b / psi", "2 * b / psi"),
    "generative:def3": ("(two p (1 - p)) (two q (1 - q))", "(two q (1 - q)) (two p (1 - p))"),
    "generative:lemma2:delta": ("renyi k order P Q <= rdp", "renyi k order P Q <= 2 * rdp"),
    "generative:fact1": ("is_normal y sigma2_y (X y)", "is_normal (2 * y) sigma2_y (X y)"),
    "generative:neighbours": ("users_apart N 1 D D'", "users_apart N 2 D D'"),
    "generative:exp:writers": ("198%nat", "201%nat"),
    "generative:exp:bernoulli:implied": ("((s + 1) * 14)", "((s + 1) * 15)"),
    "generative:vantrees:conditions": ("beta_shape a b", "beta_shape 0 b"),
    "generative:remark1": ("10 / 100", "11 / 100"),
    "generative:exp:fig4:gain": ("/ 15", "/ 16"),
    "generative:discrete:limit": ("(mixture_mean p mu1 mu2", "(mixture_mean p mu2 mu1"),
    "generative:eq19:calibrated": ("(same sigma2_x)", "(same (2 * sigma2_x))"),
    "generative:thm2:tail": ("sigma2_x / n", "sigma2_x"),
    "generative:alg1:em": ("weight_of (sigma2_x / n)", "weight_of (2 * sigma2_x / n)"),
    "generative:alg1": ("(1 / 2, - mu)", "(1 / 2, - (2 * mu))"),
    "generative:thm2:quantiser:projection": ("a * high", "2 * a * high"),
    "generative:thm2:event": ("sigma2_theta + sigma2_x / n", "sigma2_theta + 2 * sigma2_x / n"),
    "generative:thm2:ldp": ("derived", "(4 * derived)"),
    "generative:kd:integral": ("ln (1 - q)", "ln q"),
    "generative:kd:density": ("0 1 1", "0 1 2"),
    "mrmtl:tnb:pmf": ("binomial eta gamma", "binomial (2 * eta) gamma"),
    "mrmtl:tnb:pmf:positive": ("binomial eta gamma", "binomial (2 * eta) gamma"),
    "mrmtl:tnb:mean": ("mean_runs f", "is_series f"),  # the masses' sum, not their mean
    "mrmtl:tnb:mean:positive": ("mean_runs f", "is_series f"),
    "mrmtl:tnb:one": ("binomial eta gamma", "binomial (2 * eta) gamma"),
    "mrmtl:sigma-dp:exact": ("least_delta eps", "least_delta (2 * eps)"),
    "mrmtl:appA:zcdp": ("(m + sensitivity)", "(m + 2 * sensitivity)"),
    "mrmtl:algA1": ("rounds T K k", "rounds (S T) K k"),  # one round more
    "mrmtl:no-clip": ("derived", "(4 * derived)"),
    "mrmtl:eq12": ("(two p (1 - p)) (two q (1 - q))", "(two q (1 - q)) (two p (1 - p))"),
    "mrmtl:appA:composition": ("likelihood (two q (1 - q)) l", "likelihood (two p (1 - p)) l"),
    "mrmtl:eq12:kl": ("(two q (1 - q))) 1", "(two q (1 - q))) 2"),
    "mrmtl:eq14:range": ("G score_range u v", "G (2 * score_range) u v"),
    "mrmtl:appC:selection-cost": ("^ 2 / 8", "^ 2 / 9"),
    "mrmtl:large-lam": ("(step K rate", "(step K (2 * rate)"),
    "mrmtl:mnist:split": ("(4 * 10)", "(4 * 11)"),
    "robusthdp:thm1": ("derived", "(2 * derived)"),
    "robusthdp:thm1:any-constants": ("derived", "derived / 2"),
    "robusthdp:gauss": ("least_delta eps", "least_delta (eps / 2)"),
    "robusthdp:gauss:range": ("least_delta eps", "least_delta (eps / 2)"),
    "mrmtl:sigma-dp:classical": ("(normal 0 noise2)", "(normal (- sensitivity) noise2)"),
    "generative:bern:evidence": ("alpha - 1) (beta - 1)", "alpha - 1) (2 * beta - 1)"),
    "robusthdp:tab2:estimation": ("2 * (x ^ 2 + (1 - x) ^ 2)", "3 * (x ^ 2 + (1 - x) ^ 2)"),
    "mrmtl:appA:em-zcdp": ("w * exp eps /", "w * exp (2 * eps) /"),
    "generative:privacy:border": ("(m - 3) *", "(m - 4) *"),
    "generative:thm7:conditions": ("derived", "(400 * derived)"),
    "mrmtl:thmF.2:poisson": ("mean ^ S k / fact (S k)", "mean ^ S k / fact k"),
    "mrmtl:eq13:gaussian": ("(normal 0 1)", "(normal 1 1)"),
    "generative:variances:moderated-t": ("(d0 + d) / 2", "(d0 + d)"),
    "generative:spreads:covariance": ("(k + 1) / 2", "(k + 2) / 2"),
    "mrmtl:sigma-dp:large-eps": ("least_delta eps", "least_delta (2 * eps)"),
    "fedhdp:table6": ("28", "27"),
    "fedhdp:tables:gains": ("/ 100", "/ 101"),
    "feo2:tables:delta": ("off (", "1 + off ("),
}
SOME = (
    "generative:eq23:psi", "generative:def3", "generative:fact1", "generative:neighbours", "generative:alg1:em",
    "mrmtl:tnb:mean:positive", "mrmtl:eq12", "mrmtl:eq12:kl", "mrmtl:large-lam", "feo2:tables:delta",
    "robusthdp:gauss:range", "mrmtl:sigma-dp:classical",
)  # fmt: skip
# Bounds with room, and how far their formulas are moved to leave none.
ROOM = {
    "generative:thm2:ldp": -1 + TINY,
    "mrmtl:no-clip": -1 + TINY,
    "robusthdp:thm1": -1 + TINY,
    "robusthdp:gauss": -1 + TINY,
    "robusthdp:gauss:range": -1 + TINY,
    "mrmtl:sigma-dp:classical": -1 + TINY,
    "mrmtl:eq13:gaussian": -1 + TINY,
    "robusthdp:thm1:any-constants": 1,
    "generative:lemma2:delta": -TINY,
    "mrmtl:appA:em-zcdp": -1 + TINY,
    "generative:thm7:conditions": -1 + TINY,
    "mrmtl:sigma-dp:large-eps": 1,
}
# Printed digits: what is said needs no lemma, for it is arithmetic.
DIGITS = {i for i, one in OBJECTS.items() if one.library == "Objects"}


@pytest.fixture(scope="module")
def coqc(own_work):
    """coqc where definitions and lemmas are compiled."""
    checker.prepare_objects(own_work)
    return own_work


def judged(path, claim_id, theorems):
    text = generator.source(find(claim_id), theorems, OBJECTS[claim_id].library)
    return checker.compile_texts(path, {claim_id: text})


# --- what stands on file -------------------------------------------------------------------------------------------------


def test_the_definitions_are_as_pinned_and_are_definitions_only():
    assert not defined.tampered()
    text = libraries.text_of(defined.LIBRARIES[0])
    assert set(re.findall(r"^(\w+)", re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL), re.MULTILINE)) == {
        "Require", "From", "Export", "Open", "Definition", "Fixpoint",
    }  # fmt: skip


def test_edited_definitions_are_refused_by_name(tmp_path, monkeypatch):
    for name in defined.LIBRARIES:
        shutil.copy(libraries.path_of(name), tmp_path)
    edited = tmp_path / "Objects.v"
    text = edited.read_text()
    assert text.count("exp (- Rabs x / b)") == 1
    edited.write_text(text.replace("exp (- Rabs x / b)", "exp (- Rabs x)"))
    monkeypatch.setattr(libraries, "PROOFS", tmp_path)
    with pytest.raises(ProofError, match=r"Objects\.v .*PINNED"):
        checker.prepare_objects("coqc")


def test_nothing_is_assumed_by_hand():
    text = re.sub(r"\(\*.*?\*\)", "", "".join(map(libraries.text_of, defined.LIBRARIES)), flags=re.DOTALL)
    assert not re.search(r"\b(Axiom|Parameter|Conjecture|Admitted|admit|Unset|bypass_check)\b", text)


def test_every_object_belongs_to_a_claim_without_a_model_and_has_a_proof_or_a_reason():
    ids = {c.id for c in claims()}
    for claim_id in OBJECTS:
        assert claim_id in ids
        assert not model_proofs.proved(claim_id)
        assert proof_files.path_of(claim_id).exists() != (claim_id in proof_files.unproved()), claim_id
        if proof_files.path_of(claim_id).exists():
            mode, text, intact = proof_files.read(proof_files.path_of(claim_id))
            assert (mode, intact) == ("defined", True)
            assert f"Require Import Borrow.{OBJECTS[claim_id].library}." in text
    assert set(WRONG) == set(OBJECTS)


@pytest.mark.parametrize("claim_id", sorted(OBJECTS))
def test_every_entry_of_a_formula_is_said_of_something_and_hypotheses_can_be_met(claim_id, monkeypatch):
    for t in defined.of_object(find(claim_id)):
        assert bool(t.hypotheses) == t.render().startswith(f"Lemma met_{t.name} :")
    nothing = defined.About("", "True", ("exact I.",))
    monkeypatch.setitem(OBJECTS, claim_id, replace(OBJECTS[claim_id], said=lambda **v: nothing))
    with pytest.raises(Unprovable, match="entries of the formula"):
        defined.theorems(find(claim_id))


def test_a_claim_has_one_object():
    with pytest.raises(ValueError, match="mrmtl:eq12 is about two objects"):
        defined.about("Outputs", "mrmtl:eq12")(lambda: None)


def test_a_function_that_nothing_defines_is_refused_by_name():
    with pytest.raises(Unprovable, match=r"Objects\.v does not define zeta_of"):
        defined.DefinedTerms().of(sp.zeta(sp.Symbol("x", positive=True)))


def test_cases_are_told_apart_by_one_equation_or_refused():
    x = sp.Symbol("x", real=True)
    terms = defined.DefinedTerms()
    assert terms.of(sp.Piecewise((1, sp.Eq(x, 0)), (x, True))) == "((if Req_EM_T (x) (0) then 1 else x))"
    with pytest.raises(Unprovable, match="not told apart by one equation"):
        terms.of(sp.Piecewise((1, x > 0), (x, True)))
    with pytest.raises(Unprovable, match="cases inside"):
        terms.of(2 + sp.Piecewise((1, sp.Eq(x, 0)), (x**2, True), evaluate=False))


# --- what is on file is no tautology -------------------------------------------------------------------------------------

STATED = re.compile(r"^Theorem (\w+) :\n(.*?)\.\nProof\.", re.MULTILINE | re.DOTALL)
LIBRARY = re.compile(r"^Require Import Borrow\.(\w+)\.", re.MULTILINE)


@pytest.mark.nightly
@needs_interval
@pytest.mark.parametrize("paper", ["fedhdp", "feo2", "generative", "mrmtl", "robusthdp"])
def test_no_statement_on_file_holds_by_reading_both_sides(paper, coqc):
    """Each theorem of the paper is stated again, and `reflexivity` must fail on it, with any letters."""
    goals: dict[str, list[str]] = {}
    for file in sorted(proof_files.folder_of(paper).glob("*.v")):
        text = file.read_text()
        if LIBRARY.findall(text)[0] == "Objects":  # printed digits
            continue
        for name, body in STATED.findall(text):
            attack = f"(* {file.stem}, {name} *)\nGoal {body}.\nProof. Fail (intros; timeout 5 reflexivity). Abort.\n"
            goals.setdefault(LIBRARY.findall(text)[0], []).append(attack)
    for library, attacks in goals.items():
        end = "Definition nothing := I.\nPrint Assumptions nothing.\n"
        whole = "\n".join([f"Require Import Borrow.{library}.", "Open Scope R_scope.", *attacks, end])
        assert checker.run_text(coqc, whole, 600.0) == (True, ""), library


# --- coqc decides --------------------------------------------------------------------------------------------------------


def shifted(factor):
    """The claim's formula, a little larger; zero a little away from zero."""
    formulas = defined.formulas

    def moved(e):
        if isinstance(e, sp.Piecewise):  # in each case by itself
            return sp.Piecewise(*((moved(value), where) for value, where in e.args))
        return None if e is None else e * (1 + factor) if e != 0 else factor

    def other(claim, case):
        return tuple(map(moved, formulas(claim, case)))

    return other


def changed(claim_id, monkeypatch, change):
    """The theorems with changed propositions."""
    found = OBJECTS[claim_id]

    def other(**v):
        said = find(claim_id).call(found.said, v)
        said = (said,) if isinstance(said, defined.About) else said or ()
        return tuple(replace(a, proposition=change(a.proposition), script=tuple(map(change, a.script))) for a in said)

    monkeypatch.setitem(OBJECTS, claim_id, replace(found, said=other))
    return defined.of_object(find(claim_id))


def ids(some):
    return [pytest.param(i, marks=() if i in some else pytest.mark.nightly) for i in sorted(OBJECTS)]


@needs_interval
@pytest.mark.parametrize("claim_id", ids(SOME))
def test_another_formula_is_refused(claim_id, coqc, monkeypatch):
    monkeypatch.setattr(defined, "formulas", shifted(ROOM.get(claim_id, TINY)))
    assert judged(coqc, claim_id, defined.of_object(find(claim_id)))[0] is False


@needs_interval
@pytest.mark.parametrize("claim_id", ids(SOME))
def test_another_object_is_refused(claim_id, coqc, monkeypatch):
    assert judged(coqc, claim_id, defined.of_object(find(claim_id))) == (True, "")
    old, new = WRONG[claim_id]
    theorems = changed(claim_id, monkeypatch, lambda text: text.replace(old, new))
    assert any(new in t.conclusion or "derived" in new for t in theorems), "what is changed does not occur"
    assert judged(coqc, claim_id, theorems)[0] is False


@pytest.mark.nightly
@needs_interval
@pytest.mark.parametrize(
    ("claim_id", "old", "new"),
    [("robusthdp:gauss", "<= eps <= 1 ", "<= eps <= 4 "), ("robusthdp:thm1", "2 <= c2", "1 / 2 <= c2")],
)
def test_a_wider_domain_is_refused(claim_id, old, new, coqc):
    text = generator.source(find(claim_id), defined.of_object(find(claim_id)), OBJECTS[claim_id].library)
    assert old in text
    assert checker.compile_texts(coqc, {claim_id: text.replace(old, new)})[0] is False


@needs_interval
@pytest.mark.parametrize("claim_id", [p for p in ids(SOME) if p.values[0] not in DIGITS])
def test_what_is_said_does_not_hold_by_itself(claim_id, coqc, monkeypatch):
    """Neither reading both sides, nor rings, nor linear arithmetic, nor logic alone shows it: a lemma does."""
    tries = "first [ reflexivity | solve [ ring ] | solve [ lra ] | solve [ tauto ] | solve [ auto ] | solve [ field ] ]"
    theorems = defined.of_object(find(claim_id))
    for t in (t for t in theorems if not t.negated):
        t.script = [f"intros; repeat apply conj; intros; {tries}."]
    assert judged(coqc, claim_id, theorems)[0] is False
