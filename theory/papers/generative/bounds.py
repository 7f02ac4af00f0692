"""Lower bounds by van Trees' inequality: Section 5.1.3.

Belongs here: (45)-(47), Fact 1. Does not belong here: the estimator's own risk (gaussian.py), what follows for its
optimality (gaussian_remarks.py).
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian, regression
from estimators.montecarlo import RegressionExperiment
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import Clients, fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import Group, mse, posterior
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import (
    GAUSSIAN,
    GAUSSIAN_EXAMPLES,
    ONE,
    SIGMA2_THETA_POSITIVE,
    SIGMA2_X,
    ZERO,
    D,
    N,
    concrete,
    groups,
    posterior_variance,
    simulate_theorem1,
)

# --- van Trees ----------------------------------------------------------------------------------------------

SIGMA2_THETAS = Variable("sigma2_thetas", "positive", "prior variance of each coordinate", lengths=(1, 2, 3))


def known_prior_risk(prior: Any, n: Any, sigma2_x: Any) -> Any:
    """Least risk for a N(mu, prior) parameter with known mu and n samples: shrink their mean to mu."""
    own = Group("own", ONE, prior, sigma2_x / n, ZERO)
    # A known centre is a centre of variance zero.
    return posterior(own.parameters(), [own.estimates()], v0=ZERO).variance


def _eq45_derive(sigma2_thetas: list[Any], n: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    d.say(
        """Gaussian prior and samples, coordinates independent: I_x = I_d/sigma2_x and I(pi) = diag(1/sigma2_theta_l), so
        (45) reads d^2/sum_l (n/sigma2_x + 1/sigma2_theta_l)."""
    )
    risks = [known_prior_risk(v, n, sigma2_x) for v in sigma2_thetas]
    d.say(
        "No estimator has less than the Bayes risk, which conditioning gives coordinate by coordinate:",
        tuple(risks),
    )
    return d.conclude(
        """Their sum, sum_l 1/(n/sigma2_x + 1/sigma2_theta_l), is at least (45) since an arithmetic mean is at least the
        harmonic one; equal if all coordinates carry the same information:""",
        sum(risks),
    )


def _in_order(sigma2_thetas: list[Any], **_: Any) -> list[dict[Any, Any]]:
    """Prior variances in increasing order, for every order of the coordinates."""
    steps = [sp.Symbol(f"step{i}", nonnegative=True) for i in range(1, len(sigma2_thetas))]
    return [{v: first + sum(steps[: i + 1]) for i, v in enumerate(rest)} for first, *rest in permutations(sigma2_thetas)]


def _eq45_simulate(sigma2_thetas: list[float], n: int, sigma2_x: float, copies: int = 1) -> simulation.Simulation:
    d, v = len(sigma2_thetas), np.array(sigma2_thetas)
    design = np.kron(np.eye(d), np.ones((n, 1)))  # n raw samples of every coordinate
    gain = np.kron(np.diag(v / (n * v + sigma2_x)), np.ones((1, n)))
    row = np.eye(1 + d)[0]
    return simulation.Simulation(
        RegressionExperiment(design, 0.0, v, sigma2_x, gain, 0.0),
        (simulation.Mean("Bayes risk", row, of=lambda risk: risk / copies, back=lambda mean: mean * copies),),
    )


register(
    Claim(
        id="generative:eq45",
        title="Multivariate van Trees inequality",
        place="Section 5.1.3, (45)",
        statement="""For independent coordinates the Bayes risk of any estimator is at least d^2 over the total information
            of samples and prior. Judged for Gaussian samples and a Gaussian prior with different variances, where the
            least Bayes risk is known.""",
        latex=r"""\mathbb{E}\|\widehat{\theta}(X)-\theta\|^{2}\geq\frac{d^{2}}%
            {n\mathbb{E}\text{Tr}(I_{x}(\theta))+\text{Tr}(I(\pi))}""",
        kind="lower bound",
        variables=(SIGMA2_THETAS, N, SIGMA2_X),
        examples=(
            {"sigma2_thetas": [1, 3], "n": 2, "sigma2_x": 2},
            {"sigma2_thetas": [1, "1/2", 4], "n": 1, "sigma2_x": 1},
        ),
        printed=lambda sigma2_thetas, n, sigma2_x: (
            len(sigma2_thetas) ** 2 / (n * len(sigma2_thetas) / sigma2_x + sum(1 / v for v in sigma2_thetas))
        ),
        relation=">=",
        derive=_eq45_derive,
        oracle=lambda sigma2_thetas, n, sigma2_x: sum(posterior_variance(v, [sigma2_x] * int(n)) for v in sigma2_thetas),
        computed=lambda sigma2_thetas, n, sigma2_x: sum(
            regression.posterior_mse([[np.sqrt(n)]], v, sigma2_x) for v in sigma2_thetas
        ),
        simulate=_eq45_simulate,
        shifts=_in_order,
        tight=Tight(at={"sigma2_thetas": [1, 1], "n": 2, "sigma2_x": 2}),
        assumes={"prior": "known", "law": "gaussian"},
        unit="variance, summed over coordinates",
        remark="Verified in the Gaussian conjugate case, for up to 3 coordinates; not in general.",
    )
)


def _eq46_derive(n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    proof = Derivation()
    risk = proof.say(
        "With mu known only the own samples matter. The best multiple of xbar_i - mu has the risk (the Bayes risk)",
        known_prior_risk(sigma2_theta, n, sigma2_x),
    )
    proof.say("The largest risk over theta_i is at least the average over the prior, whatever the estimator.")
    return proof.conclude("The bound over d coordinates, and the best that van Trees could give:", d * risk)


register(
    Claim(
        id="generative:eq46",
        title="Lower bound with a known prior",
        place="Section 5.1.3, (46)",
        statement="""With mu known, no estimator's worst risk over theta_i is below this. Judged: it is not above the Bayes
            risk (it is equal to it).""",
        latex=r"""\sup_{\theta_{i}}\mathbb{E}\|\widehat{\theta_{i}}(X)-\theta_{i}\|^{2}\geq\frac{d^{2}}%
            {n\mathbb{E}\frac{d}{\sigma_{x}^{2}}+\frac{d}{\sigma_{\theta}^{2}}}=%
            \frac{d\sigma_{\theta}^{2}\sigma_{x}^{2}}{n\sigma_{\theta}^{2}+\sigma_{x}^{2}}""",
        kind="lower bound",
        variables=(N, D, SIGMA2_THETA_POSITIVE, SIGMA2_X),
        examples=(
            {"n": 2, "sigma2_theta": 1, "sigma2_x": 3},
            {"n": 1, "d": 2, "sigma2_theta": "1/2", "sigma2_x": 1},
        ),
        printed=lambda n, d, sigma2_theta, sigma2_x: d * sigma2_theta * sigma2_x / (n * sigma2_theta + sigma2_x),
        relation=">=",
        derive=_eq46_derive,
        oracle=lambda n, d, sigma2_theta, sigma2_x: d * posterior_variance(sigma2_theta, [sigma2_x] * int(n)),
        computed=lambda n, d, sigma2_theta, sigma2_x: d * regression.posterior_mse([[np.sqrt(n)]], sigma2_theta, sigma2_x),
        simulate=lambda n, d, sigma2_theta, sigma2_x: _eq45_simulate([sigma2_theta], n, sigma2_x, d),
        unit="variance, summed over coordinates",
        related=("generative:eq45",),
        tight=Tight(at={"n": 2, "sigma2_theta": 1, "sigma2_x": 3}),
        assumes={"prior": "known", "law": "gaussian"},
        remark="As a statement on the largest risk over all theta_i it is far from tight: that is d sigma2_x/n.",
        model=("Value(Optimum)",),
    )
)


def _eq47_printed(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    return d * (sigma2_theta * sigma2_x + sigma2_x**2 / (m * n)) / (n * sigma2_theta + sigma2_x)


def _eq47_derive(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    proof = Derivation()
    v0 = sp.Symbol("v0", positive=True)
    own, others = groups(m, sigma2_theta, sigma2_x / n)
    proof.say(
        """The largest risk over mu is at least the average over mu ~ N(0, v0), for any v0. The least such average is the
        posterior variance given the own mean and the sum of the others'."""
    )
    best = posterior(own.parameters(), [own.estimates(), others.estimates()], v0=v0)
    proof.say("Weights of the own mean and of each other mean:", best.weights)
    value = proof.say("As v0 grows the posterior variance rises to", limit(best.variance, v0, sp.oo))
    proof.lemma("generative:thm1:mse", "it is attained for every mu: the estimator's risk does not depend on mu and is",
                m=m, n=n, sigma2_theta=sigma2_theta, sigma2_x=sigma2_x, d=ONE)  # fmt: skip
    return proof.conclude("So the least worst-case risk over mu is, over d coordinates,", d * value)


