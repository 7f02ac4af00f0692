"""Monte Carlo engine: same bits for any schedule, kernels equal to their twins, calibrated checks."""

import pickle
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from estimators import montecarlo as mc
from estimators.montecarlo import kernels, reference
from estimators.montecarlo.checks import MAX_REPS, MIN_REPS, PILOT_REPS, SUITE_CHECKS, _judge
from estimators.montecarlo.moments import require_finite
from estimators.montecarlo.nets import net
from estimators.montecarlo.randomisations import merge_replications, run_replications
from estimators.montecarlo.runner import mapped
from estimators.montecarlo.streams import streams

FIVE_CLIENTS = {
    "tau2": [1.0, 2.0, 0.5, 1.0, 3.0],
    "alpha2": 0.7,
    "nu2": [0.0, 0.3, 0.0, 2.0, 0.1],
    "client": 1,
    "weights": [[0.2] * 5, [0.1, 0.4, 0.1, 0.3, 0.1]],
    "left": [[-1, 0, 0, 1, 0], [-1, 0, 0, 0, 1], [0.3, 0.1, 0.2, 1, -1]],
    "right": [[-1, 0, 0, 1, 0], [-1, 0, 0, 0, 1], [0, 1, 0, 1, 2]],
}


def clients(**changes):
    return mc.ClientsExperiment(**{**FIVE_CLIENTS, **changes})


def regression(**changes):
    design = np.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [0.0, 1.0]])
    arguments = {
        "design": design,
        "centre": [3.0, -1.0],
        "prior_variance": 0.5,
        "noise_variance": [1.0, 1.0, 2.0, 0.1],
        "gain": 0.8 * np.linalg.pinv(design),
        "offset": [0.6, -0.2],
    }
    return mc.RegressionExperiment(**{**arguments, **changes})


def james_stein(**changes):
    arguments = {"m": 7, "mu": 2.0, "theta_variance": 0.6, "noise_variance": 1.0, "shrink": 0.375}
    return mc.JamesSteinExperiment(**{**arguments, **changes})


EXPERIMENTS = [
    clients(),
    clients(nu2=0.0),
    clients(client=0, weights=np.zeros((0, 5)), left=[[1, 1, 0]], right=[[1, 0, 0]]),
    clients(weights=[1.0, 0.2, 0.0, 0.3, 1.0], left=[-1, 0, 0, 1], right=[0, 1, 0, 1]),
    regression(),
    james_stein(),
    james_stein(m=5, mu=-1.0, theta_variance=0.4, noise_variance=2.5, shrink=0.7),
]


def same_bits(a, b):
    return a.count == b.count and a.mean.tobytes() == b.mean.tobytes() and a.scatter.tobytes() == b.scatter.tobytes()


@dataclass(frozen=True)
class Normals:
    """Toy experiment: independent normal statistics, by their sufficient statistics (one draw per mean).

    A chunk costs microseconds, so thousands of checks go through the real `perform`.
    """

    n_statistics: int
    shift: float = 0.0
    draws_per_replicate: int = 1

    def kernel_call(self, gen, reps):
        mean = self.shift + gen.standard_normal(self.n_statistics) / np.sqrt(reps)
        return mc.Moments(reps, mean, np.diag(gen.chisquare(reps - 1, self.n_statistics)))

    def checks(self, scale):
        return [mc.Check(f"{m}", np.eye(self.n_statistics)[m], 0.0, scale) for m in range(self.n_statistics)]


def assert_frequency(hits, trials, rate):
    """Exact binomial test at the declared false-alarm rate of the suite."""
    low, high = binom.ppf([mc.FALSE_ALARM / 2, 1 - mc.FALSE_ALARM / 2], trials, rate)
    assert low <= hits <= high, f"{hits} of {trials}, expected {low:.0f} .. {high:.0f}"


class TestStreams:
    def test_equal_numpy_spawning(self):
        from zlib import crc32

        children = np.random.SeedSequence([11, crc32(b"claim")]).spawn(4)
        expected = [np.random.Generator(np.random.SFC64(child)).random() for child in children]
        assert [gen.random() for gen in streams("claim", 4, root=11)] == expected
        assert mc.stream("claim", 2, root=11).random() == expected[2]
        assert [gen.random() for gen in streams("claim", 1, root=11)] == expected[:1]

    def test_no_draw_repeats_across_chunks_stages_and_roots(self):
        generators = [gen for root in (1, 2) for stage in range(3) for gen in streams(f"claim#stage{stage}", 20, root=root)]
        draws = np.concatenate([gen.integers(0, 2**64, 2000, dtype=np.uint64) for gen in generators])
        # A chance collision among 240,000 numbers of 64 bits has probability 2e-9.
        assert len(np.unique(draws)) == draws.size

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [(("", 0), "key"), (("a", -1), "chunk"), (("a", 0, -1), "root"), ((3, 0), "key")],
    )
    def test_bad_input(self, arguments, match):
        with pytest.raises(ValueError, match=match):
            mc.stream(*arguments)
        with pytest.raises(ValueError, match="n_chunks"):
            streams("a", 0)


