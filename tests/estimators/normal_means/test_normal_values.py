"""Models of normal means, number by number: dense normal laws, mixtures by SciPy, derivatives by differences."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

from estimators import GaussianMeans, PointNormalMeans, SampleMeans
from estimators.normal_means import point_normal, spike_average, tau2_likelihood
from estimators.normal_means.normal_kernels import averages, density_sums, score_sums
from estimators.normal_means.normal_posteriors import HUGE, covariance_root
from estimators.normal_means.point_normal import Likelihood
from estimators.normal_means.prior_inference import coefficient_intervals
from estimators.normal_means.streaming_passes import PassedClients
from estimators.normal_means.streaming_prior import Search
from estimators.normal_means.tau2_likelihood import MarginalLikelihood
from estimators.normal_means.variances import inverse_trigamma, moderated_variances

Y = np.array([1.3, -0.4, 2.9, 0.2, 4.1, 1.0])
V = np.array([0.7, 1.9, 0.3, 1.1, 2.6, 0.5])
SAME = np.full(6, 0.8)
RNG = np.random.default_rng
TAU2S = np.array([0.0, 0.37, 2.4, 50.0])


def dense(y, v, tau2, mu=None, restricted=False):
    """Log density of the estimates by matrices; of all contrasts between them where it is restricted."""
    covariance = np.diag(v + tau2)
    if restricted:  # of y less its mean, and of what a flat mean is worth
        q = np.linalg.qr(np.column_stack([np.ones(y.size), np.eye(y.size)[:, 1:]]))[0][:, 1:]
        return stats.multivariate_normal(np.zeros(y.size - 1), q.T @ covariance @ q).logpdf(q.T @ y)
    inverse = np.linalg.inv(covariance)
    mu = (inverse @ y).sum() / inverse.sum() if mu is None else mu
    return stats.multivariate_normal(np.full(y.size, mu), covariance).logpdf(y)


@pytest.mark.parametrize("v", [V, SAME], ids=["unequal", "equal"])
@pytest.mark.parametrize(("prior", "mu"), [("marginal-likelihood", None), ("marginal-likelihood", 0.6), ("reml", None)])
def test_the_likelihood_of_the_spread_is_that_of_dense_normal_laws(v, prior, mu):
    law = MarginalLikelihood(Y, v, mu, prior)
    found = law.objective(TAU2S)
    exact = np.array([dense(Y, v, t, mu, prior == "reml") for t in TAU2S])
    np.testing.assert_allclose(found - found[0], exact - exact[0], atol=1e-10)
    if prior != "reml":
        np.testing.assert_allclose(found, exact, rtol=1e-12)
    for t, score in zip(TAU2S[1:], law.score(TAU2S[1:]), strict=True):
        h = 1e-5 * t
        slope = (dense(Y, v, t + h, mu, prior == "reml") - dense(Y, v, t - h, mu, prior == "reml")) / (2 * h)
        assert score == pytest.approx(2 * slope, rel=1e-5, abs=1e-7)
    centre, variance = law.centre(TAU2S)
    for t, at, error in zip(TAU2S, centre, variance, strict=True):
        w = 1 / (v + t)
        best = (w * Y).sum() / w.sum() if mu is None else mu
        assert law.origin + at == pytest.approx(best, rel=1e-12)
        assert error == pytest.approx(1 / w.sum() if mu is None else 0.0, rel=1e-12)
    tau2, settled = law.maximise()
    assert settled
    fine = np.concatenate([[0.0], np.geomspace(1e-4, 200, 301)])
    values = np.array([dense(Y, v, t, mu, prior == "reml") for t in fine])
    assert dense(Y, v, tau2, mu, prior == "reml") >= values.max() - 1e-12
    away = law.objective(TAU2S, mu=0.3, restricted=False)
    np.testing.assert_allclose(away, [dense(Y, v, t, (0.3 + law.origin)) for t in TAU2S], rtol=1e-12)


@pytest.mark.parametrize("v", [V, SAME], ids=["unequal", "equal"])
@pytest.mark.parametrize("mu", [None, 0.6])
def test_the_moment_condition_is_cochrans(v, mu):
    law = MarginalLikelihood(Y, v, mu, "moments")
    for t, score in zip(TAU2S, law.score(TAU2S), strict=True):
        w = 1 / (v + t)
        centre = (w * Y).sum() / w.sum() if mu is None else mu
        assert score == pytest.approx((w * (Y - centre) ** 2).sum() - (6 - (mu is None)), rel=1e-12)


@pytest.mark.parametrize("v", [V, 1e6 * V, SAME], ids=["unequal", "large", "equal"])
def test_estimates_far_from_zero_lose_no_digits(v):
    """Sums of squares are about the best centre of the data: what all estimates share costs nothing."""
    far, y = 2.0**30, np.round(Y * 2**20) / 2**20  # of 51 bits together: their sum is exact
    near, moved = MarginalLikelihood(y, v, None, "reml"), MarginalLikelihood(y + far, v, None, "reml")
    w = 1 / v
    assert moved.origin == pytest.approx(far + (w * y).sum() / w.sum(), rel=1e-15)
    np.testing.assert_allclose(moved.objective(TAU2S), near.objective(TAU2S), rtol=1e-12)
    np.testing.assert_allclose(moved.score(TAU2S), near.score(TAU2S), rtol=1e-6)


def test_sums_are_sums():
    law = MarginalLikelihood(Y, V, None, "reml")
    y = Y - law.origin
    w = 1 / (V + TAU2S[:, None])
    density = np.array([w.sum(1), (w * y).sum(1), (w * y**2).sum(1), np.log(w).sum(1)])
    score = np.array([w.sum(1), (w * y).sum(1), (w**2 * y**2).sum(1), (w**2 * y).sum(1), (w**2).sum(1)])
    np.testing.assert_allclose(law.sums(TAU2S, True)[:4], density, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(law.sums(TAU2S, False), score, rtol=1e-12, atol=1e-13)
    for kernel, exact, more in ((density_sums, density, (V.max(), 4)), (score_sums, score, ())):
        out = np.zeros((5, 4))
        kernel(y, V, TAU2S, *more, out)
        np.testing.assert_allclose(out[: len(exact)], exact, rtol=1e-12, atol=1e-13)
    assert tau2_likelihood.parts(5, 2) == [slice(0, 2), slice(2, 4), slice(4, 6)]
    many = tau2_likelihood.BLOCK + 7  # in several pieces of a work array
    y, v = RNG(1).normal(0, 1, many), np.exp(RNG(2).normal(0, 1, many))
    law = MarginalLikelihood(y, v, 0.0, "reml")
    law.compiled = False
    w = 1 / (v + TAU2S[:, None])
    np.testing.assert_allclose(law.sums(TAU2S, True)[2], (w * y**2).sum(1), rtol=1e-11)


def test_averages_are_no_better_than_their_search(monkeypatch):
    law = MarginalLikelihood(Y, V, None, "bayes", 1.5)
    found = law.roots
    monkeypatch.setattr(law, "roots", lambda *a, **k: (found(*a, **k)[0], False))
    assert law.integrate()[2] is False


@pytest.mark.parametrize(("power", "edge"), [(0.0, 0.0), (0.5, 0.0), (1.5, None)])
@pytest.mark.parametrize("v", [V, SAME], ids=["unequal", "equal"])
def test_averages_over_the_spread_are_integrals(power, edge, v):
    law = MarginalLikelihood(Y, v, None, "bayes", power)
    edge = 4 / np.mean(1 / v) if edge is None else edge
    assert law.edge == pytest.approx(edge)
    tau2s, shares, enough = law.integrate()
    assert enough
    assert shares.sum() == pytest.approx(1.0, rel=1e-9)

    def height(w):
        t = np.exp(w)
        return np.exp(dense(Y, v, t, restricted=True) - dense(Y, v, 2.0, restricted=True) + w) * (edge + t) ** -power

    w = np.linspace(-60, 40, 601)  # a sum of so smooth a function is its integral
    weights = np.array([height(x) for x in w])
    for f in (lambda t: 1 / (1 + t), lambda t: t / (0.7 + t), lambda t: np.exp(-t)):
        assert (shares * f(tau2s)).sum() == pytest.approx(weights @ f(np.exp(w)) / weights.sum(), abs=2e-7)


@pytest.mark.parametrize("spread", [1.2, 0.25, 0.0])  # its law is narrow, wider than a polynomial serves, and ends at 0
@pytest.mark.parametrize(("mu", "power"), [(None, 0.0), (0.1, 1.5)])
def test_averages_over_the_spread_of_many_clients_are_integrals_too(spread, mu, power):
    """Beside sums over 500 values of log tau2 of the likelihood by its definition, client by client."""
    m = tau2_likelihood.MANY + 300
    v = np.exp(RNG(1).uniform(-1, 1, m))
    y = np.sqrt(v + spread**2) * RNG(2).standard_normal(m)
    law = MarginalLikelihood(y, v, mu, "bayes", power)
    tau2s, shares, enough = law.integrate()
    assert enough
    mean = shares @ np.log(tau2s)
    reach = 8 * np.sqrt(shares @ (np.log(tau2s) - mean) ** 2)
    w = np.linspace(mean - (reach if spread > 1 else 35.0), mean + reach, 500)
    logs = np.empty(w.size)
    for i, t in enumerate(np.exp(w)):
        u = 1 / (v + t)
        centre = (u @ y) / u.sum() if mu is None else mu
        logs[i] = 0.5 * (np.log(u).sum() - u @ (y - centre) ** 2 - (np.log(u.sum()) if mu is None else 0.0))
        logs[i] += w[i] - power * np.log(law.edge + t)
    weights = np.exp(logs - logs.max())
    assert max(weights[0], weights[-1]) < 1e-10  # the sum has the whole law
    for f in (lambda t: 1 / (1 + t), lambda t: t / (0.7 + t), lambda t: np.exp(-t), lambda t: t):
        assert shares @ f(tau2s) == pytest.approx(weights @ f(np.exp(w)) / weights.sum(), rel=1e-7, abs=1e-8)


def mixture(model):
    """Weights of the nodes, and means and sds of each client's posterior at each of them, by Bayes' rule in two steps."""
    tau2s, mus, errors, shares = model._nodes
    k = model._exponent
    y, v = model.estimates_[:, None] * 2.0**-k, model.variances_[:, None] * 4.0**-k
    own = tau2s / (v + tau2s)
    return shares, (mus + own * (y - mus)) * 2.0**k, np.sqrt(own * v + (1 - own) ** 2 * errors) * 2.0**k, own


@pytest.mark.parametrize("prior", ["bayes", "reml"])
def test_posteriors_of_clients_are_mixtures_of_normal_laws(prior):
    model = GaussianMeans(prior).fit(Y, V)
    shares, means, sds, own = mixture(model)
    law = stats.norm(means, sds)
    mean = means @ shares
    np.testing.assert_allclose(model.posterior_mean_, mean, rtol=1e-11)
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt((sds**2 + (means - mean[:, None]) ** 2) @ shares), rtol=1e-10)
    np.testing.assert_allclose(model.weights_, own @ shares, rtol=1e-11)
    for t in (-1.0, 0.9, 3.3):
        np.testing.assert_allclose(model.posterior_cdf(t), law.cdf(t) @ shares, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(model.posterior_cdf(Y), law.cdf(Y[:, None]) @ shares, rtol=1e-9)
    for q in (0.004, 0.5, 0.93):
        np.testing.assert_allclose(law.cdf(model.posterior_quantile(q)[:, None]) @ shares, q, rtol=1e-9)
    draws = model.sample_posterior(RNG(3), 20_000)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * model.posterior_sd_ / np.sqrt(20_000)).all()
    np.testing.assert_allclose(draws.std(axis=0), model.posterior_sd_, rtol=0.06)
    above = np.mean(draws[:, 2] > draws[:, 0])  # of two clients together, whose centre is common
    found = model.exceedances(slice(2, 3))
    assert found is not None
    assert found[0, 0] == pytest.approx(above, abs=5 * 0.5 / np.sqrt(20_000))
    together = np.cov(draws[:, 0], draws[:, 1])[0, 1]
    tau2s, mus, errors, _ = model._nodes
    unit = 2.0**model._exponent
    rest = 1 - own
    inner = (rest[0] * rest[1] * errors * unit**2) @ shares
    spread = ((means[0] - mean[0]) * (means[1] - mean[1])) @ shares
    sizes = model.posterior_sd_[0] * model.posterior_sd_[1]
    assert together == pytest.approx(inner + spread, abs=6 * sizes / np.sqrt(20_000))
    assert model.independent == (prior == "reml" and not np.any(errors))
    assert tau2s.size == shares.size == mus.size


def test_exceedances_are_chances_of_pairs_at_every_spread():
    model = GaussianMeans("bayes").fit(Y, V)
    tau2s, mus, errors, shares = model._nodes
    k = 2.0**-model._exponent
    y, v = Y * k, V * k * k
    exact = np.zeros((6, 6))
    for t, mu, error, share in zip(tau2s, mus, errors, shares, strict=True):
        own, rest = t / (v + t), v / (v + t)
        covariance = np.diag(t * rest) + error * np.outer(rest, rest)
        mean = mu + own * (y - mu)
        for i in range(6):
            for j in range(6):
                variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
                exact[i, j] += share * (stats.norm.cdf((mean[i] - mean[j]) / np.sqrt(variance)) if i != j else 0.5)
    np.testing.assert_allclose(model.exceedances(slice(0, 6)), exact, rtol=1e-9)
    np.testing.assert_allclose(model.exceedances(slice(1, 3)), exact[1:3], rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1024.0, 1e-5])
@pytest.mark.parametrize("mu", [None, 0.6])
def test_centres_at_every_spread_of_an_average_are_the_weighted_means(scale, mu):
    y, v = scale * Y, scale**2 * V
    model = GaussianMeans(mu=None if mu is None else scale * mu).fit(y, v)
    tau2s, mus, variances, shares = model.nodes_
    w = 1 / (v[:, None] + tau2s)
    np.testing.assert_allclose(mus, (w * y[:, None]).sum(axis=0) / w.sum(axis=0) if mu is None else scale * mu, rtol=1e-11)
    np.testing.assert_allclose(variances, 1 / w.sum(axis=0) if mu is None else 0.0, rtol=1e-11)
    assert model.mu_ == pytest.approx(shares @ mus, rel=1e-11)
    assert model.mu_sd_**2 == pytest.approx(shares @ (variances + (mus - model.mu_) ** 2), rel=1e-9)
    assert np.log(model.tau2_) == pytest.approx(shares @ np.log(tau2s), rel=1e-9)


def test_a_search_for_the_spread_that_fails_warns_at_the_callers_line(monkeypatch):
    monkeypatch.setattr(MarginalLikelihood, "maximise", lambda self: (1.0, False))
    fit = lambda: GaussianMeans("reml").fit(Y, V)  # noqa: E731
    with pytest.warns(RuntimeWarning, match="the search for tau2 did not converge") as caught:
        model = fit()
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, fit.__code__.co_firstlineno)]
    assert model.converged_ is False


def test_new_data_are_drawn_from_the_laws_of_truths_and_noise():
    v = np.exp(RNG(1).uniform(-2, 2, 3000))
    model = GaussianMeans("fixed", mu=1.0, tau2=4.0).fit(np.zeros(3000), v)
    truth, (estimates, variances) = model.draw(RNG(2))
    assert stats.kstest(truth, stats.norm(1.0, 2.0).cdf).pvalue > 1e-6
    assert stats.kstest((estimates - truth) / np.sqrt(v), stats.norm.cdf).pvalue > 1e-6
    assert (variances == v).all()
    np.testing.assert_array_equal(model.own_numbers((estimates, variances)), estimates)
    silent = GaussianMeans("fixed", mu=1.0, tau2=4.0).fit([1.0, 2.0], np.inf)
    assert silent.prior_summary()["variance"] == 4.0
    assert np.isnan(silent.own_numbers()).all()


def test_roots_of_covariances_are_roots_of_singular_ones_too():
    u = np.array([0.1, 0.3, -0.7])
    several = np.array([np.outer(u, u), np.zeros((3, 3)), np.diag([0.04, 2.0, 9.0]) + 0.03])
    roots = covariance_root(several)
    np.testing.assert_allclose(roots @ np.swapaxes(roots, 1, 2), several, atol=1e-15, rtol=1e-13)


def test_without_covariates_the_basis_of_a_plane_is_a_column_of_length_one():
    model = GaussianMeans("reml").fit(np.append(Y, 9.0), np.append(SAME, np.inf))  # of the clients that are heard
    basis = model.likelihood().basis
    np.testing.assert_allclose(basis, np.full((6, 1), 6**-0.5), rtol=1e-14)
    np.testing.assert_allclose(model.coefficient_slopes @ basis.T @ Y, [Y.mean()], rtol=1e-12)
    means, variances, shares = model.coefficient_nodes()
    assert (means.shape, variances.shape, shares.tolist()) == ((1, 1), (1, 1), [1.0])
    assert (means[0, 0], variances[0, 0]) == pytest.approx((model.mu_, model.mu_sd_**2), rel=1e-12)
    assert GaussianMeans("reml", mu=0.0).fit(Y, SAME).likelihood().basis.shape == (6, 0)
    assert GaussianMeans("reml", mu=0.0).fit(Y, SAME).coefficient_slopes.shape == (1, 0)


def test_when_clients_are_taken_for_independent():
    """Under one prior that is known whole, or where two thousand others say what is unknown of it."""
    asked = (("bayes", None, False), ("bayes", 0.5, False), ("reml", None, False), ("reml", 0.5, True))
    for prior, mu, independent in asked:
        assert GaussianMeans(prior, mu).fit(Y, V).independent is independent
    for m in (2000, 2001):
        assert GaussianMeans("fixed", tau2=1.0).fit(RNG(1).normal(size=m), 1.0).independent is (m > 2000)


def test_estimates_far_from_what_is_predicted_are_sure_to_be_beyond_it():
    model = GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([100.0, -100.0, 0.0], 1.0)
    assert model.predictive_ranks().tolist() == [1.0, 0.0, 0.5]


def test_clients_that_are_all_the_centre_are_as_often_before_as_behind_each_other():
    still = GaussianMeans("fixed", mu=0.5, tau2=0.0).fit(Y, V)
    assert (still.exceedances(slice(0, 6)) == 0.5).all()
    assert still.posterior_cdf(0.5).tolist() == [1.0] * 6
    assert still.posterior_cdf(0.5, strict=True).tolist() == [0.0] * 6
    many = GaussianMeans("fixed", mu=0.5, tau2=0.0).fit(RNG(1).normal(size=1001), 1.0)
    assert (many.posterior_quantile(0.3) == 0.5).all()


def test_ranks_of_predictions_leave_the_client_out():
    """For a spread that is known: the estimate's place in the law that all the others give it."""
    model = GaussianMeans("fixed", tau2=0.9).fit(Y, V)
    for i, found in enumerate(model.predictive_ranks()):
        others = np.arange(6) != i
        w = 1 / (V[others] + 0.9)
        centre, error = (w * Y[others]).sum() / w.sum(), 1 / w.sum()
        assert found == pytest.approx(stats.norm.cdf(Y[i], centre, np.sqrt(V[i] + 0.9 + error)), rel=1e-9)
    averaged = GaussianMeans("bayes").fit(Y, V)
    tau2s, _, _, shares = averaged._nodes
    k = 2.0**-averaged._exponent
    for i, found in enumerate(averaged.predictive_ranks()):
        others = np.arange(6) != i
        w = 1 / (V[others, None] * k * k + tau2s)
        y = Y[others, None] * k
        centre, error = (w * y).sum(0) / w.sum(0), 1 / w.sum(0)
        variance = V[i] * k * k + tau2s + error
        gone = stats.norm.pdf(Y[i] * k, centre, np.sqrt(variance))  # the probability of each spread without the client
        left = shares / gone
        exact = (left * stats.norm.cdf(Y[i] * k, centre, np.sqrt(variance))).sum() / left.sum()
        assert found == pytest.approx(exact, rel=1e-7)


