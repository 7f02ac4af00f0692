"""The commands of this package, for the door ``borrow``: each with its help and the function that adds its arguments.

Belongs here: names and help, without importing anything.  Does not belong here: the commands (``cli``).
"""

COMMANDS = {
    "verify": ("judge claims at every level and write the ledger", "theory.cli:add_verify"),
    "prove": ("check the Coq proofs of claims, or generate them anew", "theory.cli:add_prove"),
    "ledger": ("write theory/LEDGER.md, the page of all verdicts, from the evidence", "theory.cli:add_ledger"),
    "claims": ("list the claims", "theory.cli:add_claims"),
    "show": ("statement, source, derivation, evidence and verdict of a claim", "theory.cli:add_show"),
    "evaluate": ("printed, derived and simulated value at a point", "theory.cli:add_evaluate"),
}
