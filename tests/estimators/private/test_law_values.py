"""Laws of noise, number by number: against sums and integrals over what a mechanism is defined to do."""

from dataclasses import replace
from itertools import pairwise, product
from math import comb

import numpy as np
import pytest
from scipy import integrate, optimize, special
from scipy.stats import laplace, norm, truncnorm

from estimators.accounting import Guarantee
from estimators.private import RateReport, staircase
from estimators.private.mean_posterior import (
    MeanClients,
    Outputs,
    TruncatedNormals,
    clipped_means,
    clipped_moments,
    new_estimates,
    outputs,
    share_inside,
    unclipped,
)
from estimators.private.mechanisms import worst_variances
from estimators.private.noise_laws import (
    LaplaceNoise,
    NormalNoise,
    StaircaseNoise,
    additive,
    answer_law,
    finite_output,
    laplace_beyond,
    laplace_fall,
    log_likelihood,
    noisy_value,
    share_of_eps,
    steps_of,
    wrong_probability,
)
from estimators.private.reports import MeanReport
from estimators.private.staircase import Staircase, best_inner, staircase_variance

RNG = np.random.default_rng
ONE = np.array([1.0])


def together(density, sd, away, reach):
    """Density at `away` of noise with a density plus a normal error, by quadrature between the noise's own edges."""
    edges = np.unique(np.clip(np.concatenate([reach, away + sd * np.linspace(-9, 9, 19)]), away - 9 * sd, away + 9 * sd))
    pieces = pairwise(edges)
    return sum(integrate.fixed_quad(lambda x: density(x) * norm.pdf(away - x, scale=sd), a, b, n=20)[0] for a, b in pieces)


# --- normal and Laplace noise ----------------------------------------------------------------------------------------------


def test_normal_noise_adds_its_variance_to_that_of_the_error():
    law = NormalNoise(np.array([0.5, 3.0]), np.zeros(2), np.ones(2))
    away, variance = np.array([[0.3, -2.0], [1.5, 4.0]]), np.array([[0.2, 0.7], [1.1, 0.0]])
    for rows in ([0, 1], [1, 0]):
        exact = norm.logpdf(away, scale=np.sqrt(variance + np.array([0.5, 3.0])[rows][:, None]))
        np.testing.assert_allclose(law.log_density(np.array(rows), away, variance), exact, rtol=1e-13)
    np.testing.assert_allclose(law.feature, np.sqrt([0.5, 3.0]))
    assert (law.slope == np.inf).all()
    draws = NormalNoise(np.full(20_000, 3.0), ONE, ONE).draw(RNG(1))
    assert draws.var() == pytest.approx(3.0, rel=5 * np.sqrt(2 / 20_000))
    assert abs(draws.mean()) < 5 * np.sqrt(3 / 20_000)


@pytest.mark.parametrize("scale", [0.3, 1.7])
@pytest.mark.parametrize("sd", [0.02, 0.4, 60.0])
@pytest.mark.parametrize("away", [0.35, -1.9, 8.0])
def test_laplace_noise_with_a_normal_error_is_their_convolution(scale, sd, away):
    law = LaplaceNoise(np.array([2 * scale**2]), np.array([0.0]), ONE)
    found = law.log_density(np.array([0]), np.array([[away]]), np.array([[sd**2]]))[0, 0]
    inside = together(lambda x: laplace.pdf(x, scale=scale), sd, away, scale * np.linspace(-40, 40, 41))
    assert found == pytest.approx(np.log(inside), rel=1e-9, abs=1e-10)
    tail = laplace_beyond(np.array([abs(away)]), np.array([sd]), np.array([scale]))[0]
    chance = integrate.quad(
        lambda x: laplace.pdf(x, scale=scale) * (norm.sf((abs(away) - x) / sd) + norm.cdf((-abs(away) - x) / sd)),
        -40 * scale, 40 * scale, points=sorted({-abs(away), 0.0, abs(away)}), limit=400, epsabs=1e-13,
    )[0]  # fmt: skip
    assert tail == pytest.approx(chance, rel=1e-6, abs=1e-12)


def test_laplace_noise_without_a_normal_error_is_laplace_noise():
    law, away = LaplaceNoise(np.array([0.18, 8.0]), np.zeros(2), np.ones(2)), np.array([[0.0, -0.4, 2.0], [0.1, 3.0, -9.0]])
    for sd in (0.0, 1e-7):
        found = law.log_density(np.array([0, 1]), away, np.full(away.shape, sd**2))
        np.testing.assert_allclose(found, laplace.logpdf(away, scale=[[0.3], [2.0]]), rtol=1e-12)
    found = law.log_density(np.array([1]), away[1:], np.full((1, 3), 1e-12))  # just above what counts as an error of none
    np.testing.assert_allclose(found, laplace.logpdf(away[1:], scale=2.0), rtol=1e-5)


