"""The prior that a server broadcasts, with how little the noise let it learn, and the posteriors that follow.

With noise the variance between clients is poorly known, and its most likely value is often 0: intervals that take it for
the truth promise too much, and clients would give up their own data for a bad common mean.  Therefore a prior is a grid of
values of tau with their posterior probabilities (flat prior on tau between 0 and a bound known in advance: Gelman 2006),
each with the mean and sd of mu given tau, and everything is averaged over the grid.

Belongs here: the grid from reports or from a central release, what is left of an estimate beyond its end, and the
mixtures of normal laws that posteriors are.  The clients' and the server's side are in ``client``, ``server`` and
``central``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import Field, asdict, dataclass, fields, is_dataclass
from typing import Any, ClassVar, Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.limits import quiet
from estimators.numerics.validation import finite, nonnegative, number, probability, single
from estimators.system.untrusted import read_json, shown

__all__ = ["BetaPrior", "Broadcast", "NormalMixtures", "Prior", "cut_mean", "cut_normal", "grid_posterior"]

NODES = 33
DROP = 12.0  # in log probability, where the grid ends


class Broadcast:
    """A prior that the server sends to clients as one line of JSON; subclasses are frozen dataclasses that check numbers."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the prior that `to_json` wrote; ValueError for text that is incomplete or holds impossible numbers."""
        make: Callable[..., Self] = cls
        if not is_dataclass(cls):
            raise ValueError(f"text must be read as one kind of prior, such as Prior.from_json(text), not as {cls.__name__}")
        content = read_json(text, what="prior")
        wanted = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or not content.keys() <= wanted:
            raise ValueError(f"prior must be a JSON object with the entries {sorted(wanted)}, got {shown(content)}")
        try:
            return make(**content)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"prior is not complete JSON, or holds impossible numbers: {str(error)[:200]}") from None


