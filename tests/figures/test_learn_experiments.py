"""Every experiment file runs on its embedded data, and every committed result belongs to an experiment as it is now."""

import subprocess

import pytest

from estimators.federated.experiments import building, replay
from estimators.federated.experiments.experiment import experiments, read
from estimators.federated.experiments.results import current, measured, read_lines
from estimators.federated.experiments.runs import execute
from figures.learn.tables import FOLDER, PAGE, page

COMMITTED = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
LARGEST = 600_000
"""Bytes of a committed file of results."""


@pytest.fixture(autouse=True)
def forget():
    yield
    building.forget()


def first_points(experiment):
    """One run of two rounds of every method, on the embedded data."""
    runs = {run.method: run for run in reversed(experiment.runs(seeds=[0], rounds=2, embedded=True))}
    return list(reversed(runs.values()))


@pytest.mark.parametrize("name", experiments())
def test_an_experiment_runs_on_its_embedded_data(name, tmp_path):
    experiment = read(name)
    if experiment.embedded.data.loader == "digits":
        pytest.importorskip("sklearn")
    if experiment.embedded.backend == "jax":
        pytest.importorskip("jax")
    results = {run.method: execute(run, tmp_path, workers=1) for run in first_points(experiment)}
    assert set(results) == {method.name for method in experiment.methods}
    assert {method: result["failed"] for method, result in results.items() if "failed" in result} == {}
    wanted = [(printed.method, printed.measure) for printed in experiment.printed]
    wanted += [(method.name, method.select["measure"]) for method in experiment.methods if method.select]
    wanted += [(name, plot.measure) for plot in experiment.plots for name in plot.methods or ()]
    for method, measure in wanted:
        final = results[method]["final"]
        assert measured(final, measure) is not None, f"{name}: {method} has no measure {measure}; it has {', '.join(final)}"


@pytest.mark.parametrize("name", experiments())
def test_the_paper_is_one_of_the_five(name):
    from theory.engine.paper import papers

    assert read(name).paper in {*papers(), "none"}


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_results_are_of_the_experiment_as_it_is(name):
    path = FOLDER / f"{name}.jsonl"
    assert path.stat().st_size < LARGEST
    experiment, results = read(name), read_lines(path)
    keys = [(result["method"], str(result["point"]), result["seed"]) for result in results]
    assert len(set(keys)) == len(keys) > 0
    for key, result in zip(keys, results, strict=True):
        assert result["experiment"] == name
        assert not (result["embedded"] and experiment.needs_data)
        assert current(experiment, result), f"{name}: {key} was run with another configuration; run it again"


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", COMMITTED)
def test_a_line_names_the_code_that_made_it_or_says_that_nobody_knows(name):
    """A fingerprint of the code; or, of older lines, a commit that is there; or "before provenance"."""
    results = read_lines(FOLDER / f"{name}.jsonl")
    assert {sum(key in result for key in ("code", "commit", "made")) for result in results} == {1}
    assert {result["made"] for result in results if "made" in result} <= {"before provenance"}
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        return  # no repository, or one without its history
    for commit in {result["commit"] for result in results if "commit" in result}:
        assert git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0, f"{name}: there is no commit {commit}"


def test_every_experiment_has_a_line_to_replay():
    assert [*replay.kept()] == experiments(), "run `borrow learn --replay --fresh`"


def test_new_experiments_get_their_lines_one_by_one():
    kept = replay.kept()
    first, second, *_ = kept
    assert replay.text_of({second: kept[second]}) == replay.text_of(kept).splitlines(keepends=True)[1]
    assert replay.text_of({first: kept[first], second: kept[second]}).count("\n") == 2


@pytest.mark.parametrize("name", experiments())
def test_a_kept_line_comes_back(name):
    """To the last bit on the same kind of machine, else to the six digits that result lines show."""
    found = replay.replay(name, replay.kept()[name])
    assert found.problem == ""


def test_another_number_in_a_kept_line_is_seen():
    name = "demo"
    line = replay.kept()[name]
    measure, value = max((key, value) for key, value in line["final"].items() if isinstance(value, float) and value > 0)
    off = {**line, "final": {**line["final"], measure: value * (1 + 1e-5)}}
    assert measure in replay.replay(name, off).problem
    assert measure in replay.replay(name, {**off, "machine": "another"}).problem
    last = {**line, "final": {**line["final"], measure: value * (1 + 1e-15)}}
    assert replay.replay(name, {**last, "machine": "another"}).problem == ""
    assert (
        measure
        in replay.replay(
            name, {**last, "machine": replay.provenance.machine(), "versions": replay.short(name)["versions"]}
        ).problem
    )


def test_the_page_of_results_is_current():
    assert (FOLDER / PAGE).read_text(encoding="utf-8") == page(), "run `borrow learn --table`"


def test_pictures_are_of_committed_results():
    assert {path.stem for path in FOLDER.glob("*.png")} <= set(COMMITTED)
    for path in FOLDER.glob("*.png"):
        assert path.stat().st_size < 150_000
