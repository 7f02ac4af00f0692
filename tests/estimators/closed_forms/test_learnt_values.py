"""Discrete priors learnt and strengths of any ratios, number by number: steps by hand, partitions, fractions."""

from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from estimators.closed_forms import mixture, personalization

RNG = np.random.default_rng
X = np.array([[-2.0, 0.1], [-1.7, -0.3], [0.2, 0.4], [1.9, 1.1], [2.4, 0.8], [2.1, 1.6]])
V = np.array([0.2, 0.5, 0.3, 0.9, 0.4, 0.7])


def joint(means, p, mus, v):
    """Densities (m, k) of every mean with each value, by SciPy."""
    return np.array([
        [p[j] * stats.multivariate_normal(mus[j], v[i] * np.eye(means.shape[1])).pdf(x) for j in range(len(p))]
        for i, x in enumerate(means)
    ])  # fmt: skip


def test_weights_means_and_likelihood_with_unequal_variances():
    p, mus = np.array([0.2, 0.5, 0.3]), np.array([[-2.0, 0.0], [1.0, 1.0], [2.5, -1.0]])
    exact = joint(X, p, mus, V)
    weights = exact / exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture.posterior_weights(X, 4 * p, mus, V), weights, rtol=1e-10)
    np.testing.assert_allclose(mixture.posterior_mean(X, p, mus, V), weights @ mus, rtol=1e-10)
    assert mixture.log_likelihood(X, p, mus, V) == pytest.approx(np.log(exact.sum(axis=1)).sum(), rel=1e-12)
    line = mixture.posterior_mean(X[:, 0], p, mus[:, 0], V)
    assert line.shape == (6,)
    for unit in (1e-150, 1e150):  # squares of which, of what is far off, are no numbers
        far = mixture.posterior_weights(X * unit, p, mus * unit, V * unit**2)
        np.testing.assert_allclose(far, weights, rtol=1e-9)


def test_steps_of_expectation_maximisation_by_hand():
    mus, p = X[[0, 3]].copy(), np.full(2, 0.5)
    trace = [np.log(joint(X, p, mus, V).sum(axis=1)).sum()]
    for longest in range(1, 4):
        weights = joint(X, p, mus, V)
        weights /= weights.sum(axis=1, keepdims=True)
        precise = weights / V[:, None]
        p, mus = weights.mean(axis=0), precise.T @ X / precise.sum(axis=0)[:, None]
        trace.append(np.log(joint(X, p, mus, V).sum(axis=1)).sum())
        found = mixture.run_em(X, V, X[[0, 3]], longest, 1e-12)
        np.testing.assert_allclose(found[0], p, rtol=1e-10)
        np.testing.assert_allclose(found[1], mus, rtol=1e-10)
        np.testing.assert_allclose(found[2], trace, rtol=1e-12)
        assert found[3] is False
    wide = mixture.run_em(100 * X, 1e4 * V, 100 * X[[0, 3]], 3, 1e-12)  # no value has a precision of 1 to itself
    np.testing.assert_allclose(wide[1], 100 * mus, rtol=1e-10)
    assert mixture.run_em(X, V, X[[0, 3]], 500, 1e-9)[3] is True
    gains = np.diff(mixture.run_em(X, V, X[[0, 3]], 500, 1e-9)[2])
    assert gains[-1] <= 1e-9 < gains[-2]
    far = mixture.run_em(X, V, np.array([[0.0, 0.0], [1e9, 1e9]]), 3, 1e-12)
    assert far[1][1].tolist() == [1e9, 1e9]  # a value that nobody has weight on stays


