"""Small nets: laws as quantiles, means over nets, how many, their least standard error, rates, guards."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from estimators import montecarlo as mc
from estimators.montecarlo import laws, nets, strata

CELLS = (np.arange(2**14) + 0.5) / 2**14
LAWS = [
    ("beta", (2.0, 3.0), stats.beta(2, 3)),
    ("beta", (0.3, 30.0), stats.beta(0.3, 30)),
    ("chisquare", (3.0,), stats.chi2(3)),
    ("binomial", (12, 0.3), stats.binom(12, 0.3)),
    ("binomial", (12, 0.97), stats.binom(12, 0.97)),
    ("geometric", (0.2,), stats.geom(0.2)),
    ("logseries", (0.9,), stats.logser(0.9)),
    ("negative_binomial", (0.5, 0.1), stats.nbinom(0.5, 0.1)),
    ("integers", (2, 9), stats.randint(2, 9)),
    ("integers", (7,), stats.randint(0, 7)),
    ("choice", (5,), stats.randint(0, 5)),
    ("normal", (2.0, 3.0), stats.norm(2, 3)),
    ("uniform", (-1.0, 3.0), stats.uniform(-1, 4)),
    ("exponential", (2.0,), stats.expon(scale=2)),
    ("gumbel", (1.0, 2.0), stats.gumbel_r(1, 2)),
]


class Cells(nets._Served):
    """A generator whose uniforms are the centres of equal cells."""

    def __init__(self):
        super().__init__(np.random.SFC64(0))

    def _uniforms(self, size):
        return CELLS.reshape(size)

    def _normals(self, size):
        return stats.norm.ppf(CELLS).reshape(size)


def by_hand(random, log2_points):
    """Points of a net, sorted by the first coordinate, bit by bit: SciPy's, times triangular matrices, and a shift."""
    plain = stats.qmc.Sobol(len(random), scramble=False, bits=32).random_base2(log2_points) * 2**32
    points = np.zeros(plain.shape, np.uint64)
    for d, column in enumerate(random.astype(int)):
        for k in range(32):
            top = 1 << 31 - k
            points[:, d] ^= np.uint64(top | column[k] & top - 1) * (plain[:, d].astype(np.uint64) & np.uint64(top) > 0)
        points[:, d] ^= np.uint64(column[32])
    return points[np.argsort(points[:, 0])]


def event(level, draws=1):
    return mc.SampledExperiment(lambda gen, reps: (gen.random((reps, draws)) < level).all(axis=1)[:, None].astype(float), 1)


