"""Noise of a client's model update over batch size ratio and privacy budget (Robust-HDP, Figure 1).

Left the variance (7) with (3) at the noise scale that Renyi accounting asks for at each budget; right the same against the
batch size at three budgets.  The paper gives K, N, eta, c and p; rounds and delta, which it does not give, are ours.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

from functools import cache

import numpy as np

from estimators.accounting import dpsgd, privacy
from estimators.accounting.accountants import calibrate_noise
from estimators.montecarlo import SampledExperiment
from figures import style
from figures.points import Points

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "robusthdp:eq3",
    "robusthdp:eq7",
    "robusthdp:batch-power3",
    "robusthdp:z-sublinear",
    "robusthdp:small-q-noisier",
)
K, RECORDS, ETA, C, P = 1, 2400, 0.01, 3.0, 28939
ROUNDS, DELTA = 200, 1e-4
ORDERS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
BATCHES = (16, 24, 40, 60, 100, 150, 240, 400, 600)  # divisors of RECORDS
SCALES = np.geomspace(0.6, 130, 33)
BUDGETS = (0.5, 2.0, 8.0)
PLACES = (16, 40, 100, 240, 600)


def steps(b):
    """Return the steps of a round of local training."""
    return K * -(-RECORDS // b)


@cache
def scale(b, eps):
    """Return the noise scale that the accountant asks for over all rounds."""
    return calibrate_noise(lambda z: spent(b, z), eps=eps)


def spent(b, z):
    """Return the budget that the noise scale `z` spends over all rounds."""
    return privacy.sampled_gaussian_epsilon(
        noise_multiplier=z, sampling_rate=b / RECORDS, rounds=ROUNDS * steps(b), delta=DELTA, orders=ORDERS
    )


def variance(b, z):
    """Return the closed form; every epoch visits each record once, so that only noise is left."""
    return dpsgd.model_update_variance(K=K, N=RECORDS, b=b, eta=ETA, c=C, z=z, p=P, path="shuffled")


def experiment(b, z):
    """Return the experiment of one coordinate's noise, summed over the steps; times p, as coordinates are alike."""

    def draw(gen, reps):
        noise = gen.standard_normal((reps, steps(b))) * (C * z)
        return P * (ETA / b * noise.sum(axis=1, keepdims=True)) ** 2

    return SampledExperiment(draw, 1, steps(b))


def compute(quick=False):
    """Return the map, and lines and points of three budgets, with provenance."""
    points = Points("dpsgd_noise", quick)
    budgets = np.array([[spent(b, z) for b in BATCHES] for z in SCALES])
    surface = np.array([[variance(b, z) for b in BATCHES] for z in SCALES])
    curves = []
    for eps in BUDGETS:
        y = np.array([variance(b, scale(b, eps)) for b in BATCHES])
        points.require(bool((np.diff(y) < 0).all()), f"eps={eps}: the noise does not fall with the batch size")
        found = points.compare(
            f"eps={eps}",
            PLACES,
            lambda b, eps=eps: variance(b, scale(b, eps)),
            lambda b, eps=eps: experiment(b, scale(b, eps)),
        )
        curves.append({"eps": eps, "x": np.array(BATCHES), "y": y, "points": found})
    parameters = {"K": K, "N": RECORDS, "eta": ETA, "c": C, "p": P, "rounds": ROUNDS, "delta": DELTA}
    return {
        "map": {"q": np.array(BATCHES) / RECORDS, "eps": budgets, "variance": surface},
        "curves": curves,
        "provenance": points.provenance(CLAIMS, parameters),
    }


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 2.8, columns=2)
    eps, surface = np.asarray(data["map"]["eps"]), np.log10(data["map"]["variance"])
    q = np.broadcast_to(data["map"]["q"], eps.shape)
    left.pcolormesh(q, eps, surface, cmap="Blues", vmin=-2, vmax=4.5, shading="gouraud", rasterized=True)
    for level, column in ((-2, -2), (-1, -3), (0, -5), (1, 3), (2, 2), (3, 0)):
        # Along a column the budget is nearly a power of the variance, so interpolating logarithms is exact enough.
        columns = zip(surface.T, np.log(eps).T, strict=True)
        line = np.exp([np.interp(level, *values) for values in columns])
        left.plot(q[0], line, color=style.INK, linewidth=0.8)
        style.note(left, q[0, column], line[column], f"{10.0**level:g}", (5, 5 if level > -2 else 0))
    left.set(xscale="log", yscale="log", xlim=(BATCHES[0] / RECORDS, BATCHES[-1] / RECORDS), ylim=(0.2, 10))
    left.set_xticks([0.01, 0.03, 0.1], ["0.01", "0.03", "0.1"])
    left.set_yticks([0.2, 0.5, 1, 2, 5, 10], ["0.2", "0.5", "1", "2", "5", "10"])
    left.minorticks_off()
    left.set_xlabel("batch size ratio $q=b/N$")
    left.set_ylabel(r"privacy budget $\varepsilon$")
    style.panel_caption(left, "a", r"noise variance of an update, $\sigma_i^2$")
    looks = ((style.VERMILLION, "o"), (style.GREEN, "s"), (style.BLUE, "^"))
    for curve, (colour, marker) in zip(data["curves"], looks, strict=True):
        style.curve(right, curve, colour, marker)
        style.note(right, curve["x"][-1], curve["y"][-1], rf"$\varepsilon={curve['eps']:g}$", (6, 0), color=colour)
    b = np.array([20.0, 60.0])
    right.plot(b, 0.6 * (b / 20) ** -3.0, color=style.GREY, linewidth=0.8, linestyle=(0, (3, 2)))
    style.note(right, 36, 0.6 * 1.8**-3, r"$\propto b^{-3}$", (-5, -4), color=style.GREY, ha="right")
    right.set(xscale="log", yscale="log", xlim=(14, 650))
    right.set_xticks([16, 40, 100, 240, 600], ["16", "40", "100", "240", "600"])
    right.xaxis.minorticks_off()
    right.set_xlabel(f"batch size $b$, of $N={RECORDS}$ records")
    right.set_ylabel(r"noise variance $\sigma_i^2$ of an update")
    style.points_note(right, 0.98, 0.88, "right")
    style.panel_caption(right, "b", "at three budgets")
    return figure
