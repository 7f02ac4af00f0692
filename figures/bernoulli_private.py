"""Learning a Beta prior from private reports of yes/no data (generative framework, Section 2.2, Theorem 4).

Left what the printed private estimate of the prior's variance converges to: two-point reports of shares of ones look the
same under every prior with the same mean.  Right the error of a protocol that does learn it, in which half of the clients
report on pairs of samples.  The parameters are ours; the paper has no such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import math

import numpy as np

from estimators.closed_forms import bernoulli
from estimators.montecarlo import SampledExperiment
from figures import style
from figures.points import Points

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "generative:qpriv",
    "generative:qpriv:variance",
    "generative:thm4:identifiable",
    "generative:thm4:variance-estimate",
    "generative:thm4:protocol",
    "generative:thm4:protocol:ldp",
    "generative:thm4:protocol:variance",
)
SAMPLES, PRIORS = 10, {"wide": 0.5, "middle": 2.0, "narrow": 20.0}
PLACES = {"wide": [0.25, 0.9, 3.0, 8.0], "middle": [0.35, 1.3, 4.0, 9.0], "narrow": [0.5, 2.0, 5.5, 10.0]}
CLIENTS = 100, 10**4, 10**6
PROTOCOL_PLACES = [0.25, 0.6, 1.5, 3.5, 9.0]
SEEN = 20


def reports_experiment(eps, alpha):
    """Return the experiment of the sample variance of private reports of shares of ones, as the paper's protocol sends."""

    def draw(gen, reps):
        share = gen.binomial(SAMPLES, gen.beta(alpha, alpha, (reps, SEEN))) / SAMPLES
        return bernoulli.randomize(share, eps=eps, rng=gen).var(axis=1, ddof=1, keepdims=True)

    return SampledExperiment(draw, 1, 3 * SEEN)


def raw_protocol(eps, clients):
    """Return the experiment of the squared error of the protocol's estimate, from every client's answers on."""
    half, alpha = clients // 2, PRIORS["middle"]
    true = float(bernoulli.prior_variance(alpha, alpha))

    def draw(gen, reps):
        ones = gen.binomial(SAMPLES, gen.beta(alpha, alpha, (reps, clients)))
        means = bernoulli.randomize(ones[:, :half] / SAMPLES, eps=eps, rng=gen)
        both = (ones * (ones - 1))[:, half:] / (SAMPLES * (SAMPLES - 1))
        pairs = bernoulli.randomize(both, eps=eps, rng=gen).mean(axis=1)
        return ((pairs - means.mean(axis=1) ** 2 + means.var(axis=1, ddof=1) / half - true) ** 2)[:, None]

    return SampledExperiment(draw, 1, 3 * clients)


def counted_protocol(eps, clients):
    """Return the same for many clients: reports are independent and take two values, so only their counts are drawn."""
    half, alpha = clients // 2, PRIORS["middle"]
    true, rise = float(bernoulli.prior_variance(alpha, alpha)), float(np.expm1(eps))
    low, apart = -1 / rise, 1 + 2 / rise

    def draw(gen, reps):
        ones, pairs = (gen.binomial(half, (1 + p * rise) / (2 + rise), reps) for p in (0.5, true + 0.25))
        spread = apart**2 * ones * (half - ones) / (half * (half - 1))
        estimate = low + apart * pairs / half - (low + apart * ones / half) ** 2 + spread / half
        return ((estimate - true) ** 2)[:, None]

    return SampledExperiment(draw, 1, 2, batch=65_536)


def compute(quick=False):
    """Return lines and points of both panels, with provenance."""
    points = Points("bernoulli_private", quick)
    x = np.geomspace(0.2, 12, 121)
    printed, protocol = {}, []
    for name, alpha in PRIORS.items():
        found = points.compare(
            name,
            PLACES[name],
            lambda eps: bernoulli.report_variance(0.5, eps=eps),
            lambda eps, alpha=alpha: reports_experiment(eps, alpha),
            share=0.05,
        )
        true = float(bernoulli.prior_variance(alpha, alpha))
        printed[name] = {"alpha": alpha, "true": true, "x": x, "y": bernoulli.report_variance(0.5, eps=x), "points": found}
    true = printed["middle"]["true"]
    for clients in CLIENTS:

        def closed(eps, clients=clients):
            alpha, half = PRIORS["middle"], clients // 2
            return bernoulli.private_variance(alpha, alpha, half, half, eps=eps)

        def simulated(eps, clients=clients):
            return (raw_protocol if clients == CLIENTS[0] else counted_protocol)(eps, clients)

        share = 0.02 if clients == CLIENTS[0] else 1.0
        found = points.compare(f"protocol:{clients}", PROTOCOL_PLACES, closed, simulated, share=share)
        deviation = np.sqrt(found["y"])
        scaled = {"x": found["x"], "y": deviation / true, "se": found["se"] / (2 * deviation * true)}
        protocol.append({"clients": clients, "x": x, "y": np.sqrt(closed(x)) / true, "points": scaled})
    parameters = {"n": SAMPLES, "alpha_is_beta": PRIORS, "m": CLIENTS}
    return {"printed": printed, "protocol": protocol, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 2.7, columns=2)
    looks = ((style.VERMILLION, "o"), (style.GREEN, "s"), (style.BLUE, "^"))
    dashes = {"linewidth": 1.0, "linestyle": (0, (3, 2)), "zorder": 1}
    line = data["printed"]["wide"]
    left.plot(line["x"], line["y"], color=style.INK, zorder=2)
    for curve, (colour, marker) in zip(data["printed"].values(), looks, strict=True):
        style.points(left, curve["points"], colour, marker)
        left.axhline(curve["true"], color=colour, **dashes)
        style.note(left, 12, curve["true"], f"Beta({curve['alpha']:g}, {curve['alpha']:g})", (4, 0), color=colour)
    left.set(xscale="log", yscale="log", xlim=(0.2, 12), ylim=(0.004, 40))
    left.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    left.set_ylabel("estimate of the prior's variance")
    style.note(left, 0.9, 3.2, "printed private estimate,\nthe same for all three priors")
    style.note(left, 0.22, 0.165, "true variances", color=style.GREY)
    style.points_note(left, 0.98, 0.88, "right")
    style.panel_caption(left, "a", "shares of ones only")
    for curve, (colour, marker) in zip(data["protocol"], looks, strict=True):
        style.curve(right, curve, colour, marker)
        power = round(math.log10(curve["clients"]))
        style.note(right, 12, curve["y"][-1], rf"$m=10^{power}$", (4, 4 if power == 2 else 0), color=colour)
    right.axhline(1, color=style.GREY, **dashes)
    style.note(right, 12, 1, "no better\nthan zero", (4, -9), color=style.GREY)
    right.set(xscale="log", yscale="log", xlim=(0.2, 12), ylim=(0.002, 100))
    right.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    right.set_ylabel("standard error over prior's variance")
    style.panel_caption(right, "b", "half of the clients report on pairs")
    for axes in (left, right):
        axes.set_xticks([0.2, 0.5, 1, 2, 5, 10], ["0.2", "0.5", "1", "2", "5", "10"])
        axes.minorticks_off()
        axes.set_xlabel(r"privacy budget of a report, $\varepsilon_0$")
    return figure
