"""Exact posteriors of clients' truths from noisy reports: the centre and the spread of all clients are integrated over.

Truths lie on an interval; their prior has a centre and a spread, on which there is a prior too; a client's report has a
known law given its truth.  Everything is an integral over the truth, and one grid serves all of them: likelihoods of
clients times densities of priors is a product of two matrices, (clients, places) and (places, nodes), and so is the way
back, from the weights of the nodes to each client's posterior on the places.

*Places* are equidistant in a coordinate that turns to a logarithm at both ends, where trapezoids are as exact as inside
(densities that are cut off, or grow without bound).  The step resolves the likelihoods; priors that are narrower than a step
are put on the places by cubic interpolation.  *Nodes* are Gauss's, over the spread and for each spread over the centre, on
the ranges where the posterior is not negligible, which some clients locate and all of them confirm.

Belongs here: that grid, the search for the ranges, and the laws that come out.  Does not belong here: priors and likelihoods
(``mean_posterior``, ``rate_posterior``).
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.inversion import lattice_quantile
from estimators.numerics.limits import quiet
from estimators.numerics.validation import finite, probability, single

__all__ = ["Clients", "Family", "Fitted", "GridLaws", "distinct", "fit", "node_intervals"]

FINE = 0.5  # steps per smallest feature of a likelihood
NARROW = 1.0  # steps, below which a prior is interpolated
REACH = 8.0  # spreads from the centre, beyond which a prior is negligible
FEW, SEVERAL = 200, (24, 40)  # up to so many reports, nodes for spreads and for centres: their posterior may have corners
MANY = 16, 12  # nodes where it is nearly normal
DROP = 13.0  # in log probability, where nodes end
ENOUGH = 0.7  # part of the nodes that must be within
OPEN = 9.0  # in log probability, above which a range has ended too early
DEEPEST = 30.0  # in log probability, below which splines need not go
NEGLIGIBLE = 1e-9  # weight of a node over the largest
LATTICE = 400, 200  # spreads and centres that quantiles of the two are read from
LEARNERS = 1500  # clients that locate the ranges
BLOCK = 512  # clients at a time
AT_ONCE = 2_000_000  # values of distribution functions that draws read at a time
DEEP = 800.0  # in the log of a distance, below which no number is
TINY = 1e-290
PASSES = 60


class Family(Protocol):
    """Priors of a truth between two ends, by centre and spread."""

    low: float
    high: float
    widest: float
    depth: float

    def log_density(self, below: Floats, above: Floats, centre: Floats, spread: Floats) -> Floats:
        """Return the log density at the places with these distances from the low end and from the high one."""
        ...

    def ends(self, centre: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return the powers of the distance with which probability grows at the low end and at the high one."""
        ...

    def log_hyperprior(self, centre: Floats) -> Floats:
        """Return the log density of centres; spreads are uniform up to the widest."""
        ...

    def moments(self, centre: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return the means and the variances of truths."""
        ...

    def value(self, below: Floats, above: Floats) -> Floats:
        """Return the truths at places."""
        ...

    def below(self, value: float) -> float:
        """Return the distance of a truth from the low end."""
        ...


class Clients(Protocol):
    """Likelihoods of the truths behind m different reports.

    Attributes
    ----------
    count : array (m,), how many clients sent each.
    kind : array (m,), by which clients are kept together whose likelihoods are computed together.
    centre, spread : arrays (m,): a rough estimate of each truth, perhaps outside, and its standard error.
    error : array (m,), of it the part of what is normal.
    low, high : arrays (m,), beyond which the likelihood is negligible, unless the prior is far from there.
    feature : array (m,) of lengths that places must resolve.
    slope : array (m,), the largest change of the log likelihood per length, inf for normal errors.
    """

    count: Ints
    kind: Ints
    centre: Floats
    spread: Floats
    error: Floats
    low: Floats
    high: Floats
    feature: Floats
    slope: Floats

    def log_likelihood(self, rows: Ints, below: Floats, above: Floats) -> Floats:
        """Return the log density of the reports of some clients at truths, array (rows, places)."""
        ...


class Places:
    """A grid between two ends: steps of one length inside, of one factor at the ends."""

    def __init__(self, low: float, high: float, step: float, depth: float) -> None:
        self.cells = max(int(np.ceil((high - low) / step)), 8)
        self.low, self.high, self.step = low, high, (high - low) / self.cells
        self.extra = int(np.ceil(depth))
        self.size = self.cells + 1 + 2 * self.extra

    def at(self, positions: Ints | Floats) -> tuple[Floats, Floats, Floats]:
        """Return the distances of some places from both ends, and the log of the length that each stands for."""
        u = positions - float(self.extra)
        top = float(self.cells)
        below = self.step * (np.logaddexp(0.0, u) - np.logaddexp(0.0, u - top))
        above = self.step * (np.logaddexp(0.0, top - u) - np.logaddexp(0.0, -u))
        length = np.log(self.step) - np.logaddexp(0.0, -u) - np.logaddexp(0.0, u - top) + np.log1p(-np.exp(-top))
        return below, above, length

    def position(self, below: Floats) -> Floats:
        """Return where in the grid the points are, as numbers of places from the first; inverse of the distance."""
        with quiet():
            t = below / self.step
            found = t + np.log(-np.expm1(-t)) - np.log(-np.expm1(np.minimum(t - self.cells, 0.0)))
        return np.clip(found + self.extra, 0.0, self.size - 1.0)


class Window(NamedTuple):
    """Neighbouring places of a grid."""

    places: Places
    start: int
    stop: int


class Block(NamedTuple):
    """Some clients, the places that matter to them, and their likelihoods there over the largest one."""

    rows: Ints
    clients: Ints
    window: Window
    likelihood: Floats
    largest: Floats


class Ranges(NamedTuple):
    """Where nodes are: an interval of spreads, and for each of some spreads one of centres.

    Spreads are unit * sinh(at).
    """

    unit: float
    low: float
    high: float
    at: Floats
    centre_low: Floats
    centre_high: Floats

    @property
    def widest(self) -> float:
        """The largest spread."""
        return self.unit * float(np.sinh(self.high))

    def between(self, at: Floats) -> tuple[Floats, Floats]:
        """Return the ends of the centres at some of the spreads."""
        return np.interp(at, self.at, self.centre_low), np.interp(at, self.at, self.centre_high)


class Nodes(NamedTuple):
    """Centres and spreads with their probabilities."""

    centre: Floats
    spread: Floats
    weight: Floats


class Hyperposterior(NamedTuple):
    """The log density of spreads and centres given all reports, up to a constant, at Gauss's nodes in their ranges.

    ``settled`` says whether the ranges hold all that matters.
    """

    ranges: Ranges
    log: Floats
    settled: bool

    def lattice(self) -> Nodes:
        """Return many nodes, by splines between the few: averages need no more of these, but quantiles fall between them.

        What is negligible is cut off before: splines swing beyond a cliff, far above the largest value if it is a deep one.
        """
        from scipy.interpolate import RectBivariateSpline

        (x, _), (y, _) = map(legendre, self.log.shape)
        u, v = ((np.arange(count) + 0.5) / count for count in LATTICE)
        log = np.maximum(self.log, self.log.max() - DEEPEST)
        log = RectBivariateSpline(x, y, log)(np.clip(u, x[0], x[-1]), np.clip(v, y[0], y[-1]))
        at = self.ranges.low + (self.ranges.high - self.ranges.low) * u
        low, high = self.ranges.between(at)
        weight = np.exp(log - log.max()) * (np.cosh(at) * (high - low))[:, None]
        centre = low[:, None] + (high - low)[:, None] * v
        return Nodes(centre.ravel(), np.repeat(self.ranges.unit * np.sinh(at), v.size), (weight / weight.sum()).ravel())


class Part(NamedTuple):
    """Of some clients the probabilities at their places, and of those at the first and the last what lies beyond them."""

    at: Floats
    beyond: Floats


class Fitted(NamedTuple):
    """Nodes, the log density of all reports averaged over centres and spreads, the laws of the truths, that of the two."""

    nodes: Nodes
    evidence: float
    laws: GridLaws
    hyperposterior: Hyperposterior


@lru_cache(maxsize=16)
def legendre(count: int) -> tuple[Floats, Floats]:
    """Return Gauss's nodes and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(count)
    return (x + 1) / 2, w / 2


class Table:
    """Likelihoods of clients on grids that are fine enough for them and for the priors of some range.

    Clients with features of similar length share a grid; those whose truths may be at the same places, a block.
    """

    def __init__(self, clients: Clients, rows: Ints, family: Family, ranges: Ranges) -> None:
        self.family = family
        near = ranges.centre_low.min() - REACH * ranges.widest, ranges.centre_high.max() + REACH * ranges.widest
        self.near = max(near[0], family.low), min(near[1], family.high)
        feature = np.minimum(clients.feature[rows], max(ranges.widest / 4, 1e-9 * (family.high - family.low)))
        octave = np.floor(np.log2(feature)).astype(int)
        centre = np.clip(clients.centre[rows], family.low, family.high)
        order = np.lexsort((centre, clients.kind[rows], octave))
        rows, octave, feature = rows[order], octave[order], feature[order]
        self.blocks: list[Block] = []
        for each in np.unique(octave):
            members = rows[octave == each]
            places = Places(family.low, family.high, FINE * float(feature[octave == each].min()), family.depth)
            starts, stops = self.windows(clients, members, places)
            for first, last in cut(starts, stops):
                window = Window(places, int(starts[first:last].min()), int(stops[first:last].max()))
                below, above, _ = places.at(np.arange(window.start, window.stop))
                log = clients.log_likelihood(members[first:last], below, above)
                largest = log.max(axis=1)
                np.subtract(log, largest[:, None], out=log)
                self.blocks.append(
                    Block(members[first:last], clients.count[members[first:last]], window, np.exp(log, out=log), largest)
                )

    def windows(self, clients: Clients, rows: Ints, places: Places) -> tuple[Ints, Ints]:
        """Return the first place and the one after the last at which each client's truth may be.

        Where the likelihood is not negligible; of it, where priors are not, unless the client is so far from them that its
        truth may be between.
        """
        low, high = self.near
        centre = np.clip(clients.centre[rows], self.family.low, self.family.high)
        away = np.abs(centre - (low + high) / 2)
        with quiet():
            fall = np.minimum((away / clients.error[rows]) ** 2 / 2, clients.slope[rows] * away)
        own_low, own_high = clients.low[rows], clients.high[rows]
        inside = (fall < 20) & (own_low < high) & (own_high > low)
        starts = np.where(inside, np.maximum(own_low, low), np.minimum(own_low, high))
        stops = np.where(inside, np.minimum(own_high, high), np.maximum(own_high, low))
        first = places.position(np.clip(starts - places.low, 0.0, None))
        last = places.position(np.clip(stops - places.low, 0.0, places.high - places.low))
        first = np.where(starts <= places.low, 0, np.floor(first) - 3)
        last = np.where(stops >= places.high, places.size, np.ceil(last) + 4)
        return np.clip(first, 0, places.size - 8).astype(int), np.clip(last, 8, places.size).astype(int)

    def densities(self, nodes: Nodes) -> Iterator[tuple[Block, Floats]]:
        """Yield each block with the priors on its places, array (places, nodes), times the lengths they stand for."""
        known: dict[tuple[int, int, int], Floats] = {}
        for block in self.blocks:
            key = (block.window.places.cells, block.window.start, block.window.stop)
            if key not in known:
                if len(known) > 8:
                    known.clear()
                known[key] = density(self.family, block.window, nodes)
            yield block, known[key]

    def log_marginals(self, nodes: Nodes) -> Floats:
        """Return the log density of all reports at each node, array (nodes,)."""
        total = np.zeros(nodes.centre.size)
        for block, prior in self.densities(nodes):
            marginal = block.likelihood @ prior
            total += block.clients @ np.log(np.maximum(marginal, TINY)) + block.clients @ block.largest
        return total

    def laws(self, nodes: Nodes, whose: Ints) -> GridLaws:
        """Return each client's law, averaged over the nodes as its own report among all would have them."""
        parts = []
        for block, prior in self.densities(nodes):
            share = nodes.weight / np.maximum(block.likelihood @ prior, TINY)
            beyond = block.likelihood[:, [0, -1]] * (share @ (ends(self.family, block.window, nodes)[1] * prior[[0, -1]]).T)
            parts.append(Part(block.likelihood * (share @ prior.T), beyond))
        return GridLaws(self, parts, nodes, whose)


def cut(starts: Ints, stops: Ints) -> Iterator[tuple[int, int]]:
    """Yield the ends of runs of clients whose windows together are hardly longer than one of them."""
    waiting = [(first, min(first + BLOCK, starts.size)) for first in range(0, starts.size, BLOCK)]
    while waiting:
        first, last = waiting.pop()
        together = stops[first:last].max() - starts[first:last].min()
        if last - first > 1 and together > 64 + 2 * (stops[first:last] - starts[first:last]).max():
            middle = (first + last) // 2
            waiting += [(first, middle), (middle, last)]
        else:
            yield first, last


def density(family: Family, window: Window, nodes: Nodes) -> Floats:
    """Return the priors' probabilities at places, array (places, nodes)."""
    places, start, stop = window
    found = np.zeros((stop - start, nodes.centre.size))
    wide = nodes.spread >= NARROW * places.step
    if wide.any():
        below, above, length = places.at(np.arange(start, stop))
        centre, spread = nodes.centre[wide], nodes.spread[wide]
        with quiet():
            some = np.exp(family.log_density(below[:, None], above[:, None], centre, spread) + length[:, None])
        powers = family.ends(centre, spread)
        if start == 0:  # the rest of the way to the end
            some[0] *= 0.5 + 1 / powers[0]
        if stop == places.size:
            some[-1] *= 0.5 + 1 / powers[1]
        found[:, wide] = some
    for node in np.flatnonzero(~wide):
        put(family, window, float(nodes.centre[node]), float(nodes.spread[node]), found[:, node])
    return found


def ends(family: Family, window: Window, nodes: Nodes) -> tuple[Floats, Floats]:
    """Return with which powers of the distance priors grow at either end, and how much of what is at a place is beyond.

    Arrays (2, nodes), for the first place and the last one.  Where the grid goes on it is half, a trapezoid's other one.
    """
    powers = np.array(family.ends(nodes.centre, nodes.spread))
    reached = np.array([[window.start == 0], [window.stop == window.places.size]])
    return powers, np.where(reached, 1 / (1 + powers / 2), 0.5)


def put(family: Family, window: Window, centre: float, spread: float, found: Floats) -> None:
    """Add a narrow prior to the places: points that stand for it, each by its cubic interpolation."""
    places, start, stop = window
    low, high = max(centre - 6 * spread, places.low), min(centre + 6 * spread, places.high)
    x, w = legendre(12)
    x = low + (high - low) * x
    with quiet():
        log = family.log_density(x - places.low, places.high - x, np.array(centre), np.array(spread))
    w = w * np.exp(log - log.max())
    w /= w.sum()
    u = places.position(x - places.low)
    first = np.clip(np.floor(u) - 1, 0, places.size - 4).astype(int)
    t = u - first
    shares = (
        -(t - 1) * (t - 2) * (t - 3) / 6, t * (t - 2) * (t - 3) / 2, -t * (t - 1) * (t - 3) / 2, t * (t - 1) * (t - 2) / 6
    )  # fmt: skip
    for j, share in enumerate(shares):
        at = first + j - start
        kept = (at >= 0) & (at < stop - start)
        np.add.at(found, at[kept], (w * share)[kept])


class GridLaws:
    """One law per client on the places of its report's block; clients with the same report share theirs.

    Distribution functions are cubic between places, with the densities there as slopes, cut where they would not rise.
    Beyond the first place and the last one likelihoods are as they are there, and each node's prior is a power of the
    distance from the end: rates of priors with most of their mass at the ends may be 1e-100.
    """

    def __init__(self, table: Table, parts: list[Part], nodes: Nodes, whose: Ints) -> None:
        self.table, self.nodes, self.parts, self.whose = table, nodes, parts, whose
        self.size = sum(block.rows.size for block in table.blocks)
        self.means, self.sds = np.empty(self.size), np.empty(self.size)
        for block, (part, beyond) in zip(table.blocks, parts, strict=True):
            np.maximum(part, 0.0, out=part)
            np.clip(beyond, 0.0, part[:, [0, -1]], out=beyond)
            total = part.sum(axis=1, keepdims=True)
            part /= total
            beyond /= total
            values = table.family.value(*self.distances(block.window))
            middle = values[values.size // 2]
            mean = part @ (values - middle)
            self.means[block.rows] = middle + mean
            square = part @ (values - middle) ** 2
            self.sds[block.rows] = np.sqrt(np.maximum(square - mean**2, 1e-30 * (1e-300 + square)))

    @staticmethod
    def distances(window: Window) -> tuple[Floats, Floats]:
        """Return the distances of a window's places from both ends."""
        return window.places.at(np.arange(window.start, window.stop))[:2]

    def mean(self) -> Floats:
        """Mean of each client's law."""
        return self.means[self.whose]

    def sd(self) -> Floats:
        """Standard deviation of each client's law."""
        return self.sds[self.whose]

    def outside(self, block: Block, rows: Ints, end: int) -> tuple[Floats, Floats]:
        """Return each node's share of the mass beyond the first place (end 0) or the last (1), and the powers it grows by.

        Arrays (rows, nodes) and (nodes,); nodes that hold next to nothing there are left out.
        """
        prior = density(self.table.family, block.window, self.nodes)
        powers, beyond = ends(self.table.family, block.window, self.nodes)
        share = self.nodes.weight * prior[-end] * beyond[end] / np.maximum(block.likelihood[rows] @ prior, TINY)
        share = np.maximum(share, 0.0)
        share /= np.maximum(share.sum(axis=1, keepdims=True), TINY)
        kept = share.max(axis=0) > NEGLIGIBLE**2
        return share[:, kept], powers[end, kept]

    def cdf(self, t: float) -> Floats:
        """P(truth <= t) of each client."""
        t, family = single(finite, "t", t), self.table.family
        low, high = (float(family.value(np.array(a), np.array(b))) for a, b in ((0.0, self.width), (self.width, 0.0)))
        if t <= low or t >= high:
            return np.full(self.whose.size, float(t >= high))
        found, away = np.empty(self.size), family.below(t)
        for block, part in zip(self.table.blocks, self.parts, strict=True):
            below, slopes = distribution(part)
            places, start, stop = block.window
            u = float(places.position(np.array([away]))[0]) - start
            if u < 0 or u > stop - start - 1:
                found[block.rows] = float(u > 0)
                continue
            first = min(int(u), stop - start - 2)
            found[block.rows] = hermite(u - first, *(x[:, first + j] for x in (below, slopes) for j in (0, 1)))
            for end, distance in enumerate((away, self.width - away)):
                reach = places.at(np.array([0, places.size - 1]))[end][-end]
                if distance < reach and (start == 0, stop == places.size)[end]:
                    share, powers = self.outside(block, np.arange(block.rows.size), end)
                    beyond = share @ np.exp(powers * np.log(max(distance, TINY) / reach))
                    found[block.rows] = 1 - (1 - below[:, -1]) * beyond if end else below[:, 0] * beyond
        return found[self.whose]

    @property
    def width(self) -> float:
        """Distance of the two ends."""
        return self.table.family.high - self.table.family.low

    def quantile(self, q: float) -> Floats:
        """Quantile of each client's law; an end where no number is between it and the quantile."""
        q = single(probability, "q", q)
        family = self.table.family
        if q in (0.0, 1.0):
            return np.full(self.whose.size, float(family.value(np.array(q * self.width), np.array((1 - q) * self.width))))
        found = np.empty(self.size)
        for block, part in zip(self.table.blocks, self.parts, strict=True):
            (places, start, stop), (below, slopes) = block.window, distribution(part)
            u = inverse(below, slopes, np.full(block.rows.size, q), np.arange(block.rows.size))
            distances = places.at(start + u)[:2]
            mass = below[:, 0], 1 - below[:, -1]
            for end, (level, reached) in enumerate(((q, start == 0), (1 - q, stop == places.size))):
                rows = np.flatnonzero((level < mass[end]) & reached)
                if rows.size:
                    distances[end][rows] *= np.exp(power_root(*self.outside(block, rows, end), level / mass[end][rows]))
            found[block.rows] = family.value(*distances)
        return found[self.whose]

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, clients): a node, then every client given it."""
        found = np.empty((size, self.whose.size))
        nodes = generator.choice(self.nodes.weight.size, size, p=self.nodes.weight / self.nodes.weight.sum())
        uniform = generator.random(found.shape)
        order = np.argsort(self.whose, kind="stable")
        starts = np.searchsorted(self.whose[order], np.arange(self.size + 1))
        for block, prior in self.table.densities(self.nodes):
            clients = np.concatenate([order[starts[row] : starts[row + 1]] for row in block.rows])
            local = np.repeat(np.arange(block.rows.size), np.diff(starts)[block.rows])
            places, start, stop = block.window
            powers, beyond = ends(self.table.family, block.window, self.nodes)
            for node in np.unique(nodes):
                part = np.maximum(block.likelihood * prior[:, node], 0.0)
                part /= np.maximum(part.sum(axis=1, keepdims=True), TINY)
                below, slopes = distribution(Part(part, part[:, [0, -1]] * beyond[:, node]))
                mass = below[:, 0], 1 - below[:, -1]
                several = max(AT_ONCE // max(local.size * below.shape[1], 1), 1)
                drawn = np.flatnonzero(nodes == node)
                for some in (drawn[first : first + several] for first in range(0, drawn.size, several)):
                    q, rows = uniform[np.ix_(some, clients)].ravel(), np.tile(local, some.size)
                    distances = places.at(start + inverse(below, slopes, q, rows))[:2]
                    for end, (level, reached) in enumerate(((q, start == 0), (1 - q, stop == places.size))):
                        out = (level < mass[end][rows]) & reached
                        distances[end][out] *= (level[out] / mass[end][rows[out]]) ** (1 / powers[end, node])
                    found[np.ix_(some, clients)] = self.table.family.value(*distances).reshape(some.size, -1)
        return found


def power_root(share: Floats, powers: Floats, level: Floats) -> Floats:
    """Return the logs x <= 0 at which the sums over nodes of share exp(power x) are the levels, array (rows,).

    >>> power_root(np.array([[0.5, 0.5]]), np.array([1.0, 2.0]), np.array([0.375])).round(9).tolist()  # log of a half
    [-0.693147181]
    """
    low, high = np.full(level.size, -DEEP), np.zeros(level.size)
    for _ in range(60):
        middle = (low + high) / 2
        enough = (share * np.exp(powers * middle[:, None])).sum(axis=1) >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def distribution(part: Part) -> tuple[Floats, Floats]:
    """Return the distribution functions at the places and their slopes per place, arrays (clients, places).

    Between two places the integral of the cubic through four, whose error is of fifth order.
    """
    inner = part.at.copy()
    inner[:, [0, -1]] = 2 * (part.at[:, [0, -1]] - part.beyond)  # half a trapezoid stands there beside what is beyond
    wide = np.concatenate((inner[:, :1], inner, inner[:, -1:]), axis=1)
    cells = np.maximum((13 * (inner[:, :-1] + inner[:, 1:]) - wide[:, :-3] - wide[:, 3:]) / 24, 0.0)
    below = np.concatenate((part.beyond[:, :1], cells), axis=1)
    np.cumsum(below, axis=1, out=below)
    total = below[:, -1:] + part.beyond[:, 1:]
    slopes = inner / total
    cells /= total
    most = np.concatenate((cells[:, :1], np.minimum(cells[:, :-1], cells[:, 1:]), cells[:, -1:]), axis=1)
    return below / total, np.minimum(slopes, 3 * most)


def hermite(t: Floats | float, f0: Floats, f1: Floats, d0: Floats, d1: Floats) -> Floats:
    """Return the cubic on [0, 1] with these ends and slopes."""
    return f0 + t * (d0 + t * (3 * (f1 - f0) - 2 * d0 - d1 + t * (d0 + d1 - 2 * (f1 - f0))))


def inverse(below: Floats, slopes: Floats, q: Floats, rows: Ints) -> Floats:
    """Return where the distribution functions of some rows have the values q, in numbers of places."""
    first = np.clip((below[rows] < q[:, None]).sum(axis=1) - 1, 0, below.shape[1] - 2)
    ends = below[rows, first], below[rows, first + 1], slopes[rows, first], slopes[rows, first + 1]
    low, high = np.zeros(len(q)), np.ones(len(q))
    for _ in range(50):
        middle = (low + high) / 2
        enough = hermite(middle, *ends) >= q
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return first + np.where(q <= below[rows, 0], 0.0, high)


def fit(clients: Clients, family: Family, whose: Ints) -> Fitted:
    """Return the nodes of the posterior of centre and spread, the evidence, and all clients' laws.

    Parameters
    ----------
    clients : likelihoods of the different reports; family : priors; whose : array, which report is whose.
    """
    everybody = np.lexsort((clients.spread, clients.centre))
    some = everybody[:: max(-(-everybody.size // LEARNERS), 1)]
    ranges = first_ranges(clients, some, family)
    ranges = located(Table(clients, some, family, ranges), ranges)[0].ranges
    table = Table(clients, everybody, family, ranges)
    found, nodes, log = located(table, ranges)
    if not found.settled:
        warnings.warn(
            "the search for the prior's centre and spread did not settle; do not use the fit", RuntimeWarning, stacklevel=4
        )
    largest = float(log.max())
    weight = np.exp(log - largest)
    evidence = largest + float(np.log(weight.sum()))
    kept = weight > NEGLIGIBLE * weight.max()
    nodes = Nodes(nodes.centre[kept], nodes.spread[kept], weight[kept] / weight[kept].sum())
    return Fitted(nodes, evidence, table.laws(nodes, whose), found)


def first_ranges(clients: Clients, rows: Ints, family: Family) -> Ranges:
    """Return ranges from normal laws: of each spread, centres near the weighted mean of the clients.

    Spreads are in units that many clients might tell from none; above them, nodes are even in the logarithm.
    """
    error = clients.spread[rows]
    unit = min(float(np.median(error)) / clients.count[rows].sum() ** 0.25, family.widest)
    high = float(np.arcsinh(family.widest / unit))
    at = np.linspace(0.0, high, 32)
    precision = clients.count[rows] / ((unit * np.sinh(at))[:, None] ** 2 + error**2)
    total = precision.sum(axis=1)
    centre = np.clip((precision @ clients.centre[rows]) / total, family.low, family.high)
    reach = 8 / np.sqrt(total)
    centre_low, centre_high = np.maximum(centre - reach, family.low), np.minimum(centre + reach, family.high)
    return Ranges(unit, 0.0, high, at, centre_low, centre_high)


def located(table: Table, ranges: Ranges) -> tuple[Hyperposterior, Nodes, Floats]:
    """Return the ranges where nodes are not negligible and the density there, and nodes with the logs of their weights.

    Ranges shrink to the nodes that are not negligible, or grow where their ends are not, until there are enough of them.
    """
    family = table.family
    top = float(np.arcsinh(family.widest / ranges.unit))
    spreads, centres = SEVERAL if sum(block.rows.size for block in table.blocks) <= FEW else MANY
    (x, wx), (y, wy) = legendre(spreads), legendre(centres)
    passes = 0
    while True:
        width = ranges.high - ranges.low
        at = ranges.low + width * x
        spread = ranges.unit * np.sinh(at)
        measure = np.log(width * wx * np.cosh(at) * ranges.unit / family.widest)
        low, high = ranges.between(at)
        centre = low[:, None] + (high - low)[:, None] * y
        nodes = Nodes(centre.ravel(), np.repeat(spread, centres), np.ones(centre.size))
        log = table.log_marginals(nodes).reshape(centre.shape) + family.log_hyperprior(centre)
        weighted = log + np.log(wy) + np.log(high - low)[:, None]
        best = weighted.max(axis=1, keepdims=True)
        rows = best[:, 0] + np.log(np.exp(weighted - best).sum(axis=1)) + measure
        here = rows - np.log(wx)
        matter = here > here.max() - DROP
        new_low, new_high, enough = shrunk(log, centre, low, high, family.low, family.high)
        (first,), (end,), (many,) = shrunk(here[None], at[None], ranges.low, ranges.high, 0.0, top)
        passes += 1
        settled = bool(enough[matter].all() and many)
        if settled or passes == PASSES:
            return Hyperposterior(ranges, log, settled), nodes, (weighted + measure[:, None]).ravel()
        ranges = Ranges(ranges.unit, float(first), float(end), at, new_low, new_high)


def shrunk(
    log: Floats, at: Floats, low: Floats | float, high: Floats | float, least: float, most: float
) -> tuple[Floats, Floats, Floats]:
    """Return for each row of nodes the ends of the range that matters, and whether the old range was good.

    A range ends where the log probability, as that of a normal law between two nodes, has fallen by `DROP`.  Where it falls
    off a cliff, as that of a staircase may, the range ends at the node beyond: at the edge it would seem to end too early.
    There may be gaps within as well: what counts is how far apart the outermost nodes that matter are.
    """
    fall = np.sqrt(log.max(axis=1, keepdims=True) - log)
    size, rows, reach = log.shape[1], np.arange(len(log)), float(np.sqrt(DROP))
    kept = fall < reach
    low, high = np.broadcast_to(low, len(log)), np.broadcast_to(high, len(log))
    ends = []
    for inner, step, end, bound in (
        (kept.argmax(axis=1), -1, low, least),
        (size - 1 - kept[:, ::-1].argmax(axis=1), 1, high, most),
    ):
        outer = np.clip(inner + step, 0, size - 1)
        near, far = fall[rows, inner], fall[rows, outer]
        with quiet():
            part = np.where(far > near, (reach - near) / (far - near), 0.0)
            part = np.where((near < np.sqrt(OPEN)) & (far > reach), 1.0, part)
        crossing = at[rows, inner] + part * (at[rows, outer] - at[rows, inner])
        opened = (fall[rows, 0 if step < 0 else -1] < np.sqrt(OPEN)) & (end != bound)
        beyond = np.clip(end + step * (high - low), least, most)
        ends.append((np.where(opened, beyond, np.where(outer == inner, end, crossing)), opened))
    (new_low, open_low), (new_high, open_high) = ends
    # What is opened at one end keeps the other: shrunk there it would creep along a slope, by `DROP` at a time.
    new_low, new_high = np.where(open_high & ~open_low, low, new_low), np.where(open_low & ~open_high, high, new_high)
    across = size - kept[:, ::-1].argmax(axis=1) - kept.argmax(axis=1)
    return new_low, new_high, ~open_low & ~open_high & (across > ENOUGH * size)


def node_intervals(family: Family, found: Hyperposterior, level: float) -> dict[str, Any]:
    """Return the ends of equal-tailed intervals for "mean" and "sd" of the clients' truths."""
    nodes = found.lattice()
    mean, variance = family.moments(nodes.centre, nodes.spread)
    ends = (1 - level) / 2, (1 + level) / 2
    named = (("mean", mean), ("sd", np.sqrt(variance)))
    return {name: tuple(lattice_quantile(values, nodes.weight, q) for q in ends) for name, values in named}


def distinct(keys: Sequence[Hashable]) -> tuple[Ints, Ints, Ints]:
    """Return the first place of each different key, which of them each key is, and how often each occurs.

    >>> [found.tolist() for found in distinct(["b", "a", "b"])]
    [[0, 1], [0, 1, 0], [2, 1]]
    """
    places: dict[Hashable, int] = {}
    whose = np.array([places.setdefault(key, len(places)) for key in keys])
    _, first, count = np.unique(whose, return_index=True, return_counts=True)
    return first, whose, count
