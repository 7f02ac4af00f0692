"""The two-point randomiser (7): what private reports of Bernoulli clients can tell.

A two-point report's law depends on its mean only, so reports of the clients' shares of ones are blind to the prior's
variance; a protocol that does learn it is in bernoulli_protocol.py.

Belongs here: (7), (49)-(50), the estimates from the reports. Does not belong here: Theorem 4's bound
(bernoulli_private_bound.py), the working protocol, moments without privacy.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import nonnegative, simplest
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.beta_binomial import (
    M3,
    PRIOR,
    RISE,
    N,
    between,
    centre,
    counts,
    draw_clients,
    prior_moment,
)

INPUT = Variable("x", "fraction", "the number in [0, 1] to be reported", closed=True)
OTHER = Variable("x2", "fraction", "another input", closed=True)


def reports(x: Any, rise: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Values and probabilities of (7), with rise = e^eps0 - 1."""
    t = 1 + rise
    return (
        (-1 / (t - 1), t / (t + 1) - x * (t - 1) / (t + 1)),
        (t / (t - 1), 1 / (t + 1) + x * (t - 1) / (t + 1)),
    )


def chance_of_high(x: Any, rise: float) -> Any:
    """Probability of the higher value of (7), for simulations that enumerate reports."""
    return (1 + rise * x) / (2 + rise)


# --- the randomiser ----------------------------------------------------------------------------------------------------


def _q_derive(x: Any, E0: Any) -> Derivation:
    d = Derivation()
    two = reports(x, E0)
    total = simplest(sum(q for _, q in two))
    d.say("The two probabilities add up to", total)
    mean = d.say("Mean of the report:", simplest(sum(v * q for v, q in two)))
    ratios = []
    for one, another in ((0, 1), (1, 0)):
        for k in (0, 1):
            ratios.append(simplest(reports(sp.Integer(one), E0)[k][1] / reports(sp.Integer(another), E0)[k][1]))
    d.say("Each probability is affine in x, so the ratio for two inputs is largest at the ends of [0, 1]; there it is",
          tuple(ratios))  # fmt: skip
    largest = next(r for r in ratios if all(nonnegative(r - other) is True for other in ratios))
    return d.conclude("Mean, and largest ratio over inputs and outputs:", (mean, largest))


def _q_oracle(x: Any, E0: Any) -> tuple[Any, Any]:
    """The mean from the law; the ratio over a grid of inputs that contains the ends."""
    t = fraction(1 + E0)
    high = (1 + fraction(x) * (t - 1)) / (t + 1)
    mean = (t * high - (1 - high)) / (t - 1)
    grid = [Fraction(i, 6) for i in range(7)]
    laws = [(1 + g * (t - 1)) / (t + 1) for g in grid]
    largest = max(max(a / b, (1 - a) / (1 - b)) for a in laws for b in laws)
    return rational(mean), rational(largest)


def _q_simulate(x: float, E0: float) -> simulation.Simulation:
    eps = float(np.log1p(E0))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        report = bernoulli.randomize(np.full(reps, x), eps=eps, rng=gen)
        # Probability of the high report at input 1 over that at 0.
        ends = [bernoulli.randomize(np.full(reps, e), eps=eps, rng=gen) > 0 for e in (1.0, 0.0)]
        return np.stack([report, ends[0] * (2 + E0), ends[1] * (2 + E0) * (1 + E0)], axis=1)

    return simulation.sample_means(draw, labels=("mean", "at 1", "at 0, times"), of=[0, 1, 1])


