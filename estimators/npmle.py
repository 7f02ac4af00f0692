"""Nonparametric maximum likelihood of a mixing distribution, with a certificate of how far it is from the best.

Model: theta_i ~ G, any distribution; client i's data have a known likelihood f_i(theta): Gaussian with its own variance,
binomial with its own number of trials, Poisson with its own exposure.  The fit maximises sum_i w_i log of the integral of
f_i dG over all G (Kiefer & Wolfowitz 1956, Ann. Math. Statist. 27:887; Lindsay 1983, Ann. Statist. 11:86).

Belongs here: the optimisation, free of what its result is used for.  Does not belong here: posteriors of clients and
models with a `fit` method, which are in ``nonparametric``; the compiled loops are in ``npmle_kernels``.

How it works.  With D(theta) = (1/n) sum_i w_i f_i(theta) / f_i(G), no mixing distribution has a log-likelihood above
that of G plus n log max D.  A coordinate t in which all clients' likelihoods have constant width s_i (theta itself,
arcsin sqrt(p), sqrt(rate)) makes the three families alike: |f_i(t + iy)| <= max f_i exp(y^2 / (2 s_i^2)), so each is known
between the nodes of a grid of spacing s_i / 8 to within 1.6e-13 of its peak by polynomials of degree 15.  Clients are put on
grids of dyadic spacings by their widths, the piecewise polynomials added up, and their Bernstein coefficients bound
max D over the continuum from above.  The same polynomials give the local maxima, which become new atoms; masses
come from Newton steps under positivity (Wang 2007, JRSS B 69:185).  Work per round is linear in the number of clients.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import comb

import numpy as np

from estimators.validation import count, finite, nonnegative, positive

__all__ = ["Clients", "Mixing", "binomial_clients", "gaussian_clients", "maximise", "optimality_gap", "poisson_clients"]

CONDENSE = 5000  # clients, above which the fit starts with fewer that are like them
CHUNK = 8192  # clients per task: fixed, so that sums have the same order on any number of threads
NODES = 16  # of each interpolation, 8 on either side of a cell
FINENESS = 8  # standard errors / spacing is in [FINENESS, 2 FINENESS)
# Error of interpolating exp(-z^2/2), or any function with the bound of the docstring above, in units of (spacing/s)^NODES:
# Cauchy's estimate of the derivative with the best radius, sqrt(NODES) s, times the node polynomial at the middle.
REMAINDER = (np.e / NODES) ** (NODES / 2) * np.prod(np.arange(NODES // 2) + 0.5) ** 2
EDGE = 1e-12  # atoms closer than this to the end of a bounded range lie on it
LEBESGUE = 2.0  # of the interpolation as Bernstein coefficients: its largest absolute row sum is 1.78


@dataclass(frozen=True)
class Clients:
    """Likelihoods of the clients in the coordinate t of constant width; made by the functions ``*_clients``.

    Sorted by width and place, equal clients merged into weights.
    """

    family: str
    origin: float
    t: np.ndarray
    s: np.ndarray
    p1: np.ndarray
    p2: np.ndarray
    offset: np.ndarray
    weights: np.ndarray
    constant: float  # log-likelihood with every client at its own peak

    @property
    def total(self):
        """Sum of the weights."""
        return float(self.weights.sum())

    def coordinate(self, theta):
        """Return t of theta."""
        theta = np.asarray(theta, float)
        if self.family == "gaussian":
            return theta - self.origin
        return np.arcsin(np.sqrt(theta)) if self.family == "binomial" else np.sqrt(theta)

    def parameter(self, t):
        """Return theta of t."""
        if self.family == "gaussian":
            return t + self.origin
        return np.sin(t) ** 2 if self.family == "binomial" else np.square(t)


@dataclass(frozen=True)
class Mixing:
    """A discrete mixing distribution: what `maximise` returns.

    ``support`` ascending, ``masses`` adding up to one; ``log_likelihood`` of the data, constants included; ``gap``: no
    mixing distribution's log-likelihood exceeds this one's by more (upper bound, up to rounding of 1e-13 n); ``grid_gap``:
    the same among distributions on the given grid, None without one; ``n_iter`` rounds; ``converged``: whether the gap
    that the fit works on is within the tolerance.
    """

    support: np.ndarray
    masses: np.ndarray
    log_likelihood: float
    gap: float
    grid_gap: float | None
    n_iter: int
    converged: bool


def shapes(t, family, derivatives=False):
    """Return alpha(t) and beta(t) of the kernels, with four rows of their derivatives on demand.

    log 0 is a huge negative number, so that 0 log 0 is 0; derivatives at the ends of the range are 0: what lies there stays.
    """
    out = np.zeros((6 if derivatives else 2, t.size))
    if family == "gaussian":
        return out
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if family == "binomial":
            sine, cosine = np.abs(np.sin(t)), np.abs(np.cos(t))
            rows = [2 * np.log(sine), 2 * np.log(cosine)]
            if derivatives:
                rows += [2 * cosine / sine, -2 * sine / cosine, -2 / sine**2, -2 / cosine**2]
            edge = (sine < EDGE) | (cosine < EDGE)
        else:
            rows = [2 * np.log(np.abs(t)), -np.square(t)]
            if derivatives:
                rows += [2 / t, -2 * t, -2 / t**2, np.full(t.size, -2.0)]
            edge = np.abs(t) < EDGE
    if family == "binomial":
        rows[0][sine < EDGE], rows[1][cosine < EDGE] = -np.inf, -np.inf
    out[:] = rows
    out[:2] = np.maximum(out[:2], -1e300)
    if derivatives:
        out[2:, edge] = 0.0
    return out


def merged(family, origin, t, s, p1, p2, offset, weights, peak):
    """Return `Clients`, sorted by level and place, equal neighbours merged."""
    constant = float(np.sum(weights * peak))
    level = levels_of(s)
    order = np.argsort(t, kind="stable") if family == "gaussian" else np.lexsort((s, t))
    if level.any():
        order = order[np.argsort(level[order], kind="stable")]
    t, s, p1, p2, offset, weights = (a[order] for a in (t, s, p1, p2, offset, weights))
    fresh = np.flatnonzero(np.concatenate([[True], (np.diff(t) != 0) | (np.diff(s) != 0)]))
    if fresh.size < t.size:
        weights = np.add.reduceat(weights, fresh)
        t, s, p1, p2, offset = (a[fresh] for a in (t, s, p1, p2, offset))
    return Clients(family, origin, t, s, p1, p2, offset, weights, constant)


def read_weights(weights, n):
    """Return checked weights, one per client."""
    if weights is None:
        return np.ones(n)
    weights = positive("weights", weights)
    if weights.shape != (n,):
        raise ValueError(f"weights must have one entry per client, shape ({n},), got {weights.shape}")
    return weights


def paired(name, value, like, of):
    """Return `value` with one entry per client, a number standing for all."""
    if value.ndim == 0:
        value = np.full(like.shape, float(value))
    if like.ndim != 1 or value.shape != like.shape or not like.size:
        raise ValueError(
            f"{of} and {name} must be one-dimensional, of equal length and not empty; got {like.shape} and {value.shape}"
        )
    return value


def gaussian_clients(estimates, variances, weights=None):
    """Return the clients' Gaussian likelihoods, estimates[i] ~ N(theta_i, variances[i]).

    Parameters
    ----------
    estimates : array (n,) of finite numbers; variances : array (n,) or one number, finite and > 0.
    weights : array (n,) of numbers > 0, how often each client counts; once if None.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> gaussian_clients([1.0, 2.0, 1.0], 1.0).weights.tolist()
    [2.0, 1.0]
    """
    x = finite("estimates", estimates)
    variances = paired("variances", positive("variances", variances), x, "estimates")
    weights = read_weights(weights, x.size)
    origin = float(x.min())
    s = np.sqrt(variances)
    peak = -0.5 * np.log(2 * np.pi * variances)
    return merged("gaussian", origin, x - origin, s, x - origin, 1 / s, np.zeros(x.size), weights, peak)


def binomial_clients(x, n, weights=None):
    """Return the clients' binomial likelihoods, x[i] ~ Binomial(n[i], theta_i).

    Parameters
    ----------
    x : array of whole numbers >= 0; n : array or one number, whole, >= 1 and >= x; weights : as in `gaussian_clients`.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> [round(float(t), 6) for t in binomial_clients([0, 1], [2, 2]).t]
    [0.0, 0.785398]
    """
    from scipy.special import gammaln, xlogy

    x = count("x", x, 0)
    n = paired("n", count("n", n, 1), x, "x")
    if (x > n).any():
        raise ValueError(f"x must not exceed n; client {int(np.argmax(x > n))} has more successes than trials")
    weights = read_weights(weights, x.size)
    top = xlogy(x, x / n) + xlogy(n - x, (n - x) / n)
    peak = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + top
    t = np.arctan2(np.sqrt(x), np.sqrt(n - x))
    return merged("binomial", 0.0, t, 0.5 / np.sqrt(n), x, n - x, top, weights, peak)


def poisson_clients(x, exposure=1.0, weights=None):
    """Return the clients' Poisson likelihoods, x[i] ~ Poisson(exposure[i] theta_i).

    Parameters
    ----------
    x : array of whole numbers >= 0; exposure : array or one number, finite and > 0; weights : as in `gaussian_clients`.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> poisson_clients([4, 1], 1.0).t.tolist()
    [1.0, 2.0]
    """
    from scipy.special import gammaln, xlogy

    x = count("x", x, 0)
    exposure = paired("exposure", positive("exposure", exposure), x, "x")
    weights = read_weights(weights, x.size)
    top = xlogy(x, x / exposure) - x
    peak = xlogy(x, x) - x - gammaln(x + 1)
    return merged("poisson", 0.0, np.sqrt(x / exposure), 0.5 / np.sqrt(exposure), x, exposure, top, weights, peak)


def levels_of(s):
    """Return how many times the coarsest spacing, s.max() / FINENESS, is halved for each client."""
    return np.ceil(np.log2(s.max() / s) - 1e-12).astype(np.int16)


@cache
def bernstein_matrix():
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

    def __init__(self, clients, workers):
        self.clients, self.workers = clients, workers
        self.reach = 8.55 if clients.family == "gaussian" else 14.1
        self.first, self.last = float(clients.t.min()), float(clients.t.max())
        level = levels_of(clients.s)
        spacing = clients.s.max() / FINENESS / 2.0**level
        place = clients.t - self.first
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
            self.alpha, self.beta = shapes(np.concatenate(self.node_t), clients.family)
        self.node_t = None
        self.band = band
        self.remainder = REMAINDER * self.steps**NODES

    def plan_cells(self, own, windows, spacing):
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
        parts = []
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
        self.windows, self.parents, self.sides, leaf, lefts, widths = (np.concatenate(p) for p in zip(*parts, strict=True))
        self.leaves = np.flatnonzero(leaf)
        self.lefts, self.widths = lefts[self.leaves], widths[self.leaves]
        self.coefficients = np.empty((leaf.size, NODES))

    def spread(self, rows, scaled):
        """Return the nodes that the clients in `rows` reach and their sums there."""
        from estimators import npmle_kernels as kernels

        c = self.clients
        low = int((self.positions[rows] - self.band[rows]).min())
        high = int((self.positions[rows] + self.band[rows]).max()) + 1
        out = np.zeros(high - low)
        nodes = self.positions[rows] - low
        if c.family == "gaussian":
            kernels.spread_gaussian(scaled[rows], nodes, self.starts[rows], self.steps[rows], self.reach, out)
        else:
            kernels.spread_exponential(
                scaled[rows], c.p1[rows], c.p2[rows], c.offset[rows], nodes, self.steps[rows], self.reach,
                self.alpha, self.beta, low, out,
            )  # fmt: skip
        return low, out

    def __call__(self, state, tolerance):
        """Return (bound on max D, places and heights of its local maxima) for the clients' densities under `state`.

        The bound exceeds the maximum by no more than `tolerance` and the errors of interpolation.
        """
        from estimators import npmle_kernels as kernels

        scaled = self.clients.weights / (state.density * self.clients.total)
        values = np.zeros(self.size)
        for low, out in self.workers(lambda rows: self.spread(rows, scaled)):
            values[low : low + out.size] += out
        kernels.expand(values, bernstein_matrix(), self.windows, self.parents, self.sides, self.coefficients)
        places, heights = np.empty((2, self.leaves.size))
        found = kernels.peaks(self.coefficients, self.leaves, self.lefts, self.widths, self.first, places, heights)
        error = float(np.sum(scaled * (self.remainder + 2 * LEBESGUE * np.exp(-kernels.CUT))))
        bound = kernels.upper_bound(self.coefficients, self.leaves, tolerance) + error
        return bound, np.clip(places[:found], self.first, self.last), heights[:found]


def unions(lows, highs, gap):
    """Return starts and ends of the unions of intervals that are less than `gap` apart."""
    order = np.argsort(lows, kind="stable")
    lows, tops = lows[order], np.maximum.accumulate(highs[order])
    cut = np.flatnonzero(lows[1:] > tops[:-1] + gap)
    return lows[np.concatenate([[0], cut + 1])], tops[np.concatenate([cut, [lows.size - 1]])]


class Workers:
    """Maps a function over fixed ranges of clients, on threads; the results come in the order of the ranges."""

    def __init__(self, n, pool):
        self.ranges = [slice(begin, min(begin + CHUNK, n)) for begin in range(0, n, CHUNK)]
        self.pool = pool

    def __call__(self, function):
        """Return the results of `function`, one per range."""
        if len(self.ranges) == 1:
            return [function(self.ranges[0])]
        return self.pool.map(function, self.ranges)


@dataclass
class State:
    """Atoms and masses with what a Newton step needs.

    ``density`` of each client, ``value``: log-likelihood less its constant; ``first``: D, D' and D'' at the atoms;
    ``second``: minus the curvature in masses and, below it, in moves of the atoms times their masses.
    """

    t: np.ndarray
    masses: np.ndarray
    density: np.ndarray
    value: float
    first: np.ndarray
    second: np.ndarray


def evaluate(clients, workers, t, masses, order):
    """Return the `State` of atoms t (ascending) with masses; order 1 for D, 2 for masses alone, 3 for moves as well."""
    from estimators import npmle_kernels as kernels

    table = shapes(t, clients.family, derivatives=True)
    # exp(FLOOR) and less counts as 0: a Gaussian is there after 37.5 s, the others after 53 s.
    reach = (37.5 if clients.family == "gaussian" else 53.0) * clients.s
    low, high = np.searchsorted(t, clients.t - reach), np.searchsorted(t, clients.t + reach, side="right")
    density = np.empty(clients.t.size)
    width = 2 * t.size if order == 3 else t.size

    def task(rows):
        first, second = np.zeros((3, t.size)), np.zeros((width, width))
        kernels.sums(
            clients.family == "gaussian", clients.p1[rows], clients.p2[rows], clients.offset[rows], clients.weights[rows],
            low[rows], high[rows], t, table, masses, order, density[rows], first, second,
        )  # fmt: skip
        return first, second

    first, second = np.zeros((3, t.size)), np.zeros((width, width))
    for part in workers(task):
        first, second = first + part[0], second + part[1]
    alive = density.min() > 1e-300
    value = float(np.sum(clients.weights * np.log(density))) if alive else -np.inf
    total = clients.total
    return State(t, masses, density, value, first / total, (second + np.tril(second, -1).T) / total)


def factor(matrix):
    """Return the upper Cholesky root of a matrix that is positive definite but for rounding, or None."""
    from scipy.linalg import cholesky

    ridge = 1e-13 * np.trace(matrix)
    for _ in range(4):
        try:
            return cholesky(matrix + ridge * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            ridge *= 30
    return None


def targets(state, moving):
    """Return masses >= 0 and moves that maximise the second-order model of the log-likelihood less n times the sum.

    Moves are eliminated from the model (Schur complement); None if it is not concave.
    """
    from scipy.linalg import cho_solve, solve_triangular
    from scipy.optimize import nnls

    k = state.t.size
    hessian, gain = state.second[:k, :k], 2 * state.first[0] - 1
    free = moving & (state.first[2] < 0) & (state.masses > 0)
    if free.any():
        mass, index = state.masses[free], k + np.flatnonzero(free)
        cross = state.second[index, :k]
        cross[np.arange(index.size), index - k] -= state.first[1, free] / mass
        # The model is in masses and mass times move, around no move: its gradient at masses pi is D' - cross (p - pi).
        inner = state.second[np.ix_(index, index)] - np.diag(state.first[2, free] / mass)
        root = factor(inner)
        if root is None:
            return None
        pull = state.first[1, free] + cross @ state.masses
        hessian = hessian - cross.T @ cho_solve((root, False), cross)
        gain = state.first[0] - 1 + state.second[:k, :k] @ state.masses - cross.T @ cho_solve((root, False), pull)
    outer = factor(hessian)
    if outer is None:
        return None
    target = nnls(outer, solve_triangular(outer, gain, trans=1), maxiter=100 * k)[0]
    moves = np.zeros(k)
    if free.any():
        moves[free] = cho_solve((root, False), pull - cross @ target) / mass
    return target, moves


def climb(clients, workers, state, moving, tolerance, limit):
    """Improve masses, and places where `moving`, by Newton steps until they hardly matter; drop atoms without mass.

    Stops when the model promises less than `tolerance` of log-likelihood per client.
    """
    order = 3 if moving else 2
    for _ in range(limit):
        found = targets(state, moving)
        if found is None and moving:
            found = targets(state, False)
        if found is None:
            break
        target, moves = found
        share, trial = 1.0, None
        while share > 1e-3:
            masses = state.masses + share * (target - state.masses)
            keep = masses > 0
            t = np.clip(state.t + share * moves, clients.t.min(), clients.t.max())[keep]
            if (np.diff(t) > 0).all():
                trial = evaluate(clients, workers, t, masses[keep] / masses.sum(), order)
                if trial.value >= state.value:
                    break
            share /= 4
        if share <= 1e-3:
            break
        gained = (trial.value - state.value) / clients.total
        state = trial
        if gained <= tolerance:
            break
    return state


def cover(clients):
    """Return few atoms with every client's peak within half a standard error of one of them."""
    low, high = clients.t - 0.5 * clients.s, clients.t + 0.5 * clients.s
    order = np.argsort(high, kind="stable")
    low, high = low[order], high[order]
    atoms, reached = [], -np.inf
    for start, end in zip(low.tolist(), high.tolist(), strict=True):
        if start > reached:
            reached = end
            atoms.append(end)
    return np.clip(np.array(atoms), clients.t.min(), clients.t.max())


