"""`borrow fit --eps`: every client runs its own side, and only reports reach the fit.

Belongs here: from raw rows to reports to a fitted server model.  Mechanisms, reports and server are in
``estimators.private``.  Nothing that this returns is computed from raw data other than through the reports.
"""

import numpy as np

from figures.fit.models import Model, build
from figures.fit.outcome import Outcome

__all__ = ["private_outcome"]

VARIANCE_SHARE = 0.25
"""Part of the budget spent on the variance among a client's rows, if that is not given."""


def private_outcome(table, *, eps, delta, bounds, local, sigma2, level, options, generator, progress):
    """Return the `Outcome` of a private fit.

    Parameters
    ----------
    table : ClientTable with raw rows, or BinomialTable.
    eps, delta : budget of every client; `local`: of all its rows together, else of one row.
    bounds : pair, for measurements; sigma2 : variance of one row if known, else reported by the clients.
    options : arguments of the server's model that were given.
    generator : numpy.random.Generator, or None for the operating system's randomness.
    progress : function that wraps an iterable of clients.
    """
    adjacency = "client" if local else "row"
    if table.data == "binomial":
        if bounds is not None or sigma2 is not None:
            raise ValueError("--bounds and --sigma2 are for measurements; counts are 0 or 1 per trial")
        reports = rate_reports(table, eps, delta, adjacency, generator, progress)
        kind, extra = RATES, {}
    elif table.data == "means" and table.rows is not None:
        if bounds is None:
            raise ValueError(
                "--bounds LOW HIGH must be given with --eps: ends that a value may have, known without the data"
            )
        reports = mean_reports(table, eps, delta, bounds, adjacency, sigma2, generator, progress)
        kind, extra = MEANS, {"sigma2": sigma2}
    else:
        raise ValueError("--eps needs raw rows, client,value or client,outcome, or counts, client,successes,trials")
    model = build(kind, {**options, **extra}).fit(reports)
    if table.data == "binomial":
        own = np.array([report.value / report.trials for report in reports])
        noise = np.array([report.noise_variance / report.trials**2 for report in reports])
        rate = model.posterior_mean_
        sampling = np.maximum(rate * (1 - rate) - model.posterior_sd_**2, 0.0) / [report.trials for report in reports]
    else:
        own = np.array([report.estimate for report in reports])
        sampling, noise = model.variances_, 0.0
    return Outcome.of(
        kind, model, table.clients, own, np.sqrt(sampling + noise), np.array([report.n for report in reports]), level,
        privacy=lines(model),
    )  # fmt: skip


class Private(Model):
    """A server's model in ``estimators.private``."""

    def load(self):
        """Return the class."""
        from estimators import private

        return getattr(private, self.path)


MEANS = Private(
    "normal",
    "means",
    "PrivateGaussianMeans",
    "reports are normal around the true values; true values around a common centre",
)
RATES = Private("beta-binomial", "binomial", "PrivateRates", "each trial succeeds with its client's own probability")


def lines(model):
    """Return the guarantees in words, with who sees what."""
    from estimators.private.server import guarantee_lines

    return (
        *guarantee_lines(model.guarantees_),
        "estimate is what a client's report says, noise included; raw values went into the reports only.",
    )


def mean_reports(table, eps, delta, bounds, adjacency, sigma2, generator, progress):
    """Return one MeanReport per client."""
    from estimators.private import MeanClient

    low, high = bounds
    share = VARIANCE_SHARE if sigma2 is None else 0.0
    # No variance of numbers in [low, high] exceeds this (Popoviciu), but for the divisor n - 1.
    bound = (high - low) ** 2 / 2 if share and adjacency == "client" else None
    return [
        MeanClient(
            bounds=bounds, eps=eps, delta=delta, adjacency=adjacency, variance_share=share, variance_bound=bound, name=name
        ).report(rows, generator)
        for name, rows in progress(list(zip(table.clients, table.samples(), strict=True)))
    ]


def rate_reports(table, eps, delta, adjacency, generator, progress):
    """Return one RateReport per client."""
    from estimators.private import RateClient

    if (table.trials == 0).any():
        client = table.clients[int(np.argmax(table.trials == 0))]
        raise ValueError(f"client {client!r} has no trials, so nothing to report; drop it")
    return [
        RateClient(eps=eps, delta=delta, adjacency=adjacency, name=name).report(
            np.repeat([1.0, 0.0], [ones, trials - ones]), generator
        )
        for name, ones, trials in progress(
            list(zip(table.clients, table.successes.tolist(), table.trials.tolist(), strict=True))
        )
    ]
