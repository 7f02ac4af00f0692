"""Differential privacy accounting: Renyi and zero-concentrated divergences, exact curve of Gaussian noise.

`sensitivity` is the largest change of the released quantity in Euclidean norm between neighbours; the adjacency
is whatever that sensitivity was computed for (``mechanisms`` gives it for clipped sums and accuracies), except for
subsampled rounds, which are add-or-remove with Poisson sampling.  Arguments are keyword-only, because sigma and
eps are easily swapped.  Each docstring says whether its number is exact or an upper bound; no eps is negative.
Choosing noise and releasing something is in ``mechanisms``; what the noise costs in accuracy is in
``aggregation``, ``personalization`` and ``mean_regularized``.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.inversion import root
from estimators.numerics.limits import quiet, quotient, times
from estimators.numerics.validation import choice, count, finite, nonnegative, number, paired, positive, probability, single

__all__ = [
    "ORDERS",
    "compose",
    "delta_at_order",
    "delta_from_rdp",
    "epsilon_at_order",
    "epsilon_from_rdp",
    "epsilon_from_zcdp",
    "gaussian_delta",
    "gaussian_zcdp",
    "rdp_from_zcdp",
    "rdp_laplace",
    "rdp_pure",
    "rdp_sampled_gaussian",
    "renyi_divergence",
    "sampled_gaussian_epsilon",
    "server_noise_variance",
    "zcdp_from_epsilon",
]

# Renyi orders with tenths up to 11: the best one for eps around 1 is not whole.
ORDERS = (*(k / 10 for k in range(20, 110)), *range(11, 65), 80, 96, 128, 192, 256, 512, 1024, 4096)


@paired
def server_noise_variance(*, z: ArrayLike, S: ArrayLike, q: ArrayLike, N: ArrayLike) -> Floats:
    """Variance (z S / (q N))^2 of each coordinate of the noise in the server's average.

    Claim: fedhdp:dp-noise.

    Parameters
    ----------
    z : noise multiplier >= 0, dimensionless; S : clipping norm >= 0, in units of the update.
    q : probability in (0, 1] that a client takes part; N : whole number >= 1 of clients.
        The average divides by the *expected* number q N of participants, so its sensitivity is S / (q N).

    >>> round(float(server_noise_variance(z=1.0, S=2.0, q=0.1, N=100)), 12)
    0.04
    """
    expected = positive("q", probability("q", q)) * count("N", N)
    with quiet():
        return (nonnegative("z", z) * nonnegative("S", S) / expected) ** 2


def one_order_rdp(noise_multiplier: float, sampling_rate: float, order: float) -> float:
    """Return the Renyi divergence at one integer order >= 2, for noise_multiplier > 0 and 0 < rate < 1."""
    k = np.arange(1, order + 1)
    log_binomial = np.cumsum(np.log((order - k + 1) / k))
    log_weight = log_binomial + (order - k) * np.log1p(-sampling_rate) + k * np.log(sampling_rate)
    # The weights add to one, so the sum is 1 + sum of weight * expm1(growth): no digits are lost near 1.
    with quiet():
        growth = k[1:] * ((k[1:] - 1) / (2 * noise_multiplier**2))
        log_terms = log_weight[1:] + growth + np.log(-np.expm1(-growth))
    return np.logaddexp.reduce(log_terms, initial=0.0) / (order - 1)


@paired
def rdp_sampled_gaussian(*, noise_multiplier: ArrayLike, sampling_rate: ArrayLike, order: ArrayLike) -> Floats:
    """Renyi divergence of one round of the Poisson-subsampled Gaussian mechanism; exact, add-or-remove.

    At whole orders log(sum_k C(order, k) (1-q)^(order-k) q^k exp(k (k-1) / (2 z^2))) / (order - 1), q the sampling rate and
    z the noise multiplier (Mironov, Talwar and Zhang 2019, section 3.3); between them by quadrature, for z < 1/16 by a
    chord of the log moment, which is above.

    Parameters
    ----------
    noise_multiplier : number >= 0 or inf, noise deviation over sensitivity.
    sampling_rate : number in [0, 1].
    order : number >= 2, or array of them.

    Returns
    -------
    float or array like `order`, in nats.

    >>> float(rdp_sampled_gaussian(noise_multiplier=2.0, sampling_rate=1.0, order=4))
    0.5
    """
    z = number("noise_multiplier", noise_multiplier)
    nonnegative("noise_multiplier", z, infinite=True)
    q = probability("sampling_rate", sampling_rate)
    if z.ndim or q.ndim:
        raise ValueError("noise_multiplier and sampling_rate must be single numbers (order may be an array)")
    orders = finite("order", order)
    if (orders < 2).any():
        raise ValueError(f"order must be >= 2, got {orders.min()}")
    z, q = float(z), float(q)
    with quiet():
        variance = np.square(z)
        if q == 1 or q == 0 or variance == 0 or np.isinf(variance):
            return times(q > 0, quotient(orders, 2 * variance))
    whole = orders == np.floor(orders)
    found = np.empty(orders.shape)
    found[whole] = [one_order_rdp(z, q, int(a)) for a in orders[whole]]
    if not whole.all():
        from estimators.accounting import subsampling_kernels

        found[~whole] = subsampling_kernels.curve(q, 1 / z, orders[~whole], False)
    return found[()]


@paired
def compose(rdp: ArrayLike, rounds: ArrayLike) -> Floats:
    """Renyi divergence of `rounds` rounds, each of divergence `rdp` at the same order.

    Exact for independent rounds, an upper bound for rounds that depend on earlier answers.

    >>> float(compose(0.01, 100))
    1.0
    """
    return times(count("rounds", rounds, 0), nonnegative("rdp", rdp, infinite=True))


@paired
def epsilon_from_rdp(orders: ArrayLike, rdp: ArrayLike, *, delta: float, conversion: str = "improved") -> float:
    """Smallest eps that Renyi divergences give at `delta`; an upper bound on the true eps.

    Parameters
    ----------
    orders, rdp : arrays of the same length; orders > 1, rdp >= 0 or inf, in nats.
    delta : number in [0, 1].
    conversion : "classic" is rdp + log(1/delta) / (order - 1) (Mironov 2017, proposition 3);
        "improved" is rdp + log(1 - 1/order) - log(delta order) / (order - 1)
        (Canonne, Kamath and Steinke 2020, proposition 12), and 0 where already delta >= sqrt(1 - exp(-rdp)).

    >>> round(float(epsilon_from_rdp([2, 8], [0.1, 0.4], delta=1e-5)), 6)
    1.614109
    >>> round(float(epsilon_from_rdp([2, 8], [0.1, 0.4], delta=1e-5, conversion="classic")), 6)
    2.044704
    """
    orders, rdp = number("orders", orders), nonnegative("rdp", rdp, infinite=True)
    if orders.shape != rdp.shape or orders.ndim != 1 or orders.size == 0:
        raise ValueError(f"orders and rdp must be 1-d of one length >= 1, got {orders.shape} and {rdp.shape}")
    if (orders <= 1).any():
        raise ValueError(f"orders must be > 1, got {orders.min()}")
    choice("conversion", conversion, ("classic", "improved"))
    delta = single(probability, "delta", delta)
    if (rdp == 0).any():
        return 0.0  # no divergence at one order is no divergence at all
    if delta == 0:
        return np.inf
    eps = rdp - np.log(delta) / (orders - 1)
    if conversion == "improved":
        eps += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
        eps[delta**2 >= -np.expm1(-rdp)] = 0.0
    return max(0.0, eps.min())


def curve_of(orders: ArrayLike, rdp: ArrayLike) -> tuple[Floats, Floats]:
    """Return orders >= 1 and divergences at them, checked, as arrays."""
    orders, rdp = number("orders", orders), nonnegative("rdp", rdp, infinite=True)
    if orders.shape != rdp.shape or orders.ndim != 1 or orders.size == 0:
        raise ValueError(f"orders and rdp must be 1-d of one length >= 1, got {orders.shape} and {rdp.shape}")
    if (orders < 1).any() or np.isinf(orders).any():
        raise ValueError(f"orders must be finite and >= 1, got {orders.min()} to {orders.max()}")
    return orders, rdp


@paired
def delta_at_order(*, order: ArrayLike, rdp: ArrayLike, eps: ArrayLike) -> Floats:
    """Delta at `eps` that a Renyi divergence at one order gives; an upper bound, above 1 where that order says nothing.

    exp((order-1) (rdp - eps)) / (order-1) (1 - 1/order)^order (Canonne, Kamath and Steinke 2020, proposition 12).
    Holds for every adjacency: that of `rdp`.  Claim: generative:lemma2:delta.

    Parameters
    ----------
    order : number > 1, or array; rdp : number >= 0 or inf, or array, in nats; eps : number, or array.

    >>> round(float(delta_at_order(order=8, rdp=0.4, eps=1.0)), 6)
    0.000736
    """
    order = finite("order", order)
    if (order <= 1).any():
        raise ValueError(f"order must be > 1, got {order.min()}")
    rdp = nonnegative("rdp", rdp, infinite=True)
    with quiet():
        return np.exp((order - 1) * (rdp - finite("eps", eps)) + order * np.log1p(-1 / order) - np.log(order - 1))[()]


@paired
def delta_from_rdp(orders: ArrayLike, rdp: ArrayLike, *, eps: float) -> float:
    """Smallest delta that Renyi divergences give at `eps`; an upper bound on the true delta.

    exp((order-1) (rdp - eps)) / (order-1) (1 - 1/order)^order at the best order (Canonne, Kamath and Steinke 2020,
    proposition 12), or sqrt(1 - exp(-rdp)) (Bretagnolle and Huber) where that is less.  Claim: generative:lemma2:delta.

    Parameters
    ----------
    orders, rdp : arrays of one length; orders >= 1 (those equal to 1 only serve the second bound), rdp >= 0 or inf.
    eps : number >= 0.

    >>> round(float(delta_from_rdp([2.0, 8.0], [0.1, 0.4], eps=1.0)), 6)
    0.000736
    """
    orders, rdp = curve_of(orders, rdp)
    eps = single(nonnegative, "eps", eps, infinite=True)
    if np.isinf(eps):
        return 0.0
    usable = orders > 1
    of_orders = delta_at_order(order=orders[usable], rdp=rdp[usable], eps=eps)
    total_variation = np.sqrt(-np.expm1(-rdp))
    found = float(min(1.0, *of_orders, *total_variation))
    return found or (np.nextafter(0.0, 1.0) if (rdp > 0).all() else 0.0)  # what underflows is not nothing


@paired
def sampled_gaussian_epsilon(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    rounds: int,
    delta: float,
    orders: ArrayLike = ORDERS,
    conversion: str = "improved",
) -> float:
    """Upper bound on eps after `rounds` rounds of the Poisson-subsampled Gaussian by Renyi divergences; add-or-remove.

    The formula that claims judge.  What an event costs is ``accountants.epsilon``, which may be far less.
    Parameters as in `rdp_sampled_gaussian` and `epsilon_from_rdp`.

    >>> eps = sampled_gaussian_epsilon(noise_multiplier=1.0, sampling_rate=0.01, rounds=1000, delta=1e-5)
    >>> round(float(eps), 6)
    2.101365
    """
    rdp = rdp_sampled_gaussian(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, order=orders)
    return epsilon_from_rdp(orders, compose(rdp, rounds), delta=delta, conversion=conversion)


@paired
def epsilon_at_order(*, order: ArrayLike, rdp: ArrayLike, delta: ArrayLike) -> Floats:
    """Eps at `delta` that a Renyi divergence at one order gives; an upper bound, below 0 where that order gives less.

    rdp + log(1 - 1/order) + log(1/(order delta)) / (order - 1) (Canonne, Kamath and Steinke 2020, proposition 12).
    A negative value is a true statement too (the hockey-stick divergence at a ratio below one); ``epsilon_from_rdp``
    takes the best order and stops at 0.  Holds for every adjacency: that of `rdp`.  Claim: mrmtl:eq13.

    Parameters
    ----------
    order : number > 1, or array; rdp : number >= 0, or array, in nats; delta : number in (0, 1].

    >>> round(float(epsilon_at_order(order=8, rdp=0.4, delta=1e-5)), 6)
    1.614109
    """
    order = finite("order", order)
    if (order <= 1).any():
        raise ValueError(f"order must be > 1, got {order.min()}")
    delta = positive("delta", probability("delta", delta))
    return (nonnegative("rdp", rdp) + np.log1p(-1 / order) - np.log(order * delta) / (order - 1))[()]


@paired
def renyi_divergence(p: ArrayLike, q: ArrayLike, *, order: float) -> float:
    """Renyi divergence of order > 1 between two finite distributions; exact, in nats.  Claim: mrmtl:eq12.

    Parameters
    ----------
    p, q : arrays of one shape (outcomes,), probabilities that add to one.
    order : number >= 1; at 1 the Kullback-Leibler divergence; inf is the largest log ratio.

    >>> round(float(renyi_divergence([0.75, 0.25], [0.5, 0.5], order=2)), 6)
    0.223144
    """
    p, q = probability("p", p), probability("q", q)
    if p.shape != q.shape or p.ndim != 1 or p.size == 0:
        raise ValueError(f"p and q must be 1-d of one length >= 1, got {p.shape} and {q.shape}")
    for name, law in (("p", p), ("q", q)):
        if abs(law.sum() - 1) > 1e-9:
            raise ValueError(f"{name} must add to 1, got {law.sum()}")
    order = single(number, "order", order)
    if order < 1:
        raise ValueError(f"order must be >= 1, got {order}")
    seen = p > 0
    if (q[seen] == 0).any():
        return np.inf
    p, q = p[seen], q[seen]
    loss = np.log(p) - np.log(q)
    near = np.abs(p - q) < q / 2
    loss[near] = np.log1p((p[near] - q[near]) / q[near])
    if order == 1:
        return max(0.0, float(np.sum(p * loss)))
    if np.isinf(order):
        return max(0.0, float(loss.max()))
    scaled = (order - 1) * loss
    with np.errstate(over="ignore"):
        excess = np.sum(p * np.expm1(scaled))
    if excess < np.inf:  # near one the moment keeps its digits as what it exceeds one by
        moment = np.log1p(excess)
    else:
        top = scaled.max()
        moment = top + np.log(np.sum(p * np.exp(scaled - top)))
    return max(0.0, float(moment / (order - 1)))


@paired
def gaussian_zcdp(*, sensitivity: ArrayLike, sigma: ArrayLike) -> Floats:
    """Rate rho of zero-concentrated privacy of Gaussian noise, sensitivity^2 / (2 sigma^2); exact.

    The Renyi divergence at every order is order times rho, in any dimension, for Euclidean sensitivity.
    Claim: mrmtl:appA:zcdp.

    Parameters
    ----------
    sensitivity, sigma : numbers >= 0, in the units of the release; sigma is the deviation per coordinate.

    >>> float(gaussian_zcdp(sensitivity=2.0, sigma=4.0))
    0.125
    """
    with quiet():
        return (quotient(nonnegative("sensitivity", sensitivity), nonnegative("sigma", sigma)) ** 2 / 2)[()]


@paired
def rdp_from_zcdp(rho: ArrayLike, order: ArrayLike) -> Floats:
    """Renyi divergence that rho-zCDP allows at each order: order times rho; an upper bound.

    Claim: mrmtl:appA:zcdp.

    >>> float(rdp_from_zcdp(0.125, 4))
    0.5
    """
    order = finite("order", order)
    if (order <= 1).any():
        raise ValueError(f"order must be > 1, got {order.min()}")
    return times(nonnegative("rho", rho, infinite=True), order)


@paired
def epsilon_from_zcdp(*, rho: float, delta: float) -> float:
    """Smallest eps that rho-zCDP gives at `delta` through the best real order; an upper bound.

    The slope of ``epsilon_at_order`` in the order a is rho + log(a delta)/(a - 1)^2: it changes sign once, from below.

    Parameters
    ----------
    rho : number >= 0 or inf; delta : number in [0, 1].

    >>> round(epsilon_from_zcdp(rho=0.5, delta=1e-5), 6)
    4.728387
    """
    rho, delta = single(nonnegative, "rho", rho, infinite=True), single(probability, "delta", delta)
    if rho == 0 or delta * delta >= -np.expm1(-rho):  # the order tends to 1: total variation by Bretagnolle-Huber
        return 0.0
    if delta == 0 or np.isinf(rho):
        return np.inf

    def slope(log_excess):
        excess = np.exp(log_excess)
        return np.log(rho) + 2 * log_excess - np.log(np.maximum(-np.log(delta) - np.log1p(excess), 1e-300))

    high = min((np.log(-np.log(delta)) - np.log(rho)) / 2, np.log1p(-delta) - np.log(delta))  # rho (a-1)^2 <= log(1/delta)
    low = high - 1.0
    while slope(low) > 0:
        low -= 1.0
    order = np.maximum(1 + np.exp(high if slope(high) <= 0 else root(slope, low, high)), np.nextafter(1.0, 2.0))
    return max(0.0, float(epsilon_at_order(order=order, rdp=rho * order, delta=delta)))


@paired
def rdp_pure(eps: ArrayLike, order: ArrayLike) -> Floats:
    """Renyi divergence of a purely eps-private release, log(p exp((a-1) eps) + (1-p) exp(-(a-1) eps)) / (a-1).

    With order a and p = exp(eps) / (1 + exp(eps)): exact for randomised response, and an upper bound for every other
    mechanism, as randomised response dominates them (Kairouz, Oh and Viswanath 2015).  At most eps.  Rounded up, by at most
    24 units in the last place, so that it never lies below.

    Parameters
    ----------
    eps : number >= 0 or inf; order : number > 1, or array.

    >>> round(float(rdp_pure(1.0, 2.0)), 6)
    0.735326
    """
    order = finite("order", order)
    if (order <= 1).any():
        raise ValueError(f"order must be > 1, got {order.min()}")
    eps = single(nonnegative, "eps", eps, infinite=True)
    if np.isinf(eps):
        return np.full(order.shape, np.inf)[()]
    step = (order - 1) * eps
    small = np.minimum(step, 1.0)
    # The sum less one is 2 sinh(a eps/2) sinh((a-1) eps/2) / cosh(eps/2), in which nothing cancels.
    second = np.sinh(small / 2)
    first = 2 * (np.tanh(eps / 2) * np.cosh(small / 2) + second)
    excess = first * second
    near = np.where(excess < 1e-18, first * (second / (order - 1)), np.log1p(excess) / (order - 1))
    likely = 1 / (1 + np.exp(-eps))
    far = (step + np.log(likely + (1 - likely) * np.exp(-2 * step))) / (order - 1)
    found = np.where(step < 1, near, far) * (1 + 12 * np.finfo(float).eps)
    return np.minimum(np.nextafter(found, np.inf), eps)[()]


@paired
def rdp_laplace(eps: ArrayLike, order: ArrayLike) -> Floats:
    """Renyi divergence of Laplace noise of scale sensitivity / eps on one number; exact (Mironov 2017, proposition 6).

    log(a/(2a-1) exp((a-1) eps) + (a-1)/(2a-1) exp(-a eps)) / (a-1) at order a.  At most that of ``rdp_pure``.

    Parameters
    ----------
    eps : number >= 0 or inf; order : number > 1, or array.

    >>> round(float(rdp_laplace(1.0, 2.0)), 6)
    0.619124
    """
    order = finite("order", order)
    if (order <= 1).any():
        raise ValueError(f"order must be > 1, got {order.min()}")
    eps = single(nonnegative, "eps", eps, infinite=True)
    if np.isinf(eps):
        return np.full(order.shape, np.inf)[()]
    up, down = np.minimum((order - 1) * eps, 1.0), order * eps
    # The linear terms of the two exponentials cancel exactly.
    excess = (order * beyond_line(up) + (order - 1) * beyond_line(-down)) / (2 * order - 1)
    large = (
        (order - 1) * eps + np.log(order / (2 * order - 1)) + np.log1p((order - 1) / order * np.exp(-(2 * order - 1) * eps))
    )
    return (np.where((order - 1) * eps < 1, np.log1p(excess), large) / (order - 1))[()]


def beyond_line(x: Floats) -> Floats:
    """Return exp(x) - 1 - x without losing digits to a small x."""
    total = np.ones_like(x)
    for k in range(12, 2, -1):
        total = 1 + x / k * total
    return np.where(np.abs(x) < 0.1, x * x / 2 * total, np.expm1(x) - x)


@paired
def zcdp_from_epsilon(*, eps: float, delta: float) -> float:
    """Largest rho for which rho-zCDP gives eps at `delta` by ``epsilon_from_zcdp``; a lower bound on what is allowed.

    The number returned is on the safe side of a bisection.  Gaussian noise of deviation sensitivity / sqrt(2 rho) has
    it, in any dimension, and rates of several releases add up.  Claim: mrmtl:appA:zcdp.

    Parameters
    ----------
    eps : number > 0 or inf; delta : number in [0, 1): 0 at delta = 0, where no zCDP is pure.

    >>> round(zcdp_from_epsilon(eps=1.0, delta=1e-5), 6)
    0.030557
    """
    eps, delta = single(number, "eps", eps), single(probability, "delta", delta)
    if eps <= 0:
        raise ValueError(f"eps must be > 0, got {eps}")
    if delta >= 1:
        raise ValueError("delta must be below 1")
    if np.isinf(eps):
        return np.inf
    if delta == 0:
        return 0.0
    low, high = 0.0, max(eps, -np.log1p(-delta * delta))
    while epsilon_from_zcdp(rho=high, delta=delta) <= eps:
        low, high = high, 2 * high
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_from_zcdp(rho=middle, delta=delta) <= eps else (low, middle)
        if middle in (low, high) and high - low <= np.spacing(high):
            break
    return low


NODES = 24  # of Gauss-Legendre on an interval of length <= 1, where the integrand below is entire


def mills(x: Numbers) -> Floats:
    """Return the Mills ratio of the normal tail, P(X > x) over the density at x."""
    from scipy.special import erfcx

    return np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))


@cache
def legendre() -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss-Legendre; finding them takes longer than using them."""
    return np.polynomial.legendre.leggauss(NODES)


