"""Where collaboration helps: maps with the analytic border between own and shared estimates.

Left silos that train privately (MR-MTL): FedAvg beats local training where the local variance, privacy noise included,
exceeds the variance between silos.  Right clients whose messages are noisy, while their own means are not (generative
framework): plain averaging helps below the border, the best weight everywhere.  The papers have no such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import math

import numpy as np
from matplotlib import colormaps
from matplotlib.lines import Line2D

from estimators.accounting import mechanisms
from estimators.closed_forms import gaussian, mean_regularized, personalization
from estimators.montecarlo import ClientsExperiment
from figures import style
from figures.points import Points, silo_experiment

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "mrmtl:eq5",
    "mrmtl:lem6.7",
    "mrmtl:prop6.5",
    "mrmtl:prop6.6",
    "mrmtl:best-advantage",
    "mrmtl:sigma-dp:exact",
    "generative:thm2:mse",
    "generative:thm2:a",
)
K, SIGMA2, TAU2, REACH, DELTA = 10, 1.0, 0.02, 2.0, 1e-5
CLIENTS = 20
SILOS = [(n, eps) for n in (15, 40, 120, 400) for eps in (0.15, 0.7, 4.0)]
MESSAGES = [(between, noise) for between in (0.03, 0.2, 0.7, 3.0) for noise in (0.2, 3.0, 60.0)]


def local_variance(n, eps):
    """Return the variance of a silo's private mean of `n` records of range REACH, with the least Gaussian noise."""
    sigma = mechanisms.gaussian_sigma(eps=eps, delta=DELTA, sensitivity=REACH)
    return mean_regularized.local_variance(SIGMA2, n, sigma**2)


def silo_difference(variance):
    """Return the error of local training less that of FedAvg, over the latter; a closed form."""
    fedavg = mean_regularized.mse(math.inf, variance, TAU2, K)
    return mean_regularized.mse(0.0, variance, TAU2, K) / fedavg - 1


def border(n):
    """Return the budget at which a silo of `n` > sigma2/tau2 records is as well off with local training as with FedAvg."""
    noise = n**2 * (TAU2 - SIGMA2 / n)
    return float(mechanisms.gaussian_epsilon(delta=DELTA, sensitivity=REACH, sigma=math.sqrt(noise)))


def message_difference(between, noise):
    """Return the error of plain averaging less that of the own mean, over the latter; a closed form.

    `between` and `noise` are the variances between clients and of the noise on a message, over that of an own mean.
    """
    return personalization.local_mse(math.inf, 1, [CLIENTS], [noise / CLIENTS], 1.0, between, own_noise=True) - 1


def message_experiment(between, noise):
    """Return the experiment of the squared errors of the average of all messages and of the own mean, on the same data."""
    weights = np.full(CLIENTS, 1 / CLIENTS)
    forms = [[-1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]]
    return ClientsExperiment(between, 1.0, noise, 0, weights, forms, forms)


def compute(quick=False):
    """Return both maps, their borders and the simulated places, with provenance."""
    points = Points("collaboration_region", quick)
    n, eps = np.geomspace(10, 1000, 41), np.geomspace(0.1, 10, 41)
    # The records of a grid for drawing need not be whole.
    sigma2 = mechanisms.gaussian_sigma(eps=eps, delta=DELTA, sensitivity=REACH)[:, None] ** 2
    variances = SIGMA2 / n + sigma2 / n**2
    better = np.minimum(*(mean_regularized.mse(end, variances, TAU2, K) for end in (0.0, math.inf)))
    gain = 1 - mean_regularized.optimal_mse(variances, TAU2, K) / better
    found = points.compare(
        "silos",
        range(len(SILOS)),
        lambda i: silo_difference(local_variance(*SILOS[i])),
        lambda i: silo_experiment([0.0, math.inf], 0, np.full(K, float(local_variance(*SILOS[i]))), TAU2),
        of=[1.0, -1.0],
        over=[0.0, 1.0],
    )
    heights = np.array([float(silo_difference(local_variance(*place))) for place in SILOS])
    silos = {"places": SILOS, "x": np.arange(len(SILOS)), "y": heights, "points": found}
    records = np.geomspace(SIGMA2 / TAU2 * 1.002, 1000, 61)
    edge = np.array([border(x) for x in records])
    sigma2 = np.array([float(mechanisms.gaussian_sigma(eps=y, delta=DELTA, sensitivity=REACH)) ** 2 for y in edge])
    differences = silo_difference(SIGMA2 / records + sigma2 / records**2)
    points.require(float(np.abs(differences).max()) < 1e-9, "the two ends differ on the analytic border of the silos")

    between, noise = np.geomspace(0.01, 10, 41), np.geomspace(0.1, 200, 41)
    shrunk = 1 - gaussian.risk(between[None, :], 1.0, 1, CLIENTS, noise[:, None])
    found = points.compare(
        "messages",
        range(len(MESSAGES)),
        lambda i: message_difference(*MESSAGES[i]),
        lambda i: message_experiment(*MESSAGES[i]),
        of=[1.0, -1.0],
    )
    heights = np.array([float(message_difference(*place)) for place in MESSAGES])
    messages = {"places": MESSAGES, "x": np.arange(len(MESSAGES)), "y": heights, "points": found}
    line = np.append(np.geomspace(0.01, 0.9, 41), 1 - np.geomspace(0.1, 0.001, 21))
    differences = np.array([float(message_difference(x, (CLIENTS - 1) * (1 - x))) for x in line])
    points.require(float(np.abs(differences).max()) < 1e-9, "averaging and the own mean differ on their analytic border")
    parameters = {"K": K, "sigma2": SIGMA2, "tau2": TAU2, "range": REACH, "delta": DELTA, "m": CLIENTS}
    return {
        "silo_map": {"n": n, "eps": eps, "gain": gain, "border_n": records, "border": edge},
        "silos": silos,
        "message_map": {
            "between": between,
            "noise": noise,
            "gain": shrunk,
            "border_x": line,
            "border": (CLIENTS - 1) * (1 - line),
        },
        "messages": messages,
        "provenance": points.provenance(CLAIMS, parameters),
    }


