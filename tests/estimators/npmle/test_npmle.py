"""The optimiser of mixing distributions: optimality, certificates, symmetry, and agreement with plain methods."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import interpolate, optimize, special, stats

from estimators import NonparametricCounts, NonparametricMeans
from estimators.npmle import (
    arrays,
    binomial_clients,
    dual,
    gaussian_clients,
    kernels,
    maximise,
    optimality_gap,
    poisson_clients,
    solver,
)
from estimators.npmle import clients as clients_module

LOOPS = {"arrays": 10**9, "kernels": 0}
"""Modules of loops, and the number of clients up to which NumPy serves that makes every fit use them."""


@pytest.fixture(params=LOOPS, autouse=True)
def loops(request, monkeypatch):
    """Every law of this file holds for both modules of loops."""
    monkeypatch.setattr(solver, "FEW", LOOPS[request.param])
    return {"arrays": arrays, "kernels": kernels}[request.param]


def gaussian_data(n, seed=0, spread=4.0):
    rng = np.random.default_rng(seed)
    v = rng.uniform(1 / spread, spread, n) ** 2
    theta = np.where(rng.random(n) < 0.5, 0.0, rng.normal(0, 3, n))
    return theta + np.sqrt(v) * rng.standard_normal(n), v


def binomial_data(n, seed=0):
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 60, n)
    return rng.binomial(trials, rng.beta(2, 6, n)), trials


def poisson_data(n, seed=0):
    rng = np.random.default_rng(seed)
    exposure = rng.uniform(0.2, 20, n)
    return rng.poisson(exposure * rng.gamma(1, 2, n)), exposure


FAMILIES = {
    "gaussian": (gaussian_clients, gaussian_data, lambda x, v, t: stats.norm.pdf(x, t, np.sqrt(v))),
    "binomial": (binomial_clients, binomial_data, stats.binom.pmf),
    "poisson": (poisson_clients, poisson_data, lambda x, e, t: stats.poisson.pmf(x, e * t)),
}


def likelihood(family, data, theta):
    density = FAMILIES[family][2]
    return density(data[0][:, None], data[1][:, None], np.asarray(theta))


@pytest.mark.parametrize("family", FAMILIES)
def test_optimality(family):
    """D is at most 1 everywhere, 1 at the atoms, and the log-likelihood is what SciPy says."""
    make, draw, _ = FAMILIES[family]
    data = draw(300)
    best = maximise(make(*data), tolerance=1e-7)
    assert best.converged
    assert 0 <= best.gap <= 1e-7
    mixture = likelihood(family, data, best.support) @ best.masses
    assert best.log_likelihood == pytest.approx(np.log(mixture).sum(), rel=1e-12)
    top = {"gaussian": (data[0].min(), data[0].max()), "binomial": (0, 1), "poisson": (0, (data[0] / data[1]).max())}[family]
    everywhere = np.linspace(*top, 4001)
    dual = (likelihood(family, data, everywhere) / mixture[:, None]).mean(axis=0)
    assert dual.max() <= 1 + 1e-9
    assert (likelihood(family, data, best.support) / mixture[:, None]).mean(axis=0) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_above_the_maximum_and_close(family, seed):
    """For any mixing distribution, against a fine search with SciPy's densities; heights of the maxima agree as well."""
    make, draw, _ = FAMILIES[family]
    data = draw(120, seed)
    clients = make(*data)
    rng = np.random.default_rng(seed)
    support = np.sort(clients.parameter(rng.uniform(clients.t.min(), clients.t.max(), 6)))
    masses = rng.dirichlet(np.ones(6))
    gap, value = optimality_gap(clients, support, masses)
    mixture = likelihood(family, data, support) @ masses
    t = np.linspace(clients.t.min(), clients.t.max(), 20001)
    dual = (likelihood(family, data, clients.parameter(t)) / mixture[:, None]).mean(axis=0)
    assert value == pytest.approx(np.log(mixture).sum(), rel=1e-12)
    found = 120 * np.log(dual.max())
    assert found - 1e-9 * abs(found) <= gap <= found * (1 + 1e-4)


def test_the_gap_bounds_what_the_best_distribution_gains():
    x, v = gaussian_data(200)
    clients = gaussian_clients(x, v)
    best = maximise(clients, tolerance=1e-8)
    normal = optimize.minimize_scalar(lambda log: -stats.norm.logpdf(x, np.average(x), np.sqrt(v + np.exp(log))).sum())
    assert best.log_likelihood > -normal.fun
    for grid in (np.linspace(x.min(), x.max(), 20), np.linspace(-5, 5, 11)):
        coarse = maximise(clients, grid=grid, tolerance=1e-6)
        assert coarse.grid_gap is not None
        assert coarse.grid_gap <= 1e-6
        assert coarse.log_likelihood <= best.log_likelihood <= coarse.log_likelihood + coarse.gap


