"""The ledger: verdicts follow from evidence, stale evidence is not used, a damaged file is refused and left alone."""

import json
import os
from pathlib import Path

import pytest

from estimators.system import files
from theory import find
from theory.engine import evidence, reach
from theory.engine.evidence import LEVELS, SCHEMA, VERDICTS, Ledger, LedgerError, Record, source_hash, verdict

ROOT = Path(__file__).resolve().parents[3]
CLAIM = find("mrmtl:eq5")
AGREES = {"status": "pass", "judgement": "agrees", "detail": "d"}
PASS = {"status": "pass", "detail": "d"}
SEEN = {**PASS, "counterexample_confirmed": True}


def record(claim=CLAIM, quick=False, root=1, **levels):
    full = {
        "derived": AGREES,
        "computed": PASS,
        "simulated": PASS,
        "integrated": PASS,
        "attacked": PASS,
        "independent": PASS,
        "literal": PASS,
        **levels,
    }
    return Record(
        claim.id, source_hash(claim), root, quick, {k: v for k, v in full.items() if v is not None}, {"survived": 0}
    )


# --- the verdict rule ----------------------------------------------------------------------------------------------


def level(status="pass", **rest):
    return {"status": status, "detail": "d", **rest}


@pytest.mark.parametrize(
    ("derived", "computed", "expected"),
    [
        (AGREES, PASS, "holds"),
        (AGREES, SEEN, "holds"),
        (level(judgement="agrees under the condition"), SEEN, "holds under"),
        (level(judgement="agrees under the condition"), PASS, "open"),
        (level(judgement="differs", slip=True), SEEN, "misprint"),
        (level(judgement="differs", slip=False), SEEN, "wrong"),
        (level(judgement="differs"), SEEN, "wrong"),
        (level(judgement="differs", slip=True), {**PASS, "counterexample_confirmed": False}, "open"),
        (level(judgement="differs"), PASS, "open"),
        (AGREES, level("fail"), "open"),
        (AGREES, level("unknown"), "open"),
        (AGREES, level("not applicable"), "open"),
        (level("fail", judgement="agrees"), PASS, "open"),
        (level("unknown"), SEEN, "open"),
        (AGREES, {}, "open"),
        ({}, PASS, "open"),
        ({}, {}, "open"),
        (level(judgement="something new"), SEEN, "open"),
    ],
)
def test_the_verdict_follows_from_the_evidence(derived, computed, expected):
    assert verdict({"derived": derived, "computed": computed}) == expected
    assert expected in VERDICTS


def test_nothing_but_pass_is_a_pass():
    for status in ("fail", "unknown", "not applicable", "", "PASS", "passed"):
        assert verdict({"derived": {**AGREES, "status": status}, "computed": PASS}) == "open"
        assert verdict({"derived": AGREES, "computed": {**PASS, "status": status}}) == "open"


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("status", ["fail", "unknown"])
def test_evidence_against_the_verdict_is_listed(name, status):
    found = record(**{name: level(status, detail="because of x")}).contradictions()
    assert len(found) == 1
    assert name in found[0]
    assert "because of x" in found[0]


def test_missing_levels_and_surviving_mutants_are_listed():
    assert record().contradictions() == []
    assert record(simulated=level("not applicable")).contradictions() == []
    assert record(simulated=None).contradictions() == ["level 'simulated' is missing"]
    assert record(simulated=None, integrated=None, quick=True).contradictions() == []
    assert record(attacked=None, quick=True).contradictions() == ["level 'attacked' is missing"]
    weak = record()
    weak.mutants = {"survived": 2, "survivors": ["sign of tau2", "factor 2 on n"]}
    assert weak.contradictions() == ["2 mutants survived: sign of tau2"]


@pytest.mark.parametrize("status", ["fail", "unknown"])
def test_mutants_that_could_not_be_judged_are_listed(status):
    """A crash of the mutant check leaves no tally; silence about it would look like success."""
    broken = record()
    broken.mutants = {"status": status, "detail": "KeyError: 'x' (judging.py:1)"}
    assert broken.contradictions()


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_ledger_survives_the_round_trip(tmp_path):
    path = tmp_path / "deep" / "ledger.json"
    ledger = Ledger(path)
    ledger.put(record())
    again = Ledger.load(path)
    assert again.records[CLAIM.id].to_json() == ledger.records[CLAIM.id].to_json()
    before = path.read_bytes()
    again.save()
    assert path.read_bytes() == before


def test_an_absent_file_is_an_empty_ledger(tmp_path):
    assert Ledger.load(tmp_path / "none.json").records == {}
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize("schema", range(1, SCHEMA))
def test_a_ledger_of_an_earlier_schema_counts_as_empty_and_is_replaced(tmp_path, schema):
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps({"schema": schema, "claims": {CLAIM.id: "in another shape"}}))
    before = path.read_bytes()
    old = Ledger.load(path)
    assert (old.records, path.read_bytes()) == ({}, before)
    assert f"schema {schema}" in old.outdated
    old.put(record())
    assert Ledger.load(path).outdated == ""
    assert list(Ledger.load(path).records) == [CLAIM.id]


