"""Our own, beside Section 2.1: what is known of clients beforehand moves the mean of their prior.

Model: client i has a covariate z_i, its parameter is mu + beta z_i + p_i with p_i ~ N(0, tau2), its estimate adds noise of
variance alpha2_i; mu and beta are unknown, tau2 is known (Fay and Herriot 1979).  One client has the covariate z, n0 others
have 0 and n1 others have 1, each with their own noise.

Belongs here: the risk of the best linear unbiased predictor, and the prediction of a client without data.  Does not belong
here: estimating tau2, which adds terms of the order of one over the number of clients.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from estimators.normal_means.gaussian_means import GaussianMeans
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational, solve
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import Form, Group, covariance
from theory.engine.registry import register

ONE, ZERO = sp.Integer(1), sp.Integer(0)
N0 = Variable("n0", "size", "other clients with covariate 0")
N1 = Variable("n1", "size", "other clients with covariate 1")
Z = Variable("z", "real", "the client's covariate", within=(-1000, 1000), why="floats")
TAU2 = Variable("tau2", "positive", "variance of true values around what covariates explain")
ALPHA2 = Variable("alpha2", "positive", "variance of the client's own estimate")
AT0 = Variable("alpha2_0", "positive", "variance of estimates of clients with covariate 0")
AT1 = Variable("alpha2_1", "positive", "variance of estimates of clients with covariate 1")
EXAMPLE = {"n0": 3, "n1": 4, "z": "1/2", "tau2": 1, "alpha2_0": 1, "alpha2_1": 2}
WEIGHTS = (r"a=\frac{n_0}{\tau^2+\alpha_0^2},\quad b=\frac{n_1}{\tau^2+\alpha_1^2}", r"s=a z^2+b(1-z)^2")


def others(n0: Any, n1: Any, tau2: Any, alpha2_0: Any, alpha2_1: Any) -> tuple[Form, Form]:
    """The averages of the others' estimates around what their covariates explain."""
    groups = Group("at 0", n0, tau2, alpha2_0, ZERO), Group("at 1", n1, tau2, alpha2_1, ZERO)
    low, high = (group.noise("p") + group.noise("e") for group in groups)
    return low / n0, high / n1


