"""Variance of the server's estimate against the weight ratio of private clients (FedHDP, Figure 3).

Left for several privacy noises gamma2, right for several client variances sigma2_c = alpha2 + tau2; r* of
Lemma 6 is marked.  The paper's text does not give the parameters of its figure, so those below are ours.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

from functools import partial

import numpy as np

from estimators.closed_forms import aggregation
from figures import style
from figures.points import Points, server_experiment

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "fedhdp:lemma2:rstar",
    "fedhdp:lemma2:cov",
    "fedhdp:lemma6:rstar",
    "fedhdp:lemma6:var",
    "fedhdp:r-le-1",
)
SIZES = [5, 15]
SIGMA2_C, GAMMA2 = 1.0, 0.4
GAMMA2S, SIGMA2_CS = (0.1, 0.4, 1.6), (0.25, 1.0, 4.0)
TAU2_SHARE = 0.5  # the error depends on alpha2 + tau2 only; the simulation has to draw both


def variance(ratio, sigma2_c, gamma2):
    """Return the closed form at `ratio`."""
    alpha2, tau2 = (1 - TAU2_SHARE) * sigma2_c, TAU2_SHARE * sigma2_c
    return aggregation.server_mse(SIZES, [0.0, gamma2], alpha2, tau2, ratios=[np.ones_like(ratio), ratio])


def experiment(ratio, sigma2_c, gamma2):
    """Return the experiment that simulates the same variance."""
    alpha2, tau2 = (1 - TAU2_SHARE) * sigma2_c, TAU2_SHARE * sigma2_c
    weights = np.array([1.0, ratio]) / (SIZES[0] + SIZES[1] * ratio)
    return server_experiment(SIZES, [0.0, SIZES[1] * gamma2], alpha2, tau2, weights)


def compute(quick=False):
    """Return lines, points and optima of both panels, with provenance."""
    points = Points("server_variance_ratio", quick)
    x = np.linspace(0, 1, 201)
    settings = {
        "gamma2": [{"sigma2_c": SIGMA2_C, "gamma2": gamma2} for gamma2 in GAMMA2S],
        "sigma2_c": [{"sigma2_c": sigma2_c, "gamma2": GAMMA2} for sigma2_c in SIGMA2_CS],
    }
    panels = {}
    for panel, curves in settings.items():
        panels[panel] = []
        for setting in curves:
            alpha2, tau2 = (1 - TAU2_SHARE) * setting["sigma2_c"], TAU2_SHARE * setting["sigma2_c"]
            best = float(aggregation.optimal_ratio(SIZES[0], SIZES[1], alpha2, tau2, 0.0, setting["gamma2"]))
            key = f"{panel}={setting[panel]}"
            closed, simulated = partial(variance, **setting), partial(experiment, **setting)
            panels[panel].append(
                {
                    "setting": setting,
                    "x": x,
                    "y": closed(x),
                    "optimum": {"x": best, "y": float(closed(best))},
                    "points": points.compare(key, [0.0, 0.1, 0.25, 0.5, 0.75, 1.0], closed, simulated),
                }
            )
    parameters = {"N_np": SIZES[0], "N_p": SIZES[1], "tau2_share_of_sigma2_c": TAU2_SHARE}
    return {"panels": panels, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, both = style.new_figure(style.PAGE, 2.7, columns=2, sharey=True)
    symbols = {"gamma2": r"\gamma^2", "sigma2_c": r"\sigma_c^2"}
    fixed = {"gamma2": rf"$\sigma_c^2={SIGMA2_C:g}$", "sigma2_c": rf"$\gamma^2={GAMMA2:g}$"}
    looks = ((style.BLUE, "s"), (style.GREEN, "o"), (style.VERMILLION, "^"))
    # Where there is room for the labels: of the optimum, and (upwards) of the end of each curve.
    at_optimum = {"gamma2": [(-16, -9), (2, 13), (-6, 25)], "sigma2_c": [(-2, -10), (-16, -9), (-16, -9)]}
    at_end = {"gamma2": [0, 0, 0], "sigma2_c": [-4, 4, 0]}
    for axes, letter, (panel, curves) in zip(both, "ab", data["panels"].items(), strict=True):
        for i, (curve, (colour, marker)) in enumerate(zip(curves, looks, strict=True)):
            style.curve(axes, curve, colour, marker)
            text = f"$r^*={curve['optimum']['x']:.2f}$"
            style.optimum(axes, curve, colour, text, at_optimum[panel][i], ha="left")
            text = f"${symbols[panel]}={curve['setting'][panel]:g}$"
            style.note(axes, 1, curve["y"][-1], text, (6, at_end[panel][i]), color=colour)
        axes.set(xlim=(-0.02, 1.02), yscale="log", ylim=(0.03, 1.3))
        axes.set_yticks([0.03, 0.1, 0.3, 1], ["0.03", "0.1", "0.3", "1"])
        axes.yaxis.minorticks_off()
        axes.set_xlabel(r"weight ratio of private to non-private clients, $r$")
        style.panel_caption(axes, letter, fixed[panel])
    style.points_note(both[0], 0.98, 0.03, "right")
    both[0].set_ylabel(r"server variance $\sigma_s^2$ (squared units)")
    return figure
