"""Deliberate frauds and slips: claims that `borrow verify` must refuse, each with what it refuses them for.

Belongs here: the pack's record. Does not belong here: claims that hold, but for the honest one that the frauds are made of.
"""

from theory.engine.paper import Paper

PAPER = Paper(
    key="frauds",
    citation="Nobody. Results Too Good to Check, not published",
    package=__name__,
    modules=("honest", "judges", "formulas", "domains", "evidence", "disguises", "shape"),
)
