"""Searches for priors of normal means, number by number: starts, steps by differences, grids of variances, and switches."""

import warnings

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from estimators import GaussianMeans, MixtureMeans, SampleMeans
from estimators.normal_means import mixture_likelihood, point_normal, spike_average, tau2_likelihood
from estimators.normal_means.mixture_likelihood import Data, Prior, split
from estimators.normal_means.point_normal import Likelihood, PointNormalMeans, starting_points, weighted_median
from estimators.normal_means.sample_means import TLikelihood, variance_grid, variance_spans
from estimators.normal_means.tau2_likelihood import MarginalLikelihood, RegressionLikelihood

RNG = np.random.default_rng
Y = np.array([1.3, -0.4, 2.9, 0.2, 4.1, 1.0])
V = np.array([0.7, 1.9, 0.3, 1.1, 2.6, 0.5])


# --- spike and slab ---------------------------------------------------------------------------------------------------


def test_starts_of_a_spike_and_slab():
    """A slab of weight p with the variance of a normal prior over p, and one that reaches the farthest estimate."""
    assert starting_points(0.2, 7.0) == [
        (0.02, 10.0), (0.02, 7.0), (0.2, 1.0), (0.2, 7.0), (0.5, 0.4), (0.5, 7.0), (0.9, 0.2 / 0.9), (0.9, 7.0),
    ]  # fmt: skip
    assert starting_points(3.5, 7.0)[4:5] == [(0.5, 7.0)]
    assert len(starting_points(3.5, 7.0)) == 7  # none twice


@pytest.mark.parametrize("seed", range(5))
def test_medians_of_weighted_values(seed):
    y, w = RNG(seed).normal(size=9), RNG(seed + 50).random(9)
    exact = min(x for x in y if w[y <= x].sum() >= 0.5 * w.sum())
    assert weighted_median(y, w) == exact
    assert weighted_median(np.array([3.0, 1.0, 2.0, 9.0]), np.ones(4)) == 2.0


def sparse(m, seed, share=0.2):
    g = RNG(seed)
    v = np.exp(g.uniform(-1, 1, m))
    return np.where(g.random(m) < share, g.normal(0.0, 3.0, m), 0.0) + np.sqrt(v) * g.standard_normal(m), v


@pytest.mark.parametrize("known", [True, False])
def test_the_search_starts_everywhere_and_keeps_the_best(known, monkeypatch):
    """Three of the likeliest starts are climbed from; the end is the highest of theirs."""
    y, v = sparse(60, 3)
    likelihood, tried, climbed = Likelihood(y, v, known), [], []
    at, climb = likelihood.at, likelihood.climb
    monkeypatch.setattr(likelihood, "at", lambda point: tried.append(point.copy()) or at(point))
    monkeypatch.setattr(likelihood, "climb", lambda point: climbed.append((point.copy(), climb(point))) or climbed[-1][1])
    point, good = likelihood.maximise(1.7)
    assert good
    modes = [0.0] if known else [0.0, weighted_median(y, 1 / v)]
    starts = [
        (np.log(p / (1 - p)), np.log(t), c)
        for p in (0.02, 0.2, 0.5, 0.9) for t in (1.7 / p, np.max(y**2 - v)) for c in modes
    ]  # fmt: skip
    np.testing.assert_allclose(tried[: len(starts)], starts, rtol=1e-12)
    heights = [at(np.array(start))[0] for start in starts]
    best = [starts[k] for k in np.argsort(heights)[-3:]]
    np.testing.assert_allclose([start for start, _ in climbed], best, rtol=1e-12)
    assert at(point)[0] == max(end[1] for _, end in climbed)
    d = likelihood.size
    assert np.abs(at(point)[1]).max() < 1e-3
    assert np.linalg.eigvalsh(at(point)[2]).max() < 0
    assert point[2] == 0.0 or d == 3
    low = Likelihood(y * 1e-3, v, known)
    lowest, at = [], low.at
    monkeypatch.setattr(low, "at", lambda point: lowest.append(point.copy()) or at(point))
    low.maximise(0.0)
    np.testing.assert_allclose(lowest[0][1], np.log(0.1 / 0.02))


def test_of_many_clients_a_sample_is_searched_first(monkeypatch):
    y, v = sparse(5000, 4)
    sizes, climb = [], Likelihood.climb
    monkeypatch.setattr(Likelihood, "climb", lambda self, point: sizes.append(self.y.size) or climb(self, point))
    point, good = Likelihood(y, v, False).maximise(1.7)
    assert sizes == [2048, 2048, 2048, 5000]
    assert good
    exact = Likelihood(y, v, False)
    assert np.abs(exact.at(point)[1]).max() < 0.05
    sizes.clear()
    Likelihood(y[:2048], v[:2048], True).maximise(1.7)
    assert sizes == [2048] * 3
    places = np.linspace(0, 4999, 2048).astype(int)
    seen = []
    monkeypatch.setattr(Likelihood, "climb", lambda self, point: seen.append(self.y) or climb(self, point))
    Likelihood(y, v, True).maximise(1.7)
    np.testing.assert_array_equal(seen[0], y[places])
    assert point_normal.SAMPLE == 2048


def test_climbs_end_where_steps_gain_nothing():
    y, v = sparse(60, 3)
    likelihood = Likelihood(y, v, True)
    point, height, good = likelihood.climb(np.array([0.0, 0.5, 0.0]))
    _, gradient, hessian = likelihood.at(point)
    assert good
    assert gradient @ np.linalg.solve(-hessian, gradient) < 1e-11 * abs(height)
    assert height == likelihood.at(point)[0]
    assert height >= likelihood.at(np.array([0.0, 0.5, 0.0]))[0]
    passes = likelihood.passes
    assert likelihood.climb(point)[2]
    assert likelihood.passes == passes + 1  # which looks once, and sees it
    far, top, _ = likelihood.climb(np.array([-6.0, 8.0, 0.0]))  # uphill from where the height bends upward too
    assert top >= likelihood.at(np.array([-6.0, 8.0, 0.0]))[0]
    assert far[2] == 0.0


class Told(Likelihood):
    """A likelihood of ten clients whose heights are told, with the same derivatives everywhere."""

    def __init__(self, height, slope, bend):
        super().__init__(np.zeros(10), np.ones(10), mode_known=True)
        self.height, self.slope, self.bend, self.looks = height, slope, bend, []

    def at(self, point):
        self.looks.append(float(point[0]))
        return self.height(point[0]), np.array([self.slope, 0.0]), np.diag([self.bend, -1.0])


@pytest.mark.parametrize("slope", [1.0, 0.0])
def test_a_climb_without_end_stops_after_200_steps(slope):
    """Of three each, the longest that are allowed, also where nothing is lost by them."""
    told = Told(lambda a: slope * a, 1.0, -1e-6)
    point, height, good = told.climb(np.zeros(3))
    assert not good
    np.testing.assert_allclose(told.looks, 3.0 * np.arange(201))
    assert (point[0], height) == (pytest.approx(600.0), pytest.approx(600.0 * slope))


@pytest.mark.parametrize(
    ("top", "gain", "looks", "good"),
    [(100.0, 5e-11, 1, True), (0.1, 1.5e-12, 61, True), (100.0, 5e-7, 61, True), (100.0, 1e-4, 61, False),
     (0.1, 1.5e-8, 61, False)],
)  # fmt: skip
def test_a_climb_from_which_all_is_lower_is_good_if_little_was_to_be_gained(top, gain, looks, good):
    told = Told(lambda a: top if a == 0 else top - 1, np.sqrt(gain), -1.0)
    point, height, found = told.climb(np.zeros(3))
    assert (point[0], height, found, len(told.looks)) == (0.0, top, good, looks)
    np.testing.assert_allclose(told.looks[1:3], [np.sqrt(gain), np.sqrt(gain) / 4][: looks - 1])


def test_steps_where_nothing_bends_are_by_a_billionth_of_the_clients():
    told = Told(lambda a: -abs(a), 1e-10, 0.0)
    told.climb(np.zeros(3))
    assert told.looks[1] == pytest.approx(0.01)


