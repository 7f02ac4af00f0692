"""Mixtures of points and Gaussians as priors: outside oracles, laws, real data, the paper's Algorithm 1, bad input."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from estimators import GaussianMeans, MixtureMeans
from estimators.closed_forms import mixture
from estimators.normal_means import mixture_means, mixture_sampling
from estimators.normal_means.mixture_likelihood import Data, Prior


def sample(m, p, mus, sds, seed, smallest=0.2):
    """Truth, estimates and unequal variances."""
    rng = np.random.default_rng(seed)
    which = rng.choice(len(p), m, p=p)
    truth = np.asarray(mus, float)[which] + np.asarray(sds, float)[which] * rng.standard_normal(m)
    v = rng.gamma(2, 0.3, m) + smallest
    return truth, truth + np.sqrt(v) * rng.standard_normal(m), v


def plain_log_likelihood(y, v, p, mus, tau2s):
    return np.log(sum(w * stats.norm.pdf(y, c, np.sqrt(t + v)) for w, c, t in zip(p, mus, tau2s, strict=True))).sum()


@pytest.mark.parametrize("components", ["gaussian", "points"])
@pytest.mark.parametrize("d", [1, 3])
def test_derivatives_against_differences(components, d):
    rng = np.random.default_rng(0)
    data = Data(2 * rng.standard_normal((60, d)), rng.random(60) + 0.5, components)
    x = rng.random(2 * (d + 1 + (components == "gaussian"))) + 0.2
    gradient, hessian = data.derivatives(x, 2)
    steps = 1e-5 * np.eye(x.size)
    values = [[data.weigh(*data.unpack(x + sign * step, 2))[0] / 60 for sign in (1, -1)] for step in steps]
    np.testing.assert_allclose(gradient, [(a - b) / 2e-5 for a, b in values], atol=1e-8)
    slopes = [[data.derivatives(x + sign * step, 2)[0] for sign in (1, -1)] for step in steps]
    np.testing.assert_allclose(hessian, [(a - b) / 2e-5 for a, b in slopes], atol=1e-8)


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(["gaussian", "points"]))
@settings(max_examples=max(10, settings().max_examples // 4))
def test_no_step_lowers_the_likelihood(seed, k, components):
    _, y, v = sample(40, [0.5, 0.5], [-1, 2], [0.5, 0], seed)
    data = Data(y[:, None], v, components)
    rng = np.random.default_rng(seed)
    tau2s = rng.random(k) if components == "gaussian" else np.zeros(k)
    prior, values = (np.full(k, 1 / k), rng.choice(y, k)[:, None], tau2s), []
    for _ in range(15):
        *prior, value = data.em(*prior)
        values.append(value)
    assert (np.diff(values) >= -1e-10 * abs(values[0])).all()
    _, trace, settled = data.climb(Prior(*prior, data.weigh(*prior)[0]), 500, 1e-8)
    assert settled
    assert (np.diff(trace) > 0).all()
    assert trace[0] >= values[-1] - 1e-10 * abs(values[0])


@pytest.mark.parametrize("seed", range(3))
def test_one_gaussian_is_gaussian_means(seed):
    _, y, v = sample(60, [1.0], [0.4], [0.7], seed)
    one, plain = MixtureMeans(k=1).fit(y, v), GaussianMeans("marginal-likelihood").fit(y, v)
    np.testing.assert_allclose([one.mus_[0], one.tau2s_[0]], [plain.mu_, plain.tau2_], rtol=1e-6)
    assert one.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-12)
    np.testing.assert_allclose(one.posterior_mean_, plain.posterior_mean_, rtol=1e-6)
    known = GaussianMeans("fixed", mu=plain.mu_, tau2=plain.tau2_).fit(y, v)  # the mixture's sd takes its prior as known
    np.testing.assert_allclose(one.posterior_sd_, known.posterior_sd_, rtol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_points_are_those_of_the_discrete_prior(k):
    _, y, v = sample(150, [0.5, 0.3, 0.2], [-1.5, 0.5, 3], [0, 0, 0], 1, smallest=0.05)
    ours, em = MixtureMeans(k=k, components="points").fit(y, v), mixture.DiscretePrior(k=k).fit(y, v)
    assert ours.log_likelihood_ >= em.log_likelihood_ - 1e-7
    np.testing.assert_allclose(ours.mus_, em.mus_, atol=1e-3)
    np.testing.assert_allclose(ours.posterior_mean_, em.posterior_mean_, atol=1e-3)
    assert ours.log_likelihood_ == pytest.approx(mixture.log_likelihood(y, ours.p_, ours.mus_, v), rel=1e-12)
    np.testing.assert_allclose(ours.responsibilities_, mixture.posterior_weights(y, ours.p_, ours.mus_, v), atol=1e-12)


def test_posterior_against_quadrature():
    _, y, v = sample(80, [0.6, 0.4], [0, 3], [0.3, 1], 2)
    model = MixtureMeans(k=2).fit(y, v)
    parts = (model.p_, model.mus_, model.tau2s_)
    assert model.log_likelihood_ == pytest.approx(plain_log_likelihood(y, v, *parts), rel=1e-12)

    for i in (0, 5):

        def joint(t, i=i):
            prior = sum(w * stats.norm.pdf(t, c, np.sqrt(s)) for w, c, s in zip(*parts, strict=True))
            return prior * stats.norm.pdf(y[i], t, np.sqrt(v[i]))

        def moment(g, upper=15.0, f=joint):
            return integrate.quad(lambda t: g(t) * f(t), -15, upper, limit=200, points=model.mus_)[0]

        total, mean = moment(lambda t: 1.0), moment(lambda t: t)
        mean /= total
        sd = np.sqrt(moment(lambda t, c=mean: (t - c) ** 2) / total)
        np.testing.assert_allclose([model.posterior_mean_[i], model.posterior_sd_[i]], [mean, sd], rtol=1e-7)
        at = model.mus_.mean()
        below = integrate.quad(joint, -15, at, limit=200)[0] / total
        np.testing.assert_allclose(model.posterior_cdf(at)[i], below, rtol=1e-7)
    for q in (0.025, 0.5, 0.9):
        np.testing.assert_allclose(model.posterior_cdf(model.posterior_quantile(q)), q, rtol=1e-12)


def test_quantiles_of_points_and_of_points_among_gaussians():
    _, y, v = sample(100, [0.5, 0.5], [0, 4], [0, 1.5], 3)
    points = MixtureMeans(k=3, components="points").fit(y, v)
    steps = points.responsibilities_.cumsum(axis=1)
    for q in (0.1, 0.5, 0.99):
        assert np.array_equal(points.posterior_quantile(q), points.mus_[(steps < q).sum(axis=1)])
    mixed = MixtureMeans(k=2).fit(y, v)
    mixed.tau2s_[np.argmin(mixed.tau2s_)] = 0.0
    for q in (0.1, 0.5, 0.9):
        t = mixed.posterior_quantile(q)
        assert (mixed.posterior_cdf(t) >= q - 1e-12).all()
        assert (mixed.posterior_cdf(t - 1e-6) < q).all()


def test_shifts_scales_and_order_carry_over():
    _, y, v = sample(120, [0.5, 0.5], [-2, 2], [0.5, 0.5], 4)
    plain, moved = MixtureMeans(k=2).fit(y, v), MixtureMeans(k=2).fit(7 - 3 * y[::-1], 9 * v[::-1])
    np.testing.assert_allclose(moved.posterior_mean_, 7 - 3 * plain.posterior_mean_[::-1], rtol=1e-5)
    np.testing.assert_allclose(moved.mus_, np.sort(7 - 3 * plain.mus_), rtol=1e-5)
    low, high = plain.interval(method="posterior")
    np.testing.assert_allclose(moved.interval(method="posterior"), (7 - 3 * high[::-1], 7 - 3 * low[::-1]), rtol=1e-5)


def test_averages_over_priors_are_of_no_unit():
    """The law of mixtures is in the unit of the noise: its harmonic mean, whatever power of two the fit computes in."""
    _, y, v = sample(40, [0.5, 0.5], [-2, 2], [0.5, 0.5], 4)
    plain, moved = (MixtureMeans(k=2).fit(scale * y, scale**2 * v) for scale in (1.0, 3.0))
    np.testing.assert_allclose(moved.interval(), 3 * np.array(plain.interval()), rtol=1e-6)


@pytest.mark.parametrize(
    ("k", "components", "m", "mixed", "wanted", "draws"),
    [(2, "gaussian", 60, 500_000, 2, 200), ("bic", "gaussian", 60, 60 * 4 * 100, 4, 100),
     ("bic", "points", 60, 500_000, 4, 25), (2, "gaussian", 60, 1, 2, 25),
     ("bic", "gaussian", 3, 500_000, 3, 200), (5, "gaussian", 60, 60 * 5 * 30, 5, 30)],
)  # fmt: skip
def test_averages_begin_at_the_fit_and_draw_four_sweeps_apart_after_as_many(
    k, components, m, mixed, wanted, draws, monkeypatch
):
    """In units of the noise, from the centre; a number that was searched for leaves room for more components."""
    asked = []

    def chain(generator, *arguments):
        asked.append(arguments)
        weights, centres, tau2s = arguments[5:8]
        return tuple(np.stack([part, part]) for part in (weights, centres, tau2s))

    monkeypatch.setattr(mixture_sampling, "chain", chain)
    monkeypatch.setattr(mixture_means, "MIXED", mixed)
    _, y, v = sample(m, [0.5, 0.5], [-200, 200], [30, 30], 3)
    v = v * 1e4
    model = MixtureMeans(k, components, restarts=2).fit(y, v)
    averaged = model.averaged()
    ((z, noise, reach2, strength, points, p, mus, tau2s, burn, every, number),) = asked
    unit, centre = np.mean(1 / v) ** -0.5, np.average(y, weights=1 / v)
    np.testing.assert_allclose(z[:, 0], (y - centre) / unit, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(noise, v / unit**2, rtol=1e-12)
    assert reach2 == pytest.approx(max(1.0, np.abs(z).max() ** 2))
    extra = wanted - model.k_
    assert (strength, points) == (1.0 if extra == 0 else 1 / wanted, components == "points")
    np.testing.assert_allclose(p, np.append(model.p_, np.full(extra, 1e-3)) / (1 + 1e-3 * extra), rtol=1e-12)
    np.testing.assert_allclose(mus[:, 0], np.append((model.mus_ - centre) / unit, np.zeros(extra)), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(tau2s, np.append(model.tau2s_ / unit**2, np.full(extra, float(not points))), rtol=1e-9)
    assert (burn, every, number) == (4 * draws, 4, draws)
    if extra == 0:
        np.testing.assert_allclose(averaged.posterior_mean_, model.posterior_mean_, rtol=1e-7)
        np.testing.assert_allclose(averaged.posterior_sd_, model.posterior_sd_, rtol=1e-7)
    asked.clear()
    MixtureMeans(1).fit([0.1, 0.0, -0.1], 1.0).averaged()
    assert asked[0][2] == 1.0  # centres are looked for as far as the noise, at least


def test_bootstraps_learn_again_from_two_thousand_clients_at_most_with_two_starts(monkeypatch):
    fits = []

    class Noted(MixtureMeans):
        def fit(self, estimates, variances):
            fits.append((len(estimates), self.restarts, self.k, {*np.round(variances, 12)}))
            return super().fit(estimates, variances)

    assert (mixture_means.LEARNERS, mixture_means.REFITS) == (2000, 25)
    _, y, v = sample(40, [0.5, 0.5], [-2, 2], [0.5, 0.5], 3)
    for most, restarts, size, few in ((30, 3, 30, 2), (40, 1, 40, 1)):
        monkeypatch.setattr(mixture_means, "LEARNERS", most)
        model = Noted(2, restarts=restarts).fit(y, v)
        fits.clear()
        low, high = model.interval(0.9, "bootstrap")
        assert [fit[:3] for fit in fits] == [(size, few, 2)] * 25
        assert all(len(fit[3]) == size and fit[3] <= {*np.round(v, 12)} for fit in fits)
        assert (low < high).all()


def test_bootstraps_have_no_unit():
    _, y, v = sample(12, [0.5, 0.5], [-2, 2], [0.5, 0.5], 3)
    one, other = (
        np.array(MixtureMeans(2, restarts=1).fit(u * y, u**2 * v).interval(0.9, "bootstrap")) for u in (1.0, 1024.0)
    )
    np.testing.assert_allclose(other, 1024 * one, rtol=1e-6)


def test_defaults_of_mixtures():
    asked = {"k": "bic", "components": "gaussian", "restarts": 10, "max_iter": 1000, "tol": 1e-8, "seed": 0}
    assert MixtureMeans().get_params() == asked


def test_two_dimensions():
    rng = np.random.default_rng(5)
    centres = np.array([[0.0, 0.0], [3.0, -3.0]])
    truth = centres[rng.choice(2, 400, p=[0.7, 0.3])] + np.array([0.5, 0.5]) * rng.standard_normal((400, 2))
    v = rng.gamma(2, 0.3, 400) + 0.2
    y = truth + np.sqrt(v)[:, None] * rng.standard_normal((400, 2))
    model = MixtureMeans(k="bic").fit(y, v)
    assert model.k_ == 2
    np.testing.assert_allclose(model.mus_, centres, atol=0.3)  # some 4 standard errors
    assert model.posterior_mean_.shape == model.posterior_sd_.shape == model.posterior_cdf(0.0).shape == (400, 2)
    low, high = model.interval()
    assert abs(((low <= truth) & (truth <= high)).mean() - 0.95) < 5 * np.sqrt(0.05 * 0.95 / 800)
    assert ((model.posterior_mean_ - truth) ** 2).sum() < 0.6 * ((y - truth) ** 2).sum()
    again, (estimates, _) = model.draw(rng)
    assert again.shape == estimates.shape == (400, 2)


def test_search_for_the_number_of_components():
    _, y, v = sample(3000, [0.5, 0.3, 0.2], [-3, 0, 4], [0.3, 0.3, 0.3], 6)
    model = MixtureMeans().fit(y, v)
    assert (model.k_, list(model.path_)) == (3, [1, 2, 3, 4, 5])  # the criterion has risen twice
    reached = [value for value, _ in model.path_.values()]
    assert (np.diff(reached) >= -1e-9 * abs(reached[0])).all()
    assert model.log_likelihood_ == model.path_[3][0] == model.log_likelihoods_[-1]
    np.testing.assert_allclose(model.mus_, [-3, 0, 4], atol=0.25)
    one = MixtureMeans().fit(*sample(200, [1.0], [0], [1], 7)[1:])
    assert (one.k_, list(one.path_)) == (1, [1, 2, 3])


@pytest.mark.parametrize(
    ("components", "d", "free"),
    [("gaussian", 1, {1: 2, 2: 5}), ("points", 1, {1: 1, 2: 3}), ("gaussian", 2, {1: 3, 2: 7}), ("points", 2, {1: 2, 2: 5})],
)
def test_the_criterion_is_schwarzs_in_any_unit(components, d, free):
    """Free are all weights but one, every coordinate of a centre, and one variance for each Gaussian."""
    rng = np.random.default_rng(10)
    y, v = np.repeat([-3.0, 3.0], 20)[:, None] + rng.standard_normal((40, d)), rng.uniform(0.5, 1.5, 40)
    plain, large = MixtureMeans(components=components).fit(y, v), MixtureMeans(components=components).fit(1e5 * y, 1e10 * v)
    for model, unit in ((plain, 1.0), (large, 1e5)):
        for k, number in free.items():
            value, criterion = model.path_[k]
            assert criterion == pytest.approx(number * np.log(40) - 2 * value, rel=1e-12)
            assert value + y.size * np.log(unit) == pytest.approx(plain.path_[k][0], rel=1e-9)
        assert model.k_ == min(model.path_, key=lambda k: model.path_[k][1]) == 2
        assert model.log_likelihood_ == model.path_[2][0]


def test_coverage_and_reproducibility():
    _, y, v = sample(3000, [0.5, 0.5], [0, 3], [0.3, 0.8], 8)
    model = MixtureMeans(k=2, seed=1).fit(y, v)
    truth, arguments = model.draw(np.random.default_rng(2))
    again = MixtureMeans(k=2, seed=1).fit(*arguments)
    low, high = again.interval()
    assert abs(((low <= truth) & (truth <= high)).mean() - 0.95) < 5 * np.sqrt(0.05 * 0.95 / 3000)
    twin = MixtureMeans(k=2, seed=1).fit(*arguments)
    assert np.array_equal(twin.posterior_mean_, again.posterior_mean_)
    assert np.mean((again.posterior_mean_ - truth) ** 2) < np.mean(
        (GaussianMeans().fit(*arguments).posterior_mean_ - truth) ** 2
    )


def test_intervals_count_that_groups_were_learnt():
    """90 % of 30 clients equal: intervals that take the groups for true miss a third; none has width 0 at a point."""
    held, generator = {"integrated": [], "bootstrap": [], "posterior": []}, np.random.default_rng(2)
    for _ in range(12):
        truth = np.where(generator.random(30) < 0.9, 0.0, 4 * generator.standard_normal(30))
        model = MixtureMeans(restarts=2).fit(generator.normal(truth, 1.0), 1.0)
        for method, found in held.items():
            low, high = model.interval(method=method)
            found.append(np.mean((low <= truth) & (truth <= high)))
    error = {method: 5 * np.std(found) / np.sqrt(len(found)) for method, found in held.items()}
    for method in ("integrated", "bootstrap"):
        assert np.mean(held[method]) > 0.95 - error[method]
    assert np.mean(held["posterior"]) < np.mean(held["bootstrap"]) - 0.1
    points = MixtureMeans(k=2, components="points").fit([-2.1, -1.9, 1.8, 2.0, 2.2], 0.3)
    low, high = points.interval()
    assert (low < high).all()
    np.testing.assert_array_equal(points.interval(), (low, high))
    assert not np.array_equal(points.interval(seed=1), (low, high))
    both = MixtureMeans(k=2).fit(generator.normal(0, 2, (20, 2)), 1.0).interval()
    assert both[0].shape == both[1].shape == (20, 2)


def test_where_the_papers_algorithm_fails():
    """Two values, -1 and 1, and unit noise: EM finds them, and Algorithm 1 draws its centres together (generative:alg1)."""
    rng = np.random.default_rng(9)
    truth = rng.choice([-1.0, 1.0], 4000)
    y = truth + rng.standard_normal(4000)
    em = MixtureMeans(k=2, components="points").fit(y, 1.0)
    np.testing.assert_allclose(em.mus_, [-1, 1], atol=0.15)  # 5 standard errors
    paper = mixture.alternate_clusters(y, 1.0, k=2, rounds=40)
    assert paper.spreads[0] > 2.2  # starts too far out, ...
    assert paper.spreads[-1] < 0.2  # ... and collapses
    best = mixture.risk([0.5, 0.5], [-1.0, 1.0], 1.0, 1)
    assert np.mean((em.posterior_mean_ - truth) ** 2) < 1.1 * best
    assert np.mean((paper.models - truth) ** 2) > 1.5 * best


def test_woba(shared_data):
    """The normal prior is R ebnm's; point-normal (990.290870) and its gridded NPMLE (994.192998) lie below and above."""
    with open(shared_data("baseball/woba_2022.csv"), encoding="utf-8", newline="") as file:
        y, s = np.array([(float(row["x"]), float(row["s"])) for row in csv.DictReader(file)]).T
    one, two, three = (MixtureMeans(k=k).fit(y, s**2) for k in (1, 2, 3))
    assert one.log_likelihood_ == pytest.approx(989.635658, abs=1e-5)
    assert one.mus_[0] == pytest.approx(0.30141900, abs=1e-7)
    assert np.sqrt(one.tau2s_[0]) == pytest.approx(0.02874037, abs=1e-7)
    assert two.log_likelihood_ == pytest.approx(993.087466, abs=1e-5)
    assert 993.087466 < three.log_likelihood_ < 994.2862
    points = MixtureMeans(k=4, components="points").fit(y, s**2)
    assert points.log_likelihood_ == pytest.approx(994.286130, abs=1e-4)
    assert points.log_likelihood_ > 994.192998


