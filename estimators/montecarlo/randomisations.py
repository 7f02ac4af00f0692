"""Integrating over randomised nets: replications, and whether they are fit to give a standard error.

Belongs here: running an experiment on several randomisations of a net, merging their means, and the guards.
Does not belong here: points and scrambling (``nets``), the rule that decides from so few means (``student``).

Only the means of whole nets are independent of each other. Within a net nothing is: the spread over its points says nothing
of the error of its mean (Owen in SciPy's pull request 10844), and is used here only to see that a statistic varies at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from estimators.numerics.arrays import Floats

from .experiments import Experiment
from .independence import ALARM, random
from .moments import Moments, combine, require_finite
from .nets import LANES, Net, at, net
from .runner import CHUNK, mapped, n_chunks
from .streams import DEFAULT_ROOT

MIN_REPLICATIONS = 8
"""Fewest randomisations: with fewer a standard error is a guess (of 8 it is off by a quarter, root mean square)."""


def run_nets(
    experiment: Experiment, log2_points: int, replications: int, key: str, *, averaged: int = 1, threads: int | None = None,
    root: int = DEFAULT_ROOT,
) -> Moments:  # fmt: skip
    """Moments of the means over independent randomisations of a net.

    Parameters
    ----------
    experiment : Experiment
    log2_points : int, 6 .. 32
        Every net has 2^log2_points points, one for each replicate.
    replications : int, >= MIN_REPLICATIONS
    key : str
        Names the streams (see `streams.stream`).
    averaged : int, >= 1
        Nets in each replication, whose mean is one value: means over single nets of few dimensions are skewed.
    threads : int, optional
        Default: all CPUs this process may use.
    root : int
        Root seed.

    Returns
    -------
    Moments
        Of `replications` independent values per statistic, each the mean over `averaged` nets; the bits depend on
        (experiment, log2_points, replications, key, averaged, root) only.

    Raises
    ------
    NoNet
        If the experiment draws what a net cannot serve.
    ValueError
        Naming the argument outside its domain, or why the replications give no standard error.

    Examples
    --------
    The mean of 4 messages, each of variance 3, has mean square error 1.25 as an estimate of client 0:

    >>> from estimators.montecarlo import ClientsExperiment
    >>> error = [-1, 0, 0, 1]
    >>> mean = ClientsExperiment(1.0, 1.0, 1.0, 0, np.full(4, 0.25), error, error)
    >>> estimate, standard_error = run_nets(mean, 12, 16, "doctest").linear([1])
    >>> abs(estimate - 1.25) < 5 * standard_error < 0.002
    True
    """
    if replications < MIN_REPLICATIONS:
        raise ValueError(
            f"replications must be >= {MIN_REPLICATIONS}, got {replications}: fewer randomisations give no standard error"
        )
    if averaged < 1:
        raise ValueError(f"averaged must be >= 1, got {averaged}")
    nets = range(replications * averaged)
    parts = run_replications(experiment, log2_points, nets, key, threads=threads, root=root)
    means = merge_replications(parts, len(nets))
    return Moments.of(means.reshape(replications, averaged, -1).mean(axis=1))


def run_replications(
    experiment: Experiment, log2_points: int, replications: Iterable[int], key: str, *, threads: int | None = None,
    root: int = DEFAULT_ROOT,
) -> dict[int, Moments]:  # fmt: skip
    """Some of the replications of `run_nets`, by number; any worker may do any of them, in any order."""
    order, points = experiment.net_order(), 2**log2_points
    starts = {replication: net(key, replication, log2_points, order, root) for replication in replications}
    require_own_nets(starts)

    def integrate(task: tuple[int, int]) -> Moments:
        replication, chunk = task
        return experiment.kernel_call(at(starts[replication], chunk * CHUNK // LANES), min(CHUNK, points))

    chunks = range(n_chunks(points))
    tasks = [(replication, chunk) for replication in starts for chunk in chunks]
    parts = dict(zip(tasks, mapped(integrate, tasks, threads), strict=True))
    return {replication: combine(parts[replication, chunk] for chunk in chunks) for replication in starts}


def merge_replications(parts: Mapping[int, Moments], replications: int) -> Floats:
    """Means over all nets, in the order of their numbers, shape (replications, M).

    Raises
    ------
    ValueError
        If a replication is missing or foreign, has a mean that is no number, repeats another one, or depends on the one
        before it.
    """
    if sorted(parts) != list(range(replications)):
        raise ValueError(f"parts must hold the replications 0 .. {replications - 1} exactly, got {sorted(parts)}")
    ordered = [parts[replication] for replication in range(replications)]
    means = np.array([part.mean for part in ordered])
    require_finite(means)
    require_apart(means)
    return means


def require_own_nets(starts: Mapping[int, Net]) -> None:
    """Raise ValueError unless every replication has a scrambling of its own.

    A shift alone would do in theory, but replications that share a matrix share its bad luck.
    """
    seen: dict[bytes, int] = {}
    for replication, start in sorted(starts.items()):
        other = seen.setdefault(start.steps.tobytes(), replication)
        if other != replication:
            raise ValueError(
                f"replications {other} and {replication} share a scrambling, so that they are not independent; give each "
                "a stream of its own"
            )


def require_apart(means: np.ndarray, alarm: float = ALARM) -> None:
    """Raise ValueError if means of replications, shape (R, M), follow the one before.

    Neighbours are compared by von Neumann's ratio (1941), the mean square of their differences over the variance (its sum
    of squares over R - 1), which is 2 on average; its law is taken as the beta law on (0, 4) with its mean and variance for
    normal means, 4 (R - 2) / (R^2 - 1).
    Means that agree are no sign of a repeat: a balanced net integrates some statistics without error.

    Parameters
    ----------
    alarm : float
        Probability of a false alarm; another one only serves to measure the test itself.
    """
    from scipy.special import betainc

    count = len(means)
    variance = np.var(means, axis=0, ddof=1)
    judged = np.flatnonzero(random(variance, means.mean(axis=0)))
    spread = 4 * (count - 2) / (count**2 - 1)  # variance of the ratio
    shape = 2 / spread - 0.5
    for statistic in judged:
        ratio = np.sum(np.diff(means[:, statistic]) ** 2) / (count - 1) / variance[statistic]
        if betainc(shape, shape, min(ratio / 4, 1.0)) * len(judged) < alarm:
            raise ValueError(
                f"replications are not independent: neighbours differ by {ratio:.2g} times the variance (statistic "
                f"{statistic}), and should by 2; give each randomisation a stream of its own"
            )


__all__ = [
    "MIN_REPLICATIONS", "merge_replications", "require_apart", "require_own_nets", "run_nets", "run_replications",
]  # fmt: skip
