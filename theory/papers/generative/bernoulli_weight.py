"""The weight that Bernoulli clients compute from estimated moments (Sections 2.2 and 5.2.2), with many clients.

Belongs here: the weight of (6) and of the proofs, its limits (Remark 3), what a wrong one costs. Does not belong here: the
moment estimates (bernoulli_moments.py), Theorem 3 (bernoulli_bound.py), privacy.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.beta_binomial import (
    MANY_CLIENTS,
    MANY_CLIENTS_EXAMPLES,
    ONE,
    PRIOR,
    ZERO,
    N,
    centre,
    counts,
    draw_clients,
    posterior_moment,
    prior_moment,
    share_variance,
)
from theory.papers.generative.model import mobius_limit

# --- the weight that follows -------------------------------------------------------------------------------------------


def weight_of(mu: Any, sigma2: Any, n: Any) -> Any:
    """The weight of (6) for given estimates."""
    return n / (mu * (1 - mu) / sigma2 - 1 + n)


def _weight_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    mu = prior_moment(alpha, beta, 1)
    v = d.say("""With many clients mu_hat tends to mu and sigma_hat^2 to the variance of one share of ones (law of large
        numbers):""", simplest(share_variance(alpha, beta, n)))  # fmt: skip
    return d.conclude("Put in (6):", simplest(n / (mu * (1 - mu) / v - 1 + n)))


def _weight_oracle(alpha: Any, beta: Any, n: Any) -> Any:
    """Variance of a share from the enumerated law of its count, put in the formula."""
    law = counts(alpha, beta, n)
    first = sum(q * Fraction(z, int(n)) for z, q in enumerate(law))
    v = sum(q * Fraction(z, int(n)) ** 2 for z, q in enumerate(law)) - first**2
    return rational(fraction(n) / (first * (1 - first) / v - 1 + fraction(n)))


def _weight_approach(t: Any, alpha: Any, beta: Any, n: Any) -> Any:
    """The weight at the estimates' means with t clients."""
    return weight_of(centre(alpha, beta), share_variance(alpha, beta, n) * t / (t - 2), n)


def _weight_simulate(alpha: float, beta: float, n: int) -> simulation.Simulation:
    mu = alpha / (alpha + beta)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        return (draw_clients(gen, reps, alpha, beta, n, 1)[1] / n - mu) ** 2

    return simulation.sample_means(
        draw,
        labels=("the variance that the weight implies",),
        of=[lambda weight: mu * (1 - mu) / (n / weight + 1 - n)],
        back=[lambda variance: n * variance / (mu * (1 - mu) + (n - 1) * variance)],
    )


register(
    Claim(
        id="generative:bern:moments:limit-weight",
        title="Weight that the printed estimates lead to with many clients",
        place="Section 2.2, unknown alpha, beta, before (6)",
        statement="""a_hat_i = n/(mu_hat(1-mu_hat)/sigma_hat^2 - 1 + n) estimates a = n/(alpha+beta+n). Judged as its limit
            for m to infinity.""",
        latex=r"\widehat{a}_{i}=\frac{n}{\nicefrac{{\widehat{\mu}_{i}(1-\widehat{\mu}_{i})}}{{\widehat{\sigma}_{i}^{2}}}-1+n}",
        kind="limit",
        variables=MANY_CLIENTS,
        examples=MANY_CLIENTS_EXAMPLES,
        printed=lambda alpha, beta, n: n / (alpha + beta + n),
        derive=_weight_derive,
        oracle=_weight_oracle,
        corrected=lambda alpha, beta, n: n * (n + alpha + beta) / (n**2 + (2 * n - 1) * (alpha + beta)),
        corrected_text="n (n+s)/(n^2 + (2n-1) s) with s = alpha+beta",
        counterexample={"alpha": 1, "beta": 1, "n": 1},
        approach=_weight_approach,
        computed=lambda alpha, beta, n: float(bernoulli.limit_weight(alpha, beta, n)),
        simulate=_weight_simulate,
        assumes={"law": "bernoulli"},
        unit="dimensionless",
        finding="The estimated weight keeps more than half on the client's own data, however alike the clients are.",
        related=("generative:bern:variance-estimate",),
        remark="It is 1 for n = 1 (no borrowing at all) and never below n/(2n-1) > 1/2, however alike the clients are.",
    )
)


