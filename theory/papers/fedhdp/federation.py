"""FedHDP, what the modules on clients have in common: variables, examples, and a client in a federation of two levels.

Belongs here: how a claim's arguments become a federation, and judges of a client's best strength. Does not belong here:
claims, printed formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp
from sympy import Eq, Or

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.papers.shared import (
    ALPHA2,
    GAMMA2,
    GAMMA2_1,
    GAMMA2_2,
    LEVEL,
    N1,
    N2,
    N_NP,
    N_P,
    TAU2,
    concrete_strength,
    derive_strength,
    message_variances,
)

TWO_LEVELS = (N1, N2, ALPHA2, TAU2, GAMMA2_1, GAMMA2_2, LEVEL)
LAM = Variable("lam", "nonnegative", "strength of the pull towards the server's estimate", extreme=False)
OPT_OUT = (N_NP, N_P, ALPHA2, TAU2, GAMMA2)
PAIRS = (
    Variable("N1", "size", "clients in level 1", low=2),
    Variable("N2", "size", "clients in level 2", low=2),
)
ALL = Variable("N", "size", "clients in all", low=2)
TAU2_POSITIVE = Variable("tau2", "positive", "variance of the clients' parameters around the centre")
EXAMPLES = (
    {"N1": 2, "N2": 3, "alpha2": 1, "tau2": "1/2", "gamma2_1": "1/4", "gamma2_2": 1, "level": 2},
    {"N1": 2, "N2": 2, "alpha2": 2, "tau2": 1, "gamma2_1": "1/2", "gamma2_2": 2, "level": 1},
)
OWN_NOISE_EXAMPLES = (EXAMPLES[0], {**EXAMPLES[1], "own_noise": 1})
OPT_OUT_EXAMPLES = (
    {"N_np": 2, "N_p": 3, "alpha2": 1, "tau2": "1/2", "gamma2": 1},
    {"N_np": 1, "N_p": 3, "alpha2": 2, "tau2": 1, "gamma2": 2, "own_noise": 1},
)
ONE_LEVEL_EXAMPLES = ({"N_p": 4, "gamma2": 1}, {"N_p": 2, "gamma2": "1/3"})
OWN_NOISE_TEXT = "own_noise == 0 (the client's own message noise is taken out of the model it gets back) or that noise is 0"


def lists(v: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Sizes and noise of the levels from two-level or opt-out arguments."""
    if "N1" in v:
        return [v["N1"], v["N2"]], [v["gamma2_1"], v["gamma2_2"]]
    return [v["N_np"], v["N_p"]], [sp.Integer(0), v["gamma2"]]


def own_noise_condition(**v: Any) -> Any:
    """The proofs' hidden assumption, at a client's level."""
    noise = lists(v)[1][v["level"] - 1]
    return Or(Eq(v["own_noise"], 0), Eq(noise, 0))


def setting(v: dict[str, Any], level: int | None = None) -> tuple[Any, ...]:
    """Arguments (level, sizes, gamma2s, alpha2, tau2) of the shared derivations."""
    sizes, gamma2s = lists(v)
    return (level or v["level"], sizes, gamma2s, v["alpha2"], v["tau2"])


