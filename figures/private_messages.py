"""Risk of the personalised estimate when messages are private or quantised (generative framework, Theorem 2, Figure 4).

Left against the privacy budget in Figure 4's setting, with the printed noise where it is valid (eps0 <= 1) and with the
least Gaussian noise that is private at every budget; right against the bits of a message among fewer clients.  The text
of the paper gives neither delta nor r; they are ours, with r = 0.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import numpy as np
from scipy.special import ndtri

from estimators.accounting import mechanisms
from estimators.closed_forms import gaussian, quantization
from estimators.montecarlo import ClientsExperiment, SampledExperiment
from figures import style
from figures.points import Points

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "generative:thm2:mse",
    "generative:thm2:a",
    "generative:thm2:quantiser",
    "generative:thm2:event:range",
    "generative:thm2:ldp",
    "generative:exp:fig4",
    "generative:exp:fig4:gain",
    "generative:exp:fig4:worse",
    "generative:exp:fig4:high-eps",
)
CLIENTS, SAMPLES, SIGMA2_THETA, SIGMA2_X, DELTA = 10_000, 15, 0.01, 0.25, 1e-5
FEW, BITS = 20, range(1, 7)
WITHIN = SIGMA2_X / SAMPLES
PLACES = {"least": [0.07, 0.2, 0.5, 1.4, 4.0, 15.0], "printed": [0.1, 0.25, 0.45, 0.9]}


def half_range(clients):
    """Return the range that holds all clients' means."""
    return float(quantization.message_range(clients, SAMPLES, SIGMA2_THETA, SIGMA2_X, 0.0))


def noise(eps, name):
    """Return the variance of the noise on a message."""
    sensitivity = quantization.box_sensitivity(half_range(CLIENTS), 1)
    if name == "printed":
        return float(quantization.gaussian_noise_variance(eps=eps, delta=DELTA, sensitivity=sensitivity))
    return float(mechanisms.gaussian_sigma(eps=eps, delta=DELTA, sensitivity=sensitivity) ** 2)


def risk(sigma2_q, clients):
    """Return the closed form over the local risk."""
    return gaussian.risk(SIGMA2_THETA, SIGMA2_X, SAMPLES, clients, sigma2_q) / WITHIN


def private_experiment(eps, name):
    """Return the experiment with all other clients drawn as one: their average has an (m-1)th of the variances."""
    sigma2_q, others = noise(eps, name), CLIENTS - 1
    a = float(gaussian.shrinkage_factor(SIGMA2_THETA, SIGMA2_X, SAMPLES, sigma2_q, CLIENTS))
    # In p, e, l of the client and the average of all messages: a (p + e) + (1 - a) average - p.
    form = [a - 1, a, 0.0, 1 - a]
    shares = np.array([1.0, 1 / others])
    weights = [1 / CLIENTS, others / CLIENTS]
    return ClientsExperiment(SIGMA2_THETA * shares, WITHIN * shares, sigma2_q * shares, 0, weights, form, form)


def quantiser_noise(bits):
    """Return the mean variance of the quantiser over the clients' means, by quadrature."""
    means = np.sqrt(SIGMA2_THETA + WITHIN) * ndtri((np.arange(20_001) + 0.5) / 20_001)
    return float(np.mean(quantization.quantiser_variance(means, half_range(FEW), bits)))


def added(sigma2_q):
    """Return what noise on the messages adds to the risk among few clients, over the risk without; a closed form."""
    return risk(sigma2_q, FEW) / risk(0.0, FEW) - 1


def quantised_experiment(bits):
    """Return the experiment of the mean squared errors of all clients with quantised and with plain messages."""
    reach = half_range(FEW)
    sizes = quantiser_noise(bits), 0.0
    weights = [float(gaussian.shrinkage_factor(SIGMA2_THETA, SIGMA2_X, SAMPLES, size, FEW)) for size in sizes]

    def draw(gen, reps):
        theta = np.sqrt(SIGMA2_THETA) * gen.standard_normal((reps, FEW))
        means = theta + np.sqrt(WITHIN) * gen.standard_normal((reps, FEW))
        found = []
        for a, messages in zip(weights, (quantization.quantise(means, reach, bits, gen), means), strict=True):
            centre = messages.mean(axis=1, keepdims=True)
            found.append(np.mean((a * means + (1 - a) * centre - theta) ** 2, axis=1))
        return np.column_stack(found)

    return SampledExperiment(draw, 2, 3 * FEW)


