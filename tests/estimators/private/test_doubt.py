"""A server that doubts: honest reports pass, lies are named, and what liars can still do is bounded."""

import dataclasses
import json
import warnings

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from estimators.accounting import Guarantee
from estimators.private import (
    Agreement,
    FiniteOutput,
    Heard,
    MeanClient,
    MeanReport,
    PrivateGaussianMeans,
    RateClient,
    RegressionClient,
    doubt,
)
from estimators.private.agreement import noise_reach, staircase_reach
from estimators.private.exact_noise import discrete_gaussian_variance, discrete_laplace_variance
from estimators.private.noise_laws import laplace_beyond
from estimators.private.outlying import FALSE_ALARM, Noise, limits, pull, read, spread_of
from estimators.private.staircase import Staircase

RNG = np.random.default_rng
BOUNDS = (0.0, 10.0)

MEANS = {
    "row": {"eps": 1.0},
    "gaussian": {"eps": 1.0, "delta": 1e-5, "mechanism": "gaussian"},
    "variances": {"eps": 1.0, "delta": 1e-5, "mechanism": "discrete-gaussian", "variance_share": 0.25},
    "variances of Laplace": {"eps": 0.3, "variance_share": 0.25},
    "client": {"eps": 1.0, "adjacency": "client"},
    "client with variances": {"eps": 0.1, "adjacency": "client", "variance_share": 0.3, "variance_bound": 4.0},
    "two-point": {"eps": 1.0, "adjacency": "client", "mechanism": "two-point"},
    "no noise": {"eps": np.inf},
    "few levels": {"eps": 1e5, "bits": 2},
}
RATES = {
    "row": {"eps": 0.5},
    "answers": {"eps": 1.0, "mechanism": "answers"},
    "client": {"eps": 1.0, "adjacency": "client"},
    "ones": {"eps": 1.0, "adjacency": "client", "mechanism": "two-point"},
    "pairs": {"eps": 1.0, "adjacency": "client", "mechanism": "two-point", "statistic": "pairs"},
    "no noise": {"eps": np.inf},
}


@pytest.mark.parametrize("name", MEANS)
def test_honest_means_pass(name):
    rng = RNG(1)
    clients = [MeanClient(bounds=BOUNDS, name=f"c{i}", **MEANS[name]) for i in range(200)]
    sizes = {each.name: int(rng.integers(1, 40)) for each in clients}
    reports = [each.report(rng.normal(rng.normal(5, 6), 2.0, sizes[each.name]), rng) for each in clients]
    agreed = {"bounds": BOUNDS, **MEANS[name]}
    assert Agreement(MeanClient, agreed, sizes).screen(reports) == Heard(reports, list(range(200)), [])
    assert Agreement(MeanClient, agreed).screen([each.to_json() for each in reports]).rejected == []


@pytest.mark.parametrize("name", RATES)
def test_honest_rates_pass(name):
    rng = RNG(2)
    clients = [RateClient(name=f"c{i}", **RATES[name]) for i in range(200)]
    reports = [each.report(rng.random(rng.integers(2, 40)) < rng.choice([0.0, 0.3, 1.0]), rng) for each in clients]
    assert Agreement(RateClient, RATES[name]).screen(reports).rejected == []


def test_honest_regressions_pass():
    rng = RNG(3)
    agreed = Agreement(RegressionClient, {"norm": 2.0, "eps": 2.0, "delta": 1e-5}, columns=2)
    clients = [RegressionClient(name=f"c{i}", **agreed.settings) for i in range(40)]
    reports = [each.report(X := rng.normal(size=(30, 2)) * 9, X[:, 0], rng) for each in clients]
    assert agreed.screen(reports).rejected == []
    wide = RegressionClient(name="w", **agreed.settings).report(np.ones((30, 3)), np.ones(30), rng)
    huge = dataclasses.replace(reports[0], client="h", products=tuple(map(tuple, np.diag([1.0, 1.0, 1e9]))))
    why = [each.why for each in agreed.screen([*reports, wide, huge]).rejected]
    assert "products have 3 columns of x, agreed were 2" in why[0]
    assert "the largest of products is 1e+09, beyond" in why[1]


