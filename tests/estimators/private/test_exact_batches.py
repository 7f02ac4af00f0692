"""Noise in batches and staircases: laws by enumeration, privacy of all outcomes, and integers at their limits."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import chi2, ks_2samp

from estimators.private import MeanClient, Staircase, exact_batches, exact_noise
from estimators.private.exact_batches import (
    MOST_SCALE,
    MOST_SIGMA2,
    discrete_gaussians,
    discrete_laplaces,
    exponential_events,
    geometrics,
    uniforms,
    words,
)
from estimators.private.exact_noise import (
    discrete_gaussian_variance,
    discrete_laplace_variance,
    exponential_bounds,
    exponential_floor,
)
from estimators.private.staircase import best_inner, staircase_variance

few = settings(max_examples=max(1, settings().max_examples // 4))
SIZE = 200_000


def agrees(draws, weights):
    """Whether draws follow weights at 0, 1, 2, ..., of which the last stands for all beyond."""
    p = np.asarray(weights) / np.sum(weights)
    counts = np.bincount(np.minimum(draws, len(p) - 1), minlength=len(p))
    return np.sum((counts - len(draws) * p) ** 2 / (len(draws) * p)) < chi2.isf(1e-6, len(p) - 1)


# --- samplers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [2, 3, 10, 64, 1000])
def test_uniform_integers(limit):
    assert agrees(uniforms(limit, SIZE, np.random.default_rng(limit)), np.ones(limit))


def test_uniform_integers_at_the_limit():
    draws = uniforms(1 << 63, 10_000, np.random.default_rng(0))
    assert draws.min() >= 0
    assert draws.max() > 1 << 62
    assert abs(np.mean(draws / 2.0**63) - 0.5) < 5 / np.sqrt(12 * 10_000)
    assert uniforms(1, 3).tolist() == [0, 0, 0]
    assert words(4, None).dtype == np.uint64


@pytest.mark.parametrize("limit", [1 << 63, (1 << 63) - 1, (1 << 63) - 600, (1 << 62) + 1])
def test_uniform_integers_of_an_array_of_the_largest_limits(limit):
    """As a float 2^63 - 1 is 2^63, and all 64 bits of a word would be a number below 0."""
    for kind in (np.uint64, object):
        draws = uniforms(np.full(4000, limit, kind), 4000, np.random.default_rng(0))
        assert draws.min() >= 0
        assert draws.max() < limit
        assert abs(np.mean(draws / float(limit)) - 0.5) < 5 / np.sqrt(12 * 4000)
        with pytest.raises(ValueError, match="limit must lie"):
            uniforms(np.array([limit, (1 << 63) + 1], kind), 2)


@pytest.mark.parametrize("sigma2", [1, 2, 7, 400])
def test_discrete_gaussians(sigma2):
    draws = discrete_gaussians(sigma2, SIZE, np.random.default_rng(sigma2))
    reach = int(4 * np.sqrt(sigma2))
    y = np.arange(-20 * reach, 20 * reach + 1)
    law = np.exp(-(y**2) / (2 * sigma2))
    tail = law[y >= reach].sum()
    assert agrees(np.maximum(draws + reach, 0), [tail, *law[(y > -reach) & (y < reach)], tail])


@pytest.mark.parametrize("scale", [(1, 1), (5, 1), (7, 3), (1, 4)])
def test_discrete_laplaces_and_geometrics(scale):
    t, s = scale
    law, cut = np.exp(-np.arange(200) * s / t), 4 * t // s + 2
    assert agrees(geometrics(scale, SIZE, np.random.default_rng(t)), [*law[:cut], law[cut:].sum()])
    draws = discrete_laplaces(scale, SIZE, np.random.default_rng(t + 1))
    both = np.concatenate([law[1:][::-1], law])
    at = 199
    low, high = at - cut, at + cut
    assert agrees(np.maximum(draws + cut, 0), [both[: low + 1].sum(), *both[low + 1 : high], both[high:].sum()])


def test_each_draw_of_an_array_has_its_own_scale():
    """Scales of one batch, one of each kind in turn, so that an entry that took its neighbour's would show."""
    rng, kinds = np.random.default_rng(3), np.arange(3 * SIZE // 2) % 3
    limits = np.array([1, 3, 10])
    drawn = uniforms(limits[kinds], kinds.size, rng)
    assert all(agrees(drawn[kinds == k], np.ones(limit)) for k, limit in enumerate(limits) if limit > 1)
    assert not drawn[kinds == 0].any()
    scales = np.array([(5, 1), (7, 3), (1, 4)])
    drawn = geometrics(tuple(scales[kinds].T), kinds.size, rng)
    for k, (t, s) in enumerate(scales):
        law, cut = np.exp(-np.arange(200) * s / t), 4 * t // s + 2
        assert agrees(drawn[kinds == k], [*law[:cut], law[cut:].sum()])
    sigma2s = np.array([2, 0, 400])
    drawn = discrete_gaussians(sigma2s[kinds], kinds.size, rng)
    assert not drawn[kinds == 1].any()
    for k in (0, 2):
        reach = int(4 * np.sqrt(sigma2s[k]))
        y = np.arange(-20 * reach, 20 * reach + 1)
        law = np.exp(-(y**2) / (2 * sigma2s[k]))
        tail = law[y >= reach].sum()
        assert agrees(np.maximum(drawn[kinds == k] + reach, 0), [tail, *law[(y > -reach) & (y < reach)], tail])


def test_arrays_beyond_the_limits_are_refused():
    for call in (
        lambda: uniforms(np.array([2, 0]), 2),
        lambda: geometrics((np.array([1 << 62, 1]), np.array([1, 1])), 2),
        lambda: geometrics((np.array([1, 1]), np.array([0, 1])), 2),
        lambda: discrete_gaussians(np.array([MOST_SIGMA2 + 1, 1]), 2),
    ):
        with pytest.raises(ValueError, match="must"):
            call()


@pytest.mark.parametrize("x", [Fraction(0), Fraction(7, 3), Fraction(1, 18), Fraction(10**40, 3 * 10**40), Fraction(9)])
def test_exponential_events_of_any_size(x):
    hits = exponential_events(np.full(SIZE, float(x)), lambda _: x, np.random.default_rng(3)).mean()
    p = float(np.exp(-float(x)))
    assert abs(hits - p) <= 5 * np.sqrt(p * (1 - p) / SIZE)


def test_whole_numbers_decide_every_event_as_floats_do(monkeypatch):
    """With nothing left to floats the same words give the same draws, so that floats have decided none of them wrongly."""

    def some():
        rng = np.random.default_rng(5)
        found = [discrete_gaussians(sigma2, 600, rng) for sigma2 in (3, 10**6, (1 << 66) + 1, MOST_SIGMA2)]
        found += [discrete_gaussians(np.array([2, 1 << 30, MOST_SIGMA2] * 200, object), 600, rng)]
        return np.concatenate([*found, geometrics((7, 3), 600, rng), discrete_laplaces((MOST_SCALE, 1), 600, rng)])

    asked, exact = [], exact_batches.below_exponential
    monkeypatch.setattr(exact_batches, "below_exponential", lambda *each: asked.append(each) or exact(*each))
    quick = some()
    assert not asked
    monkeypatch.setattr(exact_batches, "NEARLY", 1.0)  # leaves open what is not above twice the exponential
    first = some()
    assert len(asked) > 5000
    assert (first == quick).all()


def test_an_event_on_the_edge_is_decided_by_further_bits(monkeypatch):
    """A word that begins as exp(-1) does says nothing; the words after it do, and a wrong margin would be seen."""
    import mpmath

    with mpmath.workprec(400):
        digits = int(mpmath.floor(mpmath.exp(-1) * mpmath.mpf(2) ** 181))
    first, middle, last = digits >> 128, digits >> 64 & (1 << 64) - 1, digits & (1 << 64) - 1
    monkeypatch.setattr(exact_batches, "words", lambda size, generator: np.full(size, first << 11, np.uint64))
    for more, below in (
        ([middle - 1], True),
        ([middle + 1], False),
        ([middle, last - 3], True),
        ([middle, last + 3], False),
    ):
        left, limits = iter(more), []
        monkeypatch.setattr(
            exact_noise, "below", lambda limit, _, left=left, limits=limits: limits.append(limit) or next(left)
        )
        assert exponential_events(np.ones(1), lambda _: Fraction(1), None).tolist() == [below]
        assert next(left, None) is None
        assert limits == [1 << 64] * len(more)


@given(st.fractions(0, 400), st.sampled_from([8, 53, 117, 181]))
def test_bounds_of_the_exponential_hold_it_and_are_near(x, bits):
    import mpmath

    low, high = exponential_bounds(x, bits)
    with mpmath.workprec(1200):
        assert low <= mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits <= high
    assert high - low <= 2


@pytest.mark.parametrize("bits", [8, 53, 117])
def test_bounds_of_an_exponential_beside_a_whole_number_leave_it_open(bits):
    """Exponents a part in 2^400 beyond the logarithm of a whole number of units, and before it."""
    import mpmath

    for whole in (1, 2, 3, 100, (1 << bits) - 1):
        with mpmath.workprec(600):
            log = int(mpmath.floor((bits * mpmath.log(2) - mpmath.log(whole)) * mpmath.mpf(2) ** 400))
        before, beyond = (exponential_bounds(Fraction(n, 1 << 400), bits) for n in (log, log + 1))
        assert before[1] == whole + 1
        assert beyond[0] == whole - 1
        assert before[0] in (whole - 1, whole)
        assert beyond[1] in (whole, whole + 1)


def test_words_are_all_64_bits_of_the_generator_as_they_come():
    found = exact_batches.words(1000, np.random.default_rng(3))
    assert found.tolist() == np.random.default_rng(3).bit_generator.random_raw(1000).tolist()
    ends = SimpleNamespace(integers=lambda low, high, size, kind, endpoint: np.array([low, high], kind)[: 1 + endpoint])
    assert exact_batches.words(2, ends).tolist() == [0, (1 << 64) - 1]


def test_the_largest_scales_do_not_overflow():
    """Variances in floats, so that a wrapped integer would show."""
    rng = np.random.default_rng(1)
    for scale in ((MOST_SCALE, 1), (1 << 62, 1 << 12), ((1 << 62) - 57, (1 << 12) + 1)):
        draws = discrete_laplaces(scale, SIZE, rng).astype(float)
        variance = discrete_laplace_variance(scale[0] / scale[1])
        assert abs(np.mean(draws**2) / variance - 1) < 5 * np.sqrt(5 / SIZE)
        assert abs(draws.mean()) < 5 * np.sqrt(variance / SIZE)
    for sigma2, size in ((1 << 40, SIZE), ((1 << 66) + 1, 20_000), (MOST_SIGMA2, 20_000)):
        draws = discrete_gaussians(sigma2, size, rng).astype(float)
        assert abs(np.mean(draws**2) / discrete_gaussian_variance(sigma2) - 1) < 5 * np.sqrt(2 / size)
        assert abs(draws.mean()) < 5 * np.sqrt(sigma2 / size)


def test_small_and_large_gaussians_of_one_batch_have_each_their_own_law():
    sigma2s = np.array([0, 9, 1 << 80, MOST_SIGMA2] * 5000, object)
    drawn = discrete_gaussians(sigma2s, sigma2s.size, np.random.default_rng(8)).reshape(-1, 4).astype(float)
    assert (drawn[:, 0] == 0).all()
    for column, sigma2 in zip(drawn.T[1:], (9, 1 << 80, MOST_SIGMA2), strict=True):
        assert abs(np.mean(column**2) / sigma2 - 1) < 5 * np.sqrt(2 / 5000)
        assert sigma2 == 9 or np.abs(column).max() > 3 * sigma2**0.5


def test_a_client_with_much_noise_on_large_numbers_reports_in_batches():
    """At eps 1e-3 and 2^20 levels sigma2 goes from 2^60 to beyond 2^98, and reports have the variances that they say."""
    client = MeanClient(bounds=(0.0, 1.0), eps=1e-3, delta=1e-9, bits=20, mechanism="discrete-gaussian", variance_share=0.5)
    made = client.reports([[0.2, 0.4]] * 2000, [str(i) for i in range(2000)], np.random.default_rng(0))
    for told, noise in (("estimate", "noise_variance"), ("variance", "variance_noise")):
        z = np.array([getattr(r, told) for r in made]) / np.sqrt(getattr(made[0], noise))
        assert abs(z.var() - 1) < 5 * np.sqrt(2 / 2000)


def test_fresh_entropy_and_seeds():
    first, second = (discrete_gaussians(10**6, 5).tolist() for _ in range(2))
    assert first != second
    first, second = (discrete_gaussians(10**6, 5, np.random.default_rng(0)).tolist() for _ in range(2))
    assert first == second


@given(st.floats(1e-9, 40.0))
def test_a_floor_of_the_exponential_is_one(x):
    import mpmath

    with mpmath.workprec(300):
        exact = mpmath.exp(mpmath.mpf(x)) * 2**64
        assert exponential_floor(x) <= exact
        assert exponential_floor(x) > exact * (1 - mpmath.mpf(2) ** -50)


# --- staircases --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sensitivity", "eps"), [(1, 1.0), (3, 0.5), (5, 4.0), (40, 8.0)])
def test_staircase_draws_follow_their_law(sensitivity, eps):
    law = Staircase(sensitivity=sensitivity, eps=eps)
    y = np.arange(-4000, 4001)
    p = np.exp(law.log_likelihood(y, 0))
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert p @ y**2 == pytest.approx(law.variance, rel=1e-9)
    reach = 3 * sensitivity
    middle = np.abs(y) < reach
    tails = p[y >= reach].sum()
    generator = np.random.default_rng(sensitivity)
    for drawn in (law.noise(SIZE, generator), [law.noise(1, generator).item() for _ in range(SIZE // 20)]):
        assert agrees(np.clip(drawn, -reach, reach) + reach, [tails, *p[middle], tails])


@few
@given(st.integers(1, 30), st.floats(0.05, 20.0))
def test_staircases_are_private_for_every_smaller_change(sensitivity, eps):
    law = Staircase(sensitivity=sensitivity, eps=eps)
    y = np.arange(-6 * sensitivity, 6 * sensitivity + 1)
    losses = [np.abs(law.log_likelihood(y, 0) - law.log_likelihood(y, change)).max() for change in range(1, sensitivity + 2)]
    assert max(losses[:-1]) <= eps * (1 + 1e-9)
    assert max(losses[:-1]) == pytest.approx(eps, rel=1e-6)
    assert losses[-1] > 1.5 * eps  # the negative control: noise for a smaller change is caught


@pytest.mark.parametrize(("sensitivity", "eps"), [(3, 1.0), (5, 2.0), (5, 4.0)])
def test_no_additive_noise_is_better(sensitivity, eps):
    """A linear program over all symmetric laws on -120..120, where e^-eps of mass per block is left out."""
    reach = 120
    y = np.arange(reach + 1)
    weight = np.where(y == 0, 1.0, 2.0)
    rows = []
    for change in range(1, sensitivity + 1):
        for at in range(-reach, reach + 1):
            for other in (at + change, at - change):
                if abs(other) <= reach:
                    row = np.zeros(reach + 1)
                    row[abs(at)] += 1
                    row[abs(other)] -= np.exp(eps)
                    rows.append(row)
    rows = np.unique(rows, axis=0)
    # At the solver's usual 1e-7 it leaves privacy by as much in the tails, where it counts y^2 times.
    strict = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(weight * y**2, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=[weight], b_eq=[1.0], options=strict)
    assert found.success
    ours = Staircase(sensitivity=sensitivity, eps=eps).variance
    assert found.fun == pytest.approx(ours, rel=1e-5)


def test_the_step_is_the_best_one_and_the_variances_are_those_known():
    """Geng and Viswanath's continuous variances at eps 1, 2, 4, 8, to the digits of a fine grid."""
    for sensitivity, eps in ((7, 0.1), (3, 1.0), (64, 3.0), (500, 8.0)):
        variances = [staircase_variance(sensitivity, inner, eps) for inner in range(1, sensitivity + 1)]
        assert variances[best_inner(sensitivity, eps) - 1] == pytest.approx(min(variances), rel=1e-12)
    for eps, known in ((1.0, 1.918104), (2.0, 0.422733), (4.0, 0.0649788), (8.0, 0.00337983)):
        assert Staircase(sensitivity=1 << 20, eps=eps).variance / 2.0**40 == pytest.approx(known, rel=3e-6)
    assert Staircase(sensitivity=1, eps=0.7).variance == pytest.approx(discrete_laplace_variance(1 / 0.7), rel=1e-7)


def test_large_staircases_do_not_overflow():
    for sensitivity, eps in ((1 << 20, 1e-9), (1 << 50, 1.0), (1 << 40, 0.01)):
        law = Staircase(sensitivity=sensitivity, eps=eps)
        generator = np.random.default_rng(0)
        for drawn in (law.noise(20_000, generator), [law.noise(1, generator).item() for _ in range(4000)]):
            assert abs(np.mean(np.square(drawn, dtype=float)) / law.variance - 1) < 5 * np.sqrt(5 / len(drawn))


def test_a_staircase_wider_than_words_is_drawn_in_whole_numbers():
    """On both sides of 2^50 eps: the same law, its variance, and a sensitivity that no float rounds down."""
    narrow, wide = (Staircase(sensitivity=(1 << 50) + more, eps=1.0) for more in (0, 1))
    assert (narrow.wide, wide.wide) == (False, True)
    assert wide.inner == pytest.approx(narrow.inner, rel=1e-6)  # the least of a flat curve, in floats
    drawn = [law.noise(4000, np.random.default_rng(1)).tolist() for law in (narrow, wide)]
    assert ks_2samp(*drawn).pvalue > 1e-6
    for law in (wide, Staircase(sensitivity=1 << 90, eps=1e-70), Staircase(sensitivity=1 << 60, eps=8.0)):
        each = law.noise(4000, np.random.default_rng(0))
        assert abs(np.mean((each.astype(float) / law.variance**0.5) ** 2) - 1) < 5 * np.sqrt(5 / 4000)
        assert all(isinstance(value, int) for value in each.tolist())
    odd = (1 << 60) + 1
    assert Staircase(sensitivity=odd, eps=0.5).sensitivity == odd


def test_a_sensitivity_is_at_most_1e100_eps():
    for eps in (1.0, 1e-3):
        most = Staircase(sensitivity=1e100 * eps, eps=eps)
        small = Staircase(sensitivity=1 << 40, eps=eps)  # of the same law, in units of the sensitivity
        assert most.variance / (1e100 * eps) ** 2 == pytest.approx(small.variance / 2.0**80, rel=1e-9)
        with pytest.raises(ValueError, match="at most 1e100 eps"):
            Staircase(sensitivity=np.nextafter(1e100 * eps, np.inf), eps=eps)


def test_the_best_noise_of_a_sum_of_squares_is_a_staircase_however_many_rows_there_are():
    """At 2^20 levels, with half of eps 1, the squares of 513 rows are just within 2^50 eps, and those of 514 are not."""
    settings, variances = {"bounds": (0.0, 1.0), "eps": 1.0, "bits": 20, "variance_share": 0.5, "mechanism": "best"}, []
    for rows in (513, 514):
        report = MeanClient(**settings).report(np.linspace(0, 1, rows), np.random.default_rng(0))
        assert report.guarantee.mechanism == "staircase"
        law = Staircase(sensitivity=(rows - 1) * ((1 << 20) - 1) ** 2, eps=0.5)
        unit = (1 / ((1 << 20) - 1)) ** 2 / (rows * (rows - 1))
        assert law.wide == (rows > 513)
        assert report.variance_noise == pytest.approx(unit**2 * law.variance, rel=1e-12)
        variances.append(report.variance_noise * rows**2)
    assert variances[0] == pytest.approx(variances[1], rel=1e-9)


def test_a_client_adds_a_staircase_and_halves_the_variance_of_laplace_noise():
    make = {"bounds": (0.0, 10.0), "eps": 4.0}
    rows = np.linspace(2.0, 4.0, 10)
    stairs, laplace = (
        MeanClient(**make, mechanism=mechanism).report(rows, np.random.default_rng(0))
        for mechanism in ("staircase", "discrete-laplace")
    )
    assert stairs.guarantee.mechanism == "staircase"
    assert 0.51 < stairs.noise_variance / laplace.noise_variance < 0.53
    two = MeanClient(**make, mechanism="staircase", variance_share=0.3).report(rows)
    assert two.variance is not None


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: uniforms(0, 1), "limit"),
        (lambda: discrete_gaussians(MOST_SIGMA2 + 1, 1), "sigma2"),
        (lambda: geometrics((MOST_SCALE + 1, 1), 1), "scale"),
        (lambda: Staircase(sensitivity=0, eps=1.0), "sensitivity"),
        (lambda: Staircase(sensitivity=1 << 400, eps=0.5), "sensitivity must be at most"),
        (lambda: Staircase(sensitivity=1, eps=-1.0), "eps"),
        (lambda: Staircase(sensitivity=1, eps=1.0).release([0.5]), "totals must be whole"),
        (lambda: Staircase(sensitivity=1, eps=1.0).release([2.0**60]), "totals must be whole"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