def mills_drop(t: Numbers, step: Numbers) -> Floats:
    """Return mills(t) - mills(t + step) without losing digits to a small step (0 < step <= 1, t >= -1/2)."""
    nodes, weights = legendre()
    x = np.expand_dims(t, -1) + np.expand_dims(step, -1) * (nodes + 1) / 2
    return step * np.sum(weights / 2 * (1 - x * mills(x)), axis=-1)


def gaussian_curve(eps: Numbers, step: Numbers) -> tuple[Floats, Floats]:
    """Return (delta, 1 - delta) of Gaussian noise at finite eps >= 0 and 0 < step = sensitivity / sigma < inf.

    With t = eps/step - step/2 and b = t + step, exp(eps) is the ratio of the normal densities at t and b, so that
    delta = P(X > t) - exp(eps) P(X > b) = density(t) (mills(t) - mills(b)).
    """
    from scipy.special import ndtr

    t, b = eps / step - step / 2, eps / step + step / 2
    with quiet():
        density = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
        short = density * mills_drop(np.maximum(t, -0.5), np.minimum(step, 1.0))
        tail = density * (mills(np.maximum(t, 0.0)) - mills(b))
        bulk = ndtr(-t) - density * mills(b)
    delta = np.where(step <= 1, short, np.where(t >= 0, tail, bulk))
    return delta, ndtr(t) + density * mills(b)