def test_products_of_clipped_rows_reach_no_further_than_all_rows_at_the_norm():
    rng = RNG(4)
    agreed = Agreement(RegressionClient, {"norm": 3.0, "eps": np.inf, "delta": 0.0}, columns=2)
    client = RegressionClient(name="c", **agreed.settings)
    report = client.report(rng.normal(size=(30, 2)), rng.normal(size=30), rng)
    for share, rejected in ((0.999, 0), (1.001, 1)):
        largest = 30 * 3.0**2 * share
        told = np.diag([1.0, 1.0, largest])
        for matrix in (told, np.array([[1, 0, -largest], [0, 1, 0], [-largest, 0, 1]])):
            sent = dataclasses.replace(report, products=tuple(map(tuple, matrix)))
            assert len(agreed.screen([sent]).rejected) == rejected
    negative = dataclasses.replace(report, products=tuple(map(tuple, np.diag([1.0, -1.0, 2.0]))))
    assert "least diagonal entry" in agreed.screen([negative]).rejected[0].why


def guaranteed(report, **new):
    return dataclasses.replace(report, guarantee=dataclasses.replace(report.guarantee, **new))


LIES = {
    "value": (lambda r: dataclasses.replace(r, estimate=1e6), r"estimate is 1e\+06, beyond what data between 0 and 10"),
    "value, a little": (lambda r: dataclasses.replace(r, estimate=-5.0), "estimate is -5, beyond"),
    "bounds": (
        lambda r: dataclasses.replace(r, bounds=(0.0, 1e7)),
        r"bounds is \(0.0, 10000000.0\), agreed was \(0.0, 10.0\)",
    ),
    "a client's own bounds": (
        lambda r: MeanClient(bounds=(0.0, 20.0), eps=1.0, name=r.client).report(np.full(50, 5.0), RNG(0)),
        r"bounds is \(0.0, 20.0\), agreed was \(0.0, 10.0\)",
    ),
    "n": (lambda r: dataclasses.replace(r, n=10**9), "n is 1000000000, agreed were 50 rows"),
    "noise": (lambda r: dataclasses.replace(r, noise_variance=1e-9), "noise_variance is 1e-09, agreed was 0.0"),
    "rounding": (lambda r: dataclasses.replace(r, rounding_variance=0.0), "rounding_variance is 0.0, agreed was"),
    "a variance": (lambda r: dataclasses.replace(r, variance=1.0, variance_noise=1.0), "variance is reported against"),
    "eps": (lambda r: guaranteed(r, eps=9.0), "guarantee has eps 9.0, agreed was 1.0"),
    "delta": (lambda r: guaranteed(r, delta=0.1), "guarantee has delta 0.1"),
    "mechanism": (lambda r: guaranteed(r, mechanism="gaussian"), "guarantee has mechanism 'gaussian'"),
    "adjacency": (lambda r: guaranteed(r, adjacency="client"), "guarantee has adjacency 'client'"),
    "rate": (lambda r: guaranteed(r, rho=1.0), "guarantee has rho 1.0, agreed was None"),
    "name": (lambda r: dataclasses.replace(r, client="x"), "client 'x' is none of those agreed on"),
    "kind": (lambda r: RateClient(eps=1.0, name="c0").report([0, 1], RNG(0)), "report must be a MeanReport, got RateReport"),
    "object": (lambda r: {"estimate": 1.0}, "report must be a MeanReport, got dict"),
    "half": (lambda r: r.to_json()[:50], "ask the client to send it again"),
    "no text": (lambda r: "[" * 9999, "nested deeper"),
    "bytes": (lambda r: b"\xff", "got bytes"),
}


