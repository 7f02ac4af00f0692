"""Judges that share what they judge, or that judge nothing.

Belongs here: frauds by dependent judges.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian
from frauds.honest import BOUND, RISK, WEIGHT, risk, risk_simulate
from theory.engine import simulation
from theory.engine.derivation import Derivation
from theory.engine.hierarchy import CENTRE, Group, covariance
from theory.engine.registry import find, register


def once(A: Any, D: Any) -> Any:
    """The formula, typed once."""
    return A * D / (A + D)


def once_derive(A: Any, D: Any) -> Derivation:
    """Concludes what was typed."""
    return Derivation().conclude("Clearly", once(A, D))


# A formula typed once and used as printed, oracle and computed, and concluded by derive.
register(replace(RISK, id="frauds:judges:typed-once", printed=once, derive=once_derive, oracle=once, computed=once))
# The oracle is the printed formula.
register(replace(RISK, id="frauds:judges:oracle-is-printed", printed=once, oracle=once))
# The oracle is typed again, letter by letter.
register(replace(RISK, id="frauds:judges:typed-twice", oracle=lambda A, D: A * D / (A + D)))


def literal_derive(A: Any, D: Any) -> Derivation:
    """Says much, computes nothing."""
    d = Derivation()
    d.say("By a long calculation the risk is a harmonic mean of", (A, D))
    return d.conclude("so it is", A * D / (A + D))


register(replace(RISK, id="frauds:judges:typed-conclusion", derive=literal_derive))


def overwritten_derive(A: Any, D: Any) -> Derivation:
    """Computes something, and concludes something else."""
    d = Derivation()
    d.say("At the best weight the risk is", sp.factor(risk(A / (A + D), A, D)))
    return d.conclude("so it is", A * D / (A + D))


register(replace(RISK, id="frauds:judges:overwritten-conclusion", derive=overwritten_derive))


def same_route(A: Any, D: Any) -> Any:
    """The oracle goes through the engine that the derivation uses."""
    area = Group("area", sp.Integer(1), A, D, sp.Integer(0))
    w = A / (A + D)
    error = w * (area.estimates() - CENTRE) - (area.parameters() - CENTRE)
    return sp.factor(covariance(error, error))


register(replace(RISK, id="frauds:judges:oracle-through-the-derivation", oracle=same_route))
register(
    replace(RISK, id="frauds:judges:oracle-is-the-derivations-risk", oracle=lambda A, D: sp.factor(risk(A / (A + D), A, D)))
)
register(
    replace(
        RISK,
        id="frauds:judges:oracle-is-computed",
        oracle=lambda A, D: sp.nsimplify(
            D * sp.Rational(gaussian.shrinkage_factor(sigma2_theta=float(A), sigma2_x=float(D), n=1))
        ),
    )
)
register(replace(RISK, id="frauds:judges:printed-from-the-model", printed=lambda A, D: sp.factor(risk(A / (A + D), A, D))))
register(replace(RISK, id="frauds:judges:computed-at-home", computed=lambda A, D: D * A / (A + D)))


def from_the_ledger(A: Any, D: Any) -> Any:
    """Reads the claim's own right value."""
    return find("frauds:honest:risk").derived_at({"A": A, "D": D})


register(replace(RISK, id="frauds:judges:oracle-reads-the-claim", oracle=from_the_ledger))


def knowing_simulate(A: float, D: float) -> simulation.Simulation:
    """No noise of the model: the claimed value, with its own noise around it."""
    value = A * D / (A + D)
    return simulation.mean_squares(
        simulation.federation([2], value, value, 0.0), 0, np.full(2, 0.5), [simulation.vector(1, p=1.0)], ["risk"]
    )


# A simulation of the claimed value itself (its letters scaled; no model behind it).
register(replace(RISK, id="frauds:judges:simulation-of-the-formula", simulate=knowing_simulate))


def deaf_simulate(A: float, D: float) -> simulation.Simulation:
    """The noise of the estimate is left out."""
    w = A / (A + D)
    return simulation.mean_squares(
        simulation.federation([2], A, 0.0, 0.0), 0, np.full(2, 0.5), [simulation.vector(1, p=w - 1, e=w)], ["risk"]
    )


register(replace(RISK, id="frauds:judges:simulation-without-noise", simulate=deaf_simulate))
# An optimum of another objective than the model's risk, which the formula does minimise.
register(replace(WEIGHT, id="frauds:judges:objective-replaced", objective=lambda x, A, D: (x * (A + D) - A) ** 2))


# The bound judges what it bounds by itself.
def itself(A: Any, D: Any) -> Derivation:
    """The bound in place of what it bounds."""
    return Derivation().conclude("The risk is", (A + D) / 4)


register(replace(BOUND, id="frauds:judges:bound-of-itself", derive=itself, oracle=lambda A, D: (A + D) / 4))


TOSS = np.random.default_rng(5)


def lucky(A: Any, D: Any) -> Any:
    """Right more often than not."""
    return A * D / (A + D) * (1 if TOSS.random() < 0.99 else 2)


register(replace(RISK, id="frauds:judges:a-judge-that-tosses-coins", printed=lucky))


def computing_simulate(A: float, D: float) -> simulation.Simulation:
    """A variance of the simulation is made of the claimed value."""
    return risk_simulate(once(A, D) * (1 + A / D), D)


register(replace(RISK, id="frauds:judges:simulation-that-computes", simulate=computing_simulate, printed=once))
