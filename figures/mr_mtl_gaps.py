"""What the best personalisation gains over local training and over FedAvg (MR-MTL, Propositions 6.5 and 6.6).

Both gaps against the ratio of a silo's local variance (with its privacy noise) to the variance between silos.  The gain
over the better of the two ends, shaded, is largest where the two are equal.  The parameters are ours; the paper has no
such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import numpy as np

from estimators.closed_forms import mean_regularized
from figures import style
from figures.points import Points, silo_experiment

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "mrmtl:thm6.3",
    "mrmtl:cor6.4",
    "mrmtl:prop6.5",
    "mrmtl:prop6.6",
    "mrmtl:best-advantage",
)
K, TAU2 = 10, 1.0
ENDS = {"local": 0.0, "fedavg": np.inf}


def experiment(ratio, end):
    """Return the experiment of the errors at one end and at the best strength, in this order, on the same data."""
    best = mean_regularized.strength(ratio * TAU2, TAU2)
    return silo_experiment([end, float(best)], 0, np.full(K, ratio * TAU2), TAU2)


def compute(quick=False):
    """Return lines and points of both gaps, with provenance."""
    points = Points("mr_mtl_gaps", quick)
    x = np.geomspace(0.05, 20, 161)
    curves = {}
    for name, places in (("local", [0.15, 0.3, 0.65, 1.7, 4.0, 10.0]), ("fedavg", [0.08, 0.2, 0.5, 1.6, 3.6, 9.0])):

        def closed(ratio, name=name):
            return getattr(mean_regularized, f"gap_to_{name}")(ratio * TAU2, TAU2, K) / TAU2

        def simulated(ratio, name=name):
            return experiment(ratio, ENDS[name])

        found = points.compare(name, places, closed, simulated, of=(1 / TAU2, -1 / TAU2))
        curves[name] = {"x": x, "y": closed(x), "points": found}
    gain = np.minimum(curves["local"]["y"], curves["fedavg"]["y"])
    peak = float(mean_regularized.gap_to_local(TAU2, TAU2, K) / TAU2)
    points.require(gain.max() <= peak * (1 + 1e-12), "the gain over the better end is not largest at equal variances")
    return {"curves": curves, "peak": peak, "provenance": points.provenance(CLAIMS, {"K": K, "tau2": TAU2})}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, axes = style.new_figure(style.COLUMN, 2.6)
    local, fedavg = data["curves"]["local"], data["curves"]["fedavg"]
    axes.fill_between(local["x"], 1e-3, np.minimum(local["y"], fedavg["y"]), color=style.GREY, alpha=0.12, linewidth=0)
    style.curve(axes, local, style.VERMILLION, "o")
    style.curve(axes, fedavg, style.BLUE, "s")
    axes.plot(1, data["peak"], "D", color=style.INK, markersize=4.4, markeredgecolor="white", zorder=4)
    axes.set(xscale="log", yscale="log", xlim=(0.05, 20), ylim=(0.01, 20))
    axes.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    axes.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    style.note(axes, 5.5, 7.5, "over local\ntraining", color=style.VERMILLION, ha="right")
    style.note(axes, 0.06, 1.5, "over FedAvg", color=style.BLUE)
    style.note(axes, 1, data["peak"], r"$\sigma_{\mathrm{loc}}^2=\tau^2$", (9, 6))
    style.note(axes, 1, 0.06, "gain over the\nbetter of the two", ha="center", color=style.GREY, path_effects=[])
    style.points_note(axes, 0.98, 0.02, "right")
    axes.set_xlabel(r"local variance over variance between silos, $\sigma_{\mathrm{loc}}^2/\tau^2$")
    axes.set_ylabel(r"gain of the best $\lambda$, over $\tau^2$")
    return figure
