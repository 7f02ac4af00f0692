"""Mixtures of normals: distribution function against its definition, quantiles as its inverse, atoms."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats

from estimators.numerics import inversion, mixture_kernels, normal_mixture


def test_no_probability_is_above_one():
    weights = np.random.default_rng(0).dirichlet(np.ones(7), 500)
    assert (weights.sum(axis=1) > 1).any()  # by rounding
    found = normal_mixture.cdf(99.0, weights, np.zeros((500, 7)), np.ones(7))
    assert found.max() == 1


def some_mixtures(seed, clients, k):
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.full(k, 0.3), clients)
    return weights, generator.normal(0, 10, (clients, k)), np.exp(generator.uniform(-6, 3, (clients, k)))


@given(st.integers(0, 1000), st.integers(1, 6), st.floats(-20, 20))
def test_cdf_is_the_weighted_sum(seed, k, t):
    weights, means, sds = some_mixtures(seed, 4, k)
    expected = (weights * stats.norm.cdf(t, means, sds)).sum(axis=1)
    np.testing.assert_allclose(normal_mixture.cdf(t, weights, means, sds), expected, rtol=1e-13, atol=1e-300)


@given(st.integers(0, 1000), st.integers(1, 6), st.sampled_from([1e-12, 1e-3, 0.025, 0.3, 0.5, 0.975, 1 - 1e-9]))
def test_quantile_inverts_cdf(seed, k, q):
    """Far apart narrow components make the distribution function nearly flat between them; the step is found."""
    weights, means, sds = some_mixtures(seed, 4, k)
    width, side = 1e-8 * sds.max(axis=1), 1 if q < 0.5 else -1  # an upper tail is judged in the mirror, unrounded
    tail = q if q < 0.5 else 1 - q
    for t in (normal_mixture.quantile(q, weights, means, sds), compiled(q, weights, means, sds)):
        assert (normal_mixture.cdf(side * t - width, weights, side * means, sds) <= tail).all()
        assert (normal_mixture.cdf(side * t + width, weights, side * means, sds) >= tail).all()


@pytest.fixture
def seen(monkeypatch):
    """How many mixtures the plain loop looks at, look by look, and how many looks each call of the compiled one takes."""
    looks, root, counted, loop = [], normal_mixture.taylor_root, [], mixture_kernels.quantiles
    monkeypatch.setattr(normal_mixture, "BLOCK", 1 << 16)  # all mixtures together
    monkeypatch.setattr(normal_mixture, "taylor_root", lambda gap, *rest: (looks.append(gap.size), root(gap, *rest))[1])
    monkeypatch.setattr(mixture_kernels, "quantiles", lambda *arguments: counted.append(loop(*arguments)))
    return looks, counted


def compiled(q, weights, means, sds, start=None):
    """Quantiles by the loop for very many mixtures."""
    return normal_mixture.quantile(q, weights, means, sds, start, compiled=True)


def test_compiled_quantiles_are_the_same_for_posteriors():
    """Components that nearly agree, as posteriors under several priors do: both ways to rounding, each level by itself."""
    generator = np.random.default_rng(3)
    weights, means = generator.dirichlet(np.ones(5), 9000), generator.normal(0, 0.1, (9000, 5))
    sds = np.exp(generator.uniform(-0.2, 0.2, (9000, 5)))
    q = generator.uniform(0.001, 0.999, 9000)
    found = normal_mixture.quantile(q, weights, means, sds)
    few = slice(0, 300)
    np.testing.assert_allclose(found[few], normal_mixture.quantile(q[few], weights[few], means[few], sds[few]), atol=1e-12)
    np.testing.assert_allclose(normal_mixture.cdf(found, weights, means, sds), q, rtol=1e-11)


@pytest.mark.parametrize("way", [normal_mixture.quantile, compiled])
def test_quantiles_are_exact_to_their_limit(way):
    """Posteriors' kinds of laws, and some of far apart scales, against a bracketing search of their own."""
    generator = np.random.default_rng(8)
    for k, apart, log_sds in ((4, 0.02, 0.02), (30, 0.4, 0.6), (3, 2.0, 1.0), (5, 1.0, 4.0), (2, 3.0, 7.0)):
        weights = generator.dirichlet(np.ones(k), 20)
        means, sds = generator.normal(0, apart, (20, k)), np.exp(generator.uniform(-log_sds, log_sds, (20, k)))
        for q in (1e-8, 0.025, 0.4, 0.5):
            found = way(q, weights, means, sds)
            spread = np.sqrt((weights * (means**2 + sds**2)).sum(axis=1))
            for i in range(20):
                law = weights[i], means[i], sds[i]
                ends = np.min(law[1] - 9 * law[2]), np.max(law[1])
                exact = optimize.brentq(lambda t, law=law, q=q: normal_mixture.cdf(t, *law) / q - 1, *ends, xtol=1e-15)
                assert abs(found[i] - exact) <= 4e-12 * spread[i]


