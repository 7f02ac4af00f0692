"""The grid behind exact posteriors as a whole, on normal reports with a known answer: blocks, windows, laws, ranges."""

import numpy as np
import pytest
from scipy import stats

from estimators.accounting import Guarantee
from estimators.private import MeanReport, PrivateGaussianMeans, PrivateRates, RateReport, posterior
from estimators.private.mean_posterior import TruncatedNormals
from estimators.private.posterior import (
    GridLaws,
    Hyperposterior,
    Nodes,
    Places,
    Ranges,
    Table,
    distinct,
    first_ranges,
    fit,
    located,
    node_intervals,
)
from estimators.private.rate_posterior import Betas, RateClients

RNG = np.random.default_rng
LOW, HIGH = -1.0, 3.0
SENT = Guarantee(np.inf, 0.0, "row", "client", "none")  # as the clients have it
T = LOW + (np.arange(40_000) + 0.5) * (HIGH - LOW) / 40_000


class NormalReports:
    """Reports y with normal errors of deviations s, some of them sent by several clients."""

    def __init__(self, y, s, count=None, kind=None):
        self.y, self.s = np.array(y, float), np.array(s, float)
        self.count = np.ones(self.y.size, int) if count is None else np.array(count)
        self.kind = np.zeros(self.y.size, int) if kind is None else np.array(kind)
        self.centre, self.spread, self.error, self.feature = self.y, self.s, self.s, self.s / 2
        self.low, self.high = self.y - 8 * self.s, self.y + 8 * self.s
        self.slope = np.full(self.y.size, np.inf)

    def log_likelihood(self, rows, below, above):
        return stats.norm.logpdf(self.y[rows, None], LOW + below, self.s[rows, None])


REPORTS = NormalReports([0.2, -1.4, 2.9, 1.1, 0.6], [0.5, 0.3, 0.9, 0.08, 3.0], [1, 2, 1, 3, 1], [0, 1, 0, 0, 1])
NODES = Nodes(np.array([0.5, 1.2, 0.8]), np.array([0.4, 1.5, 0.1]), np.array([0.3, 0.6, 0.1]))
WIDE = Ranges(0.1, 0.0, float(np.arcsinh(20.0)), np.array([0.0, 3.7]), np.full(2, LOW), np.full(2, HIGH))


def exact(reports, nodes):
    """Each report's marginal density at every node, and its posterior's probabilities on T, by midpoints."""
    a, b = ((end - nodes.centre) / nodes.spread for end in (LOW, HIGH))
    prior = stats.truncnorm.pdf(T[:, None], a, b, nodes.centre, nodes.spread) * (HIGH - LOW) / T.size
    likelihood = stats.norm.pdf(reports.y[:, None], T, reports.s[:, None])
    marginal = likelihood @ prior
    return marginal, likelihood * ((nodes.weight / marginal) @ prior.T)


@pytest.fixture(scope="module")
def table():
    return Table(REPORTS, np.arange(5), TruncatedNormals(LOW, HIGH), WIDE)


def test_marginals_of_all_reports_at_every_node(table):
    marginal, _ = exact(REPORTS, NODES)
    np.testing.assert_allclose(table.log_marginals(NODES), REPORTS.count @ np.log(marginal), atol=2e-3)
    assert sorted(row for block in table.blocks for row in block.rows.tolist()) == [0, 1, 2, 3, 4]
    for block in table.blocks:
        assert len(set(REPORTS.kind[block.rows].tolist())) <= 2
        np.testing.assert_array_equal(block.clients, REPORTS.count[block.rows])
        assert block.likelihood.max(axis=1) == pytest.approx(1.0)
        below, above, _ = block.window.places.at(np.arange(block.window.start, block.window.stop))
        log = REPORTS.log_likelihood(block.rows, below, above)
        np.testing.assert_allclose(block.largest, log.max(axis=1))
        step = block.window.places.step
        assert step <= 0.5 * REPORTS.feature[block.rows].min() * (1 + 1e-12)  # half of what it must resolve


