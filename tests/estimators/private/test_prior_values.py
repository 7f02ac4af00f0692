"""What a server broadcasts and what clients make of it, number by number; how far noise goes: integrals and SciPy."""

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from estimators.private import agreement
from estimators.private.agreement import noise_reach, staircase_reach
from estimators.private.at_home import AtHome, AtHomeRate
from estimators.private.prior import (
    BetaPrior,
    NormalMixtures,
    Prior,
    cut_mean,
    cut_normal,
    grid_posterior,
    log_normal,
    normalised,
)

PRIOR = Prior((0.4, 1.5), (0.3, 0.7), (0.9, 1.2), (0.2, 0.5), sigma2=2.0, sigma2_sd=0.5)


def test_moments_of_a_prior_are_those_of_its_mixture():
    assert PRIOR.mean == pytest.approx(0.3 * 0.9 + 0.7 * 1.2)
    spread = 0.3 * (0.04 + (0.9 - PRIOR.mean) ** 2) + 0.7 * (0.25 + (1.2 - PRIOR.mean) ** 2)
    assert PRIOR.mean_sd == pytest.approx(np.sqrt(spread))
    assert PRIOR.variance == pytest.approx(0.3 * 0.16 + 0.7 * 2.25)
    rows = np.array([1.0, 4.0, 2.5])
    freedom = 2 * (2.0 / 0.5) ** 2
    assert PRIOR.row_variance(rows) == pytest.approx((freedom * 2 + 2 * rows.var(ddof=1)) / (freedom + 2))
    assert PRIOR.row_variance(rows[:1]) == 2.0
    assert PRIOR.row_variance(rows[:2]) == pytest.approx((freedom * 2 + rows[:2].var(ddof=1)) / (freedom + 1))
    assert Prior.known(mu=1.0, tau2=4.0, sigma2=3.0).row_variance(rows) == 3.0
    with pytest.raises(ValueError, match="must have sigma2"):
        Prior.known(mu=1.0, tau2=4.0).row_variance(rows)
    for weight in ((0.3, 0.7 + 2e-9), (0.3, 0.7 - 2e-9)):
        with pytest.raises(ValueError, match="weight must add to 1"):
            Prior((0.4, 1.5), weight, (0.9, 1.2), (0.2, 0.5))
    Prior((0.4, 1.5), (0.3, 0.7 + 0.9e-9), (0.9, 1.2), (0.2, 0.5))
    for sizes in ((0.4,), (0.4, 1.5, 2.0)):
        with pytest.raises(ValueError, match="must have one entry for each tau"):
            Prior(sizes, (0.3, 0.7), (0.9, 1.2), (0.2, 0.5))
    assert BetaPrior(0.3, 0.0).size == np.inf
    assert BetaPrior(0.3, 0.3 * 0.7).size == 0
    assert BetaPrior(0.3, 0.05).size == pytest.approx(0.21 / 0.05 - 1)
    with pytest.raises(ValueError, match="sigma2 must lie in"):
        BetaPrior(0.3, float(np.nextafter(0.3 * 0.7, 1)))


@pytest.mark.parametrize("prior", [PRIOR, BetaPrior(0.3, 0.05)])
def test_a_broadcast_prior_is_read_as_it_was_written_and_nothing_else_is(prior):
    assert type(prior).from_json(prior.to_json()) == prior
    for text in ("[0.3, 0.05]", prior.to_json().replace("}", ', "more": 1.0}')):
        with pytest.raises(ValueError, match="prior must be a JSON object with the entries"):
            type(prior).from_json(text)


