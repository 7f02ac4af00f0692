"""Intervals for shrunken estimates that hold whatever the prior is: on average over clients, or for every client.

Model: estimate_i ~ N(theta_i, s2_i) with known s2_i.  An interval around a shrunken estimate mu + w (y - mu) holds too
seldom if theta_i is far from mu more often than the prior says; here is how often at worst, over all priors with the same
second moment (and fourth), and how wide it has to be (Armstrong, Kolesar and Plagborg-Moller 2022, Econometrica 90:2567).
Intervals that hold for each theta_i by itself and use a guess of the prior only to be short are those of Hoff and Yu (2018,
Electron. J. Statist. 12:3145; Pratt 1963 for one client).

Belongs here: these formulas.  Does not belong here: fitted models, whose ``interval`` has a method for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.blocks import before, dot, over_others
from estimators.numerics.validation import finite, fraction, nonnegative, paired, positive, probability, single

__all__ = [
    "SecondMoments",
    "fab_interval",
    "fab_intervals",
    "linear_shrinkage",
    "robust_critical_value",
    "robust_intervals",
    "second_moments",
    "worst_noncoverage",
]

TABLE = 33  # ratios from which critical values for many clients are interpolated, in their logarithm


class SecondMoments(NamedTuple):
    """The second moment of theta - centre over clients, and its kurtosis (fourth moment over squared second)."""

    mu2: float
    kappa: float


def noncoverage(u: Numbers, c: Numbers) -> Floats:
    """Return P(|Z + u| > c) for a standard normal Z."""
    from scipy.special import ndtr

    return ndtr(-u - c) + ndtr(u - c)


def chord(c: float) -> float:
    """Return the t > 0 at which the chord of t -> P(|Z + sqrt t| > c) from t = 0 is steepest; 0 if that is concave."""
    if c <= np.sqrt(3):
        return 0.0
    start = noncoverage(0.0, c)
    u = np.linspace(max(0.05, c - 20), c + max(8, 1e-15 * c), 400)  # for a large c it lies just above
    best = int(np.argmax((noncoverage(u, c) - start) / u**2))

    def slope(x):  # u^3 times half the derivative by u of the chord's slope
        density = np.exp(-0.5 * (x - c) ** 2) - np.exp(-0.5 * (x + c) ** 2)
        return 0.5 * x * density / np.sqrt(2 * np.pi) - (noncoverage(x, c) - start)

    from scipy.optimize import brentq

    low, high = u[max(best - 1, 0)], u[min(best + 1, u.size - 1)]
    if not slope(low) > 0 > slope(high):
        return float(u[best] ** 2)
    root: Any = brentq(slope, low, high, xtol=1e-14)
    return float(root) ** 2


def worst(m2: float, kappa: float, c: float) -> float:
    """Return the supremum of E P(|Z + B| > c) over laws of B with E B^2 = m2 and E B^4 <= kappa m2^2.

    Two values of B^2 suffice.  Claims: generative:intervals:worst-miss, for an infinite kappa, and
    generative:intervals:worst-miss:kurtosis.
    """
    if m2 == 0:
        return float(noncoverage(0.0, c))
    t0 = chord(c)
    if m2 >= t0 or kappa == 1:
        return float(noncoverage(np.sqrt(m2), c))
    if t0 <= kappa * m2:  # the two values 0 and t0 are allowed
        start = noncoverage(0.0, c)
        return float(start + (noncoverage(np.sqrt(t0), c) - start) * m2 / t0)
    from scipy.optimize import minimize_scalar

    variance = (kappa - 1) * m2**2
    least = variance / (t0 - m2)

    def miss(log: Numbers) -> Any:  # of how far the lower value lies below m2, over the least: the higher one is at most t0
        gap = least * np.exp(log)
        lower = noncoverage(np.sqrt(np.maximum(m2 - gap, 0.0)), c)
        chance = gap**2 / (gap**2 + variance)
        return lower + chance * (noncoverage(np.sqrt(m2 + variance / gap), c) - lower)

    logs = np.linspace(0.0, np.log(m2 / least), 50)
    best = int(np.argmax(miss(logs)))
    ends = float(logs[max(best - 1, 0)]), float(logs[min(best + 1, 49)])
    found: Any = minimize_scalar(lambda log: -miss(log), bounds=ends, method="bounded", options={"xatol": 1e-7})
    return max(-float(found.fun), float(miss(logs[best])))


def read_kappa(kappa: float) -> float:
    """Return a checked kurtosis >= 1, which may be infinite."""
    kappa = single(lambda name, value: nonnegative(name, value, infinite=True), "kappa", kappa)
    if kappa < 1:
        raise ValueError(f"kappa must be >= 1, as every kurtosis is, got {kappa}")
    return kappa


@paired
def worst_noncoverage(w: ArrayLike, level: float = 0.95, kappa: float = np.inf) -> Floats:
    """Return how often the usual interval around a shrunken estimate misses at worst, over all priors; exact.

    The interval is mu + w (y - mu) -+ z sqrt(w) s, with w = tau2 / (tau2 + s2), which holds the truth with probability
    `level` under the prior N(mu, tau2).  The worst is over all priors of second moment tau2 around mu (and kurtosis at most
    `kappa`).

    Parameters
    ----------
    w : number or array in (0, 1], weights of own estimates.
    level : number in (0, 1).
    kappa : number >= 1 or inf.

    Raises
    ------
    ValueError naming the argument that is out of its domain.

    >>> worst_noncoverage([0.9, 0.5, 0.3, 0.1]).round(4).tolist()
    [0.0511, 0.0705, 0.0973, 0.1462]
    """
    from scipy.special import ndtri

    w, level, kappa = probability("w", w), single(fraction, "level", level), read_kappa(kappa)
    if w.size and w.min() <= 0:
        raise ValueError(f"w must be > 0, got {w.min()}")
    z = ndtri((1 + level) / 2)

    def at(ratio: float) -> float:
        return worst(ratio, kappa, z * np.sqrt(1 + ratio))

    return tabled(at, np.asarray(1 / w - 1))


@paired
def robust_critical_value(m2: ArrayLike, kappa: float = np.inf, level: float = 0.95) -> Floats:
    """Return the half-length, in standard errors, of an interval that holds however a bias of second moment m2 is spread.

    The c with P(|Z + B| > c) <= 1 - level for every law of the bias B, independent of Z ~ N(0, 1), with E B^2 = m2 and
    E B^4 <= kappa m2^2; exact for up to 33 distinct m2, and interpolated to 1e-5 of it for more.

    Parameters
    ----------
    m2 : number or array >= 0.
    kappa : number >= 1 or inf.
    level : number in (0, 1).

    Raises
    ------
    ValueError naming the argument that is out of its domain.

    >>> robust_critical_value([0.0, 0.25, 1.0, 4.0]).round(6).tolist()
    [1.959964, 2.226654, 3.259199, 7.216351]
    >>> robust_critical_value(4.0, kappa=3.0).round(5).tolist()
    4.61951
    """
    from scipy.special import ndtri

    from estimators.numerics.inversion import root

    m2, level, kappa = nonnegative("m2", m2), single(fraction, "level", level), read_kappa(kappa)
    alpha, z = 1 - level, float(ndtri((1 + level) / 2))

    def at(ratio: float) -> float:
        if ratio == 0:
            return z
        high = np.sqrt((1 + ratio) / alpha) * (1 + 1e-9)  # Chebyshev's inequality
        widest = root(lambda c: worst(ratio, np.inf, c) - alpha, 0.5 * z, high, xtol=1e-13)
        if worst(ratio, kappa, widest * (1 - 1e-9)) >= alpha:
            return widest
        return root(lambda c: worst(ratio, kappa, c) - alpha, 0.5 * z, widest, xtol=1e-13)

    return tabled(at, m2)


def tabled(function: Callable[[float], float], x: Floats) -> Floats:
    """Return a smooth function of each x >= 0, which is called for a few x only and interpolated in their logarithm."""
    places, inverse = np.unique(x, return_inverse=True)
    if places.size <= TABLE:
        found = np.array([function(float(place)) for place in places])
    else:
        from numpy.polynomial.chebyshev import Chebyshev

        logs = np.log(np.maximum(places, 1e-6))
        pieces = max(1, int(np.ceil((logs[-1] - logs[0]) / 2)))
        edges = np.linspace(logs[0], logs[-1], pieces + 1)
        found = np.empty(places.size)

        def at_each(logs: Any) -> Any:
            return np.array([function(float(np.exp(log))) for log in logs])

        for k in range(pieces):
            inside = (logs >= edges[k]) & (logs <= edges[k + 1])
            if inside.any():
                fitted = Chebyshev.interpolate(at_each, 12, edges[k : k + 2])
                found[inside] = fitted(logs[inside])
    return found[inverse].reshape(x.shape)


@paired
def second_moments(residuals: ArrayLike, s2: ArrayLike, weights: ArrayLike | None = None) -> SecondMoments:
    """Return estimates of the second moment and the kurtosis of theta_i - centre from estimates; both kept from too small.

    Weighted means of e^2 - s2 and e^4 - 6 s2 e^2 + 3 s2^2 for residuals e, not below what flat priors would leave of them
    (the truncation "PMT" of R ``ebci``); an estimate.

    Parameters
    ----------
    residuals : array (m,) of estimates less their centre; s2 : number or array (m,) > 0 of their variances.
    weights : array (m,) > 0, or None for equal ones.

    Raises
    ------
    ValueError naming the argument that is out of its domain.

    >>> found = second_moments([1.0, -2.0, 3.0, -2.5], 1.0)
    >>> round(found.mu2, 4), round(found.kappa, 4)
    (4.0625, 1.4847)
    """
    e, s2 = finite("residuals", residuals), positive("s2", s2)
    if e.ndim != 1 or not e.size:
        raise ValueError(f"residuals must have one entry per client, got shape {e.shape}")
    p = np.ones(e.size) if weights is None else positive("weights", weights)
    s2, p = np.broadcast_to(s2, e.shape), np.broadcast_to(p, e.shape)
    whole = p.sum()

    def mean(x):
        return float(dot(p, x) / whole)

    w2, w4 = e**2 - s2, e**4 - 6 * s2 * e**2 + 3 * s2**2
    mu2 = max(mean(w2), 2 * float(np.mean((p * s2) ** 2)) / (whole * float(np.mean(p * s2))))
    least = 32 * float(np.mean(p**2 * s2**4)) / (mu2**2 * whole * float(np.mean(p * s2**2)))
    return SecondMoments(float(mu2), float(max(mean(w4) / mu2**2, 1 + least)))


@paired
def fab_interval(y: ArrayLike, s2: ArrayLike, mu: ArrayLike, tau2: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the interval that holds every theta with probability `level`, and is shortest on average under N(mu, tau2).

    {theta: y + s z(alpha (1 - w)) < theta < y + s z(1 - alpha w)} with z the normal quantile and w a function of theta,
    g(w) = 2 s (theta - mu) / tau2, g(u) = z(alpha u) - z(alpha (1 - u)) (Hoff and Yu 2018); exact, for every theta, as long
    as mu and tau2 do not depend on y.

    Parameters
    ----------
    y, s2 : estimates and their variances > 0; mu, tau2 : a guess of the prior, tau2 > 0; arrays of one shape or numbers.
    level : number in (0, 1).

    Raises
    ------
    ValueError naming the argument that is out of its domain.

    >>> [round(float(end), 6) for end in fab_interval(1.5, 1.0, 0.0, 1.0)]
    [-0.262941, 3.144854]
    """
    y, s2, mu, tau2 = np.broadcast_arrays(finite("y", y), positive("s2", s2), finite("mu", mu), positive("tau2", tau2))
    alpha, s = 1 - single(fraction, "level", level), np.sqrt(s2)
    b = (y - mu) / s
    ratio = tau2 / s2
    # By symmetry the lower end at b is minus the upper end at -b.
    low, high = -upper_end(-b.ravel(), ratio.ravel(), alpha), upper_end(b.ravel(), ratio.ravel(), alpha)
    return mu + s * low.reshape(y.shape), mu + s * high.reshape(y.shape)