def test_a_grid_against_expectation_maximisation():
    """Plain EM on the same grid climbs to the same log-likelihood, never above the certificate."""
    x, v = gaussian_data(150)
    grid = np.linspace(x.min(), x.max(), 30)
    best = maximise(gaussian_clients(x, v), grid=grid, tolerance=1e-8)
    table = stats.norm.pdf(x[:, None], grid, np.sqrt(v)[:, None])
    masses = np.full(grid.size, 1 / grid.size)
    for _ in range(20000):
        masses *= (table / (table @ masses)[:, None]).mean(axis=0)
    value = np.log(table @ masses).sum()
    assert value <= best.log_likelihood + 1e-8
    assert value == pytest.approx(best.log_likelihood, abs=1e-2)
    assert np.isin(best.support.round(9), grid.round(9)).all()


def test_two_far_groups_are_solved_by_hand():
    """n1 clients at 0 and n2 at 100: atoms there, masses by counts, log-likelihood by hand."""
    clients = gaussian_clients(np.repeat([0.0, 100.0], [3, 7]), 1.0)
    best = maximise(clients, tolerance=1e-9)
    assert best.support == pytest.approx([0, 100], abs=1e-9)
    assert best.masses == pytest.approx([0.3, 0.7], abs=1e-9)
    assert best.log_likelihood == pytest.approx(3 * np.log(0.3) + 7 * np.log(0.7) - 5 * np.log(2 * np.pi), rel=1e-12)


def test_two_clients_merge_within_two_standard_errors():
    """With unit variances and d apart, one atom in the middle is best exactly if d <= 2; D'' there is d^2 / 4 - 1."""
    for d, atoms in ((1.9, 1), (2.2, 2)):
        best = maximise(gaussian_clients([0.0, d], 1.0), tolerance=1e-9)
        assert best.support.size == atoms
        assert best.support.mean() == pytest.approx(d / 2, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_stand_for_repetitions(family):
    make, draw, _ = FAMILIES[family]
    first, second = draw(50)
    times = np.random.default_rng(1).integers(1, 5, 50)
    weighted = maximise(make(first, second, weights=times), tolerance=1e-8)
    repeated = maximise(make(np.repeat(first, times), np.repeat(second, times)), tolerance=1e-8)
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood, abs=1e-7)
    shuffled = np.random.default_rng(2).permutation(50)
    again = maximise(make(first[shuffled], second[shuffled], weights=times[shuffled]), tolerance=1e-8)
    assert again.log_likelihood == pytest.approx(weighted.log_likelihood, abs=1e-9)


@pytest.mark.parametrize(("shift", "scale"), [(0, 1e-6), (0, 1e6), (1e4, 1), (-3, 0.01)])
def test_equivariance(shift, scale):
    x, v = gaussian_data(100)
    base = maximise(gaussian_clients(x, v), tolerance=1e-7)
    moved = maximise(gaussian_clients(shift + scale * x, scale**2 * v), tolerance=1e-7)
    assert moved.log_likelihood + 100 * np.log(scale) == pytest.approx(base.log_likelihood, abs=2e-7)
    assert moved.support == pytest.approx(shift + scale * base.support, abs=1e-3 * scale)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_many_clients_with_estimates_at_the_ends(family):
    """More clients than the fit works on at first, some of them with no success or nothing but successes."""
    rng = np.random.default_rng(0)
    n = np.arange(1.0, 8001.0) / 8 if family == "poisson" else rng.integers(1, 400, 8000)
    x = rng.poisson(n * rng.gamma(0.3, 1, 8000)) if family == "poisson" else rng.binomial(n, rng.beta(0.5, 0.5, 8000))
    clients = FAMILIES[family][0](x, n)
    assert clients.t.size > solver.CONDENSE
    best = maximise(clients, tolerance=1e-2)
    assert best.gap <= 1e-2


def test_far_outliers_with_tiny_errors():
    """Ten octaves of widths, clients a billion standard errors away: no underflow, each gets its atom."""
    x = np.concatenate([np.random.default_rng(0).normal(0, 1, 100), [1e3, 1e3 + 1e-6, -50.0]])
    v = np.concatenate([np.ones(100), [1e-12, 1e-12, 1e-4]])
    best = maximise(gaussian_clients(x, v), tolerance=1e-6)
    assert best.converged
    assert best.gap <= 1e-6
    assert best.support[-1] == pytest.approx(1e3, abs=1e-5)
    assert best.masses[0] == pytest.approx(1 / 103, rel=1e-6)


def test_bits_do_not_depend_on_threads():
    x, v = gaussian_data(30_000)
    clients = gaussian_clients(x, v)
    one, two = (maximise(clients, tolerance=1e-2, threads=threads) for threads in (1, 3))
    assert one.support.tobytes() == two.support.tobytes()
    assert one.masses.tobytes() == two.masses.tobytes()
    assert (one.log_likelihood, one.gap, one.n_iter) == (two.log_likelihood, two.gap, two.n_iter)
    assert one.gap < 1e-2
    assert clients.t.size > solver.CONDENSE  # the start with fewer clients is exercised too


