"""Audits of releases: each client, the central server and a function of the user's, beside what an adversary proves.

An adversary who chose the data sends a client's neighbouring data sets through the code that releases, many times each, and
tells them apart by the report.  The neighbours are those that move a report the most: for "row" one row at the lower bound
or at the upper one, with the other rows at a bound; for "client" all rows.  The mechanisms in `BROKEN` are each wrong in one
way that has been seen in practice, and an audit that passes one of them is worth nothing.

Belongs here: canaries of releases and the list of them.  Does not belong here: bounds from samples (``federated.audit``),
training (``federated.audit_cases``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from estimators.accounting.budget import ADJACENCIES, budget_numbers
from estimators.federated.audit import Bound, epsilon_bound
from estimators.federated.audit_cases import Case
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import choice, count, finite, fraction, single
from estimators.private.central import release_prior
from estimators.private.client import MeanClient, RateClient
from estimators.private.regression import RegressionClient
from estimators.private.reports import low_high

__all__ = ["BROKEN", "CASES", "audit_release", "neighbours"]

LOW, HIGH = 0.0, 10.0
FAR = 1000.0  # widths of the bounds by which a canary lies outside, to see whether anything clips it
TIGHT = 0.01  # delta of the audits of approximate privacy: at a small one no number of runs shows the event

Release = Callable[[Any, np.random.Generator], ArrayLike]


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
        return [(np.full(n, low), np.full(n, end)) for end in (high, beyond)]
    found = []
    for others, end in ((low, high), (high, low), (low, beyond)):
        without = np.full(n, others)
        changed = without.copy()
        changed[0] = end
        found.append((without, changed))
    return found


def released(release: Release, data: Any, runs: int, rng: np.random.Generator) -> Floats:
    """Return what a function releases about one data set in many runs, array (runs, numbers), and their sum if several."""
    rows = [np.ravel(finite("what the mechanism returned", release(data, rng))) for _ in range(runs)]
    if len({len(row) for row in rows}) > 1 or not len(rows[0]):
        raise ValueError("the mechanism must return the same number of numbers, at least one, in every run")
    values = np.array(rows)
    return values if values.shape[1] == 1 else np.column_stack([values, values.sum(axis=1)])


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
    eps, delta = budget_numbers(eps, delta)
    choice("adjacency", adjacency, ADJACENCIES)
    runs = int(single(count, "runs", runs, 4))
    beta = single(fraction, "beta", beta)
    if not callable(release) or not len(pairs):
        raise ValueError("release must be a function of data and a generator, and pairs at least one pair of data sets")
    best: Bound | None = None
    for place, pair in enumerate(pairs):
        worlds = [
            released(release, data, runs, np.random.default_rng([seed, place, world])) for world, data in enumerate(pair)
        ]
        bound = epsilon_bound(*worlds, delta=delta, beta=beta / len(pairs))
        if best is None or bound.eps > best.eps:
            best = bound
    assert best is not None  # there is a pair
    return Case(name, adjacency, eps, best)


# --- the toolkit's own -------------------------------------------------------------------------------------------------


def of_reports(made: Callable[[], Any], values: Callable[[Any], Any]) -> Release:
    """Return the release of a client that is made anew for every run, so that its budget is whole."""
    return lambda rows, generator: values(made().report(rows, generator))


def estimate(report: Any) -> list[float]:
    """Return the noisy numbers of a mean's report."""
    return [report.estimate] if report.variance is None else [report.estimate, report.variance]


def mean(
    mechanism: str, adjacency: str, *, client: type[MeanClient] = MeanClient, n: int = 3, eps: float = 1.0, **more: Any
) -> Case:
    """Audit a client's mean; `client` may be broken.  What is not of `MeanClient` goes to `audit_release`."""
    of_client = {k: more.pop(k) for k in ("variance_share", "variance_bound") if k in more}
    delta = TIGHT if mechanism.endswith("gaussian") else 0.0
    say = {"bounds": (LOW, HIGH), "eps": eps, "delta": delta, "adjacency": adjacency, "mechanism": mechanism, **of_client}
    made = partial(client, **say)
    name = f"mean, {mechanism}" + (" and variance" if of_client else "")
    pairs = neighbours((LOW, HIGH), n, adjacency)
    return audit_release(of_reports(made, estimate), pairs, eps=eps, delta=delta, adjacency=adjacency, name=name, **more)


