"""Claim packs: a paper from another distribution is found and judged; what is malformed is named and the rest goes on.

Each test runs the command line in a process of its own, with packs on its path as an installed distribution has them.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

PACKS = Path(__file__).parent / "packs"
ROOT = PACKS.parents[2]
IDS = ["fayherriot:weight", "fayherriot:known", "fayherriot:unknown"]


@pytest.fixture
def pack(tmp_path, install_pack):
    """The pack, installed in a folder: its package."""
    return install_pack(tmp_path / "site", "fay_herriot", "fayherriot") / "fay_herriot"


@pytest.fixture
def borrow(pack, tmp_path, run_borrow):
    """Run the command line with the pack installed; returns exit status, standard output, standard error."""
    return lambda *argv: run_borrow(pack.parent, tmp_path, *argv)


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def listed(out):
    return [line.split()[0] for line in out.splitlines()]


# --- a pack is a paper ----------------------------------------------------------------------------------------------


def test_a_pack_is_listed_behind_the_papers(borrow):
    status, out, err = borrow("claims")
    assert (status, err) == (0, "")
    assert listed(out)[-3:] == IDS
    assert len(listed(out)) > 300
    assert listed(borrow("claims", "--paper", "fayherriot")[1]) == IDS


def test_a_pack_is_verified_in_worker_processes_and_goes_stale_by_itself(borrow, pack):
    status, out, err = borrow("verify", "--paper", "fayherriot", "--jobs", 2)
    assert (status, err) == (0, ""), out + err
    assert "3 claims: 3 holds" in out
    assert "3 records were up to date" in borrow("verify", "--paper", "fayherriot")[1]
    edit(pack / "areas.py", "return (low - high)", "return 1 * (low - high)")
    states = [line.split()[1] for line in borrow("claims", "--paper", "fayherriot")[1].splitlines()]
    assert states == ["stale", "holds", "holds"]


def test_a_wrong_formula_of_a_pack_is_not_verified(borrow, pack):
    edit(pack / "areas.py", "A * D / (A + D) + D**2", "A * D / (A + D) + 2 * D**2")
    status, out, _ = borrow("verify", "--paper", "fayherriot", "--quick")
    assert status == 1
    assert "NOT VERIFIED  fayherriot:unknown" in out
    assert "2 holds" in out


def test_a_claim_of_a_pack_is_shown(borrow):
    status, out, _ = borrow("show", "fayherriot:known")
    assert status == 0
    for text in ("Fay, Herriot", "VERDICT  holds", "A*D/(A + D)", "TAKES THE RESULTS OF  fayherriot:weight"):
        assert text in out


@pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")
def test_a_pack_carries_its_proofs(borrow, pack):
    before = sorted((ROOT / "theory" / "proofs").rglob("*"))
    status, out, err = borrow("prove", "--write", "--paper", "fayherriot")
    assert status == 0, out + err
    assert "2 of 3 claims proved" in out
    assert {f.name for f in (pack / "proofs").glob("*.v")} == {"weight.v", "unknown.v"}
    reasons = json.loads((pack / "proofs" / "unproved.json").read_text())
    assert reasons == {"fayherriot:known": "both sides are the same text"}
    assert sorted((ROOT / "theory" / "proofs").rglob("*")) == before
    assert "2 of 3 claims proved" in borrow("prove", "--paper", "fayherriot")[1]


def test_an_unknown_paper_is_named_with_the_known_ones(borrow):
    status, _, err = borrow("claims", "--paper", "fayheriot")
    assert status == 2
    assert "unknown paper 'fayheriot'; known are fedhdp, feo2, mrmtl, robusthdp, generative, fayherriot" in err


# --- what is malformed is named, and the rest goes on ---------------------------------------------------------------


def line_of(file, text):
    return next(i for i, line in enumerate(file.read_text().splitlines(), 1) if text in line)


BROKEN = {
    "a house rule": ('title="Risk of the best predictor, mean known",\n        place="Section 2"',
                     'title="x",\n        place=""', "fayherriot:known", "a claim needs its source; give place"),
    "two house rules": ('not_simulated=Exempt(kind="part", of=("fayherriot:known",), note="the risk that it minimises"),',
                        'relation="<",', "fayherriot:weight", "give simulate, or the reason in not_simulated"),
    "a reason in prose": ('not_simulated=Exempt(kind="part", of=("fayherriot:known",), note="the risk that it minimises"),',
                          'not_simulated="it is simulated elsewhere",', "fayherriot:weight", "give an Exempt of a kind"),
    "a missing judge": ("        oracle=unknown_oracle,\n", "", "fayherriot:unknown", "argument: 'oracle'"),
    "an id twice": ('id="fayherriot:unknown"', 'id="fayherriot:known"', "fayherriot:known", "registered twice, first in"),
    "another paper's id": ('id="fayherriot:unknown"', 'id="nobody:unknown"', "nobody:unknown", "must start with one of"),
    "an error": ("oracle=weight_oracle", "oracle=weight_oracel", "fayherriot:weight", "name 'weight_oracel' is not defined"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_one_malformed_claim_is_named_and_the_others_are_judged(borrow, pack, name):
    old, new, claim, why = BROKEN[name]
    file = pack / "areas.py"
    edit(file, old, new)
    lost = {"an id twice": "fayherriot:unknown", "another paper's id": "fayherriot:unknown"}.get(name, claim)
    status, out, err = borrow("claims")
    assert status == 1
    assert listed(out)[-2:] == [i for i in IDS if i != lost]
    (line,) = err.splitlines()
    at = re.match(rf"MALFORMED  {claim}: site/fay_herriot/areas\.py:(\d+): ", line)
    assert at
    assert why in line
    start = line_of(file, {"an id twice": 'statement="With A known'}.get(name, f'id="{claim}"'))
    assert abs(int(at[1]) - start) < 20


def test_verify_judges_the_rest_and_fails(borrow, pack):
    edit(pack / "areas.py", 'kind="optimum"', 'kind="best"')
    status, out, err = borrow("verify", "--paper", "fayherriot", "--quick")
    assert status == 1
    # what takes the malformed claim as a lemma cannot be derived, and says so
    assert "fayherriot:unknown  holds" in out
    assert "NOT VERIFIED  fayherriot:known" in out
    assert "kind 'best' is none; take one of identity, optimum" in err
    status, out, _ = borrow("verify", "--paper", "fayherriot", "--quick", "--json")
    report = json.loads(out)
    assert (status, report["ok"]) == (1, False)
    assert [m["claim"] for m in report["malformed"]] == ["fayherriot:weight"]
    assert borrow("verify", "fayherriot:unknown", "--quick")[0] == 0
    status, _, err = borrow("show", "fayherriot:weight")
    assert status == 2
    assert "malformed claim fayherriot:weight" in err


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("ONE, ZERO = ", "ONE, ZERO == = ", "SyntaxError"),
        ("import sympy as sp", "import sympy as sp\nimport no_such_library", "No module named 'no_such_library'"),
        ("import sympy as sp", "import sympy as sp\n1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_broken_module_is_named_and_other_papers_go_on(borrow, pack, old, new, why):
    edit(pack / "areas.py", old, new)
    status, out, err = borrow("claims")
    assert status == 1
    assert len(listed(out)) > 300
    (line,) = err.splitlines()
    assert f"areas.py:{line_of(pack / 'areas.py', new.splitlines()[-1])}: " in line
    assert why in line
    assert ("fayherriot:known" in out) == ("Syntax" not in why)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("PAPER = Paper", "PAPERS = Paper", "fay_herriot has no PAPER record; write PAPER = Paper(...)"),
        ('key="fayherriot"', 'key="mrmtl"', "the key mrmtl is that of theory.papers.mrmtl too; uninstall one"),
        ('modules=("areas",)', 'modules=("areas", "volumes")', "No module named 'fay_herriot.volumes'"),
        ('modules=("areas",)', "modules=()", "give the names of its modules"),
        ('"""Claims on', '""Claims on', "SyntaxError"),
    ],
)
def test_a_broken_record_is_named_and_other_papers_go_on(borrow, pack, old, new, why):
    edit(pack / "__init__.py", old, new)
    status, out, err = borrow("claims")
    assert status == 1
    assert len(listed(out)) > 300
    assert why in err
    assert "mrmtl:thm6.3" in out


