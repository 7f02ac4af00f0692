"""Private regression: without noise it is least squares, with noise unbiased moments, and the posterior at home."""

import warnings

import numpy as np
import pytest
from scipy.integrate import quad

from estimators.accounting.budget import Guarantee
from estimators.closed_forms import regression
from estimators.private import PrivateRegressionMeans, RegressionClient, RegressionPrior, RegressionReport

RNG = np.random.default_rng


def clients(rng, m, n, mu, tau2, sigma2, scale=0.5):
    mu = np.asarray(mu)
    for _ in range(m):
        X = rng.normal(0, scale, (n, len(mu)))
        theta = rng.normal(mu, np.sqrt(tau2))
        yield X, X @ theta + rng.normal(0, np.sqrt(sigma2), n), theta


def reports(rng, data, **settings):
    return [RegressionClient(**settings).report(X, Y, rng) for X, Y, _ in data]


def test_a_batch_of_products_is_what_single_clients_send_whatever_holds_their_rows():
    data = [(X * 3, Y) for X, Y, _ in clients(RNG(20), 7, 4, [1.0, -1.0], 0.2, 0.1)]
    data[2], names = (data[2][0][:1], data[2][1][:1]), list("abcdefg")  # of one row
    settings = {"norm": 2.0, "eps": np.inf, "delta": 0.0}
    single = [RegressionClient(**settings, name=k).report(X, Y) for k, (X, Y) in zip(names, data, strict=True)]
    assert [report.n for report in single] == [4, 4, 1, 4, 4, 4, 4]
    assert max(abs(np.linalg.norm(np.column_stack(d), axis=1)).max() for d in data) > 2.0 * 1.5  # some are shortened
    for form in (list, tuple, np.array, np.asfortranarray, lambda part: np.asarray(part, np.float64).tolist()):
        Xs, Ys = ([form(part) for part in parts] for parts in zip(*data, strict=True))
        assert RegressionClient(**settings).reports(Xs, Ys, names) == single
    for wrong, says in (((np.ones((2, 3)), np.ones(2)), r"same number of columns for all clients, got \[2, 3\]"),
                        ((np.full((2, 2), np.nan), np.ones(2)), "X must be an array of finite numbers"),
                        ((np.ones((2, 2)), np.array([1.0, np.inf])), "Y must be an array of finite numbers"),
                        ((np.ones((2, 2)), np.ones(3)), "Y must have one response per row"),
                        ((np.ones((0, 2)), np.ones(0)), "at least one of each")):  # fmt: skip
        Xs, Ys = zip(*data[:3], wrong, strict=True)
        with pytest.raises(ValueError, match=says):
            RegressionClient(**settings).reports(Xs, Ys, list("abcd"))
    two, three = np.ones((2, 2)), np.ones((3, 2))
    for Xs, Ys, says in (([two, two], [np.ones(2)], "Xs and Ys must be as many"),
                         ([], [], "at least one, got 0 and 0"),
                         ([two, three], [np.ones(3), np.ones(2)], "Y must have one response per row"),
                         ([two, three], [two, three], "Y must have one response per row"),
                         ([two[0], two[0]], [two[0], two[0]], "X must have shape"),
                         ([two > 0, three > 0], [np.ones(2), np.ones(3)], "X must be an array of finite numbers"),
                         ([two > 0, three > 0], [np.ones(2) > 0, np.ones(3) > 0], "X must be an array of finite numbers"),
                         ([two[None], two[None]], [np.ones(1), np.ones(1)], "X must have shape")):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            RegressionClient(**settings).reports(Xs, Ys, ["a", "b"])


