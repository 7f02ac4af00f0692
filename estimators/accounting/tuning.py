"""What it costs in privacy to run a private algorithm several times and to publish only the best run.

Model: a base algorithm is run h times with fresh noise, each run drawing its hyperparameters independently from one fixed
law; the best run is published (ties broken by a fixed order), and neither h nor the other runs.  h is fixed, Poisson, or
truncated negative binomial (TNB; logarithmic at eta = 0, geometric at eta = 1).  Hyperparameters that are tried in a fixed
order instead are covered by ``FixedRuns`` only (claim mrmtl:thmF.2:grid).

Divergences hold for the adjacency (add-or-remove or replace) for which the base algorithm's do.  Accounting of the base
algorithm itself is in ``privacy``; Renyi to (eps, delta) conversion for a given delta too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from estimators.accounting.privacy import curve_of, delta_from_rdp, epsilon_from_rdp
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.inversion import root
from estimators.numerics.limits import quiet
from estimators.numerics.validation import count, finite, fraction, paired, positive, probability, shown, single

__all__ = [
    "FixedRuns",
    "PoissonRuns",
    "TruncatedNegativeBinomial",
    "noise_inflation",
    "tuned_epsilon",
]

INVERSION_FROM = 1e-3  # the smallest gamma at which a table of probabilities stays short


@dataclass(frozen=True)
class TruncatedNegativeBinomial:
    """Number of runs h = 1, 2, ... with probability proportional to (1-gamma)^h (eta)(eta+1)...(eta+h-1)/h!.

    Claims: mrmtl:tnb:pmf, mrmtl:tnb:mean, mrmtl:thmF.2.

    Parameters
    ----------
    eta : number > -1; 0 is the logarithmic, 1 the geometric law.
    gamma : number strictly between 0 and 1.

    Raises ValueError naming the argument outside its domain.

    >>> runs = TruncatedNegativeBinomial(eta=1.0, gamma=0.1)
    >>> round(runs.mean, 12), round(float(runs.pmf(1)), 12)
    (10.0, 0.1)
    """

    eta: float
    gamma: float

    def __post_init__(self):
        if not (np.ndim(self.eta) == 0 and finite("eta", self.eta) > -1):
            raise ValueError(f"eta must be one number > -1, got {self.eta}")
        single(fraction, "gamma", self.gamma)

    @classmethod
    def with_mean(cls, *, eta: float, mean: float) -> Self:
        """Return the law with this eta and this mean > 1; there is exactly one.  Claim: mrmtl:fig7.

        >>> round(TruncatedNegativeBinomial.with_mean(eta=0.5, mean=10).gamma, 12)
        0.0625
        """
        shape, target = single(finite, "eta", eta), single(finite, "mean", mean)
        if shape <= -1:
            raise ValueError(f"eta must be > -1, got {eta}")
        if target <= 1:
            raise ValueError(f"mean must be > 1 (the number of runs is at least 1), got {mean}")

        def excess(log_inverse):
            return _log_grown(1.0, log_inverse) - _log_grown(-shape, log_inverse) - np.log(target)

        # (1 + eta) log(1/gamma) rises with eta, from log(mean) at -1 to less than the mean at infinity.
        low, high = np.log(target) / (1 + shape), target / (1 + shape)
        log_inverse = root(excess, low * (1 - 1e-9), high * (1 + 1e-9), xtol=1e-300, rtol=8.9e-16)
        return cls(shape, float(np.exp(-log_inverse)))

    @property
    def log_inverse_gamma(self) -> float:
        """log(1/gamma), > 0."""
        return float(-np.log(self.gamma))

    @property
    def mean(self) -> float:
        """Expected number of runs, eta (1-gamma) / (gamma (1 - gamma^eta)); exact."""
        return float((1 - self.gamma) / self.gamma / _grown(-self.eta, self.log_inverse_gamma))

    def pmf(self, h: ArrayLike) -> Floats:
        """Probability of h runs; exact.  `h` is a whole number >= 1, or an array of them."""
        from scipy.special import gammaln

        h = count("h", h)
        rising = gammaln(h + self.eta) - gammaln(1 + self.eta) - gammaln(h + 1)
        return np.exp(h * np.log1p(-self.gamma) + rising - _log_grown(self.eta, self.log_inverse_gamma))[()]

    def generating(self, x: ArrayLike) -> Floats:
        """E[x^h] for 0 <= x <= 1; exact."""
        x = probability("x", x)
        reached = _log_grown(self.eta, -np.log1p(-(1 - self.gamma) * x))
        return np.exp(reached - _log_grown(self.eta, self.log_inverse_gamma))

    def sample(self, generator: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Any:
        """Draw numbers of runs from a NumPy Generator; exact up to rounding."""
        _check_generator(generator)
        number_of = 1 if size is None else int(np.prod(size))
        if self.gamma >= INVERSION_FROM:
            longest = int(np.ceil(45 * (1 + abs(self.eta)) / self.gamma)) + 10
            table = np.cumsum(self.pmf(np.arange(1, longest + 1)))
            draws = 1 + np.searchsorted(table, generator.random(number_of) * table[-1], side="right")
        else:
            draws = self._by_rejection(generator, number_of)
        return int(draws[0]) if size is None else draws.reshape(size)

    def _by_rejection(self, generator, number_of):
        from scipy.special import gammaln

        kept = np.empty(0, dtype=np.int64)
        while len(kept) < number_of:
            if self.eta > 0:  # a negative binomial that is not zero
                proposed = generator.negative_binomial(self.eta, self.gamma, size=number_of)
                proposed = proposed[proposed > 0]
            else:  # Gamma(h + eta) / Gamma(h) falls with h, from its value at h = 1
                proposed = generator.logseries(1 - self.gamma, size=number_of)
                chance = np.exp(gammaln(proposed + self.eta) - gammaln(proposed) - gammaln(1 + self.eta))
                proposed = proposed[generator.random(number_of) < chance]
            kept = np.concatenate([kept, proposed])
        return kept[:number_of]

    def best_of(self, masses: ArrayLike) -> Floats:
        """Law of the best run's outcome; exact.  `masses` is the law of one run, worst outcome first."""
        masses = _law(masses)
        below = self.gamma + (1 - self.gamma) * _above(masses)  # 1 - (1-gamma) x at an outcome's upper end
        step = np.log1p((1 - self.gamma) * masses / below)
        start = -self.eta * (np.log(below) + step)
        return np.exp(start + _log_grown(self.eta, step) - _log_grown(self.eta, self.log_inverse_gamma))

    @paired
    def rdp(self, orders: ArrayLike, rdp: ArrayLike) -> Floats:
        """Renyi divergences of publishing the best run; an upper bound (Papernot and Steinke 2022, Theorem 2).

        (50) of `mrmtl` with the best second order among `orders`.  Claim: mrmtl:thmF.2.

        Parameters
        ----------
        orders, rdp : arrays of one length; orders >= 1 and the base algorithm's divergences >= 0 there, in nats.

        Returns
        -------
        array like `orders`, inf at order 1 unless a larger order bounds it.

        >>> runs = TruncatedNegativeBinomial(eta=1.0, gamma=0.1)
        >>> [round(float(x), 6) for x in runs.rdp([2, 8], [0.1, 0.4])]
        [2.004587, 2.004587]
        """
        orders, rdp = curve_of(orders, rdp)
        second = np.min((1 - 1 / orders) * rdp + self.log_inverse_gamma / orders)
        half = self.log_inverse_gamma / 2
        log_mean = (1 + self.eta) * half + _log_sinhc(half) - _log_sinhc(self.eta * half)  # a mean near 1 has few digits
        return _monotone(orders, rdp + (1 + self.eta) * second + _over(log_mean, orders - 1))


