"""Pieces of regressions of many clients, number by number: rounds by hand, coordinates, roots, steps, joint posteriors."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit

from estimators.numerics.quadrature import normal_grid
from estimators.regression import coefficient_model, covariances, gauss_hermite
from estimators.regression import gradient_personalization as gp
from estimators.regression.client_rows import ClientRows, Groups, RegressionTally, Tallies
from estimators.regression.covariances import (
    Coordinates,
    Factor,
    Levels,
    climb,
    climb_inside,
    lower_root,
    read_prior,
    read_shared,
)
from estimators.regression.linear_clients import LinearClients, column_spaces, evaluate, interpolates
from estimators.regression.logistic_clients import LogisticClients
from estimators.regression.nested_logistic import NestedQuadrature

RNG = np.random.default_rng
COUNTS = (5, 3, 9, 1, 4)


def clients(d=2, kind="linear", seed=0, counts=COUNTS):
    """Designs with an intercept and responses, of unequal numbers of rows."""
    g = RNG(seed)
    Xs = [np.column_stack([np.ones(n), g.normal(size=(n, d - 1))]) for n in counts]
    thetas = g.normal(np.linspace(0.4, -0.9, d), 0.8, (len(counts), d))
    means = [X @ t for X, t in zip(Xs, thetas, strict=True)]
    if kind == "logistic":
        return Xs, [(g.random(len(m)) < expit(m)).astype(float) for m in means], thetas
    return Xs, [m + 0.7 * g.standard_normal(len(m)) for m in means], thetas


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_losses_are_sums_over_a_clients_own_rows(kind):
    Xs, Ys, thetas = clients(kind=kind)
    losses = gp.Losses(Xs, Ys, kind)
    for i, (X, Y, t) in enumerate(zip(Xs, Ys, thetas, strict=True)):
        fitted = X @ t if kind == "linear" else expit(X @ t)
        weight = np.ones(len(X)) if kind == "linear" else fitted * (1 - fitted)
        np.testing.assert_allclose(losses.gradient(thetas)[i], X.T @ (fitted - Y), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(losses.curvature(thetas)[i], X.T @ (weight[:, None] * X), rtol=1e-10)
        np.testing.assert_allclose(losses.curvature(thetas, linear=True)[i], X.T @ X, rtol=1e-12)
        np.testing.assert_allclose(losses.squares(thetas)[i], np.sum((Y - X @ t) ** 2), rtol=1e-12)
        np.testing.assert_allclose(losses.XtX[i], X.T @ X, rtol=1e-12)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize(("eta", "v", "s"), [(0.01, 1.3, 0.6), (3.0, 0.7, 0.4)])
def test_a_mended_round_by_hand(kind, eta, v, s):
    """Squares get the posterior variances that they lack; no step is longer than that of expectation-maximisation."""
    Xs, Ys, thetas = clients(kind=kind)
    mu, d, n = np.array([0.3, -0.2]), 2, np.array(COUNTS)
    noise = s if kind == "linear" else 1.0
    if kind == "linear":
        fit = gp.linear_descent(Xs, Ys, eta=eta, T=1, theta=thetas, mu=mu, sigma2_theta=v, sigma2_x=s)
    else:
        fit = gp.logistic_descent(Xs, Ys, eta=eta, T=1, theta=thetas, mu=mu, sigma2_theta=v)
    new_theta, new_mu, new_v, new_s = [], [], [], []
    for i, (X, Y, t) in enumerate(zip(Xs, Ys, thetas, strict=True)):
        fitted = X @ t if kind == "linear" else expit(X @ t)
        weight = np.ones(len(X)) if kind == "linear" else fitted * (1 - fitted)
        posterior = np.linalg.inv(X.T @ (weight[:, None] * X) / noise + np.eye(d) / v)
        squares = np.sum((t - mu) ** 2) + np.trace(posterior)
        residuals = np.sum((Y - X @ t) ** 2) + np.trace(X.T @ X @ posterior)
        new_theta.append(t - eta * (X.T @ (fitted - Y) / noise + (t - mu) / v))
        new_mu.append(mu - eta * (mu - t) / v)
        new_v.append(v - min(eta, 2 * v**2 / d) * (d / (2 * v) - squares / (2 * v**2)))
        new_s.append(s - min(eta, 2 * s**2 / n.mean()) * (n[i] / (2 * s) - residuals / (2 * s**2)))
    np.testing.assert_allclose(fit.thetas, new_theta, rtol=1e-11)
    np.testing.assert_allclose(fit.population["mu"], np.mean(new_mu, axis=0), rtol=1e-11)
    assert fit.population["sigma2_theta"] == pytest.approx(np.mean(new_v), rel=1e-11)
    if kind == "linear":
        assert fit.population["sigma2_x"] == pytest.approx(np.mean(new_s), rel=1e-11)
    assert (fit.n_iter, fit.converged) == (1, False)
    if eta > 1:  # the step of expectation-maximisation: the mean square, whatever the rate
        means = [np.sum((t - mu) ** 2) for t in thetas]
        assert fit.population["sigma2_theta"] > np.mean(means) / d


def test_defaults_of_the_algorithms():
    Xs, Ys, _ = clients()
    plain = gp.linear_descent(Xs, Ys, eta=0.01, T=3)
    told = gp.linear_descent(
        Xs, Ys, eta=0.01, T=3, theta=np.zeros((5, 2)), mu=np.zeros(2), sigma2_theta=1.0, sigma2_x=1.0, as_printed=False,
        tol=1e-9,
    )  # fmt: skip
    assert np.array_equal(plain.thetas, told.thetas)
    assert all(np.array_equal(plain.population[name], told.population[name]) for name in told.population)
    Xs, Ys, _ = clients(kind="logistic")
    plain, told = gp.logistic_descent(Xs, Ys, eta=0.01, T=3), gp.logistic_descent(Xs, Ys, eta=0.01, T=3, sigma2_theta=1.0)
    assert plain.population["sigma2_theta"] == told.population["sigma2_theta"]
    ways = {"eta": 0.01, "T": 3, "p": [0.5, 0.5], "mus": np.eye(2), "sigma2_thetas": [1.0, 2.0]}
    assert gp.mixture_descent(*clients()[:2], **ways).population["sigma2_thetas"] == pytest.approx(
        gp.mixture_descent(*clients()[:2], **ways, b=0.1, loss="linear").population["sigma2_thetas"], rel=1e-15
    )


def alike(*centres):
    """Clients of one design, whose responses are off their own centres by 1 either way."""
    return [np.ones((4, 1))] * len(centres), [c + np.array([-1.0, 1.0, -1.0, 1.0]) for c in centres]


def test_a_descent_ends_at_the_first_round_that_changes_little():
    ways = {"eta": 0.2, "tol": 1e-4}
    long = gp.linear_descent(*alike(0.0, 2.0, 5.0), T=5000, **ways)
    assert long.converged
    before = gp.linear_descent(*alike(0.0, 2.0, 5.0), T=long.n_iter - 1, **ways)
    assert (before.n_iter, before.converged) == (long.n_iter - 1, False)
    last = gp.linear_descent(*alike(0.0, 2.0, 5.0), T=long.n_iter, **ways)
    assert last.converged
    moved = [np.abs(last.thetas - before.thetas).max()]
    moved += [np.abs(last.population[name] - before.population[name]).max() for name in last.population]
    assert max(moved) <= 1e-4 * 0.2
    earlier = gp.linear_descent(*alike(0.0, 2.0, 5.0), T=long.n_iter - 2, **ways)
    moved = [np.abs(before.thetas - earlier.thetas).max()]
    moved += [np.abs(before.population[name] - earlier.population[name]).max() for name in last.population]
    assert max(moved) > 1e-4 * 0.2


def test_values_that_are_hard_to_tell_apart_take_all_thousand_rounds():
    """Centres u and -u of clients at 1 and -1 go to tanh(4 u / sigma2_x): at 4 ever more slowly to 0."""
    fit = gp.discrete_prior(*alike(-1.0, 1.0), mus=[[-1.0], [1.0]], sigma2_x=4.0, tol=0.0)
    assert (fit.n_iter, fit.converged) == (1000, False)


@pytest.mark.parametrize("discrete", [False, True])
def test_mixtures_end_at_the_first_round_that_changes_little(discrete):
    Xs, Ys = alike(-3.0, -1.0, 0.5, 2.0)

    def run(T):
        if discrete:
            return gp.discrete_prior(Xs, Ys, mus=[[-1.0], [1.0]], sigma2_x=9.0, T=T, tol=1e-3)
        ways = {"p": [0.5, 0.5], "mus": [[-1.0], [1.0]], "sigma2_thetas": [1.0, 1.0], "tol": 1e-3}
        return gp.mixture_descent(Xs, Ys, eta=0.05, T=T, **ways)

    whole = run(5000)
    last, before, earlier = (run(whole.n_iter - k) for k in range(3))
    assert (whole.converged, last.converged, before.converged) == (True, True, False)
    assert before.n_iter == whole.n_iter - 1 > 1
    names = ("p", "mus") if discrete else ("p", "mus", "sigma2_thetas")

    def moved(new, old):
        theta = 0.0 if discrete else np.abs(new.thetas - old.thetas).max()
        return max(theta, *(np.abs(new.population[name] - old.population[name]).max() for name in names))

    assert moved(last, before) <= 1e-3 * (1.0 if discrete else 0.05) < moved(before, earlier)


@pytest.mark.parametrize(("theta", "y"), [(0.0, 1.0), (1.0, 1.0)])
def test_a_variance_of_nought_is_out_of_its_domain(theta, y):
    """Steps v - 2 (1/2 - theta^2 / 2) and s - 2 (1/2 - (y - theta)^2 / 2) from 1: the first, then the second ends at 0."""
    with pytest.warns(UserWarning, match="left its domain in round 1"):
        fit = gp.linear_descent([[[1.0]]] * 2, [[y]] * 2, eta=2.0, T=3, theta=[[theta]] * 2, as_printed=True)
    assert (fit.population["sigma2_theta"], fit.population["sigma2_x"], fit.n_iter) == (1.0, 1.0, 1)


def test_what_is_at_rest_has_come_to_rest_without_any_tolerance():
    """Two clients with slopes of 0 in all parameters, to the last bit."""
    ways = {"Xs": [[[1.0]]] * 2, "theta": [[1.0], [-1.0]], "T": 5, "tol": 0.0, "eta": 0.5}
    fit = gp.linear_descent(Ys=[[2.0], [-2.0]], as_printed=True, **ways)
    assert (fit.converged, fit.n_iter, fit.thetas.tolist()) == (True, 1, [[1.0], [-1.0]])
    fit = gp.mixture_descent(Ys=[[1.5], [-1.5]], p=[1.0], mus=[[0.0]], sigma2_thetas=[2.0], b=1.0, **ways)
    assert (fit.converged, fit.n_iter, fit.thetas.tolist()) == (True, 1, [[1.0], [-1.0]])


def test_a_blow_up_keeps_what_was_before():
    Xs, Ys = alike(0.0, 0.1, 0.3)
    with pytest.warns(UserWarning, match=r"left its domain in round \d+; kept as before"):
        fit = gp.linear_descent(Xs, Ys, eta=0.05, T=5000, as_printed=True)
    assert not fit.converged
    assert fit.n_iter > 1
    same = gp.linear_descent(Xs, Ys, eta=0.05, T=fit.n_iter - 1, as_printed=True)
    assert np.array_equal(same.thetas, fit.thetas)
    assert all(np.array_equal(same.population[name], fit.population[name]) for name in same.population)
    Xs, Ys, _ = clients()
    with pytest.warns(UserWarning, match=r"blew up in round \d+; these are the values before"):
        fit = gp.mixture_descent(Xs, Ys, eta=5.0, T=500, p=[1.0], mus=[[0.0, 0.0]], sigma2_thetas=[1.0])
    assert not fit.converged
    assert np.abs(fit.thetas).max() < 1e100
    same = gp.mixture_descent(Xs, Ys, eta=5.0, T=fit.n_iter - 1, p=[1.0], mus=[[0.0, 0.0]], sigma2_thetas=[1.0])
    assert np.array_equal(same.thetas, fit.thetas)
    assert all(np.array_equal(same.population[name], fit.population[name]) for name in ("p", "mus", "sigma2_thetas"))
    assert set(fit.population) == {"p", "mus", "sigma2_thetas"}


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("as_printed", [False, True])
@pytest.mark.parametrize("rare", [0.3, 0.01])  # of the five clients: more than one, and much less
def test_a_round_of_the_mixture_by_hand(kind, as_printed, rare):
    Xs, Ys, thetas = clients(kind=kind)
    p, mus, v, b, eta = np.array([rare, 1 - rare]), np.array([[0.1, -0.4], [1.1, 0.6]]), np.array([0.5, 1.7]), 0.35, 0.03
    d = 2
    ways = {"p": p, "mus": mus, "sigma2_thetas": v, "loss": kind, "theta": thetas, "b": b, "as_printed": as_printed}
    fit = gp.mixture_descent(Xs, Ys, eta=eta, T=1, **ways)
    gaps = thetas[:, None] - mus
    squares = np.sum(gaps**2, axis=2)
    logs = np.log(p) - d / 2 * np.log(v) - squares / (2 * v)
    if as_printed:  # the wrong sign, no weights, and the number of clients in the constant
        logs = squares / (2 * v) - 5 * d / 2 * np.log(2 * np.pi * np.sqrt(v))
    weights = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    prior = np.einsum("ml,mld->md", weights / v, gaps)
    slopes = [X.T @ ((X @ t if kind == "linear" else expit(X @ t)) - Y) for X, Y, t in zip(Xs, Ys, thetas, strict=True)]
    theta = thetas - eta * (np.array(slopes) + prior)
    np.testing.assert_allclose(fit.thetas, theta, rtol=1e-10)
    density = p * v ** (-d / 2) * np.exp(-np.sum((theta[:, None] - mus) ** 2, axis=2) / (2 * v))
    shares = density / density.sum(axis=1, keepdims=True)
    sizes = shares.sum(axis=0)
    centres = shares.T @ theta / sizes[:, None]
    variances = (2 * b + np.sum(shares * np.sum((theta[:, None] - centres) ** 2, axis=2), axis=0)) / (d * sizes)
    np.testing.assert_allclose(fit.population["p"], sizes / 5, rtol=1e-10)
    np.testing.assert_allclose(fit.population["mus"], centres, rtol=1e-10)
    np.testing.assert_allclose(fit.population["sigma2_thetas"], variances, rtol=1e-10)
    assert (fit.n_iter, fit.converged) == (1, False)


@pytest.mark.parametrize("as_printed", [False, True])
def test_a_round_of_discrete_values_by_hand(as_printed):
    Xs, Ys, _ = clients(counts=(5, 3, 9, 1, 4, 6))
    Ys[2] = Xs[2] @ [0.0, 1.4]
    mus, p, s = np.array([[0.0, 1.5], [0.4, -1.0], [9.0, 9.0]]), np.array([0.2, 0.5, 0.3]), 0.8
    fit = gp.discrete_prior(Xs, Ys, mus=mus, p=p, sigma2_x=s, T=1, as_printed=as_printed)
    squares = np.array([[np.sum((Y - X @ mu) ** 2) for mu in mus] for X, Y in zip(Xs, Ys, strict=True)])
    weights = p * np.exp(-squares / (2 * s))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fit.population["weights"], weights, rtol=1e-9, atol=1e-300)
    theta = weights @ mus
    np.testing.assert_allclose(fit.thetas, theta, rtol=1e-10)
    if as_printed:
        nearest = np.sum((theta[:, None] - mus) ** 2, axis=2).argmin(axis=1)
        sizes = np.bincount(nearest, minlength=3)
        centres = [theta[nearest == k].mean(axis=0) if sizes[k] else mus[k] for k in range(3)]
    else:
        sizes = weights.sum(axis=0)
        stacked, both = np.concatenate(Xs), np.concatenate(Ys)
        rows = np.repeat(weights, [len(X) for X in Xs], axis=0)
        centres = [
            np.linalg.lstsq(stacked * np.sqrt(w)[:, None], both * np.sqrt(w), rcond=None)[0] if w.sum() > 1e-8 else mu
            for w, mu in zip(rows.T, mus, strict=True)
        ]
    np.testing.assert_allclose(fit.population["mus"], centres, rtol=1e-7)
    np.testing.assert_allclose(fit.population["p"], sizes / 6, rtol=1e-9, atol=1e-300)
    if as_printed:
        assert sorted(sizes)[:2] == [0, 1]  # a value of nobody stays, that of one client is its mean
    np.testing.assert_array_equal(  # equal by default
        gp.discrete_prior(Xs, Ys, mus=mus, sigma2_x=s, T=2).thetas,
        gp.discrete_prior(Xs, Ys, mus=mus, sigma2_x=s, T=2, p=np.full(3, 1 / 3)).thetas,
    )


def test_rows_are_batched_by_length_and_padded_by_zeros():
    Xs, Ys, _ = clients(counts=(5, 0, 9, 1, 8, 2, 16, 17))
    seen = []
    for some, X, Y, real in ClientRows.read(Xs, Ys).batches():
        seen += some.tolist()
        lengths = [len(Xs[i]) for i in some]
        assert X.shape[1] == max(*lengths, 1) if len(lengths) > 1 else max(lengths[0], 1)
        assert max(lengths) <= 2 * max(min(lengths), 0.5)  # none is padded to more than twice its length
        for row, i in enumerate(some):
            n = len(Xs[i])
            assert real[row].tolist() == [True] * n + [False] * (X.shape[1] - n)
            assert np.array_equal(X[row, :n], Xs[i])
            assert np.array_equal(Y[row, :n], Ys[i])
            assert not X[row, n:].any()
            assert not Y[row, n:].any()
    assert sorted(seen) == list(range(8))
    nothing = ClientRows.read([np.zeros((0, 3))] * 2, [np.zeros(0)] * 2)
    assert [X.shape for _, X, _, _ in nothing.batches()] == [(2, 1, 3)]


def test_groups_are_numbered_by_their_first_clients_and_summed():
    groups = Groups.read(["b", "a", "b", "c", "a", "b"], 6, True)
    assert groups.labels == ("b", "a", "c")
    assert groups.codes.tolist() == [0, 1, 0, 2, 1, 0]
    values = RNG(0).normal(size=(6, 2, 3))
    exact = [values[[0, 2, 5]].sum(axis=0), values[[1, 4]].sum(axis=0), values[3]]
    np.testing.assert_allclose(groups.sums(values), exact, rtol=1e-13)
    for wrong, says in (
        (["a", "a"], "at least two groups"), (["a", "b"], "one client per group"), (["a", None], "missing value"),
        ([1.0, np.nan], "missing value"), (["a"], r"one label per client, 2, got shape \(1,\)"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            Groups.read(wrong, 2, True)
    with pytest.raises(ValueError, match="covariance that is learnt"):
        Groups.read(["a", "a", "b"], 3, False)
    assert Groups.read(None, 3, False) is None


def test_tallies_are_cross_products():
    Xs, Ys, _ = clients(d=3)
    tallies = Tallies.of(ClientRows.read(Xs, Ys))
    for i, (X, Y) in enumerate(zip(Xs, Ys, strict=True)):
        one = tallies.client(i)
        np.testing.assert_allclose(one.XtX, X.T @ X, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(one.XtY, X.T @ Y, rtol=1e-11, atol=1e-12)
        assert one.YtY == pytest.approx(Y @ Y)
        assert (one.n, one.d) == (len(Y), 3)
    scale = np.array([1.0, 2.0, 0.5, 3.0, 1.5])
    for by in (1.0, scale):
        whole = tallies.pooled(by)
        exact = sum(X.T @ X / s**2 for X, s in zip(Xs, np.broadcast_to(by, 5), strict=True))
        np.testing.assert_allclose(whole.T @ whole, exact, rtol=1e-11)
        assert not np.tril(whole, -1).any()
    with pytest.raises(ValueError, match="tallies of 3 and 2 coefficients"):
        _ = tallies.client(0) + RegressionTally.of(Xs[0][:, :2], Ys[0])
    with pytest.raises(ValueError, match=r"number of coefficients, got \[2, 3\]"):
        Tallies.read([tallies.client(0), RegressionTally.of(Xs[0][:, :2], Ys[0])])


@pytest.mark.parametrize("dependent", [False, True])
def test_white_coordinates(dependent):
    X = RNG(1).normal(size=(40, 3)) * [1.0, 1e-3, 50.0]
    X = np.column_stack([X, X[:, 0] - 20 * X[:, 1], np.zeros(40)]) if dependent else X
    factor = np.linalg.qr(X, mode="r")
    found = Coordinates.of(factor, 40)
    r = 3
    assert found.out.shape == (X.shape[1], r)
    np.testing.assert_allclose(found.into @ found.out, np.eye(r), atol=1e-10)
    white = X @ found.out
    np.testing.assert_allclose(white.T @ white / 40, np.eye(r), atol=1e-9)
    np.testing.assert_allclose(X @ found.unseen, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.unseen.T @ found.unseen, np.eye(X.shape[1] - r), atol=1e-12)
    singular = np.linalg.svd(found.out, compute_uv=False)
    assert found.log_det == pytest.approx(np.log(singular).sum())
    with pytest.raises(ValueError, match="only zeros"):
        Coordinates.of(np.zeros((2, 2)), 4)


@pytest.mark.parametrize("shape", ["full", "diagonal", "scalar"])
def test_roots_of_covariances_and_their_slopes(shape):
    X = RNG(2).normal(size=(30, 3)) * [1.0, 3.0, 0.2]
    coordinates = Coordinates.of(np.linalg.qr(X, mode="r"), 30)
    factor = Factor.of(shape, coordinates, 0.7)
    power = np.mean(X**2, axis=0)
    start = factor.root(factor.start) @ factor.root(factor.start).T
    if shape == "full":
        np.testing.assert_allclose(start, 0.7 * np.linalg.inv(X.T @ X / 30), rtol=1e-9)
    else:
        np.testing.assert_allclose(
            start, np.diag(0.7 / power if shape == "diagonal" else [0.7 / power.mean()] * 3), rtol=1e-9
        )
    x = factor.start + 0.3 * RNG(3).normal(size=factor.start.size)
    A = RNG(4).normal(size=(3, 3))

    def f(x):
        return np.sum(A * factor.root(x)) + np.sum((factor.root(x) @ factor.root(x).T) ** 2) / 2

    L = factor.root(x)
    slope = factor.pull(A + 2 * (L @ L.T) @ L)
    np.testing.assert_allclose(slope, optimize.approx_fprime(x, f, 1e-7), rtol=2e-4, atol=1e-4)
    E = factor.inner(x)
    assert np.array_equal(E, np.tril(E))
    by_covariance = A @ A.T - 0.5 * np.eye(3)
    worst, there = factor.escape(x, by_covariance)
    slopes = factor.base.T @ by_covariance @ factor.base
    gone = factor.inner(there) @ factor.inner(there).T - E @ E.T  # a little towards the steepest covariance
    if shape == "full":
        values, vectors = np.linalg.eigh(slopes)
        assert worst == pytest.approx(values[-1])
        np.testing.assert_allclose(gone, 0.01 * np.outer(vectors[:, -1], vectors[:, -1]), atol=1e-9)
    elif shape == "diagonal":
        k = int(np.diag(slopes).argmax())
        assert worst == pytest.approx(slopes[k, k])
        np.testing.assert_allclose(gone, 0.01 * np.diag(np.arange(3) == k), atol=1e-9)
    else:
        assert worst == pytest.approx(np.trace(slopes))
        np.testing.assert_allclose(gone, 0.01 * np.eye(3), atol=1e-9)
    square = RNG(5).normal(size=(3, 4))
    root = np.zeros((3, 3))
    root[np.tril_indices(3)] = lower_root(square)
    np.testing.assert_allclose(root @ root.T, square @ square.T, rtol=1e-10)


def test_levels_leave_shared_coefficients_out():
    X = RNG(6).normal(size=(30, 3)) * [1.0, 3.0, 0.2]
    pooled = np.linalg.qr(X, mode="r")
    coordinates = Coordinates.of(pooled, 30)
    varying = np.array([True, False, True])
    levels = Levels.of("full", pooled, varying, coordinates, 30, 0.4, 2)
    one, two = levels.roots(levels.start, white=False)
    exact = np.zeros((3, 3))
    exact[np.ix_([0, 2], [0, 2])] = 0.4 * np.linalg.inv(X[:, [0, 2]].T @ X[:, [0, 2]] / 30)
    np.testing.assert_allclose(one @ one.T, exact, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(two @ two.T, exact, rtol=1e-9, atol=1e-12)
    x = levels.start + 0.2 * RNG(7).normal(size=levels.start.size)
    np.testing.assert_allclose(coordinates.out @ levels.roots(x)[1], levels.roots(x, white=False)[1], atol=1e-10)
    A = RNG(8).normal(size=(2, *levels.white.base.shape))
    np.testing.assert_allclose(
        levels.pull(A),
        optimize.approx_fprime(x, lambda x: np.sum(A * np.stack(levels.roots(x))), 1e-6),
        rtol=1e-5,
        atol=1e-6,
    )
    steep = np.stack([np.eye(3), 5 * np.eye(3)])
    slope, there = levels.escape(x, steep)
    assert slope == pytest.approx(levels.white.escape(x[3:], steep[1])[0])
    assert np.array_equal(there[:3], x[:3])
    assert not np.array_equal(there[3:], x[3:])


def test_searches_end_where_slopes_vanish():
    """`climb` minimises; `climb_inside` the same less the logarithms of the entries that start above 0."""
    centre = np.array([0.5, -1.0, 2.0])

    def loss(x):
        return 7 * np.sum((x - centre) ** 2), 14 * (x - centre)

    x, steps, good = climb(loss, np.array([1.0, 0.0, 1.0]), 100, 1e-9, 7)
    assert good
    assert steps >= 1
    np.testing.assert_allclose(x, centre, atol=1e-8)
    x, _, good = climb_inside(loss, np.array([1.0, 0.0, 1.0]), 100, 1e-9, 7)
    assert good
    # 14 (x - c) = 1/x on the diagonal, x = c off it.
    exact = (centre + np.sqrt(centre**2 + 4 / 14)) / 2
    np.testing.assert_allclose(x, [exact[0], -1.0, exact[2]], atol=1e-7)
    assert climb(loss, np.array([30.0, 5.0, 1.0]), 1, 1e-9, 7)[1] == 1


def test_searches_start_where_they_are_told():
    """Entries off the diagonal, too, which `climb_inside` has in units of those on it."""
    start = np.array([2.0, -0.5, 4.0])
    for search in (climb, climb_inside):
        asked = []

        def loss(x, asked=asked):
            asked.append(x.copy())
            return np.sum(x**2), 2 * x

        search(loss, start, 1, 1e-9, 1)
        np.testing.assert_allclose(asked[0], start, rtol=1e-15)


def test_known_priors_are_read():
    mu, root = read_prior(2.0, np.array([[2.0, 0.5], [0.5, 1.0]]), 2)
    assert mu.tolist() == [2.0, 2.0]
    np.testing.assert_allclose(root @ root.T, [[2.0, 0.5], [0.5, 1.0]], atol=1e-12)
    np.testing.assert_allclose(read_prior(None, [3.0, 0.0], 2)[1] ** 2 @ np.ones(2), [3.0, 0.0], atol=1e-12)
    one = read_prior(None, 3.0, 2)
    assert one[0] is None
    np.testing.assert_allclose(one[1] @ one[1].T, 3.0 * np.eye(2), atol=1e-12)
    assert read_prior(None, "diagonal", 2) == (None, None)
    slack = np.array([[1e6, 1e6 - 1e-4], [1e6, 1e6]])  # symmetric and not negative, but for rounding
    assert read_prior(None, slack, 2)[1].shape == (2, 2)
    below = np.array([[1.0, 1.0 + 1e-10], [1.0 + 1e-10, 1.0]])  # not negative but for rounding, in any unit
    for unit in (1e-6, 1e6):
        assert read_prior(None, unit * below, 2)[1].shape == (2, 2)
        with pytest.raises(ValueError, match="no negative eigenvalue"):
            read_prior(None, unit * np.array([[1.0, 1.0 + 1e-6], [1.0 + 1e-6, 1.0]]), 2)
    assert not read_prior(None, 0.0, 2)[1].any()
    for wrong, says in (
        ([[1.0, 0.2], [0.1, 1.0]], "symmetric"), ([[1.0, 2.0], [2.0, 1.0]], "no negative eigenvalue"),
        (np.eye(3), r"shape \(2,\) or \(2, 2\), got \(3, 3\)"), ("round", "covariance must be"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            read_prior(None, wrong, 2)
    with pytest.raises(ValueError, match="have 2 entries"):
        read_prior([1.0, 2.0, 3.0], "full", 2)
    assert read_shared([2, 0], 3, "full").tolist() == [False, True, False]
    assert read_shared((), 2, "full").tolist() == [True, True]
    for wrong, says in (([0, 0], "different positions"), ([3], r"0\.\.2"), ([0, 1, 2], "must leave a coefficient")):
        with pytest.raises(ValueError, match=says):
            read_shared(wrong, 3, "full")


@pytest.mark.parametrize("groups", [None, ["x", "y", "x", "z", "y"]])
def test_joint_posteriors_are_their_draws(groups):
    """Means, covariances between clients, chances of pairs, predictions and their errors, from one set of joint draws."""
    Xs, Ys, _ = clients(counts=(6, 4, 9, 3, 5))
    model = LinearClients("reml", covariance="diagonal").fit(Xs, Ys, groups)
    size = 60_000
    draws = model.sample_posterior(RNG(3), size)
    assert draws.shape == (size, 5, 2)
    np.testing.assert_allclose(draws.mean(axis=0), model.posterior_mean_, atol=0.02)
    for i in range(5):
        np.testing.assert_allclose(np.cov(draws[:, i].T), model.posterior_covariance_[i], atol=0.03)
        np.testing.assert_allclose(np.diag(model.posterior_covariance_[i]), model.posterior_sd_[i] ** 2, rtol=1e-12)
    for rows in (slice(None), slice(2, 4)):
        pairs = model.exceedances(rows)
        assert pairs is not None
        for row, i in enumerate(range(5)[rows]):
            for j in range(5):
                chance = 0.5 if i == j else (draws[:, i] > draws[:, j]).mean(axis=0)
                np.testing.assert_allclose(pairs[row, j], chance, atol=0.011)
            assert (pairs[row, i] == 0.5).all()
    assert not model.independent
    for t in (-0.4, 0.6):
        np.testing.assert_allclose(model.posterior_cdf(t), stats.norm.cdf(t, model.posterior_mean_, model.posterior_sd_))
    for q in (0.03, 0.8):
        np.testing.assert_allclose(
            model.posterior_quantile(q), stats.norm.ppf(q, model.posterior_mean_, model.posterior_sd_)
        )
    X = np.array([[1.0, -0.5], [2.0, 3.0]])
    mean, sd = model.predict(3, X, return_sd=True)
    np.testing.assert_allclose(mean, X @ model.posterior_mean_[3])
    np.testing.assert_allclose(
        sd, np.sqrt(np.einsum("nj,jk,nk->n", X, model.posterior_covariance_[3], X) + model.sigma2_), rtol=1e-12
    )
    mean, sd = model.predict(None, X, return_sd=True)
    prior = model.covariance_ + model.mu_covariance_ + (0 if groups is None else model.group_covariance_)
    np.testing.assert_allclose(mean, X @ model.mu_)
    np.testing.assert_allclose(sd, np.sqrt(np.einsum("nj,jk,nk->n", X, prior, X) + model.sigma2_), rtol=1e-12)
    summary = model.prior_summary()
    total = model.covariance_ + (0 if groups is None else model.group_covariance_)
    np.testing.assert_allclose(summary["covariance"], total)
    np.testing.assert_allclose(summary["sd"], np.sqrt(np.diag(total)))
    np.testing.assert_allclose(np.diag(summary["correlation"]), (np.diag(total) > 0).astype(float))
    assert summary["found_by"] == "reml"
    assert summary["sigma2"] == model.sigma2_
    if groups:
        np.testing.assert_allclose(model.expected(None, "y"), model.group_mean_[1])
        _, sd = model.linear_predictor(None, X, "z")
        own = model._group_covariances[2] + model.covariance_
        np.testing.assert_allclose(sd, np.sqrt(np.einsum("nj,jk,nk->n", X, own, X)), rtol=1e-12)
        np.testing.assert_allclose(model.group_sd_[2] ** 2, np.diag(model._group_covariances[2]))
        with pytest.raises(ValueError, match="must be one of the groups of the fit, got 'w'"):
            model.expected(None, "w")
        with pytest.raises(ValueError, match="leave it out where i is given"):
            model.expected(1, "x")
    with pytest.raises(ValueError, match=r"shape \(samples, 2\), got \(2, 1\)"):
        model.predict(0, X[:, :1])


@pytest.mark.parametrize("prior", ["bayes", "reml"])
def test_a_feature_that_nobody_has_changes_nothing_for_the_others(prior):
    """Of its coefficient nothing is known: chances of a half, quantiles without end, no draws."""
    Xs, Ys, _ = clients(counts=(6, 4, 9, 3, 5, 7))
    plain = LinearClients(prior, covariance="diagonal").fit(Xs, Ys)
    wide = [np.insert(X, 1, 0.0, axis=1) for X in Xs]
    model = LinearClients(prior, covariance="diagonal", shared=[1]).fit(wide, Ys)
    assert model.blind_.tolist() == [False, True, False]
    for t in (-0.7, 0.4):
        np.testing.assert_allclose(model.posterior_cdf(t)[:, [0, 2]], plain.posterior_cdf(t), rtol=1e-6)
        assert (model.posterior_cdf(t)[:, 1] == 0.5).all()
    for q, end in ((0.1, -np.inf), (0.9, np.inf)):
        np.testing.assert_allclose(model.posterior_quantile(q)[:, [0, 2]], plain.posterior_quantile(q), rtol=1e-6)
        assert (model.posterior_quantile(q)[:, 1] == end).all()
    assert (model.posterior_sd_[:, 1] == np.inf).all()
    pairs, others = model.exceedances(slice(1, 4)), plain.exceedances(slice(1, 4))
    assert pairs is not None
    assert others is not None
    np.testing.assert_allclose(pairs[..., [0, 2]], others, rtol=1e-6)
    assert np.isnan(pairs[..., 1]).all()
    drawn = model.sample_posterior(RNG(1), 20_000)
    assert np.isnan(drawn[..., 1]).all()
    np.testing.assert_allclose(drawn[..., [0, 2]].mean(axis=0), plain.posterior_mean_, atol=0.04)
    np.testing.assert_allclose(drawn[..., [0, 2]].std(axis=0), plain.posterior_sd_, rtol=0.04)
    summary = model.prior_summary()
    assert summary["sd"][1] == np.inf
    np.testing.assert_allclose([summary["sd"][0], summary["sd"][2]], plain.prior_summary()["sd"], rtol=1e-6)
    for name, ends in plain.prior_interval(0.8).items():
        found = model.prior_interval(0.8)[name]
        np.testing.assert_allclose([found[0], found[2]], ends, rtol=1e-5)
        assert found[1] == ((0.0 if name == "sd" else -np.inf), np.inf)
    X = np.array([[1.0, 0.0, -0.5], [1.0, 2.0, -0.5]])
    for i in (3, None):
        mean, sd = model.linear_predictor(i, X)
        exact = plain.linear_predictor(i, X[:1, [0, 2]])
        np.testing.assert_allclose((mean[0], sd[0]), np.ravel(exact), rtol=1e-6)
        assert sd[1] == np.inf


def test_coefficients_that_do_not_vary_are_points():
    Xs, Ys, _ = clients(counts=(6, 4, 9, 3, 5))
    model = LinearClients("marginal-likelihood", shared=[1], mu=[0.2, -0.5]).fit(Xs, Ys)
    assert (model.posterior_sd_[:, 1] == 0).all()
    at = model.posterior_mean_[0, 1]
    assert model.posterior_cdf(at)[:, 1].tolist() == [1.0] * 5
    assert model.posterior_cdf(at, strict=True)[:, 1].tolist() == [0.0] * 5
    assert model.posterior_cdf(at + 1e-9, strict=True)[:, 1].tolist() == [1.0] * 5
    assert model.posterior_quantile(0.9)[:, 1].tolist() == [at] * 5
    pairs = model.exceedances(slice(None))
    assert pairs is not None
    assert (pairs[:, :, 1] == 0.5).all()
    assert model.atoms().tolist() == [at] * 5
    assert model.independent
    known = LinearClients(mu=[0.0, 1.0], covariance=[1.0, 0.25], sigma2=[1.0, 2.0, 0.5, 1.0, 3.0]).fit(Xs, Ys)
    assert known.prior_summary()["found_by"] == "fixed"
    _, sd = known.predict(4, Xs[4], return_sd=True)
    exact = np.linalg.inv(Xs[4].T @ Xs[4] / 3.0 + np.diag([1.0, 4.0]))
    np.testing.assert_allclose(sd, np.sqrt(np.einsum("nj,jk,nk->n", Xs[4], exact, Xs[4]) + 3.0), rtol=1e-9)
    np.testing.assert_allclose(known.borrowed_[4], 1 - np.trace(exact @ (Xs[4].T @ Xs[4] / 3.0)) / 2, rtol=1e-9)
    with pytest.raises(ValueError, match="a new client has none"):
        known.predict(None, Xs[0], return_sd=True)


@pytest.mark.parametrize("centre", [-0.5, 0.0])
def test_coefficients_that_are_known_stay_points_in_an_average(centre):
    """A shared coefficient of a known centre does not vary under any prior: no law of it, and no division by its sd."""
    Xs, Ys, _ = clients(counts=(6, 4, 9, 3, 5))
    model = LinearClients(shared=[1], mu=[0.2, centre]).fit(Xs, Ys)
    assert model.average_ is not None
    for q in (0.03, 0.5, 0.9):
        assert (model.posterior_quantile(q)[:, 1] == centre).all()
        np.testing.assert_allclose(model.posterior_cdf(model.posterior_quantile(q))[:, 0], q, rtol=1e-9)
    low, high = model.interval()
    assert (low[:, 1] == high[:, 1]).all()
    assert (low[:, 0] < high[:, 0]).all()
    ends = model.prior_interval()
    assert ends["mean"] == [(0.2, 0.2), (centre, centre)]
    assert ends["sd"][1] == (0.0, 0.0)
    assert ends["new client"][1] == (centre, centre)
    assert ends["new client"][0][0] < 0.2 < ends["new client"][0][1]


def test_column_spaces_and_interpolation():
    Xs, Ys, _ = clients(d=3, counts=(5, 2, 0, 7))
    F = Tallies.of(ClientRows.read(Xs, Ys)).factors
    U, seen = column_spaces(F)
    assert seen.sum(axis=1).tolist() == [3, 2, 0, 3]
    for i in range(4):
        basis, R = U[i][:, seen[i]], F[i, :-1, :-1]
        np.testing.assert_allclose(basis @ (basis.T @ R), R, atol=1e-10)
    exact = [X @ [1.0, 2.0, -1.0] for X in Xs]
    bent = [Y + 1e-6 * (np.arange(len(Y)) == 0) for Y in exact]
    for responses, varying, whole in (
        (exact, [True] * 3, True), (exact, [True, False, False], True), (Ys, [True] * 3, False),
        (bent, [True, False, False], False), (bent, [True] * 3, False),
    ):  # fmt: skip
        assert interpolates(Tallies.of(ClientRows.read(Xs, responses)).factors, np.array(varying)) is whole
    own = [X @ t for X, t in zip(Xs, RNG(0).normal(size=(4, 3)), strict=True)]  # of each client's own coefficients
    factors = Tallies.of(ClientRows.read(Xs, own)).factors
    assert interpolates(factors, np.ones(3, bool))
    assert not interpolates(factors, np.array([True, False, False]))
    silent = [np.zeros((1, 3)), *Xs], [np.array([5.0]), *own]  # a response of no features has no coefficients
    assert not interpolates(Tallies.of(ClientRows.read(*silent)).factors, np.ones(3, bool))


def test_four_responses_are_not_told_by_two_levels_and_a_slope():
    Xs = [np.array([[1.0, 0.3], [1.0, 1.7]]), np.array([[1.0, -0.4], [1.0, 0.9]])]
    for slopes, whole in (((0.7, 0.7), True), ((0.7, -0.2), False)):
        Ys = [X @ [level, slope] for X, level, slope in zip(Xs, (2.0, -1.0), slopes, strict=True)]
        assert interpolates(Tallies.of(ClientRows.read(Xs, Ys)).factors, np.array([True, False])) is whole


@pytest.mark.parametrize("shared", range(3))
def test_the_shared_coefficient_of_an_interpolation_may_be_any(shared):
    """What varies is taken off in its own space, wherever its columns stand; the rest has one coefficient or has not."""
    Xs, _, _ = clients(d=3, counts=(5, 2, 6, 7, 4))
    own = RNG(0).normal(size=(5, 3))
    alike = own.copy()
    alike[:, shared] = 0.7
    for thetas, whole in ((alike, True), (own, False)):
        factors = Tallies.of(ClientRows.read(Xs, [X @ t for X, t in zip(Xs, thetas, strict=True)])).factors
        assert interpolates(factors, np.arange(3) != shared) is whole


def test_draws_have_the_fitted_law():
    """Cross products of drawn tallies: of truths and noise, and of what is left beside the features."""
    Xs, Ys, _ = clients(counts=(6, 4, 9, 1, 3))
    model = LinearClients("reml", covariance="diagonal").fit(Xs, Ys)
    truth = RNG(5).normal(size=(5, 2))
    g, own, rest = RNG(6), [], []
    for _ in range(1200):
        drawn, (tallies,) = model.draw(g, truth)
        assert np.array_equal(drawn, truth)
        own.append(tallies[2].XtY)
        rest.append([t.factor[-1, -1] ** 2 for t in tallies])
        assert tallies[3].YtY == pytest.approx(tallies[3].XtY[0] ** 2)  # one row, whose intercept is 1
    XtX = Xs[2].T @ Xs[2]
    np.testing.assert_allclose(np.mean(own, axis=0), XtX @ truth[2], atol=0.45)
    np.testing.assert_allclose(np.cov(np.array(own).T), model.sigma2_ * XtX, rtol=0.2, atol=0.5)
    left = np.array([4, 2, 7, 0, 1])
    np.testing.assert_allclose(np.mean(rest, axis=0), model.sigma2_ * left, rtol=0.13)
    np.testing.assert_allclose(np.var(rest, axis=0), 2 * model.sigma2_**2 * left, rtol=0.3)
    truths = np.array([model.draw(g)[0] for _ in range(1500)])
    np.testing.assert_allclose(truths.mean(axis=(0, 1)), model.mu_, atol=0.07)
    np.testing.assert_allclose(np.cov(truths.reshape(-1, 2).T), model.covariance_, rtol=0.1, atol=0.03)


def test_labels_are_drawn_predicted_and_averaged():
    Xs, Ys, _ = clients(kind="logistic", counts=(20, 14, 25, 9, 18))
    model = LogisticClients(mu=[0.3, -0.6], covariance=[0.8, 0.3]).fit(Xs, Ys)
    truth = RNG(5).normal(size=(5, 2))
    g, sums = RNG(6), np.zeros(20)
    for _ in range(2000):
        sums += model.draw(g, truth)[1][1][0]
    np.testing.assert_allclose(sums / 2000, expit(Xs[0] @ truth[0]), atol=0.06)
    X = np.array([[1.0, 0.3], [1.0, -2.0]])
    draws = model.sample_posterior(RNG(7), 40_000)[:, 1] @ X.T
    np.testing.assert_allclose(model.predict_proba(1, X), expit(draws).mean(axis=0), atol=0.006)
    assert model.predict(1, X).tolist() == (model.predict_proba(1, X) > 0.5).astype(int).tolist()
    np.testing.assert_allclose(model.predict(1), model.posterior_mean_[1])
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    centre, sd = X @ [0.3, -0.6], np.sqrt(X**2 @ [0.8, 0.3])
    exact = [expit(c + s * nodes) @ masses / masses.sum() for c, s in zip(centre, sd, strict=True)]
    np.testing.assert_allclose(model.predict_proba(None, X), exact, atol=1e-6)
    assert np.array_equal(model.predict(None), model.mu_)


@pytest.mark.parametrize(("k", "points"), [(1, 7), (2, 5)])
def test_nodes_have_the_moments_of_a_normal_law(k, points):
    nodes, masses = normal_grid(k, points)
    assert nodes.shape == (points**k, k)
    for power, moment in ((0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0), (6, 15.0)):
        np.testing.assert_allclose(masses @ nodes**power, moment, atol=1e-11)
    if k == 2:
        assert masses @ (nodes[:, 0] ** 2 * nodes[:, 1] ** 4) == pytest.approx(3.0)


@pytest.mark.parametrize("k", [1, 2])
def test_modes_are_where_slopes_vanish(k):
    g, b, n = RNG(1), 4, 7
    base, B = g.normal(size=(b, n)), 2 * g.normal(size=(b, n, k))
    Y, real = (g.random((b, n)) < 0.4).astype(float), np.arange(n) < np.array([[7], [5], [1], [6]])
    Y, B = Y * real, B * real[..., None]
    Y[1], real[1] = real[1], real[1]  # one label only
    u, spread = gauss_hermite.modes(base, B, Y, real, g.normal(size=(b, k)))
    for i in range(b):
        p = real[i] * expit(base[i] + B[i] @ u[i])
        slope = B[i].T @ (real[i] * Y[i] - p) - u[i]
        inverse = np.linalg.inv(np.eye(k) + B[i].T @ ((p * (1 - p) * real[i])[:, None] * B[i]))
        assert slope @ inverse @ slope < 2e-10  # twice what is left to gain, in nats
        np.testing.assert_allclose(spread[i] @ spread[i].T, inverse, rtol=1e-4)
        assert not np.triu(spread[i], 1).any()


def rows_of_labels(d=2):
    Xs, Ys, _ = clients(d=d, kind="logistic", counts=(6, 4, 9, 3, 5, 7), seed=2)
    rows = ClientRows.read(Xs, Ys)
    return rows, Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y))


def differences(f, x, h=1e-3):
    """Gradients (n, d) and Hessians (n, d, d) at x of the n functions that f returns values of."""
    unit = h * np.eye(x.size)
    slope = np.array([(f(x + u) - f(x - u)) / (2 * h) for u in unit])
    bend = [[(f(x + u + w) - f(x + u - w) - f(x - u + w) + f(x - u - w)) / (4 * h * h) for u in unit] for w in unit]
    return slope.T, np.moveaxis(bend, 2, 0)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("nested", [False, True])
def test_scores_and_information_about_the_centre_are_derivatives(k, nested):
    """Of every group's or client's log-likelihood, by differences; posteriors of effects by their slopes in a tilt."""
    rows, coordinates = rows_of_labels()
    phi, root = np.array([0.3, -0.4]), np.array([[0.8, 0.0], [0.3, 0.5]])[:, :k]
    outer = np.array([[0.5, 0.0], [-0.3, 0.4]])[:, :k]
    groups = Groups.read(["a", "b", "a", "c", "b", "c"], 6, True)
    surface = NestedQuadrature(rows, coordinates, None, 1e-9, groups) if nested else gauss_hermite.Quadrature(
        rows, coordinates, None, 1e-9
    )  # fmt: skip

    def look(phi):
        return surface.look(root, phi, outer) if nested else surface.look(root, phi)

    now = look(phi)
    now = look(phi)  # from modes that are known
    slopes = now.score if nested else now.a
    found = now.observed if nested else gauss_hermite.observed(now)
    slope, bend = differences(lambda x: look(x).value, phi)
    np.testing.assert_allclose(slopes, -slope, atol=2e-4)
    np.testing.assert_allclose(found, bend, atol=2e-3)
    # Posterior means move with phi as covariances of effects and scores say.
    for name, by in (("nu", "by_phi"), ("h", "h_by_phi")) if nested else ():
        h = 1e-4
        moved = [(getattr(look(phi + u), name) - getattr(look(phi - u), name)) / (2 * h) for u in h * np.eye(2)]
        np.testing.assert_allclose(getattr(now, by), np.stack(moved, axis=-1), atol=5e-3)
    if not nested:
        state = surface.at(root)
        h = 1e-4
        moved = [(look(surface.phi + u).nu - look(surface.phi - u).nu) / (2 * h) for u in h * np.eye(2)]
        np.testing.assert_allclose(state.by_phi, np.stack(moved, axis=-1), atol=5e-3)
        np.testing.assert_allclose(state.P, np.eye(k) - state.cov)


def test_effects_of_groups_and_clients_by_plain_sums():
    """One coefficient at each level: 201 x 201 places of a group's effect and a client's, client by client."""
    rows, coordinates = rows_of_labels(d=1)
    groups = Groups.read(["a", "b", "a", "c", "b", "c"], 6, True)
    root, outer, phi = np.array([[0.9]]), np.array([[0.7]]), np.array([0.2])
    found = NestedQuadrature(rows, coordinates, None, 1e-9, groups).look(root, phi, outer)
    x = np.linspace(-7, 7, 201)
    mass = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    ends = np.cumsum(rows.counts)
    Xs, Ys = np.split(rows.X[:, 0], ends[:-1]), np.split(rows.Y, ends[:-1])
    for g in range(3):
        whole, parts = mass.copy(), {}
        for i in np.flatnonzero(groups.codes == g):
            odds = np.multiply.outer(phi[0] + 0.7 * x[:, None] + 0.9 * x, Xs[i] * coordinates.out[0, 0])
            table = np.exp(np.sum(Ys[i] * odds - np.logaddexp(0, odds), axis=2)) * mass  # group's effect by client's
            parts[i] = table
            whole = whole * table.sum(axis=1)
        assert found.value[g] == pytest.approx(-np.log(whole.sum()), abs=1e-6)
        chance = whole / whole.sum()
        mean = chance @ x
        assert found.h[g, 0] == pytest.approx(mean, abs=1e-5)
        assert found.h_variance[g, 0, 0] == pytest.approx(chance @ (x - mean) ** 2, abs=1e-5)
        for i, table in parts.items():
            both = chance[:, None] * table / table.sum(axis=1, keepdims=True)
            nu = (both @ x).sum()
            assert found.nu[i, 0] == pytest.approx(nu, abs=1e-5)
            assert found.cov[i, 0, 0] == pytest.approx((both @ (x - nu) ** 2).sum(), abs=1e-5)
            assert found.uh[i, 0, 0] == pytest.approx((x - mean) @ both @ (x - nu), abs=1e-5)


def test_independent_coefficients_are_in_units_of_their_features_and_those_of_no_feature_in_units_of_one():
    X = np.column_stack([np.full(8, 3.0), np.resize([0.5, -0.5], 8), np.zeros(8)])
    coordinates = Coordinates.of(np.linalg.qr(X, mode="r"), 8)
    np.testing.assert_allclose(Factor.of("diagonal", coordinates, 4.0).base, 2 * np.diag([1 / 3, 2, 1]), atol=1e-12)
    mean = (9 + 0.25 + 1) / 3
    np.testing.assert_allclose(Factor.of("scalar", coordinates, 4.0).base, 2 / np.sqrt(mean) * np.eye(3), atol=1e-12)


@pytest.mark.parametrize("shape", ["full", "diagonal", "scalar"])
def test_a_step_of_scoring_solves_its_equations(shape):
    """Slope = information times step, in the entries of a symmetric E of L (I + E) L'."""
    g = RNG(3)
    X = g.normal(size=(30, 2))
    factor = Factor.of(shape, Coordinates.of(np.linalg.qr(X, mode="r"), 30), 0.7)
    x = factor.start * (1 + 0.1 * g.random(factor.start.size))
    halves = 0.6 * g.random((9, 2, 2))
    P = 0.3 * np.eye(2) + halves @ np.swapaxes(halves, 1, 2) / 3
    L = factor.root(x)
    pull = g.normal(size=(2, 2))
    by_root = np.linalg.inv(L.T) @ (0.4 * (pull + pull.T))
    for profiled in (0, 40):
        state = SimpleNamespace(P=P, by_root=by_root, profiled=profiled)
        new = factor.scoring_step(x, state, clip=False)
        assert new is not None
        E = np.linalg.solve(L, factor.root(new) @ factor.root(new).T) @ np.linalg.inv(L.T) - np.eye(2)
        cross = P.sum(axis=0) / 2
        expected = sum(p @ E @ p for p in P) / 2 - (2 / profiled * np.sum(cross * E) * cross if profiled else 0.0)
        slope = -(L.T @ by_root) / 2
        if shape == "full":
            np.testing.assert_allclose(expected, (slope + slope.T) / 2, atol=1e-6)
        elif shape == "diagonal":  # each variance by itself: the squares of P's entries
            e = np.diag(E)
            information = np.einsum("mij,mij->ij", P, P) / 2
            if profiled:
                information = information - 2 / profiled * np.outer(np.diag(cross), np.diag(cross))
            np.testing.assert_allclose(information @ e, np.diag(slope), atol=1e-6)
        else:
            information = np.sum(P**2) / 2 - (2 / profiled * np.trace(cross) ** 2 if profiled else 0.0)
            np.testing.assert_allclose(information * E[0, 0], np.trace(slope), atol=1e-6)
    steep = SimpleNamespace(P=P, by_root=np.linalg.inv(L.T) @ (50.0 * np.eye(2)), profiled=0)
    assert factor.scoring_step(x, steep, clip=False) is None
    clipped = factor.root(factor.scoring_step(x, steep, clip=True))
    E = np.linalg.solve(L, clipped @ clipped.T) @ np.linalg.inv(L.T)
    np.testing.assert_allclose(np.linalg.eigvalsh((E + E.T) / 2), 0.05, rtol=1e-9)  # a twentieth at most