def test_clients_laws_from_the_reports_that_the_prior_was_learnt_from():
    """Given tau a client's value is normal between its report and a centre that is normal itself."""
    x, v = np.array([2.0, -0.5, 1.0, 0.4]), np.array([0.8, 2.5, 0.0, 2.25])  # of the last as much as between clients
    laws = PRIOR.posteriors(x, v)
    for i in range(4):
        for k, (tau, mu, sd) in enumerate(zip(PRIOR.tau, PRIOR.mu, PRIOR.mu_sd, strict=True)):
            w = tau**2 / (tau**2 + v[i])
            assert laws.means[k, i] == pytest.approx(w * x[i] + (1 - w) * mu)
            assert laws.variances[k, i] == pytest.approx(w * v[i] + (1 - w) ** 2 * sd**2)
    mean = 0.3 * laws.means[0] + 0.7 * laws.means[1]
    np.testing.assert_allclose(laws.mean(), mean)
    square = 0.3 * (laws.variances[0] + laws.means[0] ** 2) + 0.7 * (laws.variances[1] + laws.means[1] ** 2)
    np.testing.assert_allclose(laws.sd(), np.sqrt(np.maximum(square - mean**2, 0)), atol=1e-7)
    exact = Prior((0.0,), (1.0,), (0.9,), (0.2,)).posteriors(np.array([2.0]), np.array([0.0]))
    assert (exact.means[0, 0], exact.variances[0, 0]) == (2.0, 0.0)  # nothing is more exact than the report


@pytest.mark.parametrize("told", [None, (1.7, 0.6)])
def test_a_client_at_home_takes_its_own_report_out_of_the_prior(told):
    """By quadrature over the centre: the others' law of it times the client's exact mean, for each tau."""
    x, variance = 2.2, 0.3
    masses, firsts, seconds = [], [], []
    for tau, weight, mu, sd in zip(PRIOR.tau, PRIOR.weight, PRIOR.mu, PRIOR.mu_sd, strict=True):
        precision, centre, chance = 1 / sd**2, mu / sd**2, weight
        if told is not None:  # mu's law had the factor N(told; mu, tau^2 + noise), and tau's weight its integral
            precision -= 1 / (tau**2 + told[1])
            centre -= told[0] / (tau**2 + told[1])
            chance /= stats.norm.pdf(told[0], centre / precision, np.sqrt(tau**2 + told[1] + 1 / precision))
        mean, spread = centre / precision, 1 / precision

        def joint(t, power, mean=mean, spread=spread, tau=tau):
            law = stats.norm.pdf(t, mean, np.sqrt(tau**2 + spread))
            return t**power * law * stats.norm.pdf(x, t, np.sqrt(variance))

        found = [integrate.quad(joint, -8, 12, args=(k,), points=[x], limit=200)[0] for k in range(3)]
        masses.append(chance * found[0])
        firsts.append(chance * found[1])
        seconds.append(chance * found[2])
    law = PRIOR.at_home(x, variance, told)
    mean = sum(firsts) / sum(masses)
    assert law.mean()[0] == pytest.approx(mean, rel=1e-8)
    assert law.sd()[0] == pytest.approx(np.sqrt(sum(seconds) / sum(masses) - mean**2), rel=1e-7)
    sure = Prior.known(mu=0.5, tau2=0.0).at_home(2.0, 0.0)
    assert sure.mean().tolist() == [2.0]
    assert Prior.known(mu=0.5, tau2=2.25).at_home(2.0, 2.25).mean().tolist() == [1.25]  # half of either
    known = Prior.known(mu=0.5, tau2=2.25)
    assert known.mu_sd == (0.0,)
    assert known.at_home(x, variance, told).mean() == known.at_home(x, variance).mean()  # of which no report has told


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_client_at_home_who_alone_told_anything_keeps_its_own_mean_in_any_unit(unit):
    """The law of the centre is that of its report alone; without it nothing is known, whatever the unit is."""
    told = 1.7 * unit, 0.6 * unit**2
    prior = Prior.known(mu=told[0], tau2=0.5 * unit**2, mu_sd=float(np.sqrt(1.1)) * unit)
    law = prior.at_home(2.2 * unit, 0.3 * unit**2, told)
    assert law.mean()[0] == pytest.approx(2.2 * unit, rel=1e-9)
    assert law.sd()[0] == pytest.approx(np.sqrt(0.3) * unit, rel=1e-9)


