"""Risk of mean-regularised estimation against its strength at several privacy levels (MR-MTL, Section 6).

The axis is linear in lam / (1 + lam), so that local training (lam = 0) and FedAvg (lam = inf) are its two
ends.  Privacy adds (1 - 1/K) / (1 + lam)^2 + 1/K times the noise of a local mean: K times less at the right
end than at the left.  The parameters are ours; the section has no such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import math
from functools import partial

import numpy as np

from estimators.closed_forms import mean_regularized
from figures import style
from figures.points import Points, blend_experiment

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "mrmtl:eq5",
    "mrmtl:thm6.3",
    "mrmtl:cor6.4",
    "mrmtl:prop6.5",
    "mrmtl:prop6.6",
    "mrmtl:lem6.7",
    "mrmtl:thm6.8",
)
K, RECORDS, SIGMA2, TAU2 = 10, 20, 10.0, 1.0
SIGMA2_DPS = (0.0, 200.0, 600.0)  # in the sum of the records; divided by RECORDS^2 in their mean


def strength(pull):
    """Return lam for the axis' lam / (1 + lam)."""
    return pull / (1 - pull) if pull < 1 else math.inf


def risk(pull, sigma2_loc):
    """Return the closed form at the axis' lam / (1 + lam)."""
    return mean_regularized.mse(strength(pull), sigma2_loc, TAU2, K)


def experiment(pull, noise):
    """Return the experiment that simulates the same risk, with the privacy noise `noise` in a local mean."""
    return blend_experiment(strength(pull), 1, [K], [noise], SIGMA2 / RECORDS, TAU2, [1 / K], "both")


def compute(quick=False):
    """Return lines, points and optima of every privacy level, with provenance."""
    points = Points("mr_mtl_risk", quick)
    x = np.linspace(0, 1, 201)
    curves = []
    for sigma2_dp in SIGMA2_DPS:
        sigma2_loc = float(mean_regularized.local_variance(SIGMA2, RECORDS, sigma2_dp))
        best = float(mean_regularized.strength(sigma2_loc, TAU2))
        closed = partial(risk, sigma2_loc=sigma2_loc)
        simulated = partial(experiment, noise=sigma2_dp / RECORDS**2)
        curves.append(
            {
                "noise": sigma2_dp / RECORDS**2,
                "sigma2_loc": sigma2_loc,
                "x": x,
                "y": np.array([closed(pull) for pull in x]),
                "strength": best,
                "optimum": {"x": best / (1 + best), "y": float(closed(best / (1 + best)))},
                "points": points.compare(f"sigma2_dp={sigma2_dp}", [0.0, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0], closed, simulated),
            }
        )
    parameters = {"K": K, "n": RECORDS, "sigma2": SIGMA2, "tau2": TAU2, "sigma2_dp": list(SIGMA2_DPS)}
    return {"curves": curves, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, axes = style.new_figure(style.COLUMN, 3.0)
    looks = ((style.BLUE, "s"), (style.GREEN, "o"), (style.VERMILLION, "^"))
    labels = ((0.52, 0.27, -9), (0.1, 0.93, 9), (0.33, 1.2, 9))  # of the curve; of its optimum, upwards
    for curve, (colour, marker), (x, y, offset) in zip(data["curves"], looks, labels, strict=True):
        style.curve(axes, curve, colour, marker)
        style.optimum(axes, curve, colour, rf"$\lambda^*={curve['strength']:g}$", (0, offset))
        noise = rf"$\sigma_{{\mathrm{{DP}}}}^2/n^2={curve['noise']:g}\,\tau^2$"
        style.note(axes, x, y, noise if curve["noise"] else "no privacy noise", color=colour)
    # What privacy costs at both ends; K times less at the right one.
    quiet, loud = data["curves"][0], data["curves"][-1]
    arrow = {"arrowstyle": "<->", "color": style.GREY, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
    for end, x in ((0, -0.045), (-1, 1.05)):
        axes.annotate("", (x, quiet["y"][end]), xytext=(x, loud["y"][end]), arrowprops={**arrow, "mutation_scale": 6})
    style.note(axes, 0.0, 1.25, "privacy\ngap", color=style.GREY)
    style.note(axes, 1.05, loud["y"][-1], "gap$/K$", (0, 8), color=style.GREY, ha="center")
    style.points_note(axes, 0.97, 0.88, "right")
    ticks = [0.0, 0.25, 1.0, 4.0, math.inf]
    names = ["0\nlocal training", "0.25", "1", "4", "∞\nFedAvg"]
    axes.set_xticks([1.0 if math.isinf(lam) else lam / (1 + lam) for lam in ticks], names)
    axes.set_yticks([0, 0.5, 1, 1.5, 2])
    axes.set(xlim=(-0.08, 1.12), ylim=(0, 2.1))
    axes.set_xlabel(r"strength $\lambda$ (axis linear in $\lambda/(1+\lambda)$)")
    axes.set_ylabel(r"mean squared error of a silo, over $\tau^2$")
    return figure
