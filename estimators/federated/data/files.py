"""Reading of data files: checksums, IDX, npz, CIFAR-10 binary, MATLAB cells, LEAF json.

Every reader takes the file's bytes once, so that what is parsed is what was hashed, and none of them runs code from a
file: arrays of Python objects are refused.  A damaged file raises a ValueError that names it, what is wrong, and the fix.

Belongs here: formats.  Published checksums are in ``checksums``; which files make a data set is in ``loaders``.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from estimators.federated.data.checksums import KNOWN
from estimators.federated.data.matlab import cell_arrays
from estimators.federated.kinds import typed
from estimators.numerics.validation import index
from estimators.system.untrusted import EXPANDED, gunzip, names_of_arrays, read_arrays, read_bytes, read_json

__all__ = ["Reader", "cifar_binary", "idx", "leaf", "matlab_cells", "npz"]

AGAIN = "copy or download it again"


class Reader:
    """Reads files of one data set, and keeps for the provenance what was read.

    Parameters
    ----------
    dataset : str, a name in `KNOWN`; a published file of another data set is refused.
    sha256 : None, or a dict from file name to the SHA-256 that the file must have (a str: for any one file).
    """

    @typed
    def __init__(self, dataset: str, sha256: str | None = None) -> None:
        self.dataset, self.sha256, self.files = dataset, sha256, []

    @typed
    def read(self, path: str | Path, part: str | None = None) -> bytes:
        """Bytes of the file, after its checksum; `part` is what it is taken for (a published file must agree)."""
        path = Path(path)
        try:
            content = read_bytes(path, largest=EXPANDED)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist; give the path of your own copy of {self.dataset}") from None
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from error
        digest = hashlib.sha256(content).hexdigest()
        wanted = self.sha256.get(path.name) if isinstance(self.sha256, dict) else self.sha256
        if wanted is not None and digest != str(wanted).lower():
            raise ValueError(
                f"{path} has SHA-256 {digest}, not {wanted} as asked: it is damaged or another version; {AGAIN}"
            )
        known = KNOWN.get(digest)
        if known and known[0] != self.dataset:
            raise ValueError(f"{path} is {known[2]} of {known[0]}, not a file of {self.dataset}; check the path")
        if known and part and known[1] not in (part, "all"):
            raise ValueError(f"{path} holds the {known[1]} of {self.dataset}, but is taken as {part}; check its name")
        record = {"path": str(path), "bytes": len(content), "sha256": digest, "published": known[2] if known else None}
        self.files.append(record)
        return content

    def provenance(self, **more: Any) -> dict[str, Any]:
        """Plain record of the data set and the files read; a checksum for a file that was not read is an error."""
        read = {Path(file["path"]).name for file in self.files}
        unread = sorted(set(self.sha256) - read) if isinstance(self.sha256, dict) else []
        if unread:
            raise ValueError(f"sha256 names {unread[0]}, which was not read (read were {', '.join(sorted(read))}); check it")
        return {"dataset": self.dataset, "files": list(self.files), **more}


@typed
def idx(content: bytes, path: str | Path, dimensions: int) -> np.ndarray:
    """Array of unsigned bytes of an IDX file (plain or gzip) with that many dimensions.

    Format: http://yann.lecun.com/exdb/mnist (1998): two zero bytes, a type byte (8: unsigned byte), the number of
    dimensions, their lengths as big-endian 32-bit numbers, the data.

    >>> idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels-idx1-ubyte", 1).tolist()
    [7, 9]
    """
    if content[:2] == b"\x1f\x8b":
        try:
            content = gunzip(content, what=str(path))
        except ValueError as error:
            raise ValueError(f"{error}; {AGAIN}") from None
    head = 4 + 4 * index("dimensions", dimensions, 1, 255)
    if len(content) < head or content[:4] != bytes([0, 0, 8, dimensions]):
        raise ValueError(
            f"{path} does not begin as an IDX file of unsigned bytes with {dimensions} dimension(s) does "
            f"(0, 0, 8, {dimensions}), but with {', '.join(map(str, content[:4])) or 'nothing'}; "
            "check that it is the images (3) or the labels (1), and copy it again"
        )
    shape = struct.unpack(f">{dimensions}I", content[4:head])
    needed = head + int(np.prod(shape, dtype=object))
    if len(content) != needed:
        size = "half" if len(content) < needed else "too long"
        raise ValueError(
            f"{path} is {size}: its header promises {needed} bytes for shape {shape}, it has {len(content)}; {AGAIN}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)


@typed
def npz(content: bytes, path: str | Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Dict of the named arrays in an npz file; see ``untrusted.read_arrays`` for what is refused."""
    try:
        there = names_of_arrays(content, what=str(path))
        wanted = (*required, *(name for name in optional if name in there))
        return read_arrays(content, what=str(path), names=wanted)
    except ValueError as error:
        raise ValueError(f"{error}; {AGAIN}, or rename its arrays to {', '.join(required)}") from None