def test_compiled_averages_are_those_of_the_mixture():
    tau2s, mus, errors, shares = np.array([0.4, 2.0]), np.array([0.7, 1.1]), np.array([0.05, 0.2]), np.array([0.3, 0.7])
    own, mean, sd = np.empty(6), np.empty(6), np.empty(6)
    averages(Y, V, HUGE, tau2s, mus, errors, shares, own, mean, sd)
    w = tau2s / (V[:, None] + tau2s)
    means = mus + w * (Y[:, None] - mus)
    variances = w * V[:, None] + (1 - w) ** 2 * errors
    np.testing.assert_allclose(own, w @ shares, rtol=1e-13)
    np.testing.assert_allclose(mean, means @ shares, rtol=1e-13)
    np.testing.assert_allclose(sd, np.sqrt((variances + (means - mean[:, None]) ** 2) @ shares), rtol=1e-12)


def test_compiled_averages_keep_their_digits():
    """Beside sums in rational numbers: estimates far away, variances of every size, none the likeliest by far."""
    tau2s = np.array([1e-12, 1e-3, 0.5, 2.0, 1e6])
    mus, errors = np.array([0.7, 0.9, 1.1, -3.0, 40.0]), np.array([1e-9, 1e-4, 0.05, 0.2, 9.0])
    shares = np.array([0.2, 0.2, 0.2, 0.2, 0.2])
    y, v = np.array([1e7, -1e5, 3.0, 1.0, 0.5, 1e9, 2.0]), np.array([1e-6, 1e-12, 1e-3, 1.0, 1e12, np.inf, 0.0])
    own, mean, sd = np.empty(7), np.empty(7), np.empty(7)
    averages(y, v, HUGE, tau2s, mus, errors, shares, own, mean, sd)
    exact = [[Fraction(x) for x in values] for values in (tau2s, mus, errors, shares)]
    for i in range(7):
        noise, estimate = Fraction(min(v[i], HUGE)), Fraction(y[i])
        terms = []
        for t, mu, error, p in zip(*exact, strict=True):
            w = t / (noise + t)
            terms.append((p, w, mu + w * (estimate - mu), w * noise + (1 - w) ** 2 * error))
        middle = sum(p * m for p, _, m, _ in terms) / sum(exact[-1])
        square = sum(p * (s + (m - middle) ** 2) for p, _, m, s in terms)
        assert own[i] == pytest.approx(float(sum(p * w for p, w, _, _ in terms)), rel=1e-14)
        assert mean[i] == pytest.approx(float(middle), rel=1e-14)
        assert sd[i] == pytest.approx(float(square) ** 0.5, rel=1e-12)


