"""Claims with functions: Coq's lemmas take them apart, coq-interval encloses them; what is wrong or assumed is refused."""

import shutil
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest
import sympy as sp

from estimators.system.processes import Stopped, finished, worker_pool
from theory import find
from theory.coq import boxes, checker, functions, generator, known, model_proofs, proof_files, prove, texts
from theory.coq.nodes import Canonical, Terms
from theory.coq.terms import SAME_TEXT
from theory.engine.algebra import entrywise

needs_coqc = pytest.mark.skipif(shutil.which("coqc") is None, reason=f"coqc is not installed; {checker.INSTALL}")
ENCLOSED = bool(shutil.which("coqc")) and checker.has_interval(shutil.which("coqc") or "")
needs_interval = pytest.mark.skipif(not ENCLOSED, reason=f"{checker.NO_INTERVAL}; {checker.INSTALL_INTERVAL}")
LEMMAS, BOX, TAIL = "generative:lemma2:eps", "mrmtl:appA:amplification:small-eps", "generative:thm2:tail:bound"
REAL = proof_files.FOLDER


@pytest.fixture
def folder(tmp_path, compiled_into, monkeypatch):
    """An own folder of proofs and of work."""
    monkeypatch.setattr(proof_files, "FOLDER", tmp_path / "proofs")
    monkeypatch.setattr(proof_files, "UNPROVED", tmp_path / "proofs" / "unproved.json")
    monkeypatch.setattr(checker, "WORK", compiled_into(tmp_path / "work"))
    monkeypatch.setattr(known, "STATUS", tmp_path / "work" / "status.json")
    monkeypatch.setattr(model_proofs, "with_models", lambda chosen: [])
    (tmp_path / "proofs").mkdir()
    for file in REAL.glob("*.v"):
        shutil.copy(file, tmp_path / "proofs")
    return tmp_path


def accepted(claim, mode, folder):
    path, _ = checker.coqc()
    checker.prepare(path, mode == "boxes")
    stated = boxes.theorems(claim, mode == "boxes")
    text = generator.source(claim, stated, boxes.library_of(stated) if mode == "boxes" else texts.LIBRARIES[mode])
    return checker.compile_texts(path, {claim.id: text})


def times(claim, factor):
    return replace(claim, printed=lambda **v: entrywise(claim.call(claim.printed, v), lambda e: factor * e))


# --- what functions are of each other ------------------------------------------------------------------------------------


def test_exponentials_logarithms_and_roots_are_taken_apart():
    x, y = sp.symbols("x y", positive=True)
    for one, other in (
        (sp.exp(x + y), sp.exp(x) * sp.exp(y)),
        (sp.log(x**2 * y / 3), 2 * sp.log(x) + sp.log(y) - sp.log(3)),
        (sp.sqrt(8 * x) * sp.sqrt(x), 2 * sp.sqrt(2) * x),
        (sp.exp(sp.Rational(1, 2) * x) ** 2, sp.exp(x)),
        ((x * y) ** y, sp.exp(y * sp.log(x)) * y**y),
    ):
        terms = Terms()
        sides = [terms.flat(one), terms.flat(other)]
        first = Canonical(terms, {}, True, {x: 2, y: 3})
        for e in sides:
            first.of(e)
        units = {m: sp.Rational(1, sp.ilcm(1, *(r.q for r in rs))) for m, rs in first.seen.items()}
        canonical = Canonical(terms, {}, True, {x: 2, y: 3}, units)
        assert canonical.vanishes(canonical.of(sides[0]) - canonical.of(sides[1])), one
        assert not canonical.vanishes(canonical.of(sides[0]) - canonical.of(sides[1]) - 1)


def test_a_function_that_coq_has_not_is_any_function():
    terms = Terms()
    terms.flat(sp.gamma(sp.Symbol("x")))
    assert terms.others == {"Gamma_of": 1}
    with pytest.raises(functions.Unprovable, match="no function of real numbers"):
        terms.flat(sp.Piecewise((1, sp.Symbol("x") > 0), (2, True)))


# --- coqc decides --------------------------------------------------------------------------------------------------------


