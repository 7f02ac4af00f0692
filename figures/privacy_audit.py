"""Claimed privacy beside what an adversary proves, for every mechanism that the toolkit runs; and for four broken ones.

Left the claimed eps and the lower bound that an empirical audit proves, for ``audit_cases.CASES`` and, as a control of the
audits, for mechanisms broken on purpose.  Right why there are two deltas: the smallest delta of one step of DP-SGD at every
eps, as a line the closed form and as points the training code itself, which has neither more nor less noise than it says.

The figure is refused where a sound mechanism's claim is refuted, or a broken one's is not.  Seeds are fixed; for new ones a
bound is too high with probability at most BETA.

Belongs here: sizes of the audits, the broken mechanisms, the drawing. Does not belong here: audits (``audit_cases``), style.
"""

from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from estimators.accounting import mechanisms, privacy
from estimators.federated.audit import row_releases
from estimators.federated.audit_cases import CASES, TIGHT, exponential, rows
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.schedule import GaussianNoise
from estimators.montecarlo import SampledExperiment
from figures import style
from figures.points import Points

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "mrmtl:sigma-dp:exact",
    "mrmtl:eq14",
    "mrmtl:thmF.2",
    "generative:thm7:valid",
)
DELTA, BETA, SEED = 0.01, 0.01, 0
ROWS, CLIP, MULTIPLIER = 100, 0.5, 1.0
ACCOUNTANT = "pld"
SHARE = 0.4  # of the usual replicates: 100 of them are one training

SIZES = {
    "rows, all in every step": ("silo_count", 2000, 400),
    "rows, passes": ("silo_count", 2000, 200),
    "rows, Poisson": ("silo_count", 2000, 200),
    "rows, fixed size": ("silo_count", 10_000, 2000),
    "clients, all": ("rounds", 600, 60),
    "clients, Poisson": ("rounds", 600, 60),
    "clients and counts": ("rounds", 4000, 600),
    "choice": ("runs", 200_000, 100_000),
    "tuning": ("runs", 1_000_000, 400_000),
    "DP-AdaPeD": ("runs", 10_000, 1500),
}
"""What sets the size of each audit, and the size in full and in quick mode."""

TITLES = {
    "rows, all in every step": "DP-SGD, all rows in every step",
    "rows, passes": "DP-SGD, passes over the rows",
    "rows, Poisson": "DP-SGD, Poisson batches",
    "rows, fixed size": "DP-SGD, batches of fixed size",
    "clients, all": "DP-FedAvg, all clients",
    "clients, Poisson": "DP-FedAvg, Poisson batches of clients",
    "clients and counts": "DP-FedAvg, adaptive clipping",
    "choice": "Exponential mechanism",
    "tuning": "Private tuning",
    "DP-AdaPeD": "DP-AdaPeD, a client's message",
}


class Broken(NumpyBackend):
    """Training with another clipping norm and noise than the algorithm asked for: `change` of both returns both."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def local_sgd(self, model, starts, data, schedule, *, learning_rate, pull=None, clip=None, noise=None):
        """Parameters after local SGD; see `NumpyBackend`."""
        clip, noise = self.change(clip, noise)
        how = {"learning_rate": learning_rate, "pull": pull, "clip": clip, "noise": noise}
        return super().local_sgd(model, starts, data, schedule, **how)


def halved(clip, noise):
    """Half of the noise."""
    return clip, replace(noise, multiplier=noise.multiplier / 2)


def unclipped(clip, noise):
    """A norm that no gradient reaches, and noise of the size that it had."""
    return 1e6 * clip, replace(noise, multiplier=noise.multiplier / 1e6)


def repeated(clip, noise):
    """The first step's noise in every step."""
    return clip, GaussianNoise(noise.multiplier, noise.seed, 0)


def bold(scores, *, eps, **how):
    """The exponential mechanism without the 2 in its exponent's denominator."""
    return mechanisms.exponential_choice(scores, eps=2 * eps, **how)


BROKEN = {
    "DP-SGD, noise halved": partial(rows, batch=100, silo_count=400, backend=Broken(halved)),
    "DP-SGD, clipping left out": partial(
        rows, batch=25, rounds=3, multiplier=0.8, silo_count=100, backend=Broken(unclipped)
    ),
    "DP-SGD, one noise for all steps": partial(rows, batch=50, rounds=4, silo_count=100, backend=Broken(repeated)),
    "Exponential mechanism without the 2": partial(exponential, runs=100_000, choose=bold),
}
"""Audits of broken mechanisms; they need few runs."""


def audited(case, title, audit, **size):
    """Return the row of an audit for the data."""
    how = {"accountant": ACCOUNTANT} if "accountant" in signature(audit).parameters else {}
    found = audit(beta=BETA, seed=SEED, **size, **how)
    return {"case": case, "title": title, "unseen": min(found.bound.counts) == 0, **found.row()}


