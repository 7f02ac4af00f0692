"""Theorem 3 and Remark 3: the bound for Bernoulli clients with an unknown prior, its events, its limits.

Belongs here: (48), the bound and the probabilities in its proof. Does not belong here: the moment estimates themselves
(bernoulli_moments.py), privacy.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.generative.bernoulli_moments import weight_of
from theory.papers.generative.beta_binomial import (
    ALPHA,
    BETA,
    M3,
    ONE,
    PRIOR,
    ZERO,
    N,
    between,
    centre,
    counts,
    draw_clients,
    enumerate_clients,
    multisets,
    naive_estimate,
    posterior_moment,
    prior_moment,
    share_variance,
    shares,
    within,
)
from theory.papers.generative.model import mobius_limit

LOGARITHM = Variable("L", "positive", "log(4 m^2 n)")
WEIGHT = Variable("a", "fraction", "the client's weight a_hat_i, a function of the others' data", closed=True)
FILLED = Variable("filled", "fraction", "(mu - mu_hat_i)^2 as a share of c^2; at most 1 on the event", closed=True)


# --- the theorem's step ------------------------------------------------------------------------------------------------


def _step_derive(alpha: Any, beta: Any, n: Any, m: Any, L: Any, a: Any, filled: Any) -> Derivation:
    d = Derivation()
    d.say("Fix the others' data: a_hat_i = a and mu_hat_i are numbers. The error is a (xbar - p) + (1-a)(mu_hat - p).")
    noise = d.say("Given p the first part has mean zero and variance p(1-p)/n; over the prior",
                  simplest(prior_moment(alpha, beta, 1, 1) / n))  # fmt: skip
    spread = simplest(prior_moment(alpha, beta, 2) - prior_moment(alpha, beta, 1) ** 2)
    far = d.say("The second has mean square Var(p) + (mu - mu_hat)^2, where on the event (mu - mu_hat)^2 = filled c^2:",
                spread + filled * 3 * L / (m - 1))  # fmt: skip
    return d.conclude("The parts are uncorrelated:", a**2 * noise + (1 - a) ** 2 * far)


def _step_oracle(alpha: Any, beta: Any, n: Any, m: Any, L: Any, a: Any, filled: Any) -> Any:
    """Sum over the own count; the square in mu_hat - mu is expanded, its linear term must vanish."""
    middle, weight, e2 = fraction(centre(alpha, beta)), fraction(a), fraction(filled * 3 * L / (m - 1))
    square = linear = Fraction(0)
    for z, q in enumerate(counts(alpha, beta, n)):
        guess = weight * Fraction(z, int(n)) + (1 - weight) * middle
        first, second = (posterior_moment(alpha, beta, n, z, k) for k in (1, 2))
        square += q * (guess**2 - 2 * guess * first + second)
        linear += q * (guess - first)
    if linear != 0:
        raise ValueError("the estimate around the true mean is biased")
    return rational(square + (1 - weight) ** 2 * e2)


def _step_simulate(alpha: float, beta: float, n: int, m: int, L: float, a: float, filled: float) -> Any:
    off = np.sqrt(filled * 3 * L / (m - 1))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = draw_clients(gen, reps, alpha, beta, n, 1)
        return (a * z / n + (1 - a) * (alpha / (alpha + beta) + off) - p) ** 2

    return simulation.sample_means(draw)


def _step_shifts(n: Any, m: Any, a: Any, filled: Any) -> dict[Any, Any]:
    free = sp.symbols("i j k l", nonnegative=True)
    return {n: 1 + free[0], m: 3 + free[1], a: free[2] / (1 + free[2]), filled: free[3] / (1 + free[3])}


register(
    Claim(
        id="generative:thm3",
        title="Error bound with estimated moments",
        place="Section 2.2, Theorem 3; proof in Section 5.2.2",
        statement="With probability at least 1 - 1/(mn) over the others' data the squared error of (6) is at most this. "
        "Judged given the others' data with |mu - mu_hat_i| <= c (generative:bern:variance-event:mean gives that event's "
        "probability), a_hat_i being any number that they determine.",
        latex=r"\mathbb{E}[\widehat{a}_{i}^{2}]\big{(}\frac{\alpha\beta}{n(\alpha+\beta)(\alpha+\beta+1)}\big{)}+\mathbb{E}"
        r"[(1-\widehat{a}_{i})^{2}]\big{(}\frac{\alpha\beta}{(\alpha+\beta)^{2}(\alpha+\beta+1)}+\frac{3\log(4m^{2}n)}{m-1}"
        r"\big{)}",
        kind="upper bound",
        relation="<=",
        variables=(*PRIOR, N, M3, LOGARITHM, WEIGHT, FILLED),
        examples=(
            {"alpha": 2, "beta": 3, "n": 5, "m": 100, "L": 12, "a": "1/2", "filled": "1/20"},
            {"alpha": 1, "beta": 1, "n": 2, "m": 30, "L": 9, "a": "1/3", "filled": 0},
        ),
        printed=lambda alpha, beta, n, m, L, a: (
            a**2 * within(alpha, beta, n) + (1 - a) ** 2 * (between(alpha, beta) + 3 * L / (m - 1))
        ),
        derive=_step_derive,
        oracle=_step_oracle,
        shifts=_step_shifts,
        computed=lambda alpha, beta, n, m, L, a, filled: float(
            bernoulli.mse(alpha, beta, n, weight=a) + (1 - a) ** 2 * filled * 3 * L / (m - 1)
        ),
        simulate=_step_simulate,
        unit="squared probability",
        related=("generative:bern:known-mse:local", "generative:bern:variance-event:mean"),
        assumptions=(
            "a_hat_i and mu_hat_i are functions of the other clients' data only",
            "MSE is conditional on the other clients' data, which is what 'with probability' refers to",
        ),
        remark="The bound is true, also because it is generous: mu_hat_i has mean squared error Var(xbar)/(m-1) "
        "(generative:thm3:exact), not 3 log(4 m^2 n)/(m-1), which exceeds 1, and so says nothing, below 25 clients. "
        "It does not say that a_hat_i is a good weight: the proof's event on sigma_hat_i^2 is false for many clients and "
        "is not used. As printed, sigma_hat_i^2 contains the client's own share; generative:thm3:own-data judges that.",
    )
)


# --- the printed estimator, all its data enumerated --------------------------------------------------------------------

CLIENTS = Variable("m", "choice", "clients", choices=(3,))
SAMPLES = Variable("n", "choice", "samples per client", choices=(2,))


def printed_weight(own: Fraction, others: list[Fraction], n: int) -> Fraction:
    """The weight of (6); where it reads 0/0 (everybody all zeros, or all ones) it is 0."""
    mu = sum(others, Fraction(0)) / len(others)
    sigma2 = naive_estimate(own, others)
    if sigma2 == 0:
        return Fraction(0)
    return n / (mu * (1 - mu) / sigma2 - 1 + n)


@cache
def _outcomes(m: int, n: int) -> tuple[tuple[int, int, tuple[int, ...], Fraction, Fraction], ...]:
    """Every outcome up to order: its multiplicity, own ones, the others' ones, weight, others' mean."""
    found = []
    for multiplicity, how_many in multisets([Fraction(1)] * (n + 1), m - 1):
        others = shares(how_many)
        ones = tuple(z for z, k in enumerate(how_many) for _ in range(k))
        for z in range(n + 1):
            a = printed_weight(Fraction(z, n), others, n)
            found.append((int(multiplicity), z, ones, a, sum(others, Fraction(0)) / (m - 1)))
    return tuple(found)


def _expected_over(alpha: Any, beta: Any, m: int, n: int, value: Any) -> Any:
    """Mean of p-moments over all data: `value(own ones, weight, others' mean)` gives coefficients of 1, p and p^2.

    The counts' laws are rising factorials over common denominators, so only polynomials are multiplied.
    """

    def rising(x: Any, k: int) -> Any:
        return sp.Poly(sp.prod([x + i for i in range(k)]), alpha, beta)

    tail = [rising(alpha + beta + n + k, 2 - k) for k in range(3)]
    total = sp.Poly(0, alpha, beta)
    for multiplicity, z, ones, a, mu in _outcomes(m, n):
        law = multiplicity * comb(n, z) * rising(beta, n - z)
        for k in ones:
            law *= comb(n, k) * rising(alpha, k) * rising(beta, n - k)
        coefficients = value(z, rational(a), rational(mu))
        total += law * sum((c * rising(alpha, z + k) * tail[k] for k, c in enumerate(coefficients)), sp.Poly(0, alpha, beta))
    s = alpha + beta
    common = sp.prod([s + i for i in range(n)]) ** m * (s + n) * (s + n + 1)
    return total.as_expr() / common


@cache
def _enumerated_derive(alpha: Any, beta: Any, m: int, n: int) -> Derivation:
    d = Derivation()
    d.say(f"All counts of {m} clients with {n} samples each; the Beta-binomial law of each count is a ratio of rising "
          "factorials. For each outcome the weight (6) is a number, and the squared error a quadratic in p.")  # fmt: skip

    def quadratic(z: int, a: Any, mu: Any) -> tuple[Any, Any, Any]:
        guess = a * sp.Rational(z, n) + (1 - a) * mu
        return guess**2, -2 * guess, sp.Integer(1)

    return d.conclude("Mean squared error over all data:", sp.factor(_expected_over(alpha, beta, m, n, quadratic)))


@cache
def _weight_moments(m: int, n: int) -> tuple[Any, Any]:
    """E[a_hat^2] and E[(1 - a_hat)^2] over all data, in the symbols alpha and beta."""
    alpha, beta = ALPHA.symbol(), BETA.symbol()
    square = _expected_over(alpha, beta, m, n, lambda z, a, mu: (a**2, 0, 0))
    rest = _expected_over(alpha, beta, m, n, lambda z, a, mu: ((1 - a) ** 2, 0, 0))
    return sp.factor(square), sp.factor(rest)


def _enumerated_printed(alpha: Any, beta: Any, m: int, n: int) -> Any:
    at = {ALPHA.symbol(): alpha, BETA.symbol(): beta}
    square, rest = (x.xreplace(at) for x in _weight_moments(m, n))
    logarithm = sp.log(4 * m**2 * n)
    return square * within(alpha, beta, n) + rest * (between(alpha, beta) + 3 * logarithm / (m - 1))


def _enumerated_oracle(alpha: Any, beta: Any, m: int, n: int) -> Any:
    """On numbers: posterior moments of the own p given the own count, others' outcomes by multisets."""

    def error(z: int, how_many: tuple[int, ...]) -> Fraction:
        others = shares(how_many)
        a = printed_weight(Fraction(z, n), others, n)
        guess = a * Fraction(z, n) + (1 - a) * sum(others, Fraction(0)) / (m - 1)
        first, second = (posterior_moment(alpha, beta, n, z, k) for k in (1, 2))
        return guess**2 - 2 * guess * first + second

    return rational(enumerate_clients(alpha, beta, n, m, error))


