"""What clients report, number by number: unbiased, with the variances that they state, and those are their formulas."""

import numpy as np
import pytest
from scipy import stats

from estimators.private import BetaPrior, MeanClient, Prior, RateClient
from estimators.private.client import a_priori_bounds
from estimators.private.mechanisms import worst_variances
from estimators.private.noise import SMALLEST_EPS

RNG = np.random.default_rng
ROWS = np.array([-2.0, 0.5, 1.25, 6.0, 3.0])  # of which the last but one is clipped
CLIPPED = np.clip(ROWS, -1.0, 4.0)
M = 3000


def made(client, rows=ROWS):
    return client.reports([rows] * M, [str(i) for i in range(M)], RNG(1))


def unbiased(values, mean, variance):
    """Whether draws have the mean, and at most a variance of which noise is at least so much."""
    return abs(np.mean(values) - mean) < 5 * np.sqrt(variance / len(values))


@pytest.mark.parametrize(
    ("adjacency", "mechanism", "more"),
    [
        ("row", "discrete-laplace", {}),
        ("row", "staircase", {}),
        ("row", "discrete-gaussian", {"delta": 1e-3}),
        ("row", "gaussian", {"delta": 1e-3}),
        ("client", "discrete-laplace", {}),
        ("client", "staircase", {}),
        ("client", "two-point", {}),
        ("client", "finite-output", {}),
        ("row", "discrete-laplace", {"bits": 3}),
        ("client", "discrete-laplace", {"bits": 2}),
    ],
)
def test_reports_of_means_are_unbiased_with_the_noise_of_the_mechanism(adjacency, mechanism, more):
    eps, delta = 1.6, more.get("delta", 0.0)
    client = MeanClient(bounds=(-1.0, 4.0), eps=eps, adjacency=adjacency, mechanism=mechanism, **more)
    reports = made(client)
    truth = CLIPPED.mean() if adjacency == "row" else np.clip(ROWS.mean(), -1, 4)
    one = reports[0]
    values = np.array([r.estimate for r in reports])
    assert unbiased(values, truth, one.noise_variance + one.rounding_variance)
    change = 5.0 / (5 if adjacency == "row" else 1)
    least = worst_variances(eps=eps, delta=delta, options=[mechanism])[mechanism] * change**2
    levels = 1 if mechanism == "two-point" else 2 ** more.get("bits", 12) - 1
    if mechanism not in ("two-point", "finite-output"):
        assert one.noise_variance == pytest.approx(least, rel=0.02 if levels > 100 else 0.3)
        step = 5.0 / levels
        assert one.rounding_variance == pytest.approx(step**2 / 4 / (5 if adjacency == "row" else 1))
        kurtosis = np.mean((values - values.mean()) ** 4) / values.var() ** 2
        spread = 5 * np.sqrt(kurtosis / M)
        assert values.var() > one.noise_variance * (1 - spread)
        assert values.var() < (one.noise_variance + one.rounding_variance) * (1 + spread)
    elif mechanism == "finite-output":
        assert one.noise_variance == pytest.approx(least, rel=1e-9)
        assert one.rounding_variance == 0
    else:  # randomised response of a bit: of the width squared
        wrong = 1 / (1 + np.exp(eps))
        assert one.noise_variance == pytest.approx(25 * wrong * (1 - wrong) / (1 - 2 * wrong) ** 2, rel=1e-9)
        assert one.rounding_variance == pytest.approx(25 / 4)
    assert (one.n, one.bounds, one.guarantee.eps, one.guarantee.adjacency) == (5, (-1.0, 4.0), eps, adjacency)
    share = 2 / 5 if adjacency == "row" else 0.0  # two rows are outside, the mean is not
    assert client.share_clipped(ROWS) == share


@pytest.mark.parametrize("adjacency", ["row", "client"])
def test_reported_variances_are_unbiased_with_their_part_of_the_budget(adjacency):
    more = {"variance_bound": 30.0} if adjacency == "client" else {}

    def client():
        kind = {"adjacency": adjacency, "mechanism": "discrete-laplace", "variance_share": 0.25}
        return MeanClient(bounds=(-1.0, 4.0), eps=1.6, **kind, **more)

    reports = made(client())
    one = reports[0]
    exact = CLIPPED.var(ddof=1) if adjacency == "row" else ROWS.var(ddof=1)
    values = np.array([r.variance for r in reports])
    assert abs(values.mean() - exact) < 5 * values.std() / np.sqrt(M) + 5e-3
    # Replacing a row moves n (n - 1) times the variance by at most (n - 1) width^2; a client's whole number by its bound.
    change = 25 / 5 if adjacency == "row" else 30.0
    assert one.variance_noise == pytest.approx(2 * (change / (0.25 * 1.6)) ** 2, rel=0.01)
    mean = 5.0 / (5 if adjacency == "row" else 1)
    assert one.noise_variance == pytest.approx(2 * (mean / (0.75 * 1.6)) ** 2, rel=0.01)
    alone = client().reports([[1.0]], ["a"], RNG(1))[0]
    assert alone.variance is None
    assert alone.noise_variance == pytest.approx(2 * (5.0 / 1.6) ** 2, rel=0.01)  # one row has no variance: all for the mean


