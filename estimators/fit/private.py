"""`borrow fit --eps`: every client runs its own side, and only reports reach the fit.

Belongs here: from raw rows to reports to a fitted server model.  Mechanisms, reports and server are in
``estimators.private``.  Nothing that this returns is computed from raw data other than through the reports.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from estimators.accounting.budget import Guarantee, budget_numbers, in_parallel
from estimators.fit.models import Model, build
from estimators.fit.outcome import Outcome
from estimators.tables.client_table import AnyTable, BinomialTable, ClientTable

if TYPE_CHECKING:
    from estimators.accounting.budget_file import BudgetFile
    from estimators.private.reports import MeanReport, RateReport, Report


__all__ = ["groups_of", "model_for", "private_outcome", "untold"]

T = TypeVar("T")

VARIANCE_SHARE = 0.25
"""Part of the budget spent on the variance among a client's rows, if that is not given."""

NEAR = 0.05
"""Part of the width of the bounds that counts as at an end."""


def untold(read: Callable[[], T], source: str) -> T:
    """Return what `read` does with a table; its errors say where something is wrong and never what stands there.

    Nothing of the table is in the exception, nor in one behind it, nor in a warning.

    Parameters
    ----------
    read : function without arguments; source : what it reads, for messages.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except ValueError as error:
        said = getattr(error, "untold", None) or f"{source} cannot be used; a run without --eps says why, and may show cells"
    raise ValueError(said)


def model_for(table: AnyTable, options: Mapping[str, Any], bounds: tuple[float, float] | None) -> tuple[Model, Any]:
    """Return (`Model`, its instance) for the reports of `table`; ValueError for what does not go together."""
    if isinstance(table, BinomialTable):
        if bounds is not None or "sigma2" in options:
            raise ValueError("--bounds and --sigma2 are for measurements; counts are 0 or 1 per trial")
        return RATES, build(RATES, options)
    if not isinstance(table, ClientTable) or table.rows is None:
        raise ValueError("--eps needs raw rows, client,value or client,outcome, or counts, client,successes,trials")
    if bounds is None:
        raise ValueError("--bounds LOW HIGH must be given with --eps: ends that a value may have, known without the data")
    return MEANS, build(MEANS, options)


def private_outcome(
    table: Any,
    kind: Model,
    model: Any,
    *,
    eps: float | Mapping[str, float],
    delta: float,
    bounds: tuple[float, float] | None,
    local: bool,
    level: float,
    generator: np.random.Generator | None,
    charge: Callable[[Guarantee], BudgetFile] | None = None,
) -> Outcome:
    """Return the `Outcome` of a private fit.

    Parameters
    ----------
    table : ClientTable with raw rows, or BinomialTable; kind, model : from `model_for`.
    eps : budget of every client, or a dict with one for each, by names; public, so none may depend on a client's data.
    delta : number in [0, 1), the same for all; `local`: of all its rows together, else of one row.
    bounds : pair, for measurements.
    generator : numpy.random.Generator, or None for the operating system's randomness.
    charge : function that enters the guarantee of all reports together into a budget, before anything is computed from
        them, and returns that budget; or None.
    """
    adjacency = "client" if local else "row"
    model.check_settings(len(table.clients))  # nobody pays for what cannot be fitted

    def charged_fit(reports: Sequence[Report]) -> BudgetFile | None:
        budget = None if charge is None else charge(in_parallel(report.guarantee for report in reports))
        model.fit(reports)
        return budget

    if kind is RATES:
        reports = rate_reports(table, eps, delta, adjacency, generator)
        budget = charged_fit(reports)
        own = np.array([report.value / report.trials for report in reports])
        noise = np.array([report.noise_variance / report.trials**2 for report in reports])
        rate = model.posterior_mean_
        sampling = np.maximum(rate * (1 - rate) - model.posterior_sd_**2, 0.0) / [report.trials for report in reports]
        notes = []
    else:
        assert bounds is not None  # see model_for
        reports = mean_reports(table, eps, delta, bounds, adjacency, model.sigma2, generator)
        budget = charged_fit(reports)
        own = np.array([report.estimate for report in reports])
        sampling, noise = model.variances_, 0.0
        told = model.sigma2 is None and not local  # with `local` it is not rows that are clipped
        notes = clipping(reports, bounds, model.sigma2_ - 2 * model.prior_.sigma2_sd if told else 0.0)
    return Outcome.of(
        kind, model, table.clients, own, np.sqrt(sampling + noise), np.array([report.n for report in reports]), level,
        privacy=lines(model, budget), budget=None if budget is None else budget.summary(),
        notes=[*unspent(delta, reports), *notes],
    )  # fmt: skip


def unspent(delta: float, reports: Sequence[Report]) -> list[str]:
    """Return the note that says if --delta was not used."""
    pure = sum(report.guarantee.delta == 0 for report in reports)
    if not delta or not pure:
        return []
    who = "" if pure == len(reports) else f" by {pure} of {len(reports)} clients"
    return [f"--delta {delta:g} was not spent{who}: noise that needs none has the smaller variance, and protects more"]


def clipping(reports: Sequence[MeanReport], bounds: tuple[float, float], sigma2_low: float) -> list[str]:
    """Return notes on reports that look as if values had been clipped.

    How many values were clipped is as private as the values, and choosing other bounds after it would void the guarantee.
    So this looks at reports alone, which costs nothing: if all values of all clients lie at an end or beyond, the reports
    average to that end, but for noise of known variance.  `sigma2_low` is what the variance of a clipped row surely exceeds;
    (high - low)^2 / 8 is that of the arcsine law, which already has most of its mass at the ends.
    """
    low, high = bounds
    precision = np.array([1 / (report.noise_variance + report.rounding_variance) for report in reports])
    average = float(np.sum(precision / precision.sum() * [report.estimate for report in reports]))
    error = 1 / np.sqrt(precision.sum())
    near = NEAR * (high - low) + 2 * error
    flag = f"--bounds {low:g} {high:g}"
    private = "seen from the reports alone: how many values were clipped stays private"
    if 4 * error > high - low:
        return [
            f"the reports average to {average:.4g} with a standard error of {error:.2g} by noise alone, which hides where "
            f"between {flag} the values lie; give a larger --eps, more clients or more rows"
        ]
    if average - low <= near or high - average <= near:
        end = "lower" if average - low <= near else "upper"
        return [
            f"the reports average to {average:.4g}, at the {end} end of {flag}: if most values lie beyond, they were "
            f"clipped to it and the estimates do not say where they are ({private})"
        ]
    if sigma2_low > (high - low) ** 2 / 8:
        return [
            f"the values vary as if most were at the two ends of {flag}: if most lie beyond, they were clipped and the "
            f"estimates do not say where they are ({private})"
        ]
    return []


class Private(Model):
    """A server's model in ``estimators.private``."""

    def load(self) -> type[Any]:
        """Return the class."""
        from estimators import private

        return getattr(private, self.path)


