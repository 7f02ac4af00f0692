"""Pieces of the nonparametric fit, number by number: SciPy's laws, mpmath's derivatives, plain loops, and enumeration."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import stats

from estimators import NonparametricCounts, NonparametricMeans, NonparametricRates, npmle
from estimators.npmle import arrays, binomial_clients, dirichlet, dual, gaussian_clients, maximise, poisson_clients, solver
from estimators.npmle import clients as made
from estimators.npmle.nonparametric import robbins

X = np.array([1.3, -0.4, 2.9, -0.4, 4.1, 1.0])
V = np.array([0.7, 1.9, 0.3, 1.9, 2.6, 0.5])
W = np.array([1.0, 2.5, 0.5, 3.0, 1.5, 0.25])
HITS, TRIALS = np.array([0.0, 3.0, 7.0, 3.0, 12.0, 20.0]), np.array([4.0, 5.0, 9.0, 5.0, 40.0, 20.0])
TALLY, EXPOSURE = np.array([0.0, 3.0, 7.0, 3.0, 12.0, 1.0]), np.array([4.0, 5.0, 0.9, 5.0, 40.0, 2.0])
FAMILIES = {
    "gaussian": (gaussian_clients, (X, V), lambda x, v, t: stats.norm.logpdf(x, t, np.sqrt(v)), (-0.2, 0.9, 3.5)),
    "binomial": (binomial_clients, (HITS, TRIALS), stats.binom.logpmf, (0.1, 0.45, 0.8)),
    "poisson": (poisson_clients, (TALLY, EXPOSURE), lambda x, e, t: stats.poisson.logpmf(x, e * t), (0.2, 1.1, 6.0)),
}
MANY = pytest.mark.parametrize("family", FAMILIES)


def relative(clients, t):
    """Likelihoods of clients (rows) at places of the coordinate, relative to their peaks."""
    if clients.family == "gaussian":
        return np.exp(-0.5 * ((t - clients.p1[:, None]) * clients.p2[:, None]) ** 2 - clients.offset[:, None])
    alpha, beta = made.shapes(t, clients.family)[:2]
    return np.exp(clients.p1[:, None] * alpha + clients.p2[:, None] * beta - clients.offset[:, None])


def workers_of(clients):
    return solver.Workers(clients.t.size, None, arrays)


@MANY
def test_the_log_likelihood_of_a_mixture_is_scipys(family):
    make, data, law, atoms = FAMILIES[family]
    masses = np.array([0.5, 0.2, 0.3])
    exact = np.array([np.log(np.exp(law(*(column[i] for column in data), np.array(atoms))) @ masses) for i in range(6)])
    for weights, counted in ((None, np.ones(6)), (W, W)):
        clients = make(*data, weights=weights)
        assert clients.total == pytest.approx(counted.sum())
        assert clients.t.size == 5  # the second and the fourth are the same
        assert npmle.optimality_gap(clients, atoms, 7 * masses)[1] == pytest.approx(counted @ exact, rel=1e-12)
        assert npmle.optimality_gap(clients, atoms[::-1], masses[::-1])[1] == pytest.approx(counted @ exact, rel=1e-12)
    np.testing.assert_allclose(clients.parameter(clients.coordinate(np.array(atoms))), atoms, rtol=1e-12)


@MANY
def test_every_peak_is_at_its_place_with_its_curvature(family):
    """Likelihoods are 1 at t, and fall from there as a normal law's of sd s: exactly, or as the number of trials grows."""
    make, data, _, _ = FAMILIES[family]
    clients = make(*data)
    at = relative(clients, clients.t)
    np.testing.assert_allclose(at.diagonal(), 1.0, rtol=1e-12)
    assert (at <= 1 + 1e-12).all()
    big = {
        "gaussian": data,
        "binomial": (HITS * 1e8 + 1e8, TRIALS * 1e8 + 2e8),
        "poisson": (TALLY * 1e8 + 1e8, EXPOSURE * 1e8),
    }
    clients = make(*big[family])
    for share in (-1.5, 0.4, 1.0):
        near = relative(clients, clients.t + share * clients.s).diagonal()
        np.testing.assert_allclose(near, np.exp(-0.5 * share**2), rtol=3e-4)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_derivatives_of_the_exponents_are_mpmaths(family):
    alpha, beta = {
        "binomial": (lambda t: 2 * mpmath.log(mpmath.sin(t)), lambda t: 2 * mpmath.log(mpmath.cos(t))),
        "poisson": (lambda t: 2 * mpmath.log(t), lambda t: -(t**2)),
    }[family]
    t = np.array([1e-6, 0.3, 0.9, 1.4])
    found = made.shapes(t, family)
    for row, (f, k) in enumerate([(alpha, 0), (beta, 0), (alpha, 1), (beta, 1), (alpha, 2), (beta, 2)]):
        exact = [float(mpmath.diff(f, mpmath.mpf(float(x)), k)) for x in t]
        np.testing.assert_allclose(found[row], exact, rtol=1e-9, atol=1e-11)
    assert made.shapes(-t, family)[0] == pytest.approx(found[0], rel=1e-12)  # what rounding put beyond 0 is mirrored
    ends = np.array([0.0, 1e-13, np.pi / 2] if family == "binomial" else [0.0, 1e-13, -1e-13])
    found = made.shapes(ends, family)
    assert (found[2:] == 0).all()
    assert found[0, :2].tolist() == [-1e300, -1e300]
    assert found[1, 2] == (-1e300 if family == "binomial" else pytest.approx(0.0, abs=1e-25))
    inside = made.shapes(np.array([2e-12]), family)
    assert (inside[[2, 4], 0] != 0).all()
    assert (made.shapes(t, "gaussian") == 0).all()
    assert made.shapes(t, "gaussian").shape == (6, 4)


