"""The grid behind exact posteriors, rates on it, and exact draws, piece by piece: against integrals, SciPy and sums."""

from fractions import Fraction
from math import comb, exp
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from estimators.accounting import Guarantee
from estimators.private import RateReport, exact_batches, exact_noise, posterior
from estimators.private.mean_posterior import TruncatedNormals
from estimators.private.posterior import Hyperposterior, Nodes, Part, Places, Ranges, Table, Window
from estimators.private.rate_posterior import BetaMixtures, Betas, RateClients, check, merged, rate_posteriors

RNG = np.random.default_rng


# --- places ----------------------------------------------------------------------------------------------------------------


def test_places_are_even_inside_and_geometric_at_the_ends():
    places = Places(-1.0, 3.0, 0.3, 9.4)
    assert (places.cells, places.extra, places.size) == (14, 10, 35)  # 4 / 0.3, rounded up; ten more on either side
    assert places.step == pytest.approx(4 / 14)
    assert Places(-1.0, 3.0, 9.0, 2.0).cells == 8  # never fewer
    at = np.arange(places.size)
    below, above, length = places.at(at)
    u = at - 10.0
    with mpmath.workdps(30):
        exact = [4 / mpmath.mpf(14) * (mpmath.log1p(mpmath.exp(x)) - mpmath.log1p(mpmath.exp(x - 14))) for x in u]
    np.testing.assert_allclose(below, [float(x) for x in exact], rtol=1e-9)
    np.testing.assert_allclose(above, below[::-1], rtol=1e-9)
    np.testing.assert_allclose(below + above, 4.0, rtol=1e-6)
    h = 1e-5
    slope = (places.at(at + h)[0] - places.at(at - h)[0]) / (2 * h)
    np.testing.assert_allclose(np.exp(length), slope, rtol=1e-6)
    np.testing.assert_allclose(places.position(below), at, atol=1e-6)
    assert places.position(np.array([0.0, 4.0])).tolist() == [0.0, 34.0]


def test_the_far_end_is_the_last_place_whatever_rounding_makes_of_its_distance():
    for cells in range(8, 400):
        for low, high in ((0.0, np.pi), (-1.1, 3.3)):
            places = Places(low, high, (high - low) / cells * 1.0001, 16.0)
            assert places.cells == cells
            assert places.position(np.array([high - low])).tolist() == [places.size - 1]


def test_priors_on_places_hold_what_is_beyond_the_first_and_the_last():
    """A Beta law of powers below one: what lies between the end and the first place, by its distribution function."""
    family, places = Betas(), Places(0.0, np.pi, 0.1, 6.0)
    nodes = Nodes(np.array([1.1]), np.array([0.8]), np.ones(1))
    alpha, beta = (float(x[0]) for x in Betas.shapes(nodes.centre, nodes.spread))
    whole = posterior.density(family, Window(places, 0, places.size), nodes)[:, 0]
    inner = posterior.density(family, Window(places, 1, places.size - 1), nodes)[:, 0]
    np.testing.assert_allclose(whole[1:-1], inner, rtol=1e-12)
    assert whole.sum() == pytest.approx(1.0, abs=6e-4)
    powers, beyond = posterior.ends(family, Window(places, 0, places.size), nodes)
    np.testing.assert_allclose(powers[:, 0], [2 * alpha, 2 * beta])
    first = float(Betas.value(family, *(x[:1] for x in places.at(np.arange(places.size))[:2]))[0])
    assert whole[0] * beyond[0, 0] == pytest.approx(stats.beta.cdf(first, alpha, beta), rel=0.02)
    within, half = posterior.ends(family, Window(places, 2, places.size - 2), nodes)
    np.testing.assert_allclose(within, powers)
    assert half.tolist() == [[0.5], [0.5]]


@pytest.mark.parametrize("centre", [-0.9, 0.4, 2.97])
def test_narrow_priors_on_places_keep_their_integrals(centre):
    family, places = TruncatedNormals(-1.0, 3.0), Places(-1.0, 3.0, 0.2, 9.0)
    spread = 0.05
    found = posterior.density(
        family, Window(places, 0, places.size), Nodes(np.array([centre]), np.array([spread]), np.ones(1))
    )
    x = family.value(*places.at(np.arange(places.size))[:2])
    law = stats.truncnorm((-1 - centre) / spread, (3 - centre) / spread, centre, spread)
    assert found.sum() == pytest.approx(1.0, rel=1e-9)
    assert found[:, 0] @ x == pytest.approx(law.mean(), abs=4e-4)
    assert found[:, 0] @ np.sin(x) == pytest.approx(law.expect(np.sin), abs=3e-4)


def test_a_prior_of_next_to_no_width_has_the_moments_of_a_point():
    for spread in (1e-9, 1e-200, 1e-320):
        mean, variance = TruncatedNormals(-1.0, 3.0).moments(np.array([-0.5, 2.0]), np.full(2, spread))
        assert mean.tolist() == [-0.5, 2.0]
        np.testing.assert_allclose(variance, spread**2, rtol=1e-12)


@pytest.mark.parametrize("spread", [1e-200, 1e-7, 3e-5, 1e-3, 0.03])
def test_narrow_priors_at_either_end_are_mirror_images(spread):
    """Of 1e-7, within the way from the end to the first place, all is there; interpolation of wider ones hardly swings."""
    family, places = TruncatedNormals(-1.0, 3.0), Places(-1.0, 3.0, 0.2, 9.0)
    nodes = Nodes(np.array([-1.0, 3.0]), np.full(2, spread), np.ones(2))
    low, high = posterior.density(family, Window(places, 0, places.size), nodes).T
    np.testing.assert_allclose(high[::-1], low, atol=1e-6)
    assert low.sum() == pytest.approx(1.0, rel=1e-12)
    assert low.min() > -0.1
    if spread < 1e-6:
        assert low[0] == pytest.approx(1.0, rel=1e-9)