def test_laws_are_mixtures_over_the_nodes(table):
    whose = np.array([3, 0, 1, 2, 4, 0])
    laws = table.laws(NODES, whose)
    _, density = exact(REPORTS, NODES)
    np.testing.assert_allclose(density.sum(axis=1), 1.0, rtol=1e-6)
    mean = density @ T
    sd = np.sqrt(density @ T**2 - mean**2)
    np.testing.assert_allclose(laws.mean(), mean[whose], atol=1e-3 * sd.min())
    np.testing.assert_allclose(laws.sd(), sd[whose], rtol=2e-3)
    below = np.cumsum(density, axis=1)
    for t in (-0.999, -0.95, -0.3, 0.4, 1.1, 2.2, 2.95):
        at = np.array([np.interp(t, T + 0.5 * (T[1] - T[0]), row) for row in below])
        np.testing.assert_allclose(laws.cdf(t), at[whose], atol=2e-3)
    for q in (1e-4, 0.02, 0.3, 0.5, 0.8, 0.999):
        ends = laws.quantile(q)
        reached = [np.interp(end, T + 0.5 * (T[1] - T[0]), below[i]) for end, i in zip(ends, whose, strict=True)]
        np.testing.assert_allclose(reached, q, atol=2e-3)
        np.testing.assert_allclose([laws.cdf(float(end))[i] for i, end in enumerate(ends)], q, atol=1e-9)
    assert laws.quantile(0.0).tolist() == [LOW] * 6
    assert laws.quantile(1.0).tolist() == [HIGH] * 6
    for t, value in ((LOW, 0.0), (LOW - 1, 0.0), (HIGH, 1.0), (HIGH + 1, 1.0)):
        assert laws.cdf(t).tolist() == [value] * 6
    assert laws.width == 4.0


def test_laws_beyond_the_first_place_go_on_to_the_ends(table):
    """Of a density that is finite at the bound, probability is proportional to the distance there."""
    laws = table.laws(NODES, np.arange(5))
    _, density = exact(REPORTS, NODES)
    at_low, at_high = density[:, 0] / (T[1] - T[0]), density[:, -1] / (T[1] - T[0])
    for distance in (1e-4, 1e-7, 1e-12):
        np.testing.assert_allclose(laws.cdf(LOW + distance) / distance, at_low, rtol=0.03, atol=1e-5)
    likely = np.flatnonzero(at_high > 1e-3)
    np.testing.assert_allclose((1 - laws.cdf(HIGH - 1e-4))[likely] / 1e-4, at_high[likely], rtol=0.03)
    for q in (1e-9, 1e-6):
        found = laws.quantile(q) - LOW
        np.testing.assert_allclose(found[1] * at_low[1], q, rtol=0.03)
        assert HIGH - laws.quantile(1 - q)[2] == pytest.approx(q / at_high[2], rel=0.03)


def test_far_below_the_first_place_the_node_of_the_least_power_is_all():
    """Beta laws of rates, the second with 1e-12 of what is below the first place: against sums of SciPy's laws."""
    clients = RateClients([RateReport("", 6, SENT, "ones", 6, 0.0, 0.0)], np.ones(1, int))
    at = np.array([0.0, float(np.arcsinh(1.0))])
    table = Table(clients, np.arange(1), Betas(), Ranges(0.9, 0.0, at[1], at, np.full(2, 0.5), np.full(2, 2.5)))
    centre, spread = np.array([1.5, 1.2]), np.array([0.4, 0.95])
    a, b = Betas.shapes(centre, spread)
    places = table.blocks[0].window.places
    first = float(Betas().value(*places.at(np.zeros(1))[:2])[0])
    held = stats.beta.cdf(first, a, b + 6)
    weight = np.array([1.0, 1e-12 * held[0] / held[1]])
    laws = table.laws(Nodes(centre, spread, weight), np.arange(1))
    for t in (first / 1e3, 1e-30, 1e-60):
        assert laws.cdf(t)[0] == pytest.approx(weight @ stats.beta.cdf(t, a, b + 6), rel=2e-3)