@pytest.mark.parametrize("rows", [ROWS, ROWS[:2], np.array([3.0, 3.0, 3.5])])
@pytest.mark.parametrize("adjacency", ["row", "client"])
def test_variances_under_hardly_any_noise_are_those_of_the_rows(adjacency, rows):
    more = {"variance_bound": 30.0} if adjacency == "client" else {}
    client = MeanClient(
        bounds=(-1.0, 4.0), eps=1e6, adjacency=adjacency, mechanism="discrete-laplace", variance_share=0.5, bits=12, **more
    )
    said = client.reports([rows], ["a"], RNG(1))[0].variance
    exact = np.clip(rows, -1.0, 4.0).var(ddof=1) if adjacency == "row" else rows.var(ddof=1)
    assert said == pytest.approx(exact, abs=0.01)  # a step of 30 / 4095, or the rounding of rows to steps of 5 / 4095


@pytest.mark.parametrize(
    ("adjacency", "mechanism"),
    [("row", "discrete-laplace"), ("row", "answers"), ("client", "discrete-laplace"), ("client", "staircase"),
     ("client", "finite-output"), ("row", "discrete-gaussian")],
)  # fmt: skip
def test_reports_of_rates_are_unbiased_with_the_noise_of_the_mechanism(adjacency, mechanism):
    eps, delta = 1.3, 1e-3 if mechanism.endswith("gaussian") else 0.0
    client = RateClient(eps=eps, delta=delta, adjacency=adjacency, mechanism=mechanism)
    reports = client.reports([4] * M, [9] * M, [str(i) for i in range(M)], RNG(2))
    one, values = reports[0], np.array([r.value for r in reports])
    change = 1 if adjacency == "row" else 9
    fall = eps / change
    wrong = 1 / (1 + np.exp(eps))
    stated = {
        "discrete-laplace": 1 / (2 * np.sinh(fall / 2) ** 2),
        "answers": 9 * wrong * (1 - wrong) / (1 - 2 * wrong) ** 2,
        "staircase": None,
        "finite-output": worst_variances(eps=eps, options=["finite-output"])["finite-output"] * 81,
        "discrete-gaussian": None,
    }[mechanism]
    if stated is not None:
        assert one.noise_variance == pytest.approx(stated, rel=1e-6)
    assert abs(values.mean() - 4) < 5 * values.std() / np.sqrt(M)
    kurtosis = np.mean((values - values.mean()) ** 4) / values.var() ** 2
    if mechanism != "finite-output":
        assert values.var() == pytest.approx(one.noise_variance, rel=5 * np.sqrt(kurtosis / M))
    assert (one.trials, one.n, one.statistic) == (9, 9, "ones")


@pytest.mark.parametrize("statistic", ["ones", "pairs"])
def test_two_points_report_a_bit_of_the_rate_or_of_its_square(statistic):
    def client():
        return RateClient(eps=1.3, adjacency="client", mechanism="two-point", statistic=statistic)

    values = np.array([r.value for r in client().reports([4] * M, [9] * M, [str(i) for i in range(M)], RNG(3))])
    wrong = 1 / (1 + np.exp(1.3))
    assert set(np.round(values, 12)) == {round(-wrong / (1 - 2 * wrong), 12), round((1 - wrong) / (1 - 2 * wrong), 12)}
    mean = 4 / 9 if statistic == "ones" else 4 * 3 / (9 * 8)  # the share of pairs of rows that are both ones
    assert abs(values.mean() - mean) < 5 * values.std() / np.sqrt(M)
    one = client().report([1, 1, 0], RNG(1))
    assert one.noise_variance == pytest.approx(wrong * (1 - wrong) / (1 - 2 * wrong) ** 2, rel=1e-9)
    if statistic == "pairs":
        with pytest.raises(ValueError, match="at least two"):
            client().report([1], RNG(1))
        client().report([1, 0], RNG(1))


@pytest.mark.parametrize(("ones", "trials", "share"), [(2, 2, 1), (5, 5, 1), (1, 2, 0), (1, 9, 0), (0, 3, 0)])
def test_pairs_of_ones_are_all_or_none_where_nothing_is_left_to_chance(ones, trials, share):
    client = RateClient(eps=30.0, adjacency="client", mechanism="two-point", statistic="pairs")  # of 1e13 bits one is wrong
    said = client.reports([ones] * 50, [trials] * 50, [str(i) for i in range(50)], RNG(4))
    assert [report.value for report in said] == pytest.approx([share] * 50, abs=1e-9)


