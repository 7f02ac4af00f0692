"""What Section 2.1 says of the Gaussian estimate: Remark 1 on its gain, Remark 2 on its optimality.

Belongs here: the text of Section 2.1 around Theorem 1. Does not belong here: the estimate itself (gaussian.py), James
and Stein's (james_stein.py), lower bounds (bounds.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian
from estimators.montecarlo import RegressionExperiment
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import covariance, mse
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import (
    GAUSSIAN_EXAMPLES,
    M2,
    ONE,
    SIGMA2_THETA,
    SIGMA2_THETA_POSITIVE,
    SIGMA2_X,
    ZERO,
    D,
    M,
    N,
    concrete,
    concrete_risk,
    concrete_weight,
    groups,
    mobius_limit,
    own_weight,
    personal_error,
    printed_risk,
    printed_weight,
    simulate_personal,
    simulate_theorem1,
)

# --- Remark 1 -----------------------------------------------------------------------------------------------


def _weight_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    v, k = sp.symbols("v k", positive=True)
    a = d.lemma("generative:thm1:estimator", "the first is a", m=m, n=n, sigma2_theta=sigma2_theta, sigma2_x=sigma2_x)[0]
    low = d.say("As sigma2_theta falls to 0 it tends to", limit(a.subs(sigma2_theta, v), v, 0))
    high = d.say("As sigma2_theta grows it tends to", limit(a.subs(sigma2_theta, v), v, sp.oo))
    return d.conclude("With n the third:", (low, high, limit(a.subs(n, k), k, sp.oo)))


def _weight_oracle(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, ...]:
    def own(v: Any, s: Any) -> Any:
        clients = concrete(m, v, s)
        weights = clients.posterior(clients.parameter[0], clients.estimate)[0]
        return rational(weights[0] - weights[1])

    return (
        own(0, sigma2_x / n),
        mobius_limit(lambda v: own(v, sigma2_x / n)),
        mobius_limit(lambda k: own(sigma2_theta, sigma2_x / k)),
    )


register(
    Claim(
        id="generative:remark1:weight",
        title="Limits of the personalised estimate's weight",
        place="Section 2.1, Remark 1",
        statement="""Without heterogeneity a tends to 0, so that the estimate tends to mu_hat; with much of it, or with many
            samples, a tends to 1, so that the estimate tends to the client's own mean.""",
        latex=r"""\sigma_{\theta}\to 0:\ a\to 0;\qquad\sigma_{\theta}^{2}\text{ large in comparison to }\sigma_{x}^{2}/n%
            \text{ or }n\to\infty:\ a\to 1""",
        kind="limit",
        variables=(M2, N, SIGMA2_THETA_POSITIVE, SIGMA2_X),
        examples=(
            {"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3},
            {"m": 3, "n": 1, "sigma2_theta": "1/2", "sigma2_x": 1},
        ),
        printed=lambda: (ZERO, ONE, ONE),
        derive=_weight_derive,
        oracle=_weight_oracle,
        computed=lambda n, sigma2_theta, sigma2_x: (
            gaussian.shrinkage_factor(0.0, sigma2_x, n),
            gaussian.shrinkage_factor(np.inf, sigma2_x, n),
            gaussian.shrinkage_factor(sigma2_theta, 0.0, 1),
        ),
        approach=lambda t, n, sigma2_theta, sigma2_x: (
            printed_weight(1 / t, sigma2_x, n),
            printed_weight(t, sigma2_x, n),
            printed_weight(sigma2_theta, sigma2_x, t),
        ),
        not_simulated=Exempt(kind="limit", of=("generative:thm1:estimator",)),
        entries=("sigma2_theta to 0", "sigma2_theta to infinity", "n to infinity"),
        unit="dimensionless",
        related=("generative:thm1:estimator",),
        model=("Limit(Optimum)",),
    )
)


