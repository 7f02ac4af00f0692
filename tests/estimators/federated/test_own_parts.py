"""One's own algorithms, models, loaders and tables in `borrow learn my.toml`."""

import argparse
import hashlib
import json
import re
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from estimators.federated.data import Examples, files, table
from estimators.federated.experiments import building, checkpoints
from estimators.federated.experiments.experiment import read
from estimators.federated.training import training
from estimators.system import outside
from figures.learn.command import add_learn

MODULE = '''
from dataclasses import dataclass
from estimators.federated.algorithms import FedAvg
from estimators.federated.data import synthetic_federation
from estimators.federated.models import logistic_regression

@dataclass(frozen=True, kw_only=True)
class Halved(FedAvg):
    """Averages, and goes half of the way."""

    def server_aggregate(self, task, server, t, clients, reply):
        changed, notes = super().server_aggregate(task, server, t, clients, reply)
        return {**changed, "shared": (server["shared"] + changed["shared"]) / 2}, notes

def model(n_features, n_classes):
    return logistic_regression(n_features, n_classes)

def loader(seed, rows=20):
    return synthetic_federation(clients=4, rows=rows, seed=seed)

class NoAlgorithm:
    pass

number = 3
'''
OWN = """
title = "Mine"
paper = "none"
place = "here"
rounds = 2
seeds = [0]
[data]
loader = "own_parts_of_a_test:loader"
options = { rows = 24 }
[model]
kind = "own_parts_of_a_test:model"
[work]
rule = "epochs"
n_epochs = 1
batch_size = 4
[[methods]]
name = "halved"
algorithm = "own_parts_of_a_test:Halved"
settings = { learning_rate = 0.3 }
[[methods]]
name = "averaged"
algorithm = "FedAvg"
settings = { learning_rate = 0.3 }
"""
TABLE = (
    OWN.replace('loader = "own_parts_of_a_test:loader"\noptions = { rows = 24 }', "{source}")
    .replace("own_parts_of_a_test:model", "linear_regression")
    .replace("own_parts_of_a_test:Halved", "Local")
)


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """The user's folder with a module and experiment files in it, in which the user is."""
    (tmp_path / "own_parts_of_a_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    building.forget()


def learn(*arguments):
    parser = argparse.ArgumentParser(prog="borrow")
    add_learn(parser.add_subparsers(required=True).add_parser("learn"))
    args = parser.parse_args(["learn", *map(str, arguments)])
    return args.run(args)


def results(folder):
    return {r["method"]: r for r in map(json.loads, (folder / "results.jsonl").read_text().splitlines())}


def test_own_algorithm_model_and_loader_run_from_a_file(beside):
    (beside / "mine.toml").write_text(OWN)
    assert learn("mine.toml", "--out", "out", "--no-plot") == 0
    found = results(beside / "out" / "mine")
    assert found["halved"]["final"] != found["averaged"]["final"]
    assert found["halved"]["code"] != found["averaged"]["code"]
    run = read(beside / "mine.toml").runs()[0]
    built = building.build(run)
    assert type(built.algorithm).__name__ == "Halved"
    assert len(built.task.whole.x) == 4 * 24


def test_an_entry_point_is_known_by_its_name(beside, monkeypatch):
    def registered(group):
        kinds = {"borrow.algorithms": "Halved", "borrow.models": "model", "borrow.loaders": "loader"}
        return [EntryPoint("mine", f"own_parts_of_a_test:{kinds[group]}", group)] if group in kinds else []

    monkeypatch.setattr(outside, "entry_points", registered)
    text = OWN
    for name in ("loader", "model", "Halved"):
        text = text.replace(f"own_parts_of_a_test:{name}", "mine")
    (beside / "mine.toml").write_text(text)
    assert type(building.build(read(beside / "mine.toml").runs()[0]).algorithm).__name__ == "Halved"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("own_parts_of_a_test:Halved", "own_parts_of_a_test:Halfed"), "methods.halved.algorithm must be module:name"),
        (("own_parts_of_a_test:Halved", "no_such_module:Halved"), "'no_such_module:Halved' is not found"),
        (("own_parts_of_a_test:Halved", "own_parts_of_a_test:NoAlgorithm"), "must be a dataclass of its settings"),
        (
            ("own_parts_of_a_test:model", "own_parts_of_a_test:number"),
            "model.kind must name a class or a function.*is a int",
        ),
        (("own_parts_of_a_test:loader", ":"), "data.loader must be module:name"),
        (("rows = 24", "row = 24"), "data.options.row is unknown; loader takes seed, rows"),
        (("{ learning_rate = 0.3 }", "{ learning_rat = 0.3 }"), "settings.learning_rat is unknown; Halved takes"),
        (('"own_parts_of_a_test:loader"', '"synthetic_federatio"'), "data.loader: 'synthetic_federatio' is unknown"),
        (('"own_parts_of_a_test:loader"', '["digits"]'), r"data.loader: \['digits'\] is unknown"),
    ],
)
def test_mistakes_are_named(beside, change, says):
    assert change[0] in OWN
    (beside / "mine.toml").write_text(OWN.replace(*change))
    with pytest.raises(ValueError, match=says):
        read(beside / "mine.toml")