def test_steps_of_the_mode_are_up_to_three_sds_of_a_slab_with_noise(monkeypatch):
    likelihood, looks = Likelihood(np.zeros(10), np.ones(10), mode_known=False), []

    def at(point):
        looks.append(point.copy())
        return point[2], np.array([0.0, 0.0, 1.0]), -1e-6 * np.eye(3)

    monkeypatch.setattr(likelihood, "at", at)
    likelihood.climb(np.array([0.0, np.log(8.0), 0.0]))
    np.testing.assert_allclose(looks[:3], [[0.0, np.log(8.0), 9.0 * k] for k in range(3)])


@pytest.mark.parametrize("mode", [None, 0.5])
def test_the_search_starts_from_a_normal_prior_and_counts_its_looks(mode, monkeypatch):
    """In units of the harmonic mean of the variances."""
    y, v = sparse(40, 5)
    told, looks, maximise, at = [], [], Likelihood.maximise, Likelihood.at
    monkeypatch.setattr(Likelihood, "maximise", lambda self, tau2: told.append(tau2) or maximise(self, tau2))
    monkeypatch.setattr(Likelihood, "at", lambda self, point: looks.append(point) or at(self, point))
    model = PointNormalMeans(mode, "marginal-likelihood").fit(3 * y, 9 * v)
    normal = GaussianMeans("marginal-likelihood", mu=mode).fit(3 * y, 9 * v)
    assert told == pytest.approx([normal.tau2_ * np.mean(1 / (9 * v))])
    assert model.n_iter_ == normal.n_iter_ + len(looks)