def test_a_step_of_scoring_of_means_with_known_errors_is_the_textbooks():
    """Means y_i of variances t_i = v + a_i about 0: v goes by sum((y_i^2 - t_i) / t_i^2) / sum(1 / t_i^2)."""
    counts, v, noise = np.array([3, 8, 5, 1]), 0.7, 0.4
    Xs, Ys = [np.ones((n, 1)) for n in counts], [RNG(4).normal(0.5, 1.2, n) for n in counts]
    data = LinearClients("marginal-likelihood", sigma2=noise).white(Tallies.of(ClientRows.read(Xs, Ys)), np.zeros(1))
    into = data.coordinates.into
    state = evaluate(data, into * np.sqrt(v))
    y, t = np.array([Y.mean() for Y in Ys]), v + noise / counts
    new = v + np.sum((y**2 - t) / t**2) / np.sum(1 / t**2)
    found = Factor(into, "scalar").scoring_step(np.sqrt([v]), state, clip=False)
    np.testing.assert_allclose(found**2, new, rtol=1e-8)
    silent = Tallies.of(ClientRows.read(Xs, [0 * Y for Y in Ys]))  # takes v to below 0, which is more than to a twentieth
    state = evaluate(LinearClients("marginal-likelihood", sigma2=noise).white(silent, np.zeros(1)), into * np.sqrt(v))
    assert v - np.sum(1 / t) / np.sum(1 / t**2) < v / 20
    assert Factor(into, "scalar").scoring_step(np.sqrt([v]), state, clip=False) is None
    np.testing.assert_allclose(Factor(into, "scalar").scoring_step(np.sqrt([v]), state, clip=True) ** 2, v / 20)


