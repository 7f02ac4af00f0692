"""Digits of simulated values: intervals that hold, jumps on small nets, plain draws, what is said of more digits."""

from __future__ import annotations

import math
import re

import numpy as np

from theory.engine import digits, simulation

SHARE = math.erf(0.5)  # of squared normals of variance two that are below one


def event(gen: np.random.Generator, reps: int) -> np.ndarray:
    return (gen.standard_normal((reps, 2)).sum(axis=1) ** 2 < 1).astype(float)[:, None]


def counts(gen: np.random.Generator, reps: int) -> np.ndarray:
    return gen.poisson(3.0, (reps, 1)).astype(float)


JUMPS, COUNTS = simulation.sample_means(event, draws=2), simulation.sample_means(counts)


def test_what_jumps_is_drawn_on_small_nets():
    found = digits.to_digits(JUMPS, "test", 1, 4, 2.0)
    assert "small nets of 2^" in found.method
    assert found.sure >= 4
    (value, _), (half,) = JUMPS.read(found.moments)[0], found.half_widths
    assert abs(value - SHARE) < 2 * half < 1.1e-4
    plain = 2.576**2 * SHARE * (1 - SHARE) / half**2
    assert found.replicates < plain / 3  # as many plain draws give no such interval


def test_the_same_bits_again():
    first, again = (digits.to_digits(JUMPS, "bits", 1, 3, 1.0) for _ in range(2))
    assert (first.moments.mean, first.half_widths) == (again.moments.mean, again.half_widths)


def test_intervals_keep_their_level():
    """At level 99 % more than 4 misses of 40 have probability 5e-5; a third of the width misses some 15."""
    off = []
    for key in range(40):
        found = digits.to_digits(JUMPS, f"level{key}", 1, 2, 0.06)
        off.append(abs(float(found.moments.mean[0]) - SHARE) / found.half_widths[0])
    assert sum(share > 1 for share in off) <= 4 < sum(share > 1 / 3 for share in off)


def test_the_seconds_that_are_named_give_the_next_digit():
    found = digits.to_digits(JUMPS, "more", 1, 3, 0.1)
    asked, named = map(float, re.findall(r"--digits (\d+) --seconds (\S+)", found.sentence())[0])
    assert asked == found.sure + 1
    again = digits.to_digits(JUMPS, "more", 1, int(asked), named)
    assert again.sure >= asked, again.sentence()


def test_the_seconds_that_are_named_are_no_less_than_needed():
    """On large nets one part in a thousand too few would halve the points."""
    for seconds in [*np.exp(np.random.default_rng(0).uniform(-12, 12, 2000)), 1.0, 0.1, 99.5, 100.0]:
        assert seconds <= float(digits.at_least(seconds)) <= 1.11 * seconds


def test_plain_draws_take_the_time_that_is_given():
    short, long = (digits.to_digits(COUNTS, "time", 1, 6, seconds) for seconds in (0.01, 0.1))
    assert "plain draws (it draws by poisson" in short.method
    assert short.replicates == digits.PLAIN < long.replicates
    assert "6 digits were not reached in the time given" in long.sentence()


def test_a_digit_that_no_run_gives_is_said():
    exact = simulation.sample_means(lambda gen, n: np.full((n, 1), 2.0) + 0 * gen.standard_normal((n, 1)))
    assert "no run gives" in digits.to_digits(exact, "exact", 1, 9, 1.0).sentence()


def test_the_last_digit_is_sure_to_within_one_unit():
    """Half a unit of interval and half of rounding: the sentence must not promise the rounded digit itself."""
    found = digits.to_digits(JUMPS, "words", 1, 3, 1.0)
    unit = 10.0 ** (math.floor(math.log10(SHARE)) + 1 - found.sure)
    assert found.half_widths[0] <= unit / 2
    assert f"{found.sure} digits sure at 99%, the last to within one unit (± " in found.sentence()


def test_readings_hold_together():
    """Of ten means of normals all ten intervals hold, so that each is wider than one alone would be."""

    def ten(gen: np.random.Generator, reps: int) -> np.ndarray:
        return (gen.standard_normal((reps, 10)) < 0.3).astype(float)

    model = simulation.sample_means(ten, count=10, scales=[1.0] * 10, draws=10)
    moments = digits.to_digits(model, "ten", 1, 2, 1.0).moments
    widths = [half / error for half, (_, error) in zip(digits.half_widths(model, moments), model.read(moments), strict=True)]
    assert min(widths) > 3.2  # normal quantile of 1 - .01 / 20; of 1 - .01 / 2 it is 2.58
