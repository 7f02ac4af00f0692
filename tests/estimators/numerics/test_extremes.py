"""Closed forms at the ends of floating-point numbers, against exact rational arithmetic of the same formulas."""

import itertools
import math
import warnings
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest

from estimators.accounting import dpsgd
from estimators.accounting.mechanisms import gaussian_epsilon, private_mean
from estimators.accounting.privacy import rdp_pure
from estimators.closed_forms import (
    aggregation,
    bernoulli,
    gaussian,
    mean_regularized,
    mixture,
    personalization,
    quantization,
    regression,
)
from estimators.closed_forms.aggregation import least_variance
from estimators.numerics import limits
from estimators.server import server_weights, strengths

INF = math.inf
EXTREMES = [0.0, 5e-324, 3e-310, 1e-300, 1e-150, 1.0, 3.0, 1e150, 1e300, 1.5e308]
TINY, LARGEST = F(5e-324), F(1.7976931348623157e308)


def agrees(found, exact, steps, size=0):
    """Whether `found` is the exact number (a Fraction or inf) to rounding, or to one step of subnormals, or out of range."""
    if exact is None or exact == INF:
        return exact is None or found == INF
    if abs(exact) > LARGEST * F(1 - 1e-13):
        return abs(found) >= 1.7976931348623e308
    return math.isfinite(found) and abs(F(found) - exact) <= (abs(exact) + size) * F(1e-13) + steps * TINY


def div(a, b):
    return a / b if b else (F(0) if a == 0 else INF)


def harmonic(a, b):
    return div(a * b, a + b)


def pooled(counts, s):
    """1 / sum(n / s), 0 with an exact one among them."""
    some = [(n, v) for n, v in zip(counts, s, strict=True) if n]
    if not some:
        return INF
    return F(0) if any(v == 0 for _, v in some) else 1 / sum(n / v for n, v in some)


def levels_case(a, t, g, N=(2, 3)):
    s = [F(a) + F(t) + n * F(x) for n, x in zip(N, g, strict=True)]
    return N, s


def mse(lam, w, a, spread):
    return (1 / (1 + lam) + lam / (1 + lam) * w) ** 2 * a + (lam / (1 + lam)) ** 2 * spread


def server(N, s, r):
    total = sum(n * x for n, x in zip(N, r, strict=True))
    return sum(n * (x / total) ** 2 * v for n, x, v in zip(N, r, s, strict=True))


def own_strength(N, s, a, t, g, own_noise):
    V = pooled((N[0] - 1, N[1]) if own_noise else N, s)
    part = div(N[0] * g[0], s[0])
    if V == INF:
        return F(0) if part else None
    return div(a, t + part * V)


def bayes(N, s, a, t):
    V = pooled((N[0] - 1, N[1]), s)
    return harmonic(t + V, a)


