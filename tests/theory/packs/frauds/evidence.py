"""Exemptions that do not stand, assumptions that contradict each other, edits that change the value.

Belongs here: frauds by what is left out or read otherwise.
"""

from dataclasses import replace
from typing import Any

from frauds.honest import RISK
from theory.engine.derivation import Derivation
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.registry import register

BARE = replace(RISK, simulate=None, not_simulated=Exempt(kind="rare"))
register(replace(BARE, id="frauds:evidence:random-called-deterministic", not_simulated=Exempt(kind="deterministic")))
register(replace(BARE, id="frauds:evidence:called-rare", not_simulated=Exempt(kind="rare")))
register(replace(BARE, id="frauds:evidence:called-a-divergence", not_simulated=Exempt(kind="divergence")))
register(replace(BARE, id="frauds:evidence:called-enumerated", not_simulated=Exempt(kind="enumerated")))
register(
    replace(
        BARE, id="frauds:evidence:stands-in-for-nothing", not_simulated=Exempt(kind="part", of=("frauds:honest:weight",))
    )
)
NO_FLOAT = replace(RISK, computed=None, not_computed=Exempt(kind="few"))
register(replace(NO_FLOAT, id="frauds:evidence:called-elsewhere",
                 not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.gaussian.nothing")))  # fmt: skip
register(replace(NO_FLOAT, id="frauds:evidence:called-constant", not_computed=Exempt(kind="constant")))
register(replace(NO_FLOAT, id="frauds:evidence:called-refuted", not_computed=Exempt(kind="refuted")))
register(replace(RISK, id="frauds:evidence:read-otherwise",
                 edits=(Edit(printed="A+D", read="A+D/2", reason="convenience", changes_value=True),)))  # fmt: skip
register(replace(RISK, id="frauds:evidence:flat", assumes={"prior": "flat"}))


def lax_derive(A: Any, D: Any) -> Derivation:
    """Takes a claim with a flat prior."""
    d = Derivation()
    return d.conclude("so", d.lemma("frauds:evidence:flat", A=A, D=D))


register(replace(RISK, id="frauds:evidence:laxer-than-its-lemma", derive=lax_derive, assumes={"prior": "proper"}))
# A function declared as shared that is not.
register(replace(RISK, id="frauds:evidence:shares-nothing", shares={"frauds.honest.risk": "it is convenient"}))
