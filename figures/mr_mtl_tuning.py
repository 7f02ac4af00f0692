"""What it costs to tune the strength privately (MR-MTL, Figure 7).

Risk against the strength for silos that are near-equal, balanced and different: without privacy, with it, and with the
larger noise that pays for publishing the best of 10 runs on average under the same (eps, delta).  The paper's settings
are not in its text; these are those of the claim mrmtl:fig7:cost.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import math
from functools import partial

import numpy as np

from estimators.accounting import privacy, tuning
from estimators.closed_forms import mean_regularized
from estimators.numerics.inversion import root
from figures import style
from figures.points import Points, silo_experiment

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "mrmtl:lem6.7",
    "mrmtl:fig7",
    "mrmtl:fig7:order",
    "mrmtl:fig7:cost",
    "mrmtl:thmF.2",
    "mrmtl:thmF.2:poisson",
)
K, RECORDS, SIGMA2, EPS, DELTA, RUNS = 10, 20, 1.0, 1.0, 1e-7, 10
TAU2S = {"near-equal silos": 0.01, "balanced": 2 / 15, "different silos": 1.0}
ETAS = (-0.5, 0.0, 1.0)
ORDERS = np.concatenate([np.arange(1.5, 20, 0.25), np.arange(20, 200, 2.0)])
PLACES = {"none": [0.0, 0.3, 0.7, 1.0], "free": [0.0, 0.25, 0.55, 0.85, 1.0], "tuned": [0.12, 0.4, 0.72, 0.93]}


def strength(pull):
    """Return lam for the axis' lam / (1 + lam)."""
    return pull / (1 - pull) if pull < 1 else math.inf


def risk(pull, sigma2_loc, tau2):
    """Return the closed form at the axis' lam / (1 + lam)."""
    return mean_regularized.mse(strength(pull), sigma2_loc, tau2, K)


def experiment(pull, sigma2_loc, tau2):
    """Return the experiment that simulates the same risk."""
    return silo_experiment([strength(pull)], 0, np.full(K, sigma2_loc), tau2)


def poisson_inflation():
    """Return the factor on the noise variance that pays for a Poisson number of runs, by solving for the noise."""

    def spent(log_rho, runs):
        rdp = privacy.rdp_from_zcdp(math.exp(log_rho), ORDERS)
        return tuning.tuned_epsilon(runs, ORDERS, rdp, delta=DELTA, conversion="classic") - EPS

    runs = (tuning.FixedRuns(1), tuning.PoissonRuns(float(RUNS)))
    free, tuned = (root(partial(spent, runs=each), -12, 1) for each in runs)
    return math.exp(free - tuned)


def noises():
    """Return the variance of the noise in a local mean for each way of tuning: Gaussian noise on records of range 1."""
    log_delta = -math.log(DELTA)
    rho = (math.sqrt(log_delta + EPS) - math.sqrt(log_delta)) ** 2  # eps = rho + 2 sqrt(rho log(1/delta))
    free = 1 / (2 * rho) / RECORDS**2
    laws = {f"tnb {eta:g}": tuning.TruncatedNegativeBinomial.with_mean(eta=eta, mean=RUNS) for eta in ETAS}
    factors = {name: tuning.noise_inflation(law, eps=EPS, delta=DELTA) for name, law in laws.items()}
    return {
        "none": 0.0,
        "free": free,
        **{name: free * x for name, x in factors.items()},
        "poisson": free * poisson_inflation(),
    }


def compute(quick=False):
    """Return the lines, points and optima of three panels, with provenance."""
    points = Points("mr_mtl_tuning", quick)
    x = np.linspace(0, 1, 201)
    added = noises()
    points.require(list(added.values()) == sorted(added.values()), "a smaller eta is not cheaper")
    panels = {}
    for panel, tau2 in TAU2S.items():
        panels[panel] = {}
        for name, noise in added.items():
            sigma2_loc = SIGMA2 / RECORDS + noise
            best = float(mean_regularized.strength(sigma2_loc, tau2))
            setting = {"sigma2_loc": sigma2_loc, "tau2": tau2}
            curve = {
                "sigma2_loc": sigma2_loc,
                "x": x,
                "y": np.array([risk(pull, **setting) for pull in x]),
                "optimum": {"x": best / (1 + best), "y": float(mean_regularized.optimal_mse(sigma2_loc, tau2, K))},
            }
            closed, simulated = partial(risk, **setting), partial(experiment, **setting)
            curve["points"] = points.compare(f"{panel}:{name}", PLACES.get(name, PLACES["tuned"]), closed, simulated)
            panels[panel][name] = curve
        untuned = min(panels[panel]["free"]["y"][[0, -1]])
        loses = panels[panel]["tnb 0"]["optimum"]["y"] > untuned
        points.require(loses == (panel != "balanced"), f"{panel}: whether tuning pays is not as mrmtl:fig7:cost says")
    parameters = {
        "K": K,
        "n": RECORDS,
        "sigma2": SIGMA2,
        "tau2": list(TAU2S.values()),
        "eps": EPS,
        "delta": DELTA,
        "runs": RUNS,
    }
    return {"panels": panels, "noises": added, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, three = style.new_figure(style.PAGE, 2.5, columns=3, sharey=True)
    looks = {
        "none": (style.GREY, "v", "no privacy"),
        "free": (style.INK, "o", "private"),
        "tnb -0.5": (style.SKY, "s", r"private, tuned: $\eta=-\frac{1}{2}$"),
        "tnb 0": (style.BLUE, "D", r"$\eta=0$"),
        "tnb 1": (style.VERMILLION, "^", r"$\eta=1$"),
        "poisson": (style.PURPLE, "p", "Poisson"),
    }
    dots = {"color": style.INK, "linewidth": 0.9, "linestyle": (0, (1, 2)), "zorder": 1}
    for axes, letter, (panel, curves) in zip(three, "abc", data["panels"].items(), strict=True):
        for name, (colour, marker, _) in looks.items():
            style.curve(axes, curves[name], colour, marker)
        axes.axhline(min(curves["free"]["y"][0], curves["free"]["y"][-1]), **dots)
        axes.set(xlim=(-0.06, 1.06), yscale="log", ylim=(0.01, 1.2))
        axes.set_xticks([0, 0.5, 1], ["0", "1", "∞"])
        axes.set_yticks([0.01, 0.03, 0.1, 0.3, 1], ["0.01", "0.03", "0.1", "0.3", "1"])
        axes.yaxis.minorticks_off()
        axes.set_xlabel(r"strength $\lambda$ (0: local, ∞: FedAvg)")
        style.panel_caption(axes, letter, rf"{panel}, $\tau^2={TAU2S[panel]:.2g}\,\sigma^2$")
    marks = {"markerfacecolor": "white", "markersize": 3.6}
    handles = [three[0].plot([], [], color=colour, marker=marker, **marks)[0] for colour, marker, _ in looks.values()]
    handles.append(three[0].plot([], [], **dots)[0])
    style.legend(figure, handles, [*(label for *_, label in looks.values()), "better end of private"], 7)
    style.points_note(three[2], 0.03, 0.88)
    three[0].set_ylabel(r"mean squared error of a silo, over $\sigma^2$")
    return figure
