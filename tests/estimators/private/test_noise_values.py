"""Noise on whole numbers of many clients: what it costs, that it is the least, and its law, against enumeration."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from estimators.accounting import mechanisms, privacy
from estimators.private import exact_noise, noise
from estimators.private.distributed import distributed_mean, sigma2_each, sum_gap, summed_delta, summed_divergences
from estimators.private.staircase import Staircase

RNG = np.random.default_rng


def release(mechanism, totals, sensitivities, shares=(1,), eps=0.9, delta=1e-4, **more):
    return noise.add_noise(
        totals, eps=eps, delta=delta, mechanism=mechanism, adjacency="row", trusted="client", generator=RNG(1),
        sensitivities=sensitivities, shares=list(shares), **more,
    )  # fmt: skip


def test_laplace_noise_is_shared_out_and_what_does_not_change_has_none():
    found = release("discrete-laplace", [[5, 7], [100, 200]], [[3, 0], [4, 4]], (Fraction(1, 4), Fraction(3, 4)))
    assert found.values[0][1] == 7
    assert found.variances[0][1] == 0
    for change, share, variance in ((3, 0.25, found.variances[0][0]), (4, 0.75, found.variances[1][0])):
        fall = 0.9 * share / change  # of the log probability per number
        assert variance == pytest.approx(1 / (2 * np.sinh(fall / 2) ** 2), rel=1e-8)
    assert [g.eps for g in found.guarantees] == [0.9, 0.9]
    assert [g.delta for g in found.guarantees] == [0.0, 0.0]
    stairs = release("staircase", [[5, 7]], [[3, 0]])
    assert stairs.values[0][1] == 7
    assert stairs.variances[0] == [Staircase(sensitivity=3, eps=0.9).variance, 0.0]


@pytest.mark.parametrize("many", [8, 9, 3000])
def test_noise_of_many_clients_has_the_law_of_each(many):
    """One at a time up to eight, in arrays beyond; equal scales, different ones and none."""
    again = -(-400 // many)  # so many releases
    for changes in ([2] * many, [1 + i % 3 for i in range(many)], [i % 2 * 3 for i in range(many)]):
        scales = noise.laws_of("discrete-laplace", changes, Fraction(1, 2))
        drawn = np.concatenate([noise.laplaces(scales, RNG(k)) for k in range(again)])
        every = np.array(changes * again)
        for change in set(changes):
            mine, scale = drawn[every == change], scales[changes.index(change)]
            assert {s for s, c in zip(scales, changes, strict=True) if c == change} == {scale}
            if not change:
                assert (mine == 0).all()
                continue
            fall = 0.5 / change
            assert noise.laplace_variance(scale) == pytest.approx(1 / (2 * np.sinh(fall / 2) ** 2), rel=1e-8)
            none = np.tanh(fall / 2)
            assert np.mean(mine == 0) == pytest.approx(none, abs=5 * np.sqrt(none / mine.size))
    for sigma2s in ([6] * many, [2 + 9 * (i % 2) for i in range(many)]):
        drawn = np.concatenate([noise.gaussians(sigma2s, RNG(k)) for k in range(again)])
        for sigma2 in set(sigma2s):
            mine = drawn[np.array(sigma2s * again) == sigma2]
            assert mine.var() == pytest.approx(sigma2, rel=5 * np.sqrt(2 / mine.size))


def test_noise_of_many_clients_may_be_wider_than_arrays_draw():
    """Scales on either side of 2^50, some beyond the integers of arrays, and clients of whom nothing changes."""
    for scales in ([(1 << 50, 1)] * 400, [(1 << 51, 1)] * 400, [(1 << 60, 1), (1 << 80, 1)] * 200):
        drawn = noise.laplaces(scales, RNG(0))
        share = np.array([abs(y) * s / t for y, (t, s) in zip(drawn, scales, strict=True)])  # Exp(1), to a part in 2^50
        assert stats.kstest(share, "expon").pvalue > 1e-4
        assert abs(np.mean(np.sign(drawn))) < 5 / 20
    assert noise.laplaces([None] * 20, RNG(0)) == [0] * 20
    found = release("discrete-laplace", [[5] * 20], [[0] * 20])
    assert (found.values, found.variances) == ([[5] * 20], [[0.0] * 20])


def test_a_staircase_never_has_more_than_its_part_of_the_budget():
    """Parts that no float is, below and above 1, whose nearest float may be the larger number."""
    parts = [Fraction(k, 30) for k in range(1, 61)]
    assert {Fraction(float(part)) > part for part in parts if part < 1} == {True, False}
    for part in parts:
        law = noise.staircase_law(3, part)
        assert part * (1 - Fraction(1, 1 << 51)) < Fraction(law.eps) <= part
        assert Fraction(law.scale[1], law.scale[0]) <= part


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "staircase", "discrete-gaussian"])
def test_all_numbers_of_all_clients_are_drawn_at_once_and_each_has_its_own_noise(mechanism, monkeypatch):
    """Three numbers of 3,000 clients, two of one scale: each has its variance, and no two are alike or correlated."""
    calls = []
    names = {"discrete-laplace": "laplaces", "staircase": "staircases", "discrete-gaussian": "gaussians"}
    draw = getattr(noise, names[mechanism])
    monkeypatch.setattr(noise, names[mechanism], lambda laws, generator: calls.append(len(laws)) or draw(laws, generator))
    many = 3000
    found = release(mechanism, [[10**9] * many] * 3, [[3] * many, [3] * many, [40] * many], [Fraction(1, 3)] * 3, delta=1e-2)
    assert calls == [3 * many]
    z = (np.array(found.values) - 10.0**9) / np.sqrt(found.variances)
    np.testing.assert_allclose(np.cov(z), np.eye(3), atol=5 * np.sqrt(5 / many))
    assert len(set(map(tuple, found.variances))) == 2


def test_gaussian_noise_of_one_number_is_the_least_whole_variance():
    found = release("discrete-gaussian", [[5, 7]], [[3, 0]])
    sigma2 = round(9 / (2 * (found.guarantees[0].rho or 1)))
    for s, enough in ((sigma2, True), (sigma2 - 1, False)):
        delta = exact_noise.discrete_gaussian_delta(eps=0.9, sensitivity=3, sigma2=s)
        assert (delta <= 1e-4) == enough
    assert found.variances[0] == [exact_noise.discrete_gaussian_variance(sigma2), 0.0]
    assert found.guarantees[1].rho == 0
    two = release("discrete-gaussian", [[5], [9]], [[3], [2]], (Fraction(1, 4), Fraction(3, 4)))
    ratio = np.sqrt(2 * privacy.zcdp_from_epsilon(eps=0.9, delta=1e-4))
    for change, share, variance in ((3, 0.25, two.variances[0][0]), (2, 0.75, two.variances[1][0])):
        assert variance == np.ceil(change**2 / share / ratio**2)
    assert two.guarantees[0].rho == pytest.approx(ratio**2 / 2)
    plain = release("gaussian", [[5.0]], [[3]])
    sigma = mechanisms.gaussian_sigma(eps=0.9, delta=1e-4, sensitivity=3.0)
    assert plain.variances[0][0] == np.ceil(sigma**2 * (1 - 1e-12))
    together = noise.add_noise(
        [[5], [9]], eps=0.9, delta=1e-4, mechanism="discrete-gaussian", adjacency="row", trusted="client", generator=RNG(1),
        squares=[20, 7],
    )  # fmt: skip
    assert [v[0] for v in together.variances] == [np.ceil(20 / ratio**2), np.ceil(7 / ratio**2)]
    none = release("discrete-gaussian", [[5, 7]], [[3, 1]], eps=np.inf)
    assert (none.values, none.variances, none.guarantees[0].mechanism) == ([[5, 7]], [[0.0, 0.0]], "none")


def test_the_least_noise_is_chosen_and_what_cannot_be_is_refused():
    for eps, delta in ((1.0, 1e-6), (0.05, 0.05), (0.2, 1e-3), (3.0, 0.2)):
        laplace = 2 / eps**2
        gauss = 1 / (2 * privacy.zcdp_from_epsilon(eps=eps, delta=delta))
        exact = float(mechanisms.gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0)) ** 2
        chosen = noise.choose_mechanism(None, eps, delta)
        assert chosen == ("discrete-laplace" if laplace <= exact else "discrete-gaussian")
        assert gauss >= exact * (1 - 1e-9)
    assert noise.choose_mechanism(None, np.inf, 0.5) == "discrete-laplace"
    for mechanism in ("gaussian", "discrete-gaussian"):
        with pytest.raises(ValueError, match="never purely private"):
            noise.choose_mechanism(mechanism, 1.0, 0.0, ("gaussian", "discrete-gaussian"))
        assert noise.choose_mechanism(mechanism, np.inf, 0.0, ("gaussian", "discrete-gaussian")) == mechanism
    noise.choose_mechanism(None, 1e-70, 0.0)
    assert noise.choose_mechanism(None, 1e20, 0.0) == "discrete-laplace"
    with pytest.raises(ValueError, match="eps must be at most"):
        noise.choose_mechanism(None, 1.001e20, 0.0)
    assert 1 < 2 / 2.0**2 * 2 * privacy.zcdp_from_epsilon(eps=2.0, delta=0.3) < 2  # of Laplace noise over Gaussian noise
    assert noise.choose_mechanism(None, 2.0, 0.3) == "discrete-gaussian"
    with pytest.raises(ValueError, match="eps must be at least"):
        noise.choose_mechanism(None, 0.9e-70, 0.0)


@pytest.mark.parametrize(
    ("sensitivity", "eps"), [(1, Fraction(1, 3)), (7, Fraction(9, 10)), (10**9, Fraction(1, 10**9)), (3, Fraction(50))]
)
def test_scales_of_laplace_noise_are_rounded_up_and_hardly(sensitivity, eps):
    t, s = noise.laplace_scale(sensitivity, eps)
    assert Fraction(t, s) >= sensitivity / eps
    assert Fraction(t, s) - sensitivity / eps < Fraction(1, s) + Fraction(1, 10**18)
    assert t <= 1 << 62
    assert noise.laplace_scale(0, eps) is None


@pytest.mark.parametrize("eps", [0.01, 1.0, 8.0, 30.0])
def test_wrong_answers_are_as_frequent_as_is_private(eps):
    flip = noise.flip_probability(eps)
    share = Fraction(*flip)
    assert float((1 - share) / share) <= np.exp(eps) * (1 + 1e-14)
    assert float(share) == pytest.approx(1 / (1 + np.exp(eps)), rel=1e-12)
    for size in (8, 9, 4000):
        wrong = np.concatenate([noise.wrong_answers(flip, size, RNG(k)) for k in range(4000 // size)])
        assert wrong.mean() == pytest.approx(float(share), abs=5 * np.sqrt(float(share) / wrong.size) + 1e-12)
    edge = (3 << 40) + (1 << 39), 1 << 80  # the second draw decides where the first is at the edge
    assert set(noise.wrong_answers((1 << 80, 1 << 80), 20, RNG(1))) == {1}
    assert set(noise.wrong_answers((0, 1 << 80), 20, RNG(1))) == {0}
    assert noise.wrong_answers(edge, 20, RNG(1)).sum() == 0
    with pytest.raises(ValueError, match="eps must be at most 30"):
        noise.flip_probability(float(np.nextafter(30, 31)))


class Constant:
    """A source of which every random word and every uniform number is the same."""

    def __init__(self, word=0, share=0.0):
        self.word, self.share = word, share

    def integers(self, low, high, size, dtype, endpoint):
        return np.full(size, self.word, dtype)

    def random(self, shape):
        return np.full(shape, self.share)


def test_the_second_draw_decides_where_the_first_one_is_at_the_edge():
    """Words of which the first forty bits are 5: below two such draws put together is 5 (2^40 + 1), and not that itself."""
    for rest, wrong in ((4, 0), (5, 0), (6, 1), (9, 1)):
        flip = (5 << 40) + rest, 1 << 80
        assert set(noise.wrong_answers(flip, 20, Constant(5 << 24))) == {wrong}
    whole = np.array([0.0, 3.0, 7.0])
    assert noise.quantised_integers(whole, 7, Constant()).tolist() == [0, 3, 7]  # even of a uniform number of zero


def test_gaussian_noise_of_many_has_its_law():
    many = 4000
    found = release("gaussian", [[100] * many, [0] * many], [[3] * many, [10**6] * many], (Fraction(1, 2),) * 2)
    for values, centre, variances in zip(found.values, (100, 0), found.variances, strict=True):
        assert stats.kstest((np.array(values) - centre) / np.sqrt(variances), "norm").pvalue > 1e-4


def test_gaussian_noise_beyond_what_sums_and_arrays_hold_is_that_of_zero_concentrated_privacy():
    ratio2 = 2 * privacy.zcdp_from_epsilon(eps=0.9, delta=1e-4)
    for change, many in ((10**9, 1), (10**9, 40), (10**20, 40), (10**20, 2)):
        found = release("discrete-gaussian", [[0] * many], [[change] * many])
        assert found.variances[0] == pytest.approx([change**2 / ratio2] * many, rel=1e-9)
        z = np.array(found.values[0], float) / np.sqrt(found.variances[0])
        assert np.abs(z).max() < 6
        assert (z != 0).all()


def test_the_least_whole_variance_may_be_one():
    """What zCDP says is enough is 2 in all of these, and 1 is by sums over the law of noise of that variance parameter."""
    y = np.arange(-60, 61)
    chances = np.exp(-(y**2) / 2) / np.exp(-(y**2) / 2).sum()
    for change, eps, delta in ((1, 1.5, 0.1), (1, 2.5, 0.01), (2, 5.5, 0.03)):
        assert np.maximum(chances[:-change] - np.exp(eps) * chances[change:], 0).sum() <= delta
        assert np.ceil(change**2 / (2 * privacy.zcdp_from_epsilon(eps=eps, delta=delta))) == 2
        found = release("discrete-gaussian", [[0]], [[change]], eps=eps, delta=delta)
        assert found.guarantees[0].rho == change**2 / 2  # of a variance parameter of one


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "staircase", "discrete-gaussian", "gaussian"])
def test_numbers_without_a_sensitivity_or_a_share_are_refused(mechanism):
    for totals, changes, shares in (
        ([[5], [6]], [[3], [4]], (1,)),
        ([[5], [6]], [[3]], (1,)),
        ([[5]], [[3], [4]], (1,)),
        ([[5], [6]], [[3]] * 3, (Fraction(1, 3),) * 3),
    ):
        with pytest.raises(ValueError, match="zip"):
            release(mechanism, totals, changes, shares)
    if mechanism != "gaussian":
        with pytest.raises(ValueError, match="zip"):
            release(mechanism, [[5, 6]], [[3]])


def test_rounding_at_random_keeps_the_mean_and_the_levels():
    at = np.tile([0.0, 2.3, 6.9, 7.0], 3000)
    found = noise.quantised_integers(at, 7, RNG(2)).reshape(-1, 4)
    assert (found[:, 0] == 0).all()
    assert (found[:, 3] == 7).all()
    assert set(found[:, 1]) == {2, 3}
    assert set(found[:, 2]) == {6, 7}
    np.testing.assert_allclose(found.mean(axis=0), [0, 2.3, 6.9, 7], atol=5 * 0.5 / np.sqrt(3000))


# --- noise of many --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma2", "clients"), [(1, 2), (1, 5), (2, 3)])
def test_the_gap_of_a_sum_of_discrete_gaussians_holds_and_is_near(sigma2, clients):
    """The law of the sum by convolution against a discrete Gaussian of the whole parameter: the ratio's range."""
    y = np.arange(-60, 61)
    one = np.exp(-(y**2) / (2 * sigma2))
    one /= one.sum()
    law = one
    for _ in range(clients - 1):
        law = np.convolve(law, one)
    x = np.arange(law.size) - law.size // 2
    whole = np.exp(-(x**2) / (2 * sigma2 * clients))
    whole /= whole.sum()
    near = np.abs(x) <= 12
    log = np.log(law[near] / whole[near])
    stated = sum_gap(sigma2=sigma2, clients=clients)
    assert np.ptp(log) <= stated * (1 + 1e-6) + 1e-13
    with mpmath.workdps(30):  # each convolution adds the range of log theta, from the whole numbers to the halves
        steps = [mpmath.exp(-2 * mpmath.pi**2 * sigma2 * k / (k + 1)) for k in range(1, clients)]
        exact = float(mpmath.fsum(mpmath.log(mpmath.jtheta(3, 0, q) / mpmath.jtheta(4, 0, q)) for q in steps))
    assert exact <= stated <= exact * (1 + 1e-9) + 1e-15


