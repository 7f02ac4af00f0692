"""`borrow learn`: runs that stop and go on with the same bits, sweeps, bad input, tables."""

import argparse
import ast
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from estimators.federated.algorithms import Local
from estimators.federated.experiments import building, checkpoints, provenance, sweep
from estimators.federated.experiments.experiment import read
from estimators.federated.experiments.results import lines_of, rows, selected, slim
from estimators.federated.experiments.runs import execute, same_result
from figures.learn.command import add_learn
from figures.learn.plots import COLOURS, draw
from figures.learn.tables import comparison, experiment_text, grid, order_text, summary

SMALL = """
title = "Small"
paper = "none"
place = "a test"
rounds = 6
every = 2
seeds = [0, 1]
[data]
loader = "synthetic_federation"
options = { clients = 6, rows = 20 }
[groups]
few = ["opt_out", { share = 0.5 }]
others = "rest"
[model]
kind = "logistic_regression"
[work]
rule = "poisson"
n_steps = 2
batch_size = 4
[[methods]]
name = "FedAvg"
algorithm = "FedAvg"
settings = { learning_rate = 0.3, rate = 0.5 }
[[methods]]
name = "Local"
algorithm = "Local"
settings = { learning_rate = 0.3, privacy = { kind = "RowPrivacy", accountant = "rdp", delta = 1e-3, clip = 1.0 } }
grid = { "privacy.eps" = [8.0, inf] }
select = { measure = "clients.accuracy", best = "max" }
[[printed]]
method = "FedAvg"
measure = "clients.accuracy"
value = 0.5
error = 0.01
"""


@pytest.fixture(autouse=True)
def forget():
    yield
    building.forget()


@pytest.fixture
def small(tmp_path):
    """A function from replacements in the text to the experiment and the path of its file."""

    def make(*changes, name="small"):
        text = SMALL
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        return path

    return make


def main(*arguments):
    parser = argparse.ArgumentParser(prog="borrow")
    add_learn(parser.add_subparsers(required=True).add_parser("learn"))
    args = parser.parse_args(["learn", *map(str, arguments)])
    return args.run(args)


class Stop(Exception):
    pass


def stop_after(n):
    def progress(finished, rounds, record):
        if finished == n:
            raise Stop

    return progress


def stopped(run, out, n):
    """Leave a run behind that was stopped after n rounds, with a checkpoint after each."""
    with pytest.raises(Stop):
        execute(run, out, every_rounds=1, progress=stop_after(n))
    return out / run.name


def test_a_stopped_run_goes_on_with_the_same_bits(small, tmp_path):
    for run in read(small()).runs(seeds=[3]):
        whole = execute(run, tmp_path / "whole")
        folder = stopped(run, tmp_path / "parts", 3)
        seen = []
        resumed = execute(run, tmp_path / "parts", progress=lambda finished, *_, seen=seen: seen.append(finished))
        assert seen == [4, 5, 6]
        assert same_result(resumed, whole)
        assert (folder / "history.jsonl").read_bytes() == (tmp_path / "whole" / run.name / "history.jsonl").read_bytes()
        assert sorted(p.name for p in folder.iterdir()) == ["config.json", "history.jsonl", "result.json"]


def test_a_finished_run_is_not_done_again(small, tmp_path):
    run = read(small()).runs()[0]
    first = execute(run, tmp_path)
    again = execute(run, tmp_path, progress=stop_after(1))
    assert again == first
    anew = execute(run, tmp_path, fresh=True)
    assert same_result(anew, first)


def test_a_killed_process_loses_nothing(small, tmp_path):
    path, out = small(("rounds = 6", "rounds = 400")), tmp_path / "out"
    run = read(path).runs()[0]
    code = (
        "import sys; from estimators.federated.experiments.experiment import read; from "
        "estimators.federated.experiments.runs import execute\n"
        "execute(read(sys.argv[1]).runs()[0], sys.argv[2], every_rounds=1, workers=1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path), str(out)])
    newest, deadline = out / run.name / checkpoints.CHECKPOINT, time.monotonic() + 60
    while not newest.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / run.name / "result.json").exists()
    seen = []
    resumed = execute(run, out, progress=lambda finished, *_: seen.append(finished))
    assert 1 < seen[0] <= 400
    assert same_result(resumed, execute(run, tmp_path / "whole"))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:300] + b"\0\1\2" + b[303:]])
