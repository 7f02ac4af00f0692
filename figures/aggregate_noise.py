"""Noise that aggregation weights leave in the model (Robust-HDP, Table 2 as a chart).

Left the printed table; right the same for six synthetic federations of ours, where closed forms are drawn as bars and
simulations as points.  Every column is in multiples of the least possible noise.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import numpy as np

from figures import style
from figures.points import Points, noise_experiment
from figures.robust_hdp import ALGORITHMS, CLIENTS, PARAMETERS, Federation
from theory.papers.robusthdp.table import TABLE

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "robusthdp:eq8:weights",
    "robusthdp:eq8:minvar",
    "robusthdp:eq8:loss",
    "robusthdp:eq8:eps-weights",
    "robusthdp:tab2",
    "robusthdp:tab2:simulated",
)
ROWS = dict(zip(ALGORITHMS, ("Oracle", "Robust-HDP", "WeiAvg", "DPFedAvg", "minimum eps"), strict=True))
LAWS = {
    "alike": np.full(CLIENTS, 2.0),
    "mixed": np.repeat([0.2, 0.5, 1.0, 2.0, 5.0], CLIENTS // 5),
    "two strict": np.repeat([0.2, 5.0], [2, CLIENTS - 2]),
}
SIZES = {"alike": (64,), "mixed": (16, 32, 64, 128)}
SETTINGS = [(law, size) for size in SIZES for law in LAWS]


def compute(quick=False):
    """Return the printed table and ours, over the oracle's noise, with provenance."""
    points = Points("aggregate_noise", quick)
    printed = {name: np.array(TABLE[row].split(), float) for name, row in ROWS.items()}
    least = np.min(list(printed.values()), axis=0)
    points.require(bool((printed["oracle"] == least).all()), "the printed oracle is not the least")
    federations = [Federation(f"aggregate_noise:{law}:{size}", LAWS[law], SIZES[size]) for law, size in SETTINGS]
    places = range(len(federations))
    ours = {}
    for name in ALGORITHMS:
        found = points.compare(
            name,
            places,
            lambda i, name=name: federations[i].left(name),
            lambda i, name=name: noise_experiment(*federations[i].of(name)),
        )
        best = np.array([clients.left("oracle") for clients in federations])
        scaled = {"x": found["x"], "y": found["y"] / best, "se": found["se"] / best}
        y = np.array([clients.left(name) for clients in federations]) / best
        ours[name] = {"x": np.array(places), "y": y, "points": scaled}
    worst = float(ours["robust"]["y"].max())
    points.require(worst <= 1.01, f"robust PCA leaves {worst - 1:.1%} more noise than the least")
    return {
        "printed": {name: row / printed["oracle"] for name, row in printed.items()},
        "settings": SETTINGS,
        "ours": ours,
        "provenance": points.provenance(CLAIMS, {**PARAMETERS, "budgets": LAWS, "batch_sizes": SIZES}),
    }


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 2.9, columns=2, sharey=True, width_ratios=(1.15, 1))
    looks = {
        "least eps": (style.PURPLE, "v", r"everyone at the least $\varepsilon$"),
        "fedavg": (style.ORANGE, "s", "equal weights"),
        "eps": (style.VERMILLION, "^", r"weights $\propto\varepsilon$"),
        "robust": (style.BLUE, "o", "robust PCA"),
        "oracle": (style.INK, "_", "least possible"),
    }
    for name, (colour, marker, _) in looks.items():
        x = np.arange(1, 10)
        marks = {"markersize": 4, "markerfacecolor": "white", "markeredgewidth": 0.9, "linestyle": "none"}
        wide = {"markersize": 11, "markeredgewidth": 1.4, "linestyle": "none"}
        left.plot(x, data["printed"][name], marker, color=colour, **(wide if name == "oracle" else marks))
        curve = data["ours"][name]
        right.plot(curve["x"], curve["y"], "_", color=colour, **wide)
        if name != "oracle":
            style.points(right, curve["points"], colour, marker)
    left.set(yscale="log", ylim=(0.8, 6000))
    left.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    left.set_xticks(range(1, 10))
    left.set_xlabel("distribution of budgets, Dist1 to Dist9")
    left.set_ylabel("noise of the aggregate, over the least")
    style.panel_caption(left, "a", "as printed (FMNIST)")
    right.set_xticks(range(len(data["settings"])), [law.replace(" ", "\n") for law, _ in data["settings"]])
    right.set_xlim(-0.5, len(data["settings"]) - 0.5)
    right.axvline(2.5, color=style.GREY, linewidth=0.4)
    for x, text in ((1, "batch sizes alike"), (4, "batch sizes mixed")):
        style.note(right, x, 3800, text, ha="center", color=style.GREY)
    right.set_xlabel("budgets of the clients")
    style.panel_caption(right, "b", "synthetic: bars closed forms, points simulation")
    marks = {"markersize": 5, "markerfacecolor": "white"}
    handles = [left.plot([], [], marker, color=colour, **marks)[0] for colour, marker, _ in looks.values()]
    style.legend(figure, handles, [label for *_, label in looks.values()], 5)
    return figure
