"""Draws from the posterior law of a prior of any shape, given all clients: a Dirichlet process of smoothed groups.

Belongs here: the hyperprior, the lattice it is computed on, and the Markov chain.  The most likely prior is found in
``solver``, clients' likelihoods and posteriors are in ``nonparametric``.

Hyperprior, in the coordinate where errors are alike: G is an average of `GROUPS` normal laws (or one more for each point of
the most likely prior), with sd `BANDWIDTH` typical standard errors, as a prior of any shape is not known to be as discrete
as the most likely one; centres are uniform over the range of the clients' own estimates and `BEYOND` such sds beyond it;
weights are Dirichlet(a / groups), close to a Dirichlet process of concentration a (Ferguson 1973, Ann. Statist. 1:209;
Ishwaran and Zarepour 2002, Canad. J. Stat. 30:269), and a is any of `CONCENTRATIONS`, with equal chances.  What lies beyond
the end of a bounded range is on it.

How it works.  Gibbs' sampler over which group each client comes from (true values integrated out), centres, weights and a.
Centres and true values lie in cells of a lattice, fine where clients are precise; a likelihood is that of a cell's middle.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from estimators.numerics.arrays import Floats, Ints

if TYPE_CHECKING:
    from estimators.npmle.clients import Clients

__all__ = ["Lattice", "chain", "lattice", "points"]

GROUPS = 30  # more than the points of the most likely prior
CONCENTRATIONS = 2.0 ** np.arange(6)
BANDWIDTH = 0.5  # sd of a group, in typical standard errors
BEYOND = 4.0  # sds of a group that centres may lie beyond the clients' own estimates, and clients beyond centres
FINE = 4  # cells in a standard error
FAR = 6.0  # standard errors from a client where cells need not be fine
MANY = 500  # clients who stand for all where the lattice is laid out
BURN, SWEEPS = 40, 200  # sweeps before the first draw, and after it


class Lattice(NamedTuple):
    """Cells [low, high] in the coordinate t, arrays (k,), ascending; a single point has low = high.

    ``kernel`` : rows of (first cell, chances of the cells from it on), the law of a client of the group centred in each of
    `centres`, which have the probabilities `base`.
    """

    low: Floats
    high: Floats
    centres: Floats
    base: Floats
    kernel: list[tuple[int, Floats]]

    @property
    def places(self) -> Floats:
        """Middles of the cells."""
        return self.low + (self.high - self.low) / 2

    def heard(self, likelihoods: Floats) -> Floats:
        """Return likelihoods of groups (m, groups) from those of cells (m, k)."""
        return np.stack([np.einsum("ik,k->i", likelihoods[:, i : i + row.size], row) for i, row in self.kernel], axis=1)

    def spread(self, weights: Floats) -> Floats:
        """Return chances of cells (draws, k) from those of groups (draws, groups)."""
        found = np.zeros((len(weights), self.low.size))
        for group, (i, row) in enumerate(self.kernel):
            found[:, i : i + row.size] += weights[:, group, None] * row
        return found


def points(t: Floats) -> Lattice:
    """Return the lattice of the given points alone, ascending, each of which may be a group."""
    return Lattice(t, t, t, np.full(t.size, 1 / t.size), [(i, np.ones(1)) for i in range(t.size)])


def lattice(clients: Clients) -> Lattice:
    """Return the lattice for the clients of a fit."""
    from scipy.special import ndtr

    from estimators.npmle.clients import condensed

    sd = BANDWIDTH / np.sqrt(np.average(1 / clients.s**2, weights=clients.weights))
    few = condensed(clients, MANY) if clients.t.size > MANY else clients
    first, last = float(clients.t.min()), float(clients.t.max())
    ends = {"gaussian": (-np.inf, np.inf), "binomial": (0.0, np.pi / 2), "poisson": (0.0, np.inf)}[clients.family]
    low, high = max(first - 2 * BEYOND * sd, ends[0]), min(last + 2 * BEYOND * sd, ends[1])
    first, last = max(first - BEYOND * sd, ends[0]), min(last + BEYOND * sd, ends[1])
    edges = marched(few.t, few.s, low, high)
    # Points at the ends of a bounded range, where what lies beyond is.
    edges = np.concatenate((edges[: int(low == ends[0])], edges, edges[edges.size - int(high == ends[1]) :]))
    groups = marched(few.t, np.maximum(few.s, 2 * sd), first, last)
    centres = (groups[1:] + groups[:-1]) / 2
    base = np.diff(groups) / (last - first)
    kernel = []
    for centre in centres:
        i, j = np.searchsorted(edges, [centre - 2 * BEYOND * sd, centre + 2 * BEYOND * sd])
        i = max(int(i) - 1, 0)
        below = ndtr((edges[i : int(j) + 1] - centre) / sd)
        below[0], below[-1] = 0.0, 1.0  # what lies beyond is in the cell at the end
        kernel.append((i, np.diff(below)))
    return Lattice(edges[:-1], edges[1:], centres, base, kernel)


def marched(t: Floats, s: Floats, low: float, high: float) -> Floats:
    """Return edges from `low` to `high`: cells of 1 / `FINE` standard errors at each client, wider away from clients."""
    edges, here = [low], low
    while here < high:
        away = np.abs(t - here)
        step = float(np.min(np.maximum(s, away / 2))) / FINE
        if np.all(away > FAR * s):
            next_ones = t[t > here] - FAR * s[t > here]
            step = max(step, float(next_ones.min(initial=high)) - here)
        here = min(here + step, high) if here + step > here else high
        edges.append(here)
    if len(edges) > 2 and edges[-1] - edges[-2] < (edges[-2] - edges[-3]) / 2:
        del edges[-2]
    return np.array(edges)


def chain(
    generator: np.random.Generator,
    logs: Floats,
    base: Floats,
    start: tuple[Ints, Floats],
    loops: ModuleType,
    every: int = 1,
    sweeps: int = SWEEPS,
) -> Floats:
    """Return draws (sweeps / every, places) of the probabilities that groups have at each place, given the clients.

    Parameters
    ----------
    logs : array (m, places), log-likelihoods of the clients in a group at each place.
    base : array (places,) of probabilities, the law of each group's place.
    start : places and weights of groups where the chain starts.
    loops : ``arrays``, or ``kernels`` for many clients.
    """
    from scipy.special import gammaln

    m, size = logs.shape
    likelihoods = np.exp(np.ascontiguousarray(logs.T) - logs.max(axis=1))  # places by clients
    groups = GROUPS + start[0].size
    cumulative_base = np.cumsum(base)
    log_base = np.log(base)

    def from_base(count):
        return np.minimum(np.searchsorted(cumulative_base, generator.random(count) * cumulative_base[-1]), size - 1)

    place = np.concatenate([start[0], from_base(GROUPS)])
    weights = np.concatenate([start[1], np.full(GROUPS, 1e-2)])
    shares = CONCENTRATIONS / groups
    # Logs of the law of a partition, without its groups, and of a group of each size.
    height = gammaln(CONCENTRATIONS) - gammaln(CONCENTRATIONS + m)
    heights_of_sizes = gammaln(shares[:, None] + np.arange(m + 1)) - gammaln(shares)[:, None]
    held, sums = np.empty(groups, np.int64), np.empty((groups, size))
    found = np.empty((sweeps // every, size))
    for sweep in range(1, BURN + sweeps + 1):
        loops.sort_clients(likelihoods, logs, place, weights, generator.random(m), held, sums)
        taken = np.flatnonzero(held)
        heights = sums[taken] + log_base
        heights -= heights.max(axis=1, keepdims=True)
        chances = np.cumsum(np.exp(heights), axis=1)
        mark = generator.random(taken.size) * chances[:, -1]
        place = from_base(groups)
        place[taken] = np.minimum((chances < mark[:, None]).sum(axis=1), size - 1)
        of_partition = height + heights_of_sizes[:, held[taken]].sum(axis=1)
        chances = np.cumsum(np.exp(of_partition - of_partition.max()))
        share = shares[min(int(np.searchsorted(chances, generator.random() * chances[-1])), shares.size - 1)]
        weights = np.maximum(generator.standard_gamma(share + held), 1e-300)
        weights /= weights.sum()
        if sweep > BURN and (sweep - BURN) % every == 0:
            found[(sweep - BURN) // every - 1] = np.bincount(place, weights, size)
    return found