@pytest.mark.parametrize("family", FAMILIES)
def test_loops_against_differences(family, loops):
    make, draw, _ = FAMILIES[family]
    data = draw(200)
    clients = make(*data)
    workers = solver.Workers(clients.t.size, None, loops)
    t = np.linspace(clients.t.min() + 0.01, clients.t.max() - 0.01, 7)
    masses = np.arange(1.0, 8.0) / 28

    def table(t):
        peak = likelihood_at_peaks(clients, t)
        return peak

    values = table(t)
    density = values @ masses
    h = 1e-4 * clients.s.min()
    slope = (table(t + h) - table(t - h)) / (2 * h) / density[:, None]
    bend = (table(t + h) - 2 * values + table(t - h)) / h**2 / density[:, None]
    share = values / density[:, None]
    w = clients.weights
    state = solver.evaluate(clients, workers, t, masses, 3)
    total = clients.total
    assert state.density == pytest.approx(density, rel=1e-12)
    assert state.first[0] == pytest.approx(w @ share / total, rel=1e-12)
    assert state.first[1] == pytest.approx(w @ slope / total, rel=1e-5, abs=1e-6)
    assert state.first[2] == pytest.approx(w @ bend / total, rel=1e-3, abs=1e-2)
    both = np.stack([share, slope], axis=2).reshape(share.shape[0], -1)
    assert whole(state.second) == pytest.approx(both.T @ (w[:, None] * both) / total, rel=1e-5, abs=1e-5)


def whole(band):
    """The symmetric matrix of an upper band, one entry at a time."""
    matrix = np.zeros((len(band), len(band)))
    for (row, offset), value in np.ndenumerate(band):
        if row + offset < len(band):
            matrix[row, row + offset] = matrix[row + offset, row] = value
    return matrix


def banded(matrix, width):
    """The upper band of a symmetric matrix."""
    return np.array(
        [[matrix[r, r + c] if r + c < len(matrix) else np.nan for c in range(width)] for r in range(len(matrix))]
    )


def likelihood_at_peaks(clients, t):
    """Likelihood of clients (rows) at t relative to its peak, from the kernels' definition."""
    if clients.family == "gaussian":
        return np.exp(-0.5 * ((t - clients.p1[:, None]) * clients.p2[:, None]) ** 2)
    alpha, beta = clients_module.shapes(t, clients.family)[:2]
    return np.exp(clients.p1[:, None] * alpha + clients.p2[:, None] * beta - clients.offset[:, None])


