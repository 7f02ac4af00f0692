"""Nets: the points, their randomisation, the quantile, one kernel for two sources, the rule for few means, the guards."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta, binom, chi2, kstest, qmc
from scipy.stats import t as student_t

from estimators import montecarlo as mc
from estimators.montecarlo import checks, kernels, laws, nets, randomisations, student
from estimators.montecarlo.moments import Moments
from estimators.montecarlo.nets import LANES, Drawn, at, net

FORM = [-1.0, 0.2, 0.0, 0.7]
CLIENTS = mc.ClientsExperiment([1.0, 2.0, 0.5, 1.0], 0.7, [0.0, 0.3, 0.0, 2.0], 1, [0.1, 0.4, 0.2, 0.3], FORM, FORM)
DESIGN = np.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [0.0, 1.0]])
EXPERIMENTS = [
    CLIENTS,
    mc.RegressionExperiment(DESIGN, [3.0, -1.0], 0.5, [1.0, 1.0, 2.0, 0.1], 0.8 * np.linalg.pinv(DESIGN), [0.6, -0.2]),
    mc.JamesSteinExperiment(7, 2.0, 0.6, 1.0, 0.375),
    mc.SampledExperiment(lambda gen, reps: gen.standard_normal((reps, 3)) ** 2, 3),
]


def clients_mean():
    """The exact mean of CLIENTS: the second moment of a linear form, summed noise by noise."""
    weight = 0.7 * CLIENTS.weights[0]
    own = np.arange(4) == 1
    return float(
        np.sum((weight - own) ** 2 * CLIENTS.tau2)
        + np.sum((weight + 0.2 * own) ** 2 * CLIENTS.alpha2)
        + np.sum(weight**2 * CLIENTS.nu2)
    )


def start(dimensions=5, log2_points=10, key="test", replication=0):
    return net(key, replication, log2_points, np.arange(dimensions))


class TestPoints:
    def test_direction_numbers_are_those_of_scipys_points(self):
        numbers = nets.directions(300)
        points = np.zeros((300, 64), np.uint32)
        for bit in range(6):
            points ^= np.where((np.arange(64) ^ np.arange(64) >> 1) >> bit & 1, numbers[:, bit, None], np.uint32(0))
        np.testing.assert_array_equal(points.T / 2**32, qmc.Sobol(300, scramble=False, bits=32).random(64))

    @pytest.mark.parametrize("log2_points", [6, 9, 12])
    def test_every_coordinate_has_one_point_in_each_cell(self, log2_points):
        points = nets.uniforms(start(40, log2_points), 2**log2_points)
        for column in points.T:
            assert np.all(np.bincount((column * 2**log2_points).astype(int)) == 1)

    @pytest.mark.parametrize("bits", range(9))
    def test_the_first_two_coordinates_fill_every_box_of_equal_size(self, bits):
        points = nets.uniforms(start(2, 8), 256)
        cells = (points * [2**bits, 2 ** (8 - bits)]).astype(int)
        assert len(np.unique(cells, axis=0)) == 256

    def test_a_single_point_is_uniform_over_the_randomisations(self):
        # Otherwise means would be biased. Point 37 of 64, over 4000 randomisations.
        values = np.array([nets.uniforms(start(2, 6, "uniform", r), 64)[37] for r in range(4000)])
        for column in values.T:
            assert kstest(column, "uniform").pvalue > 1e-6
        assert abs(np.corrcoef(values.T)[0, 1]) < 5 / np.sqrt(4000)

    def test_a_walk_may_begin_anywhere(self):
        whole = nets.uniforms(start(), 1024)
        for block in (0, 1, 5, 15):
            there = at(start(), block)
            np.testing.assert_array_equal(nets.uniforms(there, LANES), whole[block * LANES : (block + 1) * LANES])
            np.testing.assert_array_equal(Drawn(there, LANES).random((LANES, 5)), whole[block * LANES :][:LANES])

    def test_an_order_only_permutes_coordinates(self):
        order = np.array([2, 0, 1])
        np.testing.assert_array_equal(
            nets.uniforms(net("o", 0, 8, order), 256), nets.uniforms(net("o", 0, 8, np.arange(3)), 256)[:, order]
        )

    def test_normals_are_scipys_quantiles_to_a_few_units_in_the_last_place(self):
        source = start(3, 20)
        normals = Drawn(source, 2**20).standard_normal((2**20, 3))
        exact = ndtri(nets.uniforms(source, 2**20))
        assert np.max(np.abs(normals - exact) / np.spacing(np.abs(exact))) <= 8

    def test_the_ends_of_the_quantile(self):
        ends = np.r_[0:200, 2**31 - 200 : 2**31 + 200, 2**32 - 200 : 2**32].astype(np.uint32)
        ends = np.r_[ends, 2 ** np.arange(32, dtype=np.uint32) - np.uint32(1)]
        ends = np.r_[ends, np.zeros(-len(ends) % LANES, np.uint32)].reshape(-1, LANES)
        for row in ends:
            source = start(1, 6)._replace(base=np.zeros(1, np.uint32), within=row[None].copy())
            normals, exact = Drawn(source, LANES).standard_normal((LANES, 1))[:, 0], ndtri((row + 0.5) / 2**32)
            assert np.max(np.abs(normals - exact) / np.spacing(np.abs(exact))) <= 8
        assert np.all(np.isfinite(nets.quantile_table()))

    def test_shapes_may_have_the_points_along_any_axis(self):
        source = start(6, 9)
        points = nets.uniforms(source, 512)[:500]
        for shape, axis in (((500, 2, 3), 0), ((2, 500, 3), 1), ((2, 3, 500), 2), ((500, 6), 0)):
            found = np.moveaxis(Drawn(source, 500).random(shape), axis, 0)
            np.testing.assert_array_equal(found.reshape(500, 6), points)

    def test_constants_that_numbas_cache_must_see_are_those_of_the_other_file(self):
        assert kernels.LANES == LANES == 2**kernels.LOG2_LANES
        assert 2 ** (52 - kernels.MANTISSA) == laws.PARTS
        assert (1023 + laws.LOWEST) * laws.PARTS == kernels.FIRST_ROW
        assert kernels.DEGREE == laws.DEGREE

    def test_other_laws_are_quantiles_of_the_coordinates(self):
        draws = {
            "normal": (lambda gen, n: gen.normal(2.0, 3.0, (n, 1)), 2.0, 9.0),
            "uniform": (lambda gen, n: gen.uniform(-1.0, 3.0, n)[:, None], 1.0, 4 / 3),
            "exponential": (lambda gen, n: gen.exponential(2.0, size=(1, n)).T, 2.0, 4.0),
            "gumbel": (lambda gen, n: gen.gumbel(1.0, 2.0, size=(n, 1)), 1 + 2 * np.euler_gamma, 4 * np.pi**2 / 6),
        }
        for name, (draw, mean, variance) in draws.items():
            sample = nets.draw_on(draw, start(1, 16), 2**16)
            assert abs(sample.mean() - mean) < 2e-3, name
            assert abs(sample.var() / variance - 1) < 5e-3, name

    def test_integers_from_0_are_as_many_as_are_said(self):
        for ends, first in (((8,), 0), ((3, 11), 3)):
            drawn = nets.draw_on(lambda gen, n, ends=ends: gen.integers(*ends, size=(n, 1)), start(1, 10), 1024)
            values, counts = np.unique(drawn, return_counts=True)
            assert values.tolist() == list(range(first, first + 8))
            assert (counts == 128).all()  # a net has as many points in every eighth


class TestOneKernelForTwoSources:
    @pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: type(e).__name__)
    def test_the_compiled_kernel_is_its_twin_on_a_net(self, experiment):
        order = experiment.net_order()
        compiled, plain = (
            call(net("twin", 0, 11, order), 2048) for call in (experiment.kernel_call, experiment.reference_call)
        )
        np.testing.assert_allclose(compiled.mean, plain.mean, rtol=1e-11)
        np.testing.assert_allclose(compiled.scatter, plain.scatter, rtol=1e-9, atol=1e-9 * np.abs(plain.scatter).max())

    @pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: type(e).__name__)
    def test_same_bits_for_any_threads_and_workers(self, experiment):
        whole = mc.run_nets(experiment, 17, 8, "bits", threads=1)
        threaded = mc.run_nets(experiment, 17, 8, "bits", threads=5)
        workers = {}
        for mine in ([7, 0], [3], [1, 2, 6, 5, 4]):
            workers |= randomisations.run_replications(experiment, 17, mine, "bits", threads=2)
        merged = Moments.of(randomisations.merge_replications(workers, 8))
        for other in (threaded, merged):
            assert whole.mean.tobytes() == other.mean.tobytes()
            assert whole.scatter.tobytes() == other.scatter.tobytes()

    def test_another_root_or_key_is_another_randomisation(self):
        values = {float(mc.run_nets(CLIENTS, 8, 8, key, root=root).mean[0]) for key in ("a", "b") for root in (1, 2)}
        assert len(values) == 4

    def test_the_error_is_a_hundredth_of_that_of_plain_draws(self):
        # At the same number of replicates; the claim of the whole module.
        points, replications = 2**16, 16
        fine = mc.run_nets(CLIENTS, 16, replications, "gain").standard_error([1])
        plain = mc.run(CLIENTS, points * replications, "gain").standard_error([1])
        assert fine < plain / 100

    def test_an_odd_batch_keeps_nets_whole(self):
        experiment = mc.SampledExperiment(lambda gen, reps: gen.random((reps, 1)), 1, batch=1000)
        # Over a whole net every bit of a coordinate is as often 0 as 1, so that it has no error at all.
        assert mc.run_nets(experiment, 12, 8, "whole").linear([1]) == (0.5, 0.0)


@pytest.fixture(scope="module")
def null_runs():
    """Means of CLIENTS over nets of 256 points, 2000 runs of 16 + 32 randomisations each."""
    order, arguments = CLIENTS.net_order(), CLIENTS._arguments()
    means = [kernels.clients_kernel(net("null", r, 8, order), 256, *arguments)[0][0] for r in range(2000 * 48)]
    return np.reshape(means, (2000, 48))


class TestStudentsRule:
    def test_noncentral_t_is_the_law_of_a_shifted_mean_over_its_error(self):
        rng = np.random.default_rng(0)
        sample = rng.standard_normal((200_000, 8)) + 3.0 / np.sqrt(8)
        ratio = sample.mean(axis=1) / (sample.std(axis=1, ddof=1) / np.sqrt(8))
        for t in (1.0, 3.0, 5.0):
            expected = student.noncentral_t(t, 7, 3.0)
            low, high = binom.ppf([5e-7, 1 - 5e-7], len(ratio), expected)
            assert low <= np.sum(ratio <= t) <= high
        assert student.noncentral_t(2.7, 15, 0.0) == pytest.approx(student_t.cdf(2.7, 15), abs=1e-12)

    def test_its_rates(self):
        rule = mc.STUDENT
        assert rule.false_alarm == pytest.approx(1e-6)
        assert 2 * student_t.sf(rule.threshold1, 15) == pytest.approx(rule.alpha1)
        assert student_t.sf(rule.threshold2, 31) == pytest.approx(rule.alpha2)
        assert rule.miss_probability(rule.detectable_shift) == pytest.approx(1e-6, rel=1e-3)
        assert chi2.cdf(15 / rule.upper_limit**2, 15) == pytest.approx(rule.flattered)

    @pytest.mark.nightly
    def test_false_alarms_of_both_stages_on_nets(self, null_runs):
        # t of groups of 16 and of 32 randomisations; alarms of either stage at the declared levels and at larger ones.
        values = null_runs.ravel()
        for replications, level, sides in ((16, 1e-2, 2), (16, 1e-1, 2), (32, 1e-2, 1), (32, 1e-1, 1)):
            groups = values.reshape(-1, replications)
            t = (groups.mean(axis=1) - clients_mean()) / (groups.std(axis=1, ddof=1) / np.sqrt(replications))
            exceeding = np.sum((abs(t) if sides == 2 else t) > student_t.isf(level / sides, replications - 1))
            low, high = binom.ppf([5e-7, 1 - 5e-7], len(t), level)
            assert low <= exceeding <= high, (replications, level, exceeding)

    @pytest.mark.nightly
    def test_null_runs_pass_and_planted_errors_of_the_stated_size_are_seen(self, null_runs):
        # 2000 whole runs of the rule with a right claim, and 500 with one that is off by the smallest error it says to see.
        rule, alarms, seen = mc.STUDENT, 0, 0
        for run, row in enumerate(null_runs):
            stages = {1: Moments.of(row[:16, None]), 2: Moments.of(row[16:, None])}
            right = mc.Check("right", [1], clients_mean(), clients_mean())
            (result,) = checks.decide(rule, [right], stages.__getitem__, 1.0, points=256)
            alarms += not result.passed
            if run < 500:
                side = 1 + (-1) ** run * result.smallest_detectable
                wrong = mc.Check("wrong", [1], side * clients_mean(), clients_mean())
                seen += not checks.decide(rule, [wrong], stages.__getitem__, 1.0, points=256)[0].passed
        assert alarms == 0  # expected: 0.002 alarms
        # A run that flatters its standard error says too little; one that does not sees the error but once in a million.
        assert seen >= binom.ppf(1e-6, 500, 1 - rule.flattered)

    def test_an_error_of_1e_5_is_seen_and_the_right_value_is_not_accused(self):
        # Three draws: a client's own noises; the mean square of their sum is 4.
        own = mc.ClientsExperiment(1.0, 2.0, 1.0, 0, np.ones((1, 1)), [0, 0, 0, 1], [0, 0, 0, 1])
        claimed = [mc.Check("sum", [1], v, 4.0) for v in (4.0, 4.0 * (1 + 1e-5), 4.0 * (1 - 1e-5))]
        plan = mc.plan_nets(own, claimed, "deep", detectable=1e-5)
        right, above, below = mc.perform_on_nets(own, claimed, "deep", plan.log2_points, detectable=1e-5)
        assert (right.passed, above.passed, below.passed) == (True, False, False)
        assert right.smallest_detectable < 2e-5

    def test_plans_average_nets_where_means_are_skewed(self):
        # A squared normal in one dimension has skewed means at any size of nets; a sum over many dimensions has not.
        one = mc.ClientsExperiment(1.0, 0.0, 0.0, 0, np.ones((1, 1)), [0, 0, 0, 1], [0, 0, 0, 1])
        many = mc.ClientsExperiment(1.0, 1.0, 1.0, 0, np.ones((1, 16)) / 4, [0, 0, 0, 1], [0, 0, 0, 1])
        plans = [
            mc.plan_nets(experiment, [mc.Check("mse", [1], mean, mean)], "skewed", detectable=1e-3)
            for experiment, mean in ((one, 1.0), (many, 3.0))
        ]
        assert plans[0].averaged >= 4
        assert plans[1].averaged <= 2

    def test_plans_keep_to_their_cap(self):
        claimed = [mc.Check("mse", [1], clients_mean(), clients_mean())]
        plan = mc.plan_nets(CLIENTS, claimed, "cap", detectable=1e-9, max_coordinates=2**22)
        assert 16 * 2**plan.log2_points * plan.dimensions <= 2**22
        assert plan.expected > 1e-9

    def test_a_constant_is_compared_to_rounding(self):
        constant = mc.SampledExperiment(lambda gen, reps: 3.0 + 0.0 * gen.random((reps, 1)), 1)
        claimed = [mc.Check("c", [1], v, 3.0) for v in (3.0, 3.0 + 1e-6)]
        right, wrong = mc.perform_on_nets(constant, claimed, "constant", 8)
        assert right.passed
        assert not wrong.passed


class TestSmoothness:
    @pytest.mark.parametrize(
        "draw",
        [
            lambda gen, n: gen.standard_normal((n, 1)) ** 2,
            lambda gen, n: np.exp(0.1 * gen.normal(0, 2.0, (3, n, 1)).mean(axis=0)),
            lambda gen, n: np.column_stack([gen.random(n), np.log(gen.random(n))]),
            lambda gen, n: np.linalg.norm(gen.standard_normal((n, 4)), axis=1)[:, None],
            lambda gen, n: np.einsum("ni,ni->n", *[gen.standard_normal((n, 2))] * 2).reshape(n, 1),
        ],
    )
    def test_smooth_functions_are_followed(self, draw):
        assert nets.dimensions_of(draw) >= 1

    @pytest.mark.parametrize(
        ("draw", "what"),
        [
            (lambda gen, n: (gen.random((n, 1)) < 0.3) * 1.0, "less"),
            (lambda gen, n: np.where(gen.random((n, 1)) > 0.3, 1.0, 2.0), "greater"),
            (lambda gen, n: np.floor(3 * gen.random((n, 1))), "floor"),
            (lambda gen, n: np.abs(gen.standard_normal((n, 1))), "absolute"),
            (lambda gen, n: np.maximum(gen.standard_normal((n, 1)), 0), "maximum"),
            (lambda gen, n: np.sort(gen.standard_normal((n, 2)), axis=1), "sort"),
            (lambda gen, n: gen.standard_normal((n, 2)).max(axis=1), "max"),
            (lambda gen, n: gen.random((n, 1)).astype(int), "astype"),
            (lambda gen, n: np.eye(3)[np.asarray(3 * gen.random(n), int)], "numbers only"),
            (lambda gen, n: np.ones((n, 1)) + (gen.random((n, 1)).tolist() and 0), "tolist"),
            (lambda gen, n: np.ones((n, 1)) * len(gen.random((n, 1))), "do not come from its draws"),
        ],
    )
    def test_what_is_not_smooth_is_named(self, draw, what):
        with pytest.raises(mc.NoNet, match=what):
            nets.dimensions_of(draw)

    def test_why_jumps_are_refused(self):
        # A probability of 1/256 + 1/2560, by nets of 256 points: every net counts one point, but for one in ten that
        # counts two. Most groups of 16 see no spread at all, or far too little, around a value that is wrong by a tenth.
        q, order = 1.1 / 256, np.arange(1)
        counts = np.array([np.mean(nets.uniforms(net("jump", r, 8, order), 256) < q) for r in range(16 * 200)])
        groups = counts.reshape(-1, 16)
        assert np.mean(np.ptp(groups, axis=1) == 0) > 0.1


class TestGuards:
    @pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: type(e).__name__)
    def test_a_net_beyond_its_last_point(self, experiment):
        source = net("end", 0, 6, experiment.net_order())
        experiment.kernel_call(source, 64)
        with pytest.raises(ValueError, match="beyond its last point"):
            experiment.kernel_call(source, 64)

    def test_the_last_block_of_the_largest_net_is_its_last(self):
        last = at(start(2, 32), 2**26 - 1)
        getattr(kernels._next_block, "py_func", kernels._next_block)(last)  # which looks where compiled code does not
        assert last.block.tolist() == [2**26, 2**26]
        with pytest.raises(ValueError, match="beyond its last point"):
            kernels.skip_blocks(last, 1)

    def test_too_few_randomisations(self):
        with pytest.raises(ValueError, match="replications must be >= 8, got 4"):
            mc.run_nets(CLIENTS, 8, 4, "few")
        with pytest.raises(ValueError, match="replications must be >= 8"):
            mc.StudentRule(replications=4)

    def test_repeated_randomisations(self, monkeypatch):
        monkeypatch.setattr(randomisations, "net", lambda key, r, *rest: net(key, r // 2, *rest))
        with pytest.raises(ValueError, match="replications 0 and 1 share a scrambling"):
            mc.run_nets(CLIENTS, 8, 16, "twice")

    @pytest.mark.parametrize(("seed", "match"), [(0, "elsewhere and repeats"), (None, "comes from elsewhere")])
    def test_an_experiment_that_draws_from_elsewhere(self, seed, match):
        def draw(gen, reps):
            return 0 * gen.random((reps, 1)) + np.random.default_rng(seed).standard_normal((reps, 1))

        with pytest.raises(ValueError, match=match):
            mc.run_nets(mc.SampledExperiment(draw, 1), 8, 16, "elsewhere")

    def test_correlated_randomisations(self):
        rng = np.random.default_rng(1)
        follow = np.arange(16) + rng.standard_normal(16) / 2
        parts = {r: Moments(64, [follow[r]], [[64.0]]) for r in range(16)}
        with pytest.raises(ValueError, match="neighbours differ by"):
            randomisations.merge_replications(parts, 16)

    def test_false_alarms_of_the_guard_against_correlation(self):
        rng = np.random.default_rng(2)
        for alarm in (1e-2, 1e-3):
            refused = 0
            for _ in range(4000):
                try:
                    randomisations.require_apart(rng.standard_normal((16, 1)), alarm)
                except ValueError:
                    refused += 1
            assert refused <= binom.ppf(1 - 1e-6, 4000, alarm)

    @pytest.mark.parametrize("count", [3, 9])
    def test_neighbours_by_the_beta_law_with_the_moments_of_von_neumanns_ratio(self, count):
        """For normal means it has mean 2 and variance 4 (R - 2) / (R^2 - 1)."""
        rng = np.random.default_rng(count)
        means = np.cumsum(rng.standard_normal((count, 3)), axis=0)
        means[:, 1] += 5.0
        means[:, 2] = 4.0  # of which nothing can be said
        ratios = [np.sum(np.diff(column) ** 2) / np.sum((column - column.mean()) ** 2) for column in means.T[:2]]
        a = 0.5 * (4 / (4 * (count - 2) / (count**2 - 1)) - 1)  # of the beta law on (0, 4) with that variance
        assert beta.var(a, a, scale=4) == pytest.approx(4 * (count - 2) / (count**2 - 1))
        chance = 2 * min(beta.cdf(ratio, a, a, scale=4) for ratio in ratios)
        randomisations.require_apart(means, 0.999 * chance)
        with pytest.raises(ValueError, match="neighbours differ by"):
            randomisations.require_apart(means, 1.001 * chance)

    def test_means_of_several_nets_are_one_value_each(self):
        experiment = mc.SampledExperiment(lambda gen, reps: gen.standard_normal((reps, 2)) ** 2, 2)
        parts = randomisations.run_replications(experiment, 8, range(24), "several")
        assert {part.count for part in parts.values()} == {256}
        means = np.array([parts[k].mean for k in range(24)])
        for averaged, expected in ((3, means.reshape(8, 3, 2).mean(axis=1)), (1, means[:8]), (None, means[:8])):
            way = {} if averaged is None else {"averaged": averaged}
            found = mc.run_nets(experiment, 8, 8, "several", **way)
            assert found.count == 8
            np.testing.assert_allclose(found.mean, expected.mean(axis=0), rtol=1e-13)
            np.testing.assert_allclose(found.covariance, np.cov(expected.T), rtol=1e-10)
        with pytest.raises(ValueError, match="averaged must be >= 1, got 0"):
            mc.run_nets(experiment, 8, 8, "several", averaged=0)

    def test_more_dimensions_than_direction_numbers(self):
        with pytest.raises(ValueError, match=r"1 \.\. 21201 dimensions, got 21202"):
            net("wide", 0, 6, np.arange(21_202))
        wide = mc.SampledExperiment(lambda gen, reps: gen.standard_normal((reps, 3000)).mean(axis=1)[:, None] ** 2, 1)
        assert mc.run_nets(wide, 8, 8, "wide").linear([1])[0] == pytest.approx(1 / 3000, rel=0.2)

    def test_a_kernel_that_returns_nan(self):
        def draw(gen, reps):
            with np.errstate(invalid="ignore"):
                return np.sqrt(gen.standard_normal((reps, 1)))

        with pytest.raises(ValueError, match="statistic 0 is not a finite number"):
            mc.run_nets(mc.SampledExperiment(draw, 1), 8, 8, "nan")

    @pytest.mark.parametrize(
        ("draw", "why"),
        [
            (lambda gen, reps: gen.poisson(3.0, (reps, 1)), "poisson"),
            (lambda gen, reps: gen.random((7, 1)) + np.zeros((reps, 1)), "no axis"),
            (lambda gen, reps: gen.random((reps, 1 + reps % 5))[:, :1], "number of draws per replicate"),
            (lambda gen, reps: gen.standard_normal((reps, 1), dtype=np.float32), "another kind than float64"),
            (lambda gen, reps: kernels.bare_kernel(gen, 1) + gen.random((reps, 1)), "bit_generator"),  # compiled code
        ],
    )
    def test_what_a_net_cannot_serve_is_told(self, draw, why):
        with pytest.raises(mc.NoNet, match=why):
            mc.run_nets(mc.SampledExperiment(draw, 1), 8, 8, "none")

    def test_more_draws_than_were_counted(self):
        calls = []

        def draw(gen, reps):
            calls.append(reps)
            return gen.random((reps, 1 + (len(calls) > 4)))[:, :1]

        with pytest.raises(ValueError, match="takes coordinate 2 of a net that has 1"):
            mc.run_nets(mc.SampledExperiment(draw, 1), 8, 8, "more")

    def test_missing_replications(self):
        parts = randomisations.run_replications(CLIENTS, 8, range(7), "missing")
        with pytest.raises(ValueError, match=r"replications 0 \.\. 7 exactly"):
            randomisations.merge_replications(parts, 8)

    @pytest.mark.parametrize(
        ("log2_points", "order", "match"), [(5, [0], "log2_points"), (33, [0], "log2_points"), (8, [0, 2], "order")]
    )
    def test_bad_nets(self, log2_points, order, match):
        with pytest.raises(ValueError, match=match):
            net("bad", 0, log2_points, np.array(order))