# --- spike and slab --------------------------------------------------------------------------------------------------------


def spike_density(point):
    """Log density of the estimates under a spike and a slab, by SciPy."""
    slab, tau2, mode = 1 / (1 + np.exp(-point[0])), np.exp(point[1]), point[2]
    return np.log(slab * stats.norm.pdf(Y, mode, np.sqrt(V + tau2)) + (1 - slab) * stats.norm.pdf(Y, mode, np.sqrt(V))).sum()


POINTS = np.array([[-0.6, 0.4, 0.9], [2.1, -1.3, 1.4], [0.3, 2.2, -0.5]])


@pytest.mark.parametrize("known", [False, True])
def test_the_likelihood_of_a_spike_and_a_slab_and_its_derivatives(known):
    law = Likelihood(Y, V, mode_known=known)
    for point in POINTS:
        value, gradient, hessian = law.at(point)
        base = law.at(POINTS[0])[0] - spike_density(POINTS[0])
        assert value - base == pytest.approx(spike_density(point), rel=1e-12)
        d, h = len(gradient), 1e-5
        for i in range(d):
            step = h * np.eye(3)[i]
            assert gradient[i] == pytest.approx(
                (spike_density(point + step) - spike_density(point - step)) / (2 * h), abs=1e-7
            )
            for j in range(d):
                other = h * np.eye(3)[j]
                two = (law.at(point + other)[1][i] - law.at(point - other)[1][i]) / (2 * h)
                assert hessian[i, j] == pytest.approx(two, abs=1e-6)