def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(small, tmp_path, damage):
    run = read(small()).runs()[0]
    folder = stopped(run, tmp_path, 4)
    newest = folder / checkpoints.CHECKPOINT
    newest.write_bytes(damage(newest.read_bytes()))
    said, seen = [], []
    result = execute(run, tmp_path, say=said.append, progress=lambda finished, *_: seen.append(finished))
    assert seen == [4, 5, 6]
    assert len(said) == 1
    assert "damaged" in said[0]
    assert "going on from the checkpoint before it" in said[0]
    assert same_result(result, execute(run, tmp_path / "whole"))


def test_a_changed_number_in_a_checkpoint_is_noticed(tmp_path):
    state = {"shared": np.arange(3.0), "count": np.int64(2)}
    checkpoints.save(tmp_path, state, {"finished": 1})
    found, record, message = checkpoints.load(tmp_path)
    assert (found["shared"].tolist(), found["count"], record, message) == ([0, 1, 2], 2, {"finished": 1}, "")
    path = tmp_path / checkpoints.CHECKPOINT
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, "shared": arrays["shared"] + 1})
    with pytest.raises(checkpoints.Damaged, match=r"checksum is wrong.*--fresh"):
        checkpoints.load(tmp_path)
    with pytest.raises(ValueError, match="state 'x' must be an array of numbers"):
        checkpoints.save(tmp_path, {"x": {"nested": 1}}, {})


def test_large_checkpoints_are_kept_once_and_written_less_often(tmp_path, monkeypatch):
    """318 MB twice every 30 s are 159 s apart, and one file."""
    assert checkpoints.rest({"personal": np.zeros((60, 1_325_000), np.float32)}) == pytest.approx(159)
    small, large = {"x": np.zeros(1000)}, {"x": np.zeros(100_000)}
    monkeypatch.setattr(checkpoints, "TWO", 1_000_000)
    for state, files in ((small, 2), (large, 1), (large, 1), (small, 2)):
        checkpoints.save(tmp_path, state, {})
        checkpoints.save(tmp_path, state, {})
        assert len(list(tmp_path.iterdir())) == files
        loaded = checkpoints.load(tmp_path)
        assert loaded is not None
        assert (loaded[0]["x"] == state["x"]).all()


def test_other_code_does_not_go_on_with_a_run(small, tmp_path):
    run = read(small()).runs()[0]
    folder = stopped(run, tmp_path, 3)
    config = json.loads((folder / "config.json").read_text())
    assert config["code"] == provenance.code(run)
    (folder / "config.json").write_text(json.dumps({**config, "code": "0123456789abcdef"}))
    with pytest.raises(ValueError, match=r"begun by other code, whose finished rounds are kept .*--fresh"):
        execute(run, tmp_path)
    assert (folder / "history.jsonl").read_text().count("\n") == 1
    (folder / "config.json").write_text(json.dumps(config))
    assert same_result(execute(run, tmp_path), execute(run, tmp_path / "whole"))


def test_lines_say_which_code_and_data_made_them(small, tmp_path):
    experiment = read(small())
    results = {run.name: execute(run, tmp_path) for run in experiment.runs(seeds=[0, 1])}
    codes = {name: result["code"] for name, result in results.items()}
    assert len(set(codes.values())) == 2  # of two algorithms, whatever seed and setting
    assert len({result["data"] for result in results.values()}) == 2  # of two seeds
    assert all(len(result[key]) == 16 for result in results.values() for key in ("code", "data"))


