"""Theorem 1 in the Gaussian model without constraints: the estimator, its error, its bias.

Belongs here: Theorem 1 and Section 5.1.1. Does not belong here: what the text says of it (gaussian_remarks.py), bounds
(bounds.py), noisy messages (messages.py).
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
from theory.engine.domain import Variable
from theory.engine.hierarchy import mse
from theory.engine.registry import register
from theory.papers.generative.model import (
    GAUSSIAN,
    GAUSSIAN_EXAMPLES,
    M2,
    ONE,
    SIGMA2_THETA,
    SIGMA2_X,
    ZERO,
    M,
    N,
    concrete,
    concrete_risk,
    groups,
    own_weight,
    personal_error,
    printed_risk,
    printed_weight,
    simulate_personal,
)

# --- Theorem 1 ----------------------------------------------------------------------------------------------


def _estimator_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    theta, mu, own, mean = sp.symbols("theta mu xbar_i xbar", real=True)
    part = d.say(
        "Up to constants, client i's part of the objective (27) depends on its samples through their mean xbar_i:",
        n * (own - theta) ** 2 / sigma2_x + (theta - mu) ** 2 / sigma2_theta,
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
        "Weight of the client's own mean, weight of mu_hat, and weight of each sample mean within mu_hat "
        "(for sigma2_theta = 0, where (27) forces theta_i = mu, they are the limits):",
        (a, simplest(1 - a), 1 / m),
    )


def _estimator_objective(x: tuple[Any, Any, Any], m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    """(27) for impulses, as its minimiser is linear in the data: xbar_i = 1 and mu = 0; xbar_i = 0 and mu = 1; and with

    every theta_k at its best, as a function of mu, one sample mean 1 and the others 0.
    """

    def part(theta: Any, own: Any, mu: Any) -> Any:
        return n * (own - theta) ** 2 / sigma2_x + (theta - mu) ** 2 / sigma2_theta

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
        statement="The joint density of parameters and samples is largest when mu_hat is the mean of the clients' sample "
        "means and each client moves its own mean towards it with the known factor a.",
        latex=r"\widehat{\bm{\mu}}=\frac{1}{m}\sum_{i=1}^{m}\overline{X}_{i}\qquad\text{ and }\qquad\widehat{\bm{"
        r"\theta}}_{i}=a\overline{X}_{i}+(1-a)\widehat{\bm{\mu}},\text{ for }i\in[m],\quad\text{ where }a=\frac{\sigma_{"
        r"\theta}^{2}}{\sigma_{\theta}^{2}+\nicefrac{{\sigma_{x}^{2}}}{{n}}}",
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
        assumptions=("sigma2_theta and sigma2_x known", "all clients have n samples"),
        remark="Being a posterior mean under a flat prior on mu, it also has the least mean squared error "
        "among estimates whose risk does not depend on mu.",
    )
)


def _risk_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, d: Any = ONE) -> Derivation:
    """Mean squared error of the estimator of Theorem 1 from its noise terms."""
    proof = Derivation()
    a = proof.say("The weight a of (3) is", simplest(printed_weight(sigma2_theta, sigma2_x, n)))
    parts = proof.lemma("generative:claim1", "mean variance given theta and mean squared bias are", m=m, n=n,
                        sigma2_theta=sigma2_theta, sigma2_x=sigma2_x, a=a)  # fmt: skip
    one = proof.say("They add up to the mean squared error:", simplest(sum(parts)))
    return proof.conclude("The d coordinates are independent copies:", d * one)


register(
    Claim(
        id="generative:thm1:mse",
        title="Mean squared error of the personalised estimate",
        place="Section 2.1, Theorem 1; proof in Section 5.1.1, (31)-(32)",
        statement="Over parameters and samples, the estimator's mean squared error is at most this. (It is "
        "this: the bound is an equality.)",
        latex=r"\mathbb{E}_{\bm{\theta}_{i},X_{1},\ldots,X_{m}}\|\widehat{\bm{\theta}}_{i}-\bm{\theta}_{i}"
        r"\|^{2}\leq\frac{d\sigma_{x}^{2}}{n}\Big{(}\frac{1-a}{m}+a\Big{)}",
        kind="upper bound",
        variables=GAUSSIAN,
        examples=GAUSSIAN_EXAMPLES,
        printed=printed_risk,
        relation="<=",
        derive=_risk_derive,
        oracle=lambda m, n, d, sigma2_theta, sigma2_x: (
            d * concrete_risk(m, printed_weight(sigma2_theta, sigma2_x, n), sigma2_theta, sigma2_x / n)
        ),
        computed=lambda m, n, d, sigma2_theta, sigma2_x: gaussian.risk(sigma2_theta, sigma2_x, n, m, d=d),
        simulate=lambda m, n, d, sigma2_theta, sigma2_x: simulate_personal(
            m, own_weight(sigma2_theta, sigma2_x / n)[0], sigma2_theta, sigma2_x / n, d=d
        ),
        unit="variance, summed over coordinates",
        related=("generative:thm1:estimator",),
        remark="An average over the prior of theta. For given parameters see generative:remark2.",
    )
)


# --- Claim 1 in the proof of Theorem 1 ----------------------------------------------------------------------

A = Variable("a", "fraction", "weight on the client's own mean; Claim 1 holds for any", closed=True)


def _claim1_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, a: Any) -> Derivation:
    d = Derivation()
    own, others = groups(m, ZERO, sigma2_x / n)
    fixed = personal_error(own, others, m, a)
    d.say(
        "Given theta only the sampling errors e_k are random. In theta_hat_i their coefficients are, own and others'",
        (fixed.noise[own, "e"], fixed.noise[others, "e"]),
    )
    first = d.say("so the variance given theta, whatever theta, is", mse(fixed))
    own, others = groups(m, sigma2_theta, ZERO)
    bias = personal_error(own, others, m, a)
    d.say(
        "The bias given theta is (1-a)(mean of theta - theta_i); mu cancels. Coefficients of own and others' p:",
        (simplest(bias.noise[own, "p"]), simplest(bias.noise[others, "p"])),
    )
    second = d.say("so its mean square over the prior is", mse(bias))
    return d.conclude("The two parts of (31):", (first, second))


def _claim1_oracle(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, a: Any) -> tuple[Any, Any]:
    return concrete_risk(m, a, 0, sigma2_x / n), concrete_risk(m, a, sigma2_theta, 0)


def _claim1_simulate(m: int, n: int, sigma2_theta: float, sigma2_x: float, a: float) -> simulation.Simulation:
    # Two populations in one experiment: the first has no spread of parameters, the second no sampling error.
    fed = simulation.federation([m, m], [0.0, sigma2_theta], [sigma2_x / n, 0.0], 0.0)
    rest = np.full(m, (1 - a) / m)
    own = np.eye(m)[0]
    weights = [np.append(rest + a * own, 0 * own), np.append(0 * own, rest + (a - 1) * own)]
    errors = [simulation.vector(2, a0=1.0), simulation.vector(2, a1=1.0)]
    return simulation.mean_squares(fed, 0, weights, errors, ["variance given theta", "mean squared bias"])


register(
    Claim(
        id="generative:claim1",
        title="Variance and squared bias of the personalised estimate",
        place="Section 5.1.1, Claim 1",
        statement="The two parts of the mean squared error: mean variance given theta, and mean squared bias given theta. "
        "The second is printed with an inequality at its end; it is an equality too, and judged as one.",
        latex=r"\mathbb{E}_{\theta}\left[\mathbb{E}_{X_{1},\ldots,X_{m}}\left[\left(\hat{\theta}_{i}-\mathbb{E}\left[\hat{"
        r"\theta}_{i}|\theta\right]\right)^{2}|\theta\right]\right]=\alpha^{2}\frac{\sigma_{x}^{2}}{n}+(1-\alpha)^{2}\frac{"
        r"\sigma_{x}^{2}}{mn}+2\alpha(1-\alpha)\frac{\sigma_{x}^{2}}{mn},\quad\mathbb{E}_{\theta}\left[\mathbb{E}_{X_{1},"
        r"\ldots,X_{m}}\left[\left(\mathbb{E}\left[\hat{\theta}_{i}|\theta\right]-\theta_{i}\right)^{2}|\theta\right]"
        r"\right]=(1-\alpha)^{2}\mathbb{E}_{\theta}\left[\left(\frac{1}{m}\sum_{k=1}^{m}\theta_{k}-\theta_{i}\right)^{2}"
        r"\right]\leq(1-\alpha)^{2}\frac{\sigma_{\theta}^{2}(m-1)}{m}",
        kind="identity",
        variables=(M, N, SIGMA2_THETA, SIGMA2_X, A),
        examples=(
            {"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3, "a": "2/5"},
            {"m": 3, "n": 1, "sigma2_theta": 2, "sigma2_x": 1, "a": "1/4"},
        ),
        printed=lambda m, n, sigma2_theta, sigma2_x, a: (
            a**2 * sigma2_x / n + (1 - a) ** 2 * sigma2_x / (m * n) + 2 * a * (1 - a) * sigma2_x / (m * n),
            (1 - a) ** 2 * sigma2_theta * (m - 1) / m,
        ),
        derive=_claim1_derive,
        oracle=_claim1_oracle,
        simulate=_claim1_simulate,
        entries=("mean variance given theta", "mean squared bias given theta"),
        not_computed="for a free weight a no function is needed; at the best a the sum is generative:thm1:mse",
        unit="variance per coordinate",
    )
)


# --- "thus unbiased" ----------------------------------------------------------------------------------------

THETAS = Variable("thetas", "real", "the clients' parameters; client 1 is asked about", lengths=(2, 3))
WEIGHTED = (N, SIGMA2_THETA, SIGMA2_X)


def _bias_derive(thetas: list[Any], n: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    a = d.say("With the weight of (3),", simplest(printed_weight(sigma2_theta, sigma2_x, n)))
    mean = sum(thetas) / len(thetas)
    expectation = d.say(
        "and E[xbar_k | theta] = theta_k, linearity gives E[theta_hat_1 | theta], as printed before (31):",
        a * thetas[0] + (1 - a) * mean,
    )
    return d.conclude(
        "Its difference from theta_1 vanishes only if a = 1 or theta_1 is the mean of all:",
        simplest(expectation - thetas[0]),
    )


def _bias_oracle(thetas: list[Any], n: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    """Weights by exact conditioning on concrete clients, put on the parameters themselves."""
    clients = concrete(len(thetas), sigma2_theta, sigma2_x / n)
    weights, _ = clients.posterior(clients.parameter[0], clients.estimate)
    return sum((rational(w) * t for w, t in zip(weights, thetas, strict=True)), -thetas[0])


def _bias_simulate(thetas: list[float], n: int, sigma2_theta: float, sigma2_x: float) -> simulation.Simulation:
    a, s = own_weight(sigma2_theta, sigma2_x / n)[0], sigma2_x / n
    parameters, m = np.array(thetas, float), len(thetas)
    weights = a * np.eye(m)[0] + (1 - a) / m

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        means = parameters + np.sqrt(s) * gen.standard_normal((reps, m))
        return (means @ weights - parameters[0])[:, None]

    return simulation.sample_means(draw, labels=("mean error of client 1, given theta",), draws=m)


def _bias(thetas: list[Any], n: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    return (1 - printed_weight(sigma2_theta, sigma2_x, n)) * (sum(thetas) / len(thetas) - thetas[0])


register(
    Claim(
        id="generative:thm1:unbiased",
        title="Is the personalised estimate unbiased?",
        place="Section 5.1.1, sentence before (31)",
        statement="The estimator (30) is an unbiased estimate of theta_i. Judged: its bias given theta is 0.",
        latex=r"\mathbb{E}\left[\hat{\theta}_{i}|\theta\right]=\alpha\theta_{i}+\frac{1-\alpha}{m}\sum_{l=1}^{m}\theta_{l}"
        r"\text{. Thus, the estimator (30) is an unbiased estimate of }\{\theta_{i}\}",
        kind="identity",
        variables=(THETAS, *WEIGHTED),
        examples=(
            {"thetas": [0, 4], "n": 1, "sigma2_theta": 1, "sigma2_x": 1},
            {"thetas": [3, -1, 1], "n": 2, "sigma2_theta": 1, "sigma2_x": 4},
        ),
        printed=lambda: ZERO,
        derive=_bias_derive,
        oracle=_bias_oracle,
        computed=lambda thetas, n, sigma2_theta, sigma2_x: gaussian.conditional_bias(thetas, 0, sigma2_theta, sigma2_x, n),
        simulate=_bias_simulate,
        counterexample={"thetas": [0, 1], "n": 1, "sigma2_theta": 1, "sigma2_x": 1},
        corrected=_bias,
        corrected_text="E[theta_hat_i | theta] - theta_i = (1 - a)(mean of all theta - theta_i); zero on "
        "average over the prior",
        unit="as theta, per coordinate",
        related=("generative:thm1:estimator",),
        remark="The conditional expectation itself is printed correctly; it is not theta_i. The proof does "
        "not use the sentence: (31) keeps the squared bias, and Claim 1 evaluates it.",
    )
)