def test_distributions_on_places_are_cubic_and_inverted():
    x = np.linspace(-4, 4, 33)
    mass = stats.norm.pdf(x) * 0.25
    beyond = np.array([[mass[0] / 2, mass[-1] / 2]])
    below, slopes = posterior.distribution(Part(mass[None], beyond))
    np.testing.assert_allclose(below[0], stats.norm.cdf(x), atol=5e-5)
    np.testing.assert_allclose(slopes[0, 1:-1], mass[1:-1], rtol=1e-3)
    for q in (0.01, 0.4, 0.5, 0.97):
        u = posterior.inverse(below, slopes, np.array([q]), np.array([0]))[0]
        k = int(u)
        assert posterior.hermite(u - k, below[0, k], below[0, k + 1], slopes[0, k], slopes[0, k + 1]) == pytest.approx(q)
        assert x[0] + u * 0.25 == pytest.approx(stats.norm.ppf(q), abs=1e-3)
    assert posterior.inverse(below, slopes, np.array([1e-9]), np.array([0]))[0] == 0.0  # all that is beyond the first


@pytest.mark.parametrize("unit", [1.0, 1e-40, 1e40])
def test_rounding_makes_no_spread_negative(unit):
    """Masses so near an end that floats hardly tell their places apart, nor their squares from their mean's."""
    family, places = TruncatedNormals(-unit, 3 * unit), Places(-unit, 3 * unit, 0.2 * unit, 60.0)
    rows, part = np.arange(200), np.zeros((200, places.size))
    part[:, :20] = RNG(0).random((200, 20))
    block = posterior.Block(rows, np.ones(200, int), Window(places, 0, places.size), part, np.zeros(200))
    nodes = Nodes(np.zeros(1), np.ones(1), np.ones(1))
    laws = posterior.GridLaws(SimpleNamespace(family=family, blocks=[block]), [Part(part, np.zeros((200, 2)))], nodes, rows)
    np.testing.assert_allclose(laws.mean(), -unit, rtol=1e-12)
    assert ((laws.sd() > 0) & (laws.sd() < 1e-7 * unit)).all()


def test_a_cubic_has_its_ends_and_its_slopes():
    f = np.polynomial.Polynomial([0.3, -1.2, 0.7, 2.1])
    t = np.linspace(0, 1, 7)
    ends = f(0.0), f(1.0), f.deriv()(0.0), f.deriv()(1.0)
    np.testing.assert_allclose(posterior.hermite(t, *map(np.array, ends)), f(t), rtol=1e-13)


def test_powers_of_several_nodes_are_inverted():
    share, powers = np.array([[0.2, 0.5, 0.3], [0.6, 0.4, 0.0]]), np.array([0.7, 1.3, 4.0])
    for x in (-0.01, -1.7, -40.0):
        level = (share * np.exp(powers * x)).sum(axis=1)
        np.testing.assert_allclose(posterior.power_root(share, powers, level), x, rtol=1e-9)


def test_nodes_of_gauss_on_the_unit_interval():
    x, w = posterior.legendre(7)
    for k in range(14):
        assert w @ x**k == pytest.approx(1 / (k + 1), rel=1e-12)


def test_clients_are_cut_into_blocks_of_neighbours():
    starts, stops = np.array([0, 5, 400, 410, 900]), np.array([20, 30, 420, 430, 910])
    found = sorted(posterior.cut(starts, stops))
    assert [i for first, last in found for i in range(first, last)] == [0, 1, 2, 3, 4]
    for first, last in found:
        widest = (stops[first:last] - starts[first:last]).max()
        assert last - first == 1 or stops[first:last].max() - starts[first:last].min() <= 64 + 2 * widest


def test_ranges_between_spreads_are_interpolated():
    ranges = Ranges(0.5, 0.2, 1.4, np.array([0.2, 1.4]), np.array([-1.0, -2.0]), np.array([1.0, 3.0]))
    low, high = ranges.between(np.array([0.5]))
    assert (low[0], high[0]) == (pytest.approx(-1.25), pytest.approx(1.5))
    assert ranges.widest == pytest.approx(0.5 * np.sinh(1.4))


def test_a_range_ends_where_the_density_has_fallen():
    """A normal log density at nodes: the range is where it is within 13 of its top, whatever was looked at before."""
    at = np.linspace(-8.0, 8.0, 41)[None]
    log = -((at - 0.8) ** 2) / 2
    low, high, enough = posterior.shrunk(log, at, -8.0, 8.0, -20.0, 20.0)
    reach = np.sqrt(2 * 13)
    assert (low[0], high[0]) == (pytest.approx(0.8 - reach, abs=1e-9), pytest.approx(0.8 + reach, abs=1e-9))
    assert not enough[0]  # 26 of 41 nodes are within, and 0.7 of them are wanted
    at = np.linspace(-7.4, 7.4, 41)[None]  # 27 of 41
    assert not posterior.shrunk(-((at - 0.3) ** 2) / 2, at, -7.4, 7.4, -20.0, 20.0)[2][0]
    at = np.linspace(-5.0, 6.0, 41)[None]
    low, high, enough = posterior.shrunk(-((at - 0.7) ** 2) / 2, at, -5.0, 6.0, -20.0, 20.0)
    assert enough[0]
    at = np.linspace(-3.0, 6.0, 41)[None]  # ends where the density is not small
    low, high, enough = posterior.shrunk(-((at - 0.7) ** 2) / 2, at, -3.0, 6.0, -20.0, 20.0)
    assert (low[0], high[0], not enough[0]) == (pytest.approx(-3.0 - 9.0), 6.0, True)  # twice as wide, and no end is lost
    low, high, enough = posterior.shrunk(8.0 * at, at, -3.0, 6.0, -20.0, 20.0)  # a slope, of which the top is far away
    assert (low[0], high[0], not enough[0]) == (-3.0, pytest.approx(6.0 + 9.0), True)
    low, high, enough = posterior.shrunk(-((at - 0.7) ** 2) / 2, at, -3.0, 6.0, -3.0, 20.0)
    assert (low[0], enough[0]) == (-3.0, True)  # but where nothing is beyond


