"""Whether replicates are as independent as their standard errors assume.

Belongs here: tests of the chunks of a run against each other, with a declared false-alarm rate, and of their streams.
Does not belong here: simulating them (``runner``), or what their means should be (``checks``).

Means of batches of B independent replicates have 1/B of the variance s2 of one replicate.  For each statistic and each size
in `SIZES`, T = B sum over the K batches of (batch mean - mean)^2 / s2 must not be too large: replicates that repeat r times
raise its mean from K - 1 to r (K - 1).

Its law: s2 is the variance of all replicates, so an outlier counts above and below.  Given the values of the replicates,
whatever they are, T has mean K - 1 and variance at most about 2 (K - 1) over their permutations; its third cumulant is about
(8 + 4 skewness^2)(K - 1), with the skewness of a batch mean.  The law taken is the gamma law with these three, where the
excess kurtosis of the batch means stands for skewness^2: for rare events they are equal, and otherwise kurtosis errs to the
safe side.  For light tails it is chi-square with K - 1 degrees of freedom.  `ALARM` is the rate of false alarms of a run at
most (Bonferroni); tests measure it for normal, squared normal, log-normal, Cauchy, coin and rare statistics.

Replicates that repeat farther apart than that do not change the mean of T.  Their batch means agree to the last bit, which
is taken for a repeat where chance would make `ROW` of them agree with a probability below `ALARM`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from estimators.numerics.arrays import Bools, Floats

from .moments import BATCH, Moments

ALARM = 1e-6
"""Probability at most that a run of independent replicates is refused."""

SIZES = tuple(BATCH * 4**k for k in range(5))
"""Replicates of the batches that are compared."""

ROW = 16
"""Batches whose means must all agree with those of another row of batches for the two to be the same replicates."""

FLAT = 1e-9
# A statistic whose deviation is smaller than this part of its mean may consist of rounding alone, which is not random.


def require_independent(parts: Sequence[Moments], alarm: float = ALARM) -> None:
    """Raise ValueError if the replicates of these chunks repeat, or depend on each other in another way.

    Parameters
    ----------
    parts : sequence of Moments, in the order of the chunks
        Without ``batches`` only whole chunks are compared.
    alarm : float
        Another rate only serves to measure the test itself.
    """
    tests = [*dispersions(parts)]
    failed = [(ratio, size, statistic) for size, statistic, ratio, chance in tests if chance * len(tests) < alarm]
    if failed:
        ratio, size, statistic = max(failed)
        raise ValueError(
            f"experiment: its replicates are not independent; means of {size} replicates have {ratio:.3g} times the "
            f"variance they should have (statistic {statistic}), so that standard errors are too small by the root of "
            "that; draw every replicate anew from the generator that is passed in"
        )
    if repeated(parts, alarm):
        raise ValueError(
            f"experiment: rows of {ROW * BATCH} replicates repeat to the last bit; draw every replicate anew from the "
            "generator that is passed in"
        )


def dispersions(parts: Sequence[Moments]) -> Iterator[tuple[int, int, float, float]]:
    """Yield size of the batches, statistic, T over its mean, and the probability of such a T, for every test."""
    from scipy.special import gammaincc

    count = sum(part.count for part in parts)
    mean = sum((part.mean * (part.count / count) for part in parts), np.zeros(()))
    scatter = sum(np.diag(part.scatter) + part.count * (part.mean - mean) ** 2 for part in parts)
    variance = np.asarray(scatter / max(count - 1, 1))
    judged = np.flatnonzero(random(variance, mean))
    heavy = np.zeros(mean.size)  # excess kurtosis of the means of the smallest batches
    for size in SIZES:
        batches = np.concatenate([of_size(part, size) for part in parts])
        if len(batches) < 2:
            continue
        squares = (batches - batches.mean(axis=0)) ** 2
        if size == BATCH:
            with np.errstate(divide="ignore", invalid="ignore"):
                heavy = np.nan_to_num(np.maximum((squares**2).mean(axis=0) / squares.mean(axis=0) ** 2 - 3, 0.0))
        free = len(batches) - 1
        for m in judged:
            total = size * squares[:, m].sum() / variance[m]
            shape = free / (2 * (1 + heavy[m] * (BATCH / size) / 2) ** 2)
            chance = gammaincc(shape, max(0.0, shape + (total - free) * np.sqrt(shape / (2 * free))))
            yield size, int(m), total / free, float(chance)


def random(variance: Floats, mean: Floats) -> Bools:
    """Return which statistics vary by more than rounding."""
    return (variance > (FLAT * mean) ** 2) & np.isfinite(variance)


def of_size(part: Moments, size: int) -> Floats:
    """Return the means of the full batches of `size` replicates of a chunk."""
    if part.count == size:
        return part.mean[None]
    if part.batches is None or size > part.count:
        return np.empty((0, part.mean.size))
    group = size // BATCH
    full = len(part.batches) // group
    return part.batches[: full * group].reshape(full, group, part.mean.size).mean(axis=1)


def repeated(parts: Sequence[Moments], alarm: float) -> bool:
    """Return whether two rows of batch means agree to the last bit, though chance would not have it."""
    batches = [part.batches for part in parts if part.batches is not None and len(part.batches)]
    rows = [part[k : k + ROW].tobytes() for part in batches for k in range(0, len(part) - ROW + 1, ROW)]
    if len(rows) == len(set(rows)):
        return False
    # How often two batches agree, one more for good measure.
    every = np.concatenate(batches)
    kinds = np.unique(every, axis=0, return_counts=True)[1].astype(float)
    agree = (1 + np.sum(kinds * (kinds - 1)) / 2) / (1 + len(every) * (len(every) - 1) / 2)
    return len(rows) ** 2 / 2 * agree**ROW < alarm


def require_own_streams(used: Mapping[int, tuple]) -> None:
    """Raise ValueError unless every chunk has drawn from a stream of its own.

    Parameters
    ----------
    used : dict
        Chunk number to its generator, the generator's state before and after, and the chunk's moments.
    """
    generators, states = {}, {}
    for chunk, (generator, before, after, moments) in sorted(used.items()):
        other = generators.setdefault(id(generator), chunk), states.setdefault(before, chunk)
        if other != (chunk, chunk):
            raise ValueError(f"stream: chunks {min(other)} and {chunk} share a stream; give each chunk one of its own")
        if before == after and random(np.diag(moments.scatter) / moments.count, moments.mean).any():
            raise ValueError(
                f"experiment: chunk {chunk} left its stream untouched, so its randomness came from elsewhere and may "
                "repeat; draw from the generator that is passed in"
            )
