"""Local, global and personalised estimates of Gaussian means (generative framework, Theorem 1 and Remark 1).

Risk over that of a client's own mean, against the spread of the clients over that of one sample.  James-Stein shrinkage
does not know the spread of the clients.  The parameters are ours; the paper has no such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import math

import numpy as np

from estimators.closed_forms import gaussian, mean_regularized
from estimators.montecarlo import JamesSteinExperiment
from figures import style
from figures.points import Points, silo_experiment

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "generative:thm1:estimator",
    "generative:thm1:mse",
    "generative:thm1:james-stein",
    "generative:remark1:limits",
    "generative:remark1:gap",
)
CLIENTS, SAMPLES, SIGMA2_X = 20, 5, 1.0
PLACES = {
    "local": [0.04, 0.15, 0.4, 2.5],
    "global": [0.06, 0.13, 0.25, 0.45, 0.7],
    "personal": [0.05, 0.18, 0.4, 0.8, 1.6, 5.0],
    "james-stein": [0.035, 0.1, 0.3, 0.6, 1.1, 3.5],
}


def risk(ratio, name):
    """Return the closed form over the local risk; `ratio` is the clients' deviation over a sample's."""
    sigma2_theta = np.asarray(ratio) ** 2 * SIGMA2_X
    local = gaussian.local_risk(SIGMA2_X, SAMPLES)
    if name == "local":
        return np.ones_like(sigma2_theta)
    if name == "global":
        return mean_regularized.mse(math.inf, local, sigma2_theta, CLIENTS) / local
    if name == "personal":
        return gaussian.risk(sigma2_theta, SIGMA2_X, SAMPLES, CLIENTS) / local
    return gaussian.james_stein_risk(CLIENTS, sigma2_theta, SIGMA2_X, SAMPLES) / local


def experiment(ratio, name):
    """Return the experiment that simulates the risk."""
    sigma2_theta, local = ratio**2 * SIGMA2_X, SIGMA2_X / SAMPLES
    if name == "james-stein":
        return JamesSteinExperiment(CLIENTS, 0.0, sigma2_theta, local, shrink=1.0)
    a = float(gaussian.shrinkage_factor(sigma2_theta, SIGMA2_X, SAMPLES))
    lam = {"local": 0.0, "global": math.inf, "personal": (1 - a) / a}[name]
    return silo_experiment([lam], 0, np.full(CLIENTS, local), sigma2_theta)


def compute(quick=False):
    """Return lines and points of the four estimates, with provenance."""
    points = Points("gaussian_risk", quick)
    x = np.geomspace(0.03, 6, 161)
    scale = 1 / gaussian.local_risk(SIGMA2_X, SAMPLES)
    curves = {}
    for name, places in PLACES.items():
        of = [scale, 0.0, 0.0] if name == "james-stein" else [scale]
        found = points.compare(
            name, places, lambda ratio, name=name: risk(ratio, name), lambda ratio, name=name: experiment(ratio, name), of=of
        )
        curves[name] = {"x": x, "y": risk(x, name), "points": found}
    best = curves["personal"]["y"]
    points.require(bool((best <= np.minimum(curves["global"]["y"], 1.0)).all()), "personalised is worse than an end")
    parameters = {"m": CLIENTS, "n": SAMPLES, "sigma2_x": SIGMA2_X}
    return {"curves": curves, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, axes = style.new_figure(style.COLUMN, 2.7)
    curves = data["curves"]
    looks = {
        "local": (style.VERMILLION, "o"),
        "global": (style.GREEN, "^"),
        "james-stein": (style.GREY, "v"),
        "personal": (style.BLUE, "s"),
    }
    for name, (colour, marker) in looks.items():
        style.curve(axes, curves[name], colour, marker)
    axes.set(xscale="log", yscale="log", xlim=(0.03, 6), ylim=(0.04, 3))
    axes.set_xticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"])
    axes.set_yticks([0.05, 0.1, 0.2, 0.5, 1, 2], ["0.05", "0.1", "0.2", "0.5", "1", "2"])
    axes.minorticks_off()
    style.note(axes, 0.033, 1, "own mean", (0, 7), color=style.VERMILLION)
    style.note(axes, 0.72, 2.4, "mean of all", (5, 0), color=style.GREEN)
    style.note(axes, 0.033, 0.26, "James–Stein,\n$\\sigma_\\theta$ unknown", color=style.GREY)
    style.note(axes, 1.0, 0.6, "personalised,\n$\\sigma_\\theta$ known", color=style.BLUE)
    style.points_note(axes, 0.98, 0.03, "right")
    axes.set_xlabel(r"deviation of clients over that of a sample, $\sigma_\theta/\sigma_x$")
    axes.set_ylabel("mean squared error, over own mean's")
    return figure