def test_a_lattice_of_nodes_has_the_moments_of_the_density():
    """Spreads unit sinh(at), centres uniform in their range: a product of smooth densities, by quadrature."""
    ranges = Ranges(0.4, 0.1, 1.9, np.array([0.1, 1.9]), np.array([-2.0, -2.5]), np.array([2.0, 3.5]))
    (x, _), (y, _) = posterior.legendre(24), posterior.legendre(40)

    def log_density(at, centre):
        return -((at - 1.0) ** 2) / 0.18 - (centre - 0.3) ** 2 / 0.5

    at = 0.1 + 1.8 * x
    low, high = ranges.between(at)
    centre = low[:, None] + (high - low)[:, None] * y
    nodes = Hyperposterior(ranges, log_density(at[:, None], centre), True).lattice()
    fine_at, fine_c = np.linspace(0.1, 1.9, 1201), np.linspace(-2.5, 3.5, 1201)
    inside = (fine_c >= np.interp(fine_at, ranges.at, ranges.centre_low)[:, None]) & (
        fine_c <= np.interp(fine_at, ranges.at, ranges.centre_high)[:, None]
    )
    weight = np.exp(log_density(fine_at[:, None], fine_c)) * np.cosh(fine_at)[:, None] * inside
    weight /= weight.sum()
    spread = 0.4 * np.sinh(fine_at)
    assert nodes.weight.sum() == pytest.approx(1.0)
    for power in (1, 2):
        assert nodes.weight @ nodes.spread**power == pytest.approx((weight.sum(1) * spread**power).sum(), rel=2e-4)
        assert nodes.weight @ nodes.centre**power == pytest.approx((weight.sum(0) * fine_c**power).sum(), rel=2e-3)


def test_a_lattice_lies_on_the_density_between_the_outermost_nodes():
    """A log density that is linear in both, which splines have exactly: weights are it times the areas of cells."""
    ranges = Ranges(0.4, 0.1, 1.9, np.array([0.1, 1.9]), np.array([-2.0, -2.5]), np.array([2.0, 3.5]))
    (x, _), (y, _) = posterior.legendre(24), posterior.legendre(40)
    nodes = Hyperposterior(ranges, 9.0 * x[:, None] - 14.0 * y, True).lattice()
    u, v = (np.arange(400)[:, None] + 0.5) / 400, (np.arange(200) + 0.5) / 200
    at = 0.1 + 1.8 * u
    exact = np.exp(9.0 * u - 14.0 * v) * np.cosh(at) * (4.0 + 2.0 * u)
    found = nodes.weight.reshape(400, 200)
    inside = (u > x[0]) & (u < x[-1]) & (v > y[0]) & (v < y[-1])
    assert inside.sum() == 398 * 200
    np.testing.assert_allclose((found / exact)[inside] * exact[200, 100] / found[200, 100], 1.0, rtol=1e-9)
    np.testing.assert_allclose(nodes.spread.reshape(400, 200)[:, 7], 0.4 * np.sinh(at[:, 0]), rtol=1e-12)
    for constant in (-2000.0, 2000.0):  # the log density is known up to one
        moved = Hyperposterior(ranges, 9.0 * x[:, None] - 14.0 * y + constant, True).lattice()
        np.testing.assert_allclose(moved.weight, nodes.weight, rtol=1e-9)


@pytest.mark.parametrize("ends", [(0, 47), (21, 24), (3, 23), (22, 47), (0, 22), (46, 47)])
def test_priors_in_a_window_are_those_of_the_whole_grid_there(ends):
    family, places = TruncatedNormals(-1.0, 3.0), Places(-1.0, 3.0, 0.2, 13.0)
    assert places.size == 47
    nodes = Nodes(np.array([0.7, 0.7, -0.98, 2.99, 1.0]), np.array([0.05, 0.6, 0.03, 0.3, 0.2]), np.ones(5))
    whole = posterior.density(family, Window(places, 0, 47), nodes)
    part = posterior.density(family, Window(places, *ends), nodes)
    np.testing.assert_allclose(part, whole[slice(*ends)], rtol=1e-12, atol=1e-15)
    below, above, length = places.at(np.arange(3, 44))
    log = family.log_density(below, above, np.array(1.0), np.array(0.2))  # as wide as a step, which needs no interpolation
    np.testing.assert_allclose(whole[3:44, 4], np.exp(log + length), rtol=1e-12)


def test_a_narrow_prior_keeps_its_variance_within_a_hundredth():
    """In the middle of the grid, where places are even: interpolation by cubics has all squares."""
    family, places = TruncatedNormals(-1.0, 3.0), Places(-1.0, 3.0, 0.02, 9.0)
    for spread in (0.003, 0.018):
        nodes = Nodes(np.array([1.003]), np.array([spread]), np.ones(1))
        found = posterior.density(family, Window(places, 0, places.size), nodes)[:, 0]
        x = family.value(*places.at(np.arange(places.size))[:2])
        assert found @ (x - 1.003) ** 2 == pytest.approx(spread**2, rel=0.012)


