"""FedHDP, the ratio r of two messages' weights: what Section 4 says of it, and Lemma 6 with opt-out of privacy.

Belongs here: claims on r, and the judges of Lemma 6, which FeO2 prints too. Does not belong here: the derivation of the
optimal ratio (server.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp
from sympy import Le

from estimators.closed_forms import aggregation
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.fedhdp.server import (
    TWO_LEVELS,
    float_weights,
    ratio_oracle,
    ratio_simulate,
    simulate_server,
    two_level_oracle,
    two_levels,
)
from theory.papers.shared import GAMMA2, MODEL, N_NP, N_P, ONE, SIGMA2_C, ratio_objective

OPT_OUT = (N_NP, N_P, SIGMA2_C, GAMMA2)
OPT_OUT_EXAMPLES = (
    {"N_np": 2, "N_p": 3, "sigma2_c": 2, "gamma2": 1},
    {"N_np": 1, "N_p": 4, "sigma2_c": 1, "gamma2": "1/4"},
)

# --- Section 4: the useful range of r ------------------------------------------------------------------------------


def _range_derive(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> Derivation:
    d = Derivation()
    r = d.lemma("fedhdp:lemma2:rstar", "the optimal ratio is", N1=N1, N2=N2, sigma2_c=sigma2_c, gamma2_1=gamma2_1,
                gamma2_2=gamma2_2)  # fmt: skip
    return d.conclude("It stays below one by", simplest(1 - r))


def _range_simulate(**v: Any) -> simulation.Simulation:
    """The ratio at which the risk is stationary, read as its distance from one."""
    found = ratio_simulate(**v)
    (ratio,) = found.readings
    reading = replace(ratio, label="one minus the best ratio", of=lambda gap: 1 - gap, back=lambda r: 1 - r)
    return simulation.Simulation(found.experiment, (reading,))


register(
    Claim(
        id="fedhdp:r-le-1",
        title="The useful ratio r lies in [0, 1]",
        place="Section 4 (and Section 3.1.4)",
        statement="""The ratio is bounded by 0 <= r <= 1 when level 2 has the stricter privacy. Judged: 1 - r* is at least 0
            (r* is positive as a ratio of variances).""",
        latex=r"0\leq r\leq 1",
        kind="order",
        variables=TWO_LEVELS,
        examples=({"N1": 2, "N2": 3, "sigma2_c": 2, "gamma2_1": "1/4", "gamma2_2": 1},),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_range_derive,
        oracle=lambda **v: 1 - ratio_oracle(**v),
        condition=lambda N1, N2, gamma2_1, gamma2_2: Le(N1 * gamma2_1, N2 * gamma2_2),
        condition_text="N1*gamma2_1 <= N2*gamma2_2",
        shifts=lambda N1, N2, gamma2_1, gamma2_2, **_: {
            gamma2_2: (N1 * gamma2_1 + sp.Symbol("more", nonnegative=True)) / N2
        },
        counterexample={"N1": 1, "N2": 5, "sigma2_c": 1, "gamma2_1": 1, "gamma2_2": "4/25"},
        not_computed=Exempt(kind="difference", of=("fedhdp:lemma2:rstar",)),
        simulate=_range_simulate,
        tight=Tight(at={"N1": 1, "N2": 1, "sigma2_c": 1, "gamma2_1": 1, "gamma2_2": 1}),
        assumes=MODEL,
        unit="dimensionless",
        remark="""A per-client noise variance is N_i gamma2_i = z_i^2 S^2 / N_i. A small level 1 with a mild budget can be
            noisier per client than a large level 2 with a strict one: one client with z = 1 against five with z = 2
            gives r* = 2/1.8 > 1. In the opt-out setting (gamma2_1 = 0) the claim always holds.""",
        model=("Value(Optimum)",),
    )
)


MORE = Variable("more", "nonnegative", "what a smaller privacy budget adds to the noise variance of level 2's average")


def _falls_derive(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any, more: Any) -> Derivation:
    d = Derivation()
    level = {"N1": N1, "N2": N2, "sigma2_c": sigma2_c, "gamma2_1": gamma2_1}
    before = d.lemma("fedhdp:lemma2:rstar", "the optimal ratio is", **level, gamma2_2=gamma2_2)
    after = d.lemma("fedhdp:lemma2:rstar", "and with more noise", **level, gamma2_2=gamma2_2 + more)
    return d.conclude("It changes by", simplest(after - before))


def _falls_oracle(more: Any, **v: Any) -> Any:
    return ratio_oracle(**{**v, "gamma2_2": v["gamma2_2"] + more}) - ratio_oracle(**v)


def _falls_simulate(more: float, **v: Any) -> simulation.Simulation | None:
    """The best ratio with more noise, read as what it lost against the one without."""
    if not more:
        return None
    found = ratio_simulate(**{**v, "gamma2_2": v["gamma2_2"] + more})
    (ratio,) = found.readings
    before = float(aggregation.optimal_ratio(v["N1"], v["N2"], v["sigma2_c"], 0.0, v["gamma2_1"], v["gamma2_2"]))
    reading = replace(ratio, label="best ratio with more noise", of=lambda x: before + x, back=lambda r: r - before)
    return simulation.Simulation(found.experiment, (reading,))


register(
    Claim(
        id="fedhdp:r-falls",
        title="The optimal ratio falls with stricter privacy",
        place="Section 4; FeO2, Section 3",
        statement="""Lower privacy budgets require more noise, which leads to a lower value of r. Judged: with more noise on
            level 2 the optimal ratio does not grow.""",
        latex=r"\text{``lower privacy budgets require more noise to be added, leading to a lower value of }r\text{''}",
        kind="order",
        variables=(*TWO_LEVELS, MORE),
        examples=(
            {"N1": 2, "N2": 3, "sigma2_c": 2, "gamma2_1": "1/4", "gamma2_2": 1, "more": 4},
            {"N1": 1, "N2": 2, "sigma2_c": 1, "gamma2_1": 0, "gamma2_2": "1/2", "more": 1},
        ),
        printed=lambda: sp.Integer(0),
        relation="<=",
        derive=_falls_derive,
        oracle=_falls_oracle,
        not_computed=Exempt(kind="difference", of=("fedhdp:lemma2:rstar",)),
        simulate=_falls_simulate,
        tight=Tight(at={"N1": 1, "N2": 1, "sigma2_c": 1, "gamma2_1": 1, "gamma2_2": 1, "more": 0}),
        assumes=MODEL,
        unit="dimensionless",
        related=("fedhdp:lemma2:rstar",),
        model=("Value(Optimum, Optimum)",),
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
    first, second, _ = two_level_oracle(**_opt_out(**v))
    return second / first


def opt_out_variance_oracle(**v: Any) -> Any:
    """Posterior variance of the centre, on concrete clients."""
    return two_level_oracle(**_opt_out(**v))[2]


def opt_out_ratio_computed(N_np: float, N_p: float, sigma2_c: float, gamma2: float) -> float:
    """The ratio by the estimators."""
    return aggregation.optimal_ratio(N_np, N_p, sigma2_c, 0.0, 0.0, gamma2)


def opt_out_variance_computed(N_np: float, N_p: float, sigma2_c: float, gamma2: float) -> float:
    """The variance by the estimators."""
    return aggregation.server_mse([N_np, N_p], [0.0, gamma2], sigma2_c, 0.0)


def opt_out_ratio_simulate(N_np: int, N_p: int, sigma2_c: float, gamma2: float) -> simulation.Simulation:
    """Where the risk's derivative in the ratio is zero."""
    return ratio_simulate(N1=N_np, N2=N_p, sigma2_c=sigma2_c, gamma2_1=0.0, gamma2_2=gamma2)