def test_the_hyperprior_of_a_spike_is_uniform_in_its_weight():
    """Up to a constant the law of the slab's weight is uniform, that of tau2 in proportion to (4 + tau2)^-1.5."""
    a, b = np.array([-2.0, 0.3, 1.9]), np.array([-1.0, 0.4, 3.0])
    slab = 1 / (1 + np.exp(-a))
    found = spike_average.log_hyperprior(a, b)
    exact = np.log(slab * (1 - slab)) + b - 1.5 * np.log(4 + np.exp(b))
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    h, point = 1e-5, np.array([0.3, 0.4, 0.0])
    value, gradient, hessian = spike_average.add_hyperprior(point, (0.0, np.zeros(3), np.zeros((3, 3))))
    assert value == pytest.approx(exact[1])
    log = lambda x, y: float(spike_average.log_hyperprior(x, y))  # noqa: E731
    assert gradient[0] == pytest.approx((log(0.3 + h, 0.4) - log(0.3 - h, 0.4)) / (2 * h), abs=1e-8)
    assert gradient[1] == pytest.approx((log(0.3, 0.4 + h) - log(0.3, 0.4 - h)) / (2 * h), abs=1e-8)
    h = 1e-3
    assert hessian[0, 0] == pytest.approx((log(0.3 + h, 0.4) - 2 * value + log(0.3 - h, 0.4)) / h**2, abs=1e-6)
    assert hessian[1, 1] == pytest.approx((log(0.3, 0.4 + h) - 2 * value + log(0.3, 0.4 - h)) / h**2, abs=1e-6)


