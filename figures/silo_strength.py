"""One silo among others that are unlike it: its best strength and its risk (MR-MTL, Theorem E.5).

Left the pull lam / (1 + lam) to the plain average, against the silo's own variance.  It passes 1, which is FedAvg, where
the best strength turns negative (below -K): the average itself gives so noisy a silo too much weight.  Right the risk
there and with one strength for all silos, over the Bayes risk given all estimates.  The parameters are ours; the
paper has no such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import math
from functools import partial

import numpy as np

from estimators.closed_forms import mean_regularized
from estimators.montecarlo import ClientsExperiment
from figures import style
from figures.points import Points, silo_experiment, weighted_experiment

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "mrmtl:eq39",
    "mrmtl:lemE.4:var",
    "mrmtl:thmE.5",
    "mrmtl:thmE.5:bayes",
    "mrmtl:negative",
    "mrmtl:negative:gap",
    "mrmtl:mmse",
)
TAU2, OTHERS = 1.0, (0.2, 0.2, 0.5, 0.5, 1.0, 1.0, 8.0)
K = 1 + len(OTHERS)
PLACES = {
    "pull": [0.05, 0.2, 0.6, 2.0, 5.5, 22.0, 60.0],
    "own": [0.2, 0.8, 3.0, 20.0, 50.0],
    "common": [0.05, 0.12, 0.4, 1.6, 5.0, 14.0],
    "local": [0.3, 0.65, 1.3, 3.5, 8.0, 22.0],
    "fedavg": [0.09, 0.2, 0.5, 4.0, 30.0, 80.0],
    "bayes": [0.05, 0.5, 2.0, 9.0, 75.0],
}
COMMON = 1.0
RISKS = ("own", "common", "local", "fedavg", "bayes")


def pulled(lam):
    """Return lam / (1 + lam)."""
    return 1.0 if math.isinf(lam) else lam / (1 + lam)


def strengths(variance):
    """Return the strengths of the risks but the last, for a silo with this local variance."""
    best = float(mean_regularized.silo_strength(0, [variance, *OTHERS], TAU2))
    return {"own": best, "common": COMMON, "local": 0.0, "fedavg": math.inf}


def risk(variance, name):
    """Return the closed form of the silo's risk."""
    if name == "bayes":
        return float(mean_regularized.silo_mmse(0, [variance, *OTHERS], TAU2))
    return float(mean_regularized.silo_mse(strengths(variance)[name], 0, [variance, *OTHERS], TAU2))


def experiment(variance, name):
    """Return the experiment that simulates the same risk."""
    if name == "bayes":
        weights = mean_regularized.silo_mmse_weights(0, [variance, *OTHERS], TAU2)
        return weighted_experiment(weights, 0, [variance, *OTHERS], TAU2)
    return silo_experiment([strengths(variance)[name]], 0, [variance, *OTHERS], TAU2)


def pull_experiment(variance):
    """Return the experiment of (error times difference, difference squared), whose ratio is the best pull.

    The error of the own estimate is e, and pulling changes it by pull times (average - p - e).
    """
    apart = [-1.0, -1.0, 0.0, 1.0]
    left, right = [[0.0, -1.0, 0.0, 0.0], apart], [apart, apart]
    return ClientsExperiment(TAU2, [variance, *OTHERS], 0.0, 0, np.full(K, 1 / K), left, right)


def relative(found):
    """Return points over the Bayes risk."""
    scale = np.array([risk(variance, "bayes") for variance in found["x"]])
    return {"x": found["x"], "y": found["y"] / scale, "se": found["se"] / scale}


def compute(quick=False):
    """Return lines and points of both panels, with provenance."""
    points = Points("silo_strength", quick)
    x = np.geomspace(0.03, 100, 201)

    def best_pull(variance):
        return pulled(strengths(variance)["own"])

    found = points.compare("pull", PLACES["pull"], best_pull, pull_experiment, of=[1.0, 0.0], over=[0.0, 1.0])
    pull = {"x": x, "y": np.array([best_pull(variance) for variance in x]), "points": found}
    bayes = np.array([risk(variance, "bayes") for variance in x])
    risks = {}
    for name in RISKS:
        closed, simulated = partial(risk, name=name), partial(experiment, name=name)
        found = points.compare(name, PLACES[name], closed, simulated)
        y = np.array([closed(variance) for variance in x])
        risks[name] = {"x": x, "y": y / bayes, "points": relative(found)}
    turn = K * TAU2 + float(np.mean(OTHERS))
    points.require(np.array_equal(x > turn, pull["y"] > 1), "the best strength is not negative where mrmtl:negative says")
    parameters = {"K": K, "tau2": TAU2, "others": list(OTHERS), "common_strength": COMMON}
    return {"pull": pull, "risks": risks, "turn": turn, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 2.7, columns=2)
    style.curve(left, data["pull"], style.BLUE, "o")
    left.axhline(1, color=style.GREY, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    left.plot(data["turn"], 1, "D", color=style.INK, markersize=4.4, markeredgecolor="white", zorder=4)
    style.note(left, 0.035, 1, "FedAvg", (0, 6), color=style.GREY)
    style.note(left, data["turn"], 1, r"$\sigma_k^2=K\tau^2+$" + "\nmean of the\nothers' $\\sigma_j^2$", (0, -19), ha="left")
    style.note(left, 12, 1.15, r"$\lambda_k^*<-K$", ha="right")
    left.set(xscale="log", xlim=(0.03, 100), ylim=(0, 1.2))
    left.set_ylabel(r"best pull, $\lambda_k^*/(1+\lambda_k^*)$")
    style.panel_caption(left, "a", "silo-specific strength")
    style.points_note(left, 0.98, 0.03, "right")
    looks = {
        "common": (style.PURPLE, "s"),
        "local": (style.VERMILLION, "v"),
        "fedavg": (style.GREEN, "^"),
        "own": (style.BLUE, "o"),
        "bayes": (style.INK, "D"),
    }
    for name, (colour, marker) in looks.items():
        style.curve(right, data["risks"][name], colour, marker)
    right.set(xscale="log", yscale="log", xlim=(0.03, 100), ylim=(0.9, 40))
    right.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    right.yaxis.minorticks_off()
    style.note(right, 0.055, 26, "FedAvg", color=style.GREEN)
    style.note(right, 0.034, 1.75, r"one $\lambda=1$" + "\nfor all silos", color=style.PURPLE)
    style.note(right, 15, 22, "local training", ha="right", color=style.VERMILLION)
    style.note(right, 100, data["risks"]["own"]["y"][-1], r"$\lambda_k^*$", (4, 4), color=style.BLUE)
    style.note(right, 100, 1, "Bayes risk", (4, -3))
    style.panel_caption(right, "b", "risk of silo $k$")
    for axes in (left, right):
        axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        axes.set_xlabel(r"own local variance, $\sigma_k^2/\tau^2$")
    right.set_ylabel("mean squared error, over Bayes risk")
    return figure
