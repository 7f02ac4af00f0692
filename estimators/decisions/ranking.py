"""Ranks of clients with how sure they are: expected ranks, intervals, pairs, the first k.

Belongs here: ranks from posteriors, and frequentist sets for all ranks at once.  r-values, which rank by how surely a client
is among the first, are in ``extremes``.

Expected ranks are sums over pairs.  Where clients are independent given the data (one prior for all of them) these are
integrals of one distribution function against the sum of all: 2 T passes over the clients, good to about six digits.  Where
a model averages over priors, what is unknown of these is common to clients: normal models know the chances of pairs, for
others joint draws are counted; ``standard_error`` says how well.  Intervals and chances to be among the first are counted
in draws either way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from estimators.decisions.posterior import Posterior, blocks, several
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.inversion import root
from estimators.numerics.validation import count, finite, fraction, index, paired, positive, single

__all__ = ["Ranks", "pairwise", "rank", "simultaneous_ranks"]

FEW = 2000  # clients up to which integrals have many places
PLACES = 512, 128  # for few and for many clients, whose sum of laws is smooth
REACH = 7.0  # standard deviations about a posterior mean where its places are
DRAWS, WORK = (400, 10_000), 20_000_000  # fewest and most draws, and numbers drawn by default
MOST_PAIRS = 1000  # clients of a matrix of pairs
ROWS = 2_000_000  # comparisons at a time


class Ranks(NamedTuple):
    """Ranks with their uncertainty; rank 1 is first.  Arrays like the model's ``posterior_mean_``.

    expected : posterior expected rank.  standard_error : of it, by counting draws; 0 where it is integrated.
    place : the order of expected ranks, 1 to m; equals share their average.
    percentile : expected share of the other clients that come after, of those that tie half.
    low, high : interval of the rank.
    top : probability to be among the first `first`.
    level, first, draws, method : how they were found.
    """

    expected: Floats
    standard_error: Floats
    place: Floats
    percentile: Floats
    low: Floats
    high: Floats
    top: Floats
    level: float
    first: int
    draws: int
    method: str

    def first_set(self) -> Ints:
        """Return the positions of the `first` clients likeliest to be among the first so many, the likeliest first.

        No other set of that size is expected to hold more of the true ones, which are the sum of its ``top``.
        """
        if self.top.ndim > 1:
            raise ValueError("first_set takes ranks of one number per client, and these are of several coefficients")
        return np.lexsort((self.expected, -self.top))[: self.first]


def rank(
    model: Posterior,
    level: float = 0.95,
    *,
    first: int = 1,
    largest_first: bool = True,
    draws: int | None = None,
    seed: int = 0,
) -> Ranks:
    """Return the Ranks of the clients of a fitted model; `ClientModel.rank` says what the arguments are."""
    m = several(model, "rank")
    level = single(fraction, "level", level)
    first = index("first", first, 1, m)
    shape = model.posterior_mean_.shape
    width = model.posterior_mean_[0].size
    if draws is None:
        draws = int(np.clip(WORK // (m * width), *DRAWS))
    draws = int(single(count, "draws", draws, 2))
    seed = index("seed", seed, 0, 2**63)
    counted = np.empty((draws, m, width), np.float32)
    done = 0
    for some in blocks(model, draws, seed):
        some = some.reshape(len(some), m, width)
        counted[done : done + len(some)] = ranks_of(-some if largest_first else some)
        done += len(some)
    ends = np.quantile(counted, [(1 - level) / 2, (1 + level) / 2], axis=0, method="inverted_cdf").astype(float)
    top = np.where(np.isnan(counted).any(axis=0), np.nan, np.mean(counted <= first, axis=0))
    expected = counted.mean(axis=0, dtype=float)
    error = counted.std(axis=0, ddof=1, dtype=float) / np.sqrt(draws)
    sums = expected_below(model) if model.independent else pair_sums(model) if m <= FEW else None
    if sums is not None:
        below = sums.reshape(m, width)
        expected, error = 1 + (m - 1 - below if largest_first else below), np.where(np.isnan(below), np.nan, 0.0)
    return Ranks(
        expected=expected.reshape(shape), standard_error=error.reshape(shape), place=places(expected).reshape(shape),
        percentile=((m - expected) / (m - 1)).reshape(shape), low=ends[0].reshape(shape), high=ends[1].reshape(shape),
        top=top.reshape(shape), level=level, first=first, draws=draws, method="posterior",
    )  # fmt: skip


def ranks_of(values: Floats) -> Floats:
    """Return ranks along axis 1 from the smallest, 1; equals get their average, and where one is NaN all are NaN."""
    from scipy.stats import rankdata

    found = rankdata(values, axis=1)
    return np.where(np.isnan(values).any(axis=1, keepdims=True), np.nan, found)


def places(expected: Floats) -> Floats:
    """Return the order of expected ranks, equals (to nine digits of the number of clients) with their average."""
    return ranks_of(np.round(expected, 9)[None])[0]


def integration_points(model: Posterior) -> tuple[Floats, Floats]:
    """Return places between which each client's law is smooth, and the atoms of the laws, both ascending."""
    atoms = np.unique(model.atoms())
    if atoms.size and discrete(model, atoms):
        return np.zeros(0), atoms
    mean, sd = model.posterior_mean_.ravel(), model.posterior_sd_.ravel()
    known = np.isfinite(mean) & np.isfinite(sd)
    mean, sd = mean[known], sd[known]
    if not mean.size:
        return np.zeros(0), atoms
    number = PLACES[len(model.posterior_mean_) > FEW]
    if mean.size > 4 * number:  # as many clients as places speak for all
        chosen = np.argsort(mean, kind="stable")[np.linspace(0, mean.size - 1, 4 * number).astype(int)]
        mean, sd = mean[chosen], sd[chosen]
    steps = np.linspace(-REACH, REACH, 1 + max(16, 4 * number // mean.size))
    points = np.sort((mean[:, None] + sd[:, None] * steps).ravel())
    return np.unique(points[np.linspace(0, points.size - 1, number).astype(int)]), atoms


def discrete(model: Posterior, atoms: Floats) -> bool:
    """Return whether all laws consist of these atoms: they put nothing before, between or beyond them."""
    below = np.zeros_like(model.posterior_mean_)
    for t in atoms.tolist():
        if np.any(model.posterior_cdf(t, True) - below > 1e-9):
            return False
        below = model.posterior_cdf(t)
    return bool(np.all(below > 1 - 1e-9))


def levels(coarse: Floats, atoms: Floats) -> list[tuple[float, bool, bool]]:
    """Return where laws are looked at, in order: (t, strictly below it, only for the finer sum)."""
    points = np.unique(np.concatenate((coarse, atoms)))
    spiky = set(atoms.tolist())
    found: list[tuple[float, bool, bool]] = []
    for i, t in enumerate(points.tolist()):
        if i and coarse.size:
            found.append(((points[i - 1] + t) / 2, False, True))
        if t in spiky:
            found.append((t, True, False))
        found.append((t, False, False))
    return found


def expected_below(model: Posterior) -> Floats:
    """Return how many other clients are expected below each, half of those that tie; for independent clients.

    Sums of F_i's steps times the average of G = sum of F_j at their ends, over two meshes, one with each step of the other
    halved: their errors are second order, so 4/3 of the finer less 1/3 of the coarser is of fourth.
    """
    total = np.zeros((2, *model.posterior_mean_.shape))
    before: list[Floats] = []
    for t, strict, finer in levels(*integration_points(model)):
        here = model.posterior_cdf(t, strict)
        if not before:
            before = [np.zeros_like(here), np.zeros_like(here)]
        for which in (0, 1) if not finer else (1,):
            total[which] += (here - before[which]) * (here.sum(axis=0) + before[which].sum(axis=0)) / 2
            before[which] = here
    m = len(total[0])
    for which in (0, 1):  # what lies beyond the last place
        total[which] += (1 - before[which]) * (m + before[which].sum(axis=0)) / 2
    return np.clip((4 * total[1] - total[0]) / 3 - 0.5, 0.0, m - 1.0)


def pair_sums(model: Posterior) -> Floats | None:
    """Return how many other clients are expected below each, from the chances of pairs, or None where they are not known."""
    m, found = len(model.posterior_mean_), []
    for i in range(0, m, size := max(1, ROWS // m)):
        pairs = model.exceedances(slice(i, min(m, i + size)))
        if pairs is None:
            return None
        found.append(pairs.sum(axis=1) - 0.5)
    return np.concatenate(found)


def pairwise(model: Posterior, clients: ArrayLike | None = None, *, draws: int = 4000, seed: int = 0) -> Floats:
    """Probabilities that one client's true value exceeds another's, given the data; of ties half counts.

    In closed form for normal models; for other independent clients (one prior) an integral, exact to about six digits; else
    counted in joint draws, with a standard error of at most 1 / (2 sqrt(draws)).

    Parameters
    ----------
    model : fitted ``ClientModel`` with one number per client.
    clients : array of positions, or None for all; at most 1000.
    draws : whole number >= 1; seed : whole number >= 0.

    Returns
    -------
    array (k, k)
        Entry [i, j] is P(theta_i > theta_j) + P(theta_i = theta_j) / 2; 1/2 on the diagonal.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> model = GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([2.0, 0.0], 1.0)  # N(1, 1/2) and N(0, 1/2)
    >>> pairwise(model).round(4).tolist()  # Phi(1)
    [[0.5, 0.8413], [0.1587, 0.5]]
    """
    m = several(model, "pairwise")
    if model.posterior_mean_.ndim > 1:
        raise ValueError("pairwise takes models with one number per client; rank() does coefficients one by one")
    model = model.averaged(seed)
    rows = np.arange(m) if clients is None else count("clients", clients, 0).astype(np.int64)
    if rows.ndim != 1 or not rows.size or rows.max() >= m:
        raise ValueError(f"clients must be positions of clients, whole numbers in 0..{m - 1}")
    if rows.size > MOST_PAIRS:
        raise ValueError(f"clients must be at most {MOST_PAIRS}, got {rows.size}; name those to compare")
    known = model.exceedances(slice(None)) if m <= FEW else None
    if known is not None:
        return known[np.ix_(rows, rows)]
    if not model.independent:
        draws, k = int(single(count, "draws", draws)), rows.size
        found = np.zeros((k, k))
        for some in blocks(model, draws, index("seed", seed, 0, 2**63)):
            for drawn in some[:, rows]:
                found += np.sign(drawn[:, None] - drawn)
        return 0.5 + found / (2 * draws)
    total = np.zeros((2, rows.size, rows.size))
    before = [np.zeros(rows.size), np.zeros(rows.size)]
    for t, strict, finer in levels(*integration_points(model)):
        here = model.posterior_cdf(t, strict)[rows]
        for which in (0, 1) if not finer else (1,):
            total[which] += np.multiply.outer(here - before[which], (here + before[which]) / 2)
            before[which] = here
    for which in (0, 1):
        total[which] += np.multiply.outer(1 - before[which], (1 + before[which]) / 2)
    found = np.clip((4 * total[1] - total[0]) / 3, 0.0, 1.0)
    np.fill_diagonal(found, 0.5)
    return found


@paired
def simultaneous_ranks(
    estimates: ArrayLike, variances: ArrayLike, level: float = 0.95, largest_first: bool = True
) -> tuple[Floats, Floats]:
    """Ends (low, high) of sets that hold the ranks of all clients at once with probability `level`, whatever these are.

    A client's rank is at least one more than the number of those surely before it, and so on, where "surely" is by the
    differences of all pairs together (Mogstad, Romano, Shaikh and Wilhelm 2024, Review of Economic Studies 91:476).  Their
    critical value is bounded by that of the studentised range: exact for equal variances, at least as wide for others
    (Hayter 1984, Annals of Statistics 12:61), and without simulation.  No prior enters: these are the sets of the raw
    estimates, wide ones.

    Parameters
    ----------
    estimates : array (m,), estimates_i ~ N(theta_i, variances_i), independent; m >= 2.
    variances : array (m,) or number > 0, known.
    level : number in (0, 1); largest_first : whether rank 1 is that of the largest value.

    Returns
    -------
    (low, high)
        Arrays (m,) of whole numbers.

    >>> [end.tolist() for end in simultaneous_ranks([10.0, 0.0, 1.0], 1.0)]
    [[1.0, 2.0, 2.0], [1.0, 3.0, 3.0]]
    """
    y, v = finite("estimates", estimates), positive("variances", variances)
    level = single(fraction, "level", level)
    if y.ndim != 1 or y.size < 2 or v.shape not in ((), y.shape):
        raise ValueError(
            f"estimates must be of at least two clients, with one variance or one each, got shapes {y.shape} and {v.shape}"
        )
    y, v = (y if largest_first else -y), np.broadcast_to(v, y.shape)
    needed2 = range_quantile(y.size, level) ** 2 / 2
    above, under = np.empty(y.size), np.empty(y.size)
    for i in range(0, y.size, size := max(1, ROWS // y.size)):
        gap = y - y[i : i + size, None]
        sure = gap**2 > needed2 * (v + v[i : i + size, None])
        above[i : i + size] = np.sum(sure & (gap > 0), axis=1)
        under[i : i + size] = np.sum(sure & (gap < 0), axis=1)
    return 1 + above, y.size - under


def range_quantile(m: int, level: float) -> float:
    """Return the quantile of the range of m independent standard normal numbers.

    >>> round(range_quantile(2, 0.95), 4), round(range_quantile(10, 0.95), 3)  # tables of the studentised range
    (2.7718, 4.474)
    """
    from scipy.special import ndtr

    x = np.linspace(-9.0, 9.0, 1801)
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])

    def short(r):  # P(range <= r), by which number is the smallest
        return m * float(np.sum(density * (ndtr(x + r) - ndtr(x)) ** (m - 1))) - level

    return root(short, 1e-8, 40.0, xtol=1e-11)