@pytest.mark.parametrize("centre", [0.25, np.pi - 0.25])
def test_priors_that_rise_without_bound_are_whole_with_what_is_beyond_the_places(centre):
    """A grid that ends early, with a third of all beyond its last place: a power of the distance, summed by trapezoids."""
    family, places = Betas(), Places(0.0, np.pi, 0.1, 5.0)
    nodes = Nodes(np.array([centre]), np.array([0.96]), np.ones(1))
    window = Window(places, 0, places.size)
    found = posterior.density(family, window, nodes)[:, 0]
    assert found.sum() == pytest.approx(1.0, abs=0.01)
    alpha, beta = (float(x[0]) for x in Betas.shapes(nodes.centre, nodes.spread))
    _, beyond = posterior.ends(family, window, nodes)
    p = family.value(*places.at(np.arange(places.size))[:2])
    assert found[0] * beyond[0, 0] == pytest.approx(stats.beta.cdf(p[0], alpha, beta), rel=0.05)
    assert found[-1] * beyond[1, 0] == pytest.approx(stats.beta.sf(p[-1], alpha, beta), rel=0.05)


def test_cells_hold_the_integrals_of_cubics():
    f = np.polynomial.Polynomial([2.0, -0.3, 0.11, 0.013])
    at = f(np.arange(12.0))
    whole = f.integ()
    below, slopes = posterior.distribution(Part(at[None], np.array([[at[0] / 2, at[-1] / 2]])))
    cells = np.diff(below[0])[1:-1]
    exact = np.diff(whole(np.arange(12.0)))[1:-1]
    np.testing.assert_allclose(cells / cells.sum(), exact / exact.sum(), rtol=1e-12)
    total = exact.sum() / cells.sum()
    assert below[0, 0] * total == pytest.approx(at[0] / 2, rel=1e-12)
    assert (1 - below[0, -1]) * total == pytest.approx(at[-1] / 2, rel=1e-12)
    np.testing.assert_allclose(slopes[0] * total, at, rtol=1e-12)
    np.testing.assert_allclose(np.diff(below[0])[[0, -1]] * total, [(at[0] + at[1]) / 2, (at[-2] + at[-1]) / 2], rtol=0.07)


