"""Theorem 3 and Remark 3: the bound for Bernoulli clients with an unknown prior, its events, its limits.

Belongs here: (48), the bound and the probabilities in its proof. Does not belong here: the moment estimates themselves
(bernoulli_moments.py), privacy.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.beta_binomial import (
    ALPHA,
    BETA,
    M3,
    PRIOR,
    N,
    between,
    centre,
    counts,
    draw_clients,
    multisets,
    posterior_moment,
    prior_moment,
    share_variance,
    within,
)

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
        statement="""With probability at least 1 - 1/(mn) over the others' data the squared error of (6) is at most this.
            Judged given the others' data with |mu - mu_hat_i| <= c (generative:bern:variance-event:mean gives that
            event's probability), a_hat_i being any number that they determine.""",
        latex=r"""\mathbb{E}[\widehat{a}_{i}^{2}]\big{(}\frac{\alpha\beta}{n(\alpha+\beta)(\alpha+\beta+1)}\big{)}+%
            \mathbb{E}[(1-\widehat{a}_{i})^{2}]\big{(}\frac{\alpha\beta}{(\alpha+\beta)^{2}(\alpha+\beta+1)}+%
            \frac{3\log(4m^{2}n)}{m-1}\big{)}""",
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
        tight=Tight(
            at={"alpha": 2, "beta": 3, "n": 5, "m": 100, "L": 12, "a": "1/2", "filled": 1},
        ),
        assumes={"given": "data", "law": "bernoulli"},
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
        remark="""The bound is true, also because it is generous: mu_hat_i has mean squared error Var(xbar)/(m-1)
            (generative:thm3:exact), not 3 log(4 m^2 n)/(m-1), which exceeds 1, and so says nothing, below 25 clients. It
            does not say that a_hat_i is a good weight: the proof's event on sigma_hat_i^2 is false for many clients and
            is not used. As printed, sigma_hat_i^2 contains the client's own share; generative:thm3:own-data judges that.""",
    )
)


# --- the printed estimator, all its data enumerated --------------------------------------------------------------------

CLIENTS = Variable("m", "choice", "clients", choices=(3, 4))
SAMPLES = Variable("n", "choice", "samples per client", choices=(2, 3))


@cache
def _outcomes(m: int, n: int) -> tuple[tuple[int, int, tuple[int, ...], Fraction, Fraction], ...]:
    """Every outcome up to order: its multiplicity, own ones, the others' ones, weight, others' mean.

    The centre of x_l is (sum of all - x_l)/(m-1), so that x_l minus it is m/(m-1) times x_l minus the mean of all.
    """
    found = []
    for multiplicity, how_many in multisets([Fraction(1)] * (n + 1), m - 1):
        ones = tuple(z for z, k in enumerate(how_many) for _ in range(k))
        for z in range(n + 1):
            everyone, mu = Fraction(sum(ones) + z, m * n), Fraction(sum(ones), (m - 1) * n)
            squares = sum((Fraction(k, n) - everyone) ** 2 for k in ones)
            sigma2 = Fraction(m, m - 1) ** 2 * squares / (m - 2)
            a = n * sigma2 / (mu * (1 - mu) + (n - 1) * sigma2) if sigma2 else Fraction(0)
            found.append((int(multiplicity), z, ones, a, mu))
    return tuple(found)


def _expected_error(alpha: Any, beta: Any, m: int, n: int) -> Any:
    """Mean squared error over all data, given each outcome a quadratic in p.

    The counts' laws are rising factorials over common denominators, so only polynomials are multiplied.
    """

    def rising(x: Any, k: int) -> Any:
        return sp.Poly(sp.prod([x + i for i in range(k)]), alpha, beta)

    tail = [rising(alpha + beta + n + k, 2 - k) for k in range(3)]
    total = sp.Poly(0, alpha, beta)
    for multiplicity, z, ones, a, mu in _outcomes(m, n):
        guess = rational(a * Fraction(z, n) + (1 - a) * mu)
        law = multiplicity * comb(n, z) * rising(beta, n - z)
        for k in ones:
            law *= comb(n, k) * rising(alpha, k) * rising(beta, n - k)
        quadratic = enumerate((guess**2, -2 * guess, sp.Integer(1)))
        total += law * sum((c * rising(alpha, z + k) * tail[k] for k, c in quadratic), sp.Poly(0, alpha, beta))
    s = alpha + beta
    common = sp.prod([s + i for i in range(n)]) ** m * (s + n) * (s + n + 1)
    return total.as_expr() / common


@cache
def _enumerated_derive(alpha: Any, beta: Any, m: int, n: int) -> Derivation:
    d = Derivation()
    d.say(f"""All counts of {m} clients with {n} samples each; the Beta-binomial law of each count is a ratio of rising
        factorials. For each outcome the weight (6) is a number, and the squared error a quadratic in p.""")  # fmt: skip
    return d.conclude("Mean squared error over all data:", sp.factor(_expected_error(alpha, beta, m, n)))


@cache
def _weight_moments(m: int, n: int) -> tuple[Any, Any]:
    """E[a_hat^2] and E[(1 - a_hat)^2] over all data in the symbols alpha and beta, with a_hat as (6) has it."""
    alpha, beta = ALPHA.symbol(), BETA.symbol()
    law = [comb(n, z) * prior_moment(alpha, beta, z, n - z) for z in range(n + 1)]
    square = rest = sp.Integer(0)
    for counted in product(range(n + 1), repeat=m):
        x = [sp.Rational(z, n) for z in counted]
        hats = [(sum(x) - one) / (m - 1) for one in x]  # mu_hat_l, without client l
        sigma2 = sum((one - hat) ** 2 for one, hat in zip(x[1:], hats[1:], strict=True)) / (m - 2)
        a = n / (hats[0] * (1 - hats[0]) / sigma2 - 1 + n) if sigma2 else sp.Integer(0)
        weight = sp.prod([law[z] for z in counted])
        square, rest = square + weight * a**2, rest + weight * (1 - a) ** 2
    return sp.factor(square), sp.factor(rest)


