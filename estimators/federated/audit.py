"""Empirical audits of privacy: what an adversary who sees every release does learn, as a lower bound on eps.

A claimed eps is an upper bound by theory; code may break it.  An audit runs the code in two neighbouring worlds, without and
with a canary, many times each, and asks how well a statistic of the releases tells the worlds apart.  Any
(eps, delta)-private mechanism has P(E with) <= exp(eps) P(E without) + delta for every event E, and the other way round, so
counts of one event bound eps from below.  A bound above the claim refutes it.

How.  A quarter of the runs choose statistic, threshold and direction, the others count; Clopper-Pearson intervals (1934) at
level beta/2 for each world make the bound exceed the true eps with probability at most beta, whatever the mechanism.  Runs
are rows of equal silos in one task (their noise and batches are independent), so the audit tests the code path that
trains.  Bayesian intervals (Zanella-Beguelin et al. 2023) would be shorter but right on average over a prior.

Where a training can be run only once, `one_run_bound` reads it off many canaries of that run (Steinke, Nasr and Jagielski
2023): each is a row that was in or out by a fair coin, the auditor guesses which, and eps bounds how often it is right.  It
proves less than many runs.

What a bound can reach.  From n runs per world at most about log(n / 9) at beta = 0.01, and at a small delta the event that
attains eps is too rare to be seen.  So bounds for any mechanism are taken at a delta like 0.01, where the same claim says
another eps; `gaussian_bound` gives one at any delta for mechanisms that are Gaussian (Nasr et al. 2023): it bounds the ratio
mu of shift to deviation, and refutes a claim of Gaussian privacy too.

What an audit cannot do.  It proves no privacy: a bound below the claim only says that this canary and these statistics found
nothing.  Statistics are of real numbers near 1, so gaps between floats (see ``privacy``) are not looked for.

Belongs here: bounds from samples, canary worlds for the mechanisms that the toolkit runs.  Does not belong here: accounting
(``privacy``, ``estimators.accounting.subsampling``); tables of audits (``figures``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting.mechanisms import gaussian_epsilon
from estimators.federated.algorithms.basic import Local
from estimators.federated.data import Federation
from estimators.federated.kinds import typed
from estimators.federated.models import linear_regression
from estimators.federated.task import Task
from estimators.federated.training import training
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import choice, finite, index, number, probability, single

if TYPE_CHECKING:
    from estimators.federated.backend import Backend

__all__ = [
    "Bound",
    "Fixed",
    "client_releases",
    "epsilon_bound",
    "gaussian_bound",
    "one_run_bound",
    "row_releases",
    "row_statistics",
]

FAR = 1e3
"""Feature of a canary, so large that its clipped gradient is along this feature but for a millionth."""


@dataclass(frozen=True)
class Bound:
    """Lower bound on eps at delta, wrong with probability at most beta; which event gave it.

    statistic : position of the statistic; threshold, above : the event is statistic >= threshold, or < where not above;
    likely : the world, "without" or "with", in which it is likelier; counts : of the event without and with, of `runs` each.
    """

    eps: float
    delta: float
    beta: float
    statistic: int
    threshold: float
    above: bool
    likely: str
    counts: tuple
    runs: int

    @typed
    def refutes(self, claimed: float) -> Any:
        """Whether a claimed eps at the same delta is refuted; a true claim is with probability at most beta."""
        return self.eps > claimed


def intervals(counts: Any, runs: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Clopper-Pearson bounds, each wrong with probability at most beta, below and above on the rates of counts."""
    from scipy.stats import beta as law

    counts = np.asarray(counts, dtype=float)
    with np.errstate(invalid="ignore"):
        low = np.where(counts == 0, 0.0, law.ppf(beta, counts, runs - counts + 1))
        high = np.where(counts == runs, 1.0, law.ppf(1 - beta, counts + 1, runs - counts))
    return low, high


def samples(name: str, values: ArrayLike) -> np.ndarray:
    """Statistics (R, S) with at least 4 runs; infinities may pass."""
    values = number(name, values)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) < 4:
        raise ValueError(f"{name} must have shape (runs,) or (runs, statistics) with at least 4 runs, has {values.shape}")
    return values