def test_heights_are_the_log_posterior(monkeypatch):
    exact = np.array([spike_density(p) + spike_average.log_hyperprior(p[0], p[1]) for p in POINTS])
    for cells in (1 << 21, 6):  # in one piece, and point by point
        monkeypatch.setattr(spike_average, "CELLS", cells)
        found = spike_average.heights(Y, V, POINTS)
        np.testing.assert_allclose(found - found[0], exact - exact[0], atol=1e-11)


@pytest.mark.parametrize("mode", [None, 0.0])
def test_priors_that_stand_together_differ_in_the_chance_alone(mode):
    generator = np.random.default_rng(6)
    y = np.where(generator.random(40) < 0.5, 0.0, generator.normal(0, 3, 40)) + generator.standard_normal(40)
    nodes = PointNormalMeans(mode=mode).fit(y, 1.0)._nodes
    assert nodes.laws[0] == 0 < nodes.laws.size < nodes.shares.size
    ends = np.append(nodes.laws, nodes.shares.size)
    kinds = np.stack([nodes.tau2s, nodes.modes, nodes.mode_sds], axis=1)
    for first, last in pairwise(ends):
        np.testing.assert_allclose(
            kinds[first:last], np.broadcast_to(kinds[first], (last - first, 3)), rtol=1e-12, atol=1e-12
        )
        assert np.unique(nodes.slabs[first:last]).size == last - first


def test_four_nodes_have_the_moments_of_the_normal_law_they_stand_for():
    root = np.array([[0.3, 0.0, 0.0], [0.1, 0.4, 0.0], [-0.2, 0.15, 0.25]])
    best, covariance = np.array([0.5, -0.3, 1.2]), root @ root.T
    for known in (False, True):
        nodes = spike_average.normal_law(best, covariance if not known else covariance[:2, :2], known)
        a, b = special.logit(nodes.slabs), np.log(nodes.tau2s)
        points = np.array([a, b, nodes.modes])
        np.testing.assert_allclose(points.mean(axis=1), best, atol=1e-12)
        moments = np.cov(points, bias=True)
        np.testing.assert_allclose(moments[:2, :2], covariance[:2, :2], rtol=1e-10)
        if known:
            assert nodes.mode_sds.tolist() == [0.0] * 4
        else:
            moments[2, 2] += nodes.mode_sds[0] ** 2
            np.testing.assert_allclose(moments, covariance, rtol=1e-10)
        assert nodes.shares.tolist() == [0.25] * 4


def test_laws_in_place_of_points_keep_their_moments():
    rows = np.array([[0, 1], [0, 1], [0, 1], [2, 0], [2, 0]])
    modes, shares = np.array([1.0, 2.0, 4.0, 0.0, 0.1]), np.array([0.2, 0.1, 0.3, 0.15, 0.25])
    centres, sds = spike_average.smoothed(rows, modes, shares, 0.3)
    assert (sds == 0.3).all()
    for some, kept in ((slice(0, 3), True), (slice(3, 5), False)):
        w = shares[some] / shares[some].sum()
        mean = w @ modes[some]
        variance = w @ (modes[some] - mean) ** 2
        assert w @ centres[some] == pytest.approx(mean)
        after = w @ (centres[some] - mean) ** 2 + 0.09
        assert after == pytest.approx(variance if kept else 0.09)  # a law narrower than the kernel is the kernel
        np.testing.assert_allclose(np.diff(centres[some]), np.diff(modes[some]) * np.sqrt(max(0.0, 1 - 0.09 / variance)))
    ends, _ = spike_average.smoothed(np.zeros((2, 2)), np.array([-1.0, 1.0]), np.full(2, 0.5), 0.6)
    assert ends.tolist() == pytest.approx([-0.8, 0.8])