register(
    Claim(
        id="generative:qpriv",
        title="The two-point randomiser: unbiased and eps0-LDP",
        place="Section 2.2, (7); Section 5.2.3, (49)-(50)",
        statement="""q^priv(x) has mean x, and no two inputs give an output with probabilities whose ratio exceeds e^eps0.
            Judged with E0 = e^eps0 - 1 > 0 as a letter, the largest ratio exactly.""",
        latex=r"""q^{\mathsf{priv}}(x)=\frac{-1}{e^{\epsilon_{0}}-1}\text{ w.p. }\frac{e^{\epsilon_{0}}}{e^{\epsilon_{0}}+1}%
            -x\frac{e^{\epsilon_{0}}-1}{e^{\epsilon_{0}}+1},\ \frac{e^{\epsilon_{0}}}{e^{\epsilon_{0}}-1}\text{ w.p. }%
            \frac{1}{e^{\epsilon_{0}}+1}+x\frac{e^{\epsilon_{0}}-1}{e^{\epsilon_{0}}+1};\qquad\mathbb{E}[q_p(x)]=x""",
        kind="probability",
        variables=(INPUT, RISE),
        examples=({"x": "1/2", "E0": 2}, {"x": "3/4", "E0": 1}),
        printed=lambda x, E0: (x, 1 + E0),
        derive=_q_derive,
        oracle=_q_oracle,
        not_computed=Exempt(kind="few"),
        simulate=_q_simulate,
        entries=("mean of the report", "largest ratio of probabilities"),
        unit="dimensionless",
        assumes={"adjacency": "replace"},
        remark="""Exactly eps0: the ratio is attained at the inputs 0 and 1. A client with n samples whose share of ones is
            reported is protected as a whole.""",
    )
)


def _ldp_derive(x: Any, x2: Any, E0: Any) -> Derivation:
    d = Derivation()
    gaps = []
    for k in (0, 1):
        gaps.append(simplest((1 + E0) * reports(x2, E0)[k][1] - reports(x, E0)[k][1]))
    d.say("e^eps0 times the probability under x2, minus that under x, for both outputs:", tuple(gaps))
    return d.conclude("Each is a sum of non-negative terms for x, x2 in [0, 1]:", tuple(gaps))


def _ldp_oracle(x: Any, x2: Any, E0: Any) -> tuple[Any, Any]:
    t, a, b = fraction(1 + E0), fraction(x), fraction(x2)
    ups = [(1 + v * (t - 1)) / (t + 1) for v in (a, b)]
    return rational(t * (1 - ups[1]) - (1 - ups[0])), rational(t * ups[1] - ups[0])