def perturbed(clients, atoms=9, seed=0):
    """Some mixing distribution, in the coordinate t."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(clients.t.min(), clients.t.max(), atoms)), rng.dirichlet(np.ones(atoms))


def both_ways(function):
    """What `function` returns for each module of loops."""
    return [function(loops) for loops in (arrays, kernels)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [1, 70, 1500])
def test_the_two_modules_of_loops_agree(family, n):
    """The same sums, the same polynomials, the same maxima and the same bound, on clients of several widths."""
    make, draw, _ = FAMILIES[family]
    clients = make(*draw(n))
    t, masses = perturbed(clients) if n > 1 else (clients.t, np.ones(1))

    def state(loops):
        return solver.evaluate(clients, solver.Workers(clients.t.size, ThreadPoolExecutor(1), loops), t, masses, 3)

    one, two = both_ways(state)
    assert one.value == pytest.approx(two.value, rel=1e-13)
    for name in ("density", "first", "second"):
        scale = np.abs(getattr(two, name)).max()
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-11, abs=1e-13 * scale), name

    def look(loops):
        found = dual.Dual(clients, solver.Workers(clients.t.size, ThreadPoolExecutor(1), loops))
        return *found(two, 1e-7), found.coefficients

    one, two = both_ways(look)
    assert one[0] == pytest.approx(two[0], rel=2e-7)  # both within the share 1e-7 above the maximum
    assert one[1] == pytest.approx(two[1], abs=1e-7)  # where a hill is flat, rounding moves its top
    assert one[2] == pytest.approx(two[2], rel=1e-11)
    assert one[3] == pytest.approx(two[3], rel=1e-9, abs=1e-11 * np.abs(two[3]).max())


@pytest.mark.parametrize("width", [1, 2, 7, 30])
def test_banded_systems_against_numpys_solution(loops, width):
    """Also with rows that end before the band does, as atoms of clients far apart have."""
    rng = np.random.default_rng(width)
    matrix = rng.normal(size=(30, 30))
    matrix[np.abs(np.subtract.outer(np.arange(30), np.arange(30))) >= width] = 0.0
    matrix[9:, :9] = matrix[:9, 9:] = 0.0
    matrix = matrix + matrix.T + 4 * np.sqrt(width) * np.eye(30)
    right = rng.normal(size=30)
    x, band = right.copy(), banded(matrix, width)
    assert solver.times(band, right) == pytest.approx(matrix @ right, rel=1e-12, abs=1e-12)
    assert loops.solve(band, x)
    assert x == pytest.approx(np.linalg.solve(matrix, right), rel=1e-11, abs=1e-12)
    assert not loops.solve(np.array([[1.0, 2.0], [1.0, 0.0]]), np.ones(2))
    assert not loops.solve(np.zeros((2, 1)), np.ones(2))


def test_the_two_modules_have_the_same_constants():
    for name in ("CUT", "FLOOR", "FAINT", "PIECES"):
        assert getattr(arrays, name) == getattr(kernels, name), name


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [300, 1000, 1001, 3000])
def test_fits_agree_on_both_sides_of_the_switch(family, n, monkeypatch):
    """Each fit is certified within the tolerance, by its own loops and by the others, which find the same gap."""
    make, draw, _ = FAMILIES[family]
    clients = make(*draw(n))
    fits = []
    for few in LOOPS.values():
        monkeypatch.setattr(solver, "FEW", few)
        fits.append(maximise(clients, tolerance=1e-6))
    one, two = fits
    assert one.converged
    assert two.converged
    assert max(one.gap, two.gap) <= 1e-6
    assert one.log_likelihood == pytest.approx(two.log_likelihood, rel=0, abs=1e-6)
    for fit in fits:
        gaps = []
        for few in LOOPS.values():
            monkeypatch.setattr(solver, "FEW", few)
            gaps.append(optimality_gap(clients, fit.support, fit.masses)[0])
        assert gaps[0] == pytest.approx(gaps[1], rel=0, abs=1e-8 + 1e-12 * n)
        assert max(gaps) <= 1e-6 + 1e-8


def test_the_switch_is_at_the_number_of_different_clients(monkeypatch):
    monkeypatch.setattr(solver, "FEW", 1000)
    assert [solver.loops_for(n) for n in (1, 1000, 1001)] == [arrays, arrays, kernels]


@pytest.mark.parametrize("height", [0.01, 1.0, 1e6])
def test_peaks_and_bounds_of_cells_against_scipys_polynomials(loops, height):
    """Unimodal coefficients make unimodal polynomials: one peak where the derivative vanishes, none where it does not."""
    rng = np.random.default_rng(0)
    k = np.arange(dual.NODES)
    centres, spreads = np.array([1.0, 2.5, 4.0, 7.7, 11.0, 13.0, 14.0]), np.array([0.6, 2.0, 0.5, 5.0, 1.0, 3.0, 0.6])
    hills = height * np.exp(-(((k - centres[:, None]) / spreads[:, None]) ** 2))
    slope = height * np.sort(rng.random(dual.NODES))
    cells = np.vstack([hills, slope, slope[::-1], slope[::-1], np.full(dual.NODES, height)])
    leaves = np.array([8, *range(7)[::-1], 9, 7])  # the first cell and another fall, the last rises; one is no leaf
    lefts, widths = np.arange(10.0) - 3, rng.uniform(0.1, 2, 10)
    places, heights = np.zeros(20), np.zeros(20)
    found = loops.peaks(cells, leaves, np.full(10, -1), lefts, widths, lefts[0], places, heights)
    polynomials = [interpolate.BPoly(b[:, None], [0, 1]) for b in hills[::-1]]
    tops = [optimize.brentq(p.derivative(), 0, 1, xtol=1e-15) for p in polynomials]
    assert found == 8
    assert places[:8] == pytest.approx([lefts[0], *(lefts[1:8] + widths[1:8] * tops)], abs=1e-9)
    assert heights[:8] == pytest.approx(
        [slope[-1], *(float(p(x)) for p, x in zip(polynomials, tops, strict=True))], rel=1e-12
    )
    rough = np.vstack([cells, height * rng.random((4, dual.NODES))])
    for chosen in (leaves, np.arange(1, 6), np.array([10]), np.arange(11, 15), np.array([11]), np.array([7]), np.array([9])):
        best = max(interpolate.BPoly(rough[i][:, None], [0, 1])(np.linspace(0, 1, 20001)).max() for i in chosen)
        assert best * (1 - 1e-13) <= loops.upper_bound(rough, chosen, 1e-6) <= best * (1 + 2e-6)


@pytest.mark.parametrize("seed", range(5))
def test_all_maxima_of_a_wavy_cell_are_found(loops, seed):
    """A cell may fall, rise and fall again: each maximum above 1 by SciPy's roots of the derivative, and no other."""
    u = np.linspace(0.0, 1.0, dual.NODES)
    values = 1 + np.cos(np.linspace(0.2 * seed, (4 + 0.2 * seed) * np.pi, dual.NODES))
    cell = np.linalg.solve(stats.binom.pmf(np.arange(dual.NODES), dual.NODES - 1, u[:, None]), values)
    polynomial = interpolate.BPoly(cell[:, None], [0, 1])
    slope, grid = polynomial.derivative(), np.linspace(0.0, 1.0, 2001)
    falls = np.flatnonzero((slope(grid[:-1]) > 0) & (slope(grid[1:]) <= 0))
    roots = np.array([optimize.brentq(slope, grid[i], grid[i + 1], xtol=1e-15) for i in falls])
    start = [0.0] if cell[1] <= cell[0] else []  # there a cell that nothing lies before is highest, too
    roots = np.concatenate([start, roots])
    places, heights = np.zeros((2, 8))
    found = loops.peaks(cell[None], np.array([0]), np.array([-1]), np.array([2.0]), np.array([0.5]), 2.0, places, heights)
    assert found == roots.size >= 2
    assert places[:found] == pytest.approx(2 + 0.5 * roots, abs=1e-8)  # a top is flat: values hold half the digits
    assert heights[:found] == pytest.approx([float(polynomial(x)) for x in roots], rel=1e-12)


