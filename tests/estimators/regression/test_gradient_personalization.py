"""Algorithms 2, 3, 4 and 7: where they come to rest, and how the printed boxes fail as the ledger says."""

import numpy as np
import pytest
from scipy.special import expit

from estimators.closed_forms import priors
from estimators.regression import gradient_personalization as gp
from estimators.regression.linear_clients import LinearClients


def simulate(m=20, n=6, tau2=0.5, sigma2=1.0, d=2, seed=0):
    rng = np.random.default_rng(seed)
    thetas = np.arange(1.0, d + 1) + np.sqrt(tau2) * rng.standard_normal((m, d))
    Xs = [rng.standard_normal((n, d)) for _ in range(m)]
    return Xs, [X @ t + np.sqrt(sigma2) * rng.standard_normal(n) for X, t in zip(Xs, thetas, strict=True)], thetas


def test_algorithm_2_mended_rests_at_the_marginal_maximum():
    Xs, Ys, _ = simulate()
    fit, model = (
        gp.linear_descent(Xs, Ys, eta=0.05, T=20_000, tol=1e-9),
        LinearClients("marginal-likelihood", covariance="scalar").fit(Xs, Ys),
    )
    assert fit.converged
    np.testing.assert_allclose(fit.population["mu"], model.mu_, atol=1e-6)
    assert fit.population["sigma2_theta"] == pytest.approx(model.covariance_[0, 0], rel=1e-5)
    assert fit.population["sigma2_x"] == pytest.approx(model.sigma2_, rel=1e-5)
    np.testing.assert_allclose(fit.thetas, model.posterior_mean_, atol=1e-5)


def test_algorithm_2_printed_loses_the_variance():
    """generative:eq19: the joint objective only falls, and the variance passes 0 (generative:alg2:positive)."""
    Xs, Ys, _ = simulate()
    with pytest.warns(UserWarning, match="left its domain"):
        fit = gp.linear_descent(Xs, Ys, eta=0.01, T=20_000, as_printed=True)
    assert not fit.converged
    assert 0 < fit.population["sigma2_theta"] < 0.1
    assert (
        fit.population["sigma2_theta"]
        < LinearClients("marginal-likelihood", covariance="scalar").fit(Xs, Ys).covariance_[0, 0] / 3
    )


def test_algorithm_2_printed_rests_too_low_where_clients_differ_a_lot():
    """generative:eq19:local: S = (v + alpha2)^2/v at its stationary variance v, where S - alpha2 is the marginal one.

    Equal designs of one column of ones and equal within-client squares, so that everything is in S and alpha2 = s/n.
    """
    Ys = [c + np.array([-1.0, 1.0, -1.0, 1.0]) for c in (0.0, 2.0, 4.0, 6.0)]
    Xs = [np.ones((4, 1))] * 4
    fit = gp.linear_descent(Xs, Ys, eta=0.4, T=5000, as_printed=True, sigma2_theta=4.0, mu=np.array([3.0]))
    S, v, alpha2 = 5.0, fit.population["sigma2_theta"], fit.population["sigma2_x"] / 4
    assert fit.converged
    assert (v + alpha2) ** 2 / v == pytest.approx(S, rel=1e-4)
    right = gp.linear_descent(Xs, Ys, eta=0.4, T=5000, sigma2_theta=4.0, mu=np.array([3.0]))
    assert right.converged
    assert v < right.population["sigma2_theta"] - 0.1
    assert right.population["sigma2_theta"] == pytest.approx(S - right.population["sigma2_x"] / 4, rel=1e-4)


def test_a_printed_round_is_a_gradient_step_on_the_joint_objective():
    """generative:alg2, generative:alg2:server: rate eta in the parameters, eta/m in what is shared; by differences."""
    Xs, Ys, thetas = simulate(m=4)
    mu, v, s, eta, h = np.array([0.3, 0.1]), 1.3, 0.8, 1e-3, 1e-6
    fit = gp.linear_descent(Xs, Ys, eta=eta, T=1, theta=thetas, mu=mu, sigma2_theta=v, sigma2_x=s, as_printed=True, tol=0.0)

    def slope(f):
        return (f(h) - f(-h)) / (2 * h)

    by_v = slope(lambda e: priors.joint_objective(Xs, Ys, thetas, mu, v + e, s))
    by_s = slope(lambda e: priors.joint_objective(Xs, Ys, thetas, mu, v, s + e))
    by_mu = slope(lambda e: priors.joint_objective(Xs, Ys, thetas, mu + np.array([e, 0.0]), v, s))
    by_theta = slope(lambda e: priors.joint_objective(Xs, Ys, thetas + e * np.eye(4, 2), mu, v, s))
    assert fit.population["sigma2_theta"] == pytest.approx(v - eta / 4 * by_v, abs=1e-8)
    assert fit.population["sigma2_x"] == pytest.approx(s - eta / 4 * by_s, abs=1e-8)
    assert fit.population["mu"][0] == pytest.approx(mu[0] - eta / 4 * by_mu, abs=1e-8)
    assert np.sum((fit.thetas - thetas) * np.eye(4, 2)) == pytest.approx(-eta * by_theta, abs=1e-8)