def test_what_lies_beyond_a_distance_when_one_of_two_errors_is_missing():
    t = np.array([0.0, 0.7, 3.0])
    np.testing.assert_allclose(laplace_beyond(t, 0 * t, 0 * t + 0.4), np.exp(-t / 0.4), rtol=1e-12)
    np.testing.assert_allclose(laplace_beyond(t, 0 * t + 0.6, 0 * t), 2 * norm.sf(t / 0.6), rtol=1e-12)
    assert laplace_beyond(t, 0 * t, 0 * t).tolist() == [1.0, 0.0, 0.0]  # what has no error lies where it is
    np.testing.assert_allclose(laplace_beyond(t, 0 * t + 1e-7, 0 * t + 0.4), np.exp(-t / 0.4), rtol=1e-6)
    ends = np.array([0.0, 0.6, np.inf])
    for normal in ends:  # nothing is beyond infinity, and an error without bounds is beyond all else
        assert laplace_beyond(np.full(3, np.inf), np.full(3, normal), ends).tolist() == [0.0, 0.0, 0.0]
    assert laplace_beyond(t, 0 * t + 0.6, 0 * t + np.inf).tolist() == [1.0, 1.0, 1.0]
    assert laplace_beyond(t, 0 * t + np.inf, 0 * t + 0.4).tolist() == [1.0, 1.0, 1.0]
    for bad in ({"distance": -t}, {"normal": -t}, {"scale": -t}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            laplace_beyond(**{"distance": t, "normal": t, "scale": t, **bad})


def test_no_chance_to_lie_beyond_a_distance_is_above_one():
    t, s, b = np.meshgrid(10.0 ** np.arange(-18, 3), 10.0 ** np.arange(-8, 3, 0.3), 10.0 ** np.arange(-4, 3, 0.3))
    found = laplace_beyond(t, s, b)
    assert found.max() == 1.0
    assert found.min() >= 0.0


@pytest.mark.parametrize(("variance", "unit"), [(0.02, 1.0), (3.0, 1.0), (3.0, 0.25), (700.0, 2.0), (3e-12, 1e-6)])
def test_fall_of_laplace_noise_on_a_lattice_gives_its_variance(variance, unit):
    fall = float(laplace_fall(variance, unit))
    k = np.arange(-4000, 4001)
    chances = np.exp(-fall * np.abs(k))
    assert (chances * (unit * k) ** 2).sum() / chances.sum() == pytest.approx(variance, rel=1e-9, abs=0)
    law = LaplaceNoise(np.array([variance]), np.array([unit]), ONE)
    assert law.scale[0] == pytest.approx(unit / fall, rel=1e-12, abs=0)  # the log probability falls by unit / scale a step
    assert law.slope[0] * law.scale[0] == pytest.approx(1.0)
    assert law.feature[0] * 12 == pytest.approx(law.scale[0])
    draws = LaplaceNoise(np.full(20_000, variance), np.full(20_000, unit), ONE).draw(RNG(2))
    assert np.abs(draws / unit - np.rint(draws / unit)).max() < 1e-9
    assert np.mean(draws == 0) == pytest.approx(1 / chances.sum(), abs=5 * np.sqrt(0.25 / 20_000))
    assert draws.var() == pytest.approx(variance, rel=0.12 if variance > 1 else 0.5, abs=0)


def test_laplace_noise_without_a_lattice_is_continuous():
    law = LaplaceNoise(np.full(20_000, 0.5), np.where(np.arange(20_000) % 2, 0.0, 1e-9), ONE)
    np.testing.assert_allclose(law.scale, 0.5, rtol=1e-12)
    draws = law.draw(RNG(3))
    assert np.unique(draws).size == draws.size
    assert np.mean(np.abs(draws) > 0.5) == pytest.approx(np.exp(-1), abs=5 * np.sqrt(0.25 / 20_000))
    assert np.mean(draws > 0) == pytest.approx(0.5, abs=5 * np.sqrt(0.25 / 20_000))


# --- staircases ------------------------------------------------------------------------------------------------------------


def heights(width, eps):
    """The density of a staircase and the share of a block before its step, as Geng and Viswanath (2016) print them."""
    b = np.exp(-eps)
    inner = -b / (1 - b) + np.cbrt(b - 2 * b**2 + 2 * b**4 - b**5) / (np.cbrt(2) * (1 - b) ** 2)
    top = (1 - b) / (2 * width * (inner + b * (1 - inner)))

    def density(x):
        block, part = np.divmod(np.abs(x) / width, 1)
        return top * b ** (block + (part >= inner))

    places = np.concatenate([np.arange(41), np.arange(40) + inner]) * width
    return density, np.sort(np.concatenate([-places, places])), inner


STAIRS = [(1.0, 0.8), (2.5, 2.0), (0.4, 5.0)]


def stairs(width, eps):
    """The law as reports tell it: by the variance of the noise on a fine lattice."""
    variance = Staircase(sensitivity=StaircaseNoise.LEVELS, eps=eps).variance / StaircaseNoise.LEVELS**2 * width**2
    return StaircaseNoise(np.array([variance]), np.array([0.0]), np.array([eps]), np.array([width])), variance


@pytest.mark.parametrize(("width", "eps"), STAIRS)
def test_a_staircase_is_the_density_of_its_authors(width, eps):
    law, variance = stairs(width, eps)
    density, edges, inner = heights(width, eps)
    square = sum(integrate.fixed_quad(lambda x: x**2 * density(x), a + 1e-12, b - 1e-12, n=4)[0] for a, b in pairwise(edges))
    assert variance == pytest.approx(square, rel=1e-3)
    assert law.used[0] == pytest.approx(eps, rel=1e-8)
    assert law.inner[0] == pytest.approx(inner, abs=1e-3)
    assert law.step[0] == pytest.approx(np.exp(-eps), rel=1e-6)
    away = np.array([[-2.3, -0.1, 0.05, 0.45, 0.97, 1.6, 4.2]]) * width
    rows = np.array([0])
    plain = law.log_density(rows, away, np.zeros_like(away))
    np.testing.assert_allclose(plain, np.log(density(away)), atol=3e-3)
    for sd in (0.03 * width, 0.6 * width, 1.9 * width):
        exact = [[together(density, sd, x, edges) for x in away[0]]]
        np.testing.assert_allclose(law.log_density(rows, away, np.full_like(away, sd**2)), np.log(exact), atol=3e-3)


@pytest.mark.parametrize(("width", "eps"), STAIRS)
def test_a_staircase_behind_a_wide_error_has_its_variance_and_its_tails(width, eps):
    law, variance = stairs(width, eps)
    density, edges, _ = heights(width, eps)
    sd = 2.5 * width
    away = np.linspace(-30, 30, 6001)[None] * width
    found = np.exp(law.log_density(np.array([0]), away, np.full_like(away, sd**2)))[0]
    assert integrate.trapezoid(found, away[0]) == pytest.approx(1.0, rel=1e-4)
    assert integrate.trapezoid(found * away[0] ** 2, away[0]) == pytest.approx(variance + sd**2, rel=2e-3)
    for x in (0.0, 3.0 * width, -9.0 * width):
        exact = together(density, sd, x, edges)
        assert np.interp(x, away[0], found) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(("width", "eps"), STAIRS)
@pytest.mark.parametrize("sd", [0.0, 0.5, 2.0, 2.6])
def test_the_chance_to_lie_beyond_is_an_integral_over_the_staircase(width, eps, sd):
    law, _ = stairs(width, eps)
    density, edges, _ = heights(width, eps)
    for x in (0.0, 0.3, 0.7, 2.0, 5.4):
        steps = (np.arange(40) + law.inner[0]) * width
        points = np.unique([*edges, *steps, *-steps, x * width])
        nodes, weights = np.polynomial.legendre.leggauss(8)
        half = np.diff(points)[:, None] / 2
        u = points[:-1, None] + half * (nodes + 1)
        tail = (u > x * width) * 1.0 if sd == 0 else norm.sf((x * width - u) / (sd * width))
        exact = float((half * weights * density(u) * tail).sum())
        found = law.beyond(np.array([0]), np.array([[x * width]]), np.array([[(sd * width) ** 2]]))[0, 0]
        assert found == pytest.approx(exact, rel=0.02 if sd > 2 else 3e-3)
        if 0 < sd <= 2:  # on the law's own lattice of steps
            height = np.exp(-law.used[0] * (np.abs(u) // width)) * np.where(
                np.abs(u) / width % 1 < law.inner[0], 1, law.step[0]
            )
            assert found == pytest.approx(
                float((half * weights * height * tail).sum() / (half * weights * height).sum()), rel=1e-8
            )
    far = law.beyond(np.array([0]), np.array([[12.0 * width]]), np.zeros((1, 1)))[0, 0]
    assert far == pytest.approx(np.exp(-12 * eps) / 2, rel=1e-5)  # whole blocks: half of what is left


@pytest.mark.parametrize(("width", "eps"), [*STAIRS, (1.0, 12.0), (1.0, 40.0)])
@pytest.mark.parametrize("sd", [0.0, 0.03, 2 / 3, 1.9, 2.0])
def test_a_staircase_behind_an_error_is_the_sum_of_its_steps(width, eps, sd):
    """All steps of 300 blocks one by one, in logarithms; far out, too, and up to errors of two blocks."""
    law, _ = stairs(width, eps)
    used, inner, step = law.used[0], law.inner[0], law.step[0]
    k = np.arange(300)
    log = -used * k + np.log(-np.expm1(-used) / (2 * width * (inner + step * (1 - inner))))
    low, high = np.concatenate([k, k + inner]) * width, np.concatenate([k + inner, k + 1]) * width
    log = np.concatenate([log, log + np.log(step)])
    away = np.array([0.1, 0.95, 3.6, 10.3, 21.45]) * width
    exact = []
    for x in away:
        if sd == 0:
            exact.append(log[(low <= x) & (x < high)][0])
            continue
        terms = []
        for a, b in ((low, high), (-high, -low)):
            left, right = norm.logsf((a - x) / (sd * width)), norm.logsf((b - x) / (sd * width))
            flipped = norm.logcdf((b - x) / (sd * width)), norm.logcdf((a - x) / (sd * width))
            left, right = np.where(a > x, (left, right), flipped)
            terms.append(log + left + np.log1p(-np.exp(right - left)))
        exact.append(special.logsumexp(terms))
    found = law.log_density(np.array([0]), away[None], np.full((1, 5), (sd * width) ** 2))
    np.testing.assert_allclose(found[0], exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("unit", [1e-6, 1e5])
def test_laws_of_noise_have_no_units(unit):
    """All lengths a millionth of what they were, or a hundred thousand times as long."""
    eps, width, rows = np.array([0.8, 5.0]), np.array([1.0, 2.0]), np.array([1, 0])
    variance = np.concatenate([stairs(w, e)[1:] for w, e in zip(width, eps, strict=True)])
    laws = {
        kind: (kind(variance, np.array([0.3, 0.0]), eps, *more), kind(variance * unit**2, np.array([0.3, 0.0]) * unit, eps,
                                                                     *(w * unit for w in more)))
        for kind, more in ((NormalNoise, ()), (LaplaceNoise, ()), (StaircaseNoise, (width,)))
    }  # fmt: skip
    away = np.array([[0.0, 0.3, -2.2, 7.0, 40.0]] * 2)
    for one, other in laws.values():
        np.testing.assert_allclose(other.feature, one.feature * unit, rtol=1e-12)
        np.testing.assert_allclose(other.slope, one.slope / unit, rtol=1e-12)
        for sd in (0.0, 1e-8, 1e-3, 0.5, 2.5, 4.5):
            error = np.full(away.shape, sd**2)
            if one.normal.any() and not sd:
                continue
            told = one.log_density(rows, away, error), other.log_density(rows, away * unit, error * unit**2)
            np.testing.assert_allclose(told[1] + np.log(unit), told[0], rtol=1e-9, atol=1e-9)
            if isinstance(one, StaircaseNoise):
                told = one.beyond(rows, np.abs(away), error), other.beyond(rows, np.abs(away) * unit, error * unit**2)
                np.testing.assert_allclose(told[1], told[0], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("eps", [33.0, 36.0, 40.0])
def test_noise_of_a_large_eps_has_all_of_it(eps):
    """Variances down to 1e-12 of a squared block, which had been rounded to twelve places."""
    own = worst_variances(eps=eps, options=["staircase"])["staircase"]
    law = StaircaseNoise(np.array([own, 4 * own]), np.zeros(2), np.full(2, eps), np.array([1.0, 2.0]))
    np.testing.assert_allclose(law.used, eps, rtol=1e-7)


def test_a_staircase_says_how_finely_it_is_resolved():
    """24 lengths of a block, or four of half its middle where that is narrower, but none below 2^-10 of a block."""
    for eps, least in ((0.8, 1 / 24), (12.0, None), (30.0, 2.0**-10)):
        law, _ = stairs(2.5, eps)
        assert law.feature[0] / 2.5 == pytest.approx(law.inner[0] / 4 if least is None else least, rel=1e-12)
        assert law.slope[0] == pytest.approx(2 * eps / 2.5, rel=1e-7)  # parts of eps are whole numbers over 2^30


@pytest.mark.parametrize(("width", "eps"), STAIRS)
def test_staircase_draws_have_its_law(width, eps):
    _, variance = stairs(width, eps)
    _, _, inner = heights(width, eps)
    size = 20_000
    law = StaircaseNoise(np.full(size, variance), np.zeros(size), np.full(size, eps), np.full(size, width))
    draws, b = law.draw(RNG(4)), np.exp(-eps)
    block, part = np.divmod(np.abs(draws) / width, 1)
    within = 5 * np.sqrt(0.25 / size)
    assert np.mean(draws > 0) == pytest.approx(0.5, abs=within)
    assert np.mean(block == 0) == pytest.approx(1 - b, abs=within)
    assert np.mean(block == 1) == pytest.approx((1 - b) * b, abs=within)
    assert np.mean(part < inner) == pytest.approx(inner / (inner + b * (1 - inner)), abs=within)
    assert np.mean(part[part < inner]) == pytest.approx(inner / 2, abs=0.02)
    assert np.mean(part[part >= inner]) == pytest.approx((1 + inner) / 2, abs=0.05)


def test_a_staircase_of_other_widths_is_the_same_law_in_other_units():
    law, variance = stairs(2.5, 2.0)
    wider = law.resized(0, np.array([5.0, 1.25]))
    np.testing.assert_allclose(wider.variance, variance * np.array([4, 0.25]), rtol=1e-9)
    for mine, theirs in ((wider.used, law.used), (wider.inner, law.inner), (wider.step, law.step)):
        np.testing.assert_allclose(mine, np.repeat(theirs, 2), rtol=1e-6)


@pytest.mark.parametrize("eps", [0.3, 2.0, 6.0])
def test_the_part_of_eps_that_a_staircase_got_is_read_off_its_variance(eps):
    for share in (0.02, 0.6, 0.9):
        of_less = worst_variances(eps=share * eps, options=["staircase"])["staircase"]
        assert share_of_eps(eps, of_less) == pytest.approx(share * eps, rel=1e-4)
    own = worst_variances(eps=eps, options=["staircase"])["staircase"]
    assert share_of_eps(eps, own) == eps == share_of_eps(eps, 0.7 * own)
    assert share_of_eps(np.inf, own) == share_of_eps(eps, 0.0) == 40.0


@pytest.mark.parametrize(("sensitivity", "inner", "eps", "step"), [(1, 1, 0.7, None), (3, 2, 1.0, None), (7, 3, 0.4, 0.8)])
def test_variance_of_a_staircase_on_whole_numbers_is_its_sum(sensitivity, inner, eps, step):
    low = np.exp(-eps) if step is None else step
    y = np.arange(-3000, 3001)
    block, place = np.divmod(np.abs(y), sensitivity)
    chances = np.exp(-eps * block) * np.where(place >= inner, low, 1.0)
    exact = (chances * y**2).sum() / chances.sum()
    assert staircase_variance(sensitivity, inner, eps, step) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("sensitivity", [1, 2, 9, 40])
@pytest.mark.parametrize("eps", [0.005, 0.5, 3.0, 8.0])
def test_the_best_step_is_the_best_of_all(sensitivity, eps):
    all_of_them = [staircase_variance(sensitivity, inner, eps) for inner in range(1, sensitivity + 1)]
    best = best_inner(sensitivity, eps)
    assert all_of_them[best - 1] == pytest.approx(min(all_of_them), rel=1e-12)


def test_a_staircase_on_whole_numbers_is_private_and_its_law_adds_up():
    noise = Staircase(sensitivity=7, eps=1.2)
    y = np.arange(-700, 701)
    chances = np.exp(noise.log_likelihood(y, 0))
    assert chances.sum() == pytest.approx(1.0, rel=1e-12)
    assert (chances * y**2).sum() == pytest.approx(noise.variance, rel=1e-9)
    loss = np.log(chances[7:] / chances[:-7])
    assert np.abs(loss).max() == pytest.approx(1.2, rel=1e-8)
    assert noise.log_likelihood(np.array([5, 9]), np.array([-2, 9])) == pytest.approx(np.log(chances[[707, 700]]))
    draws = noise.noise(20_000, RNG(5))
    frequency = np.array([np.mean(draws == k) for k in range(-3, 9)])
    expected = chances[697:709]
    assert (np.abs(frequency - expected) < 5 * np.sqrt(expected / 20_000)).all()
    edge = 2**53
    assert np.abs(noise.release([edge, -edge], RNG(6)) - np.array([edge, -edge])).max() < 200
    for bad in ([edge + 2], [0.5]):
        with pytest.raises(ValueError, match="totals must be whole numbers"):
            noise.release(bad)
    with pytest.raises(ValueError, match="inner must be at most"):
        staircase_variance(3, 4, 1.0)
    assert Staircase(sensitivity=5, eps=41.0).used == pytest.approx(40.0, rel=1e-7)
    assert staircase.LARGEST_EPS == 40.0


# --- means -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("centre", "spread"), [(0.4, 0.7), (-2.9, 2.5), (4.6, 1.3), (1.0, 4.0)])
def test_truncated_normals_are_those_of_scipy(centre, spread):
    low, high = -3.0, 5.0
    family, law = TruncatedNormals(low, high), truncnorm((low - centre) / spread, (high - centre) / spread, centre, spread)
    x = np.array([-2.9, -0.5, 1.0, 4.9])
    at = family.log_density(x - low, high - x, np.array(centre), np.array(spread))
    np.testing.assert_allclose(at, law.logpdf(x), rtol=1e-10)
    np.testing.assert_allclose(family.moments(np.array(centre), np.array(spread)), (law.mean(), law.var()), rtol=1e-8)
    draws = family.draw(centre, spread, 4000, RNG(7))
    assert ((draws >= low) & (draws <= high)).all()
    cdf = np.sort(law.cdf(draws))
    assert np.abs(cdf - (np.arange(4000) + 0.5) / 4000).max() < 2.2 / np.sqrt(4000)
    assert family.widest == 4.0
    np.testing.assert_allclose(family.log_hyperprior(np.zeros(2)), -np.log(8))
    assert family.value(np.array([1.0, 6.0]), np.array([7.0, 2.0])).tolist() == [-2.0, 3.0]
    assert family.below(1.5) == 4.5
    assert [end.tolist() for end in family.ends(np.zeros(2), np.ones(2))] == [[1, 1], [1, 1]]


@pytest.mark.parametrize(("below", "above", "sd"), [(0.3, 0.9, 0.5), (2.0, 0.1, 1.0), (0.0, 3.0, 0.4), (0.2, 0.3, 7.0)])
def test_clipped_normals_have_the_moments_of_their_integrals(below, above, sd):
    def moment(f):
        inside = integrate.quad(lambda x: f(x) * norm.pdf(x, scale=sd), -below, above, epsabs=1e-14)[0]
        return f(-below) * norm.cdf(-below / sd) + f(above) * norm.sf(above / sd) + inside

    mean, square = moment(lambda x: x), moment(lambda x: x**2)
    shift, variance = clipped_moments(np.array(below), np.array(above), np.array(sd))
    assert float(shift) == pytest.approx(mean, rel=1e-9, abs=1e-12)
    assert float(variance) == pytest.approx(square - mean**2, rel=1e-8)
    share = share_inside(np.array(below), np.array(above), sd)
    assert float(share) == pytest.approx(norm.cdf(above / sd) - norm.cdf(-below / sd), rel=1e-10)


def test_clipped_means_are_inverted():
    at, told = clipped_means(-1.0, 3.0, 0.5)
    assert (at[0], at[-1]) == (-1.0, 3.0)
    assert (np.diff(told) >= 0).all()
    truth = np.array([-0.7, 0.2, 2.4])
    shift, _ = clipped_moments(truth + 1, 3 - truth, np.array(0.5))
    np.testing.assert_allclose(unclipped(truth + shift, (at, told)), truth, atol=5e-5)
    assert unclipped(np.array([-5.0, 9.0]), (at, told)).tolist() == [-1.0, 3.0]


def test_clipped_means_are_inverted_near_bounds_that_are_far_apart():
    low, high, z = -1e5, 3e5, np.array([0.0, 0.1, 0.5, 1.3, 4.0, 9.0])
    truth = np.concatenate([low + 2 * z, high - 2 * z])
    shift, _ = clipped_moments(truth - low, high - truth, np.array(2.0))
    found = unclipped(truth + shift, clipped_means(low, high, 2.0))
    np.testing.assert_allclose(found, truth, rtol=0, atol=2e-4)  # a ten thousandth of a deviation


@pytest.mark.parametrize("sd", [0.0, 0.35])
def test_a_law_between_knots_is_that_of_a_clipped_and_rounded_mean(sd):
    knots, density = np.array([-1.0, 0.5, 2.0, 2.4]), np.array([[0.2, 0.9, 0.4, 0.1], [0.7, 0.1, 0.3, 0.9]])
    law = Outputs(knots, density, sd, lambda mean, generator: mean)
    truth = np.array([-0.8, 0.3, 0.5, 1.7])
    found = np.exp(law.log_likelihood(np.array([1, 0]), truth))
    for row, which in ((0, 1), (1, 0)):
        for x, value in zip(truth, found[row], strict=True):
            if sd == 0:
                exact = np.interp(x, knots, density[which])
            else:
                u = x + sd * norm.ppf((np.arange(200_000) + 0.5) / 200_000)
                exact = np.interp(u, knots, density[which]).mean()
            assert value == pytest.approx(exact, rel=1e-5)


def mean_report(mechanism, adjacency, n, noise, rounding, eps=1.0):
    made = Guarantee(eps, 0.0, adjacency, "client", mechanism)
    return MeanReport("", n, made, 1.0, noise, rounding, (-3.0, 5.0))


def test_what_reports_say_roughly_of_their_means_before_any_prior():
    """Rows of deviation 2 between -3 and 5, nine of each client; a quarter of a squared step of rounding, over nine."""
    sd, say = 2 / 3, [("discrete-laplace", "row", 0.5), ("gaussian", "row", 0.3), ("discrete-laplace", "client", 0.5),
                      ("none", "client", 0.0), ("unheard of", "row", 0.2)]  # fmt: skip
    reports = [mean_report(mechanism, adjacency, 9, noise, 0.002) for mechanism, adjacency, noise in say]
    clients = MeanClients(reports, 4.0, np.ones(5, int))
    unit = 2 * np.sqrt([0.002 / 9, np.nan, 0.002, np.nan, np.nan])
    scale = unit / laplace_fall(0.5, unit)  # nan for what is no Laplace noise
    normal = np.sqrt(sd**2 + 0.002 + np.array([0.0, 0.3, 0.0, 0.0, 0.2]))
    told = np.array([0.0, 0.3, 0.0, 0.0, 0.2]) + np.where(np.isnan(scale), 0.0, 0.5)
    rows = np.array([True, True, False, False, True])
    centre = optimize.brentq(lambda t: clipped(t, 2.0, -3.0, 5.0) - 1.0, -3, 5)
    inside = norm.cdf(5, centre, 2) - norm.cdf(-3, centre, 2)
    np.testing.assert_allclose(clients.centre, np.where(rows, centre, 1.0), atol=1e-4)
    rise = np.where(rows, inside, 1.0)
    np.testing.assert_allclose(clients.spread, np.sqrt(told + sd**2 + 0.002) / rise, rtol=1e-6)
    np.testing.assert_allclose(clients.error, normal / rise, rtol=1e-6)
    np.testing.assert_allclose(clients.slope, np.where(np.isnan(scale), np.inf, rise / scale), rtol=1e-6)
    np.testing.assert_allclose(clients.feature, np.minimum(np.fmax(normal, scale / 12), 2.0))
    reach = 9 * normal + np.where(np.isnan(scale), 0.0, 40 * scale)
    for found, side in ((clients.low, -1), (clients.high, 1)):
        np.testing.assert_allclose(found[~rows], (1.0 + side * reach)[~rows])
        np.testing.assert_allclose(found[rows], side * 4 + 1, atol=1e-3)  # no mean within the bounds is so unlikely
    near = MeanClients([mean_report("gaussian", "row", 90_000, 1e-6, 0.0)], 4.0, np.ones(1, int))
    for found, side in (
        (near.low, -1),
        (near.high, 1),
    ):  # nine deviations of clipped means, and 1e-4 of rows'
        end = optimize.brentq(lambda t, s=side: clipped(t, 2.0, -3.0, 5.0) - 1.0 - s * 9 * np.sqrt(1e-6 + 4 / 9e4), -3, 5)
        assert found == pytest.approx(end + side * 2e-4, abs=1e-4)
    said = [("two-point", finite_output((-3.0, 5.0), 1.0, 2)), ("finite-output", finite_output((-3.0, 5.0), 1.0))]
    ends = np.array([float(law.values[-1]) for _, law in said])
    few = [replace(mean_report(name, "client", 9, 30.0, 16.0), estimate=e) for (name, _), e in zip(said, ends, strict=True)]
    told = MeanClients(few, 4.0, np.ones(2, int))
    assert told.slope.tolist() == [0.0, 0.0]
    np.testing.assert_allclose([told.low, told.high], [ends - 8, ends + 8])  # as wide as the bounds on either side
    assert told.feature == pytest.approx([2.0, max(sd, np.diff(said[1][1].knots).min())])
    exact = MeanClients([mean_report("none", "row", 9, 0.0, 0.04)], 0.0, np.ones(1, int))
    assert (exact.centre, exact.spread, exact.low, exact.high) == (1.0, 0.2, pytest.approx(-0.8), pytest.approx(2.8))


@pytest.mark.parametrize(("mechanism", "noise"), [("none", 0.0), ("gaussian", 0.09)])
def test_means_rounded_to_few_levels_are_released_at_random_and_judged_level_by_level(mechanism, noise):
    """Seventeen levels from -3 to 5, either neighbour with the chance that keeps the mean, and then noise."""
    size, truths, told = 4000, [-3.0, -1.8, 0.0, 5.0], [-2.0, 0.5, 0.0, 5.0]
    one = mean_report(mechanism, "client", 9, noise, 0.0625)
    law = outputs(mechanism, [replace(one, estimate=e) for e in told for _ in range(size)], 0.0, 0.5)
    levels = np.linspace(-3, 5, 17)
    np.testing.assert_allclose(law.knots, levels, atol=1e-12)
    away = np.subtract.outer(told, levels)
    density = np.exp(-(away**2) / (2 * noise)) if noise else 1.0 * (away == 0)
    np.testing.assert_allclose(law.density[::size], density, rtol=1e-9, atol=1e-300)
    draws = law.draw(np.repeat(truths, size), RNG(1)).reshape(4, size)
    for truth, found, share in zip(truths, draws, (0.0, 0.4, 0.0, 0.0), strict=True):
        variance = share * (1 - share) / 4 + noise
        assert found.mean() == pytest.approx(truth, abs=5 * np.sqrt(variance / size) + 1e-12)
        assert found.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / size), abs=1e-12)
        if not noise:
            assert set(found) <= set(levels)


@pytest.mark.parametrize("adjacency", ["row", "client"])
@pytest.mark.parametrize("truth", [0.7, -2.97, 4.93])
def test_new_estimates_are_clipped_means_rounded_and_noisy(adjacency, truth):
    """Nine rows of deviation 0.3, clipped one by one or their mean: moments by quadrature."""
    size, sd, rows = 20_000, 0.3 if adjacency == "row" else 0.1, 9 if adjacency == "row" else 1
    mean = clipped(truth, sd, -3.0, 5.0)
    square = norm.expect(lambda x: (np.clip(x, -3, 5) - mean) ** 2, loc=truth, scale=sd, lb=truth - 4, ub=truth + 4)
    variance = square / rows + 0.002 + 0.003
    found = new_estimates([mean_report("gaussian", adjacency, 9, 0.002, 0.003)] * size, 0.09, np.full(size, truth), RNG(2))
    assert found.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / size))
    assert found.var() == pytest.approx(variance, rel=7 * np.sqrt(2 / size))
    exact = new_estimates([mean_report("none", adjacency, 9, 0.0, 0.0)] * 2, 0.0, np.array([truth, 0.5]), RNG(3))
    assert exact.tolist() == [truth, 0.5]  # rows without variance