def test_mixtures_of_normal_laws_with_points_among_them():
    weights, means, variances = (
        np.array([[0.3, 0.5], [0.7, 0.5]]),
        np.array([[0.0, 1.0], [2.0, 3.0]]),
        np.array([[1.0, 0.0], [0.25, 4.0]]),
    )
    laws = NormalMixtures(weights, means, variances)

    def cdf(i, t, strict=False):
        parts = [
            stats.norm.cdf(t, m, np.sqrt(v)) if v > 0 else float(t > m or (t == m and not strict))
            for m, v in zip(means[:, i], variances[:, i], strict=True)
        ]
        return weights[:, i] @ parts

    for t in (-1.0, 1.0, 1.3, 2.5):
        np.testing.assert_allclose(laws.cdf(t), [cdf(0, t), cdf(1, t)], rtol=1e-12)
        np.testing.assert_allclose(laws.cdf(t, strict=True), [cdf(0, t, True), cdf(1, t, True)], rtol=1e-12)
    for q in (0.01, 0.4, 0.97):
        found = laws.quantile(q)
        exact = optimize.brentq(lambda t, q=q: cdf(0, t) - q, -9, 9, xtol=1e-13)
        assert found[0] == pytest.approx(exact, abs=1e-9)
        assert cdf(1, found[1] + 1e-9) >= q >= cdf(1, found[1] - 1e-9)
    np.testing.assert_allclose(
        NormalMixtures(weights, 1e-9 * means, 1e-18 * variances).quantile(0.4), 1e-9 * laws.quantile(0.4)
    )
    points = NormalMixtures(np.array([[0.25], [0.25], [0.5]]), np.array([[0.0], [1.0], [3.0]]), np.zeros((3, 1)))
    for q, point in ((0.0, 0.0), (0.25, 0.0), (0.3, 1.0), (0.5, 1.0), (0.6, 3.0), (1.0, 3.0)):
        assert points.quantile(q)[0] == pytest.approx(point, rel=1e-12, abs=0)
    assert laws.quantile(0.0).tolist()[0] == -np.inf
    assert laws.quantile(1.0).tolist()[0] == np.inf
    values = np.array([-0.3, 2.0])
    np.testing.assert_allclose(
        np.diff(log_normal(values, 1.7)), np.diff(stats.norm.logpdf(values, scale=np.sqrt(1.7))), rtol=1e-12
    )
    np.testing.assert_allclose(normalised(np.log([1.0, 3.0]) - 900), [0.25, 0.75])


@pytest.mark.parametrize(
    ("estimate", "error", "high"),
    [(0.3, 0.4, 1.0), (-0.2, 0.1, 1.0), (1.4, 0.2, 1.0), (-30.0, 1.0, np.inf), (2.0, 1.5, np.inf), (0.5, 9.0, 1.0)],
)
def test_a_mean_cut_off_is_that_of_a_truncated_normal_law(estimate, error, high):
    law = stats.truncnorm((0 - estimate) / error, (high - estimate) / error, estimate, error)
    exact = law.mean()
    if estimate == -30.0:  # Mills: mean of the tail beyond 30 standard deviations
        exact = stats.norm.pdf(30) / stats.norm.sf(30) - 30
    assert cut_mean(estimate, error, high) == pytest.approx(exact, rel=1e-6)
    assert cut_mean(estimate, 0.0, high) == min(max(estimate, 0.0), high)


@pytest.mark.parametrize(
    ("estimate", "error", "low", "high"),
    [
        (0.3, 0.4, 0.0, 1.0),
        (-3.0, 0.5, -1.0, 1.0),
        (14.0, 2.0, 0.0, 10.0),
        (5.0, 1e3, 0.0, 10.0),
        (-20.0, 1.0, 0.0, np.inf),
        (0.95, 0.1, 0.0, 1.0),
        (0.05, 0.1, 0.0, 1.0),
        (0.003, 0.004, 0.0, 0.01),
        (-200.0, 100.0, 0.0, np.inf),
    ],
)
def test_a_normal_law_cut_off_has_its_mass_mean_and_deviation(estimate, error, low, high):
    """Against mpmath's erfc, with 60 digits for what floats cancel."""
    with mpmath.workdps(60):
        a, b = ((mpmath.mpf(end) - estimate) / error if np.isfinite(end) else mpmath.inf for end in (low, high))
        mass = (mpmath.erfc(a / mpmath.sqrt(2)) - (0 if b == mpmath.inf else mpmath.erfc(b / mpmath.sqrt(2)))) / 2
        fall = [mpmath.npdf(end) if end != mpmath.inf else 0 for end in (a, b)]
        ends = [0 if end == mpmath.inf else end * f for end, f in zip((a, b), fall, strict=True)]
        shift = (fall[0] - fall[1]) / mass
        exact = [mpmath.log(mass), estimate + error * shift, error * mpmath.sqrt(1 + (ends[0] - ends[1]) / mass - shift**2)]
    assert cut_normal(estimate, error, low, high) == pytest.approx([float(x) for x in exact], rel=1e-7)
    assert cut_normal(3.0, 0.01, 0.0, 10.0) == (0.0, 3.0, 0.01)  # all of it
    with pytest.raises(ValueError, match="high must be at least low"):
        cut_normal(1.0, 1.0, 2.0, 1.0)


