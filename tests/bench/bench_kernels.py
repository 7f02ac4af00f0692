"""Cost of each kernel, on draws and on a net, beside the bare cost of its draws and beside its NumPy twin.

Run with ``make bench``. ``extra_info`` holds ``ns_per_draw`` and ``ratio_to_bare``: the call and the bare
loop take turns and the fastest slice of each counts, in processor time, so that other load on the machine cancels. A slice
is about 10 ms: in slices of 1 ms the bare loop runs 12 % slower after a kernel than after itself, which
would flatter the kernel. The bare loop calls NumPy for every draw, as a user's loop would; the kernels write its generator
out, and so spend on arithmetic what they save on calls. The clients kernel must stay within `BOUND` times its draws.
"""

from time import thread_time

import numpy as np
import pytest

from estimators import montecarlo as mc
from estimators.montecarlo.kernels import bare_kernel
from estimators.montecarlo.nets import net

BOUND = 1.5
DRAWS = 2_000_000


def clients(n, aggregates, statistics):
    rng = np.random.default_rng(n)
    left, right = rng.standard_normal((2, statistics, 3 + aggregates))
    return mc.ClientsExperiment(1.0, 1.0, 1.0, 1, rng.random((aggregates, n)), left, right)


def regression(n, d):
    design = np.random.default_rng(n).standard_normal((n, d))
    return mc.RegressionExperiment(design, 0.0, 1.0, 1.0, np.linalg.pinv(design), 0.0)


EXPERIMENTS = {
    "clients-N6-A1-M1": clients(6, 1, 1),
    "clients-N6-A1-M3": clients(6, 1, 3),
    "clients-N6-A2-M3": clients(6, 2, 3),
    "clients-N30-A1-M1": clients(30, 1, 1),
    "clients-N30-A2-M3": clients(30, 2, 3),
    "regression-n10-d2": regression(10, 2),
    "regression-n40-d5": regression(40, 5),
    "james-stein-m10": mc.JamesSteinExperiment(10, 0.0, 1.0, 1.0, 0.5),
    "james-stein-m50": mc.JamesSteinExperiment(50, 0.0, 1.0, 1.0, 0.5),
}

CASES = [
    pytest.param(name, way, id=f"{name}-{way}", marks=pytest.mark.benchmark(group=name))
    for name in EXPERIMENTS
    for way in ("bare", "kernel", "net", "numpy")
]


def fastest(*calls, slices=25):
    """Shortest processor time of each call, taking turns."""
    times = np.empty((slices, len(calls)))
    for call in calls:
        call()
    for row in times:
        for k, call in enumerate(calls):
            start = thread_time()
            call()
            row[k] = thread_time() - start
    return times.min(axis=0)


@pytest.mark.parametrize(("name", "way"), CASES)
def test_cost(benchmark, name, way):
    experiment = EXPERIMENTS[name]
    gen = mc.stream(name, 0)
    # A whole number of the kernels' blocks: in a short run a partial block would cost extra draws.
    reps = DRAWS // experiment.draws_per_replicate // 64 * 64
    draws = reps * experiment.draws_per_replicate
    calls = {
        "bare": lambda: bare_kernel(gen, draws),
        "kernel": lambda: experiment.kernel_call(gen, reps),
        "net": lambda: experiment.kernel_call(net(name, 0, reps.bit_length(), experiment.net_order()), reps),
        "numpy": lambda: experiment.reference_call(gen, reps),
    }
    bare, measured = fastest(calls["bare"], calls[way])
    benchmark.extra_info["ns_per_draw"] = round(measured / draws * 1e9, 2)
    benchmark.extra_info["ratio_to_bare"] = round(measured / bare, 3)
    print(f"{name} {way}: {measured / draws * 1e9:.2f} ns per draw, {measured / bare:.2f} x the bare draws")
    benchmark.pedantic(calls[way], rounds=5, warmup_rounds=1)
    if way == "kernel" and name.startswith("clients"):
        assert measured <= BOUND * bare