def test_learnt_priors_keep_what_they_were_asked():
    model = mixture.DiscretePrior(2, restarts=4, seed=3).fit(X, V)
    again = mixture.DiscretePrior(2, restarts=4, seed=3).fit(X, V)
    assert np.array_equal(model.mus_, again.mus_)
    assert model.restart_log_likelihoods_.shape == (4,)
    assert model.log_likelihood_ == model.restart_log_likelihoods_.max() == model.log_likelihoods_[-1]
    assert model.n_iter_ == model.log_likelihoods_.size - 1
    assert model.log_likelihood_ == pytest.approx(mixture.log_likelihood(X, model.p_, model.mus_, V), rel=1e-9)
    np.testing.assert_allclose(model.weights_, mixture.posterior_weights(X, model.p_, model.mus_, V), rtol=1e-9)
    np.testing.assert_allclose(model.posterior_mean_, model.weights_ @ model.mus_, rtol=1e-12)
    for side in (1.0, -1.0):  # in the order of the first coordinate, whatever the second
        assert np.diff(mixture.DiscretePrior(2, restarts=4).fit(X * [1.0, side], V).mus_[:, 0]) > 0
    scaled = mixture.DiscretePrior(2, restarts=4, seed=3).fit(X * 1000.0, V * 1e6)
    np.testing.assert_allclose(scaled.mus_, model.mus_ * 1000.0, rtol=1e-6)
    assert scaled.log_likelihood_ == pytest.approx(model.log_likelihood_ - 12 * np.log(1000.0), rel=1e-9)
    one, big = (mixture.DiscretePrior(2, restarts=1).fit(X * unit, V * unit**2) for unit in (1.0, 1000.0))
    np.testing.assert_allclose(big.log_likelihoods_[:3], one.log_likelihoods_[:3] - 12 * np.log(1000.0), rtol=1e-9)
    flat = mixture.DiscretePrior(2, restarts=4).fit(X[:, 0], V)
    assert (flat.mus_.shape, flat.posterior_mean_.shape) == ((2,), (6,))
    assert flat.mus_[0] < flat.mus_[1]
    assert mixture.DiscretePrior().get_params() == {"k": 2, "restarts": 10, "max_iter": 10_000, "tol": 1e-11, "seed": 0}
    one = mixture.DiscretePrior(2, max_iter=1, restarts=1).fit(X, V)
    assert (one.n_iter_, one.converged_) == (1, False)
    best = mixture.DiscretePrior(2, max_iter=1, restarts=8).fit(X, V)
    assert best.log_likelihood_ == best.restart_log_likelihoods_.max() > best.restart_log_likelihoods_.min()
    tight, loose = (mixture.DiscretePrior(2, tol=tol, restarts=1).fit(X, V) for tol in (1e-11, 1e-2))
    gain = np.diff(loose.log_likelihoods_)
    assert gain[-1] <= 6 * 1e-2 < (gain[-2] if gain.size > 1 else np.inf)
    assert tight.n_iter_ > loose.n_iter_
    with pytest.raises(ValueError, match="k = 7 values cannot be learned from 6 clients"):
        mixture.DiscretePrior(7).fit(X, V)
    assert mixture.DiscretePrior(6, restarts=1, max_iter=2).fit(X, V).mus_.shape == (6, 2)


def test_first_values_are_drawn_by_squared_distance():
    """Two values: the first even over clients, the second in proportion to squared distances from it."""
    line, counts = np.array([[0.0], [1.0], [3.0]]), np.zeros((3, 3))
    generator = RNG(1)
    for _ in range(6000):
        a, b = mixture.seeds(line, 2, generator)[:, 0]
        counts[[0, 1, 3].index(a) if a < 3 else 2, 2 if b == 3 else int(b)] += 1
    exact = np.array([[0, 1 / 10, 9 / 10], [1 / 5, 0, 4 / 5], [9 / 13, 4 / 13, 0]]) / 3
    np.testing.assert_allclose(counts / 6000, exact, atol=0.03)
    assert mixture.seeds(np.ones((3, 1)), 3, generator).tolist() == [[1.0]] * 3
    three = mixture.seeds(line, 3, generator)
    assert sorted(three[:, 0]) == [0.0, 1.0, 3.0]  # none is drawn twice


def cost(models, member, k):
    total = 0.0
    for j in range(k):
        some = models[np.array(member) == j]
        total += ((some - some.mean(axis=0)) ** 2).sum() if len(some) else 0.0
    return total