def experiment(sigma, places, backend=None):
    """Return the experiment of the smallest delta at each eps: P(E with) - exp(eps) P(E without), E the likeliest event.

    A replicate is a row of one step of DP-SGD with all rows, in a world with it and in one without; `sigma` is the noise
    that `backend` really adds.
    """
    eps = np.asarray(places)
    edge = eps * sigma**2 + 0.5

    def draw(gen, reps):
        work = {"rule": "poisson", "n_steps": 1, "batch_size": ROWS}
        shape = {"rows": ROWS, "rounds": 1, "silo_count": -(-reps // ROWS), "multiplier": MULTIPLIER, "clip": CLIP}
        without, present = (
            row_releases(**shape, work=work, canary=canary, seed=int(gen.integers(2**31)), backend=backend)[:reps] >= edge
            for canary in (0, 1)
        )
        return present - np.exp(eps) * without

    return SampledExperiment(draw, len(places), 2 * ROWS, batch=65_536)


def profile(points, name, sigma, places, backend=None):
    """Return the smallest delta at every eps of one step as line and points, all points from the same trainings."""
    x, found = np.linspace(0, 10, 201), []
    for i, place in enumerate(places):
        one = points.compare(
            name,
            [len(places)],
            lambda _, place=place: privacy.gaussian_delta(eps=place, sensitivity=1.0, sigma=sigma),
            lambda _: experiment(sigma, places, backend),
            of=np.eye(len(places))[i],
            share=SHARE,
        )
        found.append((place, one["y"][0], one["se"][0]))
    y = privacy.gaussian_delta(eps=x, sensitivity=1.0, sigma=sigma)
    return {"x": x, "y": y, "points": dict(zip(("x", "y", "se"), np.array(found).T, strict=True))}


def compute(quick=False):
    """Return the audits, and the smallest delta of one step of DP-SGD with and without its noise halved, with provenance."""
    points = Points("privacy_audit", quick)
    profiles = {
        "sound": profile(points, "sound", MULTIPLIER, (0.0, 0.5, 1.0, 1.5)),
        "broken": profile(points, "broken", MULTIPLIER / 2, (0.0, 1.0, 2.0, 3.0), Broken(halved)),
    }
    sound = [
        audited(name, TITLES[name], case, **{SIZES[name][0]: SIZES[name][2 if quick else 1]}) for name, case in CASES.items()
    ]
    broken = [audited(name, name, case) for name, case in BROKEN.items()]
    for case in sound:
        refuted = case["proved"] > case["claimed"] or (case["proved_gaussian"] or 0) > (case["claimed_gaussian"] or 0)
        points.require(not refuted, f"the audit refutes {case['mechanism']}")
    for case in broken:
        points.require(case["proved"] > case["claimed"], f"the audit does not see that it is broken: {case['title']}")
    parameters = {"delta": DELTA, "delta_gaussian": TIGHT, "beta": BETA, "audit_seed": SEED, "accountant": ACCOUNTANT}
    parameters |= {"noise_multiplier": MULTIPLIER, "audit_sizes": {name: SIZES[name][2 if quick else 1] for name in SIZES}}
    return {
        "sound": sound,
        "broken": broken,
        "profiles": profiles,
        "provenance": points.provenance(CLAIMS, parameters),
    }


def pair(axes, y, claimed, proved, marker, colours, unseen=False):
    """Draw a claim as a bar that ends in a tick, what is proved as a marker, and their ratio; `unseen` adds an arrow."""
    dark, light = colours
    axes.plot([0, claimed], [y, y], color=light, linewidth=3, solid_capstyle="butt", zorder=1)
    axes.plot([claimed], [y], "|", color=dark, markersize=6, markeredgewidth=1.1, zorder=2)
    axes.plot([proved], [y], marker, color=dark, markersize=4.2 if marker == "o" else 3.8, markeredgewidth=0, zorder=3)
    ratio = proved / claimed
    text = f"{ratio:.0%}" if ratio <= 1 else f"{ratio:.1f}×"
    if unseen:
        axes.annotate(
            "", (proved, y), (13, 0), textcoords="offset points",
            arrowprops={"arrowstyle": "<-", "color": dark, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 1},
        )  # fmt: skip
    style.note(axes, max(claimed, proved), y, text, (16 if unseen else 5, 0), fontsize=6, color=dark)


def audits(axes, data):
    """Draw all audits, one line a case, its second bar at the small delta."""
    side = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center", "ha": "right"}
    y = 0.0
    axes.annotate("runs counted\nin each world", (1, -0.95), (0, 0), fontsize=5.5, color=style.GREY, **side)
    for name, text, colours in (
        ("sound", style.INK, (style.BLUE, style.LIGHT_BLUE)),
        ("broken", style.VERMILLION, (style.VERMILLION, style.LIGHT_VERMILLION)),
    ):
        if name == "broken":
            axes.axhline(y - 0.3, color=style.GREY, linewidth=0.6)
            axes.annotate("broken on purpose", (0, y + 0.3), (-5, 0), fontweight="bold", color=text, **side)
            y += 1.2
        for case in data[name]:
            two = case["claimed_gaussian"] is not None
            pair(axes, y - 0.2 * two, case["claimed"], case["proved"], "o", colours, case["unseen"] and name == "broken")
            if two:
                pair(axes, y + 0.2, case["claimed_gaussian"], case["proved_gaussian"], "D", colours)
            axes.annotate(case["title"], (0, y), (-5, 3.6), color=text, **side)
            axes.annotate(details(case), (0, y), (-5, -4), fontsize=5.5, color=style.GREY, **side)
            runs = f"{case['runs']:,}".replace(",", "\N{THIN SPACE}")
            axes.annotate(runs, (1, y), (0, 0), fontsize=6, color=style.GREY, **side)
            y += 1.0
    axes.set(xlim=(0, 14), ylim=(y - 0.4, -1.2))
    axes.set_yticks([])
    axes.set_xticks([0, 2, 4, 6, 8, 10])
    axes.set_xlabel(r"privacy $\varepsilon$", x=5 / 14)
    style.panel_caption(axes, "a", "claimed, and proved by an audit")


def details(case):
    """Return what a case's title leaves out."""
    name = case["mechanism"].removesuffix(" by the exponential mechanism")
    return (name.partition(", ")[2] or name) + (f", δ = {case['delta']:g}" if case["delta"] != DELTA else "")


def smallest(axes, data):
    """Draw the smallest delta of one step at every eps, and what the audits of that step prove."""
    for name, colour, marker in (("broken", style.VERMILLION, "s"), ("sound", style.BLUE, "o")):
        style.curve(axes, data["profiles"][name], colour, marker)
        case, edge = data[name][0], {"color": colour, "markeredgecolor": "white", "zorder": 4}
        axes.plot([case["proved"]], [DELTA], "o", markersize=5.4, **edge)
        axes.plot([case["proved_gaussian"]], [TIGHT], "D", markersize=4.8, **edge)
    for delta in (DELTA, TIGHT):
        axes.axhline(delta, color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    style.note(axes, 3.2, 1.5e-3, "claimed", (5, 0), color=style.BLUE)
    style.note(axes, 7.4, 1.5e-3, "noise halved", (5, 0), color=style.VERMILLION)
    style.note(axes, 12.2, DELTA, "any mechanism", (0, 5), ha="right", fontsize=6, color=style.GREY)
    style.note(axes, 7.1, TIGHT, "Gaussian noise", (0, -6), ha="center", fontsize=6, color=style.GREY)
    axes.set(yscale="log", xlim=(-0.3, 12.4), ylim=(2e-6, 1.6))
    axes.set_xticks([0, 2, 4, 6, 8, 10])
    axes.set_yticks([1, 0.1, DELTA, 1e-3, 1e-4, TIGHT])
    axes.minorticks_off()
    axes.set_xlabel(r"privacy $\varepsilon$")
    axes.set_ylabel(r"smallest $\delta$")
    style.panel_caption(axes, "b", r"one step of DP-SGD, $z=1$")


def reading():
    """Return how to read the figure."""
    return (
        "Each mechanism ran in two worlds that differ in one\n"
        "row or client: there or not, or replaced by its\n"
        "opposite. An adversary who knows all others sees\n"
        "every model (DP-SGD), the server's update and\n"
        "clipping norm (DP-FedAvg), the choice, the best\n"
        "score, the message. A quarter of the runs choose\n"
        "a test, the others count.\n"
        "\n"
        "A proved bound exceeds the true ε with probability\n"
        f"at most β = {BETA:g}. Beyond the claim it refutes it;\n"
        "below, it says only that nothing worse was found.\n"
        "Arrow: the test's event never happened in one\n"
        "world, so more runs would prove more.\n"
        "\n"
        "Open points in b: this toolkit's training, simulated;\n"
        "standard errors smaller than the markers."
    )


def looks():
    """Return handles and labels of the legend."""
    bar = Line2D([], [], color=style.LIGHT_BLUE, linewidth=3, marker="|", markeredgecolor=style.BLUE, markersize=6)
    dot, diamond = (
        Line2D([], [], color=style.BLUE, linestyle="", marker=marker, markersize=4, markeredgewidth=0) for marker in "oD"
    )
    gaussian = r"proved for Gaussian noise, $\delta=10^{-5}$"
    return [bar, dot, diamond], ["claimed", rf"proved for any mechanism, $\delta={DELTA:g}$", gaussian]


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure = Figure(figsize=(style.PAGE, 4.9))
    rooms: list[Any] = [["audits", "delta"], ["audits", "text"]]
    axes = figure.subplot_mosaic(rooms, width_ratios=(1.2, 1), height_ratios=(1.6, 1))
    audits(axes["audits"], data)
    smallest(axes["delta"], data)
    axes["text"].axis("off")
    axes["text"].text(-0.15, 1, reading(), va="top", fontsize=6, linespacing=1.3, transform=axes["text"].transAxes)
    style.legend(figure, *looks(), 3)
    return figure