@pytest.mark.parametrize("way", [normal_mixture.quantile, compiled])
def test_a_part_as_narrow_as_roundoff_is_found(way):
    """No polynomial is exact there: halves of the bracket end at its place, on either side of 0 and far from it."""
    for place in (-1e4, -1.0, 1.0, 3e5):
        law = np.array([[0.5, 0.5]]), np.array([[place - 1.0, place]]), np.array([[1.0, 1e-16]])
        for q in (0.45, 0.6, 0.9):
            assert way(q, *law)[0] == pytest.approx(place, rel=1e-12)
        for q in (0.3, 0.95):
            beside = place - 1 + stats.norm.ppf(2 * q if q < 0.5 else 2 * q - 1)
            assert way(q, *law)[0] == pytest.approx(beside, rel=1e-12)


@pytest.mark.parametrize("way", [normal_mixture.quantile, compiled])
def test_quantiles_have_the_unit_of_their_laws(way):
    """Limits are in standard deviations: in units of a power of two all numbers are the same to the last bit."""
    weights, means, sds = some_mixtures(14, 60, 4)
    for q in (0.01, 0.5, 0.8):
        found = way(q, weights, means, sds)
        for unit in (2.0**-900, 2.0**-40, 2.0**40, 2.0**900):
            np.testing.assert_array_equal(way(q, weights, unit * means, unit * sds), unit * found)


def test_a_step_of_householder_leaves_the_fourth_power():
    """On sin(x) + x^2 / 2, whose root and derivatives are known; where a step is no small one it is Newton's."""
    x = np.array([0.04, -0.04, 0.02, -0.02])
    left = x - inversion.householder(np.sin(x) + x**2 / 2, np.cos(x) + x, 1 - np.sin(x), -np.cos(x))
    assert (np.abs(left) < x**4).all()
    far = inversion.householder(*(np.array([column]) for column in (1.0, 1.0, 0.6, 0.1)))
    assert far == 1
    for bend in (-0.6, 0.6):
        assert inversion.householder(*(np.array([column]) for column in (1.0, 1.0, 0.1, bend))) == 1
    gap, density, slope, bend = 0.3, 2.0, -0.7, 1.9  # the formula in derivatives, as in Householder's book
    exact = gap * (6 * density**2 - 3 * gap * slope) / (6 * density**3 - 6 * gap * density * slope + gap**2 * bend)
    found = inversion.householder(*(np.array([column]) for column in (gap, density, slope, bend)))
    assert found[0] == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("degree", range(2, 13))
def test_the_bound_of_a_root_is_the_largest_next_derivative(degree):
    """Of a normal law of sd `least`, whose derivatives are Hermite functions: never below, and little above."""
    x, least, density, move = np.linspace(-9, 9, 20001), 0.3, 0.2, 0.01
    largest = np.abs(special.eval_hermitenorm(degree, x) * stats.norm.pdf(x)).max() / least ** (degree + 1)
    derivatives = [np.array([density]), *[np.zeros(1)] * (degree - 1)]  # a straight line has its root at once
    found, error = normal_mixture.taylor_root(np.array([-move * density]), derivatives, np.zeros(1), np.array([least]))
    assert found[0] == pytest.approx(move, rel=1e-14)
    rest = largest * move ** (degree + 1) / factorial(degree + 1) / density
    assert rest < error[0] < (2.2 if degree < 9 else 2.5) * rest


