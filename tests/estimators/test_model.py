"""The contract of `ClientModel`: every fitted model of the public face offers the same, in the same shapes."""

import re
import warnings

import numpy as np
import pytest

import estimators
from estimators import private
from estimators.decisions import discoveries, prior_check
from estimators.model import ClientModel

warnings.filterwarnings("ignore", category=RuntimeWarning)


def reports_of_means(n=6):
    generator = np.random.default_rng(0)
    clients = [private.MeanClient(bounds=(-4.0, 6.0), eps=4.0, delta=1e-5, mechanism="gaussian") for _ in range(n)]
    return [c.report(generator.normal(i / 2, 1.0, 30), generator) for i, c in enumerate(clients)]


def reports_of_rates(n=6):
    generator = np.random.default_rng(0)
    return [private.RateClient(eps=2.0).report(generator.random(40) < 0.1 + i / 10, generator) for i in range(n)]


def designs(n=6):
    generator = np.random.default_rng(0)
    return [np.column_stack([np.ones(9), generator.normal(size=9)]) for _ in range(n)]


def responses(n=6, labels=False):
    generator = np.random.default_rng(1)
    found = [X @ generator.normal([0.0, 1.0], 1.0) + generator.normal(size=9) for X in designs(n)]
    return [(y > 0).astype(float) for y in found] if labels else found


Y, V = np.array([2.0, 1.2, -0.5, 3.0, 0.8, 5.1]), np.array([1.0, 0.25, 0.25, 4.0, 0.1, 1.0])
X, N = np.array([2, 0, 5, 9, 4, 30]), np.array([12, 10, 10, 14, 40, 50])

# Each with the arguments of fit for a number of clients.
MODELS = {
    "GaussianMeans": (estimators.GaussianMeans, lambda n: (Y[:n], V[:n])),
    "SampleMeans": (estimators.SampleMeans, lambda n: (Y[:n], 4 * V[:n], 5)),
    "PointNormalMeans": (estimators.PointNormalMeans, lambda n: (Y[:n], V[:n])),
    "MixtureMeans": (estimators.MixtureMeans, lambda n: (Y[:n], V[:n])),
    "NonparametricMeans": (estimators.NonparametricMeans, lambda n: (Y[:n], V[:n])),
    "BetaBinomial": (estimators.BetaBinomial, lambda n: (X[:n], N[:n])),
    "BetaBinomialRegression": (estimators.BetaBinomialRegression, lambda n: (X[:n], N[:n])),
    "NonparametricRates": (estimators.NonparametricRates, lambda n: (X[:n], N[:n])),
    "GammaPoisson": (estimators.GammaPoisson, lambda n: (X[:n], N[:n] / 4)),
    "GammaPoissonRegression": (estimators.GammaPoissonRegression, lambda n: (X[:n], N[:n] / 4)),
    "NonparametricCounts": (estimators.NonparametricCounts, lambda n: (X[:n], N[:n] / 4)),
    "FederatedMeans": (estimators.FederatedMeans, lambda n: (Y[:n], V[:n])),
    "LinearClients": (estimators.LinearClients, lambda n: (designs(n), responses(n))),
    "LogisticClients": (estimators.LogisticClients, lambda n: (designs(n), responses(n, labels=True))),
    "PrivateGaussianMeans": (private.PrivateGaussianMeans, lambda n: (reports_of_means(n),)),
    "PrivateRates": (private.PrivateRates, lambda n: (reports_of_rates(n),)),
}
OPTIONS = {"MixtureMeans": {"k": 2}, "PrivateGaussianMeans": {"sigma2": 1.0}}


def fitted(name, n=6, arguments=None):
    make, data = MODELS[name]
    return make(**OPTIONS.get(name, {})).fit(*(data(n) if arguments is None else arguments))


def test_every_model_of_the_public_face_is_here():
    fronts = {name: getattr(front, name) for front in (estimators, private) for name in front.__all__}
    models = {name for name, thing in fronts.items() if isinstance(thing, type) and issubclass(thing, ClientModel)}
    assert models == MODELS.keys()


