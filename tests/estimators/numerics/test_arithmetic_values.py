"""Arithmetic that models share: units, wide numbers, limits, quantiles of mixtures; against rationals, mpmath and SciPy."""

from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from numpy.polynomial import chebyshev
from scipy import stats

from estimators.numerics import (
    blocks,
    inversion,
    limits,
    normal_mixture,
    quadrature,
    rows,
    spread_law,
    surface_kernels,
    units,
    wide,
)
from estimators.numerics.surfaces import from_cells
from estimators.numerics.wide import Wide

RNG = np.random.default_rng

# --- blocks ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "length", "sizes"), [(5, 2, [2, 2, 1]), (3, 1, [1] * 3), (3, 0, [1] * 3), (4, 9, [4]), (0, 2, [])]
)
def test_parts_cover_everything_once_and_in_order(size, length, sizes):
    pieces = [np.arange(size)[part] for part in blocks.parts(size, length)]
    assert [piece.size for piece in pieces] == sizes
    assert np.concatenate([np.zeros(0), *pieces]).tolist() == list(range(size))


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 4), (5, 3), (4, 6), (6, 5)])
def test_surfaces_are_sums_of_chebyshevs_polynomials(shape):
    """At 300 places, more than two blocks, in an order of their own; no other is touched."""
    rng = RNG(sum(shape))
    coefficients, (u, v) = rng.standard_normal(shape), rng.uniform(-1, 1, (2, 300))
    rows, out = rng.permutation(320)[:300], np.full(320, 7.0)
    surface_kernels.chebyshev_surface(coefficients, u, v, rows, out)
    np.testing.assert_allclose(out[rows], chebyshev.chebval2d(u, v, coefficients), rtol=1e-11, atol=1e-12)
    assert (np.delete(out, rows) == 7).all()


# --- units -----------------------------------------------------------------------------------------------------------------


def test_units_are_powers_of_two_below_a_size():
    sizes = [1.0, 1.99, 2.0, 0.5, 0.49, 5e-324, 1e308, 0.0]
    expected = [0, 0, 1, -1, -2, -1074, 1023, 0]
    assert [units.exponent(size) for size in sizes] == expected == units.exponents(np.array(sizes)).tolist()
    assert pytest.approx(np.log(2), abs=0) == units.LOG2


def test_a_gaussian_unit_brings_the_smallest_variance_near_one():
    for least in (0.5, 0.51, 1.9999, 2.0, 3.99, 4.0, 1e-9, 7e33):
        v = np.array([least, np.inf, 50 * least])
        k, y, small = units.gaussian_unit(np.array([3.0, 1.0, -2.0]), v)
        assert 0.5 <= small[0] < 2
        np.testing.assert_array_equal(small * 4.0**k, v)
        np.testing.assert_array_equal(y * 2.0**k, [3.0, 1.0, -2.0])
    assert units.gaussian_unit(np.ones(2), np.full(2, np.inf))[0] == 0


def test_estimates_may_be_far_apart_but_not_farther():
    v = np.ones(2)
    near, far = np.array([0.0, 0.99e70]), np.array([0.0, 1.01e70])
    units.gaussian_unit(near, v)
    units.gaussian_unit(near + 0.0, v, centre=0.5e70)
    units.gaussian_unit(np.array([-0.5e70, 0.0]), v, centre=0.4e70)
    units.gaussian_unit(np.array([0.0, 0.5e70]), v, centre=-0.4e70)
    units.gaussian_unit(np.array([0.0, 5e70]), np.array([1.0, np.inf]))  # of whom nothing is known lies anywhere
    for y, centre in (
        (far, None),
        (near, -0.02e70),
        (near, 1.01e70),
        (np.array([1e70, -1e69]), None),
        (np.array([-0.5e70, 0.0]), 0.6e70),
        (np.array([0.0, 0.5e70]), -0.6e70),
    ):
        with pytest.raises(ValueError, match="estimates lie further apart"):
            units.gaussian_unit(y, v, centre)
    for unit in (2.0**-30, 2.0**30):  # and so in any unit
        units.gaussian_unit(near * unit, v * unit**2, centre=0.5e70 * unit)
        with pytest.raises(ValueError, match="estimates lie further apart"):
            units.gaussian_unit(near * unit, v * unit**2, centre=1.01e70 * unit)
    units.gaussian_unit(np.zeros(2), np.array([1.0, 0.99e140]))
    with pytest.raises(ValueError, match="variances differ by more than a factor of 1e"):
        units.gaussian_unit(np.zeros(2), np.array([1.0, 1.01e140]))


