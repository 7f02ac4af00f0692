"""FedHDP, the server: Lemmas 1, 2, 6 and 7, and what Section 4 says of the ratio r.

Belongs here: claims on the global estimate. Does not belong here: what clients make of it (clients.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from sympy import Le
from sympy.polys.matrices import DomainMatrix

from estimators.closed_forms import aggregation
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
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
    concrete_server,
    message_variances,
    precision_weights,
    ratio_objective,
    server_mse,
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
        oracle=lambda **v: (lambda w: w[1] / w[0])(_two_level_oracle(**v)),
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
        oracle=lambda **v: (lambda w: 1 - w[1] / w[0])(_two_level_oracle(**v)),
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


def _opt_out_var_printed(N_np: Any, N_p: Any, sigma2_c: Any, gamma2: Any) -> Any:
    N, rho_np = N_np + N_p, N_np / (N_np + N_p)
    return (sigma2_c * (sigma2_c + N_p * gamma2) / (sigma2_c + rho_np * N_p * gamma2)) / N


def opt_out_claims(paper: str, place: str, lemma: str, latex_variance: str, remark: str = "") -> None:
    """Register r* and the server variance with opt-out; FedHDP and FeO2 print the same two formulas."""
    common: dict[str, Any] = {
        "variables": OPT_OUT,
        "examples": OPT_OUT_EXAMPLES,
        "assumptions": ("flat prior on phi",),
    }

    def derive(what: str, **v: Any) -> Derivation:
        d = Derivation()
        return d.conclude("That is, without noise in level 1:", d.lemma(f"fedhdp:lemma2:{what}", **_opt_out(**v)))

    register(
        Claim(
            id=f"{paper}:{lemma}:rstar",
            title="Optimal ratio with opt-out of privacy",
            place=place,
            statement="With non-private and private clients the server is Bayes optimal at this ratio.",
            latex=r"r^*=\frac{\sigma_c^2}{\sigma_c^2+N_{\mathrm p}\gamma^2}",
            kind="optimum",
            printed=lambda N_p, sigma2_c, gamma2: sigma2_c / (sigma2_c + N_p * gamma2),
            derive=lambda **v: derive("rstar", **v),
            oracle=lambda **v: (lambda w: w[1] / w[0])(_two_level_oracle(**_opt_out(**v))),
            computed=lambda N_np, N_p, sigma2_c, gamma2: aggregation.optimal_ratio(N_np, N_p, sigma2_c, 0.0, 0.0, gamma2),
            simulate=lambda N_np, N_p, sigma2_c, gamma2: _ratio_simulate(
                N1=N_np, N2=N_p, sigma2_c=sigma2_c, gamma2_1=0.0, gamma2_2=gamma2
            ),
            objective=lambda x, **v: ratio_objective(x, *_two_levels(**_opt_out(**v))),
            unit="dimensionless",
            **{**common, "variables": (replace(N_NP, default=ONE), *OPT_OUT[1:])},
        )
    )
    register(
        Claim(
            id=f"{paper}:{lemma}:var",
            title="Server error variance with opt-out of privacy",
            place=place,
            statement="Error variance of the server's estimate at r*.",
            latex=latex_variance,
            kind="identity",
            printed=_opt_out_var_printed,
            derive=lambda **v: derive("cov", **v),
            oracle=lambda **v: _two_level_oracle(**_opt_out(**v))[2],
            computed=lambda N_np, N_p, sigma2_c, gamma2: aggregation.server_mse([N_np, N_p], [0.0, gamma2], sigma2_c, 0.0),
            simulate=lambda N_np, N_p, sigma2_c, gamma2: simulate_server(
                [N_np, N_p],
                sigma2_c,
                [0.0, gamma2],
                _level_weights(N_np, N_p, sigma2_c, 0.0, gamma2),
            ),
            unit="variance",
            remark=remark,
            **common,
        )
    )


opt_out_claims(
    "fedhdp",
    "Appendix B, Lemma 6, (78)",
    "lemma6",
    r"\sigma_{s,\mathrm{opt}}^2=\frac1N\left[\frac{\sigma_c^2(\sigma_c^2+N_{\mathrm p}\gamma^2)}"
    r"{\sigma_c^2+\rho_{\mathrm{np}}N_{\mathrm p}\gamma^2}\right]",
)


# --- Lemma 7 -------------------------------------------------------------------------------------------------------

ALPHA2_0 = Variable("alpha2", "positive", "variance of a client's estimate around its parameter")
TAU2_0 = Variable("tau2", "nonnegative", "variance of the clients' parameters around the centre")
DP_NOISE = Variable(
    "dp_noise",
    "choice",
    "how DP-FedAvg, with all clients private, is calibrated. client: each of the N clients adds the noise N_p*gamma2 "
    "that a private client adds in FedHDP; sum: the noise on the sum is the same as with N_p private clients, as "
    "z^2 (S/N)^2 says for the same z and S",
    choices=("client", "sum"),
    default="client",
)
LEMMA7 = (N_NP, N_P, ALPHA2_0, TAU2_0, GAMMA2)
LEMMA7_EXAMPLES = (
    {"N_np": 2, "N_p": 3, "alpha2": 1, "tau2": 1, "gamma2": 2},
    {"N_np": 1, "N_p": 3, "alpha2": "1/2", "tau2": 1, "gamma2": 1},
)
GAP_ENTRIES = {"79": ("hdp", "opt"), "80": ("dp", "opt"), "81": ("dp", "hdp")}


def _server_errors(N_np: Any, N_p: Any, sigma2_c: Any, gamma2: Any, dp_noise: str) -> dict[str, Any]:
    """Server error of FedHDP at r*, of HDP-FedAvg (uniform weights) and of DP-FedAvg (all private)."""
    N = N_np + N_p
    s = message_variances([N_np, N_p], [sp.Integer(0), gamma2], sigma2_c)
    private = N_p * gamma2 if dp_noise == "client" else N_p * gamma2 * N_p / N
    return {
        "opt": server_mse([N_np, N_p], s, precision_weights([N_np, N_p], s)),
        "hdp": server_mse([N_np, N_p], s, [1 / N, 1 / N]),
        "dp": server_mse([N], [sigma2_c + private], [1 / N]),
    }


def _gap_derive(which: str):
    worse, better = GAP_ENTRIES[which]

    def derive(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any, dp_noise: str = "client") -> Derivation:
        d = Derivation()
        errors = _server_errors(N_np, N_p, alpha2 + tau2, gamma2, dp_noise)
        names = {
            "hdp": "HDP-FedAvg, uniform weights",
            "dp": f"DP-FedAvg, noise per {dp_noise}",
        }
        if better == "opt":
            sizes = {"N_np": N_np, "N_p": N_p}
            errors["opt"] = d.lemma("fedhdp:lemma6:var", "the server error of FedHDP at r* is", **sizes,
                                    sigma2_c=alpha2 + tau2, gamma2=gamma2)  # fmt: skip
        for key in (k for k in (worse, better) if k != "opt"):
            d.say(f"Server error of {names[key]}: sum of squared weights times message variances,", errors[key])
        return d.conclude("The gap is", simplest(errors[worse] - errors[better]))

    return derive


def _gap_oracle(which: str):
    worse, better = GAP_ENTRIES[which]

    def oracle(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any, dp_noise: str = "client") -> Any:
        N = N_np + N_p

        def error(sizes: list[Any], gammas: list[Any], optimal: bool) -> Any:
            clients, _ = concrete(sizes, gammas, alpha2, tau2)
            w = concrete_server(clients) if optimal else [1 / N] * len(clients)
            return rational(clients.mse(clients.weighted(w, clients.message), clients.centre))

        everyone = N_p * gamma2 / N if dp_noise == "client" else N_p**2 * gamma2 / N**2
        errors = {
            "opt": lambda: error([N_np, N_p], [0, gamma2], True),
            "hdp": lambda: error([N_np, N_p], [0, gamma2], False),
            "dp": lambda: error([N], [everyone], False),
        }
        return errors[worse]() - errors[better]()

    return oracle


def _gap_simulate(which: str):
    def simulate(N_np: int, N_p: int, alpha2: float, tau2: float, gamma2: float,
                 dp_noise: str = "client") -> simulation.Simulation | None:  # fmt: skip
        if dp_noise != "client":
            return None
        N = N_np + N_p
        noise = N_p * gamma2
        # Paired draws: in DP-FedAvg the non-private clients carry noise too; client 0 is one of them, and its own
        # coordinate l stands for all their noise by symmetry when there is one; otherwise use separate groups.
        fed = simulation.federation([N_np, N_p, N_np], [tau2, tau2, 0.0], [alpha2, alpha2, 0.0], [0.0, noise, noise])
        w = aggregation.level_weights([N_np, N_p], [0.0, gamma2], alpha2, tau2)
        optimal = np.concatenate([np.full(N_np, w[0]), np.full(N_p, w[1]), np.zeros(N_np)])
        uniform = np.concatenate([np.full(N, 1 / N), np.zeros(N_np)])
        all_private = np.full(N + N_np, 1 / N)
        weights = {"opt": optimal, "hdp": uniform, "dp": all_private}
        worse, better = GAP_ENTRIES[which]
        return simulation.differences(
            fed, 0, [weights[worse], weights[better]],
            [simulation.vector(2, a0=1.0), simulation.vector(2, a1=1.0)], [1.0, -1.0],
            f"gap {worse} - {better}",
        )  # fmt: skip

    return simulate


def _eq79(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Any:
    N, rho = N_np + N_p, N_np / (N_np + N_p)
    return rho * (1 - rho) ** 3 * gamma2**2 * N / (alpha2 + tau2 + rho * (1 - rho) * gamma2 * N)


def _eq80(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Any:
    N, rho = N_np + N_p, N_np / (N_np + N_p)
    top = rho * (1 - rho) * (alpha2 + tau2) * gamma2 + rho * (1 - rho) ** 2 * gamma2**2 * N
    return top / (alpha2 + tau2 + rho * (1 - rho) * gamma2 * N)


def _eq81(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Any:
    N, rho = N_np + N_p, N_np / (N_np + N_p)
    top = rho * (1 - rho) * (alpha2 + tau2) * gamma2 + rho**2 * (1 - rho) ** 2 * gamma2**2 * N
    return top / (alpha2 + tau2 + rho * (1 - rho) * gamma2 * N)


def _gap_computed(which: str):
    def computed(N_np: float, N_p: float, alpha2: float, tau2: float, gamma2: float, dp_noise: str = "client"):
        uniform = aggregation.gap_to_uniform(N_np, N_p, alpha2, tau2, gamma2)
        extra = aggregation.gap_dp_to_uniform(N_np, N_p, gamma2) if dp_noise == "client" else 0.0
        # With the noise of the sum fixed, DP-FedAvg is exactly as noisy as HDP-FedAvg.
        return {"79": uniform, "80": uniform + extra, "81": extra}[which]

    return computed


register(
    Claim(
        id="fedhdp:lemma7:eq79",
        title="Server gap of HDP-FedAvg to FedHDP",
        place="Appendix B, Lemma 7, (79)",
        statement="What uniform weights lose against the optimal ones; it is never negative.",
        latex=r"\sigma^2_{s,\mathrm{hdp\text{-}fedavg}}-\sigma^2_{s,\mathrm{opt}}=\frac{\rho_{\mathrm{np}}"
        r"(1-\rho_{\mathrm{np}})^3\gamma^4N}{\alpha^2+\tau^2+\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})\gamma^2N}\geq0",
        kind="identity",
        variables=LEMMA7,
        examples=LEMMA7_EXAMPLES,
        printed=_eq79,
        derive=_gap_derive("79"),
        oracle=_gap_oracle("79"),
        computed=_gap_computed("79"),
        simulate=_gap_simulate("79"),
        unit="variance",
    )
)
for _key, _printed, _latex, _name in (
    ("80", _eq80,
     r"\sigma^2_{s,\mathrm{dp\text{-}fedavg}}-\sigma^2_{s,\mathrm{opt}}=\frac{\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})"
     r"(\alpha^2+\tau^2)\gamma^2+\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})^2\gamma^4N}{\alpha^2+\tau^2+"
     r"\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})\gamma^2N}\geq0", "FedHDP"),
    ("81", _eq81,
     r"\sigma^2_{s,\mathrm{dp\text{-}fedavg}}-\sigma^2_{s,\mathrm{hdp\text{-}fedavg}}=\frac{\rho_{\mathrm{np}}"
     r"(1-\rho_{\mathrm{np}})(\alpha^2+\tau^2)\gamma^2+\rho_{\mathrm{np}}^2(1-\rho_{\mathrm{np}})^2\gamma^4N}"
     r"{\alpha^2+\tau^2+\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})\gamma^2N}\geq0", "HDP-FedAvg"),
):  # fmt: skip
    register(
        Claim(
            id=f"fedhdp:lemma7:eq{_key}",
            title=f"Server gap of DP-FedAvg to {_name}",
            place=f"Appendix B, Lemma 7, ({_key})",
            statement=f"What DP-FedAvg, where all clients are private, loses against {_name}.",
            latex=_latex,
            kind="identity",
            variables=(*LEMMA7, DP_NOISE),
            examples=LEMMA7_EXAMPLES,
            printed=_printed,
            derive=_gap_derive(_key),
            oracle=_gap_oracle(_key),
            computed=_gap_computed(_key),
            simulate=_gap_simulate(_key),
            condition=lambda dp_noise: sp.true if dp_noise == "client" else sp.false,
            condition_text="dp_noise == client (every client of DP-FedAvg adds noise of variance N_p*gamma2)",
            counterexample={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 1, "dp_noise": "sum"},
            unit="variance",
            related=("fedhdp:lemma7:eq79", "feo2:gamma-prop"),
            remark="The paper does not say how noisy DP-FedAvg is. Its own rule z^2 (S/qN)^2 puts the same noise on the "
            "sum whoever is private; then DP-FedAvg with all N clients private is exactly as noisy at the server as "
            "HDP-FedAvg: (81) becomes 0 and (80) becomes (79).",
        )
    )


# --- limits in the text after Lemma 7 ------------------------------------------------------------------------------

GROWTH = Variable(
    "growth",
    "choice",
    "what happens to gamma2 as N grows. fixed: it stays; per_group: gamma2 = c/N_p^2, the same z and S for all N",
    choices=("fixed", "per_group"),
    default="fixed",
)


def _limits_derive(rho_np: Any, sigma2_c: Any, gamma2: Any, growth: str) -> Derivation:
    d = Derivation()
    n = sp.Symbol("N", positive=True)
    g = gamma2 if growth == "fixed" else gamma2 / ((1 - rho_np) * n) ** 2
    sizes = {"N_np": rho_np * n, "N_p": (1 - rho_np) * n}
    clients = {**sizes, "alpha2": sigma2_c, "tau2": sp.Integer(0)}  # only their sum sigma2_c matters
    gap79 = d.lemma("fedhdp:lemma7:eq79", "as a function of N", **clients, gamma2=g)
    gap80 = d.lemma("fedhdp:lemma7:eq80", "as a function of N", **clients, gamma2=g)
    opt = d.lemma("fedhdp:lemma6:var", "as a function of N", **sizes, sigma2_c=sigma2_c, gamma2=g)
    big = [limit(e, n, sp.oo) for e in (gap79, gap80, opt)]
    d.say("N to infinity: the two gaps and the optimal error tend to", tuple(big))
    ends = []
    fixed = d.lemma("fedhdp:lemma7:eq79", "with gamma2 fixed", **clients, gamma2=gamma2)
    x = sp.Symbol("x", positive=True)
    for rho in (x, 1 - x):
        ends.append(limit(fixed.subs(rho_np, rho), x, 0))
    d.say("rho_np to 0 and to 1: gap (79) tends to", tuple(ends))
    G = sp.Symbol("G", positive=True)
    opt_big = limit(sp.cancel(sp.together(opt.subs(gamma2, G))), G, sp.oo)
    d.say("gamma2 to infinity: the optimal error tends to (the gaps grow without bound)", opt_big)
    return d.conclude("Gap (79), gap (80), optimal error as N grows; gap (79) at rho 0 and 1:", (*big, *ends))


def _limits_approach(t: Any, rho_np: Any, sigma2_c: Any, gamma2: Any, growth: str) -> tuple[Any, ...]:
    """Gaps and optimal error with t clients. The two limits in rho_np are for any fixed number of clients."""
    g = gamma2 if growth == "fixed" else gamma2 / ((1 - rho_np) * t) ** 2
    errors = _server_errors(rho_np * t, (1 - rho_np) * t, sigma2_c, g, "client")
    return errors["hdp"] - errors["opt"], errors["dp"] - errors["opt"], errors["opt"], None, None


def _limits_oracle(rho_np: Any, sigma2_c: Any, gamma2: Any, growth: str) -> tuple[Any, ...]:
    """Richardson extrapolation is exact here: each quantity is rational in N, so fit it through exact values.

    A rational function of degree (2, 2) in N is fixed by 5 exact values; its limit is the ratio of leading terms.
    """

    def at(n: Any, rho: Any, growth: str = growth) -> tuple[Any, Any, Any]:
        n_np, n_p = rho * n, (1 - rho) * n
        g = gamma2 if growth == "fixed" else gamma2 / n_p**2
        noisy = sigma2_c + n_p * g
        opt = 1 / (n_np / sigma2_c + n_p / noisy)
        hdp = (n_np * sigma2_c + n_p * noisy) / n**2
        return hdp - opt, noisy / n - opt, opt

    limits = []
    for i in range(3):
        limits.append(rational_limit(lambda n, i=i: at(n, rho_np)[i]))
    edge = [rational_limit(lambda t: at(sp.Integer(4), 1 / (1 + t), "fixed")[0])]
    edge.append(rational_limit(lambda t: at(sp.Integer(4), t / (1 + t), "fixed")[0]))
    return (*limits, *edge)


def rational_limit(function: Any, degree: int = 4) -> Any:
    """Limit at infinity of a rational function of bounded degree, from exact values only (a linear system)."""
    xs = [sp.Integer(k) for k in range(2, 2 * degree + 4)]
    ys = [function(x) for x in xs]
    # p(x) - y q(x) = 0 at every x; the null space holds (p, q) up to a common factor.
    rows = [[x**k for k in range(degree + 1)] + [-y * x**k for k in range(degree + 1)] for x, y in zip(xs, ys, strict=True)]
    null = list(DomainMatrix.from_Matrix(sp.Matrix(rows)).to_field().nullspace().to_Matrix()[0, :])
    p, q = null[: degree + 1], null[degree + 1 :]
    top_p = max((k for k, c in enumerate(p) if c != 0), default=-1)
    top_q = max(k for k, c in enumerate(q) if c != 0)
    if top_p < top_q:
        return sp.Integer(0)
    return p[top_p] / q[top_q] if top_p == top_q else sp.oo


register(
    Claim(
        id="fedhdp:lemma7:limits",
        title="Limits of the server gaps",
        place="Appendix B, text after Lemma 7",
        statement="For large N the gaps approach (1-rho)^2 gamma2 and (1-rho) gamma2 while the optimal error vanishes; "
        "gap (79) vanishes for rho to 0 and 1; for gamma2 to infinity the gaps grow without bound and the optimal "
        "error stays bounded.",
        latex=r"N\to\infty:\ (1-\rho_{\mathrm{np}})^2\gamma^2,\ (1-\rho_{\mathrm{np}})\gamma^2",
        kind="limit",
        variables=(RHO_NP, SIGMA2_C, GAMMA2, GROWTH),
        examples=(
            {"rho_np": "1/4", "sigma2_c": 2, "gamma2": 3},
            {"rho_np": "1/2", "sigma2_c": 1, "gamma2": 1},
        ),
        printed=lambda rho_np, gamma2: ((1 - rho_np) ** 2 * gamma2, (1 - rho_np) * gamma2, 0, 0, 0),
        derive=_limits_derive,
        oracle=_limits_oracle,
        condition=lambda growth: sp.true if growth == "fixed" else sp.false,
        condition_text="growth == fixed (gamma2 does not depend on N) and 0 < rho_np < 1",
        counterexample={"rho_np": "1/2", "sigma2_c": 1, "gamma2": 1, "growth": "per_group"},
        entries=(
            "gap (79), N large",
            "gap (80), N large",
            "optimal error, N large",
            "gap (79), rho to 0",
            "rho to 1",
        ),
        not_computed="limits of functions computed in fedhdp:lemma7:eq79 and eq80",
        not_simulated="limits; the finite-N gaps are simulated in fedhdp:lemma7:eq79 and eq80",
        approach=_limits_approach,
        unit="variance",
        related=("feo2:gamma-prop",),
        remark="FeO2 states that gamma2 is proportional to 1/N_p^2. Then gamma2 vanishes as N grows with the mix fixed, "
        "and so do both gaps: the constant gap belongs to a noise that is made stronger as more clients join.",
    )
)

__all__ = ["opt_out_claims", "rational_limit", "simulate_server"]
