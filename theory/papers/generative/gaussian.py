"""Theorem 1: the estimator in the Gaussian model without constraints, and its error.

Belongs here: (2)-(3), (24)-(27), (30), (32). Does not belong here: the steps between (gaussian_proof.py), what the text says
of it (gaussian_remarks.py), bounds (bounds.py), noisy messages (messages.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian
from theory.engine import simulation
from theory.engine.algebra import simplest, stationary_point
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import (
    GAUSSIAN,
    GAUSSIAN_EXAMPLES,
    M2,
    ONE,
    SIGMA2_THETA,
    SIGMA2_X,
    N,
    concrete,
    concrete_risk,
    concrete_weight,
    own_weight,
    printed_risk,
    printed_weight,
    simulate_theorem1,
)

# --- Theorem 1 ----------------------------------------------------------------------------------------------


def _client_part(theta: Any, own: Any, mu: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    """A client's part of (27), up to constants, given the mean `own` of its samples."""
    return n * (own - theta) ** 2 / sigma2_x + (theta - mu) ** 2 / sigma2_theta


def _estimator_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    theta, mu, own, mean = sp.symbols("theta mu xbar_i xbar", real=True)
    part = d.say(
        "Up to constants, client i's part of the objective (27) depends on its samples through their mean xbar_i:",
        _client_part(theta, own, mu, n, sigma2_theta, sigma2_x),
    )
    best = d.say(
        "The objective is jointly convex. For fixed mu each part is a quadratic in theta_i with its minimum at",
        stationary_point(part, theta),
    )
    a = d.say("so that theta_i = a xbar_i + (1-a) mu with", simplest(sp.diff(best, own)))
    profile = d.say("Put back, client i's part is a multiple of (xbar_i - mu)^2:", simplest(part.subs(theta, best)))
    factor = simplest(profile / (own - mu) ** 2)
    d.say(
        "Summed over clients that is m (xbar - mu)^2 and a constant, with xbar the mean of all xbar_i; so mu_hat is",
        stationary_point(m * factor * (mean - mu) ** 2, mu),
    )
    return d.conclude(
        """Weight of the client's own mean, weight of mu_hat, and weight of each sample mean within mu_hat (for sigma2_theta
        = 0, where (27) forces theta_i = mu, they are the limits):""",
        (a, simplest(1 - a), 1 / m),
    )