def test_draws_are_joint_and_have_the_laws(table):
    whose = np.array([0, 2, 0, 4])
    apart = Nodes(np.array([-0.5, 2.0]), np.array([0.4, 0.5]), np.array([0.4, 0.6]))
    laws = table.laws(apart, whose)
    draws = laws.draw(RNG(1), 1500)
    assert draws.shape == (1500, 4)
    assert ((draws >= LOW) & (draws <= HIGH)).all()
    for i in range(4):
        grid = np.sort(draws[:, i])
        levels = np.array([laws.cdf(float(t))[i] for t in grid[::25]])
        assert np.abs(levels - np.arange(1500)[::25] / 1500).max() < 1.95 / np.sqrt(1500)  # Kolmogorov's, at 1e-3
    # given the node truths are independent, so what links them is the mean of each node
    means = np.empty((2, 5))
    for k in range(2):
        one = Nodes(apart.centre[k : k + 1], apart.spread[k : k + 1], np.ones(1))
        means[k] = exact(REPORTS, one)[1] @ T
    middle = apart.weight @ means
    linked = (apart.weight * (means[:, 0] - middle[0])) @ (means[:, 4] - middle[4])
    sd = laws.sd()
    found = np.cov(draws[:, 0], draws[:, 3])[0, 1]
    assert abs(found - linked) < 5 * sd[0] * sd[3] / np.sqrt(1500)
    assert linked > 5 * sd[0] * sd[3] / np.sqrt(1500)


def test_draws_are_the_same_bits_however_many_are_made_at_once(table, monkeypatch):
    laws = table.laws(NODES, np.array([0, 2, 0, 4]))
    drawn = laws.draw(RNG(1), 40)
    for size in (1, 700):
        monkeypatch.setattr(posterior, "AT_ONCE", size)
        np.testing.assert_array_equal(laws.draw(RNG(1), 40), drawn)


def test_windows_hold_the_reports_and_what_is_near_of_the_prior():
    """A prior within 0.5 +- 8 x 0.01: of a report that may be there, that much; of one to its left, all between."""
    family = TruncatedNormals(LOW, HIGH)
    ranges = near_a_centre(0.5)
    reports = NormalReports([0.51, 0.1, 2.9, 0.45], [0.2, 0.01, 0.01, 0.004])
    made = Table(reports, np.arange(4), family, ranges)
    assert made.near == (pytest.approx(0.42), pytest.approx(0.58))
    places = Places(LOW, HIGH, 0.002, 9.0)
    starts, stops = made.windows(reports, np.arange(4), places)
    values = family.value(*places.at(np.arange(places.size))[:2])
    # on each side three places more than are needed, and up to two for rounding
    for row, (left, right) in enumerate([(0.42, 0.58), (0.02, 0.42), (0.58, 2.98), (0.42, 0.482)]):
        assert np.sum(values[starts[row] : stops[row]] < left) in (3, 4, 5)
        assert np.sum(values[starts[row] : stops[row]] > right) in (3, 4, 5)
    wide = Table(reports, np.arange(4), family, WIDE)
    assert wide.near == (LOW, HIGH)
    starts, stops = wide.windows(NormalReports([-0.9, 2.9], [0.3, 0.3]), np.arange(2), places)
    assert starts[0] == 0
    assert stops[1] == places.size
    assert stops[0] < places.size
    assert starts[1] > 0


def near_a_centre(centre, widest=0.01):
    """Ranges of priors within eight of the widest deviations of one centre."""
    return Ranges(widest, 0.0, float(np.arcsinh(1.0)), np.array([0.0, 1.0]), np.full(2, centre), np.full(2, centre))


def test_no_places_are_finer_than_a_part_in_a_thousand_million_of_the_bounds_for_a_prior():
    """A quarter of the widest spread; below 4e-9 of it no place is finer, wherever the bounds lie."""
    for low, high in ((LOW, HIGH), (-HIGH, -LOW), (5.0, 9.0)):
        middle = (low + high) / 2
        reports = NormalReports([middle], [1e-7])
        for widest, feature in ((6e-8, 1.5e-8), (1e-8, 4e-9), (1e-12, 4e-9)):
            (block,) = Table(reports, np.arange(1), TruncatedNormals(low, high), near_a_centre(middle, widest)).blocks
            assert block.window.places.step == pytest.approx(posterior.FINE * feature, rel=1e-2)