class Axes:
    """Axes that note what is drawn on them."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args, **kwargs: self.calls.append((name, args))


@pytest.mark.parametrize("n", [6, 3])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_methods_in_the_same_shapes(name, n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(name, n)
    shape = model.posterior_mean_.shape
    assert shape[0] == n
    assert model.posterior_sd_.shape == shape
    ranks = model.rank(draws=200, first=2)
    assert ranks._fields[:7] == ("expected", "standard_error", "place", "percentile", "low", "high", "top")
    assert all(part.shape == shape for part in ranks[:7])
    assert ranks.expected.sum(axis=0) == pytest.approx(n * (n + 1) / 2 * np.ones(shape[1:]))
    assert ((ranks.low >= 1) & (ranks.low <= ranks.high) & (ranks.high <= n)).all()
    draws = model.posterior_draws(300, seed=1)
    assert draws.shape == (300, *shape)
    assert np.array_equal(draws, model.posterior_draws(300, seed=1))
    assert len(model.posterior_draws(1, seed=1)) == 1
    assert (np.abs(draws.mean(axis=0) - model.posterior_mean_) <= 6 * model.posterior_sd_ / 300**0.5 + 1e-9).all()
    assert model.predict() == pytest.approx(np.asarray(model.predict(), float))
    assert np.shape(model.predict()) == shape[1:]
    summary = model.summary(0.9)
    assert summary.level == 0.9
    assert summary.low.shape == summary.high.shape == summary.mean.shape == shape
    assert f"{n} clients" in str(summary)
    assert len(str(summary).splitlines()) >= 3 + min(20, int(np.prod(shape)))
    assert summary._repr_html_().count("<tr>") == 1 + min(21, int(np.prod(shape)))
    assert isinstance(model.prior_interval(0.9), dict)
    found = discoveries(model, 0.2)
    assert all(part.shape == shape for part in found[:4])
    assert model.local_false_discovery_rate().shape == model.local_false_sign_rate().shape == shape
    axes = Axes()
    assert model.plot(axes) is axes
    assert {"hlines", "plot", "set_xlabel"} <= {call for call, _ in axes.calls}
    if len(shape) == 1:
        check = prior_check(model, draws=20)
        assert check.pit.shape == shape
        assert ((check.pit >= 0) & (check.pit <= 1)).all()


@pytest.mark.parametrize("name", MODELS)
def test_clients_alike_are_ranked_alike(name):
    data = MODELS[name][1](6)
    if name.startswith("Private"):
        data = ([data[0][0]] * 5 + [data[0][5]],)
    else:
        data = [part if np.ndim(part) == 0 else [part[0]] * 5 + [part[5]] for part in data]
        data = [part if isinstance(part, list) and np.ndim(part[0]) else np.asarray(part) for part in data]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Five alike would not determine a covariance of coefficients.
        model = (
            estimators.LogisticClients(covariance=1.0).fit(*data)
            if name == "LogisticClients"
            else fitted(name, arguments=data)
        )
    ranks = model.rank(draws=2000)
    spread = np.ptp(ranks.expected[:5], axis=0)
    # Counted ranks differ by chance: 10 pairs, 5 standard errors of a difference.
    assert (spread <= 5 * 2**0.5 * ranks.standard_error.max(axis=0) + 1e-6).all()


@pytest.mark.parametrize("name", MODELS)
def test_one_client_is_an_error_that_says_what_lacks(name):
    with pytest.raises(ValueError, match=r"two|three|at least|least|one client|clients") as raised:  # noqa: PT012
        model = fitted(name, 1)
        model.rank()
    assert len(str(raised.value)) > 30


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("Private")])
def test_nan_is_refused_with_the_name_of_the_argument(name):
    data = list(MODELS[name][1](6))
    if isinstance(data[1], list):
        data[1] = [data[1][0] * np.nan, *data[1][1:]]
    else:
        data[0] = np.where(np.arange(6) == 2, np.nan, data[0])
    with pytest.raises(ValueError, match=r"^(estimates|means|x|messages|Ys)\b.*holds NaN"):
        fitted(name, arguments=data)


@pytest.mark.parametrize("name", MODELS)
def test_quantiles_of_several_levels_are_those_of_one_after_the_other(name):
    model = fitted(name)
    found = model.posterior_quantiles(0.1, 0.8)
    assert len(found) == 2
    for row, q in zip(found, (0.1, 0.8), strict=True):
        np.testing.assert_allclose(row, model.posterior_quantile(q), rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match=r"^q must lie"):
        model.posterior_quantiles(0.1, 1.5)
    with pytest.raises(ValueError, match="call fit"):
        MODELS[name][0]().posterior_quantiles(0.1)


def test_clients_of_a_model_that_says_nothing_else_are_independent():
    assert ClientModel().independent


@pytest.mark.parametrize("name", MODELS)
def test_before_fit_every_method_says_so(name):
    model = MODELS[name][0]()
    for call in (model.rank, model.summary, model.predict, model.posterior_draws, model.prior_interval, model.interval):
        with pytest.raises(ValueError, match="call fit"):
            call()


def test_a_private_summary_says_nothing_raw():
    """The page of a private fit is a function of the reports alone, and says nothing but them."""
    model = fitted("PrivateGaussianMeans")
    again = private.PrivateGaussianMeans(sigma2=1.0).fit([private.read_report(r.to_json()) for r in model.reports_])
    assert str(again.summary()) == str(model.summary())
    assert again.rank(draws=50).expected.tolist() == model.rank(draws=50).expected.tolist()


def test_a_client_with_covariates_is_drawn_to_a_mean_of_its_own():
    y, z = np.arange(5.0), np.array([0.0, 2, 1, 4, 3])
    for model in (estimators.GaussianMeans().fit(y, 1.0, z), estimators.BetaBinomialRegression().fit(y, [9] * 5, z)):
        axes = Axes()
        model.plot(axes)
        (marks,) = [args for call, args in axes.calls if call == "plot" and args[2] == "D"]
        assert marks[0].tolist() == model.prior_mean_[np.argsort(model.posterior_mean_)].tolist()
        assert "axvline" not in {call for call, _ in axes.calls}


def test_a_page_is_escaped_and_abridged():
    model = estimators.GaussianMeans().fit(np.arange(50.0), 1.0)
    page = str(model.summary())
    assert "..." in page
    assert len(page.splitlines()) < 30
    text = model.summary()._replace(model="<b>")._repr_html_()
    assert "&lt;b&gt;" in text
    assert re.search(r"<th>mean</th>", text)
    with pytest.raises(ValueError, match="coefficient must be"):
        fitted("LinearClients").plot(Axes(), coefficient=2)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (
            "BetaBinomial",
            ([0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24], [47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360]),
        ),
        ("BetaBinomial", ([1, 3, 0, 5], [9, 10, 8, 10])),
        ("GammaPoisson", ([4, 7, 6, 5, 9, 5, 22, 1], 1.0)),
    ],
)
def test_intervals_of_averaged_priors_against_a_fine_lattice(kind, data, monkeypatch):
    """The prior's mean and sd: quantiles from a lattice twice as fine, and none for a prior that is believed."""
    from estimators.counts import conjugate

    make = getattr(estimators, kind)
    coarse = make().fit(*data).prior_interval(0.9)
    monkeypatch.setattr(conjugate, "FINE", (141, 500))
    fine = make().fit(*data).prior_interval(0.9)
    for name in ("mean", "sd"):
        width = fine[name][1] - fine[name][0]
        assert coarse[name] == pytest.approx(fine[name], abs=0.004 * width)
    assert make("marginal-likelihood").fit(*data).prior_interval() == {}