FAILING = """

@dataclass(frozen=True, kw_only=True)
class Failing(FedAvg):
    how: str = ""

    def client_update(self, task, clients, message, own, t):
        reply, mine = super().client_update(task, clients, message, own, t)
        if t < 2 or not self.how:
            return reply, mine
        if self.how == "error":
            raise RuntimeError("the colour of client 3")
        if self.how == "lost":
            raise ConnectionResetError("client 3 is gone")
        if self.how == "none":
            return None
        if self.how == "nothing":
            return {}, mine
        if self.how == "fewer":
            return {"ends": reply["ends"][1:]}, mine
        if self.how == "ragged":
            return {"ends": [[1.0], [1.0, 2.0], [1.0], [1.0]]}, mine
        if self.how == "not finite":
            return {"ends": reply["ends"] * float("nan")}, mine
        return reply, {"personal": reply["ends"]}

class Kept(Failing):
    def start(self, task, *, rounds):
        state = super().start(task, rounds=rounds)
        return {**state, "kept": state["shared"] * np.ones((task.n_clients, 1))}

    own = ("kept",)

    def client_update(self, task, clients, message, own, t):
        reply, mine = super().client_update(task, clients, message, own, t)
        return reply, {"kept": reply["ends"][:, : 3 if t == 2 and self.how else None]}

def pairs(seed):
    return [([[1.0, 2.0]], [1])] * 4
"""


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("error", r"RuntimeError: the colour of client 3 \(own_parts_of_a_test.py, line \d+, in client_update\)"),
        ("lost", "ConnectionResetError: client 3 is gone"),
        ("none", "TypeError: cannot unpack"),
        ("nothing", "KeyError: 'ends'"),
        ("fewer", r"a row of ends for each of 4 clients, got shape \(3, 11\)"),
        ("ragged", "rows of one shape as ends"),
        ("not finite", "client 0 sends numbers that are not finite"),
        ("unknown", "clients keep 'personal' after round 3, which start does not make; it makes shared"),
    ],
)
def test_an_error_of_ones_own_algorithm_leaves_others_alone_and_keeps_its_rounds(beside, capsys, how, says):
    (beside / "own_parts_of_a_test.py").write_text(MODULE + FAILING)
    text = OWN.replace("own_parts_of_a_test:Halved", "own_parts_of_a_test:Failing").replace("rounds = 2", "rounds = 4")
    fails = text.replace("{ learning_rate = 0.3 }", f'{{ learning_rate = 0.3, how = "{how}" }}', 1)
    (beside / "mine.toml").write_text(fails)
    sys.modules.pop("own_parts_of_a_test", None)
    assert learn("mine.toml", "--out", "out", "--no-plot") == 2
    said = capsys.readouterr().err
    assert re.search(f"halved-seed0 is not done: .*{says}.*; round 3 of 4 is not done, those before it are kept", said), said
    assert [*results(beside / "out" / "mine")] == ["averaged"]
    state, record, _ = checkpoints.load(beside / "out" / "mine" / "halved-seed0")
    assert record["finished"] == 2
    built = building.build(read(beside / "mine.toml").runs()[0])
    whole = next(step for step in training(replace(built.algorithm, how=""), built.task, rounds=4) if step.finished == 2)
    np.testing.assert_array_equal(state["shared"], whole.state["shared"])