@pytest.mark.parametrize("norm", [5e-160, 1e-70, 1.0, 1e70])
def test_rows_are_shortened_to_their_norm_in_whole_numbers_and_no_further(norm):
    """Rows next to whole ones whose squares add to a little more; of 5e-160 floats round squares by more than a digit."""
    a = np.arange(1, 2**16)
    rows = np.column_stack([a, np.ceil(np.sqrt(2.0**32 - a**2.0))]) * (1.0001 * norm / 2**16)
    client = RegressionClient(norm=max(norm, 1e-70), eps=1.0, delta=1e-5)
    client.norm = norm  # one that is refused, so that what is done after rounding is seen
    whole = client.clip(rows[:, :1], -rows[:, 1])
    assert (np.sum(whole**2, axis=1) <= 2**32).all()
    assert np.abs(whole - [1, -1] * rows / norm * 2**16 / 1.0001).max() < 3
    if norm >= 1:  # of 16 bits
        assert client.clip([[norm], [0.0]], [0.0, -norm]).tolist() == [[2**16, 0], [0, -(2**16)]]
        assert client.share_clipped([[norm, 0.0], [0.0, 2 * norm]], [0.0, 0.0]) == 0.5


def test_sums_of_as_many_rows_as_stay_below_two_to_the_62_are_reported():
    client = RegressionClient(norm=1.0, eps=1.0, delta=1e-5, bits=20)
    (report,) = client.answer(np.zeros((1, 2), int), np.array([2**22 - 1]), [""], RNG(0))
    assert report.n == 2**22 - 1
    with pytest.raises(ValueError, match="fewer than 2\\^22 at bits=20"):
        client.answer(np.zeros((1, 2), int), np.array([2**22]), [""], RNG(0))


def test_equal_clients_without_noise_give_pooled_least_squares():
    """Equal public numbers of rows give equal weights, for which the pooled normal equations are least squares."""
    data = list(clients(RNG(0), 20, 30, [1.0, -1.0], 0.2, 0.1))
    model = PrivateRegressionMeans().fit(reports(RNG(1), data, norm=100.0, eps=np.inf, delta=0.0, bits=20))
    X, Y = np.concatenate([x for x, *_ in data]), np.concatenate([y for _, y, _ in data])
    np.testing.assert_allclose(model.mu_, np.linalg.lstsq(X, Y, rcond=None)[0], rtol=1e-2)  # rounded to 1e-4


def test_clients_who_lie_on_one_line_say_it_exactly():
    """Nothing differs, and nothing is left: no client is surer than another, so weights go by rows alone."""
    exact = Guarantee(np.inf, 0.0, "row", "client", "none")
    told = [RegressionReport("", n, exact, np.array([[n, 2.0 * n], [2.0 * n, 4.0 * n]]), 0.0, 9.0) for n in (4, 9, 1)]
    model = PrivateRegressionMeans(sigma2=0.0).fit(told)
    assert (model.mu_.tolist(), model.tau2_, model.sigma2_, model.converged_) == ([2.0], 0.0, 0.0, True)


def told(slopes, sizes, noise, squares=None):
    """Reports of one column: sums of squares of x (as many as rows, or as given), of x y and of y y."""
    made, squares = Guarantee(1.0, 1e-6, "row", "client", "gaussian"), sizes if squares is None else squares
    sums = [a * np.array([[1.0, b], [b, b * b]]) for a, b in zip(squares, slopes, strict=True)]
    return [RegressionReport("", n, made, S, v, 9.0) for n, S, v in zip(sizes, sums, noise, strict=True)]


def test_where_a_client_seems_to_know_the_coefficients_exactly_all_count_by_their_rows_inverted():
    with pytest.warns(UserWarning, match="tau2 = -.*set to 0"):  # they differ by less than by their noise
        model = PrivateRegressionMeans(sigma2=0.0).fit(told([2.0, 2.1, 2.3], [4, 9, 1], [0.0, 0.5, 0.5]))
    assert model.mu_[0] == pytest.approx(6.4 / 3, rel=1e-12)
    with pytest.warns(UserWarning, match="set to 0"):  # squares that noise made negative, all told
        model = PrivateRegressionMeans(sigma2=0.0).fit(told([2.0, 2.5], [1, 100], [9.0, 9.0], [10.0, -20.0]))
    assert model.mu_[0] == pytest.approx((20 - 0.5) / (10 - 0.2), rel=1e-12)


