"""Mixtures as priors of normal means, number by number: densities by SciPy, EM by its definition, chains by their laws."""

import numpy as np
import pytest
from scipy import integrate, stats

from estimators import MixtureMeans
from estimators.normal_means.mixture_likelihood import Data, Prior, split
from estimators.normal_means.mixture_means import posteriors
from estimators.normal_means.mixture_sampling import chain, log_density, slice_sample

RNG = np.random.default_rng
Y = np.array([[1.3, 0.2], [-0.4, 1.9], [2.9, -1.1], [0.2, 0.7], [4.1, 0.3]])
V = np.array([0.7, 1.9, 0.3, 1.1, 2.6])
P, MUS, TAU2S = np.array([0.3, 0.7]), np.array([[0.5, 0.1], [2.0, -0.4]]), np.array([0.9, 0.2])


def joint():
    """Probability times density of each client's estimate under each component, (k, m)."""
    rows = [
        [p * stats.multivariate_normal(mu, (t + v) * np.eye(2)).pdf(y) for y, v in zip(Y, V, strict=True)]
        for p, mu, t in zip(P, MUS, TAU2S, strict=True)
    ]
    return np.array(rows)


def test_components_are_weighed_by_bayes_rule():
    value, weights, precision, gaps, squares = Data(Y, V, "gaussian").weigh(P, MUS, TAU2S)
    exact = joint()
    assert value == pytest.approx(np.log(exact.sum(axis=0)).sum(), rel=1e-12)
    np.testing.assert_allclose(weights, exact / exact.sum(axis=0), rtol=1e-11)
    np.testing.assert_allclose(precision, 1 / (TAU2S[:, None] + V))
    np.testing.assert_allclose(gaps, Y - MUS[:, None])
    np.testing.assert_allclose(squares, ((Y - MUS[:, None]) ** 2).sum(axis=2))
    chances, centres, sds = posteriors(Y, V, P, MUS, TAU2S)
    np.testing.assert_allclose(chances, weights)
    own = TAU2S[:, None] / (TAU2S[:, None] + V)
    np.testing.assert_allclose(centres, MUS[:, None] + own[..., None] * (Y - MUS[:, None]), rtol=1e-12)
    np.testing.assert_allclose(sds[..., 0], np.sqrt(own * V), rtol=1e-12)


@pytest.mark.parametrize("components", ["gaussian", "points"])
def test_a_step_of_em_is_its_definition(components):
    """Shares and centres maximise their part; variances are mean squares around the new ones."""
    data = Data(Y, V, components)
    tau2s = TAU2S if components == "gaussian" else np.zeros(2)
    _, weights, *_ = data.weigh(P, MUS, tau2s)
    p, mus, found, value = data.em(P, MUS, tau2s)
    assert value == pytest.approx(data.weigh(P, MUS, tau2s)[0])
    np.testing.assert_allclose(p, weights.mean(axis=1))
    for k in range(2):
        precise = weights[k] / (tau2s[k] + V)
        centre = precise @ Y / precise.sum()
        np.testing.assert_allclose(mus[k], centre, rtol=1e-12)
        own = tau2s[k] / (tau2s[k] + V)
        square = (own**2 * ((Y - centre) ** 2).sum(axis=1) / 2 + own * V) @ weights[k] / weights[k].sum()
        assert found[k] == pytest.approx(square if components == "gaussian" else 0.0, rel=1e-12)


def test_scales_of_the_data_and_packing():
    data = Data(Y, V, "gaussian")
    centre = (Y / V[:, None]).sum(axis=0) / (1 / V).sum()
    np.testing.assert_allclose(data.centre, centre, rtol=1e-12)
    square = ((Y - centre) ** 2).mean(axis=1)
    assert data.total == pytest.approx(np.sqrt(square.mean()))
    assert data.tau2 == pytest.approx(max(np.average(square - V, weights=1 / V), 1e-3 * square.mean()))
    p, mus, tau2s = data.unpack(data.pack(Prior(P, MUS, TAU2S, 0.0)), 2)
    for found, exact in ((p, P), (mus, MUS), (tau2s, TAU2S)):
        np.testing.assert_allclose(found, exact, rtol=1e-12)
    two = split(data, Prior(P, MUS, TAU2S, 0.0), 1)
    np.testing.assert_allclose(two.p, [0.3, 0.35, 0.35])
    np.testing.assert_allclose((two.mus[1] + two.mus[2]) / 2, MUS[1])
    assert np.linalg.norm(two.mus[1] - two.mus[2]) > 0