def parts(without: ArrayLike, with_canary: ArrayLike) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Pairs (to choose with, to count with) of both worlds."""
    a, b = samples("without", without), samples("with_canary", with_canary)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"both worlds must have the same statistics, got {a.shape[1]} and {b.shape[1]}")
    runs = min(len(a), len(b))
    return (a[: runs // 4], b[: runs // 4]), (a[runs // 4 : runs], b[runs // 4 : runs])


def events(pair: Any, statistic: int) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds, and counts (2, thresholds) of values not below them in both worlds."""
    a, b = (np.sort(values[:, statistic]) for values in pair)
    pooled = np.unique(np.concatenate([a, b]))
    if len(pooled) > 400:
        pooled = np.unique(np.concatenate([pooled[:20], pooled[:: len(pooled) // 360], pooled[-20:]]))
    return pooled, np.stack([len(x) - np.searchsorted(x, pooled, side="left") for x in (a, b)])


def wilson(counts: np.ndarray, runs: int, beta: float) -> tuple[Any, Any]:
    """Approximate bounds on rates (Wilson 1927), to choose an event by; at a small beta luck in rare events weighs less."""
    from scipy.special import ndtri

    z2, rate = ndtri(beta) ** 2 / runs, counts / runs
    centre, reach = (rate + z2 / 2) / (1 + z2), np.sqrt(z2 * (rate * (1 - rate) + z2 / 4)) / (1 + z2)
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)


def log_odds(low: float, high: float, delta: float) -> np.ndarray:
    """Log of (low - delta) / high, -inf where low is at most delta."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log(np.maximum(low - delta, 0)) - np.log(high), -np.inf)


def shift_bound(low: float, high: float, delta: float) -> Any:
    """Shift mu of the Gaussian that has an event with probabilities low and high; delta is not used."""
    from scipy.special import ndtri

    return ndtri(low) - ndtri(high)


def best_event(
    without: Any, with_canary: ArrayLike, delta: float, beta: float, score: Callable[..., Any]
) -> tuple[float, dict[str, Any]]:
    """The event of the largest `score` in some of the runs, with its score and counts in the others."""
    delta, beta = single(probability, "delta", delta), single(probability, "beta", beta)
    choosing, counting = parts(without, with_canary)
    runs = len(choosing[0])
    best = (-np.inf, 0, 0.0, True, 1)
    for s in range(choosing[0].shape[1]):
        thresholds, counts = events(choosing, s)
        for above in (True, False):
            seen = counts if above else runs - counts
            for likely in (0, 1):
                found = score(*(wilson(seen[i], runs, beta / 100)[i != likely] for i in (likely, 1 - likely)), delta)
                top = int(np.argmax(found))
                if found[top] > best[0]:
                    best = (float(found[top]), s, float(thresholds[top]), above, likely)
    _, s, threshold, above, likely = best
    seen = [int(((values[:, s] >= threshold) == above).sum()) for values in counting]
    runs = len(counting[0])
    value = float(score(*(intervals(seen[i], runs, beta / 2)[i != likely] for i in (likely, 1 - likely)), delta))
    return value, {
        "delta": delta, "beta": beta, "statistic": s, "threshold": threshold, "above": above,
        "likely": ("without", "with")[likely], "counts": tuple(seen), "runs": runs,
    }  # fmt: skip


@typed
def epsilon_bound(without: ArrayLike, with_canary: ArrayLike, *, delta: float, beta: float = 0.01) -> Bound:
    """Lower bound on the eps at delta of any mechanism, from independent runs in two neighbouring worlds.

    Parameters
    ----------
    without, with_canary : arrays (R,) or (R, S) of S statistics of what each run releases, larger or smaller with a canary.
    delta : number in [0, 1); beta : number in (0, 1), the probability that the bound is above the true eps.

    Returns
    -------
    Bound, its eps 0 where nothing is told apart.

    >>> rng = np.random.default_rng(0)
    >>> bound = epsilon_bound(rng.normal(0, 1, 40000), rng.normal(1, 1, 40000), delta=0.01)
    >>> bool(1.8 < bound.eps < gaussian_epsilon(delta=0.01, sensitivity=1, sigma=1))
    True
    """
    value, event = best_event(without, with_canary, delta, beta, log_odds)
    return Bound(max(0.0, value), **event)


@typed
def gaussian_bound(without: ArrayLike, with_canary: ArrayLike, *, delta: float, beta: float = 0.01) -> Bound:
    """Lower bound on the eps at delta of a Gaussian mechanism of unknown ratio of shift to deviation.

    If the claimed curve is Gaussian's, a bound above the claim refutes it for any mechanism: the event violates the claimed
    trade-off.  Parameters as in `epsilon_bound`, delta in (0, 1).

    >>> rng = np.random.default_rng(0)
    >>> bound = gaussian_bound(rng.normal(0, 1, 20000), rng.normal(1, 1, 20000), delta=1e-5)
    >>> bool(0.9 < bound.eps / gaussian_epsilon(delta=1e-5, sensitivity=1, sigma=1) < 1)
    True
    """
    mu, event = best_event(without, with_canary, delta, beta, shift_bound)
    eps = 0.0 if not mu > 0 else np.inf if np.isinf(mu) else float(gaussian_epsilon(delta=delta, sensitivity=mu, sigma=1.0))
    return Bound(eps, **event)


@typed
def one_run_bound(right: int, *, guesses: int, canaries: int, delta: float, beta: float = 0.05) -> float:
    """Lower bound on the eps at delta of one training, from guesses which of its canaries were in.

    Each canary, a row of its own, was in the training or not by a fair coin; the auditor, who sees what is released, guesses
    of as many as it likes, and says how often it was right.  The rule for whom to guess must not look at the coins.

    Under (eps, delta)-privacy (add-or-remove of one row) the number of right guesses is at least v with probability at most
    P(B >= v) + 2 m delta max_i P(v - i <= B < v) / i, where B is binomial with r guesses of chance e^eps / (1 + e^eps)
    (Steinke, Nasr and Jagielski 2023, Theorem 5.2); the bound is the largest eps at which that is at most beta.

    Parameters
    ----------
    right : whole number v of right guesses; guesses : r >= v; canaries : m >= r; delta : number in [0, 1).
    beta : number in (0, 1), probability with which the bound is above a true eps.

    Returns
    -------
    number >= 0, a lower bound; 0 where guesses are no better than chance.

    >>> round(one_run_bound(600, guesses=1000, canaries=1000, delta=0.0), 6)
    0.297468
    """
    from scipy.optimize import brentq
    from scipy.stats import binom

    canaries = index("canaries", canaries, 1)
    guesses = index("guesses", guesses, 1, canaries)
    right = index("right", right, 0, guesses)
    delta, beta = single(probability, "delta", delta), single(probability, "beta", beta)

    def excess(eps: float) -> float:
        q = 1 / (1 + np.exp(-eps))
        below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, q)) / np.arange(1, right + 1)
        return float(binom.sf(right - 1, guesses, q) + 2 * canaries * delta * below.max(initial=0.0)) - beta

    top = 1.0
    if excess(0.0) >= 0:
        return 0.0
    while excess(top) < 0:
        top *= 2
    root: Any = brentq(excess, 0.0, top, xtol=1e-9)
    return float(root)


# --- canaries of rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    """Row privacy with given noise multipliers instead of an eps: what an audit hands to an algorithm."""

    multiplier: float
    clip: float

    @typed
    def multipliers(self, task: Task, *, rounds: int) -> np.ndarray:
        """The multiplier (K,)."""
        return np.full(task.n_clients, float(self.multiplier))


def silos(replicates: int, rows: Any, canary: Any, others: Any) -> Federation:
    """Equal silos of rows with gradients along features: each row along its own, or (others given) all along one."""
    own = others is None
    sign = np.full(rows, float(canary if own else others))
    sign[0] = canary
    x = np.zeros((rows, rows if own else 1))
    x[np.arange(rows), np.arange(rows) if own else 0] = FAR * (sign != 0)
    return Federation(x, sign * FAR**3, [np.arange(rows)] * replicates, name="canaries")


@typed
def row_releases(
    *,
    multiplier: float,
    clip: float,
    work: Mapping[str, Any],
    rows: Any,
    rounds: int,
    silo_count: int,
    canary: Any,
    others: Any = None,
    seed: int = 0,
    backend: Backend | None = None,
    task: type[Task] = Task,
    algorithm: Any = Local,
) -> np.ndarray:
    """What many equal silos release in every round about one row each, or about each of their rows.

    A row's gradient along its feature, clipped, is `canary` (or `others`) times the clipping norm wherever the parameters
    are, up to a millionth.  With others None every row is a canary along a feature of its own: the other rows and the
    noise of their coordinates say nothing about it, so that under Poisson batches (and batches of all rows) every row is
    an independent run.  Otherwise the first row is the canary, and all share one feature, the worst case for batches of
    fixed size: what replaces a canary in a batch is as far from it as can be.

    Parameters
    ----------
    multiplier : number >= 0, noise of DP-SGD; clip : number > 0; work : as in `Task`, with one step a round; rows : whole
        number >= 1 in each silo; rounds, silo_count : whole numbers >= 1.
    canary, others : -1, 0 or 1, direction of gradients; 0: no gradient, as if the row were not there.
    seed, backend : of the task.
    task, algorithm : what makes them: for mutants, and for other algorithms of `personal` models without a pull.

    Returns
    -------
    array (runs, rounds): noisy clipped sums over the clipping norm; runs is silo_count, or silo_count * rows.
    """
    index("rows", rows, 1, 10**6)
    federation = silos(silo_count, rows, canary, others)
    made = task(federation, linear_regression(federation.x.shape[1]), work=work, seed=seed, backend=backend)
    rate = float(np.broadcast_to(made.work["batch_size"], silo_count)[0]) / clip
    trained = algorithm(learning_rate=rate, privacy=Fixed(multiplier, clip))
    seen, before = [], np.zeros(1)
    for step in training(trained, made, rounds=rounds, every=rounds):
        now = step.state["personal"][:, :-1].astype(float)
        seen.append((now - before).ravel())
        before = now
    return np.stack(seen, axis=1)


@typed
def row_statistics(
    releases: np.ndarray, *, multiplier: float, rate: float, shift: float = 1.0, base: float = 0.0
) -> np.ndarray:
    """Statistics (R, 4) of releases (R, T): log likelihood ratio, sum, range, largest distance from base.

    Parameters
    ----------
    multiplier : number > 0, the claimed noise; rate : number in (0, 1], the canary's; shift : what it adds to base.
    """
    z = (finite("releases", releases) - base) / multiplier
    m = shift / multiplier
    with np.errstate(divide="ignore"):
        inside = np.log(1 - rate) if rate < 1 else -np.inf
        ratio = np.logaddexp(inside, np.log(rate) + m * z - m * m / 2).sum(axis=1)
    return np.stack([ratio, z.sum(axis=1), np.ptp(z, axis=1), np.abs(z).max(axis=1)], axis=1)


# --- canaries of clients ------------------------------------------------------------------------------------------------


class Absent(Task):
    """A task whose clients never take part: the world without them, with their places in every divisor."""

    @typed
    def participants(self, t: int, *, rate: float | None = None, number: int | None = None) -> np.ndarray:
        """Nobody."""
        return super().participants(t, rate=rate, number=number)[:0]


@typed
def client_releases(algorithm: Any, *, canary: ArrayLike, rounds: int, clients: int = 1, seed: int = 0) -> tuple[Any, Any]:
    """What a server releases in each round of an algorithm of clipped updates and counts, about each of its clients.

    Each client's update is clipped, and along a feature of its own whatever the parameters are: where batches of clients are
    Poisson's, each client and round is a run.  The adversary takes off the parameters and the clipping norm seen before.

    Parameters
    ----------
    algorithm : ``fedhdp.ClippedAverage`` with clip_rate > 0, so small that the clipping norm stays near its start.
    canary : bool, whether the clients are there; rounds, clients : whole numbers >= 1; seed : of the task.

    Returns
    -------
    updates (rounds, clients), noisy sums of clipped updates over the clipping norm; counts (rounds,), noisy centred numbers
    of clients that are not clipped.
    """
    pool = silos(1, clients, 1.0, None)
    federation = Federation(pool.x, pool.y, list(np.arange(clients)[:, None]), name="canaries")
    kind = Task if choice("canary", canary, (False, True)) else Absent
    made = kind(federation, linear_regression(clients), seed=seed, work={"rule": "epochs", "n_epochs": 1, "batch_size": 1})
    state = algorithm.start(made, rounds=rounds)
    updates, counts = np.empty((rounds, clients)), np.empty(rounds)
    for t in range(rounds):
        before, clip = state["shared"][:-1].copy(), float(state["clip"])
        algorithm.round(made, state, t)
        updates[t] = (state["shared"][:-1] - before) / clip
        counts[t] = algorithm.quantile - np.log(float(state["clip"]) / clip) / algorithm.clip_rate - 0.5
    expected = algorithm.rate * clients
    return expected * updates, expected * counts