def labels(m=12, n=15, seed=1):
    rng = np.random.default_rng(seed)
    thetas = rng.normal([0.5, -1.0], 1.0, (m, 2))
    Xs = [rng.standard_normal((n, 2)) for _ in range(m)]
    return Xs, [(rng.random(n) < expit(X @ t)).astype(float) for X, t in zip(Xs, thetas, strict=True)]


def test_algorithm_3_mended_rests_where_its_equations_hold():
    Xs, Ys = labels()
    fit = gp.logistic_descent(Xs, Ys, eta=0.1, T=20_000, tol=1e-8)
    assert fit.converged
    mu, v = fit.population["mu"], fit.population["sigma2_theta"]
    total = 0.0
    for X, Y, t in zip(Xs, Ys, fit.thetas, strict=True):
        np.testing.assert_allclose(priors.logistic_loss(X, Y, t)[1] + (t - mu) / v, 0, atol=1e-6)
        p = expit(X @ t)
        curvature = X.T @ ((p * (1 - p))[:, None] * X) + np.eye(2) / v
        total += np.sum((t - mu) ** 2) + np.trace(np.linalg.inv(curvature))
    np.testing.assert_allclose(mu, fit.thetas.mean(axis=0), atol=1e-6)
    assert v == pytest.approx(total / fit.thetas.size, rel=1e-5)


def test_algorithm_3_printed_pushes_parameters_from_the_centre():
    """generative:alg3: without data to hold them (one sample of zeros) parameters run away; mended, they come to mu."""
    Xs, Ys, start = [np.zeros((1, 1))] * 2, [[1.0], [0.0]], np.array([[1.0], [-1.0]])
    one = gp.logistic_descent(Xs, Ys, eta=1.0, T=1, theta=start, as_printed=True)
    assert one.thetas.ravel().tolist() == [2.0, -2.0]
    assert gp.logistic_descent(Xs, Ys, eta=1.0, T=1, theta=start).thetas.ravel().tolist() == [0.0, 0.0]
    ways = {"eta": 0.1, "T": 2000}
    worse, better = gp.logistic_descent(*labels(), as_printed=True, **ways), gp.logistic_descent(*labels(), **ways)
    assert np.abs(worse.thetas).max() > 3 * np.abs(better.thetas).max()


@pytest.mark.parametrize("loss", ["linear", "logistic"])
def test_algorithm_4_rests_at_a_stationary_point_of_the_penalised_objective(loss):
    rng = np.random.default_rng(2)
    centres = np.array([[-2.0, 0.0], [2.0, 1.0]])
    thetas = centres[np.arange(14) % 2] + 0.3 * rng.standard_normal((14, 2))
    Xs = [rng.standard_normal((25, 2)) for _ in thetas]
    Ys = [X @ t + rng.standard_normal(25) for X, t in zip(Xs, thetas, strict=True)]
    if loss == "logistic":
        Ys = [(Y > 0).astype(float) for Y in Ys]
    ways = {"p": [0.5, 0.5], "mus": centres / 2, "sigma2_thetas": [1.0, 1.0], "loss": loss, "b": 0.5}
    fit = gp.mixture_descent(Xs, Ys, eta=0.01, T=20_000, tol=1e-6, **ways)
    assert fit.converged
    p, mus, v = (fit.population[name] for name in ("p", "mus", "sigma2_thetas"))
    slopes = np.array(
        [
            priors.logistic_loss(X, Y, t)[1] if loss == "logistic" else priors.gaussian_loss(X, Y, t, 1.0)[1]
            for X, Y, t in zip(Xs, Ys, fit.thetas, strict=True)
        ]
    )
    np.testing.assert_allclose(slopes + priors.mixture_penalty(fit.thetas, p, mus, v)[1], 0, atol=1e-4)

    def objective(i, h):
        new = mus.copy()
        new[0, i] += h
        return priors.mixture_penalty(fit.thetas, p, new, v)[0]

    assert abs(objective(0, 1e-5) - objective(0, -1e-5)) / 2e-5 < 1e-3
    member = fit.thetas[:, 0] > 0
    assert (member == (np.arange(14) % 2 == 1)).all()


def test_algorithm_4_printed_prefers_the_component_that_fits_least():
    """The ledger's counterexample to generative:alg4: theta = 0, centres 1 and -2; the printed step goes the wrong way."""
    mus, v = np.array([[1.0], [-2.0]]), np.ones(2)
    p = np.array([0.5, 0.5])
    printed = gp.printed_mixture_gradient(np.zeros((1, 1)), mus, v, 2)[0, 0]
    right = priors.mixture_penalty(np.zeros((1, 1)), p, mus, v)[1][0, 0]
    near, far = np.exp(-0.5), np.exp(-2.0)
    assert right == pytest.approx((near * -1 + far * 2) / (near + far))
    assert printed == pytest.approx((near**-1 * -1 + far**-1 * 2) / (near**-1 + far**-1))
    assert gp.printed_mixture_gradient(np.array([[1e3]]), mus, v, 2).tolist() == [[1002.0]]
    Xs, Ys = [np.ones((9, 1))] * 4, [np.full(9, y) for y in (-3.0, -2.0, 2.0, 3.0)]
    ways = {"p": [0.5, 0.5], "mus": [[-1.0], [1.0]], "sigma2_thetas": [1.0, 1.0], "T": 300, "eta": 0.05}
    better, worse = gp.mixture_descent(Xs, Ys, **ways), gp.mixture_descent(Xs, Ys, as_printed=True, **ways)
    assert np.abs(worse.thetas).min() < np.abs(better.thetas).min()


