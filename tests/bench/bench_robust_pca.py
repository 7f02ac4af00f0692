"""Robust PCA of client updates: the compiled pass beside plain NumPy by Gram matrix and by SVD, and blocks on threads.

Run with ``make bench``. All methods do the same number of iterations on the same matrix, taking turns, and the fastest run
of each counts, so that other load on the machine cancels. ``extra_info`` holds the time of an iteration, the ratio to the
SVD, and how far apart the splits are. A split of 50,000 x 20 by the default method must take at most a third of the SVD's
time and agree to 1e-10.
"""

from time import perf_counter

import numpy as np
import pytest

from estimators.server.robust_pca import noise_variances, robust_pca

METHODS = ("svd", "gram", "fused")
ITERATIONS = 20
TURNS = 3


def noisy_updates(p, n):
    gen = np.random.default_rng(p)
    variances = gen.choice([1.0, 8.0, 64.0, 512.0], n) * gen.uniform(1, 4, n)
    return np.sqrt(0.1) * gen.normal(size=(p, 1)) + np.sqrt(variances) * gen.normal(size=(p, n))


def fastest(calls, turns):
    """Shortest time of each call, taking turns, and what it returned."""
    times, found = np.empty((turns, len(calls))), [call() for call in calls]
    for row in times:
        for k, call in enumerate(calls):
            start = perf_counter()
            call()
            row[k] = perf_counter() - start
    return times.min(axis=0), found


@pytest.mark.parametrize("variant", ["published", "dense"])
def test_methods(benchmark, variant):
    updates = noisy_updates(50_000, 20)

    def split(method):
        return robust_pca(updates, variant=variant, method=method, max_iter=ITERATIONS)

    times, found = fastest([lambda m=m: split(m) for m in METHODS], TURNS)
    size = np.abs(updates).max()
    for method, seconds, result in zip(METHODS, times, found, strict=True):
        apart = max(np.abs(getattr(result, part) - getattr(found[0], part)).max() for part in ("sparse", "low_rank")) / size
        ratio = times[0] / seconds
        print(
            f"{variant} {method}: {1e3 * seconds / ITERATIONS:.2f} ms per iteration, {ratio:.2f} x, differs by {apart:.1e}"
        )
        benchmark.extra_info[method] = [round(1e3 * seconds / ITERATIONS, 2), round(ratio, 2), float(apart)]
        assert result.iterations == ITERATIONS
        assert apart <= 1e-10
    benchmark.pedantic(split, ("fused",), rounds=2)
    assert 3 * times[2] <= times[0]


def test_blocks_on_threads(benchmark):
    """A million parameters in blocks of 200,000, ten iterations each."""
    updates = noisy_updates(1_000_000, 20)

    def estimate(workers):
        return noise_variances(updates, block_rows=200_000, max_iter=10, workers=workers)

    times, found = fastest([lambda w=w: estimate(w) for w in (1, 2)], 2)
    print(f"1 worker {times[0]:.2f} s, 2 workers {times[1]:.2f} s, {times[0] / times[1]:.2f} x")
    benchmark.extra_info["speedup"] = round(times[0] / times[1], 2)
    assert found[0].variances.tolist() == found[1].variances.tolist()
    benchmark.pedantic(estimate, (2,), rounds=1)