def test_rows_of_another_length_that_clients_keep_change_nothing(beside):
    (beside / "own_parts_of_a_test.py").write_text("import numpy as np\n" + MODULE + FAILING)
    sys.modules.pop("own_parts_of_a_test", None)
    (beside / "mine.toml").write_text(OWN)
    built = building.build(read(beside / "mine.toml").runs()[0])
    kept = sys.modules["own_parts_of_a_test"].Kept
    steps = training(kept(learning_rate=0.3, how="short"), built.task, rounds=4)
    state = [next(steps), next(steps)][-1].state
    before = state["shared"].copy()
    with pytest.raises(ValueError, match=r"clients must keep kept of shape \(4, 11\) after round 3, got \(4, 3\)"):
        next(steps)
    np.testing.assert_array_equal(state["shared"], before)


def test_a_loader_of_something_else_is_named(beside, capsys):
    (beside / "own_parts_of_a_test.py").write_text(MODULE + FAILING)
    sys.modules.pop("own_parts_of_a_test", None)
    (beside / "mine.toml").write_text(OWN.replace("test:loader", "test:pairs").replace("options = { rows = 24 }", ""))
    assert learn("mine.toml", "--out", "out", "--no-plot") == 2
    said = capsys.readouterr().err
    assert "data.loader 'own_parts_of_a_test:pairs' must return a Federation or Examples, got a list" in said


def test_a_module_that_cannot_be_read_is_named(beside):
    (beside / "own_parts_of_a_test_with_a_slip.py").write_text("def loader(:\n")
    (beside / "mine.toml").write_text(OWN.replace("test:loader", "test_with_a_slip:loader"))
    with pytest.raises(ValueError, match=r"data.loader is .*slip:loader', and importing it ends in SyntaxError"):
        read(beside / "mine.toml")


def rows_of(seed=0, n=40):
    rng = np.random.default_rng(seed)
    x, client = rng.normal(size=(n, 3)), np.array([f"c{k % 4}" for k in range(n)])
    return x, x @ [1.0, -2.0, 0.5] + rng.normal(size=n) / 10, client


def written(folder, kind, x, y, client):
    """The same table in one of three forms."""
    path = folder / f"my.{kind}"
    if kind == "npz":
        np.savez(path, x=x, y=y, client=np.unique(client, return_inverse=True)[1])
        return path
    columns = {"client": client, **{f"x{j}": x[:, j] for j in range(x.shape[1])}, "y": y}
    if kind == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table(columns), path)
        return path
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet"])
def test_a_table_of_ones_own_is_the_same_in_every_form(beside, kind):
    x, y, client = rows_of()
    found = table(written(beside, kind, x, y, client), test_fraction=0.2, seed=3)
    assert found.names == (("0", "1", "2", "3") if kind == "npz" else ("c0", "c1", "c2", "c3"))
    assert found.sizes.tolist() == [8, 8, 8, 8]
    for k, own in enumerate(found):
        mine = np.concatenate([own.x, own.test_x]), np.concatenate([own.y, own.test_y])
        order, wanted = np.argsort(mine[1]), np.argsort(y[client == f"c{k}"])
        np.testing.assert_array_equal(mine[0][order], x[client == f"c{k}"][wanted])
        np.testing.assert_array_equal(mine[1][order], y[client == f"c{k}"][wanted])
    (beside / "mine.toml").write_text(TABLE.replace("{source}", f'loader = "table"\nfolder = "my.{kind}"'))
    assert learn("mine.toml", "--out", "out", "--no-plot", "--data", ".") == 0
    assert results(beside / "out" / "mine")["averaged"]["final"]["shared.clients.mse"] < np.var(y)
    with pytest.raises(ValueError, match="mine runs on your data only: --data DIR, where DIR/my"):
        learn("mine.toml", "--out", "out")


def test_a_pool_of_rows_is_given_to_clients_by_a_step(beside):
    x, y, client = rows_of()
    path = written(beside, "csv", x, (y > 0).astype(int), client)
    pool = table(path, client=None, features=["X0", "x2"], classes=2)
    assert isinstance(pool, Examples)
    np.testing.assert_array_equal(pool.x, x[:, [0, 2]])
    assert pool.classes == 2