def test_distributions_of_any_masses_rise_and_are_mirrored():
    """Masses that jump: the cubic between two places would fall, were slopes not cut to three times the lesser cell."""
    at = np.exp(2.0 * RNG(3).standard_normal((40, 9)))
    at[0] = [6.0, 6.0, 6.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    beyond = at[:, [0, -1]] * RNG(4).random((40, 2))
    below, slopes = posterior.distribution(Part(at, beyond))
    back, turned = posterior.distribution(Part(at[:, ::-1], beyond[:, ::-1]))
    np.testing.assert_allclose(back, 1 - below[:, ::-1], atol=1e-14)
    np.testing.assert_allclose(turned, slopes[:, ::-1], rtol=1e-12)
    cells = np.diff(below)
    assert (cells >= 0).all()
    t = np.linspace(0.0, 1.0, 101)[:, None, None]
    between = posterior.hermite(t, below[:, :-1], below[:, 1:], slopes[:, :-1], slopes[:, 1:])
    assert np.diff(between, axis=0).min() > -1e-14
    assert (slopes[:, 1:-1] > 2.99 * np.minimum(cells[:, :-1], cells[:, 1:])).any()  # cut no more than that
    assert slopes[0, 3] == pytest.approx(3 * cells[0, 3], rel=1e-12)


def test_inverses_are_exact_the_first_of_a_flat_stretch_and_within_the_places():
    below = np.array([[0.1, 0.5, 0.5, 0.9], [0.0, 0.3, 0.8, 1.0]])
    slopes = np.array([[0.3, 0.0, 0.0, 0.3], [0.2, 0.4, 0.3, 0.1]])
    q = np.array([0.05, 0.1, 0.5, 0.95, 0.9])
    found = posterior.inverse(below, slopes, q, np.zeros(5, int))
    np.testing.assert_allclose(found, [0.0, 0.0, 1.0, 3.0, 3.0], atol=1e-7)  # of a root on a flat cubic half of the digits
    assert found[1] == 0
    q = np.array([0.0, 1e-3, 0.2, 0.31, 0.55, 0.99, 1.0])
    u = posterior.inverse(below, slopes, q, np.ones(7, int))
    k = np.minimum(u.astype(int), 2)
    found = posterior.hermite(u - k, below[1, k], below[1, k + 1], slopes[1, k], slopes[1, k + 1])
    np.testing.assert_allclose(found, q, atol=1e-14)


def test_a_range_that_falls_off_a_cliff_ends_at_the_node_beyond():
    """Ten nodes at 0..9: between 3 and 4 the log falls by 1000, and after 7 as a normal one does."""
    at = np.arange(10.0)[None]
    log = np.array([[-1e3] * 4 + [0.0, -1.0, -2.0, -10.0, -36.0, -49.0]])
    low, high, enough = posterior.shrunk(log, at, -0.5, 9.5, -3.0, 20.0)
    assert low[0] == 3.0
    assert high[0] == pytest.approx(7 + (np.sqrt(13) - np.sqrt(10)) / (6 - np.sqrt(10)))
    assert not enough[0]  # four of ten
    gap = np.array([[-1.0, 0.0, -50.0, -50.0, -50.0, -50.0, -50.0, 0.0, -12.0, -40.0]])
    low, high, enough = posterior.shrunk(gap, at, -0.5, 9.5, -0.5, 20.0)  # nothing is beyond -0.5
    assert (low[0], enough[0]) == (-0.5, True)  # nine of ten, what is between them or not
    near, far = np.sqrt(12), np.sqrt(40)
    assert high[0] == pytest.approx(8 + (np.sqrt(13) - near) / (far - near))


def test_a_range_is_kept_at_an_end_that_is_neither_open_nor_negligible():
    """Fallen by 11 at the outermost node, between 9, where a range would be open, and 13, where it would end before."""
    at = np.arange(10.0)[None]
    log = np.array([[-11.0, -2.0, -1.0, 0.0, 0.0, 0.0, 0.0, -1.0, -4.0, -12.0]])
    low, high, enough = posterior.shrunk(log, at, -0.5, 9.5, -3.0, 20.0)
    assert (low[0], high[0], enough[0]) == (-0.5, 9.5, True)
    log[0, [0, 9]] = -8.9
    low, high, enough = posterior.shrunk(log, at, -0.5, 9.5, -3.0, 20.0)
    assert (low[0], high[0], not enough[0]) == (-3.0, 19.5, True)  # by its own length, as far as there is anything


@pytest.mark.parametrize(("within", "good"), [(7, False), (8, True)])
def test_more_than_seven_of_ten_nodes_are_to_be_within_a_range(within, good):
    log = np.full((1, 10), -200.0)
    log[0, 1 : 1 + within] = -np.linspace(0.0, 9.5, within)
    assert posterior.shrunk(log, np.arange(10.0)[None], -0.5, 9.5, -3.0, 20.0)[2].tolist() == [good]


# --- rates -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("centre", "spread"), [(1.1, 0.3), (2.6, 0.7), (0.2, 0.95)])
def test_priors_of_rates_are_beta_laws_in_the_angle(centre, spread):
    mean, size = np.sin(centre / 2) ** 2, 1 / spread**2 - 1
    law = stats.beta(mean * size, (1 - mean) * size)
    family = Betas()
    np.testing.assert_allclose(Betas.shapes(np.array(centre), np.array(spread)), law.args)
    np.testing.assert_allclose(Betas.moments(np.array(centre), np.array(spread)), (law.mean(), law.var()), rtol=1e-10)
    angle = np.array([0.3, 1.2, 2.9])
    p = np.sin(angle / 2) ** 2
    found = family.log_density(angle, np.pi - angle, np.array(centre), np.array(spread))
    np.testing.assert_allclose(found, law.logpdf(p) + np.log(np.sin(angle) / 2), rtol=1e-9)  # dp = sin(angle) / 2 dangle
    np.testing.assert_allclose(np.exp(family.log_hyperprior(angle)), np.sin(angle) / 2)  # of a uniform mean
    np.testing.assert_allclose(family.value(angle, np.pi - angle), p, rtol=1e-12)
    np.testing.assert_allclose([family.below(float(x)) for x in p], angle, rtol=1e-12)
    np.testing.assert_allclose(family.ends(np.array(centre), np.array(spread)), 2 * np.array(law.args))


def report(mechanism, value, noise, trials, statistic="ones"):
    made = Guarantee(1.0, 0.0, "row", "client", mechanism)
    return RateReport(
        "", trials if statistic == "ones" else 2, made, statistic, trials if statistic == "ones" else 1, value, noise
    )


def test_likelihoods_of_rates_sum_over_all_numbers_of_ones():
    fall = 0.8
    noise = 1 / (2 * np.sinh(fall / 2) ** 2)
    reports = [report("discrete-laplace", 6.0, noise, 9), report("none", 2.0, 0.0, 9), report("gaussian", 3.7, 2.5, 5)]
    clients = RateClients(reports, np.ones(3, int))
    angle = np.array([0.4, 1.5, 2.2])
    p = np.sin(angle / 2) ** 2
    found = clients.log_likelihood(np.array([2, 0, 1]), angle, np.pi - angle)
    exact = []
    for n, law in (
        (5, lambda k: np.exp(-((3.7 - k) ** 2) / 5)),
        (9, lambda k: np.exp(-fall * abs(6 - k))),
        (9, lambda k: 1.0 * (k == 2)),
    ):
        exact.append([np.log(sum(law(k) * comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(n + 1))) for x in p])
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    np.testing.assert_allclose(clients.n, [9, 9, 5])
    np.testing.assert_allclose(clients.centre, 2 * np.arcsin(np.sqrt([6 / 9, 2 / 9, 3.7 / 5])))
    np.testing.assert_allclose(clients.slope, [9 / (2 / fall), np.inf, np.inf])  # of the angle: two over n per one
    np.testing.assert_allclose(clients.error, [1 / 3, 1 / 3, np.sqrt(1 / 5 + 4 * 2.5 / 25)])
    far = RateClients([report("gaussian", 300.3, 2.5, 400), report("none", 280.0, 0.0, 400)], np.ones(2, int))
    law, k, near = stats.binom(400, np.sin(angle[1:] / 2)[:, None] ** 2), np.arange(401), angle[1:]
    exact = np.log(law.pmf(k) @ np.exp(-((300.3 - k) ** 2) / 5)), law.logpmf(280)[:, 0]
    np.testing.assert_allclose(far.log_likelihood(np.array([0, 1]), near, np.pi - near), exact, rtol=1e-9)
    certain = RateClients([report("discrete-laplace", 2.0, 0.0, 9)], np.ones(1, int))
    assert (certain.slope.tolist(), certain.error.tolist()) == ([np.inf], [1 / 3])
    pairs = RateClients([report("two-point", 0.49, 0.3, 1, "pairs")], np.ones(1, int))
    assert pairs.centre[0] == pytest.approx(2 * np.arcsin(np.sqrt(0.7)))
    assert pairs.n.tolist() == [2]


def test_what_reports_say_roughly_of_their_rates_before_any_prior():
    """Fall 2 of 100: counts within 15 of the value are kept, and beyond them nine standard errors of 100 answers."""
    noise = 1 / (2 * np.sinh(1.0) ** 2)
    reports = [report("discrete-laplace", 50.0, noise, 100), report("none", 2.0, 0.0, 9), report("gaussian", 3.7, 2.5, 5)]
    reports += [report("two-point", 1.4, 0.3, 1), report("discrete-laplace", 400.0, 8e4, 400)]
    count = np.array([1, 2, 1, 3, 1])
    clients = RateClients(reports, count)
    n = np.array([100, 9, 5, 1, 400.0])
    v = np.array([noise, 0.0, 2.5, 0.3, 8e4]) / n**2
    assert clients.first[:3].tolist() == [36, 2, 0]
    np.testing.assert_allclose(clients.weights[0], np.exp(-2.0 * np.abs(np.arange(36, 65) - 50)), rtol=1e-9)
    ends = 2 * np.arcsin(np.sqrt([[0.36, 0.64], [2 / 9, 2 / 9], [0, 1], [0, 1]]))
    np.testing.assert_allclose(clients.low[:4], ends[:, 0] - 9 / np.sqrt(n[:4]))
    np.testing.assert_allclose(clients.high[:4], ends[:, 1] + 9 / np.sqrt(n[:4]))
    np.testing.assert_allclose(clients.centre, 2 * np.arcsin(np.sqrt([0.5, 2 / 9, 0.74, 1, 1])))
    weight = count / (1 / n + v)
    average = weight @ [0.5, 2 / 9, 0.74, 1.4, 1.0] / weight.sum()  # of the share of ones, as reported
    np.testing.assert_allclose(clients.spread, np.sqrt(1 / n + v / (average * (1 - average))))
    np.testing.assert_allclose(clients.error, np.sqrt([0.01, 1 / 9, 1 / 5 + 4 * 0.1, 1, 1 / 400]))
    scale = 1 / (2 * np.arcsinh(1 / np.sqrt(16e4)))  # of the wide noise, whose corner is resolved to a twelfth
    np.testing.assert_allclose(clients.slope, [100, np.inf, np.inf, 0, 400 / (2 * scale)])
    np.testing.assert_allclose(clients.feature, np.minimum([0.1, 1 / 3, 2 * np.sqrt(0.1), 1, scale / 200 / 12], np.pi / 4))
    for value, average in ((13.0, 0.98), (-4.0, 0.02)):  # shares that no rates have, taken as next to an end
        (found,) = RateClients([report("gaussian", value, 2.5, 10)], np.ones(1, int)).spread
        assert found == pytest.approx(np.sqrt(0.1 + 0.025 / (average * (1 - average))), rel=1e-12)
    one_sided = RateClients([report("none", 0.0, 0.0, 9), report("none", 0.0, 0.0, 7)], np.ones(2, int))
    np.testing.assert_allclose(one_sided.centre, 0.0)
    many = RateClients([report("gaussian", 2.0 + 0.1 * i, 2.5, (9, 5)[i % 2]) for i in range(31)], np.ones(31, int))
    assert many.kind.tolist() == [(1, -1)[i % 2] for i in range(31)]  # sixteen of nine trials, fifteen of five


def test_corners_of_laplace_noise_are_resolved_wherever_they_are_between_places():
    """Of counts with noise that is wider than what the binomial law smooths: likelihoods in closed form, by tilted laws."""
    n, fall, values = 20_000, 1 / 4200, np.array([4000.0, 7400.0, 7500.0, 7600.0, 7700.0, 12_000.0])
    reports = [report("discrete-laplace", value, 1 / (2 * np.sinh(fall / 2) ** 2), n) for value in values]
    whole = Ranges(0.1, 0.0, float(np.arcsinh(10.0)), np.array([0.0, 3.0]), np.zeros(2), np.full(2, np.pi))
    table = Table(RateClients(reports, np.ones(6, int)), np.arange(6), Betas(), whole)
    laws = table.laws(Nodes(np.array([1.4]), np.array([0.4]), np.ones(1)), np.arange(6))
    angle = (np.arange(20_000) + 0.5) * np.pi / 20_000
    p = np.sin(angle / 2) ** 2
    up, down, value = 1 - p + p * np.exp(fall), 1 - p + p * np.exp(-fall), values[:, None]
    log = np.logaddexp(
        n * np.log(up) - fall * value + stats.binom.logcdf(value, n, p * np.exp(fall) / up),
        n * np.log(down) + fall * value + stats.binom.logsf(value, n, p * np.exp(-fall) / down),
    )
    shapes = Betas.shapes(np.array(1.4), np.array(0.4))
    density = np.exp(log - log.max()) * stats.beta.pdf(p, *shapes) * np.sin(angle)
    below = np.cumsum(density, axis=1) / density.sum(axis=1, keepdims=True)
    at = np.arange(99, 19_900, 60)
    found = [laws.cdf(float(np.sin((angle[i] + angle[i + 1]) / 4) ** 2)) for i in at]
    np.testing.assert_allclose(np.transpose(found), below[:, at], atol=6e-5)


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "none"])
def test_posteriors_of_rates_given_a_prior_are_by_quadrature(mechanism):
    noise = 1 / (2 * np.sinh(0.4) ** 2) if mechanism == "discrete-laplace" else 0.0
    reports = [report(mechanism, 6.0, noise, 9), report(mechanism, 1.0, noise, 4), report(mechanism, 6.0, noise, 9)]
    laws, total = rate_posteriors(reports, 0.7, 2.2)
    evidence = 0.0
    for i, each in enumerate(reports):
        weight = [np.exp(-0.8 * abs(each.value - k)) if noise else 1.0 * (k == each.value) for k in range(each.trials + 1)]

        def joint(p, power=0, weight=weight, n=each.trials):
            chance = sum(w * comb(n, k) * p**k * (1 - p) ** (n - k) for k, w in enumerate(weight))
            return p**power * chance * stats.beta.pdf(p, 0.7, 2.2)

        whole, first, second = (integrate.quad(joint, 0, 1, args=(k,), limit=200)[0] for k in range(3))
        evidence += np.log(whole)
        assert laws.mean()[i] == pytest.approx(first / whole, rel=1e-7)
        assert laws.sd()[i] == pytest.approx(np.sqrt(second / whole - (first / whole) ** 2), rel=1e-7)
        assert laws.cdf(0.3)[i] == pytest.approx(integrate.quad(joint, 0, 0.3, limit=200)[0] / whole, rel=1e-7)
    assert total == pytest.approx(evidence, rel=1e-7)