def test_a_maximum_behind_two_equal_coefficients_is_found(loops):
    """The cell falls, is level between two coefficients, rises and falls; SciPy's root of the derivative is its maximum."""
    cell = np.array([40.0, 20, 5, 0, 0, 5, 20, 60, 90, 100, 90, 60, 30, 10, 3, 0])
    polynomial = interpolate.BPoly(cell[:, None], [0, 1])
    top = optimize.brentq(polynomial.derivative(), 0.3, 1.0, xtol=1e-15)
    assert polynomial(top) > polynomial(np.linspace(0.3, 1, 8)).max()
    places, heights = np.zeros((2, 8))
    found = loops.peaks(cell[None], np.array([0]), np.array([-1]), np.array([2.0]), np.array([0.5]), 2.0, places, heights)
    assert places[:found] == pytest.approx([2.0, 2 + 0.5 * top], abs=1e-8)
    assert heights[:found] == pytest.approx([40.0, float(polynomial(top))], rel=1e-12)


@pytest.mark.parametrize(
    "cell",
    [
        [40, 20, 10, 5, 3, 2, 1, 100, 99, 98, 97, 90, 80, 60, 30, 0],  # it rises once
        [40, 20, 5, 0, 0, 5, 20, 60, 50, 30, 20, 10, 3, 10, 40, 90],  # it ends as it rises
        [0, 20, 60, 90, 60, 20, 3, 0, 1, 10, 30, 70, 99, 98, 40, 3],  # it begins as it rises
        [1.9, 1.8, 1.4, 0.3, 0, 0, 0.2, 1.4, 1.8, 1.9, 1.4, 0.2, 0, 0, 0, 0],  # it is hardly above 1
    ],
)
def test_maxima_of_cells_are_those_of_scipys_polynomials(loops, cell):
    cell = np.array(cell, float)
    polynomial = interpolate.BPoly(cell[:, None], [0, 1])
    slope, grid = polynomial.derivative(), np.linspace(0.0, 1.0, 2001)
    falls = np.flatnonzero((slope(grid[:-1]) > 0) & (slope(grid[1:]) <= 0))
    tops = [0.0] * int(cell[1] < cell[0]) + [optimize.brentq(slope, grid[i], grid[i + 1], xtol=1e-15) for i in falls]
    assert len(tops) == 2
    places, heights = np.zeros((2, 8))
    found = loops.peaks(cell[None], np.array([0]), np.array([-1]), np.array([2.0]), np.array([0.5]), 2.0, places, heights)
    assert places[:found] == pytest.approx([2 + 0.5 * top for top in tops], abs=1e-8)
    assert heights[:found] == pytest.approx([float(polynomial(top)) for top in tops], rel=1e-12)


def test_all_maxima_of_a_chebyshev_polynomial_are_found(loops):
    """Its Bernstein coefficients go up and down in turns, and its maxima are where x is cos(2 k pi / 15)."""
    k = np.arange(16)
    cell = 2 - (-1.0) ** k * special.comb(30, 2 * k) / special.comb(15, k)
    places, heights = np.zeros((2, 8))
    found = loops.peaks(cell[None], np.array([0]), np.array([-1]), np.array([-1.0]), np.array([2.0]), -1.0, places, heights)
    assert places[:found] == pytest.approx(np.cos(2 * np.pi * np.arange(7, 0, -1) / 15), abs=1e-6)
    assert heights[:found] == pytest.approx(np.full(7, 3.0), rel=1e-10)


