"""Audits of releases: each client, the central server and a function of the user's, beside what an adversary proves.

An adversary who chose the data sends a client's neighbouring data sets through the code that releases, many times each, and
tells them apart by the report.  The neighbours are those that move a report the most: for "row" one row at the lower bound
or at the upper one, with the other rows at a bound; for "client" all rows.  The mechanisms in `BROKEN` are each wrong in one
way that has been seen in practice, and an audit that passes one of them is worth nothing.

A pilot of a quarter of the runs chooses the pair, and learns from it how to read several numbers as one: nearly the
likelihood ratio, which is a linear function of numbers behind Gaussian noise, and a sum of clipped ones behind Laplace
noise.  All other runs are of that pair, so that no error is shared out among pairs.

Belongs here: canaries of releases and the list of them.  Does not belong here: bounds from samples (``federated.audit``),
training (``federated.audit_cases``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from estimators.accounting.budget import ADJACENCIES, budget_numbers
from estimators.accounting.shuffling import shuffled_epsilon
from estimators.federated.audit import epsilon_bound
from estimators.federated.audit_cases import Case
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import choice, count, finite, fraction, single
from estimators.private.central import noisy_moments
from estimators.private.client import MeanClient, RateClient, two_point
from estimators.private.distributed import noisy_parts, sigma2_each
from estimators.private.regression import RegressionClient
from estimators.private.reports import low_high
from estimators.private.secure_sum import RoundEnded, lying_server

__all__ = ["BROKEN", "CASES", "audit_draws", "audit_release", "neighbours"]

LOW, HIGH = 0.0, 10.0
CHOOSING = 0.3  # error of the bounds by which a pair is chosen, which prove nothing
FAR = 1000.0  # widths of the bounds by which a canary lies outside, to see whether anything clips it
RARE = 4  # times as many runs where delta > 0: the event that attains eps is rarer there
TIGHT = 0.01  # delta of the audits of approximate privacy: at a small one no number of runs shows the event

Release = Callable[[Any, np.random.Generator], ArrayLike]
Draws = Callable[[Any, int, np.random.Generator], ArrayLike]


def neighbours(bounds: tuple[float, float], n: int, adjacency: str) -> list[tuple[Floats, Floats]]:
    """Pairs of data sets that a guarantee must make hard to tell apart, at the ends of the bounds and far outside.

    Parameters
    ----------
    bounds : pair (low, high); n : whole number >= 1 of rows; adjacency : "row" or "client".

    >>> [pair[1].tolist() for pair in neighbours((0.0, 1.0), 2, "row")][:2]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    low, high = low_high("bounds", bounds)
    n = int(single(count, "n", n))
    beyond = high + FAR * (high - low)
    if choice("adjacency", adjacency, ("row", "client")) == "client":
        far = np.full(n, beyond)
        far[0] += FAR * (high - low)  # so that their variance is clipped, too
        return [(np.full(n, low), np.full(n, high)), (np.full(n, low), far)]
    found = []
    for others, end in ((low, high), (high, low), (low, beyond)):
        without = np.full(n, others)
        changed = without.copy()
        changed[0] = end
        found.append((without, changed))
    return found


def released(release: Release, data: Any, runs: int, rng: np.random.Generator) -> Floats:
    """Return what a function releases about one data set in many runs, array (runs, numbers)."""
    rows = [np.ravel(finite("what the mechanism returned", release(data, rng))) for _ in range(runs)]
    if len({len(row) for row in rows}) > 1 or not len(rows[0]):
        raise ValueError("the mechanism must return the same number of numbers, at least one, in every run")
    return np.array(rows)


def readings(one: Floats, other: Floats) -> Callable[[Floats], Floats]:
    """Return a function from releases (runs, numbers) to statistics, learnt from runs in both worlds of a pilot.

    Each number; and of several the linear function that parts two normal laws of equal covariance best (Fisher 1936), and
    the sum of numbers clipped to the two worlds' medians, each in units of the distance between them.
    """
    if one.shape[1] == 1:
        return lambda values: values
    scale = np.where((spread := np.std(np.concatenate([one, other]), axis=0)) > 0, spread, 1.0)
    covariance = np.atleast_2d((np.cov(one / scale, rowvar=False) + np.cov(other / scale, rowvar=False)) / 2)
    direction = np.linalg.lstsq(covariance, (other.mean(axis=0) - one.mean(axis=0)) / scale, rcond=1e-9)[0] / scale
    low, high = np.median(one, axis=0), np.median(other, axis=0)
    width = np.where(high == low, 1.0, high - low)

    def read(values: Floats) -> Floats:
        clipped = np.clip((values - low) / width, 0.0, 1.0)[:, high != low].sum(axis=1)
        return np.column_stack([values, values @ direction, clipped])

    return read


