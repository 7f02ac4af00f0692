"""Logistic regressions by quadrature: lme4's numbers, integrals by other means, slopes, and beside the bound."""

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.special import expit, log_expit

from estimators.regression.client_rows import ClientRows, Tallies
from estimators.regression.covariances import Coordinates
from estimators.regression.gauss_hermite import NEAR, Quadrature
from estimators.regression.logistic_clients import LogisticClients

# cbpp of lme4 (Lesnoff et al. 2004): herd, cattle with the disease, herd size at each of its visits.
HERD = np.repeat(np.arange(15), [4, 3, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4])
SICK = np.array(
    [2, 3, 4, 0, 3, 1, 1, 8, 2, 0, 2, 2, 0, 2, 0, 5, 0, 0, 1, 3, 0, 0, 1, 8, 1, 3, 0, 12, 2, 0, 0, 0, 1, 1, 0, 2, 0, 5, 3, 1,
     2, 1, 0, 0, 1, 2, 0, 0, 11, 0, 0, 0, 1, 1, 1, 0]
)  # fmt: skip
SIZE = np.array(
    [14, 12, 9, 5, 22, 18, 21, 22, 16, 16, 20, 10, 10, 9, 6, 18, 25, 24, 4, 17, 17, 18, 20, 16, 10, 9, 5, 34, 9, 6, 8, 6, 22,
     22, 18, 22, 25, 27, 22, 22, 10, 8, 6, 5, 21, 24, 19, 23, 19, 2, 3, 2, 19, 15, 15, 15]
)  # fmt: skip


def herds():
    sick, size = np.bincount(HERD, SICK).astype(int), np.bincount(HERD, SIZE).astype(int)
    return [np.ones((n, 1)) for n in size], [np.arange(n) < k for k, n in zip(sick, size, strict=True)]


def test_lme4_golden_numbers():
    """R 4.2 (Debian), lme4: glmer(cbind(incidence, size-incidence) ~ 1 + (1|herd), cbpp, binomial, nAGQ=25).

    fixef, sd of herds, and the modes of the first four herds, which are near their means; glmer stops within about 1e-5.
    """
    model = LogisticClients("marginal-likelihood", tol=1e-7).fit(*herds())
    assert (model.mu_[0], np.sqrt(model.covariance_[0, 0])) == pytest.approx((-2.04650072, 0.818391851), abs=1e-5)
    modes = [0.66201129, -0.28124394, 0.35117321, -0.00083933]
    np.testing.assert_allclose((model.posterior_mean_ - model.mu_)[:4, 0], modes, atol=0.06)
    bound = LogisticClients("marginal-likelihood", likelihood="bound", tol=1e-7).fit(*herds())
    assert (round(bound.mu_[0], 4), round(np.sqrt(bound.covariance_[0, 0]), 4)) == (-2.0455, 0.8141)  # as its docstring says
    assert bound.log_likelihood_ < model.log_likelihood_ < bound.log_likelihood_ + 0.1


def some_clients(d, m=6, seed=0, n=7):
    g = np.random.default_rng(seed)
    Xs = [np.column_stack([np.ones(n), g.normal(size=(n, d - 1))]) for _ in range(m)]
    return Xs, [(g.random(n) < expit(X @ g.normal(0.3, 1.0, d))).astype(float) for X in Xs]


def direct(X, Y, mu, root):
    """A client's likelihood, posterior mean and second moments by adaptive quadrature over u."""
    d = root.shape[1]

    def joint(*u):
        odds = X @ (mu + root @ np.array(u))
        return np.exp(Y @ odds + log_expit(-odds).sum() - np.dot(u, u) / 2) / (2 * np.pi) ** (d / 2)

    def integral(f):
        options = {"epsabs": 1e-12, "epsrel": 1e-8}
        return integrate.nquad(lambda *u: f(np.array(u)) * joint(*u), [(-9, 9)] * d, opts=options)[0]

    total = integral(lambda u: 1.0)
    mean = np.array([integral(lambda u, k=k: u[k]) for k in range(d)]) / total
    return total, mu + root @ mean


@pytest.mark.parametrize("d", [1, 2])
def test_likelihood_and_posteriors_by_other_quadrature(d):
    Xs, Ys = some_clients(d, m=3)
    covariance = np.array([[1.5, 0.4], [0.4, 0.7]])[:d, :d]
    mu = np.array([0.3, -0.2])[:d]
    model = LogisticClients(mu=mu, covariance=covariance).fit(Xs, Ys)
    root = np.linalg.cholesky(covariance)
    found = [direct(X, Y, mu, root) for X, Y in zip(Xs, Ys, strict=True)]
    assert model.log_likelihood_ == pytest.approx(sum(np.log(total) for total, _ in found), abs=2e-6)
    np.testing.assert_allclose(model.posterior_mean_, [mean for _, mean in found], atol=2e-5)


@pytest.mark.parametrize("d", [1, 2])
def test_slopes_are_those_of_the_value(d):
    """By root and by phi, against differences of the value."""
    rows = ClientRows.read(*some_clients(d, m=20, seed=2))
    coordinates = Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y))
    surface = Quadrature(rows, coordinates, None, 1e-9)
    root, h = np.array([[0.9, 0.0], [0.3, 0.6]])[:d, :d], 1e-4
    state = surface.at(root)
    assert state.settled
    for i in range(d):
        for j in range(d):
            step = h * (np.arange(d)[:, None] == i) * (np.arange(d) == j)
            slope = (surface.at(root + step).loss - surface.at(root - step).loss) / (2 * h)
            assert state.by_root[i, j] == pytest.approx(slope, abs=3e-4)
    # The slope in the covariance itself, from the root: d loss / d root = -2 by_covariance root, for symmetric ones.
    symmetric = np.linalg.cholesky(root @ root.T)
    np.testing.assert_allclose(-2 * state.by_covariance @ symmetric, state.by_root, atol=2e-3)