def test_a_client_is_apart_from_the_priors_where_its_density_in_their_middle_is_below_exp_of_minus_twenty():
    """Middle 0.5: of errors 0.055 and 0.08 that is 7.3 and 5 of them; a slope of 30 falls by 12 over 0.4 at most."""
    family, places = TruncatedNormals(LOW, HIGH), Places(LOW, HIGH, 0.002, 9.0)
    reports = NormalReports([0.1, 0.1, 0.1, 0.1, 0.1, 0.9], [0.055, 0.08, 0.03, 0.03, 0.2, 0.2])
    made = Table(reports, np.arange(6), family, near_a_centre(0.5))
    reports.slope = np.array([np.inf, np.inf, 30.0, 60.0, np.inf, np.inf])
    reports.low[2:], reports.high[2:] = -0.9, 1.1
    reports.high[4], reports.low[5] = made.near  # which only touch where priors are
    reports.low[4], reports.high[5] = -0.5, 1.5
    starts, stops = made.windows(reports, np.arange(6), places)
    values = family.value(*places.at(np.arange(places.size))[:2])
    apart, among = (-0.34, 0.54), (0.42, 0.58)
    wanted = [apart, among, among, (-0.9, 1.1), (-0.5, 0.42), (0.58, 1.5)]
    for (left, right), start, stop in zip(wanted, starts, stops, strict=True):
        assert np.sum(values[start:stop] < left) in (3, 4, 5)
        assert np.sum(values[start:stop] > right) in (3, 4, 5)


def test_windows_are_mirrored_with_clients_and_priors_and_never_shorter_than_eight_places():
    family, places = TruncatedNormals(LOW, HIGH), Places(LOW, HIGH, 0.0217, 9.0)
    y = np.array([-4.9, -1.3, -0.99, -0.81, -0.47, 0.33, 1.9, 2.98])
    s = np.array([0.01, 0.013, 0.02, 0.015, 0.03, 0.017, 0.08, 0.021])
    for centre in (-1.0, -0.5, 0.2):
        ends = []
        for x, middle in ((y, centre), (2.0 - y, 2.0 - centre)):
            reports = NormalReports(x, s)
            made = Table(reports, np.arange(8), family, near_a_centre(middle))
            ends.append(made.windows(reports, np.arange(8), places))
        (starts, stops), (starts_back, stops_back) = ends
        assert (places.size - stops_back).tolist() == starts.tolist()
        assert (places.size - starts_back).tolist() == stops.tolist()
        assert (stops - starts).min() >= 8
        values = family.value(*places.at(np.arange(places.size))[:2])
        inner = (y > -0.9) & (y < centre - 0.2)  # all of them to the left of the priors: where they are is within
        for k in np.flatnonzero(inner):
            assert values[starts[k]] < y[k] - 6 * s[k]
            assert values[stops[k] - 1] > centre - 0.08


def test_windows_of_reports_beyond_an_end_are_the_last_eight_places():
    family, places = TruncatedNormals(LOW, HIGH), Places(LOW, HIGH, 0.02, 9.0)
    for y, centre, ends in ((3.4, HIGH, (places.size - 8, places.size)), (-1.4, LOW, (0, 8))):
        reports = NormalReports([y], [0.01])
        starts, stops = Table(reports, np.arange(1), family, near_a_centre(centre)).windows(reports, np.arange(1), places)
        assert (starts[0], stops[0]) == ends


@pytest.mark.parametrize(("unit", "step"), [(0.4, 0.05), (0.01, 0.00125), (1e-15, 2e-9)])
def test_steps_resolve_a_quarter_of_the_widest_prior_down_to_a_billionth_of_the_bounds(unit, step):
    """Half of it, of which reports need no more than half of 0.1."""
    at = np.array([0.0, float(np.arcsinh(1.0))])
    reports = NormalReports([0.6], [0.2])
    (block,) = Table(
        reports, np.arange(1), TruncatedNormals(LOW, HIGH), Ranges(unit, 0.0, at[1], at, *[np.full(2, 0.5)] * 2)
    ).blocks
    assert block.window.places.step == pytest.approx(step, rel=0.01)