@pytest.mark.parametrize(
    ("slope", "max_iter", "rounds", "good"),
    [
        (0.9995e-3, 100, 1, True),
        (1.0005e-3, 100, 5, False),
        (1.1e-3, 21, 3, True),
        (1.1e-3, 20, 3, True),
        (-1.0, 100, 1, True),
    ],
)
def test_a_search_goes_on_where_a_larger_covariance_is_likelier(slope, max_iter, rounds, good, monkeypatch):
    """Five times at most, each of scoring and the other search with the steps that are left; slopes are per client."""
    given, left = [], []

    def escape(x, by_covariance):
        given.append(by_covariance)
        return slope, x + 10.0

    monkeypatch.setattr(covariances, "score", lambda at, factor, x, most, tol: left.append(most) or (x + 1.0, 3))
    monkeypatch.setattr(covariances, "climb", lambda loss, x, most, tol, m: left.append(most) or (x, 4, True))
    levels = SimpleNamespace(start=np.zeros(1), count=1, white=None, roots=lambda x: [x], escape=escape)
    state = SimpleNamespace(by_covariance=np.array([[6.0]]))
    x, steps, found = covariances.seek(lambda root: state, levels, False, max_iter, 1e-6, 4)
    assert (steps, found) == (7 * rounds, good)
    assert x == [rounds + 10.0 * (rounds if rounds == 5 else rounds - 1)]
    assert given == [1.5] * rounds
    assert left == [max_iter - 7 * k - step for k in range(rounds) for step in (0, 3)]
    if rounds == 1:  # with groups there is no scoring
        levels.count, left[:] = 2, []
        assert covariances.seek(lambda root: state, levels, False, max_iter, 1e-6, 4)[1:] == (4, True)
        assert left == [max_iter]


