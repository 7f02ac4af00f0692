"""Noise of each client's update as robust PCA finds it, and the weights that follow (Robust-HDP, Figure 4 and Section 3.4).

Synthetic updates: one shared direction plus Gaussian noise whose variance follows from a client's budget and batch size by
(7).  Robust PCA's estimates have no closed form to agree with; what is checked is the noise that weights leave in the
aggregate, by simulation, and that robust PCA's leave at most 1 % more than the least.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import numpy as np

from estimators.closed_forms import aggregation
from figures import style
from figures.points import Points, noise_experiment
from figures.robust_hdp import ALGORITHMS, PARAMETERS, Federation

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "robusthdp:eq7",
    "robusthdp:eq8:weights",
    "robusthdp:eq8:minvar",
    "robusthdp:eq8:eps-weights",
    "robusthdp:eq8:eps-loss",
    "robusthdp:lem1:mean",
    "robusthdp:tab2:simulated",
)
BUDGETS, BATCHES = np.repeat([0.2, 0.5, 1.0, 2.0, 5.0], 4), (16, 32, 64, 128)


def compute(quick=False):
    """Return noise variances and weights of the clients, and the noise that each algorithm leaves, with provenance."""
    points = Points("noise_estimates", quick)
    clients = Federation("noise_estimates", BUDGETS, BATCHES)
    places = range(len(ALGORITHMS))
    found = points.compare(
        "left",
        places,
        lambda i: clients.left(ALGORITHMS[i]),
        lambda i: noise_experiment(*clients.of(ALGORITHMS[i])),
    )
    left = np.array([clients.left(name) for name in ALGORITHMS])
    excess = float(aggregation.relative_excess(clients.of("robust")[0], clients.variances))
    points.require(clients.converged and excess <= 0.01, f"robust PCA leaves {excess:.1%} more noise than the least")
    return {
        "eps": clients.eps,
        "batches": clients.batches,
        "variances": clients.variances,
        "estimates": clients.estimates,
        "weights": {name: clients.of(name)[0] for name in ("oracle", "robust", "eps")},
        "left": {"algorithms": list(ALGORITHMS), "x": np.array(places), "y": left, "points": found},
        "provenance": points.provenance(CLAIMS, PARAMETERS),
    }


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 2.7, columns=2)
    rank = np.arange(1, 1 + len(data["eps"]))
    flat = {"linestyle": "none", "markersize": 4, "zorder": 3}
    open_marks = {**flat, "markerfacecolor": "white", "markeredgewidth": 0.9}
    left.plot(rank, data["variances"], "_", color=style.INK, markersize=8, markeredgewidth=1.6, linestyle="none", zorder=2)
    left.plot(rank, data["estimates"], "o", color=style.BLUE, **open_marks)
    left.set(yscale="log", ylim=(0.04, 2500))
    left.set_ylabel(r"noise variance $\sigma_i^2/(p\,\eta_l^2)$")
    style.panel_caption(left, "a", "noise of each client")
    weights = data["weights"]
    right.plot(rank, weights["eps"], "^", color=style.VERMILLION, **open_marks)
    right.plot(rank, weights["oracle"], "_", color=style.INK, markersize=8, markeredgewidth=1.6, linestyle="none", zorder=2)
    right.plot(rank, weights["robust"], "o", color=style.BLUE, **open_marks)
    right.set(yscale="log", ylim=(2e-5, 3))
    right.set_ylabel("weight in the aggregate")
    style.panel_caption(right, "b", "weight of each client")
    for axes in (left, right):
        axes.set_xticks(rank[::2] if len(rank) > 12 else rank)
        axes.set_xlim(0.2, len(rank) + 0.8)
        axes.set_xlabel(r"client, sorted by privacy budget $\varepsilon$")
        starts = np.flatnonzero(np.diff(data["eps"], prepend=-1.0))
        for k, after in zip(starts, [*starts[1:], len(rank)], strict=True):
            axes.axvline(k + 0.5, color=style.GREY, linewidth=0.4, alpha=0.5, zorder=0)
            text, place = rf"$\varepsilon={data['eps'][k]:g}$", axes.get_xaxis_transform()
            axes.text(
                (k + after + 1) / 2, 0.98, text, transform=place, ha="center", va="top", fontsize=6.5, color=style.GREY
            )
    left_by = dict(zip(data["left"]["algorithms"], data["left"]["y"], strict=True))
    times = {name: left_by[name] / left_by["oracle"] for name in ("robust", "eps")}
    handles = [right.plot([], [], "_", color=style.INK, markersize=8, markeredgewidth=1.6)[0]]
    handles.append(right.plot([], [], "o", color=style.BLUE, **open_marks)[0])
    handles.append(right.plot([], [], "^", color=style.VERMILLION, **open_marks)[0])
    labels = [
        "truth; best weights",
        rf"robust PCA (noise of the aggregate {times['robust']:.3f} $\times$ the least)",
        rf"weights $\propto\varepsilon$ ({times['eps']:.1f} $\times$)",
    ]
    style.legend(figure, handles, labels, 3)
    return figure
