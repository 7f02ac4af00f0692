"""Replicates that repeat are refused, independent ones are not: negative controls and the rate of false alarms."""

import threading

import numpy as np
import pytest
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