@pytest.mark.parametrize("estimate", [-1.0, 2.0, 5.0])
def test_between_equal_ends_there_is_one_value(estimate):
    """Known exactly, and of no mass under a law that has a density."""
    assert cut_normal(estimate, 0.0, 2.0, 2.0) == (0.0, 2.0, 0.0)
    assert cut_normal(estimate, 1.0, 2.0, 2.0) == (-np.inf, 2.0, 0.0)


def test_a_grid_of_spreads_has_the_moments_of_the_likelihood():
    def given_tau(tau):  # a normal log likelihood of tau, and a centre that depends on it
        return -((tau - 0.8) ** 2) / (2 * 0.01), 1 + 0.5 * tau, 0.1 + 0.2 * tau

    prior = grid_posterior(given_tau, 50.0, 2.5)
    tau, weight = np.array(prior.tau), np.array(prior.weight)
    assert weight.sum() == pytest.approx(1.0)
    assert weight @ tau == pytest.approx(0.8, abs=1e-4)
    assert np.sqrt(weight @ (tau - 0.8) ** 2) == pytest.approx(0.1, rel=1e-3)
    np.testing.assert_allclose(prior.mu, 1 + 0.5 * tau)
    np.testing.assert_allclose(prior.mu_sd, 0.1 + 0.2 * tau)
    assert prior.sigma2 == 2.5
    flat = grid_posterior(lambda tau: (0.0, 0.0, 1.0), 3.0)  # trapezoids: both ends count for a half
    assert np.array(flat.weight) @ np.array(flat.tau) == pytest.approx(1.5)
    assert flat.weight[0] == pytest.approx(flat.weight[1] / 2)
    assert np.array(flat.weight) @ np.array(flat.tau) ** 2 == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "more", "ends"),
    [
        (0.0, 12.5, 0.0, (0, 13)), (9.5, 19.5, 0.0, (9, 20)), (0.0, 15.5, 0.0, (0, 16)), (0.0, 16.5, 0.0, (0, 32)),
        (0.0, 6.5, 7.0, (0, 14)), (20.5, 40.0, 0.0, (20, 32)), (31.5, 40.0, 0.0, (31, 32)), (3.5, 14.5, 4.0, (3, 19)),
    ],
)  # fmt: skip
def test_a_grid_of_spreads_is_drawn_in_to_the_neighbours_of_what_counts_until_it_is_more_than_half(low, high, more, ends):
    """Places in 32nds of the bound: a likelihood that is flat, falls by e^-12, which counts, and then out of sight."""

    def given_tau(tau):
        place = 32 * tau / 7.0
        return 0.0 if low <= place <= high else -12.0 if high < place <= high + more else -100.0, 0.0, 1.0

    tau = grid_posterior(given_tau, 7.0).tau
    assert (32 * tau[0] / 7.0, 32 * tau[-1] / 7.0) == pytest.approx(ends)
    assert len(tau) == 33


def test_a_grid_of_spreads_is_not_drawn_in_further_than_to_a_billionth():
    for unit in (1e-3, 1.0, 1e3):
        tau = grid_posterior(lambda tau, unit=unit: (-(((tau / unit - 0.8) / 1e-13) ** 2), 0.0, 1.0), 50.0 * unit).tau
        assert 1 / 17 < (tau[-1] - tau[0]) / (1e-9 * tau[-1]) <= 1