def test_variances_change_their_unit_only_beyond_what_sums_bear():
    seen = []

    @units.homogeneous("a", "b", degree=2)
    def product(a, b=1.0):
        seen.append((np.max(a), np.max(b)))
        return a * b

    cases = [
        (2.0**899, 1.0, 0), (2.0**901, 1.0, 128), (2.0**901, 2.0**-940, 128), (1.0, 2.0**-899, 0), (1.0, 2.0**-901, -700),
        (2.0**699, 2.0**-901, -1), (2.0**701, 2.0**-901, 0), (0.0, 1.0, 0), (np.inf, 1.0, 0),
        (2.0**901, 0.0, 128), (np.inf, 2.0**-901, -1601), (1.0, 2.0**-900, 0), (2.0**900, 1.0, 0),
    ]  # fmt: skip
    for a, b, k in cases:
        found = product(a, b)
        assert seen[-1] == (np.ldexp(a, -k), np.ldexp(b, -k))
        exact = Fraction(a) * Fraction(b) if np.isfinite(a) else None
        assert found == (np.inf if exact is None or exact >= Fraction(2) ** 1024 else float(exact))

    @units.homogeneous("a", "b", degree=1)
    def total(a, b):
        seen.append((a, b))
        return a + b

    @units.homogeneous("levels", degree=1)
    def of_all(levels):
        seen.append(levels)
        return sum(levels)

    assert of_all([2.0**901, 2.0**7]) == 2.0**901 + 2.0**7
    assert seen[-1] == [2.0**773, 2.0**-121]
    assert [units.listed("levels", value) for value in ([1.0], (1.0,), np.ones(2))] == [True] * 3
    assert [units.listed("levels", value) for value in (1.0, np.float64(1.0), np.array(1.0))] == [False] * 3
    assert not units.listed("level", [1.0])
    assert total(2.0**-905, 2.0**-905) == 2.0**-904
    assert seen[-1] == (2.0**700, 2.0**700)
    mixed = product(np.array([2.0**901, 3.0]), 2.0)
    np.testing.assert_array_equal(mixed, [2.0**902, 6.0])  # entry by entry
    assert product(-1.0, 2.0**901) == -(2.0**901)  # the function itself says what it does with that
    assert units.common_unit(np.array([3.0, 0.0]), np.array([np.inf])) == 0
    assert units.common_unit(np.array([2.0**901]), np.array([5.0])) == 128
    assert units.common_unit(np.array([0.0]), np.array([np.inf])) == 0
    assert units.common_unit(np.array([2.0**-905]), np.array([2.0**3])) == 3 - 700
    assert units.common_unit(np.array([2.0**-905, 0.0]), np.array([2.0**3])) == 3 - 700
    assert units.represented("x", 1.5, 1023) == 1.5 * 2.0**1023
    with pytest.raises(ValueError, match="x are so large that their squares"):
        units.represented("x", 1.5, 1024)


# --- wide numbers ----------------------------------------------------------------------------------------------------------

SPAN = [0.0, 5e-324, 1e-310, 3e-200, 0.7, 1.0, 6.5, 2e150, 1.7e308]


def test_wide_numbers_are_rationals_rounded():
    x, y = (part.ravel() for part in np.meshgrid(SPAN, SPAN))
    a, b = Wide(x), Wide(y)
    for found, exact in ((a + b, lambda s, t: s + t), (a * b, lambda s, t: s * t)):
        for i, (s, t) in enumerate(zip(x, y, strict=True)):
            value = exact(Fraction(s), Fraction(t))
            told = Fraction(float(found.mantissas[i])) * Fraction(2) ** int(max(found.exponents[i], -5000))
            assert abs(told - value) <= value * Fraction(1, 2**52)
            assert found.mantissas[i] == 0 or 0.5 <= found.mantissas[i] < 1
    over = a / b
    for i, (s, t) in enumerate(zip(x, y, strict=True)):
        if t == 0:
            assert over[i : i + 1].floats()[0] == (0.0 if s == 0 else np.inf)
        else:
            told = Fraction(float(over.mantissas[i])) * Fraction(2) ** int(max(over.exponents[i], -5000))
            assert abs(told - Fraction(s) / Fraction(t)) <= Fraction(s) / Fraction(t) * Fraction(1, 2**52)
    np.testing.assert_array_equal(a.floats(), x)
    assert float(Wide(1.5, 7).floats()) == 192.0
    assert [float((Wide(0.0) * Wide(np.inf)).floats()), float((Wide(2.0) * Wide(np.inf)).floats())] == [0.0, np.inf]