def test_a_prior_of_coefficients_has_no_units():
    """Rows a tenth as long: sums of products have a hundredth, and their noise's variance the square of that."""
    data = [
        (X[: 4 + k], Y[: 4 + k], k) for k, (X, Y, _) in enumerate(clients(RNG(21), 40, 44, [1.0, -1.0], 0.3, 0.4, scale=0.5))
    ]
    found = reports(RNG(22), data, norm=6.0, eps=200.0, delta=1e-3, mechanism="gaussian")
    short = [RegressionReport(r.client, r.n, r.guarantee, np.array(r.products) / 100, r.noise_variance / 1e4, r.norm / 10)
             for r in found]  # fmt: skip
    one, other = (PrivateRegressionMeans().fit(those) for those in (found, short))
    np.testing.assert_allclose(other.mu_, one.mu_, rtol=1e-10)
    np.testing.assert_allclose(other.mu_covariance_, one.mu_covariance_, rtol=1e-9)
    assert (other.tau2_, other.tau2_sd_) == pytest.approx((one.tau2_, one.tau2_sd_), rel=1e-9)
    assert other.sigma2_ == pytest.approx(one.sigma2_ / 100, rel=1e-9)


def exactly(X, Y):
    rows = np.column_stack([X, Y])
    return RegressionReport("", len(Y), Guarantee(np.inf, 0.0, "row", "client", "none"), rows.T @ rows, 0.0, 1e3)


def test_clients_count_by_what_they_tell_of_the_common_coefficients():
    """One client has 100 times as many rows: if clients are alike, rows count the same; if they differ, clients do."""
    rng, beta = RNG(4), np.array([1.0, -2.0])
    sizes = [2000] + [20] * 30
    data = [(X := rng.normal(size=(n, 2)), X @ beta + rng.normal(0, 0.5, n)) for n in sizes]
    with pytest.warns(UserWarning, match="noise hides"):
        alike = PrivateRegressionMeans(sigma2=0.25).fit([exactly(*each) for each in data])
    X, Y = map(np.concatenate, zip(*data, strict=True))
    assert alike.tau2_ == 0
    np.testing.assert_allclose(alike.mu_, np.linalg.lstsq(X, Y, rcond=None)[0], rtol=1e-9)
    own = np.vstack([[20.0, 20.0], rng.normal(beta, 3.0, (30, 2))])  # the largest lies far off
    data = [(X := rng.normal(size=(n, 2)), X @ b) for n, b in zip(sizes, own, strict=True)]
    differing = PrivateRegressionMeans(sigma2=0.25).fit([exactly(*each) for each in data])
    np.testing.assert_allclose(differing.mu_, own.mean(axis=0), atol=0.3)


@pytest.mark.parametrize(("n", "eps", "error"), [(3, np.inf, 0.02), (40, 20.0, 0.035)])
def test_parameters_are_recovered_with_noise(n, eps, error):
    """600 clients, of 3 rows for 4 coefficients too: all within 5 standard errors (of the variances by simulation)."""
    mu = [1.0, -1.0, 0.5, 0.0]
    data = list(clients(RNG(2), 600, n, mu, 0.25, 0.2))
    found = reports(RNG(3), data, norm=4.0, eps=eps, delta=1e-4, mechanism="gaussian", bits=20)
    model = PrivateRegressionMeans().fit(found)
    errors = np.sqrt(np.diag(model.mu_covariance_))
    assert (np.abs(model.mu_ - mu) < 5 * errors).all()
    assert (errors < 0.1).all()
    assert abs(model.tau2_ - 0.25) < 5 * error
    assert 0.3 * error < model.tau2_sd_ < 2 * error
    assert abs(model.sigma2_ - 0.2) < 5 * error
    assert model.converged_