def test_draws_from_mixtures_of_beta_laws():
    weights, a, b = np.array([0.3, 0.7, 1.0]), np.array([2.0, 9.0, 0.7]), np.array([5.0, 3.0, 1.4])
    laws = BetaMixtures(weights, a, b, [2, 1], np.array([1, 0, 0]))
    draws = laws.draw(RNG(1), 8000)
    for client, cdf in ((0, lambda t: stats.beta.cdf(t, 0.7, 1.4)),
                        (2, lambda t: 0.3 * stats.beta.cdf(t, 2, 5) + 0.7 * stats.beta.cdf(t, 9, 3))):  # fmt: skip
        assert stats.kstest(draws[:, client], cdf).pvalue > 1e-6
    for q in (0.02, 0.5, 0.9):
        exact = optimize.brentq(
            lambda t, q=q: 0.3 * stats.beta.cdf(t, 2, 5) + 0.7 * stats.beta.cdf(t, 9, 3) - q, 0, 1, xtol=1e-14
        )
        np.testing.assert_allclose(laws.quantile(q), [stats.beta.ppf(q, 0.7, 1.4), exact, exact], rtol=1e-8)
    assert laws.quantile(0.0).tolist() == [0, 0, 0]
    assert laws.quantile(1.0).tolist() == [1, 1, 1]
    assert laws.cdf(-3.0).tolist() == [0, 0, 0]
    assert laws.cdf(7.0).tolist() == [1, 1, 1]


