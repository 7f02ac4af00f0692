"""Designs of finite outputs and the count of reports far out, number by number: enumeration, SciPy and simulation."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from estimators.accounting import Guarantee
from estimators.private import FiniteOutput, outlying, window_designs
from estimators.private.agreement import Heard
from estimators.private.mechanisms import least_noise, worst_variances
from estimators.private.outlying import Noise, limits, pull, read, spread_of
from estimators.private.reports import MeanReport
from estimators.private.window_designs import Design, descent, design, finished, two_point, weights, worst_of

RNG = np.random.default_rng
SMALL = Design(1.0, 2, 7, 3, (-5, -2, 0, 2, 5))


def laws(d):
    """The law of a report at every window, in fractions: the likely cells have more weight."""
    total = len(d.scores) * d.outside + d.width * (d.inside - d.outside)
    found = []
    for start in range(len(d.scores) - d.width + 1):
        likely = range(start, start + d.width)
        found.append([Fraction(d.inside if i in likely else d.outside, total) for i in range(len(d.scores))])
    return found


@pytest.mark.parametrize("d", [SMALL, Design(1.0, 1, 9, 2, (-1, 1)), Design(0.5, 3, 8, 5, (-9, -4, -1, 1, 4, 9))])
def test_a_design_is_unbiased_and_its_worst_variance_is_the_worst(d):
    every = laws(d)
    assert d.total == sum(d.inside if i < d.width else d.outside for i in range(len(d.scores)))
    means = [sum(p * s for p, s in zip(law, d.scores, strict=True)) for law in every]
    unit = 1 / means[-1]  # so that the last window stands at 1
    np.testing.assert_allclose(d.values(), [float(s * unit) for s in d.scores], rtol=1e-14)
    np.testing.assert_allclose(d.knots(), [float(m * unit) for m in means], rtol=1e-14)
    assert d.sums() == [sum(d.scores[i : i + d.width]) for i in range(len(every))]
    assert d.sums(2) == [sum(s * s for s in d.scores[i : i + d.width]) for i in range(len(every))]
    worst = Fraction(0)
    for one, two in pairwise(every):
        for k in range(401):
            share = Fraction(k, 400)
            law = [(1 - share) * a + share * b for a, b in zip(one, two, strict=True)]
            first = sum(p * s * unit for p, s in zip(law, d.scores, strict=True))
            second = sum(p * (s * unit) ** 2 for p, s in zip(law, d.scores, strict=True))
            worst = max(worst, second - first**2)
    assert worst <= d.worst_variance()
    assert float(d.worst_variance()) == pytest.approx(float(worst), rel=1e-5)


@pytest.mark.parametrize("eps", [1e-9, 0.3, 2.0, 6.9, 7.0, 12.0, 20.0])
def test_weights_are_private_and_hardly_less_than_they_may_be(eps):
    for outputs, width in ((2, 1), (24, 12), (47, 12)):
        inside, outside = weights(eps, outputs, width)
        assert outputs * outside + width * (inside - outside) <= 1 << 62
        with np.errstate(over="ignore"):
            odds = Fraction(inside, outside)
        assert float(odds) <= np.exp(eps) * (1 + 1e-15)
        assert float(odds) == pytest.approx(np.exp(eps), rel=1e-12)
        assert (outputs * outside + width * (inside - outside)) > (1 << 62) * (1 - 1e-6)


def test_two_outputs_are_randomised_response():
    for eps in (0.2, 1.0, 5.0):
        b = (np.exp(eps) + 1) / (np.exp(eps) - 1)
        assert two_point(eps).values() == pytest.approx([-b, b], rel=1e-9)
        assert 2**62 * (1 - 1e-6) < two_point(eps).total <= 2**62
        assert float(two_point(eps).worst_variance()) == pytest.approx(b * b, rel=1e-9)


@pytest.mark.parametrize("eps", [0.4, 3.0, 6.99, 7.01, 15.0])
def test_the_design_has_the_variance_that_its_search_saw(eps):
    best = design(eps)
    assert best.width == 12
    scores = np.array(best.scores, float)
    np.testing.assert_allclose(scores, -scores[::-1])
    assert (np.diff(scores) > 0).all()
    assert worst_of(scores, eps) == pytest.approx(float(best.worst_variance()), rel=1e-8)
    solve = window_designs.sine_scores if eps >= 7 else window_designs.convex_scores
    n = len(scores)
    here = solve(eps, n)
    assert here[0] == pytest.approx(float(best.worst_variance()), rel=5e-3)  # but for whole scores
    for other in (n - 1, n + 1):
        if other >= 24:
            assert solve(eps, other)[0] >= here[0] * (1 - 1e-12)
    plain = finished(eps, 12, np.linspace(-1, 1, n))
    assert float(plain.worst_variance()) >= float(best.worst_variance()) * (1 - 2e-3)


@pytest.mark.parametrize("eps", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("power", [0.1, 0.5, 1.0, 4.0])
def test_the_variance_that_a_search_sees_is_that_of_any_scores(eps, power):
    for outputs in (24, 25, 37, 80):
        upper = np.sort(RNG(outputs).uniform(0.01, 1.0, outputs // 2)) ** power
        scores = np.concatenate([-upper[::-1], np.zeros(outputs % 2), upper])
        d = finished(eps, 12, scores)
        assert worst_of(np.array(d.scores, float), eps) == pytest.approx(float(d.worst_variance()), rel=1e-8)


@pytest.mark.parametrize("eps", [7.0, 9.0])
def test_scores_of_a_sine_are_the_best_of_multiples_of_a_64th(eps):
    n = len(design(eps).scores)
    t = (2 * np.arange(n) + 1 - n) / n
    found, scores = window_designs.sine_scores(eps, n)
    kappa = 64 * np.arcsin(scores[-1]) / t[-1]
    assert kappa == pytest.approx(np.rint(kappa), abs=1e-9)
    np.testing.assert_allclose(scores, np.sin(np.rint(kappa) / 64 * t), rtol=1e-12)
    assert all(worst_of(np.sin((np.rint(kappa) + k) / 64 * t), eps) > found for k in (-1, 1))


def test_the_convex_program_ends_when_its_bound_is_near(monkeypatch):
    solves, solve = [], np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda *each: solves.append(1) or solve(*each))
    for eps, outputs in ((1.0, 26), (3.0, 37)):
        solves.clear()
        window_designs.convex_scores.__wrapped__(eps, outputs)
        assert 1 < len(solves) < window_designs.STEPS


def test_the_best_values_are_those_of_a_minimax_program():
    """Small enough for a general optimiser: outputs of a window of 12 among 26, at an eps of 1."""
    found, scores = window_designs.convex_scores(1.0, 26)
    half = scores[13:] / scores[-1]

    def cost(upper):
        return worst_of(np.concatenate([-upper[::-1], upper]), 1.0)

    best = optimize.minimize(cost, half, method="Nelder-Mead", options={"maxiter": 3000, "fatol": 1e-12, "xatol": 1e-9})
    assert found <= best.fun * (1 + 1e-3)


def test_a_search_by_halving_steps_ends_where_no_neighbour_is_better():
    for place in (3, 40, 977):
        for start in (1, 50, 1000):
            assert descent(lambda n, place=place: (n - place) ** 2, start, 1, 1000) == place
    assert descent(lambda n: n, 30, 5, 100) == 5
    assert descent(lambda n: -n, 30, 5, 100) == 100


def test_rounded_scores_stay_odd_and_increasing():
    d = finished(1.0, 2, np.array([-1.0, -1e-9, 0.0, 1e-9, 1.0]))
    assert d.scores == (-(1 << 14), -1, 0, 1, 1 << 14)
    assert finished(1.0, 2, np.array([-2.0, -0.5, 0.5, 2.0])).scores == (-(1 << 14), -(1 << 12), 1 << 12, 1 << 14)


@pytest.mark.parametrize(
    ("bounds", "eps", "outputs"), [((-2.0, 5.0), 3.0, None), ((0.0, 1.0), 0.8, 2), ((1.0, 4.0), 8.0, None)]
)
def test_a_release_has_its_law_its_mean_and_its_variance(bounds, eps, outputs):
    law = FiniteOutput(bounds=bounds, eps=eps, outputs=outputs)
    low, high = bounds
    truth = low + (high - low) * np.array([0.0, 0.13, 0.5, 0.77, 1.0])
    chances = np.exp(law.log_likelihood(law.values[:, None], truth))
    np.testing.assert_allclose(chances.sum(axis=0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(law.values @ chances, truth, atol=1e-9)
    np.testing.assert_allclose(law.values**2 @ chances - truth**2, law.variance(truth), rtol=1e-8)
    fine = np.linspace(low, high, 3001)
    assert law.worst_variance == pytest.approx(law.variance(fine).max(), rel=1e-4)
    every = np.exp(law.log_likelihood(law.values[:, None], fine))
    assert np.log(every.max(axis=1) / every.min(axis=1)).max() <= eps * (1 + 1e-12)
    np.testing.assert_array_equal(law.position(law.values), np.arange(law.values.size))
    slack = 0.9e-9 * (law.values[-1] - law.values[0])
    np.testing.assert_array_equal(law.position(law.values + slack), np.arange(law.values.size))
    with pytest.raises(ValueError, match="values must be among"):
        law.position(law.values[:1] - 1.2 * slack / 0.9)
    draws = law.release(np.full(8000, truth[1]), RNG(1))
    assert abs(draws.mean() - truth[1]) < 5 * np.sqrt(law.variance(truth[1]) / 8000)
    assert draws.var() == pytest.approx(float(law.variance(truth[1])), rel=0.15)
    for bad in (low - 1e-12, high + 1e-12):
        with pytest.raises(ValueError, match="truth must lie within"):
            law.release(bad)


def test_mechanisms_are_compared_by_the_variances_of_their_laws():
    found = worst_variances(eps=1.7, delta=1e-5, options=["discrete-laplace", "two-point", "gaussian", "staircase"])
    assert found["discrete-laplace"] == pytest.approx(2 / 1.7**2)
    assert found["two-point"] == pytest.approx(((np.exp(1.7) + 1) / (np.exp(1.7) - 1)) ** 2 / 4, rel=1e-9)
    b = np.exp(-1.7)
    best = optimize.minimize_scalar(
        lambda g: sum(
            2 * integrate.quad(lambda x, k=k: x * x * b**k * (b if x - k >= g else 1.0), k, k + 1, points=[k + g])[0]
            for k in range(40)
        ) * (1 - b) / (2 * (g + b * (1 - g))), bounds=(0.05, 0.95), method="bounded",
    )  # fmt: skip
    assert found["staircase"] == pytest.approx(best.fun, rel=1e-5)
    assert worst_variances(eps=np.inf, options=["staircase"])["staircase"] == 0
    assert worst_variances(eps=1.0, options=["gaussian"])["gaussian"] == np.inf
    for name in ("staircase", "two-point", "finite-output"):
        assert worst_variances(eps=0.9e-9, options=[name])[name] == np.inf
        assert worst_variances(eps=1e-9, options=[name])[name] < np.inf
    assert worst_variances(eps=25.0, options=["two-point"]) == worst_variances(eps=20.0, options=["two-point"])
    two = ["two-point", "discrete-laplace"]
    assert least_noise(eps=1.7, options=two) == min(two, key=lambda name: found[name])
    with pytest.raises(ValueError, match="options must be names"):
        worst_variances(eps=1.0, options=["salt"])


# --- reports far out -------------------------------------------------------------------------------------------------------


def test_limits_of_how_many_lie_beyond_a_chance():
    for m in (10, 200):
        levels, most = limits(m)
        assert levels[0] == 0.1
        np.testing.assert_allclose(levels[1:] / levels[:-1], 0.5)
        assert 0.01 / 2**8 < levels[-1] * m < 0.01 / 2**7  # so rare that one report is too many, and no rarer
        np.testing.assert_array_equal(most, stats.binom.isf(0.01 / levels.size, m, levels))
        assert stats.binom.sf(most, m, levels).sum() <= 0.01


def report(value, mechanism, noise, n=9, rounding=0.0, eps=1.0, adjacency="row"):
    made = Guarantee(eps, 0.0, adjacency, "client", mechanism)
    return MeanReport("", n, made, value, noise, rounding, (-3.0, 5.0))


def test_what_is_normal_in_reports_is_told_from_the_rest():
    reports = [
        report(1.0, "discrete-laplace", 0.5, rounding=0.01),
        report(2.0, "gaussian", 0.3, n=4),
        report(0.5, "none", 0.0),
    ]
    x, own, noise = read(reports, 1.8)
    assert x.tolist() == [1.0, 2.0, 0.5]
    np.testing.assert_allclose(own, [0.01 + 0.2, 0.3 + 0.45, 0.2])
    np.testing.assert_allclose(noise.scale, [0.5, 0, 0])
    np.testing.assert_allclose(noise.variance(), [0.5, 0, 0])
    assert noise.law is None
    sd = np.array([0.4, 0.5, 0.6])
    found = noise.beyond(np.array([1.0, 1.0, 1.0]), sd)
    chance = integrate.quad(
        lambda u: stats.laplace.pdf(u, scale=0.5) * 2 * stats.norm.sf((1 - u) / 0.4), -20, 20, points=[0, 1]
    )[0]
    assert found[0] == pytest.approx(chance, rel=1e-6)
    np.testing.assert_allclose(found[1:], 2 * stats.norm.sf(1 / sd[1:]), rtol=1e-12)
    _, own, noise = read([report(1.0, "staircase", 0.9, eps=2.0), report(1.0, "gaussian", 0.3)], 0.0)
    np.testing.assert_allclose(own, [0.0, 0.3])
    np.testing.assert_allclose(noise.variance(), [0.9, 0.0])
    assert noise.stairs.tolist() == [0]
    assert read([report(1.0, "staircase", 0.0)], 0.0)[2].law is None  # no noise has no law


def test_the_spread_of_clients_is_found_by_the_middle_half():
    """Normal reports alone: the upper end of the spread puts a half of them, less 2.3 standard errors, beyond it."""
    m = 400
    away, own = np.abs(stats.norm.ppf((np.arange(m) + 0.5) / m)) * 2.0, np.full(m, 1.0)
    noise = Noise(np.zeros(m), np.empty(0, int), None)
    inner = 0.5 - stats.norm.ppf(0.99) / (2 * np.sqrt(m))
    at = np.quantile(away, 1 - inner)  # so many lie farther out
    exact = (at / stats.norm.ppf(0.75)) ** 2 - 1
    assert spread_of(away, own, noise) == pytest.approx(exact, rel=0.02)
    assert spread_of(away * 0.1, own, noise) == 0
    assert spread_of(np.zeros(m), own, noise) == 0


def test_what_liars_can_do_below_every_limit():
    """Normal reports of equal variance: the j-th liar stays nearer than the first level whose limit is below j."""
    m, liars = 200, 12
    levels, most = limits(m)
    noise, normal2 = Noise(np.zeros(m), np.empty(0, int), None), np.full(m, 2.5)
    far = stats.norm.isf(levels / 2) * np.sqrt(2.5)
    exact = sum(far[np.sum(most >= j)] for j in range(1, liars + 1)) / m
    assert pull(liars, normal2, noise, levels, most) == pytest.approx(exact, rel=1e-9)
    laplace = Noise(np.full(m, 1.0), np.empty(0, int), None)
    far = []
    for p in levels:
        chance = lambda t: float(laplace.beyond(np.full(m, t), np.full(m, np.sqrt(0.5)))[0])  # noqa: E731
        far.append(optimize.brentq(lambda t, p=p, chance=chance: chance(t) - p, 0, 60))
    exact = sum(far[int(np.sum(most >= j))] for j in range(1, liars + 1)) / m
    assert pull(liars, np.full(m, 0.5), laplace, levels, most) == pytest.approx(exact, rel=1e-8)
    assert pull(0, normal2, noise, levels, most) == 0


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e3])
def test_the_spread_has_the_units_of_the_reports(unit):
    m = 50
    away, own = np.abs(RNG(1).normal(size=m)) * unit, RNG(2).uniform(0.01, 0.2, m) * unit**2
    noise = Noise(np.zeros(m), np.empty(0, int), None)
    inner = 0.5 - stats.norm.ppf(0.99) / (2 * np.sqrt(m))
    for scale in (1.0, 1 / away.max()):  # the farthest may lie anywhere, at 1, too

        def level(v, scale=scale):
            return np.quantile(2 * stats.norm.sf(scale * away / np.sqrt(scale**2 * (own + v))), inner) - 0.5

        exact = optimize.brentq(level, 0, 100 * unit**2, xtol=1e-14 * unit**2)
        assert exact > 0
        assert spread_of(scale * away, scale**2 * own, noise) == pytest.approx(scale**2 * exact, rel=1e-6)


def stairs_beyond(law, i, distance, sd):
    """Chance to lie farther out on either side, of a staircase and a normal error, step by step."""
    k, D, inner = np.arange(40), law.width[i], law.inner[i]
    height = np.exp(-law.used[i] * k)
    low, high = np.concatenate([k, k + inner]) * D, np.concatenate([k + inner, k + 1]) * D
    height = np.concatenate([height, height * law.step[i]])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    u, each = (high + low)[:, None] / 2 + (high - low)[:, None] / 2 * nodes, (high - low)[:, None] / 2 * weights
    tails = stats.norm.sf((distance - u) / sd) + stats.norm.sf((distance + u) / sd)
    return (height[:, None] * each * tails).sum() / (height * (high - low)).sum()


STAIRS = [
    report(1.0, "staircase", 0.9, eps=2.0), report(1.0, "gaussian", 0.3), report(2.0, "staircase", 0.04, n=36, eps=3.0),
    report(2.0, "staircase", 0.04, n=36, eps=3.0), report(1.5, "staircase", 0.9, eps=2.0),
]  # fmt: skip


def test_staircases_lie_beyond_a_distance_as_their_steps_do():
    _, _, noise = read(STAIRS, 0.0)
    distance, sd = np.array([0.7, 1.0, 0.3, 0.9, 2.6]), np.array([0.5, 0.4, 0.11, 0.25, 0.9])
    found = noise.beyond(distance, sd)
    assert found[1] == pytest.approx(2 * stats.norm.sf(1.0 / 0.4), rel=1e-12)
    for i, place in enumerate([0, 2, 3, 4]):
        assert found[place] == pytest.approx(stairs_beyond(noise.law, i, distance[place], sd[place]), rel=1e-7)
    _, _, many = read([STAIRS[0]] * 200, 0.0)
    assert many.beyond(np.full(200, 1e-18), 10.0 ** np.linspace(-6, 0.5, 200)).max() == 1.0  # whatever roundings add


def test_liars_behind_staircases_can_do_what_the_shape_that_allows_the_most_does():
    m, liars = 40, 18
    alone = report(1.0, "staircase", 1.5, eps=0.9)
    reports = [*[STAIRS[0]] * 20, *[STAIRS[2]] * 18, alone, STAIRS[1]]
    _, own, noise = read(reports, 0.0)
    normal2 = own + np.repeat([0.02, 0.9, 0.1, 0.5], [20, 18, 1, 1])  # each shape has one part of its variance
    variance = normal2 + noise.variance()
    levels, most = limits(m)
    strongest = []
    for p in levels:
        far = [stats.norm.isf(p / 2)]
        for i in (0, 20, 38):
            tail = lambda t, i=i, p=p: stairs_beyond(noise.law, i, t, np.sqrt(normal2[i])) - p  # noqa: E731
            far.append(optimize.brentq(tail, 0, 60) / np.sqrt(variance[i]))
        strongest.append(max(far) / np.sqrt(variance.min()))
    exact = sum(strongest[int(np.sum(most >= j))] for j in range(1, liars + 1)) / np.sum(1 / variance)
    assert pull(liars, normal2, noise, levels, most) == pytest.approx(exact, rel=1e-6)


def of_outputs(mechanism, values, eps, noise=1.0):
    return [report(float(value), mechanism, noise, eps=eps, adjacency="client") for value in values]


def test_liars_send_the_outermost_output_and_those_of_most_weight_lie():
    """Two mechanisms at once, of two weights: the sum of the farthest pulls over all weights."""
    two, many = (FiniteOutput(bounds=(-3.0, 5.0), eps=2.0, outputs=k) for k in (2, None))
    reports = [
        *of_outputs("two-point", [two.values[i % 2] for i in range(20)], 2.0, 4.0),
        *(of_outputs("finite-output", [many.values[i % many.values.size]], 2.0, 1 + i / 10)[0] for i in range(21)),
    ]
    found = outlying.doubt(Heard(reports, list(range(41)), [], 0.0), hostile=0.2, sigma2=0.0)
    weights = np.array([1 / 4] * 20 + [1 / (1 + i / 10) for i in range(21)])
    pulls = np.sort(weights * np.array([two.values[-1] + 3.0] * 20 + [many.values[-1] + 3.0] * 21))
    assert found.influence == pytest.approx(pulls[-8:].sum() / weights.sum(), rel=1e-9)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("m", [60, 77, 150, 400])
@pytest.mark.parametrize("upper", [True, False])
def test_more_outermost_outputs_than_honest_clients_send_are_told(groups, m, upper, recwarn):
    """One false alarm in a hundred over all outputs, either end and all kinds of reports."""
    chance = np.exp(2.0) / (1 + np.exp(2.0))
    limit = int(stats.binom.isf(0.01 / (2 * 2 * groups), m, chance))
    low, high = FiniteOutput(bounds=(-3.0, 5.0), eps=2.0, outputs=2).values[:: 1 if upper else -1]
    others = of_outputs("two-point", np.tile(FiniteOutput(bounds=(-3.0, 5.0), eps=3.0, outputs=2).values, 10), 3.0)
    for many in (limit, limit + 1):
        recwarn.clear()
        said = of_outputs("two-point", [high] * many + [low] * (m - many), 2.0) + (others if groups == 2 else [])
        outlying.doubt(Heard(said, list(range(len(said))), [], 0.0), hostile=0.1)
        assert [f"{many} of {m} reports are among the 1" in str(w.message) for w in recwarn] == [True] * (many > limit)


def test_outputs_bound_what_liars_can_do():
    law = FiniteOutput(bounds=(-3.0, 5.0), eps=2.0, outputs=2)
    reports = [report(float(law.values[i % 2]), "two-point", 1.0, eps=2.0, adjacency="client") for i in range(40)]
    heard = Heard(reports, list(range(40)), [], 0.0)
    found = outlying.doubt(heard, hostile=0.1)
    assert found.influence == pytest.approx(0.1 * (law.values[-1] + 3.0), rel=1e-12)
    for hostile in (0.5, 0.6):
        with pytest.raises(ValueError, match="hostile must be below"):
            outlying.doubt(heard, hostile=hostile)
    assert outlying.doubt(heard, hostile=float(np.nextafter(0.5, 0))).influence > found.influence
    with pytest.raises(ValueError, match="at least 10 clients"):
        outlying.doubt(Heard(reports[:9], list(range(9)), [], 0.0), hostile=0.1)
    outlying.doubt(Heard(reports[:10], list(range(10)), [], 0.0), hostile=0.1)
    extreme = [report(float(law.values[-1]), "two-point", 1.0, eps=2.0, adjacency="client")] * 100
    with pytest.warns(UserWarning, match="some lie"):
        outlying.doubt(Heard(extreme, list(range(100)), [], 0.0), hostile=0.1)