def condensed(clients):
    """Return fewer clients that are like these: those of nearly equal width and place are averaged into one."""
    octave = np.floor(4 * np.log2(clients.s.max() / clients.s))
    cell = np.floor(clients.t / (clients.s.max() / 4) * 2 ** (octave / 4))
    octave, cell = octave.astype(np.int64), cell.astype(np.int64)
    _, group = np.unique(octave * (int(cell.max()) + 1) + cell, return_inverse=True)
    weights = np.bincount(group, clients.weights)
    t, s = (np.bincount(group, clients.weights * a) / weights for a in (clients.t, clients.s))
    if clients.family == "gaussian":
        p1, p2, top = t, 1 / s, np.zeros(t.size)
    else:
        n = 0.25 / s**2
        alpha, beta = shapes(t, clients.family)
        p1 = n * (np.sin(t) if clients.family == "binomial" else t) ** 2
        p2 = n * np.cos(t) ** 2 if clients.family == "binomial" else n
        top = p1 * alpha + p2 * beta
    return merged(clients.family, clients.origin, t, s, p1, p2, top, weights, np.zeros(t.size))


def merged_atoms(state, places):
    """Return atoms and masses with those on the same hill of D, by its local maxima, put together at their centre."""
    hill = np.abs(places[:, None] - state.t).argmin(axis=0)
    mass = np.bincount(hill, state.masses, places.size)
    held = mass > 0
    centre = np.bincount(hill, state.masses * state.t, places.size)[held] / mass[held]
    order = np.argsort(centre)
    return centre[order], mass[held][order]