def test_runs_of_clients_end_after_512():
    found = sorted(posterior.cut(np.zeros(1200, int), np.full(1200, 10)))
    assert found == [(0, 512), (512, 1024), (1024, 1200)]
    for gap, runs in ((84, [(0, 2)]), (85, [(0, 1), (1, 2)])):  # together 64 and two lengths of ten
        starts = np.array([0, gap - 10])
        assert sorted(posterior.cut(starts, starts + 10)) == runs
        assert sorted(posterior.cut(starts + 1000, starts + 1010)) == runs  # wherever in the grid


def test_first_ranges_are_those_of_weighted_means():
    reports = NormalReports([0.2, 1.4, 2.0], [0.5, 1.0, 0.2], [1, 2, 13])
    ranges = first_ranges(reports, np.arange(3), TruncatedNormals(LOW, HIGH))
    assert ranges.unit == pytest.approx(0.5 / 16**0.25)  # the median error, of sixteen clients
    assert (ranges.low, ranges.high) == (0.0, pytest.approx(np.arcsinh(2.0 / ranges.unit)))
    assert (ranges.at.size, ranges.at[0], ranges.at[-1]) == (32, 0.0, ranges.high)
    for k in (0, 9, 31):
        tau = ranges.unit * np.sinh(ranges.at[k])
        precision = reports.count / (tau**2 + reports.s**2)
        centre, reach = precision @ reports.y / precision.sum(), 8 / np.sqrt(precision.sum())
        assert ranges.centre_low[k] == pytest.approx(max(centre - reach, LOW))
        assert ranges.centre_high[k] == pytest.approx(min(centre + reach, HIGH))
    some = first_ranges(reports, np.array([1]), TruncatedNormals(LOW, HIGH))
    assert some.unit == pytest.approx(1.0 / 2**0.25)
    loose = first_ranges(NormalReports([0.0], [50.0]), np.array([0]), TruncatedNormals(LOW, HIGH))
    assert loose.unit == 2.0  # never above the widest spread


def dense_hyperposterior(reports, cells=240):
    """Centres and spreads on a grid with the probabilities of both given all reports, and the evidence."""
    centre, tau = (
        x.ravel() for x in np.meshgrid(LOW + (np.arange(cells) + 0.5) * 4 / cells, (np.arange(cells) + 0.5) * 2 / cells)
    )
    t = LOW + (np.arange(800) + 0.5) * 4 / 800
    prior = np.exp(-(((t[:, None] - centre) / tau) ** 2) / 2)
    prior /= prior.sum(axis=0)
    log = reports.count @ np.log(stats.norm.pdf(reports.y[:, None], t, reports.s[:, None]) @ prior)
    weight = np.exp(log - log.max())
    return centre, tau, weight / weight.sum(), log.max() + np.log(weight.mean())


def test_fits_find_the_hyperposterior_its_evidence_and_its_intervals():
    reports = NormalReports([0.2, 1.4, 2.0, -0.4, 0.9, 0.7], [0.5, 0.6, 0.4, 0.5, 0.3, 0.8], [1, 2, 1, 1, 2, 1])
    family = TruncatedNormals(LOW, HIGH)
    found = fit(reports, family, np.array([0, 1, 1, 2, 3, 4, 4, 5]))
    centre, tau, weight, evidence = dense_hyperposterior(reports)
    assert found.evidence == pytest.approx(evidence, abs=5e-3)
    assert found.nodes.weight.sum() == pytest.approx(1.0)
    for values, told in ((centre, found.nodes.centre), (tau, found.nodes.spread)):
        mean = weight @ values
        sd = np.sqrt(weight @ (values - mean) ** 2)
        assert found.nodes.weight @ told == pytest.approx(mean, abs=0.01 * sd)
        assert np.sqrt(found.nodes.weight @ (told - mean) ** 2) == pytest.approx(sd, rel=0.01)
    assert isinstance(found.laws, GridLaws)
    assert found.laws.mean().size == 8
    mean, variance = family.moments(centre, tau)
    for level in (0.5, 0.9):
        said = node_intervals(family, found.hyperposterior, level)
        for name, values in (("mean", mean), ("sd", np.sqrt(variance))):
            order = np.argsort(values)
            below = np.cumsum(weight[order])
            for end, q in zip(said[name], ((1 - level) / 2, (1 + level) / 2), strict=True):
                assert np.interp(end, values[order], below) == pytest.approx(q, abs=0.01)