@needs_coqc
@pytest.mark.parametrize(("factor", "right"), [(1, True), (1 + sp.Rational(1, 10**9), False)])
def test_an_identity_of_logarithms_is_proved_and_a_wrong_one_is_not(factor, right, folder):
    claim = times(find(LEMMAS), factor)
    try:
        assert accepted(claim, "functions", folder)[0] is right
    except functions.Unprovable:
        assert not right


@needs_interval
@pytest.mark.parametrize(("claim_id", "factor"), [(BOX, sp.Rational(1, 3)), (TAIL, sp.Rational(1, 100))])
def test_a_bound_on_a_box_is_proved_and_one_that_is_too_small_is_not(claim_id, factor, folder):
    claim = find(claim_id)
    assert accepted(claim, "boxes", folder) == (True, "")
    with suppress(functions.Unprovable):  # refused before coqc is asked
        assert accepted(times(claim, factor), "boxes", folder)[0] is not True


def test_a_range_without_an_end_has_no_enclosure():
    claim = find("generative:lemma2:delta")
    (case,) = claim.cases()
    with pytest.raises(functions.Unprovable, match="bounded range, and that of z is not"):
        boxes.within(claim, case, [sp.Symbol("z")])


@needs_coqc
def test_without_coq_interval_its_proofs_are_named_with_the_command_and_the_rest_goes_on(folder, monkeypatch):
    for claim_id in (BOX, LEMMAS):
        file = proof_files.path_of(claim_id)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REAL / file.relative_to(proof_files.FOLDER), file)
    monkeypatch.setattr(prove, "has_interval", lambda path: False)
    missing, other = prove.check([find(BOX), find(LEMMAS)], jobs=1)
    assert (missing.state, missing.grade) == ("undecided", "interval")
    assert checker.INSTALL_INTERVAL in missing.detail
    assert (other.state, other.grade) == ("proved", "algebra")


# --- what is assumed -----------------------------------------------------------------------------------------------------


def test_each_library_may_assume_what_it_needs_and_no_more():
    rational, analysis, enclosed = (f"Require Import Borrow.{x}." for x in ("Positive", "Functions", "Tails"))
    classic, whole = "Classical_Prop.classic", "Uint63.add_spec"
    assert checker.strange(checker.AXIOMS, rational) == []
    assert checker.strange([classic, whole], rational) == [whole, classic][::-1]
    assert checker.strange([classic, whole], analysis) == [whole]
    assert checker.strange([classic, whole, "easy"], enclosed) == ["easy"]


SUMMARY = """
* Axioms:
    {axioms}

* Constants/Inductives relying on type-in-type: {unsafe}

* Constants/Inductives relying on unsafe (co)fixpoints: <none>

* Inductives whose positivity is assumed: <none>
"""


@pytest.mark.parametrize(
    ("axioms", "unsafe", "right"),
    [
        ("Coq.Logic.Classical_Prop.classic", "<none>", True),
        ("Coq.Reals.Rdefinitions.RbaseSymbolsImpl.R", "<none>", True),
        ("Borrow.cheat.easy", "<none>", False),
        ("Borrow.cheat.Classical_Prop.classic", "<none>", False),
        ("<none>", "Borrow.cheat.T", False),
    ],
)
def test_a_summary_of_coqchk_is_read_strictly(axioms, unsafe, right):
    assert checker.judged_context(SUMMARY.format(axioms=axioms, unsafe=unsafe), False)[0] is right
    assert checker.judged_context("nothing", False)[0] is False


@pytest.mark.parametrize(
    ("axiom", "right"),
    [
        ("Coq.Floats.FloatAxioms.add_spec", True),
        ("Coq.Floats.FloatAxioms.Leibniz.eqb_spec", True),
        ("mathcomp.ssreflect.bigop.BigOp.bigopE", True),
        ("Coq.Numbers.Cyclic.Int63.PrimInt63.add", True),
        ("Borrow.FloatAxioms.add_spec", False),
        ("Borrow.bigop.BigOp.bigopE", False),
        ("mathcomp.algebra.ssralg.easy", False),
        ("mathcomp.ssreflect.eqtype.Easy.easy", False),
        ("Coq.Floats.PrimFloat.easy.easy", False),
        ("Borrow.cheat.Uint63.easy", False),
    ],
)
def test_what_coq_interval_loads_is_let_pass_where_it_is_loaded_and_nothing_else(axiom, right):
    summary = SUMMARY.format(axioms=axiom, unsafe="<none>")
    assert checker.judged_context(summary, True)[0] is right
    assert checker.judged_context(summary, False)[0] is False