def test_terms_of_clients_are_bayes_rule_at_every_node():
    nodes = spike_average.Nodes(
        np.array([0.3, 0.6, 0.8]), np.array([0.5, 0.5, 2.0]), np.array([0.9, 0.9, 1.3]), np.array([0.1, 0.1, 0.2]),
        np.array([0.2, 0.5, 0.3]), np.array([0, 2]),
    )  # fmt: skip
    slab, spike, own, means, variances = spike_average.posterior_terms(nodes, Y, V)
    chance = np.zeros((6, 3))
    for k in range(3):
        s, t, mode = nodes.slabs[k], nodes.tau2s[k], nodes.modes[k]
        inside = s * stats.norm.pdf(Y, mode, np.sqrt(V + t))
        chance[:, k] = inside / (inside + (1 - s) * stats.norm.pdf(Y, mode, np.sqrt(V)))
    np.testing.assert_allclose(slab, np.column_stack([chance[:, :2] @ [0.2, 0.5], chance[:, 2] * 0.3]), rtol=1e-11)
    np.testing.assert_allclose(slab + spike, np.broadcast_to([0.7, 0.3], (6, 2)), rtol=1e-12)
    for k, (t, mode, sd) in enumerate(((0.5, 0.9, 0.1), (2.0, 1.3, 0.2))):
        w = t / (V + t)
        np.testing.assert_allclose(own[:, k], w, rtol=1e-13)
        np.testing.assert_allclose(means[:, k], mode + w * (Y - mode), rtol=1e-13)
        np.testing.assert_allclose(variances[:, k], w * V + (1 - w) ** 2 * sd**2, rtol=1e-12)


@pytest.mark.parametrize("mode", [None, 0.8])
def test_averaged_spikes_and_slabs_are_their_mixture(mode):
    model = PointNormalMeans(mode=mode).fit(Y, V)
    nodes, (k, origin, unit) = model._nodes, model._scale
    assert nodes is not None
    y, v = (Y * 2.0**-k - origin) / unit, V * 4.0**-k / unit**2
    slab, spike, own, means, variances = spike_average.posterior_terms(nodes, y, v)
    first = nodes.laws
    modes, sds = nodes.modes[first], nodes.mode_sds[first]
    scale = unit * 2.0**k

    def back(x):
        return (origin + unit * x) * 2.0**k

    weights = np.concatenate([slab, spike], axis=1)
    centres = back(np.concatenate([means, np.broadcast_to(modes, spike.shape)], axis=1))
    widths = scale * np.concatenate([np.sqrt(variances), np.broadcast_to(sds, spike.shape)], axis=1)
    mean = (weights * centres).sum(axis=1)
    np.testing.assert_allclose(model.posterior_mean_, mean, rtol=1e-9)
    spread = (weights * (widths**2 + (centres - mean[:, None]) ** 2)).sum(axis=1)
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt(spread), rtol=1e-9)
    np.testing.assert_allclose(model.slab_probability_, slab.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(model.weights_, (slab * own).sum(axis=1), rtol=1e-10)
    inside = (slab * back(means)).sum(axis=1) / slab.sum(axis=1)
    np.testing.assert_allclose(model.slab_mean_, inside, rtol=1e-9)
    within = (slab * (scale**2 * variances + (back(means) - inside[:, None]) ** 2)).sum(axis=1) / slab.sum(axis=1)
    np.testing.assert_allclose(model.slab_sd_, np.sqrt(within), rtol=1e-9)

    def cdf(t, strict=False):
        z = t - centres
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.where(
                widths > 0, stats.norm.cdf(z / np.where(widths > 0, widths, 1)), (z > 0) | ((z == 0) & (not strict))
            )
        return (weights * at).sum(axis=1)

    for t in (-0.7, 0.79, 1.5, 3.0):
        np.testing.assert_allclose(model.posterior_cdf(t), cdf(t), atol=1e-9)
    for q in (0.03, 0.4, 0.9):
        ends = model.posterior_quantile(q)
        if mode is None:
            np.testing.assert_allclose([cdf(t)[i] for i, t in enumerate(ends)], q, atol=1e-8)
        else:
            assert all(cdf(t + 1e-9)[i] >= q - 1e-9 and cdf(t - 1e-9)[i] <= q + 1e-9 for i, t in enumerate(ends))
    assert model.atoms().tolist() == ([] if mode is None else pytest.approx([0.8]))
    draws = model.sample_posterior(RNG(4), 10_000)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(spread / 10_000)).all()
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(spread), rtol=0.1)
    summary = model.prior_summary()
    assert summary["spike_weight"] == pytest.approx(1 - nodes.shares @ nodes.slabs)
    assert summary["mean"] == pytest.approx(back(nodes.shares @ nodes.modes), rel=1e-9)
    log = (nodes.shares * nodes.slabs) @ np.log(nodes.tau2s * scale**2) / (nodes.shares @ nodes.slabs)
    assert summary["slab_variance"] == pytest.approx(np.exp(log), rel=1e-9)
    assert summary["sd"] == pytest.approx(np.sqrt((1 - summary["spike_weight"]) * summary["slab_variance"]))


@pytest.mark.parametrize("chance", [0.0, 1.0])
@pytest.mark.parametrize("noise", [0.0, 1.5])
def test_draws_of_clients_follow_the_mode_that_is_drawn(chance, noise):
    """In the spike they are that mode, in the slab they are drawn from their posterior given it."""

    class Fixed:
        def standard_normal(self, shape):
            return np.full(shape, noise if isinstance(shape, tuple) else 0.7)

        def random(self, shape):
            return np.full(shape, chance)

        def choice(self, nodes, size, p):
            assert p == pytest.approx(model._nodes.shares)
            return np.arange(size) % nodes

    model = PointNormalMeans().fit(Y, V)
    nodes, (k, origin, unit) = model._nodes, model._scale
    draws = model.sample_posterior(Fixed(), 50)
    some, scale = np.arange(50) % nodes.shares.size, 2.0**k
    modes = scale * (origin + unit * (nodes.modes + 0.7 * nodes.mode_sds)[some, None])
    w = nodes.tau2s[some, None] / (nodes.tau2s[some, None] + V / (unit * scale) ** 2)
    inside = modes + w * (Y - modes) + noise * np.sqrt(w * V)
    np.testing.assert_allclose(draws, inside if chance == 0 else np.broadcast_to(modes, draws.shape), rtol=1e-9, atol=1e-12)
    known = PointNormalMeans(0.8, "marginal-likelihood").fit(Y, V)
    exact = known.slab_mean_ + noise * known.slab_sd_ if chance == 0 else np.full(6, 0.8)
    np.testing.assert_array_equal(known.sample_posterior(Fixed(), 3), [exact] * 3)


