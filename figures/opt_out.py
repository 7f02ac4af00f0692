"""What opting out does to a client: the part that `opt_out_regression` and `opt_out_point` share.

Belongs here: the risk of client k against its strength lam while it is private and once it has opted out, in
one federation, for uniform and for optimal server weights.  Does not belong here: parameters.

Client k is one of N_p private clients.  When it opts out the noise that each of the others adds stays as it
was: N_p gamma2 per client.  (If the noise on the *sum* of the private messages stayed as it was, each would
add more and opting out could hurt: fedhdp:optout-helps:same-client.)
"""

from functools import partial

import numpy as np

from estimators.closed_forms import aggregation, personalization
from figures import style
from figures.points import Points, blend_experiment

__all__ = ["compute", "draw"]

ALPHA2 = 1.0  # the unit of all variances
ALGORITHMS = {"uniform": [1.0, 1.0], "optimal": None}

# Where the curves get points: apart, so that no marker hides another.
PLACES = {
    "private": [0.06, 0.22, 0.6, 5.0, 16.0, 60.0, 200.0],
    "opted_out": [0.04, 0.14, 0.4, 1.7, 24.0, 90.0, 260.0],
    "noise_removed": [0.09, 0.3, 9.0, 38.0, 140.0],
}


def risk(lam, scenario, ratios, tau2):
    """Return the closed form of client k's risk at `lam`."""
    return personalization.local_mse(
        lam,
        scenario["level"],
        scenario["sizes"],
        scenario["gamma2s"],
        ALPHA2,
        tau2,
        ratios,
        own_noise=scenario["own_noise"],
    )


def experiment(lam, scenario, ratios, tau2):
    """Return the experiment that simulates the same risk."""
    sizes, gamma2s = scenario["sizes"], scenario["gamma2s"]
    return blend_experiment(
        lam,
        scenario["level"],
        sizes,
        np.multiply(sizes, gamma2s),
        ALPHA2,
        tau2,
        aggregation.level_weights(sizes, gamma2s, ALPHA2, tau2, ratios),
        "server" if scenario["own_noise"] else "removed",
    )


def compute(figure, claims, quick, *, N_np, N_p, tau2, gamma2):
    """Return the panels of the figure named `figure`, with provenance.

    N_np and N_p count non-private and private clients while client k is private; gamma2 is the variance of
    the noise in the average of the private clients then.  Variances are in units of alpha2.
    """
    private = {"level": 2, "sizes": [N_np, N_p], "gamma2s": [0.0, gamma2], "own_noise": True}
    opted_out = {
        "level": 1,
        "sizes": [N_np + 1, N_p - 1],
        "gamma2s": [0.0, N_p * gamma2 / (N_p - 1)],
        "own_noise": True,
    }
    scenarios = {"private": private, "opted_out": opted_out, "noise_removed": {**private, "own_noise": False}}
    points = Points(figure, quick)
    x = np.geomspace(0.03, 300, 241)
    panels = {}
    for algorithm, ratios in ALGORITHMS.items():
        panels[algorithm] = {}
        for name, scenario in scenarios.items():
            setting = {"scenario": scenario, "ratios": ratios, "tau2": tau2}
            best = personalization.personalization_strength(
                scenario["level"],
                scenario["sizes"],
                scenario["gamma2s"],
                ALPHA2,
                tau2,
                ratios,
                own_noise=scenario["own_noise"],
            )
            panels[algorithm][name] = {
                "x": x,
                "y": risk(x, **setting),
                "optimum": {"x": float(best), "y": float(risk(best, **setting))},
                "points": points.compare(
                    f"{algorithm}:{name}",
                    PLACES[name],
                    partial(risk, **setting),
                    partial(experiment, **setting),
                ),
            }
    bayes = float(personalization.bayes_mse(2, private["sizes"], private["gamma2s"], ALPHA2, tau2))
    parameters = {"N_np": N_np, "N_p": N_p, "alpha2": ALPHA2, "tau2": tau2, "gamma2": gamma2}
    return {"panels": panels, "bayes": bayes, "provenance": points.provenance(claims, parameters)}


@style.styled
def draw(data, captions, limits):
    """Return the figure; `captions` of the two panels, `limits` of the risk axis."""
    figure, both = style.new_figure(style.PAGE, 2.7, columns=2, sharey=True)
    for axes, letter, caption, panel in zip(both, "ab", captions, data["panels"].values(), strict=True):
        axes.axhline(data["bayes"], color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        style.curve(axes, panel["private"], style.VERMILLION, "o")
        style.curve(axes, panel["opted_out"], style.BLUE, "s")
        removed = panel["noise_removed"]
        axes.plot(removed["x"], removed["y"], color=style.INK, linestyle=(0, (3, 2)), linewidth=0.8, zorder=2.5)
        style.points(axes, removed["points"], style.INK, "v")
        axes.set(xscale="log", xlim=(0.03, 300), ylim=limits)
        axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        axes.set_xlabel(r"strength of the pull to the server, $\lambda$")
        style.panel_caption(axes, letter, caption)

    uniform, optimal = data["panels"].values()
    # With equal weights, removing the noise comes to the same as opting out.  With r* the left branch of the
    # opted-out client lies above the optimum of the private one, so only the space below that is free.
    labels = (
        (both[0], uniform, {"private": (3, 23), "opted_out": (0, -11)}, "opts out, or own\nnoise removed", 0),
        (both[1], optimal, {"private": (-12, -11), "opted_out": (8, -11)}, "opts out", -7),
    )
    colours = {"private": style.VERMILLION, "opted_out": style.BLUE}
    for axes, panel, offsets, opts_out, up in labels:
        for name, colour in colours.items():
            best = panel[name]["optimum"]["x"]
            style.optimum(axes, panel[name], colour, rf"$\lambda^*={best:.1f}$", offsets[name])
        style.note(axes, 300, panel["private"]["y"][-1], "stays private", (3, 7), color=style.VERMILLION)
        style.note(axes, 300, panel["opted_out"]["y"][-1], opts_out, (3, up), color=style.BLUE)
    style.note(both[1], 300, optimal["noise_removed"]["y"][-1], "own noise\nremoved", (3, -6))
    style.note(both[0], 0.034, data["bayes"], "Bayes risk", (0, 5), color=style.GREY)
    style.points_note(both[1], 0.98, 0.88, "right")
    both[0].set_ylabel(r"mean squared error of client $k$, over $\alpha^2$")
    return figure
