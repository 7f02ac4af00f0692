"""FedHDP, the server: Lemmas 1 and 2.

Belongs here: claims on the global estimate with two privacy levels. Does not belong here: the ratio r and opting out
(ratio.py), what other weights lose (gaps.py), what clients make of it (estimates.py, strength.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import CENTRE, Group, posterior
from theory.engine.registry import register
from theory.papers.fedhdp.federation import simulated_centre
from theory.papers.shared import (
    GAMMA2_1,
    GAMMA2_2,
    MODEL,
    N1,
    N2,
    ONE,
    SIGMA2_C,
    concrete,
    message_variances,
    ratio_objective,
    scatter,
    weights_objective,
)

SIGMA2S = Variable("sigma2s", "positive", "variance of each observation", lengths=(1, 2, 3))
TWO_LEVELS = (N1, N2, SIGMA2_C, GAMMA2_1, GAMMA2_2)
TWO_LEVEL_EXAMPLES = (
    {"N1": 2, "N2": 3, "sigma2_c": 2, "gamma2_1": "1/4", "gamma2_2": 1},
    {"N1": 1, "N2": 4, "sigma2_c": 1, "gamma2_1": 0, "gamma2_2": "1/2"},
)


def simulate_server(sizes: Any, sigma2_c: Any, gamma2s: Any, weights: Any) -> simulation.Simulation:
    """The server's squared error with given weights per level; each message has its own three noise terms."""
    noise = [n * g for n, g in zip(sizes, gamma2s, strict=True)]
    fed = simulation.federation(sizes, sigma2_c / 2, sigma2_c / 2, noise)
    per_client = np.repeat(np.asarray(weights, float), [int(n) for n in sizes])
    return simulation.mean_squares(fed, 0, per_client, [simulation.vector(1, a0=1.0)], ["server MSE"])


# --- Lemma 1 -------------------------------------------------------------------------------------------------------


def _lemma1_printed(sigma2s: list[Any]) -> tuple[Any, ...]:
    variance = 1 / sum(1 / s for s in sigma2s)
    return (variance, *(variance / s for s in sigma2s))


def _lemma1_derive(sigma2s: list[Any]) -> Derivation:
    d = Derivation()
    d.say("Observation i is psi_i = phi + noise of variance sigma2_i, independent; phi has a flat prior.")
    seen = [Group(f"observation {i}", ONE, s, sp.Integer(0), sp.Integer(0)) for i, s in enumerate(sigma2s, 1)]
    best = posterior(CENTRE, [g.messages() for g in seen])
    d.say(
        """Under a flat prior the posterior mean is the linear combination whose weights add to one and whose error has the
        least variance. The normal equations with that constraint give the weights""",
        best.weights,
    )
    return d.conclude("The error variance, then the weights:", (best.variance, *best.weights))


def _lemma1_oracle(sigma2s: list[Any]) -> tuple[Any, ...]:
    clients = Clients(sigma2s, [0] * len(sigma2s), [0] * len(sigma2s))
    weights, variance = clients.posterior(clients.centre, clients.message)
    return (rational(variance), *map(rational, weights))


def _lemma1_computed(sigma2s: list[float]) -> tuple[float, ...]:
    w = aggregation.precision_weights(sigma2s)
    return (float(w[0] * sigma2s[0]), *map(float, w))


def _lemma1_simulate(sigma2s: list[float]) -> simulation.Simulation:
    fed = simulation.federation([1] * len(sigma2s), sigma2s, 0.0, 0.0)
    return simulation.best_combination(fed, "posterior variance")


register(
    Claim(
        id="fedhdp:lemma1",
        title="Posterior of the centre from independent observations",
        place="Appendix A.2, Lemma 1, (23)-(24)",
        statement="""Given independent Gaussian observations of phi and a flat prior, phi is Gaussian around the
            precision-weighted mean, with variance one over the total precision.""",
        latex=r"""\Sigma_{\phi}=\Big(\sum_{i\in[N]}\Sigma_i^{-1}\Big)^{-1},\quad
            \phi=\Sigma_{\phi}\sum_{i\in[N]}\Sigma_i^{-1}\psi_i+p_{\phi}""",
        kind="identity",
        variables=(SIGMA2S,),
        examples=({"sigma2s": [1, 2, 4]}, {"sigma2s": ["1/2", 3]}),
        printed=_lemma1_printed,
        derive=_lemma1_derive,
        oracle=_lemma1_oracle,
        computed=_lemma1_computed,
        simulate=_lemma1_simulate,
        model=("LeastCentre", "BestWeights"),
        unit="variance, then weights",
        assumes={"prior": "flat", "independence": "given the centre"},
        remark="Verified for scalar observations, up to 3 of them; in A.1 all covariances are multiples of I.",
    )
)


