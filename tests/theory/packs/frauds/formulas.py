"""Formulas that are wrong, and made to look right.

Belongs here: frauds by wrong formulas, wrong models and wrong corrections.
"""

from dataclasses import replace
from typing import Any

import sympy as sp

from estimators.closed_forms import gaussian
from frauds.honest import BOUND, RISK, WEIGHT, risk, risk_simulate
from theory.engine.derivation import Derivation
from theory.engine.registry import register
from theory.engine.tight import Tight

register(replace(RISK, id="frauds:formulas:wrong", printed=lambda A, D: A * D / (A + 2 * D)))
register(replace(RISK, id="frauds:formulas:nearly", printed=lambda A, D: A * D / (A + D) * (1 + sp.Rational(1, 10**30))))
register(replace(RISK, id="frauds:formulas:decimal", printed=lambda A, D: 0.3333333333 * 3 * A * D / (A + D)))


def wrong_derive(A: Any, D: Any) -> Derivation:
    """Twice the sampling variance."""
    d = Derivation()
    return d.conclude("The risk is", sp.factor(risk(A / (A + 2 * D), A, 2 * D)))


# The wrong model in printed formula, derivation and oracle: the float function and the simulation know better.
WRONG = replace(
    RISK,
    latex=r"\frac{2AD}{A+2D}",
    printed=lambda A, D: 2 * A * D / (A + 2 * D),
    derive=wrong_derive,
    oracle=lambda A, D: 1 / (1 / A + 1 / (2 * D)),
)
register(replace(WRONG, id="frauds:formulas:wrong-model"))


def float_risk(A: float, D: float) -> float:
    """The float function, right."""
    return D * gaussian.shrinkage_factor(sigma2_theta=A, sigma2_x=D, n=1)


# ... and in the float function too: the simulation knows better.
BLIND = replace(WRONG, computed=lambda A, D: float_risk(A, 2 * D))
register(replace(BLIND, id="frauds:formulas:wrong-model-everywhere"))
# ... and in the simulation: nothing is left that knows better.
register(replace(BLIND, id="frauds:formulas:wrong-model-and-simulation", simulate=lambda A, D: risk_simulate(A, 2 * D)))
register(replace(RISK, id="frauds:formulas:float-off-by-1e-9", computed=lambda A, D: (1 + 1e-9) * float_risk(A, D)))
# Right at simple points, useless where A is much smaller than D.
register(replace(RISK, id="frauds:formulas:float-loses-digits", computed=lambda A, D: D - (D - float_risk(A, D))))
register(replace(RISK, id="frauds:formulas:oracle-nan", oracle=lambda A, D: sp.nan))
register(replace(RISK, id="frauds:formulas:oracle-raises", oracle=lambda A, D: 1 / sp.Integer(0).p))
register(replace(RISK, id="frauds:formulas:two-values-for-one", printed=lambda A, D: (A * D / (A + D), A)))
register(replace(RISK, id="frauds:formulas:other-letters", printed=lambda A, D: sp.Symbol("A") * sp.Symbol("D") / (A + D)))
# An equality judged as a bound.
register(replace(BOUND, id="frauds:formulas:loosened-bound", printed=lambda A, D: (A + D) / 2))
register(
    replace(BOUND, id="frauds:formulas:slightly-loosened-bound", printed=lambda A, D: (A + D) / 4 * sp.Rational(1001, 1000))
)
register(replace(BOUND, id="frauds:formulas:bound-that-fails", printed=lambda A, D: (A + D) / 5))
register(replace(BOUND, id="frauds:formulas:false-slack", tight=Tight(at={"A": 1, "D": 3}, ratio="1")))
register(replace(BOUND, id="frauds:formulas:bound-without-slack", tight=None))
# A refuted formula with a wrong correction, with none, and with one that is the derivation's own text.
FALSE = replace(RISK, printed=lambda A, D: A * D / (A + 2 * D), finding="The sampling variance is counted twice.")
register(replace(FALSE, id="frauds:formulas:wrong-correction", corrected=lambda A, D: A * D / (2 * A + D)))
register(replace(FALSE, id="frauds:formulas:no-correction"))
register(replace(FALSE, id="frauds:formulas:correction-is-the-derivation",
                 corrected=lambda A, D: sp.factor(risk(A / (A + D), A, D))))  # fmt: skip
# The weight of the *other* estimate, with an objective that it minimises.
register(replace(WEIGHT, id="frauds:formulas:weight-of-the-other", printed=lambda A, D: D / (A + D)))


def circular_derive(A: Any, D: Any) -> Derivation:
    """Takes itself as a lemma."""
    d = Derivation()
    return d.conclude("so", d.lemma("frauds:formulas:takes-itself", A=A, D=D))


register(replace(RISK, id="frauds:formulas:takes-itself", derive=circular_derive))


# The misprint is mended without a word: the display still has it.
register(replace(RISK, id="frauds:formulas:transcribed-away", latex=r"\frac{AD}{A+2D}"))