def test_a_wide_zero_adds_nothing_to_the_smallest_numbers_and_has_no_product_but_zero():
    for x in (Wide(0.0) + Wide(1.0, -5000), Wide(1.0, -5000) + Wide(0.0), Wide([0.0, 1.0], [0, -5000]).sum()):
        assert float((x * Wide(1.0, 5000)).floats()) == 1.0
    for x, y in ((0.0, np.inf), (np.inf, 0.0), (0.0, 3.0), (3.0, 0.0)):
        assert float((Wide(x) * Wide(y)).floats()) == 0.0


def test_pools_and_shares_of_wide_numbers():
    v = np.array([1e-320, 3e200, 5.0])
    assert float(wide.pooled(Wide(v[1:]), [2.0, 1.0]).floats()) == pytest.approx(5.0, rel=1e-15)
    assert float(wide.pooled(Wide([2.0, 6.0, 3.0]), [1.0, 2.0, 0.5]).floats()) == pytest.approx(
        1 / (1 / 2 + 2 / 6 + 0.5 / 3)
    )
    assert float(wide.pooled(Wide([2.0, 2.0])).floats()) == 1.0
    assert float(wide.pooled(Wide([np.inf, np.inf])).floats()) == np.inf
    assert wide.share(
        Wide([1e-320, 3.0, np.inf, 0.0, 2.0]), Wide([3e-320, 1.0, 5.0, 0.0, np.inf])
    ).floats() == pytest.approx([0.25, 0.75, 1.0, 0.0, 0.0], rel=1e-3)
    np.testing.assert_array_equal(wide.relative_precisions(Wide([2.0, 4.0, np.inf])).floats(), [0.5, 0.25, 0.0])
    np.testing.assert_array_equal(
        wide.relative_precisions(Wide(np.array([[0.0, 2.0], [3.0, 4.0]]))).floats(), [[1.0, 0.5], [0.0, 0.25]]
    )
    assert float(Wide([1e300, 1e308, 1e308]).sum().floats()) == np.inf
    assert float((Wide([1e300, 1e308, 1e308]).sum() / Wide(4.0)).floats()) == pytest.approx(5e307, rel=1e-7)


# --- limits ----------------------------------------------------------------------------------------------------------------


def test_arithmetic_of_variances_and_its_limits():
    inf, nan = np.inf, np.nan
    assert limits.times([0.0, 0.0, 2.0, inf, -3.0], [inf, 5.0, 4.0, 3.0, 2.0]).tolist() == [0.0, 0.0, 8.0, inf, -6.0]
    assert limits.quotient([0.0, 1.0, 1.0, 6.0, 2.0], [0.0, 0.0, -0.0, 4.0, inf]).tolist() == [0.0, inf, inf, 1.5, 0.0]
    np.testing.assert_array_equal(limits.ratio([0.0, 1.0, 6.0, 0.0], [0.0, 0.0, 4.0, 2.0]), [nan, nan, 1.5, 0.0])
    assert limits.harmonic([2.0, 0.0, inf, inf, 1e308], [6.0, 3.0, inf, 2.0, 1e308]).tolist() == [1.5, 0.0, inf, 2.0, 5e307]
    assert limits.share([1.0, 3.0, 2.0, 0.0, inf, 4.0, 1e308], [3.0, 1.0, 2.0, 0.0, 3.0, inf, 1e308]).tolist() == [
        0.25, 0.75, 0.5, 0.0, 1.0, 0.0, 0.5,
    ]  # fmt: skip
    assert limits.relative_precisions([[2.0, inf], [8.0, inf]]).tolist() == [[1.0, 1.0], [0.25, 1.0]]
    assert limits.relative_precisions([[2.0, 8.0], [3.0, 1.0]], axis=1).tolist() == [[1.0, 0.25], [1 / 3, 1.0]]
    assert limits.pooled_variance([2.0, 1.0, 4.0], [4.0, 2.0, inf]) == 1.0
    assert limits.pooled_variance(1.0, [1e-320, 1e-320]) == pytest.approx(5e-321, rel=1e-2, abs=0)
    assert limits.pooled_variance([0.0, 2.0], [0.0, 1e-310]) == pytest.approx(5e-311, rel=1e-9, abs=0)  # nobody is exact
    assert limits.pooled_variance(1.0, [inf, inf]) == inf
    assert limits.pooled_variance(1.0, [0.0, 3.0]) == 0.0
    keep, pull = limits.split([0.0, 1.0, 3.0, inf, -0.5])
    assert (keep.tolist(), pull.tolist()) == ([1.0, 0.5, 0.25, 0.0, 2.0], [0.0, 0.5, 0.75, 1.0, -1.0])
    with pytest.raises(ValueError, match="lam must not be -1"):
        limits.split([3.0, -1.0])


