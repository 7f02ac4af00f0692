"""Cell arrays of numbers in a MATLAB 5 file (.mat, saved with -v7 or -v6), read without trust.

SciPy's reader unpacks without a limit, recurses as deep as cells are nested, and looks up types and shapes that the file
states without a check: a file with one wrong byte can end the whole process.  Here every size is checked against the bytes
that are there, nothing recurses, and whatever is wrong is a ValueError.

Format: MathWorks, MAT-File Format, version R2024a, "Level 5 MAT-Files".

Belongs here: the container.  What the cells mean is in ``files`` and ``loaders``.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import numpy as np

from estimators.system.untrusted import EXPANDED

__all__ = ["cell_arrays"]

MATRIX, PACKED, INT32, UINT32 = 14, 15, 5, 6  # types of elements
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CELL, SPARSE, NUMERIC = 1, 5, range(6, 16)  # classes of matrices
COMPLEX = 0x800  # among the flags


def cell_arrays(content: bytes, largest: int = EXPANDED) -> dict[str, Any]:
    """Variables of a MATLAB 5 file: dict from name to a list with the content of each cell, or None if it is no cell array.

    A cell's content is an array of numbers with at least two axes, or None for anything else.  Raises ValueError saying
    what is wrong; the file may unpack to at most `largest` bytes.
    """
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError("it has no header of version 5")
    found, left = {}, largest
    for kind, part in elements(content[128:], order):
        if kind == PACKED:
            part = unpacked(part, left)
            left -= len(part)
            inner = list(elements(part, order))
            if len(inner) != 1:
                raise ValueError("it has packed variables that are not one each")
            kind, part = inner[0]
        if kind != MATRIX:
            raise ValueError(f"it has an element of type {kind} in place of a variable")
        flags, shape, name, rest = matrix(part, order)
        cells = None
        if flags & 0xFF == CELL:
            if len(rest) != math.prod(shape) or any(kind != MATRIX for kind, _ in rest):
                raise ValueError(f"it has {len(rest)} cells in place of {math.prod(shape)}")
            places = np.arange(len(rest)).reshape(shape, order="F").ravel()
            cells = [array(rest[place][1], order) for place in places]
        found[name] = cells
    return found


def unpacked(part: Any, left: int) -> bytes:
    """The unpacked bytes, at most `left` of them."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(part, left + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(found) > left:
        raise ValueError("it unpacks to more bytes than are read")
    if not stream.eof:
        raise ValueError("it is cut off")
    return found


def elements(content: Any, order: str) -> Any:
    """Type and bytes of the elements one after the other."""
    content, at = memoryview(content), 0
    while at < len(content):
        if at + 8 > len(content):
            raise ValueError("it is cut off")
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start, after = at + 8, at + 8 + size + (0 if kind == PACKED else -size % 8)
        if kind >> 16:  # a small element: the size is in the upper half of the type, the data where the size would be
            kind, size, start, after = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        if start + size > len(content) or after < start + size:
            raise ValueError("it is cut off")
        yield kind, content[start : start + size]
        at = after


def matrix(part: Any, order: str) -> Any:
    """Flags, shape and name of a matrix, and the elements that hold what is in it; all of them empty for an empty one."""
    if not len(part):
        return NUMERIC[0], (0, 0), "", [(9, b"")]
    found = list(elements(part, order))
    if [kind for kind, _ in found[:3]] != [UINT32, INT32, 1] or len(found[0][1]) != 8 or len(found[1][1]) % 4:
        raise ValueError("it has a matrix without flags, shape and name")
    flags = int(np.frombuffer(found[0][1], f"{order}u4")[0])
    shape = tuple(np.frombuffer(found[1][1], f"{order}i4").tolist())
    if not 2 <= len(shape) <= 32 or min(shape) < 0 or math.prod(shape) * 8 > EXPANDED:
        raise ValueError(f"it has a matrix of shape {shape[:32]}")
    return flags, shape, bytes(found[2][1]).decode("latin-1"), found[3:]


def array(part: Any, order: str) -> np.ndarray | None:
    """The array of numbers in a cell, None if the cell holds something else."""
    flags, shape, _, rest = matrix(part, order)
    kind = flags & 0xFF
    if flags & COMPLEX or kind not in (SPARSE, *NUMERIC):
        return None
    columns = [numbers(part, order) for part in rest]
    if kind == SPARSE:
        return filled(shape, columns)
    if len(columns) != 1 or len(columns[0]) != math.prod(shape):
        raise ValueError(f"it has a matrix of shape {shape} without as many numbers")
    return columns[0].reshape(shape, order="F")


def numbers(element: Any, order: str) -> np.ndarray:
    """Numbers in an element."""
    kind, part = element
    if kind not in NUMBERS or len(part) % int(NUMBERS[kind][1]):
        raise ValueError(f"it has {len(part)} bytes of type {kind} in place of numbers")
    return np.frombuffer(part, f"{order}{NUMBERS[kind]}").astype(float)


def filled(shape: Any, columns: Any) -> np.ndarray:
    """The full array of a sparse one: row of each number, where the columns begin, the numbers."""
    if len(shape) != 2 or len(columns) != 3:
        raise ValueError("it has a sparse matrix without rows, columns and numbers")
    rows, begins, values = columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2]
    counts = np.diff(begins)
    n = len(values)
    if len(begins) != shape[1] + 1 or begins[0] != 0 or (counts < 0).any() or not begins[-1] <= n or len(rows) < begins[-1]:
        raise ValueError("it has a sparse matrix whose columns do not fit")
    n = int(begins[-1])
    if ((rows[:n] < 0) | (rows[:n] >= shape[0])).any():
        raise ValueError("it has a sparse matrix whose rows do not fit")
    full = np.zeros(shape)
    full[rows[:n], np.repeat(np.arange(shape[1]), counts)] = values[:n]
    return full