@pytest.mark.skipif(shutil.which("coqchk") is None, reason=f"coqchk is not installed; {checker.INSTALL}")
@pytest.mark.parametrize(("text", "right"), [("Lemma t : 1 <= 1. Proof. lra. Qed.", True), ("Axiom easy : 1 <= 0.", False)])
def test_coqchk_refuses_an_axiom(text, right, folder):
    path, _ = checker.coqc()
    checker.prepare(path)
    (checker.WORK / "tried.v").write_text(f"Require Import Borrow.Positive.\nOpen Scope R_scope.\n{text}\n")
    subprocess.run([path, "-q", "-Q", ".", "Borrow", "tried.v"], cwd=checker.WORK, check=True)
    assert checker.recheck(path, ["tried"], 120.0)[0] is right


def test_ctrl_c_ends_what_goes_on_beside():
    """A pool whose futures nobody waits for would go through all of them before the program may end."""
    begun = threading.Event()

    def work(stop):
        with worker_pool(1) as pool:
            futures = [pool.submit(time.sleep, 0.5) for _ in range(400)]
            for _ in finished(futures, stop):
                begun.set()

    def interrupted():
        with checker.beside(work) as following:
            held.append(following)
            assert begun.wait(60)
            raise KeyboardInterrupt

    held = []
    before = set(threading.enumerate())  # other tests may have left pools, as joblib keeps its own
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - started < 100
    assert isinstance(held[0].exception(), Stopped)
    assert not [thread for thread in set(threading.enumerate()) - before if "ExecutorManager" in type(thread).__name__]


def test_batches_that_have_not_begun_do_not_begin_after_ctrl_c():
    runs = []

    def compiled(path, texts):
        runs.append(len(texts))
        time.sleep(0.2)
        return True, ""

    found = checker.judge_texts("", {f"c{k}": "Require Import Borrow.Positive.\n" for k in range(20)}, 1, compiled, batch=1)
    next(iter(found))
    with pytest.raises(KeyboardInterrupt):
        found.throw(KeyboardInterrupt)
    assert len(runs) < 5


# --- batches and reasons -------------------------------------------------------------------------------------------------


def test_one_slow_proof_costs_its_batch_few_runs():
    runs = []

    def compiled(path, texts):
        runs.append(len(texts))
        return (None, "slow") if "c5" in texts else (True, "")

    texts = {f"c{k}": "Require Import Borrow.Positive.\n" for k in range(8)}
    found = {i: ok for i, ok, _ in checker.judge_texts("", texts, 1, compiled)}
    assert found == {i: None if i == "c5" else True for i in texts}
    assert sorted(runs, reverse=True) == [8, 4, 4, 2, 2, 1, 1]


def test_what_requires_other_files_is_another_batch():
    batches = []
    texts = {f"c{k}": f"Require Import Borrow.{'Positive' if k % 2 else 'Tails'}.\n" for k in range(4)}
    list(checker.judge_texts("", texts, 1, lambda path, some: (batches.append(set(some)), (True, ""))[1]))
    assert sorted(map(sorted, batches)) == [["c0", "c2"], ["c1", "c3"]]


@needs_coqc
def test_a_reason_that_is_none_is_found_out(folder):
    small, same = find("mrmtl:thm6.8"), find("mrmtl:eq2")
    proof_files.UNPROVED.write_text(f'{{"{small.id}": "{SAME_TEXT}", "{same.id}": "{SAME_TEXT}"}}')
    wrong, right = prove.check([small, same], jobs=1)
    assert (wrong.state, wrong.ok) == ("stale", False)
    assert "it can be stated" in wrong.detail
    assert (right.state, right.detail) == ("unproved", SAME_TEXT)
    proof_files.UNPROVED.write_text(f'{{"{small.id}": "a reason"}}')
    assert [o.state for o in prove.check([small], jobs=1)] == ["stale"]