def test_arithmetic_of_all_pairs_of_variances_is_that_of_fractions():
    """Zeros, subnormal numbers, ones, huge ones and infinities beside each other; rounded once or twice."""
    inf, sizes = np.inf, [0.0, 5e-324, 1e-310, 0.3, 1.0, 7.5, 1e300, 1e308, np.inf]
    x, y = (part.ravel() for part in np.meshgrid(sizes, sizes))

    def as_float(exact):
        return float(exact) if exact < Fraction(2) ** 1024 else inf

    def times(a, b):
        return 0.0 if 0 in (a, b) else inf if inf in (a, b) else as_float(Fraction(a) * Fraction(b))

    def quotient(a, b):
        return (0.0 if a == 0 else inf) if b == 0 else as_float(Fraction(a) / Fraction(b))

    def harmonic(a, b):
        return min(a, b) if inf in (a, b) or 0 in (a, b) else float(1 / (1 / Fraction(a) + 1 / Fraction(b)))

    def share(a, b):
        return 0.0 if a == 0 or b == inf else 1.0 if a == inf else float(Fraction(a) / (Fraction(a) + Fraction(b)))

    both = ~(np.isinf(x) & np.isinf(y))  # of two infinities only half of each is a matter of taste
    ratio = lambda a, b: np.nan if b == 0 else quotient(a, b)  # noqa: E731
    every, finite = np.full(x.size, True), np.isfinite(x) & np.isfinite(y)
    for name, exact, some in (
        ("times", times, every), ("quotient", quotient, finite), ("harmonic", harmonic, both), ("share", share, both),
        ("ratio", ratio, finite),
    ):  # fmt: skip
        f = getattr(limits, name)
        expected = [exact(a, b) for a, b in zip(x[some], y[some], strict=True)]
        np.testing.assert_allclose(f(x[some], y[some]), expected, rtol=1e-15, atol=5e-324, err_msg=name)
        for a, b, one in list(zip(x[some], y[some], expected, strict=True))[::7]:
            assert float(f(a, b)) == pytest.approx(one, rel=1e-15, abs=5e-324, nan_ok=True)


# --- quantiles -------------------------------------------------------------------------------------------------------------


def normal_derivatives(law, t):
    """The density of a normal law and its two derivatives."""
    z = (t - law.mean()) / law.std()
    return [law.pdf(t), -z / law.std() * law.pdf(t), (z * z - 1) / law.std() ** 2 * law.pdf(t)]


def gamma_derivatives(shape, t):
    """The density of a gamma law and its two derivatives."""
    density, slope = stats.gamma.pdf(t, shape), (shape - 1) / t - 1
    return [density, density * slope, density * (slope**2 - (shape - 1) / t**2)]


def test_quantiles_of_jumps_flat_stretches_and_smooth_laws():
    def cdf(t, rows):
        smooth = stats.norm.cdf(t)
        jump = np.where(t >= 0.3, 1.0, 0.2)
        flat = np.where(t < 0.1, t, np.where(t < 0.6, 0.1, np.minimum(t - 0.5, 1.0)))
        return np.select([rows == 0, rows == 1], [smooth, jump], flat)

    def density(t, rows):
        return [np.select([rows == 0, rows == 1], [stats.norm.pdf(t), 0 * t], np.where((t < 0.1) | (t >= 0.6), 1.0, 0.0))]

    def densities(t, rows):
        return *density(t, rows), *(np.where(rows == 0, each, 0.0) for each in normal_derivatives(stats.norm(), t)[1:])

    low, high = np.array([-9.0, 0.0, 0.0]), np.array([9.0, 1.0, 1.5])
    for start in (low + 0.1, high, np.array([0.0, 0.9, 0.3])):
        for q, derivatives in product((0.05, 0.5, 0.99), (density, densities)):
            found = inversion.quantiles(cdf, derivatives, q, low, high, start)
            exact = [stats.norm.ppf(q), 0.0 if q < 0.2 else 0.3, q if q < 0.1 else q + 0.5]
            np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-15)
    # A level that a flat stretch has: its first place, also where the search meets the level inside.
    steps = [lambda t, rows: np.where(t < 1.0, 0.25, np.where(t < 2.0, 0.5, 1.0)), lambda t, rows: [0 * t]]
    for start in (0.5, 1.25, 1.5, 2.5):
        found = inversion.quantiles(*steps, 0.5, np.zeros(1), np.array([3.0]), np.array([start]))
        np.testing.assert_allclose(found, 1.0, rtol=1e-15)
    point = inversion.quantiles(cdf, density, 0.5, np.array([2.0]), np.array([2.0]), np.array([0.0]))
    assert point.tolist() == [2.0]
    assert inversion.root(lambda x: x**3 - 5, 1.0, 2.0, xtol=1e-14) == pytest.approx(5 ** (1 / 3), abs=1e-12)