def upper_end(b: Floats, ratio: Floats, alpha: float) -> Floats:
    """Return the largest theta, in standard errors from mu, whose region of acceptance has b; ratio = tau2 / s2.

    In terms of w it solves b = ratio g(w) / 2 - z(1 - alpha w), which rises in w: bisection in the log-odds of w.
    """
    from scipy.special import ndtri_exp

    def z(logit):
        return ndtri_exp(np.log(alpha) - np.logaddexp(0, -logit))

    def theta(logit):
        return 0.5 * ratio * (z(logit) - z(-logit))

    def gap(logit):
        return theta(logit) + z(logit) - b

    low, high = np.full(b.shape, -1.0), np.full(b.shape, 1.0)
    for _ in range(1000):
        late, early = gap(low) > 0, gap(high) < 0
        if not (late | early).any():
            break
        low, high = np.where(late, 2 * low, low), np.where(early, 2 * high, high)
    for _ in range(70):
        middle = 0.5 * (low + high)
        above = gap(middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return b - z(0.5 * (low + high))


class Shrinkage(NamedTuple):
    """The centre, the standard error of it, and the weights of own estimates, (m,)."""

    centre: float
    centre_se: float
    mu2: float
    weights: np.ndarray


@paired
def linear_shrinkage(y: ArrayLike, s2: ArrayLike) -> Shrinkage:
    """Return centre, its standard error, second moment of theta around it and weights mu2 / (mu2 + s2) of own estimates.

    The centre is the mean with weights 1 / s2, mu2 that of `second_moments` with these weights.  Assumes nothing of the
    prior; estimates of infinite variance get weight 0.

    Parameters
    ----------
    y : array (m,) of estimates, two or more of finite variance; s2 : array (m,) of variances > 0, or inf.

    Raises
    ------
    ValueError naming the argument that is out of its domain.

    >>> found = linear_shrinkage([1.0, 2.0, 3.0, 6.0], [1.0, 1.0, 1.0, np.inf])
    >>> float(found.centre), round(found.mu2, 6), found.weights.round(6).tolist()
    (2.0, 0.666667, [0.4, 0.4, 0.4, 0.0])
    """
    y, s2 = finite("y", y), nonnegative("s2", s2, infinite=True)
    if y.ndim != 1 or s2.shape not in ((), y.shape):
        raise ValueError(f"y and s2 must have one entry per client, got shapes {y.shape} and {s2.shape}")
    if s2.min(initial=1.0) == 0:
        raise ValueError("s2 must be > 0: what is known exactly needs no interval")
    s2 = np.broadcast_to(s2, y.shape)
    some = np.isfinite(s2)
    if some.sum() < 2:
        raise ValueError(f"y must hold at least two estimates of finite variance, got {some.sum()}")
    p = s2[some].min() / s2[some]
    p = p / p.sum()
    centre = dot(p, y[some])
    mu2 = second_moments(y[some] - centre, s2[some], p).mu2
    error = float(np.sqrt(dot(p**2, mu2 + s2[some])))
    return Shrinkage(centre, error, mu2, np.where(some, mu2 / (mu2 + np.where(some, s2, 1.0)), 0.0))


@paired
def robust_intervals(y: ArrayLike, s2: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return intervals that hold on average over clients whatever law theta_i come from; asymptotically exact at the worst.

    Around `linear_shrinkage`, each as wide as `robust_critical_value` has it for the bias that shrinking to the centre
    brings, of the second moment that was found and of any shape; the error of the centre counts as bias.  Where that is
    wider than the interval of the own estimate alone, it is the latter.  The guarantee is for many clients; for 5 to 20 see
    ``tests/bench/ARENA.md``.

    Parameters
    ----------
    y, s2 : as in `linear_shrinkage`; level : number in (0, 1).

    Returns
    -------
    (low, high) : arrays (m,); without end for infinite variances.

    >>> [end.round(2).tolist() for end in robust_intervals([1.0, 2.0, 3.0, 6.0], 1.0)]
    [[-0.27, 0.45, 1.16, 3.3], [3.41, 4.13, 4.84, 6.98]]
    """
    found = linear_shrinkage(y, s2)
    y, w = np.asarray(y, float), found.weights
    s2 = np.broadcast_to(np.asarray(s2, float), y.shape)
    mean, half = found.centre + w * (y - found.centre), np.full(y.shape, np.inf)
    some = w > 0
    bias = (1 / w[some] - 1) * (1 + found.centre_se**2 / found.mu2)
    half[some] = robust_critical_value(bias, level=level) * w[some] * np.sqrt(s2[some])
    own = robust_critical_value(0.0, level=level) * np.sqrt(s2)  # holds without any shrinking
    mean, half = np.where(half < own, mean, y), np.minimum(half, own)
    return mean - half, mean + half


@paired
def fab_intervals(y: ArrayLike, s2: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return intervals that hold each theta_i with probability `level`, whatever it is and whatever the others are; exact.

    `fab_interval` with mu and tau2 of DerSimonian and Laird (1986) from the *other* clients.  That guess only makes them
    short; tau2 is not taken below one standard error of its estimate.  A client of infinite variance has all numbers.

    Parameters
    ----------
    y, s2 : as in `linear_shrinkage`; level : number in (0, 1).

    Returns
    -------
    (low, high) : arrays (m,).

    >>> [end.round(2).tolist() for end in fab_intervals([1.0, 2.0, 3.0, 6.0], 1.0)]
    [[-0.65, 0.32, 1.24, 2.94], [3.13, 3.87, 4.76, 7.64]]
    """
    linear_shrinkage(y, s2)  # checks
    y, s2 = np.asarray(y, float), np.broadcast_to(np.asarray(s2, float), np.shape(y))
    some = np.isfinite(s2)
    low, high = np.full(y.shape, -np.inf), np.full(y.shape, np.inf)
    y, v = y[some], s2[some]
    origin = float(np.average(y, weights=v.min() / v))
    w, r, freedom = 1 / v, y - origin, y.size - 2
    total, first, second, pairs = over_others(w), over_others(w * r), over_others(w * r**2), pairs_over_others(w)
    with np.errstate(divide="ignore", invalid="ignore"):
        tau2 = np.maximum(second - first**2 / total - freedom, np.sqrt(2 * freedom)) * total / (2 * pairs)
    tau2 = np.where(freedom > 0, tau2, 1e6 * v)  # one other client does not know
    low[some], high[some] = fab_interval(y, v, origin + first / total, tau2 + 1 / total, level)
    return low, high


def pairs_over_others(x: Floats) -> Floats:
    """Return, for each entry, the sum over pairs of others of their products; of positive entries nothing cancels."""
    earlier, later = before(x), before(x[::-1])[::-1]
    return before(x * earlier) + before((x * later)[::-1])[::-1] + earlier * later