def mapped(axes, x, y, gain, levels, row):
    """Draw a map of relative gains with contours, labelled where the gain falls along the row numbered `row`."""
    colours = colormaps["Blues"](np.linspace(0.03, 0.66, len(levels) + 1))
    axes.contourf(x, y, gain, levels=[0, *levels, 1], colors=colours)
    axes.contour(x, y, gain, levels=levels, colors=style.INK, linewidths=0.5, alpha=0.6)
    axes.set(xscale="log", yscale="log", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    axes.minorticks_off()
    top = int(np.argmax(gain[row]))
    for level in levels:
        place = np.exp(np.interp(-level, -gain[row, top:], np.log(x[top:])))
        style.note(axes, place, y[row], f"{level:.0%}", ha="center", fontsize=6, color=style.GREY)


def places(axes, simulated, shared_wins):
    """Mark the simulated places, filled where the shared estimate won."""
    for (x, y), wins in zip(simulated["places"], shared_wins, strict=True):
        axes.plot(
            x, y, "o", color=style.INK, markerfacecolor=style.INK if wins else "white", markersize=4, markeredgewidth=0.9
        )


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 3.0, columns=2)
    area = {name: np.asarray(value) for name, value in data["silo_map"].items()}
    mapped(left, area["n"], area["eps"], area["gain"], [0.05, 0.1, 0.2, 0.3, 0.4], -3)
    left.plot(area["border_n"], area["border"], color=style.VERMILLION, linewidth=1.8)
    places(left, data["silos"], np.asarray(data["silos"]["points"]["y"]) > 0)
    left.set_xticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1000"])
    left.set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    left.set_xlabel("records per silo, $n$")
    left.set_ylabel(r"privacy budget $\varepsilon$")
    style.note(left, 13, 0.22, "FedAvg better")
    style.note(left, 250, 1.9, "local training\nbetter")
    style.note(right, 0.014, 0.45, "average better")
    style.note(right, 0.014, 110, "own mean better")
    style.panel_caption(left, "a", rf"silos that train privately ($K={K}$, $\tau^2={TAU2:g}\,\sigma^2$)")
    area = {name: np.asarray(value) for name, value in data["message_map"].items()}
    mapped(right, area["between"], area["noise"], area["gain"], [0.1, 0.25, 0.5, 0.75, 0.9], 1)
    right.plot(area["border_x"], area["border"], color=style.VERMILLION, linewidth=1.8)
    places(right, data["messages"], np.asarray(data["messages"]["points"]["y"]) < 0)
    right.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    right.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    right.set_xlabel(r"variance between clients, over that of an own mean")
    right.set_ylabel(r"noise on a message, over the same")
    style.panel_caption(right, "b", rf"noisy messages ($m={CLIENTS}$)")
    marks = {"linestyle": "none", "marker": "o", "color": style.INK, "markersize": 4}
    handles = [
        Line2D([], [], color=style.VERMILLION, linewidth=1.8),
        Line2D([], [], **marks),
        Line2D([], [], markerfacecolor="white", **marks),
        Line2D([], [], color=style.INK, linewidth=0.5, alpha=0.6),
    ]
    labels = [
        "analytic border",
        "shared won in simulation",
        "own won",
        "gain of the best pull over the better (a), over own (b)",
    ]
    style.legend(figure, handles, labels, 4)
    return figure