def test_noise_is_subtracted():
    """Negative control: the same reports said to be noise-free overrate the differences between clients."""
    data = list(clients(RNG(4), 800, 100, [1.0, -1.0], 0.2, 0.2))
    found = reports(RNG(5), data, norm=3.0, eps=4.0, delta=1e-4, mechanism="gaussian", bits=20)
    honest = PrivateRegressionMeans(sigma2=0.2).fit(found)
    blind = [
        RegressionReport(r.client, r.n, r.guarantee, r.products, 0.0, r.norm)  # the noise kept secret
        for r in found
    ]
    assert abs(honest.tau2_ - 0.2) < 5 * 0.03  # standard error by simulation
    assert PrivateRegressionMeans(sigma2=0.2).fit(blind).tau2_ > 0.2 + 10 * 0.03


def test_clients_gain_at_home():
    """Posterior at home from the private prior against the own least squares and against the true prior."""
    mu, tau2, sigma2, n = np.array([1.0, -1.0]), 0.1, 2.0, 100
    train = list(clients(RNG(6), 500, n, mu, tau2, sigma2))
    found = reports(RNG(7), train, norm=5.0, eps=8.0, delta=1e-4, mechanism="gaussian", bits=20)
    prior = PrivateRegressionMeans(sigma2=sigma2).fit(found).prior_
    client = RegressionClient(norm=3.0, eps=1.0, delta=1e-4)
    home, best, own = [], [], []
    for X, Y, theta in train:
        home.append(np.sum((client.at_home(X, Y, prior)[0] - theta) ** 2))
        best.append(np.sum((regression.posterior(X, Y, mu, tau2, sigma2)[0] - theta) ** 2))
        own.append(np.sum((np.linalg.lstsq(X, Y, rcond=None)[0] - theta) ** 2))
    assert np.mean(best) <= np.mean(home) * 1.001
    assert np.mean(home) < 1.15 * np.mean(best)
    assert np.mean(home) < 0.7 * np.mean(own)


def test_at_home_averages_over_what_is_open():
    """Against an outside integral over tau for one coefficient; and the posterior of one tau2 without error."""
    X, Y = np.array([[1.0], [0.5], [-0.5]]), np.array([2.0, 0.3, -1.0])
    client = RegressionClient(norm=3.0, eps=1.0, delta=1e-4)
    mean, covariance = client.at_home(X, Y, RegressionPrior((0.5,), -0.1, 0.8, 0.3))

    def at(tau):
        noise = 0.8 * np.eye(3) + tau**2 * X @ X.T
        r = Y - 0.5 * X[:, 0]
        likelihood = np.exp(-r @ np.linalg.solve(noise, r) / 2) / np.sqrt(np.linalg.det(noise))
        return likelihood * np.exp(-(((tau**2 + 0.1) / 0.3) ** 2) / 2), regression.posterior(X, Y, [0.5], tau**2, 0.8)

    end = np.sqrt(5 * 0.3)
    total, first, second = (
        quad(lambda t, k=k: at(t)[0] * (1, at(t)[1][0][0], at(t)[1][1][0, 0] + at(t)[1][0][0] ** 2)[k], 0, end)[0]
        for k in range(3)
    )
    assert mean[0] == pytest.approx(first / total, rel=1e-2)
    assert covariance[0, 0] == pytest.approx(second / total - (first / total) ** 2, rel=2e-2)
    plain = client.at_home(X, Y, RegressionPrior((0.5,), 0.2, 0.8))
    np.testing.assert_allclose(plain[0], regression.posterior(X, Y, [0.5], 0.2, 0.8)[0])