def opt_out_variance_simulate(N_np: int, N_p: int, sigma2_c: float, gamma2: float) -> simulation.Simulation:
    """The server's squared error at precision weights."""
    weights = float_weights(N_np, N_p, sigma2_c, 0.0, gamma2)
    return simulate_server([N_np, N_p], sigma2_c, [0.0, gamma2], weights)


def opt_out_risk(x: Any, **v: Any) -> Any:
    """The server's risk at the ratio x."""
    return ratio_objective(x, *two_levels(**_opt_out(**v)))


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
        model=("BestWeights",),
        objective=opt_out_risk,
        unit="dimensionless",
        assumes=MODEL,
    )
)
register(
    Claim(
        id="fedhdp:lemma6:var",
        title="Server error variance with opt-out of privacy",
        place="Appendix B, Lemma 6, (78)",
        statement="Error variance of the server's estimate at r*.",
        latex=r"""\sigma_{s,\mathrm{opt}}^2=\frac1N\left[\frac{\sigma_c^2(\sigma_c^2+N_{\mathrm p}\gamma^2)}%
            {\sigma_c^2+\rho_{\mathrm{np}}N_{\mathrm p}\gamma^2}\right]""",
        kind="identity",
        variables=OPT_OUT,
        examples=OPT_OUT_EXAMPLES,
        printed=opt_out_variance,
        derive=opt_out_variance_derive,
        oracle=opt_out_variance_oracle,
        computed=opt_out_variance_computed,
        simulate=opt_out_variance_simulate,
        model=("Value(Server)", "LeastCentre"),
        unit="variance",
        assumes=MODEL,
    )
)
