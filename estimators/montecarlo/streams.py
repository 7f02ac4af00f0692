"""Independent random streams, one per fixed-size chunk of replicates.

Belongs here: how a key, a root seed and a chunk number become a NumPy ``Generator``.
Does not belong here: drawing anything, chunk sizes, threads.

Why chunks: chunk ``k`` of key ``key`` always gets the same stream, whoever simulates it and
whenever, so results cannot depend on threads or workers. A ``Generator`` shared between threads
(for instance inside numba's ``prange``) silently repeats draws, so no generator is ever shared.

Why SFC64: it is the fastest bit generator NumPy offers and numba compiles (4.4 ns per normal in a
compiled loop against 5.5 for PCG64 and 8.5 for Philox, 2.5 GHz Xeon), and numba and NumPy draw the same
normals from it. Streams are told apart by 192 seeded bits of state, so overlaps are out of the question.
"""

from __future__ import annotations

from operator import index
from zlib import crc32

import numpy as np

DEFAULT_ROOT = 20_240_229
"""Root seed used unless the caller passes another one."""


def stream(key: str, chunk: int, root: int = DEFAULT_ROOT) -> np.random.Generator:
    """Generator of one chunk, made without making those of the other chunks.

    Two keys that differ in one place of at most four bytes (``"...#stage1"`` and ``"...#stage2"``)
    have different CRC-32 values by construction, hence independent streams.

    Parameters
    ----------
    key : str
        Names the experiment, for instance a claim id and a stage.
    chunk : int, >= 0
    root : int, >= 0
        Root seed; the same root gives the same bits.

    Returns
    -------
    numpy.random.Generator
        On an SFC64 bit generator.

    Raises
    ------
    ValueError
        If `key` is empty, or `chunk` or `root` is negative.

    Examples
    --------
    >>> float(stream("example", 3).random()) == float(streams("example", 5)[3].random())
    True
    """
    if not isinstance(key, str) or not key:
        raise ValueError(f"key must be a non-empty string, got {key!r}")
    if index(chunk) < 0:
        raise ValueError(f"chunk must be >= 0, got {chunk}")
    if index(root) < 0:
        raise ValueError(f"root must be >= 0, got {root}")
    # Equal to SeedSequence([root, crc]).spawn(chunk + 1)[chunk].
    seed = np.random.SeedSequence([index(root), crc32(key.encode())], spawn_key=(index(chunk),))
    return np.random.Generator(np.random.SFC64(seed))


def streams(key: str, n_chunks: int, root: int = DEFAULT_ROOT) -> list[np.random.Generator]:
    """Generators of the chunks ``0 .. n_chunks - 1`` (see `stream`)."""
    if index(n_chunks) < 1:
        raise ValueError(f"n_chunks must be >= 1, got {n_chunks}")
    return [stream(key, chunk, root) for chunk in range(index(n_chunks))]