def test_a_client_of_infinite_variance_has_no_number_of_its_own_and_its_truth_where_it_is_drawn():
    model = PointNormalMeans(prior="marginal-likelihood").fit(Y, np.append(V[:5], np.inf))
    truth, (estimates, variances) = model.draw(RNG(0))
    assert truth[5] == estimates[5]
    assert (truth[:5] != estimates[:5]).all()
    np.testing.assert_array_equal(variances, model.variances_)
    np.testing.assert_array_equal(model.own_numbers(), [*Y[:5], np.nan])
    np.testing.assert_array_equal(model.own_numbers((estimates, variances)), [*estimates[:5], np.nan])


def test_clients_are_independent_where_one_prior_is_taken_for_true_or_from_many_on(monkeypatch):
    assert PointNormalMeans(prior="marginal-likelihood").fit(Y, V).independent
    averaged = PointNormalMeans().fit(Y, V)
    assert not averaged.independent
    for many, independent in ((6, False), (5, True)):
        monkeypatch.setattr(point_normal, "MANY_PAIRS", many)
        assert averaged.independent is independent


# --- variances -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degrees", [4.0, np.array([3.0, 9.0, 2.0, 5.0, 0.0, 7.0])])
def test_moderated_variances_are_smyths(degrees):
    """Mean and variance of the logs of sample variances, less what chance is worth of them (Smyth 2004, section 6.2)."""
    s2 = np.array([0.2, 4.0, 1.1, 9.0, 2.5, 0.7])
    d = np.broadcast_to(degrees, 6)
    some = d > 0
    e = np.log(s2[some]) - special.digamma(d[some] / 2) + np.log(d[some] / 2)
    beyond = e.var(ddof=1) - special.polygamma(1, d[some] / 2).mean()
    half = inverse_trigamma(beyond)
    assert special.polygamma(1, half) == pytest.approx(beyond, rel=1e-12)
    prior = np.exp(e.mean() + special.digamma(half) - np.log(half))
    found = moderated_variances(s2, degrees)
    assert found.prior_degrees == pytest.approx(2 * half, rel=1e-10)
    assert found.prior_variance == pytest.approx(prior, rel=1e-10)
    np.testing.assert_allclose(found.degrees, 2 * half + d, rtol=1e-10)
    own = np.where(some, d * s2, 0.0)
    np.testing.assert_allclose(found.variances, (2 * half * prior + own) / (2 * half + d), rtol=1e-10)
    pooled = moderated_variances(s2[:2], 4.0)  # of two clients nobody sees whether they differ
    assert (pooled.prior_degrees, pooled.prior_variance) == (np.inf, pytest.approx(2.1))


@pytest.mark.parametrize("value", [1e-9, 0.99e-6, 1.01e-6, 0.02, 1.7, 400.0])
def test_the_inverse_of_trigamma(value):
    assert special.polygamma(1, inverse_trigamma(value)) == pytest.approx(value, rel=1e-11)


def test_intervals_of_a_prior_that_is_averaged_over_are_quantiles_of_its_nodes():
    model = PointNormalMeans().fit(Y, V)
    nodes, (k, origin, unit) = model._nodes, model._scale
    assert nodes is not None
    for level in (0.9, 0.5):
        low, high = model.prior_interval(level)["mean"]
        for end, tail in ((low, (1 - level) / 2), (high, (1 + level) / 2)):
            at = (end * 2.0**-k - origin) / unit
            assert nodes.shares @ stats.norm.cdf(at, nodes.modes, nodes.mode_sds) == pytest.approx(tail, abs=1e-9)
        low, high = model.prior_interval(level)["sd"]
        sds = np.sqrt(nodes.slabs * nodes.tau2s) * unit * 2.0**k  # points, half of each on either side of it
        for end, tail in ((low, (1 - level) / 2), (high, (1 + level) / 2)):
            near = nodes.shares[np.abs(sds - end) < 0.05 * end].sum()
            assert abs(nodes.shares @ (sds <= end) - tail) <= near + 1e-6
            assert near < 0.2
    known = PointNormalMeans(mode=0.8).fit(Y, V).prior_interval(0.9)
    assert "mean" not in known
    assert PointNormalMeans(prior="marginal-likelihood").fit(Y, V).prior_interval(0.9) == {}


