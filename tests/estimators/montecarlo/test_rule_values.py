"""Rules, plans and guards of Monte Carlo checks, piece by piece: against SciPy, mpmath and sums by hand."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from estimators.montecarlo import laws, student
from estimators.montecarlo.checks import (
    DECLARED,
    ROUNDING,
    Check,
    TwoStageRule,
    decide,
    fitting,
    required_reps,
    smallest_detectable,
)  # fmt: skip
from estimators.montecarlo.experiments import ClientsExperiment
from estimators.montecarlo.independence import BATCH, dispersions, of_size, random, repeated, require_independent
from estimators.montecarlo.moments import Moments, batch_means, combine, require_finite
from estimators.montecarlo.randomisations import merge_replications, require_apart, run_nets
from estimators.montecarlo.smoothness import Smooth
from estimators.montecarlo.strata import StrataPilot
from estimators.montecarlo.student import STUDENT, Plan, StudentRule, noncentral_t, perform_on_nets, plan_nets, skewness

RNG = np.random.default_rng

# --- laws ---


@pytest.mark.parametrize("shape", [0.7, np.array([0.7, 3.0, 40.0])])
def test_gamma_draws_are_quantiles_of_one_shape_or_of_several(shape):
    uniforms = np.array([0.03, 0.5, 0.998])
    np.testing.assert_allclose(laws.gamma(uniforms, shape), stats.gamma.ppf(uniforms, shape), rtol=1e-6)
    smooth = laws.gamma(Smooth(uniforms), shape)  # tables only know numbers
    assert isinstance(smooth, Smooth)


# --- rules -----------------------------------------------------------------------------------------------------------------


def test_thresholds_are_quantiles_and_misses_are_of_both_stages():
    rule = TwoStageRule(0.03, 2e-3, 1e-4, 3)
    assert rule.threshold1 == pytest.approx(stats.norm.isf(0.015), rel=1e-12)
    assert rule.threshold2 == pytest.approx(stats.norm.isf(2e-3), rel=1e-12)
    assert rule.false_alarm == pytest.approx(6e-5)
    for shift in (0.0, 2.5, 6.0):
        seen1 = stats.norm.sf(rule.threshold1 - shift)
        seen2 = stats.norm.sf(rule.threshold2 - shift * np.sqrt(3))
        assert rule.miss_probability(shift) == pytest.approx(1 - seen1 * seen2, rel=1e-9)
    assert rule.miss_probability(rule.detectable_shift) == pytest.approx(1e-4, rel=1e-6)
    assert TwoStageRule() == DECLARED == TwoStageRule(1e-2, 1e-4, 1e-6, 2)


def test_students_rule_has_quantiles_of_t_and_an_upper_limit_of_chi_square():
    rule = StudentRule(0.03, 2e-3, 1e-4, 3, replications=9, flattered=0.05)
    assert rule.threshold1 == pytest.approx(stats.t.isf(0.015, 8), rel=1e-9)
    assert rule.threshold2 == pytest.approx(stats.t.isf(2e-3, 26), rel=1e-9)
    assert rule.upper_limit == pytest.approx(np.sqrt(8 / stats.chi2.ppf(0.05, 8)), rel=1e-9)
    for shift in (0.5, 4.0):
        seen1 = stats.nct.sf(rule.threshold1, 8, shift)
        seen2 = stats.nct.sf(rule.threshold2, 26, shift * np.sqrt(3))
        assert rule.miss_probability(shift) == pytest.approx(1 - seen1 * seen2, rel=1e-7)
    assert rule.smallest_detectable(0.2, 4.0) == pytest.approx(rule.detectable_shift * rule.upper_limit * 0.05)
    assert rule.smallest_detectable(0.2) == pytest.approx(rule.detectable_shift * rule.upper_limit * 0.2)
    assert StudentRule() == STUDENT == StudentRule(1e-2, 1e-4, 1e-6, 2, 16, 1e-2)
    assert StudentRule(replications=8).replications == 8
    with pytest.raises(ValueError, match="replications must be >= 8, got 7"):
        StudentRule(replications=7)


@pytest.mark.parametrize(
    ("t", "free", "shift"), [(2.9, 15, 8.4), (4.5, 31, 11.8), (0.0, 7, 1.0), (1.0, 3, -0.5), (6.0, 15, 2.0)]
)
def test_noncentral_t_is_its_integral(t, free, shift):
    """A normal over the root of chi-square / free, integrated with 30 digits; down to 1e-9 in the tail."""
    with mpmath.workdps(30):

        def part(s):
            log = (
                mpmath.log(2)
                + free / mpmath.mpf(2) * mpmath.log(free / mpmath.mpf(2))
                - mpmath.loggamma(free / mpmath.mpf(2))
            )
            return mpmath.exp(log + (free - 1) * mpmath.log(s) - free * s**2 / 2) * mpmath.ncdf(t * s - shift)

        exact = float(mpmath.quad(part, [mpmath.mpf("1e-12"), 0.5, 1, 1.5, 2, 4]))
    assert noncentral_t(t, free, shift) == pytest.approx(exact, rel=1e-6, abs=1e-15)
    with pytest.raises(ValueError, match="free must be in 3"):
        noncentral_t(t, 2, shift)


@pytest.mark.parametrize(("t", "free"), [(2.0, 3), (-4.0, 3), (1.0, 4), (-2.0, 5)])
def test_noncentral_t_without_a_shift_is_students_to_a_dozen_digits(t, free):
    assert noncentral_t(t, free, 0.0) == pytest.approx(stats.t.cdf(t, free), abs=1e-12)


def test_rules_decide_at_their_thresholds():
    rule = TwoStageRule()
    for sign in (1, -1):
        assert not rule.exceeds(sign * rule.threshold1)
        assert rule.exceeds(sign * rule.threshold1 * (1 + 1e-12))
        assert not rule.confirms(sign * 3.0, sign * rule.threshold2)
        assert rule.confirms(sign * 3.0, sign * rule.threshold2 * (1 + 1e-12))
        assert not rule.confirms(sign * 3.0, -sign * 9.0)
    assert rule.exceeds(math.nan)
    assert rule.confirms(3.0, math.nan)


def test_sizes_of_samples_by_hand():
    shift = DECLARED.detectable_shift
    assert required_reps(2.0, 0.01) == math.ceil((shift * 200) ** 2)
    assert required_reps(2.0) == required_reps(2.0, 0.01)
    assert DECLARED.required_reps(2.0) == required_reps(2.0, 0.01)
    assert required_reps(0.0, 0.01) == 100_000
    assert smallest_detectable(0.3, 2.0) == pytest.approx(shift * 0.15)
    assert smallest_detectable(0.3) == DECLARED.smallest_detectable(0.3) == pytest.approx(shift * 0.3)
    assert smallest_detectable(0.0) == 0.0
    for call in (lambda: required_reps(-1.0), lambda: required_reps(math.inf), lambda: smallest_detectable(-1.0),
                 lambda: smallest_detectable(1.0, 0.0), lambda: required_reps(1.0, 0.0), lambda: TwoStageRule(alpha1=1.0),
                 lambda: TwoStageRule(miss=0.0), lambda: TwoStageRule(growth=0)):  # fmt: skip
        with pytest.raises(ValueError, match="must be"):
            call()
    assert TwoStageRule(growth=1).growth == 1


def moments(count, mean, sd):
    return Moments(count, np.array([mean, 7.0]), np.diag([sd**2 * (count - 1), 1.0]))


def test_a_check_is_decided_in_two_stages():
    """Mean 3 with standard error 0.1, then 3.06 with 0.05, of a combination that doubles them and subtracts 7."""
    stages = {1: moments(100, 3.0, 1.0), 2: moments(400, 3.06, 1.0)}
    asked = []

    def simulate(stage):
        asked.append(stage)
        return stages[stage]

    one = Check("two", (2.0, -0.0), 6.1, 4.0)
    (found,) = decide(TwoStageRule(), [one], simulate, 0.5)
    assert asked == [1]
    assert (found.estimate, found.standard_error) == (6.0, pytest.approx(0.2))
    assert found.z == pytest.approx(-0.5)
    assert found.smallest_detectable == pytest.approx(DECLARED.detectable_shift * 0.2 / 4)
    assert (found.stages, found.reps, found.nets, found.passed, found.reached) == (1, 100, 0, True, True)
    (short,) = decide(TwoStageRule(), [one], simulate, found.smallest_detectable * (1 - 1e-9))
    assert not short.reached
    assert decide(TwoStageRule(), [one], simulate, found.smallest_detectable)[0].reached
    asked.clear()
    far, wrong = Check("far", (2.0, 0.0), 5.4, 4.0), Check("wrong", (2.0, 0.0), 5.0, 4.0)  # 3 and 5 standard errors off
    results = decide(TwoStageRule(), [one, far, wrong], simulate, 0.5, points=8)
    assert asked == [1, 2]
    assert [each.stages for each in results] == [1, 2, 2]
    assert [each.passed for each in results] == [True, False, False]
    assert [each.z for each in results[1:]] == [pytest.approx(7.2), pytest.approx(11.2)]
    assert [(each.reps, each.nets) for each in results] == [(800, 100), (3200, 400), (3200, 400)]
    assert results[1].smallest_detectable == pytest.approx(DECLARED.detectable_shift * 0.2 / 4)  # of the first stage
    opposite = Check("opposite", (2.0, 0.0), 6.06, 4.0)
    stages[1] = moments(100, 2.7, 1.0)
    (found,) = decide(TwoStageRule(), [opposite], simulate, 0.5)
    assert (found.stages, found.passed, found.estimate) == (2, True, pytest.approx(6.12))


def test_standard_errors_have_a_floor():
    quiet = Moments(10, np.array([1.0]), np.zeros((1, 1)))
    (found,) = decide(TwoStageRule(), [Check("", (1.0,), 1.0, 5.0)], lambda stage: quiet, 0.01)
    assert found.standard_error == pytest.approx(5 * ROUNDING)
    (found,) = decide(TwoStageRule(), [Check("", (1.0,), 1.0, 5.0)], lambda stage: quiet, 0.01, least=[0.3])
    assert found.standard_error == pytest.approx(5 * 0.03)
    with pytest.raises(ValueError, match="shorter"):  # one for each check
        decide(TwoStageRule(), [Check("", (1.0,), 1.0, 5.0)] * 2, lambda stage: quiet, 0.01, least=[0.3])
    with pytest.raises(ValueError, match="at least one Check"):
        fitting([], quiet)


@pytest.mark.parametrize("averaged", [1, 3])
def test_a_check_on_nets_is_students_rule_on_means_over_them(averaged):
    """Sixteen replications on streams of the first stage; for a claim that is off, twice as many on those of the second."""
    error = [-1, 0, 0, 1]
    experiment, rule = ClientsExperiment(1.0, 1.0, 1.0, 0, np.full(4, 0.25), error, error), StudentRule()
    checks = [Check("right", (2.0,), 2.5, 2.0), Check("wrong", (2.0,), 2.8, 2.0)]
    results = perform_on_nets(experiment, checks, "by hand", 8, averaged=averaged, detectable=0.4, root=5, threads=1)
    ways = {"averaged": averaged, "root": 5, "threads": 1}
    for (check, result), replications in zip(zip(checks, results, strict=True), (16, 32), strict=True):
        first = run_nets(experiment, 8, 16, "by hand#nets1", **ways)
        last = first if replications == 16 else run_nets(experiment, 8, 32, "by hand#nets2", **ways)
        estimate, deviation = last.linear([2.0])
        assert (result.estimate, result.standard_error) == pytest.approx((estimate, deviation), rel=1e-12)
        assert result.z == pytest.approx((estimate - check.expected) / deviation, rel=1e-12)
        assert (result.nets, result.reps) == (replications, replications * averaged * 256)
        assert (result.stages, result.passed) == ((1, True) if replications == 16 else (2, False))
        smallest = rule.smallest_detectable(first.linear([2.0])[1], 2.0)
        assert result.smallest_detectable == pytest.approx(smallest, rel=1e-12)
        assert result.reached == (smallest <= 0.4)
    plain = perform_on_nets(experiment, checks, "by hand", 8)
    assert plain == perform_on_nets(experiment, checks, "by hand", 8, averaged=1, detectable=1e-4, rule=rule)
    for wrong in (0.0, -1e-9):
        with pytest.raises(ValueError, match="detectable must be > 0"):
            perform_on_nets(experiment, checks, "by hand", 8, detectable=wrong)


# --- plans -----------------------------------------------------------------------------------------------------------------


def test_skewness_by_hand():
    found = skewness(np.array([[0.0, 1.0, 5.0], [0.0, 1.0, 5.0 + 1e-12], [3.0, 4.0, 5.0]]))
    np.testing.assert_allclose(found, [1 / np.sqrt(2), 1 / np.sqrt(2), 0.0], rtol=1e-12)  # (-1, -1, 2): 6/3 over 2^1.5


class Fake:
    """An experiment of one statistic and three coordinates, whose nets' errors are made up."""

    n_statistics = 1

    def net_order(self):
        return np.arange(3)