def test_log_likelihoods_are_exact_as_far_as_doubles_reach():
    """Of one client and an atom 37 or 49 standard errors away, whatever they are; further away there is none."""
    for clients, atom, exact in (
        (gaussian_clients([0.0], 4.0), 74.0, stats.norm.logpdf(74.0, scale=2.0)),
        (gaussian_clients([0.0], 0.25), 18.5, stats.norm.logpdf(18.5, scale=0.5)),
        (poisson_clients([0], [0.01]), 6e4, -600.0),
        (poisson_clients([0], [100.0]), 6.0, -600.0),
    ):
        assert npmle.optimality_gap(clients, [atom], [1.0])[1] == pytest.approx(exact, rel=1e-12)
        assert solver.evaluate(clients, workers_of(clients), 2 * clients.coordinate([atom]), np.ones(1), 0).value == -np.inf


def test_ranges_of_clients_are_worked_on_in_their_order():
    with ThreadPoolExecutor(2) as pool:
        for way in (None, pool):
            ranges = list(solver.Workers(20_000, way, arrays)(lambda part: (part.start, part.stop)))
            assert ranges == [(0, 8192), (8192, 16384), (16384, 20_000)]


def test_levels_halve_the_spacing_and_repetitions_are_merged():
    assert made.levels_of(np.array([8.0, 4.0, 4.0001, 3.9999, 1.0, 0.9])).tolist() == [0, 1, 1, 2, 3, 4]
    clients = gaussian_clients([3.0, 1.0, 2.0, 1.0, 1.0], [1.0, 1.0, 0.04, 1.0, 0.04], weights=[1.0, 2.0, 4.0, 8.0, 16.0])
    assert clients.t.tolist() == [0.0, 2.0, 0.0, 1.0]  # the wide ones first
    assert clients.weights.tolist() == [10.0, 1.0, 16.0, 4.0]
    assert clients.s == pytest.approx([1.0, 1.0, 0.2, 0.2])
    assert clients.origin == 1.0
    assert poisson_clients([2, 1, 2], [2.0, 1.0, 2.0]).weights.tolist() == [1.0, 2.0]  # equal rates of unequal exposure stay
    assert sorted(binomial_clients([0, 0, 0, 0], [5, 6, 7, 6]).weights) == [1.0, 1.0, 2.0]  # whoever stands between them
    assert poisson_clients([4, 1]).t.tolist() == [1.0, 2.0]  # of exposure one


def test_few_atoms_cover_every_peak():
    rng = np.random.default_rng(0)
    data = [(np.random.default_rng(seed).normal(0, 5, 40), rng.uniform(0.2, 3, 40) ** 2) for seed in range(5)]
    for x, v in [*data, (np.arange(7.0), 1.0)]:  # of neighbours that meet, two share an atom
        clients = gaussian_clients(x, v)
        atoms = made.cover(clients)
        away = np.abs(clients.t[:, None] - atoms).min(axis=1) / clients.s
        assert away.max() <= 0.5 + 1e-12
        apart = [(t - s / 2, t + s / 2) for t, s in zip(clients.t, clients.s, strict=True)]
        ends, count = -np.inf, 0  # as many intervals that do not meet, none of which an atom shares with another
        for low, high in sorted(apart, key=lambda ends: ends[1]):
            if low > ends:
                ends, count = high, count + 1
        assert atoms.size == count


@MANY
def test_fewer_clients_are_like_the_many(family):
    rng = np.random.default_rng(3)
    if family == "gaussian":
        clients = gaussian_clients(rng.normal(2, 3, 6000), rng.uniform(0.2, 2, 6000) ** 2, rng.uniform(0.5, 2, 6000))
    elif family == "binomial":
        trials = rng.integers(5, 60, 6000)
        clients = binomial_clients(rng.binomial(trials, rng.beta(2, 6, 6000)), trials, rng.uniform(0.5, 2, 6000))
    else:
        exposure = rng.uniform(0.2, 20, 6000)
        clients = poisson_clients(rng.poisson(exposure * rng.gamma(1, 2, 6000)), exposure, rng.uniform(0.5, 2, 6000))
    few = made.condensed(clients, 300)
    assert few.total == pytest.approx(clients.total, rel=1e-12)
    for name in ("t", "s"):
        all_of, of_few = (c.weights @ getattr(c, name) / c.total for c in (clients, few))
        assert of_few == pytest.approx(all_of, rel=1e-12)
    assert 150 < few.t.size < 1200
    at = relative(few, few.t).diagonal()
    np.testing.assert_allclose(at, 1.0, rtol=1e-9)
    t = np.quantile(clients.t, [0.1, 0.35, 0.6, 0.9])
    many = clients.weights @ np.log(relative(clients, t) @ np.full(4, 0.25)) / clients.total
    assert few.weights @ np.log(relative(few, t) @ np.full(4, 0.25)) / few.total == pytest.approx(many, rel=0.03)