def test_code_is_what_a_run_reaches(small, monkeypatch):
    """An edit of what a run reaches changes its fingerprint, another does not."""
    run = read(small()).runs()[0]
    before = provenance.code(run)

    def after(home, name):
        provenance.fingerprint.cache_clear()
        sources = provenance.Sources({"estimators": Path(building.__file__).parents[2]}, provenance.sources().libraries)
        for statement in sources.statements((home, name)):
            statement.body.append(ast.parse("changed = 1").body[0])
        monkeypatch.setattr(provenance, "sources", lambda: sources)
        return provenance.code(run)

    federated = "estimators.federated"
    for home, name in (("algorithms.basic", "FedAvg"), ("algorithms.parts", "Parts"), ("task", "weighted_sum"),
                       ("schedule", "poisson_batches"), ("data.choices", "opt_out"), ("kernels", "row_norms")):  # fmt: skip
        if provenance.sources().statements((f"{federated}.{home}", name)):
            assert after(f"{federated}.{home}", name) != before, name
    for home, name in (("algorithms.fedem", "FedEM"), ("audit", "epsilon_bound"), ("data.loaders", "mnist")):
        assert after(f"{federated}.{home}", name) == before, name
    provenance.fingerprint.cache_clear()


def test_damaged_files_are_named(small, tmp_path):
    run = read(small()).runs()[0]
    folder = stopped(run, tmp_path, 4)
    for name in (checkpoints.CHECKPOINT, checkpoints.PREVIOUS):
        (folder / name).write_bytes(b"no")
    with pytest.raises(ValueError, match=r"no whole checkpoint is left: --fresh"):
        execute(run, tmp_path)
    config = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(config[:-20])
    with pytest.raises(ValueError, match=r"config.json is damaged; --fresh"):
        execute(run, tmp_path)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config.json is missing.*--fresh"):
        execute(run, tmp_path)
    execute(run, tmp_path, fresh=True)
    (folder / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"result.json is damaged; --fresh"):
        execute(run, tmp_path)


def test_another_configuration_is_refused(small, tmp_path):
    execute(read(small()).runs()[0], tmp_path)
    for change, says in [
        (("rate = 0.5", "rate = 0.25"), r"settings.rate: 0.5 there, 0.25 now"),
        (("n_steps = 2", "n_steps = 3"), r"work.n_steps: 2 there, 3 now"),
        (("rounds = 6", "rounds = 8"), r"rounds: 6 there, 8 now"),
    ]:
        with pytest.raises(ValueError, match=rf"{says}.*another --out, or --fresh"):
            execute(read(small(change)).runs()[0], tmp_path)


def test_other_data_are_refused(small, tmp_path):
    run = read(small()).runs()[0]
    config = stopped(run, tmp_path, 2) / "config.json"
    content = json.loads(config.read_text())
    content["provenance"]["generated"]["seed"] = 5
    config.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="begun with other data"):
        execute(run, tmp_path)


def test_a_full_disk_is_said_and_costs_nothing(small, tmp_path, monkeypatch):
    run = read(small()).runs()[0]
    folder = stopped(run, tmp_path, 3)
    kept = (folder / checkpoints.CHECKPOINT).read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"the disk is full: .* finished rounds are kept; free some space"):
            execute(run, tmp_path, every_rounds=1)
    assert (folder / checkpoints.CHECKPOINT).read_bytes() == kept
    assert not list(folder.glob(".*"))
    assert same_result(execute(run, tmp_path), execute(run, tmp_path / "whole"))


def test_a_diverging_run_is_recorded_and_the_others_go_on(small, tmp_path, capsys):
    path = small(('"logistic_regression"', '"linear_regression"'), ("rate = 0.5", "rate = 1.0"),
                 ("clients = 6, rows = 20", 'model = "linear", clients = 6, rows = 20'),
                 ("learning_rate = 0.3, rate", "learning_rate = 1e30, rate"),
                 ('measure = "clients.accuracy", best = "max"', 'measure = "clients.mse", best = "min"'),
                 ('measure = "clients.accuracy"', 'measure = "clients.mse"'))  # fmt: skip
    assert main(path, "--out", tmp_path, "--seed", 0) == 1
    said = capsys.readouterr()
    assert "FedAvg-seed0 failed: training of client" in said.err
    assert "in round" in said.err
    assert "1 of 1 failed" in said.out
    results = [json.loads(line) for line in (tmp_path / "small" / "results.jsonl").read_text().splitlines()]
    assert ["failed" in result for result in results] == [True, False, False]
    assert main(path, "--out", tmp_path, "--seed", 0) == 1