def test_some_clients_locate_the_ranges_and_all_of_them_confirm(monkeypatch):
    reports = NormalReports([0.2, 1.4, 2.0, -0.4, 0.9, 0.7, 0.8], [0.5, 0.6, 0.4, 0.5, 0.3, 0.8, 0.1])
    family, asked, first = TruncatedNormals(LOW, HIGH), [], posterior.first_ranges
    monkeypatch.setattr(posterior, "first_ranges", lambda *each: asked.append(each[1].tolist()) or first(*each))
    whole = fit(reports, family, np.arange(7))
    monkeypatch.setattr(posterior, "LEARNERS", 3)
    few = fit(reports, family, np.arange(7))
    assert asked == [[3, 0, 5, 6, 4, 1, 2], [3, 6, 2]]  # in the order of their estimates, every third
    np.testing.assert_allclose(few.laws.mean(), whole.laws.mean(), atol=1e-3)
    assert few.evidence == pytest.approx(whole.evidence, abs=2e-3)


def test_a_range_of_spreads_is_open_where_their_density_has_fallen_by_less_than_nine():
    """Started with ends at which it has fallen by some 6: the range grows until it has by 9, or spreads end."""
    reports = NormalReports([0.2, 1.4, 2.0, -0.4, 0.9, 0.7] * 3, [0.05] * 18)
    family, unit = TruncatedNormals(LOW, HIGH), 0.05
    top = float(np.arcsinh(2 / unit))
    wide = Ranges(unit, 0.0, top, np.array([0.0, top]), np.full(2, LOW), np.full(2, HIGH))
    table = Table(reports, np.arange(18), family, wide)
    (x, _), (_, wy) = posterior.legendre(24), posterior.legendre(40)

    def fallen(hyper):
        ranges = hyper.ranges
        at = ranges.low + (ranges.high - ranges.low) * x
        low, high = ranges.between(at)
        here = np.log(np.exp(hyper.log - hyper.log.max()) @ wy * (high - low) * np.cosh(at))
        return here.max() - here, at

    fall, at = fallen(located(table, wide)[0])
    left, right = (
        np.interp(6.0, fall[::-1][-fall.argmin() - 1 :], at[::-1][-fall.argmin() - 1 :]),
        np.interp(6.0, fall[fall.argmin() :], at[fall.argmin() :]),
    )
    begun = Ranges(unit, float(left), float(right), np.array([left, right]), np.full(2, LOW), np.full(2, HIGH))
    found, _, _ = located(table, begun)
    fall, _ = fallen(found)
    assert found.settled
    assert found.ranges.low == 0 or fall[0] > 9
    assert found.ranges.high == top or fall[-1] > 9


def test_ranges_shrink_and_grow_to_where_nodes_matter():
    """From ranges far too wide, too narrow, or to one side, the search ends at the same integral."""
    reports = NormalReports([0.2, 1.4, 2.0, -0.4, 0.9, 0.7], [0.5, 0.6, 0.4, 0.5, 0.3, 0.8])
    family = TruncatedNormals(LOW, HIGH)
    unit, top = 0.3, float(np.arcsinh(2 / 0.3))
    starts = [(0.0, top, LOW, HIGH), (0.5, 0.6, 0.8, 0.9), (top - 0.3, top, 2.0, 3.0), (0.0, 0.1, -1.0, -0.8)]
    totals = []
    for low, high, left, right in starts:
        begun = Ranges(unit, low, high, np.array([low, high]), np.full(2, left), np.full(2, right))
        table = Table(
            reports, np.arange(6), family, Ranges(unit, 0.0, top, np.array([0.0, top]), np.full(2, LOW), np.full(2, HIGH))
        )
        _, nodes, log = located(table, begun)
        weight = np.exp(log - log.max())
        totals.append(
            (log.max() + np.log(weight.sum()), weight @ nodes.centre / weight.sum(), weight @ nodes.spread / weight.sum())
        )
        assert nodes.centre.size == 24 * 40
    np.testing.assert_allclose(totals, [totals[0]] * 4, atol=2e-3)
    _, _, _, evidence = dense_hyperposterior(reports)
    assert totals[0][0] == pytest.approx(evidence, abs=5e-3)