register(
    Claim(
        id="generative:eq47",
        title="Lower bound with an estimated population mean",
        place="Section 5.1.3, (47)",
        statement="""With mu unknown, no estimator's worst risk is below this. Judged for the worst mu, theta_i being drawn
            from the population; the least such risk equals it. (The worst theta_i is worse still, so the inequality
            holds as printed.) The paper's argument for it is judged in generative:eq47:argument.""",
        latex=r"""\sup_{\theta_{i}\in\Theta}\mathbb{E}_{X}\|\widehat{\theta}_{i}(X)-\theta_{i}\|^{2}\geq
            d\frac{\sigma_{\theta}^{2}\sigma_{x}^{2}+\frac{\sigma_{x}^{4}}{mn}}{n\sigma_{\theta}^{2}+\sigma_{x}^{2}}""",
        kind="lower bound",
        variables=GAUSSIAN,
        examples=GAUSSIAN_EXAMPLES,
        printed=_eq47_printed,
        relation=">=",
        derive=_eq47_derive,
        oracle=lambda m, n, d, sigma2_theta, sigma2_x: (
            d * rational((c := concrete(m, sigma2_theta, sigma2_x / n)).posterior(c.parameter[0], c.estimate)[1])
        ),
        computed=lambda m, n, d, sigma2_theta, sigma2_x: gaussian.risk(sigma2_theta, sigma2_x, n, m, d=d),
        simulate=simulate_theorem1,
        tight=Tight(at={"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3}),
        unit="variance, summed over coordinates",
        model=("Value(Optimum)",),
    )
)


def _argument_derive(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    proof = Derivation()
    _, others = groups(m + 1, sigma2_theta, sigma2_x / n)  # the m clients behind mu_hat; theta_i comes on top of them
    fresh = Group("theta_i", ONE, sigma2_theta, ZERO, ZERO)
    drawn = (1 / sp.sympify(m)) * others.estimates() + fresh.noise("p")
    prior = proof.say(
        """The argument takes theta_i ~ N(mu_hat, sigma2_theta) with mu_hat the mean of all data. By Fact 1 the variance
        around mu is then, as the text says,""",
        mse(drawn - Group("mu", ONE, ZERO, ZERO, ZERO).parameters()),
    )
    bound = proof.say(
        "Van Trees (45) with I(pi) = 1/v for this v gives, per coordinate,",
        simplest(1 / (n / sigma2_x + 1 / prior)),
    )
    return proof.conclude("Over d coordinates; in place of m there is m + 1:", d * bound)


def _argument_oracle(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    clients = Clients([sigma2_theta] * (int(m) + 1), [sigma2_x / n] * (int(m) + 1), [0] * (int(m) + 1))
    mean = clients.weighted([fraction(1 / m)] * int(m), clients.estimate[1:])
    drawn = mean + (clients.parameter[0] - clients.centre)
    return d * posterior_variance(rational(clients.mse(drawn, clients.centre)), [sigma2_x] * int(n))


def _argument_simulate(m: int, n: int, d: int, sigma2_theta: float, sigma2_x: float) -> simulation.Simulation:
    # theta = mean of m clients' estimates + client 0's own deviation; samples around it, shrunk as v says.
    fed = simulation.federation([m + 1], sigma2_theta, sigma2_x / n, 0.0)
    s, v = sigma2_x / n, sigma2_theta * (1 + 1 / m) + sigma2_x / (m * n)
    b = v / (v + s)
    weights = np.append(0.0, np.full(m, 1.0 / m))
    error = simulation.vector(1, p=b - 1, e=b, a0=b - 1)
    return simulation.mean_squares(fed, 0, weights, [error], ["risk when theta_i is drawn so"], [lambda risk: risk / d])


register(
    Claim(
        id="generative:eq47:argument",
        title="Does the argument for (47) give (47)?",
        place="Section 5.1.3, text between (46) and (47)",
        statement="Van Trees' inequality for the prior N(mu, sigma2_theta + sigma2_theta/m + sigma2_x/(mn)) gives (47).",
        latex=r"""\theta_{i}\sim N(\mu,(\sigma_{\theta}^{2}+\frac{\sigma_{\theta}^{2}}{m}+\frac{\sigma_{x}^{2}}{mn})%
            \text{I}_{d})\text{. Then using the van Trees inequality similar to the lower bound in perfect case we can
            obtain: }d\frac{\sigma_{\theta}^{2}\sigma_{x}^{2}+\frac{\sigma_{x}^{4}}{mn}}%
            {n\sigma_{\theta}^{2}+\sigma_{x}^{2}}""",
        kind="identity",
        variables=GAUSSIAN,
        examples=GAUSSIAN_EXAMPLES,
        printed=_eq47_printed,
        derive=_argument_derive,
        oracle=_argument_oracle,
        simulate=_argument_simulate,
        counterexample={"m": 1, "n": 1, "sigma2_theta": 1, "sigma2_x": 1},
        corrected=lambda m, n, d, sigma2_theta, sigma2_x: (
            d * sigma2_x * (sigma2_theta + sigma2_x / ((m + 1) * n)) / (n * sigma2_theta + sigma2_x)
        ),
        corrected_text="""m + 1 in place of m: a smaller value, so that (47) does not follow; it is true by another argument
            (generative:eq47)""",
        computed=lambda m, n, d, sigma2_theta, sigma2_x: gaussian.risk(sigma2_theta, sigma2_x, n, m + 1, d=d),
        finding="The argument for the lower bound gives a weaker one, with m + 1 clients in place of m.",
        assumes={"law": "gaussian"},
        unit="variance, summed over coordinates",
        related=("generative:fact1", "generative:eq45", "generative:eq47"),
        remark="""Besides, mu_hat contains the client's own samples, so that theta_i given mu_hat is not N(mu_hat,
            sigma2_theta), and Fact 1, which needs the two stages in a chain, does not apply to it.""",
    )
)


# --- Fact 1 -------------------------------------------------------------------------------------------------

Z = Variable("z", "real", "mean of Y")
SIGMA2_Y = Variable("sigma2_y", "nonnegative", "variance of X given Y")
SIGMA2_Z = Variable("sigma2_z", "nonnegative", "variance of Y")


def _fact1_derive(z: Any, sigma2_y: Any, sigma2_z: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", real=True)
    d.say(
        """The characteristic function of N(c, v) is exp(i t c - v t^2/2); given Y take expectations in two steps: E exp(itX)
        = exp(-sigma2_y t^2/2) E exp(itY)."""
    )
    exponent = d.say(
        "So the exponent of X's characteristic function is",
        -sigma2_y * t**2 / 2 + (sp.I * t * z - sigma2_z * t**2 / 2),
    )
    mean = sp.simplify(sp.diff(exponent, t).subs(t, 0) / sp.I)
    variance = simplest(-sp.diff(exponent, t, 2))
    return d.conclude("a quadratic in t without constant, that of a Gaussian with this mean and variance:", (mean, variance))


def _fact1_oracle(z: Any, sigma2_y: Any, sigma2_z: Any) -> tuple[Any, Any]:
    """Mean and variance by 3-node Gauss-Hermite quadrature in both stages (exact up to fifth moments)."""
    rule = ((ZERO, sp.Rational(2, 3)), (ONE, sp.Rational(1, 6)), (-ONE, sp.Rational(1, 6)))
    y_step, x_step = sp.sqrt(3 * sigma2_z), sp.sqrt(3 * sigma2_y)
    points = [(z + h * y_step + k * x_step, p * q) for h, p in rule for k, q in rule]
    mean = sp.expand(sum(x * w for x, w in points))
    return mean, sp.expand(sum((x - mean) ** 2 * w for x, w in points))


register(
    Claim(
        id="generative:fact1",
        title="A Gaussian with a Gaussian mean",
        place="Section 5.1.3, Fact 1",
        statement="If X given Y is N(Y, sigma2_y) and Y is N(z, sigma2_z), then X is N(z, sigma2_z + sigma2_y).",
        latex=r"""X\sim N(Y,\sigma_{y}^{2})\text{ where }Y\sim N(Z,\sigma_{z}^{2})\text{ we have }X\sim
            N(z,\sigma_{z}^{2}+\sigma_{y}^{2})""",
        kind="identity",
        variables=(Z, SIGMA2_Y, SIGMA2_Z),
        examples=({"z": 1, "sigma2_y": 2, "sigma2_z": 1}, {"z": -2, "sigma2_y": "1/2", "sigma2_z": 3}),
        printed=lambda z, sigma2_y, sigma2_z: (z, sigma2_z + sigma2_y),
        derive=_fact1_derive,
        oracle=_fact1_oracle,
        not_computed=Exempt(kind="few"),
        simulate=lambda sigma2_y, sigma2_z: simulation.mean_squares(
            simulation.federation([1], sigma2_z, sigma2_y, 0.0),
            0,
            [0.0],
            [simulation.vector(1, p=1.0, e=1.0)],
            ["variance of X"],
            [1],
        ),
        entries=("mean", "variance"),
        assumes={"law": "gaussian"},
        remark="The proof writes sigma_x and sigma_y for the statement's sigma_y and sigma_z.",
    )
)

__all__ = ["known_prior_risk"]
