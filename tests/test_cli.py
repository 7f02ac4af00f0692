"""The console script: what it prints, its exit status, and that it keeps what is finished."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from borrow import main
from theory import find
from theory.cli import read_point
from theory.engine import judging, registry
from theory.engine.domain import DomainError
from theory.engine.evidence import Ledger

CHEAP = ["feo2:theta-np", "feo2:theta-p"]
VERDICTS = {
    "mrmtl:eq5": "holds",
    "mrmtl:lem6.1:algA1": "holds under",
    "fedhdp:alg1": "misprint",
    "fedhdp:eq10": "wrong",
}


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture
def borrow(capsys):
    """Run the command line; returns exit status, standard output, standard error."""

    def run(*argv):
        status = main([str(a) for a in argv])
        return status, *capsys.readouterr()

    return run


@pytest.fixture(autouse=True)
def no_ledger_from_before(tmp_path_factory, monkeypatch):
    """`evaluate` reads build/ledger.json of the working folder; what was verified there must not matter here."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger.json"


def test_verify(borrow, ledger):
    status, out, err = borrow("verify", *CHEAP, "--quick", "--ledger", ledger)
    assert status == 0
    assert err == ""  # quiet when piped
    for claim_id in CHEAP:
        assert f"{claim_id:13}  holds " in out
    assert "2 claims: 2 holds" in out
    assert "0 survived" in out
    assert str(ledger) in out
    assert set(Ledger.load(ledger).records) == set(CHEAP)
    assert "2 records were up to date" in borrow("verify", *CHEAP, "--quick", "--ledger", ledger)[1]


def test_verify_json(borrow, ledger):
    status, out, _ = borrow("verify", *CHEAP, "--quick", "--json", "--ledger", ledger, "--mc-seed", "7")
    data = json.loads(out, parse_constant=refuse)
    assert status == 0
    assert data["ok"] is True
    assert data["root"] == 7
    assert data["counts"] == {"holds": 2}
    assert data["problems"] == {}
    assert set(data["claims"]) == set(CHEAP)


def test_a_claim_that_does_not_verify_is_exit_status_1(borrow, ledger, monkeypatch):
    claim = find(CHEAP[0])
    monkeypatch.setitem(registry._claims, claim.id, replace(claim, printed=lambda N_np, sigma2_c: 2 * sigma2_c / N_np))
    status, out, _ = borrow("verify", *CHEAP, "--quick", "--jobs", 1, "--ledger", ledger)
    assert status == 1
    assert f"NOT VERIFIED  {claim.id}: " in out
    assert "1 holds, 1 open" in out
    status, out, _ = borrow("verify", *CHEAP, "--quick", "--fresh", "--jobs", 1, "--json", "--ledger", ledger)
    assert status == 1
    assert list(json.loads(out, parse_constant=refuse)["problems"]) == [claim.id]


def test_a_float64_function_at_infinity_still_prints_strict_json(borrow, ledger, monkeypatch):
    claim = find(CHEAP[0])
    monkeypatch.setitem(registry._claims, claim.id, replace(claim, computed=lambda N_np: float("inf")))
    status, out, _ = borrow("verify", claim.id, "--quick", "--json", "--ledger", ledger)
    assert status == 1
    json.loads(out, parse_constant=refuse)
    json.loads(ledger.read_text(), parse_constant=refuse)


def test_ctrl_c_keeps_finished_evidence(borrow, ledger, monkeypatch):
    real, calls = judging.judge, []

    def judge(claim, *rest):
        if calls:
            raise KeyboardInterrupt
        calls.append(claim.id)
        return real(claim, *rest)

    monkeypatch.setattr(judging, "judge", judge)
    status, _, err = borrow("verify", *CHEAP, "--quick", "--jobs", 1, "--ledger", ledger)
    assert status == 130
    assert "interrupted; what is finished is kept" in err
    assert list(Ledger.load(ledger).records) == calls == CHEAP[:1]
    monkeypatch.undo()
    status, out, _ = borrow("verify", *CHEAP, "--quick", "--jobs", 1, "--ledger", ledger)
    assert status == 0
    assert "1 records were up to date" in out


@pytest.mark.parametrize("command", ["verify", "show", "evaluate"])
def test_an_unknown_id_is_exit_status_2_with_a_suggestion(borrow, ledger, command):
    options = () if command == "evaluate" else ("--ledger", ledger)
    status, out, err = borrow(command, "mrmtl:thm63", *options)
    assert (status, out) == (2, "")
    assert err.startswith("borrow: unknown claim id 'mrmtl:thm63'; did you mean mrmtl:thm6.3")
    assert not ledger.exists()


