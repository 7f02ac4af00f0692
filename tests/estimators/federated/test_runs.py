"""Runs and their files by hand: checkpoints, clocks, sweeps, lines that are done again, fingerprints of data."""

import errno
import itertools
import json
import math
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from estimators.accounting.budget import Guarantee
from estimators.federated.backend import Diverged
from estimators.federated.data import Federation, synthetic_federation
from estimators.federated.experiments import building, checkpoints, provenance, replay, runs
from estimators.federated.experiments import sweep as sweeps
from estimators.federated.experiments.experiment import read
from estimators.federated.own_rows import OwnRows
from estimators.system.files import Held, locked

FILE = """
title = "Small"
paper = "none"
place = "a test"
rounds = 6
every = 4
seeds = [0, 1]
[data]
loader = "synthetic_federation"
options = { clients = 5, rows = 12 }
[groups]
few = ["opt_out", { share = 0.4 }]
others = "rest"
[model]
kind = "logistic_regression"
[work]
rule = "poisson"
n_steps = 1
batch_size = 4
[[methods]]
name = "own"
algorithm = "Local"
settings = { learning_rate = 0.3, privacy = { kind = "RowPrivacy", eps = 3.0, delta = 1e-3, clip = 1.0 } }
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "small.toml").write_text(FILE)
    yield read(tmp_path / "small.toml").runs()[0]
    building.forget()


# --- checkpoints -----------------------------------------------------------------------------------------------------------


def loaded(folder):
    found = checkpoints.load(folder)
    assert found is not None
    return found


def test_a_checkpoint_has_every_array_and_the_one_before_stays_while_both_are_small(tmp_path, monkeypatch):
    rows = OwnRows(np.arange(3.0), 7)
    rows[[5, 2]] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    state = {
        "shared": np.arange(6, dtype=np.float32).reshape(2, 3).T, "none": np.empty((0, 3), np.int16),
        "number": 2.5, "chosen": np.array([True, False]), "personal": rows,
    }  # fmt: skip
    assert checkpoints.rest(state) == (6 * 4 + 8 + 2 + rows.nbytes) / 2e6
    checkpoints.save(tmp_path, state, {"finished": 1, "said": ["é", None]})
    found, record, message = loaded(tmp_path)
    assert (record, message, found.keys()) == ({"finished": 1, "said": ["é", None]}, "", state.keys())
    for name in ("shared", "none", "number", "chosen"):
        np.testing.assert_array_equal(found[name], state[name], strict=name != "number")
    assert type(found["number"]) is np.float64
    assert found["personal"].written.tolist() == [5, 2]
    np.testing.assert_array_equal(found["personal"][np.arange(7)], rows[np.arange(7)])
    newest, before = tmp_path / checkpoints.CHECKPOINT, tmp_path / checkpoints.PREVIOUS
    both = 2 * newest.stat().st_size
    for limit, kept in ((both, True), (both - 1, False), (both, True)):
        monkeypatch.setattr(checkpoints, "TWO", limit)
        old = newest.read_bytes()
        checkpoints.save(tmp_path, {**state, "number": 3.5}, {"finished": 1, "said": ["é", None]})
        assert before.exists() == kept
        if kept:
            assert before.read_bytes() == old
    newest.write_bytes(old[:-50])
    assert loaded(tmp_path)[2].endswith("is damaged or half written; going on from the checkpoint before it")
    newest.unlink()
    assert loaded(tmp_path)[2] == ""
    before.write_bytes(old[:-50])
    with pytest.raises(checkpoints.Damaged, match="no whole checkpoint is left"):
        loaded(tmp_path)
    checkpoints.remove(tmp_path)
    assert checkpoints.load(tmp_path) is None
    monkeypatch.setattr(checkpoints, "TWO", 0)
    checkpoints.save(tmp_path, state, {})
    assert (newest.exists(), before.exists()) == (True, False)


def test_a_checksum_is_of_names_types_shapes_and_numbers():
    one = {"a": np.arange(6.0).reshape(2, 3), "b": np.empty(0)}
    others = [
        {"b": one["b"], "c": one["a"]}, {**one, "a": one["a"].ravel()}, {**one, "a": one["a"].view(np.int64)},
        {**one, "a": one["a"] + 1e-15}, {"a": one["a"]}, {**one, "b": np.empty((0, 2))}, {"a": one["b"], "b": one["a"]},
    ]  # fmt: skip
    found = [checkpoints.digest(arrays) for arrays in (one, *others)]
    assert len(set(found)) == 8
    assert checkpoints.digest({"b": one["b"], "a": np.asfortranarray(one["a"])}) == found[0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES])
def test_a_full_disk_is_told_from_other_troubles(code, tmp_path):
    told = checkpoints.explained(error := OSError(code, "trouble"), tmp_path)
    assert told.errno == code
    assert (told is error) == (code == errno.EACCES)
    assert ("the disk is full" in str(told)) == (code != errno.EACCES)


# --- one run ---------------------------------------------------------------------------------------------------------------


def clocked(monkeypatch, pace=1.0):
    """A clock that goes some seconds a round, and the rounds after which something is stored."""
    clock, stored, told = SimpleNamespace(now=100.0), [], []

    def save(folder, state, record):
        stored.append((record["finished"], record["seconds"], [r["round"] for r in record["history"]]))
        return keep(folder, state, record)

    def progress(finished, rounds, record):
        told.append((finished, rounds, record and record["round"]))
        clock.now += pace

    keep = checkpoints.save
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(checkpoints, "save", save)
    return clock, stored, told, progress


@pytest.mark.parametrize(
    ("every", "pause", "after"),
    [(None, 2.0, [3, 5]), (None, 2.5, [4]), (None, 1.0, [2, 3, 4, 5]), (2, 100.0, [2, 4]), (3, 4.0, [3]),
     (1, 9.0, [1, 2, 3, 4, 5])],
)  # fmt: skip
def test_rounds_are_stored_as_often_as_is_said_and_never_after_the_last(run, tmp_path, monkeypatch, every, pause, after):
    _, stored, told, progress = clocked(monkeypatch)
    found = runs.execute(run, tmp_path, every_rounds=every, every_seconds=pause, progress=progress)
    assert [finished for finished, _, _ in stored] == after
    for finished, seconds, rounds in stored:
        assert seconds == finished - 1.0  # the clock goes on after what a round stores
        assert rounds == [t for t in (4,) if t <= finished]
    assert told == [(t, 6, t if t in (4, 6) else None) for t in range(1, 7)]
    assert found["seconds"] == 6.0
    assert [record["round"] for record in found["history"]] == [4, 6]
    assert found["final"] == {key: value for key, value in found["history"][-1].items() if key != "round"}
    assert sorted(path.name for path in (tmp_path / run.name).iterdir() if path.suffix != ".lock") == [
        "config.json", "history.jsonl", "result.json"
    ]  # fmt: skip
    lines = (tmp_path / run.name / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == found["history"]
    assert [entry["clients"] for entry in found["guarantees"]] == [2, 3]
    assert runs.execute(run, tmp_path, progress=progress) == found
    assert len(told) == 6  # what is finished is not done again
    assert runs.same_result(found, runs.execute(run, tmp_path, fresh=True, progress=progress))
    assert len(told) == 12


def test_rounds_are_stored_every_half_minute_unless_told_otherwise(run, tmp_path, monkeypatch):
    _, stored, _, progress = clocked(monkeypatch, pace=10.0)
    runs.execute(run, tmp_path, progress=progress)
    assert [finished for finished, _, _ in stored] == [4]


def test_a_large_state_is_stored_less_often(run, tmp_path, monkeypatch):
    _, stored, _, progress = clocked(monkeypatch)
    monkeypatch.setattr(checkpoints, "rest", lambda state: 3.0)
    runs.execute(run, tmp_path, every_seconds=1.0, progress=progress)
    assert [finished for finished, _, _ in stored] == [4]


def test_a_run_that_goes_on_counts_the_seconds_before_and_says_what_is_not_done(run, tmp_path, monkeypatch):
    clock, stored, _, progress = clocked(monkeypatch)

    def stop(finished, rounds, record):
        progress(finished, rounds, record)
        if finished == 4:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough") as error:
        runs.execute(run, tmp_path, progress=stop)
    assert error.value.__notes__ == ["round 5 of 6 is not done, those before it are kept"]
    assert stored == [(4, 4.0, [4])]
    clock.now = 1000.0
    found = runs.execute(run, tmp_path, progress=progress)
    assert found["seconds"] == 6.0
    assert runs.same_result(found, runs.execute(run, tmp_path / "whole"))
    assert not runs.same_result(found, {**found, "seed": 1})
    monkeypatch.setattr(type(building.build(run).algorithm), "round", lambda *_: 1 / 0)
    with pytest.raises(ValueError, match="ZeroDivisionError") as error:
        runs.execute(run, tmp_path / "broken")
    assert error.value.__notes__[-1] == "round 1 of 6 is not done"


def test_a_run_that_was_stopped_goes_on_from_what_is_whole_and_says_what_is_not(run, tmp_path):
    whole = runs.execute(run, tmp_path / "whole")

    def stop(finished, rounds, record):
        if finished == 3:
            raise KeyboardInterrupt

    for every, damaged, says in (
        (None, False, []),
        (1, False, []),
        (1, True, ["checkpoint.npz is damaged", "versions (numba"]),
    ):
        out, said = tmp_path / f"{every}{damaged}", []
        with pytest.raises(KeyboardInterrupt):
            runs.execute(run, out, every_rounds=every, progress=stop)
        folder = out / run.name
        assert (folder / checkpoints.CHECKPOINT).exists() == (every is not None)
        if damaged:
            (folder / checkpoints.CHECKPOINT).write_bytes(b"half")
            config = json.loads((folder / "config.json").read_text())
            config["versions"]["numba"] = "0.1"
            (folder / "config.json").write_text(json.dumps(config))
        begun = []
        found = runs.execute(run, out, progress=lambda finished, *_, begun=begun: begun.append(finished), say=said.append)
        assert begun[0] == (1 if every is None else 3 if damaged else 4)
        assert runs.same_result(found, whole)
        assert len(said) == len(says)
        for message, part in zip(said, says, strict=True):
            assert message.startswith(f"{run.name}: ")
            assert part in message
        with pytest.raises(Held), locked(folder):
            runs.execute(run, out)


def test_a_run_that_diverges_has_no_final_measures_and_says_where(run, tmp_path, monkeypatch):
    monkeypatch.setattr(type(building.build(run).algorithm), "round", lambda *_: (_ for _ in ()).throw(Diverged(3, 1)))
    found = runs.execute(run, tmp_path)
    assert "final" not in found
    assert found["failed"].startswith(str(Diverged(3, 1)))
    assert found["history"] == []


def test_errors_of_ones_own_code_say_where_and_those_of_the_system_are_left():
    def inner():
        json.dumps(object())

    for error, left in ((FileNotFoundError("x"), True), (PermissionError("x"), True), (MemoryError("x"), True),
                        (ValueError("x"), True), (Diverged(0, 0), True), (ConnectionResetError("x"), False),
                        (TimeoutError("x"), False), (TypeError("x"), False)):  # fmt: skip
        with pytest.raises(type(error) if left else ValueError) as found, runs.told():
            raise error
        assert (found.value is error) == left
        assert left or str(found.value).startswith(f"{type(error).__name__}: x (test_runs.py, line ")
    with pytest.raises(ValueError, match=r"^TypeError: .*\(test_runs\.py, line \d+, in inner\)$"), runs.told():
        inner()
    ours = "def f():\n  g()\ndef g():\n  1 / 0\ntry:\n  f()\nexcept Exception as error:\n  caught = error"
    exec(compile(ours, runs.__file__, "exec"), names := {})
    assert runs.place(names["caught"]) == "runs.py, line 4, in g"


def test_lines_of_json_say_infinity_and_nothing_where_there_is_no_number():
    value = {"a": math.inf, "b": (math.nan, -math.inf, 0.5, [3]), "c": "é"}
    assert runs.line(value) == '{"a": "inf", "b": [null, "-inf", 0.5, [3]], "c": "é"}\n'.encode()


def test_what_differs_is_named_with_what_was_there():
    stored = {"seed": 0, "work": {"rule": "fixed", "n_steps": 3}, "rounds": 2, "point": {}}
    assert runs.differing(stored, stored) == ""
    own = {"seed": 0, "work": {"rule": "fixed", "batch_size": 5}, "rounds": 4, "point": 7}
    assert runs.differing(stored, own) == (
        "work.batch_size: None there, 5 now; work.n_steps: 3 there, None now; rounds: 2 there, 4 now; point: {} there, 7 now"
    )


def test_promises_are_told_by_group_and_kind_with_their_ranges():
    def promise(eps, delta=1e-5, adjacency="row"):
        return Guarantee(eps, delta, adjacency, "client", "gaussian", renyi=None, claims=(), simulated=True)

    found = runs.summarised(
        [promise(2.0), None, promise(1.0), promise(3.0, adjacency="client"), promise(1.5, delta=1e-6)],
        {"some": np.array([0, 1, 2, 3]), "rest": np.array([4]), "silent": np.array([1])},
    )
    short = [(e["group"], e["clients"], e["of"], e["eps"], e["delta"], e["adjacency"]) for e in found]
    assert short == [("some", 2, 4, [1.0, 2.0], 1e-5, "row"), ("some", 1, 4, 3.0, 1e-5, "client"),
                     ("rest", 1, 1, 1.5, 1e-6, "row")]  # fmt: skip
    assert all(entry["simulated"] for entry in found)
    assert runs.summarised([None, None], {}) == []
    assert [(e["group"], e["clients"], e["of"]) for e in runs.summarised([promise(1.0), None], {})] == [("all", 1, 2)]


def test_a_folder_without_what_was_run_there_or_with_half_of_it_is_refused(run, tmp_path):
    found = runs.execute(run, tmp_path)
    folder = tmp_path / run.name
    whole = json.loads((folder / "config.json").read_text())
    assert runs.finished(run, tmp_path) == found
    for key in ("hash", "provenance", "versions"):
        (folder / "config.json").write_text(json.dumps({k: v for k, v in whole.items() if k != key}))
        with pytest.raises(ValueError, match=r"config\.json is damaged"):
            runs.finished(run, tmp_path)
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        runs.finished(run, tmp_path)
    (folder / "config.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=r"another configuration \(seed: 0 there, 1 now\)"):
        runs.configuration(replace(run, seed=1), folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        runs.finished(run, tmp_path)
    (folder / "result.json").rename(folder / checkpoints.CHECKPOINT)
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        runs.finished(run, tmp_path)
    runs.clear(folder)
    assert runs.finished(run, tmp_path) is None


# --- many runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_shards_together_have_every_run_once(n):
    runs_of_all = list(range(7))
    parts = [sweeps.shard(runs_of_all, f"{i}/{n}") for i in range(1, n + 1)]
    assert sorted(itertools.chain(*parts)) == runs_of_all
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for text in (f"0/{n}", f"{n + 1}/{n}", "1", f"1/{n}/1", f"-1/{n}", f"a/{n}", f"1/{'b'}"):
        with pytest.raises(ValueError, match="--shard must be I/N"):
            sweeps.shard(runs_of_all, text)


def test_runs_that_another_does_come_last_and_one_that_cannot_be_done_leaves_the_others(monkeypatch, tmp_path):
    asked = []

    def execute(run, directory, data_dir, *, say, **options):
        asked.append((run, options))
        if run == "held" and [r for r, _ in asked].count("held") == 1:
            raise Held("another does it")
        if run == "wrong":
            error = ValueError("cannot be")
            error.add_note("round 2 is not done")
            raise error
        say(f"about {run}")
        return {"run": run}

    monkeypatch.setattr(sweeps, "execute", execute)
    monkeypatch.setattr(sweeps.os, "cpu_count", lambda: 7)
    watched = []
    found = list(sweeps.sweep(["held", "a", "wrong", "b"], tmp_path, watch=lambda run: watched.append(run) or run))
    assert [outcome.run for outcome in found] == ["a", "wrong", "b", "held"]
    assert [outcome.result for outcome in found] == [{"run": "a"}, None, {"run": "b"}, {"run": "held"}]
    assert [outcome.error for outcome in found] == ["", "cannot be; round 2 is not done", "", ""]
    assert [outcome.messages for outcome in found] == [("about a",), (), ("about b",), ("about held",)]
    assert not any(outcome.held for outcome in found)
    assert watched == ["held", "a", "wrong", "b", "held"]
    assert all(options["progress"] == run for run, options in asked)
    for how, workers in (({}, 7), ({"processes": 3}, 2), ({"processes": 9}, 1), ({"workers": 5}, 5), ({}, 1)):
        asked.clear()
        if workers == 1 and not how:  # nobody knows how many there are
            monkeypatch.setattr(sweeps.os, "cpu_count", lambda: None)
        list(sweeps.sweep(["a"], tmp_path, **how))
        assert [options["workers"] for _, options in asked] == [workers]
        assert asked[0][1]["processes"] == how.get("processes", 1)
        assert (asked[0][1]["fresh"], asked[0][1]["progress"]) == (False, None)


@pytest.mark.parametrize(("backend", "module"), [("ray", "ray"), ("dask", "distributed"), ("loky", None)])
def test_a_way_to_do_several_jobs_is_made_ready_or_what_it_needs_is_named(monkeypatch, backend, module):
    def client():
        done.append("begun")
        yield
        done.append("ended")

    def imported(name):
        if name in missing:
            raise ImportError
        asked.append(name)
        return SimpleNamespace(name=name, register_ray=lambda: done.append("ready"), Client=contextmanager(client))

    asked, done, missing = [], [], []
    monkeypatch.setattr(sweeps, "import_module", imported)
    with sweeps.prepared(backend) as joblib:
        assert joblib.name == "joblib"
        assert done == {"ray": ["ready"], "dask": ["begun"], "loky": []}[backend]
    assert (
        asked
        == {"ray": ["joblib", "ray", "ray.util.joblib"], "dask": ["joblib", "distributed"], "loky": ["joblib"]}[backend]
    )
    assert done == {"ray": ["ready"], "dask": ["begun", "ended"], "loky": []}[backend]
    for missing, says in (["joblib"], "several jobs need joblib"), ([module], f"needs {module}: pip install {module}"):
        if missing != [None]:
            with pytest.raises(ValueError, match=says), sweeps.prepared(backend):
                pass


def test_several_jobs_do_every_run_once_with_their_part_of_the_cores(monkeypatch, tmp_path):
    pytest.importorskip("joblib")
    asked = []
    monkeypatch.setattr(sweeps, "execute", lambda run, *_, say, **options: asked.append(options) or {"run": run})
    monkeypatch.setattr(sweeps.os, "cpu_count", lambda: 7)
    found = list(sweeps.sweep(list("abcd"), tmp_path, jobs=2, backend="threading", fresh=True))
    assert sorted(outcome.run for outcome in found) == list("abcd")
    assert all(outcome.result == {"run": outcome.run} for outcome in found)
    assert asked == [{"workers": 3, "processes": 1, "fresh": True}] * 4


# --- lines that are done again ---------------------------------------------------------------------------------------------

LINE = {
    "experiment": "small", "method": "own", "hash": "h", "final": {"loss": 0.5, "accuracy": 0.75}, "data": "d",
    "code": "c", "versions": {"numpy": "2"}, "machine": "here",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "exact", "difference", "says"),
    [
        ({}, True, 0.0, ""),
        ({"code": "another"}, True, 0.0, ""),
        ({"final": {"loss": 0.5 * (1 + 4e-16), "accuracy": 0.75}}, True, 4e-16, "loss was"),
        ({"machine": "m", "final": {"loss": 0.5, "accuracy": 0.75 * (1 + 1.9e-6)}}, False, 1.9e-6, ""),
        ({"machine": "m", "final": {"loss": 0.5, "accuracy": 0.75 / (1 - 2.1e-6)}}, False, 2.1e-6, "accuracy was"),
        ({"versions": {"numpy": "1"}, "final": {"loss": 0.5 * (1 - 1e-6), "accuracy": 0.75}}, False, 1e-6, ""),
        ({"machine": "m", "final": {"loss": "inf", "accuracy": 0.75}}, False, math.inf, "loss was inf, now 0.5"),
        ({"method": "other"}, True, math.inf, "another experiment now"),
        ({"hash": "g"}, True, math.inf, "another experiment now"),
        ({"final": {"loss": 0.5}}, True, math.inf, "has other measures now"),
        ({"data": "e"}, True, 0.0, "trained on other data"),
        ({"data": "e", "machine": "m"}, False, 0.0, ""),
    ],
)
def test_a_line_comes_back_with_its_bits_or_elsewhere_with_six_digits(monkeypatch, kept, exact, difference, says):
    monkeypatch.setattr(replay, "short", lambda name: LINE)
    monkeypatch.setattr(provenance, "machine", lambda: "here")
    found = replay.replay("small", {**LINE, **kept})
    assert (found.name, found.exact) == ("small", exact)
    assert found.difference == pytest.approx(difference, rel=0.2)
    assert says in found.problem
    assert bool(found.problem) == bool(says)


def test_how_far_two_numbers_are_apart_is_relative_to_the_larger():
    rng = np.random.default_rng(0)
    for a, b in rng.normal(size=(50, 2)).tolist():
        assert replay.apart(a, b) == replay.apart(b, a) == abs(a - b) / max(abs(a), abs(b))
    assert replay.apart(0, 3.0) == replay.apart(-2, 0) == 1.0
    assert replay.apart("inf", "inf") == replay.apart(None, None) == 0.0
    assert replay.apart(None, 1.0) == replay.apart(1.0, "inf") == math.inf


def test_a_short_run_is_two_rounds_of_the_first_method_on_embedded_data(monkeypatch, tmp_path):
    asked = []

    def execute(run, folder):
        asked.append((run.seed, run.rounds, run.embedded, run.method))
        return {**LINE, "experiment": run.experiment, "seconds": 1.0}

    monkeypatch.setattr(replay, "execute", execute)
    demo = replay.short("demo")
    assert asked == [(0, 2, True, read("demo").methods[0].name)]
    assert demo == {**LINE, "experiment": "demo"}
    path = tmp_path / "lines.jsonl"
    path.write_text(replay.text_of({"demo": demo, "no experiment": LINE}), encoding="utf-8")
    assert replay.kept(path) == {"demo": demo}
    assert '"method": "größer"' in replay.text_of({"demo": {**demo, "method": "größer"}})
    with pytest.raises(ValueError, match="JSON"):
        replay.text_of({"demo": {**demo, "final": math.nan}})
    monkeypatch.setattr(replay, "execute", lambda run, folder: {"failed": "it diverged"})
    with pytest.raises(ValueError, match="demo: it diverged"):
        replay.short("demo")


# --- what is built and what it is known by ---------------------------------------------------------------------------------


def test_data_are_known_by_their_rows_and_by_whose_they_are():
    one = synthetic_federation(clients=3, rows=9, seed=0)
    assert provenance.data(one) == provenance.data(synthetic_federation(clients=3, rows=9, seed=0))
    assert len(provenance.data(one)) == 16
    moved = one.x.copy()
    moved[-1, -1] = np.nextafter(moved[-1, -1], 9.0)
    flipped = one.y.copy()
    flipped[0] = 1 - flipped[0]
    others = [replace(one, x=moved), replace(one, y=flipped), replace(one, train=[rows[::-1] for rows in one.train]),
              replace(one, test=one.test[::-1]), replace(one, server_test=one.test[0])]  # fmt: skip
    assert len({provenance.data(federation) for federation in (one, *others)}) == 6
    assert provenance.data(replace(one, name="another")) == provenance.data(one)


def test_settings_name_all_that_they_are_made_of():
    from estimators.federated import algorithms, privacy
    from estimators.federated.data import choices

    settings = {
        "algorithm": "MRMTL", "settings": {"privacy": {"kind": "RowPrivacy", "eps": {"choice": "eps_levels", "a": 1}}},
        "grid": [{"choice": "opt_out"}, ["opt_out", 3]], "kind": "logistic_regression",
    }  # fmt: skip
    found = list(provenance.named(settings))
    assert len(found) == 4
    assert set(found) == {algorithms.MRMTL, privacy.RowPrivacy, choices.eps_levels, choices.opt_out}


def test_versions_are_of_what_computes():
    assert list(provenance.versions("numpy")) == ["python", "numpy", "numba", "borrowed-strength"]
    assert set(provenance.versions("jax")) - {"jax"} == set(provenance.versions("numpy"))
    assert provenance.versions("numpy")["numpy"] == np.__version__


def test_machines_are_told_apart_by_what_their_processor_can_do(monkeypatch):
    def name(*lines):
        monkeypatch.setattr(provenance, "Path", lambda path: SimpleNamespace(read_text=lambda encoding: "\n".join(lines)))
        return provenance.machine.__wrapped__()

    one = name("model name : A", "flags : fma avx", "cpu MHz : 2000")
    assert len(bytes.fromhex(one)) == 4
    assert name("flags : fma avx", "cpu MHz : 2100", "model name : A", "model name : A") == one
    others = [name("model name : B", "flags : fma avx"), name("model name : A", "flags : fma"), name("model name : A"),
              name("Features : fma avx"), name()]  # fmt: skip
    assert len({one, *others}) == 6


def test_the_newest_result_is_kept_until_another_is_asked_for():
    made = []

    @building.newest
    def square(a, b=1):
        made.append(a)
        return a * a

    assert [square(a) for a in (2, 2, 3, 3, 2)] == [4, 4, 9, 9, 4]
    assert made == [2, 3, 2]
    building.forget()
    assert (square(2), made) == (4, [2, 3, 2, 2])


def test_a_task_is_what_its_run_says(run, monkeypatch):
    task, algorithm, rounds = building.build(run, workers=3)
    assert (rounds, task.n_clients, task.backend.workers, task.seed) == (6, 5, 3, 0)
    assert (algorithm.learning_rate, algorithm.privacy.eps, algorithm.privacy.delta) == (0.3, 3.0, 1e-3)
    assert (len(task.groups["few"]), len(task.groups["others"])) == (2, 3)
    assert sorted([*task.groups["few"], *task.groups["others"]]) == list(range(5))
    assert building.build(run, workers=3).task is task  # loaded once
    assert building.build(replace(run, seed=1), workers=3).task is not task
    other = building.build(replace(run, seed=1), workers=3).task
    assert (other.federation.x.shape, other.seed) == (task.federation.x.shape, 1)
    assert not np.array_equal(other.federation.x, task.federation.x)
    assert building.seeded({"loader": "synthetic_federation", "options": {}})
    assert not building.seeded({"loader": "mnist", "options": {}})
    needs = replace(run, setup=replace(run.setup, data=replace(run.setup.data, folder="mine")))
    with pytest.raises(ValueError, match="small needs your data: --data DIR, where DIR/mine holds the files"):
        building.build(needs)
    monkeypatch.setattr(building.os, "cpu_count", lambda: 5)
    building.forget()
    assert building.build(run).task.backend.workers == 5
    assert building.members({"all": "rest"}, task.federation, 0)["all"].tolist() == list(range(5))
    with pytest.raises(ValueError, match=r"groups.few: robusthdp_eps does not say yes or no"):
        building.members({"few": ["robusthdp_eps", {"name": "Dist1"}]}, synthetic_federation(clients=20, seed=0), 0)


def test_a_loader_of_files_is_told_where_they_lie_and_its_images_become_rows(run, tmp_path, monkeypatch):
    def loader(path, seed, clients, rows):
        asked.append((path, seed, clients, rows))
        x = np.arange(40, dtype=np.uint8).reshape(10, 2, 2)
        return Federation(x, np.arange(10) % 2, [range(5), range(5, 9)], [[], [9]], classes=2, top=255.0)

    asked = []
    monkeypatch.setattr(building.vocabulary, "loader", lambda where, name: loader)
    needs = replace(run, setup=replace(run.setup, data=replace(run.setup.data, folder="mine"), groups={}), seed=3)
    found = building.build(needs, tmp_path).task.federation
    assert asked == [(str(tmp_path / "mine"), 3, 5, 12)]
    np.testing.assert_allclose(found.x, np.arange(40).reshape(10, 4) / 255)


def test_settings_of_a_file_become_objects_tuples_and_arrays_of_clients():
    clients = synthetic_federation(clients=6, rows=9, seed=0)
    given = {"a": [1, [2, {"b": 3}]], "c": {"choice": "opt_out", "share": 0.5}, "d": {"kind": "RowPrivacy", "eps": 1.0,
             "delta": 1e-5, "clip": 2.0}}  # fmt: skip
    found = building.resolved(given, clients, 4)
    assert found["a"] == (1, (2, {"b": 3}))
    assert (found["c"].shape, found["c"].sum()) == ((6,), 3)
    assert (found["d"].eps, found["d"].clip) == (1.0, 2.0)
    assert building.filled(lambda seed, rows=3: None, {"rows": 5}, seed=1, clients=2) == {"seed": 1, "rows": 5}
    assert building.filled(lambda seed: None, {"seed": 5}, seed=1) == {"seed": 5}