@pytest.mark.parametrize(
    ("slope", "fall", "shape", "size", "root", "steps"),
    [(4.1e-6, 1.0, "full", 1, 0.0, 5), (-4.1e-6, 1.0, "full", 1, 0.0, 5), (3.9e-6, 1.0, "full", 1, 0.0, 0),
     (1.0, 0.0, "full", 1, 0.0, 1), (1.0, -1.0, "full", 1, 0.0, 1), (1.0, 1.0, "full", 40, 0.0, 5),
     (1.0, 1.0, "full", 41, 0.0, 0), (1.0, 1.0, "diagonal", 41, 0.0, 5),
     (4.1e-12, 1.0, "full", 1, 1e6, 5), (-3.9e-12, 1.0, "full", 1, 1e6, 0)],
)  # fmt: skip
def test_scoring_goes_on_while_slopes_per_client_are_large_and_losses_fall(slope, fall, shape, size, root, steps):
    """By changes of a root, or relative ones, whichever is larger."""
    clips = []
    factor = SimpleNamespace(
        shape=shape,
        base=np.zeros((size, size)),
        pull=lambda by_root: np.append(by_root, 0.0),
        root=lambda x: np.array([[root]]),
    )
    factor.scoring_step = lambda x, state, clip: clips.append(clip) or x + 1

    def evaluate(x):
        return SimpleNamespace(loss=-fall * x, by_root=np.array([slope]), P=np.zeros((4, 1, 1)))

    assert covariances.score(evaluate, factor, 0.0, 5, 1e-6) == (steps if fall > 0 else 0.0, steps)
    assert clips == [True, True, False, False, False][:steps]
    factor.scoring_step = lambda x, state, clip: None
    assert covariances.score(evaluate, factor, 0.0, 5, 1e-6) == (0.0, 0)


