"""What a fit states of its prior, of own weights and in words is what its posteriors do, for every model and prior."""

import argparse
import csv
import io
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from estimators import BetaBinomial, GammaPoisson, GaussianMeans, LinearClients, LogisticClients, PointNormalMeans
from estimators.counts.beta_binomial import BetaBinomialTally
from estimators.counts.gamma_poisson import GammaPoissonTally
from estimators.fit.models import MODELS, choose
from estimators.fit.outcome import Outcome, to_csv
from estimators.tables.client_table import read_client_table
from figures.fit import command
from figures.fit.command import add_arguments
from figures.fit.report import LESS, NONE_SEEN, explanation, report

WARDS = np.array([4, 7, 6, 5, 9, 5])
TEN = np.array([3, 2, 9, 0, 1, 1, 4, 15, 6, 2])
SIZES = np.array([20, 30, 25, 8, 12, 9, 16, 40, 11, 9])  # 18 on average

BETA = (
    {},
    {"prior": "marginal-likelihood"},
    {"prior": "moments"},
    {"prior": "naive-moments"},
    {"prior": "fixed", "alpha": 2.0, "beta": 5.0},
)
GAMMA = ({}, {"prior": "marginal-likelihood"}, {"prior": "moments"}, {"prior": "fixed", "shape": 3.0, "rate": 0.5})
NORMAL = (
    {},
    {"mu": 3.0},
    {"prior": "marginal-likelihood"},
    {"prior": "reml"},
    {"prior": "moments"},
    {"prior": "fixed", "tau2": 2.0},
    {"prior": "fixed", "tau2": 2.0, "mu": 4.0},
    {"prior": "fixed", "tau2": 0.0},
)
COUNTS = [(BetaBinomial, way) for way in BETA] + [(GammaPoisson, way) for way in GAMMA]
EQUAL = [(WARDS, 20), (TEN, 20), (np.array([0, 12, 1, 11]), 12), (np.array([1, 2]), 3)]
UNEQUAL = [(WARDS, SIZES[:6]), (TEN, SIZES)]


def named(case):
    return case.__name__ if isinstance(case, type) else str(case) if isinstance(case, dict) else None


# --- counts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", EQUAL + UNEQUAL, ids=str)
@pytest.mark.parametrize(("family", "way"), COUNTS, ids=named)
def test_own_weights_are_the_slopes_of_posterior_means(family, way, clients):
    x, n = clients
    model = family(**way).fit(x, n)
    assert ((model.weights_ >= 0) & (model.weights_ <= 1)).all()
    more = np.where(x < n, x + 1, x - 1)
    slope = (model.posterior(more, n).posterior_mean_ - model.posterior_mean_) / ((more - x) / n)
    np.testing.assert_allclose(model.weights_, slope, atol=1e-10)
    np.testing.assert_array_equal(model.posterior(x, n).weights_, model.weights_)
    none = model.posterior([0], [0])
    assert none.weights_[0] == 0
    # Clients of equal size have one centre; of different sizes too, but for an average of priors.
    if (model.weights_ < 1).all():
        centre = (model.posterior_mean_ - model.weights_ * x / n) / (1 - model.weights_)
        for size in np.unique(n):
            assert np.ptp(centre[np.broadcast_to(n, x.shape) == size]) < 1e-9
        assert way.get("prior", "bayes") == "bayes" or np.ptp(centre) < 1e-9


