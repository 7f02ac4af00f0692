"""Claims of Aldaghri, Mahdavifar and Beirami, "FeO2: Federated Learning with Opt-Out Differential Privacy" (2021).

The earlier version of FedHDP: point estimation with private and non-private clients. Belongs here: the paper's record.
Does not belong here: claims.
"""

from theory.engine.paper import Paper

PAPER = Paper(
    key="feo2",
    order=2,
    citation="Aldaghri, Mahdavifar, Beirami. FeO2: Federated Learning with Opt-Out Differential Privacy, NFFL workshop 2021",
    package=__name__,
    modules=("point_estimation", "tables"),
)