CASES = {
    # name: (function of floats, the same with Fractions, number of arguments)
    "limits.harmonic": (limits.harmonic, harmonic, 2),
    "limits.share": (limits.share, lambda a, b: div(a, a + b) if a + b else F(0), 2),
    "limits.pooled_variance": (
        lambda a, b: limits.pooled_variance([2.0, 3.0], [a, b]),
        lambda a, b: pooled((2, 3), (a, b)),
        2,
    ),
    "aggregation.optimal_ratio": (
        lambda a, t, g, h: aggregation.optimal_ratio(2, 3, a, t, g, h),
        lambda a, t, g, h: F(1) if 2 * g == 3 * h else div(a + t + 2 * g, a + t + 3 * h),
        4,
    ),
    "aggregation.level_weights": (
        lambda a, t, g, h: aggregation.level_weights([2, 3], [g, h], a, t)[1],
        lambda a, t, g, h: (
            lambda s: F(1, 5) if s[0] == s[1] else (F(s[1] == 0, 3) if 0 in s else (1 / s[1]) / (2 / s[0] + 3 / s[1]))
        )([a + t + 2 * g, a + t + 3 * h]),
        4,
    ),
    "aggregation.server_mse": (
        lambda a, t, g, h: aggregation.server_mse([2, 3], [g, h], a, t),
        lambda a, t, g, h: pooled((2, 3), (a + t + 2 * g, a + t + 3 * h)),
        4,
    ),
    "aggregation.server_mse of ratios": (
        lambda a, t, g, h: aggregation.server_mse([2, 3], [g, h], a, t, [1.0, 0.5]),
        lambda a, t, g, h: server((2, 3), (a + t + 2 * g, a + t + 3 * h), (F(1), F(1, 2))),
        4,
    ),
    "aggregation.precision_weights": (
        lambda a, b: aggregation.precision_weights([a, b])[1],
        lambda a, b: F(1, 2) if a == b else a / (a + b),
        2,
    ),
    "aggregation.eps_weights": (
        lambda a, b: aggregation.eps_weights([a, b])[1],
        lambda a, b: b / (a + b) if a and b else None,
        2,
    ),
    "aggregation.aggregate_variance": (
        lambda v, w, a, b: aggregation.aggregate_variance([v, w], [a, b]),
        lambda v, w, a, b: (v**2 * a + w**2 * b) / (v + w) ** 2 if v + w and a and b else None,
        4,
    ),
    "aggregation.least_variance": (
        lambda a, b: least_variance([a, b]),
        lambda a, b: harmonic(a, b) if a and b else None,
        2,
    ),
    "aggregation.relative_excess": (
        lambda v, w, a, b: aggregation.relative_excess([v, w], [a, b]),
        lambda v, w, a, b: (v * a - w * b) ** 2 / (v + w) ** 2 / (a * b) if v + w and a and b else None,
        4,
    ),
    "aggregation.excess_variance": (
        lambda v, w, a, b: aggregation.excess_variance([v, w], [a, b]),
        lambda v, w, a, b: (v * a - w * b) ** 2 / (v + w) ** 2 / (a + b) if v + w and a and b else None,
        4,
    ),
    "aggregation.gap_to_uniform": (
        lambda a, t, g: aggregation.gap_to_uniform(2, 3, a, t, g),
        lambda a, t, g: F(9, 25) * g * div(F(6, 5) * g, a + t + F(6, 5) * g) if g else F(0),
        3,
    ),
    "aggregation.gap_dp_fedavg": (
        lambda a, t, g: aggregation.gap_dp_fedavg(2, 3, a, t, g),
        lambda a, t, g: F(9, 25) * g * div(F(6, 5) * g, a + t + F(6, 5) * g) + F(6, 25) * g if g else F(0),
        3,
    ),
    "personalization_strength of an own message": (
        lambda a, t, g, h: personalization.personalization_strength(1, [2, 3], [g, h], a, t, own_noise=True),
        lambda a, t, g, h: own_strength((2, 3), (a + t + 2 * g, a + t + 3 * h), a, t, (g, h), True),
        4,
    ),
    "personalization_strength of a silent message": (
        lambda a, t, g, h: personalization.personalization_strength(1, [2, 3], [g, h], a, t, own_noise=False),
        lambda a, t, g, h: own_strength((2, 3), (a + t + 2 * g, a + t + 3 * h), a, t, (g, h), False),
        4,
    ),
    "personalization.bayes_mse": (
        lambda a, t, g, h: personalization.bayes_mse(1, [2, 3], [g, h], a, t),
        lambda a, t, g, h: bayes((2, 3), (a + t + 2 * g, a + t + 3 * h), a, t),
        4,
    ),
    "mean_regularized.strength": (mean_regularized.strength, div, 2),
    "mean_regularized.mse": (
        lambda a, t: mean_regularized.mse(2.0, a, t, 4),
        lambda a, t: F(3, 4) * (a + 4 * t) / 9 + a / 4,
        2,
    ),
    "mean_regularized.mse of lam": (
        lambda lam, a, t: mean_regularized.mse(lam, a, t, 4),
        lambda lam, a, t: F(3, 4) * (a + lam**2 * t) / (1 + lam) ** 2 + a / 4,
        3,
    ),
    "mean_regularized.optimal_mse": (
        lambda a, t: mean_regularized.optimal_mse(a, t, 4),
        lambda a, t: F(3, 4) * harmonic(a, t) + a / 4,
        2,
    ),
    "mean_regularized.gap_to_local": (
        lambda a, t: mean_regularized.gap_to_local(a, t, 4),
        lambda a, t: F(3, 4) * div(a * a, a + t),
        2,
    ),
    "mean_regularized.gap_to_fedavg": (
        lambda a, t: mean_regularized.gap_to_fedavg(a, t, 4),
        lambda a, t: F(3, 4) * div(t * t, a + t),
        2,
    ),
    "mean_regularized.train_strength": (
        lambda s, d, t: mean_regularized.train_strength(s, 5, d, t),
        lambda s, d, t: div(d / 25, t + s / 5),
        3,
    ),
    "mean_regularized.silo_strength": (
        lambda a, b, c, t: mean_regularized.silo_strength(0, [a, b, c], t),
        lambda a, b, c, t: div(a, t + ((b + c) / 2 - a) / 3),
        4,
    ),
    "mean_regularized.silo_mse": (
        lambda a, b, c, t: mean_regularized.silo_mse(2.0, 0, [a, b, c], t),
        lambda a, b, c, t: mse(F(2), F(1, 3), a, F(4, 9) * t + (2 * t + b + c) / 9),
        4,
    ),
    "mean_regularized.silo_posterior_variance": (
        lambda a, b, c, t: mean_regularized.silo_posterior_variance(0, [a, b, c], t),
        lambda a, b, c, t: harmonic(a, F(3, 2) * t + (b + c) / 4),
        4,
    ),
    "mean_regularized.silo_mmse": (
        lambda a, b, c, t: mean_regularized.silo_mmse(0, [a, b, c], t),
        lambda a, b, c, t: harmonic(a, t + harmonic(t + b, t + c)),
        4,
    ),
    "mean_regularized.silo_mmse_weights": (
        lambda a, b, c, t: mean_regularized.silo_mmse_weights(0, [a, b, c], t)[0],
        lambda a, b, c, t: F(1) if a == 0 else div(t + harmonic(t + b, t + c), a + t + harmonic(t + b, t + c)),
        4,
    ),
    "gaussian.shrinkage_factor": (
        lambda t, s, q: gaussian.shrinkage_factor(t, s, 5, q, 3),
        lambda t, s, q: div(t + q / 2, t + q / 2 + s / 5),
        3,
    ),
    "gaussian.risk": (
        lambda t, s: gaussian.risk(t, s, 5, 3, d=2),
        lambda t, s: 2 * s / 5 * (t + s / 15) / (t + s / 5) if s else F(0),
        2,
    ),
    "gaussian.james_stein_risk": (
        lambda t, s: gaussian.james_stein_risk(6, t, s, 5),
        lambda t, s: s / 5 * (t + s / 10) / (t + s / 5) if s else F(0),
        2,
    ),
    "gaussian.conditional_bias": (
        lambda x, t, s: gaussian.conditional_bias([0.0, x], 0, t, s, 5),
        lambda x, t, s: div(s / 5, t + s / 5) * x / 2,
        3,
    ),
    "gaussian.conditional_risk": (
        lambda x, t, s: gaussian.conditional_risk([0.0, x], 0, t, s, 5),
        lambda x, t, s: (
            (lambda a: s / 5 * (a**2 + (1 - a**2) / 2) + ((1 - a) * x / 2) ** 2)(div(t, t + s / 5)) if s else F(0)
        ),
        3,
    ),
    "strengths with precision weights": (
        lambda a, b, t: strengths.personalization_strengths([a, b], t).lam[0],
        lambda a, b, t: div(a, t),
        3,
    ),
    "strengths with uniform weights": (
        lambda a, b, t: strengths.personalization_strengths([a, b], t, weights="uniform").lam[0],
        lambda a, b, t: (lambda d: div(a, d) if d > 0 else (INF if a else F(0)))(t + (b - a) / 2),
        3,
    ),
    "strengths of noisy messages": (
        lambda a, b, t, g: strengths.personalization_strengths([a, b], t, noises=[g, 0.0]).lam[0],
        # w / (1 - w) = s_2 / s_1 for two clients.
        lambda a, b, t, g: div(a, t + (g * (t + b) / (t + a + g) if g else 0)),
        4,
    ),
    "mse at strengths with precision weights": (
        lambda a, b, t: strengths.personalized_mse([2.0, 2.0], [a, b], t)[0],
        lambda a, b, t: (lambda w: mse(F(2), w, a, (1 - w) ** 2 * (2 * t + b)))(
            F(1, 2) if a == b else div(t + b, a + b + 2 * t)
        ),
        3,
    ),
    "mse at strengths": (
        lambda a, b, t: strengths.personalized_mse([2.0, 2.0], [a, b], t, weights="uniform")[0],
        lambda a, b, t: mse(F(2), F(1, 2), a, t / 4 + (t + b) / 4),
        3,
    ),
}


