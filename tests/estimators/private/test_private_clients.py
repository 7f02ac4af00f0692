"""What leaves a client: private by enumeration, unbiased with the stated variance, nothing but the report, no bad input."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.accounting.budget import Budget, Guarantee
from estimators.closed_forms.quantization import probability_all_inside
from estimators.private import (
    BetaPrior,
    MeanClient,
    MeanReport,
    Prior,
    RateClient,
    RateReport,
    RegressionClient,
    RegressionPrior,
    a_priori_bounds,
    guarantee_lines,
    read_report,
    read_reports,
)
from estimators.private.noise import flip_probability
from estimators.private.prior import Broadcast
from estimators.private.reports import checksum

RNG = np.random.default_rng


def mean_report(**changes):
    parts = {
        "client": "a",
        "n": 3,
        "guarantee": Guarantee(1.0, 0.0, "row", "client", "discrete-laplace"),
        "estimate": 0.5,
        "noise_variance": 0.1,
        "rounding_variance": 0.0,
        "bounds": (0.0, 1.0),
    }
    return MeanReport(**{**parts, **changes})


# --- privacy ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.3, 1.0, 4.0])
def test_rounding_and_two_points_by_enumeration(eps):
    """Every pair of inputs, both outcomes: the hockey-stick divergence at eps is 0, and at less it is not."""
    flip, whole = flip_probability(eps)
    wrong = flip / whole
    x = np.linspace(0.0, 1.0, 41)
    one = x * (1 - wrong) + (1 - x) * wrong  # the rounded bit is 1 with probability x
    laws = np.array([1 - one, one])
    gap = laws[:, :, None] - np.exp(eps) * laws[:, None, :]
    assert np.maximum(gap, 0).sum(axis=0).max() <= 1e-12
    loose = laws[:, :, None] - np.exp(0.9 * eps) * laws[:, None, :]
    assert np.maximum(loose, 0).sum(axis=0).max() > 1e-3


@pytest.mark.parametrize("adjacency", ["row", "client"])
def test_rounding_and_laplace_noise_by_enumeration(adjacency):
    """Two bits, two rows, all pairs of neighbours on a grid: no event is more likely than e^eps times under the other."""
    eps, levels, reach = 1.2, 3, 60
    client = MeanClient(bounds=(0.0, 1.0), eps=eps, adjacency=adjacency, bits=2)
    report = client.report([0.0, 0.0], RNG(0))
    unit = 1 / (2 * levels) if adjacency == "row" else 1 / levels
    scale = 1 / (2 * np.arcsinh(1 / np.sqrt(2 * report.noise_variance / unit**2)))
    y = np.arange(-reach, 2 * levels + reach + 1)

    def rounded(value):
        law = np.zeros(levels + 1)
        position = value * levels
        below = min(int(position), levels - 1)
        law[below], law[below + 1] = 1 - (position - below), position - below
        return law

    def law(rows):
        sums = np.convolve(rounded(rows[0]), rounded(rows[1])) if adjacency == "row" else rounded(np.mean(rows))
        noise = np.exp(-np.abs(y[:, None] - np.arange(len(sums))) / scale) * np.tanh(1 / (2 * scale))
        return noise @ sums

    values = [0.0, 0.2, 0.5, 0.9, 1.0]
    for a, b, c in product(values, repeat=3):
        p, q = law([a, b]), law([c, b] if adjacency == "row" else [c, c])
        assert np.maximum(p - np.exp(eps) * q, 0).sum() <= 1e-9
    p, q = law([0.0, 0.0]), law([1.0, 0.0] if adjacency == "row" else [1.0, 1.0])
    assert np.maximum(p - np.exp(0.9 * eps) * q, 0).sum() > 1e-3


@pytest.mark.parametrize(("n", "levels"), [(2, 3), (3, 3), (4, 2)])
def test_sensitivity_of_the_variance_by_brute_force(n, levels):
    """n times the sum of squares less the squared sum moves by (n - 1) levels^2 at most, over all neighbours."""

    def statistic(rows):
        return n * sum(r * r for r in rows) - sum(rows) ** 2

    largest = 0
    for rows in product(range(levels + 1), repeat=n):
        for other in range(levels + 1):
            largest = max(largest, abs(statistic(rows) - statistic((other, *rows[1:]))))
    assert largest == (n - 1) * levels**2


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), st.integers(1, 12), st.floats(0.01, 1e4))
def test_clipped_rows_are_never_longer_than_the_norm(row, bits, norm):
    whole = RegressionClient(norm=norm, eps=1.0, delta=1e-5, bits=bits).clip([row[:2]], [row[2]])
    assert np.sum(whole**2) <= 4**bits
    if 0 < np.linalg.norm(row) <= norm:
        np.testing.assert_allclose(whole[0] * norm / 2**bits, row, atol=norm / 2**bits * (1 + 1e-9))


def test_rows_on_the_grid_of_16_bits_stay_and_longer_ones_end_at_the_norm():
    """Also those of exactly the norm, in any direction; what is between two places goes towards 0."""
    rows = [[4, 0, 0], [0, -4, 0], [0, 0, 4], [0.25, -1.5, 3], [2.4, 0, -3.2], [-64, 0, 0], [1 / 3, 0, -1 / 7]]
    whole = RegressionClient(norm=4.0, eps=1.0, delta=1e-5).clip([row[:2] for row in rows], [row[2] for row in rows])
    short = [[Fraction(x) * 2**16 / max(4, abs(rows[i][0])) for x in row] for i, row in enumerate(rows)]
    assert whole.tolist() == [[math.trunc(x) for x in row] for row in short]


def test_sensitivity_of_products_is_attained_by_orthogonal_rows():
    rng = RNG(1)
    z, w = rng.normal(size=(2, 20_000, 3))
    z, w = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (z, w))
    moved = np.sum((z[:, :, None] * z[:, None] - w[:, :, None] * w[:, None]) ** 2, axis=(1, 2))
    assert moved.max() <= 2 * (1 + 1e-12)
    e, f = np.eye(3)[:2]
    assert np.sum((np.outer(e, e) - np.outer(f, f)) ** 2) == 2.0


def test_public_entries_do_not_depend_on_the_data():
    """All of a report but its noisy numbers is the same for any data of n rows."""
    makers = [
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, delta=1e-6, variance_share=0.2), {"estimate", "variance"}),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, adjacency="client", mechanism="two-point"), {"estimate"}),
        (lambda: RateClient(eps=1.0, mechanism="answers"), {"value"}),
        (lambda: RateClient(eps=1.0, adjacency="client"), {"value"}),
    ]
    for make, noisy in makers:
        first, second = (json.loads(make().report(rows, RNG(1)).to_json()) for rows in ([0.0] * 9, [1.0] * 9))
        different = {key for key in first if first[key] != second[key]}
        assert different <= {*noisy, "checksum"}


# --- unbiased, with the stated variance ----------------------------------------------------------------------------------


CASES = {
    "row laplace": {"eps": 0.5},
    "row gaussian": {"eps": 0.5, "delta": 1e-5, "mechanism": "gaussian"},
    "row discrete gaussian": {"eps": 2.0, "delta": 1e-5, "mechanism": "discrete-gaussian"},
    "row with variance": {"eps": 1.0, "delta": 1e-5, "variance_share": 0.3, "mechanism": "gaussian"},
    "row with variance, laplace": {"eps": 1.0, "variance_share": 0.3},
    "client": {"eps": 2.0, "adjacency": "client"},
    "client with variance": {"eps": 2.0, "adjacency": "client", "variance_share": 0.5, "variance_bound": 1.0},
    "client two-point": {"eps": 1.0, "adjacency": "client", "mechanism": "two-point"},
    "few bits": {"eps": np.inf, "bits": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_reports_are_unbiased_with_their_noise(case):
    """600 reports of the same rows: mean within 5 standard errors, variance as stated (rounding is an upper bound)."""
    rng, size = RNG(11), 600
    rows = np.array([0.3, 1.7, 0.9, 1.1, 0.5, 1.2])
    reports = [MeanClient(bounds=(0.0, 2.0), **CASES[case]).report(rows, rng) for _ in range(size)]
    values = np.array([r.estimate for r in reports])
    least, most = reports[0].noise_variance, reports[0].noise_variance + reports[0].rounding_variance
    error = np.sqrt(6 / size)  # of a variance, relative, for a kurtosis up to 7
    assert abs(values.mean() - rows.mean()) < 5 * np.sqrt(most / size)
    assert least * (1 - 5 * error) < values.var() < most * (1 + 5 * error)
    if reports[0].variance is not None:
        told = np.array([r.variance for r in reports])
        noise = float(reports[0].variance_noise or 0.0)
        assert abs(told.mean() - rows.var(ddof=1)) < 5 * np.sqrt(noise / size) + 1e-3
        assert abs(told.var() / noise - 1) < 5 * error


@pytest.mark.parametrize(
    "case",
    [
        {"eps": 1.0},
        {"eps": 1.0, "delta": 1e-6, "mechanism": "discrete-gaussian"},
        {"eps": 1.0, "mechanism": "answers"},
        {"eps": 3.0, "adjacency": "client"},
        {"eps": 1.0, "adjacency": "client", "mechanism": "two-point"},
        {"eps": 1.0, "adjacency": "client", "mechanism": "two-point", "statistic": "pairs"},
    ],
    ids=lambda case: " ".join(map(str, case.values())),
)
def test_rate_reports_are_unbiased_with_their_noise(case):
    rng, size, answers = RNG(12), 600, [1, 1, 1, 0, 0, 0, 0, 0]
    reports = [RateClient(**case).report(answers, rng) for _ in range(size)]
    values, noise = np.array([r.value for r in reports]), reports[0].noise_variance
    truth = 3 / 8 * 2 / 7 if case.get("statistic") == "pairs" else 3 * reports[0].trials / 8
    rounding = truth * (1 - truth) if reports[0].trials == 1 else 0.0
    assert abs(values.mean() - truth) < 5 * np.sqrt((noise + rounding) / size)
    assert abs(values.var() / (noise + rounding) - 1) < 5 * np.sqrt(6 / size)


def test_regression_reports_are_unbiased_with_their_noise():
    rng, size = RNG(13), 200
    X, Y = rng.uniform(-0.5, 0.5, (5, 2)), rng.uniform(-0.5, 0.5, 5)
    rows = np.column_stack([X, Y])
    reports = [RegressionClient(norm=1.0, eps=2.0, delta=1e-4).report(X, Y, rng) for _ in range(size)]
    products = np.array([r.products for r in reports])
    noise = reports[0].noise_variance
    variances = np.where(np.eye(3) == 1, noise, noise / 2)
    assert (np.abs(products.mean(axis=0) - rows.T @ rows) < 5 * np.sqrt(variances / size) + 1e-4).all()
    assert (np.abs(products.var(axis=0) / variances - 1) < 5 * np.sqrt(2 / size)).all()


def test_more_privacy_is_more_noise():
    def noise(**kw):
        return MeanClient(bounds=(0.0, 1.0), **kw).report([0.5] * 20, RNG(0)).noise_variance

    assert noise(eps=0.5) > noise(eps=1.0) > noise(eps=8.0) > noise(eps=np.inf) == 0.0
    assert noise(eps=1.0, adjacency="client") > noise(eps=1.0)
    assert noise(eps=1.0, variance_share=0.5) > noise(eps=1.0, variance_share=0.1) > noise(eps=1.0)


# --- bounds and home ---------------------------------------------------------------------------------------------------


def test_a_priori_bounds_rarely_clip():
    low, high = a_priori_bounds(centre=5.0, radius=1.0, tau2=0.3, sigma2=2.0, n=10, m=50)
    assert (low + high) / 2 == pytest.approx(5.0)
    inside = probability_all_inside((high - low) / 2 - 1.0, 1.0, 0.3 + 0.2, 50)
    assert inside >= 1 - 1 / 500


def test_share_clipped_is_for_the_client_alone():
    client = MeanClient(bounds=(0.0, 1.0), eps=1.0)
    assert client.share_clipped([-1.0, 0.5, 0.7, 3.0]) == 0.5
    assert MeanClient(bounds=(0.0, 1.0), eps=1.0, adjacency="client").share_clipped([-1.0, 2.5]) == 0.0
    assert "clipped" not in client.report([-1.0, 0.5], RNG(0)).to_json()


def test_at_home_is_the_posterior():
    client = MeanClient(bounds=(0.0, 10.0), eps=1.0)
    home = client.at_home([2.0, 4.0], Prior.known(mu=5.0, tau2=3.0, sigma2=2.0))
    assert home.mean == pytest.approx(3 / 4 * 3 + 1 / 4 * 5)
    assert home.sd**2 == pytest.approx(3 / 4)
    low, high = home.interval(0.95)
    assert (high - low) / home.sd == pytest.approx(2 * 1.959963985)
    with pytest.raises(ValueError, match="sigma2"):
        client.at_home([1.0], Prior.known(mu=5.0, tau2=3.0))


# --- reports ---------------------------------------------------------------------------------------------------------------


def some_reports():
    rng = RNG(3)
    yield MeanClient(bounds=(0, 1), eps=1.0, delta=1e-6, variance_share=0.1, name="a").report([0.1, 0.4], rng)
    yield MeanClient(bounds=(0, 1), eps=np.inf, name="b").report([0.1], rng)
    yield RateClient(eps=2.0, name="c").report([0, 1, 1], rng)
    yield RegressionClient(norm=2.0, eps=1.0, delta=1e-6, name="d").report([[1.0], [0.5]], [0.3, 0.2], rng)


def test_reports_survive_json_and_are_strict():
    for report in some_reports():
        text = report.to_json()
        assert read_report(text) == report
        assert read_report(text.encode()) == report
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    lines = "\n".join(r.to_json() for r in some_reports()) + "\n\n"
    assert read_reports(lines) == list(some_reports())
    with pytest.raises(AttributeError):
        next(some_reports()).estimate = 0.0


def test_half_written_and_tampered_reports_are_refused():
    text = next(some_reports()).to_json()
    for cut in range(0, len(text), 7):
        with pytest.raises(ValueError, match="report"):
            read_report(text[:cut])
    content = json.loads(text)

    def refused(changes, message, drop=()):
        changed = {key: value for key, value in {**content, **changes}.items() if key not in drop}
        with pytest.raises(ValueError, match=message):
            read_report(json.dumps(changed))

    refused({"estimate": content["estimate"] + 1e-9}, "checksum")
    refused({"guarantee": {**content["guarantee"], "eps": 0.1}}, "checksum")
    refused({"estimate": float("nan")}, "not finite")
    refused({"kind": "MedianReport"}, "kind")
    refused({"version": 2}, "version")
    refused({}, "lacks", drop=("estimate",))
    refused({"raw": [1, 2]}, r"^report has unknown entries \['raw'\]$")
    forged = content | {"guarantee": None}
    forged["checksum"] = checksum({key: value for key, value in forged.items() if key != "checksum"})
    with pytest.raises(ValueError, match="no guarantee with entries, but None"):
        read_report(json.dumps(forged))
    with pytest.raises(ValueError, match="JSON object"):
        read_report("[1, 2]")
    with pytest.raises(ValueError, match="line 2: report is not complete"):
        read_reports([text, text[:30]])
    with pytest.raises(ValueError, match="line 3: client 'a' has reported in line 1"):
        read_reports([text, "", text])


def test_every_report_is_paid_for():
    client = MeanClient(bounds=(0.0, 1.0), eps=1.0)
    client.report([0.5], RNG(0))
    with pytest.raises(ValueError, match="would bring the total to eps=2"):
        client.report([0.5], RNG(0))
    shared = Budget(eps=2.0, delta=0.0, adjacency="row")
    MeanClient(bounds=(0.0, 1.0), eps=1.0, budget=shared).report([0.5], RNG(0))
    RateClient(eps=1.0, mechanism="answers", budget=shared).report([1], RNG(0))
    assert shared.left() == 0.0
    with pytest.raises(ValueError, match="would bring"):
        RateClient(eps=0.1, budget=shared).report([1], RNG(0))


def test_the_same_generator_gives_the_same_report():
    first, second = (MeanClient(bounds=(0, 1), eps=1.0).report([0.2, 0.3], RNG(5)) for _ in range(2))
    assert first == second
    fresh = {MeanClient(bounds=(0, 1), eps=0.1).report([0.2, 0.3]).estimate for _ in range(5)}
    assert len(fresh) > 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MeanClient(bounds=(1.0, 0.0), eps=1.0), "low < high"),
        (lambda: MeanClient(bounds=(0.0, np.inf), eps=1.0), "bounds"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=0.0), "eps must be > 0"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=-1.0), "eps must be > 0"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1e300), "eps must be at most 1e.20, which hides nothing, got 1e.300"),
        (lambda: RateClient(eps=1e300), "eps must be at most 1e.20"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, name="a\x1b[31m").report([0.5]), "without control characters"),
        (lambda: replace(MeanClient(bounds=(0.0, 1.0), eps=1.0).report([0.5]), n=10**400), "n must be finite"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, delta=1.0), "delta"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, mechanism="gaussian"), "delta must be > 0"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, mechanism="two-point"), "mechanism"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, bits=0), "bits"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, bits=21), "bits"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, variance_share=1.0), "variance_share"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, adjacency="client", variance_share=0.2), "variance_bound"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, variance_bound=1.0), "variance_bound"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, adjacency="user"), "adjacency"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, budget=1.0), "budget"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0, name=3).report([0.5]), "client must be a string"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0).report([]), "at least one value"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0).report([0.1, np.nan]), "NaN"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0).report([[0.1]]), "1-d"),
        (lambda: MeanClient(bounds=(0.0, 1.0), eps=1.0).report([0.1], 7), "generator"),
        (lambda: RateClient(eps=1.0).report([0, 2]), "0 or 1"),
        (lambda: RateClient(eps=1.0).report([]), "at least one"),
        (lambda: RateClient(eps=40.0, mechanism="answers"), "at most 30"),
        (lambda: RateClient(eps=1.0, statistic="pairs"), "statistic"),
        (
            lambda: RateClient(eps=1.0, adjacency="client", mechanism="two-point", statistic="pairs").report([1]),
            "at least two",
        ),
        (lambda: RegressionClient(norm=0.0, eps=1.0, delta=1e-5), "norm"),
        (lambda: RegressionClient(norm=9e-71, eps=1.0, delta=1e-5), "norm must be in .1e-70, 1e.70., got 9e-71"),
        (lambda: RegressionClient(norm=1.1e70, eps=1.0, delta=1e-5), "norm must be in .*in another unit"),
        (lambda: RegressionClient(norm=1.0, eps=1.0, delta=0.0), "delta must be > 0"),
        (lambda: RegressionClient(norm=1.0, eps=1.0, delta=0.1, mechanism="discrete-laplace"), "mechanism"),
        (lambda: RegressionClient(norm=1.0, eps=1.0, delta=0.1).report([[1.0]], [1.0, 2.0]), "one response per row"),
        (lambda: RegressionClient(norm=1.0, eps=1.0, delta=0.1).report([1.0], [1.0]), "X must have shape"),
        (lambda: mean_report(n=0), "n must be a whole number"),
        (lambda: mean_report(noise_variance=-1.0), "noise_variance"),
        (lambda: mean_report(estimate=np.inf), "estimate"),
        (lambda: mean_report(variance=1.0), "variance_noise"),
        (lambda: mean_report(bounds=(1.0, 1.0)), "low < high"),
        (lambda: mean_report(guarantee=None), "guarantee"),
        (lambda: RateReport("a", 1, mean_report().guarantee, "ones", 0, 1.0, 0.0), "trials"),
        (lambda: Prior.from_json("{"), "not complete JSON"),
        (lambda: Prior((1.0,), (0.5,), (0.0,), (0.0,)), "weight must add to 1"),
        (lambda: RegressionPrior.from_json('{"mu": [1.0]}'), "not complete JSON"),
        (
            lambda: RegressionClient(norm=1.0, eps=1.0, delta=0.1).at_home(
                [[1.0]], [1.0], RegressionPrior((1.0, 2.0), 1.0, 1.0)
            ),
            "2 columns",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_objects_of_another_class_are_named():
    report = MeanClient(bounds=(0.0, 1.0), eps=1.0).report([0.2, 0.4], np.random.default_rng(0))
    prior = Prior.known(mu=0.5, tau2=0.1, sigma2=0.1)
    for wrong in (None, 8, "prior", BetaPrior(0.25, 0.03)):
        with pytest.raises(ValueError, match=r"^prior must be a Prior, got"):
            MeanClient(bounds=(0.0, 1.0), eps=1.0).at_home([0.2, 0.4], wrong)
    for wrong in (None, 8, prior):
        with pytest.raises(ValueError, match=r"^prior must be a BetaPrior, got"):
            RateClient(eps=1.0).at_home([0, 1], wrong)
        with pytest.raises(ValueError, match=r"^prior must be a RegressionPrior, got"):
            RegressionClient(norm=1.0, eps=1.0, delta=1e-6).at_home([[1.0]], [0.5], wrong)
    with pytest.raises(ValueError, match=r"^report must be a MeanReport or None, got 8"):
        MeanClient(bounds=(0.0, 1.0), eps=1.0).at_home([0.2, 0.4], prior, report=8)
    assert MeanClient(bounds=(0.0, 1.0), eps=1.0).at_home([0.2, 0.4], prior, report=report).sd > 0
    with pytest.raises(ValueError, match=r"^guarantees must be a list"):
        guarantee_lines(8)
    with pytest.raises(ValueError, match=r"^guarantees\[0\] must be a Guarantee, got 8"):
        guarantee_lines([8])
    with pytest.raises(ValueError, match=r"^text must be read as one kind of prior"):
        Broadcast.from_json(prior.to_json())
    for kind in (Prior, BetaPrior):
        with pytest.raises(ValueError, match=r"^prior must be JSON as str or bytes, got NoneType"):
            kind.from_json(None)


def test_lists_of_clients_that_are_none_are_not_quoted():
    """The value itself, an exception of the user's that quotes it, and what stands behind the error."""

    class Quotes:
        def __iter__(self):
            raise RuntimeError("the value is 271828.1828")

    mean, regression = MeanClient(bounds=(0.0, 1.0), eps=1.0), RegressionClient(norm=1.0, eps=1.0, delta=0.1)
    for samples in (271828.1828, "271828.1828", Quotes()):
        for reports, more in ((mean.reports, ()), (regression.reports, ([[1.0]],))):
            with pytest.raises(ValueError, match="must be a list with the rows of each client") as caught:
                reports(samples, *more, ["a"])
            assert "271828" not in repr(caught.value)
            assert caught.value.__cause__ is caught.value.__context__ is None


def test_gaussian_noise_of_a_budget_without_end_is_next_to_none():
    report = MeanClient(bounds=(0.0, 1.0), eps=1e20, delta=0.5, mechanism="discrete-gaussian").report([0.25] * 9)
    assert abs(report.estimate - 0.25) < 0.01
