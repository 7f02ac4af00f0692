"""FedHDP, the server: Lemmas 1, 2 and 6, and what Section 4 says of the ratio r.

Belongs here: claims on the global estimate, and the judges of Lemma 6, which FeO2 prints too. Does not belong here: what
other weights lose (gaps.py), what clients make of it (estimates.py, strength.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from sympy import Le

from estimators.closed_forms import aggregation
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import CENTRE, Group, posterior
from theory.engine.registry import register
from theory.papers.shared import (
    GAMMA2,
    GAMMA2_1,
    GAMMA2_2,
    N1,
    N2,
    N_NP,
    N_P,
    ONE,
    SIGMA2_C,
    concrete,
    message_variances,
    ratio_objective,
    weights_objective,
)

RHO_NP = Variable("rho_np", "fraction", "share of clients without privacy")
N = Variable("N", "size", "clients in all", low=2)
SIGMA2S = Variable("sigma2s", "positive", "variance of each observation", lengths=(2, 3))
TWO_LEVELS = (N1, N2, SIGMA2_C, GAMMA2_1, GAMMA2_2)
OPT_OUT = (N_NP, N_P, SIGMA2_C, GAMMA2)
TWO_LEVEL_EXAMPLES = (
    {"N1": 2, "N2": 3, "sigma2_c": 2, "gamma2_1": "1/4", "gamma2_2": 1},
    {"N1": 1, "N2": 4, "sigma2_c": 1, "gamma2_1": 0, "gamma2_2": "1/2"},
)
OPT_OUT_EXAMPLES = (
    {"N_np": 2, "N_p": 3, "sigma2_c": 2, "gamma2": 1},
    {"N_np": 1, "N_p": 4, "sigma2_c": 1, "gamma2": "1/4"},
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
        "Under a flat prior the posterior mean is the linear combination whose weights add to one and whose error "
        "has the least variance. The normal equations with that constraint give the weights",
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
        statement="Given independent Gaussian observations of phi and a flat prior, phi is Gaussian around the "
        "precision-weighted mean, with variance one over the total precision.",
        latex=r"\Sigma_{\phi}=\Big(\sum_{i\in[N]}\Sigma_i^{-1}\Big)^{-1},\quad "
        r"\phi=\Sigma_{\phi}\sum_{i\in[N]}\Sigma_i^{-1}\psi_i+p_{\phi}",
        kind="identity",
        variables=(SIGMA2S,),
        examples=({"sigma2s": [1, 2, 4]}, {"sigma2s": ["1/2", 3]}),
        printed=_lemma1_printed,
        derive=_lemma1_derive,
        oracle=_lemma1_oracle,
        computed=_lemma1_computed,
        simulate=_lemma1_simulate,
        unit="variance, then weights",
        assumptions=("observations independent given phi", "flat prior on phi"),
        remark="Verified for scalar observations, 2 and 3 of them; in A.1 all covariances are multiples of I.",
    )
)


# --- Lemma 2 -------------------------------------------------------------------------------------------------------


def _two_levels(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[list[Any], list[Any]]:
    """Sizes and message variances of both levels."""
    return [N1, N2], message_variances([N1, N2], [gamma2_1, gamma2_2], sigma2_c)


def _two_level_derivation(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Derivation, Any]:
    d = Derivation()
    s1, s2 = message_variances([N1, N2], [gamma2_1, gamma2_2], sigma2_c)
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


def _two_level_oracle(**v: Any) -> tuple[Any, Any, Any]:
    clients, levels = concrete([v["N1"], v["N2"]], [v["gamma2_1"], v["gamma2_2"]], v["sigma2_c"] / 2, v["sigma2_c"] / 2)
    weights, variance = clients.posterior(clients.centre, clients.message)
    return rational(weights[0]), rational(weights[levels.index(2)]), rational(variance)


def _ratio_oracle(**v: Any) -> Any:
    first, second, _ = _two_level_oracle(**v)
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


def _level_weights(N1: float, N2: float, sigma2_c: float, gamma2_1: float, gamma2_2: float) -> tuple[float, ...]:
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


def _ratio_simulate(**v: Any) -> simulation.Simulation:
    experiment, _, second = _level_means(**v)
    label, N1, N2 = "mean derivative of the risk in the ratio", v["N1"], v["N2"]
    return simulation.Simulation(experiment, (simulation.Ratio(label, [-N1, 0.0], [0.0, N2], N2 * second),))


_LEMMA2 = {
    "variables": TWO_LEVELS,
    "examples": TWO_LEVEL_EXAMPLES,
    "place": "Appendix A.2, Lemma 2",
    "related": ("fedhdp:lemma1",),
    "assumptions": ("flat prior on phi",),
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
        oracle=lambda **v: _two_level_oracle(**v)[:2],
        computed=_level_weights,
        simulate=_weights_simulate,
        objective=lambda x, **v: weights_objective(x, *_two_levels(**v)),
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
        oracle=_ratio_oracle,
        computed=lambda N1, N2, sigma2_c, gamma2_1, gamma2_2: aggregation.optimal_ratio(
            N1, N2, sigma2_c, 0.0, gamma2_1, gamma2_2
        ),
        simulate=_ratio_simulate,
        objective=lambda x, **v: ratio_objective(x, *_two_levels(**v)),
        unit="dimensionless",
        **{**_LEMMA2, "place": "Appendix A.2, Lemma 2, (28)"},
    )
)
register(
    Claim(
        id="fedhdp:lemma2:cov",
        title="Error variance of the optimal server estimate",
        statement="Error variance (per coordinate) of the server's estimate at r*.",
        latex=r"\Sigma_{s,\mathrm{opt}}=\frac1N\left[\frac{(\sigma_c^2+N_1\gamma_1^2)(\sigma_c^2+N_2\gamma_2^2)}"
        r"{\sigma_c^2+(1-\rho_1)N_1\gamma_1^2+\rho_1N_2\gamma_2^2}\right]I_d",
        kind="identity",
        printed=_cov_printed,
        derive=_cov_derive,
        oracle=lambda **v: _two_level_oracle(**v)[2],
        computed=lambda N1, N2, sigma2_c, gamma2_1, gamma2_2: aggregation.server_mse(
            [N1, N2], [gamma2_1, gamma2_2], sigma2_c, 0.0
        ),
        simulate=lambda N1, N2, sigma2_c, gamma2_1, gamma2_2: simulate_server(
            [N1, N2],
            sigma2_c,
            [gamma2_1, gamma2_2],
            _level_weights(N1, N2, sigma2_c, gamma2_1, gamma2_2),
        ),
        unit="variance per coordinate",
        **{**_LEMMA2, "place": "Appendix A.2, Lemma 2, (29) and (33)"},
    )
)


# --- Section 4: the useful range of r ------------------------------------------------------------------------------


def _range_derive(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> Derivation:
    d = Derivation()
    r = d.lemma("fedhdp:lemma2:rstar", "the optimal ratio is", N1=N1, N2=N2, sigma2_c=sigma2_c, gamma2_1=gamma2_1,
                gamma2_2=gamma2_2)  # fmt: skip
    return d.conclude("It stays below one by", simplest(1 - r))


register(
    Claim(
        id="fedhdp:r-le-1",
        title="The useful ratio r lies in [0, 1] and falls with more privacy noise",
        place="Section 4 (and Section 3.1.4)",
        statement="The ratio is bounded by 0 <= r <= 1, and less private noise budget means a lower r. Judged: 1 - r* "
        "is at least 0 (r* > 0 and dr*/dgamma2_2 < 0 are plain from its form).",
        latex=r"0\leq r\leq 1",
        kind="order",
        variables=TWO_LEVELS,
        examples=({"N1": 2, "N2": 3, "sigma2_c": 2, "gamma2_1": "1/4", "gamma2_2": 1},),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_range_derive,
        oracle=lambda **v: 1 - _ratio_oracle(**v),
        condition=lambda N1, N2, gamma2_1, gamma2_2: Le(N1 * gamma2_1, N2 * gamma2_2),
        condition_text="N1*gamma2_1 <= N2*gamma2_2",
        shifts=lambda N1, N2, gamma2_1, gamma2_2, **_: {
            gamma2_2: (N1 * gamma2_1 + sp.Symbol("more", nonnegative=True)) / N2
        },
        counterexample={"N1": 1, "N2": 5, "sigma2_c": 1, "gamma2_1": 1, "gamma2_2": "4/25"},
        not_computed="1 - r* loses digits by design; r* itself is computed in fedhdp:lemma2:rstar",
        not_simulated="a sign; r* is simulated in fedhdp:lemma2:rstar",
        unit="dimensionless",
        remark="A per-client noise variance is N_i gamma2_i = z_i^2 S^2 / N_i. A small level 1 with a mild budget can "
        "be noisier per client than a large level 2 with a strict one: one client with z = 1 against five with z = 2 "
        "gives r* = 2/1.8 > 1. In the opt-out setting (gamma2_1 = 0) the claim always holds.",
    )
)


# --- Lemma 6 -------------------------------------------------------------------------------------------------------


def _opt_out(N_np: Any, N_p: Any, sigma2_c: Any, gamma2: Any) -> dict[str, Any]:
    return {"N1": N_np, "N2": N_p, "sigma2_c": sigma2_c, "gamma2_1": sp.Integer(0), "gamma2_2": gamma2}


def opt_out_ratio(N_p: Any, sigma2_c: Any, gamma2: Any) -> Any:
    """The ratio as both papers print it."""
    return sigma2_c / (sigma2_c + N_p * gamma2)


def opt_out_variance(N_np: Any, N_p: Any, sigma2_c: Any, gamma2: Any) -> Any:
    """The server's error variance as both papers print it."""
    N, rho_np = N_np + N_p, N_np / (N_np + N_p)
    return (sigma2_c * (sigma2_c + N_p * gamma2) / (sigma2_c + rho_np * N_p * gamma2)) / N