@pytest.mark.parametrize("command", ["verify", "claims", "show"])
def test_a_damaged_ledger_is_exit_status_2_and_left_alone(borrow, ledger, command):
    ledger.write_text('{"schema": 1, "claims": {"feo2:theta-np": {"ver')
    before = ledger.read_bytes()
    ids = {"verify": CHEAP[:1], "claims": [], "show": CHEAP[:1]}[command]
    status, out, err = borrow(command, *ids, "--ledger", ledger)
    assert (status, out) == (2, "")
    assert err.startswith(f"borrow: {ledger}: not a complete ledger")
    assert ledger.read_bytes() == before


def test_a_ledger_of_an_earlier_version_is_judged_anew_and_named_once(borrow, ledger):
    ledger.write_text('{"schema": 1, "claims": {}}')
    status, out, err = borrow("claims", "--paper", "feo2", "--ledger", ledger)
    assert (status, err.count("\n")) == (0, 1)
    assert "evidence of an earlier version" in err
    assert "not verified yet" in out
    status, out, err = borrow("verify", CHEAP[0], "--quick", "--ledger", ledger)
    assert (status, err.count("\n")) == (0, 1)
    assert borrow("verify", CHEAP[0], "--quick", "--ledger", ledger)[2] == ""


def test_a_folder_for_a_ledger_is_exit_status_2(borrow, tmp_path):
    status, _, err = borrow("claims", "--ledger", tmp_path)
    assert status == 2
    assert str(tmp_path) in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
@pytest.mark.parametrize("command", ["verify", "claims", "show", "ledger", "report"])
def test_a_device_for_a_ledger_is_not_read_without_end(borrow, command):
    ids = CHEAP[:1] if command in ("verify", "show") else []
    status, out, err = borrow(command, *ids, "--ledger", "/dev/full")
    assert (status, out) == (2, "")
    assert "/dev/full is no regular file; give the path of one" in err


def test_a_ledger_nested_too_deep_is_exit_status_2(borrow, ledger):
    ledger.write_text('{"schema": 2, "claims": ' + "[" * 200_000)
    status, _, err = borrow("claims", "--ledger", ledger)
    assert status == 2
    assert "not a ledger" in err


@pytest.mark.parametrize("command", [("prove",), ("prove", "--write"), ("verify",), ("report",), ("figures",)])
@pytest.mark.parametrize("jobs", [0, -1])
def test_no_processes_is_exit_status_2(borrow, command, jobs):
    status, out, err = borrow(*command, "--jobs", jobs)
    assert (status, out) == (2, "")
    assert "jobs" in err
    assert f"got {jobs}" in err


@pytest.mark.parametrize("seed", ["-1", "x", "1.5"])
def test_a_bad_seed_is_exit_status_2(borrow, ledger, seed):
    status, _, err = borrow("verify", *CHEAP, "--quick", "--ledger", ledger, f"--mc-seed={seed}")
    assert status == 2
    assert "--mc-seed" in err
    assert not ledger.exists()


# --- evaluate ----------------------------------------------------------------------------------------------------------

AT = ("n=2", "sigma2=1", "sigma2_dp=2")


def test_evaluate_json(borrow):
    status, out, _ = borrow("evaluate", "mrmtl:eq5", "--json", "--at", *AT)
    assert status == 0
    assert json.loads(out, parse_constant=refuse) == {
        "claim": "mrmtl:eq5",
        "at": {"n": 2, "sigma2": 1, "sigma2_dp": 2},
        "printed": 1,
        "derived": 1,
        "unit": "variance",
        "verdict": "holds",
    }


@pytest.mark.parametrize(
    ("claim_id", "at", "key", "value"),
    [
        ("fedhdp:table4:a", ["N=3", "alpha2=1"], "derived", "inf"),
        ("mrmtl:lem6.7", ["lam=inf", "K=3", "sigma2_loc=1", "tau2=1"], "derived", 1),
        ("fedhdp:lemma1", ["sigma2s=1,3"], "derived", [0.75, 0.75, 0.25]),
        ("fedhdp:lemma1", ["sigma2s=[1,3]"], "derived", [0.75, 0.75, 0.25]),
        ("fedhdp:lemma1", ["sigma2s=3"], "derived", [3, 1]),
    ],
)
def test_evaluate_json_of_infinities_and_lists(borrow, claim_id, at, key, value):
    status, out, _ = borrow("evaluate", claim_id, "--json", "--at", *at)
    assert status == 0
    assert json.loads(out, parse_constant=refuse)[key] == value