def improve(clients, workers, state, dual, tolerance, max_iter, moving=True):
    """Return (state, bound on max D, rounds): new atoms at the maxima of D, new masses, until the bound is 1 + tolerance.

    Rounds of new atoms leave pairs of atoms around each best place.  If `moving`, they are put together close to the
    optimum and moved by Newton steps, which is kept where it gains likelihood, and tried again when the bound has fallen
    fourfold.
    """
    merge_below = 1 / clients.total if moving else 0.0
    for rounds in range(1, max_iter + 1):
        bound, places, heights = dual(state, 0.1 * tolerance)
        if bound - 1 <= tolerance or rounds == max_iter:
            break
        before = state
        if bound - 1 < merge_below and places.size:
            merge_below = (bound - 1) / 4
            start = evaluate(clients, workers, *merged_atoms(before, places), 3)
            state = climb(clients, workers, start, True, 0.01 * tolerance, 6)
        if not state.value > before.value:
            t = np.union1d(before.t, places[heights > 1])
            masses = np.zeros(t.size)
            masses[np.searchsorted(t, before.t)] = before.masses
            state = climb(clients, workers, evaluate(clients, workers, t, masses, 2), False, 0.03 * (bound - 1), 3)
            if not state.value > before.value:
                break
    return state, bound, rounds