@pytest.mark.parametrize("clients", EQUAL, ids=str)
@pytest.mark.parametrize(("family", "way"), COUNTS, ids=named)
def test_the_stated_prior_gives_the_same_posterior_means(family, way, clients):
    x, n = clients
    model = family(**way).fit(x, n)
    stated = model.prior_summary()
    own, mean = x / n, stated["mean"]
    np.testing.assert_allclose(model.posterior_mean_, model.weights_ * own + (1 - model.weights_) * mean, atol=1e-9)
    if stated["sd"] == 0:
        assert (model.weights_ == 0).all()
        return
    if family is BetaBinomial:
        names, law = ("alpha", "beta"), stats.beta(stated["alpha"] or 1e-12, stated["beta"] or 1e-12)
        assert stated["concentration"] == pytest.approx(stated["alpha"] + stated["beta"])
    else:
        names, law = ("shape", "rate"), stats.gamma(stated["shape"], scale=1 / stated["rate"])
    assert (mean, stated["sd"]) == (pytest.approx(law.mean()), pytest.approx(law.std()))
    if stated.get("concentration") == 0:  # every probability is 0 or 1, and every client keeps its own
        assert (model.weights_ == 1).all()
        return
    alone = family("fixed", **{name: stated[name] for name in names}).fit(x, n)
    np.testing.assert_allclose(alone.posterior_mean_, model.posterior_mean_, rtol=1e-9)
    np.testing.assert_allclose(alone.weights_, model.weights_, rtol=1e-9)


@pytest.mark.parametrize(("family", "way"), COUNTS, ids=named)
def test_with_unequal_sizes_the_stated_prior_is_that_of_the_average_client(family, way):
    model = family(**way).fit(TEN, SIZES)
    stated, average = model.prior_summary(), model.posterior([0, 7, 18], 18)
    own = 18 / (18 + stated["concentration" if family is BetaBinomial else "rate"])
    np.testing.assert_allclose(average.weights_, own, rtol=1e-9)
    np.testing.assert_allclose(
        average.posterior_mean_, own * np.array([0, 7, 18]) / 18 + (1 - own) * stated["mean"], atol=1e-9
    )
    centre = (model.posterior_mean_ - model.weights_ * TEN / SIZES) / (1 - model.weights_)
    assert centre.min() - 1e-9 <= stated["mean"] <= centre.max() + 1e-9
    assert np.ptp(centre) < 0.1 * stated["sd"]  # so little that one centre serves in words


@pytest.mark.parametrize(("family", "way"), COUNTS, ids=named)
def test_the_summary_needs_the_tally_only_and_truths_are_drawn_from_what_it_states(family, way):
    x, n = TEN, SIZES
    model = family(**way).fit(x, n)
    with pytest.raises(ValueError, match="has not been fitted"):
        family(**way).prior_summary()
    tally = (BetaBinomialTally if family is BetaBinomial else GammaPoissonTally).of(x, n)
    stated = family(**way).fit_tally(tally).prior_summary()
    assert stated == model.prior_summary()
    many = model.posterior(np.tile(x, 4000), np.tile(n, 4000))
    truth, _ = many.draw(np.random.default_rng(5))
    assert truth.mean() == pytest.approx(stated["mean"], abs=5 * stated["sd"] / np.sqrt(truth.size))
    fourth = ((truth - stated["mean"]) ** 4).mean()  # the sample variance has a standard error below this root over m
    assert abs(truth.var() - stated["sd"] ** 2) < 5 * np.sqrt(fourth / truth.size)
    np.testing.assert_allclose(model.local_false_sign_rate(), model.local_false_sign_rate(stated["mean"]))


