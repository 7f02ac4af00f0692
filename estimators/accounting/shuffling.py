"""Amplification by shuffling: reports of n clients, each eps0-private by itself, in an order that tells nothing.

A shuffler between clients and server hides who sent what.  Any other client's report can be written as one that, with
probability e^-eps0, does not depend on its own data: a clone of the first client's (Feldman, McMillan and Talwar 2021,
"Hiding among the clones", theorem 3.2).  So telling two neighbouring data sets apart is no easier than telling

    P = (A + D, C - A + 1 - D)  from  Q = (A + 1 - D, C - A + D),
    C ~ Bin(n - 1, e^-eps0),  A ~ Bin(C, 1/2),  D ~ Bernoulli(e^eps0 / (e^eps0 + 1)),

whose divergence is summed here.  Given C the likelihood ratio rises with the first number, so that the best event is a
half-line: two binomial tails for each C, and what is left out of the tails of C counts as told apart.  The closed form of
the same paper (theorem 3.1) is beside it, for comparison.

Belongs here: one round of shuffled reports of any eps0-private kind.  Does not belong here: several rounds (compose
guarantees: ``budget``), sampling (``accountants``).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from estimators.accounting.budget import Guarantee, budget_numbers
from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.validation import count, fraction, nonnegative, paired, positive, single

__all__ = ["clone_delta", "closed_form_epsilon", "shuffled", "shuffled_delta", "shuffled_epsilon"]

LEFT_OUT = 1e-18  # of C's probability on each side, added to delta
ROUNDING = 1e-12  # relative and far above that of a sum of tails, by which a delta is raised
LARGEST_EPS0 = 30.0  # beyond it a clone has a probability below 1e-13, and shuffling hides nothing
STEPS = 40  # of the bisection for eps


@paired
def shuffled_delta(*, eps: float, eps0: float, n: int) -> float:
    """Smallest delta that the clones prove at `eps`; an upper bound for any eps0-private report, whatever the data.

    Parameters
    ----------
    eps : number >= 0, of the shuffled reports together; eps0 : number in (0, 30], of each; n : whole number >= 1 of clients.

    >>> float(round(shuffled_delta(eps=0.2, eps0=1.0, n=1000), 8))
    2.1e-07
    """
    eps, eps0 = single(nonnegative, "eps", eps), single(positive, "eps0", eps0)
    n = int(single(count, "n", n))
    if eps0 > LARGEST_EPS0:
        raise ValueError(f"eps0 must be at most {LARGEST_EPS0:g}, beyond which shuffling hides nothing, got {eps0:g}")
    return 0.0 if eps >= eps0 else min(clone_delta(eps, eps0, n) * (1 + ROUNDING) + 2 * LEFT_OUT, 1.0)


@lru_cache(maxsize=256)
def clones_of(eps0: float, n: int) -> tuple[Ints, Floats, float]:
    """Return numbers C of clones, their probabilities, and the probability of all that are left out."""
    from scipy.stats import binom

    others, own = binom(n - 1, np.exp(-eps0)), binom(n - 1, -np.expm1(-eps0))
    # From above by those who are no clones: SciPy finds the upper end by one minus the chance, which is one.
    low, high = (int(others.ppf(LEFT_OUT)), n - 1 - int(own.ppf(LEFT_OUT))) if n > 1 else (0, 0)
    clones = np.arange(max(low - 1, 0), min(high + 1, n - 1) + 1)
    return clones, binom.pmf(clones, n - 1, np.exp(-eps0)), float(others.cdf(clones[0] - 1) + others.sf(clones[-1]))


def clone_delta(eps: float, eps0: float, n: int) -> float:
    """Return the divergence of the clones' pair to rounding, of checked numbers, eps < eps0.

    Claim: generative:qpriv:clones.
    """
    from scipy.stats import binom

    clones, chances, out = clones_of(eps0, n)
    honest, other = 1 / (1 + np.exp(-eps0)), 1 / (1 + np.exp(eps0))
    # P / Q = (honest j + other (c + 1 - j)) / (other j + honest (c + 1 - j)) at j ones of c + 1, which rises with j.
    at = (honest * np.exp(eps) - other) / ((honest - other) * (1 + np.exp(eps)))
    first = np.floor((clones + 1) * at).astype(int) + 1
    less = binom.sf(first - 1, clones, 0.5)  # P(A >= first); P(A + 1 >= first) is more by one probability
    more = less + binom.pmf(first - 1, clones, 0.5)
    gain = (honest * more + other * less) - np.exp(eps) * (other * more + honest * less)
    return float(np.sum(chances * np.maximum(gain, 0.0)) + out)


@paired
def shuffled_epsilon(*, delta: float, eps0: float, n: int) -> float:
    """Smallest eps at `delta` of n shuffled reports that the clones prove; an upper bound, never above eps0.

    Parameters
    ----------
    delta : number in (0, 1); eps0, n : as in `shuffled_delta`.

    >>> [round(f(delta=1e-6, eps0=1.0, n=10_000), 4) for f in (shuffled_epsilon, closed_form_epsilon)]
    [0.053, 0.214]
    """
    delta, eps0, n = single(fraction, "delta", delta), single(positive, "eps0", eps0), int(single(count, "n", n))
    if shuffled_delta(eps=0.0, eps0=eps0, n=n) <= delta:
        return 0.0
    low, high = 0.0, eps0  # high always holds
    for _ in range(STEPS):
        middle = (low + high) / 2
        if shuffled_delta(eps=middle, eps0=eps0, n=n) <= delta:
            high = middle
        else:
            low = middle
    return high


@paired
def closed_form_epsilon(*, delta: float, eps0: float, n: int) -> float:
    """Eps at `delta` by the closed form of Feldman, McMillan and Talwar (2021), theorem 3.1; eps0 outside of its domain.

    log(1 + (e^eps0 - 1) / (e^eps0 + 1) (8 sqrt(e^eps0 log(4 / delta) / n) + 8 e^eps0 / n)), for eps0 at most
    log(n / (16 log(2 / delta))); an upper bound.  Parameters as in `shuffled_epsilon`.

    >>> closed_form_epsilon(delta=1e-6, eps0=1.0, n=100)
    1.0
    """
    delta, eps0, n = single(fraction, "delta", delta), single(positive, "eps0", eps0), int(single(count, "n", n))
    if eps0 > np.log(n / (16 * np.log(2 / delta))):
        return float(eps0)
    size = np.exp(eps0)
    spread = 8 * np.sqrt(size * np.log(4 / delta) / n) + 8 * size / n
    return float(min(np.log1p((size - 1) / (size + 1) * spread), eps0))


def shuffled(guarantee: Guarantee, *, n: int, delta: float) -> Guarantee:
    """Guarantee of n clients' reports behind a shuffler that is trusted to hide who sent what, and with nothing else.

    Parameters
    ----------
    guarantee : of each report; purely private for all data of a client (adjacency "client"), for a report of another kind
        has no clones.
    n : whole number >= 1, clients whose reports are shuffled; all must have sent, or fewer hide less.
    delta : number in (0, 1).

    >>> one = Guarantee(1.0, 0.0, "client", "client", "two-point")
    >>> round(shuffled(one, n=10_000, delta=1e-6).eps, 4)
    0.053
    """
    if not isinstance(guarantee, Guarantee):
        raise ValueError(f"guarantee must be a Guarantee, got {type(guarantee).__name__}")
    if guarantee.delta != 0 or guarantee.adjacency != "client" or guarantee.trusted != "client":
        raise ValueError(
            "guarantee must be purely private for all data of a client who trusts nobody (delta 0, adjacency 'client', "
            f"trusted 'client'), got delta {guarantee.delta:g}, {guarantee.adjacency!r}, {guarantee.trusted!r}"
        )
    eps0, _ = budget_numbers(guarantee.eps, 0.0)
    eps = shuffled_epsilon(delta=delta, eps0=eps0, n=n)
    return replace(
        guarantee, eps=max(eps, float(np.finfo(float).tiny)), delta=float(delta),
        mechanism=f"shuffled {guarantee.mechanism}", rho=None, renyi=None, events=(),
    )  # fmt: skip