def proof_terms(v: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """The proofs' sigma_{p_1}^2, sigma_{p_2}^2, m and n: message variances, and the others in levels 1 and 2."""
    s1, s2 = message_variances(*lists(v), v["alpha2"] + v["tau2"])
    return s1, s2, *((v["N1"] - 1, v["N2"]) if v["level"] == 1 else (v["N1"], v["N2"] - 1))


def units(v: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """The paper's N, Upsilon^2, Gamma_1^2, Gamma_2^2."""
    (a, b), (g1, g2) = lists(v)
    return a + b, v["tau2"] / v["alpha2"], a * g1 / v["alpha2"], b * g2 / v["alpha2"]


def simulated_federation(v: dict[str, Any], level: int) -> tuple[simulation.Federation, int, np.ndarray]:
    """Concrete clients, the distinguished one, and the server's optimal weights."""
    sizes, gamma2s = lists(v)
    sizes = [int(n) for n in sizes]
    noise = [float(n * g) for n, g in zip(sizes, gamma2s, strict=True)]
    fed = simulation.federation(sizes, v["tau2"], v["alpha2"], noise)
    w = aggregation.level_weights(sizes, [float(g) for g in gamma2s], v["alpha2"], v["tau2"])
    return fed, fed.start[level - 1], np.repeat(w, sizes)


def returned_model(weights: np.ndarray, client: int, own_noise: int) -> np.ndarray:
    """The server's estimate as the client uses it: with its own noise, or with that noise taken out."""
    return simulation.vector(1, a0=1.0, l=0.0 if own_noise else -weights[client])


def simulated_posterior(fed: simulation.Federation, client: int, level_of: Sequence[int]) -> simulation.Simulation:
    """Weights of a client's Bayes estimate on its own estimate and on one message of each level, and its error variance.

    Entries 0, 1, ..., l of a claim, and l + 1. A weight is read where the risk is stationary in it: own estimate against
    all others, each level's mean against the rest of the others. Every level must have a client besides this one.
    """
    of = np.asarray(level_of)
    others = np.arange(fed.count) != client
    precision = np.where(others, 1 / fed.message_variances, 0.0)
    levels = sorted(set(level_of))
    counts = [int(np.sum(others & (of == i))) for i in levels]
    rows = [precision / precision.sum()]
    for i, n in zip(levels, counts, strict=True):
        rest = np.where(of == i, 0.0, precision)
        rows += [np.where(others & (of == i), 1 / n, 0.0), rest / rest.sum()]
    aggregates, own = len(rows), fed.alpha2[client]
    far = fed.tau2[client] + 1 / precision.sum()
    step = simulation.vector(aggregates, a0=1.0, p=-1.0, e=-1.0)
    u = own / (own + far)
    error = simulation.vector(aggregates, p=-u, e=1 - u, a0=u)
    pairs = [(simulation.vector(aggregates, e=1.0), step), (step, step), (error, error)]
    size = 3 + 2 * len(levels)
    unit = np.eye(size)
    readings: list[simulation.Mean | simulation.Ratio] = [
        simulation.Ratio("own estimate against all others", unit[0] + unit[1], unit[1], float(own + far), 0),
        simulation.Ratio(
            "all others against the own estimate",
            -unit[0],
            unit[1],
            float(own + far),
            lambda value: sum(n * value[1 + i] for i, n in enumerate(counts)),
        ),
    ]
    for k, n in enumerate(counts):
        mean, rest = (simulation.vector(aggregates, **{f"a{1 + 2 * k + j}": 1.0}) for j in (0, 1))
        pairs += [(-rest, mean - rest), (mean - rest, mean - rest)]
        spread = float(np.sum((rows[1 + 2 * k] - rows[2 + 2 * k]) ** 2 * fed.message_variances))

        def share(value: Any, k: int = k, n: int = n) -> float:
            return n * value[1 + k] / sum(m * value[1 + i] for i, m in enumerate(counts))

        readings.append(
            simulation.Ratio(f"level {levels[k]} against the rest", unit[3 + 2 * k], unit[4 + 2 * k], spread, share)
        )
    readings.append(simulation.Mean("error variance", unit[2], 1 + len(levels)))
    experiment = simulation.mean_products(fed, client, rows, pairs).experiment
    return simulation.Simulation(experiment, tuple(readings))


def simulated_strengths(v: dict[str, Any]) -> simulation.Simulation:
    """Best strengths of a client of either level in one federation, entries 0 and 1 of a claim."""
    fed, _, w = simulated_federation(v, 1)
    pairs, sizes = [], []
    for client in fed.start[:2]:
        own = np.arange(fed.count) == client
        back = w * (1.0 if v["own_noise"] else np.where(own, 0.0, 1.0))
        step = {"p": w - own, "e": w - own, "l": back}
        variances = {"p": fed.tau2, "e": fed.alpha2, "l": fed.nu2}
        pairs.append((client, step))
        square = sum(float(np.sum(step[k] ** 2 * variances[k])) for k in step)
        sizes.append(square - (1 - w[client]) * fed.alpha2[client])

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise = {k: np.sqrt(x) * gen.standard_normal((reps, fed.count)) for k, x in
                 (("p", fed.tau2), ("e", fed.alpha2), ("l", fed.nu2))}  # fmt: skip
        columns = []
        for client, step in pairs:
            moved = sum(noise[k] @ step[k] for k in step)
            columns += [noise["e"][:, client] * moved, moved**2]
        return np.column_stack(columns)

    unit = np.eye(4)
    label = "mean derivative of the risk at the optimum, level"
    readings = tuple(
        simulation.Ratio(f"{label} {i + 1}", -unit[2 * i], unit[2 * i] + unit[2 * i + 1], size, i)
        for i, size in enumerate(sizes)
    )
    return simulation.Simulation(simulation.sample_means(draw, count=4).experiment, readings)


def simulate_one_level(**v: Any) -> simulation.Simulation | None:
    """The best strength with one privacy level."""
    N, noise = int(v["N"]), v["N"] * v.get("gamma2", v.get("gamma2_2", 0.0))
    fed = simulation.federation([N], v.get("tau2", 0.0), v["alpha2"], noise)
    w = np.full(N, 1 / N)
    return simulation.optimal_blend(fed, 0, w, returned_model(w, 0, v.get("own_noise", 0)))


def simulated_centre(fed: simulation.Federation) -> simulation.Simulation:
    """Weights of one message of each group in the best estimate of the centre, and its error variance.

    Entries 0, ..., l - 1 of a claim, and l: each group's mean against the rest, where the risk is stationary.
    """
    precision = 1 / fed.message_variances
    ends = [*fed.start[1:], fed.count]
    rows = [precision / precision.sum()]
    for start, end in zip(fed.start, ends, strict=True):
        inside = (np.arange(fed.count) >= start) & (np.arange(fed.count) < end)
        rest = np.where(inside, 0.0, precision)
        rows += [inside / inside.sum(), rest / rest.sum()]
    best = simulation.vector(len(rows), a0=1.0)
    pairs = [(best, best)]
    unit = np.eye(1 + 2 * len(ends))
    readings: list[simulation.Mean | simulation.Ratio] = []
    for k, (start, end) in enumerate(zip(fed.start, ends, strict=True)):
        mean, rest = (simulation.vector(len(rows), **{f"a{1 + 2 * k + j}": 1.0}) for j in (0, 1))
        pairs += [(-rest, mean - rest), (mean - rest, mean - rest)]
        spread = float(np.sum((rows[1 + 2 * k] - rows[2 + 2 * k]) ** 2 * fed.message_variances))

        def share(value: Any, k: int = k, count: int = end - start) -> float:
            return count * value[k]

        label = f"group {k + 1} against the rest"
        readings.append(simulation.Ratio(label, unit[1 + 2 * k], unit[2 + 2 * k], spread, share))
    readings.append(simulation.Mean("error variance", unit[0], len(ends)))
    return simulation.Simulation(simulation.mean_products(fed, 0, rows, pairs).experiment, tuple(readings))


def without_last(found: simulation.Simulation) -> simulation.Simulation:
    """A simulation without its last reading."""
    return simulation.Simulation(found.experiment, found.readings[:-1])


def simulated_two_sources(fed: simulation.Federation, client: int) -> simulation.Simulation:
    """Weights of a client's Bayes estimate on the others' estimate of the centre and on its own, and its error variance."""
    others = 1 / fed.message_variances
    others[client] = 0.0
    far = fed.tau2[client] + 1 / others.sum()
    u = fed.alpha2[client] / (fed.alpha2[client] + far)
    step = simulation.vector(1, a0=1.0, p=-1.0, e=-1.0)
    error = simulation.vector(1, p=-u, e=1 - u, a0=u)
    pairs = [(simulation.vector(1, e=1.0), step), (step, step), (error, error)]
    size = float(fed.alpha2[client] + far)
    label = "mean derivative of the risk in a weight"
    return simulation.Simulation(simulation.mean_products(fed, client, others / others.sum(), pairs).experiment, (
        simulation.Ratio(label, [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], size, 0),
        simulation.Ratio(label, [1.0, 1.0, 0.0], [0.0, 1.0, 0.0], size, 1),
        simulation.Mean("error variance", [0.0, 0.0, 1.0], 2),
    ))  # fmt: skip


def simulated_combination(
    fed: simulation.Federation, sizes: Sequence[int], r: Sequence[float], lam: float, level: int, own_noise: int
) -> simulation.Simulation:
    """Coefficients of the personalised estimate on the own estimate and on a message per level, and what own noise leaves.

    Coefficients are covariances with the noise that they multiply: e_j, and the sum of a level's others' messages.
    """
    client = fed.start[level - 1]
    raw = np.repeat(np.asarray(r, float), [int(n) for n in sizes])
    rows = [raw / raw.sum()]
    index = np.arange(fed.count)
    for start, n in zip(fed.start, sizes, strict=True):
        rows.append(np.where((index >= start) & (index < start + n) & (index != client), 1.0, 0.0))
    u, w, count = lam / (1 + lam), rows[0][client], len(rows)
    theta = simulation.vector(count, a0=1.0, l=0.0 if own_noise else -w)
    t = u * theta + (1 - u) * simulation.vector(count, p=1.0, e=1.0)
    pairs = [(t, simulation.vector(count, e=1.0))]
    named: list[tuple[str, Any, Any]] = [("coefficient on y_j", 0, None)]
    for i in range(1, count):
        pairs.append((t, simulation.vector(count, **{f"a{i}": 1.0})))
        # A sum of m messages of variance s has the covariance (coefficient) m s with what holds them.
        scale = float(np.sum(rows[i] * fed.message_variances))
        named.append((f"level {i}", lambda v, i=i, x=scale: v[i] * x, lambda y, x=scale: y / x))
    if own_noise:
        pairs.append((t, simulation.vector(count, l=u * w)))
        named.append(("own noise left in t", count, None))
    unit = np.eye(len(pairs))
    means = tuple(simulation.Mean(name, row, of, back=back) for (name, of, back), row in zip(named, unit, strict=True))
    return simulation.Simulation(simulation.mean_products(fed, client, rows, pairs).experiment, means)


def others_computed(level: int, sizes: Any, gamma2s: Any, alpha2: float, tau2: float) -> tuple[Any, float]:
    """By the estimators: weight of one message of each level in the estimate of phi from all but one client of `level`,
    and its variance. A level's noise per message stays as it is, though the level has one client less.
    """
    left = [n - (i == level) for i, n in enumerate(sizes, 1)]
    shrunk = [g * n / m if m else 0.0 for n, m, g in zip(sizes, left, gamma2s, strict=True)]
    there = [i for i, m in enumerate(left) if m]
    arguments = [left[i] for i in there], [shrunk[i] for i in there], alpha2, tau2
    weights = dict(zip(there, aggregation.level_weights(*arguments), strict=True))
    return [float(weights.get(i, 0.0)) for i in range(len(left))], float(aggregation.server_mse(*arguments))


def bayes_computed(level: int, sizes: Any, gamma2s: Any, alpha2: float, tau2: float) -> tuple[float, ...]:
    """By the estimators: weights of a client's Bayes estimate on its own and on a message per level, and its variance."""
    weights, variance = others_computed(level, sizes, gamma2s, alpha2, tau2)
    own, rest = aggregation.precision_weights([alpha2, tau2 + variance])
    risk = personalization.bayes_mse(level, sizes, gamma2s, alpha2, tau2)
    return (float(own), *(float(rest) * w for w in weights), float(risk))


def simulate_strength(of: int = 0, **v: Any) -> simulation.Simulation | None:
    """A client's best strength, which is entry `of` of a claim."""
    fed, client, w = simulated_federation(v, v["level"])
    return simulation.optimal_blend(fed, client, w, returned_model(w, client, v.get("own_noise", 0)), of=of)


def strength_oracle(**v: Any) -> Any:
    """Optimal strength by exact search on concrete clients."""
    return concrete_strength(*setting(v), v.get("own_noise", 0))


def strength_computed(**v: Any) -> Any:
    """Optimal strength by the estimators."""
    return personalization.personalization_strength(*setting(v), own_noise=bool(v.get("own_noise", 0)))


def strength_derive(**v: Any) -> Derivation:
    """Optimal strength from the model."""
    return derive_strength(*setting(v), v.get("own_noise", 0))


def positive_sizes(**v: Any) -> dict[Any, Any]:
    """Sizes are at least one."""
    return {v[k]: 1 + sp.Symbol(f"{k}_more", nonnegative=True) for k in ("N_np", "N_p") if k in v}