@pytest.mark.parametrize(("x", "n"), [(WARDS, 20 + 0 * WARDS), (TEN, SIZES)])
def test_averaged_weights_by_brute_force(x, n):
    """Grids over location and root of the overdispersion, with SciPy's probabilities; the weight of each prior averaged."""
    ends = 0.05 * np.sinh(np.linspace(0, np.arcsinh(100 / 0.05), 500))
    du, rho = np.diff(ends), ((ends[1:] + ends[:-1]) / 2) ** 2
    t = np.linspace(-9, 9, 900)[:, None]

    def averaged(logs, weight):
        p = np.exp(logs - logs.max()) * du
        return np.array([(p * weight(size)).sum() for size in n]) / p.sum()

    mu = 1 / (1 + np.exp(-t))
    logs = sum(stats.betabinom.logpmf(a, b, mu / rho, (1 - mu) / rho) for a, b in zip(x, n, strict=True))
    logs = logs + np.log(mu * (1 - mu)) + 0.5 * np.log(rho) - 1.5 * np.log(4 + np.mean(n) * rho)
    expected = averaged(logs, lambda size: rho * size / (1 + rho * size) + 0 * t)
    np.testing.assert_allclose(BetaBinomial().fit(x, n).weights_, expected, atol=1e-6)
    mu = np.exp(t)
    logs = sum(stats.nbinom.logpmf(a, 1 / rho, 1 / (1 + rho * mu * b)) for a, b in zip(x, n, strict=True))
    logs = logs + 0.5 * np.log(rho) - 1.5 * np.log(4 + np.mean(x) * rho)
    expected = averaged(logs, lambda size: rho * mu * size / (1 + rho * mu * size))
    np.testing.assert_allclose(GammaPoisson().fit(x, n).weights_, expected, atol=1e-5)


def test_six_wards_and_efron_and_morris():
    """The cases of the report: the most likely prior has no spread, or little, and the posteriors do not use it."""
    wards = GammaPoisson().fit(WARDS)
    assert wards.shape_ == np.inf
    assert wards.posterior_mean_[[0, 4]].round(3).tolist() == [5.247, 7.129]
    np.testing.assert_allclose(wards.weights_, np.ptp(wards.posterior_mean_) / 5, rtol=1e-9)
    assert 1 < wards.prior_summary()["sd"] < 2
    from estimators.tables.datasets import efron_morris

    data = efron_morris()
    players = BetaBinomial().fit(data.hits, data.at_bats)
    most, least = players.posterior_mean_.max(), players.posterior_mean_.min()
    kept = (most - least) / np.ptp(data.hits / data.at_bats)
    assert round(100 * kept, 1) == 29.5
    np.testing.assert_allclose(players.weights_, kept, rtol=1e-9)
    assert players.concentration_ > 4 * players.prior_summary()["concentration"]


def test_silent_clients_get_the_prior_and_no_number_that_only_the_quadrature_makes():
    """E[mean] given 1 / shape = rho exists for rho < m, the number of clients, its square for 2 rho < m."""
    rng = np.random.default_rng(0)
    for x, mean, sd in (([3, 0, 2], False, False), (WARDS, False, False), (rng.poisson(rng.gamma(2, 1, 100)), True, True)):
        model = GammaPoisson().fit([*x, 0], [*np.ones(len(x)), 0.0])
        assert (np.isfinite(model.posterior_mean_[-1]), np.isfinite(model.posterior_sd_[-1])) == (mean, sd)
        assert np.isfinite([model.posterior_mean_[:-1], model.posterior_sd_[:-1]]).all()
        median = model.posterior_quantile(0.5)
        np.testing.assert_allclose(model.posterior_cdf(median), 0.5, atol=1e-9)
        assert model.prior_summary()["mean"] == pytest.approx(np.mean(x), rel=0.01)
        assert np.isfinite(GammaPoisson("marginal-likelihood").fit([*x, 0], [*np.ones(len(x)), 0.0]).posterior_sd_).all()
    flat = [("flat-tau2", 4, None, False), ("flat-tau2", 5, None, False), ("flat-tau2", 6, None, True)]
    flat += [
        ("flat-tau2", 4, 2.0, False),
        ("flat-tau2", 5, 2.0, True),
        ("flat-tau", 4, None, False),
        ("flat-tau", 5, None, True),
    ]
    proper = [("strawderman", 2, None, False), ("strawderman", 3, None, True), ("strawderman", 2, 2.0, True)]
    for hyperprior, size, given, finite in flat + proper:
        model = GaussianMeans(mu=given, hyperprior=hyperprior).fit([*TEN[:size], 0], [*np.ones(size), np.inf])
        assert np.isfinite(model.posterior_sd_).tolist() == [True] * size + [finite]
        assert np.isfinite(model.posterior_mean_).all()
        assert np.isfinite(model.interval()).all()


