"""What a report may say under an agreement: numbers between ends that follow from the mechanism, on both sides of them."""

import dataclasses

import numpy as np
import pytest

from estimators.accounting import Guarantee
from estimators.private import Agreement, MeanClient, RateClient, RegressionClient
from estimators.private.agreement import noise_reach, ranges

RNG = np.random.default_rng
BOUNDS = (2.0, 12.0)
ALPHA = 1e-4


def told(client, data, alpha=ALPHA, columns=None, **settings):
    """Return the ranges by name of what an honest client reports, and the report."""
    agreed = Agreement(client, settings, columns=columns)
    report = client(**settings, name="a").report(*data, RNG(3))
    found = ranges(agreed.own, report, agreed.example(report), alpha)
    return {name: (low, high, reach) for name, _, low, high, reach in found}, report


# --- how far noise goes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.3, 1e-3, 1e-9])
def test_reaches_solve_their_tail_bounds(alpha):
    """The bounds of the docstring, 2 exp(-t / b) and 2 exp(-t^2 / (2 sigma^2)), have the value alpha at the reach."""
    for variance, rounding in ((2.0, 0.0), (0.03, 0.25), (7.0, 5.0)):
        scale = np.sqrt((variance + rounding * 4 / 6) / 2)  # 2 b^2 exceeds the variance by a sixth of the squared distance
        t = noise_reach("discrete-laplace", variance, alpha, rounding)
        assert 2 * np.exp(-t / scale) == pytest.approx(alpha, rel=1e-9)
        for name in ("gaussian", "discrete-gaussian"):
            t = noise_reach(name, variance, alpha, rounding)
            assert 2 * np.exp(-(t**2) / (2 * variance)) == pytest.approx(alpha * (alpha / 2) ** 0.01, rel=1e-9)  # 1 % more
        ends = noise_reach("two-point", variance, alpha, rounding)
        unit = 2 * np.sqrt(rounding)
        assert (unit / 2 + ends) ** 2 == pytest.approx(variance + unit**2 / 4, rel=1e-12)
        assert variance / noise_reach("of another kind", variance, alpha, rounding) ** 2 == pytest.approx(alpha, rel=1e-12)
    for name in ("discrete-laplace", "gaussian", "two-point", "of another kind"):
        assert noise_reach(name, 0.0, alpha, 0.25) == 0.0


# --- means -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adjacency", "mechanism", "delta"),
    [("row", "discrete-laplace", 0.0), ("client", "discrete-laplace", 0.0), ("row", "discrete-gaussian", 1e-5),
     ("client", "gaussian", 1e-5), ("client", "two-point", 0.0)],
)  # fmt: skip
def test_an_estimate_may_lie_beyond_the_bounds_by_the_reach_of_its_noise(adjacency, mechanism, delta):
    found, report = told(
        MeanClient, [[3.0, 5.0, 11.0]], bounds=BOUNDS, eps=0.7, delta=delta, adjacency=adjacency, mechanism=mechanism
    )
    reach = noise_reach(mechanism, report.noise_variance, ALPHA, report.rounding_variance)
    assert found == {"estimate": (2.0, 12.0, pytest.approx(reach, rel=1e-12))}


@pytest.mark.parametrize(("adjacency", "change"), [("row", 10.0 / 4), ("client", 10.0)])
def test_a_staircase_goes_in_blocks_of_what_one_change_moves(adjacency, change):
    """log(2 / 1e-4) = 9.9, so 20 blocks at eps 0.5."""
    found, _ = told(MeanClient, [[3.0, 5.0, 11.0, 4.0]], bounds=BOUNDS, eps=0.5, adjacency=adjacency, mechanism="staircase")
    assert found == {"estimate": (2.0, 12.0, pytest.approx(20 * change))}