def test_the_likelihood_of_a_mean_is_that_of_clipped_rows_or_of_a_clipped_mean_behind_noise():
    """Normal laws with the moments of what is clipped; few levels and finite outputs are summed over."""
    say = [("gaussian", "row", 9, 0.3, 0.002), ("gaussian", "row", 4, 0.1, 0.0), ("gaussian", "client", 9, 0.3, 0.002),
           ("discrete-laplace", "row", 9, 0.0, 0.01), ("unheard of", "client", 4, 0.2, 0.0),
           ("gaussian", "client", 9, 0.3, 2.0**-8), ("gaussian", "client", 9, 0.3, 0.0625),
           ("finite-output", "client", 9, 0.3, 0.0)]  # fmt: skip
    reports = [replace(mean_report(*one), estimate=0.25 * i) for i, one in enumerate(say)]
    value = finite_output((-3.0, 5.0), 1.0).values[1]
    reports[7] = replace(reports[7], estimate=float(value))
    clients = MeanClients(reports, 4.0, np.ones(8, int))
    truth, rows = np.array([-2.9, -0.4, 1.0, 4.8]), np.array([6, 3, 0, 7, 1, 5, 2, 4])
    found = dict(zip(rows.tolist(), clients.log_likelihood(rows, truth + 3, 5 - truth), strict=True))
    for i, (_, adjacency, n, noise, rounding) in enumerate(say[:6]):
        sd, many = (2.0, n) if adjacency == "row" else (2 / np.sqrt(n), 1)
        shift, variance = clipped_moments(truth + 3, 5 - truth, np.array(sd))
        exact = norm.logpdf(0.25 * i, truth + shift, np.sqrt(variance / many + noise + rounding))
        np.testing.assert_allclose(found[i], exact, rtol=1e-10)
    few = outputs("gaussian", reports[6:7], 2 / 3, 0.5), outputs("finite-output", reports[7:], 2 / 3, 0.0)
    for i, law in zip((6, 7), few, strict=True):
        np.testing.assert_allclose(found[i], law.log_likelihood(np.array([0]), truth)[0], rtol=1e-10)
    summed = [isinstance(clients.laws[kind], Outputs) for kind in clients.kind]
    assert summed == [False] * 6 + [True] * 2  # up to 64 levels
    exact = MeanClients(reports[:2], 0.0, np.ones(2, int)).log_likelihood(np.array([0, 1, 0]), truth + 3, 5 - truth)
    for row, (e, variance) in zip(exact, ((0.0, 0.302), (0.25, 0.1), (0.0, 0.302)), strict=True):
        np.testing.assert_allclose(row, norm.logpdf(e, truth, np.sqrt(variance)), rtol=1e-10)


