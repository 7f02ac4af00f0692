"""Biased against unbiased estimates of the prior with few clients: exact risks by enumeration (not in the paper).

Belongs here: what the unbiased variance estimate gains at finite m. Does not belong here: the limit of many clients
(generative:bern:moments:cost), the estimates' means (bernoulli_moments.py).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.beta_binomial import counts, draw_clients, multisets, posterior_moment, prior_moment

SAMPLES = 2
CLIENTS = Variable("m", "choice", "clients", choices=(4, 20))
SHAPE = Variable("alpha", "choice", "both parameters of the symmetric Beta prior", choices=(1, 10))


def _weight(mu: Fraction, sigma2: Fraction) -> Fraction:
    """The weight for estimates of mean and variance, with the variance kept in [0, mu (1-mu)]."""
    spread = mu * (1 - mu)
    kept = min(max(sigma2, Fraction(0)), spread)
    return SAMPLES * kept / (spread + (SAMPLES - 1) * kept) if spread else Fraction(0)


@cache
def _gain_derive(m: int, alpha: int) -> Derivation:
    d = Derivation()
    d.say("""The others' counts, up to order, give mean, naive and unbiased variance estimate and so two weights; given them
        the error is a^2 E[p(1-p)]/n + (1-a)^2 (sigma^2 + (mu_hat - mu)^2).""")  # fmt: skip
    n, k = SAMPLES, m - 1
    variance, noise = Fraction(1, 4 * (2 * alpha + 1)), Fraction(alpha, 2 * (2 * alpha + 1) * n)
    law = [fraction(comb(n, z) * prior_moment(sp.Integer(alpha), sp.Integer(alpha), z, n - z)) for z in range(n + 1)]
    risks = [Fraction(0), Fraction(0)]
    for probability, how_many in multisets(law, k):
        mu = Fraction(sum(z * c for z, c in enumerate(how_many)), n * k)
        naive = sum(c * (Fraction(z, n) - mu) ** 2 for z, c in enumerate(how_many)) / (k - 1)
        both = Fraction(sum(z * (z - 1) * c for z, c in enumerate(how_many)), n * (n - 1) * k)
        for i, estimate in enumerate((naive, both - mu**2 + naive / k)):
            a = _weight(mu, Fraction(estimate))
            risks[i] += probability * (a**2 * noise + (1 - a) ** 2 * (variance + (mu - Fraction(1, 2)) ** 2))
    least = noise * n / (2 * alpha + n)
    d.say("Risks with naive and with unbiased estimates, in multiples of the least:",
          tuple(sp.Float(float(r / least), 6) for r in risks))  # fmt: skip
    return d.conclude("Difference, in multiples of the least risk:", rational((risks[0] - risks[1]) / least))


@cache
def _gain_oracle(m: int, alpha: int) -> Any:
    """Joint law of the others' (ones, pairs of ones), one client after the other; posterior moments of the own p."""
    n, law = SAMPLES, counts(alpha, alpha, SAMPLES)
    joint = {(0, 0): Fraction(1)}
    for _ in range(m - 1):
        grown: dict[tuple[int, int], Fraction] = {}
        for (ones, pairs), weight in joint.items():
            for z, q in enumerate(law):
                key = ones + z, pairs + z * (z - 1)
                grown[key] = grown.get(key, Fraction(0)) + weight * q
        joint = grown
    k, difference = m - 1, Fraction(0)
    least = sum(
        q * (posterior_moment(alpha, alpha, n, z, 2) - posterior_moment(alpha, alpha, n, z, 1) ** 2)
        for z, q in enumerate(law)
    )
    for (ones, pairs), weight in joint.items():
        mu, square = Fraction(ones, n * k), Fraction(pairs + ones, n * n * k)  # mean share, mean square share
        naive = (square - mu**2) * k / (k - 1)
        unbiased = Fraction(pairs, n * (n - 1) * k) - (mu**2 * k - square) / (k - 1)
        for sign, estimate in ((1, naive), (-1, unbiased)):
            kept = min(max(estimate, Fraction(0)), mu * (1 - mu))
            a = n / (mu * (1 - mu) / kept - 1 + n) if kept else Fraction(0)
            for z, q in enumerate(law):
                guess = a * Fraction(z, n) + (1 - a) * mu
                first, second = (posterior_moment(alpha, alpha, n, z, j) for j in (1, 2))
                difference += sign * weight * q * (guess**2 - 2 * guess * first + second)
    return rational(difference / least)


def _gain_simulate(m: int, alpha: int) -> simulation.Simulation:
    """The others' data are drawn; given the client's own probability its data are enumerated."""
    n, least = SAMPLES, float(bernoulli.mse(alpha, alpha, SAMPLES))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, others = gen.beta(alpha, alpha, reps), draw_clients(gen, reps, alpha, alpha, n, m - 1)[1]
        x = others / n
        mu, naive = x.mean(axis=1), x.var(axis=1, ddof=1)
        both = (others * (others - 1)).mean(axis=1) / (n * (n - 1))
        law = simulation.count_law([p] * n)
        errors = []
        for sigma2 in (naive, both - mu**2 + naive / (m - 1)):
            a = bernoulli.shrinkage_weight(mu, sigma2, n)
            errors.append(sum(q * (a * z / n + (1 - a) * mu - p) ** 2 for z, q in enumerate(law)))
        return ((errors[0] - errors[1]) / least)[:, None]

    return simulation.sample_means(draw, draws=2 * m - 1)


register(
    Claim(
        id="generative:bern:moments:finite",
        title="Unbiased against naive estimates with few and with many clients",
        place="Section 2.2, unknown alpha, beta (not in the paper)",
        statement="""With weights from the unbiased variance estimate the personalised estimate has a smaller squared error
            than with weights from the naive one. Judged exactly for symmetric Beta priors and n = 2 (both variance
            estimates kept in [0, mu(1-mu)], own data left out), as the difference of the risks in multiples of the least
            risk.""",
        latex=r"R_{\text{naive}}-R_{\text{unbiased}}\geq 0",
        kind="order",
        relation=">=",
        variables=(CLIENTS, SHAPE),
        examples=({"m": 20, "alpha": 10},),
        printed=lambda: sp.Integer(0),
        derive=_gain_derive,
        oracle=_gain_oracle,
        condition=lambda m: sp.true if m >= 20 else sp.false,
        condition_text="m >= 20 (with very few clients the larger noise of the unbiased estimate outweighs the bias)",
        counterexample={"m": 4, "alpha": 1},
        not_computed=Exempt(kind="enumerated"),
        tight=Tight(at={"m": 20, "alpha": 10}, ratio="0"),
        simulate=_gain_simulate,
        ours=True,
        assumes={"law": "bernoulli"},
        unit="multiples of the least squared error",
        related=("generative:bern:moments:unbiased", "generative:bern:moments:cost"),
        remark="""Risk over the least risk, Beta(10, 10), n = 2: 5.9 naive and 3.2 unbiased with 10 clients, 5.5 and 1.9 with
            25; Beta(1, 1): 2.1 and 3.0 with 4 clients, 1.41 and 1.25 with 25.""",
    )
)

__all__ = ["CLIENTS", "SHAPE"]
