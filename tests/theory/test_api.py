"""`evaluate` and `verify` as a user calls them: values, infinities, variants, errors, strict JSON."""

import json
import math

import pytest

from theory import claims, evaluate, find, verify
from theory.api import Report, longest_first, number, quick_record, select
from theory.engine.domain import DomainError
from theory.engine.evidence import Ledger, LedgerError, Record
from theory.engine.registry import UnknownClaim


@pytest.fixture(autouse=True)
def no_ledger_from_before(tmp_path_factory, monkeypatch):
    """`evaluate` reads build/ledger.json of the working folder; what was verified there must not matter here."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


THM8 = {"alpha2": 1, "tau2": 1, "N_np": 2, "N_p": 3, "gamma2": 1}


def strict(data):
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(json.dumps(data), parse_constant=refuse)


# Values worked out by hand from the model, none from the formulas under test.
@pytest.mark.parametrize(
    ("claim_id", "point", "derived"),
    [
        # Two observations of variance 1 and 3: weights 3/4 and 1/4, variance 3/4.
        ("fedhdp:lemma1", {"sigma2s": [1, 3]}, [0.75, 0.75, 0.25]),
        # A private message has variance 1 + 1 + 90 * 0.1 = 11 around the centre, another 2.
        ("fedhdp:lemma6:rstar", {"alpha2": 1, "tau2": 1, "N_np": 10, "N_p": 90, "gamma2": 0.1}, 2 / 11),
        ("fedhdp:lemma2:cov", {"N1": 1, "N2": 1, "sigma2_c": 1, "gamma2_1": 0, "gamma2_2": 2}, 0.75),
        ("mrmtl:eq5", {"n": 2, "sigma2": 1, "sigma2_dp": 2}, 1),
        ("mrmtl:thm6.3", {"sigma2": 1, "n": 10, "sigma2_dp": 0, "tau2": 0.1}, 1),
        ("feo2:theta-np", {"N_np": 4, "sigma2_c": "1/3"}, 1 / 12),
        ("fedhdp:eq61", {"sizes": [2], "gamma2s": [0], "sigma2_c": 3}, 1.5),
    ],
)
def test_values(claim_id, point, derived):
    result = evaluate(claim_id, **point)
    assert result["derived"] == pytest.approx(derived, rel=1e-15)
    assert result["printed"] == result["derived"]
    assert (result["claim"], result["verdict"]) == (claim_id, "holds")
    assert list(result)[:6] == ["claim", "at", "printed", "derived", "unit", "verdict"]
    assert list(result["at"]) == [v.name for v in find(claim_id).variables]
    assert strict(result) == result


@pytest.mark.parametrize(
    ("claim_id", "point", "derived"),
    [
        # Homogeneous clients without privacy: what a client gains by its own data is nothing.
        ("fedhdp:table4:a", {"N": 3, "alpha2": 1}, "inf"),
        ("mrmtl:thm6.3", {"K": 3, "n": 2, "sigma2": 1, "sigma2_dp": 0, "tau2": 0}, "inf"),
        ("mrmtl:thm6.3", {"K": 3, "n": 2, "sigma2": 1, "sigma2_dp": 0, "tau2": math.inf}, 0),
        ("fedhdp:lemma6:rstar", {"sigma2_c": 1, "N_np": 1, "N_p": 2, "gamma2": "inf"}, 0),
        # Everyone reports the average of the 3 local estimates: tau2 (1 - 1/3) + sigma2_loc/3.
        ("mrmtl:lem6.7", {"lam": math.inf, "K": 3, "sigma2_loc": 1, "tau2": 1}, 1),
    ],
)
def test_infinities_in_and_out(claim_id, point, derived):
    result = evaluate(claim_id, **point)
    assert result["derived"] == derived
    assert strict(result) == result


@pytest.mark.parametrize(
    ("claim_id", "point"),
    [
        ("mrmtl:lem6.7", {"lam": math.inf, "K": 3, "sigma2_loc": 1, "tau2": 1}),
        ("fedhdp:eq61", {"sizes": [1, 2], "gamma2s": ["inf", 1], "sigma2_c": 1}),
    ],
)
def test_a_printed_formula_is_taken_to_its_limit_as_the_derived_one_is(claim_id, point):
    result = evaluate(claim_id, **point)
    assert result["printed"] == result["derived"]


def test_infinite_noise_is_the_limit_of_much_noise():
    point = {"sizes": [1, 2], "sigma2_c": 1}
    far = evaluate("fedhdp:eq61", gamma2s=["1e30", 1], **point)["derived"]
    assert evaluate("fedhdp:eq61", gamma2s=["inf", 1], **point)["derived"] == pytest.approx(far, rel=1e-15)


def test_numbers_fractions_and_text_mean_the_same():
    assert evaluate("feo2:theta-np", N_np="4", sigma2_c="0.1") == evaluate("feo2:theta-np", N_np=4, sigma2_c=0.1)


def test_a_claim_without_printed_formula():
    result = evaluate("mrmtl:thmE.5:bayes", sigma2_loc_k=[1, 2], tau2=1, k=0)
    assert result["printed"] is None
    assert strict(result) == result


def test_a_refuted_claim_shows_both_values():
    claim = find("mrmtl:eq39")
    at = quick_record(claim.id).levels["derived"]["counterexample"]["at"]
    result = evaluate(claim.id, **at)
    assert result["verdict"] == "misprint"
    assert result["printed"] != result["derived"]


def test_variants_and_conditions():
    inside, outside = evaluate("fedhdp:thm8:p", **THM8), evaluate("fedhdp:thm8:p", **THM8, own_noise=1)
    assert inside["verdict"] == outside["verdict"] == "holds under"
    assert inside["condition"] == outside["condition"] == find("fedhdp:thm8:p").condition_text
    assert (inside["condition_holds"], outside["condition_holds"]) == (True, False)
    assert inside["printed"] == inside["derived"]
    assert outside["printed"] != outside["derived"]
    # Either point lists both variants of the model, and is one of them.
    assert inside["variants"] == outside["variants"]
    assert [v["derived"] for v in inside["variants"]] == [inside["derived"], outside["derived"]]
    assert evaluate("fedhdp:thm8:p", **{**THM8, "gamma2": 0}, own_noise=1)["condition_holds"]


def test_a_bound_says_its_direction_and_entries_have_names():
    bound = evaluate("fedhdp:lambda-order", **THM8)
    assert bound["relation"] == "derived <= printed"
    assert bound["derived"] <= bound["printed"]
    weights = evaluate("fedhdp:lemma2:weights", N1=1, N2=1, sigma2_c=1, gamma2_1=0, gamma2_2=2)
    assert weights["derived"] == [0.75, 0.25]
    assert len(weights["entries"]) == 2


@pytest.mark.parametrize(("claim_id", "point"), [("mrmtl:eq5", {"n": 2, "sigma2": 1, "sigma2_dp": 2})])
def test_simulation_agrees_with_the_derivation(claim_id, point):
    result = evaluate(claim_id, simulate=True, **point)
    simulated = result["simulated"]
    # Fixed seed; for a random one the chance of a false alarm were 1e-6 (4.9 standard errors, two-sided).
    assert abs(simulated["value"] - result["derived"]) < 4.9 * simulated["standard_error"]
    assert simulated["replicates"] >= 1_000_000
    assert strict(result) == result
    assert evaluate(claim_id, simulate=True, **point) == result


def test_a_claim_that_is_not_simulated_says_why():
    result = evaluate("mrmtl:lem6.1", simulate=True, lam=1, K=2)
    assert result["simulated"]["value"] is None
    assert result["simulated"]["why"]


@pytest.mark.parametrize(
    ("point", "named"),
    [
        ({"n": 0, "sigma2": 1, "sigma2_dp": 0}, "n"),
        ({"n": 1, "sigma2": -1, "sigma2_dp": 0}, "sigma2"),
        ({"n": 1, "sigma2": 1, "sigma2_dp": math.nan}, "sigma2_dp"),
        ({"n": 1, "sigma2": 1}, "sigma2_dp"),
        ({"n": 1, "sigma2": 1, "sigma2_dp": 0, "x": 1}, "x"),
        ({"n": [1], "sigma2": 1, "sigma2_dp": 0}, "n"),
    ],
)
def test_bad_points_name_the_variable(point, named):
    with pytest.raises(DomainError, match=rf"\b{named}\b"):
        evaluate("mrmtl:eq5", **point)


def test_an_unknown_claim_is_told_from_a_bad_point():
    with pytest.raises(UnknownClaim, match="did you mean"):
        evaluate("mrmtl:thm63")
    with pytest.raises(UnknownClaim):
        verify(["mrmtl:eq5", "mrmtl:thm63"], ledger=None)


@pytest.mark.parametrize("claim", [c for c in claims() if c.paper in ("feo2", "mrmtl")][:20], ids=lambda c: c.id)
def test_the_first_example_of_a_claim_is_strict_json(claim):
    value = number(claim.derived_at(claim.point(claim.examples[0])))
    assert strict(value) == value


# --- verify ----------------------------------------------------------------------------------------------------------


def test_verify_keeps_reuses_and_renews_evidence(tmp_path):
    path, ids, seen = tmp_path / "ledger.json", ["feo2:theta-np", "feo2:theta-p"], []

    def run(**options):
        seen.clear()
        return verify(ids, ledger=path, progress=lambda r, reused: seen.append((r.claim, reused)), **options)

    first = run(quick=True)
    assert first.ok
    assert first.counts() == {"holds": 2}
    assert seen == [(i, False) for i in ids]
    assert run(quick=True).reused == 2
    assert seen == [(i, True) for i in ids]
    assert run(quick=True, fresh=True).reused == 0
    assert run(quick=True, root=5).reused == 0
    full = run()
    assert full.reused == 0  # quick evidence is no full evidence
    assert all("simulated" in r.levels for r in full.records)
    assert run(quick=True).reused == 2  # but the other way round
    assert list(Ledger.load(path).records) == ids


def test_verify_of_one_id_and_without_a_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert verify("feo2:theta-np", quick=True, ledger=None).ledger is None
    assert list(tmp_path.iterdir()) == []


def test_verify_does_not_touch_a_damaged_ledger(tmp_path):
    path = tmp_path / "ledger.json"
    path.write_text('{"schema": 1, "cla')
    with pytest.raises(LedgerError, match=r"ledger\.json"):
        verify("feo2:theta-np", quick=True, ledger=path)
    assert path.read_text() == '{"schema": 1, "cla'


def test_an_id_given_twice_is_judged_once():
    report = verify(["feo2:theta-np", "feo2:theta-np"], quick=True, ledger=None)
    assert [r.claim for r in report.records] == ["feo2:theta-np"]


def test_no_workers_is_refused():
    with pytest.raises(ValueError, match="jobs: must be at least 1"):
        verify("feo2:theta-np", quick=True, ledger=None, jobs=0)


def test_select():
    assert [c.id for c in select(["mrmtl:eq5"])] == ["mrmtl:eq5"]
    assert {c.paper for c in select(paper="feo2")} == {"feo2"}
    assert len(select()) == len(claims())


def test_a_report_without_verdict_is_not_ok():
    report = Report((Record("mrmtl:eq5", "x", 1, True),), 0, None)
    assert not report.ok
    assert report.counts() == {"open": 1}
    assert "mrmtl:eq5" in report.problems()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("fixed", "fixed"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "undefined"),
        ((1, None), [1, None]),
    ],
    ids=str,
)
def test_numbers_for_json(value, expected):
    assert number(value) == expected


def test_the_order_in_which_workers_get_claims_changes_no_evidence(tmp_path):
    ids = ["feo2:gamma-prop", "feo2:theta-p", "fedhdp:lemma6:rstar"]
    seconds = dict(zip(ids, (1.0, 3.0, 2.0), strict=True))
    assert longest_first(ids, seconds) == [ids[1], ids[2], ids[0]]
    assert longest_first(ids, {ids[1]: 3.0}) == [ids[0], ids[2], ids[1]]  # new ones first, in their order
    found = []
    for name, took in (("a", seconds), ("b", {k: -v for k, v in seconds.items()})):
        store = Ledger(tmp_path / name)
        for claim_id in ids:
            store.records[claim_id] = Record(claim_id, "stale", 0, True, seconds=took[claim_id])
        store.save()
        report = verify(ids, quick=True, jobs=2, ledger=store.path)
        assert report.reused == 0
        found.append([{**r.to_json(), "seconds": 0} for r in report.records])
    assert found[0] == found[1]


def test_workers_find_what_this_process_finds():
    """They keep more of SymPy's answers and look for dead objects more seldom, which no evidence may show."""
    ids = ("mrmtl:thm6.3", "fedhdp:eq9")
    alone, workers = (
        [{**r.to_json(), "seconds": 0} for r in verify(ids, quick=True, jobs=j, ledger=None).records] for j in (1, 2)
    )
    assert alone == workers