def test_a_variance_of_rows_is_at_most_that_of_rows_at_both_ends():
    """Of n rows between the ends the sample variance is at most (high - low)^2 / 4 times n / (n - 1)."""
    for n in (2, 4, 10):
        rows = np.array([2.0, 12.0] * (n // 2))
        found, report = told(MeanClient, [rows], bounds=BOUNDS, eps=1.0, variance_share=0.25)
        low, high, reach = found["variance"]
        assert (low, high) == (0.0, pytest.approx(rows.var(ddof=1), rel=1e-12))
        b = np.sqrt(report.variance_noise / 2)
        assert b * np.log(2 / ALPHA) <= reach <= 1.001 * b * np.log(2 / ALPHA)  # steps are a small part of it
        assert found["estimate"][2] == pytest.approx(
            noise_reach("discrete-laplace", report.noise_variance, ALPHA, report.rounding_variance)
        )


@pytest.mark.parametrize("bits", [1, 3])
def test_a_clients_variance_goes_to_its_bound_and_as_far_as_noise_on_its_levels(bits):
    """On two levels their distance is the bound itself, and half of it squared is a quarter of the squared distance."""
    settings = {"bounds": BOUNDS, "eps": 2.0, "adjacency": "client", "variance_share": 0.5, "variance_bound": 6.0}
    found, report = told(MeanClient, [[3.0, 5.0, 11.0]], bits=bits, mechanism="discrete-laplace", **settings)
    low, high, reach = found["variance"]
    assert (low, high) == (0.0, 6.0)
    distance = 6.0 / (2**bits - 1)
    least = noise_reach("discrete-laplace", report.variance_noise, ALPHA, distance**2 / 4)
    assert reach == pytest.approx(least, rel=1e-12) if bits == 1 else least < reach < 1.3 * least


@pytest.mark.parametrize(("adjacency", "change"), [("row", 100.0 / 4), ("client", 6.0)])
def test_staircases_of_means_and_variances_have_their_parts_of_eps(adjacency, change):
    """Of eps 2 a fifth goes to the variance: blocks of eps 1.6 and 0.4, 7 and 25 of them before 1e-4."""
    more = {"variance_bound": 6.0} if adjacency == "client" else {}
    found, _ = told(
        MeanClient, [[3.0, 5.0, 11.0, 4.0]], bounds=BOUNDS, eps=2.0, adjacency=adjacency, mechanism="staircase",
        variance_share=0.2, **more,
    )  # fmt: skip
    assert found["variance"][2] == pytest.approx(25 * change)
    assert found["estimate"][2] == pytest.approx(7 * 10.0 / (4 if adjacency == "row" else 1))


def test_of_one_row_there_is_no_variance_and_all_of_eps_is_the_means():
    found, report = told(MeanClient, [[5.0]], bounds=BOUNDS, eps=0.5, mechanism="staircase", variance_share=0.5)
    assert report.variance is None
    assert found == {"estimate": (2.0, 12.0, pytest.approx(20 * 10.0))}


# --- rates and regressions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.4, 3.0])
def test_answers_are_at_most_all_of_them_and_at_least_none(eps):
    """All n answers one: n (1 - f) / (1 - 2 f) is read from them, f the share of wrong ones, as far beyond n as below 0."""
    found, _ = told(RateClient, [[1, 0, 1, 1, 0]], eps=eps, mechanism="answers")
    wrong = 1 / (1 + np.exp(eps))
    assert found == {"value": (0.0, 5.0, pytest.approx(5 * wrong / (1 - 2 * wrong), rel=1e-9))}


@pytest.mark.parametrize(("adjacency", "change"), [("row", 1.0), ("client", 5.0)])
def test_counts_go_as_far_as_their_noise_on_whole_numbers(adjacency, change):
    found, report = told(RateClient, [[1, 0, 1, 1, 0]], eps=0.8, adjacency=adjacency, mechanism="discrete-laplace")
    assert found == {
        "value": (0.0, 5.0, pytest.approx(noise_reach("discrete-laplace", report.noise_variance, ALPHA, 0.25), rel=1e-12))
    }
    found, _ = told(RateClient, [[1, 0, 1, 1, 0]], eps=0.5, adjacency=adjacency, mechanism="staircase")
    assert found == {"value": (0.0, 5.0, pytest.approx(20 * change))}


def test_products_share_the_chance_and_are_as_large_as_rows_at_the_norm():
    """Nine numbers, of which each may be refused with a ninth of the chance."""
    data = [np.arange(8.0).reshape(4, 2), np.ones(4)]
    found, report = told(RegressionClient, data, norm=1.5, eps=1.0, delta=1e-5, columns=2)
    reach = noise_reach(report.guarantee.mechanism, report.noise_variance, ALPHA / 9)
    ends = (-9.0, 9.0, pytest.approx(reach, rel=1e-12))  # 4 rows, 1.5 squared
    assert found == {
        "the least of products": ends, "the largest of products": ends,
        "the least diagonal entry of products": (0.0, *ends[1:]),
    }  # fmt: skip
    assert report.products != ()
    numbers = ranges(RegressionClient(norm=1.5, eps=1.0, delta=1e-5), report, report, ALPHA)
    matrix = np.array(report.products)
    assert [each[1] for each in numbers] == [matrix.min(), matrix.max(), matrix.diagonal().min()]


# --- both sides of every end -----------------------------------------------------------------------------------------------


SIDES = {
    "mean": (MeanClient, [[3.0, 5.0, 11.0]], {"bounds": BOUNDS, "eps": 0.7}, ["estimate"]),
    "mean, staircase": (
        MeanClient, [[3.0, 5.0, 11.0]], {"bounds": BOUNDS, "eps": 0.7, "mechanism": "staircase"}, ["estimate"]
    ),
    "variance": (
        MeanClient, [[3.0, 5.0, 11.0]], {"bounds": BOUNDS, "eps": 0.7, "variance_share": 0.25}, ["estimate", "variance"]
    ),
    "rate": (RateClient, [[1, 0, 1]], {"eps": 0.7, "mechanism": "discrete-laplace"}, ["value"]),
    "answers": (RateClient, [[1, 0, 1]], {"eps": 0.7, "mechanism": "answers"}, ["value"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SIDES)
def test_numbers_are_taken_up_to_the_reach_and_no_further(name):
    client, data, settings, numbers = SIDES[name]
    agreed = Agreement(client, settings)
    found, report = told(client, data, **settings)
    for number in numbers:
        low, high, reach = found[number]
        for end, out in ((low - reach, -1e-6), (high + reach, 1e-6)):
            agreed.check(dataclasses.replace(report, **{number: end - out}), ALPHA)
            with pytest.raises(ValueError, match=f"{number} is .*, beyond what data between {low:g} and"):
                agreed.check(dataclasses.replace(report, **{number: end + out}), ALPHA)


def test_of_two_answers_both_are_taken_and_no_third():
    settings = {"bounds": BOUNDS, "eps": 1.2, "adjacency": "client", "mechanism": "two-point"}
    agreed = Agreement(MeanClient, settings)
    report = MeanClient(**settings, name="a").report([4.0], RNG(0))
    wrong = 1 / (1 + np.exp(1.2))
    ends = [2.0 - 10 * wrong / (1 - 2 * wrong), 12.0 + 10 * wrong / (1 - 2 * wrong)]
    for end, inwards in zip(ends, (1e-6, -1e-6), strict=True):
        agreed.check(dataclasses.replace(report, estimate=end))
        with pytest.raises(ValueError, match="not one of the two answers"):
            agreed.check(dataclasses.replace(report, estimate=end + inwards))
        with pytest.raises(ValueError, match="beyond what data between"):
            agreed.check(dataclasses.replace(report, estimate=end - inwards))


def test_variances_of_noise_are_compared_to_nine_digits_and_rows_to_the_last():
    settings = {"bounds": BOUNDS, "eps": 0.7, "variance_share": 0.25}
    agreed = Agreement(MeanClient, settings)
    report = MeanClient(**settings, name="a").report([3.0, 5.0, 11.0], RNG(0))
    for name, why in (("noise_variance", "noise_variance is"), ("rounding_variance", "rounding_variance is"),
                      ("variance_noise", "variance_noise is")):  # fmt: skip
        value = getattr(report, name)
        for factor in (1 - 0.9e-9, 1 + 0.9e-9):
            agreed.check(dataclasses.replace(report, **{name: value * factor}))
        for factor in (1 - 1.1e-9, 1 + 1.1e-9, 2.0):
            with pytest.raises(ValueError, match=why):
                agreed.check(dataclasses.replace(report, **{name: value * factor}))
    missing = dataclasses.replace(report, variance=None, variance_noise=None)
    with pytest.raises(ValueError, match="variance is reported against the agreement, or missing"):
        agreed.check(missing)


def test_a_million_rows_may_be_claimed_and_not_one_more():
    agreed = Agreement(RateClient, {"eps": 1.0, "mechanism": "discrete-laplace"})
    report = RateClient(eps=1.0, mechanism="discrete-laplace", name="a").report([1, 0], RNG(0))
    agreed.check(dataclasses.replace(report, n=10**6, trials=10**6))
    with pytest.raises(ValueError, match="n is 1000001, more than the 1000000"):
        agreed.check(dataclasses.replace(report, n=10**6 + 1, trials=10**6 + 1))
    with pytest.raises(ValueError, match="trials is 3, agreed was 2"):
        agreed.check(dataclasses.replace(report, trials=3))


def test_reports_share_the_chance_to_be_refused():
    """A report that a check alone takes is refused where a hundred come: each has a hundredth of the chance."""
    settings = {"bounds": BOUNDS, "eps": 0.7}
    agreed = Agreement(MeanClient, settings)
    found, report = told(MeanClient, [[3.0, 5.0, 11.0]], alpha=1e-6, **settings)
    further, _ = told(MeanClient, [[3.0, 5.0, 11.0]], alpha=1e-8, **settings)
    alone, among = (12.0 + each["estimate"][2] for each in (found, further))
    honest = [MeanClient(**settings, name=f"c{i}").report([3.0, 5.0, 11.0], RNG(i)) for i in range(99)]
    assert alone < among
    for end, company in ((alone, []), (among, honest)):
        for factor, rejected in ((1 - 1e-6, 0), (1 + 1e-6, 1)):
            lie = dataclasses.replace(report, estimate=end * factor)
            assert len(agreed.screen([lie, *company]).rejected) == rejected
    agreed.check(dataclasses.replace(report, estimate=alone * (1 - 1e-6)))  # the chance of a check alone is 1e-6 as well
    with pytest.raises(ValueError, match="probability of 1e-06"):
        agreed.check(dataclasses.replace(report, estimate=alone * (1 + 1e-6)))


def test_a_guarantee_is_compared_part_by_part():
    settings = {"bounds": BOUNDS, "eps": 0.7}
    agreed = Agreement(MeanClient, settings)
    report = MeanClient(**settings, name="a").report([3.0, 5.0, 11.0], RNG(0))
    assert isinstance(report.guarantee, Guarantee)
    for part, wrong in (("eps", 0.7001), ("delta", 1e-9), ("adjacency", "client"), ("trusted", "server"), ("rho", 0.1)):
        other = dataclasses.replace(report, guarantee=dataclasses.replace(report.guarantee, **{part: wrong}))
        with pytest.raises(ValueError, match=f"guarantee has {part} "):
            agreed.check(other)


@pytest.mark.parametrize("eps", [1e-9, 1e-4, 0.3, 1.2, 5.0, 30.0])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1e6, 1e6), (1e3, 1e3 + 1e-3)])
def test_honest_answers_of_two_are_taken_at_any_eps(eps, bounds):
    settings = {"bounds": bounds, "eps": eps, "adjacency": "client", "mechanism": "two-point"}
    agreed = Agreement(MeanClient, settings)
    reports = [MeanClient(**settings, name=f"c{i}").report([bounds[i % 2]], RNG(i)) for i in range(30)]
    assert agreed.screen(reports).rejected == []
    middle = dataclasses.replace(reports[0], estimate=(bounds[0] + bounds[1]) / 2)
    assert "not one of the two answers" in agreed.screen([middle]).rejected[0].why