@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("q", [1e-9, 0.3, 0.5, 0.99])
def test_quantiles_are_looked_for_inside_their_brackets_and_found_to_rounding(q, order):
    """Of gamma laws, wherever the search starts: none is asked beyond its bracket, nor when it has settled."""
    shapes = np.array([0.8, 1.0, 7.0, 400.0])
    low, high = stats.gamma.ppf(q / 2, shapes), stats.gamma.ppf(1 - (1 - q) / 3, shapes)
    for start in (low, high, low - 1.0, high + 1.0, np.full(4, np.nan), (low + high) / 2, low + 1e-3 * (high - low)):
        looks = []

        def cdf(t, rows, looks=looks):
            assert ((low[rows] <= t) & (t <= high[rows])).all()
            looks.append(rows)
            return stats.gamma.cdf(t, shapes[rows])

        found = inversion.quantiles(cdf, lambda t, rows: gamma_derivatives(shapes[rows], t)[:order], q, low, high, start)
        np.testing.assert_allclose(stats.gamma.cdf(found, shapes), q, rtol=2e-14)
        assert all(np.isin(later, before).all() for before, later in pairwise(looks))


def test_derivatives_of_a_density_save_looks_and_no_digits():
    """Near the root a step leaves the fourth power of the distance, without them the square; both ends are as exact."""
    shapes, generator = np.exp(RNG(5).uniform(0.5, 6, 400)), RNG(6)
    for q, distance in product((0.025, 0.5, 0.9), (1e-1, 1e-2, 1e-3, 1e-5)):
        exact, sds = stats.gamma.ppf(q, shapes), np.sqrt(shapes)
        start = exact + distance * sds * generator.choice([-1.0, 1.0], 400)
        looks = {}
        for order in (1, 3):

            def cdf(t, rows, order=order, looks=looks):
                looks[order] = looks.get(order, 0) + rows.size
                return stats.gamma.cdf(t, shapes[rows])

            def derivatives(t, rows, order=order):
                return gamma_derivatives(shapes[rows], t)[:order]

            found = inversion.quantiles(cdf, derivatives, q, np.zeros(400), 9 * exact + 9, start)
            np.testing.assert_allclose((found - exact) / sds, 0.0, atol=2e-12)
        assert looks[3] <= looks[1]
        if distance in (1e-2, 1e-3):
            assert looks[3] < 0.7 * looks[1]
    # One step from a known distance: of exp(t), whose derivatives are itself, by Householder's formula, not Newton's.
    for e in (0.1, -0.1):
        places = []
        inversion.quantiles(
            lambda t, _, places=places: (places.append(t[0]), np.exp(t))[1],
            lambda t, _: [np.exp(t)] * 3,
            0.5, np.array([-5.0]), np.array([1.0]), np.array([np.log(0.5) + e]),
        )  # fmt: skip
        a = -np.expm1(-e)
        assert places[1] - np.log(0.5) == pytest.approx(e - a * (6 - 3 * a) / (6 - 6 * a + a * a), rel=1e-9)


@pytest.mark.parametrize("order", [1, 3])
def test_quantiles_within_a_rise_of_no_width_are_found_there(order):
    """Half of the law within 1e-10 of 1: a step that is small beside 1 is not the end."""
    narrow, wide = stats.norm(1.0, 1e-10), stats.norm(1.0, 1.0)

    def derivatives(t, _):
        rows = [normal_derivatives(law, t) for law in (narrow, wide)]
        return [sum(each) / 2 for each in zip(*rows, strict=True)][:order]

    for q in (0.3, 0.5, 0.62):
        for start in (0.2, 1.0, 1 + 3e-10, 1 - 1e-10, 1.7):
            (found,) = inversion.quantiles(
                lambda t, _: (narrow.cdf(t) + wide.cdf(t)) / 2, derivatives,
                q, np.array([-5.0]), np.array([5.0]), np.array([start]),
            )  # fmt: skip
            assert (narrow.cdf(found) + wide.cdf(found)) / 2 == pytest.approx(q, abs=1e-6)  # floats there are 2e-16 apart


