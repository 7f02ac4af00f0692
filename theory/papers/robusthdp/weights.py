"""Robust-HDP, Section 3.2: the server's weights on noisy updates, (8).

Belongs here: the least-noise weights for given noise variances. Does not belong here: what other weights lose
(other_weights.py), the variances themselves (update.py, noise_scale.py), estimating them (estimate.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation
from estimators.montecarlo import SampledExperiment
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.robusthdp.model import SIGMA2S, ZERO

LENGTHS = (2, 3)
UNIT = "squared parameters, summed over coordinates"
ASSUMPTIONS = ("given theta^e the clients' updates are independent",)


def inverse_weights(sigma2s: Sequence[Any]) -> tuple[Any, ...]:
    """The weights after (8) as printed."""
    total = sum((1 / s for s in sigma2s), ZERO)
    return tuple(1 / s / total for s in sigma2s)


def normalised(values: Sequence[Any]) -> list[Any]:
    """Weights in proportion to some values."""
    total = sum(values, ZERO)
    return [v / total for v in values]


def weighted_variance(weights: Sequence[Any], sigma2s: Sequence[Any]) -> Any:
    """Variance of a weighted sum of independent updates: the objective of (8)."""
    return sum((w**2 * s for w, s in zip(weights, sigma2s, strict=True)), ZERO)


def concrete(weights: Sequence[Any], sigma2s: Sequence[Any]) -> Any:
    """Variance of a weighted sum, from the clients' noise terms one by one."""
    clients = Clients([ZERO] * len(sigma2s), [ZERO] * len(sigma2s), sigma2s)
    total = sum((fraction(w) for w in weights), fraction(ZERO))
    shares = [fraction(w) / total for w in weights]
    return rational(clients.mse(clients.weighted(shares, clients.message), clients.centre))


def concrete_best(sigma2s: Sequence[Any]) -> tuple[list[Any], Any]:
    """Weights and variance of the posterior mean of a common centre, by a Schur complement: the best unbiased average."""
    clients = Clients([ZERO] * len(sigma2s), [ZERO] * len(sigma2s), sigma2s)
    weights, variance = clients.posterior(clients.centre, clients.message)
    return [rational(w) for w in weights], rational(variance)


def draw_noise(gen: np.random.Generator, reps: int, sigma2s: Sequence[float]) -> np.ndarray:
    """Noise of each client's update, one row per replicate."""
    return np.sqrt(np.asarray(sigma2s)) * gen.standard_normal((reps, len(sigma2s)))


# --- the optimum --------------------------------------------------------------------------------------------------------


def _stationary(d: Derivation, sigma2s: Sequence[Any]) -> list[Any]:
    """The weights where the derivative of (8) with the last weight eliminated is zero."""
    free = sp.symbols(f"w1:{len(sigma2s)}", real=True)
    weights = [*free, 1 - sum(free)]
    objective = d.say("Variance with the last weight put in as 1 minus the others:", weighted_variance(weights, sigma2s))
    d.say("""It is a quadratic with the Hessian 2 diag(sigma_i^2) + 2 sigma_l^2, positive definite: one stationary point, the
        unique minimum over all real weights. Setting the derivatives to zero gives""")  # fmt: skip
    (found,) = sp.linsolve([sp.diff(objective, w) for w in free], *free)
    best = [simplest(w) for w in found]
    return d.say("", [*best, simplest(1 - sum(best))])


def _weights_derive(sigma2s: Sequence[Any]) -> Derivation:
    d = Derivation()
    best = _stationary(d, sigma2s)
    return d.conclude("All are positive, so w >= 0 does not bind:", tuple(best))


def _weights_simulate(sigma2s: Sequence[float], free: int | None = None) -> simulation.Simulation:
    """The best weight of each of the first `free` clients in a blend with the rest, combined in proportion to precision.

    For x and the rest's mean y it is ``-E[y (x - y)] / E[(x - y)^2]``, where the derivative of (8) is zero.
    """
    count = len(sigma2s)
    rows = np.arange(count if free is None else free)
    rest = np.array([[0.0 if k == i else 1 / s for k, s in enumerate(sigma2s)] for i in rows])
    rest /= rest.sum(axis=1, keepdims=True)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = draw_noise(gen, reps, sigma2s)
        others = x @ rest.T
        move = x[:, rows] - others
        return np.concatenate([-others * move, move**2], axis=1)

    sizes = np.asarray(sigma2s)[rows] + rest**2 @ np.asarray(sigma2s)
    unit = np.eye(2 * len(rows))
    readings = (simulation.Ratio("derivative at the optimum", unit[i], unit[len(rows) + i], sizes[i], i) for i in rows)
    return simulation.Simulation(SampledExperiment(draw, 2 * len(rows), count), tuple(readings))


