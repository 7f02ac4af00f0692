"""Priors that are released alone, and budgets of each client: what is said, what it costs, who is protected."""

import numpy as np
import pytest

from estimators.accounting import BudgetFile
from estimators.fit.private import groups_of, model_for, private_outcome
from estimators.fit.released import central, regression
from estimators.private import BetaPrior, Prior, RegressionPrior
from estimators.tables.client_table import read_client_table

BOUNDS = (0.0, 10.0)
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