def test_a_module_that_nobody_reads_is_named(borrow, pack):
    shutil.copy(pack / "areas.py", pack / "forgotten.py")
    status, _, err = borrow("claims")
    assert status == 1
    assert "fay_herriot/forgotten.py: nobody reads this module; name it in the PAPER record's modules" in err
    status, _, err = borrow("verify", "fayherriot:forgotten")
    assert status == 2
    assert "unknown claim id" in err
    assert "forgotten.py: nobody reads this module" in err


def test_an_inventory_in_parts_holds_no_claims(borrow, pack):
    shutil.copy(pack / "areas.py", pack / "inventory_of_areas.py")
    status, _, err = borrow("claims")
    assert "nobody reads this module" not in err
    assert status == 0


def test_what_needs_a_failed_line_says_which(borrow, pack):
    edit(pack / "areas.py", "EXAMPLE = {", "EXAMPLE = no_such_name or {")
    status, out, err = borrow("claims", "--paper", "fayherriot")
    line = line_of(pack / "areas.py", "EXAMPLE = ")
    assert (status, out) == (1, "")
    assert [e.split()[1].rstrip(":") for e in err.splitlines()] == ["fayherriot", *IDS]
    assert err.count(f"needs EXAMPLE, which line {line} failed to make; mend that line") == 3