def started(clients, workers, t):
    """Return a `State` from a few dozen rounds of expectation-maximisation on atoms t."""
    masses = np.full(t.size, 1 / t.size)
    for _ in range(30):
        masses = masses * evaluate(clients, workers, t, masses, 1).first[0]
    return evaluate(clients, workers, t, masses / masses.sum(), 2)


def on_grid(clients, grid):
    """Return the clients with likelihoods relative to the best grid point, and the logs of what that divides by."""
    right = np.clip(np.searchsorted(grid, clients.t), 0, grid.size - 1)
    best = np.full(clients.t.size, -np.inf)
    for t in (grid[np.maximum(right - 1, 0)], grid[right]):
        if clients.family == "gaussian":
            value = -0.5 * ((t - clients.p1) * clients.p2) ** 2
        else:
            alpha, beta = shapes(t, clients.family)
            value = clients.p1 * alpha + clients.p2 * beta - clients.offset
        best = np.maximum(best, value)
    if best.min() < -1e200:
        raise ValueError("grid gives some client's data no likelihood at all; add points near its estimate")
    constant = clients.constant + float(np.sum(clients.weights * best))
    return replace(clients, offset=clients.offset + best, constant=constant), best


def read_grid(clients, grid):
    """Return a user's grid in the coordinate t, ascending and without repetitions."""
    grid = finite("grid", grid) if clients.family == "gaussian" else nonnegative("grid", grid)
    if grid.ndim != 1 or not grid.size:
        raise ValueError(f"grid must be a one-dimensional array of candidates for the support, got shape {grid.shape}")
    if clients.family == "binomial" and grid.max() > 1:
        raise ValueError(f"grid must lie in [0, 1] for binomial clients, got {grid.max()}")
    return np.unique(clients.coordinate(grid))