SIZES = {  # of what cancels in a difference of rounded numbers, which is then squared
    "aggregation.relative_excess": lambda v, w, a, b: ((v * a) ** 2 + (w * b) ** 2) / (v + w) ** 2 / (a * b),
    "aggregation.excess_variance": lambda v, w, a, b: ((v * a) ** 2 + (w * b) ** 2) / (v + w) ** 2 / (a + b),
}


def failures(name):
    function, exact, n = CASES[name]
    found = []
    for arguments in itertools.product(EXTREMES, repeat=n):
        expected = exact(*map(F, arguments))
        if expected is None:
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                value = float(function(*arguments))
            except ValueError as error:
                if "differ by more than a factor of 1e300" not in str(error):
                    raise
                continue
        used = [F(x) for x in arguments if x]
        size = SIZES[name](*map(F, arguments)) * F(1e-15) if name in SIZES else 0
        if not agrees(value, expected, 2**130 if used and max(used) > F(2) ** 900 else 3, size):
            found.append((arguments, value, float(expected) if expected == INF or abs(expected) <= LARGEST else "huge"))
    return found


@pytest.mark.parametrize("name", CASES)
def test_closed_forms_are_exact_at_the_ends_of_the_numbers(name):
    found = failures(name)
    assert not found, f"{len(found)} of {len(EXTREMES) ** CASES[name][2]}, such as {found[:3]}"


