"""Processor seconds to reach 1e-2, 1e-3, 1e-4 and 1e-5 on the same risks: plain NumPy, plain Numba, JAX, and ours.

Run with ``make bench``, which prints the table; one processor. A digit is reached when the standard error is that small,
relative to the risk. What draws plainly has a cost per replicate, measured on `REPS` replicates, and an error that falls
like their root, so that its seconds follow. Ours is run on 16 nets of growing size until its own standard error, over
randomisations, is small enough, and its seconds are those of that run. Numba's loop is what a user would write: one
replicate after another. Compilation is left out everywhere. Where JAX is not installed its row says so.
"""

import math
from time import process_time

import numpy as np
import pytest
from numba import njit

from estimators import montecarlo as mc

REPS = 2**18
TARGETS = 1e-2, 1e-3, 1e-4, 1e-5
NETS = 16


def risk(clients):
    """Error of client 0's estimate, half its own and half the mean of all messages; draws stand client by client."""
    form = np.array([-0.5, 0.5, 0.0, 0.5])
    return mc.ClientsExperiment(0.5, 1.0, 1.0, 0, np.full(clients, 1 / clients), form, form)


RISKS = {f"{clients} clients, {3 * clients} draws": clients for clients in (6, 30)}


@njit
def numba_loop(gen, reps, clients, tau, alpha, nu):
    """Mean and mean square of the squared error."""
    first = second = 0.0
    for _ in range(reps):
        mean = own = noise = 0.0
        for i in range(clients):
            p, e = tau * gen.standard_normal(), alpha * gen.standard_normal()
            mean += (p + e + nu * gen.standard_normal()) / clients
            if i == 0:
                own, noise = p, e
        square = (0.5 * (own + noise) + 0.5 * mean - own) ** 2
        first += square
        second += square * square
    return first / reps, second / reps


def by_numpy(clients):
    moments = risk(clients).reference_call(mc.stream("digits", 0), REPS)
    return moments.mean[0], moments.standard_deviation([1])


def by_numba(clients):
    mean, square = numba_loop(mc.stream("digits", 1), REPS, clients, math.sqrt(0.5), 1.0, 1.0)
    return mean, math.sqrt(square - mean**2)


def by_jax(clients):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    @jax.jit
    def squares(key):
        p, e, noise = jax.random.normal(key, (3, clients, REPS))
        p = math.sqrt(0.5) * p
        square = (0.5 * (p[0] + e[0]) + 0.5 * (p + e + noise).mean(axis=0) - p[0]) ** 2
        return square.mean(), square.std()

    return lambda seed: [float(x) for x in squares(jax.random.key(seed))]


def seconds_of(call):
    """Processor seconds of the faster of two calls after a first one, and what it returns."""
    call()
    best, found = math.inf, None
    for _ in range(2):
        start = process_time()
        found = call()
        best = min(best, process_time() - start)
    return best, found


def plain_row(call):
    """Seconds to each target, from the cost and the spread of one replicate."""
    spent, (mean, deviation) = seconds_of(call)
    return [spent / REPS * (deviation / mean / target) ** 2 for target in TARGETS], mean


def net_row(clients):
    """Seconds of the smallest nets whose standard error reaches each target."""
    row, size, experiment, mean = [], 6, risk(clients), math.nan
    for target in TARGETS:
        while True:
            start = process_time()
            mean, error = mc.run_nets(experiment, size, NETS, "digits", threads=1).linear([1])
            spent = process_time() - start
            if error <= target * mean or size == 26:
                break
            size += 1
        row.append(spent if error <= target * mean else math.inf)
    return row, mean


def line(name, row):
    return f"{name:<14}" + "".join(f"{seconds:>12.2g}" for seconds in row)


@pytest.mark.parametrize("name", RISKS)
def test_seconds_to_a_digit(benchmark, name):
    clients = RISKS[name]
    mc.run_nets(risk(clients), 6, NETS, "compiled", threads=1)
    rows = {"plain NumPy": plain_row(lambda: by_numpy(clients)), "plain Numba": plain_row(lambda: by_numba(clients))}
    try:
        squares = by_jax(clients)
        rows["JAX"] = plain_row(lambda: squares(1))
    except pytest.skip.Exception:
        rows["JAX"] = None
    rows["ours"] = net_row(clients)
    print(f"\n{name}: processor seconds to a relative standard error of\n{'':<14}" + "".join(f"{t:>12.0e}" for t in TARGETS))
    for who, found in rows.items():
        print(line(who, found[0]) if found else f"{who:<14}  not installed")
    means = [found[1] for found in rows.values() if found]
    assert max(means) / min(means) < 1.05  # the same risk
    benchmark.extra_info.update({who: found[0] for who, found in rows.items() if found})
    benchmark.pedantic(lambda: mc.run_nets(risk(clients), 12, NETS, "digits", threads=1), rounds=3)
