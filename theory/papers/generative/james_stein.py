"""James and Stein's estimate, which Sections 1 and 2.1 compare with that of Theorem 1.

Belongs here: risks of James-Stein shrinkage. Does not belong here: the estimate with a known variance (gaussian.py).
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import covariance, mse
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import (
    ONE,
    SIGMA2_THETA,
    SIGMA2_X,
    groups,
    personal_error,
    printed_risk,
    server_mean,
)

# --- James-Stein --------------------------------------------------------------------------------------------

STEIN_M = Variable("m", "choice", "clients", choices=(2, 3, 5, 7))
APART = Variable(
    "apart",
    "positive",
    "sum of squares of the parameters around their mean, over sigma2_x",
    within=("1/1000", 100),
    why="certified",
)


def _stein_derive(m: int, apart: Any) -> Derivation:
    d = Derivation()
    u, t = sp.symbols("u t", positive=True)
    d.say(
        """In units of sigma2_x, with S the sum of squares of the samples around their mean: by Stein's identity shrinking
        x_i - xbar by the factor 1 - (m-3)/S changes the sum of squared errors on average by -(m-3)^2 E[1/S]."""
    )
    if m == 3:
        kept = d.say("Of x_i - xbar is kept the share", 1 - (m - 3) / u)
        return d.conclude("Error per client, that of the own sample being 1:", kept**2)
    if m == 2:
        part = d.say("""S is the square of one normal number, whose density does not vanish at 0; the sum of squared errors
            holds (m-3)^2/S, whose mean is at least a positive number times""",
            sp.integrate(t ** sp.Rational(-3, 2), (t, u, 1)))  # fmt: skip
        return d.conclude("for any u > 0. Error per client, that of the own sample being 1:", 1 + sp.limit(part, u, 0))
    d.say(
        """S is a chi-square of m - 1 degrees of freedom, not central by `apart`. E[1/S] is the integral of E[exp(-tS)] over
        t > 0; with u = 1/(1 + 2t) it is half the integral over u from 0 to 1 of""",
        u ** (sp.Rational(m - 1, 2) - 2) * sp.exp(-apart * (1 - u) / 2),
    )
    inverse = d.say("By parts:", _inverse_chi_square(m - 1, apart))
    return d.conclude("Error per client, that of the own sample being 1:", 1 - sp.Integer((m - 3) ** 2) / m * inverse)


def _inverse_chi_square(k: int, apart: Any) -> Any:
    """E[1/S] for an even number k of degrees of freedom, by parts."""
    a, power = apart / 2, k // 2 - 2  # half the integral of u^power exp(-a (1-u))
    falling = [sp.ff(power, j) * (-1) ** j / a ** (j + 1) for j in range(power + 1)]
    return (sum(falling) - (-1) ** power * sp.factorial(power) * sp.exp(-a) / a ** (power + 1)) / 2


def _stein_oracle(m: int, apart: Any) -> Any:
    """The chi-square that is not central as a Poisson mixture of central ones, E[1/chi2_k] = 1/(k-2)."""
    if m == 2:
        return sp.oo  # E[1/chi2_1]
    if m == 3:
        return ONE
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


def _stein_float(m: int, apart: float) -> Any:
    return gaussian.james_stein_conditional_risk([np.sqrt(apart / 2), -np.sqrt(apart / 2), *(m - 2) * [0.0]], 1.0, 1)


register(
    Claim(
        id="generative:intro:stein",
        title="James-Stein shrinkage beats the single sample for all parameters at once",
        place="Section 1, footnote 1",
        statement="""James and Stein's estimate uniformly improves the mean squared error averaged over the population,
            compared to the single local sample. Judged for given parameters, whatever they are: the error per client of
            shrinkage to the grand mean is at most that of the own sample.""",
        latex=r"""\text{This was shown to uniformly improve the mean-squared error averaged over the population, compared to
            an estimate using just the single local sample.}""",
        kind="upper bound",
        relation="<=",
        variables=(STEIN_M, APART),
        examples=({"m": 7, "apart": 20}, {"m": 7, "apart": 10}),
        printed=lambda: ONE,
        derive=_stein_derive,
        oracle=_stein_oracle,
        computed=_stein_float,
        condition=lambda m: sp.true if m >= 3 else sp.false,
        condition_text="m >= 3 (with three clients nothing is shrunk; from four on the error is smaller)",
        counterexample={"m": 2, "apart": 1},
        tight=Tight(at={"m": 5, "apart": 100}, ratio="1.00806451613"),
        assumes={"given": "parameters"},
        simulate=_stein_simulate,
        unit="multiples of sigma2_x, per client",
        related=("generative:thm1:james-stein",),
        remark="""Averaged over clients only: a client far from all others loses. With two clients the error is infinite,
            with three it is the own sample's. Of more clients judged for 5 and 7, whose formulas are elementary; certified
            for `apart` from 0.001 to 100.""",
    )
)

M4 = Variable("m", "size", "clients; James-Stein towards the mean needs 4", low=4)


def _james_stein_derive(m: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    s = sigma2_x
    a = d.lemma("generative:thm1:estimator", "with one sample the weight a is the first of", m=m, n=ONE,
                sigma2_theta=sigma2_theta, sigma2_x=s)[0]  # fmt: skip
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
        """Its error is uncorrelated with x_i - xbar (and, as these add to zero, with every x_k - xbar by symmetry), so it is
        independent of all of them and of S: covariance""",
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
    """The error of the mean, and what clients are apart from it, in axes that turn with it."""

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        truth, noise = simulation.turned(gen, reps, 2, m - 1)
        noise = np.sqrt(sigma2_x) * noise
        sample = np.sqrt(sigma2_theta) * truth + noise
        kept = 1 - (m - 3) * sigma2_x / (sample**2).sum(axis=0)
        apart = (kept * sample - (sample - noise)) ** 2
        return ((sigma2_x * gen.standard_normal(reps) ** 2 + apart.sum(axis=0)) / m)[:, None]

    return simulation.sample_means(draw, labels=["risk per client, James-Stein"], draws=4)


register(
    Claim(
        id="generative:thm1:james-stein",
        title="Is the estimator of Theorem 1 James-Stein's?",
        place="Section 2.1, first paragraph",
        statement="""For a single local sample the setting's estimator is identical to the classical James-Stein estimator.
            Judged by the risk per client of James-Stein shrinkage to the grand mean, averaged over the prior: if the
            estimators were identical it would be that of Theorem 1 with n = 1.""",
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
        corrected=lambda m, sigma2_theta, sigma2_x: sigma2_x * (sigma2_theta + 3 * sigma2_x / m) / (sigma2_theta + sigma2_x),
        corrected_text="sigma2_x (a + 3(1-a)/m): estimating the factor costs 2 sigma2_x (1-a)/m per client",
        unit="variance per client and coordinate",
        finding="James and Stein estimate the shrinkage that Theorem 1 takes as known, which costs a little more error.",
        assumes={"given": "nothing"},
        related=("generative:thm1:estimator", "generative:thm1:mse"),
        remark="""Theorem 1 takes sigma2_theta as known, James and Stein estimate what it determines: (m-3) s/S is an
            unbiased estimate of 1 - a. The two agree as m grows. Simulated from m = 10, where squared errors have enough
            moments.""",
    )
)
