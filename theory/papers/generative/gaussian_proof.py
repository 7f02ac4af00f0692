"""The proof of Theorem 1, Section 5.1.1: slopes and convexity of (27), Claim 1 and its steps, the bias.

Belongs here: what the proof prints between (27) and (32). Does not belong here: what it shows (gaussian.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian, priors
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import Group, covariance, mse
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import (
    ONE,
    SIGMA2_THETA,
    SIGMA2_THETA_POSITIVE,
    SIGMA2_X,
    ZERO,
    M,
    N,
    concrete,
    concrete_risk,
    groups,
    own_weight,
    personal_error,
    printed_weight,
)

# --- the sum of squares (27) --------------------------------------------------------------------------------

SAMPLES = Variable("samples", "real", "the samples of client 1; as many as there are clients, for lists of equal length",
                   lengths=(2, 3))  # fmt: skip
ESTIMATES = Variable("thetas", "real", "the values of all clients' theta at which slopes are taken", lengths=(2, 3))
CENTRE = Variable("mu", "real", "the value of mu at which slopes are taken")


def _squares(samples: list[Any], thetas: list[Any], mu: Any, sigma2_theta: Any, sigma2_x: Any) -> Any:
    """(27) without what neither theta_1 nor mu changes."""
    own = sum((x - thetas[0]) ** 2 for x in samples) / sigma2_x
    return own + sum((theta - mu) ** 2 for theta in thetas) / sigma2_theta


def _gradient_derive(samples: list[Any], thetas: list[Any], mu: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    x, centre, v = sp.Symbol("x", real=True), sp.Symbol("c", real=True), sp.Symbol("v", positive=True)
    density = d.say("The density of a normal variable:", sp.exp(-((x - centre) ** 2) / (2 * v)) / sp.sqrt(2 * sp.pi * v))
    score = d.say(
        "Minus twice its logarithm, differentiated by the centre:", simplest(-2 * sp.diff(sp.log(density), centre))
    )

    def slope(value: Any, at: Any, variance: Any) -> Any:
        return score.subs({x: value, centre: at, v: variance}, simultaneous=True)

    own = d.say(
        "theta_1 is the centre of the client's samples, and has the centre mu itself (where the slope has the other sign):",
        sum(slope(s, thetas[0], sigma2_x) for s in samples) - slope(thetas[0], mu, sigma2_theta),
    )
    common = d.say("mu is the centre of every theta:", sum(slope(theta, mu, sigma2_theta) for theta in thetas))
    return d.conclude("Slopes of minus twice the log-likelihood, which is (27):", (own, common))


def _gradient_oracle(samples: list[Any], thetas: list[Any], mu: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, Any]:
    """Central differences with steps of one, which are exact for a quadratic."""

    def value(own: Any, common: Any) -> Any:
        return _squares(samples, [thetas[0] + own, *thetas[1:]], mu + common, sigma2_theta, sigma2_x)

    return (value(1, 0) - value(-1, 0)) / 2, (value(0, 1) - value(0, -1)) / 2


def _gradient_printed(samples: list[Any], thetas: list[Any], mu: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, Any]:
    own = sum(2 * (thetas[0] - x) for x in samples) / sigma2_x + 2 * (thetas[0] - mu) / sigma2_theta
    return own, sum(2 * (mu - theta) for theta in thetas) / sigma2_theta


def _gradient_computed(
    samples: list[float], thetas: list[float], mu: float, sigma2_theta: float, sigma2_x: float
) -> tuple[float, float]:
    """Twice the slopes of the penalised loss, whose terms have the halves that (27) leaves out."""
    prior = priors.gaussian_penalty(np.reshape(thetas, (-1, 1)), [mu], sigma2_theta)[1]
    loss = priors.gaussian_loss(np.ones((len(samples), 1)), samples, [thetas[0]], sigma2_x)[1]
    return 2 * float(prior[0, 0] + loss[0]), -2 * float(prior.sum())


register(
    Claim(
        id="generative:thm1:gradient",
        title="Partial derivatives of the sum of squares",
        place="Section 5.1.1, (28)-(29)",
        statement="The objective of (27) has these slopes in theta_i and in mu; at the estimate they vanish.",
        latex=r"""\frac{\partial F}{\partial\theta_{i}}=\frac{\sum_{j=1}^{n}2(\hat{\theta}_{i}-X_{i}^{j})}{\sigma_{x}^{2}}+%
            \frac{2(\hat{\theta}_{i}-\hat{\mu})}{\sigma_{\theta}^{2}},\qquad\frac{\partial F}{\partial\mu}=%
            \frac{\sum_{i=1}^{m}2(\hat{\mu}-\hat{\theta}_{i})}{\sigma_{\theta}^{2}}""",
        kind="identity",
        variables=(SAMPLES, ESTIMATES, CENTRE, SIGMA2_THETA_POSITIVE, SIGMA2_X),
        examples=(
            {"samples": [1, 3], "thetas": [0, 2], "mu": 1, "sigma2_theta": 1, "sigma2_x": 2},
            {"samples": [0, 1, 4], "thetas": [1, -1, 3], "mu": "1/2", "sigma2_theta": 2, "sigma2_x": 1},
        ),
        printed=_gradient_printed,
        derive=_gradient_derive,
        oracle=_gradient_oracle,
        computed=_gradient_computed,
        not_simulated=Exempt(kind="deterministic", note="slopes of a function of the parameters"),
        entries=("slope in theta_i", "slope in mu"),
        unit="per unit of theta",
        related=("generative:thm1:estimator",),
        remark="""(27) is minus twice the logarithm of the density: the halves of the exponents are left out on both sides,
            which moves no minimum.""",
    )
)

STEP_THETA = Variable("u", "real", "change of theta_i along a line")
STEP_MU = Variable("w", "real", "change of mu along it")


def _convex_derive(n: Any, sigma2_theta: Any, sigma2_x: Any, u: Any, w: Any) -> Derivation:
    d = Derivation()
    t, theta, mu, mean, spread = sp.symbols("t theta mu xbar spread", real=True)
    along = d.say(
        """The objective is a sum over clients. One client's part along the line, with spread the mean square of its samples
        around their mean:""",
        n * ((mean - theta - t * u) ** 2 + spread) / sigma2_x + (theta + t * u - mu - t * w) ** 2 / sigma2_theta,
    )
    return d.conclude("Its second derivative along the line:", simplest(sp.diff(along, t, 2)))


def _convex_oracle(n: Any, sigma2_theta: Any, sigma2_x: Any, u: Any, w: Any) -> Any:
    """Second difference of the part itself, with samples at zero, from the origin."""

    def part(t: Any) -> Any:
        return n * (t * u) ** 2 / sigma2_x + (t * u - t * w) ** 2 / sigma2_theta

    return part(1) - 2 * part(0) + part(-1)


def _convex_shifts(u: Any, w: Any, **_: Any) -> list[dict[Any, Any]]:
    """All orders of u, w and zero."""
    i, j = sp.symbols("i j", nonnegative=True)
    return [{u: a, w: b} for a, b in ((i, -j), (-i, j), (i + j, i), (i, i + j), (-i - j, -i), (-i, -i - j))]


register(
    Claim(
        id="generative:thm1:convex",
        title="The sum of squares is jointly convex",
        place="Section 5.1.1, after (27)",
        statement="""The objective of (27) is jointly convex in (theta, mu). Judged for one client's part, of which it is the
            sum: its second derivative along any line is not negative.""",
        latex=r"""F(\theta,\mu)=\sum_{i=1}^{m}\sum_{j=1}^{n}\frac{\left(X_{i}^{j}-\theta_{i}\right)^{2}}{\sigma_{x}^{2}}+%
            \sum_{i=1}^{m}\frac{\left(\theta_{i}-\mu\right)^{2}}{\sigma_{\theta}^{2}}\text{ is jointly convex in }(%
            \theta,\mu)""",
        kind="lower bound",
        relation=">=",
        variables=(N, SIGMA2_THETA_POSITIVE, SIGMA2_X, STEP_THETA, STEP_MU),
        examples=({"n": 2, "sigma2_theta": 1, "sigma2_x": 3, "u": 1, "w": 2},),
        printed=lambda: ZERO,
        derive=_convex_derive,
        oracle=_convex_oracle,
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.priors.gaussian_penalty", note="its slopes"),
        shifts=_convex_shifts,
        not_simulated=Exempt(kind="deterministic", note="a function of the parameters"),
        tight=Tight(at={"n": 2, "sigma2_theta": 1, "sigma2_x": 3, "u": 0, "w": 0}),
        unit="per squared unit of theta",
        related=("generative:thm1:estimator",),
        remark="It vanishes only for u = w = 0, so the minimiser is unique.",
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


def _claim1_float(m: int, n: int, sigma2_theta: float, sigma2_x: float, a: float) -> Any:
    return gaussian.risk_parts(a, sigma2_theta, sigma2_x, n, m)


register(
    Claim(
        id="generative:claim1",
        title="Variance and squared bias of the personalised estimate",
        place="Section 5.1.1, Claim 1",
        statement="""The two parts of the mean squared error: mean variance given theta, and mean squared bias given theta.
            The second is printed with an inequality at its end; it is an equality too, and judged as one.""",
        latex=r"""\mathbb{E}_{\theta}\left[\mathbb{E}_{X_{1},\ldots,X_{m}}\left[\left(\hat{\theta}_{i}-\mathbb{E}\left[%
            \hat{\theta}_{i}|\theta\right]\right)^{2}|\theta\right]\right]=\alpha^{2}\frac{\sigma_{x}^{2}}{n}+(1-%
            \alpha)^{2}\frac{\sigma_{x}^{2}}{mn}+2\alpha(1-\alpha)\frac{\sigma_{x}^{2}}{mn},\quad\mathbb{E}_{\theta}%
            \left[\mathbb{E}_{X_{1},\ldots,X_{m}}\left[\left(\mathbb{E}\left[\hat{\theta}_{i}|\theta\right]-\theta_{i}%
            \right)^{2}|\theta\right]\right]=(1-\alpha)^{2}\mathbb{E}_{\theta}\left[\left(\frac{1}{m}\sum_{k=1}^{m}%
            \theta_{k}-\theta_{i}\right)^{2}\right]\leq(1-\alpha)^{2}\frac{\sigma_{\theta}^{2}(m-1)}{m}""",
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
        model=("Value(Mixed)",),
        entries=("mean variance given theta", "mean squared bias given theta"),
        computed=_claim1_float,
        assumes={"pivot": "mean"},
        unit="variance per coordinate",
    )
)


# --- "thus unbiased" ----------------------------------------------------------------------------------------

THETAS = Variable("thetas", "real", "the clients' parameters; client 1 is asked about", lengths=(2, 3))
WEIGHTED = (N, SIGMA2_THETA, SIGMA2_X)


def _bias_derive(thetas: list[Any], n: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    a = d.lemma("generative:thm1:estimator", "the first is the weight a", m=len(thetas), n=n, sigma2_theta=sigma2_theta,
                sigma2_x=sigma2_x)[0]  # fmt: skip
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
        latex=r"""\mathbb{E}\left[\hat{\theta}_{i}|\theta\right]=\alpha\theta_{i}+\frac{1-\alpha}{m}\sum_{l=1}^{m}\theta_{l}%
            \text{. Thus, the estimator (30) is an unbiased estimate of }\{\theta_{i}\}""",
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
        corrected_text="""E[theta_hat_i | theta] - theta_i = (1 - a)(mean of all theta - theta_i); zero on average over the
            prior""",
        unit="as theta, per coordinate",
        finding="The personalised estimate is called unbiased, and is drawn towards the mean of all clients.",
        assumes={"given": "parameters"},
        related=("generative:thm1:estimator",),
        remark="""The conditional expectation itself is printed correctly; it is not theta_i. The proof does not use the
            sentence: (31) keeps the squared bias, and Claim 1 evaluates it.""",
    )
)


# --- the steps of Claim 1 -----------------------------------------------------------------------------------


def _terms_derive(m: Any, n: Any, sigma2_x: Any) -> Derivation:
    d = Derivation()
    own, others = groups(m, ZERO, sigma2_x / n)
    local, mean = own.noise("e"), (1 / m) * (own.noise("e") + others.noise("e"))
    d.say("Given theta the local estimate has the error e_i, the global one the mean of all e_k.")
    found = tuple(simplest(covariance(a, b)) for a, b in ((local, local), (mean, mean), (local, mean)))
    return d.conclude("Their variances, and their covariance:", found)


def _terms_oracle(m: Any, n: Any, sigma2_x: Any) -> tuple[Any, ...]:
    """Term by term over concrete clients, m errors each of the variance of a mean."""
    clients = Clients([0] * int(m), [sigma2_x / n] * int(m), [0] * int(m))
    errors = [y - t for y, t in zip(clients.estimate, clients.parameter, strict=True)]
    mean = clients.weighted([fraction(1 / m)] * int(m), errors)
    return tuple(rational(clients.covariance(a, b)) for a, b in ((errors[0], errors[0]), (mean, mean), (errors[0], mean)))


def _terms_simulate(m: int, n: int, sigma2_x: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        errors = gen.normal(0, np.sqrt(sigma2_x), (n, reps, m)).mean(axis=0)
        local, mean = errors[:, 0], errors.mean(axis=1)
        return np.column_stack([local**2, mean**2, local * mean])

    return simulation.sample_means(draw, draws=m * n, count=3)


register(
    Claim(
        id="generative:thm1:terms",
        title="The terms of the mean squared error",
        place="Section 5.1.1, after (32)",
        statement="""The local estimate has the variance sigma_x^2/n, the global one sigma_x^2/(nm), and their correlation is
            sigma_x^2/(nm), all given theta.""",
        latex=r"""1)\ \text{The variance of the local estimator }(\frac{\sigma_{x}^{2}}{n})\text{. }%
            2)\ \text{The variance of the global estimator }(\frac{\sigma_{x}^{2}}{nm})\text{. }%
            3)\ \text{The correlation between the local estimator and the global estimator }(\frac{\sigma_{x}^{2}}{nm})""",
        kind="identity",
        variables=(M, N, SIGMA2_X),
        examples=({"m": 4, "n": 2, "sigma2_x": 3}, {"m": 3, "n": 1, "sigma2_x": 1}),
        printed=lambda m, n, sigma2_x: (sigma2_x / n, sigma2_x / (n * m), sigma2_x / (n * m)),
        derive=_terms_derive,
        oracle=_terms_oracle,
        computed=lambda m, n, sigma2_x: (
            gaussian.local_risk(sigma2_x, n),
            gaussian.risk(0.0, sigma2_x, n, m),
            gaussian.risk(0.0, sigma2_x, n, m),
        ),
        simulate=_terms_simulate,
        entries=("variance of the local estimate", "variance of the global estimate", "their covariance"),
        assumes={"given": "parameters"},
        unit="variance per coordinate",
        related=("generative:claim1",),
        edits=(
            Edit(
                printed="correlation", read="covariance", reason="the correlation itself is 1/sqrt(m)", changes_value=False
            ),
        ),
        remark="The value printed is that of the covariance.",
        model=("Value(Own)", "Value(Server)", "Value(Shared)"),
    )
)

M3 = Variable("m", "size", "clients; products of two others' differences need 3", low=3)


def _cross_derive(m: Any, sigma2_theta: Any) -> Derivation:
    d = Derivation()
    i, k, other = (Group(name, ONE, sigma2_theta, ZERO, ZERO).parameters() for name in ("i", "k", "l"))
    square = d.say("theta_k - theta_i has two independent deviations:", covariance(k - i, k - i))
    product = d.say("theta_k - theta_i and theta_l - theta_i share that of theta_i:", covariance(k - i, other - i))
    total = d.say("There are m - 1 squares and (m-1)(m-2) products:", (m - 1) * square + (m - 1) * (m - 2) * product)
    return d.conclude("One square, one product, and all over m^2:", (square, product, simplest(total / m**2)))


def _cross_oracle(m: Any, sigma2_theta: Any) -> tuple[Any, ...]:
    clients = Clients([sigma2_theta] * int(m), [0] * int(m), [0] * int(m))
    own, one, two = (clients.parameter[c] for c in range(3))
    mean = clients.weighted([fraction(1 / m)] * int(m), clients.parameter)
    return tuple(rational(clients.covariance(a, b)) for a, b in ((one - own, one - own), (one - own, two - own),
                                                                 (mean - own, mean - own)))  # fmt: skip


def _cross_simulate(m: int, sigma2_theta: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = gen.normal(0, np.sqrt(sigma2_theta), (reps, m))
        one, two, mean = theta[:, 1] - theta[:, 0], theta[:, 2] - theta[:, 0], theta.mean(axis=1) - theta[:, 0]
        return np.column_stack([one**2, one * two, mean**2])

    return simulation.sample_means(draw, draws=m, count=3)


register(
    Claim(
        id="generative:claim1:cross",
        title="Squares and products of differences in the proof of Claim 1",
        place="Section 5.1.1, proof of Claim 1, second equation",
        statement="""Each square of theta_k - theta_i has the mean 2 sigma_theta^2, each product of two such differences the
            mean of (mu - theta_i)^2, and together they make sigma_theta^2 (m-1)/m.""",
        latex=r"""\frac{1}{m^{2}}\left[2(m-1)\sigma_{\theta}^{2}+\sum_{k\neq i,l\neq i,k\neq l}\mathbb{E}(\mu-\theta_{i}%
            )^{2}\right]=\frac{1}{m^{2}}\left[2(m-1)\sigma_{\theta}^{2}+(m-1)(m-2)\sigma_{\theta}^{2}\right]=%
            \frac{\sigma_{\theta}^{2}(m-1)}{m}""",
        kind="identity",
        variables=(M3, SIGMA2_THETA),
        examples=({"m": 4, "sigma2_theta": 2}, {"m": 3, "sigma2_theta": 1}),
        printed=lambda m, sigma2_theta: (2 * sigma2_theta, sigma2_theta, sigma2_theta * (m - 1) / m),
        derive=_cross_derive,
        oracle=_cross_oracle,
        simulate=_cross_simulate,
        not_computed=Exempt(kind="few"),
        entries=("mean square", "mean product", "mean square of the mean's distance"),
        assumes={"independence": "given the centre"},
        unit="variance per coordinate",
        related=("generative:claim1",),
        remark="""The line with an inequality, E(theta_k - theta_i)^2 <= E(theta_k - mu)^2 + E(theta_i - mu)^2, is an
            equality: the deviations are independent.""",
    )
)
