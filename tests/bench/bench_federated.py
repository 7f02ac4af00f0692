"""Rounds per second of local training: 100 clients, 50 steps of 10 examples each, the 784-50-10 network, float32.

Run with ``make bench``.  Every way gets the same batches (chosen beforehand) and starts; "plain" is the textbook loop over
clients and steps in NumPy (matrix products by its BLAS) and in PyTorch (skipped where it is not installed; a module, its
loss and ``torch.optim.SGD``).  The ways take turns and the fastest round of each counts.  ``extra_info`` holds rounds and
examples per second, and for the backend its ratio to the fastest plain loop; `AIM` is the issue's.  The ways "clipped" and
"private" (DP-SGD) are the backend's with per-example clipping, without and with noise; PyTorch's plain loop has neither.
"""

# pyright: reportMissingImports=false

import importlib.util
from time import perf_counter

import numpy as np
import pytest

from estimators.federated.models import neural_network
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.schedule import GaussianNoise, fixed_batches

AIM = 3.0
CLIENTS, STEPS, BATCH, RATE = 100, 50, 10, 0.1
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


@pytest.fixture(scope="module")
def ways():
    """Functions that train one round, each giving parameters (C, P)."""
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
    functions = {"backend": ours(), "clipped": ours(clip=1.0), "private": ours(clip=1.0, noise=noise), **loops}
    expected = functions["backend"]()
    for name in plain:
        np.testing.assert_allclose(loops[name](), expected, atol=2e-4)
    return functions


@pytest.fixture(scope="module")
def fastest(ways):
    """Seconds of the fastest of several rounds of each way, taken in turns."""
    times = dict.fromkeys(ways, np.inf)
    for _ in range(3):
        for name, run in ways.items():
            begun = perf_counter()
            run()
            times[name] = min(times[name], perf_counter() - begun)
    return times


@pytest.mark.benchmark(group="federated: one round of 100 clients")
@pytest.mark.parametrize("way", ["backend", "clipped", "private", "plain-numpy", "plain-torch-1", "plain-torch-2"])
def test_round(benchmark, ways, fastest, way):
    if way not in ways:
        pytest.skip("PyTorch is not installed")
    benchmark.pedantic(ways[way], rounds=2)
    plain = min(seconds for name, seconds in fastest.items() if name.startswith("plain"))
    info = {
        "rounds_per_s": 1 / fastest[way],
        "examples_per_s": CLIENTS * STEPS * BATCH / fastest[way],
        "ratio_to_fastest_plain": plain / fastest[way],
    }
    benchmark.extra_info.update(info)
    print(way, {name: round(value, 2) for name, value in info.items()})
    if way == "backend":
        assert info["ratio_to_fastest_plain"] > AIM


@pytest.mark.benchmark(group="federated: choosing batches")
def test_schedule(benchmark):
    sizes = [600] * CLIENTS
    benchmark.pedantic(fixed_batches, (sizes,), {"n_steps": STEPS, "batch_size": BATCH, "seed": 0, "round": 0}, rounds=5)
