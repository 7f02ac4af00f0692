"""The attack suite: claims that cheat, or slip, are refused by `borrow verify`, each for its own reason.

The frauds are a claim pack (packs/frauds), as anybody could install one; it is judged by the command line in a process of
its own.  What no machine here can refuse is named in `BEYOND`, with what readers are told instead; those verdicts are
asserted too, so that nobody believes otherwise.
"""

import json
import os
import re

import pytest

from estimators.system import files

HONEST = ["frauds:honest:weight", "frauds:honest:risk", "frauds:honest:bound", "frauds:evidence:flat"]
REFUSED = {
    # judges that share what they judge
    "frauds:judges:typed-once": "share|types its conclusion",
    "frauds:judges:oracle-is-printed": "printed and oracle share",
    "frauds:judges:typed-twice": "one formula typed twice",
    "frauds:judges:typed-conclusion": "types its conclusion",
    "frauds:judges:overwritten-conclusion": "types its conclusion",
    "frauds:judges:oracle-through-the-derivation": "derive and oracle share",
    "frauds:judges:oracle-is-the-derivations-risk": "derive and oracle share",
    "frauds:judges:oracle-is-computed": "oracle and computed share",
    "frauds:judges:printed-from-the-model": "printed and derive share",
    "frauds:judges:computed-at-home": "nothing of estimators",
    "frauds:judges:oracle-reads-the-claim": "reads claims",
    "frauds:judges:simulation-without-noise": "simulated",
    "frauds:judges:objective-replaced": "objective",
    "frauds:judges:bound-of-itself": "types its conclusion",
    "frauds:judges:a-judge-that-tosses-coins": "draws",
    "frauds:judges:simulation-that-computes": "share|simulated",
    # formulas
    "frauds:formulas:wrong": "no corrected one|fails",
    "frauds:formulas:nearly": "derived",
    "frauds:formulas:decimal": "derived",
    "frauds:formulas:wrong-model": "computed",
    "frauds:formulas:wrong-model-everywhere": "simulated",
    "frauds:formulas:float-off-by-1e-9": "computed",
    "frauds:formulas:float-loses-digits": "computed",
    "frauds:formulas:oracle-nan": "no point|no value",
    "frauds:formulas:oracle-raises": "computed is unknown",
    "frauds:formulas:two-values-for-one": "derived is unknown",
    "frauds:formulas:other-letters": "derived",
    "frauds:formulas:loosened-bound": "times what it bounds",
    "frauds:formulas:slightly-loosened-bound": "times what it bounds",
    "frauds:formulas:bound-that-fails": "derived",
    "frauds:formulas:false-slack": "times what it bounds",
    "frauds:formulas:bound-without-slack": "tight",
    "frauds:formulas:wrong-correction": "not the derived one",
    "frauds:formulas:no-correction": "no corrected one",
    "frauds:formulas:correction-is-the-derivation": "corrected and derive share",
    "frauds:formulas:weight-of-the-other": "derived",
    "frauds:formulas:takes-itself": "itself",
    "frauds:formulas:transcribed-away": "differs",
    # domains
    "frauds:domains:condition-outside": "holds nowhere",
    "frauds:domains:condition-nowhere": "holds nowhere|fails",
    "frauds:domains:condition-everywhere": "no exact counterexample|fails",
    "frauds:domains:condition-too-wide": "fails even when|attacked|certificate",
    "frauds:domains:condition-contradicts-itself": "no point of the domain",
    "frauds:domains:condition-of-another-claim": "fails even when",
    "frauds:domains:counterexample-outside": "must be > 0",
    "frauds:domains:half-a-certificate": "leaves out",
    "frauds:domains:one-point": "derived",
    # in disguise
    "frauds:disguises:a-table-of-formulas": "printed and derive share",
    "frauds:disguises:a-formula-in-the-module": "printed and derive share",
    "frauds:disguises:a-cache": "printed and oracle share",
    "frauds:disguises:a-string": "evaluates text",
    "frauds:disguises:a-string-that-sympy-reads": "printed and oracle share",
    "frauds:disguises:nothing-added": "one formula typed twice",
    "frauds:disguises:circle-one": "takes the result of frauds:disguises:circle-one itself",
    "frauds:disguises:circle-two": "takes the result of frauds:disguises:circle-two itself",
    "frauds:disguises:two-faced": "attacked",
    "frauds:disguises:an-oracle-that-looks-away": "oracle nan",
    "frauds:disguises:holds-where-it-holds": "fails even when",
    "frauds:disguises:a-blind-reading": "simulated",
    "frauds:disguises:an-edit-called-neutral": "changes the value, which it denies",
    # what is left out
    "frauds:evidence:random-called-deterministic": "random variables",
    "frauds:evidence:called-rare": "the probability is",
    "frauds:evidence:called-a-divergence": "divergence",
    "frauds:evidence:called-enumerated": "enumerates nothing",
    "frauds:evidence:stands-in-for-nothing": "has no simulate",
    "frauds:evidence:called-elsewhere": "estimators has no",
    "frauds:evidence:called-constant": "depends on",
    "frauds:evidence:called-refuted": "not refuted",
    "frauds:evidence:read-otherwise": "changes the value",
    "frauds:evidence:laxer-than-its-lemma": "on which it rests",
    "frauds:evidence:shares-nothing": "no two judges share",
}
MALFORMED = {
    "frauds:shape:condition-in-silence": "condition_text",
    "frauds:shape:no-simulation-no-reason": "not_simulated",
    "frauds:shape:no-float-no-reason": "not_computed",
    "frauds:shape:simulation-asks-for-the-value": "expected",
    "frauds:honest:risk": "twice",
    "frauds:shape:identity-as-bound": "relation",
    "frauds:shape:edit-of-nothing": "latex does not hold",
    "frauds:shape:unknown-assumption": "no switch",
    "frauds:shape:no-place": "source",
    "frauds:shape:unknown-relation": "relation",
    "frauds:shape:corrected-in-silence": "no finding",
}
BEYOND = {
    "frauds:judges:simulation-of-the-formula": "a simulation of another model with the claimed value: readers see its code",
    "frauds:disguises:a-domain-of-one-line": "a domain of one point, where a wrong formula is right: readers see the domain",
    "frauds:formulas:wrong-model-and-simulation": "all judges have the same wrong model: readers see the derivation",
}