# --- means -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variances", [6.0, np.arange(1.0, 11.0)], ids=["equal", "unequal"])
@pytest.mark.parametrize("y", [WARDS.astype(float), TEN.astype(float), np.array([4.0, 7, 6, 5])], ids=len)
@pytest.mark.parametrize("way", NORMAL, ids=str)
def test_weights_and_spread_of_gaussian_means(way, y, variances):
    v = np.broadcast_to(variances, (10,))[: y.size]
    model = GaussianMeans(**way).fit(y, v)
    stated, own = model.prior_summary(), model.weights_
    tau2s, mus, _, shares = model.nodes_
    each = tau2s / (tau2s + v[:, None])
    np.testing.assert_allclose(own, each @ shares, atol=1e-12)
    centre = ((1 - each) * mus) @ shares / (1 - own)
    np.testing.assert_allclose(model.posterior_mean_, own * y + (1 - own) * centre, atol=1e-9)
    typical = 1 / np.mean(1 / v)
    average = float(shares @ (tau2s / (tau2s + typical)))
    assert stated["variance"] / (stated["variance"] + typical) == pytest.approx(average, abs=1e-12)
    assert stated["sd"] ** 2 == pytest.approx(stated["variance"])
    if np.ptp(v) == 0:
        np.testing.assert_allclose(own, stated["variance"] / (stated["variance"] + v), atol=1e-12)
        np.testing.assert_allclose(model.posterior_mean_, own * y + (1 - own) * stated["mean"], atol=1e-9)
    if way.get("prior", "bayes") != "bayes":
        assert stated["variance"] == model.tau2_


@pytest.mark.parametrize("mode", [None, 5.0])
def test_weights_of_point_normal_means(mode):
    y = np.append(TEN, 40.0)
    model = PointNormalMeans(mode, "marginal-likelihood").fit(y, 1.0)
    kept = model.mode_ + model.weights_ * (y - model.mode_)
    np.testing.assert_allclose(model.posterior_mean_, kept, atol=1e-12)
    assert np.ptp(model.weights_) > 0.1  # not a law of the noise alone
    # Averaged over, a client's centre is the modes' mean with what each prior takes of it.
    averaged = PointNormalMeans(mode).fit(y, 1.0)
    centres = (averaged.posterior_mean_ - averaged.weights_ * y) / (1 - averaged.weights_)
    if mode is None:
        assert ((y.min() < centres) & (centres < y.max())).all()
    else:
        np.testing.assert_allclose(centres, mode, atol=1e-9)


# --- regressions -----------------------------------------------------------------------------------------------------


def rows(seed=0, m=25):
    rng = np.random.default_rng(seed)
    Xs = [np.column_stack([np.ones(4 + i % 9), rng.normal(size=4 + i % 9)]) for i in range(m)]
    return Xs, [X @ rng.normal([1.0, -1.0], [1.0, 0.5]) + rng.normal(size=len(X)) for X in Xs]


@pytest.mark.parametrize("way", [{}, {"prior": "reml"}, {"prior": "marginal-likelihood"}, {"mu": 0.5, "covariance": 0.3}])
def test_own_shares_of_linear_regressions_are_average_slopes(way):
    Xs, Ys = rows()
    model = LinearClients(**way).fit(Xs, Ys)
    fixed = LinearClients(mu=model.mu_, covariance=model.covariance_, sigma2=model.sigma2_)
    base = fixed.fit(Xs, Ys).posterior_mean_
    slopes = []
    for k in range(2):  # every client's own coefficient k moves by one
        slopes.append((fixed.fit(Xs, [Y + X[:, k] for X, Y in zip(Xs, Ys, strict=True)]).posterior_mean_ - base)[:, k])
    np.testing.assert_allclose(1 - model.borrowed_, np.mean(slopes, axis=0), atol=1e-8)
    assert (model.prior_summary()["found_by"] == "fixed") == ("covariance" in way)


