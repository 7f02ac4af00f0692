"""Maximisation over mixing distributions: new atoms, new masses, and places, by Newton steps.

Belongs here: the steps and their order, and what is returned.  Does not belong here: likelihoods (``clients``), the
certificate (``dual``), loops (``kernels`` and ``arrays``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from estimators.npmle.clients import condensed, cover, shapes
from estimators.npmle.dual import Dual
from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.validation import count, finite, nonnegative, positive, single

if TYPE_CHECKING:
    from estimators.npmle.clients import Clients


CHUNK = 8192  # clients per task: fixed, so that sums have the same order on any number of threads
CONDENSE = 5000  # clients, above which the fit starts with fewer that are like them,
CONDENSED = 20  # about this many times fewer
NOWHERE = np.empty(0)  # the places and heights of no maximum
NEAR = 4  # atoms on either side, among which one at a time comes or goes
FEW = 1000  # different clients up to which loops in NumPy serve: compiling takes longer than their fit


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


def loops_for(n: int) -> ModuleType:
    """Return the module of loops for n clients: ``arrays`` for few of them, ``kernels`` for many."""
    if n <= FEW:
        from estimators.npmle import arrays

        return arrays
    from estimators.npmle import kernels

    return kernels


class Workers:
    """Maps a function over fixed ranges of clients, on threads; the results come in the order of the ranges.

    ``loops`` : the module of loops that the function is to call.
    """

    def __init__(self, n: int, pool: ThreadPoolExecutor | None, loops: ModuleType) -> None:
        self.ranges = [slice(begin, min(begin + CHUNK, n)) for begin in range(0, n, CHUNK)]
        self.pool = pool
        self.loops = loops

    def __call__(self, function: Callable[[slice], Any]) -> Iterable[Any]:
        """Return the results of `function`, one per range."""
        if self.pool is None or len(self.ranges) == 1:
            return [function(part) for part in self.ranges]
        return self.pool.map(function, self.ranges)


@dataclass
class State:
    """Atoms and masses with what a Newton step needs.

    ``density`` of each client, ``value``: log-likelihood less its constant; ``first``: D, D' and D'' at the atoms;
    ``second``: minus the curvature in masses or, each after its atom's mass, in moves of the atoms times their masses as
    well, where masses are kept: the upper half of a matrix in its band, row r from the diagonal on.
    """

    t: np.ndarray
    masses: np.ndarray
    density: np.ndarray
    value: float
    first: np.ndarray
    second: np.ndarray


def evaluate(clients: Clients, workers: Workers, t: Floats, masses: Floats, order: int) -> State:
    """Return the `State` of atoms t (ascending) with masses; order 1 for D, 2 for masses alone, 3 for moves as well."""
    table = shapes(t, clients.family)
    # exp(FLOOR) and less counts as 0: a Gaussian is there after 37.5 s, the others after 53 s.
    reach = (37.5 if clients.family == "gaussian" else 53.0) * clients.s
    low, high = np.searchsorted(t, clients.t - reach), np.searchsorted(t, clients.t + reach, side="right")
    density = np.empty(clients.t.size)
    each = max(order - 1, 0)  # rows of `second` for each atom
    band = each * t.size, each * int((high - low).max())

    def task(rows):
        first, second = np.zeros((3, t.size)), np.zeros(band)
        workers.loops.sums(
            clients.family == "gaussian", clients.p1[rows], clients.p2[rows], clients.offset[rows], clients.weights[rows],
            low[rows], high[rows], t, table, masses, order, density[rows], first, second,
        )  # fmt: skip
        return first, second

    first, second = np.zeros((3, t.size)), np.zeros(band)
    for part in workers(task):
        first, second = first + part[0], second + part[1]
    alive = density.min() > 1e-300
    value = float(np.sum(clients.weights * np.log(density))) if alive else -np.inf
    total = clients.total
    return State(t, masses, density, value, first / total, second / total)


NEGLIGIBLE = 1e-18  # of a matrix scaled to ones on its diagonal: far below the ridge that `definite` adds


def ahead(x: NDArray[Any], width: int) -> NDArray[Any]:
    """Return each entry with the `width` - 1 after it, zeros beyond the end, as rows of a view."""
    padded = np.zeros(x.size + width - 1, x.dtype)
    padded[: x.size] = x
    return np.ndarray((x.size, width), x.dtype, padded, strides=2 * padded.strides)


def times(band: Floats, x: Floats) -> Floats:
    """Return the product of a symmetric matrix, by its upper band, and a vector."""
    size, width = band.shape
    places = np.arange(size)[:, None] + np.arange(width)
    band = np.where(places < size, band, 0.0)
    both = np.bincount(places.ravel(), (band * x[:, None]).ravel())[:size]  # with the diagonal
    return both + np.einsum("rc,rc->r", band[:, 1:], ahead(x, width)[:, 1:])


def trimmed(band: Floats) -> Floats:
    """Return a band without numbers that are negligible beside its diagonal, and no wider than it must be."""
    scale = np.sqrt(np.abs(band[:, 0]))
    band = np.where(np.abs(band) > NEGLIGIBLE * scale[:, None] * ahead(scale, band.shape[1]), band, 0.0)
    return band[:, : 1 + int(np.flatnonzero(band.any(axis=0)).max(initial=0))]


def solution(band: Floats, right: Floats, free: Bools, loops: ModuleType) -> Floats | None:
    """Return x of matrix x = right with entries that are not free 0, or None if the matrix is not positive definite."""
    part = np.where(free[:, None] & ahead(free, band.shape[1]), band, 0.0)
    part[~free, 0] = 1.0
    x = np.where(free, right, 0.0)
    return x if loops.solve(part, x) else None


def definite(band: Floats, gain: Floats, free: Bools, loops: ModuleType) -> tuple[Floats, Floats] | None:
    """Return the band of a positive definite matrix, but for rounding, and what was added to its diagonal; or None."""
    for ridge in (1e-14, 1e-13, 1e-12, 1e-11, 1e-10):
        added = ridge * band[:, 0]
        whole = band.copy()
        whole[:, 0] += added
        if solution(whole, gain, free, loops) is not None:
            return whole, added
    return None


def constrained(
    band: Floats, gain: Floats, x: Floats, free: Bools, bounded: Bools, tolerance: float, near: int, loops: ModuleType
) -> Floats:
    """Return the least of q(x) = x' matrix x / 2 - gain' x over x >= 0 where `bounded` and 0 where not `free`.

    It starts from an x that obeys, and ends when no bounded entry that is 0 has a slope below -`tolerance`, or below
    rounding.

    Active sets (Lawson and Hanson 1974), many entries at a time: on the way to the least q over the free entries, those that
    would be the first of their neighbours to fall below 0 are put there; at the end those that q falls with come back, the
    best of their neighbours.  Where that does not lower q, entries go and come one by one, which does.  Solutions are cheap,
    since atoms that no client sees together make a narrow band.
    """

    def along(x: Floats, free: Bools, near: int) -> Floats:
        """Return the least q over free entries, less those that went on the way: the first of `near` on either side."""
        while True:
            aim = solution(band, gain, free, loops)
            if aim is None:
                return x
            if not (low := bounded & (aim < 0)).any():
                return aim
            shares = np.divide(x, x - aim, out=np.full(x.size, np.inf), where=low)
            gone = low & (shares == least_near(shares, near))
            x = x + shares.min() * (aim - x)
            x[gone | (bounded & (x < 0))] = 0.0
            free = free & ~gone

    x = along(x, free & (~bounded | (x > 0)), near)
    for _ in range(x.size):
        sums = times(band, x)
        rounding = 1e-13 * (times(np.abs(band), np.abs(x)) + np.abs(gain))
        pull = gain - sums
        pull[~(free & bounded) | (x > 0) | (pull <= tolerance + rounding)] = 0.0
        if not pull.any():
            break
        for reach in (near, 8 * near, x.size):
            back = (pull > 0) & (-pull == least_near(-pull, reach))
            found = along(x, free & (~bounded | (x > 0) | back), reach)
            move = found - x
            if move @ (sums - gain) + 0.5 * move @ times(band, move) < 0:  # what q gains
                x = found
                break
        else:
            break
    return x


def least_near(values: Floats, near: int) -> Floats:
    """Return the least of each value and `near` others on either side of it."""
    if near >= values.size:
        return np.full(values.size, values.min())
    padded = np.full(values.size + 2 * near, np.inf)
    padded[near : near + values.size] = values
    return ahead(padded, 2 * near + 1)[: values.size].min(axis=1)


def targets(state: State, moving: bool, tolerance: float, loops: ModuleType) -> tuple[Floats, Floats] | None:
    """Return masses >= 0 and moves that maximise the second-order model of the log-likelihood less n times the sum.

    Where that is not concave, its concave part stands for it, which is close where slopes are small.  None if rounding
    spoils that as well.  Slopes at masses of 0 are at most a tenth of `tolerance`.
    """
    value, slope, bend = state.first
    each = 2 if moving else 1
    # Unknowns are the masses or, in turns, masses p and moves times the present masses, which begin at 0.
    x, rise, free = np.zeros(each * state.t.size), np.empty(each * state.t.size), np.ones(each * state.t.size, bool)
    x[::each], rise[::each] = state.masses, value - 1
    bounded, stirs = np.arange(x.size) % each == 0, bend != 0  # D'' is set to 0 at the ends
    if moving:
        free[1::2], rise[1::2] = stirs, slope
    for concave in (False, True):
        band = state.second.copy()
        if moving:
            by_mass = np.divide(1.0, state.masses, out=np.zeros(bend.size), where=stirs)
            band[1::2, 0] -= by_mass * (np.minimum(bend, 0) if concave else bend)
            band[::2, 1] -= 0 if concave else by_mass * slope
        band = trimmed(band)
        gain = rise + times(band, x)
        found = definite(band, gain, free, loops)
        if found is not None:
            break
    else:
        return None
    band, added = found
    # What was added pulls towards the present masses, not towards 0, so that it leaves no bias where steps end.
    target = constrained(band, gain + added * x, x, free, bounded, 0.1 * tolerance, NEAR * each, loops)
    moves = target[1::2] / state.masses if moving else np.zeros(state.t.size)
    room = 0.45 * np.diff(state.t, prepend=-np.inf, append=np.inf)  # atoms keep their order: one must not spoil all steps
    return target[::each], np.clip(moves, -room[:-1], room[1:])


def excess(state: State, moving: bool) -> float:
    """Return how far D exceeds 1 at the atoms or, with the gain that a move of the atom alone promises, near them."""
    value, slope, bend = state.first
    if moving:
        bend = state.masses * state.second[1::2, 0] - bend
        value = value + np.divide(slope**2, 2 * bend, out=np.zeros(bend.size), where=bend > 0)
    return value.max() - 1


def slack(value: float) -> float:
    """Return the rounding of a log-likelihood: a step is not refused for losing this much."""
    return 1e-13 * abs(value)


def climb(clients: Clients, workers: Workers, state: State, moving: bool, tolerance: float, limit: int) -> State:
    """Improve masses, or masses and places, by Newton steps until D at the atoms is 1 within `tolerance`.

    Atoms that lose all mass are dropped.  Steps in masses are shortened where they fail; steps in places end when one
    fails or two hardly help.
    """
    last = [np.inf, np.inf]
    for _ in range(limit):
        now = excess(state, moving)
        if now <= tolerance or (moving and now >= 0.9 * last[-2]):
            break
        found = targets(state, moving, tolerance, workers.loops)
        if found is None:
            break
        last.append(now)
        target, moves = found
        for share in (1.0,) if moving else (1.0, 0.25, 0.06, 0.015, 0.004, 0.001):
            masses = state.masses + share * (target - state.masses)
            keep = masses > 0
            t = np.clip(state.t + moves, clients.t.min(), clients.t.max())[keep] if moving else state.t[keep]
            if (np.diff(t) > 0).all():
                trial = evaluate(clients, workers, t, masses[keep] / masses.sum(), 3 if moving else 2)
                if trial.value >= state.value - slack(state.value):
                    state = trial
                    break
        else:
            break
    return state


def merged_atoms(state: State, places: Floats) -> tuple[Floats, Floats]:
    """Return atoms and masses with those on the same hill of D, by its local maxima, put together at their centre."""
    places = np.sort(places)
    hill = np.searchsorted((places[1:] + places[:-1]) / 2, state.t)
    mass = np.bincount(hill, state.masses, places.size).astype(float)
    held = mass > 0
    centre = np.bincount(hill, state.masses * state.t, places.size)[held] / mass[held]
    order = np.argsort(centre)
    return centre[order], mass[held][order]


def improve(
    clients: Clients,
    workers: Workers,
    state: State,
    dual: Callable[..., Any],
    tolerance: float,
    max_iter: int,
    moving: bool = True,
) -> tuple[State, float, Floats, int]:
    """Return (state, bound on max D, its maxima, rounds): new atoms there, new masses, until the bound is 1 + tolerance.

    Rounds of new atoms leave pairs of atoms around each best place.  If `moving`, they are put together close to the
    optimum and moved by Newton steps; kept if that lowers the bound, and tried again when it has fallen fourfold.
    Ends early when neither the bound nor the log-likelihood has got better for five rounds.
    """
    merge_below = 1 + 1 / clients.total if moving else 0.0
    best: tuple[State, float, Floats, Floats] = (state, np.inf, NOWHERE, NOWHERE)
    before: tuple[State, float, Floats, Floats] | None = None
    top, idle, rounds = state.value, 0, 0
    for _ in range(max_iter):
        rounds += 1
        bound, places, heights = dual(state, 0.1 * tolerance)
        now = state, bound, places, heights
        idle = 0 if now[1] < best[1] or state.value > top + slack(top) else idle + 1
        best, top = (now if now[1] < best[1] else best), max(top, state.value)
        if before is not None and now[1] > before[1]:
            now = before
        before = None
        state, bound, places, heights = now
        if bound - 1 <= tolerance or idle == 5:
            break
        if bound < merge_below and places.size:
            merge_below, before = 1 + (bound - 1) / 4, now
            start = evaluate(clients, workers, *merged_atoms(state, places), 3)
            state = climb(clients, workers, start, True, 0.1 * tolerance, 8)
        else:
            # Atoms found on fewer clients may lie outside the range by rounding.
            old = np.clip(state.t, clients.t.min(), clients.t.max()) if moving else state.t
            t = np.union1d(old, places[heights > 1 + 0.1 * tolerance])
            masses = np.bincount(np.searchsorted(t, old), state.masses, t.size).astype(float)
            state = climb(clients, workers, evaluate(clients, workers, t, masses, 2), False, 0.1 * (bound - 1), 3)
    return best[0], best[1], best[2], rounds


def started(clients: Clients, workers: Workers, t: Floats) -> State:
    """Return a `State` from a few dozen rounds of expectation-maximisation on atoms t."""
    masses = np.full(t.size, 1 / t.size)
    for _ in range(30):
        masses = masses * evaluate(clients, workers, t, masses, 1).first[0]
    return evaluate(clients, workers, t, masses / masses.sum(), 2)


def on_grid(clients: Clients, grid: Floats) -> tuple[Clients, Floats]:
    """Return the clients with likelihoods relative to the best grid point, and the logs of what that divides by."""
    right = np.clip(np.searchsorted(grid, clients.t), 0, grid.size - 1)
    best = np.full(clients.t.size, -np.inf)
    for t in (grid[np.maximum(right - 1, 0)], grid[right]):
        if clients.family == "gaussian":
            value = -0.5 * ((t - clients.p1) * clients.p2) ** 2
        else:
            alpha, beta = shapes(t, clients.family)[:2]
            value = clients.p1 * alpha + clients.p2 * beta - clients.offset
        best = np.maximum(best, value)
    if best.min() < -1e200:
        raise ValueError("grid gives some client's data no likelihood at all; add points near its estimate")
    constant = clients.constant + float(np.sum(clients.weights * best))
    return replace(clients, offset=clients.offset + best, constant=constant), best


def read_grid(clients: Clients, grid: ArrayLike) -> Floats:
    """Return a user's grid in the coordinate t, ascending and without repetitions."""
    grid = finite("grid", grid) if clients.family == "gaussian" else nonnegative("grid", grid)
    if grid.ndim != 1 or not grid.size:
        raise ValueError(f"grid must be a one-dimensional array of candidates for the support, got shape {grid.shape}")
    if clients.family == "binomial" and grid.max() > 1:
        raise ValueError(f"grid must lie in [0, 1] for binomial clients, got {grid.max()}")
    return np.unique(clients.coordinate(grid))