@pytest.fixture(scope="module")
def verified(tmp_path_factory, install_pack, run_borrow):
    """What `borrow verify --paper frauds` says, asked once by all workers."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "frauds"
    with files.locked(folder, seconds=600):
        said = folder / "said.json"
        if not said.exists():
            site = install_pack(folder / "site", "frauds", "frauds")
            files.write(said, json.dumps(run_borrow(site, folder, "verify", "--paper", "frauds", "--json")))
        status, out, err = json.loads(said.read_text())
    return status, json.loads(out), err


def test_honest_claims_hold_beside_the_frauds(verified):
    _, data, _ = verified
    assert {i: data["claims"][i]["verdict"] for i in HONEST} == dict.fromkeys(HONEST, "holds"), [
        data["problems"].get(i) for i in HONEST
    ]


@pytest.mark.parametrize("claim_id", REFUSED)
def test_a_fraud_is_refused(verified, claim_id):
    status, data, _ = verified
    assert status == 1
    said = " | ".join(data["problems"][claim_id])
    assert re.search(REFUSED[claim_id], said), said
    assert data["claims"][claim_id]["verdict"] == "open"


@pytest.mark.parametrize("claim_id", MALFORMED)
def test_a_broken_rule_is_named(verified, claim_id):
    _, data, _ = verified
    found = [p for p in data["malformed"] if p["claim"] == claim_id]
    assert any(MALFORMED[claim_id] in p["what"] + p["mend"] for p in found), data["malformed"]


@pytest.mark.parametrize("claim_id", BEYOND)
def test_what_cannot_be_refused_is_known(verified, claim_id):
    _, data, _ = verified
    assert data["claims"][claim_id]["verdict"] == "holds", data["problems"].get(claim_id)


def test_every_fraud_is_listed(verified):
    _, data, _ = verified
    assert set(data["claims"]) == {*HONEST, *REFUSED, *BEYOND}
    assert len(REFUSED) + len(MALFORMED) >= 40


def test_a_forged_ledger_changes_nothing(tmp_path, install_pack, run_borrow):
    """A verdict that is typed into the ledger is not read; evidence of other sources is stale."""
    site = install_pack(tmp_path / "site", "frauds", "frauds")
    wrong = "frauds:formulas:wrong"
    run_borrow(site, tmp_path, "verify", wrong, "--quick")
    file = tmp_path / "build" / "ledger.json"
    text = file.read_text()
    file.write_text(text.replace('"verdict": "open"', '"verdict": "holds"'))
    assert wrong in run_borrow(site, tmp_path, "verify", wrong, "--quick")[1]
    assert "NOT VERIFIED" in run_borrow(site, tmp_path, "verify", wrong, "--quick")[1]
    data = json.loads(text)
    for level in data["claims"][wrong]["levels"].values():
        level.update(status="pass", judgement="agrees")
    data["claims"][wrong]["source"] = data["claims"][wrong]["tree"] = "0" * 16
    file.write_text(json.dumps(data))
    assert "NOT VERIFIED" in run_borrow(site, tmp_path, "verify", wrong, "--quick")[1]
