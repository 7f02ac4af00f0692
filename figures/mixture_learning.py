"""Learning a two-valued prior: Algorithm 1, which clusters the personalised models, against EM (generative framework, 2.3).

Left the upper of the two centres round by round, right the error of the personalised models.  Lines for Algorithm 1 are its
course with arbitrarily many clients, by quadrature, and points the algorithm run on data; EM and the risk under the true
prior stand beside.  With 2000 clients the points meet these lines up to round 6, beyond which Algorithm 1 is not run.  The
parameters are ours; the paper has no such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import numpy as np

from estimators.closed_forms import mixture
from estimators.montecarlo import SampledExperiment
from figures import style
from figures.points import Points

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "generative:thm5",
    "generative:thm5:mse",
    "generative:alg1",
    "generative:alg1:collapse",
    "generative:alg1:em",
)
VALUE, VARIANCE, CLIENTS, ROUNDS = 1.0, 0.5, 2000, 9
SIMULATED, ERROR_PLACES = 6, (0, 1, 3, 6)
SHARE = 8e-5  # a replicate is a federation


def population():
    """Return the upper centre before each round and the error of the models after it, with arbitrarily many clients.

    By symmetry clusters are split at 0 and hold half of the clients each.  The first centre is the mean absolute value of
    the clients' means; then models are posterior means under the centres, and their mean absolute value is the next one.
    """
    x = np.linspace(-8, 8, 20_001)
    density = np.exp(-((x - VALUE) ** 2) / (2 * VARIANCE))
    density /= density.sum()  # of a client whose value is the upper one; the others mirror it
    centres, errors = [float(np.sum(density * np.abs(x)))], [VARIANCE]
    for _ in range(ROUNDS):
        models = mixture.posterior_mean(x, [0.5, 0.5], [-centres[-1], centres[-1]], VARIANCE)
        errors.append(float(np.sum(density * (models - VALUE) ** 2)))
        centres.append(float(np.sum(density * np.abs(models))))
    return np.array(centres), np.array(errors)


def federation(gen):
    """Return the clients' values and means."""
    values = np.where(gen.random(CLIENTS) < 0.5, VALUE, -VALUE)
    return values, values + np.sqrt(VARIANCE) * gen.standard_normal(CLIENTS)


def experiment(rounds):
    """Return the experiment of Algorithm 1's error after `rounds`, and of half the distance of its centres up to there."""

    def draw(gen, reps):
        found = []
        for _ in range(reps):
            values, means = federation(gen)
            run = mixture.alternate_clusters(means, VARIANCE, 2, rounds) if rounds else None
            error = np.mean(((run.models if run else means) - values) ** 2)
            found.append([error, *(run.spreads / 2 if run else ())])
        return np.array(found)

    return SampledExperiment(draw, 2 + rounds if rounds else 1, 2 * CLIENTS)


def em_experiment(_):
    """Return the experiment of the error of the posterior means under EM's values, and of half their distance."""

    def draw(gen, reps):
        found = []
        for _ in range(reps):
            values, means = federation(gen)
            model = mixture.DiscretePrior(k=2, restarts=2, tol=1e-9).fit(means, VARIANCE)
            found.append([np.mean((model.posterior_mean_ - values) ** 2), (model.mus_[1] - model.mus_[0]) / 2])
        return np.array(found)

    return SampledExperiment(draw, 2, 2 * CLIENTS)


def compute(quick=False):
    """Return the course of Algorithm 1, EM and the best possible, with provenance."""
    points = Points("mixture_learning", quick)
    centres, errors = population()
    least = float(mixture.risk([0.5, 0.5], [-VALUE, VALUE], VARIANCE, 1))
    rows = []
    for k, centre in enumerate(centres[: SIMULATED + 1]):
        of = np.eye(2 + SIMULATED)[1 + k]
        found = points.compare("alternation", [SIMULATED], lambda _, y=centre: y, experiment, of=of, share=SHARE)
        rows.append((k, found["y"][0], found["se"][0]))
    drawn = dict(zip(("x", "y", "se"), np.array(rows).T, strict=True))
    left = []
    for r in ERROR_PLACES:
        of = np.eye(2 + r if r else 1)[0]
        left.append(points.compare("alternation", [r], lambda r: errors[r], experiment, of=of, share=SHARE))
    course = {name: np.concatenate([one[name] for one in left]) for name in ("x", "y", "se")}
    rounds = np.arange(ROUNDS + 1)
    curves = {
        "centres": {"x": rounds, "y": centres, "points": drawn},
        "errors": {"x": rounds, "y": errors, "points": course},
    }
    em = {}
    for name, of, right in (("errors", [1.0, 0.0], least), ("centres", [0.0, 1.0], VALUE)):
        em[name] = {
            "right": right,
            **points.compare("em", [0], lambda _, right=right: right, em_experiment, of=of, share=SHARE),
        }
    points.require(bool((np.diff(centres) < 0).all()), "the centres do not draw together in every round")
    parameters = {"values": [-VALUE, VALUE], "variance_of_a_mean": VARIANCE, "m": CLIENTS}
    return {"curves": curves, "em": em, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, both = style.new_figure(style.PAGE, 2.6, columns=2)
    right_label = {"centres": "true value", "errors": "risk under the true prior"}
    for axes, name in zip(both, data["curves"], strict=True):
        em, curve = data["em"][name], data["curves"][name]
        axes.axhline(em["right"], color=style.BLUE, linewidth=1.0, linestyle=(0, (3, 2)), zorder=1)
        style.curve(axes, curve, style.VERMILLION, "o")
        style.points(axes, {"x": [9.8], "y": em["y"], "se": em["se"]}, style.BLUE, "s")
        style.note(axes, 9.8, em["right"], "EM", (0, 9), ha="center", color=style.BLUE)
        axes.set(xlim=(-0.4, 10.4), ylim=(-0.05, 1.15))
        axes.set_xticks([0, 2, 4, 6, 8])
        axes.set_xlabel("round of Algorithm 1")
        style.note(axes, 5.3, em["right"], right_label[name], (0, 6), ha="center", color=style.BLUE)
    left, right = both
    style.note(left, 5.3, 0.3, "Algorithm 1", (6, 6), color=style.VERMILLION)
    style.note(right, 5.6, 0.72, "Algorithm 1", (-4, 6), ha="right", color=style.VERMILLION)
    style.note(right, 0, data["curves"]["errors"]["y"][0], "own means", (8, 3), color=style.GREY)
    left.set_ylabel("upper centre, over the true value")
    right.set_ylabel("squared error, over squared value")
    style.panel_caption(left, "a", "centres of the clusters")
    style.panel_caption(right, "b", "personalised models")
    style.points_note(left, 0.03, 0.03)
    return figure
