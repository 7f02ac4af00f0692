"""Rows of many clients, checked and in batches of similar length, and what a linear regression needs of them.

Belongs here: the rows of all clients below each other (``numerics.rows`` reads them), which group each client is of, and
`RegressionTally`, the sufficient statistics of one client's linear regression.  The models that are fitted to them are in
``linear_clients`` and ``logistic_clients``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints, Numbers
from estimators.numerics.rows import all_finite, read_rows
from estimators.numerics.validation import count, finite, listing

__all__ = ["ClientRows", "Groups", "RegressionTally", "Tallies"]


def triangle(matrix: Floats) -> Floats:
    """Return the triangle R of the QR factorisation of a matrix, or of each of a stack of them.

    >>> abs(triangle(np.array([[3.0], [4.0]]))).round(12).tolist()
    [[5.0]]
    """
    found: Any = np.linalg.qr(matrix, mode="r")  # which NumPy's own annotations take for a pair
    return found


@dataclass(frozen=True)
class ClientRows:
    """All clients' rows below each other: X (N, d), Y (N,), and the number of rows of each client, counts (m,)."""

    X: np.ndarray
    Y: np.ndarray
    counts: np.ndarray

    @classmethod
    def read(cls, Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike] | None) -> Self:
        """Check lists of designs (n_i, d) and responses (n_i,); a client may have no rows, as an array (0, d)."""
        designs, responses = read_rows(Xs, Ys)
        X, Y = np.concatenate(designs), np.concatenate(responses)
        if not (np.isfinite(X).all() and np.isfinite(Y).all()):  # one look at all; who is to blame only if need be
            all_finite(designs, responses)
        return cls(X, Y, np.array([len(Y) for Y in responses]))

    def batches(self) -> Iterator[tuple[Ints, Floats, Floats, Bools]]:
        """Yield (clients, X (b, n, d), Y (b, n), real (b, n)) of clients of similar length, padded by rows of zeros."""
        starts = np.concatenate([[0], np.cumsum(self.counts)])[:-1]
        scale = np.ceil(np.log2(np.maximum(self.counts, 1)))
        for size in np.unique(scale):
            clients = np.flatnonzero(scale == size)
            places = np.arange(max(int(self.counts[clients].max()), 1))
            real = places < self.counts[clients, None]
            rows = np.where(real, starts[clients, None] + places, 0)
            if len(self.Y):
                X, Y = self.X[rows] * real[..., None], self.Y[rows] * real
            else:
                X, Y = np.zeros((*rows.shape, self.X.shape[1])), np.zeros(rows.shape)
            yield clients, X, Y, real


@dataclass(frozen=True)
class Groups:
    """Groups of clients: their labels in the order of their first clients, and the place of each client's in them, (m,)."""

    labels: tuple[Hashable, ...]
    codes: np.ndarray

    @classmethod
    def read(cls, groups: Sequence[Hashable] | None, m: int, learnt: bool) -> Self | None:
        """Check one label per client; None for none.  `learnt`: whether the covariance is."""
        if groups is None:
            return None
        names = np.asarray(groups, object) if not hasattr(groups, "tolist") else np.asarray(groups).astype(object)
        if names.shape != (m,):
            raise ValueError(f"groups must have one label per client, {m}, got shape {names.shape}")
        if not learnt:
            raise ValueError("groups need a covariance that is learnt, of clients and of groups; leave it a name of a shape")
        labels: dict[Hashable, int] = {}
        for name in names.tolist():
            if name is None or name != name:
                raise ValueError("groups must name a group for every client, and holds a missing value")
            labels.setdefault(name, len(labels))
        codes = np.array([labels[name] for name in names.tolist()])
        if len(labels) < 2:
            raise ValueError("groups must name at least two groups; one says nothing about how groups vary")
        if len(labels) == m:
            raise ValueError("groups holds one client per group, so that groups cannot be told from clients; leave it out")
        return cls(tuple(labels), codes)

    def sums(self, values: Floats) -> Floats:
        """Return sums (g, ...) of the clients' values (m, ...) over each group."""
        order = np.argsort(self.codes, kind="stable")
        return np.add.reduceat(values[order], np.searchsorted(self.codes[order], np.arange(len(self.labels))), axis=0)


