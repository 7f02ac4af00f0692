"""Differential privacy of Gaussian noise: Renyi accounting of subsampled rounds, exact curve of one release.

Adjacency is add-or-remove one client (or record) throughout; `sensitivity` is the largest change of the
released sum in Euclidean norm under that adjacency.  Arguments are keyword-only, because sigma and eps are
easily swapped.  Each docstring says whether its number is exact or an upper bound; none is ever negative.
What the noise costs in accuracy is in ``aggregation``, ``personalization`` and ``mean_regularized``.
"""

import numpy as np

from estimators.limits import quiet, quotient, times
from estimators.validation import choice, count, finite, nonnegative, number, positive, probability

__all__ = [
    "DEFAULT_ORDERS",
    "compose",
    "epsilon_from_rdp",
    "gaussian_delta",
    "rdp_sampled_gaussian",
    "sampled_gaussian_epsilon",
    "server_noise_variance",
]

DEFAULT_ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 512, 1024)


def server_noise_variance(*, z, S, q, N):
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
    return (nonnegative("z", z) * nonnegative("S", S) / expected) ** 2


def one_order_rdp(noise_multiplier, sampling_rate, order):
    """Return the Renyi divergence at one integer order >= 2, for noise_multiplier > 0 and 0 < rate < 1."""
    k = np.arange(1, order + 1)
    log_binomial = np.cumsum(np.log((order - k + 1) / k))
    log_weight = log_binomial + (order - k) * np.log1p(-sampling_rate) + k * np.log(sampling_rate)
    # The weights add to one, so the sum is 1 + sum of weight * expm1(growth): no digits are lost near 1.
    with quiet():
        growth = k[1:] * ((k[1:] - 1) / (2 * noise_multiplier**2))
        log_terms = log_weight[1:] + growth + np.log(-np.expm1(-growth))
    return np.logaddexp.reduce(log_terms, initial=0.0) / (order - 1)


def fractional_order_rdp(noise_multiplier, sampling_rate, order):
    """Return the Renyi divergence at a real order >= 2 by the two series of Mironov et al. (2019), section 3.3.

    They split the integral where both densities of the mixture weigh the same and expand by the smaller one.
    """
    from scipy.special import gammaln, gammasgn, log_ndtr

    z, q = noise_multiplier, sampling_rate
    k = np.arange(0, int(order) + 400)
    split = z**2 * np.log(1 / q - 1) + 0.5
    rest = order - k
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(rest + 1)
    inner = k * np.log(q) + rest * np.log1p(-q) + k * (k - 1) / (2 * z**2) + log_ndtr((split - k) / z)
    outer = rest * np.log(q) + k * np.log1p(-q) + rest * (rest - 1) / (2 * z**2) + log_ndtr((rest - split) / z)
    log_terms = log_binomial + np.logaddexp(inner, outer)
    signs = gammasgn(rest + 1)
    top = log_terms.max()
    return (top + np.log(np.sum(signs * np.exp(log_terms - top)))) / (order - 1)


def rdp_sampled_gaussian(*, noise_multiplier, sampling_rate, order):
    """Renyi divergence of one round of the Poisson-subsampled Gaussian mechanism; exact, add-or-remove.

    At whole orders log(sum_k C(order, k) (1-q)^(order-k) q^k exp(k (k-1) / (2 z^2))) / (order - 1), q the sampling rate and
    z the noise multiplier (Mironov, Talwar and Zhang 2019, section 3.3).

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
    return np.vectorize(
        lambda a: one_order_rdp(z, q, int(a)) if a == int(a) else fractional_order_rdp(z, q, a), otypes=[float]
    )(orders)[()]


def compose(rdp, rounds):
    """Renyi divergence of `rounds` rounds, each of divergence `rdp` at the same order.

    Exact for independent rounds, an upper bound for rounds that depend on earlier answers.

    >>> float(compose(0.01, 100))
    1.0
    """
    return times(count("rounds", rounds, 0), nonnegative("rdp", rdp, infinite=True))


def epsilon_from_rdp(orders, rdp, *, delta, conversion="improved"):
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
    delta = float(probability("delta", delta))
    if (rdp == 0).any():
        return 0.0  # no divergence at one order is no divergence at all
    if delta == 0:
        return np.inf
    eps = rdp - np.log(delta) / (orders - 1)
    if conversion == "improved":
        eps += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
        eps[delta**2 >= -np.expm1(-rdp)] = 0.0
    return max(0.0, eps.min())


def sampled_gaussian_epsilon(
    *, noise_multiplier, sampling_rate, rounds, delta, orders=DEFAULT_ORDERS, conversion="improved"
):
    """Upper bound on eps after `rounds` rounds of the Poisson-subsampled Gaussian mechanism; add-or-remove.

    The default orders are whole, so it can exceed by a little what accountants with fractional orders report.
    Parameters as in `rdp_sampled_gaussian` and `epsilon_from_rdp`.

    >>> eps = sampled_gaussian_epsilon(noise_multiplier=1.0, sampling_rate=0.01, rounds=1000, delta=1e-5)
    >>> round(float(eps), 6)
    2.107753
    """
    rdp = rdp_sampled_gaussian(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, order=orders)
    return epsilon_from_rdp(orders, compose(rdp, rounds), delta=delta, conversion=conversion)


def gaussian_delta(*, eps, sensitivity, sigma):
    """Smallest delta at which Gaussian noise is (eps, delta)-private; exact (Balle and Wang 2018).

    Phi(a) - exp(eps) Phi(b) with a, b = +- sensitivity / (2 sigma) - eps sigma / sensitivity.

    Parameters
    ----------
    eps : number >= 0 or inf; sensitivity, sigma : numbers >= 0, finite, in the units of the release.

    >>> round(float(gaussian_delta(eps=1.0, sensitivity=1.0, sigma=3.730632)), 9)
    1e-05
    """
    from scipy.special import erf, erfcx, log_ndtr

    eps = nonnegative("eps", eps, infinite=True)
    step = quotient(nonnegative("sensitivity", sensitivity), nonnegative("sigma", sigma))
    with quiet():
        upper, lower = step / 2 - eps / step, -step / 2 - eps / step
        # exp(eps) is the ratio of the normal densities, so in the tail only Mills ratios are subtracted.
        mills = erfcx(-upper / np.sqrt(2)) - erfcx(-lower / np.sqrt(2))
        tail = np.exp(-(upper**2) / 2) * mills / 2
        bulk = np.exp(log_ndtr(upper)) - np.exp(eps + log_ndtr(lower))
        delta = np.where(upper < 0, tail, bulk)
    delta = np.where(eps == 0, erf(step / np.sqrt(8)), delta)
    delta = np.where(np.isinf(step), 1.0, delta)
    return np.where((step == 0) | np.isinf(eps), 0.0, np.clip(delta, 0.0, 1.0))[()]