def _enumerated_printed(alpha: Any, beta: Any, m: int, n: int) -> Any:
    at = {ALPHA.symbol(): alpha, BETA.symbol(): beta}
    square, rest = (x.xreplace(at) for x in _weight_moments(m, n))
    logarithm = sp.log(4 * m**2 * n)
    return square * within(alpha, beta, n) + rest * (between(alpha, beta) + 3 * logarithm / (m - 1))


def _enumerated_oracle(alpha: Any, beta: Any, m: int, n: int) -> Any:
    """On numbers, one client's data after the other, with posterior moments of the own p given the own count."""
    law, total = counts(alpha, beta, n), Fraction(0)
    for z, *others in product(range(n + 1), repeat=m):
        probability, own, rest = law[z], Fraction(z, n), [Fraction(k, n) for k in others]
        for k in others:
            probability *= law[k]
        spread = Fraction(0)
        for k, one in enumerate(rest):
            spread += (one - Fraction(own + sum(rest[:k]) + sum(rest[k + 1 :])) / (m - 1)) ** 2 / (m - 2)
        mu = sum(rest, Fraction(0)) / (m - 1)
        guess = mu
        if spread:
            guess += (own - mu) * n / (mu * (1 - mu) / spread - 1 + n)
        first, second = (posterior_moment(alpha, beta, n, z, k) for k in (1, 2))
        total += probability * (guess**2 - 2 * guess * first + second)
    return rational(total)


def _enumerated_simulate(alpha: float, beta: float, m: int, n: int) -> Any:
    """Given the clients' probabilities, all their data are enumerated."""
    x = np.array(list(product(range(n + 1), repeat=m))) / n
    mu = x[:, 1:].mean(axis=1)
    centres = (x.sum(axis=1, keepdims=True) - x) / (m - 1)
    sigma2 = ((x - centres)[:, 1:] ** 2).sum(axis=1) / (m - 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        a = np.where(sigma2 < 1e-12, 0.0, n / (mu * (1 - mu) / sigma2 - 1 + n))
    guess = a * x[:, 0] + (1 - a) * mu

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p = gen.beta(alpha, beta, (reps, m)).T
        means = np.stack([guess, guess**2], axis=1)[..., None]  # over the data of the last clients, one more in every step
        for own in p[::-1]:
            means = sum(means[z :: n + 1] * q for z, q in enumerate(simulation.count_law([own] * n)))
        return (means[0, 1] - 2 * p[0] * means[0, 0] + p[0] ** 2)[:, None]

    return simulation.sample_means(draw, draws=m)


register(
    Claim(
        id="generative:thm3:own-data",
        title="Theorem 3's bound for the printed estimator, all data enumerated",
        place="Section 2.2, (6), Theorem 3",
        statement="""The mean squared error of (6) over all clients' data is at most the bound of Theorem 3 with both
            expectations over all data, although sigma_hat_i^2 contains the client's own share. Judged for three and four
            clients with two and three samples each, for all alpha and beta.""",
        latex=r"""\mathbb{E}[\widehat{a}_{i}^{2}]\big{(}\frac{\alpha\beta}{n(\alpha+\beta)(\alpha+\beta+1)}\big{)}+%
            \mathbb{E}[(1-\widehat{a}_{i})^{2}]\big{(}\frac{\alpha\beta}{(\alpha+\beta)^{2}(\alpha+\beta+1)}+%
            \frac{3\log(4m^{2}n)}{m-1}\big{)}""",
        kind="upper bound",
        relation="<=",
        variables=(ALPHA, BETA, CLIENTS, SAMPLES),
        examples=({"alpha": 2, "beta": 3, "m": 3, "n": 2}, {"alpha": 1, "beta": 1, "m": 4, "n": 3}),
        printed=_enumerated_printed,
        derive=_enumerated_derive,
        oracle=_enumerated_oracle,
        not_computed=Exempt(kind="enumerated"),
        tight=Tight(at={"alpha": 2, "beta": 3, "m": 3, "n": 2}, ratio="9.39198522617"),
        assumes={"given": "nothing", "law": "bernoulli"},
        simulate=_enumerated_simulate,
        unit="squared probability",
        related=("generative:thm3",),
        assumptions=("where (6) reads 0/0, because all shares of ones are 0 or all are 1, the weight is 0",),
        remark="""(6) is undefined with positive probability: 0/0 when nobody, or everybody, answered yes only; and with n =
            1 it is 1/0 when all others agree and the client does not. The step 'mean given the others' data' of the
            proof does not apply with the client's own data in a_hat_i, but the generous last term (6.4 for three clients
            with two samples) covers the difference; larger federations are not judged.""",
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
        statement="""With a fixed weight a the squared error is exactly this: the last term of Theorem 3, 3 log(4 m^2
            n)/(m-1), stands for Var(xbar)/(m-1), which is at most 1/(4(m-1)).""",
        latex=r"""a^2\frac{\alpha\beta}{n s(s+1)}+(1-a)^2\Big(\frac{\alpha\beta}{s^2(s+1)}+\frac{\alpha\beta(n+s)}%
            {n s^2(s+1)(m-1)}\Big),\qquad s=\alpha+\beta""",
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
        assumes={"law": "bernoulli", "given": "nothing"},
        unit="squared probability",
        related=("generative:bern:known-mse:local",),
        model=("Value(Mixed)",),
    )
)