@pytest.mark.parametrize(
    ("ones", "n"), [([4] * 7 + [0, 4, 3, 4, 4], 4), ([0, 0, 4, 0, 0, 0, 0, 0, 0, 1], 4), ([3, 3, 3, 3, 0], 3)]
)
def test_a_coarse_search_for_the_centre_stays_near_the_best_one_where_clients_are_far_apart(ones, n):
    """Beside sums over 4,001 places, at the best centre: what few nodes are off by, and no step that leads away."""
    u = np.linspace(-9, 9, 4001)
    density = np.exp(-(u**2) / 2) / np.exp(-(u**2) / 2).sum()
    rows = ClientRows(
        np.ones((len(ones) * n, 1)), np.concatenate([np.arange(n) < k for k in ones]) * 1.0, np.full(len(ones), n)
    )
    coordinates = Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y))
    for sd in (1.0, 3.0, 6.0, 10.0, 15.0, 20.0, 40.0):

        def exact(mu, sd=sd):
            odds = mu + sd * u
            each = [np.log(density @ np.exp(k * log_expit(odds) + (n - k) * log_expit(-odds))) for k in ones]
            return np.log1p((mu / 2.5) ** 2) - sum(each)

        best = min(optimize.minimize_scalar(exact, bounds=b, method="bounded").fun for b in ((-40, -5), (-6, 6), (5, 40)))
        coarse = Quadrature(rows, coordinates, None, 1e-6, wide=True).coarse().at(np.array([[sd]]))
        assert abs(coarse.loss - best) < (0.01 if sd < 6 else 0.5)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("start", [-0.5, 4.0])
def test_a_coarse_surface_finds_the_best_centre_to_what_it_promises(d, start):
    """Within half of NEAR nats of the maximum over phi that a search without slopes finds."""
    rows = ClientRows.read(*some_clients(d, m=30, seed=2))
    surface = Quadrature(rows, Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y)), None, 1e-9).coarse()
    root = np.array([[0.9, 0.0], [0.3, 0.6]])[:d, :d]
    surface.phi = np.full(d, start)
    found = surface.at(root)
    assert found.settled
    options = {"xatol": 1e-6, "fatol": 1e-9}
    best = optimize.minimize(lambda x: surface.look(root, x).value.sum(), found.phi, method="Nelder-Mead", options=options)
    assert -1e-8 < found.loss - best.fun < NEAR / 2


def test_clients_come_in_parts_whose_nodes_fit_a_work_array():
    rows = ClientRows.read([np.eye(16, 2)] * 1300, [np.arange(16) % 2] * 1300)
    parts = Quadrature(rows, Coordinates.of(Tallies.of(rows).pooled(), len(rows.Y)), None, 1e-9).batches
    assert sorted(np.concatenate([clients for clients, *_ in parts])) == list(range(1300))
    assert [len(clients) for clients, *_ in parts] == [582, 582, 136]  # times 16 rows and 15^2 nodes, up to 2^21 numbers


def test_stationary_moments():
    """At the maximum, mu and Sigma are the averages over posteriors, which is an equation of its own."""
    Xs, Ys = some_clients(2, m=80, seed=3, n=10)
    model = LogisticClients("marginal-likelihood", tol=1e-7).fit(Xs, Ys)
    gaps = model.posterior_mean_ - model.mu_
    np.testing.assert_allclose(gaps.mean(axis=0), 0, atol=2e-4)
    average = np.mean(model.posterior_covariance_ + gaps[:, :, None] * gaps[:, None, :], axis=0)
    np.testing.assert_allclose(average, model.covariance_, atol=2e-3)


def test_clients_of_one_label_and_few_rows():
    """Separated clients, with posteriors far from normal: it settles, and the bound lies below."""
    g = np.random.default_rng(0)
    thetas = g.normal([1, -1], [3, 2], (60, 2))
    Xs = [np.column_stack([np.ones(4), g.normal(size=4)]) for _ in thetas]
    Ys = [(g.random(4) < expit(X @ t)).astype(float) for X, t in zip(Xs, thetas, strict=True)]
    assert LogisticClients().fit(Xs, Ys).converged_
    assert LogisticClients("penalised").fit(Xs, Ys).converged_
    bound = LogisticClients("penalised", likelihood="bound").fit(Xs, Ys)
    same = LogisticClients(mu=bound.mu_, covariance=bound.covariance_).fit(Xs, Ys)
    assert bound.log_likelihood_ < same.log_likelihood_


def test_what_takes_which():
    Xs, Ys = some_clients(3)
    with pytest.raises(ValueError, match="2 coefficients at most that vary, got 3"):
        LogisticClients(likelihood="quadrature").fit(Xs, Ys)
    with pytest.raises(ValueError, match="likelihood"):
        LogisticClients(likelihood="laplace").fit(Xs, Ys)
    one = LogisticClients(covariance=1.0).fit(Xs, Ys)
    assert one.log_likelihood_ == LogisticClients(covariance=1.0, likelihood="bound").fit(Xs, Ys).log_likelihood_