@pytest.fixture
def honest():
    rng = RNG(3)
    clients = [MeanClient(bounds=BOUNDS, eps=1.0, name=f"c{i}") for i in range(200)]
    return [each.report(rng.normal(rng.normal(5, 1), 1.0, 50), rng) for each in clients]


@pytest.fixture
def agreed():
    return Agreement(MeanClient, {"bounds": BOUNDS, "eps": 1.0}, {f"c{i}": 50 for i in range(200)})


@pytest.mark.parametrize("name", LIES)
def test_lies_are_rejected_by_name_and_stop_nobody_else(name, honest, agreed):
    lie, why = LIES[name]
    heard = agreed.screen([lie(honest[0]), *honest[1:]])
    assert heard.reports == honest[1:]
    assert heard.places == list(range(1, 200))
    (rejection,) = heard.rejected
    assert rejection.place == 0
    with pytest.raises(ValueError, match=why):
        raise ValueError(rejection.why)
    assert len(rejection.why) <= 300


def test_two_reports_of_one_name_are_both_rejected(honest, agreed):
    heard = agreed.screen([*honest, dataclasses.replace(honest[7], estimate=9.0)])
    assert [(each.place, each.client) for each in heard.rejected] == [(7, "c7"), (200, "c7")]
    assert len(heard.reports) == 199


def test_a_claim_of_very_many_rows_costs_no_memory(honest):
    heard = Agreement(MeanClient, {"bounds": BOUNDS, "eps": 1.0}).screen([dataclasses.replace(honest[0], n=10**15)])
    assert "more than the 1000000 that a client may claim" in heard.rejected[0].why


def test_one_bit_reports_are_one_of_two(honest):
    agreed = Agreement(MeanClient, {"bounds": BOUNDS, **MEANS["two-point"]})
    report = MeanClient(**agreed.settings, name="a").report([3.0], RNG(0))
    (rejection,) = agreed.screen([dataclasses.replace(report, estimate=5.0)]).rejected
    assert "not one of the two answers" in rejection.why


def test_what_is_agreed_is_checked():
    eps = {"eps": 1.0}
    for wrong, why in (
        (lambda: Agreement(7, {}), "client must be one of the classes MeanClient"),
        (
            lambda: Agreement(RegressionClient, {"norm": 1.0, "eps": 1.0, "delta": 1e-5}),
            "columns must be given for a RegressionClient",
        ),
        (lambda: Agreement(RateClient, eps, columns=2), "and only there"),
        (lambda: Agreement(RateClient, {**eps, "name": "a"}), "settings must be a dict"),
        (lambda: Agreement(RateClient, {"epsilon": 1.0}), "settings must be arguments of RateClient"),
        (lambda: Agreement(RateClient, {"eps": -1.0}), "eps must be > 0"),
        (lambda: Agreement(RateClient, eps, [3]), "sizes must be a dict"),
        (lambda: Agreement(RateClient, eps, {"a": 0}), "sizes must"),
    ):
        with pytest.raises(ValueError, match=why):
            wrong()


