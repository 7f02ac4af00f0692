"""Private releases of a prior alone: what clients have in common, with no number about any one of them.

Two ways lead there.  A trusted curator holds all rows and adds noise once, to the mean and the variance of all clients'
means (``central``): who is protected is a whole client, and the noise is that of one number in m.  Regressions send noisy
sums of products, from which a server learns the common coefficients (``regression``).  In both a client's own estimate comes
from its exact rows and the released prior, at home (``at_home`` of the clients), and stays there.

Belongs here: from a table to a released prior.  Does not belong here: reports of means and rates, from which a server
estimates each client (``private``); the releases themselves (``estimators.private``); files and words (``figures.fit``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting.budget import Guarantee, budget_numbers, in_parallel
from estimators.fit.private import VARIANCE_SHARE, groups_of
from estimators.tables.client_table import AnyTable, BinomialTable, ClientTable, RegressionTable

if TYPE_CHECKING:
    from estimators.accounting.budget_file import BudgetFile
    from estimators.private.prior import Broadcast

__all__ = ["Released", "central", "regression"]


@dataclass(frozen=True)
class Released:
    """A prior that was released, and how it is protected.

    prior : Prior, BetaPrior or RegressionPrior; numbers : what it says, name to (value, standard error or None);
    clients : how many there are; released : in words, what noise was added to, and how much one client can move it;
    guarantees : of each client, or the one of the release if it is `together` about all of them;
    budget : of the data set, if it was charged; converged : whether the fit was.
    """

    prior: Broadcast
    numbers: Mapping[str, tuple[float, float | None]]
    clients: int
    released: str
    guarantees: tuple[Guarantee, ...]
    together: bool = False
    budget: dict[str, Any] | None = None
    lines: tuple[str, ...] = ()
    converged: bool = True
    notes: list[str] = field(default_factory=list)

    @property
    def about(self) -> int | None:
        """Of how many clients each guarantee is, if it is of all of them together."""
        return self.clients if self.together else None

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        from estimators.private.provenance import provenance_of

        return {
            "released": self.released,
            "kind": type(self.prior).__name__,
            "prior": asdict(self.prior),  # pyright: ignore[reportArgumentType] - every Broadcast is a dataclass
            "numbers": {name: {"value": value, "standard_error": error} for name, (value, error) in self.numbers.items()},
            "clients": self.clients,
            "privacy": list(self.lines),
            "provenance": provenance_of(self.guarantees, self.about),
            "budget": self.budget,
            "converged": self.converged,
            "notes": self.notes,
        }


def charged(
    made: Released, charge: Callable[[Guarantee], BudgetFile] | None, spent: Guarantee
) -> Released:  # fmt: skip
    """Return what is released, with the words of its guarantee; the budget is charged first."""
    from estimators.private.provenance import provenance_of
    from estimators.private.server import guarantee_lines

    budget = None if charge is None else charge(spent)
    found = provenance_of(made.guarantees, made.about)
    lines = (
        *guarantee_lines(made.guarantees, made.about),
        f"released: {made.released}.",
        *([] if budget is None else [f"budget of {budget}."]),
        f"public: {'; '.join(found['public'])}.",
        f"not covered: {'; '.join(found['not_covered'])}.",
    )
    return replace(made, lines=lines, budget=None if budget is None else budget.summary())


def central(
    table: AnyTable,
    *,
    eps: float,
    delta: float,
    bounds: tuple[float, float] | None,
    sigma2: float | None,
    generator: np.random.Generator | None,
    charge: Callable[[Guarantee], BudgetFile] | None = None,
) -> Released:
    """Release the centre and the spread of all clients, once, by somebody who is trusted with all rows.

    Protected is a whole client: its rows may take any other values.  Its mean is clipped to the bounds, so that it moves the
    mean of all by at most their width over the number of clients.  Of measurements, the variance of one row is a third
    release, of the mean of the clients' variances, for a quarter of the budget, unless `sigma2` is given.

    Parameters
    ----------
    table : ClientTable with raw rows, or BinomialTable; bounds : pair, for measurements and only there.
    eps, delta : budget of the release; sigma2 : number >= 0, public variance of one row, or None.
    generator : numpy.random.Generator, or None for the operating system's entropy.
    charge : function that enters the guarantee into a budget, before anything is released, and returns it; or None.

    Raises
    ------
    ValueError
        For other tables, fewer than two clients, and arguments out of their domain.
    """
    from estimators.private.central import release_prior
    from estimators.private.noise import choose_mechanism
    from estimators.private.prior import BetaPrior, cut_normal

    eps, delta = budget_numbers(eps, delta)
    choose_mechanism(None, eps, delta)  # of the whole, before a share of it is refused in its place
    if isinstance(table, BinomialTable):
        if bounds is not None or sigma2 is not None:
            raise ValueError("bounds and sigma2 are for measurements; counts are 0 or 1 per trial")
        if (table.trials == 0).any():
            name = table.clients[int(np.argmax(table.trials == 0))]
            raise ValueError(f"client {name!r} has no trials, so nothing to release; drop it")
        m, h = len(table.clients), float(np.mean(1 / table.trials))
        found = release_prior(
            table.successes / table.trials, 0.0, bounds=(0.0, 1.0), eps=eps, delta=delta, generator=generator,
            mechanism="best",
        )  # fmt: skip
        # The shares scatter by sigma2 (1 - h) + mu (1 - mu) h, h the mean of 1 / trials: all of it follows from two numbers.
        scatter = found.total_variance**2 * 2 / (m - 1) + found.variance_noise
        mu, mu_error = found.prior.mean, found.prior.mean_sd  # within (0, 1), as all that the prior holds for possible
        largest = mu * (1 - mu)
        if h == 1:
            raise ValueError("trials must be >= 2 for some client: one answer per client shows the prior's mean only")
        estimate = (found.total_variance - largest * h) / (1 - h)
        _, spread, error = cut_normal(estimate, float(np.sqrt(scatter)) / (1 - h), high=largest)
        prior = BetaPrior(mu, spread)
        numbers = {"centre": (mu, mu_error), "variance between clients": (spread, error)}
        what = "the mean and the variance of the clients' shares of ones; one client moves the mean by at most 1 / clients"
        return charged(Released(prior, numbers, m, what, (found.guarantee,), True), charge, found.guarantee)
    if not isinstance(table, ClientTable) or table.rows is None:
        raise ValueError("a central release needs raw rows, client,value or client,outcome, or counts")
    if bounds is None:
        raise ValueError("bounds must be given for measurements: ends that a value may have, known without the data")
    samples = table.samples()
    assert samples is not None  # there are rows
    m, sizes = len(samples), np.array([len(rows) for rows in samples])
    share = VARIANCE_SHARE if sigma2 is None else 0.0
    error, within = 0.0, None
    if sigma2 is None:
        sigma2, error, within = row_variance(samples, bounds, share * eps, share * delta, generator)
    means = np.array([np.mean(np.clip(rows, *bounds)) for rows in samples])
    found = release_prior(
        means, sigma2 / sizes, bounds=bounds, eps=(1 - share) * eps, delta=(1 - share) * delta, sigma2=sigma2,
        mechanism="best", generator=generator,
    )  # fmt: skip
    guarantee = found.guarantee if within is None else together(found.guarantee, within)
    prior = replace(found.prior, sigma2_sd=error)
    numbers = {
        "centre": (prior.mean, prior.mean_sd),
        "variance between clients": (prior.variance, None),
        "variance of a row": (sigma2, error),
    }
    what = (
        "the mean and the variance of the clients' means"
        + ("" if within is None else ", and the mean of their variances")
        + f"; one client moves the mean by at most {bounds[1] - bounds[0]:g} / clients"
    )
    return charged(Released(prior, numbers, m, what, (guarantee,), True), charge, guarantee)


def row_variance(
    samples: list[np.ndarray], bounds: tuple[float, float], eps: float, delta: float, generator: np.random.Generator | None
) -> tuple[float, float, Guarantee]:
    """Return the noisy mean of the variances of clients with two rows or more, its error, and the guarantee."""
    from estimators.private.client import MeanClient
    from estimators.private.prior import cut_normal

    spreads = [float(np.var(np.clip(rows, *bounds), ddof=1)) for rows in samples if len(rows) >= 2]
    if not spreads:
        raise ValueError("sigma2 must be given where no client has two rows")
    # No variance of numbers between the bounds exceeds this (Popoviciu), but for the divisor n - 1.
    largest = (bounds[1] - bounds[0]) ** 2 / 2
    curator = MeanClient(bounds=(0.0, largest), eps=eps, delta=delta, mechanism="best")
    report = curator.report(spreads, generator)
    error = float(np.sqrt(report.noise_variance + report.rounding_variance))
    return *cut_normal(report.estimate, error, high=largest)[1:], report.guarantee


def together(one: Guarantee, other: Guarantee) -> Guarantee:
    """Return the guarantee of two releases about the same clients: eps and delta add up."""
    mechanism = ", ".join(dict.fromkeys((one.mechanism, other.mechanism)))
    return replace(
        one, eps=one.eps + other.eps, delta=one.delta + other.delta, mechanism=mechanism, rho=None, renyi=None, events=(),
        claims=tuple(dict.fromkeys((*one.claims, *other.claims))),
    )  # fmt: skip


def regression(
    table: AnyTable,
    *,
    eps: float | Mapping[str, float],
    delta: float,
    norm: float,
    sigma2: float | None,
    generator: np.random.Generator | None,
    charge: Callable[[Guarantee], BudgetFile] | None = None,
) -> Released:
    """Learn what the clients' linear regressions have in common from a noisy report of each; one row is protected.

    Parameters
    ----------
    table : RegressionTable without groups; norm : number > 0, the longest that a row of features and target, the intercept's
        1 included, may be as a vector, known without the data: longer ones are shortened.
    eps : number, or dict with one for each client; delta : number in (0, 1); sigma2 : variance of a response, or None.
    generator, charge : as for `central`.
    """
    from estimators.private.regression import PrivateRegressionMeans, RegressionClient
    from estimators.private.server import enough

    if not isinstance(table, RegressionTable) or table.groups is not None:
        raise ValueError("a private regression needs a client, a target and features, and no groups")
    enough(len(table.clients), 2)  # nobody pays for what cannot be fitted
    reports: dict[int, Any] = {}
    for one_eps, places in groups_of(eps, table.clients):
        client = RegressionClient(norm=norm, eps=one_eps, delta=delta)
        Xs, Ys = [table.designs[i] for i in places], [table.targets[i] for i in places]
        reports |= zip(places, client.reports(Xs, Ys, [table.clients[i] for i in places], generator), strict=True)
    listed = [reports[i] for i in range(len(table.clients))]
    spent = in_parallel(report.guarantee for report in listed)
    budget = None if charge is None else charge(spent)  # before anything is computed from the reports
    model = PrivateRegressionMeans(sigma2=sigma2).fit(listed)
    errors = np.sqrt(np.maximum(np.diag(model.mu_covariance_), 0.0)).tolist()
    numbers: dict[str, tuple[float, float | None]] = {
        name: (value, error) for name, value, error in zip(table.features, model.mu_.tolist(), errors, strict=True)
    }
    numbers["variance between clients"] = (model.tau2_, model.tau2_sd_)
    numbers["variance of a response"] = (model.sigma2_, None)
    what = (
        f"of each client the sums of products of its rows, shortened to the length {norm:g}; "
        f"one row moves them by at most {np.sqrt(2) * norm**2:g} in Euclidean norm"
    )
    made = Released(model.prior_, numbers, len(listed), what, model.guarantees_, converged=model.converged_)
    return charged(made, None if budget is None else lambda _: budget, spent)