def test_evaluate_text(borrow):
    status, out, _ = borrow(
        "evaluate", "fedhdp:lemma2:weights", "--at", "N1=1", "N2=1", "sigma2_c=1", "gamma2_1=0", "gamma2_2=2"
    )
    assert status == 0
    assert "derived   (0.75, 0.25)" in out
    assert "verdict   holds\n" in out
    point = ("offset=1", "lam=1", "K=2")
    status, out, _ = borrow("evaluate", "mrmtl:lem6.1:algA1", "--at", *point)
    assert status == 0
    assert "verdict   holds under offset == 0" in out
    assert "(this point lies outside the condition)" in out


def test_evaluate_with_simulation(borrow):
    status, out, _ = borrow("evaluate", "mrmtl:eq5", "--simulate", "--at", *AT)
    assert status == 0
    assert " ± " in out
    status, out, _ = borrow("evaluate", "mrmtl:lem6.1", "--simulate", "--at", "lam=1", "K=2")
    assert status == 0
    assert "simulated not possible: " in out


def test_evaluate_to_digits(borrow):
    status, out, _ = borrow("evaluate", "mrmtl:eq5", "--simulate", "--digits", "4", "--json", "--at", *AT)
    assert status == 0
    data = json.loads(out)
    found = data["simulated"]
    assert found["digits"] >= 4
    assert abs(found["value"] / data["derived"] - 1) < 1e-4
    assert abs(found["value"] - data["derived"]) < 4 * found["half_width"]
    assert found["sure"].startswith(f"{found['digits']} digits sure at 99%")
    status, out, _ = borrow("evaluate", "mrmtl:eq5", "--simulate", "--digits", "9", "--seconds", "0.01", "--at", *AT)
    assert status == 0
    assert "9 digits were not reached in the time given" in out


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("--digits", "4"), "--digits: say --simulate too"),
        (("--simulate", "--digits", "0"), "--digits: expected 1 .. 12, got 0"),
        (("--simulate", "--digits", "3", "--seconds", "nan"), "--seconds: expected a number > 0, got nan"),
    ],
)
def test_digits_that_cannot_be_asked_for(borrow, arguments, match):
    status, _, err = borrow("evaluate", "mrmtl:eq5", *arguments, "--at", *AT)
    assert status != 0
    assert match in err


@pytest.mark.parametrize(
    ("at", "named"),
    [
        (["n=0", "sigma2=1", "sigma2_dp=2"], "n"),
        (["n=2", "sigma2=-1", "sigma2_dp=2"], "sigma2"),
        (["n=2", "sigma2=nan", "sigma2_dp=2"], "sigma2"),
        (["n=2", "sigma2=two", "sigma2_dp=2"], "sigma2"),
        (["n=2", "sigma2=1"], "sigma2_dp"),
        (["n=2,3", "sigma2=1", "sigma2_dp=2"], "n"),
        ([*AT, "typo=1"], "typo"),
        ([*AT, "n=3"], "n"),
        (["n=2", "sigma2=", "sigma2_dp=2"], "sigma2="),
        (["n=2", "sigma2", "sigma2_dp=2"], "sigma2"),
        ([], "sigma2_dp"),
    ],
    ids=" ".join,
)
def test_a_bad_point_is_exit_status_2_and_names_the_variable(borrow, at, named):
    status, out, err = borrow("evaluate", "mrmtl:eq5", *(["--at", *at] if at else []))
    assert (status, out) == (2, "")
    assert err.startswith("borrow: ")
    assert named in err


def test_points_are_read():
    assert read_point(["a=1/3", "b=1,2", "c=[4]"]) == {"a": "1/3", "b": ["1", "2"], "c": ["4"]}
    with pytest.raises(DomainError, match="a: given twice"):
        read_point(["a=1", "a=1"])


# --- show and claims -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim_id", VERDICTS)
def test_show(borrow, ledger, claim_id):
    claim = find(claim_id)
    status, out, _ = borrow("show", claim_id, "--ledger", ledger)
    assert status == 0
    assert f"VERDICT  {VERDICTS[claim_id]}" in out
    for part in (claim.title, claim.place, claim.statement, claim.latex, "PRINTED", "DERIVATION", "EVIDENCE"):
        assert part in out
    assert ("counterexample at" in out) == (VERDICTS[claim_id] != "holds")
    assert ("CORRECT" in out) == (claim.corrected is not None)
    assert not ledger.exists()  # looking changes nothing