def test_a_ledger_of_a_later_schema_that_another_writes_meanwhile_is_not_lost(tmp_path):
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps({"schema": 1, "claims": {}}))
    ours = Ledger.load(path)
    later = json.dumps({"schema": SCHEMA + 1, "claims": {}})
    path.unlink()
    path.write_text(later)
    with pytest.raises(LedgerError, match=f"schema {SCHEMA + 1} is not {SCHEMA}"):
        ours.put(record())
    assert path.read_text() == later


def test_a_verdict_cannot_be_typed_into_the_file(tmp_path):
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    ledger.put(record(computed=level("fail")))
    data = json.loads(path.read_text())
    assert data["claims"][CLAIM.id]["verdict"] == "open"
    data["claims"][CLAIM.id]["verdict"] = "holds"
    path.write_text(json.dumps(data))
    assert Ledger.load(path).records[CLAIM.id].verdict() == "open"


def broken_files():
    good = {"schema": SCHEMA, "claims": {CLAIM.id: record().to_json()}}
    text = json.dumps(good, indent=1)

    def changed(**changes):
        return json.dumps({"schema": SCHEMA, "claims": {CLAIM.id: {**good["claims"][CLAIM.id], **changes}}})

    return {
        "cut in half": text[: len(text) // 2],
        "empty": "",
        "not JSON": "verdict: holds",
        "binary": b"\x89PNG\r\n\x1a\n\xff\xfe",
        "a list": "[1, 2]",
        "a number": "3",
        "null": "null",
        "no schema": json.dumps({"claims": {}}),
        "a later schema": json.dumps({**good, "schema": SCHEMA + 1}),
        "no schema's number": json.dumps({**good, "schema": 0}),
        "a schema in words": json.dumps({**good, "schema": "1"}),
        "an earlier schema, claims a list": json.dumps({"schema": 1, "claims": [1]}),
        "no claims": json.dumps({"schema": SCHEMA}),
        "claims a list": json.dumps({"schema": SCHEMA, "claims": [1]}),
        "a record of text": json.dumps({"schema": SCHEMA, "claims": {CLAIM.id: "holds"}}),
        "a record without levels": json.dumps({"schema": SCHEMA, "claims": {CLAIM.id: {"verdict": "holds"}}}),
        "levels a number": changed(levels=5),
        "a level of text": changed(levels={"derived": "pass"}),
        "a level without status": changed(levels={"derived": {"judgement": "agrees"}, "computed": PASS}),
        "a derivation without judgement": changed(levels={"derived": {"status": "pass"}, "computed": PASS}),
        "a failure without detail": changed(levels={"derived": {"status": "fail"}}),
        "mutants a list": changed(mutants=[1]),
        "survivors without names": changed(mutants={"survived": 1}),
    }


def read_everything(path):
    return [(r.verdict(), r.contradictions(), r.to_json()) for r in Ledger.load(path).records.values()]


@pytest.mark.parametrize("damage", broken_files())
def test_a_damaged_ledger_is_refused_by_name_and_left_alone(tmp_path, damage):
    """A record in which anything is missing is refused when read, not by a crash when used."""
    path = tmp_path / "my-ledger.json"
    content = broken_files()[damage]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"my-ledger\.json: .*move or delete"):
        read_everything(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_write_keeps_the_old_file_and_leaves_no_part(tmp_path, monkeypatch, error):
    path = tmp_path / "ledger.json"
    files.write(path, "old")

    def fail(*_):
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(error)):
        files.write(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.json"]


# --- staleness -------------------------------------------------------------------------------------------------------


def test_only_evidence_of_the_same_sources_seed_and_depth_is_reused(monkeypatch):
    ledger = Ledger("unused.json")
    assert ledger.fresh(CLAIM, 1, False) is None
    ledger.records[CLAIM.id] = full = record()
    assert ledger.fresh(CLAIM, 1, False) is full
    assert ledger.fresh(CLAIM, 1, True) is full
    assert ledger.fresh(CLAIM, 2, False) is None
    ledger.records[CLAIM.id] = quick = record(quick=True, simulated=None, integrated=None)
    assert ledger.fresh(CLAIM, 1, True) is quick
    assert ledger.fresh(CLAIM, 1, False) is None
    monkeypatch.setattr(evidence, "source_hash", lambda claim, lemmas: "another")
    assert ledger.fresh(CLAIM, 1, True) is None


def test_evidence_of_other_sources_that_say_the_same_is_of_these_from_then_on(tmp_path):
    path, tree = tmp_path / "ledger.json", reach.sources().tree
    ledger = Ledger(path)
    for made, source in ((record(), source_hash(CLAIM)), (record(find("mrmtl:eq2")), "of other code")):
        made.source, made.tree = source, "another"
        ledger.put(made)
    meanwhile = record(find("mrmtl:eq12"))
    Ledger.load(path).put(meanwhile)
    found = ledger.fresh(CLAIM, 1, False)
    assert found is not None
    assert ledger.fresh(find("mrmtl:eq2"), 1, False) is None
    ledger.confirm([found])
    there = Ledger.load(path).records
    assert {k: r.tree for k, r in there.items()} == {"mrmtl:eq5": tree, "mrmtl:eq2": "another", "mrmtl:eq12": meanwhile.tree}
    before = path.stat().st_ino
    ledger.confirm([found])
    assert path.stat().st_ino == before