def opt_out_ratio_derive(**v: Any) -> Derivation:
    """The ratio with two levels at gamma2_1 = 0."""
    d = Derivation()
    return d.conclude("That is, without noise in level 1:", d.lemma("fedhdp:lemma2:rstar", **_opt_out(**v)))


def opt_out_variance_derive(**v: Any) -> Derivation:
    """The variance with two levels at gamma2_1 = 0."""
    d = Derivation()
    return d.conclude("That is, without noise in level 1:", d.lemma("fedhdp:lemma2:cov", **_opt_out(**v)))


def opt_out_ratio_oracle(**v: Any) -> Any:
    """Ratio of two weights in the posterior mean, on concrete clients."""
    first, second, _ = _two_level_oracle(**_opt_out(**v))
    return second / first


def opt_out_variance_oracle(**v: Any) -> Any:
    """Posterior variance of the centre, on concrete clients."""
    return _two_level_oracle(**_opt_out(**v))[2]


def opt_out_ratio_computed(N_np: float, N_p: float, sigma2_c: float, gamma2: float) -> float:
    """The ratio by the estimators."""
    return aggregation.optimal_ratio(N_np, N_p, sigma2_c, 0.0, 0.0, gamma2)


def opt_out_variance_computed(N_np: float, N_p: float, sigma2_c: float, gamma2: float) -> float:
    """The variance by the estimators."""
    return aggregation.server_mse([N_np, N_p], [0.0, gamma2], sigma2_c, 0.0)


