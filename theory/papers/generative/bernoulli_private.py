"""The two-point randomiser (7) and Theorem 4: what private reports of Bernoulli clients can tell.

A two-point report's law depends on its mean only, so reports of the clients' shares of ones are blind to the prior's
variance; a protocol that does learn it is in bernoulli_protocol.py.

Belongs here: (7), (49)-(52). Does not belong here: the working protocol, moments without privacy.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from math import comb
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import nonnegative, simplest
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
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
REPLACE = "user-level LDP: any two inputs of one client (replacement)"


def reports(x: Any, rise: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Values and probabilities of (7), with rise = e^eps0 - 1."""
    t = 1 + rise
    return (
        (-1 / (t - 1), t / (t + 1) - x * (t - 1) / (t + 1)),
        (t / (t - 1), 1 / (t + 1) + x * (t - 1) / (t + 1)),
    )


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
        statement="q^priv(x) has mean x, and no two inputs give an output with probabilities whose ratio exceeds e^eps0. "
        "Judged with E0 = e^eps0 - 1 > 0 as a letter, the largest ratio exactly.",
        latex=r"q^{\mathsf{priv}}(x)=\frac{-1}{e^{\epsilon_{0}}-1}\text{ w.p. }\frac{e^{\epsilon_{0}}}{e^{\epsilon_{0}}+1}"
        r"-x\frac{e^{\epsilon_{0}}-1}{e^{\epsilon_{0}}+1},\ \frac{e^{\epsilon_{0}}}{e^{\epsilon_{0}}-1}\text{ w.p. }"
        r"\frac{1}{e^{\epsilon_{0}}+1}+x\frac{e^{\epsilon_{0}}-1}{e^{\epsilon_{0}}+1};\qquad\mathbb{E}[q_p(x)]=x",
        kind="probability",
        variables=(INPUT, RISE),
        examples=({"x": "1/2", "E0": 2}, {"x": "3/4", "E0": 1}),
        printed=lambda x, E0: (x, 1 + E0),
        derive=_q_derive,
        oracle=_q_oracle,
        computed=lambda x, E0: (x, float(np.exp(np.log1p(E0)))),
        simulate=_q_simulate,
        entries=("mean of the report", "largest ratio of probabilities"),
        unit="dimensionless",
        assumptions=(REPLACE,),
        remark="Exactly eps0: the ratio is attained at the inputs 0 and 1. A client with n samples whose share of ones is "
        "reported is protected as a whole.",
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


register(
    Claim(
        id="generative:qpriv:ldp",
        title="eps0-LDP of the two-point randomiser for every pair of inputs",
        place="Section 5.2.3, (49)",
        statement="Pr[q(x)=y] <= e^eps0 Pr[q(x')=y] for both outputs y and all x, x' in [0, 1]. Judged as the differences "
        "e^eps0 Pr[q(x')=y] - Pr[q(x)=y], which must not be negative.",
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
        not_computed="a difference of probabilities, exact",
        not_simulated="generative:qpriv simulates both probabilities",
        entries=("low output", "high output"),
        unit="probability",
        assumptions=(REPLACE,),
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
        unit="squared probability",
        related=("generative:qpriv",),
    )
)


# --- what the reports can tell -----------------------------------------------------------------------------------------

SAME_MEAN = (*PRIOR, N, RISE)


def _law_derive(alpha: Any, beta: Any, E0: Any) -> Derivation:
    d = Derivation()
    d.say("Given the client's share of ones the high report has a probability affine in it; averaged over samples and prior "
          "only the mean of the share enters, and that is the prior's mean.")  # fmt: skip
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
        statement="A client's report is high with this probability, for every prior with that mean and every n. Reports of "
        "different clients are independent, so priors of equal mean give the same law of all reports: no estimate from them "
        "can learn sigma^2.",
        latex=r"\Pr[q^{\mathsf{priv}}(\overline X_i)=\tfrac{e^{\epsilon_0}}{e^{\epsilon_0}-1}]="
        r"\frac{1+\mu(e^{\epsilon_0}-1)}{e^{\epsilon_0}+1}",
        kind="probability",
        variables=SAME_MEAN,
        examples=({"alpha": 2, "beta": 3, "n": 2, "E0": 2}, {"alpha": "1/2", "beta": "3/4", "n": 3, "E0": 1}),
        printed=lambda alpha, beta, E0: (1 + centre(alpha, beta) * E0) / (2 + E0),
        derive=_law_derive,
        oracle=_law_oracle,
        computed=lambda alpha, beta, E0: (1 + E0 * (alpha / (alpha + beta))) / (2 + E0),
        simulate=lambda alpha, beta, n, E0: simulation.sample_means(
            lambda gen, reps: _report_draw(gen, reps, alpha, beta, n, E0, 1) > 0
        ),
        ours=True,
        unit="probability",
        related=("generative:qpriv",),
        remark="Identifiable: mu = E[p]. Not identifiable: sigma^2, alpha+beta, the best weight a. A private estimate of "
        "sigma^2 needs a report whose mean is not affine in p: generative:thm4:protocol.",
    )
)


