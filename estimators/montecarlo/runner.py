"""Running experiments in chunks on threads, with results that do not depend on the threads.

Belongs here: chunks, their streams, threads.  Does not belong here: what is simulated (``experiments``), drawing
(``kernels``), what a result should be (``checks``).

Chunk ``k`` of a run holds `CHUNK` replicates (the last chunk may hold fewer) from its own stream, and chunks are merged in
the order of their numbers, so the result is the same to the last bit for any number of threads, any order of completion
and any split of the chunks among workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .experiments import Experiment, integer
from .independence import require_independent, require_own_streams
from .moments import Moments, combine
from .streams import DEFAULT_ROOT, stream

CHUNK = 65_536
"""Replicates per chunk. A constant, because changing it changes every random draw."""


def n_chunks(reps: int) -> int:
    """Number of chunks of a run of `reps` replicates."""
    if integer("reps", reps) < 1:
        raise ValueError(f"reps must be >= 1, got {reps}")
    return -(-reps // CHUNK)


def run_chunks(
    experiment: Experiment,
    reps: int,
    key: str,
    chunks: Iterable[int],
    *,
    threads: int | None = None,
    root: int = DEFAULT_ROOT,
) -> dict[int, Moments]:
    """Simulate some of the chunks of a run; any worker may do any of them, in any order.

    Parameters
    ----------
    experiment : Experiment
    reps : int, >= 1
        Replicates of the whole run.
    key : str
        Names the streams (see `streams.stream`).
    chunks : iterable of int
        Chunk numbers, in ``0 .. n_chunks(reps) - 1``.
    threads : int, optional
        Default: all CPUs this process may use.
    root : int
        Root seed.

    Returns
    -------
    dict
        Chunk number to its moments. Merge the dicts of all workers, then `merge_chunks`.

    Raises
    ------
    ValueError
        Naming the argument outside its domain, or if the chunks did not draw from streams of their own.

    Notes
    -----
    Processes, or a cluster by joblib's backends for Dask and Ray, do a run in three lines with the same bits::

        work = (delayed(run_chunks)(experiment, reps, key, [k], threads=1) for k in range(n_chunks(reps)))
        parts = Parallel(n_jobs=8)(work)
        moments = merge_chunks({k: v for part in parts for k, v in part.items()}, reps)

    A chunk leaves some 2 kB for each statistic, whatever its replicates.
    """
    total = n_chunks(reps)
    chunks = list(chunks)
    for chunk in chunks:
        if not 0 <= integer("chunks", chunk) < total:
            raise ValueError(f"chunks must be in 0 .. {total - 1}, got {chunk}")

    def simulate(chunk):
        generator = stream(key, chunk, root)
        before = _flat(generator.bit_generator.state)
        moments = experiment.kernel_call(generator, min(CHUNK, reps - chunk * CHUNK))
        return generator, before, _flat(generator.bit_generator.state), moments

    used = dict(zip(chunks, mapped(simulate, chunks, threads), strict=True))
    require_own_streams(used)
    return {chunk: moments for chunk, (*_, moments) in used.items()}


def merge_chunks(parts: Mapping[int, Moments], reps: int) -> Moments:
    """Merge the moments of all chunks of a run, in the order of their numbers.

    Raises
    ------
    ValueError
        If a chunk is missing, foreign or of the wrong size, or if replicates are not independent (``independence``).
    """
    if sorted(parts) != list(range(n_chunks(reps))):
        raise ValueError(f"parts must hold the chunks 0 .. {n_chunks(reps) - 1} exactly, got {sorted(parts)}")
    merged = combine(parts[chunk] for chunk in sorted(parts))
    if merged.count != reps:
        raise ValueError(f"parts hold {merged.count} replicates, expected reps = {reps}")
    require_independent([parts[chunk] for chunk in sorted(parts)])
    return merged


def run(
    experiment: Experiment,
    reps: int,
    key: str,
    *,
    threads: int | None = None,
    root: int = DEFAULT_ROOT,
) -> Moments:
    """Moments of `reps` replicates; the bits depend on (experiment, reps, key, root) only.

    Parameters and errors: see `run_chunks`.
    """
    chunks = range(n_chunks(reps))
    return merge_chunks(run_chunks(experiment, reps, key, chunks, threads=threads, root=root), reps)


def mapped(function: Callable[[Any], Any], tasks: Sequence[Any], threads: int | None) -> list[Any]:
    """``map`` on threads (default: all CPUs this process may use), in the order of the tasks."""
    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if integer("threads", threads) < 1:
        raise ValueError(f"threads must be >= 1, got {threads}")
    if threads == 1 or len(tasks) <= 1:
        return list(map(function, tasks))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, tasks))


def _flat(state):
    """State of a bit generator, so that it can be compared."""
    if isinstance(state, dict):
        return tuple((name, _flat(part)) for name, part in state.items())
    return state.tobytes() if isinstance(state, np.ndarray) else state