# --- Lemma 2 -------------------------------------------------------------------------------------------------------


def two_levels(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[list[Any], list[Any]]:
    """Sizes and message variances of both levels."""
    return [N1, N2], message_variances([N1, N2], [gamma2_1, gamma2_2], sigma2_c)


def _two_level_derivation(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Derivation, Any]:
    d = Derivation()
    s1, s2 = scatter([N1, N2], [gamma2_1, gamma2_2], sigma2_c)
    d.say("Messages of level i scatter around phi with variance s_i = sigma2_c + N_i gamma2_i:", (s1, s2))
    groups = [
        Group("level 1", N1, s1, sp.Integer(0), sp.Integer(0)),
        Group("level 2", N2, s2, sp.Integer(0), sp.Integer(0)),
    ]
    d.say("Messages of a level are exchangeable, so the best weights are equal within it: condition on the level sums.")
    best = posterior(CENTRE, [g.messages() for g in groups])
    d.say("Weight of one message of each level in the posterior mean:", best.weights)
    return d, best


def _weights_derive(**v: Any) -> Derivation:
    d, best = _two_level_derivation(**v)
    return d.conclude("These are the Bayes-optimal server weights:", tuple(best.weights))


def _rstar_derive(**v: Any) -> Derivation:
    d, best = _two_level_derivation(**v)
    return d.conclude("The ratio of a level-2 to a level-1 weight is", simplest(best.weights[1] / best.weights[0]))


def _cov_derive(**v: Any) -> Derivation:
    d, best = _two_level_derivation(**v)
    return d.conclude("and the variance of the error is", best.variance)


def two_level_oracle(**v: Any) -> tuple[Any, Any, Any]:
    """Weights of a message of each level in the posterior mean of the centre, and its variance, on concrete clients."""
    clients, levels = concrete([v["N1"], v["N2"]], [v["gamma2_1"], v["gamma2_2"]], v["sigma2_c"] / 2, v["sigma2_c"] / 2)
    weights, variance = clients.posterior(clients.centre, clients.message)
    return rational(weights[0]), rational(weights[levels.index(2)]), rational(variance)


def ratio_oracle(**v: Any) -> Any:
    """Weight of a message of level 2 over that of one of level 1, on concrete clients."""
    first, second, _ = two_level_oracle(**v)
    return second / first


def _ratio_printed(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> Any:
    return (sigma2_c + N1 * gamma2_1) / (sigma2_c + N2 * gamma2_2)


def _weights_printed(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Any, Any]:
    r = _ratio_printed(N1, N2, sigma2_c, gamma2_1, gamma2_2)
    return 1 / (N1 + N2 * r), r / (N1 + N2 * r)


def _cov_printed(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> Any:
    N, rho1 = N1 + N2, N1 / (N1 + N2)
    top = (sigma2_c + N1 * gamma2_1) * (sigma2_c + N2 * gamma2_2)
    return (top / (sigma2_c + (1 - rho1) * N1 * gamma2_1 + rho1 * N2 * gamma2_2)) / N


def float_weights(N1: float, N2: float, sigma2_c: float, gamma2_1: float, gamma2_2: float) -> tuple[float, ...]:
    """Weights of a message of each level by the estimators."""
    return tuple(aggregation.level_weights([N1, N2], [gamma2_1, gamma2_2], sigma2_c, 0.0))


def _level_means(N1: int, N2: int, sigma2_c: float, gamma2_1: float, gamma2_2: float) -> tuple[Any, float, float]:
    """E[x1 (x2 - x1)] and E[x2 (x2 - x1)] of the two levels' mean messages, simulated; minus the first, and the second."""
    fed = simulation.federation([N1, N2], sigma2_c / 2, sigma2_c / 2, [N1 * gamma2_1, N2 * gamma2_2])
    rows = np.repeat(np.eye(2) / [N1, N2], [N1, N2], axis=1)
    move = simulation.vector(2, a0=-1.0, a1=1.0)
    products = [(simulation.vector(2, a0=1.0), move), (simulation.vector(2, a1=1.0), move)]
    sizes = sigma2_c / N1 + gamma2_1, sigma2_c / N2 + gamma2_2
    return simulation.mean_products(fed, 0, rows, products).experiment, *sizes


def _weights_simulate(**v: Any) -> simulation.Simulation:
    # The risk is stationary on the plane of weights that add to one: moving weight between levels does not help.
    experiment, first, second = _level_means(**v)
    label = "mean derivative of the risk in a level's share"
    return simulation.Simulation(experiment, (
        simulation.Ratio(label, [0.0, 1.0], [-1.0, 1.0], first + second, lambda w: v["N1"] * w[0], lambda x: x / v["N1"]),
        simulation.Ratio(label, [-1.0, 0.0], [-1.0, 1.0], first + second, lambda w: v["N2"] * w[1], lambda x: x / v["N2"]),
    ))  # fmt: skip


def ratio_simulate(**v: Any) -> simulation.Simulation:
    """The ratio at which the risk is stationary."""
    experiment, _, second = _level_means(**v)
    label, N1, N2 = "mean derivative of the risk in the ratio", v["N1"], v["N2"]
    return simulation.Simulation(experiment, (simulation.Ratio(label, [-N1, 0.0], [0.0, N2], N2 * second),))


_LEMMA2 = {
    "variables": TWO_LEVELS,
    "examples": TWO_LEVEL_EXAMPLES,
    "place": "Appendix A.2, Lemma 2",
    "related": ("fedhdp:lemma1",),
    "assumes": MODEL,
}

register(
    Claim(
        id="fedhdp:lemma2:weights",
        title="Bayes-optimal server weights, two privacy levels",
        statement="The server's estimate with these weights is Bayes optimal.",
        latex=r"w_j=\frac{1}{N_1+N_2r^*}\ (c_j\in\mathcal C_1),\qquad w_j=\frac{r^*}{N_1+N_2r^*}\ (c_j\in\mathcal C_2)",
        kind="optimum",
        printed=_weights_printed,
        derive=_weights_derive,
        oracle=lambda **v: two_level_oracle(**v)[:2],
        computed=float_weights,
        simulate=_weights_simulate,
        model=("BestWeights",),
        objective=lambda x, **v: weights_objective(x, *two_levels(**v)),
        decision="real",
        entries=("weight in level 1", "weight in level 2"),
        **{**_LEMMA2, "place": "Appendix A.2, Lemma 2, (27)"},
    )
)
register(
    Claim(
        id="fedhdp:lemma2:rstar",
        title="Optimal aggregation ratio r*",
        statement="A message of level 2 gets r* times the weight of a message of level 1.",
        latex=r"r^*=\frac{\sigma_c^2+N_1\gamma_1^2}{\sigma_c^2+N_2\gamma_2^2}",
        kind="optimum",
        printed=_ratio_printed,
        derive=_rstar_derive,
        oracle=ratio_oracle,
        computed=lambda N1, N2, sigma2_c, gamma2_1, gamma2_2: aggregation.optimal_ratio(
            N1, N2, sigma2_c, 0.0, gamma2_1, gamma2_2
        ),
        simulate=ratio_simulate,
        model=("BestWeights",),
        objective=lambda x, **v: ratio_objective(x, *two_levels(**v)),
        unit="dimensionless",
        **{**_LEMMA2, "place": "Appendix A.2, Lemma 2, (28)"},
    )
)
register(
    Claim(
        id="fedhdp:lemma2:cov",
        title="Error variance of the optimal server estimate",
        statement="Error variance (per coordinate) of the server's estimate at r*.",
        latex=r"""\Sigma_{s,\mathrm{opt}}=\frac1N\left[\frac{(\sigma_c^2+N_1\gamma_1^2)(\sigma_c^2+N_2\gamma_2^2)}%
            {\sigma_c^2+(1-\rho_1)N_1\gamma_1^2+\rho_1N_2\gamma_2^2}\right]I_d""",
        kind="identity",
        printed=_cov_printed,
        derive=_cov_derive,
        oracle=lambda **v: two_level_oracle(**v)[2],
        computed=lambda N1, N2, sigma2_c, gamma2_1, gamma2_2: aggregation.server_mse(
            [N1, N2], [gamma2_1, gamma2_2], sigma2_c, 0.0
        ),
        simulate=lambda N1, N2, sigma2_c, gamma2_1, gamma2_2: simulate_server(
            [N1, N2],
            sigma2_c,
            [gamma2_1, gamma2_2],
            float_weights(N1, N2, sigma2_c, gamma2_1, gamma2_2),
        ),
        model=("Value(Server)", "LeastCentre"),
        unit="variance per coordinate",
        **{**_LEMMA2, "place": "Appendix A.2, Lemma 2, (29) and (33)"},
    )
)


def _eq30_printed(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Any, Any, Any]:
    """Weights by inverse covariances (31), and the error variance with p_theta of the same variance added."""
    s1, s2 = sigma2_c + N1 * gamma2_1, sigma2_c + N2 * gamma2_2
    variance = 1 / (N1 / s1 + N2 / s2)
    return variance / s1, variance / s2, variance + variance


def _eq30_corrected(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Any, Any, Any]:
    first, second = sigma2_c + N1 * gamma2_1, sigma2_c + N2 * gamma2_2
    least = 1 / (N1 / first + N2 / second)
    return least / first, least / second, least


def _eq30_derive(**v: Any) -> Derivation:
    d, best = _two_level_derivation(**v)
    d.say("The estimate with the least error is the mean of phi given the messages: a combination of them and nothing else.")
    return d.conclude("Its weights and its error variance:", (*best.weights, best.variance))


def _eq30_computed(N1: float, N2: float, sigma2_c: float, gamma2_1: float, gamma2_2: float) -> tuple[float, ...]:
    levels = [N1, N2], [gamma2_1, gamma2_2], sigma2_c, 0.0
    return (*aggregation.level_weights(*levels), aggregation.server_mse(*levels))


def _eq30_simulate(**v: Any) -> simulation.Simulation:
    noise = [v["N1"] * v["gamma2_1"], v["N2"] * v["gamma2_2"]]
    return simulated_centre(simulation.federation([v["N1"], v["N2"]], v["sigma2_c"] / 2, v["sigma2_c"] / 2, noise))


register(
    Claim(
        id="fedhdp:eq30",
        title="The server's estimate of the centre",
        statement="""The server computes its estimate of phi by precision weights; what is added has the variance (31),
            independent of the messages. Judged: weights on a message of each level and the error variance of the
            estimate.""",
        latex=r"""\theta=\Sigma_{\theta}\sum_{i\in[N]}\Sigma_i^{-1}\psi_i+p_{\theta},\quad
            p_\theta\sim\mathcal N(0,\Sigma_\theta)""",
        kind="identity",
        printed=_eq30_printed,
        derive=_eq30_derive,
        oracle=two_level_oracle,
        computed=_eq30_computed,
        simulate=_eq30_simulate,
        corrected=_eq30_corrected,
        corrected_text="the same weights without p: error variance Sigma, not 2 Sigma, as (29) and (33) say",
        slip="""Lemma 1 describes phi itself, which is its posterior mean plus a spread p of variance Sigma; the estimate is
            the mean alone""",
        finding="""A draw from the posterior's spread is added to the server's estimate, which would double the error
            variance that the lemma states for it.""",
        counterexample=TWO_LEVEL_EXAMPLES[0],
        entries=("message of level 1", "message of level 2", "error variance"),
        unit="dimensionless; variance",
        **{**_LEMMA2, "place": "Appendix A.2, (30)-(32)", "related": ("fedhdp:lemma1", "fedhdp:lemma2:cov")},
        model=("BestWeights", "Value(Server)", "LeastCentre"),
    )
)