def test_the_gap_of_many_clients_grows_with_the_last_term():
    few, more, many = (sum_gap(sigma2=1, clients=c) for c in (64, 65, 66))
    assert more - few == pytest.approx(many - more, rel=1e-6)
    assert sum_gap(sigma2=1, clients=1) == 0


def test_a_delta_of_many_lies_between_nought_and_one():
    assert summed_delta(eps=0.0, sensitivity=0, sigma2=1, clients=5) == 0.0
    assert summed_delta(eps=0.0, sensitivity=50, sigma2=1, clients=5) == 1.0  # and not one by the factor of the gap more


def test_divergences_and_noise_of_each_are_their_formulas():
    orders = np.array(privacy.ORDERS)
    gap = sum_gap(sigma2=2, clients=5)
    found = summed_divergences(sensitivity=3, dimension=4, sigma2=2, clients=5)
    np.testing.assert_allclose(found, orders * 4 * 9 / 20 + 4 * gap * orders / (orders - 1), rtol=1e-12)
    assert (summed_divergences(sensitivity=0, dimension=4, sigma2=2, clients=5) == 0).all()
    least = sigma2_each(eps=0.8, delta=1e-4, sensitivity=3, clients=5, dimension=4)
    for sigma2, enough in ((least, True), (least - 1, False)):
        curve = summed_divergences(sensitivity=3, dimension=4, sigma2=sigma2, clients=5)
        assert (privacy.epsilon_from_rdp(privacy.ORDERS, curve, delta=1e-4) <= 0.8) == enough
    one = sigma2_each(eps=0.8, delta=1e-4, sensitivity=3, clients=5)
    exact = stats.norm.isf(1e-4)
    assert 5 * one > 9 / (0.8 + exact) ** 2
    assert exact_noise.discrete_gaussian_delta(eps=0.8, sensitivity=3, sigma2=5 * one) <= 1e-4
    assert exact_noise.discrete_gaussian_delta(eps=0.8, sensitivity=3, sigma2=5 * (one - 1)) > 1e-4


