"""What an evaluation of the model buys: error of a simulated value against the number of evaluations, for four ways to draw.

A risk that is quadratic in its draws, one that is smooth but not quadratic, and the probability of an event. Plain draws,
antithetic pairs, control variates (all draws and their squares, whose means are known exactly, by least squares) and
randomised nets. An error is the root mean square over independent repeats, relative to the closed form; the lines are the
exact law of plain draws where the variance has a closed form too.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

from functools import partial

import numpy as np

from estimators.accounting import mechanisms
from estimators.closed_forms import gaussian, mean_regularized
from estimators.montecarlo import SampledExperiment, StratifiedExperiment, run
from figures import style
from figures.points import Points

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = ("mrmtl:lem6.7", "generative:thm1:james-stein", "mrmtl:no-clip")
SILOS = {"lam": 1.0, "sigma2_loc": 1.0, "tau2": 0.5, "K": 4}
GROUP = {"m": 6, "sigma2_theta": 1.0, "sigma2_x": 3.0, "n": 1}
RECORDS = {"c": 2.0, "centre": 0.5, "sigma2": 1.0, "n": 2}
SIZES = (7, 9, 11, 13)
"""log2 of the evaluations of the model in one repeat."""
REPEATS, FEW = 400, 250
ROWS = 2**18


def silos(z):
    """Squared error of a silo's blend of its own estimate and the average, from draws (..., 2 K)."""
    truth, noise = np.sqrt(SILOS["tau2"]) * z[..., :4], np.sqrt(SILOS["sigma2_loc"]) * z[..., 4:]
    estimates = truth + noise
    blend = (estimates[..., 0] + SILOS["lam"] * estimates.mean(axis=-1)) / (1 + SILOS["lam"])
    return (blend - truth[..., 0]) ** 2


def group(z):
    """Mean squared error of James and Stein's estimates around the grand mean, from draws (..., 2 m)."""
    m = GROUP["m"]
    truth = np.sqrt(GROUP["sigma2_theta"]) * z[..., :m]
    data = truth + np.sqrt(GROUP["sigma2_x"]) * z[..., m:]
    centre = data.mean(axis=-1, keepdims=True)
    spread = ((data - centre) ** 2).sum(axis=-1, keepdims=True)
    estimates = data - (m - 3) * GROUP["sigma2_x"] / spread * (data - centre)
    return ((estimates - truth) ** 2).mean(axis=-1)


def records(z):
    """Whether one of two records is clipped, from draws (..., 2)."""
    return (np.abs(RECORDS["centre"] + z) > RECORDS["c"]).any(axis=-1).astype(float)


def plain(gen, reps, n, value, draws):
    """Means over `n` evaluations, one for each repeat."""
    return value(gen.standard_normal((reps, n, draws))).mean(axis=1)