def pattern(nets, skewed):
    z = stats.expon.ppf((np.arange(nets) + 0.5) / nets) if skewed else stats.norm.ppf((np.arange(nets) + 0.5) / nets)
    z = RNG(nets).permutation((z - z.mean()) / z.std(ddof=1))
    return {i: Moments(1, np.array([value]), np.zeros((1, 1))) for i, value in enumerate(z)}


@pytest.fixture
def planned(monkeypatch):
    def found(errors, detectable, skewed=False, **more):
        asked = []

        def run(experiment, size, nets, key, *, threads, root):
            asked.append((size, len(nets), key))
            scale = errors(size)
            return {i: Moments(1, part.mean * scale, part.scatter) for i, part in pattern(len(nets), skewed).items()}

        monkeypatch.setattr(student, "run_replications", run)
        return plan_nets(Fake(), [Check("", (3.0,), 1.0, 2.0)], "key", detectable=detectable, **more), asked

    return found


def shown(error, averaged=1):
    """The error that a check sees, with the pilots' margin: coefficient 3, scale 2, sixteen replications."""
    return 1.3 * STUDENT.detectable_shift * STUDENT.upper_limit * 1.5 * error / 4 / np.sqrt(averaged)


@pytest.mark.parametrize(("rate", "taken"), [(1.0, 1.0), (0.7, 0.7), (2.0, 1.25), (0.2, 0.5)])
@pytest.mark.parametrize("doublings", [-2.0, 0.0, 0.5, 2.6, 3.0])
def test_a_plan_goes_as_far_as_the_pilots_errors_fall(planned, rate, taken, doublings):
    def errors(size):
        return 2.0 ** (-rate * size)

    detectable = shown(errors(12)) * 2.0 ** (-taken * doublings) * (1 + 1e-9)
    plan, asked = planned(errors, detectable)
    assert asked == [(8, 256, "key#pilot8"), (12, 32, "key#pilot12")]
    assert plan.log2_points == 12 + max(math.ceil(doublings), 0)
    assert (plan.averaged, plan.dimensions) == (1, 3)
    assert plan.most == int(np.log2(2**30 / 48))
    assert plan.expected == pytest.approx(shown(errors(12)) * 2.0 ** (-taken * (plan.log2_points - 12)), rel=1e-9)