def test_a_search_that_is_not_enough_warns_at_the_callers_line(monkeypatch):
    monkeypatch.setattr(spike_average, "SAME", 0.0)  # no lattice is enough
    monkeypatch.setattr(spike_average, "MOST", 1)
    y, v = sparse(30, 5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = lambda: PointNormalMeans().fit(y, v)  # noqa: E731
        model = fit()
    assert [(w.category, w.filename, w.lineno) for w in caught] == [(RuntimeWarning, __file__, fit.__code__.co_firstlineno)]
    assert model.converged_ is False


@pytest.mark.parametrize("mode", [None, 0.5])
def test_the_law_of_many_clients_is_normal_from_three_thousand_on(mode):
    y, v = sparse(3000, 6, 0.4)
    many = PointNormalMeans(mode).fit(y, v)
    fewer = PointNormalMeans(mode).fit(y[:-1], v[:-1])
    assert many._nodes.shares.size == 4
    assert fewer._nodes.shares.size > 4
    np.testing.assert_allclose(many.posterior_mean_[:50], fewer.posterior_mean_[:50], atol=0.05)
    assert set(many.prior_interval()) == ({"mean"} if mode is None else set())
    assert "sd" in fewer.prior_interval()


def test_the_scan_goes_over_the_whole_range():
    points = spike_average.scan(Y, V, True, 2.0)
    logs = np.unique([*range(-6, 3), *(np.log(2.0) + k for k in range(-1, 7))])
    assert len(points) == 7 * logs.size
    assert set(points[:, 0]) == {-5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0}
    np.testing.assert_allclose(np.unique(points[:, 1]), logs)
    assert (points[:, 2] == 0).all()
    free = spike_average.scan(Y, V, False, 2.0)
    modes = np.unique(np.append(np.quantile(Y, np.arange(25) / 24), 0.0))
    np.testing.assert_allclose(np.unique(free[:, 2]), modes)
    assert len(free) == 7 * logs.size * modes.size


@pytest.mark.parametrize(
    ("m", "scale", "known"),
    [(12, 1.0, True), (12, 1e-2, False), (12, 60.0, False), (300, 0.3, True), (301, 1.0, True), (301, 1.0, False)],
)
def test_lattices_of_priors_have_steps_of_sds_and_keep_all_but_the_rarest(m, scale, known, monkeypatch):
    """They begin at the top and where the scan is high; without a spike the other parameters stand alone, at even odds."""
    y, v = sparse(m, 3)
    y, v = scale * y * np.sqrt(np.mean(1 / v)), v * np.mean(1 / v)
    asked, grow = [], spike_average.grow
    monkeypatch.setattr(spike_average, "grow", lambda *a: asked.append((*a, *grow(*a))) or asked[-1][-2:])
    likelihood = Likelihood(y, v, known)
    nodes, good = spike_average.average(likelihood, likelihood.maximise(1.0)[0])
    assert good
    height, top, steps, seeds, depth, most, index, found = asked[0]
    d, whole = 2 if known else 3, lambda x: np.column_stack([x, np.zeros((len(x), 3 - x.shape[1]))])
    np.testing.assert_allclose(height(top + np.eye(d)), spike_average.heights(y, v, whole(top + np.eye(d))), rtol=1e-12)
    h = 1e-3
    ends = [height(top + sign * h * np.eye(d)) for sign in (-1, 1)]
    np.testing.assert_allclose((ends[1] - ends[0]) / (2 * h), 0.0, atol=2e-3)
    bends = (ends[1] + ends[0] - 2 * height(top[None])) / h**2
    total = max(np.mean(y**2 - v), 0.1)
    exact = (0.6 if m <= 300 else 1.2) * np.minimum(1 / np.sqrt(-bends), 1.0)
    if not known:
        exact[2] = (0.6 if m <= 300 else 1.2) * max(1.0, np.sqrt(1 + total) / 20) / np.sqrt(m)
    np.testing.assert_allclose(steps, exact, rtol=1e-3)
    np.testing.assert_allclose(steps[2:], exact[2:], rtol=1e-9)
    assert (depth, most) == (10.0, 60_000)
    points = spike_average.scan(y, v, known, total)
    high = points[spike_average.heights(y, v, points) > height(top[None]) - 10][:, :d]
    assert {*map(tuple, seeds)} >= {*map(tuple, np.rint((np.vstack([top, high]) - top) / steps).astype(int))}
    if len(asked) > 1:
        *_, steps, _, _, _, index, found = asked[-1]
    x = whole(top + steps * index)
    rest = np.unique(index[:, 1:], axis=0)
    lone = whole(np.column_stack([np.zeros(len(rest)), top[1:] + steps[1:] * rest]))
    logs = stats.norm.logpdf(y, lone[:, 2:], np.sqrt(v + np.exp(lone[:, 1:2]))).sum(axis=1) + lone[:, 1]
    logs -= 1.5 * np.log(4 + np.exp(lone[:, 1]))
    inside = stats.norm.pdf(y, x[:, 2:], np.sqrt(v + np.exp(x[:, 1:2])))
    slab = 1 / (1 + np.exp(-x[:, :1]))
    mixed = np.log(slab * inside + (1 - slab) * stats.norm.pdf(y, x[:, 2:], np.sqrt(v))).sum(axis=1)
    mixed += x[:, 1] - 1.5 * np.log(4 + np.exp(x[:, 1])) + np.log(slab[:, 0] * (1 - slab[:, 0])) + np.log(steps[0])
    mass = np.exp(np.concatenate([logs, mixed]) - max(logs.max(), mixed.max()))
    mass /= mass.sum()
    assert nodes.shares.sum() == pytest.approx(1.0)
    assert nodes.shares[nodes.slabs == 1].sum() == pytest.approx(mass[: len(rest)].sum(), abs=1e-5)
    left = np.cumsum(np.sort(mass))[-1 - nodes.shares.size]
    assert left <= 1e-5 * (1 + 1e-9) < left + np.sort(mass)[-nodes.shares.size] * (1 + 1e-9)
    law = [np.log(nodes.tau2s), special.logit(np.minimum(nodes.slabs, 1 - 1e-12))]
    for found, whole_law in zip(
        law, ([*lone[:, 1], *x[:, 1]], [*np.full(len(rest), special.logit(1 - 1e-12)), *x[:, 0]]), strict=True
    ):
        assert nodes.shares @ found == pytest.approx(mass @ np.array(whole_law), abs=1e-3)
    assert (nodes.mode_sds == (0.0 if known else 0.35 * steps[2])).all()
    modes = np.concatenate([lone[:, 2], x[:, 2]])
    assert nodes.shares @ nodes.modes == pytest.approx(mass @ modes, abs=1e-3 * steps[-1])
    square = nodes.shares @ ((nodes.modes - mass @ modes) ** 2 + nodes.mode_sds**2)
    assert square == pytest.approx(mass @ (modes - mass @ modes) ** 2, rel=3e-3)


@pytest.mark.parametrize(("m", "known"), [(40, True), (40, False), (3000, True), (3000, False)])
def test_averages_climb_from_the_best_point_or_from_where_a_scan_of_few_clients_is_higher(m, known):
    starts = []

    class Noted(Likelihood):
        def climb(self, point):
            starts.append(point.copy())
            return super().climb(point)

    y, v = sparse(m, 3)
    likelihood = Noted(y, v, known)
    best = Likelihood(y, v, known).maximise(1.0)[0]
    for point in (best, np.array([9.0, -7.0, 0.0])):
        starts.clear()
        spike_average.average(likelihood, point)
        if m < spike_average.NORMAL:
            points = np.vstack([point, spike_average.scan(y, v, known, max(np.mean(y**2 - v), 0.1))])
            point = points[spike_average.heights(y, v, points).argmax()]
        np.testing.assert_allclose(starts, [point])
    starts.clear()
    for point in ([-1e3, -1e3, 0.0], [1e3, 1e3, 0.0]):
        spike_average.average(likelihood, np.array(point))  # and no overflow
    assert np.abs(starts).max() <= 61


def test_a_climb_of_many_clients_that_does_not_settle_leaves_a_lattice():
    class Unsure(Likelihood):
        def climb(self, point):
            return (*super().climb(point)[:2], False)

    y, v = sparse(3000, 3)
    best = Likelihood(y, v, True).maximise(1.0)[0]
    nodes, good = spike_average.average(Unsure(y, v, True), best)
    normal, _ = spike_average.average(Likelihood(y, v, True), best)
    assert good
    assert nodes.shares.size > 4 == normal.shares.size
    for one, two in ((nodes.slabs, normal.slabs), (np.log(nodes.tau2s), np.log(normal.tau2s))):
        assert nodes.shares @ one == pytest.approx(normal.shares @ two, abs=0.01)


def test_a_lattice_stays_with_its_hill_and_within_its_number():
    """Two hills: only that of the seed grows; all of its points within the depth are there, in any dimension."""

    def height(x):
        return np.logaddexp(-0.5 * (x**2).sum(axis=1), -0.5 * ((x - 40) ** 2).sum(axis=1))

    for d in (1, 2, 3):
        index, found = spike_average.grow(height, np.zeros(d), np.full(d, 0.5), np.zeros((1, d), int), 2.0, 10_000)
        sizes = (index**2).sum(axis=1) * 0.25
        assert (sizes < 4 + 1e-9).all()
        grid = np.stack(np.meshgrid(*[np.arange(-5, 6)] * d, indexing="ij"), axis=-1).reshape(-1, d)
        assert len(index) == ((grid**2).sum(axis=1) * 0.25 < 4).sum()
        np.testing.assert_allclose(found, height(0.5 * index), rtol=1e-12)
        assert len(np.unique(index, axis=0)) == len(index)
    both, _ = spike_average.grow(height, np.zeros(1), np.ones(1), np.array([[0], [40], [0]]), 2.0, 10_000)
    assert sorted(both[:, 0]) == [-1, 0, 1, 39, 40, 41]
    some, _ = spike_average.grow(height, np.zeros(2), np.full(2, 0.1), np.zeros((1, 2), int), 8.0, 200)
    assert 200 < len(some) < 400
    for most, reached in ((0, 0), (2, 1), (3, 2), (4, 2)):  # after one, three, five places
        some, _ = spike_average.grow(height, np.zeros(1), np.full(1, 0.1), np.zeros((1, 1), int), 8.0, most)
        assert sorted(some[:, 0]) == list(range(-reached, reached + 1))


# --- mixtures -----------------------------------------------------------------------------------------------------------

POINTS = np.column_stack([Y, Y[::-1] ** 2 / 3])
PRIOR = (np.array([0.3, 0.7]), np.array([[0.5, 1.0], [2.0, 3.0]]), np.array([0.8, 1.7]))


@pytest.mark.parametrize("components", ["gaussian", "points"])
@pytest.mark.parametrize("d", [1, 2])
def test_derivatives_of_mixtures_are_those_of_their_value(components, d):
    data = Data(POINTS[:, :d], V, components)
    p, mus, tau2s = PRIOR[0], PRIOR[1][:, :d], PRIOR[2] if components == "gaussian" else np.zeros(2)
    value = data.weigh(p, mus, tau2s)[0]
    exact = 0.0
    for y, v in zip(POINTS[:, :d], V, strict=True):
        laws = [stats.multivariate_normal(mu, (t + v) * np.eye(d)).pdf(y) for mu, t in zip(mus, tau2s, strict=True)]
        exact += np.log(p @ laws)
    assert value == pytest.approx(exact, rel=1e-12)
    x = data.pack(Prior(p, mus, tau2s, value))
    again = data.unpack(x, 2)
    for one, two in zip(again, (p, mus, tau2s), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14)

    def height(x):
        return data.weigh(*data.unpack(x, 2))[0] / 6

    gradient, hessian = data.derivatives(x, 2)
    h = 1e-5
    unit = h * np.eye(x.size)
    np.testing.assert_allclose(gradient, [(height(x + u) - height(x - u)) / (2 * h) for u in unit], atol=1e-8)
    slopes = [(data.derivatives(x + u, 2)[0] - data.derivatives(x - u, 2)[0]) / (2 * h) for u in unit]
    np.testing.assert_allclose(hessian, slopes, atol=1e-7)


def test_climbs_of_mixtures_end_at_a_maximum():
    g = RNG(0)
    y = np.where(g.random(80) < 0.4, -2.0, 2.5) + 0.6 * g.standard_normal(80)
    data = Data(y[:, None], np.full(80, 0.2), "gaussian")
    start = Prior(np.array([0.5, 0.5]), np.array([[-1.0], [1.0]]), np.array([0.5, 0.5]), 0.0)
    start = start._replace(value=data.weigh(*start[:3])[0])
    found, trace, good = data.climb(start, 200, 1e-9)
    assert good
    assert (np.diff(trace) > 0).all()
    assert trace[0] == start.value
    assert trace[-1] == found.value == pytest.approx(data.weigh(*found[:3])[0], rel=1e-12)
    gradient, hessian = data.derivatives(data.pack(found), 2)
    scale = np.sqrt(np.maximum(1.0, np.abs(np.diag(hessian))))
    assert np.abs(gradient / scale).max() < 1e-7
    p, mus, tau2s, value = found
    for _ in range(500):
        p, mus, tau2s, value = data.em(p, mus, tau2s)  # which stands still there
    np.testing.assert_allclose([*p, *mus.ravel(), *tau2s], [*found.p, *found.mus.ravel(), *found.tau2s], rtol=1e-5)
    assert value == pytest.approx(found.value, rel=1e-10)
    _, trace, good = data.climb(start, 2, 1e-9)
    assert (trace.size, good) == (3, False)
    same = Data(np.array([[1.0], [1.1], [0.9]]), np.full(3, 4.0), "gaussian")  # less spread than noise: a variance of 0
    start = Prior(np.ones(1), np.array([[0.0]]), np.ones(1), same.weigh(np.ones(1), np.array([[0.0]]), np.ones(1))[0])
    found, _, good = same.climb(start, 100, 1e-8)
    assert good
    assert found.tau2s.tolist() == [0.0]
    assert found.mus[0, 0] == pytest.approx(1.0)


def test_few_data_are_a_sample_of_themselves_and_of_many_two_thousand_are_drawn():
    y, v = np.arange(4001.0)[:, None], 1 + np.arange(4001.0)
    few = Data(y[:4000], v[:4000], "points")
    assert few.sample(RNG(1)) is few
    some = Data(y, v, "points").sample(RNG(1))
    rows = some.y[:, 0].astype(int)
    assert np.unique(rows).tolist() == rows.tolist()
    assert rows.size == 2000
    assert (some.v == v[rows]).all()
    assert some.components == "points"


def test_limits_of_mixtures_data_and_parameters():
    close = Data(0.1 * POINTS, V, "gaussian")  # of less spread than noise
    assert close.tau2 == pytest.approx(1e-3 * ((0.1 * POINTS - close.centre) ** 2).mean(), rel=1e-12)
    apart = Data(
        np.array([[-3.0], [3.0], [0.1], [0.0], [-0.1], [0.0]]), np.array([0.01, 0.01, 9.0, 9.0, 9.0, 9.0]), "points"
    )
    assert apart.tau2 > apart.total**2
    _, mus, _ = mixture_likelihood.begin(apart, 3, 0, RNG(0))  # no farther out than the estimates
    np.testing.assert_allclose(mus, np.quantile(apart.y, [1 / 6, 0.5, 5 / 6], axis=0), atol=1e-12)
    x = np.array([800.0, 800 + np.log(2), 0.0, 1.0, 0.5, 0.5])
    np.testing.assert_allclose(Data(POINTS[:, :1], V, "gaussian").unpack(x, 2)[0], [1 / 3, 2 / 3], rtol=1e-12)
    alike = Data(np.zeros((5, 1)), np.ones(5), "gaussian")
    for p, moved in ((2e-13, False), (2e-12, True)):  # a component is empty below 1e-12 of the clients, and stays
        shares, mus, tau2s, _ = alike.em(np.array([1.0, p]), np.array([[0.0], [0.5]]), np.array([0.0, 0.3]))
        assert shares[1] == pytest.approx(p * np.exp(-0.125 / 1.3) / np.sqrt(1.3))
        assert mus.ravel().tolist() == [0.0, 0.0 if moved else 0.5]
        assert tau2s[1] == pytest.approx(0.3 / 1.3 if moved else 0.3)


class NotedData(Data):
    """Data that note where climbs begin and where they end."""

    def __init__(self, y, v, components, name, calls):
        super().__init__(y, v, components)
        self.name, self.calls = name, calls

    def climb(self, prior, longest, tol):
        found = super().climb(prior, longest, tol)
        self.calls.append((self.name, prior, longest, tol, found))
        return found


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("longest", [60, 300])
def test_the_best_of_all_starts_go_on_and_so_do_the_splits_of_the_prior_before(many, longest):
    """Twenty steps of EM from each start, four climb, as do the splits; of many data three are compared, one climbs."""
    g, calls = RNG(2), []
    y, v = g.normal(0, 2, (60, 1)) + np.where(g.random((60, 1)) < 0.5, -3, 3), np.full(60, 0.5)
    data = NotedData(y, v, "gaussian", "all", calls)
    few = NotedData(y[:40], v[:40], "gaussian", "few", calls) if many else data
    previous = Prior(np.array([0.4, 0.6]), np.array([[-3.0], [3.0]]), np.array([3.0, 2.0]), -1e9)
    found = mixture_likelihood.learn(data, few, 3, 7, longest, 1e-9, RNG(5), previous)
    begun, generator = [], RNG(5)
    for i in range(7):
        prior = mixture_likelihood.begin(few, 3, i, generator)
        for _ in range(20):
            prior = few.em(*prior)[:3]
        begun.append((few.weigh(*prior)[0], prior))
    begun.sort(key=lambda pair: -pair[0])
    first = [call for call in calls if call[0] == few.name][:6]
    for (_, prior, most, tol, _), (value, exact) in zip(first, begun[:4], strict=False):
        assert prior.value == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(prior.mus, exact[1], rtol=1e-12)
        assert (most, tol) == (min(longest, 100) if many else longest, 1e-9)
    for component, (_, prior, *_) in enumerate(first[4:]):
        exact = split(few, previous, component)
        np.testing.assert_allclose(prior.mus, exact.mus)
        assert prior.value == pytest.approx(few.weigh(*exact[:3])[0], rel=1e-12)
    ends = sorted((call[-1] for call in first), key=lambda run: -run[0].value)
    if many:
        heights = [data.weigh(*run[0][:3])[0] for run in ends[:3]]
        (_, prior, most, tol, last), *more = calls[6:]
        assert not more
        assert (prior.value, most, tol) == (pytest.approx(max(heights), rel=1e-12), longest, 1e-9)
        np.testing.assert_allclose(prior.mus, ends[int(np.argmax(heights))][0].mus)
        assert found is last
    else:
        assert len(calls) == 6
        assert found is ends[0]
    # No prior with fewer components is better: one that is stays, with a component in two halves.
    best = previous._replace(value=1.0)
    kept, trace, _ = mixture_likelihood.learn(data, few, 3, 1, longest, 1e-9, RNG(5), best)
    assert kept.p.tolist() == [0.2, 0.6, 0.2]
    assert kept.mus.ravel().tolist() == [-3.0, 3.0, -3.0]
    assert kept.tau2s.tolist() == [3.0, 2.0, 3.0]
    assert (kept.value, trace.tolist()) == (1.0, [1.0])
    calls.clear()
    mixture_likelihood.learn(data, few, 3, 2, longest, 1e-9, RNG(5), None)
    assert len(calls) == (3 if many else 2)


class ToldData(Data):
    """Four clients of a mixture of one Gaussian, whose heights at (log p, centre, variance) and derivatives are told."""

    def __init__(self, height, slopes, bends):
        super().__init__(np.zeros((4, 1)), np.ones(4), "gaussian")
        self.height, self.slopes, self.bends, self.looks = height, np.array(slopes), np.diag(bends), []

    def pack(self, prior):
        return np.array([0.0, *prior.mus, *prior.tau2s])

    def unpack(self, x, k):
        return x[:1], x[1:2], x[2:]

    def weigh(self, p, mus, tau2s):
        self.looks.append((float(mus[0]), float(tau2s[0])))
        none = np.empty(0)
        return self.height(float(mus[0]), float(tau2s[0])), none, none, none, none

    def derivatives(self, x, k):
        return self.slopes.copy(), self.bends.copy()

    def run(self, value, longest=200, tol=1e-9, tau2=1.0):
        self.looks.clear()
        return self.climb(Prior(np.ones(1), np.zeros(1), np.array([tau2]), value), longest, tol)


@pytest.mark.parametrize("bend", [-1.0, -100.0, -0.01])
def test_climbs_of_mixtures_are_damped_eight_times_as_much_where_they_fall(bend):
    """By a thousandth of the curvature, or of one, at first; they end where damping is 1e8 or nothing is left to gain."""
    told = ToldData(lambda mu, tau2: 1.0 if mu == 0 else 0.0, [0.0, 1.0, 0.0], [-1.0, bend, -1.0])
    scale = max(1.0, -bend)
    found, trace, good = told.run(1.0)
    damping = 1e-3 * 8.0 ** np.arange(14)
    assert damping[-2] < 1e8 < damping[-1]
    np.testing.assert_allclose(told.looks, np.column_stack([1 / (damping * scale - bend), np.ones(14)]), rtol=1e-12)
    assert (found.mus.tolist(), found.value, trace.tolist(), good) == ([0.0], 1.0, [1.0], False)
    large = ToldData(lambda mu, tau2: 1e9 if mu == 0 else 0.0, [0.0, 1.0, 0.0], [-1.0, bend, -1.0])
    large.run(1e9)
    gains = 4 / (damping * scale - bend)
    assert len(large.looks) == 1 + np.argmax(gains <= 1e-5)
    largest = 1 / np.sqrt(scale)
    for tol, settled, looks in ((largest, True, 0), (largest * 0.999, True, 14), (largest * 1.001e-3, True, 14)):
        assert told.run(1.0, tol=tol)[2] is settled
        assert len(told.looks) == looks
    assert told.run(1.0, tol=largest * 0.9995e-3)[2] is False
    assert bend < -1 or told.run(1.0, tol=1e-3)[2] is True


def test_climbs_of_mixtures_are_damped_an_eighth_as_much_where_they_rise():
    told = ToldData(lambda mu, tau2: mu, [0.0, 1.0, 0.0], [-1.0, 0.0, -1.0])
    found, trace, good = told.run(0.0, longest=14)
    steps = 1 / np.maximum(1e-3 / 8.0 ** np.arange(14), 1e-12)
    np.testing.assert_allclose([mu for mu, _ in told.looks], np.cumsum(steps), rtol=1e-12)
    np.testing.assert_allclose(trace, [0.0, *np.cumsum(steps)], rtol=1e-12)
    assert (found.value, good) == (trace[-1], False)
    mixed = ToldData(lambda mu, tau2: mu, [0.0, 1.0, 0.0], [-1.0, 1.0, -1.0])  # bent upwards: damped until it is not
    mixed.run(0.0, longest=1)
    np.testing.assert_allclose(mixed.looks, [(1 / (1e-3 * 8**4 - 1), 1.0)], rtol=1e-12)
    level = ToldData(lambda mu, tau2: 0.0, [0.0, 1.0, 0.0], [-1.0, -1.0, -1.0])
    assert level.run(0.0)[1].tolist() == [0.0]  # no step on a plain


def test_variances_of_mixtures_stay_at_zero_unless_it_is_uphill():
    slopes = np.array([0.0, 0.5, -3.0])
    told = ToldData(lambda mu, tau2: mu - tau2, slopes, [-1.0, -1.0, -1.0])
    told.run(-0.1, longest=1, tau2=0.1)
    assert told.looks == [(pytest.approx(0.5 / 1.001), 0.0)]  # and no farther
    told.run(0.0, longest=1, tau2=0.0)
    assert told.looks == [(pytest.approx(0.5 / 1.001), 0.0)]
    assert told.run(0.0, tau2=0.0, tol=0.5)[2] is True  # slopes below zero do not count there
    assert told.run(-0.1, tau2=0.1, tol=0.5, longest=1)[2] is False
    up = ToldData(lambda mu, tau2: mu + tau2, -slopes, [-1.0, -1.0, -1.0])
    up.run(0.0, longest=1, tau2=0.0)
    assert up.looks == [(pytest.approx(-0.5 / 1.001), pytest.approx(3 / 1.001))]
    little = ToldData(lambda mu, tau2: mu + tau2, [0.0, 0.5, 0.25], [-1.0, -1.0, -1.0])
    little.run(0.0, longest=1, tau2=0.0)
    assert little.looks == [(pytest.approx(0.5 / 1.001), pytest.approx(0.25 / 1.001))]
    flat = ToldData(lambda mu, tau2: 1.0 + mu, [0.0, 0.5, 0.0], [-1.0, -1.0, -1.0])
    flat.run(1.0, longest=1, tau2=0.0)
    assert flat.looks == [(pytest.approx(0.5 / 1.001), 0.0)]


@pytest.mark.parametrize("components", ["gaussian", "points"])
def test_starts_of_mixtures(components):
    data = Data(POINTS, V, components)
    w = 1 / V
    centre = w @ POINTS / w.sum()
    np.testing.assert_allclose(data.centre, centre, rtol=1e-12)
    square = np.mean((POINTS - centre) ** 2, axis=1)
    assert data.total == pytest.approx(np.sqrt(square.mean()))
    assert data.tau2 == pytest.approx(max(w @ (square - V) / w.sum(), 1e-3 * square.mean()))
    assert Data(np.ones((3, 1)), np.ones(3), components).total == 1.0
    p, mus, tau2s = mixture_likelihood.begin(data, 3, 0, RNG(0))
    shrink = min(1.0, np.sqrt(data.tau2) / data.total)
    assert p.tolist() == [1 / 3] * 3
    np.testing.assert_allclose(mus, centre + shrink * (np.quantile(POINTS, [1 / 6, 0.5, 5 / 6], axis=0) - centre))
    np.testing.assert_allclose(tau2s, data.tau2 / 9 if components == "gaussian" else 0.0)
    p, mus, tau2s = mixture_likelihood.begin(data, 3, 1, RNG(0))
    if components == "gaussian":
        np.testing.assert_allclose(mus, [centre] * 3)
        np.testing.assert_allclose(tau2s, data.tau2 * np.array([0.25, 1.0, 4.0]))
    p, mus, tau2s = mixture_likelihood.begin(data, 3, 2, RNG(5))
    g = RNG(5)
    rows, share = g.choice(6, 3, replace=False), g.uniform(0.3, 1.0)
    np.testing.assert_allclose(mus, centre + (POINTS[rows] - centre) * share)
    np.testing.assert_allclose(tau2s, data.tau2 * 2.0 ** g.uniform(-8, 0.5, 3) if components == "gaussian" else np.zeros(3))
    parted = mixture_likelihood.split(data, Prior(*PRIOR, 1.0), 1)
    assert parted.p.tolist() == [0.3, 0.35, 0.35]
    step = 0.5 * np.sqrt(1.7) + 0.05 * data.total
    np.testing.assert_allclose(parted.mus, [PRIOR[1][0], PRIOR[1][1] - step, PRIOR[1][1] + step])
    assert parted.tau2s.tolist() == [0.8, 0.85, 1.7]  # one of them narrower
    three = Prior(np.array([0.2, 0.3, 0.5]), np.array([[0.0, 1.0], [5.0, 6.0], [7.0, 8.0]]), np.array([4.0, 1.0, 2.0]), 1.0)
    parted, step = mixture_likelihood.split(data, three, 0), 1.0 + 0.05 * data.total
    np.testing.assert_allclose(parted.mus, [[-step, 1 - step], [5, 6], [7, 8], [step, 1 + step]])
    assert (parted.p.tolist(), parted.tau2s.tolist()) == ([0.1, 0.3, 0.5, 0.1], [2.0, 1.0, 2.0, 4.0])
    assert data.sample(RNG(0)) is data


# --- variances that are estimated ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("df", [1.5, 2.0, 4.0, 8.0, 15.0, 60.0, 1000.0])
def test_grids_of_variances_have_the_moments_of_their_law(df):
    v, reach = np.array([1.5, 0.2]), np.array([0.5, 9.0])
    degrees = np.full(2, df)
    grid, logs = variance_grid(v, degrees, *variance_spans(degrees, reach))
    chance = np.exp(logs)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-12)
    precision = v[:, None] / grid * df  # chi-square
    np.testing.assert_allclose((chance * precision).sum(axis=1), df, rtol=1e-6)
    np.testing.assert_allclose((chance * precision**2).sum(axis=1), df * (df + 2), rtol=1e-6)
    for t in (0.3, 2.0):
        exact = (1 + 2 * t / df) ** (-df / 2)
        np.testing.assert_allclose((chance * np.exp(-t * precision / df)).sum(axis=1), exact, rtol=1e-6)
    known = np.full(2, np.inf)
    same, zero = variance_grid(v, known, *variance_spans(known, reach))
    assert same.tolist() == [[1.5], [0.2]]
    assert zero.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("prior", ["marginal-likelihood", "reml"])