def test_an_impossible_run_leaves_the_others_alone(small, tmp_path, capsys):
    path = small(("[8.0, inf]", "[8.0, -1.0]"))
    assert main(path, "--out", tmp_path, "--seed", 0, "--no-plot") == 2
    said = capsys.readouterr()
    assert "Local+privacy.eps=-1-seed0 is not done: eps must be > 0" in said.err
    assert len((tmp_path / "small" / "results.jsonl").read_text().splitlines()) == 2


def bits(out):
    """Results of a folder, without what depends on the machine."""
    found = {}
    for path in sorted(out.rglob("result.json")):
        found[path.parent.name] = {k: v for k, v in json.loads(path.read_text()).items() if k != "seconds"}
    return found


def test_jobs_and_workers_change_nothing(small, tmp_path):
    runs = read(small()).runs()
    ways = {"one": {}, "two": {"workers": 2}, "threads": {"jobs": 2, "backend": "threading"}}
    for name, options in ways.items():
        assert all(outcome.error == "" for outcome in sweep.sweep(runs, tmp_path / name, **options))
    assert len(bits(tmp_path / "one")) == 6
    assert bits(tmp_path / "one") == bits(tmp_path / "two") == bits(tmp_path / "threads")


@pytest.mark.slow
def test_processes_change_nothing(small, tmp_path):
    pytest.importorskip("joblib")
    runs = read(small()).runs(seeds=[0], methods=["FedAvg", "Local"])[:2]
    for name, options in {"one": {}, "two": {"jobs": 2}}.items():
        assert all(outcome.error == "" for outcome in sweep.sweep(runs, tmp_path / name, **options))
    assert bits(tmp_path / "one") == bits(tmp_path / "two")


def test_shards_together_are_the_whole(small, tmp_path):
    path = small()
    assert main(path, "--out", tmp_path / "a", "--shard", "1/2", "--no-plot") == 0
    assert main(path, "--out", tmp_path / "a", "--shard", "2/2", "--no-plot") == 0
    assert len((tmp_path / "a" / "small" / "results.jsonl").read_text().splitlines()) == 6
    for text in ("0/2", "3/2", "x", "1"):
        with pytest.raises(ValueError, match="--shard must be I/N"):
            sweep.shard([], text)


@pytest.mark.parametrize(
    ("missing", "call", "says"),
    [
        ("joblib", ("--jobs", "2"), r"several jobs need joblib: pip install 'borrowed-strength\[learn\]'"),
        ("distributed", ("--jobs", "2", "--joblib-backend", "dask"), "pip install distributed"),
        ("pyarrow.parquet", ("--parquet",), r"pip install 'borrowed-strength\[parquet\]'"),
    ],
)
def test_a_missing_extra_is_named(small, tmp_path, monkeypatch, missing, call, says):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=says):
        main(small(), "--out", tmp_path, *call)


def test_missing_jax_and_digits_are_named(small, tmp_path, monkeypatch, capsys):
    from estimators.federated import jax_backend

    monkeypatch.setattr(jax_backend, "jax", None)
    assert main(small(), "--out", tmp_path / "jax", "--backend", "jax") == 2
    assert "pip install 'borrowed-strength[learn]'" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    path = small(
        ('"synthetic_federation"', '"digits"'),
        ("options = { clients = 6, rows = 20 }", 'steps = [["iid", { clients = 6 }]]'),
    )
    assert main(path, "--out", tmp_path / "digits") == 2
    assert "pip install 'borrowed-strength[learn]'" in capsys.readouterr().err


NEEDS_FILES = [
    ('"synthetic_federation"', '"mnist"\nfolder = "mnist"'),
    ("options = { clients = 6, rows = 20 }", 'steps = [["iid", { clients = 6 }]]'),
    ("[groups]", '[embedded]\nloader = "digits"\nsteps = [["iid", { clients = 6 }]]\nrounds = 2\n[groups]'),
]