class TestMoments:
    @settings(deadline=None, derandomize=True)
    @given(
        st.lists(st.integers(0, 12), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) >= 2),
        st.integers(1, 3),
        st.floats(-1e3, 1e3),
        st.integers(0, 2**32),
    )
    def test_any_partition_equals_one_shot(self, sizes, count, location, seed):
        sample = location + np.random.default_rng(seed).standard_normal((sum(sizes), count))
        empty = mc.Moments(0, np.zeros(count), np.zeros((count, count)))
        parts = [mc.Moments.of(part) if len(part) else empty for part in np.split(sample, np.cumsum(sizes)[:-1])]
        merged, whole = mc.combine(parts), mc.Moments.of(sample)
        # Both sides round deviations of size 1 from numbers of size `location`: error location * eps each.
        bound = 100 * np.finfo(float).eps * (1 + abs(location)) * sum(sizes)
        assert merged.count == whole.count
        np.testing.assert_allclose(merged.mean, whole.mean, rtol=0, atol=bound)
        np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=0, atol=10 * bound)

    def test_linear_equals_the_moments_of_the_combined_sample(self):
        sample = np.random.default_rng(1).standard_normal((500, 3)) @ np.array([[1, 2, 0], [0, 1, 1], [3, 0, 1.0]])
        c = np.array([0.5, -2.0, 1.0])
        combined = sample @ c
        expected = combined.mean(), combined.std(ddof=1) / np.sqrt(500)
        assert mc.Moments.of(sample).linear(c) == pytest.approx(expected, rel=1e-12)

    def test_combination_that_cancels_has_no_error(self):
        column = np.random.default_rng(2).standard_normal((100, 1))
        assert mc.Moments.of(np.hstack([column, column])).linear([1, -1]) == (0.0, 0.0)

    def test_ratio_has_the_spread_it_declares(self):
        rng = np.random.default_rng(3)
        ratios = [mc.Moments.of(rng.normal([2.0, 5.0], 1.0, (400, 2))).ratio([1, 0], [0, 1]) for _ in range(2000)]
        values, errors = np.transpose(ratios)
        z = (values - 0.4) / errors
        # The mean of z**2 over 2000 samples has standard deviation sqrt(2 / 2000) = 0.032.
        assert abs(z.mean()) < 5 / np.sqrt(2000)
        assert abs((z**2).mean() - 1) < 5 * 0.032

    def test_is_immutable(self):
        moments = mc.Moments.of([[1.0], [2.0]])
        with pytest.raises(ValueError, match="read-only"):
            moments.mean[0] = 3
        with pytest.raises(ValueError, match="read-only"):
            moments.scatter[0, 0] = 3

    def test_means_that_are_no_numbers_are_named_by_their_statistic(self):
        require_finite(np.ones((4, 3)))
        with pytest.raises(ValueError, match="statistic 2 is not a finite number at some point of 3 of 4 nets"):
            require_finite(np.array([[1.0, 2.0, np.nan], [1.0, 2.0, np.inf], [1.0, 2.0, 3.0], [1.0, 2.0, -np.inf]]))

    def test_bad_input(self):
        two = mc.Moments.of([[1.0, 0.0], [2.0, 0.0]])
        for call, match in [
            (lambda: mc.Moments(-1, [0.0], [[0.0]]), "count"),
            (lambda: mc.Moments(1, [], [[]]), "mean"),
            (lambda: mc.Moments(1, [0.0], [0.0]), "scatter"),
            (lambda: mc.Moments.of([1.0, 2.0]), "sample"),
            (lambda: mc.combine([]), "parts"),
            (lambda: two.merge(mc.Moments.of([[1.0]])), "other"),
            (lambda: two.linear([1.0]), "coefficients"),
            (lambda: two.linear([1.0, np.nan]), "coefficients"),
            (lambda: two.ratio([1, 0], [0, 1]), "denominator"),
            (lambda: mc.Moments.of([[1.0]]).covariance, "count"),
        ]:
            with pytest.raises(ValueError, match=match):
                call()