def test_what_reports_say_roughly_of_their_means_has_no_units():
    """All lengths a tenth of what they were, variances a hundredth."""
    say = [
        ("discrete-laplace", "row", 0.5),
        ("gaussian", "row", 0.3),
        ("discrete-laplace", "client", 0.5),
        ("none", "row", 0.0),
    ]
    long = [mean_report(mechanism, adjacency, 9, noise, 0.002) for mechanism, adjacency, noise in say]
    short = [replace(r, estimate=r.estimate / 10, noise_variance=r.noise_variance / 100, bounds=(-0.3, 0.5),
                     rounding_variance=r.rounding_variance / 100) for r in long]  # fmt: skip
    one, other = MeanClients(long, 4.0, np.ones(4, int)), MeanClients(short, 0.04, np.ones(4, int))
    for name in ("centre", "spread", "error", "feature", "low", "high"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name) / 10, rtol=1e-7)
    np.testing.assert_allclose(other.slope, one.slope * 10, rtol=1e-7)
    bare = MeanClients([mean_report("discrete-laplace", "client", 9, 0.5, 0.0)], 0.0, np.ones(1, int))
    assert bare.error == pytest.approx(8e-9)  # without a normal error, a billionth of the width


def clipped(mean, sd, low, high):
    """Mean of a normal variable after clipping, by SciPy."""
    return float(norm.expect(lambda x: np.clip(x, low, high), loc=mean, scale=sd, lb=mean - 12 * sd, ub=mean + 12 * sd))


