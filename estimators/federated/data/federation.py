"""Pooled examples, and clients who hold rows of one pool.

A federation of thousands of clients is one array and, for each client, the numbers of its rows: nothing is copied until a
client's rows are asked for.  Arrays are read-only.  Provenance is plain Python (JSON): files with their SHA-256, seeds,
splits and transformations, in the order in which they happened.

Belongs here: the containers and what every data set needs (test rows, scaling to numbers).  Reading files is in
``loaders``, giving rows to clients in ``partitions``, transformations of clients' rows in ``silos``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np

from estimators.federated.kinds import several, typed
from estimators.numerics.arrays import ArrayLike, Ints
from estimators.numerics.validation import count, flags, fraction, index, nonnegative, real, same_labels, shown, single

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "Client",
    "Examples",
    "Federation",
    "apportion",
    "fixed",
    "generator",
    "held_share",
    "labels",
    "rows_of",
]

NONE = np.empty(0, dtype=np.int64)
NONE.flags.writeable = False


@typed
def fixed(array: ArrayLike) -> np.ndarray:
    """Return a read-only view of `array`."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


@typed
def generator(seed: int, purpose: str) -> np.random.Generator:
    """Random generator for one purpose: streams of different purposes with one seed are independent.

    >>> float(generator(3, "iid").random()) == float(generator(3, "opt-out").random())
    False
    """
    return np.random.default_rng([index("seed", seed, 0, 2**63 - 1), crc32(purpose.encode())])


@typed
def apportion(total: int, shares: ArrayLike) -> Ints:
    """Whole numbers that add up to `total` and are as near to proportional to `shares` as can be (largest remainders).

    >>> apportion(10, [1.0, 1.0, 1.0]).tolist()
    [4, 3, 3]
    """
    shares, total = np.atleast_1d(nonnegative("shares", shares)), index("total", total, 0)
    exact = total * (shares / shares.sum())
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - int(counts.sum())]] += 1
    return counts


def as_it_is(name: str, array: ArrayLike) -> np.ndarray:
    """Return an array of numbers in its own type, which images keep; whatever is no array is read strictly first."""
    if type(array) is not np.ndarray:
        real(name, array, booleans=True)
    return np.asarray(array)


@typed
def labels(name: str, y: ArrayLike) -> np.ndarray:
    """Return `y` as int64 labels 0, 1, ... or raise a ValueError."""
    array = as_it_is(name, y)
    if (
        array.ndim != 1
        or array.dtype.kind not in "biuf"
        or (array.dtype.kind == "f" and not np.all(array == np.floor(array)))
    ):
        raise ValueError(f"{name} must be one whole number per row, got an array of {array.dtype} and shape {array.shape}")
    if array.size and array.min() < 0:
        raise ValueError(f"{name} must be >= 0, got {array.min()}; number the classes from 0")
    return array.astype(np.int64)