def rate(mechanism: str, adjacency: Literal["row", "client"], *, n: int = 3, eps: float = 1.0, **more: Any) -> Case:
    """Audit a client's number of ones."""
    delta = TIGHT if mechanism.endswith("gaussian") else 0.0
    made = partial(RateClient, eps=eps, delta=delta, adjacency=adjacency, mechanism=mechanism)
    pairs = neighbours((0.0, 1.0), n, adjacency)[:-1]  # answers are 0 or 1, nothing lies outside
    release = of_reports(made, lambda report: report.value)
    return audit_release(
        release, pairs, eps=eps, delta=delta, adjacency=adjacency, name=f"rate, {mechanism}", **more
    )  # fmt: skip


def central(*, m: int = 4, eps: float = 1.0, **more: Any) -> Case:
    """Audit the prior that a trusted server releases: mean and variance of the clients' means."""

    def release(means: Floats, generator: np.random.Generator) -> list[float]:
        found = release_prior(means, 0.0, bounds=(LOW, HIGH), eps=eps, delta=TIGHT, generator=generator)
        return [found.prior.mean, found.total_variance]

    pairs = neighbours((LOW, HIGH), m, "row")  # a client is one number here
    return audit_release(release, pairs, eps=eps, delta=TIGHT, adjacency="client", name="central prior", **more)


def regression(*, eps: float = 1.0, **more: Any) -> Case:
    """Audit a client's sums of products, at two orthogonal rows, which differ the most."""
    client = partial(RegressionClient, norm=1.0, eps=eps, delta=TIGHT)

    def release(row: Sequence[float], generator: np.random.Generator) -> float:
        products = np.array(client().report(np.array([[row[0]], [0.0]]), np.array([row[1], 0.0]), generator).products)
        return float(products[0, 0] - products[1, 1])

    pairs = [((1.0, 0.0), (0.0, 1.0)), ((1.0, 0.0), (0.0, FAR))]
    return audit_release(release, pairs, eps=eps, delta=TIGHT, name="regression", **more)


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
    "regression": regression,
}
"""Audits of what the toolkit releases; each takes seconds at the usual number of runs."""


# --- broken on purpose -------------------------------------------------------------------------------------------------


class Unclipped(MeanClient):
    """Forgets to clip: what lies outside the bounds shows."""

    def report(self, rows: Any, generator: Any = None) -> Any:
        """Return a report that moves with what was clipped."""
        made, away = super().report(rows, generator), np.mean(rows) - np.mean(np.clip(rows, *self.bounds))
        object.__setattr__(made, "estimate", made.estimate + away)
        return made


class HalfNoise(MeanClient):
    """Adds noise for half the sensitivity, as for added and removed rows where one is replaced."""

    def randomise(self, totals: Any, sensitivities: Any, two: Any, generator: Any) -> Any:
        """Return numbers with too little noise."""
        return super().randomise(totals, [[s // 2 for s in column] for column in sensitivities], two, generator)


class OwnBounds(MeanClient):
    """Takes the bounds from the data."""

    def report(self, rows: Any, generator: Any = None) -> Any:
        """Return a report whose noise tells how far the rows are apart."""
        self.bounds = float(np.min(rows)) - 0.5, float(np.max(rows)) + 0.5
        return super().report(rows, generator)


class KnownNoise(MeanClient):
    """Draws the same noise in every report, from a seed that others can guess."""

    def report(self, rows: Any, generator: Any = None) -> Any:
        """Return a report with noise that is known."""
        return super().report(rows, np.random.default_rng(0))


class SpentTwice(MeanClient):
    """Reports the mean of two reports, and pays for one."""

    def report(self, rows: Any, generator: Any = None) -> Any:
        """Return a report with the noise of two averaged."""
        one = super().report(rows, generator)
        self.budget.releases.clear()
        other = super().report(rows, generator)
        object.__setattr__(one, "estimate", (one.estimate + other.estimate) / 2)
        return one


BROKEN: dict[str, Callable[..., Case]] = {
    "not clipped": partial(mean, "staircase", "row", client=Unclipped),
    "half the noise": partial(mean, "discrete-laplace", "row", client=HalfNoise),
    "half the noise, Gaussian": partial(mean, "discrete-gaussian", "client", client=HalfNoise),
    "bounds from the data": partial(mean, "discrete-laplace", "row", client=OwnBounds),
    "known noise": partial(mean, "discrete-laplace", "client", client=KnownNoise),
    "budget spent twice": partial(mean, "discrete-laplace", "client", client=SpentTwice),
}
"""Mechanisms that are broken, each in one way; every audit must refute the claim."""