def test_clusters_are_the_cheapest_of_all_partitions():
    least = min(product(range(3), repeat=6), key=lambda member: cost(X, member, 3))
    shares, mus = mixture.lloyd(X, 3, RNG(0), starts=20)
    squares = ((X[:, None] - mus) ** 2).sum(axis=2)
    assert squares.min(axis=1).sum() == pytest.approx(cost(X, least, 3), rel=1e-12)
    np.testing.assert_allclose(np.sort(shares), np.sort(np.bincount(least, minlength=3)) / 6)
    np.testing.assert_allclose(shares, np.bincount(squares.argmin(axis=1), minlength=3) / 6)
    found, counts, centres = mixture.lloyd_run(X, X[[0, 1, 5]], 300)
    member = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert found == pytest.approx(cost(X, member, 3))
    assert counts.tolist() == np.bincount(member, minlength=3).tolist()
    np.testing.assert_allclose(centres, [X[member == j].mean(axis=0) for j in range(3)])  # where it settles
    empty = mixture.lloyd_run(X, np.array([[0.0, 0.0], [50.0, 50.0]]), 300)
    assert empty[1].tolist() == [6, 0]
    assert empty[2][1].tolist() == [50.0, 50.0]
    cut = mixture.lloyd_run(X, X[[0, 1]], 1)[2]
    nearest = ((X[:, None] - X[[0, 1]]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_allclose(cut, [X[nearest == j].mean(axis=0) for j in range(2)])
    shares, _ = mixture.lloyd(np.ones((4, 1)), 2, RNG(0))
    assert shares.max() == 1.0
    assert shares.min() == pytest.approx(1e-300 / 4)


def test_clusters_move_until_none_does():
    """From 0.4 and 1.4 the centres go on to 0 and 4, 1 and 6.5, and 1.5 and 10, all of them in every round."""
    found, counts, centres = mixture.lloyd_run(np.array([[0.0], [1.0], [2.0], [3.0], [10.0]]), np.array([[0.4], [1.4]]), 300)
    assert (found, counts.tolist(), centres.tolist()) == (5.0, [4, 1], [[1.5], [10.0]])


def test_rounds_of_the_alternation_by_hand():
    found = mixture.alternate_clusters(X, V, 2, 2, seed=5)
    generator = RNG(5)
    p, mus = mixture.lloyd(X, 2, generator)
    spreads = [np.linalg.norm(mus[0] - mus[1])]
    models = X
    for _ in range(2):
        weights = joint(X, p, mus, V)  # of what was sent, under the clusters of models
        models = weights / weights.sum(axis=1, keepdims=True) @ mus
        p, mus = mixture.lloyd(models, 2, generator)
        spreads.append(np.linalg.norm(mus[0] - mus[1]))
    np.testing.assert_allclose(found.models, models, rtol=1e-10)
    np.testing.assert_allclose(found.mus, mus, rtol=1e-10)
    np.testing.assert_allclose(found.p, p, rtol=1e-12)
    np.testing.assert_allclose(found.spreads, spreads, rtol=1e-10)
    flat = mixture.alternate_clusters(X[:, 0], V, 2, 1)
    assert (flat.models.shape, flat.mus.shape) == ((6,), (2,))
    assert np.array_equal(flat.models, mixture.alternate_clusters(X[:, 0], V, 2, 1, seed=0).models)
    assert mixture.widest(np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])) == 5.0


