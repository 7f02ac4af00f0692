"""What server and clients agreed on, and a server that takes nothing else: reports from strangers, checked one by one.

A hostile client can send whatever it likes.  What it may not do is named in the agreement: other bounds, another mechanism
or eps, another number of rows, noise of another variance, a value that no data and no likely noise can give.  What is left
to it is one value between the bounds and a little beyond, as any client has; whether many of them sit where honest
ones would not is asked in ``outlying``.

Belongs here: one report against the agreement, and the list of what was rejected and why.  Does not belong here: many
reports against each other (``outlying``), forged names (use an authenticated channel), fits (``server``, ``rates``,
``regression``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from estimators.numerics.validation import count, listing, probability, single
from estimators.private.client import MeanClient, RateClient
from estimators.private.regression import RegressionClient
from estimators.private.reports import MeanReport, RateReport, RegressionReport, Report, read_report
from estimators.private.staircase import LARGEST_EPS
from estimators.system.untrusted import shown

__all__ = ["Agreement", "Heard", "Rejection"]

KINDS = {MeanClient: MeanReport, RateClient: RateReport, RegressionClient: RegressionReport}
FREE = {"client", "guarantee", "estimate", "variance", "variance_noise", "value", "products"}
"""Parts of reports in which clients that keep to one agreement differ."""
CAUSES = {"bounds", "norm"}  # looked at first: the variances follow from them
LARGEST = 1_000_000  # rows of a client whose number was not agreed on
ALIKE = 1e-9  # relative, by which variances that two machines calculate may differ
HONEST = 1e-6  # chance that an honest client of all is rejected for its noise


class Rejection(NamedTuple):
    """A report that is not used: its place among all that came, the client's name, and why."""

    place: int
    client: str
    why: str


class Heard(NamedTuple):
    """The reports that are used, with their places among all that came, and those that are not used.

    influence : how far the mean can still be moved by clients of the stated share, see ``outlying.doubt``; None before it.
    """

    reports: list[Any]
    places: list[int]
    rejected: list[Rejection]
    influence: float | None = None

    def fit(self, model: Any) -> Any:
        """Return `model` fitted to the reports that are used, with the others and why in `rejected_`."""
        model.fit(self.reports)
        model.rejected_ = self.rejected
        return model