def test_many_reports_take_fewer_nodes():
    family = TruncatedNormals(LOW, HIGH)
    for m, nodes in ((200, 24 * 40), (201, 16 * 12)):
        y = 1.0 + 0.3 * stats.norm.ppf((np.arange(m) + 0.5) / m)
        reports = NormalReports(y, np.full(m, 0.4))
        ranges = first_ranges(reports, np.arange(m), family)
        hyper, found, _ = located(Table(reports, np.arange(m), family, ranges), ranges)
        assert found.centre.size == nodes
        assert isinstance(hyper, Hyperposterior)


@pytest.mark.parametrize(
    ("size", "n", "mean", "spread"), [(170_000, 8, 0.97, 0.22), (50_000, 2, 0.1, 0.35), (900_000, 3, 0.97, 0.1)]
)
def test_ranges_are_found_from_a_start_that_is_many_errors_off(size, n, mean, spread):
    """Averages of arcsines of few trials are biased; against sums over SciPy's law of counts, means and spreads uniform."""
    k = np.arange(n + 1)
    means, spreads = mean + np.linspace(-0.04, 0.04, 1601) * spread, spread * np.linspace(0.6, 1.4, 401)
    at, wide = np.meshgrid(means, spreads, indexing="ij")
    rest = wide**-2 - 1
    count = np.rint(size * stats.betabinom.pmf(k, n, mean * (spread**-2 - 1), (1 - mean) * (spread**-2 - 1))).astype(int)
    some = [(RateReport("", n, SENT, "ones", n, float(j), 0.0), c) for j, c in zip(k, count, strict=True) if c]
    found = fit(RateClients([r for r, _ in some], np.array([c for _, c in some])), Betas(), np.arange(len(some)))
    log = sum(c * stats.betabinom.logpmf(j, n, at * rest, (1 - at) * rest) for j, c in zip(k, count, strict=True))
    weight = np.exp(log - log.max())
    cell = (means[1] - means[0]) * (spreads[1] - spreads[0])
    assert found.evidence == pytest.approx(log.max() + np.log(weight.sum() * cell), abs=5e-3)
    weight /= weight.sum()
    said = Betas.moments(found.nodes.centre, found.nodes.spread)[0], found.nodes.spread
    for values, told in zip((at, wide), said, strict=True):
        average = np.sum(weight * values)
        sd = np.sqrt(np.sum(weight * (values - average) ** 2))
        assert found.nodes.weight @ told == pytest.approx(average, abs=0.01 * sd)
        assert np.sqrt(found.nodes.weight @ (told - average) ** 2) == pytest.approx(sd, rel=0.01)


@pytest.mark.parametrize("model", ["rates", "means"])
def test_a_search_that_does_not_settle_says_so(monkeypatch, model):
    reports, fresh = {
        "rates": ([RateReport(f"c{k}", 8, SENT, "ones", 8, float(k), 0.0) for k in range(3, 8)], PrivateRates),
        "means": (
            [MeanReport(f"c{y}", 9, SENT, y, 0.05, 0.0, (-3.0, 5.0)) for y in (0.2, 0.3, 0.5, 0.9)],
            lambda: PrivateGaussianMeans(sigma2=0.1),
        ),
    }[model]
    assert fresh().fit(reports).converged_
    monkeypatch.setattr(posterior, "PASSES", 1)
    with pytest.warns(RuntimeWarning, match="do not use the fit") as caught:
        assert not fresh().fit(reports).converged_
    assert caught[0].filename == __file__  # where the fit was asked for


def test_equal_reports_are_found_once():
    first, whose, count = distinct(["c", "a", "c", "b", "a", "c"])
    assert (first.tolist(), whose.tolist(), count.tolist()) == ([0, 1, 3], [0, 1, 0, 2, 1, 0], [3, 2, 1])
