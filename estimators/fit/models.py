"""The models that `borrow fit` knows, and which goes with which data.

Belongs here: one line per model.  The models themselves are in ``estimators``, loaded when they are used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.fit.regressions import least_squares, own_logistic
from estimators.numerics.arrays import Floats
from estimators.tables.client_table import AnyTable, ClientTable, RegressionTable

if TYPE_CHECKING:
    from estimators.tables.client_table import PoissonTable


__all__ = ["DATA", "MODELS", "Model", "arguments", "build", "choose", "exposures", "parse_options"]


@dataclass(frozen=True)
class Model:
    """A model: its name for --model, the data it takes, its class in ``estimators``, what it assumes, options set.

    `own`, for regressions, gives a client's own coefficients and their standard errors from X and y; `covariates`: whether
    `fit` takes them.
    """

    name: str
    data: str
    path: str
    assumes: str
    options: tuple = ()
    own: Callable[[Floats, Floats], tuple[Floats, Floats]] = least_squares
    covariates: bool = False

    def load(self) -> type[Any]:
        """Return the class."""
        import estimators

        return getattr(estimators, self.path)


NORMAL = "estimates are normal around the true values, with known variances"
COUNTS = "each trial of a client succeeds with its own probability"
EVENTS = "events of a client come at its own rate"
REGRESSION = "each client has coefficients of its own, normal around common ones"


def exposures(table: PoissonTable) -> Floats:
    """Return the exposures of a PoissonTable, 1 where none are given."""
    return np.ones(len(table.clients)) if table.exposures is None else table.exposures


# The first of each kind of data is the one that --model auto takes, but for raw rows.
MODELS = (
    Model(
        "normal", "means", "GaussianMeans", f"{NORMAL}; true values are normal around a common centre", covariates=True
    ),
    Model(
        "sample-means", "means", "SampleMeans",
        "rows of a client are normal around its true value, with a variance of its own; "
        "true values are normal around a common centre", covariates=True,
    ),
    Model("point-normal", "means", "PointNormalMeans", f"{NORMAL}; some true values are the centre, the others normal"),
    Model("npmle", "means", "NonparametricMeans", f"{NORMAL}; nothing is assumed about how true values differ"),
    Model("mixture", "means", "MixtureMeans", f"{NORMAL}; true values come from a few normal groups"),
    Model(
        "points", "means", "MixtureMeans", f"{NORMAL}; true values come from a few groups of equals",
        options=(("components", "points"),),
    ),
    Model("beta-binomial", "binomial", "BetaBinomial", f"{COUNTS}; probabilities come from a Beta law"),
    Model(
        "beta-binomial-regression", "binomial", "BetaBinomialRegression",
        f"{COUNTS}; probabilities come from Beta laws around a common centre", covariates=True,
    ),
    Model("npmle", "binomial", "NonparametricRates", f"{COUNTS}; nothing is assumed about how they differ"),
    Model("gamma-poisson", "poisson", "GammaPoisson", f"{EVENTS}; rates come from a Gamma law"),
    Model(
        "gamma-poisson-regression", "poisson", "GammaPoissonRegression",
        f"{EVENTS}; rates come from Gamma laws around a common centre", covariates=True,
    ),
    Model("npmle", "poisson", "NonparametricCounts", f"{EVENTS}; nothing is assumed about how they differ"),
    Model("linear", "regression", "LinearClients", f"linear regressions; {REGRESSION}", own=least_squares),
    Model("logistic", "regression", "LogisticClients", f"logistic regressions; {REGRESSION}", own=own_logistic),
)  # fmt: skip

DATA = {
    "means": lambda table: (table.estimates, table.variances),
    "binomial": lambda table: (table.successes, table.trials),
    "poisson": lambda table: (table.counts, exposures(table)),
    "regression": lambda table: (table.designs, table.targets),
}
"""What `fit` of a model takes, for each kind of data."""


def arguments(kind: Model, table: AnyTable) -> tuple[Any, ...]:
    """Return what `fit` of a model of this kind takes from the table, covariates and groups included."""
    covariates = getattr(table, "covariates", None)
    data = DATA[table.data](table)
    if getattr(table, "groups", None) is not None:
        data = *data, table.groups  # pyright: ignore[reportAttributeAccessIssue]
    if kind.path == "SampleMeans":
        if not isinstance(table, ClientTable) or table.row_variances is None:
            raise ValueError(f"--model {kind.name} needs raw rows, client,value, or client,mean,variance,n")
        data = table.estimates, table.row_variances, table.counts
    if covariates is None:
        return data
    if not kind.covariates:
        names = ", ".join(model.name for model in MODELS if model.data == kind.data and model.covariates)
        raise ValueError(
            f"--model {kind.name} takes no --covariates; {f'use --model {names}' if names else 'leave them out'}"
        )
    return *data, covariates.values


def choose(name: str, table: AnyTable) -> Model:
    """Return the `Model` called `name`, or for "auto" the one that goes with the data in `table`."""
    fitting = [model for model in MODELS if model.data == table.data]
    if name == "auto":
        labels = isinstance(table, RegressionTable) and all(np.isin(y, (0.0, 1.0)).all() for y in table.targets)
        name = "logistic" if labels else fitting[0].name
        if isinstance(table, ClientTable) and table.rows is not None:
            name = "sample-means"
        if getattr(table, "covariates", None) is not None:
            name = next(
                model.name for model in fitting if model.covariates and (model.name == name or not fitting[0].covariates)
            )
    for model in fitting:
        if model.name == name:
            return model
    names = ", ".join(model.name for model in fitting)
    raise ValueError(f"--model {name} does not fit these columns, which hold {table.data}; choose one of {names}")


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """Return the dict of the constructor's arguments in `texts`, each NAME=VALUE.

    >>> parse_options(["k=3", "components=points"])
    {'k': 3, 'components': 'points'}
    """
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise ValueError(f"--with {text}: write it as NAME=VALUE, for instance k=3")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def build(model: Model, options: Mapping[str, Any], seed: int | None = None) -> Any:
    """Return a new instance of `model` with those `options` that are not None."""
    made = model.load()()
    known = made.get_params()
    for name, value in {**dict(model.options), **options}.items():
        if value is None:
            continue
        if name not in known:
            names = ", ".join(known) or "none"
            raise ValueError(f"--model {model.name} has no option {name!r}; its options are: {names}")
        made.set_params(**{name: value})
    if seed is not None and "seed" in known:
        made.set_params(seed=seed)
    return made