def test_many_parts_are_merged_with_their_mean():
    for many in (512, 513, 1500):
        k, weight = np.arange(float(many)), RNG(many).random(many)
        merged_k, merged_weight = merged(k, weight)
        assert merged_weight.sum() == pytest.approx(1.0)
        assert merged_k @ merged_weight == pytest.approx(k @ weight / weight.sum(), rel=1e-12)
        assert (len(merged_k) == many) == (many <= 512)
        assert len(merged_k) <= 512
        assert (np.diff(merged_k) > 0).all()


def test_reports_without_noise_tell_whole_numbers():
    for value in (0.0, 4.0):
        check(report("none", value, 0.0, 4))
    for value in (-1.0, 5.0, 2.5):
        with pytest.raises(ValueError, match="value must be a whole number"):
            check(report("none", value, 0.0, 4))
        check(report("gaussian", value, 0.1, 4))
    check(report("gaussian", 1.0, 0.1, 10_000_000))
    with pytest.raises(ValueError, match="trials must be at most"):
        check(report("gaussian", 1.0, 0.1, 10_000_001))


# --- exact draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [Fraction(1, 10**6), Fraction(3, 7), Fraction(1), Fraction(41, 2), Fraction(700)])
def test_an_exponential_is_rounded_down_and_hardly(x):
    with mpmath.workdps(400):
        exact = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator) * 2**64
        found = exact_noise.exponential_floor(x)
        assert found <= exact
        assert exact - found < max(1, exact * mpmath.mpf(2) ** -50)


def frequencies(draws, chances, values):
    """Whether the frequencies of the values are within five standard errors of their chances."""
    found = np.array([np.mean(draws == v) for v in values])
    chances = np.asarray(chances)
    return bool((np.abs(found - chances) <= 5 * np.sqrt(chances * (1 - chances) / draws.size) + 1e-12).all())


def laplace_chances(scale, values):
    b = exp(-1 / scale)
    return [(1 - b) / (1 + b) * b ** abs(v) for v in values]


