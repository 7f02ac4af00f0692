"""Quantiles of laws: the number that a uniform becomes, so that it can be drawn from a net.

Belongs here: laws as functions of a uniform, and tables of such functions.  Does not belong here: the normal law, which
kernels draw (``nets``), densities whose quantile is one line, nets, and generators.

A count jumps as its uniform moves.  Arrays that only know smooth operations (``smoothness``) refuse all counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from estimators.numerics.arrays import Floats, Ints

from .smoothness import NoNet, Smooth

LONGEST = 4096
"""Counts of a law that are told apart; one that goes on beyond `LEFT` of its probability is refused."""

LEFT = 1e-13
MOST_TRIALS = 500
MOST_LAWS = 256
"""Parameters of a tabled law that may differ within one call."""

PARTS = 32  # of every octave of the quantile's table
DEGREE = 6  # of its polynomials; this and PARTS keep every normal within 8 ulp of scipy.special.ndtri
LOWEST = -33  # half a cell is 2**LOWEST


def tabled(function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Polynomials that give a function of probabilities p from 2^LOWEST to 1, shape (-LOWEST * PARTS, 1 + DEGREE).

    Every octave of p is parted in `PARTS`; row by row stand the coefficients of the polynomial through the function at
    Chebyshev points, in t from -1 to 1 along the part.
    """
    from numpy.polynomial import chebyshev

    octave, part = np.divmod(np.arange(-LOWEST * PARTS), PARTS)
    nodes = chebyshev.chebpts1(1 + DEGREE)
    p = 2.0 ** (octave[:, None] + LOWEST) * (1 + (part[:, None] + (nodes + 1) / 2) / PARTS)
    values = function(p)
    to_powers = np.zeros((1 + DEGREE, 1 + DEGREE))
    for k in range(1 + DEGREE):
        to_powers[: k + 1, k] = chebyshev.cheb2poly(np.eye(1 + DEGREE)[k])[: k + 1]
    rows = np.linalg.solve(chebyshev.chebvander(nodes, DEGREE), values.T)
    table = np.ascontiguousarray((to_powers @ rows).T)
    table.setflags(write=False)
    return table


def beta(uniforms: Any, a: Any, b: Any) -> Any:
    """Beta's law.

    Examples
    --------
    >>> beta(np.array([0.25, 0.5, 0.75]), 1.0, 1.0).round(12).tolist()
    [0.25, 0.5, 0.75]
    """
    if isinstance(uniforms, Smooth) or np.ndim(a) or np.ndim(b):
        from scipy import special

        return special.betaincinv(a, b, uniforms)
    return _tabled(uniforms, *_beta_tables(float(a), float(b)))


def gamma(uniforms: Any, shape: Any) -> Any:
    """The gamma law with scale one."""
    if isinstance(uniforms, Smooth) or np.ndim(shape):
        from scipy import special

        return special.gammaincinv(shape, uniforms)
    return _tabled(uniforms, *_gamma_tables(float(shape)))


@lru_cache(maxsize=64)
def _beta_tables(a: float, b: float) -> tuple[Floats, Floats]:
    from scipy import special

    return tabled(lambda p: special.betaincinv(a, b, p)), tabled(lambda p: special.betainccinv(a, b, p))


@lru_cache(maxsize=64)
def _gamma_tables(shape: float) -> tuple[Floats, Floats]:
    from scipy import special

    return tabled(lambda p: special.gammaincinv(shape, p)), tabled(lambda p: special.gammainccinv(shape, p))


def _tabled(uniforms: Floats, lower: Floats, upper: Floats) -> Floats:
    from .kernels import quantiles

    return _each(lambda flat: quantiles(flat, lower, upper), uniforms)


def _each(kernel: Callable[..., Any], uniforms: Any, *parameters: Any) -> Any:
    """A kernel of flat arrays, entry by entry in the order in which the uniforms lie in memory."""
    uniforms = np.asarray(uniforms)
    axes = np.argsort([-step for step in uniforms.strides], kind="stable")
    laid = [np.broadcast_to(np.asarray(x, float), uniforms.shape).transpose(axes) for x in (uniforms, *parameters)]
    return kernel(*map(np.ravel, laid)).reshape(laid[0].shape).transpose(np.argsort(axes))