@typed
@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled examples in one pool, with the rows that are for testing.

    Parameters
    ----------
    x : array (n, ...), one row per example: images as the file has them (uint8), or numbers.
    y : array (n,) of labels 0..classes-1, or of numbers if `classes` is 0.
    test : array (n,) of bool, True for rows to test on; all False where the source makes no split.
    classes : whole number, 0 for regression.
    top : number > 0, the value of `x` that scaling maps to 1 (255 for images of uint8).
    name : str; provenance : dict of plain Python values.

    Raises
    ------
    ValueError
        If there is no row, lengths differ, x is not finite, or labels are not whole numbers below `classes`.

    >>> pool = Examples(np.eye(4), [0, 1, 0, 1], classes=2)
    >>> pool.split_test(0.5, seed=0).test.sum()
    np.int64(2)
    """

    x: np.ndarray
    y: np.ndarray
    test: Any = None
    classes: int = 0
    top: float = 1.0
    name: str = "examples"
    provenance: dict = field(default_factory=dict)

    def __post_init__(self):
        x, y, test = same_labels(x=self.x, y=self.y, test=self.test).values()
        x = as_it_is("x", x)
        y = labels("y", y) if self.classes else real("y", y)
        if x.ndim < 2 or y.ndim != 1 or len(x) == 0:
            raise ValueError(f"{self.name}: x must have one row per example and at least one row, got shape {x.shape}")
        test = np.zeros(len(y), dtype=bool) if test is None else np.atleast_1d(flags("test", test))
        if not len(x) == len(y) == len(test):
            raise ValueError(f"{self.name}: x, y and test have {len(x)}, {len(y)} and {len(test)} rows; they must agree")
        if x.dtype.kind not in "biuf":
            raise ValueError(f"{self.name}: x must hold numbers, got {x.dtype}")
        if (x.dtype.kind == "f" and not np.isfinite(x).all()) or not np.isfinite(y).all():
            raise ValueError(f"{self.name}: NaN or infinity in the data; drop or fill the missing values first")
        if self.classes and y.max() >= self.classes:
            raise ValueError(f"{self.name}: label {y.max()} among labels 0..{self.classes - 1}")
        for attribute, value in (("x", x), ("y", y), ("test", test)):
            object.__setattr__(self, attribute, fixed(value))

    def __len__(self):
        return len(self.y)

    @typed
    def split_test(self, share: Any, *, seed: int) -> Self:
        """The same examples with a random share of each class (of all rows, for regression) for testing.

        Parameters
        ----------
        share : number in (0, 1); seed : whole number >= 0.

        Returns
        -------
        Examples

        Raises ValueError if there is a test part already, or `share` is outside (0, 1).
        """
        share = single(fraction, "share", share)
        if self.test.any():
            raise ValueError(f"{self.name} has {int(self.test.sum())} test rows already; they are kept as they are")
        rng, test = generator(seed, "split_test"), np.zeros(len(self), dtype=bool)
        for label in range(max(self.classes, 1)):
            rows = np.flatnonzero(self.y == label) if self.classes else np.arange(len(self))
            test[rng.permutation(rows)[: round(share * len(rows))]] = True
        step = {"split_test": {"share": share, "seed": int(seed), "by_class": bool(self.classes)}}
        return replace(self, test=test, provenance={**self.provenance, **step})


@dataclass(frozen=True, eq=False)
class Client:
    """One client: numbers of its rows in the pool; `x`, `y`, `test_x`, `test_y` fetch them.

    Parameters
    ----------
    pool : Federation whose rows they are.
    train, test : arrays of row numbers; name : str; group : whole number, the cluster it was made in, or -1.
    """

    pool: Federation
    train: np.ndarray
    test: np.ndarray
    name: str
    group: int

    def __len__(self):
        return len(self.train)

    @property
    def x(self) -> np.ndarray:
        """Training rows, (n, ...): a view where the rows follow each other, else a copy."""
        return self.pool.x[consecutive(self.train)]

    @property
    def y(self) -> np.ndarray:
        """Training labels or numbers, (n,)."""
        return self.pool.y[consecutive(self.train)]

    @property
    def test_x(self) -> np.ndarray:
        """Test rows, (n, ...); may be empty."""
        return self.pool.x[consecutive(self.test)]

    @property
    def test_y(self) -> np.ndarray:
        """Test labels or numbers, (n,)."""
        return self.pool.y[consecutive(self.test)]


def consecutive(rows: np.ndarray) -> slice | np.ndarray:
    """The slice that has the same rows, if they follow each other, so that indexing makes no copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