def _right_weight_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    mu = prior_moment(alpha, beta, 1)
    spread = d.say("Variance of the prior:", simplest(prior_moment(alpha, beta, 2) - mu**2))
    total = d.say("The posterior mean's weight is n/(alpha+beta+n), and alpha+beta is mu(1-mu)/sigma^2 - 1:",
                  simplest(mu * (1 - mu) / spread - 1))  # fmt: skip
    return d.conclude("so the weight is", simplest(n / (total + n)))


def _right_weight_oracle(alpha: Any, beta: Any, n: Any) -> Any:
    """Best weight by the normal equation on the enumerated law of counts: Cov(x, p)/Var(x)."""
    both = counts(alpha, beta, 2)
    first, second = both[1] / 2 + both[2], both[2]
    law = counts(alpha, beta, n)
    v = sum(q * Fraction(z, int(n)) ** 2 for z, q in enumerate(law)) - first**2
    return rational((second - first**2) / v)


def _right_weight_simulate(alpha: float, beta: float, n: int) -> simulation.Simulation:
    """Slope of the regression of p on the share of ones."""
    mu = alpha / (alpha + beta)
    variance = mu * (1 - mu) * (alpha + beta + n) / ((alpha + beta + 1) * n)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = draw_clients(gen, reps, alpha, beta, n, 1)
        return (z / n - mu) * (p - mu) / variance

    return simulation.sample_means(draw)


register(
    Claim(
        id="generative:thm3:weight",
        title="The weight as the proof of Theorem 3 and Theorem 4 write it",
        place="Section 5.2.2, after (48); also a_hat^priv in Section 2.2 and Section 5.2.3",
        statement="The local weight is n/(mu(1-mu)/sigma^2 + n), at the true mu and sigma^2.",
        latex=r"\overline{a}=\frac{n}{\frac{\hat{\mu}_i(1-\hat{\mu}_i)}{\hat{\sigma}^2_i}+n}",
        kind="identity",
        variables=MANY_CLIENTS,
        examples=MANY_CLIENTS_EXAMPLES,
        printed=lambda alpha, beta, n: n / (alpha + beta + 1 + n),
        derive=_right_weight_derive,
        oracle=_right_weight_oracle,
        corrected=lambda alpha, beta, n: n / (alpha + beta + n),
        corrected_text="n/(mu(1-mu)/sigma^2 - 1 + n), as in Section 2.2 before (6)",
        slip="the -1 of Section 2.2 is missing (mu(1-mu)/sigma^2 is alpha+beta+1)",
        counterexample={"alpha": 1, "beta": 1, "n": 1},
        computed=lambda alpha, beta, n: float(bernoulli.posterior_weight(alpha, beta, n)),
        simulate=_right_weight_simulate,
        finding="The proof's weight lacks the -1 that Section 2.2 has.",
        assumes={"law": "bernoulli"},
        unit="dimensionless",
        related=("generative:bern:moments",),
    )
)


def _cost_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    used = d.lemma("generative:bern:moments:limit-weight", "the weight reached", alpha=alpha, beta=beta, n=n)
    best = d.lemma("generative:thm3:weight", "the best weight", alpha=alpha, beta=beta, n=n)
    d.say("""The risk of a weight w on the own share is quadratic in w with curvature Var(xbar), so the excess is (difference
        of weights)^2 Var(xbar).""")  # fmt: skip
    excess = (used - best) ** 2 * share_variance(alpha, beta, n)
    least = prior_moment(alpha, beta, 1, 1) / n * best
    return d.conclude("In multiples of the least risk:", simplest(excess / least))


def _cost_oracle(alpha: Any, beta: Any, n: Any) -> Any:
    """Both risks term by term on the enumerated counts."""
    middle = fraction(alpha) / fraction(alpha + beta)

    def risk(weight: Fraction) -> Fraction:
        total = Fraction(0)
        for z, q in enumerate(counts(alpha, beta, n)):
            guess = weight * Fraction(z, int(n)) + (1 - weight) * middle
            first, second = (posterior_moment(alpha, beta, n, z, k) for k in (1, 2))
            total += q * (guess**2 - 2 * guess * first + second)
        return total

    least = risk(fraction(_right_weight_oracle(alpha, beta, n)))
    return rational(risk(fraction(_weight_oracle(alpha, beta, n))) / least - 1)


def _cost_simulate(alpha: float, beta: float, n: int) -> simulation.Simulation:
    s = alpha + beta
    mu, best = alpha / s, n / (n + s)
    noise = alpha * beta / (n * s * (s + 1))
    used, least = n / (mu * (1 - mu) / (mu * (1 - mu) / (s + 1) + noise) - 1 + n), noise * best

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = draw_clients(gen, reps, alpha, beta, n, 1)
        errors = [(w * z / n + (1 - w) * mu - p) ** 2 for w in (used, best)]
        return (errors[0] - errors[1]) / least

    return simulation.sample_means(draw, labels=("excess risk",))


