"""Replicates that repeat are refused, independent ones are not: negative controls and the rate of false alarms."""

import threading

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binom

from estimators import montecarlo as mc
from estimators.montecarlo import independence, kernels, runner
from estimators.montecarlo.moments import BATCH, Moments, batch_means

LAWS = {
    "normal": lambda gen, reps: gen.standard_normal((reps, 1)),
    "squared": lambda gen, reps: gen.standard_normal((reps, 1)) ** 2,
    "log-normal": lambda gen, reps: np.exp(2 * gen.standard_normal((reps, 1))),
    "Cauchy": lambda gen, reps: gen.standard_cauchy((reps, 1)),
    "coin": lambda gen, reps: (gen.random((reps, 1)) < 0.3) * 1.0,
    "rare": lambda gen, reps: (gen.random((reps, 1)) < 3e-4) * 1.0,
    "rare signs": lambda gen, reps: (gen.random((reps, 1)) < 5e-4) * gen.choice([-1.0, 1.0], (reps, 1)),
}


def near(times):
    """Each replicate, `times` times in a row."""
    return lambda gen, reps: np.repeat(gen.standard_normal((reps // times + 1, 1)) ** 2, times, axis=0)[:reps]


def far(times):
    """All replicates of a call, then all of them again, and so on."""
    return lambda gen, reps: np.tile(gen.standard_normal((reps // times + 1, 1)) ** 2, (times, 1))[:reps]


def alike(gen, reps):
    """Nothing repeats, but what is drawn in one call has a little in common."""
    return gen.standard_normal((reps, 1)) + 0.1 * gen.standard_normal()


def following(gen, reps):
    """Every replicate has something of the one before."""
    noise = gen.standard_normal((reps + 1, 1))
    return noise[1:] + 0.5 * noise[:-1]


def seeded(gen, reps):
    """Each call from the same seed, and a look at the generator as an alibi."""
    gen.random()
    return np.random.default_rng(0).standard_normal((reps, 1))


def one_set(gen, reps):
    """Every chunk finds the same replicates in a table."""
    gen.random()
    return np.random.default_rng(0).standard_normal((runner.CHUNK, 1))[:reps]


class Shared:
    """One generator for all chunks, whatever they are given."""

    def __init__(self):
        self.gen = np.random.Generator(np.random.SFC64(1))

    def __call__(self, gen, reps):
        return self.gen.standard_normal((reps, 1))


@pytest.mark.parametrize(
    ("draw", "batch", "match"),
    [
        (near(8), 4096, "not independent"),
        (near(2), 4096, "not independent"),
        (far(8), 4096, "means of (1024|4096|16384|65536) replicates have"),
        (far(8), 48_000, "not independent"),
        (alike, 4096, "means of (4096|16384|65536) replicates have"),
        (following, 4096, "not independent"),
        (seeded, 4096, "repeat to the last bit"),
        (one_set, runner.CHUNK, "repeat to the last bit"),
        (lambda gen, reps: seeded(gen, reps) > 1, 4096, "repeat to the last bit"),
        (Shared(), 4096, "left its stream untouched"),
    ],
)
@pytest.mark.parametrize("threads", [1, 4])
def test_replicates_that_repeat_or_hang_together_are_refused(draw, batch, match, threads):
    with pytest.raises(ValueError, match=match):
        mc.run(mc.SampledExperiment(draw, 1, batch=batch), 1_000_000, "repeat", threads=threads)


def test_a_check_of_replicates_that_repeat_is_refused_at_the_smallest_size():
    """The claim is true and its standard error too small by sqrt(8): without the refusal one in three checks fails."""
    experiment = mc.SampledExperiment(near(8), 1)
    with pytest.raises(ValueError, match="too small by the root"):
        mc.perform(experiment, [mc.Check("mean", [1], 1.0, 1.0)], "repeat")


@pytest.mark.parametrize("threads", [1, 4])
def test_a_stream_shared_by_chunks_is_refused(monkeypatch, threads):
    shared = mc.stream("shared", 0)
    experiment = mc.SampledExperiment(LAWS["normal"], 1)
    monkeypatch.setattr(runner, "stream", lambda *args: shared)
    with pytest.raises(ValueError, match="share a stream"):
        mc.run(experiment, 300_000, "shared", threads=threads)
    copies = threading.local()  # a generator for each thread, all in the same state
    monkeypatch.setattr(runner, "stream", lambda *args: setattr(copies, "gen", mc.stream("shared", 0)) or copies.gen)
    with pytest.raises(ValueError, match="share a stream"):
        mc.run(experiment, 300_000, "shared", threads=threads)


def test_a_compiled_kernel_whose_chunks_share_a_stream_is_refused(monkeypatch):
    """Without the look at streams, the batch means of the chunks tell."""
    monkeypatch.setattr(runner, "stream", lambda *args: mc.stream("shared", 0))
    monkeypatch.setattr(runner, "require_own_streams", lambda used: None)
    with pytest.raises(ValueError, match="repeat to the last bit"):
        mc.run(mc.JamesSteinExperiment(6, 0.0, 1.0, 1.0, 0.5), 150_000, "shared")


def parts(law, seed, reps):
    sample = law(np.random.default_rng(seed), reps)
    deviation = sample - sample.mean(axis=0)
    return [Moments(reps, sample.mean(axis=0), deviation.T @ deviation, batch_means(sample))]


@pytest.mark.parametrize("name", LAWS)
def test_independent_replicates_are_refused_no_more_often_than_declared(name):
    """Measured at rates that 2,000 runs can tell from others, through the function that decides at `ALARM`."""
    trials, rates = 2_000, (1e-2, 1e-3)
    refused = np.zeros(len(rates), int)
    for seed in range(trials):
        run = parts(LAWS[name], seed, 32 * BATCH)
        for k, rate in enumerate(rates):
            try:
                independence.require_independent(run, rate)
            except ValueError:
                refused[k] += 1
    for hits, rate in zip(refused, rates, strict=True):
        assert hits <= binom.ppf(1 - mc.FALSE_ALARM, trials, rate), f"{hits} of {trials} at the rate {rate}"


def test_the_rate_is_not_far_below_the_one_declared_for_light_tails():
    """A test that never raises an alarm would pass the test above."""
    trials, rate = 2_000, 0.05
    chances = [list(independence.dispersions(parts(LAWS["normal"], seed, 32 * BATCH))) for seed in range(trials)]
    refused = sum(min(chance for *_, chance in run) * len(run) < rate for run in chances)
    low, high = binom.ppf([mc.FALSE_ALARM / 2, 1 - mc.FALSE_ALARM / 2], trials, rate)
    assert low <= refused <= high


@pytest.mark.parametrize(
    "draw",
    [
        lambda gen, reps: np.full((reps, 1), 0.1) + 0 * gen.random((reps, 1)),
        lambda gen, reps: np.full((reps, 1), 0.1),
        lambda gen, reps: 1e8 + 1e-9 * gen.standard_normal((reps, 1)),
        lambda gen, reps: (gen.random((reps, 1)) < 1e-6) * 1.0,
    ],
)
def test_constant_and_nearly_constant_statistics_are_no_repeats(draw):
    moments = mc.run(mc.SampledExperiment(draw, 1), 300_000, "constant")
    assert moments.count == 300_000


@pytest.mark.parametrize("reps", [200, BATCH, 5_000, 70_000])
def test_batch_means_of_kernels_are_those_of_their_replicates(reps):
    experiment = mc.JamesSteinExperiment(6, 2.0, 1.0, 1.0, 0.5)
    fast, plain = (call(mc.stream("batches", 0), reps) for call in (experiment.kernel_call, experiment.reference_call))
    assert fast.batches is not None
    assert plain.batches is not None
    assert fast.batches.shape == (reps // BATCH, 3)
    np.testing.assert_allclose(fast.batches, plain.batches, rtol=1e-11)
    assert kernels.BATCH == BATCH == 4 * kernels.LANES


@pytest.mark.parametrize("batch", [100, 256, 1000, 4096])
def test_batch_means_do_not_depend_on_calls(batch):
    experiment = mc.SampledExperiment(LAWS["normal"], 1, batch=batch)
    batches = experiment.kernel_call(mc.stream("calls", 0), 10_000).batches
    np.testing.assert_allclose(batches, batch_means(mc.stream("calls", 0).standard_normal((10_000, 1))), rtol=0, atol=1e-15)


# --- the tests of independence, number by number -----------------------------------------------------------------------


def of_counts(counts, seed):
    """Chunks of these numbers of replicates: of a normal statistic, a heavy one, a constant one, and their sample."""
    rng, found = np.random.default_rng(seed), []
    for count in counts:
        sample = rng.standard_normal((count, 3)) + 1.5
        sample[:, 1] = np.exp(3 * sample[:, 1])
        sample[:, 2] = 7.0
        deviation = sample - sample.mean(axis=0)
        found.append((Moments(count, sample.mean(axis=0), deviation.T @ deviation, batch_means(sample)), sample))
    return [part for part, _ in found], [sample for _, sample in found]


def expected_dispersions(samples):
    """By the words above: T over its mean, and its chance by the gamma law with three cumulants, Pearson's third."""
    everything, excess = np.concatenate(samples), {}
    for size in (256, 1024, 4096, 16384, 65536):
        means = [s[k : k + size].mean(axis=0) for s in samples for k in range(0, len(s) - size + 1, size)]
        if len(means) < 2:
            continue
        for m in (0, 1):
            values = np.array(means)[:, m]
            excess.setdefault(m, max(stats.kurtosis(values), 0.0))  # of the smallest batches
            free = len(values) - 1
            t = size * np.sum((values - values.mean()) ** 2) / np.var(everything[:, m], ddof=1)
            skew = (8 + 4 * excess[m] * 256 / size) * free / (2 * free) ** 1.5
            yield size, m, t / free, stats.pearson3.sf(t, skew, loc=free, scale=np.sqrt(2 * free))


@pytest.mark.parametrize("counts", [(32 * BATCH + 100, 10 * BATCH), (7 * BATCH + 1, 64 * BATCH, 5), (2 * BATCH,)])
def test_dispersions_and_their_chances_by_another_law(counts):
    found, samples = of_counts(counts, 3)
    tests = list(independence.dispersions(found))
    expected = list(expected_dispersions(samples))
    assert [test[:2] for test in tests] == [test[:2] for test in expected]
    np.testing.assert_allclose([t[2] for t in tests], [t[2] for t in expected], rtol=1e-11)
    np.testing.assert_allclose([t[3] for t in tests], [t[3] for t in expected], rtol=1e-8)


def test_chunks_without_batches_are_compared_whole_and_by_chi_square():
    rng = np.random.default_rng(5)
    samples = [rng.standard_normal((1024, 1)) for _ in range(9)]
    whole = [Moments.of(sample) for sample in samples]
    ((size, statistic, ratio, chance),) = independence.dispersions(whole)
    t = 1024 * 8 * np.var([sample.mean() for sample in samples], ddof=1) / np.var(samples, ddof=1)
    assert (size, statistic, ratio) == (1024, 0, pytest.approx(t / 8, rel=1e-12))
    assert chance == pytest.approx(stats.chi2.sf(t, 8), rel=1e-10)
    assert independence.of_size(whole[0], 256).shape == (0, 1)


def test_batches_that_cancel_are_no_sign_of_repeats():
    """Means of 256 that are a, -a, b, -b and so on have equal means of 1024: T is 0, its chance is 1."""
    batches = np.repeat([1.0, 9.0, 0.5, 0.1], 2)[:, None] * np.tile([1.0, -1.0], 4)[:, None]
    (*_, last) = independence.dispersions([Moments(8 * BATCH, [0.0], [[8.0 * BATCH]], batches)])
    assert last == (1024, 0, 0.0, 1.0)


def test_what_varies_by_no_more_than_rounding():
    variance, mean = np.array([0.0, 4e-12, 0.25e-12, np.inf, 1.0]), np.array([0.0, 1e3, 1e3, 1.0, 0.0])
    assert independence.random(variance, mean).tolist() == [False, True, False, False, True]


def test_rows_of_batches_repeat_where_chance_would_not_have_it():
    """Of coins: the chance by all pairs of rows and all pairs of batches, one more of each for good measure."""
    rng, few = np.random.default_rng(1), 4.0
    coins = np.floor(few * rng.random((40, 1)))
    parts = [Moments(1, [0.0], [[1.0]], each) for each in (coins, coins[:16], coins[24:])]
    every = np.concatenate([coins, coins[:16], coins[24:]])[:, 0]
    pairs = [x == y for i, x in enumerate(every) for y in every[:i]]
    chance = 4**2 / 2 * ((1 + sum(pairs)) / (1 + len(pairs))) ** 16  # of the rows at 0 and 16, and one of each other chunk
    assert independence.repeated(parts, 1.001 * chance)
    assert not independence.repeated(parts, 0.999 * chance)
    assert not independence.repeated(parts[::2], 1.0)  # the same batches, but not from the start of a row
    silent = [Moments(1, [0.0], [[1.0]]), Moments(1, [0.0], [[1.0]], np.empty((0, 1)))]
    assert not independence.repeated(silent, 1.0)
    tail = rng.standard_normal((15, 1))
    short = [Moments(1, [0.0], [[1.0]], np.concatenate([rng.standard_normal((16, 1)), tail])) for _ in range(2)]
    assert not independence.repeated(short, 1.0)


def test_a_chunk_that_varies_by_rounding_alone_may_leave_its_stream_untouched():
    for deviation, refused in ((0.5e-9, False), (2e-9, True)):
        moments = Moments(1000, [1.0], [[1000 * deviation**2]])
        used = {0: (object(), "state", "state", moments)}
        if refused:
            with pytest.raises(ValueError, match="chunk 0 left its stream untouched"):
                independence.require_own_streams(used)
        else:
            independence.require_own_streams(used)
