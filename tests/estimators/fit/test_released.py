"""Priors that are released alone, and budgets of each client: what is said, what it costs, who is protected."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from estimators.accounting import BudgetFile, Guarantee
from estimators.fit.private import clipping, groups_of, mean_reports, model_for, private_outcome, rate_reports, unspent
from estimators.fit.released import central, regression
from estimators.private import (
    BetaPrior,
    MeanClient,
    MeanReport,
    Prior,
    PrivateRates,
    RateClient,
    RegressionPrior,
    release_prior,
)
from estimators.tables.client_table import read_client_table

RNG = np.random.default_rng
BOUNDS = (0.0, 10.0)
UNEVEN = [[1.0, 2.0, 3.5], [3.0, 9.0], [4.0], [12.0, 8.0, 9.5, 9.0], [-3.0, 1.0], [6.0, 5.5, 7.5]]
COMMON = {"delta": 0.0, "sigma2": None, "generator": None}


def table_of(samples):
    return read_client_table(["client,value", *(f"c{i},{x}" for i, rows in enumerate(samples) for x in rows)])


def counts_of(ones, trials):
    rows = (f"c{i},{x},{n}" for i, (x, n) in enumerate(zip(ones, trials, strict=True)))
    return read_client_table(["client,successes,trials", *rows])


def regression_of(m, n, rng):
    rows = ["client,y,x"]
    for i in range(m):
        slope = rng.normal(2.0, 0.5)
        rows += [f"c{i},{slope * x + rng.normal(0, 0.5)},{x}" for x in rng.uniform(-1, 1, n)]
    return read_client_table(rows, target="y", features=["x"])


def test_a_central_release_says_what_is_true():
    rng, m = np.random.default_rng(0), 3000
    truth = rng.normal(5.0, 1.0, m)
    made = central(table_of(truth[:, None] + rng.normal(0, 0.7, (m, 5))), eps=4.0, bounds=BOUNDS, **COMMON)
    assert isinstance(made.prior, Prior)
    for name, right in (("centre", 5.0), ("variance of a row", 0.49)):
        value, error = made.numbers[name]
        assert abs(value - right) < 6 * error + 0.05
    assert made.numbers["variance between clients"][0] == pytest.approx(1.0, abs=0.4)
    assert {(g.eps, g.delta, g.adjacency, g.trusted, g.simulated) for g in made.guarantees} == {
        (4.0, 0.0, "client", "server", False)
    }


@pytest.mark.parametrize("eps", [1e-69, 1e-3, 0.5])
def test_noise_moves_no_centre_and_no_variance_beyond_the_bounds(eps):
    """Thirty releases of four clients at bounds of 0 and 10, most of whose noisy means lie outside."""
    table, counts = table_of([[1.0, 2.0], [3.0, 9.0], [4.0, 4.0], [9.0, 8.0]]), counts_of([1, 5, 9], [9, 9, 9])
    for _ in range(10):
        found = central(table, eps=eps, bounds=BOUNDS, **COMMON)
        shares = central(counts, eps=eps, bounds=None, **COMMON)
        low, high = BOUNDS
        for name, least, most in (("centre", low, high), ("variance of a row", 0.0, (high - low) ** 2 / 2)):
            value, error = found.numbers[name]
            assert least < value < most
            assert 0 < error <= (most - least) / 12**0.5 * (1 + 1e-9)  # of a flat law
        (mu, mu_error), (spread, error) = shares.numbers["centre"], shares.numbers["variance between clients"]
        assert 0 < mu < 1
        assert 0 < spread < mu * (1 - mu)
        assert max(mu_error, error) <= 12**-0.5 * (1 + 1e-9)


def test_one_release_is_said_once_and_not_once_for_each_client():
    made = central(table_of([[1.0, 2.0], [3.0, 5.0], [4.0, 4.0]]), eps=1.0, bounds=BOUNDS, **COMMON)
    assert len(made.guarantees) == 1
    assert made.lines[0].startswith("one release about all 3 clients: eps=1")
    (kind,) = made.summary()["provenance"]["guarantees"]
    assert (kind["clients"], kind["releases"]) == (3, 1)
    counted = central(counts_of([1, 2, 5], [5, 9, 9]), eps=1.0, bounds=None, **COMMON)
    assert len(counted.guarantees) == 1


def test_a_central_release_of_counts_says_what_is_true():
    rng, m = np.random.default_rng(0), 4000
    trials = rng.integers(2, 40, m)
    made = central(counts_of(rng.binomial(trials, rng.beta(3, 9, m)), trials), eps=4.0, bounds=None, **COMMON)
    assert isinstance(made.prior, BetaPrior)
    for name, right in (("centre", 0.25), ("variance between clients", 3 * 9 / (12**2 * 13))):
        value, error = made.numbers[name]
        assert abs(value - right) < 6 * error < 0.03


def cut(estimate, error, high):
    """Mean and deviation of a normal law cut off at 0 and above, by SciPy."""
    law = stats.truncnorm(-estimate / error, (high - estimate) / error, estimate, error)
    return float(law.mean()), float(law.std())


@pytest.mark.parametrize(("eps", "delta"), [(np.inf, 0.0), (20.0, 0.0), (3.0, 0.0), (1.0, 0.3)])
def test_a_central_release_of_counts_follows_from_two_noisy_numbers(eps, delta):
    """The shares of ones scatter by sigma2 (1 - h) + mu (1 - mu) h, h the mean of 1 / trials."""
    ones, trials = np.array([1, 2, 5, 9, 0, 7, 1]), np.array([5, 9, 9, 12, 2, 7, 1])
    made = central(counts_of(ones, trials), eps=eps, delta=delta, bounds=None, sigma2=None, generator=RNG(1))
    told = release_prior(ones / trials, 0.0, bounds=(0.0, 1.0), eps=eps, delta=delta, mechanism="best", generator=RNG(1))
    mu, h, largest = told.prior.mean, np.mean(1 / trials), told.prior.mean * (1 - told.prior.mean)
    assert made.numbers["centre"] == (mu, told.prior.mean_sd)
    error = np.sqrt(2 * told.total_variance**2 / 6 + told.variance_noise) / (1 - h)
    expected = cut((told.total_variance - largest * h) / (1 - h), error, largest)
    assert made.numbers["variance between clients"] == pytest.approx(expected, rel=1e-6)
    assert made.prior == BetaPrior(mu, made.numbers["variance between clients"][0])
    assert made.guarantees == (told.guarantee,)
    assert (made.clients, made.together, made.about) == (7, True, 7)
    if eps == np.inf:
        assert told.total_variance == pytest.approx(np.var(ones / trials, ddof=1), rel=1e-3)


@pytest.mark.parametrize(("eps", "delta"), [(40.0, 0.0), (6.0, 0.0), (1.0, 0.4)])
def test_a_central_release_of_measurements_spends_a_quarter_on_the_variance_of_a_row(eps, delta):
    """First the mean of the variances of clients with two rows or more, within 0 and half of the squared width."""
    made = central(table_of(UNEVEN), eps=eps, delta=delta, bounds=BOUNDS, sigma2=None, generator=RNG(3))
    generator, clipped = RNG(3), [np.clip(rows, *BOUNDS) for rows in UNEVEN]
    curator = MeanClient(bounds=(0.0, 50.0), eps=eps / 4, delta=delta / 4, mechanism="best")
    report = curator.report([np.var(rows, ddof=1) for rows in clipped if len(rows) > 1], generator)
    sigma2, error = cut(report.estimate, np.sqrt(report.noise_variance + report.rounding_variance), 50.0)
    assert made.numbers["variance of a row"] == pytest.approx((sigma2, error), rel=1e-6)
    told = release_prior(
        [rows.mean() for rows in clipped], [sigma2 / len(rows) for rows in UNEVEN], bounds=BOUNDS, eps=0.75 * eps,
        delta=0.75 * delta, mechanism="best", generator=generator,
    )  # fmt: skip
    assert made.numbers["centre"] == pytest.approx((told.prior.mean, told.prior.mean_sd), rel=1e-6)
    assert made.numbers["variance between clients"] == (pytest.approx(told.prior.variance, rel=1e-6), None)
    assert made.prior.sigma2 == pytest.approx(sigma2, rel=1e-6)
    assert made.prior.sigma2_sd == pytest.approx(error, rel=1e-6)
    (found,) = made.guarantees
    assert found.eps == pytest.approx(report.guarantee.eps + told.guarantee.eps)
    assert found.delta == pytest.approx(report.guarantee.delta + told.guarantee.delta)
    assert found.eps == pytest.approx(eps)
    assert (found.delta > 0) == (delta > 0)
    known = central(table_of(UNEVEN), eps=eps, delta=delta, bounds=BOUNDS, sigma2=2.0, generator=RNG(3))
    told = release_prior(
        [rows.mean() for rows in clipped], [2.0 / len(rows) for rows in UNEVEN], bounds=BOUNDS, eps=eps, delta=delta,
        mechanism="best", generator=RNG(3), sigma2=2.0,
    )  # fmt: skip
    assert known.prior == told.prior
    assert known.numbers["variance of a row"] == (2.0, 0.0)
    assert known.guarantees == (told.guarantee,)


def test_one_client_moves_the_released_mean_by_no_more_than_is_said():
    """Without noise, and from one end of the bounds to far beyond the other: the width over the number of clients."""
    samples = [[4.0, 6.0]] * 7
    for end in (BOUNDS[1], 1e6):
        made = [
            central(table_of([[first] * 2, *samples]), eps=np.inf, bounds=BOUNDS, **{**COMMON, "sigma2": 1.0})
            for first in (BOUNDS[0], end)
        ]
        moved = made[1].numbers["centre"][0] - made[0].numbers["centre"][0]
        assert moved == pytest.approx(10 / 8, rel=0.01)
        assert "10 / clients" in made[0].released


def test_nothing_is_released_that_the_budget_refuses(tmp_path):
    path = tmp_path / "a.budget"
    BudgetFile.create(path, data="wards", eps=1.5, delta=1e-3, adjacency="row")

    def charge(guarantee):
        budget = BudgetFile(path)
        budget.spend(guarantee, "test")
        return budget

    table = table_of([[1.0, 2.0], [3.0, 5.0], [4.0, 4.0]])
    made = central(table, eps=1.0, bounds=BOUNDS, charge=charge, **COMMON)
    assert made.budget is not None
    assert 0.99 < made.budget["spent"] <= 1.0
    with pytest.raises(ValueError, match=r"the budget is eps=1\.5"):
        central(table, eps=1.0, bounds=BOUNDS, charge=charge, **COMMON)
    with pytest.raises(ValueError, match=r"the budget is eps=1\.5"):
        regression(
            regression_of(3, 5, np.random.default_rng(0)), eps=2.0, delta=1e-5, norm=3.0, sigma2=None, generator=None,
            charge=charge,
        )  # fmt: skip


def test_private_regressions_of_clients_with_budgets_of_their_own():
    rng, m = np.random.default_rng(0), 150
    table = regression_of(m, 150, rng)
    eps = {name: (4.0, 8.0, 2.0)[i % 3] for i, name in enumerate(table.clients)}
    made = regression(table, eps=eps, delta=1e-5, norm=3.0, sigma2=None, generator=None)
    assert isinstance(made.prior, RegressionPrior)
    assert [g.eps for g in made.guarantees] == list(eps.values())
    slope, error = made.numbers["x"]
    assert error is not None
    assert abs(slope - 2.0) < 6 * error < 2.0


def test_every_client_has_its_own_budget():
    table = table_of(np.random.default_rng(0).normal(5, 1, (6, 40)))
    eps = dict(zip(table.clients, [0.5, 1.0, 2.0] * 2, strict=True))
    kind, model = model_for(table, {"sigma2": 1.0}, BOUNDS)
    spent = []
    found = private_outcome(
        table, kind, model, eps=eps, delta=0.0, bounds=BOUNDS, local=False, level=0.95, generator=np.random.default_rng(0),
        charge=lambda guarantee: spent.append(guarantee),
    )  # fmt: skip
    assert [g.eps for g in found.model.guarantees_] == list(eps.values())
    assert [g.eps for g in spent] == [2.0]  # of whoever is protected the least
    noise = found.model.noise_variances_
    assert noise[0] > 3 * noise[1] > 9 * noise[2]


@pytest.mark.parametrize("local", [False, True])
def test_a_private_outcome_shows_reports_and_the_errors_of_their_model(local):
    """A report of a rate errs by the expected sampling variance of its share, and by its noise."""
    adjacency = "client" if local else "row"
    table = counts_of([1, 2, 5, 9, 0, 7], [5, 9, 9, 12, 2, 7])
    kind, model = model_for(table, {}, None)
    say = {"eps": 2.0, "delta": 1e-3, "local": local, "level": 0.8}
    found = private_outcome(table, kind, model, bounds=None, generator=RNG(4), **say)
    client = RateClient(eps=2.0, delta=1e-3, adjacency=adjacency, mechanism="best" if local else None)
    reports = client.reports(table.successes, table.trials, table.clients, RNG(4))
    assert rate_reports(table, 2.0, 1e-3, adjacency, RNG(4)) == reports
    fresh = PrivateRates().fit(reports)
    p, sd = fresh.posterior_mean_, fresh.posterior_sd_
    n, noise = (np.array([getattr(r, name) for r in reports]) for name in ("trials", "noise_variance"))
    np.testing.assert_allclose(found.own, [r.value / r.trials for r in reports])
    np.testing.assert_allclose(found.error**2, np.maximum(p - p**2 - sd**2, 0) / n + noise / n**2)
    np.testing.assert_array_equal(found.mean, p)
    np.testing.assert_allclose(found.low, fresh.posterior_quantile(0.1))
    assert found.n is not None
    assert found.n.tolist() == n.tolist()
    assert found.notes == unspent(1e-3, reports)

    table = table_of(UNEVEN * 2)
    kind, model = model_for(table, {}, BOUNDS)
    found = private_outcome(table, kind, model, bounds=BOUNDS, generator=RNG(4), **{**say, "eps": 200.0})
    client = MeanClient(  # a quarter is for the variance, which rows between the bounds keep below half the squared width
        bounds=BOUNDS, eps=200.0, delta=1e-3, adjacency=adjacency, mechanism="best", variance_share=0.25,
        variance_bound=50.0 if local else None,
    )  # fmt: skip
    reports = client.reports(table.samples(), table.clients, RNG(4))
    assert mean_reports(table, 200.0, 1e-3, BOUNDS, adjacency, None, RNG(4)) == reports
    plain = mean_reports(table, 200.0, 1e-3, BOUNDS, adjacency, 1.0, RNG(4))
    assert [r.variance for r in plain] == [None] * 12
    np.testing.assert_allclose(found.own, [r.estimate for r in reports])
    np.testing.assert_allclose(found.error**2, found.model.variances_)
    low = 0.0 if local else found.model.sigma2_ - 2 * found.model.prior_.sigma2_sd
    assert found.notes == [*unspent(1e-3, reports), *clipping(reports, BOUNDS, low)]


SENT = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")


def reports_of(estimates, noise, rounding=0.0, bounds=(2.0, 12.0)):
    return [
        MeanReport(f"c{i}", 9, SENT, x, v, rounding, bounds) for i, (x, v) in enumerate(zip(estimates, noise, strict=True))
    ]


@pytest.mark.parametrize("bounds", [(2.0, 12.0), (-7.0, 3.0)])
def test_reports_near_an_end_of_the_bounds_are_told_to_a_twentieth_and_two_errors(bounds):
    """Reports of variances 0.01 + 0.03 and 0.13 + 0.03, weighed by their inverses 25 and 6.25, err by 1 / sqrt(31.25)."""
    near = 0.5 + 2 / np.sqrt(31.25)
    for end, inwards in (("lower", 1), ("upper", -1)):
        start = bounds[0] if end == "lower" else bounds[1]
        for by, said in ((near - 1e-9, True), (near + 1e-9, False), (-3.0, True)):
            apart = np.array([-0.2, 0.8])  # which the weights 0.8 and 0.2 cancel
            notes = clipping(reports_of(start + inwards * by + apart, [0.01, 0.13], 0.03, bounds), bounds, 0.0)
            assert len(notes) == said
            assert all(f"at the {end} end of --bounds {bounds[0]:g} {bounds[1]:g}" in note for note in notes)
        (note,) = clipping(reports_of([start + inwards], [0.0625], 0.0, bounds), bounds, 0.0)  # 0.5 and two errors of 0.25
        assert f"at the {end} end" in note


def test_noise_that_hides_the_bounds_is_told_before_an_end_is():
    """One report whose deviation is a quarter of the width, and a little more."""
    for sd, hidden in ((2.5, False), (2.5 + 1e-9, True)):
        (note,) = clipping(reports_of([2.0], [sd**2]), (2.0, 12.0), 99.0)
        assert ("hides where" in note) == hidden
        assert ("at the lower end" in note) != hidden


def test_rows_that_vary_more_than_an_arcsine_law_are_told():
    far = [7.0], [0.01]
    assert clipping(reports_of(*far), (2.0, 12.0), 100 / 8) == []
    (note,) = clipping(reports_of(*far), (2.0, 12.0), 100 / 8 + 1e-9)
    assert "as if most were at the two ends of --bounds 2 12" in note


def test_a_delta_that_was_not_spent_is_told():
    made = reports_of([5.0, 5.0, 5.0], [1.0] * 3)
    spent = [replace(each, guarantee=replace(SENT, delta=1e-5)) for each in made]
    assert unspent(0.0, made) == unspent(1e-5, spent) == []
    (all_of_them,), (some,) = unspent(1e-5, made), unspent(1e-5, [*made[:1], *spent[1:]])
    assert all_of_them.startswith("--delta 1e-05 was not spent: noise that needs none")
    assert some.startswith("--delta 1e-05 was not spent by 1 of 3 clients: noise")


@pytest.mark.parametrize(
    ("eps", "says"),
    [
        ({"a": 1.0}, "no number for the client 'b'"),
        ({"a": 1.0, "b": 1.0, "z": 1.0}, "names 'z', which is no client"),
        ({"a": 1.0, "b": -731313.0}, "'b' must be one number > 0"),
        ({"a": 1.0, "b": np.nan}, "'b' must be one number > 0"),
        ({"a": 1.0, "b": "731313"}, "'b' must be one number > 0"),
    ],
)
def test_bad_budgets_are_named_and_not_quoted(eps, says):
    with pytest.raises(ValueError, match=says) as error:
        groups_of(eps, ["a", "b"])
    assert "731313" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: central(table_of([[1.0, 2.0]] * 3), eps=1.0, bounds=None, **COMMON), "bounds must be given"),
        (lambda: central(table_of([[1.0, 2.0]] * 3), eps=1.0, bounds=(2.0, 1.0), **COMMON), "bounds must"),
        (lambda: central(table_of([[1.0, 2.0]] * 3), eps=0.0, bounds=BOUNDS, **COMMON), "eps must be > 0, got 0"),
        (
            lambda: central(table_of([[1.0, 2.0]] * 3), eps=1e-300, bounds=BOUNDS, **COMMON),
            "eps must be at least 1e-70 .*got 1e-300",
        ),
        (lambda: central(table_of([[1.0, 2.0]] * 3), eps=1e300, bounds=BOUNDS, **COMMON), "at most 1e.20, .*got 1e.300"),
        (lambda: central(table_of([[1.0, 2.0]]), eps=1.0, bounds=BOUNDS, **COMMON), "at least two"),
        (lambda: central(counts_of([1, 0], [1, 1]), eps=1.0, bounds=None, **COMMON), "trials must be >= 2"),
        (lambda: central(counts_of([1, 0], [2, 0]), eps=1.0, bounds=None, **COMMON), "'c1' has no trials"),
        (lambda: central(counts_of([1, 0], [2, 2]), eps=1.0, bounds=BOUNDS, **COMMON), "bounds and sigma2"),
        (
            lambda: regression(table_of([[1.0, 2.0]]), eps=1.0, norm=1.0, **{**COMMON, "delta": 1e-5}),
            "needs a client, a target",
        ),
        (
            lambda: regression(
                regression_of(3, 4, np.random.default_rng(0)), eps=1.0, norm=0.0, **{**COMMON, "delta": 1e-5}
            ),
            "norm must be > 0",
        ),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