def test_the_likelihood_with_estimated_variances_by_quadrature(prior):
    df, basis = np.array([4.0, 9.0, 6.0, 12.0, 5.0, 8.0]), np.column_stack([np.ones(6), [0.0, 1.0, 0.5, 2.0, 1.5, 3.0]])
    law = TLikelihood(Y, V, df, basis, 0.0, prior, 0.0)

    def density(y, v, d, tau2, mean):
        return integrate.quad(
            lambda c: stats.chi2.pdf(c, d) * stats.norm.pdf(y, mean, np.sqrt(tau2 + v * d / c)), 0, np.inf, epsabs=1e-13
        )[0]

    gamma = np.array([1.0, 0.3])
    for tau2 in (0.4, 2.0):
        exact = sum(np.log(density(y, v, d, tau2, row @ gamma)) for y, v, d, row in zip(Y, V, df, basis, strict=True))
        found = law.objective(np.array([tau2]), mu=gamma, restricted=False)[0]
        assert found == pytest.approx(exact, rel=1e-5)
        best, covariance = (part[0] for part in law.centre(np.array([tau2])))

        def height(g, tau2=tau2):
            return law.objective(np.array([tau2]), mu=g, restricted=False)[0]

        h = 1e-3 * np.eye(2)
        slope = [(height(best + u) - height(best - u)) / 2e-3 for u in h]
        np.testing.assert_allclose(slope, 0.0, atol=1e-5)
        bend = [[(height(best + u + w) - height(best + u - w) - height(best - u + w) + height(best - u - w)) / 4e-6
                 for u in h] for w in h]  # fmt: skip
        np.testing.assert_allclose(np.linalg.inv(covariance), -np.array(bend), rtol=1e-3)
        top = law.objective(np.array([tau2]))[0]
        part = np.linalg.slogdet(np.linalg.inv(covariance))[1] / 2 if prior == "reml" else 0.0
        assert top == pytest.approx(height(best) - part, rel=1e-9)
        score = law.score(np.array([tau2]))[0]
        step = 1e-3
        ends = law.objective(np.array([tau2 - step, tau2 + step]))
        assert score == pytest.approx(2 * (ends[1] - ends[0]) / (2 * step), rel=1e-3, abs=1e-6)
    assert law.restricted == (prior == "reml")