@dataclass(frozen=True)
class PoissonRuns:
    """Poisson number of runs; with no run at all, something that does not depend on the data is published.

    Claim: mrmtl:thmF.2:poisson.

    Parameters
    ----------
    mean : number >= 1 (below 1 the bound of `rdp` does not hold).
    """

    mean: float

    def __post_init__(self):
        if not (np.ndim(self.mean) == 0 and finite("mean", self.mean) >= 1):
            raise ValueError(f"mean must be one number >= 1, got {self.mean}; the bound is not valid below 1")

    def pmf(self, h: ArrayLike) -> Floats:
        """Probability of h runs; exact.  `h` is a whole number >= 0, or an array of them."""
        from scipy.special import gammaln

        h = count("h", h, 0)
        return np.exp(h * np.log(self.mean) - self.mean - gammaln(h + 1))[()]

    def generating(self, x: ArrayLike) -> Floats:
        """E[x^h] for 0 <= x <= 1; exact."""
        return np.exp(-self.mean * (1 - probability("x", x)))[()]

    def sample(self, generator: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Any:
        """Draw numbers of runs from a NumPy Generator."""
        _check_generator(generator)
        return generator.poisson(self.mean, size)

    def best_of(self, masses: ArrayLike) -> Floats:
        """Law of what is published: first "no run", then the outcomes, worst first; exact."""
        masses = _law(masses)
        published = np.exp(-self.mean * _above(masses)) * -np.expm1(-self.mean * masses)
        return np.concatenate([[np.exp(-self.mean)], published])

    def rdp(self, orders: ArrayLike, rdp: ArrayLike, delta: ArrayLike | None = None) -> Floats:
        """Renyi divergences of publishing the best run; an upper bound (Papernot and Steinke 2022, Theorem 6).

        rdp + mean delta + log(mean) / (order - 1), where the base algorithm is (log(order / (order-1)), delta)-private.

        Parameters
        ----------
        orders, rdp : arrays of one length; orders >= 1 and the base algorithm's divergences >= 0 there, in nats.
        delta : array like `orders`, or None: then by `delta_from_rdp` from the divergences.

        >>> round(float(PoissonRuns(10.0).rdp([2.0], [0.0])[0]), 6)
        2.302585
        """
        orders, rdp = curve_of(orders, rdp)
        if delta is None:
            delta = [1.0 if a == 1 else delta_from_rdp(orders, rdp, eps=np.log(a / (a - 1))) for a in orders]
        delta = np.broadcast_to(probability("delta", delta), orders.shape)
        return _monotone(orders, rdp + self.mean * delta + _over(np.log(self.mean), orders - 1))


@dataclass(frozen=True)
class FixedRuns:
    """The same number of runs every time.  Claim: mrmtl:propF.1.

    Parameters
    ----------
    runs : whole number >= 1.
    """

    runs: int

    def __post_init__(self):
        if np.ndim(self.runs) != 0:
            raise ValueError(f"runs must be one whole number >= 1, got {self.runs}")
        count("runs", self.runs)

    @property
    def mean(self) -> float:
        """Expected number of runs."""
        return float(self.runs)

    def pmf(self, h: ArrayLike) -> Floats:
        """Probability of h runs; exact."""
        return np.where(count("h", h, 0) == self.runs, 1.0, 0.0)[()]

    def generating(self, x: ArrayLike) -> Floats:
        """E[x^h] for 0 <= x <= 1; exact."""
        return (probability("x", x) ** self.runs)[()]

    def sample(self, generator: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Any:
        """Return the number of runs, as the other laws' `sample` does."""
        _check_generator(generator)
        return int(self.runs) if size is None else np.full(size, int(self.runs))

    def best_of(self, masses: ArrayLike) -> Floats:
        """Law of the best run's outcome; exact.  `masses` is the law of one run, worst outcome first."""
        masses = _law(masses)
        upto = np.cumsum(masses)
        with quiet():
            shrink = np.where(masses == upto, -1.0, np.expm1(self.runs * np.log1p(-masses / upto)))
            best = -shrink * np.exp(self.runs * np.log(upto))
        return np.where(masses == 0, 0.0, best)

    @paired
    def rdp(self, orders: ArrayLike, rdp: ArrayLike) -> Floats:
        """Renyi divergences of publishing the best run: those of publishing all runs; an upper bound.

        No smaller multiple of them is valid for every base algorithm (mrmtl:propF.1).

        >>> FixedRuns(3).rdp([2, 4], [0.5, 1.0]).tolist()
        [1.5, 3.0]
        """
        orders, rdp = curve_of(orders, rdp)
        return _monotone(orders, self.runs * rdp)


Runs: TypeAlias = TruncatedNegativeBinomial | PoissonRuns | FixedRuns


def read_runs(runs: Runs) -> Runs:
    """Return the law of the number of runs, refusing a bare number of them."""
    if not isinstance(runs, (FixedRuns, PoissonRuns, TruncatedNegativeBinomial)):
        fix = f"; give FixedRuns({runs!r}) for so many every time" if isinstance(runs, int) else ""
        raise ValueError(f"runs must be FixedRuns, PoissonRuns or TruncatedNegativeBinomial, got {shown(runs)}{fix}")
    return runs


@paired
def tuned_epsilon(runs: Runs, orders: ArrayLike, rdp: ArrayLike, *, delta: float, conversion: str = "improved") -> float:
    """Smallest eps at `delta` that the bounds give for publishing the best of `runs` runs; an upper bound.

    Parameters
    ----------
    runs : FixedRuns, PoissonRuns or TruncatedNegativeBinomial.
    orders, rdp : arrays of one length, orders > 1; the divergences of one run.
    delta, conversion : as in ``privacy.epsilon_from_rdp``.

    >>> import numpy as np
    >>> orders = np.arange(2, 200)
    >>> one_run = orders * 0.01
    >>> round(tuned_epsilon(FixedRuns(1), orders, one_run, delta=1e-6), 2)
    0.62
    >>> round(tuned_epsilon(TruncatedNegativeBinomial.with_mean(eta=0, mean=10), orders, one_run, delta=1e-6), 2)
    1.06
    """
    read_runs(runs)
    return float(epsilon_from_rdp(orders, runs.rdp(orders, rdp), delta=delta, conversion=conversion))


@paired
def noise_inflation(runs: Runs, *, eps: float, delta: float) -> float:
    """Factor >= 1 on the noise variance of one Gaussian release that pays for tuning at the same (eps, delta).

    The divergences of a Gaussian release are order * rho with rho inverse to the noise variance; the factor is the
    largest rho without tuning over the largest with tuning, both by the "classic" conversion and over all real orders.
    An upper bound on what is needed, as it rests on upper bounds.  Claim: mrmtl:fig7:cost.

    Parameters
    ----------
    runs : FixedRuns or TruncatedNegativeBinomial.
    eps : number > 0; delta : number strictly between 0 and 1.

    >>> round(noise_inflation(TruncatedNegativeBinomial.with_mean(eta=0, mean=10), eps=1.0, delta=1e-7), 3)
    2.309
    """
    eps, log_delta = single(positive, "eps", eps), -np.log(single(fraction, "delta", delta))
    one = _root_rho(1.0, np.sqrt(log_delta), eps)
    if isinstance(runs, FixedRuns):
        return float(runs.runs)
    if not isinstance(runs, TruncatedNegativeBinomial):
        raise ValueError("runs must be FixedRuns or TruncatedNegativeBinomial")
    # Minimised over both orders: rho - (1+eta) rho + 2 sqrt(rho) (sqrt(log m + log 1/delta) + (1+eta) sqrt(log 1/gamma)),
    # provided that the second order, sqrt(log(1/gamma) / rho), is at least 1.
    first, second = np.sqrt(np.log(runs.mean) + log_delta), np.sqrt(runs.log_inverse_gamma)
    tuned = _root_rho(-runs.eta, first + (1 + runs.eta) * second, eps)
    if tuned > second:  # the second order is then 1, where the base algorithm's divergence does not enter
        tuned = _root_rho(1.0, first, eps - (1 + runs.eta) * second**2)
    return float((one / tuned) ** 2)


def _root_rho(square, linear, eps):
    """Return the smallest r > 0 with square r^2 + 2 linear r = eps, for linear and eps > 0; inf where there is none."""
    inside = linear**2 + square * eps
    return eps / (linear + np.sqrt(inside)) if inside >= 0 else np.inf


def _grown(eta, x):
    """Return (exp(eta x) - 1) / eta, which is x at eta = 0."""
    y = eta * np.asarray(x, float)
    with quiet():
        return x * np.where(y == 0, 1.0, np.expm1(y) / np.where(y == 0, 1.0, y))[()]


def _log_grown(eta, x):
    """Return the logarithm of `_grown` for x >= 0, without overflow."""
    with quiet():
        return np.maximum(eta, 0) * x + np.log(_grown(-abs(eta), x))


def _log_sinhc(x):
    """Return log(sinh(x) / x), 0 at x = 0, without losing digits to a small x."""
    x = abs(x)
    if x < 1:
        beyond = 0.0
        for k in range(20, 0, -2):
            beyond = x * x / (k * (k + 1)) * (1 + beyond)
        return float(np.log1p(beyond))
    return x + float(np.log(-np.expm1(-2 * x) / (2 * x)))


def _law(masses, name="masses"):
    masses = np.atleast_1d(probability(name, masses))
    if masses.ndim != 1 or abs(masses.sum() - 1) > 1e-9:
        raise ValueError(f"{name} must be a 1-d array of probabilities that add to 1; they add to {masses.sum()}")
    return masses


def _above(masses):
    """Return the probability of a better outcome, for every outcome."""
    return np.concatenate([np.cumsum(masses[::-1])[::-1][1:], [0.0]])


def _over(x, y):
    with quiet():
        return np.where(y == 0, np.inf if x != 0 else 0.0, x / y)


def _monotone(orders, rdp):
    """Renyi divergence rises with its order, so a bound at a larger order holds at a smaller one."""
    ranks = np.argsort(orders, kind="stable")
    best = np.empty_like(rdp)
    best[ranks] = np.minimum.accumulate(rdp[ranks][::-1])[::-1]
    return best


def _check_generator(generator):
    if not isinstance(generator, np.random.Generator):
        raise ValueError(f"generator must be a numpy.random.Generator, got {type(generator).__name__}")