def maximise(clients, grid=None, tolerance=1e-4, max_iter=200, threads=None):
    """Nonparametric maximum likelihood estimate of the mixing distribution, with a bound on what is missing.

    Model: independent clients with the given likelihoods, theta_i ~ G.  The log-likelihood is exact, the gap an upper bound.

    Parameters
    ----------
    clients : `Clients`, from `gaussian_clients`, `binomial_clients` or `poisson_clients`.
    grid : array of candidates for the support, in the units of theta; None (default) for all of the parameter space.
    tolerance : number > 0; the fit stops when no mixing distribution (on the grid, if there is one) has a
        log-likelihood larger by more than this.  Rounding sets a floor near 1e-12 n.
    max_iter : whole number >= 1 of rounds; the result says whether they were enough.
    threads : whole number >= 1, all processors if None; the result does not depend on it.

    Returns
    -------
    Mixing

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> two = maximise(gaussian_clients([0.0, 10.0, 10.0], 1.0))
    >>> two.support.round(6).tolist(), two.masses.round(6).tolist(), two.gap < 1e-4
    ([0.0, 10.0], [0.333333, 0.666667], True)
    """
    tolerance = float(positive("tolerance", tolerance)) / clients.total
    max_iter = int(count("max_iter", max_iter))
    with ThreadPoolExecutor(os.cpu_count() if threads is None else int(count("threads", threads))) as pool:
        workers = Workers(clients.t.size, pool)
        if grid is not None:
            return maximise_on_grid(clients, workers, read_grid(clients, grid), tolerance, max_iter)
        few, rounds = clients, 0
        if clients.t.size > CONDENSE:
            few = condensed(clients)
        few_workers = Workers(few.t.size, pool)
        state = started(few, few_workers, np.unique(cover(few)))
        if few is not clients:
            dual = Dual(few, few_workers)
            state, _, rounds = improve(few, few_workers, state, dual, 0.1 / clients.total, max_iter)
            state = evaluate(clients, workers, state.t, state.masses, 0)
            if not np.isfinite(state.value):
                state = started(clients, workers, np.unique(cover(clients)))
        dual = Dual(clients, workers)
        state, bound, more = improve(clients, workers, state, dual, tolerance, max_iter)
        state, bound = tidied(clients, workers, state, dual, bound, tolerance)
    return result(clients, state, bound, None, rounds + more, bound - 1 <= tolerance)


