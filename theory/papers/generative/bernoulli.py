"""Bernoulli clients whose Beta prior is known (Sections 2.2 and 5.2.1): posterior mean, its error, the local error.

Belongs here: claims with known alpha, beta. Does not belong here: estimating the prior (bernoulli_moments.py), privacy.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
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


def _posterior_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    z = sp.Symbol("z", nonnegative=True)
    d.say("Given p, z ones have probability C(n,z) p^z (1-p)^(n-z); times the prior's density this is proportional to "
          "p^(alpha+z-1) (1-p)^(beta+n-z-1), so its mean is a ratio of two Beta integrals:")  # fmt: skip
    ratio = sp.gamma(alpha + z + 1) * sp.gamma(alpha + beta + n) / (sp.gamma(alpha + z) * sp.gamma(alpha + beta + n + 1))
    mean = d.say("As gamma(x+1) = x gamma(x), it is", sp.factor(sp.gammasimp(ratio)))
    slope = simplest(sp.diff(mean, z) * n)
    d.say("Affine in the share of ones z/n, with slope", slope)
    rest = simplest(mean.subs(z, 0))
    d.say("The posterior mean minimises the expected squared error among all functions of z.")
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
    variance = float(bernoulli.naive_variance_mean(alpha, beta, n))

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
        statement="With z ones in n samples the posterior is Beta(z+alpha, n-z+beta) and its mean, which minimises the "
        "Bayesian risk, is a z/n + (1-a) alpha/(alpha+beta) with a = n/(alpha+beta+n).",
        latex=r"\widehat{p}_{i}=a\overline{X}_{i}+(1-a)\frac{\alpha}{\alpha+\beta},\qquad "
        r"a=\nicefrac{{n}}{{\alpha+\beta+n}}",
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
        decision="real",
        entries=("weight a on the client's share of ones", "constant"),
        unit="dimensionless",
    )
)


def _mse_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    a = d.say("Weight of the posterior mean:", own_weight(alpha, beta, n))
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
        unit="squared probability",
    )
)


register(
    Claim(
        id="generative:bern:known-mse:gain",
        title="Gain of the posterior mean over the local estimate",
        place="Section 2.2, known alpha, beta",
        statement="With a perfect prior the personalised estimate always outperforms the local one, by the factor "
        "a = n/(n+alpha+beta) <= 1. Judged as the ratio of the two risks, and its distance to 1.",
        latex=r"a=\nicefrac{{n}}{{(n+\alpha+\beta)}}\leq 1",
        kind="identity",
        variables=KNOWN,
        examples=EXAMPLES,
        printed=lambda alpha, beta, n: (own_weight(alpha, beta, n), (alpha + beta) / (n + alpha + beta)),
        derive=lambda alpha, beta, n: _gain_derive(alpha, beta, n),
        oracle=lambda alpha, beta, n: (
            ratio := _mse_oracle(alpha, beta, n) / _local_oracle(alpha, beta, n),
            1 - ratio,
        ),
        computed=lambda alpha, beta, n: (
            float(bernoulli.mse(alpha, beta, n) / bernoulli.local_mse(alpha, beta, n)),
            float(bernoulli.shrinkage_gain(alpha, beta, n)),
        ),
        simulate=lambda alpha, beta, n: _gain_simulate(alpha, beta, n),
        entries=("risk over local risk", "relative gain, positive"),
        unit="dimensionless",
        related=("generative:bern:known-mse", "generative:bern:known-mse:local"),
        remark="The gain is strict for every n: (alpha+beta)/(n+alpha+beta) > 0.",
    )
)


def _gain_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    best, local = _mse_derive(alpha, beta, n).result, _local_derive(alpha, beta, n).result
    d.say("Risk of the posterior mean and of the local estimate:", (best, local))
    ratio = d.say("Their ratio:", simplest(best / local))
    return d.conclude("The ratio, and what is gained, a ratio of positive numbers:", (ratio, simplest(1 - ratio)))


def _gain_simulate(alpha: float, beta: float, n: int) -> simulation.Simulation:
    a, local = n / (alpha + beta + n), float(bernoulli.local_mse(alpha, beta, n))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = (v[:, 0] for v in draw_clients(gen, reps, alpha, beta, n, 1))
        best = (a * z / n + (1 - a) * alpha / (alpha + beta) - p) ** 2
        return np.stack([best, (z / n - p) ** 2 - best], axis=1) / local

    return simulation.sample_means(draw, labels=("risk ratio", "gain"))


def _limits_derive(alpha: Any, beta: Any, n: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    a, b, _ = d.say("With t n samples, and with the prior (t alpha, t beta), the posterior mean's weights are",
                    (own_weight(alpha, beta, t * n), own_weight(t * alpha, t * beta, n), t))  # fmt: skip
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
        not_computed="constants",
        not_simulated="limits",
        entries=("many samples", "prior of small variance"),
        unit="dimensionless",
        related=("generative:bern:posterior",),
    )
)

__all__ = ["KNOWN", "own_weight"]
