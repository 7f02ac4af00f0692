"""Processor seconds of a round of local training here, in plain JAX, PyTorch, Opacus, and of SGEMM alone: FEDERATED.md.

``python -m tests.bench.federated_speed`` measures every row that FEDERATED.csv does not have, each in a process of its own,
and writes its line before the next begins: run it again to go on after a stop.  ``--rows network/numba cnn/jax`` are these
rows anew, ``--python PATH`` an interpreter that has PyTorch, Opacus or pfl; what an interpreter has no package for is left
out.
``--together`` lets rows that are compared take turns in one process, on a machine that others use as well.  ``--page``
prints the tables of FEDERATED.md.

A row is a way with a model: "plain" is without clipping, "clipped" with each example's gradient at norm 1, "private" with
the noise of DP-SGD as well.  The kinds of a row take turns for BUSY seconds, REPEATS times at least, and the least counts,
in seconds of processors, which other programs on the machine change less than the clock's; a first round is not timed: it
compiles.  All ways get the same batches; the others' noise is their own library's.  SGEMM is NumPy's products of the
matrices of each step, without all else.  pfl runs the round of ``pfl_rounds`` in a process of its own, which says its
seconds; it also averages the clients' networks.

Belongs here: the round in other people's words, as fast as they document it.  Does not belong here: assertions on speed,
memory (``federated_scale``).
"""

# pyright: reportMissingImports=false

import argparse
import csv
import datetime
import importlib.util
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

STEPS, BATCH, ROWS, RATE, REPEATS = 50, 10, 600, 0.1, 3
BUSY = 20.0
CLIENTS = {"network": 100, "cnn": 10}
KINDS = ("plain", "clipped", "private")
LINES = Path(__file__).with_name("FEDERATED.csv")
FIELDS = ("model", "way", *KINDS, "versions", "machine", "date")


class Round:
    """What every way computes."""

    def __init__(self, clients, model):
        rng = np.random.default_rng(0)
        self.C, self.cnn = clients, model == "cnn"
        self.x = rng.random((clients, ROWS, 784), np.float32)
        self.y = rng.integers(0, 10, (clients, ROWS))
        self.rows = rng.integers(0, ROWS, (clients, STEPS, BATCH))


def ours(round, name):
    from estimators.federated.jax_backend import JaxBackend
    from estimators.federated.models import convolutional_network, neural_network
    from estimators.federated.numpy_backend import NumpyBackend
    from estimators.federated.schedule import GaussianNoise, Schedule

    model = convolutional_network(784, 10, channels=(8,), size=3, hidden=(32,)) if round.cnn else neural_network()
    if name == "numba" and round.cnn:
        return {}
    backend = JaxBackend() if name == "jax" else NumpyBackend(workers=1)
    data = backend.prepare(model, list(zip(round.x, round.y, strict=True)))
    ones, divisors = np.ones(round.rows.shape), np.full(round.rows.shape[:2], BATCH)
    schedule = Schedule(np.arange(round.C), round.rows, ones, divisors, np.full(round.C, STEPS))
    start, noise = model.initialise(np.random.default_rng(1)), GaussianNoise(1.0, seed=0, round=0)
    more = {"plain": {}, "clipped": {"clip": 1.0}, "private": {"clip": 1.0, "noise": noise}}

    def way(how):
        return lambda: backend.local_sgd(model, start, data, schedule, learning_rate=RATE, **how)

    return {kind: way(how) for kind, how in more.items()}