def test_expansions_have_the_cumulants_of_their_laws():
    """Cornish and Fisher's formula, with cumulants by quadrature; far from a normal law its first two terms alone."""
    generator = np.random.default_rng(13)
    weights, z = generator.dirichlet(np.ones(3), 40), generator.normal(0, 2, 40)
    means, sds = generator.normal(0, 2.0, (40, 3)), np.exp(generator.uniform(-1.5, 0.5, (40, 3)))
    means[0], sds[0] = [3.0, 3.0, 3.0], [1.0, 1.0, 1.0]
    laws = normal_mixture.scaled(weights, means, sds)
    spreads = np.ldexp(laws.spread, laws.unit)
    found = np.ldexp(laws.mean, laws.unit) + spreads * normal_mixture.expanded(z, laws.skew, laws.heavy)
    near = 0
    for i in range(40):
        nodes, shares = np.polynomial.hermite_e.hermegauss(8)
        values = means[i][:, None] + sds[i][:, None] * nodes
        chance = weights[i][:, None] * shares / shares.sum()
        mean = np.sum(chance * values)
        second, third, fourth = (np.sum(chance * (values - mean) ** power) for power in (2, 3, 4))
        skew, excess, at = third / second**1.5, fourth / second**2 - 3, z[i]
        moved = (at**2 - 1) * skew / 6 + (at**3 - 3 * at) * excess / 24 - (2 * at**3 - 5 * at) * skew**2 / 36
        normal = abs(skew) < 1 and abs(excess) < 2
        near += normal
        assert spreads[i] == pytest.approx(np.sqrt(second), rel=1e-12)
        assert found[i] == pytest.approx(mean + np.sqrt(second) * (at + moved * normal), rel=1e-9)
    assert 10 < near < 38


def test_the_error_of_a_root_is_within_its_bound():
    """The search ends by it: at random places near quantiles, for polynomials of several degrees."""
    generator = np.random.default_rng(9)
    tight = 0
    for degree in (3, 7, normal_mixture.DEGREE):
        for _ in range(300):
            weights, means = generator.dirichlet(np.ones(3)), generator.normal(0, 1, 3)
            sds = np.exp(generator.uniform(-0.5, 0.5, 3))
            t, end = generator.normal(0, 1), generator.normal(0, 1)
            end = t + 10.0 ** generator.uniform(-3, -0.5) * (end - t)
            x = (t - means) / sds
            gap = normal_mixture.cdf(t, weights, means, sds) - normal_mixture.cdf(end, weights, means, sds)
            derivatives = [
                np.array([np.sum(weights * (-1) ** r * special.eval_hermitenorm(r, x) * stats.norm.pdf(x) / sds ** (r + 1))])
                for r in range(degree)
            ]
            newton = -gap / derivatives[0]
            move, error = normal_mixture.taylor_root(np.array([gap]), derivatives, newton, sds.min(keepdims=True))
            if error < 1e-3:  # further off the density is another one
                assert abs(t + move - end) <= 2 * error + 1e-15 / derivatives[0]  # roundoff of the gap
                tight += abs(t + move - end) > 1e-3 * error
    assert tight > 50


