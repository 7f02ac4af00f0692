"""The Bernoulli model p_i ~ Beta(alpha, beta), x_i ~ Binomial(n, p_i): its moments as formulas, and by enumeration.

Belongs here: what more than one module of claims on Section 2.2 uses. Does not belong here: printed formulas, claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from math import comb, factorial
from typing import Any

import numpy as np
import sympy as sp

from theory.engine.bruteforce import fraction
from theory.engine.domain import Variable

ONE, ZERO = sp.Integer(1), sp.Integer(0)

ALPHA = Variable("alpha", "positive", "first parameter of the Beta prior")
BETA = Variable("beta", "positive", "second parameter of the Beta prior")
N = Variable("n", "size", "samples per client")
N2 = Variable("n", "size", "samples per client", low=2)
M3 = Variable("m", "size", "clients", low=3)
RISE = Variable("E0", "positive", "e^eps0 - 1")
PRIOR = (ALPHA, BETA)

MANY_CLIENTS = (*PRIOR, N)
MANY_CLIENTS_EXAMPLES = ({"alpha": 2, "beta": 3, "n": 2}, {"alpha": 10, "beta": 10, "n": 1})


# --- formulas on symbols -----------------------------------------------------------------------------------------------


def prior_moment(alpha: Any, beta: Any, ones: int, zeros: int = 0) -> Any:
    """E[p^ones (1-p)^zeros]: the Beta integral, a ratio of rising factorials."""
    top = sp.prod([alpha + i for i in range(ones)]) * sp.prod([beta + i for i in range(zeros)])
    return top / sp.prod([alpha + beta + i for i in range(ones + zeros)])


def centre(alpha: Any, beta: Any) -> Any:
    """The prior's mean, as printed."""
    return alpha / (alpha + beta)


def between(alpha: Any, beta: Any) -> Any:
    """The prior's variance, as printed in Section 2.2."""
    return alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1))


def within(alpha: Any, beta: Any, n: Any) -> Any:
    """Mean squared error of a client's own share of ones, as printed in Section 2.2."""
    return alpha * beta / (n * (alpha + beta) * (alpha + beta + 1))


def share_variance(alpha: Any, beta: Any, n: Any) -> Any:
    """Variance of a client's share of ones: prior variance plus sampling noise, from the prior's moments."""
    spread = prior_moment(alpha, beta, 2) - prior_moment(alpha, beta, 1) ** 2
    return spread + prior_moment(alpha, beta, 1, 1) / n


# --- exact enumeration on numbers --------------------------------------------------------------------------------------


def _rising(x: Fraction, k: int) -> Fraction:
    value = Fraction(1)
    for i in range(k):
        value *= x + i
    return value


@cache
def counts(alpha: Any, beta: Any, n: Any) -> tuple[Fraction, ...]:
    """Probabilities of 0, ..., n ones of one client (the Beta-binomial law)."""
    a, b, n = fraction(alpha), fraction(beta), int(n)
    return tuple(comb(n, z) * _rising(a, z) * _rising(b, n - z) / _rising(a + b, n) for z in range(n + 1))


@cache
def posterior_moment(alpha: Any, beta: Any, n: Any, z: int, power: int) -> Fraction:
    """E[p^power | z ones], with (1-p)^(n-z) multiplied out and raw moments of the prior only."""
    a, b, n = fraction(alpha), fraction(beta), int(n)

    def integral(k: int) -> Fraction:
        terms = (comb(n - z, j) * (-1) ** j * _rising(a, z + k + j) / _rising(a + b, z + k + j) for j in range(n - z + 1))
        return sum(terms, Fraction(0))

    return integral(power) / integral(0)


def multisets(law: Sequence[Fraction], clients: int) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """All outcomes of exchangeable clients up to order: probability, and how many clients show 0, 1, ... ones."""

    def split(left: int, kinds: int) -> Iterator[tuple[int, ...]]:
        if kinds == 1:
            yield (left,)
            return
        for first in range(left + 1):
            for rest in split(left - first, kinds - 1):
                yield (first, *rest)

    for how_many in split(clients, len(law)):
        weight = Fraction(factorial(clients))
        for probability, k in zip(law, how_many, strict=True):
            weight *= probability**k / factorial(k)
        yield weight, how_many


def shares(how_many: Sequence[int]) -> list[Fraction]:
    """The clients' shares of ones, one entry per client."""
    n = len(how_many) - 1
    return [Fraction(z, n) for z, k in enumerate(how_many) for _ in range(k)]


def naive_estimate(own: Any, others: Sequence[Any], printed_centre: bool = True) -> Any:
    """The estimate of the prior's variance that Section 2.2 prints for the client whose share of ones is `own`.

    Centred at mu_hat_l, the mean of all clients but l (own data included), or at mu_hat_i, the others' mean (own data
    left out, as in the proof).
    """
    everyone, m = own + sum(others), len(others) + 1
    middle = sum(others) / (m - 1)
    centres = [(everyone - x) / (m - 1) if printed_centre else middle for x in others]
    return sum((x - c) ** 2 for x, c in zip(others, centres, strict=True)) / (m - 2)


def enumerate_clients(
    alpha: Any, beta: Any, n: Any, m: Any, statistic: Callable[[int, tuple[int, ...]], Fraction]
) -> Fraction:
    """Mean of a statistic of (own ones, how many others show 0..n ones) over all data of m clients."""
    law = counts(alpha, beta, n)
    total = Fraction(0)
    for weight, how_many in multisets(law, int(m) - 1):
        for z, probability in enumerate(law):
            total += weight * probability * statistic(z, how_many)
    return total


# --- simulation --------------------------------------------------------------------------------------------------------


def draw_clients(
    gen: np.random.Generator, reps: int, alpha: float, beta: float, n: Any, m: int
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities p and counts of ones, each (reps, m)."""
    p = gen.beta(alpha, beta, (reps, m))
    return p, gen.binomial(np.broadcast_to(np.asarray(n, int), (reps, m)), p)