NEAR = [1 + sign * 10.0**-k for k in (3, 6, 9, 12) for sign in (1, -1)]


@pytest.mark.parametrize("near", NEAR)
@pytest.mark.parametrize("seed", range(5))
def test_strengths_next_to_their_pole_keep_their_digits(near, seed):
    gen = np.random.default_rng(seed)
    others, tau2 = gen.uniform(0.1, 2, 4), float(gen.uniform(0.1, 2))
    own = float((5 * tau2 + others.mean()) * near)
    exact = F(own) / (F(tau2) + (sum(map(F, others), F(0)) / 4 - F(own)) / 5)
    silos = [own, *others.tolist()]
    assert abs(F(float(mean_regularized.silo_strength(0, silos, tau2))) / exact - 1) < 1e-15
    every = mean_regularized.silo_strength(0, [np.array([1.0, s]) for s in silos], tau2)
    assert every[1] == mean_regularized.silo_strength(0, silos, tau2)
    lam = strengths.personalization_strengths(silos, tau2, weights="uniform").lam[0]
    assert lam == INF if exact < 0 else abs(F(float(lam)) / exact - 1) < 1e-15


@pytest.mark.parametrize("near", NEAR)
@pytest.mark.parametrize("own_noise", [True, False])
def test_personalization_strength_of_overrated_clients_keeps_its_digits_next_to_its_pole(near, own_noise):
    """Ratio 1 beside r for 3 others: alpha2 / spread, with the spread linear in alpha2, from exact fractions."""
    r, t, g, h = F(0.3), F(0.7), F(0.2), F(0.1)
    mass = 2 * r

    def spread(a):
        terms = 2 * r * (r * (t + 2 * h) + (r - 1) * a)
        return (mass * t + terms / mass + (g / mass if own_noise else 0)) / (mass + 1)

    pole = -spread(F(0)) / (spread(F(1)) - spread(F(0)))
    a = float(pole * F(near))
    found = personalization.personalization_strength(
        1, [1, 2], [float(g), float(h)], a, float(t), [1.0, float(r)], own_noise=own_noise
    )
    assert abs(F(float(found)) / (F(a) / spread(F(a))) - 1) < 1e-15
    two = personalization.personalization_strength(
        1, [1, 2], [float(g), float(h)], np.array([0.1, a]), float(t), [1.0, float(r)], own_noise=own_noise
    )
    assert two[1] == found