@pytest.mark.parametrize("order", [1, 3])
def test_short_tails_are_found_to_their_own_size(order):
    """Of a law within 1e-10 of 1, where any step is small beside 1: the gap that is left is small beside the tail."""
    law = stats.norm(1.0, 1e-10)
    for q, start in product((1e-7, 1 - 1e-7, 0.999), (1 - 2e-10, 1.0, 1 + 3e-10)):
        (found,) = inversion.quantiles(
            lambda t, _: law.cdf(t), lambda t, _: normal_derivatives(law, t)[:order],
            q, np.array([-5.0]), np.array([5.0]), np.array([start]),
        )  # fmt: skip
        tail, left = (law.cdf, q) if q < 0.5 else (law.sf, 1 - q)
        assert tail(found) == pytest.approx(left, rel=3e-5)  # floats there are 2e-6 sds apart


def test_a_step_from_a_mode_is_not_the_last_because_the_density_is_even_there():
    """Its slope is 0 and its bend small; how much of the law a step covers says that there is another one to take."""
    law = stats.norm(1.0, 1e-5)
    for q in (0.48, 0.49, 0.52):
        (found,) = inversion.quantiles(
            lambda t, _: law.cdf(t), lambda t, _: normal_derivatives(law, t),
            q, np.array([-5.0]), np.array([5.0]), np.array([1.0]),
        )  # fmt: skip
        assert (found - 1) / law.std() == pytest.approx(stats.norm.ppf(q), abs=1e-10)  # floats are 2e-11 apart


def test_from_a_place_of_infinite_density_the_bracket_is_halved():
    for q in (0.2, 0.7):
        (found,) = inversion.quantiles(
            lambda t, _: (1 + np.sign(t) * np.sqrt(np.abs(t))) / 2,
            lambda t, _: [np.where(t == 0, np.inf, 0.25 / np.sqrt(np.abs(np.where(t == 0, 1.0, t))))],
            q, np.array([-1.0]), np.array([1.0]), np.array([0.0]),
        )  # fmt: skip
        assert found == pytest.approx(np.sign(q - 0.5) * (2 * q - 1) ** 2, rel=1e-12)


def test_a_flat_place_is_no_smooth_one():
    """At an inflection without slope steps leave a share of the distance: one of a millionth is not the end."""
    for start in (1 - 9e-4, 1 + 4e-4, 1 + 1e-4):
        (found,) = inversion.quantiles(
            lambda t, _: 1e-9 + (t - 1) ** 3, lambda t, _: [3 * (t - 1) ** 2, 6 * (t - 1), 0 * t + 6],
            1e-9, np.array([1 - 1e-3]), np.array([1 + 1e-3]), np.array([start]),
        )  # fmt: skip
        assert found == pytest.approx(1.0, abs=2e-8)  # nearer than 6e-9 no float differs from 1e-9


def test_quantiles_on_a_lattice_are_between_the_middles_of_its_steps():
    values, weights = np.array([5.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0])  # middles at 1, 2.5 and 3.5 of 4
    for q, exact in ((0.0, 1.0), (0.25, 1.0), (0.5, 1 + 2 / 3), (0.625, 2.0), (0.75, 3.5), (0.875, 5.0), (1.0, 5.0)):
        assert inversion.lattice_quantile(values, weights, q) == pytest.approx(exact)


def test_gauss_rules_of_points():
    x, mass = np.array([0.0, 1.0, 5.0, 7.0, 11.0]), np.array([0.1, 0.3, 0.2, 0.3, 0.1])
    assert quadrature.deviation(x, mass) == pytest.approx(np.sqrt(np.cov(x, aweights=mass, ddof=0)))
    for places in (1, 2, 3, 4):
        points, weights = quadrature.gauss(x, mass, places)
        assert points.size == places
        for power in range(2 * places):
            assert weights @ points**power == pytest.approx(mass @ x**power, rel=1e-9)
    x, w = np.polynomial.hermite_e.hermegauss(4)
    for k in (1, 2, 3):
        nodes, masses = quadrature.normal_grid(k, 4)
        np.testing.assert_array_equal(nodes, list(product(x, repeat=k)))
        np.testing.assert_allclose(masses, [np.prod(each) for each in product(w / np.sqrt(2 * np.pi), repeat=k)], rtol=1e-14)
    assert spread_law.log_density([0.0, 5.0, 12.0]) == pytest.approx(-1.5 * np.log([4.0, 9.0, 16.0]))


