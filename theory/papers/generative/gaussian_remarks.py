"""What Section 2.1 says of the Gaussian estimate: James and Stein, Remark 1 on its gain, Remark 2 on its optimality.

Belongs here: the text of Section 2.1 around Theorem 1. Does not belong here: the estimate itself (gaussian.py), lower
bounds (bounds.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian
from estimators.montecarlo import JamesSteinExperiment, RegressionExperiment
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import covariance, mse
from theory.engine.registry import register
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
    groups,
    mobius_limit,
    own_weight,
    personal_error,
    printed_risk,
    printed_weight,
    server_mean,
    simulate_personal,
    simulate_theorem1,
)

# --- James-Stein --------------------------------------------------------------------------------------------

STEIN_M = Variable("m", "choice", "clients", choices=(5, 7, 11))
APART = Variable(
    "apart", "positive", "sum of squares of the parameters around their mean, over sigma2_x", within=("1/1000", 100)
)


def _stein_derive(m: int, apart: Any) -> Derivation:
    d = Derivation()
    u = sp.Symbol("u", positive=True)
    d.say("In units of sigma2_x, with S the sum of squares of the samples around their mean: by Stein's identity shrinking "
          "x_i - xbar by the factor 1 - (m-3)/S changes the sum of squared errors on average by -(m-3)^2 E[1/S].")  # fmt: skip
    d.say("S is a chi-square of m - 1 degrees of freedom, not central by `apart`. E[1/S] is the integral of E[exp(-tS)] over "
          "t > 0, which with u = 1/(1 + 2t) is half that of", u ** (sp.Rational(m - 1, 2) - 2) * sp.exp(-apart * (1 - u) / 2))  # fmt: skip
    inverse = d.say("over u from 0 to 1:", _inverse_chi_square(m - 1, apart))
    return d.conclude("Error per client, that of the own sample being 1:", 1 - sp.Integer((m - 3) ** 2) / m * inverse)


def _inverse_chi_square(k: int, apart: Any) -> Any:
    """E[1/S] for an even number k of degrees of freedom, by parts."""
    a, power = apart / 2, k // 2 - 2  # half the integral of u^power exp(-a (1-u))
    falling = [sp.ff(power, j) * (-1) ** j / a ** (j + 1) for j in range(power + 1)]
    return (sum(falling) - (-1) ** power * sp.factorial(power) * sp.exp(-a) / a ** (power + 1)) / 2


def _stein_oracle(m: int, apart: Any) -> Any:
    """The chi-square that is not central as a Poisson mixture of central ones, E[1/chi2_k] = 1/(k-2)."""
    with mpmath.workdps(60):
        half, inverse = mpmath.mpf(int(apart.p)) / int(apart.q) / 2, mpmath.mpf(0)
        weight = mpmath.exp(-half)
        for j in range(int(8 * half) + 120):
            inverse += weight / (m - 3 + 2 * j)
            weight *= half / (j + 1)
        return sp.Float(mpmath.nstr(1 - (m - 3) ** 2 * inverse / m, 50), 50)


def _stein_simulate(m: int, apart: float) -> simulation.Simulation:
    theta = np.zeros(m)
    theta[:2] = np.sqrt(apart / 2), -np.sqrt(apart / 2)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = theta + gen.standard_normal((reps, m))
        mean = x.mean(axis=1, keepdims=True)
        kept = 1 - (m - 3) / ((x - mean) ** 2).sum(axis=1, keepdims=True)
        return ((mean + kept * (x - mean) - theta) ** 2).mean(axis=1, keepdims=True)

    return simulation.sample_means(draw, draws=m)


register(
    Claim(
        id="generative:intro:stein",
        title="James-Stein shrinkage beats the single sample for all parameters at once",
        place="Section 1, footnote 1",
        statement="James and Stein's estimate uniformly improves the mean squared error averaged over the population, "
        "compared to the single local sample. Judged for given parameters, whatever they are: the error per client of "
        "shrinkage to the grand mean is at most that of the own sample.",
        latex=r"\text{This was shown to uniformly improve the mean-squared error averaged over the population, compared to an "
        r"estimate using just the single local sample.}",
        kind="upper bound",
        relation="<=",
        variables=(STEIN_M, APART),
        examples=({"m": 11, "apart": 4}, {"m": 11, "apart": "1/2"}),
        printed=lambda: ONE,
        derive=_stein_derive,
        oracle=_stein_oracle,
        not_computed="estimators has the error averaged over the prior, generative:thm1:james-stein",
        simulate=_stein_simulate,
        unit="multiples of sigma2_x, per client",
        related=("generative:thm1:james-stein",),
        remark="Averaged over clients only: a client far from all others loses. Nothing is gained with three clients or "
        "fewer. Judged for 5, 7 and 11 clients, whose formulas are elementary.",
    )
)

M4 = Variable("m", "size", "clients; James-Stein towards the mean needs 4", low=4)


def _james_stein_derive(m: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    s, a = sigma2_x, simplest(printed_weight(sigma2_theta, sigma2_x, ONE))
    b = d.say(
        "One sample each: x_i = theta_i + e_i. Theorem 1 keeps the known share 1 - B of x_i - xbar, with B =",
        simplest(1 - a),
    )
    d.say("James and Stein keep 1 - B_hat, B_hat = (m-3) s/S with S = sum (x_i - xbar)^2 and s = sigma2_x.")
    own, others = groups(m, sigma2_theta, s)
    error = personal_error(own, others, m, a)
    difference = own.estimates() - server_mean(own, others, m)
    base = d.say("The risk of Theorem 1's estimate is", mse(error))
    d.say(
        "Its error is uncorrelated with x_i - xbar (and, as these add to zero, with every x_k - xbar by "
        "symmetry), so it is independent of all of them and of S: covariance",
        simplest(covariance(error, difference)),
    )
    d.say("Hence James-Stein adds E[(B - B_hat)^2 (x_i - xbar)^2], which is E[(B - B_hat)^2 S]/m by symmetry.")
    variance = d.say("S is a chi-square of m - 1 degrees of freedom times the variance of x_i,", s + sigma2_theta)
    k = sp.Symbol("k", positive=True)
    inverse = sp.gammasimp(sp.gamma(k / 2 - 1) / (2 * sp.gamma(k / 2)))
    d.say("and E[1/chi-square_k] = Gamma(k/2 - 1)/(2 Gamma(k/2)) is", simplest(inverse))
    inverse = inverse.subs(k, m - 1)
    c = (m - 3) * s
    added = d.say(
        "Expand (B - B_hat)^2 S = B^2 S - 2 B (m-3) s + (m-3)^2 s^2/S and use E[S] and E[1/S]:",
        simplest((b**2 * variance * (m - 1) - 2 * b * c + c**2 * inverse / variance) / m),
    )
    return d.conclude("The risk per client is", simplest(base + added))


def _james_stein_oracle(m: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    """Stein's unbiased estimate of the risk, s (1 - (m-3)^2 s/(m S)) per client, averaged over S.

    E[1/S] is the integral of S's Laplace transform, E[exp(-t v chi2_k)] = (1 + 2 v t)^(-k/2).
    """
    v, u = sigma2_theta + sigma2_x, sp.Symbol("u", positive=True)
    inverse = sp.integrate(u ** (-(m - 1) / sp.Integer(2)), (u, 1, sp.oo)) / (2 * v)
    return sigma2_x * (1 - (m - 3) ** 2 * sigma2_x * inverse / m)


def _james_stein_simulate(m: int, sigma2_theta: float, sigma2_x: float) -> simulation.Simulation:
    a = own_weight(sigma2_theta, sigma2_x)[0]
    return simulation.Simulation(
        JamesSteinExperiment(m, 1.0, sigma2_theta, sigma2_x, shrink=a),
        (simulation.Mean("risk per client, James-Stein", [1, 0, 0]),),
    )


register(
    Claim(
        id="generative:thm1:james-stein",
        title="Is the estimator of Theorem 1 James-Stein's?",
        place="Section 2.1, first paragraph",
        statement="For a single local sample the setting's estimator is identical to the classical James-Stein estimator. "
        "Judged by the risk per client of James-Stein shrinkage to the grand mean, averaged over the prior: if the "
        "estimators were identical it would be that of Theorem 1 with n = 1.",
        latex=r"\text{For the case of a single local sample this is identical to the classical James-Stein estimator}",
        kind="identity",
        variables=(M4, SIGMA2_THETA, SIGMA2_X),
        examples=(
            {"m": 10, "sigma2_theta": 1, "sigma2_x": 2},
            {"m": 12, "sigma2_theta": "1/2", "sigma2_x": 1},
        ),
        printed=lambda m, sigma2_theta, sigma2_x: printed_risk(m, ONE, sigma2_theta, sigma2_x),
        derive=_james_stein_derive,
        oracle=_james_stein_oracle,
        computed=lambda m, sigma2_theta, sigma2_x: gaussian.james_stein_risk(m, sigma2_theta, sigma2_x, 1),
        simulate=_james_stein_simulate,
        counterexample={"m": 4, "sigma2_theta": 1, "sigma2_x": 1},
        corrected=lambda m, sigma2_theta, sigma2_x: (
            sigma2_x * ((a := printed_weight(sigma2_theta, sigma2_x, ONE)) + 3 * (1 - a) / m)
        ),
        corrected_text="sigma2_x (a + 3(1-a)/m): estimating the factor costs 2 sigma2_x (1-a)/m per client",
        unit="variance per client and coordinate",
        related=("generative:thm1:estimator", "generative:thm1:mse"),
        remark="Theorem 1 takes sigma2_theta as known, James and Stein estimate what it determines: (m-3) "
        "s/S is an unbiased estimate of 1 - a. The two agree as m grows. Simulated from m = 10, "
        "where squared errors have enough moments.",
    )
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
        statement="Without heterogeneity a tends to 0, so that the estimate tends to mu_hat; with much of it, or with many "
        "samples, a tends to 1, so that the estimate tends to the client's own mean.",
        latex=r"\sigma_{\theta}\to 0:\ a\to 0;\qquad\sigma_{\theta}^{2}\text{ large in comparison to }\sigma_{x}^{2}/n\text{ or }"
        r"n\to\infty:\ a\to 1",
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
        not_simulated="limits; the weight itself is simulated in generative:thm1:estimator",
        entries=("sigma2_theta to 0", "sigma2_theta to infinity", "n to infinity"),
        unit="dimensionless",
        related=("generative:thm1:estimator",),
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
        statement="Without heterogeneity the error is that of the global mean; with much of it, or with many samples, that "
        "of the client's own mean (for many samples, where both vanish: the ratio of the two tends to 1).",
        latex=r"\sigma_{\theta}\to 0:\ \text{MSE}\to d\sigma_{x}^{2}/mn;\qquad\sigma_{\theta}^{2}\text{ large in comparison "
        r"to }\sigma_{x}^{2}/n\text{ or }n\to\infty:\ \text{MSE}\to d\sigma_{x}^{2}/n",
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
            concrete_risk(m, printed_weight(sigma2_theta, sigma2_x, n), sigma2_theta, sigma2_x / n) * n / sigma2_x
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
        shifts=lambda m, **_: {m: 1 + sp.Symbol("more", nonnegative=True)},
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
    return concrete_risk(PAPER_M, printed_weight(sigma2_theta, PAPER_SIGMA2_X, PAPER_N), sigma2_theta, s) / s


register(
    Claim(
        id="generative:remark1",
        title="The example: personalised error a hundredth of the local one",
        place="Section 2.1, Remark 1",
        statement="The ratio of personalised to local mean squared error is 1/m without heterogeneity and "
        "0.01 for m = 10^4, n = 100, sigma2_x = 10, sigma2_theta = 10^-3.",
        latex=r"\text{equal to }1/m\text{ when }\sigma_{\theta}=0\text{ and equal to }0.01\text{ when "
        r"}m=10^{4},n=100\text{ and }\sigma_{x}^{2}=10,\sigma_{\theta}^{2}=10^{-3}",
        kind="number",
        variables=(PAPER_SIGMA2_THETA,),
        examples=({"sigma2_theta": "1/1000"}, {"sigma2_theta": 0}),
        printed=lambda sigma2_theta: sp.Rational(1, 100) if sigma2_theta else 1 / PAPER_M,
        derive=_number_derive,
        oracle=_number_oracle,
        computed=lambda sigma2_theta: gaussian.risk(sigma2_theta, 10.0, 100, 10**4) / gaussian.local_risk(10.0, 100),
        not_simulated="ten thousand clients; the same formula is simulated for a few in generative:remark1:gap",
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
    a = simplest(printed_weight(sigma2_theta, sigma2_x, n))
    own, others = groups(m, sigma2_theta if sup_over == "mu" else ZERO, sigma2_x / n)
    error = personal_error(own, others, m, a)
    proof.say("Coefficient of mu in the estimate's error:", simplest(error.centre))
    risk = mse(error)
    if sup_over == "mu":
        largest = proof.lemma("generative:thm1:mse", "so the risk averaged over theta is the same for every mu, also the "
                              "largest:", m=m, n=n, d=d, sigma2_theta=sigma2_theta, sigma2_x=sigma2_x)  # fmt: skip
        return proof.conclude("The worst risk over mu, over d coordinates:", largest)
    proof.say("Given theta the sampling errors alone contribute the variance", risk)
    square = proof.say(
        "and (1-a)(mean of theta - theta_i) is the bias. Its square grows without bound with the distance "
        "of theta_i from the mean:",
        (1 - a) ** 2 * deviation**2,
    )
    return proof.conclude("The risk at such theta, over d coordinates:", d * (risk + square))


def _remark2_oracle(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any, sup_over: str, deviation: Any) -> Any:
    a = printed_weight(sigma2_theta, sigma2_x, n)
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
        statement="The minimax lower bound over theta matches the estimator's error, so the estimator is "
        "optimal. Judged: the estimator's worst risk is at most the printed bound.",
        latex=r"\inf_{\widehat{\bm{\theta}}}\sup_{\bm{\theta}\in\Theta}\mathbb{E}_{X\sim\mathcal{N}(\bm{\theta},"
        r"\sigma_{x}^{2})}\|\widehat{\bm{\theta}}(X)-\bm{\theta}\|^{2}\geq\frac{d\sigma_{x}^{2}}{n}\big{(}\frac{1-a}{m}+a"
        r"\big{)},\text{ which exactly matches the upper bound on the MSE in Theorem 1}",
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
        condition=lambda sup_over: sp.true if sup_over == "mu" else sp.false,
        condition_text="sup_over == mu (the worst case is over the population mean; theta is averaged over "
        "the population around it)",
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
        remark="Theorem 1 averages over the prior, Remark 2 takes the worst theta. For the worst theta the "
        "estimator's risk is unbounded (its bias grows with the distance of theta_i from the "
        "others), and the minimax estimate is the own mean, with risk d sigma2_x/n.",
    )
)
