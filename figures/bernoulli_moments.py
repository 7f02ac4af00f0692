"""Learning a Beta prior from yes/no data: the naive moments against unbiased ones (generative framework, Section 2.2).

Left what both estimates of the prior's variance estimate, against the samples per client; right the error of the shrunken
rates they lead to with many clients, over the least possible.  The parameters are ours; the paper has no such figure.

Belongs here: the numbers and the drawing of this one figure. Does not belong here: formulas, style.
"""

import numpy as np

from estimators.closed_forms import bernoulli
from estimators.montecarlo import SampledExperiment
from figures import style
from figures.points import Points

__all__ = ["CLAIMS", "compute", "draw"]

CLAIMS = (
    "generative:bern:posterior",
    "generative:bern:known-mse",
    "generative:bern:known-mse:local",
    "generative:bern:variance-estimate",
    "generative:bern:moments:unbiased",
    "generative:bern:moments:limit-weight",
    "generative:bern:moments:cost",
)
ALPHA, BETA, CLIENTS = 2.0, 3.0, 20
RANGE = 2, 100
PLACES = {"naive": [2, 4, 8, 20, 60], "unbiased": [2, 3, 6, 14, 40, 90]}
WEIGHTS = {
    "local": lambda n: np.ones_like(np.asarray(n, float)),
    "naive": lambda n: bernoulli.limit_weight(ALPHA, BETA, n),
    "right": lambda n: bernoulli.posterior_weight(ALPHA, BETA, n),
}
ERROR_PLACES = {"local": [2, 5, 11, 30, 80], "naive": [2, 4, 8, 16, 50], "right": [2, 6, 20, 40, 90]}


def drawn(gen, n, shape):
    """Return true rates and numbers of ones of clients with `n` samples."""
    rates = gen.beta(ALPHA, BETA, shape)
    return rates, gen.binomial(n, rates)


def moments_experiment(n):
    """Return the experiment of the naive and the unbiased estimate of the prior's variance, as in ``bernoulli.moments``."""

    def draw(gen, reps):
        _, x = drawn(gen, n, (reps, CLIENTS))
        share = x / n
        naive = share.var(axis=1, ddof=1)
        both = (x * (x - 1)).mean(axis=1) / (n * (n - 1))
        return np.column_stack([naive, both - (share.mean(axis=1) ** 2 - naive / CLIENTS)])

    return SampledExperiment(draw, 2, 2 * CLIENTS)


def error_experiment(n, weight):
    """Return the experiment of the squared error of a client's shrunken rate."""

    def draw(gen, reps):
        rates, x = drawn(gen, n, reps)
        mu = ALPHA / (ALPHA + BETA)
        return ((weight * x / n + (1 - weight) * mu - rates) ** 2)[:, None]

    return SampledExperiment(draw, 1, 2, batch=65_536)


def variance(n, name):
    """Return what the estimate of the prior's variance estimates, over that variance; a closed form."""
    true = bernoulli.prior_variance(ALPHA, BETA)
    return bernoulli.naive_variance_mean(ALPHA, BETA, n) / true if name == "naive" else np.ones_like(np.asarray(n, float))


def error(n, name):
    """Return the mean squared error with the weight, over the least; a closed form."""
    if name == "naive":
        return 1 + bernoulli.naive_excess(ALPHA, BETA, n)
    return bernoulli.mse(ALPHA, BETA, n, WEIGHTS[name](n)) / bernoulli.mse(ALPHA, BETA, n)


def compute(quick=False):
    """Return lines and points of both panels, with provenance."""
    points = Points("bernoulli_moments", quick)
    n = np.arange(RANGE[0], RANGE[1] + 1)
    scale = 1 / bernoulli.prior_variance(ALPHA, BETA)
    variances, errors = {}, {}
    for name, of in (("naive", [scale, 0.0]), ("unbiased", [0.0, scale])):
        found = points.compare(
            name, PLACES[name], lambda n, name=name: variance(n, name), moments_experiment, of=of, share=0.1
        )
        variances[name] = {"x": n, "y": variance(n, name), "points": found}
    for name, weight in WEIGHTS.items():
        found = points.compare(
            f"error:{name}",
            ERROR_PLACES[name],
            lambda n, weight=weight: bernoulli.mse(ALPHA, BETA, n, weight(n)),
            lambda n, weight=weight: error_experiment(n, float(weight(n))),
        )
        least = bernoulli.mse(ALPHA, BETA, found["x"])
        scaled = {"x": found["x"], "y": found["y"] / least, "se": found["se"] / least}
        errors[name] = {"x": n, "y": error(n, name), "points": scaled}
    parameters = {"alpha": ALPHA, "beta": BETA, "m": CLIENTS}
    return {"variances": variances, "errors": errors, "provenance": points.provenance(CLAIMS, parameters)}


@style.styled
def draw(data):
    """Return the figure of the data that `compute` returned."""
    figure, (left, right) = style.new_figure(style.PAGE, 2.6, columns=2)
    style.curve(left, data["variances"]["naive"], style.VERMILLION, "o")
    style.curve(left, data["variances"]["unbiased"], style.BLUE, "s")
    left.set(ylim=(0.5, 4))
    style.note(left, 3.6, 2.8, "naive: sample variance of\nthe clients' shares", color=style.VERMILLION)
    style.note(left, 2, 1, "unbiased, for every number of clients", (-2, -9), color=style.BLUE)
    left.set_ylabel("mean estimate, over the prior's variance")
    style.panel_caption(left, "a", "what is estimated")
    errors = data["errors"]
    looks = {"local": (style.GREY, "^"), "naive": (style.VERMILLION, "o"), "right": (style.BLUE, "s")}
    for name, (colour, marker) in looks.items():
        style.curve(right, errors[name], colour, marker)
    right.set(ylim=(0.5, 4))
    style.note(right, 3.2, 2.9, "own share of ones", color=style.GREY)
    style.note(right, 2, 2, "naive", (6, 2), color=style.VERMILLION)
    style.note(right, 2, 1, "weight with the right moments", (-2, -9), color=style.BLUE)
    right.set_ylabel("mean squared error, over the least")
    style.panel_caption(right, "b", "what it costs, many clients")
    for axes in (left, right):
        axes.set(xscale="log", xlim=(1.8, 110))
        axes.set_xticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
        axes.xaxis.minorticks_off()
        axes.set_xlabel("yes/no samples per client, $n$")
        style.points_note(axes, 0.98, 0.86, "right")
    return figure