@dataclass(frozen=True)
class Agreement:
    """The settings of the clients, as the server knows them, and how many rows each has.

    Parameters
    ----------
    client : the class MeanClient, RateClient or RegressionClient.
    settings : dict of its arguments that all clients agreed to, all but `name` and `budget`; clients are made with
        client(**settings, name=...).
    sizes : dict from the name of each client to its number of rows, or None: any names, and numbers of rows up to 1,000,000
        that clients say themselves (a client that claims more rows has more weight).
    columns : whole number >= 1 of columns of x, for a RegressionClient and only there.

    >>> from estimators.private import MeanClient
    >>> agreed = Agreement(MeanClient, {"bounds": (0.0, 10.0), "eps": 1.0})
    >>> honest = MeanClient(**agreed.settings, name="a").report([4.0] * 50)
    >>> import dataclasses
    >>> hostile = dataclasses.replace(honest, client="b", estimate=1e6)
    >>> heard = agreed.screen([honest, hostile, "{"])
    >>> [report.client for report in heard.reports], [each.client for each in heard.rejected]
    (['a'], ['b', ''])
    >>> heard.rejected[0].why[:60]
    'estimate is 1e+06, beyond what data between 0 and 10 and noi'
    """

    client: type[Any]
    settings: Mapping[str, Any]
    sizes: Mapping[str, int] | None = None
    columns: int | None = None
    own: Any = field(default=None, init=False, repr=False, compare=False)  # a client that keeps to the agreement
    examples: dict[int, Report] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self):
        if self.client not in KINDS:
            names = ", ".join(kind.__name__ for kind in KINDS)
            raise ValueError(f"client must be one of the classes {names}, got {shown(self.client)}")
        if not isinstance(self.settings, Mapping) or {"name", "budget"} & self.settings.keys():
            raise ValueError("settings must be a dict of the client's arguments, without name and budget")
        try:
            object.__setattr__(self, "own", self.client(**self.settings))
        except TypeError as error:
            raise ValueError(f"settings must be arguments of {self.client.__name__}: {str(error)[:200]}") from None
        if self.sizes is not None:
            if not isinstance(self.sizes, Mapping):
                raise ValueError(f"sizes must be a dict from names to numbers of rows, got {type(self.sizes).__name__}")
            object.__setattr__(self, "sizes", {name: int(single(count, "sizes", n)) for name, n in self.sizes.items()})
        if (self.client is RegressionClient) != (self.columns is not None):
            raise ValueError("columns must be given for a RegressionClient, and only there")
        if self.columns is not None:
            object.__setattr__(self, "columns", int(single(count, "columns", self.columns)))

    def screen(self, reports: Iterable[Any]) -> Heard:
        """Return the reports that keep to the agreement, and the others with why.

        Parameters
        ----------
        reports : list of reports, or of their JSON texts (``to_json``), which may come from anybody: what is no report is
            rejected too.

        Of honest clients, all together, one is rejected for its noise with a probability of at most 1e-6.
        """
        found, rejected = [], []
        came = list(listing("reports", reports))
        for place, each in enumerate(came):
            report = each
            try:
                report = read_report(each) if isinstance(each, str) else each
                self.check(report, HONEST / len(came))
                found.append((place, report))
            except (ValueError, TypeError, OverflowError) as error:
                name = report.client if isinstance(report, Report) else ""
                rejected.append(Rejection(place, name, str(error)[:300]))
        names = Counter(report.client for _, report in found if report.client)
        for place, report in found:
            if names[report.client] > 1:
                why = f"client has {names[report.client]} reports, of which the server cannot tell the right one"
                rejected.append(Rejection(place, report.client, why))
        kept = [(place, report) for place, report in found if names[report.client] <= 1]
        return Heard([report for _, report in kept], [place for place, _ in kept], sorted(rejected))

    def check(self, report: Any, alpha: float = HONEST) -> None:
        """Raise ValueError for a report that does not keep to the agreement.

        Parameters
        ----------
        report : of the kind that the agreed client sends; alpha : probability in (0, 1) that an honest one is refused.
        """
        alpha, kind = single(probability, "alpha", alpha), KINDS[self.client]
        if not isinstance(report, kind):
            raise ValueError(f"report must be a {kind.__name__}, got {type(report).__name__}")
        if self.sizes is None:
            if report.n > LARGEST:
                raise ValueError(
                    f"n is {report.n}, more than the {LARGEST} that a client may claim by itself; agree on sizes"
                )
        elif report.client not in self.sizes:
            raise ValueError(f"client {shown(report.client)} is none of those agreed on")
        elif report.n != self.sizes[report.client]:
            raise ValueError(f"n is {report.n}, agreed were {self.sizes[report.client]} rows")
        example = self.example(report)
        for name in ("eps", "delta", "adjacency", "trusted", "mechanism", "rho"):
            told, agreed = getattr(report.guarantee, name), getattr(example.guarantee, name)
            if not alike(told, agreed):
                raise ValueError(f"guarantee has {name} {shown(told)}, agreed was {shown(agreed)}")
        settings = sorted((part.name for part in fields(kind) if part.name not in FREE), key=lambda name: name not in CAUSES)
        for name in settings:
            told, agreed = getattr(report, name), getattr(example, name)
            if not alike(told, agreed):
                raise ValueError(f"{name} is {shown(told)}, agreed was {shown(agreed)}")
        for name, told, low, high, reach in ranges(self.own, report, example, alpha):
            slack = ALIKE * (abs(low) + abs(high))
            if not low - reach - slack <= told <= high + reach + slack:
                raise ValueError(
                    f"{name} is {told:.6g}, beyond what data between {low:g} and {high:g} and noise can give "
                    f"(up to {reach:.3g} outside, but with a probability of {alpha:.1g})"
                )
            if (law := getattr(self.own, "law", None)) is not None and report.guarantee.mechanism == "finite-output":
                law.position(told / (1 if isinstance(report, MeanReport) else report.trials))
            if report.guarantee.mechanism == "two-point" and told - (low - reach) > slack and high + reach - told > slack:
                raise ValueError(
                    f"{name} is {told:.6g}, not one of the two answers {low - reach:.6g} and {high + reach:.6g}"
                )

    def example(self, report: Any) -> Any:
        """Return what a client that keeps to the agreement sends for so many rows, all of them 0."""
        if report.n not in self.examples:
            data = [np.zeros(report.n)] if self.columns is None else [np.zeros((report.n, self.columns)), np.zeros(report.n)]
            self.examples[report.n] = self.client(**self.settings).report(*data, np.random.default_rng(0))
        return self.examples[report.n]