def plain_jax(round, outer):
    import jax
    from jax import lax
    from jax import numpy as jnp

    x, y = jnp.asarray(round.x.reshape(-1, 784)), jnp.asarray(round.y.ravel())
    rows = jnp.asarray(round.rows + ROWS * np.arange(round.C)[:, None, None])
    rng = np.random.default_rng(1)
    shapes = (
        [(3, 3, 1, 8), (8,), (13 * 13 * 8, 32), (32,), (32, 10), (10,)] if round.cnn else [(784, 50), (50,), (50, 10), (10,)]
    )
    start = [jnp.asarray(0.05 * rng.standard_normal(shape), jnp.float32) for shape in shapes]

    def loss(w, a, t):
        if round.cnn:
            image = lax.conv_general_dilated(
                a.reshape(-1, 28, 28, 1), w[0], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            image = jax.nn.relu(image + w[1])
            a = lax.reduce_window(image, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").reshape(len(a), -1)
        first, bias, second, other = w[-4:]
        s = jax.nn.relu(a @ first + bias) @ second + other
        return (jax.nn.logsumexp(s, axis=1) - jnp.take_along_axis(s, t[:, None], 1)[:, 0]).mean()

    def program(kind):
        def client(indices, key, x, y):
            def step(w, at):
                index, key = at
                if kind == "plain":
                    total = jax.grad(loss)(w, x[index], y[index])
                else:
                    each = jax.vmap(jax.grad(loss), (None, 0, 0))(w, x[index][:, None], y[index][:, None])
                    norms = jnp.sqrt(sum((g**2).reshape(BATCH, -1).sum(1) for g in each))
                    total = [jnp.tensordot(jnp.minimum(1, 1 / norms), g, 1) / BATCH for g in each]
                if kind == "private":
                    keys = jax.random.split(key, len(w))
                    total = [g + jax.random.normal(k, g.shape) / BATCH for g, k in zip(total, keys, strict=True)]
                return [a - RATE * g for a, g in zip(w, total, strict=True)], None

            w, _ = lax.scan(step, start, (indices, jax.random.split(key, STEPS)))
            return jnp.concatenate([part.ravel() for part in w])

        def all_clients(rows, keys, x, y):
            if outer == "vmap":
                return jax.vmap(client, (0, 0, None, None))(rows, keys, x, y)
            return lax.map(lambda at: client(*at, x, y), (rows, keys))

        compiled, keys = jax.jit(all_clients), jax.random.split(jax.random.key(0), round.C)
        return lambda: np.asarray(compiled(rows, keys, x, y))

    return {kind: program(kind) for kind in KINDS}


def network_of(round):
    import torch

    nn = torch.nn
    if round.cnn:
        front = [
            nn.Unflatten(1, (1, 28, 28)),
            nn.Conv2d(1, 8, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(1352, 32),
        ]
        return nn.Sequential(*front, nn.ReLU(), nn.Linear(32, 10))
    return nn.Sequential(nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10))


def torch_loop(round):
    import torch

    torch.set_num_threads(1)
    x, y, rows = (torch.from_numpy(part) for part in (round.x, round.y, round.rows))
    first, measure = network_of(round).state_dict(), torch.nn.CrossEntropyLoss()

    def run():
        for k in range(round.C):
            network = network_of(round)
            network.load_state_dict(first)
            optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
            for index in rows[k]:
                optimizer.zero_grad()
                measure(network(x[k][index]), y[k][index]).backward()
                optimizer.step()

    return {"plain": run}


def torch_vmap(round):
    import torch
    from torch.func import functional_call, grad, vmap

    torch.set_num_threads(1)
    network = network_of(round)
    x, y, rows = (torch.from_numpy(part) for part in (round.x, round.y, round.rows))
    first = {name: value.detach() for name, value in network.named_parameters()}

    def loss(w, a, t):
        return torch.nn.functional.cross_entropy(functional_call(network, w, (a,)), t)

    def one(w, a, t):
        return grad(loss)(w, a[None], t[None])

    def runs(kind):
        def run():
            w = {name: value.expand(round.C, *value.shape).clone() for name, value in first.items()}
            for s in range(STEPS):
                a = torch.stack([x[k][rows[k, s]] for k in range(round.C)])
                t = torch.stack([y[k][rows[k, s]] for k in range(round.C)])
                if kind == "plain":
                    total = vmap(grad(loss))(w, a, t)
                else:
                    each = vmap(vmap(one, (None, 0, 0)))(w, a, t)
                    norms = sum(g.flatten(2).pow(2).sum(2) for g in each.values()).sqrt()
                    factor = (1 / norms).clamp(max=1) / BATCH
                    total = {name: torch.einsum("cb,cb...->c...", factor, g) for name, g in each.items()}
                if kind == "private":
                    total = {name: g + torch.randn_like(g) / BATCH for name, g in total.items()}
                w = {name: value - RATE * total[name] for name, value in w.items()}

        return run

    return {kind: runs(kind) for kind in KINDS}


def opacus(round):
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    torch.set_num_threads(1)
    x, y, rows = (torch.from_numpy(part) for part in (round.x, round.y, round.rows))
    first, measure = network_of(round).state_dict(), torch.nn.CrossEntropyLoss()

    def runs(noise):
        def run():
            for k in range(round.C):
                network = network_of(round)
                network.load_state_dict(first)
                network = GradSampleModule(network)
                inner = torch.optim.SGD(network.parameters(), lr=RATE)
                optimizer = DPOptimizer(inner, noise_multiplier=noise, max_grad_norm=1.0, expected_batch_size=BATCH)
                for index in rows[k]:
                    optimizer.zero_grad()
                    measure(network(x[k][index]), y[k][index]).backward()
                    optimizer.step()

        return run

    return {"clipped": runs(0.0), "private": runs(1.0)}


def pfl(round):
    if round.cnn:
        return {}
    rng, at = np.random.default_rng(1), np.arange(round.C)[:, None]
    layers = [0.05 * rng.standard_normal(shape).astype(np.float32) for shape in ((785, 50), (51, 10))]
    rows = round.rows.reshape(round.C, -1)
    with TemporaryDirectory() as folder:
        path = f"{folder}/problem"
        parts = {"x": round.x[at, rows], "y": round.y[at, rows], "first": layers[0], "second": layers[1]}
        np.savez(f"{path}.npz", **parts, rate=RATE, batch=BATCH)
        order = [sys.executable, str(Path(__file__).with_name("pfl_rounds.py")), path]
        process = subprocess.Popen(order, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # ends with its input
        process.stdout.readline()  # the first round is done, and the folder is not needed any more

    def run():
        process.stdin.write("\n")
        process.stdin.flush()
        return float(process.stdout.readline().split()[1])

    return {"plain": run}


def sgemm(round):
    if round.cnn:
        return {}
    rng = np.random.default_rng(0)
    a, first, second = (rng.random(shape, np.float32) for shape in ((BATCH, 785), (785, 50), (51, 10)))
    h, d, e = (rng.random(shape, np.float32) for shape in ((BATCH, 51), (BATCH, 10), (BATCH, 50)))
    outs = [np.empty(shape, np.float32) for shape in ((BATCH, 50), (BATCH, 10), (BATCH, 51), (51, 10), (785, 50))]

    def run():
        for _ in range(round.C * STEPS):
            products = (a, first), (h, second), (d, second.T), (h.T, d), (a.T, e)
            for (left, right), out in zip(products, outs, strict=True):
                np.matmul(left, right, out=out)

    return {"plain": run}


WAYS = {
    "numba": ("numba", lambda round: ours(round, "numba")),
    "jax": ("jax", lambda round: ours(round, "jax")),
    "plain-jax-map": ("jax", lambda round: plain_jax(round, "map")),
    "plain-jax-vmap": ("jax", lambda round: plain_jax(round, "vmap")),
    "torch-loop": ("torch", torch_loop),
    "torch-vmap": ("torch", torch_vmap),
    "opacus": ("opacus", opacus),
    "pfl": ("pfl", pfl),
    "sgemm": ("numpy", sgemm),
}


def measured(rows):
    """Least processor seconds of each kind of each of these rows, which take turns."""
    runs = {(row, kind): run for row in rows for kind, run in WAYS[row[1]][1](Round(CLIENTS[row[0]], row[0])).items()}
    least = dict.fromkeys(runs, np.inf)
    for run in runs.values():
        run()
    busy, times = 0.0, 0
    while times < REPEATS or busy < BUSY * len(rows):
        for at, run in runs.items():
            seconds = timed(run)
            busy, least[at] = busy + seconds, min(least[at], seconds)
        times += 1
    return least


def timed(run):
    """Processor seconds of a round: what it says of another process, else this one's."""
    begun = process_time()
    answer = run()
    return answer if isinstance(answer, float) else process_time() - begun


def machine():
    """The processor in words, and how busy it was."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.machine()
    return f"{name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"


def lines_of(rows):
    """The lines of rows, measured now in turns; without those whose package, or this kind of model, is missing."""
    there = [row for row in rows if importlib.util.find_spec(WAYS[row[1]][0])]
    found, lines = measured(there), []
    for model, way in there:
        seconds = {kind: f"{found[(model, way), kind]:.3g}" for kind in KINDS if ((model, way), kind) in found}
        if seconds:
            package, today = WAYS[way][0], datetime.date.today().isoformat()
            said = {"versions": f"{package} {version(package)}", "machine": machine(), "date": today}
            lines.append({"model": model, "way": way, **dict.fromkeys(KINDS, ""), **seconds, **said})
    return lines


def kept():
    """The lines that are there, by row."""
    if not LINES.exists():
        return {}
    with LINES.open(encoding="utf-8", newline="") as file:
        return {(found["model"], found["way"]): found for found in csv.DictReader(file)}


def keep(lines):
    """Write lines, in the order of ways."""
    part = LINES.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines[row] for row in ALL if row in lines)
    part.replace(LINES)


def page(lines):
    """The lines as tables."""
    text = []
    for model, clients in CLIENTS.items():
        text.append(f"## Processor seconds, {clients} clients, {STEPS} steps of {BATCH} rows: {MODELS[model]}")
        table = ["| way | plain | clipped | private | private / clipped | with | on |", "|---|---|---|---|---|---|---|"]
        for row in (lines[row] for row in ALL if row in lines and row[0] == model):
            both = row["private"] and row["clipped"]
            ratio = f"{float(row['private']) / float(row['clipped']):.2f}" if both else ""
            cells = [row["way"], *(row[kind] for kind in KINDS), ratio, row["versions"], f"{row['machine']}, {row['date']}"]
            table.append(f"| {' | '.join(cells)} |")
        text.append("\n".join(table))
    return "\n\n".join(text) + "\n"


MODELS = {
    "network": "a network of 784-50-10",
    "cnn": "images of 28 x 28, 8 filters of 3 x 3, a pool of 2, 32 hidden units, 10 classes",
}
ALL = [(model, way) for model in CLIENTS for way in WAYS]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", nargs="*", choices=["/".join(row) for row in ALL])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--together", action="store_true", help="all rows in one process, in turns: for ratios of them")
    parser.add_argument("--one", action="store_true", help="measure these rows here and print their lines")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    rows = [tuple(row.split("/")) for row in given.rows] if given.rows else [row for row in ALL if row not in kept()]
    if given.page:
        print(page(kept()), end="")
        return
    if given.one:
        print(json.dumps(lines_of(rows)))
        return
    for some in [rows] if given.together else [[row] for row in rows]:
        order = [given.python, "-m", "tests.bench.federated_speed", "--one", "--rows", *("/".join(row) for row in some)]
        answer = subprocess.run(order, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        for found in json.loads(answer):
            row = (found["model"], found["way"])
            print(*row, [found[kind] for kind in KINDS], flush=True)
            keep(kept() | {row: found})


if __name__ == "__main__":
    main()