def test_reports_tell_the_distance_of_levels_and_of_whole_numbers():
    """Rounding to one of two levels L apart has at most the variance L^2/4: of each of n rows, or of one mean."""
    L, n = 0.6, 9
    rows = mean_report("staircase", "row", n, 0.5, L**2 / 4 / n)
    mean = mean_report("staircase", "client", n, 0.5, L**2 / 4)
    levels, units = steps_of([rows, mean])
    np.testing.assert_allclose(levels, [L, L])
    np.testing.assert_allclose(units, [L / n, L])
    np.testing.assert_allclose(additive("staircase", [rows, mean]).width, [8 / n, 8])
    assert isinstance(additive("discrete-laplace", [rows]), LaplaceNoise)
    assert type(additive("unheard of", [rows])) is NormalNoise


# --- numbers of ones -------------------------------------------------------------------------------------------------------


def rate_report(mechanism, value, noise, trials=4, statistic="ones", adjacency="row", eps=1.3):
    made = Guarantee(eps, 0.0, adjacency, "client", mechanism)
    return RateReport("", trials if statistic == "ones" else 2, made, statistic, trials, value, noise)


def test_randomised_answers_are_those_of_every_pattern():
    n, wrong = 4, 0.3
    law = answer_law(n, wrong)
    for k in range(n + 1):
        truth = np.array([1] * k + [0] * (n - k))
        exact = np.zeros(n + 1)
        for flips in product((0, 1), repeat=n):
            f = np.array(flips)
            exact[int((truth ^ f).sum())] += wrong ** f.sum() * (1 - wrong) ** (n - f.sum())
        np.testing.assert_allclose(law[:, k], exact, rtol=1e-12)
    noise = n * wrong * (1 - wrong) / (1 - 2 * wrong) ** 2
    assert wrong_probability(n, noise) == pytest.approx(wrong, rel=1e-12)
    for kind, said in product(("answers", "two-point"), range(n + 1)):
        found = log_likelihood(rate_report(kind, (said - n * wrong) / (1 - 2 * wrong), noise))
        np.testing.assert_allclose(found, np.log(law[said]), rtol=1e-9)
    one = 1 * wrong * (1 - wrong) / (1 - 2 * wrong) ** 2
    pairs = rate_report("two-point", (1 - wrong) / (1 - 2 * wrong), one, 1, "pairs")
    np.testing.assert_allclose(np.exp(log_likelihood(pairs)), [wrong, wrong, 1 - wrong], rtol=1e-9)  # only two of two say 1