def tidied(clients, workers, state, dual, bound, tolerance):
    """Return state and bound with neighbouring atoms put together where that costs nothing."""
    _, places, _ = dual(state, tolerance)
    if 0 < places.size < state.t.size:
        trial = evaluate(clients, workers, *merged_atoms(state, places), 0)
        if np.isfinite(trial.value):
            trial_bound, _, _ = dual(trial, 0.1 * tolerance)
            if trial_bound - 1 <= max(bound - 1, tolerance):
                return trial, trial_bound
    return state, bound


def maximise_on_grid(clients, workers, grid, tolerance, max_iter):
    """Return the `Mixing` whose support is part of the grid, in the coordinate t."""
    relative, best = on_grid(clients, grid)

    def dual(state, _):
        masses = np.zeros(grid.size)
        masses[np.searchsorted(grid, state.t)] = state.masses
        heights = evaluate(relative, workers, grid, masses, 1).first[0]
        padded = np.concatenate([[-np.inf], heights, [-np.inf]])
        top = (heights >= padded[:-2]) & (heights >= padded[2:])
        return heights.max(), grid[top], heights[top]

    start = started(relative, workers, grid)
    state, bound, rounds = improve(relative, workers, start, dual, tolerance, max_iter, moving=False)
    grid_gap = clients.total * np.log(max(bound, 1.0))
    density = state.density * np.exp(best)
    everywhere = Dual(clients, workers)(replace(state, density=density), tolerance)[0] if density.min() > 1e-280 else np.inf
    return result(relative, state, everywhere, grid_gap, rounds, bound - 1 <= tolerance)