@pytest.mark.parametrize(("p", "gap", "variance"), [(0.5, 1.0, 0.3), (0.02, 4.0, 0.3), (0.9, 0.1, 2.0), (0.3, 30.0, 1.0)])
def test_the_risk_of_two_values_by_quadrature(p, gap, variance):
    def integrand(x):
        a, b = p * stats.norm.pdf(x, 0, np.sqrt(variance)), (1 - p) * stats.norm.pdf(x, gap, np.sqrt(variance))
        return gap**2 * a * b / (a + b) if a + b > 0 else 0.0

    exact = integrate.quad(integrand, -10, gap + 10, limit=500, epsabs=1e-14, points=[0, gap / 2, gap])[0]
    assert mixture.risk([p, 1 - p], [0.0, gap], 3 * variance, 3) == pytest.approx(exact, rel=1e-8, abs=1e-13)
    turned = mixture.risk([1 - p, p], [[0.0, 0.0], [0.6 * gap, 0.8 * gap]], 3 * variance, 3)  # in the plane
    assert turned == pytest.approx(exact, rel=1e-8, abs=1e-13)
    three = mixture.risk([p / 2, p / 2, 1 - p], [0.0, 0.0, gap], 3 * variance, 3)
    assert three == pytest.approx(exact, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("p", [1e-200, 1e-9, 0.1, 0.5])
@pytest.mark.parametrize("w", [0.01, 10.0, 300.0, 800.0, 1300.0])
def test_the_risk_of_two_values_to_rounding(p, w):
    """The hyperbolic secant as its alternating series of exponentials, each of which the normal law integrates."""
    q = 1 - p
    with mp.workdps(60):
        root, shift = mp.sqrt(w), mp.log(mp.mpf(p) / mp.mpf(q))

        def term(k):
            a = k + mp.mpf(1) / 2
            sides = (mp.exp(side * a * shift) * mp.ncdf(-side * shift / root - a * root) for side in (1, -1))
            return (-1) ** int(k) * mp.exp(a**2 * w / 2) * sum(sides)

        series = mp.nsum(term, [0, mp.inf], method="alternating")
        exact = float(mp.sqrt(mp.mpf(p) * mp.mpf(q)) * mp.exp(-mp.mpf(w) / 8) * series)
    assert mixture.two_value_risk(p, q, w) == pytest.approx(exact, rel=1e-12, abs=0)
    assert mixture.two_value_risk(q, p, w) == pytest.approx(exact, rel=1e-12, abs=0)
    assert mixture.two_value_risk(p, q, 0.0) == p * q


@pytest.mark.parametrize("gap", [1.0, 8.0, 20.0])
def test_a_value_that_is_two_adds_no_risk(gap):
    two = mixture.risk([0.4, 0.6], [0.0, gap], 1.0, 1)
    assert mixture.risk([0.1, 0.3, 0.6], [0.0, 0.0, gap], 1.0, 1) == pytest.approx(two, rel=1e-11, abs=0)


@pytest.mark.parametrize("unit", [1e-20, 1e20])
@pytest.mark.parametrize("mus", [[0.0, 1.0, 3.0], [[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]]])
def test_risks_are_the_same_in_every_unit(mus, unit):
    one = mixture.risk([0.2, 0.3, 0.5], mus, 1.0, 1)
    assert mixture.risk([0.2, 0.3, 0.5], unit * np.array(mus), unit**2, 1) == pytest.approx(unit**2 * one, rel=1e-11, abs=0)


def test_risks_that_are_refused_or_nothing():
    assert mixture.risk([0.2, 0.3, 0.5], [1.0, 1.0, 1.0], 1.0, 1) == 0.0
    assert mixture.risk([0.5, 0.5], [1.0, 1.0], 1.0, 1) == 0.0
    with pytest.raises(ValueError, match="three dimensions or more"):
        mixture.risk(np.ones(4), np.eye(4), 1.0, 1)
    with pytest.raises(ValueError, match="too far apart"):
        mixture.risk(np.ones(3), [[0.0, 0.0], [1e4, 0.0], [0.0, 1e4]], 1.0, 1)
    with pytest.raises(ValueError, match="one probability for each of the 2 values"):
        mixture.risk([1.0], [0.0, 1.0], 1.0, 1)
    with pytest.raises(ValueError, match="has 2 coordinates per value and means has 1"):
        mixture.posterior_mean([1.0], [1.0], [[0.0, 1.0]], 1.0)
    with pytest.raises(ValueError, match=r"one per client \(2\), got shape \(3,\)"):
        mixture.posterior_mean([1.0, 2.0], [1.0], [0.0], [1.0, 1.0, 1.0])


# --- strengths of any ratios ----------------------------------------------------


def error(lam, level, sizes, gamma2s, alpha2, tau2, ratios, own_noise):
    """A client's mean squared error, from the variances of independent parts: its own theta, its own data, and the rest.

    Its estimate is (z + lam s) / (1 + lam), with z its own estimate, s the server's weighted mean of all messages.
    """
    r = np.array(ratios, float) / np.dot(ratios, sizes)
    own = level - 1
    counts = np.array(sizes, float)
    counts[own] -= 1
    a, b = 1 / (1 + lam), lam / (1 + lam)
    noises = np.array(sizes) * np.array(gamma2s)
    # Weight of the client's own theta (less the 1 that is aimed at, the mean mu being flat), of its own data's error, ...
    variance = tau2 * ((a + b * r[own] - 1) ** 2 + b**2 * (counts * r**2).sum())
    variance += alpha2 * ((a + b * r[own]) ** 2 + b**2 * (counts * r**2).sum())
    variance += b**2 * (counts * r**2 * noises).sum()
    return variance + (b**2 * r[own] ** 2 * noises[own] if own_noise else 0.0)


@pytest.mark.parametrize("own_noise", [False, True])
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    ("sizes", "gamma2s", "alpha2", "tau2", "ratios"),
    [
        ([3, 4], [0.2, 0.7], 1.3, 0.4, [1.0, 0.6]),
        ([1, 5], [0.3, 0.0], 0.5, 2.0, [0.3, 1.7]),
        ([2, 2], [0.0, 1.1], 2.0, 0.1, [1.0, 0.9]),
    ],
)
def test_the_best_strength_is_where_the_error_is_least(level, sizes, gamma2s, alpha2, tau2, ratios, own_noise):
    found = float(personalization.personalization_strength(level, sizes, gamma2s, alpha2, tau2, ratios, own_noise=own_noise))

    def loss(b):  # of the weight lam / (1 + lam), a parabola
        lam = b / (1 - b)
        return error(lam, level, sizes, gamma2s, alpha2, tau2, ratios, own_noise)

    b = optimize.minimize_scalar(loss, bounds=(-0.9, 0.999), method="bounded", options={"xatol": 1e-11}).x
    assert found / (1 + found) == pytest.approx(b, abs=2e-6)