def audit_release(
    release: Release,
    pairs: Sequence[tuple[Any, Any]],
    *,
    eps: float,
    delta: float = 0.0,
    adjacency: str = "row",
    name: str = "release",
    runs: int = 5000,
    beta: float = 0.01,
    seed: int = 0,
) -> Case:
    """Audit any mechanism: the claimed eps beside a certified lower bound on it.

    Parameters
    ----------
    release : function (data, generator) that returns the released number or numbers; it may ignore the generator.
    pairs : list of pairs of neighbouring data sets, such as `neighbours` gives; each is tried, at beta over their number.
    eps, delta : what is claimed; adjacency : key of ``ADJACENCIES``; name : what the case is called.
    runs : whole number >= 4 of runs for each data set; the bound is at most about log(runs / 12).
    beta : number in (0, 1), the probability that the bound is above the true eps; seed : whole number.

    Returns
    -------
    Case, of the pair with the largest bound; its `refuted` says whether the claim is refuted.

    >>> def biased_coin(bit, generator):
    ...     return bit != (generator.random() < 0.1)
    >>> audit_release(lambda bit, rng: float(biased_coin(bit, rng)), [(0, 1)], eps=1.0, runs=1000).refuted
    True
    """
    if not callable(release):
        raise ValueError("release must be a function of data and a generator, and pairs at least one pair of data sets")
    return audit_draws(
        partial(released, release), pairs, eps=eps, delta=delta, adjacency=adjacency, name=name, runs=runs, beta=beta,
        seed=seed,
    )  # fmt: skip


