"""Priors of any shape drawn given all clients: the chain against enumeration and calibration, cells, and what follows."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, ndtr

from estimators.npmle import arrays, binomial_clients, dirichlet, gaussian_clients, kernels, poisson_clients
from estimators.npmle.nonparametric import NonparametricCounts, NonparametricMeans, NonparametricRates


def test_the_chain_against_enumeration(monkeypatch):
    """Three clients, two groups, three places: every partition and place by itself, exact given the concentration."""
    monkeypatch.setattr(dirichlet, "GROUPS", 1)
    logs = np.array([[0.0, -1.0, -4.0], [-3.0, 0.0, -0.5], [-2.0, -0.3, 0.0]])
    base = np.array([0.5, 0.3, 0.2])
    groups, mean, terms = 2, [], []
    for a in dirichlet.CONCENTRATIONS:
        for z in product(range(groups), repeat=3):
            held = np.bincount(z, minlength=groups)
            height = gammaln(a) - gammaln(a + 3) + np.sum(gammaln(a / groups + held) - gammaln(a / groups))
            for places in product(range(3), repeat=groups):
                at = np.array(places)
                terms.append(height + np.log(base[at]).sum() + logs[np.arange(3), at[list(z)]].sum())
                weights = (a / groups + held) / (a + 3)
                mean.append(np.bincount(at, weights, 3))
    expected = np.exp(np.array(terms) - logsumexp(terms)) @ np.array(mean)
    start = np.array([0]), np.ones(1)
    found = dirichlet.chain(np.random.default_rng(0), logs, base, start, arrays, sweeps=6000)
    assert found.sum(axis=1) == pytest.approx(np.ones(6000), abs=1e-12)
    error = found.reshape(20, -1, 3).mean(axis=1).std(axis=0, ddof=1) / np.sqrt(20)
    assert (np.abs(found.mean(axis=0) - expected) < 5 * error).all()
    assert error.max() < 0.01
    assert np.abs(expected - base).max() > 0.05


@pytest.mark.parametrize("loops", [arrays, kernels])
@pytest.mark.parametrize(("m", "groups"), [(1, 1), (7, 3), (300, 40)])
def test_clients_are_sorted_into_groups_as_running_sums_say(m, groups, loops):
    """Each client's group by the first running sum of its chances that reaches its mark, and sums of what groups hold."""
    rng, places = np.random.default_rng(m), 5
    likelihoods, logs = rng.random((places, m)), -rng.random((m, places))
    place, weights, uniforms = rng.integers(places, size=groups), rng.random(groups), rng.random(m)
    held, heights = np.full(groups, 9), np.full((groups, places), np.nan)
    loops.sort_clients(likelihoods, logs, place, weights, uniforms, held, heights)
    sums = np.cumsum(likelihoods[place] * weights[:, None], axis=0)
    expected = [int(np.searchsorted(sums[:, i], uniforms[i] * sums[-1, i])) for i in range(m)]
    assert held.tolist() == np.bincount(expected, minlength=groups).tolist()
    rows = [sum((logs[i] for i in range(m) if expected[i] == k), np.zeros(places)) for k in range(groups)]
    np.testing.assert_allclose(heights, rows, rtol=1e-14)


@pytest.mark.parametrize("columns", [1, arrays.WIDE - 1, arrays.WIDE, 3 * arrays.WIDE])
def test_running_sums_are_the_same_however_many_columns(columns):
    table = np.random.default_rng(columns).random((40, columns))
    assert arrays.running(table.copy()).tobytes() == np.cumsum(table, axis=0).tobytes()


