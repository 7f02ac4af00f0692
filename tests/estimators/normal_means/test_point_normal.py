"""Spike and slab: golden likelihood, derivatives, the best of many starts, exact posteriors, limits, bad input."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats
from scipy.special import ndtr

from estimators.normal_means import spike_average
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.point_normal import Likelihood, PointNormalMeans
from estimators.normal_means.spike_average import grow

ML = "marginal-likelihood"


def sparse(m, seed=0, share=0.3, tau=3.0, mode=1.0):
    generator = np.random.default_rng(seed)
    variances = np.exp(generator.uniform(-1, 1, m))
    theta = mode + np.where(generator.random(m) < share, generator.normal(0, tau, m), 0.0)
    return generator.normal(theta, np.sqrt(variances)), variances


def log_density(y, v, weight, tau2, mode):
    spike, slab = (-0.5 * (np.log(2 * np.pi * s) + (y - mode) ** 2 / s) for s in (v, v + tau2))
    return np.logaddexp(np.log1p(-weight) + spike, np.log(weight) + slab).sum()


def test_ebnm_golden_number(shared_data):
    """R ebnm 1.1-42, ebnm(x, s, prior_family="point_normal", mode="estimate") on its wOBA data of 688 hitters."""
    with open(shared_data("baseball/woba_2022.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    x, s = (np.array([float(row[name]) for row in rows]) for name in ("x", "s"))
    model = PointNormalMeans().fit(x, s**2)
    assert model.log_likelihood_ == pytest.approx(990.290870, abs=1e-5)
    assert model.converged_


@given(st.integers(0, 1000), st.floats(-4, 4), st.floats(-3, 3), st.floats(-2, 2))
@settings(max_examples=20)
def test_derivatives(seed, logit, log_tau2, mode):
    likelihood, point = Likelihood(*sparse(30, seed), mode_known=False), np.array([logit, log_tau2, mode])
    height, gradient, hessian = likelihood.at(point)
    assert height == pytest.approx(log_density(*sparse(30, seed), 1 / (1 + np.exp(-logit)), np.exp(log_tau2), mode))
    step = 1e-5
    for k, direction in enumerate(np.eye(3) * step):
        up, down = likelihood.at(point + direction), likelihood.at(point - direction)
        scale = 1 + np.abs(hessian).max()
        assert gradient[k] == pytest.approx((up[0] - down[0]) / (2 * step), abs=1e-6 * scale)
        np.testing.assert_allclose(hessian[k], (up[1] - down[1]) / (2 * step), atol=1e-6 * scale)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mode", [None, 1.0])
def test_no_start_of_another_optimiser_does_better(seed, mode):
    """Nelder-Mead from a grid of starts on the density of SciPy."""
    y, v = sparse(40, seed, share=(0.05, 0.3, 0.9)[seed % 3])
    model = PointNormalMeans(mode).fit(y, v)

    def loss(x):
        return -log_density(y, v, 1 / (1 + np.exp(-x[0])), np.exp(x[1]), mode if mode is not None else x[2])

    best = np.inf
    for logit in (-3.0, 0.0, 3.0):
        for log_tau2 in (-1.0, 3.0):
            start = [logit, log_tau2] + ([] if mode is not None else [float(np.median(y))])
            best = min(best, optimize.minimize(loss, start, method="Nelder-Mead", options={"maxiter": 400}).fun)
    assert model.log_likelihood_ >= -best - 1e-6
    if model.spike_weight_ not in (0.0, 1.0):
        fitted = log_density(y, v, 1 - model.spike_weight_, model.tau2_, model.mode_)
        assert model.log_likelihood_ == pytest.approx(fitted, abs=1e-9)
    assert model.log_likelihood_ >= GaussianMeans("marginal-likelihood", mu=mode).fit(y, v).log_likelihood_ - 1e-9


def test_large_samples_find_the_prior_and_rare_signals():
    y, v = sparse(20_000, 1)
    model = PointNormalMeans().fit(y, v)
    # Standard errors over such data are about 0.01, 0.02 and 0.15 or less: five of them.
    assert model.mode_ == pytest.approx(1.0, abs=0.05)
    assert model.spike_weight_ == pytest.approx(0.7, abs=0.1)
    assert model.tau2_ == pytest.approx(9.0, abs=0.75)
    y, v = np.random.default_rng(2).standard_normal(50_000), np.ones(50_000)
    y[12_345:12_350] = (40.0, -35.0, 50.0, -45.0, 42.0)  # five clients of 50,000, most likely outside the sample of starts
    model = PointNormalMeans(0.0).fit(y, v)
    assert 0.9998 < model.spike_weight_ < 1
    assert 1000 < model.tau2_ < 3000
    np.testing.assert_allclose(model.posterior_mean_[12_345:12_350], y[12_345:12_350], rtol=1e-2)


def test_posterior_agrees_with_quadrature():
    y, v = sparse(30, 4)
    model = PointNormalMeans(prior="marginal-likelihood").fit(y, v)
    assert 0 < model.spike_weight_ < 1
    mode = model.mode_
    for i in (0, int(np.argmax(y)), int(np.argmin(np.abs(y - 1)))):

        def moment(power, low, high, i=i):
            def integrand(t):
                exponent = (t - mode) ** 2 / model.tau2_ + (t - y[i]) ** 2 / v[i]
                return t**power * np.exp(-0.5 * exponent) / (2 * np.pi * np.sqrt(model.tau2_ * v[i]))

            return (1 - model.spike_weight_) * integrate.quad(integrand, low, high, epsabs=1e-13, limit=200)[0]

        low, high = mode - 40.0, mode + 40.0
        spike = model.spike_weight_ * np.exp(-0.5 * (y[i] - mode) ** 2 / v[i]) / np.sqrt(2 * np.pi * v[i])
        slab = [moment(power, low, mode) + moment(power, mode, high) for power in range(3)]
        total = spike + slab[0]
        mean, square = (spike * mode + slab[1]) / total, (spike * mode**2 + slab[2]) / total
        assert model.posterior_mean_[i] == pytest.approx(mean, abs=1e-8)
        assert model.posterior_sd_[i] == pytest.approx(np.sqrt(square - mean**2), abs=1e-7)
        assert model.slab_probability_[i] == pytest.approx(1 - spike / total, abs=1e-9)
        below = moment(0, low, mode) / total
        assert model.posterior_cdf(mode, strict=True)[i] == pytest.approx(below, abs=1e-8)
        assert model.posterior_cdf(mode)[i] == pytest.approx(below + spike / total, abs=1e-8)
        # The spike counts on both sides.
        assert model.local_false_sign_rate(mode)[i] == pytest.approx(min(below + spike / total, 1 - below), abs=1e-8)


def brute_force(y, v, mode):
    """Weights, spike chances and slab laws on a dense grid of weights, tau2 and modes; half of the weights are 0."""
    u = (np.arange(60) + 0.5) / 60
    edge = 4 * v.size / np.sum(1 / v)
    pi, tau2 = np.append(u, 0.0), edge * (u**-2 - 1)  # sqrt(edge / (edge + tau2)) is uniform
    modes = np.array([mode]) if mode is not None else np.linspace(y.min() - 6, y.max() + 6, 241)
    pi, tau2, c = (a.ravel()[:, None] for a in np.meshgrid(pi, tau2, modes, indexing="ij"))
    spike = pi * np.exp(-0.5 * (y - c) ** 2 / v) / np.sqrt(v)
    slab = (1 - pi) * np.exp(-0.5 * (y - c) ** 2 / (v + tau2)) / np.sqrt(v + tau2)
    share = np.prod(spike + slab, axis=1, keepdims=True) * np.where(pi == 0, u.size, 1)
    own = tau2 / (tau2 + v)
    return share / share.sum(), spike / (spike + slab), c, c + own * (y - c), np.sqrt(v * own)


@pytest.mark.parametrize("mode", [0.5, None])
def test_averages_agree_with_brute_force(mode):
    """All that is unknown is averaged over: posterior moments, and the mass below the ends of intervals."""
    y, v = np.array([0.0, 0.9, 0.4, 5.0, 0.6]), np.array([0.3, 1.0, 0.5, 1.0, 0.2])
    model = PointNormalMeans(mode).fit(y, v)
    share, spike, c, means, sds = brute_force(y, v, mode)
    expected = np.sum(share * (spike * c + (1 - spike) * means), axis=0)
    square = np.sum(share * (spike * (c - expected) ** 2 + (1 - spike) * (sds**2 + (means - expected) ** 2)), axis=0)
    assert model.converged_
    np.testing.assert_allclose(model.slab_probability_, 1 - np.sum(share * spike, axis=0), atol=3e-3)
    np.testing.assert_allclose(model.posterior_mean_, expected, atol=5e-3)
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt(square), rtol=5e-3)
    for ends, level in zip(model.interval(0.9), (0.05, 0.95), strict=True):
        slab = (1 - spike) * stats.norm.cdf((ends - means) / sds)
        # Modes that are not known are spread over the cells of the grid.
        modes = [c < ends, c <= ends] if mode is not None else [np.clip((ends - c) / (c[1] - c[0]) + 0.5, 0, 1)] * 2
        below, upto = (np.sum(share * (spike * part + slab), axis=0) for part in modes)
        assert np.all(below < level + 4e-3)
        assert np.all(upto > level - 4e-3)


def product_rule(y, v, ends):
    """P(theta_i <= end_i | data) for each row of `ends`, by Gauss-Legendre in weight and tau2, and trapezoids in the mode.

    Half of the weights of the spike are 0, the others uniform; u = sqrt(edge / (edge + tau2)) is uniform; the modes are
    sinh-spaced, as their law has long tails and a narrow middle.
    """
    edge = 4 / np.mean(1 / v)
    legendre = [np.polynomial.legendre.leggauss(k) for k in (28, 160)]
    (pi, of_pi), (u, of_u) = (((1 + x) / 2, w / 2) for x, w in legendre)
    pi, of_pi = np.append(pi, 0.0)[:, None], np.append(of_pi / 2, 0.5)[:, None]
    x, step = np.linspace(-14, 14, 1801, retstep=True)
    modes, cells = np.median(y) + np.sqrt(edge) / 4 * np.sinh(x), np.sqrt(edge) / 4 * np.cosh(x)
    gap, s = y[:, None] - modes, v[:, None]
    spike = np.exp(-(gap**2) / (2 * s)) / np.sqrt(s)
    tops, masses, below = np.empty(u.size), np.empty(u.size), np.empty((u.size, *ends.shape))
    for k, tau2 in enumerate(edge * (u**-2 - 1)):
        slab, own = np.exp(-(gap**2) / (2 * (s + tau2))) / np.sqrt(s + tau2), tau2 / (tau2 + v)
        both = pi * spike[:, None] + (1 - pi) * slab[:, None]
        with np.errstate(divide="ignore"):
            logs = np.log(both).sum(axis=0)
        tops[k] = logs.max()
        mass = np.exp(logs - tops[k]) * of_pi * cells * of_u[k]
        masses[k] = mass.sum()
        for i in range(y.size):
            inside = np.divide((1 - pi) * slab[i], both[i], out=np.ones(mass.shape), where=both[i] > 0)
            of_slab, of_spike = (mass * inside).sum(axis=0), (mass * (1 - inside)).sum(axis=0)
            t = ends[:, i, None]
            slabs = stats.norm.cdf((t - modes - own[i] * gap[i]) / np.sqrt(v[i] * own[i]))
            below[k, :, i] = slabs @ of_slab + np.clip((t - modes) / (cells * step) + 0.5, 0, 1) @ of_spike
    weights = np.exp(tops - tops.max())
    return np.einsum("k,kji->ji", weights, below) / (weights @ masses)


@pytest.mark.parametrize(("m", "share", "seed"), [(5, 0.1, 6), (6, 0.3, 3), (12, 0.3, 2)])
def test_default_intervals_are_the_posterior_by_a_product_rule(m, share, seed):
    """No tail moves by more than the 3 % that ``spike_average.KERNEL`` states, for clients in the spike and outside."""
    generator = np.random.default_rng(seed)
    theta = 2 * generator.standard_normal(m) * (generator.random(m) < share)
    v = np.exp(0.7 * generator.standard_normal(m))
    y = theta + np.sqrt(v) * generator.standard_normal(m)
    low, high = product_rule(y, v, np.array(PointNormalMeans().fit(y, v).interval()))
    np.testing.assert_allclose([low, 1 - high], 0.025, rtol=0.03)


def test_a_lattice_grows_to_where_a_density_ends():
    """A normal density in two dimensions, from one seed: all points within the depth, and 1 - exp(-depth) of the mass."""
    index, found = grow(lambda x: -0.5 * (x**2).sum(axis=1), np.zeros(2), np.ones(2), np.zeros((1, 2), int), 8.0, 1000)
    assert len(index) == sum(i * i + j * j < 16 for i in range(-4, 5) for j in range(-4, 5))
    assert np.exp(found).sum() / (2 * np.pi) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("m", [20, 200])
def test_no_interval_ends_at_an_estimated_mode(m):
    """90 % of the clients equal: believing the most likely mode misses half of the truths, averaging over it few."""
    held, widths = {"bayes": [], "marginal-likelihood": []}, []
    generator = np.random.default_rng(m)
    for _ in range(1000 // m):
        truth = np.where(generator.random(m) < 0.9, 1.0, 1 + 3 * generator.standard_normal(m))
        y = truth + generator.standard_normal(m)
        for prior, found in held.items():
            low, high = PointNormalMeans(prior=prior).fit(y, 1.0).interval()
            found.append(np.mean((low <= truth) & (truth <= high)))
            if prior == "bayes":
                widths.append(np.min(high - low))
    error = 5 * np.std(held["bayes"]) / np.sqrt(len(held["bayes"]))
    assert np.mean(held["bayes"]) > 0.95 - error
    assert np.mean(held["marginal-likelihood"]) < 0.7
    assert min(widths) > 1 / np.sqrt(m)


def test_a_lattice_that_is_not_enough_is_halved_as_long_as_its_nodes_may_be_so_many(monkeypatch):
    """Half the steps in weight, variance and mode make eight times the nodes, of which just `MOST` are not too many."""
    sizes = []

    def counted(*arguments):
        found = grow(*arguments)
        sizes.append(len(found[0]))
        return found

    def grown(most):
        sizes.clear()
        monkeypatch.setattr(spike_average, "MOST", most)
        with pytest.warns(RuntimeWarning, match="did not converge"):
            PointNormalMeans().fit(*sparse(6))
        return list(sizes)

    monkeypatch.setattr(spike_average, "grow", counted)
    monkeypatch.setattr(spike_average, "SAME", 0.0)  # no lattice is enough
    first = grown(spike_average.MOST)[0]
    assert len(grown(8 * first)) == 2
    assert grown(8 * first - 1) == [first]


def test_many_clients_need_no_average():
    y, v = sparse(5000, 2)
    one, two = PointNormalMeans().fit(y, v), PointNormalMeans(prior="marginal-likelihood").fit(y, v)
    assert one.log_likelihood_ == two.log_likelihood_
    np.testing.assert_allclose(one.posterior_mean_, two.posterior_mean_, atol=0.05)
    assert one.prior_summary()["spike_weight"] == pytest.approx(two.spike_weight_, abs=0.01)
    low, high = one.interval()
    assert (low < high).all()


@given(st.integers(0, 100), st.floats(0.001, 0.999), st.sampled_from(["bayes", "marginal-likelihood"]), st.booleans())
@settings(max_examples=30)
def test_quantiles_invert_the_distribution_function(seed, q, prior, known):
    model = PointNormalMeans(1.0 if known else None, prior).fit(*sparse(20, seed))
    for i, t in enumerate(model.posterior_quantile(q)):
        assert model.posterior_cdf(t)[i] >= q - 1e-9
        assert model.posterior_cdf(t, strict=True)[i] <= q + 1e-9


def test_the_level_at_which_a_slab_ends_below_the_spike_has_the_mode():
    model = PointNormalMeans(1.0, ML).fit(*sparse(20, 3))
    slab, mean, sd = model.slab_probability_, model.slab_mean_, model.slab_sd_
    for i, q in enumerate(slab * ndtr((1.0 - mean) / sd)):
        if q > 1e-6:
            assert model.posterior_quantile(q)[i] == pytest.approx(1.0, abs=1e-6)


def test_averaged_quantiles_at_the_borders_of_the_spike_and_of_all_levels():
    """Levels within roundings of where the spike begins have the mode, and the largest of all has a finite value."""
    model = PointNormalMeans(1.0).fit(*sparse(12, 3))
    for i, q in enumerate(model.posterior_cdf(1.0, strict=True)):
        for level in q * (1 + 2.0**-52 * np.arange(-4, 5)):
            assert model.posterior_quantile(level)[i] == pytest.approx(1.0, abs=1e-6)
    assert np.isfinite(model.posterior_quantile(1 - 2.0**-53)).all()


@pytest.mark.parametrize("m", [60, 9000])
@pytest.mark.parametrize("known", [True, False])
def test_quantiles_in_and_beside_narrow_spikes(m, known):
    """The spike of many clients is narrow and between their slabs: levels below, within and above it, and at its ends."""
    generator = np.random.default_rng(6)
    theta = np.where(generator.random(m) < 0.7, 1.0, generator.normal(1, 3, m))
    v = generator.uniform(0.5, 2, m)
    y = theta + np.sqrt(v) * generator.standard_normal(m)
    v[0] = np.inf
    model = PointNormalMeans(mode=1.0 if known else None).fit(y, v)
    for q in (1e-6, 0.025, 0.1, 0.3, 0.5, 0.7, 0.99):
        t = model.posterior_quantile(q)
        below, upto = model.posterior_cdf(t, strict=True), model.posterior_cdf(t)
        assert (below <= q * (1 + 1e-9)).all()
        assert (upto >= q * (1 - 1e-9)).all()


@given(st.integers(0, 100), st.floats(-5, 5), st.floats(-50, 50))
@settings(max_examples=20)
def test_equivariance(seed, exponent, shift):
    y, v = sparse(40, seed)
    unit = 10.0**exponent
    one, two = PointNormalMeans().fit(y, v), PointNormalMeans().fit((y + shift) * unit, v * unit**2)
    assert two.log_likelihood_ == pytest.approx(one.log_likelihood_ - y.size * np.log(unit), abs=1e-6)
    np.testing.assert_allclose(two.posterior_mean_ / unit - shift, one.posterior_mean_, atol=1e-3)


def test_limits():
    equal = PointNormalMeans(prior=ML).fit([2.0] * 5, [1.0, 2.0, 3.0, 1.0, 1.0])
    assert (equal.spike_weight_, equal.tau2_, equal.mode_) == (1.0, 0.0, 2.0)
    assert equal.posterior_mean_.tolist() == [2.0] * 5
    assert equal.posterior_sd_.tolist() == [0.0] * 5
    assert [end.tolist() for end in equal.interval()] == [[2.0] * 5] * 2
    assert equal.local_false_sign_rate(2.0).tolist() == [1.0] * 5
    # Where a normal prior is best, the spike has no weight and the posterior is that of the normal prior.
    y, v = np.array([-2.0, -1.0, 1.0, 2.0, 1.5, -1.5]), np.full(6, 0.01)
    model, normal = PointNormalMeans(0.0, ML).fit(y, v), GaussianMeans("marginal-likelihood", mu=0.0).fit(y, v)
    assert model.spike_weight_ == 0
    np.testing.assert_allclose(model.posterior_mean_, normal.posterior_mean_)
    np.testing.assert_allclose(model.interval(), normal.interval())
    # A client without information gets the prior.
    y, v = sparse(30, 4)
    with_one, alone = (
        PointNormalMeans(prior=ML).fit(np.append(y, 99.0), np.append(v, np.inf)),
        PointNormalMeans(prior=ML).fit(y, v),
    )
    assert with_one.log_likelihood_ == alone.log_likelihood_
    np.testing.assert_allclose(with_one.posterior_mean_[:-1], alone.posterior_mean_)
    assert with_one.posterior_mean_[-1] == pytest.approx(alone.mode_)
    assert with_one.slab_probability_[-1] == pytest.approx(1 - alone.spike_weight_)
    assert with_one.posterior_sd_[-1] == pytest.approx(alone.prior_summary()["sd"])
    # Averaged over, a client without information has the prior with all that is unknown of it, and equal ones some spread.
    averaged = PointNormalMeans().fit(np.append(y, 99.0), np.append(v, np.inf))
    np.testing.assert_allclose(averaged.posterior_mean_[:-1], PointNormalMeans().fit(y, v).posterior_mean_)
    assert averaged.posterior_sd_[-1] == np.inf
    low, high = PointNormalMeans().fit([2.0] * 5, [1.0, 2.0, 3.0, 1.0, 1.0]).interval()
    assert (high - low > 0.5).all()
    np.testing.assert_allclose(low + high, 4.0, atol=0.02)


def test_extreme_estimates_do_not_overflow():
    model = PointNormalMeans(0.0).fit([0.0, 0.1, -0.1, 1e8, 0.05], 1.0)
    assert np.isfinite([model.posterior_mean_, model.posterior_sd_, model.slab_probability_]).all()
    assert model.posterior_mean_[3] == pytest.approx(1e8, rel=1e-6)


def test_draw_follows_the_prior():
    model = PointNormalMeans(1.0, ML).fit(*sparse(4000, 3))
    truth, (estimates, variances) = model.draw(np.random.default_rng(1))
    assert np.mean(truth == 1.0) == pytest.approx(model.spike_weight_, abs=5 * 0.008)
    assert np.var(truth[truth != 1.0]) == pytest.approx(model.tau2_, rel=5 * np.sqrt(2 / 1000))
    assert np.mean((estimates - truth) ** 2 / variances) == pytest.approx(1, abs=5 * np.sqrt(2 / 4000))
    assert {type(value) for value in model.prior_summary().values()} == {str, float}


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (PointNormalMeans(), ([1.0], 1.0), "estimates must hold at least two clients"),
        (PointNormalMeans(prior="flat"), ([1.0, 2.0], 1.0), "prior must be one of"),
        (PointNormalMeans(np.nan), ([1.0, 2.0], 1.0), "mode holds NaN"),
        (PointNormalMeans(np.inf), ([1.0, 2.0], 1.0), "mode must be finite"),
        (PointNormalMeans(), ([1.0, np.inf], 1.0), "estimates must be finite"),
        (PointNormalMeans(), ([1.0, 2.0], [1.0, -1.0]), "variances must be >= 0"),
        (PointNormalMeans(), ([1.0, 2.0], [0.0, 1.0]), "variances must be > 0"),
        (PointNormalMeans(), ([1.0, 2.0], [1.0, 1.0, 1.0]), "variances must be one number or match"),
    ],
)
def test_bad_input(model, data, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