def audit_draws(
    draws: Draws,
    pairs: Sequence[tuple[Any, Any]],
    *,
    eps: float,
    delta: float = 0.0,
    adjacency: str = "row",
    name: str = "release",
    runs: int = 5000,
    beta: float = 0.01,
    seed: int = 0,
) -> Case:
    """Audit a mechanism that makes many independent releases about one data set at once; else as `audit_release`.

    Parameters
    ----------
    draws : function (data, runs, generator) that returns an array (runs, numbers), or (runs,).
    runs : as there, of which there are four times as many where delta > 0.

    >>> law = audit_draws(lambda x, runs, rng: x + rng.laplace(size=runs), [(0.0, 1.0)], eps=1.0, runs=20000)
    >>> 0.85 < law.bound.eps < 1.0
    True
    """
    eps, delta = budget_numbers(eps, delta)
    choice("adjacency", adjacency, ADJACENCIES)
    runs = int(single(count, "runs", runs, 4)) * (RARE if delta > 0 else 1)
    beta = single(fraction, "beta", beta)
    if not len(pairs):
        raise ValueError("release must be a function of data and a generator, and pairs at least one pair of data sets")

    def worlds(place: int, size: int, stage: int) -> list[Floats]:
        found = [
            finite("what the mechanism returned", draws(data, size, np.random.default_rng([seed, place, stage, world])))
            for world, data in enumerate(pairs[place])
        ]
        return [values[:, None] if values.ndim == 1 else values for values in found]

    pilot = max(runs // 4, 4)
    best: tuple[float, int, Any] | None = None
    for place in range(len(pairs)):
        seen = worlds(place, pilot, 0)
        read = readings(*seen)
        found = epsilon_bound(*map(read, seen), delta=delta, beta=CHOOSING).eps
        if best is None or found > best[0]:
            best = found, place, read
    assert best is not None  # there is a pair
    _, place, read = best
    return Case(name, adjacency, eps, epsilon_bound(*map(read, worlds(place, runs, 1)), delta=delta, beta=beta))


# --- the toolkit's own -------------------------------------------------------------------------------------------------


def names(size: int) -> list[str]:
    """Return as many different names."""
    return [str(i) for i in range(size)]


def mean(
    mechanism: str, adjacency: str, *, client: type[MeanClient] = MeanClient, n: int = 3, eps: float = 1.0, **more: Any
) -> Case:
    """Audit a client's mean; `client` may be broken.  What is not of `MeanClient` goes to `audit_draws`."""
    of_client = {k: more.pop(k) for k in ("variance_share", "variance_bound") if k in more}
    delta = TIGHT if mechanism.endswith("gaussian") else 0.0
    say = {"bounds": (LOW, HIGH), "eps": eps, "delta": delta, "adjacency": adjacency, "mechanism": mechanism, **of_client}

    def draws(rows: Floats, runs: int, generator: np.random.Generator) -> Floats:
        made = client(**say).reports([rows] * runs, names(runs), generator)
        return np.array([[r.estimate] if r.variance is None else [r.estimate, r.variance] for r in made])

    name = f"mean, {mechanism}" + (" and variance" if of_client else "")
    pairs = neighbours((LOW, HIGH), n, adjacency)
    return audit_draws(draws, pairs, eps=eps, delta=delta, adjacency=adjacency, name=name, **more)


def rate(mechanism: str, adjacency: Literal["row", "client"], *, n: int = 3, eps: float = 1.0, **more: Any) -> Case:
    """Audit a client's number of ones."""
    delta = TIGHT if mechanism.endswith("gaussian") else 0.0

    def draws(answers: Floats, runs: int, generator: np.random.Generator) -> Floats:
        made = RateClient(eps=eps, delta=delta, adjacency=adjacency, mechanism=mechanism)
        ones = np.full(runs, answers.sum())
        return np.array([r.value for r in made.reports(ones, np.full(runs, n), names(runs), generator)])

    pairs = neighbours((0.0, 1.0), n, adjacency)[:-1]  # answers are 0 or 1, nothing lies outside
    return audit_draws(draws, pairs, eps=eps, delta=delta, adjacency=adjacency, name=f"rate, {mechanism}", **more)


def central(*, m: int = 4, eps: float = 1.0, **more: Any) -> Case:
    """Audit what a trusted server computes its prior from: the noisy mean and variance of the clients' means."""

    def draws(means: Floats, runs: int, generator: np.random.Generator) -> Floats:
        found = noisy_moments([means] * runs, names(runs), bounds=(LOW, HIGH), eps=eps, delta=0.0, generator=generator)
        return np.array([[r.estimate, r.variance] for r in found])

    pairs = neighbours((LOW, HIGH), m, "row")  # a client is one number here
    return audit_draws(draws, pairs, eps=eps, adjacency="client", name="central prior", **more)


def regression(*, eps: float = 1.0, **more: Any) -> Case:
    """Audit a client's sums of products, at two orthogonal rows, which differ the most, and at a row that is too long."""

    def draws(row: Sequence[float], runs: int, generator: np.random.Generator) -> Floats:
        X, y = np.array([[row[0]], [0.0]]), np.array([row[1], 0.0])
        client = RegressionClient(norm=1.0, eps=eps, delta=TIGHT, bits=8)  # up to 8 the noise is drawn in batches
        made = client.reports([X] * runs, [y] * runs, names(runs), generator)
        products = np.array([r.products for r in made])
        return np.column_stack([products[:, 0, 0], products[:, 0, 1], products[:, 1, 1]])

    pairs = [((1.0, 0.0), (0.0, 1.0)), ((1.0, 0.0), (0.0, FAR))]
    return audit_draws(draws, pairs, eps=eps, delta=TIGHT, name="regression", **more)


def distributed(*, clients: int = 3, counted: int | None = None, eps: float = 1.0, levels: int = 15, **more: Any) -> Case:
    """Audit what a server sees of a secure sum of clients, of whose noise so many are `counted` (default: all).

    One client's number is at either end, those of others are 0.
    """
    sigma2 = sigma2_each(eps=eps, delta=TIGHT, sensitivity=levels, clients=counted or clients)

    def draws(value: float, runs: int, generator: np.random.Generator) -> Floats:
        parts = noisy_parts(np.zeros((runs, clients), int), sigma2, generator)
        return value + parts.sum(axis=1)

    pairs = [(0.0, float(levels))]
    return audit_draws(draws, pairs, eps=eps, delta=TIGHT, adjacency="client", name="distributed mean", **more)


def lied_to(*, clients: int = 9, threshold: int = 5, careless: bool = False, eps: float = 1.0, **more: Any) -> Case:
    """Audit what a server learns from a secure sum by telling parties different stories of who was heard.

    The attack is made once, on numbers that tell whose sum it is; runs are of a sum with the noise of those whom it singled
    out.  Where it fails the round ends and there is none: what the server has then are words behind masks.
    """
    numbers = 1 << np.arange(clients)
    try:
        found = lying_server(numbers[:, None], threshold=threshold, bits=clients + 1, careless=careless)
    except RoundEnded:
        found = None
    if found is not None and found.total.tolist() == [numbers[list(found.heard)].sum()]:
        return distributed(clients=len(found.heard), counted=threshold, eps=eps, **more)
    nothing = [(0.0, 1.0)]
    return audit_draws(
        lambda value, runs, generator: np.zeros(runs), nothing, eps=eps, delta=TIGHT, adjacency="client",
        name="distributed mean, lying server", **more,
    )  # fmt: skip


def shuffled_bits(*, n: int = 10, eps: float = 1.0, **more: Any) -> Case:
    """Audit what a server sees of shuffled random bits, their number: one client's bit is 0 or 1, those of others are 0."""

    def draws(bit: float, runs: int, generator: np.random.Generator) -> Floats:
        made = two_point([int(bit), *[0] * (n - 1)] * runs, eps, generator)
        return np.array(made.values[0]).reshape(runs, n).sum(axis=1)

    claimed = shuffled_epsilon(delta=TIGHT, eps0=eps, n=n)
    return audit_draws(
        draws, [(0.0, 1.0)], eps=claimed, delta=TIGHT, adjacency="client", name=f"{n} shuffled bits", **more
    )  # fmt: skip


CASES: dict[str, Callable[..., Case]] = {
    **{
        f"mean, row, {m}": partial(mean, m, "row")
        for m in ("discrete-laplace", "staircase", "discrete-gaussian", "gaussian")
    },
    **{
        f"mean, client, {m}": partial(mean, m, "client")
        for m in ("discrete-laplace", "staircase", "discrete-gaussian", "two-point", "finite-output")
    },
    "mean and variance, row": partial(mean, "discrete-laplace", "row", variance_share=0.5),
    "mean and variance, client": partial(mean, "staircase", "client", variance_share=0.5, variance_bound=1.0),
    **{f"rate, row, {m}": partial(rate, m, "row") for m in ("discrete-laplace", "discrete-gaussian", "answers")},
    **{f"rate, client, {m}": partial(rate, m, "client") for m in ("discrete-laplace", "two-point", "finite-output")},
    "central prior": central,
    "distributed mean": distributed,
    "distributed mean, lying server": lied_to,
    "regression": regression,
    "shuffled bits": shuffled_bits,
}
"""Audits of what the toolkit releases; each takes seconds at tens of thousands of runs, which are drawn together."""


# --- broken on purpose -------------------------------------------------------------------------------------------------


class Unclipped(MeanClient):
    """Forgets to clip: what lies outside the bounds shows."""

    def answer(self, samples: Any, names: Any, generator: Any) -> Any:
        """Return reports that move with what was clipped."""
        made = super().answer(samples, names, generator)
        for report, rows in zip(made, samples, strict=True):
            away = np.mean(rows) - np.mean(np.clip(rows, *self.bounds))
            object.__setattr__(report, "estimate", report.estimate + away)
        return made


class HalfNoise(MeanClient):
    """Adds noise for half the sensitivity, as for added and removed rows where one is replaced."""

    def randomise(self, totals: Any, sensitivities: Any, generator: Any, shares: Any = (1,)) -> Any:
        """Return numbers with too little noise."""
        return super().randomise(totals, [[s // 2 for s in column] for column in sensitivities], generator, shares)


class OwnBounds(MeanClient):
    """Takes the bounds from the data."""

    def answer(self, samples: Any, names: Any, generator: Any) -> Any:
        """Return reports whose noise tells how far the rows are apart; all samples are the same here."""
        self.bounds = float(np.min(samples)) - 0.5, float(np.max(samples)) + 0.5
        return super().answer(samples, names, generator)


class KnownNoise(MeanClient):
    """Draws the same noise in every report, from a seed that others can guess."""

    def answer(self, samples: Any, names: Any, generator: Any) -> Any:
        """Return reports with noise that is known."""
        alike = {}
        for rows in samples:
            if (key := rows.tobytes()) not in alike:
                self.budget.releases.clear()
                (alike[key],) = super().answer([rows], names[:1], np.random.default_rng(0))
        return [alike[rows.tobytes()] for rows in samples]


class SpentTwice(MeanClient):
    """Reports the mean of two reports, and pays for one."""

    def answer(self, samples: Any, names: Any, generator: Any) -> Any:
        """Return reports with the noise of two averaged."""
        made = super().answer(samples, names, generator)
        self.budget.releases.clear()
        for one, other in zip(made, super().answer(samples, names, generator), strict=True):
            object.__setattr__(one, "estimate", (one.estimate + other.estimate) / 2)
        return made


def noise_of_the_lost(*, clients: int = 3, **more: Any) -> Case:
    """Audit a secure sum that counts the noise of clients who fell silent, nine of each three that are left."""
    return distributed(clients=clients, counted=4 * clients, **more)


BROKEN: dict[str, Callable[..., Case]] = {
    "not clipped": partial(mean, "staircase", "row", client=Unclipped),
    "half the noise": partial(mean, "discrete-laplace", "row", client=HalfNoise),
    "half the noise, Gaussian": partial(mean, "discrete-gaussian", "client", client=HalfNoise),
    "bounds from the data": partial(mean, "discrete-laplace", "row", client=OwnBounds),
    "known noise": partial(mean, "discrete-laplace", "client", client=KnownNoise),
    "budget spent twice": partial(mean, "discrete-laplace", "client", client=SpentTwice),
    "noise of the lost": noise_of_the_lost,
    "lying server, unchecked lists": partial(lied_to, careless=True),
}
"""Mechanisms that are broken, each in one way; every audit must refute the claim."""
