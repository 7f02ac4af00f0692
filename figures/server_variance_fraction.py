"""Variance of the server's estimate against the share of clients that opt out (FedHDP, Figure 4).

FedAvg (every message weighs the same) against FedHDP at r*, with N and gamma2 fixed.  The paper's text does
not give the parameters of its figure, so those below are ours.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

from functools import partial

import numpy as np

from estimators.closed_forms import aggregation
from figures import style
from figures.points import Points, server_experiment

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "fedhdp:lemma6:rstar",
    "fedhdp:lemma6:var",
    "fedhdp:lemma7:eq79",
    "fedhdp:lemma7:limits",
)
N, ALPHA2, TAU2, GAMMA2 = 50, 0.5, 0.5, 1.0
RATIOS = {"fedavg": [1.0, 1.0], "fedhdp": None}


def levels(N_np):
    """Return sizes and gamma2s of the levels that have clients."""
    both = [(int(N_np), 0.0), (N - int(N_np), GAMMA2)]
    return tuple(list(column) for column in zip(*[level for level in both if level[0]], strict=True))


def variance(N_np, ratios):
    """Return the closed form with `N_np` clients without privacy."""
    sizes, gamma2s = levels(N_np)
    return aggregation.server_mse(sizes, gamma2s, ALPHA2, TAU2, ratios and ratios[: len(sizes)])


def experiment(N_np, ratios):
    """Return the experiment that simulates the same variance."""
    sizes, gamma2s = levels(N_np)
    weights = aggregation.level_weights(sizes, gamma2s, ALPHA2, TAU2, ratios and ratios[: len(sizes)])
    return server_experiment(sizes, np.multiply(sizes, gamma2s), ALPHA2, TAU2, weights)


def compute(quick=False):
    """Return lines and points of both aggregators, with provenance."""
    points = Points("server_variance_fraction", quick)
    counts = np.arange(N + 1)
    curves = {}
    for name, ratios in RATIOS.items():
        closed, simulated = partial(variance, ratios=ratios), partial(experiment, ratios=ratios)
        found = points.compare(name, [0, 1, 3, 7, 14, 22, 30, 40, 50], closed, simulated)
        curves[name] = {
            "x": counts / N,
            "y": np.array([closed(count) for count in counts]),
            "points": {**found, "x": found["x"] / N},
        }
    parameters = {"N": N, "alpha2": ALPHA2, "tau2": TAU2, "gamma2": GAMMA2}
    return {"curves": curves, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, axes = style.new_figure(style.COLUMN, 2.5)
    fedavg, fedhdp = data["curves"]["fedavg"], data["curves"]["fedhdp"]
    style.curve(axes, fedavg, style.VERMILLION, "o")
    style.curve(axes, fedhdp, style.BLUE, "s")
    axes.fill_between(fedavg["x"], fedhdp["y"], fedavg["y"], color=style.GREY, alpha=0.1, linewidth=0)
    axes.set(yscale="log", xlim=(-0.02, 1.02), ylim=(0.015, 1.4))
    axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1], ["0.02", "0.05", "0.1", "0.2", "0.5", "1"])
    axes.yaxis.minorticks_off()
    fedavg_place, fedhdp_place = (fedavg["x"][25], fedavg["y"][25]), (fedhdp["x"][22], fedhdp["y"][22])
    style.note(axes, *fedavg_place, "FedAvg ($r=1$)", (4, 5), color=style.VERMILLION)
    style.note(axes, *fedhdp_place, "FedHDP ($r=r^*$)", (-4, -7), color=style.BLUE, ha="right")
    style.points_note(axes, 0.98, 0.88, "right")
    axes.set_xlabel(r"share of clients without privacy, $\rho_{\mathrm{np}}$")
    axes.set_ylabel(r"server variance $\sigma_s^2$ (squared units)")
    return figure
