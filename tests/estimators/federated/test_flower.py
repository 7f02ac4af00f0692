"""The parts in Flower: messages of a real Strategy and ClientApp, and a real run of server and nodes on this machine."""

import json
import os
import shutil
import socket
import subprocess
import sysconfig
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from estimators.federated import flower
from estimators.federated.experiments import building
from estimators.federated.runtime import Server
from estimators.federated.training import train

FOUR = {
    "FedHDP": ("fedhdp-table2", "FedHDP"),
    "MR-MTL": ("own", "MR-MTL"),
    "Robust-HDP": ("robusthdp-figure3", "Robust-HDP"),
    "AdaPeD": ("adaped-figure1", "AdaPeD"),
}
OWN = """
title = "One point of a grid"
paper = "mrmtl"
place = "a test"
rounds = 2
seeds = [0]
[data]
loader = "synthetic_federation"
options = { model = "linear", clients = 6, rows = 20 }
[model]
kind = "linear_regression"
[work]
rule = "poisson"
n_epochs = 1
batch_size = 8
[[methods]]
name = "MR-MTL"
algorithm = "MRMTL"
[methods.settings]
lam = 1.0
learning_rate = 0.05
privacy = { kind = "RowPrivacy", accountant = "rdp", eps = 6.0, delta = 1e-3, clip = 1.0 }
"""
APPS = "from estimators.federated import flower\n\nserver = flower.server_app()\nclient = flower.client_app()\n"
PATIENT = """from flwr.common import constant

constant.HEARTBEAT_DEFAULT_INTERVAL = 600
"""
"""Flower starts a process for every message and takes back its task, which it then gives to another new process, unless it
is heard of within 30 s; no setting says so.  With many processes on few cores none would ever be."""
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "parts"
version = "1.0.0"
dependencies = []
[tool.flwr.app]
publisher = "me"
fab-include = ["parts_apps/*.py"]
[tool.flwr.app.components]
serverapp = "parts_apps.apps:server"
clientapp = "parts_apps.apps:client"
[tool.flwr.app.config]
experiment = ""
method = ""
seed = 0
rounds = 2
embedded = true
data = ""
out = ""
"""


@pytest.fixture(autouse=True, scope="module")
def forget():
    yield
    building.forget()


@pytest.fixture(scope="module")
def configurations(tmp_path_factory):
    """Run configurations of the four, with two rounds."""
    own = tmp_path_factory.mktemp("own") / "own.toml"
    own.write_text(OWN)
    return {name: {"experiment": str(own) if experiment == "own" else experiment, "method": method, "seed": 0, "rounds": 2,
                   "embedded": True, "data": "", "out": ""} for name, (experiment, method) in FOUR.items()}  # fmt: skip


def simulated(config):
    """What the simulator has for a run configuration: the server's entries of the state, and the last measures."""
    built = flower.built_of(config)
    whole = train(built.algorithm, built.task, rounds=built.rounds)
    server = Server(built.algorithm, built.task.terms, rounds=built.rounds)
    return {name: whole.state[name] for name in server.state}, whole.history[-1]


def same(state, measures, config):
    """Whether a result has the simulator's bits."""
    wanted, record = simulated(config)
    assert state.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(np.asarray(state[name]), np.asarray(value), err_msg=name)
    assert measures == {name: record[name] for name in measures}
    assert any(name.startswith("personal.clients") for name in measures) or "shared.clients.accuracy" in measures


class Grid:
    """Nodes in this process: what the network does to messages, done to them at once."""

    def __init__(self, app, nodes, config, drop=()):
        module = pytest.importorskip("flwr.app", reason="needs the extra [flower]")
        identity = import_module("flwr.supercore.task_identity").TaskIdentity
        identity.run_id = identity.node_id = identity.task_id = 1  # which Flower sets in its processes
        self.app, self.drop, self.sent = app, drop, []
        places = {100 + k: {"partition-id": k, "num-partitions": nodes} for k in range(nodes)}
        self.contexts = {node: module.Context(1, node, at, module.RecordDict(), config) for node, at in places.items()}

    def get_node_ids(self):
        return list(self.contexts)

    def send_and_receive(self, messages, *, timeout=None):
        for message in messages:
            node = message.metadata.dst_node_id
            self.sent.append((message.metadata.message_type, node, message.content))
            if (message.metadata.message_type, node) not in self.drop:
                yield self.app(message, self.contexts[node])


def carried(config, **options):
    """A finished strategy over a grid in this process."""
    pytest.importorskip("flwr", reason="needs the extra [flower]")
    built = flower.built_of(config)
    plan = flower.strategy(Server(built.algorithm, built.task.terms, rounds=built.rounds), timeout=5)
    grid = Grid(flower.client_app(), 3, config, **options)
    plan.start(grid, flower.record({}), num_rounds=built.rounds)
    return plan, grid


