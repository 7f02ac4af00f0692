"""The events in the proof of Theorem 3: how near the moment estimates of Bernoulli clients are to the truth.

Belongs here: Section 5.2.2 between (48) and the bound. Does not belong here: the estimates (bernoulli_moments.py), the bound
(bernoulli_bound.py), the private events (bernoulli_private_bound.py).
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
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.bernoulli_moments import naive_mean
from theory.papers.generative.beta_binomial import (
    M3,
    MANY_CLIENTS,
    MANY_CLIENTS_EXAMPLES,
    ZERO,
    N,
    between,
    counts,
    draw_clients,
    prior_moment,
    share_variance,
    within,
)
from theory.papers.generative.model import mobius_limit

# --- the events of the proof -------------------------------------------------------------------------------------------


def _gap_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    v = d.say("With many clients sigma_hat_i^2 tends to the variance of one share of ones:",
              simplest(share_variance(alpha, beta, n)))  # fmt: skip
    spread = simplest(prior_moment(alpha, beta, 2) - prior_moment(alpha, beta, 1) ** 2)
    return d.conclude("Its distance to sigma^2 tends to", simplest(v - spread))


def _gap_oracle(alpha: Any, beta: Any, n: Any) -> Any:
    """Limit of the exact mean with 3, 4 and 5 clients (a Moebius function of m) minus the exact variance."""
    both = counts(alpha, beta, 2)
    spread = both[2] - (both[1] / 2 + both[2]) ** 2
    return mobius_limit(lambda k: naive_mean(alpha, beta, n, k + 2)) - rational(spread)


register(
    Claim(
        id="generative:bern:variance-event",
        title="The proof's event on the variance estimate, with many clients",
        place="Section 5.2.2, proof of Theorem 3",
        statement="""With probability at least 1 - 1/(m^2 n), |sigma^2 - sigma_hat_i^2| <= c with c^2 = 3 log(4 m^2 n)/(m-1).
            As c tends to 0 this says that sigma_hat_i^2 tends to sigma^2. Judged as the limit of the distance.""",
        latex=r"|\sigma^2-\hat{\sigma}_i^2|\leq\sqrt{\frac{3\log(4m^2n)}{m-1}}",
        kind="limit",
        variables=MANY_CLIENTS,
        examples=MANY_CLIENTS_EXAMPLES,
        printed=lambda: ZERO,
        derive=_gap_derive,
        oracle=_gap_oracle,
        corrected=lambda alpha, beta, n: within(alpha, beta, n),
        corrected_text="alpha beta/(n (alpha+beta)(alpha+beta+1)) > 0: with enough clients the event fails almost surely",
        counterexample={"alpha": 1, "beta": 1, "n": 1},
        approach=lambda t, alpha, beta, n: share_variance(alpha, beta, n) * t / (t - 2) - between(alpha, beta),
        computed=lambda alpha, beta, n: float(bernoulli.local_mse(alpha, beta, n)),
        simulate=lambda alpha, beta, n: simulation.sample_means(lambda gen, reps: _gap_draw(gen, reps, alpha, beta, n)),
        assumes={"law": "bernoulli"},
        unit="squared probability",
        finding="The variance estimate does not come near the variance, so the proof's event fails with many clients.",
        related=("generative:bern:variance-estimate",),
        remark="Theorem 3 does not need this event: its bound follows from the event on the mean alone.",
    )
)


def _gap_draw(gen: np.random.Generator, reps: int, alpha: float, beta: float, n: int) -> np.ndarray:
    p, z = draw_clients(gen, reps, alpha, beta, n, 1)
    mu = alpha / (alpha + beta)
    return (z / n - mu) ** 2 - (p - mu) ** 2


# --- the events --------------------------------------------------------------------------------------------------------


def _tail_derive(m: Any, n: Any) -> Derivation:
    d = Derivation()
    k, c = sp.symbols("k c", positive=True)
    hoeffding = d.say(
        "mu_hat_i is a mean of m-1 independent numbers in [0, 1]; Hoeffding: |mu_hat - mu| > c has at most the probability",
        2 * sp.exp(-2 * (m - 1) * c**2),
    )
    bound = d.say("With c^2 = 3 log(k)/(m-1):", sp.simplify(hoeffding.subs(c, sp.sqrt(3 * sp.log(k) / (m - 1)))))
    return d.conclude("and k = 4 m^2 n:", bound.subs(k, 4 * m**2 * n))


def _tail_oracle(m: Any, n: Any) -> Any:
    """On numbers: 2/k^6, k = 4 m^2 n, factor by factor."""
    found = Fraction(2)
    for _ in range(6):
        found /= 4 * int(m) ** 2 * int(n)
    return rational(found)


register(
    Claim(
        id="generative:bern:variance-event:mean",
        title="The proof's event on the mean",
        place="Section 5.2.2, proof of Theorem 3",
        statement="""|mu - mu_hat_i| > c, c^2 = 3 log(4 m^2 n)/(m-1), has probability at most 1/(m^2 n). Judged as the bound
            that Hoeffding's inequality gives, for any prior.""",
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
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.bernoulli.moments", note="the estimate"),
        not_simulated=Exempt(kind="rare"),
        tight=Tight(at={"m": 3, "n": 1}, ratio="120932352"),
        assumes={"law": "bounded"},
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
            far = (estimate - truth) ** 2 * (m - 1) / 3  # outside where this exceeds log(4 m^2)
            bad += ways * bool(sp.N(rational(far) - sp.log(4 * m * m), 30) > 0)
    return sp.Rational(bad, 2**m)


register(
    Claim(
        id="generative:bern:variance-event:finite",
        title="The proof's event on the variance estimate, exactly, for one prior",
        place="Section 5.2.2, proof of Theorem 3",
        statement="""|sigma^2 - sigma_hat_i^2| > c has probability at most 1/(m^2 n). Judged exactly for n = 1 and the prior
            Beta(10, 10).""",
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
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.bernoulli.moments", note="the estimate"),
        not_simulated=Exempt(kind="rare", note="0, or nearly 1"),
        tight=Tight(at={"m": 100}, ratio="oo", value="1/10000"),
        assumes={"law": "bernoulli"},
        unit="probability",
        related=("generative:bern:variance-event",),
        remark="With 1000 clients the event fails with probability 1 to more than 20 digits, where 1e-6 is claimed.",
    )
)
