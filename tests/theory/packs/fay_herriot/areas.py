"""One small area among m alike: the best weight of its own estimate, and the mean squared error.

Model: theta_i = mu + v_i, y_i = theta_i + e_i with variances A of v_i and D of e_i, all independent.

Belongs here: claims on areas of equal sampling variance. Does not belong here: estimating A.
"""

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian, mean_regularized
from theory.engine import simulation
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, Group, covariance, posterior
from theory.engine.registry import register

ONE, ZERO = sp.Integer(1), sp.Integer(0)
M = Variable("m", "size", "areas", low=2)
A = Variable("A", "positive", "variance of the areas' true values around their mean")
D = Variable("D", "positive", "sampling variance of an area's own estimate")
EXAMPLE = {"A": 1, "D": "1/2"}


# --- the weight of the own estimate, the mean known ---------------------------------------------------------------


def risk_known(x: Any, A: Any, D: Any) -> Any:
    """Risk of mu + x (y - mu)."""
    area = Group("area", ONE, A, D, ZERO)
    error = x * (area.estimates() - CENTRE) - (area.parameters() - CENTRE)
    return covariance(error, error)


def weight_derive(A: Any, D: Any) -> Derivation:
    """The weight, from the posterior."""
    d = Derivation()
    area = Group("area", ONE, A, D, ZERO)
    d.say("Around the known mean the own estimate and the true value have the covariances", (A + D, A))
    best = posterior(area.parameters() - CENTRE, [area.estimates() - CENTRE], v0=ZERO)
    return d.conclude("The weight of the own estimate's departure from the mean in the posterior mean is", best.weights[0])


def weight_oracle(A: Any, D: Any) -> Any:
    """Vertex of the risk as a parabola through three exact values."""
    low, middle, high = ((1 - x) ** 2 * A + x**2 * D for x in (-1, 0, 1))
    return (low - high) / (2 * (low + high - 2 * middle))


register(
    Claim(
        id="fayherriot:weight",
        title="Weight of an area's own estimate",
        place="Section 2",
        statement="With mu and A known, mu + w (y - mu) has the least mean squared error at this w.",
        latex=r"\frac{A}{A+D}",
        kind="optimum",
        variables=(A, D),
        examples=(EXAMPLE,),
        printed=lambda A, D: A / (A + D),
        derive=weight_derive,
        oracle=weight_oracle,
        computed=lambda A, D: gaussian.shrinkage_factor(sigma2_theta=A, sigma2_x=D, n=1),
        not_simulated=Exempt(kind="part", of=("fayherriot:known",), note="the risk that it minimises"),
        objective=risk_known,
        unit="dimensionless",
    )
)


# --- risk, the mean known -----------------------------------------------------------------------------------------


def known_derive(A: Any, D: Any) -> Derivation:
    """The risk at the best weight."""
    d = Derivation()
    w = d.lemma("fayherriot:weight", "the best weight", A=A, D=D)
    return d.conclude("The risk at this weight is", sp.factor(risk_known(w, A, D)))


def known_simulate(A: float, D: float) -> simulation.Simulation:
    """The error of the best predictor, from raw noise."""
    w = A / (A + D)
    return simulation.mean_squares(
        simulation.federation([2], A, D, 0.0), 0, np.full(2, 0.5), [simulation.vector(1, p=w - 1, e=w)],
        ["risk, mean known"],
    )  # fmt: skip


register(
    Claim(
        id="fayherriot:known",
        title="Risk of the best predictor, mean known",
        place="Section 2",
        statement="With mu and A known, the best predictor has this mean squared error.",
        latex=r"\frac{AD}{A+D}",
        kind="identity",
        variables=(A, D),
        examples=(EXAMPLE,),
        printed=lambda A, D: A * D / (A + D),
        derive=known_derive,
        oracle=lambda A, D: 1 / (1 / A + 1 / D),
        computed=lambda A, D: D * gaussian.shrinkage_factor(sigma2_theta=A, sigma2_x=D, n=1),
        simulate=known_simulate,
        unit="variance",
    )
)


# --- risk, the mean estimated -------------------------------------------------------------------------------------


def unknown_derive(m: Any, A: Any, D: Any) -> Derivation:
    """The posterior variance under a flat prior on mu."""
    d = Derivation()
    own, others = (Group(name, size, A, D, ZERO) for name, size in (("own", ONE), ("others", m - 1)))
    best = posterior(own.parameters(), [own.estimates(), others.estimates()])
    d.say("Under a flat prior on mu, the weights of the own estimate and of the others' sum are", best.weights)
    return d.conclude("The posterior variance, which is the risk of the best linear unbiased predictor, is", best.variance)


def unknown_oracle(m: Any, A: Any, D: Any) -> Any:
    """The posterior variance with concrete areas."""
    areas = Clients([A] * int(m), [D] * int(m), [0] * int(m))
    return rational(areas.posterior(areas.parameter[0], areas.estimate)[1])


def unknown_simulate(m: int, A: float, D: float) -> simulation.Simulation:
    """The error of the predictor around the average of all areas, from raw noise."""
    w = A / (A + D)
    return simulation.mean_squares(
        simulation.federation([m], A, D, 0.0), 0, np.full(int(m), 1 / m), [simulation.vector(1, p=w - 1, e=w, a0=1 - w)],
        ["risk, mean estimated"],
    )  # fmt: skip


register(
    Claim(
        id="fayherriot:unknown",
        title="Risk of the best linear unbiased predictor, mean estimated",
        place="Section 2",
        statement="With A known and mu estimated, the best linear unbiased predictor has this mean squared error.",
        latex=r"\frac{AD}{A+D}+\frac{D^2}{m(A+D)}",
        kind="identity",
        variables=(M, A, D),
        examples=({**EXAMPLE, "m": 5},),
        printed=lambda m, A, D: A * D / (A + D) + D**2 / (m * (A + D)),
        derive=unknown_derive,
        oracle=unknown_oracle,
        computed=lambda m, A, D: mean_regularized.optimal_mse(sigma2_loc=D, tau2=A, K=m),
        simulate=unknown_simulate,
        unit="variance",
        related=("fayherriot:known", "mrmtl:cor6.4"),
    )
)