def opt_out_ratio_simulate(N_np: int, N_p: int, sigma2_c: float, gamma2: float) -> simulation.Simulation:
    """Where the risk's derivative in the ratio is zero."""
    return _ratio_simulate(N1=N_np, N2=N_p, sigma2_c=sigma2_c, gamma2_1=0.0, gamma2_2=gamma2)


def opt_out_variance_simulate(N_np: int, N_p: int, sigma2_c: float, gamma2: float) -> simulation.Simulation:
    """The server's squared error at precision weights."""
    weights = _level_weights(N_np, N_p, sigma2_c, 0.0, gamma2)
    return simulate_server([N_np, N_p], sigma2_c, [0.0, gamma2], weights)


def opt_out_risk(x: Any, **v: Any) -> Any:
    """The server's risk at the ratio x."""
    return ratio_objective(x, *_two_levels(**_opt_out(**v)))


RATIO_VARIABLES = (replace(N_NP, default=ONE), *OPT_OUT[1:])
register(
    Claim(
        id="fedhdp:lemma6:rstar",
        title="Optimal ratio with opt-out of privacy",
        place="Appendix B, Lemma 6, (78)",
        statement="With non-private and private clients the server is Bayes optimal at this ratio.",
        latex=r"r^*=\frac{\sigma_c^2}{\sigma_c^2+N_{\mathrm p}\gamma^2}",
        kind="optimum",
        variables=RATIO_VARIABLES,
        examples=OPT_OUT_EXAMPLES,
        printed=opt_out_ratio,
        derive=opt_out_ratio_derive,
        oracle=opt_out_ratio_oracle,
        computed=opt_out_ratio_computed,
        simulate=opt_out_ratio_simulate,
        objective=opt_out_risk,
        unit="dimensionless",
        assumptions=("flat prior on phi",),
    )
)
register(
    Claim(
        id="fedhdp:lemma6:var",
        title="Server error variance with opt-out of privacy",
        place="Appendix B, Lemma 6, (78)",
        statement="Error variance of the server's estimate at r*.",
        latex=r"\sigma_{s,\mathrm{opt}}^2=\frac1N\left[\frac{\sigma_c^2(\sigma_c^2+N_{\mathrm p}\gamma^2)}"
        r"{\sigma_c^2+\rho_{\mathrm{np}}N_{\mathrm p}\gamma^2}\right]",
        kind="identity",
        variables=OPT_OUT,
        examples=OPT_OUT_EXAMPLES,
        printed=opt_out_variance,
        derive=opt_out_variance_derive,
        oracle=opt_out_variance_oracle,
        computed=opt_out_variance_computed,
        simulate=opt_out_variance_simulate,
        unit="variance",
        assumptions=("flat prior on phi",),
    )
)