def test_posteriors_with_estimated_variances_are_their_draws():
    s2, n = np.array([0.4, 30.0, 0.1, 2.2, 14.0, 0.9]), np.array([6, 5, 8, 8, 4, 6])
    model = SampleMeans().fit(Y, s2, n)
    assert np.isfinite(model.prior_degrees_)
    draws = model.sample_posterior(RNG(2), 30_000)
    np.testing.assert_allclose(draws.mean(axis=0), model.posterior_mean_, atol=0.05)
    np.testing.assert_allclose(draws.std(axis=0), model.posterior_sd_, rtol=0.05)
    for t in (0.0, 1.2, 3.0):
        np.testing.assert_allclose((draws <= t).mean(axis=0), model.posterior_cdf(t), atol=0.02)
    for q in (0.1, 0.7):
        ends = model.posterior_quantile(q)
        np.testing.assert_allclose([model.posterior_cdf(t)[i] for i, t in enumerate(ends)], q, atol=1e-8)
    np.testing.assert_allclose(model.posterior_cdf(Y), [model.posterior_cdf(t)[i] for i, t in enumerate(Y)])
    assert not model.independent
    assert SampleMeans("fixed", mu=0.0, tau2=1.0).fit(Y, s2, n).independent
    assert (model.exceedances(slice(None)), model.predictive_ranks()) == (None, None)
    truth, (means, variances, counts) = model.draw(RNG(3), np.zeros(6))
    assert truth.tolist() == [0.0] * 6
    assert np.array_equal(counts, n)
    drawn = [model.draw(g, np.zeros(6))[1] for g in map(RNG, range(2000))]
    means, variances = (np.array([part[k] for part in drawn]) for k in (0, 1))
    np.testing.assert_allclose(np.median(means**2 / variances * n, axis=0), stats.f.ppf(0.5, 1, n - 1), rtol=0.15)
    np.testing.assert_allclose(1 / np.mean(1 / variances[:, 3]), model.prior_variance_ * 5 / 7, rtol=0.15)
    single = SampleMeans().fit(Y, s2, [6, 5, 1, 8, 4, 6])
    assert single.draw(RNG(0))[1][1][2] == 0.0
    # A large prior's variance: its parts add up in truths.
    truths = np.array([model.draw(RNG(k))[0] for k in range(1500)])
    assert truths.std() == pytest.approx(model.prior_summary()["sd"], rel=0.06)
    assert truths.mean() == pytest.approx(model.prior_summary()["mean"], abs=0.1)


