"""Risk of a client that stays private or opts out, in federated point estimation (FedHDP, Figure 5).

Left Ditto with vanilla FedAvg (every message weighs the same), right FedHDP at the optimal ratio r*.  The
paper's text does not give the parameters of its figure, so those below are ours: more clients, more diverse
and with more noise than in `opt_out_regression`.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

from figures import opt_out

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "fedhdp:lemma6:rstar",
    "fedhdp:thm8:np",
    "fedhdp:thm8:p",
    "fedhdp:eq41",
    "fedhdp:lambda-order",
    "fedhdp:optout-helps",
    "fedhdp:optout-helps:same-client",
    "fedhdp:beats-hdp",
)
PARAMETERS = {"N_np": 1, "N_p": 5, "tau2": 0.3, "gamma2": 1.0}


def compute(quick=False):
    """Return lines, points and optima of both panels, with provenance."""
    return opt_out.compute("opt_out_point", CLAIMS, quick, **PARAMETERS)


def draw(data):
    """Return the figure of the data that `compute` returned."""
    return opt_out.draw(data, ("Ditto with vanilla FedAvg ($r=1$)", "FedHDP ($r=r^*$)"), limits=(0.4, 1.2))