@pytest.mark.parametrize("doublings", [3.5, 6.2])
def test_far_plans_take_a_third_pilot_with_an_eighth_of_the_points(planned, doublings):
    def errors(size):  # slower from 12 on than before
        return 2.0 ** -(min(size, 12) + 0.8 * max(size - 12, 0))

    plan, asked = planned(errors, shown(errors(12)) * 2.0**-doublings * (1 + 1e-9))
    third = 12 + math.ceil(doublings) - 3
    assert asked[2:] == [(third, 16, f"key#pilot{third}")]
    left = np.log2(shown(errors(third)) / (shown(errors(12)) * 2.0**-doublings * (1 + 1e-9))) / 0.8
    assert plan.log2_points == third + math.ceil(left)
    assert plan.expected == pytest.approx(shown(errors(third)) * 2 ** (-0.8 * (plan.log2_points - third)), rel=1e-9)


def test_skewed_means_are_averaged_over_more_nets(planned):
    plan, asked = planned(lambda size: 2.0**-size, 1.0, skewed=True)
    z = np.array([part.mean[0] for part in pattern(256, True).values()])
    averaged = math.ceil(((stats.skew(z) + 0.15) / 0.4) ** 2)
    assert averaged > 10
    assert plan.averaged == averaged
    assert asked[1] == (12, 16 * averaged, "key#pilot12")
    assert plan.most == int(np.log2(2**30 / (48 * averaged)))
    assert plan.expected == pytest.approx(shown(2.0**-12, averaged), rel=1e-9)


