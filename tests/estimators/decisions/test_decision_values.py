"""Pieces of decisions, number by number: pages as text, places and levels, blocks of draws, checks redone by hand."""

import numpy as np
import pytest
from scipy import stats

from estimators import BetaBinomial, GammaPoisson, GaussianMeans, LinearClients, NonparametricMeans, PointNormalMeans
from estimators.decisions import (
    discoveries,
    exceedance,
    extremes,
    normal_r_values,
    pairwise,
    prior_check,
    r_values,
    ranking,
    tail_averages,
)
from estimators.decisions.checking import note
from estimators.decisions.discovery import probabilities, reference
from estimators.decisions.posterior import blocks, several
from estimators.decisions.summaries import Summary, shown

Y, V = np.array([2, 1.2, -0.5, 3, 0.8, 0.1]), np.array([1, 0.25, 0.25, 4, 0.1, 1])


def known():
    return GaussianMeans("fixed", mu=0.0, tau2=1.0).fit(Y, V)


# --- summaries ----------------------------------------------------


def page(m, shape=(), **given):
    mean = np.arange(m * int(np.prod(shape, dtype=int)), dtype=float).reshape(m, *shape) * 1.23456
    prior = {
        "family": "normal",
        "found_by": "reml",
        "mean": 1.23456,
        "means": [1.0] * 6,
        "all": [0.5] * 7,
        "deep": {"no": 1},
    }
    told = {
        "model": "M()",
        "prior": prior | {"count": 3},
        "prior_intervals": {"mean": (0.12345, 2.0)},
        "level": 0.9,
        "log_likelihood": -12.3456789,
        "converged": True,
    } | given
    return Summary(mean=mean, sd=mean / 2, low=mean - 1, high=mean + 1, **told)


def test_pages_show_twenty_rows_and_dots_for_the_rest():
    rows = page(20).rows()
    assert len(rows) == 20
    assert rows[3] == ("3", "3.704", "1.852", "2.704", "4.704")
    rows = page(21).rows()
    assert [row[0] for row in rows] == [*map(str, range(10)), "...", *map(str, range(11, 21))]
    assert rows[10] == ("...",) * 5
    assert page(2, (2,)).rows()[2][0] == "1, 0"


def test_lines_beside_the_table():
    lines = page(7).lines()
    assert lines == [
        "M(): 7 clients, log-likelihood -12.3457",
        "prior: family normal, found by reml, mean 1.235, means [1, 1, 1, 1, 1, 1], count 3",
        "90% intervals for it: mean [0.1235, 2]",
    ]
    assert page(7, prior_intervals={}, converged=False).lines()[2:] == ["the fit did NOT converge; do not use it"]
    text = str(page(3)).splitlines()
    assert text[3].split() == ["client", "mean", "sd", "low", "high"]
    assert len({len(line) for line in text[3:]}) == 1  # aligned
    html = page(3, model="<M>")._repr_html_()
    assert "&lt;M&gt;" in html
    assert "<th>client</th><th>mean</th>" in html
    assert html.count("<td>") == 15
    assert html.count("<p>") == 3
    assert shown([1.0, "x", 2]) == "[1, x, 2]"


# --- what ranks are made of ----------------------------------------------------