def antithetic(gen, reps, n, value, draws):
    """The same over pairs of draws and their mirror images."""
    z = gen.standard_normal((reps, n // 2, draws))
    return (value(z).mean(axis=1) + value(-z).mean(axis=1)) / 2


def controlled(gen, reps, n, value, draws):
    """The same, less what draws and their squares explain: by normal equations, the columns are nearly orthogonal."""
    means = np.empty(reps)
    for k in range(reps):
        z = gen.standard_normal((n, draws))
        columns = np.column_stack([np.ones(n), z, z**2 - 1])
        means[k] = np.linalg.solve(columns.T @ columns, columns.T @ value(z))[0]
    return means


def net(gen, reps, n, value, draws):
    """The same over the points of a randomised net."""
    statistic = SampledExperiment(lambda served, rows: value(served.standard_normal((rows, draws)))[:, None], 1)
    nets = StratifiedExperiment(statistic, n.bit_length() - 1)
    return np.concatenate([found.mean(axis=1)[:, 0] for found in nets.points(gen, reps)])


WAYS = {"plain": plain, "antithetic": antithetic, "control variates": controlled, "nets": net}
PANELS = {"a silo's risk": (silos, 8), "James–Stein": (group, 12), "clipping": (records, 2)}


def truths():
    """The closed form of each panel."""
    exact = (
        mean_regularized.mse(**SILOS),
        gaussian.james_stein_risk(**GROUP),
        mechanisms.clipping_probability(**RECORDS),
    )
    return dict(zip(PANELS, map(float, exact), strict=True))


def squared_error(way, panel, truth, n):
    """The experiment whose replicate is a repeat, and whose statistic its squared relative error."""
    value, draws = PANELS[panel]

    def draw(gen, reps):
        return (WAYS[way](gen, reps, n, value, draws)[:, None] / truth - 1) ** 2

    return SampledExperiment(draw, 1, n * draws, batch=max(ROWS // n, 1))


def compute(quick=False):
    """Return squared relative errors of every way and panel, with provenance."""
    points = Points("simulation_error", quick)
    repeats = FEW if quick else REPEATS
    sizes = [2**size for size in SIZES]
    exact = truths()
    seldom = exact["clipping"]
    spread = {"a silo's risk": 2.0, "clipping": (1 - seldom) / seldom}  # relative variance of one evaluation
    panels = {}
    for panel, truth in exact.items():
        panels[panel] = {}
        for way in WAYS:
            experiment = partial(squared_error, way, panel, truth)
            if way == "plain" and panel in spread:

                def law(n, variance=spread[panel]):
                    return variance / n

                found = points.compare(f"{panel}:{way}", sizes, law, experiment, share=repeats / points.reps)
                curve = {"x": sizes, "y": [law(n) for n in sizes], "points": found}
            else:
                pairs = [
                    run(experiment(n), repeats, f"figures:simulation_error:{panel}:{way}:{n}").linear([1]) for n in sizes
                ]
                curve = {"n": sizes, **dict(zip(("squares", "se"), np.array(pairs).T, strict=True))}
            panels[panel][way] = curve
        best = panels[panel]["nets"]["squares"][-1]
        others = min(panels[panel][way]["squares"][-1] for way in ("antithetic", "control variates"))
        points.require(best < others, f"{panel}: nets do not beat the others at {sizes[-1]} evaluations")
    parameters = {"silos": SILOS, "group": GROUP, "records": RECORDS, "repeats": repeats}
    return {"panels": panels, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, three = style.new_figure(style.PAGE, 2.7, columns=3, sharey=True)
    looks = {
        "plain": (style.INK, "o"),
        "antithetic": (style.ORANGE, "^"),
        "control variates": (style.GREEN, "s"),
        "nets": (style.BLUE, "D"),
    }
    says = ("8 draws, quadratic", "12 draws", "2 draws, an event")
    for axes, letter, said, (panel, curves) in zip(three, "abc", says, data["panels"].items(), strict=True):
        for way, (colour, marker) in looks.items():
            curve = curves[way]
            found = curve["points"] if "points" in curve else {"x": curve["n"], "y": curve["squares"], "se": curve["se"]}
            root = np.sqrt(found["y"])
            shown = {"x": found["x"], "y": root, "se": np.asarray(found["se"]) / (2 * root)}
            if "y" in curve:
                axes.plot(curve["x"], np.sqrt(curve["y"]), color=colour, zorder=2)
            else:
                axes.plot(shown["x"], shown["y"], color=colour, linewidth=0.7, linestyle=(0, (3, 2)), zorder=1)
            style.points(axes, shown, colour, marker)
        axes.set(xscale="log", yscale="log", ylim=(5e-5, 1))
        axes.set_xticks([2**size for size in SIZES], [rf"$2^{{{size}}}$" for size in SIZES])
        axes.minorticks_off()
        axes.set_xlabel("evaluations of the model")
        style.panel_caption(axes, letter, f"{panel}: {said}")
    marks = {"markerfacecolor": "white", "markersize": 3.6}
    handles = [three[0].plot([], [], color=colour, marker=marker, **marks)[0] for colour, marker in looks.values()]
    style.legend(figure, handles, list(looks), 4)
    three[0].set_ylabel("relative error, root mean square")
    return figure
