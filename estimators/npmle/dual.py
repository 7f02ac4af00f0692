"""The function D that certifies a mixing distribution, on the continuum.

Belongs here: the plan of its grids and cells, and bounds and maxima of it for given densities.  Does not belong here: the
loops, which are in ``kernels`` and ``arrays``.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.npmle.arrays import CUT
from estimators.npmle.clients import FINENESS, levels_of, shapes
from estimators.numerics.arrays import Floats, Ints

if TYPE_CHECKING:
    from estimators.npmle.clients import Clients


NODES = 16  # of each interpolation, 8 on either side of a cell
# Error of interpolating exp(-z^2/2), or any function with the bound in the package's docstring, in units of
# (spacing/s)^NODES: Cauchy's estimate of the derivative with the best radius, sqrt(NODES) s, times the node polynomial.
REMAINDER = (np.e / NODES) ** (NODES / 2) * np.prod(np.arange(NODES // 2) + 0.5) ** 2
TOO_PRECISE = {  # whose clients are, and the way out
    "gaussian": ("client of the smallest variance", "leave it out, or give it a larger variance"),
    "binomial": ("client of the largest n", "leave it out, or give x and n of fewer trials"),
    "poisson": ("client of the largest exposure", "leave it out, or mend its exposure"),
}
LEBESGUE = 2.0  # of the interpolation as Bernstein coefficients: its largest absolute row sum is 1.78


@cache
def bernstein_matrix() -> Floats:
    """Return the matrix from values at NODES equispaced nodes to Bernstein coefficients on the middle cell; exact."""
    nodes = [Fraction(j - NODES // 2 + 1) for j in range(NODES)]
    matrix = np.empty((NODES, NODES))
    for j, own in enumerate(nodes):
        power = [Fraction(1)]
        for other in nodes[:j] + nodes[j + 1 :]:
            power = [(low - other * high) / (own - other) for low, high in zip([0, *power], [*power, 0], strict=True)]
        for m in range(NODES):
            matrix[m, j] = sum(Fraction(comb(m, k), comb(NODES - 1, k)) * power[k] for k in range(m + 1))
    return matrix


class Dual:
    """D on the continuum: the plan of grids and cells for given clients, and its evaluation for given densities."""

    def __init__(self, clients: Clients, workers: Any) -> None:
        self.clients, self.workers = clients, workers
        self.reach = 8.55 if clients.family == "gaussian" else 14.1
        self.first, self.last = float(clients.t.min()), float(clients.t.max())
        level = levels_of(clients.s)
        spacing = clients.s.max() / FINENESS / 2.0**level
        place = clients.t - self.first
        if self.last - self.first > 2.0**52 * spacing.min():  # neighbouring nodes would be the same double
            share = f"{clients.s.min() / (self.last - self.first):.1g} of the distance between clients"
            who, remedy = TOO_PRECISE[clients.family]
            raise ValueError(f"the {who} has a standard error of {share}, too little for double precision; {remedy}")
        node = np.rint(place / spacing).astype(np.int64)
        self.starts = (node * spacing - place) / clients.s
        self.steps = spacing / clients.s
        band = (self.reach / self.steps).astype(np.int64) + 1
        self.positions = np.empty_like(node)
        self.size = 0
        own, windows, self.node_t = {}, {}, []
        ends = np.concatenate([np.flatnonzero(np.diff(level)) + 1, [level.size]])
        for begin, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
            rows = slice(begin, end)
            h = spacing[begin]
            starts, stops = unions(node[rows] - band[rows], node[rows] + band[rows], NODES + 1)
            shifts = self.size + NODES // 2 - starts + np.concatenate([[0], np.cumsum(stops - starts + 1 + NODES)[:-1]])
            self.positions[rows] = node[rows] + shifts[np.searchsorted(starts, node[rows], side="right") - 1]
            self.size += int(np.sum(stops - starts + 1 + NODES))
            cells = [
                np.arange(max(a, 0), min(b, int((self.last - self.first) / h) + 1))
                for a, b in zip(starts, stops, strict=True)
            ]
            own[int(level[begin])] = np.concatenate(cells)
            windows[int(level[begin])] = np.concatenate([c - NODES // 2 + 1 + d for c, d in zip(cells, shifts, strict=True)])
            self.node_t += [
                self.first + h * np.arange(a - NODES // 2, b + NODES // 2 + 1) for a, b in zip(starts, stops, strict=True)
            ]
        self.plan_cells(own, windows, clients.s.max() / FINENESS)
        if clients.family != "gaussian":
            self.alpha, self.beta = shapes(np.concatenate(self.node_t), clients.family)[:2]
        self.node_t = None
        self.band = band
        self.remainder = REMAINDER * self.steps**NODES

    def plan_cells(self, own: dict[int, Any], windows: dict[int, Any], spacing: float) -> None:
        """Lay out the cells of all levels, each with its parent one level up, coarse ones first."""
        finest = max(own)
        needed = [np.empty(0, np.int64)] * (finest + 1)
        below = np.empty(0, np.int64)
        for level in range(finest, -1, -1):
            cells = np.union1d(own.get(level, below[:0]), below // 2)
            if level:
                cells = np.union1d(cells, cells ^ 1)
            needed[level] = below = cells
        offsets = np.concatenate([[0], np.cumsum([cells.size for cells in needed])])
        parts, places = [], []  # places in units of the finest level
        for level, cells in enumerate(needed):
            window = np.full(cells.size, -1)
            if level in own:
                window[np.searchsorted(cells, own[level])] = windows[level]
            parent = (
                offsets[level - 1] + np.searchsorted(needed[level - 1], cells // 2) if level else np.full(cells.size, -1)
            )
            leaf = np.isin(2 * cells, needed[level + 1], invert=True) if level < finest else np.ones(cells.size, bool)
            h = spacing / 2.0**level
            parts.append((window, parent, cells & 1, leaf, self.first + h * cells, np.full(cells.size, h)))
            places.append((cells << (finest - level), np.full(cells.size, 1 << (finest - level))))
        self.windows, self.parents, self.sides, leaf, lefts, widths = (np.concatenate(p) for p in zip(*parts, strict=True))
        self.leaves = np.flatnonzero(leaf)
        self.lefts, self.widths = lefts[self.leaves], widths[self.leaves]
        starts, spans = (np.concatenate(p)[self.leaves] for p in zip(*places, strict=True))
        order = np.argsort(starts)
        touching = starts[order[1:]] == starts[order[:-1]] + spans[order[:-1]]
        self.before = np.full(self.leaves.size, -1)  # the leaf that ends where each begins
        self.before[order[1:][touching]] = self.leaves[order[:-1][touching]]
        self.coefficients = np.empty((leaf.size, NODES))

    def spread(self, rows: slice, scaled: Floats) -> tuple[int, Floats]:
        """Return the nodes that the clients in `rows` reach and their sums there."""
        c = self.clients
        low = int((self.positions[rows] - self.band[rows]).min())
        high = int((self.positions[rows] + self.band[rows]).max()) + 1
        out = np.zeros(high - low)
        nodes = self.positions[rows] - low
        if c.family == "gaussian":
            self.workers.loops.spread_gaussian(scaled[rows], nodes, self.starts[rows], self.steps[rows], self.reach, out)
        else:
            self.workers.loops.spread_exponential(
                scaled[rows], c.p1[rows], c.p2[rows], c.offset[rows], nodes, self.steps[rows], self.reach,
                self.alpha, self.beta, low, out,
            )  # fmt: skip
        return low, out

    def __call__(self, state, tolerance):
        """Return (bound on max D, places and heights of its local maxima) for the clients' densities under `state`.

        The bound exceeds the maximum by no more than the share `tolerance` of it and the errors of interpolation.
        """
        loops = self.workers.loops
        scaled = self.clients.weights / (state.density * self.clients.total)
        values = np.zeros(self.size)
        for low, out in self.workers(lambda rows: self.spread(rows, scaled)):
            values[low : low + out.size] += out
        loops.expand(values, bernstein_matrix(), self.windows, self.parents, self.sides, self.coefficients)
        places, heights = np.empty((2, NODES // 2 * self.leaves.size))  # room for all that polynomials can have
        found = loops.peaks(
            self.coefficients, self.leaves, self.before, self.lefts, self.widths, self.first, places, heights
        )
        error = float(np.sum(scaled * (self.remainder + 2 * LEBESGUE * np.exp(-CUT))))
        bound = loops.upper_bound(self.coefficients, self.leaves, tolerance) + error
        return bound, np.clip(places[:found], self.first, self.last), heights[:found]


def unions(lows: Ints, highs: Ints, gap: int) -> tuple[Ints, Ints]:
    """Return starts and ends of the unions of intervals that are less than `gap` apart."""
    order = np.argsort(lows, kind="stable")
    lows, tops = lows[order], np.maximum.accumulate(highs[order])
    cut = np.flatnonzero(lows[1:] > tops[:-1] + gap)
    return lows[np.concatenate([[0], cut + 1])], tops[np.concatenate([cut, [lows.size - 1]])]