@pytest.mark.parametrize("trials", [512, 513])
def test_many_answers_are_taken_as_normal(trials):
    wrong = 0.2
    noise = trials * wrong * (1 - wrong) / (1 - 2 * wrong) ** 2
    found = log_likelihood(rate_report("answers", 300.0, noise, trials))
    normal = -((300.0 - np.arange(trials + 1)) ** 2) / (2 * noise)
    assert np.allclose(found, normal) == (trials > 512)
    near = np.abs(np.arange(trials + 1) - 300) < 20
    assert np.abs((found - normal)[near] - (found - normal)[near].mean()).max() < 0.1


def test_the_likelihood_of_a_count_is_that_of_its_mechanism():
    k = np.arange(5)
    fall = 0.8
    laplace_noise = 1 / (2 * np.sinh(fall / 2) ** 2)
    found = log_likelihood(rate_report("discrete-laplace", 6.0, laplace_noise))
    np.testing.assert_allclose(found - found[4], -fall * (np.abs(6 - k) - 2), rtol=1e-10)
    found = log_likelihood(rate_report("discrete-gaussian", 1.0, 2.0))
    np.testing.assert_allclose(found - found[1], -((1 - k) ** 2) / 4, rtol=1e-12)
    found = log_likelihood(rate_report("none", 3.0, 0.0))
    assert found.tolist() == [-np.inf, -np.inf, -np.inf, 0.0, -np.inf]
    for bits in (finite_output((0.0, 1.0), 1.3), finite_output((0.0, 1.0), 0.4)):
        for value in bits.values[[0, 3, -1]]:
            found = log_likelihood(rate_report("finite-output", 4 * value, 1.0, eps=bits.eps))
            np.testing.assert_allclose(found, bits.log_likelihood(value, k / 4), rtol=1e-12)
    for adjacency, largest in (("row", 1), ("client", 4)):
        law = Staircase(sensitivity=largest, eps=1.3)
        found = log_likelihood(rate_report("staircase", 7.0, law.variance, adjacency=adjacency))
        np.testing.assert_allclose(found, [law.log_likelihood(7.0, float(j)) for j in k])
    found = log_likelihood(rate_report("unheard of", 1.5, 3.0))
    np.testing.assert_allclose(found - found[0], -((1.5 - k) ** 2) / 6 + 1.5**2 / 6, atol=1e-12)