@typed
@dataclass(frozen=True, eq=False)
class Federation:
    """Clients who hold rows of one pool.

    Parameters
    ----------
    x, y, classes, top, name, provenance : as in `Examples`.
    train : one array of row numbers per client, each with at least one row.
    test : the same for testing, entries may be empty; None: no client has test rows.
    server_test : array of row numbers, the server's own test set (may be empty).
    group : array (K,) of whole numbers, the cluster each client was made in, -1 where it has none.
    names : one str per client.
    truth : dict of what generated the data, empty if unknown.

    Raises
    ------
    ValueError
        If there is no client, one has no training row (named), or a row number is outside the pool.

    >>> both = Federation(np.eye(4), np.arange(4), train=[[0, 1], [3]])
    >>> len(both), both.sizes.tolist(), both.client(1).y.tolist()
    (2, [2, 1], [3.0])
    """

    x: np.ndarray
    y: np.ndarray
    train: Sequence[Any]
    test: Any = None
    server_test: Any = None
    group: Any = None
    names: Any = None
    classes: int = 0
    top: float = 1.0
    name: str = "federation"
    provenance: dict = field(default_factory=dict)
    truth: dict = field(default_factory=dict)

    def __post_init__(self):
        for attribute in ("test", "names"):
            given = getattr(self, attribute)
            if not (given is None or several(given) or (attribute == "names" and isinstance(given, str))):
                raise ValueError(f"{attribute} must be a list with one entry per client, or None, got {shown(given)}")
        pool = Examples(self.x, self.y, classes=self.classes, name=self.name)
        clients = len(self.train)
        if clients == 0:
            raise ValueError(f"{self.name} has no client")
        names = tuple(map(str, range(clients))) if self.names is None else tuple(map(str, self.names))
        test = (NONE,) * clients if self.test is None else self.test
        group = np.full(clients, -1) if self.group is None else count("group", self.group, -1).astype(np.int64)
        if group.ndim != 1 or not len(test) == len(names) == len(group) == clients:
            raise ValueError(f"{self.name}: train, test, names and group must have one entry per client ({clients})")
        values = {
            "x": pool.x,
            "y": pool.y,
            "train": client_rows("training", names, self.train, len(pool)),
            "test": client_rows("test", names, test, len(pool)),
            "server_test": rows_of("server_test", NONE if self.server_test is None else self.server_test, len(pool)),
            "group": fixed(group),
            "names": names,
        }
        empty = [n for n, rows in zip(names, values["train"], strict=False) if len(rows) == 0]
        if empty:
            more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
            raise ValueError(
                f"{self.name}: client {empty[0]}{more} has no training row; ask for fewer clients or leave it out"
            )
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def __len__(self):
        return len(self.train)

    def __iter__(self):
        return map(self.client, range(len(self)))

    @typed
    def client(self, k: int) -> Client:
        """Client number `k`, 0..K-1."""
        k = index("k", k, 0, len(self) - 1)
        return Client(self, self.train[k], self.test[k], self.names[k], int(self.group[k]))

    @property
    def clients(self) -> list[Client]:
        """All clients, as a list."""
        return list(self)

    @property
    def sizes(self) -> np.ndarray:
        """Training rows of each client, (K,)."""
        return np.array([len(rows) for rows in self.train])

    @typed
    def holds(self, label: int) -> np.ndarray:
        """Which clients have the label among their training rows, (K,) of bool."""
        return np.array([bool((self.y[rows] == label).any()) for rows in self.train])

    @typed
    def scaled(self, dtype: DTypeLike = np.float32, *, flat: bool = False) -> Self:
        """The same federation with x / top as floats, each row one vector if `flat`; one copy of the pool.

        >>> images = Federation(np.full((1, 2, 2), 51, np.uint8), [0], train=[[0]], classes=1, top=255)
        >>> images.scaled(flat=True).x.round(2).tolist() == np.float32([[0.2] * 4]).tolist()
        True
        """
        x = self.x.astype(dtype)
        x /= np.asarray(self.top, dtype=dtype)
        return replace(self, x=x.reshape(len(x), -1) if flat else x, top=1.0)


@typed
def rows_of(name: str, rows: ArrayLike, total: int) -> np.ndarray:
    """Return `rows` as a read-only int64 array of distinct row numbers below `total`, or raise a ValueError."""
    array = np.asarray(rows)
    array = array.astype(np.int64) if array.size == 0 else array
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be an array of row numbers, got {array.dtype} and shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= total):
        raise ValueError(f"{name} must be in 0..{total - 1}, got {array.min()}..{array.max()}")
    if len(np.unique(array)) != len(array):
        raise ValueError(f"{name} name a row twice")
    return fixed(array.astype(np.int64))


def client_rows(part: str, names: Any, rows: Any, total: int) -> tuple[np.ndarray, ...]:
    """Each client's row numbers, checked."""
    return tuple(rows_of(f"{part} rows of client {name}", own, total) for name, own in zip(names, rows, strict=True))


@typed
def held_share(name: str, value: ArrayLike) -> float:
    """Return `value` as a float in [0, 1), the share of a client's rows that is for testing."""
    if not isinstance(value, (int, float, np.floating)) or not 0 <= value < 1:
        raise ValueError(f"{name} must be a number in [0, 1), got {value!r}")
    return float(value)