def _report_draw(
    gen: np.random.Generator, reps: int, alpha: float, beta: float, n: int, E0: float, m: int
) -> np.ndarray:  # fmt: skip
    z = draw_clients(gen, reps, alpha, beta, n, m)[1]
    return bernoulli.randomize(z / n, eps=np.log1p(E0), rng=gen)


PRIVATE = (*PRIOR, N, M3, RISE)


def _pvar_derive(alpha: Any, beta: Any, n: Any, m: Any, E0: Any) -> Derivation:
    d = Derivation()
    mu = prior_moment(alpha, beta, 1)
    square = prior_moment(alpha, beta, 2) + prior_moment(alpha, beta, 1, 1) / n
    x = sp.Symbol("x")
    law = d.say("Given the share of ones x a report has mean x and variance", simplest(_qvar_derive(x, E0).result))
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
        statement="sigma_hat_i^{2(priv)} = sum_{l != i} (q(xbar_l) - mu_hat_l)^2/(m-2) estimates sigma^2. Judged as its "
        "exact mean.",
        latex=r"\widehat{\sigma}_{i}^{2(\mathsf{priv})}=\frac{1}{m-2}\sum_{l\neq i}(q^{\mathsf{priv}}(\overline{X}_{l}))-"
        r"\widehat{\mu}_{l}^{\mathsf{priv}})^{2}",
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
        unit="squared probability",
        related=("generative:qpriv:variance", "generative:thm4:identifiable"),
        remark="So the second line of (51), that it is close to sigma^2 with high probability, cannot hold: its mean is at "
        "least mu(1-mu), the largest variance that a prior of mean mu can have.",
    )
)


