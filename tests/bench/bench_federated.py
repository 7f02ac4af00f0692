"""Rounds per second of local training: 100 clients, 50 steps of 10 examples each, the 784-50-10 network, float32.

Run with ``make bench``.  Every way gets the same batches (chosen beforehand) and starts; "plain" is the textbook loop over
clients and steps in NumPy (matrix products by its BLAS) and in PyTorch (skipped where it is not installed; a module, its
loss and ``torch.optim.SGD``), "pfl" is pfl-research (skipped where it is not installed), in one process and in two, which
share the clients (``pfl_rounds``).  The ways take turns and the fastest round of each counts.  ``extra_info`` holds rounds
and examples per second, how many times as fast as the fastest of the others a way is, and the same for the seconds that
processors are busy, which other programs on the machine hardly change; `AIM` is the issue's.  All give clients' parameters,
but "averaged" and pfl their mean, so that "averaged" is compared with pfl where it is there.  The ways "clipped" and
"private" (DP-SGD) are the backend's with per-example clipping, without and with noise; the others have neither.
"""

# pyright: reportMissingImports=false

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pytest

from estimators.federated.models import neural_network
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.schedule import GaussianNoise, fixed_batches
from estimators.federated.task import weighted_sum

AIM = 3.0
CLIENTS, STEPS, BATCH, RATE = 100, 50, 10, 0.1
REPEATS = 3
OURS = ("backend", "averaged", "clipped", "private")
OTHERS = ("plain-numpy", "plain-torch-1", "plain-torch-2", "pfl-1", "pfl-2")
MODEL = neural_network()


def federation():
    rng = np.random.default_rng(0)
    return [(rng.random((600, 784), np.float32), rng.integers(0, 10, 600)) for _ in range(CLIENTS)]


def plain_numpy(clients, start, schedule):
    ends = []
    for i, k in enumerate(schedule.clients):
        x, y = clients[k]
        first, second = (layer.copy() for layer in MODEL.layers(start.astype(np.float32)))
        for rows in schedule.indices[i]:
            a = x[rows]
            h = np.maximum(a @ first[:-1] + first[-1], 0)
            scores = h @ second[:-1] + second[-1]
            slopes = np.exp(scores - scores.max(axis=1, keepdims=True))
            slopes /= slopes.sum(axis=1, keepdims=True)
            slopes[np.arange(BATCH), y[rows]] -= 1
            slopes *= np.float32(RATE / BATCH)
            below = slopes @ second[:-1].T * (h > 0)
            second[:-1] -= h.T @ slopes
            second[-1] -= slopes.sum(axis=0)
            first[:-1] -= a.T @ below
            first[-1] -= below.sum(axis=0)
        ends.append(np.concatenate([first.ravel(), second.ravel()]))
    return np.stack(ends)