@paired
def gaussian_delta(*, eps: ArrayLike, sensitivity: ArrayLike, sigma: ArrayLike) -> Floats:
    """Smallest delta at which Gaussian noise is (eps, delta)-private; exact (Balle and Wang 2018).

    Phi(a) - exp(eps) Phi(b) with a, b = +- sensitivity / (2 sigma) - eps sigma / sensitivity.  In any dimension: only
    the Euclidean distance between the two released values matters.  Claim: mrmtl:sigma-dp:exact.

    Parameters
    ----------
    eps : number >= 0 or inf; sensitivity, sigma : numbers >= 0, finite, in the units of the release.

    >>> round(float(gaussian_delta(eps=1.0, sensitivity=1.0, sigma=3.730632)), 9)
    1e-05
    """
    eps = nonnegative("eps", eps, infinite=True)
    step = quotient(nonnegative("sensitivity", sensitivity), nonnegative("sigma", sigma))
    eps, step = np.broadcast_arrays(eps, step)
    usual = np.isfinite(eps) & np.isfinite(step) & (step > 0)
    with quiet():
        delta, _ = gaussian_curve(np.where(usual, eps, 1.0), np.where(usual, step, 1.0))
    delta = np.where(usual, np.clip(delta, 0.0, 1.0), 1.0)
    return np.where((step == 0) | np.isinf(eps), 0.0, delta)[()]