@pytest.mark.parametrize("way", [{}, {"prior": "marginal-likelihood"}, {"mu": 0.5, "covariance": 0.3}])
def test_own_shares_of_logistic_regressions_are_what_the_data_take_from_the_prior(way):
    Xs, Ys = rows(1)
    model = LogisticClients(**way).fit(Xs, [Y > 0 for Y in Ys])
    _, own = model.terms_[0]  # without what is unknown of the centre, which is no client's own
    left = np.einsum("mik,mjk,ji->m", own, own, np.linalg.inv(model.covariance_))
    np.testing.assert_allclose(model.borrowed_, left / 2, atol=1e-6)


def test_no_spread_is_stated_where_no_client_shows_any():
    Xs, Ys = rows()
    model = LinearClients().fit([np.column_stack([X, np.zeros(len(X))]) for X in Xs], Ys)
    assert np.isinf(model.posterior_sd_[:, 2]).all()
    assert model.prior_summary()["sd"][2] == np.inf
    assert np.isfinite(model.prior_summary()["sd"][:2]).all()


# --- words -----------------------------------------------------------------------------------------------------------

TABLES = {
    "means": {
        "six": "client,estimate,se\n" + "".join(f"w{i},{x},2.4\n" for i, x in enumerate(WARDS)),
        "ten": "client,estimate,se\n" + "".join(f"c{i},{x},{1 + i / 3}\n" for i, x in enumerate(TEN)),
        "far": "client,estimate,se\n" + "".join(f"c{i},{x},1\n" for i, x in enumerate([*TEN, 60])),
    },
    "binomial": {
        "six": "client,successes,trials\n" + "".join(f"w{i},{x},20\n" for i, x in enumerate(WARDS)),
        "ten": "client,successes,trials\n" + "".join(f"c{i},{x},{SIZES[i]}\n" for i, x in enumerate(TEN)),
        "one silent": "client,successes,trials\n" + "".join(f"w{i},{x},{9 + i}\n" for i, x in enumerate(WARDS)) + "q,0,0\n",
    },
    "poisson": {
        "six": "client,count\n" + "".join(f"w{i},{x}\n" for i, x in enumerate(WARDS)),
        "ten": "client,count,exposure\n" + "".join(f"c{i},{x},{SIZES[i] / 10}\n" for i, x in enumerate(TEN)),
    },
    "regression": {},
}
ROWS = {  # of clients with a variance each, told by a few rows
    "ten": "client,mean,variance,n\n" + "".join(f"c{i},{x},{2 + 9 * (i % 3) ** 3},{3 + i % 4}\n" for i, x in enumerate(TEN))
}


def tables_of(kind):
    return ROWS if kind.name == "sample-means" else TABLES[kind.data]


