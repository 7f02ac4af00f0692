"""The honest claims that the frauds are made of: best weight and risk of shrinking one estimate towards a known centre.

Model: theta = mu + v, y = theta + e, variances A of v and D of e. Belongs here: claims that hold, and one bound.
"""

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, Group, covariance, posterior
from theory.engine.registry import register
from theory.engine.tight import Tight

ONE, ZERO = sp.Integer(1), sp.Integer(0)
A = Variable("A", "positive", "variance of the true values around the known centre")
D = Variable("D", "positive", "sampling variance of the estimate")
S = sp.Symbol("s", nonnegative=True)
EXAMPLE = {"A": 1, "D": "1/2"}


def risk(x: Any, A: Any, D: Any) -> Any:
    """Risk of mu + x (y - mu)."""
    area = Group("area", ONE, A, D, ZERO)
    error = x * (area.estimates() - CENTRE) - (area.parameters() - CENTRE)
    return covariance(error, error)


def weight_derive(A: Any, D: Any) -> Derivation:
    """The weight, from the posterior."""
    d = Derivation()
    area = Group("area", ONE, A, D, ZERO)
    best = posterior(area.parameters() - CENTRE, [area.estimates() - CENTRE], v0=ZERO)
    return d.conclude("The weight in the posterior mean is", best.weights[0])


def weight_oracle(A: Any, D: Any) -> Any:
    """Vertex of the risk as a parabola through three exact values."""
    low, middle, high = ((1 - x) ** 2 * A + x**2 * D for x in (-1, 0, 1))
    return (low - high) / (2 * (low + high - 2 * middle))


WEIGHT = register(
    Claim(
        id="frauds:honest:weight",
        title="Weight of the own estimate",
        place="Section 1",
        statement="mu + w (y - mu) has the least mean squared error at this w.",
        latex=r"\frac{A}{A+D}",
        kind="optimum",
        variables=(A, D),
        examples=(EXAMPLE,),
        printed=lambda A, D: A / (A + D),
        derive=weight_derive,
        oracle=weight_oracle,
        computed=lambda A, D: gaussian.shrinkage_factor(sigma2_theta=A, sigma2_x=D, n=1),
        not_simulated=Exempt(kind="part", of=("frauds:honest:risk",)),
        objective=risk,
        related=("frauds:honest:risk",),
    )
)


def risk_derive(A: Any, D: Any) -> Derivation:
    """The risk at the best weight."""
    d = Derivation()
    w = d.lemma("frauds:honest:weight", "the best weight", A=A, D=D)
    return d.conclude("The risk at this weight is", sp.factor(risk(w, A, D)))


def risk_simulate(A: float, D: float) -> simulation.Simulation:
    """The error of the best predictor, from raw noise."""
    w = 1 / (1 + D / A)
    return simulation.mean_squares(
        simulation.federation([2], A, D, 0.0), 0, np.full(2, 0.5), [simulation.vector(1, p=w - 1, e=w)], ["risk"]
    )


RISK = register(
    Claim(
        id="frauds:honest:risk",
        title="Risk of the best predictor",
        place="Section 1",
        statement="With the centre known, the best predictor has this mean squared error.",
        latex=r"\frac{AD}{A+D}",
        kind="identity",
        variables=(A, D),
        examples=(EXAMPLE,),
        printed=lambda A, D: A * D / (A + D),
        derive=risk_derive,
        oracle=lambda A, D: 1 / (1 / A + 1 / D),
        computed=lambda A, D: D * gaussian.shrinkage_factor(sigma2_theta=A, sigma2_x=D, n=1),
        simulate=risk_simulate,
        unit="variance",
    )
)

BOUND = register(
    Claim(
        id="frauds:honest:bound",
        title="The best predictor beats both",
        place="Section 1",
        statement="The risk is at most a quarter of the sum of both variances.",
        latex=r"\frac{A+D}{4}",
        kind="upper bound",
        relation="<=",
        variables=(A, D),
        examples=(EXAMPLE,),
        printed=lambda A, D: (A + D) / 4,
        derive=lambda A, D: bound_derive(A, D),
        oracle=lambda A, D: 1 / (1 / A + 1 / D),
        computed=lambda A, D: D * gaussian.shrinkage_factor(sigma2_theta=A, sigma2_x=D, n=1),
        simulate=risk_simulate,
        shifts=lambda A, D: [{A: D + S}, {D: A + S}],
        tight=Tight(at={"A": 1, "D": 1}),
    )
)


def bound_derive(A: Any, D: Any) -> Derivation:
    """What is bounded."""
    d = Derivation()
    return d.conclude("The risk that is bounded is", d.lemma("frauds:honest:risk", A=A, D=D))