def test_posteriors_of_a_fit_are_mixtures_of_normal_laws():
    y, v = np.array([0.1, -0.3, 0.4, 5.2, 4.9, 5.4, 0.0]), np.array([0.2, 0.1, 0.3, 0.2, 0.1, 0.4, 0.2])
    for components in ("gaussian", "points"):
        model = MixtureMeans(k=2, components=components).fit(y, v)
        p, mus, tau2s = model.p_, model.mus_[:, None], model.tau2s_[:, None]
        weights = p[:, None] * stats.norm.pdf(y, mus, np.sqrt(tau2s + v))
        assert model.log_likelihood_ == pytest.approx(np.log(weights.sum(axis=0)).sum(), rel=1e-10)
        weights /= weights.sum(axis=0)
        own = tau2s / (tau2s + v)
        means, sds = mus + own * (y - mus), np.sqrt(own * v)
        mean = (weights * means).sum(axis=0)
        np.testing.assert_allclose(model.posterior_mean_, mean, rtol=1e-9)
        square = (weights * (sds**2 + (means - mean) ** 2)).sum(axis=0)
        np.testing.assert_allclose(model.posterior_sd_, np.sqrt(square), rtol=1e-8, atol=1e-10)

        def cdf(t, weights=weights, means=means, sds=sds):
            with np.errstate(divide="ignore", invalid="ignore"):
                each = np.where(sds > 0, stats.norm.cdf((t - means) / np.where(sds > 0, sds, 1)), t >= means)
            return (weights * each).sum(axis=0)

        for t in (-0.2, 0.35, 5.0):
            np.testing.assert_allclose(model.posterior_cdf(t), cdf(t), atol=1e-10)
        for q in (0.05, 0.5, 0.95):
            for i, end in enumerate(model.posterior_quantile(q)):
                assert cdf(end + 1e-8)[i] >= q - 1e-8
                assert cdf(end - 1e-8)[i] <= q + 1e-8
        draws = model.sample_posterior(RNG(1), 4000)
        assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(square / 4000) + 1e-9).all()
        summary = model.prior_summary()
        assert summary["mean"] == pytest.approx(p @ mus[:, 0])
        spread = p @ (tau2s[:, 0] + (mus[:, 0] - summary["mean"]) ** 2)
        assert summary["sd"] == pytest.approx(np.sqrt(spread))


ROWS, REACH2 = np.array([4, 0, 2, 1, 3]), 3.0


def exact_log(log_tau2, begin, end):
    """A component's clients with the centre integrated out, per coordinate a normal law with a common part."""
    t, mine = np.exp(log_tau2), ROWS[begin:end]
    covariance = np.diag(t + V[mine]) + REACH2
    law = stats.multivariate_normal(np.zeros(len(mine)), covariance)
    return sum(law.logpdf(Y[mine, c]) for c in range(2)) + log_tau2 - 1.5 * np.log(4 + t)