def test_missing_and_damaged_data_are_named(small, tmp_path, capsys):
    path = small(*NEEDS_FILES)
    with pytest.raises(FileNotFoundError, match="mnist does not exist"):
        main(path, "--data", tmp_path, "--out", tmp_path / "out")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(b"no images")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(b"no labels")
    assert main(path, "--data", tmp_path, "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.count("is not done") == 1
    assert "FedAvg-seed0 (and 5 more) is not done" in said
    assert "train-images-idx3-ubyte" in said


def test_without_data_the_embedded_ones_are_run_and_it_says_so(small, tmp_path, capsys):
    pytest.importorskip("sklearn")
    assert main(small(*NEEDS_FILES), "--out", tmp_path, "--seed", 0, "--methods", "FedAvg") == 0
    said = capsys.readouterr()
    assert "no --data, so small runs on embedded data (digits): its numbers are not the paper's" in said.err
    assert "printed" not in said.out
    assert "not comparable with the paper's" in (tmp_path / "small-embedded" / "results.md").read_text()


def test_json_and_files(small, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    assert main(small(), "--out", tmp_path, "--json", "--parquet") == 0
    lines = json.loads(capsys.readouterr().out)
    assert lines == [json.loads(line) for line in (tmp_path / "small" / "results.jsonl").read_text().splitlines()]
    assert [(line["method"], line["point"], line["seed"]) for line in lines] == [
        *(("FedAvg", {}, seed) for seed in (0, 1)),
        *(("Local", {"privacy.eps": eps}, seed) for eps in (8.0, "inf") for seed in (0, 1)),
    ]
    names = {path.name for path in (tmp_path / "small").iterdir() if path.is_file()}
    assert names == {"results.jsonl", "results.md", "results.png", "results.parquet"}
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(tmp_path / "small" / "results.parquet").to_pylist()
    assert {row["round"] for row in table} == {2, 4, 6}
    entry = lines[2]["guarantees"][0]
    assert (entry["group"], entry["clients"], entry["of"], entry["adjacency"]) == ("few", 3, 3, "row add-remove")
    assert entry["eps"] == pytest.approx(8, rel=0.02)
    assert entry["simulated"] is True
    assert lines[4]["guarantees"] == []
    assert lines[0]["provenance"]["generated"]["seed"] == 0
    assert set(lines[0]["versions"]) >= {"python", "numpy", "numba"}


def made(method, seed, value, point=None, failed=False):
    """A result line by hand."""
    end = {"failed": "it did"} if failed else {"final": {"personal.clients.accuracy": value}}
    return {
        "method": method, "point": point or {}, "seed": seed, "embedded": False, "rounds": 6, "clients": 6, "seconds": 1.0,
        "history": {"round": [6], "personal.clients.accuracy": [value]}, "guarantees": [], "provenance": {"dataset": "x"},
        "versions": {}, "code": "0" * 16, "backend": "numpy", **end,
    }  # fmt: skip


def test_tables_by_hand(small):
    experiment = read(small())
    results = [
        *(made("FedAvg", seed, value) for seed, value in enumerate((0.8, 0.9))),
        *(made("Local", seed, 0.7, {"privacy.eps": 8.0}) for seed in range(2)),
        *(made("Local", seed, value, {"privacy.eps": "inf"}) for seed, value in enumerate((0.6, 0.9))),
    ]
    found = rows(experiment, results)
    assert [(row.method, len(row.results)) for row in found] == [("FedAvg", 2), ("Local", 2), ("Local", 2)]
    mean, error, n = found[0].value("clients.accuracy")
    assert (mean, n) == (pytest.approx(0.85), 2)
    assert error == pytest.approx(0.05)  # half of the distance between two values
    chosen = selected(experiment, found)
    assert [(row.method, row.point, row.best_of) for row in chosen] == [
        ("FedAvg", {}, 1),
        ("Local", {"privacy.eps": np.inf}, 2),
    ]
    text = comparison(experiment, found)
    assert "85.00 ± 5.00 (2)" in text
    assert "| 50.00 ± 1.00 |" in text
    assert "| 0.28 " in text  # geometric mean of 20 and 10 wrong of 100, beside 50
    assert "75.00 ± 15.00" in summary(experiment, chosen)
    assert "eps = inf (best of 2)" in summary(experiment, chosen)
    assert experiment_text(experiment, results) == experiment_text(experiment, list(reversed(results)))
    lost = [made("FedAvg", 0, 0, failed=True), made("FedAvg", 1, 0.5)]
    assert "1 of 2 failed" in summary(experiment, rows(experiment, lost))
    assert "50.00 (1)" in comparison(experiment, rows(experiment, lost))


def test_plots_mark_printed_numbers_where_runs_are(small):
    over_eps = '[[plots]]\nx = "privacy.eps"\nmeasure = "clients.accuracy"\n[[printed]]\nmethod = "Local"'
    printed = f'{over_eps}\nat = {{ "privacy.eps" = 8.0 }}\nmeasure = "clients.accuracy"\nvalue = 0.5\n[[printed]]\n'
    experiment = read(small(("[[printed]]\n", printed)))
    marked = [made("Local", 0, 0.7, {"privacy.eps": 8.0}), made("Local", 0, 0.6, {"privacy.eps": "inf"})]
    for results, marks in ((marked, 1), (marked[1:], 0)):  # a grid point that was not run has no place
        figure = draw(experiment, results)
        assert figure is not None
        axes = figure.axes[0]
        assert sum(line.get_marker() == "D" and len(line.get_xdata()) > 0 for line in axes.lines) == marks
    assert draw(read(small()), [made("FedAvg", 0, 0.5)]) is None  # one evaluation is no course over the rounds


@pytest.mark.parametrize("apart", [0.0, 1e-5, 0.2])
def test_of_levels_at_one_place_each_is_seen(small, apart):
    panel = '[[plots]]\nx = "privacy.eps"\nmeasure = "clients.accuracy"\n'
    twin = '[[methods]]\nname = "Twin"\nalgorithm = "FedAvg"\nsettings = { learning_rate = 0.3 }\n'
    experiment = read(small(("[[printed]]\n", f"{twin}{panel}[[printed]]\n")))
    levels = [made("FedAvg", 0, 0.6), made("Twin", 0, 0.6 + apart)]
    figure = draw(experiment, [*levels, *(made("Local", 0, 0.5, {"privacy.eps": eps}) for eps in (8.0, "inf"))])
    assert figure is not None
    canvas, axes = FigureCanvasAgg(figure), figure.axes[0]
    canvas.draw()
    box = axes.get_window_extent()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(int)  # from below, as places are
    inside = pixels[int(box.y0) + 4 : int(box.y1) - 4, int(box.x0) + 4 : int(box.x1) - 4].reshape(-1, 3)
    counts = [(abs(inside - [round(255 * c) for c in to_rgb(colour)]).max(axis=1) < 40).sum() for colour in COLOURS[:2]]
    assert min(counts) > max(counts) / 3  # the lines are equally long


def test_a_broken_plan_ends_a_run_and_its_rounds_are_kept(small, tmp_path, monkeypatch):
    run = read(small()).runs(seeds=[0], methods=["Local"])[0]
    update = Local.client_update

    def broken(self, task, clients, message, own, t):
        if t == 4:
            update(self, task, clients, message, own, t)
        return update(self, task, clients, message, own, t)

    with monkeypatch.context() as patch:
        patch.setattr(Local, "client_update", broken)
        with pytest.raises(ValueError, match=r"makes 2 releases \(training\) in round 5; its privacy plan counts 1"):
            execute(run, tmp_path)
    seen = []
    resumed = execute(run, tmp_path, progress=lambda finished, *_: seen.append(finished))
    assert seen == [5, 6]
    assert same_result(resumed, execute(run, tmp_path / "whole"))


def test_promises_are_put_together(small):
    experiment = read(small())
    alike = {"eps": [0.999, 0.9991], "delta": 1e-3, "adjacency": "row", "mechanism": "a"}
    result = made("FedAvg", 0, 0.5)
    result["guarantees"] = [
        {"group": "few", "clients": 2, "of": 3, **alike},
        {"group": "few", "clients": 1, "of": 3, **alike, "mechanism": "b"},
        {"group": "others", "clients": 3, "of": 3, **alike},
    ]
    whole = "all: ε 0.999, δ 0.001, row"
    for say, said in (
        ({}, f"| simulated, no guarantee ({whole}) |"),  # a line from before this was said; trainings are all seeded
        ({"simulated": True}, f"| simulated, no guarantee ({whole}) |"),
        ({"simulated": False}, f"| {whole} |"),
    ):
        entries = [entry | say for entry in result["guarantees"]]
        assert said in summary(experiment, rows(experiment, [result | {"guarantees": entries}]))
    result["guarantees"] = [entry | {"simulated": i == 0} for i, entry in enumerate(result["guarantees"][:2])]
    part = "ε 0.999, δ 0.001, row"
    assert f"| simulated, no guarantee (2 of 3 few: {part}); 1 of 3 few: {part} |" in summary(
        experiment, rows(experiment, [result])
    )


def test_the_order_of_methods_is_compared(small):
    extra = "".join(
        f'[[methods]]\nname = "{m}"\nalgorithm = "Local"\nsettings = {{ learning_rate = 1.0 }}\n'
        f'[[printed]]\nmethod = "{m}"\nmeasure = "clients.accuracy"\nvalue = {value}\n'
        for m, value in (("A", 0.6), ("B", 0.7))
    )
    path = small()
    path.write_text(SMALL + extra)
    experiment = read(path)
    for shift, counts, fails in ((0, "3 hold, 0 fail, 0 are open", 0), (-0.15, "2 hold, 1 fail, 0 are open", 1)):
        values = {"FedAvg": 0.5, "A": 0.6, "B": 0.7 + shift}
        results = [made(name, seed, value + seed / 1000) for name, value in values.items() for seed in range(3)]
        text = order_text(experiment, rows(experiment, results))
        assert f"Of 3 printed orders of two methods {counts}.\n" in text
        assert text.count("Fails: B is ahead of A in clients.accuracy") == fails
    alone = [made(name, 0, value) for name, value in values.items()]
    assert "0 hold, 0 fail, 3 are open" in order_text(experiment, rows(experiment, alone))


def test_committed_lines_are_small(small, tmp_path):
    experiment = read(small(("rounds = 6", "rounds = 40"), ("every = 2", "every = 1")))
    result = execute(experiment.runs()[0], tmp_path)
    line = slim(result)
    assert line["history"]["round"] == list(range(4, 41, 4))
    assert len(lines_of(experiment, [result])) < 2500
    assert json.loads(lines_of(experiment, [result])) == line


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_fit_the_screen_and_lose_no_word(width, capsys, monkeypatch):
    body = [["adaped-table1-cnn", "Personal networks with few participants, the paper's network", "3.25"], ["b", "", "1"]]
    text = grid(["experiment", "title", "value"], body, width=width)
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) <= width
    assert "adaped-table1-cnn" in text
    cells = [cell for line in lines[2:] for cell in line.split("|")]
    assert sorted(word for cell in cells for word in cell.split()) == sorted(" ".join(map(" ".join, body)).split())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main() == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines() if line.startswith("|")) <= width