# --- mixtures of normal laws -----------------------------------------------------------------------------------------------


def exact_quantile(q, weights, means, sds):
    """By halving with 40 digits, from the side on which the tail is short."""
    with mpmath.workdps(40):
        laws = [[mpmath.mpf(float(x)) for x in part] for part in (weights, means, sds)]
        sign = -1 if q > 0.5 else 1
        tail = 1 - mpmath.mpf(q) if q > 0.5 else mpmath.mpf(q)
        ends = [b + c * mpmath.mpf(float(stats.norm.ppf(q))) for b, c in zip(*laws[1:], strict=True)]
        low, high = min(ends) - mpmath.mpf("1e-9"), max(ends) + mpmath.mpf("1e-9")
        while high - low > mpmath.mpf("1e-20") * (1 + abs(high)):
            t = (low + high) / 2
            enough = sum(a * mpmath.ncdf(sign * (t - b) / c) for a, b, c in zip(*laws, strict=True)) >= tail
            low, high = (low, t) if enough == (sign > 0) else (t, high)
        return float(high)


MIXTURES = [
    ([0.3, 0.7], [-1.0, 2.0], [0.5, 1.5]), ([0.999, 0.001], [0.0, 0.0], [1.0, 30.0]), ([0.5, 0.5], [-5.0, 5.0], [1.0, 2.0]),
    ([0.2, 0.5, 0.3], [1e6, 1e6 + 1, 1e6 - 2], [0.3, 0.2, 0.9]), ([0.6, 0.4], [0.0, 1e-3], [1e-3, 5e-3]),
]  # fmt: skip


@pytest.mark.parametrize("law", MIXTURES)
@pytest.mark.parametrize("q", [1e-12, 1e-3, 0.2, 0.5, 0.501, 0.93, 1 - 1e-9])
def test_quantiles_of_mixtures_are_exact(law, q):
    weights, means, sds = map(np.array, law)
    exact = exact_quantile(q, weights, means, sds)
    found = float(normal_mixture.quantile(q, weights, means, sds))
    assert found == pytest.approx(exact, rel=1e-10, abs=1e-10 * sds.min())


def test_expansions_are_cornish_and_fishers():
    """Mean, variance, skewness and kurtosis of a mixture by its raw moments, also in units whose fourth powers are none."""
    for unit in (1.0, 1e-30, 1e30, 1e-120, 1e90):
        weights, means, sds = np.array([[0.3, 0.7]]), np.array([[-0.2, 0.4]]) * unit, np.array([[1.0, 1.3]]) * unit
        m, s, w = means[0] / unit, sds[0] / unit, weights[0]
        raw = [w @ m, w @ (m**2 + s**2), w @ (m**3 + 3 * m * s**2), w @ (m**4 + 6 * m**2 * s**2 + 3 * s**4)]
        variance = raw[1] - raw[0] ** 2
        third = raw[2] - 3 * raw[0] * raw[1] + 2 * raw[0] ** 3
        fourth = raw[3] - 4 * raw[0] * raw[2] + 6 * raw[0] ** 2 * raw[1] - 3 * raw[0] ** 4
        g1, g2 = third / variance**1.5, fourth / variance**2 - 3
        laws = normal_mixture.scaled(weights, means, sds)
        assert 0.25 <= (np.abs(laws.means) + laws.sds).sum() < 1
        spread, mean = (float(np.ldexp(x[0], int(laws.unit[0]))) for x in (laws.spread, laws.mean))
        assert spread == pytest.approx(np.sqrt(variance) * unit)
        for z in (-2.0, 0.3, 1.7):
            t = mean + spread * normal_mixture.expanded(np.array([z]), laws.skew, laws.heavy)[0]
            near = z + g1 * (z**2 - 1) / 6 + g2 * (z**3 - 3 * z) / 24 - g1**2 * (2 * z**3 - 5 * z) / 36
            assert t == pytest.approx((raw[0] + np.sqrt(variance) * near) * unit, rel=1e-9)
    laws = normal_mixture.scaled(np.array([[0.999, 0.001]]), np.zeros((1, 2)), np.array([[1.0, 30.0]]))
    assert normal_mixture.expanded(np.array([2.0]), laws.skew, laws.heavy) == 2.0  # of so heavy tails no expansion helps