MEANS = Private(
    "normal",
    "means",
    "PrivateGaussianMeans",
    "rows are normal around the true values, noise has the law of its mechanism; true values around a common centre",
)
RATES = Private("beta-binomial", "binomial", "PrivateRates", "each trial succeeds with its client's own probability")


def lines(model: Any, budget: BudgetFile | None) -> tuple[str, ...]:
    """Return the guarantees in words, with who sees what, what was spent, and what is not promised."""
    from estimators.private.provenance import provenance_of
    from estimators.private.server import guarantee_lines

    found = provenance_of(model.guarantees_)
    return (
        *guarantee_lines(model.guarantees_),
        "estimate is what a client's report says, noise included; raw values went into the reports only.",
        *([] if budget is None else [f"budget of {budget}."]),
        f"public: {'; '.join(found['public'])}.",
        f"not covered: {'; '.join(found['not_covered'])}.",
    )


def mean_reports(
    table: ClientTable,
    eps: float | Mapping[str, float],
    delta: float,
    bounds: tuple[float, float],
    adjacency: Literal["row", "client"],
    sigma2: float | None,
    generator: np.random.Generator | None,
) -> list[MeanReport]:
    """Return one MeanReport per client, all made at once."""
    from estimators.private import MeanClient
    from estimators.private.reports import low_high

    low, high = low_high("bounds", bounds)
    share = VARIANCE_SHARE if sigma2 is None else 0.0
    # No variance of numbers in [low, high] exceeds this (Popoviciu), but for the divisor n - 1.
    bound = (high - low) ** 2 / 2 if share and adjacency == "client" else None
    samples = table.samples()
    assert samples is not None  # see model_for
    found: dict[int, MeanReport] = {}
    for one, places in groups_of(eps, table.clients):
        client = MeanClient(
            bounds=bounds, eps=one, delta=delta, adjacency=adjacency, mechanism="best", variance_share=share,
            variance_bound=bound,
        )  # fmt: skip
        mine = client.reports([samples[i] for i in places], [table.clients[i] for i in places], generator)
        found |= zip(places, mine, strict=True)
    return [found[i] for i in range(len(samples))]


def groups_of(eps: float | Mapping[str, float], clients: Sequence[str]) -> list[tuple[float, list[int]]]:
    """Return the places of the clients with each eps, who report together.

    Parameters
    ----------
    eps : number > 0, or a dict from the names of all `clients` to such numbers.

    Raises
    ------
    ValueError
        Naming a client that has no eps or one that is no number > 0, and a name that is no client's.

    >>> groups_of({"a": 1.0, "b": 0.5, "c": 1.0}, ["a", "b", "c"])
    [(0.5, [1]), (1.0, [0, 2])]
    """
    if not isinstance(eps, Mapping):
        return [(eps, list(range(len(clients))))]
    strange = sorted(map(str, eps.keys() - set(clients)))
    if strange:
        raise ValueError(f"eps names {strange[0]!r}, which is no client")
    found: dict[float, list[int]] = {}
    for place, name in enumerate(clients):
        try:
            found.setdefault(budget_numbers(eps[name], 0.0)[0], []).append(place)
        except KeyError:
            raise ValueError(f"eps has no number for the client {name!r}; give one for each") from None
        except (TypeError, ValueError):
            raise ValueError(f"eps of the client {name!r} must be one number > 0") from None
    return sorted(found.items())


def rate_reports(
    table: BinomialTable,
    eps: float | Mapping[str, float],
    delta: float,
    adjacency: Literal["row", "client"],
    generator: np.random.Generator | None,
) -> list[RateReport]:
    """Return one RateReport per client, all made at once."""
    from estimators.private import RateClient

    if (table.trials == 0).any():
        client = table.clients[int(np.argmax(table.trials == 0))]
        raise ValueError(f"client {client!r} has no trials, so nothing to report; drop it")
    found: dict[int, RateReport] = {}
    for one, places in groups_of(eps, table.clients):
        mechanism = "best" if adjacency == "client" else None  # of a number that moves by one a staircase is Laplace's law
        client = RateClient(eps=one, delta=delta, adjacency=adjacency, mechanism=mechanism)
        names = [table.clients[i] for i in places]
        mine = client.reports(table.successes[places], table.trials[places], names, generator)
        found |= zip(places, mine, strict=True)
    return [found[i] for i in range(len(table.clients))]