@typed
def cifar_binary(content: bytes, path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 32, 32, 3) and labels (n,) of a CIFAR-10 batch in the binary version (Krizhevsky 2009)."""
    record = 1 + 3 * 32 * 32
    if len(content) == 0 or len(content) % record:
        raise ValueError(
            f"{path} has {len(content)} bytes, no multiple of {record} (a label and 3 x 32 x 32 pixels); {AGAIN}"
        )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    if rows[:, 0].max() > 9:
        raise ValueError(f"{path} has the label {rows[:, 0].max()}, above 9: it is not CIFAR-10 in the binary version")
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0]


@typed
def matlab_cells(content: bytes, path: str | Path, pairs: Any) -> tuple[Any, list[Any]]:
    """Features and targets of each client, from two cell arrays of a .mat file.

    Parameters
    ----------
    pairs : pairs of variable names, tried in order.

    Returns
    -------
    list of float arrays (n_k, d), list of float arrays (n_k,).
    """
    if content[124:128] in (b"\x00\x02IM", b"\x02\x00MI"):
        raise ValueError(f"{path} is a MATLAB 7.3 (HDF5) file; save it again in MATLAB with -v7")
    try:
        stored = cell_arrays(content)
    except ValueError as error:
        raise ValueError(f"{path} is no MATLAB file, or a damaged one ({error}); {AGAIN}") from None
    features, targets = next((pair for pair in pairs if set(pair) <= stored.keys()), (None, None))
    if features is None:
        asked = " or ".join(f"{a} and {b}" for a, b in pairs)
        raise ValueError(
            f"{path} has the variables {', '.join(stored)[:200] or 'nothing'}; needed are the cell arrays {asked}, with one "
            "cell per client"
        )
    x, y = stored[str(features)], stored[str(targets)]
    if not x or not y or len(x) != len(y):
        raise ValueError(f"{path}: {features} and {targets} must be cell arrays with one cell per client and equally many")
    for k, pair in enumerate(zip(x, y, strict=True)):
        if any(cell is None for cell in pair):
            raise ValueError(f"{path}: the cell of client {k} does not hold numbers")
    return x, [cell.ravel() for cell in y]


@typed
def leaf(content: bytes, path: str | Path) -> dict[str, Any]:
    """Users of a LEAF json file: dict from name to features (n, d) and labels (n,).

    Format: LEAF (Caldas et al. 2018), keys `users` and `user_data`, where a user's data has lists x and y.
    """
    try:
        stored = read_json(content, what="it", largest=EXPANDED)
    except ValueError as error:
        raise ValueError(f"{path} is no json file, or a damaged one ({error}); {AGAIN}") from None
    try:
        pairs = {str(user): (stored["user_data"][user]["x"], stored["user_data"][user]["y"]) for user in stored["users"]}
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"{path} is no LEAF file: it lacks `users`, or `user_data` with x and y for each ({error})"
        ) from None
    users = {}
    for user, (x, y) in pairs.items():
        try:
            with np.errstate(over="ignore"):  # what is too large becomes an infinity, which is refused later
                users[user] = np.asarray(x, dtype=np.float32), np.asarray(y, dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{path}: user {user} has rows of unequal length or entries that are no numbers") from None
        rows, labels = (np.shape(part)[0] if np.ndim(part) else 0 for part in users[user])
        if rows == 0 or rows != labels:
            raise ValueError(f"{path}: user {user} has {rows} rows and {labels} labels; drop the user or repair the file")
    if not users:
        raise ValueError(f"{path} lists no user")
    return users