@pytest.mark.parametrize(("own_noise", "expected"), [(False, 100 / 1.01), (True, 0.0)])
def test_a_client_whose_server_hears_nobody_else(own_noise, expected):
    """Alone, or with others of weight 0: its own noise is all of the server's, and small beside what it is to tell apart."""
    for sizes, gamma2s, ratios in (([1], [0.01], None), ([1], [0.01], [1.0]), ([1, 3], [0.01, 0.5], [1.0, 0.0])):
        found = personalization.personalization_strength(1, sizes, gamma2s, 100.0, 1.0, ratios, own_noise=own_noise)
        assert float(found) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("own_noise", [False, True])
@pytest.mark.parametrize("unit", [3 * 2.0**-30, 3.0, 3 * 2.0**30])
def test_strengths_through_a_root_of_what_they_are_over_are_those_of_fractions(own_noise, unit):
    """Ratios of a client that grow until its strength is negative: on the way its digits cancel, in any unit."""
    sizes, gamma2s, alpha2, tau2 = [1, 2, 3], [0.25 * unit, 0.0625 * unit, 0.125 * unit], unit, unit / 64
    signs = set()
    for top in np.linspace(0.5, 4.5, 65):
        given = (2, sizes, gamma2s, alpha2, tau2, [0.5, top, 1.0])
        found = float(personalization.personalization_strength(*given, own_noise=own_noise))
        a, t, r, others = Fraction(alpha2), Fraction(tau2), [Fraction(x) for x in (0.5, float(top), 1.0)], [1, 1, 3]
        w = [x / sum(n * y for n, y in zip(sizes, r, strict=True)) for x in r]
        noises = [n * Fraction(g) for n, g in zip(sizes, gamma2s, strict=True)]
        rest = sum(n * x for n, x in zip(others, w, strict=True))
        spread = (
            rest * t + sum(n * x * (x * (t + g) + (x - w[1]) * a) for n, x, g in zip(others, w, noises, strict=True)) / rest
        )
        spread += w[1] ** 2 * noises[1] / rest if own_noise else 0
        signs.add(spread > 0)
        assert found == pytest.approx(float(a / spread), rel=2e-14)
    assert signs == {False, True}


def test_strengths_where_digits_cancel_are_exact():
    """An overrated client's spread is near 0: the strength by fractions, as the formula reads."""
    from fractions import Fraction as F

    sizes, gamma2s, alpha2, tau2 = [2, 3], [0.25, 0.5], 1.0, 0.125
    for top in (1.5, 2.0, 2.5, 3.0, 3.5):
        found = personalization.personalization_strength(1, sizes, gamma2s, alpha2, tau2, [top, 1.0], own_noise=False)
        r, others = [F(top), F(1)], [1, 3]
        total = sum(F(n) * x for n, x in zip(sizes, r, strict=True))
        w = [x / total for x in r]
        noises = [F(n) * F(g) for n, g in zip(sizes, gamma2s, strict=True)]
        rest = sum(n * x for n, x in zip(others, w, strict=True))
        inner = sum(n * x * (x * (F(tau2) + g) + (x - w[0]) * F(alpha2)) for n, x, g in zip(others, w, noises, strict=True))
        exact = F(alpha2) / (rest * F(tau2) + inner / rest)
        assert float(found) == pytest.approx(float(exact), rel=1e-13)
    many = personalization.personalization_strength(
        1, sizes, gamma2s, alpha2, [0.125, 0.5], [np.array([2.5, 1.0]), 1.0], own_noise=True
    )
    each = [
        float(personalization.personalization_strength(1, sizes, gamma2s, alpha2, t, [r, 1.0], own_noise=True))
        for t, r in ((0.125, 2.5), (0.5, 1.0))
    ]
    np.testing.assert_allclose(many, each, rtol=1e-14)