def two_values(m=4000, mu=1.0, seed=3):
    """Clients with one sample of variance 1 around mu or -mu."""
    rng = np.random.default_rng(seed)
    return [np.ones((1, 1))] * m, list(rng.choice([-mu, mu], m)[:, None] + rng.standard_normal((m, 1)))


def test_algorithm_7_printed_draws_its_centres_together():
    """generative:alg1:collapse; mended, they stay at the truth: 4,000 clients, standard error about 0.03, 5 of them."""
    Xs, Ys = two_values()
    ways = {"mus": [[-1.0], [1.0]], "sigma2_x": 1.0}
    printed = gp.discrete_prior(Xs, Ys, as_printed=True, T=100, **ways).population["mus"].ravel()
    mended = gp.discrete_prior(Xs, Ys, tol=1e-6, **ways).population["mus"].ravel()
    np.testing.assert_allclose(mended, [-1, 1], atol=0.15)
    assert np.abs(printed).max() < 0.1


def test_algorithm_7_gives_posterior_means():
    Xs, Ys, _ = simulate(m=5)
    mus, p = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 0.0]]), np.array([0.2, 0.5, 0.3])
    fit = gp.discrete_prior(Xs, Ys, mus=mus, p=p, sigma2_x=1.5, T=1)
    for X, Y, theta in zip(Xs, Ys, fit.thetas, strict=True):
        density = p * np.exp(-np.sum((Y[:, None] - X @ mus.T) ** 2, axis=0) / 3)
        np.testing.assert_allclose(theta, density @ mus / density.sum(), rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda Xs, Ys: gp.linear_descent(Xs, Ys, eta=0.0, T=1), "eta must be > 0"),
        (lambda Xs, Ys: gp.linear_descent(Xs, Ys, eta=0.1, T=0), "T must be"),
        (lambda Xs, Ys: gp.linear_descent(Xs, Ys, eta=0.1, T=1, mu=np.zeros(3)), "theta must have shape"),
        (lambda Xs, Ys: gp.linear_descent(Xs, Ys, eta=0.1, T=1, sigma2_theta=0.0), "sigma2_theta must be > 0"),
        (lambda Xs, Ys: gp.logistic_descent(Xs, Ys, eta=0.1, T=1), "only 0 and 1"),
        (lambda Xs, Ys: gp.discrete_prior(Xs, Ys, mus=[1.0], sigma2_x=1.0), "mus must have shape"),
        (lambda Xs, Ys: gp.discrete_prior(Xs, Ys, mus=np.eye(2), sigma2_x=1.0, p=[0.9, 0.9]), "add to one"),
        (
            lambda Xs, Ys: gp.mixture_descent(Xs, Ys, eta=0.1, T=1, p=[1.0], mus=np.eye(2), sigma2_thetas=[1.0]),
            "one row of 2 per component",
        ),
    ],
)
def test_bad_input(call, says):
    Xs, Ys, _ = simulate(m=3)
    with pytest.raises(ValueError, match=says):
        call(Xs, Ys)


def test_blowing_up_is_said():
    Xs, Ys, _ = simulate(m=3)
    with pytest.warns(UserWarning, match="left its domain"):
        assert not gp.linear_descent(Xs, Ys, eta=1.0, T=1000, as_printed=True).converged


def test_a_client_far_from_all_values_takes_the_nearest():
    """Its likelihoods are all 0 in floats, and their ratio is not."""
    far, near = [[1.0], [1.0]], [[1.0]]
    fit = gp.discrete_prior([far, near], [[1e3, 1.1e3], [0.2]], mus=[[0.0], [5.0]], p=[0.5, 0.5], sigma2_x=1.0, T=1)
    assert fit.thetas.ravel().tolist() == pytest.approx([5.0, 0.0], abs=1e-3)


def test_the_printed_mixture_gradient_is_the_slope_of_the_printed_objective():
    """Of the last sum of (21) as printed, whose exponents have the wrong sign, by differences."""
    theta, mus, v, m = np.array([[0.3, -0.4], [1.0, 0.2]]), np.array([[0.0, 0.5], [1.5, -1.0]]), np.array([0.5, 2.0]), 2

    def printed(t):
        return np.log(np.sum(np.exp(((t - mus) ** 2).sum(axis=1) / (2 * v)) / (2 * np.pi * np.sqrt(v)) ** (m * 2 / 2)))

    slopes = [[(printed(t + h) - printed(t - h)) / 2e-6 for h in 1e-6 * np.eye(2)] for t in theta]
    np.testing.assert_allclose(gp.printed_mixture_gradient(theta, mus, v, m), slopes, rtol=1e-8)