def precisions(
    own: Any, z: Any, n0: int, n1: int, tau2: Any, alpha2_0: Any, alpha2_1: Any
) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Henderson's equations in fractions, for mu, beta and all true values, and the unit vector of the first of these.

    `own` is the precision of the first client's estimate, 0 for none.
    """
    z, prior = fraction(z), 1 / fraction(tau2)
    known = [fraction(own), *[1 / fraction(alpha2_0)] * n0, *[1 / fraction(alpha2_1)] * n1]
    rows = [(1, z), *[(1, Fraction(0))] * n0, *[(1, Fraction(1))] * n1]
    size = 2 + len(known)
    matrix = [[Fraction(0)] * size for _ in range(size)]
    for i, (row, precision) in enumerate(zip(rows, known, strict=True)):
        law = [*row, *[Fraction(0)] * len(known)]
        law[2 + i] = Fraction(-1)  # mu + beta z_i - theta_i has variance tau2
        for j in (0, 1, 2 + i):
            for k in (0, 1, 2 + i):
                matrix[j][k] += law[j] * law[k] * prior
        matrix[2 + i][2 + i] += precision
    return matrix, [Fraction(int(j == 2)) for j in range(size)]


# --- a client with data ----------------------------------------------------------------------------------------------


def _risk_printed(n0: Any, n1: Any, z: Any, tau2: Any, alpha2: Any, alpha2_0: Any, alpha2_1: Any) -> Any:
    a, b, c = n0 / (tau2 + alpha2_0), n1 / (tau2 + alpha2_1), 1 / (tau2 + alpha2)
    s = a * z**2 + b * (1 - z) ** 2
    return tau2 * alpha2 * c + (alpha2 * c) ** 2 * s / (a * b + c * s)


def _risk_derive(n0: Any, n1: Any, z: Any, tau2: Any, alpha2: Any, alpha2_0: Any, alpha2_1: Any) -> Derivation:
    d = Derivation()
    own = Group("own", ONE, tau2, alpha2, ZERO)
    low, high = others(n0, n1, tau2, alpha2_0, alpha2_1)
    d.say("""A predictor with weight w on the own estimate, u on the average of the clients at 0 and v on that of the
        clients at 1 is unbiased for every mu and beta if w + u + v = 1 and w z + v = z: then""")  # fmt: skip
    w = sp.Symbol("w", real=True)
    u, v = d.say("u and v are", ((1 - w) * (1 - z), (1 - w) * z))
    noise = own.noise("p") + own.noise("e")
    error = w * noise + u * low + v * high - own.noise("p")
    risk = d.say("Its error has the mean square", sp.collect(sp.expand(covariance(error, error)), w))
    best = d.say("which is least at", sp.factor(sp.solve(sp.diff(risk, w), w)[0]))
    return d.conclude("where it is", sp.factor(risk.subs(w, best)))


def _risk_oracle(n0: int, n1: int, z: Any, tau2: Any, alpha2: Any, alpha2_0: Any, alpha2_1: Any) -> Any:
    matrix, unit = precisions(1 / fraction(alpha2), z, int(n0), int(n1), tau2, alpha2_0, alpha2_1)
    return rational(solve(matrix, unit)[2])


def _fitted(n0: int, n1: int, z: float, tau2: float, alpha2: float, alpha2_0: float, alpha2_1: float) -> GaussianMeans:
    variances = np.repeat([alpha2, alpha2_0, alpha2_1], [1, int(n0), int(n1)])
    covariates = np.repeat([z, 0.0, 1.0], [1, int(n0), int(n1)])
    return GaussianMeans("fixed", tau2=tau2).fit(np.zeros(variances.size), variances, covariates)


def _risk_computed(n0: int, n1: int, z: float, tau2: float, alpha2: float, alpha2_0: float, alpha2_1: float) -> float:
    return float(_fitted(n0, n1, z, tau2, alpha2, alpha2_0, alpha2_1).posterior_sd_[0] ** 2)


def _simulated(
    sizes: list[int], z: float, tau2: float, alpha2: list[float], own: float, label: str
) -> simulation.Simulation:
    """The error of own y + (1 - own) (mu + beta z), the line by generalised least squares, of others alone for own = 0."""
    X = np.repeat([[1.0, z], [1.0, 0.0], [1.0, 1.0]], sizes, axis=0)
    precision = 1 / (tau2 + np.repeat(alpha2, sizes))
    precision[0] *= own > 0
    line = precision * (X @ np.linalg.solve(X.T @ (precision[:, None] * X), X[0]))
    return simulation.mean_squares(
        simulation.federation(sizes, tau2, alpha2, 0.0), 0, line, [simulation.vector(1, p=own - 1, e=own, a0=1 - own)],
        [label],
    )  # fmt: skip


def _risk_simulate(
    n0: int, n1: int, z: float, tau2: float, alpha2: float, alpha2_0: float, alpha2_1: float
) -> simulation.Simulation:
    sizes, noises = [1, int(n0), int(n1)], [alpha2, alpha2_0, alpha2_1]
    return _simulated(sizes, z, tau2, noises, tau2 / (tau2 + alpha2), "risk with a covariate")


register(
    Claim(
        id="generative:covariates:risk",
        title="Risk where a covariate moves the prior's mean",
        place="beside Section 2.1",
        statement="""With tau2 known and mu and beta unknown, the best linear unbiased predictor of a client's parameter has
            this mean squared error: what is left with the prior known, and what the line through the others leaves open.""",
        latex=r"""\frac{\tau^2\alpha^2}{\tau^2+\alpha^2}+\left(\frac{\alpha^2}{\tau^2+\alpha^2}\right)^2%
            \frac{s}{ab+\frac{s}{\tau^2+\alpha^2}},\quad """
        + ",\\quad ".join(WEIGHTS),
        kind="identity",
        variables=(N0, N1, Z, TAU2, ALPHA2, AT0, AT1),
        examples=({**EXAMPLE, "alpha2": 1},),
        printed=_risk_printed,
        derive=_risk_derive,
        oracle=_risk_oracle,
        computed=_risk_computed,
        simulate=_risk_simulate,
        unit="variance",
        ours=True,
        related=("generative:thm1:estimator", "generative:covariates:new-client"),
        remark="""The first two terms of Prasad and Rao (1990); a tau2 that is estimated adds a third, of the order of one
            over the number of clients. As n0 and n1 grow the second term goes away.""",
    )
)


# --- a client without ------------------------------------------------------------------------------------------------


def _new_printed(n0: Any, n1: Any, z: Any, tau2: Any, alpha2_0: Any, alpha2_1: Any) -> Any:
    return tau2 + (1 - z) ** 2 * (tau2 + alpha2_0) / n0 + z**2 * (tau2 + alpha2_1) / n1


def _new_derive(n0: Any, n1: Any, z: Any, tau2: Any, alpha2_0: Any, alpha2_1: Any) -> Derivation:
    d = Derivation()
    client = Group("new", ONE, tau2, ZERO, ZERO)
    low, high = others(n0, n1, tau2, alpha2_0, alpha2_1)
    u, v = d.say("Weights of the averages at 0 and at 1 that are unbiased for every mu and beta:", (1 - z, z))
    error = u * low + v * high - client.noise("p")
    return d.conclude("There are no others, and the error has the mean square", sp.expand(covariance(error, error)))


def _new_oracle(n0: int, n1: int, z: Any, tau2: Any, alpha2_0: Any, alpha2_1: Any) -> Any:
    matrix, unit = precisions(0, z, int(n0), int(n1), tau2, alpha2_0, alpha2_1)
    return rational(solve(matrix, unit)[2])


def _new_computed(n0: int, n1: int, z: float, tau2: float, alpha2_0: float, alpha2_1: float) -> float:
    return float(_fitted(n0, n1, z, tau2, np.inf, alpha2_0, alpha2_1).predict([z], return_sd=True)[1][0] ** 2)


def _new_simulate(n0: int, n1: int, z: float, tau2: float, alpha2_0: float, alpha2_1: float) -> simulation.Simulation:
    return _simulated([1, int(n0), int(n1)], z, tau2, [0.0, alpha2_0, alpha2_1], 0.0, "error for a new client")


register(
    Claim(
        id="generative:covariates:new-client",
        title="Prediction for a client without data",
        place="beside Section 2.1",
        statement="""With tau2 known, the line through the others' estimates predicts the parameter of a client without data,
            of covariate z, with this mean squared error.""",
        latex=r"\tau^2+(1-z)^2\frac{\tau^2+\alpha_0^2}{n_0}+z^2\frac{\tau^2+\alpha_1^2}{n_1}",
        kind="identity",
        variables=(N0, N1, Z, TAU2, AT0, AT1),
        examples=(EXAMPLE,),
        printed=_new_printed,
        derive=_new_derive,
        oracle=_new_oracle,
        computed=_new_computed,
        simulate=_new_simulate,
        unit="variance",
        ours=True,
        related=("generative:covariates:risk",),
        remark="The least is at a z between 0 and 1; it grows with the square of the distance from there.",
    )
)