class TestLaws:
    @pytest.mark.parametrize(("name", "parameters", "law"), LAWS, ids=lambda x: str(x)[:24])
    def test_a_draw_is_the_quantile_of_its_uniform(self, name, parameters, law):
        found = getattr(Cells(), name)(*parameters, size=(1, len(CELLS)))[0]
        np.testing.assert_allclose(found, law.ppf(CELLS), rtol=1e-11)

    def test_parameters_may_vary_from_draw_to_draw(self):
        p = np.linspace(0.01, 0.99, len(CELLS))
        np.testing.assert_array_equal(laws.binomial(CELLS, 9, p), stats.binom.ppf(CELLS, 9, p))

    def test_how_uniforms_lie_in_memory_changes_nothing(self):
        cells = np.random.default_rng(0).permutation(CELLS)[: 2**9 * 6].reshape(2, 2**9, 3)
        p = np.linspace(0.01, 0.99, 3)
        for axes in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
            laid = np.ascontiguousarray(cells.transpose(axes)).transpose(np.argsort(axes))
            np.testing.assert_array_equal(laws.beta(laid, 2.0, 3.0), laws.beta(cells.ravel(), 2.0, 3.0).reshape(cells.shape))
            np.testing.assert_array_equal(laws.binomial(laid, 9, p), stats.binom.ppf(cells, 9, p))

    @pytest.mark.parametrize(
        ("name", "parameters"),
        [
            ("logseries", (np.tile([0.1, 0.5, 0.9, 0.99], 2**12),)),
            ("negative_binomial", (np.tile([0.5, 3.0], 2**13), np.tile([0.2, 0.8, 0.5, 0.4], 2**12))),
            ("negative_binomial", (2.0, np.tile([0.2, 0.8], 2**13))),
        ],
        ids=["logseries", "both", "one"],
    )
    def test_parameters_of_tabled_laws_may_vary_too(self, name, parameters):
        found = getattr(Cells(), name)(*parameters)  # the size is that of the parameters
        rows = np.broadcast_arrays(*parameters)
        for law in {tuple(map(float, each)) for each in np.stack(rows, axis=1)[:4]}:
            of_it = np.all([row == x for row, x in zip(rows, law, strict=True)], axis=0)
            alone = getattr(Cells(), name)(*law, size=len(CELLS))
            np.testing.assert_array_equal(found[of_it], alone[of_it])

    def test_a_law_for_every_draw_is_refused_by_name(self):
        with pytest.raises(mc.NoNet, match="256 different laws"):
            laws.logarithmic(CELLS, np.linspace(0.1, 0.9, len(CELLS)))
        with pytest.raises(mc.NoNet, match="256 different laws"):
            nets.coordinates_of(lambda gen, n: gen.negative_binomial(gen.beta(2.0, 2.0, (n, 1)), 0.5, (n, 1)))

    def test_the_outermost_cells_and_the_middle(self):
        ends = np.array([2.0**-33, 0.5 - 2.0**-33, 0.5, 0.5 + 2.0**-33, 1 - 2.0**-33])
        np.testing.assert_allclose(laws.beta(ends, 0.3, 30.0), stats.beta.ppf(ends, 0.3, 30.0), rtol=1e-11)
        assert laws.binomial(ends[[0, -1]], 40, 0.5).tolist() == stats.binom.ppf(ends[[0, -1]], 40, 0.5).tolist()

    def test_counts_of_many_trials_are_found_from_the_end_that_is_near(self):
        """Where all of 500 trials fail with probability 1e-761, and where a uniform meets a sum of probabilities."""
        for p in (0.03, 0.5, 0.97):
            np.testing.assert_array_equal(laws.binomial(CELLS, 500, p), stats.binom.ppf(CELLS, 500, p))
        assert laws.binomial(np.array([0.5, 0.75, 0.875]), [1, 2, 3], 0.5).tolist() == [0, 1, 2]
        assert laws.binomial(np.array([0.25, 0.0625, 0.4375, 0.625]), [1, 2, 2, 1], [0.75, 0.75, 0.75, 0.375]).tolist() == [
            0,
            0,
            1,
            0,
        ]

    def test_counts_stay_within_the_trials_where_probabilities_sum_to_less_than_one(self):
        trials = np.arange(1, 40)
        for p in np.linspace(0.05, 0.5, 10):
            ends = np.resize([1 - 2.0**-53, 2.0**-53], (39, 2))
            found = laws.binomial(ends, trials[:, None], [p, 1 - p])
            assert found.min() >= 0
            assert (found <= trials[:, None]).all()

    def test_a_uniform_beyond_all_shares_is_of_the_last(self):
        assert laws.counted(np.array([0.1, 0.3, 0.7, 0.95]), np.full(3, 0.3)).tolist() == [0, 0, 2, 2]

    def test_tables_are_shared_and_cannot_be_written(self):
        with pytest.raises(ValueError, match="read-only"):
            laws.tabled(np.sqrt)[0, 0] = 1.0

    def test_choice_has_its_probabilities(self):
        found = Cells().choice([5, 7, 9], len(CELLS), p=[0.25, 0.25, 0.5])
        assert [np.mean(found == v) for v in (5, 7, 9)] == [0.25, 0.25, 0.5]

    @pytest.mark.parametrize(
        ("draw", "why"),
        [
            (lambda gen, n: gen.binomial(501, 0.5, (n, 1)), "500 trials"),
            (lambda gen, n: gen.negative_binomial(0.5, 1e-6, (n, 1)), "beyond 4096"),
            (lambda gen, n: gen.choice(3, (n, 1), replace=False), "without replacement"),
            (lambda gen, n: gen.poisson(3.0, (n, 1)), "poisson"),
        ],
    )
    def test_what_has_no_quantile_here_is_refused(self, draw, why):
        with pytest.raises(mc.NoNet, match=why):
            nets.coordinates_of(draw)

    def test_a_density_is_smooth_and_a_count_is_not(self):
        assert nets.dimensions_of(lambda gen, n: gen.beta(2.0, 3.0, (n, 4))) == 4
        with pytest.raises(mc.NoNet, match="jump"):
            nets.dimensions_of(lambda gen, n: gen.binomial(3, 0.5, (n, 1)))