def test_intervals_hold_over_the_hyperprior():
    """Priors drawn as the chain believes, on cells that do not depend on the data: 95 % of 95 % intervals hold."""
    rng, m, held = np.random.default_rng(5), 30, []
    v = np.geomspace(0.3, 3, m)
    cells = dirichlet.lattice(gaussian_clients(np.linspace(-6, 6, m), v))
    places, groups = cells.places, dirichlet.GROUPS + 1
    for _ in range(120):
        at, a = rng.choice(cells.base.size, groups, p=cells.base), rng.choice(dirichlet.CONCENTRATIONS)
        which = rng.choice(groups, m, p=rng.dirichlet(np.full(groups, a / groups)))
        chances = cells.spread(np.eye(cells.base.size)[at[which]])
        cell = np.array([rng.choice(places.size, p=row / row.sum()) for row in chances])
        y = places[cell] + np.sqrt(v) * rng.standard_normal(m)
        heard = np.exp(-0.5 * (y[:, None] - places) ** 2 / v[:, None])
        logs = np.log(np.maximum(cells.heard(heard), 1e-300))
        priors = cells.spread(dirichlet.chain(rng, logs, cells.base, (np.array([0]), np.ones(1)), arrays))
        posterior = np.mean([heard * p / (heard @ p)[:, None] for p in priors], axis=0)
        clients = np.arange(m)  # a place has its probability evenly
        below = np.cumsum(posterior, axis=1)[clients, cell] - rng.random(m) * posterior[clients, cell]
        held.append(np.mean((below >= 0.025) & (below <= 0.975)))
    assert abs(np.mean(held) - 0.95) < 4 * np.std(held) / np.sqrt(len(held)) < 0.03


def test_cells():
    clients = poisson_clients([0, 1, 4, 9, 200], [1.0, 1.0, 1.0, 50.0, 2.0])
    cells = dirichlet.lattice(clients)
    assert cells.low[0] == cells.high[0] == 0  # structural zeros have a point of their own
    assert np.array_equal(cells.low[1:], cells.high[:-1])
    assert (np.diff(cells.places) > 0).all()
    assert cells.high[-1] > clients.t.max()
    assert cells.base.sum() == pytest.approx(1, abs=1e-12)
    whole = cells.spread(np.eye(cells.base.size))
    assert whole.sum(axis=1) == pytest.approx(np.ones(cells.base.size), abs=1e-12)
    assert (whole >= 0).all()
    for t, s in zip(clients.t, clients.s, strict=True):  # fine at every client
        near = np.abs(cells.places - t) < s
        assert (cells.high - cells.low)[near].max() <= s / dirichlet.FINE * (1 + 1e-9)
    likelihoods = np.random.default_rng(0).random((4, cells.low.size))
    assert cells.heard(likelihoods) == pytest.approx(likelihoods @ whole.T, rel=1e-12)
    # Groups are normal laws, what lies beyond 0 on it.
    sd = dirichlet.BANDWIDTH / np.sqrt(np.mean(1 / clients.s**2))
    draws = np.maximum(cells.centres[0] + sd * np.random.default_rng(1).standard_normal(200_000), 0)
    assert whole[0, 0] == pytest.approx(np.mean(draws == 0), abs=0.005)
    assert whole[0] @ cells.places == pytest.approx(draws.mean(), rel=0.02)


