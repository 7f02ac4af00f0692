"""What a fit found, as one row per client (and coefficient), the same for all models.

Belongs here: columns and the numbers that sum them up.  Words are in ``report``, files in ``command``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from estimators.fit.models import exposures
from estimators.numerics.arrays import ArrayLike, Bools, Floats

if TYPE_CHECKING:
    from estimators.decisions.checking import PriorCheck
    from estimators.decisions.discovery import Discoveries
    from estimators.decisions.ranking import Ranks
    from estimators.fit.models import Model
    from estimators.normal_means.prior_inference import Heterogeneity


__all__ = ["Outcome", "own_estimates", "to_csv"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fitted table.  Arrays have one entry per row; numbers that do not exist are NaN.

    `row_clients` names the client of each row; `coefficient` the coefficient, for regressions only.  `own` is what the
    client knows by itself, `error` its standard error if the model is right, `weight` the part of `own` in `mean` (for
    regressions its average over a client's coefficients, NaN for those that all clients share), None where the model has no
    such part; `interval` how `low` and `high` were made, a method of ``ClientModel.interval``.  `ranks`, `discoveries` and
    `check` are there if `decided` asked for them.
    """

    model: Any
    kind: Model
    clients: tuple
    n: np.ndarray | None
    own: np.ndarray
    error: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float
    weight: np.ndarray | None = None
    coefficients: tuple = ()
    privacy: tuple = ()
    budget: dict | None = None  # what was spent, of private fits that were charged
    covariates: tuple = ()  # their names
    grouped: str = ""  # the column of clients' groups
    measured: str = ""  # the column that tells what true values are of, where the user named one
    interval: str = "posterior"
    ranks: Ranks | None = None
    largest_first: bool = True
    discoveries: Discoveries | None = None
    check: PriorCheck | None = None
    notes: list = field(default_factory=list)

    @classmethod
    def of(
        cls,
        kind: Model,
        model: Any,
        clients: Iterable[str],
        own: ArrayLike,
        error: ArrayLike,
        n: np.ndarray | None,
        level: float,
        coefficients: Sequence[str] = (),
        interval: str | None = None,
        **more: Any,
    ) -> Self:
        """Read the posterior off the fitted `model`; `own`, `error` and its arrays have clients on axis 0."""
        low, high = model.interval(level, interval)
        shape = np.shape(model.posterior_mean_)

        def flat(values):
            return np.broadcast_to(np.asarray(values, float), shape).reshape(-1)

        weight = getattr(model, "weights_", None)
        if weight is None and hasattr(model, "borrowed_"):
            weight = 1 - np.asarray(model.borrowed_, float)
            weight = weight[:, None] if weight.ndim < len(shape) else weight
            shared = np.isin(np.arange(shape[-1]), model.get_params().get("shared", ()))
            weight = np.where(shared, np.nan, weight) if shared.any() else weight
        return cls(
            model, kind, tuple(clients), n, flat(own), flat(error), flat(model.posterior_mean_), flat(model.posterior_sd_),
            flat(low), flat(high), level, None if weight is None else flat(weight), tuple(coefficients),
            interval=interval or model.default_interval, **more,
        )  # fmt: skip

    def decided(
        self, *, rank: bool = False, largest_first: bool = True, alpha: float | None = None, at: float | None = None,
        check: bool = False, seed: int = 0,
    ) -> Self:  # fmt: skip
        """Return the outcome with what was asked for: ranks, discoveries at the rate `alpha`, a check of the prior.

        All of it follows from the fitted model: from reports alone, if the fit was private.
        """
        from estimators.decisions import discoveries, prior_check

        return replace(
            self,
            ranks=self.model.rank(self.level, largest_first=largest_first, seed=seed) if rank else None,
            largest_first=largest_first,
            discoveries=None if alpha is None else discoveries(self.model, alpha, at),
            check=prior_check(self.model, seed=seed) if check else None,
        )

    @property
    def heard(self) -> Bools:
        """Rows of clients who know something by themselves: finite own estimates, or any rows of a regression."""
        if self.coefficients and self.n is not None:  # regressions have counts of rows
            return np.repeat(self.n, self.per_client) > 0
        return np.isfinite(self.own) & np.isfinite(self.error)

    @property
    def shared(self) -> Bools:
        """Rows of coefficients that all clients share."""
        return np.zeros(len(self.mean), bool) if self.weight is None else np.isnan(self.weight)

    @property
    def per_client(self) -> int:
        """Rows of each client."""
        return max(1, len(self.coefficients))

    def columns(self) -> dict[str, list[Any]]:
        """Return a dict of lists, one entry per row, with None for what does not exist."""
        repeat = self.per_client
        columns = {"client": [client for client in self.clients for _ in range(repeat)]}
        if self.coefficients:
            columns["coefficient"] = list(self.coefficients) * len(self.clients)
        columns["n"] = [None] * len(self.mean) if self.n is None else np.repeat(self.n, repeat).tolist()
        if self.privacy:
            columns["guarantee"] = self.promises()
        for name, values in {
            "estimate": self.own,
            "standard_error": self.error,
            "shrunken": self.mean,
            "posterior_sd": self.sd,
            "weight_on_own": self.weight,
            "low": self.low,
            "high": self.high,
            **({} if self.predicted is None else {"predicted": self.predicted}),
        }.items():
            columns[name] = [None] * len(self.mean) if values is None else finite_list(values)
        return columns | self.decisions()

    def promises(self) -> list[str]:
        """Return each row's guarantee in a few words, of private fits."""
        from estimators.private.provenance import in_short

        return [in_short(each) for each in self.model.guarantees_ for _ in range(self.per_client)]

    def provenance(self) -> dict[str, Any] | None:
        """Return what the guarantees of a private fit rest on, or None."""
        from estimators.private.provenance import provenance_of

        return provenance_of(self.model.guarantees_) if self.privacy else None

    def decisions(self) -> dict[str, list[Any]]:
        """Return the columns that `decided` adds."""
        columns: dict[str, list[Any]] = {}
        if self.ranks is not None:
            for name, values in {
                "expected_rank": self.ranks.expected,
                "rank_low": self.ranks.low,
                "rank_high": self.ranks.high,
                "chance_first": self.ranks.top,
            }.items():
                columns[name] = finite_list(values.ravel())
        if self.discoveries is not None:
            columns["side"] = self.sides()
            columns["chance_wrong"] = finite_list(self.discoveries.error.ravel())
            columns["q_value"] = finite_list(self.discoveries.q_value.ravel())
            columns["discovery"] = self.discoveries.selected.ravel().tolist()
        return columns

    def sides(self) -> list[str]:
        """Return for each row on which side of the value of `discoveries` it more likely is."""
        assert self.discoveries is not None
        names = {1.0: "above", -1.0: "below"}
        return [names.get(way, "neither") for way in self.discoveries.direction.ravel().tolist()]

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per row."""
        columns = self.columns()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def prior(self) -> dict[str, Any]:
        """Return the prior as plain values, without infinities."""
        return plain(self.model.prior_summary())

    def groups(self) -> list[tuple[float, float, float]]:
        """Return (share, mean, sd) of each group of clients in a prior of groups, the largest first; else []."""
        prior = self.model.prior_summary()
        if "probabilities" in prior:
            found = zip(prior["probabilities"], prior["means"], prior["sds"], strict=True)
        elif "spike_weight" in prior:
            slab = 1 - prior["spike_weight"], prior["mean"], prior["slab_sd"]
            found = [(prior["spike_weight"], prior["mean"], 0.0), slab]
        else:
            found = []
        return sorted((group for group in found if group[0] > 0), reverse=True)

    @cached_property
    def prior_intervals(self) -> dict[str, Any]:
        """Return the intervals for the prior that the model has, slopes by the names of their covariates."""
        found = self.model.prior_interval(self.level)
        if "slopes" in found:
            found = {**found, "slopes": dict(zip(self.covariates, found["slopes"], strict=True))}
        return found

    @cached_property
    def heterogeneity(self) -> Heterogeneity | None:
        """Return how much estimates differ beyond their noise, for the models of ``prior_inference`` and enough clients."""
        if not hasattr(self.model, "coefficient_covariance_") or self.heard.sum() <= self.model.coefficient_slopes.shape[1]:
            return None
        from estimators.normal_means.prior_inference import heterogeneity

        return heterogeneity(self.model)

    @property
    def centre(self) -> float:
        """Mean of the prior, of models with one number per client."""
        return float(self.model.prior_summary()["mean"])

    @property
    def predicted(self) -> Floats | None:
        """What covariates predict of each client, to which its estimate is drawn, or None without covariates."""
        return self.model.prior_mean_ if self.covariates else None

    @property
    def spread(self) -> float:
        """Standard deviation of the prior, of models with one number per client."""
        return float(self.model.prior_summary()["sd"])

    def summary(self) -> dict[str, Any]:
        """Return what was borrowed, as plain values."""
        model, known = self.model, np.isfinite(self.own)
        moved = np.where(known & ~self.shared, np.abs(self.mean - self.own), -1.0)
        most = int(moved.argmax())
        facts = {
            "model": self.kind.name,
            "data": self.kind.data,
            "n_clients": len(self.clients),
            "prior": self.prior(),
            "level": self.level,
            "interval": self.interval,
            "log_likelihood": float(model.log_likelihood_),
            "converged": bool(model.converged_),
            "moved_most": self.clients[most // self.per_client],
        }
        if self.coefficients:
            facts["moved_most_coefficient"] = self.coefficients[most % self.per_client]
        else:
            facts |= {"centre": self.centre, "spread": self.spread}
        if self.weight is not None:
            weight = self.weight[~self.shared & (self.heard if self.heard.any() else True)]
            facts |= {"smallest_weight_on_own": float(weight.min()), "largest_weight_on_own": float(weight.max())}
        if not self.coefficients and np.isfinite(self.error).all() and np.isfinite(self.sd).all():
            facts["expected_squared_error_before"] = float((self.error**2).sum())
            facts["expected_squared_error_after"] = float((self.sd**2).sum())
        facts["prior_intervals"] = self.prior_intervals
        told = self.heterogeneity
        if told is not None:
            facts["heterogeneity"] = told._asdict()
        if self.ranks is not None:
            facts["ranks"] = {"largest_first": self.largest_first, "draws": self.ranks.draws}
        if self.discoveries is not None:
            facts["discoveries"] = {
                "alpha": self.discoveries.alpha,
                "at": self.discoveries.at,
                "number": int(self.discoveries.selected.sum()),
                "expected_share_wrong": self.discoveries.false_rate,
            }
        if self.check is not None:
            facts["prior_check"] = {name: value for name, value in self.check._asdict().items() if name != "pit"}
        told = {"privacy": list(self.privacy), "provenance": self.provenance(), "budget": self.budget}
        return plain({**facts, **told, "notes": self.notes})


def plain(value: Any) -> Any:
    """Return `value` with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def finite_list(values: Floats) -> list[float | None]:
    """Return an array as a list, with None for what is not finite."""
    if np.isfinite(values).all():
        return values.tolist()
    return [value if finite else None for value, finite in zip(values.tolist(), np.isfinite(values), strict=True)]


def own_estimates(table: Any, model: Any, kind: Model) -> tuple[Floats, Floats, np.ndarray | None]:
    """Return what each client knows by itself and its standard error, clients on axis 0, and their observations.

    Errors of rates are those that the fitted model expects: a client with 0 successes of 3 is not sure of 0.
    """
    mean, sd = np.asarray(model.posterior_mean_), np.asarray(model.posterior_sd_)
    with np.errstate(divide="ignore", invalid="ignore"):
        if table.data == "means":  # what rows tell about their variances is in the model
            return table.estimates, np.sqrt(getattr(model, "expected_variances_", table.variances)), table.counts
        if table.data == "binomial":
            error = np.sqrt(np.maximum(mean * (1 - mean) - sd**2, 0.0) / table.trials)
            return table.successes / table.trials, error, table.trials
        if table.data == "poisson":
            exposure = exposures(table)
            return table.counts / exposure, np.sqrt(mean / exposure), table.exposures
    n = np.array([len(y) for y in table.targets])
    pairs = [kind.own(*pair) for pair in zip(table.designs, table.targets, strict=True)]
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs]), n


def to_csv(outcome: Outcome) -> bytes:
    """Return the content of estimates.csv, numbers with all their digits."""
    columns = outcome.columns()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()
