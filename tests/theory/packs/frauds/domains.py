"""Conditions and domains that leave out what the sentence speaks of.

Belongs here: frauds by conditions, certificates, domains.
"""

from dataclasses import replace

import sympy as sp

from frauds.honest import BOUND, RISK, A, D
from theory.engine.domain import Variable
from theory.engine.registry import register

FALSE = replace(RISK, printed=lambda A, D: A**2 / (A + D), condition_text="the variances are as they must be")
register(replace(FALSE, id="frauds:domains:condition-outside", condition=lambda A, D: sp.Eq(A, -D)))
register(replace(FALSE, id="frauds:domains:condition-nowhere", condition=lambda A, D: False))
register(replace(FALSE, id="frauds:domains:condition-everywhere", condition=lambda A, D: True))
register(replace(FALSE, id="frauds:domains:condition-too-wide", condition=lambda A, D: sp.Le(A, 2 * D)))
register(
    replace(
        FALSE, id="frauds:domains:condition-contradicts-itself", condition=lambda A, D: sp.And(sp.Eq(A, D), sp.Eq(A, 2 * D))
    )
)
register(replace(FALSE, id="frauds:domains:condition-of-another-claim", condition=lambda A, D: sp.Eq(A, 1)))
register(replace(FALSE, id="frauds:domains:counterexample-outside", condition=lambda A, D: sp.Eq(A, D),
                 counterexample={"A": -1, "D": 1}))  # fmt: skip
# A sign certificate for half of the domain.
register(replace(BOUND, id="frauds:domains:half-a-certificate",
                 shifts=lambda A, D: {A: D + sp.Symbol("s", nonnegative=True)}))  # fmt: skip
# The same judged at one point only: it holds there.
register(replace(RISK, id="frauds:domains:one-point", printed=lambda A, D: sp.Rational(1, 3),
                 variables=(Variable("A", "choice", A.meaning, choices=(1,)), D)))  # fmt: skip
