"""Rows that many clients keep, of which few have ever been written: what a client keeps that never took part is one row.

A dense array of the small network's parameters takes 16 GB for 1e5 clients.  `rows_of` gives such an array while it is
small, which is fastest, and `OwnRows` beyond DENSE: rows that were written lie in a file without a name, in the order in
which they came, so that memory holds the rows that a round asks for and 8 bytes per client.  Both have the same bits.

Belongs here: `OwnRows`, `Shards` of what is computed of them.  Does not belong here: what is kept (``algorithms``),
checkpoints (``experiments.checkpoints``).
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from numpy import ndarray  # by this name `typed` tells it

from estimators.federated.kinds import typed

__all__ = ["DENSE", "SHARD", "OwnRows", "Shards", "rows_of"]

DENSE = 1 << 28
"""Bytes up to which rows of all clients are one array in memory."""
SHARD = 4096
"""Clients whose own models are in memory at once where there are more, of measures; so many rows are copied at once, too."""


@typed
def rows_of(first: ndarray, clients: int) -> Any:
    """The same first row (P,) for each client: an array (K, P), or `OwnRows` if that is larger than DENSE.

    >>> rows_of(np.zeros(3), 2).shape
    (2, 3)
    """
    return OwnRows(first, clients) if first.nbytes * clients > DENSE else np.tile(first, (clients, 1))


class OwnRows:
    """Rows (K, P) that are `first` (P,) until they are written; reading some gives an array of their own.

    Parameters
    ----------
    first : array (P,); clients : whole number >= 1.

    >>> rows = OwnRows(np.array([1.0, 2.0]), 10**6)
    >>> rows[np.array([7, 3])] = np.array([[5.0, 6.0], [7.0, 8.0]])
    >>> rows[np.array([3, 4, 7])].tolist(), rows.written.tolist()
    ([[7.0, 8.0], [1.0, 2.0], [5.0, 6.0]], [7, 3])
    """

    ndim = 2

    @typed
    def __init__(self, first: ndarray, clients: int) -> None:
        self.first, self.shape, self.dtype = np.array(first), (clients, len(first)), first.dtype
        self.place = np.full(clients, -1)
        self.who, self.n = np.empty(0, np.int64), 0
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the rows do
        weakref.finalize(self, self.file.close)

    def __len__(self):
        return self.shape[0]

    @property
    def written(self) -> np.ndarray:
        """Positions of the clients that have a row of their own, in the order in which they came."""
        return self.who[: self.n]

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept, of the file and of memory."""
        return self.n * self.first.nbytes + self.place.nbytes

    def __getitem__(self, clients: Any) -> np.ndarray:
        places = self.place[clients]
        found = np.empty((*places.shape, self.shape[1]), self.dtype)
        found[...] = self.first
        rows = found.reshape(-1, self.shape[1])
        for i in np.flatnonzero(places >= 0):
            self._move(os.preadv, rows[i], int(places.flat[i]))
        return found

    def __setitem__(self, clients: Any, rows: Any) -> None:
        clients = np.atleast_1d(np.arange(len(self))[clients])
        rows = np.broadcast_to(np.asarray(rows, self.dtype), (len(clients), self.shape[1]))
        for client, row in zip(clients.tolist(), rows, strict=True):
            if self.place[client] < 0:
                if self.n == len(self.who):
                    self.who = np.concatenate([self.who, np.empty(max(64, self.n), np.int64)])
                self.place[client], self.who[self.n] = self.n, client
                self.n += 1
            self._move(os.pwritev, np.ascontiguousarray(row), int(self.place[client]))

    def _move(self, call: Callable[..., int], row: np.ndarray, place: int) -> None:
        """Read or write one row of the file; the whole of it, or an OSError."""
        left, start = row.data.cast("B"), place * self.first.nbytes
        while len(left):
            moved = call(self.file.fileno(), [left], start)
            if moved == 0:
                raise OSError("rows that clients keep are cut short in their file")
            left, start = left[moved:], start + moved

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise ValueError(f"rows of {len(self)} clients do not fit in memory at once; take some of them")

    @typed
    def copy(self) -> OwnRows:
        """The same rows, apart from these."""
        return deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnRows:
        other = OwnRows(self.first, len(self))  # with a file of its own
        for first in range(0, self.n, SHARD):
            some = self.written[first : first + SHARD]
            other[some] = self[some]
        return other


class Shards:
    """Own models (K, P) of many clients, of which some at a time are computed.

    Parameters
    ----------
    compute : function from positions to models (C, P); shape : (K, P).
    """

    ndim = 2

    def __init__(self, compute: Callable[[np.ndarray], Any], shape: tuple[int, int]) -> None:
        self.compute, self.shape = compute, shape

    def __len__(self):
        return self.shape[0]

    @typed
    def of(self, clients: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
        """Positions among `clients` (a range of them), and the models of these."""
        for first in range(0, len(clients), SHARD):
            some = np.arange(first, min(first + SHARD, len(clients)))
            yield some, self.compute(clients[some])