def test_a_mean_of_many_states_its_variances():
    """Levels of one step; noise of each client that came, over their number; rounding at most step^2 / 4 of each."""
    found = distributed_mean(
        np.array([[0.5, 3.0], [7.0, 1.25], [-1.0, 2.0], [4.0, 4.0], [2.0, 0.0]]), bounds=(0.0, 6.0), eps=3.0, delta=1e-3,
        threshold=4, bits=5, silent=[1], generator=RNG(1),
    )  # fmt: skip
    step, heard = 6 / 31, 4
    sigma2 = sigma2_each(eps=3.0, delta=1e-3, sensitivity=31, clients=4, dimension=2)
    assert found.heard == (0, 2, 3, 4)
    assert found.rounding_variance == pytest.approx(step**2 / 4 / heard)
    assert found.noise_variance == pytest.approx(step**2 * exact_noise.discrete_gaussian_variance(sigma2) / heard)


@pytest.mark.parametrize(
    ("m", "d", "bits", "eps", "colluding"), [(5, 1, 5, 3.0, 0), (5, 3, 5, 0.01, 0), (9, 2, 1, 40.0, 1), (6, 1, 12, 1e-4, 2)]
)
def test_words_of_a_mean_hold_all_sums_but_for_one_in_1e15(m, d, bits, eps, colluding):
    """Largest sum without noise, and r with 2 d exp(-r^2 / (2 m sigma2)) = 1e-15 around it, of either sign."""
    threshold = m - 1
    say = {"bounds": (0.0, 6.0), "eps": eps, "delta": 1e-3, "threshold": threshold, "colluding": colluding, "bits": bits}
    found = distributed_mean(np.full((m, d), 6.0), **say, generator=RNG(1))
    levels = 2**bits - 1
    sigma2 = sigma2_each(eps=eps, delta=1e-3, sensitivity=levels, clients=threshold - colluding, dimension=d)
    largest = m * levels + stats.rayleigh(scale=np.sqrt(m * sigma2)).isf(1e-15 / (2 * d))
    assert 2 ** (found.bits - 2) <= largest < 2 ** (found.bits - 1)
    curve = summed_divergences(sensitivity=levels, dimension=d, sigma2=sigma2, clients=threshold - colluding)
    assert found.guarantee.renyi == tuple(curve.tolist())
    assert abs(found.mean - 6.0).max() < 6 * np.sqrt(found.noise_variance)