def _enumerated_simulate(alpha: float, beta: float, m: int, n: int) -> Any:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = draw_clients(gen, reps, alpha, beta, n, m)
        x = z / n
        mu = x[:, 1:].mean(axis=1, keepdims=True)
        centres = (x.sum(axis=1, keepdims=True) - x) / (m - 1)
        sigma2 = ((x - centres)[:, 1:] ** 2).sum(axis=1) / (m - 2)
        mu = mu[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            a = np.where(sigma2 < 1e-12, 0.0, n / (mu * (1 - mu) / sigma2 - 1 + n))
        return (((a * x[:, 0] + (1 - a) * mu) - p[:, 0]) ** 2)[:, None]

    return simulation.sample_means(draw)


register(
    Claim(
        id="generative:thm3:own-data",
        title="Theorem 3's bound for the printed estimator, all data enumerated",
        place="Section 2.2, (6), Theorem 3",
        statement="The mean squared error of (6) over all clients' data is at most the bound of Theorem 3 with both "
        "expectations over all data, although sigma_hat_i^2 contains the client's own share. Judged for three "
        "clients with two samples each, for all alpha and beta.",
        latex=r"\mathbb{E}[\widehat{a}_{i}^{2}]\big{(}\frac{\alpha\beta}{n(\alpha+\beta)(\alpha+\beta+1)}\big{)}+\mathbb{E}"
        r"[(1-\widehat{a}_{i})^{2}]\big{(}\frac{\alpha\beta}{(\alpha+\beta)^{2}(\alpha+\beta+1)}+\frac{3\log(4m^{2}n)}{m-1}"
        r"\big{)}",
        kind="upper bound",
        relation="<=",
        variables=(ALPHA, BETA, CLIENTS, SAMPLES),
        examples=({"alpha": 2, "beta": 3, "m": 3, "n": 2},),
        printed=_enumerated_printed,
        derive=_enumerated_derive,
        oracle=_enumerated_oracle,
        not_computed="all data of small federations, enumerated exactly",
        simulate=_enumerated_simulate,
        unit="squared probability",
        related=("generative:thm3",),
        assumptions=("where (6) reads 0/0, because all shares of ones are 0 or all are 1, the weight is 0",),
        remark="(6) is undefined with positive probability: 0/0 when nobody, or everybody, answered yes only; and with "
        "n = 1 it is 1/0 when all others agree and the client does not. The step 'mean given the others' data' of the proof "
        "does not apply with the client's own data in a_hat_i, but the generous last term (6.4 here) "
        "covers the difference; larger federations are not judged.",
    )
)


# --- what the last term really is --------------------------------------------------------------------------------------

FIXED = Variable("a", "fraction", "any fixed weight on the client's own share", closed=True)


def _exact_derive(alpha: Any, beta: Any, n: Any, m: Any, a: Any) -> Derivation:
    d = Derivation()
    v = d.say("mu_hat_i is the mean of m-1 independent shares of ones, so (mu - mu_hat_i)^2 has mean",
              simplest(share_variance(alpha, beta, n)) / (m - 1))  # fmt: skip
    noise, spread = prior_moment(alpha, beta, 1, 1) / n, prior_moment(alpha, beta, 2) - prior_moment(alpha, beta, 1) ** 2
    return d.conclude(
        "and it is independent of the client's own data:", simplest(a**2 * noise + (1 - a) ** 2 * (spread + v))
    )


def _exact_oracle(alpha: Any, beta: Any, n: Any, m: Any, a: Any) -> Any:
    """Own count by posterior moments, given each possible mean of the others."""
    weight, law, n = fraction(a), counts(alpha, beta, n), int(n)
    moments = [[posterior_moment(alpha, beta, n, z, k) for k in (1, 2)] for z in range(n + 1)]
    total = Fraction(0)
    for probability, how_many in multisets(law, int(m) - 1):
        others = Fraction(sum(z * k for z, k in enumerate(how_many)), n * (int(m) - 1))
        for z, q in enumerate(law):
            guess = weight * Fraction(z, n) + (1 - weight) * others
            total += probability * q * (guess**2 - 2 * guess * moments[z][0] + moments[z][1])
    return rational(total)


def _exact_simulate(alpha: float, beta: float, n: int, m: int, a: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = draw_clients(gen, reps, alpha, beta, n, m)
        x = z / n
        return ((a * x[:, 0] + (1 - a) * x[:, 1:].mean(axis=1) - p[:, 0]) ** 2)[:, None]

    return simulation.sample_means(draw)


register(
    Claim(
        id="generative:thm3:exact",
        title="Error with a fixed weight and the others' mean",
        place="Section 2.2, Theorem 3 (not in the paper)",
        statement="With a fixed weight a the squared error is exactly this: the last term of Theorem 3, "
        "3 log(4 m^2 n)/(m-1), stands for Var(xbar)/(m-1), which is at most 1/(4(m-1)).",
        latex=r"a^2\frac{\alpha\beta}{n s(s+1)}+(1-a)^2\Big(\frac{\alpha\beta}{s^2(s+1)}+\frac{\alpha\beta(n+s)}"
        r"{n s^2(s+1)(m-1)}\Big),\qquad s=\alpha+\beta",
        kind="identity",
        variables=(*PRIOR, N, M3, FIXED),
        examples=({"alpha": 2, "beta": 3, "n": 2, "m": 4, "a": "1/2"}, {"alpha": 1, "beta": 1, "n": 3, "m": 3, "a": "2/3"}),
        printed=lambda alpha, beta, n, m, a: (
            a**2 * within(alpha, beta, n)
            + (1 - a) ** 2 * (between(alpha, beta) + between(alpha, beta) * (n + alpha + beta) / (n * (m - 1)))
        ),
        derive=_exact_derive,
        oracle=_exact_oracle,
        computed=lambda alpha, beta, n, m, a: float(
            bernoulli.mse(alpha, beta, n, weight=a) + (1 - a) ** 2 * bernoulli.naive_variance_mean(alpha, beta, n) / (m - 1)
        ),
        simulate=_exact_simulate,
        ours=True,
        unit="squared probability",
        related=("generative:bern:known-mse:local",),
    )
)


# --- the events --------------------------------------------------------------------------------------------------------


def _tail_derive(m: Any, n: Any) -> Derivation:
    d = Derivation()
    k = sp.Symbol("k", positive=True)
    d.say(
        "mu_hat_i is a mean of m-1 independent numbers in [0, 1]; Hoeffding: Pr(|mu_hat - mu| > c) <= 2 exp(-2 (m-1) c^2)."
    )
    d.say("With c^2 = 3 log(k)/(m-1), k = 4 m^2 n, this is 2 exp(-6 log k) =", 2 / k**6)
    return d.conclude("so at most", 2 / (4 * m**2 * n) ** 6)


def _tail_oracle(m: Any, n: Any) -> Any:
    """The exponent put in as it stands."""
    c2 = 3 * sp.log(4 * m**2 * n) / (m - 1)
    return sp.expand(2 * sp.exp(-2 * (m - 1) * c2))


register(
    Claim(
        id="generative:bern:variance-event:mean",
        title="The proof's event on the mean",
        place="Section 5.2.2, proof of Theorem 3",
        statement="|mu - mu_hat_i| > c, c^2 = 3 log(4 m^2 n)/(m-1), has probability at most 1/(m^2 n). Judged as the bound "
        "that Hoeffding's inequality gives, for any prior.",
        latex=r"|\mu-\hat{\mu}_i|\leq\sqrt{\frac{3\log(4m^2n)}{m-1}}\quad\text{w.p. }1-\frac{1}{m^2n}",
        kind="probability",
        relation="<=",
        variables=(M3, N),
        examples=({"m": 10, "n": 2},),
        printed=lambda m, n: 1 / (m**2 * n),
        derive=_tail_derive,
        oracle=_tail_oracle,
        shifts=lambda m, n: dict(
            zip((m, n), (3 + sp.Symbol("i", nonnegative=True), 1 + sp.Symbol("j", nonnegative=True)), strict=True)
        ),
        computed=lambda m, n: 2.0 / (4.0 * m**2 * n) ** 6,
        not_simulated="a bound of at most 1e-9, for any prior",
        unit="probability",
        remark="Very generous: c^2 = log(4 m^2 n)/(2 (m-1)), a sixth of it, would do.",
    )
)


EVENT_CLIENTS = Variable("m", "choice", "clients", choices=(10, 100, 1000))
EVENT_PRIOR = sp.Integer(10)  # Beta(10, 10), one sample per client


def _outside(square: Fraction, m: int) -> bool:
    """Whether a squared distance exceeds c^2 = 3 log(4 m^2)/(m-1)."""
    with mpmath.workdps(40):
        return bool(mpmath.mpf(square.numerator) / square.denominator * (m - 1) > 3 * mpmath.log(4 * m * m))


@cache
def _event_derive(m: int) -> Derivation:
    d = Derivation()
    truth = fraction(between(EVENT_PRIOR, EVENT_PRIOR))
    d.say("With one sample per client the shares are fair coins, independent, whatever the prior's variance; here it is",
          rational(truth))  # fmt: skip
    bad = 0
    for own in (0, 1):
        for k in range(m):  # k ones among the other m-1
            ones = k + own
            estimate = Fraction(k * (m - ones) ** 2 + (m - 1 - k) * ones**2, (m - 1) ** 2 * (m - 2))
            bad += comb(m - 1, k) * _outside((estimate - truth) ** 2, m)
    d.say(
        "Own sample and number of ones among the others decide sigma_hat_i^2; outcomes outside c, out of 2^m:",
        bad.bit_length(),
    )
    return d.conclude("Probability that |sigma^2 - sigma_hat_i^2| > c:", sp.Rational(bad, 2**m))


@cache
def _event_oracle(m: int) -> Any:
    """The same with the law of the others' ones by adding one client at a time, and the estimate by moments."""
    law = [1]
    for _ in range(m - 1):
        law = [a + b for a, b in zip([*law, 0], [0, *law], strict=True)]
    truth, bad = Fraction(1, 4 * 21), 0
    for own in (0, 1):
        for k, ways in enumerate(law):
            # xbar_l - mu_hat_l = m/(m-1) (xbar_l - mean of all)
            mean = Fraction(k + own, m)
            squares = k * (1 - mean) ** 2 + (m - 1 - k) * mean**2
            estimate = squares * Fraction(m, m - 1) ** 2 / (m - 2)
            bad += ways * _outside((estimate - truth) ** 2, m)
    return sp.Rational(bad, 2**m)


register(
    Claim(
        id="generative:bern:variance-event:finite",
        title="The proof's event on the variance estimate, exactly, for one prior",
        place="Section 5.2.2, proof of Theorem 3",
        statement="|sigma^2 - sigma_hat_i^2| > c has probability at most 1/(m^2 n). Judged exactly for n = 1 and the prior "
        "Beta(10, 10).",
        latex=r"|\sigma^2-\hat{\sigma}_i^2|\leq\sqrt{\frac{3\log(4m^2n)}{m-1}}\quad\text{w.p. }1-\frac{1}{m^2n}",
        kind="probability",
        relation="<=",
        variables=(EVENT_CLIENTS,),
        examples=({"m": 1000},),
        printed=lambda m: sp.Rational(1, m**2),
        derive=_event_derive,
        oracle=_event_oracle,
        condition=lambda m: sp.true if m <= 100 else sp.false,
        condition_text="m <= 100 (c is still larger than the bias of the estimate)",
        counterexample={"m": 1000},
        not_computed="enumerated exactly",
        not_simulated="enumerated exactly (the probability is 0 or nearly 1)",
        unit="probability",
        related=("generative:bern:variance-event",),
        remark="With 1000 clients the event fails with probability 1 to more than 20 digits, where 1e-6 is claimed.",
    )
)


# --- Remark 3 ----------------------------------------------------------------------------------------------------------


def _remark_approach(t: Any, alpha: Any, beta: Any, n: Any) -> tuple[Any, Any]:
    """Weight of (6) at the estimates' large-m values: with t n samples; with the prior (t alpha, t beta)."""
    more = weight_of(centre(alpha, beta), share_variance(alpha, beta, t * n), t * n)
    alike = weight_of(centre(alpha, beta), share_variance(t * alpha, t * beta, n), n)
    return more, alike


def _remark_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    d.say("With many clients sigma_hat^2 is the variance of a share of ones.")
    more, alike = (simplest(x) for x in _remark_approach(t, alpha, beta, n))
    d.say(
        "With t n samples, and with the prior (t alpha, t beta), whose variance tends to 0 at the same mean:", (more, alike)
    )
    return d.conclude("For t to infinity:", (sp.limit(more, t, sp.oo), simplest(sp.limit(alike, t, sp.oo))))


def _remark_oracle(alpha: Any, beta: Any, n: Any) -> tuple[Any, Any]:
    """Variances of a share from enumerated counts: affine in 1/n; the weight is a Moebius function of the prior's scale."""

    def variance(a: Any, b: Any, k: Any) -> Any:
        law = counts(a, b, k)
        first = sum(q * Fraction(z, int(k)) for z, q in enumerate(law))
        return rational(sum(q * Fraction(z, int(k)) ** 2 for z, q in enumerate(law)) - first**2)

    mu = centre(alpha, beta)
    limit_variance = 2 * variance(alpha, beta, 2) - variance(alpha, beta, 1)  # at h = 0
    rest = mu * (1 - mu) / limit_variance - 1
    many = mobius_limit(lambda k: k / (rest + k))
    return many, mobius_limit(lambda k: weight_of(mu, variance(k * alpha, k * beta, n), n))


register(
    Claim(
        id="generative:remark3",
        title="Limits of the estimated weight",
        place="Section 2.2, Remark 3",
        statement="For n to infinity a_hat_i tends to 1. For sigma^2 to 0 (little heterogeneity) a_hat_i tends to 0. Judged "
        "with many clients, where the estimates are their means.",
        latex=r"n\to\infty:\ \widehat{a}_{i}\to 1;\qquad\sigma^{2}\to 0:\ \widehat{a}_{i}\to 0",
        kind="limit",
        variables=(*PRIOR, N),
        examples=({"alpha": 2, "beta": 3, "n": 2}, {"alpha": 1, "beta": 1, "n": 1}),
        printed=lambda: (ONE, ZERO),
        derive=_remark_derive,
        oracle=_remark_oracle,
        corrected=lambda n: (ONE, n / (2 * n - 1)),
        corrected_text="1, and n/(2n-1): more than a half stays on the client's own noisy share however alike the clients "
        "are; with unbiased estimates (generative:bern:moments:unbiased) the second limit is 0",
        counterexample={"alpha": 1, "beta": 1, "n": 2},
        approach=_remark_approach,
        not_computed="limits",
        not_simulated="limits",
        entries=("many samples", "little heterogeneity"),
        unit="dimensionless",
        related=("generative:bern:moments:limit-weight",),
    )
)

__all__ = ["printed_weight"]