@pytest.mark.parametrize(
    ("kind", "change", "options", "says"),
    [
        ("csv", {}, {"response": "z"}, "response must be in .*my.csv, and it has no column 'z'; it has client,x0,x1,x2,y"),
        ("csv", {}, {"client": "school"}, "has no column 'school'"),
        ("csv", {}, {"features": ["x0", "x9"]}, "has no column 'x9'"),
        ("csv", {}, {"features": "x0"}, "features must be a list, got 'x0'"),
        ("csv", {}, {"features": [0]}, "features must be a list of names of columns, got"),
        ("csv", {}, {"classes": 2}, r"y in row 1 is no label; labels are 0..1"),
        ("npz", {"y": np.zeros(39)}, {}, r"as many rows each; got x \(40, 3\), y \(39,\)"),
        ("npz", {"y": np.zeros((40, 1))}, {}, r"got x \(40, 3\), y \(40, 1\)"),
        ("npz", {"x": np.zeros(40)}, {}, r"got x \(40,\), y \(40,\)"),
        ("npz", {"x": np.full((40, 3), np.nan)}, {}, "x must hold finite numbers"),
        ("npz", {"y": np.full(40, np.inf)}, {}, "y must hold finite numbers, got float64"),
        ("npz", {"x": np.full((40, 3), "a")}, {}, "'x' is an array of '<U1'; save it as an array of numbers"),
        ("npz", {"y": np.arange(40) - 1}, {"classes": 39}, "y in row 1 is no label; labels are 0..38"),
        ("npz", {"y": np.arange(40)}, {"classes": 39}, "y in row 40 is no label"),
        ("npz", {"y": np.arange(40) / 2}, {"classes": 40}, "y in row 2 is no label"),
        ("npz", {}, {"sha256": "0" * 63}, "sha256 must be one, 64 hexadecimal digits"),
        ("npz", {}, {"classes": -1}, r"classes must be in 0\.\."),
        ("npz", {}, {"seed": -1}, r"seed must be in 0\.\."),
        ("npz", {}, {"features": ["x0"]}, "features are columns of CSV and Parquet"),
    ],
)
def test_mistakes_in_a_table_are_named(beside, kind, change, options, says):
    x, y, client = rows_of()
    path = written(beside, kind, **({"x": x, "y": y, "client": client} | change))
    with pytest.raises(ValueError, match=says):
        table(path, **options)


def test_a_table_is_a_file_that_is_there_with_the_digest_that_is_asked_for(beside):
    path = written(beside, "csv", *rows_of())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    found = table(str(path), sha256=digest)
    for same in (table(path), table(path, seed=0, classes=0, test_fraction=0.25)):
        np.testing.assert_array_equal(found.x, same.x)
        assert same.classes == 0
    for bad in (3, beside, beside / "other.csv", None):
        with pytest.raises(ValueError, match="path must be"):
            table(bad)
    for bad, says in (("0" * 64, "as asked"), (digest + "0", "64 hexadecimal digits")):
        with pytest.raises(ValueError, match=says):
            table(path, sha256=bad)


@pytest.mark.parametrize(
    ("rows", "place"), [("b,73x31,3", "line 3, column 'x'"), ("b,3,73.31", "y in row 2"), (",73x31,3", "line 3")]
)
def test_a_mistake_in_a_table_names_its_place_and_nothing_that_stands_there(beside, rows, place):
    """A node reads its table with this loader, and what it says may reach a server."""
    (beside / "my.csv").write_text(f"client,x,y\na,1,2\n{rows}\n")
    with pytest.raises(ValueError, match=f"my.csv.*{place}") as caught:
        table(beside / "my.csv", classes=3)
    assert caught.value.__cause__ is None
    assert "73" not in str(caught.value).replace(str(beside), "")  # whose name has numbers of its own


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"client,x,y\na,\xff,2\n", "no text in UTF-8"),
        (b"PK\x03\x04", "an archive or an Excel file; save it as CSV"),
        (b"", "is empty; its first line must name the columns"),
    ],
)
def test_a_table_that_is_no_text_is_refused(beside, content, says):
    (beside / "my.csv").write_bytes(content)
    with pytest.raises(ValueError, match=says):
        table(beside / "my.csv")


def test_a_parquet_file_is_read_once(tmp_path, monkeypatch):
    """What is parsed is what was hashed, also of a file that changes in between."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, other = tmp_path / "own.parquet", tmp_path / "other.parquet"
    for file, value in ((path, 1.0), (other, 2.0)):
        parquet.write_table(pyarrow.table({"a": [value] * 4, "y": [0.5] * 4}), file)
    read = files.Reader.read

    def changing(self, name, part=None):
        content = read(self, name, part)
        Path(name).write_bytes(other.read_bytes())
        return content

    monkeypatch.setattr(files.Reader, "read", changing)
    assert table(path, client=None).x.tolist() == [[1.0]] * 4
