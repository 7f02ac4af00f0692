"""Clients that stream by: time for one and peak memory, at 10^5, 10^6 and 10^7 clients, each in a fresh process.

Run with ``make bench``.  Beside it, in the same process: ``np.add.at``-free grouped sums with NumPy's bincount, which
round, and whose bits depend on the batches.  ``extra_info`` holds ``ns_per_client``, ``ns_numpy`` and ``peak_mb``.
"""

import json
import subprocess
import sys

import pytest

CODE = """
import json, resource, sys, time
import numpy as np
from estimators.normal_means.streaming import GaussianTally

total, size = int(sys.argv[1]), 100_000
rng = np.random.default_rng(0)
GaussianTally.of([1.0, 2.0], [1.0, 1.0]).fit()  # compile
tally, spent, plain = GaussianTally(), 0.0, 0.0
for _ in range(total // size):
    n = rng.integers(1, 50, size)
    v = 2.0 / n
    y = rng.normal(0, np.sqrt(1 + v))
    start = time.perf_counter()
    tally.add(y, v)
    spent += time.perf_counter() - start
    start = time.perf_counter()
    known, place = np.unique(v, return_inverse=True)
    np.bincount(place), np.bincount(place, y), np.bincount(place, y * y)
    plain += time.perf_counter() - start
start = time.perf_counter()
prior = tally.fit()
print(json.dumps({
    "ns_per_client": spent / total * 1e9, "ns_numpy": plain / total * 1e9, "fit_ms": (time.perf_counter() - start) * 1e3,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "tau2": prior.tau2,
}))
"""

PASSES = """
import json, resource, sys, time
import numpy as np
from estimators.normal_means.streaming_passes import fit_passes

total, size = int(sys.argv[1]), 100_000

def batches():
    for part in range(total // size):
        rng = np.random.default_rng(part)
        v = rng.uniform(0.1, 3.0, size)
        yield rng.normal(0, np.sqrt(1 + v)), v

fit_passes(lambda: iter([([1.0, 2.0], [1.0, 2.0])]))  # compile
start = time.perf_counter()
for _ in batches():
    pass
draws = time.perf_counter() - start
start = time.perf_counter()
prior = fit_passes(batches)
spent = time.perf_counter() - start - (prior.n_iter + 1) * draws
print(json.dumps({
    "ns_per_client": spent / total * 1e9, "passes": prior.n_iter + 1, "tau2": prior.tau2,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


@pytest.mark.benchmark(group="streaming")
@pytest.mark.parametrize("clients", [10**5, 10**6, 10**7])
@pytest.mark.parametrize("code", [CODE, PASSES], ids=["tally", "passes"])
def test_stream(benchmark, clients, code):
    if code is PASSES and clients > 10**6:
        pytest.skip("ten passes over the draws of 10^7 clients take minutes")

    def run():
        ran = subprocess.run([sys.executable, "-c", code, str(clients)], capture_output=True, text=True, check=True)
        return json.loads(ran.stdout)

    found = benchmark.pedantic(run, rounds=1, iterations=1)
    benchmark.extra_info.update(found)
    print(clients, found)
    assert abs(found["tau2"] - 1) < 20 / clients**0.5