@pytest.mark.parametrize("make", [binomial_clients, poisson_clients])
def test_few_of_very_many_are_not_none(make):
    """Averages of clients keep counts as small as 3 of 1e14, and have none where there were none."""
    few = made.condensed(make([3.0, 5.0, 0.0, 50.0], [1e14, 1e14, 30.0, 100.0]), 10)
    np.testing.assert_allclose(np.sort(few.p1), [0, 3, 5, 50], rtol=1e-7)
    if make is binomial_clients:  # and so of failures
        few = made.condensed(make([1e14 - 3, 1e14 - 5, 30.0, 50.0], [1e14, 1e14, 30.0, 100.0]), 10)
        np.testing.assert_allclose(np.sort(few.p2), [0, 3, 5, 50], rtol=0.02)  # 1e14 - 3 is all but 3 in its last digits


def test_clients_of_unlike_width_or_place_are_not_averaged():
    """More than a quarter of a standard error apart, or a quarter more precise: those at one end, too, and at the other."""
    x = np.arange(101) * 0.3
    clients = gaussian_clients(np.append(x, x[:3]), np.append(np.ones(101), [0.64] * 3))
    for size in (1, 104, 2000):
        few = made.condensed(clients, size)
        np.testing.assert_allclose(few.t, clients.t, atol=1e-12)
        np.testing.assert_allclose(few.s, clients.s, rtol=1e-12)


def test_clients_of_unlike_width_and_place_are_never_taken_for_one():
    few = made.condensed(gaussian_clients([0.3, 0.0], [1.0, 0.49]), 1)
    assert sorted(few.t) == [0.0, 0.3]


def test_clients_may_be_as_far_apart_as_nodes_of_their_grid_are_told_apart():
    """An eighth of a standard error, 2^52 times; beyond that neighbouring nodes are the same double."""
    for far, refused in ((0.999 * 2.0**49, False), (1.001 * 2.0**49, True)):
        clients = gaussian_clients([0.0, far], 1.0)
        if refused:
            with pytest.raises(ValueError, match="too little for double precision"):
                dual.Dual(clients, workers_of(clients))
        else:
            assert dual.Dual(clients, workers_of(clients)).last == far


def test_unions_of_intervals():
    rng = np.random.default_rng(1)
    for gap in (0, 1, 4):
        for _ in range(30):
            lows = rng.integers(0, 60, 7)
            highs = lows + rng.integers(0, 9, 7)
            covered = {x for a, b in zip(lows, highs, strict=True) for x in range(a, b + 1)}
            starts, stops = dual.unions(lows, highs, gap)
            inside = sorted(covered)
            cut = [(a, b) for a, b in itertools.pairwise(inside) if b - a > max(gap, 1)]
            if gap:
                assert starts.tolist() == [inside[0], *(b for _, b in cut)]
                assert stops.tolist() == [*(a for a, _ in cut), inside[-1]]
            assert all(any(s <= x <= e for s, e in zip(starts, stops, strict=True)) for x in covered)


def test_coefficients_of_powers_are_exact():
    """u^k in Bernstein's form of degree 15 has the coefficients C(m, k) / C(15, k)."""
    from math import comb

    nodes = np.arange(dual.NODES) - dual.NODES // 2 + 1
    matrix = dual.bernstein_matrix.__wrapped__()  # which is made once and kept
    assert np.array_equal(matrix, dual.bernstein_matrix())
    for k in (0, 1, 2, 5):
        exact = [float(Fraction(comb(m, k), comb(dual.NODES - 1, k))) for m in range(dual.NODES)]
        assert matrix @ nodes.astype(float) ** k == pytest.approx(exact, abs=2e-9 if k == 5 else 1e-12)
    best = mpmath.sqrt(16)  # Cauchy's estimate with the radius sqrt(16) s, times the nodes' polynomial at the middle
    derivative = mpmath.exp(best**2 / 2) / best**16
    polynomial = mpmath.fprod((mpmath.mpf(2 * j + 1) / 2) ** 2 for j in range(8))
    assert pytest.approx(float(derivative * polynomial), rel=1e-12) == dual.REMAINDER


@MANY
@pytest.mark.parametrize("tolerance", [1e-2, 1e-9])
def test_the_certificate_is_the_maximum_of_d(family, tolerance):
    make, data, _, _ = FAMILIES[family]
    clients = make(*data, weights=W)
    t = np.linspace(clients.t.min(), clients.t.max(), 4)
    state = solver.evaluate(clients, workers_of(clients), t, np.array([0.1, 0.5, 0.3, 0.1]), 0)
    bound, places, heights = dual.Dual(clients, workers_of(clients))(state, tolerance)
    fine = np.linspace(clients.t.min(), clients.t.max(), 20001)
    d = (clients.weights / state.density / clients.total) @ relative(clients, fine)
    near = np.linspace(*fine[np.clip(d.argmax() + np.array([-1, 1]), 0, 20000)], 20001)
    top = max(d.max(), ((clients.weights / state.density / clients.total) @ relative(clients, near)).max())
    assert top * (1 - 1e-12) <= bound <= top * (1 + tolerance + 1e-11)  # 1e-11 for what interpolation may err
    padded = np.concatenate([[-np.inf], d, [-np.inf]])
    tops = fine[(d > padded[:-2]) & (d >= padded[2:])]
    assert len(places) == len(tops)
    assert np.sort(places) == pytest.approx(tops, abs=2 * (fine[1] - fine[0]))
    assert heights[np.argsort(places)] == pytest.approx(np.interp(np.sort(places), fine, d), rel=1e-6)