FLAGS = {
    "sample-means": [[], ["--prior", "marginal-likelihood"], ["--prior", "reml"], ["--prior", "fixed", "--tau2", 2]],
    "normal": [
        [], ["--prior", "marginal-likelihood"], ["--prior", "reml"], ["--prior", "moments"], ["--mu", 3],
        ["--prior", "fixed", "--tau2", 2], ["--prior", "fixed", "--tau2", 0], ["--prior", "fixed", "--tau2", 2, "--mu", 5],
    ],
    "point-normal": [[], ["--prior", "marginal-likelihood"]],
    "beta-binomial": [
        [], ["--prior", "marginal-likelihood"], ["--prior", "moments"], ["--prior", "naive-moments"],
        ["--prior", "fixed", "--with", "alpha=2", "--with", "beta=6"],
    ],
    "gamma-poisson": [
        [], ["--prior", "marginal-likelihood"], ["--prior", "moments"],
        ["--prior", "fixed", "--with", "shape=2", "--with", "rate=0.5"],
    ],
    "beta-binomial-regression": [[], ["--prior", "marginal-likelihood"]],
    "gamma-poisson-regression": [[], ["--prior", "marginal-likelihood"]],
    "linear": [[], ["--prior", "penalised-reml"], ["--prior", "reml"], ["--prior", "marginal-likelihood"],
               ["--mu", 0.5, "--with", "covariance=0.3"]],
    "logistic": [[], ["--prior", "penalised"], ["--prior", "marginal-likelihood"],
                 ["--mu", 0.5, "--with", "covariance=0.3"]],
}  # fmt: skip
CASES = [
    pytest.param(kind, table, flags, id=f"{kind.data}-{kind.name}-{table} {' '.join(map(str, flags))}")
    for kind in MODELS
    for table in (tables_of(kind) or ["rows"])
    for flags in FLAGS.get(kind.name, [[]])
]


def outcome_of(path, kind, flags):
    parser = argparse.ArgumentParser()
    add_arguments(parser.add_subparsers().add_parser("fit"))
    target = ["--target", "label" if kind.name == "logistic" else "y"] if kind.data == "regression" else []
    args = parser.parse_args(["fit", *map(str, [path, "--model", kind.name, *target, *flags])])
    columns = {"target": target[1], "features": ["x"]} if target else {}
    return command.fit(args, read_client_table(path, **columns))


def test_every_prior_is_tried():
    names = ("bayes", "marginal-likelihood", "reml", "moments", "naive-moments", "fixed", "penalised", "penalised-reml")
    for kind in MODELS:
        made = kind.load()()
        assert (kind.name in FLAGS) == ("prior" in made.get_params())
        if kind.name in FLAGS:
            text = type(made).__doc__ or ""
            text = text[text.index("Parameters") : text.index("Attributes")]
            tried = {flags[flags.index("--prior") + 1] for flags in FLAGS[kind.name] if "--prior" in flags}
            assert tried | {made.prior} == {name for name in names if f'"{name}"' in text}