def test_pure_privacys_divergence_is_an_upper_bound_to_the_last_digit():
    gen = np.random.default_rng(0)
    sizes = [5e-324, 1e-310, 1e-200, 1e-100, 1e-20, 1e-8, 1e-3, 0.3, 1.0, 5.0, 40.0, 600.0, 1e10, 1e300]
    orders = [1 + 2**-52, 1 + 1e-10, 1.001, 1.5, 2.0, 3.0, 1e3, 1e8, 1e16, 1e200, 1e308]
    points = [
        *itertools.product(sizes, orders),
        *zip(10 ** gen.uniform(-12, 2, 500), 1 + 10 ** gen.uniform(-12, 6, 500), strict=True),
    ]
    for eps, order in points:
        with np.errstate(over="ignore"):
            found = mpmath.mpf(float(rdp_pure(eps, order)))
        with mpmath.workdps(700 if order * eps < 1e-3 else 200):
            e, a = mpmath.mpf(float(eps)), mpmath.mpf(float(order))

            def log_cosh(x):
                return x + mpmath.log1p(mpmath.expm1(-2 * x) / 2)

            exact = (log_cosh((a - 1) * e + e / 2) - log_cosh(e / 2)) / (a - 1)
            assert found >= exact or found == eps, (eps, order)
            assert found <= exact * (1 + mpmath.mpf(24) / 2**52) + 5e-324, (eps, order)


def test_the_smallest_epsilon_of_gaussian_noise_is_rounded_up_and_by_no_more():
    """At eps delta is reached, and at the number below it is not: for noise from next to nothing to next to infinite."""

    def tail(x):
        return mpmath.erfc(x / mpmath.sqrt(2)) / 2

    def delta(eps, step):
        return tail(eps / step - step / 2) - mpmath.exp(eps) * tail(eps / step + step / 2)

    gen, judged, none = np.random.default_rng(0), 0, 0
    for place in range(300):
        log = gen.uniform(*[(-8, 0.7), (0.7, 12), (-300, -8)][place % 3])
        step = mpmath.mpf(float(10**log))
        with mpmath.workdps(60 if log > -8 else 700):
            far = gen.uniform(-7, 36) if place % 2 else 10 ** gen.uniform(-14, 0) - float(step / 2)
            given = float(delta(max(step * (far + step / 2), mpmath.mpf(0)), step))
            if not 0 < given < 1:
                continue
            found = float(gaussian_epsilon(delta=given, sensitivity=float(step), sigma=1.0))
            assert delta(mpmath.mpf(found), step) <= given, (step, given)
            none += found == 0
            if found > 0:
                assert delta(mpmath.mpf(float(np.nextafter(found, 0))), step) > given, (step, given)
                judged += 1
    assert judged > 180
    assert none > 5


BIG = [-498, -300, 0, 300, 498]


@pytest.mark.parametrize("k", BIG)
def test_regressions_in_other_units_of_the_features_are_the_same(k):
    X, Y = np.array([[1.0, 0.5], [0.2, -1.0], [2.0, 0.3]]), np.array([1.0, 2.0, -0.5])
    mean, covariance = regression.posterior(X, Y, 0.0, 2.0, 0.3)
    found = regression.posterior(np.ldexp(X, k), Y, 0.0, np.ldexp(2.0, -2 * k), 0.3)
    np.testing.assert_allclose(found[0], np.ldexp(mean, -k), rtol=1e-13)
    np.testing.assert_allclose(found[1], np.ldexp(covariance, -2 * k), rtol=1e-13)
    for error, arguments in ((regression.posterior_mse, (np.ldexp(2.0, -2 * k), 0.3)), (regression.local_mse, (0.3,))):
        expected = error(X, *(2.0, 0.3)[-len(arguments) :])
        assert error(np.ldexp(X, k), *arguments) == pytest.approx(np.ldexp(expected, -2 * k), rel=1e-13)


@pytest.mark.parametrize("k", BIG)
@pytest.mark.parametrize("k_points", [2, 3])
def test_discrete_priors_in_other_units_are_the_same_to_the_last_bit(k, k_points):
    gen = np.random.default_rng(3)
    x, v = gen.choice([0.0, 6.0, 9.0], 25) + gen.standard_normal(25), gen.uniform(0.5, 2, 25)
    plain = mixture.DiscretePrior(k_points, restarts=3).fit(x, v)
    found = mixture.DiscretePrior(k_points, restarts=3).fit(np.ldexp(x, k), np.ldexp(v, 2 * k))
    assert found.mus_.tobytes() == np.ldexp(plain.mus_, k).tobytes()
    assert found.posterior_mean_.tobytes() == np.ldexp(plain.posterior_mean_, k).tobytes()
    assert found.n_iter_ == plain.n_iter_
    assert found.log_likelihood_ == pytest.approx(plain.log_likelihood_ - 25 * k * math.log(2), rel=1e-12)
    mean = mixture.posterior_mean(np.ldexp(x, k), [0.3, 0.7], np.ldexp([0.0, 6.0], k), np.ldexp(v, 2 * k))
    np.testing.assert_allclose(mean, np.ldexp(mixture.posterior_mean(x, [0.3, 0.7], [0.0, 6.0], v), k), rtol=1e-12)


