"""Many clients' reports at once: what each would have sent by itself, one charge, and nothing raw in an error."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

from estimators.accounting import BudgetFile
from estimators.private import MeanClient, RateClient
from estimators.private.agreement import Agreement
from estimators.private.noise import flip_probability, wrong_answers
from estimators.private.raw_rows import exact_sums

BOUNDS = (0.0, 10.0)
MEANS = [
    {"eps": 1.0},
    {"eps": 1.0, "variance_share": 0.25},
    {"eps": 1.0, "mechanism": "staircase"},
    {"eps": 1.0, "delta": 1e-3, "mechanism": "discrete-gaussian"},
    {"eps": 1.0, "delta": 1e-3, "mechanism": "gaussian"},
    {"eps": 1.0, "adjacency": "client", "mechanism": "two-point"},
    {"eps": 1.0, "adjacency": "client", "mechanism": "finite-output"},
    {"eps": 1.0, "adjacency": "client", "variance_share": 0.5, "variance_bound": 9.0},
]
RATES = [
    {"eps": 1.0},
    {"eps": 1.0, "adjacency": "client"},
    {"eps": 1.0, "mechanism": "answers"},
    {"eps": 1.0, "mechanism": "staircase", "adjacency": "client"},
    {"eps": 1.0, "mechanism": "two-point", "adjacency": "client"},
    {"eps": 1.0, "delta": 1e-3, "mechanism": "discrete-gaussian", "adjacency": "client"},
]


def public(report):
    """Return what a report says besides its noisy numbers."""
    return replace(report, client="", **{name: 0.0 for name in ("estimate", "value") if hasattr(report, name)},
                   **({"variance": 0.0} if getattr(report, "variance", None) is not None else {}))  # fmt: skip


@pytest.mark.parametrize("settings", MEANS)
def test_a_batch_of_means_is_what_single_clients_send(settings):
    """The public part is equal, the noisy numbers have one law (Kolmogorov and Smirnov's test, false alarms 1e-6)."""
    rng, m = np.random.default_rng(0), 600
    samples = [np.linspace(2.0, 7.0, n) for n in np.tile([1, 2, 5], m // 3)]
    together = MeanClient(bounds=BOUNDS, **settings).reports(samples, list(map(str, range(m))), rng)
    single = [MeanClient(bounds=BOUNDS, **settings).report(rows, rng) for rows in samples]
    assert [public(r) for r in together] == [public(r) for r in single]
    for kind in range(3):
        one, other = ([r.estimate for r in found[kind::3]] for found in (together, single))
        assert ks_2samp(one, other, method="asymp").pvalue > 1e-6
        if together[kind].variance is not None:
            one, other = ([r.variance for r in found[kind::3]] for found in (together, single))
            assert ks_2samp(one, other, method="asymp").pvalue > 1e-6


@pytest.mark.parametrize("settings", RATES)
def test_a_batch_of_rates_is_what_single_clients_send(settings):
    rng, m = np.random.default_rng(0), 600
    ones, trials = np.tile([1, 2, 30], m // 3), np.tile([2, 5, 40], m // 3)
    together = RateClient(**settings).reports(ones, trials, list(map(str, range(m))), rng)
    answers = [np.repeat([1, 0], [x, n - x]) for x, n in zip(ones, trials, strict=True)]
    single = [RateClient(**settings).report(each, rng) for each in answers]
    assert [public(r) for r in together] == [public(r) for r in single]
    for kind in range(3):
        assert ks_2samp(*([r.value for r in found[kind::3]] for found in (together, single)), method="asymp").pvalue > 1e-6


def test_without_noise_numbers_are_exact():
    samples = [[0.0, 10.0, 10.0], [10.0], [0.0, 0.0]]
    made = MeanClient(bounds=BOUNDS, eps=np.inf, variance_share=0.5).reports(samples, list("abc"))
    assert [r.estimate for r in made] == pytest.approx([20 / 3, 10.0, 0.0])
    assert [r.variance for r in made] == [pytest.approx(100 / 3), None, 0.0]
    large = np.full(5, (1 << 62) - 1)
    assert exact_sums(large, np.array([2, 3])) == [2 * ((1 << 62) - 1), 3 * ((1 << 62) - 1)]


def test_clients_may_have_no_ones_and_nothing_else():
    reports = RateClient(eps=np.inf).reports([0, 5, 0], [5, 5, 1], ["a", "b", "c"])
    assert [(r.value, r.n) for r in reports] == [(0.0, 5), (5.0, 5), (0.0, 1)]


def test_noise_has_the_variance_that_is_stated_for_every_size():
    m = 4000
    sizes = np.tile([2, 7, 50, 300], m // 4)
    made = MeanClient(bounds=BOUNDS, eps=0.5, variance_share=0.5).reports(
        [np.zeros(n) for n in sizes], list(map(str, range(m)))
    )
    scores = np.array([(r.estimate**2 / r.noise_variance, r.variance**2 / r.variance_noise) for r in made])
    assert not any(r.guarantee.simulated for r in made)
    for n in (2, 7, 50, 300):  # squared Laplace scores have variance 5
        assert (abs(scores[sizes == n].mean(axis=0) - 1) < 5 * np.sqrt(5 / (m / 4))).all()


def test_wrong_answers_come_at_their_rate():
    flip = flip_probability(1.0)
    found = wrong_answers(flip, 100_000, np.random.default_rng(0)).mean()
    assert abs(found - flip[0] / flip[1]) < 5 * 0.5 / np.sqrt(100_000)
    always = ((1 << 80) - 1, 1 << 80)  # both halves decide
    assert wrong_answers(always, 1000, np.random.default_rng(0)).all()
    assert not wrong_answers((0, 1 << 80), 1000, np.random.default_rng(0)).any()


def test_a_batch_is_charged_once_and_refused_whole(tmp_path):
    budget = BudgetFile.create(tmp_path / "a.budget", data="wards", eps=1.0)
    client = MeanClient(bounds=BOUNDS, eps=1.0, variance_share=0.5, budget=budget)
    client.reports([[1.0], [2.0, 3.0]], ["a", "b"])
    assert (len(budget.entries), budget.spent()) == (1, 1.0)
    with pytest.raises(ValueError, match="the budget is eps=1"):
        client.reports([[1.0]], ["a"])
    own = RateClient(eps=1.0)
    own.reports([1, 2], [3, 3], ["a", "b"])
    with pytest.raises(ValueError, match="the budget is eps=1"):
        own.reports([1, 2], [3, 3], ["a", "b"])


def test_a_server_takes_outputs_of_the_agreed_law_only():
    settings = {"bounds": BOUNDS, "eps": 2.0, "adjacency": "client", "mechanism": "finite-output"}
    honest = MeanClient(**settings).reports([[3.0, 4.0], [5.0]], ["a", "b"])
    between = replace(honest[0], client="c", estimate=float(np.mean(MeanClient(**settings).law.values[3:5])))
    heard = Agreement(MeanClient, settings).screen([*honest, between])
    assert [r.client for r in heard.reports] == ["a", "b"]
    assert "among the" in heard.rejected[0].why
    rates = {"eps": 2.0, "adjacency": "client", "mechanism": "finite-output"}
    honest = RateClient(**rates).reports([1, 7], [7, 7], ["a", "b"])
    moved = replace(honest[1], client="c", value=honest[1].value + 0.01)
    assert [r.client for r in Agreement(RateClient, rates).screen([*honest, moved]).rejected] == ["c"]


SECRET = 12345.678


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: MeanClient(bounds=BOUNDS, eps=1.0).reports([], []), "samples must hold"),
        (lambda: MeanClient(bounds=BOUNDS, eps=1.0).reports([[1.0]], ["a", "b"]), "names must be 1 strings"),
        (lambda: MeanClient(bounds=BOUNDS, eps=1.0).reports([[1.0], [2.0]], ["a", "a"]), "names hold 'a' twice"),
        (lambda: MeanClient(bounds=BOUNDS, eps=1.0).reports([[SECRET], [np.nan]], ["a", "b"]), "samples\\[1\\] must"),
        (lambda: MeanClient(bounds=BOUNDS, eps=1.0).reports([[SECRET], []], ["a", "b"]), "samples\\[1\\] must"),
        (lambda: MeanClient(bounds=BOUNDS, eps=1.0).reports("ab", ["a", "b"]), "samples must"),
        (lambda: MeanClient(bounds=BOUNDS, eps=1.0).reports([[1.0]], ["a"], 7), "generator"),
        (lambda: RateClient(eps=1.0).reports([3], [2], ["a"]), "position 0"),
        (lambda: RateClient(eps=1.0).reports([1, SECRET], [2, 20000], ["a", "b"]), "position 1"),
        (lambda: RateClient(eps=1.0).reports([1], [2, 3], ["a"]), "ones and trials"),
        (lambda: RateClient(eps=1.0).reports([0], [0], ["a"]), "position 0"),
        (lambda: RateClient(eps=1.0).reports([1], [1e300], ["a"]), "position 0"),
    ],
)
def test_bad_input_is_named_and_not_quoted(call, says):
    with pytest.raises(ValueError, match=says) as error:
        call()
    assert "12345" not in str(error.value)
