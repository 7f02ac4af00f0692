"""Claims on small areas: Fay and Herriot's model, for areas alike.

Belongs here: the paper's record. Does not belong here: claims.
"""

from theory.engine.paper import Paper

PAPER = Paper(
    key="fayherriot",
    citation="Fay, Herriot. Estimates of Income for Small Places: An Application of James-Stein Procedures to Census Data, "
    "JASA 74, 1979",
    package=__name__,
    modules=("areas",),
)