@pytest.mark.parametrize("k", [-900, -300, 300, 900])
def test_updates_in_other_units_are_projected_clipped_and_split_the_same(k):
    updates = np.random.default_rng(0).standard_normal((5, 6))
    public = np.array([True, True, True, True, False, False])
    expected = server_weights.project_private(updates, public, 2)
    assert server_weights.project_private(np.ldexp(updates, k), public, 2).tobytes() == np.ldexp(expected, k).tobytes()
    assert server_weights.public_clients(np.ldexp([0.5, 8.0, 1.0, 10.0], k)).tolist() == [False, True, False, True]
    rows = 3 * updates.T
    means = [
        private_mean(
            np.ldexp(rows, n), c=math.ldexp(1.0, n), eps=1.0, delta=1e-5, adjacency="replace", rng=np.random.default_rng(1)
        )
        for n in (0, k)
    ]
    np.testing.assert_allclose(means[1], np.ldexp(means[0], k), rtol=1e-13)


def test_products_of_squares_that_are_no_numbers():
    arguments = {"b": 4, "p": 10}
    for c, z in ((1e-200, 1e200), (1e200, 1e-200), (1e-155, 3e155), (2.0, 1.5)):
        exact = 10 * (F(c) * F(z) / 4) ** 2
        assert agrees(float(dpsgd.batch_gradient_variance(c=c, z=z, **arguments)), exact, 3)
    for s, eps in ((1e-200, 1e-200), (1e-170, 1e-30), (2.0, 0.5), (1e200, 1.0)):
        with np.errstate(over="ignore"):
            found = quantization.gaussian_noise_variance(eps=eps, delta=1e-5, sensitivity=s)
        assert agrees(float(found), 2 * (F(s) / F(eps)) ** 2 * F(math.log(2e5)), 3)
    assert quantization.quantise(1.5e308, 1.5e308, 2, np.random.default_rng(0)) == 1.5e308
    with pytest.raises(ValueError, match="at most 1e300"):
        bernoulli.posterior_mean(1, 2, 1.5e308, 1.5e308)


@pytest.mark.parametrize("mu", [0.0, 1e-12, -1e-6, 1e-3, 0.1, 0.3, 2.0, -5.0])
@pytest.mark.parametrize(("half", "variance"), [(1.0, 1.0), (3.0, 0.5), (1.0, 25.0), (4.0, 0.3)])
def test_the_bias_of_projection_keeps_its_digits_for_small_centres(half, mu, variance):
    with mpmath.workdps(50):
        scale = mpmath.sqrt(mpmath.mpf(variance))

        def loss(z):
            return mpmath.npdf(z) - z * mpmath.ncdf(-z)

        exact = scale * (loss((half + mpmath.mpf(mu)) / scale) - loss((half - mpmath.mpf(mu)) / scale))
    assert quantization.projection_bias(half, mu, variance) == pytest.approx(float(exact), rel=3e-13)


def test_levels_in_an_array_are_levels_at_the_ends_too():
    """One exponent per result, not per level, though there are as many of both."""
    alpha2 = np.array([1e308, 1e-10])
    listed = aggregation.level_weights([2, 3], [0.0, 1e307], alpha2, 0.5)
    in_array = aggregation.level_weights([2, 3], np.array([0.0, 1e307]), alpha2, 0.5)
    assert listed.tobytes() == in_array.tobytes()
    for column, a in zip(listed.T, alpha2, strict=True):
        s = [F(a) + F(1, 2), F(a) + F(1, 2) + 3 * F(1e307)]
        assert agrees(column[1], (1 / s[1]) / (2 / s[0] + 3 / s[1]), 3)
    silos = np.array([1e308, 1.5e308])
    assert mean_regularized.silo_mse(2.0, 0, silos, 1e308) == mean_regularized.silo_mse(2.0, 0, list(silos), 1e308)