@pytest.mark.parametrize("m", [30, dirichlet.MANY])
def test_cells_are_fine_at_each_of_few_clients(m):
    """Up to MANY clients no two are averaged, whose cells would be too wide for the more precise one."""
    s = np.tile([1.0, 1.02, 1.05, 1.1, 1.15], m // 5)
    clients = gaussian_clients(np.repeat(np.arange(m // 5) * 9.0, 5), s**2)
    assert clients.t.size == m
    cells = dirichlet.lattice(clients)
    for t, s in zip(clients.t, clients.s, strict=True):
        inside = (cells.low <= t) & (t <= cells.high)
        assert inside.any()
        assert (cells.high - cells.low)[inside].max() <= s / dirichlet.FINE * (1 + 1e-9)


@pytest.mark.parametrize(
    ("family", "data", "cut"),
    [
        (gaussian_clients, ([0.3, -2.0, 7.0, 1.1, 0.9, 30.0], [1.0, 0.2, 3.0, 0.5, 2.0, 0.7]), [False, False]),
        (binomial_clients, ([3, 40, 9, 20, 5, 30], [60, 90, 30, 50, 12, 55]), [True, False]),
        (binomial_clients, ([3, 4, 0, 2, 5, 3], [6, 9, 3, 5, 12, 5]), [True, True]),
        (binomial_clients, ([60, 90, 30, 49, 9, 50], [61, 95, 30, 50, 12, 55]), [False, True]),
        (poisson_clients, ([3, 90, 0, 12, 7, 20], [1.0, 2.0, 1.5, 0.5, 1.0, 3.0]), [True, False]),
    ],
)
def test_groups_are_normal_laws_on_cells_whose_tails_are_at_the_ends(family, data, cut):
    """Half a typical standard error wide, at most four of these beyond clients, and cells at most four more beyond."""
    weights = np.array([1.0, 3.0, 0.5, 2.0, 1.0, 4.0])
    clients = family(*data, weights)
    sd = 0.5 / np.sqrt(clients.weights @ clients.s**-2.0 / clients.weights.sum())
    least, most = {"gaussian": (-np.inf, np.inf), "binomial": (0, np.pi / 2), "poisson": (0, np.inf)}[clients.family]
    cells = dirichlet.lattice(clients)
    assert cells.low[0] == pytest.approx(max(clients.t.min() - 8 * sd, least), abs=1e-12)
    assert cells.high[-1] == pytest.approx(min(clients.t.max() + 8 * sd, most), abs=1e-12)
    # Places of groups are the middles of stretches that lie side by side, with chances as they are wide.
    first, last = max(clients.t.min() - 4 * sd, least), min(clients.t.max() + 4 * sd, most)
    stretches = first + (last - first) * np.concatenate([[0.0], np.cumsum(cells.base)])
    assert stretches[-1] == pytest.approx(last)
    np.testing.assert_allclose(cells.centres, (stretches[1:] + stretches[:-1]) / 2, rtol=1e-12)
    near = (np.abs(cells.centres[:, None] - clients.t) < sd / 2)[:, clients.s <= 2 * sd].any(axis=1)
    assert sd / 8 < np.diff(stretches).min() <= np.diff(stretches)[near].max(initial=0.5 * sd) <= 0.5 * sd * (1 + 1e-9)
    points = cells.low == cells.high  # where cells are cut off by what a parameter can be
    assert [points[0], points[-1], points[1:-1].any()] == [*cut, False]
    edges = np.append(cells.low, cells.high[-1])
    np.testing.assert_array_equal(cells.low[1:], cells.high[:-1])
    below = ndtr((edges - cells.centres[:, None]) / sd)
    below[:, 0], below[:, -1] = 0.0, 1.0
    exact = np.diff(below, axis=1)
    np.testing.assert_allclose(cells.spread(np.eye(cells.base.size)), exact, atol=2e-15, rtol=1e-11)
    if not any(cut):
        assert max(row.size for _, row in cells.kernel) < cells.low.size  # what is far is left out


MODELS = (
    (NonparametricMeans, (np.linspace(-3, 3, 30) ** 3 / 9, np.geomspace(0.1, 4, 30))),
    (NonparametricRates, (np.arange(30) % 7, np.arange(30) % 7 + np.arange(30))),
    (NonparametricCounts, (np.arange(30) % 7, np.linspace(0.5, 3, 30))),
)


@pytest.mark.parametrize(("make", "data"), MODELS)
def test_averages_are_laws(make, data):
    """Quantiles invert the distribution function, draws have it, points are where it jumps."""
    model = make().fit(*data).averaged()
    for q in (0.025, 0.5, 0.975):
        t = model.posterior_quantile(q)
        for i in (0, 3, 17, 29):
            assert model.posterior_cdf(float(t[i]))[i] >= q - 1e-9
            assert model.posterior_cdf(float(t[i]), strict=True)[i] <= q + 1e-9
    draws = model.sample_posterior(np.random.default_rng(2), 8000)
    for t in np.quantile(draws, [0.1, 0.5, 0.9]):
        assert np.abs(np.mean(draws <= t, axis=0) - model.posterior_cdf(float(t))).max() < 6 * 0.5 / np.sqrt(8000)
    for t in model.atoms():
        jump = model.posterior_cdf(float(t)) - model.posterior_cdf(float(t), strict=True)
        assert np.abs(np.mean(draws == t, axis=0) - jump).max() < 6 * 0.5 / np.sqrt(8000)
    assert model.posterior_cdf(-1e9) == pytest.approx(np.zeros(30))
    assert model.posterior_cdf(1e9) == pytest.approx(np.ones(30))
    assert not model.independent


@pytest.mark.parametrize(("make", "data"), MODELS)
def test_the_same_bits_whatever_the_blocks(make, data, monkeypatch):
    first = make(threads=1).fit(*data).interval()
    assert np.array_equal(first, make(threads=2).fit(*data).interval())
    assert not np.array_equal(first, make().fit(*data).interval(seed=1))
    monkeypatch.setattr("estimators.npmle.nonparametric.CELLS", 300)
    assert np.array_equal(first, make().fit(*data).interval())


def test_a_grid_is_kept_to():
    grid = [-1.0, 0.0, 0.5, 2.0]
    low, high = NonparametricMeans(grid=grid).fit([-1.0, 0.2, 0.4, 2.2, 0.1], 0.3).interval()
    assert np.isin(low, grid).all()
    assert np.isin(high, grid).all()


def test_far_apart_and_very_unequal_clients():
    """Every client alone: its interval is that of its own estimate; and so is one that is very precise."""
    y = np.cumsum(np.random.default_rng(1).uniform(20, 60, 25))
    low, high = NonparametricMeans().fit(y, 1.0).interval()
    for ends, own in ((low, y - 1.96), (high, y + 1.96)):
        assert ends == pytest.approx(own, abs=0.6)  # of 200 drawn priors
        assert np.mean(ends - own) == pytest.approx(0, abs=0.1)
    rng = np.random.default_rng(0)
    v = np.append(np.ones(30), 1e-10)
    low, high = NonparametricMeans().fit(np.append(rng.normal(0, 1.5, 30), 0.3), v).interval()
    assert (low[-1], high[-1]) == pytest.approx((0.3 - 1.96e-5, 0.3 + 1.96e-5), abs=2e-6)
    assert np.all(high[:-1] - low[:-1] > 1)


def test_the_chain_starts_from_the_most_likely_prior(monkeypatch):
    """Already the first prior that is drawn has a group near each of 25 clients who are far apart."""
    monkeypatch.setattr(dirichlet, "BURN", 0)
    y = np.cumsum(np.random.default_rng(1).uniform(20, 60, 25))
    cells, priors = NonparametricMeans().fit(y, 1.0).averaged()._drawn
    near = np.abs(cells.places - (y - y.min())[:, None]) < 6
    assert (near @ priors[0]).min() > 1e-3
    assert (near @ priors[0]).sum() > 0.5


def test_no_successes_and_all_successes_can_be_certain():
    """Half of the clients never fail: intervals reach the end of the range, where the truth may be."""
    low, high = NonparametricRates().fit([0] * 12 + [30] * 12, 30).interval()
    assert (low[:12] == 0).all()
    assert (high[12:] == 1).all()
    assert high[0] < 0.2 < 0.8 < low[-1]


def test_a_range_within_one_step_is_one_cell():
    assert dirichlet.marched(np.array([0.3]), np.array([100.0]), 0.0, 1.0).tolist() == [0.0, 1.0]


def test_what_is_averaged_has_points_at_the_ends_of_its_range_alone():
    """Rates of 0 and 1 may be exact, means may not; on a grid all are points.  The first seed is the default."""
    rates = NonparametricRates().fit([0, 1, 5, 9], [5, 6, 10, 9])
    assert rates.averaged().atoms() == pytest.approx([0.0, 1.0], abs=1e-12)
    assert NonparametricCounts().fit([0, 3, 9]).averaged().atoms() == pytest.approx([0.0], abs=1e-12)
    means = NonparametricMeans().fit([0.0, 1.0, 5.0], 1.0)
    assert means.averaged().atoms().size == 0
    grid = NonparametricMeans(grid=[-1.0, 0.0, 4.0]).fit([0.0, 1.0, 5.0], 1.0)
    assert grid.averaged().atoms() == pytest.approx([-1.0, 0.0, 4.0], abs=1e-12)
    for model in (rates, means):
        assert (model.averaged().posterior_quantile(0.3) == model.averaged(0).posterior_quantile(0.3)).all()
        assert (model.averaged().posterior_quantile(0.3) != model.averaged(1).posterior_quantile(0.3)).any()