@pytest.mark.parametrize("name", FOUR)
def test_messages_of_flower_give_the_simulators_bits(name, configurations):
    plan, grid = carried(configurations[name])
    same(plan.server.state, plan.measures, configurations[name])
    kept = {entry for kind, _, content in grid.sent if kind != "query" for entry in content.get("message", {})}
    assert not kept & {"personal", "begun"}  # what clients keep is not sent to them


def test_a_node_that_drops_out_leaves_the_others(configurations):
    config = {**configurations["MR-MTL"], "experiment": "robusthdp-figure3", "method": "Robust-HDP"}
    plan, _ = carried(config, drop={("train", 101)})
    wanted, _ = simulated(config)
    assert np.isfinite(plan.server.state["shared"]).all()
    assert (plan.server.state["shared"] != wanted["shared"]).any()


def test_what_an_error_says_of_rows_stays_at_the_node(capsys):
    @flower.kept_here
    def step(message, context):
        raise ValueError("y is 7.25 in row 3")

    with pytest.raises(RuntimeError) as told:
        step(None, None)
    assert str(told.value) == "ValueError at the node, whose log says more"
    assert "y is 7.25 in row 3" in capsys.readouterr().err


def test_wrong_configurations_are_named(configurations):
    with pytest.raises(ValueError, match="method 'MR-MTL' has a grid of 15 points"):
        flower.built_of({**configurations["MR-MTL"], "experiment": "mrmtl-figure3b"})
    with pytest.raises(ValueError, match="partition-id must be below num-partitions"):
        flower.clients_of({"partition-id": 3, "num-partitions": 3}, 9)


@pytest.mark.parametrize("measures", ["false", 0, None])
def test_a_node_whose_configuration_is_no_truth_value_tells_nothing(measures):
    with pytest.raises(ValueError, match="measures must be true or false"):
        flower.tells({"measures": measures})


def free_ports(n):
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(n)]
    try:
        for found in sockets:
            found.bind(("127.0.0.1", 0))
        return [found.getsockname()[1] for found in sockets]
    finally:
        for found in sockets:
            found.close()


@pytest.fixture
def federation(tmp_path):
    """A SuperLink and two SuperNodes as processes on this machine, and a function that runs an app there."""
    pytest.importorskip("flwr", reason="needs the extra [flower]")
    commands, home, app = Path(sysconfig.get_path("scripts")), tmp_path / "home", tmp_path / "app"
    link, *nodes = free_ports(3)
    (app / "parts_apps").mkdir(parents=True)
    (app / "parts_apps" / "__init__.py").write_text("")
    (app / "parts_apps" / "apps.py").write_text(APPS)
    (app / "pyproject.toml").write_text(PROJECT)
    home.mkdir()
    (home / "sitecustomize.py").write_text(PATIENT)  # before anything of Flower is imported
    connection = f'address = "127.0.0.1:{link}"\ninsecure = true\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "here"\n[superlink.here]\n{connection}')
    root, path = str(Path(flower.__file__).parents[2]), f"{commands}{os.pathsep}{os.environ['PATH']}"
    own = {"FLWR_HOME": str(home), "HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    own |= {"PYTHONPATH": f"{home}{os.pathsep}{root}", "PATH": path}
    with ExitStack() as ends:

        def start(name, *arguments):
            log = ends.enter_context((tmp_path / f"{name}.log").open("ab"))
            order = [commands / name, "--insecure", *arguments]
            ends.callback(finish, subprocess.Popen(order, env=os.environ | own, stdout=log, stderr=log))

        start("flower-superlink", "--disable-runtime-dependency-installation", "--host", "127.0.0.1", "--port", str(link))
        until(lambda: listens(link), 120)
        for k, port in enumerate(nodes):
            place = f"partition-id={k} num-partitions=2"
            start("flower-supernode", "--superlink", f"127.0.0.1:{link}", "--port", str(port), "--node-config", place)

        def run(config):
            pairs = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
            order = [commands / "flwr", "run", str(app), "here", "--run-config", pairs]
            subprocess.run(order, env=os.environ | own, check=True, timeout=300)
            out = Path(config["out"])
            until(lambda: out.exists() and out.stat().st_size, 1200)
            return json.loads(out.read_text())

        yield run
    shutil.rmtree(home, ignore_errors=True)


def finish(process):
    """End a process."""
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(done, seconds):
    """Wait for something to be so."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            pytest.fail(f"nothing after {seconds} s")
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUR)
def test_a_real_run_of_flower_gives_the_simulators_bits(name, configurations, federation, tmp_path):
    config = {**configurations[name], "out": str(tmp_path / "out.json")}
    found = federation(config)
    same(found["state"], found["measures"], config)