@pytest.mark.parametrize("claim_id", VERDICTS)
def test_show_json(borrow, ledger, claim_id):
    status, out, _ = borrow("show", claim_id, "--json", "--ledger", ledger)
    data = json.loads(out, parse_constant=refuse)
    assert status == 0
    assert data["claim"] == claim_id
    assert data["verdict"] == data["evidence"]["verdict"] == VERDICTS[claim_id]
    assert data["derivation"]
    assert data["derived"]
    assert (data["condition"] is not None) == (VERDICTS[claim_id] == "holds under")


def test_show_reads_the_ledger_but_never_its_verdict(borrow, ledger):
    claim_id = CHEAP[0]
    borrow("verify", claim_id, "--quick", "--ledger", ledger)
    out = borrow("show", claim_id, "--ledger", ledger)[1]
    assert f"EVIDENCE (from {ledger})" in out
    assert "proved equivalent, 0 survived" in out
    data = json.loads(ledger.read_text())
    data["claims"][claim_id]["verdict"] = "wrong"
    ledger.write_text(json.dumps(data))
    assert "VERDICT  holds" in borrow("show", claim_id, "--ledger", ledger)[1]


def test_claims(borrow, ledger):
    borrow("verify", CHEAP[0], "--quick", "--ledger", ledger)
    data = json.loads(ledger.read_text())
    data["claims"][CHEAP[1]] = {**data["claims"][CHEAP[0]], "source": "older", "tree": "older"}
    ledger.write_text(json.dumps(data))
    status, out, _ = borrow("claims", "--paper", "feo2", "--json", "--ledger", ledger)
    rows = {r["claim"]: r for r in json.loads(out, parse_constant=refuse)}
    assert status == 0
    assert rows[CHEAP[0]]["verdict"] == "holds"
    assert rows[CHEAP[1]]["verdict"] == "stale"
    assert rows["feo2:lemma2"]["verdict"] == "not verified yet"
    assert rows[CHEAP[0]]["variables"] == ["N_np", "sigma2_c"]
    status, out, _ = borrow("claims", "--ledger", ledger)
    assert status == 0
    assert "mrmtl:thm6.3" in out


def test_no_command_prints_help(borrow):
    status, out, _ = borrow()
    assert status == 2
    assert "verify" in out
    assert "evaluate" in out


def run(*argv, **environment):
    """Run the command line in a process of its own, as consoles of other encodings and full disks need."""
    command = [sys.executable, "-m", "borrow", *map(str, argv)]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment}, timeout=300)


@pytest.mark.parametrize(
    "argv",
    [
        ("show", "mrmtl:eq5"),
        ("evaluate", "mrmtl:eq5", "--at", "n=3", "sigma2=1", "sigma2_dp=2"),
        ("claims",),
        ("fit", "naïve.csv", "--no-plot"),
        ("fit", "naïve.csv", "--no-plot", "--json"),
        ("learn",),
    ],
    ids=lambda argv: " ".join(argv[:1] + argv[3:]),
)
def test_an_ascii_console_gets_replacements(argv, tmp_path, monkeypatch):
    Path("naïve.csv").write_text("client,mean,variance\né,1,1\n±,2,1\nc,5,1\nd,3,2\n", encoding="utf-8")
    done = run(*argv, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert done.stderr == b""
    if "--json" in argv:
        assert [client["client"] for client in json.loads(done.stdout)["clients"]] == ["é", "±", "c", "d"]
    elif argv[0] == "fit":
        assert b"\n\\xe9  " in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_under_standard_output_is_exit_status_2():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "borrow", "claims"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == b"borrow: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("argv", "usage", "said"),
    [
        (["fit", "x.csv", "--modle", "npmle"], "usage: borrow fit", "arguments: --modle npmle; did you mean --model?"),
        (["fit", "--delat=3", "x.csv"], "usage: borrow fit", "did you mean --delta?"),
        (["claims", "--jsn"], "usage: borrow claims", "did you mean --json?"),
        (["claims", "extra"], "usage: borrow claims", "unrecognized arguments: extra\n"),
    ],
)  # fmt: skip
def test_a_mistyped_option_shows_the_usage_of_its_command(argv, usage, said, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(usage)
    assert said in err


@pytest.mark.parametrize("value", ["-1e3", "-1.5E-3", "-.5", "-2"])
def test_negative_numbers_are_values_of_options(value, borrow):
    Path("t.csv").write_text("client,mean,variance\na,1,1\nb,2,1\nc,5,1\nd,3,2\n")
    status, out, _ = borrow("fit", "t.csv", "--no-plot", "--json", "--prior", "fixed", "--tau2", 1, "--mu", value)
    assert status == 0
    assert json.loads(out)["centre"] == float(value)