def plain_torch(clients, start, schedule):
    import torch

    ends = []
    layers = [torch.from_numpy(np.array(layer, np.float32)) for layer in MODEL.layers(start)]
    network = torch.nn.Sequential(torch.nn.Linear(784, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
    measure = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    for i, k in enumerate(schedule.clients):
        x, y = (torch.from_numpy(part) for part in clients[k])
        with torch.no_grad():
            for module, layer in zip((network[0], network[2]), layers, strict=True):
                module.weight.copy_(layer[:-1].T)
                module.bias.copy_(layer[-1])
        for rows in torch.from_numpy(schedule.indices[i]):
            optimizer.zero_grad()
            measure(network(x[rows]), y[rows]).backward()
            optimizer.step()
        parts = ((m.weight.detach().T.flatten(), m.bias.detach()) for m in (network[0], network[2]))
        ends.append(torch.cat([piece for part in parts for piece in part]).numpy())
    return np.stack(ends)


def torch_with(threads):
    def run(*arguments):
        import torch

        torch.set_num_threads(threads)
        return plain_torch(*arguments)

    return run


class Pfl:
    """Processes that stand by to train a round in pfl."""

    def __init__(self, path, clients, start, schedule, processes):
        first, second = MODEL.layers(start.astype(np.float32))
        rows = [indices.ravel() for indices in schedule.indices]
        x, y = ([part[chosen] for part, chosen in zip(parts, rows, strict=True)] for parts in zip(*clients, strict=True))
        np.savez(f"{path}.npz", x=np.stack(x), y=np.stack(y), first=first, second=second, rate=RATE, batch=BATCH)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        command = [sys.executable, str(Path(__file__).with_name("pfl_rounds.py")), path]
        self.path, self.processes = path, []
        for rank in range(processes):
            several = {"TORCHELASTIC_RUN_ID": "0", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
            environment = {**os.environ, **where, **(several if processes > 1 else {})}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.processes.append(subprocess.Popen(command, env=environment, text=True, **pipes))
        self.wait()

    def wait(self):
        answer = self.processes[0].stdout.readline().split()
        if not answer:
            raise RuntimeError("pfl ended; run pfl_rounds.py by hand to see why")
        return float(answer[1]) * len(self.processes)

    def __call__(self):
        self.processes[0].stdin.write("\n")
        self.processes[0].stdin.flush()
        return self.wait()

    def stop(self):
        for process in self.processes:
            with process:  # closes its pipes and waits
                process.kill()


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    """Functions that train one round."""
    clients, start = federation(), MODEL.initialise(np.random.default_rng(1))
    schedule = fixed_batches([600] * CLIENTS, n_steps=STEPS, batch_size=BATCH, seed=0, round=0)
    backend = NumpyBackend(workers=2)
    data = backend.prepare(MODEL, clients)

    def ours(**how):
        return lambda: backend.local_sgd(MODEL, start, data, schedule, learning_rate=RATE, **how)

    plain = {"plain-numpy": plain_numpy}
    if importlib.util.find_spec("torch"):
        plain |= {"plain-torch-1": torch_with(1), "plain-torch-2": torch_with(2)}
    loops = {name: (lambda loop=loop: loop(clients, start, schedule)) for name, loop in plain.items()}
    noise = GaussianNoise(1.0, seed=0, round=0)
    functions = {
        "backend": ours(),
        "averaged": lambda: weighted_sum(np.full(CLIENTS, 1 / CLIENTS), ours()()),
        "clipped": ours(clip=1.0),
        "private": ours(clip=1.0, noise=noise),
        **loops,
    }
    expected = functions["backend"]()
    for name in plain:
        np.testing.assert_allclose(loops[name](), expected, atol=2e-4)
    processes = []
    if importlib.util.find_spec("pfl") and importlib.util.find_spec("torch"):
        for n in (1, 2):
            processes.append(Pfl(str(tmp_path_factory.mktemp("pfl") / "problem"), clients, start, schedule, n))
            functions[f"pfl-{n}"] = processes[-1]
            np.testing.assert_allclose(np.load(processes[-1].path + ".end.npy"), functions["averaged"](), atol=2e-5)
    yield functions
    for process in processes:
        process.stop()


@pytest.fixture(scope="module")
def fastest(ways):
    """Least seconds, and least seconds of processors, of several rounds of each way, taken in turns."""
    times = dict.fromkeys(ways, (np.inf, np.inf))
    for _ in range(REPEATS):
        for name, run in ways.items():
            begun, busy = perf_counter(), process_time()
            answer = run()
            busy = answer if isinstance(run, Pfl) else process_time() - busy
            times[name] = tuple(np.minimum(times[name], (perf_counter() - begun, busy)))
    return times


@pytest.mark.benchmark(group="federated: one round of 100 clients")
@pytest.mark.parametrize("way", [*OURS, *OTHERS])
def test_round(benchmark, ways, fastest, way):
    if way not in ways:
        pytest.skip("pfl or PyTorch is not installed")
    benchmark.pedantic(ways[way], rounds=1)
    seconds, busy = fastest[way]
    rivals = [name for name in OTHERS if name in fastest and (way != "averaged" or name.startswith("pfl"))]
    others = np.min([fastest[name] for name in rivals or OTHERS[:1]], axis=0)
    info = {
        "rounds_per_s": 1 / seconds,
        "examples_per_s": CLIENTS * STEPS * BATCH / seconds,
        "ratio_to_fastest_other": others[0] / seconds,
        "processor_s": busy,
        "processor_ratio": others[1] / busy,
    }
    benchmark.extra_info.update(info)
    print(way, {name: round(float(value), 3) for name, value in info.items()})
    if way in ("backend", "averaged"):
        assert info["ratio_to_fastest_other"] > AIM


@pytest.mark.benchmark(group="federated: choosing batches")
def test_schedule(benchmark):
    sizes = [600] * CLIENTS
    benchmark.pedantic(fixed_batches, (sizes,), {"n_steps": STEPS, "batch_size": BATCH, "seed": 0, "round": 0}, rounds=5)
