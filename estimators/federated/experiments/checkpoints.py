"""Files from which a stopped run goes on with the same bits, whatever the moment at which it was stopped.

A checkpoint is an npz of the algorithm's state and of a record, with a checksum over both.  It is written beside the last
one, made safe on the disk, and only then takes its name; the last one is kept as ``checkpoint.previous.npz``, unless both
together are larger than TWO.  `rest` says how long to wait after one, so that writing stays below RATE on average.

Belongs here: storing and loading states, what a full disk means.  Does not belong here: what the
record holds (``runs``).
"""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from estimators.federated.kinds import typed
from estimators.federated.own_rows import OwnRows
from estimators.system import files
from estimators.system.untrusted import read_arrays, read_json

__all__ = ["CHECKPOINT", "Damaged", "explained", "load", "remove", "rest", "save", "write"]

CHECKPOINT, PREVIOUS = "checkpoint.npz", "checkpoint.previous.npz"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TWO = 1 << 26
"""Bytes above which only one checkpoint is kept (64 MiB)."""
RATE = 2e6
"""Bytes that are written in a second at most, on average."""
RECORD, DIGEST = "__record__", "__sha256__"
ROWS = ("__clients__", "__first__", "__who__", "__rows__")


class Damaged(ValueError):
    """A stored file is not what was written."""


def write(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Write bytes to a file that appears whole or not at all, and is on the disk before it takes its name.

    The file that was there is kept as `keep`, if that is given.  Raises OSError saying what to do if the disk is full.
    """
    try:
        files.write(path, content, keep)
    except OSError as error:
        raise explained(error, path) from None


def explained(error: OSError, path: Path) -> Any:
    """The error, with what to do if the disk is full."""
    if error.errno not in FULL:
        return error
    return OSError(
        error.errno, f"the disk is full: {path} is not written; finished rounds are kept; free some space and run again"
    )


def digest(arrays: Mapping[str, Any]) -> str:
    """SHA-256 of names, types, shapes and contents."""
    found = sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        found.update(array.data if array.size else b"")
    return found.hexdigest()


@typed
def rest(state: Mapping[str, Any]) -> float:
    """Seconds from one checkpoint of a state to the next, at least.

    >>> rest({"personal": np.zeros((1000, 1000), np.float32)})
    2.0
    """
    return sum(value.nbytes if isinstance(value, OwnRows) else np.asarray(value).nbytes for value in state.values()) / RATE


def save(folder: Path, state: dict[str, Any], record: Mapping[str, Any]) -> None:
    """Store a state and a record (what JSON can hold) as the newest checkpoint of a folder, keeping the one before if both
    are small."""
    arrays = {}
    for name, value in state.items():
        if isinstance(value, OwnRows):  # those alone that were written
            kept = (np.array(len(value)), value.first, value.written, value[value.written])
            arrays |= {f"{name}{part}": array for part, array in zip(ROWS, kept, strict=True)}
        else:
            arrays[name] = np.asarray(value)
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(
                f"state {name!r} must be an array of numbers, to be stored; got {type(state.get(name)).__name__}"
            )
    arrays[RECORD] = np.frombuffer(json.dumps(record).encode(), dtype=np.uint8)
    arrays[DIGEST] = np.frombuffer(digest(arrays).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    content = stream.getvalue()
    both = 2 * len(content) <= TWO
    write(folder / CHECKPOINT, content, keep=folder / PREVIOUS if both else None)
    if not both:
        (folder / PREVIOUS).unlink(missing_ok=True)


def load(folder: Path) -> tuple[dict[str, np.ndarray | np.ndarray], Any, str] | None:
    """Newest whole checkpoint of a folder.

    Returns
    -------
    state, record and a message, which is empty unless a damaged file was passed over; None if there is no checkpoint.

    Raises Damaged if there are checkpoints, but none is whole.
    """
    problems = []
    for name in (CHECKPOINT, PREVIOUS):
        try:
            state, record = read(folder / name)
        except FileNotFoundError:
            continue
        except Damaged as error:
            problems.append(str(error))
            continue
        return state, record, f"{problems[0]}; going on from the checkpoint before it" if problems else ""
    if problems:
        raise Damaged(f"{'; '.join(problems)}; no whole checkpoint is left: --fresh starts this run anew")
    return None


def read(path: Path) -> tuple[dict[str, np.ndarray | np.ndarray], Any]:
    """State and record in one file."""
    try:
        content = path.read_bytes()
        arrays = read_arrays(content, what=str(path), largest=len(content))  # stored as they are, not packed
        wanted = arrays.pop(DIGEST).tobytes().decode()
        if digest(arrays) != wanted:
            raise Damaged(f"{path} is damaged (its checksum is wrong)")
        record = read_json(arrays.pop(RECORD).tobytes(), what="record", largest=len(content))
    except (ValueError, KeyError) as error:
        if isinstance(error, Damaged):
            raise
        raise Damaged(f"{path} is damaged or half written") from None
    kept = {}
    for name in [name.removesuffix(ROWS[0]) for name in arrays if name.endswith(ROWS[0])]:
        clients, first, who, rows = (arrays.pop(f"{name}{part}") for part in ROWS)
        kept[name] = OwnRows(first, int(clients))
        kept[name][who] = rows
    return {**{name: array[()] if array.ndim == 0 else array for name, array in arrays.items()}, **kept}, record


def remove(folder: Path) -> None:
    """Remove the checkpoints of a folder, once its result is written."""
    for path in (folder / CHECKPOINT, folder / PREVIOUS):
        path.unlink(missing_ok=True)
