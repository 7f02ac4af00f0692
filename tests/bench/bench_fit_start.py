"""Processor seconds of whole `borrow fit` processes, for each model: cold (nothing compiled on disk) and warm.

Run with ``make bench``.  Most of it is start-up: imports, and what Numba compiles.  A cold process gets an empty cache
of Numba; `extra_info` holds user and system time of both.  The table has 100 clients (regressions 30).
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import argparse
from figures.fit.command import add_arguments
parser = argparse.ArgumentParser()
add_arguments(parser)
arguments = parser.parse_args()
raise SystemExit(arguments.run(arguments))
"""
REGRESSION = ["--target", "y", "--features", "a,b"]
MODELS = {
    "means": {name: ["--model", name] for name in ("normal", "point-normal", "mixture", "points", "npmle")},
    "counts": {"beta-binomial": [], "npmle": ["--model", "npmle"]},
    "events": {"gamma-poisson": [], "npmle": ["--model", "npmle"]},
    "rows": {name: ["--model", name, *REGRESSION] for name in ("linear", "logistic")},
}


def table(kind):
    """A table of that kind as text."""
    rng, n = np.random.default_rng(0), 100
    if kind == "means":
        se = rng.uniform(0.5, 2, n)
        columns = {"estimate": np.where(rng.random(n) < 0.5, 0, rng.normal(0, 2, n)) + se * rng.standard_normal(n), "se": se}
    elif kind == "counts":
        trials = rng.integers(5, 60, n)
        columns = {"successes": rng.binomial(trials, rng.beta(2, 5, n)), "trials": trials}
    elif kind == "events":
        exposure = rng.uniform(1, 20, n)
        columns = {"count": rng.poisson(exposure * rng.gamma(2, 1, n)), "exposure": exposure}
    else:
        a, b = rng.normal(size=(2, 450))
        columns = {"y": (rng.random(450) < 1 / (1 + np.exp(-a + b))) * 1, "a": a, "b": b}
    size = len(next(iter(columns.values())))
    rows = zip((f"c{i * (30 if kind == 'rows' else n) // size}" for i in range(size)), *columns.values(), strict=True)
    return "\n".join([",".join(["client", *columns]), *(",".join(map(str, row)) for row in rows)])


def seconds(command, cache):
    """User and system seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-c", PROGRAM, *command], cwd=ROOT, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in MODELS.items() for name in names])
@pytest.mark.benchmark(group="start of borrow fit")
def test_start(benchmark, tmp_path, kind, name):
    file = tmp_path / "table.csv"
    file.write_text(table(kind))
    command = [str(file), *MODELS[kind][name], "--out", str(tmp_path / "out")]
    cold = [seconds(command, tmp_path / f"cache{i}") for i in range(2)]
    warm = []
    benchmark.pedantic(lambda: warm.append(seconds(command, tmp_path / "cache0")), rounds=3)
    benchmark.extra_info.update(cold=cold, warm=warm)
    print(f"borrow fit {kind} {name}: cold {min(cold):.2f} s, warm {min(warm):.2f} s of processor time")
