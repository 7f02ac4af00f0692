"""Claims that break a house rule: they are named with the mend, and the others go on.

Belongs here: what cannot be built at all.
"""

from dataclasses import replace

import sympy as sp

from frauds.honest import BOUND, RISK
from theory.engine.edit import Edit
from theory.engine.registry import register

register(replace(RISK, id="frauds:shape:condition-in-silence", condition=lambda A, D: sp.Eq(A, D)))
register(replace(RISK, id="frauds:shape:no-simulation-no-reason", simulate=None))
register(replace(RISK, id="frauds:shape:no-float-no-reason", computed=None))
register(replace(RISK, id="frauds:shape:simulation-asks-for-the-value", simulate=lambda A, D, expected: None))
register(replace(RISK, id="frauds:honest:risk"))
register(replace(RISK, id="frauds:shape:identity-as-bound", relation="<=", printed=lambda A, D: A * D / (A + D) + A))
register(replace(RISK, id="frauds:shape:edit-of-nothing", edits=(Edit(printed="x", read="y", reason="z"),)))
register(replace(RISK, id="frauds:shape:unknown-assumption", assumes={"luck": "good"}))
register(replace(RISK, id="frauds:shape:no-place", place=""))
register(replace(BOUND, id="frauds:shape:unknown-relation", relation="~"))
register(replace(RISK, id="frauds:shape:corrected-in-silence", corrected=lambda A, D: A * D / (A + D)))