def compute(quick=False):
    """Return lines and points of both panels, with provenance."""
    points = Points("private_messages", quick)
    x = np.geomspace(0.05, 20, 121)
    private = {}
    for name, places in PLACES.items():
        found = points.compare(
            name,
            places,
            lambda eps, name=name: risk(noise(eps, name), CLIENTS),
            lambda eps, name=name: private_experiment(eps, name),
            of=[1 / WITHIN],
        )
        grid = x if name == "least" else np.append(x[x < 1], 1.0)
        private[name] = {"x": grid, "y": np.array([risk(noise(eps, name), CLIENTS) for eps in grid]), "points": found}
    bits = np.array(BITS)
    scale = 1 / (WITHIN * risk(0.0, FEW))
    found = points.compare(
        "bits", [1, 2, 3, 4], lambda k: added(quantiser_noise(k)), quantised_experiment, of=[scale, -scale], share=0.2
    )
    exact = {"x": bits, "y": np.array([added(quantiser_noise(k)) for k in BITS]), "points": found}
    bound = added(quantization.quantiser_variance_bound(half_range(FEW), bits))
    points.require(bool((exact["y"] <= bound).all()), "the quantised risk exceeds its bound")
    parameters = {
        "m": CLIENTS,
        "n": SAMPLES,
        "sigma2_theta": SIGMA2_THETA,
        "sigma2_x": SIGMA2_X,
        "delta": DELTA,
        "m_bits": FEW,
    }
    return {
        "private": private,
        "regular": float(risk(0.0, CLIENTS)),
        "quantised": exact,
        "bound": {"x": bits, "y": bound},
        "provenance": points.provenance(CLAIMS, parameters),
    }


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 2.7, columns=2)
    dots = {"color": style.INK, "linewidth": 0.8, "linestyle": (0, (1, 2)), "zorder": 1}
    style.curve(left, data["private"]["printed"], style.VERMILLION, "o")
    style.curve(left, data["private"]["least"], style.BLUE, "s")
    style.note(left, 0.4, 0.88, "printed noise\n(up to $\\varepsilon_0=1$)", color=style.VERMILLION)
    style.note(left, 0.5, 0.52, "least Gaussian\nnoise", ha="right", color=style.BLUE)
    for height, text, offset in ((1, "own mean", 6), (data["regular"], "plain messages", -7)):
        left.axhline(height, **dots)
        style.note(left, 20, height, text, (-2, offset), ha="right")
    left.set(xscale="log", xlim=(0.05, 20), ylim=(0.3, 1.08))
    left.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    left.xaxis.minorticks_off()
    left.set_xlabel(r"privacy budget of a message, $\varepsilon_0$")
    left.set_ylabel("mean squared error, over own mean's")
    style.panel_caption(left, "a", f"private messages, $m={CLIENTS}$")
    style.points_note(left, 0.98, 0.56, "right")
    right.plot(data["bound"]["x"], data["bound"]["y"], color=style.GREY, linewidth=1.0, linestyle=(0, (3, 2)))
    style.curve(right, data["quantised"], style.GREEN, "^")
    style.note(
        right, 3, data["bound"]["y"][2], "with the largest variance\nof the quantiser (paper)", (9, 10), color=style.GREY
    )
    style.note(right, 3, data["quantised"]["y"][2], "stochastic quantiser", (-10, -8), color=style.GREEN, ha="right")
    right.set(yscale="log", ylim=(1e-4, 2))
    right.set_yticks([1e-4, 1e-3, 0.01, 0.1, 1], ["0.01%", "0.1%", "1%", "10%", "100%"])
    right.set_xticks(list(BITS))
    right.set_xlabel("bits of a message")
    right.set_ylabel("error added, over plain messages'")
    style.panel_caption(right, "b", f"quantised messages, $m={FEW}$")
    return figure