def maximise(
    clients: Clients, grid: ArrayLike | None = None, tolerance: float = 1e-4, max_iter: int = 200, threads: int | None = None
) -> Mixing:
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

    Notes
    -----
    Time per round is linear in the number of clients and quadratic in that of the atoms, plus their cube: hundreds of atoms
    are fine, thousands (clients many standard errors apart, each its own atom) are slow.  Memory: some 200 bytes per client.

    Up to 1000 different clients nothing is compiled: NumPy does the same steps with the same certificate.  On the same data
    the two ways differ by rounding, which can change the last step: both log-likelihoods are within `tolerance` of the best.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> from estimators.npmle import gaussian_clients
    >>> two = maximise(gaussian_clients([0.0, 10.0, 10.0], 1.0))
    >>> two.support.round(6).tolist(), two.masses.round(6).tolist(), two.gap < 1e-4
    ([0.0, 10.0], [0.333333, 0.666667], True)
    """
    tolerance = single(positive, "tolerance", tolerance) / clients.total
    max_iter = int(single(count, "max_iter", max_iter))
    with ThreadPoolExecutor(os.cpu_count() if threads is None else int(single(count, "threads", threads))) as pool:
        workers = Workers(clients.t.size, pool, loops_for(clients.t.size))
        if grid is not None:
            return maximise_on_grid(clients, workers, read_grid(clients, grid), tolerance, max_iter)
        few, rounds = condensed(clients, clients.t.size // CONDENSED) if clients.t.size > CONDENSE else clients, 0
        few_workers = Workers(few.t.size, pool, workers.loops)
        state = started(few, few_workers, np.unique(cover(few)))
        if few is not clients:
            dual = Dual(few, few_workers)
            state, _, _, rounds = improve(few, few_workers, state, dual, 0.1 / clients.total, max_iter)
            state = evaluate(clients, workers, state.t, state.masses, 0)
            if not np.isfinite(state.value):
                state = started(clients, workers, np.unique(cover(clients)))
        dual = Dual(clients, workers)
        state, bound, places, more = improve(clients, workers, state, dual, tolerance, max_iter)
        state, bound = tidied(clients, workers, state, dual, bound, places, tolerance)
    return result(clients, state, bound, None, rounds + more, bound - 1 <= tolerance)


def tidied(
    clients: Clients, workers: Workers, state: State, dual: Dual, bound: float, places: Floats, tolerance: float
) -> tuple[State, float]:
    """Return state and bound with neighbouring atoms put together where that costs nothing."""
    if 0 < places.size < state.t.size:
        trial = evaluate(clients, workers, *merged_atoms(state, places), 0)
        if np.isfinite(trial.value):
            trial_bound, _, _ = dual(trial, 0.1 * tolerance)
            if trial_bound - 1 <= max(bound - 1, tolerance):
                return trial, trial_bound
    return state, bound


def maximise_on_grid(clients: Clients, workers: Workers, grid: Floats, tolerance: float, max_iter: int) -> Mixing:
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
    state, bound, _, rounds = improve(relative, workers, start, dual, tolerance, max_iter, moving=False)
    grid_gap = clients.total * np.log(max(bound, 1.0))
    density = state.density * np.exp(best)
    everywhere = Dual(clients, workers)(replace(state, density=density), tolerance)[0] if density.min() > 1e-280 else np.inf
    return result(relative, state, everywhere, grid_gap, rounds, bound - 1 <= tolerance)


def result(clients: Clients, state: State, bound: float, grid_gap: float | None, rounds: int, converged: bool) -> Mixing:
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


def optimality_gap(
    clients: Clients, support: ArrayLike, masses: ArrayLike, threads: int | None = None
) -> tuple[float, float]:
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

    >>> from estimators.npmle import gaussian_clients
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
    with ThreadPoolExecutor(os.cpu_count() if threads is None else int(single(count, "threads", threads))) as pool:
        workers = Workers(clients.t.size, pool, loops_for(clients.t.size))
        state = evaluate(clients, workers, t[order], (masses / masses.sum())[order], 0)
        if not np.isfinite(state.value):
            return np.inf, -np.inf
        bound = Dual(clients, workers)(state, 1e-9 / clients.total)[0]
    return clients.total * np.log(max(bound, 1.0)), state.value + clients.constant