def test_plans_stay_below_what_is_allowed(planned):
    plan, _ = planned(lambda size: 1.0, 1e-9, max_coordinates=48 * 2**13 + 5)
    assert (plan.log2_points, plan.most) == (13, 13)
    planned(lambda size: 1.0, 1e-9, max_coordinates=48 * 2**12)
    with pytest.raises(ValueError, match=f"max_coordinates must be >= {48 * 2**12}, got {48 * 2**12 - 1}"):
        planned(lambda size: 1.0, 1e-9, max_coordinates=48 * 2**12 - 1)
    result = decide(STUDENT, [Check("", (1.0, 0.0), 3.0, 1.0)], lambda stage: moments(16, 3.0, 1.0), 1.0)
    least = result[0].smallest_detectable
    plan = Plan(14, 1, 3, 0.1, 20)
    for times, more in ((0.3, 0), (1.0, 0), (1.01, 1), (2.0, 1), (4.1, 3), (1e3, 6)):
        assert plan.larger(14, result, least / times) == 14 + more


# --- guards ----------------------------------------------------------------------------------------------------------------


def test_neighbours_are_compared_by_von_neumanns_ratio():
    means = RNG(3).normal(size=(20, 2)).cumsum(axis=0)
    ratios = [np.sum(np.diff(x) ** 2) / 19 / x.var(ddof=1) for x in means.T]
    spread = 4 * 18 / (20**2 - 1)
    shape = 2 / spread - 0.5  # a beta law on (0, 4) with mean 2 and this variance
    assert stats.beta.var(shape, shape) * 16 == pytest.approx(spread)
    chance = min(stats.beta.cdf(np.array(ratios) / 4, shape, shape)) * 2
    require_apart(means, chance * 0.999)
    with pytest.raises(ValueError, match=f"by {min(ratios):.2g} times the variance"):
        require_apart(means, chance * 1.001)
    alternating = np.resize([1.0, -1.0], (20, 1))
    require_apart(alternating)  # differences as large as can be are no sign of a repeat
    ladder = np.arange(40.0)[:, None]
    with pytest.raises(ValueError, match=r"statistic 0\), and should by 2"):
        merge_replications({i: Moments(1, mean, np.zeros((1, 1))) for i, mean in enumerate(ladder)}, 40)
    with pytest.raises(ValueError, match=r"the replications 0 .. 1 exactly, got \[1, 2\]"):
        merge_replications({i: moments(1, 0.0, 0.0) for i in (1, 2)}, 2)