# --- the likelihood of a spread -------------------------------------------------------------------------


def test_switches_of_the_likelihood():
    assert [MarginalLikelihood(np.zeros(m), np.geomspace(1, 2, m), None, "reml").compiled for m in (8191, 8192)] == [
        False,
        True,
    ]
    wide = MarginalLikelihood(np.zeros(9000), np.geomspace(1e-145, 1e145, 9000), None, "reml")
    assert not wide.compiled  # a product has room for no two of them
    assert MarginalLikelihood(np.zeros(9000), np.geomspace(1e-70, 1e70, 9000), None, "reml").group == 2
    assert MarginalLikelihood(np.zeros(9000), np.geomspace(1, 1.01, 9000), None, "reml").group == 1024
    for m, power, bounded in ((5, 0.0, False), (6, 0.0, True), (2, 1.5, False), (3, 1.5, True)):
        law = MarginalLikelihood(np.arange(float(m)), np.geomspace(1, 2, m), None, "bayes", power)
        assert law.bounded is bounded
        known = MarginalLikelihood(np.arange(float(m - 1)), np.geomspace(1, 2, m - 1), 0.0, "bayes", power)
        assert known.bounded is bounded


def test_switches_and_copies_of_the_likelihood_around_a_plane():
    basis = np.column_stack([np.ones(9), np.arange(9.0) ** 2])
    for m, power, bounded in ((6, 0.0, False), (7, 0.0, True), (3, 1.5, False), (4, 1.5, True)):
        law = RegressionLikelihood(np.arange(float(m)), np.geomspace(1, 2, m), basis[:m], 0.0, "bayes", power)
        assert law.bounded is bounded
    slopes, z = basis[:6, 1:], np.sort(Y)
    law = RegressionLikelihood(Y, V, slopes, 2.0, "bayes", 1.5)
    other = law.alike(z, slopes, "marginal-likelihood")  # of the clients by their variances, and about 0
    assert (other.power, other.prior, other.restricted) == (0.0, "marginal-likelihood", False)
    v = np.sort(V)
    for tau2 in (0.0, 1.3):
        w = 1 / (v + tau2)
        residuals = z - slopes[:, 0] * ((w * slopes[:, 0]) @ z / (w @ slopes[:, 0] ** 2))
        exact = stats.norm.logpdf(residuals, 0.0, np.sqrt(v + tau2)).sum()
        assert other.objective(np.array([tau2]))[0] == pytest.approx(exact, rel=1e-12)
    slopes = slopes / np.linalg.norm(slopes)
    exact = RegressionLikelihood(3 * slopes[:, 0], np.full(6, 0.7), slopes, 0.0, "reml", 0.0)
    assert exact.maximise() == (0.0, True)  # of variances that are equal


def test_one_client_has_the_closed_form_of_equal_variances():
    alone = MarginalLikelihood(np.array([3.7]), np.array([1.3]), 0.4, "reml")
    assert alone.maximise() == (pytest.approx(3.3**2 - 1.3, rel=1e-15), True)
    assert alone.passes == 0  # nothing was searched
    alike = MarginalLikelihood(np.array([1.0, 1.1, 0.9]), np.full(3, 4.0), None, "reml")
    assert alike.maximise() == (0.0, True)


def test_the_spread_of_estimates_bounds_the_search():
    for mu, exact in ((None, 4.5), (0.6, 3.5), (5.0, 5.4)):
        assert MarginalLikelihood(Y, V, mu, "reml").spread == pytest.approx(exact)
        assert MarginalLikelihood(Y, np.ones(6), mu, "reml").spread == pytest.approx(exact)
    assert tau2_likelihood.dot(np.array([1.0, 2.0]), np.array([3.0, 5.0])) == 13.0
    total, mean, sd = tau2_likelihood.summary(np.array([0.0, 1.0, 4.0]), np.array([1.0, 2.0, 1.0]))
    assert (total, mean, sd) == pytest.approx((4.0, 1.5, np.sqrt(2.25)))