@MANY
def test_likelihoods_are_spread_as_far_as_they_count(family):
    """Of a client at each end: at all nodes between them where it is above exp(-CUT), and none behind is missed."""
    make = FAMILIES[family][0]
    clients = make(*{"gaussian": ([0.0, 30.0], 1.0), "binomial": ([0, 100], 100), "poisson": ([0, 100], 1.0)}[family])
    found, m = dual.Dual(clients, workers_of(clients)), np.arange(-300, 301)
    for i in range(2):
        low, out = found.spread(slice(i, i + 1), np.ones(2))
        told = np.zeros(m.size)
        told[300 + low - found.positions[i] + np.arange(out.size)] = out
        places = clients.t[i] + clients.s[i] * (found.starts[i] + m * found.steps[i])
        exact = relative(clients, places)[i]
        heard = (exact > np.exp(-arrays.CUT)) & (places >= clients.t.min()) & (places <= clients.t.max())
        assert heard.sum() > 60
        np.testing.assert_allclose(told[heard], exact[heard], rtol=1e-9)


def test_the_bound_counts_what_is_left_out_of_sums():
    """Likelihoods below exp(-CUT) of a peak, also of clients whose interpolation is exact to more digits."""
    clients = gaussian_clients([0.0, 0.1], [1.0002, 1.0], weights=[1e-6, 1.0])
    state = solver.evaluate(clients, workers_of(clients), np.array([0.05]), np.ones(1), 0)
    loops = SimpleNamespace(**vars(arrays) | {"upper_bound": lambda *_: 0.0})
    bound, _, _ = dual.Dual(clients, solver.Workers(2, None, loops))(state, 1e-6)
    at_nodes = np.exp(-arrays.CUT) * np.sum(clients.weights / state.density) / clients.total
    assert bound >= at_nodes * np.abs(dual.bernstein_matrix()).sum(axis=1).max()


@MANY
def test_d_on_every_cell_is_the_sum_over_clients(family):
    """Leaves of clients of very unequal errors: each place is in one of them, or no client reaches it."""
    rng = np.random.default_rng(5)
    spread = np.geomspace(1, 3e3, 40)
    make, data = {
        "gaussian": (gaussian_clients, (rng.uniform(-9, 9, 40), 4 / spread)),
        "binomial": (binomial_clients, (rng.binomial(np.ceil(spread).astype(int), rng.random(40)), np.ceil(spread))),
        "poisson": (poisson_clients, (rng.poisson(spread * rng.uniform(0, 9, 40)), spread)),
    }[family]
    clients = make(*data, weights=rng.uniform(0.5, 2, 40))
    t = np.linspace(clients.t.min(), clients.t.max(), 90)
    state = solver.evaluate(clients, workers_of(clients), t, np.full(90, 1 / 90), 0)
    found = dual.Dual(clients, workers_of(clients))
    found(state, 1e-6)
    order = np.argsort(found.lefts)
    starts, ends = found.lefts[order], (found.lefts + found.widths)[order]
    assert np.unique(found.widths).size >= 3
    assert (starts[1:] >= ends[:-1]).all()  # the same cells are halved again and again, so that ends meet to the last bit
    before = np.where(np.r_[False, starts[1:] == ends[:-1]], np.r_[-1, found.leaves[order][:-1]], -1)
    assert found.before[order].tolist() == before.tolist()
    places = rng.uniform(clients.t.min(), clients.t.max(), 20_000)
    scaled = clients.weights / (state.density * clients.total)
    d = scaled @ relative(clients, places)
    cell = np.searchsorted(starts, places, side="right") - 1
    inside = (cell >= 0) & (places < ends[cell])
    error = np.sum(scaled * (found.remainder + 2 * dual.LEBESGUE * np.exp(-arrays.CUT)))
    assert np.max(d[~inside], initial=0.0) <= error
    along = (places - starts[cell]) / (ends - starts)[cell]
    basis = stats.binom.pmf(np.arange(dual.NODES), dual.NODES - 1, along[inside, None])
    polynomials = np.einsum("ck,ck->c", basis, found.coefficients[found.leaves[order][cell[inside]]])
    np.testing.assert_allclose(polynomials, d[inside], rtol=1e-10, atol=error)  # exponents are up to 1e5


def test_the_best_step_in_the_model_of_second_order():
    """`excess`: D - 1 at atoms or, moved, with the gain slope^2 / (2 bend) of a concave direction only."""
    first = np.array([[0.9, 1.1, 1.2], [0.5, -0.8, 0.7], [-2.0, 0.3, 9.0]])
    second = np.zeros((6, 4))
    second[1::2, 0] = [1.0, 4.0, 2.0]
    state = solver.State(np.arange(3.0), np.array([0.2, 0.5, 0.3]), np.ones(2), 0.0, first, second)
    assert solver.excess(state, False) == pytest.approx(0.2)
    bend = [0.2 * 1.0 + 2.0, 0.5 * 4.0 - 0.3]
    gains = [0.9 + 0.25 / (2 * bend[0]), 1.1 + 0.64 / (2 * bend[1]), 1.2]  # the last one is convex: nothing is promised
    assert solver.excess(state, True) == pytest.approx(max(gains) - 1, rel=1e-12)
    assert solver.excess(replace(state, first=first * [[1.0], [10.0], [1.0]]), True) == pytest.approx(
        1.1 + 64 / (2 * bend[1]) - 1, rel=1e-12
    )


