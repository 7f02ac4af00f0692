"""Frequency tables of counts, which add up exactly, and few nodes in place of long sums over them.

Likelihoods of counts with conjugate priors are sums over clients of sums over the numbers below a client's count, of
functions log(a + j r) and their derivatives.  Here such a double sum becomes one over a hundred nodes or a few hundred,
however many clients there are and however large their counts.

Belongs here: tables, and nodes for functions of j that are analytic but for a singularity at or below 0.  Does not belong
here: any model (``beta_binomial``, ``gamma_poisson``) or how it is maximised (``conjugate``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.polynomial import chebyshev

from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.tally_state import Stored

__all__ = [
    "CountTally",
    "Frequencies",
    "Nodes",
    "ascending",
    "below",
    "distinct",
    "exact_squares",
    "grouped",
    "log_rises_over_factorials",
    "spread_over_nodes",
    "square_sums",
]

DENSE = 128  # numbers below are nodes of their own
DEGREE = 20  # on [a, 2a] a function with its singularity at 0 is a polynomial of this degree up to 5.8^-21 of its size
CHUNK = 4_096  # points at a time, whose polynomials fit in a processor's cache
LARGEST = 2**31 - 1  # squares still fit in 64 bits
NARROW = 1e-14  # overdispersion that only rounding leaves
HALF = 31  # bits in the lower of two columns of squares


class Nodes(NamedTuple):
    """Positions (q,) and weights (q,) or (columns, q): a sum of g is that of weights times g(positions)."""

    positions: np.ndarray
    weights: np.ndarray


def grouped(keys: np.ndarray, *columns: Ints) -> tuple[np.ndarray, ...]:
    """Return the distinct keys in ascending order, and each column of integers summed over equal keys; exact.

    >>> [part.tolist() for part in grouped(np.array([3, 1, 3]), np.array([1, 1, 5]))]
    [[1, 3], [1, 6]]
    """
    if keys.size == 0:
        return (keys, *columns)
    order = np.argsort(keys)  # in any order of equal keys, which is faster: sums of integers are the same
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))

    def summed(column):
        if column.ndim == 2:
            return np.stack([summed(part) for part in column.T], axis=1)
        return np.add.reduceat(column[order], starts)

    return keys[starts], *map(summed, columns)


def distinct(keys: np.ndarray) -> tuple[Ints, Ints]:
    """Return a position of each distinct key, in the keys' order, and for every key its place among the distinct ones.

    >>> [part.tolist() for part in distinct(np.array([7, 3, 7]))]
    [[1, 2], [1, 0, 1]]
    """
    if keys.max() > 8 * keys.size + 1000:
        order = np.argsort(keys)
        first = np.concatenate(([True], np.diff(keys[order]) > 0))
        place = np.empty(keys.size, np.intp)
        place[order] = np.cumsum(first) - 1
        return order[first], place
    seen = np.zeros(keys.max() + 1, bool)
    seen[keys] = True
    values, place = np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]
    position = np.empty(values.size, np.intp)
    position[place] = np.arange(keys.size)
    return position, place


def exact_squares(x: Ints) -> Ints:
    """Return squares of integers <= `LARGEST` as two columns that can be added up without overflow.

    >>> square_sums(exact_squares(np.array([3, 2**20 + 1]))).tolist()
    [9.0, 1099513724929.0]
    """
    squares = x * x
    return np.stack((squares >> HALF, squares & (2**HALF - 1))).T  # each column in one piece


def square_sums(columns: Ints) -> Floats:
    """Return sums of `exact_squares` as floats."""
    return columns[:, 0] * np.float64(2.0**HALF) + columns[:, 1]


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How often each whole number occurs: ascending values and their counts, both integers.

    >>> table = Frequencies.of([2, 0, 2]) + Frequencies.of([5])
    >>> table.values.tolist(), table.counts.tolist()
    ([0, 2, 5], [1, 2, 1])
    """

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, numbers: Ints) -> Self:
        """Count an array of whole numbers >= 0."""
        numbers = np.asarray(numbers, np.int64)
        if numbers.size == 0 or numbers.max() > 8 * numbers.size + 1000:
            return cls(*np.unique(numbers, return_counts=True))
        counts = np.bincount(numbers)
        values = np.flatnonzero(counts)
        return cls(values, counts[values])

    def __add__(self, other):
        keys = np.concatenate((self.values, other.values))
        return type(self)(*grouped(keys, np.concatenate((self.counts, other.counts))))

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes for sums over j below each entry, as `below` finds them."""
        return below(self)

    @property
    def total(self) -> int:
        """Number of entries."""
        return int(self.counts.sum())

    @property
    def sum(self) -> int:
        """Sum of all entries, a Python int."""
        return int((self.values * self.counts).sum())


class CountTally(Stored):
    """What tallies of counts share: adding a batch, and their parts as plain values.

    A subclass is a frozen dataclass of `Frequencies` and arrays with ``of``, ``+`` and `check`, which raises ValueError
    where the parts contradict each other.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    of: ClassVar[Callable[..., Any]]
    check: Callable[[], None]

    def add(self, *batch: ArrayLike) -> Self:
        """Return the tally with a further batch of clients, which takes the arguments of ``of``."""
        return self + type(self).of(*batch)

    def __add__(self, other: Self) -> Self:
        raise NotImplementedError

    def content(self) -> dict[str, Any]:
        """Return the parts as plain JSON values, numbers with a fraction in hexadecimal."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def of_content(cls, content: dict[str, Any]) -> Self:
        """Return the tally whose `content` this is, checked."""
        tally = cls(**{field.name: read(content[field.name]) for field in fields(cls)})
        tally.check()
        return tally


def plain(part: Frequencies | np.ndarray) -> dict[str, Any] | list[Any]:
    """Return a part of a tally as plain JSON values."""
    if isinstance(part, Frequencies):
        return {"values": part.values.tolist(), "counts": part.counts.tolist()}
    return [x.hex() for x in part.tolist()] if part.dtype.kind == "f" else part.tolist()


def read(value: Any) -> Any:
    """Return the part of a tally that `plain` turned into `value`."""
    if isinstance(value, dict):
        table = Frequencies(read(value["values"]), read(value["counts"]))
        ascending("values", table.values)
        if table.values.shape != table.counts.shape or (table.counts < 1).any():
            raise ValueError("counts must be positive, one for each value")
        return table
    if value and isinstance(value[0], str):
        return np.array([float.fromhex(x) for x in value])
    array = np.array(value)
    if array.dtype.kind != "i" or (array < 0).any():
        raise ValueError("a tally of counts holds whole numbers >= 0")
    return array


def ascending(name: str, keys: np.ndarray) -> None:
    """Raise ValueError unless `keys` are >= 0 and rise."""
    if keys.ndim != 1 or (keys < 0).any() or (np.diff(keys) <= 0).any():
        raise ValueError(f"{name} must be >= 0 and rise")


def below(table: Frequencies) -> Nodes:
    """Return Nodes for the sum over all entries v of the table of the sum of g(j) over j = 0, ..., v - 1.

    Exact up to rounding for g(j) = log(a + j r), 1 / (a + j r), j / (a + j r) and their squares, any a > 0 and r >= 0.
    Below `DENSE` each j is a node whose weight is the number of entries above j.  Beyond, g is interpolated on [J, 2 J)
    at Chebyshev nodes, and the sums of Chebyshev polynomials are polynomials in v themselves.

    >>> nodes = below(Frequencies.of([3, 1]))
    >>> nodes.positions.tolist(), nodes.weights.tolist()
    ([0.0, 1.0, 2.0], [2.0, 1.0, 1.0])
    """
    values, counts = table.values, table.counts
    top = int(values[-1]) if values.size else 0
    at = np.bincount(np.minimum(values, DENSE), weights=counts)
    tails = at[::-1].cumsum()[::-1][1:]
    positions, weights = [np.arange(min(top, DENSE), dtype=float)], [tails[: min(top, DENSE)]]
    start = DENSE
    while start < top:
        first, last = np.searchsorted(values, [start + 1, 2 * start])
        sums = polynomial_sums(start)
        x = np.append((values[first:last] - 1.5 * start) / (0.5 * start), 1.0)
        times = np.append(counts[first:last], counts[last:].sum()).astype(float)
        moments = np.zeros(len(sums))
        for i in range(0, x.size, CHUNK):  # sums has one row per power, one column per polynomial
            moments += np.einsum("v,vp->p", times[i : i + CHUNK], chebyshev.chebvander(x[i : i + CHUNK], len(sums) - 1))
        unit, transform = chebyshev_nodes()
        positions.append(start * (1.5 + 0.5 * unit))
        weights.append(np.einsum("p,pq,qn->n", moments, sums, transform, optimize=False))
        start *= 2
    return Nodes(np.concatenate(positions), np.concatenate(weights))


def log_rises_over_factorials(table: Frequencies, a: float) -> float:
    """Return the sum over entries v of log(a (a + 1) ... (a + v - 1) / v!), without cancellation for large v.

    >>> round(log_rises_over_factorials(Frequencies.of([2]), 3.0), 12) == round(float(np.log(3 * 4 / 2)), 12)
    True
    """
    positions, weights = table.nodes
    logs = np.log1p((a - 1) / (1 + positions[1:]))
    return float(weights[:1].sum() * np.log(a) + np.einsum("q,q->", weights[1:], logs))


@lru_cache
def chebyshev_nodes() -> tuple[Floats, Floats]:
    """Return the Chebyshev nodes on [-1, 1] and the matrix from moments of polynomials to weights at the nodes."""
    unit = chebyshev.chebpts1(DEGREE + 1)
    transform = np.asarray(chebyshev.chebvander(unit, DEGREE).T * (2 / (DEGREE + 1)), float)
    transform[0] /= 2
    return unit, transform


@lru_cache(maxsize=64)
def polynomial_sums(start: int) -> Floats:
    """Return Chebyshev coefficients of v -> sum of T_q((j - 1.5 start) / (start / 2)) over j = start, ..., v - 1.

    One column per q.  By the Euler-Maclaurin formula, which is finite and exact for polynomials.
    """
    half = start / 2
    found = np.zeros((DEGREE + 2, DEGREE + 1))
    for q in range(DEGREE + 1):
        unit = np.zeros(q + 1)
        unit[q] = 1.0
        total = half * np.append(chebyshev.chebint(unit), 0.0)[: q + 2]
        total[: q + 1] -= unit / 2
        derivative = unit
        for k, bernoulli_over_factorial in enumerate(EULER_MACLAURIN):
            derivative = chebyshev.chebder(derivative, 1 if k == 0 else 2)
            total[: derivative.size] += bernoulli_over_factorial * half ** -(2 * k + 1) * derivative
            if derivative.size <= 2:
                break
        total[0] -= chebyshev.chebval(-1.0, total)
        found[: total.size, q] = total
    return found


# B_2k / (2k)! for k = 1, ..., 10.
EULER_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)


def spread_over_nodes(points: Floats, *columns: Ints) -> Nodes:
    """Return Nodes, with one row of weights per column, for the sums of column times g(points); points > 0 ascending.

    Interpolates g, which may have a singularity at or below 0, between consecutive powers of two where there are more
    points than nodes.

    >>> spread_over_nodes(np.array([1.0, 3.0]), np.array([2.0, 1.0])).weights.tolist()
    [[2.0, 1.0]]
    """
    weights = np.array(columns, float).reshape(len(columns), points.size)
    octave = np.frexp(points)[1]
    edges = np.concatenate(([0], np.flatnonzero(np.diff(octave)) + 1, [points.size]))
    unit, transform = chebyshev_nodes()
    kept, found = [], []
    for i, j in pairwise(edges):
        if j - i <= DEGREE + 1:
            kept.append(points[i:j])
            found.append(weights[:, i:j])
            continue
        centre = 0.75 * 2.0 ** octave[i]
        x = (points[i:j] - centre) / (centre / 3)
        moments = np.zeros((len(columns), DEGREE + 1))
        for k in range(i, j, CHUNK):
            part = slice(k, min(k + CHUNK, j))
            vander = chebyshev.chebvander(x[part.start - i : part.stop - i], DEGREE)
            moments += np.einsum("cv,vq->cq", weights[:, part], vander)
        kept.append(centre + centre / 3 * unit)
        found.append(np.einsum("cq,qn->cn", moments, transform))
    return Nodes(np.concatenate(kept), np.concatenate(found, axis=1))
