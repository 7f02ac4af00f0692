"""Intervals that hold whatever the prior is: R ebci's numbers, a linear program, coverage by quadrature, bad input."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from estimators import GaussianMeans, MixtureMeans, NonparametricMeans, NonparametricRates, PointNormalMeans
from estimators.closed_forms.intervals import (
    fab_interval,
    fab_intervals,
    linear_shrinkage,
    robust_critical_value,
    robust_intervals,
    second_moments,
    worst,
    worst_noncoverage,
)

RATIOS = [0.25, 1.0, 4.0, 9.0, 25.0]

# R ebci (kolesarm/ebci, e0e2c76), cva(m2, kappa, alpha)$cv.
EBCI = {
    (0.95, np.inf): [2.22665355, 3.25919852, 7.21635106, 11.46400992, 20.15829471],
    (0.95, 3.0): [2.19294762, 2.81173183, 4.61951272, 6.90391807, 11.88358368],
    (0.95, 10.0): [2.21925041, 3.19394393, 6.36672435, 9.81876306, 17.00674483],
    (0.90, np.inf): [1.84003651, 2.40338728, 4.81532081, 7.72450226, 13.77519574],
}


@pytest.mark.parametrize(("level", "kappa"), EBCI)
def test_ebci_golden_numbers(level, kappa):
    np.testing.assert_allclose(robust_critical_value(RATIOS, kappa, level), EBCI[level, kappa], rtol=0, atol=2e-8)


@pytest.mark.parametrize(("m2", "kappa"), [(0.5, np.inf), (1.0, 1.5), (1.0, 3.0), (4.0, 3.0), (4.0, 10.0), (1.0, 12.0)])
def test_no_law_of_the_bias_is_worse(m2, kappa):
    """At the critical value a linear program over laws on a fine grid misses 5 %, no more."""
    c = float(robust_critical_value(m2, kappa))
    t = np.concatenate((np.linspace(0, 10 * m2, 4000), np.linspace(10 * m2, (c + 8) ** 2, 4000)[1:]))
    miss = stats.norm.cdf(-np.sqrt(t) - c) + stats.norm.cdf(np.sqrt(t) - c)
    rows = None if kappa == np.inf else [t**2 / m2**2]
    program = optimize.linprog(
        -miss, A_ub=rows, b_ub=None if rows is None else [kappa], A_eq=[np.ones(t.size), t / m2], b_eq=[1, 1]
    )
    assert -program.fun == pytest.approx(0.05, abs=2e-5)


def test_the_more_kurtosis_the_worse_up_to_the_worst_law_of_all():
    """From the law of one value at 1 to that on 0 and t0, whose kurtosis is t0/m2, and no further."""
    m2, c = 1.0, 3.0
    kappas = np.linspace(1, 14, 40)
    missed = np.array([worst_noncoverage(1 / (1 + m2), 1 - 2 * stats.norm.sf(c / np.sqrt(1 + m2)), k) for k in kappas])
    assert missed[0] == pytest.approx(stats.norm.sf(c - 1) + stats.norm.sf(c + 1), abs=1e-14)
    assert (np.diff(missed) >= -1e-15).all()
    assert missed[-1] == worst_noncoverage(0.5, 1 - 2 * stats.norm.sf(c / np.sqrt(2)))


@pytest.mark.parametrize(
    ("m2", "kappa", "c"),
    [(1e-4, 1.001, 9.0), (3.6e-6, 1.0004, 10.7), (2e-5, 1.009, 9.3), (0.05, 1.5, 4.0), (1.0, 1.2, 4.0), (0.3, 1.01, 3.0)],
)
def test_no_law_of_two_biases_misses_more_than_the_worst_however_rare_the_larger_one_is(m2, kappa, c):
    """The law with mean m2 and variance (kappa - 1) m2^2 of the squared bias whose larger value lies `above` m2."""

    def misses(u):
        return stats.norm.sf(c - u) + stats.norm.cdf(-c - u)

    variance = (kappa - 1) * m2**2
    above = np.geomspace(variance / m2, 4 * c**2, 200_001)
    rare = variance / (variance + above**2)
    missed = (1 - rare) * misses(np.sqrt(np.maximum(m2 - variance / above, 0))) + rare * misses(np.sqrt(m2 + above))
    np.testing.assert_allclose(worst(m2, kappa, c), missed.max(), rtol=1e-7)


def test_worst_noncoverage_of_the_usual_interval():
    np.testing.assert_allclose(
        worst_noncoverage([0.9, 0.5, 0.3, 0.1, 0.01]), [0.0511, 0.0705, 0.0973, 0.1462, 0.2085], atol=5e-5
    )
    assert worst_noncoverage(1.0) == pytest.approx(0.05, abs=1e-12)


def test_many_ratios_are_interpolated():
    ratios = np.geomspace(1e-3, 300, 150)
    found = robust_critical_value(ratios)
    np.testing.assert_allclose(found[::15], [float(robust_critical_value(x)) for x in ratios[::15]], rtol=1e-5)
    assert (np.diff(found) > 0).all()


def test_fab_golden_number_and_limits():
    """Hoff and Yu (2018); a prior of any width leads to the usual interval, and one that is far away does not break it."""
    np.testing.assert_allclose(fab_interval(1.5, 1.0, 0.0, 1.0), (-0.262941, 3.144854), atol=5e-7)
    np.testing.assert_allclose(fab_interval(1.5, 1.0, 0.0, 1e9), 1.5 + np.array([-1, 1]) * stats.norm.ppf(0.975), atol=1e-6)
    low, high = fab_interval(np.array([100.0, -1e6]), 1.0, 0.0, 0.01)
    assert np.isfinite([low, high]).all()
    assert (low < high).all()


@pytest.mark.parametrize("theta", [0.0, 1.0, 4.0])
def test_fab_holds_for_every_theta(theta):
    """P(theta inside) = 0.9 by quadrature over y: the region of acceptance is an interval of that probability."""
    y = np.linspace(theta - 8, theta + 8, 20001)
    low, high = fab_interval(y, 1.0, 0.5, 2.0, level=0.9)
    inside = (low <= theta) & (theta <= high)
    assert integrate.trapezoid(stats.norm.pdf(y, theta) * inside, y) == pytest.approx(0.9, abs=1e-3)
    assert np.mean(np.diff(inside.astype(int)) != 0) * 20000 == pytest.approx(2, abs=0.1)


def test_moments_of_ebci():
    """mu2 is unbiased where it is not truncated: 20,000 clients with theta of second moment 2 and kurtosis 3."""
    generator = np.random.default_rng(1)
    v = np.exp(generator.uniform(-1, 1, 20000))
    found = second_moments(generator.normal(0, np.sqrt(2 + v)), v)
    assert found.mu2 == pytest.approx(2, abs=0.1)
    assert found.kappa == pytest.approx(3, abs=0.6)
    assert second_moments([0.0] * 10, 1.0).mu2 == pytest.approx(2 / 10)  # flat prior's remainder: never 0


@given(st.integers(2, 30), st.integers(0, 200), st.floats(-6, 6), st.floats(-100, 100))
def test_intervals_are_equivariant(m, seed, exponent, shift):
    generator = np.random.default_rng(seed)
    y, v, unit = generator.normal(0, 2, m), np.exp(generator.uniform(-1, 1, m)), 10.0**exponent
    for intervals in (robust_intervals, fab_intervals):
        one, two = intervals(y, v), intervals((y + shift) * unit, v * unit**2)
        for a, b in zip(one, two, strict=True):
            np.testing.assert_allclose(b / unit - shift, a, atol=1e-7 * (1 + abs(shift)))


def test_a_client_does_not_move_its_own_guess():
    """Intervals for every client are exact as their guess of the prior does not depend on the client itself."""
    y, v = np.array([0.3, -1.0, 2.0, 0.5]), np.array([1.0, 0.5, 2.0, 1.0])
    moved = y.copy()
    moved[0] += 3.0
    one, two = fab_intervals(y, v), fab_intervals(moved, v)
    # The same guess of mu and tau2 explains both intervals of client 0.
    guess = optimize.least_squares(
        lambda x: np.subtract(fab_interval(y[0], v[0], x[0], np.exp(x[1])), (one[0][0], one[1][0])),
        [0.0, 0.0],
        xtol=1e-15,
        ftol=1e-15,
    )
    np.testing.assert_allclose(
        fab_interval(moved[0], v[0], guess.x[0], np.exp(guess.x[1])), (two[0][0], two[1][0]), atol=1e-4
    )


@pytest.mark.parametrize(
    ("y", "v"),
    [
        ([1.0, 2.5, 3e8], [1.0, 0.5, 1e16]),
        ([1.0, 2.0, 2.5, -1.0], [1e-20, 1.0, 2.0, 1.5]),
        ([1.0, 2.0, 7.0, 3.0], [1.0, 2, 3, 4]),
    ],
)
def test_the_guess_is_that_of_the_others_whatever_their_variances(y, v):
    """DerSimonian and Laird's moments in exact arithmetic, of the others alone."""
    found = fab_intervals(y, v)
    for i in range(len(y)):
        others = [(Fraction(a), 1 / Fraction(b)) for j, (a, b) in enumerate(zip(y, v, strict=True)) if j != i]
        total = sum(w for _, w in others)
        mu = sum(w * a for a, w in others) / total
        q, freedom = sum(w * (a - mu) ** 2 for a, w in others), len(others) - 1
        slope = total - sum(w**2 for _, w in others) / total
        tau2 = max(float(q - freedom), (2 * freedom) ** 0.5) / float(slope)
        ends = fab_interval(y[i], v[i], float(mu), tau2 + float(1 / total))
        np.testing.assert_allclose((found[0][i], found[1][i]), ends, rtol=1e-7)


