"""Ranks: closed forms, brute force over draws and grids, published formulas, laws, sets that hold all ranks."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm, studentized_range

from estimators import BetaBinomial, GammaPoisson, GaussianMeans, MixtureMeans, NonparametricMeans, PointNormalMeans
from estimators.decisions import normal_r_values, pairwise, r_values, ranking, simultaneous_ranks
from estimators.decisions.ranking import expected_below, range_quantile

Y, V = np.array([2, 1.2, -0.5, 3, 0.8, 0.1]), np.array([1, 0.25, 0.25, 4, 0.1, 1])


def known():
    return GaussianMeans("fixed", mu=0.0, tau2=1.0).fit(Y, V)


def test_expected_ranks_of_normal_posteriors_by_the_published_formula():
    """1 + sum of Phi((m_i - m_j) / sqrt(v_i + v_j)) by hand: independent posteriors N(w y, w V), w = 1 / (1 + V)."""
    ranks = known().rank(largest_first=False)
    # Computed by another program from the formula (Laird and Louis 1989).
    golden = [4.576643, 4.634317, 1.535199, 3.695231, 4.040610, 2.518001]
    assert ranks.expected == pytest.approx(golden, abs=6e-7)
    assert (ranks.standard_error == 0).all()
    assert ranks.place.tolist() == [5, 6, 1, 3, 4, 2]
    # Integrals, which other models use, agree with the closed form of pairs.
    assert 1 + expected_below(known()) == pytest.approx(ranks.expected, abs=1e-6)


def test_r_values_of_normal_clients_by_the_published_definition():
    golden = [0.079411, 0.118644, 0.690559, 0.165883, 0.201625, 0.471015]  # by another program, six equally likely designs
    assert normal_r_values(Y, V) == pytest.approx(golden, abs=6e-7)
    assert normal_r_values(3 * Y + 7, 9 * V, mu=7.0, tau2=9.0) == pytest.approx(golden, abs=6e-7)
    # With equal variances every list is that of the largest estimates, a share of the law of estimates.
    equal = normal_r_values(Y, 0.5)
    assert equal == pytest.approx(norm.sf(Y / 1.5**0.5), abs=1e-9)


def test_r_values_of_clients_are_lists_of_their_length():
    model = GaussianMeans("reml").fit(Y * 2, V)
    found = r_values(model)
    assert sorted(found) == pytest.approx(np.arange(1, 7) / 6)
    assert r_values(GaussianMeans("reml").fit(-Y * 2, V), largest_first=False) == pytest.approx(found)
    # Many clients: near the r-values of their law, whose designs are equally likely.
    generator = np.random.default_rng(1)
    v = generator.choice(V, 4000)
    y = generator.normal(0, np.sqrt(1 + v))
    many = r_values(GaussianMeans("fixed", mu=0.0, tau2=1.0).fit(y, v))
    assert np.abs(many - normal_r_values(y, v)).max() < 0.05
    assert np.abs(many - normal_r_values(y, v)).mean() < 0.012


@pytest.mark.parametrize(
    "model",
    [
        BetaBinomial("fixed", alpha=2, beta=5).fit([0, 1, 5, 9, 3], [3, 10, 10, 11, 40]),
        GammaPoisson("fixed", shape=2, rate=1).fit([0, 1, 5, 9], [1.0, 2.0, 2.0, 9.0]),
        PointNormalMeans(prior="marginal-likelihood").fit([0.0, 0.5, -0.1, 4.0, 0.2, -6.0], [1, 0.5, 1, 2, 0.1, 1]),
        NonparametricMeans().fit([0.0, 0.5, 3.0, 4.0], [1, 0.5, 1, 2]),
        MixtureMeans(2, components="points").fit([0.0, 0.5, 3.0, 4.0], [1, 0.5, 1, 0.5]),
        MixtureMeans(2).fit([0.0, 0.5, 3.0, 4.0, 0.1, 3.3], [1, 0.5, 1, 0.5, 0.2, 0.1]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_integrals_against_brute_force_over_a_grid(model):
    """P(theta_i > theta_j) + P(equal) / 2 from probabilities of 40,000 cells and atoms: no quadrature rule in common."""
    mean, sd = model.posterior_mean_, model.posterior_sd_
    edges = np.linspace((mean - 12 * sd).min() - 1e-6, (mean + 60 * sd).max() + 1e-6, 40_001)
    edges = np.union1d(edges, np.concatenate((model.atoms() - 1e-9, model.atoms())))
    cells = np.diff(np.array([model.posterior_cdf(float(t)) for t in edges]), axis=0)
    below = np.cumsum(cells, axis=0) - cells / 2
    brute = np.einsum("ci,cj->ij", cells, below)
    np.fill_diagonal(brute, 0.5)
    assert expected_below(model) == pytest.approx(brute.sum(axis=1) - 0.5, abs=2e-4)
    if model.averaged() is model:  # priors of any shape decide by averages over drawn priors
        assert pairwise(model) == pytest.approx(brute, abs=3e-5)
        assert model.rank().expected == pytest.approx(1 + brute.sum(axis=0) - 0.5, abs=2e-4)


class Spiked:
    """Each client is at one of some atoms with its own probability, else anywhere between 0 and a width of its own."""

    def __init__(self, atoms, p, width):
        self.places, self.p, self.width = np.array(atoms), p, width
        self.posterior_mean_ = p * self.places.mean() + (1 - p) * width / 2
        square = p * (self.places**2).mean() + (1 - p) * width**2 / 3
        self.posterior_sd_ = np.sqrt(square - self.posterior_mean_**2)

    def atoms(self):
        return self.places

    def posterior_cdf(self, t, strict=False):
        there = (self.places < t if strict else self.places <= t).mean()
        return self.p * there + (1 - self.p) * np.clip(t / self.width, 0, 1)


@pytest.mark.parametrize("atoms", [[0.0], [2.0], [0.0, 2.0], [0.3], [0.2, 0.4]])
def test_laws_with_atoms_are_not_taken_for_atoms_alone(atoms):
    """Whatever else there is lies beyond the last atom, before the first, between them, or around."""
    p, width = np.array([0.9, 0.5, 0.2, 0.7]), np.array([2.0, 1.0, 0.5, 1.5])
    one, other = p[:, None], p[None, :]
    ratio = width[None, :] / width[:, None]
    spread = np.where(ratio <= 1, 1 - ratio / 2, 1 / (2 * ratio))  # that one uniform number is above the other
    above = np.clip(np.array(atoms)[:, None] / width, 0, 1).mean(axis=0)  # that an atom is above the uniform number
    chance = (1 - one) * (1 - other) * spread + one * (1 - other) * above[None, :]
    chance += (1 - one) * other * (1 - above[:, None]) + one * other / 2
    right = chance.sum(axis=1) - np.diag(chance)
    assert expected_below(Spiked(atoms, p, width)) == pytest.approx(right, abs=2e-4)


@pytest.mark.parametrize(
    "model",
    [
        GaussianMeans().fit(Y, V),
        GaussianMeans("reml").fit(Y * 2, V),
        GaussianMeans().fit(Y, V, covariates=[0.0, 1.0, 2.0, 3.0, 4.0, 6.0]),
    ],
    ids=["averaged", "plug-in", "covariates"],
)
def test_pairs_of_normal_models_against_joint_draws(model):
    draws = model.posterior_draws(40_000, seed=3)
    counted = np.array([[np.mean(draws[:, i] > draws[:, j]) for j in range(6)] for i in range(6)])
    np.fill_diagonal(counted, 0.5)
    # 15 different pairs at a false alarm of 1e-6 in all: 5.4 binomial standard errors.
    assert (np.abs(pairwise(model) - counted) < 5.4 * np.sqrt(0.25 / 40_000)).all()


def test_what_is_unknown_of_the_centre_moves_all_clients_together():
    """With equal variances a common centre cannot change an order: pairs are as if it were known; marginal laws err."""
    model = GaussianMeans("fixed", tau2=0.5).fit([0.0, 1.0, 2.0], 1.0)
    gap, variance = 1 / 3, 2 / 3  # of posteriors given the centre: weight 1/3, variance 1/3 each
    assert pairwise(model)[1, 0] == pytest.approx(norm.cdf(gap / variance**0.5), abs=1e-12)
    marginal = norm.cdf(gap / np.sqrt(2 * model.posterior_sd_[0] ** 2))
    assert abs(marginal - pairwise(model)[1, 0]) > 0.02


def test_joint_draws_have_the_posterior_laws():
    models = [
        GaussianMeans().fit(Y, V),
        PointNormalMeans().fit(3 * Y, V),
        PointNormalMeans(mode=0.0).fit(3 * Y, V),
        BetaBinomial().fit([0, 1, 5, 9, 3], [3, 10, 10, 11, 40]),
        GammaPoisson().fit([0, 1, 5, 9], [1.0, 2.0, 2.0, 9.0]),
    ]
    for model in models:
        draws = model.posterior_draws(20_000, seed=5)
        for q in (0.1, 0.5, 0.9):
            t = model.posterior_quantile(q) + 1e-9
            # 5.5 standard errors: 28 clients x 3 quantiles at 1e-5 in all; an atom may carry more than q.
            gap = np.mean(draws <= t, axis=0) - model.posterior_cdf(t)
            assert (np.abs(gap) < 5.5 * np.sqrt(0.25 / 20_000)).all(), (type(model).__name__, q, gap)


def test_seeds_of_draws_go_up_to_the_63rd_power_of_two():
    model = BetaBinomial().fit([0, 1, 5], [3, 10, 10])
    assert model.posterior_draws(2, seed=2**63).shape == (2, 3)
    for draws, seed, name in ((2, -1, "seed"), (2, 2**63 + 1, "seed"), (0, 0, "draws"), (2**31 + 1, 0, "draws")):
        with pytest.raises(ValueError, match=f"{name} must be in"):
            model.posterior_draws(draws, seed=seed)


def test_ranks_add_up_and_turn_around():
    model = BetaBinomial().fit([0, 1, 5, 9, 3], [3, 10, 10, 11, 40])
    up, down = model.rank(largest_first=True, seed=4), model.rank(largest_first=False, seed=4)
    assert up.expected.sum() == pytest.approx(15)
    assert up.expected + down.expected == pytest.approx(np.full(5, 6.0))
    assert up.low.tolist() == pytest.approx((6 - down.high).tolist(), abs=1)
    assert model.rank(first=5).top == pytest.approx(np.ones(5))
    assert up.top.sum() == pytest.approx(1, abs=1e-9)
    assert (up.low <= up.expected).all()
    assert (up.expected <= up.high).all()
    again = model.rank(seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(up, again, strict=True))
    assert not np.array_equal(model.rank(seed=5).expected, up.expected)


@pytest.mark.parametrize("make", [NonparametricMeans, lambda: MixtureMeans(2)], ids=["npmle", "mixture"])
def test_priors_of_any_shape_decide_by_what_their_intervals_count(make):
    """Under a normal prior fitted points are believed too much: ranks of averages hold more often, signs err less."""
    generator, held, wrong = np.random.default_rng(9), {}, {}
    v = np.linspace(0.3, 2, 20)
    truths = generator.normal(0.5, 1.0, (12, 20))
    models = [make().fit(generator.normal(truth, np.sqrt(v)), v) for truth in truths]
    for truth, model in zip(truths, models, strict=True):
        true = (-truth).argsort().argsort() + 1
        for name, used in (("fitted", model), ("averaged", model.averaged())):
            ranks = ranking.rank(used, draws=400)
            held.setdefault(name, []).append(np.mean((ranks.low <= true) & (true <= ranks.high)))
            error = np.minimum(used.posterior_cdf(0.0), 1 - used.posterior_cdf(0.0))
            sides = np.where(used.posterior_cdf(0.0) < 0.5, 1, -1)
            wrong.setdefault(name, []).append(np.mean(sides != np.sign(truth)) - error.mean())  # beyond what is said
    assert np.mean(held["averaged"]) > np.mean(held["fitted"]) + 0.02
    assert abs(np.mean(wrong["averaged"])) < abs(np.mean(wrong["fitted"]))
    model = models[-1]
    assert model.rank(draws=400).expected == pytest.approx(ranking.rank(model.averaged(), draws=400).expected)
    draws = model.averaged().sample_posterior(np.random.default_rng(0), 20_000)
    for t in (-0.5, 0.3, 1.0):
        gap = np.mean(draws <= t, axis=0) - model.averaged().posterior_cdf(t)
        assert (np.abs(gap) < 6 * np.sqrt(0.25 / 20_000)).all()


def test_clients_alike_share_their_rank():
    ranks = GaussianMeans().fit([1.0, 1.0, 2.0], 1.0).rank()
    assert ranks.expected[0] == pytest.approx(ranks.expected[1], abs=1e-12)
    assert ranks.place.tolist() == [2.5, 2.5, 1.0]
    ranks = BetaBinomial("marginal-likelihood").fit([5, 5, 5], 10).rank()  # the pooled share for all
    assert ranks.expected.tolist() == [2.0, 2.0, 2.0]
    assert ranks.low.tolist() == ranks.high.tolist() == [2.0, 2.0, 2.0]


def test_rank_intervals_hold_the_ranks_of_truths_drawn_from_the_prior():
    """95 % intervals with the true prior, 300 data sets of 20 clients; also a control: half the width fails."""
    generator, held, short, replicates = np.random.default_rng(11), [], [], 300
    v = np.geomspace(0.1, 3, 20)
    for _ in range(replicates):
        truth = generator.normal(0, 1, 20)
        ranks = GaussianMeans("fixed", mu=0.0, tau2=1.0).fit(generator.normal(truth, np.sqrt(v)), v).rank(draws=1000)
        true = (-truth).argsort().argsort() + 1
        held.append(np.mean((ranks.low <= true) & (true <= ranks.high)))
        middle, half = (ranks.low + ranks.high) / 2, (ranks.high - ranks.low) / 4
        short.append(np.mean(np.abs(true - middle) <= half))
    error = np.std(held) / np.sqrt(replicates)
    assert np.mean(held) > 0.95 - 4.75 * error  # one-sided 1e-6: discrete ends hold at least as often
    assert np.mean(held) < 0.985
    assert np.mean(short) < 0.9


def test_simultaneous_sets_hold_all_ranks_at_once():
    generator, replicates = np.random.default_rng(2), 2000
    truth, v = np.repeat([0.0, 1.0, 3.0], 4), np.geomspace(0.2, 1, 12)
    held = 0
    best, worst = [1 + np.sum(truth > t) for t in truth], [np.sum(truth >= t) for t in truth]
    for _ in range(replicates):
        low, high = simultaneous_ranks(generator.normal(truth, np.sqrt(v)), v)
        held += bool(np.all((low <= best) & (worst <= high)))
    assert held / replicates > 0.95 - 4.75 * np.sqrt(0.05 * 0.95 / replicates)


def test_the_range_is_that_of_the_studentised_range_with_known_variance():
    for m, level in itertools.product((2, 3, 10, 100), (0.9, 0.99)):
        assert range_quantile(m, level) == pytest.approx(studentized_range.ppf(level, m, np.inf), abs=2e-5)
    assert range_quantile(2, 0.95) == pytest.approx(np.sqrt(2) * norm.ppf(0.975), abs=1e-9)


def test_the_first_set_holds_the_most_of_the_true_ones():
    model = BetaBinomial().fit([0, 1, 5, 9, 3], [3, 10, 10, 11, 40])
    ranks = model.rank(first=2, seed=1)
    draws = model.posterior_draws(4000, seed=2)
    true = np.argsort(-draws, axis=1)[:, :2]
    overlap = {some: np.isin(true, some).sum() / 4000 for some in itertools.combinations(range(5), 2)}
    best = tuple(sorted(ranks.first_set().tolist()))
    assert overlap[best] >= max(overlap.values()) - 0.05
    assert overlap[best] == pytest.approx(ranks.top[list(best)].sum(), abs=0.05)
    assert ranks.top[ranks.first_set()[0]] == ranks.top.max()


def test_simultaneous_is_an_option_of_rank():
    model = GaussianMeans().fit([10.0, 0.0, 1.0], 1.0)
    ranks = model.rank(method="simultaneous")
    assert (ranks.low.tolist(), ranks.high.tolist(), ranks.method) == ([1, 2, 2], [1, 3, 3], "simultaneous")
    assert ranks.expected.tolist() == model.rank().expected.tolist()
    with pytest.raises(ValueError, match="need one normal estimate of known variance per client"):
        BetaBinomial().fit([1, 5, 3], 9).rank(method="simultaneous")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.rank(first=7), "first must be"),
        (lambda m: m.rank(level=1.0), "level must lie strictly between 0 and 1"),
        (lambda m: m.rank(draws=1), "draws"),
        (lambda m: m.rank(seed=-1), "seed"),
        (lambda m: m.rank(method="other"), "method must be"),
        (lambda m: pairwise(m, [0, 9]), r"clients must be positions of clients, whole numbers in 0\.\.5"),
        (lambda m: normal_r_values(Y, V, tau2=0.0), "tau2 must be > 0"),
        (lambda m: normal_r_values(Y, -V), "variances"),
        (lambda m: simultaneous_ranks([1.0], 1.0), "at least two clients"),
        (lambda m: simultaneous_ranks([1.0, np.nan], 1.0), "estimates"),
        (lambda m: GaussianMeans().rank(), "call fit first"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(known())


def test_pairs_of_many_clients_are_counted_in_joint_draws(monkeypatch):
    model = GaussianMeans().fit([-1.0, 0.0, 0.2, 2.5], [1.0, 0.5, 2.0, 1.0])
    integrated = pairwise(model)
    monkeypatch.setattr(ranking, "FEW", 0)  # as of clients too many for a closed form
    counted = pairwise(model, draws=10_000, seed=1)
    assert not np.array_equal(counted, integrated)
    assert (np.abs(counted - integrated) < 4 * np.sqrt(0.25 / 10_000)).all()