def test_halves_of_cells_are_the_same_polynomials():
    b = np.random.default_rng(1).normal(size=dual.NODES)
    left, right = arrays.halves.__wrapped__(dual.NODES)
    whole, u = interpolate.BPoly(b[:, None], [0, 1]), np.linspace(0, 1, 30)
    assert interpolate.BPoly((left @ b)[:, None], [0, 1])(u) == pytest.approx(whole(u / 2), rel=1e-12, abs=1e-13)
    assert interpolate.BPoly((right @ b)[:, None], [0, 1])(u) == pytest.approx(whole((1 + u) / 2), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_atoms_that_no_client_is_near_add_nothing(loops, order):
    """Before, between and behind clients, who are in several ranges; sums over all clients and atoms, one by one."""
    x = np.concatenate([np.linspace(-2, 2, 300), 60 + np.linspace(-2, 2, 300)])
    clients = gaussian_clients(x, 1.0)
    t = np.array([-23.0, -17.0, -1.0, 1.0, 16.0, 30.0, 44.0, 58.0, 62.5, 77.0, 84.0]) - clients.origin
    masses = np.arange(1.0, 12.0) / 66
    state = solver.evaluate(clients, solver.Workers(600, None, loops), t, masses, order)
    z = t - (x - clients.origin)[:, None]
    share = np.exp(-0.5 * z**2)
    share /= (share @ masses)[:, None]
    tables = [share, -z * share, (z**2 - 1) * share]
    for row, table in enumerate(tables if order == 3 else tables[:1]):
        assert state.first[row] == pytest.approx(table.sum(axis=0) / 600, rel=1e-9, abs=1e-12)
    if order > 1:
        both = share if order == 2 else np.stack(tables[:2], axis=2).reshape(600, -1)
        assert whole(state.second) == pytest.approx(both.T @ both / 600, rel=1e-9, abs=1e-12)


def test_a_client_whom_no_atom_explains_adds_nothing(loops):
    """Its density is 0, in doubles; the other one's sums are its own."""
    first, density = np.zeros((3, 1)), np.ones(2)
    zeros, ones = np.zeros(2), np.ones(2)
    loops.sums(
        True, np.array([0.0, 300.0]), ones, zeros, ones, np.zeros(2, int), np.ones(2, int), np.zeros(1), np.zeros((6, 1)),
        np.array([1e-25]), 3, density, first, np.zeros((2, 2)),
    )  # fmt: skip
    assert density.tolist() == [1e-25, 0.0]
    assert first.ravel() == pytest.approx([1e25, 0.0, -1e25], rel=1e-12)


def test_likelihoods_are_spread_over_all_nodes_that_count(loops):
    """Above exp(-CUT) of the peak, each node has its own; steps of all widths, places as far from a node as can be."""
    for step in np.linspace(1 / 16, 1 / 8, 41):
        for start in (-0.5 * step, 0.0, 0.3 * step, 0.5 * step):
            out, m = np.zeros(401), np.arange(-200, 201)
            exact = np.exp(-0.5 * (start + m * step) ** 2)
            loops.spread_gaussian(np.ones(1), np.array([200]), np.array([start]), np.array([step]), 8.55, out)
            heard = exact > np.exp(-arrays.CUT)
            assert out[heard] == pytest.approx(exact[heard], rel=1e-12, abs=0)
            assert out[~heard].max() <= np.exp(-arrays.CUT)


@pytest.mark.parametrize(("width", "atoms"), [(300.0, 135), (1000.0, 421), (6000.0, 2056)])
def test_many_atoms_reach_the_optimum(width, atoms, monkeypatch):
    """Thousands of well separated atoms: certified, and the first case by SciPy's densities everywhere as well."""
    if atoms > 200:
        monkeypatch.setattr(solver, "FEW", 0)  # NumPy's loops are for few clients, who have fewer atoms
    rng = np.random.default_rng(0)
    x = rng.uniform(0, width, 10_000) + rng.standard_normal(10_000)
    best = maximise(gaussian_clients(x, 1.0))
    assert best.converged
    assert best.gap <= 1e-4
    assert abs(best.support.size - atoms) <= 3
    if width == 300.0:
        mixture = stats.norm.pdf(x[:, None], best.support) @ best.masses
        heights = [(stats.norm.pdf(x, t) / mixture).mean() for t in np.linspace(0, width, 4001)]
        assert max(heights) <= np.exp(best.gap / x.size) + 1e-9


def test_a_peak_between_two_cells_is_found_once(loops):
    """Slopes of neighbours agree but for rounding: the left cell may rise to its end and the right one fall from there."""
    slope = np.sort(np.random.default_rng(0).random(dual.NODES))
    cells, leaves, lefts = np.vstack([slope, slope[::-1]]), np.arange(2), np.array([0.0, 0.5])
    for before, count in (([-1, 0], 1), ([-1, -1], 0)):
        places, heights = np.zeros((2, 2))
        found = loops.peaks(cells, leaves, np.array(before), lefts, np.full(2, 0.5), 0.0, places, heights)
        assert found == count
        assert (places[:found] == 0.5).all()
        assert heights[:found] == pytest.approx([slope[-1]] * found, rel=1e-12)
    cells[0, -1] = cells[0, -2]  # level at the end: the left cell has the peak, and the right one has not
    cells[1] += cells[0, -1] - cells[1, 0]
    found = loops.peaks(cells, leaves, np.array([-1, 0]), lefts, np.full(2, 0.5), 0.0, places, heights)
    assert places[:found] == pytest.approx([0.5], abs=1e-6)


STARTS = {
    "equally spaced": lambda rng, n, gap: (gap * np.arange(n), np.ones(n)),
    "nearly so": lambda rng, n, gap: (gap * np.arange(n) + rng.normal(0, 0.1, n), np.ones(n)),
    "two sizes of error": lambda rng, n, gap: (gap * np.arange(n), np.where(np.arange(n) % 2, 1e-4, 1.0)),
    "errors over four decades": lambda rng, n, gap: (gap * np.arange(n), 10 ** rng.uniform(-4, 4, n)),
    "errors over twelve decades": lambda rng, n, gap: (gap * np.arange(n), 10 ** rng.uniform(-12, 12, n)),
    "clusters": lambda rng, n, gap: (gap * rng.integers(0, 5, n) + rng.normal(0, 1, n), np.ones(n)),
    "clusters, errors over four decades": lambda rng, n, gap: (
        gap * rng.integers(0, 5, n) + rng.normal(0, 1, n),
        10 ** rng.uniform(-6, 2, n),
    ),
}


@pytest.mark.parametrize("gap", [0.5, 3.0, 6.0, 8.0, 1e3, 1e6])
@pytest.mark.parametrize("n", [2, 25, 60])
@pytest.mark.parametrize("kind", STARTS)
def test_isolated_and_clustered_clients_reach_the_optimum(kind, n, gap):
    """Certified, and no place within six standard errors of any client has D above what the certificate allows."""
    x, v = STARTS[kind](np.random.default_rng(n), n, gap)
    best = maximise(gaussian_clients(x, v))
    assert best.converged
    assert best.gap <= 1e-4
    s = np.sqrt(v)
    places = (x + s * np.linspace(-6, 6, 241)[:, None]).ravel()
    mixture = stats.norm.pdf(x[:, None], best.support, s[:, None]) @ best.masses
    heights = (stats.norm.pdf(x[:, None], places, s[:, None]) / mixture[:, None]).mean(axis=0)
    assert heights.max() <= np.exp(best.gap / n) + 1e-9


@pytest.mark.parametrize("n", [3, 25, 200])
@pytest.mark.parametrize("gap", [40.0, 64.0, 1e5])
def test_isolated_clients_are_their_own_atoms(n, gap):
    """Likelihoods that do not overlap: each client's best place is its estimate, with a mass of one over n."""
    x = gap * np.arange(n)
    best = maximise(gaussian_clients(x, 1.0), tolerance=1e-9)
    assert best.support == pytest.approx(x, abs=1e-6)
    assert best.masses == pytest.approx(1 / n, rel=1e-9)
    assert best.log_likelihood == pytest.approx(-n * (np.log(n) + 0.5 * np.log(2 * np.pi)), rel=1e-12)


@pytest.mark.parametrize("trials", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("n", [2, 25, 60])
def test_evenly_spread_counts_reach_the_optimum(n, trials):
    successes = np.linspace(0, trials, n).astype(int)
    for clients in (binomial_clients(successes, trials), poisson_clients(successes, 1.0)):
        best = maximise(clients)
        assert best.converged
        assert best.gap <= 1e-4


@pytest.mark.parametrize(("atoms", "width"), [(5, 4.0), (40, 12.0), (60, 20.0), (60, 90.0)])
def test_masses_of_a_step_are_the_least_over_nonnegative_ones(loops, atoms, width):
    """Conditions of a minimum (which suffice, q being convex), from masses that are far off, and no more than SciPy's q."""
    rng = np.random.default_rng(atoms)
    places, x = np.sort(rng.uniform(0, width, atoms)), rng.uniform(0, width, 300)
    table = np.exp(-0.5 * (x[:, None] - places) ** 2)
    gain = table.mean(axis=0) + rng.normal(0, 0.003, atoms)
    every = np.ones(atoms, bool)
    matrix, _ = solver.definite(solver.trimmed(banded(table.T @ table / x.size, atoms)), gain, every, loops)
    found = solver.constrained(matrix, gain, np.full(atoms, 1 / atoms), every, every, 1e-10, solver.NEAR, loops)
    matrix = whole(matrix)
    slope = matrix @ found - gain
    assert found.min() == 0 < found.max()  # some bound holds, so that the problem is one
    assert slope.min() >= -2e-10
    assert np.abs(slope[found > 0]).max() < 1e-10
    root = np.linalg.cholesky(matrix)
    target = optimize.nnls(root.T, np.linalg.solve(root, gain), maxiter=10**5)[0]
    least, q = (0.5 * v @ matrix @ v - gain @ v for v in (target, found))
    assert q <= least + 1e-10


def test_a_peak_inside_a_cell_is_where_its_polynomial_is_largest():
    """Of 1 - (x - 0.3)^2 by its Bernstein coefficients, on a cell from 2 to 6."""
    places, heights, work = np.empty(2), np.empty(2), np.array([[0.91, 1.21, 0.51]])
    found = kernels.peaks(work, np.array([0]), np.array([-1]), np.array([2.0]), np.array([4.0]), 2.0, places, heights)
    assert found == 1
    assert places[0] == pytest.approx(2 + 4 * 0.3, abs=1e-9)
    assert heights[0] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("degree", [3, 5, 7])
def test_peaks_are_the_maxima_of_their_polynomial(degree):
    """Of random ones: none where there is no maximum, and all of them, but of degree 7 now and then one close to another."""
    generator, x, missed = np.random.default_rng(0), np.linspace(0, 1, 4001), 0
    places, heights = np.empty(9), np.empty(9)
    for _ in range(300):
        b = 3 + generator.normal(size=degree + 1)
        slope = interpolate.BPoly(b[:, None], [0, 1]).derivative()(x)
        tops = (x[:-1] + 1.25e-4)[(slope[:-1] > 0) & (slope[1:] <= 0)]
        found = kernels.peaks(b[None], np.zeros(1, int), -np.ones(1, int), np.zeros(1), np.ones(1), -1.0, places, heights)
        assert all(np.abs(tops - place).min(initial=1) < 1e-3 for place in places[:found])
        missed += found != len(tops)
    assert missed <= (degree == 7)


def test_the_kernels_exponential():
    bits = np.empty(kernels.LANES, np.int64)
    for x in (np.linspace(kernels.FLOOR, 700, kernels.LANES), np.linspace(-1, 1, kernels.LANES)):
        out = x.copy()
        kernels._exp(out, bits, bits.view(float))
        assert out == pytest.approx(np.exp(x), rel=1e-14)


def test_interpolation_matches_its_error_bound():
    """Bernstein coefficients reproduce polynomials exactly and a Gaussian within the stated remainder."""
    nodes = np.arange(dual.NODES) - dual.NODES // 2 + 1
    matrix = dual.bernstein_matrix()
    u = np.linspace(0, 1, 101)
    basis = stats.binom.pmf(np.arange(dual.NODES), dual.NODES - 1, u[:, None])
    assert np.abs(matrix).sum(axis=1).max() <= dual.LEBESGUE
    assert basis @ (matrix @ (nodes / 8.0) ** 15) == pytest.approx((u / 8) ** 15, abs=1e-14)
    for shift in (0.0, 0.3, 2.0):
        for fineness in (1.0, 2.0, 4.0):
            error = np.abs(
                basis @ (matrix @ np.exp(-((nodes / fineness - shift) ** 2) / 2))
                - np.exp(-((u / fineness - shift) ** 2) / 2)
            )
            assert error.max() <= dual.REMAINDER * fineness**-dual.NODES + 1e-14


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: gaussian_clients([1.0, 2.0], [1.0]), "of equal length"),
        (lambda: gaussian_clients([], []), "not empty"),
        (lambda: gaussian_clients([1.0], [0.0]), "variances must be > 0"),
        (lambda: gaussian_clients([1.0], [np.inf]), "variances must be finite"),
        (lambda: gaussian_clients([1.0], 1.0, weights=[1.0, 2.0]), "weights must have one entry"),
        (lambda: gaussian_clients([1.0], 1.0, weights=[0.0]), "weights must be > 0"),
        (lambda: binomial_clients([2], [1]), "x must not exceed n"),
        (lambda: poisson_clients([1], [0.0]), "exposure must be > 0"),
        (lambda: optimality_gap(gaussian_clients([1.0], 1.0), [0.0, 1.0], [1.0]), "equal length"),
        (lambda: optimality_gap(gaussian_clients([1.0], 1.0), [0.0], [0.0]), "not all 0"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_a_hopeless_distribution_has_no_certificate():
    assert optimality_gap(gaussian_clients([0.0], 1e-6), [1.0], [1.0]) == (np.inf, -np.inf)


def test_an_exposure_too_large_for_double_precision_is_named():
    with pytest.raises(ValueError, match="largest exposure"):
        NonparametricCounts().fit([0, 2, 5], [1.0, 1.0, 1e40])


@pytest.mark.parametrize("error", [1e-13, 1e-25, 1e-100])
def test_errors_too_small_for_double_precision_are_refused(error):
    estimates, errors = [0.0, -1e6, -1.0, 0.2, -2.0], [0.9, 0.7, 2.0, error, 1.0]
    with pytest.raises(ValueError, match="too little for double precision"):
        NonparametricMeans().fit(estimates, np.square(errors))
    errors[3] = 1e-6
    fitted = NonparametricMeans().fit(estimates, np.square(errors))
    assert fitted.posterior_mean_[3] == pytest.approx(0.2, abs=1e-5)