def chunk(rows):
    return Moments(
        len(rows), rows.mean(axis=0), np.einsum("ik,il->kl", rows - rows.mean(0), rows - rows.mean(0)), batch_means(rows)
    )


def test_batches_are_compared_with_the_variance_of_replicates():
    rows = np.column_stack([RNG(4).normal(size=5000), RNG(5).exponential(size=5000) ** 2, np.full(5000, 3.0)])
    parts = [chunk(rows[:3000]), chunk(rows[3000:])]
    found = {(size, m): (ratio, chance) for size, m, ratio, chance in dispersions(parts)}
    assert {size for size, _ in found} == {256, 1024}
    assert {m for _, m in found} == {0, 1}  # what does not vary is not judged
    for size in (256, 1024):
        means = np.array([
            part[k : k + size].mean(axis=0) for part in (rows[:3000], rows[3000:])
            for k in range(0, len(part) // 256 * 256 - size + 1, size)
        ])  # fmt: skip
        small = np.array([part[k : k + 256].mean(axis=0) for part in (rows[:3000], rows[3000:])
                          for k in range(0, len(part) - 255, 256)])  # fmt: skip
        for m in (0, 1):
            free = len(means) - 1
            total = size * np.sum((means[:, m] - means[:, m].mean()) ** 2) / rows[:, m].var(ddof=1)
            heavy = max(stats.kurtosis(small[:, m]), 0.0) * 256 / size  # skewness^2 of sums falls as one over their length
            # a gamma law, shifted, with mean free, variance 2 free, third cumulant (8 + 4 heavy) free
            skew = (8 + 4 * heavy) * free / (2 * free) ** 1.5
            chance = stats.pearson3.sf(total, skew, free, np.sqrt(2 * free))
            assert found[size, m][0] == pytest.approx(total / free, rel=1e-9)
            assert found[size, m][1] == pytest.approx(chance, rel=1e-6)
    least = min(chance for _, chance in found.values()) * len(found)
    require_independent(parts, least * 0.99)
    with pytest.raises(ValueError, match="its replicates are not independent"):
        require_independent(parts, least * 1.01)


def test_two_batches_are_compared_and_one_is_not():
    rows = RNG(9).normal(size=(512, 1))
    ((size, statistic, ratio, chance),) = dispersions([chunk(rows)])
    total = 256 * (rows[:256].mean() - rows[256:].mean()) ** 2 / 2 / rows.var(ddof=1)
    assert (size, statistic, ratio) == (256, 0, pytest.approx(total, rel=1e-9))
    assert chance == pytest.approx(stats.chi2.sf(total, 1), rel=1e-9)
    assert not list(dispersions([chunk(rows[:511])]))


def test_heavy_tails_are_measured_on_the_smallest_batches():
    rows = np.ones((8192, 1))
    rows[::2] = -1.0
    rows[5] = 400.0  # of 32 batches one has another mean: an excess kurtosis of 32 - 2 + 1 / 31 - 3
    means = np.array([399.0 / 256] + [0.0] * 31)
    heavy = stats.kurtosis(means)
    assert heavy == pytest.approx(27 + 1 / 31)
    found = {size: (ratio, chance) for size, _, ratio, chance in dispersions([chunk(rows)])}
    assert set(found) == {256, 1024, 4096}
    for size, (ratio, chance) in found.items():
        free = 8192 // size - 1
        groups = means.reshape(free + 1, -1).mean(axis=1)
        total = size * groups.var() * (free + 1) / rows.var(ddof=1)
        skew = (8 + 4 * heavy * 256 / size) * free / (2 * free) ** 1.5
        assert ratio == pytest.approx(total / free, rel=1e-9)
        assert chance == pytest.approx(stats.pearson3.sf(total, skew, free, np.sqrt(2 * free)), rel=1e-6)


def test_batches_of_a_size_are_means_of_neighbours():
    rows = RNG(6).normal(size=(2600, 2))
    part = chunk(rows)
    assert BATCH == 256
    np.testing.assert_allclose(of_size(part, 1024), [rows[:1024].mean(0), rows[1024:2048].mean(0)])
    assert of_size(part, 2600).tolist() == [part.mean.tolist()]
    assert of_size(part, 4096).shape == (0, 2)
    assert of_size(Moments(2600, part.mean, part.scatter), 256).shape == (0, 2)
    np.testing.assert_allclose(batch_means(rows[:700]), [rows[:256].mean(0), rows[256:512].mean(0)])


def test_what_varies_by_rounding_alone_is_not_judged():
    assert random(np.array([1.1e-18, 0.9e-18, 1.0, np.inf, 0.0]), np.array([1.0, 1.0, 0.0, 0.0, 0.0])).tolist() == [
        True, False, True, False, False,
    ]  # fmt: skip


def test_rows_of_coins_agree_by_chance_as_often_as_there_are_pairs_of_them():
    """Two of 64 rows of 16 fair coins agree with a chance of about 64 * 63 / 2 / 2^16."""
    coins = RNG(8).permutation(np.arange(1024.0) % 2).reshape(64, 16)
    coins[-1] = coins[0]
    part, chance = chunk(np.repeat(coins.ravel(), 256)[:, None]), 64 * 63 / 2 / 2**16
    assert repeated([part], 1.3 * chance)
    assert not repeated([part], 0.7 * chance)


def test_rows_of_sixteen_batches_that_agree_are_repeats():
    rows = RNG(7).normal(size=(16 * 256, 1))
    assert repeated([chunk(rows), chunk(rows)], 1e-6)
    assert not repeated([chunk(rows), chunk(rows[::-1].copy())], 1e-6)
    shorter = [chunk(rows[: 15 * 256]), chunk(rows[: 15 * 256])]
    assert not repeated(shorter, 1e-6)
    constant = np.zeros((16 * 256, 1))
    assert not repeated([chunk(constant), chunk(constant)], 1e-6)  # which chance makes agree
    chance = 2**2 / 2 * ((1 + 16) / (1 + 32 * 31 / 2)) ** 16  # 16 of all pairs of batches agree, and one for good measure
    assert repeated([chunk(rows), chunk(rows)], 1.01 * chance)
    assert not repeated([chunk(rows), chunk(rows)], 0.99 * chance)
    unnoted = Moments(len(rows), [0.0], [[1.0]])  # has no batches to compare
    assert not repeated([unnoted, chunk(rows[:300]), chunk(rows), unnoted], 1e-6)
    assert repeated([unnoted, chunk(rows), chunk(rows)], 1e-6)


# --- moments ---------------------------------------------------------------------------------------------------------------


def test_moments_of_combinations_by_hand():
    sample = np.array([[1.0, 4.0], [2.0, 0.0], [6.0, 2.0], [3.0, 10.0]])
    whole = Moments.of(sample)
    np.testing.assert_allclose(whole.covariance, np.cov(sample, rowvar=False))
    c = np.array([2.0, -1.0])
    assert whole.standard_deviation(c) == pytest.approx((sample @ c).std(ddof=1))
    assert whole.linear(c) == (pytest.approx((sample @ c).mean()), pytest.approx((sample @ c).std(ddof=1) / 2))
    value, error = whole.ratio([1.0, 0.0], [0.0, 1.0])
    assert value == pytest.approx(3 / 4)
    assert error == pytest.approx((sample[:, 0] - 0.75 * sample[:, 1]).std(ddof=1) / 2 / 4)
    value, error = whole.ratio([1.0, 0.0], [0.0, -1.0])
    assert (value, error > 0) == (pytest.approx(-3 / 4), True)
    for cut in (1, 3):
        parts = combine([Moments.of(sample[:cut]), Moments.of(sample[cut:])])
        np.testing.assert_allclose(parts.scatter, whole.scatter, rtol=1e-12)
        np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    nothing = Moments(0, [0.0], [[0.0]])
    assert nothing.merge(nothing).count == 0
    assert Moments(2, [1.0], [[2.0]]).covariance.tolist() == [[2.0]]
    for call, why in (
        (lambda: Moments(1, [1.0], [[0.0]]).covariance, "count must be >= 2"),
        (lambda: Moments(-1, [1.0], [[0.0]]), "count must be >= 0"),
        (lambda: whole.ratio([1.0, 0.0], [0.0, 0.0]), "denominator has mean zero"),
        (lambda: combine([]), "at least one Moments"),
        (lambda: whole.linear([1.0]), "2 finite numbers"),
        (lambda: Moments.of(np.zeros((0, 2))), "replicates >= 1"),
        (lambda: whole.merge(Moments.of([[1.0]])), "other has 1 statistics, expected 2"),
        (lambda: require_finite(np.array([[0.0, 1.0], [0.0, np.nan]])), "statistic 1 is not .* of 1 of 2 nets"),
    ):
        with pytest.raises(ValueError, match=why):
            call()


def test_pilots_of_strata_ask_for_as_many_nets_as_make_means_symmetric():
    means = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 3.0]])
    pilot = StrataPilot(means, np.ones(2), np.ones(2), np.ones(2))
    worst = stats.skew(means[:, 0]) + 0.15
    assert pilot.least_nets(0.1) == math.ceil((worst / 0.1) ** 2)