@pytest.mark.parametrize("adjacency", ["row", "client"])
def test_rows_that_are_equal_have_no_variance_however_coarse_the_levels(adjacency):
    more = {"variance_bound": 30.0} if adjacency == "client" else {}
    client = MeanClient(bounds=(-1.0, 4.0), eps=1e6, adjacency=adjacency, variance_share=0.5, bits=2, **more)
    assert client.report([4.0, 4.0, 4.0], RNG(1)).variance == 0.0


def test_numbers_on_the_bounds_are_not_clipped():
    rows = [-1.0, 4.0, 4.0, 4.5]
    assert MeanClient(bounds=(-1.0, 4.0), eps=1.0).share_clipped(rows) == 0.25
    for mean, share in ((-1.0, 0.0), (4.0, 0.0), (4.5, 1.0)):
        assert MeanClient(bounds=(-1.0, 4.0), eps=1.0, adjacency="client").share_clipped([mean, mean]) == share


def test_bounds_in_advance_are_those_of_the_largest_normal_mean():
    """radius + sqrt(2 (tau2 + sigma2 / n) log(m^2 n)) on either side: none of m means is clipped but with 1 / (m n)."""
    low, high = a_priori_bounds(centre=1.0, radius=0.5, tau2=0.3, sigma2=2.0, n=7, m=20)
    half = 0.5 + np.sqrt(2 * (0.3 + 2 / 7) * np.log(20**2 * 7))
    assert (low, high) == pytest.approx((1 - half, 1 + half))
    outside = 1 - stats.norm.cdf((half - 0.5) / np.sqrt(0.3 + 2 / 7)) ** 20
    assert outside <= 1 / (20 * 7)


def test_clients_at_home_are_bayes_rule():
    client = MeanClient(bounds=(-1.0, 4.0), eps=1.0)
    rows = np.array([1.0, 3.0, 2.5])
    own = 0.8 / (0.8 + 2.0 / 3)
    home = client.at_home(rows, Prior.known(mu=4.0, tau2=0.8, sigma2=2.0))
    assert home.mean == pytest.approx(own * rows.mean() + (1 - own) * 4.0)
    assert home.sd == pytest.approx(np.sqrt(own * 2.0 / 3))
    rate = RateClient(eps=1.0).at_home([1, 1, 0, 1, 0], BetaPrior(0.3, 0.05))
    exact = stats.beta(0.3 * 3.2 + 3, 0.7 * 3.2 + 2)
    assert (rate.mean, rate.sd) == (pytest.approx(exact.mean()), pytest.approx(exact.std()))
    for bad in (BetaPrior(0.0, 0.0), BetaPrior(1.0, 0.0), BetaPrior(0.5, 0.25)):
        with pytest.raises(ValueError, match="prior must have"):
            RateClient(eps=1.0).at_home([1, 0], bad)


def test_settings_of_clients_end_where_they_are_said_to():
    say = {"bounds": (0.0, 1.0), "eps": 1.0}
    MeanClient(**say, bits=20)
    for more in (
        {"bits": 21}, {"bits": 0}, {"variance_share": 1.0}, {"variance_share": -0.1},
        {"variance_share": 0.5, "adjacency": "client"}, {"variance_bound": 1.0},
        {"mechanism": "two-point"},
        {"mechanism": "finite-output", "adjacency": "client", "variance_share": 0.5, "variance_bound": 1.0},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must"):
            MeanClient(**say, **more)
    with pytest.raises(ValueError, match="0 for mechanism"):  # bits have no part that could go to a variance
        MeanClient(**say, mechanism="two-point", adjacency="client", variance_share=0.5, variance_bound=1.0)
    few = 4 * SMALLEST_EPS
    assert MeanClient(bounds=(0.0, 1.0), eps=few, variance_share=0.25).variance_share == 0.25
    with pytest.raises(ValueError, match="leave an eps of"):
        MeanClient(bounds=(0.0, 1.0), eps=few, variance_share=0.2)
    most = 2**50
    assert RateClient(eps=1.0).reports([most], [most], ["a"], RNG(1))[0].trials == most
    with pytest.raises(ValueError, match="trials in 1"):
        RateClient(eps=1.0).reports([most], [most + 1], ["a"], RNG(1))
    assert [r.trials for r in RateClient(eps=1.0).reports([0, 1], [1, 1], ["a", "b"], RNG(1))] == [1, 1]
    with pytest.raises(ValueError, match="trials in 1"):
        RateClient(eps=1.0).reports([0], [0], ["a"], RNG(1))
