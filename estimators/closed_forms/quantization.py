"""Messages on a bounded range: an unbiased stochastic quantiser, the range itself, and the noise that makes it private.

Belongs here: rounding to 2^k levels, the probability that Gaussian means stay in a range, noise for bounded messages.
Does not belong here: what quantised messages cost an estimate (``gaussian``), accounting of many releases (``privacy``).
"""

from __future__ import annotations

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import quiet, quotient
from estimators.numerics.units import exponents
from estimators.numerics.validation import count, finite, nonnegative, paired, positive, probability

__all__ = [
    "box_sensitivity",
    "gaussian_noise_variance",
    "message_range",
    "norm_radius",
    "probability_all_inside",
    "projection_bias",
    "quantise",
    "quantiser_variance",
    "quantiser_variance_bound",
]

MAX_BITS = 48  # beyond, steps are lost in the rounding of float64


def _grid(x, half_range, bits):
    """Return the level below x (counted from 0), how far x is towards the next one, and the step between levels."""
    x = finite("x", x)
    half = positive("half_range", half_range)
    k = count("bits", bits)
    if (k > MAX_BITS).any():
        raise ValueError(f"bits must be at most {MAX_BITS}, got {k.max()}; float64 does not resolve finer steps")
    steps = 2.0**k - 1
    position = (np.clip(x, -half, half) / half + 1) / 2 * steps
    below = np.minimum(np.floor(position), steps - 1)
    return below, position - below, 2 * (half / steps)


@paired
def quantise(x: ArrayLike, half_range: ArrayLike, bits: ArrayLike, generator: np.random.Generator) -> Floats:
    """Random rounding of x to one of 2^bits levels in [-half_range, half_range] whose mean is x.

    Values outside the range are first projected onto it, which is where a bias comes from.
    Claim: generative:thm2:quantiser.

    Parameters
    ----------
    x : array of finite numbers.
    half_range : number > 0, in the units of x.
    bits : whole number in 1..48.
    generator : numpy.random.Generator, whose draws the rounding uses.

    Returns
    -------
    array like x; every entry is one of 2^bits equally spaced levels.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> levels = quantise([0.1] * 1000, 1.0, 2, np.random.default_rng(0))
    >>> [round(float(v), 4) for v in np.unique(levels)]
    [-0.3333, 0.3333]
    """
    if not isinstance(generator, np.random.Generator):
        raise ValueError(f"generator must be a numpy.random.Generator such as default_rng(1), got {generator!r}")
    below, ahead, step = _grid(x, half_range, bits)
    up = generator.random(np.shape(ahead)) < ahead
    return (2 * ((below + up) * (step / 2) - positive("half_range", half_range) / 2))[()]


@paired
def quantiser_variance(x: ArrayLike, half_range: ArrayLike, bits: ArrayLike) -> Floats:
    """Variance of the stochastic quantiser's output at x; exact.

    step^2 f (1 - f), f how far x is between two levels.  Claim: generative:thm2:quantiser.  Parameters as in `quantise`.

    >>> quantiser_variance(0.0, 3.0, 2)
    np.float64(1.0)
    """
    _, ahead, step = _grid(x, half_range, bits)
    return (step**2 * ahead * (1 - ahead))[()]


@paired
def quantiser_variance_bound(half_range: ArrayLike, bits: ArrayLike) -> Floats:
    """Largest variance of the stochastic quantiser, (half_range / (2^bits - 1))^2; attained midway between levels.

    Claim: generative:thm2:quantiser.

    >>> quantiser_variance_bound(3.0, 2)
    np.float64(1.0)
    """
    return ((positive("half_range", half_range) / (2.0 ** count("bits", bits) - 1)) ** 2)[()]


@paired
def message_range(m: ArrayLike, n: ArrayLike, sigma2_theta: ArrayLike, sigma2_x: ArrayLike, r: ArrayLike) -> Floats:
    """Half range b that holds all m sample means with probability at least 1 - 1/(m n); a lower bound on it.

    b = r + sqrt(2 (sigma2_theta + sigma2_x / n) log(m^2 n)), for a centre in [-r, r].  Claim: generative:thm2:event:range.

    Parameters
    ----------
    m, n : whole numbers >= 1 of clients and of samples per client.
    sigma2_theta, sigma2_x : variances >= 0 of the clients' parameters and of one sample.
    r : number >= 0, bound on the absolute value of the centre, in the units of the samples.

    >>> round(float(message_range(100, 10, 0.01, 0.25, 1.0)), 6)
    1.897722
    """
    m, n = count("m", m), count("n", n)
    spread = nonnegative("sigma2_theta", sigma2_theta) + nonnegative("sigma2_x", sigma2_x) / n
    return (nonnegative("r", r) + np.sqrt(2 * spread * np.log(m**2 * n)))[()]