def test_places_where_laws_are_looked_at():
    """In order: halfway points for the finer sum only, and both sides of every atom."""
    found = ranking.levels(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    assert found == [
        (0.0, False, False), (0.5, False, True), (1.0, True, False), (1.0, False, False), (1.5, False, True),
        (2.0, True, False), (2.0, False, False),
    ]  # fmt: skip
    assert ranking.levels(np.zeros(0), np.array([1.0, 3.0])) == [
        (1.0, True, False), (1.0, False, False), (3.0, True, False), (3.0, False, False),
    ]  # fmt: skip


def test_integration_reaches_seven_deviations_of_every_client():
    model = known()
    places, atoms = ranking.integration_points(model)
    assert atoms.size == 0
    mean, sd = model.posterior_mean_, model.posterior_sd_
    assert places[0] == pytest.approx((mean - 7 * sd).min())
    assert places[-1] == pytest.approx((mean + 7 * sd).max())
    assert 400 < places.size <= 514
    assert (np.diff(places) > 0).all()
    many = GaussianMeans("fixed", mu=0.0, tau2=1.0).fit(np.linspace(-3, 3, 2001), 1.0)
    places, _ = ranking.integration_points(many)
    assert places.size <= 130
    reach = 7 * many.posterior_sd_[0]
    assert (places[0], places[-1]) == pytest.approx((many.posterior_mean_[0] - reach, many.posterior_mean_[-1] + reach))
    assert (
        ranking.integration_points(GaussianMeans("fixed", mu=0.0, tau2=1.0).fit(np.linspace(-3, 3, 2000), 1.0))[0].size > 130
    )
    points = NonparametricMeans().fit([0.0, 0.5, 3.0, 4.0], [1, 0.5, 1, 2])
    places, atoms = ranking.integration_points(points)
    assert places.size == 0
    assert atoms == pytest.approx(points.support_)
    spiked = PointNormalMeans(0.0, prior="marginal-likelihood").fit([0.0, 0.1, -0.1, 6.0], 0.04)
    places, atoms = ranking.integration_points(spiked)
    assert atoms.tolist() == [0.0]
    assert places.size > 100
    assert not ranking.discrete(spiked, atoms)
    assert ranking.discrete(points, points.support_)
    assert not ranking.discrete(points, points.support_[:-1])
    assert not ranking.discrete(points, points.support_[1:])


def test_ranks_of_rows_and_places_of_expected_ranks():
    values = np.array([[3.0, 1.0, 2.0, 1.0], [5.0, np.nan, 1.0, 2.0]])
    found = ranking.ranks_of(values)
    assert found[0].tolist() == [4.0, 1.5, 3.0, 1.5]
    assert np.isnan(found[1]).all()
    assert ranking.places(np.array([2.0, 1.0, 2.0 + 1e-11, 4.0])).tolist() == [2.5, 1.0, 2.5, 4.0]
    assert ranking.places(np.array([2.0, 1.0, 2.0 + 4e-10, 4.0])).tolist() == [2.5, 1.0, 2.5, 4.0]
    assert ranking.places(np.array([2.0, 1.0, 2.0 + 1e-8, 4.0])).tolist() == [2.0, 1.0, 3.0, 4.0]


def test_ranks_are_counted_in_the_draws_they_name():
    model = known()
    found = ranking.rank(model, level=0.8, first=2, draws=300, seed=7)
    counted = np.concatenate([stats.rankdata(-some, axis=1) for some in blocks(model, 300, 7)])
    assert found.draws == 300
    np.testing.assert_allclose(found.top, (counted <= 2).mean(axis=0))
    low, high = np.quantile(counted, [0.1, 0.9], axis=0, method="inverted_cdf")
    assert (found.low.tolist(), found.high.tolist()) == (low.tolist(), high.tolist())
    np.testing.assert_allclose(found.percentile, (6 - found.expected) / 5)
    assert (found.level, found.first, found.method) == (0.8, 2, "posterior")
    assert ranking.rank(model).draws == 10_000
    assert ranking.rank(model, draws=2, first=6, seed=0).top.tolist() == [1.0] * 6  # as few and as many as can be
    for wrong, says in (({"draws": 1}, "draws"), ({"first": 0}, "first"), ({"first": 7}, "first"), ({"seed": -1}, "seed")):
        with pytest.raises(ValueError, match=says):
            ranking.rank(model, **wrong)
    assert ranking.rank(model).first == 1
    assert ranking.rank(model).level == 0.95
    np.testing.assert_array_equal(ranking.rank(model).low, ranking.rank(model, seed=0, largest_first=True).low)
    rows = [[[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]]] * 3
    lines = LinearClients(sigma2=1.0).fit(rows, [[0.0, 1.0, 2.0], [5.0, 6.0, 7.0], [1.0, 1.0, 3.0]])
    both = ranking.rank(lines, draws=500)
    counted = np.concatenate([stats.rankdata(-some, axis=1) for some in blocks(lines, 500, 0)])
    assert both.expected.shape == (3, 2)
    if (both.standard_error > 0).any():
        np.testing.assert_allclose(both.standard_error, counted.std(axis=0, ddof=1) / np.sqrt(500), rtol=1e-4)
        np.testing.assert_allclose(both.expected, counted.mean(axis=0), rtol=1e-6)
    else:
        np.testing.assert_allclose(both.expected, counted.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(both.top, (counted <= 1).mean(axis=0))
    assert both.place[:, 1].tolist() != [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="of one number per client"):
        both.first_set()
    order = found.first_set().tolist()
    assert order == sorted(range(6), key=lambda i: (-found.top[i], found.expected[i]))[:2]


def test_expected_ranks_of_few_clients_have_no_error_of_draws(monkeypatch):
    """Of clients who depend on each other, by what is learnt of all, so many are counted in pairs, and more are drawn."""
    model = GaussianMeans().fit(Y, V)
    assert not model.independent
    for few, drawn in ((6, False), (5, True)):
        monkeypatch.setattr(ranking, "FEW", few)
        found = ranking.rank(model, draws=500, seed=2**63)
        assert ((found.standard_error > 0) == drawn).all()
    counted = np.concatenate([stats.rankdata(-some, axis=1) for some in blocks(model, 500, 2**63)])
    np.testing.assert_allclose(found.expected, counted.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.standard_error, counted.std(axis=0, ddof=1) / np.sqrt(500), rtol=1e-6)
    assert (pairwise(model, seed=2**63) != pairwise(model)).any()
    for call in (ranking.rank, pairwise):
        with pytest.raises(ValueError, match="seed must be in"):
            call(model, draws=2, seed=2**63 + 1)


def test_draws_are_fewer_where_clients_have_several_numbers(monkeypatch):
    monkeypatch.setattr(ranking, "WORK", 6 * 700 + 5)
    rows = [[[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]]] * 3
    lines = LinearClients(sigma2=1.0).fit(rows, [[0.0, 1.0, 2.0], [5.0, 6.0, 7.0], [1.0, 1.0, 3.0]])
    assert ranking.rank(lines).draws == 700


def test_equal_clients_are_as_often_before_as_behind_each_other():
    """Of these laws three in ten thousand lie beyond the places where they are looked at, and nothing is lost."""
    silent = GammaPoisson("fixed", shape=0.5, rate=0.5).fit([0, 0, 0], [0.0, 0.0, 0.0])
    places, _ = ranking.integration_points(silent)
    assert 1 - silent.posterior_cdf(float(places[-1]))[0] > 1e-4
    np.testing.assert_allclose(ranking.expected_below(silent), 1.0, rtol=1e-12)
    np.testing.assert_allclose(pairwise(silent), 0.5, rtol=1e-12)


def test_pairs_of_clients_at_zero_and_one():
    """One is at 0, one at 1, and of a third either is as likely: ties count half."""
    model = BetaBinomial("marginal-likelihood").fit([0, 4, 0], [3, 4, 0])
    np.testing.assert_allclose(pairwise(model), [[0.5, 0, 0.25], [1, 0.5, 0.75], [0.75, 0.25, 0.5]], atol=1e-15)
    np.testing.assert_allclose(ranking.expected_below(model), [0.25, 1.75, 1.0], rtol=1e-14)


def test_clients_who_are_surely_apart_have_whole_ranks():
    apart = BetaBinomial("fixed", alpha=1, beta=1).fit([0, 10**4, 2 * 10**4], 2 * 10**4)
    for found in (ranking.expected_below(apart), pairwise(apart)):
        assert found.min() == 0
        assert found.max() == (2 if found.ndim == 1 else 1)


def test_pairs_in_parts_are_pairs_at_once(monkeypatch):
    whole = ranking.pair_sums(known())
    np.testing.assert_allclose(whole, pairwise(known()).sum(axis=1) - 0.5, rtol=1e-12)
    monkeypatch.setattr(ranking, "ROWS", 12)
    np.testing.assert_allclose(ranking.pair_sums(known()), whole, rtol=1e-14)
    some = pairwise(known(), [4, 0, 2])
    np.testing.assert_allclose(some, pairwise(known())[np.ix_([4, 0, 2], [4, 0, 2])])
    assert ranking.pair_sums(BetaBinomial("fixed", alpha=1, beta=1).fit([0, 2], 2)) is None
    low, high = ranking.simultaneous_ranks(Y * 3, V)
    monkeypatch.setattr(ranking, "ROWS", 1)
    again = ranking.simultaneous_ranks(Y * 3, V)
    assert (low.tolist(), high.tolist()) == (again[0].tolist(), again[1].tolist())


def test_pairs_of_some_clients_by_each_way(monkeypatch):
    """In the order asked for: by integrals of SciPy's laws where clients are independent, else as often as in the draws."""
    from scipy.integrate import quad

    laws = [stats.beta(1 + x, 2 + n - x) for x, n in ((0, 3), (1, 10), (5, 10), (9, 11), (3, 40))]
    shares = BetaBinomial("fixed", alpha=1, beta=2).fit([0, 1, 5, 9, 3], [3, 10, 10, 11, 40])
    found = pairwise(shares, [4, 0, 3])
    for row, i in enumerate((4, 0, 3)):
        for column, j in enumerate((4, 0, 3)):
            exact = quad(lambda t, i=i, j=j: laws[i].pdf(t) * laws[j].cdf(t), 0, 1, epsabs=1e-10)[0]
            assert found[row, column] == pytest.approx(exact, abs=2e-6)
    learnt = GaussianMeans().fit(Y, V)
    closed = pairwise(learnt, [5, 1])
    monkeypatch.setattr(ranking, "FEW", 6)
    assert np.array_equal(pairwise(learnt, [5, 1]), closed)
    monkeypatch.setattr(ranking, "FEW", 5)
    some = np.concatenate(list(blocks(learnt, 4000, 0)))[:, [5, 1]]
    above = (some[:, :, None] > some[:, None]).mean(axis=0)
    np.testing.assert_allclose(pairwise(learnt, [5, 1]), np.where(np.eye(2) > 0, 0.5, above), rtol=1e-12)
    monkeypatch.setattr(ranking, "MOST_PAIRS", 3)
    assert pairwise(shares, [4, 0, 3]).shape == (3, 3)
    with pytest.raises(ValueError, match="at most 3, got 4"):
        pairwise(shares, [0, 1, 2, 3])
    for wrong in ([], [5], [[0, 1]]):
        with pytest.raises(ValueError, match=r"clients must be positions of clients, whole numbers in 0\.\.4"):
            pairwise(shares, wrong)


def test_sets_of_ranks_are_those_of_sure_differences():
    y, v, level = np.array([0.0, 3.0, 3.2, 9.0, 14.0]), np.array([1.0, 0.5, 2.0, 1.0, 4.0]), 0.9
    needed = stats.studentized_range.ppf(level, 5, np.inf) / np.sqrt(2)
    sure = np.abs(y[:, None] - y) > needed * np.sqrt(v[:, None] + v)
    above = (sure & (y > y[:, None])).sum(axis=1)
    under = (sure & (y < y[:, None])).sum(axis=1)
    low, high = ranking.simultaneous_ranks(y, v, level)
    assert low.tolist() == (1 + above).tolist()
    assert high.tolist() == (5 - under).tolist()
    low, high = ranking.simultaneous_ranks(y, v, level, largest_first=False)
    assert low.tolist() == (1 + under).tolist()
    assert high.tolist() == (5 - above).tolist()
    assert ranking.simultaneous_ranks([0.0, 1.0], [1.0, 1.0])[0].tolist() == [1.0, 1.0]
    for unit in (1e-6, 1e6):  # in other units the same differences are sure
        low, high = ranking.simultaneous_ranks(unit * y, unit**2 * v, level)
        assert (low.tolist(), high.tolist()) == ((1 + above).tolist(), (5 - under).tolist())
    for wrong in (([1.0], [1.0]), ([1.0, 2.0], [1.0, 1.0, 1.0]), ([[1.0, 2.0]], [1.0])):
        with pytest.raises(ValueError, match="at least two clients"):
            ranking.simultaneous_ranks(*wrong)


@pytest.mark.parametrize(("m", "level"), [(2, 0.5), (3, 0.95), (40, 0.99)])
def test_the_range_of_normal_numbers_by_another_integral(m, level):
    from scipy.integrate import quad

    r = ranking.range_quantile(m, level)
    found = quad(lambda x: m * stats.norm.pdf(x) * (stats.norm.cdf(x + r) - stats.norm.cdf(x)) ** (m - 1), -12, 12)[0]
    assert found == pytest.approx(level, abs=1e-9)


class Counting:
    """A model that notes how its draws are asked for."""

    posterior_mean_ = np.zeros(7)

    def sample_posterior(self, generator, size):
        return np.full((size, 7), generator.integers(1 << 40))


def test_draws_come_by_blocks_with_streams_of_their_own(monkeypatch):
    monkeypatch.setattr("estimators.decisions.posterior.CELLS", 21)
    found = list(blocks(Counting(), 8, 5))
    assert [len(block) for block in found] == [3, 3, 2]
    streams = np.random.SeedSequence(5).spawn(3)
    assert [block[0, 0] for block in found] == [np.random.Generator(np.random.PCG64(s)).integers(1 << 40) for s in streams]
    with pytest.raises(ValueError, match=r"rank needs at least two clients, and the model was fitted to 1"):
        several(GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([1.0], 1.0), "rank")
    assert several(known(), "rank") == 6


# --- lists of the first ----------------------------------------------------


@pytest.mark.parametrize("largest_first", [True, False])
def test_r_values_by_lists_of_every_length(largest_first):
    """For each k: theta with k clients expected beyond it, and the k clients that are likeliest to be."""
    from scipy.optimize import brentq

    model, sign = known(), 1 if largest_first else -1
    law = stats.norm(sign * model.posterior_mean_, model.posterior_sd_)
    exact = np.ones(6)
    for k in range(5, 0, -1):
        theta = brentq(lambda t, k=k: law.sf(t).sum() - k, -30, 30, xtol=1e-13)
        exact[np.argsort(-law.sf(theta))[:k]] = k / 6
    assert r_values(model, largest_first).tolist() == pytest.approx(exact.tolist())
    ends = -20.0, 20.0
    for wanted in (0.7, 3.0):
        t = extremes.threshold(model, wanted, ends, largest_first)
        assert law.sf(sign * t).sum() == pytest.approx(wanted, abs=1e-8)
        np.testing.assert_allclose(extremes.chances(model, t, largest_first), law.sf(sign * t), rtol=1e-9)


def test_r_values_of_many_clients_try_lists_of_evenly_spaced_lengths(monkeypatch):
    """Of six clients lists of one, four and all: the shortest of these that holds a client."""
    whole = r_values(known())
    monkeypatch.setattr(extremes, "LISTS", 3)
    assert r_values(known()).tolist() == [next(k / 6 for k in (1, 4, 6) if r * 6 <= k + 1e-9) for r in whole]
    monkeypatch.setattr(extremes, "LISTS", 6)
    assert r_values(known()).tolist() == whole.tolist()


def test_r_values_have_no_unit():
    unit = 2.0**-60
    small = GaussianMeans("fixed", mu=0.0, tau2=unit**2).fit(unit * Y, unit**2 * V)
    for largest_first in (True, False):
        assert r_values(small, largest_first).tolist() == r_values(known(), largest_first).tolist()


def test_a_place_is_reached_by_those_who_are_there():
    """One is at 0, one at 1, and of a third either is as likely."""
    model = BetaBinomial("marginal-likelihood").fit([0, 4, 0], [3, 4, 0])
    np.testing.assert_allclose(extremes.chances(model, 1.0, True), [0, 1, 0.5], atol=1e-15)
    np.testing.assert_allclose(extremes.chances(model, 0.0, False), [1, 0, 0.5], atol=1e-15)


def test_r_values_of_equal_clients_and_of_shared_points():
    same = GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([1.0, 1.0, -1.0], 1.0)
    assert r_values(same).tolist() == pytest.approx([1 / 3, 1 / 3, 1.0])
    assert r_values(same, largest_first=False).tolist() == pytest.approx([2 / 3, 2 / 3, 1 / 3])  # ties, by the shorter list
    lines = LinearClients(sigma2=1.0).fit([[[1.0]], [[1.0]]], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="one number per client"):
        r_values(lines)
    with pytest.raises(ValueError, match="pairwise takes models with one number per client"):
        pairwise(lines)


@pytest.mark.parametrize("mu", [0.0, 1.5])
@pytest.mark.parametrize("tau2", [1.0, 0.3])
def test_r_values_under_a_known_prior_by_their_definition(mu, tau2):
    """Least a with V_a(i) >= lambda_a, where the share of all clients with V_a >= lambda_a is a; by scanning a."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    y, v = np.array([2.0, 0.4, -1.0, 2.6]), np.array([1.0, 0.2, 0.5, 3.0])
    w = tau2 / (tau2 + v)
    mean, sd = mu + w * (y - mu), np.sqrt(w * v)

    def gaps(a):  # V_a less lambda_a as normal quantiles
        theta = stats.norm.isf(a, mu, np.sqrt(tau2))
        spread = np.sqrt(tau2 * w)  # of posterior means

        def share(q):
            return np.mean(ndtr((mu - theta - q * sd) / spread)) - a

        return (mean - theta) / sd - brentq(share, -40, 40, xtol=1e-13)

    scan = np.geomspace(1e-4, 0.999, 150)
    table = np.array([gaps(a) for a in scan])
    exact = []
    for i, first in enumerate((table >= 0).argmax(axis=0)):
        exact.append(brentq(lambda a, i=i: gaps(a)[i], scan[first - 1], scan[first], xtol=1e-12))
    np.testing.assert_allclose(normal_r_values(y, v, mu, tau2), exact, rtol=1e-6)
    upper, own, shares = np.array([-1.0, 0.5, 2.0]), np.array([0.3, 0.8]), np.array([0.25, 0.75])
    found = extremes.levels(upper, own, shares)
    reach = (upper[:, None] + found[:, None] * np.sqrt(1 - own)) / np.sqrt(own)
    np.testing.assert_allclose(stats.norm.sf(reach) @ shares, stats.norm.sf(upper), rtol=1e-10)


def test_defaults_and_domains_of_r_values():
    assert np.array_equal(normal_r_values(Y, V), normal_r_values(Y, V, 0.0, 1.0))
    assert normal_r_values([-60.0, 0.0], [0.01, 1.0])[0] == 1.0  # in no list
    for wrong in (([], 1.0), ([[1.0]], 1.0), ([1.0, 2.0], [1.0, 1.0, 2.0])):
        with pytest.raises(ValueError, match="one per client"):
            normal_r_values(*wrong)


# --- discoveries ----------------------------------------------------


def test_averages_of_smaller_errors():
    errors = np.array([[0.4, 0.1], [0.1, 0.0]])
    np.testing.assert_allclose(tail_averages(errors), [[0.15, 0.2 / 3], [0.2 / 3, 0.0]])


def test_calls_and_their_errors_by_hand():
    model = known()
    law = stats.norm(model.posterior_mean_, model.posterior_sd_)
    at, below = 0.3, law.cdf(0.3)
    np.testing.assert_allclose(probabilities(model, at), [below, 1 - below], rtol=1e-10)
    np.testing.assert_allclose(exceedance(model, at), 1 - below, rtol=1e-10)
    for side, error in (("either", np.minimum(below, 1 - below)), ("above", below), ("below", 1 - below)):
        found = discoveries(model, 0.2, at, side)
        np.testing.assert_allclose(found.error, error, rtol=1e-9)
        direction = {"either": np.sign(0.5 - below), "above": np.ones(6), "below": -np.ones(6)}[side]
        assert found.direction.tolist() == direction.tolist()
        assert found.selected.tolist() == (tail_averages(error) <= 0.2).tolist()
        chosen = error[tail_averages(error) <= 0.2]
        assert found.false_rate == pytest.approx(chosen.mean() if chosen.size else 0.0)
        assert (found.at, found.side, found.alpha) == (at, side, 0.2)
    assert (discoveries(model).alpha, discoveries(model).side, discoveries(model).at) == (0.05, "either", 0.0)
    none = discoveries(model, 1e-12)
    assert (none.false_rate, none.selected.any()) == (0.0, False)
    assert reference(GaussianMeans("fixed", mu=1.5, tau2=1.0).fit(Y, V)) == 1.5
    spiked = PointNormalMeans(0.5, prior="marginal-likelihood").fit([0.5, 0.6, 0.4, 6.0], 0.04)
    assert discoveries(spiked, side="differs").at is None
    assert discoveries(spiked, side="differs", at=0.5).at == 0.5
    assert discoveries(spiked).at == pytest.approx(0.5)


class Stated:
    """A model of which nothing but the probabilities to be below anything are known."""

    posterior_mean_ = np.zeros(3)

    def __init__(self, below):
        self.below = np.array(below)

    def require_fit(self):
        pass

    def averaged(self):
        return self

    def posterior_cdf(self, at, strict=False):
        return self.below


def test_a_share_of_wrong_calls_that_meets_its_bound_is_permitted_and_rounding_makes_none_larger_than_one():
    found = discoveries(Stated([0.75, 0.5, 1.0]), 0.25, 0.0, "below")
    assert found.q_value.tolist() == [0.125, 0.25, 0.0]
    assert found.selected.tolist() == [True, True, True]
    beyond = discoveries(Stated([1 + 2**-52, -(2**-52), 0.5]), 0.25, 0.0, "above")
    assert beyond.error.tolist() == [1.0, 0.0, 0.5]


# --- checks of the prior ----------------------------------------------------


def test_a_check_of_the_prior_by_hand():
    model = BetaBinomial("fixed", alpha=2, beta=3).fit([0, 3, 5, 9, 2, 0], [3, 10, 10, 11, 4, 0])
    found = prior_check(model, draws=60, seed=4)
    generator, own = np.random.default_rng(4), model.own_numbers()
    drawn = np.array([model.own_numbers(model.draw(generator)[1]) for _ in range(60)])
    with np.errstate(invalid="ignore"):
        below, ties = (drawn < own).sum(axis=0), (drawn == own).sum(axis=0)
    pit = (below + generator.random(6) * (ties + 1)) / 61
    seen = np.isfinite(own)
    assert seen.tolist() == [True] * 5 + [False]
    np.testing.assert_allclose(found.pit[seen], pit[seen], rtol=1e-12)
    assert np.isnan(found.pit[-1])
    test = stats.kstest(pit[seen], "uniform")
    assert found.statistic == pytest.approx(test.statistic, rel=1e-12)
    assert found.p_value == pytest.approx(test.pvalue, rel=1e-6)
    places = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0]
    assert found.levels.tolist() == places
    np.testing.assert_allclose(found.observed, np.quantile(own[seen], places))
    quantiles = np.quantile(drawn[:, seen], places, axis=1)
    np.testing.assert_allclose([found.low, found.high], np.quantile(quantiles, [0.025, 0.975], axis=1))
    assert found.left_out is False
    assert found.note == "5 clients show gross misfits only"


def test_what_a_check_cannot_say():
    fixed, learnt = known(), GaussianMeans().fit(Y, V)
    assert note(50, True, fixed) == ""
    assert note(49, True, fixed) == "49 clients show gross misfits only"
    assert note(50, True, learnt).startswith("each client is predicted from all other clients, by a prior learnt")
    assert "from all clients, its own data among them, by" in note(50, False, learnt)
    assert note(9, False, learnt).endswith("proves nothing; 9 clients show gross misfits only")
    found = prior_check(known(), draws=30)
    assert found.left_out is True
    np.testing.assert_allclose(found.pit, known().predictive_ranks())
    assert np.array_equal(prior_check(known(), draws=30, seed=0).low, found.low)
    both = prior_check(GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([1.0, -2.0], 1.0), draws=5)  # as few as can be
    assert both.statistic == pytest.approx(stats.kstest(stats.norm.cdf([1.0, -2.0], 0, np.sqrt(2)), "uniform").statistic)
    with pytest.raises(ValueError, match="at least two clients with data"):
        prior_check(GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([1.0, 2.0], [1.0, np.inf]), draws=5)


def test_fewest_and_most_draws_of_checks(monkeypatch):
    calls = []
    model = known()
    monkeypatch.setattr(model, "draw", lambda g: calls.append(1) or (Y, (Y + g.normal(size=6), V)))
    prior_check(model)
    assert len(calls) == 999
    monkeypatch.setattr("estimators.decisions.checking.WORK", 6 * 150)
    prior_check(model)
    assert len(calls) == 999 + 150
    monkeypatch.setattr("estimators.decisions.checking.WORK", 6)
    prior_check(model)
    assert len(calls) == 999 + 150 + 99