def result(clients, state, bound, grid_gap, rounds, converged):
    """Return the `Mixing` of a state, without atoms of no mass."""
    keep = state.masses > 0
    gap = clients.total * np.log(max(bound, 1.0))
    return Mixing(
        clients.parameter(state.t[keep]),
        state.masses[keep] / state.masses.sum(),
        state.value + clients.constant,
        float(gap),
        None if grid_gap is None else float(grid_gap),
        int(rounds),
        bool(converged),
    )


def optimality_gap(clients, support, masses, threads=None):
    """Upper bound on how much larger than that of a given mixing distribution a log-likelihood can be; inf if unknown.

    For results of other software too: n log max D over all of the parameter space.

    Parameters
    ----------
    clients : `Clients`; support : array of atoms in the units of theta; masses : array of their probabilities, scaled
    to add up to one; threads : as in `maximise`.

    Returns
    -------
    (gap, log_likelihood) : two floats.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> gap, value = optimality_gap(gaussian_clients([-1.0, 1.0], 1.0), [0.0], [1.0])
    >>> bool(gap < 1e-9), round(value, 6)
    (True, -2.837877)
    """
    support = finite("support", support)
    masses = nonnegative("masses", masses)
    if support.ndim != 1 or support.shape != masses.shape or not masses.sum() > 0:
        raise ValueError(
            f"support and masses must be of equal length, masses not all 0; got {support.shape}, {masses.shape}"
        )
    t = clients.coordinate(support)
    order = np.argsort(t, kind="stable")
    with ThreadPoolExecutor(os.cpu_count() if threads is None else int(count("threads", threads))) as pool:
        workers = Workers(clients.t.size, pool)
        state = evaluate(clients, workers, t[order], (masses / masses.sum())[order], 0)
        if not np.isfinite(state.value):
            return np.inf, -np.inf
        bound = Dual(clients, workers)(state, 1e-9 / clients.total)[0]
    return clients.total * np.log(max(bound, 1.0)), state.value + clients.constant