_EXAMPLES = ({"sigma2s": [1, 2, 4]}, {"sigma2s": [3, "1/2"]})

register(
    Claim(
        id="robusthdp:eq8:weights",
        title="Least-noise weights",
        place="Section 3.2, (8) and the text after it",
        statement="""The least variance of the aggregated update under w_i >= 0, sum w_i = 1 is reached at weights inverse to
            the updates' variances.""",
        latex=r"""\min_{w_i \geq 0} \sum_{i \in \mathcal{S}^e} w_i^2 \sigma_i^2, \quad \text{s.t.} \quad
            \sum_{i \in \mathcal{S}^e} w_i = 1:\qquad w_i^* = \frac{1/\sigma_i^2}%
            {\sum_{j \in \mathcal{S}^e} 1/\sigma_j^2}""",
        kind="optimum",
        variables=(SIGMA2S,),
        examples=_EXAMPLES,
        printed=inverse_weights,
        derive=_weights_derive,
        oracle=lambda sigma2s: tuple(concrete_best(sigma2s)[0]),
        computed=lambda sigma2s: aggregation.precision_weights(sigma2s),
        simulate=_weights_simulate,
        model=("BestWeights",),
        assumes={"independence": "all", "law": "moments"},
        unit="dimensionless",
        assumptions=ASSUMPTIONS,
        remark="""Negative weights would not help either (robusthdp:eq8:unique). (8) minimises noise, not noise relative to
            the step that the server makes (robusthdp:eq8:signal). It needs independent updates; common noise would
            change it.""",
    )
)


def _unique_objective(x: Any, sigma2s: Sequence[Any]) -> Any:
    free = list(x) if isinstance(x, (tuple, list)) else [x]
    return weighted_variance([*free, 1 - sum(free)], sigma2s)


def _but_last(value: Any) -> Any:
    """All entries but the last, a single one as itself."""
    head = tuple(value)[:-1]
    return head if len(head) > 1 else head[0]


def _unique_derive(sigma2s: Sequence[Any]) -> Derivation:
    d = Derivation()
    return d.conclude("The free weights:", _but_last(_stationary(d, sigma2s)))


register(
    Claim(
        id="robusthdp:eq8:unique",
        title="Least-noise weights over all real weights",
        place="Section 3.2, text after (8): 'a unique solution'",
        statement="""With the last weight put in as 1 minus the others, these free weights (all clients but the last)
            minimise the variance over all real numbers, and are the only ones that do.""",
        latex=r"\text{which has a unique solution } w_i^* = \frac{1/\sigma_i^2}{\sum_{j \in \mathcal{S}^e} 1/\sigma_j^2}",
        kind="optimum",
        variables=(SIGMA2S,),
        examples=_EXAMPLES,
        printed=lambda sigma2s: _but_last(inverse_weights(sigma2s)),
        derive=_unique_derive,
        oracle=lambda sigma2s: _but_last(concrete_best(sigma2s)[0]),
        computed=lambda sigma2s: aggregation.precision_weights(sigma2s)[:-1],
        simulate=lambda sigma2s: _weights_simulate(sigma2s, len(sigma2s) - 1),
        model=("BestWeights",),
        objective=_unique_objective,
        decision="real",
        assumes={"independence": "all", "law": "moments"},
        unit="dimensionless",
        assumptions=ASSUMPTIONS,
        related=("robusthdp:eq8:weights",),
    )
)


def _minvar_derive(sigma2s: Sequence[Any]) -> Derivation:
    d = Derivation()
    u = sp.Symbol("u", real=True)
    value = d.say("Start with one client's variance and merge the others in one by one:", sigma2s[0])
    for s in sigma2s[1:]:
        risk = (1 - u) ** 2 * value + u**2 * s
        (best,) = sp.solve(sp.diff(risk, u), u)
        value = d.say("Weights 1-u and u on what is merged and on the next client; the least variance is",
                      simplest(risk.subs(u, best)))  # fmt: skip
    return d.conclude("Together:", value)