@pytest.mark.parametrize(("scale", "mu", "most"), [(1.0, None, 4.5**2), (1.0, 0.6, 3.5**2), (0.1, None, 2.6)])
def test_searches_look_at_every_power_of_four_up_to_the_largest_square(scale, mu, most):
    """From a quarter of the least variance; every fall of what oscillates no faster is found."""
    law, looks = MarginalLikelihood(scale * Y, V, mu, "reml"), []
    assert law.roots(lambda t: looks.append(t.copy()) or -np.ones(t.size), 0.0)[0].tolist() == [0.0]
    (grid,) = looks
    np.testing.assert_allclose(grid, [0.0, *(0.3 / 4 * 4.0 ** np.arange(grid.size - 1))], rtol=1e-12)
    assert grid[-2] < most <= grid[-1]

    def waves(t):  # up and down over a factor of 16 each, and down for good
        return np.where(
            t < 0.01, 1.0, np.where(t > 1e3, -1.0, np.cos(np.pi * np.log(np.maximum(t, 0.01) / 0.01) / np.log(16)))
        )

    found, good = law.roots(waves, 0.0)
    falls = 0.01 * 16.0 ** (0.5 + 2 * np.arange(3))
    assert good
    np.testing.assert_allclose(found, falls[falls < 1e3], rtol=1e-12)


def test_searches_go_on_as_long_as_scores_are_positive_and_meet_zeros_on_the_way():
    law, looks = MarginalLikelihood(Y, V, None, "reml"), []
    found, good = law.roots(lambda t: looks.append(t.copy()) or 1e9 - t, 0.0)
    assert (found.tolist(), good) == ([pytest.approx(1e9, rel=1e-12)], True)
    grid, *more = looks
    ends = [float(look[0]) for look in more if look[0] > grid[-1]]
    steps = int(np.ceil(np.log(1e9 / grid[-1]) / np.log(4)))
    np.testing.assert_allclose(ends[:steps], grid[-1] * 4.0 ** np.arange(1, steps + 1), rtol=1e-12)
    assert max(ends) == ends[steps - 1] >= 1e9
    assert law.roots(lambda t: 0.3 - t, 0.0)[0].tolist() == [0.3]  # one of the places that are looked at
    assert law.roots(np.zeros_like, 0.0)[0].tolist() == [0.0]
    assert law.roots(lambda t: np.where(t == 0, 0.0, 1 - t), 0.0)[0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("ends", [[True, False], [False, True], [True, True]])
def test_a_search_has_converged_if_every_root_has(ends, monkeypatch):
    told = iter(ends)
    monkeypatch.setattr(optimize, "brentq", lambda f, a, b, **_: (a, optimize.OptimizeResult(converged=next(told))))
    law = MarginalLikelihood(Y, V, None, "reml")
    found, good = law.roots(lambda t: np.where((t < 0.2) | ((t > 1) & (t < 4)), 1.0, -1.0), 0.0)
    assert found.size == 2
    assert bool(good) == all(ends)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("mu", [None, 0.1])
@pytest.mark.parametrize("m", [6, 3000])
def test_averages_look_around_the_modes_of_log_tau2_as_far_as_the_density_counts(m, power, mu, monkeypatch):
    """Modes by another optimiser; at the ends what is averaged is below exp(-22) of the top, but not far below."""
    v = np.exp(RNG(1).uniform(-1, 1, m))
    law, seen, asked = MarginalLikelihood(RNG(2).normal(0.1, np.sqrt(1.5 + v)), v, mu, "bayes", power), [], []
    objective, roots = law.objective, law.roots

    def height(w):
        return objective(np.exp(w)) - power * np.log(law.edge + np.exp(w)) + w

    def asks(score, low, rtol):
        asked.append((score, low, roots(score, low, rtol)[0]))
        return roots(score, low, rtol)

    monkeypatch.setattr(law, "objective", lambda tau2s: seen.append(tau2s) or objective(tau2s))
    monkeypatch.setattr(law, "roots", asks)
    assert law.integrate()[2]
    ((slope, _, (mode,)),) = asked
    h = 1e-4
    for w in np.array([[-3.0], [0.4], [2.0]]):
        assert slope(np.exp(w))[0] == pytest.approx(((height(w + h) - height(w - h)) / h)[0], rel=1e-5, abs=1e-5)
    best = optimize.minimize_scalar(
        lambda w: -height(np.array([w]))[0], bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}
    )
    assert np.log(mode) == pytest.approx(best.x, abs=1.2e-4)
    places = np.log(np.concatenate(seen))
    first = next(np.log(look) for look in seen if look.size > 1)
    assert (first.min(), first.max()) == pytest.approx((places.min(), places.max()), rel=1e-9)
    ends = height(np.array([places.min(), places.max()])) + best.fun
    ends[1] += law.bounded * (places.max() - best.x)  # of tau2 itself, where it has a mean
    assert (ends < -22).all()
    assert (ends > -22 * 1.4).all()
    if m > 6:  # as far as a normal one of the same top: the first places that are tried
        assert [w.size for w in seen].count(1) == 3


@pytest.mark.parametrize(("spread", "narrow"), [(1.2, True), (0.6, True), (0.2, False)])
def test_densities_of_many_clients_are_looked_at_a_few_times_where_a_polynomial_has_them(spread, narrow, monkeypatch):
    """Of the least degree that leaves exp(-26); else at even steps of 4 arsinh((log tau2 - mode) / 4), and half of them."""
    v = np.exp(RNG(1).uniform(-1, 1, 8192))
    law, seen, modes = MarginalLikelihood(RNG(2).normal(0, np.sqrt(spread**2 + v)), v, 0.0, "bayes", 1.5), [], []
    law.compiled, objective, roots = False, law.objective, law.roots
    monkeypatch.setattr(law, "objective", lambda tau2s: seen.append(np.log(tau2s)) or objective(tau2s))
    monkeypatch.setattr(law, "roots", lambda *a, **k: modes.append(roots(*a, **k)) or modes[0])
    assert law.integrate()[2]
    ((mode,), _) = modes[0]
    first, *others = [np.sort(w) for w in seen if w.size > 1]
    n = first.size
    if narrow:
        half = (first[-1] - first[0]) / 2 / np.cos(np.pi / (2 * n))
        assert half < 0.8
        assert (half / (2 * np.pi)) ** (n - 1) <= np.exp(-26) < (half / (2 * np.pi)) ** (n - 2)
        assert not others
    else:
        assert first[-1] - first[0] > 1.6
        u = 4 * np.arcsinh((first - np.log(mode)) / 4)
        np.testing.assert_allclose(np.diff(u), (u[-1] - u[0]) / 24, rtol=1e-9)
        for k, more in enumerate(others):
            assert more.size == 24 * 2**k
            halves = 4 * np.arcsinh((more - np.log(mode)) / 4)
            np.testing.assert_allclose(np.diff(halves), (u[-1] - u[0]) / (24 * 2**k), rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 4, 15, 138, 291])  # both, one of the two, or none of them at once
def test_places_are_halved_until_every_other_one_gives_the_same(seed, monkeypatch):
    """The same total up to 3e-5, and the same mean of log tau2 up to 3e-5 of its sd."""
    g = RNG(seed)
    m = int(g.integers(3, 40))
    v = np.exp(g.uniform(-3, 3, m))
    y = g.normal(0, np.sqrt(v + g.choice([0, 0.1, 1, 10])))
    law, seen = MarginalLikelihood(y, v, None if seed % 2 else 0.0, "bayes", power := float(g.choice([0.5, 1.5]))), []
    objective = law.objective
    monkeypatch.setattr(law, "objective", lambda tau2s: seen.append(np.log(tau2s)) or objective(tau2s))
    assert law.integrate()[2]
    looks, same = [w for w in seen if w.size > 1], []
    for k in range(len(looks)):
        w = np.sort(np.concatenate(looks[: k + 1]))
        logs = objective(np.exp(w)) - power * np.log(law.edge + np.exp(w)) + w
        mass = np.exp(logs - logs.max()) * np.gradient(w)
        mean = w @ mass / mass.sum()
        apart = abs(w[::2] @ mass[::2] / mass[::2].sum() - mean)
        sd = np.sqrt((w - mean) ** 2 @ mass / mass.sum())
        same.append(abs(2 * mass[::2].sum() / mass.sum() - 1) < 3e-5 and apart < 3e-5 * sd)
    assert same == [False] * (len(looks) - 1) + [True]