class TestKernels:
    @pytest.mark.parametrize("experiment", EXPERIMENTS)
    @pytest.mark.parametrize("reps", [1, 63, 64, 20_001])
    def test_equals_its_numpy_twin_on_the_same_stream(self, experiment, reps):
        compiled = experiment.kernel_call(mc.stream("twin", 0), reps)
        plain = experiment.reference_call(mc.stream("twin", 0), reps)
        assert_equal_up_to_rounding(compiled, plain)

    @pytest.mark.parametrize("experiment", EXPERIMENTS)
    @pytest.mark.parametrize("reps", [255, 256, 1000, 1023, 1024])
    def test_has_the_means_of_all_full_batches(self, experiment, reps):
        """And of no other: the last block that 1023 replicates are drawn in ends where a fourth batch would."""
        compiled = experiment.kernel_call(mc.stream("full", 0), reps)
        plain = experiment.reference_call(mc.stream("full", 0), reps)
        assert compiled.batches.shape == (reps // 256, experiment.n_statistics)
        np.testing.assert_allclose(compiled.batches, plain.batches, rtol=1e-11, atol=1e-13)

    @pytest.mark.parametrize("experiment", EXPERIMENTS)
    def test_equals_its_uncompiled_source(self, experiment, monkeypatch):
        compiled = experiment.kernel_call(mc.stream("source", 0), 70)
        for name in (
            "_draw",
            "_accumulate",
            "_finish",
            "clients_kernel",
            "regression_kernel",
            "james_stein_kernel",
        ):
            kernel = getattr(kernels, name)
            monkeypatch.setattr(kernels, name, getattr(kernel, "py_func", kernel))  # the same when JIT is off
        assert_equal_up_to_rounding(experiment.kernel_call(mc.stream("source", 0), 70), compiled)

    def test_words_are_numpys_draws_to_the_last_bit_and_leave_numpys_state(self):
        """Of four million normals, so that about a thousand come from the ziggurat's tail."""
        plain, drawn = mc.stream("words", 0), mc.stream("words", 0)
        whole, normals = drawn.bit_generator.state, np.empty((64, kernels.LANES))
        words = kernels.Words(whole["state"]["state"])
        for _ in range(1024):
            kernels._words_block(words, normals)
            assert normals.T.tobytes() == plain.standard_normal((kernels.LANES, 64)).tobytes()
        drawn.bit_generator.state = whole
        assert drawn.random() == plain.random()

    def test_words_on_the_ziggurats_borders_are_drawn_as_numpy_draws_them(self):
        """A point on the end of a layer's box is not in it, and one of the tail that meets its bound is drawn anew."""
        constants = pytest.importorskip("numba.np.random._constants")
        states = [state_before((int(constants.ki_double[k]) << 9 | k, 2**62, 5)) for k in (1, 7, 255)]
        rng = np.random.default_rng(0)
        while len(states) < 6:
            word = int(rng.integers(1, 2**50))
            beyond = -constants.ziggurat_nor_inv_r * np.log1p(-word * 2.0**-53)
            nearly = int(-np.expm1(-beyond * beyond / 2) * 2**53)
            for spare in range(nearly - 3, nearly + 4):
                if -2 * np.log1p(-spare * 2.0**-53) == beyond * beyond:
                    states.append(state_before((int(constants.ki_double[0]) << 9, word << 11, spare << 11)))
        for state in states:
            plain = np.random.Generator(np.random.SFC64(0))
            plain.bit_generator.state = {**plain.bit_generator.state, "state": {"state": state.copy()}}
            words, normals = kernels.Words(state), np.empty((1, kernels.LANES))
            if hasattr(kernels._words_block, "py_func"):  # plain Python warns where words overflow
                kernels._words_block(words, normals)
                assert normals.tobytes() == plain.standard_normal(kernels.LANES).tobytes()
                np.testing.assert_array_equal(state, plain.bit_generator.state["state"]["state"])

    @pytest.mark.parametrize("bits", [np.random.SFC64, np.random.PCG64, np.random.Philox])
    @pytest.mark.parametrize("tables", [True, False])
    def test_kernels_draw_what_their_generator_would(self, bits, tables, monkeypatch):
        """By its words, where numba has the tables, or by calling NumPy: the same moments as the twin's, and the generator
        moves on by whole blocks.
        """
        if not tables:
            monkeypatch.setattr(kernels, "ki_double", np.zeros(0))
        experiment, reps = EXPERIMENTS[0], 3 * kernels.LANES
        gens = [np.random.Generator(bits(5)) for _ in range(3)]
        compiled, plain = experiment.kernel_call(gens[0], reps), experiment.reference_call(gens[1], reps)
        assert_equal_up_to_rounding(compiled, plain)
        gens[2].standard_normal(reps * experiment.draws_per_replicate)
        assert gens[0].random() == gens[1].random() == gens[2].random()

    def test_bare_kernel_sums_its_draws(self):
        bare = getattr(kernels.bare_kernel, "py_func", kernels.bare_kernel)
        expected = mc.stream("bare", 0).standard_normal(50).sum()
        for kernel in (bare, kernels.bare_kernel):
            assert kernel(mc.stream("bare", 0), 50) == pytest.approx(expected, abs=1e-13)

    @pytest.mark.parametrize("experiment", EXPERIMENTS)
    def test_draws_per_replicate(self, experiment):
        """The twin consumes the stream exactly as declared (the kernel consumes whole blocks)."""
        gen, counted = mc.stream("count", 0), mc.stream("count", 0)
        experiment.reference_call(gen, 9)
        counted.standard_normal(9 * experiment.draws_per_replicate)
        assert gen.random() == counted.random()
        assert experiment.kernel_call(gen, 2).mean.shape == (experiment.n_statistics,)

    def test_scatter_survives_a_large_bias(self):
        """Spread 1e-9 of the mean: unshifted sums of squares would have no correct digit."""
        tiny = regression(prior_variance=0.0, noise_variance=1e-18, offset=0.0)
        moments = tiny.kernel_call(mc.stream("bias", 0), 20_000)
        bias = tiny.gain @ tiny.design @ tiny.centre + tiny.offset - tiny.centre
        spread = 2 * np.abs(bias) * np.sqrt((tiny.gain**2).sum(axis=1) * 1e-18)
        # Relative sampling error of a standard deviation: 1 / sqrt(2 * 20000) = 0.5 %; rounding of a
        # statistic of size bias**2 adds eps / 1e-9.
        np.testing.assert_allclose(np.sqrt(np.diag(moments.covariance)[1:]), spread, rtol=5 * 0.005)

    def test_twins_have_the_signatures_of_the_kernels(self):
        import inspect

        for name in ("clients", "regression", "james_stein"):
            kernel = getattr(kernels, f"{name}_kernel")
            kernel = getattr(kernel, "py_func", kernel)
            twin = getattr(reference, f"{name}_reference")
            assert list(inspect.signature(kernel).parameters) == list(inspect.signature(twin).parameters)


def state_before(words):
    """A state of SFC64 whose next three words are these: its steps backwards."""
    whole, c = 2**64 - 1, 0x9E3779B97F4A7C15
    first, second, third = words
    after = (c << 24 | c >> 40) + first & whole
    b = c + (c << 3) & whole
    counter = third - (b ^ b >> 11) - (after + (after << 3)) - 2 & whole
    shifted = second - b - counter - 1 & whole
    b = shifted
    for _ in range(6):
        b = shifted ^ b >> 11
    return np.array([first - b - counter & whole, b, c, counter], np.uint64)


def assert_equal_up_to_rounding(a, b):
    """Sums of n terms in another order differ by at most n eps times the sum of their absolute values.

    The absolute values of a statistic sum to at most n times its root mean square; each term itself carries
    some tens of eps.
    """
    assert a.count == b.count
    eps = np.finfo(float).eps
    root_mean_square = np.sqrt(np.diag(b.scatter) / b.count + b.mean**2)
    bound = (b.count + 100) * eps * root_mean_square
    assert (np.abs(a.mean - b.mean) <= bound).all()
    assert (np.abs(a.scatter - b.scatter) <= b.count * 4 * np.outer(bound, root_mean_square)).all()


class TestRunner:
    reps = 3 * mc.CHUNK + 1234

    @pytest.mark.parametrize("experiment", [clients(), regression(), james_stein()])
    def test_same_bits_for_any_schedule(self, experiment):
        one = mc.run(experiment, self.reps, "bits", threads=1)
        assert one.count == self.reps
        assert same_bits(one, mc.run(experiment, self.reps, "bits", threads=2))
        assert same_bits(one, mc.run(experiment, self.reps, "bits"))
        backwards = mc.run_chunks(experiment, self.reps, "bits", [3, 1, 2, 0], threads=2)
        assert same_bits(one, mc.merge_chunks(backwards, self.reps))
        workers = [mc.run_chunks(experiment, self.reps, "bits", share, threads=1) for share in ([2], [3, 0], [1])]
        assert same_bits(one, mc.merge_chunks({k: v for worker in workers for k, v in worker.items()}, self.reps))

    @pytest.mark.parametrize("number", [2, 3])
    def test_as_many_tasks_as_threads_run_at_once(self, number):
        together = threading.Barrier(number, timeout=20)  # broken where one waits for the others in vain
        assert mapped(lambda task: (task, together.wait())[0], range(number), number) == list(range(number))

    @pytest.mark.parametrize(("tasks", "threads"), [(3, 1), (1, 4), (0, 4)])
    def test_what_runs_one_by_one_runs_in_the_callers_thread(self, tasks, threads):
        """Where its settings are in force, as those of NumPy for errors, which a new thread does not have."""
        with np.errstate(divide="raise"):
            found = mapped(lambda task: (task, threading.get_ident(), np.geterr()["divide"]), range(tasks), threads)
        assert found == [(task, threading.get_ident(), "raise") for task in range(tasks)]

    def test_same_bits_over_processes(self):
        """The three lines of `run_chunks`, and the same for nets."""
        joblib = pytest.importorskip("joblib")
        experiment, chunks = clients(), range(mc.n_chunks(self.reps))
        with joblib.parallel_config("loky", n_jobs=2):
            parts = joblib.Parallel()(joblib.delayed(mc.run_chunks)(experiment, self.reps, "bits", [k]) for k in chunks)
            nets = joblib.Parallel()(joblib.delayed(run_replications)(experiment, 10, [k], "bits") for k in range(8))
        merged = mc.merge_chunks({k: moments for part in parts for k, moments in part.items()}, self.reps)
        assert same_bits(mc.run(experiment, self.reps, "bits", threads=1), merged)
        means = merge_replications({k: moments for part in nets for k, moments in part.items()}, 8)
        assert same_bits(mc.run_nets(experiment, 10, 8, "bits", threads=1), mc.Moments.of(means))

    def test_memory_hardly_grows_with_replicates(self):
        """A chunk leaves its moments and a mean of every 256 replicates; what it drew is given back."""
        uniform = mc.SampledExperiment(lambda gen, n: gen.random((n, 1)), 1)

        def peak(chunks):
            tracemalloc.start()
            mc.run(uniform, chunks * mc.CHUNK, "memory", threads=1)
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return found

        mc.run(uniform, mc.CHUNK, "memory", threads=1)
        assert peak(40) - peak(4) < 36 * mc.CHUNK * 8 / 20

    def test_key_and_root_choose_the_stream(self):
        results = [mc.run(james_stein(), 1000, key, root=root).mean[0] for key in ("a", "b") for root in (1, 2)]
        assert len(set(results)) == 4

    @pytest.mark.parametrize("experiment", [clients(), regression(), james_stein()])
    def test_pickled_experiments_give_the_same_bits(self, experiment):
        copy = pickle.loads(pickle.dumps(experiment))
        assert same_bits(mc.run(copy, 1000, "pickle"), mc.run(experiment, 1000, "pickle"))

    def test_experiments_own_read_only_arrays(self):
        weights = np.full((1, 3), 1 / 3)
        experiment = mc.ClientsExperiment(1, 1, 0, 0, weights, [1, 0, 0, 0], [1, 0, 0, 0])
        weights[0, 0] = 9
        assert experiment.weights[0, 0] == 1 / 3
        with pytest.raises(ValueError, match="read-only"):
            experiment.tau2[0] = 2

    @pytest.mark.parametrize(
        ("make", "changes", "match"),
        [
            (clients, {"tau2": -1.0}, "tau2"),
            (clients, {"alpha2": np.nan}, "alpha2"),
            (clients, {"nu2": [1.0, 2.0]}, "nu2"),
            (clients, {"tau2": np.inf}, "tau2"),
            (clients, {"tau2": "one"}, "tau2"),
            (clients, {"client": 5}, "client"),
            (clients, {"client": -1}, "client"),
            (clients, {"client": 1.0}, "client"),
            (clients, {"weights": np.zeros((1, 0))}, "weights"),
            (clients, {"weights": np.zeros((1, 1, 5))}, "weights"),
            (clients, {"left": [[1.0]]}, "left"),
            (clients, {"left": np.zeros((0, 5))}, "left"),
            (clients, {"right": [[1.0] * 5]}, "right"),
            (regression, {"design": [1.0, 2.0]}, "design"),
            (regression, {"design": np.zeros((0, 2))}, "design"),
            (regression, {"gain": np.zeros((4, 2))}, "gain"),
            (regression, {"centre": [1.0] * 3}, "centre"),
            (regression, {"prior_variance": -1e-9}, "prior_variance"),
            (regression, {"noise_variance": [1.0, 1.0, -1.0, 1.0]}, "noise_variance"),
            (regression, {"offset": np.nan}, "offset"),
            (james_stein, {"m": 3}, "m must"),
            (james_stein, {"m": 4.5}, "m must"),
            (james_stein, {"mu": np.nan}, "mu"),
            (james_stein, {"theta_variance": -1.0}, "theta_variance"),
            (james_stein, {"noise_variance": 0.0}, "noise_variance"),
            (james_stein, {"shrink": np.inf}, "shrink"),
        ],
    )
    def test_bad_experiments(self, make, changes, match):
        with pytest.raises(ValueError, match=match):
            make(**changes)

    def test_the_ends_of_domains_are_permitted(self):
        one = mc.ClientsExperiment(0.0, 0.0, [2.0, 0.5], 1, [0.0, 1.0], [0, 0, 0, 1], [0, 0, 1, 0])
        assert (one.n_clients, one.n_statistics, one.draws_per_replicate) == (2, 1, 1)  # the noise of its own message
        assert one.kernel_call(mc.stream("ends", 0), 5000).linear([1])[0] == pytest.approx(0.5, rel=0.1)
        line = regression(design=[[2.0]], centre=0.0, prior_variance=0.0, noise_variance=0.0, gain=[[0.5]], offset=1.5)
        assert line.kernel_call(mc.stream("ends", 0), 3).mean.tolist() == [2.25, 2.25]
        assert james_stein(m=4, theta_variance=0.0).draws_per_replicate == 8
        sizes = []

        def draw(gen, reps):
            sizes.append(reps)
            return gen.random((reps, 1))

        for batch, reps, calls in ((1, 3, [1] * 3), (1000, 2500, [1000, 1000, 500]), (1000, 2000, [1000] * 2), (9, 5, [5])):
            sizes.clear()
            mc.SampledExperiment(draw, 1, 1, batch).kernel_call(mc.stream("ends", 0), reps)
            assert sizes == calls
        for batch, calls in ((10, [64] * 4), (130, [128] * 2), (192, [192, 64])):  # of nets whole blocks of 64
            sizes.clear()
            small = mc.SampledExperiment(draw, 1, 1, batch)
            assert small.kernel_call(net("ends", 0, 8, np.arange(1)), 256).mean[0] == 0.5
            assert sizes == calls
        for name in ("n_statistics", "draws_per_replicate", "batch"):
            with pytest.raises(ValueError, match=f"{name} must be >= 1, got 0"):
                mc.SampledExperiment(draw, **{"n_statistics": 1, name: 0})

    def test_bad_runs(self):
        experiment = Normals(1)
        parts = mc.run_chunks(experiment, mc.CHUNK + 10, "a", [0, 1])
        for call, match in [
            (lambda: mc.run(experiment, 0, "a"), "reps"),
            (lambda: mc.run(experiment, 1e5, "a"), "reps"),
            (lambda: mc.run(experiment, 100, "a", threads=0), "threads"),
            (lambda: mc.run_nets(clients(), 6, 8, "a", averaged=0), "averaged"),
            (lambda: mc.run_chunks(experiment, 100, "a", [1]), "chunks"),
            (lambda: mc.merge_chunks({0: parts[0]}, mc.CHUNK + 10), "parts"),
            (lambda: mc.merge_chunks(parts, mc.CHUNK + 2), "replicates"),
        ]:
            with pytest.raises(ValueError, match=match):
                call()


class TestRule:
    def test_declared_rates(self):
        assert pytest.approx(1e-6, rel=1e-12) == mc.FALSE_ALARM
        assert pytest.approx(1e-3, rel=1e-12) == SUITE_CHECKS * mc.FALSE_ALARM
        assert mc.DECLARED.miss_probability(mc.DECLARED.detectable_shift) == pytest.approx(mc.MISS, rel=1e-6)

    def test_sample_size_and_detectable_error_are_inverse(self):
        reps = mc.required_reps(1.5, 0.007)
        assert mc.smallest_detectable(1.5 / np.sqrt(reps)) == pytest.approx(0.007, rel=1e-5)
        assert mc.required_reps(0.0) == MIN_REPS

    @pytest.mark.parametrize(
        "rule",
        [mc.DECLARED, mc.TwoStageRule(alpha1=0.2, alpha2=0.1), mc.TwoStageRule(alpha1=0.5, alpha2=0.3)],
    )
    @pytest.mark.parametrize("shift", [0.0, 1.0, -3.0, 5.0])
    def test_rates_on_normal_scores(self, rule, shift):
        """Observed rates equal the formulas, for any rule and on both sides."""
        trials = 200_000
        rng = np.random.default_rng(7)
        z1 = shift + rng.standard_normal(trials)
        z2 = shift * np.sqrt(rule.growth) + rng.standard_normal(trials)
        exceeds = [rule.exceeds(z) for z in z1]
        fails = [e and rule.confirms(a, b) for e, a, b in zip(exceeds, z1, z2, strict=True)]
        if shift == 0:
            assert_frequency(sum(exceeds), trials, rule.alpha1)
            assert_frequency(sum(fails), trials, rule.false_alarm)
        else:
            caught = [f and np.sign(z) == np.sign(shift) for f, z in zip(fails, z1, strict=True)]
            assert_frequency(sum(caught), trials, 1 - rule.miss_probability(abs(shift)))

    def test_nan_fails(self):
        assert mc.DECLARED.exceeds(np.nan)
        assert mc.DECLARED.confirms(np.nan, np.nan)

    def test_bad_input(self):
        for call, match in [
            (lambda: mc.TwoStageRule(alpha1=0.0), "alpha1"),
            (lambda: mc.TwoStageRule(growth=0), "growth"),
            (lambda: mc.required_reps(-1.0), "relative_sd"),
            (lambda: mc.required_reps(np.nan), "relative_sd"),
            (lambda: mc.required_reps(1.0, 0.0), "detectable"),
            (lambda: mc.smallest_detectable(np.nan), "standard_error"),
            (lambda: mc.smallest_detectable(1.0, 0.0), "scale"),
        ]:
            with pytest.raises(ValueError, match=match):
                call()


class TestPerform:
    scale = 4.0  # relative standard deviation 0.25, so that the smallest sample reaches the target

    def outcomes(self, runs, rule=mc.DECLARED, shift=0.0, statistics=50):
        experiment = Normals(statistics, shift)
        checks = experiment.checks(self.scale)
        return [
            result for k in range(runs) for result in mc.perform(experiment, checks, f"calibration{k}", threads=1, rule=rule)
        ]

    def test_stage_1_exceeds_at_its_declared_rate(self):
        results = self.outcomes(400)
        assert_frequency(sum(r.stages == 2 for r in results), len(results), 1e-2)
        assert all(r.passed for r in results)  # 20,000 true claims: P(any failure) = 0.02

    def test_true_claims_fail_at_the_declared_rate(self):
        rule = mc.TwoStageRule(alpha1=0.3, alpha2=0.2)
        results = self.outcomes(200, rule)
        assert_frequency(sum(not r.passed for r in results), len(results), rule.false_alarm)

    def test_power_is_the_declared_one(self):
        shift = self.outcomes(1)[0].smallest_detectable * self.scale
        caught = self.outcomes(40, shift=shift)
        assert not any(r.passed for r in caught)  # 2000 misses of probability 1e-6
        assert all(r.stages == 2 for r in caught)
        tenth = self.outcomes(40, shift=shift / 10)
        # miss_probability leaves out the tail on the wrong side, here 1e-9
        assert_frequency(
            sum(not r.passed for r in tenth),
            len(tenth),
            1 - mc.DECLARED.miss_probability(mc.DECLARED.detectable_shift / 10),
        )

    def test_loose_power_is_the_declared_one(self):
        rule = mc.TwoStageRule(alpha1=0.1, alpha2=0.05, miss=0.2)
        shift = self.outcomes(1, rule)[0].smallest_detectable * self.scale
        results = self.outcomes(100, rule, shift)
        assert_frequency(sum(r.passed for r in results), len(results), rule.miss)

    @pytest.mark.parametrize(
        ("experiment", "coefficients", "expected"),
        [
            # error of the mean of 5 messages: (1 - 1/5) tau2_1 and 1/5 of everything else, independent
            (clients(tau2=1.0, nu2=0.5), [1, 0, 0], 0.64 + 4 * 0.04 + 0.04 * 5 * 1.2),
            # bias -(1 - 0.8) centre + offset = 0, prior shrunk error 0.2, noise 0.8 of least squares
            (
                regression(noise_variance=1.0),
                [1, 0, 0],
                0.04 * 0.5 * 2 + 0.64 * np.trace(np.linalg.inv(regression().design.T @ regression().design)),
            ),
            # fixed shrink toward the grand mean: (1 + (m - 1) f) / m at the oracle factor 0.375
            (james_stein(), [0, 1, 0], (1 + 6 * 0.375) / 7),
        ],
    )
    def test_right_value_passes_and_one_percent_off_fails(self, experiment, coefficients, expected):
        values = [expected, 1.01 * expected, 0.99 * expected]
        checks = [mc.Check(f"{v}", coefficients, v, expected) for v in values]
        right, *wrong = mc.perform(experiment, checks, "negative control")
        assert right.passed
        assert right.reached
        assert right.smallest_detectable <= 0.01
        assert not any(r.passed for r in wrong)
        assert {r.stages for r in wrong} == {2}
        assert "FAILED" in str(wrong[0])

    def test_true_identity_with_zero_variance_passes(self):
        left = [[-1, 0, 0, 1, 0], [-2, 0, 0, 2, 0]]
        twice = clients(left=left, right=[left[0], left[0]])
        (result,) = mc.perform(twice, [mc.Check("identity", [2, -1], 0.0, 1.0)], "identity")
        assert result.passed
        assert result.stages == 1
        (wrong,) = mc.perform(twice, [mc.Check("wrong", [2, -1], 1e-9, 1.0)], "identity")
        assert not wrong.passed

    def test_says_when_the_target_was_not_reached(self):
        (result,) = mc.perform(Normals(1), [mc.Check("hard", [1], 0.0, 1e-3)], "hard", max_reps=MIN_REPS)
        assert result.reps == MIN_REPS
        assert not result.reached
        assert result.smallest_detectable > 0.01
        assert "not reached" in str(result)

    def test_sample_size_comes_from_the_pilot(self):
        (result,) = mc.perform(Normals(1), [mc.Check("size", [1], 0.0, 0.5)], "size")
        assert result.reached
        target = mc.required_reps(2.0)
        assert 1.0 < result.reps / target < 1.25
        assert target < MAX_REPS
        assert PILOT_REPS <= mc.CHUNK

    def test_stages_are_runs_on_streams_of_their_own(self):
        """As large as the check that asks for most, with a tenth more for the pilot's luck; then thrice as large."""
        experiment, rule = Normals(2, 0.02), mc.TwoStageRule(alpha1=0.2, alpha2=0.1, growth=3)
        checks = [mc.Check("right", [1, 1], 0.04, 2.5), mc.Check("wrong", [0, 2], 0.1, 4.0)]
        ways = {"root": 3, "threads": 1}
        results = mc.perform(experiment, checks, "by hand", detectable=0.005, rule=rule, **ways)
        pilot = mc.run(experiment, PILOT_REPS, "by hand#stage0", **ways)
        sds = [pilot.standard_deviation(check.coefficients) / check.scale for check in checks]
        reps = max(rule.required_reps(np.sqrt(1.1) * sd, 0.005) for sd in sds)
        first = mc.run(experiment, reps, "by hand#stage1", **ways)
        second = mc.run(experiment, 3 * reps, "by hand#stage2", **ways)
        for check, result, moments in zip(checks, results, (first, second), strict=True):
            estimate, error = moments.linear(check.coefficients)
            assert (result.estimate, result.standard_error) == pytest.approx((estimate, error), rel=1e-12)
            assert result.z == pytest.approx((estimate - check.expected) / error, rel=1e-9)
            assert (result.reps, result.nets) == (moments.count, 0)
            least = rule.smallest_detectable(first.standard_error(check.coefficients), check.scale)
            assert result.smallest_detectable == pytest.approx(least, rel=1e-12)
            assert result.reached
        assert [(result.stages, result.passed) for result in results] == [(1, True), (2, False)]
        (plain,) = mc.perform(Normals(1), [mc.Check("plain", [1], 0.0, 1.0)], "defaults")
        assert (plain,) == tuple(mc.perform(Normals(1), [mc.Check("plain", [1], 0.0, 1.0)], "defaults", detectable=0.01))

    def test_bad_input(self):
        experiment = Normals(2)
        good = mc.Check("good", [1, 0], 0.0, 1.0)
        for call, match in [
            (lambda: mc.perform(experiment, [], "a"), "checks"),
            (lambda: mc.perform(experiment, [mc.Check("short", [1], 0.0, 1.0)], "a"), "short"),
            (lambda: mc.perform(experiment, [good], "a", detectable=0.02), "detectable"),
            (lambda: mc.perform(experiment, [good], "a", max_reps=1000), "max_reps"),
            (lambda: mc.Check("c", [0, 0], 0.0, 1.0), "coefficients"),
            (lambda: mc.Check("c", [np.nan], 0.0, 1.0), "coefficients"),
            (lambda: mc.Check("c", [1], np.nan, 1.0), "expected"),
            (lambda: mc.Check("c", [1], 0.0, 0.0), "scale"),
        ]:
            with pytest.raises(ValueError, match=match):
                call()


def test_importing_the_engine_does_not_import_numba_or_scipy():
    code = (
        "import sys; from estimators.montecarlo import *; "
        "sys.exit(any(name in sys.modules for name in ('numba', 'scipy', 'sympy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names_exist():
    assert set(mc.__all__) <= set(dir(mc))
    for name in mc.__all__:
        assert getattr(mc, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        mc.no_such_name  # noqa: B018


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_a_statistic_without_spread_is_judged_to_the_rounding_of_its_scale(scale):
    """Its standard error is 0: what it may be off by is 1e-12 of the largest terms of its sum."""

    @dataclass
    class Exact:
        value: float

        def linear(self, coefficients):
            return self.value, 0.0

    @dataclass
    class Check:
        expected: float
        scale: float
        coefficients: tuple = ()

    for off in (0.5, -3.0, 40.0):
        z = _judge(Check(scale, scale), Exact(scale * (1 + off * 1e-12)))[2]
        assert z == pytest.approx(off, abs=1e-3)