def test_masses_and_moves_maximise_the_model_of_second_order():
    clients = gaussian_clients(np.random.default_rng(2).normal([-5.0, 0.0, 5.0], 1.0, (20, 3)).ravel(), 1.0)
    t = np.array([-5.1, 0.1, 4.8]) - clients.origin
    state = solver.evaluate(clients, workers_of(clients), t, np.array([0.3, 0.45, 0.25]), 3)
    target, moves = solver.targets(state, True, 1e-9, arrays)
    fixed, still = solver.targets(solver.evaluate(clients, workers_of(clients), t, state.masses, 2), False, 1e-9, arrays)
    assert (still == 0).all()
    value, slope, bend = state.first
    np.testing.assert_allclose(whole(state.second)[::2, ::2] @ (fixed - state.masses), value - 1, atol=1e-9)
    # The gradient in masses p and in moves m, where q has its Hessian: log-likelihood by differences of `evaluate`.

    def height(z):
        masses = z[:3]
        return np.log(relative(clients, t + z[3:]) @ masses) @ clients.weights / clients.total - masses.sum()

    start, h = np.concatenate([state.masses, np.zeros(3)]), 1e-4
    unit = h * np.eye(6)
    gradient = np.array([(height(start + u) - height(start - u)) / (2 * h) for u in unit])
    hessian = np.array([
        [(height(start + u + v) - height(start + u - v) - height(start - u + v) + height(start - u - v)) / (4 * h * h)
         for u in unit] for v in unit
    ])  # fmt: skip
    step = np.linalg.solve(hessian, -gradient)
    assert np.linalg.eigvalsh(hessian).max() < 0
    np.testing.assert_allclose(target - state.masses, step[:3], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(moves, step[3:], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(slope * state.masses, gradient[3:], rtol=1e-5, atol=1e-8)
    assert bend.shape == (3,)


def whole(band):
    """The symmetric matrix of an upper band."""
    upper = np.zeros((len(band), len(band)))
    for r, row in enumerate(band):
        end = min(row.size, len(band) - r)
        upper[r, r : r + end] = row[:end]
    return upper + np.triu(upper, 1).T


def band_of(matrix, width):
    """The upper band of a matrix, row r from the diagonal on."""
    return np.array([[*row[r : r + width], *[0.0] * (r + width - len(matrix))] for r, row in enumerate(matrix)])


@pytest.mark.parametrize("width", [1, 3, 7])
def test_systems_are_solved_and_matrices_hardly_changed(width):
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(30, 7))
    near = np.abs(np.subtract.outer(range(7), range(7))) < width
    matrix, right = np.where(near, rows.T @ rows, 0.0), rng.normal(size=7)
    assert np.linalg.eigvalsh(matrix).min() > 0
    band, every = band_of(matrix, width), np.ones(7, bool)
    np.testing.assert_array_equal(whole(band), matrix)
    np.testing.assert_allclose(solver.times(band, right), matrix @ right, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(solver.solution(band, right, every, arrays), np.linalg.solve(matrix, right), rtol=1e-9)
    free = np.array([True, False, True, True, False, True, True])
    part = solver.solution(band, right, free, arrays)
    assert part is not None
    np.testing.assert_allclose(part[free], np.linalg.solve(matrix[np.ix_(free, free)], right[free]), rtol=1e-9)
    assert (part[~free] == 0).all()
    found = solver.definite(band, right, every, arrays)
    assert found is not None
    changed, added = found
    np.testing.assert_allclose(added, 1e-14 * matrix.diagonal(), rtol=1e-12)
    np.testing.assert_allclose(changed, band, rtol=1e-12, atol=1e-15)
    assert solver.definite(-band, right, every, arrays) is None


def test_ridges_and_trimmed_bands():
    twice = np.array([[1.0, 1 + 4e-13], [1.0, 0.0]])  # of rounding only
    found = solver.definite(twice, X[:2], np.ones(2, bool), arrays)
    assert found is not None
    assert found[1] == pytest.approx([1e-12, 1e-12])
    assert solver.definite(np.array([[1.0, 1.001], [1.0, 0.0]]), X[:2], np.ones(2, bool), arrays) is None
    far = np.array([[4.0, 1e-18], [9.0, 0.0]])
    assert solver.trimmed(far).tolist() == [[4.0], [9.0]]
    assert solver.trimmed(far * [[1.0, 128.0], [1.0, 1.0]]).tolist() == [[4.0, 128e-18], [9.0, 0.0]]


def test_least_of_neighbours():
    values = np.random.default_rng(5).normal(size=11)
    for near in (0, 1, 3, 10, 11, 50):
        exact = [values[max(0, i - near) : i + near + 1].min() for i in range(11)]
        assert solver.least_near(values, near).tolist() == exact


def test_atoms_of_one_hill_are_merged_at_their_centre():
    state = solver.State(np.array([0.0, 1.0, 4.0, 6.0, 20.0]), np.array([0.1, 0.3, 0.2, 0.2, 0.2]), np.ones(1), 0.0, X, X)
    t, masses = solver.merged_atoms(state, np.array([19.0, 0.4, 100.0, 5.5]))
    assert t == pytest.approx([0.75, 5.0, 20.0])
    assert masses == pytest.approx([0.4, 0.4, 0.2])


def test_atoms_are_put_together_where_that_costs_nothing():
    """Kept where the bound stays within the tolerance, or is no worse than it was; never asked more coarsely."""
    clients = gaussian_clients([-4.0, -4.2, 3.0, 3.3], 1.0)
    t = np.array([-4.2, -4.0, 3.0, 3.3]) - clients.origin
    state = solver.evaluate(clients, workers_of(clients), t, np.full(4, 0.25), 0)
    places, tolerance, asked = t[[0, 3]], 2.0**-10, []
    for bound, trial, kept in (
        (1.0, 1 + tolerance, True), (1.0, 1 + 1.01 * tolerance, False), (1.5, 1.5, True), (1.5, 1.51, False),
        (1 + tolerance / 2, 1 + tolerance, True), (1.0, 0.5, True),
    ):  # fmt: skip

        def judged(state, precision, trial=trial):
            asked.append((state.t.size, precision))
            return trial, places, places

        found, limit = solver.tidied(clients, workers_of(clients), state, judged, bound, places, tolerance)
        assert (found is state, limit) == (not kept, trial if kept else bound)
        if kept:
            assert found.t + clients.origin == pytest.approx([-4.1, 3.15])
            assert found.masses == pytest.approx([0.5, 0.5])
            assert found.value == pytest.approx(stats.norm.logpdf(0.1) * 2 + stats.norm.logpdf(0.15) * 2 - 4 * np.log(2) + (
                4 * 0.5 * np.log(2 * np.pi)
            ))  # fmt: skip
    assert all(size == 2 and 0 < precision <= tolerance for size, precision in asked)
    for few in (places[:0], t, np.append(t, 9.0)):  # without maxima, or with one for each atom, there is nothing to merge
        assert solver.tidied(clients, workers_of(clients), state, judged, 1.5, few, tolerance) == (state, 1.5)


def test_rounds_add_atoms_and_merge_them_near_the_end(monkeypatch):
    """By bounds and likelihoods that are made up: what each round does, when the search ends, and what it keeps."""
    clients = gaussian_clients([-4.0, -4.2, 3.0, 3.3], 1.0)
    state = solver.evaluate(clients, workers_of(clients), np.array([0.1, 7.0]), np.array([0.4, 0.6]), 2)
    places, heights, tolerance = np.array([0.3, 3.0, 6.0]), np.array([2.0, 1.0, 1.3]), 1e-3

    def search(bounds, values=(), **more):
        did, judged = [], []

        def climb(clients, workers, start, moving, precision, limit):
            did.append((moving, start.t.tolist(), precision))
            return replace(state, value=values[len(did) - 1] if values else 0.0, second=np.array([len(did)]))

        def dual(state, precision):
            assert precision <= tolerance  # what the bound may be off is less than what is asked of it
            judged.append(state)
            return bounds[len(judged) - 1], places, heights

        monkeypatch.setattr(solver, "climb", climb)
        first = replace(state, value=values[0] if values else 0.0)
        found, bound, at, rounds = solver.improve(clients, workers_of(clients), first, dual, tolerance, 30, **more)
        assert rounds == len(judged)
        assert (bound, at is places) == (min(bounds[:rounds]), True)
        assert found is judged[int(np.argmin(bounds[:rounds]))]
        return did, rounds

    did, rounds = search([2.0, 1.9, 1.5, 1.002, 1 + tolerance, 0.0], moving=False)
    assert rounds == 5
    for (moving, t, precision), bound in zip(did, [2.0, 1.9, 1.5, 1.002], strict=True):
        assert (moving, t) == (False, [0.1, 0.3, 6.0, 7.0])  # not the place whose height is 1
        assert precision == pytest.approx(0.1 * (bound - 1))
    # Four clients merge below 5/4: at 1.2, which was no gain, so that the atoms before come back; then below 1.05, at 1.04.
    did, rounds = search([2.0, 1.4, 1.2, 1.21, 1.1, 1.04, 1.03, 1.02, 1.009, 1.0])
    assert rounds == 10
    assert [moving for moving, *_ in did] == [False, False, True, False, False, True, False, False, True]
    assert all(precision <= tolerance for moving, _, precision in did if moving)
    merged = solver.merged_atoms(state, places)[0].tolist()
    assert did[2][1] == did[5][1] == merged != [0.1, 7.0]
    # Five rounds without a lower bound or a higher likelihood are the last ones.
    assert search([2.0] * 20)[1] == 6
    assert search([2.0, 1.9, 1.95, 1.95, 1.8, *[1.85] * 20])[1] == 10
    assert search([2.0] * 20, [-5.0, -5.0, -4.9, *[-4.9 + 1e-14] * 20])[1] == 9  # where rounding is no rise


@MANY
def test_the_start_is_thirty_rounds_of_expectation_maximisation(family):
    make, data, _, _ = FAMILIES[family]
    clients = make(*data, weights=W)
    t = np.linspace(clients.t.min(), clients.t.max(), 5)[1:-1]
    table, masses = relative(clients, t), np.full(3, 1 / 3)
    for _ in range(30):
        masses = masses * (clients.weights @ (table / (table @ masses)[:, None])) / clients.total
    state = solver.started(clients, workers_of(clients), t)
    assert state.masses == pytest.approx(masses, rel=1e-10)
    assert state.masses.sum() == pytest.approx(1.0, rel=1e-14)
    assert state.value == pytest.approx(clients.weights @ np.log(table @ masses), rel=1e-12)


@MANY
def test_a_grid_fit_is_the_best_on_its_points(family):
    """Karush, Kuhn and Tucker over the grid, by SciPy's laws; the gaps are n log max D, there and everywhere."""
    make, data, law, _ = FAMILIES[family]
    grid = {"gaussian": [3.0, -1.0, 1.2, 5.0, 3.0], "binomial": [0.95, 0.05, 0.4], "poisson": [0.1, 5.0, 0.7, 20.0]}[family]
    clients = make(*data, weights=W)
    found = maximise(clients, grid, tolerance=1e-9)
    assert found.converged
    assert set(found.support.round(9)) <= set(np.array(grid).round(9))
    assert np.array_equal(found.support, np.sort(found.support))
    assert found.masses.sum() == pytest.approx(1.0)

    def table(theta):
        return np.exp(law(data[0][:, None], data[1][:, None], np.asarray(theta)))

    density = table(found.support) @ found.masses
    assert found.log_likelihood == pytest.approx(W @ np.log(density), rel=1e-12)
    on_grid = (W / density) @ table(np.array(grid)) / W.sum()
    assert on_grid.max() <= 1 + 1e-9
    theta = clients.parameter(np.linspace(clients.t.min(), clients.t.max(), 4001))
    everywhere = (W / density) @ table(theta) / W.sum()
    assert found.gap == pytest.approx(W.sum() * np.log(everywhere.max()), rel=1e-4)
    assert 0 <= found.grid_gap <= 1e-9
    assert maximise(clients).grid_gap is None
    loose = maximise(clients, grid, tolerance=1e-9, max_iter=1)
    assert loose.n_iter == 1


def test_candidates_without_likelihood_and_out_of_range_are_refused():
    with pytest.raises(ValueError, match="no likelihood at all"):
        maximise(binomial_clients([0, 5], [5, 5]), [0.0])
    with pytest.raises(ValueError, match=r"in \[0, 1\].*got 1\.5"):
        maximise(binomial_clients([0, 5], [5, 5]), [0.5, 1.5])
    with pytest.raises(ValueError, match=r"shape \(\)"):
        maximise(poisson_clients([0, 5]), 1.0)
    with pytest.raises(ValueError, match=r"shape \(0,\)"):
        maximise(poisson_clients([0, 5]), [])
    with pytest.raises(ValueError, match="grid"):
        maximise(poisson_clients([0, 5]), [-1.0, 2.0])
    assert maximise(binomial_clients([0, 5], [5, 5]), [0.0, 1.0]).support.tolist() == [0.0, 1.0]  # both ends are candidates
    assert maximise(gaussian_clients([-3.0, -1.0], 1.0), [-2.0]).support.tolist() == [-2.0]


MODELS = {
    "gaussian": (NonparametricMeans, np.inf),
    "binomial": (NonparametricRates, 0.0),
    "poisson": (NonparametricCounts, 0.0),
}


@MANY
def test_posteriors_are_bayes_rule_over_the_atoms(family):
    model, nothing = MODELS[family]
    _, data, law, _ = FAMILIES[family]
    first, second = np.append(data[0], 0.0), np.append(data[1], nothing)  # the last one tells nothing
    model = model().fit(first, second)
    atoms, masses = model.support_, model.masses_
    exact = np.vstack([np.exp(law(data[0][:, None], data[1][:, None], atoms)) * masses, masses])
    exact /= exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.posterior_weights(), exact, rtol=1e-8, atol=1e-13)
    mean = exact @ atoms
    np.testing.assert_allclose(model.posterior_mean_, mean, rtol=1e-9)
    spread = np.sqrt((exact * (atoms - mean[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose(model.posterior_sd_, spread, rtol=1e-7, atol=1e-12)
    for t in (*atoms[:2], atoms.mean()):
        np.testing.assert_allclose(model.posterior_cdf(t), exact @ (atoms <= t), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(model.posterior_cdf(t, strict=True), exact @ (atoms < t), rtol=1e-8, atol=1e-12)
    for q in (0.03, 0.4, 0.97):
        t = model.posterior_quantile(q)
        at = (exact * (atoms <= t[:, None])).sum(axis=1)
        before = (exact * (atoms < t[:, None])).sum(axis=1)
        assert ((at >= q - 1e-9) & (before < q)).all()
    summary = model.prior_summary()
    assert summary["mean"] == pytest.approx(masses @ atoms)
    assert summary["sd"] == pytest.approx(np.sqrt(masses @ atoms**2 - (masses @ atoms) ** 2), abs=1e-7)
    own = model.own_numbers()
    expected = data[0] if family == "gaussian" else data[0] / data[1]
    np.testing.assert_allclose(own[:-1], expected, rtol=1e-14)
    assert np.isnan(own[-1])
    assert model.independent


@MANY
def test_averages_over_priors_are_laws_that_their_draws_follow(family):
    model, nothing = MODELS[family]
    _, data, _, _ = FAMILIES[family]
    first, second = np.append(data[0], 0.0), np.append(data[1], nothing)
    model = model().fit(first, second).averaged(4)
    assert not model.independent
    draws = model.sample_posterior(np.random.default_rng(7), 20_000)
    for t in np.quantile(draws, [0.2, 0.5, 0.83]):
        below = model.posterior_cdf(t)
        assert (np.abs(below - (draws <= t).mean(axis=0)) < 5 * np.sqrt(below * (1 - below) / 20_000) + 2e-3).all()
        np.testing.assert_allclose(model.posterior_cdf(t, strict=True), below, atol=1e-9)  # but at points at the ends
    for q in (0.1, 0.5, 0.9):
        ends = model.posterior_quantile(q)
        below = np.array([model.posterior_cdf(t)[i] for i, t in enumerate(ends)])
        least = 0.0 if family != "gaussian" else -np.inf
        assert (np.abs(below - q)[ends > least] < 1e-8).all() or family == "binomial"
        assert (below >= q - 1e-8).all()
    low, high = model.interval(0.8, method="integrated", seed=4)
    ends = model.averaged_quantiles([0.1, 0.9])
    np.testing.assert_allclose(np.array([low, high]), ends, rtol=1e-12)
    beyond = draws.max() * 3 + 10 if family != "binomial" else 1.0
    np.testing.assert_allclose(model.posterior_cdf(beyond), 1.0, atol=1e-12)
    if family != "gaussian":
        assert 0.0 in model.atoms().tolist()
        at_end = model.posterior_cdf(0.0) - model.posterior_cdf(0.0, strict=True)
        np.testing.assert_allclose(at_end, (draws == 0).mean(axis=0), atol=0.02)


def test_points_and_cells_of_a_lattice():
    t = np.array([0.5, 2.0, 7.0])
    cells = dirichlet.points(t)
    assert (cells.low.tolist(), cells.high.tolist(), cells.places.tolist()) == (t.tolist(),) * 3
    assert cells.base == pytest.approx([1 / 3] * 3)
    table = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(cells.heard(table), table)
    assert np.array_equal(cells.spread(table), table)
    edges = dirichlet.marched(np.array([0.0, 10.0]), np.array([0.4, 0.2]), -1.0, 12.0)
    assert (edges[0], edges[-1]) == (-1.0, 12.0)
    widths, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    assert (widths > 0).all()
    for at, s in ((0.0, 0.4), (10.0, 0.2)):
        near = np.abs(middles - at) < s
        assert widths[near].max() <= s / 4 * (1 + 1e-9)
        assert widths[near].min() >= s / 8
    assert widths.max() > 4 * 0.4 / 4  # wide between them
    assert edges.size < 90
    assert dirichlet.marched(np.array([0.0]), np.array([4.0]), 0.0, 2.5).tolist() == [0.0, 1.0, 2.0, 2.5]
    assert dirichlet.marched(np.array([0.0]), np.array([4.0]), 0.0, 2.4).tolist() == [0.0, 1.0, 2.4]


def test_chains_are_thinned_to_the_sweeps_asked_for():
    logs = np.log(np.random.default_rng(1).random((5, 4)))
    start = np.array([1, 2]), np.array([0.5, 0.5])
    whole = dirichlet.chain(np.random.default_rng(3), logs, np.full(4, 0.25), start, arrays, 1, 12)
    thinned = dirichlet.chain(np.random.default_rng(3), logs, np.full(4, 0.25), start, arrays, 5, 12)
    assert (whole.shape, thinned.shape) == ((12, 4), (2, 4))
    assert np.array_equal(thinned, whole[4::5])
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=1e-12)


def test_robbins_is_a_ratio_of_tallies():
    assert robbins([3, 0, 1, 1, 4, 0, 0]).tolist() == pytest.approx([4 * 1 / 1, 2 / 3, 0.0, 0.0, 0.0, 2 / 3, 2 / 3])
    with pytest.raises(ValueError, match=r"shape \(1, 2\)"):
        robbins([[1, 2]])


def test_unequal_columns_and_impossible_counts_are_named():
    with pytest.raises(ValueError, match=r"variances must have one entry per client, shape \(2,\), got \(3,\)"):
        NonparametricMeans().fit([1.0, 2.0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="client 1 has more successes"):
        NonparametricRates().fit([1, 3, 9], [1, 2, 3])
    with pytest.raises(ValueError, match="x must be 0 where exposure is 0"):
        NonparametricCounts().fit([1, 3], [1.0, 0.0])
    with pytest.raises(ValueError, match="no client carries information"):
        NonparametricCounts().fit([0, 0], [0.0, 0.0])
    with pytest.raises(ValueError, match="variances must be > 0"):
        NonparametricMeans().fit([1.0, 2.0], [1.0, 0.0])
    counts = NonparametricCounts().fit([0, 4, 9], [1.0, 0.5, 2.0])
    np.testing.assert_allclose(counts.predictive_mean(3.0), 3 * counts.posterior_mean_)
    assert np.array_equal(counts.predictive_mean(), counts.posterior_mean_)


@MANY
def test_warnings_say_the_gap_at_the_callers_line(family):
    """What is left of the log-likelihood: of the grid's, where there is one."""
    model, _ = MODELS[family]
    _, data, _, _ = FAMILIES[family]
    grid = {"gaussian": np.linspace(-1, 5, 40), "binomial": np.linspace(0, 1, 40), "poisson": np.linspace(0, 9, 40)}[family]
    for way in ({}, {"grid": grid}):
        short = model(max_iter=1, tolerance=1e-12, **way)
        with pytest.warns(RuntimeWarning, match=r"stopped with a gap of .* more than tolerance=1e-12") as caught:
            short.fit(*data)
        assert caught[0].filename == __file__
        left = short.grid_gap_ if way else short.gap_
        assert f"gap of {left:.3g} in" in str(caught[0].message)
        assert not short.converged_
        assert short.n_iter_ == 1