def test_places_of_a_density_without_shape_are_not_halved_for_ever(monkeypatch):
    law, seen = MarginalLikelihood(Y, V, None, "bayes", 1.5), []
    objective, noise = law.objective, RNG(1)
    monkeypatch.setattr(
        law, "objective", lambda t: seen.append(t.size) or objective(t) + (noise.normal(size=t.size) if t.size > 1 else 0)
    )
    assert law.integrate()[2] is False
    assert [size for size in seen if size > 1] == [25, *(24 * 2**k for k in range(8))]


@pytest.mark.parametrize("power", [0.0, 1.5])
def test_averages_over_the_spread_are_of_no_unit(power):
    tau2s, shares, _ = MarginalLikelihood(Y, V, None, "bayes", power).integrate()
    for k in (-20, 20):
        others, again, good = MarginalLikelihood(np.ldexp(Y, k), np.ldexp(V, 2 * k), None, "bayes", power).integrate()
        assert good
        assert others.size == tau2s.size
        np.testing.assert_allclose(np.ldexp(others, -2 * k), tau2s, rtol=1e-6)
        np.testing.assert_allclose(again, shares, rtol=1e-6)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("mu", [None, 0.0])
@pytest.mark.parametrize("v", [1e-2, 1.0, 1e2])
def test_densities_of_log_tau2_rise_where_the_search_for_their_modes_begins(v, mu, power, monkeypatch):
    """Also where estimates do not differ at all."""
    law = MarginalLikelihood(np.zeros(40), np.append(np.full(39, v), 1.001 * v), mu, "bayes", power)
    roots, asked = law.roots, []
    monkeypatch.setattr(law, "roots", lambda score, low, rtol: asked.append((score, low)) or roots(score, low, rtol))
    assert law.integrate()[2]
    ((slope, low),) = asked
    assert slope(np.array([low]))[0] > 0


@pytest.mark.parametrize(("sd", "fewer"), [(0.05, 4), (0.3, 9), (0.7, None)])
def test_gausss_places_serve_where_a_law_is_narrow(sd, fewer):
    w = np.linspace(-8 * sd, 8 * sd, 401)
    mass = np.exp(-0.5 * (w / sd) ** 2)
    places, shares = tau2_likelihood.fewer(w, mass / mass.sum())
    assert places.size == (401 if fewer is None else fewer)
    for f in (np.cos, lambda x: 1 / (1 + np.exp(x + 0.4)), lambda x: x**3 + x**2):
        assert shares @ f(places) == pytest.approx(mass @ f(w) / mass.sum(), abs=1e-9)


def test_four_places_are_not_made_fewer_by_four():
    w, mass = np.array([0.0, 0.01, 0.02, 0.05]), np.full(4, 0.25)
    assert tau2_likelihood.fewer(w, mass) == (w, mass)


def test_all_variances_of_the_prior_are_alike_unless_a_power_is_given():
    found, exact = (MarginalLikelihood(Y, V, None, "bayes", *power).integrate() for power in ((), (0.0,)))
    np.testing.assert_array_equal(found[:2], exact[:2])


@pytest.mark.parametrize("prior", ["reml", "marginal-likelihood"])
def test_scores_fall_through_0_at_every_maximum(prior):
    """Two groups of very unequal variances: two maxima, both found, the higher one kept."""
    y, v = np.array([-3.0, 3.0, -3.1, 2.9, 40.0, -40.0]), np.array([9.0, 9.5, 8.5, 9.2, 1e-2, 1.1e-2])
    y[4:] /= 400
    law = MarginalLikelihood(y, v, 0.0, prior)
    roots, good = law.roots(law.score, 0.0)
    assert good
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e3, 4000)])
    scores = law.score(grid)
    falls = grid[1:][(scores[:-1] > 0) & (scores[1:] <= 0)]
    assert roots.size == falls.size + (scores[0] <= 0)
    np.testing.assert_allclose(roots[roots > 0], falls, rtol=0.01)
    tau2, good = law.maximise()
    assert law.objective(np.array([tau2]))[0] >= law.objective(grid).max() - 1e-9
    model = GaussianMeans(prior, mu=0.0).fit(y, v)
    assert model.tau2_ == pytest.approx(tau2, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("far", "higher"), [(30.0, 0), (45.0, 1)])
def test_of_two_maxima_the_higher_one_is_kept(far, higher):
    """Precise clients that differ little, and others, of large variances, that differ by more than those explain."""
    y = np.array([-1.0, 31 / 30, -29 / 30, 1.0, 0.3 / far, -0.3 / far, 0.2 / far, -0.35 / far]) * far
    v = np.array([100.0, 95.0, 105.0, 98.0, 1e-2, 1.1e-2, 0.9e-2, 1e-2])
    law = MarginalLikelihood(y, v, 0.0, "marginal-likelihood")
    grid = np.geomspace(1e-4, 1e5, 20_000)
    heights = law.objective(grid)
    peaks = grid[1:-1][(heights[1:-1] > heights[:-2]) & (heights[1:-1] > heights[2:])]
    assert peaks.size == 2
    roots, good = law.roots(law.score, 0.0)
    assert good
    np.testing.assert_allclose(roots, peaks, rtol=2e-3)
    assert law.maximise() == (roots[higher], True)


def test_warnings_point_at_the_callers_line():
    y = RNG(0).normal(0, 3, 50)
    calls = (
        lambda: MixtureMeans(2, max_iter=1, restarts=1).fit(y, 1.0),
        lambda: GaussianMeans().fit(y, 1.0, np.ones(50)),
    )
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [(w.filename, w.lineno) for w in caught] == [(__file__, call.__code__.co_firstlineno)]


@pytest.mark.parametrize("components", ["gaussian", "points"])
def test_the_number_of_components_by_its_criterion(components):
    """-2 log-likelihood + (parameters) log m for every number tried, two beyond the least, in any unit."""
    g = RNG(1)
    y, v = np.where(g.random(60) < 0.5, -3.0, 3.0) + 0.5 * g.standard_normal(60), np.full(60, 0.25)
    model = MixtureMeans("bic", components=components, restarts=2).fit(1000 * y, 1e6 * v)
    each = 3 if components == "gaussian" else 2
    for k, (value, criterion) in model.path_.items():
        alone = MixtureMeans(k, components=components, restarts=2).fit(1000 * y, 1e6 * v).log_likelihood_
        assert value >= alone - 1e-6
        assert criterion == pytest.approx(-2 * value + (k * each - 1) * np.log(60), rel=1e-9)
    best = min(model.path_, key=lambda k: model.path_[k][1])
    assert model.k_ == best == 2
    assert sorted(model.path_) == [1, 2, 3, 4]
    assert model.log_likelihood_ == pytest.approx(model.path_[2][0], rel=1e-9)
    density = [stats.norm.pdf(1000 * y, mu, np.sqrt(t + 1e6 * v)) for mu, t in zip(model.mus_, model.tau2s_, strict=True)]
    assert model.log_likelihood_ == pytest.approx(np.log(model.p_ @ density).sum(), rel=1e-9)


@pytest.mark.parametrize("d", [1, 2])
def test_priors_of_mixtures_are_told_in_numbers_or_lists(d):
    model = MixtureMeans(2, restarts=2).fit(POINTS[:, 0] if d == 1 else POINTS, V)
    summary = model.prior_summary()
    mus = np.reshape(model.mus_, (2, d))
    mean = model.p_ @ mus
    sd = np.sqrt(model.p_ @ (model.tau2s_[:, None] + (mus - mean) ** 2))
    if d == 1:
        assert np.ndim(summary["mean"]) == np.ndim(summary["sd"]) == 0
    else:
        assert isinstance(summary["mean"], list)
        assert isinstance(summary["sd"], list)
    np.testing.assert_allclose(np.ravel(summary["mean"]), mean, rtol=1e-12)
    np.testing.assert_allclose(np.ravel(summary["sd"]), sd, rtol=1e-12)
    assert summary["means"] == model.mus_.tolist()
    assert summary["sds"] == np.sqrt(model.tau2s_).tolist()