@pytest.mark.parametrize("alpha", [1e-6, 0.01])
def test_noise_goes_as_far_as_its_tail_says(alpha):
    reach = noise_reach("discrete-laplace", 2.0, alpha)
    assert stats.laplace.sf(reach) * 2 == pytest.approx(alpha / 2, rel=1e-9)  # a bound: half of what it may be
    for unit in (0.1, 1.0, 3.0):  # on whole numbers too
        fall = 0.7
        variance = unit**2 / (2 * np.sinh(fall / 2) ** 2)
        k = np.arange(1, 200)
        beyond = 2 * np.exp(-fall * k).sum() * np.tanh(fall / 2)
        assert beyond < 1
        far = noise_reach("discrete-laplace", variance, alpha, unit**2 / 4)
        first = int(far / unit) + 1
        tail = 2 * np.exp(-fall * np.arange(first, first + 200)).sum() * np.tanh(fall / 2)
        assert tail <= alpha
        assert far <= 2 * unit * np.log(2 / alpha) / fall
    for kind in ("gaussian", "discrete-gaussian"):
        reach = noise_reach(kind, 1.7, alpha)
        assert stats.norm.sf(reach / np.sqrt(1.7)) * 2 <= alpha
        assert reach == pytest.approx(np.sqrt(2 * 1.7 * np.log(2 / alpha)), rel=0.006)
    b = (np.exp(1.2) + 1) / (np.exp(1.2) - 1) / 2  # two answers b apart from the middle of [0, 1]
    assert noise_reach("two-point", b**2 - 0.25, alpha, 0.25) == pytest.approx(b - 0.5)
    assert noise_reach("unheard of", 1.7, alpha) == pytest.approx(np.sqrt(1.7 / alpha))
    assert noise_reach("gaussian", 0.0, alpha) == 0
    blocks = staircase_reach(2.0, 1.5, alpha) / 2.0
    assert blocks == int(blocks)
    assert 2 * np.exp(-1.5 * blocks) <= alpha
    assert 2 * np.exp(-1.5 * (blocks - 1)) > alpha
    assert staircase_reach(1.0, 60.0, 1e-30) == np.ceil(np.log(2e30) / 40)


def test_parts_of_reports_are_the_same_but_for_rounding():
    assert agreement.alike(1.0, 1.0 + 0.5 * agreement.ALIKE)
    assert not agreement.alike(1.0, 1.0 + 3 * agreement.ALIKE)
    assert agreement.alike((1.0, "a"), (1.0, "a"))
    assert not agreement.alike((1.0,), (1.0, 2.0))
    assert not agreement.alike((1.0, 3.0), (1.0, 2.0))
    assert not agreement.alike((1.0,), 1.0)
    assert not agreement.alike(None, (1.0,))
    assert agreement.alike(np.inf, np.inf)
    assert not agreement.alike(1, 2)
    assert not agreement.alike("a", "b")


def test_a_clients_own_posterior_is_its_law():
    law = NormalMixtures(np.array([[0.3], [0.7]]), np.array([[0.0], [2.0]]), np.array([[1.0], [0.25]]))
    home = AtHome(law)
    assert (home.mean, home.sd) == (pytest.approx(1.4), pytest.approx(np.sqrt(0.3 * 1 + 0.7 * 4.25 - 1.96)))
    for level in (0.95, 0.5):
        tails = [float(0.3 * stats.norm.cdf(t) + 0.7 * stats.norm.cdf(t, 2, 0.5)) for t in home.interval(level)]
        assert tails == pytest.approx([(1 - level) / 2, (1 + level) / 2], abs=1e-9)
    assert home.interval() == home.interval(0.95)
    rate = AtHomeRate(3, 11, BetaPrior(0.3, 0.05))
    exact = stats.beta(0.3 * 3.2 + 3, 0.7 * 3.2 + 8)
    assert (rate.mean, rate.sd) == (pytest.approx(exact.mean()), pytest.approx(exact.std()))
    for level in (0.95, 0.5):
        assert rate.interval(level) == pytest.approx(exact.interval(level), rel=1e-10)
    assert rate.interval() == rate.interval(0.95)
    sure = AtHomeRate(3, 11, BetaPrior(0.3, 0.0))
    assert (sure.mean, sure.sd, sure.interval()) == (0.3, 0.0, (0.3, 0.3))