@pytest.mark.parametrize(("tol", "value", "limit"), [(1e-6, 0.0, 1e-5), (1e-12, 0.5, 1e-7), (1e-12, -100.0, 1e-6)])
def test_a_search_has_settled_where_slopes_per_client_are_ten_tolerances_or_do_not_show_in_values(
    tol, value, limit, monkeypatch
):
    """Of a value of 100 a slope moves the last digits of doubles where it is ten times as large as for a value of 1."""
    asked, slopes = [], []

    def minimize(each, start, jac, method, options):
        assert options["maxfun"] > options["maxiter"]  # looks at the loss, of which a step takes one at least
        asked.append((each(start)[0], each(start)[1].tolist(), options["maxiter"], options["gtol"]))
        return SimpleNamespace(x=start, nit=np.int64(3), fun=value, jac=np.array([0.0, slopes.pop()]))

    monkeypatch.setattr(optimize, "minimize", minimize)
    for slope, good in ((0.99 * limit, True), (-0.99 * limit, True), (1.01 * limit, False), (-1.01 * limit, False)):
        slopes.append(slope)
        found = climb(lambda x: (6.0, np.array([2.0, 8.0])), np.zeros(2), 0, tol, 4)
        assert (found[0].tolist(), *found[1:]) == ([0.0, 0.0], 3, good)
        assert asked.pop() == (1.5, [0.5, 2.0], 1, tol)