@paired
def norm_radius(m: ArrayLike, n: ArrayLike, d: ArrayLike, sigma2_x: ArrayLike, r: ArrayLike) -> Floats:
    """Radius that holds the norms of all m sample means with probability at least 1 - 1/(m n); a lower bound on it.

    r + sqrt(sigma2_x / n) (sqrt(d) + sqrt(2 log(m^2 n))), for parameters of norm at most r.  Claim: generative:lemma1:sharp.

    >>> round(float(norm_radius(10, 10, 4, 0.1, 1.0)), 6)
    1.571692
    """
    m, n = count("m", m), count("n", n)
    noise = np.sqrt(nonnegative("sigma2_x", sigma2_x) / n)
    return (nonnegative("r", r) + noise * (np.sqrt(count("d", d)) + np.sqrt(2 * np.log(m**2 * n))))[()]


@paired
def probability_all_inside(margin: ArrayLike, mu: ArrayLike, variance: ArrayLike, m: ArrayLike) -> Floats:
    """Probability that m independent N(mu, variance) numbers all lie within +-(|mu| + margin); exact.

    Claim: generative:thm2:event.

    Parameters
    ----------
    margin : number >= 0, what the range extends beyond the centre; mu : centre; variance : number >= 0.
    m : whole number >= 1.

    >>> round(float(probability_all_inside(1.959963984540054, 0.0, 1.0, 1)), 9)
    0.95
    """
    from scipy.special import erfc

    margin = nonnegative("margin", margin)
    mu = np.abs(finite("mu", mu))
    with quiet():
        scale = np.sqrt(2 * nonnegative("variance", variance))
        outside = (erfc(quotient(margin, scale)) + erfc(quotient(margin + 2 * mu, scale))) / 2
        # No spread at all: everything sits at mu, which the closed range holds.
        outside = np.where(scale == 0, 0.0, outside)
        return np.exp(count("m", m) * np.log1p(-outside))[()]


@paired
def projection_bias(half_range: ArrayLike, mu: ArrayLike, variance: ArrayLike) -> Floats:
    """Bias of a N(mu, variance) number after projection onto [-half_range, half_range]; exact.

    What projecting before an unbiased quantiser or noise does to the message.  Claim: generative:thm2:quantiser:projection.

    Parameters
    ----------
    half_range : number > 0; mu : number; variance : number > 0, in the square of their units.

    >>> round(float(projection_bias(1.0, 1.0, 1.0)), 6)
    -0.390452
    """
    from scipy.special import ndtr

    half, mu, scale = positive("half_range", half_range), finite("mu", mu), np.sqrt(positive("variance", variance))

    def loss(z):
        """Mean excess of a standard normal over z."""
        return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) - z * ndtr(-z)

    with quiet():
        low, high, width = (half - mu) / scale, (half + mu) / scale, mu / scale
        # The difference of losses is minus the integral of P(Z > z) from low to high, a rule of Gauss where that is short.
        nodes, weights = np.polynomial.legendre.leggauss(12)
        short = -width * np.sum(weights * ndtr(-((half / scale)[..., None] + width[..., None] * nodes)), axis=-1)
        return (scale * np.where(np.abs(width) < 0.25, short, loss(high) - loss(low)))[()]


@paired
def box_sensitivity(half_range: ArrayLike, d: ArrayLike) -> Floats:
    """Largest Euclidean distance of two messages in the box [-half_range, half_range]^d, 2 half_range sqrt(d); exact.

    The L2 sensitivity under local DP, where any two inputs of a client are neighbours.  Claim: generative:thm2:ldp:box.

    >>> box_sensitivity(1.5, 4)
    np.float64(6.0)
    """
    return (2 * nonnegative("half_range", half_range) * np.sqrt(count("d", d)))[()]


@paired
def gaussian_noise_variance(*, eps: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike) -> Floats:
    """Variance 2 sensitivity^2 log(2/delta) / eps^2 of Gaussian noise per coordinate for (eps, delta); an upper bound.

    Enough for 0 < eps <= 1 in any dimension, when `sensitivity` is the largest Euclidean change of the message under the
    adjacency meant (for local DP: between any two inputs).  `privacy.gaussian_delta` gives the delta that is really used.
    Claim: generative:thm2:ldp.

    Parameters
    ----------
    eps : number in (0, 1]; delta : number in (0, 1); sensitivity : number >= 0, in the units of the message.

    >>> round(float(gaussian_noise_variance(eps=0.5, delta=1e-5, sensitivity=2.0)), 6)
    390.594325
    """
    eps, delta = positive("eps", eps), positive("delta", probability("delta", delta))
    if (eps > 1).any():
        raise ValueError(f"eps must be at most 1, got {eps.max()}; above, calibrate with privacy.gaussian_delta")
    if (delta >= 1).any():
        raise ValueError("delta must be below 1")
    s = nonnegative("sensitivity", sensitivity)
    k, n = exponents(s), exponents(eps)  # in whose units no square leaves the range of numbers
    with quiet():
        return np.ldexp(2 * np.ldexp(s, -k) ** 2 * np.log(2 / delta) / np.ldexp(eps, -n) ** 2, 2 * (k - n))[()]
