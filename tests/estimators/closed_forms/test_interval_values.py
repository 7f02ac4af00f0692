"""Intervals for shrunken estimates, number by number: brute force over laws, equations in theta, sums of fractions."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from estimators.closed_forms import intervals

Y = np.array([1.3, -0.4, 2.9, 0.2, 4.1])
S2 = np.array([0.7, 1.9, 0.3, 1.1, 2.6])


def miss(t, c):
    """P(|Z + sqrt t| > c)."""
    return stats.norm.sf(c - np.sqrt(t)) + stats.norm.cdf(-c - np.sqrt(t))


@pytest.mark.parametrize("c", [0.4, 1.7, 1.74, 1.96, 2.5, 4.0, 9.0])
def test_the_steepest_chord_is_the_best_of_a_fine_grid(c):
    t = np.linspace(1e-4, c + 8, 400_001) ** 2
    slopes = (miss(t, c) - miss(0.0, c)) / t
    best = t[np.argmax(slopes)]
    found = intervals.chord(c)
    if c <= np.sqrt(3):  # concave: the steepest chord has no length
        assert found == 0
        assert best < 1e-3
    else:
        assert found == pytest.approx(best, rel=1e-3)
        assert (miss(found, c) - miss(0.0, c)) / found == pytest.approx(slopes.max(), rel=1e-9)
    assert intervals.noncoverage(-0.3, c) == pytest.approx(miss(0.09, c), rel=1e-12)


def steepest(c):
    """Where the chord from 0 touches P(|Z + sqrt t| > c), just above c = sqrt 3, with 40 digits."""

    def gap(u):
        def miss(u):
            return mpmath.ncdf(u - c) + mpmath.ncdf(-u - c)

        return (u / 2 * (mpmath.npdf(u - c) - mpmath.npdf(u + c)) - (miss(u) - miss(0))) / u**4

    with mpmath.workdps(40):
        return float(mpmath.findroot(gap, (mpmath.mpf("0.05"), mpmath.mpf("0.06"))) ** 2)


def test_short_chords_are_as_long_as_they_are_down_to_a_twentieth():
    assert intervals.chord(np.sqrt(3)) == 0
    for c in (1.73235, 1.7324, 1.7325, 1.7326, 1.733):
        assert intervals.chord(c) == pytest.approx(steepest(c), rel=1e-6)
    for c in (1.73232, 1.73233):
        assert steepest(c) < intervals.chord(c) == pytest.approx(0.05**2, rel=1e-12)


@pytest.mark.parametrize("c", [1e3, 1e14, 4e14, 6e14, 1e17])
def test_of_far_ends_the_steepest_chord_ends_a_few_deviations_beyond(c):
    assert c**2 * (1 - 1e-15) <= intervals.chord(c) <= (c + 8) ** 2 * (1 + 1e-15)


@pytest.mark.parametrize(("m2", "kappa", "c"), [(1e-3, 10.0, 5.0), (1e-3, 50.0, 7.0), (3e-4, 10.0, 3.0), (0.3, 3.0, 4.0)])
def test_rare_large_biases_are_found_among_all_pairs_of_values(m2, kappa, c):
    """Where the second moment is small; the two values are those of largest kurtosis, the upper one on a fine grid."""
    up = np.geomspace(m2 * 1e-3, (c + 9) ** 2, 200_001)
    down = (kappa - 1) * m2**2 / up  # values m2 - down and m2 + up have variance up * down
    up, down = up[down <= m2], down[down <= m2]
    value = (up * miss(np.maximum(m2 - down, 0), c) + down * miss(m2 + up, c)) / (up + down)
    assert intervals.worst(m2, kappa, c) == pytest.approx(value.max(), rel=1e-8)


@pytest.mark.parametrize("c", [1.2, 2.2, 3.5])
@pytest.mark.parametrize("m2", [0.0, 0.3, 1.4, 5.0, 30.0])
@pytest.mark.parametrize("kappa", [1.0, 1.3, 4.0, np.inf])
def test_the_worst_law_is_the_worst_of_all_pairs_of_values(c, m2, kappa):
    """Laws on two values of the squared bias: all lower ones, all upper ones, and the chance that the mean asks for."""
    found = intervals.worst(m2, kappa, c)
    if m2 == 0 or kappa == 1:
        assert found == pytest.approx(miss(m2, c), rel=1e-12)
        return
    low = np.linspace(0, m2, 300, endpoint=False)[:, None]
    high = m2 + np.linspace(1e-6, (c + 8) ** 2, 6001)
    chance = (m2 - low) / (high - low)
    fourth = (1 - chance) * low**2 + chance * high**2
    value = (1 - chance) * miss(low, c) + chance * miss(high, c)
    worst = max(float(miss(m2, c)), float(np.max(np.where(fourth <= kappa * m2**2, value, 0.0))))
    assert found >= worst - 1e-12
    assert found == pytest.approx(worst, abs=3e-4)


@pytest.mark.parametrize("level", [0.1, 0.8, 0.95])
@pytest.mark.parametrize("kappa", [1.0, 2.5, np.inf])
def test_critical_values_and_noncoverage_are_inverse(level, kappa):
    for m2 in (0.0, 0.2, 1.5, 20.0):
        c = float(intervals.robust_critical_value(m2, kappa, level))
        assert intervals.worst(m2, kappa, c) == pytest.approx(1 - level, rel=1e-9)
        w = 1 / (1 + m2)
        z = stats.norm.ppf((1 + level) / 2)
        usual = intervals.worst(m2, kappa, z * np.sqrt(1 + m2))
        assert intervals.worst_noncoverage(w, level, kappa) == pytest.approx(usual, rel=1e-12)


@pytest.mark.parametrize("m2", [1e6, 1e9, 1e20, 1e40])
def test_critical_values_of_large_biases_are_found_just_below_chebyshevs(m2):
    """The worst bias is 0 or a few deviations k above c, however many deviations c itself is."""
    c = float(intervals.robust_critical_value(m2))
    k = np.linspace(0, 12, 2401)
    assert np.max(m2 / (c + k) ** 2 * stats.norm.cdf(k)) == pytest.approx(0.05, rel=1e-7)
    assert c <= np.sqrt(20 * (1 + m2)) < c + 9 + 1e-9 * c
    half = float(intervals.robust_critical_value(m2, kappa=3.0)) / c
    assert half == pytest.approx(0.5985, abs=1e-3)


def test_tables_of_many_are_those_of_few():
    """Up to 33 different numbers each is computed; beyond, between powers of e^2, by polynomials in the logarithm."""
    for count in (33, 34, 80):
        x = np.geomspace(0.01, 40, count)[::-1].reshape(-1, 1)
        calls = []

        def smooth(value, calls=calls):
            calls.append(value)
            return np.log1p(value) + 2 / (1 + value)

        found = intervals.tabled(smooth, x)
        assert found.shape == x.shape
        np.testing.assert_allclose(found, np.log1p(x) + 2 / (1 + x), rtol=1e-7)
        assert (len(calls) == count) == (count <= 33)
    for span, pieces in ((0.9, 1), (1.9, 1), (5.0, 3), (5.9, 3), (6.1, 4)):  # 13 calls for each e^2 of the range
        places = []
        intervals.tabled(lambda x, places=places: places.append(x) or x, 0.3 * np.exp(np.linspace(0, span, 300)))
        assert len(places) == 13 * pieces
    repeated = np.repeat([0.3, 2.0], 30)
    np.testing.assert_array_equal(intervals.tabled(np.sqrt, repeated), np.sqrt(repeated))


def test_a_far_number_takes_no_digits_from_a_table():
    """40 numbers close together, and one 10 powers of e away, above or below."""
    near = np.linspace(1.0, 1.1, 40)
    for x in (np.append(near, 2e4), np.append(5e-5, near)):
        exact = [float(intervals.robust_critical_value(m2)) for m2 in x[[0, 20, -1]]]
        np.testing.assert_allclose(intervals.robust_critical_value(x)[[0, 20, -1]], exact, rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("residuals", [[3.0, -1.0, 2.5, 0.5], [0.1, -0.2, 0.0, 0.3], [0.5, -0.25, 0.1, 9.0]])
def test_moments_are_those_of_ebci_in_fractions(weighted, residuals):
    """R ebci's estimates with its truncation "PMT", exactly."""
    e = [Fraction(x) for x in residuals]
    s2 = [Fraction(x) for x in (0.5, 1.0, 0.25, 2.0)]
    p = [Fraction(x) for x in ((1, 3, 2, 5) if weighted else (1, 1, 1, 1))]

    def weighted_mean(values):
        return sum(w * v for w, v in zip(p, values, strict=True)) / sum(p)

    def mean(values):
        return sum(values) / Fraction(len(values))

    def at_least(power):
        top = mean([w**2 * s**power for w, s in zip(p, s2, strict=True)])
        return top / (sum(p) * mean([w * s ** (power // 2) for w, s in zip(p, s2, strict=True)]))

    mu2 = max(weighted_mean([x**2 - s for x, s in zip(e, s2, strict=True)]), 2 * at_least(2))
    fourth = weighted_mean([x**4 - 6 * s * x**2 + 3 * s**2 for x, s in zip(e, s2, strict=True)])
    kappa = max(fourth / mu2**2, 1 + 32 * at_least(4) / mu2**2)
    found = intervals.second_moments(residuals, [0.5, 1.0, 0.25, 2.0], [1, 3, 2, 5] if weighted else None)
    assert found == pytest.approx((float(mu2), float(kappa)), rel=1e-12)


def test_the_shrinkage_is_that_of_weighted_means():
    found = intervals.linear_shrinkage(Y, S2)
    p = (1 / S2) / (1 / S2).sum()
    centre = (p * Y).sum()
    mu2 = intervals.second_moments(Y - centre, S2, p).mu2
    assert found.centre == pytest.approx(centre, rel=1e-13)
    assert found.mu2 == pytest.approx(mu2, rel=1e-12)
    assert found.centre_se == pytest.approx(np.sqrt((p**2 * (mu2 + S2)).sum()), rel=1e-12)
    np.testing.assert_allclose(found.weights, mu2 / (mu2 + S2), rtol=1e-12)


@pytest.mark.parametrize("m", [2, 5])
def test_robust_intervals_are_the_shorter_of_two(m):
    """Around the shrunken estimate, or, as with two clients who know little of their centre, around the own one."""
    found = intervals.linear_shrinkage(Y[:m], S2[:m])
    centre, mu2 = found.centre, found.mu2
    low, high = intervals.robust_intervals(Y[:m], S2[:m], 0.9)
    kept = []
    for i, (y, s2) in enumerate(zip(Y[:m], S2[:m], strict=True)):
        w = mu2 / (mu2 + s2)
        bias = (1 / w - 1) * (1 + found.centre_se**2 / mu2)
        half = float(intervals.robust_critical_value(bias, level=0.9)) * w * np.sqrt(s2)
        own = stats.norm.ppf(0.95) * np.sqrt(s2)
        kept.append(own < half)
        middle = centre + w * (y - centre) if half < own else y
        assert (low[i], high[i]) == pytest.approx((middle - min(half, own), middle + min(half, own)), rel=1e-9)
    assert any(kept) == (m == 2)


def end_of(y, s2, mu, tau2, alpha):
    """The interval of Hoff and Yu: all theta whose region of acceptance holds y, its ends by a search over theta."""
    s = np.sqrt(s2)

    def share(theta):  # w with g(w) = 2 s (theta - mu) / tau2
        goal = 2 * s * (theta - mu) / tau2

        def g(u):
            return stats.norm.ppf(alpha * u) - stats.norm.ppf(alpha * (1 - u))

        log = optimize.brentq(lambda log: g(np.exp(log)) + abs(goal), -600, np.log(0.5), xtol=1e-14)
        return np.exp(log) if goal < 0 else -np.expm1(log)  # g is odd about a half

    def lower(theta):
        return y + s * stats.norm.ppf(alpha * (1 - share(theta))) - theta

    def upper(theta):
        return y + s * stats.norm.ppf(1 - alpha * share(theta)) - theta

    return tuple(optimize.brentq(end, y - 6 * s, y + 6 * s, xtol=1e-12) for end in (lower, upper))


@pytest.mark.parametrize(("y", "s2", "mu", "tau2", "level"), [(1.3, 0.7, 0.4, 1.9, 0.95), (-0.4, 1.9, 1.0, 0.9, 0.8)])
def test_intervals_for_every_theta_solve_their_equations(y, s2, mu, tau2, level):
    found = intervals.fab_interval(y, s2, mu, tau2, level)
    assert tuple(map(float, found)) == pytest.approx(end_of(y, s2, mu, tau2, 1 - level), abs=1e-6)


def test_intervals_of_all_clients_are_guessed_from_the_others():
    low, high = intervals.fab_intervals(Y, S2, 0.9)
    for i in range(5):
        others = np.arange(5) != i
        w, y = 1 / S2[others], Y[others]
        centre = np.average(y, weights=w)
        q = (w * (y - centre) ** 2).sum()
        slope = w.sum() - (w**2).sum() / w.sum()
        tau2 = max(q - 3, np.sqrt(6)) / slope + 1 / w.sum()
        exact = intervals.fab_interval(Y[i], S2[i], centre, tau2, 0.9)
        assert (low[i], high[i]) == pytest.approx(tuple(map(float, exact)), rel=1e-9)
    two = intervals.fab_intervals([1.0, 3.0], [0.5, 2.0], 0.9)  # one other client knows nothing of differences
    usual = stats.norm.ppf(0.95) * np.sqrt([0.5, 2.0])
    np.testing.assert_allclose(two, (np.array([1, 3]) - usual, np.array([1, 3]) + usual), atol=1e-4)


@pytest.mark.parametrize(("y", "v"), [([1.0, 2.5, 3e12, 4.0], [1.0, 0.5, 1e24, 2.0]), ([1.0, 2.5, 9.0], [1.0, 0.5, 3.0])])
def test_a_client_who_knows_next_to_nothing_takes_no_digits_from_the_others(y, v):
    """Guesses from sums of fractions; where one client is three deviations off, which are 3e12."""
    low, high = intervals.fab_intervals(y, v)
    less = len(y) - 2
    for i in range(len(y)):
        others = [(Fraction(a), 1 / Fraction(b)) for j, (a, b) in enumerate(zip(y, v, strict=True)) if j != i]
        total = sum(w for _, w in others)
        centre = sum(w * a for a, w in others) / total
        q = sum(w * (a - centre) ** 2 for a, w in others)
        tau2 = max(float(q - less), np.sqrt(2 * less)) / float(total - sum(w**2 for _, w in others) / total) + float(
            1 / total
        )
        exact = intervals.fab_interval(y[i], v[i], float(centre), tau2)
        assert (low[i], high[i]) == pytest.approx(tuple(map(float, exact)), rel=1e-9)


def test_ends_of_domains():
    for call, permitted, refused in (
        (lambda x: intervals.worst_noncoverage(x), [1e-12, 1.0], [0.0, 1 + 1e-12]),
        (lambda x: intervals.worst_noncoverage(0.5, x), [0.5], [0.0, 1.0]),
        (lambda x: intervals.robust_critical_value(1.0, x), [1.0, np.inf], [1 - 1e-12]),
        (lambda x: intervals.robust_critical_value(x), [0.0], [-1e-300]),
        (lambda x: intervals.fab_interval(1.0, 1.0, 0.0, x), [1e-6], [0.0]),
        (lambda x: intervals.fab_interval(1.0, x, 0.0, 1.0), [1e-6], [0.0]),
        (lambda x: intervals.linear_shrinkage([1.0, 2.0], [1.0, x]), [1e-9], [0.0, np.inf]),
        (lambda x: intervals.second_moments([1.0, 2.0], 1.0, [1.0, x]), [1e-9], [0.0]),
        (lambda x: intervals.second_moments(np.ones(x), 1.0), [1, 3], [(), (2, 2), 0]),
    ):
        for x in permitted:
            call(x)
        for x in refused:
            with pytest.raises(ValueError, match="must"):
                call(x)


def test_intervals_are_of_95_percent_unless_they_are_told_otherwise():
    calls = [
        lambda **more: intervals.worst_noncoverage(0.3, **more),
        lambda **more: intervals.robust_critical_value(1.5, **more),
        lambda **more: intervals.fab_interval(1.3, 0.7, 0.4, 1.9, **more),
        lambda **more: intervals.robust_intervals(Y, S2, **more),
        lambda **more: intervals.fab_intervals(Y, S2, **more),
    ]
    for call in calls:
        np.testing.assert_array_equal(call(), call(level=0.95))
        assert not np.array_equal(call(), call(level=0.9))
    for call in calls[:2]:  # and whatever the kurtosis is
        assert call() == call(kappa=np.inf) > call(kappa=2.0)