@pytest.mark.parametrize(
    ("k", "apart", "log_sds", "q", "average", "most"),
    [
        *[(k, apart, log_sds, q, 1.0, 1) for k, apart, log_sds in ((4, 0.05, 0.05), (90, 0.5, 0.5)) for q in (0.025, 0.9)],
        (3, 3.0, 1.0, 0.025, 2.0, 5),
        (3, 3.0, 1.0, 0.9, 1.9, 6),
        (5, 1.0, 6.0, 0.025, 3.1, 14),
        (5, 1.0, 6.0, 0.9, 4.3, 18),
    ],
)
def test_how_often_a_search_looks(seen, k, apart, log_sds, q, average, most):
    """Once for most posteriors, which are near normal laws; where laws have narrow parts it finds them in a few looks.

    The compiled loop looks as often at each mixture.
    """
    looks, counted = seen
    generator = np.random.default_rng(12)
    weights, means = generator.dirichlet(np.ones(k), 300), generator.normal(0, apart, (300, k))
    sds = np.exp(generator.uniform(-log_sds, log_sds, (300, k)))
    normal_mixture.quantile(q, weights, means, sds)
    assert sum(looks) <= 300 * average
    assert len(looks) <= most
    each = np.sum([np.arange(300) < still for still in looks], axis=0)  # in no order
    for law in zip(weights, means, sds, strict=True):
        compiled(q, *law)
    assert sorted(counted, reverse=True) == each.tolist()


def test_where_a_search_starts_is_not_where_it_ends():
    generator = np.random.default_rng(10)
    weights, means = generator.dirichlet(np.ones(3), 50), generator.normal(0, 1, (50, 3))
    sds = np.exp(generator.uniform(-3, 1, (50, 3)))
    for q in (0.1, 0.9):
        expected = normal_mixture.quantile(q, weights, means, sds)
        for start in (-9.0, 0.0, 50.0, np.inf, expected + 1e-3, np.nan):
            start = np.broadcast_to(start, 50)
            for way in (normal_mixture.quantile, compiled):
                np.testing.assert_allclose(way(q, weights, means, sds, start=start), expected, atol=1e-11)


@pytest.mark.parametrize("unit", [1.0, 2.0**40])
def test_a_search_that_starts_at_its_end_looks_once(seen, unit):
    """By both loops, in any unit, at laws far from normal ones, of which few are found in one look from elsewhere."""
    looks, counted = seen
    generator = np.random.default_rng(14)
    weights, means = generator.dirichlet(np.ones(3), 50), unit * generator.normal(0, 3, (50, 3))
    sds = unit * np.exp(generator.uniform(-1, 1, (50, 3)))
    for q in (0.1, 0.9):
        end = normal_mixture.quantile(q, weights, means, sds)
        compiled(q, weights, means, sds)
        assert sum(looks) == counted[0] > 75
        for way in (normal_mixture.quantile, compiled):
            looks.clear()
            counted.clear()
            way(q, weights, means, sds, start=end)
            assert sum(looks + counted) == 50
        looks.clear()
        counted.clear()


def test_the_median_of_a_symmetric_mixture_is_its_centre():
    """By both loops, also of components that agree: there is no skewness, and the level has the normal quantile 0."""
    centres = np.array([[-3.0], [0.0], [2.0], [1e6]])
    for aside, sds in ((1.5, [0.5, 2.0, 0.5]), (0.0, [1.0, 2.0, 3.0]), (9.0, [1.0, 1.0, 1.0])):
        laws = np.tile([0.25, 0.5, 0.25], (4, 1)), centres + aside * np.array([-1, 0, 1]), np.tile(sds, (4, 1))
        for way in (normal_mixture.quantile, compiled):
            np.testing.assert_allclose(way(0.5, *laws), centres[:, 0], rtol=1e-15, atol=1e-12)


def test_atoms():
    mixture = [0.25, 0.75], [1.0, 1.0], [0.0, 2.0]
    assert normal_mixture.cdf(1.0, *mixture) == 0.25 + 0.375
    assert normal_mixture.cdf(1.0, *mixture, strict=True) == 0.375
    for strict in (False, True):  # away from the atom there is no difference
        for t, atom in ((0.5, 0.0), (1.5, 0.25)):
            found = normal_mixture.cdf(t, *mixture, strict=strict)
            assert found == pytest.approx(atom + 0.75 * stats.norm.cdf(t, 1.0, 2.0), rel=1e-14)
    assert normal_mixture.quantile(0.3, [1.0], [5.0], [0.0]) == 5.0
    points = [[0.5, 0.5], [0.25, 0.75]], [[2.0, 2.0], [-1.0, 1.0]], [[0.0, 0.0], [1.0, 3.0]]
    for q in (0.2, 0.5, 0.8):
        for way in (normal_mixture.quantile, compiled):
            assert way(q, *points)[0] == 2.0
            np.testing.assert_allclose(normal_mixture.cdf(way(q, *points)[1], *(row[1] for row in points)), q, rtol=1e-12)