class TestSmallNets:
    def test_every_net_is_balanced_and_has_a_scrambling_of_its_own(self):
        seen = []

        def draw(gen, reps):
            seen.append(gen.random((reps, 3)))
            return seen[-1]

        points = next(mc.StratifiedExperiment(mc.SampledExperiment(draw, 3), 8).points(mc.stream("own", 0), 4))
        assert points.shape == (4, 256, 3)
        for net in points:
            assert all(np.all(np.bincount((column * 256).astype(int)) == 1) for column in net.T)
        assert len({np.sort(net, axis=0).tobytes() for net in points}) == 4

    @pytest.mark.parametrize(("log2_points", "several"), [(6, 5), (8, 3)])
    def test_points_are_those_of_sobol_scrambled_by_hand_and_are_handed_out_in_turn(self, log2_points, several):
        random = np.random.default_rng(7).integers(0, 2**32, (several, 4, 33), dtype=np.uint32)
        rows = several << log2_points
        whole = nets.Strata(random, log2_points).random((rows, 4))
        for points, each in zip(np.split(whole, several), random, strict=True):
            order = np.argsort(points[:, 0])
            np.testing.assert_array_equal(points[order] * 2**32 - 0.5, by_hand(each, log2_points))
        source = nets.Strata(random, log2_points)
        np.testing.assert_array_equal(source.uniform(2.0, 5.0, rows), 2 + 3 * whole[:, 0])
        np.testing.assert_allclose(source.standard_normal((2, rows)), stats.norm.ppf(whole[:, 1:3]).T, rtol=1e-13)
        np.testing.assert_array_equal(source.random((1, rows, 1))[0, :, 0], whole[:, 3])
        with pytest.raises(ValueError, match="always take as many draws"):
            source.random(rows)
        large = nets.net("by hand", 2, log2_points, np.array([1, 2, 0]))
        draws = mc.stream("by hand#net", 2).integers(0, 2**32, (3, 33), dtype=np.uint32)
        points = nets.uniforms(large, 1 << log2_points)[:, [2, 0, 1]] * 2**32 - 0.5
        np.testing.assert_array_equal(points[np.argsort(points[:, 0])], by_hand(draws, log2_points))

    def test_a_scrambling_is_of_whole_words_of_the_stream_with_the_shift_last(self):
        whole = mc.SampledExperiment(lambda gen, reps: gen.random((reps, 3)), 3)
        points = next(mc.StratifiedExperiment(whole, 6).points(mc.stream("words", 0), 4))
        random = mc.stream("words", 0).integers(0, 2**32, (4, 3, 33), dtype=np.uint32)
        for net, each in zip(points, random, strict=True):
            np.testing.assert_array_equal(net[np.argsort(net[:, 0])] * 2**32 - 0.5, by_hand(each, 6))

    @pytest.mark.parametrize(("log2_points", "calls"), [(14, [4, 1]), (15, [2, 2, 1]), (16, [1] * 5), (17, [1] * 5)])
    def test_no_more_points_than_promised_are_drawn_in_one_call(self, log2_points, calls):
        """2^16 of them, or one net where that has more: so much memory, whatever the number of nets."""
        drawn = []

        def draw(gen, reps):
            drawn.append(reps)
            return (gen.random((reps, 1)) < 0.25).astype(float)

        small = strata.StratifiedExperiment(mc.SampledExperiment(draw, 1), log2_points)
        assert small.draws_per_replicate == 1 << log2_points  # which a few trial draws show
        drawn.clear()
        means = [points.mean(axis=1) for points in small.points(np.random.default_rng(0), 5)]
        assert drawn == [nets << log2_points for nets in calls]
        assert np.concatenate(means) == pytest.approx(np.full((5, 1), 0.25), abs=2.0**-log2_points)

    def test_means_are_unbiased_where_plain_draws_are_and_vary_far_less(self):
        experiment = event(0.3, 2)
        stratified = mc.run(mc.StratifiedExperiment(experiment, 8), 4096, "less")
        plain = mc.run(experiment, 4096 * 256, "less")
        assert abs(stratified.mean[0] - 0.09) < 5 * stratified.standard_error([1])
        assert stratified.standard_error([1]) < plain.standard_error([1]) / 3

    def test_the_same_bits_for_any_threads(self):
        stratified = mc.StratifiedExperiment(event(0.3, 2), 6)
        one, two = (mc.run(stratified, 70_000, "threads", threads=t) for t in (1, 2))
        assert one.mean.tobytes() == two.mean.tobytes()
        assert one.scatter.tobytes() == two.scatter.tobytes()

    def test_what_a_plan_is_told_it_sees_it_sees(self):
        experiment, truth = event(0.3, 2), 0.09
        for wanted in (1e-2, 1e-3):
            checks = [mc.Check("share", [1], truth, truth)]
            plan = mc.plan_strata(experiment, checks, "plan", detectable=wanted)
            (result,) = mc.perform_on_strata(experiment, checks, "plan", plan, detectable=wanted)
            assert result.passed
            assert result.reached
            assert plan.gain > 3
            assert result.reps == result.nets << plan.log2_points

    def test_nets_that_all_agree_are_not_taken_for_certain(self):
        # 2^-20 of the points of a net of 64 is one point in 16384 nets: most runs see none of them.
        truth = 0.5 + 2.0**-26
        experiment = event(truth)
        checks = [mc.Check("share", [1], truth, 1.0)]
        plan = mc.plan_strata(experiment, checks, "agree", detectable=1e-3)
        (result,) = mc.perform_on_strata(experiment, checks, "agree", plan)
        assert result.passed
        assert result.estimate == 0.5
        assert result.standard_error == plan.lone[0] / plan.nets > 1e-6
        # Ten points of all that were drawn, each of which would move a share by as much as 1.
        assert result.standard_error == pytest.approx(10 / (plan.nets << plan.log2_points))

    @pytest.mark.parametrize(
        ("draw", "why"),
        [
            (lambda gen, n: np.array([[gen.random()] for _ in range(n)]), "no axis"),
            (lambda gen, n: gen.random((n, 20_000)).sum(axis=1)[:, None], "too many small nets"),
        ],
    )
    def test_what_small_nets_cannot_serve_is_said(self, draw, why):
        with pytest.raises(mc.NoNet, match=why):
            mc.plan_strata(mc.SampledExperiment(draw, 1), [mc.Check("x", [1], 1.0, 1.0)], "no", detectable=1e-3)

    def test_too_few_small_nets_are_refused(self):
        experiment, checks = event(0.3), [mc.Check("share", [1], 0.3, 0.3)]
        plan = replace(mc.plan_strata(experiment, checks, "few", detectable=1e-2), nets=64)
        with pytest.raises(ValueError, match="plan: nets must be >= 1024, got 64"):
            mc.perform_on_strata(experiment, checks, "few", plan)

    def test_small_nets_that_share_a_scrambling_are_refused(self):
        class Twice(mc.StratifiedExperiment):
            def points(self, gen, nets):
                for points in super().points(gen, -(-nets // 2)):
                    yield np.repeat(points, 2, axis=0)

        with pytest.raises(ValueError, match="not independent"):
            mc.run(Twice(event(0.3, 2), 6), 65_536, "twice")

    def test_a_statistic_that_is_no_number_is_said(self):
        def draw(gen, reps):
            with np.errstate(invalid="ignore"):
                return np.sqrt(gen.random((reps, 1)) - 0.5)

        with pytest.raises(ValueError, match="not a finite number"):
            mc.plan_strata(mc.SampledExperiment(draw, 1), [mc.Check("x", [1], 1.0, 1.0)], "nan", detectable=1e-3)

    def test_a_kernel_stays_where_it_is(self):
        with pytest.raises(mc.NoNet, match="kernel"):
            mc.plan_strata(
                mc.JamesSteinExperiment(7, 2.0, 0.6, 1.0, 0.375), [mc.Check("x", [1, 0, 0], 1.0, 1.0)], "k", detectable=1e-3
            )


class TestByHand:
    PAIR = mc.SampledExperiment(lambda gen, n: (gen.random((n, 2)) < [0.3, 0.6]).astype(float), 2)

    def test_digits_are_of_all_whole_numbers_below_the_power_of_two(self):
        asked, generator = [], np.random.default_rng(1)

        class Asked:
            def integers(self, *limits, dtype):
                asked.append((*limits, dtype))
                return generator.integers(*limits, dtype=dtype)

        (points,) = mc.StratifiedExperiment(self.PAIR, 6).points(Asked(), 5)
        assert points.shape == (5, 64, 2)
        assert asked == [(0, 2**32, (5, 2, 33), np.uint32)]

    @staticmethod
    def piloted(monkeypatch, sds, z):
        """Pilots of one mean whose law is that of `z`, with these standard deviations by size of the nets."""
        z = (z - z.mean()) / z.std(ddof=1)

        def pilot(experiment, size, key, rows, root):
            return strata.StrataPilot(z[:, None] * sds[size], np.array([0.5]), np.ones(1), np.zeros(1))

        monkeypatch.setattr(strata, "pilot_strata", pilot)
        return [mc.Check("a", [1, 0], 1.0, 1.0)], (abs(stats.skew(z)) + 0.15) / 0.009

    def test_as_many_nets_as_are_allowed_are_enough_for_a_skewness_that_takes_as_many(self, monkeypatch):
        z = stats.expon.ppf((np.arange(256) + 0.5) / 256)
        checks, root = self.piloted(monkeypatch, dict.fromkeys((6, 8, 10, 12), 1e-6), z)
        least = int(np.ceil(root**2))
        plan = mc.plan_strata(self.PAIR, checks, "k", detectable=1e-3, max_coordinates=least * 2 << 6)
        assert (plan.log2_points, plan.nets) == (6, least)
        with pytest.raises(mc.NoNet, match="too many small nets"):
            mc.plan_strata(self.PAIR, checks, "k", detectable=1e-3, max_coordinates=(least * 2 << 6) - 1)

    def test_a_plan_sees_what_it_was_made_to_see_whatever_is_rounded(self, monkeypatch):
        """Nets that are just enough, by their squares, see the error itself; larger nets would see less than that."""
        sd = 50 * 1e-3 / mc.DECLARED.detectable_shift / np.sqrt(1.3)  # of which 2500 nets are as many as are needed
        z = stats.norm.ppf((np.arange(256) + 0.5) / 256)
        for nudge in (1 - 2e-12, 1.0):
            checks, _ = self.piloted(monkeypatch, {6: sd * nudge, 8: sd / 1.01, 10: sd / 1.01, 12: sd / 1.01}, z)
            plan = mc.plan_strata(self.PAIR, checks, "k", detectable=1e-3)
            assert plan.log2_points == 6
            assert plan.nets in (2500, 2501)
            assert plan.expected == pytest.approx(1e-3, rel=1e-3)

    @pytest.mark.parametrize("log2_points", [6, 10])
    def test_a_pilot_has_means_spreads_and_ranges_of_its_points(self, log2_points):
        rows = np.array([[1.0, 0.0], [2.0, -1.0]])
        pilot = strata.pilot_strata(self.PAIR, log2_points, "pilot", rows, 3)
        stratified = mc.StratifiedExperiment(self.PAIR, log2_points)
        blocks = list(stratified.points(mc.stream(f"pilot#strata{log2_points}", 0, 3), 256))
        drawn = np.concatenate(blocks) @ rows.T
        assert drawn.shape == (256, 2**log2_points, 2)
        np.testing.assert_allclose(pilot.means, drawn.mean(axis=1), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(pilot.spread, drawn.std(axis=(0, 1)), rtol=1e-3)  # nets of a block have nearly one mean
        assert pilot.reach.tolist() == [1.0, 3.0]
        assert pilot.lone == pytest.approx(10 * np.array([1.0, 3.0]) / 2**log2_points)

    @pytest.mark.parametrize("detectable", [1e-2, 1e-3, 2e-4])
    @pytest.mark.parametrize(("lopsided", "lone"), [(False, 0.0), (False, 30.0), (False, 3000.0), (True, 0.0)])
    @pytest.mark.parametrize("budget", [2**30, 2**23])
    def test_a_plan_has_the_fewest_points_that_see_an_error(self, monkeypatch, detectable, lopsided, lone, budget):
        """By a search over numbers of nets, of each size, for the least that is large enough; else the sharpest."""
        law = stats.expon if lopsided else stats.norm
        z = law.ppf((np.arange(256) + 0.5) / 256)
        z = (z - z.mean()) / z.std(ddof=1)
        sds = {6: 0.02, 8: 0.004, 10: 0.0019, 12: 0.0008}

        def pilot(experiment, size, key, rows, root):
            assert (key, root, rows.tolist()) == ("plan", 3, [[0.5, 0.0], [0.25, -0.25]])
            means = np.column_stack([z * sds[size], z * sds[size] / 2])
            return strata.StrataPilot(means, np.array([0.5, 0.4]), np.ones(2), np.array([lone, 0.1]) / 2**size)

        monkeypatch.setattr(strata, "pilot_strata", pilot)
        checks = [mc.Check("a", [1, 0], 0.3, 2.0), mc.Check("b", [1, -1], 0.3, 4.0)]
        plan = mc.plan_strata(self.PAIR, checks, "plan", detectable=detectable, max_coordinates=budget, root=3)
        shift, skew = mc.DECLARED.detectable_shift, (abs(stats.skew(z)) + 0.15) / 0.009

        def seen(size, nets):
            return max(np.sqrt(1.3) * sds[size] / np.sqrt(nets), lone / 2**size / nets, 0.1 / 2**size / nets) * shift

        found = []
        for size in (6, 8, 10, 12):
            least, most = max(1024, int(np.ceil(skew**2))), budget // (2 << size)
            if least > most:
                continue
            low, high = least - 1, most  # the first that is enough lies above low, or none does
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if seen(size, middle) <= detectable else (middle, high)
            found.append((seen(size, high) > detectable * (1 + 1e-9), seen(size, high), size, high))
        blind = all(each[0] for each in found)
        best = min(found, key=lambda each: each[1] if blind else (each[0], each[3] << each[2]))
        assert (plan.log2_points, plan.nets, plan.dimensions) == (best[2], best[3], 2)
        assert plan.expected == pytest.approx(best[1], rel=1e-9)
        assert plan.lone == pytest.approx((lone / 2 ** best[2], 0.1 / 2 ** best[2]))
        errors = [
            max(np.sqrt(1.3) * sds[best[2]] / share / np.sqrt(plan.nets), each / plan.nets)
            for share, each in zip((1, 2), plan.lone, strict=True)
        ]
        plain = np.array([0.5, 0.4]) / np.sqrt(plan.nets << plan.log2_points)
        assert plan.gain == pytest.approx(((plain / errors) ** 2).min(), rel=1e-9)

    def test_a_check_on_strata_is_the_rule_on_means_over_nets(self):
        checks = [mc.Check("right", [1, 1], 0.9, 1.0), mc.Check("wrong", [2, 0], 0.61, 2.0)]
        plan = strata.StrataPlan(6, 1024, 2, 0.1, 1.0, (0.3, 0.2))
        ways = {"root": 3, "threads": 1}
        results = mc.perform_on_strata(self.PAIR, checks, "by hand", plan, detectable=0.005, **ways)
        small = mc.StratifiedExperiment(self.PAIR, 6)
        stages = [mc.run(small, 1024 * k, f"by hand#strata-stage{k}", **ways) for k in (1, 2)]
        for check, result, moments, least in zip(checks, results, stages, plan.lone, strict=True):
            estimate, error = moments.linear(check.coefficients)
            error = max(error, least * check.scale / moments.count)
            assert (result.estimate, result.standard_error) == pytest.approx((estimate, error), rel=1e-12)
            assert (result.nets, result.reps) == (moments.count, moments.count * 64)
            first = max(stages[0].linear(check.coefficients)[1], least * check.scale / 1024)
            seen = mc.DECLARED.smallest_detectable(first, check.scale)
            assert (result.smallest_detectable, result.reached) == (pytest.approx(seen, rel=1e-12), seen <= 0.005)
        assert [(result.stages, result.passed) for result in results] == [(1, True), (2, False)]
        assert {result.reached for result in mc.perform_on_strata(self.PAIR, checks, "by hand", plan)} == {False}


class TestRates:
    """Levels loose enough to be met in a few hundred runs; the declared ones are quantiles of the same statistic."""

    RULE = mc.TwoStageRule(alpha1=0.1, alpha2=0.1, miss=1e-2)

    @pytest.mark.parametrize("level", [0.3, 0.5 + 2.0**-15, 0.05], ids=["share", "nearly whole", "seldom"])
    def test_false_alarms(self, level):
        experiment, runs = event(level, 2), 40
        truth = level**2
        checks = [mc.Check("share", [1], truth, truth)]
        plan = mc.plan_strata(experiment, checks, "null", detectable=0.05, rule=self.RULE)
        alarms = sum(
            not mc.perform_on_strata(experiment, checks, f"null{k}", plan, rule=self.RULE, threads=1)[0].passed
            for k in range(runs)
        )
        assert stats.binom.sf(alarms - 1, runs, self.RULE.false_alarm) > 1e-4

    def test_power(self):
        experiment = mc.SampledExperiment(lambda gen, n: (gen.standard_normal((n, 2)) < 0.5).all(axis=1)[:, None] * 1.0, 1)
        truth, runs = float(ndtr(0.5)) ** 2, 40
        checks = [mc.Check("share", [1], truth * 1.01, truth)]
        plan = mc.plan_strata(experiment, checks, "power", detectable=0.01, rule=self.RULE)
        missed = sum(
            mc.perform_on_strata(experiment, checks, f"power{k}", plan, rule=self.RULE, threads=1)[0].passed
            for k in range(runs)
        )
        assert stats.binom.sf(missed - 1, runs, self.RULE.miss) > 1e-4


def test_the_floor_keeps_the_rate_of_false_alarms():
    """Were deviating nets Poisson, with any mean: the chance that both stages are beyond their level on one side."""
    rule, worst = mc.DECLARED, 0.0
    k = np.arange(8000)
    for mean in np.geomspace(0.01, 3000, 80):
        both = {-1: 1.0, 1: 1.0}
        for factor, threshold in ((1, rule.threshold1), (rule.growth, rule.threshold2)):
            z = (k - factor * mean) / np.maximum(np.sqrt(k), strata.LONE)
            for side in both:
                both[side] *= stats.poisson.pmf(k, factor * mean)[side * z > threshold].sum()
        worst = max(worst, sum(both.values()))
    assert worst < 3 * rule.false_alarm
