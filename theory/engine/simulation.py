"""From a claim's point to a Monte Carlo experiment on the model's raw noise terms, and the checks on it.

Belongs here: building experiments of Gaussian clients and reading values off their moments. Does not belong here:
random numbers and decision rules (estimators.montecarlo), closed forms (they come in as `expected`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimators.montecarlo import Check, ClientsExperiment, Moments, SampledExperiment

# Coordinates of a product's factors: parameter noise p_j, estimate noise e_j, message noise l_j of the
# distinguished client, then the aggregates.
P, E, L = 0, 1, 2


@dataclass(frozen=True)
class Simulation:
    """An experiment, the checks of a claim on it, and how to read the claimed value off its moments."""

    experiment: Any
    checks: tuple[Check, ...]
    read: Callable[[Moments], list[tuple[float, float]]]


@dataclass(frozen=True)
class Federation:
    """Concrete clients of several groups in one array each; `start[i]` is the first client of group i."""

    tau2: np.ndarray
    alpha2: np.ndarray
    nu2: np.ndarray
    start: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of clients."""
        return len(self.tau2)

    @property
    def message_variances(self) -> np.ndarray:
        """Variance of every message around the centre."""
        return self.tau2 + self.alpha2 + self.nu2


def federation(sizes: Sequence[int], tau2: Any, alpha2: Any, nu2: Any) -> Federation:
    """Clients of groups with the given sizes; variances are scalars or one per group."""
    sizes = [int(n) for n in sizes]

    def spread(values: Any) -> np.ndarray:
        return np.repeat(np.broadcast_to(np.asarray(values, float), (len(sizes),)), sizes)

    starts = tuple(int(s) for s in np.cumsum([0, *sizes])[:-1])
    return Federation(spread(tau2), spread(alpha2), spread(nu2), starts)


def vector(aggregates: int, **coefficients: float) -> np.ndarray:
    """Coefficients of a linear form: keywords p, e, l, a0, a1, ..."""
    z = np.zeros(3 + aggregates)
    for name, value in coefficients.items():
        z["pel".index(name) if name in ("p", "e", "l") else 3 + int(name[1:])] = value
    return z


def _experiment(fed: Federation, client: int, weights: Any, pairs: Sequence[tuple[Any, Any]]) -> Any:
    return ClientsExperiment(
        tau2=fed.tau2,
        alpha2=fed.alpha2,
        nu2=fed.nu2,
        client=client,
        weights=np.atleast_2d(np.asarray(weights, float)),
        left=np.array([a for a, _ in pairs], float),
        right=np.array([b for _, b in pairs], float),
    )


def mean_squares(
    fed: Federation, client: int, weights: Any, errors: Sequence[Any], expected: Sequence[float],
    labels: Sequence[str] = (),
) -> Simulation:  # fmt: skip
    """Mean squares of linear error forms against their claimed values (relative to the claimed value)."""
    pairs = [(np.asarray(e, float), np.asarray(e, float)) for e in errors]
    return mean_products(fed, client, weights, pairs, expected, labels)


def mean_products(
    fed: Federation, client: int, weights: Any, pairs: Sequence[tuple[Any, Any]], expected: Sequence[float],
    labels: Sequence[str] = (), scales: Sequence[float] = (),
) -> Simulation:  # fmt: skip
    """Means of products of two linear forms against their claimed values."""
    m = len(pairs)
    rows = np.eye(m)
    names = list(labels) or ["mean square"] * m
    sizes = list(scales) or [abs(x) for x in expected]
    checks = tuple(Check(names[i], rows[i], float(expected[i]), float(sizes[i])) for i in range(m))
    return Simulation(_experiment(fed, client, weights, pairs), checks, lambda mo: [mo.linear(rows[i]) for i in range(m)])


def differences(
    fed: Federation, client: int, weights: Any, errors: Sequence[Any], signs: Sequence[float], expected: float,
    scale: float, label: str,
) -> Simulation:  # fmt: skip
    """A signed sum of mean squares (a gap between two risks), with paired draws."""
    pairs = [(np.asarray(e, float), np.asarray(e, float)) for e in errors]
    row = np.asarray(signs, float)
    check = Check(label, row, float(expected), float(scale))
    return Simulation(
        _experiment(fed, client, weights, pairs), (check,), lambda mo: [mo.linear(row)]
    )  # fmt: skip


def optimal_blend(
    fed: Federation, client: int, weights: Any, lam: float, shared: Any = None, target: Any = None
) -> Simulation:
    """The strength lam that blends own estimate and aggregate best: the risk's mean derivative there is zero.

    `shared` is the form of the aggregate as the client uses it (default: aggregate 0 as it is), `target` what is
    to be estimated (default: the client's parameter).
    """
    aggregates = len(np.atleast_2d(weights))
    shared = vector(aggregates, a0=1.0) if shared is None else np.asarray(shared, float)
    target = vector(aggregates, p=1.0) if target is None else np.asarray(target, float)
    local = vector(aggregates, p=1.0, e=1.0)
    return stationary_between(fed, client, weights, local, shared, target, lam)


def stationary_between(
    fed: Federation, client: int, weights: Any, local: Any, shared: Any, target: Any, lam: float
) -> Simulation:
    """As `optimal_blend` for any local form."""
    error, step = np.subtract(local, target), np.subtract(shared, local)
    u = 1.0 if np.isinf(lam) else lam / (1.0 + lam)
    size = _second_moment(fed, client, np.atleast_2d(weights), step)
    check = Check("mean derivative of the risk at the optimum", np.array([1.0, u]), 0.0, size * u * max(1 - u, 1e-3))

    def read(moments: Moments) -> list[tuple[float, float]]:
        (a, _), (b, _) = moments.linear([1.0, 0.0]), moments.linear([0.0, 1.0])
        estimate = -a / b
        # delta method: u_hat = -mean(P0)/mean(P1), lam = u/(1-u)
        _, se = moments.linear([-1.0 / b, -estimate / b])
        return [(estimate / (1 - estimate), se / (1 - estimate) ** 2)]

    return Simulation(_experiment(fed, client, weights, [(error, step), (step, step)]), (check,), read)


def _second_moment(fed: Federation, client: int, weights: np.ndarray, form: np.ndarray) -> float:
    """Exact mean square of a form; only sets the scale that relative errors refer to."""
    on_messages = form[3:] @ weights
    total = 0.0
    for variance, own in ((fed.tau2, form[P]), (fed.alpha2, form[E]), (fed.nu2, form[L])):
        coefficients = on_messages.copy()
        coefficients[client] += own
        total += float(np.sum(coefficients**2 * variance))
    return total


def sample_means(
    draw: Callable[[np.random.Generator, int], np.ndarray], expected: Any, scales: Any = None,
    labels: Sequence[str] = (), draws: int = 1,
) -> Simulation:  # fmt: skip
    """Means of statistics that a vectorised function draws, `draw(gen, reps) -> (reps, M)`, against their claimed values.

    Errors are relative to `scales` (default: the claimed values, so give a scale where one is zero).
    """
    values = np.atleast_1d(np.asarray(expected, float))
    sizes = np.abs(values) if scales is None else np.broadcast_to(np.asarray(scales, float), values.shape)
    rows = np.eye(len(values))
    names = list(labels) or ["mean"] * len(values)
    checks = tuple(Check(n, r, float(v), float(s)) for n, r, v, s in zip(names, rows, values, sizes, strict=True))
    experiment = SampledExperiment(draw, len(values), draws)
    return Simulation(experiment, checks, lambda mo: [mo.linear(r) for r in rows])