MODELS = [
    GaussianMeans(),
    PointNormalMeans(),
    PointNormalMeans(prior="marginal-likelihood"),
    MixtureMeans(k=2),
    NonparametricMeans(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_models_of_normal_estimates_offer_them(model):
    generator = np.random.default_rng(3)
    v = np.exp(generator.uniform(-1, 1, 12))
    y = generator.normal(2.0, np.sqrt(1 + v))
    model.fit(y, v)
    for method, intervals in (("robust", robust_intervals), ("every-client", fab_intervals)):
        np.testing.assert_array_equal(model.interval(0.9, method), intervals(y, v, 0.9))
    worst = model.worst_noncoverage()
    np.testing.assert_allclose(worst, worst_noncoverage(linear_shrinkage(y, v).weights))
    assert ((worst > 0.05) & (worst < 0.4)).all()
    with pytest.raises(ValueError, match="method must be one of"):
        model.interval(0.9, "bayes")


def test_infinite_variances_and_bad_input():
    for intervals in (robust_intervals, fab_intervals):
        low, high = intervals([1.0, 2.0, 4.0, 9.0], [1.0, 1.0, 2.0, np.inf])
        assert (low[3], high[3]) == (-np.inf, np.inf)
        np.testing.assert_allclose((low[:3], high[:3]), intervals([1.0, 2.0, 4.0], [1.0, 1.0, 2.0]))
        with pytest.raises(ValueError, match="at least two estimates of finite variance"):
            intervals([1.0, 2.0], [1.0, np.inf])
        with pytest.raises(ValueError, match="s2 must be > 0"):
            intervals([1.0, 2.0], [1.0, 0.0])
        with pytest.raises(ValueError, match="level must lie strictly"):
            intervals([1.0, 2.0], [1.0, 1.0], level=1.0)
    for call in (
        lambda: robust_critical_value(-1.0),
        lambda: robust_critical_value(1.0, kappa=0.5),
        lambda: worst_noncoverage(0.0),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
    rates = NonparametricRates().fit([1, 5, 9], 10)
    for method in ("robust", "every-client"):
        with pytest.raises(ValueError, match="which NonparametricRates has not"):
            rates.interval(method=method)
    with pytest.raises(ValueError, match="'bootstrap' is for mixtures"):
        GaussianMeans().fit([1.0, 2.0, 3.0], 1.0).interval(method="bootstrap")