def _ratio(d: Derivation, m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    own, _ = groups(m, sigma2_theta, sigma2_x / n)
    one = d.lemma("generative:thm1:mse", "per coordinate", m=m, n=n, sigma2_theta=sigma2_theta, sigma2_x=sigma2_x, d=ONE)
    local = d.say("and the client's own mean", mse(own.estimates() - own.parameters()))
    return d.say("Their ratio is", simplest(one / local)), local


def _limits_derive(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    proof = Derivation()
    ratio, local = _ratio(proof, m, n, sigma2_theta, sigma2_x)
    v, k = sp.Symbol("v", positive=True), sp.Symbol("k", positive=True)
    risk = d * simplest(ratio * local)
    low = proof.say("As sigma2_theta falls to 0 the error tends to", limit(risk.subs(sigma2_theta, v), v, 0))
    high = proof.say("As sigma2_theta grows it tends to", limit(risk.subs(sigma2_theta, v), v, sp.oo))
    many = proof.say("As n grows both errors vanish, and their ratio tends to", limit(ratio.subs(n, k), k, sp.oo))
    return proof.conclude("The three limits:", (low, high, many))


def _limits_approach(t: Any, m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, ...]:
    def risk(v: Any, samples: Any) -> Any:
        error = personal_error(*groups(m, v, sigma2_x / samples), m, printed_weight(v, sigma2_x, samples))
        return covariance(error, error)

    return d * risk(1 / t, n), d * risk(t, n), risk(sigma2_theta, t) * t / sigma2_x


def _least_risk(m: Any, sigma2_theta: Any, s: Any) -> Any:
    clients = concrete(m, sigma2_theta, s)
    return rational(clients.posterior(clients.parameter[0], clients.estimate)[1])


register(
    Claim(
        id="generative:remark1:limits",
        title="Limits of the personalised estimate's error",
        place="Section 2.1, Remark 1",
        statement="""Without heterogeneity the error is that of the global mean; with much of it, or with many samples, that
            of the client's own mean (for many samples, where both vanish: the ratio of the two tends to 1).""",
        latex=r"""\sigma_{\theta}\to 0:\ \text{MSE}\to d\sigma_{x}^{2}/mn;\qquad\sigma_{\theta}^{2}%
            \text{ large in comparison to }\sigma_{x}^{2}/n\text{ or }n\to\infty:\ \text{MSE}\to d\sigma_{x}^{2}/n""",
        kind="limit",
        variables=(M, N, D, SIGMA2_THETA_POSITIVE, SIGMA2_X),
        examples=GAUSSIAN_EXAMPLES,
        printed=lambda m, n, d, sigma2_x: (d * sigma2_x / (m * n), d * sigma2_x / n, 1),
        derive=_limits_derive,
        oracle=lambda m, n, d, sigma2_theta, sigma2_x: (
            d * _least_risk(m, 0, sigma2_x / n),
            d * mobius_limit(lambda v: _least_risk(m, v, sigma2_x / n)),
            mobius_limit(lambda k: _least_risk(m, sigma2_theta, sigma2_x / k) * k / sigma2_x),
        ),
        computed=lambda m, n, d, sigma2_theta, sigma2_x: (
            gaussian.risk(0.0, sigma2_x, n, m, d=d),
            gaussian.risk(np.inf, sigma2_x, n, m, d=d),
            gaussian.shrinkage_factor(sigma2_theta, 0.0, 1),
        ),
        simulate=lambda m, n, d, sigma2_x: simulate_personal(
            m, 0.0, 0.0, sigma2_x / n, d=d, entry=0, label="error of the global mean without heterogeneity"
        ),
        approach=_limits_approach,
        entries=(
            "MSE, sigma2_theta to 0",
            "MSE, sigma2_theta to infinity",
            "ratio to the own mean's MSE, n to infinity",
        ),
        unit="variance, summed over coordinates; the last a ratio",
        remark="Simulated at sigma2_theta = 0.",
        model=("Limit(Mixed)", "Limit(Mixed, Own)"),
    )
)


def _gap_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    ratio, _ = _ratio(d, m, n, sigma2_theta, sigma2_x)
    return d.conclude("It is at most 1; equality needs m = 1 (or sigma2_theta without bound):", ratio)


register(
    Claim(
        id="generative:remark1:gap",
        title="The personalised estimate is never worse than the own mean",
        place="Section 2.1, Remark 1",
        statement="The ratio of the personalised to the local mean squared error is at most 1.",
        latex=r"(\frac{1-a}{m}+a)\leq 1",
        kind="order",
        variables=(M, N, SIGMA2_THETA, SIGMA2_X),
        examples=(
            {"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3},
            {"m": 3, "n": 1, "sigma2_theta": 0, "sigma2_x": 1},
        ),
        printed=lambda: ONE,
        relation="<=",
        derive=_gap_derive,
        oracle=lambda m, n, sigma2_theta, sigma2_x: (
            concrete_risk(m, concrete_weight(sigma2_theta, sigma2_x / n), sigma2_theta, sigma2_x / n) * n / sigma2_x
        ),
        computed=lambda m, n, sigma2_theta, sigma2_x: (
            gaussian.risk(sigma2_theta, sigma2_x, n, m) / gaussian.local_risk(sigma2_x, n)
        ),
        simulate=lambda m, n, sigma2_theta, sigma2_x: simulate_personal(
            m,
            own_weight(sigma2_theta, sigma2_x / n)[0],
            sigma2_theta,
            sigma2_x / n,
            unit=sigma2_x / n,
            label="error of client 0 over that of its own mean",
        ),
        model=("Value(Mixed, Own)",),
        shifts=lambda m, **_: {m: 1 + sp.Symbol("more", nonnegative=True)},
        tight=Tight(at={"m": 1, "n": 1, "sigma2_theta": 1, "sigma2_x": 1}),
        unit="ratio",
    )
)

# The paper's numbers; only sigma2_theta takes two values.
PAPER_M, PAPER_N, PAPER_SIGMA2_X = sp.Integer(10**4), sp.Integer(100), sp.Integer(10)
PAPER_SIGMA2_THETA = Variable(
    "sigma2_theta",
    "choice",
    "variance of the clients' parameters; the other numbers are m = 10^4, n = 100, sigma2_x = 10",
    choices=(sp.Rational(1, 1000), ZERO),
)


def _number_derive(sigma2_theta: Any) -> Derivation:
    d = Derivation()
    v = sp.Symbol("sigma2_theta", nonnegative=True)
    ratio, _ = _ratio(d, PAPER_M, PAPER_N, v, PAPER_SIGMA2_X)
    return d.conclude(f"At sigma2_theta = {sigma2_theta}:", ratio.subs(v, sigma2_theta))


@lru_cache
def _number_oracle(sigma2_theta: Any) -> Any:
    s = PAPER_SIGMA2_X / PAPER_N
    return concrete_risk(PAPER_M, concrete_weight(sigma2_theta, s), sigma2_theta, s) / s


register(
    Claim(
        id="generative:remark1",
        title="The example: personalised error a hundredth of the local one",
        place="Section 2.1, Remark 1",
        statement="""The ratio of personalised to local mean squared error is 1/m without heterogeneity and 0.01 for m =
            10^4, n = 100, sigma2_x = 10, sigma2_theta = 10^-3.""",
        latex=r"""\text{equal to }1/m\text{ when }\sigma_{\theta}=0\text{ and equal to }0.01\text{ when }m=10^{4},n=100%
            \text{ and }\sigma_{x}^{2}=10,\sigma_{\theta}^{2}=10^{-3}""",
        kind="number",
        variables=(PAPER_SIGMA2_THETA,),
        examples=({"sigma2_theta": "1/1000"}, {"sigma2_theta": 0}),
        printed=lambda sigma2_theta: sp.Rational(1, 100) if sigma2_theta else 1 / PAPER_M,
        derive=_number_derive,
        oracle=_number_oracle,
        computed=lambda sigma2_theta: gaussian.risk(sigma2_theta, 10.0, 100, 10**4) / gaussian.local_risk(10.0, 100),
        not_simulated=Exempt(kind="part", of=("generative:thm1:mse",), note="ten thousand clients"),
        unit="ratio",
        remark="Exact: a = 1/101, and (1-a)/m + a = (1/100 + 1)/101 = 1/100.",
    )
)


# --- Remark 2 -----------------------------------------------------------------------------------------------


def _fixed_parameters(thetas: list[float], a: float, s: float, d: int, label: str) -> simulation.Simulation:
    """Squared error of client 1 in one of d coordinates, parameters given: no prior noise, sampling errors of variance s."""
    m = len(thetas)
    gain = a * np.eye(m) + (1 - a) / m
    row = np.eye(1 + m)[1]
    return simulation.Simulation(
        RegressionExperiment(np.eye(m), thetas, 0.0, s, gain, 0.0),
        (simulation.Mean(label, row, of=lambda risk: risk / d, back=lambda mean: mean * d),),
    )


SUP_OVER = Variable(
    "sup_over",
    "choice",
    "what the worst case is over. mu: the population mean, with theta drawn around it; theta: the clients' parameters",
    choices=("mu", "theta"),
    default="mu",
)
DEVIATION = Variable(
    "deviation",
    "real",
    "mean of all clients' theta minus theta_i, the same in every coordinate (only for sup_over = theta)",
    default=ZERO,
)


def _remark2_derive(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any, sup_over: str, deviation: Any) -> Derivation:
    proof = Derivation()
    a = proof.lemma("generative:thm1:estimator", "the first is the weight a", m=m, n=n, sigma2_theta=sigma2_theta,
                    sigma2_x=sigma2_x)[0]  # fmt: skip
    own, others = groups(m, sigma2_theta if sup_over == "mu" else ZERO, sigma2_x / n)
    error = personal_error(own, others, m, a)
    proof.say("Coefficient of mu in the estimate's error:", simplest(error.centre))
    risk = mse(error)
    if sup_over == "mu":
        largest = proof.lemma("generative:thm1:mse", """so the risk averaged over theta is the same for every mu, also the
            largest:""", m=m, n=n, d=d, sigma2_theta=sigma2_theta, sigma2_x=sigma2_x)  # fmt: skip
        return proof.conclude("The worst risk over mu, over d coordinates:", largest)
    proof.say("Given theta the sampling errors alone contribute the variance", risk)
    square = proof.say(
        """and (1-a)(mean of theta - theta_i) is the bias. Its square grows without bound with the distance of theta_i from
        the mean:""",
        (1 - a) ** 2 * deviation**2,
    )
    return proof.conclude("The risk at such theta, over d coordinates:", d * (risk + square))


def _remark2_oracle(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any, sup_over: str, deviation: Any) -> Any:
    a = concrete_weight(sigma2_theta, sigma2_x / n)
    if sup_over == "mu":
        return d * concrete_risk(m, a, sigma2_theta, sigma2_x / n)
    thetas = [ZERO, *[deviation * m / (m - 1)] * int(m - 1)]
    estimated = a * thetas[0] + (1 - a) * sum(thetas) / m
    return d * (concrete_risk(m, a, 0, sigma2_x / n) + (estimated - thetas[0]) ** 2)


def _remark2_computed(
    m: int, n: int, d: int, sigma2_theta: float, sigma2_x: float, sup_over: str, deviation: float
) -> float:
    if sup_over == "mu":
        return gaussian.risk(sigma2_theta, sigma2_x, n, m, d=d)
    thetas = np.append(0.0, np.full(m - 1, deviation * m / (m - 1)))
    return d * gaussian.conditional_risk(thetas, 0, sigma2_theta, sigma2_x, n)


def _remark2_simulate(
    m: int,
    n: int,
    d: int,
    sigma2_theta: float,
    sigma2_x: float,
    sup_over: str,
    deviation: float,
) -> simulation.Simulation:
    a, s = own_weight(sigma2_theta, sigma2_x / n)[0], sigma2_x / n
    if sup_over == "mu":
        return simulate_theorem1(m, n, d, sigma2_theta, sigma2_x)
    thetas = [0.0, *[deviation * m / (m - 1)] * (m - 1)]
    return _fixed_parameters(thetas, a, s, d, "risk of client 1 at given theta")


register(
    Claim(
        id="generative:remark2",
        title="Minimax optimality of the personalised estimate",
        place="Section 2.1, Remark 2",
        statement="""The minimax lower bound over theta matches the estimator's error, so the estimator is optimal. Judged:
            the estimator's worst risk is at most the printed bound.""",
        latex=r"""\inf_{\widehat{\bm{\theta}}}\sup_{\bm{\theta}\in\Theta}%
            \mathbb{E}_{X\sim\mathcal{N}(\bm{\theta},\sigma_{x}^{2})}\|\widehat{\bm{\theta}}(X)-\bm{\theta}\|^{2}\geq%
            \frac{d\sigma_{x}^{2}}{n}\big{(}\frac{1-a}{m}+a\big{)},%
            \text{ which exactly matches the upper bound on the MSE in Theorem 1}""",
        kind="upper bound",
        variables=(M2, N, D, SIGMA2_THETA, SIGMA2_X, SUP_OVER, DEVIATION),
        examples=(
            {"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3},
            {"m": 3, "n": 1, "sigma2_theta": 1, "sigma2_x": 1, "sup_over": "theta", "deviation": 2},
        ),
        printed=lambda m, n, d, sigma2_theta, sigma2_x: printed_risk(m, n, sigma2_theta, sigma2_x, d),
        relation="<=",
        derive=_remark2_derive,
        oracle=_remark2_oracle,
        computed=_remark2_computed,
        simulate=_remark2_simulate,
        model=("Value(Mixed)",),
        condition=lambda sup_over: sp.true if sup_over == "mu" else sp.false,
        condition_text="""sup_over == mu (the worst case is over the population mean; theta is averaged over the population
            around it)""",
        counterexample={
            "m": 2,
            "n": 1,
            "sigma2_theta": 1,
            "sigma2_x": 1,
            "sup_over": "theta",
            "deviation": 2,
        },
        unit="variance, summed over coordinates",
        related=("generative:eq47", "generative:thm1:unbiased"),
        tight=Tight(at={"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3}),
        remark="""Theorem 1 averages over the prior, Remark 2 takes the worst theta. For the worst theta the estimator's risk
            is unbounded (its bias grows with the distance of theta_i from the others), and the minimax estimate is the
            own mean, with risk d sigma2_x/n.""",
    )
)