def test_draws_in_batches_have_their_laws():
    size, values = 20_000, np.arange(-4, 5)
    assert frequencies(exact_batches.uniforms(6, size, RNG(1)), [1 / 6] * 6, range(6))
    each = exact_batches.uniforms(np.tile([3, 5], size // 2), size, RNG(2))
    assert frequencies(each[::2], [1 / 3] * 3, range(3))
    assert frequencies(each[1::2], [1 / 5] * 5, range(5))
    assert exact_batches.uniforms(1, 3, RNG(3)).tolist() == [0, 0, 0]
    assert frequencies(exact_batches.uniforms(1 << 63, size, RNG(4)) >> 62, [0.5, 0.5], (0, 1))
    for bad in (0, (1 << 63) + 1):
        with pytest.raises(ValueError, match="limit must lie in"):
            exact_batches.uniforms(bad, 2, RNG(1))
    x = [Fraction(2, 5), Fraction(5, 8), Fraction(0), Fraction(9, 4)]
    events = exact_batches.exponential_events(np.tile(np.array(x, float), size // 4), lambda place: x[place % 4], RNG(7))
    np.testing.assert_allclose(
        events.reshape(-1, 4).mean(axis=0), np.exp(-np.array(x, float)), atol=5 * 0.5 / np.sqrt(size / 4)
    )
    assert frequencies(
        exact_batches.geometrics((7, 3), size, RNG(9)), [(1 - exp(-3 / 7)) * exp(-3 * k / 7) for k in range(6)], range(6)
    )
    assert frequencies(exact_batches.discrete_laplaces((7, 3), size, RNG(10)), laplace_chances(7 / 3, values), values)
    weights = np.exp(-(np.arange(-40, 41) ** 2) / (2 * 5))
    chances = weights[36:45] / weights.sum()
    assert frequencies(exact_batches.discrete_gaussians(5, size, RNG(11)), chances, values)
    both = exact_batches.discrete_gaussians(np.tile([5, 0], size // 2), size, RNG(12))
    assert frequencies(both[::2], chances, values)
    assert (both[1::2] == 0).all()
    huge = exact_batches.discrete_gaussians(1 << 50, 1500, RNG(13)) / 2.0**25
    assert stats.kstest(huge, stats.norm.cdf).pvalue > 1e-6
    assert exact_batches.signed(np.array([0, 3]), RNG(1))[0].tolist()[0] == 0
    signs, counted = exact_batches.signed(np.repeat([0, 2], size // 2), RNG(14))
    assert np.mean(signs == -2) == pytest.approx(0.25, abs=0.02)
    assert counted[: size // 2].mean() == pytest.approx(0.5, abs=0.03)
    assert counted[size // 2 :].all()


@pytest.mark.parametrize("scale", [(0, 1), (3, 0), (1 << 62, 1), ((1 << 62) + 1, 1 << 13), (5, (1 << 30) + 1)])
def test_scales_beyond_what_words_hold_are_refused(scale):
    with pytest.raises(ValueError, match="scale must be a ratio"):
        exact_batches.geometrics(scale, 2, RNG(1))


def test_the_largest_scales_are_drawn():
    for scale in ((1 << 50, 1), (1 << 62, 1 << 12), (1, 1 << 30)):
        found = exact_batches.geometrics(scale, 400, RNG(2)) / (scale[0] / scale[1])
        if scale[0] > 1:
            assert stats.kstest(found, stats.expon.cdf).pvalue > 1e-6
        else:
            assert (found == 0).all()
    exact_batches.discrete_gaussians(1 << 98, 2, RNG(3))
    for bad in (-1, (1 << 98) + 1):
        with pytest.raises(ValueError, match="sigma2 must lie in"):
            exact_batches.discrete_gaussians(bad, 2, RNG(3))


@pytest.mark.parametrize("scale", [(7, 3), (2, 5), 4])
def test_single_draws_of_laplace_noise_have_its_law(scale):
    b = scale if isinstance(scale, int) else scale[0] / scale[1]
    generator, values = RNG(5), np.arange(-4, 5)
    draws = np.array([exact_noise.discrete_laplace(scale, generator) for _ in range(2500)])
    assert frequencies(draws, laplace_chances(b, values), values)
    assert exact_noise.discrete_laplace_variance(b) == pytest.approx(
        2 * sum(k**2 * laplace_chances(b, [k])[0] for k in range(400)), rel=1e-9
    )


def test_variances_and_deltas_of_gaussian_noise_on_whole_numbers_are_their_sums(monkeypatch):
    y = np.arange(-400, 401)
    for sigma2 in (0.3, 2.99, 3.0, 40.0):
        weights = np.exp(-(y**2) / (2 * sigma2))
        exact = (weights * y**2).sum() / weights.sum()
        assert exact_noise.discrete_gaussian_variance(sigma2) == pytest.approx(exact, rel=1e-9)
    assert exact_noise.discrete_gaussian_variance(0.0) == 0
    for sigma2, change, eps in ((0.7, 2, 0.3), (8.9, 3, 1.1), (9.1, 3, 1.1), (300.0, 20, 0.0), (50.0, 1, 2.0)):
        weights = np.exp(-(y**2) / (2 * sigma2))
        chances = weights / weights.sum()
        exact = np.maximum(chances[:-change] - np.exp(eps) * chances[change:], 0).sum()
        found = exact_noise.discrete_gaussian_delta(eps=eps, sensitivity=change, sigma2=sigma2)
        assert found == pytest.approx(exact, rel=1e-8, abs=1e-18)
    whole = exact_noise.discrete_gaussian_delta(eps=0.5, sensitivity=30, sigma2=2000.0)
    with monkeypatch.context() as context:  # sums of many terms are taken in parts, which are not held in memory at once
        context.setattr(exact_noise, "BLOCK", 7)
        found = exact_noise.discrete_gaussian_delta(eps=0.5, sensitivity=30, sigma2=2000.0)
    assert found == pytest.approx(whole, rel=1e-13)
    with pytest.raises(ValueError, match="sigma2 must be at most"):
        exact_noise.discrete_gaussian_delta(eps=1.0, sensitivity=1, sigma2=1.01e14)
    assert exact_noise.discrete_gaussian_delta(eps=1.0, sensitivity=0, sigma2=1e14) == 0  # the largest that is taken
    flips = [exact_noise.randomised_response(1, (3, 10), RNG(k)) for k in range(2000)]
    assert np.mean(flips) == pytest.approx(0.7, abs=5 * np.sqrt(0.21 / 2000))