def test_from_many_mixtures_on_the_loop_is_compiled(monkeypatch):
    taken = []
    monkeypatch.setattr(mixture_kernels, "quantiles", lambda *arguments: taken.append(len(arguments[0])))
    many = normal_mixture.MANY
    for size, compiled in ((many, None), (many - 1, None), (many, False), (3, True), (3, False)):
        normal_mixture.quantile(0.3, [0.5, 0.5], np.tile([0.0, 1.0], (size, 1)), [1.0, 2.0], compiled=compiled)
    assert taken == [many, 3]


def test_blocks_of_mixtures_are_searched_one_by_one(monkeypatch):
    """The loop goes through blocks of `BLOCK` numbers: each mixture's quantile is what it is alone."""
    generator = np.random.default_rng(11)
    k, m = 700, 101
    weights, means = generator.dirichlet(np.ones(k), m), generator.normal(0, 1, (m, k))
    sds, q = np.exp(generator.uniform(-1, 1, (m, k))), generator.uniform(0.01, 0.99, m)
    starts = generator.normal(0, 1, m)
    found = normal_mixture.quantile(q, weights, means, sds, start=starts)
    with monkeypatch.context() as context:  # fewer numbers than one mixture has
        context.setattr(normal_mixture, "BLOCK", 1)
        np.testing.assert_array_equal(normal_mixture.quantile(q, weights, means, sds, start=starts), found)
    alone = [float(normal_mixture.quantile(q[i], weights[i], means[i], sds[i])) for i in range(m)]
    np.testing.assert_allclose(found, alone, rtol=1e-11)


def test_shapes():
    weights, means, sds = some_mixtures(0, 6, 3)
    grid = normal_mixture.quantile(0.2, weights.reshape(2, 3, 3), means.reshape(2, 3, 3), sds.reshape(2, 3, 3))
    np.testing.assert_array_equal(grid.ravel(), normal_mixture.quantile(0.2, weights, means, sds))
    common = normal_mixture.cdf(0.0, weights[0], means, sds)
    np.testing.assert_allclose(common, normal_mixture.cdf(0.0, np.tile(weights[0], (6, 1)), means, sds))


@pytest.mark.parametrize("way", [normal_mixture.quantile, compiled])
def test_levels_of_the_same_laws_are_found_together(way):
    """On axes before those of the laws, below and above the median: the same bits as one by one."""
    weights, means, sds = some_mixtures(21, 6, 3)
    levels = np.array([0.025, 0.5, 0.975])
    alone = np.array([way(q, weights, means, sds) for q in levels])
    np.testing.assert_array_equal(way(levels[:, None], weights, means, sds), alone)
    shaped = [a.reshape(2, 3, 3) for a in (weights, means, sds)]
    np.testing.assert_array_equal(way(levels[:, None, None], *shaped), alone.reshape(3, 2, 3))
    each = np.stack([levels, levels[::-1]] * 3, axis=1)  # a level of its own for every law
    laws = list(zip(weights, means, sds, strict=True))
    expected = [[float(way(q, *law)) for q, law in zip(row, laws, strict=True)] for row in each]
    np.testing.assert_allclose(way(each, weights, means, sds), expected, rtol=1e-13)
    start = np.linspace(-3, 3, 6)
    expected = [way(q, weights, means, sds, start=start) for q in levels]
    np.testing.assert_array_equal(way(levels[:, None], weights, means, sds, start=start), expected)
    one = [a[:, :1] for a in (np.ones_like(weights), means, sds)]  # of one component, whose quantiles are stated
    expected = [one[1][:, 0] + stats.norm.ppf(q) * one[2][:, 0] for q in levels]
    np.testing.assert_array_equal(way(levels[:, None], *one), expected)