def test_at_home_without_a_variance_of_rows_the_servers_estimate_of_tau_alone_counts():
    X, Y, prior = np.array([[1.0, 2.0]]), np.array([3.0]), RegressionPrior((0.5, 0.0), 0.2, 0.0, 0.1)
    mean, covariance = RegressionClient(norm=3.0, eps=1.0, delta=1e-4).at_home(X, Y, prior)
    tau2 = np.linspace(0, np.sqrt(0.7), 33) ** 2
    weight = np.exp(-(((tau2 - 0.2) / 0.1) ** 2) / 2)
    means, covariances = zip(*(regression.posterior(X, Y, [0.5, 0.0], t, 0.0) for t in tau2), strict=True)
    np.testing.assert_allclose(mean, np.average(means, axis=0, weights=weight), rtol=1e-12)
    within = np.average(covariances, axis=0, weights=weight)
    np.testing.assert_allclose(
        covariance, within + np.cov(np.transpose(means), aweights=weight, ddof=0), rtol=1e-9, atol=1e-15
    )


def test_hidden_parameters_are_told():
    data = list(clients(RNG(8), 100, 20, [1.0, 0.0], 0.1, 0.1))
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        PrivateRegressionMeans().fit(reports(RNG(9), data, norm=3.0, eps=0.1, delta=1e-6, mechanism="gaussian"))
    found = reports(RNG(10), data, norm=3.0, eps=np.inf, delta=0.0, bits=20)
    with pytest.warns(UserWarning, match="set to 0"):
        model = PrivateRegressionMeans(sigma2=50.0).fit(found)
    assert (model.tau2_, model.converged_) == (0.0, False)


def test_a_row_variance_hidden_by_noise_is_not_taken_as_none():
    """Noise moves the estimate of sigma2 below 0; with 0 a client would take the line through its rows for certain."""
    rng = RNG(0)

    def one():
        X = rng.normal(size=(60, 2)) / 2
        Y = X @ rng.normal([1.0, -1.0], 0.5) + rng.normal(0.0, 0.02, 60)
        return RegressionClient(norm=3.0, eps=4.0, delta=1e-5).report(X, Y, rng)

    with pytest.warns(UserWarning, match="sigma2 = -"):
        model = PrivateRegressionMeans().fit([one() for _ in range(300)])
    assert not model.converged_
    assert 0 < model.sigma2_ < 0.2
    covariance = RegressionClient(norm=3.0, eps=1.0, delta=1e-5).at_home(np.eye(2), [1.0, -1.0], model.prior_)[1]
    assert (np.linalg.eigvalsh(covariance) > 0.001).all()


def test_guarantees_and_summary():
    data = list(clients(RNG(11), 50, 200, [1.0], 0.1, 0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivateRegressionMeans().fit(reports(RNG(12), data, norm=3.0, eps=5.0, delta=1e-4, mechanism="gaussian"))
    assert set(model.guarantee_.values()) == {50}
    summary = model.prior_summary()
    seeded = "50 clients: simulated, no guarantee; the system's entropy would give eps=5, delta=0.0001 (gaussian): one row"
    assert summary["guarantees"][0].startswith(seeded)
    assert RegressionPrior.from_json(model.prior_.to_json()) == model.prior_


def regression_report(products):
    return RegressionReport("", 3, Guarantee(1.0, 0.1, "row", "client", "gaussian"), products, 1.0, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrivateRegressionMeans().fit([]), "at least 2"),
        (lambda: PrivateRegressionMeans().prior_summary(), "not been fitted"),
        (lambda: PrivateRegressionMeans(sigma2=-1.0).fit([regression_report(np.eye(2))] * 2), "sigma2"),
        (
            lambda: PrivateRegressionMeans().fit([regression_report(np.eye(2)), regression_report(np.eye(3))]),
            "number of columns",
        ),
        (lambda: regression_report([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (lambda: regression_report([[1.0]]), "square"),
        (lambda: regression_report([[1.0, np.nan], [np.nan, 1.0]]), "NaN"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