@dataclass(frozen=True)
class Prior(Broadcast):
    """What the server broadcasts: possible values of tau, how probable they are, and mu given each of them.

    Parameters
    ----------
    tau, weight, mu, mu_sd : tuples of one length: standard deviations >= 0 between clients, their probabilities, the mean
        of the clients and its standard error given tau.
    sigma2, sigma2_sd : number >= 0, variance of one row, or None; and its standard error, 0 if it is known.

    >>> prior = Prior.known(mu=1.0, tau2=4.0, sigma2=2.0)
    >>> Prior.from_json(prior.to_json()) == prior, prior.mean, prior.variance
    (True, 1.0, 4.0)
    """

    tau: tuple[float, ...]
    weight: tuple[float, ...]
    mu: tuple[float, ...]
    mu_sd: tuple[float, ...]
    sigma2: float | None = None
    sigma2_sd: float = 0.0

    def __post_init__(self):
        nonnegative("sigma2_sd", self.sigma2_sd)
        for name, check in (("tau", nonnegative), ("weight", nonnegative), ("mu", finite), ("mu_sd", nonnegative)):
            array = np.atleast_1d(check(name, getattr(self, name)))
            if array.ndim != 1 or len(array) != np.size(self.tau):
                raise ValueError(f"{name} must have one entry for each tau, got shape {array.shape}")
            object.__setattr__(self, name, tuple(map(float, array)))
        if abs(sum(self.weight) - 1) > 1e-9:
            raise ValueError(f"weight must add to 1, got {sum(self.weight)}")
        if self.sigma2 is not None:
            nonnegative("sigma2", self.sigma2)

    @classmethod
    def known(cls, *, mu: float, tau2: float, sigma2: float | None = None, mu_sd: float = 0.0) -> Self:
        """Return the prior of a single tau."""
        tau = np.sqrt(single(nonnegative, "tau2", tau2))
        return cls((float(tau),), (1.0,), (single(finite, "mu", mu),), (single(nonnegative, "mu_sd", mu_sd),), sigma2)

    @property
    def mean(self) -> float:
        """Mean of mu over the grid."""
        return float(np.dot(self.weight, self.mu))

    @property
    def mean_sd(self) -> float:
        """Standard deviation of mu over the grid."""
        second = np.dot(self.weight, np.square(self.mu_sd) + (np.array(self.mu) - self.mean) ** 2)
        return float(np.sqrt(second))

    @property
    def variance(self) -> float:
        """Mean of tau^2 over the grid."""
        return float(np.dot(self.weight, np.square(self.tau)))

    def row_variance(self, rows: Floats) -> float:
        """Variance of one row as a client sees it: the broadcast one, moderated by its own rows where that is uncertain.

        The broadcast counts as 2 (sigma2 / sigma2_sd)^2 degrees of freedom, the client's rows as n - 1 (Smyth 2004).
        """
        if self.sigma2 is None:
            raise ValueError("prior must have sigma2, the variance of one row")
        if self.sigma2_sd == 0 or len(rows) < 2:
            return self.sigma2
        freedom = 2 * (self.sigma2 / self.sigma2_sd) ** 2
        return float((freedom * self.sigma2 + np.sum((rows - rows.mean()) ** 2)) / (freedom + len(rows) - 1))

    def columns(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return tau^2, weight, mu and mu_sd^2 as arrays (nodes, 1)."""
        tau, weight, mu, mu_sd = (np.array(x)[:, None] for x in (self.tau, self.weight, self.mu, self.mu_sd))
        return tau**2, weight, mu, mu_sd**2

    def posteriors(self, x: Floats, variances: Floats) -> NormalMixtures:
        """Return the laws of the clients' values when the prior was learnt from these very x, of these variances."""
        tau2, weight, mu, mu_sd2 = self.columns()
        x, v = np.asarray(x, float), np.asarray(variances, float)
        with quiet():
            own = np.where(tau2 + v == 0, 1.0, tau2 / np.where(tau2 + v == 0, 1.0, tau2 + v))
        return NormalMixtures(
            np.broadcast_to(weight, own.shape), own * x + (1 - own) * mu, own * v + (1 - own) ** 2 * mu_sd2
        )

    def at_home(self, x: float, variance: float, told: tuple[float, float] | None = None) -> NormalMixtures:
        """Return the law of one client's value from its exact mean x, and from what the others told the server.

        Parameters
        ----------
        x, variance : the client's mean and its sampling variance.
        told : (value, variance) of its own report, which is taken out of the prior, or None if it sent none.
        """
        tau2, weight, mu, mu_sd2 = (column[:, 0] for column in self.columns())
        with quiet():
            log_weight = np.log(weight)
        if told is not None and (mu_sd2 > 0).all():
            value, spread = told[0], tau2 + told[1]
            rest = np.maximum(1 / mu_sd2 - 1 / spread, 1e-12 / mu_sd2)
            mu = (mu / mu_sd2 - value / spread) / rest
            mu_sd2 = 1 / rest
            log_weight = log_weight - log_normal(value - mu, spread + mu_sd2)
        between = tau2 + mu_sd2
        log_weight = log_weight + log_normal(x - mu, np.maximum(between + variance, np.finfo(float).tiny))
        own = np.where(between + variance == 0, 1.0, between / np.where(between + variance == 0, 1.0, between + variance))
        weight = normalised(log_weight)
        return NormalMixtures(weight[:, None], (own * x + (1 - own) * mu)[:, None], (own * variance)[:, None])


@dataclass(frozen=True)
class BetaPrior(Broadcast):
    """What the server broadcasts about rates: mean and variance of the clients' rates.

    Parameters
    ----------
    mu : number in [0, 1]; sigma2 : number in [0, mu (1 - mu)].

    >>> prior = BetaPrior(0.25, 0.0375)
    >>> BetaPrior.from_json(prior.to_json()) == prior, prior.size
    (True, 4.0)
    """

    mu: float
    sigma2: float

    def __post_init__(self):
        probability("mu", self.mu)
        if not 0 <= nonnegative("sigma2", self.sigma2) <= self.mu * (1 - self.mu):
            raise ValueError(f"sigma2 must lie in [0, mu (1 - mu)], got {self.sigma2}")

    @property
    def size(self) -> float:
        """alpha + beta of the Beta law, inf for equal rates."""
        return np.inf if self.sigma2 == 0 else self.mu * (1 - self.mu) / self.sigma2 - 1


class NormalMixtures:
    """One mixture of normal laws per client: weights, means and variances of shape (nodes, clients)."""

    def __init__(self, weights: Floats, means: Floats, variances: Floats) -> None:
        self.weights, self.means, self.variances = weights, means, variances

    def mean(self) -> Floats:
        """Mean of each client's law."""
        return np.sum(self.weights * self.means, axis=0)

    def sd(self) -> Floats:
        """Standard deviation of each client's law."""
        return np.sqrt(np.sum(self.weights * (self.variances + (self.means - self.mean()) ** 2), axis=0))

    def cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """P(value <= t), or < t if `strict`, of each client."""
        from scipy.special import ndtr

        away, sd = np.asarray(t, float) - self.means, np.sqrt(self.variances)
        step = np.where((away > 0) | ((away == 0) & (not strict)), np.inf, -np.inf)
        with quiet():
            z = np.where(sd > 0, away / np.where(sd > 0, sd, 1.0), step)
        return np.sum(self.weights * ndtr(z), axis=0)

    def quantile(self, q: float) -> Floats:
        """Quantile of each client's law, by bisection between the quantiles of its parts."""
        from scipy.special import ndtri

        q = single(probability, "q", q)
        with quiet():
            ends = self.means + np.where(self.variances > 0, np.sqrt(self.variances) * ndtri(q), 0.0)
        low, high = ends.min(axis=0), ends.max(axis=0)
        if not np.isfinite(low).all():
            return low
        high = np.where(self.cdf(low) >= q, low, high)
        for _ in range(60):
            if not (high - low > 1e-13 * np.abs(high)).any():
                break
            middle = (low + high) / 2
            enough = self.cdf(middle) >= q
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high


def log_normal(residual: Numbers, variance: Numbers) -> Floats:
    """Return the log density of a centred normal law, up to a constant."""
    return -(np.log(variance) + residual**2 / variance) / 2


def cut_mean(estimate: float, error: float, high: float = np.inf) -> float:
    """Return the mean of the normal law of an estimate and its standard error cut off at 0 and `high`.

    For a parameter in (0, high) whose estimate noise has moved outside, or near an end: never an end itself, unless the
    error is 0.

    >>> cut_mean(0.3, 0.01, 1.0), round(cut_mean(-5.0, 1.0, 100.0), 6), round(cut_mean(0.9, 100.0, 1.0), 4)
    (0.3, 0.186504, 0.5)
    """
    return cut_normal(estimate, error, high=high)[1]


def cut_normal(estimate: float, error: float, low: float = 0.0, high: float = np.inf) -> tuple[float, float, float]:
    """Return the log of the mass of the normal law of an estimate and its error in [low, high], and mean and sd there.

    The mass is that of a flat prior between the ends, but for a factor of the two alone.

    >>> [round(x, 4) for x in cut_normal(-5.0, 1.0, high=100.0)], [round(x, 4) for x in cut_normal(7.0, 1e9, 0.0, 10.0)]
    ([-15.065, 0.1865, 0.1808], [-19.3396, 5.0, 2.8868])
    """
    estimate, error = single(finite, "estimate", estimate), single(nonnegative, "error", error)
    low, high = single(finite, "low", low), float(single(number, "high", high))
    if not low <= high:
        raise ValueError(f"high must be at least low, {low:g}, got {high:g}")
    best = float(min(max(estimate, low), high))
    if error == 0:
        return 0.0, best, 0.0
    if low == high:
        return -np.inf, best, 0.0  # what has a density has no mass in a point
    # Log density relative to the best point falls by 40 within this of it, on either side.
    reach = min(error**2 * 40 / max(abs(estimate - best), 1e-300), 9 * error)
    if low + reach <= estimate <= high - reach:
        return 0.0, float(estimate), float(error)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    start, top = max(best - reach, low), min(best + reach, high)
    x = start + (top - start) * (nodes + 1) / 2
    log_weight = -((x - best) * (x + best - 2 * estimate)) / (2 * error**2)
    weight = weights * np.exp(log_weight - log_weight.max())
    total, away = weight.sum(), (best - estimate) / error
    mean = np.sum(weight * x) / total
    log_mass = log_weight.max() + np.log(total * (top - start) / (2 * np.sqrt(2 * np.pi) * error)) - away**2 / 2
    return float(log_mass), float(mean), float(np.sqrt(np.sum(weight * (x - mean) ** 2) / total))


def normalised(log_weight: Floats) -> Floats:
    """Return probabilities in proportion to exp(log_weight)."""
    weight = np.exp(log_weight - np.max(log_weight))
    return weight / weight.sum()


def grid_posterior(given_tau: Callable[..., Any], tau_max: float, sigma2: float | None = None) -> Prior:
    """Return the Prior with probabilities in proportion to a likelihood of tau, on a grid where it is not negligible.

    Parameters
    ----------
    given_tau : function of a number tau that returns (log likelihood, mu, mu_sd).
    tau_max : number > 0, bound on tau known in advance.
    sigma2 : passed on.
    """
    low, high = 0.0, float(tau_max)
    while True:
        tau = np.linspace(low, high, NODES)
        found = np.array([given_tau(t) for t in tau])
        kept = np.flatnonzero(found[:, 0] >= found[:, 0].max() - DROP)
        ends = tau[max(kept[0] - 1, 0)], tau[min(kept[-1] + 1, NODES - 1)]
        if len(kept) > NODES // 2 or high - low <= 1e-9 * high or ends == (low, high):
            break
        low, high = ends
    log_weight = found[:, 0].copy()
    log_weight[[0, -1]] -= np.log(2)  # trapezoids
    weight = normalised(log_weight)
    return Prior(tuple(tau), tuple(weight), tuple(found[:, 1]), tuple(found[:, 2]), sigma2)