@dataclass(frozen=True)
class RegressionTally:
    """Sufficient statistics of a client's linear regression: the triangular factor of [X Y], and the number of rows.

    ``factor' factor = [X Y]'[X Y]``, so X'X, X'Y and Y'Y are in it, with twice their digits.  Tallies of the same client's
    batches add up with ``+``: rows may come in any number of parts, and in constant memory.

    Parameters
    ----------
    factor : array (d + 1, d + 1), upper triangular; n : whole number >= 0 of rows.

    >>> X, Y = np.array([[1.0], [1.0], [1.0]]), np.array([1.0, 2.0, 6.0])
    >>> both = RegressionTally.of(X[:1], Y[:1]) + RegressionTally.of(X[1:], Y[1:])
    >>> both.n, both.XtX.round(12).tolist(), both.XtY.round(12).tolist(), round(both.YtY, 12)
    (3, [[3.0]], [9.0], 41.0)
    """

    factor: np.ndarray
    n: int

    @classmethod
    def of(cls, X: ArrayLike, Y: ArrayLike) -> RegressionTally:
        """Tally the rows X (n, d), Y (n,) of one client."""
        return Tallies.of(ClientRows.read([X], [Y])).client(0)

    def __add__(self, other):
        if self.factor.shape != other.factor.shape:
            raise ValueError(f"tallies of {self.d} and {other.d} coefficients cannot be added")
        return RegressionTally(triangle(np.concatenate([self.factor, other.factor])), self.n + other.n)

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.factor.shape[1] - 1

    @property
    def XtX(self) -> Floats:
        """X'X, array (d, d)."""
        return self.factor[:, :-1].T @ self.factor[:, :-1]

    @property
    def XtY(self) -> Floats:
        """X'Y, array (d,)."""
        return self.factor[:, :-1].T @ self.factor[:, -1]

    @property
    def YtY(self) -> float:
        """Y'Y, a number."""
        return float(self.factor[:, -1] @ self.factor[:, -1])


@dataclass(frozen=True)
class Tallies:
    """Tallies of all clients: factors (m, d + 1, d + 1) and counts (m,)."""

    factors: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, rows: ClientRows) -> Self:
        """Tally every client's rows."""
        d = rows.X.shape[1]
        factors = np.zeros((len(rows.counts), d + 1, d + 1))
        for clients, X, Y, _ in rows.batches():
            found = triangle(np.concatenate([X, Y[..., None]], axis=2))
            factors[clients, : found.shape[1]] = found
        return cls(factors, rows.counts)

    @classmethod
    def read(cls, Xs: Sequence[ArrayLike] | Sequence[RegressionTally], Ys: Sequence[ArrayLike] | None = None) -> Self:
        """Tally lists of designs and responses, or collect a list of tallies (with Ys=None)."""
        given: Any = listing("Xs", Xs)
        if Ys is not None or len(given) == 0 or not all(isinstance(tally, RegressionTally) for tally in given):
            return cls.of(ClientRows.read(given, Ys))
        widths = {tally.d for tally in given}
        if len(widths) > 1:
            raise ValueError(f"tallies must agree in their number of coefficients, got {sorted(widths)}")
        factors = finite("factors of the tallies", np.stack([tally.factor for tally in given]))
        return cls(factors, count("n of the tallies", [tally.n for tally in given], 0).astype(int))

    def pooled(self, scale: Numbers = 1.0) -> Floats:
        """Return the triangle (d, d) of all clients' features together, each client's divided by its `scale` (m,).

        By pairs, in matrices too small for threads, whose number would change the last bits.
        """
        F = self.factors[:, :, :-1] / np.broadcast_to(scale, self.counts.shape)[:, None, None]
        F = triangle(F)
        while len(F) > 1:
            F = np.concatenate([F, np.zeros((len(F) % 2, *F.shape[1:]))])
            F = triangle(F.reshape(len(F) // 2, -1, F.shape[2]))
        return F[0]

    def client(self, i: int) -> RegressionTally:
        """Return the tally of client i."""
        return RegressionTally(self.factors[i], int(self.counts[i]))