def test_intervals_of_averaged_spikes_and_private_means():
    """Without a spike in sight they are about those of a normal prior; private ones hold the truth."""
    y = np.random.default_rng(5).normal(3.0, 2.0, 40)
    spiky, normal = (
        model.fit(y, 1.0).prior_interval() for model in (estimators.PointNormalMeans(), estimators.GaussianMeans())
    )
    for name in ("mean", "sd"):
        width = normal[name][1] - normal[name][0]
        assert spiky[name] == pytest.approx(normal[name], abs=0.25 * width)
    assert "mean" not in estimators.PointNormalMeans(mode=3.0).fit(y, 1.0).prior_interval()
    assert estimators.PointNormalMeans(prior="marginal-likelihood").fit(y, 1.0).prior_interval() == {}
    held = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        rows = [generator.normal(generator.normal(1.0, 1.0), 1.0, 40) for _ in range(20)]
        sender = {"bounds": (-6.0, 6.0), "eps": 2.0, "delta": 1e-5, "mechanism": "gaussian"}
        reports = [private.MeanClient(**sender).report(own, generator) for own in rows]
        found = private.PrivateGaussianMeans(sigma2=1.0).fit(reports).prior_interval()
        held += (found["mean"][0] < 1.0 < found["mean"][1]) + (found["sd"][0] < 1.0 < found["sd"][1])
    assert held >= 172  # of 200, two-sided 95 %: fewer has probability 1e-6 if each holds 95 %


def test_the_worst_noncoverage_is_that_of_each_client_s_weight():
    """By default of 95 % intervals; a client of infinite variance has no weight, and its interval may always miss."""
    from estimators.closed_forms.intervals import linear_shrinkage, worst_noncoverage

    model = estimators.GaussianMeans().fit([0.0, 3.0, 1.0, -2.0, 0.5], [1.0, 0.5, 2.0, 1.0, np.inf])
    missed = model.worst_noncoverage()
    assert missed[-1] == 1
    weights = linear_shrinkage(*model.normal_estimates()).weights[:4]
    np.testing.assert_allclose(missed[:4], worst_noncoverage(weights, 0.95), rtol=1e-12)
    assert (model.worst_noncoverage(0.8)[:4] > missed[:4]).all()