@pytest.mark.parametrize("alpha", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("scale", [0.1, 0.5, 3.0, 200.0])
def test_reach_is_a_bound_for_integer_noise(scale, alpha):
    """Against the sums of the exact laws, on whole numbers (a quarter of whose squared distance is the rounding)."""
    reach = noise_reach("discrete-laplace", discrete_laplace_variance(scale), alpha, 0.25)
    beyond = np.floor(reach) + 1
    assert 2 * np.exp(-beyond / scale) / (1 + np.exp(-1 / scale)) <= alpha
    sigma2 = max(round(scale**2), 1)
    reach = noise_reach("discrete-gaussian", discrete_gaussian_variance(sigma2), alpha, 0.25)
    y = np.arange(-40 * int(np.sqrt(sigma2)) - 40, 40 * int(np.sqrt(sigma2)) + 41)
    law = np.exp(-(y**2) / (2 * sigma2))
    assert law[np.abs(y) > reach].sum() / law.sum() <= alpha


@pytest.mark.parametrize("alpha", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize(("change", "eps"), [(1, 0.1), (1, 3.0), (7, 1.0), (4095, 1.0), (4095, 60.0)])
def test_reach_is_a_bound_for_staircases_and_hardly_more(change, eps, alpha):
    """Against the sum of the exact law; Chebyshev's bound went hundreds of deviations at a small alpha."""
    reach, law = staircase_reach(float(change), eps, alpha), Staircase(sensitivity=change, eps=eps)
    y = np.arange(np.ceil(reach), np.ceil(reach) + 60 * change / min(eps, 1.0))
    beyond = 2 * np.exp(law.log_likelihood(y, 0)).sum()
    assert beyond <= alpha
    assert beyond >= alpha * np.exp(-min(eps, 40.0)) / 4  # one block nearer would not do


@pytest.mark.parametrize(
    ("client", "settings", "data"),
    [
        (MeanClient, {"bounds": (0.0, 10.0), "eps": 1.0, "mechanism": "staircase"}, [10.0] * 20),
        (MeanClient, {"bounds": (0.0, 10.0), "eps": 2.0, "mechanism": "staircase", "variance_share": 0.5}, [0.0, 10.0] * 10),
        (MeanClient, {"bounds": (0.0, 10.0), "eps": 1.0, "mechanism": "staircase", "adjacency": "client"}, [10.0] * 20),
        (RateClient, {"eps": 1.0, "mechanism": "staircase"}, [1.0] * 20),
        (RateClient, {"eps": 1.0, "mechanism": "staircase", "adjacency": "client"}, [1.0] * 20),
    ],
)
def test_honest_staircases_pass_and_far_ones_do_not(client, settings, data):
    agreed, rng = Agreement(client, settings), np.random.default_rng(8)
    reports = [client(**settings, name=str(i)).report(data, rng) for i in range(200)]
    heard = agreed.screen(reports)
    assert not heard.rejected
    name = "estimate" if client is MeanClient else "value"
    noise = np.sqrt(reports[0].noise_variance)
    far = dataclasses.replace(reports[0], **{name: max(getattr(r, name) for r in reports) + 40 * noise})
    assert len(agreed.screen([far, *reports[1:]]).rejected) == 1


@pytest.mark.parametrize(("s", "b"), [(1.0, 1.0), (0.1, 2.0), (3.0, 0.2), (1e-3, 1.0)])
def test_tail_of_normal_and_laplace_together(s, b):
    for t in (0.0, 0.5, 2.0, 7.0):
        laplace = stats.laplace(scale=b)
        grid = np.linspace(-9 * s, 9 * s, 20001)
        exact = integrate.simpson((laplace.sf(t - grid) + laplace.cdf(-t - grid)) * stats.norm.pdf(grid, scale=s), x=grid)
        assert float(laplace_beyond(np.array(t), np.array(s), np.array(b))) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("part", [1e-200, 1e-12, 1e-9, 1e-3, 0.3, 1.0, 30.0, 1e4])
def test_tail_of_normal_and_laplace_together_to_the_last_digits(part):
    """Laplace noise far below the normal error, which overflowed, or far above it; from the formula with 900 digits."""
    with mpmath.workdps(900):
        r = 1 / mpmath.mpf(part)
        for t in (0.1, 1.96, 8.0, 20.0):
            if part == 1e-200:
                exact = 2 * mpmath.ncdf(-mpmath.mpf(t))
            else:
                z = mpmath.mpf(t)
                near, far = (mpmath.exp(r**2 / 2 - x * r) * mpmath.ncdf(x - r) for x in (z, -z))
                exact = 2 * mpmath.ncdf(-z) + near - far
            assert float(laplace_beyond(np.array(t), np.array(1.0), np.array(part))) == pytest.approx(
                float(exact), rel=1e-12
            )


def plain(scale):
    """Laplace noise of some scales and nothing else."""
    return Noise(scale, np.empty(0, int), None)


def drawn(rng, m, noise, laplace, tau=1.0):
    """Reports without clients, for speed: normal values behind known noise."""
    kind = "discrete-laplace" if laplace else "gaussian"
    promise = Guarantee(1.0, 0.0 if laplace else 1e-6, "row", "client", kind)
    z = rng.laplace(size=m) * np.sqrt(noise / 2) if laplace else rng.normal(size=m) * np.sqrt(noise)
    x = rng.normal(5.0, tau, m) + z
    reports = [MeanReport(f"c{i}", 50, promise, float(v), noise, 1e-6, (-1e3, 1e3)) for i, v in enumerate(x)]
    return Heard(reports, list(range(m)), [])


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("m", [10, 60, 200])
def test_honest_clients_hardly_ever_lose_a_report(m, laplace):
    """At most 1 % of fits, so of 100 more than 7 with a probability of 1e-5."""
    rng = RNG(5)
    lost = sum(bool(doubt(drawn(rng, m, 0.5, laplace), hostile=0.1).rejected) for _ in range(100))
    assert lost <= 7


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize(("m", "liars"), [(60, 1), (200, 1), (200, 10), (200, 20), (200, 60)])
def test_what_liars_move_is_at_most_what_is_said(m, liars, laplace):
    """Wherever they sit, alone or all together: their part of the mean, relative to the centre, stays below `influence`."""
    rng = RNG(6)
    honest = drawn(rng, m - liars, 0.3, laplace)
    own = honest.reports
    for place in np.linspace(5.0, 20.0, 26):
        lies = [dataclasses.replace(own[0], client=f"l{i}", estimate=float(place)) for i in range(liars)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            heard = doubt(Heard([*lies, *own], list(range(m)), []), hostile=liars / m)
        centre = np.median([each.estimate for each in (*lies, *own)])
        believed = sum(each.client.startswith("l") for each in heard.reports)
        assert believed in (0, liars)
        assert believed / m * abs(place - centre) <= heard.influence * (1 + 1e-9)
        if place > 14:  # nine standard deviations
            assert believed == 0  # the farthest
            assert {each.client for each in heard.rejected} >= {each.client for each in lies}


def test_one_hostile_report_of_200(honest, agreed):
    """What it moved before, and what is left: a lie within the agreement and the crowd, less than a standard error."""

    def centre(reports):
        return PrivateGaussianMeans(sigma2=1.0).fit(reports).mu_

    truth = centre(honest[1:])
    worst = dataclasses.replace(honest[0], estimate=1e6, bounds=(0.0, 1e7), n=10**9, noise_variance=1e-9)
    model = agreed.screen([worst, *honest[1:]]).fit(PrivateGaussianMeans(sigma2=1.0))
    assert model.mu_ == truth
    assert [each.client for each in model.rejected_] == ["c0"]
    for estimate in (10.5, 9.0, 7.0):
        lie = dataclasses.replace(honest[0], estimate=estimate)
        heard = doubt(agreed.screen([lie, *honest[1:]]), hostile=0.01, sigma2=1.0)
        assert abs(heard.fit(PrivateGaussianMeans(sigma2=1.0)).mu_ - truth) < 0.05


@pytest.mark.parametrize(
    ("eps", "normal"), [(0.3, 0.5), (1.0, 0.0), (3.0, 2.0), (6.0, 0.3), (1.0, 2.1), (3.0, 2.5), (1.0, 40.0)]
)
def test_chances_of_staircases_are_those_of_draws_and_of_sums(eps, normal):
    """Against the exact law on whole numbers, so fine that it is a continuum, smoothed by the normal error on a grid."""
    law = Staircase(sensitivity=400, eps=eps)
    report = MeanReport(
        "", 1, Guarantee(eps, 0.0, "client", "client", "staircase"), 0.0, law.variance / 400.0**2, 0.0, (0.0, 1.0)
    )
    noise = read([report], 0.0)[2]
    reach = int(400 * (40 / min(eps, 2.0) + 8 * normal))
    y = np.arange(-reach, reach + 1)
    chance = np.exp(law.log_likelihood(y, 0))
    for t in (0.1, 0.8, 1.7, 4.1, 9.0, 14.0):
        if normal:
            exact = (chance * (stats.norm.sf((t - y / 400) / normal) + stats.norm.cdf((-t - y / 400) / normal))).sum()
        else:
            exact = chance[np.abs(y) > 400 * t].sum()
        found = float(noise.beyond(np.array([t]), np.array([normal]))[0])
        assert found == pytest.approx(exact, rel=0.03 if normal == 0 else 0.01)


def from_clients(rng, settings, m, truth=5.0):
    clients = [MeanClient(bounds=BOUNDS, name=f"c{i}", **settings) for i in range(m)]
    reports = [each.report(rng.normal(rng.normal(truth, 1.0), 1.0, 20), rng) for each in clients]
    return Heard(reports, list(range(m)), [])


@pytest.mark.parametrize("eps", [1.0, 6.0])
@pytest.mark.parametrize("adjacency", ["row", "client"])
def test_staircases_are_doubted_as_other_noise_is(eps, adjacency):
    rng, lost = RNG(11), 0
    settings = {"eps": eps, "mechanism": "staircase", "adjacency": adjacency}
    for _ in range(6):
        lost += bool(doubt(from_clients(rng, settings, 100), hostile=0.1, sigma2=1.0).rejected)
    assert lost <= 2  # of six with a chance of 1 % each
    honest = from_clients(rng, settings, 100)
    sd = np.sqrt(1 + 1 / 20 + honest.reports[0].noise_variance)
    believed = 10
    for place in np.linspace(5.0, 5.0 + 30 * sd, 13):
        lies = [dataclasses.replace(each, estimate=float(place)) for each in honest.reports[:10]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            heard = doubt(honest._replace(reports=[*lies, *honest.reports[10:]]), hostile=0.1, sigma2=1.0)
        believed = sum(each.estimate == place for each in heard.reports)
        centre = np.median([each.estimate for each in (*lies, *honest.reports[10:])])
        assert believed / 100 * abs(place - centre) <= heard.influence * (1 + 1e-9)
    assert believed == 0


@pytest.mark.parametrize("mechanism", ["finite-output", "two-point"])
@pytest.mark.parametrize("eps", [1.0, 5.0])
def test_of_few_outputs_none_is_rejected_and_what_liars_move_is_bounded(mechanism, eps):
    rng = RNG(12)
    settings = {"eps": eps, "mechanism": mechanism, "adjacency": "client"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for truth in (0.0, 5.0, 10.0):
            honest = from_clients(rng, settings, 300, truth)
            heard = doubt(honest, hostile=0.1)
            assert heard.reports == honest.reports
    law = FiniteOutput(bounds=BOUNDS, eps=eps, outputs=None if mechanism == "finite-output" else 2)
    top = float(law.values[-1])
    assert heard.influence == pytest.approx(0.1 * top)  # from the lower bound, 0, to the largest output
    assert doubt(honest, hostile=0.0).influence == 0.0
    low = from_clients(rng, settings, 300, 0.0)
    lies = [dataclasses.replace(each, estimate=top) for each in low.reports[:30]]
    moved = np.mean([each.estimate for each in (*lies, *low.reports[30:])]) - np.mean([r.estimate for r in low.reports])
    assert moved <= heard.influence + 0.1 * (top - 10)  # of honest ones, too, some send what is below the bound
    many = [dataclasses.replace(each, estimate=top) for each in low.reports]
    if (mechanism, eps) != ("two-point", 5.0):  # where all of 300 honest ones at the bound may well say the same
        with pytest.warns(UserWarning, match="300 of 300 reports are among the 1 largest outputs"):
            doubt(low._replace(reports=many), hostile=0.1)


def test_doubt_says_why_and_warns_of_too_many(honest, agreed):
    lies = [dataclasses.replace(each, estimate=10.0) for each in honest[:20]]
    heard = doubt(agreed.screen([*lies, *honest[20:]]), hostile=0.1, sigma2=1.0)
    assert [each.place for each in heard.rejected] == list(range(20))
    assert "from the centre" in heard.rejected[0].why
    assert "so far out there are 20 of 200" in heard.rejected[0].why
    with pytest.warns(UserWarning, match="20 of 200 reports are rejected, more than the share 0.05 that may lie"):
        doubt(agreed.screen([*lies, *honest[20:]]), hostile=0.05, sigma2=1.0)


def test_rejections_go_to_json(honest, agreed):
    heard = agreed.screen(["{", *honest[1:]])
    assert json.loads(json.dumps([each._asdict() for each in heard.rejected]))[0]["place"] == 0


def test_wrong_arguments_of_doubt(honest, agreed):
    heard = agreed.screen(honest)
    strange = heard._replace(reports=[guaranteed(each, mechanism="other") for each in honest])
    for call, why in (
        (lambda: doubt(heard, hostile=0.5), "below 0.5"),
        (lambda: doubt(heard, hostile=-0.1), "hostile"),
        (lambda: doubt(honest, hostile=0.1), "heard must be"),
        (lambda: doubt(heard._replace(reports=honest[:9]), hostile=0.1), "at least 10 clients"),
        (lambda: doubt(strange, hostile=0.1), "noise added"),
        (lambda: doubt(heard, hostile=0.1, sigma2=-1.0), "sigma2"),
    ):
        with pytest.raises(ValueError, match=why):
            call()


@pytest.mark.parametrize("m", [10, 200, 5000])
def test_honest_reports_reach_the_limits_as_seldom_as_is_said(m):
    levels, most = limits(m)
    np.testing.assert_allclose(levels[:-1] / levels[1:], 2)
    assert stats.binom.sf(most, m, levels).sum() <= FALSE_ALARM
    reached = stats.binom.sf(most - 1, m, levels) > FALSE_ALARM / levels.size  # one fewer would be too few
    assert (reached | (most == 0)).all()
    assert m * levels[-1] < FALSE_ALARM  # beyond the last level one honest report alone is too rare


@pytest.mark.parametrize("laplace", [False, True])
def test_liars_pull_as_far_as_the_places_left_to_them(laplace):
    """Of one kind of noise, level by level: the j-th farthest may lie up to the first level that j reports exceed."""
    m, liars, size = 300, 30, 2.0
    levels, most = limits(m)
    normal2, scale = (np.zeros(m), np.full(m, size)) if laplace else (np.full(m, size**2), np.zeros(m))
    places = [next(p for p, limit in zip(levels, most, strict=True) if limit < j) for j in range(1, liars + 1)]
    distance = -np.log(places) * size if laplace else stats.norm.isf(np.array(places) / 2) * size
    assert pull(liars, normal2, plain(scale), levels, most) == pytest.approx(distance.sum() / m, rel=1e-9)
    assert pull(0, normal2, plain(scale), levels, most) == 0.0


def test_the_spread_of_the_middle_is_not_underestimated():
    """Of exact normal quantiles: the spread at which 1/2 + z / (2 sqrt m) of the reports lie within its quartiles."""
    m, sd, own = 2000, 3.0, 4.0
    away = np.abs(stats.norm.ppf((np.arange(m) + 0.5) / m)) * np.hypot(sd, np.sqrt(own))
    inner = 0.5 + stats.norm.ppf(0.99) / (2 * np.sqrt(m))
    total = np.quantile(away, inner) / stats.norm.ppf(0.75)
    assert spread_of(away, np.full(m, own), plain(np.zeros(m))) == pytest.approx(total**2 - own, rel=2e-3)
    assert (
        spread_of(away, np.full(m, 4 * (sd**2 + own)), plain(np.zeros(m))) == 0.0
    )  # their own errors explain more than all
    assert spread_of(np.zeros(m), np.zeros(m), plain(np.zeros(m))) == 0.0