@pytest.mark.parametrize(
    ("mechanism", "trials", "noise", "adjacency"),
    [
        ("discrete-laplace", 6, 3.0, "row"),
        ("discrete-gaussian", 6, 5.0, "row"),
        ("staircase", 6, None, "client"),
        ("finite-output", 6, None, "client"),
        ("answers", 6, 2.0, "row"),
        ("two-point", 1, 0.6, "client"),
        ("gaussian", 6, 1.5, "row"),
        ("none", 6, 0.0, "row"),
    ],
)
def test_new_values_have_the_mean_and_the_variance_of_their_design(mechanism, trials, noise, adjacency):
    from estimators.private import FiniteOutput

    rate, size, generator = 0.3, 500 if mechanism == "staircase" else 1500, RNG(8)
    if mechanism == "staircase":
        noise = Staircase(sensitivity=trials, eps=1.3).variance
    stated = noise
    if mechanism == "finite-output":
        law, stated = FiniteOutput(bounds=(0.0, 1.0), eps=1.3), 1.0
        chances = np.array([comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(trials + 1)])
        noise = trials**2 * float(chances @ law.variance(np.arange(trials + 1) / trials))
    report = rate_report(mechanism, 1.0, stated, trials, adjacency=adjacency)
    found = np.array([noisy_value(report, rate, generator) for _ in range(size)])
    variance = trials * rate * (1 - rate) + noise
    assert found.mean() == pytest.approx(trials * rate, abs=5 * np.sqrt(variance / size))
    kurtosis = np.mean((found - found.mean()) ** 4) / found.var() ** 2
    assert found.var() == pytest.approx(variance, rel=5 * np.sqrt((kurtosis - 1) / size))
    if mechanism in ("discrete-laplace", "discrete-gaussian", "staircase", "none"):
        assert (found == np.rint(found)).all()


def test_new_pairs_are_ones_with_the_square_of_the_rate():
    found = [noisy_value(rate_report("none", 1.0, 0.0, 1, "pairs"), 0.6, RNG(seed)) for seed in range(3000)]
    assert np.mean(found) == pytest.approx(0.36, abs=5 * np.sqrt(0.25 / 3000))


def test_new_pairs_behind_randomised_answers_are_one_of_two_numbers():
    wrong, rate = 0.2, 0.6
    report = rate_report("two-point", 1.0, wrong * (1 - wrong) / (1 - 2 * wrong) ** 2, 1, "pairs")
    generator = RNG(9)
    found = np.array([noisy_value(report, rate, generator) for _ in range(3000)])
    one = np.isclose(found, (1 - wrong) / (1 - 2 * wrong))
    assert (one | np.isclose(found, -wrong / (1 - 2 * wrong))).all()
    chance = rate**2 * (1 - wrong) + (1 - rate**2) * wrong
    assert one.mean() == pytest.approx(chance, abs=5 * np.sqrt(0.25 / 3000))