def _estimator_objective(x: tuple[Any, Any, Any], m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    """(27) for impulses, as its minimiser is linear in the data: xbar_i = 1 and mu = 0; xbar_i = 0 and mu = 1; and with

    every theta_k at its best, as a function of mu, one sample mean 1 and the others 0.
    """

    def part(theta: Any, own: Any, mu: Any) -> Any:
        return _client_part(theta, own, mu, n, sigma2_theta, sigma2_x)

    def profile(own: Any, mu: Any) -> Any:
        theta = sp.Dummy("theta", real=True)
        return part(stationary_point(part(theta, own, mu), theta), own, mu)

    return part(x[0], 1, 0) + part(x[1], 0, 1) + profile(1, x[2]) + (m - 1) * profile(0, x[2])


def _estimator_oracle(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, ...]:
    """A Gaussian density has its mode at its mean: condition on all sample means, with mu flat."""
    clients = concrete(m, sigma2_theta, sigma2_x / n)
    own, *others = clients.posterior(clients.parameter[0], clients.estimate)[0]
    mean = clients.posterior(clients.centre, clients.estimate)[0]
    return rational(own - others[0]), rational(m * fraction(others[0])), rational(mean[0])


def _estimator_simulate(m: int, n: int, sigma2_theta: float, sigma2_x: float) -> simulation.Simulation:
    fed = simulation.federation([m], sigma2_theta, sigma2_x / n, 0.0)
    return simulation.blend_weights(fed, 0, np.full(m, 1.0 / m))


register(
    Claim(
        id="generative:thm1:estimator",
        title="Maximum likelihood estimator of all clients' means",
        place="Section 2.1, Theorem 1, (2)-(3); proof in Section 5.1.1, (25)-(30)",
        statement="""The joint density of parameters and samples is largest when mu_hat is the mean of the clients' sample
            means and each client moves its own mean towards it with the known factor a.""",
        latex=r"""\widehat{\bm{\mu}}=\frac{1}{m}\sum_{i=1}^{m}\overline{X}_{i}\qquad\text{ and }%
            \qquad\widehat{\bm{\theta}}_{i}=a\overline{X}_{i}+(1-a)\widehat{\bm{\mu}},\text{ for }i\in[m],%
            \quad\text{ where }a=\frac{\sigma_{\theta}^{2}}{\sigma_{\theta}^{2}+\nicefrac{{\sigma_{x}^{2}}}{{n}}}""",
        kind="optimum",
        variables=(M2, N, SIGMA2_THETA, SIGMA2_X),
        examples=(
            {"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3},
            {"m": 3, "n": 1, "sigma2_theta": 1, "sigma2_x": 1},
        ),
        printed=lambda m, n, sigma2_theta, sigma2_x: (
            (a := printed_weight(sigma2_theta, sigma2_x, n)),
            1 - a,
            1 / m,
        ),
        derive=_estimator_derive,
        oracle=_estimator_oracle,
        computed=lambda m, n, sigma2_theta, sigma2_x: (
            float(gaussian.shrinkage_factor(sigma2_theta, sigma2_x, n)),
            own_weight(sigma2_theta, sigma2_x / n)[1],
            1 / m,
        ),
        simulate=_estimator_simulate,
        objective=_estimator_objective,
        decision="real",
        entries=("weight a of the own mean", "weight of mu_hat", "weight of each sample mean in mu_hat"),
        unit="dimensionless",
        assumes={"prior": "flat", "pivot": "mean", "law": "gaussian"},
        assumptions=("sigma2_theta and sigma2_x known", "all clients have n samples"),
        remark="""Being a posterior mean under a flat prior on mu, it also has the least mean squared error among estimates
            whose risk does not depend on mu.""",
    )
)


def _risk_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, d: Any = ONE) -> Derivation:
    """Mean squared error of the estimator of Theorem 1 from its noise terms."""
    proof = Derivation()
    a = proof.lemma("generative:thm1:estimator", "the first is the weight a", m=2, n=n, sigma2_theta=sigma2_theta,
                    sigma2_x=sigma2_x)[0]  # fmt: skip
    parts = proof.lemma("generative:claim1", "mean variance given theta and mean squared bias are", m=m, n=n,
                        sigma2_theta=sigma2_theta, sigma2_x=sigma2_x, a=a)  # fmt: skip
    one = proof.say("They add up to the mean squared error:", simplest(sum(parts)))
    return proof.conclude("The d coordinates are independent copies:", d * one)


register(
    Claim(
        id="generative:thm1:mse",
        title="Mean squared error of the personalised estimate",
        place="Section 2.1, Theorem 1; proof in Section 5.1.1, (31)-(32)",
        statement="""Over parameters and samples, the estimator's mean squared error is at most this. (It is this: the bound
            is an equality.)""",
        latex=r"""\mathbb{E}_{\bm{\theta}_{i},X_{1},\ldots,X_{m}}\|\widehat{\bm{\theta}}_{i}-\bm{\theta}_{i}\|^{2}\leq%
            \frac{d\sigma_{x}^{2}}{n}\Big{(}\frac{1-a}{m}+a\Big{)}""",
        kind="upper bound",
        variables=GAUSSIAN,
        examples=GAUSSIAN_EXAMPLES,
        printed=printed_risk,
        relation="<=",
        derive=_risk_derive,
        oracle=lambda m, n, d, sigma2_theta, sigma2_x: (
            d * concrete_risk(m, concrete_weight(sigma2_theta, sigma2_x / n), sigma2_theta, sigma2_x / n)
        ),
        computed=lambda m, n, d, sigma2_theta, sigma2_x: gaussian.risk(sigma2_theta, sigma2_x, n, m, d=d),
        simulate=simulate_theorem1,
        model=("Value(Mixed)",),
        unit="variance, summed over coordinates",
        related=("generative:thm1:estimator",),
        tight=Tight(at={"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3}),
        assumes={"given": "nothing"},
        remark="An average over the prior of theta. For given parameters see generative:remark2.",
    )
)