def test_prostate(shared_data):
    z = np.loadtxt(shared_data("efron_eb/empirikos_prostz.txt"), skiprows=1)
    model = MixtureMeans(k=2).fit(z, 1.0)
    assert model.log_likelihood_ == pytest.approx(-9288.511969, abs=1e-4)
    assert model.tau2s_[0] == 0  # most genes: a point near 0
    assert model.p_[0] == pytest.approx(0.8256, abs=1e-3)
    points = MixtureMeans(k=4, components="points").fit(z, 1.0)
    assert points.log_likelihood_ == pytest.approx(-9286.000047, abs=1e-4)


def test_degenerate_input():
    equal = MixtureMeans(k=2).fit([1.0, 1.0, 1.0], 0.5)
    np.testing.assert_allclose(equal.posterior_mean_, 1.0)
    assert equal.tau2s_.max() < 1e-6
    assert np.isfinite(equal.log_likelihood_)
    pair = MixtureMeans().fit([0.0, 9.0], [1.0, 2.0])
    assert np.isfinite(pair.posterior_mean_).all()
    far = MixtureMeans(k=2).fit([-1e8, 1e8, -1e8, 1e8], 1e-6)
    assert np.isfinite(far.posterior_mean_).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: MixtureMeans().fit([1.0], 1.0), "at least two clients"),
        (lambda: MixtureMeans(k=3).fit([1.0, 2.0], 1.0), "k = 3 values cannot be learned from 2 clients"),
        (lambda: MixtureMeans(k=0).fit([1.0, 2.0], 1.0), "k must be a whole number"),
        (lambda: MixtureMeans(k="aic").fit([1.0, 2.0], 1.0), "k must be one of"),
        (lambda: MixtureMeans(components="x").fit([1.0, 2.0], 1.0), "components must be one of"),
        (lambda: MixtureMeans(restarts=0).fit([1.0, 2.0], 1.0), "restarts must be a whole number"),
        (lambda: MixtureMeans(tol=0).fit([1.0, 2.0], 1.0), "tol must be > 0"),
        (lambda: MixtureMeans().fit([1.0, np.nan], 1.0), "estimates holds NaN"),
        (lambda: MixtureMeans().fit([1.0, 2.0], [1.0, 0.0]), "variances must be > 0"),
        (lambda: MixtureMeans().fit([1.0, 2.0], [1.0, np.inf]), "variances must be finite"),
        (lambda: MixtureMeans().fit([1.0, 2.0], [1.0, 1.0, 1.0]), "variances must be one number or one per client"),
        (lambda: MixtureMeans(k=1).fit([1.0, 2.0], 1.0).posterior_quantile(1), "q must lie strictly between"),
        (lambda: MixtureMeans().interval(), "has not been fitted"),
    ],
)
def test_bad_input_names_the_argument(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_the_search_for_k_is_bounded():
    """Estimates far apart would have a component each; it took minutes to find out."""
    y = np.random.default_rng(0).uniform(0, 1000, 300)
    with pytest.warns(RuntimeWarning, match="stops at 20 components.*give k"):
        model = MixtureMeans(components="points").fit(y, 1.0)
    assert max(model.path_) == 20
    assert model.converged_