def test_warnings_point_at_the_callers_line():
    linear, logistic = clients(counts=(6,) * 8)[:2], clients(kind="logistic", counts=(6,) * 8)[:2]
    calls = (
        lambda: LinearClients(max_iter=1).fit(*linear),
        lambda: LogisticClients(max_iter=1).fit(*logistic),
        lambda: gp.linear_descent(*alike(0.0, 0.1, 0.3), eta=0.05, T=5000, as_printed=True),
        lambda: gp.logistic_descent([np.ones((4, 1))] * 3, [[0, 1, 1, 0]] * 3, eta=50.0, T=5000, as_printed=True),
        lambda: gp.mixture_descent(*linear, eta=5.0, T=500, p=[1.0], mus=[[0.0, 0.0]], sigma2_thetas=[1.0]),
    )
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [w.filename for w in caught] == [__file__]


def test_an_average_over_priors_has_the_moments_of_their_mixture():
    """From any origin, which rounding alone is about."""
    generator = np.random.default_rng(8)
    weights, means = np.array([0.2, 0.5, 0.3]), generator.normal(3, 1, (3, 4, 2))
    roots = generator.normal(size=(3, 4, 2, 2))
    covariances = roots @ np.swapaxes(roots, -1, -2)
    centre = np.einsum("k,kmd->md", weights, means)
    away = means - centre
    exact = np.einsum("k,kmij->mij", weights, covariances + away[..., :, None] * away[..., None, :])
    for origin in (np.zeros((4, 2)), centre + 0.1):
        parts = coefficient_model.Parts(origin)
        for weight, mean, covariance in zip(weights, means, covariances, strict=True):
            parts.add(weight, mean, covariance)
        found, spread = parts.moments()
        np.testing.assert_allclose(found, centre, rtol=1e-12)
        np.testing.assert_allclose(spread, exact, rtol=1e-9, atol=1e-12)