@pytest.mark.parametrize("mode", [0.8, None])
def test_spikes_and_slabs_taken_for_true_are_their_mixture(mode):
    y, v = np.array([0.9, 0.7, 1.1, 0.6, 7.0, -6.0, 0.8]), np.array([0.04, 0.09, 0.02, 0.05, 0.04, 0.06, 0.03])
    model = PointNormalMeans(mode=mode, prior="marginal-likelihood").fit(y, v)
    assert 0 < model.spike_weight_ < 1
    at = model.mode_
    inside = (1 - model.spike_weight_) * stats.norm.pdf(y, at, np.sqrt(v + model.tau2_))
    chance = inside / (inside + model.spike_weight_ * stats.norm.pdf(y, at, np.sqrt(v)))
    w = model.tau2_ / (model.tau2_ + v)
    mean, sd = at + w * (y - at), np.sqrt(w * v)
    np.testing.assert_allclose(model.slab_probability_, chance, rtol=1e-9)
    np.testing.assert_allclose(model.posterior_mean_, at + chance * (mean - at), rtol=1e-9)
    np.testing.assert_allclose(model.posterior_sd_**2, chance * sd**2 + chance * (1 - chance) * (mean - at) ** 2, rtol=1e-8)

    def cdf(t):
        return chance * stats.norm.cdf(t, mean, sd) + (1 - chance) * (t >= at)

    for t in (-6.1, 0.75, at, 0.95, 7.05):
        np.testing.assert_allclose(model.posterior_cdf(t), cdf(t), atol=1e-12)
    np.testing.assert_allclose(model.posterior_cdf(at, strict=True), chance * stats.norm.cdf(at, mean, sd), atol=1e-12)
    for q in (0.02, 0.3, 0.5, 0.9, 0.999):
        ends = model.posterior_quantile(q)
        for i, t in enumerate(ends):
            assert cdf(t + 1e-9)[i] >= q - 1e-9
            assert cdf(t - 1e-9)[i] <= q + 1e-9
    summary = model.prior_summary()
    assert summary["sd"] == pytest.approx(np.sqrt((1 - model.spike_weight_) * model.tau2_))
    assert summary["slab_sd"] == pytest.approx(np.sqrt(model.tau2_))
    assert model.atoms().tolist() == [at]
    np.testing.assert_allclose(model.local_false_discovery_rate(), 1 - chance, rtol=1e-9)
    draws = model.sample_posterior(RNG(5), 5000)
    assert (np.abs(np.mean(draws == at, axis=0) - (1 - chance)) < 5 * 0.5 / np.sqrt(5000)).all()


def test_intervals_are_of_95_percent_unless_they_are_told_otherwise():
    for model in (GaussianMeans("bayes"), PointNormalMeans()):
        model.fit(Y, V)
        assert model.prior_interval() == model.prior_interval(0.95) != model.prior_interval(0.9)
        np.testing.assert_array_equal(model.interval(), model.interval(0.95))


def test_samples_are_drawn_from_both_priors():
    """Sample variances times n - 1 over sigma2 are chi-square, 0 for one row; means have sigma2 / n around the truth."""
    generator, m = RNG(6), 4000
    counts = np.tile([1, 2, 3, 9], m // 4)
    sigma2 = 2.0 * 8 / generator.chisquare(8, m)
    rows = generator.normal(1.0, 1.0, m)
    sizes = np.maximum(counts - 1, 1)
    seen = np.where(counts > 1, sigma2 * generator.chisquare(sizes) / sizes, 0.0)
    model = SampleMeans().fit(rows + np.sqrt(sigma2 / counts) * generator.standard_normal(m), seen, counts)
    truth, (means, variances, same) = model.draw(generator)
    np.testing.assert_array_equal(same, counts)
    s0, d0 = model.prior_variance_, model.prior_degrees_
    for n in (2, 3, 9):
        mine = counts == n
        assert stats.kstest(variances[mine] / s0, stats.f(n - 1, d0).cdf).pvalue > 1e-6  # a ratio of chi-squares
        law = stats.t(d0, scale=np.sqrt(s0 / n))
        assert stats.kstest((means - truth)[mine], law.cdf).pvalue > 1e-6
    assert (variances[counts == 1] == 0).all()


def test_the_inflation_of_knapp_and_hartung_needs_one_client_more_than_coefficients():
    model = GaussianMeans("reml").fit(Y[:2], V[:2])
    low, high = coefficient_intervals(model, 0.9, "knapp-hartung")[0]
    w = 1 / (V[:2] + model.tau2_)
    centre = (w * Y[:2]).sum() / w.sum()
    q = (w * (Y[:2] - centre) ** 2).sum()
    half = stats.t(1).ppf(0.95) * np.sqrt(q / w.sum())
    assert (low, high) == pytest.approx((centre - half, centre + half), rel=1e-8)
    wider = coefficient_intervals(model, 0.9, "knapp-hartung-or-wider")[0]
    half = stats.t(1).ppf(0.95) * np.sqrt(max(q, 1.0) / w.sum())
    assert tuple(wider) == pytest.approx((centre - half, centre + half), rel=1e-8)
    plain = coefficient_intervals(model, 0.9, "normal")[0]
    half = stats.norm.ppf(0.95) / np.sqrt(w.sum())
    assert tuple(plain) == pytest.approx((centre - half, centre + half), rel=1e-8)


@pytest.mark.parametrize("mu", [None, 0.6])
@pytest.mark.parametrize("prior", ["reml", "marginal-likelihood"])
def test_clients_that_pass_by_have_the_likelihood_of_dense_normal_laws(prior, mu):
    source = PassedClients(lambda: iter([(Y[:2], V[:2]), (Y[2:], V[2:])]))
    origin = source.centre(mu)
    search = Search(source, prior, mu is not None, float(np.ptp(Y)))
    found = np.array([search.objective(t) for t in TAU2S])
    exact = np.array([dense(Y, V, t, mu, prior == "reml" and mu is None) for t in TAU2S])
    np.testing.assert_allclose(found - found[0], exact - exact[0], atol=1e-10)
    for t in TAU2S[1:]:
        h = 1e-5 * t
        slope = (search.objective(t + h) - search.objective(t - h)) / (2 * h)
        assert search.score(t) == pytest.approx(2 * slope, rel=1e-5, abs=1e-7)
        w = 1 / (V + t)
        assert origin + search.at(t).mu == pytest.approx((w * Y).sum() / w.sum() if mu is None else mu, rel=1e-12)


def test_a_region_grows_to_every_neighbour_and_no_farther():
    """Of points on a line within the depth all that touch are found, from any seed; others are looked at and left out."""
    inside = {0, 1, 4, 5}

    def height(points):
        return np.where(np.isin(points[:, 0].round().astype(int), list(inside)), 0.0, -50.0)

    for seed, wanted in ((0, {0, 1}), (5, {4, 5})):
        index, found = spike_average.grow(height, np.zeros(1), np.ones(1), np.array([[seed]]), 10.0, 1000)
        assert {int(i) for i in index[:, 0]} == wanted
        assert (found == 0).all()