@pytest.mark.filterwarnings("ignore:clients of equal covariates differ by no more than noise")
@pytest.mark.parametrize(("kind", "table", "flags"), CASES)
def test_columns_and_sentences_agree(kind, table, flags, tmp_path):
    path = tmp_path / "clients.csv"
    if kind.data == "regression":
        Xs, Ys = rows()
        lines = [
            f"s{i},{y},{int(y > 0)},{x}"
            for i, (X, Y) in enumerate(zip(Xs, Ys, strict=True))
            for x, y in zip(X[:, 1], Y, strict=True)
        ]
        path.write_text("\n".join(["client,y,label,x", *lines]))
    else:
        path.write_text(tables_of(kind)[table])
    outcome = outcome_of(path, kind, flags)
    facts, said = outcome.summary(), explanation(outcome)
    text = "\n".join(said)
    columns = list(csv.DictReader(io.StringIO(to_csv(outcome).decode())))
    own, mean, error = (
        np.array([float(row[name] or "nan") for row in columns]) for name in ("estimate", "shrunken", "standard_error")
    )
    weight = np.array([float(row["weight_on_own"] or "nan") for row in columns])
    heard = np.isfinite(own) & np.isfinite(error)
    assert (kind.name in ("npmle", "mixture", "points")) == np.isnan(weight).all()

    if kind.data != "regression":
        centre, spread = facts["centre"], facts["spread"]
        assert f"lie around {centre:.4g}" in text
        assert f"standard deviation of {spread:.4g} (" in text
        # The words for no difference go with posteriors that do not differ, and the other way round.
        alike = np.abs(mean - centre).max() <= 1e-9 * abs(centre)
        assert alike == (spread == 0) == ("everyone gets the centre" in text)
        assert (NONE_SEEN in text) == (alike and "fixed" not in flags)
        # Averages with covariates state the centre of the likeliest prior.
        several = (
            kind.covariates or (table != "six" and (table == "ten" or kind.data != "means")) or kind.name == "point-normal"
        )
        if not np.isnan(weight).all() and not (several and facts["prior"].get("found_by") == "bayes"):
            expected = np.where(heard, weight * np.nan_to_num(own) + (1 - weight) * centre, mean)
            np.testing.assert_allclose(mean, expected, atol=1e-9)
    share = r"(\d+)%(?: \((\w+)\))?"
    kept = re.search(rf"(?:keeps|make up) {share}(?: to {share})? of its ([\w ]+)(?:; (.*))?\.", text)
    if kept:
        used = weight if kind.data == "regression" else weight[heard]
        names = [row["client"] for row in columns]
        for share, name, end in ((kept[1], kept[2], used.min()), (kept[3] or kept[1], kept[4], used.max())):
            assert share == f"{end:.0%}"[:-1]
            assert name is None or weight[names.index(name)] == end
        assert (facts["smallest_weight_on_own"], facts["largest_weight_on_own"]) == (used.min(), used.max())
        if kept[6]:
            assert kept[6] == LESS[kind.data]
            noise = error if kind.data == "means" else -np.array([float(row["n"]) for row in columns])
            for i in np.flatnonzero(heard):
                assert (weight[heard & (noise > noise[i])] <= weight[i] + 1e-12).all()
                assert np.ptp(weight[heard & (noise == noise[i])]) <= 1e-12
    else:
        assert np.isnan(weight).all() or facts["spread"] == 0
        gone = re.search(r"(\d+) of (\d+) estimates moved towards the centre, (\d+) away", text)
        towards = np.sign((mean - own) * (facts["centre"] - own))[heard]
        if gone:
            assert [int(number) for number in gone.groups()] == [np.sum(towards > 0), towards.size, np.sum(towards < 0)]
        assert ("No estimate moved away" in text) == (not gone and facts["spread"] > 0)
        assert not (towards < 0).any() or gone
    believed = facts["interval"] == "posterior" and facts["prior"].get("found_by") not in ("bayes", "fixed")
    assert ("few clients they are too short" in text) == believed
    assert report(outcome).endswith(text)


@pytest.mark.parametrize(("data", "table"), [("means", "ten"), ("binomial", "ten"), ("poisson", "six"), ("poisson", "ten")])
def test_an_outcome_shows_what_clients_know_by_themselves_and_what_the_fit_made_of_it(data, table, tmp_path):
    """Of counts the error is that of the model's own posterior: p (1 - p) and rates are averages over it."""
    path = tmp_path / "clients.csv"
    path.write_text(TABLES[data][table])
    kind = next(kind for kind in MODELS if kind.data == data)
    found = outcome_of(path, kind, ["--level", "0.8"])
    model = found.model
    p, sd = model.posterior_mean_, model.posterior_sd_
    x, size = (WARDS, np.ones(6)) if table == "six" else (TEN, SIZES / 10 if data == "poisson" else SIZES)
    own, square = {
        "means": lambda: (x, (1 + np.arange(10) / 3) ** 2), "binomial": lambda: (x / size, (p - p**2 - sd**2) / size),
        "poisson": lambda: (x / size, p / size),
    }[data]()  # fmt: skip
    np.testing.assert_allclose(found.own, own)
    np.testing.assert_allclose(found.error**2, square)
    np.testing.assert_array_equal(found.mean, p)
    np.testing.assert_allclose((found.low, found.high), model.interval(0.8))
    facts = found.summary()
    assert facts["expected_squared_error_before"] == pytest.approx(np.sum(square))
    assert facts["expected_squared_error_after"] == pytest.approx(np.sum(sd**2))
    assert facts["moved_most"] == found.clients[int(np.abs(p - own).argmax())]
    assert found.heard.tolist() == [True] * len(own)
    assert (found.ranks, found.discoveries, found.check) == (None, None, None)
    asked = found.decided(rank=True)
    assert asked.ranks is not None
    np.testing.assert_array_equal(asked.ranks.expected, model.rank(0.8, largest_first=True, seed=0).expected)
    assert (asked.discoveries, asked.check) == (None, None)