register(
    Claim(
        id="generative:bern:moments:cost",
        title="What the biased variance estimate costs, and the unbiased one gains",
        place="Section 2.2, unknown alpha, beta (not in the paper)",
        statement="""With many clients the printed estimates give the squared error (1 + this) times the least one; unbiased
            estimates (generative:bern:moments:unbiased) reach the least one.""",
        latex=r"\frac{n s(s+1)^2}{(n^2+(2n-1)s)^2},\qquad s=\alpha+\beta",
        kind="identity",
        variables=MANY_CLIENTS,
        examples=({"alpha": 4, "beta": 4, "n": 3}, {"alpha": 10, "beta": 10, "n": 1}),
        printed=lambda alpha, beta, n: (
            n * (alpha + beta) * (alpha + beta + 1) ** 2 / (n**2 + (2 * n - 1) * (alpha + beta)) ** 2
        ),
        derive=_cost_derive,
        oracle=_cost_oracle,
        computed=lambda alpha, beta, n: float(bernoulli.naive_excess(alpha, beta, n)),
        simulate=_cost_simulate,
        ours=True,
        unit="multiples of the least squared error",
        related=("generative:bern:moments:limit-weight", "generative:bern:known-mse"),
        remark="It grows without bound as the clients become alike (s to infinity), where collaboration should help most.",
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
    weight = "generative:bern:moments:limit-weight"
    more = d.lemma(weight, "with t n samples and many clients", alpha=alpha, beta=beta, n=t * n)
    alike = d.lemma(
        weight, "with the prior (t alpha, t beta), whose variance tends to 0 at the same mean", alpha=t * alpha,
        beta=t * beta, n=n,
    )  # fmt: skip
    return d.conclude("For t to infinity:", (sp.limit(more, t, sp.oo), simplest(sp.limit(alike, t, sp.oo))))


def _remark_oracle(alpha: Any, beta: Any, n: Any) -> tuple[Any, Any]:
    """Variances of a share from enumerated counts: affine in 1/n; the weight is a Moebius function of the prior's scale."""

    def variance(a: Any, b: Any, k: Any) -> Any:
        law = counts(a, b, k)
        first = sum(q * Fraction(z, int(k)) for z, q in enumerate(law))
        return rational(sum(q * Fraction(z, int(k)) ** 2 for z, q in enumerate(law)) - first**2)

    mu = alpha / (alpha + beta)
    limit_variance = 2 * variance(alpha, beta, 2) - variance(alpha, beta, 1)  # at h = 0
    rest = mu * (1 - mu) / limit_variance - 1
    many = mobius_limit(lambda k: k / (rest + k))
    return many, mobius_limit(lambda k: n / (mu * (1 - mu) / variance(k * alpha, k * beta, n) - 1 + n))


register(
    Claim(
        id="generative:remark3",
        title="Limits of the estimated weight",
        place="Section 2.2, Remark 3",
        statement="""For n to infinity a_hat_i tends to 1. For sigma^2 to 0 (little heterogeneity) a_hat_i tends to 0. Judged
            with many clients, where the estimates are their means.""",
        latex=r"n\to\infty:\ \widehat{a}_{i}\to 1;\qquad\sigma^{2}\to 0:\ \widehat{a}_{i}\to 0",
        kind="limit",
        variables=(*PRIOR, N),
        examples=({"alpha": 2, "beta": 3, "n": 2}, {"alpha": 1, "beta": 1, "n": 1}),
        printed=lambda: (ONE, ZERO),
        derive=_remark_derive,
        oracle=_remark_oracle,
        corrected=lambda n: (ONE, n / (2 * n - 1)),
        corrected_text="""1, and n/(2n-1): more than a half stays on the client's own noisy share however alike the clients
            are; with unbiased estimates (generative:bern:moments:unbiased) the second limit is 0""",
        counterexample={"alpha": 1, "beta": 1, "n": 2},
        approach=_remark_approach,
        not_computed=Exempt(kind="limit", of=("generative:bern:moments:limit-weight",)),
        not_simulated=Exempt(kind="limit", of=("generative:bern:moments:limit-weight",)),
        finding="With little heterogeneity the estimated weight tends to more than one half, and not to 0.",
        entries=("many samples", "little heterogeneity"),
        unit="dimensionless",
        related=("generative:bern:moments:limit-weight",),
    )
)

__all__ = ["weight_of"]
