"""Risk of a client that stays private or opts out, in federated linear regression (FedHDP, Figures 1 and 2).

Left HDP-FedAvg+Ditto (every message weighs the same), right FedHDP at the optimal ratio r*.  The risk is per
coordinate; alpha2 is the variance of the client's own least-squares estimate.  The paper's text does not
give the parameters of its figures, so those below are ours.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

from figures import opt_out

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "fedhdp:lemma2:rstar",
    "fedhdp:lemma3:lambda",
    "fedhdp:lemma3:bayes",
    "fedhdp:eq41",
    "fedhdp:thm5",
    "fedhdp:lambda-order",
    "fedhdp:optout-helps",
    "fedhdp:optout-helps:same-client",
    "fedhdp:beats-hdp",
)
PARAMETERS = {"N_np": 2, "N_p": 3, "tau2": 0.1, "gamma2": 1.0}


def compute(quick=False):
    """Return lines, points and optima of both panels, with provenance."""
    return opt_out.compute("opt_out_regression", CLAIMS, quick, **PARAMETERS)


def draw(data):
    """Return the figure of the data that `compute` returned."""
    return opt_out.draw(data, ("HDP-FedAvg + Ditto ($r=1$)", "FedHDP ($r=r^*$)"), limits=(0.2, 1.0))