def test_many_mixtures_have_the_same_quantiles_as_few():
    rng = RNG(0)
    m = normal_mixture.MANY
    weights = rng.dirichlet(np.ones(3), m)
    means, sds = rng.normal(size=(m, 3)) * 3, rng.uniform(0.2, 4, (m, 3))
    q = rng.uniform(0.001, 0.999, m)
    many = normal_mixture.quantile(q, weights, means, sds)
    some = slice(0, 500)
    few = normal_mixture.quantile(q[some], weights[some], means[some], sds[some])
    np.testing.assert_allclose(many[some], few, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(normal_mixture.cdf(many, weights, means, sds), q, rtol=1e-9)
    assert normal_mixture.cdf(1.0, [0.5, 0.5], [1.0, 1.0], [0.0, 2.0], strict=True) == 0.25
    assert normal_mixture.cdf(1.0, [0.5, 0.5], [1.0, 1.0], [0.0, 2.0]) == 0.75
    assert normal_mixture.quantile(0.3, [1.0], [2.0], [4.0]) == pytest.approx(stats.norm.ppf(0.3, 2, 4))


def test_rows_of_clients_are_read_client_by_client():
    designs, responses = rows.read_rows([[[1, 2], [3, 4]], [[5, 6]]], [[True, False], [0.5]])
    assert [x.tolist() for x in designs] == [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
    assert [y.tolist() for y in responses] == [[1.0, 0.0], [0.5]]
    for Xs, Ys, why in (
        ([[[1.0]]], None, "one entry per client each, got 1 and none"), ([[[1.0]]], [[1.0], [2.0]], "got 1 and 2"),
        ([], [], "got 0 and 0"), ([[[1.0]], [[1.0, 2.0]]], [[1.0], [2.0]], r"number of columns, got \[1, 2\]"),
        ([[[1.0]], [1.0]], [[1.0], [2.0]], r"Xs\[1\] must be"), ([[[1.0]]], [[1.0, 2.0]], r"Xs\[0\]"),
        ([np.empty((1, 0))], [[1.0]], r"Xs\[0\] must be"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            rows.read_rows(Xs, Ys)
    rows.all_finite(designs, responses)
    with pytest.raises(ValueError, match=r"Ys\[1\]"):
        rows.all_finite(designs, [responses[0], np.array([np.nan])])
    with pytest.raises(ValueError, match=r"Xs\[0\]"):
        rows.all_finite([np.array([[np.inf]])], [np.array([1.0])])


def test_cells_of_a_surface_are_told_apart_however_many_there_are():
    """Two crowds, places of either by turns, whose cells' numbers differ by 2^16: either is interpolated as if alone."""
    generator, called = np.random.default_rng(1), []
    x, y = generator.random(1200) + 256 * (np.arange(1200) % 2), generator.random(1200)
    x[[0, 1]], y[[0, 1]] = [0.0, 256.0], 0.0
    x, y = np.append(x, 0.0), np.append(y, 255.5)  # one place far away, so that there are 256 cells along y

    def waves(x, y):
        called.append(x.size)
        return np.cos(x) * np.exp(-y)

    np.testing.assert_allclose(from_cells(waves, x, y, degree=12, width=1.0), np.cos(x) * np.exp(-y), atol=1e-10)
    assert called == [13**2, 13**2, 1]


def test_cells_of_a_surface_are_squares_of_the_width_and_each_is_interpolated_once():
    """Three by four of them, 300 places in each."""
    generator, called = np.random.default_rng(2), []
    x, y = (np.concatenate([generator.random(300) + corner for corner in corners]) / 4 for corners in
            zip(*product(range(3), range(4)), strict=True))  # fmt: skip
    x[0] = y[0] = 0.0

    def waves(x, y):
        called.append((x.size, np.ptp(x) <= 0.25, np.ptp(y) <= 0.25))
        return np.sin(x + y)

    np.testing.assert_allclose(from_cells(waves, x, y, width=0.25), np.sin(x + y), atol=1e-11)
    assert called == [(13**2, True, True)] * 12


@pytest.mark.parametrize(("places", "calls"), [(216, [216]), (217, [144])])
def test_a_cell_of_as_many_places_as_interpolation_is_worth_is_computed_itself(places, calls):
    """One and a half times the evaluations of a polynomial of degree 11."""
    (x, y), called = RNG(3).random((2, places)), []
    found = from_cells(lambda x, y: (called.append(x.size), np.exp(x * y))[1], x, y, degree=11)
    np.testing.assert_allclose(found, np.exp(x * y), atol=1e-10)
    assert called == calls