def _ldp_simulate(x: float, x2: float, E0: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        here, there = (bernoulli.randomize(np.full(reps, v), eps=float(np.log1p(E0)), rng=gen) > 0 for v in (x, x2))
        high = (1 + E0) * there - 1.0 * here
        return np.stack([E0 - high, high], axis=1)

    return simulation.sample_means(draw, draws=2, count=2)


register(
    Claim(
        id="generative:qpriv:ldp",
        title="eps0-LDP of the two-point randomiser for every pair of inputs",
        place="Section 5.2.3, (49)",
        statement="""Pr[q(x)=y] <= e^eps0 Pr[q(x')=y] for both outputs y and all x, x' in [0, 1]. Judged as the differences
            e^eps0 Pr[q(x')=y] - Pr[q(x)=y], which must not be negative.""",
        latex=r"\frac{\Pr[q_p(x)=y]}{\Pr[q_p(x^{\prime})=y]}\leq e^{\epsilon_{0}}",
        kind="probability",
        relation=">=",
        variables=(INPUT, OTHER, RISE),
        examples=({"x": "1/2", "x2": "1/3", "E0": 2},),
        printed=lambda: (sp.Integer(0), sp.Integer(0)),
        derive=_ldp_derive,
        oracle=_ldp_oracle,
        shifts=lambda x, x2: {
            x: sp.Symbol("i", nonnegative=True) / (1 + sp.Symbol("i", nonnegative=True)),
            x2: sp.Symbol("j", nonnegative=True) / (1 + sp.Symbol("j", nonnegative=True)),
        },
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.bernoulli.randomize", note="the report"),
        simulate=_ldp_simulate,
        tight=Tight(at={"x": 0, "x2": 1, "E0": 2}),
        entries=("low output", "high output"),
        unit="probability",
        assumes={"adjacency": "replace"},
    )
)


def _qvar_derive(x: Any, E0: Any) -> Derivation:
    d = Derivation()
    two = reports(x, E0)
    mean = d.say("Mean of the report:", simplest(sum(v * q for v, q in two)))
    square = d.say("Mean square:", simplest(sum(v**2 * q for v, q in two)))
    return d.conclude("Variance:", simplest(square - mean**2))


def _qvar_oracle(x: Any, E0: Any) -> Any:
    """Two points at distance w with probability h: w^2 h (1-h)."""
    t = fraction(1 + E0)
    high = (1 + fraction(x) * (t - 1)) / (t + 1)
    return rational(((t + 1) / (t - 1)) ** 2 * high * (1 - high))


register(
    Claim(
        id="generative:qpriv:variance",
        title="Variance of the two-point report",
        place="Section 2.2, (7) (not in the paper)",
        statement="The report has variance e^eps0/(e^eps0-1)^2 + x(1-x).",
        latex=r"\frac{e^{\epsilon_0}}{(e^{\epsilon_0}-1)^2}+x(1-x)",
        kind="identity",
        variables=(INPUT, RISE),
        examples=({"x": "1/2", "E0": 2}, {"x": 0, "E0": 1}),
        printed=lambda x, E0: (1 + E0) / E0**2 + x * (1 - x),
        derive=_qvar_derive,
        oracle=_qvar_oracle,
        computed=lambda x, E0: float(bernoulli.report_variance(x, eps=np.log1p(E0))),
        simulate=lambda x, E0: simulation.sample_means(
            lambda gen, reps: (bernoulli.randomize(np.full((reps, 1), x), eps=np.log1p(E0), rng=gen) - x) ** 2
        ),
        ours=True,
        assumes={"noise": "fresh"},
        unit="squared probability",
        related=("generative:qpriv",),
    )
)


# --- what the reports can tell -----------------------------------------------------------------------------------------

SAME_MEAN = (*PRIOR, N, RISE)


def _law_derive(alpha: Any, beta: Any, E0: Any) -> Derivation:
    d = Derivation()
    d.say("""Given the client's share of ones the high report has a probability affine in it; averaged over samples and prior
        only the mean of the share enters, and that is the prior's mean.""")  # fmt: skip
    high = reports(prior_moment(alpha, beta, 1), E0)[1][1]
    return d.conclude("Probability of the high report:", simplest(high))


def _law_oracle(alpha: Any, beta: Any, n: Any, E0: Any) -> Any:
    """Sum over the enumerated counts."""
    t = fraction(1 + E0)
    total = sum(q * (1 + Fraction(z, int(n)) * (t - 1)) / (t + 1) for z, q in enumerate(counts(alpha, beta, n)))
    return rational(total)


register(
    Claim(
        id="generative:thm4:identifiable",
        title="What two-point reports of shares of ones reveal: the prior's mean and nothing else",
        place="Section 2.2, private estimates (not in the paper)",
        statement="""A client's report is high with this probability, for every prior with that mean and every n. Reports of
            different clients are independent, so priors of equal mean give the same law of all reports: no estimate from
            them can learn sigma^2.""",
        latex=r"""\Pr[q^{\mathsf{priv}}(\overline X_i)=\tfrac{e^{\epsilon_0}}{e^{\epsilon_0}-1}]=%
            \frac{1+\mu(e^{\epsilon_0}-1)}{e^{\epsilon_0}+1}""",
        kind="probability",
        variables=SAME_MEAN,
        examples=({"alpha": 2, "beta": 3, "n": 2, "E0": 2}, {"alpha": "1/2", "beta": "3/4", "n": 3, "E0": 1}),
        printed=lambda alpha, beta, E0: (1 + centre(alpha, beta) * E0) / (2 + E0),
        derive=_law_derive,
        oracle=_law_oracle,
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.bernoulli.randomize", note="the report"),
        simulate=lambda alpha, beta, n, E0: simulation.sample_means(
            lambda gen, reps: _report_draw(gen, reps, alpha, beta, n, E0, 1) > 0
        ),
        ours=True,
        assumes={"law": "bernoulli"},
        unit="probability",
        related=("generative:qpriv",),
        remark="""Identifiable: mu = E[p]. Not identifiable: sigma^2, alpha+beta, the best weight a. A private estimate of
            sigma^2 needs a report whose mean is not affine in p: generative:thm4:protocol.""",
    )
)


def _report_draw(
    gen: np.random.Generator, reps: int, alpha: float, beta: float, n: int, E0: float, m: int
) -> np.ndarray:  # fmt: skip
    z = draw_clients(gen, reps, alpha, beta, n, m)[1]
    return bernoulli.randomize(z / n, eps=np.log1p(E0), rng=gen)


def _variance_computed(alpha: float, beta: float, E0: float) -> float:
    """Variance of a report, with 1 - mu not rounded."""
    s = alpha + beta
    return float(bernoulli.report_variance(0.0, eps=np.log1p(E0))) + (alpha / s) * (beta / s)


PRIVATE = (*PRIOR, N, M3, RISE)


def _pvar_derive(alpha: Any, beta: Any, n: Any, m: Any, E0: Any) -> Derivation:
    d = Derivation()
    mu = prior_moment(alpha, beta, 1)
    square = prior_moment(alpha, beta, 2) + prior_moment(alpha, beta, 1, 1) / n
    x = sp.Symbol("x")
    law = d.lemma("generative:qpriv:variance", "given the share of ones x a report has mean x and variance", x=x, E0=E0)
    noise = sp.Poly(sp.expand(law), x)
    c0, c1, c2 = (noise.coeff_monomial(x**k) for k in range(3))
    d.say("Average over x, and add the variance of x:", simplest(square - mu**2))
    v = d.say("Variance of a report:", simplest(c0 + c1 * mu + c2 * square + square - mu**2))
    d.say("sigma^2 and n have cancelled.")
    return d.conclude("The sum over l of squares around mu_hat_l, over m-2, has m/(m-2) times that mean:",
                      simplest(v * m / (m - 2)))  # fmt: skip


def _pvar_oracle(alpha: Any, beta: Any, n: Any, m: Any, E0: Any) -> Any:
    """All reports of all clients, two points each, and the printed estimate on each outcome."""
    t = fraction(1 + E0)
    high = sum(q * (1 + Fraction(z, int(n)) * (t - 1)) / (t + 1) for z, q in enumerate(counts(alpha, beta, n)))
    low_value, high_value = -1 / (t - 1), t / (t - 1)
    total, m = Fraction(0), int(m)
    for own in (0, 1):
        for k in range(m):
            weight = comb(m - 1, k) * high ** (k + own) * (1 - high) ** (m - k - own)
            others = [high_value] * k + [low_value] * (m - 1 - k)
            everyone = sum(others) + (high_value if own else low_value)
            squares = sum((x - (everyone - x) / (m - 1)) ** 2 for x in others)
            total += weight * squares / (m - 2)
    return rational(total)


def _pvar_simulate(alpha: float, beta: float, n: int, m: int, E0: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = _report_draw(gen, reps, alpha, beta, n, E0, m)
        centres = (x.sum(axis=1, keepdims=True) - x) / (m - 1)
        return ((x - centres)[:, 1:] ** 2).sum(axis=1, keepdims=True) / (m - 2)

    return simulation.sample_means(draw)


register(
    Claim(
        id="generative:thm4:variance-estimate",
        title="What the private estimate of the prior's variance estimates",
        place="Section 2.2, after (7); Section 5.2.3",
        statement="""sigma_hat_i^{2(priv)} = sum_{l != i} (q(xbar_l) - mu_hat_l)^2/(m-2) estimates sigma^2. Judged as its
            exact mean.""",
        latex=r"""\widehat{\sigma}_{i}^{2(\mathsf{priv})}=\frac{1}{m-2}\sum_{l\neq i}(q^{\mathsf{priv}}(\overline{X}_{l}))-%
            \widehat{\mu}_{l}^{\mathsf{priv}})^{2}""",
        kind="identity",
        variables=PRIVATE,
        examples=(
            {"alpha": 2, "beta": 3, "n": 2, "m": 4, "E0": 2},
            {"alpha": "1/2", "beta": 1, "n": 3, "m": 5, "E0": 4},
        ),
        printed=lambda alpha, beta: between(alpha, beta),
        derive=_pvar_derive,
        oracle=_pvar_oracle,
        corrected=lambda alpha, beta, m, E0: (
            (centre(alpha, beta) * (1 - centre(alpha, beta)) + (1 + E0) / E0**2) * m / (m - 2)
        ),
        corrected_text="m/(m-2) (mu(1-mu) + e^eps0/(e^eps0-1)^2): it depends on the prior's mean only",
        counterexample={"alpha": 1, "beta": 1, "n": 1, "m": 4, "E0": 1},
        computed=lambda alpha, beta, m, E0: _variance_computed(alpha, beta, E0) * m / (m - 2),
        simulate=_pvar_simulate,
        assumes={"law": "bernoulli"},
        unit="squared probability",
        finding="The private estimate of the clients' variance depends on their mean only, and not on their variance.",
        related=("generative:qpriv:variance", "generative:thm4:identifiable"),
        remark="""So the second line of (51), that it is close to sigma^2 with high probability, cannot hold: its mean is at
            least mu(1-mu), the largest variance that a prior of mean mu can have.""",
    )
)


def _pweight_derive(alpha: Any, beta: Any, n: Any, E0: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    mu = prior_moment(alpha, beta, 1)
    v = d.lemma("generative:thm4:variance-estimate", "with t clients", alpha=alpha, beta=beta, n=n, m=t, E0=E0)
    limit = d.say("With many clients the private variance estimate tends to", simplest(sp.limit(v, t, sp.oo)))
    return d.conclude("and the weight n/(mu(1-mu)/sigma_hat^2 + n) to", simplest(n / (mu * (1 - mu) / limit + n)))


def _pweight_oracle(alpha: Any, beta: Any, n: Any, E0: Any) -> Any:
    """Variance of one report as the mean square difference of two, put in the weight."""
    t = fraction(1 + E0)
    high = sum(q * (1 + Fraction(z, int(n)) * (t - 1)) / (t + 1) for z, q in enumerate(counts(alpha, beta, n)))
    values = {1: (t / (t - 1), high), 0: (-1 / (t - 1), 1 - high)}
    v = sum(p * q * (x - y) ** 2 for (x, p), (y, q) in product(values.values(), values.values())) / 2
    mu = sum(x * p for x, p in values.values())
    return rational(fraction(n) / (mu * (1 - mu) / v + fraction(n)))


def _pweight_approach(t: Any, alpha: Any, beta: Any, n: Any, E0: Any) -> Any:
    mu = centre(alpha, beta)
    v = (mu * (1 - mu) + (1 + E0) / E0**2) * t / (t - 2)
    return n / (mu * (1 - mu) / v + n)


def _pweight_computed(alpha: float, beta: float, n: int, E0: float) -> float:
    s = alpha + beta
    spread = (alpha / s) * (beta / s)
    return n / (spread / _variance_computed(alpha, beta, E0) + n)


register(
    Claim(
        id="generative:thm4:weight",
        title="Weight that the private estimates lead to",
        place="Section 2.2, private estimates, before Theorem 4",
        statement="""a_hat_i^priv = n/(mu_hat(1-mu_hat)/sigma_hat^2 + n) from the private reports stands for the weight
            n/(alpha+beta+n). Judged as its limit for many clients.""",
        latex=r"""\widehat{a}_{i}^{\mathsf{priv}}=\frac{n}{\nicefrac{{\widehat{\mu}_{i}^{\mathsf{priv}}(1-%
            \widehat{\mu}_{i}^{\mathsf{priv}})}}{{\widehat{\sigma}_{i}^{2(\mathsf{priv})}}}+n}""",
        kind="limit",
        variables=SAME_MEAN,
        examples=({"alpha": 2, "beta": 3, "n": 2, "E0": 2}, {"alpha": 10, "beta": 10, "n": 3, "E0": 1}),
        printed=lambda alpha, beta, n: n / (alpha + beta + n),
        derive=_pweight_derive,
        oracle=_pweight_oracle,
        corrected=lambda alpha, beta, n, E0: (
            n
            * (alpha * beta + (alpha + beta) ** 2 * (1 + E0) / E0**2)
            / ((n + 1) * alpha * beta + n * (alpha + beta) ** 2 * (1 + E0) / E0**2)
        ),
        corrected_text="""n/(mu(1-mu)/(mu(1-mu) + e^eps0/(e^eps0-1)^2) + n), always above n/(n+1): nearly the local estimate,
            whatever the clients' differences""",
        counterexample={"alpha": 1, "beta": 1, "n": 1, "E0": 1},
        approach=_pweight_approach,
        computed=_pweight_computed,
        not_simulated=Exempt(kind="limit", of=("generative:thm4:variance-estimate",)),
        finding="The private weight is nearly that of the local estimate, whatever the clients' differences.",
        unit="dimensionless",
        related=("generative:thm4:variance-estimate",),
        remark="More privacy noise makes the weight larger, towards 1: noise is mistaken for differences between clients.",
    )
)


__all__ = ["reports"]
