"""Tallies of Gaussian clients: fed in batches, merged in any order, exact; 10^7 clients in constant memory.

Belongs here: what is kept of clients (counts, exact sums, exact sums of squares by variance, by number of
observations, by client) and how tallies merge.  The exact sums are in ``exact``, the fit in ``streaming_prior``, files
in ``tally_state``.  Counts of successes and events have tallies of their own, of the same protocol (``tally_state``).

A tally of all clients has the same content for any batches, any order and any tree of merges, because nothing is
rounded before the end; so has the fit, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from estimators.normal_means.streaming_prior import FoundBy, Moments, batch, fit_prior
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.exact import UNIT, exact_sum, group_by, mean_and_scatter, power_sums, rounded
from estimators.numerics.tally_state import Stored
from estimators.numerics.validation import count, finite, index, instance, nonnegative, number, paired, single, texts

if TYPE_CHECKING:
    from estimators.normal_means.streaming_prior import GaussianPrior


__all__ = ["GaussianTally", "RowTally", "SampleTally"]


class PowerSums:
    """Count, exact sum and exact sum of squares of the values under each key."""

    def __init__(self, groups: Mapping[Any, tuple[int, int, int]] | Iterable[tuple[Any, tuple[int, int, int]]] = ()) -> None:
        self.groups = dict(groups)

    def merge(self, rows: Iterable[tuple[Any, int, int, int]]) -> None:
        """Add rows (key, count, sum, sum of squares)."""
        for key, *new in rows:
            if new[0]:
                n, first, second = self.groups.get(key, (0, 0, 0))
                self.groups[key] = n + new[0], first + new[1], second + new[2]

    def rows(self) -> list[tuple[Any, int, int, int]]:
        """Return rows (key, count, sum, sum of squares), by key."""
        return [(key, *self.groups[key]) for key in sorted(self.groups)]

    def content(self, name: Callable[[Any], Any] = lambda key: key) -> list[list[Any]]:
        """Return the rows as plain JSON values."""
        return [[name(key), counted, hex(first), hex(second)] for key, counted, first, second in self.rows()]

    @classmethod
    def of_content(cls, rows: Iterable[Sequence[Any]], read: Callable[[Any], Any] = lambda key: key) -> Self:
        """Return the sums in `rows`, checked: counts are positive and squares no smaller than a sum allows."""
        sums = cls()
        for key, counted, first, second in rows:
            row = (read(key), index("count", counted, 1, 2**63), int(first, 16), int(second, 16))
            if row[0] in sums.groups or row[1] * row[3] < row[2] ** 2:
                raise ValueError(f"impossible sums under {key!r}")
            sums.merge([row])
        return sums


class Tally(Stored):
    """What all tallies here share: `of` and how they are shown."""

    add: Callable[..., Self]
    n_clients: Any

    @classmethod
    def of(cls, *data: Any, **options: Any) -> Self:
        """Return the tally of one batch, which takes the arguments of `add`."""
        return cls(**options).add(*data)

    def __repr__(self):
        return f"<{type(self).__name__} of {self.n_clients} clients>"


class GaussianTally(Tally):
    """Sufficient statistics of clients whose variances take few distinct values.

    Model: theta_i ~ N(mu, tau2), estimate_i ~ N(theta_i, variance_i) with known variances.  The likelihood depends on
    the clients through count, sum and sum of squares of the estimates at each distinct variance only; with variances
    sigma2 / n, there is one for each n.  Variances that differ for all clients need passes over them:
    ``streaming_passes``.

    Parameters
    ----------
    max_variances : integer, the bound on memory: most distinct variances that are kept.

    >>> a = GaussianTally.of([1.0, 2.0], [1.0, 1.0])
    >>> b = GaussianTally.of([3.0, 6.0], [1.0, 1.0])
    >>> prior = (a + b).fit()
    >>> prior.mu, prior.tau2, prior.n_clients
    (3.0, 2.5, 4)
    >>> a + b == b + a == GaussianTally.from_dict((a + b).to_dict())
    True
    """

    def __init__(self, max_variances: int = 4096) -> None:
        self.max_variances = index("max_variances", max_variances, 1, 2**31)
        self.sums = PowerSums()
        self.low, self.high = math.inf, -math.inf

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return sum(counted for counted, _, _ in self.sums.groups.values())

    @paired
    def add(self, estimates: ArrayLike, variances: ArrayLike) -> Self:
        """Add a batch of clients and return self; a batch that is refused changes nothing.

        Parameters
        ----------
        estimates : array (m,), finite; variances : array (m,) or number > 0.
        """
        y, v = batch(estimates, variances)
        if y.size:
            groups = group_by(v, self.max_variances)
            if groups is None:
                raise self.overflow()
            keys, place = groups
            sums = PowerSums()
            sums.merge(zip(keys.tolist(), *power_sums(y, place, keys.size), strict=True))
            self.absorb(sums, float(y.min()), float(y.max()))
        return self

    def absorb(self, sums: PowerSums, low: float, high: float) -> None:
        """Add the sums of other clients, whose estimates lie between `low` and `high`."""
        instance("sums", sums, PowerSums)
        low, high = single(number, "low", low), single(number, "high", high)
        if len(self.sums.groups.keys() | sums.groups.keys()) > self.max_variances:
            raise self.overflow()
        self.sums.merge(sums.rows())
        self.low, self.high = min(self.low, low), max(self.high, high)

    def overflow(self) -> ValueError:
        """Return the error of too many variances."""
        return ValueError(
            f"variances take more than max_variances={self.max_variances} distinct values; round them to three digits, "
            "tally by sample size with SampleTally, or use fit_passes, which takes any"
        )

    def __add__(self, other):
        if not isinstance(other, GaussianTally):
            return NotImplemented
        total = GaussianTally(max(self.max_variances, other.max_variances))
        for tally in (self, other):
            total.absorb(tally.sums, tally.low, tally.high)
        return total

    def fit(
        self,
        prior: FoundBy = "marginal-likelihood",
        mu: float | None = None,
        tau2: float | None = None,
    ) -> GaussianPrior:
        """Return the ``GaussianPrior`` of these clients, the one that ``GaussianMeans`` fits to them.

        Parameters
        ----------
        prior, mu, tau2 : as in ``GaussianMeans``.
        """
        return fit_prior(GroupedClients(self.sums, self.low, self.high), prior, mu, tau2)

    def content(self) -> dict[str, Any]:
        """Return the tally as plain JSON values."""
        ends = [self.low.hex(), self.high.hex()]
        return {"max_variances": self.max_variances, "ends": ends, "groups": self.sums.content(float.hex)}

    @classmethod
    def of_content(cls, content: Any) -> Self:
        """Return the tally with this content."""
        tally = cls(content["max_variances"])
        sums = PowerSums.of_content(content["groups"], float.fromhex)
        low, high = map(float.fromhex, content["ends"])
        if sums.groups and not (min(sums.groups) > 0 and max(sums.groups) < math.inf and low <= high):
            raise ValueError("impossible variances or ends")
        tally.absorb(sums, low, high)
        return tally


class GroupedClients:
    """A source for ``fit_prior``: clients known by the power sums of each distinct variance."""

    def __init__(self, sums: PowerSums, low: float, high: float) -> None:
        self.rows = sums.rows()
        self.variances = np.array([row[0] for row in self.rows])
        self.counts = np.array([row[1] for row in self.rows], float)
        self.n = sum(row[1] for row in self.rows)
        self.smallest, self.largest = (self.rows[0][0], self.rows[-1][0]) if self.n else (0.0, 0.0)
        self.low, self.high = low, high

    def centre(self, mu: float | None) -> float:
        """Measure means from `mu`, or from the mean of all clients if it is None, and return it."""
        self.known = mu is not None
        origin = mu if mu is not None else rounded(sum(first for _, _, first, _ in self.rows), self.n * UNIT)
        pairs = [mean_and_scatter(*row[1:], origin) for row in self.rows]
        self.means, self.scatters = np.array(pairs).T
        return float(origin)

    def moments(self, tau2s: Iterable[float]) -> list[Moments]:
        """Return the `Moments` at each of `tau2s`."""
        return [self.at(tau2) for tau2 in tau2s]

    def at(self, tau2: float) -> Moments:
        """Return the `Moments` at tau2."""
        p = 1 / (tau2 + self.variances)
        weights = self.counts * p
        mu = 0.0 if self.known else total(weights * self.means) / total(weights)
        squares = self.scatters + self.counts * (self.means - mu) ** 2
        logs = self.counts * np.array([math.log(v) for v in tau2 + self.variances])
        return Moments(mu, total(weights), total(weights * p), total(p * squares), total(p * p * squares), total(logs))


def total(values: Floats) -> float:
    """Return the sum of a few numbers, rounded once."""
    return math.fsum(values.tolist())


class SampleTally(Tally):
    """Sufficient statistics of clients with raw samples of any sizes and one unknown variance within clients.

    A client is its number of observations, their mean, and their scatter, the sum of squares about that mean.  The
    variance of one observation is pooled over clients, sum of scatters / sum of (n - 1), as in ``from_samples``, and
    that of a mean of n is the pooled variance / n.

    >>> tally = SampleTally.of([2, 1], [2.0, 5.0], [2.0, 0.0])
    >>> tally.pooled_variance(), tally.gaussian().n_clients
    (2.0, 2)
    """

    def __init__(self, max_counts: int = 4096) -> None:
        self.max_counts = index("max_counts", max_counts, 1, 2**31)
        self.means = GaussianTally(max_counts)  # keyed by n where that has variances
        self.scatter, self.freedom = 0, 0

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return self.means.n_clients

    @paired
    def add(self, counts: ArrayLike, means: ArrayLike, scatters: ArrayLike) -> Self:
        """Add a batch of clients and return self; a batch that is refused changes nothing.

        Parameters
        ----------
        counts : array (m,) of whole numbers >= 1; means : array (m,), finite; scatters : array (m,) >= 0.
        """
        counts, means, scatters = count("counts", counts), finite("means", means), nonnegative("scatters", scatters)
        if not counts.shape == scatters.shape == means.shape or counts.ndim != 1:
            shapes = f"{counts.shape}, {means.shape} and {scatters.shape}"
            raise ValueError(f"counts, means and scatters must have one entry per client, got shapes {shapes}")
        if (scatters[counts == 1] > 0).any():
            raise ValueError("scatters must be 0 where counts are 1: one observation does not differ from its mean")
        self.means.add(means, counts)
        self.scatter += exact_sum(scatters)
        self.freedom += int(exact_sum(counts - 1) // UNIT)
        return self

    def __add__(self, other):
        if not isinstance(other, SampleTally):
            return NotImplemented
        result = SampleTally(max(self.max_counts, other.max_counts))
        result.means = self.means + other.means
        result.scatter, result.freedom = self.scatter + other.scatter, self.freedom + other.freedom
        return result

    def pooled_variance(self) -> float:
        """Return the variance of one observation, pooled over clients."""
        if self.freedom == 0:
            raise ValueError("all clients have one observation, which says nothing about the variance within clients")
        return rounded(self.scatter, self.freedom * UNIT)

    def gaussian(self, sigma2: float | None = None) -> GaussianTally:
        """Return the GaussianTally of the means, with variances sigma2 / n (None: the pooled variance)."""
        sigma2 = self.pooled_variance() if sigma2 is None else single(number, "sigma2", sigma2)
        if not 0 < sigma2 < math.inf:
            raise ValueError(f"the variance within clients must be > 0 and finite, got {sigma2}; give another sigma2")
        tally = GaussianTally(self.max_counts)
        for n, *row in self.means.sums.rows():
            tally.absorb(PowerSums({sigma2 / n: tuple(row)}), self.means.low, self.means.high)
        return tally

    def content(self) -> dict[str, Any]:
        """Return the tally as plain JSON values."""
        return {"means": self.means.content(), "scatter": hex(self.scatter), "freedom": self.freedom}

    @classmethod
    def of_content(cls, content: Any) -> Self:
        """Return the tally with this content."""
        means = GaussianTally.of_content(content["means"])
        tally = cls(means.max_variances)
        tally.means, tally.scatter = means, int(content["scatter"], 16)
        tally.freedom = index("freedom", content["freedom"], 0, 2**63)
        if tally.scatter < 0 or tally.freedom != sum((row[1] * (int(row[0]) - 1)) for row in means.sums.rows()):
            raise ValueError("impossible scatter or degrees of freedom")
        return tally


class RowTally(Tally):
    """Exact sums of raw rows (client, value), for clients whose rows are spread over batches and places.

    Memory grows with the number of clients, not with that of rows.

    >>> rows = RowTally.of(["a", "b"], [1.0, 5.0]) + RowTally.of(["a"], [3.0])
    >>> clients, counts, means, scatters = rows.clients()
    >>> clients, counts.tolist(), means.tolist(), scatters.tolist()
    (['a', 'b'], [2, 1], [2.0, 5.0], [2.0, 0.0])
    """

    def __init__(self) -> None:
        self.sums = PowerSums()

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return len(self.sums.groups)

    @paired
    def add(self, clients: ArrayLike, values: ArrayLike) -> Self:
        """Add a batch of rows and return self.

        Parameters
        ----------
        clients : array or list (m,) of names; values : array (m,), finite.
        """
        clients, values = texts("clients", clients), finite("values", values)
        if values.ndim != 1 or clients.shape != values.shape:
            raise ValueError(
                f"clients and values must have one entry per row, got shapes {clients.shape} and {values.shape}"
            )
        if values.size:
            names, place = np.unique(clients, return_inverse=True)
            self.sums.merge(zip(names.tolist(), *power_sums(values, place, names.size), strict=True))
        return self

    def __add__(self, other):
        if not isinstance(other, RowTally):
            return NotImplemented
        result = RowTally()
        for tally in (self, other):
            result.sums.merge(tally.sums.rows())
        return result

    def clients(self) -> tuple[list[str], Ints, Floats, Floats]:
        """Return names (sorted), counts, means and scatters, each number rounded once from its exact value."""
        rows = self.sums.rows()
        pairs = [mean_and_scatter(*row[1:]) for row in rows]
        means, scatters = np.array(pairs).reshape(-1, 2).T
        return [row[0] for row in rows], np.array([row[1] for row in rows], int), means, scatters

    def samples(self, max_counts: int = 4096) -> SampleTally:
        """Return the SampleTally of these clients, all of whose rows must be here."""
        return SampleTally.of(*self.clients()[1:], max_counts=max_counts)

    def content(self) -> list[list[str]]:
        """Return the tally as plain JSON values."""
        return self.sums.content()

    @classmethod
    def of_content(cls, content: Any) -> Self:
        """Return the tally with this content."""
        tally = cls()
        tally.sums = PowerSums.of_content(content)
        return tally
