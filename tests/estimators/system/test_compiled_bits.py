"""Compiled code gives the same bits in the process that compiled it as in those that load it from numba's cache.

Functions that may reassociate sums are compiled once for each function that calls them, in an order of their own; which of
these copies a process calls must not depend on who compiled it.  So they are inlined wherever compiled code calls them.
"""

import importlib.util
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

from numba.core.dispatcher import Dispatcher

import estimators

CODE = """
import hashlib, numpy as np
from estimators import NonparametricMeans
from estimators.federated.models import neural_network
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.schedule import GaussianNoise, fixed_batches
from estimators.numerics import normal_mixture
from estimators.server.robust_pca import noise_variances

def bits(*arrays):
    return hashlib.md5(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()

g = np.random.default_rng(0)
updates = g.normal(size=(2000, 9)) * g.uniform(0.1, 3, 9) + g.normal(size=(2000, 1))
print("robust PCA", bits(noise_variances(updates).variances))
y, v = g.normal(size=1500), g.gamma(2, 0.5, 1500) + 0.1
model = NonparametricMeans().fit(y, v)
print("NPMLE", bits(model.posterior_mean_, model.masses_))
weights, means, sds = g.dirichlet(np.ones(5), 300), g.normal(size=(300, 5)), g.uniform(0.5, 2, (300, 5))
print("quantiles", bits(normal_mixture.quantile(0.1, weights, means, sds, compiled=True)))
net, noise = neural_network(30, 17, 5), GaussianNoise(1.0, 0, 0)
for precision in ("float32", "float64"):
    backend = NumpyBackend(dtype=precision)
    rows = backend.prepare(net, [(g.normal(size=(40, 30)), g.integers(0, 5, 40)) for _ in range(4)])
    steps = fixed_batches(rows.sizes, n_steps=20, batch_size=7, seed=0, round=0)
    how = {"learning_rate": 0.1, "clip": 0.7, "noise": noise}
    print(precision, bits(backend.local_sgd(net, backend.initialise(net, g), rows, steps, **how)))
"""


def test_code_that_was_loaded_gives_the_bits_of_code_that_was_compiled(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, loaded = (
        subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert len(compiled.splitlines()) == 5
    assert list(tmp_path.rglob("*.nbc"))
    assert loaded == compiled


def compiled_functions() -> dict[Dispatcher, str]:
    """Every compiled function of the estimators, with its name."""
    found = {}
    for info in pkgutil.walk_packages(estimators.__path__, "estimators."):
        spec = importlib.util.find_spec(info.name)
        if spec and spec.origin and "njit" in Path(spec.origin).read_text():
            for name, value in vars(importlib.import_module(info.name)).items():
                if isinstance(value, Dispatcher):
                    found[value] = f"{value.py_func.__module__}.{name}"
    return found


def test_what_may_reassociate_and_compiled_code_calls_is_inlined():
    functions = compiled_functions()
    called = {
        value
        for function in functions
        for name in function.py_func.__code__.co_names
        if isinstance(value := function.py_func.__globals__.get(name), Dispatcher)
    }
    free = {function for function in called if function.targetoptions.get("fastmath")}
    inlined = {f for f in free if f.targetoptions.get("forceinline") or f.targetoptions.get("inline") == "always"}
    assert {name.split(".")[-1] for f, name in functions.items() if f in free} >= {"_dot", "square_norm", "radii"}
    assert not [functions.get(f, f) for f in free - inlined]
