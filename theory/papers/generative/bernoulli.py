"""Bernoulli clients whose Beta prior is known (Sections 2.2 and 5.2.1): posterior mean, its error, the local error.

Belongs here: claims with known alpha, beta. Does not belong here: estimating the prior (bernoulli_moments.py), privacy.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
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
from theory.papers.generative.beta_binomial import (
    ONE,
    PRIOR,
    ZERO,
    N,
    centre,
    counts,
    draw_clients,
    posterior_moment,
    prior_moment,
    within,
)
from theory.papers.generative.model import mobius_limit

KNOWN = (*PRIOR, N)
EXAMPLES = ({"alpha": 2, "beta": 3, "n": 5}, {"alpha": "1/2", "beta": 1, "n": 2})


def own_weight(alpha: Any, beta: Any, n: Any) -> Any:
    """The weight a as Section 2.2 prints it."""
    return n / (alpha + beta + n)


def _prior_derive(alpha: Any, beta: Any) -> Derivation:
    d = Derivation()

    def integral(a: Any, b: Any) -> Any:
        return sp.gamma(a) * sp.gamma(b) / sp.gamma(a + b)

    k = sp.Symbol("k", positive=True)
    d.say("E[p^k] is the integral of x^(alpha+k-1) (1-x)^(beta-1) over that of the density:",
          integral(alpha + k, beta) / integral(alpha, beta))  # fmt: skip
    first, second = (sp.gammasimp(integral(alpha + j, beta) / integral(alpha, beta)) for j in (1, 2))
    d.say("As gamma(x+1) = x gamma(x), for k = 1 and 2:", (first, second))
    return d.conclude("Mean and variance:", (simplest(first), simplest(second - first**2)))


def _prior_oracle(alpha: Any, beta: Any) -> tuple[Any, Any]:
    """From the law of two coins with one p: the mean share of ones, and their covariance."""
    none, one, both = counts(alpha, beta, 2)
    mean = one / 2 + both
    return rational(mean), rational(both * none - (one / 2) ** 2)


def _prior_simulate(alpha: float, beta: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p = gen.beta(alpha, beta, (reps, 2))
        return np.column_stack([p.mean(axis=1), (p[:, 0] - p[:, 1]) ** 2 / 2])

    return simulation.sample_means(draw, draws=2, count=2)


register(
    Claim(
        id="generative:bern:prior",
        title="Mean and variance of the Beta distribution",
        place="Section 2.2, footnote 3",
        statement="The Beta distribution has this mean and this variance.",
        latex=r"""\frac{\alpha}{\alpha+\beta}\text{ and the variance is }\frac{\alpha\beta}%
            {(\alpha+\beta)^{2}(\alpha+\beta+1)}""",
        kind="identity",
        variables=PRIOR,
        examples=({"alpha": 2, "beta": 3}, {"alpha": "1/2", "beta": 1}),
        printed=lambda alpha, beta: (alpha / (alpha + beta), alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1))),
        derive=_prior_derive,
        oracle=_prior_oracle,
        computed=lambda alpha, beta: (alpha / (alpha + beta), float(bernoulli.prior_variance(alpha, beta))),
        simulate=_prior_simulate,
        entries=("mean", "variance"),
        assumes={"prior": "known"},
        unit="probability, and its square",
    )
)

ONES = Variable("ones", "choice", "samples that are one", choices=(0, 1, 3))
ZEROS = Variable("zeros", "choice", "samples that are zero", choices=(1, 2, 4))


def _evidence_printed(alpha: Any, beta: Any, ones: int, zeros: int) -> Any:
    n, z = ones + zeros, ones
    # B(x + k, y)/B(x, y) is a ratio of rising factorials.
    return sp.binomial(n, z) * sp.rf(alpha, z) * sp.rf(beta, n - z) / sp.rf(alpha + beta, n)


def _evidence_derive(alpha: Any, beta: Any, ones: int, zeros: int) -> Derivation:
    d = Derivation()
    d.say("Each order of the samples has the probability E[p^z (1-p)^(n-z)]:", prior_moment(alpha, beta, ones, zeros))
    return d.conclude("There are C(n, z) orders:", sp.binomial(ones + zeros, ones) * prior_moment(alpha, beta, ones, zeros))


def _evidence_oracle(alpha: Any, beta: Any, ones: int, zeros: int) -> Any:
    """Sample by sample: given what was seen, the next is a one with the posterior mean."""
    a, b = fraction(alpha), fraction(beta)
    law = {(0, 0): Fraction(1)}
    for _ in range(ones + zeros):
        following: dict[tuple[int, int], Fraction] = {}
        for (up, down), weight in law.items():
            chance = (a + up) / (a + b + up + down)
            for key, w in (((up + 1, down), weight * chance), ((up, down + 1), weight * (1 - chance))):
                following[key] = following.get(key, Fraction(0)) + w
        law = following
    return rational(law[ones, zeros])


def _evidence_simulate(alpha: float, beta: float, ones: int, zeros: int) -> simulation.Simulation:
    return simulation.sample_means(
        lambda gen, reps: (draw_clients(gen, reps, alpha, beta, ones + zeros, 1)[1] == ones).astype(float)
    )


def _evidence_computed(alpha: float, beta: float, ones: int, zeros: int) -> float:
    """The zeros first, then the ones; every one after the first sample has the posterior mean so far."""
    chance = float(comb(ones + zeros, ones))
    for k in range(zeros):  # a zero among k zeros so far is a one of the mirrored prior
        chance *= beta / (alpha + beta) if k == 0 else float(bernoulli.posterior_mean(k, k, beta, alpha))
    for k in range(ones):
        chance *= float(bernoulli.posterior_mean(k, zeros + k, alpha, beta))
    return chance


register(
    Claim(
        id="generative:bern:evidence",
        title="Law of the number of ones",
        place="Section 5.2.1, P(z_i)",
        statement="""A client has z ones among n samples with this probability, over its p too. Judged for up to seven
            samples.""",
        latex=r"P(z_{i})=\binom{n}{z_{i}}\frac{B(z_{i}+\alpha,n-z_{i}+\beta)}{B(\alpha,\beta)}",
        kind="probability",
        variables=(*PRIOR, ONES, ZEROS),
        examples=({"alpha": 2, "beta": 3, "ones": 1, "zeros": 2}, {"alpha": "1/2", "beta": 1, "ones": 3, "zeros": 1}),
        printed=_evidence_printed,
        derive=_evidence_derive,
        oracle=_evidence_oracle,
        computed=_evidence_computed,
        assumes={"law": "bernoulli", "prior": "known"},
        simulate=_evidence_simulate,
        unit="probability",
        related=("generative:bern:posterior",),
    )
)


def _posterior_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    z = sp.Symbol("z", nonnegative=True)
    d.say("""Given p, z ones have probability C(n,z) p^z (1-p)^(n-z); times the prior's density this is proportional to
        p^(alpha+z-1) (1-p)^(beta+n-z-1), so its mean is a ratio of two Beta integrals:""")  # fmt: skip
    ratio = sp.gamma(alpha + z + 1) * sp.gamma(alpha + beta + n) / (sp.gamma(alpha + z) * sp.gamma(alpha + beta + n + 1))
    mean = d.say("As gamma(x+1) = x gamma(x), it is", sp.factor(sp.gammasimp(ratio)))
    slope = simplest(sp.diff(mean, z) * n)
    d.say("Affine in the share of ones z/n, with slope", slope)
    rest = simplest(mean.subs(z, 0))
    d.say("The posterior mean minimises the expected squared error among all functions of z.")
    weights = sp.symbols("w_0 w_1", real=True)
    risk = d.say("Among affine ones, w_0 z/n + w_1, the risk is", _posterior_objective(weights, alpha, beta, n))
    at = dict(zip(weights, (slope, rest), strict=True))
    d.say("and its slopes at these weights are", tuple(simplest(sp.diff(risk, w).subs(at)) for w in weights))
    return d.conclude("Slope and constant:", (slope, rest))


def _posterior_oracle(alpha: Any, beta: Any, n: Any) -> tuple[Any, Any]:
    means = [posterior_moment(alpha, beta, n, z, 1) for z in range(int(n) + 1)]
    steps = {b - a for a, b in pairwise(means)}
    if len(steps) != 1:
        raise ValueError("the posterior mean is not affine in the count")
    return rational(steps.pop() * int(n)), rational(means[0])


def _posterior_objective(x: tuple[Any, Any], alpha: Any, beta: Any, n: Any) -> Any:
    """Risk of x[0] z/n + x[1]."""
    p, p2, spread = prior_moment(alpha, beta, 1), prior_moment(alpha, beta, 2), prior_moment(alpha, beta, 1, 1)
    return x[0] ** 2 * (p2 + spread / n) + 2 * x[0] * x[1] * p + x[1] ** 2 - 2 * x[0] * p2 - 2 * x[1] * p + p2


def _posterior_simulate(alpha: float, beta: float, n: int) -> simulation.Simulation:
    middle = alpha / (alpha + beta)
    variance = middle * (1 - middle) * (alpha + beta + n) / ((alpha + beta + 1) * n)  # of a share of ones

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = (v[:, 0] for v in draw_clients(gen, reps, alpha, beta, n, 1))
        slope = (z / n - middle) * (p - middle) / variance  # its mean is the regression slope of p on z/n
        return np.stack([slope, p - slope * middle], axis=1)

    return simulation.sample_means(draw, labels=("slope", "constant"))


register(
    Claim(
        id="generative:bern:posterior",
        title="Posterior mean of a Bernoulli client",
        place="Section 2.2, known alpha, beta; Section 5.2.1",
        statement="""With z ones in n samples the posterior is Beta(z+alpha, n-z+beta) and its mean, which minimises the
            Bayesian risk, is a z/n + (1-a) alpha/(alpha+beta) with a = n/(alpha+beta+n).""",
        latex=r"""\widehat{p}_{i}=a\overline{X}_{i}+(1-a)\frac{\alpha}{\alpha+\beta},\qquad
            a=\nicefrac{{n}}{{\alpha+\beta+n}}""",
        kind="optimum",
        variables=KNOWN,
        examples=EXAMPLES,
        printed=lambda alpha, beta, n: (
            own_weight(alpha, beta, n),
            (1 - own_weight(alpha, beta, n)) * centre(alpha, beta),
        ),
        derive=_posterior_derive,
        oracle=_posterior_oracle,
        computed=lambda alpha, beta, n: (
            float(bernoulli.posterior_weight(alpha, beta, n)),
            float(bernoulli.posterior_mean(0, n, alpha, beta)),
        ),
        simulate=_posterior_simulate,
        objective=_posterior_objective,
        assumes={"prior": "known", "law": "bernoulli", "pivot": "truth"},
        decision="real",
        entries=("weight a on the client's share of ones", "constant"),
        unit="dimensionless",
        model=("BestMixture",),
    )
)


def _mse_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    a = d.lemma("generative:bern:posterior", "slope and constant of the posterior mean", alpha=alpha, beta=beta, n=n)[0]
    noise = d.say("Given p the share of ones has variance p(1-p)/n; over the prior", prior_moment(alpha, beta, 1, 1) / n)
    spread = d.say(
        "Variance of p:", simplest(prior_moment(alpha, beta, 2) - prior_moment(alpha, beta, 1) ** 2)
    )  # fmt: skip
    d.say("Given p the error of the share has mean zero, so the two parts of the error are uncorrelated.")
    return d.conclude("a^2 times the first plus (1-a)^2 times the second:", simplest(a**2 * noise + (1 - a) ** 2 * spread))


def _mse_oracle(alpha: Any, beta: Any, n: Any) -> Any:
    """Posterior variances, weighted by the probability of each count."""
    total = sum(
        probability * (posterior_moment(alpha, beta, n, z, 2) - posterior_moment(alpha, beta, n, z, 1) ** 2)
        for z, probability in enumerate(counts(alpha, beta, n))
    )
    return rational(Fraction(total))


def _errors(weight: float, alpha: float, beta: float, n: int, unit: float = 1.0) -> simulation.Simulation:
    """Squared error of weight z/n + (1 - weight) mean, in units of `unit`."""

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = draw_clients(gen, reps, alpha, beta, n, 1)
        return (weight * z / n + (1 - weight) * alpha / (alpha + beta) - p) ** 2 / unit

    return simulation.sample_means(draw, labels=("mean squared error",))


register(
    Claim(
        id="generative:bern:known-mse",
        title="Mean squared error with a known Beta prior",
        place="Section 2.2, known alpha, beta; Section 5.2.1",
        statement="The posterior mean has this mean squared error (Section 2.2 prints a bound, Section 5.2.1 an equality).",
        latex=r"\frac{\alpha\beta}{n(\alpha+\beta)(\alpha+\beta+1)}\Big(\frac{n}{\alpha+\beta+n}\Big)",
        kind="identity",
        variables=KNOWN,
        examples=EXAMPLES,
        printed=lambda alpha, beta, n: within(alpha, beta, n) * own_weight(alpha, beta, n),
        derive=_mse_derive,
        oracle=_mse_oracle,
        computed=lambda alpha, beta, n: float(bernoulli.mse(alpha, beta, n)),
        simulate=lambda alpha, beta, n: _errors(n / (alpha + beta + n), alpha, beta, n),
        unit="squared probability",
        related=("generative:bern:posterior",),
        remark="The bound of Section 2.2 is an equality; it is the least error of any estimate from the client's own data.",
        model=("Value(Mixed)", "LeastMixture"),
    )
)


def _local_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    d.say("Given p the share of ones is unbiased with variance p(1-p)/n.")
    return d.conclude("E[p(1-p)] is a Beta integral; over n:", simplest(prior_moment(alpha, beta, 1, 1) / n))


def _local_oracle(alpha: Any, beta: Any, n: Any) -> Any:
    total = Fraction(0)
    for z, probability in enumerate(counts(alpha, beta, n)):
        x = Fraction(z, int(n))
        first, second = (posterior_moment(alpha, beta, n, z, k) for k in (1, 2))
        total += probability * (x * x - 2 * x * first + second)
    return rational(total)


register(
    Claim(
        id="generative:bern:known-mse:local",
        title="Mean squared error of the local estimate",
        place="Section 2.2, known alpha, beta",
        statement="The client's own share of ones achieves this Bayesian risk.",
        latex=r"\mathbb{E}_{p_i\sim\pi}(p_i(1-p_i))/n=\nicefrac{{\alpha\beta}}{{n(\alpha+\beta)(\alpha+\beta+1)}}",
        kind="identity",
        variables=KNOWN,
        examples=EXAMPLES,
        printed=within,
        derive=_local_derive,
        oracle=_local_oracle,
        computed=lambda alpha, beta, n: float(bernoulli.local_mse(alpha, beta, n)),
        simulate=lambda alpha, beta, n: _errors(1.0, alpha, beta, n),
        assumes={"law": "bernoulli"},
        unit="squared probability",
        model=("Value(Own)",),
    )
)


def _gain_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    best, local = _mse_derive(alpha, beta, n).result, _local_derive(alpha, beta, n).result
    d.say("Risk of the posterior mean and of the local estimate:", (best, local))
    ratio = d.say("Their ratio:", simplest(best / local))
    return d.conclude("The ratio, and what is gained, a ratio of positive numbers:", (ratio, simplest(1 - ratio)))


def _gain_simulate(alpha: float, beta: float, n: int) -> simulation.Simulation:
    s = alpha + beta
    a, local = n / (s + n), alpha * beta / (n * s * (s + 1))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = (v[:, 0] for v in draw_clients(gen, reps, alpha, beta, n, 1))
        best = (a * z / n + (1 - a) * alpha / (alpha + beta) - p) ** 2
        return np.stack([best, (z / n - p) ** 2 - best], axis=1) / local

    return simulation.sample_means(draw, labels=("risk ratio", "gain"))


register(
    Claim(
        id="generative:bern:known-mse:gain",
        title="Gain of the posterior mean over the local estimate",
        place="Section 2.2, known alpha, beta",
        statement="""With a perfect prior the personalised estimate always outperforms the local one, by the factor a =
            n/(n+alpha+beta) <= 1. Judged as the ratio of the two risks, and its distance to 1.""",
        latex=r"a=\nicefrac{{n}}{{(n+\alpha+\beta)}}\leq 1",
        kind="identity",
        variables=KNOWN,
        examples=EXAMPLES,
        printed=lambda alpha, beta, n: (own_weight(alpha, beta, n), (alpha + beta) / (n + alpha + beta)),
        derive=_gain_derive,
        oracle=lambda alpha, beta, n: (
            ratio := _mse_oracle(alpha, beta, n) / _local_oracle(alpha, beta, n),
            1 - ratio,
        ),
        computed=lambda alpha, beta, n: (
            float(bernoulli.mse(alpha, beta, n) / bernoulli.local_mse(alpha, beta, n)),
            float(bernoulli.shrinkage_gain(alpha, beta, n)),
        ),
        simulate=_gain_simulate,
        entries=("risk over local risk", "relative gain, positive"),
        unit="dimensionless",
        related=("generative:bern:known-mse", "generative:bern:known-mse:local"),
        remark="The gain is strict for every n: (alpha+beta)/(n+alpha+beta) > 0.",
        model=("Value(Mixed, Own)",),
    )
)


def _limits_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    a = d.lemma("generative:bern:posterior", "with t n samples", alpha=alpha, beta=beta, n=t * n)[0]
    b = d.lemma("generative:bern:posterior", "with the prior (t alpha, t beta)", alpha=t * alpha, beta=t * beta, n=n)[0]
    d.say("The second prior has the same mean and variance alpha beta/((alpha+beta)^2 (t(alpha+beta)+1)), which tends to 0.")
    return d.conclude("For t to infinity, by degrees:", (sp.limit(a, t, sp.oo), sp.limit(b, t, sp.oo)))


def _limits_oracle(alpha: Any, beta: Any, n: Any) -> tuple[Any, Any]:
    """The weights are Moebius functions of t: their limits from exact values at three counts and three priors."""
    return (
        mobius_limit(lambda t: _posterior_oracle(alpha, beta, n * t)[0]),
        mobius_limit(lambda t: _posterior_oracle(alpha * t, beta * t, n)[0]),
    )


register(
    Claim(
        id="generative:bern:known-mse:limits",
        title="Limits of the posterior mean's weight",
        place="Section 2.2, known alpha, beta",
        statement="For n to infinity a tends to 1; for a prior of small variance (alpha+beta large) a tends to 0.",
        latex=r"n\to\infty:\ a\to 1,\qquad\alpha+\beta\to\infty:\ a\to 0",
        kind="limit",
        variables=KNOWN,
        examples=EXAMPLES,
        printed=lambda: (ONE, ZERO),
        derive=_limits_derive,
        oracle=_limits_oracle,
        approach=lambda t, alpha, beta, n: (own_weight(alpha, beta, t * n), own_weight(t * alpha, t * beta, n)),
        not_computed=Exempt(kind="constant"),
        not_simulated=Exempt(kind="limit", of=("generative:bern:posterior",)),
        entries=("many samples", "prior of small variance"),
        unit="dimensionless",
        related=("generative:bern:posterior",),
        model=("Limit(Optimum)",),
    )
)

__all__ = ["KNOWN", "own_weight"]
