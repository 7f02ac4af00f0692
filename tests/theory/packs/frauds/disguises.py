"""Frauds in disguise: the shared formula goes through a global, a cache, a string, a lemma; what fails is looked away from.

Belongs here: frauds that try to stay out of the record of calls, or that behave where they are watched.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import sympy as sp

from frauds.honest import RISK, risk
from frauds.judges import once
from theory.engine import simulation
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.registry import register

# The formula is kept in a module's table, and taken from it by both.
TABLE = {"risk": once}


def tabled_derive(A: Any, D: Any) -> Derivation:
    """Concludes what the table says."""
    return Derivation().conclude("By the table", TABLE["risk"](A, D))


register(
    replace(RISK, id="frauds:disguises:a-table-of-formulas", printed=lambda A, D: TABLE["risk"](A, D), derive=tabled_derive)
)

# The formula is a symbol's value in the module: no function is shared.
X, Y = sp.symbols("x y", positive=True)
FORMULA = X * Y / (X + Y)


def global_derive(A: Any, D: Any) -> Derivation:
    """Concludes what the module holds."""
    return Derivation().conclude("As everybody knows", FORMULA.subs({X: A, Y: D}, simultaneous=True))


def from_global(A: Any, D: Any) -> Any:
    """Reads the formula that the module holds."""
    return FORMULA.subs({X: A, Y: D}, simultaneous=True)


register(
    replace(
        RISK,
        id="frauds:disguises:a-formula-in-the-module",
        printed=lambda A, D: FORMULA.subs({X: A, Y: D}, simultaneous=True),
        derive=global_derive,
        oracle=from_global,
    )
)

# Who asks second finds the answer in a cache, and calls nothing.
CACHED = lru_cache(maxsize=None)(once)
register(replace(RISK, id="frauds:disguises:a-cache", printed=lambda A, D: CACHED(A, D), oracle=lambda A, D: CACHED(A, D)))
# The formula is a string.
TEXT = "A * D / (A + D)"
register(replace(RISK, id="frauds:disguises:a-string", printed=lambda A, D: eval(TEXT), oracle=lambda A, D: eval(TEXT)))
register(
    replace(
        RISK,
        id="frauds:disguises:a-string-that-sympy-reads",
        printed=lambda A, D: sp.sympify(TEXT, {"A": A, "D": D}),
        oracle=lambda A, D: sp.sympify(TEXT, locals={"A": A, "D": D}),
    )
)


# What is derived is taken away again, and the formula put in its place.
def zero_derive(A: Any, D: Any) -> Derivation:
    """Computes something that cancels."""
    d = Derivation()
    value = d.say("The risk is", sp.factor(risk(A / (A + D), A, D)))
    return d.conclude("so it is", sp.expand(value - value) + A * D / (A + D))


register(replace(RISK, id="frauds:disguises:nothing-added", derive=zero_derive))


# Two claims that take each other.
def first_derive(A: Any, D: Any) -> Derivation:
    """By the other."""
    d = Derivation()
    return d.conclude("so", d.lemma("frauds:disguises:circle-two", A=A, D=D))


def second_derive(A: Any, D: Any) -> Derivation:
    """By the one."""
    d = Derivation()
    return d.conclude("so", d.lemma("frauds:disguises:circle-one", A=A, D=D))


register(replace(RISK, id="frauds:disguises:circle-one", derive=first_derive))
register(replace(RISK, id="frauds:disguises:circle-two", derive=second_derive))


def two_faced(A: Any, D: Any) -> Any:
    """The right formula for symbols, another for numbers."""
    return A * D / (A + D) if getattr(A, "is_symbol", False) else A * A / (A + D)


register(replace(RISK, id="frauds:disguises:two-faced", printed=two_faced))


def shy_oracle(A: Any, D: Any) -> Any:
    """Looks away where the formula fails."""
    return 1 / (1 / A + 1 / D) if A == D else sp.nan


register(
    replace(RISK, id="frauds:disguises:an-oracle-that-looks-away", printed=lambda A, D: A**2 / (A + D), oracle=shy_oracle)
)
# The condition is the claim itself.
register(
    replace(
        RISK,
        id="frauds:disguises:holds-where-it-holds",
        printed=lambda A, D: A**2 / (A + D),
        condition=lambda A, D: sp.Eq(A**2 / (A + D), once(A, D)),
        condition_text="the formula is right",
    )
)


def blind_simulate(A: float, D: float) -> simulation.Simulation:
    """What is read off the experiment is none of its data: a constant, with the noise of another experiment around it."""
    return simulation.mean_squares(
        simulation.federation([2], 0.0, 0.0, A * D / (A + D)), 0, [0.5, 0.5], [simulation.vector(1, p=0.0, e=0.0)], ["risk"]
    )


register(replace(RISK, id="frauds:disguises:a-blind-reading", simulate=blind_simulate))
# A change of value is called none.
register(
    replace(
        RISK,
        id="frauds:disguises:an-edit-called-neutral",
        latex=r"\frac{AD}{A+2D}",
        edits=(Edit(printed="A+2D", read="A+D", reason="a factor of no importance", changes_value=False),),
    )
)
# The domain is one where the wrong formula is right.
register(
    replace(
        RISK,
        id="frauds:disguises:a-domain-of-one-line",
        printed=lambda A, D: D / 2 + 0 * A,
        variables=(Variable("A", "choice", "variance", choices=(1,)), Variable("D", "choice", "variance", choices=(1,))),
        examples=({"A": 1, "D": 1},),
    )
)