def test_the_density_of_a_variance_is_that_of_its_clients():
    for begin, end in ((0, 5), (1, 3)):
        at = np.array([-3.0, 0.2, 2.5])
        found = np.array([log_density(x, Y, V, ROWS, begin, end, REACH2) for x in at])
        exact = np.array([exact_log(x, begin, end) for x in at])
        np.testing.assert_allclose(np.diff(found), np.diff(exact), rtol=1e-10)
    many, v = RNG(1).normal(0, 1, (20, 1)), np.full(20, 1e-9)  # more than eight, and products that leave the range
    rows = np.arange(20)
    pair = [log_density(x, many, v, rows, 0, 20, 1e6) for x in (-1.0, 0.5)]
    laws = [stats.multivariate_normal(np.zeros(20), (np.exp(x) + 1e-9) * np.eye(20) + 1e6) for x in (-1.0, 0.5)]
    exact = [law.logpdf(many[:, 0]) + x - 1.5 * np.log(4 + np.exp(x)) for law, x in zip(laws, (-1.0, 0.5), strict=True)]
    assert np.diff(pair)[0] == pytest.approx(np.diff(exact)[0], rel=1e-6)
    # Of equal variances: products leave the range after six or five clients, or not before eight.
    at, y = np.array([-12.0, -6.0, 0.5, 14.0]), many[:, 0]
    found, t = [log_density(x, many, v, rows, 0, 20, 100.0) for x in at], np.exp(at) + 1e-9
    within, between = np.sum((y - y.mean()) ** 2), 20 * y.mean() ** 2
    exact = -(19 * np.log(t) + np.log(t + 2000) + within / t + between / (t + 2000)) / 2
    np.testing.assert_allclose(np.diff(found), np.diff(exact + at - 1.5 * np.log(4 + np.exp(at))), rtol=1e-9)


def test_slices_have_the_density_for_their_law():
    generator, x, draws = RNG(2), 0.0, []
    for _ in range(12_000):
        x = slice_sample(generator, x, Y, V, ROWS, 0, 5, REACH2)
        draws.append(x)
    grid = np.linspace(-14, 16, 3001)
    mass = np.exp([exact_log(t, 0, 5) for t in grid])
    cdf = integrate.cumulative_trapezoid(mass, grid, initial=0)
    cdf /= cdf[-1]
    some = np.array(draws[::6])  # hardly depend on each other
    assert stats.kstest(some, lambda t: np.interp(t, grid, cdf)).pvalue > 1e-6


def test_without_clients_a_chain_draws_from_the_hyperprior():
    """Two components, and clients that one of them takes for sure: the other's variance and centre are the hyperprior's."""
    y, v = np.full((3, 1), 0.0), np.full(3, 1e-4)
    p, mus, tau2s = np.array([0.999999, 1e-6]), np.zeros((2, 1)), np.array([1e-4, 1.0])
    weights, centres, spreads = chain(RNG(3), y, v, 9.0, 1e-3, False, p, mus, tau2s, 4, 1, 6000)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    empty = np.argmin(weights, axis=1)
    rows = np.arange(6000)
    free = weights[rows, empty] < 1e-3
    drawn = spreads[rows, empty][free][::3]
    law = lambda t: 1 - np.sqrt(4 / (4 + t))  # sqrt(4 / (4 + tau2)) is uniform  # noqa: E731
    assert stats.kstest(drawn, law).pvalue > 1e-6
    assert stats.kstest(centres[rows, empty, 0][free][::3] / 3.0, stats.norm.cdf).pvalue > 1e-6
    points = chain(RNG(3), y, v, 9.0, 1.0, True, np.full(2, 0.5), np.zeros((2, 1)), np.zeros(2), 4, 2, 50)
    assert (points[2] == 0).all()
    assert [part.shape for part in points] == [(50, 2), (50, 2, 1), (50, 2)]


def test_the_risk_of_saying_that_a_client_differs_from_a_point_is_the_share_of_that_point():
    """And of naming its side, the smaller of what lies on either side, the point itself on both."""
    model = MixtureMeans(k=2, components="points").fit([-2.1, -0.4, 1.8, 2.0, 0.3], 1.0)
    (low, high), shares = sorted(model.mus_), model.responsibilities_[:, np.argsort(model.mus_)]
    assert sorted(model.atoms()) == [low, high]
    assert (shares > 0.001).all()  # so that none is lost in rounding
    np.testing.assert_allclose(model.local_false_discovery_rate(low), shares[:, 0], rtol=1e-12)
    np.testing.assert_allclose(model.local_false_discovery_rate(high), shares[:, 1], rtol=1e-12)
    assert model.local_false_discovery_rate((low + high) / 2).tolist() == [0.0] * 5
    np.testing.assert_allclose(model.local_false_sign_rate(low), shares[:, 0], rtol=1e-12)
    np.testing.assert_allclose(model.local_false_sign_rate((low + high) / 2), shares.min(axis=1), rtol=1e-12)
