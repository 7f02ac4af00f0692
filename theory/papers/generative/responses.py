"""What a response model puts into the objective (12): Section 3, cases 4 and 5, and the whole objective (14).

Belongs here: negative logarithms of likelihoods. Does not belong here: populations (priors.py), minimising
(objectives.py), gradient steps (steps.py).
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from estimators.closed_forms import priors
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.generative.priors import DETERMINISTIC, DIGITS, MU1, V_THETA, V_X, free, gauss_derive, number, precise

# --- cases 4 and 5: response models ----------------------------------------------------------------------------------

XS = free("x", "features of one client's samples", (1, 2))
YS = free("y", "responses of one client's samples", (1, 2))
THETA = free("theta", "the client's parameter")


def _linear_derive(x: list[Any], y: list[Any], theta: Any, sigma2_x: Any) -> Derivation:
    proof, t = Derivation(), sp.Symbol("t", real=True)
    mass = sp.integrate(sp.exp(-(t**2) / (2 * sigma2_x)), (t, -sp.oo, sp.oo))
    proof.say("By (13) the response is x_j theta + w_j with w_j ~ N(0, sigma2_x), so its density has the mass", mass)
    total = sum(sp.log(mass**2) / 2 + (b - a * theta) ** 2 / (2 * sigma2_x) for a, b in zip(x, y, strict=True))
    return proof.conclude("and minus the logarithms of the densities of w_j = y_j - x_j theta add up to", total)


def _linear_oracle(x: list[Any], y: list[Any], theta: Any, sigma2_x: Any) -> Any:
    with mp.workdps(DIGITS + 10):
        product, s = mp.mpf(1), mp.sqrt(number(sigma2_x))
        for a, b in zip(x, y, strict=True):
            product *= mp.npdf(number(b), number(a * theta), s)
        return precise(-mp.log(product))


register(
    Claim(
        id="generative:eq12:linear",
        title="Quadratic loss from Gaussian responses",
        place="Section 3, case 4 of (12); also Section 3.1.2",
        statement="""With responses N(theta_i, sigma2_x), minus the log-likelihood is the quadratic loss of linear
            regression, Judged for d = 1 against the regression model (13).""",
        latex=r"""p_{\bm{\theta}_{i}}(Y_{ij}|X_{ij})\text{ is according to }\mathcal{N}(\bm{\theta}_{i},\sigma_{x}^{2})%
            \text{, then }f_{i}(\bm{\theta}_{i})\text{ is the quadratic loss as in the case of linear regression}""",
        kind="identity",
        variables=(XS, YS, THETA, V_X),
        examples=({"x": [1, 2], "y": [1, 3], "theta": 1, "sigma2_x": 1},),
        printed=lambda x, y, theta, sigma2_x: (
            sp.Rational(len(y), 2) * sp.log(2 * sp.pi * sigma2_x) + sum((b - theta) ** 2 for b in y) / (2 * sigma2_x)
        ),
        derive=_linear_derive,
        oracle=_linear_oracle,
        corrected=lambda x, y, theta, sigma2_x: (
            sp.Rational(len(y), 2) * sp.log(2 * sp.pi * sigma2_x)
            + sum((b - theta * a) ** 2 for a, b in zip(x, y, strict=True)) / (2 * sigma2_x)
        ),
        corrected_text="responses N(<theta_i, X_ij>, sigma2_x), as in (13) and (14)",
        slip="theta_i for <theta_i, X_ij>",
        finding="The responses have the mean theta_i where the regression has the product with the features.",
        counterexample={"x": [2], "y": [0], "theta": 1, "sigma2_x": 1},
        computed=lambda x, y, theta, sigma2_x: priors.gaussian_loss(np.reshape(x, (-1, 1)), y, [theta], sigma2_x)[0],
        not_simulated=DETERMINISTIC,
        assumes={"law": "gaussian"},
        unit="nats",
        remark="(14) and (19) have the right mean (generative:eq14).",
    )
)

ODDS = Variable("E", "positive", "exp(<theta_i, X_ij>), the odds of a one", extreme=False)
Y01 = Variable("y", "choice", "the label", choices=(0, 1))


def _logistic_derive(E: Any, y: int) -> Derivation:
    d, z = Derivation(), sp.Symbol("z", real=True)
    sigma = d.say("With E = e^z, sigma(z) = 1/(1 + e^-z) is", (1 / (1 + sp.exp(-z))).subs(sp.exp(-z), 1 / E))
    likelihood = d.say("The likelihood sigma^y (1 - sigma)^(1-y) of the label:", sp.together(sigma if y else 1 - sigma))
    return d.conclude("The loss is minus its logarithm, so exp(loss) is", 1 / likelihood)


register(
    Claim(
        id="generative:eq12:logistic",
        title="Logistic loss from Bernoulli responses",
        place="Section 3, case 5 of (12)",
        statement="""With P(Y = 1) = sigma(<theta_i, X_ij>), minus the log-likelihood of a label is the logistic loss log(1 +
            exp(-(2Y - 1) <theta_i, X_ij>)). Judged as exp(loss), with E = exp(<theta_i, X_ij>).""",
        latex=r"""p_{\bm{\theta}_{i}}(Y_{ij}|X_{ij})=\sigma(\langle\bm{\theta}_{i},X_{ij}\rangle)^{Y_{ij}}(1-\sigma(\langle%
            \bm{\theta}_{i},X_{ij}\rangle))^{(1-Y_{ij})}\text{, then }f_{i}(\bm{\theta}_{i})%
            \text{ is the cross-entropy loss (or the logistic loss)}""",
        kind="identity",
        variables=(ODDS, Y01),
        examples=({"E": 2, "y": 1}, {"E": 2, "y": 0}),
        printed=lambda E, y: 1 + E ** (1 - 2 * y),
        derive=_logistic_derive,
        oracle=lambda E, y: (E + 1) / (E if y else 1),  # odds E : 1, one over the label's share
        computed=lambda E, y: np.exp(priors.logistic_loss([[1.0]], [y], [np.log(E)])[0]),
        not_simulated=DETERMINISTIC,
        assumes={"law": "bernoulli"},
        unit="dimensionless",
    )
)

# --- (14) ------------------------------------------------------------------------------------------------------------

XS4 = free("x", "features of all samples, client after client", (2, 4))
YS4 = free("y", "responses of all samples, client after client", (2, 4))
M12 = Variable("m", "choice", "number of clients", choices=(1, 2))
THETA1, THETA2 = free("theta1", "first client's parameter"), free("theta2", "second client's (unused for m = 1)")
EQ14 = (XS4, YS4, M12, THETA1, THETA2, MU1, V_THETA, V_X)


def eq14_printed(
    x: list[Any], y: list[Any], m: int, theta1: Any, theta2: Any, mu1: Any, sigma2_theta: Any, sigma2_x: Any
) -> Any:
    """The objective of (14) and (19) as printed, for d = 1."""
    n, d = len(x) // m, 1
    thetas = (theta1, theta2)[:m]
    residuals = sum((y[i * n + j] - thetas[i] * x[i * n + j]) ** 2 for i in range(m) for j in range(n))
    return (
        sp.Rational(n * m, 2) * sp.log(2 * sp.pi * sigma2_x)
        + residuals / (2 * sigma2_x)
        + sp.Rational(m * d, 2) * sp.log(2 * sp.pi * sigma2_theta)
        + sum((mu1 - t) ** 2 for t in thetas) / (2 * sigma2_theta)
    )


def _eq14_derive(
    x: list[Any], y: list[Any], m: int, theta1: Any, theta2: Any, mu1: Any, sigma2_theta: Any, sigma2_x: Any
) -> Derivation:
    proof, n = Derivation(), len(x) // m
    total = sp.Integer(0)
    for i, theta in enumerate((theta1, theta2)[:m]):
        own = slice(i * n, i * n + n)
        total += proof.say(
            f"Minus the log-likelihood of client {i + 1}:", _linear_derive(x[own], y[own], theta, sigma2_x).result
        )
    prior = gauss_derive([theta1, theta2][:m], 1, mu1, mu1, sigma2_theta).result
    return proof.conclude("plus minus the logarithm of the prior density:", total + prior)


def _eq14_oracle(
    x: list[Any], y: list[Any], m: int, theta1: Any, theta2: Any, mu1: Any, sigma2_theta: Any, sigma2_x: Any
) -> Any:
    with mp.workdps(DIGITS + 10):
        density, n = mp.mpf(1), len(x) // m
        for i, theta in enumerate((theta1, theta2)[:m]):
            density *= mp.npdf(number(theta), number(mu1), mp.sqrt(number(sigma2_theta)))
            for j in range(i * n, i * n + n):
                density *= mp.npdf(number(y[j]), number(x[j] * theta), mp.sqrt(number(sigma2_x)))
        return precise(-mp.log(density))


register(
    Claim(
        id="generative:eq14",
        title="Objective of personalised linear regression",
        place="Section 3.1.1, (14), the same function in (19)",
        statement="This is minus the logarithm of the joint density (11) of parameters and responses. Judged for d = 1.",
        latex=r"""\frac{nm}{2}\log(2\pi\sigma_{x}^{2})+\sum_{i=1}^{m}\sum_{j=1}^{n}%
            \frac{(Y_{ij}-\langle\bm{\theta}_{i},X_{ij}\rangle)^{2}}{2\sigma_{x}^{2}}+\frac{md}{2}\log(2\pi%
            \sigma_{\bm{\theta}}^{2})+\sum_{i=1}^{m}\frac{\|\bm{\mu}-\bm{\theta}_{i}\|_{2}^{2}}%
            {2\sigma_{\bm{\theta}}^{2}}""",
        kind="identity",
        variables=EQ14,
        examples=(
            {"x": [1, 2], "y": [1, 3], "m": 2, "theta1": 1, "theta2": 2, "mu1": 1, "sigma2_theta": 1, "sigma2_x": 2},
            {
                "x": [1, 2, 1, 1],
                "y": [1, 3, 0, 1],
                "m": 2,
                "theta1": 1,
                "theta2": 0,
                "mu1": 1,
                "sigma2_theta": 1,
                "sigma2_x": 2,
            },
        ),
        printed=eq14_printed,
        derive=_eq14_derive,
        oracle=_eq14_oracle,
        computed=lambda x, y, m, theta1, theta2, mu1, sigma2_theta, sigma2_x: priors.joint_objective(
            np.reshape(x, (m, -1, 1)),
            np.reshape(y, (m, -1)),
            np.reshape([theta1, theta2][:m], (m, 1)),
            [mu1],
            sigma2_theta,
            sigma2_x,
        ),
        not_simulated=DETERMINISTIC,
        assumes={"law": "gaussian"},
        unit="nats",
        related=("generative:eq12:gauss", "generative:eq12:linear"),
    )
)

__all__ = ["eq14_printed"]