def test_a_client_who_is_not_heard_has_not_moved_most(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text("client,successes,trials\nsilent,0,0\na,9,10\nb,2,10\nc,5,10\n")
    found = outcome_of(path, next(kind for kind in MODELS if kind.data == "binomial"), [])
    assert found.heard.tolist() == [False, True, True, True]
    assert found.summary()["moved_most"] == found.clients[1 + int(np.abs(found.mean - found.own)[1:].argmax())]


def test_of_a_regression_those_with_rows_are_heard_each_coefficient_of_theirs():
    kind, model = next(kind for kind in MODELS if kind.data == "regression"), SimpleNamespace()
    numbers = [np.full(6, np.nan)] * 6  # own estimates may be missing where some rows are
    found = Outcome(model, kind, ("a", "b", "c"), np.array([1, 0, 30]), *numbers, level=0.9, coefficients=("x", "y"))
    assert found.heard.tolist() == [True, True, False, False, True, True]


def test_groups_of_a_prior_are_told_from_the_largest():
    """A share of nothing is none; a spike has no deviation, and a slab what the spike leaves."""

    def groups(**prior):
        model: Any = SimpleNamespace(prior_summary=lambda: prior)
        return Outcome(model, MODELS[0], (), None, *[np.empty(0)] * 6, level=0.9).groups()

    told = groups(probabilities=[0.3, 0.0, 0.7], means=[1.0, 2.0, 3.0], sds=[0.1, 0.2, 0.3])
    assert told == [(0.7, 3.0, 0.3), (0.3, 1.0, 0.1)]
    assert groups(spike_weight=0.375, mean=2.0, slab_sd=1.5) == [(0.625, 2.0, 1.5), (0.375, 2.0, 0.0)]
    assert groups(spike_weight=0.0, mean=2.0, slab_sd=1.5) == [(1.0, 2.0, 1.5)]
    assert groups(mean=2.0) == []


def test_equal_noise_and_unequal_weights_are_not_said_to_go_together(tmp_path):
    """A spike and a slab keep what is far out, however noisy: the words about noise must stay away."""
    path = tmp_path / "clients.csv"
    path.write_text(TABLES["means"]["far"])
    by_name = {kind.name: kind for kind in MODELS if kind.data == "means"}
    assert LESS["means"] not in "\n".join(explanation(outcome_of(path, by_name["point-normal"], [])))
    path.write_text(TABLES["means"]["ten"])
    assert LESS["means"] in "\n".join(explanation(outcome_of(path, by_name["normal"], [])))
    # Spread and no weights: some estimates move away from the centre, towards a group, and are counted.
    groups = [0, 1, 2, 1, 0, 20, 21, 22, 21, 20]
    path.write_text("client,estimate,se\n" + "".join(f"c{i},{x},1\n" for i, x in enumerate(groups)))
    assert "away from it" in "\n".join(explanation(outcome_of(path, by_name["points"], [])))


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("client,estimate,se,age a,1,.5,30 b,2,.7,40", "normal"),
        ("client,value,age a,1,30 a,2,30 b,2,40 b,4,40", "sample-means"),
        ("client,successes,trials,age a,1,5,30 b,2,7,40", "beta-binomial-regression"),
        ("client,count,exposure,age a,1,5,30 b,2,7,40", "gamma-poisson-regression"),
    ],
)
def test_clients_with_covariates_get_the_first_model_that_takes_them(text, model):
    assert choose("auto", read_client_table(text.split(), covariates=["age"])).name == model