def floor(values: Any) -> Ints:
    """The whole part of numbers >= 0."""
    return _plain(values).astype(np.int64)


def counted(uniforms: Any, shares: Floats) -> Ints:
    """How many of the sums of `shares`, from the first one on, lie below each uniform; at most one less than there are."""
    return np.minimum(np.searchsorted(np.cumsum(shares), _plain(uniforms)), len(shares) - 1)


def binomial(uniforms: Any, n: Any, p: Any) -> Ints:
    """Binomial counts.

    Examples
    --------
    >>> binomial(np.array([0.1, 0.5, 0.9]), 2, 0.5).tolist()
    [0, 1, 2]
    """
    from .kernels import binomials

    uniforms = _plain(uniforms)
    if np.max(n) > MOST_TRIALS:
        raise NoNet(f"it draws binomial counts of more than {MOST_TRIALS} trials")
    return _each(binomials, uniforms, _plain(n), _plain(p)).astype(np.int64)


def geometric(uniforms: Any, p: Any) -> Ints:
    """Trials up to the first success.

    Examples
    --------
    >>> geometric(np.array([0.4, 0.6, 0.8]), 0.5).tolist()
    [1, 2, 3]
    """
    return np.maximum(np.ceil(np.log1p(-_plain(uniforms)) / np.log1p(-_plain(p))), 1).astype(np.int64)


def logarithmic(uniforms: Any, p: Any) -> Ints:
    """The logarithmic law of 1, 2, ...

    Examples
    --------
    >>> logarithmic(np.array([0.5, 0.8, 0.8]), [0.5, 0.5, 0.9]).tolist()
    [1, 2, 6]
    """
    return 1 + _by_law(uniforms, _logarithmic_shares, p)


def failures(uniforms: Any, n: Any, p: Any) -> Ints:
    """Failures before `n` successes of probability `p`.

    Examples
    --------
    >>> failures(np.array([0.5, 0.8, 0.8]), 1.0, [0.5, 0.5, 0.1]).tolist()
    [0, 2, 15]
    """
    return _by_law(uniforms, _failures_shares, n, p)


def _logarithmic_shares(p: float) -> Floats:
    k = np.arange(1, LONGEST)
    return _whole(-(p**k) / (k * np.log1p(-p)))


def _failures_shares(n: float, p: float) -> Floats:
    from scipy import special

    k = np.arange(LONGEST)
    return _whole(
        np.exp(special.gammaln(k + n) - special.gammaln(n) - special.gammaln(k + 1) + n * np.log(p) + k * np.log1p(-p))
    )


def _by_law(uniforms: Any, shares: Callable[..., Floats], *parameters: Any) -> Ints:
    """Counts under a law that is known by its probabilities, of parameters that may vary from draw to draw."""
    uniforms = _plain(uniforms)
    parameters = tuple(np.asarray(_plain(x), float) for x in parameters)
    if all(x.ndim == 0 for x in parameters):
        return counted(uniforms, shares(*map(float, parameters)))
    rows = [np.broadcast_to(x, uniforms.shape).ravel() for x in parameters]
    different, which = np.unique(np.stack(rows), axis=1, return_inverse=True)
    if different.shape[1] > MOST_LAWS:
        raise NoNet(f"it draws counts of more than {MOST_LAWS} different laws, each of which would be a table")
    flat, found = uniforms.ravel(), np.empty(uniforms.size, np.int64)
    for law, each in enumerate(different.T):
        of_it = which.ravel() == law
        found[of_it] = counted(flat[of_it], shares(*each))
    return found.reshape(uniforms.shape)


def _whole(shares: Floats) -> Floats:
    if not shares.sum() > 1 - LEFT:
        raise NoNet(f"it draws counts that are beyond {LONGEST} too often")
    return shares


def _plain(values: Any) -> np.ndarray:
    if isinstance(values, Smooth):
        raise NoNet("it draws counts, which jump")
    return np.asarray(values)


__all__ = ["LONGEST", "beta", "binomial", "counted", "failures", "floor", "gamma", "geometric", "logarithmic", "tabled"]