def test_the_list_and_wrong_options(capsys, tmp_path, small):
    assert main() == 0
    said = capsys.readouterr().out
    assert "demo" in said
    assert max(map(len, said.splitlines())) <= 120
    assert main("--json") == 0
    assert {entry["experiment"] for entry in json.loads(capsys.readouterr().out)} >= {"demo"}
    for arguments, says in [
        (["demoo"], "no experiment is called 'demoo'; did you mean demo"),
        (["demo", "--jobs", 0], "--jobs must be at least 1"),
        (["demo", "--rounds", 0], "--rounds must be at least 1"),
        (["demo", "--methods", "Ditto"], "demo has no method 'Ditto'; it has FedAvg; Local"),
        (["nothing", "--table"], "nothing has no committed results"),
    ]:
        with pytest.raises(ValueError, match=says):
            main(*arguments)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("rounds = 6", ""), "rounds is missing"),
        (("rounds = 6", "rounds = 0"), "rounds must be a whole number >= 1"),
        (("every = 2", "evry = 2"), "evry is unknown"),
        (("seeds = [0, 1]", "seeds = [0, 0]"), "seeds must be a list of different"),
        (('"synthetic_federation"', '"sintetic"'), "data.loader: 'sintetic' is unknown"),
        (('"synthetic_federation"', '"mnist"'), "data.folder is needed"),
        (("rows = 20", "row = 20"), "data.options.row is unknown; synthetic_federation takes"),
        (
            ("[groups]", 'steps = [["one_clas", {}]]\n[groups]'),
            r"data.steps\[0\]: 'one_clas' is unknown; did you mean one_class",
        ),
        (("[groups]", 'steps = [["iid", {}]]\n[groups]'), r"data.steps\[0\]: iid: missing a required argument: 'clients'"),
        (('"opt_out"', '"opt_in"'), "groups.few: 'opt_in' is unknown"),
        (('"logistic_regression"', '"logistic"'), "model.kind: 'logistic' is unknown; did you mean"),
        (('"poisson"', '"poison"'), "work.rule: 'poison' is unknown; did you mean poisson"),
        (("n_steps", "steps"), "work.steps is unknown; poisson takes n_steps"),
        (('algorithm = "FedAvg"', 'algorithm = "FedAvgg"'), "methods.FedAvg.algorithm: 'FedAvgg' is unknown; did you mean"),
        (("rate = 0.5", "rat = 0.5"), "methods.FedAvg.settings.rat is unknown; FedAvg takes"),
        (("learning_rate = 0.3, rate", "rate"), "methods.FedAvg.settings: FedAvg: missing a required"),
        (('"RowPrivacy"', '"RowPrivac"'), "settings.privacy.kind: 'RowPrivac' is unknown"),
        (("clip = 1.0", "clp = 1.0"), "settings.privacy.clp is unknown"),
        (('"privacy.eps" = [8.0, inf]', '"privacy.eps" = 8.0'), "grid.privacy.eps must be a list"),
        (('best = "max"', 'best = "most"'), "select.best: 'most' is unknown"),
        (('name = "Local"', 'name = "FedAvg"'), "methods must be at least one, each with another name"),
        (("error = 0.01", 'error = "x"'), r"printed\[0\].error must be a number"),
        (("error = 0.01", "at = { lam = 1 }"), r"printed\[0\].at: 'lam' is unknown"),
        (('paper = "none"', "paper = 1"), "paper must be a text"),
        (("rounds = 6", "rounds = "), "not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_names_file_and_key(small, change, says):
    with pytest.raises(ValueError, match=rf"small.toml: .*{says}"):
        read(small(change))


def test_a_file_on_a_base_says_only_where_it_differs(small):
    path = small()
    other = path.with_name("other.toml")
    other.write_text('base = "small"\ntitle = "Other"\nseeds = [7]\n[model]\nkind = "linear_regression"\n')
    base, found = read(path), read(other)
    assert (found.name, found.title, found.setup.seeds) == ("other", "Other", (7,))
    assert found.setup.model == {"kind": "linear_regression"} != base.setup.model
    assert (found.methods, found.setup.data, found.setup.rounds) == (base.methods, base.setup.data, base.setup.rounds)
    other.write_text('base = "smal"\n')
    with pytest.raises(ValueError, match=r"other\.toml: base must be the name of an experiment beside this file; .*small"):
        read(other)
    other.write_text("base = [1]\n")
    with pytest.raises(ValueError, match=r"other\.toml: base must be the name of an experiment"):
        read(other)
    other.write_text('base = "other"\n')
    with pytest.raises(ValueError, match="base 'other' has a base itself"):
        read(other)
    other.write_text('base = "small"\nrounds = 0\n')
    with pytest.raises(ValueError, match=r"other\.toml: rounds must be a whole number >= 1"):
        read(other)
    other.write_text('base = "small"\n')
    path.write_text("rounds = \n")
    with pytest.raises(ValueError, match=r"other\.toml: .*small\.toml: not valid TOML"):
        read(other)