def ranges(client: Any, report: Any, example: Any, alpha: float) -> list[tuple[str, float, float, float, float]]:
    """Return (name, number, lowest and highest without noise, how far noise goes beyond) of each number of a report."""
    mechanism, noise = report.guarantee.mechanism, report.noise_variance
    eps, row = report.guarantee.eps, report.guarantee.adjacency == "row"
    if isinstance(report, MeanReport):
        low, high = report.bounds
        share = client.variance_share if report.variance is not None else 0.0
        reach = noise_reach(mechanism, noise, alpha, report.rounding_variance)
        if mechanism == "staircase":
            reach = staircase_reach((high - low) / (report.n if row else 1), (1 - share) * eps, alpha)
        found = [("estimate", report.estimate, low, high, reach)]
        if (report.variance is None) != (example.variance is None):
            raise ValueError("variance is reported against the agreement, or missing")
        if report.variance is not None:
            assert report.variance_noise is not None  # or the report would not have been made
            if not alike(report.variance_noise, example.variance_noise):
                raise ValueError(f"variance_noise is {report.variance_noise:g}, agreed was {example.variance_noise:g}")
            largest = client.variance_bound or (high - low) ** 2 / 4 * report.n / (report.n - 1)
            step = largest / 2**client.bits
            reach = noise_reach(mechanism, report.variance_noise, alpha, step**2)
            if mechanism == "staircase":
                reach = staircase_reach((high - low) ** 2 / report.n if row else client.variance_bound, share * eps, alpha)
            found.append(("variance", report.variance, 0.0, largest, reach))
        return found
    if isinstance(report, RateReport):
        n = report.trials
        answers = n * (np.sqrt(noise / n + 0.25) - 0.5)  # all of them wrong
        reach = answers if mechanism == "answers" else noise_reach(mechanism, noise, alpha, 0.25)
        if mechanism == "staircase":
            reach = staircase_reach(1.0 if row else float(n), eps, alpha)
        return [("value", report.value, 0.0, float(n), float(reach))]
    matrix, largest = np.array(report.products), report.n * report.norm**2
    if len(matrix) != len(example.products):
        raise ValueError(f"products have {len(matrix) - 1} columns of x, agreed were {len(example.products) - 1}")
    numbers = {"the least of products": (matrix.min(), -largest), "the largest of products": (matrix.max(), -largest)}
    numbers["the least diagonal entry of products"] = np.diag(matrix).min(), 0.0
    reach = noise_reach(mechanism, noise, alpha / matrix.size)
    return [(name, float(told), low, largest, reach) for name, (told, low) in numbers.items()]


def noise_reach(mechanism: str, variance: float, alpha: float, rounding: float = 0.0) -> float:
    """How far noise of this variance goes but with a probability of at most alpha; an upper bound.

    2 exp(-t / b) for Laplace noise of scale b, on whole numbers too, where 2 b^2 exceeds the variance by at most a sixth of
    the squared distance between numbers; 2 exp(-t^2 / 2 sigma^2) for Gaussian noise; the ends for answers that are one of
    two; alpha-th part of the variance (Chebyshev) for noise of any other kind.

    Parameters
    ----------
    mechanism : name in a guarantee; variance : number >= 0; alpha : number in (0, 1).
    rounding : number >= 0, a quarter of the squared distance between whole numbers, in the units of `variance`.

    >>> round(noise_reach("discrete-laplace", 2.0, 1e-6), 2), round(noise_reach("gaussian", 1.0, 1e-6), 2)
    (14.51, 5.41)
    """
    if variance == 0:
        return 0.0
    if mechanism == "discrete-laplace":
        return float(np.sqrt(variance / 2 + rounding / 3) * np.log(2 / alpha))
    if mechanism in ("discrete-gaussian", "gaussian"):
        return float(np.sqrt(2 * 1.01 * variance * np.log(2 / alpha)))
    if mechanism == "two-point":  # 1/2 +- sqrt(variance + 1/4) in units of the distance of the two, so nearer than this
        return float(np.sqrt(variance + rounding) - np.sqrt(rounding))
    return float(np.sqrt(variance / alpha))


def staircase_reach(change: float, eps: float, alpha: float) -> float:
    """How far staircase noise goes but with a probability of at most alpha; an upper bound.

    Blocks as long as the largest change fall by e^-eps, so that k of them and more hold at most 2 e^(-k eps).

    Parameters
    ----------
    change : number > 0, the largest change that is hidden, in the units of the report; eps : number > 0.
    alpha : number in (0, 1).

    >>> staircase_reach(2.0, 1.0, 1e-6)
    30.0
    """
    return float(change * np.ceil(np.log(2 / alpha) / min(eps * (1 - 1e-6), LARGEST_EPS)))


def alike(told: Any, agreed: Any) -> bool:
    """Whether two parts of reports are the same, numbers but for rounding."""
    if isinstance(told, tuple) and isinstance(agreed, tuple):
        return len(told) == len(agreed) and all(map(alike, told, agreed))
    if isinstance(told, float) and isinstance(agreed, float):
        return told == agreed or abs(told - agreed) <= ALIKE * abs(agreed)
    return told == agreed