def _pweight_derive(alpha: Any, beta: Any, n: Any, E0: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    mu = prior_moment(alpha, beta, 1)
    v = _pvar_derive(alpha, beta, n, t, E0).result
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


def _pweight_printed(alpha: Any, beta: Any, n: Any) -> Any:
    return n / (alpha + beta + n)


register(
    Claim(
        id="generative:thm4:weight",
        title="Weight that the private estimates lead to",
        place="Section 2.2, private estimates, before Theorem 4",
        statement="a_hat_i^priv = n/(mu_hat(1-mu_hat)/sigma_hat^2 + n) from the private reports stands for the weight "
        "n/(alpha+beta+n). Judged as its limit for many clients.",
        latex=r"\widehat{a}_{i}^{\mathsf{priv}}=\frac{n}{\nicefrac{{\widehat{\mu}_{i}^{\mathsf{priv}}(1-\widehat{\mu}_{i}^"
        r"{\mathsf{priv}})}}{{\widehat{\sigma}_{i}^{2(\mathsf{priv})}}}+n}",
        kind="limit",
        variables=SAME_MEAN,
        examples=({"alpha": 2, "beta": 3, "n": 2, "E0": 2}, {"alpha": 10, "beta": 10, "n": 3, "E0": 1}),
        printed=_pweight_printed,
        derive=_pweight_derive,
        oracle=_pweight_oracle,
        corrected=lambda alpha, beta, n, E0: (
            n
            * (alpha * beta + (alpha + beta) ** 2 * (1 + E0) / E0**2)
            / ((n + 1) * alpha * beta + n * (alpha + beta) ** 2 * (1 + E0) / E0**2)
        ),
        corrected_text="n/(mu(1-mu)/(mu(1-mu) + e^eps0/(e^eps0-1)^2) + n), always above n/(n+1): nearly the local estimate, "
        "whatever the clients' differences",
        counterexample={"alpha": 1, "beta": 1, "n": 1, "E0": 1},
        approach=_pweight_approach,
        computed=lambda alpha, beta, n, E0: _pweight_computed(alpha, beta, n, E0),
        not_simulated="a limit; generative:thm4:variance-estimate is simulated",
        unit="dimensionless",
        related=("generative:thm4:variance-estimate",),
        remark="More privacy noise makes the weight larger, towards 1: noise is mistaken for differences between clients.",
    )
)


def _pweight_computed(alpha: float, beta: float, n: int, E0: float) -> float:
    s = alpha + beta
    spread = (alpha / s) * (beta / s)
    return n / (spread / _variance_computed(alpha, beta, E0) + n)


def _variance_computed(alpha: float, beta: float, E0: float) -> float:
    """Variance of a report, with 1 - mu not rounded."""
    s = alpha + beta
    return float(bernoulli.report_variance(0.0, eps=np.log1p(E0))) + (alpha / s) * (beta / s)


# --- the events of (51) ------------------------------------------------------------------------------------------------


def _constant_derive(E0: Any) -> Derivation:
    d = Derivation()
    (low, _), (high, _) = reports(sp.Integer(0), E0)
    width = d.say("Reports lie between two points at distance", simplest(high - low))
    d.say("Hoeffding: a mean of m-1 independent numbers in an interval of width w misses its mean by more than t with "
          "probability at most 2 exp(-2 (m-1) t^2/w^2).")  # fmt: skip
    return d.conclude("Factor of -(m-1) t^2 in the exponent:", simplest(2 / width**2))


def _constant_oracle(E0: Any) -> Any:
    """No larger factor holds for all t: near the mean the exponent is that of the normal law, 1/(2 variance)."""
    t = fraction(1 + E0)
    law = [(1 + Fraction(i, 8) * (t - 1)) / (t + 1) for i in range(9)]
    largest = max(((t + 1) / (t - 1)) ** 2 * h * (1 - h) for h in law)
    return rational(1 / (2 * largest))


register(
    Claim(
        id="generative:thm4:hoeffding",
        title="Tail of the private mean",
        place="Section 5.2.3, (51)",
        statement="By Hoeffding's inequality |mu_hat^priv - mu| > t has probability at most 2 exp(-kappa (m-1) t^2) with "
        "kappa = 3 (e^eps0-1)^2/(e^eps0+1)^2. Judged as the largest kappa that is valid for all priors, t and m.",
        latex=r"\Pr[|\hat{\mu}_i^{(p)}-\mu|>t]\leq 2\exp\left(\frac{-3(e^{\epsilon_0}-1)^2(m-1)t^2}{(e^{\epsilon_0}+1)^2}"
        r"\right)",
        kind="probability",
        variables=(RISE,),
        examples=({"E0": 2}, {"E0": 1}),
        printed=lambda E0: 3 * E0**2 / (2 + E0) ** 2,
        derive=_constant_derive,
        oracle=_constant_oracle,
        corrected=lambda E0: 2 * E0**2 / (2 + E0) ** 2,
        corrected_text="2 (e^eps0-1)^2/(e^eps0+1)^2; with 3 the inequality is false (generative:thm4:hoeffding:tail)",
        counterexample={"E0": 1},
        computed=lambda E0: 2 * (E0 / (2 + E0)) ** 2,
        not_simulated="a constant in an exponent; generative:thm4:hoeffding:tail gives an exact tail",
        unit="per squared probability",
        related=("generative:qpriv",),
        remark="The 3 is carried into c_p and into the theorem's last term, where 2 belongs (generative:thm4:bound:radius). "
        "The second line of (51), on sigma_hat^2, is false for another reason: generative:thm4:variance-estimate.",
    )
)


TAIL_CLIENTS = Variable("m", "choice", "clients", choices=(2, 5, 12))
TAIL_SHARE = sp.Rational(49, 100)  # deviation t as a share of the distance of the two reports


@cache
def _tail_derive(m: int) -> Derivation:
    d = Derivation()
    d.say("For a prior of mean 1/2 the m-1 reports are fair coins with values at distance w. Their mean misses mu by more "
          f"than t = {TAIL_SHARE} w only if nearly all agree; for m-1 < 50, only if all do.")  # fmt: skip
    total = sp.Integer(2) * sp.Rational(1, 2) ** (m - 1)
    return d.conclude("Probability:", total)


def _tail_oracle(m: int) -> Any:
    bad = 0
    for outcome in range(2 ** (m - 1)):
        ones = Fraction(outcome.bit_count(), m - 1)
        bad += abs(ones - Fraction(1, 2)) > Fraction(49, 100)
    return sp.Rational(bad, 2 ** (m - 1))


register(
    Claim(
        id="generative:thm4:hoeffding:tail",
        title="An exact tail beyond the printed inequality",
        place="Section 5.2.3, (51)",
        statement="The first line of (51) for a prior of mean 1/2 and t = 0.49 (e^eps0+1)/(e^eps0-1), for any eps0.",
        latex=r"2\exp\left(\frac{-3(e^{\epsilon_0}-1)^2(m-1)t^2}{(e^{\epsilon_0}+1)^2}\right)",
        kind="probability",
        relation="<=",
        variables=(TAIL_CLIENTS,),
        examples=({"m": 5}, {"m": 2}),
        printed=lambda m: 2 * sp.exp(-3 * (m - 1) * TAIL_SHARE**2),
        derive=_tail_derive,
        oracle=cache(_tail_oracle),
        corrected=lambda m: sp.Integer(2) ** (2 - m),
        corrected_text="the exact probability is 2^(2-m)",
        counterexample={"m": 2},
        computed=lambda m: 2.0 ** (2 - m),
        not_simulated="enumerated exactly",
        unit="probability",
        related=("generative:thm4:hoeffding",),
        remark="At m = 2 the probability is 1, and the printed bound 0.97.",
    )
)


LOGARITHM = Variable("L", "positive", "log(4 m^2 n)")


def _radius_derive(m: Any, L: Any, E0: Any) -> Derivation:
    d = Derivation()
    kappa = d.say("Factor in the exponent of Hoeffding's inequality:", _constant_derive(E0).result)
    d.say("2 exp(-kappa (m-1) c^2) is 1/(2 m^2 n) = 2 exp(-L) at kappa (m-1) c^2 = L.")
    return d.conclude("c^2 =", simplest(L / (kappa * (m - 1))))


def _radius_oracle(m: Any, L: Any, E0: Any) -> Any:
    """From the largest variance of a report: c^2 = 2 L variance/(m-1)."""
    t = fraction(1 + E0)
    return 2 * L * rational(t / (t - 1) ** 2 + Fraction(1, 4)) / (m - 1)


register(
    Claim(
        id="generative:thm4:bound:radius",
        title="Radius c_p of the event of Theorem 4",
        place="Section 5.2.3, after (51); last term of Theorem 4 and (52)",
        statement="|mu_hat^priv - mu| <= c_p has probability at least 1 - 1/(2 m^2 n) with this c_p^2, by Hoeffding.",
        latex=r"c_p=\sqrt{\frac{(e^{\epsilon_0}+1)^2\log(4m^2n)}{3(e^{\epsilon_0}-1)^2(m-1)}}",
        kind="probability",
        variables=(Variable("m", "size", "clients", low=2), LOGARITHM, RISE),
        examples=({"m": 10, "L": 6, "E0": 2},),
        printed=lambda m, L, E0: (2 + E0) ** 2 * L / (3 * E0**2 * (m - 1)),
        derive=_radius_derive,
        oracle=_radius_oracle,
        corrected=lambda m, L, E0: (2 + E0) ** 2 * L / (2 * E0**2 * (m - 1)),
        corrected_text="(e^eps0+1)^2 log(4 m^2 n)/(2 (e^eps0-1)^2 (m-1))",
        counterexample={"m": 3, "L": 1, "E0": 1},
        computed=lambda m, L, E0: ((2 + E0) / E0) ** 2 * L / (2 * (m - 1)),
        not_simulated="a radius",
        unit="squared probability",
        related=("generative:thm4:hoeffding",),
    )
)


BOUND_CLIENTS = Variable("m", "choice", "clients", choices=(10, 100, 1000))
BOUND_SAMPLES = Variable("n", "choice", "samples per client", choices=(1, 20, 10**12))


def _too_far(k: int, m: int, n: int, deciding: int = 40) -> bool:
    """Whether k high reports among m-1 put the private mean outside c_p: (k/(m-1) - 1/2)^2 > L/(3 (m-1))."""
    with mpmath.workdps(deciding):
        return bool(mpmath.mpf((2 * k - (m - 1)) ** 2) * 3 > 4 * (m - 1) * mpmath.log(4 * m * m * n))


@cache
def _bound_derive(m: int, n: int) -> Derivation:
    d = Derivation()
    d.say("Given the others' reports the error is a^2 E[p(1-p)]/n + (1-a)^2 (sigma^2 + (mu_hat - mu)^2) for the weight a "
          "that they give, so the bound holds exactly when |mu_hat - mu| <= c_p.")  # fmt: skip
    d.say("For a prior of mean 1/2 the others' reports are fair coins; in units of the reports' distance c_p^2 is "
          "log(4 m^2 n)/(3 (m-1)).")  # fmt: skip
    bad = sum(comb(m - 1, k) for k in range(m) if _too_far(k, m, n))
    return d.conclude("Probability that it fails:", sp.Rational(bad, 2 ** (m - 1)))


@cache
def _bound_oracle(m: int, n: int) -> Any:
    """The same by walking out from the middle of Pascal's triangle, built row by row."""
    row = [1]
    for _ in range(m - 1):
        row = [a + b for a, b in zip([*row, 0], [0, *row], strict=True)]
    inside = 0
    for k, ways in enumerate(row):
        distance = abs(Fraction(k, m - 1) - Fraction(1, 2))
        limit = sp.sqrt(sp.log(4 * m * m * n) / (3 * (m - 1)))
        inside += ways if sp.N(rational(distance) - limit, 30) <= 0 else 0
    return 1 - sp.Rational(inside, 2 ** (m - 1))


register(
    Claim(
        id="generative:thm4:bound",
        title="Theorem 4: probability that the private error bound fails",
        place="Section 2.2, Theorem 4; proof in Section 5.2.3",
        statement="With probability at least 1 - 1/(mn) over the others' reports the squared error is at most "
        "E[a^2] E[p(1-p)]/n + E[(1-a)^2] (sigma^2 + c_p^2). Judged as the exact probability that it fails, for one client "
        "and a prior of mean 1/2.",
        latex=r"\mathbb{E}[(\widehat{a}_{i}^{\mathsf{priv}})^{2}]\big{(}\frac{\alpha\beta}{n(\alpha+\beta)(\alpha+\beta+1)}"
        r"\big{)}+\mathbb{E}[(1-\widehat{a}_{i}^{\mathsf{priv}})^{2}]\big{(}\frac{\alpha\beta}{(\alpha+\beta)^{2}(\alpha+"
        r"\beta+1)}+\frac{(e^{\epsilon_{0}}+1)^{2}\log(4m^{2}n)}{3(e^{\epsilon_{0}}-1)^{2}(m-1)}\big{)}",
        kind="probability",
        relation="<=",
        variables=(BOUND_CLIENTS, BOUND_SAMPLES),
        examples=({"m": 1000, "n": 1},),
        printed=lambda m, n: sp.Rational(1, m * n),
        derive=_bound_derive,
        oracle=_bound_oracle,
        condition=lambda m, n: sp.true if n <= 2 * m else sp.false,
        condition_text="n <= 2 m (there Hoeffding with the right constant gives 2 (4 m^2 n)^(-2/3) <= 1/(m n))",
        counterexample={"m": 1000, "n": 10**12},
        not_computed="a tail of exact binomial sums",
        not_simulated="probabilities of 1e-6 and less, enumerated exactly",
        unit="probability",
        related=("generative:thm4:bound:radius", "generative:qpriv"),
        assumptions=("a_hat_i^priv and mu_hat_i^priv are functions of the other clients' reports only",),
        remark="Independent of eps0. With the 3 in c_p the proof's union bound gives 1 - 2 m (4 m^2 n)^(-2/3), less "
        "than the claimed 1 - 1/(mn); at m = 1000, n = 1e12 the bound fails 40 times as often as claimed. And where it is "
        "true it says little: the weight is nearly 1 for every prior (generative:thm4:weight).",
    )
)

__all__ = ["REPLACE", "reports"]