register(
    Claim(
        id="robusthdp:eq8:minvar",
        title="Least noise of the aggregated update",
        place="Section 3.2, (8) at its solution",
        statement="The objective of (8) at the printed weights is the least variance that weights adding to one can reach.",
        latex=r"""\text{Var}\left(\sum_{i \in \mathcal{S}^e} w_i \Delta \tilde{\boldsymbol{\theta}}_i^e |
            \boldsymbol{\theta}^e\right) = \sum_{i \in \mathcal{S}^e} w_i^2 \sigma_i^2,\quad w_i^* =
            \frac{1/\sigma_i^2}{\sum_{j \in \mathcal{S}^e} 1/\sigma_j^2}""",
        kind="identity",
        variables=(SIGMA2S,),
        examples=_EXAMPLES,
        printed=lambda sigma2s: weighted_variance(inverse_weights(sigma2s), sigma2s),
        derive=_minvar_derive,
        oracle=lambda sigma2s: concrete_best(sigma2s)[1],
        computed=lambda sigma2s: aggregation.least_variance(sigma2s),
        simulate=lambda sigma2s: simulation.sample_means(
            lambda gen, reps: (draw_noise(gen, reps, sigma2s) @ aggregation.precision_weights(sigma2s))[:, None] ** 2,
            labels=("squared noise",), draws=len(sigma2s),
        ),
        model=("Value(Server)", "LeastCentre"),
        assumes={"independence": "all", "law": "moments"},
        unit=UNIT,
        assumptions=ASSUMPTIONS,
        related=("robusthdp:eq8:weights",),
        remark="It is 1 / sum(1/sigma_i^2): an additional client always helps, however noisy.",
    )
)  # fmt: skip


def _removal_derive(sigma2s: Sequence[Any]) -> Derivation:
    d = Derivation()
    kept = d.say("Best weights on all clients but the last leave the variance",
                 weighted_variance(inverse_weights(sigma2s[:-1]), sigma2s[:-1]))  # fmt: skip
    u = sp.Symbol("u", real=True)
    risk = (1 - u) ** 2 * kept + u**2 * sigma2s[-1]
    (best,) = sp.solve(sp.diff(risk, u), u)
    d.say("Blending the last client in, with weight u, leaves least", simplest(risk.subs(u, best)))
    return d.conclude("Variance without it over variance with it:", simplest(kept / risk.subs(u, best)))


def _removal_oracle(sigma2s: Sequence[Any]) -> Any:
    return concrete_best(sigma2s[:-1])[1] / concrete_best(sigma2s)[1]


def _removal_simulate(sigma2s: Sequence[float]) -> simulation.Simulation:
    few, all_of_them = (aggregation.precision_weights(x) for x in (sigma2s[:-1], sigma2s))
    unit = np.eye(2)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = draw_noise(gen, reps, sigma2s)
        return np.stack([(x[:, :-1] @ few) ** 2, (x @ all_of_them) ** 2], axis=1)

    size = 1 / float(np.sum(1 / np.asarray(sigma2s, float)))
    reading = simulation.Ratio("squared noise without over with", unit[0], unit[1], size)
    return simulation.Simulation(SampledExperiment(draw, 2, len(sigma2s)), (reading,))


register(
    Claim(
        id="robusthdp:eq8:removal",
        title="Removing a client raises the noise",
        place="Abstract: 'removing the clients with low memory budgets'",
        statement="""Removing the clients with low memory budgets leads to lower utility. Judged on the noise: the least
            variance of the aggregated update without a client, however noisy, is at least that with it (their ratio at
            least 1).""",
        latex=r"""\text{removing the clients with low memory budgets will lead to lower utility and fairness problems, due
            to high DP noise and/or data loss}""",
        kind="order",
        variables=(SIGMA2S,),
        examples=_EXAMPLES,
        printed=lambda: sp.Integer(1),
        relation=">=",
        derive=_removal_derive,
        oracle=_removal_oracle,
        computed=lambda sigma2s: aggregation.least_variance(sigma2s[:-1]) / aggregation.least_variance(sigma2s),
        simulate=_removal_simulate,
        assumes={"independence": "all"},
        tight=Tight(at={"sigma2s": [1, 2, 4]}, ratio="6/7"),
        unit="dimensionless",
        assumptions=ASSUMPTIONS,
        related=("robusthdp:eq8:minvar",),
        remark="""A bound that is only approached, by a client of endless noise. Weights in proportion to N_i instead do get
            better without a client that is noisy enough.""",
        model=("Value(Optimum, Optimum)",),
    )
)

__all__ = ["ASSUMPTIONS", "LENGTHS", "UNIT", "concrete", "concrete_best", "draw_noise", "inverse_weights", "normalised",
           "weighted_variance"]  # fmt: skip
